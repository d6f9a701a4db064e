"""Derivatives of decompositions where values are equal or zero: exact, or refused by name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.core.errors import DomainError
from ftrace.primitives.gaps import join
from ftrace.primitives.ties import turned

RNG = np.random.default_rng(39)
Function = Callable[[Any], Any]


def normal(*shape: int, dtype: str = "f8") -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def unitary(n: int, dtype: str = "f8") -> Any:
    return np.linalg.qr(normal(n, n, dtype=dtype))[0]


def hermitian(*values: float, dtype: str = "f8") -> Any:
    """A Hermitian matrix with these eigenvalues."""
    q = unitary(len(values), dtype)
    return q * np.array(values) @ q.conj().T


def with_values(shape: tuple[int, int], *values: float, dtype: str = "f8") -> Any:
    """A matrix with these singular values."""
    s = np.zeros(shape)
    np.fill_diagonal(s, values)
    return unitary(shape[0], dtype) @ s @ unitary(shape[1], dtype)


def slopes(f: Function, x: Any, h: float = 1e-5) -> Any:
    """The gradient by differences, in the convention of `grad`."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = h
        out[i] = (f(x + e) - f(x - e)) / (2 * h)
        if x.dtype.kind == "c":
            out[i] -= 1j * (f(x + 1j * e) - f(x - 1j * e)) / (2 * h)
    return out


def adjoint(x: Any) -> Any:
    return np.swapaxes(x, -1, -2).conj()


G = {dtype: normal(5, 5, dtype=dtype) for dtype in ("f8", "c16")}


def weighed(x: Any) -> Any:
    """A number that depends on every element of a matrix."""
    g = G["c16" if x.dtype.kind == "c" else "f8"][: x.shape[0], : x.shape[1]]
    return np.sum(g * x).real


# ---------------------------------------------------------------------------------- exact


def lower_space(k: int) -> Function:
    """The projector on the lowest k eigenvectors, and a symmetric function of their eigenvalues."""

    def f(x: Any) -> Any:
        w, v = np.linalg.eigh(x)
        return weighed(v[:, :k] @ adjoint(v[:, :k])) + np.sum(np.exp(w[:k]))

    return f


def left_space(k: int) -> Function:
    """Projectors on the first k singular vectors of both sides, and a sum of their values."""

    def f(x: Any) -> Any:
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        u, vh = u[:, :k], vh[:k]
        return weighed(u @ adjoint(u)) + weighed(adjoint(vh) @ vh) + np.sum(np.sin(s[:k]))

    return f


def together(x: Any) -> Any:
    """U V^H: the unitary factor, which turns with both."""
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    return weighed(u @ vh)


def null_space(x: Any) -> Any:
    """The projector on what a wide matrix of full rank maps to zero."""
    vh = np.linalg.svd(x)[2]
    rest = vh[x.shape[0] :]
    return weighed(adjoint(rest) @ rest)


EXACT: dict[str, tuple[Function, Any]] = {
    "a pair inside": (lower_space(2), hermitian(1, 1, 2, 3)),
    "a pair inside, diagonal": (lower_space(2), np.diag([1.0, 1, 2, 3])),
    "three inside, complex": (lower_space(3), hermitian(1, 1, 1, 3, dtype="c16")),
    "a pair outside": (lower_space(1), hermitian(0, 2, 2)),
    "two pairs": (lower_space(2), hermitian(1, 1, 2, 2)),
    "equal but for rounding": (lower_space(2), hermitian(1, 1 + 1e-15, 2)),
    "close": (lower_space(2), hermitian(1, 1 + 1e-9, 2)),
    "apart, complex": (lower_space(2), hermitian(1, 2, 4, 7, dtype="c16")),
    "the trace of the identity": (lambda x: np.sum(np.linalg.eigh(x)[0] ** 2), np.eye(3)),
    "symmetric in equal values": (lambda x: np.sum(np.linalg.eigvalsh(x) ** 3), np.eye(3)),
    "singular values": (left_space(2), with_values((4, 3), 2, 2, 1)),
    "singular values, wide": (left_space(2), with_values((3, 4), 2, 2, 1, dtype="c16")),
    "singular values of zero": (left_space(1), with_values((4, 3), 2, 0, 0)),
    "one of zero": (left_space(2), with_values((3, 3), 3, 2, 0, dtype="c16")),
    "the unitary factor": (together, with_values((3, 3), 2, 2, 1)),
    "the unitary factor of a unitary": (together, unitary(3, "c16")),
    "the unitary factor, tall": (together, with_values((4, 2), 1, 1)),
    "a null space": (null_space, with_values((2, 4), 2, 1)),
    "a null space, complex": (null_space, with_values((2, 4), 1, 1, dtype="c16")),
    "squares of singular values": (
        lambda x: np.sum(np.linalg.svdvals(x) ** 2),
        with_values((3, 4), 2, 2, 0),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_function_of_whole_spaces_has_its_derivative(name: str) -> None:
    f, x = EXACT[name]
    found = ftrace.grad(f)(x)
    np.testing.assert_allclose(found, slopes(f, x), atol=1e-7 * max(1, np.abs(found).max()))


def test_compiled_and_batched_derivatives_at_equal_values_are_the_same() -> None:
    for f, xs in (
        (lower_space(2), [hermitian(1, 1, 2, 3), hermitian(1, 2, 3, 4)]),
        (left_space(2), [with_values((4, 3), 2, 2, 1), with_values((4, 3), 3, 2, 0)]),
    ):
        expected = [ftrace.grad(f)(x) for x in xs]
        np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(xs[0]), expected[0], atol=1e-12)
        found = ftrace.jit(ftrace.vmap(ftrace.grad(f)))(np.stack(xs))
        np.testing.assert_allclose(found, expected, atol=1e-12)
        nested = ftrace.vmap(ftrace.vmap(ftrace.grad(f)))(np.stack(xs)[:, None])
        np.testing.assert_allclose(nested[:, 0], expected, atol=1e-12)


# ---------------------------------------------------------------------------------- refused


def rebuilt(f: Function) -> Function:
    """V f(w) V^H, of which off-diagonal elements are lost where eigenvalues are equal."""

    def g(x: Any) -> Any:
        w, v = np.linalg.eigh(x)
        return weighed(v * f(w) @ adjoint(v))

    return g


def put_together(x: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return weighed(u * np.sin(s) @ vh)


def one_vector(x: Any) -> Any:
    return np.abs(np.linalg.eigh(x)[1][0, 0]) ** 2


REFUSED: dict[str, tuple[Function, Any, str]] = {
    "a matrix function": (rebuilt(np.exp), hermitian(1, 1, 2), "eigenvalues 0 and 1 are both 1"),
    "one of the identity": (rebuilt(np.sqrt), np.eye(2), "does not treat them alike"),
    "one that is zero there": (
        lambda x: np.sum(
            np.linalg.eigh(x)[1] * np.log(np.linalg.eigh(x)[0]) @ np.linalg.eigh(x)[1].T
        ),
        np.eye(3),
        "does not treat them alike",
    ),
    "a sum of elements": (
        lambda x: (lambda w, v: np.sum(v * np.exp(w) @ v.T))(*np.linalg.eigh(x)),
        np.eye(3),
        "eigenvalues 0 and",
    ),
    "one element": (
        lambda x: (lambda w, v: (v * np.exp(w) @ v.T)[0, 1])(*np.linalg.eigh(x)),
        np.diag([2.0, 2.0, 3.0]),
        "eigenvalues 0 and 1",
    ),
    "one of equal values": (lambda x: np.linalg.eigh(x)[0][0], np.eye(2), "alike"),
    "values of another call": (
        lambda x: (lambda w, v: weighed(v * np.exp(w) @ v.T))(
            np.linalg.eigvalsh(x), np.linalg.eigh(x)[1]
        ),
        hermitian(1, 1, 2),
        "eigenvalues 0 and 1 .*does not treat them alike",
    ),
    "values of another call, zero there": (
        lambda x: (lambda v, w: weighed(v * (w - 1) @ v.T))(
            np.linalg.eigh(x)[1], ftrace.jit(np.linalg.eigvalsh)(x)
        ),
        np.eye(3),
        "does not treat them alike",
    ),
    "singular values of another call": (
        lambda x: (lambda u, s, vh: weighed(u * np.linalg.svdvals(x) ** 2 @ vh))(
            *np.linalg.svd(x, full_matrices=False)
        ),
        with_values((4, 3), 2, 2, 1),
        "singular values 0 and 1 .*does not treat them alike",
    ),
    "of zero, of another call": (
        lambda x: (lambda u, s, vh: weighed(u * np.linalg.svdvals(x) @ vh))(
            *np.linalg.svd(ftrace.lax.stop_gradient(x), full_matrices=False)
        ),
        with_values((4, 2), 2, 0),
        "singular value 1 is .* to rounding, and the function has a kink there",
    ),
    "of zero, of lstsq": (
        lambda x: np.sum(np.linalg.lstsq(x, np.ones(4), rcond=None)[3]),
        with_values((4, 2), 2, 0),
        "kink",
    ),
    "one of equal values alone": (lambda x: np.linalg.eigvalsh(x)[0], hermitian(1, 1, 2), "alike"),
    "a single vector": (one_vector, hermitian(1, 1, 2), "depends on which vectors"),
    "a phase": (
        lambda x: np.linalg.eigh(x)[1][0, 0].imag,
        hermitian(1, 2, 3, dtype="c16"),
        "depends on which vectors it has",
    ),
    "singular values": (put_together, with_values((3, 3), 2, 2, 1), "singular values 0 and 1"),
    "of zero, tall": (put_together, np.eye(3, 2) * [1.0, 0.0], "singular value 1 is 0"),
    "one element, beside what is mapped to": (
        lambda x: (lambda u, s, vh: (u * np.sin(s) @ vh)[2, 1])(*np.linalg.svd(x, False)),
        np.eye(3, 2) * [1.0, 0.0],
        "singular value 1 is 0",
    ),
    "antisymmetric parts of zero": (
        lambda x: (lambda m: m[1, 2] - m[2, 1])(
            (lambda u, s, vh: u * np.sin(s) @ vh)(*np.linalg.svd(x))
        ),
        np.diag([1.0, 0.0, 0.0]),
        "is 0 to rounding|are both 0 to rounding",
    ),
    "of zero, complex": (put_together, with_values((3, 3), 2, 1, 0, dtype="c16"), "singular value"),
    "the basis of a null space": (
        lambda x: np.linalg.svd(x)[2][2, 0],
        with_values((2, 4), 2, 1),
        "the basis that was chosen",
    ),
    "a vector of zero": (
        lambda x: np.linalg.svd(x, full_matrices=False)[0][0, 1] ** 2,
        with_values((4, 2), 1, 0),
        "singular value 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_the_choice_of_vectors_is_refused(name: str) -> None:
    f, x, words = REFUSED[name]
    with pytest.raises(DomainError, match=words) as caught:
        ftrace.grad(f)(x)
    assert "At " in str(caught.value)


def test_a_compiled_derivative_is_refused_when_it_runs() -> None:
    f = ftrace.jit(ftrace.grad(rebuilt(np.exp)))
    assert np.isfinite(f(hermitian(1, 2, 3))).all()
    with pytest.raises(DomainError, match="eigenvalues 0 and 1 are both 1 to rounding"):
        f(hermitian(1, 1, 2))
    both = ftrace.jit(ftrace.vmap(ftrace.grad(rebuilt(np.exp))))
    with pytest.raises(DomainError, match=r"eigenvalues 1 and 2 of matrix \(1,\) are both 2"):
        both(np.stack([hermitian(1, 2, 3), hermitian(1, 2, 2)]))


def test_values_that_are_weighed_alike_have_their_derivative_beside_equal_ones() -> None:
    x = hermitian(1, 1, 2)
    g = ftrace.grad(lambda x: np.linalg.eigvalsh((x + x.T) / 2)[2])(x)
    np.testing.assert_allclose(np.linalg.eigvalsh(g), [0, 0, 1], atol=1e-14)
    f = ftrace.grad(lambda x: np.where(x[0, 0] > 9, np.linalg.eigvalsh(x)[0], np.sum(x)))
    np.testing.assert_array_equal(f(np.eye(3)), np.ones((3, 3)))


def test_norms_have_a_generalised_gradient_at_equal_values_and_at_zero() -> None:
    x = with_values((3, 2), 1, 0)
    u, _, vh = np.linalg.svd(x)
    g = ftrace.grad(lambda x: np.linalg.norm(x, "nuc"))(x)
    np.testing.assert_allclose(g, np.outer(u[:, 0], vh[0]), atol=1e-14)
    g = ftrace.grad(lambda x: np.linalg.norm(x, 2))(np.eye(4))
    np.testing.assert_allclose(g, np.eye(4) / 4, atol=1e-14)


def test_an_untaken_side_is_not_refused() -> None:
    def f(x: Any) -> Any:
        return np.where(x[0, 0] > 5, rebuilt(np.exp)(x), np.sum(x))

    np.testing.assert_array_equal(ftrace.grad(f)(np.eye(3)), np.ones((3, 3)))


def test_forward_mode_goes_on_where_equal_values_move_together() -> None:
    f, x = rebuilt(np.exp), hermitian(1, 1, 2)
    v = np.linalg.eigh(x)[1]
    t = (v * [1.0, 1.0, 0.5]) @ v.T
    _, moved = ftrace.jvp(f, (x,), (t,))
    h = 1e-5
    np.testing.assert_allclose(moved, (f(x + h * t) - f(x - h * t)) / (2 * h), rtol=1e-7)
    with pytest.raises(DomainError, match="forward mode cannot tell"):
        ftrace.jvp(f, (x,), (normal(3, 3),))
    with pytest.raises(DomainError, match="the tangent moves it"):
        ftrace.jvp(put_together, (with_values((4, 2), 1, 0),), (normal(4, 2),))


def test_second_derivatives_are_refused_where_first_ones_are_matrix_functions() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(np.linalg.eigvalsh(x)))

    x = np.eye(2)
    np.testing.assert_allclose(ftrace.grad(f)(x), x, atol=1e-15)
    with pytest.raises(DomainError, match="eigenvalues 0 and 1"):
        ftrace.hessian(f)(x)
    apart = hermitian(1, 2, 4)
    expected = slopes(lambda a: weighed(ftrace.grad(f)(a)), apart)
    found = ftrace.grad(lambda a: weighed(ftrace.grad(f)(a)))(apart)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("kind", ["hermitian", "singular", "sums"])
def test_gaps_do_not_depend_on_how_numbers_lie_in_memory(kind: Any) -> None:
    w = np.sort(RNG.uniform(1, 2, (3, 4)), axis=-1)
    k = normal(3, 4, 4)
    k, ct = k + np.swapaxes(k, -1, -2), w + 1
    expected = join(ct, k, w, kind=kind)
    plus = kind == "sums"
    for i in np.ndindex(3, 4, 4):
        (m, r, c) = i
        gap = w[m, c] + w[m, r] if plus else w[m, c] - w[m, r]
        slope = k[i] / gap if gap else 0.0
        assert expected[i] == pytest.approx(slope + (ct[m, r] if r == c else 0), rel=1e-12)
    for found in (
        join(ct, np.asfortranarray(k), np.asfortranarray(w), kind=kind),
        join(*(np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0) for x in (ct, k, w)),
             kind=kind),
    ):  # fmt: skip
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["f8", "c16", "f4"])
def test_turned_vectors_span_the_same_spaces(dtype: str) -> None:
    w = np.array([[1, 1, 1, 2], [0, 0, 3, 3], [1, 2, 3, 4]], "f8" if dtype == "c16" else dtype)
    v = np.stack([unitary(4, "c16" if dtype == "c16" else "f8").astype(dtype) for _ in w])
    found = turned(v, w)
    tolerance = 1e-5 if dtype == "f4" else 1e-14
    np.testing.assert_allclose(found @ adjoint(found), np.eye(4) + 0 * v, atol=tolerance)
    before, after = ((x * w[:, None]) @ adjoint(x) for x in (v, found))
    np.testing.assert_allclose(after, before, atol=10 * tolerance)
    np.testing.assert_array_equal(found[2], v[2])
    assert np.abs(found[0, :, :3] - v[0, :, :3]).min() > 1e-3

"""Decompositions of numpy.linalg: NumPy's bits, types and errors; derivatives by differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.errors import DomainError, RuleError

RNG = np.random.default_rng(40)
Function = Callable[..., Any]


def normal(*shape: int, dtype: str = "f8") -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def adjoint(x: Any) -> Any:
    return np.swapaxes(x, -1, -2).conj()


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


TALL, WIDE, SQUARE, STACK = normal(5, 3), normal(2, 4), normal(3, 3), normal(2, 3, 2)
COMPLEX, SINGLE = normal(3, 3, dtype="c16"), normal(3, 3, dtype="f4")
DEFICIENT = np.outer(normal(4), normal(3)) + np.outer(normal(4), normal(3))
NONE, NO_MATRIX = np.zeros((0, 3)), np.zeros((0, 2, 2))

# ---------------------------------------------------------------------------------- values

CALLS: dict[str, tuple[Function, Any]] = {
    **{f"eigh {x.dtype}": (np.linalg.eigh, x) for x in (SQUARE, COMPLEX, SINGLE, NO_MATRIX)},
    "eigh of the upper triangle": (lambda x: np.linalg.eigh(x, "u"), COMPLEX),
    "eigh of integers": (np.linalg.eigh, np.array([[2, 1], [1, 3]])),
    "eigvalsh": (lambda x: np.linalg.eigvalsh(x, UPLO="U"), COMPLEX),
    "eigvals": (np.linalg.eigvals, COMPLEX),
    "eig": (np.linalg.eig, COMPLEX),
    "eig of a rotation": (np.linalg.eig, np.array([[0.0, -1.0], [1.0, 0.0]])),
    **{f"svd {x.shape}": (np.linalg.svd, x) for x in (TALL, WIDE, STACK, COMPLEX, NONE)},
    "svd of single precision": (np.linalg.svd, SINGLE),
    "svd, thin": (lambda x: np.linalg.svd(x, full_matrices=False), WIDE),
    "svd of Hermitian": (lambda x: np.linalg.svd(x, hermitian=True), COMPLEX),
    "svd of Hermitian, values": (
        lambda x: np.linalg.svd(x, compute_uv=False, hermitian=True),
        COMPLEX,
    ),
    "svdvals": (np.linalg.svdvals, STACK),
    "qr": (np.linalg.qr, TALL),
    "qr of wide": (np.linalg.qr, WIDE),
    "qr, complete": (lambda x: np.linalg.qr(x, mode="complete"), STACK),
    "qr, r": (lambda x: np.linalg.qr(x, "r"), COMPLEX),
    "pinv": (np.linalg.pinv, STACK),
    "pinv of few": (lambda x: np.linalg.pinv(x, rtol=np.array([0.5, 0.9])), STACK),
    "pinv of deficient": (lambda x: np.linalg.pinv(x, rcond=1e-10), DEFICIENT),
    "pinv of Hermitian": (lambda x: np.linalg.pinv(x, hermitian=True), COMPLEX),
    "pinv of single precision": (lambda x: np.linalg.pinv(x, rtol=None), SINGLE),
    "matrix_rank": (np.linalg.matrix_rank, DEFICIENT),
    "matrix_rank of a stack": (lambda x: np.linalg.matrix_rank(x, tol=[0.1, 9.0]), STACK),
    "matrix_rank of Hermitian": (lambda x: np.linalg.matrix_rank(x, hermitian=True), SQUARE),
    **{f"cond {p}": (lambda x, p=p: np.linalg.cond(x, p), SQUARE) for p in (None, -2, 1, "fro")},
    "cond of none": (np.linalg.cond, np.zeros((2, 2))),
    "cond of singular": (lambda x: np.linalg.cond(x, 1), np.ones((2, 2))),
    **{f"norm {p}": (lambda x, p=p: np.linalg.norm(x, p), TALL) for p in (2, -2, "nuc")},
    "norm of a stack": (lambda x: np.linalg.norm(x, 2, axis=(0, 2), keepdims=True), STACK),
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled_and_batched_calls_give_numpys_bits_and_types(name: str) -> None:
    f, x = CALLS[name]
    expected = f(x)
    staged, batched = ftrace.jit(f)(x), ftrace.vmap(f)(np.stack([x, x]))
    assert type(staged) is type(expected)
    for e, s, b in zip(*map(as_list, (expected, staged, batched)), strict=True):
        assert (np.asarray(s).dtype, np.shape(s)) == (np.asarray(e).dtype, np.shape(e))
        ulps = 2 * ("cond" in name)  # norms are kernels, which add in another order
        np.testing.assert_allclose(s, e, rtol=ulps * 2e-16)
        np.testing.assert_allclose(b[1], e, rtol=ulps * 2e-16)


@pytest.mark.parametrize("dtype", ["f8", "c16", "f4"])
def test_compiled_programs_ask_nothing_of_python(dtype: str) -> None:
    x = normal(4, 4, dtype=dtype)

    def f(x: Any) -> Any:
        found = *np.linalg.eigh(x), *np.linalg.svd(x), *np.linalg.svd(x[:3], full_matrices=False)
        others = np.linalg.eigvalsh(x), np.linalg.svdvals(x), np.linalg.eigvals(x)
        return (*found, *others, *np.linalg.eig(x))

    run = ftrace.jit(f)
    assert run.lower(x).cost().callbacks == 0
    for a, e in zip(run(x), f(x), strict=True):
        np.testing.assert_array_equal(a, e)


def test_least_squares_have_numpys_values_in_compiled_code() -> None:
    for a, b in ((TALL, normal(5)), (WIDE, normal(2, 2)), (SQUARE, normal(3, 1, dtype="c16"))):
        expected, found = np.linalg.lstsq(a, b), ftrace.jit(np.linalg.lstsq)(a, b)
        for e, x in zip(expected, found, strict=True):
            np.testing.assert_allclose(x, e, rtol=1e-13, atol=1e-14)
            assert (x.shape, x.dtype) == (np.shape(e), np.asarray(e).dtype)
    b = normal(4)
    found = ftrace.jit(lambda a: np.linalg.lstsq(a, b, rcond=1e-10))(DEFICIENT)
    expected = np.linalg.lstsq(DEFICIENT, b, rcond=1e-10)
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1].shape == (1,)  # NumPy gives none: that is a question of values
    assert found[2] == 2


REFUSED: dict[str, tuple[Function, Any]] = {
    "eigh of what is not square": (np.linalg.eigh, TALL),
    "eig of what is not square": (np.linalg.eig, TALL),
    "a triangle that is none": (lambda x: np.linalg.eigh(x, "x"), SQUARE),
    "svd of a vector": (np.linalg.svd, TALL[0]),
    "svd of NaN": (np.linalg.svd, np.full((2, 2), np.nan)),
    "eig of NaN": (np.linalg.eig, np.full((2, 2), np.nan)),
    "svd of half precision": (np.linalg.svd, SQUARE.astype("f2")),
    "a mode that is none": (lambda x: np.linalg.qr(x, "x"), SQUARE),
    "qr of a vector": (np.linalg.qr, TALL[0]),
    "two tolerances": (lambda x: np.linalg.matrix_rank(x, 1.0, rtol=1.0), SQUARE),
    "two tolerances of pinv": (lambda x: np.linalg.pinv(x, 1.0, rtol=1.0), SQUARE),
    "cond of nothing": (np.linalg.cond, np.zeros((0, 2))),
    "cond in another norm": (lambda x: np.linalg.cond(x, 1), TALL),
    "a norm that is none": (lambda x: np.linalg.norm(x, 3), SQUARE),
    "lstsq of other rows": (lambda x: np.linalg.lstsq(x, np.ones(4)), TALL),
    "lstsq of a stack": (lambda x: np.linalg.lstsq(x, np.ones(3)), STACK),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused_with_its_class_in_compiled_code_too(name: str) -> None:
    f, x = REFUSED[name]
    with pytest.raises(Exception, match=r"\w") as expected:
        f(x)
    with pytest.raises(type(expected.value)):
        ftrace.jit(f)(x)
    with pytest.raises(type(expected.value)):
        ftrace.vmap(f)(x[None])
    with pytest.raises(RuleError, match="mode='raw'"):
        ftrace.jit(lambda x: np.linalg.qr(x, "raw"))(SQUARE)


# ---------------------------------------------------------------------------------- derivatives


def weighed(*results: Any) -> Any:
    """A real number of all parts of all results."""
    total = 0.0
    for k, y in enumerate(results):
        weights = np.cos(np.arange(np.size(y)) + k).reshape(np.shape(y))
        total = total + np.sum(np.real(y) * weights)
        if np.iscomplexobj(y):
            total = total + np.sum(np.imag(y) * np.sin(weights))
    return total


def rebuilt_hermitian(x: Any) -> Any:
    w, v = np.linalg.eigh(x)
    return v * np.exp(-0.3 * w)[..., None, :] @ adjoint(v), np.sin(w)


def rebuilt(x: Any, full: bool = False) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    first, second = u[..., :k], vh[..., :k, :]
    parts = first * np.exp(s)[..., None, :] @ second, first[..., :1] @ adjoint(first[..., :1])
    return (*parts, adjoint(u[..., k:]) @ u[..., k:], adjoint(vh[..., k:, :]) @ vh[..., k:, :])


def factors(x: Any, mode: str = "reduced") -> Any:
    q, r = np.linalg.qr(x, mode)
    k = min(x.shape[-2:])
    return q[..., :k], r, q[..., k:] @ adjoint(q[..., k:])


def general(x: Any) -> Any:
    w, v = np.linalg.eig(x)
    return w, v, v * np.sin(w) @ np.linalg.inv(v)


def solution(a: Any, b: Any) -> Any:
    x, residuals, _, s = np.linalg.lstsq(a, b, rcond=1e-10)
    return x, residuals, s


HILBERT = 1.0 / (1 + np.add.outer(np.arange(5), np.arange(5)))
SMOOTH: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "eigh": (rebuilt_hermitian, (normal(2, 3, 3),)),
    "eigh of complex": (rebuilt_hermitian, (COMPLEX,)),
    "eigh, ill-conditioned": (rebuilt_hermitian, (HILBERT,)),
    "real eigenvectors": (np.linalg.eigh, (SQUARE,)),
    "eigvalsh": (np.linalg.eigvalsh, (normal(2, 3, 3, dtype="c16"),)),
    "svd": (rebuilt, (TALL,)),
    "svd of wide": (rebuilt, (WIDE,)),
    "svd of a stack": (rebuilt, (STACK,)),
    "svd of complex": (rebuilt, (normal(2, 3, dtype="c16"),)),
    "svd, full": (lambda x: rebuilt(x, True), (TALL,)),
    "svd, full, of complex": (lambda x: rebuilt(x, True), (normal(2, 4, dtype="c16"),)),
    "svd, ill-conditioned": (rebuilt, (HILBERT[:, :4],)),
    "svd of Hermitian": (
        lambda x: np.linalg.svd(x, hermitian=True)[0] ** 2,
        (SQUARE,),
    ),
    "svdvals": (np.linalg.svdvals, (normal(3, 2, dtype="c16"),)),
    "qr": (factors, (TALL,)),
    "qr of wide": (factors, (WIDE,)),
    "qr of complex": (factors, (normal(2, 3, 2, dtype="c16"),)),
    "qr, complete": (lambda x: factors(x, "complete"), (TALL,)),
    "eig": (general, (SQUARE,)),
    "eig of complex": (general, (COMPLEX,)),
    "eigvals": (np.linalg.eigvals, (normal(3, 3),)),
    "pinv": (np.linalg.pinv, (TALL,)),
    "pinv of complex": (np.linalg.pinv, (normal(2, 3, dtype="c16"),)),
    "pinv of Hermitian": (lambda x: np.linalg.pinv(x, hermitian=True), (COMPLEX,)),
    "lstsq": (solution, (TALL, normal(5, 2))),
    "lstsq of wide": (solution, (WIDE, normal(2))),
    "lstsq of complex": (solution, (normal(4, 3, dtype="c16"), normal(4, 2, dtype="c16"))),
    **{f"cond {p}": (lambda x, p=p: np.linalg.cond(x, p), (SQUARE,)) for p in (None, -2, 1)},
    **{f"norm {p}": (lambda x, p=p: np.linalg.norm(x, p), (TALL,)) for p in (2, -2, "nuc")},
}


def slope(f: Function, args: Any, directions: Any, step: float = 1e-5) -> Any:
    """Central differences, extrapolated once."""

    def central(h: float) -> Any:
        plus, minus = (
            [x + s * h * d for x, d in zip(args, directions, strict=True)] for s in (1, -1)
        )
        return (f(*plus) - f(*minus)) / (2 * h)

    return (4 * central(step) - central(2 * step)) / 3


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_first_and_second_order_agree_with_differences(name: str) -> None:
    f, args = SMOOTH[name]

    def total(*args: Any) -> Any:
        return weighed(*as_list(f(*args)))

    step = 1e-7 if "ill" in name else 1e-5
    t, v = ([normal(*x.shape, dtype=x.dtype.str[1:]) for x in args] for _ in range(2))
    numbers = tuple(range(len(args)))
    value, grads = ftrace.value_and_grad(total, numbers)(*args)
    assert value == pytest.approx(total(*args), rel=1e-12)
    expected = slope(total, args, t, step)
    found = sum(np.sum(np.real(g * d)) for g, d in zip(grads, t, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    _, pushed = ftrace.jvp(total, tuple(args), tuple(t))
    np.testing.assert_allclose(pushed, found, rtol=1e-9, atol=1e-10)

    def along(*xs: Any) -> Any:
        return ftrace.jvp(total, xs, tuple(t))[1]

    second = ftrace.grad(along, numbers)(*args)
    found = sum(np.sum(np.real(g * d)) for g, d in zip(second, v, strict=True))
    np.testing.assert_allclose(found, slope(along, args, v, step), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["eigh", "svd of complex", "qr, complete", "eig", "lstsq"])
def test_compiled_and_batched_gradients_are_those_of_the_interpreter(name: str) -> None:
    f, args = SMOOTH[name]
    gradient = ftrace.grad(lambda *xs: weighed(*as_list(f(*xs))), tuple(range(len(args))))
    expected = gradient(*args)
    stacks = [np.stack([x, x[..., ::-1]]) for x in args]
    batched = ftrace.vmap(gradient)(*stacks)
    other = gradient(*[x[1] for x in stacks])
    for e, o, c, b in zip(expected, other, ftrace.jit(gradient)(*args), batched, strict=True):
        np.testing.assert_allclose(c, e, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(b, np.stack([e, o]), rtol=1e-11, atol=1e-12)


def test_a_pseudo_inverse_of_deficient_rank_has_its_derivative_along_the_rank() -> None:
    left, right = normal(4, 2), normal(2, 3)
    b = normal(4)
    for f in (
        lambda x, y: weighed(np.linalg.pinv(x @ y, rcond=1e-10)),
        lambda x, y: weighed(np.linalg.lstsq(x @ y, b, rcond=1e-10)[0]),
    ):
        t = normal(4, 2), normal(2, 3)
        grads = ftrace.grad(f, (0, 1))(left, right)
        found = sum(np.sum(g * d) for g, d in zip(grads, t, strict=True))
        np.testing.assert_allclose(found, slope(f, (left, right), t), rtol=1e-6)


def test_a_factorisation_of_dependent_columns_has_no_derivative() -> None:
    f = ftrace.grad(lambda x: np.sum(np.linalg.qr(x)[0]))
    with pytest.raises(DomainError, match="element 1 on the diagonal of R is 0"):
        f(np.ones((3, 2)))
    with pytest.raises(DomainError, match="the basis that was chosen"):
        ftrace.grad(lambda x: np.linalg.qr(x, "complete")[0][0, 4])(TALL)
    with pytest.raises(DomainError, match=r"of matrix \(1,\)"):
        ftrace.jit(ftrace.vmap(f))(np.stack([TALL, np.ones((5, 3))]))


def test_eigenvalues_of_a_defective_matrix_are_refused_but_for_symmetric_functions() -> None:
    x = np.array([[1.0, 1.0], [0.0, 1.0]])
    found = ftrace.grad(lambda x: np.sum(np.linalg.eigvals(x)).real)(x)
    np.testing.assert_allclose(found, np.eye(2), atol=1e-12)
    with pytest.raises(DomainError, match="eigenvalues 0 and 1 are both"):
        ftrace.grad(lambda x: np.linalg.eigvals(x)[0].real)(x)


def test_functions_of_ftrace_numpy_are_numpys_where_nothing_is_traced() -> None:
    assert fnp.linalg.eig(np.eye(2)).eigenvalues.dtype == "f8"
    assert fnp.linalg.lstsq(DEFICIENT, np.ones(4))[1].shape == (0,)

"""Linear equations of numpy.linalg: NumPy's bits and errors, derivatives against differences."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import DomainError, MatrixError

RNG = np.random.default_rng(38)
Function = Callable[..., Any]


def normal(*shape: int, dtype: str = "f8") -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def definite(*shape: int, dtype: str = "f8") -> Any:
    x = normal(*shape, dtype=dtype)
    return x @ np.swapaxes(x.conj(), -1, -2) + np.eye(shape[-1], dtype=dtype)


CALLS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "solve": (np.linalg.solve, (normal(5, 5), normal(5, 2))),
    "solve a vector": (np.linalg.solve, (normal(2, 6, 6), normal(6))),
    "solve and broadcast": (np.linalg.solve, (normal(3, 3, dtype="c16"), normal(2, 1, 3, 2))),
    "solve in two precisions": (np.linalg.solve, (normal(5, 5, dtype="f4"), normal(2, 5, 1))),
    "solve integers": (np.linalg.solve, (np.eye(5, dtype=int) * 3, np.arange(5))),
    "solve none": (np.linalg.solve, (np.zeros((0, 0)), np.zeros((0, 2)))),
    "solve a stack of none": (np.linalg.solve, (np.zeros((0, 2, 2)), np.zeros((0, 2, 1)))),
    "inv": (np.linalg.inv, (normal(2, 5, 5),)),
    "inv of single precision": (np.linalg.inv, (normal(3, 3, dtype="c8"),)),
    "det": (np.linalg.det, (normal(2, 5, 5),)),
    "det of one": (np.linalg.det, (normal(3, 3, dtype="c16"),)),
    "det of integers": (np.linalg.det, (np.diag([2, 1, 3, 4, 5]),)),
    "slogdet": (np.linalg.slogdet, (normal(2, 5, 5),)),
    "slogdet of complex": (np.linalg.slogdet, (normal(3, 3, dtype="c16"),)),
    "cholesky": (np.linalg.cholesky, (definite(2, 5, 5),)),
    "cholesky upper": (lambda a: np.linalg.cholesky(a, upper=True), (definite(3, 3, dtype="c16"),)),
    "tensorsolve": (np.linalg.tensorsolve, (normal(2, 3, 6), normal(2, 3))),
    "tensorsolve axes": (
        lambda a, b: np.linalg.tensorsolve(a, b, axes=(1,)),
        (normal(2, 6, 3), normal(2, 3)),
    ),
    "tensorinv": (lambda a: np.linalg.tensorinv(a, 1), (normal(6, 2, 3),)),
}
SMALL: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "small solve": (np.linalg.solve, (normal(3, 4, 4), normal(3, 4, 2))),
    "small solve of a vector": (np.linalg.solve, (normal(2, 2), normal(2))),
    "small solve of integers": (np.linalg.solve, (np.array([[2, 1], [1, 3]]), np.array([1, 2]))),
    "small inv": (np.linalg.inv, (normal(2, 3, 3),)),
    "small inv of single precision": (np.linalg.inv, (normal(3, 3, dtype="f4"),)),
    "small det": (np.linalg.det, (normal(2, 4, 4),)),
    "small slogdet": (np.linalg.slogdet, (normal(2, 4, 4),)),
    "small slogdet of one": (np.linalg.slogdet, (np.array([[-2.0]]),)),
    "small cholesky": (np.linalg.cholesky, (definite(2, 4, 4),)),
    "small cholesky upper": (lambda a: np.linalg.cholesky(a, upper=True), (definite(3, 3),)),
    "matrix_power": (lambda a: np.linalg.matrix_power(a, -3), (normal(3, 3),)),
}
ALL = CALLS | SMALL
over_calls = pytest.mark.parametrize("name", ALL)


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@over_calls
def test_compiled_and_batched_calls_give_numpys_bits_and_types(name: str) -> None:
    f, args = ALL[name]
    expected = f(*args)
    staged = ftrace.jit(f)(*args)
    assert type(staged) is type(expected)
    batched = ftrace.vmap(f)(*[np.stack([x, x]) for x in args])
    for e, s, b in zip(*map(as_list, (expected, staged, batched)), strict=True):
        assert (s.dtype, s.shape) == (e.dtype, e.shape)
        if name in CALLS:  # small ones are kernels, which round otherwise
            np.testing.assert_array_equal(s, e)
            np.testing.assert_array_equal(b[1], e)
        np.testing.assert_allclose(s, e, rtol=1e-6 if e.dtype in ("f4", "c8") else 1e-12)
        np.testing.assert_allclose(b[1], s, rtol=1e-6 if e.dtype in ("f4", "c8") else 1e-12)


def weighted(f: Function) -> Function:
    """A real number of all parts of all results."""

    def total(*args: Any) -> Any:
        found = 0.0
        for k, y in enumerate(as_list(f(*args))):
            weights = np.cos(np.arange(np.size(y)) + k).reshape(np.shape(y))
            found = found + np.sum(np.real(y) * weights)
            if np.iscomplexobj(y):
                found = found + np.sum(np.imag(y) * np.sin(weights))
        return found

    return total


def slope(f: Function, args: Any, directions: Any, step: float = 1e-5) -> Any:
    """Central differences, extrapolated once."""

    def central(h: float) -> Any:
        plus, minus = (
            [x + s * h * d for x, d in zip(args, directions, strict=True)] for s in (1, -1)
        )
        return (f(*plus) - f(*minus)) / (2 * h)

    return (4 * central(step) - central(2 * step)) / 3


SMOOTH = [n for n, (_, args) in ALL.items() if all(x.dtype in ("f8", "c16") for x in args)]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_first_and_second_order_agree_with_differences(name: str) -> None:
    f, args = ALL[name]
    total = weighted(f)
    t, u = ([normal(*x.shape, dtype=x.dtype.str[1:]) for x in args] for _ in range(2))
    numbers = tuple(range(len(args)))
    value, grads = ftrace.value_and_grad(total, numbers)(*args)
    assert value == pytest.approx(total(*args), rel=1e-12)
    expected = slope(total, args, t)
    found = sum(np.sum(np.real(g * d)) for g, d in zip(grads, t, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    _, pushed = ftrace.jvp(total, tuple(args), tuple(t))
    np.testing.assert_allclose(pushed, expected, rtol=1e-6, atol=1e-8)

    def along(*xs: Any) -> Any:
        return ftrace.jvp(total, xs, tuple(t))[1]

    second = ftrace.grad(along, numbers)(*args)
    found = sum(np.sum(np.real(g * d)) for g, d in zip(second, u, strict=True))
    np.testing.assert_allclose(found, slope(along, args, u), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "name", ["solve a vector", "small inv", "small det", "slogdet of complex", "cholesky upper"]
)
def test_compiled_gradients_are_those_of_the_interpreter(name: str) -> None:
    f, args = ALL[name]
    gradient = ftrace.grad(weighted(f), tuple(range(len(args))))
    for a, b in zip(gradient(*args), ftrace.jit(gradient)(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_an_ill_conditioned_system_has_the_derivative_of_its_solution() -> None:
    a = 1.0 / (1 + np.add.outer(np.arange(6), np.arange(6)))  # Hilbert's: condition 1.5e7
    b = a @ np.ones(6)
    x, t = np.linalg.solve(a, b), normal(6, 6)
    _, pushed = ftrace.jvp(lambda a: np.linalg.solve(a, b), (a,), (t,))
    scale = np.abs(a).max() * np.abs(pushed).max()
    np.testing.assert_allclose(a @ pushed, -t @ x, atol=1e-14 * scale)


# ---------------------------------------------------------------------------------- singular


def test_the_imaginary_part_of_a_diagonal_makes_no_matrix_definite() -> None:
    a = np.array([[complex(-1.0, np.nan)]])
    for f in (np.linalg.cholesky, ftrace.jit(np.linalg.cholesky)):
        with pytest.raises(np.linalg.LinAlgError):
            f(a)


@pytest.mark.parametrize(
    "a",
    [
        np.array([[1.0, 2.0], [2.0, 4.0]]),
        np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]),
        np.diag([2.0, 0.0, 3.0]),
        np.diag([2.0, 0.0, 0.0]),
        np.zeros((3, 3)),
        np.zeros((1, 1)),
        np.ones((2, 3, 3)),
    ],
)
def test_the_slope_of_a_determinant_is_its_minors_where_it_is_singular(a: Any) -> None:
    expected = np.zeros(a.shape)
    for *i, j, k in np.ndindex(a.shape):
        minor = np.delete(np.delete(a[tuple(i)], j, 0), k, 1)
        expected[(*i, j, k)] = (-1) ** (j + k) * np.linalg.det(minor)
    f = ftrace.grad(lambda a: np.sum(np.linalg.det(a)))
    np.testing.assert_allclose(f(a), expected, atol=1e-12)
    np.testing.assert_allclose(ftrace.jit(f)(a), expected, atol=1e-12)


def second_minors(a: Any) -> Any:
    """Second derivatives of the determinant: what is left without two rows and two columns."""
    n = len(a)
    out = np.zeros((n,) * 4)
    for i, j, k, m in np.ndindex(out.shape):
        if i != k and j != m:
            rest = np.delete(np.delete(a, (i, k), 0), (j, m), 1)
            out[i, j, k, m] = (-1) ** (i + j + k + m + ((k > i) != (m > j))) * np.linalg.det(rest)
    return out


@pytest.mark.parametrize("n", [2, 3, 5])
def test_second_derivatives_of_a_determinant_are_exact_at_and_near_singular_matrices(
    n: int,
) -> None:
    a = np.random.default_rng(7).normal(size=(n, n))
    equal, near, twice = a.copy(), a.copy(), a.copy()
    equal[:, 0], near[:, 0] = a[:, 1], a[:, 1] * (1 + 1e-12)
    twice[:, 0], twice[0] = a[:, 1], a[1]
    for x in (a, equal, near, twice, np.zeros((n, n))):
        expected = second_minors(x)
        np.testing.assert_allclose(ftrace.hessian(np.linalg.det)(x), expected, atol=1e-13)
        found = ftrace.jit(ftrace.hessian(np.linalg.det))(x)
        np.testing.assert_allclose(found, expected, atol=1e-13)


def test_third_derivatives_of_a_determinant_are_right_or_refused() -> None:
    rng = np.random.default_rng(8)
    a, u, v, w = rng.normal(size=(4, 4, 4))

    def along(f: Any, t: Any) -> Any:
        return lambda x: ftrace.jvp(f, (x,), (t,))[1]

    second = along(along(np.linalg.det, u), v)
    slope = (second(a + w) - second(a - w)) / 2  # of a polynomial of degree 2
    np.testing.assert_allclose(along(second, w)(a), slope, rtol=1e-11)
    np.testing.assert_allclose(np.sum(ftrace.grad(second)(a) * w), slope, rtol=1e-11)
    with pytest.raises(DomainError, match=r"third derivative of det .* all but singular"):
        ftrace.grad(second)(np.ones((4, 4)))
    with pytest.raises(DomainError, match=r"at a matrix \(1,\) that is singular"):
        ftrace.vmap(ftrace.grad(second))(np.stack([a, np.ones((4, 4))]))
    flat = along(along(np.linalg.det, u[:2, :2]), v[:2, :2])
    np.testing.assert_array_equal(ftrace.grad(flat)(np.ones((2, 2))), np.zeros((2, 2)))


def test_a_singular_slogdet_is_zero_and_minus_infinity_as_in_numpy() -> None:
    found = ftrace.jit(np.linalg.slogdet)(np.ones((2, 2)))
    assert found == np.linalg.slogdet(np.ones((2, 2)))


@pytest.mark.parametrize("b", [[np.nan, 1.0], [np.inf, 1.0]])
def test_right_sides_that_are_not_finite_do_not_make_a_matrix_singular(b: Any) -> None:
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    wanted = np.linalg.solve(a, b)
    found, _ = ftrace.jvp(np.linalg.solve, (a, np.array(b)), (a, np.ones(2)))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(ftrace.jit(np.linalg.solve)(a, np.array(b)), wanted)


REFUSED: dict[str, tuple[Function, Any, str]] = {
    "solve": (lambda a: np.linalg.solve(a, np.ones(2)), np.ones((2, 2)), "Singular matrix"),
    "inv": (np.linalg.inv, np.diag([1.0, 0.0]), "Singular matrix"),
    "power": (lambda a: np.linalg.matrix_power(a, -2), np.zeros((2, 2)), "Singular matrix"),
    "cholesky": (np.linalg.cholesky, np.diag([1.0, -1.0]), "not positive definite"),
    "upper": (
        lambda a: np.linalg.cholesky(a, upper=True), np.zeros((2, 2)), "not positive definite"
    ),
    "nan": (np.linalg.inv, np.array([[0.0, 0.0], [0.0, np.nan]]), "Singular matrix"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_matrices_raise_numpys_error_with_the_line_compiled_too(name: str) -> None:
    f, a, words = REFUSED[name]
    good = np.eye(2) * 2

    def called(a: Any) -> Any:
        return np.sum(f(a))

    for g in (ftrace.jit(called), ftrace.grad(called), ftrace.jit(ftrace.grad(called))):
        with pytest.raises(np.linalg.LinAlgError, match=words) as e:
            g(a)
        assert "test_linear_equations.py:" in e.value.__notes__[0]
        assert np.isfinite(g(good)).all()
    with pytest.raises(np.linalg.LinAlgError, match=words) as e:
        ftrace.vmap(called)(np.stack([good, a]))
    assert "batch element 1" in e.value.__notes__[0]


@pytest.mark.parametrize(
    "a",
    [np.full((2, 2), np.nan), np.diag([1.0, np.nan]), np.diag([np.inf, 1.0]), np.eye(2) * 1e308],
)
@pytest.mark.parametrize("f", [np.linalg.inv, np.linalg.cholesky, np.linalg.det])
def test_what_is_not_finite_is_refused_by_both_or_by_none_compiled_too(f: Function, a: Any) -> None:
    with np.errstate(all="ignore"):
        try:
            expected = f(a)
        except np.linalg.LinAlgError:
            with pytest.raises(np.linalg.LinAlgError):
                ftrace.jit(f)(a)
            return
        np.testing.assert_array_equal(ftrace.jit(f)(a), expected)


def test_a_handler_tries_again_compiled_batched_and_differentiated() -> None:
    def factor(a: Any) -> Any:
        try:
            found = np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            found = np.linalg.cholesky(a + 3 * np.eye(2))
        return found.sum()

    good, bad = np.eye(2), -np.eye(2)
    assert ftrace.jit(factor)(good) == 2.0
    assert ftrace.jit(factor)(bad) == 2 * np.sqrt(2)
    np.testing.assert_array_equal(ftrace.vmap(factor)(np.stack([good, bad])), [2.0, 2 * np.sqrt(2)])
    expected = ftrace.grad(lambda a: np.linalg.cholesky(a + 3 * np.eye(2)).sum())(bad)
    np.testing.assert_array_equal(ftrace.grad(factor)(bad), expected)


def test_an_arm_that_is_not_taken_refuses_nothing_compiled_too() -> None:
    def f(a: Any) -> Any:
        return np.linalg.inv(a).sum() if a[0, 0] > 0 else a.sum()

    for g in (f, ftrace.jit(f), lambda a: ftrace.vmap(f)(a[None])[0]):
        assert g(np.zeros((2, 2))) == 0
        with pytest.raises(np.linalg.LinAlgError):
            g(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("f", "a", "words"),
    [
        (lambda a: np.linalg.solve(a, np.ones(2)), np.ones((2, 3)), "must be square"),
        (np.linalg.inv, np.ones(3), "two axes"),
        (np.linalg.det, np.ones((2, 3)), "must be square"),
        (np.linalg.slogdet, np.ones((2, 3)), "must be square"),
        (np.linalg.cholesky, np.ones((2, 3)), "must be square"),
        (lambda a: np.linalg.matrix_power(a, -1), np.ones((2, 3)), "must be equal"),
        (np.linalg.tensorinv, np.ones((2, 3, 4)), "must be square"),
        (lambda a: np.linalg.tensorsolve(a, np.ones(2)), np.ones((2, 3)), "requirement|satisfy"),
    ],
)
def test_shapes_are_refused_with_numpys_class(f: Function, a: Any, words: str) -> None:
    with pytest.raises(np.linalg.LinAlgError):
        f(a)
    for g in (ftrace.jit(f), lambda a: ftrace.vmap(f)(a[None])):
        with pytest.raises(MatrixError, match=words):
            g(a)


def test_other_bad_arguments_are_refused_as_numpy_does() -> None:
    for f, error in (
        (lambda a: np.linalg.solve(a, np.ones(3)), ValueError),
        (lambda a: np.linalg.inv(a.astype("f2")), TypeError),
        (lambda a: np.linalg.tensorinv(a, 0), ValueError),
    ):
        for g in (f, ftrace.jit(f)):
            with pytest.raises(error):
                g(np.eye(2))


def test_every_operand_of_a_system_can_be_mapped() -> None:
    a, b = normal(3, 4, 4), normal(4, 2, 3)
    for dims in itertools.product((0, None), (2, None)):
        if dims == (None, None):
            continue
        args = [
            x if d is not None else np.take(x, 0, axis=i)
            for x, d, i in ((a, dims[0], 0), (b, dims[1], 2))
        ]
        found = ftrace.vmap(np.linalg.solve, dims)(*args)
        for k in range(3):
            one = [
                x if d is None else np.take(x, k, axis=d) for x, d in zip(args, dims, strict=True)
            ]
            np.testing.assert_allclose(found[k], np.linalg.solve(*one), rtol=1e-12)

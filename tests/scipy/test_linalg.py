"""Functions of scipy.linalg: SciPy's values, derivatives against differences, batches, errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as theirs

import ftrace
import ftrace.scipy.linalg as ours
from ftrace.errors import DomainError, MatrixError, ShapeError

RNG = np.random.default_rng(39)


def normal(*shape: int, dtype: str = "f8") -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def regular(n: int, dtype: str = "f8") -> Any:
    return normal(n, n, dtype=dtype) + 3 * np.eye(n)[::-1].astype(dtype)


def definite(n: int, dtype: str = "f8") -> Any:
    a = normal(n, n, dtype=dtype)
    return a @ a.conj().T + np.eye(n, dtype=dtype)


A, Z, P, H = regular(3), regular(3, "c16"), definite(3), definite(3, "c16")
B, V, ZB = normal(3, 2), normal(3), normal(3, 2, dtype="c16")
BANDS = normal(4, 5) + np.array([[0], [0], [5], [0]])
HALF = normal(2, 4, dtype="c16") + np.array([[9], [0]])


def solver(kind: str, lower: bool) -> Callable[[Any], Callable[..., Any]]:
    return lambda m: lambda a, b: m.solve(a, b, assume_a=kind, lower=lower)


def factored(trans: int) -> Callable[[Any], Callable[..., Any]]:
    return lambda m: lambda a, b: m.lu_solve(m.lu_factor(a), b, trans=trans)


def halved(trans: Any, lower: bool, unit: bool) -> Callable[[Any], Callable[..., Any]]:
    how = {"trans": trans, "lower": lower, "unit_diagonal": unit}
    return lambda m: lambda a, b: m.solve_triangular(a, b, **how)


CALLS: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...]]] = {
    "solve": (lambda m: m.solve, (A, B)),
    "solve a vector": (lambda m: m.solve, (Z, V)),
    "solve transposed": (lambda m: lambda a, b: m.solve(a, b, transposed=True), (A, V)),
    **{
        f"solve {kind} {lower}": (solver(kind, lower), (a, B))
        for kind, lower, a in (
            ("pos", False, P),
            ("pos", True, H),
            ("sym", True, A + A.T),
            ("sym", False, Z + Z.T),
            ("her", True, H - 2 * np.eye(3)),
            ("her", False, H - 2 * np.eye(3)),
            ("diagonal", False, np.diag(V)),
            ("upper triangular", False, np.triu(A) + 4 * np.eye(3)),
            ("lower triangular", False, np.tril(A) + 4 * np.eye(3)),
        )
    },
    "solve definite transposed": (
        lambda m: lambda a, b: m.solve(a, b, assume_a="pos", transposed=True), (P, B)
    ),
    "inv": (lambda m: m.inv, (Z,)),
    "inv definite": (lambda m: lambda a: m.inv(a, assume_a="pos"), (P,)),
    "det": (lambda m: m.det, (A,)),
    "cholesky": (lambda m: m.cholesky, (P,)),
    "cholesky lower": (lambda m: lambda a: m.cholesky(a, lower=True), (H,)),
    "cho_solve": (lambda m: lambda a, b: m.cho_solve(m.cho_factor(a), b), (H, B)),
    "cho_solve lower": (lambda m: lambda a, b: m.cho_solve(m.cho_factor(a, True), b), (P, V)),
    "lu": (lambda m: m.lu, (A,)),
    "lu wide": (lambda m: lambda a: m.lu(a, permute_l=True), (normal(2, 4),)),
    "lu tall": (lambda m: lambda a: m.lu(a, p_indices=True), (normal(4, 2, dtype="c16"),)),
    "lu_factor": (lambda m: m.lu_factor, (A,)),
    **{f"lu_solve {t}": (factored(t), (Z, b)) for t, b in ((0, V), (1, ZB), (2, B))},
    **{
        f"solve_triangular {t} {lower} {unit}": (halved(t, lower, unit), (Z + 4 * np.eye(3), b))
        for t, lower, unit, b in ((0, True, False, V), ("T", False, True, ZB), ("C", True, 0, B))
    },
    "expm": (lambda m: m.expm, (A,)),
    "expm_frechet": (lambda m: m.expm_frechet, (A, P)),
    "expm_frechet alone": (lambda m: lambda a, e: m.expm_frechet(a, e, compute_expm=False), (A, P)),
    "solve_sylvester": (lambda m: m.solve_sylvester, (P, definite(2), B)),
    "solve_continuous_lyapunov": (lambda m: m.solve_continuous_lyapunov, (H, ZB @ ZB.T)),
    "solve_discrete_lyapunov": (lambda m: m.solve_discrete_lyapunov, (Z / 9, A)),
    "solve_discrete_lyapunov bilinear": (
        lambda m: lambda a, q: m.solve_discrete_lyapunov(a, q, method="bilinear"), (Z / 9, P)
    ),
    "solve_banded": (lambda m: lambda ab, b: m.solve_banded((1, 2), ab, b), (BANDS, normal(5))),
    "solve_banded tridiagonal": (
        lambda m: lambda ab, b: m.solve_banded((1, 1), ab, b), (BANDS[1:], normal(5, 2))
    ),
    "solveh_banded": (lambda m: m.solveh_banded, (HALF[::-1].copy(), normal(4))),
    "solveh_banded lower": (
        lambda m: lambda ab, b: m.solveh_banded(ab, b, lower=True), (HALF, normal(4, 2))
    ),
    "solve_toeplitz": (lambda m: m.solve_toeplitz, (np.array([5.0, 1.0, 2.0]), V)),
    "solve_toeplitz row": (
        lambda m: lambda c, r, b: m.solve_toeplitz((c, r), b), (np.array([5.0, 1.0, 2.0]), V, B)
    ),
    "toeplitz": (lambda m: m.toeplitz, (normal(3, dtype="c16"),)),
    "toeplitz row": (lambda m: m.toeplitz, (V, normal(4))),
    "circulant": (lambda m: m.circulant, (V,)),
    "hankel": (lambda m: m.hankel, (V,)),
    "hankel row": (lambda m: m.hankel, (V, normal(2))),
    "companion": (lambda m: m.companion, (normal(4),)),
    "block_diag": (lambda m: lambda a, b, v: m.block_diag(a, 2.0, v, b), (A, ZB, V)),
    "fiedler": (lambda m: m.fiedler, (V,)),
    "fiedler_companion": (lambda m: m.fiedler_companion, (normal(5),)),
    "fiedler_companion short": (lambda m: m.fiedler_companion, (normal(2),)),
    "leslie": (lambda m: m.leslie, (V, normal(2))),
    **{
        f"convolution_matrix {mode}": (
            lambda m, mode=mode: lambda a: m.convolution_matrix(a, 4, mode), (V,)
        )
        for mode in ("full", "same", "valid")
    },
}  # fmt: skip
over_calls = pytest.mark.parametrize("name", CALLS)


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@over_calls
def test_traced_calls_give_scipys_values_and_types(name: str) -> None:
    of, args = CALLS[name]
    expected = as_list(of(theirs)(*args))
    staged = as_list(ftrace.jit(of(ours))(*args))
    assert len(staged) == len(expected)
    for e, s in zip(expected, staged, strict=True):
        assert (np.shape(s), s.dtype) == (np.shape(e), np.asarray(e).dtype)
        np.testing.assert_allclose(s, e, rtol=1e-9, atol=1e-10)


@over_calls
def test_batches_are_stacked_calls(name: str) -> None:
    of, args = CALLS[name]
    others = [x * (1 + 2**-5) for x in args]
    expected = [as_list(of(ours)(*xs)) for xs in (args, others)]
    found = as_list(ftrace.vmap(of(ours))(*[np.stack(p) for p in zip(args, others, strict=True)]))
    for k, one in enumerate(expected):
        for e, y in zip(one, found, strict=True):
            np.testing.assert_allclose(y[k], e, rtol=1e-9, atol=1e-10)


def weighted(f: Callable[..., Any]) -> Callable[..., Any]:
    """A real number of all parts of all floating results."""

    def total(*args: Any) -> Any:
        found = 0.0
        for k, y in enumerate(as_list(f(*args))):
            if y.dtype.kind in "fc":
                weights = np.cos(np.arange(np.size(y)) + k).reshape(np.shape(y))
                found = found + np.sum(np.real(y) * weights) + np.sum(np.imag(y) * np.sin(weights))
        return found

    return total


@over_calls
def test_gradients_agree_with_differences_of_scipys_values(name: str) -> None:
    of, args = CALLS[name]
    rng = np.random.default_rng(len(name))
    ts = [np.asarray(rng.normal(size=x.shape), x.dtype) for x in args]
    plain, total = weighted(of(theirs)), weighted(of(ours))

    def central(h: float) -> Any:
        moved = ([x + s * h * t for x, t in zip(args, ts, strict=True)] for s in (1, -1))
        return np.subtract(*(plain(*xs) for xs in moved)) / (2 * h)

    expected = (4 * central(1e-5) - central(2e-5)) / 3
    grads = ftrace.grad(total, tuple(range(len(args))))(*args)
    found = sum(np.sum(np.real(g * t)) for g, t in zip(grads, ts, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_scipys_own_names_are_traced_in_lifted_code_compiled_too() -> None:
    def evidence(k: Any, y: Any) -> Any:
        factor = theirs.cho_factor(k, lower=True)
        half = theirs.solve_triangular(factor[0], y, lower=True)
        return y @ theirs.cho_solve(factor, y) + half @ half + np.log(np.diag(factor[0])).sum()

    expected = evidence(P, V)
    for f in (ftrace.jit(evidence), lambda k, y: ftrace.value_and_grad(evidence)(k, y)[0]):
        np.testing.assert_allclose(f(P, V), expected, rtol=1e-12)
    direction = A + A.T
    slope = np.sum(ftrace.jit(ftrace.grad(evidence))(P, V) * direction)
    h = 1e-6
    by_differences = (evidence(P + h * direction, V) - evidence(P - h * direction, V)) / (2 * h)
    np.testing.assert_allclose(slope, by_differences, rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "args", "error"),
    [
        (ours.cholesky, (-np.eye(2),), np.linalg.LinAlgError),
        (lambda a: ours.solve(a, np.ones(2)), (np.ones((2, 2)),), np.linalg.LinAlgError),
        (lambda a: ours.solve(a, np.ones(2), assume_a="pos"), (-np.eye(2),), np.linalg.LinAlgError),
        (ours.inv, (np.zeros((2, 2)),), np.linalg.LinAlgError),
        (
            lambda a: ours.solve_triangular(a, np.ones(2)),
            (np.diag([1.0, 0]),),
            np.linalg.LinAlgError,
        ),
        (
            lambda a: ours.solve_banded((0, 0), a, np.ones(2)),
            (np.zeros((1, 2)),),
            np.linalg.LinAlgError,
        ),
        (lambda a: ours.solveh_banded(a, np.ones(2)), (-np.ones((1, 2)),), np.linalg.LinAlgError),
        (ours.companion, (np.array([0.0, 1.0]),), ValueError),
        (ours.fiedler_companion, (np.array([0.0, 1.0, 2.0]),), ValueError),
    ],
)
def test_values_that_scipy_refuses_are_refused_compiled_too(f: Any, args: Any, error: Any) -> None:
    with pytest.raises(error):
        f(*args)
    with pytest.raises(error):
        ftrace.jit(f)(*args)


def test_the_remaining_refusals_say_what_is_wrong() -> None:
    a = np.eye(2)
    for f, error, words in (
        (lambda a: ours.solve(a, a, assume_a="round"), DomainError, "'round'"),
        (lambda a: ours.inv(a[:1]), MatrixError, "must be square"),
        (lambda a: ours.solve_triangular(a, a, trans="X"), DomainError, "trans is 'X'"),
        (lambda a: ours.solve_triangular(a, a[0, 0]), MatrixError, "is a number"),
        (lambda a: ours.lu_solve((a, np.arange(2)), a, trans=3), DomainError, "trans is 3"),
        (lambda a: ours.solve_banded((1, 1), a, a), ShapeError, "2 rows for 3 diagonals"),
        (lambda a: ours.expm_frechet(a, a[:1]), ShapeError, "same shape"),
        (lambda a: ours.solve_sylvester(a, a, a[0]), ShapeError, "has to be"),
        (lambda a: ours.solve_sylvester(a, a[:1], a), MatrixError, "must be square"),
        (lambda a: ours.solve_discrete_lyapunov(a, a, "slow"), DomainError, "'slow'"),
        (lambda a: ours.companion(a[0, :1]), ShapeError, "at least 2"),
        (lambda a: ours.toeplitz(a[0, 0]), ShapeError, "takes vectors"),
        (lambda a: ours.leslie(a[0], a[0]), ShapeError, "one less"),
        (lambda a: ours.convolution_matrix(a[0], 0), DomainError, "positive integer"),
        (lambda a: ours.convolution_matrix(a[0], 2, "best"), DomainError, "'best'"),
    ):
        with pytest.raises(error, match=words):
            ftrace.jit(f)(a)


def test_second_derivatives_of_functions_of_matrices_agree_with_differences() -> None:
    for name in ("expm", "solve_sylvester", "cho_solve", "lu_solve 0", "solve_banded"):
        of, args = CALLS[name]
        rng = np.random.default_rng(len(name))
        ts = [np.asarray(rng.normal(size=x.shape), x.dtype) for x in args]
        slope = ftrace.grad(weighted(of(ours)))

        def along(xs: Any, slope: Any = slope, t: Any = ts[0]) -> Any:
            return np.sum(np.real(slope(*xs) * t))

        h = 1e-5
        moved = [[x + s * h * t for x, t in zip(args, ts, strict=True)] for s in (1, -1)]
        expected = (along(moved[0]) - along(moved[1])) / (2 * h)
        found = ftrace.jvp(lambda *xs: along(xs), tuple(args), tuple(ts))[1]
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)

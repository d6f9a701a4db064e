"""scipy.linalg's decompositions and matrix functions: SciPy's values, derivatives, refusals."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import ftrace
from ftrace.errors import ConcretizationTypeError, DomainError, RuleError
from ftrace.scipy import linalg

RNG = np.random.default_rng(41)
Function = Callable[..., Any]


def normal(*shape: int, dtype: str = "f8") -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def adjoint(x: Any) -> Any:
    return np.swapaxes(x, -1, -2).conj()


def definite(n: int, dtype: str = "f8") -> Any:
    x = normal(n, n, dtype=dtype)
    return x @ adjoint(x) / n + np.eye(n)


def with_values(*values: float, dtype: str = "f8") -> Any:
    """A Hermitian matrix with these eigenvalues."""
    q = np.linalg.qr(normal(len(values), len(values), dtype=dtype))[0]
    return q * np.array(values) @ adjoint(q)


def as_list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [x]


S, C, P, TALL, WIDE = (
    normal(4, 4),
    normal(3, 3, dtype="c16"),
    definite(4),
    normal(5, 3),
    normal(2, 4),
)
CALLS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "eigh": ("eigh", (C,), {"lower": False}),
    "eigh of two": ("eigvalsh", (S, P), {}),
    "eigh of some": ("eigh", (S,), {"eigvals_only": True, "subset_by_index": [1, 2]}),
    "eigh of type 2": ("eigvalsh", (S, P), {"type": 2, "lower": False}),
    "eigh of type 3": ("eigvalsh", (S, P), {"type": 3}),
    "eigvalsh": ("eigvalsh", (C,), {}),
    "eigh_tridiagonal": ("eigh_tridiagonal", (S[0], S[1, :3]), {"eigvals_only": True}),
    "eigh_tridiagonal of some": (
        "eigh_tridiagonal",
        (S[0], S[1, :3]),
        {"eigvals_only": True, "select": "i", "select_range": (0, 1)},
    ),
    "eig": ("eig", (C,), {}),
    "eig, left": ("eig", (S,), {"left": True, "right": False}),
    "eigvals": ("eigvals", (S,), {}),
    "svd": ("svd", (TALL,), {}),
    "svd, thin": ("svd", (WIDE,), {"full_matrices": False}),
    "svdvals": ("svdvals", (C,), {}),
    "qr": ("qr", (TALL,), {}),
    "qr, economic": ("qr", (C,), {"mode": "economic"}),
    "qr, r": ("qr", (TALL,), {"mode": "r"}),
    "schur": ("schur", (S,), {}),
    "schur, complex": ("schur", (S,), {"output": "complex"}),
    "hessenberg": ("hessenberg", (S,), {"calc_q": True}),
    "sqrtm": ("sqrtm", (P,), {}),
    "logm": ("logm", (P,), {}),
    "funm": ("funm", (P, np.sin), {}),
    "polar": ("polar", (TALL,), {}),
    "polar, left": ("polar", (WIDE,), {"side": "left"}),
    "polar of complex": ("polar", (C,), {}),
    "pinv": ("pinv", (TALL,), {"return_rank": True}),
    "pinv of few": ("pinv", (TALL,), {"atol": 1.0, "rtol": 0.1}),
    "pinvh": ("pinvh", (C + adjoint(C),), {"lower": False}),
    "lstsq": ("lstsq", (TALL, normal(5, 2)), {}),
    "lstsq of one": ("lstsq", (TALL, normal(5)), {}),
    "lstsq of wide": ("lstsq", (WIDE, normal(2)), {}),
    "subspace_angles": ("subspace_angles", (TALL, normal(5, 2)), {}),
    "subspace_angles, small": ("subspace_angles", (TALL, TALL[:, :2] + 1e-9), {}),
    "norm": ("norm", (TALL, "nuc"), {}),
}


def same(found: Any, expected: Any, name: str) -> None:
    for x, e in zip(as_list(found), as_list(expected), strict=True):
        assert np.shape(x) == np.shape(e)
        if name in ("eig, left", "eigh"):  # vectors up to their phase
            x, e = abs(x), abs(e)
        np.testing.assert_allclose(x, e, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_traced_calls_give_scipys_values_in_compiled_and_lifted_code(name: str) -> None:
    function, args, options = CALLS[name]
    plain = getattr(scipy.linalg, function)
    expected = plain(*args, **options)
    static = tuple(i for i, a in enumerate(args) if not isinstance(a, np.ndarray))
    ours = getattr(linalg, function)
    same(ours(*args, **options), expected, name)
    same(ftrace.jit(lambda *xs: ours(*xs, **options), static_argnums=static)(*args), expected, name)
    same(
        ftrace.jit(lambda *xs: plain(*xs, **options), static_argnums=static)(*args), expected, name
    )


def test_a_generalised_problem_has_vectors_that_solve_it() -> None:
    b = P
    for kind in (1, 2, 3):
        w, v = ftrace.jit(lambda a, b, k=kind: linalg.eigh(a, b, type=k))(S, b)
        a = np.tril(S) + np.tril(S, -1).T
        left, right = {1: (a, b), 2: (a @ b, np.eye(4)), 3: (b @ a, np.eye(4))}[kind]
        np.testing.assert_allclose(left @ v, right @ v * w, atol=1e-12)
        scale = scipy.linalg.eigh(S, b, type=kind)[1]
        np.testing.assert_allclose(abs(v), abs(scale), atol=1e-10)
    t, z = ftrace.jit(linalg.schur)(S)
    t, z = ftrace.jit(linalg.rsf2csf)(t, z)
    np.testing.assert_allclose(z @ t @ adjoint(z), S, atol=1e-12)
    np.testing.assert_array_equal(np.tril(t, -1), 0)


# ---------------------------------------------------------------------------------- derivatives


def weighed(*results: Any) -> Any:
    total = 0.0
    for k, y in enumerate(results):
        weights = np.cos(np.arange(np.size(y)) + k).reshape(np.shape(y))
        total = total + np.sum(np.real(y) * weights)
        if np.iscomplexobj(y):
            total = total + np.sum(np.imag(y) * np.sin(weights))
    return total


def solved_problem(a: Any, b: Any) -> Any:
    w, v = linalg.eigh(a, b)
    return w, v * np.sin(w) @ v.T


def funmh(f: Function) -> Function:
    return lambda x: linalg.funm(x, f, hermitian=True)


SMOOTH: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "eigh of two": (solved_problem, (S, P)),
    "eigvalsh": (linalg.eigvalsh, (C,)),
    "eigh_tridiagonal": (
        lambda d, e: linalg.eigh_tridiagonal(d, e, eigvals_only=True),
        (S[0], S[1, :3]),
    ),
    "eigvals of two": (linalg.eigvals, (S, P)),
    "left vectors": (lambda a: abs(linalg.eig(a, left=True, right=False)[1]) ** 2, (C,)),
    "sqrtm": (linalg.sqrtm, (definite(3),)),
    "sqrtm of complex": (linalg.sqrtm, (definite(2, "c16") + 0.1 * normal(2, 2),)),
    "logm": (linalg.logm, (definite(3),)),
    "logm of complex": (linalg.logm, (definite(2, "c16") + 0.1 * normal(2, 2),)),
    "funm": (lambda a: linalg.funm(a, np.sin), (S,)),
    "funm of Hermitian": (funmh(np.exp), (normal(3, 3),)),
    "funm of Hermitian, complex": (funmh(lambda w: w**3), (C,)),
    "polar": (linalg.polar, (TALL,)),
    "polar, left": (lambda a: linalg.polar(a, "left"), (normal(2, 3, dtype="c16"),)),
    "pinvh": (lambda a: linalg.pinvh(a, lower=False), (P,)),
    "pinv": (linalg.pinv, (TALL,)),
    "lstsq": (lambda a, b: linalg.lstsq(a, b)[:2], (TALL, normal(5))),
    "subspace_angles": (linalg.subspace_angles, (TALL, normal(5, 2))),
    "null_space": (lambda a: (lambda z: z @ z.T)(linalg.null_space(a)), (WIDE,)),
    "orth": (lambda a: (lambda z: z @ z.T)(linalg.orth(a)), (TALL,)),
}
EQUAL: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "sqrtm": (linalg.sqrtm, (4 * np.eye(3),)),
    "logm": (linalg.logm, (with_values(1, 1, 2),)),
    "funm": (funmh(np.exp), (with_values(1, 1, 2),)),
    "funm of the identity": (funmh(np.log), (np.eye(3),)),
    "funm of complex": (funmh(np.exp), (with_values(1, 1, 2, dtype="c16"),)),
    "funm of close ones": (funmh(np.exp), (with_values(1, 1 + 1e-12, 2),)),
    "funm of signs": (funmh(np.sign), (with_values(-1, -1, 2),)),
    "funm of zero": (funmh(lambda w: w * np.sin(w)), (np.zeros((2, 2)),)),
    "polar": (linalg.polar, (np.linalg.qr(normal(4, 4))[0][:, :3] * 2,)),
}


def slope(f: Function, args: Any, directions: Any, step: float = 1e-5) -> Any:
    def central(h: float) -> Any:
        plus, minus = (
            [x + s * h * d for x, d in zip(args, directions, strict=True)] for s in (1, -1)
        )
        return (f(*plus) - f(*minus)) / (2 * h)

    return (4 * central(step) - central(2 * step)) / 3


def check(f: Function, args: Any, second: bool) -> None:
    def total(*args: Any) -> Any:
        return weighed(*as_list(f(*args)))

    t, v = ([normal(*x.shape, dtype=x.dtype.str[1:]) for x in args] for _ in range(2))
    numbers = tuple(range(len(args)))
    value, grads = ftrace.value_and_grad(total, numbers)(*args)
    assert value == pytest.approx(total(*args), rel=1e-10)
    found = sum(np.sum(np.real(g * d)) for g, d in zip(grads, t, strict=True))
    np.testing.assert_allclose(found, slope(total, args, t), rtol=1e-5, atol=1e-7)
    _, pushed = ftrace.jvp(total, tuple(args), tuple(t))
    np.testing.assert_allclose(pushed, found, rtol=1e-9, atol=1e-10)
    if second:

        def along(*xs: Any) -> Any:
            return ftrace.jvp(total, xs, tuple(t))[1]

        found = ftrace.grad(along, numbers)(*args)
        found = sum(np.sum(np.real(g * d)) for g, d in zip(found, v, strict=True))
        np.testing.assert_allclose(found, slope(along, args, v), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_first_and_second_order_agree_with_differences(name: str) -> None:
    check(*SMOOTH[name], second=True)


@pytest.mark.parametrize("name", EQUAL)
def test_matrix_functions_are_exact_at_equal_eigenvalues(name: str) -> None:
    check(*EQUAL[name], second=name in ("sqrtm", "logm"))


def test_compiled_and_batched_gradients_are_those_of_the_interpreter() -> None:
    for f, x in (
        (funmh(np.exp), with_values(1, 1, 2)),
        (linalg.logm, definite(2)),
        (linalg.polar, TALL),
    ):
        gradient = ftrace.grad(lambda x, f=f: weighed(*as_list(f(x))))
        expected = gradient(x)
        np.testing.assert_allclose(ftrace.jit(gradient)(x), expected, atol=1e-12)
        batched = ftrace.vmap(gradient)(np.stack([x, 2 * x]))
        np.testing.assert_allclose(batched[0], expected, atol=1e-12)


def test_a_function_of_matrices_may_close_over_traced_values_compiled_too() -> None:
    def f(x: Any, c: Any) -> Any:
        return weighed(linalg.funm(x, lambda w: np.exp(c * w), hermitian=True))

    x, t = with_values(1, 1, 2), normal(3, 3)
    for y in (x, normal(3, 3)):
        grads = ftrace.jit(ftrace.grad(f, (0, 1)))(y, 0.7)
        found = np.sum(grads[0] * t) + grads[1] * 2
        np.testing.assert_allclose(found, slope(f, (y, 0.7), (t, 2.0)), rtol=1e-7)
    each = ftrace.vmap(ftrace.grad(f), (None, 0))(x, np.array([0.2, 0.7]))
    np.testing.assert_allclose(each[1], ftrace.grad(f)(x, 0.7), rtol=1e-12)
    assert ftrace.grad(ftrace.grad(f, 1), 1)(x, 0.7) == pytest.approx(
        slope(lambda c: ftrace.grad(f, 1)(x, c), (0.7,), (1.0,)), rel=1e-6
    )


REFUSED: dict[str, tuple[Function, type[Exception], str]] = {
    "a range of values": (lambda a: linalg.eigh(a, subset_by_value=[0, 1]), RuleError, "static"),
    "tridiagonal": (
        lambda a: linalg.eigh_tridiagonal(a[0], a[0, 1:], select="v"),
        RuleError,
        "'v'",
    ),
    "too many": (lambda a: linalg.eigh(a, subset_by_index=[2, 9]), DomainError, "2 to 9"),
    "eig of two": (lambda a: linalg.eig(a, a), RuleError, "a second matrix"),
    "pivots": (lambda a: linalg.qr(a, pivoting=True), RuleError, "pivoting=True"),
    "a mode": (lambda a: linalg.qr(a, mode="x"), DomainError, "'x'"),
    "sorted": (lambda a: linalg.schur(a, sort="lhp"), RuleError, "sort="),
    "an output": (lambda a: linalg.schur(a, output="x"), DomainError, "'x'"),
    "a side": (lambda a: linalg.polar(a, "x"), DomainError, "'x'"),
    "a type": (lambda a: linalg.eigh(a, np.eye(4), type=4), DomainError, "1, 2 or 3"),
    "a size of values": (linalg.null_space, ConcretizationTypeError, "columns of a null space"),
    "a slope of schur": (ftrace.grad(lambda a: linalg.schur(a)[0][0, 0]), RuleError, "eigh, sqrtm"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_values_decide_is_refused_by_name(name: str) -> None:
    f, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        ftrace.jit(f)(S)


def test_second_derivatives_of_functions_at_equal_eigenvalues_are_refused() -> None:
    f = ftrace.grad(lambda x: weighed(linalg.funm(x, np.exp, hermitian=True)))
    with pytest.raises(DomainError, match="eigenvalues 0 and 1"):
        ftrace.grad(lambda x: weighed(f(x)))(with_values(1, 1, 2))


@pytest.mark.parametrize("name", ["sqrtm", "logm", "funm"])
def test_estimates_of_errors_are_refused(name: str) -> None:
    """`F, error = logm(A, disp=False)` would take the two rows of a matrix for them."""
    more = (np.exp,) if name == "funm" else ()
    theirs = getattr(scipy.linalg, name)
    a = definite(2)

    def f(a: Any, disp: Any) -> Any:
        found, _ = theirs(a, *more, disp=disp)
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of disp= itself
        assert f(a, False).shape == (2, 2)
        for transform in (ftrace.jit(f, static_argnums=1), ftrace.jacfwd(f)):
            with pytest.raises(RuleError, match=rf"{name} was asked for an estimate of its error"):
                transform(a, False)
        jitted = ftrace.jit(lambda a: getattr(linalg, name)(a, *more, disp=True))
        np.testing.assert_allclose(jitted(a), getattr(linalg, name)(a, *more), atol=1e-12)

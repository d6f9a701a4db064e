"""`numpy.polynomial`: the length of results, which zeros at the end decide about."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.polynomial as npp
import pytest
from numpy.polynomial import chebyshev, hermite, polynomial, polyutils

import ftrace
from ftrace.core.config import update
from ftrace.errors import ShapeError
from ftrace.testing import check_derivatives
from ftrace.tree_util import tree_leaves

BASES = {
    **{"polynomial": "poly", "chebyshev": "cheb", "legendre": "leg"},
    **{"hermite": "herm", "hermite_e": "herme", "laguerre": "lag"},
}
CLASSES = ("Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre")
INNER_ZEROS = ([1.0, 0.0, 2.0], [0.5, 0.0, 0.25], [0.0, 0.0, 0.0, 1.0], [8.0, 0.0, 2.0, 0.0, 1.0])
OTHERS = ([1.5], [0.0], [1.0, 2.0], [1.0, 0.0], [0.0, 0.0, 0.0], [1.0, -2.0, 3.0, 0.5])
SERIES = [np.array(c) for c in (*OTHERS, [2.0, 0.0, 1.0], *INNER_ZEROS)]
RNG = np.random.default_rng(5)


def arrays(result: Any) -> list[Any]:
    return [np.asarray(x) for x in tree_leaves(result)]


def agree(found: Any, wanted: Any, error: float = 1e-12) -> None:
    found, wanted = arrays(found), arrays(wanted)
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=error, atol=error)


def agree_or_refuse(run: Any, args: tuple[Any, ...], wanted: Any, error: float = 1e-12) -> None:
    found: Any = None
    try:
        found = run(*args)
    except ShapeError as refusal:
        found = refusal
    if isinstance(found, ShapeError):
        assert "leaves out" in str(found)
        assert found.fix
    else:
        agree(found, wanted, error)


def numbers(*lengths: int) -> tuple[np.ndarray, ...]:
    return tuple(RNG.uniform(0.3, 1.7, n) for n in lengths)


def functions(base: str) -> Iterator[tuple[str, Callable[..., Any], tuple[int, ...]]]:
    """The functions whose results may end with zeros, and lengths of what they are given."""
    module, prefix = getattr(npp, base), BASES[base]
    for end in ("add", "sub", "mul", "div"):
        for lengths in ((1, 1), (3, 1), (4, 2), (2, 3)):
            yield prefix + end, getattr(module, prefix + end), lengths
    for end in ("mulx", "trim", "fromroots", "int"):
        for n in (1, 3):
            yield prefix + end, getattr(module, prefix + end), (n,)
    for name in (f"{prefix}2poly", f"poly2{prefix}"):
        for n in (1, 2, 4) if hasattr(module, name) else ():
            yield name, getattr(module, name), (n,)
    power = getattr(module, f"{prefix}pow")
    yield f"{prefix}pow", lambda c: power(c, 3), (2,)
    line = getattr(module, f"{prefix}line")
    yield f"{prefix}line", lambda c: line(c[0], c[1]), (2,)


@pytest.mark.parametrize("base", BASES)
def test_every_length_under_every_transformation(base: str) -> None:
    for _, f, lengths in functions(base):
        members = [numbers(*lengths) for _ in range(3)]
        xs = members[0]
        stacked = tuple(map(np.stack, zip(*members, strict=True)))
        looped = [f(*m) for m in members]
        wanted = [np.stack(column) for column in zip(*map(arrays, looped), strict=True)]
        with update(compile=False):
            agree(ftrace.jit(f)(*xs), f(*xs))
            agree(ftrace.vmap(f)(*stacked), wanted)
            check_derivatives(f, *xs, modes=("fwd", "rev"))


def _ends_with_zero(c: np.ndarray) -> bool:
    return len(c) > 1 and c[-1] == 0


@pytest.mark.parametrize("base", BASES)
def test_what_is_not_refused_is_numpys(base: str) -> None:
    """Only what NumPy makes shorter is refused: inner zeros, and sums that vanish, are not."""
    module, prefix = getattr(npp, base), BASES[base]
    for end in ("add", "sub", "mul", "div"):
        f = getattr(module, prefix + end)
        programs: dict[Any, Any] = {}
        for c, d in itertools.product(SERIES, SERIES):
            key = len(c), len(d)
            run = programs.setdefault(key, ftrace.jit(f))
            try:
                wanted = f(c, d)
            except ZeroDivisionError:
                with pytest.raises((ZeroDivisionError, ShapeError)):
                    run(c, d)
                continue
            usual = [x.shape for x in arrays(f(*numbers(*key)))]
            cut = usual != [x.shape for x in arrays(wanted)]
            if cut or _ends_with_zero(c) or _ends_with_zero(d):
                agree_or_refuse(run, (c, d), wanted)
            else:
                agree(run(c, d), wanted)


@pytest.mark.parametrize("base", BASES)
def test_a_line_without_a_slope_is_no_line(base: str) -> None:
    line = getattr(getattr(npp, base), f"{BASES[base]}line")
    agree(ftrace.jit(line)(0.0, 2.0), line(0.0, 2.0))
    agree(ftrace.jit(lambda off: line(off, 0.0))(1.5), line(1.5, 0.0))  # a known one
    with pytest.raises(ShapeError, match=r"numpy\.polynomial leaves out") as caught:
        ftrace.jit(line)(1.5, 0.0)
    assert "Pass coefficients of which the last is not zero" in caught.value.fix
    with pytest.raises(ShapeError, match="by batch element 1") as caught:
        ftrace.vmap(line)(np.array([1.0, 2.0]), np.array([1.0, 0.0]))


@pytest.mark.parametrize("base", BASES)
def test_integrals_and_products_with_x_of_one_coefficient(base: str) -> None:
    module, prefix = getattr(npp, base), BASES[base]
    for end in ("int", "mulx"):
        f, c = getattr(module, prefix + end), np.array([2.5])
        agree(ftrace.jit(f)(c), f(c))
        with pytest.raises(ShapeError, match=r"numpy\.polynomial leaves out"):
            ftrace.jit(f)(np.zeros(1))


def test_coefficients_are_cut_by_size() -> None:
    cut = polyutils.trimcoef
    c = np.array([1.0, -2.0, 0.25])
    for tol in (0, 0.1, 0.25 - 1e-9):
        agree(ftrace.jit(lambda c, t=tol: cut(c, t))(c), cut(c, tol))
        agree(ftrace.jit(cut)(c, tol), cut(c, tol))
    for x in (np.array([0.5]), np.array([0.05]), np.array([np.nan])):
        agree(ftrace.jit(lambda c: cut(c, 0.1))(x), cut(x, 0.1))
    for bad in (c, np.array([1.0, np.nan])):
        with pytest.raises(ShapeError, match=r"numpy\.polynomial leaves out zeros"):
            ftrace.jit(lambda c: cut(c, 0.5))(bad)
    known = ftrace.jvp(lambda s: s * cut(c, 0.5), (2.0,), (1.0,))
    agree(known, (2 * c[:2], c[:2]))
    for tol in (-1.0, np.float64(-1)):
        with pytest.raises(ValueError, match="tol must be non-negative"):
            ftrace.jit(lambda c, t=tol: cut(c, t))(c)
        with pytest.raises(ValueError, match="tol must be non-negative"):
            ftrace.jit(cut)(c, tol)
    agree(ftrace.jit(chebyshev.chebtrim)(np.arange(1, 4)), chebyshev.chebtrim(np.arange(1, 4)))


def test_sums_keep_zeros_signs_and_dtypes() -> None:
    for dtype, other in itertools.product((np.float32, np.float64, np.complex64, int), repeat=2):
        c, d = np.array([-0.0, 0.0, 3.0]).astype(dtype), np.array([-0.0, 2.0]).astype(other)
        for f, x, y in itertools.product((polynomial.polyadd, polynomial.polysub), (c, d), (c, d)):
            if not (f is polynomial.polysub and x is y):
                found, wanted = ftrace.jit(f)(x, y), f(x, y)
                agree(found, wanted)
                np.testing.assert_array_equal(np.signbit(found.real), np.signbit(wanted.real))


@pytest.mark.parametrize("base", BASES)
def test_one_of_two_polynomials_may_be_plain(base: str) -> None:
    c, d = np.array([1.0, 2.0, 3.0, 0.5]), np.array([0.5, 2.0])
    padded = np.array([1.0, 2.0, 0.0, 0.0])  # known zeros are left out
    for end in ("add", "sub", "mul", "div"):
        f = getattr(getattr(npp, base), BASES[base] + end)
        agree(ftrace.jit(lambda d, f=f: f(c, d))(d), f(c, d))
        agree(ftrace.jit(lambda c, f=f: f(c, d))(c), f(c, d))
        agree(ftrace.jit(lambda d, f=f: f(list(c), (d[0], d[1])))(d), f(c, d))
        agree(ftrace.jit(lambda c, f=f: f(c, padded))(c), f(c, padded))


# ---------------------------------------------------------------------------------- classes

C, D = np.array([1.5, -0.5, 0.75, 2.0]), np.array([0.5, 1.25])
METHODS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda kind, c, d: (kind(c) + kind(d)).coef,
    "difference": lambda kind, c, d: (kind(c) - d).coef,
    "product": lambda kind, c, d: (kind(c) * kind(d)).coef,
    "number times": lambda kind, c, d: (d[0] * kind(c)).coef,
    "quotient by a number": lambda kind, c, d: (kind(c) / 2.0).coef,
    "quotient": lambda kind, c, d: (kind(c) // kind(d)).coef,
    "remainder": lambda kind, c, d: (kind(c) % kind(d)).coef,
    "divmod": lambda kind, c, d: [p.coef for p in divmod(kind(c), kind(d))],
    "power": lambda kind, c, d: (kind(d) ** 3).coef,
    "converted": lambda kind, c, d: kind(c, domain=[0, 1]).convert(kind=npp.Chebyshev).coef,
    "trimmed": lambda kind, c, d: kind(c).trim(0.1).coef,
    "value": lambda kind, c, d: kind(c)(d),
}


@pytest.mark.parametrize("name", METHODS)
def test_arithmetic_of_polynomials(name: str) -> None:
    for kind in (getattr(npp, k) for k in CLASSES):

        def f(c: Any, d: Any, kind: Any = kind) -> Any:
            return METHODS[name](kind, c, d)

        with update(compile=False):
            agree(ftrace.jit(f)(C, D), f(C, D))
            agree(ftrace.jvp(f, (C, D), (C, D))[0], f(C, D))
            found = ftrace.vmap(f)(np.stack([C, 2 * C]), np.stack([D, D + 1]))
        for x, y, z in zip(*map(arrays, (found, f(C, D), f(2 * C, D + 1))), strict=True):
            agree((x[0], x[1]), (y, z))


def test_no_handler_takes_a_shape_for_an_error() -> None:
    """NumPy's classes return NotImplemented where their functions raise."""
    p = npp.Polynomial
    with pytest.raises(ShapeError, match=r"numpy\.polynomial leaves out zeros"):
        ftrace.jit(lambda c, d: (p(c) - p(d)).coef)(D, D)

    def handled(f: Callable[..., Any]) -> Callable[..., Any]:
        def g(c: Any) -> Any:
            try:
                return np.real(np.sum(f(c)))
            except ValueError:
                return -100.0

        return g

    for f, c in (
        (lambda c: polynomial.polysub(c, D), D),
        (lambda c: polynomial.polyline(c[0], c[1]), np.array([1.0, 0.0])),
        (polynomial.polymulx, np.zeros(1)),
        (np.roots, np.array([0.0, 1.0, 2.0])),
        (lambda c: np.polydiv(c, C[:3])[1], np.polymul(C[:3], D)),
    ):
        g = handled(f)
        with pytest.raises(ShapeError, match="leaves out"):
            ftrace.jit(g)(c)
        with pytest.raises(ShapeError, match="leaves out"):
            ftrace.vmap(g)(np.stack([c + 1, c]))


def test_functions_that_users_pass_are_checked_by_themselves() -> None:
    def f(c: Any) -> Any:
        return chebyshev.chebinterpolate(lambda x: x * chebyshev.chebsub(c, D)[1], 2)

    agree(ftrace.jit(f)(D + 1), f(D + 1))
    with pytest.raises(ShapeError, match=r"numpy\.polynomial leaves out zeros"):
        ftrace.jit(f)(np.array([3.0, 1.25]))


def test_products_that_underflow_are_refused() -> None:
    tiny = np.array([1.0, 1e-200])
    assert len(hermite.hermmul(tiny, tiny)) == 2
    with pytest.raises(ShapeError, match=r"numpy\.polynomial leaves out zeros"):
        ftrace.jit(hermite.hermmul)(tiny, tiny)


# ---------------------------------------------------------------------------------- numpy.polydiv


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, int])
def test_remainders_of_all_lengths(dtype: Any) -> None:
    for m, n in itertools.product(range(1, 6), range(1, 4)):
        u, v = (np.round(8 * x).astype(dtype) for x in numbers(m, n))
        wanted = np.polydiv(u, v)
        cut = len(wanted[1]) != max(min(n - 1, m), 1)
        if cut:
            agree_or_refuse(ftrace.jit(np.polydiv), (u, v), wanted, 1e-5)
        else:
            agree(ftrace.jit(np.polydiv)(u, v), wanted, 1e-5)
        if dtype is np.float64 and not cut:
            check_derivatives(lambda u, v: np.polydiv(u, v), u, v, modes=("fwd", "rev"))
            found = ftrace.vmap(np.polydiv)(np.stack([u, 3 * u]), np.stack([v, v]))
            agree([x[1] for x in found], np.polydiv(3 * u, v))


def test_remainders_that_are_shorter_are_refused() -> None:
    u, v = np.array([1.0, 3.0, 2.0, 1.0]), np.array([1.0, 1.0, 1.0])
    exact = np.polymul(u, v)
    for dividend in (exact, np.concatenate([exact[:-1], [5.0]]), np.array([0.0, 2.0])):
        with pytest.raises(ShapeError, match=r"numpy\.polydiv leaves out"):
            ftrace.jvp(lambda u: np.polydiv(u, v), (dividend,), (dividend,))
        with pytest.raises(ShapeError, match=r"numpy\.polydiv leaves out"):
            ftrace.jit(np.polydiv)(dividend, v)


@pytest.mark.parametrize("base", BASES)
def test_zero_alone_is_no_smaller_than_zero(base: str) -> None:
    trim = getattr(getattr(npp, base), f"{BASES[base]}trim")
    assert ftrace.jit(ftrace.grad(lambda c: trim(c).sum()))(np.zeros(1)).tolist() == [1.0]
    found = ftrace.jit(ftrace.grad(lambda c: trim(c, 0.5).sum()))(np.full(1, 0.25))
    assert found.tolist() == [0.0]


def test_remainders_with_a_zero_in_front_keep_their_derivatives_or_are_refused() -> None:
    u, v = np.array([1.0, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])
    with pytest.raises(ftrace.errors.ShapeError):
        ftrace.grad(lambda a: np.sum(np.polydiv(a, v)[1]))(u)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, bool])
def test_quotients_have_the_dtype_of_numpys(dtype: Any) -> None:
    u, v = np.array([1, 1, 1]).astype(dtype), np.array([1, 1]).astype(dtype)
    wanted = np.polydiv(u, v)
    for found in (ftrace.jit(np.polydiv)(u, v), ftrace.vmap(np.polydiv)(u[None], v[None])):
        assert [a.dtype for a in found] == [a.dtype for a in wanted]

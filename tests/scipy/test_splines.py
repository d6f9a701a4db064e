"""FITPACK's classes, splines of several variables and fits: SciPy's values, errors, derivatives."""

from typing import Any

import numpy as np
import pytest
import scipy.interpolate as theirs

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import FtraceError, RuleError, ShapeError
from ftrace.scipy import interpolate
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 5.0, 12))
Y, W = RNG.normal(size=12), RNG.uniform(0.5, 1.5, 12)
INSIDE = np.linspace(X[0] + 0.01, X[-1] - 0.02, 7)
AT = np.concatenate([[X[0] - 1.0], INSIDE, [X[-1] + 0.5]])
INNER = np.array([X[4] + 0.01, X[7] - 0.02])
U, V = np.sort(RNG.uniform(0.0, 3.0, 7)), np.sort(RNG.uniform(-1.0, 2.0, 8))
Z = RNG.normal(size=(7, 8))
P, Q = RNG.uniform(0, 1, (2, 40))
R = np.sin(3 * P) * np.cos(Q)

ON_A_LINE: dict[str, tuple[Any, ...]] = {
    "InterpolatedUnivariateSpline": ((X, Y),),
    "LSQUnivariateSpline": ((X, Y, INNER), (X, Y, INNER, W, [-0.5, 6.0])),
    "UnivariateSpline": ((X, Y, None, [None, None], 3, 0), (X, Y), (X, Y, W, [None, None], 3, 2.0)),
}


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


def close(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ON_A_LINE)
def test_splines_of_one_variable_are_scipys(name: str) -> None:
    for args in ON_A_LINE[name]:
        a, b = getattr(interpolate, name)(*args), getattr(theirs, name)(*args)
        close(a.get_knots(), b.get_knots())
        close(a.get_coeffs(), b.get_coeffs())
        close(a.get_residual(), b.get_residual())
        close(a.roots(), b.roots())
        for f in (a, ftrace.scipy.interpolate.UnivariateSpline.from_scipy(b)):
            for ext in (0, 1, "const", 3):
                close(ftrace.jit(lambda at, f=f, e=ext: f(at, ext=e))(AT), b(AT, ext=ext))
            for nu in range(4):
                close(ftrace.jit(lambda at, f=f, nu=nu: f(at, nu))(AT), b(AT, nu))
            close(ftrace.jit(f.derivatives)(INSIDE[2]), b.derivatives(INSIDE[2]))
            for ends in ((0.3, 3.2), (3.2, 0.3), (-9.0, 9.0)):
                close(ftrace.jit(f.integral)(*ends), b.integral(*ends))
            close(ftrace.jit(f.derivative(2))(AT), b.derivative(2)(AT))
            close(ftrace.jit(f.antiderivative(2))(INSIDE), b.antiderivative(2)(INSIDE))
        assert a(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("k", range(1, 6))
def test_fits_of_traced_samples_are_scipys(k: int) -> None:
    ends = [-0.5, 6.0]
    for name, more in (
        ("InterpolatedUnivariateSpline", (None, ends, k)),
        ("LSQUnivariateSpline", (INNER, W, ends, k)),
        ("UnivariateSpline", (W, [None, None], k, 0)),
    ):
        f = ftrace.jit(lambda y, name=name, more=more: getattr(interpolate, name)(X, y, *more))(Y)
        expected = getattr(theirs, name)(X, Y, *more)
        close(f.get_coeffs(), expected.get_coeffs(), 1e-7)
        close(f.get_residual(), expected.get_residual(), 1e-7)
        close(f(AT), expected(AT), 1e-7)


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_splines_of_one_variable(check: str) -> None:
    run, at = CHECKS[check], INSIDE[1:-1]
    run(lambda x, y, at: interpolate.InterpolatedUnivariateSpline(x, y)(at), (X, Y, at))
    run(lambda y, w, at: interpolate.LSQUnivariateSpline(X, y, INNER, w)(at), (Y, W, at))
    run(lambda y: interpolate.UnivariateSpline(X, y, s=0).integral(0.5, 2.0), (Y,))
    smooth: Any = theirs.UnivariateSpline(X, Y, s=1.0)
    run(lambda at: smooth(at, 1) + smooth.derivative()(at), (at,))
    run(lambda a, b: smooth.integral(a, b), (0.4, 2.2))
    run(ftrace.grad(lambda at: np.sum(smooth(at) ** 2)), (at,))
    run(ftrace.grad(lambda y: np.sum(interpolate.LSQUnivariateSpline(X, y, INNER)(at) ** 2)), (Y,))


def test_smoothing_of_traced_samples_is_refused() -> None:
    calls = (
        lambda y: interpolate.UnivariateSpline(X, y),
        lambda y: interpolate.UnivariateSpline(X, y, s=1.0),
        lambda y: interpolate.UnivariateSpline(X, Y, s=y[0]),
        lambda y: interpolate.RectBivariateSpline(U, V, y[0] * Z, s=1.0),
        lambda y: interpolate.SmoothBivariateSpline(P, Q, y[0] * R),
        lambda y: interpolate.make_smoothing_spline(X, y),
        lambda y: interpolate.InterpolatedUnivariateSpline(X, y).roots(),
        lambda y: interpolate.splprep([y, y]),
    )
    for call in calls:
        with pytest.raises(RuleError, match="was asked"):
            ftrace.jit(lambda y, call=call: call(y) and 0.0)(Y)


def test_what_scipy_refuses_is_refused() -> None:
    for name, args in (
        ("UnivariateSpline", (X, Y[:3])),
        ("UnivariateSpline", (X, Y, None, [None, None], 7)),
        ("InterpolatedUnivariateSpline", (X[::-1], Y)),
        ("LSQUnivariateSpline", (X, Y, [9.0])),
        ("UnivariateSpline", (X, Y, None, [None, None], 3, 0, 8)),
        ("RectBivariateSpline", (U, V, Z.T)),
        ("LSQBivariateSpline", (P, Q, R[:3], [0.5], [0.5])),
        ("make_lsq_spline", (X, Y, np.arange(8.0), 3)),
        ("make_smoothing_spline", (X[:4], Y[:4], None, 1.0)),
    ):
        place = 2 if "Bivariate" in name else 1
        rest = [a for i, a in enumerate(args) if i != place]

        def call(y: Any, name: str = name, rest: Any = rest, place: int = place) -> Any:
            return getattr(interpolate, name)(*rest[:place], y, *rest[place:])

        for run in (call, ftrace.jit(call)):
            with pytest.raises((ValueError, FtraceError)):
                run(args[place])
    f = interpolate.InterpolatedUnivariateSpline(X, Y, ext=2)
    with pytest.raises(ValueError, match="domain"):
        ftrace.jit(f)(AT)
    with pytest.raises(ValueError, match="extrapolation mode"):
        f(AT, ext="none")
    with pytest.raises(ValueError, match="Order of derivative"):
        f.derivative(4)
    with pytest.raises(NotImplementedError, match="non-cubic"):
        f.derivative().roots()


# ------------------------------------------------------------------------------ two variables

SURFACES: dict[str, tuple[Any, ...]] = {
    "RectBivariateSpline": (
        (U, V, Z),
        (U, V, Z, [-1.0, 4.0, -2.0, 3.0], 2, 5),
        (U, V, Z, [None] * 4, 3, 3, 4.0),
    ),
    "SmoothBivariateSpline": ((P, Q, R),),
    "LSQBivariateSpline": ((P, Q, R, [0.5], [0.4, 0.6], None, [None] * 4, 2, 2),),
}


@pytest.mark.parametrize("name", SURFACES)
def test_splines_of_two_variables_are_scipys(name: str) -> None:
    for args in SURFACES[name]:
        a, b = getattr(interpolate, name)(*args), getattr(theirs, name)(*args)
        x, y = np.linspace(-0.3, 3.3, 6), np.linspace(-1.4, 2.5, 5)
        close(a.get_coeffs(), b.get_coeffs())
        assert a.get_residual() == b.get_residual()
        for dx in (0, 1):
            for dy in (0, 1):
                close(ftrace.jit(lambda x, y, d=(dx, dy), a=a: a(x, y, *d))(x, y), b(x, y, dx, dy))
                close(
                    ftrace.jit(lambda x, y, d=(dx, dy), b=b: b.ev(x, y, *d))(x[:5], y),
                    b.ev(x[:5], y, dx, dy),
                )
                part = a.partial_derivative(dx, dy)
                close(
                    ftrace.jit(lambda x, y, p=part: p(x, y))(x, y),
                    b.partial_derivative(dx, dy)(x, y),
                )
        ends = (0.1, 0.7, -0.2, 0.8)
        close(ftrace.jit(a.integral)(*ends), b.integral(*ends))
        close(a(x[:, None], y, grid=False), b(x[:, None], y, grid=False))
        tck = (*b.tck, *b.degrees)
        for place in (x, x[0]):
            close(
                ftrace.jit(lambda x, t=tck: interpolate.bisplev(x, 0.5, t, 1))(place),
                theirs.bisplev(place, 0.5, tck, 1),
            )
        with pytest.raises(ValueError, match="increasing"):
            ftrace.jit(a)(x[::-1], y)
        with pytest.raises(ValueError, match="order of a derivative"):
            a(x, y, 6)


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_splines_of_two_variables(check: str) -> None:
    run, x, y = CHECKS[check], np.array([0.4, 1.9]), np.array([-0.1, 1.3])
    run(lambda z, x, y: interpolate.RectBivariateSpline(U, V, z)(x, y), (Z, x, y))
    run(lambda z: interpolate.RectBivariateSpline(U, V, z, kx=2).ev(x, y, 1, 0), (Z,))
    knots = ([0.5], [0.5], None, [None] * 4, 2, 2)
    run(lambda z: interpolate.LSQBivariateSpline(P, Q, z, *knots).ev(x / 2, y / 2), (R,))
    fitted = theirs.RectBivariateSpline(U, V, Z)
    run(lambda x, y: fitted(x, y) * fitted.ev(x, y), (x, y))
    run(ftrace.grad(lambda x: np.sum(fitted.ev(x, y) ** 2)), (x,))


def test_splines_of_several_variables_are_scipys() -> None:
    t = np.array([0.0, 0, 0, 0.4, 0.7, 1, 1, 1])
    c, at = RNG.normal(size=(5, 5, 2)), RNG.uniform(-0.2, 1.2, size=(4, 3, 2))
    for extrapolate in (True, False):
        b = theirs.NdBSpline((t, t), c, 2, extrapolate=extrapolate)
        for nu in ((0, 0), (1, 0), (1, 2), (0, 3)):
            close(ftrace.jit(lambda p, nu=nu, b=b: b(p, nu=nu))(at), b(at, nu=nu))
    for check in CHECKS.values():
        check(lambda c, p: interpolate.NdBSpline((t, t), c, 2)(p), (c, at))
    with pytest.raises(ShapeError, match="basis functions"):
        interpolate.NdBSpline((t, t), c[1:], 2)
    with pytest.raises(ShapeError, match="coordinates"):
        interpolate.NdBSpline((t, t), c, 2)(at[..., :1])
    with pytest.raises(ValueError, match="must be positive"):
        interpolate.NdBSpline((t, t), c, 2)(at, nu=(-1, 0))


def test_the_method_that_calls_a_spline_is_lifted() -> None:
    call = theirs.InterpolatedUnivariateSpline(X, Y).__call__
    close(ftrace.jit(lambda x: call(x, 1))(INSIDE), call(INSIDE, 1))
    close(ftrace.jit(lambda x: list(map(call, x)))(INSIDE), call(INSIDE))


# ------------------------------------------------------------------------------ fits


def test_fits_by_their_basis_are_scipys() -> None:
    t = np.concatenate([[X[0]] * 4, INNER, [X[-1]] * 4])
    many = RNG.normal(size=(2, 12, 3))
    for fit in (
        lambda m, y: m.make_lsq_spline(X, y, t, 3, W, 1),
        lambda m, y: m.make_lsq_spline(X, y, t, 3, W, 1, check_finite=False, method="norm-eq"),
        lambda m, y: m.make_interp_spline(X, y, bc_type="natural", axis=1),
        lambda m, y: m.make_interp_spline(X, y, bc_type=("clamped", [(2, y[:, 0] * 0.1)]), axis=1),
        lambda m, y: m.make_smoothing_spline(X, y, W, 0.1, axis=1),
    ):
        found, expected = ftrace.jit(lambda y, f=fit: f(interpolate, y))(many), fit(theirs, many)
        close(found(AT), expected(AT), 1e-7)
        close(found.antiderivative(2)(AT), expected.antiderivative(2)(AT), 1e-7)
        close(found.integrate(0.4, 3.0), expected.integrate(0.4, 3.0), 1e-7)
        close(found.integrate(-9.0, 3.0, False), expected.integrate(-9.0, 3.0, False), 1e-7)
    plain = interpolate.make_smoothing_spline(X, Y)(AT)
    close(plain, theirs.make_smoothing_spline(X, Y)(AT))
    with pytest.raises(ShapeError, match="2 derivatives at the ends"):
        interpolate.make_interp_spline(X, Y, k=5, bc_type="natural")


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_fits(check: str) -> None:
    run, at = CHECKS[check], INSIDE[1:-1]
    run(lambda y, lam: interpolate.make_smoothing_spline(X, y, W, lam)(at), (Y, 0.3))
    run(lambda y: interpolate.make_interp_spline(X, y, bc_type="natural")(at), (Y,))
    run(lambda x, y: interpolate.splev(0.3, interpolate.splprep([x, y], s=0)[0]), (X, Y))
    tck = theirs.splrep(X, Y)
    run(lambda a: theirs.splint(a, 2.0, tck), (0.7,))
    run(lambda y: theirs.splint(0.7, 2.0, theirs.splrep(X, y)), (Y,))


def test_functions_of_fitpack_are_scipys() -> None:
    tck = theirs.splrep(X, Y)
    curve, _ = theirs.splprep([X, Y], s=0)
    for ours, expected in zip(
        ftrace.jit(lambda x, y: interpolate.splprep([x, y], s=0, k=4))(X, Y),
        theirs.splprep([X, Y], s=0, k=4),
        strict=True,
    ):
        for a, b in zip(ours, expected, strict=True):
            close(a, b, 1e-7)
    close(ftrace.jit(lambda x: interpolate.spalde(x, tck))(INSIDE), theirs.spalde(INSIDE, tck))
    close(ftrace.jit(lambda x: interpolate.spalde(x, curve))(0.4), theirs.spalde(0.4, curve))
    close(
        ftrace.jit(lambda a: interpolate.splint(a, 0.8, curve))(0.4), theirs.splint(0.4, 0.8, curve)
    )
    with pytest.raises(ValueError, match="domain"):
        ftrace.jit(lambda x: interpolate.spalde(x, tck))(AT)

"""ftrace.scipy.interpolate: SciPy's values, derivatives by data and places, pytrees, errors."""

from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.sparse.linalg

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import RuleError, ShapeError
from ftrace.scipy import interpolate
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
X = np.array([0.0, 0.2, 0.5, 0.9, 1.3, 1.4])
Y = RNG.normal(size=6)
MANY = RNG.normal(size=(2, 6, 3))
AT = np.array([[-0.1, 0.0, 0.3], [0.5, 1.2, 1.5]])
INSIDE = np.array([0.0, 0.1, 0.35, 1.4])
KNOTS = np.array([0.0, 0, 0, 0, 0.3, 0.6, 1, 1, 1, 1])
GRID = (X, np.array([0.0, 1.0, 3.0]))
VALUES = RNG.normal(size=(6, 3, 2))
POINTS = np.stack([RNG.uniform(0, 1.4, 4), RNG.uniform(0, 3, 4)], -1)
MIXED = (("natural", (1, 2.0)), ((1, 0.3), (2, -0.4)))

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    *(("CubicSpline", (X, Y), {"bc_type": b}, AT) for b in ("not-a-knot", "natural", "clamped")),
    *(("CubicSpline", (X, Y), {"bc_type": b}, AT) for b in MIXED),
    *(("CubicSpline", (X[:n], Y[:n]), {}, AT) for n in (2, 3, 4)),
    ("CubicSpline", (X, MANY), {"axis": 1}, AT),
    ("CubicSpline", (X, np.append(Y[:-1], Y[0])), {"bc_type": "periodic"}, AT),
    ("CubicSpline", (X, Y), {"extrapolate": False}, AT),
    ("CubicHermiteSpline", (X, Y, Y[::-1].copy()), {}, AT),
    ("PchipInterpolator", (X, MANY), {"axis": 1}, AT),
    ("PchipInterpolator", (X[:2], Y[:2]), {}, AT),
    *(("Akima1DInterpolator", (X, Y), {"method": m}, AT) for m in ("akima", "makima")),
    ("BSpline", (KNOTS, Y, 3), {}, AT),
    ("BSpline", (KNOTS, MANY, 3), {"axis": 1, "extrapolate": False}, AT),
    *(("make_interp_spline", (X, Y), {"k": k}, AT) for k in (1, 2, 3, 5)),
    *(
        ("interp1d", (X, Y), {"kind": k}, INSIDE)
        for k in ("linear", "nearest", "previous", "next", "quadratic", "cubic", "zero")
    ),
    ("interp1d", (X, MANY), {"axis": 1, "bounds_error": False}, AT),
    ("interp1d", (X, Y), {"fill_value": "extrapolate"}, AT),
    ("interp1d", (X, Y), {"bounds_error": False, "fill_value": (1.0, 2.0)}, AT),
    *(
        ("RegularGridInterpolator", (GRID, VALUES), {"method": m}, POINTS)
        for m in ("linear", "nearest", "slinear")
    ),
    ("RegularGridInterpolator", (GRID, VALUES), {"bounds_error": False}, POINTS - 0.8),
    (
        "RegularGridInterpolator",
        (GRID, VALUES),
        {"bounds_error": False, "fill_value": None},
        POINTS - 0.8,
    ),
]


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


@pytest.mark.parametrize(("name", "args", "options", "at"), CASES)
def test_interpolators_are_scipys(
    name: str, args: tuple[Any, ...], options: dict[str, Any], at: Any
) -> None:
    """Plain, as a pytree that is passed in, and SciPy's own at traced places."""
    ours = getattr(interpolate, name)(*args, **options)
    theirs = getattr(scipy.interpolate, name)(*args, **options)
    expected = theirs(at)
    np.testing.assert_allclose(ours(at), expected, rtol=1e-10, atol=1e-12)
    found = ftrace.jit(lambda f, at: f(at))(ours, at)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        ftrace.jit(lambda q: theirs(q))(at), expected, rtol=1e-10, atol=1e-12
    )
    if hasattr(theirs, "derivative"):
        np.testing.assert_allclose(ours(at, 1), theirs(at, 1), rtol=1e-9, atol=1e-11)
    if hasattr(ours, "integrate"):
        found = ours.integrate(0.2, 0.9)
        np.testing.assert_allclose(found, theirs.integrate(0.2, 0.9), rtol=1e-9, atol=1e-12)


LINES = ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "make_interp_spline")


@pytest.mark.parametrize("name", [*LINES, "interp1d"])
def test_derivatives_by_places_data_and_samples(name: str) -> None:
    at = np.array([0.13, 0.7, 1.35])
    made = getattr(interpolate, name)
    for check in CHECKS.values():
        check(lambda x, y, q: made(x, y)(q), (X, Y, at))


def test_scipys_constructor_of_traced_samples_is_ours() -> None:
    f = ftrace.grad(lambda y: scipy.interpolate.CubicSpline(X, y)(0.33))
    expected = ftrace.grad(lambda y: interpolate.CubicSpline(X, y)(0.33))(Y)
    np.testing.assert_array_equal(f(Y), expected)


def test_derivatives_of_grids() -> None:
    def f(v: Any, p: Any) -> Any:
        return interpolate.RegularGridInterpolator(GRID, v)(p)

    inner = POINTS * 0.9 + 0.03
    for check in CHECKS.values():
        check(f, (VALUES, inner))
    for method in ("linear", "nearest"):
        a = interpolate.interpn(GRID, VALUES, inner, method)
        np.testing.assert_allclose(a, scipy.interpolate.interpn(GRID, VALUES, inner, method))


@pytest.mark.parametrize("method", ["cubic", "quintic"])
def test_splines_on_grids(method: str) -> None:
    grid, values = (X, KNOTS[3:7] * 2, X[::-1] * -1), RNG.normal(size=(6, 4, 6, 2))
    grid = (X, X) if method == "quintic" else grid
    values = values[:, 0] if method == "quintic" else values
    at = RNG.uniform(0.1, 1.3, size=(3, len(grid))) * [1.0, 1.0, -1.0][: len(grid)]
    exact = scipy.sparse.linalg.spsolve
    theirs = scipy.interpolate.RegularGridInterpolator(grid, values, method, solver=exact)
    ours = interpolate.RegularGridInterpolator(grid, values, method)
    np.testing.assert_allclose(ours(at), theirs(at), rtol=1e-9, atol=1e-9)
    CHECKS["vjp"](lambda v, p: interpolate.interpn(grid, v, p, method), (values, at))


def test_points_may_be_a_tuple_of_coordinates() -> None:
    ours = interpolate.RegularGridInterpolator(GRID, VALUES)
    theirs = scipy.interpolate.RegularGridInterpolator(GRID, VALUES)
    at = (np.array([[0.3], [0.8]]), np.array([0.4, 2.5, 1.0]))
    np.testing.assert_allclose(ours(at), theirs(at), rtol=1e-12)


@pytest.mark.parametrize("staged", [False, True])
def test_places_outside_are_refused(staged: bool) -> None:
    f = interpolate.interp1d(X, Y)
    g = interpolate.RegularGridInterpolator(GRID, VALUES)
    call = ftrace.jit if staged else lambda f: f
    with pytest.raises(ValueError, match="below the interpolation range"):
        call(f)(np.array([-0.1, 0.2]))
    with pytest.raises(ValueError, match="above the interpolation range"):
        call(f)(np.array([3.0]))
    with pytest.raises(ValueError, match="out of bounds in dimension 1"):
        call(g)(np.array([[0.2, 4.0]]))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match="places \\(6,\\) for samples along an axis of 5"):
        interpolate.CubicSpline(X, Y[:5])
    with pytest.raises(RuleError, match="none of a cubic spline's conditions"):
        interpolate.CubicSpline(X, Y, bc_type="natura")
    with pytest.raises(RuleError, match="no kind 'barycentric'"):
        interpolate.interp1d(X, Y, kind="barycentric")
    with pytest.raises(RuleError, match="no method 'pchip'"):
        interpolate.RegularGridInterpolator(GRID, VALUES, method="pchip")
    with pytest.raises(ShapeError, match="It needs 4 places"):
        interpolate.RegularGridInterpolator(GRID, VALUES, method="cubic")
    with pytest.raises(ShapeError, match="A grid of \\(6, 3\\) places was given values"):
        interpolate.RegularGridInterpolator(GRID, VALUES[:4])
    with pytest.raises(RuleError, match="no bc_type='periodic'"):
        interpolate.make_interp_spline(X, Y, bc_type="periodic")
    with pytest.raises(ShapeError, match="A spline of degree 3"):
        interpolate.BSpline(KNOTS[:6], Y, 3)


def test_a_spline_compiled() -> None:
    with update(compile=True):
        f = ftrace.jit(ftrace.grad(lambda y: np.sum(interpolate.CubicSpline(X, y)(INSIDE) ** 2)))
        found = f(Y)
    expected = ftrace.grad(lambda y: np.sum(interpolate.CubicSpline(X, y)(INSIDE) ** 2))(Y)
    np.testing.assert_allclose(found, expected, rtol=1e-11)

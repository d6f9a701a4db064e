"""Interpolation between scattered points, and by one polynomial: SciPy's values, derivatives."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.interpolate as theirs

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import RuleError, ShapeError
from ftrace.scipy import interpolate
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(size=(20, 2))
VALUES = RNG.normal(size=(20, 3))
AT = RNG.uniform(-0.1, 1.1, size=(2, 5, 2))
MIDDLE = RNG.uniform(0.35, 0.65, size=(4, 2))
KERNELS = (
    *("linear", "thin_plate_spline", "cubic", "quintic", "multiquadric"),
    *("inverse_multiquadric", "inverse_quadratic", "gaussian"),
)


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


def close(found: Any, expected: Any, tolerance: float = 1e-7) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
def test_radial_functions_are_scipys(kernel: str) -> None:
    at = AT.reshape(-1, 2)
    how: dict[str, Any]
    for options in ({}, {"smoothing": 0.3}, {"degree": -1}, {"degree": 2}, {"neighbors": 9}):
        how = {"kernel": kernel, "epsilon": 1.7, **options}
        for d in (VALUES, VALUES[:, 0], VALUES + 1j * VALUES[::-1]):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "`degree`")
                expected = theirs.RBFInterpolator(POINTS, d, **how)
                found = ftrace.jit(
                    lambda d, x, h=how: interpolate.RBFInterpolator(POINTS, d, **h)(x)
                )
                close(found(d, at), expected(at))
                close(ftrace.jit(lambda x, f=expected: f(x))(at), expected(at))


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_radial_functions(check: str) -> None:
    run = CHECKS[check]

    def f(y: Any, d: Any, x: Any, e: Any) -> Any:
        return interpolate.RBFInterpolator(y, d, kernel="gaussian", epsilon=e, smoothing=0.1)(x)

    run(f, (POINTS, VALUES, MIDDLE, 2.0))
    for kernel in KERNELS[:4]:
        run(
            lambda d, x, k=kernel: interpolate.RBFInterpolator(POINTS, d, kernel=k)(x),
            (VALUES, MIDDLE),
        )
    run(lambda d: interpolate.RBFInterpolator(POINTS, d, neighbors=6)(MIDDLE), (VALUES,))
    fitted = theirs.RBFInterpolator(POINTS, VALUES[:, 0])
    run(ftrace.grad(lambda x: np.sum(fitted(x) ** 2)), (MIDDLE,))


@pytest.mark.parametrize("rescale", [False, True])
def test_triangles_and_nearest_points_are_scipys(rescale: bool) -> None:
    points = POINTS * [1.0, 9.0]
    for at in (AT * [1.0, 9.0], AT[0, 0]):
        for name in ("LinearNDInterpolator", "NearestNDInterpolator"):
            expected = getattr(theirs, name)(points, VALUES, rescale=rescale)
            ours = getattr(interpolate, name)
            close(ours(points, VALUES, rescale=rescale)(at), expected(at))
            close(ftrace.jit(lambda x, f=expected: f(x))(at), expected(at))
            found = ftrace.jit(
                lambda v, x, f=ours: f(points, v, rescale=rescale)(x[..., 0], x[..., 1])
            )
            close(found(VALUES, at), expected(at[..., 0], at[..., 1]))
            close(
                ftrace.jit(lambda f, x: f(x))(ours(points, VALUES, rescale=rescale), at),
                expected(at),
            )
    for method in ("linear", "nearest"):
        expected = theirs.griddata(points, VALUES, AT, method, 0.5, rescale)
        found = ftrace.jit(lambda v, m=method: interpolate.griddata(points, v, AT, m, 0.5, rescale))
        close(found(VALUES), expected)


def test_scattered_points_on_a_line() -> None:
    x, at = POINTS[:, 0], AT[0]
    for method in ("linear", "nearest", "cubic"):
        expected = theirs.griddata(x, VALUES[:, 0], at, method)
        found = ftrace.jit(lambda v, a, m=method: interpolate.griddata(x, v, a, m))
        close(found(VALUES[:, 0], at), expected)


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_triangles(check: str) -> None:
    run = CHECKS[check]
    run(lambda v, x: interpolate.LinearNDInterpolator(POINTS, v)(x), (VALUES, MIDDLE))
    run(lambda v: interpolate.NearestNDInterpolator(POINTS, v)(MIDDLE), (VALUES,))
    run(lambda v, x: theirs.griddata(POINTS, v, x), (VALUES, MIDDLE))
    fitted = theirs.LinearNDInterpolator(POINTS, VALUES)
    run(ftrace.grad(lambda x: np.sum(fitted(x) ** 2)), (MIDDLE,))


def test_traced_points_and_bad_arguments_are_refused() -> None:
    with pytest.raises(RuleError, match="traced points"):
        ftrace.jit(lambda p: interpolate.LinearNDInterpolator(p, VALUES)(MIDDLE))(POINTS)
    with pytest.raises(RuleError, match="no method 'cubic'"):
        ftrace.jit(lambda v: interpolate.griddata(POINTS, v, AT, "cubic"))(VALUES)
    with pytest.raises(ShapeError, match="20 points"):
        interpolate.NearestNDInterpolator(POINTS, VALUES[:4])
    with pytest.raises(ShapeError, match="2 coordinates"):
        interpolate.LinearNDInterpolator(POINTS, VALUES)(np.ones((3, 3)))
    for d, options in (
        (VALUES[:4], {}),
        (VALUES, {"kernel": "some"}),
        (VALUES, {"degree": 1 << 40}),
    ):
        with pytest.raises(ValueError, match=r"d|kernel|degree"):
            ftrace.jit(lambda d, o=options: interpolate.RBFInterpolator(POINTS, d, **o)(MIDDLE))(d)


X, Y = np.array([0.0, 0.4, 1.1, 1.5, 2.6, 3.0]), RNG.normal(size=(2, 6))


def test_one_polynomial_is_scipys() -> None:
    at = np.array([[0.2, 0.4, 2.9], [3.0, -0.1, 3.2]])
    expected = theirs.BarycentricInterpolator(X, Y, 1)
    ours = interpolate.BarycentricInterpolator(X, Y, 1)
    close(ftrace.jit(lambda x: expected(x))(at), expected(at), 1e-11)
    for der in (1, 2, 3):
        close(ours.derivative(at, der), expected.derivative(at, der), 1e-8)
    close(ours.derivatives(at, 3), expected.derivatives(at, 3), 1e-8)
    close(
        ftrace.jit(lambda y: interpolate.barycentric_interpolate(X, y, at, 1, der=1))(Y),
        theirs.barycentric_interpolate(X, Y, at, 1, der=1),
        1e-8,
    )
    with pytest.raises(RuleError, match="no values"):
        interpolate.BarycentricInterpolator(X)


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_one_polynomial(check: str) -> None:
    run, at = CHECKS[check], np.array([0.2, 0.4, 2.9, 3.0])
    run(lambda x, y, at: interpolate.BarycentricInterpolator(x, y, 1)(at), (X, Y, at))
    run(ftrace.grad(lambda at: np.sum(theirs.BarycentricInterpolator(X, Y[0])(at) ** 2)), (at,))
    run(lambda y, at: theirs.KroghInterpolator(X, y)(at), (Y[0], at))

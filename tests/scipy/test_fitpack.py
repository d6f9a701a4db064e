"""ftrace.scipy.interpolate's splrep and splev: SciPy's values and errors, and derivatives."""

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
X, Y = np.sort(RNG.uniform(0.0, 5.0, 9)), RNG.normal(size=9)
INSIDE = np.linspace(X[0], X[-1], 7)
AT = np.concatenate([[X[0] - 1.0], INSIDE, [X[-1] + 0.5]])


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


def agree(name: str, *args: Any, **options: Any) -> None:
    """The function staged, of its first argument, and SciPy's: values, or the kind of error."""
    first, *rest = args
    staged = ftrace.jit(lambda x: getattr(interpolate, name)(x, *rest, **options))
    try:
        expected = getattr(theirs, name)(*args, **options)
    except Exception as error:
        with pytest.raises(type(error)):
            staged(first)
        return
    found = staged(first)
    assert np.shape(found[0]) == np.shape(expected[0])
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_splines_through_samples() -> None:
    for k in range(7):
        agree("splrep", X, Y, k=k)
        agree("splrep", X.astype("f4"), Y.astype("f4"), k=k)
    agree("splrep", X, Y, 2 * np.ones(9), s=0)
    for x, y in ((X[:3], Y[:3]), (X, Y[:4]), (X[::-1].copy(), Y), (X, np.stack([Y, Y]))):
        agree("splrep", x, y)
    agree("splrep", X, Y, np.ones(4), s=0)


@pytest.mark.parametrize("k", range(1, 6))
def test_values(k: int) -> None:
    tck = theirs.splrep(X, Y, k=k)
    for der in range(-1, k + 2):
        for ext in range(5):
            agree("splev", AT, tck, der, ext)
            agree("splev", INSIDE[None], tck, der, ext)
    agree("splev", INSIDE, (tck[0], [tck[1], 2 * tck[1]], k))
    for ext in (0, 1):
        agree("splev", AT, theirs.BSpline(*tck), 1, ext)
    agree("splev", AT.astype("f4"), tck)


@pytest.mark.parametrize("options", [{"s": 0.1}, {"per": 1}, {"t": X[2:4]}, {"w": np.ones(9)}])
def test_what_chooses_knots_by_values_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(RuleError, match="splrep was asked"):
        ftrace.jit(lambda y: interpolate.splrep(X, y, **options))(Y)


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives(check: str) -> None:
    run, at = CHECKS[check], INSIDE[1:-1]
    run(lambda y: interpolate.splrep(X, y)[1], (Y,))
    run(lambda y, at: interpolate.splev(at, interpolate.splrep(X, y, k=4)), (Y, at))
    run(lambda y, at: interpolate.splev(at, interpolate.splrep(X, y), 1, 3), (Y, at))
    run(lambda at: interpolate.splev(at, theirs.splrep(X, Y), ext=1), (np.delete(AT, [1, -2]),))


def test_calls_of_scipys_own_functions_are_transformed() -> None:
    def program(y: Any) -> Any:
        return theirs.splev(INSIDE, theirs.splrep(X, y), 1)

    np.testing.assert_allclose(ftrace.jit(program)(Y), program(Y), rtol=1e-9)
    CHECKS["jvp"](program, (Y,))


def test_a_spline_without_coefficients_is_refused_by_name() -> None:
    for call in (
        lambda tck: theirs.splint(0.0, 1.0, tck),
        lambda tck: theirs.spalde(1.0, tck),
        lambda tck: theirs.splev(1.0, tck),
    ):
        with pytest.raises(ShapeError, match="0 coefficients"):
            ftrace.jit(lambda c, f=call: f((np.arange(8.0), c, 3)))(np.zeros(0))

"""ftrace.scipy.signal: changes of the rate of samples, and medians of windows."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.signal

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import ShapeError
from ftrace.scipy import signal
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
X, H = RNG.normal(size=9), RNG.normal(size=5)
MATRIX = RNG.normal(size=(6, 5))
MODES = ["constant", "wrap", "edge", "smooth", "symmetric", "reflect"]
MODES += ["antisymmetric", "antireflect", "line"]


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


@pytest.fixture(autouse=True)
def unwarned() -> Any:
    """A window that is larger than the array brings a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def agree(name: str, x: Any, *args: Any, **options: Any) -> None:
    """The function staged, of a signal, and SciPy's: values and dtype, or the kind of error."""
    ours, theirs = getattr(signal, name), getattr(scipy.signal, name)
    if name == "upfirdn":  # the signal is its second argument
        first, *args = args
        ours, theirs = (lambda x, *a, f=f, **k: f(first, x, *a, **k) for f in (ours, theirs))
    staged = ftrace.jit(lambda x: ours(x, *args, **options))
    try:
        expected = theirs(x, *args, **options)
    except Exception as error:
        with pytest.raises(type(error)):
            staged(x)
        return
    found = staged(x)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    tolerance = {"e": 1e-2, "f": 1e-5, "F": 1e-5}.get(found.dtype.char, 1e-12)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
def test_rates_of_all_modes(mode: str) -> None:
    for up, down in ((1, 1), (2, 1), (1, 3), (3, 2), (7, 5), (2, 9)):
        for h in (H, H[:1], np.arange(1, 20), RNG.normal(size=41)):
            agree("upfirdn", X, h, up, down, mode=mode.upper(), cval=0.7)
            agree("upfirdn", X[:2], h, up, down, mode=mode)
        agree("upfirdn", MATRIX, H, up, down, 0, mode)
        for i, lost in ((0, np.nan), (4, np.inf), (-1, np.nan)):
            agree("upfirdn", np.where(np.arange(9) == i % 9, lost, X), H, up, down, mode=mode)
        options = {"cval": 0.7} if mode == "constant" else {}
        agree("resample_poly", X, up, down, padtype=mode, **options)
        agree("resample_poly", MATRIX, up, down, 1, padtype=mode)


def test_rates_of_all_dtypes() -> None:
    for dtype in ("f4", "F", "D", "i4", "e"):
        x = (3 * X).astype(dtype)
        agree("upfirdn", x, H, 3, 2)
        agree("upfirdn", x, H.astype("f4"), 3, 2, mode="line")
        agree("resample_poly", x, 3, 2)
    agree("upfirdn", X, H * 1j, 3, 2)


def test_levels_and_windows() -> None:
    for padtype in ("mean", "median", "minimum", "maximum"):
        agree("resample_poly", X, 3, 2, padtype=padtype)
        agree("resample_poly", MATRIX, 2, 3, 1, padtype=padtype)
    for window in ("hann", ("kaiser", 3.0), [1, 2, 1], np.hanning(30), H[:0], H[:1], H[None]):
        agree("resample_poly", X, 2, 3, window=window)
    agree("resample_poly", X, 4, 4)
    agree("resample_poly", X, 4.0, 6.0)
    agree("resample_poly", X[:1], 3, 2)


def test_bad_rates_are_refused_as_scipy_refuses_them() -> None:
    for x, h in ((X[:0], H), (MATRIX[:, :0], H), (X, H[:0]), (X, H[None]), (X[0], H)):
        agree("upfirdn", x, h)
    for options in ({"up": 0}, {"down": -1}, {"mode": "some"}, {"axis": 4}, {"cval": 1j}):
        agree("upfirdn", X, H, **options)
    for up, down, options in (
        *((0, 1, {}), (2.5, 1, {}), (2, 1, {"axis": 3}), (2, 1, {"padtype": "s"})),
        *((2, 1, {"cval": 1, "padtype": "edge"}), (2, 1, {"window": "blah"})),
    ):
        agree("resample_poly", X, up, down, **options)
    agree("resample_poly", X[:0], 2, 1)
    for mode in ("reflect", "line", "smooth", "antireflect"):  # SciPy reads beside the signal
        with pytest.raises(ShapeError, match=mode):
            ftrace.jit(lambda x, mode=mode: signal.upfirdn(H, x, mode=mode))(X[:1])


def test_medians() -> None:
    for x in (X, X.astype("f4"), MATRIX, (9 * MATRIX).astype(int), X[0], X[:0], X[:1]):
        for size in (None, 1, 3, 5):
            agree("medfilt", x, size)
    agree("medfilt", MATRIX, [3, 1])
    agree("medfilt", RNG.normal(size=(3, 4, 5)), (1, 3, 3))
    for size in (2, [3, 3], 3.0, -3, [[3]], 0):
        agree("medfilt", X, size)
    for dtype in (bool, "f2", complex):
        agree("medfilt", np.ones(3, dtype))


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives(check: str) -> None:
    run = CHECKS[check]
    for mode in MODES:
        run(lambda h, x, mode=mode: signal.upfirdn(h, x, 3, 2, mode=mode), (H, X))
    run(lambda x, h: signal.resample_poly(x, 3, 2, window=h), (X, H))
    run(lambda x: signal.resample_poly(x, 2, 3, 1, padtype="median"), (MATRIX,))
    run(lambda x: signal.medfilt(x, (3, 1)), (MATRIX,))


def test_calls_of_scipys_own_functions_are_transformed() -> None:
    def program(x: Any) -> Any:
        y = scipy.signal.resample_poly(x, 3, 2, padtype="mean")
        return scipy.signal.medfilt(y, 3), scipy.signal.upfirdn(H, x, 2)

    for found, expected in zip(ftrace.jit(program)(X), program(X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    CHECKS["jvp"](program, (X,))

"""ftrace.scipy.ndimage: SciPy's values in all modes, dtypes and orders, its errors, derivatives."""

from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import ftrace
from ftrace.core.config import update
from ftrace.scipy import ndimage, signal
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(6, 7))
WHOLE = RNG.integers(0, 99, size=(5, 6))
IMAGES = [REAL, WHOLE, WHOLE.astype("u1") * 2, REAL.astype("f4"), REAL + 1j * REAL[::-1]]
MODES = ["reflect", "constant", "nearest", "mirror", "wrap"]
MODES += ["grid-mirror", "grid-constant", "grid-wrap"]
VOLUME = RNG.normal(size=(4, 5, 3))


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


def agree(name: str, image: Any, *args: Any, **options: Any) -> None:
    """The function staged, of its image, and SciPy's: the same values, dtype, or kind of error."""
    ours, theirs = getattr(ndimage, name), getattr(scipy.ndimage, name)
    staged = ftrace.jit(lambda image: ours(image, *args, **options))
    try:
        expected = theirs(image, *args, **options)
    except Exception as error:
        with pytest.raises(type(error)):
            staged(image)
        return
    found = staged(image)
    assert found.dtype == expected.dtype
    single = expected.dtype.kind in "fc" and np.finfo(expected.dtype).eps > 1e-10
    tolerance = 1e-5 if single else 1e-12
    if expected.dtype.kind in "ui":
        tolerance = 1  # a half is rounded up or down
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
def test_correlations(mode: str) -> None:
    for image in IMAGES:
        for origin in (0, -1):
            agree("correlate1d", image, [1, 2, 3.0], 0, None, mode, 0.7, origin)
            for name in ("correlate", "convolve"):
                agree(name, image, RNG.normal(size=(2, 3)), None, mode, 0.7, (0, origin))
        agree("correlate1d", image, [0.5, 2j], mode=mode)
        agree("convolve", image, [[1j, 2.0]], mode=mode)
        agree("correlate1d", image, RNG.normal(size=21), mode=mode)
        for name in ("correlate", "convolve"):
            agree(name, image, RNG.normal(size=4), None, mode, axes=(1,))
        for size in (1, 2, 5, 16):
            agree("uniform_filter1d", image, size, 0, None, mode, 0.7)
        agree("uniform_filter", image, (3, 2), "f4" if image is REAL else None, mode, 0.7, (1, 0))
    agree("correlate1d", REAL[:0], [1.0, 2.0], 0, mode=mode)
    agree("correlate1d", REAL[:1], [1.0, 2.0, 5.0], 0, mode=mode)


@pytest.mark.parametrize("mode", ["reflect", "constant", ["wrap", "nearest"]])
def test_compound_filters(mode: Any) -> None:
    for image in IMAGES[:2] + IMAGES[3:]:
        for order in (0, 1, 2, 3, (0, 1)):
            agree("gaussian_filter", image, (1.0, 1.5), order, None, mode, 0.7)
        agree("gaussian_filter", image, (0, 1.0), mode=mode, radius=2)
        agree("gaussian_filter1d", image, 2.0, 0, 1, truncate=2.0)
        for name in ("sobel", "prewitt"):
            agree(name, image, 0, None, mode, 0.7)
        agree("laplace", image, None, mode, 0.7)
        agree("laplace", image, None, "wrap", axes=0)
        agree("gaussian_laplace", image, (1.0, 2.0), None, mode, 0.7)
        agree("gaussian_laplace", image, 1.0, axes=(1,))


@pytest.mark.parametrize("mode", MODES)
def test_filters_by_order(mode: str) -> None:
    held = np.array([[True, False, True], [True, True, False]])
    for image in IMAGES:
        for name in ("minimum_filter", "maximum_filter", "median_filter"):
            agree(name, image, (2, 3), None, None, mode, 0.7, (0, -1))
            agree(name, image, footprint=held, mode=mode, cval=0.7)
            agree(name, image, 3, mode=mode, axes=1, origin=1)
        for name in ("minimum_filter1d", "maximum_filter1d"):
            agree(name, image, 4, 0, None, mode, 0.7, 1)
        agree("rank_filter", image, -2, 3, mode=mode)
        for percentile in (30, -30.5, 100):
            agree("percentile_filter", image, percentile, (2, 4), mode=mode)
    agree("median_filter", REAL[0], 4, mode=mode, cval=0.7)
    agree("median_filter", REAL[:0], 3, mode=mode)
    agree("maximum_filter", REAL, 3, mode=[mode, "wrap"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order", range(7))
@pytest.mark.parametrize("mode", MODES)
def test_splines(mode: str, order: int) -> None:
    at = RNG.uniform(-9, 16, size=(2, 30))
    at[:, :8] = np.round(2 * at[:, :8]) / 2
    how = {"order": order, "mode": mode, "cval": 0.7}
    for image in IMAGES:
        kind = complex if image.dtype.kind == "c" else float
        agree("spline_filter1d", image, order, 0, kind, mode)
        for prefilter in (True, False):
            agree("map_coordinates", image, at, **how, prefilter=prefilter)
        agree("shift", image, (1.3, -20), **how)
        agree("zoom", image, (1.3, 0.6), **how)
        agree("affine_transform", image, [[0.8, 0.3], [-0.2, 1.1]], (0.5, -1), (4, 9), **how)
        agree("rotate", image, -41.5, **how)
    agree("spline_filter1d", RNG.normal(size=100), order, mode=mode)
    agree("map_coordinates", VOLUME, RNG.uniform(-9, 16, size=(3, 2, 5)), **how)
    agree("rotate", VOLUME, 20.0, (0, 2), **how)
    agree("zoom", REAL, 2, **how, grid_mode=True)


def test_transformations_of_all_kinds() -> None:
    table = np.array([[0.8, 0.3, 1], [-0.2, 1.1, -0.5], [0, 0, 1]])
    for matrix in (table, table[:2], [0.5, 2.0], np.eye(3) * 2, np.ones(3), np.ones((2, 3, 1))):
        agree("affine_transform", REAL, matrix, 0.3)
    agree("affine_transform", REAL, [[0.5], [1.0]], 0.3, (8,))
    agree("geometric_transform", REAL, lambda i: (i[0] + 0.3, i[1] * 0.7 - 1), (3, 9))
    for angle in (0, 30, 90, 180):
        for reshape in (True, False):
            agree("rotate", REAL, angle, reshape=reshape, order=1)
    agree("spline_filter", REAL)
    agree("zoom", REAL, 1)


def test_bad_arguments_are_refused_as_scipy_refuses_them() -> None:
    for weights, options in (
        ([], {}),
        ([[1.0]], {}),
        ([1.0, 2.0], {"axis": 5}),
        ([1.0, 2.0], {"mode": "some"}),
        ([1.0, 2.0], {"origin": 3}),
        ([1.0, 2.0], {"output": "S3"}),
        ([1.0, 2.0], {"cval": 1j}),
    ):
        agree("correlate1d", REAL, weights, **options)
    for name in ("correlate", "convolve"):
        agree(name, REAL, np.ones(3))
        agree(name, REAL, np.ones((3, 3)), axes=(0, 0))
        agree(name, REAL, np.ones((3, 3)), axes=(0, 3))
        agree(name, REAL, np.ones((3, 3)), origin=(0, 0, 0))
    for name in ("minimum_filter", "median_filter"):
        agree(name, REAL)
        agree(name, REAL, (3, 3, 3))
        agree(name, REAL, 3, origin=4)
        agree(name, REAL, 3, mode="some")
        agree(name, REAL, footprint=np.ones(3, bool))
    agree("rank_filter", REAL, 9, 3)
    agree("percentile_filter", REAL, 101, 3)
    agree("gaussian_filter", REAL, 1.0, -1)
    agree("spline_filter", REAL, 1)
    agree("map_coordinates", REAL, np.ones((3, 2)))
    agree("rotate", REAL[0], 20)


DIFFERENTIATED: list[tuple[Any, tuple[Any, ...]]] = [
    (lambda x, w: ndimage.correlate(x, w, mode="wrap"), (REAL, RNG.normal(size=(2, 3)))),
    (lambda x: ndimage.median_filter(x, (2, 3), mode="mirror"), (REAL,)),
    (lambda x, s: ndimage.gaussian_filter1d(x, s, radius=3), (REAL, 1.2)),
    (lambda x, a: ndimage.rotate(x, a, reshape=False, mode="reflect"), (REAL, 20.0)),
    (lambda x, m: ndimage.affine_transform(x, m, mode="grid-wrap"), (REAL, np.eye(2) * 0.9)),
    *(
        (lambda x, s, m=mode: ndimage.shift(x, s, mode=m), (REAL, np.array([0.3, -1.2])))
        for mode in MODES
    ),
    *(
        (
            lambda x, at, m=mode: ndimage.map_coordinates(x, at, order=2, mode=m),
            (REAL, RNG.uniform(-3, 9, size=(2, 7))),
        )
        for mode in MODES
    ),
]


@pytest.mark.parametrize(("f", "xs"), DIFFERENTIATED)
def test_derivatives_and_maps(f: Any, xs: tuple[Any, ...]) -> None:
    for name in ("jvp", "vjp", "vmap"):
        CHECKS[name](f, xs)


def test_results_are_written_into_arrays() -> None:
    def f(x: Any) -> Any:
        out = np.zeros((6, 7))
        ndimage.correlate1d(x, [1.0, 2.0], 0, out)
        scipy.ndimage.gaussian_filter(out, 1, output=out)
        return out

    for name in ("jvp", "vjp", "vmap", "jit"):
        CHECKS[name](f, (REAL,))


def test_an_image_compiled() -> None:
    with update(compile=True):
        smooth = ftrace.jit(lambda x: scipy.ndimage.zoom(scipy.ndimage.sobel(x), 2))
        found = smooth(REAL)
    expected = scipy.ndimage.zoom(scipy.ndimage.sobel(REAL), 2)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("order", [-1, 0, 1, 6])
def test_splines_of_other_orders_are_refused(order: int) -> None:
    agree("spline_filter", VOLUME[0], order)


WARNED = [
    lambda x: ndimage.zoom(x, 2.0, grid_mode=True, mode="wrap"),
    lambda x: ndimage.correlate(x, np.ones((2, 2)) + 0j, output=float),
    lambda x: signal.medfilt(x, 9),
]


@pytest.mark.parametrize("f", WARNED)
def test_a_warning_shows_the_users_line(f: Any) -> None:
    with pytest.warns(UserWarning, match="exceeds|promoting|recommended") as found:
        ftrace.jit(f)(REAL)
    here = f.__code__.co_filename, f.__code__.co_firstlineno
    assert {(w.filename, w.lineno) for w in found} == {here}


@pytest.mark.parametrize("wrong", [np.sin, None, "0", [1.0]])
def test_a_constant_that_is_no_number_is_refused_in_every_mode(wrong):
    for mode in ("reflect", "constant", "nearest"):
        for change in (ftrace.jit, lambda f: lambda x: ftrace.vmap(f)(x[None])):
            f = lambda x, mode=mode: ndimage.rank_filter(x, 2, 3, mode=mode, cval=wrong)  # noqa: E731
            with pytest.raises(ftrace.errors.DtypeError, match="not an array or a number"):
                change(f)(REAL)

"""Morphology, measurements and filters at frequencies: SciPy's values, dtypes, errors, slopes."""

from typing import Any

import numpy as np
import pytest
import scipy.ndimage as theirs

import ftrace
from ftrace.core.config import update
from ftrace.core.errors import ConcretizationTypeError, FtraceError, RuleError
from ftrace.scipy import ndimage
from ftrace.tree import leaves
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(6, 7))
IMAGES = [
    REAL,
    RNG.integers(0, 99, (5, 6)),
    RNG.integers(0, 9, (5, 6), "u1"),
    REAL.astype("f4"),
    REAL > 0,
]
BITS = RNG.uniform(size=(7, 8)) > 0.4
VOLUME = RNG.normal(size=(4, 5, 3))
LABELS = RNG.integers(0, 4, (6, 7))
GREY = (
    *("grey_erosion", "grey_dilation", "grey_opening", "grey_closing", "morphological_gradient"),
    *("morphological_laplace", "white_tophat", "black_tophat"),
)
FOURIER = ("fourier_gaussian", "fourier_uniform", "fourier_ellipsoid", "fourier_shift")
ORDERS = ("minimum", "maximum", "median", "minimum_position", "maximum_position", "extrema")
SUMS = ("sum_labels", "mean", "variance", "standard_deviation", "center_of_mass")


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


def agree(name: str, image: Any, *args: Any, **options: Any) -> None:
    """The function staged, of its image, and SciPy's: the same values, dtypes, or kind of error."""
    staged = ftrace.jit(lambda image: getattr(ndimage, name)(image, *args, **options))
    try:
        expected = getattr(theirs, name)(image, *args, **options)
    except Exception as error:
        with pytest.raises((type(error), FtraceError)):
            staged(image)
        return
    found = staged(image)
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        single = np.asarray(image).dtype in ("f4", "c8") or np.asarray(b).dtype in ("f4", "c8")
        np.testing.assert_allclose(
            a, b, rtol=1e-5 if single else 1e-11, atol=1e-6 if single else 1e-12
        )


@pytest.mark.filterwarnings("ignore:ignoring size")
@pytest.mark.parametrize("name", GREY)
def test_grey_morphology(name: str) -> None:
    held, heights = np.array([[True, False, True], [True, True, False]]), RNG.normal(size=(2, 3))
    for image in IMAGES:
        agree(name, image, 3)
        agree(name, image, (2, 3), mode="constant", cval=1.0, origin=(0, -1))
        agree(name, image, footprint=held, mode="wrap")
        agree(name, image, size=2, footprint=held)
        agree(name, image, 3, axes=1)
    for image in (REAL, REAL.astype("f4")):
        agree(name, image, structure=heights)
        agree(name, image, footprint=held, structure=heights, mode="nearest")
    agree(name, REAL, 3, output="f4" if "morpho" not in name else None)
    agree(name, REAL)
    agree(name, REAL + 1j, 3)
    agree(name, REAL, structure=heights[0])


@pytest.mark.parametrize("name", [*GREY, "minimum_filter", "maximum_filter"])
def test_sizes_belong_to_axes_in_their_order(name: str) -> None:
    for more in ({"size": (2, 3)}, {"size": (2, 3), "origin": (0, -1)}):
        agree(name, REAL, **more, axes=(1, 0))
    agree(name, REAL, footprint=np.ones((2, 4)), axes=(1, 0), mode=["wrap", "nearest"])
    agree(name, REAL, footprint=[[1, 0, 1], [0, 1, 1]], axes=(1, 0))
    agree(name, VOLUME, size=(2, 3), axes=(2, 0))


def test_heights_that_are_not_whole_of_images_of_integers() -> None:
    image, heights = RNG.integers(-9, 9, (6, 7)), 2 * RNG.normal(size=(2, 3))
    for name in GREY:
        agree(name, image, structure=heights)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "u4"])
def test_heights_overflow_in_small_integers_as_in_scipy(dtype: str) -> None:
    limits = np.iinfo(dtype)
    image = RNG.choice(np.array([limits.min, 1, 2, limits.max], dtype), (6, 7))
    heights = np.array([[0, 1, 0], [1, 3, 1], [0, 1, 0]])
    for name in GREY:
        agree(name, image, structure=heights)
        agree(name, image, structure=heights * 0.5, mode="nearest")
        agree(name, image, structure=-heights, footprint=heights > 0)


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_grey_morphology(check: str) -> None:
    run = CHECKS[check]
    for name in GREY:
        f = getattr(theirs, name)
        run(lambda x, f=f: f(x, 3), (REAL,))
        run(lambda x, h, f=f: f(x, structure=h), (REAL, RNG.normal(size=(2, 3))))


@pytest.mark.parametrize("name", FOURIER)
def test_filters_at_frequencies(name: str) -> None:
    images = (REAL, REAL[0], VOLUME, VOLUME.astype("f4"), REAL + 1j, (REAL + 1j).astype("c8"))
    for image in (*images, IMAGES[1], BITS, np.ones((2, 2, 2, 2))):
        agree(name, image, 1.3)
        agree(name, image, 1.3, 9, 0)
        agree(name, image, [1.3] * image.ndim, output=np.complex64)
        agree(name, image, 0)
    agree(name, REAL, (1.0, 2.0), output=np.float32)
    agree(name, REAL, (1.0, 2.0), output="f4")
    agree(name, REAL, (1.0, 2.0, 3.0))
    agree(name, REAL, 1.0, axis=5)


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_filters_at_frequencies(check: str) -> None:
    for name in FOURIER:
        f = getattr(theirs, name)
        for image in (REAL, VOLUME):
            CHECKS[check](lambda x, s, f=f: f(x, s), (image, 1.3))
    CHECKS[check](ftrace.grad(lambda s: np.sum(theirs.fourier_ellipsoid(REAL, s))), (1.3,))


BINARY: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    *((f"binary_{n}", (), {}) for n in ("erosion", "dilation", "opening", "closing")),
    ("binary_erosion", (np.ones((2, 3)), 2), {"border_value": 1, "mask": LABELS[:1, :1] > 9}),
    ("binary_dilation", (), {"iterations": 0, "mask": BITS[::-1], "origin": (0, 1)}),
    ("binary_opening", (), {"axes": 1, "brute_force": True}),
    ("binary_hit_or_miss", (np.array([[0, 1, 0], [1, 1, 1]]),), {}),
    ("binary_propagation", (), {"mask": BITS | BITS[::-1]}),
    ("binary_fill_holes", (), {}),
    ("binary_erosion", (np.ones((3, 3, 3)),), {}),
    *((f"distance_transform_{n}", (), {"return_indices": True}) for n in ("edt", "cdt", "bf")),
    ("distance_transform_edt", ((0.5, 2.0),), {}),
    ("distance_transform_cdt", ("taxicab",), {}),
    ("distance_transform_bf", ("none",), {}),
    ("label", (), {}),
    ("label", (np.ones((3, 3)), np.int64), {}),
    ("label", (np.ones((3, 2)),), {}),
    ("watershed_ift", (np.pad([[1, 0, 2]], ((2, 4), (3, 2))),), {}),
)


@pytest.mark.parametrize(("name", "args", "options"), BINARY)
def test_binary_morphology(name: str, args: Any, options: dict[str, Any]) -> None:
    agree(name, BITS, *args, **options)
    image = RNG.integers(0, 9, (7, 8), "u1")
    agree(name, image, *args, **options)
    try:
        expected = [getattr(theirs, name)(v, *args, **options) for v in (image, image[::-1])]
    except (RuntimeError, ValueError):
        return
    mapped = ftrace.vmap(lambda v: getattr(ndimage, name)(v, *args, **options))
    found = leaves(mapped(np.stack([image, image[::-1]])))
    for a, b, c in zip(found, *map(leaves, expected), strict=True):
        np.testing.assert_array_equal(a[0], b)
        np.testing.assert_array_equal(a[1], c)


def test_distances_do_not_move_with_values() -> None:
    f = ftrace.grad(lambda x: np.sum(x * theirs.distance_transform_edt(x > 0)))
    np.testing.assert_array_equal(f(REAL), theirs.distance_transform_edt(REAL > 0))
    slope = ftrace.grad(lambda x: np.sum(ndimage.distance_transform_edt(x)))(REAL)
    np.testing.assert_array_equal(slope, 0 * REAL)
    out = np.zeros((7, 8), bool)

    def written(x: Any) -> Any:
        out = ftrace.numpy.zeros((7, 8), int)
        ndimage.binary_erosion(x, output=out)
        return out

    theirs.binary_erosion(BITS, output=out)
    np.testing.assert_array_equal(ftrace.jit(written)(BITS), out)
    with pytest.raises(RuleError, match="to write into"):
        ftrace.jit(lambda x: ndimage.distance_transform_edt(x, distances=np.ones((7, 8))))(BITS)
    with pytest.raises(RuleError, match="to write into"):
        ftrace.jit(lambda x: ndimage.label(x, output=np.ones((7, 8), int)))(BITS)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", [*SUMS, *ORDERS])
def test_measurements(name: str) -> None:
    whole = RNG.integers(-5, 9, (6, 7))
    for image in (REAL, whole, REAL.astype("f4")):
        agree(name, image)
        agree(name, image, LABELS)
        agree(name, image, LABELS[:, :1], 2)
        if image is not whole or name not in ORDERS[3:]:  # SciPy's place of equal ones is any
            agree(name, image, LABELS, [3, 1, 1])
        agree(
            name, image, LABELS * 1000 - 7, np.array([[993, 2993]]) if name in SUMS[:4] else [993]
        )
        agree(name, image, LABELS[0, :3])
        found = ftrace.jit(lambda x, at: getattr(ndimage, name)(x, at, [1, 2]))(image, LABELS)
        for a, b in zip(
            leaves(found), leaves(getattr(theirs, name)(image, LABELS, [1, 2])), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    if name in ORDERS and name != "median":
        agree(name, REAL[:0])
    if name in SUMS[:4] or name in ORDERS[:2]:
        agree(name, REAL, LABELS, [1, 9])
    with pytest.raises(ConcretizationTypeError, match="Which labels"):
        ftrace.jit(lambda i: getattr(ndimage, name)(REAL, LABELS, i))(np.array([1, 2]))


@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i4"])
def test_sums_of_small_integers_do_not_overflow(kind: str) -> None:
    top = np.iinfo(kind).max
    image = RNG.integers(top // 2, top, (6, 7)).astype(kind)
    for name in SUMS:
        for more in ((), (LABELS,), (LABELS, 2), (LABELS, [1, 3])):
            agree(name, image, *more)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.filterwarnings("ignore:Mean of empty")
def test_measurements_of_nan_and_of_no_part() -> None:
    image = np.where(RNG.uniform(size=(6, 7)) < 0.2, np.nan, REAL)
    for name in ORDERS[:3]:
        for more in ((), (LABELS,), (LABELS, 2), (LABELS, [1, 3])):
            agree(name, image, *more)
    agree("median", REAL, LABELS, 9)
    for name in (*SUMS[:4], *ORDERS[:3]):
        agree(name, REAL, LABELS, [])


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_measurements(check: str) -> None:
    for name in (*SUMS, *ORDERS[:3]):
        f = getattr(theirs, name)
        CHECKS[check](lambda x, f=f: f(x, LABELS, [1, 3]), (REAL,))
        CHECKS[check](lambda x, f=f: f(x, LABELS), (REAL,))
    CHECKS[check](ftrace.grad(lambda x: np.sum(theirs.variance(x, LABELS, [1, 3]))), (REAL,))

"""`associative_scan`: every prefix, in order, for any length; work; transformations; mistakes."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core.errors import AxisError, DtypeError, ShapeError, TreeError
from tests.lax.agreement import COMPOSITIONS, assert_agrees

RNG = np.random.default_rng(95)
X = RNG.normal(size=(2, 7))


def affine(f, g):
    """First f, then g: associative and not commutative."""
    return {"a": f["a"] * g["a"], "b": f["b"] * g["a"] + g["b"]}


def loop(elems, reverse):
    a, b = (np.flip(elems[k], 0) if reverse else elems[k] for k in "ab")
    out = [{"a": a[0], "b": b[0]}] if len(a) else []
    for i in range(1, len(a)):
        out.append(affine(out[-1], {"a": a[i], "b": b[i]}))
    stacked = {k: np.array([y[k] for y in out]).reshape(elems[k].shape) for k in "ab"}
    return {k: np.flip(v, 0) if reverse else v for k, v in stacked.items()}


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17])
@pytest.mark.parametrize("reverse", [False, True])
def test_prefixes_of_maps_that_do_not_commute(n, reverse):
    elems = {"a": RNG.normal(size=(n, 2)), "b": RNG.normal(size=(n, 2))}
    expected = loop(elems, reverse)
    for scan in (lax.associative_scan, ftrace.jit(lax.associative_scan, static_argnums=(0, 2))):
        found = scan(affine, elems, reverse)
        for k in "ab":
            np.testing.assert_allclose(found[k], expected[k], rtol=1e-12)
            assert not np.may_share_memory(found[k], elems[k])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_matrices_along_any_axis(axis):
    m = RNG.normal(size=(5, 2, 2))
    moved = np.moveaxis(m[:, None], 0, 0 if axis == 0 else 1)  # (5, 1, 2, 2) or (1, 5, 2, 2)
    if axis == -1:
        found = lax.associative_scan(np.add, m.transpose(1, 2, 0), axis=-1)
        np.testing.assert_allclose(found, np.cumsum(m.transpose(1, 2, 0), -1), rtol=1e-13)
        return
    found = lax.associative_scan(lambda a, b: a @ b, moved, axis=axis)
    expected, product = [], np.eye(2)
    for x in m:
        product = product @ x
        expected.append(product)
    np.testing.assert_allclose(np.squeeze(found), expected, rtol=1e-12)


def test_dtypes_signs_and_special_values_are_kept():
    x = np.array([-0.0, -0.0, np.inf, np.nan, 1.0])
    found = lax.associative_scan(lambda a, b: b, x)
    np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(np.signbit(found[:2]), [True, True])
    flags = np.array([False, True, False, True])
    np.testing.assert_array_equal(
        lax.associative_scan(np.logical_xor, flags), np.logical_xor.accumulate(flags), strict=True
    )
    small = np.array([1, 2, 3], np.int8)
    np.testing.assert_array_equal(
        lax.associative_scan(lax.add, small), np.int8([1, 3, 6]), strict=True
    )


@pytest.mark.parametrize("transform", [lambda f: f, ftrace.jit, ftrace.vmap])
def test_the_function_cannot_write_to_what_it_is_given(transform):
    def add(a, b):
        a += b
        return a

    x = np.ones((1, 4))
    with pytest.raises(ValueError, match=r"read-only|a\.copy\(\)|x\.copy\(\)"):
        transform(lambda v: lax.associative_scan(add, v, axis=v.ndim - 1))(x)
    np.testing.assert_array_equal(x, np.ones((1, 4)))


@pytest.mark.parametrize("n", [8, 100, 1000])
def test_the_work_is_linear_and_the_depth_logarithmic(n):
    calls, combined = 0, 0

    def add(a, b):
        nonlocal calls, combined
        calls, combined = calls + 1, combined + len(a)
        return a + b

    np.testing.assert_array_equal(lax.associative_scan(add, np.ones(n)), np.arange(1.0, n + 1))
    assert combined < 2 * n
    assert calls <= 2 * np.log2(n)


@pytest.mark.sampled(2, each="composition")
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("reverse", [False, True])
def test_every_transformation_agrees_with_differences(composition, reverse):
    def recurrence(x):
        maps = {"a": np.cos(x[0]), "b": x[1]}
        return lax.associative_scan(affine, maps, reverse=reverse)["b"]

    assert_agrees(composition, recurrence, X)


MISTAKES = {
    "lengths": (
        lambda: lax.associative_scan(affine, {"a": np.ones(3), "b": np.ones(4)}),
        ShapeError,
        r"elems\['b'\]",
    ),
    "a scalar": (lambda: lax.associative_scan(lax.add, 1.0), AxisError, "axis 0"),
    "no such axis": (lambda: lax.associative_scan(lax.add, X, axis=2), AxisError, "axis 2"),
    "nothing": (lambda: lax.associative_scan(lax.add, ()), TreeError, "no arrays"),
    "no function": (lambda: lax.associative_scan(None, X), DtypeError, "as its function"),
    "containers": (lambda: lax.associative_scan(lambda a, b: (a, b), X), TreeError, "containers"),
    "shapes": (
        lambda: lax.associative_scan(lambda a, b: fnp.sum(a) + fnp.sum(b), X),
        ShapeError,
        "for any length of the axis",
    ),
    "dtypes": (
        lambda: lax.associative_scan(lambda a, b: (a + b).astype("f4"), X),
        ShapeError,
        "for any length of the axis",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name):
    f, error, phrase = MISTAKES[name]
    with pytest.raises(error, match=phrase):
        f()

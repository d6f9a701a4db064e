"""Values and derivatives of the movement rows and of sort where they are delicate.

Rank 0, clamped starts, negative padding, masks, parts without cotangent, equal keys and NaN. The
generated laws cover the ordinary points.
"""

from typing import Any

import numpy as np
import pytest

from ftrace.core.avals import aval, typeof
from ftrace.core.dtypes import float64, int64
from ftrace.core.primitive import Linear
from ftrace.core.zero import ZERO, Masked
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.linearize import linearize_flat
from ftrace.interpreters.tangents import materialise
from ftrace.primitives.arithmetic import mul
from ftrace.primitives.dynamic import dynamic_slice, dynamic_update_slice
from ftrace.primitives.shape import concatenate, expand_dims, reshape, rev, split, squeeze
from ftrace.primitives.slicing import pad, update_slice
from ftrace.primitives.slicing import slice as slice_row
from ftrace.primitives.sort import sort

NAN, INF = np.nan, np.inf
SORT = {"dimension": 0, "is_stable": True, "num_keys": 1}


def gradient(fn: Any, *xs: Any, ct: Any = None) -> Any:
    """The pullback of a cotangent to each operand; None where none arrives."""
    (y,), tape = linearize_flat(lambda *vs: [fn(*vs)], xs, outlives=True)
    found = tape.pull([np.ones_like(y) if ct is None else ct])
    return found[0] if len(xs) == 1 else found


# ---------------------------------------------------------------------------------- dynamic slices


@pytest.mark.parametrize(("start", "place"), [(-7, 0), (0, 0), (2, 2), (3, 3), (4, 3), (99, 3)])
def test_a_dynamic_start_is_clamped(start: int, place: int) -> None:
    x = np.arange(5.0)
    np.testing.assert_array_equal(dynamic_slice(x, start, slice_sizes=(2,)), x[place : place + 2])
    expected = x.copy()
    expected[place : place + 2] = -1
    y = dynamic_update_slice(x, np.array([-1.0, -1]), np.int64(start))
    np.testing.assert_array_equal(y, expected)


def test_the_cotangent_of_a_clamped_slice_goes_to_where_it_read() -> None:
    g = gradient(lambda x: dynamic_slice(x, np.int64(9), slice_sizes=(2,)), np.arange(4.0))
    np.testing.assert_array_equal(g, [0, 0, 1, 1])
    to_x, to_v = gradient(
        lambda x, v: dynamic_update_slice(x, v, np.int64(-9)),
        np.arange(3.0),
        np.ones(2),
        ct=np.array([1.0, 10, 100]),
    )
    np.testing.assert_array_equal(to_x, [0, 0, 100])
    np.testing.assert_array_equal(to_v, [1, 10])


# ---------------------------------------------------------------------------------- padding


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ((1, 2, 0), [9, 0, 1, 2, 3, 9, 9]),
        ((0, 0, 2), [0, 9, 9, 1, 9, 9, 2, 9, 9, 3]),
        ((-1, 0, 2), [9, 9, 1, 9, 9, 2, 9, 9, 3]),
        ((-4, -4, 2), [9, 9]),
        ((-4, 1, 2), [9, 9, 2, 9, 9, 3, 9]),
        ((-2, -2, 0), []),
        ((-4, 2, 0), [9, 9]),
        ((6, -5, 0), [9, 9, 9, 9, 9]),
    ],
)
def test_padding_inserts_and_cuts(config: Any, expected: list[int]) -> None:
    y = pad(np.arange(4), 9, padding_config=(config,))
    np.testing.assert_array_equal(y, expected)
    assert typeof(y) == pad.type(aval((4,), int64), aval((), int64), padding_config=(config,))
    g = gradient(lambda x: pad(x, 9.0, padding_config=(config,)), np.arange(4.0))
    np.testing.assert_array_equal(g, [float(k in expected) for k in range(4)])


def test_the_cotangent_of_the_padding_value_ignores_what_is_not_padding() -> None:
    ct = np.array([1.0, INF, NAN, 10])
    _, g = gradient(
        lambda x, v: pad(x, v, padding_config=((1, 1, 0),)), np.ones(2), np.float64(0), ct=ct
    )
    assert g == 11


def test_an_empty_array_is_padded() -> None:
    y = pad(np.zeros(0), 1.0, padding_config=((2, 1, 3),))
    np.testing.assert_array_equal(y, [1, 1, 1])
    g = gradient(lambda x: pad(x, 1.0, padding_config=((2, 1, 3),)), np.zeros(0))
    assert g.shape == (0,)


# ---------------------------------------------------------------------------------- shapes, slices


@pytest.mark.parametrize(
    ("row", "params"),
    [
        (reshape, {"new_sizes": ()}),
        (squeeze, {"dimensions": ()}),
        (expand_dims, {"dimensions": ()}),
        (rev, {"dimensions": ()}),
        (slice_row, {"start_indices": (), "limit_indices": (), "strides": ()}),
    ],
    ids=lambda p: getattr(p, "name", ""),
)
def test_rank_0_gives_a_numpy_scalar(row: Any, params: Any) -> None:
    assert type(row(2.5, **params)) is np.float64
    assert type(row(np.float32(2.5), **params)) is np.float32


@pytest.mark.parametrize(
    ("row", "params"),
    [
        (reshape, {"new_sizes": (3,)}),
        (squeeze, {"dimensions": ()}),
        (expand_dims, {"dimensions": ()}),
        (rev, {"dimensions": ()}),
        (slice_row, {"start_indices": (0,), "limit_indices": (3,), "strides": (1,)}),
    ],
    ids=lambda p: getattr(p, "name", ""),
)
def test_a_movement_that_moves_nothing_gives_a_view_that_is_a_new_object(
    row: Any, params: Any
) -> None:
    x = np.arange(3.0)
    y = row(x, **params)
    assert y is not x
    assert np.shares_memory(x, y)


def test_a_write_of_a_strided_slice() -> None:
    where = {"start_indices": (1,), "limit_indices": (6,), "strides": (2,)}
    x = np.arange(6.0)
    y = update_slice(x, np.array([-1.0, -2, -3]), **where)
    np.testing.assert_array_equal(y, [0, -1, 2, -2, 4, -3])
    to_x, to_v = gradient(
        lambda x, v: mul(update_slice(x, v, **where), np.arange(6.0)), x, np.ones(3)
    )
    np.testing.assert_array_equal(to_x, [0, 0, 2, 0, 4, 0])
    np.testing.assert_array_equal(to_v, [1, 3, 5])


def test_a_part_without_cotangent_counts_as_zero() -> None:
    def middle(x: Any) -> Any:
        return split(x, sizes=(1, 2, 1), axis=0)[1]

    np.testing.assert_array_equal(gradient(middle, np.arange(4.0)), [0, 1, 1, 0])


def test_split_keeps_the_masks_of_its_parts() -> None:
    cts = [None, Masked(np.array([NAN, 2.0]), np.array([False, True])), np.array([3.0])]
    (ct,) = split.transpose(cts, Linear(aval((4,), float64)), sizes=(1, 2, 1), axis=0)
    np.testing.assert_array_equal(ct.mask, [False, False, True, True])
    np.testing.assert_array_equal(materialise(ct), [0, 0, 2, 3])


def test_concatenate_takes_many_arrays_and_one() -> None:
    xs = [np.full(k, float(k)) for k in range(5)]
    np.testing.assert_array_equal(concatenate(*xs, dimension=0), np.concatenate(xs))
    y = concatenate(xs[3], dimension=0)
    assert not np.shares_memory(y, xs[3])
    found = gradient(lambda *a: concatenate(*a, dimension=0), *xs, ct=np.arange(10.0))
    np.testing.assert_array_equal(np.concatenate(found), np.arange(10.0))


# ---------------------------------------------------------------------------------- sorting


def test_nan_comes_last_and_keeps_its_partner() -> None:
    keys, values = np.array([NAN, 2.0, NAN, -1]), np.array([0.0, 1, 2, 3])
    ks, vs = sort(keys, values, **SORT)
    np.testing.assert_array_equal(ks, [-1, 2, NAN, NAN])
    np.testing.assert_array_equal(vs, [3, 1, 0, 2])


def test_the_first_key_decides_first() -> None:
    a, b = np.array([2, 1, 2, 1]), np.array([1.0, 4, 0, 3])
    first, second, order = sort(a, b, np.arange(4), dimension=0, is_stable=True, num_keys=2)
    np.testing.assert_array_equal(first, [1, 1, 2, 2])
    np.testing.assert_array_equal(second, [3, 4, 0, 1])
    np.testing.assert_array_equal(order, [3, 1, 2, 0])


def test_equal_keys_keep_their_order_also_in_the_derivative() -> None:
    keys, values = np.array([1, 0, 1, 0]), np.arange(4.0)
    g = gradient(lambda v: sort(keys, v, **SORT)[1], values, ct=np.array([1.0, 10, 100, 1000]))
    np.testing.assert_array_equal(g, [100, 1, 1000, 10])


def test_an_integer_operand_of_a_sort_has_no_tangent() -> None:
    _, ts = jvp_flat(
        lambda k, v: sort(k, v, **SORT), [np.array([1, 0]), np.ones(2)], [ZERO, np.array([5.0, 6])]
    )
    assert ts[0] is ZERO
    np.testing.assert_array_equal(ts[1], [6, 5])


def test_sorting_along_an_inner_axis_differentiates_each_row_by_itself() -> None:
    x = np.array([[3.0, 1, 2], [1, 2, 0]])
    ct = np.array([[1.0, 10, 100], [1000, 10000, 100000]])
    params = {"dimension": 1, "is_stable": True, "num_keys": 1}
    g = gradient(lambda x: sort(x, **params)[0], x, ct=ct)
    np.testing.assert_array_equal(g, [[100, 1, 10], [10000, 100000, 1000]])

"""Values and derivatives of gather and the scatters where they are delicate.

Duplicate places, negative and outside indices, empty axes, ties and NaN. Expected numbers
are NumPy's, written out, or central differences; the generated laws cover the ordinary points.
"""

from typing import Any

import numpy as np
import pytest

from ftrace.core.avals import aval, typeof
from ftrace.core.dtypes import float64, int64
from ftrace.core.errors import RuleError
from ftrace.core.primitive import Linear
from ftrace.core.zero import Masked
from ftrace.interpreters.batching import Axis, batch_flat
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.linearize import linearize_flat
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.interpreters.tangents import instantiate, materialise
from ftrace.primitives.dynamic import dynamic_slice
from ftrace.primitives.index import gather, scatter, scatter_add
from ftrace.primitives.scatter import scatter_max, scatter_min, scatter_mul

NAN, INF = np.nan, np.inf
FIRST = {"axes": (0,), "mode": "raise"}


def tangent(fn: Any, primals: Any, tangents: Any) -> Any:
    """The tangent of one result; zeros made real."""
    (y,), (t,) = jvp_flat(lambda *xs: [fn(*xs)], primals, tangents)
    return instantiate(t, y)


def gradient(fn: Any, *xs: Any, ct: Any = None) -> Any:
    """The pullback of a cotangent to each operand; None where none arrives."""
    (y,), tape = linearize_flat(lambda *vs: [fn(*vs)], xs, outlives=True)
    found = tape.pull([np.ones_like(y) if ct is None else ct])
    return found[0] if len(xs) == 1 else found


def difference(fn: Any, primals: Any, tangents: Any, h: float = 1e-4) -> Any:
    """The derivative along a direction by central differences, extrapolated once."""

    def central(step: float) -> Any:
        up = [p + step * t for p, t in zip(primals, tangents, strict=True)]
        down = [p - step * t for p, t in zip(primals, tangents, strict=True)]
        return (fn(*up) - fn(*down)) / (2 * step)

    return (4 * central(h / 2) - central(h)) / 3


def numpy_scatter(x: Any, v: Any, i: Any) -> Any:
    """A scatter written as a loop: the last of equal places wins."""
    out = x.copy()
    for place, value in zip(np.ravel(i), v.reshape(-1, *x.shape[1:]), strict=True):
        out[place] = value
    return out


# ---------------------------------------------------------------------------------- gather


def test_a_gather_by_one_index_is_numpys_view() -> None:
    x = np.arange(6.0).reshape(3, 2)
    y = gather(x, np.int64(-1), **FIRST)
    np.testing.assert_array_equal(y, [4, 5])
    assert np.shares_memory(y, x)


def test_a_gather_of_one_element_is_a_scalar() -> None:
    y = gather(np.arange(3.0), 1, **FIRST)
    assert type(y) is np.float64
    assert y == 1


@pytest.mark.parametrize("order", ["C", "F"])
def test_gather_puts_the_index_shape_first_for_any_axes(order: str) -> None:
    x = np.asarray(np.arange(24.0).reshape(2, 3, 4), order=order)
    i, j = np.array([[0, 3]]), np.array([[1, -1]])
    y = gather(x, i, j, axes=(2, 0), mode="raise")
    np.testing.assert_array_equal(y, np.moveaxis(x, (2, 0), (0, 1))[i, j])


OUTSIDE = np.array([0, 2, 3, 7, -1, -3, -4])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("clip", [10, 12, 12, 12, 10, 10, 10]),
        ("wrap", [10, 12, 10, 11, 12, 10, 12]),
        ("drop", [10, 12, 0, 0, 12, 10, 0]),
        ("fill", [10, 12, NAN, NAN, 12, 10, NAN]),
    ],
)
def test_gather_treats_outside_indices_as_its_mode_says(mode: str, expected: Any) -> None:
    x = np.array([10.0, 11.0, 12.0])
    np.testing.assert_array_equal(gather(x, OUTSIDE, axes=(0,), mode=mode), expected)


def test_fill_has_no_nan_for_integers() -> None:
    y = gather(np.array([5, 6]), np.array([1, 2]), axes=(0,), mode="fill")
    np.testing.assert_array_equal(y, [6, 0])
    assert y.dtype == int64


def test_the_tangent_of_what_was_filled_in_is_zero() -> None:
    i = np.array([1, 5])
    t = tangent(lambda x: gather(x, i, axes=(0,), mode="fill"), [np.ones(3)], [np.full(3, 2.0)])
    np.testing.assert_array_equal(t, [2, 0])
    g = gradient(lambda x: gather(x, i, axes=(0,), mode="fill"), np.ones(3), ct=np.array([3.0, 4]))
    np.testing.assert_array_equal(g, [0, 3, 0])


def test_filling_from_an_empty_axis_gives_the_index_shape() -> None:
    x = np.zeros((0, 2))
    y = gather(x, np.array([[0, -1, 4]]), axes=(0,), mode="fill")
    assert y.shape == (1, 3, 2)
    assert np.isnan(y).all()
    y = gather(np.zeros((0, 4)), np.int64(0), np.array([1, 2]), axes=(0, 1), mode="drop")
    np.testing.assert_array_equal(y, [0, 0])


@pytest.mark.parametrize("mode", ["raise", "clip", "wrap"])
def test_reading_from_an_empty_axis_raises(mode: str) -> None:
    with pytest.raises(IndexError, match="axis 0 with size 0"):
        gather(np.zeros((0, 2)), np.array([0]), axes=(0,), mode=mode)


@pytest.mark.parametrize("index", [np.int64(3), np.array([0, 3]), np.uint8(3), np.array([-4, 3])])
def test_an_outside_index_raises_with_the_index_and_the_size(index: Any) -> None:
    x = np.ones((2, 3))
    found = np.min(index) if np.min(index) < 0 else 3
    with pytest.raises(IndexError, match=f"Index {found} is out of bounds for axis 1 with size 3"):
        gather(x, index, axes=(1,), mode="raise")
    v = np.ones((*np.shape(index), 2))
    with pytest.raises(IndexError, match=f"Index {found} is out of bounds for axis 1 with size 3"):
        scatter(x, v, index, axes=(1,), mode="raise")


def test_a_huge_unsigned_index_is_outside_not_negative() -> None:
    i = np.array([2**64 - 1], np.uint64)
    x = np.arange(3.0)
    np.testing.assert_array_equal(gather(x, i, axes=(0,), mode="drop"), [0])
    np.testing.assert_array_equal(gather(x, i, axes=(0,), mode="clip"), [2])
    np.testing.assert_array_equal(gather(x, i, axes=(0,), mode="wrap"), [(2**64 - 1) % 3])


def test_cotangents_of_equal_places_add_up() -> None:
    i = np.array([2, 0, 2, -1])
    g = gradient(lambda x: gather(x, i, **FIRST), np.ones(3), ct=np.array([1.0, 10, 100, 1000]))
    np.testing.assert_array_equal(g, [10, 0, 1101])


def test_a_masked_term_does_not_spoil_the_sum_of_equal_places() -> None:
    ct = Masked(np.array([NAN, 5.0, INF]), np.array([False, True, False]))
    (to_x, none) = gather.transpose(ct, Linear(aval((3,), float64)), np.array([1, 1, 2]), **FIRST)
    assert none is None
    np.testing.assert_array_equal(to_x.mask, [False, True, False])
    np.testing.assert_array_equal(materialise(to_x), [0, 5, 0])


# ---------------------------------------------------------------------------------- scatter


@pytest.mark.parametrize("shape", [(5,), (1, 5), (5, 1)])
@pytest.mark.parametrize("rest", [(), (2,)])
def test_the_last_of_equal_places_wins(shape: Any, rest: Any) -> None:
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(3, *rest)), rng.normal(size=(*shape, *rest))
    i = np.array([2, 0, 2, -3, 2]).reshape(shape)
    np.testing.assert_array_equal(scatter(x, v, i, **FIRST), numpy_scatter(x, v, i))


def test_the_last_of_equal_places_wins_whatever_the_memory_order() -> None:
    i = np.array([[0, 1, 1], [1, 0, 2]])
    v = np.arange(6.0).reshape(2, 3)
    expected = numpy_scatter(np.zeros(3), v, i)
    for a in (i, np.asfortranarray(i), i[::-1][::-1]):
        for b in (v, np.asfortranarray(v), v[:, ::-1][:, ::-1]):
            np.testing.assert_array_equal(scatter(np.zeros(3), b, a, **FIRST), expected)


def test_only_the_winner_gets_the_cotangent() -> None:
    i = np.array([2, 0, 2, 0])
    ct = np.array([1.0, 10, 100])
    to_x, to_v = gradient(lambda x, v: scatter(x, v, i, **FIRST), np.ones(3), np.ones(4), ct=ct)
    np.testing.assert_array_equal(to_x, [0, 10, 0])
    np.testing.assert_array_equal(to_v, [0, 0, 100, 1])


def test_updates_that_are_dropped_get_no_cotangent() -> None:
    i = np.array([1, 9, -9, 1])
    ct = np.array([1.0, 10, 100])
    write = {"axes": (0,), "mode": "drop"}
    to_x, to_v = gradient(lambda x, v: scatter(x, v, i, **write), np.ones(3), np.ones(4), ct=ct)
    np.testing.assert_array_equal(to_x, [1, 0, 100])
    np.testing.assert_array_equal(to_v, [0, 0, 0, 10])


@pytest.mark.parametrize("mode", ["clip", "wrap", "drop"])
def test_scatter_treats_outside_indices_as_its_mode_says(mode: str) -> None:
    expected = {"clip": [55, 0, 33], "wrap": [44, 33, 55], "drop": [11, 0, 0]}[mode]
    i, v = np.array([0, 4, 3, -4]), np.array([11.0, 33, 44, 55])
    i, v = (i, v) if mode == "wrap" else (np.array([0, 4, -4]), np.array([11.0, 33, 55]))
    np.testing.assert_array_equal(scatter(np.zeros(3), v, i, axes=(0,), mode=mode), expected)
    if mode == "drop":
        for index in (np.int64(3), np.int64(-4)):
            y = scatter_add(np.ones(3), np.float64(5), index, axes=(0,), mode=mode)
            np.testing.assert_array_equal(y, np.ones(3))


def test_scatter_add_adds_as_often_as_a_place_occurs() -> None:
    i = np.array([2, 0, 2, 2])
    y = scatter_add(np.zeros(3), np.array([1.0, 10, 100, 1000]), i, **FIRST)
    np.testing.assert_array_equal(y, [10, 0, 1101])


@pytest.mark.parametrize("n", [3, 40])
def test_scatter_add_of_rows_equals_numpys(n: int) -> None:
    rng = np.random.default_rng(1)
    x, v, i = rng.normal(size=(4, 2, 3)), rng.normal(size=(n, 4, 3)), rng.integers(-2, 2, n)
    expected = x.copy()
    np.add.at(expected, (np.s_[:], i), np.moveaxis(v, 0, 1))
    y = scatter_add(x, v, i, axes=(1,), mode="raise")
    np.testing.assert_allclose(y, expected, rtol=1e-14)


def test_scatter_add_of_booleans_is_or() -> None:
    y = scatter_add(np.zeros(3, bool), np.array([True, False, True]), np.array([0, 1, 0]), **FIRST)
    np.testing.assert_array_equal(y, [True, False, False])


def test_a_write_leaves_the_operand_alone() -> None:
    x = np.ones(3)
    for row in (scatter, scatter_add, scatter_mul, scatter_min, scatter_max):
        row(x, np.full(2, 5.0), np.array([0, 0]), **FIRST)
        row(x, np.float64(5), np.int64(1), **FIRST)
    np.testing.assert_array_equal(x, np.ones(3))


def test_a_python_scalar_is_written_in_the_arrays_dtype() -> None:
    x = np.ones(3, np.float32)
    y = scatter(x, 2.5, 1, **FIRST)
    assert y.dtype == np.float32
    _, t = jvp_flat(
        lambda a, s: [scatter(a, s, 1, **FIRST)], [x, 2.5], [np.zeros_like(x), np.float64(3)]
    )
    np.testing.assert_array_equal(t[0], [0, 3, 0])
    assert typeof(t[0]).dtype == np.float32
    assert gradient(lambda s: scatter(x, s, 1, **FIRST), 2.5, ct=np.arange(5, 8, dtype="f4")) == 6


def test_adding_a_constant_leaves_the_tangent_as_it_is() -> None:
    x, t = np.array([2.0, 3.0, 5.0]), np.array([1.0, 10.0, 100.0])
    for indices in (np.int64(1), np.array([1, 1])):
        v = np.full(np.shape(indices), 7.0)[()]
        add = lambda a, v=v, i=indices: [scatter_add(a, v, i, **FIRST)]  # noqa: E731
        assert jvp_flat(add, [x], [t])[1][0] is t


# ---------------------------------------------------------------------------------- products


DUPLICATES = np.array([1, 0, 1, 1, 0])


@pytest.mark.parametrize(
    "values",
    [[2.0, 3, 5, 7, 11], [0.0, 3, 5, 7, 11], [0.0, 0, 5, 0, 11], [0.0, 0, 0, 0, 0]],
    ids=["no zero", "one zero", "two zeros at a place", "all zero"],
)
def test_products_at_equal_places_have_exact_derivatives(values: list[float]) -> None:
    v = np.array(values)
    x = np.array([1.5, -2.0, 3.0])
    g_x, g_v = gradient(
        lambda x, v: scatter_mul(x, v, DUPLICATES, **FIRST), x, v, ct=np.array([1.0, 10, 100])
    )
    others = [np.prod([v[j] for j in range(5) if j != k and DUPLICATES[j] == p])
              for k, p in enumerate(DUPLICATES)]  # fmt: skip
    np.testing.assert_array_equal(g_v, np.array([1.0, 10])[DUPLICATES] * x[DUPLICATES] * others)
    expected = [np.prod(v[DUPLICATES == 0]), 10 * np.prod(v[DUPLICATES == 1]), 100]
    np.testing.assert_array_equal(g_x, expected)


@pytest.mark.parametrize("values", [[2.0, 3, 5, 7, 11], [0.0, 3, 0, 7, 0]])
def test_second_derivatives_of_products_at_equal_places(values: list[float]) -> None:
    rng = np.random.default_rng(2)
    primals = [rng.normal(size=(3, 2)), np.array(values)[:, None] * np.array([1.0, -0.5])]
    first, second = ([rng.normal(size=p.shape) for p in primals] for _ in range(2))

    def derivative(*xs: Any) -> Any:
        return tangent(lambda x, v: scatter_mul(x, v, DUPLICATES, **FIRST), xs, first)

    actual = tangent(derivative, primals, second)
    np.testing.assert_allclose(actual, difference(derivative, primals, second), rtol=1e-7)


def test_products_with_updates_outside_have_derivatives() -> None:
    i, v = np.array([1, 9, 1, -9]), np.array([2.0, 3, 5, 7])
    write = {"axes": (0,), "mode": "drop"}
    g_x, g_v = gradient(lambda x, v: scatter_mul(x, v, i, **write), np.full(3, 2.0), v)
    np.testing.assert_array_equal(g_x, [1, 10, 1])
    np.testing.assert_array_equal(g_v, [10, 0, 4, 0])


def test_an_infinite_element_times_a_constant_has_the_constant_as_its_slope() -> None:
    x, v, i = np.array([INF, 3.0, 2.0]), np.array([5.0, 7.0]), np.array([0, 2])
    t = tangent(lambda a: scatter_mul(a, v, i, **FIRST), [x], [np.array([1.0, 10.0, 100.0])])
    np.testing.assert_array_equal(t, [5.0, 10.0, 700.0])


def test_scatter_mul_says_in_what_it_is_linear() -> None:
    v = Linear(aval((2,), float64))
    with pytest.raises(RuleError, match="linear in the array only"):
        scatter_mul.transpose(np.ones(3), np.ones(3), v, np.array([0, 0]), **FIRST)


# ---------------------------------------------------------------------------------- extremes


def test_the_winner_of_a_maximum_gets_the_cotangent() -> None:
    x, v = np.array([1.0, 2, 3]), np.array([5.0, 7, 0])
    to_x, to_v = gradient(
        lambda x, v: scatter_max(x, v, np.array([0, 0, 1]), **FIRST), x, v, ct=np.array([1.0, 2, 3])
    )
    np.testing.assert_array_equal(to_x, [0, 2, 3])
    np.testing.assert_array_equal(to_v, [0, 1, 0])


def test_ties_share_the_cotangent_equally() -> None:
    x, v = np.array([4.0, 2, 3]), np.array([4.0, 4, 1, 2])
    i = np.array([0, 0, 1, 1])
    for row, sign in ((scatter_max, 1), (scatter_min, -1)):
        to_x, to_v = gradient(
            lambda x, v, row=row: row(x, v, i, **FIRST),
            sign * x,
            sign * v,
            ct=np.array([6.0, 2, 5]),
        )
        np.testing.assert_array_equal(to_x, [2, 1, 5])
        np.testing.assert_array_equal(to_v, [2, 2, 0, 1])


def test_nan_in_one_place_does_not_reach_the_tangents_of_others() -> None:
    x, v = np.array([NAN, 1, 2]), np.array([3.0, NAN])
    tangents = [np.array([1.0, 10, 100]), np.array([1000.0, 10000])]
    with quietly():  # `np.maximum.at` warns of NaN, `np.maximum` does not
        (y,), (t,) = jvp_flat(
            lambda x, v: [scatter_max(x, v, np.array([1, 2]), **FIRST)], [x, v], tangents
        )
    np.testing.assert_array_equal(y, [NAN, 3, NAN])
    np.testing.assert_array_equal(t, [1, 1000, 10000])


# ---------------------------------------------------------------------------------- batching


@pytest.mark.parametrize("row", [scatter, scatter_add, scatter_mul, scatter_max])
def test_members_with_their_own_duplicates_do_not_mix(row: Any) -> None:
    rng = np.random.default_rng(3)
    x, v = rng.normal(size=(2, 3)), rng.normal(size=(2, 4))
    i = np.array([[2, 0, 2, -1], [1, 1, 1, 0]])
    (y,), (d,) = batch_flat(lambda *a: [row(*a, **FIRST)], Axis(2), [x, v, i], [0, 0, 0])
    expected = [row(x[k], v[k], i[k], **FIRST) for k in range(2)]
    np.testing.assert_array_equal(np.moveaxis(y, d, 0), expected)


def test_batched_starts_are_clamped_one_by_one() -> None:
    x, starts = np.arange(5.0), np.array([-3, 1, 9], np.int8)
    (y,), (d,) = batch_flat(
        lambda s: [dynamic_slice(x, s, slice_sizes=(2,))], Axis(3), [starts], [0]
    )
    np.testing.assert_array_equal(np.moveaxis(y, d, 0), [[0, 1], [1, 2], [3, 4]])


def test_a_slice_of_everything_is_mapped_though_its_start_says_nothing() -> None:
    x, starts = np.arange(2.0), np.array([0, 5, -5])
    (y,), (d,) = batch_flat(
        lambda s: [dynamic_slice(x, s, slice_sizes=(2,))], Axis(3), [starts], [0]
    )
    np.testing.assert_array_equal(np.moveaxis(y, d, 0), [x, x, x])


def test_indexing_stages_without_looking_at_the_indices() -> None:
    jaxpr, captured = trace_to_jaxpr(
        lambda x, v, i: [gather(scatter(x, v, i, **FIRST), i, **FIRST)],
        [aval((3,), float64), aval((2,), float64), aval((2,), int64)],
    )
    assert not captured
    assert [e.primitive.name for e in jaxpr.eqns] == ["scatter", "gather"]

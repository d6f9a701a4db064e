"""Derivatives at the points that formulas with a quotient get wrong: zeros, ties, infinities.

Expected values are written down, or found by expanding the polynomial, never by differences.
"""

import itertools
from typing import Any

import numpy as np
import pytest

from ftrace.core.primitive import Primitive
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.linearize import linearize_flat
from ftrace.primitives.cumulative import cumlogsumexp, cummax, cummin, cumprod
from ftrace.primitives.elementwise import acos, asin
from ftrace.primitives.reduce import argmax, argmin, reduce_max, reduce_min, reduce_prod

INT = np.dtype(np.int64)


def gradient(row: Primitive, x: Any, ct: Any, **params: Any) -> Any:
    """The pullback of one cotangent."""
    _, tape = linearize_flat(lambda v: [row(v, **params)], [x], outlives=False)
    return tape.pull([ct])[0]


def jacobian(row: Primitive, x: Any, **params: Any) -> Any:
    """All first derivatives, one row an output, by pushing unit vectors."""

    def along(i: int) -> Any:
        (_,), (t,) = jvp_flat(lambda v: [row(v, **params)], [x], [np.eye(len(x))[i]])
        return t

    return np.stack([along(i) for i in range(len(x))], axis=-1)


def second(row: Primitive, x: Any, i: int, j: int, **params: Any) -> Any:
    """The derivative along the unit vectors i and j."""
    units = np.eye(len(x))

    def first(v: Any) -> list[Any]:
        return jvp_flat(lambda w: [row(w, **params)], [v], [units[i]])[1]

    _, (t,) = jvp_flat(first, [x], [units[j]])
    return np.float64(0) if t is ZERO else t


ZEROS = {
    "no zero": [2.0, 3.0, 5.0, 7.0],
    "one zero": [2.0, 0.0, 5.0, 7.0],
    "two zeros": [2.0, 0.0, 5.0, 0.0],
    "three zeros": [0.0, 0.0, 5.0, 0.0],
    "an odd number of elements": [2.0, 0.0, 5.0, 0.0, 3.0],
}
over_zeros = pytest.mark.parametrize("x", [np.array(v) for v in ZEROS.values()], ids=list(ZEROS))


@over_zeros
def test_prod_has_the_exact_gradient(x: Any) -> None:
    expected = [np.prod(np.delete(x, i)) for i in range(len(x))]
    np.testing.assert_array_equal(gradient(reduce_prod, x, np.float64(1), axes=(0,)), expected)
    np.testing.assert_array_equal(jacobian(reduce_prod, x, axes=(0,)), expected)


@over_zeros
def test_prod_has_the_exact_hessian(x: Any) -> None:
    for i, j in itertools.product(range(len(x)), repeat=2):
        expected = 0.0 if i == j else np.prod(np.delete(x, [i, j]))
        assert expected == second(reduce_prod, x, i, j, axes=(0,))


@over_zeros
@pytest.mark.parametrize("reverse", [False, True])
def test_cumprod_has_the_exact_jacobian(x: Any, reverse: bool) -> None:
    turned = x[::-1] if reverse else x
    expected = np.zeros((len(x), len(x)))
    for k, i in itertools.product(range(len(x)), repeat=2):
        if i <= k:
            expected[k, i] = np.prod(np.delete(turned[: k + 1], i))
    expected = expected[::-1, ::-1] if reverse else expected
    np.testing.assert_array_equal(jacobian(cumprod, x, axis=0, reverse=reverse), expected)


@over_zeros
def test_cumprod_has_the_exact_second_derivative(x: Any) -> None:
    for i, j in itertools.product(range(len(x)), repeat=2):
        expected = [
            0.0 if i == j or max(i, j) > k else np.prod(np.delete(x[: k + 1], [i, j]))
            for k in range(len(x))
        ]
        found = second(cumprod, x, i, j, axis=0, reverse=False)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("row", "x", "expected"),
    [
        (reduce_max, [1.0, 3.0, 3.0], [0.0, 0.5, 0.5]),
        (reduce_max, [3.0, 3.0, 3.0, 3.0], [0.25, 0.25, 0.25, 0.25]),
        (reduce_min, [1.0, 3.0, 1.0], [0.5, 0.0, 0.5]),
        (reduce_max, [-np.inf, -np.inf], [0.5, 0.5]),
        (reduce_max, [np.inf, 1.0], [1.0, 0.0]),
    ],
)
def test_ties_share_the_derivative_equally(row: Primitive, x: Any, expected: Any) -> None:
    found = gradient(row, np.array(x), np.float64(1), axes=(0,))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("row", "x", "expected"),
    [
        (cummax, [1.0, 1.0, 1.0], [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]),
        (cummax, [1.0, 2.0, 2.0], [[1, 0, 0], [0, 1, 0], [0, 1 / 2, 1 / 2]]),
        (cummax, [2.0, 1.0, 2.0], [[1, 0, 0], [1, 0, 0], [1 / 2, 0, 1 / 2]]),
        (cummin, [2.0, 1.0, 1.0], [[1, 0, 0], [0, 1, 0], [0, 1 / 2, 1 / 2]]),
    ],
)
def test_ties_of_a_running_extreme_share_equally(row: Primitive, x: Any, expected: Any) -> None:
    found = jacobian(row, np.array(x), axis=0, reverse=False)
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    turned = jacobian(row, np.array(x[::-1]), axis=0, reverse=True)
    np.testing.assert_allclose(turned, np.array(expected)[::-1, ::-1], rtol=1e-15)


def test_a_huge_tangent_of_a_smaller_element_does_not_reach_the_running_maximum() -> None:
    x, t = np.array([1.0, 2.0, 3.0]), np.array([1e300, np.inf, 1.0])
    (_,), (found,) = jvp_flat(lambda v: [cummax(v, axis=0, reverse=False)], [x], [t])
    np.testing.assert_array_equal(found, t)


def test_a_huge_tangent_of_a_smaller_element_does_not_reach_the_maximum() -> None:
    x, t = np.array([1.0, 2.0, 3.0]), np.array([np.nan, np.inf, 1.0])
    (_,), (found,) = jvp_flat(lambda v: [reduce_max(v, axes=(0,))], [x], [t])
    assert found == 1.0


def test_cumlogsumexp_starts_from_minus_infinity_without_nan() -> None:
    x = np.array([-np.inf, -np.inf, 0.0, 0.0])
    expected = [[1, 0, 0, 0], [1 / 2, 1 / 2, 0, 0], [0, 0, 1, 0], [0, 0, 1 / 2, 1 / 2]]
    found = jacobian(cumlogsumexp, x, axis=0, reverse=False)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_cumlogsumexp_does_not_overflow() -> None:
    x = np.array([1000.0, 1000.0, -1000.0])
    expected = [1000.0, 1000.0 + np.log(2), 1000.0 + np.log(2)]
    np.testing.assert_allclose(cumlogsumexp(x, axis=0, reverse=False), expected, rtol=1e-15)
    jac = jacobian(cumlogsumexp, x, axis=0, reverse=False)
    np.testing.assert_allclose(jac[2], [0.5, 0.5, 0.0], atol=1e-15)


@pytest.mark.parametrize("row", [argmax, argmin])
def test_the_first_nan_is_the_extreme(row: Primitive) -> None:
    x = np.array([[1.0, np.nan, 5.0], [np.nan, 0.0, np.nan], [2.0, 1.0, 2.0]])
    expected = getattr(np, row.name)(x, axis=1)
    np.testing.assert_array_equal(row(x, axis=1, index_dtype=INT), expected)


@pytest.mark.parametrize("row", [reduce_prod, reduce_max, reduce_min])
def test_no_axes_is_the_identity(row: Primitive) -> None:
    x, t = np.array([1.0, 0.0]), np.array([3.0, 4.0])
    (y,), (found,) = jvp_flat(lambda v: [row(v, axes=())], [x], [t])
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(found, t)


def test_the_product_of_nothing_has_an_empty_gradient() -> None:
    x = np.zeros((0, 2))
    found = gradient(reduce_prod, x, np.ones(2), axes=(0,))
    assert np.shape(found) == (0, 2)


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("x", [1.0, -1.0])
def test_inverse_sines_are_infinitely_steep_upwards_at_both_ends(x: float) -> None:
    point = np.array([x])
    assert gradient(asin, point, np.ones(1))[0] == np.inf
    assert gradient(acos, point, np.ones(1))[0] == -np.inf

"""What a handler finds: nothing was done behind what raised, and unbound names are refused."""

import math

import numpy as np
import pytest

import ftrace
from ftrace.errors import LiftError


def put_first(a, v):
    a[0] = v
    return 2.0


def a_list_grows(x):
    found = []
    for v in (x, x - 1):
        try:
            found.append(math.log(v))
        except ValueError:
            found.append(-v)
    return sum(found) + 100 * len(found) * x


def a_helper_writes(x):
    a = np.zeros(2)
    try:
        put_first(a, math.log(x))
    except ValueError:
        a[1] = x
    return a.sum()


def a_helper_of_a_helper_writes(x):
    a = np.zeros(2)
    try:
        y = put_first(a, put_first(a, v=math.sqrt(x)))
    except ValueError:
        y = x
    return y + a.sum()


def an_array_is_filled(x):
    a = np.ones(2) * x
    try:
        a.fill(1 / int(x))
    except ZeroDivisionError:
        a[0] = 5 * x
    return a.sum()


def a_part_of_a_sum_raises(x):
    a = np.zeros(2)
    try:
        y = -math.log(x) + put_first(a, 3 * x)
        y *= 1 + put_first(a[int(1.5) :], math.sqrt(x - 1))
    except ValueError:
        y = x
    return y + a.sum()


def a_part_of_a_tuple_raises(x):
    a = np.zeros(2)
    try:
        y, z = math.log(x), put_first(a[..., int(0.5) :], 1 / int(x))
    except ValueError:
        y, z = x, 2 * x
    except ZeroDivisionError:
        y, z = 3 * x, x
    return y - z + a.sum()


def a_helpers_result_is_added(x):
    a = np.zeros(2)
    try:
        y = put_first(a, x) + put_first(a[1:], math.sqrt(x))
    except ValueError:
        y = -x
    return y + a.sum()


def an_index_that_is_known(x):
    a = np.zeros(3)
    try:
        a[0] = math.sqrt(x + 5)
        a[int(x) + 1] = 7 * x
    except IndexError:
        a[::2] = 2 * x
    return a.sum()


POINTS = (-1.5, 0.4, 2.5)


@pytest.mark.parametrize(
    "f",
    [
        a_list_grows,
        a_helper_writes,
        a_helper_of_a_helper_writes,
        an_array_is_filled,
        an_index_that_is_known,
        a_part_of_a_sum_raises,
        a_part_of_a_tuple_raises,
        a_helpers_result_is_added,
    ],
)
@pytest.mark.parametrize("x", POINTS)
def test_a_call_whose_arguments_raise_is_not_made(f, x):
    slope = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
    assert ftrace.grad(f)(x) == pytest.approx(slope, rel=1e-5, abs=1e-6)
    if f is a_list_grows:  # its length is refused where it is not known
        return
    assert ftrace.jit(f)(x) == pytest.approx(f(x))
    np.testing.assert_allclose(ftrace.vmap(f)(np.array(POINTS)), [f(p) for p in POINTS])


def unbound(x):
    if x > 0:
        z = x
    try:
        return z * 2
    except NameError:
        return -1.0


def unbound_after_a_loop(x):
    for i in range(3):
        if x > i:
            z = x + i
    try:
        y = z * 2
    except Exception:
        y = -1.0
    return y


def unbound_where_errors_are_followed(x):
    y = 0.0
    if x > 0:
        z = x
    try:
        y = math.log(x + 2)
        y += z
    except (ValueError, UnboundLocalError):
        y = -1.0
    return y


@pytest.mark.parametrize("f", [unbound, unbound_after_a_loop, unbound_where_errors_are_followed])
@pytest.mark.parametrize("way", [ftrace.jit, lambda f: lambda x: ftrace.vmap(f)(np.array([x, 1]))])
def test_a_name_that_one_side_binds_is_not_caught(f, way):
    with pytest.raises(LiftError, match="`z` is bound on one side of a decision"):
        way(f)(0.5)

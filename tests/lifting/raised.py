"""Programs that raise where values decide, for test_raising.py: functions of one number."""

import math

import numpy as np

ARGUMENTS = [2.0, 0.5, 7.0, -2.0, 0.0, 40.0, -11.0, 3.0]


class RejectedError(ValueError):
    """An error of the user's own."""


def plain(x):
    if x < 0:
        raise ValueError("negative")
    return x * 2


def with_its_value(x):
    y = x + 1
    if y < 0:
        raise ValueError(f"bad {y:.3f} of {abs(x)}")
    return y


def in_both_arms(x):
    if x > 10:
        raise RejectedError("large", int(x))
    if x < -5:
        raise KeyError("small")
    return x * x


def an_assertion(x):
    assert x > -5
    assert x < 10, f"too large: {x:.2f}"
    return x * 2


def an_assertion_in_an_arm(x):
    if x > 1:
        assert x < 30, ("large", "x")
        return x
    return -x


def after_the_return(x):
    if x > 0:
        return x
    if x > -5:
        return -x
    raise RuntimeError("none fits")


def in_a_loop(x):
    n = 0
    while x > 1:
        x = x / 2
        n += 1
        if n > 4:
            raise RuntimeError(f"{n} turns")
    return x


def a_loop_that_only_the_error_ends(x):
    n = 0
    while True:
        if n > 5:
            raise OverflowError(n)
        if x > n:
            n = n + 1
            continue
        if x < -5:
            x = x - 1
            if x < -15:
                raise ValueError("deep")
            continue
        return n + x


def in_a_for(x):
    total = 0.0
    for i in range(6):
        if x * i > 50:
            raise ValueError(f"at {i}")
        if total > 20:
            break
        total += x
    return total


def helper(x, limit):
    if x > limit:
        raise ValueError(f"over {limit}")
    return x - limit


def in_a_helper(x):
    y = helper(x, 30.0)
    if x > 1:
        y = y + helper(x, 5.0)
    return y


def a_loop_after_it(x):
    if x == 0:
        raise ZeroDivisionError("no step")
    n = 0
    while abs(n * x) < 20:
        n += 1
    return n * x


def an_object_made_before(x):
    error = RejectedError(x, "made before")
    if x > 10:
        raise error
    return x


def with_a_cause(x):
    if x < -5:
        raise ValueError("outer") from KeyError("inner")
    return x


class Model:
    def __init__(self, w):
        self.w = w

    def check(self, x):
        self.z = x * self.w
        if self.z > 20:
            raise ValueError(f"{self.w} gives {self.z:.1f}")
        return self.z


def of_an_attribute(x):
    return Model(2.0).check(x) + x


def shared_by_a_nested_function(x):
    z = x * 2
    values = [x, z]

    def inner():
        return z + 1

    if z > 20:
        raise ValueError(f"{z:.1f} {values[0]:.1f} {inner():.1f}")
    return inner()


def a_logarithm(x):
    return math.log(x + 3)


def a_logarithm_of_a_base(x):
    return math.log(x + 12, x + 1)


def an_exponential(x):
    y = x * 30
    if x > 1:
        return math.exp(y)
    return math.expm1(y)


def a_root_in_an_arm(x):
    return math.sqrt(x) if x > -5 else -x


def a_root_in_a_loop(x):
    total = 0.0
    while total < 20:
        x = x - 1
        total = total + math.sqrt(x + 9)
    return total


def a_test_of_a_loop(x):
    n = 0
    while math.log(x - n) > 0.5:
        n += 1
    return n


def a_power(x):
    return math.pow(x, -3.0) + math.pow(x, 1 / 3) + math.pow(1e9, x)


def a_gamma(x):
    return math.gamma(x) if x != 40 else math.gamma(x * 10)


def angles(x):
    return math.acos(x / 7) + math.atanh(x / 8)


def whole_numbers(x):
    big = math.inf if x == 40 else math.nan if x == 3 else x
    return int(big) + math.floor(big) + round(big)


def an_item_of_a_list(x):
    return [1.5, 2.5, x][int(x)]


def an_item_of_a_tuple(x):
    return (1.5, 2.5, x)[int(x)] if x != 40 else x


def an_item_of_a_range(x):
    return range(3, 12, 2)[int(x)]


TABLE = np.arange(12.0).reshape(4, 3)


def an_element(x):
    n = int(x)
    if n < 30:
        return TABLE[n, 1] + TABLE[0, n % 3]
    return TABLE[n % 4].sum()


def an_element_of_a_traced_array(x):
    values = np.stack([x, x + 1, x * 2])
    if x > -5:
        return values[int(x)]
    return values[0]


def an_entry_of_a_dict(x):
    return {2: 10.0, -2: x, 7: 0.5, 0: 1.0}[int(x)]


PROGRAMS = [
    plain,
    with_its_value,
    in_both_arms,
    an_assertion,
    an_assertion_in_an_arm,
    after_the_return,
    in_a_loop,
    a_loop_that_only_the_error_ends,
    in_a_for,
    in_a_helper,
    a_loop_after_it,
    an_object_made_before,
    with_a_cause,
    of_an_attribute,
    shared_by_a_nested_function,
    a_logarithm,
    a_logarithm_of_a_base,
    an_exponential,
    a_root_in_an_arm,
    a_root_in_a_loop,
    a_test_of_a_loop,
    a_power,
    a_gamma,
    angles,
    whole_numbers,
    an_item_of_a_list,
    an_item_of_a_tuple,
    an_item_of_a_range,
    an_element,
    an_element_of_a_traced_array,
    an_entry_of_a_dict,
]

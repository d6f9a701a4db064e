"""Programs with native control flow: functions of one number whose paths depend on it.

Each is smooth at the points it is tested at, so that its derivatives have one meaning.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

POINTS = (0.3, 1.7, 2.6, 5.2, -1.4)
PROGRAMS: list[Callable[[Any], Any]] = []


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Add a function to the grid."""
    PROGRAMS.append(f)
    return f


# ---------------------------------------------------------------------------------- if


@program
def if_else(x):
    if x > 1:
        y = x * x
    else:
        y = -x
    return y


@program
def if_without_else(x):
    y = x
    if x > 1:
        y = y * x
    return y * 2


@program
def elif_chain(x):
    if x > 5:
        y = x**3
    elif x > 2:
        y = x**2
    elif x > 1:
        y = np.sin(x)
    else:
        y = x * 0.5
    return y


@program
def nested_ifs(x):
    y = 1.0
    if x > 0:
        if x > 2:
            y = x * x
        else:
            y = np.exp(x)
            if x > 1:
                y = y + 3 * x
    return y * x


@program
def early_return(x):
    if x > 2:
        return x * x
    return np.sin(x)


@program
def returns_in_a_chain(x):
    if x > 5:
        return x
    elif x > 2:
        return x * x
    elif x < 0:
        return -(x**3)
    z = 3 * x
    return z * z


@program
def return_in_a_nested_if(x):
    y = x
    if x > 0:
        if x > 2:
            return y * 10 * x
        y = y * x
    y = y + 1
    return y * y


@program
def two_mixed_returns(x):
    y = x
    if x > 0:
        if x > 5:
            return y * y
        y = y + 2
    if x > 1:
        if x > 2:
            return y * 3 * x
        y = y * y
    return y - x


@program
def return_in_both_arms(x):
    if x > 1:
        return x * x
    else:
        return x * x * x


@program
def return_in_else_only(x):
    if x > 1:
        y = x * x
    else:
        return -x
    y = y + x
    return y


@program
def int_on_one_path(x):
    y = 1 if x > 1 else x
    if x > 2:
        z = 2
    else:
        z = x * x
    return y * z * x


@program
def variable_on_one_side_unused(x):
    if x > 1:
        t = x * x
        y = t + 1
    else:
        y = x
    return y


@program
def one_side_defined_again(x):
    if x > 1:
        t = x
        y = t * t
    else:
        y = x
    t = y * 2
    return t * x


@program
def tuples_in_arms(x):
    a, b = x, 1.0
    if x > 1:
        a, b = b * x, a + x
    else:
        (a, b) = (a * x, b)
    return a * b + b


@program
def swap(x):
    a, b = x, 2.0 * x
    if a > 1:
        a, b = b, a
    return a * a - b


@program
def dicts_and_lists(x):
    p = {"a": x, "b": [x * x, 1.0]}
    if x > 1:
        p = {"a": p["a"] * 2, "b": [p["b"][0], x]}
    return p["a"] * p["b"][0] + p["b"][1]


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Point:
    x: Any
    y: Any


@program
def named_tuple(x):
    p = Pair(x, x * x)
    if x > 1:
        p = p._replace(a=p.b)
    return p.a * p.b


@program
def data_class(x):
    p = Point(x, 2.0)
    if x > 1:
        p = Point(p.y * x, p.x)
    return p.x * p.y


@program
def none_on_both_sides(x):
    extra = None
    if x > 1:
        y = x * x
        extra = None
    else:
        y = x
    return y if extra is None else extra


@program
def same_string(x):
    if x > 1:
        kind, y = "sin", x
    else:
        kind, y = "sin", x * x
    return np.sin(y) if kind == "sin" else y


@program
def pass_in_an_arm(x):
    y = x
    if x > 1:
        pass
    else:
        y = x * x
    return y * y


@program
def condition_on_a_computed_value(x):
    y = np.sin(x)
    if y * y > 0.5:
        y = y * x
    if y < 0:
        y = -y + x
    return y


@program
def number_as_condition(x):
    n = x > 1
    if n * 1.0:
        return x * x
    return x


# ---------------------------------------------------------------------------------- expressions


@program
def conditional_expression(x):
    return x * x if x > 1 else np.sin(x)


@program
def nested_conditional_expressions(x):
    return x if x > 5 else (x * x if x > 2 else (x**3 if x > 0 else -x))


@program
def conditional_expression_in_a_call(x):
    return np.sin(x if x > 1 else 2 * x) * (1 if x > 2 else x)


@program
def conjunction(x):
    if x > 0 and x < 2:
        return x * x
    return x


@program
def disjunction(x):
    if x < 0 or x > 2:
        return x * x
    return x * 3


@program
def negation(x):
    if not x > 1:
        return x * x
    return x


@program
def chained_comparison(x):
    if 0 < x < 2 < x + 2 and -1 < np.sin(x) < x * 3 < 9:
        return x**3
    return x


@program
def mixed_connectives(x):
    if (x > 0 and not x > 2) or (x > 5 and x < 6):
        return x * x
    return -x


@program
def short_circuit_guards(x):
    if x > 0 and np.log(x if x > 0 else 1.0) > 0.2:
        return np.log(x)
    return x


@program
def value_of_and(x):
    y = (x > 1) and x * x
    return y * x


@program
def value_of_or(x):
    y = (x if x > 1 else 0.0) or 2.0 * x
    return y * x


@program
def known_and_traced(x):
    flag = True
    if flag and x > 1:
        return x * x
    if not flag or x < 0:
        return x**3
    return x


@program
def walrus_in_a_test(x):
    if (y := x * x) > 2:
        return y * x
    return y + x


@program
def conditional_in_a_comprehension(x):
    return sum([x * i if x > i else i * 0.5 for i in range(4)])


@program
def logic_in_a_comprehension(x):
    parts = [(x * i if (x > i and x > 1) or i == 2 else x) for i in range(4)]
    return parts[0] + parts[1] * parts[2] + parts[3]


# ---------------------------------------------------------------------------------- while


@program
def while_loop(x):
    while x > 1:
        x = x / 2
    return x * x


@program
def counting_while(x):
    n = 0
    y = x * x
    while y > 1:
        y = y / 3
        n += 1
    return y + n * x


@program
def newton(x):
    a = x * x + 1
    y = 1.0
    while abs(y * y - a) > 1e-12:
        y = 0.5 * (y + a / y)
    return y


@program
def while_true_with_break(x):
    y = x
    while True:
        if y < 1:
            break
        y = y / 2
    return y * x


@program
def while_with_a_value_only_after(x):
    while True:
        y = x * 0.5
        if y < 1:
            break
        x = y
    return y + x * x


@program
def while_else(x):
    y = x * x
    n = 0
    while y > 1:
        y = y / 2
        n = n + 1
        if n > 3:
            break
    else:
        y = y * 10
    return y * x


@program
def while_continue(x):
    n = 0
    y = 0.0
    while n < x * x:
        n += 1
        if n % 2 == 0:
            continue
        y = y + x * n
    return y + x


@program
def while_return(x):
    n = 0
    while n < 6:
        x = x * 1.5
        if x > 4:
            return x * n
        n = n + 1
    return x


@program
def while_with_two_tests(x):
    n = 0
    while n < 4 and x > 0.5:
        x = x * 0.5
        n += 1
    return x * (n + 1)


@program
def while_walrus(x):
    s = x
    while (y := s * 0.5) > 0.4:
        s = y
    return y + s * x


@program
def nested_whiles(x):
    y = abs(x) + 1
    n = 0.0
    while y > 1:
        z = y
        while z > 2:
            z = z * 0.5
            n = n + z * x
        y = y - 1
    return n + y


@program
def while_with_if_inside(x):
    s = 0.0
    n = 0
    while n < x * 2:
        if n > x:
            s = s + x * n
        elif n > 1:
            s = s * x
        else:
            s = s + 1
        n += 1
    return s + x


@program
def float_from_int(x):
    s = 0
    n = 0
    while n < x:
        s += x * 0.5
        n += 1
    return s + x


@program
def loop_with_a_local(x):
    n = 0
    while n < x:
        t = x * n
        x = x - 0.1 * t
        n += 1
    return x


@program
def carried_tuple(x):
    state = (x, 1.0)
    while state[0] > 1:
        state = (state[0] * 0.5, state[1] + state[0])
    return state[0] * state[1]


@program
def break_out_of_two(x):
    total = x
    done = False
    n = 0
    while not done:
        m = 0
        while True:
            total = total + x * 0.1
            m += 1
            if m > 2:
                break
            if total > 3:
                done = True
                break
        n += 1
        if n > 3:
            break
    return total


# ---------------------------------------------------------------------------------- for


@program
def for_break(x):
    s = 0.0
    for i in range(8):
        if s > x:
            break
        s = s + i * 0.3 * x
    return s + x


@program
def for_else(x):
    s = x
    for i in range(5):
        s = s + i
        if s > 8:
            break
    else:
        s = s * s
    return s * x


@program
def for_else_defines(x):
    for i in range(5):
        if x + i > 4:
            y = x * i
            break
    else:
        y = x
    return y * x


@program
def for_continue(x):
    s = 0.0
    for i in range(5):
        if x < i:
            continue
        s = s + x * i
    return s + x


@program
def for_return(x):
    for i in range(5):
        x = x + i
        if x > 6:
            return x * x
    return x


@program
def for_over_a_traced_range(x):
    n = abs(x * 2).astype(int) if hasattr(x, "astype") else int(abs(x * 2))
    s = x
    for i in range(n):
        s = s + i * x
    return s


@program
def for_over_an_array(x):
    s = 0.0
    for c in np.array([1.0, 2.0, 3.0, 4.0]):
        if s > x * 2:
            break
        s = s + c * x * 0.5
    return s + x


@program
def for_over_a_list(x):
    s = 0.0
    for c in [x, x * x, 0.5, 2]:
        if s > 3:
            break
        s = s + c
    return s * x


@program
def for_over_zip_and_enumerate(x):
    s = x
    for i, (a, b) in enumerate(zip([1.0, 2.0, 3.0], np.array([0.5, 0.25, 2.0]))):
        if s > 4:
            break
        s = s + a * b * x + i
    return s


@program
def for_reversed(x):
    s = x
    for i in reversed(range(4)):
        if s > 5:
            break
        s = s + i * x
    return s


@program
def loop_variable_after_the_loop(x):
    for i in range(6):
        x = x + 0.5
        if x > 3.3:
            break
    return x * (i + 1)


@program
def for_over_pairs(x):
    s = x
    for a, b in [(1, 2.0), (3, 4.0), (5, 6.0)]:
        if s > 6:
            continue
        s = s + a * x + b
    return s


@program
def nested_fors_return(x):
    for i in range(3):
        for j in range(3):
            x = x + 0.43 * j
            if x > 5:
                return x * (i + 1)
    return x


@program
def nested_fors_break(x):
    s = x
    for i in range(3):
        for j in range(4):
            if s > 3 + i:
                break
            s = s + 0.3 * x * j
        else:
            s = s + 1
    return s * x


@program
def while_in_for(x):
    t = 0.0
    for i in range(3):
        y = x + i
        while y > 1:
            y = y / 2
            if y < 0.8:
                continue
            t = t + y
    return t + x


@program
def for_in_while(x):
    n = 0
    while x < 4:
        for i in range(3):
            x = x + 0.21 * i
            if x > 3:
                x = x + 1
                break
        n += 1
    return x * (n + 1)


@program
def unrolled_appends(x):
    parts = []
    for i in range(3):
        parts.append(x * i if x > i else x)
    return parts[0] + parts[1] * parts[2]


@program
def return_before_a_loop(x):
    if x < 0:
        return x * x
    s = x
    while s > 1:
        s = s / 2
    return s


@program
def loop_in_an_arm(x):
    y = x
    if x > 1:
        while y > 1:
            y = y * 0.7
    else:
        for i in range(3):
            y = y + i * x
    return y * x


@program
def return_from_a_loop_in_an_arm(x):
    y = x
    if x > 0:
        while y > 1:
            y = y * 0.6
            if y < 2 and y > 1.2:
                return y * x
    return y + x


@program
def break_in_the_else_of_an_inner_loop(x):
    a, c = x, 0.5
    for i in range(3):
        a = c * x + i
        while not x > a:
            a = a - 0.7
            if a < -1:
                break
        else:
            c = x
            break
        c = c + 1
    return a + c * x


@program
def continue_in_the_else_of_an_inner_loop(x):
    a, b = x, 1.0
    for _ in range(2):
        while b > x:
            b = b + 1
            break
        else:
            continue
        a = b * x
    return a * b


@program
def array_added_to_before_a_traced_break(x):
    out = np.array([1.0, 2.0]) * x
    same = out
    for i in range(4):
        out += (i + 1) * x
        if x + i > 2.15:
            break
    return (same * np.array([1.0, 3.0])).sum()


# ---------------------------------------------------------------------------------- arrays


@program
def array_written_in_an_arm(x):
    out = np.sin(np.array([1.0, 2.0, 3.0])) * x
    if x > 1:
        out[1] = x * x
    return out.sum() * x


@program
def array_written_in_a_loop(x):
    out = np.array([0.0, 0.0, 0.0, 0.0]) * x
    n = 0
    while n < 4 and n < x:
        out[n] = x * (n + 1)
        n += 1
    return (out * np.array([1.0, 2.0, 3.0, 4.0])).sum()


@program
def array_added_to_in_a_loop(x):
    s = np.array([1.0, 2.0]) * x
    t = s
    n = 0
    while n < x:
        s += x
        n += 1
    return (s * t).sum()


@program
def view_written_in_an_arm(x):
    a = np.array([[1.0, 2.0], [3.0, 4.0]]) * x
    row = a[0]
    if x > 1:
        row[1] = x * x
    return a.sum() * row[1]


@program
def array_condition(x):
    v = np.array([1.0, 2.0, 3.0]) * x
    while (v > 1).any():
        v = v * 0.5
    return v.sum() * x


# ---------------------------------------------------------------------------------- functions


def helper(x):
    """A user's function that lifted ones call."""
    if x > 1:
        return x * x
    return x


@program
def calls_a_function(x):
    return helper(x) + helper(x - 1)


@program
def calls_in_a_loop(x):
    while x > 2:
        x = helper(x) * 0.1
    return helper(x)


@program
def local_function(x):
    def square(v):
        return v * v if v > 1 else v

    if x > 2:
        return square(x)
    return square(x + 1)


@program
def closure_reads(x):
    scale = 2.0
    if x > 1:
        scale = x

    def scaled(v):
        return v * scale if v > scale else v

    scale = scale + 1
    return scaled(x * x)


@program
def closure_writes(x):
    total = 0.0

    def add(v):
        nonlocal total
        total = total + v

    if x > 1:
        add(x * x)
    else:
        add(x)
    while total < 3:
        add(1.0)
    return total * x


@program
def lambda_arm(x):
    f = lambda v: v * v if v > 1 else -v  # noqa: E731
    return f(x) + f(-x)


@program
def default_arguments(x):
    def power(v, n=2, *, scale=3.0):
        if v > 1:
            return v**n * scale
        return v

    return power(x) + power(x, n=3, scale=1.0)


@program
def depth_known_recursion(x):
    def poly(v, n):
        if n == 0:
            return 1.0
        return v * poly(v, n - 1) if v > 0 else poly(-v, n - 1) - v

    return poly(x, 3)


class Model:
    scale = 2.0

    def __init__(self, shift):
        self.__shift = shift

    def value(self, x):
        if x > 1:
            return x * self.scale + self.__shift
        return self.__shift * x

    def __call__(self, x):
        return self.value(x) if x > 0 else -self.value(-x)


class Child(Model):
    def value(self, x):
        if x > 2:
            return super().value(x) * x
        return super().value(x)


@program
def method(x):
    return Model(3.0).value(x)


@program
def method_with_super(x):
    return Child(3.0).value(x)


@program
def partial_function(x):
    return functools.partial(lambda a, b: a * b if b > 1 else a, 3.0)(x) * x


# ---------------------------------------------------------------------------------- blocks


@program
def decision_in_a_with(x):
    with np.errstate(divide="ignore"):
        if x > 1:
            y = x * x
        else:
            y = x
    return y * x


@program
def decision_in_a_try(x):
    try:
        if x > 1:
            y = x * x
        else:
            y = x
        {}["missing"]
    except KeyError:
        y = y * 2
    finally:
        y = y + 1
    return y * x


@program
def try_in_an_arm(x):
    if x > 1:
        try:
            y = [x][5]
        except IndexError:
            y = x * x
    else:
        y = x
    return y


@program
def with_in_a_loop(x):
    while x > 1:
        with np.errstate(all="ignore"):
            x = x / 2
    return x * x


@program
def deletes(x):
    t = x * x
    if x > 1:
        y = t
        del t
    else:
        y = x
    return y * x


@program
def match_on_a_known_value(x):
    kind = "square"
    match kind:
        case "square":
            if x > 1:
                y = x * x
            else:
                y = x
        case _:
            y = 0.0
    return y


@program
def imports_inside(x):
    import operator as op

    if x > 1:
        from operator import mul

        return mul(x, x)
    return op.neg(x)


@program
def collatz_like(x):
    n = 0
    while x > 1.5 and n < 20:
        if n % 3 == 0:
            x = x * 0.5
        else:
            x = x * 0.9 + 0.1 * math.pi / 4
        n = n + 1
    return x * n

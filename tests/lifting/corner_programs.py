"""Programs of one number for test_corners.py, each with a corner of the language in it."""

import functools
import math
import operator

import numpy as np

MANY = np.linspace(-1.0, 1.0, 40)
TWO = np.ones(2)


def a_generator_in_an_arm(x):
    if x > 0:

        def items():
            yield x
            yield 2 * x

        y = sum(items())
    else:
        y = x
    return y


def a_default_that_is_decided(x):
    g = lambda a=(1.0 if x > 1 else 2.0): a * x  # noqa: E731
    return g()


def a_text_that_is_made_anew(x):
    s = "ab"
    while x < 10:
        s = "".join(["a", "b"])
        x = x + 3
    return x + len(s)


class Left:
    """An operand whose operators ask about it."""

    def __init__(self, v):
        self.v = v

    def __radd__(self, other):
        return sum(other) + self.v if self.v > 1 else sum(other)

    def __rmul__(self, other):
        return other["a"] * self.v if self.v > 1 else self.v


def operators_of_the_right_side_alone(x):
    numbers, named = [1.0, 2.0], {"a": 3.0}
    return numbers + Left(x), named * Left(x)


def sequences(x):
    out = 0.0
    for v in ((x,), (x, (1.0,)), (x, (1.0, 2.0)), [x, [x, 3.0]], (1.0, 4.0, x)):
        match v:
            case [a, [b, c]] if a > 1:
                out = out + b * c
            case [_, [b]]:
                out = out + 10 * b
            case [1.0, *rest]:
                out = out + 1000 * len(rest)
            case [a]:
                out = out + 100 * a
    return out


# ---------------------------------------------------------------------------------- errors


def positive(x):
    if x < 0:
        raise ValueError("negative")
    return x, 2 * x


def several_that_may_fail(x):
    a, b = positive(x)[0], positive(x - 1)[1]
    if positive(x)[0] > 1 and positive(x - 0.25)[0] > 2:
        return a
    return b


def of_several_errors(x):
    try:
        return several_that_may_fail(x)
    except ValueError:
        return -2.0


class Errors:
    """Where the classes of errors are kept."""

    one = ValueError
    two = (KeyError, ValueError)


def refused(x):
    if x < 0:
        raise ValueError("negative")
    if x < 1:
        raise KeyError("small")
    return x


def one_class_by_attribute(x):
    try:
        return refused(x)
    except Errors.one:
        return -5.0
    except KeyError:
        return -6.0


def classes_by_attribute(x):
    try:
        return refused(x)
    except Errors.two:
        return -5.0


def the_first_of_several_errors(x):
    try:
        y = 1.0 / x + math.sqrt(x) + math.log(x - 1.0) + {True: 1.0}[x > 1.0]
    except ZeroDivisionError:
        y = -1.0
    except ValueError:
        y = -2.0
    except KeyError:
        y = -3.0
    return y


def asserted(x):
    assert x > 1, "too small"
    return x


def the_words_of_an_assertion(x):
    try:
        return asserted(x)
    except AssertionError as error:
        return float(len(error.args))


def annotated(x):
    y: float = refused(x)
    return y + 1


def an_error_of_an_annotated_value(x):
    try:
        return annotated(x)
    except ValueError:
        return -5.0
    except KeyError:
        return -6.0


def an_error_beside_arrays_from_outside(x):
    twos = TWO
    if x < 0:
        y = int("abc")
    else:
        y = twos[0] * x
    return y


def caught_beside_arrays_from_outside(x):
    try:
        return an_error_beside_arrays_from_outside(x)
    except ValueError:
        return -3.0


# ---------------------------------------------------------------------------------- loops


def read_where_a_loop_ends(x):
    k = 0.0
    while x < 10.0:
        k = k + 1.0
        x = x + 3.0
    else:
        x = x + k * 100.0
    return x


def places_of_a_dict(x):
    d = {"n": 1.0, "m": 2.0, "s": "text", "o": None, "b": True}
    while x < 10:
        d["n"] += x
        x = x + 3
        if x > 5:
            d["m"] = d["n"]
    return d["n"] + d["m"] * 100 + x


# ---------------------------------------------------------------------------------- numbers


def members(x):
    return (x in (0.5, 2.0)) + (x in (2.0, 3.5)) + (x in [x])


def a_chain_with_a_member(x):
    return 1.0 if 1.0 < x in (0.5, 2.0, 3.5) else 0.0


def a_chain_with_an_identity(x):
    return 1.0 if 1.0 < x is not None else 0.0


def near_to_each_other(x):
    large = math.inf * (x + 5)
    ends = (1.0, 2.0, math.inf, -math.inf, x)
    return sum(3**i * math.isclose(a, b) for a in (x, large) for i, b in enumerate(ends))


doubled = np.vectorize(lambda v: 2 * v)


def known_values_stay_known(x):
    return np.ones(int(doubled(np.array([1, 2]))[1])).sum() * x


def classes_without_a_value(x):
    return x + np.float64() + np.int32()


def arrays_of_texts(x):
    names = np.zeros(2, dtype="U3")
    names[0] = "ab"
    places = np.zeros(2)
    places[0] = x
    return places[0] + len(names[0])


def classes_as_functions(x):
    return sum(map(float, [x, 1])) + sum(map(math.exp, (x, 0.5))) + max(map(abs, [x, -3.0]))


def remembered(x):
    return np.vectorize(lambda v: v * 2.0 if v > 1 else v, cache=True)(np.array([1.0, 3.0]) * x)


def text_at_last(x):
    y = x
    while x < 10.0:
        x = x * 2
        y = "text"
    return y


def text_on_one_side(x):
    if x > 1:
        y = x
    else:
        y = "text"
    return y


def text_on_the_other_side(x):
    if x > 1:
        y = "text"
    else:
        y = x
    return y


def unequal(x):
    total = 0.0
    for a, b in zip([1.0, 2.0, 3.0], MANY[:2], strict=True):
        if a > x:
            break
        total = total + a * b
    return total


def a_decorator_that_is_decided(x):
    def times(k):
        return lambda f: lambda a: f(a) * k

    @times(1.0 if x > 1 else 2.0)
    def g(a):
        return a + 1

    return g(x)


def left_on_the_other_side(x):
    total = 0.0
    for i in range(5):
        if x > i:
            total = total + x
        else:
            break
        total = total + 100.0
    return total


def returned_on_the_other_side(x):
    if x > 1:
        y = x * 2
    else:
        return -1.0
    return y + 1


def sines_in_comprehensions(x):
    return sum([b for a in (x, 2.0) for b in (math.sin(a), a) if math.sin(1.0) > 0])


def columns(x):
    a = np.ones((2, 3, 4)) * x
    return np.c_[a, a]


def operators_as_functions(x):
    return functools.reduce(operator.add, ([1.0, 2.0], Left(x)))


def of_a_pair(x):
    match positive(x):
        case (a, b):
            return a + b


def a_pair_that_is_matched(x):
    try:
        return of_a_pair(x)
    except ValueError:
        return -1.0


def of_one_of_two_patterns(x):
    match positive(x):
        case (a, b, _) | (a, b):
            return a + b


def a_pattern_that_python_matches(x):
    try:
        return of_one_of_two_patterns(x)
    except ValueError:
        return -1.0


def a_test_with_an_error_and_else(x):
    while positive(x)[0] < 10.0:
        x = x + 3.0
    else:
        x = x + 100.0
    return x


def caught_from_a_test_with_else(x):
    try:
        return a_test_with_an_error_and_else(x)
    except ValueError:
        return -1.0


@functools.singledispatch
def shown(x, k):
    return k


@shown.register
def _(x: float, k):
    return x * k if x > 1 else k


def dispatched(x):
    return shown(x, 3.0)


def keys_in_variables(x):
    names, n, values = ["a", "b"], 1, MANY * x
    table = {"a": x, "b": 2 * x}
    return table[names[n]] + values[n] + values[n + 1]


def functions_of_numpy(x):
    a = np.array([3.0, 1.0, 2.0]) * x
    return (
        np.sort(a)[0] + np.linalg.norm(a) + np.sum(np.flip(a)[:1]) + np.triu(np.outer(a, a))[0, 2]
    )


def divided_by_numbers_of_python(x):
    for k in (1.0, 2.0):
        y = 1.0 / (x - k)
    return y


def caught_in_a_loop(x):
    try:
        return divided_by_numbers_of_python(x)
    except ZeroDivisionError:
        return -1.0


def classes_of_floats(x):
    total = 0.0
    for k in (1.0, 2.0, 3.0):
        if k > x:
            break
        total = total + (k if type(k) is float else 100.0)
    return total


def classes_of_ints(x):
    total = 0
    for i, k in enumerate([1, 2, 3]):
        if k > x:
            break
        total = total + (k + i if type(k) is int else 100)
    return total


def classes_of_numpy(x):
    total = 0.0
    for k in np.array([1.0, 2.0, 3.0]):
        if k > x:
            break
        total = total + (100.0 if type(k) is float else k)
    return total


def class_of_a_mixture(x):
    total = 0.0
    for k in (1, 2.0, 3.0):
        if k > x:
            break
        total = total + (k if type(k) is float else 100.0)
    return total


def a_pair_of_users(x):
    return Pairs()[1, x] + Pairs()[x, 2]


class Pairs:
    """Items by two numbers."""

    def __getitem__(self, key):
        return key[0] * 10 + key[1]


def tried_in_what_is_tried(x):
    try:
        try:
            y = positive(x - 1)[0]
        except KeyError:
            y = 5.0
        z = positive(x)[1]
    except ValueError:
        return -1.0
    return y + z


def tries(x):
    try:
        y = positive(x - 1)[0]
    except KeyError:
        y = 5.0
    return y + positive(x)[1]


def tried_by_what_tries(x):
    try:
        return tries(x)
    except ValueError:
        return -1.0


def raised_again(x):
    try:
        try:
            return positive(x)[0]
        except ValueError:
            raise
    except ValueError:
        return -4.0


def tried_in_a_handler(x):
    total = 0.0
    for k in (0.0, 1.0, 2.0):
        try:
            total = total + positive(x - k)[1]
        except ValueError:
            try:
                total = total + positive(x + 1.0)[0]
            except ValueError:
                total = total - 100.0
    return total


def nothing_to_loop_over(x):
    total, y = 0.0, 1.0
    for v in []:
        y = v
        if x > 1:
            break
    for v in np.zeros(0):
        if v > x:
            break
        total = total + v
    return total + y


def ways_out_of_a_loop(x):
    for i in range(5):
        if x > 3:
            return -1.0
        if x < -3:
            break
        if x > i:
            x = x + 1
            continue
        x = x - 1
    else:
        return x * 10
    return x * 100


def arrays_that_swap_names(x):
    a, b = np.array([1.0, 2.0]) * x, np.array([3.0, 4.0]) * x
    k = 0
    while k < x:
        a, b = b, a
        a[0] = k
        k = k + 1
    return a[0] + 10 * a[1] + 100 * b[0] + 1000 * b[1]


def a_view_that_is_kept(x):
    a = np.zeros(4) + x
    v = a[1:]
    k = 0
    while k < x:
        v[0] = v[0] + 1
        a[2] = a[1] * 2
        k = k + 1
    return a.sum() + v[1]


def a_closure_in_a_loop(x):
    n = 0.0

    def add():
        nonlocal n
        if x > 1:
            n = n + x
        return n

    k = 0
    while k < 3:
        n = n + 1
        add()
        if add() > 6:
            k = k + 1
        k = k + 1
    return n


def what_no_value_is_is_not(x, nothing=(), none=None):
    y = 1.0 if x > 1 else 2.0
    return y, not nothing, not none, not "text", not {1: x}, not 0.0


PROGRAMS = [
    *(a_generator_in_an_arm, a_default_that_is_decided, a_text_that_is_made_anew),
    *(operators_of_the_right_side_alone, sequences, of_several_errors),
    *(one_class_by_attribute, classes_by_attribute, the_first_of_several_errors),
    *(the_words_of_an_assertion, an_error_of_an_annotated_value),
    *(caught_beside_arrays_from_outside, read_where_a_loop_ends, places_of_a_dict),
    *(
        members,
        a_chain_with_a_member,
        a_chain_with_an_identity,
        near_to_each_other,
        known_values_stay_known,
    ),
    *(classes_without_a_value, arrays_of_texts, classes_as_functions, remembered),
    *(a_decorator_that_is_decided, left_on_the_other_side, returned_on_the_other_side),
    *(sines_in_comprehensions, columns, operators_as_functions),
    *(a_pair_that_is_matched, a_pattern_that_python_matches, dispatched),
    *(caught_in_a_loop, classes_of_floats, classes_of_ints, classes_of_numpy, a_pair_of_users),
    *(tried_in_what_is_tried, tried_by_what_tries, raised_again, tried_in_a_handler),
    *(nothing_to_loop_over, ways_out_of_a_loop, arrays_that_swap_names, a_view_that_is_kept),
    *(a_closure_in_a_loop, caught_from_a_test_with_else, keys_in_variables, functions_of_numpy),
    what_no_value_is_is_not,
]
NUMBERS = [0.5, 2.0, 3.5, -1.0, 0.0]

"""Programs of one number for test_corners.py: what they call, and with what."""

import functools
import math

import numpy as np


def distances(x):
    return math.dist([x, 1.0], (2.0, x)) + math.dist((x,), (3.0,))


def sums(x):
    whole = math.fsum([x, 1.0, 2.0]) + math.prod([x, 2.0], start=3.0)
    return whole + sum([x, 1.0], start=x) + sum(iter([x, 1.0]))


def quantified(x):
    known = all(np.array([1.0, 2.0]) > 0) + any([0.0, x])
    return any([x > 1, False]) + all([x > 1, True]) + any(v > 1 for v in [x, 0.5]) + known


class Base:
    """A number with a method that asks."""

    def __init__(self, v):
        self.v = v

    def value(self):
        return self.v if self.v > 1 else 1.0


class Derived(Base):
    """One whose methods call those above in both ways."""

    def __init__(self, v):
        super().__init__(v * 2 if v > 1 else v)

    def value(self):
        return super().value() * 2 if self.v > 2 else super(Derived, self).value()  # noqa: UP008


def methods_above(x):
    return Derived(x).value()


class Managed(Base):
    """A context that gives a number."""

    def __enter__(self):
        return self.v if self.v > 1 else 1.0

    def __exit__(self, *error):
        return False


def contexts(x):
    with Managed(x * (1.0 if x > 2 else 3.0)) as k, Managed(math.sin(x)) as m:
        return k + m


class Scaling(Base):
    """A function as an object."""

    def __call__(self, x):
        return x * self.v if x > 1 else self.v


def objects_that_are_called(x):
    return Scaling(3.0)(x) + functools.partial(Scaling(2.0))(x)


def containers_around_a_loop(x):
    numbers, letters, k = {1, 2}, bytearray(b"ab"), 0.0
    while k < x:
        k = k + len(numbers) + letters[0] / 97
    if x > 1:
        t = 1.0 if 2 in numbers else 2.0
    else:
        t = 3.0
    return k + t


def how_many_are_selected(x):
    a = np.array([1.0, 2.0, 3.0]) * x
    return len(a[a > 2]) + len(a)


def arrays_of_rank_0(x):
    a = np.array(x)
    b, k = a, 0
    while k < x:
        a = np.array(a + 1.0)
        k = k + 1
    return a + b


def a_write_to_rank_0(x):
    a = np.array(x)
    b, k = a, 0
    while k < x:
        a[...] = a + 1.0
        k = k + 1
    return a + b


def names_of_one_arm(x):
    if x > 1:
        y = 2.0
        if x > 2:
            z = y * 3
            y = z + 1
        t = y
        return t + y
    return x


def loops_that_python_leaves(x):
    for i in (1.0, 2.0):
        for j in (3.0, 4.0):
            if i * j > 7:
                break
            if i + j == 4.0:
                continue
            x = x + j
        if x > 8:
            break
    return x


def displays(x):
    t = []
    for k in (1.0, 2.0):
        t = [*t, x * k]
    u = {**{"a": x}, "b": 2 * x}
    return sum(t) + u["a"] + sum(u.values())


def root(x):
    return math.isqrt(int(x)) + math.comb(5, 2) + math.gcd(4, 6)


def a_root_that_may_fail(x):
    try:
        return root(x)
    except ValueError:
        return -1


def logarithms(x):
    return math.log(x) + math.log1p(x) + math.acos(x / 4) + math.sqrt(x) + math.log(x, 2)


def logarithms_that_may_fail(x):
    try:
        return logarithms(x)
    except ValueError:
        return -1.0


def iterators(x):
    ends = sorted([x, 1.0, 3.0], reverse=True)[0] + max(iter([x, 2.0]))
    doubled = sum(map(lambda v: v * 2, [x, 1.0]))  # noqa: C417 - of `map`
    return ends + min((v for v in (x, 2.0)), default=0) + doubled + len(list(filter(None, [1, 0])))


def a_loop_that_python_ends(x):
    n = 0
    while n < 3:
        if x > 2:
            x = x - 1
        n += 1
    return x


def checked(x):
    if x < 0:
        raise ValueError("negative")
    if x < 1:
        raise KeyError("small")
    return x


def not_taken_by_the_inner_try(x):
    try:
        try:
            t = checked(x)
        except KeyError:
            t = 0.25
        z = 1.0
    except ValueError:
        return -50.0
    return t + z


def taken_again_by_the_outer_try(x):
    try:
        try:
            t = checked(x)
        except ValueError:
            raise
        except KeyError:
            t = 0.25
    except ValueError:
        t = -50.0
    return t


def not_taken_in_a_loop(x):
    try:
        t = 0.0
        for k in (1.0, 2.0, 3.0):
            try:
                t = t + checked(x - k)
            except KeyError:
                t = t + 0.25
    except ValueError:
        return t - 50.0
    return t


def tries_in_a_loop(x):
    for k in (1.0, 2.0):
        try:
            t = checked(x - k)
        except KeyError:
            t = 0.25
    return t


def taken_behind_a_call(x):
    try:
        return tries_in_a_loop(x)
    except ValueError:
        return -50.0


def raised_again_in_a_loop(x):
    for k in (0.0, 1.0):
        try:
            try:
                y = checked(x + k)
            except ValueError:
                raise
            except KeyError:
                try:
                    y = checked(x - 5.0)
                except ValueError:
                    y = 3.0
                raise
        except ValueError:
            y = -1.0
        except KeyError:
            y = -2.0
    return y


PROGRAMS = [
    *(distances, sums, quantified, methods_above, contexts, objects_that_are_called),
    *(containers_around_a_loop, how_many_are_selected, arrays_of_rank_0, a_write_to_rank_0),
    *(names_of_one_arm, loops_that_python_leaves, displays, a_root_that_may_fail),
    *(not_taken_by_the_inner_try, taken_again_by_the_outer_try, not_taken_in_a_loop),
    *(taken_behind_a_call, raised_again_in_a_loop),
    *(logarithms_that_may_fail, iterators, a_loop_that_python_ends),
]

"""Programs with views and aliases that traced decisions choose, each with points to run it at.

Plain Python says what is right. `loud` marks those that nobody can follow: a write raises.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

PROGRAMS: list[tuple[Callable[[Any], Any], tuple[float, ...]]] = []
LOUD: set[str] = set()


def at(*points: float) -> Callable[[Any], Any]:
    """Run the program at these points."""

    def add(f: Any) -> Any:
        PROGRAMS.append((f, points))
        return f

    return add


def loud(f: Any) -> Any:
    """The program raises MutationError."""
    LOUD.add(f.__name__)
    return f


@at(-0.5, 0.5)
def with_del(x):
    a = np.ones(3) * x
    v = a[1:]
    w = v if x > 0 else v * 2
    s = w.sum()
    del w
    v[0] = 7.0
    return a + s


@at(-0.5, 0.5)
def root(x):
    a = np.ones(3) * x
    v = a[1:]
    if x > 0:
        v = np.zeros(2)
    a[1] = 5.0
    return a + v.sum()


@at(-0.5, 0.5)
def arm(x):
    c = np.ones(3) * x
    v = np.zeros(2)
    if x > 0:
        v = c[1:]
    c[1] = 10.0
    return v


@at(-0.5, 0.5)
def expr(x):
    c = np.ones(3) * x
    v = c[1:] if x > 0 else np.zeros(2)
    c[1] = 10.0
    return v


@at(-0.5, 2.5)
def with_while(x):
    c = np.ones(3) * x
    v = np.zeros(2)
    i = 0
    while x > i:
        v = c[1:]
        i += 1
    c[1] = 10.0
    return v


@at(-0.5, 0.5)
def nested_fn(x):
    c = np.ones(3) * x

    def g():
        return c[1:]

    v = np.zeros(2)
    if x > 0:
        v = g()
    c[1] = 10.0
    return v


@at(-0.5, 0.5, 1.5)
def two_ifs(x):
    c = np.ones(3) * x
    v = np.zeros(2)
    if x > 0:
        if x > 1:
            v = c[1:]
        else:
            v = c[:2]
    c[1] = 10.0
    return v


@at(-0.5, 0.5)
def write_through(x):
    c = np.ones(3) * x
    v = np.zeros(2)
    if x > 0:
        v = c[1:]
    v[0] = 10.0
    return c.sum() * 100 + v


@at(-0.5, 0.5)
def with_dict(x):
    c = np.zeros(3) * x
    d = {"c": c}
    s = 0.0
    if x > 0:
        c[0] = 5.0
        s = d["c"].sum()
    return s + c


@at(-0.5, 0.5)
def dict_write(x):
    d = {"c": np.zeros(3) * x}
    if x > 0:
        d["c"][0] = 5.0
    return d["c"]


@at(-0.5, 0.5)
def attr_write(x):
    o = SimpleNamespace()
    o.c = np.zeros(3) * x
    if x > 0:
        o.c[0] = 5.0
        o.c += 1
    return o.c


@at(-0.5, 0.5)
def list_view(x):
    c = np.ones(3) * x
    both = [np.zeros(2), c]
    if x > 0:
        both = [c[1:], c]
    c[1] = 10.0
    return both[0]


@at(-0.5, 0.5)
def two_roots(x):
    a = np.ones(3) * x
    b = np.zeros(3) * x
    if x > 0:
        z = a
    else:
        z = b
    z[0] = 9.0
    b[1] = 4.0
    a[2] = 3.0
    return a * 100 + b * 10 + z


@at(-0.5, 0.5)
def inner_shared(x):
    z = np.zeros(3) * x
    v = z[1:]
    if x > 0:
        z = np.ones(3) * x
        v = z[1:]
    z[1] = 10.0
    return v * 3


@at(-0.5, 0.5)
def inner_shared2(x):
    if x > 0:
        z = np.ones(3) * x
        w = z
    else:
        z = np.ones(3) * x
        w = z * 2
    z[1] = 10.0
    w[2] = 5.0
    return w * 3 + z


@at(0.5, 3.5)
def unbound_new(x):
    new = np.zeros(2) * x
    old = np.ones(2) * x
    s = 0.0
    n = 0
    while n < x:
        new[0] += 1
        s = s + old[0]
        old = new
        n += 1
    return s


@at(0.5, 3.5, 4.5)
def swap(x):
    a = np.ones(3) * x
    b = np.zeros(3) * x
    old, new = a, b
    k = 0
    while k < x:
        new[:] = old * 2 + k
        old, new = new, old
        k += 1
    return a * 100 + b * 10 + old


@at(0.5, 3.5)
def carried_alias(x):
    a = np.ones(3) * x
    v = a[1:]
    n = 0
    while n < x:
        a = a * 2
        v = a[1:]
        a[1] += 1
        n += 1
    return a.sum() + v


@at(0.5, 3.5)
@loud
def carried_alias2(x):
    a = np.ones(3) * x
    v = a[1:]
    n = 0
    while n < x:
        a[1] += 1
        s = v.sum()
        a = a * 2
        v = a[1:]
        n += 1
    return a.sum() + v


@at(0.5, 3.5)
def false_alarm(x):
    c = np.ones(3) * x
    v = np.zeros(2)
    n = 0
    while n < x:
        c[1] = 7 + n
        v = c[1:]
        n += 1
    return v * c.sum()


@at(0.5, 3.5)
def dead(x):
    c = np.ones(3) * x
    v = np.zeros(2)
    n = 0
    s = 0.0
    while n < x:
        s = s + v.sum()
        c[1] = 7 + n
        v = c[1:]
        n += 1
    return v * c.sum() + s


@at(0.5, 1.5)
def row(x):
    A = np.zeros((2, 2)) * x
    i = 1 if x > 1 else 0
    r = A[i]
    r[0] = 5.0
    return A


@at(0.5, 1.5)
def row2(x):
    A = np.zeros((2, 2)) * x
    i = 1 if x > 1 else 0
    r = A[i]
    A[i, 0] = 5.0
    return r


@at(-0.5, 0.5)
def transposed(x):
    A = np.ones((2, 3)) * x
    B = np.zeros((3, 2))
    if x > 0:
        B = A.T
    A[0, 1] = 7.0
    B[2, 1] = 9.0
    return A.sum() * 100 + B


@at(0.5, 2.5)
def for_break(x):
    d = {"c": np.zeros(2) * x}
    for i in range(4):
        d["c"][0] += 1
        if i > x:
            break
    return d["c"]


@at(-0.5, 0.5)
def with_nonlocal(x):
    c = np.ones(3) * x
    v = np.zeros(2)

    def g():
        nonlocal v
        if x > 0:
            v = c[1:]

    g()
    c[1] = 3.0
    return v


@at(-0.5, 0.5)
def early(x):
    c = np.ones(3) * x

    def pick(c):
        if x > 0:
            return c[1:]
        return c[:2]

    v = pick(c)
    c[1] = 3.0
    v[1] = 8.0
    return v * 10 + c.sum()


@at(0.5, 1.5, 2.5)
def static_for(x):
    c = np.ones(3) * x
    v = c[:2]
    for k in range(3):
        if x > k:
            v = c[1:]
        v[0] += k
        c[1] += 1
    return v * 10 + c.sum()


@at(0.5, 3.5)
def helper_swap(x):
    def step(old, new):
        k = 0
        while k < x:
            new[:] = old * 2
            old, new = new, old
            k += 1
        return old

    a = np.ones(3) * x
    b = np.zeros(3)
    r = step(a, b)
    return a + 10 * b + 100 * r


@at(0.5, -0.5)
def frozen_choice(x):
    xs = np.ones(3) * x
    y = xs if x > 0 else xs * 2
    y += 1
    return xs * 10 + y


@at(0.5, 3.5)
def first_write(x):
    u = np.ones(3) * x
    first = u
    n = 0
    while n < x:
        u[0] += 1
        u = u * 2
        n += 1
    return u + first * 100


@at(0.5, 3.5)
def view_of_carried(x):
    u = np.ones(4) * x
    n = 0
    w = u[1:]
    while n < x:
        w[0] += 1
        u = u * 2
        n += 1
    return u + w.sum() * 100


@at(0.5, 3.5)
def best(x):
    cur = np.ones(2) * x
    best = cur
    n = 0
    while n < x:
        cur = cur * 0.5 + n
        if cur.sum() > best.sum():
            best = cur
        n += 1
    return best + cur


@at(0.5, 3.5)
def best_write(x):
    cur = np.ones(2) * x
    best = cur
    n = 0
    while n < x:
        cur[0] = cur[0] * 0.5 + n
        if cur.sum() > best.sum() - 1:
            best = cur
        n += 1
    return best + cur


@at(0.5, 3.5)
def for_traced(x):
    c = np.ones(3) * x
    v = c[:2]
    k = 0
    while k < x:
        if k > 1:
            v = c[1:]
        v[0] = v[0] + k
        k += 1
    c[1] += 5
    return v * 10 + c.sum()

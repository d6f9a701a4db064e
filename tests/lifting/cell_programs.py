"""Programs with arrays of rank 0, which `+=` writes into, and with arrays that an order chooses."""

import numpy as np

from tests.lifting.view_programs import at


@at(-0.5, 0.5)
def sums_of_an_alias(x):
    s = np.zeros(())
    a = s
    for v in (x, 2 * x, 1.0):
        if v > 0:
            s += v
    return a + 10 * s


@at(-0.5, 0.5, 2.5)
def carried_scalar_array(x):
    s = np.array(0.0)
    a = s
    i = 0
    while s < 3 + x:
        s += abs(x) + i
        i += 1
    a *= 2
    return a + 10 * s


@at(-0.5, 0.5, 2.5)
def carried_array_becomes_a_scalar(x):
    s = np.array(0.0)
    a = s
    while s < 3 + x:
        s = s + 1.5
    t = s
    s += 1
    return a + 10 * s + 100 * t


@at(-0.5, 0.5)
def one_of_two_scalars(x):
    a = np.array(x)
    b = np.array(2 * x)
    c = a if x > 0 else b
    c += 10
    return a + 10 * b + 100 * c


@at(-0.5, 0.5)
def a_scalar_of_either_arm(x):
    a = np.array(x)
    if x > 0:
        c = a
    else:
        c = np.array(3 * x)
    d = c
    d -= 3
    return a + 10 * c + 100 * d


@at(-0.5, 0.5)
def one_element_as_an_array(x):
    m = np.ones((3, 3)) * x
    d = m[1, 1, ...] if x > 0 else m[2, ..., 2]
    d += 100
    d *= 2
    return m


@at(-0.5, 0.5)
def scalars_in_a_list(x):
    ps = [np.array(x), np.array(2 * x)]
    p = ps[int(x > 0)]
    p += 5
    return ps[0] + 10 * ps[1]


@at(-0.4, 0.7, 2.6)
def the_scalar_of_the_turn_before(x):
    s = np.array(0.0)
    old = s
    i = 0
    while x > i - 1.5:
        old = s
        s = np.array(s + i)
        s += x
        i += 1
    old += 1
    return s + 10 * old


@at(-0.5, 0.5)
def where_gives_an_array(x):
    y = np.where(x > 0, x, 2.0)
    z = y
    if x < 0.6:
        z **= 2
    return y


@at(-0.5, 0.5)
def a_sum_is_a_scalar(x):
    s = (np.ones(3) * x).sum()
    t = s
    s += 1
    if x > 0:
        t -= 1
    return s + 10 * t


@at(-0.5, 0.5)
def all_operators(x):
    y = np.array(x)
    z = y
    y **= 2
    y += 3
    y -= 0.5
    y *= 1.5
    y /= 2
    y %= 2
    y //= 0.25
    return z


@at(-0.5, 0.5)
def sorted_rows(x):
    m = np.stack([np.arange(3) + x, np.arange(3) - 3 * x, np.ones(3) * x])
    rows = sorted(m, key=lambda r: r[0])
    rows[0][:] = 9.0
    rows[2] *= 2
    m[1, 2] = 4.0
    return m + rows[1]


@at(-0.5, 0.5)
def sorted_downwards_with_ties(x):
    m = np.stack([np.arange(3) + x, np.arange(3) - 3 * x, np.arange(3) + x])
    for i, row in enumerate(sorted(m, key=lambda r: r[0], reverse=True)):
        row *= i
    return m


@at(-0.5, 0.5)
def the_largest_row(x):
    m = np.stack([np.arange(3) + x, np.arange(3) - 3 * x, np.ones(3) * x])
    best = max(m, key=lambda r: r[0])
    best *= 10
    m[0, 1] = 5.0
    return m.sum() * 100 + best


@at(-0.5, 0.5)
def the_lesser_of_two_views(x):
    a = np.arange(4) * x
    b = min(a[:2], a[2:], key=np.sum)
    b += 100
    a[0] = -1
    return a.sum() + b


@at(-0.5, 0.5)
def sorted_pairs(x):
    a = np.arange(3) * x
    pairs = sorted([(a[1:], 2.0), (a[:-1], 1.0)], key=lambda p: p[0].sum())
    pairs[0][0][:] = 7.0
    return a + pairs[1][1]


@at(-0.5, 0.5)
def all_elements_at_once(x):
    m = np.ones((2, 3)) * x
    t = m.T
    t.flat = np.arange(6) * x
    v = m[0]
    if x > 0:
        v.flat = (7.0, x)
    m[1:].flat = x
    return m

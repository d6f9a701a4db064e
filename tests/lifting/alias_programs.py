"""More programs with views and aliases under traced decisions: rows, containers, helpers, jumps."""

from types import SimpleNamespace

import numpy as np

from tests.lifting.view_programs import at, loud


@at(0.5, 1.5, 3.5)
def view_chain(x):
    A = np.ones((3, 4)) * x
    B = A.T if x > 1 else A[:, ::-1].T
    C = B[0] if x > 2 else B[1]
    A[0, 0] = 4.0
    A[0, 1] = 5.0
    C[2] = 8.0
    B[1, 1] += 3.0
    return A.sum() * 100 + C.sum() + B[0].sum() * 7


@at(0.5, 1.5, 3.5)
def nested_loop_if(x):
    c = np.zeros(4) * x
    best = c[:3]
    k = 0
    while k < x:
        j = 0
        w = c[1:]
        while j < k:
            if j > 0:
                w = c[:3]
            w[j] += 1
            j += 1
        best = w
        c[0] += k
        k += 1
    best[0] += 10
    return c * 10 + best.sum()


@at(0.5, 1.5, 3.5)
def return_from_loop(x):
    c = np.zeros(4) * x

    def find():
        for i in range(4):
            r = c[1:3]
            if i > x:
                return r
        return c[:2]

    v = find()
    v[0] = 9.0
    c[1] += 2
    return v * 10 + c.sum()


@at(0.5, 1.5, 3.5)
def rows(x):
    A = np.ones((4, 3)) * x
    for row in A:
        row[0] = row[1] * 2
        if row.sum() > x:
            break
    return A


@at(0.5, 1.5, 3.5)
def rows_while(x):
    A = np.ones((4, 3)) * x
    k = 0
    while k < x:
        row = A[k]
        row += k
        row[0] = 7.0
        A[k, 1] = 5
        k += 1
    return A


@at(1.5, 3.5)
@loud
def rows_kept(x):
    A = np.ones((5, 3)) * x
    k = 0
    row = A[0]
    while k < x:
        row = A[k]
        k += 1
    A[0] = 2.0
    A[2, 1] = 9.0
    return row + A


@at(0.5, 1.5, 3.5)
def swap_views(x):
    A = np.zeros((2, 3)) * x
    a, b = A[0], A[1]
    k = 0
    while k < x:
        b[:] = a + k + 1
        a, b = b, a
        k += 1
    return A * 10 + a


@at(0.5, 1.5, 3.5)
def swap_inner_read(x):
    A = np.zeros((2, 3)) * x
    a, b = A[0], A[1]
    k = 0
    s = 0.0
    while k < x:
        b[:] = a + k + 1
        s = s + A[0].sum()
        a, b = b, a
        k += 1
    return A * 10 + a + s


@at(0.5, 3.5)
def obj(x):
    o = SimpleNamespace()
    o.u = np.ones(3) * x
    o.v = np.zeros(3) * x
    k = 0
    u, v = o.u, o.v
    while k < x:
        v[:] = u * 2
        u, v = v, u
        o.u[0] += 1
        k += 1
    return o.u * 100 + o.v * 10 + u


@at(0.5, 3.5)
def closure(x):
    c = np.ones(3) * x

    def bump():
        c[0] += 1

    def read():
        return c.sum()

    k = 0
    s = 0.0
    while k < x:
        bump()
        s += read()
        if s > 5:
            bump()
        k += 1
    return c + s


@at(0.5, 3.5)
def out(x):
    c = np.ones(3) * x
    d = np.zeros(3) * x
    t = c if x > 1 else d
    np.add(t, 1, out=t)
    np.multiply(c, 2, out=d if x > 2 else c)
    return c * 10 + d + t * 100


@at(0.5, 3.5)
def addat(x):
    c = np.ones(3) * x
    d = np.zeros(3) * x
    t = c[::-1] if x > 1 else d
    np.add.at(t, [0, 0, 1], 2.0)
    t[t > 3] = 1.0
    return c * 10 + d + t * 100


@at(0.5, 3.5)
def three(x):
    a = np.zeros(2) * x
    b = np.ones(2) * x
    c = a + b
    if x > 3:
        t = a
    elif x > 1:
        t = b
    else:
        t = c
    t[0] = 5.0
    b[1] = 6.0
    a[1] = 7.0
    c[1] = 8.0
    return a + 10 * b + 100 * c + 1000 * t


@at(0.5, 3.5)
def with_tuple(x):
    a = np.zeros(2) * x
    b = np.ones(2) * x
    p = (a, b) if x > 1 else (b, a)
    p[0][0] = 5.0
    q = {"l": p[1][1:], "r": p[0]} if x > 2 else {"l": p[0][:1], "r": p[0]}
    q["l"][0] += 3
    q["r"][1] += 4
    return a + 10 * b + q["l"]


@at(0.5, 3.5)
def with_continue(x):
    a = np.zeros(3) * x
    v = a[:2]
    k = 0
    while k < 4:
        k += 1
        if k > x:
            continue
        v = a[1:] if k > 1 else a[:2]
        v[0] += k
        if k > 2:
            break
    a[1] += 10
    return a * 10 + v.sum()


@at(0.5, 3.5)
def mixed_own(x):
    a = np.zeros(3) * x
    k = 0
    while k < x:
        a = a.copy() if k > 1 else a
        a[0] += 1
        k += 1
    return a


@at(0.5, 3.5)
def first_alias_mixed(x):
    a = np.zeros(3) * x
    first = a
    k = 0
    while k < x:
        if k > 1:
            a = a.copy()
        a[0] += 1
        k += 1
    return a + 10 * first


@at(0.5, 3.5)
def after_write(x):
    a = np.zeros(3) * x
    b = a[1:]
    k = 0
    while k < x:
        b = b * 2 + 1 if k > 1 else b
        k += 1
    b[0] = 3.0
    return a * 10 + b.sum()


@at(0.5, 3.5)
def sort(x):
    a = np.array([3.0, 1.0, 2.0]) * x
    v = a[1:]
    if x > 1:
        v.sort()
    else:
        a.sort()
    w = v if x > 2 else a[:2]
    w.fill(4.0)
    return a * 10 + v.sum()


@at(0.5, 3.5)
def iadd_in_arm(x):
    a = np.ones(3) * x
    v = a[1:]
    if x > 1:
        v += 2
        a *= 3
    else:
        a = a * 2
        v -= 1
    a[2] = 0.0
    return a * 10 + v.sum()


@at(0.5, 3.5)
def ternary_write(x):
    a = np.ones(3) * x
    b = np.ones(3) * x
    (a if x > 1 else b)[0] = 9.0
    return a * 10 + b


@at(0.5, 3.5)
def and_or(x):
    a = np.ones(3) * x
    t = (x > 1 and x) or 0.0
    (a[1:] if t > 2 else a[:2])[0] = t
    return a


@at(0.5, 3.5)
def reshape(x):
    a = np.zeros(6) * x
    m = a.reshape(2, 3) if x > 1 else a.reshape(2, 3)[:, ::-1]
    m[0, 0] = 4.0
    a[1] = 5.0
    return m


@at(0.5, 3.5)
def return_view(x):
    a = np.zeros(6) * x

    def g(a):
        if x > 1:
            return a[2:4]
        b = a[:2]
        b[0] = 3.0
        return b

    v = g(a)
    w = g(a)
    v[1] = 8.0
    w[0] += 1
    return a


@at(0.5, 1.5, 3.5)
def while_else(x):
    a = np.zeros(4) * x
    v = a[:2]
    k = 0
    while k < 3:
        if k > x:
            v = a[1:3]
            break
        k += 1
    else:
        v = a[2:]
    v[0] = 6.0
    return a


@at(0.5, 1.5, 3.5)
def late(x):
    a = np.zeros(4) * x
    k = 0
    while True:
        w = a[1:]
        k += 1
        if k > x:
            break
    w[0] = 6.0
    a[2] = 3.0
    return a * 10 + w.sum()


@at(0.5, 1.5, 3.5)
def grow_list(x):
    a = np.zeros(3) * x
    views = [a[i:] for i in range(3)]
    for i in range(3):
        if x > i:
            views[i][0] += 1
        a[0] += views[i].sum()
    return a


@at(0.5, 1.5, 3.5)
def global_list(x):
    bufs = [np.zeros(2) * x, np.ones(2) * x]
    i = 1 if x > 1 else 0
    b = bufs[i]
    b[0] = 5.0
    return bufs[0] * 10 + bufs[1]


@at(0.5, 1.5, 3.5)
def nested_helper(x):
    a = np.zeros(3) * x

    def h(v, n):
        if n > x:
            return v[1:]
        return h2(v, n)

    def h2(v, n):
        v[0] += n
        return v[:2]

    r = h(a, 1)
    s = h(a, 2)
    r[1] += 5
    s[0] += 7
    return a + r.sum() * 10


@at(0.5, 1.5, 3.5)
def with_try(x):
    a = np.zeros(3) * x
    v = a[:2]
    try:
        if x > 1:
            v = a[1:]
    finally:
        a[1] = 3.0
    v[0] = 4.0
    return a + v.sum()


@at(0.5, 1.5, 3.5)
def with_int(x):
    a = np.zeros(3, int)
    v = a[1:]
    b = v if x > 1 else a[:2]
    b += 2
    a[1] += 1
    return b * x


@at(0.5, 1.5, 3.5)
def promote(x):
    a = np.ones(2, np.float32)
    b = np.ones(2) * x
    t = a if x > 1 else b
    t[0] = 4.0
    a[1] = 5.0
    return a * 10 + b + t * 100


@at(0.5, 1.5, 3.5)
def read_by_the_test_alone(x):
    """Two names of one array before the loop, of which what is carried is not read behind it."""
    r = np.ones(2) * x
    p = r
    y, k = np.zeros(2), 0
    while np.dot(r, r) > 0.1:
        y = y + p
        r = r - 0.5 * p
        p = r * 0.9
        k += 1
    return y * 10 + k

"""Programs with buffers that loops exchange, rows they iterate over, and lists they index."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.lifting.view_programs import at, loud


@dataclass
class Pair:
    """Two buffers."""

    u: Any
    v: Any


@at(0.5, 3.5)
def asarray_in_arm(x):
    c = np.ones(3) * x
    if x > 1:
        c[0] = 5.0
        b = np.asarray(c)
        b[1] = 6.0
        d = c[:]
        d[2] = 7.0
        s = c.sum() + b.sum() + d.sum()
    else:
        b = c.copy()
        s = 0.0
        d = b
    b[0] += 1
    d[1] += 2
    return c + s + b


@at(0.5, 3.5)
def swap_in_if(x):
    a = np.zeros(2) * x
    b = np.ones(2) * x
    if x > 1:
        a, b = b, a
    a[0] = 5.0
    b[1] = 6.0
    return a * 10 + b


@at(0.5, 3.5)
@loud
def swap_in_loop_if(x):
    a = np.zeros(2) * x
    b = np.ones(2) * x
    a0 = a
    k = 0
    while k < x:
        if k != 1:
            a, b = b, a
        a[0] += 1
        b[1] = a[0]
        k += 1
    a0[0] += 100
    return a * 10 + b


@at(0.5, 3.5)
def inner_loop_writes(x):
    u = np.ones(5) * x
    v = np.zeros(5) * x
    k = 0
    while k < x:
        j = 1
        while j < 4 and j < x + 2:
            v[j] = u[j] * 2 + k
            j += 1
        u, v = v, u
        k += 1
    return u * 10 + v


@at(0.5, 3.5)
def view_into_loop(x):
    u = np.ones((3, 4)) * x
    row = u[1]
    col = u[:, 1]
    k = 0
    while k < x:
        row[1] += col[0]
        col[2] += row[0]
        u *= 1.5
        k += 1
    return u + row.sum() + col.sum()


@at(0.5, 3.5)
def masked(x):
    u = np.arange(4.0) * x
    v = u[::-1]
    k = 0
    while k < x:
        v[u > 1.2] = k
        u += 1
        k += 1
    return u * 10 + v


@at(0.5, 3.5)
def two_names_one_rebound(x):
    a = np.ones(3) * x
    b = a
    k = 0
    while k < x:
        b = b + 1 if k > 0 else b
        b[0] = 7.0 + k
        a[1] += 1
        k += 1
    return a * 10 + b


@at(0.5, 3.5)
def list_of_bufs_loop(x):
    bufs = [np.zeros(2) * x, np.ones(2) * x, np.ones(2) * x * 2]
    k = 0
    while k < x:
        b = bufs[k % 3]
        b[0] += 10 * (k + 1)
        bufs[1][1] += 1
        k += 1
    return bufs[0] + 10 * bufs[1] + 100 * bufs[2]


@at(0.5, 3.5)
def for_bufs(x):
    bufs = [np.zeros(2) * x, np.ones(2) * x, np.ones(2) * x * 2]
    s = 0.0
    for b in bufs:
        bufs[2][1] += 1
        s = s + b[1]
        b[0] = s
        if s > x:
            break
    return bufs[0] + 10 * bufs[1] + 100 * bufs[2] + s


@at(0.5, 3.5)
def zip_rows(x):
    A = np.ones((3, 2)) * x
    B = np.zeros((3, 2)) * x
    for r, q in zip(A, B):
        q[0] = r[1] + 1
        r[0] = q[0] * 2
        if r.sum() > 2 * x + 2:
            break
    return A * 10 + B


@at(0.5, 3.5)
def enum_rows(x):
    A = np.ones((3, 2)) * x
    for i, r in enumerate(A):
        r[0] = i
        A[i, 1] += 1
        if r.sum() > x:
            break
    return A


@at(0.5, 3.5)
def with_raise(x):
    a = np.zeros(3) * x
    v = a
    if x > 10:
        v = a[1:]
        raise ValueError("no")
    v[0] = 3.0
    return a


@at(0.5, 3.5)
def elif_views(x):
    a = np.zeros((2, 2)) * x
    if x > 3:
        v = a[0]
    elif x > 1:
        v = a[1]
    else:
        v = a[:, 0]
    a[0, 0] = 1.0
    a[1, 0] = 2.0
    a[0, 1] = 3.0
    v *= 2
    return a + v.sum()


@at(0.5, 3.5)
def attr_rebind(x):
    o = SimpleNamespace()
    o.v = np.zeros(3) * x
    w = o.v[1:]
    if x > 1:
        w[0] = 2.0
        t = o.v * 2
    else:
        t = o.v + w.sum()
    o.v[1] += 1
    return t + o.v


@at(0.5, 3.5)
def default_arg(x):
    c = np.zeros(3) * x

    def g(k, c=c):
        c[0] += k
        return c[1:]

    if x > 1:
        v = g(3.0)
    else:
        v = c[:2]
    v[0] += 1
    return c


@at(0.5, 3.5)
def gen_comp(x):
    c = np.zeros(3) * x
    vs = [c[i : i + 1] if x > i else c[:1] for i in range(3)]
    for i, v in enumerate(vs):
        v[0] += i + 1
    return c


@at(0.5, 3.5)
def carried_view_of_carried(x):
    a = np.ones(4) * x
    v = a[1:3]
    k = 0
    while k < x:
        v = a[2:] if k > 0 else a[:2]
        v[0] += 1
        a = a * 1.5 if k == 5 else a
        k += 1
    return a * 10 + v.sum()


@at(0.5, 3.5)
def with_complex(x):
    z = np.ones(3, complex) * x
    r = z.real if x > 1 else z.imag
    r[0] = 5.0
    z[1] = 2 + 3j
    return np.abs(z) + r


@at(0.5, 3.5)
def and_write(x):
    c = np.zeros(2) * x

    def w():
        c[0] += 1
        return True

    ok = x > 1 and w()
    ok2 = x > 2 or w()
    return c + (1.0 if ok else 0.0)


@at(0.5, 3.5)
def kw_container(x):
    st = {"u": np.ones(3) * x, "t": 0.0}
    k = 0
    while k < x:
        st["u"][0] += st["u"].sum()
        st = {"u": st["u"] * 1.5 if k == 1 else st["u"], "t": st["t"] + 1}
        k += 1
    return st["u"] + st["t"]


@at(0.5, 3.5)
def dataclass(x):
    s = Pair(np.ones(3) * x, np.zeros(3) * x)
    k = 0
    while k < x:
        s.v[:] = s.u * 2 + k
        s = Pair(s.v, s.u)
        k += 1
    return s.u * 10 + s.v


@at(0.5, 4.5)
def two_names_both_rebound(x):
    a = np.ones(3) * x
    b = a
    k = 0
    s = 0.0
    while k < x:
        a[0] += 1
        s = s + b[0]
        if k > 1:
            a = a * 2
        if k > 2:
            b = b * 3
        k += 1
    return a + b * 10 + s


@at(0.5, 3.5)
def kept_under_a_condition(x):
    a = np.ones(3) * x
    b = np.zeros(3) * x
    v = a
    k = 0
    while k < x:
        w = b if k > 1 else v
        v = w
        v[1] += 1 + k
        k += 1
    v[0] = 50.0
    return a * 10 + b


@at(0.5, 3.5)
def counted_from_the_end(x):
    bufs = [np.zeros(2) * x, np.ones(2) * x]
    i = -1 if x > 1 else -2
    bufs[i][0] = 5.0
    return bufs[0] * 10 + bufs[1]


@at(0.5, 3.5)
def rows_of_two_kinds(x):
    a = np.ones(2, np.float32)
    b = np.ones(2) * x
    t = a if x > 1 else b
    a[1] = 5.0
    s = t.sum()
    t[0] = 4.0
    return a * 10 + b + s


@at(-0.5, 0.5)
@loud
def layouts_of_the_second_arm(x):
    q = np.zeros((3, 2)) * x
    r = np.zeros(6) * x
    for line in range(1):  # of line, for the message
        if x > 0:
            q = q + line
        else:
            q = np.ones((3, 2)) * x
            r = q.T.reshape(-1)
    q[0] = 3.0
    return r


def _copies(*arrays):
    return [np.array(a) for a in arrays]


@at(0.5, 3.5)
def new_arrays_are_unpacked(x):
    [a, b] = _copies([1.0, 2.0, 3.0], [4.0, 5.0])
    if x > 1:
        a[:2] -= x * b
    a[2] += x
    return a


def _pair(a):
    return a, a.sum()


@at(0.5, 3.5)
def a_new_array_in_a_tuple(x):
    b, s = _pair(np.arange(3.0))
    b[0] = x if x > 1 else -x
    return b * s


@at(0.5, 3.5)
def one_of_two_that_are_unpacked_is_plain(x):
    a, n = _copies([1.0, 2.0], [2])
    a[0] = x if x > 1 else 2 * x
    return a * np.ones(n[0])


@at(0.5, 3.5)
def what_is_unpacked_has_a_name_of_its_own(x):
    both = a, _ = _pair(np.arange(3.0))
    a[0] = x if x > 1 else -x
    return both[0] * (2.0 if isinstance(both, tuple) else 3.0)

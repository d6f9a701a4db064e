"""Methods of users' classes that no call names: operators, items, properties, truth, `with`."""

# ruff: noqa: SIM103 - methods are to decide

import ast
import copy
import functools
import math
import operator
import textwrap

import numpy as np
import pytest

import ftrace
from ftrace.core.errors import ConcretizationTypeError, LiftError
from ftrace.lifting.syntax import users_operators
from ftrace.lifting.syntax.runtime import Helper


class Number:
    """A number whose methods all decide about its value."""

    def __init__(self, v):
        self.v = v

    def _of(self, w):
        return w.v if isinstance(w, Number) else w

    def __add__(self, o):
        return self.v + self._of(o) if self.v > 0 else self._of(o)

    def __radd__(self, o):
        return o - self.v if self.v > 0 else o

    def __sub__(self, o):
        return NotImplemented

    def __rsub__(self, o):
        return 10 * self._of(o) if self.v > 0 else 20 * self.v

    def __mul__(self, o):
        return self.v * self._of(o) if self.v > 0 else -self._of(o)

    def __imul__(self, o):
        return Number(self.v * o) if isinstance(o, int) else NotImplemented

    def __matmul__(self, o):
        return math.exp(self.v)

    def __pow__(self, o):
        return math.cos(self.v) ** o

    def __divmod__(self, o):
        return (self.v * o, 3.0) if self.v > 0 else (2 * self.v, self.v)

    def __neg__(self):
        return -self.v if self.v > 0 else 2 * self.v

    def __invert__(self):
        return math.sin(self.v)

    def __abs__(self):
        return self.v if self.v > 0 else -self.v

    def __float__(self):
        return float(self.v) * 2

    def __round__(self, digits=0):
        return self.v * digits if self.v > 0 else self.v

    def __lt__(self, o):
        if self.v < self._of(o):
            return True
        return False

    def __eq__(self, o):
        if self.v == self._of(o):
            return True
        return False

    __hash__ = None

    def __getitem__(self, i):
        return self.v * i if self.v > 0 else self.v - i

    def __contains__(self, o):
        if self.v > o:
            return True
        return False

    def __iter__(self):
        yield self.v if self.v > 0 else 3 * self.v
        yield 2.0

    def __bool__(self):
        if self.v > 0:
            return True
        return False

    def __enter__(self):
        return self.v if self.v > 0 else -self.v

    def __exit__(self, *error):
        return False

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.v if self.v > 0 else len(name) * self.v

    @property
    def root(self):
        return math.sqrt(self.v * self.v + 1.0)

    @functools.cached_property
    def kept(self):
        return self.v if self.v > 0 else 5 * self.v


class Child(Number):
    def __radd__(self, o):
        return 100 * self.v if self.v > 0 else self.v


def with_block(n):
    with n as v:
        return v * 2


def in_place(n):
    m = n
    m *= 2
    m *= 3.0  # there is no in-place way to do this
    return m + n.v


def unpacked(n):
    a, b = n
    return a * b


def looped(n):
    total = 0.0
    for v in n:
        total = total + v
    return total


def attributes_of_instances(n):
    n.own = n.v * 3
    return n.own + n.kept + n.kept


def within_a_loop(n):
    total = 0.0
    while total < 2.9:
        total = total + abs(n)
    return total


PROGRAMS = {
    "add": lambda n: n + 3.0,
    "add of two": lambda n: n + Number(n.v),
    "radd": lambda n: 3.0 + n,
    "radd of a traced value": lambda n: n.v + n,
    "child first": lambda n: n + Child(n.v),
    "not implemented": lambda n: Number(2.0) - Child(n.v),
    "float first": lambda n: 2.0 - n,
    "mul": lambda n: n * 2.0,
    "matmul and pow": lambda n: (n @ n) * n**2,
    "divmod": lambda n: math.prod(divmod(n, 2.0)),
    "neg": lambda n: -n,
    "invert": lambda n: ~n,
    "abs": lambda n: abs(n) * 2,
    "float": lambda n: float(n),
    "round": lambda n: round(n, 2),
    "lt": lambda n: n.v if n < 0.5 else 2 * n.v,
    "gt is reflected": lambda n: n.v if Number(0.5) > n else 2 * n.v,
    "eq": lambda n: n.v if n == Number(0.9) else 2 * n.v,
    "item": lambda n: n[2] + n[1],
    "contains": lambda n: n.v if 0.5 in n else 2 * n.v,
    "contains not": lambda n: n.v if 0.5 not in n else 2 * n.v,
    "truth": lambda n: n.v if n else 2 * n.v,
    "not": lambda n: n.v if not n else 2 * n.v,
    "property": lambda n: n.root,
    "getattr": lambda n: n.missing * n.other,
    "operator": lambda n: operator.add(n, 1.0),
    "in a comprehension": lambda n: sum([abs(n) * k for k in range(3)]),
    **{
        f.__name__: f
        for f in (
            with_block,
            in_place,
            unpacked,
            looped,
            attributes_of_instances,
            within_a_loop,
        )
    },
}
POINTS = np.array([0.7, -0.6])


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_methods_that_no_call_names_are_lifted(f):
    def g(x):
        return f(Number(x))

    def slope(x):
        return (g(x + 1e-6) - g(x - 1e-6)) / 2e-6

    want = [float(g(x)) for x in POINTS.tolist()]
    slopes = [slope(x) for x in POINTS.tolist()]
    np.testing.assert_allclose([ftrace.jit(g)(x) for x in POINTS], want)
    np.testing.assert_allclose(ftrace.vmap(g)(POINTS), want)
    np.testing.assert_allclose([ftrace.grad(g)(x) for x in POINTS], slopes, rtol=1e-5, atol=1e-8)
    derivative = ftrace.vmap(ftrace.grad(g))(POINTS)
    np.testing.assert_allclose(derivative, slopes, rtol=1e-5, atol=1e-8)


def test_what_is_not_reached_is_refused():
    refused = (
        lambda n: sum([n], 0.0),
        lambda n: operator.attrgetter("kept")(n),
    )
    for f in refused:
        with pytest.raises((ConcretizationTypeError, LiftError)):
            ftrace.jit(lambda x, f=f: f(Number(x)))(0.7)


def test_functions_that_need_no_operators_are_not_rewritten_so():
    def f(x):
        return x * 2 if x > 0 else x

    assert ftrace.jit(f)(1.0) == 2.0
    assert "operate" not in ftrace.lift(f).source


# ---------------------------------------------------------------------------------- Python's values

PLAIN = """
def f(a, b):
    c = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, -a, +a, not a, a < b, a <= b, a > b]
    c += [a >= b, a == b, a != b, a in c, a not in c, 1 < a < b, a if b else 0, a and b or c]
    i, j = 7, 2
    c += [i & j, i | j, i ^ j, i << j, i >> j, ~i, c[0], c[-1], c[1:3], "ab" * j, "x%d" % i]
    c += [[1] + [2], 2 * (1,), {"k": a}["k"], "b" in "abc", c.__class__.__name__, a.real]
    i += j
    i **= 2
    d = c
    d += [i]
    (x, y), z = (1, 2), 3
    for v in c[:2]:
        z = z + v
    for k in range(3):
        z += k
    e = [*d]
    e[0] = z
    e[1] += 1.5
    e[1:] = [[a, b], e[0]]
    del e[1][0]
    e[1][0] *= 2
    assert z > 0, f"{z}"
    while z > 10:
        z -= 10
    return c, d, d is c, x, y, z, e, [u * 2 for u in c[:3] if u > 1], {**{"q": a.imag}}
"""


def test_operators_of_plain_values_are_pythons():
    scope: dict = {}
    exec(PLAIN, scope)
    tree = ast.parse(textwrap.dedent(PLAIN))
    users_operators.Operators().of(tree.body[0])
    assert ast.unparse(tree).count("_ft.operate") > 50
    rewritten = {"_ft": Helper}
    exec(compile(ast.fix_missing_locations(tree), "rewritten", "exec"), rewritten)
    for a, b in ((3.5, 2.0), (2, 5), (np.float64(7.0), 3)):
        got, want = rewritten["f"](a, b), scope["f"](copy.copy(a), b)
        assert repr(got) == repr(want)
    with pytest.raises(TypeError, match="unsupported operand"):
        users_operators.operate("add", 1, "a")
    with pytest.raises(TypeError, match="unsupported operand"):
        users_operators.operate("sub", Number(1.0), Number(2.0))
    with pytest.raises(AttributeError, match="nothing"):
        users_operators.attribute(object(), "nothing")

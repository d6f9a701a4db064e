"""What a function reads of objects of libraries, of classes and of modules is watched, too."""

import array
import collections
import contextvars
import itertools
import os
import random
import sys
import types

import numpy as np
import pytest
import scipy.interpolate
import scipy.sparse
import scipy.stats

import ftrace
from ftrace.control.freshness import facts
from ftrace.control.guards import Watch
from ftrace.control.traces import counter
from tests.programs.test_freshness import check

MODULES = (array, collections, contextvars, os, random, sys, types, scipy)

# what stands outside, what the function says, what changes
# fmt: off
READS = {
    "a variable of the environment": (
        "os.environ['FTRACE_TEST_S'] = '2'", "return x * float(os.environ['FTRACE_TEST_S'])",
        "os.environ['FTRACE_TEST_S'] = '5'"),
    "getenv": ("os.environ.pop('FTRACE_TEST_T', 0)",
        "return x * int(os.getenv('FTRACE_TEST_T', '1'))",
        "os.environ['FTRACE_TEST_T'] = '5'"),
    "a context variable": ("c = contextvars.ContextVar('c', default=2.0)", "return x * c.get()",
        "c.set(5.0)"),
    "an object in a context variable": (
        "o = types.SimpleNamespace(w=2.0); c = contextvars.ContextVar('c'); c.set(o)",
        "return x * c.get().w", "o.w = 5.0"),
    "a chain of mappings": (
        "a, b = {'k': 1.0}, {}; c = collections.ChainMap(b, a)", "return x * c['k']",
            "b['k'] = 3.0"),
    "UserDict": ("d = collections.UserDict(a=2.0)", "return x * d['a'] + len(d)", "d['b'] = 1.0"),
    "UserList": ("d = collections.UserList([2.0])", "return x * d[0] + sum(d)", "d[0] = 5.0"),
    "an ordered dictionary": (
        "d = collections.OrderedDict(a=1.0, b=2.0)",
        "for v in d.values(): x = x * 2 + v\nreturn x", "d.move_to_end('a')"),
    "a proxy": ("a = {'k': 1.0}; p = types.MappingProxyType(a)", "return x * p['k']",
        "a['k'] = 3.0"),
    "array.array": ("a = array.array('d', [1.0, 2.0])", "return x * a[1]", "a[1] = 7.0"),
    "a bytearray": ("a = bytearray(b'abc')", "return x * a[1]", "a[1] = 5"),
    "a memoryview": ("K = np.ones(2); a = memoryview(K)", "return x * a[1]", "K[1] = 5.0"),
    "a spline": (
        "s = scipy.interpolate.CubicSpline([0.0, 1, 2, 3], [0.0, 1, 4, 2])",
        "return x * float(s(0.5))", "s.c[:] *= 2"),
    "a sparse matrix": (
        "s = scipy.sparse.csr_matrix(np.eye(2))", "return x * (s @ np.ones(2))[0]",
            "s.data[0] = 5.0"),
    "a polynomial": ("p = np.polynomial.Polynomial([1.0, 2.0])", "return x * p(2.0)",
        "p.coef[0] = 5.0"),
    "a mask": ("K = np.ma.array([1.0, 2.0], mask=[False, True])",
        "return x * K.filled(0.0)[1] + x", "K[1] = 5.0"),
    "what a library gives a function the second time": (
        "import functools\nclass A: w = 2.0\na, b = [A()], [A()]\n"
        "def h(total, o): return total + o.w",
        "return x * functools.reduce(h, a, 0.0) + x * functools.reduce(h, b, 0.0)",
        "b[0].w = 10.0"),
    "what a function that a library calls returns the second time": (
        "import functools\nclass A:\n    w = 2.0\n    def __init__(s, of): s.of = of\n"
        "a, b = [A(A(0))], [A(A(0))]\ndef h(last, o): return o.of",
        "return x * functools.reduce(h, a, 0.0).w + x * functools.reduce(h, b, 0.0).w",
        "b[0].of.w = 10.0"),
    "an array of objects": (
        "K = np.array([1.0, [2.0]], dtype=object)", "return x * K[0] + K[1][0]", "K[1][0] = 9.0"),
    # modules
    "a module imported inside": (
        "sys.modules['ftrace_test_m'] = types.SimpleNamespace(k=2.0, __name__='ftrace_test_m')",
        "import ftrace_test_m as m\nreturn x * m.k", "sys.modules['ftrace_test_m'].k = 5.0"),
    "a name imported inside": (
        "sys.modules['ftrace_test_n'] = types.SimpleNamespace(k=2.0, __name__='ftrace_test_n')",
        "from ftrace_test_n import k\nreturn x * k",
        "sys.modules['ftrace_test_n'] = types.SimpleNamespace(k=5.0, __name__='ftrace_test_n')"),
    "__getattr__ of a module": (
        "m = types.ModuleType('m'); m.t = {'w': 2.0}\n"
        "exec('def __getattr__(n): return t[n]', m.__dict__)",
        "return x * m.w", "m.t['w'] = 5.0"),
    "eval": ("k = 2.0", "return x * eval('k + 1')", "k = 5.0"),
    # classes
    "a property of a metaclass": (
        "class M(type):\n    w = property(lambda c: c._w)\nclass A(metaclass=M): _w = 2.0",
        "return x * A.w", "A._w = 5.0"),
    "__getattr__ of a metaclass": (
        "t = {'w': 2.0}\nclass M(type):\n    def __getattr__(c, n): return t[n]\n"
        "class A(metaclass=M): pass",
        "return x * A.w", "t['w'] = 5.0"),
    "__call__ of a metaclass": (
        "class M(type):\n    def __call__(c, v): return v * c.w\nclass A(metaclass=M): w = 2.0",
        "return A(x)", "A.w = 5.0"),
    "the class of an object": (
        "class A: pass\nclass B: pass\na = A()", "return x * 2 if isinstance(a, A) else x",
            "a.__class__ = B"),
    "another __call__": (
        "class A:\n    def __call__(s, x): return x * 2\na = A()", "return a(x)",
            "A.__call__ = lambda s, x: x * 5"),
    "another method above": (
        "class A:\n    def k(s): return 2.0\n"
        "class B(A):\n    def k(s): return super().k() + 1\nb = B()",
        "return x * b.k()", "A.k = lambda s: 7.0"),
    "another property": (
        "class A:\n    w = property(lambda s: 2.0)\na = A()", "return x * a.w",
            "A.w = property(lambda s: 4.0)"),
    "a number for a property": ("class A:\n    w = property(lambda s: 2.0)\na = A()",
        "return x * a.w", "A.w = 4.0"),
    "a method of an object made inside": (
        "class A:\n    def k(s): return 2.0\nclass B(A): pass", "return x * B().k()",
            "B.k = lambda s: 7.0"),
    "items as attributes": (
        "class C(dict): __getattr__ = dict.__getitem__\nc = C(a=C(b=2.0))", "return x * c.a.b",
            "c['a']['b'] = 5.0"),
    "partialmethod": (
        "import functools\nclass A:\n    w = 2.0\n    def h(s, k, x): return x * k * s.w\n"
        "    g = functools.partialmethod(h, 3.0)\na = A()", "return a.g(x)", "a.w = 4.0"),
    "keywords of a partial": (
        "import functools\np = functools.partial(lambda x, k: x * k, k=2.0)", "return p(x)",
            "p.keywords['k'] = 5.0"),
    "setdefault": ("d = {}; k = 2.0", "return x * d.setdefault('a', k)", "d['a'] = 5.0"),
    "a key that is hashed": (
        "import dataclasses\n@dataclasses.dataclass(unsafe_hash=True)\nclass C: a: int = 1\n"
        "c = C(); t = {C(1): 2.0, C(2): 3.0}", "return x * t[c]", "c.a = 2"),
    "slots of a record": (
        "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass C: a: float = 1.0\nc = C()",
        "return x * dataclasses.asdict(c)['a']", "c.a = 2.0"),
    "a cell": (
        "def make(k): return lambda: k\nh = make(2.0)", "return x * h.__closure__[0].cell_contents",
        "h.__closure__[0].cell_contents = 5.0"),
    # texts
    "a format": (
        "class A:\n    def __format__(s, spec): return 'z' * s.w\na = A(); a.w = 2",
            "return x * len(f'{a}')", "a.w = 3"),
    "str": ("class A:\n    def __str__(s): return 'z' * s.w\na = A(); a.w = 2",
        "return x * len(str(a))", "a.w = 3"),
    "%r": ("class A:\n    def __repr__(s): return 'z' * s.w\na = A(); a.w = 2",
        "return x * len('%r' % a)", "a.w = 3"),
    "a format of an attribute": (
        "class A: pass\na = A(); a.w = 2", "return x * int('{0.w}'.format(a))", "a.w = 3"),
}
# fmt: on


@pytest.mark.parametrize("name", READS)
def test_a_change_is_seen(name, monkeypatch):
    for n in ("FTRACE_TEST_S", "FTRACE_TEST_T"):
        monkeypatch.setenv(n, "1")  # and restored
    monkeypatch.setattr(sys, "modules", sys.modules)
    outside, body, change = READS[name]
    scope = {"np": np, **{m.__name__: m for m in MODULES}}
    exec(outside, scope)
    lines = "\n    ".join(body.split("\n"))
    exec(f"def f(x):\n    {lines}", scope)
    x = np.float64(1.5)
    check(ftrace.jit(scope["f"]), scope["f"], lambda: exec(change, scope), x)
    for n in ("ftrace_test_m", "ftrace_test_n"):
        sys.modules.pop(n, None)


def test_the_type_of_an_object_may_be_another_one():
    class A:
        w = 2.0

    class B:
        w = 5.0

    def f(x):
        return x * type(a).w

    a = A()
    check(ftrace.jit(f), f, lambda: setattr(a, "__class__", B))


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.default_rng(0).random,
        lambda: np.random.RandomState(0).randn,
        lambda: random.Random(0).random,
        lambda: itertools.count(1).__next__,
        lambda: iter([1.0, 2.0, 3.0, 4.0]).__next__,
        lambda: (float(i) for i in range(1, 9)).__next__,
    ],
)
def test_what_has_changed_while_tracing_is_read_anew(make):
    draw, plain = make(), make()
    jitted = ftrace.jit(lambda x: x * draw())
    for _ in range(3):
        assert jitted(1.5) == 1.5 * plain()


def test_random_functions_of_modules_are_read_anew():
    for module in (np.random, random):
        jitted = ftrace.jit(lambda x: x * module.random())  # noqa: B023
        module.seed(1)
        found = [jitted(1.0) for _ in range(3)]
        module.seed(1)
        np.testing.assert_allclose(found, [module.random() for _ in range(3)])


def test_an_unused_generator_of_random_numbers_costs_no_trace():
    class Model:
        def __init__(self):
            self.w, self.rng = 2.0, np.random.default_rng(0)

    model = Model()
    jitted = ftrace.jit(lambda x: x * model.w)
    jitted(1.0)
    before = counter.count
    model.rng.random()
    jitted(1.0)
    assert counter.count == before


def test_elements_of_large_arrays_are_compared_where_captures_are_checked():
    K = np.ones(20_000)
    jitted = ftrace.jit(lambda x: x * K[3])
    with ftrace.config.update(check_captures=True):
        for value in (1.0, 5.0):
            K[3] = value
            assert jitted(2.0) == 2.0 * value


def test_code_that_is_compiled_already_is_evaluated():
    code = compile("x * 3.0", "<text>", "eval")

    def f(x):
        return eval(code)

    assert ftrace.jit(f)(2.0) == 6.0


def test_a_file_that_is_only_written_is_not_read(tmp_path):
    with (tmp_path / "log").open("w") as log:

        @ftrace.jit
        def f(x):
            log.write("traced\n")
            return x * 2.0

        assert (f(1.0), f(2.0)) == (2.0, 4.0)
    assert (tmp_path / "log").read_text() == "traced\n"


def test_what_a_parameter_that_is_only_named_reads_is_watched():
    weights = np.array([2.0, 3.0])

    def scaled(x, *, w):
        return x * float(w[0])

    f = ftrace.jit(lambda x: scaled(x, w=weights))
    assert f(1.0) == 2.0
    weights[0] = 5.0
    assert f(1.0) == 5.0


def test_what_a_row_of_ftrace_is_made_of_is_no_fact(monkeypatch):
    """Its forty columns took longer to compare at each call than the call itself."""
    asked, real = [], facts._function
    monkeypatch.setattr(facts, "_function", lambda t, scope: asked.extend(t) or real(t, scope))
    f = ftrace.jit(lambda x: ftrace.numpy.sin(x) + 1.0)
    np.testing.assert_allclose(f(np.ones(3)), np.sin(1.0) + 1.0)
    assert 0 < len(asked) < 8


def flattened(y):
    if isinstance(y, dict):
        return [v for k in y for v in flattened(y[k])]
    if isinstance(y, list | tuple):
        return [v for part in y for v in flattened(part)]
    return [y]


def of_distributions(x):
    t = scipy.stats
    found = t.norm.logpdf(x), t.beta.cdf(x, 2.0, 3.0), t.expon.sf(x), t.gamma.pdf(x, 2.0)
    return sum(np.sum(v) for v in flattened((*found, t.binom.pmf(2, 5, x), t.lognorm.pdf(x, 0.5))))


def test_methods_of_a_librarys_objects_are_not_walked():
    """What a distribution made of itself by `exec` took minutes where there are twenty of them."""
    assert Watch(of_distributions)._reader.visits < 30  # 58 with these


class Scaled(scipy.stats.rv_continuous):
    def scaled(self, x):
        return x * SCALES[0]


SCALES = [2.0]
METHODS = {"bound": [Scaled().scaled]}


def test_methods_of_a_users_class_made_of_a_librarys_are_walked():
    f = ftrace.jit(lambda x: sum(map(METHODS["bound"][0], [x])))
    check(f, lambda x: sum(map(METHODS["bound"][0], [x])), lambda: SCALES.__setitem__(0, 3.0))
    SCALES[0] = 2.0

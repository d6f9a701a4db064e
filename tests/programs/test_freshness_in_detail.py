"""Small programs, each for a step of the walk: what it reads is seen, all else costs no trace.

A program is text: what stands outside, the function's body, a change (`test_freshness.check`).
"""

import collections
import contextlib
import functools
import importlib
import operator
import os
import sys
import types
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.control.freshness import calling
from ftrace.control.freshness.values import Instance
from ftrace.control.guards import Watch
from tests.programs.arrays import evaluate
from tests.programs.test_freshness import Model, check


class Thing:
    """An object with a number."""

    def __init__(self, w: Any) -> None:
        self.w = w


MODULES = (collections, contextlib, functools, importlib, operator, os, sys, types, ftrace)
V = np.array([1.0, 2.0, 3.0])


def check_program(
    outside: str, body: str, change: str, x: Any = 1.5, again: bool | None = None
) -> None:
    scope: dict[str, Any] = {
        "np": np,
        "Model": Model,
        "Thing": Thing,
        **{m.__name__: m for m in MODULES},
    }
    exec(outside, scope)
    lines = "\n    ".join(body.split("\n"))
    exec(f"def f(x):\n    {lines}", scope)
    check(ftrace.jit(scope["f"]), scope["f"], lambda: exec(change, scope), x, again)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------- objects

# how the object `b` gets to where its attribute is read
OBJECTS = {
    "extend": "acc = []; acc.extend(objs); return acc[1].w * x",
    "append of what is not known": "acc = []; acc.append(*[b]); return acc[0].w * x",
    "arguments of which nothing is known": "return (lambda *k: k[1].w * x)(*objs)",
    "arguments and keywords": "return (lambda *k, **kw: k[0].w * x)(*[b], **{})",
    "an argument by keyword only": "return (lambda y, *, o: o.w * y)(x, o=b)",
    "a keyword of a method": "return operator.methodcaller('get', o=b)(getter) * x",
    "a name of eval": "o = b; return x * eval('o.w')",
    "what many calls return": """
        def same(o, n): return o
        for n in (same(b, 1), same(b, 2), same(b, 3), same(b, 4)): pass
        return same(b, 5).w * x""",
    "what the last of many calls gets": """
        def read(o, n): return o.w * x
        return read(a, 1) + read(a, 2) + read(a, 3) + read(a, 4) + read(a, 5) + read(b, 6)""",
    "a record that is written by name": """
        h = Thing(a); setattr(h, 'w', b); return h.w.w * x""",
    "a dictionary of two names": "d = {'p': a, 'q': b}; return d['q'].w * x",
    "an item beside a question": "return [b, 'a' in 'abc'][0].w * x",
    "variables that change places": "o = a; p = b; o, p = p, o; return o.w * x",
    "a variable of a class": """
        class L:
            o = b
            v = o.w
        return L.v * x""",
    "lists that grow one after the other": """
        y, p, q = 0.0, [a], [a]
        for i in range(3):
            y = y + p[-1].w * x
            p.append(q[-1])
            q.append(b)
        return y""",
    "a list that grows where errors are caught": """
        y, acc = 0.0, [a]
        for o in acc:
            try: y = y + o.w * x
            except ValueError: pass
            if o is a: acc.append(b)
        return y""",
    "an error after many instructions": f"""
        {"y = x; " * 100}
        try: raise KeyError(b)
        except KeyError as e: return e.args[0].w * x""",
    "tuples of two lengths": """
        t = (a, b) if np.ndim(x) == 0 else (a,)
        p, q = t
        return q.w * x""",
    "a method of a dictionary": "return sum(o.w for o in map(named.get, 'ab')) * x",
    "a function that a compiled one may call": """
        def read(d, y): return d['o']().w * y
        return ftrace.jit(read)({'o': lambda: b}, x)""",
    "a call that cannot be": """
        try: getattr(b)
        except TypeError: pass
        return b.w * x""",
    "a text that a run computes": "return x * b.w * eval(str(2.0))",
    "a record that is written by a computed name": """
        h = Thing(a); setattr(h, 'w'.strip(), b); return h.w.w * x""",
    "an object that is written by a computed name": """
        setattr(holder, 'w'.strip(), b)
        try: return holder.w.w * x
        finally: holder.w = a""",
    "an item that is written at a computed place": """
        objs[int('0')] = b
        try: return objs[0].w * x
        finally: objs[0] = a""",
    "append as a function": "acc = []; list(map(acc.append, objs)); return acc[1].w * x",
    "append to something outside as a function": """
        list(map(empty.append, objs))
        try: return empty[1].w * x
        finally: empty.clear()""",
    "what a list outside is filled up with": """
        if len(empty) < 1: empty.append(b)
        return sum(o.w for o in empty) * x""",
    "an item of what is filled up": """
        if len(empty) < 1: empty.append(b)
        return empty[-1].w * x""",
    "what a library gets of what is filled up": """
        if len(empty) < 1: empty.append(b)
        return list(zip(empty, empty))[0][1].w * x""",
    "a function for a compiled one": """
        def give(): return b
        def read(g, y): return g().w * y
        return ftrace.jit(read, static_argnums=0)(give, x)""",
    "what a generator returns": """
        def items():
            yield 1
            return b
        def read():
            o = yield from items()
            yield o.w
        return list(read())[1] * x""",
    "what a generator gets": """
        def read():
            o = yield 1
            yield o.w
        i = read(); next(i); return i.send(b) * x""",
    "an argument of a class made inside": """
        class H:
            def __init__(self, o): self.o = o
            def get(self, o): return self.o.w * o.w
        return H(a).get(b) * x""",
    "an object of a class made inside": """
        class H:
            def __init__(self, o): self.o = o
            def get(self): return self.o.w
        return H(b).get() * x""",
}
NAMED = """
class Getter:
    def get(self, o): return o.w

a, b, getter = Thing(2.0), Thing(3.0), Getter()
objs, named, empty, holder = [a, b], {'a': a, 'b': b}, [], Thing(a)
"""


def unindented(text: str) -> str:
    lines = text.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


@pytest.mark.parametrize("name", OBJECTS)
def test_a_change_of_an_object_is_seen(name: str) -> None:
    check_program(NAMED, unindented(OBJECTS[name]), "b.w = 200.0")


# ---------------------------------------------------------------------------------- reads

# fmt: off
READS = {
    "the class of an object": (
        "class A: w = 2.0\na = A()", "return x * a.__class__.w", "A.w = 5.0"),
    "another class of an object": (
        "class A: w = 2.0\nclass B: w = 5.0\na = A()", "return x * a.__class__.w",
        "a.__class__ = B"),
    "the class of an object made inside": (
        "class A: w = 2.0", "return x * A().__class__.w", "A.w = 5.0"),
    "the class of a list": (
        "class L(list): w = 2.0\na = L()", "return x * a.__class__.w", "L.w = 5.0"),
    "the class of an array": (
        "class A(np.ndarray): w = 2.0\na = np.ones(3).view(A)", "return x * a.__class__.w",
        "A.w = 5.0"),
    "a method that the class of a list replaces": (
        "class L(list):\n    def count(s, v): return k\na = L([1.0]); k = 2",
        "return x * a.count(1.0)", "k = 5"),
    "a method that the class of a dictionary replaces": (
        "class D(dict):\n    def get(s, v): return k\na = D(); k = 2",
        "return x * a.get('a')", "k = 5"),
    "an attribute of an array": (
        "class A(np.ndarray): pass\na = np.ones(3).view(A); a.w = 2.0", "return x * a.w",
        "a.w = 5.0"),
    "an attribute of an array by a computed name": (
        "class A(np.ndarray): pass\na = np.ones(3).view(A); a.w = 2.0",
        "return x * getattr(a, 'xw'[1:])", "a.w = 5.0"),
    "a property of an array": (
        "class A(np.ndarray):\n    w = property(lambda s: k)\na = np.ones(3).view(A); k = 2.0",
        "return x * a.w", "k = 5.0"),
    "a method of an array": (
        "class A(np.ndarray):\n    def go(s): return k\na = np.ones(3).view(A); k = 2.0",
        "return x * a.go()", "k = 5.0"),
    "a method that the class of an array replaces": (
        "class A(np.ndarray):\n    def sum(s): return k\na = np.ones(3).view(A); k = 2.0",
        "return x * a.sum()", "k = 5.0"),
    "what a mask is filled with": (
        "K = np.ma.array([1.0, 2.0], mask=[False, True])", "return x * K.filled()[1]",
        "K.fill_value = 5.0"),
    "a class that is false": (
        "class M(type):\n    def __bool__(c): return False\nclass A(metaclass=M): pass\nk = 2.0",
        "return x if A else x * k", "k = 5.0"),
    "a module that is false": (
        "class M(types.ModuleType):\n    def __bool__(c): return False\nm = M('m'); k = 2.0",
        "return x if m else x * k", "k = 5.0"),
    "another method of a class": (
        "class A:\n    @classmethod\n    def go(c, x): return x * 2",
        "return A.go(x)", "A.go = classmethod(lambda c, x: x * 5)"),
    "the shape of an array whose name is computed": (
        "m = Model()", "return x * getattr(m, 'wK'[1:]).shape[0]",
        "m.K.resize(4, refcheck=False)"),
    "a function that was put into a library": (
        "lib = types.ModuleType('numpy.put'); lib.go = lambda x: x * 2",
        "return lib.go(x)", "lib.go = lambda x: x * 5"),
    "an index from an array": (
        "L = [1.0, 2.0, 3.0]; J = np.array([0, 1])", "return x * L[J[0]]", "J[0] = 2"),
    "a slice from an array": (
        "K = np.array([1.0, 2.0, 3.0]); J = np.array([0, 1])",
        "return (x * K[J[0]:]).sum()", "J[0] = 2"),
    "the negative of an array": ("K = np.ones(3)", "return x * (-K)", "K[0] = 5.0"),
    "the last of many names": (
        "\n".join(f"k{i} = 1.0" for i in range(300)),
        "y = x\n" + "\n".join(f"y = y + k{i}" for i in range(300)) + "\nreturn y", "k299 = 5.0"),
    "an array in a function that is called twice": (
        "K = np.ones(3)",
        "i = eval('lambda v: v'.strip())\ndef g(v): return K * v\n"
        "return g(i(2.0)).sum() * x + g(i(x)).sum()", "K[0] = 5.0"),
    "a number beside a computed one": ("k = 2.0", "t = k + 1\nreturn x * t", "k = 5.0"),
    "an array in a list that may be of numbers": (
        "K = np.ones(3)",
        "y = 0.0\nfor L in ([2.0, 1.0, 1.0], [x, x, x]): y = y + (K * np.stack(L)).sum()\n"
        "return y", "K[0] = 5.0"),
    "an array in a list that is filled up": (
        "K = np.ones(2)",
        "y, L = 0.0, [K]\nfor i in range(2):\n"
        "    if i: L.append(np.stack([x, x]))\n    y = y + np.stack(L).sum()\nreturn y",
        "K[0] = 5.0"),
    "an array in a list beside what is only at first traced": (
        "K = np.ones(2); W = np.ones(2)",
        "y, v = 0.0, np.stack([x, x])\nfor i in range(2):\n"
        "    y = y + np.stack([K, v]).sum()\n    v = W\nreturn y", "K[0] = 5.0"),
    "hasattr": ("m = Model()", "return x * 2 if hasattr(m, 'extra') else x", "m.extra = 3.0"),
    "getenv": (
        "os.environ['FTRACE_TEST_S'] = '2'", "return x * float(os.getenv('FTRACE_TEST_S'))",
        "os.environ['FTRACE_TEST_S'] = '5'"),
    "a module that is imported by a call": (
        "m = sys.modules['ftrace_test_m'] = types.ModuleType('ftrace_test_m'); m.k = 2.0",
        "return x * importlib.import_module('ftrace_test_m').k", "m.k = 5.0"),
    "a name of a module of a package": (
        "sys.modules['ftrace_test_m'] = types.ModuleType('ftrace_test_m')\n"
        "m = sys.modules['ftrace_test_m.n'] = types.ModuleType('ftrace_test_m.n'); m.k = 2.0",
        "from ftrace_test_m.n import k\nreturn x * k", "m.k = 5.0"),
    "super of an object made inside": (
        "k = 2.0\nclass A:\n    def get(s): return k\n"
        "class B(A):\n    def get(s): return super().get()",
        "return x * B().get()", "k = 5.0"),
    "a list that is filled up": (
        "L = [1.0]", "if len(L) < 2: L.append(5.0)\nreturn x * sum(L)", "L[0] = 9.0"),
    "what stands after a known branch": (
        "flag, s = 1, 2.0",
        "y = (x if flag else x * 3) * s\ny = y + s\nreturn y * s", "s = 5.0"),
    "a branch after an unknown write": (
        "m = Model(); s = 3.0",
        "eval('m'.strip()).w = 5.0\n"
        "try: return x * s if m.w > 3 else x\nfinally: eval('m'.strip()).w = 2.0", "s = 9.0"),
    "a branch before and after an unknown write": (
        "m = Model(); s = 3.0\ndef get(): return s if m.w > 3 else 1.0",
        "y = get() * x\neval('m'.strip()).w = 5.0\n"
        "try: return y + get() * x\nfinally: eval('m'.strip()).w = 2.0", "s = 9.0"),
    "a branch by a part of something unknown": (
        "s = 3.0; u = types.SimpleNamespace(t=(1, 2.0))",
        "t = (0, 1.0) if np.ndim(x) else eval('u'.strip()).t\n"
        "n, v = t\nif n: return x * s\nreturn x", "s = 9.0"),
    "an object with a call that a library holds": (
        "class C:\n    w = 2.0\n    def __call__(s, x): return x * s.w\n"
        "c = C(); g = functools.lru_cache(ftrace.checkpoint(c))",
        "return g.__wrapped__(x)", "c.w = 5.0"),
    "an object with a call that a wrapper holds": (
        "class C:\n    w = 2.0\n    def __call__(s, x): return x * s.w\n"
        "c = C(); g = ftrace.grad(c)", "return g(x)", "c.w = 5.0"),
}
# fmt: on


@pytest.mark.parametrize("name", READS)
def test_a_change_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FTRACE_TEST_S", "1")  # and restored
    try:
        check_program(*READS[name])
    finally:
        for module in ("ftrace_test_m", "ftrace_test_m.n"):
            sys.modules.pop(module, None)


# ---------------------------------------------------------------------------------- no reads

K = "K = np.array([2.0, 3.0, 4.0])"
NEW_K = "K[...] = [9.0, 7.0, 5.0]"

# what is no fact: the arrays are operands of something traced, the names are not read
# fmt: off
UNREAD = {
    "beside an attribute": (
        K, "y = 0.0\nfor i in range(2): y = y + K * x.T\nreturn y", NEW_K),
    "beside the result of what may be another function": (
        K + "; d = {'f': np.sin}",
        "y = 0.0\nfor i in range(2): y = y + K * d.get('f')(x)\nreturn y", NEW_K),
    "beside an item of a list": (
        K, "L = [K, x]\ny = 0.0\nfor i in range(2): y = y + K * L[1]\nreturn y", NEW_K),
    "once beside what is not known": (
        K, "return K * eval('lambda v: v'.strip())(x)", NEW_K),
    "beside a list of what is traced": (
        K, "y = 0.0\nfor i in range(2): y = y + K * np.stack([x[j] for j in range(3)])\nreturn y",
        NEW_K),
    "beside what a generator gives": (
        K, "def items():\n    yield x\n    yield x\ny = 0.0\n"
        "for v in items(): y = y + K * v\nreturn y", NEW_K),
    "in a list with something traced": (
        K, "y = 0.0\nfor i in range(2): y = y + np.stack([x, K]).sum()\nreturn y", NEW_K),
    "beside a variable of which an inner function has another": (
        K, "t = x\ndef g():\n    t = 2.0\n    return t\nu = g()\n"
        "y = 0.0\nfor i in range(2): y = y + K * t\nreturn y * u", NEW_K),
    "beside a function of a module that is imported inside": (
        K, "import numpy\ny = 0.0\nfor i in range(2): y = y + K * numpy.sin(x)\nreturn y", NEW_K),
    "nothing": ("k = 2", "return x * 2", "k = 3"),
    "what makes an object": (
        "k = 1\nclass A:\n    def __init__(s): s.n = k\n"
        "    def __iter__(s): return iter((1.0, 2.0))\na = A()", "return x * sum(a)", "k = 2"),
    "another method than that of a text": (
        "k = 1\nclass A:\n    def __str__(s): return 'ab'\n    def other(s): return k\na = A()",
        "return x * len(str(a))", "k = 2"),
    "another item than that of a computed key": (
        "d = {'a1': 1.0, 'b': 0}; n = 'a'", "return x * d[n + '1']", "d['b'] = 5"),
    "the branch of a function that is none": (
        "k = 1.0\ndef h(): pass", "return x * 2.0 if h else x * k", "k = 2.0"),
}
# fmt: on


@pytest.mark.parametrize("name", UNREAD)
def test_what_a_call_does_not_read_costs_no_trace(name: str) -> None:
    check_program(*UNREAD[name], V, again=False)


WEIGHTS = np.array([2.0, 3.0, 4.0])


def dotted(x: Any) -> Any:
    y = 0.0
    for _ in range(2):
        y = y + WEIGHTS * WEIGHTS.dot(x)
    return y


def test_an_array_beside_the_result_of_a_method_costs_no_trace() -> None:
    values: Any = V
    check(ftrace.jit(dotted), dotted, lambda: WEIGHTS.__setitem__(0, 9.0), values, again=False)


def down(n: int, x: Any) -> Any:
    return x if n == 0 else down(n - 1, x * WEIGHTS)


def deep(x: Any) -> Any:
    return down(100, x)


def things(x: Any) -> Any:
    a, b, c = Thing(x), Thing(x + 1), Thing(x + 2)
    d, e, f = Thing(x), Thing(x + 1), Thing(x + 2)
    return (a.w + b.w + c.w) * (d.w + e.w + f.w)


walk_of: Any = operator.attrgetter("_reader")
instances_of: Any = operator.attrgetter("_instances")


def test_a_function_that_is_called_in_many_ways_is_walked_in_few() -> None:
    assert walk_of(Watch(deep)).visits < 40


def test_instances_of_many_places_share_one() -> None:
    made = instances_of(walk_of(Watch(things))).values()
    assert len({id(x) for x in made if isinstance(x, Instance) and x.cls is Thing}) <= 5


def test_numbers_of_a_generator_of_another_kind_are_drawn_anew() -> None:
    draw, plain = (np.random.RandomState(np.random.PCG64(0)).randn for _ in range(2))
    jitted = ftrace.jit(lambda x: x * draw())
    for _ in range(3):
        assert jitted(1.5) == 1.5 * plain()


def test_the_warning_of_a_walk_that_is_too_long_names_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calling, "_MAX_VISITS", 5)
    scope: dict[str, Any] = {}
    exec("".join(f"def f{i}(x): return x + {i}\n" for i in range(10)), scope)
    table = [scope[f"f{i}"] for i in range(10)]
    with pytest.warns(ftrace.errors.FreshnessWarning, match="clear_cache") as given:
        assert ftrace.jit(lambda x: sum(f(x) for f in table[1:3]))(1.0) == 5.0
    assert given[0].filename == __file__


def test_a_table_of_functions_is_walked_a_few_times():
    """A table holds what is called, but is not: else its functions get all that is in it."""
    steps = [("minimum", 0, 0), ("negative", 0, 0)]
    walk = walk_of(Watch(functools.partial(evaluate, steps)))
    assert not walk.exhausted
    assert walk.visits < 450  # it has 40 functions; 1,000 and 9 s where the table was called


# What a library may call is called twice: it gets, and returns, what it did not at first.
LATER = {
    "a function gets another object": (
        "a, b = Thing(2.0), Thing(3.0)\ndef large(o): return 1.0 if o.w > 100 else 2.0",
        "sorted([a], key=large); return max([b, a], key=large).w * x",
    ),
    "a function of a constant result gets another object": (
        "a, b = Thing(2.0), Thing(3.0)\ndef large(_, o): return 1.0 if o.w > 100 else 2.0",
        "functools.reduce(large, [a], 0.0)\n"
        "return (9.0 if functools.reduce(large, [b], 0.0) == 1.0 else 1.0) * x",
    ),
    "a function returns what it reads of another object": (
        "b = Thing(3.0)\na, c = Thing(Thing(2.0)), Thing(b)\ndef inner(s, o): return o.w",
        "functools.reduce(inner, [a], 0.0); return functools.reduce(inner, [c], 0.0).w * x",
    ),
}


@pytest.mark.parametrize("name", LATER)
def test_what_is_called_again_gets_and_returns_more(name):
    check_program(*LATER[name], "b.w = 200.0", again=True)

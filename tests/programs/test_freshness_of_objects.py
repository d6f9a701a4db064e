"""Objects that reach a read through containers, helpers, getters or patterns are watched.

In each program the object `b` gets to where its attribute `w` is read in another way. After `b.w`
has changed, the compiled function must say what the plain one says.
"""

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import operator
import types

import numpy as np
import pytest

import ftrace

X = np.float64(1.5)
MODULES = (collections, contextlib, copy, functools, itertools, operator, types)


class Thing:
    """An object with a number."""

    def __init__(self, w):
        self.w = w


a, b = Thing(2.0), Thing(3.0)
objs = [a, b]
named = {"a": a, "b": b}
Pair = collections.namedtuple("Pair", "p q")


@dataclasses.dataclass
class Box:
    """A record."""

    o: object


class Bag:
    """An object with a list that grows."""

    def __init__(self):
        self.items = []

    def add(self, o):
        self.items.append(o)
        return self

    def total(self, x):
        return sum(o.w for o in self.items) * x


def total(items):
    return sum(o.w for o in items)


def last_of_longer(items, n, x):
    return 0.0 * x if n == 0 else items[-1].w * x + last_of_longer([*items, b], n - 1, x)


def added(items, n, x):
    return 0.0 * x if n == 0 else items[-1].w * x + added(items + [b], n - 1, x)  # noqa: RUF005


# fmt: off
PROGRAMS = {
    "a list that grows between two calls": """
        acc = [a]; y = total(acc) * x; acc.append(b); return y + total(acc) * x""",
    "an inner list that grows": """
        acc = [[a]]; y = total(acc[0]) * x; acc[0].append(b); return y + total(acc[0]) * x""",
    "an attribute that is overwritten between two calls": """
        box = Box(a)
        def get(): return box.o.w * x
        y = get(); box.o = b; return y + get()""",
    "an item that is overwritten": """
        d = {"k": a}
        def get(): return d["k"].w * x
        y = get(); d["k"] = b; return y + get()""",
    "a variable that is rebound": """
        o = a
        def get(): return o.w * x
        y = get(); o = b; return y + get()""",
    "a recursion that unpacks": "return last_of_longer([a], 3, x)",
    "a recursion that adds lists": "return added([a], 3, x)",
    "a sum of lists": "return ([a] + [b])[-1].w * x",
    "a repeated list": "return ([a, b] * 2)[3].w * x",
    "a comprehension": "return [o for o in objs][1].w * x",
    "a union of dictionaries": "return {**named}['b'].w * x",
    "an unpacked tuple": "return (*objs,)[1].w * x",
    "a starred target": "first, *rest = objs; return rest[0].w * x",
    "a key function": "return max(objs, key=lambda o: o.w).w * x",
    "reduce": "return functools.reduce(lambda s, o: s + o.w * x, objs, 0.0)",
    "attrgetter": "return sum(map(operator.attrgetter('w'), objs)) * x",
    "itemgetter": "return operator.itemgetter(1)(objs).w * x",
    "methodcaller": "return operator.methodcaller('total', x)(Bag().add(b))",
    "sorted": "return sorted(objs, key=id)[0].w * x + sorted(objs, key=id)[1].w * x",
    "a deque": "q = collections.deque([a]); q.append(b); q.popleft(); return q.popleft().w * x",
    "an updated dictionary": "d = dict(a=a); d.update(b=b); return d['b'].w * x",
    "a default": "d = collections.defaultdict(list); d['k'].append(b); return d['k'][0].w * x",
    "setdefault": "d = {}; d.setdefault('k', b); return d['k'].w * x",
    "a set": "s = set(); s.add(b); return s.pop().w * x",
    "a generator": """
        def items():
            yield a
            yield b
        return sum(o.w for o in items()) * x""",
    "a record": "return Box(b).o.w * x",
    "a replaced field": "return dataclasses.replace(Box(a), o=b).o.w * x",
    "a named tuple": "return Pair(a, b).q.w * x",
    "a replaced item": "return Pair(a, a)._replace(p=b).p.w * x",
    "a field that a closure writes": """
        box = Box(a)
        def put(): box.o = b
        put(); return box.o.w * x""",
    "a context manager": "with contextlib.nullcontext(b) as o: return o.w * x",
    "an exception": """
        try: raise KeyError(b)
        except KeyError as e: return e.args[0].w * x""",
    "keywords": "return (lambda *k, **kw: kw['o'].w * x)(a, o=b)",
    "the variable of a loop": """
        for o in objs: pass
        return o.w * x""",
    "an iterator": "it = iter(objs); next(it); return next(it).w * x",
    "zip": "return list(zip(objs, objs))[1][0].w * x",
    "enumerate": "return [o.w for _, o in enumerate(objs)][1] * x",
    "a dictionary of zip": "return dict(zip('ab', objs))['b'].w * x",
    "a slice": "return objs[::-1][0].w * x",
    "chain": "return list(itertools.chain([a], [b]))[1].w * x",
    "get": "return {'k': b}.get('k').w * x",
    "a pattern of a mapping": """
        match {"k": b}:
            case {"k": o}: return o.w * x""",
    "a pattern of a class": """
        match b:
            case Thing(w=w): return w * x""",
    "a pattern of a sequence": """
        match objs:
            case [_, o]: return o.w * x""",
    "vars": "return vars(b)['w'] * x",
    "a dictionary of attributes": "return b.__dict__['w'] * x",
    "getattr of several names": "return sum(getattr(b, n) for n in ('w',)) * x",
    "getattr of a name that is computed": "return getattr(b, 'wv'[0]) * x",
    "globals": "return globals()['b'].w * x",
    "a namespace": "return types.SimpleNamespace(**{'o': b}).o.w * x",
    "methods that return self": "return Bag().add(a).add(b).total(x)",
    "a method before and after": """
        g = Bag(); g.add(a); y = g.total(x); g.add(b); return y + g.total(x)""",
    "a stack": """
        todo, y = [a], 0.0
        while todo:
            o = todo.pop(); y = y + o.w * x
            if o is a: todo.append(b)
        return y""",
    "a choice": "return (a if b.w > 100 else b).w * x",
    "a copy": "return copy.copy(b).w * x",
    "a deep copy": "return copy.deepcopy(b).w * x",
    "a partial": "return functools.partial(lambda o, x: o.w * x, b)(x)",
    "a list of functions": """
        f = [lambda x: a.w * x]; f.append(lambda x: b.w * x); return f[1](x)""",
    "a function that gets itself": """
        return (lambda f: f(f, 2))(lambda f, n: b.w * x if n == 0 else f(f, n - 1))""",
    "a class made inside": """
        class Local:
            def get(self): return b.w * x
        return Local().get()""",
    "a list known as a list": "l = [a]; return b.w * x if isinstance(l, list) else x",
}
# fmt: on


def function_of(text):
    lines = text.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    body = "\n    ".join(line[indent:] for line in lines)
    scope = {**globals(), **{m.__name__: m for m in MODULES}}
    exec(f"def f(x):\n    {body}", scope)
    return scope["f"]


@pytest.mark.parametrize("way", ["jit", "vectorize"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_of_an_object_is_seen(name, way):
    f = function_of(PROGRAMS[name])
    b.w = 3.0
    compiled = getattr(ftrace, way)(f)
    for w in (3.0, 3.0, 200.0):
        b.w = w
        np.testing.assert_allclose(compiled(X), f(X))


def method_of(o, x):
    return o.w * x


def calls(f, x):
    return f(x)


def read_b(x):
    return b.w * x


STATIC = {
    "an object": (method_of, b),
    "an object in a tuple": (lambda t, x: t[1].w * x, (a, b)),
    "a named tuple": (lambda pair, x: pair.p.w * x, Pair(b, 1)),
    "a function": (calls, read_b),
    "a bound method": (lambda get, x: get(x), types.MethodType(method_of, b)),
    "a partial": (calls, functools.partial(method_of, b)),
}


@pytest.mark.parametrize("way", ["jit", "vectorize", "checkpoint"])
@pytest.mark.parametrize("name", STATIC)
def test_a_change_of_a_static_argument_is_seen(name, way):
    f, known = STATIC[name]
    b.w = 3.0
    made = getattr(ftrace, way)(f, static_argnums=0)
    compiled = ftrace.jit(lambda x: made(known, x)) if way == "checkpoint" else None
    for w in (3.0, 3.0, 200.0):
        b.w = w
        found = made(known, X) if compiled is None else compiled(X)
        np.testing.assert_allclose(found, f(known, X))


def test_a_change_of_what_a_function_in_a_container_reads_is_seen():
    jitted = ftrace.jit(lambda d: d["f"](d["x"]))
    for w in (3.0, 200.0):
        b.w = w
        np.testing.assert_allclose(jitted({"f": read_b, "x": X}), w * X)

"""Small programs, each for a planted bug of the walk that no other test noticed.

As in `test_freshness_in_detail.py`: what stands outside, the function's body, a change.
"""

import pytest

from ftrace.control.guards import Watch
from tests.programs.test_freshness_in_detail import V, check_program

K = "K = np.array([2.0, 3.0, 4.0])\n"
NEW_K = "K[...] = [9.0, 7.0, 5.0]"
THINGS = "a, b = Thing(2.0), Thing(3.0)\n"
NEW_B = "b.w = 200.0"

KEYS = """k = 7.0
class Key:
    def __init__(s, v): s.v = v
    def __eq__(s, o): return s.v == o.v + k
    def __hash__(s): return 1
d = {(Key(15.0),): 2.0}; key = (Key(8.0),)
"""

# fmt: off
SEEN = {
    "a value of a dictionary that is added beside keywords": (
        THINGS + "store = {}", "store.update({'p': b}, o=a)\n"
        "try: return store['p'].w * x\nfinally: store.clear()", NEW_B),
    "what an operator of an array's own class reads": (
        "k = 2.0\nclass A(np.ndarray):\n"
        "    def __mul__(s, o): return k * np.asarray(s) * o\na = np.ones(3).view(A)",
        "return (a * 2.0)[0] * x", "k = 7.0"),
    "what items of an array's own class read": (
        "k = 2.0\nclass A(np.ndarray):\n    def __getitem__(s, i): return k\n"
        "a = np.ones(3).view(A)", "return a[0] * x", "k = 7.0"),
    "what keys in a tuple compare": (
        KEYS, "try: return d[key] * x\nexcept KeyError: return x", "k = 3.0"),
    "what keys in a tuple compare where a default is": (
        KEYS, "return d.get(key, 1.0) * x", "k = 3.0"),
    "what is compared to be found": (KEYS, "return x * 2.0 if key in d else x", "k = 3.0"),
    "an array that a method of an array gets": (
        K + "J = np.ones(3)", "return x * list(map(K.dot, [J]))[0]", "J[0] = 5.0"),
    "one side of an expression": (
        THINGS, "return (a if eval('0'.strip()) else b).w * x", NEW_B),
    "the other side of an expression": (
        THINGS, "return (b if eval('1'.strip()) else a).w * x", NEW_B),
    "an error of a group": (
        THINGS, "y = x\ntry: raise ExceptionGroup('', [KeyError(b)])\n"
        "except* KeyError as g: y = g.exceptions[0].args[0].w * x\nreturn y", NEW_B),
    "an array beside what is traced in one call only": (
        K + "L = [2.0]\ndef g(v, *k): return (K * v).sum()",
        "return ftrace.grad(g)(x, L, g) + sum(map(g, L))", NEW_K),
    "an array beside what a call makes of nothing": (
        K, "def g(v): return (K * v).sum()\nreturn g(x) + g(np.prod([]))", NEW_K),
    "an object that ftrace calls a function for": (
        THINGS + "def g(v, w): return b",
        "return ftrace.tree_util.tree_reduce(g, [x, x]).w * x", NEW_B),
    "an object that a function gives that a library wraps": (
        THINGS + "g = functools.singledispatch(lambda v: b)",
        "return ftrace.tree_util.tree_map(g, [x])[0].w * x", NEW_B),
    "an item of an auxiliary result": (
        "d = {'w': 3.0}\ndef g(v): return v, d",
        "return ftrace.value_and_grad(g, has_aux=True)(x)[0][1]['w'] * x", "d['w'] = 7.0"),
    "what is computed of an array that is an auxiliary result": (
        K + "def g(v): return 2 * v, K",
        "return ftrace.value_and_grad(g, has_aux=True)(x)[0][1].sum() * x", NEW_K),
    "an attribute that a function made here has as all have it": (
        "d = {'w': 3.0}", "def g(v): return v\ng.__doc__ = d\nreturn g.__doc__['w'] * x",
        "d['w'] = 7.0"),
    "an attribute that a getter outside gets": (
        THINGS + "get = operator.attrgetter('w')", "return get(b) * x", NEW_B),
    "an element of an array among the results": (K, "return x, K[1]", NEW_K),
    "a name that the function writes": (
        THINGS + "c = a", "global c\nc = b\ntry: return c.w * x\nfinally: c = a", NEW_B),
    "the first item of a dictionary": (
        THINGS, "d = {'p': b, 'q': a}; return d['p'].w * x", NEW_B),
    "an object in a text of a computed width": (
        "k = 2.0; n = 8\nclass A:\n    def __format__(s, spec): return format(k, spec)\na = A()",
        "return x * float(f'{a:{n}}')", "k = 5.0"),
    "the function that gives the items that a dictionary lacks": (
        "k = 2.0; d = collections.defaultdict(lambda: k)", "return x * d.default_factory()",
        "k = 5.0"),
    "what an operator of an object gives": (
        THINGS + "class A:\n    def __add__(s, o): return b\nc = A()",
        "return (c + 1).w * x", NEW_B),
    "an error that is raised after it could be caught": (
        THINGS + "def fail(): raise KeyError(b)",
        "try: y = eval('fail'.strip())()\nexcept KeyError as e: y = e.args[0].w * x\n"
        "try: fail()\nexcept KeyError: return y", NEW_B),
    "what the last of many functions reads": (
        "k = 2.0\n" + "\n".join(f"def h{i}(x): return h{i + 1}(x)" for i in range(50))
        + "\ndef h50(x): return x * k", "return h0(x)", "k = 5.0"),
    "an item of a dictionary that another takes in": (
        THINGS + "named = {'p': b}", "return {**named, 'q': a}['p'].w * x", NEW_B),
    "a default of a function made inside": (
        THINGS, "def g(y, o=b): return o.w * y\nreturn g(x)", NEW_B),
    "a branch after a call": (
        THINGS + "def one(v): return v",
        "y = one(x)\nreturn (b if eval('1'.strip()) else a).w * y", NEW_B),
    "what stands before a generator that another takes over": (
        THINGS + "def items():\n    yield 1\n    return 2\n"
        "def read():\n    o = (b, (yield from items()))[0]\n    yield o.w",
        "return list(read())[1] * x", NEW_B),
    "attributes that change places in a loop": (
        THINGS, "g, h = Thing(b), Thing(a)\nfor i in (1,): g.w, h.w = h.w, g.w\nreturn h.w.w * x",
        NEW_B),
    "an object of an array of objects": (
        THINGS + "objects = np.array([a, b], dtype=object)", "return objects[0].w * x",
        "objects[0] = Thing(200.0)"),
    "what is true or not": (
        THINGS, "t = b if eval('1'.strip()) else a\nreturn (t or a).w * x", NEW_B),
    "an attribute of a function made inside": (
        THINGS, "def g(): pass\ng.o = b\nreturn g.o.w * x", NEW_B),
    "an attribute of a transformed function": (
        THINGS, "g = ftrace.checkpoint(lambda v: v)\ng.o = b\nreturn g.o.w * x", NEW_B),
    "an array that a function gets in each turn, also without anything traced": (
        K + "def g(v): return (K * v).sum()",
        "y, v = 0.0, 2.0\nfor i in range(2):\n    y = y + g(v)\n    v = x\nreturn y", NEW_K),
    "a slice with known ends": (
        THINGS + "things = [b, a]", "return things[0:1][0].w * x", NEW_B),
    "a list that grows after a library got it": (
        THINGS, "y, acc = 0.0, []\nfor i in range(2):\n"
        "    for t in zip(acc, acc): y = y + t[0].w * x\n    acc.append(b)\nreturn y", NEW_B),
    "a mask": (
        "K = np.ma.array([1.0, 2.0], mask=[False, False])", "return x * K.sum()",
        "K[0] = np.ma.masked"),
    "a list that holds itself": (
        THINGS + "things = [b]\nthings.append(things)", "return list(zip(things))[0][0].w * x",
        NEW_B),
    "what stands behind a question for None": (
        THINGS + "n = None", "if n is None: return b.w * x\nreturn x", NEW_B),
    "what stands behind a question for another than None": (
        THINGS + "n = 1", "if n is not None: return b.w * x\nreturn x", NEW_B),
    "a function in a list that grows after a library got it": (
        THINGS + "def of_b(): return b.w",
        "y, acc = 0.0, []\nfor i in range(2):\n"
        "    for w in map(lambda g: g(), acc): y = y + w * x\n    acc.append(of_b)\nreturn y",
        NEW_B),
    "what a function gets from a second library call": (
        THINGS + "def read(o): return o.w",
        "return (sum(map(read, [a])) + sum(map(read, [b]))) * x", NEW_B),
    "what a dictionary outside is filled with": (
        THINGS + "store = {}",
        "store.update({'o': b})\ntry: return store['o'].w * x\nfinally: store.clear()", NEW_B),
    "what a library's wrapper of a function of the user's reads": (
        THINGS + "@contextlib.contextmanager\ndef at(o): yield o.w",
        "for c in map(at, [b]):\n    with c as w: return w * x", NEW_B),
    "a keyword that a dictionary outside is filled with": (
        THINGS + "store = {}",
        "store.update({'p': a}, o=b)\ntry: return store['o'].w * x\nfinally: store.clear()",
        NEW_B),
    "what a function that calls itself returns to itself": (
        THINGS + "def last(found):\n    if found: return b\n    found.append(1)\n"
        "    o = last(found)\n    found.append(o.w)",
        "found = []\nlast(found)\nreturn found[1] * x", NEW_B),
    "what a generator outside gets": (
        THINGS + "def read():\n    o = yield 1\n    yield o.w",
        "i = read(); next(i); return i.send(b) * x", NEW_B),
    "a question after a write at a computed place": (
        THINGS + "store = {}",
        "store['xo'[1:]] = 1\ntry: return b.w * x if 'o' in store else x\n"
        "finally: store.clear()", NEW_B),
    "a list of numbers that an object is put into": (
        THINGS, "acc = [1, 2]\nacc.append(b)\nreturn acc[2].w * x", NEW_B),
    "an array beside the answer to a question": (
        K + "def g(v): return (K * v).sum()\nt = (1.0, 2.0)", "return g(x) + g(2.0 in t)", NEW_K),
    "a list of functions that grows after a library got it": (
        THINGS + "def times_b(x): return b.w * x",
        "y, acc = 0.0, []\nfor i in range(2):\n"
        "    if acc: y = y + ftrace.lax.switch(0, acc, x)\n    acc.append(times_b)\nreturn y",
        NEW_B),
    "an attribute called `code` of a function made inside": (
        THINGS, "def g(): pass\ng.code = b\nreturn g.code.w * x", NEW_B),
}
UNSEEN = {
    "the state of a generator in a list that is copied": (
        "import copy\nr = np.random.default_rng(0)\nL = [r, 2.0]",
        "M = copy.copy(L)\nreturn x", "r.random()"),
    "another item of a list in a list": (
        "L = [1.0, 2.0]", "acc = []; acc.append(L)\nreturn acc[0][0] * x", "L[1] = 5.0"),
    "the branch of what is negated": (
        "flag, k = True, 1.0", "off = not flag\nif off: return x * k\nreturn x * 2", "k = 5.0"),
    "beside what a bounded queue holds": (
        K, "y = 0.0\nfor v in collections.deque([x, x], 2): y = y + K * v\nreturn y", NEW_K),
    "beside what a list is filled with": (
        K, "L = []\nL.append(x)\ny = 0.0\n"
        "for i in range(2): y = y + (K * np.stack(L)).sum()\nreturn y", NEW_K),
    "beside one of four objects of a class": (
        K, "a, b, c, d, e = Thing(1.0), Thing(1.0), Thing(1.0), Thing(x), Thing(1.0)\n"
        "y = 0.0\nfor i in range(2): y = y + K * d.w\nreturn y", NEW_K),
    "another attribute than that of a name": (
        "m = types.SimpleNamespace(w=2.0, v=1.0)", "return x * getattr(m, 'w')", "m.v = 5.0"),
    "beside an item of a dictionary": (
        K + "n, m = 'p', 'q'",
        "d = {n: x, m: x}\ny = 0.0\nfor i in range(2): y = y + K * d[n]\nreturn y", NEW_K),
    "in a function beside what is not known": (
        K + "def g(v): return K * v", "return g(eval('lambda v: v'.strip())(x))", NEW_K),
    "beside an item of a dictionary that a comprehension makes": (
        K, "d = {n: x for n in ('p', 'q')}\n"
        "y = 0.0\nfor i in range(2): y = y + K * d['p']\nreturn y", NEW_K),
    "in a compiled function that gets numbers, too": (
        K + "g = ftrace.jit(lambda v, w: K * v)",
        "y = 0.0\nfor i in range(2): y = y + g(x, 2.0)\nreturn y", NEW_K),
}
# fmt: on


@pytest.mark.parametrize("name", SEEN)
def test_a_change_is_seen(name: str) -> None:
    check_program(*SEEN[name])


@pytest.mark.parametrize("name", UNSEEN)
def test_what_a_call_does_not_read_costs_no_trace(name: str) -> None:
    check_program(*UNSEEN[name], V, again=False)


class Loud:
    """Tells when its operator is called."""

    calls = 0

    def __radd__(self, other: float) -> float:
        Loud.calls += 1
        return other

    def __eq__(self, other: object) -> bool:
        Loud.calls += 1
        return self is other

    def __hash__(self) -> int:
        return 1


def test_no_operator_of_the_users_is_called_by_the_walk() -> None:
    loud = Loud()
    table, key = {(Loud(),): 2.0}, (Loud(),)
    Watch(lambda x: x * (2.0 + loud))
    Watch(lambda x: x * table.get(key, 3.0))
    Watch(lambda x: x * table[key])
    assert Loud.calls == 0

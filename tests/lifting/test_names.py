"""What statements store, load and need of local names, and how they end."""

import ast

import pytest

from ftrace.lifting.state import names
from ftrace.lifting.state.names import BREAK, CONTINUE, NEXT, RAISE, RETURN, Liveness

JUMPS = {BREAK: frozenset("B"), CONTINUE: frozenset("C"), RAISE: frozenset("R")}


def parsed(text):
    return ast.parse(text).body


NEEDED = {
    "x = y": "ay",
    "a = y": "y",
    "a, (x, *a) = a": "a",
    "x[a] = y": "axy",
    "a: int = y": "inty",
    "a: int": "aint",
    "a += y": "ay",
    "del a": "a",
    "a = x; a = y": "xy",
    "if t:\n    a = y\nelse:\n    x = z": "atyz",
    "if t:\n    a = y\nelse:\n    a = z": "tyz",
    "if t:\n    return y": "aty",
    "return y": "y",
    "raise y": "Ry",
    "break": "B",
    "continue": "C",
    "x = y; break; x = z": "By",
    "with m() as (a, x): y = x": "m",
    "with m(y): a = z": "myz",
    "def a(u=d): return u + y": "duy",
    "def a(): return a + y": "ay",
    "def g(): return y": "ay",
    "@d\nclass a(y): pass": "dy",
    "for x in y: a = x": "ay",
    "for a in y: pass": "ay",
    "for [a, x] in y: z = x": "ay",
    "for x in y: z = x": "ay",
    "for x in y: z = z + x\nelse: a = w": "wyz",
    "for x in y:\n    if x: break\n    if z: continue\n    w = q\nelse: a = 0": "aqyz",
    "for x in y:\n    if z: raise e\n    return w": "Raewyz",
    "while t: a = y": "aty",
    "while t:\n    v = u\n    u = y\n    a = v": "atuy",
    "while True: x = y": "y",
    "while True:\n    if t: break": "at",
    "while t: pass\nelse: a = y": "ty",
    "[a, x] = y": "y",
    "try: x = y\nexcept E: break\nfinally: z = w": "aBERwy",
    "try: x = y\nexcept E as x: z = x": "aERy",
    "try: x = y\nexcept E: a = w\nelse: a = z": "ERwyz",
    "try: pass\nexcept: a = y": "aRy",
    "match y:\n    case x if x + z: z = x + w": "awyz",
    "async def g():\n    while y: break": "ay",
    "match y:\n    case 0: continue\n    case z: x = w": "aCwy",
}


@pytest.mark.parametrize("text", NEEDED)
def test_the_names_that_statements_need(text):
    found = Liveness(JUMPS).before(parsed(text), frozenset("a"))
    assert {c for name in found for c in name} == set(NEEDED[text])


def test_what_is_always_needed_is_needed_before_and_after_each():
    live = Liveness({}, frozenset("h")).within({BREAK: frozenset("B")}, frozenset("k"))
    stmts = parsed("a = y; x = z; break")
    assert live.before(stmts, frozenset("a")) == set("Byzhk")
    assert live.afters(stmts, frozenset("a")) == [set("Bzhk"), set("Bhk"), set("ahk")]


@pytest.mark.parametrize(
    ("text", "stored", "loaded"),
    [
        ("x, *y = z", "xy", "z"),
        ("x.u[v] = w", "", "xvw"),
        ("x += y", "x", "xy"),
        ("del x", "x", "x"),
        ("import x.y, z as w", "xw", ""),
        ("from x import y as z", "z", ""),
        ("@d\ndef f(u=(v := 1)): w = x", "f", "dx"),
        ("@(d := e)\nclass f: u = x", "fd", "ex"),
        ("(lambda u: (v := x))", "", "x"),
        ("x.u += y", "", "xy"),
        ("[y := x for x in z]", "y", "z"),
        ("match x:\n    case [u, *v]: pass\n    case {0: w, **y} as z: pass", "uvwyz", "x"),
        ("try: pass\nexcept E as x: pass", "x", "E"),
        ("def f():\n    nonlocal x\n    x = 1", "f", "x"),
        ("for x in y: z = w", "xz", "yw"),
        ("with x as y: z = 1", "yz", "x"),
    ],
)
def test_the_names_that_statements_store_and_load(text, stored, loaded):
    assert names.stores(parsed(text)) == set(stored)
    assert names.loads(parsed(text)) == set(loaded)


@pytest.mark.parametrize(
    ("text", "exits", "completes"),
    [
        ("x = y", [], True),
        ("return y", [RETURN], False),
        ("if x: return y", [RETURN], True),
        ("if x: return y\nelse: raise z", [RETURN], False),
        ("if x: y = z\nelse: return y", [RETURN], True),
        ("while z: x = y", [], True),
        ("if x: break\nelse: continue", [BREAK, CONTINUE], False),
        ("for x in y: break", [], True),
        ("for x in y:\n    return x\nelse: break", [RETURN, BREAK], True),
        ("while True: continue", [], False),
        ("while True:\n    if x: break", [], True),
        ("while x: return y", [RETURN], True),
        ("with x: return y", [RETURN], False),
        ("def f(): return y", [], True),
        ("class f:\n    return", [], True),
        ("try: return x\nexcept E: pass", [RETURN], True),
        ("try: return x\nexcept E: break", [RETURN, BREAK], False),
        ("try: pass\nexcept E: break\nelse: continue", [BREAK, CONTINUE], False),
        ("try: pass\nfinally: return x", [RETURN], False),
        ("match x:\n    case 0: return y\n    case 1: break", [RETURN, BREAK], True),
    ],
)
def test_how_statements_end(text, exits, completes):
    assert names.exits(parsed(text)) - {RAISE} == set(exits)
    assert names.completes(parsed(text)) is completes


def test_the_names_that_are_written_in_place():
    (function,) = parsed("def f():\n    x[0][1] = y\n    z += 1\n    u.v[w] = 1\n    t.s = q[0]")
    assert names.written(function) == set("xz")


def test_reflection_reads_every_name():
    (function,) = parsed("def f(x):\n    y = g.h(x)\n    z = eval('y')\n    return z")
    names.note_reflection(function, frozenset("xyz"))
    live = Liveness({RETURN: names.NONE, NEXT: names.NONE})
    assert live.afters(function.body, names.NONE)[0] == {"x", "y", "z", "eval"}
    assert live.before(function.body[:1], names.NONE) == {"g", "x"}


@pytest.mark.parametrize(
    ("text", "late"),
    [
        ("r = xs[i]\ny = r[0]\nxs[0] = 1", set()),
        ("r = xs[i]\nxs[0] = 1\ny = r[0]", {("r", 1)}),
        ("r = xs[i]\nxs[0] = r[0]", set()),
        ("r = xs[i]\nxs[0] = 1\nr = xs[j]\ny = r", {("r", 1)}),
        ("r = xs[i]\nf(xs)\ny = r", {("r", 1)}),
        ("r = xs[i]\nnp.sum(xs)\ny = r", set()),
        ("r = s = xs[i]\nxs.v = 2\ny = s", {("s", 1)}),
        ("while a:\n    y = r\n    r = xs[i]\n    xs[0] = 1", {("r", 3)}),
        ("r = list(xs[i])\nxs[0] = 1\ny = r", set()),
        ("r, s = xs[i]\nxs[0] = 1\ny = r", set()),
    ],
)
def test_items_whose_names_are_read_after_a_write(text, late):
    assert names.read_late(ast.parse(text)) == late

"""Random programs of jumps over containers: lists, dicts, objects and views with several names.

Decisions, loops, `try`, `break`, `continue` and early returns lie around statements that change
items, attributes and arrays, or bind a name to another container. Each program runs compiled and
mapped, on arguments that take many of its paths, against plain Python. Far smaller and quicker than
the programs of `modules.py`, and denser in what goes wrong between a jump and a change.

    python -m tests.fuzz.jumps --count 2000 --seed 0
"""

import itertools
import random
from typing import Any

import numpy as np

import ftrace
from ftrace.errors import FtraceError
from tests.fuzz.small import LOUD, command, indented, loaded

HEAD = """import numpy as np
from collections import deque
class Thing:
    def __init__(self, v): self.v = v
    def step(self, q):
        if q > 1: self.v += q
        else: self.v -= 1
"""
START = (
    "a = 1.0; s = r = {list}; o = u = Thing(0.5); c = d = {{'k': 1.0}}; w = {array}; "
    "z = y = deque([0.5, 1.0], 2)"
)
RESULT = "(a, s[0], s[1], r[0], o.v, u.v, d['k'], c['k'], w, sum(d.values()), z[0], y[1])"
DECISIONS = (
    "x[0] > 0.1", "x[1] > 0.3", "a > 1.5", "a < 3", "s[0] > 2", "o.v > 1", "d['k'] < 2.5",
    "w[0] > 0.5", "a > s[1]", "c['k'] > 1.2", "(r[0] < 2 or x[1] > 0)", "u.v > 0.7",
)  # fmt: skip
CHANGES = (
    "a += 1", "a *= 1.5", "a = a - x[0]", "s[0] = a", "s[1] += 2", "o.v = a + 1", "o.v *= 2",
    "d['k'] = a", "d['k'] += 1", "w[0] += a", "w[1] = x[1]", "w = w * 2", "w = w.copy()",
    "s = [a, s[0]]", "o = Thing(a)", "d = {'k': s[1] * 1.0}", "a = s[0] + o.v",
    "v = w[:2]; v[1] += 1", "w[w > 1] = 0.5", "o.step(a)", "d['k'], a = a, d['k']",
    "r = s; r[0] = 3.0", "r = [9.0, 8.0]", "r[0] += 1", "c['k'] += 1", "c = {'k': a}", "c = d",
    "u = o", "u = Thing(4.0)", "u.v += 0.5", "r = s if a > 2 else r", "t = (s, d); t[0][1] += 3",
    "d['n'] = a", "d.setdefault('n', o.v)", "z.append(a)", "y.rotate(1)", "z[0] += o.v", "y = z",
    "z = deque([a, 3.0])", "a = z.pop(); z.append(a)",
)  # fmt: skip
CALLS = ("a += h(s, x)", "a = g(a)")
LOOPS = ("x", "range(3)", "w[:2]", "(1.0, 2.0)")
POINTS = [np.array(v) for v in itertools.product([-0.7, 0.4, 1.9], [-0.6, 0.5])]


class _Writer:
    """The statements of one program."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loops = 0

    def change(self, calls: bool) -> str:
        return self.rng.choice(CHANGES + CALLS if calls else CHANGES)

    def block(self, depth: int, loop: bool, result: str) -> list[str]:
        parts = (self.statement(depth, loop, result) for _ in range(self.rng.randint(1, 3)))
        return [line for part in parts for line in part]

    def nested(self, head: str, depth: int, loop: bool, result: str) -> list[str]:
        return [head, *indented(self.block(depth - 1, loop, result))]

    def maybe(self, chance: float, head: str, depth: int, loop: bool, result: str) -> list[str]:
        return self.nested(head, depth, loop, result) if self.rng.random() < chance else []

    def statement(self, depth: int, loop: bool, result: str) -> list[str]:
        kind, test = self.rng.random(), self.rng.choice(DECISIONS)
        around = depth, loop, result
        if depth <= 0 or kind < 0.4:
            return [self.change(result == RESULT)]
        if kind < 0.62:
            other = f"elif {self.rng.choice(DECISIONS)}:"
            return [
                *self.nested(f"if {test}:", *around),
                *self.maybe(0.2, other, *around),
                *self.maybe(0.4, "else:", *around),
            ]
        if kind < 0.78:
            self.loops += 1
            n, most = f"n{self.loops}", self.rng.randint(1, 3)
            heads = [f"for e in {self.rng.choice(LOOPS)}:"]
            if kind > 0.72:
                heads = [f"{n} = 0", f"while {n} < {most} and {test}:", f"    {n} += 1"]
            body = self.block(depth - 1, True, result)
            return [*heads, *indented(body), *self.maybe(0.25, "else:", *around)]
        if kind < 0.83:
            kinds = self.rng.choice(["ValueError", "(ValueError, KeyError)", "Exception"])
            raised = f"    raise {self.rng.choice(['ValueError', 'KeyError'])}"
            tried = [f"if {test}:", raised, *self.block(depth - 1, loop, result)]
            last = ["finally:", "    " + self.change(False)] if self.rng.random() < 0.3 else []
            return [
                *self.nested("try:", *around),
                *indented(tried),
                *self.nested(f"except {kinds}:", *around),
                *self.maybe(0.3, "else:", *around),
                *last,
            ]
        if kind < 0.92 or not loop:
            return [f"if {test}:", f"    {self.change(False)}", f"    return {result}"]
        return [f"if {test}:", f"    {self.rng.choice(['break', 'continue'])}"]


def program(seed: int) -> str:
    """The source of a program: a function `f` of an array of two."""
    writer = _Writer(seed)
    helper = writer.block(1, False, "s[0]")
    body = [
        line for _ in range(writer.rng.randint(2, 4)) for line in writer.block(3, False, RESULT)
    ]
    inner = writer.rng.choice(["nonlocal a; a += q", "s[1] = q", "o.v = q"])
    return "\n".join(
        [
            HEAD,
            "def h(s, x):",
            *indented([START.format(list="s", array="x * 1.0"), *helper, "return a + s[0]"]),
            "def f(x):",
            *indented([START.format(list="[1.0, 2.0]", array="np.zeros(3) + x[0]")]),
            *indented(["def g(q):", f"    {inner}", "    return q * 0.5", *body]),
            f"    return {RESULT}\n",
        ]
    )


def _differ(got: Any, expected: Any) -> bool:
    pairs = zip(got, expected, strict=True)
    return not all(np.allclose(np.asarray(a, float), np.asarray(b, float)) for a, b in pairs)


def check(seed: int, folder: str) -> str:
    """What a program gives: `right`, `refused` by name, `raises` in plain Python, or a finding."""
    f = loaded(program(seed), folder, f"jumps_{seed}").f
    try:
        expected = [f(x) for x in POINTS]
    except Exception:
        return "raises"
    jitted, refused = ftrace.jit(f), False
    try:
        for x, y in zip(POINTS, expected, strict=True):
            if _differ(found := jitted(x), y):
                return f"jit: {found}, not {y} at {x}"
    except LOUD:
        refused = True
    except FtraceError as error:
        return f"jit: {error!r}"
    try:
        found = ftrace.vmap(f)(np.stack(POINTS))
    except LOUD:
        return "refused"
    except FtraceError as error:
        return f"vmap: {error!r}"
    for i, y in enumerate(expected):
        if _differ([v[i] for v in found], y):
            return f"vmap: {[v[i] for v in found]}, not {y} at {POINTS[i]}"
    return "refused" if refused else "right"


if __name__ == "__main__":
    raise SystemExit(command(__doc__, program, check))

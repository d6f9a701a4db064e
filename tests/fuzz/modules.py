"""The whole text of a random program: captured objects, helpers, classes, `f`, and its calls.

Two modules, the second one `fuzz_helpers`, in one text with a line between them; what every
program has in common is put before them when they are loaded. Read next: `comparing.py`.
"""

from random import Random
from typing import NamedTuple

from tests.fuzz.writing import Name, Scope, Writer

BORDER = "# ------ fuzz_helpers.py"
# What stands in front of the two modules of every program.
PRELUDE = """\
import functools
import math

import ftrace
import numpy as np

import fuzz_helpers as helpers
from fuzz_helpers import *

STATIC = ()


def loss(kwargs, wrap=lambda h: h):
    return lambda *args: helpers.total(wrap(f)(*args, **kwargs))


def mapped(kwargs):
    return lambda *args: f(*args, **kwargs)


def with_rule(h):
    g = ftrace.custom_jvp(h)
    g.defjvp(lambda p, t: ftrace.jvp(h, p, t))
    return g


def change(k):
    pass


"""
PRELUDE_OF_HELPERS = """\
import math

import ftrace
import numpy as np

from tests.fuzz.modules import Point

H = 0.75


def total(result):
    return sum(map(weighed, ftrace.tree_util.tree_leaves(result)), 0.0)


def weighed(leaf):
    if getattr(leaf, "dtype", np.dtype(type(leaf))) != np.float64:
        return 0.0
    flat = np.ravel(leaf)
    return np.sum(flat * np.arange(1.0, 1.0 + flat.shape[0]))


def digest(*values):
    return sum(np.dot(np.ravel(v), 1.0 / np.arange(2.0, 2.0 + np.size(v))) for v in values)


class Config:
    def __init__(self, s, w, flag):
        self.s, self.w, self.flag = s, w, flag


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second


"""


class Point(NamedTuple):
    """A container among arguments and results; the same class in every load of a program."""

    w: object
    s: object


# Captured: (how it is made, its kind, what may happen to it between calls).
CAPTURED = {
    "G": ("G = 1.25", "s", ("G = -0.5", "G = 2", "G = -G")),
    "K": ("K = {V}", "v", ("K[0] = 2.0", "K = {V}", "K *= -1.0", "K[:] = K[::-1].copy()")),
    "KM": ("KM = {W}", "m", ("KM[0] = 0.5", "KM = {W}", "KM[:] = -KM", "KM.T[0] += 1.0")),
    "CFG.s": ("", "s", ("CFG.s = -0.75", "CFG.s = CFG.s + 1", "globals()['CFG'] = Config(0.3, {V}, True)")),
    "CFG.w": ("", "v", ("CFG.w = {V}", "CFG.w[-1] = 3.0", "CFG.w = CFG.w * 2.0")),
    "CFG.flag": ("", "b", ("CFG.flag = not CFG.flag", "CFG.flag = 1")),
    "D['k']": ("D = {{'k': 0.5, 'w': {V}}}", "s", ("D['k'] = -1.5", "D = {{'k': 2.0, 'w': {V}}}")),
    "D['w']": ("", "v", ("D['w'] = {V}", "D['w'][0] = -2.0")),
    "D.get('k', 1.0)": ("", "s", ("del D['k']; D['k'] = 0.1",)),
    "sum(LST)": ("LST = [0.5, 1.5]", "s", ("LST.append(1.0)", "LST[0] = -1.0", "LST = [2.0]")),
    "LST[-1]": ("", "s", ("LST.append(-0.4)", "LST[-1] = 0.9")),
    "len(LST) * 1.0": ("", "s", ("LST.append(0.0)", "LST.clear(); LST.append(3.0)")),
    "helpers.H": ("", "s", ("helpers.H = -2.0",)),
    "getattr(CFG, 's')": ("", "s", ("CFG.s = 0.1",)),
    "TABLE[0](0.5)": ("TABLE = [math.sin]", "s", ("TABLE[0] = math.cos", "TABLE.insert(0, abs)")),
    "scaled(0.5)": ("def scaled(q, by=2.0): return q * by", "s", ("scaled.__defaults__ = (3.0,)", "scaled = lambda q, by=2.0: q * 7.0", "scaled.__code__ = (lambda q, by: q - by).__code__")),
    "MODEL.s": ("", "s", ("MODEL.s = 2.5", "MODEL.s *= -1")),
    "MODEL.w": ("", "v", ("MODEL.w = {V}", "MODEL.w[0] = 4.0", "MODEL.w = MODEL.w + 1.0")),
    "MODEL.size": ("", "s", ("MODEL.w = MODEL.w * 0.5",)),
}  # fmt: skip
RETURNS = (
    "{s}", "{s}", "{v}", "{v}", "{m}", "({s}, {v})", "{'p': {v}, 'q': {s}}", "[{v}, {v}]", "({m}, {b})",
    "({s}, {i})", "({r}, ({s}, {s}))", "{'q': {t}, 'p': ({s}, {k})}", "Point({v}, {s})", "({v}, {z})",
)  # fmt: skip
STATIC = {
    "n": ("i", ("0", "1", "1")),
    "flag": ("b", ("True", "False", "True")),
    "mode": ("-", ("'up'", "'down'", "'up'")),
}
WRAPS = ("lambda h: h", "ftrace.jit", "ftrace.checkpoint", "ftrace.jit", "with_rule")


def literal(rng: Random, *shape: int) -> str:
    """A nested list of numbers with two digits."""
    if not shape:
        return str(round(rng.uniform(-2, 2), 2))
    return "[" + ", ".join(literal(rng, *shape[1:]) for _ in range(shape[0])) + "]"


class Module(Writer):
    """Writes a program."""

    def text(self, scalar: bool) -> str:
        """Both modules; a `scalar` program has numbers for arguments and results."""
        captured = self.captures(scalar)
        self.helper_lines: list[str] = []
        unit = self.unit_class()
        callees = [self.helper(i) for i in range(self.rng.randint(0, 2))]
        main = self.main(scalar, captured, callees)
        made = [CAPTURED[n.text][0] for n in captured if CAPTURED[n.text][0]]
        roots = ["CFG = Config(0.25, {V}, True)", "MODEL = Unit({V}, 0.5)"]
        every = {m.split(" ")[0]: m for m in made}
        needed = {"D": "D['k']", "LST": "sum(LST)"}
        for name, key in needed.items():
            if any(name in n.text for n in captured):
                every[name] = CAPTURED[key][0]
        head = [self.values(line) for line in (*roots, *every.values())]
        parts = [*head, "", *main, "", *self.changes(captured), "", BORDER]
        return "\n".join([*parts, *unit, "", *self.helper_lines, ""])

    def values(self, line: str) -> str:
        """A line with new arrays in the places of {V} and {W}."""
        while "{V}" in line or "{W}" in line:
            line = line.replace("{V}", f"np.array({literal(self.rng, self.N)})", 1)
            line = line.replace("{W}", f"np.array({literal(self.rng, self.M, self.N)})", 1)
        return line.replace("{{", "{").replace("}}", "}")

    def captures(self, scalar: bool) -> list[Name]:
        """What the program reads from outside."""
        count = self.rng.choice((0, 1, 1, 2, 3))
        arrays = [t for t in CAPTURED if CAPTURED[t][1] in "vm"] * 2
        chosen = {self.rng.choice((*CAPTURED, *arrays)): None for _ in range(count)}
        return [Name(t, CAPTURED[t][1], own=False, outer=True) for t in chosen]

    def changes(self, captured: list[Name]) -> list[str]:
        """`change(k)`: what happens to captured objects before the k-th call."""
        lines = ["def change(k):", "    global G, K, KM, CFG, D, LST, TABLE, scaled, MODEL"]
        for k in (1, 2):
            lines.append(f"    if k == {k}:")
            for name in captured:
                if self.rng.random() < 0.7:
                    what = self.values(self.rng.choice(CAPTURED[name.text][2]))
                    lines.append(f"        {what}")
            lines.append("        pass")
        return lines

    def function(self, header: str, scope: Scope, budget: int) -> list[str]:
        """The lines of a function: some statements and a result."""
        self.scope = scope
        scope.lines.append("    " * (scope.indent - 1) + header)
        for name in [n for n in scope.names if n.outer and n.kind in "vm"]:
            self.use(name)
        for _ in range(self.rng.randint(1, budget)):
            self.statement(2)
        result = self.result()
        live = [n.text for n in scope.names if n.kind in "svwurmtq" and n.plain]
        if budget > 3 and live:
            seen = self.rng.sample(live, min(len(live), 8))
            hole = scope.returns[scope.returns.index("{", scope.returns.startswith("{'")) :][:3]
            form = scope.returns.replace(hole, f"{hole} + helpers.digest({', '.join(seen)})", 1)
            result = self.fill(form, 1)
        self.put(f"return {result}")
        return scope.lines

    def unit_class(self) -> list[str]:
        """A class with state: a constructor, a method that changes it, a property, an operator."""

        def names() -> list[Name]:
            return [Name("self.w", "v"), Name("self.s", "s"), Name("q", "s", own=False)]

        def read() -> list[Name]:
            return [replace_own(n) for n in names()]

        def replace_own(name: Name) -> Name:
            return Name(name.text, name.kind, own=False)

        self.units = False
        lines = ["class Unit:", "    def __init__(self, w, s):", "        self.w, self.s = w, s"]
        self.scope = Scope(names(), indent=2)
        lines.append("    def step(self, q):")
        for _ in range(self.rng.randint(1, 2)):
            self.rng.choice((self.write, self.reassign, self.branch))(0)
        self.put("return {}".format(self.fill("{s}", 1)))
        lines += self.scope.lines
        lines.append("    @property")
        lines += self.function("def size(self):", Scope(read()[:2], indent=2), 1)
        lines += self.function("def __mul__(self, q):", Scope(read(), indent=2), 1)
        self.units = True
        return lines

    def helper(self, number: int) -> tuple[str, str, str]:
        """A function of the other module: how it is called, its parameters and its result."""
        kinds = self.rng.choice(("s", "v", "vs", "ms", "is"))
        kind = self.rng.choice("ssv")
        names = [Name(p, t, own=False) for p, t in zip("xy", kinds, strict=False)]
        name = f"h{number}"
        parameters = [n.text for n in names]
        if self.rng.random() < 0.3:
            parameters.append(self.rng.choice(("by=0.5", "*, by=0.5")))
            names.append(Name("by", "s", own=False))
        header = f"def {name}({', '.join(parameters)}):"
        self.helper_lines += self.function(header, Scope(names, f"{{{kind}}}"), 3)
        wrapped = self.rng.random() < 0.25
        return (f"WRAP(helpers.{name})" if wrapped else f"helpers.{name}"), kinds, kind

    def main(
        self, scalar: bool, captured: list[Name], callees: list[tuple[str, str, str]]
    ) -> list[str]:
        """`f`, the arguments of its calls, and what is static."""
        rng = self.rng
        kinds = rng.choice(
            ("s", "ss", "si", "sss")
            if scalar
            else ("v", "s", "vs", "vv", "m", "mv", "vsj", "mks", "P", "Ps", "iv", "vz", "vb", "t")
        )
        names, parameters, makers = [], [], []
        for name, kind in zip("xyz", kinds, strict=False):
            maker, found = self.argument(name, kind)
            names += found
            parameters.append(name)
            makers.append(f"    {name} = {maker}")
        static = rng.choice((*STATIC, "", "", ""))
        if static:
            parameters.append(f"{static}={STATIC[static][1][0]}")
            names.append(
                Name(
                    f"{static}" if static != "mode" else "(mode == 'up')",
                    "b" if static == "mode" else STATIC[static][0],
                    own=False,
                )
            )
        returns = rng.choice(("{s}", "({s}, {s})", "{'p': {s}}") if scalar else RETURNS)
        lines = [f"WRAP, COMPILE = ({rng.choice(WRAPS)}), {rng.random() < 0.25}"]
        lines.insert(0, f"CHECKED = {rng.random() < 0.5}")
        lines += [f"STATIC = {(static,) if static else ()!r}", ""]
        method = rng.random() < 0.1
        scope = Scope([*names, *captured], returns, callees=callees)
        if method:
            lines.append(
                "class Holder:\n    def __init__(self, w, s):\n        self.w, self.s = w, s\n"
            )
            scope.names += [
                Name("self.w", "v", own=False, outer=True),
                Name("self.s", "s", own=False, outer=True),
            ]
            lines += self.function(f"def f(self, {', '.join(parameters)}):", scope, 6)
            lines += [
                "",
                "Holder.call = f",
                self.values("HOLDER = Holder({V}, 0.5)"),
                "f = HOLDER.call",
            ]
        else:
            lines += self.function(f"def f({', '.join(parameters)}):", scope, 6)
        positional = ", ".join(p for p in parameters if "=" not in p)
        values = ", ".join(STATIC[static][1]) if static else ""
        keyword = f"{{'{static}': ({values})[k]}}" if static else "{}"
        return [*lines, "", "def arguments(k):", *makers, f"    return ({positional},), {keyword}"]

    def argument(self, name: str, kind: str) -> tuple[str, list[Name]]:
        """How an argument is made, and the names that it gives the function."""
        rng, n, m = self.rng, self.N, self.M

        def array(*shape: int) -> str:
            return f"np.array([{', '.join(literal(rng, *shape) for _ in range(3))}][k])"

        names = [Name(name, kind, own=False)]
        layouts = (
            "{}",
            "{}",
            "{}",
            "{}[::-1]",
            "np.repeat({}, 2, axis=-1)[..., ::2]",
            "np.asfortranarray({})",
            "{}.astype(np.float32)",
            "(lambda q: q[::-1].copy()[::-1] if k == 1 else q)({})",
        )
        if kind in "vmt":
            shape = {"v": (n,), "m": (m, n), "t": (n, m)}[kind]
            return rng.choice(layouts).format(array(*shape)), names
        if kind == "s":
            scalar = f"[{', '.join(literal(rng) for _ in range(3))}][k]"
            forms = (
                "{}",
                "{}",
                "np.float64({})",
                "np.array({})",
                "(float, np.array, np.float64)[k]({})",
            )
            return rng.choice(forms).format(scalar), names
        if kind in "ib":
            values = [
                str(rng.randrange(n)) if kind == "i" else str(rng.random() < 0.5) for _ in range(3)
            ]
            wrap = rng.choice(("{}", "np.int64({})" if kind == "i" else "np.bool_({})"))
            return wrap.format(f"[{', '.join(values)}][k]"), names
        if kind in "jk":
            rows = [
                [rng.randrange(n) if kind == "j" else rng.random() < 0.5 for _ in range(n)]
                for _ in range(3)
            ]
            return f"np.array({rows}[k])", names
        if kind == "z":
            return f"{array(n)} + 1j * {array(n)}", names
        return self.tree(name, array(n), array())

    def tree(self, name: str, w: str, s: str) -> tuple[str, list[Name]]:
        """An argument that is a container of an array and a number."""
        form, first, second = self.rng.choice([
            ("{{'w': {}, 's': {}}}", "['w']", "['s']"), ("[{}, {}]", "[0]", "[-1]"),
            ("({}, {})", "[0]", "[1]"), ("Point({}, {})", ".w", ".s"),
        ])  # fmt: skip
        found = [
            Name(name + first, "v", own=False, outer=True),
            Name(name + second, "s", own=False, outer=True),
        ]
        return form.format(w, f"float({s})"), found


def program(seed: int, number: int) -> str:
    """The text of one program."""
    rng = Random(f"{seed}:{number}")
    return Module(rng).text(scalar=rng.random() < 0.2)

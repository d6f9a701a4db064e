"""Writes one random program: a module's text, and that of the module of helpers beside it.

A program defines `f`, `arguments(k)` of its k-th call, `change(k)`, what happens to captured
objects before that call, and `STATIC`, the names of static arguments. It is right by construction
that plain Python runs it: sizes fit, loops end, arrays of the caller are not written. The same
seed gives the same text. Read next: `checking.py`.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from random import Random

from tests.fuzz.grammar import (
    ARRAYS,
    FRESH_TEMPLATES,
    LAID_TEMPLATES,
    LEAVES,
    SHARED_TEMPLATES,
    WRITE_TEMPLATES,
)

HOLE = re.compile(r"\{(\w)\}")
# What needs a rewritten function where a number or an element is traced.
REWRITTEN = re.compile(
    r"math|float\(|int\(|item\(|out=np|np\.(array|full|fromiter|linspace)\(|np\.(zeros|ones)\(.*\)$"
)


def natives(table: dict[str, list[str]]) -> dict[str, list[str]]:
    """The templates that run on tracers as they are."""
    return {
        kind: [t for t in templates if kind in "qkgj" or not REWRITTEN.search(t)]
        for kind, templates in table.items()
    }


@dataclass
class Name:
    """A readable place: a variable, or `box[0]`, `state.w`; `own`: no caller's memory is in it."""

    text: str
    kind: str
    own: bool = True
    outer: bool = False  # a variable of the function around

    @property
    def plain(self) -> bool:
        """Whether the place is a variable of this function, and no element or attribute."""
        return self.text.isidentifier() and not self.outer


@dataclass
class Scope:
    """What a function's writer knows: the names in reach, and where it writes."""

    names: list[Name]
    returns: str = "{s}"
    loops: int = 0
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    escapes: bool = True  # `return` may be written here
    callees: list[tuple[str, str, str]] = field(default_factory=list)  # text, arguments, result


class Writer:
    """Fills templates for one program."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.N, self.M = rng.choice((2, 3, 3, 4)), rng.choice((1, 2, 2, 3))
        self.count = 0
        self.units = True  # objects may be made
        self.native = rng.random() < 0.2  # nothing that Python or NumPy cannot do with tracers
        self.fresh_templates, self.shared_templates, self.write_templates = (
            natives(table) if self.native else table
            for table in (FRESH_TEMPLATES, SHARED_TEMPLATES, WRITE_TEMPLATES)
        )
        self.scope = Scope([])

    # ------------------------------------------------------------------------------ expressions

    def expression(self, kind: str, depth: int = 2) -> tuple[str, bool]:
        """Text of an expression, and whether its memory is the function's own."""
        names = [n for n in self.scope.names if n.kind == kind]
        if names and (depth <= 0 or self.rng.random() < 0.3):
            name = self.rng.choice(names if self.rng.random() < 0.4 else names[-2:])
            return name.text, name.own
        if depth <= 0:
            return self._leaf(kind)
        calls = [c for c in self.scope.callees if c[2] == kind]
        if calls and self.rng.random() < 0.25:
            text, arguments, _ = self.rng.choice(calls)
            return f"{text}({', '.join(self.fill(f'{{{a}}}', depth) for a in arguments)})", False
        shared = self.shared_templates.get(kind)
        if shared and self.rng.random() < (0.08 if kind == "s" else 0.35):
            return self._filled(self.rng.choice(shared), depth)
        return self.fill(self.rng.choice(self.fresh_templates[kind]), depth), True

    def _leaf(self, kind: str) -> tuple[str, bool]:
        text, own = self._filled(LEAVES[kind], 0)
        return text, own or "{s}" in LEAVES[kind]

    def _filled(self, template: str, depth: int) -> tuple[str, bool]:
        own = True

        def part(match: re.Match[str]) -> str:
            nonlocal own
            text, mine = self._part(match[1], depth - 1)
            own = own and (mine or match[1] not in ARRAYS)
            return text

        return HOLE.sub(part, template), own

    def fill(self, template: str, depth: int = 2) -> str:
        """A template with all its holes filled."""
        return self._filled(template, depth)[0]

    def _part(self, hole: str, depth: int) -> tuple[str, bool]:
        if hole in "NM":
            return str(getattr(self, hole)), True
        if hole in "IJ":
            return str(self.rng.randrange(self.N if hole == "I" else self.M)), True
        if hole in "cC":
            return str(self.rng.choice((0.5, 0.7, -0.3, 1.5, 2.0, -1.25, 0.25))), True
        text, own = self.expression(hole, depth)
        simple = re.fullmatch(r"[\w.]+(\([^()]*\))?(\[[^][]*\])*|\([^()]*\)", text)
        return (text if simple else f"({text})"), own

    # ------------------------------------------------------------------------------ statements

    def put(self, line: str) -> None:
        """Write a line at the current depth."""
        self.scope.lines.append("    " * self.scope.indent + line)

    def fresh(self, prefix: str = "a") -> str:
        """A name not used before."""
        self.count += 1
        return f"{prefix}{self.count}"

    def bind(self, text: str, kind: str, own: bool = True) -> Name:
        """Make a name known."""
        name = Name(text, kind, own)
        self.scope.names.append(name)
        return name

    @contextmanager
    def block(self, header: str, *, loop: bool = False) -> Iterator[None]:
        """A nested block: names born in it are forgotten after it."""
        self.put(header)
        before, callees = list(self.scope.names), list(self.scope.callees)
        self.scope.indent += 1
        self.scope.loops += loop
        length = len(self.scope.lines)
        yield
        if len(self.scope.lines) == length:
            self.put("pass")
        self.scope.loops -= loop
        self.scope.indent -= 1
        self.scope.names, self.scope.callees = before, callees

    def body(self, budget: int) -> None:
        """Some statements."""
        for _ in range(self.rng.randint(1, max(1, budget))):
            self.statement(budget - 1)
        if self.rng.random() < 0.5:
            self.effect(budget)

    def effect(self, budget: int) -> None:
        """A statement that is seen outside of its block."""
        (self.write if self.rng.random() < 0.6 else self.reassign)(budget)

    def statement(self, budget: int) -> None:
        """One statement, simple where the budget is used up."""
        simple: list[tuple[int, Callable[[int], None]]] = [
            (4, self.assign), (5, self.view), (6, self.write), (2, self.reassign),
            (2, self.container), (1, self.swap), (2, self.choose), (3, self.lay),
            (1, self.constant),
        ]  # fmt: skip
        nested: list[tuple[int, Callable[[int], None]]] = [
            (6, self.branch), (3, self.counted), (2, self.over_items), (2, self.repeat),
            (2, self.attempt), (1, self.match), (1, self.closure), (1, self.unit),
            (1, self.factory),
        ]  # fmt: skip
        if self.native:
            nested = [(w, m) for w, m in nested if m not in (self.attempt, self.unit)]
        kinds = simple + (nested if budget > 0 and self.scope.indent < 4 else [])
        if self.scope.indent > 1:
            kinds.append((1, self.leave))
        if self.scope.loops:
            kinds.append((5, self.interrupt))
        if self.rng.random() < 0.01:
            kinds = [(1, self.fail)]
        weights, makers = zip(*kinds, strict=True)
        self.rng.choices(makers, weights)[0](budget)

    def assign(self, budget: int, kinds: str = "sssvvvmmwikzrq") -> None:
        """A new name for a new value."""
        kind = self.rng.choice(kinds)
        text, own = self.expression(kind, 2)
        name = self.fresh()
        self.put(f"{name} = {text}")
        self.bind(name, kind, own)

    def use(self, source: Name) -> None:
        """A new name for a value that another array of the same type goes into as well."""
        hole = f"{{{source.kind}}}"
        found = [t for t in self.fresh_templates[source.kind] if t.count(hole) > 1]
        template = self.rng.choice([f"{hole} * {hole}", self.rng.choice(found)])
        name = self.fresh()
        self.put(f"{name} = {self.fill(template.replace(hole, source.text, 1), 1)}")
        self.bind(name, source.kind)

    def view(self, budget: int) -> None:
        """A new name for what may share memory with another."""
        arrays = [n for n in self.scope.names if n.kind in "vmrtz"]
        if not arrays:
            return self.assign(budget, "vm")
        source = self.rng.choice(arrays)
        found = [
            (k, t)
            for k, ts in self.shared_templates.items()
            for t in ts
            if t.count("{" + source.kind) == 1
        ]
        kind, template = self.rng.choice(found)
        text, own = self._filled(template.replace(f"{{{source.kind}}}", source.text, 1), 1)
        name = self.fresh()
        self.put(f"{name} = {text}")
        target = self.bind(name, kind, own and source.own)
        if target.own and kind in WRITE_TEMPLATES and self.rng.random() < 0.3:
            self.write_into(target)  # whether it is a view is seen by a write alone
        return None

    def lay(self, budget: int) -> None:
        """A new array in some order, and a write into what may be a view of it."""
        name = self.fresh()
        self.put(self.fill(f"{name} = {self.rng.choice(LAID_TEMPLATES)}", 1))
        self.bind(name, "m")
        forms = (
            ("r", "{0}.ravel() {0}.reshape(-1) {0}.T.reshape(-1) {0}.ravel('F') {0}.ravel('K')"),
            ("m", "np.ascontiguousarray({0}) np.asfortranarray({0}) np.asarray({0},order='F')"),
            ("t", "np.ascontiguousarray({0}.T) {0}.reshape({1},{2})"),
        )
        kind, texts = self.rng.choices(forms, (6, 3, 2))[0]
        view = self.fresh()
        self.put(f"{view} = {self.rng.choice(texts.split()).format(name, self.N, self.M)}")
        self.write_into(self.bind(view, kind))

    def constant(self, budget: int) -> None:
        """A plain array that is used, and written after that."""
        name = self.fresh()
        self.put(self.fill(f"{name} = {self.rng.choice(self.fresh_templates['q'])}", 1))
        plain, result = self.bind(name, "q"), self.fresh()
        form = self.rng.choice(
            ("{v} * #", "np.sin({v}) * #", "# - {v}", "{m} * #", "{v} / (2.0 + # * #)")
        )
        self.put(self.fill(f"{result} = {form.replace('#', name)}", 1))
        self.bind(result, "m" if "m" in form else "v")
        self.write_into(plain)

    def write(self, budget: int) -> None:
        """A write into an array of the function's own."""
        arrays = [n for n in self.scope.names if n.own and n.kind in WRITE_TEMPLATES]
        if not arrays:
            return self.assign(budget, "vm")
        return self.write_into(self.rng.choice(arrays))

    def write_into(self, target: Name) -> None:
        """A write into this array."""
        template = self.rng.choice(self.write_templates[target.kind])
        if target.outer and re.match(r"\{a\} ?\S*= ", template):
            template = template.replace("{a}", "{a}[...]", 1)
        self.put(self.fill(template.replace("{a}", target.text), 1))

    def reassign(self, budget: int) -> None:
        """Another value for a name; an array may come from elsewhere from then on."""
        names = [n for n in self.scope.names if n.kind in "svm" and n.own and not n.outer]
        if not names:
            return self.assign(budget)
        target = self.rng.choice(names)
        if target.kind == "s" and target.plain and self.rng.random() < 0.4:
            self.put(self.fill(f"{target.text} {self.rng.choice('+-*')}= {{s}}"))
            return None
        text, own = self.expression(target.kind, 1)
        if target.kind == "s" and not own:  # `+=` may come after this, in a loop even before it
            text, own = f"({text}) * 1.0", True
        again = self.scope.loops or any(c[0].startswith("inner") for c in self.scope.callees)
        if not own and again:  # what writes into it may run after this
            text, own = f"({text}).copy()", True
        self.put(f"{target.text} = {text}")
        target.own = target.own and own
        return None

    def swap(self, budget: int) -> None:
        """Two names exchanged."""
        kind = self.rng.choice("svm")
        names = [n for n in self.scope.names if n.kind == kind and n.plain and n.own]
        if len(names) < 2:
            return self.assign(budget)
        a, b = self.rng.sample(names, 2)
        self.put(f"{a.text}, {b.text} = {b.text}, {a.text}")
        return None

    def choose(self, budget: int) -> None:
        """One name bound on both sides of a decision, to views as well."""
        kind, name = self.rng.choice("vvmsu"), self.fresh()
        condition = self.fill("{b}", 1)
        own = []
        for header in (f"if {condition}:", "else:"):
            with self.block(header):
                if self.rng.random() < 0.2:
                    self.statement(0)
                text, mine = self.expression(kind, 1)
                if kind in "vm" and self.rng.random() < 0.5:
                    text, mine = self._filled(self.rng.choice(self.shared_templates[kind]), 1)
                self.put(f"{name} = {text}")
                own.append(mine)
        target = self.bind(name, kind, all(own))
        if target.own and kind in WRITE_TEMPLATES and self.rng.random() < 0.6:
            self.write_into(target)

    def container(self, budget: int) -> None:
        """Arrays in a list, dict, tuple or object, under two names then."""
        names = [n for n in self.scope.names if n.kind in "vms" and n.plain]
        if not names:
            return self.assign(budget)
        chosen, box = [self.rng.choice(names) for _ in range(2)], self.fresh("box")
        first, second = (n.text for n in chosen)
        if chosen[1].kind == "v" and self.rng.random() < 0.4:
            second += "[::-1]"
        form, paths = self.rng.choice([
            ("[{0}, {1}]", ("[0]", "[-1]")), ("({0}, {1})", ("[0]", "[1]")),
            ('{{"p": {0}, "q": {1}}}', ('["p"]', '["q"]')),
            ("Pair({0}, {1})", (".first", ".second")),
        ])  # fmt: skip
        self.put(f"{box} = {form.format(first, second)}")
        for path, source in zip(paths, chosen, strict=True):
            self.bind(box + path, source.kind, source.own and not form.startswith("("))
        return None

    def branch(self, budget: int) -> None:
        """`if` with or without other arms."""
        with self.block(f"if {self.fill('{b}')}:"):
            self.body(budget)
        if self.rng.random() < 0.25:
            with self.block(f"elif {self.fill('{b}', 1)}:"):
                self.body(budget)
        if self.rng.random() < 0.5:
            with self.block("else:"):
                self.body(budget)

    def match(self, budget: int) -> None:
        """`match` on a whole number."""
        self.put(f"match {self.fill('{i}', 1)}:")
        self.scope.indent += 1
        for pattern in ("0", "1 | 2", "_"):
            with self.block(f"case {pattern}:"):
                self.body(budget - 1)
        self.scope.indent -= 1

    def counted(self, budget: int) -> None:
        """A loop over numbers."""
        name = self.fresh("n")
        times = self.rng.choice(["2", "3", "{I}", "{i}", "len({v})", "1, {N}", "{N} - 1, -1, -1"])
        with self.block(f"for {name} in range({self.fill(times, 1)}):", loop=True):
            self.bind(name, "i" if "len" in times or "N" in times or "I" in times else "-")
            self.body(budget)
        self.otherwise(budget)

    def over_items(self, budget: int) -> None:
        """A loop over arrays, `zip` or `enumerate` of them, lists."""
        x, y = self.fresh("e"), self.fresh("e")
        header, kinds = self.rng.choice([
            (f"{x} in {{v}}", "s"), (f"{x} in {{m}}", "v"),
            (f"{x}, {y} in zip({{v}}, {{v}})", "ss"),
            (f"{x}, {y} in enumerate({{v}})", "is"), (f"{x}, {y} in zip({{w}}, {{m}})", "sv"),
            (f"{x} in [{{s}}, {{c}}]", "s"), (f"{x}, {y} in zip({{v}}, {{u}})", "ss"),
            (f"{x} in reversed({{v}})", "s"), (f"{x} in ({{v}}, {{v}})", "v"),
        ])  # fmt: skip
        with self.block(f"for {self.fill(header, 1)}:", loop=True):
            for name, kind in zip((x, y), kinds, strict=False):
                self.bind(name, kind, own=False)
            self.body(budget)
        self.otherwise(budget)

    def repeat(self, budget: int) -> None:
        """`while` that ends after three turns at the latest."""
        name = self.fresh("n")
        self.put(f"{name} = 0")
        form = self.rng.choice(
            [f"{name} < 3 and {{b}}", f"{{b}} and {name} < 2", f"{name} < {{s}}"]
        )
        if "{s}" in form:
            form = f"{name} < min({{s}}, 3)"
        with self.block(f"while {self.fill(form, 1)}:", loop=True):
            self.put(f"{name} += 1")
            self.body(budget)
        self.otherwise(budget)

    def otherwise(self, budget: int) -> None:
        """The `else` of a loop, sometimes."""
        depth = "    " * self.scope.indent
        turn = takewhile(lambda line: line.startswith(depth + " "), reversed(self.scope.lines))
        if self.rng.random() < (0.6 if any("break" in line for line in turn) else 0.1):
            with self.block("else:"):
                self.effect(budget)
                if self.rng.random() < 0.4:
                    self.body(budget - 1)

    def interrupt(self, budget: int) -> None:
        """`break` or `continue` under a condition."""
        with self.block(f"if {self.fill('{b}', 1)}:"):
            if self.rng.random() < 0.3:
                self.statement(0)
            self.put(self.rng.choice(("break", "break", "continue")))

    def leave(self, budget: int) -> None:
        """An early `return`."""
        if not self.scope.escapes:
            return self.assign(budget)
        with self.block(f"if {self.fill('{b}', 1)}:"):
            self.put(f"return {self.result()}")
        return None

    def result(self) -> str:
        """What the function returns: always the same containers."""
        return self.fill(self.scope.returns, 1)

    def attempt(self, budget: int) -> None:
        """`try` with `finally`, or with `except` for what Python or the program itself raises."""
        name = self.fresh()
        line, error = self.rng.choice([
            ("", ""), ("", ""), ("if {b}: raise ValueError('no')", "ValueError"),
            (f"{name} = math.log({{s}})", "ValueError"), ("assert {b}", "AssertionError"),
            (f"{name} = math.sqrt({{s}} - 1e-3)", "ValueError"),
            (f"{name} = float({{s}})", "TypeError"),
            (f"{name} = {{c}} / {{i}}", "ZeroDivisionError"),
            (f"{name} = [{{s}}, {{c}}][{{i}}]", "IndexError"),
        ])  # fmt: skip
        with self.block("try:"):
            if self.rng.random() < 0.5:
                self.body(budget - 1)
            self.put(self.fill(line, 1) or "pass")
        with self.block(f"except {error}:" if error else "finally:"):
            text, own = self.expression("s", 0)
            self.put(f"{name} = {text}")
            if self.rng.random() < 0.4:
                self.statement(0)
        if line.startswith(name) or not error:
            self.bind(name, "s", own and error != "IndexError")

    def fail(self, budget: int) -> None:
        """An error that the caller gets."""
        with self.block(f"if {self.fill('{b}', 1)}:"):
            self.put("raise ValueError('no')")

    def closure(self, budget: int) -> None:
        """A function inside that reads, rebinds or writes what is around it, and a call of it."""
        name, kind, around = self.fresh("inner"), self.rng.choice("ssv"), self.scope
        scalars = [n.text for n in around.names if n.kind == "s" and n.plain and n.own]
        names = [replace(n, outer=True) for n in around.names if n.kind != "s"]
        default = self.rng.choice(("", "", "by={s}", "by={v}"))
        self.put(f"def {name}({self.fill(', '.join(filter(None, ('q', default))), 1)}):")
        self.scope = Scope(names, f"{{{kind}}}", lines=around.lines, indent=around.indent + 1)
        self.bind("q", "s", own=False)
        if default:
            self.bind("by", default[4], own=False)
        if scalars and self.rng.random() < 0.5:
            self.put(f"nonlocal {scalars[0]}")
            self.put(f"{scalars[0]} = {scalars[0]} * 0.5 + q")
        for _ in range(self.rng.randint(0, 2)):
            (self.write if self.rng.random() < 0.6 else self.branch)(0)
        self.put(f"return {self.result()}")
        self.scope = around
        self.scope.callees.append((name, "s", kind))
        result = self.fresh()
        self.put(f"{result} = {name}({self.fill('{s}', 1)})")
        self.bind(result, kind, own=False)

    def factory(self, budget: int) -> None:
        """Two functions of one `def`, each with variables of its own."""
        make, kind = self.fresh("make"), self.rng.choice("sv")
        step = self.rng.choice(("", "nonlocal p; p = p * q", "box.append(q)", "box[0] += q"))
        with self.block(f"def {make}(p):"):
            self.put("box = [0.5]")
            with self.block("def inner(q):"):
                self.put(step or "pass")
                self.put("return q * p + box[0] + box[-1]")
            self.put("return inner")
        first, second = self.fresh("inner"), self.fresh("inner")
        both = self.fill(f"{make}({{{kind}}}), {make}({{{kind}}})", 1)
        self.put(f"{first}, {second} = {both}")
        result = self.fresh()
        self.put(self.fill(f"{result} = {first}({{s}}) - {second}({{s}}) * {first}({{s}})", 1))
        self.bind(result, kind, own=kind == "v")
        self.scope.callees += [(first, "s", kind), (second, "s", kind)]

    def unit(self, budget: int) -> None:
        """An object with state, a method that changes it, a property and an operator."""
        if not self.units:
            return self.closure(budget)
        name = self.fresh("unit")
        self.put(self.fill(f"{name} = Unit(np.zeros({self.N}) + {{v}}, {{s}})", 1))
        self.bind(f"{name}.w", "v")
        self.bind(f"{name}.s", "s", own=False)
        self.bind(f"{name}.size", "s", own=False)
        self.scope.callees += [(f"{name}.step", "s", "s"), (f"{name}.__mul__", "s", "s")]
        result = self.fresh()
        self.put(self.fill(f"{result} = {name}.step({{s}}) + {name} * {{s}}", 1))
        self.bind(result, "s")
        return None

"""Random programs with nested control flow, as source text that can be read back."""

import linecache
import random
from collections.abc import Callable
from typing import Any

NAMES = ("a", "b", "c")


class Writer:
    """Writes one function of `x`; loops are bounded, arithmetic stays small."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0

    def expression(self, depth: int = 0) -> str:
        """A float expression."""
        r = self.random
        kind = r.randrange(7 if depth < 2 else 3)
        if kind == 0:
            return r.choice((*NAMES, "x"))
        if kind == 1:
            return str(r.choice((0.5, 1.25, -0.75, 2)))
        if kind == 2:
            return r.choice((*NAMES, "x"))
        one, two = self.expression(depth + 1), self.expression(depth + 1)
        if kind == 3:
            return f"({one} + {two})"
        if kind == 4:
            return f"np.sin({one} * {two})"
        if kind == 5:
            return f"({one} if {self.test(depth + 1)} else {two})"
        return f"({one} - {two} * 0.5)"

    def test(self, depth: int = 0) -> str:
        """A condition."""
        r = self.random
        kind = r.randrange(6 if depth < 2 else 2)
        if kind <= 2:
            return f"{self.expression(2)} > {self.expression(2)} + 0.013"
        if kind == 3:
            return f"({self.test(depth + 1)} {r.choice(('and', 'or'))} {self.test(depth + 1)})"
        if kind == 4:
            return f"not {self.test(depth + 2)}"
        return f"-1.01 < {self.expression(2)} < {self.expression(2)} + 0.51"

    def block(self, indent: int, depth: int, loop: bool) -> None:
        """A few statements."""
        for _ in range(self.random.randint(1, 3)):
            if not self.statement(indent, depth, loop):
                return

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def statement(self, indent: int, depth: int, loop: bool) -> bool:
        """One statement; whether others may follow."""
        r = self.random
        kind = r.randrange(12 if depth < 3 else 5)
        if kind <= 2:
            self.put(indent, f"{r.choice(NAMES)} = {self.expression()}")
        elif kind == 3:
            self.put(indent, f"{r.choice(NAMES)} += {self.expression(1)}")
        elif kind == 4:
            if loop and r.random() < 0.7:
                self.put(indent, r.choice(("break", "continue")))
                return False
            if r.random() < 0.5:
                self.put(indent, f"return {self.expression()} + 0.1 * x")
                return False
            self.put(indent, "a, b = b, a")
        elif kind <= 8:
            self.put(indent, f"if {self.test()}:")
            self.block(indent + 1, depth + 1, loop)
            if r.random() < 0.3:
                self.put(indent, f"elif {self.test()}:")
                self.block(indent + 1, depth + 1, loop)
            if r.random() < 0.5:
                self.put(indent, "else:")
                self.block(indent + 1, depth + 1, loop)
        elif kind == 9:
            self.put(indent, f"for i{depth} in range({r.randint(1, 3)}):")
            self.put(indent + 1, f"c = c + i{depth}")
            self.block(indent + 1, depth + 1, True)
            self.orelse(indent, depth, loop)
        else:
            self.loops += 1
            n = f"n{self.loops}"
            self.put(indent, f"{n} = 0")
            self.put(indent, f"while {self.test()}:")
            self.put(indent + 1, f"{n} += 1")
            self.put(indent + 1, f"if {n} > {r.randint(1, 4)}:")
            self.put(indent + 2, "break")
            self.block(indent + 1, depth + 1, True)
            self.orelse(indent, depth, loop)
        return True

    def orelse(self, indent: int, depth: int, loop: bool) -> None:
        """The `else` of a loop, sometimes."""
        if self.random.random() < 0.3:
            self.put(indent, "else:")
            self.block(indent + 1, depth + 1, loop)


def random_program(seed: int) -> Callable[[Any], Any]:
    """A function of one float."""
    import numpy as np

    writer = Writer(seed)
    writer.put(0, "def f(x):")
    writer.put(1, "a, b, c = x, 1.0, 0")
    writer.block(1, 0, False)
    writer.block(1, 0, False)
    writer.put(1, "return a + b * c + 0.1 * x")
    text = "\n".join(writer.lines) + "\n"
    name = f"<random program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), scope)
    return scope["f"]

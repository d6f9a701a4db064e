"""Programs that nobody wrote: arrays of random shapes through random operations, as text.

A program is a function of a system and three or four arrays: a dozen statements over elements,
rows, columns, shifted and gathered places, products, loops in order and mapped functions, as they
stand in scientific programs, and a sum at the end where it is to be differentiated. Values stay
of the size of one. The same seed and number give the same program on every system, so that the
slowest can be read (`text`) and timed again. Read next: `benchmarks/random_run.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.programs.program import Program

LONG, SHORT = (200, 1000, 3000, 20_000, 100_000), (2, 3, 5, 8, 17, 32, 64)
LARGEST = 1_500_000  # elements of an array
STATEMENTS = (5, 14)
Shape = tuple[int, ...]


class Variable(NamedTuple):
    """A name of the program, and the shape that it has."""

    name: str
    shape: Shape


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])
        self.lines: list[str] = []
        self.inputs: list[Variable] = []
        self.pool: list[Variable] = []
        self.used: set[str] = set()
        self.integers: list[tuple[str, Shape, int]] = []
        self.n = int(self.rng.choice(LONG))
        self.m = int(self.rng.choice([k for k in SHORT if k * self.n <= LARGEST // 2]))
        self.differentiated = bool(self.rng.random() < 0.65)

    # --- choices

    def pick(self, options: Any) -> Any:
        options = list(options)
        return options[int(self.rng.integers(len(options)))]

    def some(self, fits: Callable[[Shape], bool] = bool) -> Variable | None:
        """A variable of a shape that fits; those that nothing read, and late ones, sooner."""
        found = [v for v in self.pool if fits(v.shape)]
        if not found:
            return None
        weights = np.array([3.0 if v.name not in self.used else 1.0 for v in found])
        weights *= np.arange(1, len(found) + 1)
        chosen = found[int(self.rng.choice(len(found), p=weights / weights.sum()))]
        self.used.add(chosen.name)
        return chosen

    def let(self, text: str, shape: Shape) -> None:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.pool.append(Variable(name, shape))

    def given(self, shape: Shape) -> Variable:
        """One more input."""
        found = Variable(f"x{len(self.inputs)}", shape)
        self.inputs.append(found)
        self.pool.append(found)
        return found

    # --- statements; each may find nothing to work on

    def elementwise(self) -> None:
        v = self.some()
        assert v is not None
        x = v.name
        self.let(
            self.pick(
                (
                    f"xp.sin({x}) * {x}",
                    f"xp.tanh({x})",
                    f"xp.exp(-{x} * {x})",
                    f"1.0 / (1.0 + {x} * {x})",
                    f"xp.log1p(xp.abs({x}))",
                    f"xp.sqrt(1.0 + {x} ** 2) - 1.0",
                    f"xp.where({x} > 0.1, {x}, 0.01 * {x})",
                    f"xp.maximum({x}, 0.0) + 0.1",
                    f"0.5 * {x} + xp.cos(3.0 * {x})",
                    f"{x} / (1.0 + xp.exp(-{x}))",
                )
            ),
            v.shape,
        )

    def together(self) -> None:
        """Two arrays, broadcast."""
        a = self.some()
        assert a is not None
        b = self.some(lambda s: _broadcast(a.shape, s) is not None)
        if b is None:
            return
        shape = _broadcast(a.shape, b.shape)
        assert shape is not None
        how = self.pick(
            ("{a} * {b}", "{a} - 0.3 * {b}", "xp.minimum({a}, {b})", "{a} * xp.cos({b})")
        )
        self.let(how.format(a=a.name, b=b.name), shape)

    def reduced(self) -> None:
        v = self.some(lambda s: len(s) > 0 and min(s) > 1)
        if v is None:
            return
        axis = int(self.rng.integers(len(v.shape)))
        keep = bool(self.rng.random() < 0.5) and len(v.shape) > 1
        row = self.pick(("mean", "max", "min", "var", "sum"))
        shape = tuple(1 if i == axis else n for i, n in enumerate(v.shape) if keep or i != axis)
        scale = f" / {v.shape[axis]}" if row == "sum" else ""
        self.let(f"xp.{row}({v.name}, axis={axis}, keepdims={keep}){scale}", shape)

    def normalised(self) -> None:
        """A softmax, or an array with mean zero and variance one."""
        v = self.some(lambda s: len(s) > 0 and min(s) > 1)
        if v is None:
            return
        x, axis = v.name, int(self.rng.integers(len(v.shape)))
        if self.rng.random() < 0.5:
            up = f"xp.exp({x} - xp.max({x}, axis={axis}, keepdims=True))"
            self.let(up, v.shape)
            e = self.pool[-1].name
            self.let(f"{e} / xp.sum({e}, axis={axis}, keepdims=True)", v.shape)
        else:
            mean, var = (f"xp.{r}({x}, axis={axis}, keepdims=True)" for r in ("mean", "var"))
            self.let(f"({x} - {mean}) / xp.sqrt({var} + 1e-3)", v.shape)

    def running(self) -> None:
        v = self.some(lambda s: len(s) > 0)
        if v is not None:
            axis = int(self.rng.integers(len(v.shape)))
            self.let(f"xp.cumsum({v.name}, axis={axis}) / {v.shape[axis]}", v.shape)

    def shifted(self) -> None:
        v = self.some(lambda s: len(s) > 0 and max(s) > 8)
        if v is None:
            return
        x, axis = v.name, int(np.argmax(v.shape))
        before = ":, " * axis
        shorter = tuple(n - (i == axis) for i, n in enumerate(v.shape))
        if self.rng.random() < 0.5:
            self.let(f"{x}[{before}1:] - {x}[{before}:-1]", shorter)
        else:
            k = self.pick((1, 2, -3))
            self.let(f"xp.roll({x}, {k}, {axis}) - 0.5 * {x}", v.shape)

    def pairs(self) -> None:
        """All differences of a short array's elements, or of two."""
        a = self.some(lambda s: len(s) == 1 and 8 < s[0] <= 1000)
        b = self.some(lambda s: len(s) == 1 and 1 < s[0] <= 1000)
        if a is not None and b is not None:
            self.let(
                f"xp.exp(-(({a.name}[:, None] - {b.name}[None, :]) ** 2))", (*a.shape, *b.shape)
            )

    def product(self) -> None:
        v = self.some(lambda s: len(s) == 2 and s[1] <= 256 and s[0] > 1)
        if v is None:
            return
        k = self.pick((1, 4, 16, 40))
        other = self.some(lambda s: len(s) == 2 and s[0] == v.shape[1] and s[1] <= 256)
        if other is None:
            other = self.given((v.shape[1], k))
        self.let(f"({v.name} @ {other.name}) / {v.shape[1]}", (v.shape[0], other.shape[1]))

    def transposed(self) -> None:
        v = self.some(lambda s: len(s) == 2)
        if v is not None:
            self.let(f"xp.tanh({v.name}.T)", v.shape[::-1])

    def gathered(self) -> None:
        v = self.some(lambda s: len(s) > 0 and s[0] > 4)
        if v is None:
            return
        count = self.pick((v.shape[0], max(v.shape[0] // 3, 2)))
        name = f"i{len(self.integers)}"
        self.integers.append((name, (count,), v.shape[0]))
        self.let(f"xp.sin({v.name}[{name}])", (count, *v.shape[1:]))

    def in_order(self) -> None:
        """A loop with a state of the size of a row."""
        v = self.some(lambda s: len(s) == 2 and s[1] <= 64 and 8 <= s[0] <= 3000)
        if v is not None:
            c = self.pick(("0.9 * c + 0.1 * xp.tanh(x)", "xp.sin(c + x)", "c / (1.0 + c * c) + x"))
            step = f"lambda c, x: {c}"
            self.let(f"s.scan({step}, 0.1 * {v.name}[0], {v.name})", v.shape[1:])

    def mapped(self) -> None:
        """A function of a row, mapped over rows."""
        v = self.some(lambda s: len(s) == 2 and s[0] > 1 and s[1] > 1)
        if v is not None:
            row, shape = self.pick(
                (
                    ("xp.sum(r * xp.cos(r)) / r.shape[0]", v.shape[:1]),
                    ("r / (1.0 + xp.sqrt(xp.sum(r * r)))", v.shape),
                    ("xp.max(r) - xp.mean(r)", v.shape[:1]),
                )
            )
            self.let(f"s.vmap(lambda r: {row})({v.name})", shape)

    # --- the whole

    def write(self) -> tuple[str, list[Variable], list[tuple[str, Shape, int]], bool]:
        """The text, its inputs, its indices (with the size of what they look into)."""
        self.given((self.n, self.m))
        self.given((self.n,))
        self.given((self.m,) if self.rng.random() < 0.5 else (self.n, self.m))
        kinds = (
            *[self.elementwise] * 4,
            *[self.together] * 4,
            *[self.reduced] * 2,
            self.normalised,
            self.running,
            self.shifted,
            self.pairs,
            self.product,
            self.transposed,
            self.gathered,
            self.in_order,
            self.mapped,
        )
        for _ in range(int(self.rng.integers(*STATEMENTS))):
            self.pick(kinds)()
        left = [v for v in self.pool if v.name not in self.used][-3:]
        if self.differentiated:
            result = " + ".join(f"xp.mean({v.name} * xp.cos({v.name}))" for v in left)
        else:
            result = f"({', '.join(v.name for v in left)},)"
        names = [v.name for v in self.inputs] + [name for name, _, _ in self.integers]
        body = "".join(f"    {line}\n" for line in ("xp = s.np", *self.lines, f"return {result}"))
        text = f"def program(s, {', '.join(names)}):\n{body}"
        return text, self.inputs, self.integers, self.differentiated


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    """The shape of two arrays together, unless they do not fit or it is too large."""
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        return None
    return shape if np.prod(shape, dtype=np.int64) <= LARGEST else None


@cache
def _written(seed: int, number: int) -> tuple[str, list[Variable], list[Any], bool]:
    return _Writer(seed, number).write()


def text(seed: int, number: int) -> str:
    """The source of a program, with the shapes of its inputs."""
    source, inputs, _, _ = _written(seed, number)
    shapes = ", ".join(f"{v.name} {v.shape}" for v in inputs)
    return f"# {shapes}\n{source}"


def program(seed: int, number: int) -> Program:
    """A random program."""

    source, variables, integers, differentiated = _written(seed, number)
    scope: dict[str, Any] = {}
    exec(source, scope)

    def inputs() -> tuple[Any, ...]:
        rng = np.random.default_rng(number)
        arrays = [rng.normal(size=v.shape) for v in variables]
        return (*arrays, *(rng.integers(0, n, shape) for _, shape, n in integers))

    wrt = tuple(range(len(variables))) if differentiated else ()
    return Program(scope["program"], inputs, wrt)

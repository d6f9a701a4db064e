"""Random well-typed kernels, as a Hypothesis strategy. See kernels.py for how to use them.

A kernel is one or two loops around a few random operations on random views, with an `If`, a
`While`, a fold or carried values now and then, and one or two outputs. Its operations are exact,
so that backends can be compared bit for bit; with `exact=False` the last operation before a store
may be one that is correct to a few ULP only, never an operand of another.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ftrace.core.scalar import OPS
from ftrace.lowering.kernel.ir import Atom, Fold, KernelVar, Lit
from tests.lowering.nests import Nest, Sample

DTYPES = ["f8", "f4", "i4", "i8", "u1", "b1", "i1", "u4", "u8", "i2", "u2"]
SIZES = [3, 8, 17, 1, 2, 5, 33, 0]
LITERALS: dict[str, list[Any]] = {
    "f": [0.0, 1.0, -1.0, 2.0, 0.5, 0.1, -3.25], "i": [0, 1, -1, 2, 7], "u": [0, 1, 2, 7],
    "b": [False, True],
}  # fmt: skip
FLOATS = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38]
EXACT = [
    "add", "mul", "sub", "select", "lt", "max", "min", "div", "neg", "abs", "sqrt", "floor",
    "ceil", "trunc", "round", "copysign", "signbit", "floor_divide", "mod", "rem", "and", "or",
    "xor", "not", "shift_left", "shift_right", "eq", "ne", "le", "gt", "ge", "cast", "bitcast",
]  # fmt: skip
NEARLY = [
    "exp", "log", "sin", "cos", "tanh", "expm1", "log1p", "exp2", "log2", "log10", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "cbrt", "logistic", "erf", "erfc",
]  # fmt: skip


@st.composite
def kernels(draw: Callable[..., Any], exact: bool = True) -> Sample:
    """Samples without `expected`; `sample.exact` is `exact`."""
    return _Writer(draw, exact).sample()


class _Writer:
    def __init__(self, draw: Callable[..., Any], exact: bool) -> None:
        self.draw = draw
        self.exact = exact
        self.k = Nest("random")
        self.pool: list[Atom] = []
        self.axes: list[KernelVar] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.rng = np.random.default_rng(draw(st.integers(0, 99)))

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def sample(self) -> Sample:
        shape = [self.pick(SIZES) for _ in range(self.pick([1, 2]))]
        inputs = [self.input(f"x{i}", shape) for i in range(self.pick([2, 1, 3]))]
        sizes = [self.k.scalar() for _ in shape]
        literal = self.k.scalar(self.pick(["f8", "f4", "i4"]))
        self.pool.append(literal)
        with self.k.loop(sizes[0]) as outer:
            self.axes.append(outer.axis)
            if len(shape) == 1:
                self.body(inputs, shape)
            else:
                self.inner(inputs, shape, sizes[1])
        kernel = self.k.kernel()
        return Sample(kernel, self.arrays, [*shape, 3], exact=self.exact)

    # --- operands

    def input(self, name: str, shape: list[int]) -> tuple[str, tuple[int, ...]]:
        """A buffer that sees some axes of the domain; its name and these axes."""
        axes = self.pick([tuple(range(len(shape))), (len(shape) - 1,), (0,), ()])
        dtype = self.pick([*DTYPES, "f2"])
        way = self.pick(["plain", "spaced", "reversed", "transposed"])
        seen = [shape[a] for a in axes]
        steps = ["any"] * len(axes)
        if way == "transposed" or not axes:
            array = self.numbers(dtype, seen[::-1]).T
        elif way == "spaced":
            array = self.numbers(dtype, [*seen[:-1], 2 * seen[-1]])[..., ::2]
        else:
            array = self.numbers(dtype, seen)[..., :: 1 if way == "plain" else -1]
            steps[-1] = "one" if way == "plain" else "minus"
        self.arrays[name] = array
        self.k.buffer(name, dtype, steps)
        return name, axes

    def numbers(self, dtype: str, shape: list[int]) -> np.ndarray:
        if dtype[0] == "f":
            values = 4 * self.rng.standard_normal(shape)
            special = self.rng.choice(FLOATS, shape)
            with np.errstate(over="ignore"):
                return np.where(self.rng.random(shape) < 0.2, special, values).astype(dtype)
        wide = self.rng.integers(-(2**63), 2**63 - 1, shape)
        small = self.rng.integers(-9, 9, shape)
        return np.where(self.rng.random(shape) < 0.3, wide, small).astype(dtype)

    def read(self, inputs: list[tuple[str, tuple[int, ...]]]) -> None:
        """Load what the loops entered so far can address."""
        for name, axes in inputs:
            if all(a < len(self.axes) for a in axes):
                value = self.k.load(name, *(self.axes[a] for a in axes))
                if value.dtype == "f2":
                    value = self.k.let("cast", value, to="f4")
                self.pool.append(value)

    def output(self, value: Atom, shape: list[int]) -> None:
        """Store a value at the loops' axes."""
        if not self.exact and value.dtype[0] == "f" and self.draw(st.booleans()):
            value = self.k.let(self.pick(NEARLY), value)
        name, step = f"y{len(self.arrays)}", self.pick(["one", "minus", "any"])
        array = np.zeros([*shape[:-1], 2 * shape[-1]], value.dtype)
        kept = {"one": slice(shape[-1]), "minus": slice(shape[-1] - 1, None, -1)}
        if step == "minus":
            array = array[..., : shape[-1]]
        self.arrays[name] = array[..., kept.get(step, slice(None, None, 2))]
        if step == "minus" and shape[-1] == 0:
            self.arrays[name] = array[..., ::-1]
        self.k.buffer(name, value.dtype, ["any"] * (len(shape) - 1) + [step], "out")
        self.k.store(name, self.axes, value)

    # --- statements

    def inner(self, inputs: Any, shape: list[int], size: KernelVar) -> None:
        """The second of two loops, plain, with a fold, or with a carried value."""
        self.read([(n, axes) for n, axes in inputs if 1 not in axes])
        outside, way = list(self.pool), self.pick(["plain", "fold", "carry"])
        fold = self.fold() if way == "fold" else None
        start = self.value() if way == "carry" else None
        with self.k.loop(size, *([fold] if fold else []), inits=[start] if start else []) as loop:
            self.axes.append(loop.axis)
            self.pool += [*loop.params, loop.axis]
            self.body([(n, axes) for n, axes in inputs if 1 in axes], shape)
            if fold:
                loop.leave(self.of(fold.acc), *[loop.axis] * (fold.op == "argmax"))
            if start:
                loop.leave(self.of(start.dtype))
        self.axes.pop()
        self.pool = outside
        if loop.outs:
            self.pool += loop.outs
            self.steps(1)
            self.output(loop.outs[0], shape[:1])

    def fold(self) -> Fold:
        op = self.pick(["sum", "max", "prod", "min", "argmax", "xor"])
        dtype = self.pick(["i4", "u8", "i1"] if op == "xor" else ["f8", "f4", "i4", "u1"])
        ways = self.pick([1, 4, 8])
        blocked = op == "sum" and dtype[0] == "f" and self.draw(st.booleans())
        return Fold(op, dtype, ways, 16 if blocked else 0)

    def body(self, inputs: Any, shape: list[int]) -> None:
        self.read(inputs)
        self.steps(self.pick([3, 1, 2, 5]))
        self.output(self.pool[-1], shape)
        if self.draw(st.booleans()):
            self.output(self.value(), shape)

    def steps(self, count: int) -> None:
        for _ in range(count):
            what = self.pick(["op", "op", "op", "if", "while"])
            {"op": self.op, "if": self.choice, "while": self.repetition}[what]()

    def value(self) -> Atom:
        """Any value; later ones are likelier, so that chains come about."""
        return self.pick(reversed(self.pool))

    def of(self, dtype: str) -> Atom:
        """A value or literal of a type, converted if there is none."""
        known = [a for a in self.pool if a.dtype == dtype]
        literal = self.draw(st.integers(0, 3)) == 0
        if literal:
            return Lit(self.pick(LITERALS[dtype[0]]), dtype)
        return self.pick(reversed(known)) if known else self.cast(self.value(), dtype)

    def cast(self, value: Atom, dtype: str) -> KernelVar:
        """A conversion; floats are brought into range where C leaves the result open."""
        if value.dtype[0] == "f" and dtype[0] in "iu":
            low = Lit(0.0 if dtype[0] == "u" else -100.0, value.dtype)
            value = self.k.let("select", self.k.let("eq", value, value), value, low)
            value = self.k.let("min", self.k.let("max", value, low), Lit(100.0, value.dtype))
        return self.k.let("cast", value, to=dtype)

    def op(self) -> None:
        value = self.value()
        op = OPS[self.pick([name for name in EXACT if value.dtype[0] in OPS[name].kinds])]
        if op.name == "cast":
            self.pool.append(self.cast(value, self.pick(DTYPES)))
            return
        if op.name == "bitcast":
            to = {"f": "i", "i": "u", "u": "i"}[value.dtype[0]] + value.dtype[1:]
            self.pool.append(self.k.let("bitcast", value, to=to))
            return
        args = [value, *(self.of(value.dtype) for _ in range(op.arity - 1))]
        if op.name == "select":
            args[0], args[2] = self.of("b1"), value
        self.pool.append(self.k.let(op.name, *args))

    def guarded(self, count: int) -> list[Atom]:
        """A few operations inside an arm; what is visible there."""
        outside = list(self.pool)
        for _ in range(count):
            self.op()
        inside, self.pool = self.pool, outside
        return inside

    def choice(self) -> None:
        cond = self.of("b1")
        with self.k.part() as then:
            then.leave(self.guarded(self.pick([1, 2]))[-1])
        dtype = then.results[0].dtype
        with self.k.part() as orelse:
            known = [a for a in self.guarded(self.pick([0, 1])) if a.dtype == dtype]
            orelse.leave(known[-1] if known else self.cast(self.value(), dtype))
        self.pool += self.k.branch(cond, then, orelse)

    def repetition(self) -> None:
        """As many rounds as three bits of a value say."""
        bits = self.cast(self.value(), "i8")
        limit = self.k.let("and", bits, Lit(7, "i8"))
        start = self.value()
        count, state = self.k.fresh("i8"), self.k.fresh(start.dtype)
        with self.k.part() as cond:
            cond.leave(self.k.let("lt", count, limit))
        with self.k.part(count, state) as body:
            self.pool.append(state)
            known = [a for a in self.guarded(2) if a.dtype == state.dtype]
            self.pool.pop()
            body.leave(self.k.let("add", count, Lit(1, "i8")), known[-1])
        self.pool += self.k.repeat([Lit(0, "i8"), start], cond, body)

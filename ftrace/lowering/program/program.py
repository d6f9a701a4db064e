"""Programs: what a compiled function does with memory, step by step.

A program works on `slots`, base addresses of arrays: arguments and constants (given at each
call), results (allocated at each call) and places in one arena per call; windows lie in other
slots: in the iterations of a `Scan` their elements along the first axis, or a `PartOf` of them. A
`Repeat` that records what its iterations leave grows tapes, which a `Scan` reads; tapes may be
arguments, results, and elements of tapes. Everything that depends on sizes is in its `table`, so
that programs of the same structure share machine code. Steps run in order; `BranchStep`, `Repeat`
and `Scan` hold steps. Matrix products are a library's and some rows compiled loops of NumPy's,
called by machine code; other rows that kernels cannot do are `Callback`s, which run the row on
views of the slots. plan.py makes programs; `cpu/` compiles and runs them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Union

from ftrace.core.avals import ShapedArray
from ftrace.core.jaxpr import Eqn
from ftrace.core.records import record
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.machine import InnerLoop

ARGUMENT = "argument"
CONSTANT = "constant"
RESULT = "result"
ARENA = "arena"
WINDOW = "window"
TAPE = "tape"


@record
class Slot:
    """An array of a program, contiguous in row-major order.

    Attributes:
        place: ARGUMENT, CONSTANT, RESULT, ARENA, WINDOW or TAPE.
        aval: shape and dtype, as planned.
        entry: for ARENA the table entry of its distance from the arena's start, in bytes; for the
            others the position among the arguments, constants or results (0 for a WINDOW, whose
            address each iteration sets, and for a TAPE, which grows).
    """

    place: str
    aval: ShapedArray
    entry: int


@record
class Copy:
    """Copy `table[size]` bytes from one slot to another."""

    source: int
    target: int
    size: int


@record
class Callback:
    """Run a row of Python on slots.

    Attributes:
        number: position in `Program.callbacks`.
    """

    number: int


@record
class Multiply:
    """A matrix product that a library does, `out = lhs @ rhs` for each member of a batch.

    Attributes:
        lhs, rhs, out: slots.
        dtype: f4 or f8.
        vector: whether rhs is a vector.
        transposed: whether lhs and rhs are stored as their transposes.
        numbers: the first of the table entries with sizes and steps (contraction.py).
    """

    lhs: int
    rhs: int
    out: int
    dtype: str
    vector: bool
    transposed: tuple[bool, bool]
    numbers: int


@record
class ScatterStep:
    """Change an array at computed places, one update after the other.

    Attributes:
        out: slot of what is changed.
        updates, places: slots.
        dtype: of the elements.
        combine: "set", "add", "mul", "min" or "max".
        numbers: the first of three table entries: how many updates, how many places there are, and
            elements of one.
    """

    out: int
    updates: int
    places: int
    dtype: str
    combine: str
    numbers: int


@record
class Accumulate:
    """Join all prefixes of the lines of an array.

    Attributes:
        source, out: slots.
        operation: what joins two elements: `add` ...
        dtype: of the elements.
        reverse: whether prefixes are suffixes.
        numbers: the first of three table entries: how many lines there are, elements of one, and
            how far apart these lie.
    """

    source: int
    out: int
    operation: str
    dtype: str
    reverse: bool
    numbers: int


@record
class Apply:
    """Run a compiled loop of a gufunc.

    Attributes:
        loop: which.
        inputs, outputs: slots.
        depth: loops around it, over axes of the batch that it does not pass itself.
        cores: how many sizes of core axes it is told.
        numbers: the first of the table entries with sizes and steps (loop_numbers.py).
        fails: what to do where the flag "invalid" is raised behind it; nothing: it is not asked.
        threads: the table entry with the number of threads that may share it, -1 where none do.
        operations: how many there are, where the loop itself has threads share them.
    """

    loop: InnerLoop
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    depth: int
    cores: int
    numbers: int
    fails: tuple["Step", ...]
    threads: int = -1
    operations: int = 0


@record
class BranchStep:
    """Run one of several lists of steps: that of the index in a slot, clamped."""

    index: int
    dtype: str
    arms: tuple[tuple["Step", ...], ...]


@record
class Repeat:
    """While the boolean in slot `predicate` is true after `cond`, run `body`.

    Attributes:
        cond, predicate, body: the loop.
        record: windows on tapes, which get an element in each iteration.
        count: the slot that gets the number of iterations, if there is one.
    """

    cond: tuple["Step", ...]
    predicate: int
    body: tuple["Step", ...]
    record: tuple["Window", ...] = ()
    count: int | None = None


@record
class Window:
    """A slot that is, in iteration i of a `Scan` or after a `Look` at i, element i of another one.

    Attributes:
        slot: the window.
        base: what it looks at.
        size: table entry with the bytes of an element.
        written: whether the iterations write it; else they only read it.
        along: table entry with two numbers, if it shows not element i but `first + i step`.
    """

    slot: int
    base: int
    size: int
    written: bool
    along: int | None = None

    def element(self, i: int, table: Sequence[int]) -> int:
        """Which element it shows in an iteration."""
        return i if self.along is None else table[self.along] + i * table[self.along + 1]


@record
class Scan:
    """Run `body` a number of times, each iteration with its windows; backwards if `reverse`.

    Attributes:
        length: table entry with the number of iterations; None if a slot has it.
        count: that slot, an i8, or a tape that is as long.
        reverse, windows, body: the loop.
    """

    length: int | None
    count: int | None
    reverse: bool
    windows: tuple[Window, ...]
    body: tuple["Step", ...]


@record
class Look:
    """Let windows show the elements of a number that is in a slot, an i8."""

    number: int
    windows: tuple[Window, ...]


@record
class PartOf:
    """Let a window be the part of slot `base` from byte `table[start]` on, until the next time."""

    slot: int
    base: int
    start: int


Step = Union[  # noqa: UP007 - named above
    Launch,
    Copy,
    Callback,
    Multiply,
    ScatterStep,
    Accumulate,
    Apply,
    BranchStep,
    Repeat,
    Scan,
    Look,
    PartOf,
]


@record
class CallStep:
    """What a `Callback` runs: an equation on arrays; literals are given as they are.

    Attributes:
        eqn: the equation, whose row is evaluated.
        operands: per operand a slot, or None for a literal.
        results: slots.
    """

    eqn: Eqn
    operands: tuple[int | None, ...]
    results: tuple[int, ...]


@record
class Program:
    """A compiled function before it is code.

    Attributes:
        slots: every array; arguments first, then constants, results, and the arena.
        table: numbers that depend on sizes, and literals.
        steps: what to do.
        callbacks: what Python does in between.
        constants: captured arrays, read at each call.
        arena: bytes.
        weak: per result, whether it is a Python scalar.
        passes: the passes that changed something on the way here.
    """

    slots: tuple[Slot, ...]
    table: tuple[int, ...]
    steps: tuple[Step, ...]
    callbacks: tuple[CallStep, ...]
    constants: tuple[Any, ...]
    arena: int
    weak: tuple[bool, ...]
    passes: tuple[str, ...] = ()

    def of_place(self, place: str) -> list[int]:
        """The numbers of the slots in a place, in the order of their entries."""
        return [i for i, s in enumerate(self.slots) if s.place == place]

    @property
    def launches(self) -> list[Launch]:
        """Every kernel, in the order of the code."""
        return [s for s in every(self.steps) if isinstance(s, Launch)]

    @property
    def products(self) -> list[Multiply]:
        """Every matrix product that a library does."""
        return [s for s in every(self.steps) if isinstance(s, Multiply)]

    @property
    def loops(self) -> list[Apply]:
        """Every loop of a gufunc."""
        return [s for s in every(self.steps) if isinstance(s, Apply)]

    @property
    def sharing(self) -> list[int]:
        """How many threads may share each loop that is shared."""
        entries = [k.threads for k in self.launches if k.schedule.shared]
        entries += [step.threads for step in self.loops if step.threads >= 0]
        return [self.table[entry] for entry in entries]

    @property
    def fails_only(self) -> bool:
        """Whether Python is called only where loops fail."""
        return len(self.callbacks) == sum(1 for loop in self.loops if loop.fails)


def iterations_of(step: Scan, program: Program, values: Any) -> int:
    """The number of iterations of a scan, where values lie by slot."""
    if step.length is not None:
        return program.table[step.length]
    assert step.count is not None
    found = values[step.count]
    return len(found) if isinstance(found, list) else int(found)


def windows_of(step: Step) -> tuple[Window, ...]:
    """The windows that a step moves itself."""
    if isinstance(step, Repeat):
        return step.record
    return step.windows if isinstance(step, Scan | Look) else ()


def every(steps: Iterable[Step]) -> Iterator[Step]:
    """All steps, in the order of the code: each before those that it holds."""
    for step in steps:
        yield step
        if isinstance(step, BranchStep):
            for arm in step.arms:
                yield from every(arm)
        elif isinstance(step, Repeat):
            yield from every((*step.cond, *step.body))
        elif isinstance(step, Scan):
            yield from every(step.body)
        elif isinstance(step, Apply):
            yield from every(step.fails)

"""Rows that Python runs in the middle of a compiled program.

Native code calls back with a number. The frame of the running call, on a stack per thread since
rows may call compiled functions themselves, knows the arrays behind the slots: it evaluates the
row on views of them and copies the results into their slots. `interpret` runs programs that hold
nothing but such rows, without memory of their own.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core import source
from ftrace.core.avals import ShapedArray
from ftrace.core.errors import FtraceError, JaxprError
from ftrace.core.jaxpr import Eqn
from ftrace.core.kinds import keeps
from ftrace.core.trace import EVAL, ctx
from ftrace.cpu.emit.interrupts import LOOK
from ftrace.cpu.runtime.native_tapes import EXHAUSTED, OTHER
from ftrace.cpu.runtime.recycling import maker
from ftrace.interpreters.quiet import quietly
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.program.program import (
    Accumulate,
    Apply,
    BranchStep,
    Callback,
    CallStep,
    Copy,
    Look,
    Multiply,
    PartOf,
    Program,
    Repeat,
    Scan,
    ScatterStep,
    Step,
    iterations_of,
)


def evaluate(call: CallStep, operands: Sequence[Any]) -> Sequence[Any]:
    """Run the row of a call; its results, each of the shape and dtype that was planned."""
    eqn = call.eqn
    row = eqn.primitive
    before, place = ctx.trace, source.here.place
    ctx.trace, source.here.place = EVAL, eqn.source
    try:
        found = row.impl(*operands, **eqn.params)
    except Exception as error:
        _say_where(error, eqn)
        raise
    finally:
        ctx.trace, source.here.place = before, place
    results = found if row.multiple else (found,)
    for value, var in zip(results, eqn.outvars, strict=True):
        if not _is_whole(value, var.aval):
            _check(row.name, value, var.aval)
    return results


def _say_where(error: Exception, eqn: Eqn) -> None:
    """Note the user's line at an error of a library: the call stack does not show it."""
    if issubclass(type(error), FtraceError) or eqn.effects or eqn.primitive.host is not None:
        return  # they say it themselves
    note = f"Raised at {source.describe(eqn.source)}"
    if eqn.source is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _is_whole(value: Any, planned: ShapedArray) -> bool:
    """Whether it is just what was planned: most are."""
    if type(value) is not np.ndarray:
        return False
    return value.dtype is planned.dtype and value.shape == planned.shape


def _check(name: str, value: Any, promised: ShapedArray) -> None:
    """Whether a row gave what its type rule says."""
    if issubclass(type(value), np.ndarray | np.generic):
        if value.shape == promised.shape and value.dtype == promised.dtype:
            return
        found = f"{value.dtype}{list(value.shape)}"
    elif promised.shape:
        found = type(value).__name__
    else:  # a Python scalar
        return
    raise JaxprError(f"{name} promised {promised!r}, but its evaluation gave {found}.")


# --- native code calls back

ITEM, SCALAR, WHOLE, RESHAPED = range(4)
BYTES: Final = np.dtype(np.uint8)


def is_calm(call: CallStep) -> bool:
    """Whether NumPy's warnings need not be turned off."""
    return call.eqn.primitive.calm


class Row:
    """A call, looked at once: what its operands and results are made of."""

    __slots__ = ("calm", "eqn", "keeps", "literals", "operands", "results")

    def __init__(self, call: CallStep, program: Program) -> None:
        eqn = call.eqn
        atoms = list(zip(eqn.invars, call.operands, strict=True))
        self.eqn = eqn
        self.calm = is_calm(call)
        self.keeps = keeps(eqn)  # our memory changes
        self.literals = [(i, a.value) for i, (a, slot) in enumerate(atoms) if slot is None]
        self.operands = [
            (slot, _form(a.aval, program.slots[slot].aval), a.aval.shape)
            for a, slot in atoms
            if slot is not None
        ]
        self.results = [
            (slot, var.aval) for slot, var in zip(call.results, eqn.outvars, strict=True)
        ]


def _form(planned: ShapedArray, stored: ShapedArray) -> int:
    """How an operand is made of what is stored."""
    if planned.weak:
        return ITEM
    if not planned.shape:
        return SCALAR
    return WHOLE if planned.shape == stored.shape else RESHAPED


class NativeFrame:
    """One running call of a program with callbacks: the arrays behind its slots.

    Frames with a small arena are used again, with their views of it: nobody else keeps these.

    Attributes:
        arena: scratch memory.
        arrays: what lies in slots now, as far as it is known.
        quiet: what keeps NumPy from warning, once a row ran that needs it.
    """

    __slots__ = ("_program", "_rows", "_start", "arena", "arrays", "quiet")

    def __init__(self, program: Program, rows: Sequence[Row], size: int) -> None:
        self.arena = maker((size,), BYTES)()
        self._start = -self.arena.ctypes.data % 64  # where places begin in it
        self._program = program
        self._rows = rows
        self.arrays: list[Any] = [None] * len(program.slots)
        self.quiet: quietly | None = None

    def run(self, number: int) -> None:
        """Run a callback."""
        row = self._rows[number]
        eqn, known = row.eqn, self.arrays
        if self.quiet is None and not row.calm:
            quiet = quietly()
            quiet.__enter__()
            self.quiet = quiet
        source.here.place = eqn.source
        operands = self._operands(row)
        if row.keeps:
            operands = [x.copy() if type(x) is np.ndarray else x for x in operands]
        primitive = eqn.primitive
        try:
            found = primitive.impl(*operands, **eqn.params)
        except Exception as error:
            _say_where(error, eqn)
            raise
        values = found if primitive.multiple else (found,)
        for (slot, planned), value in zip(row.results, values, strict=True):
            if not _is_whole(value, planned):
                _check(primitive.name, value, planned)
            view = known[slot]
            if view is None:
                view = self.array(slot)
            view[...] = value

    def _operands(self, row: Row) -> list[Any]:
        found: list[Any] = []
        known = self.arrays
        for slot, form, shape in row.operands:
            view = known[slot]
            if view is None:
                view = self.array(slot)
            if form == RESHAPED:
                view = view.reshape(shape)
            elif form == ITEM:
                view = view.item()
            elif form == SCALAR:
                view = view.reshape(())[()]
            found.append(view)
        for i, value in row.literals:
            found.insert(i, value)
        return found

    def array(self, slot: int) -> Any:
        """A view of the arena, made at its first use."""
        where = self._program.slots[slot]
        start = self._start + self._program.table[where.entry]
        view = np.ndarray(where.aval.shape, where.aval.dtype, self.arena, start)
        self.arrays[slot] = view
        return view

    def end(self) -> None:
        """NumPy warns again."""
        quiet, self.quiet = self.quiet, None
        if quiet is not None:
            quiet.__exit__(None, None, None)


class _Frames(threading.local):
    def __init__(self) -> None:
        self.stack: list[NativeFrame] = []


_frames: Final = _Frames()


def within(frame: NativeFrame, run: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """Run native code; callbacks of this thread are the frame's until it ends."""
    stack = _frames.stack
    before, place = ctx.trace, source.here.place
    stack.append(frame)
    try:
        ctx.trace = EVAL
        return run(*arrays)
    finally:
        ctx.trace, source.here.place = before, place
        assert stack.pop() is frame
        if frame.quiet is not None:
            frame.end()


def call_back(number: int) -> None:
    """What native code calls: run a callback of this thread's innermost call."""
    if number == EXHAUSTED:
        raise MemoryError("There is no memory for what a compiled loop records for its derivative.")
    if number == LOOK:  # handlers of signals have run on the way here
        return
    if number == OTHER:
        raise JaxprError(
            "A loop of a compiled program reads a tape of another number of iterations."
        )
    _frames.stack[-1].run(number)


# --- programs without kernels


def is_interpreted(steps: Sequence[Step]) -> bool:
    """Whether no step is native."""
    for step in steps:
        if isinstance(step, Launch | Multiply | ScatterStep | Accumulate | Apply | Look | PartOf):
            return False
        if isinstance(step, BranchStep):
            inner = step.arms
        elif isinstance(step, Callback | Copy):
            continue
        else:
            inner = (step.body,) if isinstance(step, Scan) else (step.cond, step.body)
        if not all(is_interpreted(s) for s in inner):
            return False
    return True


def interpret(steps: Sequence[Step], program: Program, values: dict[int, Any]) -> None:
    """Run steps on values by slot; values are replaced, never written."""
    for step in steps:
        if isinstance(step, Callback):
            call = program.callbacks[step.number]
            operands = [
                atom.value if slot is None else as_planned(values[slot], atom.aval)
                for atom, slot in zip(call.eqn.invars, call.operands, strict=True)
            ]
            values.update(zip(call.results, evaluate(call, operands), strict=True))
        elif isinstance(step, Copy):
            values[step.target] = values[step.source]
        elif isinstance(step, BranchStep):
            arm = min(max(int(values[step.index]), 0), len(step.arms) - 1)
            interpret(step.arms[arm], program, values)
        elif isinstance(step, Repeat):
            interpret(step.cond, program, values)
            iterations = 0
            while values[step.predicate]:
                interpret(step.body, program, values)
                interpret(step.cond, program, values)
                iterations += 1
            if step.count is not None:
                values[step.count] = np.int64(iterations)
        elif isinstance(step, Scan):
            _scan(step, program, values)


def _scan(step: Scan, program: Program, values: dict[int, Any]) -> None:
    """Run a `Scan` on values; what it writes is allocated here."""
    iterations = range(iterations_of(step, program, values))
    for window in step.windows:
        if window.written:
            planned = program.slots[window.base].aval
            values[window.base] = maker(planned.shape, planned.dtype)()
    for i in reversed(iterations) if step.reverse else iterations:
        for window in step.windows:
            if not window.written:
                element = window.element(i, program.table)
                values[window.slot] = values[window.base][element]
        interpret(step.body, program, values)
        for window in step.windows:
            if window.written:
                values[window.base][i] = values[window.slot]


def as_planned(value: Any, planned: ShapedArray) -> Any:
    """A value as rows want it: Python scalars where weak, NumPy scalars for rank 0."""
    if type(value) is not np.ndarray:
        if planned.weak or issubclass(type(value), np.generic):
            return value.item() if planned.weak and issubclass(type(value), np.generic) else value
        return planned.dtype.type(value)
    if planned.weak:
        return value.item()
    if not planned.shape:
        return value.reshape(())[()]
    return value if value.shape == planned.shape else value.reshape(planned.shape)

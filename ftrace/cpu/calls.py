"""Rows that Python runs in the middle of a compiled program.

Native code calls back with a number. The frame of the running call, on a stack per thread since
rows may call compiled functions themselves, knows the arrays behind the slots: it evaluates the
row on views of them and copies the results into their slots. `interpret` runs programs that hold
nothing but such rows, without memory of their own.
"""

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.core import source
from ftrace.core.avals import ShapedArray
from ftrace.core.errors import JaxprError
from ftrace.core.trace import EVAL, ctx
from ftrace.lowering.launching import Launch
from ftrace.lowering.program import Branch, Call, Callback, Copy, Program, Step
from ftrace.primitives.table import ALL


def evaluate(call: Call, operands: Sequence[Any]) -> Sequence[Any]:
    """Run the row of a call; its results, each of the shape and dtype that was planned."""
    eqn = call.eqn
    row = eqn.primitive
    before, place = ctx.trace, source.here.place
    ctx.trace, source.here.place = EVAL, eqn.source
    try:
        found = row.impl(*operands, **eqn.params)
    finally:
        ctx.trace, source.here.place = before, place
    results = found if row.multiple else (found,)
    for value, var in zip(results, eqn.outvars, strict=True):
        _check(row.name, value, var.aval)
    return results


def _check(name: str, value: Any, promised: ShapedArray) -> None:
    """Whether a row gave what its type rule says."""
    if isinstance(value, np.ndarray | np.generic):
        if value.shape == promised.shape and value.dtype == promised.dtype:
            return
        found = f"{value.dtype}{list(value.shape)}"
    elif promised.shape:
        found = type(value).__name__
    else:  # a Python scalar
        return
    raise JaxprError(f"{name} promised {promised!r}, but its evaluation gave {found}.")


# --- native code calls back

OURS: Final = frozenset(ALL)


class Frame:
    """One running call of a program with callbacks: the arrays behind its slots."""

    __slots__ = ("_arena", "_arrays", "_calls", "_program", "_start")

    def __init__(self, program: Program, arrays: dict[int, Any], arena: Any) -> None:
        self._program = program
        self._calls = program.callbacks
        self._arrays = arrays
        self._arena = arena
        self._start = -1

    def run(self, number: int) -> None:
        """Run a callback."""
        call = self._calls[number]
        invars = call.eqn.invars
        operands = [
            atom.value if slot is None else self._operand(slot, atom.aval)
            for atom, slot in zip(invars, call.operands, strict=True)
        ]
        if call.eqn.primitive not in OURS:  # it may keep what it is given; our memory changes
            operands = [x.copy() if type(x) is np.ndarray else x for x in operands]
        results = evaluate(call, operands)
        for value, slot in zip(results, call.results, strict=True):
            view = self._array(slot)
            if type(value) is np.ndarray and value.shape != view.shape:
                value = value.reshape(view.shape)
            view[...] = value

    def _operand(self, slot: int, planned: ShapedArray) -> Any:
        view = self._array(slot)
        if planned.weak:
            return view.item()
        if not planned.shape:
            return view.reshape(())[()]
        return view if view.shape == planned.shape else view.reshape(planned.shape)

    def _array(self, slot: int) -> Any:
        """The array in a slot."""
        found = self._arrays.get(slot)
        if found is None:
            where = self._program.slots[slot]
            if self._start < 0:  # where the arena begins in its memory
                self._start = -self._arena.ctypes.data % 64
            start = self._start + self._program.table[where.entry]
            a = where.aval
            found = np.ndarray(a.shape, a.dtype, self._arena, start)
            self._arrays[slot] = found
        return found


class _Frames(threading.local):
    def __init__(self) -> None:
        self.stack: list[Frame] = []


_frames: Final = _Frames()


def enter(frame: Frame) -> None:
    """Begin a call: callbacks of this thread are its own from here on."""
    _frames.stack.append(frame)


def leave(frame: Frame) -> None:
    """End it."""
    assert _frames.stack.pop() is frame


def call_back(number: int) -> None:
    """What native code calls: run a callback of this thread's innermost call."""
    _frames.stack[-1].run(number)


# --- programs without kernels


def is_interpreted(steps: Sequence[Step]) -> bool:
    """Whether no step is native."""
    for step in steps:
        if isinstance(step, Launch):
            return False
        if isinstance(step, Branch):
            inner = step.arms
        elif isinstance(step, Callback | Copy):
            continue
        else:
            inner = (step.cond, step.body)
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
        elif isinstance(step, Branch):
            arm = min(max(int(values[step.index]), 0), len(step.arms) - 1)
            interpret(step.arms[arm], program, values)
        elif not isinstance(step, Launch):
            interpret(step.cond, program, values)
            while values[step.predicate]:
                interpret(step.body, program, values)
                interpret(step.cond, program, values)


def as_planned(value: Any, planned: ShapedArray) -> Any:
    """A value as rows want it: Python scalars where weak, NumPy scalars for rank 0."""
    if type(value) is not np.ndarray:
        if planned.weak or isinstance(value, np.generic):
            return value.item() if planned.weak and isinstance(value, np.generic) else value
        return planned.dtype.type(value)
    if planned.weak:
        return value.item()
    if not planned.shape:
        return value.reshape(())[()]
    return value if value.shape == planned.shape else value.reshape(planned.shape)

"""Running a program step by step in NumPy, kernels by their reference: the oracle of backends.

Slow and simple: every slot is an array of its own, so that a place in the arena that is used
while something else lies there shows up as a difference between this and a backend.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray
from ftrace.core.tapes import is_tape
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.kernel.reference import run
from ftrace.lowering.program.program import (
    ARGUMENT,
    CONSTANT,
    RESULT,
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
    Window,
    iterations_of,
)

Memory = list[Any]


def simulate(program: Program, args: Sequence[Any], *, reverse: bool = False) -> list[Any]:
    """The results of a program: arrays, and lists for tapes.

    Args:
        program: what to run.
        args: arrays or scalars, as planned.
        reverse: run independent loops backwards.
    """
    given = {ARGUMENT: args, CONSTANT: program.constants}
    memory: Memory = []
    for slot in program.slots:
        if slot.place not in given:
            memory.append(_rubbish(slot.aval))
        elif is_tape(slot.aval):
            memory.append(given[slot.place][slot.entry])
        else:
            memory.append(np.array(given[slot.place][slot.entry], slot.aval.dtype, order="C"))
    _run(program.steps, program, memory, reverse)
    return [memory[i] for i in program.of_place(RESULT)]


def _rubbish(a: ShapedArray) -> Any:
    """What lies in memory that nobody has written."""
    return [] if is_tape(a) else np.full(a.shape, 77, a.dtype)


def _run(steps: Sequence[Step], program: Program, memory: Memory, reverse: bool) -> None:
    parts: dict[PartOf, bytes] = {}  # as they were put into their arrays last
    for step in steps:
        if isinstance(step, PartOf):
            parts[step] = b""
            continue
        _step(step, program, memory, reverse)
        for part, before in reversed(parts.items()):  # those of a part before it
            parts[part] = memory[part.slot].tobytes()
            if parts[part] != before:
                _put_into(part, program, memory)
    for step in steps:
        if isinstance(step, Look):
            _put_back(step.windows, int(memory[step.number]), program, memory)


def _put_into(part: PartOf, program: Program, memory: Memory) -> None:
    """What was written into a part of an array."""
    first, written = program.table[part.start], memory[part.slot]
    whole = memory[part.base].reshape(-1).view(np.uint8)
    whole[first : first + written.nbytes] = written.reshape(-1).view(np.uint8)


def _step(step: Step, program: Program, memory: Memory, reverse: bool) -> None:
    if isinstance(step, Launch):
        _launch(step, program.table, memory, reverse)
    elif isinstance(step, Copy):
        memory[step.target] = memory[step.source].reshape(memory[step.target].shape).copy()
    elif isinstance(step, Callback):
        _call(program.callbacks[step.number], memory)
    elif isinstance(step, Multiply):
        _product(step, program.table, memory)
    elif isinstance(step, ScatterStep):
        _scatter(step, program.table, memory)
    elif isinstance(step, BranchStep):
        arm = min(max(int(memory[step.index]), 0), len(step.arms) - 1)
        _run(step.arms[arm], program, memory, reverse)
    elif isinstance(step, Scan):
        _scan(step, program, memory, reverse)
    elif isinstance(step, Repeat):
        _run(step.cond, program, memory, reverse)
        _repeat(step, program, memory, reverse)
    else:
        _show(step.windows, int(memory[step.number]), memory)


def _show(windows: Sequence[Window], i: int, memory: Memory) -> None:
    """Copies of element i of what windows look at."""
    for window in windows:
        value = memory[window.base][i]  # a number too is an array
        memory[window.slot] = list(value) if isinstance(value, list) else np.array(value)


def _put_back(windows: Sequence[Window], i: int, program: Program, memory: Memory) -> None:
    """What was written into windows on element i; tapes are lists."""
    for window in windows:
        if window.written:
            planned, value = program.slots[window.slot].aval, memory[window.slot]
            memory[window.base][i] = value if is_tape(planned) else value.reshape(planned.shape)


def _repeat(step: Repeat, program: Program, memory: Memory, reverse: bool) -> None:
    tapes: list[list[Any]] = [[] for _ in step.record]
    turns = 0
    while memory[step.predicate]:
        _run(step.body, program, memory, reverse)
        _run(step.cond, program, memory, reverse)
        for tape, window in zip(tapes, step.record, strict=True):
            tape.append(memory[window.slot])
            memory[window.slot] = _rubbish(program.slots[window.slot].aval)
        turns += 1
    for tape, window in zip(tapes, step.record, strict=True):
        memory[window.base] = tape
    if step.count is not None:
        memory[step.count] = np.array(turns, np.int64)


def _scan(step: Scan, program: Program, memory: Memory, reverse: bool) -> None:
    turns = range(iterations_of(step, program, memory))
    for window in step.windows:
        if window.written and is_tape(program.slots[window.base].aval):
            element = program.slots[window.slot].aval
            memory[window.base] = [_rubbish(element) for _ in turns]
    for i in reversed(turns) if step.reverse else turns:
        _show(step.windows, i, memory)
        _run(step.body, program, memory, reverse)
        _put_back(step.windows, i, program, memory)


def _launch(launch: Launch, table: Sequence[int], memory: Memory, reverse: bool) -> None:
    buffers: dict[str, Any] = {}
    for buffer, operand in zip(launch.kernel.buffers, launch.operands, strict=True):
        base = memory[operand.slot].reshape(-1).view(buffer.dtype)
        numbers = iter(operand.steps)
        steps = tuple(
            table[next(numbers)] if c == "any" else 1 if c == "one" else -1 for c in buffer.steps
        )
        offset = table[operand.offset] // base.dtype.itemsize
        buffers[buffer.name] = (base, offset, steps)
    scalars = [
        _number(table[entry], var.dtype)
        for var, entry in zip(launch.kernel.scalars, launch.scalars, strict=True)
    ]
    run(launch.kernel, buffers, scalars, reverse=reverse)


def _product(step: Multiply, table: Sequence[int], memory: Memory) -> None:
    numbers = table[step.numbers : step.numbers + 11]
    batch, (m, n, k, lda, ldb), steps = numbers[:2], numbers[2:7], numbers[7:]
    lhs, rhs = step.transposed
    a = _matrices(memory[step.lhs], (*batch, m, k), (*steps[:2], *_steps(lda, lhs)))
    b = _matrices(memory[step.rhs], (*batch, k, n), (*steps[2:], *_steps(ldb, rhs)))
    memory[step.out] = np.matmul(a, b).reshape(memory[step.out].shape)


def _scatter(step: ScatterStep, table: Sequence[int], memory: Memory) -> None:
    count, many, size = table[step.numbers : step.numbers + 3]
    out = memory[step.out].reshape(many, size)
    updates = memory[step.updates].reshape(count, size)
    for i, place in enumerate(memory[step.places].reshape(-1)):
        place += many * (place < 0)
        if 0 <= place < many:
            ufunc = COMBINING[step.combine]
            out[place] = updates[i] if ufunc is None else ufunc(out[place], updates[i])


COMBINING = {
    "set": None,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def _steps(leading: int, transposed: bool) -> tuple[int, int]:
    return (1, leading) if transposed else (leading, 1)


def _matrices(array: Any, shape: Sequence[int], steps: Sequence[int]) -> Any:
    """A view of an array."""
    strides = [s * array.itemsize for s in steps]
    flat = array.reshape(-1)
    reached = sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
    assert 0 <= reached < flat.size
    return np.lib.stride_tricks.as_strided(flat, shape, strides, writeable=False)


def _number(bits: int, dtype: str) -> Any:
    """A table entry as a scalar."""
    whole = np.array([bits], np.int64)
    return whole.view(dtype)[0] if dtype[0] == "f" else whole.astype(dtype)[0]


def _call(call: CallStep, memory: Memory) -> None:
    """Evaluate a row on slots."""
    operands: list[Any] = []
    for atom, slot in zip(call.eqn.invars, call.operands, strict=True):
        value = atom.value if slot is None else memory[slot].reshape(atom.aval.shape)
        if slot is not None and not atom.aval.shape:
            value = value.item() if atom.aval.weak else value[()]
        operands.append(value)
    found = call.eqn.primitive(*operands, **call.eqn.params)
    outs = found if call.eqn.primitive.multiple else [found]
    for value, slot in zip(outs, call.results, strict=True):
        memory[slot] = np.array(value, memory[slot].dtype, order="C")

"""Sizes and steps for a compiled loop of NumPy's: how it passes over the arrays of a row.

A loop of a gufunc passes one axis of a batch by itself, and works on core axes in each iteration;
both may have any steps. Axes of the batch that lie behind each other in all arrays count as one,
and axes of size 1 as none; the longest is the loop's own, and what remains are loops around it.
NumPy goes over the same elements in another order, which no result shows.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.jaxpr import Eqn, Literal
from ftrace.core.lower import Cores, GufuncCall
from ftrace.lowering.machine import InnerLoop


class LoopNumbers(NamedTuple):
    """What a loop is told.

    Attributes:
        numbers: the sizes of the loops around it; for each of these, the bytes to the next
            iteration in every argument; then its own dimensions (of the batch, and of the core
            axes), and its steps in bytes (of every argument, then of the core axes of each).
        depth: the number of loops around it.
        cores: the number of sizes of core axes.
    """

    numbers: tuple[int, ...]
    depth: int
    cores: int


def operand_types(eqn: Eqn, call: GufuncCall) -> list[np.dtype[Any]]:
    """The dtypes in which a loop is given the operands of an equation.

    Literals are given as the loop wants them, Python's numbers among them as the others.
    """
    strong = [a.aval.dtype for a in eqn.invars if not a.aval.weak]
    found = [a.aval.dtype for a in eqn.invars]
    literals = [i for i, a in enumerate(eqn.invars) if type(a) is Literal]
    for i in literals:
        if eqn.invars[i].aval.weak and strong:
            found[i] = strong[0]
    for x in call.inputs:
        if isinstance(x, Cores) and x.dtype is not None and x.at in literals:
            found[x.at] = x.dtype
    return found


def inner_loop(eqn: Eqn, call: GufuncCall) -> InnerLoop | None:
    """The loop that takes the types of an equation; None where it would not take an operand so."""
    types = operand_types(eqn, call)
    if any(isinstance(x, Cores) and x.dtype not in (None, types[x.at]) for x in call.inputs):
        return None
    given = [types[x.at] if isinstance(x, Cores) else x.dtype for x in call.inputs]
    chars = ["".join(d.char for d in ds) for ds in (given, [a.dtype for _, a in _made(eqn, call)])]
    return InnerLoop(call.module, call.name, call.signature, "->".join(chars))


def _made(eqn: Eqn, call: GufuncCall) -> list[tuple[tuple[int | None, ...], ShapedArray]]:
    """The core axes and the type of each output."""
    return [
        (x.axes, eqn.outvars[x.at].aval) if isinstance(x, Cores) else ((), x) for x in call.outputs
    ]


def _given(eqn: Eqn, call: GufuncCall) -> list[tuple[tuple[int | None, ...], ShapedArray]]:
    """The core axes and the type of each input."""
    return [
        (x.axes, eqn.invars[x.at].aval) if isinstance(x, Cores) else ((), aval((), x.dtype))
        for x in call.inputs
    ]


def loop_numbers(eqn: Eqn, call: GufuncCall) -> LoopNumbers | None:
    """How a loop passes over the arrays of an equation; None where their axes do not fit."""
    pairs = [*_given(eqn, call), *_made(eqn, call)]
    arguments = [_argument(a, axes) for axes, a in pairs]
    cores = _core_sizes(call.signature, arguments)
    axes = _batch(arguments, len(call.outputs))
    if cores is None or axes is None:
        return None
    own = max(range(len(axes)), key=lambda i: axes[i][0], default=None)
    inner = (1, (0,) * len(arguments)) if own is None else axes.pop(own)
    numbers = [size for size, _ in axes]
    for _, steps in axes:
        numbers += steps
    numbers += [inner[0], *cores, *inner[1]]
    for argument in arguments:
        numbers += [step for _, step in argument.core]
    return LoopNumbers(tuple(numbers), len(axes), len(cores))


class _Argument(NamedTuple):
    """(size, step in bytes) of the axes of an array: those of the batch, and the core axes."""

    batch: tuple[tuple[int, int], ...]
    core: tuple[tuple[int, int], ...]


def _argument(a: ShapedArray, core: Sequence[int | None]) -> _Argument:
    found = [(n, a.dtype.itemsize * prod(a.shape[i + 1 :])) for i, n in enumerate(a.shape)]
    places = [None if i is None else i % a.ndim for i in core]
    batch = (pair for i, pair in enumerate(found) if i not in places)
    return _Argument(tuple(batch), tuple((1, 0) if i is None else found[i] for i in places))


def _core_sizes(signature: str, arguments: Sequence[_Argument]) -> list[int] | None:
    """The sizes of the core axes in the order in which a signature names them first."""
    sizes: dict[str, int] = {}
    for names, argument in zip(core_names(signature), arguments, strict=True):
        if len(names) != len(argument.core):
            return None
        for name, (size, _) in zip(names, argument.core, strict=True):
            if sizes.setdefault(name, size) != size:
                return None
    return list(sizes.values())


def core_names(signature: str) -> list[tuple[str, ...]]:
    """The names of the core axes of each argument: `(m,n),()->(m)` has m, n; none; m."""
    sides = "".join(signature.split()).replace("->", ",")
    return [tuple(filter(None, a.split(","))) for a in sides[1:-1].split("),(")]


def _batch(
    arguments: Sequence[_Argument], outputs: int
) -> list[tuple[int, tuple[int, ...]]] | None:
    """The axes of a batch as few (size, steps); operands without one, or of size 1, stay in place.

    The last arguments are outputs, which have an element for each iteration.
    """
    rank = max(len(a.batch) for a in arguments)
    found: list[tuple[int, tuple[int, ...]]] = []
    for axis in range(-rank, 0):
        here = [a.batch[axis] if -axis <= len(a.batch) else (1, 0) for a in arguments]
        size = max(n for n, _ in here) if all(n for n, _ in here) else 0
        if any(n not in (1, size) for n, _ in here) or any(n != size for n, _ in here[-outputs:]):
            return None
        steps = tuple(0 if n == 1 else step for n, step in here)
        if size == 1:
            continue
        if found and found[-1][1] == tuple(size * s for s in steps):
            found[-1] = (found[-1][0] * size, steps)
        else:
            found.append((size, steps))
    return found

"""Tapes: what the iterations of a loop leave, where their number is known only when it has run.

The type of a tape is that of an array whose leading axis has the length `TURNS`; its value is an
ordinary array, or `Ragged` where the iterations leave tapes of different lengths themselves. Tapes
are residuals: the known half of a loop makes them, the linear half reads them, users never see one.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.core.avals import TYPEOF, ShapedArray, aval
from ftrace.core.device import is_array, made_of, stacked


class _Turns(int):
    """Prints as what it stands for, and equals nothing else: no number is a length like it."""

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "turns"

    __str__ = __repr__


TURNS: Final = _Turns(-1)


def tape(a: ShapedArray) -> ShapedArray:
    """The type of a tape of elements of type `a`."""
    return aval((TURNS, *a.shape), a.dtype)


def is_tape(a: ShapedArray) -> bool:
    """Whether a length of an abstract value is known only at run time."""
    return any(n is TURNS for n in a.shape)


def levels(a: ShapedArray) -> int:
    """How many stacks of different lengths a value is: 0 for an array, 1 for a tape of arrays."""
    return max((i + 1 for i, n in enumerate(a.shape) if n is TURNS), default=0)


def rows(n: int, a: ShapedArray, listed: bool = False) -> Any:
    """Where n elements of type `a` are put one by one.

    It is an array, or a list to be stacked: of tapes, and (`listed`) of arrays of a device.
    """
    return [None] * n if listed or is_tape(a) else np.empty((n, *a.shape), a.dtype)


def stack(values: Sequence[Any], a: ShapedArray) -> Any:
    """The elements of type `a` that iterations left, as one value."""
    if is_tape(a):
        return Ragged(values, a)
    found = stacked(values)
    if found is not None:
        return found
    return made_of(np.array(values, a.dtype).reshape(len(values), *a.shape), values)


class Ragged:
    """A stack of tapes of different lengths.

    Attributes:
        items: the tapes; a list, or what native code left (cpu/runtime/blocks.py).
        aval: its type.
    """

    __slots__ = ("aval", "items")

    def __init__(self, items: Sequence[Any], element: ShapedArray) -> None:
        self.items = items
        self.aval = aval((len(self.items), *element.shape), element.dtype)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]

    def element(self) -> ShapedArray:
        """The type of an item."""
        return aval(self.aval.shape[1:], self.aval.dtype)

    def transpose(self, axes: Sequence[int]) -> Any:
        """Another order of the axes."""
        first, rest = axes[0], axes[1:]
        shape = self.aval.shape
        element = aval(tuple(shape[i] for i in rest), self.aval.dtype)
        inner = tuple(i - (i > first) for i in rest)
        parts = [_taken(self, i, first) for i in range(_length(self, first))]
        return _joined([np.transpose(x, inner) for x in parts], element)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any) -> Any:
        """Elementwise operations, item by item: cotangents of tapes are added."""
        a, b = (x.items if isinstance(x, Ragged) else x for x in inputs)
        return _joined([ufunc(x, y) for x, y in zip(a, b, strict=True)], self.element())

    def __add__(self, other: Any) -> Any:
        return self.__array_ufunc__(np.add, "__call__", self, other)


def _length(x: Any, axis: int) -> int:
    """How long an axis is that can be moved: of the same length in every stack."""
    if not isinstance(x, Ragged):
        return x.shape[axis]
    if not axis:
        return len(x.items)
    return _length(x.items[0], axis - 1) if len(x.items) else 0


def _taken(x: Any, i: int, axis: int) -> Any:
    """Element i along an axis of a stack of tapes, or of a tape."""
    if not isinstance(x, Ragged):
        return np.take(x, i, axis)
    if not axis:
        return x[i]
    shape = x.aval.shape
    element = aval(shape[1:axis] + shape[axis + 1 :], x.aval.dtype)
    return _joined([_taken(item, i, axis - 1) for item in x.items], element)


def _joined(items: list[Any], element: ShapedArray) -> Any:
    """A stack of tapes; an array where they have the same length."""
    if not items or not all(is_array(x) and x.shape == items[0].shape for x in items):
        return Ragged(items, element)
    found = stacked(items)
    return np.stack(items) if found is None else found


TYPEOF[Ragged] = lambda x: x.aval

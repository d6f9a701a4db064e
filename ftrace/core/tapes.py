"""Tapes: what the turns of a loop leave, where their number is known only when it has run.

The type of a tape is that of an array whose leading axis has the length `TURNS`; its value is an
ordinary array, or `Ragged` where the turns leave tapes of different lengths themselves. Tapes are
residuals: the known half of a loop makes them, the linear half reads them, users never see one.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.core.avals import TYPEOF, ShapedArray, aval


class _Turns(int):
    """Prints as what it stands for."""

    def __repr__(self) -> str:
        return "turns"

    __str__ = __repr__


TURNS: Final = _Turns(-1)


def tape(a: ShapedArray) -> ShapedArray:
    """The type of a tape of elements of type `a`."""
    return aval((TURNS, *a.shape), a.dtype)


def has_turns(a: ShapedArray) -> bool:
    """Whether a length of an abstract value is known only at run time."""
    return any(n is TURNS for n in a.shape)


def stack(values: Sequence[Any], a: ShapedArray) -> Any:
    """The elements of type `a` that turns left, as one value."""
    if has_turns(a):
        return Ragged(values, a)
    return np.array(values, a.dtype).reshape(len(values), *a.shape)


class Ragged:
    """A stack of tapes of different lengths.

    Attributes:
        items: the tapes.
        aval: its type.
    """

    __slots__ = ("aval", "items")

    def __init__(self, items: Sequence[Any], element: ShapedArray) -> None:
        self.items = list(items)
        self.aval = aval((len(self.items), *element.shape), element.dtype)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]

    def __setitem__(self, i: int, value: Any) -> None:
        self.items[i] = value

    def element(self) -> ShapedArray:
        """The type of an item."""
        return aval(self.aval.shape[1:], self.aval.dtype)

    def transpose(self, axes: Sequence[int]) -> "Ragged":
        """Another order of the axes, of which the first stays the first."""
        inner = tuple(i - 1 for i in axes[1:])
        shape = tuple(self.aval.shape[i] for i in axes[1:])
        return Ragged([np.transpose(x, inner) for x in self.items], aval(shape, self.aval.dtype))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any) -> "Ragged":
        """Elementwise operations, item by item: cotangents of tapes are added."""
        a, b = (x.items for x in inputs)
        return Ragged([ufunc(x, y) for x, y in zip(a, b, strict=True)], self.element())


TYPEOF[Ragged] = lambda x: x.aval

"""The symbolic zero tangent: nothing is computed, stored or added for it.

Inside traces it is the singleton `ZERO`; its aval is always that of the primal beside it. Users'
rules that ask for symbolic zeros get `SymbolicZero(aval)`.
"""

from types import FunctionType
from typing import Any, Final

from ftrace.core.avals import ShapedArray

Region = tuple[tuple[int, int, int], ...]  # start, limit and stride of each axis
Holes = tuple[Region, ...] | None


class Zero:
    """The type of `ZERO`; test with `t is ZERO`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Zero"


ZERO: Final = Zero()


class SymbolicZero:
    """A zero tangent or cotangent as users' rules see it: a shape and a dtype, no memory."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"


class Masked:
    """A cotangent that is exactly zero, whatever its numbers say, where `mask` is False.

    `select` and writes make them, so that an untaken side and an overwritten element contribute
    nothing even when a later factor is infinite or NaN. Rows say in their `mask` column how one
    crosses them. A mask may be given as a function: it is computed when it is asked for, once.
    """

    __slots__ = ("_mask", "holes", "read", "value", "zeroed")

    def __init__(
        self,
        value: Any,
        mask: Any,
        zeroed: bool = False,
        holes: Holes = None,
        read: bool = False,
    ) -> None:
        self.value = value
        self._mask = mask
        self.zeroed = zeroed  # its numbers are zeros there, too
        self.holes = holes  # slices outside of which the mask is True, if that is known
        self.read = read  # it says where something was read, which matters beside another mask only

    @property
    def mask(self) -> Any:
        if type(self._mask) is FunctionType:
            self._mask = self._mask()
        return self._mask

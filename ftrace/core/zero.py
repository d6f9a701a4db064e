"""The symbolic zero tangent: nothing is computed, stored or added for it.

Inside traces it is the singleton `ZERO`; its aval is always that of the primal beside it. Users'
rules that ask for symbolic zeros get `SymbolicZero(aval)`.
"""

from typing import Any, Final

from ftrace.core.avals import ShapedArray


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

    `select` makes them, so that an untaken side contributes nothing even when a later factor is
    infinite or NaN. Rows say in their `mask` column how one crosses them.
    """

    __slots__ = ("mask", "value", "zeroed")

    def __init__(self, value: Any, mask: Any, zeroed: bool = False) -> None:
        self.value = value
        self.mask = mask
        self.zeroed = zeroed  # its numbers are zeros there, too

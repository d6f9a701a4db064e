"""The symbolic zero tangent: nothing is computed, stored or added for it.

Inside traces it is the singleton `ZERO`; its aval is always that of the primal beside it. Users'
rules that ask for symbolic zeros get `SymbolicZero(aval)`.
"""

from contextlib import suppress
from types import FunctionType
from typing import Any, Final, NamedTuple

from ftrace.core.avals import ShapedArray
from ftrace.core.trace import EVAL, ctx

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


class Reads(NamedTuple):
    """The slices of an array that were read, as a cotangent whose terms are not added yet.

    Attributes:
        shape: of the array.
        parts: the cotangent of each slice.
        rest: the cotangent of the whole array by its other uses, or None.
    """

    shape: tuple[int, ...]
    parts: dict[Region, Any]
    rest: Any = None


class Masked:
    """A cotangent that is exactly zero, whatever its numbers say, where `mask` is False.

    `select` and writes make them, so that an untaken side and an overwritten element contribute
    nothing even when a later factor is infinite or NaN. Rows say in their `mask` column how one
    crosses them. A mask may be given as a function: it is computed when it is asked for, once. One
    that is `fixed` may be asked for twice, as a value of the trace that runs and as a plain array.
    So may the value of what was read in slices be a function; `reads` are these.
    """

    __slots__ = (
        "_known",
        "_mask",
        "_staged",
        "_value",
        "branch",
        "computed",
        "fixed",
        "holes",
        "read",
        "reads",
        "zeroed",
    )

    def __init__(
        self,
        value: Any,
        mask: Any,
        zeroed: bool = False,
        holes: Holes = None,
        read: bool = False,
        reads: Reads | None = None,
    ) -> None:
        self._value = value
        self.reads = reads
        self._mask = mask
        self._staged: Any = None
        self._known: Any = None
        self.zeroed = zeroed  # its numbers are zeros there, too
        self.holes = holes  # slices outside of which the mask is True, if that is known
        self.fixed = False  # shapes and known indices alone decide the mask
        self.computed = False  # it was read at a computed place: beside another mask it is plain
        self.branch = False  # batch elements took another branch: what is known may be infinite
        self.read = read  # it says where something was read, which matters beside another mask only

    @property
    def value(self) -> Any:
        if type(self._value) is FunctionType:
            self._value = self._value()
        return self._value

    @property
    def mask(self) -> Any:
        """The mask. Those that it is made of are made first: a chain of them has any length."""
        if type(self._mask) is not FunctionType:
            return self._mask
        waiting: list[Masked] = [self]
        seen: set[int] = set()
        while waiting:
            last = waiting[-1]
            if last._is_made():
                waiting.pop()
            elif id(last) not in seen:
                seen.add(id(last))
                waiting += (m for m in _asked(last._mask) if not m._is_made())
            else:
                last._make()
        if not self.fixed:
            return self._mask
        return self._known if ctx.trace is EVAL else self._staged

    def _is_made(self) -> bool:
        """Whether the mask is known, where it is fixed by the trace that runs."""
        if type(self._mask) is not FunctionType:
            return True
        return self.fixed and (self._known if ctx.trace is EVAL else self._staged) is not None

    def _make(self) -> None:
        if not self.fixed:
            self._mask = self._mask()
        elif ctx.trace is EVAL:
            self._known = self._mask()
        else:
            self._staged = self._mask()

    def with_value(self, value: Any, mask: Any) -> "Masked":
        """Another cotangent of which as much is known; its mask is made from this one's."""
        found = Masked(value, mask, self.zeroed, read=self.read)
        found.fixed, found.computed, found.branch = self.fixed, self.computed, self.branch
        return found


def _asked(function: Any) -> list[Masked]:
    """The masked cotangents that a function which makes a mask refers to."""
    found: list[Masked] = []
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        x = waiting.pop()
        if type(x) is Masked:
            found.append(x)
            continue
        if type(x) in (list, tuple):
            waiting += x
            continue
        x = getattr(x, "__wrapped__", x)
        if type(x) is FunctionType and id(x) not in seen:
            seen.add(id(x))
            waiting += x.__defaults__ or ()
            for cell in x.__closure__ or ():
                with suppress(ValueError):  # an empty cell
                    waiting.append(cell.cell_contents)
    return found

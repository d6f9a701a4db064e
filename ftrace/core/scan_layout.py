"""How the operands of a `scan` are laid out: plain data that its rules and its lowering share."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class ScanLoop(NamedTuple):
    """How a scan runs, and how its operands are to be read.

    Attributes:
        length: the number of iterations; None where it is the first operand.
        reverse: whether the last element comes first.
        n_consts, n_carry: how many operands there are of these kinds.
        again: what gives the row of the linear half and its params, of `ScanHalves`, if nothing but
            the operands is kept for it, and how many states the way back may keep; None if what
            the iterations leave is kept.
    """

    length: int | None
    reverse: bool
    n_consts: int
    n_carry: int
    again: tuple[Any, int] | None = None

    def with_more(self, consts: int, carry: int) -> "ScanLoop":
        """The same loop with more operands."""
        return self._replace(n_consts=self.n_consts + consts, n_carry=self.n_carry + carry)


class ScanHalves(NamedTuple):
    """The two halves of the body of a scan with `again`.

    Attributes:
        known: (consts, carry, x) -> (carry, y, residuals), all known.
        n_known: how many of its results are not residuals.
        linear: (passed consts, consts, carry, residuals, passed x, x) -> (carry, y); what is
            passed are known consts and xs.
        sizes: numbers of known consts, carries and xs, then of unknown ones.
        consts, xs: which of the known ones are passed.
        length, reverse, slots: of the scan.
    """

    known: Any
    n_known: int
    linear: Any
    sizes: tuple[int, ...]
    consts: tuple[int, ...]
    xs: tuple[int, ...]
    length: int
    reverse: bool
    slots: int


class Each(NamedTuple):
    """What one member of a mapped `while` does: its condition and body."""

    cond: Any
    body: Any


class ScanParts(NamedTuple):
    """The operands of a scan, or anything else there is one of for each."""

    turns: tuple[Any, ...]
    consts: tuple[Any, ...]
    carry: tuple[Any, ...]
    xs: tuple[Any, ...]


def parts(values: Sequence[Any], loop: ScanLoop) -> ScanParts:
    """Cut a list that has an entry for each operand of a scan."""
    first = int(loop.length is None)
    second = first + loop.n_consts
    third = second + loop.n_carry
    values = tuple(values)
    return ScanParts(values[:first], values[first:second], values[second:third], values[third:])


def cut(values: Sequence[Any], sizes: Sequence[int]) -> list[Sequence[Any]]:
    """A list as parts of these sizes; the last part may be shorter."""
    found, start = [], 0
    for n in sizes:
        found.append(values[start : start + n])
        start += n
    return found


def select_by(values: Sequence[Any], flags: Sequence[bool], wanted: bool) -> tuple[Any, ...]:
    """The values whose flag is as wanted."""
    return tuple(v for v, f in zip(values, flags, strict=True) if f is wanted)

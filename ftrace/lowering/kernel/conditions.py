"""Conditions as truth tables over the boolean variables that decide.

Bit i of a table says what holds when variable k is bit k of i, so that conjunction, disjunction
and implication are those of integers, and equal conditions are equal numbers.
"""

from collections.abc import Callable, Mapping
from typing import Final

from ftrace.lowering.kernel.builder import folded
from ftrace.lowering.kernel.ir import Atom, KernelVar, Let, Lit, Stmt

DECIDING: Final = 8  # variables; what depends on more of them is not told
BITS: Final = 1 << DECIDING
ALWAYS: Final = (1 << BITS) - 1
COLUMNS: Final = tuple(sum(1 << i for i in range(BITS) if i >> k & 1) for k in range(DECIDING))

_COMBINED: Final[dict[str, Callable[..., int]]] = {
    "not": lambda a: ALWAYS ^ a,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "select": lambda c, a, b: (c & a) | (ALWAYS & ~c & b),
}


class Conditions:
    """The conditions of one block.

    Args:
        made: the statements that bind the variables of the block.
    """

    def __init__(self, made: Mapping[KernelVar, Stmt]) -> None:
        self._made = made
        self._deciding: list[KernelVar] = []

    def table(self, atom: Atom) -> int | None:
        """When a boolean holds; None if it cannot be told."""
        if isinstance(atom, Lit):
            return ALWAYS if atom.value else 0
        stmt = self._made.get(atom)
        if isinstance(stmt, Let) and stmt.op in ("not", "and", "or", "select"):
            tables = [t for a in stmt.args if (t := self.table(a)) is not None]
            if len(tables) < len(stmt.args):
                return None
            return _COMBINED[stmt.op](*tables)
        if atom not in self._deciding:
            if len(self._deciding) == DECIDING:
                return None
            self._deciding.append(atom)
        return COLUMNS[self._deciding.index(atom)]

    def support(self, table: int) -> list[KernelVar]:
        """The variables that a table depends on."""
        parts = ((v, _part(table, k, 0), _part(table, k, 1)) for k, v in enumerate(self._deciding))
        return [v for v, no, yes in parts if no != yes]

    def written(
        self, table: int, fresh: Callable[[str], KernelVar], out: list[Stmt], k: int = 0
    ) -> Atom:
        """A table as operations on the variables it depends on, which are added to `out`."""

        def let(op: str, *args: Atom) -> Atom:
            known = folded(op, args)
            if known is not None:
                return known
            var = fresh("b1")
            out.append(Let(var, op, args))
            return var

        if table in (0, ALWAYS):
            return Lit(table != 0, "b1")
        no, yes = _part(table, k, 0), _part(table, k, 1)
        if no == yes:
            return self.written(table, fresh, out, k + 1)
        var = self._deciding[k]
        then, orelse = (self.written(t, fresh, out, k + 1) for t in (yes, no))
        if yes == ALWAYS:
            return let("or", var, orelse)
        if no == 0:
            return let("and", var, then)
        if yes == 0:
            return let("and", let("not", var), orelse)
        if no == ALWAYS:
            return let("or", let("not", var), then)
        return let("select", var, then, orelse)


def _part(table: int, k: int, value: int) -> int:
    """A table where variable k has a value: a table that does not depend on it."""
    width = 1 << k
    kept = table & COLUMNS[k] if value else table & ~COLUMNS[k]
    return kept | (kept >> width if value else kept << width)

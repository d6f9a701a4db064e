"""Quotients of float32 whose denominator cannot be less than one, as in a sigmoid.

The device divides by a subroutine: a quotient may overflow, or be subnormal where it was computed
from what is not. From one on there is nothing of that kind: a reciprocal that is corrected once is
the nearest number (below 2^-126 a few are next to it), and so is the quotient of a reciprocal and
its own denominator, which the derivative of a reciprocal asks for. What is looked at are the
operations that made a value.
"""

from collections.abc import Mapping

from ftrace.lowering.kernel.ir import Atom, Let, Lit

Definitions = Mapping[int, Let]


def quotient(stmt: Let, made: Definitions) -> str:
    """The device function that does a division for its denominator alone, or nothing.

    Args:
        stmt: an operation.
        made: the operations before it, by the id of their result.
    """
    if stmt.op != "div" or stmt.out.dtype != "f4" or not _from_one(stmt.args[1], made):
        return ""
    above, below = stmt.args
    if _is_one(above):
        return "ft_reciprocal_f4"
    found = made.get(above.id) if not isinstance(above, Lit) else None
    if found is not None and found.op == "div" and found.args[1] == below:
        return "ft_reciprocal_square_f4" if _is_one(found.args[0]) else ""
    return ""


def _is_one(atom: Atom) -> bool:
    return isinstance(atom, Lit) and atom.value == 1


def _from_one(atom: Atom, made: Definitions) -> bool:
    """Whether a value is at least one, or NaN."""
    if isinstance(atom, Lit):
        return bool(atom.value >= 1)
    found = made.get(atom.id)
    if found is None:
        return False
    if found.op == "add":
        a, b = found.args
        return any(_from_one(x, made) and _positive(y, made) for x, y in ((a, b), (b, a)))
    return found.op == "cosh"


def _positive(atom: Atom, made: Definitions) -> bool:
    """Whether a value is zero or more, or NaN."""
    if isinstance(atom, Lit):
        return bool(atom.value >= 0)
    found = made.get(atom.id)
    if found is None:
        return False
    if found.op == "mul" and found.args[0] == found.args[1]:
        return True
    if found.op in ("add", "mul"):
        return all(_positive(a, made) for a in found.args)
    return found.op in ("exp", "abs", "cosh")

"""How each scalar operation of `core/scalar.py` is written in LLVM, lane by lane.

The exact operations are here and in the files beside it (casts.py, division.py, rounding.py);
those with rounding of their own come from `mathematics/`. Every spelling is total: no operand
makes it trap or gives an undefined value, so inactive lanes need no care.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ftrace.core.errors import BackendError
from ftrace.cpu.llvm.casts import bitcast, cast
from ftrace.cpu.llvm.division import divide_op
from ftrace.cpu.llvm.rounding import round_op
from ftrace.cpu.llvm.text import LLVM_TYPE, Text, Typed
from ftrace.cpu.llvm.vector_idioms import invert
from ftrace.cpu.mathematics.functions_table import SPELLINGS

Spelling = Callable[[Text, str, Sequence[Typed]], Typed]


def spell(text: Text, op: str, args: Sequence[Typed], out: str) -> Typed:
    """Write one operation.

    Args:
        text: where to.
        op: a name of `core/scalar.py`.
        args: operands of one number of lanes.
        out: dtype of the result.

    Raises:
        BackendError: the operation has no spelling on this backend.
    """
    if op == "cast":
        return cast(text, args[0], out)
    if op == "bitcast":
        return bitcast(text, args[0], out)
    if op in EXACT:
        return EXACT[op](text, op, args)
    if op in SPELLINGS:
        return SPELLINGS[op](text, *args)
    raise BackendError(f"The CPU backend has no spelling of the operation {op}.")


def compare(text: Text, op: str, a: Typed, b: Typed) -> Typed:
    """eq, ne, lt, le, gt, ge; NaN is unequal to everything."""
    kind = a.dtype[0]
    if kind == "f":
        return text.compare("une" if op == "ne" else "o" + op, a, b)
    if op in ("eq", "ne"):
        return text.compare(op, a, b)
    return text.compare(("s" if kind == "i" else "u") + op, a, b)


def _compare(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    return compare(text, op, *args)


def _arithmetic(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    return text.op(f"f{op}" if args[0].dtype[0] == "f" else op, *args)


def _bitwise(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    return text.op(op, *args)


def _neg(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    (a,) = args
    return text.fneg(a) if a.dtype[0] == "f" else text.sub(text.like(a, 0), a)


def _abs(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    (a,) = args
    if a.dtype[0] == "f":
        return text.fabs(a)
    if a.dtype[0] == "u":
        return a
    return text.select(text.compare("slt", a, text.like(a, 0)), _neg(text, op, args), a)


def _sqrt(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    return text.intrinsic("sqrt", args)


def _extreme(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    """NaN propagates, the first one if both are; of equal operands the second, as NumPy."""
    a, b = args
    if a.dtype == "b1":
        return text.op("or" if op == "max" else "and", a, b)
    better = extreme_of(text, op, a, b)
    if a.dtype[0] != "f":
        return better
    return text.select(text.compare("uno", a, a), a, better)


def extreme_of(text: Text, op: str, a: Typed, b: Typed) -> Typed:
    """max or min without care for NaN: the second operand if they are equal or unordered."""
    return text.select(compare(text, "gt" if op == "max" else "lt", a, b), a, b)


def _round(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    return round_op(text, op, args[0])


def _copysign(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    return text.intrinsic("copysign", args)


def _signbit(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    bits = bitcast(text, args[0], "i" + args[0].dtype[1:])
    return text.compare("slt", bits, text.like(bits, 0))


def _divide(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    return divide_op(text, op, *args)


def _not(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    return invert(text, args[0])


def _shift(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    """Counts of the width and more, or negative ones, shift everything out."""
    a, count = args
    last = int(LLVM_TYPE[a.dtype][1:]) - 1
    inside = text.compare("ule", count, text.like(a, last))
    if op == "shift_right" and a.dtype[0] == "i":
        return text.op("ashr", a, text.select(inside, count, text.like(a, last)))
    safe = text.select(inside, count, text.like(a, 0))
    moved = text.op("shl" if op == "shift_left" else "lshr", a, safe)
    return text.select(inside, moved, text.like(a, 0))


def _select(text: Text, op: str, args: Sequence[Typed]) -> Typed:
    cond, a, b = args
    if a.dtype != "b1":
        return text.select(cond, a, b)
    return text.op("or", text.op("and", cond, a), text.op("and", invert(text, cond), b))


EXACT: Final[dict[str, Spelling]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), _arithmetic),
    **dict.fromkeys(("and", "or", "xor"), _bitwise),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _compare),
    **dict.fromkeys(("max", "min"), _extreme),
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), _round),
    **dict.fromkeys(("floor_divide", "mod", "rem"), _divide),
    **dict.fromkeys(("shift_left", "shift_right"), _shift),
    "neg": _neg,
    "abs": _abs,
    "sqrt": _sqrt,
    "copysign": _copysign,
    "signbit": _signbit,
    "not": _not,
    "select": _select,
}

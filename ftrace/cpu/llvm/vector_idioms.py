"""Small vector idioms that the emitters share: iota, parts, reversal, single lanes.

Kept apart from `Text`, which knows instructions but no idioms. All of them accept scalars where
that has a meaning, so that code for one lane is written by the same calls.
"""

from collections.abc import Sequence

from ftrace.cpu.llvm.text import LLVM_TYPE, Text, Typed, type_of


def iota(dtype: str, lanes: int) -> Typed:
    """The constant 0, 1, 2 ... of an integer type, for two lanes or more."""
    kind = LLVM_TYPE[dtype]
    return Typed(f"<{', '.join(f'{kind} {i}' for i in range(lanes))}>", dtype, lanes)


def zero(dtype: str, lanes: int) -> Typed:
    """Zero in every lane."""
    if lanes > 1:
        return Typed("zeroinitializer", dtype, lanes)
    return Typed("false" if dtype == "b1" else "0.0" if dtype[0] == "f" else "0", dtype, 1)


def shuffle(text: Text, v: Typed, order: range) -> Typed:
    """The lanes of a vector in another order, or some of them."""
    kind = type_of(v.dtype, v.lanes)
    picks = ", ".join(f"i32 {i}" for i in order)
    given = f"{kind} {v.name}, {kind} poison, <{len(order)} x i32> <{picks}>"
    return text.let(f"shufflevector {given}", v.dtype, len(order))


def part(text: Text, v: Typed, first: int, count: int) -> Typed:
    """Lanes `first` to `first + count`."""
    if count == v.lanes:
        return v
    return shuffle(text, v, range(first, first + count)) if count > 1 else lane(text, v, first)


def extended(text: Text, v: Typed, lanes: int) -> Typed:
    """More lanes; what the new ones hold is not said."""
    kind = type_of(v.dtype, v.lanes)
    picks = ", ".join(f"i32 {i}" if i < v.lanes else "i32 poison" for i in range(lanes))
    given = f"{kind} {v.name}, {kind} poison, <{lanes} x i32> <{picks}>"
    return text.let(f"shufflevector {given}", v.dtype, lanes)


def reverse(text: Text, v: Typed) -> Typed:
    """The lanes from last to first."""
    return shuffle(text, v, range(v.lanes - 1, -1, -1))


def join(text: Text, parts: Sequence[Typed]) -> Typed:
    """Vectors of equal length one after the other; their number is a power of two."""
    if len(parts) == 1:
        return parts[0]
    a, b = (join(text, half) for half in (parts[: len(parts) // 2], parts[len(parts) // 2 :]))
    kind = type_of(a.dtype, a.lanes)
    picks = ", ".join(f"i32 {i}" for i in range(2 * a.lanes))
    given = f"{kind} {a.name}, {kind} {b.name}, <{2 * a.lanes} x i32> <{picks}>"
    return text.let(f"shufflevector {given}", a.dtype, 2 * a.lanes)


def in_registers(text: Text, x: Typed) -> bool:
    """Whether floats fill whole registers of a host with AVX-512."""
    return text.host.vector_bytes == 64 and x.lanes * int(x.dtype[1]) % 64 == 0


def scale(text: Text, x: Typed, n: Typed) -> Typed:
    """x * 2**n for floats n that are integers, rounded once."""
    lanes = 64 // int(x.dtype[1])
    kind, suffix = type_of(x.dtype, lanes), {"f4": "ps", "f8": "pd"}[x.dtype]
    name = f"llvm.x86.avx512.mask.scalef.{suffix}.512"
    text.declare(name, f"declare {kind} @{name}({kind}, {kind}, {kind}, i{lanes}, i32)")
    rest = f"{kind} zeroinitializer, i{lanes} -1, i32 4"  # no lane is masked; usual rounding
    parts: list[Typed] = []
    for first in range(0, x.lanes, lanes):
        a, b = part(text, x, first, lanes), part(text, n, first, lanes)
        given = f"{kind} {a.name}, {kind} {b.name}, {rest}"
        parts.append(text.let(f"call {kind} @{name}({given})", x.dtype, lanes))
    return join(text, parts)


def lane(text: Text, v: Typed, index: int | Typed) -> Typed:
    """One lane, as a scalar."""
    if v.lanes == 1:
        return v
    at = index.name if isinstance(index, Typed) else index
    return text.let(f"extractelement {type_of(v.dtype, v.lanes)} {v.name}, i64 {at}", v.dtype, 1)


def both(text: Text, a: Typed | None, b: Typed | None) -> Typed | None:
    """The conjunction of two masks, where None is all true."""
    if a is None or b is None:
        return b if a is None else a
    return text.op("and", a, b)


def invert(text: Text, a: Typed) -> Typed:
    """The complement of a mask or an integer."""
    return text.op("xor", a, text.like(a, True if a.dtype == "b1" else -1))

"""Conversions between scalar types, with NumPy's values for what C leaves undefined.

Floats out of range become what `astype` gives on x86-64: the lowest int32 for i4, the low bits of
that for narrower types, the low bits of an int64 for u4. Where the host has no instructions for
float16 its bits are made with integer operations, so no compiler runtime is needed. A float64
goes to float16 through a float32 that was rounded to odd, which makes the second rounding right.
"""

from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.llvm.vector_idioms import zero

_WIDTH = {"i1": 8, "u1": 8, "i2": 16, "u2": 16, "i4": 32, "u4": 32, "i8": 64, "u8": 64}


def cast(text: Text, v: Typed, to: str) -> Typed:
    """`v.astype(to)`."""
    source = v.dtype
    if source == to:
        return v
    if source == "b1":
        return _from_bool(text, v, to)
    if source == "f2":
        return cast(text, _half_to_single(text, v), to)
    if to == "f2":
        return _to_half(text, v)
    if to == "b1":
        return text.compare("une" if source[0] == "f" else "ne", v, text.like(v, 0))
    if source[0] != "f":
        return _from_integer(text, v, to)
    if to[0] == "f":
        return text.convert("fpext" if to == "f8" else "fptrunc", v, to)
    return _to_integer(text, v, to)


def bitcast(text: Text, v: Typed, to: str) -> Typed:
    """The same bits as another type of the same size."""
    if (v.dtype[0] == "f") == (to[0] == "f"):
        return Typed(v.name, to, v.lanes)
    return text.convert("bitcast", v, to)


def _from_bool(text: Text, v: Typed, to: str) -> Typed:
    if to[0] == "f":
        return text.select(v, text.const(1.0, to, v.lanes), text.const(0.0, to, v.lanes))
    return text.convert("zext", v, to)


def _from_integer(text: Text, v: Typed, to: str) -> Typed:
    if to[0] == "f":
        return text.convert("sitofp" if v.dtype[0] == "i" else "uitofp", v, to)
    have, want = _WIDTH[v.dtype], _WIDTH[to]
    if have == want:
        return Typed(v.name, to, v.lanes)
    if have > want:
        return text.convert("trunc", v, to)
    return text.convert("sext" if v.dtype[0] == "i" else "zext", v, to)


def _to_integer(text: Text, v: Typed, to: str) -> Typed:
    if to == "u8":
        return _to_u8(text, v)
    wide = "i8" if to in ("u4", "i8") else "i4"
    return _from_integer(text, _truncate(text, v, wide), to)


def _truncate(text: Text, v: Typed, to: str) -> Typed:
    """Towards zero; the lowest number for what is out of range or NaN."""
    low = -(2 ** (_WIDTH[to] - 1))
    above = text.compare("oge", v, text.like(v, low))
    inside = text.op("and", above, text.compare("olt", v, text.like(v, -float(low))))
    safe = text.select(inside, v, text.like(v, 0.0))
    whole = text.convert("fptosi", safe, to)
    return text.select(inside, whole, text.like(whole, low))


def _to_u8(text: Text, v: Typed) -> Typed:
    """In two halves, as compilers for x86-64 write it."""
    half = text.like(v, 2.0**63)
    upper = text.compare("oge", v, half)
    shifted = text.select(upper, text.sub(v, half), v)
    whole = _truncate(text, shifted, "i8")
    flipped = text.op("xor", whole, text.like(whole, -(2**63)))
    return Typed(text.select(upper, flipped, whole).name, "u8", v.lanes)


# --- float16


def _native_half(text: Text) -> bool:
    host = text.host
    return "+f16c" in host.features or "+neon" in host.features


def _to_half(text: Text, v: Typed) -> Typed:
    if v.dtype == "f8":
        v = _round_to_odd(text, v)
    elif v.dtype != "f4":
        v = cast(text, v, "f4")
    if _native_half(text):
        return text.convert("fptrunc", v, "f2")
    return _single_to_half_bits(text, v)


def _round_to_odd(text: Text, v: Typed) -> Typed:
    """A float64 as float32: where inexact, the neighbour whose last bit is set."""
    near = text.convert("fptrunc", v, "f4")
    back = text.convert("fpext", near, "f8")
    bits = text.convert("bitcast", near, "i4")
    one = text.like(bits, 1)
    even = text.compare("eq", text.op("and", bits, one), text.like(bits, 0))
    adjust = text.op("and", even, text.compare("one", back, v))
    beyond = text.compare("ogt", text.fabs(back), text.fabs(v))
    moved = text.op("add", bits, text.select(beyond, text.like(bits, -1), one))
    return text.convert("bitcast", text.select(adjust, moved, bits), "f4")


def _single_to_half_bits(text: Text, v: Typed) -> Typed:
    """Round to nearest even in integers; small results by adding a power of two."""
    bits = text.convert("bitcast", v, "i4")

    def const(value: int) -> Typed:
        return text.like(bits, value)

    sign = text.op("and", bits, const(-(2**31)))
    size = text.op("xor", bits, sign)
    odd = text.op("and", text.op("lshr", size, const(13)), const(1))
    rounded = text.op("add", text.op("add", size, const(0xC8000FFF - 2**32)), odd)
    normal = text.op("lshr", rounded, const(13))
    magic = text.const(0.5, "f4", v.lanes)
    tiny = text.add(text.convert("bitcast", size, "f4"), magic)
    small = text.sub(text.convert("bitcast", tiny, "i4"), text.convert("bitcast", magic, "i4"))
    nan = text.compare("ugt", size, const(0x7F800000))
    special = text.select(nan, const(0x7E00), const(0x7C00))
    big = text.compare("uge", size, const(0x47800000))
    finite = text.select(text.compare("ult", size, const(0x38800000)), small, normal)
    result = text.select(big, special, finite)
    result = text.op("or", result, text.op("lshr", sign, const(16)))
    return text.convert("bitcast", text.convert("trunc", result, "i2"), "f2")


def _half_to_single(text: Text, v: Typed) -> Typed:
    if _native_half(text):
        return text.convert("fpext", v, "f4")
    bits = text.convert("zext", text.convert("bitcast", v, "i2"), "i4")

    def const(value: int) -> Typed:
        return text.like(bits, value)

    size = text.op("and", bits, const(0x7FFF))
    sign = text.op("shl", text.op("xor", bits, size), const(16))
    moved = text.convert("bitcast", text.op("shl", size, const(13)), "f4")
    scaled = text.mul(moved, text.like(moved, 2.0**112))
    full = text.convert("bitcast", scaled, "i4")
    infinite = text.compare("uge", size, const(0x7C00))
    special = text.select(infinite, const(0x7F800000), zero("i4", v.lanes))
    return text.convert("bitcast", text.op("or", text.op("or", full, special), sign), "f4")

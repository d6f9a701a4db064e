"""floor, ceil, trunc and round (half to even): one instruction, or exact arithmetic without it.

x86-64 before SSE4.1 has no rounding instruction, and LLVM would call the C library for each
lane. There a large power of two is added and taken away, which rounds to nearest, and the result
is corrected by one where it lies on the wrong side.
"""

from ftrace.cpu.llvm.text import Text, Typed


def round_op(text: Text, op: str, a: Typed) -> Typed:
    """One of floor, ceil, trunc, round."""
    if "+sse4.1" in text.host.features or "+neon" in text.host.features:
        return text.intrinsic("rint" if op == "round" else op, (a,))
    size = text.fabs(a)
    magic = text.like(a, 2.0**23 if a.dtype == "f4" else 2.0**52)
    one, zero = text.like(a, 1.0), text.like(a, 0.0)
    near = text.sub(text.add(size, magic), magic)
    small = text.compare("olt", size, magic)
    if op == "trunc":
        near = text.sub(near, text.select(text.compare("ogt", near, size), one, zero))
        return text.select(small, text.intrinsic("copysign", (near, a)), a)
    near = text.intrinsic("copysign", (near, a))
    if op == "floor":
        near = text.sub(near, text.select(text.compare("ogt", near, a), one, zero))
    if op == "ceil":
        near = text.add(near, text.select(text.compare("olt", near, a), one, zero))
    return text.select(small, text.intrinsic("copysign", (near, a)), a)


def floor(text: Text, a: Typed) -> Typed:
    """The largest whole number not above."""
    return round_op(text, "floor", a)

"""Quotients and remainders, of integers and floats, with NumPy's signs and special values.

Integers never trap: a divisor of zero gives 0, and the lowest number by -1 wraps. Floats follow
NumPy's definitions on top of the exact remainder of C (`frem`); the floor quotient is snapped to
the nearest whole number as NumPy does.
"""

from ftrace.cpu.rounding import floor
from ftrace.cpu.text import Text, Value
from ftrace.cpu.vectors import invert


def divide_op(text: Text, op: str, a: Value, b: Value) -> Value:
    """floor_divide, mod or rem."""
    if a.dtype[0] != "f":
        return _integers(text, op, a, b)
    remainder = text.op("frem", a, b)
    if op == "rem":
        return remainder
    zero = text.like(a, 0.0)
    by_zero = text.compare("oeq", b, zero)
    exact = text.compare("oeq", remainder, zero)
    unlike = text.op("xor", text.compare("olt", b, zero), text.compare("olt", remainder, zero))
    adjust = text.op("and", unlike, invert(text, exact))
    if op == "mod":
        signed = text.intrinsic("copysign", (zero, b))
        moved = text.select(adjust, text.add(remainder, b), remainder)
        return text.select(by_zero, remainder, text.select(exact, signed, moved))
    plain = text.div(a, b)
    quotient = text.div(text.sub(a, remainder), b)
    quotient = text.select(adjust, text.sub(quotient, text.like(a, 1.0)), quotient)
    whole = floor(text, quotient)
    far = text.compare("ogt", text.sub(quotient, whole), text.like(a, 0.5))
    whole = text.select(far, text.add(whole, text.like(a, 1.0)), whole)
    none = text.compare("oeq", quotient, zero)
    whole = text.select(none, text.intrinsic("copysign", (zero, plain)), whole)
    return text.select(by_zero, plain, whole)


def _integers(text: Text, op: str, a: Value, b: Value) -> Value:
    signed = a.dtype[0] == "i"
    zero, one = text.like(a, 0), text.like(a, 1)
    by_zero = text.compare("eq", b, zero)
    # -1 is taken apart, since the lowest number by -1 traps
    negate = text.compare("eq", b, text.like(a, -1)) if signed else by_zero
    bad = text.op("or", by_zero, negate) if signed else by_zero
    safe = text.select(bad, one, b)
    word = "s" if signed else "u"
    if op == "floor_divide":
        quotient = text.op(f"{word}div", a, safe)
        if signed:
            quotient = text.sub(quotient, _borrow(text, a, safe, quotient))
            quotient = text.select(negate, text.sub(zero, a), quotient)
        return text.select(by_zero, zero, quotient)
    rest = text.op(f"{word}rem", a, safe)
    if signed and op == "mod":
        unlike = text.compare("slt", text.op("xor", rest, safe), zero)
        adjust = text.op("and", unlike, text.compare("ne", rest, zero))
        rest = text.select(adjust, text.add(rest, safe), rest)
    return text.select(bad, zero, rest)


def _borrow(text: Text, a: Value, b: Value, quotient: Value) -> Value:
    """1 where the truncated quotient lies above the exact one."""
    rest = text.sub(a, text.mul(quotient, b))
    unlike = text.compare("slt", text.op("xor", rest, b), text.like(a, 0))
    adjust = text.op("and", unlike, text.compare("ne", rest, text.like(a, 0)))
    return text.convert("zext", adjust, a.dtype)

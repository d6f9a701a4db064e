"""Quotients and remainders, of integers and floats, with NumPy's signs and special values.

Integers never trap: a divisor of zero gives 0, and the lowest number by -1 wraps. Floats follow
NumPy's definitions on top of the exact remainder of C; the floor quotient is snapped to the
nearest whole number as NumPy does.

No processor divides vectors of integers: `_by_reciprocal` makes their quotients of floats. With 4
bytes or fewer, or where all numbers of a vector lie within 2^50 of 0, a, b and a - q b are exact as
floats, for q within 1 of a / b. It is within 3/4: 1/2 by rounding to a whole number, and |a / b|
2^-52 by rounding 1 / b and the product. So one step towards the sign wanted of the remainder makes
them right. A whole number is taken from, and brought to, a float by adding `WHOLE`, whose last bit
counts ones.
"""

from typing import Final

from ftrace.cpu.llvm.rounding import floor, round_op
from ftrace.cpu.llvm.text import Text, Typed, type_of
from ftrace.cpu.llvm.vector_idioms import invert, lane

NEAR: Final = 1 << 50  # numbers from -NEAR to below it are taken as floats
WHOLE: Final = {"f8": 1.5 * 2.0**52, "f4": 1.5 * 2.0**23}
INTEGER: Final = {"f8": "i8", "f4": "i4"}


def divide_op(text: Text, op: str, a: Typed, b: Typed) -> Typed:
    """floor_divide, mod or rem."""
    if a.dtype[0] != "f":
        return _integers(text, op, a, b)
    remainder = _remainder(text, a, b)
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


def _remainder(text: Text, a: Typed, b: Typed) -> Typed:
    """C's fmod, exactly: from one quotient where that is small, else from the C library."""
    if a.lanes == 1 or (a.dtype == "f8" and not text.host.fma):
        return text.op("frem", a, b)
    x, y = text.fabs(a), text.fabs(b)
    wide = [text.convert("fpext", v, "f8") for v in (x, y)] if a.dtype == "f4" else [x, y]
    ratio = text.div(*wide)
    # the quotient times y is exact: 29 + 24 bits in float64, or within a fused multiply-add
    small = text.compare("olt", ratio, text.like(ratio, 2.0 ** (29 if a.dtype == "f4" else 53)))
    finite = text.compare("olt", wide[1], text.like(ratio, float("inf")))
    easy = text.op("and", small, finite)
    quotient = round_op(text, "trunc", ratio)
    if a.dtype == "f4":
        rest = text.sub(wide[0], text.mul(quotient, wide[1]))
    else:
        rest = text.fma(text.fneg(quotient), y, x)
    rest = text.select(
        text.compare("olt", rest, text.like(rest, 0.0)), text.add(rest, wide[1]), rest
    )
    rest = text.select(text.compare("oge", rest, wide[1]), text.sub(rest, wide[1]), rest)
    rest = text.convert("fptrunc", rest, "f4") if a.dtype == "f4" else rest
    rest = text.intrinsic("copysign", (rest, a))
    hard, done = text.fresh("hard"), text.fresh("exact")
    before = text.block
    text.branch(text.any(invert(text, easy)), hard, done)
    text.label(hard)
    slow = _each_remainder(text, a, b)
    end = text.block
    text.jump(done)
    text.label(done)
    return text.phi(a.dtype, a.lanes, [(rest, before), (slow, end)])


def _each_remainder(text: Text, a: Typed, b: Typed) -> Typed:
    """The C library's, one lane after the other, in a loop to keep the code short."""
    head, done = text.fresh("lane"), text.fresh("lanes")
    before = text.block
    text.jump(head)
    text.label(head)
    kind, following, new = type_of(a.dtype, a.lanes), text.fresh(), text.fresh()
    at = text.let(f"phi i64 [ 0, %{before} ], [ %{following}, %{head} ]", "i8", 1)
    start = f"[ zeroinitializer, %{before} ]"
    got = text.let(f"phi {kind} {start}, [ %{new}, %{head} ]", a.dtype, a.lanes)
    one = text.op("frem", lane(text, a, at), lane(text, b, at))
    scalar = type_of(a.dtype, 1)
    text.line(f"%{new} = insertelement {kind} {got.name}, {scalar} {one.name}, i64 {at.name}")
    text.line(f"%{following} = add i64 {at.name}, 1")
    last = text.compare("eq", text.same(at, f"%{following}"), Typed(str(a.lanes), "i8", 1))
    text.branch(last, done, head)
    text.label(done)
    return text.same(a, f"%{new}")


def _integers(text: Text, op: str, a: Typed, b: Typed) -> Typed:
    if a.lanes == 1:
        return _divided(text, op, a, b)
    if a.dtype[1:] != "8":
        return _by_reciprocal(text, op, a, b)
    below = NEAR if a.dtype[0] == "i" else 0  # what lies so far below 0 is the first that is near
    moved = [text.add(x, text.like(x, below)) for x in (a, b)]
    far = text.op("or", *(text.compare("uge", x, text.like(x, NEAR + below)) for x in moved))
    hard, easy, done = text.fresh("far"), text.fresh("near"), text.fresh("quotient")
    text.branch(text.any(far), hard, easy)
    text.label(easy)
    quick = _by_reciprocal(text, op, a, b)
    text.jump(done)
    text.label(hard)
    slow = _divided(text, op, a, b)
    text.jump(done)
    text.label(done)
    return text.phi(a.dtype, a.lanes, [(quick, easy), (slow, hard)])


def _by_reciprocal(text: Text, op: str, a: Typed, b: Typed) -> Typed:
    """As `_divided`, of vectors that are exact as floats."""
    kind = "f4" if int(a.dtype[1:]) < 4 else "f8"
    by_zero = text.compare("eq", b, text.like(b, 0))
    x, y = (_as_float(text, v, kind) for v in (a, text.select(by_zero, text.like(b, 1), b)))
    whole, zero = text.like(x, WHOLE[kind]), text.like(x, 0.0)
    reciprocal = text.div(text.like(y, 1.0), y)
    raised = text.fma(x, reciprocal, whole)
    quotient = text.sub(raised, whole)
    rest = text.fma(text.fneg(quotient), y, x)
    sign = x if op == "rem" else y
    low = text.op("and", text.compare("olt", rest, zero), text.compare("oge", sign, zero))
    high = text.op("and", text.compare("ogt", rest, zero), text.compare("olt", sign, zero))
    if op == "floor_divide":
        less = text.sub(raised, text.like(x, 1.0))
        found = text.select(text.op("or", low, high), less, raised)
    else:
        size = text.fabs(y)
        up, down = text.add(rest, size), text.sub(rest, size)
        found = text.add(text.select(low, up, text.select(high, down, rest)), whole)
    bits = text.convert("bitcast", found, INTEGER[kind])
    integer = text.sub(bits, text.convert("bitcast", whole, INTEGER[kind]))
    if INTEGER[kind][1:] != a.dtype[1:]:
        integer = text.convert("trunc", integer, a.dtype)
    return text.select(by_zero, text.like(a, 0), Typed(integer.name, a.dtype, a.lanes))


def _as_float(text: Text, x: Typed, kind: str) -> Typed:
    """Integers as floats, of 8 bytes if they are near 0."""
    if x.dtype[1:] != "8":
        return text.convert("sitofp" if x.dtype[0] == "i" else "uitofp", x, kind)
    whole = text.like(Typed("", kind, x.lanes), WHOLE[kind])
    bits = text.add(x, text.convert("bitcast", whole, x.dtype))
    return text.sub(text.convert("bitcast", bits, kind), whole)


def _divided(text: Text, op: str, a: Typed, b: Typed) -> Typed:
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


def _borrow(text: Text, a: Typed, b: Typed, quotient: Typed) -> Typed:
    """1 where the truncated quotient lies above the exact one."""
    rest = text.sub(a, text.mul(quotient, b))
    unlike = text.compare("slt", text.op("xor", rest, b), text.like(a, 0))
    adjust = text.op("and", unlike, text.compare("ne", rest, text.like(a, 0)))
    return text.convert("zext", adjust, a.dtype)

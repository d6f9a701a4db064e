"""sin, cos and tan of huge arguments: Payne and Hanek's reduction, in integers, one lane at a time.

x * 2/pi modulo 4 needs only those bits of 2/pi that do not multiply x to whole turns: a window of
192 bits is taken from a table of 1280, multiplied with the 53-bit significand, and its upper 128
bits kept: two are the quadrant, 126 the fraction (Payne and Hanek 1983). The reduced argument is
right to 2**-62 of itself, and comes as a pair. Used beyond `FAR` of trigonometric.py only.
"""

from typing import Final

from ftrace.cpu.llvm.text import LLVM_TYPE, Text

TWO_OVER_PI: Final = """
0000000000000000 A2F9836E4E441529 FC2757D1F534DDC0 DB6295993C439041 FE5163ABDEBBC561
B7246E3A424DD2E0 06492EEA09D1921C FE1DEB1CB129A73E E88235F52EBB4484 E99C7026B45F7E41
3991D639835339F4 9C845F8BBDF9283B 1FF897FFDE05980F EF2F118B5A0A6D1F 6D367ECF27CB09B7
4F463F669E5FEA2D 7527BAC7EBE5F17B 3D0739F78A5292EA 6BFB5FB11F8D5D08 56033046FC7B6BAB
F0CFBC209AF4361D
"""
WORDS: Final = [int(word, 16) for word in TWO_OVER_PI.split()]
PI_OVER_4: Final = 0xC90FDAA22168C234  # times 2**-64
QUARTER: Final = 1 << 126  # a quarter turn, as a fraction of 2**128

TABLE: Final = (
    f"@two_over_pi = internal constant [{len(WORDS)} x i64] "
    f"[{', '.join(f'i64 {word}' for word in WORDS)}]"
)
# {r, its rest, whether an odd multiple went}, of x and `moved` quarter turns, modulo pi
# (doubling 0) or pi/2 (doubling 1). Arguments below 2**-8 give something, without harm.
REDUCE: Final = f"""define internal {{ double, double, i1 }}
@far_reduce(double %x, i128 %moved, i64 %doubling) {{
  %b = bitcast double %x to i64
  %f = and i64 %b, {(1 << 52) - 1}
  %m = or i64 %f, {1 << 52}
  %b2 = lshr i64 %b, 52
  %e = and i64 %b2, 2047
  %s = sub i64 %e, {1075 - 62}
  %low = icmp slt i64 %s, 0
  %first = select i1 %low, i64 0, i64 %s
  %w = lshr i64 %first, 6
  %by = and i64 %first, 63
  %p0 = getelementptr i64, ptr @two_over_pi, i64 %w
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %t0 = load i64, ptr %p0
  %t1 = load i64, ptr %p1
  %t2 = load i64, ptr %p2
  %t3 = load i64, ptr %p3
  %w0 = call i64 @llvm.fshl.i64(i64 %t0, i64 %t1, i64 %by)
  %w1 = call i64 @llvm.fshl.i64(i64 %t1, i64 %t2, i64 %by)
  %w2 = call i64 @llvm.fshl.i64(i64 %t2, i64 %t3, i64 %by)
  %mm = zext i64 %m to i128
  %v1 = zext i64 %w1 to i128
  %v2 = zext i64 %w2 to i128
  %h0 = mul i64 %m, %w0
  %z0 = zext i64 %h0 to i128
  %h = shl i128 %z0, 64
  %h1 = mul i128 %mm, %v1
  %h2 = mul i128 %mm, %v2
  %h3 = lshr i128 %h2, 64
  %a1 = add i128 %h, %h1
  %a2 = add i128 %a1, %h3
  %neg = icmp slt i64 %b, 0
  %minus = sub i128 0, %a2
  %signed = select i1 %neg, i128 %minus, i128 %a2
  %turned = add i128 %signed, %moved
  %d = zext i64 %doubling to i128
  %turns = shl i128 %turned, %d
  %up = add i128 %turns, {QUARTER}
  %odd = icmp slt i128 %up, 0
  %frac = and i128 %up, {(1 << 127) - 1}
  %r = sub i128 %frac, {QUARTER}
  %rneg = icmp slt i128 %r, 0
  %rminus = sub i128 0, %r
  %size = select i1 %rneg, i128 %rminus, i128 %r
  %lz = call i128 @llvm.ctlz.i128(i128 %size, i1 false)
  %lz1 = and i128 %lz, 127
  %normal = shl i128 %size, %lz1
  %top = lshr i128 %normal, 64
  %times = mul i128 %top, {PI_OVER_4}
  %times1 = lshr i128 %times, 64
  %sig = trunc i128 %times1 to i64
  %rest = and i64 %sig, 2047
  %first53 = xor i64 %sig, %rest
  %value = uitofp i64 %first53 to double
  %value2 = uitofp i64 %rest to double
  %lz2 = trunc i128 %lz1 to i64
  %ex0 = sub i64 {1023 - 61}, %lz2
  %ex1 = sub i64 %ex0, %doubling
  %ex = shl i64 %ex1, 52
  %scale = bitcast i64 %ex to double
  %way = fneg double %scale
  %factor = select i1 %rneg, double %way, double %scale
  %y0 = fmul double %value, %factor
  %left = fmul double %value2, %factor
  %nan = fsub double %x, %x
  %y = fadd double %y0, %nan
  %o0 = insertvalue {{ double, double, i1 }} poison, double %y, 0
  %o1 = insertvalue {{ double, double, i1 }} %o0, double %left, 1
  %o = insertvalue {{ double, double, i1 }} %o1, i1 %odd, 2
  ret {{ double, double, i1 }} %o
}}
"""


def declare_reduction(text: Text) -> None:
    """The table and @far_reduce, once per module."""
    text.declare("two_over_pi", TABLE)
    text.declare("llvm.fshl.i64", "declare i64 @llvm.fshl.i64(i64, i64, i64)")
    text.declare("llvm.ctlz.i128", "declare i128 @llvm.ctlz.i128(i128, i1)")
    text.declare("far_reduce", REDUCE)


def reduce_far(text: Text, dtype: str, moved: int, doubling: int) -> None:
    """Append: `%r`, `%left` (of `dtype`) and `%odd`, from the argument `%x` of a scalar function.

    The argument reduced is `%r` + `%left`.
    """
    declare_reduction(text)
    single = dtype == "f4"
    if single:
        text.line("%wide = fpext float %x to double")
    kind = "{ double, double, i1 }"
    args = f"double {'%wide' if single else '%x'}, i128 {moved * QUARTER}, i64 {doubling}"
    text.line(f"%all = call {kind} @far_reduce({args})")
    text.line(f"{'%r8' if single else '%r'} = extractvalue {kind} %all, 0")
    text.line(f"%odd = extractvalue {kind} %all, 2")
    if not single:
        text.line(f"%left = extractvalue {kind} %all, 1")
        return
    text.line("%r = fptrunc double %r8 to float")
    text.line("%back = fpext float %r to double")
    text.line("%left8 = fsub double %r8, %back")
    text.line("%left = fptrunc double %left8 to float")


def finish_far(text: Text, name: str, result: str, dtype: str) -> str:
    """The scalar function made of what was appended."""
    kind = LLVM_TYPE[dtype]
    body = "\n".join(text.lines)
    return (
        f"define internal {kind} @{name}({kind} %x) noinline cold {{\nentry:\n{body}\n"
        f"  ret {kind} {result}\n}}\n"
    )

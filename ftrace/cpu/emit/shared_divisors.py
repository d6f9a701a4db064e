"""Quotients that share a divisor: one division, and a few multiplications for each of them.

A division of eight float64 keeps the divider for 16 cycles, a fused multiply-add takes half of one.
So where several quotients have one divisor (a quotient and its tangent), or a divisor is uniform,
its reciprocal is divided once and each quotient is made as P. Markstein made them, right to the
last bit. For float32, and for registers of 32 bytes, the division is the faster one; so it is in a
long chain of quotients with one vector at a time, where what counts is when a quotient is there.

*Why it is right.* For a and b from 2^-512 to below 2^512 all scales by powers of two (but for 5.),
so let 1 <= a, b < 2 with p bits. RN is rounding to nearest, t = a/b, u is the distance of the
numbers with p bits around t (2^-p for a < b, else 2^(1-p)); an odd multiple of u/2 is a midpoint.
Then q is RN(t) for

    y = RN(1/b);  q0 = RN(a y);  r = RN(a - b q0);  q = RN(q0 + r y)

1. |1 - b y| = d <= b 2^-(p+1) < 2^-p, so |q0 - t| <= t d + u/2 < 3u/2. q0 is a multiple of u (or
   t is 1, and q with it). The sum before the last rounding is t + (r/b) w with |w| <= d, or with
   |w| < 2^(1-p) + 2^-2p where r has p + 1 bits and is rounded.
2. If q is not RN(t), then |t - m| <= |r/b| |w| for a midpoint m. It is not t itself, since b m has
   more than p bits; a - b m is a multiple of 2^-p u, so |t - m| >= 2^-p u / b.
3. If |q0 - m| = u/2, then |r/b| <= u/2 + |t - m|, r is exact and |t - m| (1 - d) <= d u/2. With 2.
   this says 4 (1 - d) <= b^2; but b^2 <= (2 - 2^(1-p))^2 < 4 - 4 * 2^-p.
4. If |q0 - m| = 3u/2, then t d + |t - m| >= u. But t d <= a 2^-(p+1) is less than u/2 for a >= b,
   and u a/2 for a < b: a is 2 - 4u or 2 - 6u, b lies between a and 2, and t is within 8u^2 of
   1 - u or 1 - 2u, far from midpoints.
5. Nothing overflows: t + u < 2^1024 unless b is 2^-512, where all is exact. A subnormal t rounds to
   multiples of g = 2^-1074 >= 2u, so |q0 - t| < g, r is exact, and 3. holds with g for u. But here
   t could be a midpoint, M g/2 with an odd M: for b = 2^k B with an odd B > 1, k <= 510, and
   a = 2^(k-1075) B M >= 2^-512 says that B M has 54 bits, which a has not. For B = 1 y is exact.

A zero divides to q0, which has its sign. Smaller and larger numbers, infinities and NaN take the
division itself, with their whole vector.

P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM
Journal of Research and Development 34 (1990); J.-M. Muller and others, "Handbook of Floating-Point
Arithmetic", on division by Newton's iteration with a fused multiply-add. The steps above replace
its premise that q0 is within u of t, which does not hold here.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from ftrace.cpu.emit.emitter import State
from ftrace.cpu.llvm.text import Text, Typed
from ftrace.cpu.llvm.vector_idioms import in_registers
from ftrace.lowering.kernel.ir import Atom, Let, Lit
from ftrace.lowering.kernel.traversal import inside

LOWEST: Final = (1023 - 512) << 52  # the bits of 2^-512
CHAIN: Final = 16  # divisions, each waiting for the one before, that no other vector overlaps
OUTSIDE: Final = 1 << 62  # the bit that is clear in x - LOWEST from 2^-512 to below 2^512


def shares(s: State, op: str, args: Sequence[Typed], atoms: Sequence[Atom]) -> bool:
    """Whether an operation is a division that `quotient` writes: the divisor serves others too.

    Args:
        s: where it is written.
        op: of `core/scalar.py`.
        args: its operands, of equal lanes.
        atoms: these in the kernel.
    """
    if op != "div" or args[0].dtype != "f8" or not in_registers(s.text, args[0]):
        return False
    return s.scalar(atoms[1]).lanes == 1 or atoms[1] in _shared_divisors(s)


def _shared_divisors(s: State) -> set[Atom]:
    if s.divisors is None:
        lets = [x for x in inside(s.launch.kernel.body) if isinstance(x, Let)]
        counts = Counter(x.args[1] for x in lets if x.op == "div")
        alone = s.launch.schedule.lanes * 8 == s.text.host.vector_bytes
        waiting = alone and 2 * _longest(lets) >= max(counts.total(), 2 * CHAIN)
        shared = {divisor for divisor, count in counts.items() if count > 1}
        s.divisors = set() if waiting else shared
    return s.divisors


def _longest(lets: Sequence[Let]) -> int:
    """How many divisions wait for one another."""
    depths: dict[Atom, int] = {}
    for x in lets:
        depths[x.out] = max(depths.get(a, 0) for a in x.args) + (x.op == "div")
    return max(depths.values(), default=0)


def quotient(s: State, args: Sequence[Typed], atoms: Sequence[Atom]) -> Typed:
    """a / b, correctly rounded; what depends on b alone is written once."""
    text, (a, b), (dividend, divisor) = s.text, args, atoms
    y = _of_divisor(s, "reciprocal", _reciprocal, divisor)
    if dividend == Lit(1.0, "f8"):
        return y
    near = text.mul(a, y)
    better = text.fma(text.fma(text.fneg(b), near, a), y, near)
    quick = text.intrinsic("copysign", (better, near))
    slow, done = text.fresh("slow"), text.fresh("done")
    hard, before = _hard(s, a, divisor), text.block
    text.branch(text.any(hard), slow, done)
    text.label(slow)
    plain = text.div(a, b)
    text.jump(done)
    text.label(done)
    return text.phi("f8", a.lanes, [(quick, before), (plain, slow)])


def _hard(s: State, a: Typed, divisor: Atom) -> Typed:
    """The active lanes in which a number is too small or too large, and a is not zero."""
    text = s.text
    zero, outside = text.compare("oeq", a, text.like(a, 0.0)), _outside(text, a)
    outside = text.select(zero, text.like(outside, 0), outside)
    outside = text.op("or", outside, _of_divisor(s, "outside", _outside, divisor))
    bits = text.op("and", outside, text.like(outside, OUTSIDE))
    found = text.compare("ne", bits, text.like(bits, 0))
    return found if s.mask is None else text.op("and", found, s.mask)


def _of_divisor(s: State, what: str, make: Callable[[Text, Typed], Typed], divisor: Atom) -> Typed:
    """What depends on a divisor alone, written where the divisor is known."""
    known, depth = s.scalar(divisor), s.depth_of(divisor)
    return s.spread(s.hoisted(depth, (what, known.name), lambda: make(s.text, known)), depth)


def _reciprocal(text: Text, b: Typed) -> Typed:
    return text.div(text.like(b, 1.0), b)


def _outside(text: Text, x: Typed) -> Typed:
    """Integers with OUTSIDE set where a number is too small or too large."""
    bits = text.convert("bitcast", x, "i8")
    return text.sub(bits, text.like(bits, LOWEST))

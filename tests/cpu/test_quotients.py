"""Quotients with one divisor equal the machine's division to the last bit, whatever they divide."""

from itertools import product

import numpy as np
import pytest

import ftrace
from ftrace import jit, jvp, lax, vmap
from ftrace.cpu.emit.kernel_text import emit
from ftrace.cpu.emit.shared_divisors import LOWEST
from ftrace.cpu.llvm.machine_code import assembly, host
from ftrace.lowering.kernel.ir import Kernel
from tests.cpu.running import Compiled, launch, run, with_lanes
from tests.cpu.test_spelling import assert_same_bits
from tests.lowering.nests import Nest, Sample, f8, i8

ONES = 2.0 - 2.0**-52  # all bits of the mantissa set
ENDS = [0.0, 5e-324, 2.0**-1022, 2.0**1023, np.finfo("f8").max, np.inf, np.nan, 1.0, 3.0, ONES]
ENDS += [2.0**-1022 * (1 - 2.0**-52), 2.0**-1074 * 3]
EXPONENTS = [-1070, -1022, -900, -513, -512, -511, -256, 0, 255, 510, 511, 512, 900, 1023]
MIDDLE = [np.nextafter(2.0**e, s) for e in (-512, 512) for s in (0.0, 2.0**e, np.inf)]

BODIES = 2  # of a loop: for full vectors, and for its end


def pair(dtype: str = "f8") -> Kernel:
    """a / b and c / b."""
    k = Nest("pair")
    a, b, c = (k.buffer(name, dtype, ["one"]) for name in "abc")
    outs = [k.buffer(name, dtype, ["one"], "out") for name in ("p", "q")]
    with k.loop(k.scalar()) as row:
        divisor = k.load(b, row.axis)
        for source, out in zip((a, c), outs, strict=True):
            k.store(out, (row.axis,), k.let("div", k.load(source, row.axis), divisor))
    return k.kernel()


def check_pair(a: np.ndarray, b: np.ndarray, c: np.ndarray, level: str = "native") -> None:
    kernel, n = pair(), len(a)
    arrays = {"a": a, "b": b, "c": c, "p": np.zeros(n), "q": np.zeros(n)}
    got = run(Sample(kernel, arrays, [n]), host(level), with_lanes(kernel, 32))
    with np.errstate(all="ignore"):
        assert_same_bits(got["p"][0], a / b, "a / b")
        assert_same_bits(got["q"][0], c / b, "c / b")


def text_of(kernel: Kernel, level: str = "avx512", lanes: int = 16) -> str:
    return emit(launch(kernel, with_lanes(kernel, lanes)), "kernel", host(level), {})


# --- bits


def check_random(count: int) -> None:
    rng = np.random.default_rng(count)
    check_pair(*rng.integers(0, 2**64, (3, count), np.uint64).view("f8"))
    check_pair(*(1 + rng.random((3, count))))
    check_pair(*np.ldexp(1 + rng.random((3, count)), rng.integers(-514, 514, (3, count))))


def test_random_bits():
    check_random(33_333)


@pytest.mark.slow
def test_random_bits_for_long():
    for _ in range(10):
        check_random(1_000_001)


def test_pairs_from_the_ends_of_the_range():
    """Results that overflow, underflow or are subnormal, and all that is special."""
    values = np.array([*ENDS, *MIDDLE, *(-x for x in ENDS), *(-x for x in MIDDLE)])
    check_pair(*(m.ravel() for m in np.meshgrid(values, values, values[::5])))


def test_each_pair_alone_in_its_vector():
    """The others in a vector allow the quick way, so that what this one takes is its own."""
    values = [*ENDS, *MIDDLE, *(-x for x in ENDS)]
    values += [np.ldexp(m, e) for m in (1.37, 1.81) for e in EXPONENTS]
    cases = list(product(values, values))
    a, b = np.full((2, 32 * len(cases)), 1.5)
    a[5::32], b[5::32] = np.transpose(cases)
    check_pair(a, b, -a)


def next_to_midpoints(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Quotients as near as can be to the middle between two numbers, above and below it.

    For an odd B and a midpoint M, an odd number of 54 bits, B M is A 2^54 (or A 2^53) apart from
    1 or so: M is the inverse of B modulo this power of two.
    """
    rng = np.random.default_rng(7)
    found: list[tuple[int, int]] = []
    while len(found) < count:
        big = int(rng.integers(2**52, 2**53)) | 1
        for power, rest in product((54, 53), (1, -1, 3, -3)):
            middle = rest * pow(big, -1, 2**power) % 2**power
            middle += 2**53 if power == 53 else 0
            small = (big * middle - rest) >> power
            if 2**53 < middle < 2**54 and 2**52 <= small < 2**53:
                assert small << power == big * middle - rest
                found.append((small, big))
    return np.array(found, "f8").T / 2.0**52


def test_quotients_next_to_midpoints():
    a, b = next_to_midpoints(4000)
    for sign, scale in product((1.0, -1.0), (1.0, 2.0**200)):
        check_pair(a * sign, b * scale, -a * scale)


def test_products_and_their_neighbours():
    """Exact quotients, and those that differ from numbers by a rounding of the product."""
    rng = np.random.default_rng(3)
    b, q = 1 + rng.random((2, 20_000))
    a = b * q
    check_pair(a, b, np.nextafter(a, np.inf))
    check_pair(np.nextafter(a, 0.0), b, np.round(b * 2**20) * np.round(q * 2**20))


def test_quotients_that_are_just_subnormal():
    """The smallest dividends by the largest divisors that take the quick way."""
    rng = np.random.default_rng(11)
    a = np.ldexp(1 + rng.random(50_000), -512)
    b = np.ldexp(np.where(rng.random(50_000) < 0.5, 1.5, 2 - rng.random(50_000)), 511)
    assert (a / b < 2.0**-1022).any()
    check_pair(a, b, np.ldexp(np.round(a * 2.0**540), -540))


def test_mantissas_of_ones_and_powers_of_two():
    near = [ONES - k * 2.0**-52 for k in range(40)] + [1 + k * 2.0**-52 for k in range(40)]
    near += [1.5, 1.5 - 2.0**-52, 1.5 + 2.0**-52]
    values = np.array([*near, *(v * 2.0**255 for v in near[:3]), *(-v / 2**200 for v in near[:3])])
    check_pair(*(m.ravel() for m in np.meshgrid(values, values, values[:3])))


def test_zeros_keep_their_sign():
    a = np.array([0.0, -0.0, 0.0, -0.0, 3.0] * 9)
    b = np.array([2.0, 2.0, -3.0, -3.0, -0.7] * 9)
    check_pair(a, b, -a)


@pytest.mark.parametrize("level", ["avx2", "sse2"])
def test_other_hosts(level):
    rng = np.random.default_rng(5)
    check_pair(*rng.integers(0, 2**64, (3, 1001), np.uint64).view("f8"), level)


@pytest.mark.parametrize("divisor", [3.0, -0.1, ONES, 0.0, -0.0, np.inf, np.nan, 1e-200, 5e-324])
def test_uniform_divisors(divisor):
    k = Nest("uniform")
    a, o = k.buffer("a", "f8", ["one"]), k.buffer("o", "f8", ["one"], "out")
    n, b = k.scalar(), k.scalar("f8")
    with k.loop(n) as row:
        k.store(o, (row.axis,), k.let("div", k.load(a, row.axis), b))
    values = np.random.default_rng(1).integers(0, 2**64, 997, np.uint64).view("f8")
    values[::3] = np.linspace(-2, 2, len(values[::3]))
    values[:32] = 0.7  # a vector that takes the quick way
    sample = Sample(k.kernel(), {"a": values, "o": np.zeros(997)}, [997, divisor])
    got = run(sample, host(), with_lanes(sample.kernel, 32))
    with np.errstate(all="ignore"):
        assert_same_bits(got["o"][0], values / divisor, f"a / {divisor}")


# --- masks: lanes that are done, arms, the end of an array


def newton(x):
    """Turns differ between lanes; numbers that are far out take the division itself."""
    return lax.while_loop(
        lambda z: abs(z * z - x) > 1e-13 * x, lambda z: z - (z * z - x) / (2 * z), x * 1.0
    )


def test_compiled_loops_of_lanes_divide_as_single_ones():
    x = np.concatenate([np.linspace(0.1, 100, 41), 10.0 ** np.arange(-200, 200, 16), [0.0, 1.0]])
    t = np.where(np.arange(len(x)) % 3 == 0, 0.0, np.cos(np.arange(len(x)) * 1.0))
    got = jit(lambda x, t: jvp(vmap(newton), (x,), (t,)))(x, t)
    for i, (a, b) in enumerate(zip(x, t, strict=True)):
        for mine, plain in zip(got, jvp(newton, (a,), (b,)), strict=True):
            assert_same_bits(mine[i : i + 1], np.array([plain]), f"x={a}, t={b}")


def test_compiled_derivatives_of_quotients_are_those_of_single_calls():
    x = np.array([0.5, -2.0, 3.0, 1e100, -1e-190, 7.0, 1.0, 1e300, 2.5] * 5)
    y = np.array([3.0, 0.1, -7.0, 1e-100, 11.0, 1e200, 1.0, 2.0, -0.3] * 5)
    first = ftrace.grad(lambda x, y: x / y + 1 / y, argnums=(0, 1))
    second = ftrace.grad(lambda x, y: first(x, y)[1], argnums=(0, 1))
    for f in (first, second):
        got = jit(vmap(f))(x, y)
        with np.errstate(all="ignore"):
            want = np.array([f(a, b) for a, b in zip(x, y, strict=True)]).T
        for mine, plain in zip(got, want, strict=True):
            assert_same_bits(np.asarray(mine), np.asarray(plain), "derivative")


def test_a_divisor_shared_by_two_arms():
    """Each arm divides for some lanes only; the reciprocal stands before both."""
    k = Nest("arms")
    a, b = k.buffer("a", "f8", ["one"]), k.buffer("b", "f8", ["one"])
    o = k.buffer("o", "f8", ["one"], "out")
    with k.loop(k.scalar()) as row:
        x, divisor = k.load(a, row.axis), k.load(b, row.axis)
        with k.part() as then:
            then.leave(k.let("div", x, divisor))
        with k.part() as orelse:
            orelse.leave(k.let("div", k.let("neg", x), divisor))
        k.store(o, (row.axis,), *k.branch(k.let("lt", x, f8(0)), then, orelse))
    values = np.random.default_rng(2).standard_normal(500)
    values[::7], values[40:72] = 1e-300, 1.7
    sample = Sample(k.kernel(), {"a": values, "b": values[::-1].copy(), "o": np.zeros(500)}, [500])
    got = run(sample, host(), with_lanes(sample.kernel, 32))
    assert_same_bits(got["o"][0], -np.abs(values) / values[::-1], "arms")


# --- what is written


def test_a_shared_divisor_is_divided_once():
    text = text_of(pair())
    assert text.count(" fdiv ") == BODIES * (1 + 2)  # the reciprocal, each quotient's other way
    assert text.count("fdiv <16 x double> splat (double 0x3FF0000000000000)") == BODIES
    assert text.count("@llvm.fma.v16f64") == BODIES * 4


def test_quotients_are_plain_where_they_gain_nothing():
    for text in (text_of(pair(), "avx2"), text_of(pair(), "sse2"), text_of(pair("f4"))):
        assert "fma" not in text
        assert "slow" not in text
    assert text_of(pair(), lanes=4).count(" fdiv <") == BODIES * 2  # half a register
    k = Nest("single")
    a, b = k.buffer("a", "f8", ["one"]), k.buffer("b", "f8", ["one"])
    o = k.buffer("o", "f8", ["one"], "out")
    with k.loop(k.scalar()) as row:
        k.store(o, (row.axis,), k.let("div", k.load(a, row.axis), k.load(b, row.axis)))
    assert "fma" not in text_of(k.kernel())


def test_the_reciprocal_of_a_uniform_divisor_stands_before_the_loop():
    k = Nest("before")
    a, o = k.buffer("a", "f8", ["one"]), k.buffer("o", "f8", ["one"], "out")
    n, b = k.scalar(), k.scalar("f8")
    with k.loop(n) as row:
        k.store(o, (row.axis,), k.let("div", k.load(a, row.axis), b))
    text = text_of(k.kernel())
    assert text.index("fdiv double 0x3FF0000000000000") < text.index("phi i64")


def test_one_divided_is_the_reciprocal():
    k = Nest("one")
    b, o, p = (k.buffer(x, "f8", ["one"], s) for x, s in (("b", "in"), ("o", "out"), ("p", "out")))
    with k.loop(k.scalar()) as row:
        divisor = k.load(b, row.axis)
        k.store(o, (row.axis,), k.let("div", f8(1), divisor))
        k.store(p, (row.axis,), k.let("div", k.let("neg", divisor), divisor))
    assert text_of(k.kernel()).count("@llvm.fma.v16f64") == BODIES * 2


def chained(links: int) -> Kernel:
    """A recurrence of quotients and their tangents, written out."""
    k = Nest("chain")
    x, o, p = (k.buffer(n, "f8", ["one"], s) for n, s in (("x", "in"), ("o", "out"), ("p", "out")))
    with k.loop(k.scalar()) as row:
        a, slope = k.load(x, row.axis), f8(0)
        value = k.let("add", a, f8(1))
        for _ in range(links):
            q = k.let("div", a, value)
            top = k.let("sub", f8(1), k.let("mul", q, slope))
            slope = k.let("add", slope, k.let("div", top, value))
            value = k.let("add", value, q)
        k.store(o, (row.axis,), value)
        k.store(p, (row.axis,), slope)
    return k.kernel()


def test_a_long_chain_in_one_vector_divides_plainly():
    fused = [("@llvm.fma" in text_of(chained(n), lanes=w)) for n, w in ((20, 8), (20, 16), (4, 8))]
    assert fused == [False, True, True]


@pytest.mark.parametrize("lanes", [8, 16])
def test_a_long_chain_has_the_bits_of_single_divisions(lanes):
    x = np.concatenate([np.linspace(3.0, 9.0, 41), [0.0, -1.0, np.inf, np.nan, 1e-300, 1e300]])
    value, slope = x + 1.0, np.zeros_like(x)
    with np.errstate(all="ignore"):
        for _ in range(20):
            q = x / value
            value, slope = value + q, slope + (1.0 - q * slope) / value
    kernel = chained(20)
    sample = Sample(kernel, {"x": x, "o": np.zeros_like(x), "p": np.zeros_like(x)}, [len(x)])
    got = run(sample, host(), with_lanes(kernel, lanes))
    assert_same_bits(got["o"][0], value, "value")
    assert_same_bits(got["p"][0], slope, "slope")


def test_the_middle_of_the_range():
    assert np.array([LOWEST]).view("f8")[0] == 2.0**-512


def test_spilled_registers_are_aligned():
    """Where LLVM cannot align the frame, every second spill lies across two cache lines."""
    k = Nest("spills")
    x, o = k.buffer("x", "f8", ["any", "one"]), k.buffer("o", "f8", ["one"], "out")
    with k.loop(k.scalar()) as row:
        values = [k.load(x, i8(i), row.axis) for i in range(40)]
        total = values[0]
        for value in [*values[1:], *values]:
            total = k.let("add", k.let("mul", total, value), value)
        k.store(o, (row.axis,), total)
    kernel = k.kernel()
    compiled = Compiled(kernel, with_lanes(kernel, 16), host("avx512"))
    assert "andq\t$-64, %rsp" in assembly(compiled.text, host("avx512"))

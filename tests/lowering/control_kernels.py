"""Kernels written by hand: loops in order, branches, repetitions, types.

See kernels.py for how to use them.
"""

import numpy as np

from ftrace.lowering.kernel.ir import Fold, Lit
from tests.lowering.nests import Nest, Sample, f4, f8, i8, random, sample

# --- loops in order


@sample
def cumulative_sum() -> Sample:
    """A loop with a carried value inside an independent one."""
    k = Nest("cumulative_sum")
    x, y = k.buffer("x", "f8", ["any", "one"]), k.buffer("y", "f8", ["any", "one"], "out")
    last, m, n = k.buffer("last", "f8", ["one"], "out"), k.scalar(), k.scalar()
    with k.loop(m) as i:
        with k.loop(n, inits=[f8(0)]) as j:
            total = k.let("add", j.params[0], k.load(x, i.axis, j.axis))
            k.store(y, [i.axis, j.axis], total)
            j.leave(total)
        k.store(last, [i.axis], j.outs[0])
    a = random(11, 9)
    expected = {"y": np.cumsum(a, 1), "last": np.cumsum(a, 1)[:, -1]}
    arrays = {"x": a, "y": np.zeros((11, 9)), "last": np.zeros(11)}
    return Sample(k.kernel(), arrays, [11, 9], expected, exact=True)


@sample
def recurrence_with_a_fold() -> Sample:
    """s = s*x + 1 in order, with the largest s as a fold beside it and a loop inside."""
    k = Nest("recurrence_with_a_fold")
    x, y = k.buffer("x", "f8", ["any", "one"]), k.buffer("y", "f8", ["one"], "out")
    m, n = k.scalar(), k.scalar()
    with k.loop(m, Fold("max", "f8", ways=2), inits=[f8(1), i8(0)]) as i:
        s, count = i.params
        with k.loop(n, Fold("sum", "f8", ways=4)) as j:
            j.leave(k.load(x, i.axis, j.axis))
        s = k.let("add", k.let("mul", s, j.outs[0]), f8(1))
        i.leave(s, s, k.let("add", count, i.axis))
    for cell, out in enumerate((*i.outs[:2], k.let("cast", i.outs[2], to="f8"))):
        k.store(y, [i8(cell)], out)
    a, s, largest = random(12, 7) / 7, 1.0, -np.inf
    for row in a:
        s = s * row.sum() + 1
        largest = max(s, largest)
    expected = np.array([largest, s, 66.0])
    return Sample(k.kernel(), {"x": a, "y": np.zeros(3)}, [12, 7], {"y": expected}, exact=True)


@sample
def carried_over_nothing() -> Sample:
    """No iterations: the inits and the fold's identity."""
    k = Nest("carried_over_nothing")
    y, n = k.buffer("y", "f8", ["one"], "out"), k.scalar()
    with k.loop(n, Fold("min", "f8"), inits=[f8(2)]) as i:
        i.leave(i.params[0], k.let("add", i.params[0], f8(1)))
    k.store(y, [i8(0)], i.outs[0])
    k.store(y, [i8(1)], i.outs[1])
    return Sample(k.kernel(), {"y": np.zeros(2)}, [0], {"y": [np.inf, 2.0]}, exact=True)


# --- branches


@sample
def padded() -> Sample:
    """Zeros before and after x: the load is guarded, its coordinate leaves the memory."""
    k = Nest("padded")
    x, y = k.buffer("x", "f4", ["one"]), k.buffer("y", "f4", ["one"], "out")
    n, total, before = k.scalar(), k.scalar(), k.scalar()
    with k.loop(total) as i:
        at = k.let("sub", i.axis, before)
        inside = k.let("and", k.let("ge", at, i8(0)), k.let("lt", at, n))
        with k.part() as then:
            then.leave(k.load(x, at))
        with k.part() as orelse:
            orelse.leave(f4(0))
        k.store(y, [i.axis], k.branch(inside, then, orelse)[0])
    a = random(13, dtype="f4")
    expected = np.pad(a, (5, 4))
    arrays = {"x": a, "y": np.ones(22, "f4")}
    return Sample(k.kernel(), arrays, [13, 22, 5], {"y": expected}, exact=True)


@sample
def padded_nothing() -> Sample:
    """The same of an empty array: no lane is active."""
    made = padded()
    empty = {"x": np.zeros(0, "f4"), "y": np.ones(22, "f4")}
    return Sample(made.kernel, empty, [0, 22, 5], {"y": np.zeros(22, "f4")}, exact=True)


@sample
def nested_arms() -> Sample:
    """Two outs, an arm within an arm, stores in both arms."""
    k = Nest("nested_arms")
    x, y = k.buffer("x", "f8", ["one"]), k.buffer("y", "f8", ["one"], "out")
    z, w = k.buffer("z", "f8", ["one"], "out"), k.buffer("w", "f8", ["one"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        v = k.load(x, i.axis)
        with k.part() as then:
            with k.part() as inner:
                inner.leave(k.let("sqrt", v))
            with k.part() as other:
                other.leave(v)
            (r,) = k.branch(k.let("gt", v, f8(1)), inner, other)
            k.store(w, [i.axis], r)
            then.leave(r, f8(1))
        with k.part() as orelse:
            k.store(w, [i.axis], f8(-1))
            orelse.leave(k.let("neg", v), v)
        a, b = k.branch(k.let("gt", v, f8(0)), then, orelse)
        k.store(y, [i.axis], a)
        k.store(z, [i.axis], b)
    a = np.array([-2.0, 4.0, 0.5, np.nan, -0.0, 9.0, 1.0, -7.0, 16.0, 0.25, 3.0])
    with np.errstate(invalid="ignore"):
        root = np.where(a > 1, np.sqrt(a), a)
    expected = {"y": np.where(a > 0, root, -a), "z": np.where(a > 0, 1, a)}
    expected["w"] = np.where(a > 0, root, -1)
    out = {name: np.zeros(11) for name in "yzw"}
    return Sample(k.kernel(), {"x": a} | out, [11], expected, exact=True)


@sample
def one_armed_store() -> Sample:
    """A store in one arm only; the other cells keep what they had."""
    k = Nest("one_armed_store")
    x, y = k.buffer("x", "i4", ["one"]), k.buffer("y", "i4", ["one"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        v = k.load(x, i.axis)
        with k.part() as then:
            k.store(y, [i.axis], k.let("floor_divide", Lit(100, "i4"), v))
        with k.part() as orelse:
            pass
        k.branch(k.let("ne", v, Lit(0, "i4")), then, orelse)
    a = np.array([0, 1, 2, 0, 3, -7, 0, 8, 9], "i4")
    expected = np.where(a == 0, 55, 100 // np.where(a == 0, 1, a)).astype("i4")
    arrays = {"x": a, "y": np.full(9, 55, "i4")}
    return Sample(k.kernel(), arrays, [9], {"y": expected}, exact=True)


# --- repetitions


@sample
def newton_roots() -> Sample:
    """Square roots by Newton's method; every element takes its own number of rounds."""
    k = Nest("newton_roots")
    x, y = k.buffer("x", "f8", ["one"]), k.buffer("y", "f8", ["one"], "out")
    rounds, n = k.buffer("rounds", "i4", ["one"], "out"), k.scalar()
    with k.loop(n) as i:
        v = k.load(x, i.axis)
        state = k.fresh("f8"), k.fresh("i4")
        with k.part() as cond:
            miss = k.let("abs", k.let("sub", k.let("mul", state[0], state[0]), v))
            cond.leave(k.let("gt", miss, k.let("mul", f8(1e-12), v)))
        with k.part(*state) as body:
            better = k.let("mul", f8(0.5), k.let("add", state[0], k.let("div", v, state[0])))
            body.leave(better, k.let("add", state[1], Lit(1, "i4")))
        root, count = k.repeat([f8(1), Lit(0, "i4")], cond, body)
        k.store(y, [i.axis], root)
        k.store(rounds, [i.axis], count)
    a = np.exp(4 * random(19))
    expected, counts = np.ones(19), np.zeros(19, "i4")
    for j, v in enumerate(a):
        while abs(expected[j] * expected[j] - v) > 1e-12 * v:
            expected[j] = 0.5 * (expected[j] + v / expected[j])
            counts[j] += 1
    arrays = {"x": a, "y": np.zeros(19), "rounds": np.zeros(19, "i4")}
    return Sample(k.kernel(), arrays, [19], {"y": expected, "rounds": counts}, exact=True)


@sample
def collatz() -> Sample:
    """Steps to 1: integers, a branch in a repetition in an arm, lanes that never start."""
    k = Nest("collatz")
    x, y = k.buffer("x", "i8", ["one"]), k.buffer("y", "i8", ["one"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        v = k.load(x, i.axis)
        with k.part() as then:
            at, steps = k.fresh("i8"), k.fresh("i8")
            with k.part() as cond:
                cond.leave(k.let("ne", at, i8(1)))
            with k.part(at, steps) as body:
                with k.part() as even:
                    even.leave(k.let("shift_right", at, i8(1)))
                with k.part() as odd:
                    odd.leave(k.let("add", k.let("mul", at, i8(3)), i8(1)))
                is_even = k.let("eq", k.let("and", at, i8(1)), i8(0))
                (following,) = k.branch(is_even, even, odd)
                body.leave(following, k.let("add", steps, i8(1)))
            then.leave(k.repeat([v, i8(0)], cond, body)[1])
        with k.part() as orelse:
            orelse.leave(i8(-1))
        k.store(y, [i.axis], k.branch(k.let("gt", v, i8(0)), then, orelse)[0])
    a = np.array([1, 2, 3, 0, 27, -5, 7, 97, 0, 6, 12])
    expected = []
    for v in a:
        steps = 0 if v > 0 else -1
        while v > 1:
            v, steps = v // 2 if v % 2 == 0 else 3 * v + 1, steps + 1
        expected.append(steps)
    arrays = {"x": a, "y": np.zeros(11, "i8")}
    return Sample(k.kernel(), arrays, [11], {"y": np.array(expected)}, exact=True)


@sample
def searched() -> Sample:
    """Binary search: a gather in a repetition."""
    k = Nest("searched")
    table, x = k.buffer("table", "f8", ["one"]), k.buffer("x", "f8", ["one"])
    y, n, size = k.buffer("y", "i8", ["one"], "out"), k.scalar(), k.scalar()
    with k.loop(n) as i:
        v = k.load(x, i.axis)
        low, high = k.fresh("i8"), k.fresh("i8")
        with k.part() as cond:
            cond.leave(k.let("lt", low, high))
        with k.part(low, high) as body:
            middle = k.let("shift_right", k.let("add", low, high), i8(1))
            right = k.let("lt", k.load(table, middle), v)
            above = k.let("add", middle, i8(1))
            body.leave(k.let("select", right, above, low), k.let("select", right, high, middle))
        k.store(y, [i.axis], k.repeat([i8(0), size], cond, body)[0])
    t, a = np.sort(random(30)), random(21, seed=1)
    arrays = {"table": t, "x": a, "y": np.zeros(21, "i8")}
    return Sample(k.kernel(), arrays, [21, 30], {"y": np.searchsorted(t, a)}, exact=True)


# --- types


UFUNCS = {
    "floor_divide": np.floor_divide, "mod": np.remainder, "rem": np.fmod, "not": np.invert,
    "shift_left": np.left_shift, "shift_right": np.right_shift, "neg": np.negative,
    "abs": np.absolute, "max": np.maximum, "min": np.minimum, "add": np.add, "sub": np.subtract,
    "mul": np.multiply, "xor": np.bitwise_xor, "and": np.bitwise_and, "or": np.bitwise_or,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.rint, "signbit": np.signbit, "copysign": np.copysign,
}  # fmt: skip
ARITHMETIC = ["add", "sub", "mul", "neg", "abs", "max", "min", "floor_divide", "mod", "rem"]
BITS = ["and", "or", "xor", "not"]
SHIFTS = ["shift_left", "shift_right"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
ROUNDING = ["floor", "ceil", "trunc", "round", "copysign"]


def _table(name: str, ops: list[str], a: np.ndarray, b: np.ndarray) -> Sample:
    """Each operation on `a` and `b`, its results in a row of the output."""
    dtype = a.dtype.str[1:]
    k = Nest(name)
    x, z = k.buffer("x", dtype, ["one"]), k.buffer("z", dtype, ["one"])
    ops = [op for op in ops if op not in COMPARISONS] + [op for op in ops if op in COMPARISONS]
    y, c = (k.buffer(o, d, ["any", "one"], "out") for o, d in (("y", dtype), ("c", "b1")))
    n, values, truths = k.scalar(), [], []
    with k.loop(n) as i, np.errstate(all="ignore"):
        v, w = k.load(x, i.axis), k.load(z, i.axis)
        for op in ops:
            out, ufunc = k.let(op, *(v, w)[: UFUNCS[op].nin]), UFUNCS[op]
            rows = truths if op in COMPARISONS or op == "signbit" else values
            k.store(c if rows is truths else y, [i8(len(rows)), i.axis], out)
            rows.append(ufunc(*(a, b)[: ufunc.nin]))
    expected = {"y": np.stack(values), "c": np.stack(truths)}
    arrays = {"x": a, "z": b} | {o: np.zeros(e.shape, e.dtype) for o, e in expected.items()}
    return Sample(k.kernel(), arrays, [len(a)], expected, exact=True)


def pairs(values: list[float], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of values."""
    a, b = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    return a.ravel(), b.ravel()


@sample
def total_int32() -> Sample:
    """Division by zero and of the least number by -1, shifts by the width and more."""
    ops = [*ARITHMETIC, *BITS, *SHIFTS, *COMPARISONS]
    values = [0, 1, -1, 2, -2, 7, -7, 31, 32, 33, 2**31 - 1, -(2**31)]
    return _table("total_int32", ops, *pairs(values, "i4"))


@sample
def total_int8() -> Sample:
    ops = [*ARITHMETIC, *BITS, *SHIFTS, *COMPARISONS]
    return _table("total_int8", ops, *pairs([0, 1, -1, 3, -3, 7, 8, 9, 100, 127, -128], "i1"))


@sample
def total_int64() -> Sample:
    ops = [*ARITHMETIC, *BITS, *SHIFTS, *COMPARISONS]
    values = [0, 1, -1, 5, -5, 63, 64, 2**40, 2**63 - 1, -(2**63)]
    return _table("total_int64", ops, *pairs(values, "i8"))


@sample
def total_uint64() -> Sample:
    ops = [*ARITHMETIC, *BITS, *SHIFTS, *COMPARISONS]
    return _table("total_uint64", ops, *pairs([0, 1, 2, 5, 63, 64, 2**63, 2**64 - 1], "u8"))


@sample
def total_uint16() -> Sample:
    ops = [*ARITHMETIC, *BITS, *SHIFTS, *COMPARISONS]
    return _table("total_uint16", ops, *pairs([0, 1, 2, 5, 15, 16, 17, 2**15, 2**16 - 1], "u2"))


SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.5, -2.5, 0.3, 7.0, -7.0, 1e300, np.inf, -np.inf, np.nan, 5e-324]


@sample
def total_float64() -> Sample:
    """Signed zeros, infinities, NaN, a subnormal."""
    ops = [*ARITHMETIC, *ROUNDING, "signbit", *COMPARISONS]
    return _table("total_float64", ops, *pairs(SPECIAL, "f8"))


@sample
def total_float32() -> Sample:
    ops = [*ARITHMETIC, *ROUNDING, "signbit", *COMPARISONS]
    values = [x for x in SPECIAL if abs(x) != 1e300]
    return _table("total_float32", ops, *pairs(values, "f4"))


@sample
def booleans() -> Sample:
    return _table("booleans", [*BITS, "max", "min", *COMPARISONS], *pairs([0, 1], "b1"))


def _conversions(name: str, a: np.ndarray, to: list[str]) -> Sample:
    """`a` in every type of `to`, one output buffer each."""
    k = Nest(name)
    x = k.buffer("x", a.dtype.str[1:], ["one"])
    n, expected = k.scalar(), {}
    with k.loop(n) as i, np.errstate(all="ignore"):
        v = k.load(x, i.axis)
        for dtype in to:
            k.store(
                k.buffer(f"y_{dtype}", dtype, ["one"], "out"), [i.axis], k.let("cast", v, to=dtype)
            )
            expected[f"y_{dtype}"] = a.astype(dtype)
    arrays = {"x": a} | {y: np.zeros(len(a), e.dtype) for y, e in expected.items()}
    return Sample(k.kernel(), arrays, [len(a)], expected, exact=True)


INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@sample
def conversions_of_integers() -> Sample:
    a = np.array([0, 1, -1, 127, 128, 255, -129, 65535, 2**24 + 1, 2**53 + 1, -(2**63), 2**63 - 1])
    return _conversions("conversions_of_integers", a, ["b1", *INTEGERS, "f4", "f8"])


@sample
def conversions_of_uint64() -> Sample:
    a = np.array([0, 1, 255, 2**24 + 1, 2**53 + 1, 2**63, 2**63 + 1025, 2**64 - 1], "u8")
    return _conversions("conversions_of_uint64", a, ["b1", *INTEGERS, "f4", "f8"])


@sample
def conversions_of_float64() -> Sample:
    """Rounding to float32 and float16, overflow there, and integers that hold the value."""
    a = np.array([0.0, 1.0, 1.99, 0.1, 64.5, 127.0, 65519.0, 65520.0, 1e-7, 5e-8, 1e-320])
    return _conversions("conversions_of_float64", a, ["b1", "i4", "i8", "u8", "f2", "f4"])


@sample
def conversions_of_special_numbers() -> Sample:
    """NaN and infinities; -0.0 is false."""
    a = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, -0.0, 3e9])
    return _conversions("conversions_of_special_numbers", a, ["b1", "i4", "i8", "f2", "f4"])


@sample
def conversions_of_booleans() -> Sample:
    a = np.array([True, False, True, True, False])
    return _conversions("conversions_of_booleans", a, [*INTEGERS, "f2", "f4", "f8"])


@sample
def half_precision() -> Sample:
    """float16: read, computed in float32, rounded after every operation."""
    k = Nest("half_precision")
    x, y = k.buffer("x", "f2", ["any"]), k.buffer("y", "f2", ["minus"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        v = k.let("cast", k.load(x, i.axis), to="f4")
        square = k.let("cast", k.let("mul", v, v), to="f2")
        total = k.let("add", k.let("cast", square, to="f4"), f4(1))
        k.store(y, [i.axis], k.let("cast", total, to="f2"))
    a = (100 * random(34)).astype("f2")[::2]
    with np.errstate(over="ignore"):
        expected = a * a + np.float16(1)
    arrays = {"x": a, "y": np.zeros(17, "f2")[::-1]}
    return Sample(k.kernel(), arrays, [17], {"y": expected}, exact=True)


@sample
def bit_patterns() -> Sample:
    """The next float up, by way of its bits; comparisons choose."""
    k = Nest("bit_patterns")
    x, y = k.buffer("x", "f4", ["one"]), k.buffer("y", "f4", ["one"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        v = k.load(x, i.axis)
        number = k.let("bitcast", v, to="i4")
        step = k.let("select", k.let("signbit", v), Lit(-1, "i4"), Lit(1, "i4"))
        k.store(y, [i.axis], k.let("bitcast", k.let("add", number, step), to="f4"))
    a = random(20, dtype="f4")
    expected = np.nextafter(a, np.float32(np.inf))
    return Sample(k.kernel(), {"x": a, "y": np.zeros(20, "f4")}, [20], {"y": expected}, exact=True)

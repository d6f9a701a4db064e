"""Kernels written by hand: elementwise, gathers, folds. See kernels.py for how to use them."""

import numpy as np
from scipy import special

from ftrace.lowering.kernel.ir import Fold, Lit
from tests.lowering.nests import Nest, Sample, f8, i8, random, sample

# --- elementwise, every kind of step


@sample
def broadcast_add() -> Sample:
    """Row plus column, times a matrix read with a step of 2 and transposed."""
    k = Nest("broadcast_add")
    row, column = k.buffer("row", "f8", ["one"]), k.buffer("column", "f8", ["any"])
    matrix, y = k.buffer("matrix", "f8", ["any", "any"]), k.buffer("y", "f8", ["any", "one"], "out")
    m, n, scale = k.scalar(), k.scalar(), k.scalar("f8")
    with k.loop(m) as i, k.loop(n) as j:
        total = k.let("add", k.load(row, j.axis), k.load(column, i.axis))
        product = k.let("mul", total, k.load(matrix, i.axis, j.axis))
        k.store(y, [i.axis, j.axis], k.let("mul", product, scale))
    r, c, x = random(9), random(10, seed=1)[::2], random(18, 10, seed=2)[::2, ::2].T
    arrays = {"row": r, "column": c, "matrix": x, "y": np.zeros((5, 9))}
    return Sample(k.kernel(), arrays, [5, 9, 2.5], {"y": (r + c[:, None]) * x * 2.5}, exact=True)


@sample
def reversed_steps() -> Sample:
    """x[::-1] - x, and stored backwards too."""
    k = Nest("reversed_steps")
    x, z = k.buffer("x", "f4", ["one"]), k.buffer("z", "f4", ["minus"])
    y, w = k.buffer("y", "f4", ["one"], "out"), k.buffer("w", "f4", ["minus"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        v = k.let("sub", k.load(z, i.axis), k.load(x, i.axis))
        k.store(y, [i.axis], v)
        k.store(w, [i.axis], v)
    a = random(37, dtype="f4")
    arrays = {"x": a, "z": a[::-1], "y": np.zeros(37, "f4"), "w": np.zeros(37, "f4")[::-1]}
    return Sample(k.kernel(), arrays, [37], {"y": a[::-1] - a, "w": a[::-1] - a}, exact=True)


@sample
def scaled_tail() -> Sample:
    """A view that starts inside its memory; nothing around the output is touched."""
    k = Nest("scaled_tail")
    x, y = k.buffer("x", "f8", ["one"]), k.buffer("y", "f8", ["any"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        k.store(y, [i.axis], k.let("mul", k.load(x, i.axis), f8(2)))
    a, y = random(40)[7:30], np.full(100, 7.0)[3:72:3]
    return Sample(k.kernel(), {"x": a, "y": y}, [23], {"y": 2 * a}, exact=True)


@sample
def three_axes() -> Sample:
    """A literal extent, a literal coordinate, one step of each class."""
    k = Nest("three_axes")
    x = k.buffer("x", "f8", ["any", "minus", "any", "any"])
    y = k.buffer("y", "f8", ["any", "any", "one"], "out")
    m, n = k.scalar(), k.scalar()
    with k.loop(m) as a, k.loop(i8(3)) as b, k.loop(n) as c:
        real, imag = (k.load(x, b.axis, c.axis, a.axis, i8(part)) for part in (0, 1))
        k.store(y, [a.axis, b.axis, c.axis], k.let("copysign", real, imag))
    parts = np.moveaxis(random(2, 3, 4, 11)[..., ::-1], 0, 3)[:, :, :, :].transpose(0, 2, 1, 3)
    out = np.zeros((4, 3, 11))
    expected = np.copysign(parts[..., 0], parts[..., 1]).transpose(2, 0, 1)
    return Sample(k.kernel(), {"x": parts, "y": out}, [4, 11], {"y": expected}, exact=True)


@sample
def single_cell() -> Sample:
    """No loop at all."""
    k = Nest("single_cell")
    x, y = k.buffer("x", "f8", []), k.buffer("y", "f8", [], "out")
    k.store(y, [], k.let("sqrt", k.load(x)))
    arrays = {"x": np.array(2.0), "y": np.array(0.0)}
    return Sample(k.kernel(), arrays, [], {"y": np.sqrt(2.0)}, exact=True)


@sample
def transcendental() -> Sample:
    """exp, log, tanh and erf of one value."""
    k = Nest("transcendental")
    x, y = k.buffer("x", "f8", ["one"]), k.buffer("y", "f8", ["any", "one"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        v = k.load(x, i.axis)
        for row, op in enumerate(("exp", "log", "tanh", "erf")):
            k.store(y, [i8(row), i.axis], k.let(op, v))
    a = np.exp(random(21))
    expected = np.stack([np.exp(a), np.log(a), np.tanh(a), special.erf(a)])
    return Sample(k.kernel(), {"x": a, "y": np.zeros((4, 21))}, [21], {"y": expected})


# --- gathers


@sample
def gather_rows() -> Sample:
    """table[ids], and a column counted from the end by arithmetic."""
    k = Nest("gather_rows")
    table, ids = k.buffer("table", "f4", ["any", "one"]), k.buffer("ids", "i4", ["one"])
    y, m, n = k.buffer("y", "f4", ["any", "one"], "out"), k.scalar(), k.scalar()
    with k.loop(m) as i:
        row = k.let("cast", k.load(ids, i.axis), to="i8")
        with k.loop(n) as j:
            last = k.let("sub", k.let("sub", n, i8(1)), j.axis)
            k.store(y, [i.axis, j.axis], k.load(table, row, last))
    t, picked = random(6, 19, dtype="f4"), np.array([5, 0, 0, 3], "i4")
    arrays = {"table": t, "ids": picked, "y": np.zeros((4, 19), "f4")}
    return Sample(k.kernel(), arrays, [4, 19], {"y": t[picked, ::-1]}, exact=True)


@sample
def gather_elements() -> Sample:
    """x[ids], element by element."""
    k = Nest("gather_elements")
    x, ids = k.buffer("x", "f8", ["one"]), k.buffer("ids", "i8", ["one"])
    y, n = k.buffer("y", "f8", ["one"], "out"), k.scalar()
    with k.loop(n) as i:
        k.store(y, [i.axis], k.load(x, k.load(ids, i.axis)))
    a, picked = random(50), np.random.default_rng(1).integers(0, 50, 33)
    arrays = {"x": a, "ids": picked, "y": np.zeros(33)}
    return Sample(k.kernel(), arrays, [33], {"y": a[picked]}, exact=True)


# --- folds


@sample
def softmax() -> Sample:
    """Three passes over each row; the second one's output is read again by the third."""
    k = Nest("softmax")
    x, y = k.buffer("x", "f4", ["any", "one"]), k.buffer("y", "f4", ["any", "one"], "out")
    m, n = k.scalar(), k.scalar()
    with k.loop(m) as row:
        with k.loop(n, Fold("max", "f4", ways=16)) as one:
            one.leave(k.load(x, row.axis, one.axis))
        with k.loop(n, Fold("sum", "f8", ways=16)) as two:
            shifted = k.let("sub", k.load(x, row.axis, two.axis), one.outs[0])
            e = k.let("exp", shifted)
            k.store(y, [row.axis, two.axis], e)
            two.leave(e)
        scale = k.let("cast", k.let("div", f8(1), two.outs[0]), to="f4")
        with k.loop(n) as three:
            kept = k.load(y, row.axis, three.axis)
            k.store(y, [row.axis, three.axis], k.let("mul", kept, scale))
    a = random(5, 70, dtype="f4")
    e = np.exp(a - a.max(1, keepdims=True))
    expected = e / e.sum(1, keepdims=True)
    arrays = {"x": a, "y": np.zeros((5, 70), "f4")}
    return Sample(k.kernel(), arrays, [5, 70], {"y": expected})


def _sum(name: str, shape: tuple[int, int], axis: int, fold: Fold) -> Sample:
    k = Nest(name)
    x, y = k.buffer("x", "f8", ["any", "one"]), k.buffer("y", "f8", ["one"], "out")
    sizes = k.scalar(), k.scalar()
    with k.loop(sizes[1 - axis]) as keep:
        with k.loop(sizes[axis], fold) as over:
            at = (keep.axis, over.axis) if axis else (over.axis, keep.axis)
            over.leave(k.load(x, *at))
        k.store(y, [keep.axis], over.outs[0])
    a = random(*shape)
    arrays = {"x": a, "y": np.zeros(shape[1 - axis])}
    return Sample(k.kernel(), arrays, list(shape), {"y": a.sum(axis)}, exact=True)


@sample
def first_axis_sum() -> Sample:
    """A sum over rows: one accumulator per column."""
    return _sum("first_axis_sum", (29, 37), 0, Fold("sum", "f8"))


@sample
def first_axis_sum_in_blocks() -> Sample:
    return _sum("first_axis_sum_in_blocks", (29, 37), 0, Fold("sum", "f8", 1, 8))


@sample
def last_axis_sum() -> Sample:
    """A sum along rows: eight accumulators each."""
    return _sum("last_axis_sum", (5, 101), 1, Fold("sum", "f8", 8))


@sample
def last_axis_sum_in_blocks() -> Sample:
    """Blocks of 32 with two-sum, the last one ragged."""
    return _sum("last_axis_sum_in_blocks", (5, 101), 1, Fold("sum", "f8", 8, 32))


@sample
def sums_of_nothing() -> Sample:
    """Five rows of no elements."""
    return _sum("sums_of_nothing", (5, 0), 1, Fold("sum", "f8", 8, 32))


@sample
def nothing_to_sum() -> Sample:
    """No rows at all."""
    return _sum("nothing_to_sum", (0, 7), 1, Fold("sum", "f8", 8))


@sample
def sums_beyond_numbers() -> Sample:
    """Blocked sums of rows with infinities, NaN, overflow, and cancellation."""
    made = _sum("sums_beyond_numbers", (6, 40), 1, Fold("sum", "f8", 4, 8))
    x = made.arrays["x"]
    x[0, 3] = np.inf
    x[1, 5], x[1, 30] = np.inf, -np.inf
    x[2, 39] = np.nan
    x[3] = 1e308
    x[4] = np.where(np.arange(40) % 4 == 0, 1e200, 1.0)
    x[4, 4::8] *= -1
    made.expected["y"] = np.array([np.inf, np.nan, np.nan, np.inf, 30.0, x[5].sum()])
    return made


@sample
def full_sum_of_float32() -> Sample:
    """Two loops folded into one number, in double precision."""
    k = Nest("full_sum_of_float32")
    x, y = k.buffer("x", "f4", ["any", "one"]), k.buffer("y", "f4", [], "out")
    m, n = k.scalar(), k.scalar()
    with k.loop(m, Fold("sum", "f8")) as i:
        with k.loop(n, Fold("sum", "f8", ways=32)) as j:
            j.leave(k.load(x, i.axis, j.axis))
        i.leave(j.outs[0])
    k.store(y, [], k.let("cast", i.outs[0], to="f4"))
    a = random(7, 130, dtype="f4")
    expected = np.float32(a.astype("f8").sum())
    arrays = {"x": a, "y": np.array(0, "f4")}
    return Sample(k.kernel(), arrays, [7, 130], {"y": expected}, exact=True)


def _folds(name: str, dtype: str, ops: list[str], a: np.ndarray) -> Sample:
    """Every fold of `ops` along the rows of `a`."""
    k = Nest(name)
    x, y = k.buffer("x", dtype, ["any", "one"]), k.buffer("y", dtype, ["any", "one"], "out")
    m, n = k.scalar(), k.scalar()
    with k.loop(m) as i:
        with k.loop(n, *(Fold(op, dtype, ways=4) for op in ops)) as j:
            v = k.load(x, i.axis, j.axis)
            j.leave(*[v] * len(ops))
        for column, out in enumerate(j.outs):
            k.store(y, [i.axis, i8(column)], out)
    ufuncs = {
        "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }  # fmt: skip
    expected = np.stack([ufuncs[op].reduce(a, axis=1, dtype=dtype) for op in ops], 1)
    arrays = {"x": a, "y": np.zeros(expected.shape, dtype)}
    return Sample(k.kernel(), arrays, list(a.shape), {"y": expected}, exact=True)


@sample
def folds_with_nan() -> Sample:
    """prod, max and min; one row holds NaN, one infinities."""
    a = random(4, 23)
    a[1, 11], a[2, 4], a[2, 20] = np.nan, np.inf, -np.inf
    return _folds("folds_with_nan", "f8", ["prod", "max", "min"], a)


@sample
def folds_of_int32() -> Sample:
    a = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 21), dtype="i4")
    return _folds("folds_of_int32", "i4", ["sum", "prod", "max", "min", "and", "or", "xor"], a)


@sample
def folds_of_uint8() -> Sample:
    a = np.random.default_rng(0).integers(0, 256, (3, 70), dtype="u1")
    return _folds("folds_of_uint8", "u1", ["sum", "prod", "max", "min", "and", "or", "xor"], a)


@sample
def folds_of_booleans() -> Sample:
    a = np.random.default_rng(0).integers(0, 2, (5, 9)).astype(bool)
    return _folds("folds_of_booleans", "b1", ["max", "min", "and", "or", "xor"], a)


def _extremes(name: str, dtype: str, a: np.ndarray) -> Sample:
    """Value and index of the first greatest and least element of each row."""
    k = Nest(name)
    x, m, n = k.buffer("x", dtype, ["any", "one"]), k.scalar(), k.scalar()
    best, least = (k.buffer(b, dtype, ["one"], "out") for b in ("best", "least"))
    at_best, at_least = (k.buffer(b, "i8", ["one"], "out") for b in ("at_best", "at_least"))
    with k.loop(m) as i:
        with k.loop(n, Fold("argmax", dtype, ways=8), Fold("argmin", dtype)) as j:
            v = k.load(x, i.axis, j.axis)
            j.leave(v, j.axis, v, j.axis)
        for buffer, out in zip((best, at_best, least, at_least), j.outs, strict=True):
            k.store(buffer, [i.axis], out)
    expected = {"best": a.max(1), "at_best": a.argmax(1), "least": a.min(1)}
    expected["at_least"] = a.argmin(1)
    out = {name: np.zeros(len(a), e.dtype) for name, e in expected.items()}
    return Sample(k.kernel(), {"x": a} | out, list(a.shape), expected, exact=True)


@sample
def argmax_with_nan() -> Sample:
    """Ties, two NaN, only -inf."""
    a = np.round(random(6, 45, dtype="f4"))
    a[1, 30], a[1, 9], a[2] = np.nan, np.nan, -np.inf
    return _extremes("argmax_with_nan", "f4", a)


@sample
def argmax_of_int64() -> Sample:
    return _extremes("argmax_of_int64", "i8", np.random.default_rng(0).integers(-3, 3, (4, 33)))


@sample
def indices_of_infinities() -> Sample:
    """Nothing beats the identity: the least index is found all the same, whatever its type."""
    k = Nest("indices_of_infinities")
    x, n = k.buffer("x", "f8", ["one"]), k.scalar()
    dtypes, expected = ("u1", "i1", "u4", "i8"), {}
    folds = [Fold("argmax", "f8", ways=4) for _ in dtypes]
    with k.loop(n, *folds) as i:
        left = []
        for dtype in dtypes:
            down = k.let("sub", i8(100), i.axis)
            left += [k.load(x, i.axis), k.let("cast", down, to=dtype)]
        i.leave(*left)
    for out, dtype in zip(i.outs[1::2], dtypes, strict=True):
        k.store(k.buffer(f"at_{dtype}", dtype, [], "out"), [], out)
        expected[f"at_{dtype}"] = np.array(60, dtype)
    arrays = {"x": np.full(41, -np.inf)} | {b: np.zeros_like(e) for b, e in expected.items()}
    return Sample(k.kernel(), arrays, [41], expected, exact=True)


@sample
def up_to_the_best() -> Sample:
    """Of two pairs in one loop the second differs between rows; its index is counted up to."""
    k = Nest("up_to_the_best")
    x, y = k.buffer("x", "f8", ["one"]), k.buffer("y", "f8", ["one", "any"])
    o, m, n = k.buffer("o", "i8", ["one"], "out"), k.scalar(), k.scalar()
    with k.loop(m) as i:
        with k.loop(n, Fold("argmax", "f8"), Fold("argmax", "f8")) as j:
            j.leave(k.load(x, j.axis), j.axis, k.load(y, i.axis, j.axis), j.axis)
        count = k.fresh("i8")
        with k.part() as cond:
            cond.leave(k.let("lt", count, j.outs[3]))
        with k.part(count) as body:
            body.leave(k.let("add", count, i8(1)))
        (count,) = k.repeat([i8(0)], cond, body)
        k.store(o, [i.axis], k.let("add", count, j.outs[1]))
    a = random(29, 11)
    arrays = {"x": np.arange(11.0), "y": a.T.copy().T, "o": np.zeros(29, "i8")}
    return Sample(k.kernel(), arrays, [29, 11], {"o": a.argmax(1) + 10}, exact=True)


@sample
def constant_folds() -> Sample:
    """What a loop leaves may not depend on the loop."""
    k = Nest("constant_folds")
    y, n = k.buffer("y", "f8", ["one"], "out"), k.scalar()
    with k.loop(n, Fold("sum", "f8", 4), Fold("argmax", "f8", 4)) as i:
        i.leave(f8(0.5), f8(2), i.axis)
    k.store(y, [i8(0)], i.outs[0])
    k.store(y, [i8(1)], i.outs[1])
    k.store(y, [i8(2)], k.let("cast", i.outs[2], to="f8"))
    return Sample(k.kernel(), {"y": np.zeros(3)}, [11], {"y": [5.5, 2.0, 0.0]}, exact=True)


@sample
def rows_and_column_sums() -> Sample:
    """One pass that writes a matrix, a sum of each row, and a sum of each column by `combine`."""
    k = Nest("rows_and_column_sums")
    x, y = k.buffer("x", "f8", ["any", "one"]), k.buffer("y", "f8", ["any", "one"], "out")
    rows, columns = (
        k.buffer("rows", "f8", ["one"], "out"),
        k.buffer("columns", "f8", ["one"], "out"),
    )
    m, n = k.scalar(), k.scalar()
    with k.loop(m) as i:
        with k.loop(n, Fold("sum", "f8", ways=8)) as j:
            v = k.let("mul", k.load(x, i.axis, j.axis), f8(0.5))
            k.store(y, [i.axis, j.axis], v)
            k.store(columns, [j.axis], v, "sum")
            j.leave(v)
        k.store(rows, [i.axis], j.outs[0])
    a = random(6, 21)
    expected = {"y": a / 2, "rows": (a / 2).sum(1), "columns": 1 + (a / 2).sum(0)}
    arrays = {"x": a, "y": np.zeros((6, 21)), "rows": np.zeros(6), "columns": np.ones(21)}
    return Sample(k.kernel(), arrays, [6, 21], expected, exact=True)


@sample
def counts_of_each_row() -> Sample:
    """A scatter into every row, many rows at once, and into the diagonal of a matrix."""
    k = Nest("counts_of_each_row")
    ids, w = (k.buffer(b, d, ["one", "any"]) for b, d in (("ids", "i8"), ("w", "f8")))
    x = k.buffer("x", "f8", ["one"])
    y, z = k.buffer("y", "f8", ["any", "one"], "out"), k.buffer("z", "f8", ["any", "any"], "out")
    m, n = k.scalar(), k.scalar()
    with k.loop(m) as i, k.loop(n) as j:
        value = k.let("mul", k.load(w, i.axis, j.axis), k.load(x, j.axis))
        k.store(y, [i.axis, k.load(ids, i.axis, j.axis)], value, "sum")
        k.store(z, [i.axis, i.axis], value, "max")
    picked = np.random.default_rng(0).integers(0, 5, (37, 6))
    factors, values = np.ones((6, 37)) + np.arange(37), np.arange(6.0)
    parts = zip(picked, factors.T, strict=True)
    expected = np.stack([np.bincount(row, f * values, minlength=5) for row, f in parts])
    arrays = {"ids": picked.T.copy().T, "w": factors.T, "x": values}
    arrays |= {"y": np.zeros((37, 5)), "z": np.zeros((37, 37))}
    wanted = {"y": expected, "z": np.diag(np.arange(1.0, 38.0) * 5.0)}
    return Sample(k.kernel(), arrays, [37, 6], wanted, exact=True)


@sample
def histogram() -> Sample:
    """A scatter: cells found by data, counted up."""
    k = Nest("histogram")
    ids, y = k.buffer("ids", "i8", ["one"]), k.buffer("y", "i4", ["one"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        k.store(y, [k.load(ids, i.axis)], Lit(1, "i4"), "sum")
    picked = np.random.default_rng(0).integers(0, 5, 60)
    expected = np.bincount(picked, minlength=5).astype("i4")
    return Sample(
        k.kernel(), {"ids": picked, "y": np.zeros(5, "i4")}, [60], {"y": expected}, exact=True
    )

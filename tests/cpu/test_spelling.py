"""Exact operations, bit for bit as NumPy, on values where machines and compilers differ."""

import numpy as np
import pytest

from ftrace.core.scalar import OPS, apply
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.mathematics.llvm_spelling import EXACT, SPELLINGS
from ftrace.lowering.kernel.ir import DTYPES
from tests.cpu.running import run, with_lanes
from tests.lowering.nests import Nest, Sample

LEVELS = ["native", "avx2", "sse2"]
EDGES = [0, 1, 2, 7, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**24 + 1, 2**31 - 1]
EDGES += [2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
FLOATS = [0.0, 0.3, 0.5, 1.5, 2.5, 5e-324, 1e-45, 6e-8, 6.1e-5, 65504, 65519.9, 65520, 3e38]
FLOATS += [1e300, np.inf, np.nan, 4503599627370497.5, 8388609.5, 2.0**31 - 0.5, 2.0**31 + 0.5]


def numbers(dtype: str) -> np.ndarray:
    """Edge values of a type; more than a vector of them, and not a multiple."""
    with np.errstate(all="ignore"):
        if dtype == "b1":
            return np.arange(37) % 3 == 0
        if dtype[0] == "f":
            plain = np.array([*map(float, EDGES), *FLOATS])
            return np.concatenate([plain, -plain]).astype(dtype)
        bounds = np.iinfo(dtype)
        every = [v for e in EDGES for v in (e, -e, -e - 1) if bounds.min <= v <= bounds.max]
        return np.array(every, dtype)


def sample(name: str, inputs: list[np.ndarray], rows: list[tuple[str, str]]) -> Sample:
    """One output per (operation, result type), all of the same operands."""
    k = Nest(name)
    n = len(inputs[0])
    arrays = {f"x{i}": a for i, a in enumerate(inputs)}
    given = [k.buffer(f"x{i}", a.dtype.str[1:], ["one"]) for i, a in enumerate(inputs)]
    outs = [k.buffer(f"o{i}", to, ["one"], "out") for i, (_, to) in enumerate(rows)]
    with k.loop(k.scalar()) as row:
        values = [k.load(x, row.axis) for x in given]
        for out, (op, to) in zip(outs, rows, strict=True):
            arity = 2 if op == "select" else OPS[op].arity
            args = values[:arity] if op != "select" else [k.let("lt", *values), *values]
            k.store(out, (row.axis,), k.let(op, *args, to=to))
    arrays |= {f"o{i}": np.zeros(n, to) for i, (_, to) in enumerate(rows)}
    return Sample(k.kernel(), arrays, [n])


def check(name: str, inputs: list[np.ndarray], rows: list[tuple[str, str]], level: str) -> None:
    made = sample(name, inputs, rows)
    lanes = 1 if level == "scalar" else 16
    got = run(made, host("native" if level == "scalar" else level), with_lanes(made.kernel, lanes))
    for i, (op, to) in enumerate(rows):
        args = inputs[: OPS[op].arity]
        with np.errstate(all="ignore"):
            args = [inputs[0] < inputs[1], *inputs] if op == "select" else args
        want = np.asarray(apply(op, tuple(args), to))
        assert_same_bits(got[f"o{i}"][0], want, f"{name}: {op} -> {to}")


def assert_same_bits(got: np.ndarray, want: np.ndarray, what: str) -> None:
    """NaN by any payload; zeros by sign."""
    assert got.dtype == want.dtype, what
    same = got == want
    if got.dtype.kind == "f":
        same &= np.signbit(got) == np.signbit(want)
        same |= (got != got) & (want != want)
    assert same.all(), f"{what}: {got[~same][:5]}, not {want[~same][:5]}"


def result(op: str, dtype: str) -> str:
    return "b1" if OPS[op].result == "b1" else dtype


def test_every_operation_has_a_spelling():
    made_of_pointers = OPS.keys() - EXACT.keys() - SPELLINGS.keys() - {"cast", "bitcast"}
    from_scipy = list(OPS)[list(OPS).index("lgamma") :]
    assert made_of_pointers <= set(from_scipy)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "f2"])
def test_operations_on_edge_values(dtype):
    level = {"i4": "sse2", "f4": "avx2", "u2": "scalar", "f8": "sse2"}.get(dtype, "native")
    check_operations(dtype, level)


@pytest.mark.slow
@pytest.mark.parametrize("level", [*LEVELS, "scalar"])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "f2"])
def test_operations_on_edge_values_on_every_host(dtype, level):
    check_operations(dtype, level)


def check_operations(dtype: str, level: str) -> None:
    values = numbers(dtype)
    a, b = (m.ravel() for m in np.meshgrid(values, values[::3]))
    ops = [op for op in EXACT if dtype[0] in OPS[op].kinds]
    check(f"all_{dtype}", [a, b], [(op, result(op, dtype)) for op in ops], level)


def in_range(values: np.ndarray, to: str) -> np.ndarray:
    """NumPy's own answers for u4 out of range depend on how its loops were compiled."""
    if values.dtype.kind != "f" or to != "u4":
        return np.ones(values.shape, bool)
    wide = values.astype("f8")
    return (wide > -1) & (wide < 2.0**32)


@pytest.mark.parametrize("source", DTYPES)
def test_conversions_of_edge_values(source):
    check_conversions(source, "sse2" if source in ("f2", "f8") else "native")


@pytest.mark.slow
@pytest.mark.parametrize("level", [*LEVELS, "scalar"])
@pytest.mark.parametrize("source", DTYPES)
def test_conversions_of_edge_values_on_every_host(source, level):
    check_conversions(source, level)


def check_conversions(source: str, level: str) -> None:
    values = numbers(source)
    check(f"from_{source}", [values], [("cast", to) for to in DTYPES if to != "u4"], level)
    safe = values[in_range(values, "u4")]
    check(f"from_{source}", [safe], [("cast", "u4")], level)


@pytest.mark.parametrize("level", LEVELS)
def test_every_float16_survives(level):
    halves = np.arange(2**16, dtype="u2").view("f2")
    check("widen", [halves], [("cast", "f4"), ("cast", "f8"), ("cast", "i4")], level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("source", ["f4", "f8"])
def test_rounding_to_float16_happens_once(level, source):
    halves = np.arange(0x7C00, dtype="u2").view("f2").astype(source)
    middle = (halves[:-1] + halves[1:]) / 2
    near = [np.nextafter(middle, s) for s in (-np.inf, np.inf)]
    values = np.concatenate([halves, middle, *near, [65519.99, 65520, 1e5, 1e-9]])
    values = np.concatenate([values, -values]).astype(source)
    check("narrow", [values], [("cast", "f2")], level)


def test_bits_are_kept():
    for size in (4, 8):
        patterns = np.random.default_rng(0).integers(0, 2**63, 50).astype(f"u{size}")
        kinds = [("bitcast", f"{k}{size}") for k in "iuf"]
        check("bits", [patterns], kinds, "native")
        check("bits", [patterns.view(f"f{size}")], kinds, "native")


def test_products_and_sums_are_not_fused():
    k = Nest("square")
    x, o = k.buffer("x", "f8", ["one"]), k.buffer("o", "f8", ["one"], "out")
    one = k.scalar("f8")
    n = k.scalar()
    with k.loop(n) as row:
        value = k.load(x, row.axis)
        k.store(o, (row.axis,), k.let("add", k.let("mul", value, value), one))
    values = np.random.default_rng(1).normal(size=1000)
    made = Sample(k.kernel(), {"x": values, "o": np.zeros(1000)}, [1.0, 1000])
    assert (values * values + 1 == run(made, host())["o"][0]).all()

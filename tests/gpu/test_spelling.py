"""Spellings in CUDA C: exact operations bit for bit as NumPy, literals, names, errors, NVRTC."""

import ctypes
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import from_dtype

from ftrace.core.errors import BackendError
from ftrace.core.scalar import OPS, apply
from ftrace.gpu.emit.cuda_spelling import MEMORY, REGISTER, literal, spell
from ftrace.gpu.machine_code import nvrtc
from ftrace.gpu.machine_code.cubin import cubin
from ftrace.gpu.machine_code.disassembly import disassembled
from ftrace.gpu.prelude.prelude import FUNCTIONS, definitions
from ftrace.lowering.kernel.ir import DTYPES
from tests.cpu.test_spelling import assert_same_bits, in_range, numbers
from tests.gpu.emulation import driver
from tests.gpu.sheet import instructions
from tests.gpu.spelled import rows, spelled, text_of

COMPUTED = [d for d in DTYPES if d != "f2"]
ROUNDED = {name for name, op in OPS.items() if op.costly and op.kinds == "f"} - {"div", "sqrt"}


def prelude(ops):
    """The device functions of (operation, dtype of its operands); of casts to every dtype."""
    text = ""
    for op, dtype in ops:
        args = ["a", "b", "c"][: OPS[op].arity]
        outs = DTYPES if op == "cast" else [dtype]
        text += "".join(spell(op, args, [dtype] * len(args), out) + "\n" for out in outs)
    return definitions(text)


@pytest.fixture
def compiler():
    """Skip where there is no NVRTC."""
    try:
        return nvrtc.load()
    except BackendError as error:
        pytest.skip(str(error).splitlines()[0])


def compare(host, a, b):
    """All exact operations that are no conversions."""
    for op, to in rows(host.dtype):
        if op in ROUNDED or op == "cast":
            continue
        operands = (a, b)[: OPS[op].arity] if op != "select" else (a < b, a, b)
        with np.errstate(all="ignore"):
            want = np.asarray(apply(op, operands, np.dtype(to)))
        assert_same_bits(host(op, to, a, b), want, f"{op} on {host.dtype}")


@pytest.mark.parametrize("dtype", COMPUTED)
def test_exact_operations_on_edge_values(emulation, dtype):
    values = numbers(dtype)
    compare(spelled(dtype), *(np.ascontiguousarray(m.ravel()) for m in np.meshgrid(values, values)))


@pytest.mark.parametrize("dtype", COMPUTED)
def test_exact_operations_on_any_values(emulation, dtype):
    @given(
        st.lists(st.tuples(from_dtype(np.dtype(dtype)), from_dtype(np.dtype(dtype))), min_size=1)
    )
    @settings(max_examples=60)
    def check(pairs):
        compare(spelled(dtype), *(np.array(column, dtype) for column in zip(*pairs, strict=True)))

    check()


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d[0] in "iu"])
def test_shifts_by_the_width_and_its_neighbours(emulation, dtype):
    counts = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, *[-1] * (dtype[0] == "i")]
    values = numbers(dtype)
    compare(
        spelled(dtype),
        np.repeat(values, len(counts)),
        np.tile(np.array(counts, dtype), len(values)),
    )


@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_exact_operations_on_every_byte(emulation, dtype):
    every = np.arange(256).astype("u1").view(dtype)
    compare(spelled(dtype), np.repeat(every, 256), np.tile(every, 256))


@pytest.mark.parametrize("source", DTYPES)
def test_conversions_of_edge_values(emulation, source):
    values = numbers(source)
    for to in DTYPES:
        x = values[in_range(values, to)]
        with np.errstate(all="ignore"):
            assert_same_bits(spelled(source)("cast", to, x), x.astype(to), f"{source} to {to}")


def test_floats_beyond_u4_become_the_low_bits_of_an_i8(emulation):
    x = np.array([-1.0, -5e9, 2.0**32 + 3, 2.0**62, 2.0**63, np.inf, np.nan])
    want = np.array([-1, -5_000_000_000, 2**32 + 3, 2**62, *[-(2**63)] * 3]).astype("u4")
    np.testing.assert_array_equal(spelled("f8")("cast", "u4", x), want)


def test_every_float16_is_read_and_written_back(emulation):
    halves = np.arange(2**16, dtype="u2").view("f2")
    wide = spelled("f2")("cast", "f4", halves)
    assert_same_bits(wide, halves.astype("f4"), "f2 to f4")
    assert_same_bits(spelled("f4")("cast", "f2", wide), halves, "f4 to f2")
    double = spelled("f2")("cast", "f8", halves)
    assert_same_bits(spelled("f8")("cast", "f2", double), halves, "f8 to f2")


@pytest.mark.parametrize("source", ["f4", "f8"])
def test_rounding_to_float16_happens_once_and_to_even(emulation, source):
    halves = np.arange(0x7C00, dtype="u2").view("f2").astype(source)
    middle = (halves[:-1] + halves[1:]) / 2
    near = [np.nextafter(middle, np.array(s, source)) for s in (-np.inf, np.inf)]
    values = np.concatenate([halves, middle, *near, [65519.99, 65520, 65536, 1e38, 1e-9, 1e-45]])
    values = np.concatenate([values, -values]).astype(source)
    with np.errstate(all="ignore"):
        assert_same_bits(spelled(source)("cast", "f2", values), values.astype("f2"), source)


# --- literals

LITERALS = {
    "b1": [True, False],
    "f2": [0.0, -0.0, 1.5, np.inf, np.nan, 6e-8],
    **{
        d: [0.0, -0.0, 1, -1.0, 0.5, 0.1, 1 / 3, 1e10, 1e38, 1e-45, np.inf, -np.inf, np.nan]
        for d in ("f4", "f8")
    },
    **{
        d: [
            0,
            1,
            *([-1] if d[0] == "i" else []),
            np.iinfo(d).min,
            np.iinfo(d).max,
            np.iinfo(d).max // 3,
        ]
        for d in DTYPES
        if d[0] in "iu"
    },
}


def test_literals_are_exact_and_types_have_the_dtypes_sizes(emulation):
    parts: list[str] = []
    for dtype, values in LITERALS.items():
        lines = "".join(f"  out[{i}] = {literal(v, dtype)};\n" for i, v in enumerate(values))
        parts.append(
            f'static_assert(sizeof({MEMORY[dtype]}) == {np.dtype(dtype).itemsize}, "{dtype}");\n'
            f'extern "C" __global__ void of_{dtype}({MEMORY[dtype]}* out) {{\n{lines}}}\n'
        )
    host = driver.Driver(driver.compilers()[0])
    found = host.load("".join(parts), [f"of_{dtype}" for dtype in LITERALS])
    for dtype, values in LITERALS.items():
        out = np.empty(len(values), dtype)
        words, dims = (ctypes.c_longlong * 1)(out.ctypes.data), (ctypes.c_uint * 6)(*[1] * 6)
        host.launch(found[f"of_{dtype}"], dims, 0, words, driver.Order())
        assert_same_bits(out, np.array(values, dtype), dtype)
    assert LITERALS.keys() == REGISTER.keys() == MEMORY.keys() == set(DTYPES)


def test_literals_are_short_where_that_is_exact():
    assert [literal(v, "f4") for v in (0, 1.0, -0.5, 1e-3)] == [
        "0.0f",
        "1.0f",
        "(-0.5f)",
        "0x1.0624dep-10f",
    ]
    assert literal(-np.nan, "f4") == literal(np.nan, "f4") == "__int_as_float(0x7fc00000)"
    assert literal(1e300, "f4") == literal(np.inf, "f4")
    assert [literal(-1, d) for d in ("i4", "i8")] == ["(-1)", "(-1LL)"]


# --- text


def test_a_spelling_is_an_atom():
    for dtype in DTYPES:
        for op, to in rows(dtype):
            dtypes = ["b1"] * (op == "select") + [dtype] * min(OPS[op].arity, 2)
            text = spell(op, ["p", "q", "r"][: len(dtypes)], dtypes, to)
            depths = np.cumsum([(c == "(") - (c == ")") for c in text])
            first = text.find("(")
            assert text.isidentifier() or (depths[first:-1] > 0).all(), text
            assert not text[:first].strip("_abcdefghijklmnopqrstuvwxyz0123456789"), text


def test_the_prelude_holds_what_is_called_and_no_more():
    assert prelude([("add", "f4"), ("exp", "f8")]) == ""
    assert prelude([]) == ""
    text = prelude([("mod", "i2"), ("i0e", "f4"), ("mod", "i4")])
    named = re.findall(r"^static inline .*?(ft_\w+)\(", text, re.M)
    assert named == ["ft_rem_i4", "ft_mod_i4", "ft_i0_far_f4", "ft_i0_near_f4", "ft_i0e_f4"]
    assert "ft_cast_f8_u8" in prelude([("cast", "f8")])


def test_every_function_is_called_by_a_spelling_and_defined_once():
    text = prelude((op, d) for op, row in OPS.items() for d in COMPUTED if d[0] in row.kinds)
    text += prelude([("cast", "f2")])
    text += definitions(
        "ft_reciprocal_f4 ft_reciprocal_square_f4"
    )  # for gpu/emit/bounded_quotients.py
    named = set(re.findall(r"^static inline .*?(ft_\w+)\(", text, re.M))
    assert named == set(FUNCTIONS)
    assert definitions(text).count("static inline") == len(FUNCTIONS)


def test_what_cannot_be_spelled_is_named():
    with pytest.raises(BackendError, match="no spelling of the operation sin on i4"):
        spell("sin", ["a"], ["i4"], "i4")
    with pytest.raises(BackendError, match="no spelling of the operation add on f2"):
        spell("add", ["a", "b"], ["f2", "f2"], "f2")
    with pytest.raises(BackendError, match="no spelling of the operation frobnicate on f4"):
        spell("frobnicate", ["a"], ["f4"], "f4")


# --- NVRTC

DOUBLE = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX)|.*F64")


@pytest.mark.parametrize("arch", ["sm_75", "sm_100"])
@pytest.mark.parametrize("dtypes", [tuple(DTYPES[:10]), ("f4",), ("f8",)], ids=["ints", "f4", "f8"])
def test_every_operation_compiles(compiler, dtypes, arch):
    assert cubin(text_of(*dtypes), arch, compiler).startswith(b"\x7fELF")


@pytest.fixture
def machine_code(compiler):
    """Instructions of each kernel of a text, for one device."""
    try:
        disassembled(cubin("__global__ void k() {}", "sm_90", compiler))
    except BackendError as error:
        pytest.skip(str(error).splitlines()[0])
    return lambda text: instructions(text, "sm_90")


def test_float32_is_computed_without_float64(machine_code):
    found = machine_code(text_of("f4"))
    assert found.keys() == {f"{op}_f4_{to}" for op, to in rows("f4")}
    doubles = {name for name, counts in found.items() if any(map(DOUBLE.match, counts))}
    # CUDA reduces arguments beyond 1e5 with one multiplication in float64
    assert doubles == {"cast_f4_f8", "sin_f4_f4", "cos_f4_f4", "tan_f4_f4"}
    assert not [code for code in found["logistic_f4_f4"] if code.startswith("CALL")]
    assert [code for code in found["div_f4_f4"] if code.startswith("CALL")]


def test_conversions_of_float16_are_instructions(machine_code):
    found = machine_code(text_of("f2", "f4"))
    assert any("F16" in c or "HADD2" in c for c in found["cast_f4_f2"]), found["cast_f4_f2"]
    assert any("HADD2" in c for c in found["cast_f2_f4"]), found["cast_f2_f4"]


def test_products_and_sums_are_not_fused(machine_code):
    product = spell("mul", ["x", "x"], ["f4", "f4"], "f4")
    body = spell("add", [product, "x"], ["f4", "f4"], "f4")
    text = f'extern "C" __global__ void k(float* a) {{ float x = *a; *a = {body}; }}'
    counts = machine_code(text)["k"]
    assert counts["FMUL"] == counts["FADD"] == 1
    assert "FFMA" not in counts


def test_an_unsigned_number_is_its_own_size() -> None:
    assert spell("abs", ["a"], ["u4"], "u4") == "a"

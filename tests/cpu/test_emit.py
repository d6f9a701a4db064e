"""Emitted kernels against the reference interpreter, for several hosts and numbers of lanes."""

import ctypes
import mmap
import random
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftrace.core.errors import BackendError
from ftrace.cpu.emit.kernel_text import emit
from ftrace.cpu.llvm.machine_code import host
from ftrace.lowering.kernel import reference
from ftrace.lowering.kernel.ir import Block, Fold, If, Kernel, Lit, loops_of
from ftrace.lowering.kernel.schedule import LANE, SERIAL, Schedule, schedule
from ftrace.lowering.kernel.traversal import mapped
from tests.cpu.running import Compiled, differences, launch, run, shared, with_lanes
from tests.lowering.kernels import SAMPLES, kernels
from tests.lowering.nests import Nest, Sample, f8, i8

LEVELS = ["native", "avx2", "sse2"]


def check(sample: Sample, level: str, chosen: Schedule | None = None) -> None:
    """Every byte of every buffer must be as the reference leaves it."""
    want = sample.operands()
    reference.run(sample.kernel, want, sample.scalars)
    got = run(sample, host(level), chosen)
    for buffer in sample.kernel.buffers:
        ulp = 0 if sample.exact else 4
        assert differences(got[buffer.name][0], want[buffer.name][0], ulp) == "", buffer.name


# --- against the reference


@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_sample_kernel_equals_the_reference(name):
    check(SAMPLES[name](), "native")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_sample_kernel_that_streams_all_it_writes_equals_the_reference(name):
    """Stores under masks of arms and of ragged ends are those of their lanes."""
    kernel = SAMPLES[name]().kernel
    written = tuple(b.name for b in kernel.buffers if b.space == "out")
    for lanes in (8, 32):
        check(SAMPLES[name](), "native", replace(with_lanes(kernel, lanes), streams=written))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_sample_kernel_that_threads_share_equals_the_reference(name, lanes):
    sample = SAMPLES[name]()
    check(sample, "native", shared(sample.kernel, with_lanes(sample.kernel, lanes)))


@pytest.mark.sampled(3, each="name")
@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 4, 32])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_sample_kernel_equals_the_reference_on_every_host(name, level, lanes):
    sample = SAMPLES[name]()
    check(sample, level, with_lanes(sample.kernel, lanes))


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse2"])
def test_full_vectors_have_no_mask(level):
    """Twice the time of loads and stores, where memory is far."""
    k = Nest("doubled")
    x, o = k.buffer("x", "f8", ["one"]), k.buffer("o", "f8", ["one"], "out")
    with k.loop(k.scalar()) as row:
        k.store(o, (row.axis,), k.let("mul", k.load(x, row.axis), f8(2)))
    kernel = k.kernel()
    text = emit(launch(kernel, with_lanes(kernel, 8)), "kernel", host(level), {})
    vectors, end = text.split("phi i64")[1:]
    assert "load <8 x double>" in vectors
    assert "store <8 x double>" in vectors
    assert "masked" not in vectors
    assert end.count("call void @llvm.masked.store") == host(level).masked


def random_schedule(kernel: Kernel, seed: int) -> tuple[str, Schedule]:
    """Any role is legal for any loop: what cannot run in lanes runs in order."""
    rng = random.Random(seed)
    roles = tuple((loop.axis.id, rng.choice([LANE, SERIAL])) for loop in loops_of(kernel.body))
    chosen = Schedule(roles, rng.choice([1, 2, 4, 8, 16, 32]))
    return rng.choice(LEVELS), shared(kernel, chosen) if rng.random() < 0.5 else chosen


@settings(max_examples=12)
@given(kernels(), st.integers(0, 10**6))
def test_a_random_kernel_under_a_random_schedule_equals_the_reference(sample, seed):
    level, chosen = random_schedule(sample.kernel, seed)
    check(sample, level, chosen)


@pytest.mark.fuzz
@given(kernels(), st.integers(0, 10**6))
def test_many_random_kernels_equal_the_reference(sample, seed):
    level, chosen = random_schedule(sample.kernel, seed)
    check(sample, level, chosen)


# --- sizes, alignment, borders


def scaled(n: int, shift: int = 0, step: str = "one") -> Sample:
    """o = 3 x + 1 along one axis that does not begin at the memory's start."""
    k = Nest("scaled")
    x, o = k.buffer("x", "f4", [step]), k.buffer("o", "f4", [step], "out")
    size, factor = k.scalar(), k.scalar("f4")
    with k.loop(size) as row:
        value = k.let("mul", k.load(x, row.axis), factor)
        k.store(o, (row.axis,), value)
    memory = np.random.default_rng(n).normal(size=n + 64).astype("f4")
    cut = slice(7 + shift, 7 + shift + n)
    views = {"x": memory[cut], "o": memory.copy()[cut]}
    if step == "minus":
        views = {name: a[::-1] for name, a in views.items()}
    return Sample(k.kernel(), views, [n, 3.0])


SIZES = [0, 1, 15, 16, 17, 50]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("step", ["one", "minus"])
def test_every_size_and_alignment_writes_only_its_own_elements(level, step):
    kernel = scaled(1, 0, step).kernel
    compiled = Compiled(kernel, with_lanes(kernel, 16), host(level))
    for n in SIZES:
        for shift in (0, 1, 9):
            sample = scaled(n, shift, step)
            got, want = sample.operands(), sample.operands()
            compiled(got, sample.scalars)
            reference.run(kernel, want, sample.scalars)
            assert differences(got["o"][0], want["o"][0]) == "", (n, shift)


@pytest.fixture
def page():
    """Two pages of memory, of which the second may not be touched."""
    size = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    assert protect(ctypes.c_void_p(start + size), ctypes.c_size_t(size), 0) == 0
    yield np.frombuffer((ctypes.c_char * size).from_address(start), "f4")
    assert protect(ctypes.c_void_p(start + size), ctypes.c_size_t(size), 3) == 0


@pytest.mark.parametrize("level", LEVELS)
def test_lanes_beyond_the_end_touch_no_memory(level, page):
    sample = scaled(5)
    compiled = Compiled(sample.kernel, with_lanes(sample.kernel, 16), host(level))
    last = np.arange(5, dtype="f4")
    page[-5:] = last
    operands = dict.fromkeys(("x", "o"), (page, page.size - 5, (1,)))
    compiled(operands, [5, 3.0])
    assert (3 * last == page[-5:]).all()


def guarded(n: int) -> Sample:
    """o[i] = x[at[i]] where at[i] >= 0, else -1: other positions must not be read."""
    k = Nest("guarded")
    x, at = k.buffer("x", "f8", ["one"]), k.buffer("at", "i8", ["one"])
    o = k.buffer("o", "f8", ["one"], "out")
    with k.loop(k.scalar()) as row:
        place = k.load(at, row.axis)
        with k.part() as then:
            then.leave(k.load(x, place))
        with k.part() as orelse:
            orelse.leave(f8(-1.0))
        (value,) = k.branch(k.let("ge", place, i8(0)), then, orelse)
        k.store(o, (row.axis,), value)
    places = np.where(np.arange(n) % 3, np.arange(n) % 4, -(2**40))
    return Sample(k.kernel(), {"x": np.arange(4.0), "at": places, "o": np.zeros(n)}, [n])


@pytest.mark.parametrize("level", LEVELS)
def test_an_arm_reads_nothing_for_lanes_that_do_not_take_it(level):
    sample = guarded(37)
    check(sample, level, with_lanes(sample.kernel, 16))


def padded() -> Kernel:
    """o[i] = exp(x[i]) where i < n, else 0."""
    k = Nest("padded")
    x, o = k.buffer("x", "f4", ["one"]), k.buffer("o", "f4", ["one"], "out")
    n = k.scalar()
    with k.loop(k.scalar()) as row:
        with k.part() as then:
            then.leave(k.let("exp", k.load(x, row.axis)))
        with k.part() as orelse:
            orelse.leave(Lit(0.0, "f4"))
        k.store(o, (row.axis,), *k.branch(k.let("lt", row.axis, n), then, orelse))
    return k.kernel()


def skipping(kernel: Kernel) -> Kernel:
    """The same, whose branch is said to leave out only what nothing reads."""

    def changed(block: Block) -> Block:
        stmts = (replace(s, skips=True) if isinstance(s, If) else s for s in block.stmts)
        return Block(tuple(mapped(s, changed) for s in stmts), block.results)

    return replace(kernel, body=changed(kernel.body))


@pytest.mark.parametrize("level", LEVELS)
def test_an_arm_reads_nothing_behind_the_end(level, page):
    """Elements side by side, of which the arm's lanes are the first few."""
    kernel = padded()
    compiled = Compiled(kernel, with_lanes(kernel, 16), host(level))
    page[-5:], out = np.arange(5.0), np.ones(37, "f4")
    compiled({"x": (page, page.size - 5, (1,)), "o": (out, 0, (1,))}, [5, 37])
    np.testing.assert_allclose(out, np.where(np.arange(37) < 5, np.exp(np.arange(37.0)), 0), 1e-6)


@pytest.mark.parametrize("n", [0, 5, 16, 37])
def test_an_arm_that_only_skips_reads_whole_vectors(n):
    kernel = skipping(padded())
    text = emit(launch(kernel, with_lanes(kernel, 16)), "kernel", host("avx512"), {})
    vectors, end = text.split("phi i64")[1:]
    assert "masked.load" not in vectors
    assert "masked.load" in end
    x = np.linspace(0, 1, 37, dtype="f4")
    check(Sample(kernel, {"x": x, "o": np.ones(37, "f4")}, [n, 37], exact=False), "native")


@pytest.mark.parametrize("page_ends", [5, 16, 37])
def test_whole_vectors_under_a_branch_end_where_the_loop_does(page_ends, page):
    kernel, n = skipping(padded()), page_ends
    page[-n:], out = np.arange(n), np.ones(n, "f4")
    compiled = Compiled(kernel, with_lanes(kernel, 16), host())
    compiled({"x": (page, page.size - n, (1,)), "o": (out, 0, (1,))}, [2, n])
    np.testing.assert_allclose(out[:3], [1, np.exp(1), 0], 1e-6)


def test_offsets_beyond_two_to_the_31_are_reached():
    k = Nest("far")
    x, o = k.buffer("x", "i1", ["any"]), k.buffer("o", "i1", ["one"], "out")
    with k.loop(k.scalar()) as row:
        k.store(o, (row.axis,), k.load(x, row.axis))
    memory = np.zeros(3 * 2**30 + 1, "i1")  # touched in four places only
    memory[:: 2**30] = [1, 2, 3, 4]
    operands = {"x": (memory, 0, (2**30,)), "o": (np.zeros(4, "i1"), 0, (1,))}
    Compiled(k.kernel(), with_lanes(k.kernel(), 16), host())(operands, [4])
    assert operands["o"][0].tolist() == [1, 2, 3, 4]


# --- folds


def folded(n: int, fold: Fold, dtype: str) -> Sample:
    k = Nest("folded")
    x, o = k.buffer("x", dtype, ["one"]), k.buffer("o", fold.acc, [], "out")
    with k.loop(k.scalar(), fold) as row:
        row.leave(k.load(x, row.axis))
    k.store(o, (), row.outs[0])
    values = np.random.default_rng(n).normal(size=n) * 10.0 ** np.arange(n)[::-1].clip(0, 16)
    return Sample(k.kernel(), {"x": values.astype(dtype), "o": np.zeros((), fold.acc)}, [n])


FOLDS = [
    (Fold("sum", "f8", 8), "f8"),
    (Fold("sum", "f8", 16, 32), "f8"),
    (Fold("sum", "f8", 4, 12), "f8"),  # no power of two
    (Fold("sum", "f8", 16), "f4"),
    (Fold("prod", "f8", 4), "f8"),
    (Fold("max", "f8"), "f8"),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("fold", "dtype"), FOLDS, ids=lambda f: str(f))
def test_the_tree_of_a_fold_does_not_depend_on_lanes(fold, dtype, level):
    kernel = folded(1, fold, dtype).kernel
    for lanes in (1, 32) if level == "native" else (8,):
        compiled = Compiled(kernel, with_lanes(kernel, lanes), host(level))
        for n in (0, 1, 31, 33, 100):
            sample = folded(n, fold, dtype)
            got, want = sample.operands(), sample.operands()
            compiled(got, [n])
            reference.run(kernel, want, [n])
            assert got["o"][0].tobytes() == want["o"][0].tobytes(), (lanes, n)


# --- the text


def test_invariants_stand_before_the_loop():
    k = Nest("invariant")
    x, o = k.buffer("x", "f8", ["any", "one"]), k.buffer("o", "f8", ["any", "one"], "out")
    rows, columns, factor = k.scalar(), k.scalar(), k.scalar("f8")
    with k.loop(rows) as r:
        offset = k.let("cast", r.axis, to="f8")
        with k.loop(columns) as c:
            value = k.let("add", k.let("mul", k.load(x, r.axis, c.axis), factor), offset)
            k.store(o, (r.axis, c.axis), value)
    text = Compiled(k.kernel(), schedule(k.kernel(), 64), host("avx512")).text
    inner = text[text.index("fadd <") - 1200 : text.index("fadd <")].split("body")[-1]
    assert "shufflevector" in text
    assert "shufflevector" not in inner
    assert "mul i64" not in inner


def test_invariants_are_written_once():
    k = Nest("twice")
    x, o, factor = k.buffer("x", "f8", ["any"]), k.buffer("o", "f8", ["any"], "out"), k.scalar("f8")
    with k.loop(k.scalar()) as row:
        square = k.let("mul", k.let("mul", k.load(x, row.axis), factor), factor)
        k.store(o, (row.axis,), k.let("add", k.load(o, row.axis), square))
    kernel = k.kernel()
    text = Compiled(kernel, Schedule(schedule(kernel, 64).roles, 1), host()).text
    operands = 2 * len(kernel.buffers) + len(kernel.scalars)  # offsets and steps
    assert text.count("ptr %table, i64") == operands
    assert text.count("ptr %slots, i64") == len(kernel.buffers)


@pytest.mark.parametrize("level", ["avx512", *LEVELS[1:]])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_what_is_called_is_declared(name, level):
    """Newer versions of LLVM know their own functions, older ones do not."""
    kernel, known = SAMPLES[name]().kernel, {}
    text = emit(launch(kernel, schedule(kernel, 64)), "kernel", host(level), known)
    text = "\n".join([*known.values(), text])
    called = set(re.findall(r"call [^@]*@([\w.]+)", text))
    assert called <= set(re.findall(r"(?:declare|define) [^@]*@([\w.]+)", text))


def test_kernels_of_all_sizes_share_one_text():
    assert (
        Compiled(scaled(3).kernel, with_lanes(scaled(3).kernel, 8), host()).text
        == Compiled(scaled(50).kernel, with_lanes(scaled(50).kernel, 8), host()).text
    )


def test_colliding_stores_are_refused():
    k = Nest("collide")
    o = k.buffer("o", "f8", ["any"], "out")
    with k.loop(k.scalar()) as row:
        k.store(o, (i8(0),), k.let("cast", row.axis, to="f8"))
    sample = Sample(k.kernel(), {"o": np.zeros(4)}, [4])
    with pytest.raises(BackendError, match="two iterations may write one element of o"):
        run(sample, host(), Schedule(schedule(sample.kernel, 64).roles, 8))

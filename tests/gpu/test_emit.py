"""Emitted kernels against the reference interpreter, bit for bit, on the host.

Every kernel runs with its threads in two orders. `FORCED` are constants of the mapping under which
small arrays are treated as large ones: more threads per team, blocks that share a loop.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftrace.gpu.emit.writer import Writer
from ftrace.gpu.grid import mapping
from ftrace.gpu.grid.layout import BLOCK, COLUMN, WARP, GridLayout
from ftrace.lowering.kernel import reference
from ftrace.lowering.kernel.ir import Fold
from ftrace.lowering.kernel.verify import verify
from tests.gpu.functions import FUNCTIONS
from tests.gpu.running import (
    Machine,
    launches_of,
    mapped_sample,
    registers_of,
    run_launch,
    run_sample,
    text_of,
)
from tests.lowering.kernels import SAMPLES, Nest, Sample, kernels
from tests.lowering.nests import f4, i8, random
from tests.sampling import examples

FORCED: dict[str, dict[str, int]] = {
    "parts of warps": {"SHORT": 0, "MANY": 1},
    "warps": {"SHORT": 0},
    "blocks": {"SHORT": 0, "ROW": 0},
    "large blocks": {"SHORT": 0, "ROW": 0, "EACH": 1},
    "shared loops": {"SHORT": 0, "ROW": 0, "EACH": 1, "MANY": 10**7},
}


@pytest.fixture(params=["as it is", *FORCED])
def forced(request: Any, monkeypatch: Any) -> str:
    for name, value in FORCED.get(request.param, {}).items():
        monkeypatch.setattr(mapping, name, value)
    return request.param


def same(got: np.ndarray, want: np.ndarray, ulp: int = 0) -> bool:
    if got.tobytes() == want.tobytes():
        return True
    if got.dtype.kind != "f":
        return False
    equal = (got == want) | ((got != got) & (want != want))
    if ulp:
        with np.errstate(all="ignore"):
            equal |= np.abs(got - want) <= ulp * np.spacing(np.abs(want))
    return bool(equal.all())


def check(sample: Any, machine: Machine | None = None) -> Any:
    """Run a sample forwards and backwards, and compare with the reference; what was mapped."""
    found: Any = None
    expected = sample.operands()
    for back in (False, True):
        operands = sample.operands()
        found, text = run_sample(sample, operands, machine, back)
        if not back:
            if not found.extra:  # a joined loop's stores name the axes that are computed from it
                verify(found.kernel)
            reference.run(found.kernel, expected, [*sample.scalars, *found.extra])
        for name, (memory, _, _) in expected.items():
            good = same(operands[name][0], memory, 0 if sample.exact else 4)
            assert good, (name, operands[name][0], memory, text)
    return found


@pytest.mark.sampled(3, each="name")
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_samples_compute_what_the_reference_does(name: str, forced: str) -> None:
    check(SAMPLES[name](), Machine(8))


@settings(max_examples=8, deadline=None)
@given(kernels(), st.sampled_from([{}, *FORCED.values()]))
def test_random_kernels_compute_what_the_reference_does(sample: Any, constants: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in constants.items():
            patch.setattr(mapping, name, value)
        check(sample, Machine(8))


@pytest.mark.slow
@examples(kernels(), st.sampled_from([{}, *FORCED.values()]), count=300)
def test_many_random_kernels_do(sample: Any, constants: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in constants.items():
            patch.setattr(mapping, name, value)
        check(sample, Machine(8))


# --- folds


def summing(shape: tuple[int, int], axis: int, *folds: Fold, dtype: str = "f4") -> Sample:
    """Each fold of x along an axis; a copy of x beside them."""
    k = Nest("summing")
    x, z = k.buffer("x", dtype, ["any", "one"]), k.buffer("z", dtype, ["any", "one"], "out")
    sizes = k.scalar(), k.scalar()
    dtypes = [d for f in folds for d in ([f.acc, "i8"] if f.op.startswith("arg") else [f.acc])]
    outs = [k.buffer(f"y{n}", d, ["one"], "out") for n, d in enumerate(dtypes)]
    with k.loop(sizes[1 - axis]) as keep:
        with k.loop(sizes[axis], *folds) as over:
            at = (keep.axis, over.axis) if axis else (over.axis, keep.axis)
            v = k.load(x, *at)
            k.store(z, at, v)
            left = [[v, over.axis] if f.op.startswith("arg") else [v] for f in folds]
            over.leave(*(a for some in left for a in some))
        for y, out in zip(outs, over.outs, strict=True):
            k.store(y, [keep.axis], out)
    a = (random(*shape) * 10 ** random(*shape, seed=1)).astype(dtype)
    arrays = {"x": a, "z": np.zeros_like(a)}
    arrays |= {y: np.ones(shape[1 - axis], d) for y, d in zip(outs, dtypes, strict=True)}
    return Sample(k.kernel(), arrays, list(shape), exact=True)


SUMS = [Fold("sum", "f4", 32, 64), Fold("sum", "f8", 32), Fold("prod", "f4", 1)]
SHAPES = [(3, 1000), (5, 333), (9, 64), (300, 40), (1000, 3), (1, 5000)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_trees_of_sums_are_followed(shape: tuple[int, int], axis: int, forced: str) -> None:
    check(summing(shape, axis, *SUMS), Machine(8))


def test_what_is_added_behind_a_row_is_added_once(forced: str) -> None:
    """Not by every thread of the team, all of which know the row's sum."""
    k = Nest("added")
    x, y = k.buffer("x", "f4", ["any", "one"]), k.buffer("y", "f4", ["one"], "out")
    m, n = k.scalar(), k.scalar()
    with k.loop(m) as i:
        with k.loop(n, Fold("max", "f4")) as j:
            j.leave(k.load(x, i.axis, j.axis))
        k.store(y, [i.axis], j.outs[0], "sum")
    arrays = {"x": random(9, 300, dtype="f4"), "y": np.ones(9, "f4")}
    check(Sample(k.kernel(), arrays, [9, 300], exact=True), Machine(8))


def test_threads_of_columns_take_several_parts_each(monkeypatch: Any) -> None:
    """Where blocks have left more parts of a column than a block has threads for it."""
    for name, value in FORCED["shared loops"].items():
        monkeypatch.setattr(mapping, name, value)
    found = check(summing((2100, 17), 0, Fold("sum", "f8", 32)), Machine(8))
    assert (found.layout.team, found.layout.split, found.layout.joint) == (COLUMN, 64, 32)


def test_blocks_of_sums_end_where_several_rows_are_taken_at_once() -> None:
    folds = [Fold("sum", "f4", 1, 4), Fold("sum", "f4", 1, 8), Fold("sum", "f8", 1, 4)]
    sample = summing((3000, 40), 0, *folds)
    sample.arrays["x"][:] = random(3000, 40) * 10.0 ** (np.arange(3000) % 9)[:, None]
    assert check(sample).layout.batch == 4


@pytest.mark.parametrize("axis", [0, 1])
def test_pairs_find_the_first_extreme_or_nan(axis: int, forced: str) -> None:
    sample = summing((70, 70), axis, Fold("argmax", "f4"), Fold("argmin", "f4"), Fold("max", "f4"))
    x = sample.arrays["x"]
    x[:] = np.round(x)
    x[3, 5] = x[60, 5] = x[3, 50] = np.nan
    x[:, 7] = x[8] = -np.inf
    check(sample, Machine(8))


@pytest.mark.parametrize("axis", [0, 1])
def test_folds_of_nothing_are_identities(axis: int, forced: str) -> None:
    shape = (9, 0) if axis else (0, 9)
    sample = summing(shape, axis, Fold("argmax", "f4"), Fold("sum", "f4", 4, 16))
    check(sample, Machine(8))
    operands = sample.operands()
    run_sample(sample, operands, Machine(8))
    for name, value in (("y0", -np.inf), ("y1", 0), ("y2", 0)):
        np.testing.assert_array_equal(operands[name][0], [value] * 9)


def test_sums_of_doubles_in_blocks_fit_shared_memory() -> None:
    sample = summing((1, 70000), 1, Fold("sum", "f8", 32, 1024), dtype="f4")
    found = check(sample)
    assert (found.layout.team, found.layout.threads) == (BLOCK, 1024)


def test_infinities_and_cancellation_survive_shared_loops(forced: str) -> None:
    sample = summing((6, 2000), 1, Fold("sum", "f4", 32, 64))
    x = sample.arrays["x"]
    x[0, 3], x[1, 5], x[1, 300], x[2, 39] = np.inf, np.inf, -np.inf, np.nan
    x[3], x[4, ::2], x[4, 1::2] = 3e38, 1e30, -1e30
    check(sample, Machine(8))


def test_what_a_loop_carries_is_replaced_at_once() -> None:
    """Three values that change places, in a repetition and in a loop in order."""
    k = Nest("swapped")
    x, y = k.buffer("x", "f4", ["one"]), k.buffer("y", "f4", ["any", "one"], "out")
    n = k.scalar()
    with k.loop(n) as i:
        v = k.load(x, i.axis)
        state = k.fresh("f4"), k.fresh("f4"), k.fresh("f4"), k.fresh("i8")
        with k.part() as cond:
            cond.leave(k.let("lt", state[3], i.axis))
        with k.part(*state) as body:
            body.leave(state[1], state[2], state[0], k.let("add", state[3], i8(1)))
        left = k.repeat([v, f4(1), f4(2), i8(0)], cond, body)
        with k.loop(i8(4), inits=[v, f4(1), f4(2)]) as turn:
            turn.leave(turn.params[1], turn.params[2], turn.params[0])
        for row, value in enumerate((*left[:3], *turn.outs)):
            k.store(y, [i8(row), i.axis], value)
    a = random(11, dtype="f4")
    sample = Sample(k.kernel(), {"x": a, "y": np.zeros((6, 11), "f4")}, [11], exact=True)
    check(sample)
    operands = sample.operands()
    run_sample(sample, operands)
    turns = [np.roll([v, 1, 2], -j) for j, v in enumerate(a)]
    fixed = [np.roll([v, 1, 2], -4) for v in a]
    expected = np.concatenate([np.array(turns).T, np.array(fixed).T])
    np.testing.assert_array_equal(operands["y"][0].reshape(6, 11), expected.astype("f4"))


# --- teams


def test_an_element_that_is_read_back_is_the_one_that_was_stored() -> None:
    k = Nest("read_back")
    x, y = k.buffer("x", "f4", ["one"]), k.buffer("y", "f4", ["one"], "out")
    z, n = k.buffer("z", "f4", ["one"], "out"), k.scalar()
    with k.loop(n) as i:
        k.store(y, [i.axis], k.let("neg", k.load(x, i.axis)))
        k.store(z, [i.axis], k.let("mul", k.load(y, i.axis), k.load(x, i.axis)))
    a = random(1030, dtype="f4")
    arrays = {"x": a, "y": np.zeros(1030, "f4"), "z": np.zeros(1030, "f4")}
    sample = Sample(k.kernel(), arrays, [1030], exact=True)
    assert check(sample).layout.width == 4
    operands = sample.operands()
    run_sample(sample, operands)
    np.testing.assert_array_equal(operands["z"][0], -a * a)


def test_what_a_row_stores_is_stored_by_its_first_element_alone() -> None:
    k = Nest("row_and_elements")
    x, y = k.buffer("x", "f4", ["any", "one"]), k.buffer("y", "f4", ["any", "one"], "out")
    first, m, n = k.buffer("first", "f4", ["one"], "out"), k.scalar(), k.scalar()
    with k.loop(m) as i:
        v = k.load(x, i.axis, i8(0))
        k.store(first, [i.axis], v)
        with k.loop(n) as j:
            k.store(y, [i.axis, j.axis], k.let("sub", k.load(x, i.axis, j.axis), v))
    a = random(9, 64, dtype="f4")
    arrays = {"x": a, "y": np.zeros((9, 64), "f4"), "first": np.zeros(9, "f4")}
    sample = Sample(k.kernel(), arrays, [9, 64], exact=True)
    check(sample)
    found, text, _ = mapped_sample(sample)
    inner = found.layout.owners[0]
    assert f"if (i{inner} == 0) g_first[" in text


def test_every_kind_of_team_occurs(monkeypatch: Any) -> None:
    kinds = {}
    for name, constants in FORCED.items():
        with monkeypatch.context() as patch:
            for key, value in constants.items():
                patch.setattr(mapping, key, value)
            layouts = [
                mapped_sample(summing(shape, axis, *SUMS), machine=Machine(8))[0].layout
                for shape in SHAPES
                for axis in (0, 1)
            ]
            kinds[name] = {(x.team, x.threads < 32, x.threads > 256, x.split > 1) for x in layouts}
    assert (WARP, True, False, False) in kinds["parts of warps"]
    assert (WARP, False, False, False) in kinds["warps"]
    assert (BLOCK, False, False, False) in kinds["blocks"]
    assert (BLOCK, False, True, False) in kinds["large blocks"]
    assert (BLOCK, False, True, True) in kinds["shared loops"]
    assert {team for team, _, _, split in kinds["shared loops"] if split} == {BLOCK, COLUMN}


def test_what_a_row_shares_is_seen_by_all_its_threads(forced: str) -> None:
    """A store by the row, read by its elements; stores of elements, read by the row."""
    k = Nest("exchanged")
    x, y = k.buffer("x", "f4", ["any", "one"]), k.buffer("y", "f4", ["any", "one"], "out")
    first, n = k.buffer("first", "f4", ["one"], "out"), k.scalar()
    with k.loop(n) as i:
        k.store(first, [i.axis], k.load(x, i.axis, i8(0)))
        with k.loop(i8(40)) as j:
            v = k.load(first, i.axis)
            k.store(y, [i.axis, j.axis], k.let("sub", k.load(x, i.axis, j.axis), v))
        with k.loop(i8(40), Fold("max", "f4")) as j:
            j.leave(k.let("mul", k.load(y, i.axis, j.axis), k.load(y, i.axis, i8(7))))
        k.store(first, [i.axis], j.outs[0])
    a = random(9, 40, dtype="f4")
    d = a - a[:, :1]
    expected = {"y": d, "first": (d * d[:, 7:8]).max(1)}
    arrays = {"x": a, "y": np.zeros((9, 40), "f4"), "first": np.zeros(9, "f4")}
    sample = Sample(k.kernel(), arrays, [9], expected, exact=True)
    check(sample, Machine(8))
    operands = sample.operands()
    run_sample(sample, operands, Machine(8))
    for name, value in sample.results(operands).items():
        np.testing.assert_array_equal(value, expected[name])


def test_after_what_some_threads_skip_the_team_can_meet_again() -> None:
    w = Writer(Nest("empty").kernel(), GridLayout(BLOCK), 0, lambda *_: None)
    w.common = True
    with w.apart():
        assert not w.common
    assert w.common


@pytest.mark.parametrize("before", [True, False])
def test_what_one_element_stores_for_its_row_is_seen_by_the_others(
    before: bool, forced: str
) -> None:
    k = Nest("met")
    x, y = k.buffer("x", "f4", ["any", "one"]), k.buffer("y", "f4", ["any", "one"], "out")
    first, m = k.buffer("first", "f4", ["one"], "out"), k.scalar()
    with k.loop(m) as i:
        if before:
            k.store(first, [i.axis], k.load(x, i.axis, i8(0)))
        with k.loop(i8(64)) as j:
            v = k.load(x, i.axis, j.axis)
            k.store(y, [i.axis, j.axis], k.let("add", v, k.load(first, i.axis)) if before else v)
        if not before:
            k.store(first, [i.axis], k.load(y, i.axis, i8(63)))
    a = random(9, 64, dtype="f4")
    arrays = {"x": a, "y": np.zeros((9, 64), "f4"), "first": np.zeros(9, "f4")}
    sample = Sample(k.kernel(), arrays, [9], exact=True)
    check(sample, Machine(8))
    operands = sample.operands()
    run_sample(sample, operands, Machine(8))
    np.testing.assert_array_equal(operands["first"][0], a[:, 0 if before else 63])


def test_what_a_row_reads_is_not_overwritten_too_early(forced: str) -> None:
    k = Nest("overwritten")
    x, y, n = k.buffer("x", "f4", ["any", "one"]), "y", k.scalar()
    k.buffer("y", "f4", ["any", "one"], "out")
    with k.loop(n) as i:
        with k.loop(i8(300)) as j:
            k.store(y, [i.axis, j.axis], k.load(x, i.axis, j.axis))
        last = k.load(y, i.axis, i8(299))
        with k.loop(i8(300)) as j:
            k.store(y, [i.axis, j.axis], k.let("mul", k.load(x, i.axis, j.axis), last))
    a = random(9, 300, dtype="f4")
    sample = Sample(k.kernel(), {"x": a, "y": np.zeros((9, 300), "f4")}, [9], exact=True)
    check(sample, Machine(8))
    operands = sample.operands()
    run_sample(sample, operands, Machine(8))
    np.testing.assert_array_equal(operands["y"][0].reshape(a.shape), a * a[:, 299:])


def test_rows_that_a_team_repeats_are_held_too(forced: str) -> None:
    """Groups of rows in order, with sums of the columns of a group beside each row's own."""
    k = Nest("groups")
    x, y = k.buffer("x", "f4", ["any", "any", "one"]), "y"
    k.buffer("y", "f4", ["any", "any", "one"], "out")
    sums, groups, rows = k.buffer("sums", "f4", ["any", "one"], "out"), k.scalar(), k.scalar()
    n = k.scalar()
    with k.loop(groups) as g:
        with k.loop(n) as j:
            k.store(sums, [g.axis, j.axis], f4(0))
        with k.loop(rows) as i:
            with k.loop(n, Fold("max", "f4")) as j:
                v = k.load(x, g.axis, i.axis, j.axis)
                k.store(y, [g.axis, i.axis, j.axis], k.let("neg", v))
                j.leave(v)
            with k.loop(n) as m:
                v = k.let("mul", k.load(y, g.axis, i.axis, m.axis), j.outs[0])
                k.store(y, [g.axis, i.axis, m.axis], v)
                k.store(sums, [g.axis, m.axis], v, "sum")
    a = random(3, 4, 300, dtype="f4")
    arrays = {"x": a, "y": np.zeros_like(a), "sums": np.ones((3, 300), "f4")}
    sample = Sample(k.kernel(), arrays, [3, 4, 300], exact=True)
    found = check(sample, Machine(8))
    assert found.layout.held > 0
    operands = sample.operands()
    _, text = run_sample(sample, operands, Machine(8))
    expected = -a * a.max(2, keepdims=True)
    np.testing.assert_array_equal(operands["y"][0].reshape(a.shape), expected)
    np.testing.assert_array_equal(operands["sums"][0].reshape(3, 300), serial_sum(expected))
    assert text.count("g_y[") <= 2  # stored once, in the second pass
    assert text.count("g_sums[") <= 2  # and these behind all rows


def serial_sum(rows: np.ndarray) -> np.ndarray:
    """Over the second axis, in order."""
    total = np.zeros_like(rows[:, 0])
    for k in range(rows.shape[1]):
        total = total + rows[:, k]
    return total


@pytest.mark.parametrize("how", ["read behind", "never started", "added to behind"])
def test_sums_that_others_touch_are_what_they_were(how: str, forced: str) -> None:
    """What is added up over rows, and is read or stored elsewhere as well."""
    k = Nest("touched")
    x, y = k.buffer("x", "f4", ["any", "any", "one"]), k.buffer("y", "f4", ["any", "one"], "out")
    sums, groups, rows = k.buffer("sums", "f4", ["any", "one"], "out"), k.scalar(), k.scalar()
    n = k.scalar()
    with k.loop(groups) as g:
        if how != "never started":
            with k.loop(n) as j:
                k.store(sums, [g.axis, j.axis], f4(0))
        with k.loop(rows) as i:
            with k.loop(n, Fold("max", "f4")) as j:
                j.leave(k.load(x, g.axis, i.axis, j.axis))
            with k.loop(n) as m:
                v = k.let("mul", k.load(x, g.axis, i.axis, m.axis), j.outs[0])
                k.store(sums, [g.axis, m.axis], v, "sum")
        if how != "never started":
            with k.loop(n) as j:
                v = k.load(sums, g.axis, j.axis)
                k.store(y, [g.axis, j.axis], v)
                if how == "added to behind":
                    k.store(sums, [g.axis, j.axis], v, "sum")
    a = random(3, 4, 300, dtype="f4")
    arrays = {"x": a, "y": np.zeros((3, 300), "f4"), "sums": np.ones((3, 300), "f4")}
    check(Sample(k.kernel(), arrays, [3, 4, 300], exact=True), Machine(8))


def test_a_row_that_is_sometimes_written_again_is_not_held(forced: str) -> None:
    k = Nest("sometimes")
    x, y = k.buffer("x", "f4", ["any", "one"]), k.buffer("y", "f4", ["any", "one"], "out")
    total, n = k.buffer("total", "f4", ["one"], "out"), k.scalar()
    with k.loop(n) as i:
        with k.loop(i8(40)) as j:
            k.store(y, [i.axis, j.axis], k.load(x, i.axis, j.axis))
        with k.loop(i8(40)) as j:
            v = k.load(x, i.axis, j.axis)
            with k.part() as then:
                k.store(y, [i.axis, j.axis], k.let("neg", v))
            with k.part() as orelse:
                pass
            k.branch(k.let("lt", v, f4(0)), then, orelse)
        with k.loop(i8(40), Fold("max", "f4")) as j:
            j.leave(k.load(y, i.axis, j.axis))
        k.store(total, [i.axis], j.outs[0])
    a = random(9, 40, dtype="f4")
    arrays = {"x": a, "y": np.zeros((9, 40), "f4"), "total": np.zeros(9, "f4")}
    sample = Sample(k.kernel(), arrays, [9], exact=True)
    check(sample, Machine(8))
    operands = sample.operands()
    run_sample(sample, operands, Machine(8))
    np.testing.assert_array_equal(operands["total"][0], np.abs(a).max(1))


# --- programs


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_compute_what_the_reference_does(name: str) -> None:
    fn, args = FUNCTIONS[name]
    for launch, table, slots in launches_of(fn, *args):
        run_launch(launch, table, slots)


@pytest.mark.parametrize("name", ["softmax", "gradient of layernorm", "sum", "sum of columns"])
def test_programs_do_so_with_all_kinds_of_teams(name: str, forced: str) -> None:
    fn, args = FUNCTIONS[name]
    for launch, table, slots in launches_of(fn, *args):
        run_launch(launch, table, slots, Machine(8))


# --- what the device's compiler makes of them


@pytest.mark.parametrize("arch", ["sm_75", "sm_100"])
def test_every_sample_compiles_for_devices(arch: str) -> None:
    names = sorted(SAMPLES)
    texts = [mapped_sample(SAMPLES[n](), symbol=f"k{k}")[1] for k, n in enumerate(names)]
    assert len(registers_of("\n".join(texts), arch)) >= len(names)


@pytest.mark.parametrize("arch", ["sm_75", "sm_100"])
def test_every_program_compiles_for_devices(arch: str) -> None:
    texts = [text_of(fn, args, f"f{k}_") for k, (fn, args) in enumerate(FUNCTIONS.values())]
    for name, (_, spilled) in registers_of("\n".join(texts), arch).items():
        assert spilled <= 16, name  # around the subroutine of a division


N = 1024


@pytest.mark.parametrize(
    ("name", "shapes", "most"),
    [
        ("the cell", [(1, N)] * 2 + [(N, N)] * 4, 32),
        ("the cell and its partials", [(1, N)] * 2 + [(N, N)] * 4, 40),
        *(("a product and its partials", [(N, N)] * n, 32) for n in (1, 2, 4, 6, 8, 10)),
        *(("a product and its partials", [(N, N)] * n, 64) for n in (14, 20, 24)),
        ("softmax", [(N, N)], 96), ("layernorm", [(N, N), (N,), (N,)], 64),
        ("gradient of layernorm", [(N, 512), (512,), (512,)], 80), ("sum", [(N, N)], 40),
        ("sum of columns", [(N, N)], 40),
        ("gradient and sum of columns", [(N, N), (N,), (N, N)], 40),
    ],
)  # fmt: skip
def test_registers_leave_room_for_enough_warps(name: str, shapes: Any, most: int) -> None:
    args = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
    text = text_of(FUNCTIONS[name][0], args, "k", Machine(132))
    for symbol, (used, spilled) in registers_of(text, "sm_90").items():
        assert used <= most, symbol
        assert spilled == 0, symbol

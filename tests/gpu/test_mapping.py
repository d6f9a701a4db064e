"""Which threads do what: choices from sizes, steps and alignment alone, no memory needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ftrace.gpu.emit.kernel_source import emit
from ftrace.gpu.grid.layout import (
    BLOCK,
    COLUMN,
    LARGE,
    SIGNED,
    SMALL,
    THREAD,
    WARP,
    GridLayout,
    Mapped,
)
from ftrace.gpu.grid.mapping import MANY, mapped
from ftrace.gpu.grid.nests import settled
from ftrace.lowering.kernel.ir import Fold, Kernel, Load, Loop, loops_of
from ftrace.lowering.kernel.launching import Launch, Operand
from ftrace.lowering.kernel.schedule import Schedule
from ftrace.lowering.kernel.traversal import inside
from tests.lowering.nests import Nest, i8


@dataclass
class H200:
    processors: int = 132
    shared: int = 48 * 1024


def place(
    kernel: Kernel,
    steps: dict[str, Sequence[int]],
    scalars: Sequence[int],
    alignment: int | dict[str, int] = 256,
    device: Any = None,
) -> Mapped:
    """A kernel on the grid; `steps` are the numbers of each buffer's `any` steps."""
    table: list[int] = [0]
    operands: list[Operand] = []
    for slot, b in enumerate(kernel.buffers):
        numbers = steps.get(b.name, ())
        assert len(numbers) == b.steps.count("any")
        entries = range(len(table), len(table) + len(numbers))
        operands.append(Operand(slot, 0, tuple(entries)))
        table += numbers
    entries = range(len(table), len(table) + len(scalars))
    launch = Launch(kernel, Schedule((), 1), tuple(operands), tuple(entries))
    aligned = [
        alignment if isinstance(alignment, int) else alignment.get(b.name, 256)
        for b in kernel.buffers
    ]
    return mapped(launch, [*table, *scalars], aligned, device or H200())


def doubled(dtype: str = "f4", step: str = "one", **more: Any) -> Kernel:
    """y[i] = x[i] + x[i], `values` times."""
    k = Nest("doubled")
    x, n = k.buffer("x", dtype, [step]), k.scalar()
    outs = [k.buffer(f"y{j}", dtype, ["one"], "out") for j in range(more.get("outs", 1))]
    with k.loop(n) as i:
        for y in outs:
            v = k.load(x, i.axis)
            k.store(y, [i.axis], k.let("add", v, v))
    return k.kernel()


def matrix(space: str = "any") -> Kernel:
    """y[i, j] = x[i, j] + row[j] + column[i]."""
    k = Nest("matrix")
    x, row = k.buffer("x", "f4", [space, "one"]), k.buffer("row", "f4", ["one"])
    column, y = k.buffer("column", "f4", ["one"]), k.buffer("y", "f4", ["any", "one"], "out")
    m, n = k.scalar(), k.scalar()
    with k.loop(m) as i:
        c = k.load(column, i.axis)
        with k.loop(n) as j:
            v = k.let("add", k.load(x, i.axis, j.axis), k.load(row, j.axis))
            k.store(y, [i.axis, j.axis], k.let("add", v, c))
    return k.kernel()


def summed(
    axis: int = 1, fold: Fold | None = None, dtype: str = "f4", store: bool = False
) -> Kernel:
    """y[i] = sum over one axis of x; with `store`, z = x + x beside it."""
    k = Nest("summed")
    x, y = k.buffer("x", dtype, ["any", "one"]), k.buffer("y", dtype, ["one"], "out")
    z = k.buffer("z", dtype, ["any", "one"], "out") if store else ""
    kept, gone = k.scalar(), k.scalar()
    with k.loop(kept) as i:
        with k.loop(gone, fold or Fold("sum", dtype, 32)) as j:
            at = (i.axis, j.axis) if axis else (j.axis, i.axis)
            v = k.load(x, *at)
            if store:
                k.store(z, at, k.let("add", v, v))
            j.leave(v)
        k.store(y, [i.axis], j.outs[0])
    return k.kernel()


def softmax() -> Kernel:
    k = Nest("softmax")
    x, y = k.buffer("x", "f4", ["any", "one"]), k.buffer("y", "f4", ["any", "one"], "out")
    m, n = k.scalar(), k.scalar()
    with k.loop(m) as i:
        with k.loop(n, Fold("max", "f4", 16)) as one:
            one.leave(k.load(x, i.axis, one.axis))
        with k.loop(n, Fold("sum", "f4", 16, 256)) as two:
            e = k.let("exp", k.let("sub", k.load(x, i.axis, two.axis), one.outs[0]))
            k.store(y, [i.axis, two.axis], e)
            two.leave(e)
        with k.loop(n) as three:
            v = k.let("div", k.load(y, i.axis, three.axis), two.outs[0])
            k.store(y, [i.axis, three.axis], v)
    return k.kernel()


# --- indices


@pytest.mark.parametrize(
    ("n", "index"),
    [(10, SMALL), (2**31 - 2**26 - 1, SMALL), (2**31 - 2**26 + 2, LARGE), (2**33, LARGE)],
)
def test_indices_are_as_wide_as_the_farthest_element_needs(n: int, index: str) -> None:
    assert place(doubled(), {}, [n]).layout.index == index


@pytest.mark.parametrize(
    ("step", "n", "index"),
    [(1000, 1000, SMALL), (2**20, 2**12, LARGE), (-1, 1000, SIGNED), (-(2**20), 2**11, LARGE)],
)
def test_steps_count_for_indices(step: int, n: int, index: str) -> None:
    assert place(doubled(step="any"), {"x": [step]}, [n]).layout.index == index


def test_reversed_buffers_have_signed_indices() -> None:
    kernel = doubled(step="minus")
    found = place(kernel, {}, [1000])
    assert found.layout.index == SIGNED
    assert "g_x[-i" in emit(found.kernel, found.layout, "k")


def test_rows_and_columns_count_together() -> None:
    small = place(matrix(), {"x": [2**15], "y": [2**15]}, [2**15, 2**15])
    large = place(matrix(), {"x": [2**16], "y": [2**16]}, [2**16, 2**16])
    assert (small.layout.index, large.layout.index) == (SMALL, LARGE)


# --- how many elements a thread takes


@pytest.mark.parametrize(
    ("dtype", "alignment", "width"),
    [
        ("f4", 16, 4), ("f4", 8, 2), ("f4", 4, 1), ("f8", 16, 2), ("f8", 8, 1), ("f2", 8, 4),
        ("f2", 2, 1), ("u1", 4, 4), ("u1", 1, 1), ("i8", 256, 2),
    ],
)  # fmt: skip
def test_vectors_are_as_wide_as_alignment_allows(dtype: str, alignment: int, width: int) -> None:
    k = Nest("copy")
    x, y, n = k.buffer("x", dtype, ["one"]), k.buffer("y", dtype, ["one"], "out"), k.scalar()
    with k.loop(n) as i:
        k.store(y, [i.axis], k.load(x, i.axis))
    found = place(k.kernel(), {}, [4096], alignment).layout
    assert (found.width, found.vectors) == (width, ("x", "y") if width > 1 else ())


def test_one_buffer_out_of_line_is_read_element_by_element() -> None:
    assert place(doubled(outs=2), {}, [4096], {"x": 4}).layout.vectors == ("y0", "y1")
    assert place(doubled(), {}, [4096], {"x": 4, "y0": 4}).layout.width == 1


@pytest.mark.parametrize(("n", "width"), [(4096, 4), (4098, 4), (4097, 4), (3, 2), (1, 1)])
def test_ends_may_be_ragged(n: int, width: int) -> None:
    layout = place(doubled(), {}, [n]).layout
    assert (layout.width, layout.ragged) == (width, n % width != 0)


def test_rows_that_start_off_a_boundary_are_no_vectors() -> None:
    layout = place(matrix(), {"x": [1001], "y": [1001]}, [50, 1001]).layout
    assert layout.width == 1
    layout = place(matrix(), {"x": [1004], "y": [1004]}, [50, 1001]).layout
    assert (layout.width, layout.ragged) == (4, True)
    assert layout.vectors == ("x", "row", "y")


@pytest.mark.parametrize(("step", "vectors"), [(4, ("x", "y")), (6, ("y",)), (7, ("y",))])
def test_a_row_of_a_number_counts_for_alignment(step: int, vectors: tuple[str, ...]) -> None:
    k = Nest("second_row")
    x, y, n = k.buffer("x", "f4", ["any", "one"]), k.buffer("y", "f4", ["one"], "out"), k.scalar()
    with k.loop(n) as i:
        k.store(y, [i.axis], k.load(x, i8(1), i.axis))
    layout = place(k.kernel(), {"x": [step]}, [4096]).layout
    assert (layout.width, layout.vectors) == (4, vectors)


def test_many_values_leave_registers_for_fewer_elements() -> None:
    widths = [place(doubled(outs=n), {}, [4096]).layout.width for n in (1, 6, 12, 30)]
    assert widths == sorted(widths, reverse=True)
    assert (widths[0], widths[-1]) == (4, 1)
    full = [place(doubled(outs=n), {}, [4096]).layout.width for n in (5, 6)]
    assert full == [4, 2]  # 24 registers are what there is for four elements


def gathered(values: int, along: bool) -> Kernel:
    """z[r, c] = y[place, c], a place of x with some numbers added: of the row, or of the column."""
    k = Nest("gathered")
    x, y = k.buffer("x", "i8", ["one"]), k.buffer("y", "f4", ["any", "one"])
    z, n, m = k.buffer("z", "f4", ["any", "one"], "out"), k.scalar(), k.scalar()
    with k.loop(n) as i, k.loop(m) as j:
        given = k.load(x, j.axis if along else i.axis)
        where = given
        for _ in range(values):
            where = k.let("add", where, k.let("add", given, given))
        k.store(z, [i.axis, j.axis], k.load(y, where, j.axis))
    return k.kernel()


@pytest.mark.parametrize(("along", "width"), [(False, 4), (True, 2)])
def test_what_neighbours_share_is_in_registers_once(along: bool, width: int) -> None:
    """And a place that is not the same for neighbours is not read as a vector of theirs."""
    layout = place(gathered(3, along), {"y": [64], "z": [64]}, [200_000, 64]).layout
    assert layout.width == width
    assert layout.vectors == (("x", "z") if along else ("y", "z"))


def test_what_neighbours_share_takes_registers_too() -> None:
    k = Nest("much")
    xs = [k.buffer(f"x{n}", "i8", ["one"]) for n in range(30)]
    y, z = k.buffer("y", "f4", ["any", "one"]), k.buffer("z", "f4", ["any", "one"], "out")
    n, m = k.scalar(), k.scalar()
    with k.loop(n) as i:
        loads = [k.load(x, i.axis) for x in xs]
        where = loads[0]
        for value in loads[1:]:
            where = k.let("add", where, value)
        with k.loop(m) as j:
            k.store(z, [i.axis, j.axis], k.load(y, where, j.axis))
    layout = place(k.kernel(), {"y": [64], "z": [64]}, [200_000, 64]).layout
    assert layout.width == 1


# --- teams


@pytest.mark.parametrize(
    ("rows", "columns", "team", "threads", "split"),
    [
        (10**6, 5, THREAD, 1, 1), (10**6, 9, WARP, 4, 1), (10**6, 64, WARP, 8, 1),
        (10**6, 512, WARP, 32, 1), (10, 64, WARP, 32, 1), (4096, 2000, BLOCK, 256, 1),
        (4096, 2**15, BLOCK, 1024, 1), (64, 2**22, BLOCK, 1024, 4), (1, 2**24, BLOCK, 1024, 256),
        (1, 2**15, BLOCK, 1024, 2),
    ],
)  # fmt: skip
def test_rows_get_as_many_threads_as_they_are_long(
    rows: int, columns: int, team: str, threads: int, split: int
) -> None:
    layout = place(summed(), {"x": [columns]}, [rows, columns]).layout
    assert (layout.team, layout.threads, layout.split) == (team, threads, split)


@pytest.mark.parametrize(
    ("rows", "columns", "team", "shape", "split"),
    [
        (4096, 4096, COLUMN, (32, 32), 2), (100, 4096, COLUMN, (32, 8), 1),
        (5, 64, THREAD, (32, 1), 1), (50, 10**6, THREAD, (32, 1), 1),
        (10**6, 3, COLUMN, (4, 256), 128), (20, 64, COLUMN, (8, 8), 1),
    ],
)  # fmt: skip
def test_columns_are_done_side_by_side(
    rows: int, columns: int, team: str, shape: tuple[int, int], split: int
) -> None:
    layout = place(summed(0), {"x": [columns]}, [columns, rows]).layout
    assert (layout.team, layout.across, layout.threads) == (team, *shape)
    assert layout.split == split


def test_few_columns_are_done_by_more_and_narrower_blocks() -> None:
    few = place(summed(0), {"x": [1024]}, [1024, 512])
    assert (few.layout.team, few.layout.across, few.layout.threads) == (COLUMN, 8, 32)
    assert few.stages[0].grid == (128, 1, 1)
    assert place(summed(0), {"x": [2**14]}, [2**14, 512]).layout.across == 32
    shared = place(summed(0), {"x": [1024]}, [1024, 2**16]).layout
    assert (shared.across, shared.split) == (32, 8)


def test_scratch_memory_holds_what_blocks_leave() -> None:
    fold = Fold("sum", "f4", 32, 1024)
    found = place(summed(fold=fold), {"x": [2**22]}, [64, 2**22])
    assert found.layout.split == 4
    assert found.scratch == 8 * 2 * 4 * 64  # high and low, of 4 blocks for each of 64 rows
    assert len(found.stages) == 2
    assert found.stages[0].grid == (4, 64, 1)
    found = place(summed(0, fold), {"x": [4096]}, [4096, 4096])
    assert found.scratch == 8 * 2 * 2 * 4096
    assert [s.grid for s in found.stages] == [(128, 1, 2), (128, 1, 1)]


def test_loops_that_write_what_others_read_are_not_shared_by_blocks() -> None:
    assert place(summed(store=True), {"x": [2**22], "z": [2**22]}, [4, 2**22]).layout.split > 1
    k = Nest("read_back")
    x, y = k.buffer("x", "f4", ["one"]), k.buffer("y", "f4", ["one"], "out")
    last, n = k.buffer("last", "f4", [], "out"), k.scalar()
    with k.loop(n, Fold("max", "f4")) as i:
        v = k.load(x, i.axis)
        k.store(y, [i.axis], v)
        i.leave(v)
    k.store(last, [], k.let("add", i.outs[0], k.load(y, i8(0))))
    assert place(k.kernel(), {}, [2**24]).layout.split == 1


def test_blocks_whose_registers_are_large_have_fewer_threads() -> None:
    """Where indices have eight bytes, and where numbers do and a row is added to others."""
    rows = {n: place(summed(), {"x": [2**15]}, [n, 2**15]).layout for n in (4096, 2**17)}
    assert {n: (x.index, x.threads) for n, x in rows.items()} == {
        4096: (SMALL, 1024),
        2**17: (LARGE, 512),
    }

    def adding(dtype: str) -> Kernel:
        k = Nest("adding")
        x, y = k.buffer("x", dtype, ["any", "one"]), k.buffer("y", dtype, ["one"], "out")
        z = k.buffer("z", dtype, ["one"], "out")
        m, n = k.scalar(), k.scalar()
        with k.loop(m) as i:
            with k.loop(n, Fold("sum", dtype, 32)) as j:
                v = k.load(x, i.axis, j.axis)
                k.store(y, [j.axis], v, "sum")
                j.leave(v)
            k.store(z, [i.axis], j.outs[0])
        return k.kernel()

    layouts = {d: place(adding(d), {"x": [2**16]}, [8, 2**16]).layout for d in ("f4", "f8")}
    assert {d: (x.team, x.threads) for d, x in layouts.items()} == {
        "f4": (BLOCK, 1024),
        "f8": (BLOCK, 512),
    }


def test_a_sum_of_few_numbers_is_a_blocks() -> None:
    k = Nest("total")
    x, y = k.buffer("x", "f4", ["one"]), k.buffer("y", "f4", [], "out")
    with k.loop(k.scalar(), Fold("sum", "f4", 32)) as i:
        i.leave(k.load(x, i.axis))
    k.store(y, [], i.outs[0])
    assert place(k.kernel(), {}, [100]).layout.team == BLOCK


def test_blocks_of_many_rows_are_as_many_as_run_at_once() -> None:
    (stage,) = place(summed(), {"x": [2000]}, [10**7, 2000]).stages
    assert stage.grid == (4 * H200().processors * MANY // stage.block[0], 1, 1)


def test_two_sweeps_of_a_row_are_not_shared_by_blocks() -> None:
    k = Nest("two_sweeps")
    x, y = k.buffer("x", "f4", ["one"]), k.buffer("y", "f4", [], "out")
    n = k.scalar()
    with k.loop(n, Fold("max", "f4")) as one:
        one.leave(k.load(x, one.axis))
    with k.loop(n, Fold("sum", "f4", 32)) as two:
        two.leave(k.let("sub", k.load(x, two.axis), one.outs[0]))
    k.store(y, [], two.outs[0])
    assert place(k.kernel(), {}, [2**24]).layout.split == 1


def test_folds_have_an_accumulator_per_thread_of_the_team() -> None:
    found = place(summed(fold=Fold("sum", "f4", 32, 1024)), {"x": [8192]}, [10**5, 8192])
    (fold,) = fold_of(found.kernel)
    layout = found.layout
    assert (fold.ways, fold.near) == (layout.threads, layout.width) == (512, 4)
    assert not fold.block  # four additions in a row
    found = place(summed(fold=Fold("sum", "f4", 32, 1024)), {"x": [2**17]}, [10**5, 2**17])
    (fold,) = fold_of(found.kernel)
    assert fold.block == 32 * fold.ways * fold.near  # as many additions in a row as before
    (fold,) = fold_of(place(summed(fold=Fold("max", "f4", 32)), {"x": [512]}, [10**5, 512]).kernel)
    assert fold == Fold("max", "f4", 1)
    (fold,) = fold_of(
        place(summed(fold=Fold("sum", "f4", 32, 1024)), {"x": [5]}, [10**6, 5]).kernel
    )
    assert fold == Fold("sum", "f4", 1, 32)


def fold_of(kernel: Kernel) -> list[Fold]:
    return [f for loop in loops_of(kernel.body) for f in loop.folds]


def test_two_loops_are_joined() -> None:
    k = Nest("pairs")
    x, y = k.buffer("x", "f4", ["any", "any", "one"]), k.buffer("y", "f4", ["one"], "out")
    a, b, c = (k.scalar() for _ in range(3))
    with k.loop(b) as j:
        with k.loop(a, Fold("sum", "f4")) as i:
            with k.loop(c, Fold("sum", "f4", 32)) as m:
                m.leave(k.load(x, i.axis, j.axis, m.axis))
            i.leave(m.outs[0])
        k.store(y, [j.axis], i.outs[0])
    found = place(k.kernel(), {"x": [64 * 128, 128]}, [8192, 64, 128])
    assert found.extra == (8192 * 128,)
    assert found.layout.team == BLOCK
    assert found.layout.split == 4
    assert len(loops_of(found.kernel.body)) == 2


def test_each_pair_of_loops_of_a_row_is_joined() -> None:
    k = Nest("passes")
    x, y = k.buffer("x", "f4", ["any", "any", "one"]), k.buffer("y", "f4", ["any"] * 3, "out")
    c, b, a = (k.scalar() for _ in range(3))
    with k.loop(c) as row:
        with k.loop(b, Fold("max", "f4")) as i:
            with k.loop(a, Fold("max", "f4")) as j:
                j.leave(k.load(x, row.axis, i.axis, j.axis))
            i.leave(j.outs[0])
        with k.loop(b) as u, k.loop(a) as v:
            at = (row.axis, u.axis, v.axis)
            k.store(y, at, k.let("sub", k.load(x, *at), i.outs[0]))
    found = place(k.kernel(), {"x": [6000, 60], "y": [6000, 60, 2]}, [64, 50, 60])
    assert found.extra == (3000, 3000)
    assert len(loops_of(found.kernel.body)) == 3
    assert {loop.axis.id for loop in loops_of(found.kernel.body)} >= set(found.layout.lanes)


# --- rows in registers


def test_rows_stay_in_registers_where_they_fit() -> None:
    held = {n: place(softmax(), {"x": [n], "y": [n]}, [8192, n]).layout.held for n in
            (64, 512, 1024, 4096, 16384, 32768)}  # fmt: skip
    assert held == {64: 1, 512: 2, 1024: 2, 4096: 4, 16384: 4, 32768: 0}


def test_rows_of_several_passes_leave_registers() -> None:
    """A warp would hold a whole row: eight elements for each thread of a block do as well."""
    layouts = {
        n: place(softmax(), {"x": [n], "y": [n]}, [8192, n]).layout for n in (256, 512, 1024)
    }
    teams = {n: (x.team, x.threads) for n, x in layouts.items()}
    assert teams == {256: (WARP, 32), 512: (BLOCK, 64), 1024: (BLOCK, 128)}
    assert place(summed(), {"x": [1024]}, [8192, 1024]).layout.team == WARP  # one pass


def test_what_is_held_is_neither_read_nor_written_twice() -> None:
    found = place(softmax(), {"x": [512], "y": [512]}, [8192, 512])
    text = emit(found.kernel, found.layout, "k")
    assert text.count("&g_x[") == 1
    assert text.count("&g_y[") == 1
    long = place(softmax(), {"x": [2**16], "y": [2**16]}, [8192, 2**16])
    text = emit(long.kernel, long.layout, "k")
    assert (text.count("&g_x["), text.count("&g_y[")) == (2, 3)


def test_sums_of_whole_rows_are_not_stored_again() -> None:
    """Every team may add to one: it is in nobody's registers."""
    k = Nest("totals")
    x, sums = k.buffer("x", "f4", ["any", "one"]), k.buffer("sums", "f4", ["one"], "out")
    total, m, n = k.buffer("total", "f4", ["one"], "out"), k.scalar(), k.scalar()
    with k.loop(m) as i, k.loop(n) as j:
        v = k.load(x, i.axis, j.axis)
        k.store(sums, [j.axis], v, "sum")
        k.store(total, [i8(0)], v, "sum")
    found, axes = settled(k.kernel(), [j.axis.id])
    assert len(axes) == 1
    again = [s.buffer for s in inside(found.body) if isinstance(s, Load)]
    assert again == ["x", "sums"]


# --- grids


def test_nothing_to_do_is_not_launched() -> None:
    assert [s.grid for s in place(doubled(), {}, [0]).stages] == [None]
    assert [s.grid for s in place(summed(), {"x": [9]}, [0, 9]).stages] == [None]
    assert [s.grid for s in place(summed(), {"x": [1]}, [9, 0]).stages] == [(1, 1, 1)]  # zeros


@pytest.mark.parametrize("shape", [(10**7, 8), (2**31, 4), (3, 10**9), (10**5, 10**5), (1, 1)])
def test_grids_stay_within_limits(shape: tuple[int, int]) -> None:
    steps = {"x": [shape[1]], "y": [shape[1]]}
    for kernel in (matrix(), softmax()):
        for stage in place(kernel, steps, shape).stages:
            assert stage.grid is not None
            assert all(
                1 <= n <= m for n, m in zip(stage.grid, (2**31 - 1, 65535, 65535), strict=True)
            )
            assert stage.block[0] * stage.block[1] * stage.block[2] <= 1024


@pytest.mark.parametrize(
    ("columns", "block"),
    [(3, (4, 64, 1)), (65, (32, 8, 1)), (129, (32, 8, 1)), (300, (64, 4, 1)), (512, (256, 1, 1))],
)
def test_few_threads_are_idle_beside_a_row(columns: int, block: tuple[int, int, int]) -> None:
    found = place(matrix(), {"x": [columns], "y": [columns]}, [10**5, columns], 4)
    assert (found.layout.width, found.stages[0].block) == (1, block)


def test_every_element_has_a_thread() -> None:
    for n in (1, 5, 255, 256, 257, 4096, 10**6, 2**32):
        found = place(doubled(), {}, [n])
        (x, _, _), (threads, _, _) = found.stages[0].grid or (0, 0, 0), found.stages[0].block
        assert x * threads * found.layout.width >= n > (x - 1) * threads * found.layout.width


# --- one text for all sizes


@pytest.mark.parametrize("kernel", [doubled(), matrix(), summed(), summed(0), softmax()])
def test_text_depends_on_the_layout_alone(kernel: Kernel) -> None:
    texts: dict[GridLayout, str] = {}
    for m in (1, 40, 100, 333, 5000):
        for n in (1, 4, 7, 64, 100, 1000, 3000, 20000):
            steps = {b.name: [n] * b.steps.count("any") for b in kernel.buffers}
            sizes = [m, n][-len(kernel.scalars) :]
            found = place(kernel, steps, sizes)
            text = emit(found.kernel, found.layout, "k")
            assert texts.setdefault(found.layout, text) == text
    assert 1 < len(texts) < 20


def test_roles_are_found_for_every_loop_of_the_mapped_kernel() -> None:
    found = place(softmax(), {"x": [512], "y": [512]}, [8192, 512])
    axes = {loop.axis.id for loop in loops_of(found.kernel.body) if isinstance(loop, Loop)}
    assert axes == {*found.layout.owners, *found.layout.lanes}

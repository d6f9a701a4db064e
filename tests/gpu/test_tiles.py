"""Arrays that lie across are read by tiles: what comes out, when, and how memory is met.

Kernels run on the emulated device, in both schedules and against guard pages.
"""

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ftrace import jit, lax, vectorize
from ftrace import numpy as fnp
from ftrace.gpu.emit.kernel_source import emit
from ftrace.gpu.grid import mapping, tiling
from ftrace.gpu.grid.layout import LARGE, SIGNED, SMALL, THREAD, TILE
from ftrace.gpu.runtime.copying import contiguous
from ftrace.lowering.kernel.ir import Lit
from tests.gpu import plans
from tests.gpu.emulation import driver
from tests.gpu.hosted import here, there
from tests.gpu.running import host, run_sample, source_of
from tests.lowering.nests import Nest, Sample

pytestmark = pytest.mark.usefixtures("emulation")
DTYPES = ("i1", "u2", "f2", "i4", "f4", "f8", "i8", "?", "c8", "c16")


def numbered(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """An array no two near elements of which are equal."""
    return (np.arange(np.prod(shape)).reshape(shape) * 37 % 251 % 127).astype(dtype)


def layouts(f: Callable[..., Any], device: Any, *args: Any) -> list[Any]:
    """How the kernels of a function lie on a device."""
    types = [plans.array(*a.shape, dtype=a.dtype) for a in args]
    return [k.layout for k in plans.kernels(plans.planned(f, *types), device)]


def check(f: Callable[..., Any], device: Any, *args: np.ndarray) -> Any:
    """The layout of the one kernel of a function, whose results are NumPy's to the last bit."""
    (layout,) = layouts(f, device, *args)
    found = here(jit(f)(*map(there, args)))
    expected = np.asarray(f(*args))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    return layout


# --- what comes out

SHAPES = {
    "whole tiles": (256, 128),
    "parts of tiles": (100, 140),
    "ragged along what is written": (68, 97),
    "ragged along what is read": (97, 68),
    "ragged": (67, 131),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_transpose_is_numpys(name, dtype, host_device):
    layout = check(lambda x: x.T, host_device, numbered(*SHAPES[name], dtype=dtype))
    assert layout.team == TILE
    assert layout.width > 1 or "ragged" in name or dtype[0] == "c"


@pytest.mark.parametrize("side", [32, 64])
@pytest.mark.parametrize("name", SHAPES)
def test_sides_make_no_difference(name, side, host_device, monkeypatch):
    monkeypatch.setattr(tiling, "side", lambda size: side)
    layout = check(lambda x: x.T * 2, host_device, numbered(*SHAPES[name]))
    assert (layout.team, layout.side) == (TILE, side)


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], tuple[str, ...]]] = {
    "one of two": (lambda x, y: x + y.T, [(100, 68), (68, 100)], ("f4", "f4")),
    "both of two": (lambda x, y: x.T - y.T, [(100, 68), (100, 68)], ("f4", "f4")),
    "two of three": (lambda x, y, z: x.T * y.T + z, [(64, 99)] * 2 + [(99, 64)], ("f4",) * 3),
    "with itself": (lambda x: x - x.T * 3, [(99, 99)], ("f4",)),
    "narrow read": (lambda x, y: x.T + y, [(100, 68), (68, 100)], ("f4", "f8")),
    "narrower read": (lambda x, y: x.T + y, [(100, 68), (68, 100)], ("i1", "f8")),
    "wide read": (lambda x, y: (x.T + y).astype("i1"), [(100, 68), (68, 100)], ("i8", "i1")),
    "rows and columns": (
        lambda x, r, c: x.T * r + c,
        [(100, 68), (100,), (68, 1)],
        ("f4", "f4", "f4"),
    ),
    "axes moved back": (lambda x: x.transpose(2, 0, 1), [(3, 50, 70)], ("f4",)),
    "axes moved forth": (lambda x: x.transpose(1, 2, 0), [(40, 3, 70)], ("f4",)),
    "axes turned round": (lambda x: x.transpose(2, 1, 0), [(40, 5, 70)], ("f8",)),
    "of four axes": (lambda x: x.transpose(3, 1, 0, 2) + 1, [(2, 3, 33, 65)], ("i4",)),
    "a short axis inside": (lambda x: x.transpose(3, 0, 2, 1), [(2, 3, 32, 35)], ("f4",)),
    "two ways at once": (
        lambda x, y: x.transpose(2, 1, 0) + y.transpose(1, 2, 0),
        [(40, 36, 34), (40, 34, 36)],
        ("f4", "f4"),
    ),
    "backwards": (lambda x: x[::-1].T + x[:, ::-1].T, [(100, 68)], ("f4",)),
    "windows": (lambda x, y: x[1:, 2:].T + y[:, 3:], [(69, 102), (100, 71)], ("f4", "f4")),
    "every other": (lambda x: x[::2].T, [(101, 67)], ("f4",)),
    "short sums beside": (lambda x, y: x.sum(2) + y.T, [(40, 36, 3), (36, 40)], ("f4", "f4")),
}


def example(name: str) -> tuple[Callable[..., Any], list[np.ndarray]]:
    f, shapes, dtypes = FUNCTIONS[name]
    return f, [numbered(*s, dtype=d) for s, d in zip(shapes, dtypes, strict=True)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_done_with_tiles_is_numpys(name, host_device):
    f, args = example(name)
    assert check(f, host_device, *args).team == TILE


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_so_where_blocks_take_several_tiles(name, host_device, monkeypatch):
    monkeypatch.setattr(mapping, "GRID", 2)
    f, args = example(name)
    assert check(f, host_device, *args).team == TILE


@pytest.mark.parametrize("index", [SMALL, SIGNED, LARGE])
@pytest.mark.parametrize("name", ["one of two", "of four axes", "windows"])
def test_it_is_so_with_all_types_of_indices(name, index, host_device, monkeypatch):
    monkeypatch.setattr(mapping._Mapper, "index", lambda *_: index)
    f, args = example(name)
    assert check(f, host_device, *args).index == index


@pytest.mark.parametrize("together", [1, 2, 8])
def test_it_is_so_however_many_reads_are_under_way(together, host_device, monkeypatch):
    monkeypatch.setattr("ftrace.gpu.emit.tiles.TOGETHER", together)
    f, args = example("two of three")
    check(f, host_device, *args)


def test_loops_of_elements_see_their_elements(host_device):
    def halvings(x, y):
        count = 0.0
        while x > 1.0:
            x = x * 0.5
            count = count + 1.0
        return count + y

    x, y = numbered(67, 45, dtype="f8"), numbered(45, 67, dtype="f8")
    f = vectorize(halvings)
    (layout,) = layouts(lambda x, y: f(x.T, y), host_device, x, y)
    assert (layout.team, layout.width) == (TILE, 1)
    found = here(jit(lambda x, y: f(x.T, y))(there(x), there(y)))
    counts = np.array([[halvings(float(a), 0.0) for a in row] for row in x.T])
    np.testing.assert_array_equal(found, counts + y)


@pytest.mark.parametrize("dtype", ["i1", "f4", "f8", "c16"])
def test_arguments_that_lie_across_are_copied_by_tiles(dtype, host_device):
    x = numbered(70, 99, dtype=dtype)
    for view in (lambda a: a.T, lambda a: a[1::2, 3:].T, lambda a: a[::-1].T):
        found = contiguous(view(there(x)), host_device)
        np.testing.assert_array_equal(here(found), view(x))
        called = jit(lambda x: x + 1)(view(there(x)))
        np.testing.assert_array_equal(here(called), view(x) + x.dtype.type(1))


ORDERS = [
    ((130, 33), (1, 0)),
    ((3, 33, 40), (2, 0, 1)),
    ((3, 33, 40), (0, 2, 1)),
    ((37, 3, 40), (2, 1, 0)),
    ((2, 32, 3, 35), (3, 0, 2, 1)),
    ((2, 65, 3, 35), (2, 3, 0, 1)),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "order"), ORDERS)
def test_axes_in_any_order_are_numpys_and_copied_so(shape, order, dtype, host_device):
    x = numbered(*shape, dtype=dtype)
    assert check(lambda x: x.transpose(order), host_device, x).team == TILE
    copied = contiguous(there(x).transpose(order), host_device)
    np.testing.assert_array_equal(here(copied), x.transpose(order))


def test_several_operands_lie_each_in_its_own_way(host_device):
    """Results too; what is read below a condition is read there."""
    x, y, v = numbered(45, 45), numbered(45, 45)[::-1].copy(), numbered(45, 1)

    def f(x, y, v):
        return x + y.T * x.T - v + v.T, x * y, fnp.where(y > 60, fnp.sqrt(x.T), y)

    found = jit(f)(there(x), there(y), there(v))
    expected = x + y.T * x.T - v + v.T, x * y, np.where(y > 60, np.sqrt(x.T), y)
    for got, right in zip(map(here, found), expected, strict=True):
        np.testing.assert_array_equal(got, right)


def test_offsets_past_2_to_31():
    (kernel,) = plans.kernels(plans.planned(lambda x: x.T, plans.array(1 << 17, 1 << 17)))
    assert (kernel.layout.team, kernel.layout.index) == (TILE, LARGE)
    assert kernel.stages[0].grid == (4096, 4096, 1)


# --- when

OTHERWISE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "nothing lies across": (lambda x, y: x + y, [(64, 96)] * 2),
    "rows stay rows": (lambda x: x.transpose(1, 0, 2), [(40, 36, 34)]),
    "few rows": (lambda x: x.T * 2, [(15, 4096)]),
    "few columns": (lambda x: x.T * 2, [(4096, 15)]),
    "neighbours are near": (lambda x: x.T * 2, [(4096, 3)]),
    "a column is read": (lambda x, y: x + y[:, :1], [(64, 96)] * 2),
    "rows are gathered": (lambda x, k: x.T[fnp.clip(k, 0, 5)], [(64, 64), (64,)]),
    "matrices are gathered": (
        lambda x, k: x.transpose(0, 2, 1)[fnp.clip(k, 0, 3)],
        [(4, 64, 64), (3,)],
    ),
    "sums lie across": (lambda x: x.transpose(1, 0, 2).sum(2), [(40, 36, 3)]),
    "some elements are not there": (
        lambda x: lax.pad(x.T, np.float32(0), [(1, 1, 0), (0, 0, 0)]),
        [(64, 96)],
    ),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_there_are_no_tiles_where(name):
    f, shapes = OTHERWISE[name]
    args = [numbered(*s, dtype="i8" if len(s) == 1 else "f4") for s in shapes]
    assert TILE not in {layout.team for layout in layouts(f, plans.H200, *args)}


def test_what_does_not_fit_lies_across_as_before(host_device, monkeypatch):
    monkeypatch.setattr(host_device, "shared", 5000)  # one tile of 4 KiB
    f, args = example("both of two")
    assert len(check(f, host_device, *args).tiles) == 1
    monkeypatch.setattr(host_device, "shared", 4000)
    assert check(f, host_device, *args).team == THREAD


def test_what_is_read_at_two_places_or_written_before_is_no_tile():
    """y[i, j] = x[j, i] + x[j, 0] and z[j, i] = y[i, j], of which y gets another half."""
    k = Nest("across")
    x = k.buffer("x", "f4", ["any", "one"])
    y, z = (k.buffer(name, "f4", ["any", "one"], "out") for name in "yz")
    m, n = k.scalar(), k.scalar()
    with k.loop(m) as i, k.loop(n) as j:
        sums = k.let("add", k.load(x, j.axis, i.axis), k.load(x, j.axis, Lit(0, "i8")))
        k.store(y, [i.axis, j.axis], sums)
        k.store(z, [j.axis, i.axis], sums)
        k.store(y, [i.axis, j.axis], k.let("add", k.load(z, j.axis, i.axis), sums))
    arrays = {"x": numbered(70, 99), "y": np.zeros((99, 70), "f4"), "z": np.zeros((70, 99), "f4")}
    sample = Sample(k.kernel(), arrays, [99, 70])
    expected = arrays["x"] + arrays["x"][:, :1]
    for back in (False, True):
        operands = sample.operands()
        found, _ = run_sample(sample, operands, back=back)
        results = sample.results(operands)
        np.testing.assert_array_equal(results["z"], expected)
        np.testing.assert_array_equal(results["y"], 2 * expected.T)
        assert found.layout.team == THREAD


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_both_sides_of_a_tile_are_vectors_where_rows_are_whole_ones(dtype):
    """Rows of the operand and of the result: those of either may be none."""
    for shape, vectors in (((100, 140), 2), ((98, 140), 2 if dtype == "f8" else 1)):
        types = [plans.array(*shape, dtype=np.dtype(dtype))]
        (kernel,) = plans.kernels(plans.planned(lambda x: x.T + x.T, *types))
        assert len(kernel.layout.vectors) == vectors
        text = emit(kernel.kernel, kernel.layout, "k")
        assert text.count("*(const Pack<") == 1  # of the operand, at once


def test_every_tile_has_a_block():
    types = [plans.array(8, 128, 128)]
    (kernel,) = plans.kernels(plans.planned(lambda x: x.transpose(0, 2, 1), *types))
    assert (kernel.layout.side, kernel.stages[0].grid) == (32, (4, 32, 1))


# --- how memory is met

WIDTHS = [(z, w) for z in (1, 2, 4, 8) for w in (1, 2, 4, 8, 16) if z * w <= 16]


def places(side: int, width: int, size: int) -> np.ndarray:
    """The place of each element of a tile, by row and column."""
    place = f"tile_place<{side}, {width}, {size}>(k / {side}, k % {side})"
    loop = f"for (unsigned k = 0; k < {side**2}; ++k) ((unsigned*)a.w[0])[k] = {place};"
    text = source_of(f'extern "C" __global__ void places(const Words<1> a) {{ {loop} }}\n')
    found = np.zeros((side, side), "u4")
    function = host().load(text, ["places"])["places"]
    words = (ctypes.c_longlong * 1)(found.ctypes.data)
    host().launch(function, (ctypes.c_uint * 6)(1, 1, 1, 1, 1, 1), 0, words, driver.Order())
    return found


def waves(addresses: np.ndarray, size: int) -> int:
    """How often shared memory answers a warp that asks for elements at some byte addresses."""
    groups = addresses.reshape(2, 16) if size == 8 else addresses.reshape(1, 32)
    unit = max(size, 4)
    banks = [Counter(int(a) // unit % (128 // unit) for a in set(g // unit * unit)) for g in groups]
    return max(max(b.values()) for b in banks)


@pytest.mark.parametrize(("size", "width"), WIDTHS)
def test_a_warp_meets_every_bank_once_along_rows_and_columns(size, width):
    side = tiling.side(size)
    at = places(side, width, size)
    assert sorted(at.reshape(-1)) == list(range(side * side))
    across = tiling.ROW_BYTES // (width * size)
    lanes = np.arange(256)
    x, y = lanes % across, lanes // across
    for e in range(width):
        for warp in range(0, 256, 32):
            some = slice(warp, warp + 32)
            along, down = x[some] * width + e, y[some]
            assert waves(at[down, along] * size, size) == 1, "written"
            assert waves(at[along, down] * size, size) == 1, "read"
            for narrow in [n for n in (1, 2, 4) if n < size]:  # beside larger ones
                assert waves(at[down, along] * narrow, narrow) <= 2
                assert waves(at[along, down] * narrow, narrow) <= 2

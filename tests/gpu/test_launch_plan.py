"""How kernels are launched: limits of grids, widths of indices, ends of vectors, nothing to do.

Sizes are those of the largest GPUs: kernels are planned and mapped, and nothing is allocated.
"""

import math
import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftrace import jit
from ftrace.gpu.grid.layout import BLOCK, COLUMN, LARGE, SIGNED, SMALL, THREAD, TILE, WARP
from ftrace.gpu.runtime.kernels import Planned, functions
from ftrace.lowering.kernel.ir import Lit, loops_of
from tests.gpu import plans
from tests.gpu.emulation.device import HostDevice, selected
from tests.gpu.plans import Chip, array, planned

MOST_X, MOST_YZ = 2**31 - 1, 65535


def kernel(f, *args, device: Chip = plans.H200) -> Planned:
    """The one kernel of a function."""
    (found,) = plans.kernels(planned(f, *args), device)
    return found


def twice(x):
    return x * 2


def affine(x, row, column):
    return x * row + column


def may_run(k: Planned, device: Chip = plans.H200) -> bool:
    """Whether a device takes the launches of a kernel."""
    bounds = map(int, re.findall(r"__launch_bounds__\((\d+)\)", k.text))
    return all(
        stage.grid is None
        or (
            0 < stage.grid[0] <= MOST_X
            and all(0 < n <= MOST_YZ for n in stage.grid[1:])
            and 0 < math.prod(stage.block) <= bound <= 1024
            and stage.block[2] <= 64
            and stage.shared <= device.shared
        )
        for stage, bound in zip(k.stages, bounds, strict=True)
    )


# --- limits


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (twice, [array(1 << 36, dtype="i1")]),
        (affine, [array(1 << 24, 40), array(40), array(1 << 24, 1)]),
        (affine, [array(40, 1 << 24), array(1 << 24), array(40, 1)]),
        (lambda x: x.transpose(1, 0, 2) * 2, [array(1 << 20, 70, 5)]),
        (lambda x: x.sum(1), [array(1 << 24, 40)]),
        (lambda x: x.sum(1), [array(1 << 20, 3, 64)]),
        (lambda x: x.sum(1), [array(66_000, 40, 2)]),
        (lambda x: x.sum(0), [array(1 << 20, 300)]),
        (lambda x: x.sum(0), [array(40, 1 << 24)]),
        (lambda x: x.sum(1), [array(3, 1 << 30)]),
        (lambda x: x.sum(), [array(1 << 34)]),
        (lambda x: x.argmax(1), [array(1 << 17, 1 << 12)]),
    ],
)
@pytest.mark.parametrize("processors", [1, 132, 5000])
def test_grids_stay_below_the_limits_of_the_device(f, args, processors):
    device = Chip(processors=processors)
    assert may_run(kernel(f, *args, device=device), device)


def first_extent(k: Planned) -> int:
    """The iterations of the loop that is spread over threads along x, which has no other loop."""
    (loop,) = [s for s in loops_of(k.kernel.body) if s.axis.id == k.layout.owners[0]]
    if isinstance(loop.extent, Lit):
        return int(loop.extent.value)
    return k.numbers[len(k.numbers) - len(k.kernel.scalars) + k.kernel.scalars.index(loop.extent)]


SHAPES = st.lists(st.sampled_from([1, 2, 3, 5, 31, 32, 33, 100, 1023, 1 << 14]), min_size=1)
FUNCTIONS = {
    "elements": lambda x: x * 2 + 1,
    "sums of the last axis": lambda x: x.sum(-1),
    "sums of the first axis": lambda x: x.sum(0),
    "a sum": lambda x: x.sum(),
    "backwards": lambda x: x[::-1] * 2,
    "transposed": lambda x: x.T * 2 + 1,
    "softmax": lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x).sum(-1, keepdims=True),
}


@settings(max_examples=30)
@given(st.sampled_from(sorted(FUNCTIONS)), SHAPES.map(lambda s: tuple(s[:3])))
def test_every_element_has_a_thread(name, shape):
    """Threads that take some elements of a grid without a loop must reach all of them."""
    for k in plans.kernels(planned(FUNCTIONS[name], array(*shape))):
        assert may_run(k)
        if k.layout.team != THREAD or not k.layout.owners:
            continue
        (x, _, _), (across, _, _) = k.stages[0].grid, k.stages[0].block
        extent = first_extent(k)
        assert extent <= x * across * k.layout.width < extent + across * k.layout.width


# --- indices


@pytest.mark.parametrize(
    ("f", "size", "index"),
    [
        (twice, 2**31 - 2**26 - 4, SMALL),
        (twice, 2**31 - 4, LARGE),
        (twice, 2**31, LARGE),
        (twice, 2**33 + 1, LARGE),
        (lambda x: x[::-1] * 2, 2**30 - 4, SIGNED),
        (lambda x: x[::-1] * 2, 2**30 + 4, LARGE),
        (lambda x: x.sum(), 2**31 - 2**26 - 4, SMALL),
        (lambda x: x.sum(), 2**31, LARGE),
        (lambda x: x[2**32 :] * 2, 2**32 + 1000, SMALL),  # the window starts where its pointer is
        (lambda x: x[:: 2**20] * 2, 2**31, LARGE),
        (lambda x: x[::2] * 2, 2**31 - 2**26, SMALL),  # the last one read is two before
    ],
)
def test_indices_are_as_wide_as_offsets(f, size, index):
    found = kernel(f, array(size))
    assert found.layout.index == index
    assert f"const {index} " in found.text


def test_wide_matrices_have_wide_indices_though_each_side_is_short():
    assert kernel(affine, *[array(1 << 16, 1 << 15)] * 3).layout.index == LARGE
    assert kernel(affine, *[array(1 << 15, 1 << 15)] * 3).layout.index == SMALL
    rows, columns = array(1 << 16, 1), array(1 << 16)
    assert kernel(lambda r, c: r + c, rows, columns).layout.index == LARGE  # the result


def test_the_loop_over_blocks_cannot_overflow_its_index():
    """The last step of a loop goes beyond the last element, by up to the threads of the grid."""
    k = kernel(twice, array(2**31 - 2**26 - 4))
    (x, _, _), (across, _, _) = k.stages[0].grid, k.stages[0].block
    assert x * across * k.layout.width < 2**32
    for f in (lambda x: x.sum(), lambda x: x.sum(0)):
        k = kernel(f, array(2**25, 61))
        step = math.prod(k.stages[0].grid) * math.prod(k.stages[0].block) * k.layout.width
        assert k.layout.index == SMALL
        assert 2**25 * 61 + step < 2**32


# --- who does what


@pytest.mark.parametrize(
    ("f", "shape", "team"),
    [
        (twice, (1 << 20,), THREAD),
        (lambda x: x.sum(1), (1 << 20, 4), THREAD),
        (lambda x: x.sum(1), (4096, 512), WARP),
        (lambda x: x.sum(1), (4096, 5000), BLOCK),
        (lambda x: x.sum(1), (4, 1 << 20), BLOCK),
        (lambda x: x.sum(), (1 << 20,), BLOCK),
        (lambda x: x.sum(0), (4096, 512), COLUMN),
        (lambda x: x.sum(0), (100, 132 << 10), THREAD),  # half as many as an H200 has
        (lambda x: x.sum(0), (100, (132 << 10) - 1), COLUMN),
        (lambda x: x.T * 2, (64, 64), TILE),
    ],
)
def test_teams_by_shape(f, shape, team):
    assert kernel(f, array(*shape)).layout.team == team


def test_few_long_folds_are_shared_by_blocks():
    for f, shape in ((lambda x: x.sum(), (1 << 26,)), (lambda x: x.sum(0), (1 << 20, 64))):
        k = kernel(f, array(*shape))
        assert len(k.stages) == 2
        assert math.prod(k.stages[0].grid) >= 132
        assert 0 < k.scratch <= 1 << 20
    assert len(kernel(lambda x: x.sum(1), array(1 << 16, 512)).stages) == 1


# --- vectors and their ends


@pytest.mark.parametrize(
    ("f", "shape", "width", "ragged"),
    [
        (twice, (1 << 16,), 4, False),
        (twice, ((1 << 16) + 1,), 4, True),
        (twice, ((1 << 16) + 3,), 4, True),
        (twice, (1,), 1, False),
        (lambda x: x[4:] * 2, (1 << 16,), 4, False),
    ],
)
def test_elements_per_thread(f, shape, width, ragged):
    layout = kernel(f, array(*shape)).layout
    assert (layout.width, layout.ragged) == (width, ragged)


@pytest.mark.parametrize(
    ("f", "shape", "vectors"),
    [
        (lambda x: x[1:] * 2, (65,), 1),  # the result alone
        (lambda x: x[::-1] * 2, (64,), 1),
        (lambda x: x[::2] * 2, (128,), 1),
        (lambda x: x[:, 1:65] * 2, (64, 128), 1),
        (lambda x: x[:, 4:68] * 2, (64, 128), 2),
        (lambda x: x[:, :64] * 2, (64, 127), 1),  # rows do not start on a boundary
        (twice, (64, 64), 2),
    ],
)
def test_only_what_lies_on_boundaries_is_read_in_vectors(f, shape, vectors):
    layout = kernel(f, array(*shape)).layout
    assert len(layout.vectors) == vectors or (layout.width == 1 and vectors == 1)


@pytest.mark.parametrize(
    ("dtype", "width"), [("f8", 2), ("f4", 4), ("f2", 8), ("i1", 16), ("c8", 1), ("i8", 2)]
)
def test_vectors_have_up_to_sixteen_bytes(dtype, width):
    assert kernel(twice, array(1 << 16, dtype=dtype)).layout.width == width


# --- nothing to do


@pytest.mark.parametrize(
    ("f", "shape", "launched"),
    [
        (twice, (0,), False),
        (twice, (5, 0), False),
        (lambda x: x.sum(1), (0, 5), False),
        (lambda x: x.sum(0), (0, 5), True),  # zeros
        (lambda x: x.sum(), (0, 5), True),
        (lambda x: x[3:3] * 2, (5,), False),
    ],
)
def test_without_elements_there_is_no_launch_and_nothing_is_compiled(f, shape, launched):
    class Compiler(Chip):
        asked: tuple[str, ...] = ()

        def compile(self, source, entries):
            Compiler.asked += entries
            return dict.fromkeys(entries)

    found = plans.kernels(planned(f, array(*shape)))
    assert any(s.grid is not None for k in found for s in k.stages) is launched
    made = functions(found, Compiler())
    assert bool(Compiler.asked) is launched
    assert [len(fs) for fs in made] == [sum(s.grid is not None for s in k.stages) for k in found]


# --- one text for all sizes


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (twice, [(1 << 12,), (1 << 20,), (1 << 30,)]),
        (lambda x: x.sum(1), [(5000, 512), (7000, 640), (9000, 256)]),
        (lambda x: x.sum(0), [(400, 512), (500, 640)]),
        (lambda x: x.T * 2, [(64, 64), (640, 320)]),
    ],
)
def test_sizes_share_their_code(f, shapes):
    assert len({kernel(f, array(*shape)).symbol for shape in shapes}) == 1


# --- run on small sizes, against guard pages


def windows(x):
    return x[1:, 3:] * 2 + x[:-1, :-3]


RUN = {
    "linear": lambda x: x * 2 + 1,
    "windows": windows,
    "backwards": lambda x: x[::-1, ::-1] * 2,
    "strided": lambda x: x[::2, 1::3] * 2,
    "transposed": lambda x: x.T * 2,
    "sums of rows": lambda x: x.sum(1),
    "sums of columns": lambda x: x.sum(0),
    "sum of a window": lambda x: x[:, 1:].sum(),
    "sums of outer and inner axes": lambda x: x[:, None, 1:].sum((0, 2)),
}


@pytest.fixture(params=["start", "vector_end"])
def guarded(request, emulation) -> Iterator[HostDevice]:
    """A device whose arrays begin, or end, at a page that may not be touched."""
    with selected(HostDevice(place=request.param)) as device:
        yield device


@pytest.mark.parametrize("name", RUN)
def test_ends_are_kept_compiled(name, guarded):
    """Ragged, misaligned, backwards: nothing beside an array is read or written."""
    f = jit(RUN[name])
    for shape in ((7, 37), (4, 64), (3, 129)):
        for dtype in ("f4", "i1"):
            x = (np.arange(math.prod(shape)).reshape(shape) % 13).astype(dtype)
            found, expected = guarded.to_host(f(guarded.from_host(x))), f(x)
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype

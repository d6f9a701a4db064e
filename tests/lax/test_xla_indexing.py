"""`lax.gather` and the scatters with XLA's dimension numbers, against the definition in loops."""

from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import errors, lax

GatherNumbers, ScatterNumbers = lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers
V, M = np.arange(1.0, 7.0), np.arange(1.0, 13.0).reshape(3, 4)
C = np.arange(24.0).reshape(2, 3, 4)
GATHERS: dict[str, tuple[Any, Any, Any, tuple[int, ...]]] = {
    "windows": (V, np.array([[0], [3], [5], [-1]]), GatherNumbers((1,), (), (0,)), (2,)),
    "elements": (V, np.array([[4], [0]]), GatherNumbers((), (0,), (0,)), (1,)),
    "rows": (M, np.array([[2], [0]]), GatherNumbers((1,), (0,), (0,)), (1, 4)),
    "columns first": (M, np.array([[2], [1]]), GatherNumbers((0,), (1,), (1,)), (3, 1)),
    "blocks": (M, np.array([[0, 1], [1, 2], [2, 0]]), GatherNumbers((1, 2), (), (0, 1)), (2, 2)),
    "swapped starts": (M, np.array([[1, 0]]), GatherNumbers((1, 2), (), (1, 0)), (2, 2)),
    "no batch": (M, np.array([1]), GatherNumbers((0,), (0,), (0,)), (1, 3)),
    "batches": (C, np.array([[[1], [2]], [[0], [3]]]), GatherNumbers((2,), (2,), (2,), (0,), (0,)),
                (1, 3, 1)),
}  # fmt: skip


def by_loops(x: Any, starts: Any, numbers: Any, sizes: Any, mode: str) -> tuple[Any, Any]:
    """What a gather reads, and where each element comes from (-1: nowhere)."""
    batch = starts.shape[:-1]
    kept = [
        a
        for a in range(x.ndim)
        if a not in numbers.collapsed_slice_dims + numbers.operand_batching_dims
    ]
    rank = len(batch) + len(kept)
    others = [a for a in range(rank) if a not in numbers.offset_dims]
    shape = [0] * rank
    for a, n in zip(others, batch, strict=True):
        shape[a] = n
    for a, d in zip(numbers.offset_dims, kept, strict=True):
        shape[a] = sizes[d]
    places = np.full(shape, -1)
    flat = np.arange(x.size).reshape(x.shape)
    for place in np.ndindex(*shape):
        at = tuple(place[a] for a in others)
        start = np.zeros(x.ndim, int)
        for i, d in enumerate(numbers.start_index_map):
            start[d] = starts[at][i]
        if mode == "clip":
            start = np.clip(start, 0, np.array(x.shape) - sizes)
        inside = np.all(start >= 0) and np.all(start + sizes <= x.shape)
        for d, a in zip(
            numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
        ):
            start[d] = at[a]
        for a, d in zip(numbers.offset_dims, kept, strict=True):
            start[d] += place[a]
        if inside:
            places[place] = flat[tuple(start)]
    return np.where(places < 0, np.nan, x.ravel()[places]), places


@pytest.mark.parametrize("mode", ["fill", "clip"])
@pytest.mark.parametrize("name", GATHERS)
def test_a_gather_reads_what_its_numbers_say(name: str, mode: str) -> None:
    x, starts, numbers, sizes = GATHERS[name]
    wanted, places = by_loops(x, starts, numbers, sizes, mode)

    def f(x: Any, i: Any) -> Any:
        return lax.gather(x, i, numbers, sizes, mode=mode)

    np.testing.assert_array_equal(f(x, starts), wanted)
    np.testing.assert_array_equal(ftrace.jit(f)(x, starts), wanted)
    both = ftrace.vmap(f, (0, None))(np.stack([x, x + 1.0]), starts)
    np.testing.assert_array_equal(both[1], wanted + 1.0)
    weights = np.cos(np.arange(wanted.size)).reshape(wanted.shape)
    slope = ftrace.grad(lambda x: np.sum(np.where(places < 0, 0.0, f(x, starts)) * weights))(x)
    counted = np.zeros(x.size)
    np.add.at(counted, places[places >= 0], weights[places >= 0])
    np.testing.assert_allclose(slope.ravel(), counted)


@pytest.mark.parametrize("name", GATHERS)
def test_a_scatter_writes_where_the_gather_reads(name: str) -> None:
    x, starts, numbers, sizes = GATHERS[name]
    shape = by_loops(x, starts, numbers, sizes, "fill")[1].shape
    updates = np.sin(np.arange(float(np.prod(shape)))).reshape(shape) + 2.0
    back = ScatterNumbers(*numbers)
    for row, ufunc in (
        (lax.scatter_add, np.add),
        (lax.scatter_sub, np.subtract),
        (lax.scatter_mul, np.multiply),
        (lax.scatter_max, np.maximum),
        (lax.scatter_min, np.minimum),
    ):
        for mode in ("clip", None):
            places = by_loops(x, starts, numbers, sizes, mode or "fill")[1]
            wanted = x.ravel().copy()
            ufunc.at(wanted, places[places >= 0], updates[places >= 0])
            found = row(x, starts, updates, back, mode=mode)
            np.testing.assert_allclose(found.ravel(), wanted)
    places = by_loops(x, starts, numbers, sizes, "fill")[1]
    wanted = x.ravel().copy()
    wanted[places[places >= 0]] = updates[places >= 0]
    found = ftrace.jit(lambda x, i, v: lax.scatter(x, i, v, back))(x, starts, updates)
    np.testing.assert_array_equal(found.ravel(), wanted)


def test_names_of_modes_and_sizes_are_checked() -> None:
    numbers = GatherNumbers((1,), (), (0,))
    with pytest.raises(errors.ShapeError, match="slice_sizes"):
        lax.gather(V, np.array([[0]]), numbers, (9,))
    with pytest.raises(errors.DtypeError, match="no mode 'near'"):
        lax.gather(V, np.array([[0]]), numbers, (1,), mode="near")
    with pytest.raises(TypeError, match="unexpected keyword argument 'fast'"):
        lax.gather(V, np.array([[0]]), numbers, (1,), fast=True)
    assert lax.gather(V, np.array([[9]]), numbers, (1,), fill_value=7.0)[0, 0] == 7.0
    assert lax.GatherScatterMode.from_any("clip") is lax.GatherScatterMode.CLIP

"""Kernels that read along one axis and write along another: by tiles in shared memory.

`HostDevice` runs every launch in two orders and compares all memory.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import numpy as fnp
from ftrace.gpu.grid import mapping
from ftrace.gpu.grid.layout import LARGE, SIGNED, TILE
from ftrace.gpu.runtime.copying import contiguous
from tests.gpu import plans
from tests.gpu.emulation.device import HostDevice
from tests.gpu.hosted import here, there
from tests.gpu.plans import array

DTYPES = ("?", "i1", "u2", "f2", "f4", "i8", "f8", "c8", "c16")
ORDERS = [
    ((40, 70), (1, 0)),
    ((64, 64), (1, 0)),
    ((130, 17), (1, 0)),
    ((3, 33, 40), (2, 0, 1)),
    ((3, 33, 40), (0, 2, 1)),
    ((17, 3, 40), (2, 1, 0)),
    ((2, 3, 20, 30), (3, 0, 2, 1)),
    ((2, 65, 3, 35), (2, 3, 0, 1)),
]


def sample(shape: Any, dtype: str) -> Any:
    x = np.random.default_rng(len(shape)).normal(size=shape) * 50
    return (x + 1j * x[::-1]).astype(dtype) if dtype[0] == "c" else x.astype(dtype)


def teams(f: Callable[..., Any], *args: Any) -> list[str]:
    """The kinds of teams of a program's kernels, on a large GPU."""
    return [k.layout.team for k in plans.kernels(plans.planned(f, *args))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "order"), ORDERS)
def test_axes_in_another_order(shape: Any, order: Any, dtype: str, host_device: HostDevice) -> None:
    x = sample(shape, dtype)
    one = x.dtype.type(1)
    f = ftrace.jit(lambda x: fnp.transpose(x, order) * one)
    np.testing.assert_array_equal(here(f(there(x))), np.transpose(x, order) * one)
    copied = contiguous(there(x).transpose(order), host_device)
    np.testing.assert_array_equal(here(copied), np.transpose(x, order))
    if dtype == "f4" or (dtype == "c16" and len(shape) == 2):
        assert teams(lambda x: fnp.transpose(x, order) * one, array(*shape, dtype=dtype)) == [TILE]


@pytest.mark.parametrize("n", [32, 45])
def test_several_operands_lie_each_in_its_own_way(n: int, host_device: HostDevice) -> None:
    x, y, v = sample((n, n), "f4"), sample((n, n), "f4")[::-1].copy(), sample((n, 1), "f4")

    def f(x: Any, y: Any, v: Any) -> Any:
        return x + y.T * x.T - v + v.T, x * y

    for found, right in zip(
        map(here, ftrace.jit(f)(there(x), there(y), there(v))), f(x, y, v), strict=True
    ):
        np.testing.assert_array_equal(found, right)
    assert teams(f, array(n, n), array(n, n), array(n, 1)) == [TILE]


def test_reversed_and_strided_operands(host_device: HostDevice) -> None:
    x, y = sample((90, 80), "f4"), sample((40, 45), "f4")

    def f(x: Any, y: Any) -> Any:
        return x[::-2, ::-1][:, ::2].T * 2.0 + y

    np.testing.assert_array_equal(here(ftrace.jit(f)(there(x), there(y))), f(x, y))
    (kernel,) = plans.kernels(plans.planned(f, array(90, 80), array(40, 45)))
    assert (kernel.layout.team, kernel.layout.index) == (TILE, SIGNED)


def test_what_is_read_below_a_condition_is_read_there(host_device: HostDevice) -> None:
    x, y = sample((40, 50), "f4"), sample((50, 40), "f4")

    def f(x: Any, y: Any) -> Any:
        return fnp.where(y > 0, fnp.exp(x.T / 50), y)

    found = here(ftrace.jit(f)(there(x), there(y)))
    np.testing.assert_allclose(found, np.where(y > 0, np.exp(x.T / 50), y), rtol=1e-6)


def test_sides_and_shared_memory() -> None:
    """A tile has 32 elements a side, 64 of one or two bytes; columns lie in all banks."""
    for dtype, side, cells in (
        ("f4", 32, "float s0[32][33]"),
        ("f8", 32, "double s0[32][33]"),
        ("f2", 64, "unsigned short s0[64][66]"),
        ("i1", 64, "signed char s0[64][68]"),
    ):
        program = plans.planned(lambda x: x.T * x.dtype.type(2), array(4096, 4096, dtype=dtype))
        if dtype == "f2":
            program = plans.planned(lambda x: abs(x.T), array(4096, 4096, dtype=dtype))
        (kernel,) = plans.kernels(program)
        assert kernel.layout.across == side
        assert f"__shared__ {cells};" in kernel.text
        assert kernel.stages[0].grid == (4096 // side, 4096 // side, 1)


def test_what_is_near_needs_no_tile() -> None:
    for f, *shapes in (
        (lambda x: x * 2.0, (1000, 1000)),
        (lambda x: x.T * 2.0, (1000, 8)),  # a thread's neighbours read what lies between
        (lambda x: x.T * 2.0, (8, 1000)),
        (lambda x, y: x + y, (1000, 1000), (1000, 1)),
        (lambda x: x.transpose(1, 0, 2) * 2.0, (30, 40, 50)),
        (lambda x, y: x.sum(0) + y, (50, 40), (40,)),
    ):
        assert TILE not in teams(f, *(array(*s) for s in shapes)), shapes


def test_kernels_whose_tiles_do_not_fit_go_without() -> None:
    def many(*xs: Any) -> Any:
        return sum(x.T for x in xs[1:]) + xs[0]

    assert teams(many, *[array(100, 100)] * 12) == [TILE]
    assert TILE not in teams(many, *[array(100, 100)] * 13)


def test_offsets_past_2_to_31() -> None:
    (kernel,) = plans.kernels(plans.planned(lambda x: x.T * 2.0, array(1 << 17, 1 << 17)))
    assert (kernel.layout.team, kernel.layout.index) == (TILE, LARGE)
    assert kernel.stages[0].grid == (4096, 4096, 1)


def test_a_block_takes_one_tile_after_the_other(
    host_device: HostDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are more than a grid has blocks: nobody overwrites what others still read."""
    monkeypatch.setattr(mapping, "GRID", 2)
    x = sample((3, 200, 70), "f4")
    found = contiguous(there(x).transpose(0, 2, 1), host_device)
    np.testing.assert_array_equal(here(found), x.transpose(0, 2, 1))

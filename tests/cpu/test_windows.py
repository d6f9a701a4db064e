"""Products of windows: loops of machine code for convolutions of many channels."""

import ctypes
from math import prod
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.cpu.llvm.machine_code import LEVELS, compile_module, host
from ftrace.cpu.threads import thread_pool
from ftrace.cpu.window_text import DEPTH, windows_text
from ftrace.primitives.conv import conv

rng = np.random.default_rng(3)
SHAPES = (  # batch, channels, across; out channels, windows; strides, dilation
    ((2, 3), (9, 8), 5, (3, 2), (1, 1), (1, 1)),
    ((1, 2), (30, 70), 9, (2, 3), (1, 1), (1, 1)),
    ((3, 1), (20, 20), 17, (18, 17), (1, 1), (1, 1)),  # longer inside than a panel is deep
    ((5, 4), (7, 9), 3, (2, 2), (2, 3), (3, 2)),
    ((2, DEPTH + 1), (6,), 7, (1,), (1,), (1,)),
    ((70, DEPTH), (), 8, (), (), ()),
    ((2, 2), (4, 5, 6), 2, (2, 3, 2), (1, 2, 1), (2, 1, 1)),
)


def integers(shape: tuple[int, ...], dtype: str) -> Any:
    """Whole numbers whose products and sums are exact."""
    return rng.integers(0 if dtype[0] == "u" else -4, 5, shape).astype(dtype)


def operands(case: Any, dtype: str, groups: int = 2) -> tuple[Any, Any, dict[str, Any]]:
    first, across, outs, windows, strides, dilation = case
    x = integers((groups, *first, *across), dtype)
    w = integers((groups, outs, first[1], *windows), dtype)
    return x, w, {"strides": strides, "dilation": dilation}


@pytest.mark.sampled(2, each="dtype")
@pytest.mark.parametrize("level", ["native", *LEVELS])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u2", "i4", "u8"])
def test_each_vector_and_dtype_by_itself(level: str, dtype: str) -> None:
    made_for = host(level)
    missing = set(made_for.features.split(",")) - set(host("native").features.split(","))
    if missing:
        pytest.skip(f"this processor has no {', '.join(missing)}")
    pool = thread_pool.symbols()
    for case in SHAPES[:4]:
        x, w, params = operands(case, dtype)
        text = windows_text(case[4], case[5], dtype, made_for, shared=bool(pool))
        module = compile_module(text, pool, made_for)
        want = conv.impl(x, w, **params)
        out = np.full_like(want, 77)
        sizes = (*x.shape, *w.shape[1:2], *w.shape[3:], *want.shape[3:])
        dims = np.array(sizes, np.int64)
        args = np.array([a.ctypes.data for a in (x, w, out)], np.uintp)
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(module.address("loop"))
        run(args.ctypes.data, dims.ctypes.data, None, None)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("case", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1", "f2", "c8", "c16"])
def test_programs_call_no_python(case: Any, dtype: str) -> None:
    x, w, params = operands(case, dtype)
    if dtype[0] == "c":
        x, w = x + 1j * integers(x.shape, dtype), w - 1j * integers(w.shape, dtype)
    f = ftrace.jit(lambda x, w: conv(x, w, **params))
    assert f.lower(x, w).cost().callbacks == 0
    found, want = f(x, w), conv.impl(x, w, **params)
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 3])
def test_threads_and_neighbours_change_no_bit(threads: int, groups: int) -> None:
    x, w = rng.normal(size=(groups, 4, 20, 17, 19)), rng.normal(size=(groups, 11, 20, 3, 3))
    params = {"strides": (1, 1), "dilation": (1, 1)}
    with ftrace.config.update(threads=1):
        each = [
            ftrace.jit(lambda x, w: conv(x, w, **params))(x[g : g + 1, b : b + 1], w[g : g + 1])
            for g in range(groups)
            for b in range(4)
        ]
    with ftrace.config.update(threads=threads):
        f = ftrace.jit(lambda x, w: conv(x, w, **params))
        assert (f.lower(x, w).program.sharing == []) == (threads == 1)
        found = f(x, w)
    np.testing.assert_allclose(found, conv.impl(x, w, **params), atol=1e-12)
    np.testing.assert_array_equal(found.reshape(-1, 11, 15, 17), np.concatenate(each)[:, 0])


def test_nothing_inside_is_a_sum_of_nothing() -> None:
    for shapes, out in (
        (((1, 2, 0, 5), (1, 3, 0, 2)), (1, 2, 3, 4)),
        (((1, 0, 2, 5), (1, 3, 2, 2)), (1, 0, 3, 4)),
        (((0, 2, 2, 5), (0, 3, 2, 2)), (0, 2, 3, 4)),
        (((1, 2, 2, 1), (1, 3, 2, 2)), (1, 2, 3, 0)),
    ):
        x, w = map(np.ones, shapes)
        found = ftrace.jit(lambda x, w: conv(x, w, strides=(1,), dilation=(1,)))(x, w)
        np.testing.assert_array_equal(found, np.zeros(out))


def test_what_is_not_finite_reaches_its_windows_only() -> None:
    x, w = rng.normal(size=(2, 3, 12, 31)), rng.normal(size=(5, 3, 3, 3))
    x[0, 1, 4, 7], x[1, 2, 11, 30] = np.nan, np.inf
    f = ftrace.jit(lambda x, w: lax.conv(x, w, (1, 1), "VALID"))
    want = lax.conv(x, w, (1, 1), "VALID")
    np.testing.assert_array_equal(np.isfinite(f(x, w)), np.isfinite(want))


@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_gradients_call_no_python(strides: tuple[int, int], dtype: str) -> None:
    x, w = (
        rng.normal(size=(3, 6, 14, 15)).astype(dtype),
        rng.normal(size=(7, 6, 3, 4)).astype(dtype),
    )
    like = lax.conv(x, w, strides, "SAME")
    c = rng.normal(size=like.shape)

    def f(x: Any, w: Any) -> Any:
        return fnp.real(lax.conv(x, w, strides, "SAME") * c).sum()

    g = ftrace.jit(ftrace.grad(f, (0, 1)))
    assert g.lower(x, w).cost().callbacks == 0
    for found, want in zip(g(x, w), ftrace.grad(f, (0, 1))(x, w), strict=True):
        np.testing.assert_allclose(found, want, atol=1e-12 * prod(w.shape))


@pytest.mark.by_size
def test_small_ones_are_not_shared() -> None:
    x, w = np.ones((1, 4, 8, 8)), np.ones((4, 4, 3, 3))
    with ftrace.config.update(threads=3):
        program = ftrace.jit(lambda x, w: lax.conv(x, w, (1, 1), "SAME")).lower(x, w).program
    assert program.loops
    assert not program.sharing

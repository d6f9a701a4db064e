"""NumPy's sorting functions, called by machine code."""

import ctypes

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.cpu.cpu_backend import cpu_backend
from ftrace.cpu.foreign import gufuncs, sort_loops
from ftrace.cpu.llvm.machine_code import compile_module, host
from ftrace.cpu.runtime.main import module_text
from ftrace.cpu.runtime.native_launch import NativeProgram
from ftrace.lowering.machine import InnerLoop

rng = np.random.default_rng(4)


def sample(char, shape):
    x = (rng.normal(size=shape) * 4).astype(char)
    if x.dtype.kind in "fc" and x.size > 3:
        x.reshape(-1)[::3] = np.nan
        x.reshape(-1)[1:3] = 0.0, -0.0
    return x


def same(got, expected):
    np.testing.assert_array_equal(got, expected, strict=True)


def compiled(f, *args):
    run = ftrace.jit(f)
    cost = run.lower(*args).cost()
    assert cost.loops
    assert not cost.callbacks
    return run(*args)


@pytest.mark.parametrize("char", "?bBhHiIlLefdFD")
def test_lines_of_every_dtype_are_sorted_as_by_numpy(char):
    x = sample(char, (3, 40, 2))

    def f(x):
        return [(np.sort(x, axis=i), np.argsort(x, axis=i)) for i in range(3)]

    for pair, (line, order) in zip(compiled(f, x), f(x), strict=True):
        same(pair[0], line)
        same(pair[1], order)  # of equal elements, too


@pytest.mark.parametrize(
    "options", [{"kind": "stable"}, {"kind": "Mergesort"}, {"kind": b"stable"}, {"stable": True}]
)
def test_equal_elements_keep_their_order_where_it_is_asked_for(options):
    x = rng.integers(0, 3, (200, 3))
    want = np.argsort(x, axis=0, stable=True)
    same(compiled(lambda x: fnp.argsort(x, axis=0, **options), x), want)
    same(fnp.argsort(x, axis=0, **options), want)
    order = np.argsort(-x[:, 0], stable=True)
    same(compiled(lambda x: x[fnp.argsort(-x[:, 0], **options)], x), x[order])


@pytest.mark.parametrize("options", [{}, {"kind": "quicksort"}, {"stable": False}])
def test_by_default_equal_elements_stand_as_numpy_puts_them(options):
    x = rng.integers(0, 3, 500)
    same(compiled(lambda x: fnp.argsort(x, **options), x), np.argsort(x))
    same(fnp.argsort(x, **options), np.argsort(x))
    zeros = np.where(rng.random(300) < 0.5, 0.0, -0.0)
    same(np.signbit(compiled(lambda x: fnp.sort(x, **options), zeros)), np.signbit(np.sort(zeros)))


def test_what_is_sorted_along_keeps_its_order_among_equals():
    keys, values, small = rng.integers(0, 3, (4, 9)), rng.normal(size=(4, 9)), sample("h", (4, 9))
    params = {"dimension": 1, "num_keys": 1}
    got = compiled(lambda *xs: lax.sort(xs, **params), keys, values, small)
    order = np.argsort(keys, axis=1, stable=True)
    for g, x in zip(got, (keys, values, small), strict=True):
        same(g, np.take_along_axis(x, order, axis=1))
    got = compiled(lambda x: lax.sort(x, is_stable=False), values)
    same(got, np.sort(values))


def test_of_no_and_of_one_element():
    for shape in ((0,), (0, 3), (3, 0), (1,), (3, 1)):
        same(compiled(np.sort, np.ones(shape)), np.ones(shape))
        same(compiled(np.argsort, np.ones(shape)), np.zeros(shape, int))


def test_derivatives_and_loops():
    x = rng.normal(size=(5, 7))
    slope = compiled(ftrace.grad(lambda x: np.sum(np.sort(x, axis=0) * np.arange(5.0)[:, None])), x)
    same(slope, np.argsort(np.argsort(x, axis=0), axis=0).astype(float))
    got = compiled(lambda x: lax.scan(lambda c, v: (np.sort(c + v), np.median(v)), x[0], x), x)
    carry = x[0]
    for v in x:
        carry = np.sort(carry + v)
    same(got[0], carry)
    same(got[1], np.median(x, axis=1))


def test_by_several_keys_python_sorts():
    a, b = rng.integers(0, 3, 9), rng.integers(0, 3, 9)
    run = ftrace.jit(lambda a, b: np.lexsort((b, a)))
    assert run.lower(a, b).cost().callbacks == 1
    same(run(a, b), np.lexsort((b, a)))


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
def fails(line, n, array):
    """As a function that gets no memory."""
    return -1


def test_a_function_without_memory_raises():
    x = np.ones(5)
    program = cpu_backend().plan(ftrace.make_jaxpr(np.sort)(x))
    (name,) = (gufuncs.symbol(s.loop) for s in program.loops)
    symbols = gufuncs.symbols(s.loop for s in program.loops)
    symbols[name + gufuncs.DATA] = ctypes.cast(fails, ctypes.c_void_p).value
    run = NativeProgram(program, compile_module(module_text(program, host()), symbols, host()))
    with pytest.raises(MemoryError):
        run([x])


def test_another_interface_is_left_alone(monkeypatch):
    stable = InnerLoop("numpy", "stable_sort", "(n)->(n)", "d->d")
    assert sort_loops.address(stable)
    assert not sort_loops.address(stable._replace(name="heapsort"))
    monkeypatch.setattr(sort_loops, "VERSION", 0x03000000)
    assert not sort_loops._works.__wrapped__()
    monkeypatch.setattr(sort_loops, "_works", lambda: False)
    assert not sort_loops.address(stable)

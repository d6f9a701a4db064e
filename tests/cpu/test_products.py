"""Matrix products that machine code has a library do."""

import ctypes
import threading

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.core.errors import BackendError
from ftrace.cpu.cpu_backend import cpu_backend
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.runtime import blas
from ftrace.cpu.runtime.blas_text import CBLAS, FORTRAN
from ftrace.cpu.runtime.main import module_text
from ftrace.cpu.runtime.native_launch import NativeProgram, compile_program
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan

LIBRARIES = {CBLAS: blas.of_numpy, FORTRAN: blas.of_scipy}


@pytest.fixture(params=LIBRARIES)
def each_library(request, monkeypatch):
    """Both interfaces, where this process has them."""
    found = next(filter(blas._works, LIBRARIES[request.param]()), None)
    if found is None:
        pytest.skip(f"no library with the interface {request.param}")
    monkeypatch.setattr(blas, "_library", lambda: found)
    return found


def values(shape, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def compiled(fn, *args):
    """A program without Python inside."""
    program = cpu_backend().plan(ftrace.make_jaxpr(fn)(*args))
    assert program.products
    assert not program.callbacks
    return compile_program(program)


# operands, contracted axes, batch axes
PRODUCTS = {
    "matrices": ((20, 30), (30, 40), ((1,), (0,)), ((), ())),
    "left transposed": ((30, 20), (30, 40), ((0,), (0,)), ((), ())),
    "right transposed": ((20, 30), (40, 30), ((1,), (1,)), ((), ())),
    "both transposed": ((30, 20), (40, 30), ((0,), (1,)), ((), ())),
    "matrix, column": ((70, 80), (70, 1), ((0,), (0,)), ((), ())),
    "vector, matrix": ((270,), (270, 280), ((0,), (0,)), ((), ())),
    "matrix, vector": ((270, 280), (270,), ((0,), (0,)), ((), ())),
    "two contracted axes": ((20, 5, 6), (5, 6, 9), ((1, 2), (0, 1)), ((), ())),
    "two free axes": ((4, 5, 30), (6, 7, 30), ((2,), (2,)), ((), ())),
    "batch": ((3, 20, 30), (3, 30, 9), ((2,), (1,)), ((0,), (0,))),
    "batch inside": ((20, 3, 30), (30, 3, 9), ((2,), (0,)), ((1,), (1,))),
    "attention": ((2, 19, 3, 8), (2, 17, 3, 8), ((3,), (3,)), ((0, 2), (0, 2))),
    "batch of vectors": ((3, 20, 40), (20, 3), ((1,), (0,)), ((0,), (1,))),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_numpy(name, dtype, each_library):
    left, right, *numbers = PRODUCTS[name]
    x, y = values(left, dtype), values(right, dtype, 1)

    def f(x, y):
        return lax.dot_general(x, y, tuple(numbers))

    got = compiled(f, x, y)([x, y])[0]
    exact = f(x.astype("f8"), y.astype("f8"))
    size = f(abs(x).astype("f8"), abs(y).astype("f8"))
    assert got.dtype == dtype
    assert got.shape == exact.shape
    assert (abs(got - exact) <= 4 * np.finfo(dtype).eps * size).all()


def test_numpy_and_compiled_code_use_one_library():
    if blas.library().interface != CBLAS:
        pytest.skip("the BLAS of NumPy is hidden")
    for dtype in ("f4", "f8"):
        x, y = values((65, 37), dtype), values((37, 51), dtype, 1)
        got = compiled(lambda x, y: (x @ y, x.T @ x[:, 0] + 0.0), x, y)([x, y])
        np.testing.assert_array_equal(got[0], x @ y)


def test_a_loop_over_matrix_products_needs_no_python(monkeypatch):
    calls = []
    monkeypatch.setattr(np, "matmul", lambda *_: calls.append(1))
    x = values((24, 24), "f8") / 24

    def f(x):
        return lax.while_loop(
            lambda c: c[0] < 50, lambda c: (c[0] + 1, np.tanh(c[1].T @ x) + x), (0, x)
        )[1]

    run = compiled(f, x)
    assert type(run) is NativeProgram
    got = run([x])[0]
    assert not calls
    monkeypatch.undo()
    expected = x
    for _ in range(50):
        expected = np.tanh(expected.T @ x) + x
    np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_code_is_shared_by_all_sizes():
    texts = []
    for m, k, n in ((20, 30, 40), (50, 60, 33)):
        program = plan(
            ftrace.make_jaxpr(lambda x, y: x @ y)(values((m, k), "f8"), values((k, n), "f8")),
            Machine(16),
        )
        texts.append(module_text(program, host()))
    assert texts[0] == texts[1]


def test_infinities_and_nans_come_through():
    x, y = values((20, 30), "f8"), values((30, 40), "f8", 1)
    x[3, 4], x[5, 6] = np.inf, np.nan
    got = compiled(lambda x, y: x @ y, x, y)([x, y])[0]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(x @ y))
        np.testing.assert_array_equal(np.isinf(got), np.isinf(x @ y))


def test_products_may_run_in_threads():
    x = values((64, 64), "f8") / 64
    run = compiled(lambda x: np.sin(x @ x) @ x, x)
    expected = run([x])[0]
    found = [None] * 4

    def work(i):
        for _ in range(5):
            found[i] = run([x])[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for got in found:
        np.testing.assert_array_equal(got, expected)


def test_without_a_library_numpy_computes_products(monkeypatch):
    monkeypatch.setattr(blas, "_library", lambda: None)
    x = values((20, 30), "f8")
    jaxpr = ftrace.make_jaxpr(lambda x: x @ x.T + 1.0)(x)
    program = cpu_backend().plan(jaxpr)
    assert (len(program.products), len(program.callbacks)) == (0, 1)
    np.testing.assert_allclose(compile_program(program)([x])[0], x @ x.T + 1.0, rtol=1e-12)
    with pytest.raises(BackendError, match="no BLAS that compiled code can call"):
        module_text(plan(jaxpr, Machine(16)), host())


@ctypes.CFUNCTYPE(None)
def nothing():
    """A function that leaves its result alone."""


def test_a_library_that_computes_something_else_is_not_used():
    address = ctypes.cast(nothing, ctypes.c_void_p).value
    found = next(blas.of_scipy())
    assert blas._works(found)
    assert not blas._works(found._replace(symbols=dict.fromkeys(found.symbols, address)))


def test_symbols_are_taken_only_if_all_are_there():
    functions = {"sgemm": 1, "dgemm": 2, "sgemv": 3}
    assert blas._addresses(lambda name: ctypes.c_void_p(functions[name])) == {}
    functions["dgemv"] = 4
    assert set(blas._addresses(lambda n: ctypes.c_void_p(functions[n])).values()) == {1, 2, 3, 4}

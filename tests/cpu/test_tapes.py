"""Tapes in native code: they grow, are used again, and tell when there is no memory."""

import ctypes
import gc
from collections import OrderedDict

import numpy as np
import pytest

import ftrace
from ftrace import grad, hessian, jit, lax, make_jaxpr, vjp
from ftrace.control.rows.jit import executable
from ftrace.control.rows.scan import scan_call
from ftrace.core.avals import aval, typeof
from ftrace.core.errors import JaxprError
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.scan_layout import ScanLoop
from ftrace.core.tapes import Ragged, levels, stack, tape
from ftrace.cpu.llvm.machine_code import compile_module, host
from ftrace.cpu.runtime import blocks, native_launch, native_tapes
from ftrace.cpu.runtime.native_tapes import DROP, EXHAUSTED, FIRST, symbols
from ftrace.cpu.runtime.python_rows import call_back
from ftrace.interpreters.staging import trace_closed
from ftrace.lowering.program.program import TAPE
from ftrace.primitives.linear import add
from tests.lowering.test_pieces import forward_half


def turning(n):
    """A loop of n turns that needs a vector and a number of each turn."""

    def f(x):
        body = lambda c: (c[0] + 1, np.sin(c[1]) * x + c[1] * 0.9, c[2] * np.cos(c[2]))  # noqa: E731
        _, y, z = lax.while_loop(lambda c: c[0] < n, body, (0, x, x[0]))
        return np.sum(y * np.array([1.0, -2.0, 0.5])) + z

    return f


X = np.array([0.3, 0.9, 1.4])


@pytest.mark.parametrize("n", [0, 1, FIRST - 1, FIRST, FIRST + 1, 3 * FIRST, 1000])
def test_a_tape_grows_as_far_as_the_loop_turns(n):
    f = turning(n)
    with ftrace.config.update(compile=False):
        expected = grad(f)(X)
    code = jit(grad(f))
    assert code.lower(X).cost().callbacks == 0
    assert any(s.place == TAPE for s in code.lower(X).program.slots)
    for _ in range(3):
        np.testing.assert_allclose(code(X), expected, rtol=1e-10, atol=1e-13)


def test_a_tape_is_used_again_when_its_loop_runs_again():
    def f(x):
        inner = lambda c, t: (grad(lambda y: turning(70)(y) * 0.01)(c) + t, None)  # noqa: E731
        return lax.scan(inner, x, np.linspace(0.1, 0.5, 5))[0]

    code = jit(f)
    assert code.lower(X).cost().callbacks == 0
    with ftrace.config.update(compile=False):
        expected = f(X)
    np.testing.assert_allclose(code(X), expected, rtol=1e-9)


def test_second_derivatives_write_tapes_while_they_read_others():
    f = turning(FIRST + 9)
    with ftrace.config.update(compile=False):
        expected = hessian(f)(X)
    np.testing.assert_allclose(jit(hessian(f))(X), expected, rtol=1e-8, atol=1e-10)


def test_programs_without_tapes_know_nothing_of_them():
    text = jit(lambda x: x * 2.0 + np.sin(x)).lower(X).llvm
    assert "realloc" not in text
    assert "exhausted" not in text
    text = jit(grad(turning(3))).lower(X).llvm
    assert text.count(f"call void @{DROP}(ptr %t") == 2 * len(
        [s for s in jit(grad(turning(3))).lower(X).program.slots if s.place == TAPE]
    )


def test_the_functions_of_the_c_library_have_addresses():
    assert all(address > 0 for address in symbols().values())


def test_no_memory_is_a_memory_error():
    with pytest.raises(MemoryError, match="records"):
        call_back(EXHAUSTED)


def test_an_exception_in_the_middle_frees_what_was_recorded():
    calls = []

    def fails(x):
        calls.append(1)
        if len(calls) > 3:
            raise ValueError("enough")
        return np.sin(x)

    def f(x):
        def body(c):
            return np.sin(c) * 1.4 + ftrace.pure_callback(fails, x, lax.stop_gradient(c))

        return np.sum(lax.while_loop(lambda c: np.sum(c) < 90.0, body, x))

    code = jit(grad(f))
    for _ in range(2):
        calls.clear()
        with pytest.raises(ValueError, match="enough"):
            code(X)


# --- tapes that leave their programs


COUNTING = """
@living = global i64 0

declare ptr @ftrace_realloc(ptr, i64)
declare void @ftrace_free(ptr)

define void @change(i64 %by) {
  %old = load i64, ptr @living
  %new = add i64 %old, %by
  store i64 %new, ptr @living
  ret void
}

define ptr @realloc(ptr %block, i64 %size) {
  %found = call ptr @ftrace_realloc(ptr %block, i64 %size)
  %first = icmp eq ptr %block, null
  %by = zext i1 %first to i64
  call void @change(i64 %by)
  ret ptr %found
}

define void @free(ptr %block) {
  call void @ftrace_free(ptr %block)
  call void @change(i64 -1)
  ret void
}

define i64 @count() {
  %found = load i64, ptr @living
  ret i64 %found
}
"""


class Living:
    """Counts the blocks of native code that are not freed, natively: exceptions are under way."""

    def __init__(self):
        self._module = compile_module(COUNTING, symbols(), host())
        self._count = ctypes.PYFUNCTYPE(ctypes.c_int64)(self._module.address("count"))
        names = ("realloc", "free")
        self.symbols = dict(zip(symbols(), map(self._module.address, names), strict=True))

    def __len__(self):
        gc.collect()
        return self._count()


@pytest.fixture
def living(monkeypatch):
    found = Living()
    monkeypatch.setattr(native_tapes, "symbols", lambda: found.symbols)
    monkeypatch.setattr(native_launch, "_modules", {})
    monkeypatch.setattr(native_launch, "_recent", OrderedDict())
    blocks._free.made.clear()
    yield found
    assert len(found) == 0
    blocks._free.made.clear()


def nested(x):
    """A loop in a scan in a loop: tapes of tapes of tapes, some of no elements."""

    def inner(c, t):
        y = lax.while_loop(lambda d: d[0] < t, lambda d: (d[0] + 1, np.sin(d[1]) * x), (0, c))[1]
        return y * 0.5 + x, np.sum(y)

    def body(e):
        y, ys = lax.scan(inner, e[1], np.array([0, 2, 1]))
        return e[0] + 1, y + np.sum(np.sin(ys)) * 0.1

    return np.sum(lax.while_loop(lambda e: e[0] < 20, body, (0, x))[1] * np.array([1.0, -2.0, 0.5]))


LOOPS = {
    "none": turning(0),
    "one": turning(1),
    "room": turning(FIRST),
    "more": turning(500),
    "nested": nested,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_blocks_live_as_long_as_the_tapes(name, living):
    f = LOOPS[name]
    with ftrace.config.update(compile=False):
        expected = grad(f)(X)
    y, pull = vjp(jit(lambda x: f(x)), X)
    assert (len(living) > 0) == (name != "none")
    for _ in range(2):
        np.testing.assert_allclose(pull(1.0)[0], expected, rtol=1e-10, atol=1e-13)
    del y, pull
    assert len(living) == 0
    np.testing.assert_allclose(jit(grad(lambda x: f(x)))(X), expected, rtol=1e-10, atol=1e-13)
    assert len(living) == 0


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True])
def test_an_exception_frees_tapes_that_would_have_left(inside, living):
    calls = []

    def fails(x):
        calls.append(1)
        if len(calls) > 7:
            raise ValueError("enough")
        return np.sin(x)

    def deeper(c, x):
        value = lambda y: np.sin(y) * x + ftrace.pure_callback(fails, x, lax.stop_gradient(y))  # noqa: E731
        return lax.while_loop(lambda d: d[0] < 3, lambda d: (d[0] + 1, value(d[1])), (0, c))[1]

    def f(x):
        if not inside:
            return np.sum(deeper(nested(x) * x, x))
        return np.sum(
            lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, deeper(c[1], x)), (0, x))[1]
        )

    for g in (grad(jit(f)), jit(grad(f))):
        calls.clear()
        if not inside:
            calls.extend([1] * 6)
        with pytest.raises(ValueError, match="enough"):
            g(X)
        assert len(living) == 0


def test_a_tape_outlives_the_program_that_left_it():
    """Its elements are looked up in native memory, from any level."""
    half = forward_half(nested, X)
    outs = executable(half, "cpu")([X])
    expected = eval_jaxpr(half, [X])
    stacks = 0
    for out, other in zip(outs, expected, strict=True):
        if isinstance(other, Ragged):
            stacks += 1
            assert isinstance(out.items, blocks.TapeBlock)
            assert typeof(out).shape[1:] == typeof(other).shape[1:]
            rows = [r for items in out for r in items] if levels(typeof(out)) > 2 else out
            others = [r for items in other for r in items] if levels(typeof(out)) > 2 else other
            for one, two in zip(rows, others, strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-12)
    assert stacks
    kept = next(o for o in outs if isinstance(o, Ragged))[1]
    kept = kept[1] if isinstance(kept, Ragged) else kept
    copy = np.array(kept)
    del outs, out, rows
    gc.collect()
    np.testing.assert_array_equal(kept, copy)


def test_tapes_made_by_python_are_given_as_blocks():
    element = tape(aval((3,), np.dtype(np.float64)))
    a, b = stack([np.ones((2, 3)), np.ones((0, 3))], element), stack([], element)
    one = trace_closed(lambda s, t: [add(s, t)], [tape(element)] * 2)
    (found,) = executable(one, "cpu")([a, a])
    np.testing.assert_array_equal(found[0], np.full((2, 3), 2.0))
    assert found[1].shape == (0, 3)
    assert len(executable(one, "cpu")([b, b])[0].items) == 0
    alike = np.arange(12.0).reshape(2, 2, 3).transpose(0, 2, 1).swapaxes(1, 2)
    np.testing.assert_array_equal(executable(one, "cpu")([alike, alike])[0][1], 2 * alike[1])


def test_a_loop_that_reads_beyond_a_tape_is_found():
    body = make_jaxpr(lambda c, t: (c + t, c))(X, X)
    loop = ScanLoop(None, False, 0, 1)
    a = tape(aval((3,), np.dtype(np.float64)))
    given = trace_closed(
        lambda n, t: scan_call(n, X, t, body=body, loop=loop), [aval((), np.dtype(np.int64)), a]
    )
    run = executable(given, "cpu")
    rows = np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(run([np.int64(4), rows])[0], X + rows.sum(0))
    np.testing.assert_allclose(run([np.int64(2), rows])[0], X + rows[:2].sum(0))
    with pytest.raises(JaxprError, match="another number of iterations"):
        run([np.int64(5), rows])
    total = executable(trace_closed(lambda s, t: [add(s, t)], [a, a]), "cpu")
    with pytest.raises(JaxprError, match="another number of iterations"):
        total([rows[:2], rows])

"""Results that are written past the caches are the same results."""

import numpy as np
import pytest

import ftrace
from ftrace.cpu.cpu_backend import cpu_backend
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.runtime import native_launch
from ftrace.cpu.runtime.main import module_text
from ftrace.cpu.runtime.native_launch import compile_program
from ftrace.lowering.kernel.ir import Load
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning import streaming
from ftrace.lowering.planning.plan import plan


@pytest.fixture
def always(monkeypatch):
    """As if every result were large."""
    monkeypatch.setattr(streaming, "LARGE", 1)


def streamed(f, *args):
    program = cpu_backend().plan(ftrace.make_jaxpr(f)(*args))
    return [launch.schedule.streams for launch in program.launches]


def test_only_what_no_cache_holds_is_streamed():
    size = streaming.LARGE // 8
    small, large = np.broadcast_to(1.0, (size - 1,)), np.broadcast_to(1.0, (size,))
    assert streamed(lambda x: x * 2.0, small) == [()]
    (names,) = streamed(lambda x: x * 2.0, large)
    assert len(names) == 1


def test_what_is_read_again_is_not_streamed(always):
    x = np.ones((9, 40))

    def both(x):
        e = np.exp(x)
        return e, e / e.sum(1, keepdims=True)

    first, second = streamed(both, x)  # the sum, and what is divided by it
    assert (len(first), len(second)) == (0, 1)
    first, second = streamed(lambda x: (np.sin(x), np.sort(np.sin(x) * 2.0) + 1.0), x)
    assert len(first) == 1  # what is sorted lies in the arena
    assert len(second) == 1
    jaxpr = ftrace.make_jaxpr(lambda x: both(x)[1])(x)
    launched = cpu_backend().plan(jaxpr).launches
    again = {s.buffer for k in launched for s in inside(k.kernel.body) if isinstance(s, Load)}
    assert any(b.startswith("o") for b in again)  # a pass left it to the next
    assert not again & {name for k in launched for name in k.schedule.streams}
    (names,) = streamed(lambda x: np.sort(np.sin(x)), x)
    assert names == ()


@pytest.mark.parametrize("shape", [(1,), (64,), (1000,), (3, 64), (5, 77), (130, 1)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i2", "?", "f2", "c8"])
def test_streamed_results_are_the_same(always, shape, dtype):
    x = (np.random.default_rng(0).standard_normal(shape) * 10).astype(dtype)

    def f(x, y):
        return x * y, y

    y = np.ones(shape, dtype)
    run = compile_program(cpu_backend().plan(ftrace.make_jaxpr(f)(x, y)))
    for found, expected in zip(run((x, y)), f(x, y), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_arm_of_a_branch_stores_where_its_lanes_are(always):
    x = np.linspace(-3.0, 3.0, 1003).astype(np.float32)
    f = ftrace.vectorize(lambda a: np.sin(a) if a > 0.5 else a)
    run = ftrace.jit(f)
    assert run.lower(x).program.launches[0].schedule.streams
    np.testing.assert_allclose(run(x), np.where(x > 0.5, np.sin(x), x), rtol=1e-6)


@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_narrow_vectors_are_streamed_too(always, monkeypatch, vector_bytes):
    narrow = host()._replace(vector_bytes=vector_bytes, masked=False)
    monkeypatch.setattr(native_launch, "host", lambda: narrow)
    x = np.arange(1003.0)
    program = plan(ftrace.make_jaxpr(lambda x: x * 2.0)(x), Machine(vector_bytes))
    assert "!nontemporal" in module_text(program, narrow)
    np.testing.assert_array_equal(native_launch.compile_program(program)((x,))[0], x * 2.0)

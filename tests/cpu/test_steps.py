"""Steps of programs: branches, loops and callbacks, calls within calls, and exceptions."""

import signal
import sys
import threading
import time

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.core.avals import aval
from ftrace.core.jaxpr import Eqn, Literal, Var
from ftrace.core.primitive import Primitive
from ftrace.core.trace import EVAL, ctx
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.runtime import native_launch
from ftrace.cpu.runtime.entry import _native
from ftrace.cpu.runtime.main import module_text
from ftrace.cpu.runtime.native_launch import Interpreted, compilations, compile_program
from ftrace.lowering.program.program import (
    ARENA,
    ARGUMENT,
    RESULT,
    BranchStep,
    Callback,
    CallStep,
    Copy,
    Program,
    Repeat,
    Slot,
)
from tests.cpu.programs import (
    F8,
    X,
    below,
    compiled,
    planned,
    row,
    scalar_program,
    tripled,
)

# --- programs written by hand


INDICES = [
    (d, i, min(max(i, 0), 2))
    for d, values in {
        "i1": (-128, -1, 0, 1, 2, 3, 127),
        "u1": (0, 1, 2, 200, 255),
        "i2": (-(2**15), 1, 2**15 - 1),
        "u2": (2, 2**16 - 1),
        "i4": (-(2**31), 1, 2**31 - 1),
        "u4": (1, 2**32 - 1),
        "i8": (-(2**63), 0, 1, 2, 2**63 - 1),
        "u8": (0, 1, 2, 2**63, 2**64 - 1),
        "b1": (0, 1),
    }.items()
    for i in values
]


@pytest.mark.parametrize("dtype", dict.fromkeys(d for d, _, _ in INDICES))
def test_the_index_of_a_branch_is_clamped(dtype):
    kind = np.dtype("?" if dtype == "b1" else dtype)
    arms = ((Copy(1, 2, 1),), (tripled(1, 2),), (tripled(1, 3), tripled(3, 2)))
    call = compile_program(scalar_program(kind, F8, steps=[BranchStep(0, dtype, arms)], arena=[F8]))
    for d, index, arm in INDICES:
        if d == dtype:
            assert call([kind.type(index), np.float64(2)]) == [2.0 * 3**arm], index


@pytest.mark.parametrize("dtype", dict.fromkeys(d for d, _, _ in INDICES))
def test_a_branch_in_a_loop_takes_its_arm_at_each_iteration(dtype):
    kind = np.dtype("?" if dtype == "b1" else dtype)
    factors = (2, 3) if dtype == "b1" else (2, 3, 5)
    arms = tuple((tripled(2, 4, f), Copy(4, 2, 1)) for f in factors)
    loop = Repeat((below(2, 3, 1000),), 3, (BranchStep(0, dtype, arms),))
    call = compile_program(scalar_program(kind, F8, steps=[Copy(1, 2, 1), loop], arena=["?", F8]))
    for d, index, arm in INDICES:
        if d == dtype:
            expected = 1.0
            while expected < 1000:
                expected *= factors[arm]
            assert call([kind.type(index), np.float64(1)]) == [expected], index


def test_what_is_one_element_is_copied_without_a_call():
    program = scalar_program(F8, steps=[tripled(0, 2), Copy(2, 1, 1)], arena=[F8])
    assert "i64 8, i1 false" in module_text(program, host())


def test_one_arm_is_always_taken():
    steps = [BranchStep(0, "i8", ((tripled(1, 2),),))]
    call = compile_program(scalar_program("i8", F8, steps=steps))
    assert call([np.int64(5), np.float64(2)]) == [6.0]


def test_repeating_stops_before_the_first_turn():
    call = compiled(
        lambda x: lax.while_loop(lambda y: y < 100.0, lambda y: y * 2.0, x), np.float64(1)
    )
    assert call([np.float64(1)]) == [128.0]
    assert call([np.float64(1000)]) == [1000.0]


def call_of(impl, source, target, a):
    """A callback that runs `impl` from one slot to another."""
    return CallStep(Eqn(row(impl), [Var(a)], {}, [Var(a)], None), (source,), (target,))


def test_a_callback_sees_and_fills_slots_of_the_arena():
    a = aval((), F8)
    seen = []

    def impl(x):
        seen.append(x)
        return x + 1

    calls = [call_of(impl, 2, 3, a), call_of(impl, 3, 1, a)]
    steps = [tripled(0, 2), Callback(0), Callback(1)]
    call = compile_program(scalar_program(F8, steps=steps, callbacks=calls, arena=[F8, F8]))
    assert call([np.float64(5)]) == [17.0]
    assert [type(x) for x in seen] == [np.float64, np.float64]
    assert seen == [15.0, 16.0]


def test_literals_and_weak_operands_reach_a_row_as_python_scalars():
    seen = []
    weak = aval((), F8, weak=True)
    eqn = Eqn(
        row(lambda *xs: seen.extend(xs) or np.float64(1)),
        [Var(weak), Literal(7)],
        {},
        [Var(aval((), F8))],
        None,
    )
    steps = [tripled(0, 2), Callback(0)]
    call = compile_program(
        scalar_program(F8, steps=steps, callbacks=[CallStep(eqn, (2, None), (1,))], arena=[F8])
    )
    assert call([np.float64(5)]) == [1.0]
    assert [type(x) for x in seen] == [float, int]
    assert seen == [15.0, 7]


@pytest.mark.parametrize("wrong", [np.ones(3), np.float32(1), np.ones((1, 1)), 1j])
def test_a_row_that_breaks_its_promise_is_found_out(wrong):
    bad = row(lambda x: wrong)
    for fn in (bad, lambda x: bad(x * 2.0) + 1.0):
        with pytest.raises(ftrace.errors.JaxprError, match="python promised"):
            compiled(fn, X[0, :2])([X[0, :2]])


def test_an_interpreted_loop_and_branch():
    a = aval((3,), F8)
    one = aval((), np.dtype(bool))
    slots = (
        Slot(ARGUMENT, a, 0),
        Slot(RESULT, a, 0),
        Slot(ARENA, one, 0),
        Slot(ARENA, a, 1),
        Slot(ARENA, aval((), np.dtype(np.int64)), 2),
    )
    small = Primitive(**{**_columns(lambda x: np.bool_(x[0] < 50)), "type": lambda x: one})
    which = Primitive(
        **{**_columns(lambda x: np.int64(x[0] > 10)), "type": lambda x: slots[4].aval}
    )
    calls = (
        CallStep(Eqn(small, [Var(a)], {}, [Var(one)], None), (1,), (2,)),
        CallStep(Eqn(which, [Var(a)], {}, [Var(slots[4].aval)], None), (1,), (4,)),
        call_of(lambda x: x + 5, 1, 3, a),
        call_of(lambda x: x * 2, 1, 3, a),
    )
    choose = BranchStep(4, "i8", ((Callback(2),), (Callback(3),)))
    steps = (Copy(0, 1, 3), Repeat((Callback(0),), 2, (Callback(1), choose, Copy(3, 1, 3))))
    program = Program(slots, (0, 64, 128, 24), steps, calls, (), 192, (False,))
    call = compile_program(program)
    assert type(call) is Interpreted
    x = np.array([1.0, 2, 3])
    np.testing.assert_array_equal(call([x])[0], [88, 96, 104])
    np.testing.assert_array_equal(x, [1, 2, 3])


def _columns(impl):
    made = row(impl)
    return {
        name: getattr(made, name) for name in ("name", "impl", "jvp", "transpose", "batch", "doc")
    }


# --- calls in calls, threads, exceptions


def test_a_row_may_call_the_program_that_it_is_part_of(each_entry):
    def impl(x):
        return call([x - 1.0])[0] if x[0] > 0 else x * 0

    inner = row(impl)
    call = compiled(lambda x: inner(x * 1.0) + x, np.ones(3))
    np.testing.assert_array_equal(call([np.full(3, 4.0)])[0], np.full(3, 10.0))


@pytest.mark.parametrize("small", [native_launch.SMALL, -1])
def test_threads_do_not_meet(small, each_entry, monkeypatch):
    monkeypatch.setattr(native_launch, "SMALL", small)  # -1: every program lets other threads run
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        _threads_do_not_meet()
    finally:
        sys.setswitchinterval(interval)


def _threads_do_not_meet():
    double = row(lambda x: x * 2)
    calls = [
        compiled(lambda x: double(np.sin(x)) + x, np.ones(64)),
        compiled(lambda x: (np.exp(x) / np.exp(x).sum()) * 2.0, np.ones(64)),
        compiled(lambda x: np.sort(np.tile(x, 20))[::-1] * 2.0, np.ones(64)),
    ]
    xs = [np.linspace(0, number, 64) for number in range(8)]
    alone = [[call([x])[0] for call in calls] for x in xs]  # before any thread runs
    failures = []

    def work(number):
        x, expected = xs[number], alone[number]
        for i in range(200):
            k = i % len(calls)
            if not np.array_equal(calls[k]([x])[0], expected[k]):
                failures.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


def counted_to(n, x):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.5 + 1.0), (0, x))


LONG = {
    "a loop of steps": counted_to,
    "a loop in an arm": lambda n, x: lax.cond(
        n > 1, lambda x: counted_to(n, x), lambda x: (0, x), x
    ),
    "a loop that is a kernel": lambda n, x: counted_to(n, x[0]),
}


@pytest.mark.skipif(_native().make is None, reason="Python's objects have another layout")
@pytest.mark.parametrize("name", LONG)
def test_other_threads_run_while_a_loop_does(name, monkeypatch):
    call = compiled(LONG[name], 1, np.ones(3))
    ticks, ended, running = [], threading.Event(), threading.Event()

    def work():
        while not ended.is_set():
            ticks.append(1)
            running.set()
            time.sleep(1e-4)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(100)  # who holds the GIL and does not release it keeps it
    thread = threading.Thread(target=work)
    try:
        thread.start()
        running.wait()
        before = len(ticks)
        call([5_000_000, np.ones(3)])
        assert len(ticks) > before
    finally:
        ended.set()
        sys.setswitchinterval(interval)
        thread.join()


def test_threads_compile_a_structure_once():
    programs = [planned(lambda x: np.arctan(x) * 2.0 + np.sqrt(x) / 7.5, X)[1] for _ in range(4)]
    before = compilations()
    threads = [threading.Thread(target=compile_program, args=(p,)) for p in programs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert compilations() == before + 1


class UnexpectedError(Exception):
    pass


@pytest.mark.parametrize("fn", [lambda f: f, lambda f: lambda x: f(x * 2.0) + 1.0])
@pytest.mark.parametrize("error", [UnexpectedError("told"), KeyboardInterrupt(), ValueError(3)])
def test_what_a_row_raises_is_raised_by_the_call(fn, error, each_entry):
    def impl(x):
        if x[0, 0] >= 0:
            raise error
        return x * 1

    call = compiled(fn(row(impl)), X)
    for _ in range(2):
        with pytest.raises(type(error)) as caught:
            call([X])
        assert caught.value is error
    (got,) = call([X - 1])
    assert got.shape == X.shape


def test_a_row_of_the_user_may_keep_its_operands():
    kept = []

    def keep(x):
        kept.append(x)
        return x * 1

    same = row(keep)
    call = compiled(
        lambda x: lax.while_loop(lambda y: y[0] < 8.0, lambda y: same(y * 2.0) + 0.0, x), np.ones(2)
    )
    call([np.ones(2)])
    assert [list(x) for x in kept] == [[2, 2], [4, 4], [8, 8]]


def test_rows_are_evaluated_whatever_transformation_runs():
    seen = []
    spy = row(lambda x: seen.append(ctx.trace) or x * 1)
    calls = compiled(lambda x: spy(x * 2.0) + 1.0, X), compiled(spy, X)

    def fn(x):
        before = ctx.trace
        for call in calls:
            call([X])
        assert ctx.trace is before is not EVAL
        return x

    ftrace.jvp(fn, (X,), (X,))
    assert seen == [EVAL, EVAL]


def test_steps_after_an_exception_do_not_run():
    ran = []

    def fail(x):
        raise UnexpectedError

    first, second = row(fail), row(lambda x: ran.append(1) or x * 1)
    with pytest.raises(UnexpectedError):
        compiled(lambda x: second(first(x * 2.0) + 1.0) * 2.0, X)([X])
    assert ran == []


def test_an_exception_in_a_nested_call_leaves_the_outer_one_intact():
    def fail(x):
        raise UnexpectedError

    inner = compiled(lambda x: row(fail)(x * 2.0) * 2.0, X)

    def impl(x):
        with pytest.raises(UnexpectedError):
            inner([x])
        return x * 10

    outer = row(impl)
    call = compiled(lambda x: outer(outer(x * 2.0) + 0.0) * 2.0, X)
    np.testing.assert_allclose(call([X])[0], X * 400)


def test_a_recursion_that_is_too_deep_is_a_recursion_error():
    inner = row(lambda x: call([x])[0])
    call = compiled(lambda x: inner(x * 2.0) + 1.0, X)
    with pytest.raises(RecursionError):
        call([X])
    assert compiled(lambda x: row(lambda y: y * 1)(x * 2.0) + 1.0, X)([X])[0].shape == X.shape


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_a_signal_ends_a_loop_that_calls_back():
    def handler(number, where):
        raise UnexpectedError

    same = row(lambda x: x * 1)
    call = compiled(
        lambda x: lax.while_loop(lambda y: y[0] > 0.0, lambda y: same(y * 1.0) + 0.0, x), np.ones(9)
    )
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(UnexpectedError):
            call([np.ones(9)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.by_size
def test_equal_kernels_are_written_once_wherever_their_memory_lies_compiled(monkeypatch):
    """Also kernels with loops that look for signals, whose state lies beside the slots."""

    def layers(x, *w):
        for one in w:
            x = np.tanh(x @ one) + np.sin(x) * 0.25
        return x, np.sum(x)

    def iterated(x):
        y = x
        for _ in range(3):
            y = lax.while_loop(lambda s: (s * s > 1.0).any(), lambda s: s * 0.75, y + 2.0)
            y = ftrace.vmap(lambda v: lax.while_loop(lambda s: s > 0.5, lambda s: s * 0.9, v))(y)
        return y

    w = [np.random.default_rng(k).normal(size=(24, 24)) for k in range(6)]
    x = np.random.default_rng(9).normal(size=(16, 24))
    for f, args in ((layers, (x, *w)), (iterated, (x[0],))):
        lowered = ftrace.jit(f).lower(*args)
        assert lowered.llvm.count("define internal void @kernel") < len(lowered.kernels)
        found = ftrace.tree.leaves(ftrace.jit(f)(*args))
        with monkeypatch.context() as patch:
            alone = lambda launches: [(k, None) for k in range(len(launches))]  # noqa: E731
            patch.setattr("ftrace.cpu.runtime.main.repeated", alone)
            wanted = ftrace.tree.leaves(ftrace.jit(lambda *args, f=f: f(*args))(*args))
        assert all(map(np.array_equal, found, wanted))

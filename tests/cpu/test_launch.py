"""Whole programs: what a compiled call makes of its arguments, and of what rows do in between."""

import signal
import threading

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.control.cond import cond_call
from ftrace.core.avals import aval
from ftrace.core.errors import BackendError, DtypeError, ShapeError
from ftrace.core.jaxpr import Eqn, Literal, Var, eval_jaxpr
from ftrace.core.primitive import Primitive, Unsupported
from ftrace.cpu import entry, launch
from ftrace.cpu.calls import Frame
from ftrace.cpu.compile import host
from ftrace.cpu.launch import Compiled, Interpreted, compilations, compile_program
from ftrace.cpu.main import module_text
from ftrace.lowering.launching import Launch, Operand
from ftrace.lowering.plan import plan
from ftrace.lowering.program import (
    ARENA,
    ARGUMENT,
    RESULT,
    Branch,
    Call,
    Callback,
    Copy,
    Program,
    Repeat,
    Slot,
)
from ftrace.lowering.schedule import schedule
from tests.lowering.nests import Nest, f8

VECTOR = host().vector_bytes
F8 = np.dtype(np.float64)
X = np.arange(12.0).reshape(3, 4) / 4


def planned(fn, *args):
    """The jaxpr of a function, and its program."""
    jaxpr = ftrace.make_jaxpr(fn)(*args)
    return jaxpr, plan(jaxpr, VECTOR)


def compiled(fn, *args):
    return compile_program(planned(fn, *args)[1])


def row(impl, *, effects=None):
    """A row of one operand and a result like it, which kernels cannot do."""
    return Primitive(
        name="python",
        impl=impl,
        type=lambda x: x,
        jvp=Unsupported("not needed"),
        transpose=Unsupported("not needed"),
        batch=Unsupported("not needed"),
        doc="A function of Python.",
        effects=effects,
    )


@pytest.fixture(params=["native", "portable"])
def each_entry(request, monkeypatch):
    """Both ways into native code: reading objects, and asking NumPy for addresses."""
    if request.param == "portable":
        portable = entry._Native(None)
        monkeypatch.setattr(entry, "_native", lambda: portable)


# --- programs that were planned


def cumulated(x):
    return lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, np.sin(c[1]) + x * c[0]), (0, x + 1.0)
    )[1]


def chosen(i, x):
    arms = (lambda y: y + 1.0, np.exp, lambda y: y @ np.ones((4, 4)))
    return cond_call(i, x, branches=tuple(ftrace.make_jaxpr(f)(X) for f in arms))[0]


def nested(n, x):
    def body(c):
        i, y = c
        y = lax.cond(i % 2 == 0, lambda z: z * 2.0, lambda z: z @ np.eye(4) + 1.0, y)
        return i + 1, lax.while_loop(lambda z: z.sum() > 100.0, lambda z: z * 0.5, y)

    return lax.while_loop(lambda c: c[0] < n, body, (0, x))


PROGRAMS = {
    "elementwise": (lambda x, y: np.sin(x) * y + 1.0, (X, X + 1)),
    "several results": (lambda x: (x + 1, x.sum(), x > 1, x.T * 2.0), (X,)),
    "the same result twice": (lambda x: (x, x * 2, x), (X,)),
    "softmax": (lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True), (X,)),
    "products": (lambda x: np.tanh(x @ x.T + 1.0) @ x, (X,)),
    "a product alone": (lambda x: x @ x.T, (X,)),
    "weak scalars": (lambda x, y: (x * y, x, 3, x + 1), (2.5, 3)),
    "scalars": (lambda x, y: (x * y, np.sqrt(x)), (np.float32(2.5), np.float32(3))),
    "complex": (lambda x: (x * 1j, abs(x + 2j)), (X,)),
    "half": (lambda x: (x + 1, np.sqrt(x)), (X.astype(np.float16),)),
    "while": (cumulated, (X,)),
    "arm 0": (chosen, (0, X)),
    "arm below": (chosen, (np.int8(-3), X)),
    "arm 1": (chosen, (np.uint8(1), X)),
    "arm beyond": (chosen, (np.int64(2**40), X)),
    "nested": (nested, (7, X)),
    "captured": (lambda x: x + CAPTURED[:, ::2], (X,)),
    "nothing to do": (lambda x: x, (X,)),
    "empty": (lambda x: (x * 2, x.sum()), (X[:0],)),
}
SQUARE = np.ones((4, 4))
CAPTURED = np.arange(24.0).reshape(3, 8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_program_gives_what_its_jaxpr_gives(name, each_entry):
    fn, args = PROGRAMS[name]
    jaxpr, program = planned(fn, *args)
    got = compile_program(program)(list(args))
    expected = eval_jaxpr(jaxpr, args)
    assert len(got) == len(expected)
    for a, b, out in zip(got, expected, jaxpr.out_avals, strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=1e-12)
        if not out.weak:
            assert a.dtype == out.dtype
            assert a.shape == out.shape


def test_another_size_compiles_nothing():
    def fn(x):
        return np.cosh(x).sum(axis=0) - 7.25 * x[0]

    compiled(fn, np.ones((3, 5)))([np.ones((3, 5))])
    before = compilations()
    x = np.linspace(0, 1, 77).reshape(7, 11)
    (got,) = compiled(fn, x)([x])
    np.testing.assert_allclose(got, np.cosh(x).sum(axis=0) - 7.25 * x[0], rtol=1e-12)
    assert compilations() == before


def test_the_same_structure_gives_the_same_text():
    texts = {module_text(planned(nested, 3, np.ones((n, 4)))[1], host()) for n in (2, 5, 9)}
    assert len(texts) == 1


# --- arguments


def misaligned(a):
    memory = np.empty(a.nbytes + 1, np.uint8)
    shifted = memory[1:].view(a.dtype).reshape(a.shape)
    shifted[...] = a
    return shifted


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


class Kind(np.ndarray):
    pass


UNUSUAL = {
    "transposed": lambda a: np.asfortranarray(a),
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "misaligned": misaligned,
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "read only": read_only,
    "subclass": lambda a: a.view(Kind),
    "another name of its type": lambda a: a.view(np.dtype(F8, metadata={"unit": "m"})),
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("inside", [lambda x: x * 2.0 + 1.0, lambda x: (x @ np.eye(4)) * 2.0 + 1.0])
def test_arrays_of_every_kind_are_understood_and_left_alone(kind, inside, each_entry):
    call = compiled(inside, X)
    given = UNUSUAL[kind](X)
    before = np.array(given)
    (got,) = call([given])
    np.testing.assert_array_equal(got, np.array(given) * 2.0 + 1.0)
    np.testing.assert_array_equal(np.array(given), before)


@pytest.mark.parametrize(
    "given", [2.5, np.float64(2.5), np.array(2.5), np.array([9, 2.5])[1:].reshape(())]
)
def test_scalars_may_come_as_scalars_or_arrays(given, each_entry):
    (got,) = compiled(lambda x: x * 3.0, np.float64(1))([given])
    assert type(got) is np.float64
    assert got == 7.5


def test_integers_of_another_name_are_the_same():
    (got,) = compiled(lambda x: x + 1, np.arange(5))([np.arange(5, dtype=np.longlong)])
    np.testing.assert_array_equal(got, np.arange(1, 6))


WRONG = [
    (X.astype(object), DtypeError),
    (X.astype(np.float32), DtypeError),
    (X.tolist(), DtypeError),
    (X.astype("U4"), DtypeError),
    (None, DtypeError),
    (X[:2], ShapeError),
    (X.reshape(-1), ShapeError),
    (np.float64(1), ShapeError),
    (np.zeros((3, 4, 1)), ShapeError),
]


@pytest.mark.parametrize(("given", "error"), WRONG)
@pytest.mark.parametrize(
    "inside", [lambda x, y: x + y, lambda x, y: x @ y.T, lambda x, y: np.sin(x) @ y.T]
)
def test_arguments_that_were_not_planned_are_refused(given, error, inside, each_entry):
    call = compiled(inside, X, X)
    with pytest.raises(error, match=r"Argument 1|dtype|not"):
        call([X, given])


def test_a_wrong_scalar_is_refused_rather_than_converted():
    call = compiled(lambda x: x + 1, 1)
    with pytest.raises(DtypeError, match="float64"):
        call([1.5])


@pytest.mark.parametrize("args", [[], [X], [X, X, X]])
def test_a_wrong_number_of_arguments_is_refused(args, each_entry):
    with pytest.raises((BackendError, ValueError), match="argument"):
        compiled(lambda x, y: x + y, X, X)(args)


# --- results


def test_results_own_their_memory_and_share_none(each_entry):
    x = X.copy()
    for fn in (lambda x: (x, x, x + 1, x[:, :2], x.T), lambda x: (x @ SQUARE, x, x), lambda x: x):
        call = compiled(fn, x)
        arrays = [x, *call([x]), *call([x])]
        for i, a in enumerate(arrays[1:], 1):
            assert a.flags.owndata
            assert a.flags.writeable
            assert not any(np.shares_memory(a, b) for b in arrays[:i])


def test_captured_arrays_are_read_at_each_call(each_entry):
    wide = np.arange(8.0)
    narrow = wide[::2]
    call = compiled(lambda x: x + narrow, np.ones(4))
    np.testing.assert_array_equal(call([np.ones(4)])[0], narrow + 1)
    wide[:] = 5
    np.testing.assert_array_equal(call([np.ones(4)])[0], np.full(4, 6.0))


def test_the_table_outlives_the_planner(each_entry):
    call = compiled(lambda x: x * 3.75 + 1.25, np.ones(50))
    rubbish = [np.full(n, -1) for n in range(1, 40)]
    np.testing.assert_array_equal(call([np.ones(50)])[0], np.full(50, 5.0))
    assert len(rubbish) == 39


# --- programs written by hand


def tripled(source, target):
    """A kernel: `target = 3 * source`, both one float."""
    k = Nest("tripled")
    x, y = k.buffer("x", "f8", []), k.buffer("y", "f8", [], "out")
    k.store(y, [], k.let("mul", k.load(x), f8(3)))
    kernel = k.kernel()
    return Launch(
        kernel, schedule(kernel, VECTOR), (Operand(source, 0, ()), Operand(target, 0, ())), ()
    )


def scalar_program(*dtypes, steps, callbacks=(), arena=()):
    """Arguments of these dtypes, a result like the last one, and places in the arena.

    The table starts with 0 and 8: no offset, and the bytes of a float.
    """
    slots = [Slot(ARGUMENT, aval((), np.dtype(d)), i) for i, d in enumerate(dtypes)]
    slots.append(Slot(RESULT, slots[-1].aval, 0))
    slots += [Slot(ARENA, aval((), np.dtype(d)), 2 + i) for i, d in enumerate(arena)]
    table = (0, 8, *(64 * i for i in range(len(arena))))
    return Program(
        tuple(slots), table, tuple(steps), tuple(callbacks), (), 64 * len(arena), (False,)
    )


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
    call = compile_program(scalar_program(kind, F8, steps=[Branch(0, dtype, arms)], arena=[F8]))
    for d, index, arm in INDICES:
        if d == dtype:
            assert call([kind.type(index), np.float64(2)]) == [2.0 * 3**arm], index


def test_one_arm_is_always_taken():
    steps = [Branch(0, "i8", ((tripled(1, 2),),))]
    call = compile_program(scalar_program("i8", F8, steps=steps))
    assert call([np.int64(5), np.float64(2)]) == [6.0]


def test_repeating_stops_before_the_first_turn():
    def python(x):
        return x * 2

    call = compiled(
        lambda x: lax.while_loop(lambda y: y < 100.0, lambda y: y * 2.0, x), np.float64(1)
    )
    assert call([np.float64(1)]) == [128.0]
    assert call([np.float64(1000)]) == [1000.0]
    assert python(1) == 2


def call_of(impl, source, target, a):
    """A callback that runs `impl` from one slot to another."""
    return Call(Eqn(row(impl), [Var(a)], {}, [Var(a)], None), (source,), (target,))


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
        scalar_program(F8, steps=steps, callbacks=[Call(eqn, (2, None), (1,))], arena=[F8])
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


# --- calls in calls, threads, exceptions


def test_a_row_may_call_the_program_that_it_is_part_of(each_entry):
    def impl(x):
        return call([x - 1.0])[0] if x[0] > 0 else x * 0

    inner = row(impl)
    call = compiled(lambda x: inner(x * 1.0) + x, np.ones(3))
    np.testing.assert_array_equal(call([np.full(3, 4.0)])[0], np.full(3, 10.0))


def test_threads_do_not_meet(each_entry):
    double = row(lambda x: x * 2)
    calls = [
        compiled(lambda x: double(np.sin(x)) + x, np.ones(64)),
        compiled(lambda x: (np.exp(x) / np.exp(x).sum()) * 2.0, np.ones(64)),
        compiled(lambda x: np.tile(x, 20).cumsum()[::-1] * 2.0, np.ones(64)),
    ]
    failures = []

    def work(number):
        x = np.linspace(0, number, 64)
        expected = [call([x])[0] for call in calls]
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


# --- how it is done


def test_objects_of_this_python_can_be_read():
    assert entry.measure() is not None


def test_another_layout_is_noticed(monkeypatch):
    layout = entry.measure()
    for field in layout._fields:
        shifted = layout._replace(**{field: getattr(layout, field) + 8})
        assert not entry._fits(shifted, np.zeros((3, 5), np.float32)[:, 1:]), field
    monkeypatch.setattr("sys.implementation", type("Other", (), {"name": "other"}))
    assert entry.measure() is None


def test_programs_without_kernels_need_no_compiler():
    before = compilations()
    for fn in (lambda x: x @ X.T, lambda x: x, lambda x: (x @ SQUARE, x)):
        assert type(compiled(fn, X)) is Interpreted
    assert type(compiled(lambda x: x + 1, X)) is Compiled
    assert compilations() <= before + 1


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
        Call(Eqn(small, [Var(a)], {}, [Var(one)], None), (1,), (2,)),
        Call(Eqn(which, [Var(a)], {}, [Var(slots[4].aval)], None), (1,), (4,)),
        call_of(lambda x: x + 5, 1, 3, a),
        call_of(lambda x: x * 2, 1, 3, a),
    )
    choose = Branch(4, "i8", ((Callback(2),), (Callback(3),)))
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


def test_an_error_of_the_compiler_names_the_kernel(monkeypatch):
    program = scalar_program(F8, steps=[tripled(0, 1)])
    monkeypatch.setattr(launch, "module_text", lambda *_: "define bad")
    monkeypatch.setattr(launch, "kernel_text", lambda *_: "define worse")
    with pytest.raises(BackendError, match=r"Kernel tripled cannot be compiled(.|\n)*LLVM"):
        compile_program(program)


def test_a_frame_places_its_arrays_where_native_code_does():
    program = scalar_program(F8, steps=[tripled(0, 1)], arena=[F8, F8])
    arena = np.zeros(program.arena + 64, np.uint8)
    frame = Frame(program, {}, arena)
    for slot, offset in ((2, 0), (3, 64)):
        assert frame._array(slot).ctypes.data == -(-arena.ctypes.data // 64) * 64 + offset

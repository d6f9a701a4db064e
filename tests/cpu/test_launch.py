"""Calls of compiled programs: what becomes of arguments and results, and how they are found."""

import pickle

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.control.rows.cond import cond_call
from ftrace.core.errors import BackendError, DtypeError, ShapeError
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.runtime import entry, native_launch
from ftrace.cpu.runtime.entry_text import REJECTED
from ftrace.cpu.runtime.main import FINISHED, module_text
from ftrace.cpu.runtime.native_launch import (
    Interpreted,
    NativeProgram,
    compilations,
    compile_program,
)
from ftrace.cpu.runtime.python_rows import NativeFrame
from tests.cpu.programs import F8, X, compiled, planned, row, scalar_program, tripled
from tests.lowering.test_scalars import SCALAR

# --- programs that were planned


def cumulated(x):
    return lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, np.sin(c[1]) + x * c[0]), (0, x + 1.0)
    )[1]


def rows_so_far(c, row):
    return np.sin(c) + row, (c * row, c.sum())


def chosen(i, x):
    arms = (lambda y: y + 1.0, np.exp, lambda y: np.sort(y))
    return cond_call(i, x, branches=tuple(ftrace.make_jaxpr(f)(X) for f in arms))[0]


def nested(n, x):
    def body(c):
        i, y = c
        y = lax.cond(i % 2 == 0, lambda z: z * 2.0, lambda z: np.sort(z) + 1.0, y)
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
    "scan": (lambda x: lax.scan(rows_so_far, x[0], x), (X,)),
    "reverse scan": (lambda x: lax.scan(rows_so_far, x[0], x, reverse=True), (X,)),
    "arm 0": (chosen, (0, X)),
    "arm below": (chosen, (np.int8(-3), X)),
    "arm 1": (chosen, (np.uint8(1), X)),
    "arm beyond": (chosen, (np.int64(2**40), X)),
    "nested": (nested, (7, X)),
    "captured": (lambda x: x + CAPTURED[:, ::2], (X,)),
    "backwards": (lambda x: x.ravel()[::-3] * -1.25, (X,)),
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


@pytest.mark.by_size
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
    texts = {module_text(planned(nested, 3, np.ones((n, 40)))[1], host()) for n in (2, 5, 9)}
    assert len(texts) == 1


@pytest.mark.parametrize("name", SCALAR)
def test_loops_over_scalars_give_what_their_jaxprs_give(name):
    fn, x = SCALAR[name]
    jaxpr, program = planned(fn, x)
    got = compile_program(program)([x])
    assert got == eval_jaxpr(jaxpr, [x])


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
@pytest.mark.parametrize("inside", [lambda x: x * 2.0 + 1.0, lambda x: np.sort(x) * 2.0 + 1.0])
def test_arrays_of_every_kind_are_understood_and_left_alone(kind, inside, each_entry):
    call = compiled(inside, X)
    given = UNUSUAL[kind](X)
    before = np.array(given)
    (got,) = call([given])
    np.testing.assert_array_equal(got, np.array(given) * 2.0 + 1.0)
    np.testing.assert_array_equal(np.array(given), before)


@pytest.mark.parametrize("kind", UNUSUAL)
def test_the_entry_takes_plain_arrays_only(kind, each_entry):
    call = compiled(lambda x: x * 2.0, X)
    result = np.zeros_like(X)
    code = FINISHED if kind == "read only" else REJECTED
    assert call._enter(UNUSUAL[kind](X), result) == code
    assert result.any() == (code == FINISHED)
    assert call._enter(X, result) == FINISHED


@pytest.mark.parametrize(
    "given", [2.5, np.float64(2.5), np.array(2.5), np.array([9, 2.5])[1:].reshape(())]
)
def test_scalars_may_come_as_scalars_or_arrays(given, each_entry):
    (got,) = compiled(lambda x: x * 3.0, np.float64(1))([given])
    assert type(got) is np.float64
    assert got == 7.5


@pytest.mark.parametrize("given", [2.5, np.float64(2.5), np.array(2.5)])
def test_scalars_are_not_looked_at_twice(given, each_entry, monkeypatch):
    call = compiled(lambda x: x * 3.0, np.float64(1))
    monkeypatch.setattr(native_launch, "_plain", None)  # for what the entry refuses
    assert call([given]) == [7.5]


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
    "inside", [lambda x, y: x + y, lambda x, y: np.sort(x - y), lambda x, y: np.sort(np.sin(x) - y)]
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
    with pytest.raises(BackendError, match="arguments"):
        compiled(lambda x, y: x + y, X, X)(args)


# --- results


def test_results_own_their_memory_and_share_none(each_entry):
    x = X.copy()
    for fn in (lambda x: (x, x, x + 1, x[:, :2], x.T), lambda x: (np.sort(x), x, x), lambda x: x):
        call = compiled(fn, x)
        arrays = [x, *call([x]), *call([x])]
        for i, a in enumerate(arrays[1:], 1):
            assert a.flags.owndata
            assert a.flags.writeable
            assert not any(np.shares_memory(a, b) for b in arrays[:i])


@pytest.mark.parametrize("impl", [lambda x: x[::-1], lambda x: np.broadcast_to(x[:1], x.shape)])
def test_a_row_that_gives_a_view_gives_no_results_of_ours(impl):
    x = X.copy()
    (got,) = compiled(row(impl), x)([x])
    assert got.flags.owndata
    assert got.flags.writeable
    np.testing.assert_array_equal(got, impl(X))


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
    for fn in (lambda x: np.sort(x), lambda x: x, lambda x: (np.sort(x), x)):
        assert type(compiled(fn, X)) is Interpreted
    assert type(compiled(lambda x: x + 1, X)) is NativeProgram
    assert compilations() <= before + 1


def test_an_error_of_the_compiler_names_the_kernel(monkeypatch):
    program = scalar_program(F8, steps=[tripled(0, 1)])
    monkeypatch.setattr(native_launch, "module_text", lambda *_: "define bad")
    monkeypatch.setattr(native_launch, "kernel_text", lambda *_: "define worse")
    with pytest.raises(BackendError, match=r"Kernel tripled cannot be compiled(.|\n)*LLVM"):
        compile_program(program)


def test_a_frame_places_its_arrays_where_native_code_does():
    program = scalar_program(F8, steps=[tripled(0, 1)], arena=[F8, F8])
    frame = NativeFrame(program, [], program.arena + 64)
    arena = frame.arena
    for slot, offset in ((2, 0), (3, 64)):
        assert frame.array(slot).ctypes.data == -(-arena.ctypes.data // 64) * 64 + offset


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_from_another_process_have_a_type_object_of_their_own(order):
    x = pickle.loads(pickle.dumps(np.array([[1.0, 2.0], [3.0, 4.0]], order=order)))
    assert x.dtype is not np.dtype(float)
    assert x.dtype == np.dtype(float)
    np.testing.assert_array_equal(ftrace.jit(lambda a: a + 1.0)(x), x + 1.0)

"""Programs that do to tapes what no plan does: cut into equations and stretches that compile."""

import numpy as np
import pytest

import ftrace
from ftrace import grad, jit, lax, make_jaxpr, vjp
from ftrace.control.rows.jit import BACKENDS, executable
from ftrace.control.rows.scan import scan_call
from ftrace.core.avals import aval
from ftrace.core.errors import BackendError
from ftrace.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from ftrace.core.scan_layout import ScanLoop
from ftrace.core.tapes import is_tape, tape
from ftrace.cpu.runtime.native_launch import NativeProgram
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.partial import partial_jaxpr
from ftrace.interpreters.staging import trace_closed
from ftrace.lowering.fusion.inline import is_one_program
from ftrace.lowering.program.backends import Lowered
from ftrace.lowering.program.segments import cut_at_tapes
from ftrace.primitives.linear import transpose

W = np.array([0.5, 1.5, -0.7])
X = np.array([0.3, 0.9, 1.4])


def around(x):
    """A stretch, a loop, a stretch, a loop, a stretch."""
    y = np.exp(np.sin(x) * W) + x
    z = lax.while_loop(lambda c: np.sum(c * c) < 50.0, lambda c: c * 1.5 + np.sin(x), y)
    z = np.tanh(z) * y
    z = lax.while_loop(lambda c: np.sum(c) < 9.0, lambda c: c + np.sin(c) * 0.1 + y, z)
    return np.sum(np.log(1.0 + z * z) * W)


def forward_half(f, x):
    """The known half of a differentiated jaxpr, which gives its tapes away."""
    pushed, _ = jvp_jaxpr(make_jaxpr(f)(x), (True,))
    return partial_jaxpr(pushed, (True, False)).known


def turned(x):
    """A jaxpr that moves the axes of a tape, which no plan does, and then reads it."""
    half = forward_half(around, x)

    def f(x):
        outs = eval_jaxpr(half, [x])
        tapes = [y for y, a in zip(outs, half.out_avals, strict=True) if is_tape(a)]
        count = outs[[str(a) for a in half.out_avals].index("i64[]")]
        there = transpose(tapes[0], permutation=(1, 0))
        back = transpose(there, permutation=(1, 0))
        body = make_jaxpr(lambda c, t: (c + np.sin(t), c * t))(x, x)
        return [there, *scan_call(count, x, back, body=body, loop=ScanLoop(None, False, 0, 1))]

    return trace_closed(f, [aval((3,), np.dtype(np.float64))])


def test_what_no_plan_does_stands_alone_between_stretches():
    jaxpr = turned(X)
    assert not is_one_program(jaxpr)
    steps = cut_at_tapes(jaxpr).steps
    kinds = [s.primitive.name if isinstance(s, Eqn) else "stretch" for s in steps]
    assert kinds == ["stretch", "transpose", "transpose", "stretch"]
    for step in steps:
        if not isinstance(step, Eqn):
            piece, left = step
            assert isinstance(piece, Jaxpr)
            assert is_one_program(piece)
            assert piece.outvars == left


def test_the_pieces_give_what_the_jaxpr_gives():
    jaxpr = turned(X)
    found, expected = executable(jaxpr, "cpu")([X]), eval_jaxpr(jaxpr, [X])
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
        assert not np.shares_memory(a, X)
    kinds = [type(run) for run in executable(jaxpr, "cpu")._runs]
    assert kinds.count(NativeProgram) == 2


def test_what_is_no_single_program_cannot_be_shown_as_one():
    with pytest.raises(BackendError, match="axes are moved"):
        Lowered(turned(X), "cpu", BACKENDS).cost()


def test_a_half_that_gives_its_tapes_away_is_one_program():
    half = forward_half(around, X)
    assert is_one_program(half)
    found, expected = executable(half, "cpu")([X]), eval_jaxpr(half, [X])
    assert type(executable(half, "cpu")) is NativeProgram
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_a_tape_that_is_only_passed_on_is_no_program():
    a = tape(aval((3,), np.dtype(np.float64)))
    jaxpr = trace_closed(lambda t: [t], [a])
    assert not is_one_program(jaxpr)
    given = np.arange(6.0).reshape(2, 3)
    (found,) = executable(jaxpr, "cpu")([given])
    np.testing.assert_array_equal(found, given)


def test_what_the_pieces_pass_on_is_a_copy():
    scale = np.array([1.0, 2.0, 3.0])

    def f(x):
        y = lax.while_loop(lambda c: np.sum(c) < 9.0, lambda c: c + np.sin(c) + x, x)
        return np.sum(y), x, scale

    half = forward_half(f, X)
    assert is_one_program(half)
    _, x, constant, *_ = executable(half, "cpu")([X])
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(constant, scale)
    assert x.flags.writeable
    assert not np.shares_memory(x, X)
    assert not np.shares_memory(constant, scale)


def test_a_jaxpr_that_keeps_its_tapes_is_one_program():
    assert is_one_program(make_jaxpr(around)(X))
    assert is_one_program(make_jaxpr(grad(around))(X))
    assert jit(grad(around)).lower(X).cost().callbacks == 0


def test_compiled_halves_agree_with_one_program_and_with_none():
    expected = grad(around)(X)
    np.testing.assert_allclose(grad(jit(around))(X), expected, rtol=1e-12)
    np.testing.assert_allclose(jit(grad(around))(X), expected, rtol=1e-12)
    y, pull = vjp(jit(around), X)
    np.testing.assert_allclose(y, around(X), rtol=1e-13)
    np.testing.assert_allclose(pull(2.0)[0], 2.0 * expected, rtol=1e-12)


def test_a_captured_array_is_read_at_each_call():
    scale = np.array([1.0, 2.0, 3.0])

    @jit
    def f(x):
        y = lax.while_loop(lambda c: np.sum(c) < 20.0, lambda c: c * 2.0, x * scale)
        return np.sum(y * scale)

    before = grad(f)(X)
    scale[1] = 5.0
    after = grad(f)(X)
    with ftrace.config.update(compile=False):
        np.testing.assert_allclose(after, grad(f)(X), rtol=1e-13)
    assert before[1] != after[1]

"""Programs whose tapes leave them: cut into loops that Python runs and stretches that compile."""

import numpy as np

import ftrace
from ftrace import grad, jit, lax, make_jaxpr, vjp
from ftrace.control.jit import executable
from ftrace.core.jaxpr import Eqn, Jaxpr, eval_jaxpr
from ftrace.cpu.launch import Compiled
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.partial import partial_jaxpr
from ftrace.lowering.inline import keeps_tapes
from ftrace.lowering.pieces import cut_at_tapes

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


def test_loops_stand_alone_between_stretches():
    half = forward_half(around, X)
    assert not keeps_tapes(half)
    steps = cut_at_tapes(half).steps
    kinds = [s.primitive.name if isinstance(s, Eqn) else "stretch" for s in steps]
    assert kinds == ["stretch", "while", "stretch", "while", "stretch"]
    for step in steps:
        if not isinstance(step, Eqn):
            jaxpr, left = step
            assert isinstance(jaxpr, Jaxpr)
            assert keeps_tapes(jaxpr)
            assert jaxpr.outvars == left


def test_the_pieces_give_what_the_jaxpr_gives():
    half = forward_half(around, X)
    found, expected = executable(half)([X]), eval_jaxpr(half, [X])
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
        assert not np.shares_memory(a, X)
    kinds = [type(run) for run in executable(half)._runs]
    assert kinds.count(Compiled) == 3


def test_a_jaxpr_that_keeps_its_tapes_is_one_program():
    assert keeps_tapes(make_jaxpr(around)(X))
    assert keeps_tapes(make_jaxpr(grad(around))(X))
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

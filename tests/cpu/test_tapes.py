"""Tapes in native code: they grow, are used again, and tell when there is no memory."""

import numpy as np
import pytest

import ftrace
from ftrace import grad, hessian, jit, lax, make_jaxpr
from ftrace.cpu.calls import call_back
from ftrace.cpu.tapes import EXHAUSTED, FIRST, symbols
from ftrace.lowering.program import TAPE


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
    assert text.count("call void @ftrace_free") == 2 * len(
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

    assert make_jaxpr(f)(X).effects is not None
    code = jit(grad(f))
    for _ in range(2):
        calls.clear()
        with pytest.raises(ValueError, match="enough"):
            code(X)

"""A `try` around the call of a function that transformations treat as one operation.

What such a function raises for some batch elements alone must not send all of them to the handler:
a checkpointed function tells its errors, one with a rule of its own is refused by name.
"""

import numpy as np
import pytest

import ftrace
from ftrace.errors import LiftError

X, Z = np.array([2.0, 3.0]), np.array([1.5, -1.0])


def picky(x, z):
    if z > 0:
        raise ValueError("no")
    return x


def with_jvp(f):
    g = ftrace.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return g


def with_vjp(f):
    g = ftrace.custom_vjp(f)
    g.defvjp(lambda x, z: (f(x, z), None), lambda residuals, ct: (ct, 0 * ct))
    return g


def with_batching(f):
    g = ftrace.custom_batching.custom_vmap(f)

    @g.def_vmap
    def rule(size, mapped, x, z):
        return ftrace.vmap(f, [0 if m else None for m in mapped])(x, z), True

    return g


def tried(inner):
    def f(x, z):
        try:
            a = inner(x, z)
        except ValueError:
            return x * 2
        return a * 3

    return f


WAYS = {
    "jit": lambda f: [ftrace.jit(f)(x, z) for x, z in zip(X, Z, strict=True)],
    "vmap": lambda f: ftrace.vmap(f)(X, Z),
    "jit(vmap)": lambda f: ftrace.jit(ftrace.vmap(f))(X, Z),
    "vmap(jit)": lambda f: ftrace.vmap(ftrace.jit(f))(X, Z),
}
SLOPES = {
    "grad": lambda f: [ftrace.grad(f)(x, z) for x, z in zip(X, Z, strict=True)],
    "jit(grad)": lambda f: [ftrace.jit(ftrace.grad(f))(x, z) for x, z in zip(X, Z, strict=True)],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrap", [lambda f: f, ftrace.jit, ftrace.checkpoint])
def test_elements_without_the_error_go_on(wrap, way):
    np.testing.assert_array_equal(WAYS[way](tried(wrap(picky))), [4.0, 9.0])


@pytest.mark.parametrize("way", SLOPES)
@pytest.mark.parametrize("wrap", [lambda f: f, ftrace.jit, ftrace.checkpoint, with_jvp, with_vjp])
def test_derivatives_are_those_of_the_way_taken(wrap, way):
    np.testing.assert_array_equal(SLOPES[way](tried(wrap(picky))), [2.0, 3.0])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrap", [with_jvp, with_vjp, with_batching])
def test_a_function_with_a_rule_is_refused_by_name(wrap, way):
    with pytest.raises(LiftError, match="function with a rule of its own"):
        WAYS[way](tried(wrap(picky)))


def test_a_batching_rule_in_a_program_is_said_to_fail_for_some_elements():
    with pytest.raises(LiftError, match="some batch elements"):
        WAYS["jit(vmap)"](tried(with_batching(picky)))


@pytest.mark.parametrize("way", ["vmap", "jit(vmap)"])
@pytest.mark.parametrize("wrap", [with_jvp, with_vjp, with_batching])
def test_a_loop_in_a_function_with_a_rule_stands_behind_an_error(wrap, way):
    def doubled(x):
        while x < 30.0:
            x = x * 2
        return x

    g = wrap(lambda x, z: doubled(x))

    def f(x, z):
        if z > 2:
            raise ValueError("no")
        return g(x, z)

    np.testing.assert_array_equal(WAYS[way](f), [32.0, 48.0])


@pytest.mark.parametrize("wrap", [with_jvp, with_vjp, with_batching, ftrace.checkpoint])
def test_an_error_that_no_try_may_catch_is_raised(wrap):
    for way in WAYS.values():
        with pytest.raises(ValueError, match="no"):
            way(wrap(picky))


def test_a_try_around_the_whole_transformation_catches_it():
    for wrap in (with_jvp, with_vjp, ftrace.checkpoint):
        for way in (ftrace.vmap, lambda f: ftrace.jit(ftrace.vmap(f))):
            try:
                found = way(wrap(picky))(X, Z)
            except ValueError:
                found = None
            assert found is None


@pytest.mark.parametrize("wrap", [lambda f: f, ftrace.checkpoint])
def test_an_index_is_not_read_by_elements_that_do_not_take_the_arm(wrap):
    v = np.arange(3.0)
    read = wrap(lambda v, i: v[i])

    def f(i):
        return read(v, i) if i < 3 else 0.0

    for way in (ftrace.vmap(f), ftrace.jit(ftrace.vmap(f))):
        np.testing.assert_array_equal(way(np.array([1, 7, 2])), [1.0, 0.0, 2.0])

"""What crosses the boundary of a transformation: values of outer ones, captured arrays, copies.

An inner function may return, unchanged, a value that belongs to a transformation around it; the
inner transformation must not take it for its own. Captured arrays are held once and given back.
"""

import threading

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import checkpoint, grad, jit, jvp, lax, linearize, vjp, vmap
from ftrace.interpreters import captures
from ftrace.interpreters.captures import COPY_LIMIT, Captures, is_read_only

X = np.array([1.0, 2.0, 4.0])
Y = np.array([10.0, 20.0, 30.0])

# ---------------------------------------------------------------------------------- outer values

INNER = {
    "vmap": lambda x: np.sum(vmap(lambda y: x)(Y) * Y),
    "vmap, one of two results": lambda x: np.sum(vmap(lambda y: (x, y))(Y)[0] * Y),
    "jvp": lambda x: jvp(lambda y: x, (3.0,), (7.0,))[0] * 60.0,
    "jvp, its tangent": lambda x: x * 60.0 + jvp(lambda y: x, (3.0,), (7.0,))[1],
    "grad": lambda x: 60.0 * x + grad(lambda y: x)(3.0),
    "value_and_grad": lambda x: 60.0 * ftrace.value_and_grad(lambda y: x)(3.0)[0],
    "vjp": lambda x: vjp(lambda y: x, 3.0)[0] * 60.0,
    "vjp, its cotangent": lambda x: x * 60.0 + vjp(lambda y: x, 3.0)[1](5.0)[0],
    "linearize": lambda x: linearize(lambda y: x, 3.0)[0] * 60.0,
    "jit": lambda x: jit(lambda y: x)(3.0) * 60.0,
    "checkpoint": lambda x: checkpoint(lambda y: x)(3.0) * 60.0,
    "cond": lambda x: lax.cond(True, lambda y: x, lambda y: y, 3.0) * 60.0,
}
OUTER = {
    "vmap": lambda f: vmap(f)(X),
    "vmap of jvp": lambda f: vmap(lambda x: jvp(f, (x,), (2.0,))[0])(X),
    "jvp": lambda f: np.array([jvp(f, (x,), (2.0,))[0] for x in X]),
    "jit": lambda f: np.array([jit(f)(x) for x in X]),
    "jit of vmap": lambda f: jit(vmap(f))(X),
    "value_and_grad": lambda f: np.array([ftrace.value_and_grad(f)(x)[0] for x in X]),
}
SLOPES = {
    "grad": lambda f: np.array([grad(f)(x) for x in X]),
    "jvp": lambda f: np.array([jvp(f, (x,), (1.0,))[1] for x in X]),
    "vmap of grad": lambda f: vmap(grad(f))(X),
    "grad of vmap": lambda f: grad(lambda x: np.sum(vmap(f)(x)))(X),
    "grad of jit": lambda f: np.array([grad(jit(f))(x) for x in X]),
    "jit of grad": lambda f: np.array([jit(grad(f))(x) for x in X]),
}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_an_inner_function_may_return_a_value_of_an_outer_one(inner, outer):
    np.testing.assert_array_equal(OUTER[outer](INNER[inner]), 60.0 * X)


@pytest.mark.parametrize("outer", SLOPES)
@pytest.mark.parametrize("inner", INNER)
def test_the_derivative_of_an_outer_value_returned_by_an_inner_function(inner, outer):
    np.testing.assert_array_equal(SLOPES[outer](INNER[inner]), [60.0, 60.0, 60.0])


@pytest.mark.parametrize("outer", ["jvp", "grad of jit", "vmap of grad"])
@pytest.mark.parametrize(
    "inner",
    [jit, lambda f: lambda y: vmap(f)(y[None]), lambda f: lambda y: jvp(f, (y,), (y,))[0]],
    ids=["jit", "vmap", "jvp"],
)
def test_a_cell_that_received_an_outer_value_stays_the_inner_functions_own(inner, outer):
    def f(x):
        powers = np.stack([x, x * x])

        def filled(y):
            cell = y * 1.0
            np.copyto(cell, powers)
            cell[0] = cell[0] * 10.0 + y[1]
            return cell

        return np.sum(inner(filled)(np.array([5.0, 7.0])))

    np.testing.assert_array_equal(SLOPES[outer](f), 10.0 + 2.0 * X)


def test_a_returned_cell_is_not_what_is_written_later():
    def f(x):
        y = fnp.zeros(2)
        y[0] = x
        kept = vmap(lambda v: y)(np.ones(2))
        same = jvp(lambda v: y, (1.0,), (1.0,))[0]
        staged = jit(lambda v: y)(1.0)
        y[0] = 100.0 * x
        return np.sum(kept) + same[0] + staged[0] + y[0]

    assert f(2.0) == 208.0
    assert grad(f)(2.0) == 104.0
    assert jit(grad(f))(2.0) == 104.0
    assert vmap(f)(X).tolist() == (104.0 * X).tolist()


def pull_of(f, x):
    pull = vjp(f, x)[1]
    return lambda: pull(ONES)[0]


def push_of(f, x):
    push = linearize(f, x)[1]
    return lambda: push(ONES)


def kept(value):
    return lambda: value


ONES = np.ones(2)
# A derivative or a result made from a cell; what it weighs, and its slope.
USES = {
    "vjp of an argument": (lambda y: pull_of(lambda v: v * v, y), 64.0, 2.0),
    "vjp of a captured cell": (lambda y: pull_of(lambda v: v * y, ONES), 32.0, 1.0),
    "linearize at an argument": (lambda y: push_of(lambda v: v * v, y), 64.0, 2.0),
    "a captured cell of jit": (lambda y: kept(jit(lambda v: v * y)(ONES)), 32.0, 1.0),
    "the identity's cotangent": (lambda y: kept(vjp(lambda v: v, ONES)[1](y)[0]), 32.0, 1.0),
    "the identity's tangent": (lambda y: kept(linearize(lambda v: v, ONES)[1](y)), 32.0, 1.0),
    "the identity's primal": (lambda y: kept(jvp(lambda v: v, (y,), (ONES,))[0]), 32.0, 1.0),
    "the identity pushing": (lambda y: kept(jvp(lambda v: v, (ONES,), (y,))[1]), 32.0, 1.0),
    "the identity mapped": (lambda y: kept(vmap(lambda v: v)(y)), 32.0, 1.0),
    "the identity jitted": (lambda y: kept(jit(lambda v: v)(y)), 32.0, 1.0),
    "the identity checkpointed": (lambda y: kept(checkpoint(lambda v: v)(y)), 32.0, 1.0),
    "a branch": (lambda y: kept(lax.cond(True, lambda v: v, lambda v: v, y)), 32.0, 1.0),
}


@pytest.mark.parametrize("name", USES)
def test_a_derivative_keeps_what_a_cell_held_when_it_was_made(name):
    make, value, slope = USES[name]

    def f(x):
        y = fnp.zeros(2)
        y[0] = x
        y[1] = 3.0
        use = make(y)
        y[0] = 100.0
        return np.sum(use() * np.array([1.0, 10.0]))

    assert f(2.0) == value
    assert grad(f)(2.0) == slope
    assert jit(f)(2.0) == value
    assert jit(grad(f))(2.0) == slope
    assert jvp(f, (2.0,), (1.0,)) == (value, slope)
    assert vmap(f)(np.array([2.0]))[0] == value


# -------------------------------------------------------------------------------- linear in linear


@pytest.mark.parametrize("wrap", [lambda f: f, jit, checkpoint])
def test_a_linear_function_inside_a_linear_function(wrap):
    def f(x):
        return ftrace.linear_transpose(lambda y: wrap(lambda a, b: a * b)(y, x), 1.0)(2.0)[0]

    assert f(3.0) == 6.0
    assert ftrace.linear_transpose(f, 3.0)(5.0)[0] == 10.0
    assert ftrace.linear_transpose(lambda x: f(x) + x, 3.0)(5.0)[0] == 15.0


def test_an_inner_linear_function_computes_with_a_value_of_the_outer_one():
    def f(x):
        return ftrace.linear_transpose(lambda y: y * (x * 4.0), 1.0)(2.0)[0]

    assert ftrace.linear_transpose(f, 3.0)(5.0)[0] == 40.0


# ---------------------------------------------------------------------------------- captured arrays


def test_an_array_that_nobody_can_write_is_neither_copied_nor_marked():
    memory = bytes(8 * 4)
    for x in (np.frombuffer(memory), np.frombuffer(memory).reshape(2, 2)[0]):
        seen = Captures()
        seen.enter(x)
        assert is_read_only(x)
        assert seen.protect(x) is x
        assert seen.held == []
    frozen = np.ones(4)
    frozen.flags.writeable = False
    assert is_read_only(frozen)
    view = np.ones(4)[1:]
    view.flags.writeable = False
    assert not is_read_only(view)


def large(value):
    return np.full(COPY_LIMIT // 8 + 1, value)


def test_a_large_array_is_held_once_and_given_back():
    x, y = large(1.0), large(2.0)
    seen = Captures()
    for array in (x, y):
        seen.enter(array)
    for _ in range(3):
        assert seen.protect(x) is x
        assert seen.protect(y) is y
    assert [h is a for h, a in zip(seen.held, (x, y), strict=True)] == [True, True]
    assert not x.flags.writeable
    assert not y.flags.writeable
    seen.release()
    assert x.flags.writeable
    assert y.flags.writeable
    assert captures._marks == {}


def test_two_calls_that_hold_one_array_give_it_back_after_the_second():
    x = large(1.0)
    first, second = Captures(), Captures()
    for seen in (first, second):
        seen.enter(x)
        seen.protect(x)
    first.release()
    assert not x.flags.writeable
    second.release()
    assert x.flags.writeable


def test_an_array_at_the_limit_is_copied_and_one_above_it_is_held():
    for extra, held in ((0, 0), (1, 1)):
        x = np.zeros(COPY_LIMIT // 8 + extra)
        seen = Captures()
        seen.enter(x)
        assert (seen.protect(x) is x) == bool(held)
        assert len(seen.held) == held
        seen.release()


def test_an_array_that_did_not_come_from_the_user_is_kept_as_it_is():
    x = np.ones(3)
    assert Captures().protect(x) is x


@pytest.mark.parametrize("use", [grad, lambda f: lambda x: vjp(f, x)[1](1.0)[0]])
def test_an_argument_has_the_value_that_it_had_at_the_call(use):
    x = np.array([1.0, 2.0])

    def f(v):
        x[0] = 50.0
        return np.sum(v * v)

    np.testing.assert_array_equal(use(f)(x), [2.0, 4.0])


@pytest.mark.parametrize("within", [grad, lambda f: lambda x: vmap(f)(np.full(2, x))[0]])
@pytest.mark.parametrize("wrap", [vmap, jit, checkpoint, lambda f: lambda x: jvp(f, (x,), (x,))[0]])
def test_a_result_inside_a_transformation_shares_no_memory_either(wrap, within):
    def f(x):
        plain = np.array([1.0, 2.0])
        result = wrap(lambda v: v)(plain)
        if isinstance(result, np.ndarray):
            result[0] = 5.0
        return x * plain[0]

    assert within(f)(1.0) == 1.0


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
def test_a_change_of_any_byte_and_of_the_order_changes_the_digest(dtype):
    array = np.arange(1, 14).astype(dtype)
    before = captures.digest(array)
    for i in range(array.size):
        changed = array.copy()
        changed[i] += 1
        assert captures.digest(changed) != before
    assert captures.digest(np.roll(array, 1)) != before
    assert captures.digest(array[::-1]) != before
    assert captures.digest(array[::2]) == captures.digest(array[::2].copy())


def test_the_floating_point_settings_of_the_user_come_back():
    with np.errstate(divide="warn", invalid="raise", over="ignore", under="warn"):
        before = np.geterr()
        grad(lambda x: np.where(x > 0, np.sqrt(x), 0.0))(0.0)
        assert np.geterr() == before
        with pytest.raises(ZeroDivisionError):
            grad(lambda x: x * (1 / 0))(1.0)
        assert np.geterr() == before


def test_a_tracer_of_another_thread_is_a_leak():
    found = []

    def f(x):
        cell = np.ones(2) * x

        def elsewhere():
            for use in (
                lambda: jit(lambda y: x * y)(2.0),
                lambda: vmap(lambda y: x)(X),
                lambda: jvp(lambda y: x, (2.0,), (3.0,)),
                lambda: ftrace.make_jaxpr(lambda y: x * y)(2.0),
                lambda: cell.__setitem__(0, 1.0),
            ):
                try:
                    found.append(use())
                except ftrace.errors.UnexpectedTracerError as error:
                    found.append(type(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return x

    jit(f)(1.0)
    jvp(f, (1.0,), (1.0,))
    assert found == [ftrace.errors.UnexpectedTracerError] * 10

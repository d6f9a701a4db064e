"""Rules of functions that write their arguments: `custom_jvp(mutates=)` (C1, C7)."""

import functools

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.errors import (
    DerivativeError,
    DtypeError,
    MutationError,
    TracerArrayConversionError,
    TreeError,
)

X = np.arange(6.0).reshape(2, 3) + 1.0
Y = np.linspace(0.0, 1.0, 12).reshape(3, 4)
V = np.arange(3.0)


@functools.partial(ftrace.custom_jvp, mutates=0)
def product(z, x, y):
    """The seed's example: a product into memory that is there."""
    np.matmul(x, y, out=z)
    return z


@product.defjvp
def _of_product(primals, tangents):
    (z, x, y), (z_dot, x_dot, y_dot) = primals, tangents
    np.matmul(x, y, out=z)
    np.matmul(x, y_dot, out=z_dot)
    z_dot += x_dot @ y
    return z, z_dot


@functools.partial(ftrace.custom_jvp, mutates="total")
def accumulate(x, total, times):
    total += x * times
    return np.sum(total)


@accumulate.defjvp
def _of_accumulate(primals, tangents):
    (x, total, times), (x_dot, total_dot, times_dot) = primals, tangents
    total += x * times
    total_dot += x_dot * times + x * times_dot
    return np.sum(total), np.sum(total_dot)


def with_rule(x, y):
    z = fnp.zeros((2, 4))
    w = product(z, x, y)
    return np.sum(z**2) + np.sum(np.sin(w))


def plainly(x, y):
    z = x @ y
    return np.sum(z**2) + np.sum(np.sin(z))


def repeatedly(x):
    total = x * 2.0
    first = accumulate(x, total, 2.0)
    second = accumulate(np.sin(x), total, first)
    return first * second + np.sum(total * total)


def repeatedly_by_hand(x):
    total = x * 2.0 + x * 2.0
    first = np.sum(total)
    total = total + np.sin(x) * first
    return first * np.sum(total) + np.sum(total * total)


TRANSFORMED = {
    "jvp": lambda f, *xs: ftrace.jvp(f, xs, tuple(np.cos(x) for x in xs))[1],
    "grad": lambda f, *xs: ftrace.grad(f)(*xs),
    "jit": lambda f, *xs: ftrace.jit(ftrace.value_and_grad(f))(*xs)[1],
    "hessian": lambda f, *xs: ftrace.hessian(f)(*xs),
    "jacfwd twice": lambda f, *xs: ftrace.jacfwd(ftrace.jacfwd(f))(*xs),
    "vmap": lambda f, *xs: ftrace.vmap(ftrace.grad(f))(*(np.stack([x, 2 * x]) for x in xs)),
    "vmap outside": lambda f, *xs: ftrace.vmap(f)(*(np.stack([x, 2 * x]) for x in xs)),
}


@pytest.mark.parametrize("how", TRANSFORMED)
def test_derivatives_of_what_is_written(how):
    transformed = TRANSFORMED[how]
    np.testing.assert_allclose(
        transformed(with_rule, X, Y), transformed(plainly, X, Y), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(
        transformed(repeatedly, V), transformed(repeatedly_by_hand, V), rtol=1e-12
    )


def test_the_callers_array_is_written_and_returned():
    z = np.full((2, 4), 7.0)
    assert product(z, X, Y) is z
    np.testing.assert_array_equal(z, X @ Y)
    total = np.ones(3)
    assert accumulate(V, total, 2.0) == 9.0
    np.testing.assert_array_equal(total, 1 + 2 * V)
    part = np.zeros((3, 2))
    accumulate(V, part[:, 1], 1.0)
    np.testing.assert_array_equal(part[:, 1], V)


def test_what_may_not_be_written_is_named():
    with pytest.raises(MutationError, match="total and x of accumulate share memory"):
        accumulate(V, V, 1.0)
    with pytest.raises(MutationError, match="share memory"):
        ftrace.grad(lambda x: repeat_of(x * 1.0))(V)
    with pytest.raises(DtypeError, match="total of accumulate, which is written"):
        accumulate(V, 1.0, 1.0)
    with pytest.raises(MutationError, match="argument of the function"):
        ftrace.grad(lambda x: accumulate(V, x, 1.0))(V)
    outside = np.zeros(3)
    with pytest.raises(TracerArrayConversionError, match="into a plain array"):
        ftrace.grad(lambda x: accumulate(x, outside, 1.0))(V)
    with pytest.raises(MutationError, match="custom_jvp\\(f, mutates="):
        undeclared(np.zeros(3), V)


def repeat_of(y):
    return accumulate(y, y[::-1], 1.0)


@ftrace.custom_jvp
def undeclared(total, x):
    total += x
    return np.sum(total)


undeclared.defjvps(lambda t, y, total, x: np.sum(t), lambda t, y, total, x: np.sum(t))


def test_wrong_declarations_are_named():
    with pytest.raises(DtypeError, match="no argument called 'z'"):
        ftrace.custom_jvp(lambda x: x, mutates="z")
    with pytest.raises(DtypeError, match="both name argument 0"):
        ftrace.custom_jvp(lambda x: x, (0,), mutates=0)
    with pytest.raises(DtypeError, match=r"mutates is 1\.5"):
        ftrace.custom_jvp(lambda x: x, mutates=1.5)
    with pytest.raises(DtypeError, match="symbolic_zeros"):
        ftrace.custom_jvp(lambda x: x, mutates=0).defjvp(lambda p, t: (p, t), symbolic_zeros=True)


def wrong(primal, tangent, result):
    """A rule of `accumulate` with three factors that should be 1."""

    def rule(primals, tangents):
        (x, total, times), (x_dot, total_dot, times_dot) = primals, tangents
        total += primal * x * times
        total_dot += tangent * (x_dot * times + x * times_dot)
        return np.sum(total) * result, np.sum(total_dot) * result

    return rule


@pytest.mark.parametrize("factors", [(2, 1, 1), (1, 2, 1), (1, 1, 2)])
def test_a_rule_that_leaves_another_state_is_found(factors):  # C1, C4
    planted = ftrace.custom_jvp(accumulate.fun, mutates="total", verify="first_call")
    planted.defjvp(wrong(*factors))
    with pytest.raises(DerivativeError, match="accumulate"):
        ftrace.testing.test_rule(planted, V, np.ones(3), 0.5)
    with pytest.raises(DerivativeError, match="accumulate"):
        planted(V, np.ones(3), 0.5)
    right = ftrace.custom_jvp(accumulate.fun, mutates="total", verify="first_call")
    right.defjvp(wrong(1, 1, 1))
    total = np.ones(3)
    ftrace.testing.test_rule(right, V, total, 0.5)
    np.testing.assert_array_equal(total, np.ones(3))
    assert right(V, total, 0.5) == 4.5


def test_methods_that_write_and_integers():
    class Filter:
        @functools.partial(ftrace.custom_jvp, nondiff_argnums=(0, 3), mutates="state")
        def step(self, x, state, n):
            state *= 0.5
            state += x * n

        @step.defjvp
        def _rule(self, n, primals, tangents):
            for x, state in (primals, tangents):
                state *= 0.5
                state += x * n
            return None, None

        def run(self, xs):
            state = fnp.zeros(3)
            for i in range(3):
                self.step(xs[i] ** 2, state, i)
            return np.sum(state)

    xs = np.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(
        ftrace.grad(Filter().run)(xs), 2 * xs * np.array([[0.0], [0.5], [2.0]])
    )


@functools.partial(ftrace.custom_jvp, mutates=0)
def add_of(total, parts):
    total += parts["x"]


@add_of.defjvp
def _of_add_of(primals, tangents):
    for total, parts in (primals, tangents):
        total += parts["x"]
    return None, None


def added_to_itself(x, part=lambda y: y):
    y = x * 1.0
    add_of(y, {"n": 2, "x": part(y)})
    return y


@pytest.mark.parametrize("part", [lambda y: y, lambda y: y[::-1], lambda y: y[:1]])
def test_what_is_written_may_not_be_in_a_container_either(part):
    shared = pytest.raises(MutationError, match=r"total and parts\['x'\] of add_of share memory")
    y = V.copy()
    with shared:
        add_of(y, {"n": 2, "x": part(y)})
    np.testing.assert_array_equal(y, V)
    for transformed in (
        lambda f: ftrace.jvp(f, (V,), (V,)),
        lambda f: ftrace.jacrev(f)(V),
        lambda f: ftrace.jit(f)(V),
        lambda f: ftrace.vmap(f)(np.stack([V, V])),
    ):
        with shared:
            transformed(lambda x: added_to_itself(x, part))
    found = ftrace.jvp(lambda x: added_to_itself(x, np.copy), (V,), (np.ones(3),))
    np.testing.assert_array_equal(found, (2 * V, np.full(3, 2.0)))


def returning_part(part):
    """A function that writes its first argument and returns a part of it."""

    @functools.partial(ftrace.custom_jvp, mutates="total")
    def write(total, x):
        total += x
        return [part(total)]

    @write.defjvp
    def _rule(primals, tangents):
        for total, x in (primals, tangents):
            total += x
        return [part(primals[0])], [part(tangents[0])]

    return write


def used(write, x):
    total = fnp.zeros(3)
    (part,) = write(total, x)
    part[0] = 10.0 * x[0]
    return np.sum(total * x) + np.sum(part)


VIEWS = {"slice": lambda t: t[:2], "all": lambda t: t[:], "turned": lambda t: np.flip(t)}


@pytest.mark.parametrize("view", VIEWS)
def test_views_of_what_is_written_are_not_returned(view):
    write = returning_part(VIEWS[view])
    refused = pytest.raises(
        MutationError, match=r"write, or its rule, returns a view of total.*mutates="
    )
    with refused as caught:
        write(np.zeros(3), V)
    assert "Return a copy of it" in str(caught.value)
    for transformed in (ftrace.grad, ftrace.jacfwd, ftrace.jit, ftrace.hessian):
        with refused:
            transformed(lambda x: used(write, x))(V)


@pytest.mark.parametrize("whole", [False, True])
def test_copies_and_the_whole_of_what_is_written_are_returned(whole):
    write = returning_part((lambda t: t) if whole else (lambda t: t[:2].copy()))

    def by_hand(x):
        total = fnp.zeros(3) + x
        part = total if whole else total[:2].copy()
        part[0] = 10.0 * x[0]
        return np.sum(total * x) + np.sum(part)

    for transformed in (ftrace.grad, ftrace.jacfwd, ftrace.jit, ftrace.hessian):
        np.testing.assert_allclose(
            transformed(lambda x: used(write, x))(V), transformed(by_hand)(V), rtol=1e-14
        )


@pytest.mark.parametrize(
    ("mutates", "fun"),
    [
        (-1, lambda x: x),
        ((0, -2), lambda x: x),
        (1, lambda x: x),
        ((0, 2), lambda x, y=1.0: x),
        (True, lambda x, y: x),
        (1.5, lambda *x: x),
        (1, lambda x, *, y: x),
        (1, np.sin),
    ],
)
def test_positions_that_are_no_arguments_are_named(mutates, fun):
    with pytest.raises(DtypeError, match=r"mutates is "):
        ftrace.custom_jvp(fun, mutates=mutates)


def test_a_position_that_a_call_lacks_is_named():
    write = ftrace.custom_jvp(lambda *xs: None, mutates=2)
    write.defjvp(lambda primals, tangents: (None, None))
    with pytest.raises(TreeError, match="mutates=2 names an argument that this call"):
        write(np.zeros(3))

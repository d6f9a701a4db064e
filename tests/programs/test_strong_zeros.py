"""Untaken sides contribute exactly zero, at every order, through every row that can stand between.

The value is `where(taken, f(x), g(x))` at a point where the untaken side's derivative is infinite
or NaN. A genuine NaN on a taken side stays one.
"""

import numpy as np
import pytest

import ftrace
from ftrace import grad, jit, jvp, lax, vmap


def second(f):
    return grad(grad(f))


# program, point, first derivative, second derivative
PROGRAMS = {
    "sqrt": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 0.0, 0.0),
    "log": (lambda x: np.where(x > 1, np.log(x - 1), x * x), 1.0, 2.0, 2.0),
    "sqrt times itself": (lambda x: np.where(x > 0, np.sqrt(x) * np.sqrt(x), 0.0), 0.0, 0.0, 0.0),
    "shared sqrt": (
        lambda x: (lambda s: np.where(x > 0, s * s, 0.0))(np.sqrt(x)),
        0.0,
        0.0,
        0.0,
    ),
    "nested where": (
        lambda x: np.where(x > 0, np.where(x > 1, np.log(x), np.sqrt(x)), x),
        0.0,
        1.0,
        0.0,
    ),
    "division by zero": (lambda x: np.where(x > 0, 1.0 / x, 3.0 * x), 0.0, 3.0, 0.0),
    "maximum": (lambda x: np.maximum(np.sqrt(x), x * x + 1.0), 0.0, 0.0, 2.0),
    "power": (lambda x: np.where(x > 0, x**0.5, 3.0 * x), 0.0, 3.0, 0.0),
    "operand of a cond": (
        lambda x: (lambda s: lax.cond(x > 1, lambda: s, lambda: 2.0 * x * x))(np.sqrt(x - 1)),
        0.5,
        2.0,
        4.0,
    ),
    "operand of the middle of a switch": (
        lambda x: (lambda s: lax.switch(5, [lambda: x, lambda: s + s * s, lambda: x**3]))(
            np.log(x - 1)
        ),
        0.5,
        0.75,
        3.0,
    ),
}


def of_two_operands(x):
    """Both sides of a decision, each with what only it uses."""
    root, inverse = np.sqrt(x - 1), np.reciprocal(x - x)
    if x > 1:
        return root
    if x > 0.75:
        return inverse
    return x * x


PROGRAMS["lifted decisions"] = (of_two_operands, 0.5, 1.0, 2.0)

WRAPPERS = {
    "grad": lambda f: (grad(f), second(f)),
    "jit of grad": lambda f: (jit(grad(f)), jit(second(f))),
    "grad of jit": lambda f: (grad(jit(f)), grad(jit(grad(jit(f))))),
    "vmap of grad": lambda f: (
        lambda x: vmap(grad(f))(np.array([x, 4.0]))[0],
        lambda x: vmap(second(f))(np.array([x, 4.0]))[0],
    ),
    "jvp": lambda f: (
        lambda x: jvp(f, (x,), (1.0,))[1],
        lambda x: jvp(lambda y: jvp(f, (y,), (1.0,))[1], (x,), (1.0,))[1],
    ),
    "jvp of grad": lambda f: (grad(f), lambda x: jvp(grad(f), (x,), (1.0,))[1]),
    "grad of jvp": lambda f: (grad(f), grad(lambda y: jvp(f, (y,), (1.0,))[1])),
    "checkpoint": lambda f: (
        grad(ftrace.checkpoint(f)),
        grad(grad(ftrace.checkpoint(f))),
    ),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_scalar_programs_to_order_two(program, wrapper):
    f, point, first, curvature = PROGRAMS[program]
    one, two = WRAPPERS[wrapper](f)
    assert one(point) == first
    assert two(point) == curvature


def through_custom_vjp(f):
    g = ftrace.custom_vjp(f)
    g.defvjp(lambda x: (f(x), f(x)), lambda y, ct: (ct * 0.5 / y,))
    return g


def through_custom_jvp(f):
    g = ftrace.custom_jvp(f)
    g.defjvp(lambda p, t: (g(*p), t[0] * 0.5 / g(*p)))
    return g


ROWS = {
    "plain": lambda f: f,
    "jit": jit,
    "jit of jit": lambda f: jit(jit(f)),
    "cond": lambda f: lambda x: ftrace.lax.cond(x > -1, f, lambda y: y, x),
    "cond of jit": lambda f: lambda x: ftrace.lax.cond(x > -1, jit(f), lambda y: y, x),
    "checkpoint": ftrace.checkpoint,
    "custom_vjp": through_custom_vjp,
    "custom_jvp": through_custom_jvp,
    "named_call": ftrace.named_call,
    "switch": lambda f: lambda x: lax.switch(1, [lambda y: y, f, lambda y: -y], x),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), c), x, length=1)[0],
    "scan, stacked": lambda f: (
        lambda x: lax.scan(lambda c, y: (c, f(y)), 0.0, x + np.zeros(2))[1][1]
    ),
    "binomial scan": lambda f: (
        lambda x: lax.scan(lambda c, _: (f(c), None), x, length=1, checkpoint="binomial", slots=1)[
            0
        ]
    ),
    "while": lambda f: (
        lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]
    ),
    "map": lambda f: lambda x: lax.map(f, x + np.zeros(2))[1],
    "matmul": lambda f: lambda x: np.array([[0.5, 0.5]]) @ (f(x) * np.ones(2)) @ np.ones(1),
    "custom_rule": lambda f: ftrace.custom_rule(f, vjp=lambda ct, y, x: (ct * grad(f)(x),)),
    "custom_gradient": lambda f: ftrace.custom_gradient(
        lambda x: (f(x), lambda ct: (ct * grad(f)(x),))
    ),
}


@pytest.mark.parametrize("composition", ["grad", "jit of grad", "grad of jit", "vmap of grad"])
@pytest.mark.parametrize("row", ROWS)
def test_an_untaken_side_behind_every_row_that_holds_functions(row, composition):
    inner = ROWS[row](np.sqrt)
    one, two = WRAPPERS[composition](lambda x: np.where(x > 0, inner(x), 3.0 * x))
    assert one(0.0) == 3.0
    assert two(0.0) == 0.0


def test_a_shared_factor_of_members_that_do_not_take_a_side():
    """b is the same for all members; what it multiplies is NaN where the side is not taken."""

    def f(b, members):
        side = lambda x: lax.cond(x > 0, lambda y: b * np.sqrt(b * y), lambda y: y, x)  # noqa: E731
        return np.sum(vmap(side)(members))

    members = np.array([1.0, -1.0, 0.0])
    for g in (grad(f), jit(grad(f)), grad(jit(f))):
        np.testing.assert_allclose(g(2.0, members), 1.5 * np.sqrt(2.0))
    np.testing.assert_allclose(grad(grad(f))(2.0, members), 0.75 / np.sqrt(2.0))


def test_a_mapped_cond_takes_each_members_own_side():
    f = vmap(lambda x: ftrace.lax.cond(x > 0, np.sqrt, lambda y: 3.0 * y, x))
    x = np.array([0.0, 4.0, -1.0])
    np.testing.assert_array_equal(grad(lambda x: np.sum(f(x)))(x), [3.0, 0.25, 3.0])
    np.testing.assert_array_equal(jit(grad(lambda x: np.sum(f(x))))(x), [3.0, 0.25, 3.0])


def overwritten_twice(x):
    y = np.sqrt(x)
    y[1:3] = np.log(x[:2])
    y[0] = 2.0 * x[0]
    y[2:0:-1] = 0.5
    return np.sum(y)


def overwritten_in_a_loop(x):
    y = np.sqrt(x) * np.sqrt(x)
    for i in range(len(x)):
        if x[i] < 0.0:
            y[i] = 2.0 * x[i]
    return np.sum(y)


ARRAYS = {
    "guarded division": (
        lambda x: (lambda n: np.sum(np.where(n > 0, x / n, 0.0)))(np.sqrt(np.sum(x * x))),
        np.zeros(3),
        np.zeros(3),
    ),
    "guarded norm": (
        lambda x: (lambda s: np.where(s > 0, np.sqrt(s), 0.0))(np.sum(x * x)),
        np.zeros(3),
        np.zeros(3),
    ),
    "linalg.norm": (lambda x: np.linalg.norm(x), np.zeros(3), np.zeros(3)),
    "broadcast and transpose": (
        lambda x: np.sum(
            np.where(x[:, None] > 0, np.broadcast_to(np.sqrt(x), (3, 3)).T, 0.0)
            * np.arange(9.0).reshape(3, 3)
        ),
        np.array([0.0, 4.0, 0.0]),
        np.array([0.0, 12 * 0.25, 0.0]),
    ),
    "slices, reshapes and reversals": (
        lambda x: np.sum(np.where(x > 0, np.sqrt(x[::-1].reshape(1, 3))[0][::-1], x)),
        np.array([0.0, 4.0, 0.0]),
        np.array([1.0, 0.25, 1.0]),
    ),
    "gather": (
        lambda x: np.sum(np.where(x[np.array([1, 0, 1])] > 0, np.sqrt(x)[np.array([1, 0, 1])], 0)),
        np.array([0.0, 4.0]),
        np.array([0.0, 0.5]),
    ),
    "concatenate and pad": (
        lambda x: np.sum(
            np.where(np.concatenate([x, x]) > 0, np.concatenate([np.sqrt(x), np.sqrt(x)]), 0.0)
        ),
        np.array([0.0, 4.0]),
        np.array([0.0, 0.5]),
    ),
    "products at places": (
        lambda x: np.sum(np.where(x > 0, np.sqrt(x).at[np.array([1, 2])].multiply(3.0), 5.0 * x)),
        np.array([0.0, 4.0, 0.0]),
        np.array([5.0, 0.75, 5.0]),
    ),
    "a slice at a place": (
        lambda x: np.sum(
            np.where(
                lax.dynamic_slice(x, (1,), (2,)) > 0, lax.dynamic_slice(np.sqrt(x), (1,), (2,)), 0.0
            )
        ),
        np.array([0.0, 0.0, 4.0]),
        np.array([0.0, 0.0, 0.25]),
    ),
    "an element that is overwritten": (
        lambda x: (lambda y: (y.__setitem__(1, 1.5), np.sum(y * y))[1])(np.sqrt(x)),
        np.array([4.0, -1.0, 9.0]),
        np.array([1.0, 0.0, 1.0]),
    ),
    "slices that are overwritten, one with a part of the other": (
        overwritten_twice,
        np.array([-4.0, -1.0, -9.0, 4.0]),
        np.array([2.0, 0.0, 0.0, 0.25]),
    ),
    "rows that are overwritten": (
        lambda x: (lambda y: (y.__setitem__((slice(None), 0), x), np.sum(y * x))[1])(
            np.sqrt(x) * np.array([[0.0, 1.0], [0.0, 1.0]])
        ),
        np.array([-1.0, 4.0]),
        np.array([2.0, 5.0]),
    ),
    "places that are overwritten": (
        lambda x: (lambda y: (np.put(y, [2, 0], 3.0), np.sum(y * y))[1])(np.sqrt(x)),
        np.array([-4.0, 1.0, -9.0]),
        np.array([0.0, 1.0, 0.0]),
    ),
    "updates of places that later ones overwrite": (
        lambda x: np.sum((x[:2] * 0.0).at[np.array([1, 0, 1])].set(np.sqrt(x) * x)),
        np.array([-4.0, 1.0, 4.0]),
        np.array([0.0, 1.5, 3.0]),
    ),
    "a slice at a place that is overwritten": (
        lambda x: np.sum(
            lax.dynamic_update_slice(np.sqrt(x), x[:2] * 3.0, (np.argmin(x),))  # at 0
        ),
        np.array([-4.0, -1.0, 4.0]),
        np.array([3.0, 3.0, 0.25]),
    ),
    "elements that a loop may overwrite": (
        overwritten_in_a_loop,
        np.array([-4.0, 1.0, -9.0]),
        np.array([2.0, 1.0, 2.0]),
    ),
    "elements that a native loop overwrites": (
        lambda x: np.sum(
            lax.fori_loop(0, 4, lambda i, y: y.at[i % 2].set(np.sqrt(x[i]) * y[2]), x * x)
        ),
        np.array([-1.0, -1.0, 4.0, 16.0]),
        np.array([0.0, 0.0, 60.0, 34.0]),
    ),
    "a reduced side, wholly untaken": (
        lambda x: np.where(np.sum(x) > 1.0, np.sum(np.sqrt(x)), np.sum(2.0 * x)),
        np.zeros(3),
        np.full(3, 2.0),
    ),
}


@pytest.mark.parametrize(
    "transform",
    [
        grad,
        lambda f: jit(grad(f)),
        lambda f: grad(jit(f)),
        lambda f: lambda x: vmap(grad(f))(np.stack([x, x]))[1],
        lambda f: lambda x: ftrace.jacfwd(f)(x),
    ],
    ids=["grad", "jit of grad", "grad of jit", "vmap of grad", "jacfwd"],
)
@pytest.mark.parametrize("program", ARRAYS)
def test_array_programs(program, transform):
    f, point, expected = ARRAYS[program]
    np.testing.assert_array_equal(transform(f)(point), expected)


def test_elements_that_are_overwritten_have_no_second_derivative():
    def f(x):
        y = np.sqrt(x)
        y[1:] = x[:2] ** 3
        return np.sum(y * x[1])

    point = np.array([4.0, -1.0, -2.0])
    expected = [[-1 / -32 - 24.0, 0.25 + 48.0, 0.0], [0.25 + 48.0, -6.0 * -1.0, 0.0], [0.0] * 3]
    expected[1][1] = 6.0 * -1.0 * -1.0 + 2 * 3.0
    for h in (ftrace.hessian(f), ftrace.jacrev(grad(f)), jit(ftrace.jacfwd(grad(f)))):
        np.testing.assert_allclose(h(point), expected)


def test_writes_to_separate_slices_of_new_zeros_make_no_mask():
    def f(x):
        y = np.zeros((4, 6))
        for i in range(3):
            y[i, 1::2] = np.sin(x)
            y[i, ::2] = x
            y[3, i] = x[i] * 2.0
        return np.sum(y * y)

    text = str(ftrace.make_jaxpr(grad(f))(np.ones(3)))
    assert "bool" not in text
    assert "select" not in text


def test_a_taken_use_keeps_its_infinity():
    def f(x):
        s = np.sqrt(x)
        return np.where(x > 0, s, 0.0) + s

    assert grad(f)(0.0) == np.inf


@pytest.mark.parametrize("transform", [grad, lambda f: jit(grad(f)), lambda f: grad(jit(f))])
def test_a_genuine_nan_on_a_taken_side_stays(transform):
    assert np.isnan(transform(lambda x: np.where(x > 0, np.sqrt(x - 1), 0.0))(0.5))


def test_a_product_of_square_roots_at_zero_is_a_genuine_nan():
    def f(x):
        s = np.sqrt(x)
        return s * s

    assert np.isnan(grad(f)(0.0))


def test_programs_without_a_choice_pay_nothing():
    jaxpr = ftrace.make_jaxpr(grad(lambda x: np.sum(np.sin(x) * x)))(np.ones(3))
    assert "select" not in str(jaxpr)

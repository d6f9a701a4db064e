"""`lax.reduce`: what becomes a reduction of its name, what is a tree of combinations, mistakes."""

import operator

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core.errors import AxisError, DtypeError, ShapeError, TreeError
from tests.lax.agreement import COMPOSITIONS, assert_agrees

RNG = np.random.default_rng(91)
X = RNG.normal(size=(3, 4, 2))


def rows_of(f, *args):
    return [eqn.primitive.name for eqn in ftrace.make_jaxpr(f)(*args).eqns]


FLOATS = {
    "add": (lax.add, 0.0, "reduce_sum", np.sum),
    "a lambda of +": (lambda a, b: a + b, 0.0, "reduce_sum", np.sum),
    "a turned lambda": (lambda a, b: b + a, 0.0, "reduce_sum", np.sum),
    "operator.mul": (operator.mul, 1.0, "reduce_prod", np.prod),
    "mul": (lax.mul, 1.0, "reduce_prod", np.prod),
    "numpy.maximum": (np.maximum, -np.inf, "reduce_max", np.max),
    "fnp.minimum": (fnp.minimum, np.inf, "reduce_min", np.min),
    "max": (lax.max, -np.inf, "reduce_max", np.max),
}


@pytest.mark.parametrize("name", FLOATS)
def test_monoids_become_one_reduction(name):
    computation, init, row, function = FLOATS[name]

    def f(x):
        return lax.reduce(x, init, computation, (0, 2))

    assert rows_of(f, X) == [row]
    np.testing.assert_allclose(f(X), function(X, (0, 2)), rtol=1e-15)


@pytest.mark.parametrize(
    ("computation", "init", "row", "expected"),
    [
        (lax.bitwise_and, True, "reduce_and", [False, True, False]),
        (lax.bitwise_or, False, "reduce_or", [True, True, False]),
        (lambda a, b: a ^ b, False, "reduce_xor", [True, False, False]),
        (lax.max, False, "reduce_max", [True, True, False]),
    ],
)
def test_booleans(computation, init, row, expected):
    x = np.array([[True, False], [True, True], [False, False]])
    assert rows_of(lambda x: lax.reduce(x, init, computation, (1,)), x) == [row]
    np.testing.assert_array_equal(lax.reduce(x, init, computation, (1,)), expected)


@pytest.mark.parametrize(
    ("computation", "dtype", "identity"),
    [
        (lax.bitwise_and, "u1", 255),
        (lax.bitwise_and, "i8", -1),
        (lax.max, "i4", np.iinfo("i4").min),
        (lax.min, "u1", 255),
        (lax.bitwise_xor, "i4", 0),
    ],
)
def test_identities_of_integers_add_nothing(computation, dtype, identity):
    x = np.array([5, 3, 9], dtype)
    assert (
        len(rows_of(lambda x: lax.reduce(x, dtype_of(dtype, identity), computation, (0,)), x)) == 1
    )


def dtype_of(dtype, value):
    return np.dtype(dtype).type(value)


@pytest.mark.parametrize(
    "computation",
    [lambda a, b: a - b + 2 * b, lambda a, b: a, lambda a, b: a + a],
    ids=["a longer sum", "the first", "one operand twice"],
)
def test_what_is_not_one_commutative_row_of_both_is_not_taken_for_one(computation):
    names = rows_of(lambda x: lax.reduce(x, 0.0, computation, (0,)), X)
    assert not {"reduce_sum", "reduce_prod", "reduce_max"} & set(names)


@pytest.mark.parametrize("n", range(1, 12))
def test_a_computation_that_does_not_commute_keeps_the_order(n):
    """Affine maps under composition: associative, not commutative."""
    a, b = RNG.normal(size=(2, n, 3))

    def after(f, g):
        return f[0] * g[0], f[1] * g[0] + g[1]

    found = lax.reduce((a, b), (2.0, 3.0), after, (0,))
    factor, shift = np.full(3, 2.0), np.full(3, 3.0)
    for i in range(n):
        factor, shift = factor * a[i], shift * a[i] + b[i]
    np.testing.assert_allclose(found[0], factor, rtol=1e-12)
    np.testing.assert_allclose(found[1], shift, rtol=1e-12)


def test_the_order_of_several_dimensions_is_that_of_c():
    found = lax.reduce(X, 0.0, lambda a, b: b, (2, 0))
    np.testing.assert_array_equal(found, X[-1, :, -1])
    np.testing.assert_array_equal(lax.reduce(X, 7.0, lambda a, b: a, (0, 1, 2)), 7.0)


def norm(a, b):
    return a + b - a * b * 0.3


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("computation", [lax.mul, norm], ids=["product", "a Python function"])
def test_every_transformation_agrees_with_differences(composition, computation):
    assert_agrees(composition, lambda x: lax.reduce(x, 0.7, computation, (0, 2)), X)


@pytest.mark.parametrize("computation", [lax.mul, lax.add, norm])
def test_the_initial_value_has_a_derivative(computation):
    def f(init):
        return lax.reduce(X[0], init, computation, (0, 1))

    h = 1e-6
    expected = (f(0.4 + h) - f(0.4 - h)) / (2 * h)
    np.testing.assert_allclose(ftrace.grad(f)(0.4), expected, rtol=1e-8)
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(0.4), expected, rtol=1e-8)
    initials = np.array([0.1, 0.4])
    np.testing.assert_allclose(ftrace.vmap(f)(initials), [f(0.1), f(0.4)], rtol=1e-14)


def test_a_computation_may_use_outer_values_and_control_flow():
    def f(scale):
        def combine(a, b):
            return lax.cond(a > b, lambda: a + scale * b, lambda: a * scale + b)

        return lax.reduce(X, 0.5, combine, (0, 1, 2))

    def plain(scale):
        total = [float(v) for v in X.ravel()]

        def combine(a, b):
            return a + scale * b if a > b else a * scale + b

        left = []
        while len(total) > 1:
            if len(total) % 2:
                left.append(total.pop())
            total = [combine(*total[i : i + 2]) for i in range(0, len(total), 2)]
        result = total[0]
        for last in reversed(left):
            result = combine(result, last)
        return combine(0.5, result)

    np.testing.assert_allclose(f(0.9), plain(0.9), rtol=1e-13)
    np.testing.assert_allclose(ftrace.jit(f)(0.9), plain(0.9), rtol=1e-13)
    h = 1e-6
    expected = (plain(0.9 + h) - plain(0.9 - h)) / (2 * h)
    np.testing.assert_allclose(ftrace.grad(f)(0.9), expected, rtol=1e-7)
    scales = np.array([0.9, 0.4, 1.1])
    np.testing.assert_allclose(ftrace.vmap(f)(scales), [plain(s) for s in scales], rtol=1e-13)


def test_nothing_to_reduce_gives_the_initial_value():
    for computation in (lax.add, lax.max, norm):
        found = lax.reduce(np.zeros((3, 0)), 2.5, computation, (1,))
        np.testing.assert_array_equal(found, [2.5] * 3)
        np.testing.assert_array_equal(
            ftrace.grad(lambda i: np.sum(lax.reduce(np.zeros((3, 0)), i, lax.add, (1,))))(1.0), 3.0
        )
    assert lax.reduce(np.zeros((0, 3)), 0.0, norm, (1,)).shape == (0,)
    np.testing.assert_allclose(lax.reduce(X, 0.0, norm, ()), norm(0.0, X))


MISTAKES = {
    "no such axis": (lambda: lax.reduce(X, 0.0, lax.add, (3,)), AxisError, "axis 3"),
    "no function": (lambda: lax.reduce(X, 0.0, 3, (0,)), DtypeError, "as its computation"),
    "shapes": (
        lambda: lax.reduce((X, X[0]), (0.0, 0.0), lambda a, b: a, (0,)),
        ShapeError,
        r"operands\[1\]",
    ),
    "no operands": (lambda: lax.reduce((), (), lax.add, (0,)), TreeError, "no operands"),
    "an initial array": (lambda: lax.reduce(X, X[0], lax.add, (0,)), ShapeError, "It is a scalar"),
    "an initial float for integers": (
        lambda: lax.reduce(np.arange(3), 0.5, lax.add, (0,)),
        DtypeError,
        "do not promote",
    ),
    "containers": (
        lambda: lax.reduce(X, 0.0, lambda a, b: (a, b), (0,)),
        TreeError,
        "other containers",
    ),
    "an array as result": (
        lambda: lax.reduce(X, 0.0, lambda a, b: fnp.stack([a, b]), (0,)),
        ShapeError,
        "combines two scalars",
    ),
    "another dtype as result": (
        lambda: lax.reduce(np.arange(3), 0, lambda a, b: np.sin(a + b), (0,)),
        DtypeError,
        "do not promote",
    ),
    "a comparison": (lambda: lax.reduce(X, 0.0, lax.lt, (0,)), DtypeError, "do not promote"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name):
    f, error, phrase = MISTAKES[name]
    with pytest.raises(error, match=phrase):
        f()

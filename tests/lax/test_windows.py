"""`reduce_window`: values against a loop over windows, all transformations, ties, mistakes."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.core.errors import DtypeError, ShapeError, TreeError
from tests.lax.agreement import COMPOSITIONS, assert_agrees

RNG = np.random.default_rng(81)
X = RNG.normal(size=(4, 5))


def naive(x, init, combine, window, strides, pads, apart, spread):  # noqa: PLR0913
    """Each window's elements combined one by one, in C order, the initial value first."""
    wide = [(n - 1) * d + 1 + a + b for n, d, (a, b) in zip(x.shape, apart, pads, strict=True)]
    full = np.full(wide, init, x.dtype)
    for place in np.ndindex(*x.shape):
        full[tuple(p * d + a for p, d, (a, _) in zip(place, apart, pads, strict=True))] = x[place]
    counts = [
        (n - (w - 1) * d - 1) // s + 1
        for n, w, s, d in zip(wide, window, strides, spread, strict=True)
    ]
    out = np.zeros(counts, x.dtype)
    for place in np.ndindex(*counts):
        value = init
        for inside in np.ndindex(*window):
            at = [p * s + i * d for p, i, s, d in zip(place, inside, strides, spread, strict=True)]
            value = combine(value, full[tuple(at)])
        out[place] = value
    return out


SUM = (0.0, lax.add, np.add)
MAX = (-np.inf, lax.max, np.maximum)
MIN = (np.inf, lax.min, np.minimum)
PRODUCT = (1.0, lax.mul, np.multiply)
LATER = (0.0, lambda a, b: b, lambda a, b: b)
WHERES = {
    "plain": ((2, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    "strides": ((2, 2), (2, 3), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    "padding": ((3, 2), (1, 2), ((1, 1), (0, 1)), (1, 1), (1, 1)),
    "dilated windows": ((2, 2), (1, 1), ((0, 0), (1, 0)), (1, 1), (2, 3)),
    "dilated operand": ((3, 2), (1, 2), ((1, 0), (0, 0)), (2, 3), (1, 1)),
    "everything": ((2, 3), (2, 1), ((1, 2), (2, 1)), (2, 1), (3, 2)),
    "one window": ((4, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    "windows of one element": ((1, 1), (2, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
}


def pooled(x, monoid, where):
    init, computation, _ = monoid
    window, strides, pads, apart, spread = where
    return lax.reduce_window(x, init, computation, window, strides, pads, apart, spread)


@pytest.mark.parametrize("where", WHERES.values(), ids=list(WHERES))
@pytest.mark.parametrize(
    "monoid", [SUM, MAX, MIN, PRODUCT, LATER], ids=["sum", "max", "min", "product", "later"]
)
def test_values_are_those_of_the_loop(monoid, where):
    y = pooled(X, monoid, where)
    np.testing.assert_allclose(y, naive(X, monoid[0], monoid[2], *where), rtol=1e-14)
    assert not np.may_share_memory(y, X)
    np.testing.assert_allclose(ftrace.jit(lambda x: pooled(x, monoid, where))(X), y, rtol=1e-14)


@pytest.mark.sampled(3, each="composition")
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("where", ["padding", "everything"])
@pytest.mark.parametrize("monoid", [SUM, MAX, PRODUCT], ids=["sum", "max", "product"])
def test_every_transformation_agrees_with_differences(composition, where, monoid):
    if monoid is MAX:  # minus infinity in windows of padding has no sine
        monoid = (-9.0, lax.max, np.maximum)
    assert_agrees(composition, lambda x: pooled(x, monoid, WHERES[where]), X)


@pytest.mark.parametrize("composition", ["grad", "vmap of grad", "hessian"])
def test_a_python_computation_is_differentiated(composition):
    def f(x):
        return lax.reduce_window(x, 0.5, lambda a, b: a + b - a * b, (2, 2), (1, 2), "VALID")

    assert_agrees(composition, f, X)


def test_the_initial_value_is_differentiated_where_it_pads_and_where_it_starts():
    def f(init):
        return lax.reduce_window(X[0], init, lax.add, (2,), (1,), ((1, 0),))

    np.testing.assert_allclose(ftrace.jacfwd(f)(0.3), [2.0, 1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(ftrace.jacrev(f)(0.3), [2.0, 1.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize(("monoid", "sign"), [(MAX, 1.0), (MIN, -1.0)], ids=["max", "min"])
def test_the_first_of_equal_elements_has_the_gradient(monoid, sign):
    x = sign * np.array([[1.0, 2.0, 2.0], [2.0, 0.0, 2.0], [2.0, 2.0, 1.0]])

    def f(x):
        y = pooled(x, monoid, ((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)))
        return np.sum(y * np.array([[1.0, 10.0], [100.0, 1000.0]]))

    expected = [[0.0, 11.0, 0.0], [100.0, 0.0, 1000.0], [0.0, 0.0, 0.0]]
    np.testing.assert_array_equal(ftrace.grad(f)(x), expected)
    np.testing.assert_array_equal(ftrace.jit(ftrace.grad(f))(x), expected)
    xs = np.stack([x, x], axis=1)
    np.testing.assert_array_equal(ftrace.vmap(ftrace.grad(f), 1)(xs), [expected] * 2)


def test_the_first_nan_of_a_window_has_the_gradient():
    x = np.array([1.0, np.nan, 5.0, np.nan, 2.0])

    def f(x):
        return lax.reduce_window(x, -np.inf, lax.max, (3,), (1,), "VALID")

    np.testing.assert_array_equal(f(x), [np.nan] * 3)
    _, pull = ftrace.vjp(f, x)
    np.testing.assert_array_equal(pull(np.array([1.0, 10.0, 100.0]))[0], [0, 11.0, 0, 100.0, 0])


@pytest.mark.parametrize("turned", [False, True], ids=["wide", "tall"])
def test_few_long_windows_equal_many_short_ones(turned):
    x = RNG.integers(0, 9, size=(3, 40)).astype(float)
    x, size = (x.T, (38, 2)) if turned else (x, (2, 38))
    where = (size, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))
    for monoid in (SUM, MAX, MIN):
        np.testing.assert_allclose(pooled(x, monoid, where), naive(x, monoid[0], monoid[2], *where))
    weights = 10.0 ** np.arange(6).reshape((3, 2) if turned else (2, 3))
    gradient = ftrace.grad(lambda x: np.sum(pooled(x, MAX, where) * weights))(x)
    expected = np.zeros_like(x)
    for (i, j), w in np.ndenumerate(weights):
        part = x[i : i + size[0], j : j + size[1]]
        a, b = np.unravel_index(np.argmax(part), size)
        expected[i + a, j + b] += w
    np.testing.assert_array_equal(gradient, expected)


def test_elements_of_a_window_are_combined_in_c_order():
    """Affine maps under composition: associative, not commutative."""

    def after(f, g):
        return f[0] * g[0], f[1] * g[0] + g[1]

    maps = RNG.normal(size=(2, 3, 4))
    found = lax.reduce_window(tuple(maps), (1.0, 0.0), after, (2, 3), (1, 1), "VALID")
    for i, j in np.ndindex(2, 2):
        f = (1.0, 0.0)
        for a, b in np.ndindex(2, 3):
            f = after(f, maps[:, i + a, j + b])
        np.testing.assert_allclose([found[0][i, j], found[1][i, j]], f, rtol=1e-13)


@pytest.mark.parametrize("padding", ["SAME", "VALID", "SAME_LOWER", "same"])
def test_named_paddings(padding):
    pads = lax.padtype_to_pads(X.shape, (3, 2), (2, 2), padding)
    where = ((3, 2), (2, 2), pads, (1, 1), (1, 1))
    y = lax.reduce_window(X, 0.0, lax.add, (3, 2), (2, 2), padding)
    np.testing.assert_allclose(y, naive(X, 0.0, np.add, *where), rtol=1e-14)


def test_containers_are_reduced_together():
    """The value and the place of the maximum of each window."""

    def later_if_greater(a, b):
        chosen = b["value"] > a["value"]
        return {k: fnp.where(chosen, b[k], a[k]) for k in a}

    x = {"place": np.arange(6), "value": np.array([1.0, 3.0, 3.0, 0.0, 5.0, 4.0])}
    init = {"place": -1, "value": -np.inf}
    y = lax.reduce_window(x, init, later_if_greater, (3,), (1,), "VALID")
    np.testing.assert_array_equal(y["place"], [1, 1, 4, 4], strict=True)
    np.testing.assert_array_equal(y["value"], [3.0, 3.0, 5.0, 5.0], strict=True)


@pytest.mark.parametrize(
    ("dtype", "init", "computation", "expected"),
    [
        ("i4", np.iinfo("i4").min, lax.max, [3, 3, 7]),
        ("u1", 0, lax.max, [3, 3, 7]),
        ("i8", 0, lax.add, [4, 5, 9]),
        ("?", False, lax.bitwise_or, [True, True, True]),
        ("?", True, lax.bitwise_and, [True, True, True]),
        ("?", False, lax.max, [True, True, True]),
        ("f4", 10, lax.add, [14, 15, 19]),
    ],
)
def test_dtypes_are_kept(dtype, init, computation, expected):
    x = np.array([1, 3, 2, 7]).astype(dtype)
    y = lax.reduce_window(x, init, computation, (2,), (1,), "VALID")
    np.testing.assert_array_equal(y, np.array(expected, dtype), strict=True)


def test_windows_that_do_not_fit_give_nothing():
    for computation in (lax.add, lax.mul):
        y = lax.reduce_window(X, 1.0, computation, (5, 1), (1, 1), "VALID")
        assert y.shape == (0, 5)


MISTAKES = {
    "too few windows": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2,), (1, 1), "SAME"),
        ShapeError,
        "1 window_dimensions",
    ),
    "no stride": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (0, 1), "SAME"),
        ShapeError,
        "at least 1",
    ),
    "a padding that is none": (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 1), "ALL"),
        ShapeError,
        "'ALL'",
    ),
    "an initial array": (
        lambda: lax.reduce_window(X, X, lax.add, (2, 2), (1, 1), "SAME"),
        ShapeError,
        "It is a scalar",
    ),
    "an initial value of another dtype": (
        lambda: lax.reduce_window(X, np.float32(0), lax.add, (2, 2), (1, 1), "SAME"),
        DtypeError,
        "do not promote",
    ),
    "initial values in other containers": (
        lambda: lax.reduce_window((X, X), (0.0,), lax.add, (2, 2), (1, 1), "SAME"),
        TreeError,
        "one scalar for each operand",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name):
    f, error, phrase = MISTAKES[name]
    with pytest.raises(error, match=phrase):
        f()


def test_compiled_pooling_equals_the_interpreted_one():
    def loss(x):
        y = lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "SAME")
        return np.sum(lax.reduce_window(y * y, 0.0, lax.add, (2, 2), (2, 2), "SAME") ** 2)

    np.testing.assert_allclose(ftrace.jit(ftrace.grad(loss))(X), ftrace.grad(loss)(X), rtol=1e-12)

"""Rare calls, as NumPy itself answers: numbers beside arrays, NaN, views that are written."""

import threading

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import jit
from ftrace.errors import DtypeError, MutationError, RuleError, UnexpectedTracerError
from tests.numpy.test_corners import check, differentiated, mapped

X = np.array([[1.5, -0.25, 3.0, 0.5], [2.5, 0.0, -1.0, 4.0], [0.1, 0.2, 0.3, -0.4]])
V = np.array([0.3, -1.2, 2.5, 0.0, 1.1])
W = np.float32([0.5, -2.0])
NANS = np.array([1.0, np.nan, 2.0, np.nan, 1.0])
N = np.array([3, -1, 4, 1, -5])
Z = np.array([1.0 + 2.0j, 3.0, -1.0j])
T = np.arange(24.0).reshape(2, 3, 4)


class Deferring:
    """What answers operators itself."""

    __array_ufunc__ = None

    def __rdivmod__(self, other):
        return other, other + 1


CALLS = {
    "convolve of a list": (lambda x: np.convolve([x[0], 2.0], x), V),
    "polyadd of a number": (lambda x: np.polyadd(x[0], x), V),
    "polydiv of numbers": (lambda x: np.polydiv(x[:1], x[2:3])[0], V),
    "a median of a list": (lambda x: np.median([x[0], x[1], x[2]]), V),
    "a median with NaN": (np.median, NANS),
    "a quantile with NaN": (lambda x: np.quantile(x, 0.3), NANS),
    "a percentile with NaN": (lambda x: np.percentile(x, 30), NANS),
    "nanpercentile": (lambda x: np.nanpercentile(x, 50), NANS),
    "a percentile of float32": (lambda x: np.percentile(x, 30.0), W),
    "a quantile with infinity": (lambda x: np.quantile(x * [np.inf, 1.0], 0.75), -V[:2]),
    "a mean where None": (lambda x: np.mean(x, where=None), V),
    "a sum beside True": (lambda x: np.add(x, True), N),
    "a shift by True": (lambda x: np.left_shift(x, True), N),
    "atleast_1d of two": (lambda x: np.atleast_1d(x, x[0])[1], V),
    "atleast_2d of two": (lambda x: np.atleast_2d(x[0], x)[0], V),
    "take_along_axis of one row": (lambda x: np.take_along_axis(x, np.array([[1, 3]]), 1), X),
    "take_along_axis outside": (lambda x: (np.take_along_axis(x, np.array([9]), 0), x)[1], V),
    "lexsort of one key": (lambda x: np.lexsort((x,)), V),
    "division by zero": (lambda x: x / 0.0, V),
    "floor division by zero": (lambda x: x // 0.0, V),
    "divmod of what defers": (lambda x: divmod(x, Deferring())[1], V),
    "a complex number before": (lambda x: (2j + x) * 1j - x, V),
    "a list before": (lambda x: [1, 2, 3, 4, 5] - x, V),
    "iteration over a scalar": (lambda x: list(x[0]), V),
    "minus": (lambda x: (-x, +x, abs(x))[0] * np.float64(0.1), W),
    "degrees": (np.degrees, V),
    "degrees of complex": (np.degrees, Z),
    "floor of complex": (np.floor, Z),
    "signbit of complex": (np.signbit, Z),
    "bits of floats": (lambda x: np.bitwise_and(x, x), V),
    "two outputs": (lambda x: fnp.add(x, 1.0, x * 0, out=x * 0), V),
    "shapes of operands": (lambda x: x[:, None] - x[None] * x[:1, None], V),
    "numbers and arrays of rank 0": (lambda x: x[0] - x * x[1], V),
    "an array that is known": (lambda x: np.subtract(x, np.arange(5.0)), V),
    "norm": (np.linalg.norm, V),
    "einsum_path": (lambda x: np.array(np.einsum_path("ij,kj", x, x)[0][1]), X),
    "more repeats": (lambda x: np.repeat(x, [2, 0, 1, 1, 3]), V),
}

BY_VALUES = {
    "polydiv without a rest": (lambda x: np.polydiv(np.polymul(x, [1, 1]), [1, 1])[1], V[:3]),
    "delete of a list": (lambda x: np.delete(x, [1, 2]), V),
    "unique_values": (np.unique_values, NANS),
    "unique_counts": (lambda x: np.unique_counts(x).counts, NANS),
    "unique_inverse": (lambda x: np.unique_inverse(x).inverse_indices, NANS),
    "unique_all": (lambda x: np.unique_all(x).indices, NANS),
    "delete of the largest": (lambda x: np.delete(x, np.argmax(x)), V),
    "contains": (lambda x: np.array([9.0 in x, 2.5 in x]), V),
}


def written(a):
    b = a
    a += 1
    return b


# of a Python number and an array of float32, whose dtype says whether the number became an array
NUMBERS = {
    "a reshape that is written": lambda s, w: written(np.reshape(s, ())) * w,
    "convolve": lambda s, w: np.convolve(s, w),
    "reshape": lambda s, w: np.reshape(s, ()) + w,
    "reshape to rank 1": lambda s, w: np.reshape(s, (1,)) + w,
    "where of rank 0": lambda s, w: np.where(s > 0, s, -s) * w,
    "choose of rank 0": lambda s, w: np.choose(0, [s, s]) * w,
    "sin": lambda s, w: np.sin(s) * w,
    "negative": lambda s, w: np.negative(s) * w,
    "sin of ftrace": lambda s, w: fnp.sin(s) * w,
    "outer": lambda s, w: np.multiply.outer(s, s) * w,
    "where": lambda s, w: np.where(w > 0, s, s) * w,
    "select": lambda s, w: np.select([w > 0], [s], s) * w,
    "isin": lambda s, w: np.isin(s, [s, s]) * w,
    "choose": lambda s, w: np.choose([0, 1], [s, s]) * w,
    "dot": lambda s, w: np.dot(s, s) * w,
    "kron": lambda s, w: np.kron(s, s) * w,
    "minus": lambda s, w: -s * w,
    "percentile": lambda s, w: np.percentile(w, 100 * s),
    "round": lambda s, w: round(s, 1) * w,
    "round of a comparison": lambda s, w: round(s > 0, 1) * w,
    "digits that are zero": lambda s, w: round(s, 0) * w,
}


@pytest.mark.parametrize("way", [ftrace.jit, mapped])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_it_is_as_numpys(name, way):
    check(*CALLS[name], way)


@pytest.mark.parametrize("name", BY_VALUES)
def test_what_needs_values_is_as_numpys(name):
    check(*BY_VALUES[name], differentiated)


@pytest.mark.parametrize("name", NUMBERS)
def test_python_numbers_become_arrays_where_numpys_do(name):
    f = NUMBERS[name]
    check(lambda w: f(0.7, w), W, lambda _: lambda w: jit(f)(0.7, w))


def views_of_many(x, i):
    y = x * 1
    views = [y[k % 3 :] for k in range(40)]
    y[0], y[4] = 9.0, 7.0
    return [v.sum() for v in views]


def a_ravel_that_copies(x, i):
    y = x * 1
    v = y[::2]
    r = v.ravel()
    r += 1
    return y, v, r


def a_row_in_place(x, i):
    y = np.outer(x, x)
    y[i] += 1
    y[i, 1:] *= 2
    return y


def a_row_of_a_row_in_place(x, i):
    y = np.multiply.outer(np.outer(x, x), x)
    y[i, 0] += 1
    y[0, i] *= 2
    return y


def a_row_of_one(x, i):
    y = np.zeros((1, 2, 3))
    y[...] = x[0]
    r = y[i - 1].reshape(-1)
    r += 1
    return y


def a_row_in_fortran_order(x, i):
    y = np.zeros((2, 2, 3), order="F")
    y[...] = x[0]
    r = y[i].T.reshape(-1)
    r += 1
    return y, r


def one_of_two_rows(x, i):
    y = np.multiply.outer(np.outer(x, x), x)
    v = y[i, 0] if x[0] > 0 else y[0, i + 1]
    v += 10
    return y


def one_row_by_a_decision(x, i):
    y = x * 1
    v = y[1:] if x[0] > 0 else y[1:5]
    v += 1
    y[2] = 5.0
    return y, v


def an_array_of_a_scalar(x, i):
    a = x.sum()
    b, c = np.real_if_close(a), np.asarray(a)
    b += 1
    c += 2
    return a, b, c


def a_reshape_that_may_not_copy(x, i):
    y = np.zeros((2, 3))
    y[0] = x[0]
    r = y.reshape(-1, copy=False)
    r += 1
    return y


def a_known_array_as_out(x, i):
    sums, products = np.zeros(5), np.zeros(())
    fnp.add(np.arange(5.0), 1.0, out=sums)
    fnp.prod(np.arange(1.0, 5.0), out=products)
    return x * sums * products


def a_division_in_a_try(x, i):
    zero = i * 0.0
    try:
        return x / zero
    except ZeroDivisionError:
        return x


def integers_that_floats_do_not_hold(x, i):
    y = np.zeros(2, np.int64)
    y[:] = [2**53 + i, x[0]]
    return y, np.array([2**53 + i, x[0]], dtype=np.int64)


def vectorized_in_another_dtype(x, i):
    f = fnp.vectorize(lambda a: a * np.float32(0.1))
    g = fnp.vectorize(lambda a: a * 0.1, otypes=[np.float64])
    return f(x), f(np.asarray(x[0])), f(x[0]), g(x.astype(np.float32))


def vectorized_of_a_variable(x, i):
    a = x.sum()
    b = a
    v = fnp.vectorize(lambda t: a)(x[0])
    a += 1
    return a, b, v


def indices(x, i):
    rows, columns = fnp.indices((2, 3), sparse=True)
    return fnp.indices((2, 3)) * x[0], rows * x[1], columns * x[2]


def an_element_of_an_array_of_rank_0(x, i):
    a = np.array(x[0])
    element = a[()]
    a[...] = 7.0
    return a, element


def a_flip_of_what_is_written(x, i):
    y = x * 1
    flipped = np.flip(y)
    y[0] = 9.0
    return flipped


def a_real_part_of_what_is_real(x, i):
    y = x * 1
    z = np.real_if_close(y)
    z[0] = 9.0
    return y


PROGRAMS = [
    an_element_of_an_array_of_rank_0,
    a_flip_of_what_is_written,
    a_real_part_of_what_is_real,
    views_of_many,
    a_ravel_that_copies,
    a_row_in_place,
    a_row_of_a_row_in_place,
    a_row_of_one,
    a_row_in_fortran_order,
    one_of_two_rows,
    one_row_by_a_decision,
    an_array_of_a_scalar,
    a_reshape_that_may_not_copy,
    a_known_array_as_out,
    a_division_in_a_try,
    integers_that_floats_do_not_hold,
    vectorized_in_another_dtype,
    vectorized_of_a_variable,
    indices,
]


def primal(fn):
    """The function as `jvp` runs it, which stages nothing."""
    return lambda x, i: ftrace.jvp(lambda x: fn(x, i), (x,), (x,))[0]


@pytest.mark.parametrize("way", [jit, primal])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_programs_of_arrays_do_what_numpys_do(fn, way):
    expected, got = (a if type(a) in (list, tuple) else [a] for a in (fn(V, 1), way(fn)(V, 1)))
    for y, z in zip(got, expected, strict=True):
        assert (np.shape(y), np.asarray(y).dtype) == (np.shape(z), np.asarray(z).dtype)
        np.testing.assert_allclose(y, z, rtol=1e-12)


def sorted_argument(x):
    x.sort()
    return x


def flat_argument(x):
    x.flat = 1.0
    return x


@pytest.mark.parametrize("fn", [sorted_argument, flat_argument])
def test_an_argument_is_not_written(fn):
    with pytest.raises(MutationError, match="is an argument"):
        jit(fn)(V)


# where they are many, NumPy is not asked what is wrong with an argument
@pytest.mark.parametrize("fn", [
    lambda x: np.diff(np.broadcast_to(x[0], (1 << 20) + 1), "a"),
    lambda x: np.repeat(np.broadcast_to(x[0], (1 << 20) + 1), "a"),
    lambda x: np.diff(x, "a", prepend=-(1 << 40)),
])  # fmt: skip
def test_what_is_wrong_with_an_argument_of_many_is_named(fn):
    with pytest.raises(DtypeError, match="argument"):
        jit(fn)(V)


def test_another_thread_calls_numpys_functions():
    found = []

    def run():
        found.append(fnp.quantile([1.0, 2.0], 0.3, method="hazen"))
        found.append(fnp.sqrt(np.longdouble(2)))
        found.append(fnp.add(np.datetime64("2026-01-31"), np.timedelta64(1, "D")))

    @jit
    def f(x):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return x

    f(V)
    assert found[0] == np.quantile([1.0, 2.0], 0.3, method="hazen")
    assert found[1].dtype == np.longdouble
    assert found[2] == np.datetime64("2026-02-01")


@pytest.mark.parametrize("fn", [np.sin, np.isnat, np.add.reduce, np.frompyfunc(abs, 1, 1)])
def test_a_tracer_that_was_kept_is_named_by_ufuncs(fn):
    kept = []

    @jit
    def f(x):
        kept.append(x)
        return x

    f(V)
    with pytest.raises(UnexpectedTracerError):
        fn(kept[0])


def test_functions_have_the_names_and_summaries_of_numpys():
    for name in dir(fnp):
        plain, own = getattr(np, name, None), getattr(fnp, name)
        if callable(plain) and type(own) is type(test_a_tracer_that_was_kept_is_named_by_ufuncs):
            assert own.__name__ in dir(np)
            assert not (own.__doc__ or "None").startswith("None")


def test_a_rule_may_write_what_it_made_of_tangents():
    @ftrace.custom_jvp
    def f(x):
        return x * x

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        out = 2 * x * t
        v = out[1:]
        out[1] = out[0]
        w = out.reshape(-1)
        w += t
        return f(x), v.sum() * np.ones(3) + w

    x, e = np.array([0.5, 2.0, 3.0]), np.ones(3)
    # out is [2 x0 t0 + t0, 2 x0 t0 + t1, 2 x2 t2 + t2], and v all but the first
    wanted = 3 * np.array([2 * x[0], 1, 2 * x[2] + 1]) + [4 * x[0] + 1, 1, 2 * x[2] + 1]
    np.testing.assert_allclose(ftrace.vjp(f, x)[1](e)[0], wanted)
    np.testing.assert_allclose(jit(ftrace.grad(lambda x: f(x).sum()))(x), wanted)


def a_reshape_in_the_other_order(x):
    y = np.zeros((2, 3))
    y[0] = x
    return np.reshape(y, (3, 2), order="F", copy=False)


def test_a_reshape_that_may_not_copy_is_refused_where_numpy_would_or_might_copy():
    with pytest.raises(RuleError, match="copy=False"):
        ftrace.vmap(lambda v: np.reshape(v, (4, 3), order="F", copy=False))(T)
    with pytest.raises(ValueError, match="Unable to avoid"):
        jit(a_reshape_in_the_other_order)(1.0)

"""Corners of functions, as NumPy itself answers: rare options, edges of sizes, bad values."""

from itertools import pairwise

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.errors import RuleError

X = np.array([[1.5, -0.25, 3.0, 0.5], [2.5, 0.0, -1.0, 4.0], [0.1, 0.2, 0.3, -0.4]])
V = np.array([0.3, -1.2, 2.5, 0.0, 1.1])
NANS = np.array([[np.nan, 2.0, -1.0], [np.nan, np.nan, 0.5], [np.nan, 4.0, np.nan]])
N = np.array([3, -1, 4, 1, -5])
Z = np.array([1.0 + 2.0j, 3.0, -1.0j])
T = np.arange(24.0).reshape(2, 3, 4)
F4 = np.array([1.0, 8.0, 2.0], np.float32)
I8 = np.array([2, 16, 3], np.int8)
U = np.array([0, 3, 2**63 + 5], np.uint64)

CALLS = {
    "asarray of two kinds": (lambda x: np.asarray([x[0], 2]), V),
    "asfortranarray of rank 0": (lambda x: np.asfortranarray(x[0]), V),
    "ones of a dtype": (lambda x: np.ones(2, dtype=np.int8) * x[:2], N),
    "logspace of integers": (lambda x: np.logspace(x[0], 3.0, 4, dtype=np.float32), V),
    "geomspace": (lambda x: np.geomspace(x[2], 8.0, 5), V),
    "geomspace of a dtype": (lambda x: np.geomspace(x[2], 8.0, 5, dtype=np.float32), V),
    "cumulative_sum": (lambda x: np.cumulative_sum(x, include_initial=True), V),
    "cumulative_prod": (lambda x: np.cumulative_prod(x, include_initial=True), V),
    "cumulative_sum needs an axis": (lambda x: np.cumulative_sum(x), X),
    "einsum of one": (lambda x: np.einsum("ij->j", x), X),
    "einsum of a diagonal": (lambda x: np.einsum("ii->i", x[:, :3]), X),
    "einsum as it is": (lambda x: np.einsum("ij->ij", x), X),
    "einsum by lists": (lambda x: np.einsum(x, [0, 1], x, [2, 1], [0, 2]), X),
    "einsum of length 1": (lambda x: np.einsum("ij,jk,kl->il", x[:, :1], x[:1], x.T), X),
    "einsum of three": (lambda x: np.einsum("i,ij,j->", x[:, 0], x, x[0]), X),
    "einsum with an ellipsis": (lambda x: np.einsum("...i,...i->...", x, x), T),
    "einsum in alphabetical order": (lambda x: np.einsum("ba", x), X),
    "where of one choice": (lambda x: np.where(x > 0, x), V),
    "select of nothing": (lambda x: np.select([], [], x), V),
    "select of unequal lists": (lambda x: np.select([x > 0], [x, x]), V),
    "piecewise": (lambda x: np.piecewise(x, [x < 0, x > 1], [np.negative, np.sqrt, 7.0]), V),
    "piecewise of one array": (lambda x: np.piecewise(x, x < 0, [np.negative]), V),
    "clip from above": (lambda x: np.clip(x, None, 1.0), V),
    "clip from below": (lambda x: np.clip(x, 0.5, None), V),
    "clip to nothing": (lambda x: np.clip(x, None, None), V),
    "iscomplex": (np.iscomplex, Z),
    "iscomplexobj": (lambda x: np.array([np.iscomplexobj(x), np.isrealobj(x)]), Z),
    "isrealobj": (lambda x: np.array([np.iscomplexobj(x), np.isrealobj(x)]), V),
    "sinc": (lambda x: np.sinc(np.concatenate([x, [0.3, 0.9, 1e-3, 0.0]])), V),
    "a list as index": (lambda x: x[[2, 0, 0]], V),
    "a tuple of lists as index": (lambda x: x[[0, 2], [3, 1]], X),
    "an index of rank 0": (lambda x: x[np.array(2)], V),
    "advanced indices apart": (lambda x: x[[0, 1], :, [3, 1]], T),
    "advanced indices side by side": (lambda x: x[:, [0, 2], [3, 1]], T),
    "hsplit of a vector": (lambda x: np.hsplit(x, [2])[0], V),
    "hsplit": (lambda x: np.hsplit(x, 2)[1], X),
    "vsplit": (lambda x: np.vsplit(x, 3)[2], X),
    "dsplit": (lambda x: np.dsplit(x, 2)[1], T),
    "dsplit of a matrix": (lambda x: np.dsplit(x, 2)[1], X),
    "quantile of nan": (lambda x: np.quantile(np.where(x > 2, np.nan, x), 0.3), V),
    "percentile of nan": (lambda x: np.percentile(np.where(x > 2, np.nan, x), 30), V),
    "condition of a stack": (lambda x: np.linalg.cond(x), T),
    "histogram of a matrix": (lambda x: np.histogram(x, 4)[0], X),
    "histogram of no bins": (lambda x: np.histogram(x, 0)[0], V),
    "linspace of one": (lambda x: np.linspace(x[0], x[1], 1), V),
    "outer of a matrix": (lambda x: np.linalg.outer(x[0], x), X),
    "det of what is not square": (lambda x: np.linalg.det(x), X),
    "slogdet of what is not square": (lambda x: np.linalg.slogdet(x)[1], X),
    "cumulative_sum without an axis": (lambda x: np.cumulative_sum(x), X),
    "vsplit of a vector": (lambda x: np.vsplit(x, 1)[0], V),
    "pad by a number": (lambda x: np.pad(x, 2, constant_values=7.0), V),
    "pad of sides": (lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=(1.0, 2.0)), X),
    "identity of a dtype": (lambda x: np.identity(3, np.int16) + x[:3], N),
    "vander": (lambda x: np.vander(x, 3, increasing=True), V),
    "vander of none": (lambda x: np.vander(x, 0), V),
    "vander of fewer": (lambda x: np.vander(x, -1), V),
    "indices": (lambda x: np.indices((2, 3)) * x[0], V),
    "cross": (lambda x: np.cross(x[:, :3], x[::-1, 1:]), X),
    "vecdot": (lambda x: np.vecdot(x, x[::-1]), X),
    "vecdot of complex": (lambda x: np.vecdot(x, 1j * x), Z),
    "nancumsum": (np.nancumsum, NANS),
    "nancumsum of an axis": (lambda x: np.nancumsum(x, axis=0), NANS),
    "nancumprod": (lambda x: np.nancumprod(x, axis=1), NANS),
    "nanmax": (lambda x: np.nanmax(x, axis=1), NANS),
    "nanmin": (lambda x: np.nanmin(x, axis=1), NANS),
    "nanargmax": (lambda x: np.nanargmax(x, axis=1), NANS),
    "nanargmin": (lambda x: np.nanargmin(x, axis=1), NANS),
    "nanmean": (lambda x: np.nanmean(x, where=x > 0), NANS),
    "nanstd": (lambda x: np.nanstd(x, axis=1), NANS),
    "nanvar with ddof": (lambda x: np.nanvar(x[:, 1:], axis=0, ddof=1), NANS),
    "nanquantile": (lambda x: np.nanquantile(x[:, 1:], 0.3, axis=0), NANS),
    "nanpercentile of 100": (lambda x: np.nanpercentile(x[:, 1:], 100, axis=0), NANS),
    "nanmedian": (lambda x: np.nanmedian(x[:, 1:], axis=0), NANS),
    "gradient at second order": (lambda x: np.gradient(x, edge_order=2), V),
    "gradient of too few": (lambda x: np.gradient(x[:2], edge_order=2), V),
    "interp beside": (lambda x: np.interp(x, [0.0, 1.0, 2.0], [1.0, 3.0, 2.0], -5.0, 9.0), V),
    "array_equiv": (lambda x: np.array([np.array_equiv(x, x[:1]), np.array_equiv(x, x)]), V),
    "array_equiv of other shapes": (lambda x: np.array(np.array_equiv(x, x[:2])), V),
    "polyder": (lambda x: np.polyder(x, 2), V),
    "polyder of none": (lambda x: np.polyder(x, 0), V),
    "polydiv by a longer one": (lambda x: np.polydiv(x[:2], x)[0], V),
    "max": (lambda x: np.max(x, axis=1, initial=2.0), X),
    "max of a mask": (lambda x: np.max(x, axis=1, initial=-9.0, where=x < 1.0), X),
    "min": (lambda x: np.min(x, axis=0, initial=0.2), X),
    "max of none": (lambda x: np.max(x[:0]), V),
    "argmax": (lambda x: np.argmax(x, keepdims=True), X),
    "argmin of an axis": (lambda x: np.argmin(x, axis=-1), X),
    "std": (lambda x: np.std(x, axis=0, ddof=1), X),
    "count_nonzero": (lambda x: np.count_nonzero(x, axis=0), X),
    "lexsort": (lambda x: np.lexsort((x[1], x[0])), X),
    "lexsort of rows": (np.lexsort, X),
    "searchsorted by an order": (lambda x: np.searchsorted(x, 0.7, sorter=np.argsort(x)), V),
    "searchsorted by another order": (lambda x: np.searchsorted(x, 0.7, sorter=[0, 1]), V),
    "digitize of falling edges": (lambda x: np.digitize(x, [2.0, 1.0, 0.0]), V),
    "digitize of rising edges": (lambda x: np.digitize(x, [0.0, 1.0, 2.0], right=True), V),
    "take_along_axis": (lambda x: np.take_along_axis(x, np.array([[1], [0], [-1]]), 1), X),
    "take_along_axis outside": (lambda x: np.take_along_axis(x, np.array([[4], [0], [1]]), 1), X),
    "repeat": (lambda x: np.repeat(x, [2, 0, 1, 1, 3]), V),
    "compress": (lambda x: np.compress([True, False, True], x, axis=0), X),
    "delete of a slice": (lambda x: np.delete(x, slice(1, 3)), V),
    "delete of one": (lambda x: np.delete(x, 1, axis=0), X),
    "percentile of 100": (lambda x: np.percentile(x, 100), V),
    "percentile above 100": (lambda x: np.percentile(x, 100.5), V),
    "quantile of a pair of axes": (lambda x: np.quantile(x, 0.4, axis=(0, 2)), T),
    "nearest quantile": (lambda x: np.quantile(x, [0.125, 0.375], method="nearest"), V),
    "midpoint quantile": (lambda x: np.quantile(x, 0.3, method="midpoint"), V),
    "median": (lambda x: np.median(x, axis=(0, 1)), T),
    "cov of integers": (lambda x: np.cov(x), N),
    "cov of a dtype": (lambda x: np.cov(x, dtype=np.float32), X),
    "cov of columns": (lambda x: np.cov(x, rowvar=False), X),
    "one bin": (lambda x: np.histogram_bin_edges(x, 1, (-1.0, 1.0)), V),
    "no bin": (lambda x: np.histogram_bin_edges(x, 0, (-1.0, 1.0)), V),
    "histogram": (lambda x: np.histogram(x, 4, (-2.0, 3.0), density=True)[0], V),
    "round": (lambda x: np.round(x, 1), V),
    "divmod": (lambda x: np.stack(divmod(x, 0.7)), V),
    "reflected divmod": (lambda x: np.stack(divmod(7, x)), N),
    "reciprocal of integers": (np.reciprocal, N),
    "signbit": (np.signbit, V),
    "signbit of integers": (np.signbit, N),
    "spacing of powers": (lambda x: x**3 - x**-2, V[:3]),
    "a power of integers": (lambda x: x**9, N),
    "comparison of kinds": (lambda x: x > np.uint64(3), N),
    "put clipped": (lambda x: _put(x, [7, -9], mode="clip"), V),
    "put wrapped": (lambda x: _put(x, [7, -9], mode="wrap"), V),
    "flat": (lambda x: _flat(x), X),
    "sort in place": (lambda x: _sorted(x), X),
    "flatten by columns": (lambda x: x.flatten("F"), X),
    "atleast_2d": (lambda x: np.atleast_2d(x[0]), V),
    "isneginf": (np.isneginf, N),
    "fix": (np.fix, V),
    "linspace of small integers": (lambda x: np.linspace(x[0], x[1], 4), I8),
    "logspace of complex": (lambda x: np.logspace(x[0], x[1], 4), Z),
    "logspace of bases": (lambda x: np.logspace(x[0], x[1], 2, base=[2.0, 3.0]), V),
    "logspace of bases last": (lambda x: np.logspace(x[:2], 1.0, 3, base=x[2:4], axis=-1), V),
    "geomspace of small integers": (lambda x: np.geomspace(x[:1], x[1:2], 4), I8),
    "geomspace of float32": (lambda x: np.geomspace(x[0], x[1], 4), F4),
    "geomspace of float32 kept": (lambda x: np.geomspace(x[0], x[1], 4, dtype=np.float32), F4),
    "asarray, never copied": (lambda x: np.asarray(x, copy=False), X),
    "asarray, never converted": (lambda x: np.asarray(x, dtype=int, copy=False), X),
    "polymul by nothing": (lambda x: np.polymul(x, ()), V),
    "std less a wide integer": (lambda x: np.std(x, ddof=10**40), X),
    "moveaxis of None": (lambda x: np.moveaxis(x, None, 0), V),
    "moveaxis to None": (lambda x: np.moveaxis(x, 0, None), V),
    "einsum of what is no letter": (lambda x: np.einsum("i4", x), X),
    "einsum to what is no letter": (lambda x: np.einsum("ij->i_", x), X),
    "nanmean of floats as integers": (lambda x: np.nanmean(x, -1, "i4"), X),
    "nanvar of floats as integers": (lambda x: np.nanvar(x, -1, "i4"), X),
    "nanvar of integers as integers": (lambda x: np.nanvar(x, dtype="f4"), N),
    "einsum of products": (lambda x: np.einsum("ij,ij->ij", x, x), X),
    "einsum to out": (lambda x: np.einsum("ij->ij", x, out=np.zeros_like(x)), X),
    "einsum of outer products": (lambda x: np.einsum("a,b,c,d->dabc", *[x[:2]] * 4), V),
    "einsum of pairs, then the rest": (
        lambda x: np.einsum("ij,jk,a,b,c->ikabc", x, x.T, x[0], x[1], x[2]),
        X,
    ),
    "einsum of last letters": (lambda x: np.einsum("...Z,zZ->...z", x, x[0]), T),
    "einsum that repeats a label": (lambda x: np.einsum("ij->iij", x), X),
    "piecewise of True": (lambda x: np.piecewise(x, True, [np.negative]), V),
    "piecewise of a list": (
        lambda x: np.piecewise(x, [True, False], [np.negative, np.sqrt]),
        np.array([0.3, 2.0]),
    ),
    "piecewise of a short list": (lambda x: np.piecewise(x, [True, False], [1.0]), V),
    "piecewise of a list of lists": (lambda x: np.piecewise(x, [[1, 0, 2, 0, 1]], [np.sin]), V),
    "piecewise of a list of tuples": (lambda x: np.piecewise(x, [(1, 0, 2, 0, 1)], [np.sin]), V),
    "piecewise of a matrix": (
        lambda x: np.piecewise(x, np.stack([x > 0, x < 0]), [np.negative, 3.0]),
        V,
    ),
    "piecewise of rows": (lambda x: np.piecewise(x, [x[:, 0] > 1, x[:, 0] < 1], [1.0, 2.0, 3]), X),
    "logspace of bases of higher rank": (
        lambda x: np.logspace(x[0], [0.5, 1.0], 4, base=[[2.0], [3.0], [4.0]]),
        V,
    ),
    "geomspace along the last axis": (
        lambda x: np.geomspace(np.abs(x) + 1, 8.0, 5, endpoint=False, axis=-1),
        X,
    ),
    "piecewise of a tuple": (lambda x: np.piecewise(x, (x > 0, x < 0), [1.0, np.negative]), V),
    "piecewise to a text": (lambda x: np.piecewise(x, [x > 0], ["1.5"]), V),
    "piecewise to a complex number": (lambda x: np.piecewise(x, [x > 0], [1.5j]), V),
    "piecewise to a traced number": (lambda x: np.piecewise(x, [x > 0], [x[0], 2]), V),
    "piecewise of integers to floats": (lambda x: np.piecewise(x, [x > 0], [1.5, -2.5]), N),
    "piecewise of rank 0": (
        lambda x: np.piecewise(x[0], [x[0] > 0, x[1] > 0], [np.negative, np.sqrt]),
        V,
    ),
    "piecewise of other sizes": (lambda x: np.piecewise(x, [x[:2] > 0], [np.negative]), V),
    "piecewise of too few axes": (lambda x: np.piecewise(x, [x[:, :1] > 0], [np.negative]), X),
    "a float of rank 0 as index": (lambda x: x[np.array(1.0)], X),
    "tuples as indices": (lambda x: x[(0, 2), (3, 1)], X),
    "an advanced index amid slices": (lambda x: x[:, [0, 1, 1], 1:3], T),
    "an advanced index after an ellipsis": (lambda x: x[..., [0, 1, 1]], T),
    "pad of an axis": (lambda x: np.pad(x, {-1: (1, 2)}), X),
    "pad of the first axis": (lambda x: np.pad(x, {0: 2}), X),
    "flatten in small letters": (lambda x: x.flatten("f"), X),
    "flatten in no order": (lambda x: x.flatten(3), X),
    "linalg.outer of a matrix": (lambda x: np.linalg.outer(x[0], x), X),
    "unsigned and negative": (lambda x: x > np.array([-1, 2, -5]), U),
    "unsigned up to negative": (lambda x: x <= np.array([-1, 3, -5]), U),
    "diff after a list": (lambda x: np.diff(x, prepend=[1.0, 2.0]), V),
    "diff between numbers": (lambda x: np.diff(x, prepend=2, append=3.0, axis=0), X),
    "norm of order 1": (lambda x: np.linalg.norm(x, 1), F4),
    "nanstd to out": (lambda x: np.nanstd(x[:, 1:], 0, out=np.zeros(2, np.float32)), NANS),
    "vecdot of an axis": (lambda x: np.vecdot(x, x, axis=0), X),
    "matmul of a dtype": (lambda x: np.matmul(x, x.T, dtype=np.float32), X),
    "quantiles of the closest observation": (
        lambda x: np.quantile(x, [0.1, 0.3, 0.5, 0.7, 0.9], method="closest_observation"),
        V,
    ),
    "argpartition outside": (lambda x: np.argpartition(x, 9), V),
    "take of nothing": (lambda x: np.take(x, []), V),
    "insert at the end": (lambda x: np.insert(x, 5, 7.0), V),
    "insert at minus the size": (lambda x: np.insert(x, -5, 7.0), V),
    "pad with whatever is there": (lambda x: np.pad(x, 1, mode="empty")[1:-1, 1:-1], X),
    "polyfit of a matrix": (lambda x: np.polyfit(x, x[:, 0], 1), X),
    "polyfit of columns with its covariance": (
        lambda x: np.polyfit([0.0, 1.0, 3.0], x, 1, cov="unscaled")[1],
        X,
    ),
    "sums of small integers": (np.add.accumulate, I8),
    "least of small integers": (np.minimum.accumulate, I8),
    "to a device on a stream": (lambda x: x.to_device("cpu", stream=1), V),
    "an empty tuple amid indices": (lambda x: x[:, ()], X),
    "a tuple amid slices": (lambda x: x[:, (0, 2)], X),
}

BY_VALUES = {
    "interp with a period": (lambda x: np.interp(x, [0.1, 0.5, 0.9], x[:3], period=1.0), V),
    "polydiv": (lambda x: np.polydiv(x, x[:2])[0], V),
    "polydiv by one as long": (lambda x: np.polydiv(x, x[::-1] + 2.0)[0], V),
    "flatnonzero of a matrix": (lambda x: np.flatnonzero(np.abs(x) < 9), X),
    "asarray_chkfinite": (lambda x: np.asarray_chkfinite(x / 2), V),
    "emath.sqrt of zero": (lambda x: np.emath.sqrt(np.abs(x)), V),
    "emath.power of integers": (lambda x: np.emath.power((x > 0) + 1, -2), V),
    "asarray_chkfinite of NaN": (lambda x: np.asarray_chkfinite(x / 2), NANS),
}

# Functions that NumPy does not hand over, since it sees no traced operand.
NAMED = {
    "ones of a dtype": lambda xp, x: xp.ones(2, dtype=np.int8),
    "identity of a dtype": lambda xp, x: xp.identity(3, np.int16),
    "select of nothing": lambda xp, x: xp.select([], [], x),
}


def _put(x, places, mode):
    y = x * 1
    np.put(y, places, [10.0, 20.0], mode=mode)
    return y


def _flat(x):
    y = x * 1
    y.flat = [1.0, 2.0]
    return y


def _sorted(x):
    y = x * 1
    y.sort(axis=0)
    return y


def outcome(f, x):
    """The result, or the class of what is raised."""
    try:
        with np.errstate(all="ignore"):
            return f(x)
    except Exception as error:
        return error


def mapped(f):
    """The function under `vmap`, of one batch element."""
    g = ftrace.vmap(f)
    return lambda x: np.asarray(g(x[None]))[0]


def differentiated(f):
    """The primal of `jvp`, which knows all values."""
    return lambda x: ftrace.jvp(f, (x,), (np.ones_like(x),))[0]


def check(f, x, way, expected=None):
    expected = outcome(f, x) if expected is None else expected
    got = outcome(way(f), x)
    if isinstance(expected, Exception):
        assert isinstance(got, (type(expected), ftrace.errors.FtraceError))
    else:
        assert not isinstance(got, Exception), got
        y = np.asarray(got)
        assert y.dtype == np.asarray(expected).dtype
        assert y.shape == np.shape(expected)
        np.testing.assert_allclose(y, expected, rtol=1e-12 if y.dtype.itemsize > 4 else 1e-5)


@pytest.mark.parametrize("way", [ftrace.jit, mapped])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:All-NaN", "ignore:Degrees", "ignore:Mean of")
def test_it_is_as_numpys(name, way):
    check(*CALLS[name], way)


@pytest.mark.parametrize("name", NAMED)
def test_what_is_called_by_name_is_as_numpys(name):
    expected = outcome(lambda x: NAMED[name](np, x), V)
    check(lambda x: NAMED[name](fnp, x), V, ftrace.jit, expected)


@pytest.mark.parametrize("name", BY_VALUES)
def test_what_needs_values_is_as_numpys(name):
    check(*BY_VALUES[name], differentiated)


def test_one_choice_beside_none_is_refused():
    for f in (lambda x: fnp.where(x > 0, x, None), lambda x: fnp.where(x > 0, None, x)):
        with pytest.raises(ftrace.errors.DomainError, match="both or neither"):
            ftrace.jit(f)(V)


def test_what_is_to_be_filled_holds_zeros():
    for make in (lambda x: fnp.empty(3), fnp.empty_like, np.empty_like):
        assert not np.any(ftrace.jit(make)(V))


def test_outside_of_transformations_numpy_takes_its_own_options():
    axes = [(1, 0), (1, 0), (0, 1)]
    np.testing.assert_array_equal(fnp.matmul(X.T, X, axes=axes), np.matmul(X.T, X, axes=axes))


def test_what_numpy_warns_of_does_not_hide_what_is_wrong():
    with pytest.raises(ValueError, match="must exceed order to scale"):
        ftrace.jit(lambda x: np.polyfit(np.arange(5.0), x, 5, cov=True))(V)


def test_sinc_has_eight_derivatives_at_zero():
    def slope(f):
        return lambda x: ftrace.jvp(f, (x,), (1.0,))[1]

    f = np.sinc
    for k in range(1, 9):
        f = slope(f)
        exact = (-1) ** (k // 2) * np.pi**k / (k + 1) if k % 2 == 0 else 0.0
        np.testing.assert_allclose(f(0.0), exact, rtol=1e-12)


@pytest.mark.parametrize("x", [np.zeros(3), np.array([1.0, 0.0, -2.0])])
def test_the_norm_of_order_1_has_the_derivative_of_a_sum_of_sizes(x):
    found = ftrace.grad(lambda x: np.linalg.norm(x, 1))(x)
    np.testing.assert_array_equal(found, ftrace.grad(lambda x: np.abs(x).sum())(x))


def test_multi_dot_takes_the_order_of_the_fewest_products():
    def fewest(sizes):
        return min(
            (
                fewest(sizes[: k + 1]) + fewest(sizes[k:]) + sizes[0] * sizes[k] * sizes[-1]
                for k in range(1, len(sizes) - 1)
            ),
            default=0,
        )

    for sizes in ((2, 9, 3, 7, 4), (9, 2, 8, 3, 7), (5, 8, 2, 9, 3, 4)):
        arrays = [np.ones(s) for s in pairwise(sizes)]
        jaxpr = ftrace.make_jaxpr(lambda *xs: np.linalg.multi_dot(xs))(*arrays)
        shapes = [[v.aval.shape for v in e.invars] for e in jaxpr.eqns]
        made = sum(int(np.prod(a)) * b[1] for a, b in shapes)
        assert made == fewest(sizes)


@pytest.mark.parametrize("way", [ftrace.jit, lambda f: ftrace.jit(ftrace.lift(f))])
def test_what_only_a_copy_makes_an_array_is_refused_without_one(way):
    for make in (np.array, np.asarray):
        for x in (2.5, np.float64(2.5), 3):
            with pytest.raises(ValueError, match="Unable to avoid copy"):
                way(lambda x, make=make: make(x, copy=False))(x)
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            way(lambda x, make=make: make([x, x], copy=False))(V)
        with pytest.raises(RuleError, match="copy=False of f64"):
            way(lambda x, make=make: make(x, order="F", copy=False))(X)
        own = way(lambda x, make=make: make(np.array([x, x]), order="C", copy=False) * 2)
        np.testing.assert_array_equal(own(V), np.array([V, V]) * 2)


def test_what_diff_puts_before_and_after_is_not_none():
    for end in ("prepend", "append"):
        for f in (ftrace.jit, ftrace.vmap):
            with pytest.raises(TypeError):
                f(lambda x, end=end: np.diff(x, **{end: None}))(X)


def test_a_view_is_written_with_its_array():
    def f(x):
        y = x * 2
        z = y.view()
        z[:2] = z[1::-1] * 3
        return np.sum(y * np.arange(5.0))

    expected = f(V)
    for way in (ftrace.jit, lambda f: ftrace.jit(ftrace.lift(f))):
        np.testing.assert_allclose(way(f)(V), expected)
    np.testing.assert_allclose(ftrace.grad(f)(V), [6.0, 0.0, 4.0, 6.0, 8.0])
    for dtype in (np.int64, np.float32, np.matrix):
        with pytest.raises(ftrace.errors.TracerArrayConversionError, match="another dtype or type"):
            ftrace.jit(lambda x, dtype=dtype: x.view(dtype))(V)

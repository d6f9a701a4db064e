"""What NumPy refuses is refused by the same class of exception where the operands are traced."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp

X = np.array([3.0, 1.0, 2.0])

ASKS = np.lib.NumpyVersion(np.__version__) >= "2.4.0"  # before, it took any `.dtype` for one


def _written(write):
    """A write into a copy, of float32."""

    def run(x):
        y = x.astype(np.float32)
        write(y, x)
        return y

    return run


def _quietly(f):
    with np.errstate(all="ignore"):
        return f()


REFUSED = {
    "fill": _written(lambda y, x: y.fill(x)),
    "fill, a list": _written(lambda y, x: y.fill([1.0])),
    "place, a wider array": _written(lambda y, x: np.place(y, x > 1, x)),
    "place, a number in an array": _written(lambda y, x: np.place(y, x > 1, np.array(2.0))),
    "place, a traced number in an array": _written(lambda y, x: np.place(y, x > 1, np.array(x[0]))),
    "putmask, a traced number": _written(lambda y, x: np.putmask(y, x > 1, np.asarray(x[0]))),
    "putmask, a wider array": _written(lambda y, x: np.putmask(y, x > 1, x)),
    "putmask, integers": _written(lambda y, x: np.putmask(y, [True] * 3, np.arange(3))),
    "choose": lambda x: np.choose(np.array([5]), [x, x]),
    "choose, negative": lambda x: np.choose(np.array([-1]), [x, x]),
    "choose, traced": lambda x: np.choose(x.astype(int), [x, x, x]),
    "mode of choose": lambda x: np.choose(np.array([0]), [x, x], mode="zz"),
    "mode of take": lambda x: np.take(x, 1, mode="zz"),
    "partition": lambda x: np.partition(x, 3),
    "partition, several": lambda x: np.partition(x, [0, -4]),
    "partition, a float": lambda x: np.partition(x, 1.5),
    "argpartition": lambda x: np.argpartition(x, 9),
    "kind of partition": lambda x: np.partition(x, 1, kind="zz"),
    "kind of sort": lambda x: np.sort(x, kind="zz"),
    "kind of argsort": lambda x: x.argsort(kind=3),
    "kind and stable": lambda x: np.sort(x, kind="quicksort", stable=True),
    "in place": lambda x: x.copy().sort(kind="zz"),
    "partition in place": lambda x: x.copy().partition(9),
    "quantile": lambda x: np.quantile(x, 2.0),
    "quantiles": lambda x: np.quantile(x, [0.5, -0.1]),
    "quantile, NaN": lambda x: np.nanquantile(x, np.nan),
    "quantile, traced": lambda x: np.quantile(x, -x[0]),
    "percentile": lambda x: np.percentile(x, 101),
    "method": lambda x: np.quantile(x, 0.5, method="zz"),
    "side": lambda x: np.searchsorted(np.sort(x), 1.0, side="zz"),
    "bins": lambda x: np.digitize(x, np.array([1.0, 3.0, 2.0])),
    "bins, traced": lambda x: np.digitize(x, x),
    "edges": lambda x: np.histogram(x, bins=np.array([2.0, 1.0])),
    "weights": lambda x: np.average(x, weights=x * 0),
    "vander": lambda x: np.vander(x, -1),
    "ddof": lambda x: np.cov(x, ddof=1.5),
    "axis": lambda x: np.sum(x, axis=3),
    "an axis of 64 bits": lambda x: np.sum(x, axis=1 << 63),
    "a text among functions": lambda x: np.piecewise(x, [x > 0], [np.sum, "a"]),
    "an exponent that does not fit": lambda x: x.astype(np.int8) ** 300,
    "functions of piecewise": lambda x: np.piecewise(x, [x > 1], [1, 2, 3]),
    "nan of another shape": lambda x: np.nan_to_num(x, nan=np.zeros((0, 3))),
    "floats as indices": lambda x: np.take(x, np.array([0.0, 1.0])),
    "a complex order": lambda x: np.linalg.norm(x, 1j),
    "a step of zero": lambda x: _quietly(lambda: np.gradient(x, 0, edge_order=2)),
    "no start": lambda x: np.prod(x, where=x > 1, initial=None),
    "no start of a sum": lambda x: x.sum(where=None, initial=None),
    "a range that falls": lambda x: np.histogram(x, 4, range=(3.0, 2.0)),
    "an infinite range": lambda x: np.histogram_bin_edges(x, 4, range=(3.0, np.inf)),
    "an infinite range of values": lambda x: _quietly(lambda: np.histogram(x / 0, 4)),
    "a sum in another dtype": lambda x: np.einsum("i->", x, dtype="i4"),
    "no start of what is no NaN": lambda x: np.nansum(x, where=x > 1, initial=None),
    "vectors of two": lambda x: np.linalg.cross(x[:2], x),
    "a complex item": lambda x: np.insert(x, 1, 1j),
    "edges in rows": lambda x: np.histogram_bin_edges(x, np.ones((2, 2))),
    "another device": lambda x: np.linspace(x, x, 4, device="gpu"),
    "a flat index": lambda x: np.unravel_index(x.astype(int), (1, 3)),
    "a flat index below": lambda x: np.unravel_index(x.astype(int) - 2, (9, 3)),
    "flat floats": lambda x: np.unravel_index(x, (9, 9)),
    "order of a flat index": lambda x: np.unravel_index(x.astype(int), (9, 9), "A"),
    "an index along an axis": lambda x: np.ravel_multi_index(2 * [x.astype(int)], (9, 3)),
    "floats along an axis": lambda x: np.ravel_multi_index((x, x), (9, 9)),
    "mode of an index": lambda x: np.ravel_multi_index(2 * [x.astype(int)], (9, 9), "zz"),
    "a vector as matrix": lambda x: np.matvec(x, x),
    "a vector as second matrix": lambda x: np.vecmat(x, x),
    "a number as vector": lambda x: np.vecdot(x, 2.0),
    "too few items": lambda x: np.fromiter((abs(v) if v > 0 else v for v in x), float, 4),
    "an array as dtype": lambda x: fnp.zeros(2, dtype=x),
    **({"an array as dtype, asked by NumPy": lambda x: np.ones(2, dtype=x)} if ASKS else {}),
}
TRANSFORMED = {
    "jit": ftrace.jit,
    "jvp": lambda f: lambda x: ftrace.jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: ftrace.vmap(f)(np.stack([x, x])),
}


@pytest.mark.parametrize("how", TRANSFORMED)
@pytest.mark.parametrize("name", REFUSED)
def test_the_class_of_the_exception_is_numpys(name, how):
    f = REFUSED[name]
    with pytest.raises(Exception) as plain:  # noqa: PT011 - NumPy decides which
        f(X)
    with pytest.raises((plain.type, IndexError) if (name, how) == LATER else plain.type):
        TRANSFORMED[how](f)(X)


LATER = ("quantile, traced", "vmap")  # the index out of range is met first


def test_arange_of_nothing_is_a_type_error():
    for f in (fnp.arange, ftrace.jit(lambda: fnp.arange(None))):
        with pytest.raises(TypeError):
            f(*(() if f is not fnp.arange else (None,)))


def test_what_numpy_takes_is_taken():
    def f(x):
        found = [np.choose(np.array([1, 0, 1]), [x, -x]), np.partition(x, (0, -1))]
        found += [np.choose(np.array([5, -1, 1]), [x, -x], mode=m) for m in ("wrap", "clip")]
        found += [np.sort(x, kind="stable"), np.sort(x, stable=True), np.argpartition(x, -3)]
        found += [np.quantile(x, [0, 1]), np.percentile(x, 100), np.quantile(x, x[1])]
        found += [np.digitize(x, [3.0, 2.0, 0.0]), np.digitize(x, [1.0, 1.0, 2.5])]
        found += [*np.histogram(x[:0], 4), np.histogram_bin_edges(x, 3, (1.0, 1.0))]
        found += [np.nansum(x, where=x > 1), np.nanprod(x, where=False)]
        found += [np.einsum("i->", x, dtype="f4", casting="same_kind")]
        found += [np.sum(x, where=x > 1), np.sum(x, initial=None), np.prod(x, initial=2.0)]
        found += [np.average(x, weights=x), np.histogram(x, bins=np.array([0.0, 1.0, 4.0]))[0]]
        y = x.copy()
        y.sort()
        return [*found, y, np.partition(x, 2)[2], np.cov(x, ddof=0)]

    for g in (ftrace.jit(f), lambda x: ftrace.jvp(f, (x,), (x,))[0]):
        for found, right in zip(g(X), f(X), strict=True):
            np.testing.assert_allclose(np.sort(found, None), np.sort(right, None), rtol=1e-15)


def test_as_many_items_are_read_as_were_asked_for():
    def f(x):
        items = iter([v if v > 0 else -v for v in x])
        return np.fromiter(items, float, 2), next(items)

    for found, right in zip(ftrace.jit(f)(X), f(X), strict=True):
        np.testing.assert_array_equal(found, right)


def test_what_stands_for_a_scalar_is_a_dtype_as_a_scalar_is():
    def f(x):
        return x * np.zeros(2, dtype=x)

    number = np.float32(2.0)
    assert ftrace.jit(f)(number).dtype == f(number).dtype == np.float32


TAKEN = {
    "a number": lambda x: 2.5,
    "a NumPy scalar": lambda x: x[0] * 1.0,
    "a list": lambda x: [2.5, 1, 0.5],
    "an array of the dtype": lambda x: x.astype(np.float32),
    "small integers": lambda x: np.arange(3, dtype=np.int8),
}


@pytest.mark.parametrize("name", TAKEN)
def test_masked_writes_take_what_numpys_take(name):
    def f(x):
        y, z = x.astype(np.float32), x.astype(np.float32)
        np.place(y, x > 1, TAKEN[name](x))
        np.putmask(z, x > 1, TAKEN[name](x))
        return y, z

    for got, wanted in zip(ftrace.jit(f)(X), f(X), strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype

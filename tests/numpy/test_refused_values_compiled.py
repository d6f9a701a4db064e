"""What NumPy refuses is refused by the same class of exception where the operands are traced."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp

X = np.array([3.0, 1.0, 2.0])

REFUSED = {
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
        found += [np.average(x, weights=x), np.histogram(x, bins=np.array([0.0, 1.0, 4.0]))[0]]
        y = x.copy()
        y.sort()
        return [*found, y, np.partition(x, 2)[2], np.cov(x, ddof=0)]

    for g in (ftrace.jit(f), lambda x: ftrace.jvp(f, (x,), (x,))[0]):
        for found, right in zip(g(X), f(X), strict=True):
            np.testing.assert_allclose(np.sort(found, None), np.sort(right, None), rtol=1e-15)

"""Sets: unique, isin, and unions and differences of vectors.

How many elements a set has depends on values, so all but `isin` need them known; the elements
themselves are taken by index and have their derivatives.
"""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.numpy import ufuncs
from ftrace.numpy.joining import joined
from ftrace.numpy.promote import known, numpy_function, promote, strong, value
from ftrace.numpy.sorting import flat, take
from ftrace.primitives import elementwise as e
from ftrace.primitives.reduce import reduce_or
from ftrace.primitives.shape import reshape


@numpy_function
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct elements, sorted, of known values."""
    x = strong(value(ar))
    found = np.unique(
        known(x, "numpy.unique"),
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=axis,
        equal_nan=equal_nan,
    )
    _, index, inverse, counts = found
    if not sorted and not (return_index or return_inverse or return_counts) and axis is None:
        index = index[_order(found[0], known(x, "numpy.unique"), equal_nan)]
    first = take(flat(x), index) if axis is None else take(x, index, axis=axis)
    wanted = (return_index, return_inverse, return_counts)
    rest = [r for r, w in zip((index, inverse, counts), wanted, strict=True) if w]
    return (first, *rest) if rest else first


def _order(values: Any, x: Any, equal_nan: bool) -> Any:
    """In which order NumPy gives distinct values that it need not sort."""
    if np.lib.NumpyVersion(np.__version__) < "2.3.0":
        return np.arange(len(values))
    found = np.unique(x, equal_nan=equal_nan, sorted=False)
    return np.argsort(np.argsort(found, kind="stable"), kind="stable")


@numpy_function
def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    """For each element, whether it is among the others."""
    x, y = promote(value(element), value(test_elements))
    x, y = strong(x), flat(strong(y))
    wide = reshape(x, new_sizes=(*typeof(x).shape, 1))
    found = reduce_or(ufuncs.apply(np.equal, wide, y), axes=(typeof(x).ndim,))
    return e.bitwise_not(found) if invert else found


# NumPy's own named tuples, which it does not make public.
_ALL, _COUNTS, _INVERSE = (
    type(f(np.zeros(1))) for f in (np.unique_all, np.unique_counts, np.unique_inverse)
)


@numpy_function
def unique_values(x: Any) -> Any:
    """The distinct elements, sorted, of known values."""
    return unique(x, equal_nan=False, sorted=False)


@numpy_function
def unique_counts(x: Any) -> Any:
    """The distinct elements of known values, and how often each occurs."""
    return _COUNTS(*unique(x, return_counts=True, equal_nan=False))


@numpy_function
def unique_inverse(x: Any) -> Any:
    """The distinct elements of known values, and where each element went."""
    return _INVERSE(*unique(x, return_inverse=True, equal_nan=False))


@numpy_function
def unique_all(x: Any) -> Any:
    """The distinct elements of known values with index, inverse and counts."""
    return _ALL(*unique(x, True, True, True, equal_nan=False))


@numpy_function
def union1d(ar1: Any, ar2: Any) -> Any:
    """The distinct elements of two arrays, of known values."""
    return unique(joined([flat(strong(value(ar1))), flat(strong(value(ar2)))], 0))


@numpy_function
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The elements that two arrays of known values have in common."""
    x, y = promote(flat(strong(value(ar1))), flat(strong(value(ar2))))
    _, i, j = np.intersect1d(
        known(x, "numpy.intersect1d"), known(y, "numpy.intersect1d"), assume_unique, True
    )
    return (take(x, i), i, j) if return_indices else take(x, i)


@numpy_function
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The elements of known values that the second array does not have."""
    x = flat(strong(value(ar1)))
    x = x if assume_unique else unique(x)
    others = known(value(ar2), "numpy.setdiff1d")
    typeof(others)
    return take(x, np.flatnonzero(~np.isin(known(x, "numpy.setdiff1d"), others)))


@numpy_function
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The elements of known values that exactly one of two arrays has."""
    x, y = (flat(strong(value(v))) for v in (ar1, ar2))
    both = joined([x, y] if assume_unique else [unique(x), unique(y)], 0)
    _, index, counts = np.unique(
        known(both, "numpy.setxor1d"), return_index=True, return_counts=True
    )
    return take(both, index[counts == 1])

"""Sets: unique, isin, and unions and differences of vectors.

How many elements a set has depends on values, so all but `isin` need them known, or `size=`; the
elements themselves are taken by index and have their derivatives.
"""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.numpy import given_sizes, ufuncs
from ftrace.numpy.joining import joined
from ftrace.numpy.promote import known, numpy_function, promote, strong, unsupported, value
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
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The distinct elements, sorted, of known values.

    With `size` the first so many, of any values: where there are fewer, `fill_value`, or the least.
    """
    x = strong(value(ar))
    wanted = (return_index, return_inverse, return_counts)
    if size is not None:
        if axis is not None:
            raise unsupported("unique", "size= and axis=")
        first, *rest, _ = given_sizes.unique(x, size, fill_value, equal_nan)
        rest = [r for r, w in zip(rest, wanted, strict=True) if w]
        return (first, *rest) if rest else first
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
def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements, sorted, of known values."""
    return unique(x, equal_nan=False, sorted=False, size=size, fill_value=fill_value)


@numpy_function
def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of known values, and how often each occurs."""
    options: Any = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return _COUNTS(*unique(x, return_counts=True, **options))


@numpy_function
def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of known values, and where each element went."""
    options: Any = {"equal_nan": False, "size": size, "fill_value": fill_value}
    return _INVERSE(*unique(x, return_inverse=True, **options))


@numpy_function
def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of known values with index, inverse and counts."""
    return _ALL(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


@numpy_function
def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The distinct elements of two arrays, of known values, or of any with `size`."""
    both = joined([flat(strong(value(ar1))), flat(strong(value(ar2)))], 0)
    return unique(both, size=size, fill_value=fill_value)


def _of_set(x: Any, is_in: Any, size: int, fill_value: Any) -> Any:
    """The first distinct elements for which a test holds, filled up."""
    found = given_sizes.unique(x, typeof(x).size, None, True)
    mask = e.bitwise_and(found.is_one, is_in(found.values))
    return given_sizes.taken(found.values, mask, size, fill_value)


@numpy_function
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements that two arrays of known values have in common, or of any with `size`."""
    x, y = promote(flat(strong(value(ar1))), flat(strong(value(ar2))))
    if size is not None:
        if return_indices:
            raise unsupported("intersect1d", "size= and return_indices=")
        return _of_set(x, lambda v: isin(v, y), size, fill_value)
    _, i, j = np.intersect1d(
        known(x, "numpy.intersect1d"), known(y, "numpy.intersect1d"), assume_unique, True
    )
    return (take(x, i), i, j) if return_indices else take(x, i)


@numpy_function
def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements of known values that the second array does not have, or of any with `size`."""
    x = flat(strong(value(ar1)))
    if size is not None:
        return _of_set(x, lambda v: isin(v, ar2, invert=True), size, fill_value)
    x = x if assume_unique else unique(x)
    others = known(value(ar2), "numpy.setdiff1d")
    typeof(others)
    return take(x, np.flatnonzero(~np.isin(known(x, "numpy.setdiff1d"), others)))


@numpy_function
def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements of known values that exactly one of two arrays has, or of any with `size`."""
    x, y = (flat(strong(value(v))) for v in (ar1, ar2))
    if size is not None:

        def in_one(v: Any) -> Any:
            return e.bitwise_xor(isin(v, x), isin(v, y))

        return _of_set(joined([x, y], 0), in_one, size, fill_value)
    both = joined([x, y] if assume_unique else [unique(x), unique(y)], 0)
    _, index, counts = np.unique(
        known(both, "numpy.setxor1d"), return_index=True, return_counts=True
    )
    return take(both, index[counts == 1])

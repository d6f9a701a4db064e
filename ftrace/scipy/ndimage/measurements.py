"""Measurements of the parts of an image that labels tell apart: sums, moments, orders, places.

Labels may be traced, which parts are asked for may not.
"""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.numpy.promote import known, value
from ftrace.ops import segment_sum
from ftrace.scipy.borrowing import RefusedError, scipys


class _Parts:
    """The parts of an image that are asked for.

    Attributes:
        x, labels: the image and its labels, as vectors.
        wanted: the labels that are asked for, a plain vector; `asked` is their shape.
        one: whether a single part is asked for, so that results are numbers.
    """

    def __init__(self, input: Any, labels: Any, index: Any) -> None:
        x = value(input)
        if labels is None:
            labels, index = fnp.zeros(typeof(x).shape, int), 0
        elif index is None:
            labels, index = fnp.astype(fnp.greater(value(labels), 0), int), 1
        x, labels = fnp.broadcast_arrays(x, value(labels))
        self.shape = typeof(x).shape
        self.x, self.labels = fnp.ravel(x), fnp.ravel(labels)
        asked = known(value(index), "Which labels are measured")
        self.asked, self.one = np.shape(asked), not np.ndim(asked)
        self.wanted = np.ravel(asked)

    def sums(self, data: Any) -> Any:
        """The sum over each part; of several parts in double precision, as in SciPy."""
        names, places = np.unique(self.wanted, return_inverse=True)
        if not len(names):
            return fnp.zeros(self.asked)
        slot = fnp.clip(fnp.searchsorted(names, self.labels), 0, len(names) - 1)
        slot = fnp.where(fnp.equal(fnp.take(names, slot), self.labels), slot, len(names))
        kind = typeof(data).dtype
        if not self.one:
            data = fnp.astype(data, complex if kind.kind == "c" else float)
        elif kind.kind in "biu":  # as NumPy's sum
            data = fnp.astype(data, np.uint64 if kind.kind == "u" else int)
        return self.given(segment_sum(data, slot, len(names))[places])

    def counts(self) -> Any:
        """How many elements each part has."""
        return self.sums(fnp.ones(typeof(self.x).shape))

    def given(self, found: Any) -> Any:
        """Results in the shape in which labels are asked for."""
        return found[0] if self.one else fnp.reshape(found, self.asked)

    def about_mean(self) -> Any:
        """The elements less the mean of their part; of no part as they are."""
        means = fnp.ravel(self.sums(self.x) / self.counts())
        found = self.x
        for label, mean in zip(self.wanted, means, strict=True):
            found = fnp.where(fnp.equal(self.labels, label), self.x - mean, found)
        return found

    def ordered(self, last_first: bool = False) -> tuple[Any, Any, Any]:
        """Which elements come by labels and values, and where each part begins and ends there."""
        keys = (-np.arange(typeof(self.x).size),) if last_first else ()
        order = fnp.lexsort((*keys, self.x, self.labels))
        labels = fnp.take(self.labels, order)
        first = fnp.searchsorted(labels, self.wanted, side="left")
        last = fnp.searchsorted(labels, self.wanted, side="right") - 1
        return order, first, last

    def elements(self, order: Any, places: Any, some: Any) -> Any:
        """Elements at places of an order; 0 of a part without any."""
        top = max(typeof(self.x).size - 1, 0)
        found = fnp.take(self.x, fnp.take(order, fnp.clip(places, 0, top)))
        return fnp.where(some, found, fnp.zeros((), typeof(self.x).dtype))

    def with_nan(self, found: Any, none: Any) -> Any:
        """A number found of a single part, or NaN where it holds some, as NumPy has it.

        Args:
            found: the number.
            none: whether it is NaN for a part without elements, too.
        """
        if not self.one or not (none or typeof(self.x).dtype.kind in "fc"):
            return found
        own = fnp.equal(self.labels, self.wanted[0])
        missing = fnp.any(own & fnp.isnan(self.x))
        if none:
            missing = missing | ~fnp.any(own)
        return fnp.where(missing, np.asarray(np.nan, typeof(found).dtype), found)

    def place(self, order: Any, places: Any) -> Any:
        """The indices of elements at places of an order: a tuple, or a list of them."""
        flat = fnp.take(order, fnp.clip(places, 0, typeof(self.x).size - 1))
        found = fnp.unravel_index(flat, self.shape)
        every = list(zip(*found, strict=True))
        return every[0] if self.one else every


def _extreme(parts: _Parts, largest: bool) -> tuple[Any, Any]:
    """The smallest or largest element of each part, and its place: of a part alone the first."""
    if not typeof(parts.x).size:
        raise RefusedError("An image without elements has no smallest and largest one.")
    order, first, last = parts.ordered(largest and parts.one)
    places = last if largest else first
    found = parts.elements(order, places, fnp.greater_equal(last, first))
    return parts.with_nan(parts.given(found), False), parts.place(order, places)


def _squares(parts: _Parts) -> Any:
    away = parts.about_mean()
    return parts.sums(fnp.real(away * fnp.conj(away)))


def _median(parts: _Parts) -> Any:
    order, first, last = parts.ordered()
    step, some = (last - first) // 2, fnp.greater_equal(last, first)
    low, high = (parts.elements(order, at, some) for at in (first + step, last - step))
    if typeof(low).dtype.kind in "biu":
        low, high = fnp.astype(low, float), fnp.astype(high, float)
    return parts.with_nan(parts.given((low + high) / 2), True)


def _center(parts: _Parts) -> Any:
    whole = parts.sums(parts.x)
    axes = np.indices(parts.shape).reshape(len(parts.shape), -1).astype(float)
    found = [parts.sums(parts.x * along) / whole for along in axes]
    return tuple(found) if parts.one else [tuple(v) for v in fnp.stack(found, -1)]


def _extrema(parts: _Parts) -> Any:
    (low, at_low), (high, at_high) = (_extreme(parts, largest) for largest in (False, True))
    return low, high, at_low, at_high


@scipys("scipy.ndimage")
def sum_labels(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The sum over each part of an image.

    Args:
        input: an array.
        labels: integers that broadcast with it; None for one part, the whole.
        index: which labels are measured, plain: a number, or an array of them; None for one part,
            of all labels above 0.

    Returns:
        A number; for an array of labels an array.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import sum_labels
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: sum_labels(x, labels, [1, 2]))(np.array([1.0, 2.0, 4.0]))
        array([3., 4.])
    """
    parts = _Parts(input, labels, index)
    return parts.sums(parts.x)


@scipys("scipy.ndimage")
def mean(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The mean over each part of an image.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        A number; for an array of labels an array.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import mean
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: mean(x, labels, [1, 2]))(np.array([1.0, 2.0, 4.0]))
        array([1.5, 4. ])
    """
    parts = _Parts(input, labels, index)
    return parts.sums(parts.x) / parts.counts()


@scipys("scipy.ndimage")
def variance(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The variance over each part of an image.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        A number; for an array of labels an array.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import variance
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: variance(x, labels, [1, 2]))(np.array([1.0, 2.0, 4.0]))
        array([0.25, 0.  ])
    """
    parts = _Parts(input, labels, index)
    return _squares(parts) / parts.counts()


@scipys("scipy.ndimage")
def standard_deviation(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The standard deviation over each part of an image.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        A number; for an array of labels an array.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import standard_deviation
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: standard_deviation(x, labels, [1, 2]))(np.array([1.0, 2.0, 4.0]))
        array([0.5, 0. ])
    """
    parts = _Parts(input, labels, index)
    return fnp.sqrt(_squares(parts) / parts.counts())


@scipys("scipy.ndimage")
def minimum(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The smallest element of each part of an image; 0 of a part without any.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        A number; for an array of labels an array.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import minimum
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: minimum(x, labels, [1, 2]))(np.array([1.0, 2.0, 4.0]))
        array([1., 4.])
    """
    parts = _Parts(input, labels, index)
    return _extreme(parts, False)[0]


@scipys("scipy.ndimage")
def maximum(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The largest element of each part of an image; 0 of a part without any.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        A number; for an array of labels an array.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import maximum
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: maximum(x, labels, [1, 2]))(np.array([1.0, 2.0, 4.0]))
        array([2., 4.])
    """
    parts = _Parts(input, labels, index)
    return _extreme(parts, True)[0]


@scipys("scipy.ndimage")
def median(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The median of each part of an image; 0 of a part without any, NaN if it is the only one.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        A number; for an array of labels an array.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import median
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: median(x, labels, [1, 2]))(np.array([1.0, 2.0, 4.0]))
        array([1.5, 4. ])
    """
    parts = _Parts(input, labels, index)
    return _median(parts)


@scipys("scipy.ndimage")
def minimum_position(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The index of the smallest element of each part of an image.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        A tuple of integers; for an array of labels a list of them.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import minimum_position
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: minimum_position(x, labels, [1, 2]))(np.array([1.0, 2.0, 4.0]))
        [(np.int64(0),), (np.int64(2),)]
    """
    parts = _Parts(input, labels, index)
    return _extreme(parts, False)[1]


@scipys("scipy.ndimage")
def maximum_position(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The index of the largest element of each part of an image.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        A tuple of integers; for an array of labels a list of them.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import maximum_position
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: maximum_position(x, labels, [1, 2]))(np.array([1.0, 2.0, 4.0]))
        [(np.int64(1),), (np.int64(2),)]
    """
    parts = _Parts(input, labels, index)
    return _extreme(parts, True)[1]


@scipys("scipy.ndimage")
def extrema(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The smallest and largest element of each part of an image, and their indices.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        Minima, maxima, and their indices as `minimum_position` and `maximum_position` give them.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import extrema
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.jit(lambda x: extrema(x, labels, 1))(np.array([1.0, 2.0, 4.0]))
        (np.float64(1.0), np.float64(2.0), (np.int64(0),), (np.int64(1),))
    """
    parts = _Parts(input, labels, index)
    return _extrema(parts)


@scipys("scipy.ndimage")
def center_of_mass(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The mean index of the elements of each part, weighed by them.

    Args:
        input, labels, index: as in `sum_labels`.

    Returns:
        A tuple of numbers; for an array of labels a list of them.

    Raises:
        ValueError: labels of another shape.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import center_of_mass
        >>> labels = np.array([1, 1, 2])
        >>> ftrace.grad(lambda x: center_of_mass(x, labels, 1)[0])(np.array([1.0, 3.0, 4.0]))
        array([-0.1875,  0.0625,  0.    ])
    """
    parts = _Parts(input, labels, index)
    return _center(parts)

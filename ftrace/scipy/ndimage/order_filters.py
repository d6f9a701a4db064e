"""Filters by order: the smallest, largest or n-th element of a window about each element.

`generic_filter` has what a function makes of the window.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.lax import max as _largest
from ftrace.lax import min as _smallest
from ftrace.lax import reduce_window
from ftrace.numpy.promote import one_axis, static_int, value
from ftrace.scipy.borrowing import RefusedError, scipys
from ftrace.scipy.ndimage.borders import (
    around,
    chosen_axes,
    delivered,
    each_axis,
    on_all,
    real_image,
)


def _extreme(
    x: Any, pick: Callable[..., Any], axis: int, size: int, origin: int, mode: str, cval: Any
) -> Any:
    """The smallest or largest element of windows along one axis."""
    rank = typeof(x).ndim
    sizes, origins = on_all(size, [axis], rank, 1), on_all(origin, [axis], rank, 0)
    wide = around(x, sizes, origins, mode, cval)
    start = -np.inf if pick is _largest else np.inf
    return reduce_window(wide, start, pick, sizes, (1,) * rank, "VALID")


def _along(
    pick: Callable[..., Any], input: Any, size: Any, axis: int, output: Any, rest: tuple[Any, ...]
) -> Any:
    x = value(input)
    mode, cval, origin = rest
    axis, size = one_axis(axis, typeof(x).ndim), static_int(size, "A size")
    found = _extreme(real_image(x), pick, axis, size, static_int(origin, "An origin"), mode, cval)
    return delivered(found, x, output)


@scipys("scipy.ndimage")
def minimum_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """The smallest element of a window about each element, along one axis.

    Args:
        input, axis, output, mode, cval, origin: as in `correlate1d`.
        size: how many elements a window has.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `correlate1d`, or a size below 1.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import minimum_filter1d
        >>> ftrace.jit(lambda x: minimum_filter1d(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([1., 1., 1., 2.])
    """
    return _along(_smallest, input, size, axis, output, (mode, cval, origin))


@scipys("scipy.ndimage")
def maximum_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """The largest element of a window about each element, along one axis.

    Args:
        input, size, axis, output, mode, cval, origin: as in `minimum_filter1d`.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError, TypeError: as in `minimum_filter1d`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import maximum_filter1d
        >>> ftrace.jit(lambda x: maximum_filter1d(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([5., 5., 4., 4.])
    """
    return _along(_largest, input, size, axis, output, (mode, cval, origin))


class FilterWindow:
    """A window about each element: its footprint, on all axes of an array."""

    def __init__(self, x: Any, size: Any, footprint: Any, origin: Any, axes: Any) -> None:
        rank = typeof(x).ndim
        along = chosen_axes(axes, rank)
        if footprint is None:
            if size is None:
                raise RefusedError("no footprint or filter size provided")
            sizes = [static_int(k, "A size") for k in each_axis(size, along)]
            footprint = np.ones(sizes, bool)
        held = np.asarray(footprint, bool)
        if held.ndim != len(along) or not held.any():
            raise RefusedError(
                "a footprint has one axis for each axis of the array, and an element"
            )
        self.sizes = held.shape
        self.held = np.expand_dims(held, tuple(i for i in range(rank) if i not in along))
        self.origins = [int(o) for o in on_all(origin, along, rank, 0)]
        whole = len(along) == rank  # SciPy does not look at the order of the axes then
        self.placed = list(map(int, each_axis(origin, along))) if whole else self.origins
        self.along = along

    def elements(self, x: Any, mode: Any, cval: Any) -> Any:
        """The elements of each window, along a last axis."""
        wide = around(x, self.held.shape, self.placed, mode, cval)
        shape = typeof(x).shape
        if 0 in shape:
            return fnp.zeros((*shape, np.count_nonzero(self.held)))
        found = fnp.sliding_window_view(wide, self.held.shape)
        flat = fnp.reshape(found, (*shape, self.held.size))
        return flat if self.held.all() else flat[..., np.flatnonzero(self.held)]

    def extremes(self, x: Any, pick: Callable[..., Any], modes: Any, cval: Any) -> Any:
        """The smallest or largest element of each window."""
        if not self.held.all():
            return (fnp.max if pick is _largest else fnp.min)(self.elements(x, modes, cval), -1)
        each = zip(self.along, self.sizes, each_axis(modes, self.along), strict=True)
        for axis, k, mode in each:
            if k > 1:
                x = _extreme(x, pick, axis, k, self.origins[axis], mode, cval)
        return x


@scipys("scipy.ndimage")
def minimum_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The smallest element of a window about each element.

    Args:
        input, output, cval: as in `correlate1d`.
        size: how many elements a window has along all axes, or each of them.
        footprint: a boolean array: which elements a window has; `size` is ignored then.
        mode: as in `correlate1d`; for whole windows also one for each axis.
        origin: by how many elements windows are moved, along all axes or each of them.
        axes: along which the array is filtered; None for all.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError: as in `correlate1d`; neither a size nor a footprint.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import minimum_filter
        >>> ftrace.jit(lambda x: minimum_filter(x, 2))(np.array([[5.0, 1.0], [2.0, 4.0]]))
        array([[5., 1.],
               [2., 1.]])
    """
    x = value(input)
    window = FilterWindow(x, size, footprint, origin, axes)
    return delivered(window.extremes(real_image(x), _smallest, mode, cval), x, output)


@scipys("scipy.ndimage")
def maximum_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The largest element of a window about each element.

    Args:
        input, size, footprint, output, mode, cval, origin, axes: as in `minimum_filter`.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError, TypeError: as in `minimum_filter`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import maximum_filter
        >>> ftrace.jit(lambda x: maximum_filter(x, 2))(np.array([[5.0, 1.0], [2.0, 4.0]]))
        array([[5., 5.],
               [5., 5.]])
    """
    x = value(input)
    window = FilterWindow(x, size, footprint, origin, axes)
    return delivered(window.extremes(real_image(x), _largest, mode, cval), x, output)


def _ranked(
    input: Any, rank_of: Callable[[int], int], window: tuple[Any, ...], output: Any, border: Any
) -> Any:
    """The element of each window that has a place in its order."""
    x = value(input)
    about = FilterWindow(x, *window)
    n, (mode, cval) = int(about.held.sum()), border
    place = rank_of(n)
    place += n if place < 0 else 0
    if not 0 <= place < n:
        raise RefusedError("rank not within filter footprint size")
    if place in (0, n - 1):
        found = about.extremes(real_image(x), _largest if place else _smallest, mode, cval)
    else:
        found = fnp.sort(about.elements(real_image(x), mode, cval), axis=-1)[..., place]
    return delivered(found, x, output)


@scipys("scipy.ndimage")
def rank_filter(
    input: Any,
    rank: int,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The element of a place in the order of a window about each element.

    Args:
        input, size, footprint, output, mode, cval, origin, axes: as in `minimum_filter`.
        rank: the place, 0 for the smallest; negative ones count from the largest, -1.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError, TypeError: as in `minimum_filter`; a place that there is not.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import rank_filter
        >>> ftrace.jit(lambda x: rank_filter(x, 1, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([5., 2., 2., 4.])
    """
    place = static_int(rank, "A rank")
    return _ranked(input, lambda n: place, (size, footprint, origin, axes), output, (mode, cval))


@scipys("scipy.ndimage")
def median_filter(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The median of a window about each element: of an even number, the upper of the middle two.

    Args:
        input, size, footprint, output, mode, cval, origin, axes: as in `minimum_filter`.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError, TypeError: as in `minimum_filter`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import median_filter
        >>> ftrace.jit(lambda x: median_filter(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([5., 2., 2., 4.])
    """
    window = size, footprint, origin, axes
    return _ranked(input, lambda n: n // 2, window, output, (mode, cval))


@scipys("scipy.ndimage")
def percentile_filter(
    input: Any,
    percentile: Any,
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """A percentile of a window about each element, which is always one of its elements.

    Args:
        input, size, footprint, output, mode, cval, origin, axes: as in `minimum_filter`.
        percentile: between 0 and 100; negative ones are counted from 100.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError, TypeError: as in `minimum_filter`; another percentile.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import percentile_filter
        >>> ftrace.jit(lambda x: percentile_filter(x, 50, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([5., 2., 2., 4.])
    """
    share = float(percentile)
    share += 100.0 if share < 0 else 0.0
    if not 0 <= share <= 100:
        raise RefusedError("invalid percentile")

    def place(n: int) -> int:
        return n - 1 if share == 100.0 else int(float(n) * share / 100.0)

    return _ranked(input, place, (size, footprint, origin, axes), output, (mode, cval))


@scipys("scipy.ndimage", asked=False)
def generic_filter(
    input: Any,
    function: Callable[..., Any],
    size: Any = None,
    footprint: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    extra_arguments: tuple[Any, ...] = (),
    extra_keywords: dict[str, Any] | None = None,
    *,
    axes: Any = None,
) -> Any:
    """What a function makes of the window about each element.

    Args:
        input, size, footprint, output, mode, cval, origin, axes: as in `minimum_filter`.
        function: from the elements of a window, a vector, to a number.
        extra_arguments, extra_keywords: given to the function, too.

    Returns:
        An array of the input's shape.

    Raises:
        RuntimeError, ValueError, TypeError: as in `minimum_filter`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import generic_filter
        >>> ftrace.jit(lambda x: generic_filter(x, np.ptp, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([4., 4., 3., 2.])
    """
    x = value(input)
    elements = FilterWindow(x, size, footprint, origin, axes).elements(real_image(x), mode, cval)
    found = fnp.apply_along_axis(function, -1, elements, *extra_arguments, **(extra_keywords or {}))
    return delivered(found, x, output)

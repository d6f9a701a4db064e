"""Morphology of images of numbers: smallest and largest elements of windows, and what is made so.

The derivative goes to the element that is chosen.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.source import warn
from ftrace.lax import max as _largest
from ftrace.lax import min as _smallest
from ftrace.numpy.promote import value
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.ndimage.borders import chosen_axes, delivered, dtype_of, each_axis, real_image
from ftrace.scipy.ndimage.order_filters import FilterWindow

_About = tuple[Any, Any, Any, str, Any, Any, Any]
"""size, footprint, structure, mode, cval, origin, axes"""


def _chosen(x: Any, pick: Callable[..., Any], about: _About, output: Any) -> Any:
    """The smallest or largest element of each window, less or plus a structure."""
    size, footprint, structure, mode, cval, origin, axes = about
    if structure is None:
        window = FilterWindow(x, size, footprint, origin, axes)
        return delivered(window.extremes(real_image(x), pick, mode, cval), x, output)
    heights = fnp.astype(value(structure), float)
    held = np.ones(typeof(heights).shape, bool) if footprint is None else footprint
    window = FilterWindow(x, None, held, origin, axes)
    own = fnp.reshape(heights, (-1,))[np.flatnonzero(window.held)]
    dtype = typeof(x).dtype
    if dtype.kind in "iu":  # SciPy cuts all heights but the first
        own = fnp.concatenate([own[:1], fnp.trunc(own[1:])])
    elements = window.elements(real_image(x), mode, cval)
    moved = elements - own if pick is _smallest else elements + own
    if dtype.kind in "iu":  # and adds them to elements of the image's dtype, which overflow
        rest = fnp.astype(fnp.astype(moved[..., 1:], np.int64), dtype)
        moved = fnp.concatenate([moved[..., :1], fnp.astype(rest, float)], axis=-1)
    return delivered((fnp.min if pick is _smallest else fnp.max)(moved, -1), x, output)


def _eroded(x: Any, about: _About, output: Any = None) -> Any:
    return _chosen(x, _smallest, about, output)


def _dilated(x: Any, about: _About, output: Any = None) -> Any:
    """A dilation: the windows are turned round."""
    size, footprint, structure, mode, cval, origin, axes = about
    along = chosen_axes(axes, typeof(x).ndim)
    footprint, structure = (
        None if v is None else fnp.flip(value(v)) for v in (footprint, structure)
    )
    given = next((typeof(v).shape for v in (footprint, structure) if v is not None), None)
    sizes = each_axis(size, along) if given is None else given
    origins = each_axis(origin, along)
    turned = [-int(o) - (0 if k % 2 else 1) for o, k in zip(origins, sizes, strict=True)]
    return _chosen(x, _largest, (size, footprint, structure, mode, cval, turned, axes), output)


def _checked(about: _About) -> _About:
    size, footprint, structure = about[:3]
    if size is None and footprint is None and structure is None:
        raise ValueError("size, footprint, or structure must be specified")
    if size is not None and footprint is not None:
        warn("ignoring size because footprint is set")
    return about


def _array(output: Any) -> Any:
    """The array to write into; a dtype is not looked at."""
    return None if isinstance(output, str | type | np.dtype) else output


def _difference(a: Any, b: Any, like: Any, output: Any) -> Any:
    """The difference of images; of booleans, where they differ."""
    both = typeof(a).dtype.kind == typeof(b).dtype.kind == "b"
    return delivered(fnp.logical_xor(a, b) if both else a - b, like, output)


@scipys("scipy.ndimage")
def grey_erosion(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The smallest element of a window about each element, less the structure's height there.

    Args:
        input: an array of real numbers.
        size: how many elements a window has along all axes, or each of them.
        footprint: a boolean array: which elements a window has; `size` is ignored then.
        structure: heights of the window's elements, an array; it may be traced.
        output: None, the dtype of the result, or an array to write it into.
        mode, cval: what is outside, as in `correlate1d`.
        origin: by how many elements windows are moved, along all axes or each of them.
        axes: along which the array is filtered; None for all.

    Returns:
        An array of the input's shape.

    Raises:
        ValueError, RuntimeError: no size, footprint or structure, or one that does not fit.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import grey_erosion
        >>> ftrace.jit(lambda x: grey_erosion(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([1., 1., 1., 2.])
    """
    x, about = value(input), _checked((size, footprint, structure, mode, cval, origin, axes))
    return _eroded(x, about, output)


@scipys("scipy.ndimage")
def grey_dilation(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The largest element of a window about each element, plus the structure's height there.

    Args:
        input, size, footprint, structure, output, mode, cval, origin, axes: as in `grey_erosion`.

    Returns:
        An array of the input's shape.

    Raises:
        ValueError, RuntimeError: no size, footprint or structure, or one that does not fit.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import grey_dilation
        >>> ftrace.jit(lambda x: grey_dilation(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([5., 5., 4., 4.])
    """
    x, about = value(input), _checked((size, footprint, structure, mode, cval, origin, axes))
    return _dilated(x, about, output)


@scipys("scipy.ndimage")
def grey_opening(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """A dilation of an erosion: peaks narrower than the window are taken away.

    Args:
        input, size, footprint, structure, output, mode, cval, origin, axes: as in `grey_erosion`.

    Returns:
        An array of the input's shape.

    Raises:
        ValueError, RuntimeError: no size, footprint or structure, or one that does not fit.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import grey_opening
        >>> ftrace.jit(lambda x: grey_opening(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([1., 1., 2., 2.])
    """
    x, about = value(input), _checked((size, footprint, structure, mode, cval, origin, axes))
    return _dilated(_eroded(x, about), about, output)


@scipys("scipy.ndimage")
def grey_closing(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """An erosion of a dilation: valleys narrower than the window are filled.

    Args:
        input, size, footprint, structure, output, mode, cval, origin, axes: as in `grey_erosion`.

    Returns:
        An array of the input's shape.

    Raises:
        ValueError, RuntimeError: no size, footprint or structure, or one that does not fit.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import grey_closing
        >>> ftrace.jit(lambda x: grey_closing(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([5., 4., 4., 4.])
    """
    x, about = value(input), _checked((size, footprint, structure, mode, cval, origin, axes))
    return _eroded(_dilated(x, about), about, output)


@scipys("scipy.ndimage")
def morphological_gradient(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """A dilation less an erosion: how far elements of a window are apart.

    Args:
        input, size, footprint, structure, output, mode, cval, origin, axes: as in `grey_erosion`.

    Returns:
        An array of the input's shape.

    Raises:
        ValueError, RuntimeError: no size, footprint or structure, or one that does not fit.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import morphological_gradient
        >>> ftrace.jit(lambda x: morphological_gradient(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([4., 4., 3., 2.])
    """
    x, about = value(input), _checked((size, footprint, structure, mode, cval, origin, axes))
    return delivered(_dilated(x, about) - _eroded(x, about), x, _array(output))


@scipys("scipy.ndimage")
def morphological_laplace(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """A dilation plus an erosion, less twice the image.

    Args:
        input, size, footprint, structure, output, mode, cval, origin, axes: as in `grey_erosion`.

    Returns:
        An array of the input's shape.

    Raises:
        ValueError, RuntimeError: no size, footprint or structure, or one that does not fit.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import morphological_laplace
        >>> ftrace.jit(lambda x: morphological_laplace(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([-4.,  4.,  1., -2.])
    """
    x, about = value(input), _checked((size, footprint, structure, mode, cval, origin, axes))
    found = _dilated(x, about) + _eroded(x, about) - x - x
    return delivered(found, x, _array(output))


@scipys("scipy.ndimage")
def white_tophat(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """An image less its opening: peaks narrower than the window.

    Args:
        input, size, footprint, structure, output, mode, cval, origin, axes: as in `grey_erosion`.

    Returns:
        An array of the input's shape.

    Raises:
        ValueError, RuntimeError: no size, footprint or structure, or one that does not fit.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import white_tophat
        >>> ftrace.jit(lambda x: white_tophat(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([4., 0., 0., 2.])
    """
    x, about = value(input), _checked((size, footprint, structure, mode, cval, origin, axes))
    return _difference(x, _dilated(_eroded(x, about), about, dtype_of(x, output)), x, output)


@scipys("scipy.ndimage")
def black_tophat(
    input: Any,
    size: Any = None,
    footprint: Any = None,
    structure: Any = None,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The closing of an image less it: valleys narrower than the window.

    Args:
        input, size, footprint, structure, output, mode, cval, origin, axes: as in `grey_erosion`.

    Returns:
        An array of the input's shape.

    Raises:
        ValueError, RuntimeError: no size, footprint or structure, or one that does not fit.
        TypeError: complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.ndimage import black_tophat
        >>> ftrace.jit(lambda x: black_tophat(x, 3))(np.array([5.0, 1.0, 2.0, 4.0]))
        array([0., 3., 2., 0.])
    """
    x, about = value(input), _checked((size, footprint, structure, mode, cval, origin, axes))
    return _difference(_eroded(_dilated(x, about), about, dtype_of(x, output)), x, x, output)

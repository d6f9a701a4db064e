"""What every filter of images shares: elements outside of an array, and how results are stored.

SciPy filters in double precision and converts the result to the output's dtype as C does.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.source import warn
from ftrace.numpy.cells import write_out
from ftrace.numpy.promote import one_axis
from ftrace.scipy.borrowing import RefusedError

_PADDINGS: Final = {
    **dict.fromkeys(("reflect", "grid-mirror"), "symmetric"),
    **dict.fromkeys(("wrap", "grid-wrap"), "wrap"),
    **{"mirror": "reflect", "nearest": "edge"},
}
"""By mode of SciPy: the mode of `numpy.pad` that says which elements are outside."""
_CONSTANT: Final = ("constant", "grid-constant")


def extended(x: Any, margins: Sequence[tuple[int, int]], mode: str, cval: Any = 0.0) -> Any:
    """An array with some elements more before and behind each axis, as a mode says.

    Raises:
        RefusedError: another mode.
        DtypeError: a constant that is no number, whatever the mode.
    """
    typeof(cval)
    if mode in _CONSTANT:
        return fnp.pad(x, margins, constant_values=cval)
    if type(mode) is not str or mode not in _PADDINGS:
        raise RefusedError("boundary mode not supported")
    for axis, margin in enumerate(margins):
        n = typeof(x).shape[axis]
        if n and any(margin):
            x = fnp.take(x, np.pad(np.arange(n), margin, _PADDINGS[mode]), axis)  # type: ignore[call-overload]
    return x


def around(x: Any, sizes: Sequence[int], origins: Sequence[int], mode: str, cval: Any) -> Any:
    """An array, extended so that each of its elements has a window of some size about it.

    Raises:
        RefusedError: a size below 1, or an origin outside of the window.
    """
    for k, origin in zip(sizes, origins, strict=True):
        if k < 1 or not -(k // 2) <= origin <= (k - 1) // 2:
            raise RefusedError("invalid size or origin")
    margins = [(k // 2 + o, (k - 1) // 2 - o) for k, o in zip(sizes, origins, strict=True)]
    return extended(x, margins, mode, cval)


def each_axis(given: Any, axes: Sequence[int]) -> list[Any]:
    """One value for each of some axes: those of a sequence, or the same for all.

    Raises:
        RefusedError: a sequence of another length.
    """
    if type(given) in (list, tuple) or (np.ndim(given) and type(given) is not str):
        if len(given) != len(axes):
            raise RefusedError("a sequence has one element for each axis")
        return list(given)
    return [given] * len(axes)


def chosen_axes(axes: Any, rank: int) -> list[int]:
    """Axes as they are counted from the first; all of them for None.

    Raises:
        RefusedError: one that there is not, or twice the same.
    """
    given = range(rank) if axes is None else axes if np.ndim(axes) else (axes,)
    found = [one_axis(int(i), rank) for i in given]
    if len(set(found)) < len(found):
        raise RefusedError("axes must be unique")
    return found


def on_all(given: Any, axes: Sequence[int], rank: int, other: Any) -> list[Any]:
    """One value for each axis of an array: those given for some axes, another one elsewhere."""
    found = [other] * rank
    for axis, v in zip(axes, each_axis(given, axes), strict=True):
        found[axis] = v
    return found


def real_image(x: Any) -> Any:
    """An array in double precision.

    Raises:
        RefusedError: complex numbers, which have no order.
    """
    if typeof(x).dtype.kind == "c":
        raise RefusedError("Complex type not supported")
    return fnp.astype(x, float)


def dtype_of(like: Any, output: Any, whole: bool = False) -> Any:
    """The dtype of a result: that of an array or dtype given as output, or of the input.

    Raises:
        RefusedError: a dtype that is not of numbers, or loses imaginary parts.
    """
    kind, whole = typeof(like).dtype, whole or typeof(like).dtype.kind == "c"
    if output is not None:
        kind = typeof(output).dtype if is_array(output) else np.dtype(output)
        if whole and kind.kind != "c" and isinstance(output, type | np.dtype):
            warn("promoting specified output dtype to complex")
            kind = np.promote_types(kind, np.complex64)
    elif whole:
        kind = np.promote_types(kind, np.complex64)
    if kind.kind not in "biufc" or (whole and kind.kind != "c"):
        raise RefusedError("output must have numeric dtype, and a complex one for complex values")
    return kind


def is_array(output: Any) -> bool:
    """Whether an output is an array to write into, no dtype."""
    return not (output is None or isinstance(output, str | type | np.dtype))


def delivered(found: Any, like: Any, output: Any, rounded: bool = False) -> Any:
    """A result in the dtype that is asked for, or in the array.

    Args:
        found: an array in double precision.
        like: the input, whose dtype is taken where `output` is None.
        output: None, a dtype, or an array to write into.
        rounded: integers are rounded and held within their range, not cut.

    Raises:
        RefusedError: an array of another shape, or a dtype that is not of numbers, or loses
            imaginary parts.
    """
    kind = dtype_of(like, output, typeof(found).dtype.kind == "c")
    result = fnp.astype(_converted(found, kind, rounded), kind)
    if not is_array(output):
        return result
    if typeof(output).shape != typeof(result).shape:
        raise RefusedError("output shape not correct")
    return write_out(output, result)


def _converted(found: Any, kind: Any, rounded: bool) -> Any:
    """Numbers that a dtype holds, as C makes them of double precision."""
    if kind.kind == "b":
        return fnp.trunc(found)
    if kind.kind not in "iu" or not rounded:
        return found
    whole = fnp.trunc(found + fnp.where(fnp.greater(found, 0), 0.5, -0.5))
    return fnp.clip(whole, float(np.iinfo(kind).min), float(np.iinfo(kind).max))

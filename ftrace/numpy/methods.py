"""Methods and properties of tracers: ndarray's, in one table.

Each is the function of `ftrace.numpy` of the same name with the array first, where ndarray's
method has the same arguments; the others are written out. Methods that write (`sort`, `fill`) or
promise a new array (`copy`, `flatten`) are in `writers.py`.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.errors import TracerArrayConversionError
from ftrace.core.trace import UNKNOWN
from ftrace.numpy import cumulative, elementary, products, reductions, shaping, sorting
from ftrace.numpy.promote import cast
from ftrace.numpy.ufuncs import conjugate
from ftrace.primitives.convert import copy as copy_row


def _variadic(function: Callable[..., Any]) -> Callable[..., Any]:
    """`x.reshape(2, 3)` and `x.reshape((2, 3))`."""

    def method(x: Any, *sizes: Any, **options: Any) -> Any:
        whole = sizes[0] if len(sizes) == 1 else sizes
        return function(x, whole, **options) if sizes else function(x, **options)

    return method


def _astype(x: Any, dtype: Any, order: str = "K", casting: str = "unsafe", **ignored: Any) -> Any:
    found = cast(x, np.dtype(dtype))
    return copy_row(x) if found is x else found


def _format(x: Any, spec: str) -> str:
    """A known scalar in the format, so that progress can be printed; else what `str` gives."""
    known = x.known(exact=False)
    if not spec or known is UNKNOWN or x.aval.shape:
        return str(x)
    return format(np.asarray(known).item(), spec)


def _view(x: Any, *args: Any, **options: Any) -> Any:
    raise TracerArrayConversionError(
        f"view() of {x!r} was asked for: a traced value has no memory.",
        "Use astype() for another dtype, or ftrace.lax.bitcast_convert_type for its bits.",
    )


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sum": reductions.sum,
    "prod": reductions.prod,
    "max": reductions.max,
    "min": reductions.min,
    "mean": reductions.mean,
    "var": reductions.var,
    "std": reductions.std,
    "all": reductions.all,
    "any": reductions.any,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "cumsum": cumulative.cumsum,
    "cumprod": cumulative.cumprod,
    "ravel": shaping.ravel,
    "squeeze": shaping.squeeze,
    "swapaxes": shaping.swapaxes,
    "diagonal": shaping.diagonal,
    "trace": reductions.trace,
    "dot": products.dot,
    "clip": elementary.clip,
    "round": elementary.round,
    "conj": conjugate,
    "conjugate": conjugate,
    "repeat": sorting.repeat,
    "take": sorting.take,
    "argsort": sorting.argsort,
    "searchsorted": sorting.searchsorted,
    "nonzero": sorting.nonzero,
    "compress": sorting.compress,
    "choose": elementary.choose,
}


def _compress(x: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return sorting.compress(condition, x, axis, out)


METHODS: Final[dict[str, Any]] = {
    **FUNCTIONS,
    "compress": _compress,
    "reshape": _variadic(shaping.reshape),
    "transpose": _variadic(shaping.transpose),
    "astype": _astype,
    "view": _view,
    "T": property(shaping.transpose),
    "mT": property(shaping.matrix_transpose),
    "real": property(elementary.real, lambda x, v: x.real.__setitem__(..., v)),
    "imag": property(elementary.imag, lambda x, v: x.imag.__setitem__(..., v)),
    "__format__": _format,
    "itemsize": property(lambda x: x.aval.dtype.itemsize),
    "nbytes": property(lambda x: x.aval.size * x.aval.dtype.itemsize),
}

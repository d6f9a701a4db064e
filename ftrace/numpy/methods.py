"""Methods and properties of tracers: ndarray's, in one table.

Each is the function of `ftrace.numpy` of the same name with the array first, where ndarray's
method has the same arguments; the others are written out. Methods that write (`sort`, `fill`) or
promise a new array (`copy`, `flatten`) are in `writers.py`.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.dtypes import bool_, complex128, float64, int64
from ftrace.core.errors import (
    DeviceError,
    DtypeError,
    TracerArrayConversionError,
    TracerAttributeError,
)
from ftrace.core.trace import UNKNOWN, Tracer, as_it_is, ctx, holds_array, stands_for
from ftrace.numpy import (
    cumulative_functions,
    elementary,
    layouts,
    matrix_products,
    reductions,
    shaping,
    sorting,
    views,
)
from ftrace.numpy.promote import weak
from ftrace.numpy.refusing import attempt
from ftrace.numpy.ufuncs import conjugate
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.elementwise import bitwise_and, eq, isfinite, trunc

LONGEST: Final = 1000  # elements of an array that becomes a list of traced numbers


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as ndarray's method, whose errors are those of the method."""
    plain = getattr(np.ndarray, name)

    @functools.wraps(function)
    def method(*args: Any, **options: Any) -> Any:
        return attempt(plain, function, args, options)

    return method


def _variadic(function: Callable[..., Any]) -> Callable[..., Any]:
    """`x.reshape(2, 3)` and `x.reshape((2, 3))`."""

    def method(x: Any, *sizes: Any, **options: Any) -> Any:
        whole = sizes[0] if len(sizes) == 1 else sizes
        return function(x, whole, **options) if sizes else function(x, **options)

    return method


def _astype(
    x: Any,
    dtype: Any,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Any:
    return layouts.astype(x, dtype, order, casting, copy=bool(copy))


def _clip(x: Any, min: Any = None, max: Any = None, out: Any = None) -> Any:
    """Values limited by one bound or two."""
    return elementary.clip(x, min, max, out)


def _conjugate(x: Any, out: Any = None) -> Any:
    """The complex conjugate; of a real array, as in NumPy, the array itself."""
    if out is None and x.aval.dtype.kind != "c" and x.aval.shape:
        return views.same(x)
    found = conjugate(x, out=out)
    return weak(found) if x.aval.weak else layouts.kept(x, found)


def _view(x: Any, dtype: Any = None, type: Any = None) -> Any:
    """The same elements under another name; other dtypes would show the bits."""
    if dtype is np.ndarray:
        dtype, type = None, dtype
    kept = dtype is None or np.dtype(dtype) == x.aval.dtype
    if kept and (type is None or type is np.ndarray):
        return views.same(x)
    raise TracerArrayConversionError(
        f"view() of {x!r} with another dtype or type was asked for: a traced value has no memory.",
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
    "cumsum": cumulative_functions.cumsum,
    "cumprod": cumulative_functions.cumprod,
    "ravel": shaping.ravel,
    "squeeze": shaping.squeeze,
    "swapaxes": shaping.swapaxes,
    "diagonal": shaping.diagonal,
    "trace": reductions.trace,
    "dot": matrix_products.dot,
    "clip": _clip,
    "round": elementary.round,
    "conj": _conjugate,
    "conjugate": _conjugate,
    "repeat": sorting.repeat,
    "take": sorting.take,
    "argsort": sorting.argsort,
    "argpartition": sorting.argpartition,
    "searchsorted": sorting.searchsorted,
    "nonzero": sorting.nonzero,
    "compress": sorting.compress,
    "choose": elementary.choose,
}


def _compress(x: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return sorting.compress(condition, x, axis, out)


_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "compress": _compress,
    "reshape": _variadic(shaping.reshape),
    "transpose": _variadic(shaping.transpose),
    "astype": _astype,
}


def _absent(name: str) -> Any:
    """What ndarray has and no traced array can have; `hasattr` says that it is not there."""

    def ask(x: Any, *value: Any) -> Any:
        raise TracerAttributeError(
            f"{x!r} was asked for its {name}, or to set it: a traced value has no memory.",
            _INSTEAD.get(name, "Ask for it outside of the traced function."),
        )

    return property(ask, ask)


def _of_scalars(name: str, function: Callable[[Any], Any]) -> Any:
    """A method that Python's and NumPy's numbers of a kind have, and arrays have not."""

    def ask(x: Any) -> Any:
        cls = stands_for(x)
        if not hasattr(cls, name):
            raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
        return functools.partial(function, x)

    return property(ask)


def _is_integer(x: Any) -> Any:
    """Whether a number is whole, and finite."""
    whole = bitwise_and(isfinite(x), eq(x, trunc(x))) if x.dtype.kind == "f" else eq(x, x)
    return weak(whole)


def _plainly(name: str) -> Any:
    """A method that gives Python integers, or a text, of a number that is to be known."""
    return _of_scalars(name, lambda x: getattr(x.exactly(f"{name}()"), name)())


def _numbers(name: str, build: Callable[..., Any]) -> Any:
    """A method that gives Python's numbers: traced ones in lifted code, as `float(x)` there."""
    plain = getattr(Tracer, name)

    def method(x: Any, *args: Any) -> Any:
        known = x.known(exact=True) is not UNKNOWN
        if known or ctx.lift in (None, as_it_is) or x.aval.weak or x.size > LONGEST:
            return plain(x, *args)
        return build(x, *args)

    return functools.wraps(plain)(method)


def _item(x: Any, *places: Any) -> Any:
    place: Any = places
    if not place:
        if x.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return _as_number(shaping.reshape(x, ()))
    key = place if len(place) > 1 else place[0]
    found = x[key] if type(key) is tuple else shaping.reshape(x, -1)[operator.index(key)]
    if found.ndim:
        raise ValueError("incorrect number of indices for array")
    return _as_number(found)


def _tolist(x: Any) -> Any:
    return [_tolist(part) for part in x] if x.ndim else _as_number(x)


def _as_number(x: Any) -> Any:
    kinds = {"f": float64, "c": complex128, "b": bool_}
    return convert_element_type(x, new_dtype=kinds.get(x.dtype.kind, int64), weak_type=True)


def _as_dtype(x: Any) -> np.dtype[Any]:
    """What NumPy 2.4 asks of a value in the place of a dtype: of its own it takes only scalars."""
    if holds_array(x) or x.aval.weak:
        raise DtypeError(f"{x!r} is not a dtype.", "Write `dtype=x.dtype`.")
    return x.dtype


def _fixed(name: str, instead: str, get: Callable[[Any], Any] | None = None) -> Any:
    """A property of ndarray that a traced array has, and that cannot be set."""

    def refuse(x: Any, value: Any) -> Any:
        raise TracerAttributeError(f"The {name} of {x!r} was to be set, in place.", instead)

    return property(getattr(Tracer, name).fget if get is None else get, refuse)


def _device(x: Any) -> Any:
    """Where the value is or will be: `"cpu"`, as NumPy says, or CuPy's device where it is known."""
    if not x.is_on_device:
        return "cpu"
    known = x.known(exact=False)
    if known is UNKNOWN:
        raise TracerAttributeError(
            f"{x!r} was asked for its device, which is a GPU; which one is known when it runs.",
            "Ask for it outside of the traced function.",
        )
    return known.device


def _to_device(x: Any, device: Any, /, *, stream: Any = None) -> Any:
    """The array itself: nothing is moved inside a traced function."""
    if stream is not None:
        raise ValueError("The stream argument in to_device() is not supported")
    if device == _device(x):
        return views.same(x)
    if not x.is_on_device:
        raise ValueError(f"Unsupported device: {device!r}.")
    raise DeviceError(
        f"{x!r} was to be moved to {device!r}: a traced function moves nothing.",
        "Move the argument before the call: ftrace.device_put(x), ftrace.device_get(x).",
    )


_BY_DTYPE: Final = "Use x.astype(dtype)."
_DLPACK: Final = ("__dlpack__", "__dlpack_device__")
_INSTEAD: Final = {
    "resize": "Use numpy.resize(x, shape), which makes a new array.",
    "setfield": "Write x[...] = value.",
    "byteswap": "Use ftrace.lax.bitcast_convert_type for the bits of an array.",
    "tobytes": "Return the array from the traced function, and ask the result.",
    **dict.fromkeys(
        _DLPACK, "Return the array from the traced function, and hand the result to others."
    ),
    "setflags": "What may be written is decided by tracing; copy with x.copy() to write.",
}

METHODS: Final[dict[str, Any]] = {
    "item": _numbers("item", _item),
    "tolist": _numbers("tolist", _tolist),
    **{name: _method(name, fn) for name, fn in {**FUNCTIONS, **_OTHERS}.items()},
    **{name: _absent(name) for name in (*_INSTEAD, "ctypes", "data", "dump", "dumps", "getfield")},
    **{name: _absent(name) for name in ("base", "strides", "tofile")},
    "dtype": _fixed("dtype", "Use x = x.astype(dtype), or ftrace.lax.bitcast_convert_type."),
    "is_integer": _of_scalars("is_integer", _is_integer),
    **{name: _plainly(name) for name in ("as_integer_ratio", "hex", "bit_length", "bit_count")},
    "__numpy_dtype__": property(_as_dtype),
    "flags": property(layouts.Flags),
    "view": _view,
    "device": property(_device),
    "to_device": _to_device,
    "T": _fixed("T", "Write x.T[...] = value.", shaping.transpose),
    "mT": _fixed("mT", "Write x.mT[...] = value.", shaping.matrix_transpose),
    "itemsize": _fixed("itemsize", _BY_DTYPE, lambda x: x.aval.dtype.itemsize),
    "nbytes": _fixed("nbytes", _BY_DTYPE, lambda x: x.aval.size * x.aval.dtype.itemsize),
    "real": property(elementary.real, lambda x, v: x.real.__setitem__(..., v)),
    "imag": property(elementary.imag, lambda x, v: x.imag.__setitem__(..., v)),
}

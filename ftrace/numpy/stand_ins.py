"""Whether NumPy or SciPy refuses a call whatever its traced values are: they are asked.

An implementation of ours computes with what it is given, and may have a result where NumPy's or
SciPy's own function has an error: a matrix for a vector, an option of another kind. Where ours has
succeeded, `ask` calls the other one, once for each kind of arguments, with plain values of the same
shapes and dtypes in the place of traced ones. Three sets of values are tried: what only some values
bring about is not known here, and no error.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ftrace.core.arguments import BARE
from ftrace.core.trace import Tracer

MOST_ELEMENTS: Final = 1 << 14  # of arrays, and as sizes: more takes too long only to ask
_SMALL: Final = 32  # elements of a plain array whose values count
_KEPT: Final = 4096
_PLAIN: Final = (float, complex, str, bytes, np.generic, np.dtype, type, slice, type(None))
_passed: OrderedDict[Any, None] = OrderedDict()


class _Unasked(Exception):  # noqa: N818 - no error: what stops the making of a key
    """Arguments that are not for asking: functions, arrays of other libraries, many elements."""


def ask(plain: Callable[..., Any], args: Any, options: Mapping[str, Any], name: Any) -> None:
    """Raise what a function of NumPy's or SciPy's raises on arguments like these, if it does.

    Args:
        plain: that function.
        args, options: its arguments, some of them traced.
        name: what it is called by in what is remembered: its name, or itself.
    """
    count = [MOST_ELEMENTS]
    try:
        key = (name, *[_kind(a, count) for a in args])
        if options:
            key = (*key, *[(k, _kind(v, count)) for k, v in options.items()])
        if key in _passed:
            return
    except _Unasked:
        return
    except TypeError:  # what has no hash is no option of any function
        key = None
    error = _answer(plain, args, options)
    if error is not None:
        raise error
    if key is not None:
        _passed[key] = None
        if len(_passed) > _KEPT:
            _passed.popitem(last=False)


def _kind(x: Any, count: list[int]) -> Any:
    """What is the same for arguments that are refused alike; counts elements down."""
    cls = type(x)
    if cls is list or cls is tuple:
        return (cls, *[_kind(item, count) for item in x])
    if issubclass(cls, Tracer):
        count[0] -= x.size
        if count[0] < 0:
            raise _Unasked
        return Tracer, x.shape, x.dtype
    if cls is np.ndarray:
        count[0] -= x.size
        if count[0] < 0:
            raise _Unasked
        return cls, x.shape, x.dtype, x.tobytes() if x.size <= _SMALL else None
    if issubclass(cls, int | np.integer):
        if MOST_ELEMENTS < abs(x) < 1 << 63:
            raise _Unasked
    elif cls in (dict, object):
        raise TypeError
    elif not issubclass(cls, _PLAIN):
        raise _Unasked
    return cls, x


def _answer(plain: Callable[..., Any], args: Any, options: Mapping[str, Any]) -> Exception | None:
    """The error that all sets of values bring about."""
    found: list[Exception] = []
    for of in (_rising, _even, _high):
        given = [_like(a, of) for a in args]
        more = {k: _like(v, of) for k, v in options.items()}
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                plain(*given, **more)
            return None
        except BARE as error:
            if isinstance(error, np.linalg.LinAlgError | MemoryError):
                return None
            if "unexpected keyword" in str(error):  # an option of JAX's, or of a newer version
                return None
            found.append(error.with_traceback(None))
        except Exception:
            return None
    return found[0] if len({*map(type, found)}) == 1 else None


def _like(x: Any, of: Callable[..., Any]) -> Any:
    """The argument, with plain values for what is traced in it; it may be written."""
    if type(x) in (list, tuple):
        return type(x)([_like(item, of) for item in x])
    if isinstance(x, Tracer):
        made = of(x.shape, x.dtype)
        return made if of is _rising else made[()]  # of rank 0: an array, or a number
    return x.copy() if type(x) is np.ndarray else x


def _rising(shape: tuple[int, ...], dtype: Any) -> Any:
    """Floats that rise, along a diagonal that dominates: places, samples, regular matrices."""
    if dtype.kind not in "fc":
        return np.zeros(shape, dtype)
    size = shape[-1] if shape else 1
    found = np.arange(1.0, size + 1.0) + np.zeros(shape or 1)
    if len(shape) > 1:
        found = found / max(size, 1) + 2.0 * np.eye(shape[-2], size)
    return found.reshape(shape).astype(dtype)


def _even(shape: tuple[int, ...], dtype: Any) -> Any:
    return np.full(shape, 0.5 if dtype.kind in "fc" and not shape else 1).astype(dtype)


def _high(shape: tuple[int, ...], dtype: Any) -> Any:
    return (
        (_rising(shape, dtype) + 1000).astype(dtype) if dtype.kind in "fc" else _even(shape, dtype)
    )

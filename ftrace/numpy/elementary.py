"""Elementwise functions that are not ufuncs: where, clip, round, real, sinc, isclose and others.

Each is written in ufuncs and rows, in the dtypes NumPy's own definition gives.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import bool_
from ftrace.core.errors import DomainError, DtypeError, ShapeError
from ftrace.core.trace import Tracer, is_cell, lifted
from ftrace.numpy import given_sizes, ufuncs, views
from ftrace.numpy.assigning import assignable
from ftrace.numpy.lowerings import constant_like, truth
from ftrace.numpy.masking import nonzero_of, sized
from ftrace.numpy.promote import (
    TRACED,
    broadcast,
    cast,
    common_dtype,
    floating,
    inexact,
    known,
    numpy_function,
    promote,
    promote_inexact,
    static_int,
    stretch,
    strong,
    value,
    weak,
)
from ftrace.numpy.refusing import refuse
from ftrace.primitives import elementwise as e
from ftrace.primitives.convert import copy as copy_row
from ftrace.primitives.linear import add


def multiply(x: Any, y: Any) -> Any:
    """x * y for any operands, as the ufunc."""
    return ufuncs.apply(np.multiply, x, y)


# ---------------------------------------------------------------------------------- choice


@numpy_function
def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """x where the condition is true, y elsewhere; the indices of true elements without them.

    With `size` the first so many indices, filled up: as `nonzero`.
    """
    which = value(condition)
    if x is None and y is None and size is not None:
        return given_sizes.nonzero(which, size, fill_value)
    if x is None and y is None:
        return nonzero_of(which, "numpy.where with one argument")
    if x is None or y is None:
        raise DomainError(
            "numpy.where was given either both or neither of x and y: one of them is None.",
            "Give two arrays or numbers.",
        )
    return chosen(which, x, y)


def chosen(condition: Any, x: Any, y: Any) -> Any:
    """`where` of three operands."""
    return e.select(*broadcast(truth(strong(value(condition))), *promote(value(x), value(y))))


@numpy_function
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """For each element the choice of the first condition that is true there."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError("list of cases must be same length as list of conditions, and not empty")
    operands = [value(x) for x in (*choicelist, default)]
    dtype = common_dtype(*operands)
    *choices, found = (cast(x, dtype) for x in operands)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        found = chosen(condition, choice, found)
    return found


@numpy_function
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """For each element the function of the last condition that is true there.

    Every function is evaluated on the whole array; results are chosen afterwards.
    """
    x = strong(value(x))
    conditions = _conditions(condlist, typeof(x).shape)
    n = len(conditions)
    if len(funclist) not in (n, n + 1):
        raise ShapeError(
            f"piecewise was given {n} condition(s) and {len(funclist)} functions.",
            f"Give {n} functions, or {n + 1}: the last one is for where no condition holds.",
        )
    found = constant_like(x, typeof(x).dtype, 0)
    if len(funclist) == n + 1:
        found = _piece(funclist[-1], x, args, kw)
    for condition, function in zip(conditions, funclist, strict=False):
        found = chosen(condition, _piece(function, x, args, kw), found)
    return cast(found, typeof(x).dtype)


def _conditions(condlist: Any, shape: tuple[int, ...]) -> list[Any]:
    """The masks of piecewise, each for the leading axes: a list, or one that is no list of any."""
    listed = isinstance(condlist, list | tuple) or np.ndim(condlist)
    if not listed or (shape and not (isinstance(condlist[0], list) or is_cell(condlist[0]))):
        condlist = [condlist]
    return [_over_all(value(c), shape) for c in condlist]


def _over_all(mask: Any, shape: tuple[int, ...]) -> Any:
    """A mask of leading axes as one that broadcasts to all."""
    sizes = typeof(mask).shape
    if sizes != shape[: len(sizes)]:
        raise IndexError("boolean index did not match indexed array")
    return sized(mask, (*sizes, *(1,) * (len(shape) - len(sizes))))


def _piece(function: Any, x: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
    a = typeof(x)
    if isinstance(function, str):  # NumPy's assignment reads a number from it
        function = a.dtype.type(function)
    found = lifted(function)(x, *args, **kw) if callable(function) else function
    return stretch(assignable(found, a.dtype), a.shape)


@numpy_function
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """For each element the choice whose number stands there."""
    index = strong(value(a))
    if typeof(index).dtype.kind not in "biu":
        raise TypeError("Cannot cast array data to integers according to the rule 'safe'")
    arrays = promote(*[value(c) for c in choices])
    n = len(arrays)
    np.choose(0, [0], mode=mode)  # type: ignore[call-overload] - it says what modes there are
    if mode == "wrap":
        index = ufuncs.apply(np.remainder, index, n)
    elif mode == "raise":
        outside = (ufuncs.apply(f, index, k) for f, k in ((np.less, 0), (np.greater_equal, n)))
        refuse(e.bitwise_or(*outside), ValueError, "invalid entry in choice array")
    found = arrays[-1]
    for i in range(n - 2, -1, -1):
        found = chosen(ufuncs.apply(np.less_equal, index, i), arrays[i], found)
    return ufuncs.finish(np.add, chosen(True, found, found), out)


# ---------------------------------------------------------------------------------- rounding


@numpy_function
def clip(
    a: Any,
    a_min: Any = np._NoValue,
    a_max: Any = np._NoValue,
    out: Any = None,
    *,
    min: Any = np._NoValue,
    max: Any = np._NoValue,
) -> Any:
    """Values limited to an interval."""
    unset = np._NoValue
    if (a_min is unset) != (a_max is unset):
        raise TypeError("clip() takes both bounds by position, or `min=` and `max=`")
    if a_min is unset:
        a_min, a_max = None if min is unset else min, None if max is unset else max
    elif min is not unset or max is not unset:
        raise ValueError("`min` and `max` are other names of `a_min` and `a_max`")
    found = x = value(a)
    dtype = typeof(x).dtype
    low, high = _in_range(a_min, a_max, dtype)
    # between two bounds a zero stays as it is at a zero of the other sign, as in NumPy: `maximum`
    # gives the second of them, but of float16 the first
    stays = low is not None and high is not None and dtype.char != "e"
    if low is not None:
        found = ufuncs.apply(np.maximum, *((low, found) if stays else (found, low)))
    if high is not None:
        found = ufuncs.apply(np.minimum, *((high, found) if stays else (found, high)))
    return ufuncs.finish(np.add, copy_row(x) if found is x else found, out)


def _in_range(low: Any, high: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Bounds without Python integers that no integer of the dtype can pass."""
    if dtype.kind not in "iu":
        return low, high
    info = np.iinfo(dtype)
    return (
        None if type(low) is int and low <= info.min else low,
        None if type(high) is int and high >= info.max else high,
    )


def round_to(x: Any, decimals: int = 0) -> Any:
    """Rounding to a number of decimals, half to even."""
    kind = typeof(x).dtype.kind
    if kind == "c":
        return e.complex(round_to(e.real(x), decimals), round_to(e.imag(x), decimals))
    if kind != "f":
        return (
            copy_row(x) if decimals >= 0 else cast(round_to(inexact(x), decimals), typeof(x).dtype)
        )
    if not decimals:
        return e.round(strong(x))
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return e.div(e.round(e.mul(x, scale)), scale)
    return e.mul(e.round(e.div(x, scale)), scale)


@numpy_function
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Values rounded to a number of decimals, half to even."""
    x = strong(value(a))
    places = static_int(decimals, "decimals")
    if typeof(x).dtype == bool_:
        if places:
            raise DtypeError(
                f"numpy.round was asked for {places} decimals of truth values.",
                "Convert them: x.astype(float).",
            )
        x = cast(x, np.dtype(np.float16))  # as NumPy does
    found = round_to(x, places)
    return ufuncs.finish(np.add, found, out)


around = round
_UFUNC = import_module("numpy._core.umath").clip  # what `x.clip(t, 2.0)` of a plain x calls
ufuncs.UFUNCS[_UFUNC] = TRACED[np.clip]
TRACED[np.around] = TRACED[np.round]


@numpy_function
def fix(x: Any, out: Any = None) -> Any:
    """Values rounded towards zero."""
    return ufuncs.finish(np.trunc, ufuncs.apply(np.trunc, x), out)


@numpy_function
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """NaN and infinities replaced by numbers; in place for copy=False."""
    found = _numbers(strong(value(x)), nan, posinf, neginf)
    return found if copy or not isinstance(x, Tracer) else ufuncs.finish(np.add, found, x)


def _numbers(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    dtype = typeof(x).dtype
    if dtype.kind == "c":
        return e.complex(*(_numbers(part(x), nan, posinf, neginf) for part in (e.real, e.imag)))
    if dtype.kind != "f":
        return copy_row(x)
    limits = np.finfo(dtype)
    top = limits.max if posinf is None else posinf
    bottom = limits.min if neginf is None else neginf
    at = (e.isnan(x), *(e.eq(x, dtype.type(number)) for number in (np.inf, -np.inf)))
    for condition, given in zip(at, (nan, top, bottom), strict=True):
        x = chosen(condition, stretch(cast(value(given), dtype), typeof(x).shape), x)
    return x


# ---------------------------------------------------------------------------------- complex


_REAL = views.Rows(e.real, lambda b, v: e.complex(v, e.imag(b)))
_IMAG = views.Rows(e.imag, lambda b, v: e.complex(e.real(b), v))


@numpy_function
def real(val: Any) -> Any:
    """The real part."""
    x = value(val)
    if typeof(x).weak:
        return weak(e.real(x) if typeof(x).dtype.kind == "c" else copy_row(x))
    if typeof(x).dtype.kind == "c":
        return views.stepped(x, e.real(x), _REAL)
    return views.same(x) if isinstance(x, Tracer) else copy_row(x)


@numpy_function
def imag(val: Any) -> Any:
    """The imaginary part."""
    x = value(val)
    if typeof(x).dtype.kind != "c":
        x = strong(x) if typeof(x).weak else x
        zeros = _nothing(x)
        return weak(zeros) if typeof(value(val)).weak else views.stepped(x, zeros, _NOTHING)
    if typeof(x).weak:
        return weak(e.imag(x))
    return views.stepped(x, e.imag(x), _IMAG)


def _nothing(x: Any) -> Any:
    return constant_like(x, typeof(x).dtype, 0)


_NOTHING = views.Rows(_nothing, None)


@numpy_function
def angle(z: Any, deg: bool = False) -> Any:
    """The angle of a complex number."""
    z = strong(value(z))
    parts = (imag(z), real(z)) if typeof(z).dtype.kind == "c" else (0, z)
    found = ufuncs.apply(np.arctan2, *parts)
    return multiply(found, 180 / np.pi) if deg else found


@numpy_function
def real_if_close(a: Any, tol: float = 100) -> Any:
    """The real part, where all imaginary parts are known to be close to zero."""
    x = value(a)
    if typeof(x).dtype.kind != "c":
        return views.same(x) if isinstance(x, Tracer) else copy_row(x)
    parts = known(imag(x), "numpy.real_if_close")
    limit = tol * np.finfo(parts.dtype).eps if tol > 1 else tol
    return real(x) if np.all(np.abs(parts) < limit) else copy_row(x)


@numpy_function
def iscomplex(x: Any) -> Any:
    """Whether the imaginary part is not zero."""
    return truth(imag(x))


@numpy_function
def isreal(x: Any) -> Any:
    """Whether the imaginary part is zero."""
    return e.bitwise_not(iscomplex(x))


@numpy_function
def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return typeof(value(x)).dtype.kind == "c"


@numpy_function
def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return typeof(value(x)).dtype.kind != "c"


# ---------------------------------------------------------------------------------- functions


@numpy_function
def sinc(x: Any) -> Any:
    """sin(pi x) / (pi x), and 1 at zero, with all derivatives there."""
    x = floating(x)
    dtype = typeof(x).dtype
    at_zero = e.eq(x, dtype.type(0))
    y = e.mul(x, dtype.type(np.pi))
    safe = e.select(at_zero, dtype.type(1), y)
    series = _sinc_series(y)
    return e.select(at_zero, series, e.div(e.sin(safe), safe))


def _sinc_series(y: Any) -> Any:
    """1 - y^2/6 + y^4/120 - ...: right to the eighth derivative at zero."""
    dtype = typeof(y).dtype
    square = e.square(y)
    found = dtype.type(1 / 362880)
    for coefficient in (-1 / 5040, 1 / 120, -1 / 6, 1.0):
        found = add(e.mul(found, square), dtype.type(coefficient))
    return found


@numpy_function
def isneginf(x: Any, out: Any = None) -> Any:
    """Whether a value is negative infinity."""
    return ufuncs.finish(np.add, ufuncs.apply(np.equal, x, -np.inf), out)


@numpy_function
def isposinf(x: Any, out: Any = None) -> Any:
    """Whether a value is positive infinity."""
    return ufuncs.finish(np.add, ufuncs.apply(np.equal, x, np.inf), out)


@numpy_function
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """|a - b| <= atol + rtol |b|, elementwise."""
    if any(type(v) is int and v.bit_length() > 64 for v in (a, b, rtol, atol)):
        raise DtypeError("isclose was given an integer that no dtype holds.", "Pass a float.")
    x, y = broadcast(*promote_inexact(value(a), value(b)))
    gap = ufuncs.apply(np.absolute, e.sub(x, y))
    size = ufuncs.apply(np.absolute, y)
    bound = ufuncs.apply(np.add, atol, multiply(rtol, size))
    close = e.bitwise_and(ufuncs.apply(np.less_equal, gap, bound), ufuncs.apply(np.isfinite, y))
    found = e.bitwise_or(close, e.eq(x, y))
    if not equal_nan:
        return found
    return e.bitwise_or(found, e.bitwise_and(e.isnan(x), e.isnan(y)))

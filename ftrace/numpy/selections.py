"""What a selection `x[mask]` of a traced mask does: elementwise functions and folds, at full size.

An elementwise function computes all places and keeps the mask; a fold takes those of the mask
alone, so that derivatives of the others are exactly zero. What needs the number of the parts for a
shape (sorting, joining, iterating) raises.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ftrace.core.avals import REFUSED, typeof
from ftrace.core.errors import DtypeError, MutationError, TracerIntegerConversionError
from ftrace.core.trace import Tracer, ctx
from ftrace.numpy.masking import Selection, count, picked, placed, places, rank, refused
from ftrace.numpy.promote import (
    DEFERRED,
    cast,
    find_special,
    find_traced,
    floating,
    many_axes,
    value,
)
from ftrace.numpy.refusing import refuse
from ftrace.numpy.ufuncs import UFUNCS
from ftrace.primitives.elementwise import bitwise_or, lt
from ftrace.primitives.index import gather


def _ours(function: Any) -> Any:
    """The implementation of a function that the tables below name; it may not be loaded yet."""
    return find_traced(function)


# ---------------------------------------------------------------------------------- elementwise


def _lanes(xs: Any) -> tuple[Selection, list[Any]]:
    """The first selection among operands, and all of them at its places."""
    first = next(x for x in xs if type(x) is Selection)
    back = first.ndim - first.axis
    own = (x if x is None or type(x) is Selection else value(x) for x in xs)
    return first, [x if x is None else placed(x, first.mask, back) for x in own]


def elementwise(function: Callable[..., Any], xs: Any, *rest: Any, **options: Any) -> Any:
    """A function of the elements of `xs`, on all places."""
    first, lanes = _lanes(xs)
    with np.errstate(all="ignore"):  # what is not taken is computed, and then left
        found = function(*lanes, *rest, **options)
    if isinstance(found, tuple):
        return tuple(map(first.with_whole, found))
    return first.with_whole(found)


def array_ufunc(self: Selection, ufunc: np.ufunc, method: str, *xs: Any, **options: Any) -> Any:
    """NumPy's door for ufuncs."""
    if method == "reduce":
        fold = _REDUCE.get(ufunc)
        if fold is not None:
            return array_function(self, fold, (), xs, {"axis": 0, **options})
    function = UFUNCS.get(ufunc) or find_special(ufunc)
    if method != "__call__" or function is None or not options.keys() <= {"dtype"}:
        raise refused(self.mask, f"np.{ufunc.__name__} with these arguments needs it")
    return elementwise(function, xs, **options)


# ---------------------------------------------------------------------------------- folds


def _rows(function: Any, s: Selection, options: dict[str, Any]) -> Selection:
    """A fold of every part by itself."""
    gone = sum(i < s.axis for i in many_axes(options["axis"], s.ndim))
    with np.errstate(all="ignore"):
        found = _ours(function)(s.whole, **options)
    return Selection(found, s.mask, s.axis if options.get("keepdims") else s.axis - gone)


def _summed(function: Any, s: Selection, options: dict[str, Any]) -> Any:
    return _ours(function)(s.whole, where=s.taken, **options)


def _filled(number: Any) -> Callable[..., Any]:
    def fold(function: Any, s: Selection, options: dict[str, Any]) -> Any:
        return _ours(function)(s.filled(number), **options)

    return fold


def _least(dtype: np.dtype[Any], sign: int) -> Any:
    """What a maximum (or, for a negative sign, a minimum) never prefers."""
    if dtype.kind == "b":
        return sign < 0
    if dtype.kind in "fc":
        return -sign * np.inf
    limits = np.iinfo(dtype)
    return limits.min if sign > 0 else limits.max


def _refuse_nothing(s: Selection, words: str) -> None:
    refuse(lt(count(s.mask), 1), ValueError, words)


def _extreme(sign: int) -> Callable[..., Any]:
    def fold(function: Any, s: Selection, options: dict[str, Any]) -> Any:
        if options.get("initial") in (None, np._NoValue):
            _refuse_nothing(
                s,
                f"zero-size array to reduction operation {'maximum' if sign > 0 else 'minimum'} "
                "which has no identity",
            )
            options = options | {"initial": None}
        return _ours(function)(s.filled(_least(s.dtype, sign)), **options)

    return fold


def _place(sign: int) -> Callable[..., Any]:
    def fold(function: Any, s: Selection, options: dict[str, Any]) -> Any:
        name = function.__name__
        _refuse_nothing(s, f"attempt to get {name} of an empty sequence")
        if (s.ndim > 1 and options.get("axis") is None) or options.get("keepdims"):
            raise refused(s.mask, f"np.{name} without axis= needs it")
        at = _ours(function)(s.filled(_least(s.dtype, sign)), axis=s.axis)
        return gather(rank(s.mask), at, axes=(0,), mode="clip")

    return fold


def _quantile(function: Any, s: Selection, options: dict[str, Any]) -> Any:
    """An order statistic: places not taken are NaN and skipped, but a NaN that is taken counts."""
    whole = floating(s.whole)
    along = {k: v for k, v in options.items() if k in ("axis", "keepdims")}
    bad = _ours(np.any)(UFUNCS[np.isnan](whole), where=s.taken, **along)
    found = _ours(getattr(np, f"nan{function.__name__}"))(
        s.with_whole(whole).filled(np.nan), **options
    )
    return _ours(np.where)(bad, typeof(found).dtype.type(np.nan), found)


def _norm(function: Any, s: Selection, options: dict[str, Any]) -> Any:
    if options.get("ord", 2) not in (1, 2, np.inf, "fro", "nuc"):
        raise refused(s.mask, f"np.linalg.norm with ord={options['ord']!r} needs it")
    return _ours(function)(s.filled(0), **options)


FOLDS: Final[dict[Any, Callable[..., Any]]] = {
    **dict.fromkeys((np.sum, np.prod, np.mean, np.var, np.std, np.any, np.all), _summed),
    **dict.fromkeys((np.count_nonzero, np.nansum), _filled(0)),
    **dict.fromkeys((np.median, np.quantile, np.percentile), _quantile),
    np.linalg.norm: _norm,
    **dict.fromkeys((np.max, np.amax), _extreme(1)),
    **dict.fromkeys((np.min, np.amin), _extreme(-1)),
    np.argmax: _place(1),
    np.argmin: _place(-1),
}
_REDUCE: Final[dict[np.ufunc, Any]] = {
    **{np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min},
    **{np.logical_and: np.all, np.logical_or: np.any},
}
ELEMENTWISE: Final[dict[Any, int]] = {  # and how many arguments are such
    **{np.where: 3, np.clip: 3, np.isclose: 2},
    **dict.fromkeys((np.round, np.around, np.real, np.imag, np.angle, np.sinc, np.nan_to_num), 1),
    **dict.fromkeys((np.interp, np.copy, np.zeros_like, np.ones_like, np.full_like), 1),
}
PRODUCTS: Final = frozenset({np.dot, np.vdot, np.inner})


@lru_cache(maxsize=256)
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def _bound(function: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    found = _signature(function).bind(*args, **kwargs).arguments
    return {k: v for k, v in found.items() if v is not np._NoValue and v is not None}


def array_function(self: Selection, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's door for all its other functions."""
    n = ELEMENTWISE.get(function, 0)
    if any(type(x) is Selection for x in args[:n]) and (function is not np.where or len(args) == n):
        return elementwise(_ours(function), args[:n], *args[n:], **kwargs)
    if function is np.average:
        return _average(*args, **kwargs)
    if function in PRODUCTS and not kwargs:
        return _product(_ours(function), args)
    if function in FOLDS:
        options = _bound(function, args, kwargs)
        s = options.pop(next(iter(options)))
        if type(s) is Selection and options.keys().isdisjoint(("where", "out", "mean")):
            known = s.axis not in many_axes(options.get("axis"), s.ndim)
            return _rows(function, s, options) if known else FOLDS[function](function, s, options)
    raise refused(self.mask, f"np.{function.__name__} needs it")


def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    if weights is None:
        weights = np.ones_like(a)
    total = np.sum(weights, axis=axis)
    mean = np.sum(np.multiply(a, weights), axis=axis) / total
    return (mean, total) if returned else mean


def _product(function: Callable[..., Any], xs: Any) -> Any:
    """A product of two vectors, at least one of them a selection."""
    first, lanes = _lanes(xs)
    if any(typeof(x).ndim != 1 for x in lanes):
        raise refused(first.mask, "products of matrices need it")
    return function(*(first.with_whole(x).filled(0) for x in lanes))


# ---------------------------------------------------------------------------------- parts


def getitem(s: Selection, key: Any) -> Any:
    """`x[mask][key]`: one part, fewer parts by another mask, or something of every part."""
    if type(key) is Selection and key.dtype == np.bool_ and key.ndim == 1 and s.axis == 0:
        return Selection(s.whole, s.narrowed(placed(key, s.mask, 1)).mask, 0)
    items = key if type(key) is tuple else (key,)
    if items and s.axis == 0 and _is_integer(items[0]):
        part = picked(s.whole, _place_of(s, items[0]), 0)
        return part[items[1:]] if items[1:] else part
    here = items[s.axis : s.axis + 1]
    if all(type(i) in (int, slice) for i in items) and here in ((), (slice(None),)):
        found = Selection(s.whole[key], s.mask, 0)
        found.axis = sum(type(i) is slice for i in items[: s.axis])
        return found
    raise refused(s.mask, "it was indexed")


def _is_integer(i: Any) -> bool:
    return (
        isinstance(i, Tracer | int | np.integer) and not np.ndim(i) and typeof(i).dtype.kind in "iu"
    )


def _place_of(s: Selection, i: Any) -> Any:
    """Where the i-th part is."""
    n = count(s.mask)
    at = i + n if type(i) is int and i < 0 else _ours(np.where)(UFUNCS[np.less](i, 0), i + n, i)
    refuse(
        bitwise_or(UFUNCS[np.less](at, 0), UFUNCS[np.greater_equal](at, n)),
        IndexError,
        "index is out of bounds for the places where the mask is true",
    )
    return gather(places(s.mask), cast(value(at), np.dtype(np.int64)), axes=(0,), mode="clip")


def _length(s: Selection) -> int:
    raise TracerIntegerConversionError(
        f"len() was asked of x[mask], which depends on the values of {s.mask!r}.",
        "Write x[mask].size, or numpy.count_nonzero(mask).",
    )


def _refusing(what: str) -> Callable[..., Any]:
    def refuse_(s: Selection, *args: Any, **kwargs: Any) -> Any:
        raise refused(s.mask, what)

    return refuse_


def _attribute(s: Selection, name: str) -> Any:
    if name in _MEMBERS:
        raise refused(s.mask, f"{name} needs it")
    raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")


# ---------------------------------------------------------------------------------- operators


def _operator(ufunc: np.ufunc) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(x: Any, *y: Any) -> Any:
        return ufunc(x, *y)

    def reflected(y: Any, x: Any) -> Any:
        return ufunc(x, y)

    return forward, reflected


def _in_place(ufunc: np.ufunc) -> Callable[..., Any]:
    def write(s: Selection, y: Any) -> Selection:
        if s.owner is not ctx.trace:
            raise MutationError(
                "A selection x[mask] from outside a region was changed in place.",
                "Write to a copy, `part = part * 2`, or into the array: `x[mask] *= 2`.",
            )
        found = ufunc(s, y)
        if not np.can_cast(found.dtype, s.dtype, "same_kind") or found.ndim != s.ndim:
            raise DtypeError(
                f"{ufunc.__name__} gives {found.dtype}, which an array of {s.dtype} cannot hold.",
                "Make the array of the wider dtype, or convert the result with `.astype`.",
            )
        s.whole = cast(found.whole, s.dtype)
        return s

    return write


def _method(function: Any) -> Callable[..., Any]:
    def method(s: Selection, *args: Any, **kwargs: Any) -> Any:
        return array_function(s, function, (), (s, *args), kwargs)

    return method


def _clip(s: Selection, min: Any = None, max: Any = None, **kwargs: Any) -> Any:
    return array_function(s, np.clip, (), (s, min, max), kwargs)


def _table() -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, ufunc in (
        *(("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", np.divide)),
        *(("floordiv", np.floor_divide), ("mod", np.remainder), ("pow", np.power)),
        *(("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)),
    ):
        table[f"__{name}__"], table[f"__r{name}__"] = _operator(ufunc)
        table[f"__i{name}__"] = _in_place(ufunc)
    for name, ufunc in (
        *(("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal)),
        *(("gt", np.greater), ("ge", np.greater_equal), ("neg", np.negative)),
        *(("pos", np.positive), ("abs", np.absolute), ("invert", np.invert)),
    ):
        table[f"__{name}__"] = _operator(ufunc)[0]
    for name in ("sum", "prod", "mean", "var", "std", "any", "all", "max", "min"):
        table[name] = _method(getattr(np, name))
    for name in ("argmax", "argmin", "round", "dot", "copy"):
        table[name] = _method(getattr(np, name))
    table["clip"] = _clip
    for name in ("bool", "float", "int", "complex"):
        table[f"__{name}__"] = _refusing(f"{name}() needs it")
    return table


_MEMBERS: Final = frozenset(dir(np.ndarray))
MEMBERS: Final[dict[str, Any]] = {
    **_table(),
    "__array_ufunc__": array_ufunc,
    "__array_function__": array_function,
    "__getitem__": getitem,
    "__len__": _length,
    "__getattr__": _attribute,
    "__iter__": _refusing("a loop over it needs it"),
    "__array__": _refusing("a plain array needs it"),
    "__index__": _refusing("it was used as an index"),
    "__setitem__": _refusing("it was written to: write x[mask] = value"),
    "__hash__": None,
    "__matmul__": lambda x, y: array_function(x, np.dot, (), (x, y), {}),
    "__rmatmul__": lambda y, x: array_function(y, np.dot, (), (x, y), {}),
    "real": property(_method(np.real)),
    "imag": property(_method(np.imag)),
    "astype": lambda s, dtype: s.with_whole(s.whole.astype(dtype)),
}


def install() -> None:
    """Set operators, methods and protocols on `Selection`."""
    for name, member in MEMBERS.items():
        setattr(Selection, name, member)
    DEFERRED.add(Selection)
    REFUSED[Selection] = lambda s: refused(s.mask, "it is to be known here")

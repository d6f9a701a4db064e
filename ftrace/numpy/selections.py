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
from ftrace.core.errors import TracerIntegerConversionError
from ftrace.core.trace import Tracer
from ftrace.numpy import cells
from ftrace.numpy.masking import (
    INDEX,
    Selection,
    count,
    placed,
    places,
    rank,
    refused,
)
from ftrace.numpy.promote import (
    DEFERRED,
    cast,
    find_special,
    find_traced,
    floating,
    many_axes,
    stretch,
    value,
)
from ftrace.numpy.provenance import is_same
from ftrace.numpy.refusing import refuse
from ftrace.numpy.ufuncs import UFUNCS
from ftrace.numpy.views import is_view
from ftrace.primitives.create import iota
from ftrace.primitives.elementwise import bitwise_or, lt, ne
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
    if ufunc is np.matmul and method == "__call__":
        return array_function(self, np.dot, (), xs, options)  # of at most two axes they are one
    function = UFUNCS.get(ufunc) or find_special(ufunc)
    if method != "__call__" or function is None or not options.keys() <= {"dtype"}:
        raise refused(self.mask, f"np.{ufunc.__name__} with these arguments needs it")
    return elementwise(function, xs, **options)


# ---------------------------------------------------------------------------------- folds


def _rows(function: Any, s: Selection, options: dict[str, Any]) -> Selection:
    """A fold of every part by itself."""
    if FOLDS[function] in (_scan, _sort):
        return s.with_whole(_ours(function)(s.whole, **options))
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


def _product(function: Callable[..., Any], xs: Any) -> Any:
    """A product of vectors or matrices, at least one of them a selection."""
    first = next(x for x in xs if type(x) is Selection)
    x, y = (x if type(x) is Selection else value(x) for x in xs)
    if x.ndim not in (1, 2) or y.ndim not in (1, 2):
        raise refused(first.mask, "products of stacks of matrices need it")
    inner = [(x, x.ndim - 1), (y, 0)]
    summed = next((v.mask for v, axis in inner if type(v) is Selection and v.axis == axis), None)
    if summed is not None:
        return function(*(_summed_over(v, summed, v.ndim - axis) for v, axis in inner))
    if type(x) is type(y):
        raise refused(first.mask, "a product has two such axes")
    found = function(*(v.whole if type(v) is Selection else v for v in (x, y)))
    return Selection(found, first.mask, 0 if first is x else typeof(found).ndim - 1)


def _summed_over(v: Any, mask: Tracer, back: int) -> Any:
    """An operand of a product, zero at places of the summed axis that a mask does not take."""
    n, own = typeof(mask).shape[0], v.shape[v.ndim - back]
    if type(v) is Selection and not is_same(v.mask, mask):
        _refuse_other(ne(count(v.mask), count(mask)))
    elif type(v) is not Selection and own == 1 != n:
        _refuse_other(ne(count(mask), 1))
    whole = placed(v, mask, back)
    shape = (*v.shape[: v.ndim - back], n, *v.shape[v.ndim - back + 1 :])
    return Selection(stretch(whole, shape), mask, v.ndim - back).filled(0)


def _refuse_other(differ: Any) -> None:
    refuse(differ, ValueError, "mismatch in the dimensions that a product sums over")


def _vectors(function: Callable[..., Any], xs: Any) -> Any:
    if any(np.ndim(x) != 1 for x in xs):
        first = next(x for x in xs if type(x) is Selection)
        raise refused(first.mask, "products of matrices need it")
    return _product(function, xs)


def _outer(function: Callable[..., Any], xs: Any) -> Any:
    """An outer product of two vectors, one of them a selection."""
    first = next(x for x in xs if type(x) is Selection)
    x, y = (x if type(x) is Selection else value(x) for x in xs)
    if x.ndim != 1 or y.ndim != 1 or type(x) is type(y):
        raise refused(first.mask, "an outer product has two such axes")
    found = function(*(v.whole if type(v) is Selection else v for v in (x, y)))
    return Selection(found, first.mask, 0 if first is x else 1)


def _scan(function: Any, s: Selection, options: dict[str, Any]) -> Any:
    """A running sum or product of the parts."""
    neutral = 0 if function is np.cumsum else 1
    if options.get("axis") is None and s.ndim > 1:
        raise refused(s.mask, f"np.{function.__name__} without axis= needs it")
    return s.with_whole(_ours(function)(s.filled(neutral), **options))


def _sort(function: Any, s: Selection, options: dict[str, Any]) -> Any:
    """The parts in order, before what is not taken."""
    if options.keys() - {"axis"}:
        raise refused(s.mask, f"np.sort with {', '.join(options)} needs it")
    if s.dtype.kind not in "iuf":
        raise refused(s.mask, f"np.sort of {s.dtype} needs it")
    last = np.nan if s.dtype.kind == "f" else np.iinfo(s.dtype).max
    found = _ours(function)(s.filled(last), axis=s.axis)
    here = iota(dtype=INDEX, shape=typeof(s.mask).shape, dimension=0)
    return Selection(found, lt(here, cast(count(s.mask), INDEX)), s.axis)


FOLDS: Final[dict[Any, Callable[..., Any]]] = {
    **dict.fromkeys((np.sum, np.prod, np.mean, np.var, np.std, np.any, np.all), _summed),
    **dict.fromkeys((np.count_nonzero, np.nansum), _filled(0)),
    **dict.fromkeys((np.median, np.quantile, np.percentile), _quantile),
    np.linalg.norm: _norm,
    **dict.fromkeys((np.max, np.amax), _extreme(1)),
    **dict.fromkeys((np.min, np.amin), _extreme(-1)),
    np.argmax: _place(1),
    np.argmin: _place(-1),
    **dict.fromkeys((np.cumsum, np.cumprod), _scan),
    np.sort: _sort,
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
PRODUCTS: Final[dict[Any, Callable[..., Any]]] = {
    np.dot: _product,
    **dict.fromkeys((np.vdot, np.inner), _vectors),
    np.outer: _outer,
}


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
    if function in PRODUCTS and not kwargs and len(args) == 2:
        return PRODUCTS[function](_ours(function), args)
    if function in FOLDS:
        options = _bound(function, args, kwargs)
        s = options.pop(next(iter(options)))
        if type(s) is Selection and options.keys().isdisjoint(("where", "out", "mean")):
            axis = -1 if function is np.sort and "axis" not in options else options.get("axis")
            if s.axis in many_axes(axis, s.ndim):
                return FOLDS[function](function, s, options)
            return _rows(function, s, options)
    raise refused(self.mask, f"np.{function.__name__} needs it")


def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    if weights is None:
        weights = np.ones_like(a)
    total = np.sum(weights, axis=axis)
    mean = np.sum(np.multiply(a, weights), axis=axis) / total
    return (mean, total) if returned else mean


# ---------------------------------------------------------------------------------- parts


def getitem(s: Selection, key: Any) -> Any:
    """`x[mask][key]`: one part, fewer parts by another mask, or something of every part."""
    if type(key) is Selection and key.dtype == np.bool_ and key.ndim == 1 and s.axis == 0:
        return _narrowed(s, key).with_whole(s.whole)
    items = _spelled_out(s, key)
    if items and s.axis == 0 and _is_integer(items[0]):
        return cells.getitem(s.whole, (_place_of(s, items[0]), *items[1:]))
    named = [at for at, item in enumerate(items) if item is not None]
    if named[s.axis :] and all(map(_is_basic, items)):
        at = named[s.axis]
        if items[at] == slice(None):
            axis = sum(not _is_integer(i) for i in items[:at])
            return Selection(cells.getitem(s.whole, tuple(items)), s.mask, axis)
    raise refused(s.mask, "it was indexed")


def setitem(s: Selection, key: Any, v: Any) -> None:
    """`x[mask][key] = v`, of a slice also in the array."""
    if type(key) is Selection and key.dtype == np.bool_ and key.ndim == 1 and s.axis == 0:
        cells.select_into(_narrowed(s, key), v)
        return
    items = _spelled_out(s, key)
    if items and s.axis == 0 and _is_integer(items[0]):
        cells.setitem(s.whole, (_place_of(s, items[0]), *items[1:]), v)
    else:
        cells.select_into(getitem(s, key), v)


def _narrowed(s: Selection, key: Selection) -> Selection:
    return s.narrowed(placed(key, s.mask, 1))


def _spelled_out(s: Selection, key: Any) -> list[Any]:
    """The items of a key for all axes up to that of the parts, or more."""
    items = list(key) if type(key) is tuple else [key]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise refused(s.mask, "it was indexed")
    at = dots[0] if dots else len(items)
    used = sum(item is not None and item is not Ellipsis for item in items)
    return [*items[:at], *[slice(None)] * (s.ndim - used), *items[at + 1 :]]


def _is_basic(item: Any) -> bool:
    return item is None or type(item) is slice or _is_integer(item)


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
    return gather(places(s.mask), cast(value(at), INDEX), axes=(0,), mode="clip")


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
        found = ufunc(s, y)
        cells.replace(s.whole, found.whole, ufunc.__name__, not is_view(s.whole) or s.taken)
        return s

    return write


def _method(function: Any) -> Callable[..., Any]:
    def method(s: Selection, *args: Any, **kwargs: Any) -> Any:
        return array_function(s, function, (), (s, *args), kwargs)

    return method


def _clip(s: Selection, min: Any = None, max: Any = None, **kwargs: Any) -> Any:
    return array_function(s, np.clip, (), (s, min, max), kwargs)


def _astype(s: Selection, dtype: Any, **options: Any) -> Selection:
    if not options.get("copy", True) and np.dtype(dtype) == s.dtype:
        return s
    whole: Any = s.whole
    return s.with_whole(whole.astype(dtype, **options))


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
    "__setitem__": setitem,
    "__hash__": None,
    "__matmul__": lambda x, y: array_function(x, np.dot, (), (x, y), {}),
    "__rmatmul__": lambda y, x: array_function(y, np.dot, (), (x, y), {}),
    "real": property(lambda s: Selection(s.whole.real, s.mask, s.axis)),
    "imag": property(lambda s: Selection(s.whole.imag, s.mask, s.axis)),
    "astype": _astype,
}


def install() -> None:
    """Set operators, methods and protocols on `Selection`."""
    for name, member in MEMBERS.items():
        setattr(Selection, name, member)
    DEFERRED.add(Selection)
    REFUSED[Selection] = lambda s: refused(s.mask, "it is to be known here")

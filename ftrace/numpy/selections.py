"""What selections, `x[mask]` and `x[:n]`, do: elementwise functions, folds, products, at full size.

An elementwise function computes all places and keeps the mask; a fold takes those of the mask
alone, so that derivatives of the others are exactly zero. What needs the number of the parts for a
shape (joining, reshaping) raises.
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
    selected,
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


def elementwise(function: Callable[..., Any], xs: Any, *rest: Any, **options: Any) -> Any:
    """A function of the elements of `xs`, on all places."""
    backs: dict[int, Tracer] = {}
    for x in xs:
        backs = {**x.backs, **backs} if type(x) is Selection else backs
    own = (x if x is None or type(x) is Selection else value(x) for x in xs)
    lanes = [x if x is None else placed(x, backs) for x in own]
    with np.errstate(all="ignore"):  # what is not taken is computed, and then left
        found = function(*lanes, *rest, **options)
    if isinstance(found, tuple):
        return tuple(selected(x, backs) for x in found)
    return selected(found, backs)


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


def _folded(function: Any, s: Selection, options: dict[str, Any]) -> Any:
    """A fold of the parts, or of every part by itself, or of some axes both."""
    axis = -1 if function is np.sort and "axis" not in options else options.get("axis")
    axes = many_axes(axis, s.ndim)
    inner = {a: mask for a, mask in s.masks.items() if a in axes}
    with np.errstate(all="ignore"):  # also of parts that are not taken
        if inner:
            found = FOLDS[function](function, Selection(s.whole, inner), options)
        else:
            found = _ours(function)(s.whole, **options)
    if FOLDS[function] in (_scan, _sort):
        masks = {**s.masks, **(found.masks if inner else {})}
        return Selection(found.whole if inner else found, masks)
    gone = () if options.get("keepdims") else axes
    masks = {a - sum(i < a for i in gone): m for a, m in s.masks.items() if a not in axes}
    return Selection(found, masks) if masks else found


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
    for mask in s.masks.values():
        refuse(lt(count(mask), 1), ValueError, words)


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
        (axis,) = s.masks
        at = _ours(function)(s.filled(_least(s.dtype, sign)), axis=axis)
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
    x, y = xs = [x if type(x) is Selection else value(x) for x in xs]
    mine, theirs = ({**x.masks} if type(x) is Selection else {} for x in xs)
    if x.ndim not in (1, 2) or y.ndim not in (1, 2):
        raise refused(next(iter({**mine, **theirs}.values())), "products of stacks need it")
    inner = [(x, mine.pop(x.ndim - 1, None)), (y, theirs.pop(0, None))]
    mask = next((mask for _, mask in inner if mask is not None), None)
    if mask is not None:
        backs = 1, y.ndim
        x, y = (_summed_over(v, m, mask, b) for (v, m), b in zip(inner, backs, strict=True))
    found = function(*(v.whole if type(v) is Selection else v for v in (x, y)))
    masks = {0: next(iter(mine.values()))} if mine else {}
    if theirs:
        masks[typeof(found).ndim - 1] = next(iter(theirs.values()))
    return Selection(found, masks) if masks else found


def _summed_over(v: Any, own: Any, mask: Tracer, back: int) -> Any:
    """An operand of a product, zero at places of the summed axis that a mask does not take.

    Args:
        v: the operand.
        own: its mask of that axis, or None.
        mask: the one that counts.
        back: the axis, counted from the end.
    """
    whole = v.whole if type(v) is Selection else v
    shape = typeof(whole).shape
    at, n = len(shape) - back, typeof(mask).shape[0]
    if own is not None and not is_same(own, mask):
        _refuse_other(ne(count(own), count(mask)))
    elif own is None and shape[at] == 1 != n:
        _refuse_other(ne(count(mask), 1))
    if own is not None:
        whole = Selection(whole, {at: own})
    whole = stretch(placed(whole, {back: mask}), (*shape[:at], n, *shape[at + 1 :]))
    return Selection(whole, {at: mask}).filled(0)


def _refuse_other(differ: Any) -> None:
    refuse(differ, ValueError, "mismatch in the dimensions that a product sums over")


def _vectors(function: Callable[..., Any], xs: Any) -> Any:
    if any(np.ndim(x) != 1 for x in xs):
        first = next(x for x in xs if type(x) is Selection)
        raise refused(first.mask, "products of matrices need it")
    return _product(function, xs)


def _outer(function: Callable[..., Any], xs: Any) -> Any:
    """An outer product of two vectors, at least one of them a selection."""
    xs = [x if type(x) is Selection else value(x) for x in xs]
    masks = {a: x.mask for a, x in enumerate(xs) if type(x) is Selection}
    if any(x.ndim != 1 for x in xs):
        raise refused(next(iter(masks.values())), "an outer product of matrices needs it")
    return Selection(function(*(x.whole if type(x) is Selection else x for x in xs)), masks)


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
    (axis,) = s.masks
    found = _ours(function)(s.filled(last), axis=axis)
    here = iota(dtype=INDEX, shape=typeof(s.mask).shape, dimension=0)
    return Selection(found, {axis: lt(here, cast(count(s.mask), INDEX))})


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
    **dict.fromkeys((np.round, np.around, np.angle, np.sinc, np.nan_to_num), 1),
    **dict.fromkeys((np.interp, np.copy, np.zeros_like, np.ones_like, np.full_like), 1),
}
KINDS: Final = frozenset(
    (np.result_type, np.can_cast, np.common_type, np.iscomplexobj, np.isrealobj, np.ndim)
)
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
    if function in KINDS:
        return function(*map(_without_size, args), **kwargs)
    if function is np.average:
        return _average(*args, **kwargs)
    if function is np.transpose:
        return _transposed(*args, *kwargs.values())
    if function in (np.real, np.imag):
        return getattr(self, function.__name__)
    if function in PRODUCTS and not kwargs and len(args) == 2:
        return PRODUCTS[function](_ours(function), args)
    if function in FOLDS:
        options = _bound(function, args, kwargs)
        s = options.pop(next(iter(options)))
        if type(s) is Selection and options.keys().isdisjoint(("where", "out", "mean")):
            return _folded(function, s, options)
    raise refused(self.mask, f"np.{function.__name__} needs it")


def _without_size(x: Any) -> Any:
    """For a question about dtype or rank: an array of a selection's."""
    return np.empty((0,) * x.ndim, x.dtype) if type(x) is Selection else x


def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False) -> Any:
    if weights is None:
        weights = np.ones_like(a)
    total = np.sum(weights, axis=axis)
    mean = np.sum(np.multiply(a, weights), axis=axis) / total
    return (mean, total) if returned else mean


# ---------------------------------------------------------------------------------- parts


def getitem(s: Selection, key: Any) -> Any:
    """`x[mask][key]`: one part, fewer parts by another mask, or something of every part."""
    if _is_mask_of(s, key):
        return _narrowed(s, key).with_whole(s.whole)
    items, masks = _located(s, key)
    found = cells.getitem(s.whole, items)
    return Selection(found, masks) if masks else found


def setitem(s: Selection, key: Any, v: Any) -> None:
    """`x[mask][key] = v`, of a slice also in the array."""
    if _is_mask_of(s, key):
        cells.select_into(_narrowed(s, key), v)
        return
    items, masks = _located(s, key)
    if masks:
        cells.select_into(Selection(cells.getitem(s.whole, items), masks), v)
    else:
        cells.setitem(s.whole, items, v)


def _is_mask_of(s: Selection, key: Any) -> bool:
    return type(key) is Selection and key.dtype == np.bool_ and key.ndim == 1 and [*s.masks] == [0]


def _located(s: Selection, key: Any) -> tuple[tuple[Any, ...], dict[int, Tracer]]:
    """A key in the whole array, and the masks that are left, by axes of what it reads."""
    items: list[Any] = []
    masks: dict[int, Tracer] = {}
    axis = kept = 0
    for item in _spelled_out(s, key):
        if not _is_basic(item):
            raise refused(s.mask, "it was indexed")
        mask = None if item is None else s.masks.get(axis)
        if mask is not None and _is_integer(item):
            item = _place_of(mask, item)
        elif mask is not None and item == slice(None):
            masks[kept] = mask
        elif mask is not None:
            raise refused(mask, "it was indexed")
        items.append(item)
        axis += item is not None
        kept += item is None or type(item) is slice
    return tuple(items), masks


def _narrowed(s: Selection, key: Selection) -> Selection:
    return s.narrowed(placed(key, {1: s.mask}))


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


def _place_of(mask: Tracer, i: Any) -> Any:
    """Where the i-th part is."""
    n = count(mask)
    at = i + n if type(i) is int and i < 0 else _ours(np.where)(UFUNCS[np.less](i, 0), i + n, i)
    refuse(
        bitwise_or(UFUNCS[np.less](at, 0), UFUNCS[np.greater_equal](at, n)),
        IndexError,
        "index is out of bounds for the places where the mask is true",
    )
    return gather(places(mask), cast(value(at), INDEX), axes=(0,), mode="clip")


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


def _transposed(s: Selection, *axes: Any) -> Selection:
    """All or some axes in another order: a view."""
    whole: Any = s.whole
    given: Any = axes[0] if len(axes) == 1 else axes or None
    order = tuple(range(s.ndim))[::-1] if given is None else many_axes(given, s.ndim)
    found = whole.transpose(order)
    return Selection(found, {order.index(axis): mask for axis, mask in s.masks.items()})


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
    "real": property(lambda s: Selection(s.whole.real, s.masks)),
    "imag": property(lambda s: Selection(s.whole.imag, s.masks)),
    "astype": _astype,
    "T": property(_transposed),
    "transpose": _transposed,
}


def install() -> None:
    """Set operators, methods and protocols on `Selection`."""
    for name, member in MEMBERS.items():
        setattr(Selection, name, member)
    DEFERRED.add(Selection)
    REFUSED[Selection] = lambda s: refused(s.mask, "it is to be known here")

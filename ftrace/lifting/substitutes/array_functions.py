"""NumPy in lifted code where it never asks traced arguments: constructors, items, methods.

`np.zeros(n)` becomes a traced array while a trace runs, so that `out[i] = t` works; `np.array([t,
1.0])`, `np.float64(t)`, `np.vectorize(f)` and functions of lists with traced items go to
`ftrace.numpy`; so do `plain[t]`, `np.r_[t, 1.0]` and `plain.dot(t)`. With nothing traced, NumPy's
own answer stays.
"""

import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.control.rows.raising import fail_where
from ftrace.core import dtypes
from ftrace.core.avals import SCALAR_AVALS, typeof
from ftrace.core.errors import DtypeError, LiftError
from ftrace.core.trace import EVAL, UNKNOWN, Tracer, ctx, lifted, running
from ftrace.core.tree import tree_flatten
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.value_ranges import value_range
from ftrace.lifting.state.leaves import one_of
from ftrace.lifting.state.watching import put_together
from ftrace.lifting.substitutes.python import BUILTINS, holds_tracer, is_unknown, stacked
from ftrace.numpy.cells import read_plain
from ftrace.numpy.masking import Selection
from ftrace.numpy.promote import cast, find_traced, static_int, value
from ftrace.numpy.refusing import attempt
from ftrace.numpy.scalar_classes import agreed
from ftrace.numpy.ufuncs import UFUNCS
from ftrace.numpy.views import lies_like

# ---------------------------------------------------------------------------------- constructors


def _buffer(plain: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor of arrays to be filled: traced, unless of a dtype that is not."""

    def make(*args: Any, **options: Any) -> Any:
        if holds_tracer(args) or holds_tracer(options):
            return traced(*args, **options)
        found = plain(*args, **options)
        return traced(*args, **options) if found.dtype in dtypes.SUPPORTED else found

    return make


def _fromiter(items: Any, dtype: Any, count: Any = -1, **ignored: Any) -> Any:
    kind, n = dtypes.canonical(dtype), static_int(count, "count")
    values = list(items if n < 0 else itertools.islice(items, n))
    if len(values) < n:
        raise ValueError(
            f"iterator too short: Expected {n} but iterator had only {len(values)} items."
        )
    return fnp.stack(values).astype(kind) if values else fnp.zeros(0, kind)


def _isscalar(x: Any) -> bool:
    return agreed("numpy.isscalar(x)", x, lambda cls: issubclass(cls, _SCALAR))


_SCALAR: Final = (np.generic, int, float, complex)


def _ndenumerate(x: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    return ((i, x[i]) for i in np.ndindex(*typeof(x).shape))


def apply_where(
    cond: Any,
    args: Any,
    f1: Callable[..., Any],
    f2: Callable[..., Any] | None = None,
    /,
    *,
    fill_value: Any = None,
    xp: Any = None,
) -> Any:
    """What one function gives where a condition holds, and another one or a value elsewhere.

    It is the function of array_api_extra, which SciPy calls, but both functions see all elements.
    """
    chosen, *given = fnp.broadcast_arrays(cond, *(args if type(args) is tuple else (args,)))
    with quietly():
        other = fill_value if f2 is None else f2(*given)
        return fnp.where(chosen, f1(*given), other)


def lazy_select(condlist: Any, choicelist: Any, arrays: Any, default: Any = 0) -> Any:
    """What the function of the last condition that holds gives, or a default.

    It is a function of SciPy's, but all functions see all elements.
    """
    found: Any = default
    with quietly():
        for chosen, f in zip(condlist, choicelist, strict=True):
            found = apply_where(chosen, tuple(arrays), f, fill_value=found)
    return found


def _vectorize(pyfunc: Any, otypes: Any = None, doc: Any = None, **options: Any) -> Any:
    options.pop("cache", None)
    excluded = options.pop("excluded", None) or ()
    pyfunc = pyfunc if otypes else _of_one_dtype(pyfunc)
    return fnp.vectorize(pyfunc, otypes=otypes, doc=doc, excluded=tuple(excluded), **options)


def _of_one_dtype(pyfunc: Any) -> Any:
    """A function for `np.vectorize`, which takes the dtype that the first element gives."""

    @functools.wraps(pyfunc)
    def checked(*args: Any, **kwargs: Any) -> Any:
        found = lifted(pyfunc)(*args, **kwargs)
        for y in found if type(found) is tuple else (found,):
            own = getattr(y, "dtype", None)
            agreed("The dtype of the first result", y, functools.partial(_dtype_of, own), _OTYPES)
        return found

    return checked


_OTYPES: Final = "Pass otypes to np.vectorize, as `otypes=[float]`."


def _dtype_of(own: Any, cls: type) -> Any:
    return own if cls is np.ndarray else np.dtype(cls)


def _frompyfunc(func: Any, /, nin: int, nout: int, **ignored: Any) -> Any:
    return fnp.vectorize(func)


def _scalar_type(dtype: np.dtype[Any]) -> Callable[..., Any]:
    return lambda x, /: cast(value(x), dtype)


FILLED: Final[dict[Any, Callable[..., Any]]] = {
    getattr(np, name): _buffer(getattr(np, name), getattr(fnp, name))
    for base in ("zeros", "ones", "empty", "full")
    for name in (base, f"{base}_like")
}
"""Constructors that are traced whenever a trace runs."""


def length(x: Any) -> Any:
    """`len(x)`: a traced integer for what a traced mask selects."""
    return x.shape[0] if type(x) is Selection else len(x)


ALWAYS: Final[dict[Any, Callable[..., Any]]] = {
    np.vectorize: _vectorize,
    np.frompyfunc: _frompyfunc,
    len: length,
}
"""What makes functions of arrays, or asks them for their length: traced whenever a trace runs."""

CONSTRUCTORS: Final[dict[Any, Callable[..., Any]]] = {
    np.array: fnp.array,
    np.asarray: fnp.asarray,
    np.asanyarray: fnp.asanyarray,
    np.ascontiguousarray: fnp.ascontiguousarray,
    np.asfortranarray: fnp.asfortranarray,
    np.asarray_chkfinite: fnp.asarray_chkfinite,
    np.require: fnp.require,
    np.arange: fnp.arange,
    np.isscalar: _isscalar,
    np.ndenumerate: _ndenumerate,
    **{d.type: _scalar_type(d) for d in dtypes.SUPPORTED},
}
"""What takes over where an argument is traced."""

ITERATED: Final[dict[Any, Callable[..., Any]]] = {np.fromiter: _fromiter}
"""Of one iterable, which may be an iterator over traced values."""


# ---------------------------------------------------------------------------------- functions

WRITERS: Final = ("fill", "itemset", "put", "partition", "resize", "setfield", "setflags", "sort")


def _of_lists(plain: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function that sees traced arguments, but not those in its lists."""

    def function(*args: Any, **options: Any) -> Any:
        if any(type(a) is list or type(a) is tuple for a in args) and holds_tracer(args):
            return traced(*args, **options)
        return plain(*args, **options)

    return function


def _of_any(plain: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function that sees all traced arguments: NumPy's own asks the first ones of many."""

    def function(*args: Any, **options: Any) -> Any:
        if running and (holds_tracer(args) or holds_tracer(options)):
            return attempt(plain, traced, args, options)
        return plain(*args, **options)

    return function


def numpy_function(fn: Any) -> Any:
    """What a call of a function or ufunc of NumPy calls."""
    if isinstance(fn, np.ufunc):
        return fn if fn not in UFUNCS else _of_lists(fn, UFUNCS[fn])
    found = find_traced(fn)
    return fn if found is None else _of_any(fn, found)


def numpy_method(fn: Any) -> Any:
    """What a call of a builtin method calls: the traced method, of a plain array; `list.sort`."""
    array = fn.__self__
    if type(array) is list and fn.__name__ == "sort":
        return functools.partial(_sort, array)
    if type(array) is np.ufunc and fn.__name__ == "at":
        return functools.partial(_written_at, fn)
    if type(array) is not np.ndarray or fn.__name__ in WRITERS:
        return fn

    def method(*args: Any, **options: Any) -> Any:
        if not (holds_tracer(args) or holds_tracer(options)):
            return fn(*args, **options)
        return getattr(ctx.trace.lift(array), fn.__name__)(*args, **options)

    return method


def _sort(items: list[Any], /, *, key: Any = None, reverse: bool = False) -> None:
    items[:] = BUILTINS[sorted](items, key=key, reverse=reverse)


def _written_at(at: Callable[..., None], a: Any, *operands: Any) -> None:
    """`ufunc.at`, which in NumPy writes into read-only arrays, too."""
    if issubclass(type(a), np.ndarray) and not a.flags.writeable:
        raise ValueError("output array is read-only")
    at(a, *operands)


def numpy_vectorized(fn: np.vectorize) -> Any:
    """What a call of a function made by `np.vectorize` calls."""
    excluded = tuple(fn.excluded)
    pyfunc = fn.pyfunc if fn.otypes else _of_one_dtype(fn.pyfunc)
    mapped = fnp.vectorize(
        pyfunc, excluded=excluded, signature=fn.signature, otypes=fn.otypes or None
    )
    return lambda *args, **options: (mapped if holds_tracer(args) else fn)(*args, **options)


# ---------------------------------------------------------------------------------- items


def item(holder: Any, key: Any, bound: bool = False) -> Any:
    """`holder[key]` in lifted code.

    Args:
        holder, key: these.
        bound: whether a name is bound to it, which may be read after the items have changed.

    Raises:
        LiftError: a list of things that are not built alike, indexed by a traced integer.
    """
    if not running or ctx.trace is EVAL or not holds_tracer(key):
        return holder[key]
    kind = type(holder)
    if isinstance(holder, Tracer):
        return holder[_within(holder.shape, key)]  # pyright: ignore - operators are installed
    if kind is np.ndarray:
        return read_plain(holder, _within(holder.shape, key))
    if holder is np.r_ or holder is np.c_:
        return _joined(holder, key if type(key) is tuple else (key,))
    if isinstance(key, Tracer) and key.known(exact=True) is UNKNOWN:
        if kind is dict:
            return _looked_up(holder, key, bound)
        if kind in (list, tuple, range) and holder:
            i = in_range(holder, key)
            if kind is range:
                return read_plain(np.asarray(holder), i)
            return _chosen(kind, holder, i, bound)
    return holder[key]


def _within(shape: tuple[int, ...], key: Any) -> Any:
    """A key whose traced numbers are in range: for others there is an IndexError.

    Only numbers and slices are looked at; of other keys the rows say what is wrong.
    """
    parts = key if type(key) is tuple else (key,)
    if len(parts) > len(shape) or not all(map(_is_simple, parts)):
        return key
    found = [
        _of_axis(part, a, n) if isinstance(part, Tracer) else part
        for a, (part, n) in enumerate(zip(parts, shape, strict=False))
    ]
    return tuple(found) if type(key) is tuple else found[0]


def _is_simple(part: Any) -> bool:
    if isinstance(part, Tracer):
        return not part.shape and part.dtype.kind in "iu" and is_unknown(part)
    return type(part) is slice or (type(part) is int)


def _of_axis(i: Any, axis: int, n: int) -> Any:
    def throw(value: Any) -> None:
        raise IndexError(f"index {value} is out of bounds for axis {axis} with size {n}")

    return _fail_outside(i, n, throw)


def in_range(holder: Any, i: Any) -> Any:
    """An index that is in range: for others there is Python's IndexError."""
    alike = holder if type(holder) is range else type(holder)([0]) * len(holder)

    def throw(value: Any) -> None:
        alike[value]

    return _fail_outside(i, len(holder), throw)


def _fail_outside(i: Any, n: int, throw: Callable[[Any], Any]) -> Any:
    found, dtype = value_range(i), typeof(i).dtype
    if dtype.kind in "biu" and dtype.itemsize < dtypes.int64.itemsize:
        i = cast(i, dtypes.int64)  # a boolean is a number here, and `n` may not fit a narrow one
    if found is None or found.low < -n or found.high >= n:
        fail_where(fnp.less(i, -n) | fnp.greater_equal(i, n), (i,), throw, IndexError)
        return fnp.clip(fnp.where(fnp.less(i, 0), i + n, i), 0, max(n - 1, 0))
    return i if found.low >= 0 else fnp.where(fnp.less(i, 0), i + n, i)


def _looked_up(table: dict[Any, Any], key: Any, bound: bool) -> Any:
    """The value of a traced key, of a dict of numbers."""

    def throw(value: Any) -> None:
        raise KeyError(value.item() if hasattr(value, "item") else value)

    matches = [fnp.equal(key, k) for k in table if type(k) in SCALAR_AVALS]
    if not matches:
        raise KeyError(key)
    found = functools.reduce(operator.or_, matches)
    fail_where(~found, (key,), throw, KeyError)
    values = [v for k, v in table.items() if type(k) in SCALAR_AVALS]
    return _chosen(dict, values, fnp.argmax(fnp.stack(matches)), bound)


def _chosen(kind: type, items: Sequence[Any], i: Any, bound: bool) -> Any:
    """The i-th of a list of arrays, or of containers of one structure, for a traced i."""
    flat = [tree_flatten(x) for x in items]
    try:
        kinds = {
            (tree, tree.order, *(typeof(leaf).shape for leaf in leaves)) for leaves, tree in flat
        }
    except DtypeError:
        kinds = set()
    if len(kinds) != 1:
        raise LiftError(
            f"A {kind.__name__} of {len(items)} items that are not built alike was indexed by a "
            "traced integer.",
            "All items must be arrays of one shape, or containers of them; else decide with `if`.",
        )
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    leaves = [one_of(c, i, stacked(c)[i]) for c in columns]
    return put_together(flat[0][1], leaves, items if bound else ())


def _joined(maker: Any, parts: tuple[Any, ...]) -> Any:
    """`np.r_[...]` or `np.c_[...]` with traced parts."""
    arrays: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            raise LiftError(
                f"np.r_[{part!r}, ...] with traced parts has no rule.",
                "Use numpy.concatenate or numpy.stack with their axis.",
            )
        array = np.r_[part] if isinstance(part, slice) else fnp.atleast_1d(value(part))
        column = maker is np.c_ and typeof(array).ndim == 1
        arrays.append(fnp.reshape(array, (-1, 1)) if column else array)
    return fnp.concatenate(arrays, axis=-1 if maker is np.c_ else 0)


# ---------------------------------------------------------------------------------- cells


def _count(x: Any) -> int:
    return sys.getrefcount(x)


FRESH: Final = _count(np.empty(0))
"""References to an array that an expression has just made, as a function sees it."""


def cell(x: Any, holders: int = 0) -> Any:
    """A traced array in place of a new plain one that the function will write.

    Only of an array that nobody else holds: a write to another must reach those who hold it.

    Args:
        x: the array.
        holders: how many hold it that are as new, and held by nobody.
    """
    if not running or ctx.trace is EVAL or type(x) is not np.ndarray:
        return x
    if x.dtype not in dtypes.SUPPORTED:
        return x
    if not x.flags.writeable or sys.getrefcount(x) > FRESH + holders or not _is_private(x.base):
        return x
    made = lies_like(fnp.array(x), x)
    return x if made is None else made


def cells(xs: Any, *places: int) -> Any:
    """The same for some items of a new list or tuple that is about to be unpacked."""
    if type(xs) not in (list, tuple) or sys.getrefcount(xs) > FRESH or len(xs) <= max(places):
        return xs
    return type(xs)([cell(xs[i], 1) if i in places else xs[i] for i in range(len(xs))])


def _is_private(base: Any) -> bool:
    """Whether nothing but one view holds the memory of a view."""
    if base is None:
        return True
    # its view, the caller's expression, the parameter
    return type(base) is np.ndarray and base.base is None and sys.getrefcount(base) <= FRESH + 1

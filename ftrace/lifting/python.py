"""Python's builtins on traced values: what they are called instead of in lifted code.

Each function here takes over only where an argument is traced; `calls.py` asks. It gives what
Python would: the first of equal minima, an int from `round(x)`, a Python number (a weak scalar)
from `float(x)`. What cannot be, because a length or a text would depend on values, is refused by
name.
"""

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.errors import LiftError
from ftrace.core.trace import UNKNOWN, Tracer, lifted
from ftrace.core.tree import tree_flatten
from ftrace.primitives.convert import convert_element_type

LONG: Final = 16  # elements from which a reduction replaces a chain of operators
_MISSING: Final = object()


def holds_tracer(x: Any) -> bool:
    """Whether a value is traced, or a list, tuple or dict that holds a traced value."""
    if isinstance(x, Tracer):
        return True
    if type(x) is list or type(x) is tuple:
        return any(map(holds_tracer, x))
    return type(x) is dict and any(map(holds_tracer, x.values()))


def is_unknown(x: Any) -> bool:
    """Whether Python cannot decide by this value."""
    return isinstance(x, Tracer) and x.known(exact=False) is UNKNOWN


def _is_long(x: Any) -> bool:
    """Whether a value is a traced array that is reduced as a whole."""
    return isinstance(x, Tracer) and (x.shape or (0,))[0] > LONG


# ---------------------------------------------------------------------------------- numbers


def weak(x: Any, kind: Any = None) -> Any:
    """A traced scalar as the Python number of a dtype (default: its own)."""
    dtype = typeof(x).dtype if kind is None else kind
    return convert_element_type(x, new_dtype=dtype, weak_type=True)


def _scalar(name: str, x: Any) -> Any:
    """The operand of a conversion to a Python number.

    Raises:
        TypeError: an array, as in NumPy.
    """
    if typeof(x).shape:
        raise TypeError(
            f"{name}() of a traced array of shape {typeof(x).shape}: only a scalar can be "
            "converted to a Python number"
        )
    return x


def _float(x: Any = 0.0) -> Any:
    if typeof(_scalar("float", x)).dtype.kind == "c":
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    return weak(x, dtypes.float64)


def _int(x: Any = 0, *base: Any, **options: Any) -> Any:
    if typeof(_scalar("int", x)).dtype.kind == "c" or base or options:
        raise TypeError("int() argument must be a real number, without a base")
    return weak(x, dtypes.int64)


def _bool(x: Any = False) -> Any:
    return x if typeof(_scalar("bool", x)).dtype.kind == "b" else fnp.not_equal(x, 0)


def _complex(real: Any = 0.0, imag: Any = None) -> Any:
    whole = real if imag is None else real + 1j * imag
    return weak(_scalar("complex", whole), dtypes.complex128)


def _round(x: Any, ndigits: Any = None) -> Any:
    if ndigits is None and not typeof(x).shape:
        return weak(round(x), dtypes.int64)
    found = round(x, ndigits)
    return weak(found) if typeof(x).weak else found


def _pow(base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is not None:
        raise LiftError(
            "pow(x, y, z) of traced values has no rule: the power may not fit into an integer.",
            "Write `pow(x, y) % z` where x**y fits, or multiply and reduce in a loop.",
        )
    return pow(base, exp)


# ---------------------------------------------------------------------------------- choosing


def choose(predicate: Any, x: Any, y: Any) -> Any:
    """`x if predicate else y`; of two Python numbers a Python number."""
    found = fnp.where(predicate, x, y)
    return weak(found) if typeof(x).weak and typeof(y).weak else found


def _choose_tree(what: str, predicate: Any, x: Any, y: Any) -> Any:
    xs, tree = tree_flatten(x)
    ys, other = tree_flatten(y)
    if tree != other:
        raise LiftError(
            f"{what} chooses by a traced value between a {type(x).__name__} and a "
            f"{type(y).__name__}, which are not built alike.",
            "All candidates must be arrays, numbers, or containers of one structure.",
        )
    return tree.unflatten([choose(predicate, a, b) for a, b in zip(xs, ys, strict=True)])


def _extreme(name: str, better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """`min` or `max`: the first of the best, as Python finds it, NaN and all."""

    def extreme(*args: Any, key: Any = None, default: Any = _MISSING) -> Any:
        if len(args) == 1 and key is None and _is_long(args[0]):
            return _extreme_of_array(name, args[0])
        items = list(args[0]) if len(args) == 1 else list(args)
        if not items:
            if default is _MISSING:
                raise ValueError(f"{name}() iterable argument is empty")
            return default
        keyed = (lambda v: v) if key is None else lifted(key)
        best, best_key = items[0], keyed(items[0])
        for item in items[1:]:
            item_key = keyed(item)
            wins = better(item_key, best_key)
            if is_unknown(wins) and not typeof(wins).shape:
                best = _choose_tree(f"{name}()", wins, item, best)
                best_key = choose(wins, item_key, best_key)
            elif wins:
                best, best_key = item, item_key
        return best

    return extreme


def _extreme_of_array(name: str, x: Any) -> Any:
    """The same of a long traced array: NaN is chosen only where it comes first."""
    if typeof(x).ndim > 1:
        bool(x[0] < x[1])  # raises: no truth value
    if typeof(x).dtype.kind != "f":
        return x[fnp.argmin(x) if name == "min" else fnp.argmax(x)]
    worst = np.inf if name == "min" else -np.inf
    clean = fnp.where(fnp.isnan(x), worst, x)
    i = fnp.argmin(clean) if name == "min" else fnp.argmax(clean)
    return x[fnp.where(fnp.isnan(x[0]), 0, i)]


# ---------------------------------------------------------------------------------- iterables


def _sum(items: Any, /, start: Any = 0) -> Any:
    if _is_long(items):
        kept = None if typeof(items).dtype.kind == "b" else typeof(items).dtype
        return start + fnp.sum(items, axis=0, dtype=kept)
    return sum(items, start)


def _quantifier(stop: bool, join: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """`any` (which a true item stops) or `all` (which a false one stops)."""

    def quantifier(items: Iterable[Any], /) -> Any:
        found: Any = not stop
        for item in items:
            if is_unknown(item) and not typeof(item).shape:
                truth = _bool(item)
                found = truth if found is (not stop) else join(found, truth)
            elif bool(item) is stop:
                return stop
        return found

    return quantifier


def _sorted(items: Iterable[Any], /, *, key: Any = None, reverse: bool = False) -> list[Any]:
    """A sorted list; items may be containers of one structure."""
    items = list(items)
    keys = items if key is None else list(map(lifted(key), items))
    if not any(map(is_unknown, keys)):
        order = sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)
        return [items[i] for i in order]
    n = len(items)
    ranks = fnp.stack(keys[::-1] if reverse else keys)
    if typeof(ranks).ndim > 1:
        bool(keys[0] < keys[0])  # raises: no truth value
    order = fnp.argsort(ranks, stable=True)
    if reverse:  # equal items keep their order
        order = (n - 1) - order[::-1]
    flat = [tree_flatten(item) for item in items]
    if any(tree != flat[0][1] for _, tree in flat):
        raise LiftError(
            "sorted() orders by traced values items that are not built alike.",
            "All items must be arrays, numbers, or containers of one structure.",
        )
    columns = [fnp.stack(column)[order] for column in zip(*(f[0] for f in flat), strict=True)]
    return [flat[0][1].unflatten([column[i] for column in columns]) for i in range(n)]


def _filter(function: Any, items: Iterable[Any], /) -> Iterator[Any]:
    test = lifted(function) if function is not None else lambda v: v
    for item in items:
        found = test(item)
        if is_unknown(found):
            raise LiftError(
                "filter() keeps a number of items that depends on traced values.",
                "Keep all of them and weigh them: numpy.where(condition, x, 0), or a mask times x.",
            )
        if found:
            yield item


# ---------------------------------------------------------------------------------- types


def stands_for(x: Tracer) -> type:
    """The type that a traced value has where it is not traced."""
    a = x.aval
    if a.shape:
        return np.ndarray
    return {"b": bool, "i": int, "f": float, "c": complex}[a.dtype.kind] if a.weak else a.dtype.type


def _isinstance(x: Any, kinds: Any, /) -> bool:
    return isinstance(x, kinds) or (isinstance(x, Tracer) and issubclass(stands_for(x), kinds))


def _type(x: Any, /, *more: Any, **options: Any) -> type:
    if not more and isinstance(x, Tracer):
        return stands_for(x)
    return type(x, *more, **options)


def _print(*values: Any, **options: Any) -> None:
    if any(map(is_unknown, values)):
        raise LiftError(
            "print() was given a traced value, which has no text while the function is traced.",
            'Write ftrace.debug.print("x = {}", x), which prints at every run.',
        )
    print(*values, **options)


BUILTINS: Final[dict[Any, Callable[..., Any]]] = {
    float: _float,
    int: _int,
    bool: _bool,
    complex: _complex,
    round: _round,
    pow: _pow,
    min: _extreme("min", operator.lt),
    max: _extreme("max", operator.gt),
    sum: _sum,
    any: _quantifier(True, fnp.logical_or),
    all: _quantifier(False, fnp.logical_and),
    sorted: _sorted,
    filter: _filter,
    isinstance: _isinstance,
    type: _type,
    print: _print,
}
"""What takes over where an argument is traced."""

ITERATED: Final = (min, max, sum, any, all, sorted, filter)
"""Of these, what takes one iterable, which may be an iterator over traced values."""

"""Python's builtins on traced values: what they are called instead of in lifted code.

Each function here takes over only where an argument is traced; `lifted_calls.py` asks. It gives
what Python would: the first of equal minima, an int from `round(x)`, a Python number (a weak
scalar) from `float(x)`. What cannot be, because a length or a text would depend on values, is
refused by name.
"""

import operator
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.control.rows.raising import fail_where
from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.errors import ConcretizationTypeError, DtypeError, LiftError
from ftrace.core.trace import UNKNOWN, Tracer, holds_array, is_cell, lifted, stands_for
from ftrace.core.tree import tree_flatten
from ftrace.lifting.sources.asking import DIFFERENT, is_union
from ftrace.lifting.state.iterators import references, taken
from ftrace.lifting.state.leaves import array_type, built_alike, converted, joined, one_of
from ftrace.lifting.state.roots import is_denied
from ftrace.lifting.state.watching import put_together
from ftrace.numpy.scalar_classes import agreed, chosen_classes, classes_of, either, marked
from ftrace.numpy.views import may_be_cell
from ftrace.primitives.convert import convert_element_type

LONG: Final = 16  # elements from which a reduction replaces a chain of operators
_MISSING: Final = object()


def holds_tracer(x: Any) -> bool:
    """Whether a value is traced, or a list, tuple, dict or slice that holds a traced value."""
    if isinstance(x, Tracer):
        return True
    if type(x) is list or type(x) is tuple:
        return any(map(holds_tracer, x))
    if type(x) is slice:
        return isinstance(x.start, Tracer) or isinstance(x.stop, Tracer)
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


def integer(plain: Callable[[Any], Any], whole: Any, x: Any) -> Any:
    """A float as an int64, as `plain` makes an int of it.

    Raises:
        ValueError, OverflowError: as `plain`, of NaN and infinity.
        DtypeError: an int that needs more than 64 bits.
    """
    if typeof(x).dtype.kind == "f":

        def throw(value: Any) -> None:
            raise DtypeError(
                f"{plain.__name__}({value!r}) is an int of {int(plain(value)).bit_length()} bits; "
                "traced ints have 64.",
                "Keep it a float (numpy.floor, numpy.trunc), or make the argument static.",
            )

        fail_where(fnp.isnan(x), (x,), plain, ValueError)
        fail_where(fnp.isinf(x), (x,), plain, OverflowError)
        fail_where(fnp.isfinite(x) & fnp.less_equal(2.0**63, fnp.abs(x)), (x,), throw)
    return weak(whole, dtypes.int64)


def _scalar(name: str, x: Any) -> Any:
    """The operand of a conversion to a Python number.

    Raises:
        DtypeError: an array, as in NumPy a `TypeError`.
    """
    if typeof(x).shape:
        raise DtypeError(
            f"{name}() was asked of a traced array of shape {typeof(x).shape}.",
            "Only a scalar can be converted to a Python number: use x.item() of one element.",
        )
    return x


def _float(x: Any = 0.0) -> Any:
    if typeof(_scalar("float", x)).dtype.kind == "c":
        raise TypeError("float() argument must be a string or a real number, not 'complex'")
    return weak(x, dtypes.float64)


def _int(x: Any = 0, *base: Any, **options: Any) -> Any:
    if typeof(_scalar("int", x)).dtype.kind == "c" or base or options:
        raise TypeError("int() argument must be a real number, without a base")
    return integer(int, x, x)


def _bool(x: Any = False) -> Any:
    return weak(x if typeof(_scalar("bool", x)).dtype.kind == "b" else fnp.not_equal(x, 0))


def _complex(real: Any = 0.0, imag: Any = None) -> Any:
    whole = real if imag is None else real + 1j * imag
    return weak(_scalar("complex", whole), dtypes.complex128)


def _round(x: Any, ndigits: Any = None) -> Any:
    if ndigits is None and not holds_array(x):
        return integer(round, fnp.round(x), x)
    return round(x, ndigits)


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
    if not (typeof(found).shape or may_be_cell(x) or may_be_cell(y)):
        found = found[()]  # `where` makes an array of rank 0
    found = weak(found) if typeof(x).weak and typeof(y).weak else found
    return marked(found, chosen_classes(predicate, classes_of(x), classes_of(y)))


_CANDIDATES: Final = "All candidates must be arrays, numbers, or containers of one structure."


def _choose_tree(what: str, predicate: Any, x: Any, y: Any) -> Any:
    xs, tree = tree_flatten(x)
    ys, other = tree_flatten(y)
    if not built_alike(tree, other):
        raise LiftError(
            f"{what} chooses by a traced value between a {type(x).__name__} and a "
            f"{type(y).__name__}, which are not built alike.",
            _CANDIDATES,
        )
    if any(array_type(leaf) is None for leaf in (*xs, *ys)):
        raise LiftError(
            f"{what} chooses by a traced value between a {type(x).__name__} and a "
            f"{type(y).__name__}.",
            _CANDIDATES,
        )
    return tree.unflatten([choose(predicate, a, b) for a, b in zip(xs, ys, strict=True)])


def _showing(items: Sequence[Any], i: Any, found: Any) -> Any:
    """Make `found`, which is `items[i]` for a traced i, share its memory with that item."""
    columns = zip(*(tree_flatten(item)[0] for item in items), strict=True)
    leaves, tree = tree_flatten(found)
    chosen = (one_of(c, i, y) for c, y in zip(columns, leaves, strict=True))
    return put_together(tree, chosen, items)


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
        best, best_key, at = items[0], keyed(items[0]), 0
        for i, item in enumerate(items[1:], 1):
            item_key = keyed(item)
            wins = better(item_key, best_key)
            if is_unknown(wins) and not typeof(wins).shape:
                best = _choose_tree(f"{name}()", wins, item, best)
                best_key, at = choose(wins, item_key, best_key), choose(wins, i, at)
            elif wins:
                best, best_key, at = item, item_key, i
        return _showing(items, at, best) if is_unknown(at) else best

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
        return start + fnp.sum(items, axis=0, dtype=typeof(start + items[0]).dtype)
    return sum(items, start)


def _handed(*args: Any) -> int:
    """How many references there are to what a substitute has been handed, and has begun."""

    def counted(source: Any) -> int:
        left = source
        return references(left)

    return counted(*args)


_HANDED: Final = _handed(iter(()))


def _quantifier(stop: bool, join: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """`any` (which a true item stops) or `all` (which a false one stops)."""

    def stops(item: Any) -> bool:
        known = not is_unknown(item) or bool(typeof(item).shape)  # an array raises
        return known and bool(item) is stop

    def quantifier(source: Iterable[Any], /) -> Any:
        left = iter(source)
        found: Any = not stop
        while (item := next(left, _MISSING)) is not _MISSING:
            if stops(item):
                return stop
            if is_unknown(item):
                first = found is (not stop)
                found = _bool(item) if first else join(found, _bool(item))
                if first and not isinstance(source, Sized):
                    own = _HANDED if left is source else _HANDED - 2
                    left = iter(taken(left, own, is_last=stops))
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
    if not all(
        built_alike(tree, flat[0][1]) and all(array_type(leaf) is not None for leaf in leaves)
        for leaves, tree in flat
    ):
        raise LiftError(
            "sorted() orders by traced values items that are not built alike.", _CANDIDATES
        )
    columns = list(zip(*(leaves for leaves, _ in flat), strict=True))
    ordered = [stacked(column)[order] for column in columns]
    tree = flat[0][1]
    if any(is_cell(leaf) for column in columns for leaf in column):
        found = [tree.unflatten([column[i] for column in ordered]) for i in range(n)]
        return [_showing(items, order[i], y) for i, y in enumerate(found)]
    shown = [_numbers_of(column) for column in columns]
    pairs = list(zip(shown, ordered, strict=True))
    return [put_together(tree, [show(c[i]) for show, c in pairs], items) for i in range(n)]


def stacked(column: Sequence[Any]) -> Any:
    """Values of one shape in a new axis, in the type that they promote to as operands do."""
    wanted: ShapedArray | None = typeof(column[0])
    for x in column[1:]:
        wanted = wanted and joined(wanted, typeof(x))
    return fnp.stack(column if wanted is None else [converted(x, wanted) for x in column])


def _numbers_of(column: Sequence[Any]) -> Callable[[Any], Any]:
    """What makes of an item of a stack of scalars one that is of their classes."""
    classes = either(*map(classes_of, column))
    plain = all(typeof(x).weak for x in column)
    return lambda y: marked(weak(y) if plain else y, classes)


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


def _type(x: Any, /, *more: Any, **options: Any) -> type:
    if more or not isinstance(x, Tracer):
        return type(x, *more, **options)
    return agreed("type(x)", x, lambda cls: cls)


_of_a_user: Final = isinstance  # the question is no question of ftrace


def is_instance(x: Any, kinds: Any, /) -> bool:
    """`isinstance`: the protocols of `collections.abc` would ask the tracer's own class, too."""
    if not isinstance(x, Tracer) or (type(kinds) is type and issubclass(kinds, Tracer)):
        return _of_a_user(x, kinds)
    if len(classes_of(x).types) > 1:
        return agreed("isinstance(x, ...)", x, lambda cls: issubclass(cls, kinds))
    parts = kinds.__args__ if is_union(kinds) else kinds
    if type(parts) is tuple:
        return any(is_instance(x, k) for k in parts)
    kind: Any = kinds
    check: Any = type(kind).__instancecheck__
    if type(check) is types.FunctionType and not is_denied(check.__code__.co_filename, ""):
        return lifted(check)(kind, x)
    try:
        return issubclass(stands_for(x), kind)
    except TypeError:  # a protocol with attributes
        spaces = [vars(c) for c in kind.__mro__ if vars(c).get("_is_protocol")]
        names = {n for space in spaces for n in (*space.get("__annotations__", ()), *space)}
        if not names:
            raise
        return all(_hasattr(x, n) for n in names if n[0] != "_")


def _hasattr(x: Any, name: str, /) -> bool:
    if not isinstance(x, Tracer):
        return hasattr(x, name)
    return agreed(f"hasattr(x, {name!r})", x, lambda cls: _has(cls, name))


def fetched(x: Any, name: str, default: Any) -> Any:
    """`getattr(x, name, default)` of a traced value.

    Raises:
        LiftError: traced values decide whether it is the default.
    """
    has = {_has(cls, name) for cls in classes_of(x).types}
    if has == {True}:
        return attribute(x, name)
    found = getattr(x, name, _MISSING)
    if True in has and not (type(found) is type(default) and found == default):
        _hasattr(x, name)  # raises
    return default


def _has(cls: type, name: str) -> bool:
    return any(name in vars(c) for c in cls.__mro__)


def attribute(x: Any, name: str) -> Any:
    """`x.name`, which a number that is traced may lack, or may have though a tracer has not.

    Raises:
        AttributeError: as of the number.
        ConcretizationTypeError: only the number has it.
    """
    if name in DIFFERENT and isinstance(x, Tracer):
        if not any(_has(cls, name) for cls in classes_of(x).types):
            raise AttributeError(f"{x.__class__.__name__!r} object has no attribute {name!r}")
        if not hasattr(type(x), name):
            raise ConcretizationTypeError(
                f"`.{name}` needs the plain value of {x!r}.",
                "Compute it from arrays, or make the argument static (static_argnums).",
            )
    return getattr(x, name)


def same(x: Any, y: Any) -> Any:
    """`x is y`: a question about values where both stand for bools, as there is one of each.

    Raises:
        LiftError: of Python's ints, where it depends on which of them Python keeps.
    """
    if x is y or not (isinstance(x, Tracer) or isinstance(y, Tracer)):
        return x is y
    common = {*classes_of(x).types} & {*classes_of(y).types}
    if int in common:
        raise LiftError(
            "`is` was asked of two ints, one of them traced: Python keeps one object for small "
            "ones and makes others anew.",
            "Compare values: `x == y`.",
        )
    if common.isdisjoint(_BOOLS):
        return False
    agreed("`is`", x, lambda cls: cls)
    agreed("`is`", y, lambda cls: cls)
    return weak(operator.eq(x, y))


_BOOLS: Final = (bool, np.bool)


def _differs(x: Any, y: Any) -> Any:
    found = same(x, y)
    return weak(fnp.logical_not(found)) if isinstance(found, Tracer) else not found


_LISTS: Final = (list, tuple, set, frozenset, dict)
_SHOWN: Final = (type({}.values()), deque)


def contains(items: Any, x: Any) -> Any:
    """`x in items`."""
    if type(items) in _SHOWN:
        items = list(items)
    if type(items) in _LISTS and (isinstance(x, Tracer) or holds_tracer(items)):
        found = _quantifier(True, fnp.logical_or)(v is x or v == x for v in items)
        return weak(found) if isinstance(found, Tracer) else found
    return x in items


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
    type: _type,
    isinstance: is_instance,
    hasattr: _hasattr,
    print: _print,
    operator.is_: same,
    operator.is_not: _differs,
    operator.contains: contains,
}
"""What takes over where an argument is traced."""

ITERATED: Final = (min, max, sum, any, all, sorted, filter)
"""Of these, what takes one iterable, which may be an iterator over traced values."""

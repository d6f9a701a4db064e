"""Stores at traced places of lists and dicts: `xs[i] = v`, `rows[i][j] += v`, `xs[i].v = w`.

Each item that the target may be becomes the new value, or stays what it is. Of arrays NumPy's own
rules hold: what `rows[i]` of a list of arrays gives is a view (`leaves.one_of`).
"""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.control.rows.raising import fail_where
from ftrace.core.avals import SCALAR_AVALS, typeof
from ftrace.core.errors import LiftError
from ftrace.core.trace import EVAL, UNKNOWN, Tracer, ctx, running
from ftrace.lifting.state.changed_places import fields
from ftrace.lifting.substitutes.array_functions import in_range, item
from ftrace.lifting.substitutes.python import choose
from ftrace.numpy.views import may_be_cell
from ftrace.primitives.compare import bitwise_and, bitwise_not, bitwise_or

Place = tuple[Any, Any]  # a container or object, and whether it is the one: True, or a traced bool


def into(holder: Any, *keys: Any) -> Any:
    """`holder[key][key]...` where an item, or an attribute, of it is bound in lifted code."""
    if not running or ctx.trace is EVAL:
        return reduce(lambda x, key: x[key], keys, holder)
    places: list[Place] = [(holder, True)]
    for key in keys:
        if _is_traced(key) and all(type(x) in (list, tuple) and x for x, _ in places):
            places = [one for x, when in places for one in _each(x, key, when)]
        else:
            places = [(item(x, key), when) for x, when in places]
    if len(places) == 1 and type(places[0][0]) not in (list, dict):
        return places[0][0]
    if all(type(x) in (list, dict) or fields(x) is not None for x, _ in places):
        return ChosenPlaces(places, lambda: reduce(item, keys, holder))
    return reduce(item, keys, holder)


def _is_traced(key: Any) -> bool:
    return isinstance(key, Tracer) and key.known(exact=True) is UNKNOWN


def _each(items: Any, key: Any, when: Any) -> Iterator[Place]:
    """The items, and whether it is each of them; for other keys there is Python's IndexError."""
    in_range(items, key)
    return _of_places(items, key, when)


def _of_places(items: Any, key: Any, when: Any) -> Iterator[Place]:
    i = fnp.where(fnp.less(key, 0), fnp.add(key, len(items)), key)
    for k, x in enumerate(items):
        here = fnp.equal(i, k)
        yield x, here if when is True else bitwise_and(when, here)


class ChosenPlaces:
    """The containers or objects of which one is the target of an assignment."""

    __slots__ = ("_last", "_places", "_read")
    _places: list[Place]
    _read: Callable[[], Any]
    _last: Any

    def __init__(self, places: list[Place], read: Callable[[], Any]) -> None:
        for name, value in (("_places", places), ("_read", read), ("_last", None)):
            object.__setattr__(self, name, value)

    def _found(self, read: Callable[[Any], Any]) -> Any:
        """What an operation in place is computed of, which may write into it."""
        x, *others = (read(holder) for holder, _ in self._places)
        if others and all(map(_is_number, (x, *others))):
            for (_, when), other in zip(self._places[1:], others, strict=True):
                x = choose(when, other, x)
        elif others:
            x = read(self._read())
        object.__setattr__(self, "_last", x)
        return x

    def __getitem__(self, key: Any) -> Any:
        return self._found(lambda holder: item(holder, key))

    def __getattr__(self, name: str) -> Any:
        return self._found(lambda holder: getattr(holder, name))

    def __setitem__(self, key: Any, x: Any) -> None:
        for holder, when in self._places:
            if type(holder) is list and _is_traced(key):
                self._set_items(holder, key, x, when)
            elif type(holder) is dict and _is_traced(key):
                self._set_values(holder, key, x, when)
            elif when is True:
                holder[key] = x
            elif type(holder) is dict and key not in holder:
                raise _not_everywhere(f"key {key!r}")
            else:
                holder[key] = self._chosen(when, x, holder[key])

    def __setattr__(self, name: str, x: Any) -> None:
        for holder, when in self._places:
            if when is not True and not hasattr(holder, name):
                raise _not_everywhere(f"attribute {name!r}")
            setattr(holder, name, self._chosen(when, x, getattr(holder, name)))

    def __delitem__(self, key: Any) -> None:
        del self._read()[key]

    def __delattr__(self, name: str) -> None:
        delattr(self._read(), name)

    def _set_items(self, items: list[Any], key: Any, x: Any, when: Any) -> None:
        n, alike = len(items), [0] * len(items)
        fail_where(
            fnp.less(key, -n) | fnp.greater_equal(key, n),
            (key,),
            lambda i: alike.__setitem__(i, 0),
            IndexError,
        )
        places = _of_places(items, key, when)
        items[:] = [self._chosen(here, x, own) for own, here in places]

    def _set_values(self, table: dict[Any, Any], key: Any, x: Any, when: Any) -> None:
        found = {k: fnp.equal(key, k) for k in table if type(k) in SCALAR_AVALS}
        missing = bitwise_not(reduce(bitwise_or, found.values(), False))
        fail_where(missing if when is True else bitwise_and(when, missing), (key,), _is_new)
        for k, here in found.items():
            there = here if when is True else bitwise_and(when, here)
            table[k] = self._chosen(there, x, table[k])

    def _chosen(self, when: Any, x: Any, own: Any) -> Any:
        if x is own or (x is self._last and not _is_number(x)):
            return own  # an array, which was written in place
        if _is_number(x) and _is_number(own):
            return choose(when, x, own)
        raise LiftError(
            "What is no number was bound at a traced place of a list, or in place of such a thing.",
            "Use an array (numpy.stack), whose items may be set so, or loop over the places and "
            "decide: `for k in range(len(xs)): if k == i: xs[k] = x`.",
        )


def _is_new(key: Any) -> None:
    raise LiftError(
        f"A traced key, {key}, of a dict was bound that the dict has not.",
        "Make the dict with all its keys, or use a list or an array.",
    )


def _not_everywhere(what: str) -> LiftError:
    return LiftError(
        f"The {what} was bound in a thing that a traced index chooses, and is not there in all.",
        "Give it to each of them before.",
    )


def _is_number(x: Any) -> bool:
    return type(x) in SCALAR_AVALS or (
        isinstance(x, Tracer | np.generic) and not (typeof(x).shape or may_be_cell(x))
    )

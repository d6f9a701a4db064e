"""What calls of Python's own functions mean to the reader of functions (`calling.py`).

Each entry gets the walk and what the call gives; None says that the call is one of a library like
any other, which may do anything with what it gets.
"""

import collections
import functools
import importlib
import operator
import os
import sys
from collections.abc import Callable
from typing import Any, Final

from ftrace.control.freshness.attributes import Attributes
from ftrace.control.freshness.holders import GETTERS
from ftrace.control.freshness.values import (
    NOTHING,
    STAND_INS,
    Above,
    Getter,
    Instance,
    Value,
    bag,
    constant,
    is_container,
    is_library,
    is_ndarray,
    joined,
)

Meaning = Callable[[Attributes, list[Value], dict[str, Value]], Value | None]
MEANINGS: Final[dict[Any, Meaning]] = {}


def _of(*functions: Any) -> Callable[[Meaning], Meaning]:
    """The meaning of a call of any of these."""

    def enter(meaning: Meaning) -> Meaning:
        MEANINGS.update(dict.fromkeys(functions, meaning))
        return meaning

    return enter


# ------------------------------------------------------------------------------- attributes


@_of(getattr)
def _getattr(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) < 2:
        return None
    found = _each_name(walk, args)
    if len(args) == 2:
        return found
    return joined(found._replace(complete=False), args[2])


def _each_name(walk: Attributes, args: list[Value]) -> Value:
    """The attributes of the first argument whose names are in the second."""
    names = args[1].refs
    if args[1].complete and all(isinstance(n, str) for n in names):
        return functools.reduce(joined, (walk.attribute(args[0], n) for n in names))
    return walk.attributes(args[0])


@_of(sys.exc_info, *filter(None, [getattr(sys, "exception", None)]))
def _error(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return walk.caught()


@_of(hasattr)
def _hasattr(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) == 2:
        _each_name(walk, args)
    return NOTHING


@_of(setattr)
def _setattr(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) == 3:
        names = args[1].refs if args[1].complete else (...,)
        for name in names:
            walk.set_attribute(args[0], name, args[2])
    return NOTHING


@_of(vars)
def _vars(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return walk.attribute(args[0], "__dict__") if args else _locals(walk, args, kwargs)


@_of(locals)
def _locals(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return bag(x for v in walk.frame.names.values() for x in v.refs)


@_of(globals)
def _globals(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return constant(walk.frame.globals)


@_of(super)
def _super(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    frame = walk.frame
    if args:
        cls, me = args[0], args[1] if len(args) > 1 else NOTHING
    else:
        cls = walk.variable(frame, "__class__")
        names = frame.listing.code.co_varnames
        me = frame.names.get(names[0], NOTHING) if names else NOTHING
    if not cls.exact or not isinstance(cls.refs[0], type):
        return NOTHING
    found = [_super_of(cls.refs[0], x) for x in me.refs]
    return Value(tuple(x for x in found if x is not None))


def _super_of(cls: type, me: Any) -> Any:
    if isinstance(me, Instance):
        return Above(cls, me)
    try:
        return super(cls, me)
    except TypeError:
        return None


# ------------------------------------------------------------------------------- questions


@_of(len)
def _len(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) != 1 or args[0].traced or not args[0].exact:
        return None
    ref = args[0].refs[0]
    if is_ndarray(ref):
        return NOTHING
    if not is_container(ref):
        return None
    walk.facts.add("length", ref, None, len(ref), walk.site)
    return constant(len(ref))


@_of(isinstance)
def _isinstance(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) == 2 and args[0].exact and args[1].exact:
        x, cls = args[0].refs[0], args[1].refs[0]
        if isinstance(x, Instance):
            return constant(issubclass(x.cls, cls)) if isinstance(cls, type) else NOTHING
        note_class(walk, x)
        if isinstance(cls, type) and type(cls) is type and not isinstance(x, STAND_INS):
            return constant(issubclass(type(x), cls))
    return NOTHING


@_of(type)
def _type(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) != 1 or not args[0].exact or isinstance(args[0].refs[0], STAND_INS):
        return None
    note_class(walk, args[0].refs[0])
    return constant(type(args[0].refs[0]))


def note_class(walk: Attributes, x: Any) -> None:
    """The class of an object of the user's may be another one later."""
    if not (isinstance(x, STAND_INS) or is_library(type(x)) or isinstance(x, type)):
        walk.facts.add("class", x, None, type(x), walk.site)


# ------------------------------------------------------------------------------- modules


@_of(eval)
def _eval(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) != 1 or not args[0].exact or not isinstance(args[0].refs[0], str):
        return None
    try:
        code = walk.one(_compiled, args[0].refs[0])
    except (SyntaxError, ValueError):  # the run says so, too
        return None
    return walk.visit_here(code)


def _compiled(text: str) -> Any:
    return compile(text.lstrip(" \t"), "<eval>", "eval")


@_of(os.getenv)
def _getenv(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    walk.within([constant(os.environ)])
    return NOTHING


@_of(importlib.import_module)
def _import_module(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) != 1 or not args[0].exact or not isinstance(args[0].refs[0], str):
        return None
    return walk.imported(args[0].refs[0])


# ------------------------------------------------------------------------------- containers


@_of(list, tuple, set, frozenset, collections.deque)
def _items(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return _filled(walk, [walk.elements(a) for a in args[:1]])


@_of(dict, collections.OrderedDict, collections.Counter)
def _pairs(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return _filled(walk, [walk.within([v]) for v in _all(args, kwargs)])


@_of(collections.defaultdict)
def _with_default(walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    made = [walk.call(f, []) for f in args[:1]]
    return _filled(walk, made + [walk.within([v]) for v in _all(args[1:], kwargs)])


def _all(args: list[Value], kwargs: dict[str, Value]) -> list[Value]:
    """All that a call gives."""
    return args + list(kwargs.values())


def _filled(walk: Attributes, values: list[Value]) -> Value:
    """The container that is made here."""
    made = walk.container()
    walk.grow(made.hold(values))
    return constant(made)


# ------------------------------------------------------------------------------- getters


def _getter(kind: Any, walk: Attributes, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return constant(walk.instance(Getter, kind, tuple(_all(args, kwargs))))


MEANINGS.update({kind: functools.partial(_getter, kind) for kind in GETTERS[:-1]})


def gotten(walk: Attributes, getter: Any, value: Value) -> Value:
    """What a getter of the module `operator` gives of a value."""
    if isinstance(getter, Getter):
        kind, given = getter.kind, getter.given
    else:
        kind, given = type(getter), tuple(map(constant, getter.__reduce__()[1]))
    if kind is operator.itemgetter:
        return functools.reduce(joined, (walk.item(value, v) for v in given))
    first, *rest = given
    if not first.exact or not isinstance(first.refs[0], str):
        return walk.attributes(value)
    if kind is operator.methodcaller:
        return walk.call(walk.attribute(value, first.refs[0]), rest)
    return functools.reduce(joined, (_along(walk, value, v.refs[0]) for v in given))


def _along(walk: Attributes, value: Value, path: str) -> Value:
    for name in path.split("."):
        value = walk.attribute(value, name)
    return value

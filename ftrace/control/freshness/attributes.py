"""Attributes and items of what walked code reads (`reading.py`): what each becomes a fact about."""

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from ftrace.control.freshness.bytecode import Handler
from ftrace.control.freshness.names_of_calls import ITEMS, ITERATION
from ftrace.control.freshness.opaque import CACHED, KeptResults, entries_of
from ftrace.control.freshness.reading import Reading, own
from ftrace.control.freshness.values import (
    NOTHING,
    SETS,
    STAND_INS,
    TRACED,
    UNCHANGING,
    Above,
    Container,
    Held,
    Instance,
    Made,
    Method,
    Value,
    bag,
    builtin,
    constant,
    is_container,
    is_library,
    is_ndarray,
    is_traced,
    joined,
    rules_of,
    same,
    united,
)
from ftrace.core.sameness import SCALARS

LAYOUT: Final = frozenset(
    ("shape", "ndim", "dtype", "size", "nbytes", "itemsize", "strides", "flags", "device")
)
_MISSING: Final = object()
_FIELD: Final[Any] = type(Handler.start)  # of named tuples
_OF_C: Final = (types.MethodDescriptorType, types.WrapperDescriptorType)
_OF_TEXTS: Final = ("format", "format_map", "join")


class Attributes(Reading):
    """A walk that reads attributes and items."""

    # ------------------------------------------------------------------------------ attributes

    def attribute(self, value: Value, name: str) -> Value:
        """An attribute of whatever it may be."""
        layout = name in LAYOUT
        found = self._each(value, lambda ref: self._attribute(ref, name), whole=not layout)
        return found._replace(traced=False) if layout else found

    def attributes(self, value: Value) -> Value:
        """Any attribute of it."""
        found: list[Any] = []
        for ref in value.refs:
            if isinstance(ref, Instance):
                found.extend(x for v in ref.attributes.values() for x in v.refs)
            elif not (isinstance(ref, STAND_INS) or is_library(ref)):
                self.facts.whole(own(ref), self.site)
                found.extend(map(self._noted, own(ref).values()))
        return bag(found, traced=value.traced)

    def _noted(self, x: Any) -> Any:
        self.outside(x)
        return x

    def set_attribute(self, holder: Value, name: Any, value: Value) -> None:
        """Write an attribute."""
        if not holder.refs:
            self.write(None, name, value)
        for ref in holder.refs:
            if isinstance(ref, Instance):
                new = joined(ref.attributes.get(name), value._replace(origin=None))
                self.grow(not same(ref.attributes.get(name), new))
                ref.attributes[name] = new
            else:
                self.write(ref, name, value)

    def instance(self, kind: Any, *parts: Any) -> Any:
        """What an instruction makes, one object each time."""
        key = kind, self.here.offset
        return self.frame.instances.setdefault(key, kind(*parts))

    def container(self) -> Container:
        """The container that an instruction makes."""
        made: Container = self.frame.containers.setdefault(self.here.offset, Container())
        return made

    def _each(self, value: Value, part: Callable[[Any], Value], whole: bool = False) -> Value:
        """What a part of a value may be; `whole`: of a bag, what is in it may be that part."""
        refs = [x for x in value.refs if not (value.traced and is_ndarray(x))]
        if not refs:
            return TRACED if value.traced else NOTHING
        parts = [part(ref) for ref in refs]
        found = united([*parts, bag(refs)] if whole and value.bag else parts)
        # an array of an object among the arguments is not traced, as they may be
        traced = found.traced or (value.traced and not any(map(is_ndarray, found.refs)))
        return found._replace(complete=found.complete and value.complete, traced=traced)

    def _attribute(self, ref: Any, name: str) -> Value:  # noqa: PLR0911 - kinds
        if is_ndarray(ref):
            return self._of_ndarray(ref, name)
        if isinstance(ref, types.ModuleType):
            return self._of_module(ref, name)
        if isinstance(ref, type):
            return self._of_class(ref, ref, ref.__mro__, name)
        if isinstance(ref, super | Above):
            above: Any = ref
            mro = above.__self_class__.__mro__
            rest = mro[mro.index(above.__thisclass__) + 1 :]
            return self._of_class(above.__self_class__, above.__self__, rest, name)
        if isinstance(ref, Instance):
            return self._of_made(ref, name)
        if type(ref) is str and name in _OF_TEXTS:
            return constant(self.one(Method, ref, name))
        if type(ref) in SCALARS or issubclass(type(ref), np.generic):
            return NOTHING
        if isinstance(ref, Made | Method | Held):
            return self._written(ref, name)
        if isinstance(ref, Container) or (is_container(ref) and _is_builtin(ref, name)):
            return constant(self.one(Method, ref, name))
        return self._of_instance(ref, name)

    def _of_ndarray(self, ref: Any, name: str) -> Value:
        if name in LAYOUT:
            return NOTHING
        if name == "__class__" or not _is_of_library(type(ref), name):
            return self._of_instance(ref, name)
        of_array = callable(getattr(np.ndarray, name, None))
        if not hasattr(np.ndarray, name):  # of a subclass, which may read anything
            self.use(Value((ref,)))
        return Value((self.one(Method, ref, name) if of_array else ref,))

    def _of_made(self, ref: Instance, name: str) -> Value:
        """What an instance that a run makes has, its own or by a name that is not known (`...`)."""
        if name == "__class__":
            return constant(ref.cls)
        mine, more = ref.attributes.get(name), ref.attributes.get(...)
        if mine is None:
            mine = self._of_class(ref.cls, ref, ref.cls.__mro__, name)
        return mine if more is None else joined(mine, more)._replace(complete=False)

    def _of_module(self, module: types.ModuleType, name: str) -> Value:
        scope = vars(module)
        if is_library(module):
            found = getattr(module, name, _MISSING)  # ftrace's own come when they are asked for
            if found is _MISSING:
                return NOTHING
            if isinstance(found, types.FunctionType) and not is_library(found):  # put there
                self.facts.add("name", scope, name, found, self.site)
            return constant(found)
        if name in scope:
            return self.read("name", scope, name, scope[name])
        self.facts.absent("name", scope, name, self.site)
        fallback = scope.get("__getattr__")
        return NOTHING if fallback is None else self.call(constant(fallback), [constant(name)])

    def _of_class(  # noqa: C901, PLR0911 - kinds
        self, cls: type, me: Any, mro: Any, name: str
    ) -> Value:
        """What a class has for an instance, for itself, or (`super`) further up."""
        found = _lookup(mro, name)
        if me is cls:
            meta = _lookup(type(cls).__mro__, name)
            if found is _MISSING or hasattr(type(meta), "__set__"):
                return self._of_metaclass(cls, name, meta)
        if found is _MISSING:
            return NOTHING
        self._note_method(mro, name, found)
        if me is not cls:
            if isinstance(found, types.FunctionType):
                return constant(self.one(types.MethodType, found, me))
            if isinstance(found, property):
                return self.call(constant(found.fget), [constant(me)])
            if isinstance(found, _OF_C) and builtin(me) is not None:
                return constant(self.one(functools.partial, found, me))
        if isinstance(found, classmethod):
            return constant(self.one(types.MethodType, found.__func__, cls))
        if isinstance(found, staticmethod):
            return constant(found.__func__)
        if is_library(cls) or name.startswith("__"):
            return constant(found)
        return self.read("attribute", cls, name, found)

    def _note_method(self, mro: Any, name: str, found: Any) -> None:
        if isinstance(found, types.FunctionType | property | classmethod | staticmethod):
            self.note_member(mro, name)

    def note_member(self, mro: Any, name: str) -> None:
        """What classes have under a name may be replaced, or be overridden later."""
        for c in mro:
            if not is_library(c):
                self.facts.add("own", c, name, vars(c).get(name), self.site)
            if name in vars(c):
                break

    def note_rules(self, f: Any) -> None:
        """The rules of a function may be set again, and what `functools.cache` keeps be cleared."""
        for name in rules_of(f):
            self.facts.add("attribute", f, name, getattr(f, name), self.site)
        if isinstance(f, CACHED):
            self.facts.add("state", f, entries_of, KeptResults(entries_of(f)), self.site)

    def _of_metaclass(self, cls: type, name: str, found: Any) -> Value:
        """What a class gets from its own class."""
        meta = type(cls)
        if is_library(meta):
            return NOTHING
        self.facts.add("own", cls, name, vars(cls).get(name), self.site)
        if found is _MISSING:
            fallback = getattr(meta, "__getattr__", None)
            if not isinstance(fallback, types.FunctionType):
                return NOTHING
            self.note_member(meta.__mro__, "__getattr__")
            return self.call(constant(fallback), [constant(cls), constant(name)])
        self._note_method(meta.__mro__, name, found)
        if isinstance(found, property):
            return self.call(constant(found.fget), [constant(cls)])
        if isinstance(found, types.FunctionType):
            return constant(self.one(types.MethodType, found, cls))
        return self.read("attribute", meta, name, found)

    def _of_instance(self, ref: Any, name: str) -> Value:  # noqa: C901, PLR0911, PLR0912
        cls = type(ref)
        getter = cls.__getattribute__
        if isinstance(getter, types.FunctionType) and not is_library(getter):
            self.note_member(cls.__mro__, "__getattribute__")
            return self.call(constant(getter), [constant(ref), constant(name)])
        if name == "__class__":
            self.facts.add("class", ref, None, cls, self.site)
            return constant(cls)
        if name == "__dict__":
            return constant(own(ref))
        found = _lookup(cls.__mro__, name)
        kind = type(found)
        if kind is property:
            if not is_library(cls):
                self.facts.add("of class", ref, name, found, self.site)
            return self.call(constant(found.fget), [constant(ref)])
        mine = own(ref)
        if name in mine and not hasattr(kind, "__set__"):
            return self.read("attribute", ref, name, mine[name])
        if found is _MISSING:
            return self._without(ref, name)
        if kind is types.FunctionType:
            self.facts.add("method", ref, name, found, self.site)
            return constant(self.one(types.MethodType, found, ref))
        of_error = isinstance(ref, BaseException) and kind is types.GetSetDescriptorType  # `args`
        if of_error or kind in (types.MemberDescriptorType, _FIELD):
            try:
                return self.read("attribute", ref, name, found.__get__(ref, cls))
            except AttributeError:
                return self._without(ref, name)
        if kind is functools.cached_property:
            self.facts.absent("item", mine, name, self.site)
            return self.call(constant(found.func), [constant(ref)])
        if kind in (classmethod, staticmethod) or not hasattr(kind, "__get__"):
            value = self._of_class(cls, ref, cls.__mro__, name)
            if kind not in (classmethod, staticmethod):
                self.facts.add("attribute", ref, name, found, self.site)
            return value
        self.note_member(cls.__mro__, name)
        if isinstance(found, functools.partialmethod):
            return constant(self.one(_partial, found, ref))
        if type(ref) is types.CellType:
            return self.read("attribute", ref, name, found.__get__(ref))
        get = kind.__get__
        if isinstance(get, types.FunctionType):
            if not hasattr(kind, "__set__"):
                self.facts.absent("item", mine, name, self.site)
            for special in ("__get__", "__set__"):
                self.note_member(kind.__mro__, special)
            return self.call(constant(get), [constant(found), constant(ref), constant(cls)])
        return constant(self.one(functools.partial, found, ref)) if callable(found) else NOTHING

    def _without(self, ref: Any, name: str) -> Value:
        """An attribute that is not there."""
        fallback = getattr(type(ref), "__getattr__", None)
        if isinstance(fallback, types.FunctionType):
            self.facts.absent("item", own(ref), name, self.site)
            self.note_member(type(ref).__mro__, "__getattr__")
            return self.call(constant(fallback), [constant(ref), constant(name)])
        if fallback is None:
            self.facts.absent("attribute", ref, name, self.site)
        elif is_container(ref):  # `__getattr__ = dict.__getitem__`
            return self.item(constant(ref), constant(name))
        return self._written(ref, name)

    def _written(self, ref: Any, name: str) -> Value:
        """What the walked code writes into an attribute."""
        more = self.written.get((id(ref), name), NOTHING)._replace(complete=False)
        return self.with_more(ref, more)

    # ------------------------------------------------------------------------------ items

    def item(self, value: Value, index: Value) -> Value:
        """`value[index]`."""
        self.use_all(index, beside=value.traced)
        self.operate(index.refs, [], ("__index__",))
        if value.exact and not value.bag and is_ndarray(value.refs[0]):
            found = self.elements_at(value.refs[0], index)
            if found is not None:
                return constant(found)
        asked = tuple(x for x in value.refs if _is_asked(x, index))
        if asked:  # the classes of the keys say what is equal
            self.operate(index.refs, [Value(asked)])
        return self._each(value, lambda ref: self._item(ref, index), whole=True)

    def _item(self, ref: Any, index: Value) -> Value:
        if is_ndarray(ref):
            if is_traced(index):  # an equation reads it
                self.use(Value((ref,)), beside=True)
                return TRACED
            return self._inside(ref)
        if any(type(k) not in SCALARS for k in index.refs):
            self.throw(index)  # in a KeyError
        if isinstance(ref, Container):
            at = index.refs[0] if index.exact else None
            parts = ref.parts or ()
            if type(at) is int and -len(parts) <= at < len(parts):
                return parts[at]
            return ref.contents
        if is_container(ref):
            if _is_asked(ref, index):
                return self.within([Value((ref,))])
            return self.with_more(ref, united([self.item_at(ref, k) for k in index.refs]))
        if isinstance(ref, type) and not is_library(ref):
            return self.call(self.attribute(constant(ref), "__class_getitem__"), [index])
        return self.operate((ref,), [index], ITEMS)

    def item_at(self, ref: Any, key: Any) -> Value:
        if isinstance(ref, tuple):
            return self.outside(ref[key]) if -len(ref) <= key < len(ref) else NOTHING
        if isinstance(ref, dict):
            if key in ref:
                return self.read("item", ref, key, ref[key])
            self.facts.absent("item", ref, key, self.site)
            return self.operate((ref,), [constant(key)], ITEMS)
        if not isinstance(ref, SETS) and -len(ref) <= key < len(ref):
            return self.read("item", ref, key, ref[key])
        self.facts.add("length", ref, None, len(ref), self.site)
        return NOTHING

    def _inside(self, array: Any) -> Value:
        """An item of an array, which may be an object."""
        refs = Value((array,))
        return self.within([refs]) if array.dtype.hasobject else refs

    def elements(self, value: Value) -> Value:
        """What a loop over a value gives."""
        return self._each(value, self._elements, whole=True)

    def _elements(self, ref: Any) -> Value:
        if is_ndarray(ref):
            return self._inside(ref)
        if isinstance(ref, Container):
            return ref.contents
        if not is_container(ref):
            return self.operate((ref,), [], ITERATION)
        if not isinstance(ref, UNCHANGING):
            self.facts.whole(ref, self.site)
        items = tuple(ref)
        for x in items:
            self.outside(x)
        found = Value(tuple({id(x): x for x in items}.values()), complete=bool(items))
        return self.with_more(ref, found)

    # filled in by calling.py
    def call(self, callee: Value, args: list[Value]) -> Value:
        """What a call may return."""
        raise NotImplementedError

    def operate(self, refs: Iterable[Any], others: list[Value], names: Any = None) -> Value:
        """What the special methods of an object may return."""
        raise NotImplementedError

    def visit_here(self, code: types.CodeType) -> Value:
        """What an expression may give that is evaluated where we are."""
        raise NotImplementedError


def _is_builtin(ref: Any, name: str) -> bool:
    """Whether it is a method of Python's container, which the class of the object may replace."""
    method = getattr(builtin(ref), name, None)
    return isinstance(method, _OF_C) and _is_of_library(type(ref), name)


def _is_of_library(cls: type, name: str) -> bool:
    """Whether a library's class says what an attribute of the instances is."""
    owner = next((c for c in cls.__mro__ if name in vars(c)), None)
    return is_library(owner)


def _is_asked(ref: Any, index: Value) -> bool:
    """Whether a container compares its keys with one that is not known here."""
    if isinstance(ref, Container) or not is_container(ref):
        return False
    return not (index.complete and index.refs and all(_is_key(k, ref) for k in index.refs))


def _is_key(key: Any, ref: Any) -> bool:
    if isinstance(ref, dict):
        return type(key) in SCALARS or isinstance(key, type | types.FunctionType) or _is_name(key)
    return type(key) in (int, bool)


def _is_name(key: Any) -> bool:
    return isinstance(key, tuple) and all(type(k) in SCALARS for k in key)


def _partial(method: Any, me: Any) -> Any:
    """What a `partialmethod` is on an instance."""
    return functools.partial(method.func, me, *method.args, **method.keywords)


def _lookup(mro: Any, name: str) -> Any:
    for cls in mro:
        if name in vars(cls):
            return vars(cls)[name]
    return _MISSING

"""What a function reads from outside: its code is walked once before it is traced.

A `Reader` goes through the instructions of a function, and of all the user's functions, methods,
properties and operators that it calls, with what each place may hold (`values.py`). Where a name,
attribute or item of a known object is read, that becomes a fact (`facts.py`); nothing of the
user's is run. Branches that known values decide are followed on their side only. An array that an
operation gets is noted with the place: `guards.py` finds out whether the trace used it as an
operand there, or Python read its content.

Instructions are handled in `stack.py`, calls in `calling.py`, attributes and items here.
"""

import functools
import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.control.bytecode import Handler, Listing, listing
from ftrace.control.facts import Facts, content
from ftrace.control.values import (
    MAPPINGS,
    MAX_REFS,
    NOTHING,
    SEQUENCES,
    SETS,
    STAND_INS,
    TRACED,
    Above,
    Container,
    Held,
    Instance,
    Made,
    Method,
    Value,
    bag,
    constant,
    inside,
    is_library,
    is_ndarray,
    joined,
    same,
    united,
)
from ftrace.core.sameness import SCALARS
from ftrace.core.trace import Tracer
from ftrace.interpreters.captures import COPY_LIMIT, is_read_only

LAYOUT: Final = frozenset(
    ("shape", "ndim", "dtype", "size", "nbytes", "itemsize", "strides", "flags", "device")
)
_MISSING: Final = object()
_UNCHANGING: Final = (*SCALARS, tuple, frozenset)  # nothing can be written there


class Frame:
    """One visit of a code object.

    Attributes:
        names: what its variables may hold.
        cells: the closure cells of a function that exists; `parents` are the frames in which
            the walked code makes this one.
        once: whether a run executes it once.
        shared: whether it stands for many calls.
    """

    __slots__ = (
        "cells", "changed", "containers", "globals", "heads", "instances", "listing", "made",
        "names", "number", "once", "parents", "result", "seen", "shared", "stores",
    )  # fmt: skip

    def __init__(self, code: types.CodeType, scope: dict[str, Any], once: bool) -> None:
        self.listing: Listing = listing(code)
        self.globals = scope
        self.once = once
        self.number = 0
        self.cells: dict[str, Any] = {}
        self.parents: list[Frame] = []
        self.names: dict[str, Value] = {}
        self.made: dict[int, Made] = {}
        self.containers: dict[int, Container] = {}
        self.heads: dict[int, list[Value]] = {}
        self.result: Value | None = None
        self.instances: dict[Any, Any] = {}
        self.changed = self.shared = False
        self.stores = 0
        self.seen: Any = None  # the state that it was last walked in

    def store(self, name: str, value: Value) -> None:
        """Let a variable also hold a value."""
        new = joined(self.names.get(name), value._replace(origin=None))
        if not same(self.names.get(name), new):
            self.names[name] = new
            self.changed = True
            self.stores += 1

    def join(self, other: "Frame") -> None:
        """Let this one also stand for another call of the same function."""
        for name, value in other.names.items():
            self.store(name, value)
        self.parents.extend(p for p in other.parents if p not in self.parents)
        self.once = False

    def state(self) -> tuple[Any, ...]:
        """What changes when a variable of this or of an enclosing function does."""
        return (id(self), self.stores, *self.scope())

    def scope(self) -> tuple[Any, ...]:
        """What changes when a variable of an enclosing function does."""
        return tuple(p.state() for p in self.parents)


class Use:
    """An array that an instruction gets: whether surely beside a traced value, and by whom."""

    __slots__ = ("array", "beside", "code", "frames", "offset", "once")

    def __init__(self, array: Any, code: types.CodeType, offset: int) -> None:
        self.array, self.code, self.offset = array, code, offset
        self.beside = self.once = True
        self.frames: set[int] = set()


class Reading:
    """The state of one walk: facts, arrays and their uses, and what the walked code writes."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.arrays: dict[int, Any] = {}
        self.before: dict[int, bytearray] = {}
        self.uses: dict[tuple[int, int, int], Use] = {}
        self.written: dict[tuple[int, Any], Value] = {}  # (id of the holder, key) -> also holds
        self.stored: set[Any] = set()  # names and keys that are written somewhere
        self.logs: set[int] = set()  # containers that are appended to
        self.grown = False
        self._ones: dict[Any, Any] = {}
        self._inner: dict[int, Any] = {}  # what is in something of the outside
        self._opened_at: set[Any] = set()
        self.numbers: dict[Any, Any] = {}  # that the walk computed
        self.frame: Any = None
        self.here: Any = None  # the instruction
        self.visits = 0
        self.growth = 0  # how often what a run makes has come to hold more
        self.passing = False  # whether a function got what a run makes
        self.restless = False  # whether that grew afterwards
        self.raised = NOTHING  # by any of the walked code
        self.catching = False  # whether a function got that

    @property
    def site(self) -> tuple[int, int]:
        """Where we are."""
        return (0, 0) if self.frame is None else (id(self.frame.listing.code), self.here.offset)

    # ------------------------------------------------------------------------------ facts

    def read(self, kind: str, holder: Any, key: Any, value: Any) -> Value:
        """A value that was read from outside."""
        site = self.site
        name = self.facts.add(kind, holder, key, value, site)
        found = self.outside(value)
        if key not in self.stored:
            return found._replace(origin=(name, site, key))
        more = self.written.get((id(holder), key))
        found = found._replace(complete=False)
        return (found if more is None else joined(found, more))._replace(origin=(name, site, key))

    def one(self, kind: Any, *parts: Any) -> Any:
        """A stand-in, or a method, made of these: one object each time."""
        key = (kind, *((p if type(p) is str else id(p)) for p in parts))
        found = self._ones.get(key)
        if found is None:
            found = self._ones[key] = (parts, kind(*parts))
        return found[1]

    def computed(self, value: Any) -> Value:
        """A number or string that the walk computes: one object each time."""
        return constant(self.numbers.setdefault((type(value), repr(value)), value))

    def outside(self, value: Any) -> Value:
        """A value that is outside."""
        if isinstance(value, Tracer):
            return TRACED
        if is_ndarray(value):
            self.arrays[id(value)] = value
        return constant(value)

    def write(self, holder: Any, key: Any, value: Value) -> None:
        """The walked code writes something: what it read of that name is not all there may be."""
        if key not in self.stored:
            self.stored.add(key)
            self.grown = True
        if holder is None or type(holder) in _UNCHANGING:
            return
        name = (id(holder), key)
        old = self.written.get(name)
        self.written[name] = new = joined(old, value._replace(origin=None))
        if not isinstance(holder, STAND_INS) and not (old and same(_lasting(old), _lasting(new))):
            self.grown = True

    def grow(self, new: bool) -> None:
        """What a run makes may hold more than before."""
        if new:
            self.growth += 1
            self.frame.changed = True
            self.restless |= self.passing

    def throw(self, *values: Value) -> None:
        """The walked code raises something: who catches errors may get it."""
        more = bag((*self.raised.refs, *(x for v in values for x in v.refs)))
        self.restless |= self.catching and not same(self.raised, more)
        self.raised = more

    def caught(self) -> Value:
        """What a handler of errors may get."""
        self.catching = True
        return self.raised

    def use(self, value: Value, beside: bool = False) -> None:
        """An instruction gets a value: note the arrays."""
        if self.frame is None or not value.refs:
            return
        code, offset = self.frame.listing.code, self.here.offset
        for a in value.refs:
            if not is_ndarray(a) or a.nbytes > COPY_LIMIT or is_read_only(a):
                continue
            if id(a) not in self.before:
                self.before[id(a)] = content(a)
            key = (id(a), id(code), offset)
            use = self.uses.setdefault(key, Use(a, code, offset))
            use.beside &= beside
            use.once &= self.frame.once and offset not in self.frame.listing.loops
            use.frames.add(self.frame.number)

    # ------------------------------------------------------------------------------ names

    def name(self, name: str) -> Value:
        """A global, or what Python provides."""
        scope = self.frame.globals
        if name in scope:
            return self.read("name", scope, name, scope[name])
        self.facts.absent("name", scope, name, self.site)
        provided = scope.get("__builtins__", {})
        found = getattr(provided, "__dict__", provided).get(name, _MISSING)
        return NOTHING if found is _MISSING else constant(found)

    def variable(self, frame: Frame, name: str) -> Value:
        """A local variable, or one of an enclosing function."""
        if name in frame.names:
            return frame.names[name]
        cell = frame.cells.get(name)
        if cell is not None:
            try:
                return self.read("cell", cell, name, cell.cell_contents)
            except ValueError:  # not filled yet
                return NOTHING
        found = [self.variable(p, name) for p in frame.parents]
        return united(found) if found else NOTHING

    def bind(self, frame: Frame, name: str, value: Value) -> None:
        """Write a variable, of this or of an enclosing function."""
        if name in frame.cells:
            self.write(frame.cells[name], name, value)
        elif name in frame.listing.code.co_freevars and frame.parents:
            for p in frame.parents:
                self.bind(p, name, value)
        else:
            frame.store(name, value)

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
            elif not (is_ndarray(ref) or isinstance(ref, STAND_INS) or is_library(ref)):
                self.facts.whole(_own(ref), self.site)
                found.extend(map(self._noted, _own(ref).values()))
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
        traced = value.traced or found.traced
        return found._replace(complete=found.complete and value.complete, traced=traced)

    def _attribute(self, ref: Any, name: str) -> Value:  # noqa: PLR0911 - kinds of objects
        if is_ndarray(ref):
            if name in LAYOUT:
                return NOTHING
            of_array = callable(getattr(np.ndarray, name, None))
            return Value((self.one(Method, ref, name) if of_array else ref,))
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
            mine = ref.attributes.get(name)
            return mine if mine is not None else self._of_class(ref.cls, ref, ref.cls.__mro__, name)
        if type(ref) in SCALARS or issubclass(type(ref), Made | Method | Held | np.generic):
            return NOTHING
        if isinstance(ref, Container) or (is_container(ref) and hasattr(_builtin(ref), name)):
            return constant(self.one(Method, ref, name))
        return self._of_instance(ref, name)

    def _of_module(self, module: types.ModuleType, name: str) -> Value:
        scope = vars(module)
        if is_library(module):
            found = getattr(module, name, _MISSING)  # ftrace's own come when they are asked for
            return NOTHING if found is _MISSING else constant(found)
        if name in scope:
            return self.read("name", scope, name, scope[name])
        self.facts.absent("name", scope, name, self.site)
        return NOTHING

    def _of_class(self, cls: type, me: Any, mro: Any, name: str) -> Value:
        """What a class has for an instance, for itself, or (`super`) further up."""
        found = _lookup(mro, name)
        if found is _MISSING:
            return NOTHING
        if me is not cls:
            if isinstance(found, types.FunctionType):
                return constant(self.one(types.MethodType, found, me))
            if isinstance(found, property):
                return self.call(constant(found.fget), [constant(me)])
        if isinstance(found, classmethod):
            return constant(self.one(types.MethodType, found.__func__, cls))
        if isinstance(found, staticmethod):
            return constant(found.__func__)
        if is_library(cls) or name.startswith("__"):
            return constant(found)
        return self.read("attribute", cls, name, found)

    def _of_instance(self, ref: Any, name: str) -> Value:  # noqa: C901, PLR0911, PLR0912
        cls = type(ref)
        getter = cls.__getattribute__
        if isinstance(getter, types.FunctionType) and not is_library(getter):
            return self.call(constant(getter), [constant(ref), constant(name)])
        if name == "__class__":
            return constant(cls)
        if name == "__dict__":
            return constant(_own(ref))
        found = _lookup(cls.__mro__, name)
        kind = type(found)
        if kind is property:
            return self.call(constant(found.fget), [constant(ref)])
        mine = _own(ref)
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
        get = kind.__get__
        if isinstance(get, types.FunctionType):
            return self.call(constant(get), [constant(found), constant(ref), constant(cls)])
        if isinstance(found, functools.partialmethod):
            return constant(self.one(_partial, found, ref))
        return constant(self.one(functools.partial, found, ref)) if callable(found) else NOTHING

    def _without(self, ref: Any, name: str) -> Value:
        """An attribute that is not there."""
        fallback = getattr(type(ref), "__getattr__", None)
        if isinstance(fallback, types.FunctionType):
            self.facts.absent("item", _own(ref), name, self.site)
            return self.call(constant(fallback), [constant(ref), constant(name)])
        if fallback is None:
            self.facts.absent("attribute", ref, name, self.site)
        more = self.written.get((id(ref), name))
        return NOTHING if more is None else more._replace(complete=False)

    # ------------------------------------------------------------------------------ items

    def item(self, value: Value, index: Value) -> Value:
        """`value[index]`."""
        self.use(index, beside=value.traced)
        return self._each(value, lambda ref: self._item(ref, index), whole=True)

    def _item(self, ref: Any, index: Value) -> Value:
        if is_ndarray(ref):
            return Value((ref,))
        if any(type(k) not in SCALARS for k in index.refs):
            self.throw(index)  # in a KeyError
        if isinstance(ref, Container):
            at = index.refs[0] if index.exact else None
            parts = ref.parts or ()
            if type(at) is int and -len(parts) <= at < len(parts):
                return parts[at]
            return ref.contents
        if is_container(ref):
            if index.complete and index.refs and all(_is_key(k, ref) for k in index.refs):
                found = [self.item_at(ref, k) for k in index.refs]
                return united(found)
            return self.within([Value((ref,))])
        return self.operate(ref, [index])

    def item_at(self, ref: Any, key: Any) -> Value:
        if isinstance(ref, tuple):
            return self.outside(ref[key]) if -len(ref) <= key < len(ref) else NOTHING
        if isinstance(ref, dict):
            if key in ref:
                return self.read("item", ref, key, ref[key])
            self.facts.absent("item", ref, key, self.site)
            return self.operate(ref, [constant(key)])  # __missing__
        if not isinstance(ref, SETS) and -len(ref) <= key < len(ref):
            return self.read("item", ref, key, ref[key])
        self.facts.add("length", ref, None, len(ref), self.site)
        return NOTHING

    def elements(self, value: Value) -> Value:
        """What a loop over a value gives."""
        return self._each(value, self._elements, whole=True)

    def _elements(self, ref: Any) -> Value:
        if is_ndarray(ref):
            return Value((ref,))
        if isinstance(ref, Container):
            return ref.contents
        if not is_container(ref):
            return self.operate(ref, [])
        if not isinstance(ref, tuple | frozenset):
            self.facts.whole(ref, self.site)
        items = tuple(ref)
        for x in items:
            self.outside(x)
        return Value(tuple({id(x): x for x in items}.values()), complete=bool(items))

    def within(self, values: list[Value]) -> Value:
        """All that is in containers, however deep: for who does anything with them."""
        seen: dict[int, Any] = {}
        queue = [v.refs for v in values]
        while queue:
            for x in [x for x in queue.pop() if id(x) not in seen]:
                if isinstance(x, STAND_INS):
                    seen[id(x)] = x
                    queue.append(inside(x))
                elif type(x) not in SCALARS:
                    seen.update(self._held_by(x))
        traced = bool(values) and all(v.traced for v in values)
        return Value(tuple(seen.values())[:MAX_REFS], traced=traced, bag=True)

    def _held_by(self, x: Any) -> dict[int, Any]:
        """All that is in something of the outside, itself included, but for numbers and names."""
        known = self._inner.get(id(x))
        if known is None:
            known = self._inner[id(x)] = self._opened(x)
        found, holders = known
        place = (self.site, id(x))
        if place not in self._opened_at:
            self._opened_at.add(place)
            for holder in holders:
                self.facts.whole(holder, self.site)
        return found

    def _opened(self, x: Any) -> tuple[dict[int, Any], list[Any]]:
        """The same, and the containers among it that may change."""
        found: dict[int, Any] = {}
        holders: list[Any] = []
        queue = [x]
        while queue:
            x = queue.pop()
            if id(x) in found or type(x) in SCALARS:
                continue
            found[id(x)] = x
            self.outside(x)
            if is_container(x):
                if not isinstance(x, tuple | frozenset):
                    holders.append(x)
                queue.extend((*x, *x.values()) if isinstance(x, dict) else x)
            elif hasattr(type(x), "__dataclass_fields__") or type(x) is types.SimpleNamespace:
                holders.append(_own(x))
                queue.extend(_own(x).values())
        return found, holders

    # filled in by calling.py
    def call(self, callee: Value, args: list[Value]) -> Value:
        """What a call may return."""
        raise NotImplementedError

    def operate(self, ref: Any, others: list[Value]) -> Value:
        """What the special methods of an object may return."""
        raise NotImplementedError


_FIELD: Final[Any] = type(Handler.start)  # of named tuples


def is_container(x: Any) -> bool:
    """Whether it is one of Python's containers, with their methods."""
    base = _builtin(x)
    if base is None:
        return False
    cls = type(x)
    return cls is base or (
        cls.__getitem__ is base.__getitem__ and cls.__iter__ is base.__iter__
        if base not in SETS
        else cls.__iter__ is base.__iter__
    )


def _lasting(v: Value) -> Value:
    """A value without the stand-ins, which each walk makes anew."""
    return v._replace(refs=tuple(x for x in v.refs if not isinstance(x, STAND_INS)))


def _builtin(x: Any) -> Any:
    for base in (*MAPPINGS, *SEQUENCES, *SETS):
        if issubclass(type(x), base):
            return base
    return None


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


def _own(ref: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(ref, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}

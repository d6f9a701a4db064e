"""What a function reads from outside: its code is walked once before it is traced.

A `Reader` goes through the instructions of a function, and of all the user's functions, methods,
properties and operators that it calls, with what each place may hold (`values.py`). Where a name,
attribute or item of a known object is read, that becomes a fact (`facts.py`); nothing of the
user's is run. Branches that known values decide are followed on their side only. An array that an
operation gets is noted with the place: `guards.py` finds out whether the trace used it as an
operand there, or Python read its content.

Instructions are handled in `stack.py`, calls in `calling.py`, attributes and items here.
"""

import sys
import types
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from ftrace.control.freshness.bytecode import Listing, listing
from ftrace.control.freshness.facts import Facts, noted
from ftrace.control.freshness.opaque import is_opaque, parts_of, referents, state_of
from ftrace.control.freshness.values import (
    MAX_REFS,
    NOTHING,
    STAND_INS,
    TRACED,
    UNCHANGING,
    Container,
    Made,
    Value,
    bag,
    builtin,
    constant,
    held_in,
    inside,
    is_library,
    is_ndarray,
    is_own,
    joined,
    same,
    united,
)
from ftrace.core.config import config
from ftrace.core.sameness import SCALARS
from ftrace.core.trace import Tracer
from ftrace.interpreters.captures import is_read_only

_MISSING: Final = object()
_MAX_OPENED: Final = 300  # objects of a library that one holds
_CONSTANT: Final = (*SCALARS, *UNCHANGING)  # nothing can be written there


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

    def __init__(self, most: int) -> None:
        self.facts = Facts()
        self.arrays: dict[int, Any] = {}
        self._most = most  # bytes of the largest array whose content is noted
        self.before: dict[int, bytearray | bytes] = {}
        self.uses: dict[tuple[int, int, int], Use] = {}
        self.written: dict[tuple[int, Any], Value] = {}  # (id of the holder, key) -> also holds
        self.stored: set[Any] = set()  # names and keys that are written somewhere
        self.logs: set[int] = set()  # containers that are appended to
        self.grown = False
        self._ones: dict[Any, Any] = {}
        self._inner: dict[int, Any] = {}  # what is in something of the outside
        self._opened_at: set[Any] = set()
        self.numbers: dict[Any, Any] = {}  # that the walk computed
        self.views: dict[Any, tuple[Any, Any]] = {}  # array and index -> the array, its elements
        self.frame: Any = None
        self.here: Any = None  # the instruction
        self.visits = 0
        self.growth = 0  # how often what a run makes has come to hold more
        self.passing = False  # whether a function got what a run makes
        self.restless = False  # whether that grew afterwards
        self.raised = NOTHING  # by any of the walked code
        self.catching = False  # whether a function got that
        self.given_away = NOTHING  # to what is not known
        self.receiving = False

    def follow(self, before: "Reading") -> None:
        """Know what an earlier walk of the same code found to be written."""
        self.stored = before.stored
        self.written = {name: _lasting(v) for name, v in before.written.items()}
        self.numbers = before.numbers  # what is the same must look the same
        self._most, self.before, self.views = before._most, before.before, before.views
        self._ones = {k: one for k, one in before._ones.items() if not any(map(_is_made, one[0]))}

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
        if key in self.stored:
            more = self.written.get((id(holder), key))
            found = (found if more is None else joined(found, more))._replace(complete=False)
        return self.with_more(holder, found)._replace(origin=(name, site, key))

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
        if issubclass(type(value), Tracer):
            return TRACED
        if is_ndarray(value):
            self.arrays[id(value)] = value
        return constant(value)

    def elements_at(self, array: Any, index: Value) -> Any:
        """The elements of an array at a known index, one object each time; None if there is none.

        Nothing else of the array counts then. Where an array is only one of several, or what is
        known stands for some view of it, all of it does.
        """
        k = index.refs[0] if index.exact else None
        k = k if type(k) is tuple else (k,)
        plain = type(array) is np.ndarray and not array.dtype.hasobject
        if not plain or not all(type(n) is int for n in k):
            return None
        try:
            return self.views.setdefault((id(array), k), (array, array[*k, ...]))[1]
        except IndexError:  # the run will find it
            return None

    def write(self, holder: Any, key: Any, value: Value) -> None:
        """The walked code writes something: what it read of that name is not all there may be."""
        if key not in self.stored:
            self.stored.add(key)
            self.grown = True
        if holder is None or type(holder) in _CONSTANT:
            return
        name = (id(holder), key)
        old = self.written.get(name)
        self.written[name] = new = joined(old, value._replace(origin=None))
        if not isinstance(holder, STAND_INS) and not (old and same(_lasting(old), _lasting(new))):
            self.grown = True

    def put_into(self, holder: Any) -> Value:
        """What the walked code writes into something, who knows where."""
        return self.written.get((id(holder), ...), NOTHING)

    def with_more(self, holder: Any, found: Value) -> Value:
        """What is found in a container of the outside, with what the walked code puts there."""
        more = self.put_into(holder)
        return joined(found, more)._replace(complete=False) if more.refs else found

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

    def give_away(self, value: Value) -> None:
        """Something that is not known gets a value: a local class, a generator may take it."""
        more = bag((*self.given_away.refs, *value.refs))
        self.restless |= self.receiving and not same(self.given_away, more)
        self.given_away = more

    def received(self) -> Value:
        """What who is called by nobody that is known may get."""
        self.receiving = True
        return self.given_away

    def use(self, value: Value, beside: bool = False) -> None:
        """An instruction gets a value: note the arrays."""
        if self.frame is None:
            return
        code, offset = self.frame.listing.code, self.here.offset
        refs = value.refs
        if any(is_ndarray(a) and type(a) is not np.ndarray for a in refs):
            refs = self.within([value]).refs  # a mask is an array, too
        for a in refs:
            if not is_ndarray(a) or is_read_only(a):
                continue
            compared = a.nbytes <= self._most or config.settings.check_captures
            if compared and id(a) not in self.before:
                self.before[id(a)] = noted(a)
            key = (id(a), id(code), offset)
            use = self.uses.setdefault(key, Use(a, code, offset))
            use.beside &= beside
            use.once &= self.frame.once and offset not in self.frame.listing.loops
            use.frames.add(self.frame.number)

    def use_all(self, value: Value, beside: bool = False) -> None:
        """The same with what is in containers."""
        self.use(self.within([value]), beside)

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

    def imported(self, name: str) -> Value:
        """A module that is imported while the function runs."""
        module = sys.modules.get(name)
        if is_library(types.ModuleType(name)):
            return NOTHING if module is None else constant(module)
        if module is None:
            self.facts.absent("item", sys.modules, name, self.site)
            return NOTHING
        return self.read("item", sys.modules, name, module)

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

    # ------------------------------------------------------------------------------ what is inside

    def within(self, values: list[Value]) -> Value:
        """All that is in containers, however deep: for who does anything with them."""
        seen: dict[int, Any] = {}
        queue = [v.refs for v in values]
        met: dict[int, Any] = {}  # what is written in many places is looked at once
        while queue:
            refs = queue.pop()
            if id(refs) in met:
                continue
            met[id(refs)] = refs
            for x in [x for x in refs if id(x) not in seen]:
                if isinstance(x, STAND_INS):
                    seen[id(x)] = x
                    queue.append(inside(x))
                elif type(x) not in SCALARS:
                    found = self._held_by(x)
                    seen.update(found)
                    if self.written:
                        queue.extend(self.put_into(y).refs for y in found.values())
        traced = bool(values) and all(v.traced for v in values)
        return Value(tuple(seen.values())[:MAX_REFS], traced=traced, bag=True)

    def _held_by(self, x: Any) -> dict[int, Any]:
        """All that is in something of the outside, itself included, but for numbers and names."""
        known = self._inner.get(id(x))
        if known is None:
            known = self._inner[id(x)] = self._opened(x)
        found, holders, states = known
        place = (self.site, id(x))
        if place not in self._opened_at:
            self._opened_at.add(place)
            for holder in holders:
                self.facts.whole(holder, self.site)
            for holder, state, value in states:
                self.facts.add("state", holder, state, value, self.site)
        return found

    def _opened(self, x: Any) -> tuple[dict[int, Any], list[Any], list[Any]]:
        """The same, the containers among it that may change, and objects with a state.

        What a library's object holds is opened where it is used itself, not where it is only
        somewhere in a container.
        """
        found: dict[int, Any] = {}
        holders: list[Any] = []
        states: list[Any] = []
        queue = [(x, True)]
        while queue:
            x, used = queue.pop()
            if id(x) in found or type(x) in SCALARS:
                continue
            found[id(x)] = x
            if is_own(x):
                continue
            self.outside(x)
            parts: Iterable[Any] = ()
            if builtin(x) is not None:
                if not isinstance(x, UNCHANGING):
                    holders.append(x)
                parts = held_in(x)
                used = used and len(found) > 1
            elif hasattr(type(x), "__dataclass_fields__") or type(x) is types.SimpleNamespace:
                holders.append(own(x))
                parts, used = (*own(x).values(), *self._slots(x)), False
            elif is_ndarray(x):
                parts = self._of_array(x, holders)
            elif used and is_opaque(x) and len(found) < _MAX_OPENED:
                holders.extend([own(x)] if own(x) else ())
                parts = (*own(x).values(), *self._slots(x), *parts_of(x))
                state = state_of(x)
                states.extend([(x, state, state(x))] if state is not None else ())
                self.facts.weak += referents(x)
            queue.extend((part, used) for part in parts)
        return found, holders, states

    def _slots(self, x: Any) -> list[Any]:
        """What is in the slots of an object."""
        made = [vars(cls) for cls in type(x).__mro__ if "__slots__" in vars(cls)]
        slots = [n for m in made for n, v in m.items() if type(v) is types.MemberDescriptorType]
        found = [(n, getattr(x, n)) for n in slots if hasattr(x, n)]
        for name, value in found:
            self.facts.add("attribute", x, name, value, self.site)
        return [value for _, value in found]

    def _of_array(self, x: Any, holders: list[Any]) -> Iterable[Any]:
        """What an array holds that is not its content: objects, a mask, what to fill that with."""
        if x.dtype.hasobject:
            holders.append(x)
            return x.ravel().tolist()  # type: ignore[no-any-return]
        if type(x) is np.ndarray:
            return ()
        masks = {n: v for n, v in own(x).items() if v is None or is_ndarray(v)}
        for name, value in masks.items():
            self.facts.add("item", own(x), name, value, self.site)
        return [v for v in masks.values() if v is not None]


def _lasting(v: Value) -> Value:
    """A value without what each walk makes anew: stand-ins, and their methods."""
    return v._replace(refs=tuple(x for x in v.refs if not _is_made(x)))


def _is_made(x: Any) -> bool:
    return isinstance(x, STAND_INS) or (
        type(x) is types.MethodType and isinstance(x.__self__, STAND_INS)
    )


def own(ref: Any) -> dict[str, Any]:
    """The attributes of an object itself, without running any of its code."""
    try:
        found = object.__getattribute__(ref, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}

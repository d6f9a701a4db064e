"""Calls in walked code: whose function it is, and what its parameters may hold.

The user's own functions, methods and classes are walked with what they get. What belongs to a
library is not: it may do anything with what it gets, so containers are noted with all that is in
them, and the user's functions among its arguments, or that it holds (`grad(f)`, `vectorize(f)`,
a rule of `custom_jvp`), are walked as called by it. A few builtins have a meaning here.
"""

import functools
import types
from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np

from ftrace.control.freshness.attributes import Attributes
from ftrace.control.freshness.facts import ALL_OF
from ftrace.control.freshness.holders import (
    GETTERS,
    Assumed,
    call_of,
    gives_arrays,
    held_functions,
    is_users,
    owner_of,
    users_among,
)
from ftrace.control.freshness.meanings import MEANINGS, gotten
from ftrace.control.freshness.names_of_calls import FIRST, ITERATING, LIFE, PASSING, PLAIN, WRITING
from ftrace.control.freshness.opaque import is_opaque
from ftrace.control.freshness.reading import Frame
from ftrace.control.freshness.values import (
    NOTHING,
    STAND_INS,
    TRACED,
    Container,
    Held,
    Instance,
    Made,
    Method,
    Value,
    bag,
    class_of,
    constant,
    is_library,
    is_ndarray,
    is_of_ftrace,
    is_traced,
    joined,
    same,
    united,
)
from ftrace.core.sameness import SCALARS

_MAX_PASSES: Final = 6
_MAX_ROUNDS: Final = 8
_MAX_VISITS: Final = 4_000
_MAX_WAYS: Final = 4  # in which a function is walked by itself
_MAX_PLACES: Final = 4  # at which instances of a class are told apart
_MAX_NESTED: Final = 20  # of calls by libraries; deeper ones are followed afterwards
_MAX_DEPTH: Final = 40  # of calls; deeper ones are followed afterwards, their results unknown


class Calling(Attributes):
    """A walk with calls."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._walking: set[Any] = set()
        self._results: dict[Any, tuple[Any, Value]] = {}
        self._instances: dict[Any, Any] = {}  # by where they are made
        self._assumed: dict[int, Assumed] = {}  # by the callable's id
        self._due: dict[int, Any] = {}  # of these, got more since they were walked
        self._escaped: dict[Any, Any] = {}  # what libraries get
        self._called: set[Any] = set()  # functions that walked code made, and called
        self._ways: dict[Any, int] = {}
        self._shared: dict[Any, Frame] = {}  # of functions that are called in many ways
        self._frames: dict[Any, Frame] = {}  # of each way that a function is called in
        self._believed: dict[Any, Value] = {}  # what a function was taken to return by itself
        self._later: list[Any] = []  # calls too deep to follow at once
        self._depth = 0
        self.exhausted = False  # not all that is read was found

    def start(self, fun: Any, given: Value) -> None:
        """Walk a function of traced values and known objects, and all that it calls."""
        for _ in range(_MAX_ROUNDS):
            self.restless = False
            self.assume(fun, given)
            while self._later or self._due:
                while self._later:
                    self._visit(*self._later.pop())
                self._catch_up()
            if not self.restless:
                break
            self._forget()

    def _forget(self) -> None:
        """Another round begins, with the results and what is given as far as they are known."""
        for results in (self._results, self._believed, self._escaped):
            results.clear()
        self._called.clear()
        for known in self._assumed.values():
            known.seen = known.relied = False
        for frame in self._shared.values():
            frame.seen = None

    def _catch_up(self) -> None:
        """Walk what got more than it was walked with."""
        due, self._due = self._due, {}
        for known, *place in due.values():
            self.frame, self.here = place
            self._follow(known)
        self.frame = self.here = None

    # ------------------------------------------------------------------------------ callables

    def call(
        self,
        callee: Value,
        args: list[Value],
        kwargs: dict[str, Value] | None = None,
        rest: Value | None = None,
    ) -> Value:
        """What a call may return.

        Args:
            callee: the function.
            args, kwargs: what it gets.
            rest: what may be among further arguments, of which nothing is known.
        """
        kwargs = kwargs or {}
        if callee.traced and not callee.refs:
            for v in (*args, *kwargs.values()):
                self.use_all(v, beside=True)
            return TRACED
        found: list[Value] = []
        if not callee.complete:
            one = self._outside(None, [*args, *kwargs.values(), *_given(rest)])
            self.give_away(one)
            found.append(one if not callee.refs else one._replace(traced=True))
        found += [self._one(f, args, kwargs, rest) for f in callee.refs]
        return united(found)

    def _one(  # noqa: C901, PLR0911, PLR0912 - kinds of callables
        self, f: Any, args: list[Value], kwargs: dict[str, Value], rest: Any
    ) -> Value:
        if isinstance(f, types.FunctionType):
            if not is_library(f):
                return self._function(f, args, kwargs, rest)
        elif isinstance(f, types.MethodType):
            return self._one(f.__func__, [constant(f.__self__), *args], kwargs, rest)
        elif isinstance(f, functools.partial):
            if f.keywords:
                self.facts.whole(f.keywords, self.site)
            given = [self.outside(a) for a in f.args]
            named = {k: self.outside(v) for k, v in f.keywords.items()}
            return self._one(f.func, [*given, *args], {**named, **kwargs}, rest)
        elif isinstance(f, Made):
            return self._made(f, args, kwargs, rest)
        elif isinstance(f, Method):
            of = self._of_text if isinstance(f.holder, str) else self._method
            return of(f, [*args, *kwargs.values(), *_given(rest)])
        elif isinstance(f, type):
            if not is_library(f):
                made = self._instance(f, args, kwargs, rest)
                call = call_of(f)
                if call is None or is_library(call):
                    return made
                self.note_member(type(f).__mro__, "__call__")
                return joined(made, self._function(call, [constant(f), *args], kwargs, rest))
        elif is_ndarray(f):
            return NOTHING
        else:
            call = call_of(f)
            if call is not None and not is_library(call):
                if not isinstance(f, Instance):
                    self.facts.add("class", f, None, type(f), self.site)
                    self.facts.add("attribute", type(f), "__call__", call, self.site)
                return self._function(call, [constant(f), *args], kwargs, rest)
            if not callable(f) and (isinstance(f, Container) or not isinstance(f, STAND_INS)):
                return NOTHING  # it raises
        if isinstance(f, GETTERS):
            return gotten(self, f, args[0] if args else _open(rest, None))
        meant = MEANINGS.get(f) if isinstance(f, _BUILTIN) and rest is None else None
        known = None if meant is None else meant(self, args, kwargs)
        if known is not None:
            return known
        return self._outside(f, [*args, *kwargs.values(), *_given(rest)])

    def _instance(self, cls: type, args: list[Value], kwargs: dict[str, Value], rest: Any) -> Value:
        """A new instance of a class of the user's."""
        new = self._new(cls)
        made = constant(new)
        for name in ("__new__", "__init__"):
            method = getattr(cls, name)
            self.note_member(cls.__mro__, name)
            if isinstance(method, types.FunctionType) and not is_library(method):
                self._function(
                    method, [constant(cls) if name == "__new__" else made, *args], kwargs, rest
                )
        return (
            made
            if not issubclass(cls, tuple | BaseException)
            else joined(made, self.within([*args, *kwargs.values()]))
        )

    def _new(self, cls: type) -> Instance:
        """The instance that is made here: of a class that is made in many places, one for all."""
        known = self._instances
        key: Any = (self.site, id(cls))
        if key not in known:
            places = self._ways[id(cls)] = self._ways.get(id(cls), 0) + 1
            if places > _MAX_PLACES:
                key = id(cls)
        found: Instance = known.setdefault(key, Instance(cls))
        return found

    def _method(self, f: Method, args: list[Value]) -> Value:
        """A method of an array, or of a builtin container."""
        holder, name = f.holder, f.name
        if isinstance(holder, Container):
            return self._of_container(holder, name, args)
        if is_ndarray(holder):
            beside = any(map(is_traced, args))
            if name not in PASSING:
                self.use(Value((holder,)), beside)
            for a in args:
                self.use_all(a, beside)
            return TRACED if beside else Value((holder,) if name in PASSING else ())
        if isinstance(holder, dict) and name in ("get", "__getitem__") and args:
            found = self.item(constant(holder), args[0])
            return joined(found, args[1]) if len(args) > 1 else found._replace(complete=False)
        if name in WRITING:
            self.logs.add(id(holder))
            for kind in ALL_OF:  # `log.append(len(log))`: only to be written
                self.facts.without((kind, id(holder), type(None), None), self._just_before())
            for a in args if name == "update" else args[-1:]:
                self.write(holder, ..., a)
            if name != "setdefault" or not isinstance(holder, dict):
                return NOTHING
            return joined(self.item(constant(holder), args[0])._replace(complete=False), args[-1])
        return self._outside(None, [Value((holder,)), *args], name)

    def _just_before(self) -> Any:
        """Where the call stands whose result is the last argument of this one, if it is a call."""
        before = None
        for i in self.frame.listing.instructions:
            if i.offset >= self.here.offset:
                break
            if i.name not in ("PRECALL", "CACHE"):
                before = i
        return None if before is None else (id(self.frame.listing.code), before.offset)

    def _of_text(self, f: Method, args: list[Value]) -> Value:
        """A method of a text, which shows what it gets."""
        for a in args:
            self.use_all(a)
            self.show(a, whole=True)
        return NOTHING

    def _of_container(self, holder: Container, name: str, args: list[Value]) -> Value:
        """A method of a container that a run makes."""
        if name in WRITING:
            opened = name in ("extend", "update", "extendleft")
            self.grow(holder.hold([self.within([a]) for a in args] if opened else args))
        return holder.contents

    # ------------------------------------------------------------------------------ functions

    def _function(
        self, f: types.FunctionType, args: list[Value], kwargs: dict[str, Value], rest: Any
    ) -> Value:
        """A function of the user's, walked with what it gets."""
        self.facts.add("attribute", f, "__code__", f.__code__, self.site)
        if f.__defaults__:
            self.facts.add("attribute", f, "__defaults__", f.__defaults__, self.site)
        if f.__kwdefaults__:
            self.facts.add("attribute", f, "__kwdefaults__", f.__kwdefaults__, self.site)
            self.facts.whole(f.__kwdefaults__, self.site)
        frame = Frame(f.__code__, f.__globals__, self._is_once())
        frame.cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        defaults = [self.outside(d) for d in f.__defaults__ or ()]
        named = {k: self.outside(v) for k, v in (f.__kwdefaults__ or {}).items()}
        self._parameters(frame, defaults, named, (args, kwargs, rest))
        return self._visit((id(f),), f, frame)

    def visit_here(self, code: types.CodeType) -> Value:
        """What an expression may give that is evaluated where we are."""
        frame = Frame(code, self.frame.globals, self._is_once())
        frame.names = dict(self.frame.names)
        return self._visit((id(code),), code, frame)

    def _visit(self, who: tuple[Any, ...], held: Any, frame: Frame) -> Value:
        """What a function may return, walked with what its parameters hold.

        One that is called in many ways is walked with all that it gets in any of them.
        """
        code = frame.listing.code
        scope = frame.scope()
        key = (*who, *scope, *((n, _identity(v)) for n, v in frame.names.items()))
        known = self._results.get(key)
        if known is not None:
            return self._again(code, known[1])
        if key in self._walking:
            return self._believe(key, self._frames[key])
        if self._depth >= _MAX_DEPTH:
            self._later.append((who, held, frame))
            return NOTHING
        if key not in self._frames:
            ways = self._ways[who] = self._ways.get(who, 0) + 1
            if ways > _MAX_WAYS:
                return self._again(code, self._visit_shared(who, frame))
            self._frames[key] = frame
        frame = self._frames[key]
        given = dict(frame.names)
        result = self._walk_once(key, frame)
        self._results[key] = ((held, given), result)
        return result

    def _walk_once(self, key: Any, frame: Frame) -> Value:
        """Walk a function, which is not walked again where it calls itself."""
        self.passing |= bool(frame.parents) or any(map(_is_changing, frame.names.values()))
        self._walking.add(key)
        self._depth += 1
        result = self._walk(frame)
        self._depth -= 1
        self._walking.discard(key)
        believed = self._believed.get(key)
        self.restless |= believed is not None and not same(believed, result)
        return result

    def _believe(self, key: Any, frame: Frame) -> Value:
        """What a function that calls itself may return, as far as that is known."""
        found = self._believed[key] = (frame.result or NOTHING)._replace(origin=None)
        return found

    def _visit_shared(self, who: tuple[Any, ...], given: Frame) -> Value:
        """What a function may return, walked with what it gets in any of many calls."""
        frame = self._shared.setdefault(who, given)
        frame.shared = True
        frame.join(given)
        if who in self._walking:
            return self._believe(who, frame)
        if frame.seen != frame.state():
            self._walk_once(who, frame)
            frame.seen = frame.state()
        return (frame.result or NOTHING)._replace(origin=None)

    def _again(self, code: types.CodeType, result: Value) -> Value:
        """A function that runs more than once: so do its uses of arrays."""
        for use in self.uses.values():
            if use.code is code:
                use.once = False
        return result

    def _made(self, f: Made, args: list[Value], kwargs: dict[str, Value], rest: Any) -> Value:
        """A function that walked code made."""
        frame = Frame(f.code, f.frame.globals, self._is_once())
        frame.parents = [f.frame]
        defaults = [Value(f.defaults.refs)] * min(len(f.defaults.refs), f.code.co_argcount)
        named = dict.fromkeys(_keyword_names(f.code), f.defaults)
        self._parameters(frame, defaults, named, (args, kwargs, rest))
        self._called.add((id(f.code), id(f.frame)))
        return self._visit((id(f.code),), f, frame)

    def _is_once(self) -> bool:
        frame = self.frame
        if frame is None:
            return True
        return frame.once and self.here.offset not in frame.listing.loops

    def _parameters(
        self, frame: Frame, defaults: list[Value], named: dict[str, Value], given: Any
    ) -> None:
        """Let parameters hold what a call gives."""
        code = frame.listing.code
        args, kwargs, rest = given
        names = code.co_varnames[: code.co_argcount]
        first = len(names) - len(defaults)
        for i, name in enumerate(names):
            default = defaults[i - first] if i >= first else None
            if i < len(args):
                value = args[i]
            elif name in kwargs:
                value = kwargs[name]
            else:
                value = _open(rest, default)
            frame.names[name] = value._replace(origin=None)
        for name in _keyword_names(code):
            value = kwargs[name] if name in kwargs else _open(rest, named.get(name))
            frame.names[name] = value._replace(origin=None)
        n = code.co_argcount + code.co_kwonlyargcount
        over = [*args[code.co_argcount :], *_given(rest)]
        if code.co_flags & 0x04:
            frame.names[code.co_varnames[n]] = self.within(over)
            n += 1
        if code.co_flags & 0x08:
            more = [v for k, v in kwargs.items() if k not in code.co_varnames[:n]]
            frame.names[code.co_varnames[n]] = self.within([*more, *_given(rest)])

    def _walk(self, frame: Frame) -> Value:
        """Go through a function until nothing new is found; what it may return."""
        if self.visits >= _MAX_VISITS:
            self.exhausted = True
            return NOTHING
        before = self.frame, self.here
        self.frame = frame
        self.visits += 1
        frame.number = frame.number or self.visits
        try:
            for _ in range(_MAX_PASSES):
                frame.changed = False
                self.go(frame)
                if not frame.changed or not (frame.listing.loops or frame.made or frame.shared):
                    break
            called = [m for m in frame.made.values() if (id(m.code), id(frame)) not in self._called]
            for made in called:
                self._made(made, [], {}, self.received())
            return (frame.result or NOTHING)._replace(origin=None)
        finally:
            self.frame, self.here = before

    # ------------------------------------------------------------------------------ libraries

    def _outside(self, f: Any, args: list[Value], name: str = "") -> Value:
        """A call of something that is not followed."""
        name = name or getattr(f, "__name__", "")
        ours = f is not None and is_of_ftrace(f)
        self.note_rules(f)
        args = self._shown(f, args)
        traced = ours or (bool(args) and all(a.traced for a in args))
        key = (id(f), traced, tuple([id(x) for a in args for x in a.refs]))
        known = self._escaped.get(key)
        if known is None or known[0] != self.growth:
            inner = self.within(args)
            functions = [*held_functions(f), *users_among(inner.refs)]
            given = inner._replace(traced=traced)
            if ours and not isinstance(f, Held):  # `grad(f, ...)` gives f no function
                given = given._replace(refs=tuple(x for x in inner.refs if not is_users(x)))
            results = [self.assume(g, given) for g in functions]
            known = self._escaped[key] = (self.growth, args, inner, functions, results)
        _, _, inner, functions, results = known
        passing = name in PASSING or (ours and bool(functions))
        beside = any(map(is_traced, args))
        for a in (inner,) if not passing else args[1:] if name in FIRST else ():
            self.use_all(a, beside)
        if not passing or name in ITERATING:
            results = [*results, self.operate(inner.refs, [])]
        given_back = [x for r in results for x in r.refs]  # auxiliary results are as they are
        if beside and f is not None and name not in PLAIN and is_library(owner_of(f)):
            return bag(given_back, traced=True) if ours else TRACED
        if not (passing or functions) and gives_arrays(f):
            return NOTHING
        if ours and functions and not isinstance(f, Held):
            return bag((self._held(functions), *inner.refs, *given_back))._replace(complete=True)
        kept = inner.refs if passing else [x for x in inner.refs if not is_ndarray(x)]
        return bag((*kept, *given_back))

    def _shown(self, f: Any, args: list[Value]) -> list[Value]:
        """What a call of a library gets, with the object whose function it is."""
        if any(f is s for s in _SHOWING):
            for a in args:
                self.show(a)
        me = getattr(f, "__self__", None)
        if (is_ndarray(me) or is_opaque(me)) and f.__name__ not in WRITING:
            return [Value((me,)), *args]
        return [Value((f,)), *args] if f is not None and is_opaque(f) else args

    def assume(self, f: Any, given: Value) -> Value:
        """A callable of the user's is called by somebody, with anything of what is given.

        It is walked at once the first time in a round, unless that is too deep, and once more for
        all that it gets later.
        """
        known = self._assumed.get(id(f))
        if known is None:
            known = self._assumed[id(f)] = Assumed(f)
        new = known.get(given)
        first, known.seen = not known.seen, True
        if first and self._depth < _MAX_NESTED:
            self._follow(known)
            return known.result
        known.relied = True
        if first or new:
            self._due.setdefault(id(f), (known, self.frame, self.here))
        return known.result

    def _follow(self, known: Assumed) -> None:
        """Walk what is assumed to be called, with all that it is known to get by now."""
        before = known.result
        known.result = joined(before, self._assume(known.callable, known.given))
        self.restless |= known.relied and not same(before, known.result)

    def _assume(self, f: Any, given: Value) -> Value:
        if (isinstance(f, types.FunctionType) and is_library(f)) or not is_users(f):
            results = [self.assume(g, given) for g in held_functions(f)]
            return bag(x for r in results for x in r.refs)
        return self._one(f, [], {}, given)

    def _held(self, functions: list[Any]) -> Held:
        """What a transformation makes here, of all functions that it gets here."""
        held = self._instances.setdefault(self.site, Held())
        known = {id(f) for f in held.functions}
        held.functions += tuple(
            f for f in functions if not isinstance(f, Held) and id(f) not in known
        )
        return held

    def operate(
        self, refs: Iterable[Any], others: list[Value], names: Collection[str] | None = None
    ) -> Value:
        """What the special methods of objects of the user's may return; `names`: which ones."""
        alike: dict[Any, list[Any]] = {}  # instances that a run makes are taken together
        found: list[Value] = []
        for ref in refs:
            if isinstance(ref, Instance):
                alike.setdefault(ref.cls, []).append(ref)
            elif type(ref) is tuple:  # a key: its parts are compared
                found.append(self.operate(ref, others, names))
            elif type(ref) in (np.ndarray, *SCALARS) or issubclass(type(ref), _WITHOUT):
                continue
            elif is_opaque(ref):
                found.append(self.within([Value((ref,))]))
                if gives_arrays(type(ref)):
                    self.use(found[-1])
            else:
                alike[id(ref)] = [ref]
        found += [self._special(some, _is_operator, others, names) for some in alike.values()]
        return united(found)

    def _special(self, some: list[Any], wanted: Any, others: list[Value], names: Any) -> Value:
        """What some of the special methods of an object, or of instances of a class, may return."""
        cls = class_of(some[0])
        me, given = Value(tuple(some), complete=True), None
        found: list[Value] = []
        for base in cls.__mro__[:-1]:
            if is_library(base):
                continue
            methods = vars(base)
            for name in methods if names is None else names:
                method: Any = methods.get(name)
                if wanted(name, method):
                    self.note_member(cls.__mro__, name)
                    given = given or self.within(others)
                    found.append(self._function(method, [me], {}, given))
        return bag(x for r in found for x in r.refs) if found else NOTHING

    def show(self, value: Value, whole: bool = False) -> None:
        """A text is made of a value; `whole`: of its attributes, too."""
        for ref in self.within([value]).refs:
            if not (type(ref) in SCALARS or is_ndarray(ref) or isinstance(ref, types.FunctionType)):
                self._special([ref], _is_text, [], None)
        if whole:
            self.attributes(value)

    def go(self, frame: Frame) -> None:
        """One pass over the instructions: `stack.py`."""
        raise NotImplementedError


# what has no operators of the user's
_WITHOUT: Final = (types.FunctionType, *(s for s in STAND_INS if s is not Instance))
_BUILTIN: Final = (types.BuiltinFunctionType, types.FunctionType, type)
_SHOWING: Final = (str, repr, format, print)


def _is_operator(name: str, method: Any) -> bool:
    """Whether it is a special method that the user wrote, and that operators or builtins call."""
    if not (name.startswith("__") and name.endswith("__")) or name in LIFE:
        return False
    return isinstance(method, types.FunctionType) and not is_library(method)


def _is_text(name: str, method: Any) -> bool:
    """Whether it is a special method that the user wrote, and that makes a text."""
    return name in ("__str__", "__repr__", "__format__") and isinstance(method, types.FunctionType)


def _given(rest: Value | None) -> list[Value]:
    return [] if rest is None else [rest]


def _open(rest: Value | None, default: Value | None) -> Value:
    """A parameter that a call may or may not give."""
    if rest is None:
        return default or NOTHING
    return rest if default is None else joined(rest, default)


def _keyword_names(code: types.CodeType) -> tuple[str, ...]:
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def _is_changing(v: Value) -> bool:
    """Whether there may be something that a run makes, and changes."""
    return any(isinstance(x, STAND_INS) for x in v.refs)


def _identity(v: Value) -> Any:
    return (tuple(map(id, v.refs)), *v[1:4])

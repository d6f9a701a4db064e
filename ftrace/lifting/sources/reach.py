"""Which functions a function reaches, as far as names tell, and whether one of them asks.

A function reaches what its names stand for, and the methods, properties and operators, by names
that it or what it reaches uses, of the classes, objects, modules and containers among that. So a
call through an object that some function makes is found: the object's class is named somewhere.
Too many are found rather than too few: that costs lifting, never a wrong value. Functions of other
installed packages are not looked at.
"""

import functools
import itertools
import operator
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ftrace.control.changing import is_changing, may_change
from ftrace.control.drawing import is_source, may_draw
from ftrace.core.closure_cells import is_filled
from ftrace.core.nodes import KINDS
from ftrace.core.trace import Tracer
from ftrace.core.weak import dropping
from ftrace.lifting.sources.asking import (
    asks,
    codes,
    facts,
    is_given_away,
    is_question,
    reads_texts,
    scope_of,
)
from ftrace.lifting.state.outliving import may_write
from ftrace.lifting.state.roots import is_installed, is_unseen

_MANY: Final = 2000  # values that are looked at
_ITEMS: Final = 100  # of a container
_DIRECT: Final = frozenset(
    ("__init__", "__call__", "__new__", "__post_init__", "__instancecheck__")
)
_CONTAINERS: Final = (list, tuple, set, frozenset, deque)
PLAIN: Final = frozenset(
    (
        *(int, float, complex, str, bytes, bool, type(None), np.ndarray, np.dtype, np.ufunc),
        *(types.BuiltinFunctionType, np.float64),
    )
)
"""The types of values that reach nothing."""

Place = tuple[str, str]


def place_of(fn: types.FunctionType) -> Place:
    """The file and the module of a function."""
    return fn.__code__.co_filename, str(fn.__globals__.get("__name__"))


class Asked:
    """Whether a function or those it reaches ask such questions, and where.

    Attributes:
        asks: whether one does.
        places: the places of all that are reached.
        codes: those that ask.
        waits: whether modules are to be imported by the function, which nobody can look into yet.
        implied: whether one that no call names asks, or leads to one that does: a property.
        changes: whether one may change what outlives its call, by what it names.
        draws: whether one may draw random numbers in Python (`control/drawing.py`).
        swallows: whether an error of code that takes plain numbers alone may be caught.
        writes: whether one may overwrite what outlives its call (`outliving.py`).
    """

    __slots__ = (
        "_links",
        "_missing",
        "asks",
        "changes",
        "codes",
        "draws",
        "implied",
        "places",
        "swallows",
        "waits",
        "writes",
    )

    def __init__(self, found: "_Reach", apart_from: Any = None) -> None:
        asking = [f for f in found.functions.values() if asks(f, found.scopes[id(f)])]
        self.swallows = found.swallows()
        self.asks = bool(asking) or self.swallows or found.reads_back()
        self.codes = frozenset(c for f in asking for c in codes(f.__code__))
        self.waits = bool(found.missing)
        self.writes = found.partial or any(map(may_write, found.functions.values()))
        drawing = (may_draw(f) for f in found.functions.values())
        self.draws = found.partial or found.draws or any(drawing)
        changing = (may_change(f) for f in found.functions.values())
        self.changes = found.partial or found.changes or any(changing)
        self._missing = found.missing
        self.implied = self.asks and found.is_implied(asking)
        self.places = frozenset(map(place_of, found.functions.values()))
        self._links = [link for link in found.links if link[0]() is not apart_from]

    def holds(self) -> bool:
        """Whether the names still stand for what they stood for."""
        if self.waits and any(name in sys.modules for name in self._missing):
            return False
        return not self._links or _hold(self._links)


def _hold(links: "Links") -> bool:
    for holder, names in links:
        held = holder()
        if held is None:
            return False
        space = held.__globals__ if type(held) is types.FunctionType else held.__dict__
        for name, value in names:
            now = value()
            if now is None or space.get(name) is not now:
                return False
    return True


Links = list[tuple[Any, list[tuple[str, Any]]]]
"""By holder, both weak: the functions and classes that names stand for."""

_known: dict[Any, tuple[list[Any], Asked]] = {}
"""By the ids of a function, or of a method and its object."""


def asking(fun: Any, given: tuple[Any, ...] = ()) -> Asked:
    """Whether a callable and what it reaches ask such questions: looked up once for each.

    Args:
        fun: the callable.
        given: functions, classes and objects among what it is called with.
    """
    if type(fun) is types.FunctionType and not given:
        latest = _latest.get(id(fun.__code__))
        if latest is not None and latest.is_like(fun) and latest.asked.holds():
            return latest.asked
    while (layer := getattr(fun, "__ftrace__", None)) is not None:
        fun = layer[0]
    if type(fun) is types.FunctionType and not given:
        found = _alike(fun)
        if found is not None:
            return found
    whole = (fun.__func__, fun.__self__) if type(fun) is types.MethodType else (fun,)
    whole += given
    key = tuple(map(id, whole))
    entry = _known.get(key)
    if entry is None or not entry[1].holds():
        found = Asked(_Reach(fun, given))
        try:
            entry = [dropping(x, _known, key) for x in whole], found
        except TypeError:  # of an object without weak references nothing is kept
            return found
        _known[key] = entry
    return entry[1]


class _Like:
    """What is known of a function, and what its names stand for.

    Functions are made anew for each call, as lambdas are: what holds for one holds for another of
    the same code whose names stand for the same. Of plain values the types count, and texts.
    """

    __slots__ = ("_absent", "_cells", "_defaults", "_ids", "_plain", "_read", "_refs", "asked")

    def __init__(self, fn: types.FunctionType, scope: Mapping[str, Any], asked: Asked) -> None:
        code = fn.__code__
        number = id(code)
        self.asked = asked
        names = [n for n in scope if n not in code.co_freevars]
        self._plain = [(n, *_expected(scope[n])) for n in names if type(scope[n]) in PLAIN]
        # the others are compared by their ids: whoever dies takes this along
        names = ["__name__", "__name__", *(n for n in names if type(scope[n]) not in PLAIN)]
        self._read = operator.itemgetter(*names)
        values = self._read(fn.__globals__)
        self._ids = tuple(map(id, values))
        weak = (code, *values[2:])
        self._refs = [
            values[0],
            *(dropping(x, _latest, number) for x in weak),
        ]
        self._cells = [_expected(c.cell_contents) for c in fn.__closure__ or ()]
        self._defaults = [_expected(v) for v in fn.__defaults__ or ()]
        self._absent = facts(code).names - scope.keys() or None

    def is_like(self, fn: types.FunctionType) -> bool:
        """Whether the names of a function of the same code stand for the same."""
        space = fn.__globals__
        try:
            if tuple(map(id, self._read(space))) != self._ids:
                return False
            for name, kind, value in self._plain:
                v = space[name]
                if type(v) is not kind or (value is not None and value() is not v):
                    return False
            if self._cells:
                held = [cell.cell_contents for cell in fn.__closure__ or ()]
                if not _are(held, self._cells):
                    return False
        except (ValueError, KeyError):  # a name that stands for nothing
            return False
        defaults = fn.__defaults__ or ()
        if (defaults or self._defaults) and not _are(defaults, self._defaults):
            return False
        if self._absent is not None and not space.keys().isdisjoint(self._absent):
            return False
        return not fn.__dict__ and fn.__kwdefaults__ is None


def _are(values: Sequence[Any], expected: Sequence[tuple[type, Any]]) -> bool:
    """Whether values are what they were, as far as that counts."""
    if len(values) != len(expected):
        return False
    for v, (kind, value) in zip(values, expected, strict=True):
        if type(v) is not kind or (value is not None and value() is not v):
            return False
    return True


def _expected(value: Any) -> tuple[type, Any]:
    """The type of a value, and where it counts itself, what gives it."""
    kind = type(value)
    if kind is str:
        return kind, lambda: value
    weak = kind not in PLAIN or kind is types.BuiltinFunctionType  # which may be a question
    return kind, weakref.ref(value) if weak else None


_latest: dict[int, _Like] = {}
"""By the id of their code: the functions that were asked about last."""
_shared: dict[Any, tuple[list[Any], Asked]] = {}
"""By code and by what its names stand for."""


def _alike(fn: types.FunctionType) -> Asked | None:
    """What is known of another function of the same code whose names stand for the same."""
    if fn.__dict__ or fn.__kwdefaults__:
        return None
    if not all(map(is_filled, fn.__closure__ or ())):
        return None
    scope = scope_of(fn)
    values = [*scope.values(), *(fn.__defaults__ or ())]
    kept = [fn.__code__, *(v for v in values if type(v) not in PLAIN)]
    if not all(type(v) in _WEAK for v in kept):
        return None
    plain = [
        v if type(v) is str or is_question(v) or is_source(v) else type(v)
        for v in values
        if type(v) in PLAIN
    ]
    key = (*map(id, kept), *place_of(fn), *scope, *plain)
    entry = _shared.get(key)
    if entry is None or not entry[1].holds():
        dead = [dropping(v, _shared, key) for v in kept]
        entry = _shared[key] = dead, Asked(_Reach(fn, ()), apart_from=fn)
    if "__name__" in fn.__globals__:
        _latest[id(fn.__code__)] = _Like(fn, scope, entry[1])
    return entry[1]


_WEAK: Final = frozenset((types.CodeType, types.FunctionType, types.ModuleType, type))


def reached_by(x: Any) -> Iterator[Any]:
    """The functions, objects and classes of nodes among what a function is given."""
    kind = type(x)
    if issubclass(kind, Tracer) or kind in PLAIN:
        return
    if kind in KINDS:
        values = (
            x.values() if issubclass(kind, dict) else x if issubclass(kind, tuple | list) else ()
        )
        if kind.__module__ not in ("builtins", "collections"):
            yield kind
            values = (*values, *_attributes(x)[0].values())
        for part in values:
            if type(part) not in PLAIN:
                yield from reached_by(part)
    elif kind.__module__ == "builtins" or not is_unseen("", str(kind.__module__)):
        yield x


class _Reach:
    """What a callable reaches."""

    def __init__(self, fun: Any, given: tuple[Any, ...]) -> None:
        self.functions: dict[int, types.FunctionType] = {}
        self.scopes: dict[int, dict[str, Any]] = {}
        self.links: Links = []
        self.missing: set[str] = set()  # modules that are imported when the function runs
        self.partial = False  # whether functions were passed over
        self.changes = False  # whether a value that changes by its use is there
        self.draws = False  # whether a generator of random numbers, or a method of one, is there
        self._called: dict[int, set[str]] = {}  # by what names a function was reached
        self._implied: set[int] = set()
        self._names: set[str] = set(_DIRECT)
        self._spaces: list[tuple[Mapping[str, Any], Any]] = []
        self._seen: dict[int, Any] = {}
        self._queue: deque[tuple[Any, str, bool]] = deque([(fun, "", False)])
        root = getattr(fun, "__func__", fun)
        self._package = _package(getattr(root, "__globals__", {}))
        self._queue.extend((x, "", False) for x in given)
        while self._queue and len(self._seen) < _MANY:
            self._take(*self._queue.popleft())
        self.partial |= bool(self._queue)

    def is_implied(self, asking: list[types.FunctionType]) -> bool:
        """Whether a method that no call names asks, or reaches by name one that does."""
        if any(facts(f.__code__).defines for f in asking):
            return True
        if any(not _GETTERS.isdisjoint(facts(f.__code__).names) for f in self.functions.values()):
            return True
        leading = set(map(id, asking))
        names: set[str] = set().union(*(self._called[n] for n in leading))
        before = -1
        while before != len(leading):
            before = len(leading)
            for number, fn in self.functions.items():
                if number not in leading and not names.isdisjoint(facts(fn.__code__).names):
                    leading.add(number)
                    names |= self._called[number]
        return not leading.isdisjoint(self._implied)

    def swallows(self) -> bool:
        """Whether an error of code that takes plain numbers alone may be caught."""
        functions = self.functions.values()
        return any(facts(f.__code__).catches for f in functions) and any(
            is_given_away(f, self.scopes[id(f)]) for f in functions
        )

    def reads_back(self) -> bool:
        """Whether a text may be made of a value, and a number read out of it by what cannot ask."""
        functions = self.functions.values()
        return any(facts(f.__code__).formats for f in functions) and any(
            reads_texts(f, self.scopes[id(f)]) for f in functions
        )

    def _take(self, x: Any, name: str, implied: bool) -> None:
        kind = type(x)
        self.draws = self.draws or is_source(x)
        self.changes = self.changes or is_changing(x)
        if kind in PLAIN:
            return
        if kind is types.FunctionType:
            self._called.setdefault(id(x), set()).add(name)
            if implied:
                self._implied.add(id(x))
        if id(x) in self._seen:
            return
        self._seen[id(x)] = x
        if kind is types.FunctionType:
            self._function(x, name)
        elif kind in _PARTS or issubclass(kind, functools.partial):
            self._queue.extend((part, name, implied or hidden) for part, hidden in _parts(x))
        else:
            self._holder(x, name)

    def _holder(self, x: Any, name: str) -> None:
        """A module, a class or an object."""
        kind = type(x)
        if kind is types.ModuleType:
            if not is_unseen(vars(x).get("__file__") or "", x.__name__):
                self._space(vars(x), x)
        elif issubclass(kind, type):
            self._queue.append((kind, name, False))
            for cls in x.__mro__:
                if cls.__module__ != "builtins" and not is_unseen("", str(cls.__module__)):
                    self._space(vars(cls), None)
        else:
            own, changing = _attributes(x)
            self._queue.append((kind, name, False))
            self._queue.extend((v, name, False) for v in _wrapped(own))
            self._space(own, x if changing else None)

    def _function(self, fn: types.FunctionType, name: str) -> None:
        self._queue.extend((v, name, False) for v in _wrapped(fn.__dict__))
        file, module = place_of(fn)
        if is_unseen(file, module):  # perhaps a decorator
            held = (cell.cell_contents for cell in fn.__closure__ or () if is_filled(cell))
            self._queue.extend((v, name, False) for v in held if type(v) in _DECORATED)
            return
        if is_installed(file) and _package(fn.__globals__) != self._package:
            self.partial = True
            return
        self.functions[id(fn)] = fn
        scope = self.scopes[id(fn)] = scope_of(fn)
        self._queue.extend((value, name, False) for name, value in scope.items())
        defaults = *(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()
        self._queue.extend((value, "", False) for value in defaults)
        self._link(fn, [n for n in scope if n in fn.__globals__], fn.__globals__)
        for module in facts(fn.__code__).modules:
            self.missing |= {module} - sys.modules.keys()
            self._queue.append((sys.modules.get(module), module, False))
        new = facts(fn.__code__).names - self._names
        self._names |= new
        for space, holder in self._spaces:
            self._members(space, new, holder)

    def _space(self, space: Mapping[str, Any], holder: Any) -> None:
        self._spaces.append((space, holder))
        self._members(space, self._names, holder)

    def _members(self, space: Mapping[str, Any], names: Iterable[str], holder: Any) -> None:
        """What a namespace holds under names that are used."""
        found = [name for name in names if name in space]
        for name in found:
            special = name.startswith("__") and name.endswith("__") and name not in _DIRECT
            self._queue.append((space[name], name, special))
        if holder is not None:
            self._link(holder, found, space)

    def _link(self, holder: Any, names: list[str], space: Mapping[str, Any]) -> None:
        """Names that may stand for something else later."""
        values = [(n, space[n]) for n in names if type(space[n]) in _REBOUND]
        if values:
            self.links.append((weakref.ref(holder), [(n, weakref.ref(v)) for n, v in values]))


_GETTERS: Final = frozenset(("attrgetter", "methodcaller"))
_DECORATED: Final = (types.FunctionType, dict)
_REBOUND: Final = (types.FunctionType, type)
_PARTS: Final = frozenset(
    (
        *(dict, *_CONTAINERS, property, functools.cached_property),
        *(types.MethodType, staticmethod, classmethod, np.vectorize),
    )
)


def _package(space: Mapping[str, Any]) -> str:
    return str(space.get("__name__")).partition(".")[0]


def _wrapped(attributes: Mapping[str, Any]) -> Iterator[Any]:
    """What a wrapper of ftrace, or of `functools.wraps`, is made around."""
    if "__wrapped__" in attributes:
        yield attributes["__wrapped__"]
    if "__ftrace__" in attributes:
        yield attributes["__ftrace__"][0]


def _parts(x: Any) -> Iterator[tuple[Any, bool]]:
    """What an object may call, and whether without a call that names it."""
    kind = type(x)
    if kind is dict or kind in _CONTAINERS:
        values = x.values() if kind is dict else x
        yield from ((v, False) for v in itertools.islice(values, _ITEMS))
    elif kind is property:
        yield from ((f, True) for f in (x.fget, x.fset, x.fdel))
    elif kind is functools.cached_property:
        yield x.func, True
    elif kind is types.MethodType or kind is staticmethod or kind is classmethod:
        yield x.__func__, False
        yield getattr(x, "__self__", None), False
    elif kind is np.vectorize:
        yield x.pyfunc, False
    else:  # a partial
        yield from ((v, False) for v in (x.func, *x.args, *x.keywords.values()))


def _attributes(x: Any) -> tuple[Mapping[str, Any], bool]:
    """The attributes of an object, and whether that is the dict that changes with them."""
    try:
        return object.__getattribute__(x, "__dict__"), type(x).__weakrefoffset__ != 0
    except AttributeError:
        slots = (n for cls in type(x).__mro__ for n in cls.__dict__.get("__slots__", ()))
        return {n: getattr(x, n) for n in slots if hasattr(x, n)}, False

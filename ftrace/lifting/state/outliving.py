"""State that outlives a trace: variables, items and attributes that a function overwrites.

A function that is traced runs once, whatever its values are. Where it leaves a traced value in the
place of one that was there before (`total[0] = total[0] + x`, `nonlocal c`), the members of a batch
and the calls of compiled code would each have to see what the last one left, and none does. So
what was there is put back, and the place is named. Lists that grow and variables that were
None are left alone: who uses such a value later is told so.
"""

import dis
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.avals import SCALAR_AVALS
from ftrace.core.closure_cells import content
from ftrace.core.errors import LiftError, UnexpectedTracerError
from ftrace.core.trace import Tracer
from ftrace.core.weak import dropping
from ftrace.interpreters.captures import COPY_LIMIT
from ftrace.lifting.state.roots import innermost, is_unseen

_MOST: Final = 2_000  # places that are looked at
_NAMING: Final = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL")
_WRITING: Final = ("STORE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "STORE_DEREF")


class OutlivingPlace(NamedTuple):
    """A place outside of a function that held a value before it was traced."""

    path: str
    read: Callable[[], Any]
    write: Callable[[Any], None]
    before: Any
    content: bytes | None = None  # of a small array


class Outliving:
    """The places that a function, and those it names, may overwrite; None if it writes none."""

    __slots__ = ("_name", "_places")

    def __init__(self, functions: list[types.FunctionType]) -> None:
        self._name = functions[0].__qualname__
        self._places = list(_places(functions))

    @classmethod
    def of(cls, fun: Any) -> "Outliving | None":
        """Of what is transformed."""
        root = innermost(fun)
        if root is None:
            return None
        functions = _functions(root)
        if functions is None:
            return None
        found = cls(functions)
        owner = getattr(fun, "__self__", None)
        if hasattr(owner, "__dict__"):
            found._places += _items("self", owner)
        return found

    def check_members(self, matters: bool = False) -> None:
        """Put back whatever was overwritten, by values that are not traced, too.

        Args:
            matters: whether values that are not traced are known to make a difference, too.

        Raises:
            LiftError: something was: each member should have seen what the one before it left.
        """
        changed = [p for p in self._places if _is_changed(p)]
        if not (matters or any(isinstance(_value(p), Tracer) for p in changed)):
            return
        for place in changed:
            if place.content is not None:
                a = place.before
                a[...] = np.frombuffer(place.content, a.dtype).reshape(a.shape)
            place.write(place.before)
        if changed:
            raise LiftError(
                f"{self._name} overwrites `{changed[0].path}`, which outlives the call: every "
                "element would have to see what the element before it has left there.",
                "Compute one element from its arguments alone; for elements one after the other "
                "there is ftrace.lax.scan.",
            )

    def restore(self) -> list[str]:
        """Put back what was overwritten by values of traces that have ended; where that was."""
        lost: list[str] = []
        for place in self._places:
            now = _value(place)
            if isinstance(now, Tracer) and not now.owner.alive:
                place.write(place.before)
                lost.append(place.path)
        return lost

    def check(self) -> None:
        """The same after a function has been traced.

        Raises:
            UnexpectedTracerError: something was overwritten.
        """
        lost = self.restore()
        if lost:
            raise UnexpectedTracerError(
                f"{self._name} overwrites {', '.join(f'`{p}`' for p in lost[:3])}, which outlives "
                "the call, with a traced value: a traced function runs once, so that neither the "
                "next member of a batch nor the next call would see it. What was there is back.",
                "Take the state as an argument and return the new one (for members one after the "
                "other: ftrace.lax.scan).",
            )


def _value(place: OutlivingPlace) -> Any:
    try:
        return place.read()
    except (LookupError, AttributeError, ValueError):
        return None


def _is_changed(place: OutlivingPlace) -> bool:
    now, before = _value(place), place.before
    if now is before:
        return place.content is not None and place.content != now.tobytes()
    return type(now) is not type(before) or type(now) not in SCALAR_AVALS or now != before


def _content(x: Any) -> bytes | None:
    small = type(x) is np.ndarray and x.nbytes <= COPY_LIMIT and x.flags.writeable
    return x.tobytes() if small else None


class _Facts(NamedTuple):
    """What code, and that inside it, may do to what outlives its call."""

    writes: bool
    names: frozenset[str]


_known: Final[dict[int, tuple[Any, _Facts]]] = {}  # by the id of code: hashing it takes longer


def _facts(code: types.CodeType) -> _Facts:
    key = id(code)
    known = _known.get(key)
    if known is None:
        known = _known[key] = dropping(code, _known, key), _found(code)
    return known[1]


def _found(code: types.CodeType) -> _Facts:
    inner = [_facts(c) for c in code.co_consts if type(c) is types.CodeType]
    writes, names = any(f.writes for f in inner), set[str]()
    for i in dis.get_instructions(code):
        if i.opname in _WRITING and (i.opname != "STORE_DEREF" or i.argval in code.co_freevars):
            writes = True
        if i.opname in _NAMING:
            names.add(i.argval)
    return _Facts(writes, frozenset(names).union(*(f.names for f in inner)))


def _outer(fn: types.FunctionType) -> Iterator[OutlivingPlace]:
    """The variables outside of a function that it names."""
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        yield OutlivingPlace(
            name,
            lambda c=cell: c.cell_contents,
            lambda v, c=cell: setattr(c, "cell_contents", v),
            value,
        )
    scope = fn.__globals__
    for name in _facts(fn.__code__).names:
        if name in scope:
            yield _entry(name, scope, name)


def _entry(path: str, holder: Any, key: Any) -> OutlivingPlace:
    return OutlivingPlace(
        path, lambda: holder[key], lambda v: holder.__setitem__(key, v), holder[key]
    )


def _items(path: str, x: Any) -> Iterator[OutlivingPlace]:
    """The items or attributes of an object."""
    if type(x) is list:
        yield from (_entry(f"{path}[{i}]", x, i) for i in range(len(x)))
    elif type(x) is dict:
        yield from (_entry(f"{path}[{k!r}]", x, k) for k in list(x))
    elif _has_dict(x) and not issubclass(type(x), _OPAQUE):
        for name in list(vars(x)):
            yield OutlivingPlace(
                f"{path}.{name}",
                lambda n=name: getattr(x, n),
                lambda v, n=name: setattr(x, n, v),
                vars(x)[name],
            )


_OPAQUE: Final = (type, types.ModuleType, types.FunctionType, Tracer)


def may_write(fn: types.FunctionType) -> bool:
    """Whether a function has instructions that overwrite what outlives its call."""
    return _facts(fn.__code__).writes


@lru_cache(4096)
def _never_users(file: str, module: Any) -> bool:
    return is_unseen(file, str(module))


def _functions(root: types.FunctionType) -> list[types.FunctionType] | None:
    """A function and those that it names, and so on: the user's own; None if none writes."""
    found: list[types.FunctionType] = []
    seen: set[int] = set()
    queue = [root]
    writes = False
    for fn in queue:
        code, scope = fn.__code__, fn.__globals__
        if id(fn) in seen or _never_users(code.co_filename, scope.get("__name__")):
            continue
        if len(found) == _MOST:
            break
        seen.add(id(fn))
        found.append(fn)
        facts = _facts(code)
        writes = writes or facts.writes
        values = [scope[name] for name in facts.names if name in scope]
        for value in [*values, *map(content, fn.__closure__)] if fn.__closure__ else values:
            kind = type(value)
            if kind is types.FunctionType:
                queue.append(value)
            elif kind is not types.ModuleType:
                queue += _methods(value)
    return found if writes else None


def _has_dict(x: Any) -> bool:
    return issubclass(type(getattr(x, "__dict__", None)), dict)


def _methods(x: Any) -> list[types.FunctionType]:
    """The methods of an object of a class written in Python."""
    if issubclass(type(x), _OPAQUE) or not _has_dict(x):
        return []
    return [m for m in vars(type(x)).values() if type(m) is types.FunctionType]


def _places(functions: list[types.FunctionType]) -> Iterator[OutlivingPlace]:
    """The places that may be overwritten: those that hold None, or nothing yet, are none."""
    seen: set[int] = set()
    queue = [place for fn in functions for place in _outer(fn)]
    while queue and len(seen) < _MOST:
        place = queue.pop()
        value = place.before
        kind = type(value)
        if kind is types.ModuleType or kind is types.FunctionType:  # nothing is looked at inside
            yield place
            continue
        if value is not None and not issubclass(kind, Tracer):
            content = _content(value)
            yield place if content is None else place._replace(content=content)
        if id(value) not in seen:
            seen.add(id(value))
            queue += _items(place.path, value)

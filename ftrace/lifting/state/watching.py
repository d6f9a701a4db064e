"""What a staged region may not change: containers, objects and plain arrays of its surroundings.

A region is staged whatever the condition is, so that what it does to them would happen in any
case. Plain arrays are read-only meanwhile; containers and objects are compared before and after.
"""

import functools
import sys
import sysconfig
import types
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any

import numpy as np

from ftrace.control.drawing import (
    REGIONS,
    drawn_once,
    may_draw,
    names_draw,
    state,
)
from ftrace.core import source
from ftrace.core.errors import FtraceError, LiftError, MutationError
from ftrace.core.generators import is_generator, shared
from ftrace.core.nodes import kind_of
from ftrace.core.trace import Tracer, ctx
from ftrace.core.tree import PyTreeDef
from ftrace.interpreters.captures import digest, is_read_only
from ftrace.lifting.state.changed_places import (
    HeldPlace,
    Moved,
    PlaceName,
    changed_places,
    fields,
    put_back,
)
from ftrace.lifting.state.local_state import LocalFrame
from ftrace.lifting.state.names import outer_names

_MOST = 20_000  # objects that are looked at
_LONG = 2_000  # the items of longer containers are not looked into
_LIBRARIES = (source.PACKAGE, *(sysconfig.get_path(p) for p in ("stdlib", "purelib", "platlib")))
_held: set[int] = set()  # ids of the arrays that are read-only while a region is staged
_OPAQUE = (str, bytes, int, float, complex, types.ModuleType, type(None), Tracer)


class RegionWatch:
    """The objects that the state of a frame reaches; its own cells are looked after elsewhere.

    Args:
        frame: the frame.
        read: the names that somebody else reads, or will read; None: perhaps all. What only other
            names show may be advanced, if it is an iterator: nobody goes on with it.
    """

    __slots__ = ("_around", "_arrays", "_before", "_chosen", "is_complete")

    def __init__(self, frame: LocalFrame, read: Set[str] | None = None, most: int = _MOST) -> None:
        self._before: list[tuple[str, Any, Any]] = []
        self._arrays: list[tuple[str, Any]] = []
        self._around: list[tuple[str, Any]] = []  # read-only already, by a region around
        seen = set(map(id, frame.cells.values()))
        states = [(n, x, _is_unread(n, read)) for n, x in frame.state.items()]
        queue = sorted(states, key=lambda one: not one[2])  # taken from the end: what is read first
        common = shared() if names_draw(frame.names()) else ()
        queue += [(n, x, False) for n, x in (*frame.outer(), *common)]
        while queue and len(seen) < most:
            path, x, unread = queue.pop()
            if id(x) in seen or _is_opaque(x) or (unread and isinstance(x, Iterator)):
                continue
            seen.add(id(x))
            if issubclass(type(x), np.ndarray):
                if x.flags.writeable:
                    self._arrays.append((path, x))
                elif id(x) in _held:
                    self._around.append((path, x))
                continue
            content = held_by(x)
            if content is not None:
                if not isinstance(x, tuple):
                    self._before.append((path, x, content))
                if len(content) < _LONG:
                    queue.extend((*part, unread) for part in _parts(path, x, content))
        self.is_complete = not queue

    @contextmanager
    def unchanged(self) -> Generator[None]:
        """Undo what is changed meanwhile, and tell.

        Raises:
            Moved: items and attributes were changed, which may be variables.
            LiftError: something else was.
        """
        self._chosen = len(ctx.chosen or ())
        for _, array in self._arrays:
            array.flags.writeable = False
            _held.add(id(array))
        failed: BaseException | None = None
        try:
            yield
        except BaseException as error:
            failed = error
        # A view may be written only after the array that it shows.
        for _, array in sorted(self._arrays, key=lambda held: held[1].base is not None):
            array.flags.writeable = True
            _held.discard(id(array))
        _leave_chosen(self._chosen)
        if failed is not None and not self._is_users(failed):
            self._put_back(self._changes())
            raise failed
        changes = list(self._changes())
        if changes:
            places = self._places(changes)
            self._put_back(changes)
            path, x, _ = changes[0]
            raise Moved(places, lambda: _changed(path, x))
        if failed is not None:
            raise failed

    def _is_users(self, error: BaseException) -> bool:
        """Whether a region ends by an error of the user's: what it changed before counts.

        Raises:
            LiftError: the error is that a plain array was written.
        """
        if (self._arrays or self._around) and _is_of_held(error):
            held = [path for path, _ in (*self._arrays, *self._around)]
            raise _written(held[0] if len(held) == 1 else "", error) from error
        return isinstance(error, Exception) and not isinstance(error, FtraceError)

    def check(self) -> None:
        """Raise `MutationError` if what the region chose was written in it since."""
        check_chosen((ctx.chosen or [])[self._chosen :])

    def _changes(self) -> Iterator[tuple[str, Any, Any]]:
        """What was changed: its path, itself, and what it held."""
        for path, x, before in self._before:
            now = held_by(x)
            if now is None or not _same(before, now):
                yield path, x, before

    @staticmethod
    def _places(changes: list[tuple[str, Any, Any]]) -> list[HeldPlace]:
        places: list[HeldPlace] = []
        for path, x, before in changes:
            found = None if is_generator(x) else changed_places(path, x, before)
            if not found:
                raise _changed(path, x)
            places += found
        return places

    def undo(self) -> None:
        """Let containers and objects hold what they held.

        Raises:
            LiftError: something was changed that cannot be put back.
        """
        self._put_back(self._changes())
        for path, x, _ in self._changes():
            raise _changed(path, x)

    @staticmethod
    def _put_back(changes: Iterable[tuple[str, Any, Any]]) -> None:
        for _, x, before in list(changes):
            if isinstance(x, list | deque | dict | types.CellType) or fields(x) is not None:
                put_back(x, before)

    def contents(self) -> list[tuple[Any, Any]]:
        """The plain arrays, and what they hold."""
        return [(array, array.copy()) for _, array in self._arrays]


def refuse_held(error: BaseException | None) -> None:
    """Raise `LiftError` if an error, which a handler takes, is a write into a region's array.

    NumPy's error is no user's: the array is read-only only while the region is staged.
    """
    if _held and _is_of_held(error):
        raise _written("", error) from error


def _is_of_held(error: BaseException | None) -> bool:
    text = str(error) if isinstance(error, (ValueError, TypeError)) else ""
    return "read-only" in text or "writable" in text


def _written(name: str, error: Any) -> LiftError:
    what = f"`{name}`" if name else "A plain array from outside"
    return LiftError(
        f"{what} is written where a traced value decides whether that happens.",
        "Make it with ftrace.numpy (fnp.zeros, fnp.array(x)), whose writes are traced, or write to "
        "a copy.",
        place=source.raised_at(error),
    )


def note_chosen(x: Any) -> None:
    """Remember what a plain array or a container holds that a decision of traced values chose from.

    What is decided has its elements as they are now; the side itself may still be written.
    """
    if type(x) is np.ndarray:
        _note(x, None if is_read_only(x) else digest(x))
    elif not _is_opaque(x):
        content = held_by(x)
        if not isinstance(x, tuple):
            _note(x, content)
        for inner in content or ():
            if isinstance(inner, tuple | list | dict) and inner is not x:
                note_chosen(inner)


def put_together(tree: PyTreeDef, leaves: Iterable[Any], sides: Iterable[Any]) -> Any:
    """A container whose leaves a traced index chooses: it must not be changed in Python's way.

    It would have to be one of several that are there already, and what is changed in it theirs.

    Args:
        tree: its structure.
        leaves: its leaves.
        sides: the containers that it may be, which must not be changed either; none if nobody
            reads it later.
    """
    made = tree.unflatten(leaves)
    left = [made]
    while left:
        x = left.pop()
        kind = kind_of(type(x))
        if kind is not None:
            if not isinstance(x, tuple):
                _note(x, held_by(x))
            left += kind.flatten(x)[0]
    for x in sides:
        if kind_of(type(x)) is not None:
            note_chosen(x)
    return made


def _note(x: Any, before: Any) -> None:
    if before is not None:
        if ctx.chosen is None:
            ctx.chosen = []
        ctx.chosen.append((x, before))


def check_chosen(chosen: list[tuple[Any, Any]]) -> None:
    """Raise if one of them was written since: whoever is that object would have to change, too.

    Raises:
        MutationError: it was.
    """
    for x, before in chosen:
        if type(x) is np.ndarray:
            if digest(x) != before:
                raise MutationError(
                    f"A plain array of shape {x.shape} was written after a decision of traced "
                    "values had made it one of two arrays: which of these the write reaches is not "
                    "known.",
                    "Make it with ftrace.numpy (fnp.zeros, fnp.array), whose writes are traced, or "
                    "use `array.copy()` in the decision.",
                )
        elif not _same(held_by(x) or (), before or ()):
            raise MutationError(
                f"A {type(x).__name__} was changed after a decision of traced values had made it "
                "one of two or more: which of these the change reaches is not known.",
                "Choose what they hold (`a = p['k'] if c else q['k']`), or decide between copies; "
                "instead of `xs[i].v = y` with a traced i loop over xs and decide by `if i == k`.",
            )


def are_bound(sides: Sequence[Any], values: Iterable[Any]) -> bool:
    """Whether something shows one of these containers, by itself or within another one."""
    ids = set(map(id, sides))
    return any(id(x) in ids or not ids.isdisjoint(map(id, held_by(x) or ())) for x in values)


def _leave_chosen(first: int) -> None:
    """Forget the containers that a region chose from: they are remembered anew where they show."""
    chosen = ctx.chosen or []
    chosen[first:] = [(x, before) for x, before in chosen[first:] if type(x) is np.ndarray]


def held_by(x: Any) -> Any:
    """What an object holds, to be compared by identity; None if that is not looked at."""
    if isinstance(x, list | tuple | deque):
        return tuple(x)
    if isinstance(x, dict):
        return (*x.keys(), *x.values())
    if isinstance(x, Iterator) and (place := _position(x)) is not None:
        return place
    if isinstance(x, set | bytearray):
        return tuple(sorted(map(id, x))) if isinstance(x, set) else tuple(x)
    if is_generator(x):
        return (hash(state(x)),)
    if isinstance(x, _HOLDING):
        return _held_by(x)
    held = None if isinstance(x, type) and not _is_users(x) else fields(x)
    return None if held is None else (*held.keys(), *held.values())


_HOLDING = (
    *(types.FunctionType, types.MethodType, types.BuiltinFunctionType),
    *(functools.partial, types.CellType),
)


def _held_by(x: Any) -> Any:
    """What a cell or a callable holds."""
    if isinstance(x, types.FunctionType):
        if x.__code__.co_filename.startswith(_LIBRARIES):
            return None
        return (*(x.__closure__ or ()), *vars(x).values())
    if isinstance(x, types.CellType):
        return _cell(x)
    if isinstance(x, functools.partial):
        return (x.func, x.args, x.keywords)
    return (x.__self__, getattr(x, "__func__", None))


def _is_unread(name: str, read: Set[str] | None) -> bool:
    return read is not None and name not in read and not isinstance(name, PlaceName)


def _is_opaque(x: Any) -> bool:
    return isinstance(x, _OPAQUE) or (isinstance(x, type) and not _is_users(x))


def _is_users(cls: type) -> bool:
    """Whether a class is written in the user's code."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    return cls.__module__ == "__main__" or (file is not None and not file.startswith(_LIBRARIES))


def _position(x: Iterator[Any]) -> Any:
    """How far an iterator of Python's own, or a generator, has come; None if it does not say."""
    if isinstance(x, types.GeneratorType):
        frame = x.gi_frame
        return () if frame is None else (frame.f_lasti, *frame.f_locals.values())
    if type(x).__module__ not in ("builtins", "itertools", "collections", "_collections"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that iterators are not to be pickled much longer
        try:
            return tuple(_flat(x.__reduce__()))
        except TypeError:
            return None


def _flat(x: Any) -> Iterator[Any]:
    """What an iterator says of itself, without the containers made for that."""
    if isinstance(x, tuple | list):
        yield len(x)
        for v in x[:_LONG]:
            yield from _flat(v)
    elif isinstance(x, range):
        yield from (x.start, x.stop, x.step)
    else:
        yield x


def _cell(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _parts(path: str, x: Any, content: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(x, list | tuple | deque):
        yield from ((f"{path}[{i}]", v) for i, v in enumerate(x))
    elif isinstance(x, dict):
        yield from ((f"{path}[{k!r}]", v) for k, v in x.items())
    elif isinstance(x, types.FunctionType):
        yield from zip(x.__code__.co_freevars, content, strict=False)
        scope = x.__globals__
        yield from ((n, scope[n]) for n in outer_names(x.__code__) if n in scope)
        yield from shared() if may_draw(x) else ()
    elif isinstance(x, (Iterator, *_HOLDING)):
        yield from ((path, v) for v in content)
    elif not (isinstance(x, set | bytearray) or is_generator(x)):
        n = len(content) // 2
        yield from ((f"{path}.{k}", v) for k, v in zip(content[:n], content[n:], strict=True))
        if isinstance(x, type):
            yield from ((path, method) for method in _methods(x))
        else:
            yield type(x).__name__, type(x)


def _methods(cls: type) -> Iterator[types.FunctionType]:
    """The functions of a class of the user's, which may change what they name."""
    for base in filter(_is_users, cls.__mro__):
        for v in vars(base).values():
            held = (v.fget, v.fset, v.fdel) if isinstance(v, property) else (v,)
            functions = (getattr(f, "__func__", getattr(f, "func", f)) for f in held)
            yield from (f for f in functions if isinstance(f, types.FunctionType))


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(
        x is y or (type(x) is type(y) is int and x == y) for x, y in zip(a, b, strict=True)
    )


def _changed(path: str, x: Any) -> LiftError:
    if is_generator(x):
        return drawn_once(path, REGIONS)
    if isinstance(x, types.CellType):
        what = f"The variable `{path}` of another function"
        fix = "Return the new value instead."
    elif isinstance(x, Iterator) and not hasattr(x, "__dict__"):
        what = f"`{path}`, an iterator from outside,"
        fix = "Take the items before the decision (`items = list(...)`), and index what you need."
    elif isinstance(x, list | dict | set | bytearray | deque):
        what = f"`{path}`, a {type(x).__name__} from outside,"
        fix = (
            f"Bind a new one (`{path.split('[')[0].split('.')[0]} = [*old, new]`), or use an array."
        )
    else:
        what = f"An attribute of `{path}`"
        fix = "Compute the value in a local variable, and assign the attribute afterwards."
    return LiftError(
        f"{what} is changed where a traced value decides whether that happens: while tracing, it "
        "happens in any case.",
        fix,
    )

"""Guards: does a trace still say what the user's function does?

`Watch(fun)` reads before a trace what the function will read from outside (`reading.py`), with the
contents of arrays; after the trace `guard()` makes of it one expression, which every later call
evaluates. Arrays that the trace uses as operands are read by reference at every run: writing into
them needs no guard. Contents are compared only of those that Python itself read (`K[0]`,
`K.sum()`), up to 64 MiB; above that a warning says that a change would not be seen.
"""

import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ftrace.control.freshness import combining as combining
from ftrace.control.freshness.bytecode import position
from ftrace.control.freshness.facts import COMPARED, content, held
from ftrace.control.freshness.reading import Use
from ftrace.control.freshness.stack import Reader
from ftrace.control.freshness.values import Value, is_library, is_ndarray
from ftrace.core.device import is_array
from ftrace.core.errors import FreshnessWarning
from ftrace.core.source import warn
from ftrace.core.trace import Tracer
from ftrace.interpreters.captures import owner

_MAX_WALKS = 6


class Watch:
    """What a function reads from outside, found before it is traced.

    Args:
        fun: what is traced, with its wrappers.
        known: objects that are among its arguments as they are.
        most: bytes of the largest array whose content is compared.

    Attributes:
        moved: whether the run put another list in the place of one that it appends to.
    """

    __slots__ = ("_fun", "_reader", "moved")

    def __init__(
        self, fun: Callable[..., Any], known: Sequence[Any] = (), most: int = COMPARED
    ) -> None:
        self._fun = fun
        given = Value(tuple(known), traced=True, bag=True)
        reader = Reader(most)
        reader.start(fun, given)
        for _ in range(_MAX_WALKS):
            if not reader.grown:
                break
            before, reader = reader, Reader(most)
            reader.follow(before)
            reader.start(fun, given)
        if reader.exhausted:
            _warn(fun)
        self._reader = reader
        self.moved = False

    def guard(self, operands: Iterable[Any], captured: Iterable[Any] = ()) -> Any:
        """A function that tells whether all is as it was; None if there is nothing to test.

        Args:
            operands: (id of the owner, code, instruction) of the arrays that equations read.
            captured: arrays that the trace reads by reference.
        """
        noted = {(number, position(*place)) for number, place in operands if place is not None}
        layouts = [a for a in captured if is_ndarray(a)]
        root = _root(self._fun)
        weak = () if root is None else (root,)
        read = self._read(noted)
        for a in read:
            if id(a) not in self._reader.before:
                _warn_of_content(self._fun, self._name(a), a)
        test = self._test(weak, (), self._contents(read), layouts)
        # What the function itself changes, the next run is to change again, even from where it was
        return test if test is None or test() else _never

    def _test(
        self, weak: Iterable[Any], given: Iterable[Any], contents: Any, captured: Any = ()
    ) -> Any:
        reader = self._reader
        self.moved = reader.facts.renew(reader.logs)
        layouts = reader.arrays | {id(a): a for a in captured}
        return reader.facts.guard(weak, given, layouts.values(), contents)

    def _read(self, noted: Iterable[Any] = ()) -> list[Any]:
        """Arrays that Python reads."""
        uses = self._reader.uses.values()
        return list({id(u.array): u.array for u in uses if not _by_reference(u, noted)}.values())

    def _contents(self, arrays: Iterable[Any]) -> list[tuple[Any, bytearray]]:
        """These, with what they held, but for those that are too large."""
        before = self._reader.before
        return [(a, held(a, before[id(a)])) for a in arrays if id(a) in before]

    def _name(self, array: Any) -> str:
        """A word for an array."""
        found = (name for name, a in self.names({}) if is_ndarray(a) and owner(a) is owner(array))
        return next(found, "")

    def unchanged(self, weak: Iterable[Any], given: Iterable[Any]) -> Callable[[], bool] | None:
        """A function that tells whether all is as it was; None if it is not.

        Args:
            weak: objects that it does not keep alive.
            given: objects whose content is not asked.
        """
        test = self._test(weak, given, self._contents(self._read())) or _always
        return test if test() else None

    def snapshot(self) -> "Snapshot":
        """What the function can change, as it is now."""
        return Snapshot(self._reader)

    def changed(self) -> str:
        """Words for what is no longer as it was."""
        return next(self._reader.facts.changed(), "an array")

    def lasting(self, weak: Iterable[Any], given: Iterable[Any]) -> Callable[[], bool]:
        """The same, about what is as it was."""
        self._reader.facts.settle()
        contents = [(a, b) for a, b in self._contents(self._read()) if content(a) == b]
        return self._test(weak, given, contents) or _always

    def names(self, known: dict[int, str]) -> Iterable[tuple[str, Any]]:
        """What is read, by words for it; `known` are words for where reading begins."""
        return self._reader.facts.names(known)


class Snapshot:
    """Arrays, containers, attributes and variables that a walk has found, as they are now."""

    __slots__ = ("_arrays", "_held", "_variables")

    def __init__(self, reader: Reader) -> None:
        writable = (a for a in reader.arrays.values() if is_ndarray(a) and a.flags.writeable)
        self._arrays = [(a, a.copy()) for a in writable]
        self._variables: list[tuple[str, Any, Any, Any]] = []
        held: dict[int, Any] = {}
        for kind, holder, key, value in reader.facts.places():
            if kind in ("name", "cell"):
                self._variables.append((kind, holder, key, value))
            held |= {id(x): x for x in (holder, value)}
        contents = ((x, _held_by(x)) for x in held.values())
        self._held = [(x, content) for x, content in contents if content is not None]

    def restore(self) -> None:
        """Let all of it be so again."""
        for array, before in self._arrays:
            if array.tobytes() != before.tobytes():
                array[...] = before
        for x, before in self._held:
            if not _alike(_held_by(x), before):
                _hold(x, before)
        for kind, holder, key, value in self._variables:
            if kind == "cell":
                holder.cell_contents = value
            elif kind == "name" and key in holder:
                holder[key] = value


def _held_by(x: Any) -> Any:
    """What a container or an object of the user's holds, if it can be put back."""
    if isinstance(x, list | deque):
        return list(x)
    if isinstance(x, dict):
        return None if "__builtins__" in x or x is sys.modules else dict(x)
    if isinstance(x, set):
        return set(x)
    kinds = (type, types.ModuleType, types.FunctionType, Tracer)
    if issubclass(type(x), kinds) or is_library(type(x)):
        return None
    own = getattr(x, "__dict__", None)
    return dict(own) if type(own) is dict else None


def _alike(a: Any, b: Any) -> bool:
    """Whether two contents are the same objects in the same places."""
    if isinstance(a, dict):
        return _alike([*a, *a.values()], [*b, *b.values()])
    return len(a) == len(b) and all(map(operator.is_, a, b))


def _hold(x: Any, content: Any) -> None:
    """Let a container or object hold what it held."""
    if isinstance(x, list):
        x[:] = content
        return
    if not isinstance(x, deque | dict | set):
        x = x.__dict__
    x.clear()
    if isinstance(x, deque):
        x.extend(content)
    else:
        x.update(content)


def _always() -> bool:
    return True


def _never() -> bool:
    return False


def _root(fun: Any) -> Any:
    """The function whose traces are kept as long as it lives."""
    while hasattr(fun, "__ftrace__"):
        fun = fun.__ftrace__[0]
    return fun if isinstance(fun, types.FunctionType) else None


def _warn(fun: Any) -> None:
    name = getattr(_root(fun), "__qualname__", fun)
    warn(
        f"{name} calls more functions than can be watched: a change of what some of them read from "
        "outside is not seen. Pass what changes as an argument, or call `clear_cache()` of the "
        "compiled function after a change.",
        FreshnessWarning,
    )


def _warn_of_content(fun: Any, name: str, array: Any) -> None:
    told, it = (f"`{name}`, ", name) if name else ("", "a")
    warn(
        f"{getattr(_root(fun), '__qualname__', fun)} may read elements of {told}an array of "
        f"{array.nbytes / 2**20:.0f} MiB, while it is traced, and is not traced anew when they "
        "change. Pass the array as an argument, or let nobody change it, before the first call: "
        f"`{it}.flags.writeable = False`.",
        FreshnessWarning,
    )


def _by_reference(use: Use, noted: Iterable[Any]) -> bool:
    """Whether an instruction only gives an array to the trace, as often as it runs."""
    place = position(use.code, use.offset)
    if place is None or (id(owner(use.array)), place) not in noted:
        return False
    return use.beside or (use.once and len(use.frames) == 1)


def captured_arrays(fun: Callable[..., Any]) -> dict[str, Any]:
    """The arrays that the function and its callees read, by words for them."""
    known = {id(fun.__self__): "self"} if isinstance(fun, types.MethodType) else {}
    return {name: a for name, a in Watch(fun, most=0).names(known) if is_array(a)}

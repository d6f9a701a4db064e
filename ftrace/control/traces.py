"""The cache of traces: a user function's jaxpr per signature.

A signature is the arguments' containers, shapes, dtypes, weakness and devices, the static ones, and
whether the function may be lifted.
Traces are kept per user function (weakly) and path of transformations to it, so that a new
`jit(f)`, or `jit(grad(f))`, of the same function finds them. A function that captured tracers of
an outer transformation is traced anew each time. Arrays it captured are read at every call;
names it read are guarded (`guards.py`). `config.kept_traces` bounds how many a function has.
"""

import types
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ftrace.control.drawing import TURNS
from ftrace.control.functions import (
    Apart,
    Staged,
    User,
    argument_avals,
    flatten_call,
    is_no_value,
    is_setting,
    is_zero_d,
    stage_function,
)
from ftrace.control.once import Staging, checked
from ftrace.core.config import config
from ftrace.core.device import LIBRARIES
from ftrace.core.errors import ConcretizationTypeError, LiftError
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.lazy import lazy
from ftrace.core.rare_collections import rare_collections
from ftrace.core.sameness import SCALARS, Static
from ftrace.core.trace import Tracer, as_it_is, ctx, is_on_device, is_staged
from ftrace.core.tree import PyTreeDef

_watch = lazy("ftrace.control.guards", "Watch")


class _Outdated:
    """The watch of a signal handler's trace in the middle of that import: it holds once."""

    def guard(self, operands: Any, captured: Any) -> Callable[[], bool]:
        """A function that says that what the trace rests on has changed."""
        return lambda: False


class CachedTrace:
    """One traced signature.

    Attributes:
        jaxpr: the program.
        captured: the values it captured, its leading operands.
        out_tree: the structure of its result.
        guard: tells whether it still says what the function does, or None.
        operands: where equations read captured arrays (`guards.py`).
    """

    __slots__ = ("captured", "guard", "jaxpr", "operands", "out_tree")

    def __init__(self, staged: Staged, guard: Any, operands: set[Any]) -> None:
        self.jaxpr: Jaxpr = staged.jaxpr
        self.captured = staged.captured
        self.out_tree: PyTreeDef = staged.out_tree
        self.guard = guard
        self.operands = operands


_tables: "WeakKeyDictionary[Any, dict[Any, dict[Any, CachedTrace]]]" = WeakKeyDictionary()


class _Counter:
    """How many times a user's function was traced into the cache; tests read it."""

    count = 0


counter = _Counter()


def cache_key(fun: Any) -> tuple[Any, tuple[Any, ...]]:
    """The innermost user function of nested wrappers, and the path of transformations to it."""
    path: list[Any] = []
    while True:
        layer = getattr(fun, "__ftrace__", None)
        if layer is None:
            return fun, tuple(path)
        fun, key = layer
        path.append(key)


def _table(fun: Any, options: tuple[Any, ...]) -> dict[Any, CachedTrace]:
    base, path = cache_key(fun)
    if isinstance(base, types.FunctionType):
        try:
            return _tables.setdefault(base, {}).setdefault((path, options), {})
        except TypeError:  # an option that cannot be hashed: a cache of its own
            return {}
    return {}


def _objects(key: Any) -> list[Any]:
    """The static arguments in a key that may hold something else."""
    if isinstance(key, Static):
        return [] if type(key.value) in SCALARS else [key.value]
    return [x for part in key for x in _objects(part)] if isinstance(key, tuple) else []


class Traces:
    """The traces of one function under one set of options."""

    __slots__ = ("_attempts", "_entries", "_fun", "_settings", "_static", "_times")

    def __init__(
        self,
        fun: Any,
        options: tuple[Any, ...],
        static: Sequence[int] = (),
        attempts: Callable[[Callable[[], Any], Any], Any] | None = None,
        times: str = "",
    ) -> None:
        self._fun = fun
        self._settings = False  # whether integers inside containers are static
        self._attempts = attempts  # what may run a trace again (lifting/restart.py)
        self._times = times  # how it is traced, where Python would run it more or less often
        self._static = static  # positions that are not among the dynamic arguments
        self._entries = _table(fun, options)

    def find(
        self, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: Any = ()
    ) -> tuple[list[Any], CachedTrace]:
        """The flat dynamic arguments and the trace for them; `fun` is what is traced."""
        given = flatten_call(args, kwargs)
        apart = Apart(*given, is_setting if self._settings else is_no_value)
        try:
            return self._find(fun, apart, static)
        except (ConcretizationTypeError, LiftError) as error:
            fixed = Apart(*given, is_setting)
            if self._settings or self._attempts is None or len(fixed.leaves) == len(apart.leaves):
                raise
            first = error
        # Python needs an integer of a container (a number of layers): they become static, and
        # every other value is traced anew
        try:
            found = self._find(fun, fixed, static)
        except (ConcretizationTypeError, LiftError):
            raise first from None
        self._settings = True
        return found

    def apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Apart:
        """The dynamic arguments, as the trace that was found last took them apart."""
        return Apart(*flatten_call(args, kwargs), is_setting if self._settings else is_no_value)

    def _find(self, fun: Any, apart: Apart, static: Any) -> tuple[list[Any], CachedTrace]:
        leaves, tree = apart.leaves, apart.tree
        avals = argument_avals(self._fun, leaves, tree, self._static)
        zero_d = tuple([i for i, a in enumerate(avals) if not a.shape and is_zero_d(leaves[i])])
        there = tuple(map(is_on_device, leaves)) if LIBRARIES else ()
        lifts = ctx.lift is not as_it_is and config.lift
        key = (tree, tree.order, tuple(avals), zero_d, there, static, lifts)
        entry = self._entries.get(key)
        if entry is None or (entry.guard is not None and not entry.guard()):
            once = self._is_of_a_trace()
            watch = None if once else self._watched([*apart.fixed, *_objects(static)])
            with rare_collections():
                entry = self._trace(fun, tree, avals, leaves, watch)
            if not once and not any(isinstance(x, Tracer) for x in entry.captured):
                self._keep(key, entry)
        elif 2 * len(self._entries) > config.settings.kept_traces:
            self._entries[key] = self._entries.pop(key, entry)  # the oldest is the first to go
        if ctx.operands is not None:
            ctx.operands |= entry.operands
        return leaves, entry

    def _keep(self, key: Any, entry: CachedTrace) -> None:
        """Keep a trace, and drop those that were not used for longest where there are too many."""
        entries = self._entries
        entries[key] = entry
        for old in list(entries)[: max(len(entries) - config.settings.kept_traces, 0)]:
            entries.pop(old, None)  # another thread may have been here

    def _is_of_a_trace(self) -> bool:
        """Whether it is a closure that a traced function made for a loop or an arm.

        The next trace makes another one: this one need not be watched.
        """
        own = self._attempts is None and is_staged(ctx.trace)
        return own and bool(getattr(self._fun, "__closure__", None))

    def _watched(self, known: list[Any]) -> Any:
        """What tells later whether a trace still says what the function does."""
        return _Outdated() if _watch.loading else _watch(self._fun, known)

    def _trace(
        self,
        fun: Any,
        tree: PyTreeDef,
        avals: Sequence[Any],
        leaves: Sequence[Any],
        watch: Any,
    ) -> CachedTrace:
        counter.count += 1
        outer, ctx.operands = ctx.operands, set()
        own = self._times == TURNS  # each iteration has containers of its own
        user = User(self._fun, skipped=self._static, may_change=own)

        def stage() -> Staged:
            return stage_function(fun, tree, avals, values=leaves, user=user)

        try:
            if self._times:
                staged = checked(Staging(stage), fun, self._times)
            elif self._attempts is None:
                staged = stage()
            else:
                given = (*tree.unflatten(leaves), *(() if fun is self._fun else (fun,)))
                staged = self._attempts(stage, given)
            operands = ctx.operands
        finally:
            ctx.operands = outer
        guard = None if watch is None else watch.guard(operands, staged.captured)
        return CachedTrace(staged, guard, operands)

    def clear(self) -> None:
        """Forget them."""
        self._entries.clear()

"""The cache of traces: a user function's jaxpr per signature.

A signature is the arguments' containers, shapes, dtypes and weakness, and the static arguments.
Traces are kept per user function (weakly) and path of transformations to it, so that a new
`jit(f)`, or `jit(grad(f))`, of the same function finds them. A function that captured tracers of
an outer transformation is traced anew each time. Arrays it captured are read at every call;
names it read are guarded (`guards.py`).
"""

import types
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from ftrace.control.functions import argument_avals, flatten_call, stage_function
from ftrace.control.guards import make_guard
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.trace import Tracer
from ftrace.core.tree import PyTreeDef


class Trace:
    """One traced signature: the jaxpr, the values it captured, the result's tree, the guard."""

    __slots__ = ("captured", "guard", "jaxpr", "out_tree")

    def __init__(self, jaxpr: Jaxpr, captured: list[Any], out_tree: PyTreeDef, guard: Any) -> None:
        self.jaxpr = jaxpr
        self.captured = captured
        self.out_tree = out_tree
        self.guard = guard


_tables: "WeakKeyDictionary[Any, dict[Any, dict[Any, Trace]]]" = WeakKeyDictionary()


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


def _table(fun: Any, options: tuple[Any, ...]) -> dict[Any, Trace]:
    base, path = cache_key(fun)
    if isinstance(base, types.FunctionType):
        try:
            return _tables.setdefault(base, {}).setdefault((path, options), {})
        except TypeError:  # an option that cannot be hashed: a cache of its own
            return {}
    return {}


class Traces:
    """The traces of one function under one set of options."""

    __slots__ = ("_attempts", "_entries", "_fun", "_static")

    def __init__(
        self,
        fun: Any,
        options: tuple[Any, ...],
        static: Sequence[int] = (),
        attempts: Callable[[Callable[[], Any]], Any] | None = None,
    ) -> None:
        self._fun = fun
        self._attempts = attempts  # what may run a trace again (lifting/restart.py)
        self._static = static  # positions that are not among the dynamic arguments
        self._entries = _table(fun, options)

    def find(
        self, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: Any = ()
    ) -> tuple[list[Any], Trace]:
        """The flat dynamic arguments and the trace for them; `fun` is what is traced."""
        leaves, tree = flatten_call(args, kwargs)
        avals = argument_avals(self._fun, leaves, tree, self._static)
        key = (tree, tuple(avals), static)
        entry = self._entries.get(key)
        if entry is None or (entry.guard is not None and not entry.guard()):
            entry = self._trace(fun, tree, avals)
            if not any(isinstance(x, Tracer) for x in entry.captured):
                self._entries[key] = entry
        return leaves, entry

    def _trace(self, fun: Any, tree: PyTreeDef, avals: Sequence[Any]) -> Trace:
        counter.count += 1
        if self._attempts is None:
            staged = stage_function(fun, tree, avals)
        else:
            staged = self._attempts(lambda: stage_function(fun, tree, avals))
        guard = make_guard(self._fun)
        return Trace(staged.jaxpr, staged.captured, staged.out_tree, guard)

    def clear(self) -> None:
        """Forget them."""
        self._entries.clear()

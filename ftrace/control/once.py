"""Functions that are traced once for many runs: they may not draw, nor compute by what runs leave.

One trace computes all elements of a batch, and all iterations of a loop. What a run would leave for
the next one (a count, the place of an iterator, an item that is replaced) none of them sees. So
what the function reads from outside is compared before and after (`guards.py`). Where that differs,
the function is traced a few times more, and what these traces compute is compared: what a run
writes before it reads, what host callbacks read, caches and counts for a log make no difference.
The facts that held are kept with the function, so that later calls need no walk.
"""

import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ftrace.control.changing import held, rebinds
from ftrace.control.drawing import Draws
from ftrace.control.functions import Staged, name_of
from ftrace.core.device import is_array
from ftrace.core.errors import LiftError, UnexpectedTracerError
from ftrace.core.lazy import lazy
from ftrace.core.sameness import SCALARS
from ftrace.core.trace import Tracer
from ftrace.core.weak import dropping
from ftrace.interpreters.alike import Recording, are_alike, follow, record

_MORE: Final = 3  # runs that are compared with the first
_MOST: Final = 1_000  # functions
watch_of = lazy("ftrace.control.guards", "Watch")


class Staging:
    """Traces of a function that gives a jaxpr.

    Args:
        run: traces it.
    """

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], Any]) -> None:
        self.run = run

    def followed(self) -> tuple[Any, Recording]:
        """The result, and a recording of the run."""
        result = self.run()
        parts = (result.jaxpr, result.captured) if isinstance(result, Staged) else result
        return result, Recording.of(*parts)

    def recorded(self) -> Recording:
        """A recording of another run."""
        return self.followed()[1]


class Batching:
    """Traces of a function that computes batches.

    Args:
        compute: `values -> (results, where they have mapped axes)`.
        values, dims: the arguments and their mapped axes.
        restart: runs attempts (`lifting/restart.py`).
    """

    __slots__ = ("_given", "_restart")

    def __init__(
        self,
        compute: Callable[[Any], tuple[list[Any], list[Any]]],
        values: Sequence[Any],
        dims: Sequence[Any],
        restart: Callable[[Callable[[], Any]], Any] = lambda attempt: attempt(),
    ) -> None:
        self._given = compute, values, dims
        self._restart = restart

    def run(self) -> tuple[list[Any], list[Any]]:
        """The result."""
        compute, values, _ = self._given
        return self._restart(lambda: compute(values))

    def followed(self) -> tuple[Any, Recording]:
        """The result, and a recording of the run."""
        return self._restart(lambda: follow(*self._given))

    def recorded(self) -> Recording:
        """A recording of another run, whose effects do not happen."""
        return self._restart(lambda: record(*self._given))


def checked(runs: Staging | Batching, fun: Any, times: str, known: Sequence[Any] = ()) -> Any:
    """The result of a function that is traced once for many runs.

    Args:
        runs: what traces it.
        fun: the function.
        times: how it is traced (`drawing.py`).
        known: objects that are among its arguments as they are.

    Raises:
        LiftError: it drew a random number, or computes by what it changes.
        UnexpectedTracerError: it computes by traced values that it leaves.
    """
    kept = Kept(fun, known)
    if kept.holds():
        result = runs.run()
        if not kept.holds():
            kept.keep(*_compared(runs, kept, times))
        return result
    draws = Draws([fun, *known])
    if not draws.changes:
        result = runs.run()
        draws.check(times)
        return result
    watch = watch_of(fun, known)
    result, recording = runs.followed()
    draws.check(times)
    test = watch.unchanged(kept.weak, kept.cells)
    if test is None:
        watch, test = _compared(runs, kept, times, recording, watch)
    if not draws:
        kept.keep(watch, test)
    return result


def _compared(
    runs: Staging | Batching,
    kept: "Kept",
    times: str,
    first: Recording | None = None,
    before: Any = None,
) -> tuple[Any, Callable[[], bool]]:
    """What watched the function while it ran again, and a test of what it does not change.

    Raises:
        LiftError: it did not compute the same as in the first run.
        UnexpectedTracerError: it got a traced value that an earlier run had left.
    """
    watch, cause = watch_of(kept.fun, kept.known), None
    try:
        first = first or runs.recorded()
        if all(are_alike(first, runs.recorded()) for _ in range(_MORE)):
            return watch, watch.lasting(kept.weak, kept.cells)
    except Exception as error:  # what the run before left there stops this one
        cause = error
    what = (before or watch).changed()
    escaped = isinstance(cause, UnexpectedTracerError)
    raise (UnexpectedTracerError if escaped else LiftError)(
        f"{name_of(kept.fun)} changes what it reads, {what}, and is traced {times}.",
        "Compute a result from the arguments alone: pass what differs as an argument with an axis "
        "for all, and what each run leaves for the next as a carry of ftrace.lax.scan.",
    ) from cause


_table: Final[dict[Any, tuple[Any, Any, Callable[[], bool]]]] = {}


class Kept:
    """What is kept of a function: a test that what it reads is as it was.

    A closure that is made anew each time, of the same code over the same objects, has the same.

    Attributes:
        fun: the function.
        known: objects that are among its arguments as they are.
        cells: its cells, if all that they hold is part of the key.
        parts: objects that take the entry along when they go.
        weak: objects that the test is not to keep alive.
    """

    __slots__ = ("_code", "_key", "cells", "fun", "known", "parts", "weak")

    def __init__(self, fun: Any, known: Sequence[Any]) -> None:
        self.fun, self.known = fun, known
        self._code = getattr(fun if hasattr(fun, "__code__") else type(fun).__call__, "__code__", 0)
        self.cells: tuple[Any, ...] = ()
        held = _held(fun)
        if held is None:
            self._key: Any = id(fun)
            self.parts = _weakly((fun,))
        else:
            self._key = id(self._code), id(fun.__globals__), *map(_mark, held)
            self.cells = fun.__closure__ or ()
            self.parts = _weakly((self._code, *held))
        while hasattr(fun, "__ftrace__"):
            fun = fun.__ftrace__[0]
        self.weak = _weakly((*self.parts, self.fun, fun, getattr(fun, "__self__", None)))

    def holds(self) -> bool:
        """Whether there is a test, and it says so."""
        found = _table.get(self._key)
        return found is not None and not self.known and found[1] is self._code and found[2]()

    def keep(self, watch: Any, test: Callable[[], bool]) -> None:
        """Keep a test, in the place of the one that is the oldest."""
        if self.known or watch.moved or not self.parts:
            return
        if len(_table) >= _MOST:
            _table.pop(next(iter(_table)), None)
        refs = [dropping(x, _table, self._key) for x in self.parts]
        _table[self._key] = refs, self._code, test


def _held(fun: Any) -> tuple[Any, ...] | None:
    """What a function closes over, and its defaults, if the next one may have the same."""
    if type(fun) is not types.FunctionType or hasattr(fun, "__ftrace__") or rebinds(fun.__code__):
        return None
    cells = map(held, fun.__closure__ or ())
    parts = *cells, *(fun.__defaults__ or ()), *(fun.__kwdefaults__ or {}).values()
    return None if any(is_array(x) or isinstance(x, Tracer) for x in parts) else parts


def _weakly(objects: Iterable[Any]) -> list[Any]:
    """Those that can be referred to weakly."""
    return [x for x in objects if type(x).__weakrefoffset__]


def _mark(x: Any) -> Any:
    """What tells one object from others."""
    return (type(x), x) if type(x) in SCALARS else id(x)

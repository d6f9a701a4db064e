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

from ftrace.control.changing import rebinds
from ftrace.control.drawing import Draws
from ftrace.control.functions import Staged, name_of
from ftrace.core.closure_cells import content
from ftrace.core.device import is_array
from ftrace.core.errors import LiftError, UnexpectedTracerError
from ftrace.core.lazy import lazy
from ftrace.core.sameness import SCALARS
from ftrace.core.trace import Tracer
from ftrace.core.weak import dropping
from ftrace.interpreters.alike import Recording, are_alike, follow, recorded
from ftrace.interpreters.captures import COPY_LIMIT

_MORE: Final = 2  # runs that are compared where each changes something
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
        staged = isinstance(result, Staged)
        jaxpr, captured = (result.jaxpr, result.captured) if staged else result
        return result, Recording.of(jaxpr, captured)

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
        return self._restart(lambda: recorded(*self._given))


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
    kept = Verdict(fun, known)
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
    watch = watch_of(fun, known, COPY_LIMIT)
    result, recording = runs.followed()
    draws.check(times)
    test = watch.unchanged(kept.weak, kept.given)
    if test is None:
        watch, test = _compared(runs, kept, times, recording, watch)
    if not draws:
        kept.keep(watch, test)
    return result


def _compared(
    runs: Staging | Batching,
    kept: "Verdict",
    times: str,
    first: Recording | None = None,
    before: Any = None,
) -> tuple[Any, Callable[[], bool]]:
    """What watched the function while it ran again, and a test of what it does not change.

    Raises:
        LiftError: it did not compute the same as in the first run.
        UnexpectedTracerError: it got a traced value that an earlier run had left.
    """
    watch, cause = watch_of(kept.fun, kept.known, COPY_LIMIT), None
    snapshot = watch.snapshot()  # what one run has left, and these runs are not to change
    try:
        second = runs.recorded()
        test = watch.unchanged(kept.weak, kept.given)  # a cache is filled: all runs are like this
        more = 0 if test is not None else _MORE
        others = (second, *(runs.recorded() for _ in range(more)))
        if all(are_alike(first or second, other) for other in others):
            test = test or watch.lasting(kept.weak, kept.given)
            snapshot.restore()
            return watch, test
    except Exception as error:  # what the run before left there stops this one
        cause = error
    what = (before or watch).changed()
    snapshot.restore()
    escaped = isinstance(cause, UnexpectedTracerError)
    raise (UnexpectedTracerError if escaped else LiftError)(
        f"{name_of(kept.fun)} changes what it reads, {what}, and is traced {times}.",
        "Compute a result from the arguments alone: pass what differs as an argument with an axis "
        "for all, and what each run leaves for the next as a carry of ftrace.lax.scan.",
    ) from cause


_table: Final[dict[Any, tuple[Any, Callable[[], bool]]]] = {}  # until what a key names dies


class Verdict:
    """What is kept of a function: a test that what it reads is as it was.

    A closure that is made anew each time, of the same code over the same objects, has the same.

    Attributes:
        fun: the function.
        known: objects that are among its arguments as they are.
    """

    __slots__ = ("_key", "_parts", "fun", "known")

    def __init__(self, fun: Any, known: Sequence[Any]) -> None:
        self.fun, self.known = fun, known
        self._parts = parts = _parts(fun)
        if parts is None:
            self._key: Any = id(fun)
        else:
            self._key = id(fun.__code__), id(fun.__globals__), *map(_mark, parts)

    @property
    def given(self) -> tuple[Any, ...]:
        """Objects whose content the key says: the function and its cells."""
        return () if self._parts is None else (self.fun, *(self.fun.__closure__ or ()))

    @property
    def weak(self) -> list[Any]:
        """Objects that the test is not to keep alive."""
        inner = self.fun
        while hasattr(inner, "__ftrace__"):
            inner = inner.__ftrace__[0]
        owner = getattr(inner, "__self__", None)
        return _weakly((self.fun, inner, owner, *(self._parts or ())))

    def holds(self) -> bool:
        """Whether there is a test, and it says so."""
        found = _table.get(self._key)
        return found is not None and not self.known and found[1]()

    def keep(self, watch: Any, test: Callable[[], bool]) -> None:
        """Keep a test, in the place of the one that is the oldest."""
        parts = _weakly((self.fun,) if self._parts is None else (self.fun.__code__, *self._parts))
        if self.known or watch.moved or not parts:
            return
        if len(_table) >= _MOST:
            _table.pop(next(iter(_table), None), None)  # what died has left it by itself
        refs = [dropping(x, _table, self._key) for x in parts]
        _table[self._key] = refs, test


def _parts(fun: Any) -> tuple[Any, ...] | None:
    """What a function closes over, and its defaults, if the next one may have the same.

    Containers are not held: they may be large, and are made anew for each step of a training.
    """
    if type(fun) is not types.FunctionType or fun.__dict__ or rebinds(fun.__code__):
        return None
    parts = *map(content, fun.__closure__ or ()), *(fun.__defaults__ or ())
    if fun.__kwdefaults__:
        parts += tuple(fun.__kwdefaults__.values())
    return parts if all(map(_may_last, parts)) else None


def _may_last(x: Any) -> bool:
    kind = type(x)
    if kind in SCALARS:
        return True
    return kind.__weakrefoffset__ > 0 and not (is_array(x) or issubclass(kind, Tracer))


def _weakly(objects: Iterable[Any]) -> list[Any]:
    """Those that can be referred to weakly."""
    return [x for x in objects if type(x).__weakrefoffset__]


def _mark(x: Any) -> Any:
    """What tells one object from others."""
    return (type(x), x) if type(x) in SCALARS else id(x)

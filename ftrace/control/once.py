"""Functions that are traced once for many runs: they may not draw, nor compute by what runs leave.

One trace computes all elements of a batch, and all iterations of a loop. What a run would leave for
the next one (a count, the place of an iterator, an item that is replaced) none of them sees. So
what the function reads from outside is compared before and after (`guards.py`). Where that differs,
the function is traced a few times more, and what these traces compute is compared: what a run
writes before it reads, what host callbacks read, caches and counts for a log make no difference.
The facts that held are kept with the function, so that later calls need no walk.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from ftrace.control.drawing import Draws
from ftrace.control.functions import Staged, name_of
from ftrace.core.errors import LiftError
from ftrace.core.lazy import lazy
from ftrace.core.weak import dropping
from ftrace.interpreters.alike import Recording, are_alike, follow, record

_MORE: Final = 3  # runs that are compared with the first
_MOST: Final = 1_000  # functions
watch_of = lazy("ftrace.control.guards", "Watch")
KEPT: Final[dict[int, tuple[Any, Any, Callable[[], bool]]]] = {}
"""By the id of a function: it, weakly, its code, and a test that what it reads is as it was."""


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
    """
    if not known and _holds(fun):
        result = runs.run()
        if not _holds(fun):
            _keep(fun, _compared(None, runs, fun, times, known))
        return result
    draws = Draws([fun, *known])
    if not draws.changes:
        result = runs.run()
        draws.check(times)
        return result
    watch = watch_of(fun, known)
    result, recording = runs.followed()
    draws.check(times)
    if not watch.holds():
        watch = _compared(recording, runs, fun, times, known)
    if not (known or draws):
        _keep(fun, watch)
    return result


def _compared(
    first: Recording | None,
    runs: Staging | Batching,
    fun: Any,
    times: str,
    known: Sequence[Any],
) -> Any:
    """What watched the function while it ran again and computed the same as in the first run.

    Raises:
        LiftError: it did not.
    """
    watch, cause = watch_of(fun, known), None
    try:
        first = first or runs.recorded()
        if all(are_alike(first, runs.recorded()) for _ in range(_MORE)):
            return watch
    except Exception as error:  # what the run before left there stops this one
        cause = error
    raise LiftError(
        f"{name_of(fun)} changes what it reads, {watch.changed()}, and is traced {times}.",
        "Compute a result from the arguments alone: pass what differs as an argument with an axis "
        "for all, and what each run leaves for the next as a carry of ftrace.lax.scan.",
    ) from cause


def _keep(fun: Any, watch: Any) -> None:
    """Keep what the next call compares, instead of a walk."""
    if len(KEPT) >= _MOST:
        KEPT.clear()
    if not watch.moved:
        with contextlib.suppress(TypeError):  # some objects cannot be referred to weakly
            KEPT[id(fun)] = dropping(fun, KEPT, id(fun)), _code(fun), watch.lasting()


def _code(fun: Any) -> Any:
    """The code that runs, as it may be replaced."""
    return getattr(fun if hasattr(fun, "__code__") else type(fun).__call__, "__code__", None)


def _holds(fun: Any) -> bool:
    kept = KEPT.get(id(fun))
    return kept is not None and _code(fun) is kept[1] and kept[2]()

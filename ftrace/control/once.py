"""Functions that are traced once for many runs: they may not draw, nor change what they read.

One trace computes all elements of a batch, and all iterations of a loop. What a run would leave for
the next one (a count, the place of an iterator, an item that is replaced) none of them sees. So
what the function reads from outside is compared before and after. A second try follows a
difference: what the first run has only filled, as caches are, is then there from the start. The
comparison is kept with the function, so that later calls need no walk.
"""

import types
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from ftrace.control.drawing import Draws
from ftrace.control.functions import name_of
from ftrace.core.errors import LiftError
from ftrace.core.lazy import lazy
from ftrace.core.weak import dropping

R = TypeVar("R")
watch_of = lazy("ftrace.control.guards", "Watch")
KEPT: Final[dict[int, tuple[Any, Any, Callable[[], bool]]]] = {}
"""By the id of a function: it, weakly, its code, and a test that what it reads is as it was."""


def checked(run: Callable[[], R], fun: Any, times: str, known: Sequence[Any] = ()) -> R:
    """The result of a run that traces a function once for many.

    Args:
        run: traces it.
        fun: the function.
        times: how it is traced (`drawing.py`).
        known: objects that are among its arguments as they are.

    Raises:
        LiftError: it drew a random number, or changed what it reads.
    """
    tries = 2
    if not known and _holds(fun):
        result = run()
        if _holds(fun):
            return result
        tries = 1
    draws = Draws([fun, *known])
    watch = None
    for _ in range(tries):
        watch = watch_of(fun, known) if draws.changes else None
        result = run()
        draws.check(times)
        if watch is None:
            return result
        test = watch.guard(()) or _always
        if test():
            if not (known or draws or watch.moved):
                _keep(fun, test)
            return result
    assert watch is not None
    raise LiftError(
        f"{name_of(fun)} changes what it reads, {watch.changed()}, and is traced {times}.",
        "Compute a result from the arguments alone: pass what differs as an argument with an axis "
        "for all, and what each run leaves for the next as a carry of ftrace.lax.scan.",
    )


def _keep(fun: Any, test: Callable[[], bool]) -> None:
    """Keep what the next call compares, instead of a walk."""
    if type(fun) is types.FunctionType or type(fun) is types.MethodType:
        KEPT[id(fun)] = dropping(fun, KEPT, id(fun)), fun.__code__, test


def _holds(fun: Any) -> bool:
    kept = KEPT.get(id(fun))
    return kept is not None and fun.__code__ is kept[1] and kept[2]()


def _always() -> bool:
    return True

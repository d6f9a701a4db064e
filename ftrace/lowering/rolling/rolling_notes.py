"""What "roll" has to tell: which repeats became loops, which did not, and why.

Whoever wants to know listens while something is planned; for all others a note costs nothing.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from ftrace.core import source
from ftrace.lowering.rolling.listing import Numbered
from ftrace.lowering.rolling.repeats import Run

_listeners: Final[ContextVar[list[str] | None]] = ContextVar("ftrace rolling notes", default=None)


@contextmanager
def listening() -> Generator[list[str]]:
    """Gives the list of what is told inside the block."""
    notes: list[str] = []
    token = _listeners.set(notes)
    try:
        yield notes
    finally:
        _listeners.reset(token)


def tell(listing: Numbered, run: Run, what: Callable[[], str]) -> None:
    """Say what became of a run."""
    notes = _listeners.get()
    if notes is not None:
        place = source.short(listing.eqns[run.start].source)
        where = f"{place}: " if place else ""
        size = f"{run.iterations} iterations of {run.period} equations"
        notes.append(f"{where}{size} {what()}")


def loop(listing: Numbered, run: Run) -> None:
    """A run became a loop."""
    tell(listing, run, lambda: "became a loop")


def refused(listing: Numbered, run: Run, why: str, *details: Any) -> None:
    """A run that holds is no loop, and why."""
    tell(listing, run, lambda: f"stay as they are: {why.format(*details)}")


def broken(listing: Numbered, run: Run, iteration: int) -> None:
    """A run does not hold: an iteration reads other things than those before it."""
    place = source.short(listing.eqns[run.start + iteration * run.period].source)
    tell(
        listing,
        run,
        lambda: (
            f"stay as they are: iteration {iteration + 1}{f' ({place})' if place else ''} reads "
            "other values than those before it; write the loop with ftrace.lax.fori_loop or scan"
        ),
    )

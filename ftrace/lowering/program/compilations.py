"""What is said about compilations: a line in the log for each, and one on a terminal for long ones.

The line on the terminal comes from a timer, while the compiler works; it is written only where
`config.progress` is on and the standard error is a terminal, so that elsewhere no thread starts.
"""

import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Final

from ftrace.core.config import config
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.lazy import lazy

LONG: Final = 2.0  # seconds
_listening = lazy("ftrace.lowering.rolling.rolling_notes", "listening")
_logger = lazy("logging", "getLogger")


@contextmanager
def watched(jaxpr: Jaxpr, name: str, why: Callable[[], str]) -> Generator[None]:
    """Around a compilation: says what is to be said of it.

    Args:
        jaxpr: what is compiled.
        name: of the user's function; may be empty.
        why: gives the reason.
    """
    settings = config.settings
    shown = settings.progress and sys.stderr is not None and sys.stderr.isatty()
    if not (shown or settings.log_compiles):
        yield
        return
    what = f"{name or 'a part of a program'}: {len(jaxpr.eqns)} equations"
    start = time.perf_counter()
    with _listening() as notes:
        timer = Timer(LONG, lambda: _show(what, notes)) if shown else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
    if settings.log_compiles:
        took = time.perf_counter() - start
        reason = why()
        because = f" ({reason})" if reason else ""
        lines = "".join(f"\n  {note}" for note in notes)
        told = "compiled %s%s, in %.2f s%s"
        _logger("ftrace.compile").warning(told, what, because, took, lines)


def _show(what: str, notes: Sequence[str]) -> None:
    """Write the line of a long compilation."""
    told = "; ".join(notes[-3:]) or "nothing in it repeats itself: shorter loops, or lax.scan, help"
    sys.stderr.write(f"ftrace: compiling {what}: {told}\n")
    sys.stderr.flush()

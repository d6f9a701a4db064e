"""Every program that is differentiated under `jit` counts as a long one.

`pytest --deferred tests/laws tests/programs` records all operations and differentiates them behind
the last, with scans for what repeats itself, as otherwise only long programs are.
"""

from collections.abc import Generator
from contextlib import contextmanager

from ftrace.control.rows import jit
from ftrace.interpreters import jvp


def defer_everything(start: int = 0) -> None:
    """As above, for the rest of the process; `start` operations are differentiated at once."""
    jvp.START, jit.MANY = start, 0  # type: ignore[misc]


@contextmanager
def deferring(start: int = 0) -> Generator[None]:
    """The same inside the block."""
    before = jvp.START, jit.MANY
    defer_everything(start)
    try:
        yield
    finally:
        jvp.START, jit.MANY = before  # type: ignore[misc]

"""`scan(progress=)`: the body of a loop that says how far it is."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.control.callbacks import Host, debug_callback_call
from ftrace.control.loops import cond
from ftrace.core import source
from ftrace.primitives.arithmetic import rem
from ftrace.primitives.compare import eq

REPORTS = 100  # how often a loop reports, at most


def bar(done: int, total: int) -> None:
    """Write how far a loop is to the standard error, on one line."""
    end = "\n" if done == total else ""
    sys.stderr.write(f"\rscan: {done} of {total} turns ({done / total:.0%}){end}")
    sys.stderr.flush()


def reporting(f: Callable[..., Any], n: int, report: Any, reverse: bool) -> Callable[..., Any]:
    """The body `(carry, (i, x)) -> (carry, y)` that reports every hundredth part, and the end.

    Args:
        f: the body `(carry, x) -> (carry, y)`.
        n: the number of turns.
        report: `(done, total)`, or True for a line on the standard error.
        reverse: whether i counts down.
    """
    tell = bar if report is True else report
    every = max(1, n // REPORTS)
    last = np.int64((n if reverse else n - 1) % every)

    def shown(i: Any) -> None:
        tell(int(n - i if reverse else i + 1), n)

    host = Host(tell, shown, "scan(progress=)", place=source.location())

    def show(i: Any) -> None:
        debug_callback_call(i, host=host, ordered=False)

    def body(carry: Any, x: Any) -> Any:
        i, element = x
        out = f(carry, element)
        cond(eq(rem(i, np.int64(every)), last), show, lambda i: None, i)
        return out

    return body

"""`scan(progress=)`: the body of a loop that says how far it is."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.control.rules.host_calls import Host, debug_callback_call
from ftrace.control.user_loops import cond
from ftrace.core import source
from ftrace.primitives.arithmetic import rem, sub
from ftrace.primitives.compare import bitwise_or, eq
from ftrace.primitives.linear import add

REPORTS = 100  # how often a loop reports, at most


def bar(done: int, total: int) -> None:
    """Write how far a loop is to the standard error, on one line."""
    end = "\n" if done == total else ""
    sys.stderr.write(f"\rscan: {done} of {total} iterations ({done / total:.0%}){end}")
    sys.stderr.flush()


def reporting(f: Callable[..., Any], n: int, report: Any, reverse: bool) -> Callable[..., Any]:
    """The body `(carry, (i, x)) -> (carry, y)` that reports every hundredth part, and the end.

    Args:
        f: the body `(carry, x) -> (carry, y)`.
        n: the number of iterations.
        report: `(done, total)`, or True for a line on the standard error.
        reverse: whether i counts down.
    """
    tell = bar if report is True else report
    every = np.int64(max(1, -(-n // REPORTS)))

    def shown(done: Any) -> None:
        tell(int(done), n)

    host = Host(tell, shown, "scan(progress=)", place=source.location())

    def show(done: Any) -> None:
        debug_callback_call(done, host=host, ordered=False)

    def body(carry: Any, x: Any) -> Any:
        i, element = x
        out = f(carry, element)
        done = sub(np.int64(n), i) if reverse else add(i, np.int64(1))
        due = bitwise_or(eq(rem(done, every), np.int64(0)), eq(done, np.int64(n)))
        cond(due, show, lambda done: None, done)
        return out

    return body

"""Functions without source: every path that undecided tests open is run.

The function is run until a traced value is asked for its truth. Then both answers are tried: the
function runs again from its start in each arm of a `cond`, with the answers so far given. Six
independent tests are 64 paths; more are refused, as a loop would ask for ever.
"""

import functools
import threading
import types
from typing import Any, Final

from ftrace.core import trace as core
from ftrace.core.errors import LiftError
from ftrace.core.trace import Tracer
from ftrace.lifting.leaves import truth
from ftrace.lifting.merging import Arm, Merge
from ftrace.lifting.names import RETURN
from ftrace.lifting.state import Frame, Outcome

LIMIT: Final = 6


class _Fork(BaseException):
    """A test that has no answer yet."""

    def __init__(self, test: Tracer) -> None:
        self.test = test


class _Answers:
    """The answers that a run gets, in order; after them a fork."""

    def __init__(self, given: tuple[bool, ...]) -> None:
        self._given = iter(given)

    def __call__(self, test: Tracer) -> bool:
        answer = next(self._given, None)
        if answer is None:
            raise _Fork(test)
        return answer


class _Deciding(threading.local):
    answers: Any = None


_deciding: Final = _Deciding()


def _decide(test: Tracer) -> bool | None:
    """The answer that a running path has for a test; None if no path is being run."""
    return None if _deciding.answers is None else _deciding.answers(test)


core.decide = _decide


def exploring(fn: types.FunctionType) -> Any:
    """A function that runs all paths of one whose source is not known."""

    @functools.wraps(fn)
    def explored(*args: Any, **kwargs: Any) -> Any:
        return _explore(fn, lambda: fn(*args, **kwargs), ())

    return explored


def _explore(fn: types.FunctionType, run: Any, given: tuple[bool, ...]) -> Any:
    """The result of the paths that begin with these answers."""
    before, _deciding.answers = _deciding.answers, _Answers(given)
    try:
        return run()
    except _Fork as fork:
        test = fork.test
    finally:
        _deciding.answers = before
    if len(given) == LIMIT:
        raise LiftError(
            f"The source of {fn.__qualname__} cannot be read ({fn.__code__.co_filename}), and "
            f"traced values decide in it more than {LIMIT} times: a loop, or too many paths.",
            "Put the function in a file or a notebook cell, so that it can be rewritten, or write "
            "ftrace.lax.cond and while_loop.",
        )
    frame = Frame({}, lambda: None)
    arms = [
        Arm(frame, lambda _, a=answer: Outcome(RETURN, {}, _explore(fn, run, (*given, a))))
        for answer in (True, False)
    ]
    merge = Merge((arms[0], arms[1]), {}, lambda arm, name: f"path {arm}")
    return merge.outcome(truth(test)).value

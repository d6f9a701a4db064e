"""Functions without source: every path that undecided tests open is run.

The function is run until a traced value is asked for its truth. Then both answers are tried: the
function runs again from its start in each arm of a `cond`, with the answers so far given. Six
independent tests are 64 paths; more are refused, as a loop would ask for ever.
"""

import functools
import threading
import types
from collections.abc import Callable
from typing import Any, Final

from ftrace.core import hooks
from ftrace.core.errors import FtraceError, LiftError
from ftrace.core.trace import Tracer
from ftrace.lifting.sources.asking import asks, codes, scope_of
from ftrace.lifting.sources.finding import missing
from ftrace.lifting.sources.unanswered import NOTHING_WATCHED, refusing
from ftrace.lifting.staging.merging import Arm, Merge
from ftrace.lifting.state.leaves import truth
from ftrace.lifting.state.local_state import LocalFrame, Outcome
from ftrace.lifting.state.names import RAISE, RETURN
from ftrace.lifting.state.throwing import fail_with

LIMIT: Final = 6


class _Fork(BaseException):
    """A test that has no answer yet."""

    def __init__(self, test: Tracer) -> None:
        self.test = test


class _Answers:
    """The answers that a run gets, in order; after them a fork, which the run may catch."""

    def __init__(self, given: tuple[bool, ...]) -> None:
        self._given = iter(given)
        self.fork: _Fork | None = None

    def __call__(self, test: Tracer) -> bool:
        answer = next(self._given, None)
        if answer is None:
            self.fork = self.fork or _Fork(test)
            raise self.fork
        return answer


class _Deciding(threading.local):
    answers: Any = None


_deciding: Final = _Deciding()


def _decide(test: Tracer) -> bool | None:
    """The answer that a running path has for a test; None if no path is being run."""
    return None if _deciding.answers is None else _deciding.answers(test)


hooks.decide.give(_decide)


def exploring(fn: types.FunctionType) -> Any:
    """A function that runs all paths of one whose source is not known."""
    asked = asks(fn, scope_of(fn))
    watched = NOTHING_WATCHED.union(codes(fn.__code__)) if asked else NOTHING_WATCHED

    @functools.wraps(fn)
    def explored(*args: Any, **kwargs: Any) -> Any:
        with refusing(watched):
            return _explore(fn, lambda: fn(*args, **kwargs), ())

    return explored


def _explore(fn: types.FunctionType, run: Any, given: tuple[bool, ...]) -> Any:
    """The result of the paths that begin with these answers."""
    before, _deciding.answers = _deciding.answers, (answers := _Answers(given))
    try:
        result = run()
        if answers.fork is None:
            return result
    except BaseException:
        if answers.fork is None:
            raise
    finally:
        _deciding.answers = before
    test = answers.fork.test
    if len(given) == LIMIT:
        what, fix = missing(fn)
        raise LiftError(
            f"{what}, and traced values decide in it more than {LIMIT} times: a loop, or too many "
            "paths.",
            f"{fix}, so that it can be rewritten, or write ftrace.lax.cond and while_loop.",
        )
    frame = LocalFrame({}, lambda: None)
    arms = [
        Arm(frame, lambda _, a=answer: _ended(lambda: _explore(fn, run, (*given, a))))
        for answer in (True, False)
    ]
    merge = Merge((arms[0], arms[1]), {}, lambda arm, name: f"path {arm}")
    return merge.outcome(truth(test)).value


def _ended(run: Callable[[], Any]) -> Outcome:
    """How a path ends."""
    try:
        return Outcome(RETURN, {}, run())
    except (FtraceError, _Fork):
        raise
    except Exception as error:
        fail_with(error)
        return Outcome(RAISE, {})

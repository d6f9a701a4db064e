"""`a if t else b`, `a and b`, `a or b` of a traced value, with parts that are functions."""

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.core.errors import LiftError
from ftrace.interpreters.quiet import quietly
from ftrace.lifting.staging.merging import Arm, Merge
from ftrace.lifting.state.leaves import truth, undecided
from ftrace.lifting.state.local_state import LocalFrame, Outcome
from ftrace.lifting.state.names import NEXT, RETURN
from ftrace.lifting.state.nesting import nested, proceed, retried
from ftrace.primitives.compare import bitwise_and, bitwise_or

_SIDES = ("the first part", "the second part")


def connected(frame: LocalFrame, first: Any, rest: Arm, short: bool) -> Outcome:
    """`first and rest`, `first or rest`.

    Args:
        frame: the state.
        first: a traced value.
        rest: the staged second part.
        short: the truth of `first` for which `rest` is not evaluated.
    """
    pred = truth(first)
    if pred is first and rest.is_cheap_test():
        join = bitwise_or if short else bitwise_and
        with quietly():
            return Outcome(RETURN, {}, join(first, rest.test()))
    decided = short if pred is first else first
    known = Arm(frame, lambda _: Outcome(RETURN, frame.read(), decided))
    arms = (known, rest) if short else (rest, known)
    return Merge(arms, {}, lambda arm, name: _SIDES[arm]).decided(frame, pred)


def _arm(frame: LocalFrame, part: Callable[[], Any]) -> Arm:
    def run(_: Any) -> Outcome:
        value = part()
        return Outcome(RETURN, frame.read(), value)

    return Arm(frame, run)


def _staged(stage: Callable[[LocalFrame], Outcome], *parts: Callable[[], Any]) -> Any:
    """The value of what is staged, of functions, whose cells and globals are the state."""
    frame = LocalFrame(dict(zip(_SIDES, parts, strict=False)), lambda: None)
    with nested():
        outcome = retried(frame, lambda: stage(frame))
        proceed(frame, outcome)
    return outcome.value


def chosen(
    test: Any,
    one: Callable[[], Any],
    other: Callable[[], Any],
    parts: Sequence[Callable[[], Any]] = (),
) -> Any:
    """`one() if test else other()`; `parts`: the user's functions that these call."""
    if not undecided(test):
        return one() if test else other()

    def stage(frame: LocalFrame) -> Outcome:
        arms = _arm(frame, one), _arm(frame, other)
        return Merge(arms, {}, lambda arm, name: _SIDES[arm]).decided(frame, truth(test))

    return _staged(stage, *(parts or (one, other)))


def taken(test: Any, one: Callable[[], Any], parts: Sequence[Callable[[], Any]]) -> Any:
    """`one()` where a traced test holds, and anything of its type where not."""

    def stage(frame: LocalFrame) -> Outcome:
        arms = _arm(frame, one), Arm(frame, lambda _: Outcome(NEXT, frame.read()))
        return Merge(arms, {}, lambda arm, name: _SIDES[arm]).decided(frame, truth(test))

    return _staged(stage, *parts)


def both(first: Any, rest: Callable[[], Any], parts: Sequence[Callable[[], Any]] = ()) -> Any:
    """`first and rest()`; `parts`: the user's functions that `rest` calls."""
    if not undecided(first):
        return first and rest()
    stage: Callable[[LocalFrame], Outcome]
    stage = lambda frame: connected(frame, first, _arm(frame, rest), False)  # noqa: E731
    return _staged(stage, *(parts or (rest,)))


def either(first: Any, rest: Callable[[], Any], parts: Sequence[Callable[[], Any]] = ()) -> Any:
    """`first or rest()`; `parts`: the user's functions that `rest` calls."""
    if not undecided(first):
        return first or rest()
    stage: Callable[[LocalFrame], Outcome]
    stage = lambda frame: connected(frame, first, _arm(frame, rest), True)  # noqa: E731
    return _staged(stage, *(parts or (rest,)))


def decided(x: Any, construct: str) -> Any:
    """The same value, if it is known.

    Raises:
        LiftError: a traced value decides in a construct that cannot be staged.
    """
    if undecided(x):
        raise LiftError(f"A traced value decides in a {construct}.", _INSTEAD[construct])
    return x


_INSTEAD = {
    "comprehension": "Write a `for` loop with an `if`; a list has as many items as it has whatever "
    "values are, so keep all of them and weigh them: numpy.where(condition, x, 0).",
    "match": "Write `if` and `elif`.",
}

"""`try` whose body raises where traced values decide: errors as exits, handlers as arms.

The statement runs natively first. When an error is noted that it may catch, the attempt is undone
(`Attempt`) and the statement staged: its body as a region in which errors are exits (`points.py`),
with the rewritten functions that it calls; then for each handler an arm, for the members whose
error is of its classes. Errors that no handler catches go on to what stands around.
"""

import ast
import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from ftrace.control.rows.raising import (
    Collection,
    Noted,
    again,
    begin,
    bind_again,
    collecting,
    end,
    follow,
    following,
    innermost,
    some,
    unasked,
)
from ftrace.core.errors import FtraceError
from ftrace.core.foreign import refused_by_a_call
from ftrace.core.trace import EVAL, ctx, remember
from ftrace.lifting.staging.sites import Region, Site, renamed
from ftrace.lifting.state import names
from ftrace.lifting.state.leaves import truth
from ftrace.lifting.state.local_state import LocalFrame, Mark, Outcome
from ftrace.lifting.state.names import CAUGHT, NEXT, RAISE, RETURN, Liveness, Names
from ftrace.lifting.state.nesting import known_places, proceed
from ftrace.lifting.state.points import Points, an_exit
from ftrace.lifting.state.throwing import fail_with, handled, handled_by, known
from ftrace.lifting.state.watching import RegionWatch, refuse_held
from ftrace.primitives.compare import bitwise_and, bitwise_not, bitwise_or

_HERE: Final = ("__traceback__",)
_ORIGIN: Final = ("__cause__", "__context__", "__suppress_context__", *_HERE)


def reraise(frame: LocalFrame) -> Outcome:
    """`raise` in a handler."""
    for noted in handled():
        again(noted)
    follow()
    return Outcome(RAISE, frame.state)


class Undecided(BaseException):
    """An attempt has met what it cannot do; no handler of the user's sees it."""

    def __init__(self, owner: "Attempt") -> None:
        super().__init__()
        self.owner = owner


class Attempt(Collection):
    """A `try` that runs natively: the first error that is noted ends it, and undoes it."""

    def __init__(self, local: dict[str, Any], probe: Any) -> None:
        super().__init__(ctx.trace)
        self.is_over = False
        self.mark: Mark | None = None
        if self.trace is not EVAL:
            self.mark = Mark(LocalFrame(local, probe))
            self._watch = RegionWatch(self.mark.frame)
            self._contents = self._watch.contents()

    def note(self, noted: Noted) -> None:
        raise Undecided(self)

    def interrupt(self) -> None:
        raise Undecided(self)

    def __enter__(self) -> None:
        if self.mark is not None:
            begin(self)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        if self.mark is None:
            return False
        end(self)
        if kind is TypeError:  # a handler would take what plain numbers do not need
            remember(refused_by_a_call(error))
        self.is_over = kind is Undecided and error.owner is self
        if self.is_over:
            self._watch.undo()
            for array, before in self._contents:
                np.copyto(array, before)
        return self.is_over


# ---------------------------------------------------------------------------------- questions


def failing() -> Any:
    """Whether a member has an error that was noted since the last question."""
    found = innermost()
    if found is None or not found.is_open:
        return False
    whole = unasked()
    follow()
    return whole


def caught(frame: LocalFrame, error: Exception) -> Outcome:
    """The exit of a region by an error that Python raised itself."""
    if isinstance(error, FtraceError):
        raise error
    refuse_held(error)
    fail_with(error)
    follow()
    return Outcome(RAISE, frame.state)


# ---------------------------------------------------------------------------------- the site


class Trying(Site):
    """`try` with handlers."""

    @cached_property
    def last(self) -> Names:
        """What `finally` reads."""
        return names.loads(self.node.finalbody)

    @cached_property
    def jumps(self) -> dict[int, Names]:
        """Exit -> the names needed there, or by `finally`."""
        inner = {e: n | self.last for e, n in self.live.jumps.items()}
        return {**inner, NEXT: self.after | self.last}

    @cached_property
    def catches(self) -> Names:
        """The names that handlers need, or whoever catches what they do not."""
        found = self.jumps.get(RAISE, names.NONE)
        live = Liveness(self.jumps, self.live.always)
        for h in self.node.handlers:
            kind = names.NONE if h.type is None else names.loads([h.type])
            found |= kind | live.before(h.body, self.jumps[NEXT])
        return found

    @cached_property
    def body(self) -> Region:
        """What is tried."""
        live = {**self.jumps, RAISE: self.catches}
        live[NEXT] = Liveness(live).before(self.node.orelse, self.jumps[NEXT]) | self.last
        stmts = Points(self.template.fresh).block(self.node.body)
        return self.region(stmts, live)

    @cached_property
    def otherwise(self) -> Region:
        """The `else`."""
        return self.region(self.node.orelse, {**self.jumps, CAUGHT: self.catches})

    @cached_property
    def handlers(self) -> list[Region]:
        """The bodies of the handlers."""
        return [self.region(_Again(h.name).block(h.body), self.jumps) for h in self.node.handlers]

    def staged(self, frame: LocalFrame, *given: Any) -> Outcome:
        if given[0].mark is not None:
            frame = given[0].mark.restore()
            frame.hold(known_places())
        found = Collection(ctx.trace)
        with collecting(found), following():
            outcome = self.body.run(frame, frame.state)
        if found.is_open:
            raise self.error(
                "An error that a traced value decides about may be caught here, and the place "
                "where it is raised is none that can be followed.",
                "Compute what may raise in a statement of its own.",
            )
        errors = _exclusive(found.found)
        outcome = renamed(outcome, RAISE, CAUGHT)
        if self.node.orelse:
            outcome = self.then(frame, outcome, self.otherwise)
        if CAUGHT in outcome.exits:
            outcome = self._handled(frame, outcome, errors)
        return self._finished(frame, outcome)

    def _handled(self, frame: LocalFrame, outcome: Outcome, errors: list[Noted]) -> Outcome:
        proceed(frame, outcome)
        groups: list[list[Noted]] = [[] for _ in self.node.handlers]
        rest = errors
        for group, h in zip(groups, self.node.handlers, strict=True):
            kinds = self._classes(frame, h)
            fits = [self._fits(e, kinds) for e in rest]
            group += [e for e, fit in zip(rest, fits, strict=True) if fit]
            rest = [e for e, fit in zip(rest, fits, strict=True) if not fit]
        bind_again(rest, RAISE in self.live.jumps)
        return self._chosen(frame, outcome, groups, bool(rest), 0)

    def _chosen(
        self, frame: LocalFrame, outcome: Outcome, groups: list[list[Noted]], more: bool, i: int
    ) -> Outcome:
        """What the handlers from a number on make of members with errors."""
        while i < len(groups) and not groups[i]:
            i += 1
        if i == len(groups):
            return self._without(frame, outcome, more)

        def handle(state: Any) -> Outcome:
            error = known(groups[i])
            state = {**state, **self._error(i, groups[i], error)}
            return handled_by(groups[i], error, lambda: self.handlers[i].run(frame, state))

        left = any(groups[i + 1 :]) or more
        if outcome.exits == frozenset({CAUGHT}) and not left:
            return handle(frame.state)
        mine = truth(some(groups[i][0].bad))
        for noted in groups[i][1:]:
            mine = bitwise_or(mine, some(noted.bad))

        def others(_: Any) -> Outcome:
            return self._chosen(frame, outcome, groups, more, i + 1)

        needs = {**self.jumps, CAUGHT: self.catches}
        return self.merged(frame, mine, (handle, others), needs)

    def _without(self, frame: LocalFrame, outcome: Outcome, more: bool) -> Outcome:
        """The outcome of members that no handler has caught."""
        if more and RAISE in self.live.jumps:
            return renamed(outcome, CAUGHT, RAISE)
        exits = outcome.exits - {CAUGHT} or frozenset({RAISE})
        held = {**frame.read(), **outcome.state}  # also the places that the handlers change
        return Outcome(outcome.exit, held, outcome.value, exits)

    def _finished(self, frame: LocalFrame, outcome: Outcome) -> Outcome:
        stmts = self.node.finalbody
        if not stmts:
            return outcome
        if names.exits(stmts) - {RAISE}:
            raise self.error(
                "A traced value decides about an error in a `try` whose `finally` jumps.",
                "Jump after the `try`.",
            )
        needs = frozenset().union(*(self.jumps.get(e, names.NONE) for e in outcome.exits))
        proceed(frame, outcome)
        done = self.region(stmts, {**self.live.jumps, NEXT: needs}).run(frame, frame.state)
        return Outcome(outcome.exit, {**outcome.state, **done.state}, outcome.value, outcome.exits)

    # ------------------------------------------------------------------ classes of errors

    def _classes(self, frame: LocalFrame, h: ast.ExceptHandler) -> Any:
        """The class that a handler names, or a tuple of them."""
        if h.type is None:
            return BaseException
        value = ast.copy_location(ast.Return(h.type), h.type)
        return self.region([value], {RETURN: names.NONE}).run(frame, frame.state).value

    def _fits(self, noted: Noted, kinds: Any) -> bool:
        fit = [issubclass(k, kinds) for k in noted.thrower.kinds]
        if not any(fit) and BaseException not in noted.thrower.kinds:
            return False
        if all(fit):
            return True
        raise self.error(
            "A traced value decides about an error that this `try` may or may not catch: its class "
            f"may be {' or '.join(k.__name__ for k in noted.thrower.kinds)}.",
            "Name the class where it is raised, `raise ValueError(...)`, or catch all of them.",
        )

    def _error(self, i: int, errors: list[Noted], error: Any) -> dict[str, Any]:
        """The error under the handler's name, if the handler reads it."""
        h = self.node.handlers[i]
        if h.name is None or h.name not in names.loads(_Again(h.name).block(h.body)):
            return {}
        tells = [getattr(e.thrower, "tells_origin", None) for e in errors]
        knows = tells == [True]
        if False in tells and _is_given_away(h):
            raise self.error(
                f"`{h.name}` was raised by a handler of errors that a traced value decides about: "
                "which of them it comes from is not known while the function is traced.",
                "Do not hand it on, or give each class a handler of its own.",
            )
        for node in (n for s in h.body for n in ast.walk(s)):
            name = getattr(node, "attr", None) or getattr(node, "value", None)  # or in a `getattr`
            if isinstance(name, str) and name in (_HERE if knows else _ORIGIN):
                raise self.error(
                    f"`{name}` of an error that a traced value decides about was asked for: "
                    "where it comes from is not known while the function is traced.",
                    "Catch errors of a class of their own instead.",
                )
        if error is None:
            raise self.error(
                f"`{h.name}` is an error that a traced value decides about: what it says is not "
                "known while the function is traced.",
                "Read the values that it is made of instead.",
            )
        return {h.name: error}


def _is_given_away(h: ast.ExceptHandler) -> bool:
    """Whether a handler does more with its error than to read its attributes and its text."""
    whole = [n for s in h.body for n in ast.walk(s)]
    fine: set[int] = set()
    for n in whole:
        if isinstance(n, ast.Attribute | ast.FormattedValue):
            fine.add(id(n.value))
        elif isinstance(n, ast.Raise):
            fine.update((id(n.exc), id(n.cause)))
        elif isinstance(n, ast.Call) and getattr(n.func, "id", None) in _READING:
            fine.update(map(id, n.args))
    return any(isinstance(n, ast.Name) and n.id == h.name and id(n) not in fine for n in whole)


_READING: Final = ("str", "repr", "print", "isinstance", "type")


def _exclusive(found: Sequence[Noted]) -> list[Noted]:
    """Errors of which a member has at most one: its first."""
    errors: list[Noted] = []
    before: Any = None
    for noted in found:
        bad = some(noted.bad)
        first = bad if before is None else bitwise_and(bad, bitwise_not(before))
        before = bad if before is None else bitwise_or(before, bad)
        errors.append(noted._replace(bad=first) if bad is noted.bad else noted)
    return errors


def _copied(node: Any, **parts: Any) -> Any:
    new = copy.copy(node)
    for name, value in parts.items():
        setattr(new, name, value)
    return new


class _Again:
    """The body of a handler, in which `raise` raises what is handled.

    Args:
        name: what the handler calls it.
    """

    def __init__(self, name: str | None) -> None:
        self.name = name

    def block(self, stmts: Sequence[ast.stmt]) -> list[ast.stmt]:
        """A statement list."""
        return [self._statement(s) for s in stmts]

    def _statement(self, s: ast.stmt) -> ast.stmt:
        if isinstance(s, ast.Raise):
            if s.exc is None or self._is_error(s.exc):
                node: Any = an_exit(s)
                node.is_again = True
                return node
            if not self._is_error(s.cause):
                return s
            node = _copied(s, cause=None)
            node.is_from_handled = True
            return node
        if isinstance(s, names.SCOPES):
            return s
        lists = [
            (field, value)
            for field, value in ast.iter_fields(s)
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt)
        ]
        return _copied(s, **{field: self.block(block) for field, block in lists})

    def _is_error(self, e: ast.expr | None) -> bool:
        return isinstance(e, ast.Name) and e.id == self.name

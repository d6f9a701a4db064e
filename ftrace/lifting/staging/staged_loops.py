"""Loops that a traced value may end, as the `while` row; and those of a traced length.

What a loop carries is found by staging its body: the names it binds that are needed later, less
those it leaves as they are, in the type that a further iteration does not change any more (`i = 0`
and then floats: a float). Arrays it writes are carried, too. A `break` or `return` adds a flag.

A loop that ran natively for some iterations is staged from its beginning: see `state.Mark`.

A few objects, or containers that an iteration changes, are no values that a traced number could
choose: such a `for` is staged iteration by iteration, each one where the last one went on.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from ftrace.core.device import to_host
from ftrace.core.nodes import kind_of
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.lifting.staging.carrying import ITEM, StagedLoop, TestFailed
from ftrace.lifting.staging.items import Items
from ftrace.lifting.staging.sites import Region, Site, renamed
from ftrace.lifting.state import names
from ftrace.lifting.state.changed_places import fields
from ftrace.lifting.state.local_state import LocalFrame, Outcome
from ftrace.lifting.state.names import BREAK, BROKEN, CONTINUE, NEXT, RETURN, Names
from ftrace.lifting.state.nesting import known_places, retried

UNROLLED: Final = 100  # iterations that are staged one by one
LOAD: Final = ast.Load()


class LoopSite(Site):
    """`while` and `for`."""

    # ------------------------------------------------------------------ syntax

    @cached_property
    def head(self) -> Names:
        """The names needed before each iteration."""
        return self.live.head(self.node, self.after)

    @cached_property
    def done(self) -> Names:
        """The names needed after the last iteration, if nothing broke the loop."""
        return self.live.done(self.node, self.after)

    @cached_property
    def awake(self) -> Names:
        """The names that an iteration reads before it binds them."""
        inner = self.live.within({BREAK: self.after, CONTINUE: self.head})
        return inner.before(self.turn, self.head)

    @cached_property
    def candidates(self) -> list[str]:
        """The names that an iteration may bind and others need."""
        bound = names.stores([*self.turn, *self.tests])
        needed = self.head | self.after | self.done
        return sorted(bound & needed & self.template.plain)

    @property
    def turn(self) -> list[ast.stmt]:
        """The statements of one iteration."""
        return self.node.body

    @property
    def tests(self) -> list[ast.expr]:
        """The test, if it is not always true."""
        return []

    @cached_property
    def body(self) -> Region:
        """One iteration."""
        live = {**self.live.jumps, BREAK: self.after, CONTINUE: self.head, NEXT: self.head}
        return self.template.region(self.turn, live, self.live.always, self.extra)

    extra: tuple[str, ...] = ()

    @cached_property
    def orelse(self) -> Region:
        """What runs when the loop was not broken."""
        return self.region(self.node.orelse, {**self.middle, BROKEN: self.after})

    # ------------------------------------------------------------------ staging

    def staged(self, frame: LocalFrame, *given: Any) -> Outcome:
        mark, *others = given
        if mark:
            frame = mark.frame

        def turned() -> Outcome:
            if mark:
                mark.restore()
                frame.hold(known_places())
            return self.turned(frame, *others)

        # whether what the native iterations did to containers is known, so that it was undone
        may_hold = not mark or mark.is_whole
        outcome = renamed(retried(frame, turned, may_hold), BREAK, BROKEN)
        if self.node.orelse:
            outcome = self.then(frame, outcome, self.orelse)
        return renamed(outcome, BROKEN, NEXT)

    def turned(self, frame: LocalFrame, *given: Any) -> Outcome:
        """The outcome of the loop without its `else`."""
        raise NotImplementedError

    def turns(self, frame: LocalFrame, items: Items | None) -> bool:
        """Whether it is known to iterate at least once."""
        raise NotImplementedError

    def describe(self, arm: int, name: str) -> str:
        return f"line {self.node.lineno}"


class WhileLoop(LoopSite):
    """`while`."""

    def __init__(self, *args: Any) -> None:
        """A test that binds names becomes the first statement of an iteration."""
        super().__init__(*args)
        if names.stores([self.node.test]) and not self.node.orelse:
            self.node = _endless(self.node)

    @cached_property
    def endless(self) -> "WhileLoop":
        """The same loop, whose test is the first statement of an iteration."""
        node = _endless(self.node)
        return WhileLoop(self.template, node, self.rest, self.live, self.after, self.final)

    @property
    def tests(self) -> list[ast.expr]:
        return [] if names.is_true(self.node.test) else [self.node.test]

    @cached_property
    def test(self) -> Region | None:
        """The test as a region."""
        if not self.tests:
            return None
        test = ast.copy_location(ast.Return(self.node.test), self.node.test)
        return self.region([test], {RETURN: names.NONE})

    def turned(self, frame: LocalFrame, *given: Any) -> Outcome:
        if names.stores([self.node.test]):
            raise self.error(
                "The test of a `while ... else` binds a name, and a traced value decides it.",
                "Assign the name in the body.",
            )
        try:
            return StagedLoop(self, frame, None).outcome()
        except TestFailed:
            if self.node.orelse:
                raise self.error(
                    "The test of a `while ... else` may raise an error, and a traced value "
                    "decides it.",
                    "Compute the test in the body.",
                ) from None
            return self.endless.turned(frame)

    def turns(self, frame: LocalFrame, items: Items | None) -> bool:
        first = self.test.run(frame, frame.state).value if self.test else True
        known = first.known(exact=False) if isinstance(first, Tracer) else first
        return known is not UNKNOWN and bool(to_host(known))


def _endless(s: ast.While) -> ast.While:
    stop = ast.If(ast.UnaryOp(ast.Not(), s.test), [ast.Break()], [])
    node = ast.While(ast.Constant(True), [stop, *s.body], [])
    return ast.fix_missing_locations(ast.copy_location(node, s))


class _Iteration:
    """The body of a loop, for one item."""

    def __init__(self, body: Region, item: Any) -> None:
        self._body, self._item = body, item
        self.live = body.live

    def run(self, frame: LocalFrame, state: Mapping[str, Any]) -> Outcome:
        """Run it on a state, in the current trace."""
        return self._body.run(frame, {**state, ITEM: self._item})


def _is_object(x: Any) -> bool:
    """Whether a value, or a part of a tuple, is an object that is no container."""
    if isinstance(x, tuple):
        return any(map(_is_object, x))
    return kind_of(type(x)) is None and fields(x) is not None


def _is_changeable(x: Any) -> bool:
    """Whether a value, or a part of a tuple, is an object or container that may be changed."""
    if isinstance(x, tuple):
        return any(map(_is_changeable, x))
    return (kind_of(type(x)) or fields(x)) is not None and x is not None


def _names(node: ast.expr) -> Iterator[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))


class ForLoop(LoopSite):
    """`for`."""

    extra = (ITEM,)
    test = None

    @property
    def turn(self) -> list[ast.stmt]:
        bound = ast.Assign([self.node.target], ast.Name(ITEM, ast.Load()))
        ast.copy_location(bound, self.node.target)
        return [ast.fix_missing_locations(bound), *self.node.body]

    def turned(self, frame: LocalFrame, *given: Any) -> Outcome:
        items = given[0]
        items.alone()  # before its length is asked for, which takes what is left of an iterator
        if type(items.length) is int and 0 < items.length <= UNROLLED:
            asks = _is_changeable if self.changes_items else _is_object
            if any(map(asks, items.values())):
                return self._unrolled(frame, list(items))
        return StagedLoop(self, frame, items.prepared()).outcome()

    def _unrolled(self, frame: LocalFrame, values: Sequence[Any]) -> Outcome:
        first, *others = (_Iteration(self.body, v) for v in values)
        outcome = renamed(first.run(frame, frame.state), CONTINUE, NEXT)
        for iteration in others:
            outcome = renamed(self.then(frame, outcome, iteration), CONTINUE, NEXT)
        return outcome

    @cached_property
    def changes_items(self) -> bool:
        """Whether an iteration changes what its target is bound to, or calls a method of it."""
        bound = names.stores([self.node.target])
        nodes = [n for s in self.node.body for n in ast.walk(s)]
        targets = [n for n in nodes if not isinstance(getattr(n, "ctx", LOAD), ast.Load)]
        targets += [n.func for n in nodes if isinstance(n, ast.Call)]
        return any(
            isinstance(n, ast.Attribute | ast.Subscript) and not bound.isdisjoint(_names(n.value))
            for n in targets
        )

    def turns(self, frame: LocalFrame, items: Items | None) -> bool:
        length = None if items is None else items.length
        return type(length) is int and length > 0

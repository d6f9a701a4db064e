"""Sites: the places of a function where a traced value may decide, and how each is staged.

A site knows its statement, what follows it, and which names are needed afterwards. It compiles
regions of the function when it is first undecided. A statement that nothing jumps out of gives
`results`; one with jumps takes what follows into its regions and gives the whole `outcome`.
Loops are in `staged_loops.py`.
"""

import ast
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ftrace.control.rows.raising import fail_where, innermost
from ftrace.core.errors import LiftError, ShapeError
from ftrace.core.tree import LEAF
from ftrace.lifting.staging.conditional_values import connected
from ftrace.lifting.staging.merging import Arm, Merge
from ftrace.lifting.state import names
from ftrace.lifting.state.leaves import truth
from ftrace.lifting.state.local_state import MISSING, LocalFrame, Outcome
from ftrace.lifting.state.names import NEXT, RAISE, RETURN, Liveness, Names
from ftrace.lifting.state.nesting import entered, proceed, retried
from ftrace.lifting.state.roots import is_over_arrays
from ftrace.primitives.compare import bitwise_not, eq, select

Way = Callable[[Mapping[str, Any]], Outcome]  # what runs an arm on a state


class Region:
    """Statements compiled as a function of the local names they use, which gives an outcome.

    Attributes:
        live: exit -> the names needed there.
        text: its source.
    """

    __slots__ = ("_code", "_params", "live", "text")

    def __init__(
        self, code: types.CodeType, params: tuple[str, ...], live: dict[int, Names], text: str
    ) -> None:
        self._code, self._params = code, params
        self.live = live
        self.text = text

    def run(self, frame: LocalFrame, state: Mapping[str, Any]) -> Outcome:
        """Run it on a state, in the current trace."""
        frame.write(state)
        outcome = self.call(frame, state)
        needed = frozenset().union(*(self.live.get(e, names.NONE) for e in outcome.exits))
        kept = {n: state[n] for n in needed if n in state and n not in self._params}
        kept.update((n, v) for n, v in outcome.state.items() if n in needed)
        plain = {n: v for n, v in kept.items() if n not in frame.cells}
        outcome.state = {**plain, **frame.read()}
        return outcome

    def call(self, frame: LocalFrame, state: Mapping[str, Any]) -> Outcome:
        """The same, with the cells as they are."""
        closure = tuple(frame.cells[name] for name in self._code.co_freevars)
        fn = types.FunctionType(self._code, frame.globals, None, None, closure)
        return fn(*(state.get(p, MISSING) for p in self._params))


def give_up() -> None:
    """The end of a function that has an error for some members: its caller asks again."""
    found = innermost()
    if found is not None:
        found.asked = 0


def renamed(outcome: Outcome, old: int, new: int) -> Outcome:
    """An outcome with another number for an exit."""
    if old not in outcome.exits:
        return outcome
    exits = (outcome.exits - {old}) | {new}
    way = outcome.exit
    if len(exits) > 1:
        way = select(eq(way, old), np.int64(new), way)
    return Outcome(way, outcome.state, outcome.value, exits, outcome.chosen)


class Site:
    """A statement or expression that a traced value may decide.

    Attributes:
        node: its syntax.
        rest: the statements that follow, to the end of the emitted function.
        live: where jumps lead.
        after: the names needed after it.
        final: the names needed at the end of the emitted function.
        stored: the names it may bind.
        results_of: the names that `results` gives.
        blocked: a construct that keeps `rest` from being staged.
    """

    def __init__(
        self,
        template: Any,
        node: Any,
        rest: Sequence[ast.stmt],
        live: Liveness | None,
        after: Names,
        final: Names,
    ) -> None:
        self.template = template
        self.node = node
        self.rest = tuple(rest)
        self.live = live or Liveness({})
        self.after = after
        self.final = final
        self.stored = names.stores([node])
        self.results_of: tuple[str, ...] = ()
        self.blocked: ast.stmt | None = None

    # ------------------------------------------------------------------ verbs of emitted code

    def results(self, *args: Any) -> tuple[Any, ...]:
        """Stage a statement that nothing jumps out of; the values of the names it changes."""
        *given, local, probe = args
        frame = LocalFrame(local, probe)
        outcome = self.tried(self.staged, frame, *given)
        return tuple(outcome.state.get(n, MISSING) for n in self.results_of)

    def outcome(self, *args: Any) -> Outcome:
        """Stage a statement with jumps and all that follows it."""
        *given, local, probe = args
        if self.blocked is not None:
            around = innermost()
            if around is not None and isinstance(self.blocked, names.TRIES):
                around.interrupt()
            raise self._crosses(self.blocked)
        frame = LocalFrame(local, probe)
        return self.tried(self.finished, frame, *given)

    def value(self, *args: Any) -> Any:
        """What the function returns, from here on."""
        outcome = self.outcome(*args)
        if RAISE in outcome.exits:
            give_up()
        return outcome.value

    def tried(self, stage: Callable[..., Outcome], frame: LocalFrame, *given: Any) -> Outcome:
        """The outcome of a way to stage this site."""
        with entered(self.template, self.node):
            outcome = stage(frame, *given)
            proceed(frame, outcome)
            return outcome

    def staged(self, frame: LocalFrame, *given: Any) -> Outcome:
        """The outcome of the statement alone."""
        raise NotImplementedError

    def finished(self, frame: LocalFrame, *given: Any) -> Outcome:
        """The outcome of the statement and what follows it."""
        return self.then(frame, self.staged(frame, *given), self.tail)

    # ------------------------------------------------------------------ parts

    @cached_property
    def ends(self) -> dict[int, Names]:
        """Exit -> names needed there, at the end of the emitted function."""
        return {**self.live.jumps, NEXT: self.final}

    @cached_property
    def middle(self) -> dict[int, Names]:
        """Exit -> names needed there, at the end of this statement."""
        return {**self.live.jumps, NEXT: self.after}

    @cached_property
    def tail(self) -> Region:
        """What follows the statement."""
        return self.region(self.rest, self.ends)

    def region(self, stmts: Sequence[ast.stmt], live: dict[int, Names]) -> Region:
        """Compile statements of the function."""
        return self.template.region(stmts, live, self.live.always)

    def then(self, frame: LocalFrame, outcome: Outcome, tail: Any) -> Outcome:
        """Run a region after an outcome, where that fell through."""
        if NEXT not in outcome.exits:
            return outcome
        proceed(frame, outcome)
        if outcome.exits == frozenset({NEXT}):
            return tail.run(frame, frame.state)
        others = outcome.exits - {NEXT}
        falls = eq(outcome.exit, 0)

        def kept(state: Mapping[str, Any]) -> Outcome:
            held = {**frame.read(), **outcome.state}  # also the places that the region changes
            return Outcome(outcome.exit, held, outcome.value, others)

        return self.merged(frame, falls, (lambda s: tail.run(frame, s), kept), tail.live)

    def merged(
        self,
        frame: LocalFrame,
        pred: Any,
        runs: tuple[Way, Way],
        needs: Mapping[int, Names],
        read: Sequence[Names | None] = (None, None),
    ) -> Outcome:
        """One of two arms, staged again where these change places.

        Args:
            frame, pred: the state, and what decides.
            runs: the arms.
            needs: exit -> the names needed there.
            read: the names that others than each arm read.
        """

        def stage() -> Outcome:
            one, other = (Arm(frame, r, own) for r, own in zip(runs, read, strict=True))
            larger = _larger(one, other) if is_over_arrays(frame.globals.get("__name__")) else None
            if larger is not None:
                fail_where(pred if larger else bitwise_not(pred), (), _is_smaller)
                outcome = runs[larger](frame.state)
                proceed(frame, outcome)
                return outcome
            merge = Merge((one, other), needs, self.describe)
            outcome = merge.decided(frame, pred)
            self.template.helper.unbind(merge.unbound)
            return outcome

        return retried(frame, stage)

    def describe(self, arm: int, name: str) -> str:
        """Where an arm binds a name."""
        return f"line {self.node.lineno}"

    def error(self, what: str, fix: str) -> LiftError:
        """A `LiftError` at this line."""
        return self.template.error(self.node, what, fix)

    def _crosses(self, blocked: ast.stmt) -> LiftError:
        word = {"With": "with", "Try": "try", "TryStar": "try"}[type(blocked).__name__]
        return self.error(
            f"A traced value decides about a return, break or continue out of the `{word}` of "
            f"line {blocked.lineno}.",
            f"Assign the result to a variable in the `{word}` and jump after it.",
        )


def _runs(frame: LocalFrame, regions: Sequence[Region]) -> tuple[Way, Way]:
    """Two regions as arms."""
    first, second = ((lambda s, r=r: r.run(frame, s)) for r in regions)
    return first, second


def _larger(one: Arm, other: Arm) -> int | None:
    """Which arm makes all arrays larger that both make, 0 or 1, if one does.

    Array libraries leave out what an equality with zero says is nothing. It hardly ever holds: the
    larger arrays are right, or it is an error.
    """
    parts = [(a, other.parts[key]) for key, a in one.parts.items() if key in other.parts]
    leaves = [(a.leaves[0], b.leaves[0]) for a, b in parts if a.tree == b.tree == LEAF]
    shapes = [(a.aval.shape, b.aval.shape) for a, b in leaves if a.aval and b.aval]
    found = {(_is_within(a, b), _is_within(b, a)) for a, b in shapes if a != b}
    if found == {(True, False)}:
        return 1
    return 0 if found == {(False, True)} else None


def _is_within(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return len(a) == len(b) and all(map(operator.le, a, b))


def _is_smaller() -> None:
    raise ShapeError(
        "numpy.polynomial leaves out coefficients that are zero, and those of a traced polynomial "
        "are: the shape of the result would depend on values.",
        "Pass coefficients of which the last is not zero, or the polynomial as plain values.",
    )


class BranchSite(Site):
    """`if`."""

    def staged(self, frame: LocalFrame, *given: Any) -> Outcome:
        return self._chosen(frame, given[0], (self.node.body, self.node.orelse), self.middle)

    def finished(self, frame: LocalFrame, *given: Any) -> Outcome:
        """What follows moves into the arm that reaches it; if both do, it comes after them."""
        arms = (self.node.body, self.node.orelse)
        if all(map(names.completes, arms)):
            return super().finished(frame, *given)
        one, other = ([*b, *self.rest] if names.completes(b) else b for b in arms)
        return self._chosen(frame, given[0], (one, other), self.ends)

    def _chosen(
        self, frame: LocalFrame, test: Any, arms: tuple[Any, Any], live: dict[int, Names]
    ) -> Outcome:
        pred = truth(test)
        regions = [self._region(i, arm, live) for i, arm in enumerate(arms)]
        later = self.live.always.union(self.template.shared, *live.values())
        read = [later | names.loads(arm) for arm in reversed(arms)]
        return self.merged(frame, pred, _runs(frame, regions), live, read)

    def _region(self, i: int, stmts: Sequence[ast.stmt], live: dict[int, Names]) -> Region:
        cache = self.__dict__.setdefault("_regions", {})
        key = (i, live is self.ends)
        if key not in cache:
            cache[key] = self.region(stmts, live)
        return cache[key]

    def describe(self, arm: int, name: str) -> str:
        block = (self.node.body, self.node.orelse)[arm]
        bound: list[Any] = [n for s in block for n in ast.walk(s) if _binds(n, name)]
        lines = [n.lineno for n in bound]
        return f"line {max(lines)}" if lines else f"the other side of line {self.node.lineno}"


def _binds(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Store)
    if isinstance(node, ast.Return):
        return " " in name
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name


# ---------------------------------------------------------------------------------- expressions


class Expression(Site):
    """An expression; its regions return it."""

    def _result(self, *parts: ast.expr) -> list[Region]:
        for part in parts:
            for n in ast.walk(part):
                if isinstance(n, ast.NamedExpr) and not n.target.id.startswith("_ft_"):
                    raise self.template.error(
                        n,
                        f"`{n.target.id} := ...` stands where a traced value decides whether it "
                        "is evaluated.",
                        "Assign the variable in a statement of its own before.",
                    )
        cache = self.__dict__.setdefault("_regions", [])
        if not cache:
            returns = [ast.copy_location(ast.Return(p), p) for p in parts]
            cache.extend(self.region([r], {RETURN: names.NONE}) for r in returns)
        return cache

    def choose(self, test: Any, local: Any, probe: Any) -> Any:
        """The value of the expression, whose first part is `test`."""
        frame = LocalFrame(local, probe)
        return self.tried(self.staged, frame, test).value


class Choice(Expression):
    """`a if test else b`."""

    def staged(self, frame: LocalFrame, *given: Any) -> Outcome:
        pred = truth(given[0])
        arms = self.node.body, self.node.orelse
        returned = getattr(
            self.node, "is_returned", False
        )  # this function reads nothing after that
        later = self.template.shared
        read = [later | names.loads([arm]) if returned else None for arm in reversed(arms)]
        return self.merged(frame, pred, _runs(frame, self._result(*arms)), {}, read)


class Connective(Expression):
    """`first and rest`, `first or rest`; `node` is the rest.

    Attributes:
        short: the truth of `first` for which the rest is not evaluated.
    """

    short = False

    def staged(self, frame: LocalFrame, *given: Any) -> Outcome:
        (first,) = given
        (region,) = self._result(self.node)

        def stage() -> Outcome:
            rest = Arm(frame, lambda s: region.run(frame, s))
            return connected(frame, first, rest, self.short)

        return retried(frame, stage)


class And(Connective):
    """`first and rest`."""


class Or(Connective):
    """`first or rest`."""

    short = True

"""Two outcomes become one: values by the `cond` row, everything else by being the same.

Each arm is staged by itself. Then name by name, leaf by leaf: what both arms leave as it is, or
bind to the same object, stays Python's; arrays and numbers that differ become results of the
`cond`, in the type both promote to; anything else that differs is an error. What an arm does not
need at its exit is filled with zeros.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ftrace.control.cond import cond_call
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import is_array
from ftrace.core.dtypes import bool_, int64
from ftrace.core.errors import LiftError
from ftrace.core.jaxpr import Jaxpr, Literal, Var, eval_jaxpr
from ftrace.core.scalar import Pointwise
from ftrace.core.trace import Tracer, ctx
from ftrace.interpreters.dce import dce_equations
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import hoist_consts, trace_closed, trace_to_jaxpr
from ftrace.lifting.leaves import (
    INSIDE,
    Leaf,
    Part,
    converted,
    filler,
    joined,
    same,
    take_apart,
    words_of,
)
from ftrace.lifting.names import RAISE, RETURN, Names
from ftrace.lifting.state import Frame, Inner, Outcome, is_writable
from ftrace.lifting.watching import Watch
from ftrace.numpy.cells import replace
from ftrace.numpy.views import partner
from ftrace.primitives.compare import select
from ftrace.primitives.convert import convert_element_type

VALUE: Final = "the returned value"  # the key of what an arm returns; no name has blanks
EXIT: Final = "the exit"
CHEAP: Final = 8  # equations that are evaluated where they are not needed


# ---------------------------------------------------------------------------------- arms


class Arm:
    """A staged region: its jaxpr, whose inputs are all captured, and what its outputs mean."""

    __slots__ = ("contents", "exit", "exits", "jaxpr", "operands", "parts", "roots", "written")

    def __init__(self, frame: Frame, run: Callable[[Mapping[str, Any]], Outcome]) -> None:
        inner = Inner(frame.state)
        self.roots = inner.roots
        watch = Watch(frame)

        def flat() -> list[Any]:
            inner.enter(ctx.trace.lift)
            with frame.restored(), watch.unchanged():
                outcome = run(inner.inside(frame.state))
            outs: list[Any] = []
            outer = inner.outside()
            self.exits, self.exit = outcome.exits, outcome.exit
            values = dict(outcome.state)
            if RETURN in outcome.exits:
                values[VALUE] = outcome.value
            if isinstance(outcome.exit, Tracer):
                values[EXIT] = outcome.exit
            self.parts = {n: take_apart(v, outs, outer) for n, v in values.items()}
            self.written = {id(root) for root, _ in inner.changed()}
            self.contents = {id(root): len(outs) + i for i, root in enumerate(inner.roots)}
            return [*outs, *inner.copies]

        jaxpr, tracers = trace_to_jaxpr(flat, ())
        self.jaxpr, arrays = hoist_consts(jaxpr)
        self.operands = [*arrays, *tracers]

    def output(self, leaf: Leaf) -> int:
        """Which output a leaf is; a value from outside becomes one."""
        if leaf.index is None:
            leaf.index = len(self.jaxpr.outvars)
            jaxpr = self.jaxpr
            atom = self._operand(leaf.value)
            self.jaxpr = Jaxpr(self.jaxpr.invars, jaxpr.eqns, (*jaxpr.outvars, atom))
        return leaf.index

    def _operand(self, value: Any) -> Any:
        """The atom of a value from outside: an input of this arm, or a number."""
        if not (isinstance(value, Tracer) or is_array(value)):
            return Literal(value)
        for v, x in zip(self.jaxpr.invars, self.operands, strict=True):
            if x is value:
                return v
        jaxpr, new = self.jaxpr, Var(typeof(value))
        self.operands.append(value)
        self.jaxpr = Jaxpr((*jaxpr.invars, new), jaxpr.eqns, jaxpr.outvars)
        return new

    def is_cheap_test(self) -> bool:
        """Whether it gives one boolean by a few operations that cannot fail."""
        if set(self.parts) != {VALUE} or self.written:
            return False
        (leaf,) = self.parts[VALUE].leaves or [None]
        plain = leaf is not None and leaf.aval in (aval((), bool_), aval((), bool_, True))
        return plain and is_cheap(self.jaxpr)

    def test(self) -> Any:
        """The boolean that it gives, in the current trace."""
        i = self.output(self.parts[VALUE].leaves[0])
        return eval_jaxpr(self.jaxpr, self.operands)[i]

    def branch(
        self, picks: Sequence[tuple[int | None, Any]], wanted: Sequence[ShapedArray]
    ) -> Jaxpr:
        """The jaxpr of some outputs, of these types.

        Args:
            picks: (output, -) or (None, the number it is instead, or None for a filler).
            wanted: their types.
        """
        jaxpr = self.jaxpr
        outs = jaxpr.outvars
        direct = [
            outs[i] if i is not None else Literal(v)
            for i, v in picks
            if i is not None or (v is not None)
        ]
        if len(direct) == len(picks) and all(
            x.aval == a for x, a in zip(direct, wanted, strict=True)
        ):
            return Jaxpr(jaxpr.invars, dce_equations(jaxpr.eqns, direct), direct)

        def chosen(*args: Any) -> list[Any]:
            values = eval_jaxpr(jaxpr, args)
            return [
                converted(values[i] if i is not None else v, a)
                if i is not None or v is not None
                else filler(a)
                for (i, v), a in zip(picks, wanted, strict=True)
            ]

        return trace_closed(chosen, jaxpr.in_avals)


# ---------------------------------------------------------------------------------- merging


class Merge:
    """The join of two arms under a predicate.

    Args:
        describe: (arm, name) -> where the arm binds the name, for messages.
        needs: exit -> the names needed there.
    """

    def __init__(
        self,
        arms: tuple[Arm, Arm],
        needs: Mapping[int, Names],
        describe: Callable[[int, str], str],
    ) -> None:
        self.arms = arms
        self.needs = needs
        self.describe = describe
        self.picks: list[tuple[Any, Any, Any]] = []  # (of arm 0, of arm 1, type)
        self.shared: list[tuple[int, Any]] = []  # results that may be these values from outside
        self.unbound: dict[str, str] = {}

    def outcome(self, pred: Any) -> Outcome:
        """The outcome of whichever arm `pred` chooses (the first where it holds)."""
        a, b = self.arms
        exits = (a.exits | b.exits) - {RAISE} or frozenset({RAISE})
        plans = {key: self._plan(key) for key in sorted({*a.parts, *b.parts} - {EXIT})}
        way = self._exit_plan()
        written = [r for r in a.roots if id(r) in a.written | b.written]
        for root in written:
            i, j = a.contents[id(root)], b.contents[id(root)]
            self.picks.append(((i, None), (j, None), typeof(root)))
        results = self._bind(pred)
        state = {key: plan(results) for key, plan in plans.items() if plan is not None}
        for root, new in zip(written, results[len(results) - len(written) :], strict=True):
            replace(root, new, "A branch")
        for i, outer in self.shared:
            if isinstance(outer, Tracer) and is_writable(outer):
                partner(outer, results[i])
        value = state.pop(VALUE, None)
        return Outcome(way(results), state, value, exits)

    def _needed(self, arm: Arm, key: str) -> bool:
        if key == VALUE:
            return RETURN in arm.exits
        return any(key in self.needs.get(e, ()) for e in arm.exits)

    def _plan(self, key: str) -> Any:
        """A function of the results of the `cond` that gives the value of a name."""
        parts = [arm.parts.get(key) for arm in self.arms]
        wanted = [self._needed(arm, key) for arm in self.arms]
        for i in (0, 1):
            mine, other = parts[i], parts[1 - i]
            if mine is None and wanted[i]:
                self.unbound[key] = (
                    f"`{key}` is bound on one side of a decision of traced values "
                    f"({self.describe(1 - i, key)}) and not on the other"
                )
                return None
            if mine is None or (not wanted[i] and not _alike(mine, other)):
                return self._alone(1 - i, other)
        return self._both(key, parts[0], parts[1])

    def _alone(self, i: int, part: Part | None) -> Any:
        """The value of one arm; the other never needs it."""
        if part is None:
            return None
        plans = [self._lone_leaf(i, leaf) for leaf in part.leaves]
        return lambda results: part.tree.unflatten([p(results) for p in plans])

    def _lone_leaf(self, i: int, leaf: Leaf) -> Any:
        if leaf.value is not INSIDE or leaf.aval is None:
            return lambda results, v=leaf.value: v
        mine, none = (leaf.index, None), (None, None)
        return self._pick(*((mine, none) if i == 0 else (none, mine)), leaf.aval)

    def _both(self, key: str, a: Part, b: Part) -> Any:
        if a.tree != b.tree:
            raise self._differs(key, a.words(), b.words())
        plans = [self._leaf(key, x, y) for x, y in zip(a.leaves, b.leaves, strict=True)]
        tree = a.tree
        return lambda results: tree.unflatten([p(results) for p in plans])

    def _leaf(self, key: str, a: Leaf, b: Leaf) -> Any:
        if same(a.value, b.value):
            return lambda results, v=a.value: v
        wanted = None if a.aval is None or b.aval is None else joined(a.aval, b.aval)
        if wanted is None:
            raise self._differs(key, words_of(a), words_of(b))
        mine, other = self.arms
        self.shared += [(len(self.picks), leaf.value) for leaf in (a, b)]
        return self._pick((mine.output(a), None), (other.output(b), None), wanted)

    def _pick(self, a: Any, b: Any, wanted: ShapedArray) -> Any:
        n = len(self.picks)
        self.picks.append((a, b, wanted))
        return lambda results: results[n]

    def _exit_plan(self) -> Any:
        """The exit: known if both arms leave alike, or one of them raises."""
        a, b = (arm.exit for arm in self.arms)
        if self.arms[0].exits == {RAISE} and EXIT not in self.arms[1].parts:
            return lambda results: b
        if self.arms[1].exits == {RAISE} and EXIT not in self.arms[0].parts:
            return lambda results: a
        if type(a) is int and type(b) is int and a == b:
            return lambda results: a
        one, other = map(_exit_pick, self.arms)
        return self._pick(one, other, aval((), int64))

    def _differs(self, key: str, one: str, other: str) -> LiftError:
        name = key if key == VALUE else f"`{key}`"
        return LiftError(
            f"{name} is {one} on one side of a decision of traced values "
            f"({self.describe(0, key)}) and {other} on the other ({self.describe(1, key)}).",
            "Give it the same type on both sides: the same containers, and arrays of the same "
            "shape (numpy.broadcast_to, zeros_like). Numbers are promoted.",
        )

    def _bind(self, pred: Any) -> list[Any]:
        """Bind the `cond`: the picked outputs, in order."""
        wanted = [a for _, _, a in self.picks]
        branches = [
            arm.branch([pick[i] for pick in self.picks], wanted) for i, arm in enumerate(self.arms)
        ]
        if not wanted and not any(b.effects for b in branches):
            return []
        chosen = _selected(pred, branches, [arm.operands for arm in self.arms], wanted)
        if chosen is not None:
            return chosen
        operands, (first, second) = common_inputs(
            list(zip(branches, [arm.operands for arm in self.arms], strict=True))
        )
        index = convert_element_type(pred, new_dtype=int64)
        with quietly():
            return cond_call(index, *operands, branches=(second, first))


def _exit_pick(arm: Arm) -> tuple[int | None, Any]:
    part = arm.parts.get(EXIT)
    return (None, arm.exit) if part is None else (arm.output(part.leaves[0]), None)


def is_cheap(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr is a few elementwise operations: it may as well be evaluated."""
    return len(jaxpr.eqns) <= CHEAP and all(
        isinstance(e.primitive.lower, Pointwise) and not e.effects for e in jaxpr.eqns
    )


def _alike(a: Part, b: Part | None) -> bool:
    """Whether two parts could be merged."""
    if b is None or a.tree != b.tree:
        return False
    return all(
        same(x.value, y.value) or (x.aval and y.aval and joined(x.aval, y.aval))
        for x, y in zip(a.leaves, b.leaves, strict=True)
    )


def _selected(
    pred: Any, branches: Sequence[Jaxpr], operands: Sequence[Sequence[Any]], wanted: Sequence[Any]
) -> list[Any] | None:
    """The results by `select`, where both arms only choose between numbers."""
    if any(b.eqns for b in branches) or any(
        a.shape or (a.weak and a.dtype != bool_) for a in wanted
    ):
        return None
    sides = [eval_jaxpr(b, xs) for b, xs in zip(branches, operands, strict=True)]
    return [select(pred, x, y) for x, y in zip(*sides, strict=True)]


def common_inputs(
    staged: Iterable[tuple[Jaxpr, Sequence[Any]]],
) -> tuple[list[Any], list[Jaxpr]]:
    """Jaxprs that all take the captured values of all of them, each once, and no unused one.

    Args:
        staged: jaxprs with their captured values, which are their leading inputs.
    """
    staged = list(staged)
    order: dict[int, Any] = {}
    for jaxpr, values in staged:
        read = {v for e in jaxpr.eqns for v in e.invars} | set(jaxpr.outvars)
        for v, x in zip(jaxpr.invars, values, strict=False):
            if v in read:
                order.setdefault(id(x), x)
    made: list[Jaxpr] = []
    for jaxpr, values in staged:
        own = {id(x): v for v, x in zip(jaxpr.invars, values, strict=False)}
        leading = [own.get(key) or Var(typeof(x)) for key, x in order.items()]
        trailing = jaxpr.invars[len(values) :]
        made.append(Jaxpr([*leading, *trailing], jaxpr.eqns, jaxpr.outvars))
    return list(order.values()), made

"""Two outcomes become one: values by the `cond` row, everything else by being the same.

Each arm is staged by itself. Then name by name, leaf by leaf: what both arms leave as it is, or
bind to the same object, stays Python's; arrays and numbers that differ become results of the
`cond`, in the type both promote to; anything else that differs is an error. What an arm does not
need at its exit is filled with zeros.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final

from ftrace.control.forms.narrow_arms import branch
from ftrace.control.rows.raising import Errors, bind_again, in_region, without_errors
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import is_array
from ftrace.core.dtypes import bool_, int64
from ftrace.core.errors import FtraceError, LiftError
from ftrace.core.jaxpr import Jaxpr, Literal, Var, eval_jaxpr
from ftrace.core.lower import Pointwise
from ftrace.core.trace import UNKNOWN, Tracer, ctx
from ftrace.interpreters.dce import dce_equations
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import hoist_consts, trace_closed, trace_to_jaxpr
from ftrace.lifting.state.changed_places import PlaceName, misplaced
from ftrace.lifting.state.leaves import (
    INSIDE,
    LEAF,
    Leaf,
    LeafSharing,
    Part,
    built_alike,
    converted,
    difference,
    filler,
    joined,
    same,
    take_apart,
    words_of,
    words_or_nothing,
)
from ftrace.lifting.state.local_state import LocalFrame, Outcome, Written
from ftrace.lifting.state.names import RAISE, RETURN, Names
from ftrace.lifting.state.nesting import proceed
from ftrace.lifting.state.throwing import fail_with
from ftrace.lifting.state.watching import RegionWatch, held_by, note_chosen
from ftrace.numpy.cells import push, put
from ftrace.numpy.layouts import joint_layout
from ftrace.numpy.scalar_classes import asked, chosen_classes, marked, told
from ftrace.numpy.views import Way, as_cell, chosen, nowhere_else, partner
from ftrace.primitives.compare import bitwise_not, select_branch
from ftrace.primitives.convert import convert_element_type

_ALIKE: Final = (
    "Give it the same type on both sides: the same containers, keys in the same order, and arrays "
    "of the same shape (numpy.broadcast_to, zeros_like). Numbers are promoted. Of objects choose "
    "the values, `P(a if c else b)`, or make their class a container: a dataclass, or "
    "register_pytree_node."
)
_NO_NONE: Final = (
    "None is no value that compiled code can choose: give a number on both sides (numpy.nan, 0.0), "
    "and where `is None` is asked later, ask the condition itself."
)
VALUE: Final = "the returned value"  # the key of what an arm returns; no name has blanks
EXIT: Final = "the exit"
_BOOL: Final = aval((), bool_)
CHEAP: Final = 8  # equations that are evaluated where they are not needed


# ---------------------------------------------------------------------------------- arms


class Arm:
    """A staged region: its jaxpr, whose inputs are all captured, and what its outputs mean."""

    __slots__ = (
        "added",
        "contents",
        "errors",
        "exit",
        "exits",
        "followed",
        "jaxpr",
        "operands",
        "parts",
        "sharing",
        "written",
    )
    exits: Any
    parts: dict[str, Any]

    def __init__(
        self,
        frame: LocalFrame,
        run: Callable[[Mapping[str, Any]], Outcome],
        read: Set[str] | None = None,
    ) -> None:
        watch, written = RegionWatch(frame, read), Written()

        def region() -> list[Any]:
            outs: list[Any] = []
            try:
                with watch.unchanged(), frame.restored():
                    outcome, self.followed = in_region(lambda: run(frame.state))
                    watch.check()
                    self._end(frame, outcome, outs)  # what containers hold is put back after that
            except FtraceError:
                raise
            except Exception as error:  # only who takes this arm has it
                fail_with(error)
                self.followed = False
                self._end(frame, Outcome(RAISE, {}), outs)
            leaves = [leaf for part in self.parts.values() for leaf in part.leaves]
            for leaf in leaves:
                leaf.leave(outs)
            self.sharing = LeafSharing(leaves, outs)
            self.written = written.roots()
            self.contents = {id(root): len(outs) + i for i, root in enumerate(self.written)}
            return [ctx.trace.lift(x) for x in (*outs, *self.written)]

        def flat() -> list[Any]:
            with written.entered():
                return region()

        jaxpr, tracers = trace_to_jaxpr(flat, ())
        jaxpr, arrays = hoist_consts(jaxpr)
        self.jaxpr, self.errors = without_errors(jaxpr)
        self.operands = [*arrays, *tracers]

    def _end(self, frame: LocalFrame, outcome: Outcome, outs: list[Any]) -> None:
        """Take apart what an outcome binds; what the region computed is appended to `outs`."""
        self.exits, self.exit, self.added = outcome.exits, outcome.exit, frame.added()
        values = dict(outcome.state)
        if RETURN in outcome.exits:
            values[VALUE] = outcome.value
        if isinstance(outcome.exit, Tracer):
            values[EXIT] = outcome.exit
        self.parts = {n: take_apart(v, outs) for n, v in values.items()}
        older = set(map(id, frame.state.values()))
        for part in self.parts.values():
            part.is_older = id(part.whole) in older

    def output(self, leaf: Leaf) -> int:
        """Which output a leaf is; a value from outside becomes one."""
        if leaf.index is None:
            leaf.index = len(self.jaxpr.outvars)
            jaxpr = self.jaxpr
            atom = self._operand(leaf.value)
            self.jaxpr = Jaxpr(self.jaxpr.invars, jaxpr.eqns, (*jaxpr.outvars, atom))
        return leaf.index

    def is_python(self, leaf: Leaf) -> tuple[int | None, Any]:
        """The pick that says whether a leaf is a Python number."""
        known = asked(leaf.classes.is_python) if leaf.is_python is None else None
        if isinstance(known, Tracer):
            leaf.is_python = self.output(Leaf(known, None, None))
        return (None, known) if leaf.is_python is None else (leaf.is_python, None)

    def _operand(self, value: Any) -> Any:
        """The atom of a value from outside: an input of this arm, or a number."""
        if not (isinstance(value, Tracer) or is_array(value)):
            return Literal(value)
        for v, x in zip(self.jaxpr.invars, self.operands, strict=True):
            if x is value:
                return v
        note_chosen(value)
        jaxpr, new = self.jaxpr, Var(typeof(value))
        self.operands.append(value)
        self.jaxpr = Jaxpr((*jaxpr.invars, new), jaxpr.eqns, jaxpr.outvars)
        return new

    def is_cheap_test(self) -> bool:
        """Whether it gives one boolean by a few operations that cannot fail."""
        if set(self.parts) != {VALUE} or self.written or self.errors:
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
        self.follows = RAISE in needs  # an error is an exit
        self.describe = describe
        self.picks: list[tuple[Any, Any, Any]] = []  # (of arm 0, of arm 1, type)
        self.links: list[Link] = []  # results that are arrays
        self.exports: dict[tuple[int, int], int] = {}  # (arm, output) -> pick of a cell, an index
        self.unbound: dict[str, str] = {}
        self.copies: dict[tuple[int, int], Callable[[list[Any]], Any]] = {}  # of containers
        self.chosen: list[tuple[Any, Sequence[Any]]] = []  # a copy, and the two it may be

    def outcome(self, pred: Any) -> Outcome:
        """The outcome of whichever arm `pred` chooses (the first where it holds)."""
        a, b = self.arms
        exits = a.exits | b.exits
        if not self.follows:
            exits = exits - {RAISE} or frozenset({RAISE})
        plans = {key: self._plan(key) for key in sorted({*a.parts, *b.parts} - {EXIT})}
        for one, other in misplaced(a.added, b.added):
            raise self._differs(one.name, f"bound before `{other.name}`", "after it")
        way = self._exit_plan()
        written = list({id(r): r for r in (*a.written, *b.written)}.values())
        first = len(self.picks)
        for root in written:
            self.picks.append((self._content(0, root), self._content(1, root), typeof(root)))
        errors = [self._error(i, e) for i, arm in enumerate(self.arms) for e in arm.errors]
        results, self.pred = self._bind(pred), pred
        followed = self.follows and all(arm.followed for arm in self.arms)
        bind_again([e.noted(results) for e in errors], followed)
        state = {key: plan(results) for key, plan in plans.items() if plan is not None}
        for root, new in zip(written, results[first:], strict=False):
            put(root, new)
        push(written)
        self._relate(pred, results)
        value = state.pop(VALUE, None)
        return Outcome(way(results), state, value, exits, self.chosen)

    def decided(self, frame: LocalFrame, pred: Any) -> Outcome:
        """The outcome, from which the frame goes on."""
        outcome = self.outcome(pred)
        proceed(frame, outcome)
        return outcome

    def _error(self, i: int, error: Errors) -> Errors:
        """An error of one arm, which the other one does not have, as results."""
        found = len(self.picks)
        for n, a in enumerate(error.avals):
            mine, other = (error.first + n, None), (None, None if n else False)
            self._pick(mine if i == 0 else other, other if i == 0 else mine, a)
        return error.at(found)

    def _content(self, i: int, root: Any) -> tuple[int, None]:
        """What a cell from outside holds after an arm."""
        arm = self.arms[i]
        index = arm.contents.get(id(root))
        return arm.output(Leaf(root, None, None)) if index is None else index, None

    def _needed(self, arm: Arm, key: str) -> bool:
        if key == VALUE:
            return RETURN in arm.exits
        if isinstance(key, PlaceName):
            return self.follows or arm.exits != {RAISE}
        return any(key in self.needs.get(e, ()) for e in arm.exits)

    def _plan(self, key: str) -> Any:
        """A function of the results of the `cond` that gives the value of a name."""
        parts: list[Any] = [arm.parts.get(key) for arm in self.arms]
        wanted = [self._needed(arm, key) for arm in self.arms]
        for i in (0, 1):
            mine, other = parts[i], parts[1 - i]
            if mine is None and wanted[i]:
                if isinstance(key, PlaceName):
                    raise self._differs(key, *(words_or_nothing(p) for p in parts))
                self.unbound[key] = (
                    f"`{key}` is bound on one side of a decision of traced values "
                    f"({self.describe(1 - i, key)}) and not on the other"
                )
                return None
            if mine is None or (not wanted[i] and not _alike(mine, other)):
                return self._alone(key, 1 - i, other)
        return self._both(key, *parts)

    def _alone(self, key: str, i: int, part: Part | None) -> Any:
        """The value of one arm; the other never needs it."""
        if part is None:
            return None
        if part.is_outer:
            return lambda results: part.whole
        plans = [self._lone_leaf(key, i, leaf) for leaf in part.leaves]
        return lambda results: part.tree.unflatten([p(results) for p in plans])

    def _lone_leaf(self, key: str, i: int, leaf: Leaf) -> Any:
        if leaf.value is not INSIDE or leaf.aval is None:
            if any(isinstance(x, Tracer) and not x.owner.alive for x in held_by(leaf.value) or ()):
                raise LiftError(
                    f"`{key}` is {words_of(leaf)}, an object that is made where a traced value "
                    f"decides whether that happens ({self.describe(i, key)}), and holds traced "
                    "values.",
                    _ALIKE,
                )
            return lambda results, v=leaf.value: v
        self._link(key, {i: leaf})
        plan = self._pick(*self._sided(i, (leaf.index, None), None), leaf.aval)
        if leaf.is_python is None:
            return lambda results: marked(plan(results), leaf.classes)
        is_python = self._pick(*self._sided(i, (leaf.is_python, None), False), _BOOL)
        return lambda results: marked(plan(results), told(is_python(results), leaf.classes))

    @staticmethod
    def _sided(i: int, mine: Any, other: Any) -> tuple[Any, Any]:
        """The pick of arm `i`, and a number (None: a filler) in the other."""
        none = (None, other)
        return (mine, none) if i == 0 else (none, mine)

    def _both(self, key: str, a: Part, b: Part) -> Any:
        if a.tree != b.tree:
            raise self._differs(key, a.words(), b.words())
        if not built_alike(a.tree, b.tree):
            raise self._differs(key, *difference(a.tree, b.tree))
        if a.whole is b.whole:  # what it holds is merged place by place
            return lambda results: a.whole
        pair = id(a.whole), id(b.whole)  # what shares an object on both sides goes on to share one
        if a.tree == LEAF or pair not in self.copies:
            self.copies[pair] = self._copy(key, a, b)
        return self.copies[pair]

    def _copy(self, key: str, a: Part, b: Part) -> Callable[[list[Any]], Any]:
        plans = [self._leaf(key, x, y) for x, y in zip(a.leaves, b.leaves, strict=True)]
        if a.tree == LEAF:
            return lambda results: plans[0](results)
        made: list[Any] = []

        def copy(results: list[Any]) -> Any:
            if not made:
                made.append(a.tree.unflatten([p(results) for p in plans]))
                self.chosen.append((made[0], (a.whole, b.whole)))
            return made[0]

        return copy

    def _leaf(self, key: str, a: Leaf, b: Leaf) -> Any:
        if same(a.value, b.value):
            return lambda results, v=a.value: v
        wanted = None if a.aval is None or b.aval is None else joined(a.aval, b.aval)
        if wanted is None:
            raise self._differs(key, words_of(a), words_of(b))
        mine, other = self.arms
        self._link(key, {0: a, 1: b})
        plan = self._pick((mine.output(a), None), (other.output(b), None), wanted)
        several = a.classes, b.classes
        outer = a.is_python is None and b.is_python is None
        if outer or any(c.is_python is UNKNOWN for c in several):
            return lambda results: marked(plan(results), chosen_classes(self.pred, *several))
        is_python = self._pick(mine.is_python(a), other.is_python(b), _BOOL)
        return lambda results: marked(plan(results), told(is_python(results), *several))

    def _pick(self, a: Any, b: Any, wanted: ShapedArray) -> Any:
        n = len(self.picks)
        self.picks.append((a, b, wanted))
        return lambda results: results[n]

    # ------------------------------------------------------------------ memory

    def _link(self, key: str, sides: dict[int, Leaf]) -> None:
        """Note that the next pick is an array that shares memory as leaves of the arms do."""
        if any(leaf.ways for leaf in sides.values()):
            self.links.append(Link(self, key, sides))

    def export(self, i: int, x: Any, otherwise: Any = None) -> Any:
        """The pick of a tracer of arm `i` that its leaves refer to; None if it is none."""
        arm = self.arms[i]
        index = arm.sharing.index.get(id(x))
        if index is None:
            if otherwise is None or x is None:
                return None
            index = arm.output(Leaf(x, None, None))
        n = self.exports.get((i, index))
        if n is None:
            n = self.exports[i, index] = len(self.picks)
            a = arm.jaxpr.outvars[index].aval
            self.picks.append((*self._sided(i, (index, None), otherwise), a))
        return n

    def _relate(self, pred: Any, results: list[Any]) -> None:
        """Let results share memory with cells from outside, and with each other."""
        guards = None
        cells: tuple[dict[int, Any], ...] = ({}, {})
        for (i, index), n in self.exports.items():
            for key, found in self.arms[i].sharing.index.items():
                if found == index:
                    cells[i][key] = as_cell(results[n], self.arms[i].sharing.layouts.get(key))
        for link in self.links:
            if len(link.sides) == 2 and guards is None and not link.is_own:
                guards = (pred, bitwise_not(pred))
            link.made(results, guards, cells)
        for i, arm in enumerate(self.arms):
            for key, other, why in arm.sharing.kin:
                other = cells[i].get(id(other), other)
                if key in cells[i]:
                    partner(cells[i][key], other, why)

    def _exit_plan(self) -> Any:
        """The exit: known if both arms leave alike, or one of them raises."""
        a, b = (arm.exit for arm in self.arms)
        if self.follows:
            pass
        elif self.arms[0].exits == {RAISE} and EXIT not in self.arms[1].parts:
            return lambda results: b
        elif self.arms[1].exits == {RAISE} and EXIT not in self.arms[0].parts:
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
            _NO_NONE if "None" in (one, other) else _ALIKE,
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
            return branch(index, operands, (second, first))


class Link:
    """A result of a merge that is an array: with which memory it is shared on which side."""

    __slots__ = ("is_own", "is_scalar", "merge", "n", "place", "sides", "ways")

    def __init__(self, merge: Merge, key: str, sides: dict[int, Leaf]) -> None:
        self.merge = merge
        self.sides = sides
        self.place = f"a traced decision ({merge.describe(min(sides), key)})"
        self.is_scalar = not all(leaf.ways for leaf in sides.values())  # on one side
        self.is_own = True
        self.ways: list[Any] = []  # (arm, way, picks of its base, condition and indices)
        for i, leaf in sides.items():
            for way in leaf.ways:
                if self.is_scalar or not merge.arms[i].sharing.is_own(way.base):
                    self.is_own = False
                    operands = [o for step in way.steps for o in step.operands]
                    base, *indices = (merge.export(i, x) for x in (way.base, *operands))
                    when = merge.export(i, way.when, False)
                    self.ways.append((i, way, base, when, indices))
        self.n = len(merge.picks)

    def made(self, results: list[Any], guards: Any, cells: tuple[dict[int, Any], ...]) -> None:
        """Give the result its alias.

        Args:
            results: of the merge.
            guards: for a result of both arms, whether the first was taken, the second was.
            cells: per arm, id of a tracer of its region -> what it is now.
        """
        y = results[self.n]
        found: list[Way] = []
        for i, way, base, when, indices in self.ways:
            supply = iter(indices)
            if when is not None:
                guard = results[when]
            else:
                guard = guards[i] if len(self.sides) == 2 else None
            steps = tuple(
                step.renewed(
                    [o if (n := next(supply)) is None else results[n] for o in step.operands]
                )
                if step.operands
                else step
                for step in way.steps
            )
            new = Way(way.base if base is None else results[base], steps, guard)
            found.append(new.converted(self.sides[i].dtype, y.dtype))
        own = [
            (i, way.base)
            for i, leaf in self.sides.items()
            for way in leaf.ways
            if not self.is_scalar and self.merge.arms[i].sharing.is_own(way.base)
        ]
        cell = y.fresh() if found and (own or self.is_scalar) else y
        for i, base in own:
            cells[i][id(base)] = cell
        layouts = {self.merge.arms[i].sharing.layouts.get(id(base)) for i, base in own}
        if None not in layouts and layouts:
            as_cell(cell, joint_layout(layouts, cell.aval.shape))
        if found:
            rest = [Way(cell, (), nowhere_else(found))] if own or self.is_scalar else []
            chosen(y, [*found, *rest], self.place)


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
    if b is None or not built_alike(a.tree, b.tree):
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
    found = [select_branch(pred, x, y) for x, y in zip(*sides, strict=True)]
    return [converted(y, a) for y, a in zip(found, wanted, strict=True)]  # a bool stays Python's


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

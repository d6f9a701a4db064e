"""Fusion: which equations become which kernels.

Only some variables have to be stored: outputs, operands of steps that kernels cannot do, values
that would be computed again and again, what folds and cumulative rows give. These *targets* are
gathered into groups (groups.py), each of which becomes one kernel: loops over the `kept` axes, and
inside them one or more passes over `inner` axes, so that a softmax is one kernel of three passes
over a row. Everything else is pulled into the kernels that need it (backward_slice.py). Items are a
list in an order in which they can run; a target may join an earlier item only if all it reads lies
before it.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var, cached_on_jaxpr, subjaxprs
from ftrace.core.kinds import element, has_loops
from ftrace.core.lower import Moving, Pointwise
from ftrace.core.scalar import OPS
from ftrace.lowering.fusion.backward_slice import axes_read, reads
from ftrace.lowering.fusion.column_sums import with_columns
from ftrace.lowering.fusion.fusible import (
    is_cumulative,
    is_fold,
    is_pulled,
    is_stored,
    iterates,
    reduced_axes,
)
from ftrace.lowering.fusion.groups import (
    MANY,
    NARROW,
    Group,
    Running,
    Target,
    folds_something,
    has_lanes,
)
from ftrace.lowering.fusion.weights import COSTLY, EXACT, LIMIT, SHARED, Weights, both, own
from ftrace.lowering.kernel.schedule import SHORT

LOOK_BACK: Final = 8  # items that a target may join
DEPTH: Final = 60  # expressions that are computed again in a shifted place at most
CHEAP: Final = 8  # operations that are done again rather than stored
OFTEN: Final = 8  # repetitions from which half as many are stored
THIN: Final = 1 << 20  # elements of a fold's operand that is stored because it has few columns
CACHED: Final = 1 << 21  # elements that are read again faster than they are computed again
SWEEPS: Final = 6  # reductions in a row whose operands are computed from the beginning

Item = Group | Eqn


def fuse(
    eqns: Sequence[Eqn],
    outs: Sequence[Any],
    in_order: bool = True,
    blocks: int = 1,
    lanes: bool = True,
) -> tuple[list[Item], dict[Any, Any]]:
    """Gather equations into groups; cumulative rows too, if loops may run in order.

    Where rows are added up on the way, there are so many blocks of them, if there are enough rows.
    With `lanes`, costly operations on the results of folds get loops of their own, and what two
    kernels would both compute at a cost is stored where it fits a cache.

    Returns:
        Groups and other equations in an order in which they can run, and the producers
        (variable -> number, equation, position of the result) of everything that is pulled.
    """
    items, producers = _gathered(eqns, outs, in_order, lanes)
    again = _computed_again(items, producers) if lanes else set()
    if again:
        items, _ = _gathered(eqns, [*outs, *again], in_order, lanes)
    return with_columns(items, blocks, SHORT if lanes else 0), producers


def _gathered(
    eqns: Sequence[Eqn], outs: Sequence[Any], in_order: bool, lanes: bool
) -> tuple[list[Item], dict[Any, Any]]:
    """Groups and other equations, where these variables are stored, and the producers."""
    producers = {v: (i, e, k) for i, e in enumerate(eqns) for k, v in enumerate(e.outvars)}
    joins = [is_fold(e) or (in_order and is_cumulative(e)) for e in eqns]
    pulled = [
        is_pulled(e) or (join and not folds_something(e))
        for e, join in zip(eqns, joins, strict=True)
    ]
    work = _Storing(eqns, outs, producers, lanes)
    work.decide(pulled, joins)
    stored = work.stored
    spread = _spread(eqns, pulled) if lanes else None

    def stop(var: Any) -> bool:
        return var in stored or var not in producers

    items: list[Item] = []
    place: dict[Any, int] = {}  # variable -> its item
    for number, eqn in enumerate(eqns):
        if not pulled[number] and not joins[number]:
            items.append(eqn)
            place.update(dict.fromkeys(eqn.outvars, len(items) - 1))
            continue
        for var in eqn.outvars:
            if var in stored:
                target = _target(var, eqn, producers, stop)
                target.expensive = work.costly.get(var, False)
                target.needs = work.weights.of(var)
                target.narrow = var in work.apart
                target.late = target.expensive and spread is not None and var not in spread
                place[var] = _join(items, place, target, work.weights)
    return items, producers


def _computed_again(items: Sequence[Item], producers: Mapping[Any, Any]) -> set[Any]:
    """What takes an elementary function, is small enough for a cache, and is in two kernels."""
    found: dict[Any, int] = {}
    for item in items:
        if isinstance(item, Group):
            for v in {v for t in item.targets for v, _ in t.slice}:
                if own(producers[v][1]) >= COSTLY and MANY <= v.aval.size <= CACHED:
                    found[v] = found.get(v, 0) + 1
    return {v for v, kernels in found.items() if kernels > 1 and not _is_exact(producers[v][1])}


def _is_exact(eqn: Eqn) -> bool:
    """Whether an equation is a division or a root: one instruction, if a slow one."""
    rule = eqn.primitive.lower
    return isinstance(rule, Moving) or (isinstance(rule, Pointwise) and rule.rule in EXACT)


def _spread(eqns: Sequence[Eqn], pulled: Sequence[bool]) -> set[Any]:
    """Variables from which kernels compute larger arrays."""
    widest: dict[Any, int] = {}
    for eqn, inside in zip(reversed(eqns), reversed(pulled), strict=True):
        size = max((max(v.aval.size, widest.get(v, 0)) for v in eqn.outvars if inside), default=0)
        for a in eqn.invars:
            if type(a) is Var:
                widest[a] = max(widest.get(a, 0), size)
    return {v for v, size in widest.items() if size > v.aval.size}


def _target(var: Var, eqn: Eqn, producers: Any, stop: Callable[[Any], bool]) -> Target:
    target = Target(var, eqn)
    if target.source is var:  # its own operands, not itself

        def beyond(v: Any) -> bool:
            return v is not var and stop(v)

        target.reads, target.slice = reads([(var, target.index)], producers, beyond)
    else:
        target.reads, target.slice = reads([(target.source, target.index)], producers, stop)
    return target


def _join(items: list[Item], place: dict[Any, int], target: Target, weights: Weights) -> int:
    """Put a target into the first group that can take it, or into a new one."""
    earliest = max((place[v] for v in target.reads if v in place), default=0)
    for i in range(max(earliest, len(items) - LOOK_BACK), len(items)):
        item = items[i]
        if not isinstance(item, Group):
            continue
        needs = both(item.needs, target.needs)
        if weights.total(needs) <= LIMIT and item.try_add(target):
            item.needs = needs
            return i
    items.append(Running(target) if target.runs else Group(target))
    return len(items) - 1


class _Storing:
    """Decides what is stored, equation by equation.

    Attributes:
        lanes: whether iterations run in the lanes of vectors.
        stored: variables that are stored or folded.
        read: elements that the users of a variable take, those taken twice counted twice.
        depth: operations that give an element of a pulled variable.
        costly: whether one of them is.
        elementary: whether one is an elementary function, not only a quotient or a root.
        apart: folds whose operands have a kernel of their own.
        shared: how many of them another variable takes, too; many where one of these is costly.
        sweeps: reductions, one after the other, that each compute these operations again.
        few: results of reductions, and what is computed from them alone.
        columns: variables that a fold joins along other axes than the last ones, and these axes.
        weights: bounds of what each variable needs in all.
    """

    def __init__(
        self, eqns: Sequence[Eqn], outs: Sequence[Any], producers: Any, lanes: bool
    ) -> None:
        self.eqns = eqns
        self.lanes = lanes
        self.producers = producers
        self.stored = {v for v in outs if v in producers}
        self.users: dict[Any, int] = {}
        self.read: dict[Any, int] = {}
        for eqn in eqns:
            moves = isinstance(eqn.primitive.lower, Moving)
            for a in self._operands(eqn):
                self.users[a] = self.users.get(a, 0) + 1
                size = min(a.aval.size, eqn.outvars[0].aval.size) if moves else a.aval.size
                self.read[a] = self.read.get(a, 0) + size
        self.depth: dict[Any, int] = {}
        self.costly: dict[Any, bool] = {}
        self.elementary: dict[Any, bool] = {}
        self.apart: set[Any] = set()
        self.shared: dict[Any, int] = {}
        self.sweeps: dict[Any, int] = {}
        self.few: set[Any] = set()
        self.columns: dict[Any, set[int]] = {}
        self.weights = Weights(eqns, producers)

    def decide(self, pulled: Sequence[bool], joins: Sequence[bool]) -> None:
        """Look at every equation, told which are pulled and which join elements in a kernel."""
        self._look_ahead(pulled)
        for number, eqn in enumerate(self.eqns):
            if pulled[number]:
                self.pull(eqn, number)
            else:
                self.keep(eqn, joins[number])
                self.weights.note(number, eqn, self._known(eqn) if joins[number] else ())

    def _look_ahead(self, pulled: Sequence[bool]) -> None:
        """Find out what is folded with the loops of a fold inside of those over later axes."""
        for eqn, inside in zip(reversed(self.eqns), reversed(pulled), strict=True):
            if not eqn.outvars:
                continue
            out = eqn.outvars[0]
            if is_fold(eqn):
                (x,), axes = eqn.invars, {*reduced_axes(eqn)}
                later = range(min(axes, default=0), x.aval.ndim)
                if any(k not in axes and x.aval.shape[k] != 1 for k in later):
                    self.columns.setdefault(x, set()).update(axes)
            elif inside and out in self.columns and not isinstance(eqn.primitive.lower, Moving):
                for a in self._operands(eqn):
                    if a.aval.shape == out.aval.shape:
                        self.columns.setdefault(a, set()).update(self.columns[out])

    def _operands(self, eqn: Eqn) -> list[Any]:
        return [a for a in eqn.invars if type(a) is Var and a in self.producers]

    def keep(self, eqn: Eqn, joins: bool) -> None:
        """An equation whose results are stored; what it joins is computed on the way."""
        self.stored.update(eqn.outvars)
        if is_fold(eqn):
            self.few.update(eqn.outvars)
            if self.lanes and self.elementary.get(eqn.invars[0]) and _is_narrow(eqn):
                self.stored.update(self._operands(eqn))
                self.apart.update(eqn.outvars)
        elif not joins or (self.costly.get(eqn.invars[0]) and not has_lanes(eqn)):
            self.stored.update(self._operands(eqn))

    def _known(self, eqn: Eqn) -> list[Any]:
        """The operands that are computed where they are needed."""
        return [a for a in self._operands(eqn) if a not in self.stored]

    def _within_limits(self, eqn: Eqn, number: int) -> list[Any]:
        """What is left to compute once the heaviest operands of too many are stored."""
        total, known = self.weights.total, self._known(eqn)
        while total(self.weights.note(number, eqn, known)) > LIMIT and known:
            heaviest = max(known, key=lambda a: total(self.weights.of(a)))
            self.stored.add(heaviest)
            known = [a for a in known if a is not heaviest]
        large = self.weights.heavy and total(self.weights.of(eqn.outvars[0])) > SHARED
        if large and any(self.users.get(v, 0) > 1 for v in eqn.outvars):
            self.stored.update(eqn.outvars)
        return known

    def pull(self, eqn: Eqn, number: int) -> None:
        """An equation whose results are computed where they are needed."""
        rule, inside = eqn.primitive.lower, element(eqn)
        if isinstance(rule, Moving):
            self.stored.update(a for a in eqn.invars if self._again(a, eqn, rule))
        known = self._within_limits(eqn, number)
        deep = max((self.depth[a] for a in known), default=0)
        expensive = any(self.costly[a] for a in known)
        elementary = any(self.elementary[a] for a in known)
        elementary = elementary or (is_costly(eqn) and not _is_exact(eqn))
        shared = max((self._shared(a) for a in known), default=0)
        if isinstance(rule, Pointwise):
            deep, expensive = deep + 1, expensive or _costly(rule)
        elif inside is not None:
            deep, expensive = deep + len(inside.eqns), expensive or _has_costly(inside)
        elif isinstance(rule, Moving) and rule.reads == "choice":
            deep += CHEAP // 2
        given = [a for a in eqn.invars if type(a) is not Literal]
        few = [a for a in given if a in self.few]
        late = max((self.sweeps[a] for a in known), default=0) + (0 < len(few) < len(given))
        if iterates(eqn) or is_stored(eqn):
            self.stored.update(eqn.outvars)
        for v in eqn.outvars:
            self.depth[v], self.costly[v], self.sweeps[v] = deep, expensive, late
            self.elementary[v] = elementary
            self.shared[v] = shared
            if few and len(few) == len(given):
                self.few.add(v)
            elif late >= SWEEPS:
                self.stored.add(v)

    def _shared(self, a: Any) -> int:
        """Operations of an operand that another variable takes, too."""
        here = self.depth[a] + DEPTH * self.costly[a] if self.users[a] > 1 else 0
        return max(self.shared[a], here)

    def _again(self, a: Any, eqn: Eqn, rule: Moving) -> bool:
        """Whether an operand of a `Moving` row would be computed too often if it were pulled."""
        if type(a) is Literal or a in self.stored or not self.depth.get(a):
            return False
        if rule.reads != "axes":
            if rule.reads == "choice" and self.shared[a] > CHEAP:
                return True
            again = self.read[a] > 1.5 * a.aval.size
            often = again and (self.costly[a] or self.depth[a] > CHEAP)
            return often or self.depth[a] > DEPTH
        shape = eqn.outvars[0].aval.shape
        often = self.depth[a] > CHEAP // 2 and prod(shape) >= max(OFTEN * a.aval.size, MANY)
        if a.aval.size == prod(shape) or not (self.costly[a] or often):
            return False
        kept = axes_read(eqn, a)
        new = [d for d, n in enumerate(shape) if n != 1 and d not in kept]
        joined = self.columns.get(eqn.outvars[0], set())
        if not joined.isdisjoint(kept) and not joined.issuperset(new):
            return True  # the loops of the fold are inside of those along which it is repeated
        # what is repeated along inner axes stays outside of their loops
        return any(d < max(kept, default=0) for d in new)


def _is_narrow(eqn: Eqn) -> bool:
    """Whether a fold over many rows, which a cache holds, keeps columns that do not fill lanes."""
    shape, axes = eqn.invars[0].aval.shape, reduced_axes(eqn)
    columns = prod(shape[max(axes, default=-1) + 1 :])
    rows = prod(shape[a] for a in axes)
    return 2 < columns < NARROW and rows >= MANY and prod(shape) <= THIN


def _costly(rule: Pointwise) -> bool:
    return isinstance(rule.rule, str) and OPS[rule.rule].costly


@cached_on_jaxpr
def _has_costly(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr over numbers, or one that it holds, has a costly operation or a loop."""
    return has_loops(jaxpr) or any(map(is_costly, jaxpr.eqns))


def is_costly(eqn: Eqn) -> bool:
    """Whether an element of an equation's results takes a costly operation or a loop."""
    rule, inside = eqn.primitive.lower, element(eqn)
    if isinstance(rule, Pointwise):
        return _costly(rule)
    held = [j for _, j in subjaxprs(eqn.params)] if inside is None else [inside]
    return any(map(_has_costly, held))

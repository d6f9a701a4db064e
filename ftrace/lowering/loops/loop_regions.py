"""A recording loop and the scans behind it: whether their batch elements stay apart.

Where they do, a region can run for any of its batch elements. They may meet in sums: what all batch
elements share has a cotangent to which each of them adds in every iteration.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ftrace.core.dtypes import is_inexact
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import layout, way
from ftrace.core.lower import Layout, Moving, Pointwise, Reduction
from ftrace.core.records import record
from ftrace.core.tapes import is_tape
from ftrace.lowering.fusion.inline import without_calls
from ftrace.lowering.loops.batch_axes import BatchAxes, axis_of_input, over_all
from ftrace.primitives import elements


@record
class RecordedLoop:
    """A recording loop, the scans behind it, and what is computed in between.

    Attributes:
        axes: where the batch elements lie.
        loop: the recording loop.
        eqns: all of it, in order.
        inputs: what it reads.
        sums: what its scans add up over iterations and batch elements.
        outs: other results that are read elsewhere.
        before, after: the other equations, in their order but for those that it reads.
    """

    axes: BatchAxes
    loop: Eqn
    eqns: Sequence[Eqn]
    inputs: Sequence[Var]
    sums: Sequence["Sum"]
    outs: Sequence[Var]
    before: Sequence[Eqn]
    after: Sequence[Eqn]

    def along(self, v: Var) -> int:
        """The axis of batch elements of an input or result that has one."""
        axis = self.axes.of(v)
        assert axis is not None
        return axis


class Sum(NamedTuple):
    """A carry that is the same for all batch elements, to which each of them adds.

    Attributes:
        start: what it starts from.
        var: its variable as the operand of the scan.
        out: the result.
    """

    start: Any
    var: Var
    out: Var


def region_of(jaxpr: Jaxpr, loop: Eqn, n: int) -> RecordedLoop | None:
    """What blocks of batch elements can do apart from each other; None if they cannot."""
    behind = _dependent(jaxpr.eqns, loop)
    scans = _scans(behind, loop)
    needed = {v for e in scans for v in e.invars}
    inside: list[Eqn] = []
    for e in reversed(behind):
        if e is loop or id(e) in map(id, scans) or not needed.isdisjoint(e.outvars):
            needed.update(e.invars)
            inside.append(e)
    inside.reverse()
    made = {v for e in inside for v in e.outvars}
    reads = dict.fromkeys(a for e in inside for a in e.invars if type(a) is Var and a not in made)
    found = _Apart(n, reads, loop, scans)
    if not scans or not all(map(found.takes, inside)):
        return None
    eqns, sums = found.eqns, found.sums
    before, after = _around(jaxpr.eqns, loop, inside)
    effects = [[e for e in some if e.effects] for some in (jaxpr.eqns, (*before, *after))]
    if any(x is not y for x, y in zip(*effects, strict=True)):
        return None
    local = made | {x.var for x in sums}
    inputs = dict.fromkeys(a for e in eqns for a in e.invars if type(a) is Var and a not in local)
    read = {a for e in after for a in e.invars} | set(jaxpr.outvars)
    totals = {x.out for x in sums}
    outs = [v for e in inside for v in e.outvars if v in read and v not in totals]
    if any(is_tape(v.aval) or found.axes.of(v) is None for v in outs):
        return None
    return RecordedLoop(found.axes, loop, eqns, tuple(inputs), sums, outs, before, after)


def _around(eqns: Sequence[Eqn], loop: Eqn, inside: Sequence[Eqn]) -> tuple[list[Eqn], list[Eqn]]:
    """The equations before a region, which is where its loop was, and those behind."""
    own = {id(e) for e in inside}
    place = next(k for k, e in enumerate(eqns) if e is loop)
    needed = {a for e in inside for a in e.invars}
    earlier: list[Eqn] = []
    later: list[Eqn] = []
    for e in reversed(eqns[place + 1 :]):
        if id(e) in own:
            continue
        if needed.isdisjoint(e.outvars):
            later.append(e)
        else:
            needed.update(e.invars)
            earlier.append(e)
    return [*eqns[:place], *reversed(earlier)], later[::-1]


def _dependent(eqns: Sequence[Eqn], first: Eqn) -> list[Eqn]:
    """An equation, and those that depend on it."""
    late, found = set(first.outvars), [first]
    for e in eqns:
        if e is not first and not late.isdisjoint(e.invars):
            late.update(e.outvars)
            found.append(e)
    return found


def _scans(behind: Sequence[Eqn], loop: Eqn) -> list[Eqn]:
    """The scans that iterate as often as a recording loop, or read its tapes."""
    counts = {v for v in loop.outvars if v.aval.dtype.kind == "i" and not is_tape(v.aval)}
    tapes = {v for v in loop.outvars if is_tape(v.aval)}
    found: list[Eqn] = []
    for e in behind[1:]:
        scanned = layout(e)
        if scanned is not None and scanned.first:
            if e.invars[0] in counts or not tapes.isdisjoint(e.invars):
                found.append(e)
        elif all(type(a) is Literal or a in counts for a in e.invars):
            counts.update(e.outvars)
    return found


# ---------------------------------------------------------------------------------- apart


class _Apart:
    """Follows a region; batch elements meet in it only where its scans add something up.

    Args:
        n: the number of batch elements.
        inputs: what the region reads.
        loop: its recording loop.
        scans: those behind.

    Attributes:
        axes: where the batch elements lie.
        eqns: the equations so far; the sums of scans have variables of their own as operands.
        sums: what scans add up.
    """

    def __init__(self, n: int, inputs: Iterable[Var], loop: Eqn, scans: Sequence[Eqn]) -> None:
        self.axes = BatchAxes(n, inputs)
        self.eqns: list[Eqn] = []
        self.sums: list[Sum] = []
        self._inputs = set(inputs)
        self._loop = loop
        self._scans = {id(e) for e in scans}
        self._common: set[Any] = set()  # what is the same for all batch elements of a block

    def takes(self, e: Eqn) -> bool:
        """Follow an equation; false where batch elements meet in another way."""
        made = e
        if e is self._loop:
            known = self._records(e)
        elif id(e) in self._scans:
            sums = self._scanned(e)
            known = sums is not None
            operands = (
                [sums[k].var if k in sums else a for k, a in enumerate(e.invars)]
                if sums
                else e.invars
            )
            made = Eqn(e.primitive, operands, e.params, e.outvars, e.source)
            self.sums += (sums or {}).values()
        elif over_all(e, "max"):
            (x,) = e.invars
            known = x.aval.ndim == 1 and x.aval.dtype.kind == "i"
            self.axes.axes[e.outvars[0]] = None
        elif self._common.isdisjoint(e.invars):
            known = self.axes.takes(e)
        else:
            known = way(e.primitive, Pointwise) is not None and not e.outvars[0].aval.shape
        self.eqns.append(made)
        self._common.update(v for v in e.outvars if self.axes.of(v) is None)
        return known

    def _records(self, eqn: Eqn) -> bool:
        """Whether a recording loop does the same for each batch element."""
        loop = layout(eqn)
        assert loop is not None
        body, cond = without_calls(loop.body), without_calls(loop.cond)
        inner, asked = (BatchAxes(self.axes.n, j.invars) for j in (body, cond))
        (*tests, last) = cond.eqns
        if not all(map(inner.takes, body.eqns)) or not all(map(asked.takes, tests)):
            return False
        ends = [inner.of(a) for a in body.outvars]
        carried = list(zip(loop.carry(body.invars), body.outvars, ends, strict=False))
        if any(inner.of(x) != axis or (axis is None and x is not y) for x, y, axis in carried):
            return False
        tapes = ends[loop.n_carry :]
        self.axes.axes.update(zip(eqn.outvars, (*ends[: loop.n_carry], None, *tapes), strict=True))
        if last.invars[0].aval.ndim != 1 or not asked.is_any(last):
            return False
        return _stays_where_it_ended(loop, body, cond, last.invars[0])

    def _scanned(self, eqn: Eqn) -> dict[int, Sum] | None:
        """What a scan behind it adds up, by operand; None where batch elements meet otherwise."""
        loop = layout(eqn)
        assert loop is not None
        starts = loop.carry(eqn.invars)
        if any(is_tape(v.aval) for v in eqn.outvars) or eqn.invars[0] not in self._common:
            return None
        if any(a in self._common and a.aval.dtype.kind != "i" for a in starts):
            return None
        if not self._common.isdisjoint(loop.consts(eqn.invars)):
            return None
        body = without_calls(loop.body)
        n = self.axes.n
        along = zip(body.invars, eqn.invars[loop.first :], strict=True)
        if any(axis_of_input(x.aval, n) != self.axes.of(a) for x, a in along if type(a) is Var):
            return None
        carry = loop.carry([None] * loop.first + list(body.invars))
        axes = BatchAxes(n, body.invars)
        numbers = {v: k for k, v in enumerate(carry, loop.first + loop.n_consts)}
        sums = {v: k for v, k in numbers.items() if axes.of(v) is None and v.aval.dtype.kind != "i"}
        meets = _Meeting(axes, sums, [*carry, *body.invars[loop.n_consts + loop.n_carry :]])
        if not all(map(meets.takes, body.eqns)):
            return None
        for v, end, out in zip(carry, body.outvars, eqn.outvars, strict=False):
            if meets.label(end) != sums.get(v, EACH) or axes.of(end) != axes.of(v):
                return None
            self.axes.axes[out] = axes.of(v)
        first = loop.first + loop.n_consts
        found = {
            k: Sum(eqn.invars[k], Var(v.aval), eqn.outvars[k - first]) for v, k in sums.items()
        }
        outside = all(type(x.start) is Literal or x.start in self._inputs for x in found.values())
        return found if outside else None


def _stays_where_it_ended(loop: Layout, body: Jaxpr, cond: Jaxpr, goes_on: Any) -> bool:
    """Whether a batch element keeps what it carries once its own condition does not hold.

    Batching makes such loops. In a user's own `while np.any(...)` all go on until the last ends.
    """
    expressions = [_Expressions(j) for j in (body, cond)]
    wanted = expressions[1].of(goes_on)
    made = {v: e for e in body.eqns for v in e.outvars}

    def asks(a: Any) -> bool:
        e = made.get(a)
        pointwise = None if e is None else way(e.primitive, Pointwise)
        moves = e is not None and way(e.primitive, Moving) is not None
        if e is not None and (moves or (pointwise and pointwise.rule is elements.convert)):
            return asks(e.invars[0])
        return type(a) is Var and wanted is not None and expressions[0].of(a) == wanted

    def keeps(old: Var, new: Any) -> bool:
        e = made.get(new)
        pointwise = None if e is None else way(e.primitive, Pointwise)
        if e is None or pointwise is None:
            return new is old
        if pointwise.rule == "select":
            return e.invars[2] is old and asks(e.invars[0])
        return pointwise.rule == "add" and e.invars[0] is old and asks(e.invars[1])  # it counts

    return all(map(keeps, loop.carry(body.invars), body.outvars))


class _Expressions:
    """What variables of a jaxpr are, in terms of its inputs: equal ones are equal values."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self._known: dict[Any, Any] = {v: k for k, v in enumerate(jaxpr.invars)}
        for e in jaxpr.eqns:
            params = tuple((k, _plain(v)) for k, v in sorted(e.params.items()))
            own = (e.primitive, params, tuple(map(self.of, e.invars)))
            for k, v in enumerate(e.outvars):
                self._known[v] = None if None in own[2] else (k, own)

    def of(self, a: Any) -> Any:
        """The expression of an atom; None where it is not known."""
        return repr(a.value) if type(a) is Literal else self._known.get(a)


def _plain(x: Any) -> Any:
    """A parameter as what it equals; of what has no such text, itself."""
    return repr(x) if type(x) in (bool, int, float, str, tuple, type(None)) else id(x)


EACH: Final = "each"  # values of a batch element, or the same for all
PART: Final = "part"  # a sum over batch elements
SOME: Final = "some"  # whether it is so for a batch element


class _Meeting:
    """Follows what is added up over batch elements through the body of a scan.

    A sum may have a mask, the carry behind it, which says whether anything was added.

    Args:
        axes: where batch elements lie.
        sums: what is added up, and its number.
        varying: what differs between iterations.
    """

    def __init__(self, axes: BatchAxes, sums: Mapping[Var, int], varying: Iterable[Var]) -> None:
        self.axes = axes
        self.varying = {v for v in varying if axes.of(v) is not None}
        self.labels: dict[Any, Any] = dict(sums)

    def label(self, a: Any) -> Any:
        """What a value is; a number where it is the sum of that number."""
        return EACH if type(a) is Literal else self.labels.get(a, EACH)

    def takes(self, e: Eqn) -> bool:
        """Follow an equation; false where batch elements meet in another way."""
        labels = [self.label(a) for a in e.invars]
        if all(x is EACH for x in labels):
            varies = not self.varying.isdisjoint(e.invars)
            if varies:
                self.varying.update(e.outvars)
            if self.axes.takes(e):
                return True
            made = PART if self.axes.is_sum(e) else SOME if self.axes.is_any(e) else None
            made = made if varies and not e.effects else None
        else:
            made = None if e.effects or len(e.outvars) > 1 else self._made(e, labels)
        self.labels[e.outvars[0]] = made
        return made is not None

    def _made(self, e: Eqn, labels: list[Any]) -> Any:
        pointwise = way(e.primitive, Pointwise)
        rule = None if pointwise is None else pointwise.rule
        if way(e.primitive, Reduction) is not None:
            return SOME if labels == [SOME] else None
        if rule is elements.convert:
            return PART if labels == [PART] and is_inexact(e.outvars[0].aval.dtype) else None
        if way(e.primitive, Moving) is not None:
            zeros = all(type(a) is Literal and a.value == 0 for a in e.invars[1:])
            return labels[0] if labels[0] in (PART, SOME) and zeros else None
        if rule == "select" and type(e.invars[2]) is Literal and e.invars[2].value == 0:
            asked, x, _ = labels
            if type(x) is int:  # nothing, or what was added so far
                return x if asked == x + 1 else None
            return self._masked(e, x) if asked is SOME else None
        if rule == "or" and SOME in labels:
            other = labels[1 - labels.index(SOME)]
            return other if type(other) is int else self._masked(e, other)
        if rule == "add" and PART in labels:
            other = labels[1 - labels.index(PART)]
            return other if other is PART or type(other) is int else None
        return None

    def _masked(self, e: Eqn, label: str) -> str:
        """What a value is that is left out where no batch element has a cotangent.

        Where those of a block have none, it is zero.
        """
        if label is EACH:
            axes = (self.axes.of(a) for a in e.invars)
            self.axes.axes[e.outvars[0]] = next((x for x in axes if x is not None), None)
            if not self.varying.isdisjoint(e.invars):
                self.varying.add(e.outvars[0])
        return label

"""Fusion: which equations become which kernels.

Only some variables have to be stored: outputs, operands of steps that kernels cannot do, values
that would be computed again and again, and what folds give. These *targets* are gathered into
groups, each of which becomes one kernel: loops over the `kept` axes, and inside them one or more
passes over `inner` axes, so that a softmax is one kernel of three passes over a row. Everything
else is pulled into the kernels that need it (reading.py). Items are a list in an order in which
they can run; a target may join an earlier item only if all it reads lies before it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ftrace.core.jaxpr import Eqn, Literal, Var
from ftrace.core.scalar import OPS, Elementwise, Moving, Pointwise
from ftrace.lowering import ir
from ftrace.lowering.indexing import ORIGIN, Coord, Index
from ftrace.lowering.reading import Places, reads
from ftrace.lowering.rules import is_fold, is_pulled, reduced_axes, turns

LOOK_BACK: Final = 8  # items that a target may join
OPERANDS: Final = 40  # stored variables that one kernel touches
DEPTH: Final = 60  # expressions that are computed again in a shifted place at most
CHEAP: Final = 8  # operations that are done again rather than stored
SWEEPS: Final = 6  # reductions in a row whose operands are computed from the beginning
AXES: Final = tuple(ir.Var(-1 - i, "i8") for i in range(64))  # symbolic axes of a domain
KEEPS_PLACE: Final = frozenset({"transpose", "squeeze", "expand_dims", "reshape"})

BRANCHES: Final = frozenset({"pad", "concatenate", "update_slice", "dynamic_update_slice"})


class Target:
    """A variable that a kernel computes.

    Attributes:
        domain: sizes of the axes (other than 1) over which it is computed.
        inner: positions in `domain` that are folded; none for an elementwise target.
        axes: the symbolic axis of each position.
        reads: stored variables and where they are read.
        cone: (variable, index) to compute on the way, operands first.
        source: what is computed at each point: the variable, or the operand of the fold.
    """

    __slots__ = ("axes", "cone", "domain", "eqn", "index", "inner", "reads", "source", "var")

    def __init__(self, var: Var, eqn: Eqn) -> None:
        self.var = var
        self.eqn = eqn
        folds = is_fold(eqn) and folds_something(eqn)
        self.source = eqn.invars[0] if folds else var
        shape = self.source.aval.shape
        wide = [i for i, n in enumerate(shape) if n != 1]
        self.domain = tuple(shape[i] for i in wide)
        self.axes = tuple(AXES[i] for i in wide)
        self.index: Index = tuple(Coord(AXES[i]) if n != 1 else ORIGIN for i, n in enumerate(shape))
        gone = reduced_axes(eqn) if folds else ()
        self.inner = tuple(p for p, i in enumerate(wide) if i in gone)
        self.reads: Places = {}
        self.cone: list[tuple[Any, Index]] = []

    @property
    def kept(self) -> tuple[int, ...]:
        """Positions that are not folded."""
        return tuple(p for p in range(len(self.domain)) if p not in self.inner)

    @property
    def trailing(self) -> bool:
        """Whether the folded axes are the last ones."""
        n = len(self.domain)
        return self.inner == tuple(range(n - len(self.inner), n))

    def sizes(self, positions: Iterable[int]) -> tuple[int, ...]:
        """Sizes of some positions."""
        return tuple(self.domain[p] for p in positions)


class Pass:
    """One sweep over inner axes."""

    __slots__ = ("inner", "targets")

    def __init__(self, inner: tuple[int, ...]) -> None:
        self.inner = inner
        self.targets: list[Target] = []


class Group:
    """Targets that become one kernel.

    Attributes:
        kept: sizes of the outer loops.
        passes: sweeps inside them, in order.
        order: the positions of each target's domain as loops: kept ones, then inner ones; None
            where that is their own order.
    """

    __slots__ = ("kept", "order", "passes", "where")

    def __init__(self, target: Target) -> None:
        self.order = None if target.trailing else (*target.kept, *target.inner)
        self.kept = target.sizes(target.kept)
        self.passes = [Pass(target.sizes(target.inner))]
        self.where: dict[Var, tuple[int, Target]] = {}
        self.add(target, 0)

    def add(self, target: Target, p: int) -> None:
        """Compute a target in a pass."""
        self.passes[p].targets.append(target)
        self.where[target.var] = (p, target)

    @property
    def targets(self) -> list[Target]:
        """Of all passes."""
        return [t for p in self.passes for t in p.targets]

    def kept_axes(self, target: Target) -> tuple[ir.Var, ...]:
        """The axes of a target that are the outer loops."""
        return self.loops(target)[: len(self.kept)]

    def loops(self, target: Target) -> tuple[ir.Var, ...]:
        """The target's axes in the order of the loops."""
        if self.order is None or len(self.order) != len(target.axes):
            return target.axes
        return tuple(target.axes[p] for p in self.order)

    def _inner_of(self, target: Target) -> tuple[int, ...] | None:
        """The inner sizes with which a target fits the outer loops, if it does."""
        if target.inner:
            order = None if target.trailing else (*target.kept, *target.inner)
            fits = order == self.order and target.sizes(target.kept) == self.kept
            return target.sizes(target.inner) if fits else None
        if target.domain == self.kept:
            return ()
        n = len(self.kept)
        if self.order is None:
            return target.domain[n:] if target.domain[:n] == self.kept else None
        if len(self.order) != len(target.domain):
            return None
        loops = target.sizes(self.order)
        return loops[n:] if loops[:n] == self.kept else None

    def _split(self, target: Target) -> bool:
        """Turn a group of elementwise targets into one whose inner loops a fold can use."""
        simple = len(self.passes) == 1 and not self.passes[0].inner and self.order is None
        if not (simple and target.inner and target.domain == self.kept):
            return False
        self.order = None if target.trailing else (*target.kept, *target.inner)
        self.kept = target.sizes(target.kept)
        self.passes[0].inner = target.sizes(target.inner)
        return True

    def try_add(self, target: Target) -> bool:
        """Compute a target here, if its place and what it reads allow it."""
        if len({*target.reads, *self.where}) > OPERANDS or not self._apart(target):
            return False
        inside = [v for v in target.reads if v in self.where]
        simple = all(not self.where[v][1].inner for v in inside) and self._agrees(target, inside)
        if simple and self._split(target):
            self.add(target, 0)
            return True
        inner = self._inner_of(target)
        if inner is None:
            return False
        first = self._first_pass(target, inside, inner)
        if first is None:
            return False
        for p in range(first, len(self.passes)):
            if self.passes[p].inner == inner:
                self.add(target, p)
                return True
        if inner and not self.kept:
            return False  # a whole array is swept once per kernel, so that threads can share it
        if self.order is not None and inner:
            return False  # columns: another sweep would not find them in the cache
        self.passes.append(Pass(inner))
        self.add(target, len(self.passes) - 1)
        return True

    def _apart(self, target: Target) -> bool:
        """Whether no fold would wait for elements that take many turns."""
        together = [*self.targets, target]
        return not (any(t.inner for t in together) and any(turns(t.eqn) for t in together))

    def _agrees(self, target: Target, inside: Sequence[Var]) -> bool:
        """Whether it reads elementwise targets of this group only where it is itself."""
        return all(only_at(target.reads[v], target.axes) for v in inside)

    def _first_pass(
        self, target: Target, inside: Sequence[Var], inner: tuple[int, ...]
    ) -> int | None:
        """The first pass in which everything that a target reads here is known."""
        first = 0
        kept = self.kept_axes(target)
        for v in inside:
            p, source = self.where[v]
            if source.inner or not self.passes[p].inner:  # one value per turn of the outer loops
                if not only_at(target.reads[v], kept):
                    return None
                first = max(first, p + 1 if source.inner else p)
            elif self.passes[p].inner == inner and only_at(target.reads[v], target.axes):
                first = max(first, p)
                if any(self.where[w][1].inner and self.where[w][0] >= p for w in inside):
                    return None
            else:
                return None
        return first


def only_at(places: dict[Index, bool], axes: Sequence[ir.Var]) -> bool:
    """Whether a variable is read at these axes and nowhere else."""
    wanted = tuple(Coord(a) for a in axes)
    return all(tuple(c for c in index if c != ORIGIN) == wanted for index in places)


Item = Group | Eqn


def fuse(eqns: Sequence[Eqn], outs: Sequence[Any]) -> tuple[list[Item], dict[Any, Any]]:
    """Gather equations into groups.

    Returns:
        Groups and other equations in an order in which they can run, and the producers
        (variable -> number, equation, position of the result) of everything that is pulled.
    """
    producers = {v: (i, e, k) for i, e in enumerate(eqns) for k, v in enumerate(e.outvars)}
    pulled = [is_pulled(e) or (is_fold(e) and not folds_something(e)) for e in eqns]
    stored = _stored(eqns, outs, pulled, producers)

    def stop(var: Any) -> bool:
        return var in stored or var not in producers

    items: list[Item] = []
    place: dict[Any, int] = {}  # variable -> its item
    for number, eqn in enumerate(eqns):
        if not pulled[number] and not is_fold(eqn):
            items.append(eqn)
            place.update(dict.fromkeys(eqn.outvars, len(items) - 1))
            continue
        for var in eqn.outvars:
            if var in stored:
                target = _target(var, eqn, producers, stop)
                place[var] = _join(items, place, target)
    return items, producers


def folds_something(eqn: Eqn) -> bool:
    """Whether a reduction has more than one element to fold somewhere."""
    shape = eqn.invars[0].aval.shape
    return any(shape[a] != 1 for a in reduced_axes(eqn))


def _target(var: Var, eqn: Eqn, producers: Any, stop: Callable[[Any], bool]) -> Target:
    target = Target(var, eqn)
    if target.source is var:  # its own operands, not itself

        def beyond(v: Any) -> bool:
            return v is not var and stop(v)

        target.reads, target.cone = reads([(var, target.index)], producers, beyond)
    else:
        target.reads, target.cone = reads([(target.source, target.index)], producers, stop)
    return target


def _join(items: list[Item], place: dict[Any, int], target: Target) -> int:
    """Put a target into the first group that can take it, or into a new one."""
    earliest = max((place[v] for v in target.reads if v in place), default=0)
    for i in range(max(earliest, len(items) - LOOK_BACK), len(items)):
        item = items[i]
        if isinstance(item, Group) and item.try_add(target):
            return i
    items.append(Group(target))
    return len(items) - 1


def _stored(
    eqns: Sequence[Eqn], outs: Sequence[Any], pulled: Sequence[bool], producers: Any
) -> set[Any]:
    """The variables that have to be stored, or folded."""
    work = _Storing(eqns, outs, producers)
    for eqn, pull in zip(eqns, pulled, strict=True):
        if pull:
            work.pull(eqn)
        else:
            work.keep(eqn)
    return work.stored


class _Storing:
    """Decides what is stored, equation by equation.

    Attributes:
        stored: variables that are stored or folded.
        depth: operations that give an element of a pulled variable.
        costly: whether one of them is.
        sweeps: reductions, one after the other, that each compute these operations again.
        few: results of reductions, and what is computed from them alone.
    """

    def __init__(self, eqns: Sequence[Eqn], outs: Sequence[Any], producers: Any) -> None:
        self.producers = producers
        self.stored = {v for v in outs if v in producers}
        self.users: dict[Any, int] = {}
        for eqn in eqns:
            for a in self._operands(eqn):
                self.users[a] = self.users.get(a, 0) + 1
        self.depth: dict[Any, int] = {}
        self.costly: dict[Any, bool] = {}
        self.sweeps: dict[Any, int] = {}
        self.few: set[Any] = set()

    def _operands(self, eqn: Eqn) -> list[Any]:
        return [a for a in eqn.invars if type(a) is Var and a in self.producers]

    def keep(self, eqn: Eqn) -> None:
        """An equation whose results are stored."""
        self.stored.update(eqn.outvars)
        if is_fold(eqn):
            self.few.update(eqn.outvars)
        else:
            self.stored.update(self._operands(eqn))

    def pull(self, eqn: Eqn) -> None:
        """An equation whose results are computed where they are needed."""
        rule = eqn.primitive.lower
        if isinstance(rule, Moving):
            self.stored.update(a for a in eqn.invars if self._again(a, eqn))
        known = [a for a in self._operands(eqn) if a not in self.stored]
        deep = max((self.depth[a] for a in known), default=0)
        dear = any(self.costly[a] for a in known)
        if isinstance(rule, Pointwise):
            deep, dear = deep + 1, dear or _costly(rule)
        elif isinstance(rule, Elementwise):
            deep, dear = deep + len(rule.jaxpr(**eqn.params).eqns), True
        elif eqn.primitive.name in BRANCHES:
            deep += CHEAP // 2
        given = [a for a in eqn.invars if type(a) is not Literal]
        few = [a for a in given if a in self.few]
        late = max((self.sweeps[a] for a in known), default=0) + (0 < len(few) < len(given))
        if turns(eqn):
            self.stored.update(eqn.outvars)
        for v in eqn.outvars:
            self.depth[v], self.costly[v], self.sweeps[v] = deep, dear, late
            if few and len(few) == len(given):
                self.few.add(v)
            elif late >= SWEEPS:
                self.stored.add(v)

    def _again(self, a: Any, eqn: Eqn) -> bool:
        """Whether an operand of a `Moving` row would be computed too often if it were pulled."""
        if type(a) is Literal or a in self.stored or not self.depth.get(a):
            return False
        name = eqn.primitive.name
        if name in KEEPS_PLACE:
            return False
        if name != "broadcast_in_dim":
            often = self.users[a] > 1 and (self.costly[a] or self.depth[a] > CHEAP)
            return often or self.depth[a] > DEPTH
        axes = zip(a.aval.shape, eqn.params["broadcast_dimensions"], strict=True)
        kept = [d for n, d in axes if n != 1]
        new = (d for d, n in enumerate(eqn.outvars[0].aval.shape) if n != 1 and d not in kept)
        # what is repeated along inner axes stays outside of their loops
        return self.costly[a] and any(d < max(kept, default=0) for d in new)


def _costly(rule: Pointwise) -> bool:
    return isinstance(rule.rule, str) and OPS[rule.rule].costly

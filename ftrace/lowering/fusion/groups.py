"""Groups: targets that become one kernel.

A target is a variable that has to be stored, or folded. A group is a nest of loops over the `kept`
axes, and in it passes over `inner` axes; it takes a target whose domain fits its loops, if what the
target reads is known there. A `Running` group has one pass whose last loop runs in order: the
cumulative targets carry what came before. What is stored at all is decided in fuse.py; kernels are
written in build.py.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Final

from ftrace.core.jaxpr import Eqn, Var
from ftrace.lowering.fusion.backward_slice import Places
from ftrace.lowering.fusion.fusible import is_cumulative, is_fold, iterates, reduced_axes
from ftrace.lowering.fusion.weights import NOTHING, Need
from ftrace.lowering.kernel import ir
from ftrace.lowering.kernel.index_maps import ORIGIN, Coord, Index
from ftrace.lowering.kernel.schedule import SHORT

MANY: Final = 1024  # elements from which what two kernels would compute is stored
NARROW: Final = 8  # lanes of which fewer are not worth an elementary function

ROWS: Final = 16  # results of folds from which costly operations have a loop of their own
LONG: Final = 256  # elements of a row beside which what follows its fold is nothing
OPERANDS: Final = 64  # stored variables that one kernel touches
AXES: Final = tuple(ir.KernelVar(-1 - i, "i8") for i in range(64))  # symbolic axes of a domain


class Target:
    """A variable that a kernel computes.

    Attributes:
        domain: sizes of the axes (other than 1) over which it is computed.
        inner: positions in `domain` that are joined; none for an elementwise target.
        axes: the symbolic axis of each position.
        reads: stored variables and where they are read.
        slice: (variable, index) to compute on the way, operands first.
        source: what is computed at each point: the variable, or the operand of the fold or of the
            cumulative row.
        runs: whether the row is cumulative: `inner` is the axis along which it runs.
        expensive: whether an element takes a costly operation.
        late: whether it is then computed in lanes of its own, not row after row behind a fold.
        narrow: whether it is a fold of many rows that leaves columns which do not fill lanes.
        needs: the equations that an element takes (weights.py).
        blocks: whether it is a sum over rows that is done in blocks (column_sums.py).
    """

    __slots__ = (
        "axes",
        "blocks",
        "domain",
        "eqn",
        "expensive",
        "index",
        "inner",
        "late",
        "narrow",
        "needs",
        "reads",
        "runs",
        "slice",
        "source",
        "var",
    )

    def __init__(self, var: Var, eqn: Eqn) -> None:
        self.var = var
        self.eqn = eqn
        self.runs = is_cumulative(eqn) and folds_something(eqn)
        self.expensive = False
        self.late = False
        self.narrow = False
        self.needs: Need = NOTHING
        self.blocks = False
        joins = self.runs or (is_fold(eqn) and folds_something(eqn))
        self.source = eqn.invars[0] if joins else var
        shape = self.source.aval.shape
        wide = [i for i, n in enumerate(shape) if n != 1]
        self.domain = tuple(shape[i] for i in wide)
        self.axes = tuple(AXES[i] for i in wide)
        self.index: Index = tuple(Coord(AXES[i]) if n != 1 else ORIGIN for i, n in enumerate(shape))
        gone = reduced_axes(eqn) if joins else ()
        self.inner = tuple(p for p, i in enumerate(wide) if i in gone)
        self.reads: Places = {}
        self.slice: list[tuple[Any, Index]] = []

    @property
    def kept(self) -> tuple[int, ...]:
        """Positions that are not joined."""
        return tuple(p for p in range(len(self.domain)) if p not in self.inner)

    @property
    def folds(self) -> bool:
        """Whether the inner axes are gone in the result."""
        return bool(self.inner) and not self.runs

    @property
    def trailing(self) -> bool:
        """Whether the inner axes are the last ones."""
        n = len(self.domain)
        return self.inner == tuple(range(n - len(self.inner), n))

    def extents(self, axes: Iterable[ir.KernelVar]) -> tuple[int, ...]:
        """Sizes of some axes."""
        sizes = dict(zip(self.axes, self.domain, strict=True))
        return tuple(sizes[a] for a in axes)

    def sizes(self, positions: Iterable[int]) -> tuple[int, ...]:
        """Sizes of some positions."""
        return tuple(self.domain[p] for p in positions)


class RowPass:
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
        chunk: iterations of the first loop that sums over rows are done in blocks of; 0 for none.
        needs: the equations that the targets take together (weights.py).
    """

    __slots__ = ("chunk", "kept", "needs", "order", "passes", "where")

    def __init__(self, target: Target) -> None:
        self.order = None if target.trailing else (*target.kept, *target.inner)
        self.chunk = 0
        self.needs = target.needs
        self.kept = target.sizes(target.kept)
        self.passes = [RowPass(target.sizes(target.inner))]
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

    def kept_axes(self, target: Target) -> tuple[ir.KernelVar, ...]:
        """The axes of a target that are the outer loops."""
        return self.loops(target)[: len(self.kept)]

    def loops(self, target: Target) -> tuple[ir.KernelVar, ...]:
        """The target's axes in the order of the loops."""
        if self.order is None or len(self.order) != len(target.axes):
            return target.axes
        return tuple(target.axes[p] for p in self.order)

    def nest(self, target: Target) -> tuple[int, ...]:
        """Which position of a target's domain each loop is."""
        return tuple(map(target.axes.index, self.loops(target)))

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
        refused = target.runs or self._crowded(target) or not self._apart(target)
        if refused or self._idles(target) or (target.late and self._ends_rows(target)):
            return False
        inside = [v for v in target.reads if v in self.where]
        simple = all(not self.where[v][1].inner for v in inside) and self._agrees(target, inside)
        if simple and self._split(target):
            self.add(target, 0)
            return True
        inner = self._inner_of(target)
        if inner is None:
            return False
        first = self.first_pass(target, inner)
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
        self.passes.append(RowPass(inner))
        self.add(target, len(self.passes) - 1)
        return True

    def _crowded(self, target: Target) -> bool:
        """Whether the kernel would touch too many variables."""
        return len({*target.reads, *self.where}) > OPERANDS

    def _idles(self, target: Target) -> bool:
        """Whether an elementary function of many elements would be computed in a few lanes."""
        together = [*self.targets, target]
        costly = any(t.expensive and prod(t.domain) >= MANY for t in together)
        return costly and any(t.narrow for t in together)

    def _apart(self, target: Target) -> bool:
        """Whether no fold would wait for elements that take many iterations."""
        together = [*self.targets, target]
        return not (any(t.inner for t in together) and any(iterates(t.eqn) for t in together))

    def _ends_rows(self, target: Target) -> bool:
        """Whether it would be computed behind the fold of each of many rows, one row at a time."""
        if target.domain != self.kept:
            return False
        behind = any(v in self.where and self.where[v][1].folds for v in target.reads)
        length = max(prod(p.inner) for p in self.passes)
        along = self.order is None and SHORT < length <= LONG
        return behind and along and prod(self.kept) >= ROWS

    def _agrees(self, target: Target, inside: Sequence[Var]) -> bool:
        """Whether it reads elementwise targets of this group only where it is itself."""
        return all(only_at(target.reads[v], target.axes) for v in inside)

    def first_pass(self, target: Target, inner: tuple[int, ...]) -> int | None:
        """The first pass in which everything that a target reads here is known."""
        inside = [v for v in target.reads if v in self.where]
        first = 0
        kept = self.kept_axes(target)
        for v in inside:
            p, source = self.where[v]
            if (
                source.inner or not self.passes[p].inner
            ):  # one value per iteration of the outer loops
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


class Running(Group):
    """Cumulative targets along one axis, and what is computed from them at the same place.

    Its one pass runs in order along one axis. Where no other axis is next in memory it has no
    lanes: then costly operations are left to kernels that do.

    Attributes:
        reverse: whether the pass runs from the end.
    """

    __slots__ = ("_axes", "_lanes", "reverse")

    def __init__(self, target: Target) -> None:
        self._axes = {target.var: _nest(target)}
        self._lanes = has_lanes(target.eqn)
        self.reverse: bool = target.eqn.params["reverse"]
        super().__init__(target)

    def loops(self, target: Target) -> tuple[ir.KernelVar, ...]:
        """The target's axes in the order of the loops."""
        return self._axes[target.var]

    def try_add(self, target: Target) -> bool:
        """Compute a target here, if it runs along or is computed from what runs here."""
        if target.folds or self._crowded(target) or iterates(target.eqn):
            return False
        if target.expensive and not self._lanes:
            return False
        places = {
            self._along(self.where[v][1], index)
            for v in target.reads
            if v in self.where
            for index in target.reads[v]
        }
        if target.runs:
            if target.eqn.params["reverse"] != self.reverse:
                return False
            places.add(_nest(target))
        (axes,) = places if len(places) == 1 else ((),)
        sizes = (*self.kept, *self.passes[0].inner)
        if len(axes) != len(target.axes) or target.extents(axes) != sizes:
            return False
        self._axes[target.var] = axes
        self.add(target, 0)
        return True

    def _along(self, source: Target, index: Index) -> tuple[ir.KernelVar, ...]:
        """A reader's axes in the order of the loops in which it finds an element of a target.

        They are none where it reads it at another place than its own.
        """
        loops = self.loops(source)
        at = [index[_dimension(a)] for a in loops]
        axes = tuple(c.axis for c in at if type(c) is Coord and c.axis is not None)
        if len({*axes}) != len(loops):
            return ()
        now = dict(zip(loops, axes, strict=True))
        same = tuple(Coord(now[a]) if a in now else ORIGIN for a in AXES[: len(index)])
        return axes if index == same else ()


def _nest(target: Target) -> tuple[ir.KernelVar, ...]:
    """The axes of a cumulative target as loops: the one along which it runs inside the others."""
    return tuple(target.axes[p] for p in (*target.kept, *target.inner))


def _dimension(axis: ir.KernelVar) -> int:
    """Which dimension of its variable a symbolic axis is."""
    return -1 - axis.id


def has_lanes(eqn: Eqn) -> bool:
    """Whether axes along which a cumulative row does not run are next in memory, and fill lanes."""
    return prod(eqn.invars[0].aval.shape[eqn.params["axis"] + 1 :]) >= NARROW


def only_at(places: dict[Index, bool], axes: Sequence[ir.KernelVar]) -> bool:
    """Whether a variable is read at these axes and nowhere else."""
    wanted = tuple(Coord(a) for a in axes)
    return all(tuple(c for c in index if c != ORIGIN) == wanted for index in places)


def folds_something(eqn: Eqn) -> bool:
    """Whether a reduction or cumulative row has more than one element to join somewhere."""
    shape = eqn.invars[0].aval.shape
    return any(shape[a] != 1 for a in reduced_axes(eqn))

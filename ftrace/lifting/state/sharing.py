"""Which memory the arrays that a loop carries show: an array from outside, one another, their own.

An array that a loop carries starts as one that others may hold (`old = grid`), and an iteration may
bind its name to another (`old = new`) or to a view (`row = grid[1:]`). For each array from outside
that it may show the loop carries a boolean which tells whether it does. Inside an iteration it is a
cell of its own; what was written into it is written back at the end of the iteration. Only where
the iteration also uses the array from outside, or another name of it, is every write followed at
once (`eager`). What cannot be told so raises `MutationError` when it is written: two names of an
array that an iteration made, a view at a traced index.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any

from ftrace.core.trace import Tracer, ctx, is_cell, now
from ftrace.lifting.state.leaves import Leaf
from ftrace.numpy.cells import push, put
from ftrace.numpy.layouts import may_have_gaps
from ftrace.numpy.views import (
    C_ORDER,
    UNCERTAIN,
    Root,
    Way,
    alias_of,
    as_cell,
    chosen,
    is_reachable,
    nowhere_else,
    partner,
    ways_of,
)
from ftrace.primitives.compare import bitwise_and, bitwise_or

Key = tuple[str, int]  # a name and the number of a leaf
Shown = tuple[int, tuple[Any, ...]]  # id of an array from outside, and the steps to what is shown
_MOST = 6  # views that one name may be


class Sharing:
    """The memory of what one loop carries.

    Attributes:
        views: leaf -> what it may show, in order: the array from outside and the steps.
        ends: leaf -> view -> which output of an iteration tells whether it shows that.
    """

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self.views: Views = Views()
        self.ends: dict[Key, dict[Shown, int]] = {}
        self._eager: set[Key] = set()
        self._first: dict[Key, set[int]] = {}  # arrays from outside that leaves show at first
        self._pairs: set[frozenset[Key]] = set()  # leaves that may show one array from outside
        self._kin: set[frozenset[Key]] = set()  # leaves that may share memory an iteration made
        self._gaps: set[Key] = set()  # leaves of one axis that may not be contiguous
        self._loose: dict[tuple[Key, int], Any] = {}  # arrays that a leaf shows nobody knows how
        self._heads: dict[Key, Any] = {}
        self._used: set[int] = set()  # ids of the arrays from outside that an iteration uses
        self._written: set[int] = set()  # those that it writes
        self._wrote: set[Key] = set()  # leaves that it writes
        self._behind: set[Key] = (
            set()
        )  # of these, those that another leaf holds after the iteration

    @property
    def _why(self) -> str:
        line = self._loop.site.node.lineno
        return (
            f"may after an iteration of the loop of line {line} share its memory with another name"
        )

    @property
    def _place(self) -> str:
        return f"the loop of line {self._loop.site.node.lineno}"

    # ------------------------------------------------------------------ before the loop

    def start(self, key: Key, x: Any) -> None:
        """A leaf becomes one that is carried."""
        arrays = [way for way in ways_of(x) if is_cell(way.base)]
        if not arrays:
            return
        for way in arrays:
            if not any(step.operands for step in way.steps):
                self.views.add(key, way.base, way.steps, x.dtype)
            else:
                self._loose[key, id(way.base)] = way.base
        mine = {id(way.base) for way in arrays}
        others = (k for k, other in self._first.items() if k != key and mine & other)
        self._pairs |= {frozenset((key, k)) for k in others}
        self._first[key] = mine

    def begin(self, key: Key, x: Any) -> list[Any]:
        """Which views a leaf shows before the loop."""
        whens: dict[Shown, Any] = {}
        for way in ways_of(x) if self.views[key] else ():
            view = (id(way.base), way.steps)
            whens[view] = _either(whens.get(view), _both(True, way.when))
        return [whens.get(view, False) for view in self.views[key]]

    # ------------------------------------------------------------------ an iteration

    def enter(self, heads: dict[Key, Any], flags: Mapping[Key, list[Any]]) -> dict[Key, Any]:
        """The arrays as an iteration finds them.

        Args:
            heads: leaf -> a new cell of the turn's trace, with its content.
            flags: leaf -> which view it shows.

        Returns:
            leaf -> what the name is bound to.
        """
        self._heads, self._flags = heads, flags
        _as_arrays(cell for key, cell in heads.items() if key in self._first)
        self._lay(heads)
        self._roots = {id(cell): key for key, cell in heads.items()}
        self._before = {key: cell.atom for key, cell in heads.items()}
        self._contents = {key: now(x).atom for key, (x, _) in ctx.trace.cells.items()}
        self._relate(heads, self._loop.awake)
        return {
            key: self._shown(key, cell.fresh(), cell) if key in self._eager else cell
            for key, cell in heads.items()
        }

    def _lay(self, cells: Mapping[Key, Any]) -> None:
        for key in self._gaps & cells.keys():
            as_cell(cells[key], UNCERTAIN)

    _ended: Mapping[Key, set[Shown]] = MappingProxyType(
        {}
    )  # all it shows if one iteration was made

    def _found(self, key: Key, dtype: Any) -> list[Way]:
        """What a leaf of this dtype may show now."""
        return [
            self.views.way(key, view, flag, dtype)
            for view, flag in zip(self.views[key], self._flags.get(key, ()), strict=False)
            if view in self._ended.get(key, (view,))
        ]

    def _shown(self, key: Key, y: Any, own: Any) -> Any:
        found = self._found(key, y.dtype)
        if not found:
            return own
        return chosen(y, [*found, Way(own, (), nowhere_else(found))], self._place)

    def _relate(self, cells: Mapping[Key, Any], names: Any) -> None:
        """Let cells whose relation is not known keep each other from being written."""
        for pair in self._kin:
            if all(key in cells and key[0] in names for key in pair):
                a, b = pair
                partner(cells[a], cells[b], self._why)
        for (key, _), base in self._loose.items():
            if key in cells and key[0] in names:
                partner(base, cells[key], self._why)

    def leave(self, leaves: Mapping[Key, Leaf], outs: list[Any], steady: bool) -> None:
        """Note what was done; conditions are appended to `outs`, written arrays written back.

        Args:
            leaves: the arrays that the iteration binds.
            outs: the results of the iteration.
            steady: whether only the test ends the loop, so that all that is needed there is bound.
        """
        read = {v for e in ctx.trace.eqns for v in e.invars}
        self._used = {*ctx.trace.hoisted, *(k for k, v in self._contents.items() if v in read)}
        self._written, self._wrote = self._newly()
        self.ends = {}
        shown: dict[Key, set[Any]] = {}
        for key, leaf in leaves.items():
            if leaf.ways and leaf.aval is not None and may_have_gaps(leaf.ways, leaf.aval.shape):
                self._gaps.add(key)
            whens, shown[key] = self._ways(key, leaf)
            self.ends[key] = {}
            for view, when in whens.items():
                self.ends[key][view] = len(outs)
                outs.append(when)
        slots = self._loop.slots
        self._is_settled = all(key in self._heads or key[0] not in slots for key in leaves)
        if self._is_settled:  # else more is carried in the next iteration
            self._pair(shown)
        lazy = self._wrote - self._eager
        held = {
            id(leaf.ways[0].base)
            for key, leaf in leaves.items()
            if steady and key in self._heads and key[0] in self._loop.head and _is_whole(leaf)
        }
        self._behind = {key for key in lazy if id(self._heads[key]) in held}
        self._write_back(lazy - self._behind, self._heads)

    def _write_back(self, keys: Iterable[Key], cells: Mapping[Key, Any]) -> None:
        """Write what leaves hold into the arrays from outside that they show."""
        for key in keys:
            for way in self._found(key, cells[key].dtype):
                if is_reachable(way.base):
                    put(way.base, way.write(cells[key]))
                    push([way.base])

    def is_read_behind(self, key: Key) -> bool:
        """Whether what a leaf holds is written back behind the loop."""
        return bool(self._behind) and bool(self.views[key])

    def _ways(self, key: Key, leaf: Leaf) -> tuple[dict[Shown, Any], set[Any]]:
        """What a leaf shows at an iteration's end: views and when, and all arrays it may be of."""
        whens: dict[Shown, Any] = {}
        roots: set[Any] = set()
        for base, steps, when in leaf.ways:
            head = self._roots.get(id(base))
            roots.add(head or id(base))
            for other in _partners(base):
                roots.add(self._roots.get(id(other), id(other)))
                if other.owner is not ctx.trace:
                    self._loose[key, id(other)] = other
            shown: list[Any] = []  # (array from outside, first steps, dtype, when)
            if head is not None:
                # what this iteration has added to the head's views comes after, and the next one
                # finds
                for view, flag in zip(self.views[head], self._flags[head], strict=False):
                    dtype = self.views.all[head, view]
                    shown.append((self.views.base(view), view[1], dtype, flag))
            elif not isinstance(base, Tracer) or base.owner is not ctx.trace:
                shown.append((base, (), leaf.dtype, True))
            for root, first, dtype, flag in shown:
                view = (id(root), (*first, *steps))
                dynamic = any(step.operands for step in steps)
                if dynamic or not self.views.add(key, root, view[1], dtype):
                    self._loose[key, id(root)] = root
                else:
                    whens[view] = _either(whens.get(view), _both(flag, when))
        return whens, roots

    def changed(self, roots: Iterable[Tracer]) -> list[Tracer]:
        """The outer arrays that do not hold what they held before the iteration."""
        return [x for x in roots if now(x).atom is not self._contents.get(id(x))]

    def has_written(self) -> bool:
        """Whether the test of the loop wrote an array."""
        return self._newly() != (set(), set())

    def _newly(self) -> tuple[set[int], set[Key]]:
        """The arrays from outside, and the leaves, that were written since `enter`."""
        outer = set(map(id, self.changed(x for x, _ in ctx.trace.cells.values())))
        return outer, {k for k, x in self._heads.items() if x.atom is not self._before[k]}

    def _pair(self, shown: Mapping[Key, set[Any]]) -> None:
        """Find the leaves that share memory at the end of an iteration."""
        for (a, mine), (b, theirs) in combinations(shown.items(), 2):
            pair = frozenset((a, b))
            crossed = [frozenset((i, j)) for i in mine for j in theirs if i != j]
            outer = self.views.bases(a) & self.views.bases(b)
            if any(isinstance(r, tuple) or r not in outer for r in mine & theirs) or any(
                c in self._kin for c in crossed
            ):
                self._kin.add(pair)
            direct = outer & (mine | theirs)
            if mine & theirs or direct or any(c in self._pairs for c in crossed):
                self._pairs.add(pair)

    def revise(self) -> bool:
        """Adapt to what an iteration did; whether anything changed."""
        before = self._state
        for key in self._loop.carried if self._is_settled else ():
            for root in self.views.bases(key):
                others = self._used & self.views.names(root)
                written = self._written & self.views.names(root)
                if written or (key in self._wrote and (others or not self._is_ours(root))):
                    self._eager.add(key)
        for pair in self._pairs:
            a, b = pair
            if pair & self._wrote and self.views.bases(a) & self.views.bases(b):
                self._eager |= pair
        sets = self.views.all, self._eager, self._kin, self._loose, self._gaps
        self._state = tuple(map(len, sets))
        return self._state != before

    _state: tuple[int, ...] = (0, 0, 0, 0, 0)

    def _is_ours(self, root: int) -> bool:
        return is_reachable(self.views.base((root, ())))

    # ------------------------------------------------------------------ after the loop

    def after(self, results: dict[Key, Any], flags: Mapping[Key, list[Any]]) -> dict[Key, Any]:
        """The arrays after the loop, from the results of the row."""
        self._flags = flags
        _as_arrays(x for key, x in results.items() if key in self.ends)
        self._lay(results)
        if self._loop.items is not None and self._loop.turns:
            self._ended = {key: set(views) for key, views in self.ends.items()}
        if self._behind:
            self._write_back((key for key in results if key in self._heads), results)
        bound = {
            k: self._shown(k, x.fresh(), x) if self.views[k] else x for k, x in results.items()
        }
        self._relate(results, {name for name, _ in results})
        return bound


class Views:
    """What leaves may show."""

    def __init__(self) -> None:
        self.all: dict[tuple[Key, Shown], Any] = {}  # with the dtype that it is shown in
        self._bases: dict[int, Any] = {}

    def __getitem__(self, key: Key) -> list[Shown]:
        return [view for k, view in self.all if k == key]

    def __iter__(self) -> Any:
        return iter({key for key, _ in self.all})

    def add(self, key: Key, base: Any, steps: Sequence[Any], dtype: Any) -> bool:
        """Remember one; False if there are too many."""
        if (key, (id(base), tuple(steps))) not in self.all and len(self[key]) >= _MOST:
            return False
        self._bases[id(base)] = base
        self.all.setdefault((key, (id(base), tuple(steps))), dtype)
        return True

    def way(self, key: Key, view: Shown, when: Any, dtype: Any) -> Way:
        """One of them, as a leaf of this dtype shows it."""
        return Way(self._bases[view[0]], view[1], when).converted(self.all[key, view], dtype)

    def base(self, view: Shown) -> Any:
        """The array from outside."""
        return self._bases[view[0]]

    def bases(self, key: Key) -> set[int]:
        """The ids of the arrays from outside that a leaf may show."""
        return {root for root, _ in self[key]}

    def names(self, root: int) -> set[int]:
        """The ids of an array and of its living views."""
        alias = alias_of(self._bases[root]) if isinstance(self._bases[root], Tracer) else None
        return {root, *map(id, alias.living() if type(alias) is Root else ())}


def _is_whole(leaf: Leaf) -> bool:
    """Whether a leaf is, in any case, all of one array."""
    return len(leaf.ways) == 1 and not leaf.ways[0].steps


def _as_arrays(cells: Iterable[Any]) -> None:
    """Of rank 0 they are arrays, and no scalars."""
    for cell in cells:
        if not cell.aval.shape:
            as_cell(cell, C_ORDER)


def _both(flag: Any, when: Any) -> Any:
    return flag if when is None else when if flag is True else bitwise_and(flag, when)


def _either(a: Any, b: Any) -> Any:
    return b if a is None or b is True else True if a is True else bitwise_or(a, b)


def _partners(base: Any) -> list[Any]:
    alias = alias_of(base) if isinstance(base, Tracer) else None
    return [x for x, _ in alias.living_partners()] if type(alias) is Root else []

"""Jumps and kinks close to a point, found by running the function beside it.

Between two points where every decision falls alike (comparisons, roundings, which of two is the
greater), a function is smooth. So its decisions are noted at the point and at the ends of a short
line through it; where they differ, halving finds the place at which they do, and the first decision
that differs is the one to blame, if value or derivative jump there at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.control.forms.walking import Walked, WalkTrace, walk
from ftrace.core import source
from ftrace.core.dtypes import is_inexact
from ftrace.core.primitive import NONDIFFERENTIABLE, Primitive
from ftrace.core.source import Location
from ftrace.core.trace import EVAL
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.origins import Path

Flat = Callable[..., Sequence[Any]]
HALVINGS: Final = 24
STEEP: Final = 100.0  # by how much a slope may be off its estimate
NOISE: Final = 1e3  # roundings in a result, in units of its last place


class Decision(NamedTuple):
    """How one row decided.

    Attributes:
        place, path: where.
        row: the primitive's name.
        outcome: tells two outcomes apart.
        operands: what it compared, where these are numbers.
    """

    place: Location | None
    path: Path
    row: str
    outcome: Any
    operands: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Break:
    """Where value or derivative jump.

    Attributes:
        kind: "jump" (of the value) or "kink" (of the derivative alone).
        leaf: the input that was moved.
        distance: how far, relative to the input; with a sign for which way.
        point: the input there, if it is a number.
        decision: the first that differs.
        before, after: the result (or derivative) that jumps most, on the near and the far side.
    """

    kind: str
    leaf: int
    distance: float
    point: float | None
    decision: Decision
    before: float
    after: float


class Decisions:
    """Notes every decision of a walk over plain values."""

    def __init__(self, path: list[str]) -> None:
        self.found: list[Decision] = []
        self._path = path

    def step(
        self,
        row: Primitive,
        params: dict[str, Any],
        operands: Sequence[Any],
        results: Sequence[Any],
    ) -> list[None]:
        """See one row."""
        values = [np.asarray(a.value if isinstance(a, Walked) else a) for a in operands]
        if any(v.dtype.kind == "f" for v in values):
            outcome = _outcome(row, params, values, results)
            if outcome is not None:
                plain = np.asarray(outcome)
                shown = tuple(v.item() for v in values if not v.shape)
                place, path = source.location(2), tuple(self._path)
                told = (plain.shape, plain.tobytes())
                self.found.append(Decision(place, path, row.name, told, shown))
        return [None] * len(results)

    def decided(self, note: Any) -> None:
        """What Python decides by was noted when it was computed."""


def _outcome(row: Primitive, params: dict[str, Any], values: list[Any], results: Any) -> Any:
    """What stays the same as long as a row decides alike; None for a smooth row."""
    if row.decides is not None:
        return row.decides(values, results, params)
    steps = row.jvp is NONDIFFERENTIABLE
    return results[0] if steps or not is_inexact(np.asarray(results[0]).dtype) else None


def breaks(fn: Flat, leaves: Sequence[Any], radius: float) -> list[Break]:
    """The breaks closest to a point, at most one for each input and sense, by distance.

    Args:
        fn: function of flat values.
        leaves: the point; inputs that are not real stay where they are.
        radius: how far to look, relative to an input's root mean square (or 1, where it is zero).
    """
    line = _Line(fn, leaves)
    found: list[Break] = []
    for leaf in line.moving:
        for sense in (1.0, -1.0):
            one = line.search(leaf, sense * radius)
            found += [one] if one is not None else []
    return sorted(found, key=lambda b: abs(b.distance))


class _Line:
    """Points beside a point."""

    def __init__(self, fn: Flat, leaves: Sequence[Any]) -> None:
        self.fn = fn
        self.leaves = leaves
        rng = np.random.default_rng(0)
        self.moving = [i for i, x in enumerate(leaves) if np.asarray(x).dtype.kind == "f"]
        self.directions = {i: _direction(leaves[i], rng) for i in self.moving}
        self.here = self.decisions(leaves)

    def at(self, leaf: int, t: float) -> list[Any]:
        """The inputs with one of them moved."""
        moved = list(self.leaves)
        x = np.asarray(moved[leaf])
        shifted = np.asarray(x + t * self.directions[leaf], x.dtype)
        moved[leaf] = (
            shifted if issubclass(type(moved[leaf]), np.ndarray) else type(moved[leaf])(shifted)
        )
        return moved

    def decisions(self, leaves: Sequence[Any]) -> list[Decision]:
        """Every decision on the way."""
        path: list[str] = []
        watch = Decisions(path)
        walk(self.fn, leaves, [None] * len(leaves), WalkTrace(EVAL, watch, path))
        return watch.found

    def search(self, leaf: int, end: float) -> Break | None:
        """The break on the way to an end, if there is one."""
        far = self.decisions(self.at(leaf, end))
        if _first_difference(self.here, far) is None:
            return None
        low, high = 0.0, end
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            found = self.decisions(self.at(leaf, middle))
            if _first_difference(self.here, found) is None:
                low = middle
            else:
                high, far = middle, found
        blamed = _first_difference(self.here, far)
        assert blamed is not None
        jumps = self._jumps(self.at(leaf, low), self.at(leaf, high), abs(high - low))
        if jumps is None:
            return None
        x = self.at(leaf, high)[leaf]
        point = None if np.shape(x) else float(x)
        return Break(jumps[0], leaf, high, point, blamed, *jumps[1:])

    def _jumps(self, near: Any, far: Any, width: float) -> tuple[str, float, float] | None:
        """What jumps between two points that lie close together, and its values."""
        (y, dy), (z, dz) = self._pushed(near), self._pushed(far)
        for a, b, da, db in zip(y, z, dy, dz, strict=True):
            noise = NOISE * np.finfo(a.dtype).eps
            steepest = np.maximum(np.abs(da), np.abs(db))
            size = np.maximum(np.abs(a), np.abs(b))
            for kind, p, q, expected in (
                ("jump", a, b, STEEP * width * steepest + noise * size),
                ("kink", da, db, max(1e-6, noise) * steepest + noise * size),
            ):
                beyond = np.abs(p - q) - expected
                if np.any(beyond > 0):
                    k = int(np.nanargmax(beyond))
                    return kind, p.flat[k].item(), q.flat[k].item()
        return None

    def _pushed(self, leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Real results and their derivative along all directions together."""
        tangents = [self._tangent(i, x) for i, x in enumerate(leaves)]
        ys, ts = jvp_flat(self.fn, leaves, tangents)
        real = [(np.asarray(y), t) for y, t in zip(ys, ts, strict=True)]
        real = [(y, t) for y, t in real if y.dtype.kind == "f"]
        return [y for y, _ in real], [np.zeros_like(y) if t is ZERO else t for y, t in real]

    def _tangent(self, leaf: int, x: Any) -> Any:
        if leaf not in self.directions:
            return ZERO
        return np.asarray(self.directions[leaf], np.asarray(x).dtype)[()]


def _direction(x: Any, rng: Any) -> Any:
    """A direction in general position, as long as the point."""
    x = np.asarray(x, float)
    size = (np.sqrt(np.mean(x * x)) if x.size else 0.0) or 1.0
    if not x.shape:
        return np.asarray(size)
    return size * rng.uniform(0.5, 1.0, x.shape) * rng.choice((-1.0, 1.0), x.shape)


def _first_difference(a: Sequence[Decision], b: Sequence[Decision]) -> Decision | None:
    """The first decision of `a` that `b` does not share."""
    for one, other in zip(a, b, strict=False):
        if (one.row, one.outcome) != (other.row, other.outcome):
            return one
    if len(a) == len(b):
        return None
    return max(a, b, key=len)[min(len(a), len(b))]

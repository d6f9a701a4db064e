"""What a checkpoint may keep so that a call and its derivative stay within so many bytes.

Every choice of what to keep makes two programs, the forward and the backward one, and what they
hold is measured (`peak_memory.py`), not estimated. The choices to try come in the order of the work
they repeat, and the first one that fits is taken. A choice starts from a few points of the program,
where all that is alive is kept, so that the backward pass computes one stretch between two points
again at a time; what room is left is filled greedily, by the work saved per byte. The same jaxpr
and budget always give the same answer.
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from ftrace.control.remat.peak_memory import nbytes, total
from ftrace.control.remat.revolve import run_again
from ftrace.control.remat.saving import READ, Graph
from ftrace.control.rows.scan import is_long, keeping
from ftrace.core.jaxpr import Jaxpr, Var
from ftrace.core.records import record
from ftrace.lowering.fusion.inline import opened

SHARES: Final = (1.0, 0.5, 0.0)
"""Of the budget, to fill with what is kept; the backward pass needs room besides."""


@record
class Budget:
    """How many bytes one call may hold at once, with its forward and its backward pass."""

    nbytes: int


def choices(graph: Graph, budget: int) -> list[list[Var]]:
    """What to keep, in the order of the work that is repeated then."""
    found: dict[frozenset[int], float] = {}
    for points in _numbers_of_points(graph):
        start = _alive_at(graph, points)
        for share in SHARES:
            keep = frozenset(_filled(graph, start, int(budget * share)))
            found.setdefault(keep, sum(graph.works[i] for i in graph.cut(keep)[0]))
    return [graph.cut(keep)[1] for keep in sorted(found, key=lambda k: (found[k], sorted(k)))]


def looped(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """A jaxpr, then the same with fewer and fewer states kept of its loops, down to one.

    A `scan` that keeps states restores the others as `checkpoint="binomial"` does.
    """
    yield jaxpr
    flat = opened(jaxpr)
    turns = max((e.params["loop"].length for e in flat.eqns if is_long(e)), default=0)
    slots = turns // 2
    while slots:
        eqns = [keeping(e, (run_again, slots)) if is_long(e) else e for e in flat.eqns]
        yield Jaxpr(flat.invars, eqns, flat.outvars, flat.constvars, flat.consts)
        slots //= 2


# ---------------------------------------------------------------------------------- points


def _numbers_of_points(graph: Graph) -> Iterator[int]:
    """0, 1, 3, 7, ...: stretches of a whole, a half, a quarter of the program."""
    points = 0
    while points**2 <= 4 * len(graph.cut(())[0]):  # more keep more than a stretch between them has
        yield points
        points = 2 * points + 1


def _alive_at(graph: Graph, points: int) -> set[int]:
    """The equations whose results are alive at some points, evenly apart in what is made.

    Each point lies where the fewest bytes are alive in its part of the program.
    """
    order = sorted(graph.cut(())[0])
    last: dict[Var, int] = {}  # reader in the chain; the derivative's reading is another matter
    for i in order:
        last.update((v, i) for v in graph.eqns[i].invars if graph.makers.get(v) is not None)
    made, alive = 0.0, dict[Var, float]()
    best: dict[int, tuple[float, set[int]]] = {}  # part of the program -> its cheapest point
    whole = sum(total(v.aval for v in graph.eqns[i].outvars) for i in order)
    for i in order:
        made += total(v.aval for v in graph.eqns[i].outvars)
        alive.update((v, nbytes(v.aval)) for v in graph.eqns[i].outvars if v in last)
        for v in [v for v in alive if last[v] <= i]:
            del alive[v]
        part = round(made / whole * (points + 1)) if 0 < whole < inf else 0
        size = sum(alive.values())
        if 0 < part <= points and size < best.get(part, (inf,))[0]:
            best[part] = size, {graph.makers[v] for v in alive}
    return {i for _, makers in best.values() for i in makers}


# ---------------------------------------------------------------------------------- filling


def _filled(graph: Graph, start: Iterable[int], room: int) -> set[int]:
    """The equations whose results to keep so that they fit into so many bytes."""
    keep = set(start)
    while True:
        again, kept = graph.cut(keep)
        parents, sizes = graph.dominators(again)
        gains = graph.gains(again, parents)
        left = room - total(v.aval for v in kept)
        worth = {i: gains[i] / max(sizes[i], 1) for i in again if sizes[i] <= left}
        found = _best(worth, sizes, parents, left)
        if not found:
            return keep
        keep |= found


def _best(
    worth: dict[int, float], sizes: dict[int, float], parents: dict[int, int], room: float
) -> set[int]:
    """The equations most worth keeping that fit together and do not change each other's worth.

    Only those at least half as good as the best: the others are judged anew after these. Equals
    (a chain of layers) are taken spread out, so that what lies between them is short: the backward
    pass holds what it computes again of one such stretch at a time.
    """
    found: set[int] = set()
    above: set[int] = {READ}
    for i in _spread(worth):
        if worth[i] < max(worth.values()) / 2:
            break
        line = [i, *_ancestors(i, parents)]
        if sizes[i] > room or i in above or not found.isdisjoint(line):
            continue
        found.add(i)
        above.update(line)
        room -= sizes[i]
    return found


def _spread(worth: dict[int, float]) -> list[int]:
    """The best first; equals in the order 0, 8, 4, 12, 2, 10, ... of their ranks."""
    ranks: dict[float, int] = {}
    keys: dict[int, tuple[float, str]] = {}
    for i in sorted(worth):
        rank = ranks[worth[i]] = ranks.get(worth[i], -1) + 1
        keys[i] = -worth[i], f"{rank:032b}"[::-1]
    return sorted(keys, key=keys.__getitem__)


def _ancestors(i: int, parents: dict[int, int]) -> Iterable[int]:
    while parents[i] != READ:
        i = parents[i]
        yield i

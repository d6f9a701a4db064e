"""A jaxpr as a picture: one box per equation, one curve per value, inputs on top.

Plain matplotlib, no graph library. The layout is the usual layered one: a box stands one layer
below the lowest of its operands; a curve that skips layers gets an invisible box on each, so that
it never runs behind a visible one; the boxes of a layer are ordered by the mean position of their
neighbours. The letters are those of the printed form, given in order of appearance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise, product
from string import ascii_lowercase

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

COLOURS = {"input": "#dbeafe", "equation": "#f4f4f5", "output": "#dcfce7"}
EDGES = {"input": "#2563eb", "equation": "#71717a", "output": "#16a34a"}
HEIGHT, ROW, GAP = 0.6, 1.2, 0.35
SWEEPS = 12


@dataclass
class Box:
    """One box of the picture: what it says, what it reads, and where it stands."""

    label: str
    kind: str
    reads: list[Box] = field(default_factory=list)
    layer: int = 0
    x: float = 0.0

    @property
    def y(self) -> float:
        """Height of the centre; layers grow downwards."""
        return -ROW * self.layer

    @property
    def width(self) -> float:
        """Wide enough for the label; a bend of a curve needs little room."""
        return 0.3 if self.kind == "bend" else max(1.2, 0.145 * len(self.label) + 0.35)


def letters() -> Iterator[str]:
    """The letters a, b, ..., z, aa, ab, ... of a jaxpr's values."""
    for length in count(1):
        for name in product(ascii_lowercase, repeat=length):
            yield "".join(name)


def boxes_of(jaxpr) -> list[Box]:
    """Inputs, equations and outputs as boxes, each below everything it reads."""
    fresh = letters()
    made = {}
    boxes = []
    for var in (*jaxpr.constvars, *jaxpr.invars):
        made[id(var)] = Box(f"{next(fresh)} : {var.aval!r}", "input")
        boxes.append(made[id(var)])
    for eqn in jaxpr.eqns:
        box = _equation_box(eqn, [next(fresh) for _ in eqn.outvars], made)
        made.update({id(var): box for var in eqn.outvars})
        boxes.append(box)
    results = [made[id(var)] for var in jaxpr.outvars if id(var) in made]
    return boxes + [Box("result", "output", [box], box.layer + 1) for box in results]


def _equation_box(eqn, results: list[str], made: dict[int, Box]) -> Box:
    """The box of one equation; scalar literals are written into it."""
    literals = [f"{v.value:g}" for v in eqn.invars if np.ndim(getattr(v, "value", [])) == 0]
    reads = [made[id(v)] for v in eqn.invars if id(v) in made]
    label = f"{', '.join(results)} = {' '.join([eqn.primitive.name, *literals])}"
    return Box(label, "equation", reads, 1 + max((r.layer for r in reads), default=0))


def routes_of(boxes: list[Box]) -> list[list[Box]]:
    """For each value that a box reads, the boxes its curve visits: source, bends, reader."""
    routes = []
    for box in boxes:
        for source in box.reads:
            bends = [Box("", "bend", layer=k) for k in range(source.layer + 1, box.layer)]
            routes.append([source, *bends, box])
    return routes


def place(boxes: list[Box], routes: list[list[Box]]) -> None:
    """Give every box its `x`: each layer near the mean of its neighbours, up and down."""
    everything = boxes + [bend for route in routes for bend in route[1:-1]]
    above: dict[int, list[Box]] = {id(box): [] for box in everything}
    below: dict[int, list[Box]] = {id(box): [] for box in everything}
    for upper, lower in (pair for route in routes for pair in pairwise(route)):
        above[id(lower)].append(upper)
        below[id(upper)].append(lower)
    depth = 1 + max(box.layer for box in boxes)
    layers = [[box for box in everything if box.layer == k] for k in range(depth)]
    for sweep in range(SWEEPS):
        order, neighbours = (layers, above) if sweep % 2 == 0 else (layers[::-1], below)
        for layer in order:
            _spread(layer, {id(box): _pull(box, neighbours[id(box)]) for box in layer})


def _spread(layer: list[Box], wanted: dict[int, float]) -> None:
    """Set the boxes of a layer side by side, as near to their wanted places as they fit."""
    layer.sort(key=lambda box: wanted[id(box)])
    free = -np.inf
    for box in layer:
        box.x = max(wanted[id(box)], free + box.width / 2)
        free = box.x + box.width / 2 + GAP
    shift = np.mean([wanted[id(box)] - box.x for box in layer])
    for box in layer:
        box.x += float(shift)


def _pull(box: Box, neighbours: list[Box]) -> float:
    return float(np.mean([near.x for near in neighbours])) if neighbours else box.x


def draw_jaxpr(ax: Axes, jaxpr) -> None:
    """Draw `jaxpr` into `ax`."""
    boxes = boxes_of(jaxpr)
    routes = routes_of(boxes)
    place(boxes, routes)
    for route in routes:
        _draw_route(ax, route)
    for box in boxes:
        _draw_box(ax, box)
    ax.set_xlim(min(b.x - b.width for b in boxes), max(b.x + b.width for b in boxes))
    ax.set_ylim(min(b.y for b in boxes) - HEIGHT, HEIGHT)
    ax.set_axis_off()


def _draw_box(ax: Axes, box: Box) -> None:
    corner = (box.x - box.width / 2, box.y - HEIGHT / 2)
    style = {"facecolor": COLOURS[box.kind], "edgecolor": EDGES[box.kind], "linewidth": 1.2}
    shape = "round,pad=0,rounding_size=0.18"
    ax.add_patch(FancyBboxPatch(corner, box.width, HEIGHT, shape, zorder=2, **style))
    ax.text(box.x, box.y, box.label, ha="center", va="center", family="monospace", size=9)


def _draw_route(ax: Axes, route: list[Box]) -> None:
    """A smooth curve from the lower edge of the first box to the upper edge of the last."""
    points, codes = [(route[0].x, route[0].y - HEIGHT / 2)], [Path.MOVETO]
    for upper, lower in pairwise(route):
        start, end = upper.y - HEIGHT / 2, lower.y + HEIGHT / 2
        middle = (start + end) / 2
        points += [(upper.x, middle), (lower.x, middle), (lower.x, end)]
        codes += [Path.CURVE4] * 3
        if lower.kind == "bend":
            points.append((lower.x, lower.y - HEIGHT / 2))
            codes.append(Path.LINETO)
    curve = Path(points, codes)
    ax.add_patch(PathPatch(curve, fill=False, edgecolor="#a1a1aa", linewidth=1.3, zorder=1))
    x, y = points[-1]
    ax.plot([x], [y + 0.04], marker="v", color="#71717a", markersize=4, zorder=3)

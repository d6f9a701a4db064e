"""One bar chart per group and thread count: every system's time over the best peer's.

Needs matplotlib; without it the run says so and keeps its tables. Read next:
`benchmarks/report.py`, whose rows are drawn.
"""

from __future__ import annotations

from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.report import COLUMNS, Row, best_peer, rows

COLOURS = dict(
    zip(
        COLUMNS,
        (
            "#c0392b",
            "#2f6fb3",
            "#e08a2e",
            "#8a5a1f",
            "#5b9a4a",
            "#8c6bb1",
            "#7f8c8d",
            "#333333",
            "#aaaaaa",
        ),
        strict=True,
    )
)


def _ratios(row: Row) -> dict[str, float]:
    best = best_peer(row) or min(row.values(), key=lambda r: r["min"])
    return {s: row[s]["min"] / best["min"] for s in COLUMNS if s in row and best["min"] > 0}


def _draw_group(title: str, table: dict[str, Row], path: Path) -> None:
    from matplotlib.figure import Figure

    height = sum(0.16 * len(row) + 0.25 for row in table.values())
    figure = Figure(figsize=(8, max(2.2, height + 1)), layout="constrained")
    axes = figure.subplots()
    at, ticks, seen = 0.0, [], set()
    for row in table.values():
        ratios = _ratios(row)
        ticks.append(at + (len(ratios) - 1) / 2)
        for system, ratio in ratios.items():
            label = None if system in seen else system
            axes.barh(at, ratio, height=0.9, color=COLOURS[system], label=label)
            seen.add(system)
            at += 1
        at += 1
    axes.set(xscale="log", xlabel="time / best peer (log scale, shorter is faster)", title=title)
    axes.set_yticks(ticks, list(table))
    axes.invert_yaxis()
    axes.axvline(1.0, color="#999999", linewidth=0.8, zorder=0)
    figure.legend(fontsize="small", ncols=8, loc="outside lower center", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def draw(records: list[dict[str, Any]], out: Path) -> str:
    """Write the charts; says what was written."""
    if find_spec("matplotlib") is None:
        return "(no plots: matplotlib is not installed)"
    groups: dict[tuple[str, int], dict[str, Row]] = defaultdict(dict)
    for (group, threads, case), row in rows(records).items():
        done = {s: r for s, r in row.items() if "min" in r}
        if done:
            groups[group, threads][case] = done
    for (group, threads), table in groups.items():
        title = f"{group}, {threads} thread{'s' * (threads > 1)}"
        _draw_group(title, table, out / f"{group}-{threads}.png")
    return f"({len(groups)} plots)"


def curves(series: dict[str, dict[int, float]], path: Path) -> str:
    """Time per partial against arity, one line a system; says what was written."""
    if find_spec("matplotlib") is None or not any(series.values()):
        return ""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for system, points in series.items():
        if points:
            axes.plot(*zip(*points.items(), strict=True), "o-", color=COLOURS[system], label=system)
    axes.set(yscale="log", xlabel="arity N", ylabel="ns per element and partial")
    axes.set_xticks(sorted({n for points in series.values() for n in points}))
    figure.legend(fontsize="small", ncols=8, loc="outside lower center", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    return f" ({path.name})"

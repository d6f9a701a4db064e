"""The demo's five pictures: training, decisions, projectile, jaxpr, compiled.

Each function takes results that were computed elsewhere and returns a finished figure. Figures are
made without pyplot, so no display is needed and no global state is left behind.
"""

from __future__ import annotations

import numpy as np
from compiled import Result
from digits_mlp import Digits, Run, logits, saliency
from jaxpr_picture import draw_jaxpr
from matplotlib.figure import Figure
from projectile import Launch, distance_at, flight

BLUE, ORANGE, GREEN, RED, GREY = "#2563eb", "#ea580c", "#16a34a", "#dc2626", "#71717a"
STYLES = {
    "ftrace": {"color": BLUE, "linewidth": 1.3, "zorder": 3},
    "NumPy by hand": {"color": ORANGE, "linewidth": 4.5, "alpha": 0.4, "zorder": 2},
}


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", dpi=130)


def _tidy(ax, title: str, xlabel: str, ylabel: str) -> None:
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)


def training(runs: dict[str, Run]) -> Figure:
    """Losses of both runs, their difference, and the test accuracy."""
    figure = _figure(11, 3.6)
    left, middle, right = figure.subplots(1, 3)
    traced, by_hand = (np.array(run.losses) for run in runs.values())
    epochs = len(runs["ftrace"].accuracies)
    progress = np.arange(1, len(traced) + 1) * epochs / len(traced)
    left.semilogy(progress, traced, color=GREY, linewidth=0.6, alpha=0.35)
    for losses, (name, style) in zip((traced, by_hand), STYLES.items(), strict=True):
        mean = losses.reshape(epochs, -1).mean(axis=1)
        left.semilogy(np.arange(1, epochs + 1), mean, label=name, **style)
    _tidy(left, "Training loss", "epoch", "cross-entropy (bold: epoch mean)")
    left.legend(frameon=False)
    gap = np.abs(traced - by_hand) / by_hand
    middle.semilogy(progress[gap > 0], gap[gap > 0], ".", color=BLUE, markersize=3)
    middle.set_ylim(1e-17, 1e-9)
    middle.set_xlim(left.get_xlim())
    _tidy(middle, "The two losses agree", "epoch", "relative difference")
    _accuracy_panel(right, runs)
    return figure


def _accuracy_panel(ax, runs: dict[str, Run]) -> None:
    for name, run in runs.items():
        values = 100 * np.array(run.accuracies)
        ax.plot(np.arange(1, len(values) + 1), values, label=name, **STYLES[name])
    ax.axhline(97, color=GREEN, linestyle="--", linewidth=1)
    ax.text(1, 97.1, "97 %", color=GREEN, fontsize=9, va="bottom")
    _tidy(ax, "Test accuracy", "epoch", "per cent")
    ax.legend(frameon=False, loc="lower right")


def decisions(run: Run, digits: Digits) -> Figure:
    """Test digits with the network's answers, what mattered to it, and the confusion matrix."""
    figure = _figure(11, 4.5)
    grid, table = figure.subfigures(1, 2, width_ratios=[1.45, 1])
    scores = logits(run.params, digits.x_test)
    answers = scores.argmax(axis=1)
    shown = _interesting(answers, digits.y_test)
    slopes = saliency(run.params, digits.x_test[shown])
    axes = grid.subplots(4, 8)
    for k, which in enumerate(shown):
        row, column = 2 * (k // 8), k % 8
        _digit(axes[row, column], digits.x_test[which], answers[which], digits.y_test[which])
        _slope(axes[row + 1, column], slopes[k])
    grid.suptitle(
        "Test digits (read as → is), and below each the pixels that moved the decision",
        fontsize=11,
        fontweight="bold",
        x=0.01,
        ha="left",
    )
    _confusion(table.subplots(), answers, digits.y_test)
    return figure


def _interesting(answers: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Sixteen test digits: the mistakes first, then one of each class, then whatever follows."""
    wrong = np.flatnonzero(answers != labels)[:6]
    firsts = [np.flatnonzero((labels == digit) & (answers == digit))[0] for digit in range(10)]
    rest = np.setdiff1d(np.arange(len(labels)), [*wrong, *firsts])
    return np.array([*firsts, *wrong, *rest])[:16]


def _digit(ax, pixels: np.ndarray, answer: int, label: int) -> None:
    right = answer == label
    ax.imshow(pixels.reshape(8, 8), cmap="gray_r")
    ax.set_title(
        f"{answer}" if right else f"{answer} → {label}",
        fontsize=10,
        pad=2,
        color=GREEN if right else RED,
        fontweight="bold",
    )
    ax.set_axis_off()


def _slope(ax, slope: np.ndarray) -> None:
    limit = np.abs(slope).max()
    ax.imshow(slope.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
    ax.set_axis_off()


def _confusion(ax, answers: np.ndarray, labels: np.ndarray) -> None:
    table = np.zeros((10, 10), dtype=int)
    np.add.at(table, (labels, answers), 1)
    ax.imshow(np.sqrt(table), cmap="Blues")
    for label, answer in np.argwhere(table):
        ax.text(
            answer,
            label,
            table[label, answer],
            ha="center",
            va="center",
            fontsize=9,
            color="white" if label == answer else RED,
        )
    ax.set_xticks(range(10))
    ax.set_yticks(range(10))
    ax.set_xlabel("read as")
    ax.set_ylabel("is")
    share = (answers == labels).mean()
    ax.set_title(f"{share:.1%} of {len(labels)} right", loc="left", fontsize=11, fontweight="bold")


def projectile(launch: Launch) -> Figure:
    """Flights at several angles, and the optimiser's way to the best one."""
    figure = _figure(11, 3.8)
    left, right = figure.subplots(1, 2)
    for degrees in (15, 30, 60, 75):
        left.plot(*flight(np.radians(degrees)), color=GREY, alpha=0.5, linewidth=1.2)
        x, y = flight(np.radians(degrees))
        left.annotate(
            f"{degrees}°",
            (x[len(x) // 2], y.max()),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            color=GREY,
        )
    left.plot(*flight(launch.angle), color=BLUE, linewidth=2.5, label=f"{launch.degrees:.3f}°")
    left.set_ylim(0, None)
    _tidy(left, "Flights at speed 1", "distance (m)", "height (m)")
    left.legend(frameon=False)
    _search_panel(right, launch)
    return figure


def _search_panel(ax, launch: Launch) -> None:
    angles = np.linspace(0, 90, 91)
    ax.plot(angles, [distance_at(a) for a in np.radians(angles)], color=GREY, linewidth=1.5)
    tried = np.array(launch.tried)
    ax.plot(np.degrees(tried[:, 0]), tried[:, 1], "o", color=BLUE, label="tried by scipy.optimize")
    ax.set_ylim(-0.002, 0.125)
    _tidy(ax, "The search for the greatest distance", "launch angle (degrees)", "distance (m)")
    ax.legend(frameon=False, loc="upper left")
    _closeup(ax.inset_axes((0.33, 0.22, 0.38, 0.38)), launch)


def _closeup(ax, launch: Launch) -> None:
    """The kink at the top: the number of time steps changes, and the slope jumps through zero."""
    near = np.linspace(-0.003, 0.003, 61)
    missing = [launch.distance - distance_at(a) for a in launch.angle + np.radians(near)]
    ax.plot(near, 1e9 * np.array(missing), color=BLUE, linewidth=1.2)
    ax.invert_yaxis()
    ax.set_title("nm below the best", fontsize=8, pad=3)
    ax.set_xlabel(f"degrees from {launch.degrees:.3f}", fontsize=8)
    ax.tick_params(labelsize=7)


def jaxpr(traced, source: str) -> Figure:
    """A function's source, its jaxpr as text, and the same jaxpr as a graph."""
    figure = _figure(11, 6.4)
    words, graph = figure.subplots(1, 2, width_ratios=[1, 1.5])
    words.set_axis_off()
    style = {"family": "monospace", "va": "top", "linespacing": 1.45, "transform": words.transAxes}
    words.text(0, 1.0, source, size=10, color=BLUE, **style)
    words.text(0, 0.8, str(traced), size=9, **style)
    draw_jaxpr(graph, traced)
    return figure


def compiled(results: list[Result]) -> Figure:
    """Times of the same work by hand, traced but not compiled, and compiled."""
    figure = _figure(11, 3.8)
    ax = figure.subplots()
    ways = {"by hand": ORANGE, "uncompiled": GREY, "compiled": BLUE}
    for k, (way, colour) in enumerate(ways.items()):
        places = np.arange(len(results)) + 0.27 * (k - 1)
        times = [1e3 * getattr(result, way.replace(" ", "_")) for result in results]
        bars = ax.barh(places, times, height=0.25, color=colour, label=way)
        ax.bar_label(bars, [f"{t:.3g}" for t in times], padding=3, fontsize=8)
    ax.set_yticks(range(len(results)), [f"{r.name}\n{_kernels(r)}" for r in results])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.margins(x=0.1)
    _tidy(ax, "The same work, by hand and by ftrace", "milliseconds (median, log scale)", "")
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    return figure


def _kernels(result: Result) -> str:
    return f"{result.kernels} kernel{'s' if result.kernels != 1 else ''}"

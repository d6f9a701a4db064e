"""The demo behind `make demo`: train, optimise, look inside, compile, draw.

Five parts, each a few lines on top of a module beside this one: a network on handwritten digits
(`digits_mlp.py`), a projectile's best launch angle (`projectile.py`), a gradient as jaxpr, kernel
and LLVM and a third derivative (here), compiled functions beside NumPy (`compiled.py`), and the
pictures (`pictures.py`, written to `build/demo/`).
Run it with `make demo` or `python examples/demo.py [folder]`.
"""

from __future__ import annotations

import inspect
import sys
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import compiled
import digits_mlp
import numpy as np
import pictures
import projectile
import timing
from compiled import f
from tqdm import tqdm

import ftrace

LLVM_LINES = 24


def third_derivative(x):
    """The third derivative of `f`, on paper."""
    return -3 * np.sin(x) - x * np.cos(x) - np.exp(-x)


def heading(text: str) -> None:
    """Print a section's title."""
    print(f"\n{text}\n{'-' * len(text)}")


def train_digits() -> tuple[dict[str, digits_mlp.Run], digits_mlp.Digits]:
    """Part (a): the network, by ftrace and by hand."""
    heading("(a) Handwritten digits: a compiled training step beside NumPy written by hand")
    digits = digits_mlp.load()
    runs = digits_mlp.train(digits, tqdm(range(digits_mlp.EPOCHS), "training", unit="epoch"))
    traced, by_hand = (np.array(run.losses) for run in runs.values())
    print(
        f"{len(digits.x_train)} training and {len(digits.x_test)} test pictures, "
        f"{len(traced)} steps each"
    )
    print(f"{'':16}{'accuracy':>10}{'last loss':>12}{'all steps':>12}{'first step':>14}")
    for name, run in runs.items():
        print(
            f"{name:16}{run.accuracies[-1]:>10.2%}{run.losses[-1]:>12.6f}"
            f"{sum(run.seconds):>10.2f} s{1e3 * run.seconds[0]:>11.1f} ms"
        )
    print(f"largest relative difference of the two losses: {_gap(traced, by_hand):.1e}")
    _time_a_step(runs["ftrace"], digits)
    return runs, digits


def _time_a_step(run: digits_mlp.Run, digits: digits_mlp.Digits) -> None:
    """What a step costs after the first, and what it consists of."""
    batch = next(digits_mlp.batches(digits, np.random.default_rng(digits_mlp.SEED)))
    args = (run.params, run.velocity, *batch)
    step = digits_mlp.ftrace_step
    calls = {
        "by hand": partial(digits_mlp.numpy_step, *args),
        "compiled": partial(step, *args),
        "without compiling": partial(timing.uncompiled, step, *args),
    }
    times = timing.medians(calls, 51)
    described = ", ".join(f"{name} {1e3 * t:.2f} ms" for name, t in times.items())
    cost = step.lower(*args).cost()
    print(f"one step, in turns (medians): {described}")
    print(
        f"the compiled step: {cost.kernels} kernels, and {cost.library_rows} library rows "
        "(matrix products, by the BLAS that NumPy uses)"
    )


def _gap(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.max(np.abs(left - right) / np.abs(right)))


def find_launch_angle() -> projectile.Launch:
    """Part (b): the projectile."""
    heading("(b) A projectile: scipy.optimize with ftrace's slope of a native Python loop")
    start = perf_counter()
    with tqdm(desc="optimising", unit="flight") as bar:
        launch = projectile.best_launch(report=bar.update)
    seconds = perf_counter() - start
    print(
        f"greatest distance {launch.distance:.6f} m at {launch.degrees:.3f} degrees "
        f"({len(launch.tried)} flights of value and slope, {seconds:.1f} s)"
    )
    return launch


def show_levels_and_third_derivative():
    """Part (c): what a gradient looks like inside, and derivatives of derivatives."""
    heading("(c) grad(f) as jaxpr, kernel and LLVM; grad(grad(grad(f))) against the closed form")
    traced = ftrace.make_jaxpr(ftrace.grad(f))(np.float64(0.7))
    print(inspect.getsource(f))
    print(traced)
    lowered = compiled.slope.lower(np.ones(compiled.SIZE))
    print("\njit(vmap(grad(f))), for arrays:", *lowered.kernels, sep="\n")
    lines = lowered.llvm.splitlines()
    start = next(i for i, line in enumerate(lines) if "@kernel0(" in line)
    print(f"\nand as LLVM, {LLVM_LINES} of {len(lines)} lines:")
    print(*lines[start : start + LLVM_LINES], sep="\n")
    third = ftrace.grad(ftrace.grad(ftrace.grad(f)))
    print(f"\n{'x':>6}{'grad(grad(grad(f)))':>24}{'closed form':>24}{'difference':>12}")
    for x in (-1.5, 0.0, 0.7, 2.0):
        ours, exact = third(x), third_derivative(x)
        print(f"{x:>6}{ours:>24.16f}{exact:>24.16f}{abs(ours - exact):>12.1e}")
    return traced


def compare_with_numpy() -> list[compiled.Result]:
    """Part (d): medians of the same work by hand, traced but not compiled, and compiled."""
    heading("(d) Compiled functions beside the same work by hand (milliseconds, medians in turns)")
    print(
        f"{'':22}{'by hand':>10}{'uncompiled':>12}{'compiled':>10}{'first call':>12}"
        f"{'kernels':>9}{'library':>9}{'difference':>12}"
    )
    results = [compiled.compare(c) for c in tqdm(compiled.cases(), "comparing", unit="case")]
    for r in results:
        print(
            f"{r.name:22}{1e3 * r.by_hand:>10.2f}{1e3 * r.uncompiled:>12.2f}"
            f"{1e3 * r.compiled:>10.2f}{1e3 * r.first:>12.1f}"
            f"{r.kernels:>9}{r.library_rows:>9}{r.difference:>12.1e}"
        )
    gains = [r.by_hand / r.compiled for r in results]
    print(
        f"by hand over compiled: {min(gains):.1f} to {max(gains):.1f}, median {median(gains):.1f}"
    )
    return results


def save(figures: dict[str, pictures.Figure], folder: Path) -> None:
    """Part (e): write the pictures."""
    heading("(e) Pictures")
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        path = folder / f"{name}.png"
        figure.savefig(path)
        print(path)


def main(folder: Path) -> None:
    """Run all parts and write the pictures to `folder`."""
    start = perf_counter()
    runs, digits = train_digits()
    launch = find_launch_angle()
    traced = show_levels_and_third_derivative()
    results = compare_with_numpy()
    figures = {
        "training": pictures.training(runs),
        "decisions": pictures.decisions(runs["ftrace"], digits),
        "projectile": pictures.projectile(launch),
        "jaxpr": pictures.jaxpr(traced, inspect.getsource(f)),
        "compiled": pictures.compiled(results),
    }
    save(figures, folder)
    print(f"\ndone in {perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo"))

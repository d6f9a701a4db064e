"""The demo behind `make demo`: train, optimise, look inside, draw.

Four parts, each a few lines on top of a module beside this one: a network on handwritten digits
(`digits_mlp.py`), a projectile's best launch angle (`projectile.py`), the jaxpr of a gradient and a
third derivative (here), and the pictures (`pictures.py`, written to `build/demo/`).
Run it with `make demo` or `python examples/demo.py [folder]`.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from time import perf_counter

import digits_mlp
import numpy as np
import pictures
import projectile
from tqdm import tqdm

import ftrace


def f(x):
    y = np.sin(x)
    z = x * y
    return z + np.exp(-x)


def third_derivative(x):
    """The third derivative of `f`, on paper."""
    return -3 * np.sin(x) - x * np.cos(x) - np.exp(-x)


def heading(text: str) -> None:
    """Print a section's title."""
    print(f"\n{text}\n{'-' * len(text)}")


def train_digits() -> tuple[dict[str, digits_mlp.Run], digits_mlp.Digits]:
    """Part (a): the network, by ftrace and by hand."""
    heading("(a) Handwritten digits: jit(value_and_grad(loss)) beside a gradient written by hand")
    digits = digits_mlp.load()
    runs = digits_mlp.train(digits, tqdm(range(digits_mlp.EPOCHS), "training", unit="epoch"))
    traced, by_hand = (np.array(run.losses) for run in runs.values())
    print(
        f"{len(digits.x_train)} training and {len(digits.x_test)} test pictures, "
        f"{len(traced)} steps each"
    )
    print(f"{'':16}{'accuracy':>10}{'last loss':>12}{'seconds':>10}{'first step':>14}")
    for name, run in runs.items():
        print(
            f"{name:16}{run.accuracies[-1]:>10.2%}{run.losses[-1]:>12.6f}"
            f"{run.seconds:>10.2f}{1e3 * run.first_step:>11.1f} ms"
        )
    ratio = runs["ftrace"].seconds / runs["NumPy by hand"].seconds
    print(f"largest relative difference of the two losses: {_gap(traced, by_hand):.1e}")
    print(f"ftrace's time over the hand-written loop's: {ratio:.2f}")
    return runs, digits


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


def show_jaxpr_and_third_derivative():
    """Part (c): what a gradient looks like inside, and derivatives of derivatives."""
    heading("(c) The jaxpr of grad(f), and grad(grad(grad(f))) against the closed form")
    traced = ftrace.make_jaxpr(ftrace.grad(f))(np.float64(0.7))
    print(inspect.getsource(f))
    print(traced)
    third = ftrace.grad(ftrace.grad(ftrace.grad(f)))
    print(f"\n{'x':>6}{'grad(grad(grad(f)))':>24}{'closed form':>24}{'difference':>12}")
    for x in (-1.5, 0.0, 0.7, 2.0):
        ours, exact = third(x), third_derivative(x)
        print(f"{x:>6}{ours:>24.16f}{exact:>24.16f}{abs(ours - exact):>12.1e}")
    return traced


def save(figures: dict[str, pictures.Figure], folder: Path) -> None:
    """Part (d): write the pictures."""
    heading("(d) Pictures")
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
    traced = show_jaxpr_and_third_derivative()
    figures = {
        "training": pictures.training(runs),
        "decisions": pictures.decisions(runs["ftrace"], digits),
        "projectile": pictures.projectile(launch),
        "jaxpr": pictures.jaxpr(traced, inspect.getsource(f)),
    }
    save(figures, folder)
    print(f"\ndone in {perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo"))

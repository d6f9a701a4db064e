"""The tables of the paper on forward mode in Julia, with its columns beside ours.

    python -m benchmarks.forwarddiff [--quick] [--out FILE] [--plot FILE]

Table 1 is a gradient of 12000 numbers by forward mode in chunks of N, table 2 gradients of k
numbers in the mode that `ftrace.gradient` chooses, of functions of arrays and of loops over
numbers. The paper's seconds are those of its machine; C is `benchmarks/c/duals.c` on this one, JAX
and autograd are timed where they are installed (the extra "bench"). One thread; the least of some
rounds. (J. Revels, M. Lubin and T. Papamarkou, Forward-Mode Automatic
Differentiation in Julia, 2016, tables 1 and 2.)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import ftrace
from benchmarks import machine, native
from ftrace import lax

CHUNKS = (1, 2, 3, 4, 5, 10, 100)
SIZES = (10, 100, 1000, 10000, 100000)
PAPER_1 = {
    "Rosenbrock": {
        1: (2.66744, 0.62760),
        2: (2.71184, 0.45541),
        3: (1.92713, 0.44469),
        4: (1.45306, 0.42354),
        5: (1.24949, 0.44045),
    },
    "Ackley": {
        1: (4.02078, 5.12890),
        2: (4.35398, 2.72003),
        3: (3.05532, 1.86055),
        4: (2.26095, 1.47578),
        5: (1.91985, 1.23500),
    },
}
"""Seconds of C++ and of ForwardDiff, by function and chunk."""
PAPER_2 = {
    "Ackley": {
        10: (0.001204, 0.000007),
        100: (0.008472, 0.000058),
        1000: (0.081499, 0.006351),
        10000: (0.835441, 0.564828),
        100000: (8.361769, 56.850198),
    },
    "Rosenbrock": {
        10: (0.000866, 0.000003),
        100: (0.004395, 0.000034),
        1000: (0.040702, 0.003010),
        10000: (0.411095, 0.302277),
        100000: (4.173851, 30.365882),
    },
}
"""Seconds of autograd and of ForwardDiff, by function and size."""


def rosenbrock(x: Any, numpy: Any = np) -> Any:
    """The paper's equation 4, with the functions of some NumPy."""
    return numpy.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def ackley(x: Any, numpy: Any = np) -> Any:
    """The paper's equation 5, with a = 20, b = 0.2 and c = 2 pi."""
    squares, waves = numpy.mean(x**2), numpy.mean(numpy.cos(2 * np.pi * x))
    return -20 * numpy.exp(-0.2 * numpy.sqrt(squares)) - numpy.exp(waves) + 20 + np.e


def rosenbrock_loop(x: Any) -> Any:
    """The same as a loop over numbers."""

    def term(i: Any, total: Any) -> Any:
        return total + 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2

    return lax.fori_loop(0, len(x) - 1, term, 0.0)


def ackley_loop(x: Any) -> Any:
    """The same as a loop over numbers."""

    def terms(i: Any, sums: Any) -> Any:
        return sums[0] + x[i] ** 2, sums[1] + np.cos(2 * np.pi * x[i])

    squares, waves = lax.fori_loop(0, len(x), terms, (0.0, 0.0))
    n = len(x)
    return -20 * np.exp(-0.2 * np.sqrt(squares / n)) - np.exp(waves / n) + 20 + np.e


FUNCTIONS = {"Rosenbrock": (rosenbrock, rosenbrock_loop), "Ackley": (ackley, ackley_loop)}


def least(call: Callable[[], Any], budget: float) -> float:
    """Seconds of the fastest of at least three calls, after a first one."""
    call()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 1000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _peer(name: str) -> Any:
    """A package, if it is installed."""
    return import_module(name) if find_spec(name) else None


def jax_chunks(f: Callable[..., Any], x: Any, chunk: int) -> Callable[[], Any] | None:
    """Table 1 by JAX: a loop over chunks of unit vectors."""
    jax = _peer("jax")
    if jax is None:
        return None
    jax.config.update("jax_enable_x64", True)
    numpy, k = jax.numpy, len(x)
    value, places = numpy.asarray(x), numpy.arange(k)

    def one(value: Any, start: Any) -> Any:
        units = (places[None] == start + numpy.arange(chunk)[:, None]).astype(value.dtype)
        return jax.vmap(lambda t: jax.jvp(lambda x: f(x, numpy), (value,), (t,))[1])(units)

    def gradient(value: Any) -> Any:
        return jax.lax.map(partial(one, value), numpy.arange(0, k, chunk)).reshape(-1)[:k]

    made = jax.jit(gradient)
    return lambda: made(value).block_until_ready()


def jax_gradient(f: Callable[..., Any], x: Any) -> Callable[[], Any] | None:
    """Table 2 by JAX: the compiled gradient."""
    jax = _peer("jax")
    if jax is None:
        return None
    jax.config.update("jax_enable_x64", True)
    made = jax.jit(jax.grad(lambda x: f(x, jax.numpy)))
    value = jax.numpy.asarray(x)
    return lambda: made(value).block_until_ready()


def autograd_gradient(f: Callable[..., Any], x: Any) -> Callable[[], Any] | None:
    """Table 2 by autograd."""
    autograd = _peer("autograd")
    if autograd is None:
        return None
    numpy = import_module("autograd.numpy")
    made = autograd.grad(lambda x: f(x, numpy))
    return lambda: made(x)


def _by_peer(call: Callable[[], Any] | None, wanted: Any, budget: float) -> float | None:
    """Seconds of a peer that is there, whose gradient is right."""
    if call is None:
        return None
    np.testing.assert_allclose(np.asarray(call()), wanted, rtol=1e-8, atol=1e-9)
    return least(call, budget)


def chunk_rows(k: int, budget: float) -> Iterator[list[str]]:
    """Table 1: function, chunk, the paper's two columns, C, JAX, ours, its first call."""
    x = np.random.default_rng(0).uniform(0.2, 1.2, k)
    for name, (f, _) in FUNCTIONS.items():
        for chunk in CHUNKS:
            ours = ftrace.jit(ftrace.gradient(f, mode="forward", chunk_size=chunk))
            start = time.perf_counter()
            found = ours(x)
            first = time.perf_counter() - start
            paper = PAPER_1[name].get(chunk) if k == 12000 else None
            by_hand = None
            if not native.missing():
                call = native.bind(f"{name.lower()}_duals_{chunk}", [x], [((k,), float)], [k])
                np.testing.assert_allclose(call()[0], found, rtol=1e-8, atol=1e-9)
                by_hand = least(call, budget)
            jax = _by_peer(jax_chunks(f, x, chunk), found, budget)
            seconds = [
                *(paper or (None, None)),
                by_hand,
                jax,
                least(partial(ours, x), budget),
                first,
            ]
            yield [name, str(chunk), *map(_text, seconds)]


def size_rows(sizes: tuple[int, ...], budget: float) -> Iterator[list[str]]:
    """Table 2: function, size, the paper's two columns, autograd, JAX, ours, in loops, the mode."""
    for name, (f, loop) in FUNCTIONS.items():
        for k in sizes:
            x = np.random.default_rng(0).uniform(0.2, 1.2, k)
            gradient: Any = ftrace.gradient(f)
            whole, each = ftrace.jit(gradient), ftrace.jit(ftrace.gradient(loop))
            found = whole(x)
            np.testing.assert_allclose(found, each(x), rtol=1e-8, atol=1e-9)
            peers = [
                _by_peer(made(f, x), found, budget) for made in (autograd_gradient, jax_gradient)
            ]
            times = least(partial(whole, x), budget), least(partial(each, x), budget)
            seconds = [*PAPER_2[name].get(k, (None, None)), *peers, *times]
            yield [name, str(k), *map(_text, seconds), gradient.choice(x).mode]


def _text(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.6f}"


def draw(rows: Sequence[Sequence[str]], heads: Sequence[str], path: Path) -> None:
    """Table 2 as curves, a picture for each function."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(FUNCTIONS)), FUNCTIONS, strict=True):
        mine = [row for row in rows if row[0] == name]
        for column in range(2, len(heads) - 1):
            points = [(int(r[1]), float(r[column])) for r in mine if r[column]]
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", label=heads[column])
        axes.set(xscale="log", yscale="log", xlabel="k", ylabel="seconds", title=name)
        axes.legend(fontsize="small")
    figure.savefig(path)


def table(title: str, heads: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Lines of Markdown."""
    lines = [f"## {title}", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def main(arguments: list[str] | None = None) -> str:
    """Measure, print, and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--out", type=Path, help="a file for the tables")
    parser.add_argument("--plot", type=Path, help="a file for a picture of table 2")
    options = parser.parse_args(arguments)
    k, sizes, budget = (600, SIZES[:3], 0.02) if options.quick else (12000, SIZES, 0.5)
    facts = machine.facts()
    chunks = [
        "function",
        "N",
        "paper: C++",
        "paper: ForwardDiff",
        "C duals",
        "jax",
        "ftrace",
        "first call",
    ]
    heads = [
        "function",
        "k",
        "paper: autograd",
        "paper: ForwardDiff",
        "autograd",
        "jax",
        "ftrace",
        "ftrace, loop",
        "mode",
    ]
    sized = list(size_rows(sizes, budget))
    lines = [
        "# Gradients by forward mode, and in the mode that is chosen",
        "",
        f"Seconds, one thread. {facts['cpu']}, {facts['date']}, load {facts['load'][0]}.",
        "",
        *table(f"Table 1: chunks of N, k = {k}", chunks, chunk_rows(k, budget)),
        *table("Table 2: k numbers", heads, sized),
    ]
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text)
    if options.plot:
        draw(sized, heads, options.plot)
    return text


if __name__ == "__main__":
    main()

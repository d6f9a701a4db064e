"""What ftrace promises per operation, measured in one process, each promise with its bar.

    python -m benchmarks.overhead [--json FILE] [--rounds N]

Import cost beside NumPy's; eager jvp and grad of a 15-operation scalar chain beside autograd's;
staging per operation; what `fnp.sin` adds to `np.sin`; what cells and protected captures cost
programs that never mutate (`variant.py` says what is switched off for that); compiled calls. Both
sides of a ratio take turns inside one process, and the minimum of all turns counts. Exit code 0
always: the table says what is met.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.cases.functions import rosenbrock, summed_chain
from benchmarks.pool import ROOT
from benchmarks.variant import unprotected
from benchmarks.worker import seconds_per_call

OPERATIONS = 15
BURST = 0.001
"""Seconds per sample: short, so that some samples of a busy machine are not interrupted."""
TURN, WARM = 10, 30
"""Samples per turn, and calls before the first of them, where a switch is thrown in between."""
PROTECTION_BAR = 1.1
Promise = dict[str, Any]


def chain(xp: Any, x: Any) -> Any:
    """Fifteen operations on scalars, a third of them transcendental."""
    for _ in range(3):
        y = xp.sin(x)
        y = y * x
        y = y + 0.5
        x = xp.cos(y)
        x = x - y
    return x


def interleaved(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The minimum of each call's samples; the calls take turns."""
    best = dict.fromkeys(calls, float("inf"))
    counts = {}
    for name, call in calls.items():
        call()
        once = min(seconds_per_call(call, 3) for _ in range(3))
        counts[name] = max(1, int(BURST / once))
    for _ in range(rounds):
        for name, call in calls.items():
            best[name] = min(best[name], seconds_per_call(call, counts[name]))
    return best


def promise(line: str, figure: float, bar: float | None, unit: str, detail: str = "") -> Promise:
    """One line of the table."""
    figure = round(figure, 3)
    return {"line": line, "figure": figure, "bar": bar, "unit": unit, "detail": detail}


def _start(code: str, compiled: str) -> float:
    """Processor seconds of a fresh interpreter: unlike the clock's, they do not grow with load.

    Modules are read as bytecode, which a first start leaves in the folder `compiled`.
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def import_cost(rounds: int) -> list[Promise]:
    """`import ftrace` over `import numpy`, the interpreter's start subtracted.

    What `ftrace` loads late is not free, so the import with a first use is shown too, without bar.
    """
    first_use = "import ftrace; ftrace.numpy.sin, ftrace.grad, ftrace.vmap, ftrace.jit"
    codes = {"nothing": "pass", "numpy": "import numpy", "import ftrace": "import ftrace"}
    codes["import ftrace, then name grad, vmap, jit, numpy.sin"] = first_use
    best = dict.fromkeys(codes, float("inf"))
    with TemporaryDirectory() as compiled:
        for _ in range(max(rounds // 5, 15)):
            for name, code in codes.items():
                best[name] = min(best[name], _start(code, compiled))
    lines, theirs = [], best["numpy"] - best["nothing"]
    for name, bar in zip(list(codes)[2:], (1.3, None), strict=True):
        ours = best[name] - best["nothing"]
        detail = f"{ours * 1e3:.1f} ms / {theirs * 1e3:.1f} ms of processor time"
        lines.append(promise(f"{name} / import numpy", ours / theirs, bar, "x", detail))
    return lines


def against_autograd(rounds: int) -> list[Promise]:
    """Eager jvp and grad of the chain, beside autograd's."""
    import ftrace
    import ftrace.numpy as fnp

    try:
        import autograd
        import autograd.numpy as anp
    except ImportError:
        missing = {"figure": None, "bar": None, "unit": "x", "detail": "autograd not installed"}
        return [{"line": "eager jvp and grad / autograd", **missing}]
    x, t = 0.7, 1.0
    ours, theirs = (lambda v: chain(fnp, v)), (lambda v: chain(anp, v))
    make_jvp, grad, their_grad = autograd.make_jvp(theirs), ftrace.grad(ours), autograd.grad(theirs)
    best = interleaved(
        {
            "jvp": lambda: ftrace.jvp(ours, (x,), (t,)),
            "autograd jvp": lambda: make_jvp(x)(t),
            "grad": lambda: grad(x),
            "autograd grad": lambda: their_grad(x),
        },
        rounds,
    )
    lines = []
    for mode, bar in (("jvp", 0.6), ("grad", 1.0)):
        mine, other = best[mode], best[f"autograd {mode}"]
        detail = f"{mine / OPERATIONS * 1e6:.2f} / {other / OPERATIONS * 1e6:.2f} us per op"
        lines.append(promise(f"eager {mode} / autograd", mine / other, bar, "x", detail))
    return lines


def staging_cost(rounds: int) -> list[Promise]:
    """`make_jaxpr` of the chain, per operation."""
    import ftrace
    import ftrace.numpy as fnp

    def fresh() -> Any:
        return ftrace.make_jaxpr(lambda v: chain(fnp, v))(0.7)

    best = interleaved({"staging": fresh}, rounds)["staging"]
    return [promise("staging", best / OPERATIONS * 1e6, 5.0, "us/op")]


def untransformed_cost(rounds: int) -> list[Promise]:
    """`fnp.sin` on ten doubles outside any transformation, minus `np.sin`."""
    import ftrace.numpy as fnp

    a = np.linspace(0.0, 1.0, 10)
    calls = {"fnp": lambda f=fnp.sin: f(a), "np": lambda f=np.sin: f(a)}
    best = interleaved(calls, rounds)
    detail = f"{best['fnp'] * 1e9:.0f} - {best['np'] * 1e9:.0f} ns"
    extra = (best["fnp"] - best["np"]) * 1e9
    return [promise("untransformed fnp.sin over np.sin", extra, 150.0, "ns", detail)]


def _never_mutating(fnp: Any) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Programs without a write: a scalar chain, captured operands, elements and slices."""
    captured = [np.linspace(0.1, 1.0, 10) + k for k in range(10)]
    large = np.linspace(0.1, 1.0, 20_000)

    def captures(x: Any) -> Any:
        for c in captured:
            x = fnp.sin(x) * c
        return fnp.sum(x)

    def views(x: Any) -> Any:
        total = x[0] * x[1]
        for k in range(2, 6):
            total = total + x[k] * fnp.sum(x[k:])
        return total

    x = np.linspace(0.2, 0.9, 10)
    return {
        "scalar chain": (lambda v: chain(fnp, v), np.float64(0.7)),
        "ten captured arrays": (captures, x),
        "one large capture": (lambda v: fnp.sum(fnp.sin(v * large) * large), large + 0.1),
        "elements and slices": (views, x),
    }


def protection_cost(rounds: int) -> list[Promise]:
    """jvp, grad, staging and vmap of programs that never mutate, with and without protection."""
    import ftrace
    import ftrace.numpy as fnp

    lines = []
    for name, (f, x) in _never_mutating(fnp).items():
        grad, two = ftrace.grad(f), np.stack([x, x])
        modes = {
            "jvp": lambda f=f, x=x: ftrace.jvp(f, (x,), (x,)),
            "grad": lambda grad=grad, x=x: grad(x),
            "staging": lambda f=f, x=x: ftrace.make_jaxpr(lambda v: f(v))(x),
            "vmap": lambda f=f, xs=two: ftrace.vmap(f)(xs),
        }
        for mode, call in modes.items():
            ratio = _with_over_without(call, rounds)
            lines.append(
                promise(f"cells and captures: {mode} of {name}", ratio, PROTECTION_BAR, "x")
            )
    return lines


def _with_over_without(call: Callable[[], Any], rounds: int) -> float:
    """Minimum with protection over minimum without; the two take turns.

    A switch makes the interpreter forget what it specialised, so every turn warms up first. A
    ratio above the bar gets more samples on both sides before it counts.
    """
    call()
    count = max(1, int(BURST / min(seconds_per_call(call, 3) for _ in range(3))))
    best = [float("inf")] * 2

    def turn(side: int) -> None:
        seconds_per_call(call, WARM)
        best[side] = min(best[side], *(seconds_per_call(call, count) for _ in range(TURN)))

    for again in range(3):
        if again and best[0] <= PROTECTION_BAR * best[1]:
            break
        for _ in range(max(1, rounds // TURN)):
            turn(0)
            with unprotected():
                turn(1)
                turn(1)
            turn(0)
    return best[0] / best[1]


def compiled_cost(rounds: int) -> list[Promise]:
    """A jitted call, first calls, a second size, and a native loop over scalars."""
    import ftrace
    import ftrace.numpy as fnp
    from ftrace.cpu.runtime.native_launch import compilations

    a = np.linspace(0.0, 1.0, 10)
    jitted = ftrace.jit(lambda x, y: x * y + 1.0)
    call = interleaved({"call": lambda: jitted(a, a)}, rounds)["call"]
    lines = [promise("jitted call of two arrays", call * 1e6, 5.0, "us")]
    for name, program, bar in (
        ("rosenbrock", rosenbrock, 25.0),
        ("chain200", summed_chain(200), 60.0),
    ):
        best = min(_first_call(program, k) for k in range(max(rounds // 10, 7)))
        lines.append(promise(f"first call of jit(grad({name}))", best * 1e3, bar, "ms"))
    gradient = ftrace.jit(ftrace.grad(lambda x: rosenbrock(fnp, x)))
    gradient(np.ones(1000))
    before = compilations()
    gradient(np.ones(2000))
    lines.append(promise("modules compiled for a second size", compilations() - before, 0.0, ""))
    turns = 10_000
    loop = ftrace.jit(lambda n: _count_up(ftrace, n))
    eager = _seconds(lambda: _count_up(ftrace, turns)) / turns
    native = _seconds(lambda: loop(1_000_000)) / 1e6
    detail = f"{eager * 1e6:.3g} us / {native * 1e9:.3g} ns a turn; bar: at least"
    detail += " 50 x"
    lines.append(promise("while_loop, eager / jitted", eager / native, None, "x", detail))
    return lines


def threads_cost(rounds: int) -> list[Promise]:
    """Two threads on kernels of milliseconds, and what waking one costs, where there are two."""
    import ftrace
    import ftrace.numpy as fnp
    from ftrace.cpu.threads.thread_pool import processors

    if processors() < 2:
        return []
    x = np.random.default_rng(0).normal(size=2_000_000)
    lines = []
    for name, f in (
        ("sin(x) exp(-x x) + tanh(x)", lambda x: fnp.sin(x) * fnp.exp(-x * x) + fnp.tanh(x)),
        ("the sum of that", lambda x: (fnp.sin(x) * fnp.exp(-x * x) + fnp.tanh(x)).sum()),
    ):
        calls = {}
        for count in (1, 2):
            with ftrace.config.update(threads=count):
                calls[str(count)] = ftrace.jit(f).lower(x).compile()
        best = interleaved({k: partial(c, x) for k, c in calls.items()}, max(rounds // 5, 7))
        detail = f"{best['2'] * 1e3:.3g} / {best['1'] * 1e3:.3g} ms"
        line = f"two threads / one: {name}, 2e6"
        lines.append(promise(line, best["2"] / best["1"], 0.59, "x", detail))
    return lines


def _first_call(program: Callable[..., Any], number: int) -> float:
    """Seconds of a new function's first compiled call; its code differs from every earlier one."""
    import ftrace
    import ftrace.numpy as fnp

    def fresh(x: Any) -> Any:
        y = program(fnp, x)
        for _ in range(number + 1):  # so that no module is found
            y = y * 0.5
        return y

    x = np.linspace(0.1, 1.0, 1000)
    ftrace.jit(lambda v: v + 1.0)(x)  # starts LLVM
    return _seconds(lambda: ftrace.jit(ftrace.grad(fresh))(x), 1)


def _seconds(call: Callable[[], Any], times: int = 5) -> float:
    return min(seconds_per_call(call, 1) for _ in range(times))


def _count_up(ftrace: Any, turns: Any) -> Any:
    """A loop over two scalars."""
    return ftrace.lax.while_loop(
        lambda c: c[0] < turns, lambda c: (c[0] + 1, c[1] * 0.999 + 0.5), (0, 1.5)
    )


SECTIONS = (
    import_cost,
    against_autograd,
    staging_cost,
    untransformed_cost,
    protection_cost,
    compiled_cost,
    threads_cost,
)


def measured(rounds: int) -> list[Promise]:
    """Every line; a section that cannot run says why."""
    lines: list[Promise] = []
    for section in SECTIONS:
        try:
            lines += section(rounds)
        except (ImportError, AttributeError) as gap:
            blank = {"figure": None, "bar": None, "unit": "", "detail": f"not measured: {gap}"}
            lines.append({"line": section.__name__, **blank})
    return lines


def table(lines: list[Promise]) -> str:
    """The lines as Markdown."""
    text = ["| line | figure | bar | met | detail |", "|---|---|---|---|---|"]
    for p in lines:
        if p["figure"] is None:
            text.append(f"| {p['line']} | - | - | - | {p['detail']} |")
            continue
        figure, bar, met = f"{p['figure']:.3g} {p['unit']}", "-", "-"
        if p["bar"] is not None:
            bar, met = f"{p['bar']:g} {p['unit']}", "yes" if p["figure"] <= p["bar"] else "NO"
        text.append(f"| {p['line']} | {figure} | {bar} | {met} | {p['detail']} |")
    return "\n".join(text)


def main(argv: list[str] | None = None) -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(prog="benchmarks.overhead")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args(argv)
    lines = measured(args.rounds)
    print(table(lines))
    if args.json:
        args.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()

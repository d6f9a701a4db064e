"""The measurements of the paper on broadcast kernels in one command, and what they show.

    python -m benchmarks.paper [--device cpu] [--rounds 7] [--out FOLDER] [--only PATTERN]

Writes `shown.md` (a line, its figure, its target, met or not), `results.md` with every time,
`results.jsonl` and the plots. The idea: every claim is a ratio of two measured times, so that a
`Line` is plain data. Not here: what is measured (`cases/`). Read next: `benchmarks/run.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine, plots, report, run
from benchmarks.cases import all_cases
from benchmarks.cases.arity import ARITIES, SIDE
from benchmarks.cases.divergence import PATTERNS
from benchmarks.cases.newton import SHARES
from benchmarks.cases.projectile import ANGLES
from benchmarks.pool import PLATFORMS

Record = dict[str, Any]
Times = dict[tuple[str, str, int], float]
"""Seconds by case, system and threads."""

CELL = "hmlstm: value+4 partials"
PRODUCT = "arity: prod tanh(g(x_i)) value+N partials"
_CELL, _PRODUCT = re.escape(CELL), re.escape(PRODUCT)
PLAN = (
    (1, "ftrace,jax,numba,c,csimd", rf"{_CELL} \w+ n=(512|1024)$"),
    (1, "ftrace,jax,csimd", rf"{_CELL} random n=2048$|{_PRODUCT} N=(?!2$|8$|20$)"),
    (1, "ftrace,jax,c,csimd", rf"hmlstm: (?!value.4)|{_CELL} random by where"),
    (1, "ftrace,jax,c", r"divergence: "),
    (1, "ftrace,jax,numba,c", r"newton: |projectile: (?!.*eager)|pqr: .*Jacobian"),
    (1, "ftrace,jax,torchc,c,csimd", rf"{_PRODUCT} N=(2|8|20)$"),
    (2, "ftrace,jax,torchc", rf"{_CELL} random n=(1024|2048)$"),
)
"""Threads, systems, cases."""
EXPECTED = {"rows": 0.59e-9, "copy": 0.37e-9, "runs": 0.82e-9}
"""Seconds per element of hand-written vector code on the machine of the design's measurements."""
SHARES_OF_RANDOM = {"rows": 0.75, "copy": 0.42, "runs": 0.93}
"""The same against the paper's random control."""


@dataclass(frozen=True, slots=True)
class Line:
    """A claim: our time over theirs is at most `limit`. `theirs` may be a number of seconds."""

    text: str
    ours: tuple[str, str, int]
    theirs: tuple[str, str, int] | float
    limit: float

    def figure(self, times: Times) -> float | None:
        """The ratio, if both were measured."""
        theirs = times.get(self.theirs) if isinstance(self.theirs, tuple) else self.theirs
        ours = times.get(self.ours)
        return ours / theirs if ours and theirs else None


def against(text: str, case: str, other: str, limit: float, threads: int = 1) -> Line:
    """One thread of ours against another system on the same case."""
    return Line(text, (case, "ftrace", 1), (case, other, threads), limit)


def cell_lines() -> list[Line]:
    """The HM-LSTM cell."""
    lines = []
    for n in (512, 1024, 2048):
        case, name = f"{CELL} random n={n}", f"HM-LSTM n={n}"
        if n > 512:
            lines.append(against(f"{name}, one thread / two of jax", case, "jax", 1.0, 2))
            text = f"{name}, one thread / two of torch.compile"
            lines.append(against(text, case, "torchc", 1.0, 2))
        lines.append(against(f"{name} / jax", case, "jax", 0.5))
        lines.append(against(f"{name} / C that vectorises", case, "csimd", 1.5))
        where = (f"{CELL} random by where n={n}", "ftrace", 1)
        lines.append(Line(f"{name}, native if / our own where", (case, "ftrace", 1), where, 1.1))
    for control, seconds in EXPECTED.items():
        ours = (f"{CELL} {control} n=1024", "ftrace", 1)
        text = f"HM-LSTM n=1024, control {control} / {seconds * 1e9:.2f} ns per element"
        lines.append(Line(text, ours, seconds * 1024**2, 1.15))
        random = (f"{CELL} random n=1024", "ftrace", 1)
        text = f"HM-LSTM n=1024, control {control} / random"
        lines.append(Line(text, ours, random, SHARES_OF_RANDOM[control]))
    return lines


def loop_lines() -> list[Line]:
    """Newton's method, the projectile, the recurrence."""
    lines = []
    for share in SHARES:
        name = f"Newton, {share:.1%} long lanes"
        value = f"newton: root, {share:.1%} long lanes, value"
        both = f"{value}+derivative"
        lines.append(against(f"{name}, value / numba", value, "numba", 0.7))
        text = f"{name}, value+derivative / value"
        lines.append(Line(text, (both, "ftrace", 1), (value, "ftrace", 1), 1.7))
        lines.append(against(f"{name}, value / jax", value, "jax", 0.3))
        lines.append(against(f"{name}, value+derivative / jax", both, "jax", 0.3))
    for way in ("in", "after"):
        for angles, limit in (("one angle", 2.0), (f"{ANGLES} angles", 0.1)):
            case = f"projectile: {angles}, return {way} the loop, value+grad"
            text = f"projectile, {angles}, return {way} the loop / C"
            lines.append(against(text, case, "c", limit))
    for n in (5, 100):
        text = f"pqR's f, value+Jacobian n={n} / jax"
        lines.append(against(text, f"pqr: pqR f: value+Jacobian n={n}", "jax", 0.1))
    return lines


def product_lines() -> list[Line]:
    """The product of N activations."""
    lines = []
    for n in (2, 8, 20):
        case, name = f"{PRODUCT} N={n}", f"arity N={n}"
        lines.append(against(f"{name} / jax", case, "jax", 1.0))
        lines.append(against(f"{name} / torch.compile", case, "torchc", 1.0))
        lines.append(against(f"{name} / C that vectorises", case, "csimd", 1.5))
    return lines


def mask_lines(price: str) -> list[Line]:
    """A native `if` against `where`, which may compute both arms, under every mask."""
    return [
        Line(
            mask,
            (f"divergence: {price} arm by if, {mask}", "ftrace", 1),
            (f"divergence: {price} arm by where, {mask}", "ftrace", 1),
            1.1,
        )
        for mask in PATTERNS
    ]


def worst(lines: list[Line], times: Times) -> float | None:
    """The largest figure, if all were measured."""
    figures = [line.figure(times) for line in lines]
    return None if None in figures else max(figures)


def per_partial(times: Times, system: str, threads: int = 1) -> dict[int, float]:
    """Nanoseconds per element and partial, by arity."""
    found = {n: times.get((f"{PRODUCT} N={n}", system, threads)) for n in ARITIES}
    return {n: t * 1e9 / (n * SIDE**2) for n, t in found.items() if t}


def flatness(times: Times) -> float | None:
    """The largest departure of the time per partial from its mean, from arity 2 on."""
    ours = [t for n, t in per_partial(times, "ftrace").items() if n > 1]
    mean = sum(ours) / len(ours) if ours else 0.0
    return max(abs(t - mean) for t in ours) / mean if ours else None


def kernels() -> tuple[int, int]:
    """How many kernels the forward and the backward pass of the cell are."""
    import ftrace
    from benchmarks.cases.functions import hmlstm_inputs
    from benchmarks.cases.hmlstm import update

    c, f, i, g, z1, z2 = hmlstm_inputs(64)
    cell = ftrace.vectorize(update)

    def backward(ct: Any, *cfig: Any) -> Any:
        return ftrace.vjp(lambda *a: cell(*a, z1, z2), *cfig)[1](ct)

    forward = ftrace.jit(cell).lower(c, f, i, g, z1, z2).cost().kernels
    return forward, ftrace.jit(backward).lower(c, c, f, i, g).cost().kernels


def row(text: str, figure: float | None, limit: float) -> str:
    """A row of the table."""
    if figure is None:
        return f"| {text} | - | <= {limit} | not measured |"
    return f"| {text} | {figure:.2f} | <= {limit} | {'yes' if figure <= limit else '**no**'} |"


def shown(times: Times, records: list[Record]) -> str:
    """The table of claims."""
    lines = (*cell_lines(), *product_lines(), *loop_lines())
    text = ["| line | figure | target | met |", "|---|---|---|---|"]
    text += [row(line.text, line.figure(times), line.limit) for line in lines]
    text.append(row("arity, departure of the time per partial from its mean", flatness(times), 0.3))
    for price in ("cheap", "dear"):
        figure = worst(mask_lines(price), times)
        text.append(row(f"{price} arm, native if / where, worst of 12 masks", figure, 1.1))
    ours = [r["status"] for r in records if r["system"] == "ftrace"]
    text.append(row(f"wrong or failed results of {len(ours)}", len(ours) - ours.count("ok"), 0))
    for name, count in zip(("forward", "backward"), kernels(), strict=True):
        text.append(row(f"HM-LSTM, kernels of the {name} pass", count, 1))
    return "\n".join(text) + "\n"


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    p = argparse.ArgumentParser(prog="benchmarks.paper", description=__doc__.splitlines()[0])
    p.add_argument("--device", choices=sorted(PLATFORMS), default="cpu")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--only", metavar="PATTERN", default="", help="of the cases, those that match")
    p.add_argument("--out", type=Path, help="default: benchmarks/results/DEVICE")
    args = p.parse_args(argv)
    args.out = args.out or Path(__file__).parent / "results" / args.device
    return args


def measure(args: argparse.Namespace, found: dict[str, str]) -> list[Record]:
    """Every part of the plan."""
    records: list[Record] = []
    for threads, systems, pattern in PLAN:
        wanted = f"(?=.*(?:{args.only}))(?:{pattern})"
        options = ["--only", wanted, "--systems", systems, "--threads", str(threads)]
        options += ["--rounds", str(args.rounds), "--limit", "120", "--out", str(args.out)]
        part = run.parse(options)
        records += run.measure_all(part, found) if run.chosen(part) else []
    order = list(all_cases())
    return sorted(records, key=lambda r: (r["threads"], order.index(f"{r['group']}: {r['case']}")))


def main(argv: list[str] | None = None) -> None:
    """Measure, write, say."""
    args = parse(argv)
    os.environ["FTRACE_BENCH_DEVICE"] = args.device
    args.out.mkdir(parents=True, exist_ok=True)
    began, found = time.perf_counter(), dict[str, str]()
    records = measure(args, found)
    facts = machine.facts() | {"systems": found, "rounds": args.rounds, "device": args.device}
    facts["seconds"] = round(time.perf_counter() - began, 1)
    with (args.out / "results.jsonl").open("w") as out:
        for line in ({"machine": facts}, *records):
            print(json.dumps(line), file=out)
    (args.out / "results.md").write_text(report.markdown(facts, records))
    times: Times = {
        (f"{r['group']}: {r['case']}", r["system"], r["threads"]): r["min"]
        for r in records
        if "min" in r
    }
    head = f"# What the paper's measurements show, {facts['date']}\n\n{report.machine_line(facts)}"
    text = f"{head}\n\n{shown(times, records)}"
    (args.out / "shown.md").write_text(text)
    curves = {s: per_partial(times, s) for s in report.COLUMNS}
    pictures = plots.draw(records, args.out) + plots.curves(curves, args.out / "arity.png")
    print(text)
    print(f"{len(records)} measurements in {facts['seconds']} s; {args.out}", pictures)
    for name in found:
        (args.out / f"{name}.log").unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())

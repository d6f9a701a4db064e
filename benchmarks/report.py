"""From records to tables: ratios to the best peer and to the floor, and to the stored run.

A ratio is ftrace's minimum over the other's. The best peer is the fastest system that computes
derivatives; the floor is the best hand-written kernel, else the time to move the bytes. Not here:
measuring (`worker.py`), plots (`plots.py`). Read next: `benchmarks/run.py`.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.case import HANDWRITTEN

COLUMNS = ("ftrace", "jax", "torch", "torchc", "autograd", "numba", "numpy", "c", "csimd")
PEERS = ("jax", "torch", "torchc", "autograd")
SLOWER = 1.10

Record = dict[str, Any]
Row = dict[str, Record]


def summarise(record: Record) -> Record:
    """The record with minimum, median and spread of its times."""
    times = record["times"]
    if record["status"] != "ok" or not times:
        return record
    low = min(times)
    spread = (max(times) - low) / low if low > 0 else 0.0
    return record | {"min": low, "median": statistics.median(times), "spread": spread}


def rows(records: list[Record]) -> dict[tuple[str, int, str], Row]:
    """Records by (group, threads, case), then by system."""
    table: dict[tuple[str, int, str], Row] = defaultdict(dict)
    for r in records:
        table[r["group"], r["threads"], r["case"]][r["system"]] = r
    return dict(table)


def _fastest(row: Row, among: tuple[str, ...]) -> Record | None:
    done = [row[s] for s in among if "min" in row.get(s, {})]
    return min(done, key=lambda r: r["min"]) if done else None


def best_peer(row: Row) -> Record | None:
    """The fastest derivative system other than ftrace."""
    return _fastest(row, PEERS)


def quantity(value: float, unit: str = "s") -> str:
    """Three digits with a fitting unit."""
    if unit == "MB":
        return f"{value:.0f} MB"
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return "0"


def _cell(row: Row, system: str) -> str:
    if system not in row:
        return "-"
    record = row[system]
    return quantity(record["min"], record["unit"]) if "min" in record else record["status"]


def _ratio(ours: Record, other: float | None) -> str:
    return f"{ours['min'] / other:.2f}" if other and "min" in ours else "-"


def _line(case: str, row: Row, gb_per_s: float) -> str:
    best, hand = best_peer(row), _fastest(row, HANDWRITTEN)
    moved = next(iter(row.values()))["moved"] / gb_per_s / 1e9
    floor = hand["min"] if hand else moved
    ours = row.get("ftrace", {})
    cells = [case, *(_cell(row, s) for s in COLUMNS)]
    cells += [best["system"] if best else "-", _ratio(ours, best["min"] if best else None)]
    cells += [_ratio(ours, floor) + (f" {hand['system']}" if hand and "min" in ours else "")]
    cells += [f"{best['spread']:.0%}" if best else "-"]
    return "| " + " | ".join(cells) + " |"


def machine_line(facts: dict[str, Any]) -> str:
    """The machine and the versions, as one line."""
    systems = "; ".join(f"{k} {v}" for k, v in facts["systems"].items())
    return (
        f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}, load {facts['load']}, "
        f"copy {facts['copy_gb_per_s']} GB/s; {systems}"
    )


def markdown(facts: dict[str, Any], records: list[Record]) -> str:
    """The whole table, with the machine above and what failed below."""
    text = [
        f"# Benchmarks, {facts['date']}",
        "",
        machine_line(facts),
        "",
        f"Minima over {facts['rounds']} interleaved rounds, one process per system, the same "
        "thread count for all, outputs checked first. Floor: best hand-written kernel, else bytes "
        "moved. Best peer: fastest derivative system. Spread: (max-min)/min of the best peer.",
    ]
    head = ["case", *COLUMNS, "best peer", "ftrace/best", "ftrace/floor", "spread"]
    section = None
    for (group, threads, case), row in rows(records).items():
        if section != (group, threads):
            section = (group, threads)
            text += ["", f"## {group} ({threads} thread{'s' * (threads > 1)})", ""]
            text += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        text.append(_line(case, row, facts["copy_gb_per_s"]))
    failed = [r for r in records if "min" not in r]
    if failed:
        text += ["", "## Not measured", ""]
        text += [
            f"- {r['group']}: {r['case']}: {r['system']}: {r['status']}: {r.get('reason', '')}"
            for r in failed
        ]
    return "\n".join(text) + "\n"


def store(path: Path, facts: dict[str, Any], records: list[Record]) -> None:
    """Write the minima as the run that later ones are compared with."""
    kept = [
        {k: r[k] for k in ("group", "threads", "case", "system", "min", "spread")}
        for r in records
        if "min" in r
    ]
    lines = ",\n".join(json.dumps(r) for r in kept)
    path.write_text(f'{{"machine": {json.dumps(facts)},\n"records": [\n{lines}\n]}}\n')


def slower_than(path: Path, records: list[Record]) -> list[str]:
    """The cases where ftrace, relative to the stored run's best peer, lost more than 10 %."""
    if not path.exists():
        return []
    before = rows(json.loads(path.read_text())["records"])
    found = []
    for key, row in rows(records).items():
        then, now = before.get(key, {}), row
        anchor = best_peer(then) or _fastest(then, HANDWRITTEN)
        if anchor is None or "ftrace" not in then or "min" not in now.get("ftrace", {}):
            continue
        if "min" not in now.get(anchor["system"], {}):
            continue
        old = then["ftrace"]["min"] / anchor["min"]
        new = now["ftrace"]["min"] / now[anchor["system"]]["min"]
        if new > SLOWER * old:
            text = f"{key[0]}: {key[2]} ({key[1]} threads): {new:.2f} x {anchor['system']}"
            found.append(f"{text}, stored {old:.2f}")
    return found


def comparison(path: Path, slower: list[str]) -> str:
    """The section on the stored run."""
    if not path.exists():
        return f"\n## Against the stored run\n\nThere is no {path.name} yet.\n"
    lines = [f"- {s}" for s in slower] or ["Nothing became more than 10 % slower."]
    return "\n## Against the stored run\n\n" + "\n".join(lines) + "\n"

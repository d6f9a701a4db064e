"""The paper's three figures from the records of a run at the scale `paper`.

Times are those of kernels alone, by Nsight Compute; where it did not run, those of graphs, which
is said. Read next: `shown.py`, the table of everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.cases.hmlstm import CONTROLS
from benchmarks.gpu.cases.arity import ARITIES
from benchmarks.gpu.cases.arity import SIDES as ARITY_SIDES
from benchmarks.gpu.cases.cell import PAPER

Record = dict[str, Any]
Found = dict[tuple[str, str], Record]


def text(records: list[Record]) -> str:
    """All three, as far as they were measured."""
    found = _joined(records)
    alone = any("seconds" in r for r in found.values())
    clock = "kernels alone, by Nsight Compute" if alone else "graphs or streams of calls, not ncu"
    parts = [f"Microseconds of {clock}."]
    for title, table in (
        ("Figure 1: the cell's four derivatives (times of ftrace's kernel)", _first),
        ("Figure 2: random control, as a multiple of the time of each other control", _second),
        ("Figure 3: utilisation by arity, n = 1024", _third),
    ):
        lines = list(table(found))
        parts.append(f"## {title}\n\n" + ("\n".join(lines) if lines else "Not measured."))
    return "\n\n".join(parts) + "\n"


def _joined(records: list[Record]) -> Found:
    """What is known of each case and column, of all modes."""
    found: Found = {}
    for r in records:
        if r["status"] == "ok":
            found.setdefault((r["case"], r["column"]), {}).update(r)
    return found


def _seconds(record: Record | None) -> float | None:
    if record is None:
        return None
    return record.get("seconds") or record.get("graph") or record.get("stream")


def _columns(found: Found, named: Callable[[str], bool]) -> list[str]:
    """The columns of some cases, in the order in which they came."""
    return list(dict.fromkeys(column for case, column in found if named(case)))


def _head(names: list[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def _first(found: Found) -> Iterator[str]:
    columns = _columns(found, lambda case: case.startswith("cell: gradient"))
    if not columns:
        return
    yield from _head(["", *(f"n = {n}" for n in PAPER)])
    for column in columns:
        cells = []
        for n in PAPER:
            case = f"cell: gradient n={n}"
            record = found.get((case, column))
            time, ours = _seconds(record), _seconds(found.get((case, "ftrace")))
            if record is None or time is None:
                cells.append("-")
                continue
            times = f" = {time / ours:.2f}" if ours and column != "ftrace" else ""
            kernels = f" [{record['kernels']:.3g} k]" if "kernels" in record else ""
            cells.append(f"{time * 1e6:.4g}{times}{kernels}")
        yield f"| {column} | {' | '.join(cells)} |"
    shares = []
    for n in PAPER:
        record = found.get((f"cell: gradient n={n}", "ftrace"), {})
        known = record.get("seconds") and record.get("stream")
        shares.append(f"{record['seconds'] / record['stream']:.0%}" if known else "-")
    yield f"| ftrace's kernel, of the time of a call in a stream | {' | '.join(shares)} |"


def _second(found: Found) -> Iterator[str]:
    columns = _columns(found, lambda case: case.startswith("control random"))
    others = [c for c in CONTROLS if c != "random"]
    if not columns:
        return
    yield from _head(["", *(f"{c}, n = {n}" for c in others for n in PAPER)])
    for column in columns:
        cells = []
        for control in others:
            for n in PAPER:
                random = _seconds(found.get((f"control random n={n}", column)))
                other = _seconds(found.get((f"control {control} n={n}", column)))
                cells.append(f"{random / other:.2f}" if random and other else "-")
        yield f"| {column} | {' | '.join(cells)} |"


def _third(found: Found) -> Iterator[str]:
    n = ARITY_SIDES["paper"][0]
    lines = []
    for count in ARITIES["paper"]:
        record = found.get((f"arity: N={count}, n={n}", "ftrace"))
        time = _seconds(record)
        if record is None or time is None:
            continue
        cells = [str(count), f"{time * 1e6:.4g}", f"{8 * n * n * count / time / 1e9:.0f}"]
        names = ("registers", "occupancy", "compute", "bandwidth")
        cells += [f"{record[name]:.0f}" if name in record else "-" for name in names]
        lines.append(f"| {' | '.join(cells)} |")
    if lines:
        names = ["N", "µs", "GB/s of what must move", "registers", "occupancy %"]
        yield from _head([*names, "compute %", "bandwidth %"])
        yield from lines

"""From records to tables: microseconds by case and framework, then targets met and missed.

The main clock is the graph's where there is one, else the stream's. Against jax, whose calls
cannot be captured here, both sides are timed as streams of calls; where Nsight Compute ran, also
its kernels alone. Not here: measuring. Read next: `benchmarks/paper.py`, whose lines these are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.gpu.case import Case
from benchmarks.paper import Line, row

Record = dict[str, Any]
Times = dict[tuple[str, str, int], float]

DEVICE, STREAM, KERNELS = 0, 1, 2
"""Which clock, as the third part of a key of times: graph or stream, stream, ncu's kernels."""


def device_seconds(record: Record) -> float | None:
    """What a call takes of the device, as well as is known."""
    return record.get("graph") or record.get("stream")


def times_of(records: list[Record]) -> Times:
    """Seconds by case, column and clock."""
    found: Times = {}
    for r in records:
        key = r["case"], r["column"]
        for clock, seconds in (
            (DEVICE, device_seconds(r)),
            (STREAM, r.get("stream")),
            (KERNELS, r.get("seconds")),
        ):
            if seconds:
                found[(*key, clock)] = seconds
    return found


def bad(record: Record) -> bool:
    """Whether something of ours was wrong or failed."""
    ours = record["column"].startswith("ftrace")
    return ours and record["status"] in ("wrong", "failed")


# --- every time


def head(known: Record, notes: list[str]) -> str:
    """The machine, the frameworks, what was not measured."""
    systems = "; ".join(f"{name} {text}" for name, text in known["systems"].items())
    first = (
        f"{known['date']}, {known['cpu']}, {known['cores']} cores, Python {known['python']}, "
        f"NumPy {known['numpy']}; {systems}. Scale {known['scale']}, {known['seconds']} s."
    )
    return "\n".join([first, *(f"- {note}" for note in notes)])


def rate(times: Times) -> float:
    """The most bytes per second that a copy reached; 0 where none was measured."""
    copies = [
        2 * int(case.split()[3]) * (1 << 20) / seconds
        for (case, _, clock), seconds in times.items()
        if case.startswith("floor: copy of") and clock == DEVICE
    ]
    return max(copies, default=0.0)


def described(record: Record, case: Case, per_second: float) -> str:
    """One framework's result of a case, in a few words."""
    column = record["column"]
    seconds = device_seconds(record)
    if record["status"] != "ok" or seconds is None:
        return f"{column} {record['status']}"
    text = f"{column} {seconds * 1e6:.4g}"
    if record.get("graph") and record["stream"] > 1.2 * record["graph"]:
        text += f" (calls {record['stream'] * 1e6:.4g})"
    if per_second and case.moved:
        text += f" {case.moved / seconds / per_second:.0%}"
    if "kernels" in record:
        units = f", {record['bytes'] / case.unit:.3g} u" if case.unit and "bytes" in record else ""
        text += f" [{record['kernels']:.3g} k{units}]"
    return text


def profile(record: Record, case: Case) -> str:
    """What Nsight Compute said of a case, in a few words."""
    units = f", {record['dram'] / case.unit:.3g} u" if case.unit else ""
    return (
        f"{record['column']} {record['seconds'] * 1e6:.4g} [{record['kernels']:.3g} k{units}, "
        f"{record['registers']:.0f} registers, {record['occupancy']:.0f} % occupied]"
    )


def table(cases: dict[str, Case], records: list[Record]) -> str:
    """A line per case."""
    times = times_of(records)
    per_second = rate(times)
    share = f" share of the copy's {per_second / 1e12:.2f} TB/s," if per_second else ""
    text = [
        "Microseconds per call (in parentheses those of a stream of calls, where the host is"
        f" slower),{share} [kernels, units of bytes].",
        "",
    ]
    for case in cases.values():
        here = [r for r in records if r["case"] == case.name]
        timed = [described(r, case, per_second) for r in here if r["mode"] == "time"]
        if timed:
            text.append(f"{case.step} {case.name}: " + " | ".join(timed))
        kernels = [profile(r, case) for r in here if r["mode"] == "profile"]
        if kernels:
            text.append(f"8 {case.name}, kernels: " + " | ".join(kernels))
    wrong = [r for r in records if r["status"] in ("wrong", "failed", "unsupported")]
    text += [f"{r['status']}: {r['case']}, {r['column']}: {r.get('reason', '')}" for r in wrong]
    return "\n".join(text) + "\n"


# --- targets


def _against(case: str, column: str, limit: float, clock: int = DEVICE) -> Line:
    kind = {DEVICE: "", STREAM: ", calls", KERNELS: ", kernels alone"}[clock]
    text = f"{case}{kind} / {column}"
    return Line(text, (case, "ftrace", clock), (case, column, clock), limit)


def _side(case: str) -> int:
    return int(case.rsplit("n=", 1)[1])


def cell_targets(cases: dict[str, Case]) -> Iterator[Line]:
    """Step 2."""
    for name, case in cases.items():
        if case.step != 2:
            continue
        columns = list(case.builds)
        if name.startswith("cell: gradient"):
            n = _side(name)
            if n >= 4096:
                floor = (f"floor: 4 in, 4 out, n={n}", "cuda", DEVICE)
                yield Line(f"{name} / 4 in, 4 out", (name, "ftrace", DEVICE), floor, 1.11)
            if n == 8192:
                yield Line(f"{name} / 0.55 ms", (name, "ftrace", DEVICE), 0.55e-3, 1.0)
            yield _against(name, "cuda: paper", 0.83 if n == 2048 else 1.0)
            yield _against(name, "cuda: seven launches", 0.5)
            yield _against(name, "triton", 1.05)
        if "torchc" in columns:
            yield _against(name, "torchc", 1.0)
        yield _against(name, "jax", 1.0, STREAM)
        if _side(name) in (2048, 8192):
            yield from (_against(name, c, 1.0, KERNELS) for c in ("jax", "torchc") if c in columns)


def other_targets(cases: dict[str, Case]) -> Iterator[Line]:
    """Steps 3 to 6."""
    for name, case in cases.items():
        columns = list(case.builds)
        if case.step == 3:
            hand = [c for c in columns if c.startswith("cuda: ") and c != "cuda: paper"]
            yield from (_against(name, c, 1.05) for c in hand if "x4" in c and "walk" not in c)
        elif case.step == 5 and name.startswith("broadcast"):
            floor = (f"floor: 4 in, 4 out, n={_side(name)}", "cuda", DEVICE)
            yield Line(f"{name} / its one pass", (name, "ftrace", DEVICE), floor, 1.05)
        elif case.step == 6:
            yield _against(name, "jax", 0.1, STREAM)
            yield _against(name, "torchc: 8 turns", 1.0)
        if case.step in (4, 5):
            if "torchc" in columns:
                yield _against(name, "torchc", 1.0)
            if "jax" in columns:
                yield _against(name, "jax", 1.0, STREAM)
            if "triton" in columns:
                yield _against(name, "triton", 1.05)


def launch_targets(cases: dict[str, Case]) -> Iterator[Line]:
    """Step 7."""
    chains = {c.work: name for name, c in cases.items() if c.step == 7}
    for length, name in chains.items():
        if "jax" in cases[name].builds:
            yield _against(name, "jax", 1.0, STREAM)
        yield _against(name, "cuda: struct", 1.5)
        if "torchc: reduce-overhead" in cases[name].builds:
            yield _against(name, "torchc: reduce-overhead", 1.0, STREAM)
        if length == max(chains):
            limit = length * 1e-6
            yield Line(f"{name} / 1 us each", (name, "ftrace", DEVICE), limit, 1.0)


def lines(cases: dict[str, Case], records: list[Record]) -> str:
    """The table of targets."""
    times = times_of(records)
    text = ["| line | figure | target | met |", "|---|---|---|---|"]
    for targets in (cell_targets, other_targets, launch_targets):
        text += [row(line.text, line.figure(times), line.limit) for line in targets(cases)]
    counted = [r for r in records if r["column"].startswith("ftrace") and r["mode"] != "profile"]
    text.append(row("kernels of the cell's gradient", _most_kernels(counted), 1))
    text.append(row(f"wrong or failed results of {len(counted)}", float(sum(map(bad, counted))), 0))
    return "\n".join(text) + "\n"


def _most_kernels(records: list[Record]) -> float | None:
    found = [
        r["kernels"] for r in records if r["case"].startswith("cell: gradient") and "kernels" in r
    ]
    return float(max(found)) if found else None

"""Step 8 and the sanitizer of step 1: NVIDIA's tools around a child, where they are.

Nsight Compute gives what no clock here can: time of kernels alone, bytes of DRAM, registers, and
how many kernels a call is, for every framework by the same tool; the device's clocks are left
alone. Read next: `parent.py`.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.gpu.case import framework
from benchmarks.gpu.cases import all_cases
from benchmarks.gpu.child import MARKER, PROFILED
from benchmarks.gpu.systems import ALONE
from benchmarks.pool import ROOT, python_for

METRICS = {
    "gpu__time_duration.sum": "seconds",
    "dram__bytes.sum": "dram",
    "launch__registers_per_thread": "registers",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "bandwidth",
}
UNITS = {
    **{"second": 1.0, "msecond": 1e-3, "usecond": 1e-6, "nsecond": 1e-9, "byte": 1.0},
    **{"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    **{"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9},
}
PROFILED_SYSTEMS = ("ftrace", "cuda", "jax", "torchc", "triton")
LEAST = 10.0  # seconds in which a framework can start
PROFILES = (
    r"^cell: gradient n=(2048|8192)$",
    r"^cell: value, then pullback, two calls, n=8192$",
    r"^broadcast: gradient n=8192$",
    r"^softmax and pullback \d+ x 4096$",
    r"^layernorm and pullback \d+ x 4096$",
    r"^loop: Kepler's equation with partials$",
)
SANITIZED = (r"^cell: gradient", r"^broadcast: ", r"^layernorm and pullback", r"^sum: all of 24")
CHECKS = ("memcheck", "racecheck")
FOUND_SOMETHING = 9  # exit code

Record = dict[str, Any]
Job = tuple[str, str]


def where(tool: str) -> str | None:
    """The path of a tool: on the path, or where CUDA and Nsight are installed."""
    found = shutil.which(tool)
    if found:
        return found
    folders = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute/*")
    for folder in folders:
        matching = sorted(Path("/").glob(f"{folder[1:]}/{tool}"))
        if matching:
            return str(matching[-1])
    return None


def under(
    command: list[str], system: str, request: Record, seconds: float, **variables: str
) -> subprocess.CompletedProcess[str] | None:
    """A child under a tool; None if it took too long."""
    from benchmarks.gpu.parent import surroundings

    process = subprocess.Popen(
        [*command, python_for(system), "-m", "benchmarks.gpu.child", system],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=ROOT,
        env=surroundings() | variables,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(json.dumps(request) + "\n", timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, text)


def matching(
    patterns: tuple[str, ...], scale: str, systems: list[str], most: int = 1
) -> dict[str, list[Job]]:
    """By framework, the jobs of some cases: the first columns of each framework, at most `most`."""
    found: dict[str, list[Job]] = {}
    for case in all_cases(scale).values():
        if not any(re.search(p, case.name) for p in patterns):
            continue
        for system in systems:
            columns = [c for c in case.builds if framework(c) == system]
            if columns:
                found.setdefault(system, []).extend((case.name, c) for c in columns[:most])
    return found


def sanitized(args: argparse.Namespace, seconds: float) -> list[str]:
    """What compute-sanitizer says of some of our kernels, as sentences."""
    if "ftrace" not in args.systems or args.platform != "gpu":
        return []
    tool = where("compute-sanitizer")
    if tool is None:
        return ["compute-sanitizer was not found: accesses were not checked"]
    jobs = matching(SANITIZED, "tiny", ["ftrace"])["ftrace"]
    end, notes = time.monotonic() + seconds, []
    for check in CHECKS:
        left = end - time.monotonic()
        command = [tool, "--tool", check, "--error-exitcode", str(FOUND_SOMETHING)]
        command += ["--target-processes", "all"]
        request = {"scale": "tiny", "mode": "check", "jobs": jobs, "seconds": left}
        done = under(command, "ftrace", request, max(left, 5.0), **{ALONE: "1"})
        text = "" if done is None else done.stdout
        with (args.out / "log.txt").open("a") as log:
            print(f"==== compute-sanitizer {check}\n{text}", file=log)
        notes.append(f"compute-sanitizer {check}, {len(jobs)} cases: {verdict(done, len(jobs))}")
    return notes


def verdict(done: subprocess.CompletedProcess[str] | None, jobs: int) -> str:
    """One sentence on a run under the sanitizer."""
    if done is None:
        return "took too long"
    summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", done.stdout)
    right = len(re.findall(r'"status": "ok"', done.stdout)) - 1  # the greeting
    if not summary:
        last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
        return f"did not run ({last[:120]})"
    return f"{summary[-1]}; {right} of {jobs} results right"


def profiled(args: argparse.Namespace, seconds: float) -> Iterator[Record | str]:
    """Records of kernels by Nsight Compute, and sentences on what was not measured."""
    if args.platform != "gpu":
        return
    tool = where("ncu")
    if tool is None:
        yield "ncu was not found: no times of kernels alone, no bytes of DRAM"
        return
    systems = [s for s in PROFILED_SYSTEMS if s in args.systems]
    if args.scale == "paper":
        wanted = matching(("",), args.scale, systems, sys.maxsize)
    else:
        wanted = matching(PROFILES, args.scale, [s for s in systems if s != "cuda"])
    end = time.monotonic() + seconds
    for turn, (system, every) in enumerate(wanted.items()):
        jobs = [j for j in every if re.search(args.only, f"8 {j[0]} {j[1]}")]
        left = end - time.monotonic()
        if jobs and left < LEAST:
            yield f"ncu: no time was left for {system}"
        elif jobs:
            mine = left / (len(wanted) - turn)
            yield from _profiled(tool, args, system, jobs, mine)


def _profiled(
    tool: str, args: argparse.Namespace, system: str, jobs: list[Job], seconds: float
) -> Iterator[Record | str]:
    """The same of one framework."""
    command = [tool, "--clock-control", "none", "--cache-control", "none", "--csv"]
    command += ["--print-units", "base", "--profile-from-start", "off"]
    command += ["--target-processes", "application-only", "--metrics", ",".join(METRICS)]
    request = {"scale": args.scale, "mode": "profile", "jobs": jobs, "seconds": 0.7 * seconds}
    done = under(command, system, request, seconds)
    text = "" if done is None else done.stdout
    with (args.out / "log.txt").open("a") as log:
        print(f"==== ncu {system}\n{text}", file=log)
    found = summaries(text)
    for (case, column), each in zip(jobs, found, strict=False):
        if each is not None:
            yield {"case": case, "column": column, "mode": "profile", "status": "ok"} | each
    if len(found) < len(jobs):
        why = "it took too long" if done is None else "see log.txt"
        yield f"ncu: {len(found)} of {len(jobs)} cases of {system}; {why}"


def summaries(text: str) -> list[Record | None]:
    """What `summary` says of each job; a kernel named `MARKER` begins one."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    starts = [i for i, line in enumerate(lines) if '"Metric Name"' in line]
    jobs: list[list[Record]] = []
    marker = ""
    for row in csv.DictReader(io.StringIO("\n".join(lines[starts[-1] :] if starts else []))):
        if MARKER in (row.get("Kernel Name") or ""):
            if row["ID"] != marker:
                jobs.append([])
            marker = row["ID"]
        elif jobs:
            jobs[-1].append(row)
    return [summary(rows) for rows in jobs]


def summary(rows: list[Record]) -> Record | None:
    """Per call: kernels, their seconds and bytes of DRAM; of the rest the largest of a kernel."""
    total = {"seconds": 0.0, "dram": 0.0}
    largest: dict[str, float] = {}
    kernels: set[str] = set()
    for row in rows:
        name = METRICS.get(row["Metric Name"])
        if name is None:
            continue
        kernels.add(row["ID"])
        value = float(row["Metric Value"].replace(",", ""))
        if name in total:
            total[name] += value * UNITS.get(row["Metric Unit"], 1.0)
        else:
            largest[name] = max(largest.get(name, 0.0), value)
    if not kernels:
        return None
    per_call = {name: value / PROFILED for name, value in total.items()}
    return per_call | largest | {"kernels": len(kernels) / PROFILED}

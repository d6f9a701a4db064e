"""The parent: plans the minutes, runs one child per framework, writes what comes.

Lines go to `results.jsonl` as they arrive, and the tables are written again with each, so that a
run that is cut off leaves what it knows. A child that dies or hangs is ended with its whole process
group and started again behind the job that did it. The order of frameworks is that of importance:
what has no time left is said to have had none.
Read next: `shown.py`, which says what the numbers mean.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from benchmarks import machine
from benchmarks.gpu import figures, profilers, shown
from benchmarks.gpu.case import SCALES, Case, framework
from benchmarks.gpu.cases import all_cases
from benchmarks.gpu.child import GAVE_UP
from benchmarks.gpu.systems import SYSTEMS
from benchmarks.pool import PLATFORMS, ROOT, cpus, environment, python_for

Record = dict[str, Any]
Job = tuple[str, str]

SHARES = {"cuda": 12, "ftrace": 28, "triton": 4, "jax": 26, "torchc": 26, "torch": 4}
"""How the seconds are shared; what a framework leaves goes to those after it."""
BUDGET = 450.0
FOR_CHECKS, FOR_PROFILES = 45.0, 60.0
GREETING, ONE_JOB = 90.0, 75.0  # seconds until a child is hung
STARTS = 8


class Child:
    """A framework's process in a group of its own."""

    def __init__(self, system: str, request: Record, log: Path) -> None:
        with log.open("a") as errors:
            print(f"==== {system}, {request['mode']}", file=errors, flush=True)
            self.process = subprocess.Popen(
                [python_for(system), "-m", "benchmarks.gpu.child", system],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=surroundings(),
                start_new_session=True,
            )
        self._buffer = b""
        with suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

    def line(self, limit: float) -> Record | str:
        """The next line; or "ended", or "late"."""
        end = time.monotonic() + limit
        stream = self.process.stdout
        assert stream is not None
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            ready = left > 0 and select.select([stream], [], [], left)[0]
            if not ready:
                return "late"
            chunk = os.read(stream.fileno(), 1 << 16)
            if not chunk:
                return "ended"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def end(self) -> None:
        """End the process and what it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self.process.wait()


def surroundings() -> dict[str, str]:
    """The environment of a child: the source tree, all CPUs, no memory taken in advance."""
    env = environment(len(cpus()))
    before = os.environ.get("PYTHONPATH")
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([before] if before else [])])
    env["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    return env


def conversation(
    system: str, jobs: list[Job], scale: str, mode: str, seconds: float, log: Path
) -> Iterator[Record]:
    """What a framework answers: first who it is, then a record per job."""
    end = time.monotonic() + seconds
    waiting, greeted = list(jobs), False
    for _ in range(STARTS):
        left = end - time.monotonic()
        request = {"scale": scale, "mode": mode, "jobs": waiting, "seconds": left}
        child = Child(system, request, log)
        try:
            hello = child.line(min(GREETING, left + 10.0))
            if isinstance(hello, str) or hello["status"] != "ok":
                reason = hello if isinstance(hello, str) else hello["reason"]
                if not greeted:
                    yield {"system": system, "status": "absent", "reason": reason}
                break
            if not greeted:
                yield {"system": system, "status": "ok", "version": hello["version"]}
            greeted = True
            yield from _answers(child, waiting, mode, end)
        finally:
            child.end()
        if not waiting or time.monotonic() > end:
            break
    why = "no time was left" if greeted else "the framework is not there"
    for name, column in waiting if greeted else ():
        head = {"case": name, "column": column, "mode": mode}
        yield head | {"status": "not run", "reason": why}


def _answers(child: Child, waiting: list[Job], mode: str, end: float) -> Iterator[Record]:
    """The records of one process; jobs that it has begun are taken off `waiting`."""
    while waiting:
        left = end - time.monotonic()
        record = child.line(max(min(ONE_JOB, left + 15.0), 1.0))
        if isinstance(record, str):
            if record == "ended" and child.process.wait() in (0, GAVE_UP):
                return  # its time was up, or it asks to be started again
            name, column = waiting.pop(0)
            said = "took too long" if record == "late" else "the process died"
            head = {"case": name, "column": column, "mode": mode}
            yield head | {"status": "failed", "reason": said}
            return
        waiting.pop(0)
        yield record


def jobs_of(cases: dict[str, Case], system: str, pattern: str) -> list[Job]:
    """The jobs of a framework."""
    return [
        (case.name, column)
        for case in cases.values()
        for column in case.builds
        if framework(column) == system and re.search(pattern, f"{case.step} {case.name} {column}")
    ]


class Run:
    """One run: its options, its clock, its records."""

    def __init__(self, args: argparse.Namespace, out: IO[str]) -> None:
        self.args, self._out = args, out
        self.began = time.monotonic()
        self.found: dict[str, str] = {}
        self.records: list[Record] = []
        self.notes: list[str] = []
        self._machine = machine.facts()
        self._cases = all_cases(args.scale)

    @property
    def left(self) -> float:
        """Seconds until the run should end."""
        return self.args.budget - (time.monotonic() - self.began)

    def write(self, record: Record) -> None:
        """Keep a record, at once also on disk."""
        print(json.dumps(record), file=self._out, flush=True)
        if "system" in record:
            self.found[record["system"]] = record.get("version") or record["reason"]
        else:
            self.records.append(record)
        self.tables()

    def facts(self) -> Record:
        """What a reader needs to judge a figure."""
        found = self._machine | {"systems": self.found, "platform": self.args.platform}
        spent = round(time.monotonic() - self.began, 1)
        return found | {"scale": self.args.scale, "seconds": spent}

    def tables(self) -> str:
        """Write the tables of what is known; the text of them."""
        head = shown.head(self.facts(), self.notes)
        parts = {
            "results.md": ("Measurements on a GPU", shown.table(self._cases, self.records)),
            "shown.md": ("What they show", shown.lines(self._cases, self.records)),
        }
        if self.args.scale == "paper":
            parts["figures.md"] = ("The figures of the paper", figures.text(self.records))
        for name, (title, text) in parts.items():
            # A run may be killed at any moment: a table is there whole, the last one or this.
            written = self.args.out / f"{name}.new"
            written.write_text(f"# {title}\n\n{head}\n\n{text}")
            written.replace(self.args.out / name)
        return f"{head}\n\n" + "\n".join(text for _, text in parts.values())

    def ask(self, system: str, scale: str, mode: str, seconds: float) -> None:
        """All jobs of a framework at a scale."""
        jobs = jobs_of(all_cases(scale), system, self.args.only)
        if not jobs:
            return
        began, count = time.monotonic(), len(self.records)
        log = self.args.out / "log.txt"
        for record in conversation(system, jobs, scale, mode, seconds, log):
            self.write(record)
        spent = time.monotonic() - began
        done = sum(r["status"] == "ok" for r in self.records[count:])
        text = f"{system} ({scale}, {mode}): {done} of {len(jobs)} in {spent:.0f} s"
        print(text, file=sys.stderr, flush=True)

    def checks(self) -> None:
        """Step 1: everything of ours at tiny sizes, then the tools that look for bad accesses."""
        if "ftrace" in self.args.systems:
            self.ask("ftrace", "tiny", "check", FOR_CHECKS)
        self.notes += profilers.sanitized(self.args, min(FOR_CHECKS, self.left))

    def times(self) -> None:
        """Steps 2 to 7, framework by framework."""
        rest = {system: share for system, share in SHARES.items() if system in self.args.systems}
        for system in list(rest):
            later = self.args.platform == "gpu" and self.args.scale != "paper"
            for_others = FOR_PROFILES if later else 0.0
            left = max(self.left - for_others, 0.0)
            self.ask(system, self.args.scale, "time", left * rest[system] / sum(rest.values()))
            del rest[system]

    def profiles(self) -> None:
        """Step 8: some kernels under Nsight Compute; all of the paper's figures, before times."""
        seconds = max(self.left, 0.0) * (0.7 if self.args.scale == "paper" else 1.0)
        for line in profilers.profiled(self.args, seconds):
            if isinstance(line, str):
                self.notes.append(line)
            else:
                self.write(line)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    p = argparse.ArgumentParser(
        prog="benchmarks.gpu", description=(__doc__ or "").partition("\n")[0]
    )
    p.add_argument("--quick", action="store_true", help="two sizes of each case")
    p.add_argument(
        "--scale", choices=SCALES, help="instead of --quick; paper: its figures; tiny is for tests"
    )
    p.add_argument("--only", metavar="PATTERN", default="", help="of 'STEP CASE COLUMN'")
    p.add_argument("--systems", help=f"comma-separated, of {', '.join(SYSTEMS)}")
    p.add_argument("--platform", choices=sorted(PLATFORMS), default="gpu")
    p.add_argument("--budget", type=float, default=BUDGET, help="seconds for everything")
    p.add_argument("--out", type=Path, help="default: $OUT, else benchmarks/results/gpu")
    args = p.parse_args(argv)
    usual = "full" if args.platform == "gpu" else "tiny"
    args.scale = args.scale or ("quick" if args.quick else usual)
    args.systems = args.systems.split(",") if args.systems else list(SYSTEMS)
    unknown = sorted(set(args.systems) - set(SYSTEMS))
    if unknown:
        p.error(f"unknown frameworks {unknown}; there are {', '.join(SYSTEMS)}")
    if args.out is None:
        kept = os.environ.get("OUT")
        usual = "benchmarks/results/gpu" if args.platform == "gpu" else "build/gpu"
        args.out = Path(kept) if kept else ROOT / usual
    return args


def main(argv: list[str] | None = None) -> int:
    """Measure, write, say; 1 if a result of ours was wrong or failed."""
    args = parse(argv)
    os.environ["FTRACE_BENCH_DEVICE"] = args.platform
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "log.txt").unlink(missing_ok=True)
    with (args.out / "results.jsonl").open("w") as out:
        run = Run(args, out)
        in_order = [run.checks, run.times, run.profiles]
        for step in [run.profiles, run.times] if args.scale == "paper" else in_order:
            step()
        print(json.dumps({"machine": run.facts(), "notes": run.notes}), file=out)
        print(run.tables())
    return int(any(shown.bad(r) for r in run.records))

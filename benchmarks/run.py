"""`make bench`: choose cases and systems, check, time in interleaved rounds, write the results.

    python -m benchmarks.run [--quick | --all] [--only PATTERN] [--systems a,b] [--compare]

Writes `results.jsonl` (first line: the machine), `results.md` and one plot per group. `--compare`
ends with exit code 1 when ftrace became more than 10 % slower, relative to its peers, than in
`stored.json`. Not here: what is measured (`cases/`), how (`worker.py`), the tables (`report.py`).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if not __package__:  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import machine, plots, report
from benchmarks.case import Case
from benchmarks.cases import all_cases
from benchmarks.pool import ROOT, Worker, cpus, python_for
from benchmarks.systems import SYSTEMS

Record = dict[str, Any]


def default_systems(args: argparse.Namespace) -> list[str]:
    """All; the short set does without torch.compile, which compiles for seconds a case."""
    return [s for s in SYSTEMS if s != "torchc" or args.all or args.only]


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    p = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__.splitlines()[0])
    size = p.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="the short set (the default)")
    size.add_argument("--all", action="store_true", help="every case")
    p.add_argument("--only", metavar="PATTERN", help="cases whose 'group: name' matches")
    p.add_argument("--systems", help=f"comma-separated, of {', '.join(SYSTEMS)}")
    p.add_argument("--rounds", type=int, default=7, help="interleaved rounds, at least 7")
    p.add_argument("--threads", help="comma-separated counts; default 1 and all cores")
    p.add_argument("--limit", type=float, help="seconds that one preparation may take")
    p.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    p.add_argument("--stored", type=Path, default=Path(__file__).parent / "stored.json")
    p.add_argument("--compare", action="store_true", help="exit 1 when slower than stored")
    p.add_argument("--store", action="store_true", help="make this run the stored one")
    args = p.parse_args(argv)
    args.systems = args.systems.split(",") if args.systems else default_systems(args)
    unknown = sorted(set(args.systems) - set(SYSTEMS))
    if unknown:
        p.error(f"unknown systems {unknown}; there are {', '.join(SYSTEMS)}")
    if args.rounds < 7:
        p.error("a figure needs at least 7 rounds")
    args.threads = [int(t) for t in (args.threads or f"1,{len(cpus())}").split(",")]
    args.threads = list(dict.fromkeys(args.threads))
    args.limit = args.limit or (120.0 if args.all else 20.0)
    return args


def chosen(args: argparse.Namespace) -> dict[str, Case]:
    """The cases asked for; a pattern looks through all of them."""
    cases = all_cases()
    if args.only:
        return {k: c for k, c in cases.items() if re.search(args.only, k)}
    return {k: c for k, c in cases.items() if args.all or c.quick}


def measure(
    key: str, case: Case, workers: list[Worker], rounds: int, limit: float, sample: float
) -> list[Record]:
    """Prepare everywhere, then let every system that is right take one sample per round."""
    group, name = key.split(": ", 1)
    records: list[Record] = []
    racing: list[tuple[Worker, Record]] = []
    for worker in workers:
        record = {"group": group, "case": name, "system": worker.system, "times": []}
        record |= {"threads": worker.threads, "unit": "MB" if case.kind == "memory" else "s"}
        record["moved"] = case.moved
        if case.kind == "memory":
            worker.stop()
        worker.tell(do="prepare", case=key, sample=sample)
        records.append(record)
    for worker, record in zip(workers, records, strict=True):
        record |= worker.answer(limit)
        if record["status"] == "ok":
            racing.append((worker, record))
    for turn in range(1 if case.kind == "memory" else rounds):
        shift = turn % max(len(racing), 1)
        for worker, record in racing[shift:] + racing[:shift]:
            answer = worker.ask(limit, do="time")
            record["status"] = answer["status"]
            if answer["status"] == "ok":
                record["times"].append(answer["value"])
            else:
                record["reason"] = answer["reason"]
        racing = [(worker, record) for worker, record in racing if record["status"] == "ok"]
    for worker, _ in racing:
        worker.ask(limit, do="drop")
    return [report.summarise(r) for r in records]


def start(args: argparse.Namespace, threads: int, found: dict[str, str]) -> list[Worker]:
    """Workers of the systems that are here; what each said is noted in `found`."""
    launched = [Worker(name, threads, args.out / f"{name}.log") for name in args.systems]
    for worker in launched:
        worker.launch()
    for worker in launched:
        hello = worker.greeting()
        found[worker.system] = hello.get("version") or hello["reason"]
    return [worker for worker in launched if worker.hello["status"] == "ok"]


def measure_all(args: argparse.Namespace, found: dict[str, str]) -> list[Record]:
    """Every case at every thread count where the count can matter."""
    records: list[Record] = []
    cases = chosen(args)
    for threads in args.threads:
        part = {k: c for k, c in cases.items() if c.parallel or threads == args.threads[0]}
        workers = start(args, threads, found) if part else []
        for i, (key, case) in enumerate(part.items(), 1):
            here = [w for w in workers if case.offered(w.system)]
            sample = 0.05 if args.all else 0.01
            records += measure(key, case, here, args.rounds, args.limit, sample)
            print(f"[{i}/{len(part)}, {threads} threads] {key}", file=sys.stderr, flush=True)
        for worker in workers:
            worker.stop()
    return records


def overhead(args: argparse.Namespace) -> str:
    """The promised costs per operation, measured in a process of their own; its table."""
    command = [python_for("ftrace"), "-m", "benchmarks.overhead", "--json", "overhead.json"]
    command[-1] = str((args.out / "overhead.json").resolve())
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout or f"overhead was not measured: {done.stderr.strip()[-300:]}"


def main(argv: list[str] | None = None) -> int:
    """Run, write, say; 1 when `--compare` found something slower."""
    args = parse(argv)
    began = time.perf_counter()
    args.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, str] = {}
    records = measure_all(args, found)
    facts = machine.facts() | {"systems": found, "rounds": args.rounds, "threads": args.threads}
    facts["seconds"] = round(time.perf_counter() - began, 1)
    with (args.out / "results.jsonl").open("w") as out:
        for line in ({"machine": facts}, *records):
            print(json.dumps(line), file=out)
    text = report.markdown(facts, records)
    if not args.only or re.search(args.only, "overhead"):
        text += "\n## overhead\n\n" + overhead(args)
    slower = report.slower_than(args.stored, records)
    text += report.comparison(args.stored, slower)
    (args.out / "results.md").write_text(text)
    print(text)
    pictures = plots.draw(records, args.out)
    print(f"{len(records)} measurements in {facts['seconds']} s; {args.out}", pictures)
    if args.store:
        report.store(args.stored, facts, records)
    return 1 if args.compare and slower else 0


if __name__ == "__main__":
    sys.exit(main())

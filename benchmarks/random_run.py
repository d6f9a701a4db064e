"""`make bench-random`: random array programs, ours against JAX's time, and the slowest of them.

    python -m benchmarks.random_run [--seed 1] [--count 200] [--threads 2] [--show 5]

Prints each program's ratio to JAX, sorted, the geometric mean, what was wrong anywhere, and the
source of the slowest ones. Read next: `benchmarks/programs/random_programs.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.programs.random_programs import text


def ratios(records: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """By program: ours over theirs, and our seconds, where both are right."""
    best: dict[tuple[str, str], float] = {
        (r["case"], r["system"]): min(r["times"]) for r in records if r["status"] == "ok"
    }
    return {
        case: (seconds / best[case, "jax"], seconds)
        for (case, system), seconds in best.items()
        if system == "ftrace" and (case, "jax") in best
    }


def main(argv: list[str] | None = None) -> int:
    """Measure, sort, show; 1 when one of ours was wrong."""
    p = argparse.ArgumentParser(prog="benchmarks.random_run", description=__doc__.splitlines()[0])
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--threads", default=str(os.cpu_count() or 1))
    p.add_argument("--show", type=int, default=5, help="how many of the slowest are printed")
    p.add_argument("--out", type=Path, default=Path("build") / "bench-random")
    args = p.parse_args(argv)
    os.environ["FTRACE_BENCH_RANDOM"] = f"{args.seed}:{args.count}"
    from benchmarks import run  # it reads the variable

    given = ["--only", "^random_programs: ", "--systems", "ftrace,jax", "--threads", args.threads]
    run.main([*given, "--out", str(args.out)])
    lines = (args.out / "results.jsonl").read_text().splitlines()
    records = [r for r in map(json.loads, lines) if "case" in r]
    found = sorted(ratios(records).items(), key=lambda row: -row[1][0])
    for case, (ratio, seconds) in found:
        print(f"{ratio:6.2f} {seconds * 1e6:10.1f} us  {case}")
    wrong = [r for r in records if r["status"] != "ok"]
    for r in wrong:
        print(f"{r['case']} of {r['system']}: {r['status']}: {r.get('reason', '')[:300]}")
    if found:
        mean = math.exp(sum(math.log(ratio) for _, (ratio, _) in found) / len(found))
        print(f"geometric mean {mean:.3f} of {len(found)}, the slowest {found[0][1][0]:.2f}")
    for case, _ in found[: args.show]:
        seed, number = map(int, case.split("-"))
        print(f"\n{case}\n{text(seed, number)}")
    return 1 if any(r["system"] == "ftrace" for r in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())

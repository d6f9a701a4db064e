"""`python -m tests.fuzz`: random programs against plain Python, for a given time and seed.

Prints programs, comparisons and refusals, then each kind of finding with a small program, as a
test to paste into `test_found.py`. Exits 1 where something was found.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.fuzz.limits import LARGE
from tests.fuzz.machine import Finding, Machine, Tally
from tests.fuzz.modules import program


def report(tally: Tally, seed: int) -> None:
    """Print refusals, then findings with their small programs."""
    for what, count in tally.unfit.most_common(5):
        print(f"unfit {count:>5}  {what}")
    for what, count in tally.refusals.most_common(25):
        print(f"refused {count:>5}  {what}")
    for (check, how), found in sorted(tally.findings.items(), key=lambda kv: -len(kv[1])):
        numbers = sorted({f.number for f in found})
        print(f"\n{len(found)} findings: {check}, {how}; programs {seed}:{numbers[:8]}")
        shown = next((f for f in found if f.small), found[0])
        print(pasted(shown, seed) if shown.small else shown.outcome.reason[:300])


def pasted(finding: Finding, seed: int) -> str:
    """A test to paste."""
    says = finding.outcome.reason.replace("\n", " ")[:200]
    return (
        f"# {says}\ndef test_program_{seed}_{finding.number}(tmp_path):\n"
        f'    right_or_loud(tmp_path, """\n{finding.small}\n""", {finding.outcome.check!r})'
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--start", type=int, default=0, help="the first program's number")
    parser.add_argument("--count", type=int, help="programs at most")
    parser.add_argument("--shrink", type=float, default=300, help="seconds for shrinking")
    parser.add_argument("--first", action="store_true", help="end with the first finding")
    parser.add_argument("--large", action="store_true", help="tests/fuzz/limits.py says what it is")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print a program")
    asked = parser.parse_args(arguments)
    if asked.show is not None:
        print(program(asked.seed, asked.show))
        return 0
    print(f"seed {asked.seed}", flush=True)
    if asked.large:
        os.environ[LARGE] = "1"  # for the processes that check programs
    machine = Machine(asked.seed, asked.workers, asked.start, asked.count)
    try:
        started = time.monotonic()
        tally = machine.run(asked.seconds, first_only=asked.first)
        seconds = time.monotonic() - started
        if asked.first:
            found = [f.number for kind in tally.findings.values() for f in kind]
            print(f"first: {min(found)}" if found else "nothing", flush=True)
            return 1 if found else 0
        machine.shrink(asked.shrink)
    finally:
        machine.close()
    report(tally, asked.seed)
    print("\n" + tally.line(seconds))
    print(
        f"{tally.programs / seconds * 60:.0f} programs and {tally.comparisons / seconds * 60:.0f} "
        f"comparisons a minute; seed {asked.seed}"
    )
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())

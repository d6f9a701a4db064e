"""Planted bugs: is every one of them noticed by some test?

Makes a fixed sample of small changes of ftrace's sources (`--all`: every one), runs the tests that
can notice each, prints a table by file, and exits 1 when a change survives that
`tools/mutation/equivalent.toml` does not explain. `--list` and `--show NAME` print instead of
running; `--only TEXT` takes the mutants whose names contain the text, `--folder NAME` those of a
folder. `--minutes` ends a run early, and `--save FILE` remembers what came out, so that the next
run with it goes on there: `make mutate MUTATE_ARGS="--folder lifting --save build/lifting"`. See
`tools/mutation/`. Mutants of lifting, control, numpy, random and gpu are tried on tests that are
recorded to run what they change (`build/tests-of-statements.jsonl`: made once, ten minutes), in a
random order: an early end leaves a sample. `--tiers 0` leaves out what needs more, and
`--tests lifting/ --tests programs/` records and tries those test files only.
"""

import argparse
import ast
import json
import os
import random
import sys
import time
import tomllib
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

from tools.mutation import running, serving, targets
from tools.mutation.running import Outcome
from tools.mutation.sources import Mutant, excerpt
from tools.mutation.targets import Tier

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = Path(__file__).parent / "mutation" / "equivalent.toml"
RECORD = ROOT / "build" / "tests-of-statements.jsonl"
Found = tuple[list[Outcome], list[str]]  # and the tests that fail without any change


@cache
def reasons(path: Path = EQUIVALENT) -> dict[tuple[str, str, str, str], str]:
    """(file, unit, before, after) of the changes that change nothing, and why."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    return {
        (e["file"], e["unit"], _words(e["before"]), _words(e["after"])): e["why"] for e in entries
    }


def _words(text: str) -> str:
    """A text without its layout: parentheses and white space that mean nothing."""
    try:
        return ast.unparse(ast.parse(text.strip()))
    except SyntaxError:  # a slice
        return " ".join(text.split())


def identity(mutant: Mutant) -> tuple[str, str, str, str]:
    """A mutant as the list of equivalent ones names it."""
    return mutant.path, mutant.unit, _words(mutant.before), _words(mutant.after)


def reason(mutant: Mutant, known: dict[tuple[str, str, str, str], str]) -> str | None:
    """Why a mutant is equivalent, if the list says so."""
    return known.get(identity(mutant))


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="every mutant, not the sample")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="names with TEXT"
    )
    parser.add_argument("--folder", action="append", default=[], help="of ftrace: lifting, numpy")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="at most")
    parser.add_argument("--save", type=Path, metavar="FILE", help="what is known, and becomes so")
    parser.add_argument("--list", action="store_true", help="print the mutants")
    parser.add_argument("--show", metavar="NAME", help="print the change of one mutant")
    parser.add_argument(
        "--tiers", type=int, help="of the tests, 1 to 8: the likeliest; 0: recorded ones"
    )
    parser.add_argument(
        "--tests", action="append", default=[], metavar="TEXT", help="recorded, paths with TEXT"
    )
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    return parser.parse_args(arguments)


def chosen(texts: dict[str, str], asked: argparse.Namespace) -> list[Mutant]:
    """The mutants that the command line asks for."""
    wanted = [asked.show] if asked.show else asked.only
    folders = tuple(f"ftrace/{folder}/" for folder in asked.folder) or ("",)
    texts = {path: text for path, text in texts.items() if path.startswith(folders)}
    found = targets.mutants(texts, every=bool(asked.all or asked.show))
    return [m for m in found if not wanted or any(w in m.name for w in wanted)]


def show(mutants: Sequence[Mutant], texts: dict[str, str], *, diff: bool) -> None:
    """Print mutants: one line each, or the whole difference."""
    for m in mutants:
        if diff:
            print(m.diff(texts[m.path]))
        else:
            print(f"{m.name}  line {m.line}: {excerpt(m.before)} -> {excerpt(m.after)}")


class Saved:
    """Outcomes in a file, a line for each: they count while the mutated file is the same."""

    def __init__(self, path: Path | None, texts: dict[str, str]) -> None:
        self.path, self.texts = path, texts
        self.known: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            self.known = {line["mutant"]: line for line in lines}

    def _key(self, mutant: Mutant) -> str:
        return f"{mutant.name}:{zlib.crc32(self.texts[mutant.path].encode()):08x}"

    def outcome(self, mutant: Mutant) -> Outcome | None:
        """What came out of a mutant in an earlier run."""
        line = self.known.get(self._key(mutant))
        if line is None:
            return None
        return Outcome(mutant, line["failed"], line["tier"], line["seconds"])

    def add(self, o: Outcome) -> None:
        """Remember an outcome."""
        if self.path is not None:
            line = {"mutant": self._key(o.mutant), "failed": o.failed, "tier": o.tier}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**line, "seconds": o.seconds}) + "\n")


# ---------------------------------------------------------------------------------- verdicts


def verdict(outcome: Outcome, known: dict[tuple[str, str, str, str], str]) -> str:
    """`killed`, `equivalent`, `survived`, or `refuted`: killed though listed as equivalent."""
    listed = reason(outcome.mutant, known) is not None
    if outcome.killed_by is None:
        return "equivalent" if listed else "survived"
    return "refuted" if listed else "killed"


def run(
    mutants: Sequence[Mutant], texts: dict[str, str], root: Path, asked: argparse.Namespace
) -> Found:
    """Run the tests on each mutant; those listed as equivalent only on the likeliest ones.

    A test that fails without any change, too, proves nothing: what it killed runs again without it.
    """
    uses, saved = targets.Uses(texts), Saved(asked.save, texts)
    until = time.monotonic() + asked.minutes * 60
    found: dict[Mutant, Outcome] = {m: o for m in mutants if (o := saved.outcome(m)) is not None}
    quickly(mutants, found, saved, root, asked, until)
    if asked.tiers == 0:
        return list(found.values()), []
    first, all_tests = targets.unchanged(root), asked.tiers is None and not asked.folder
    broken = set(running.Runner(root, texts, 1).failing(first)) if all_tests else set()
    left = [m for m in mutants if m not in found]
    while left:
        work = [(m, _tiers(m, uses, root, broken)[: asked.tiers]) for m in left]
        runner = running.Runner(root, texts, asked.workers, until)
        for i, outcome in enumerate(runner.outcomes(work), 1):
            found[outcome.mutant] = outcome
            saved.add(outcome)
            print(f"{i:>4}/{len(work)} {_line(outcome)}", flush=True)
        new = set(unsound(list(found.values()), root, texts))
        left = [m for m, o in found.items() if o.killed_by in new]
        broken |= new
    return list(found.values()), sorted(broken)


def quickly(
    mutants: Sequence[Mutant],
    found: dict[Mutant, Outcome],
    saved: Saved,
    root: Path,
    asked: argparse.Namespace,
    until: float,
) -> None:
    """Try mutants, in a random order, on the tests that are recorded to run what they change."""
    left = [m for m in mutants if m not in found and m.path.split("/")[1] in targets.RECORDED]
    if not left or asked.tiers:
        return
    random.Random(1).shuffle(left)
    texts = {p: t for p, t in saved.texts.items() if p.split("/")[1] in targets.RECORDED}
    paths, tests = frozenset(m.path for m in left), asked.tests
    known = serving.record(root, texts, paths, RECORD, asked.workers, tests)
    ways = serving.outcomes(left, texts, root, known, asked.workers, until)
    for i, (outcome, tried, settled) in enumerate(ways, 1):
        if settled:
            found[outcome.mutant] = outcome
            saved.add(outcome)
        says = _line(outcome) if settled else f"open       {outcome.mutant.name}"
        print(f"{i:>4}/{len(left)} {says} of {tried} tests", flush=True)


def _line(outcome: Outcome) -> str:
    says, by = verdict(outcome, reasons()), outcome.killed_by or ""
    return f"{says:<10} {outcome.seconds:5.1f} s  {outcome.mutant.name}  {by}"


def _tiers(mutant: Mutant, uses: targets.Uses, root: Path, broken: set[str]) -> list[Tier]:
    found = targets.tiers(mutant, uses, root)
    found = found[:2] if reason(mutant, reasons()) else found
    return [replace(tier, without=tuple(sorted(broken))) for tier in found]


def unsound(outcomes: Sequence[Outcome], root: Path, texts: dict[str, str]) -> list[str]:
    """The tests that killed mutants but fail without any change too."""
    names = frozenset(o.killed_by for o in outcomes if o.killed_by and "::" in o.killed_by)
    if not names:
        return []
    files = sorted({name.partition("::")[0] for name in names})
    known = targets.Uses(texts).rows.values()
    rows = {r for name in names for r in known if f"[{r}-" in name or f"[{r}]" in name}
    tier = Tier(tuple(files), ",".join(sorted(rows)), names=names, whole=True)
    return running.Runner(root, texts, 1).failing(tier)


def report(outcomes: Sequence[Outcome], texts: dict[str, str], seconds: float) -> int:
    """Print the table, then every mutant that must not be; how many there are."""
    known = reasons()
    columns = ("killed", "equivalent", "survived")
    counts: dict[str, Counter[str]] = {}
    bad: list[Outcome] = []
    for o in sorted(outcomes, key=lambda o: (o.mutant.path, o.mutant.start)):
        says = verdict(o, known)
        counts.setdefault(o.mutant.path, Counter())[says] += 1
        if says in ("survived", "refuted"):
            bad.append(o)
    total = sum(counts.values(), Counter())
    folders: dict[str, Counter[str]] = {}
    for path, count in counts.items():
        folders.setdefault(path.rpartition("/")[0] + "/", Counter()).update(count)
    print(f"\n{'file':<36}{'mutants':>9}" + "".join(f"{c:>12}" for c in columns))
    for path, count in [*counts.items(), *folders.items(), ("all", total)]:
        print(f"{path:<36}{count.total():>9}" + "".join(f"{count[c]:>12}" for c in columns))
    for o in bad:
        print(f"\n{verdict(o, known)}: {o.killed_by or 'no test noticed'}")
        print(o.mutant.diff(texts[o.mutant.path]))
    print(f"\n{total.total()} mutants in {seconds / 60:.1f} minutes; {len(bad)} to be explained")
    return len(bad)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 where every bug was noticed or is none."""
    asked = options(arguments)
    texts = targets.sources(ROOT)
    mutants = chosen(texts, asked)
    if asked.list or asked.show:
        show(mutants, texts, diff=bool(asked.show))
        return 0
    if not (asked.only or asked.all or asked.folder):
        missing = targets.uncovered(mutants, targets.Uses(texts))
        if missing:
            print(f"rows without a mutant: {', '.join(missing)}")
            return 1
    started = time.monotonic()
    running.preload()
    with running.snapshot(ROOT) as root:
        texts = targets.sources(root)
        outcomes, wrong = run(mutants, texts, root, asked)
    bad = report(outcomes, texts, time.monotonic() - started)
    for name in wrong:
        print(f"this test fails without any change: {name}")
    return 1 if bad or wrong or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())

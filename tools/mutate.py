"""Planted bugs: is every one of them noticed by some test?

Makes a fixed sample of small changes of ftrace's sources (`--all`: every one), runs the tests that
can notice each, prints a table by file, and exits 1 when a change survives that
`tools/mutation/equivalent.toml` does not explain. `--list` and `--show NAME` print instead of
running; `--only TEXT` takes the mutants whose names contain the text. See `tools/mutation/`.
"""

import argparse
import ast
import os
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

from tools.mutation import running, targets
from tools.mutation.running import Outcome
from tools.mutation.sources import Mutant, excerpt
from tools.mutation.targets import Tier

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = Path(__file__).parent / "mutation" / "equivalent.toml"
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="every mutant, not the sample")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="names with TEXT"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants")
    parser.add_argument("--show", metavar="NAME", help="print the change of one mutant")
    parser.add_argument("--tiers", type=int, help="only the likeliest of the tests, 1 to 8")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    return parser.parse_args(arguments)


def chosen(texts: dict[str, str], asked: argparse.Namespace) -> list[Mutant]:
    """The mutants that the command line asks for."""
    every = bool(asked.all or asked.show)
    found = targets.mutants(texts, every=every)
    wanted = [asked.show] if asked.show else asked.only
    return [m for m in found if not wanted or any(w in m.name for w in wanted)]


def show(mutants: Sequence[Mutant], texts: dict[str, str], *, diff: bool) -> None:
    """Print mutants: one line each, or the whole difference."""
    for m in mutants:
        if diff:
            print(m.diff(texts[m.path]))
        else:
            print(f"{m.name}  line {m.line}: {excerpt(m.before)} -> {excerpt(m.after)}")


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
    uses = targets.Uses(texts)
    found: dict[Mutant, Outcome] = {}
    first = targets.unchanged(root)
    broken = set(running.Runner(root, texts, 1).failing(first)) if asked.tiers is None else set()
    left = list(mutants)
    while left:
        work = [(m, _tiers(m, uses, root, broken)[: asked.tiers]) for m in left]
        for i, outcome in enumerate(running.Runner(root, texts, asked.workers).outcomes(work), 1):
            found[outcome.mutant] = outcome
            print(f"{i:>4}/{len(work)} {_line(outcome)}", flush=True)
        new = set(unsound(list(found.values()), root, texts))
        left = [m for m, o in found.items() if o.killed_by in new]
        broken |= new
    return list(found.values()), sorted(broken)


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
    print(f"\n{'file':<36}{'mutants':>9}" + "".join(f"{c:>12}" for c in columns))
    for path, count in [*counts.items(), ("all", total)]:
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
    if not (asked.only or asked.all):
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

"""`python -m tests.fuzz.planted`: how long until the machine finds each of some planted bugs.

Each bug is one change of ftrace's sources, made in a copy of them. What the machine finds there
is looked at with the sources as they are, too: only what is right there counts. `--only TEXT`
takes the bugs with that text in their names.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.fuzz.machine import Worker
from tests.fuzz.modules import program

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300


class Bug(NamedTuple):
    """A change of one file."""

    name: str
    file: str
    before: str
    after: str

    @property
    def fits(self) -> bool:
        """Whether the sources have that line, once."""
        return (ROOT / self.file).read_text(encoding="utf-8").count(self.before) == 1


BUGS = (
    Bug(
        "views: a write through a view that a decision chose reaches every base",
        "ftrace/numpy/views.py",
        "return v if self.when is None else select(self.when, v, self.base)",
        "return v",
    ),
    Bug(
        "layouts: strides in the wrong order",
        "ftrace/numpy/layouts.py",
        "key=lambda i: -new.strides[i]",
        "key=lambda i: new.strides[i]",
    ),
    Bug(
        "merging: what the second arm wrote is lost",
        "ftrace/lifting/staging/merging.py",
        "self.picks.append((self._content(0, root), self._content(1, root), typeof(root)))",
        "self.picks.append((self._content(0, root), self._content(0, root), typeof(root)))",
    ),
    Bug(
        "guards: a function traced again for what it captured keeps its old trace",
        "ftrace/control/traces.py",
        "if entry is None or (entry.guard is not None and not entry.guard()):",
        "if entry is None:",
    ),
    Bug(
        "keys of caches: static arguments are forgotten",
        "ftrace/control/traces.py",
        "key = (tree, tree.order, tuple(avals), zero_d, there, static, lifts)",
        "key = (tree, tree.order, tuple(avals), zero_d, there, lifts)",
    ),
    Bug(
        "captures: a small array that is written later is no longer copied",
        "ftrace/interpreters/captures.py",
        "return device.copied(value)  # what most captures are",
        "return value",
    ),
    Bug(
        "masks: x[mask] = v writes where the mask is false",
        "ftrace/numpy/assigning.py",
        "return select(mask, stretch(v, a.shape) if typeof(v).shape else v, x)",
        "return select(mask, x, stretch(v, a.shape) if typeof(v).shape else v)",
    ),
    Bug(
        "masks: copyto ignores `where`",
        "ftrace/numpy/writers.py",
        'replace(dst, v, "np.copyto", where)',
        'replace(dst, v, "np.copyto")',
    ),
    Bug(
        "transposition: a reversed array is not turned back",
        "ftrace/primitives/shape.py",
        "transpose=lambda ct, x, dimensions: (rev(ct, dimensions=dimensions),),",
        "transpose=lambda ct, x, dimensions: (ct,),",
    ),
    Bug(
        "batching: reversed along the axis before",
        "ftrace/primitives/shape.py",
        "return rev(values[0], dimensions=tuple(i if i < d else i + 1 for i in dimensions)), d",
        "return rev(values[0], dimensions=tuple(i if i <= d else i + 1 for i in dimensions)), d",
    ),
    Bug(
        "loops: a break under a traced condition leaves the `else` standing",
        "ftrace/lifting/staging/staged_loops.py",
        "outcome = renamed(retried(frame, turned, may_hold), BREAK, BROKEN)",
        "outcome = renamed(retried(frame, turned, may_hold), BREAK, NEXT)",
    ),
    Bug(
        "derivatives: of two symmetric sides the second is like the first",
        "ftrace/primitives/arithmetic.py",
        "lambda t, z, x, y: rule(t, y, x))",
        "lambda t, z, x, y: rule(t, x, y))",
    ),
    Bug(
        "kernels: reversed along all axes",
        "ftrace/primitives/elements.py",
        "b.flip(c, out.shape[i]) if i in dimensions and out.shape[i] != 1 else c",
        "b.flip(c, out.shape[i]) if dimensions and out.shape[i] != 1 else c",
    ),
    Bug(
        "views: a view of a view forgets the first step",
        "ftrace/numpy/views.py",
        "base, steps = alias.base, (*alias.steps, step)",
        "base, steps = alias.base, (step,)",
    ),
    Bug(
        "views: what is written through transposed axes is not turned back",
        "ftrace/numpy/views.py",
        "lambda b, v: linear.transpose(v, permutation=inverse),",
        "lambda b, v: linear.transpose(v, permutation=permutation),",
    ),
    Bug(
        "merging: views of what an arm wrote keep their old content",
        "ftrace/lifting/staging/merging.py",
        "        push(written)\n        self._relate",
        "        self._relate",
    ),
    Bug(
        "slices: a negative step begins at the stop",
        "ftrace/numpy/indexing.py",
        "else (last, start + 1, -step, True)",
        "else (stop + 1, start + 1, -step, True)",
    ),
    Bug(
        "masks: rows are chosen by the last axis",
        "ftrace/numpy/assigning.py",
        "broadcast_dimensions=tuple(range(len(shape))))",
        "broadcast_dimensions=tuple(range(a.ndim - len(shape), a.ndim)))",
    ),
    Bug(
        "layouts: ravel of Fortran order is a view",
        "ftrace/numpy/layouts.py",
        "        return bool(memory.flags.c_contiguous)\n    return np.may",
        "        return bool(memory.flags.forc)\n    return np.may",
    ),
    Bug(
        "results: one array in two places is given twice",
        "ftrace/interpreters/captures.py",
        "if v.base is not None or id(v) in taken or not v.flags.writeable:",
        "if v.base is not None or not v.flags.writeable:",
    ),
    Bug(
        "guards: what a container has got in addition is not compared",
        "ftrace/control/freshness/facts.py",
        "return len(now) == len(before) and (",
        "return bool(before) and (",
    ),
    Bug(
        "guards: defaults are no facts",
        "ftrace/control/freshness/calling.py",
        "        if f.__defaults__:\n",
        "        if f.__kwdefaults__ and f.__defaults__:\n",
    ),
    Bug(
        "lifting: keyword defaults are forgotten",
        "ftrace/lifting/syntax/rewriting.py",
        "new.__kwdefaults__ = fn.__kwdefaults__",
        "new.__kwdefaults__ = None",
    ),
    Bug(
        "cells: a written array is not seen through its other names",
        "ftrace/numpy/cells.py",
        "    push([way.base for way in ways], x)\n",
        "    push([way.base for way in ways[1:]], x)\n",
    ),
)


class Found(NamedTuple):
    """How long it took by the clock and of the processors, and the program that shows the bug."""

    seconds: float
    worked: float
    number: int


def _worked() -> float:
    """The processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_to_find(bug: Bug, seed: int, workers: int, seconds: float) -> Found | None:
    """How long it took; None: not found in time."""
    started, start, before = time.monotonic(), 0, _worked()
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        for folder in ("ftrace", "tests/fuzz"):
            shutil.copytree(ROOT / folder, Path(name) / folder)
        (Path(name) / "tests" / "__init__.py").touch()
        path = Path(name) / bug.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(bug.before, bug.after), encoding="utf-8")
        while (left := seconds - (time.monotonic() - started)) > 0:
            found = _first(name, ["--seed", seed, "--start", start, "--seconds", left], workers)
            if found is not None and _is_new(seed, found):
                return Found(time.monotonic() - started, _worked() - before, found)
            start = start if found is None else found + 1
    return None


def _first(folder: str, options: list[object], workers: int) -> int | None:
    """The number of the first program with a finding, in a copy of the sources."""
    command = [sys.executable, "-m", "tests.fuzz", "--first", "--workers", str(workers)]
    said = subprocess.run(
        [*command, *map(str, options)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    first = [line for line in said.splitlines() if line.startswith("first: ")]
    return int(first[0].split()[1]) if first else None


def _is_new(seed: int, number: int) -> bool:
    """Whether a program is right with the sources as they are."""
    worker = Worker()
    try:
        return not any(o.finding for o in worker.ask(program(seed, number)))
    finally:
        worker.end()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 where each was found in time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    missed = 0
    for bug in BUGS:
        if not bug.fits:
            print(f"{'the source has changed':<34} {bug.name}", flush=True)
        elif asked.only in bug.name:
            found = seconds_to_find(bug, asked.seed, asked.workers, asked.seconds)
            missed += found is None
            says = "NOT FOUND"
            if found is not None:
                says = f"{found.seconds:5.0f} s ({found.worked:.0f} worked), program {found.number}"
            print(f"{says:<34} {bug.name}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

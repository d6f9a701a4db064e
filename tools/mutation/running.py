"""Running mutants: each tier in a forked child of a process that has everything but ftrace.

The parent imports NumPy, SciPy, pytest and hypothesis once. A child puts an import hook in place
that compiles the changed text for one module, then imports ftrace and runs pytest on the chosen
files until the first failure. Everything happens in a copy of the sources made at the start, so
that edits meanwhile change nothing. A child that does not end in time has noticed the bug, too.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from tools.mutation.sources import Mutant
from tools.mutation.targets import Tier

CPU_SECONDS = 90  # a tier that computes longer runs in circles
WALL_SECONDS = 600
MEMORY = 8 << 30
COPIED = ("ftrace", "tests", "docs", "pyproject.toml", "README.md", "CONTRIBUTING.md")
ARGUMENTS = ("-q", "-p", "no:cacheprovider", "-p", "no:terminalreporter", "--tb=no")


@dataclass(slots=True)
class Outcome:
    """What the tests said to a mutant: those that failed."""

    mutant: Mutant
    failed: list[str] = field(default_factory=list)
    tier: int = 0
    seconds: float = 0.0

    @property
    def killed_by(self) -> str | None:
        """The first test that failed."""
        return self.failed[0] if self.failed else None


@dataclass(slots=True)
class _Job:
    outcome: Outcome
    tiers: list[Tier]
    tier: int = 0
    pid: int = 0
    report: Path = Path()
    started: float = field(default=0.0)


# ---------------------------------------------------------------------------------- the child


class _Changed(importlib.machinery.SourceFileLoader):
    """Loads a module with other code than that of its text."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


class Finder(importlib.abc.MetaPathFinder):
    """Finds changed modules before anything else does: `code` makes them from path and file."""

    def __init__(self, root: Path, paths: Iterable[str], code: Callable[[str, str], CodeType]):
        self.root, self.code = root, code
        self.paths = {path.removesuffix(".py").replace("/", "."): path for path in paths}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in self.paths:
            return None
        file = str(self.root / self.paths[fullname])
        loader = _Changed(fullname, file, self.code(self.paths[fullname], file))
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)


def compiled(text: str, file: str) -> CodeType:
    """The code of a module of this text."""
    return compile(text, file, "exec", dont_inherit=True)


class _Plugin:
    """For pytest: runs the tests of these names only (all, if none); remembers what failed."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.wanted = wanted
        self.names: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.wanted:
            items[:] = [item for item in items if item.nodeid in self.wanted]

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(f"import of {report.nodeid}")


def _run_tests(tier: Tier) -> list[str]:
    """The names of the tests that failed."""
    import pytest

    os.environ.pop("FTRACE_LAWS_ROWS", None)
    if tier.rows is not None:
        os.environ["FTRACE_LAWS_ROWS"] = tier.rows
    os.environ["FTRACE_LAWS"] = "fast" if tier.fast else "all"
    plugin = _Plugin(tier.names)
    left_out = [part for name in tier.without for part in ("--deselect", name)]
    first = () if tier.whole else ("-x",)
    code = pytest.main([*ARGUMENTS, *first, *left_out, *tier.files], plugins=[plugin])
    if code not in (0, 1, 5) and not plugin.names:
        return [f"pytest ended with code {int(code)}"]
    return plugin.names


def _child(root: Path, mutant: Mutant | None, text: str, tier: Tier, report: Path) -> None:
    """Run a tier and leave the names of the failing tests in the report."""
    os.setpgid(0, 0)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    if not tier.whole:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(root)
    sys.path.insert(0, str(root))
    if mutant is not None:
        sys.meta_path.insert(0, Finder(root, [mutant.path], lambda _, f: compiled(text, f)))
    report.write_text(json.dumps(_run_tests(tier)), encoding="utf-8")


# ---------------------------------------------------------------------------------- the parent


@contextlib.contextmanager
def snapshot(root: Path) -> Generator[Path]:
    """A copy of the sources and tests that nobody edits."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        ignored = shutil.ignore_patterns("__pycache__", "*.ipynb", ".*")
        for part in COPIED:
            if (root / part).is_dir():
                shutil.copytree(root / part, Path(name) / part, ignore=ignored)
            elif (root / part).exists():
                shutil.copy(root / part, name)
        yield Path(name)


def preload() -> None:
    """Import what every child needs and no mutant changes."""
    for name in ("numpy", "scipy.special", "scipy.linalg", "hypothesis", "pytest"):
        importlib.import_module(name)
    if any(name.startswith("ftrace") for name in sys.modules):
        raise RuntimeError("ftrace is imported already: its mutants could not be")


class Runner:
    """Runs mutants, `workers` at a time."""

    def __init__(
        self, root: Path, texts: dict[str, str], workers: int, until: float = float("inf")
    ) -> None:
        self.root = root
        self.texts = texts
        self.workers = workers
        self.until = until  # no mutant is begun after this moment
        self._running: dict[int, _Job] = {}

    def outcomes(self, work: Sequence[tuple[Mutant, list[Tier]]]) -> Iterator[Outcome]:
        """Each mutant's outcome, as soon as it is known."""
        waiting = [_Job(Outcome(m), [t for t in tiers if t.files]) for m, tiers in work]
        waiting.reverse()
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self.workers:
                    self._start(waiting.pop())
                yield from self._finished()
                if time.monotonic() > self.until:
                    waiting.clear()
        finally:
            for pid in self._running:
                kill(pid)

    def failing(self, tier: Tier) -> list[str]:
        """The tests of a tier that fail without any change."""
        self._start(_Job(Outcome(None), [tier]))  # type: ignore[arg-type]
        while True:
            for outcome in self._finished():
                return outcome.failed

    def _start(self, job: _Job) -> None:
        mutant, tier = job.outcome.mutant, job.tiers[job.tier]
        text = mutant.applied(self.texts[mutant.path]) if mutant else ""
        handle, name = tempfile.mkstemp(dir=self.root)
        os.close(handle)
        job.report, job.started = Path(name), time.monotonic()
        sys.stdout.flush()
        job.pid = os.fork()
        if job.pid == 0:
            code = 1
            try:
                _child(self.root, mutant, text, tier, job.report)
                code = 0
            finally:
                os._exit(code)
        self._running[job.pid] = job

    def _finished(self) -> Iterator[Outcome]:
        time.sleep(0.01)
        for pid, job in list(self._running.items()):
            late = time.monotonic() - job.started > WALL_SECONDS and not job.tiers[job.tier].whole
            if late:
                kill(pid)
            done, _ = os.waitpid(pid, 0 if late else os.WNOHANG)
            if not done:
                continue
            del self._running[pid]
            kill(pid)
            written = job.report.read_text(encoding="utf-8")
            job.report.unlink()
            outcome = job.outcome
            outcome.seconds += time.monotonic() - job.started
            outcome.tier = job.tier
            outcome.failed = json.loads(written) if written else ["no end, or a crash"]
            job.tier += 1
            if outcome.killed_by is None and job.tier < len(job.tiers):
                self._start(job)
            else:
                yield outcome


def kill(pid: int) -> None:
    """End a child and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)

"""Mutants planted in a process that has collected all tests: a second each, not minutes.

The process imports and collects once. For each mutant it forks; the child exchanges the code of
the function that the mutant changes and runs the tests that run the changed statement, by the
record of `covering.py`, until the first fails. What noticed a mutant runs once more with the code
exchanged for the same again: a test that fails then proves nothing. Where no function was found,
or importing runs the statement, the outcome is left to `running.py`.
"""

import gc
import importlib
import json
import os
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tools.mutation import covering
from tools.mutation.covering import Marking, Record
from tools.mutation.running import ARGUMENTS, MEMORY, Finder, Outcome, compiled, kill
from tools.mutation.sources import Mutant
from tools.mutation.targets import MIXED

FOLDERS = (
    *("lifting", "random", "numpy", "gpu", "programs", "api"),
    *("core", "lax", "golden", "laws", "benchmarks", "nn", "scipy", "sparse"),
)  # of tests
FILES = (
    *(f"tests/{name}/test_*.py" for name in FOLDERS),
    "tests/fuzz/test_found.py",
    "tests/fuzz/test_jumps.py",
)
SILENT = 300  # seconds without a test's beginning: a deadlock
Line = dict[str, Any]


# ---------------------------------------------------------------------------------- the tests


class _Collected:
    """For pytest: gives the tests to a function instead of running them; remembers failures."""

    def __init__(self, work: Callable[["_Collected"], None]) -> None:
        self.work = work
        self.items: dict[str, Any] = {}
        self.failed: list[str] = []

    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def run(self, names: Sequence[str], seconds: dict[str, float], report: Any) -> Iterator[str]:
        """Run tests, each for at most five times its usual time and ten seconds."""
        for name, after in zip(names, [*names[1:], ""], strict=False):
            print(f"begun {name}", file=report, flush=True)
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit = int(used.ru_utime + used.ru_stime + 11 + 5 * seconds.get(name, 100))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            item = self.items[name]
            hook = item.config.hook.pytest_runtest_protocol
            hook(item=item, nextitem=self.items.get(after))
            yield name


def files_of(root: Path, wanted: Sequence[str]) -> list[str]:
    """The test files that are recorded: of all, those whose paths have one of some texts."""
    found = (f.relative_to(root).as_posix() for p in FILES for f in sorted(root.glob(p)))
    return [f for f in found if not wanted or any(w in f for w in wanted)]


def _collect(root: Path, files: Sequence[str], work: Callable[[_Collected], None]) -> None:
    """Collect tests of `root` and give them to `work`."""
    import pytest

    os.chdir(root)
    sys.path.insert(0, str(root))
    os.environ.update(FTRACE_LAWS="fast", FTRACE_LAWS_ROWS=MIXED)
    chosen = ("-s", "-m", "not fuzz", *files)
    if pytest.main([*ARGUMENTS, *chosen], plugins=[_Collected(work)]):
        raise RuntimeError("the tests could not be collected")


# ---------------------------------------------------------------------------------- children


@dataclass(slots=True)
class _Child:
    key: Any
    pid: int
    report: Path


def _forked(
    jobs: Iterable[tuple[Any, Callable[[Path], None]]], workers: int
) -> Iterator[tuple[Any, list[str]]]:
    """Do jobs in forked processes: the key of each, and the lines that it wrote."""
    waiting, running = iter(jobs), list[_Child]()
    try:
        while True:
            while len(running) < workers and (job := next(waiting, None)):
                running.append(_start(*job))
            if not running:
                return
            time.sleep(0.005)
            for child in list(running):
                late = time.time() - child.report.stat().st_mtime > SILENT
                if late:
                    kill(child.pid)
                if os.waitpid(child.pid, 0 if late else os.WNOHANG)[0]:
                    running.remove(child)
                    kill(child.pid)
                    lines = child.report.read_text(encoding="utf-8").splitlines()
                    child.report.unlink()
                    yield child.key, lines
    finally:
        for child in running:
            kill(child.pid)


def _start(key: Any, work: Callable[[Path], None]) -> _Child:
    handle, name = tempfile.mkstemp(dir=".")
    os.close(handle)
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            work(Path(name))
        finally:
            os._exit(0)
    return _Child(key, pid, Path(name))


def _in_a_process(work: Callable[[Callable[[Line], None]], None]) -> Iterator[Line]:
    """What a forked process says, while it says it."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            with os.fdopen(writing, "w", encoding="utf-8") as file:
                work(lambda line: print(json.dumps(line), file=file, flush=True))
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, encoding="utf-8") as file:
            yield from map(json.loads, file)
    finally:
        kill(pid)
        os.waitpid(pid, 0)


# ---------------------------------------------------------------------------------- recording


def record(
    root: Path,
    texts: dict[str, str],
    paths: frozenset[str],
    path: Path,
    workers: int,
    wanted: Sequence[str] = (),
) -> Record:
    """What a file says of some sources, after running the test files that are new or changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = Record(paths)
    known.chosen = files_of(root, wanted)
    known.read(path)
    new = [f for f in known.chosen if not _is_known(known, root, f)]
    if not new:
        return known
    with path.open("a", encoding="utf-8") as file:
        for line in _in_a_process(partial(_record, root, texts, new, workers)):
            print(f"recorded {line['file']}", flush=True)
            print(json.dumps(line), file=file, flush=True)
            known.add(line)
    return known


def _is_known(known: Record, root: Path, file: str) -> bool:
    return known.files.get(file) == covering.digest(root, file)


def _record(
    root: Path, texts: dict[str, str], new: list[str], workers: int, say: Callable[[Line], None]
) -> None:
    marking = Marking()
    sys.meta_path.insert(0, Finder(root, texts, lambda p, f: marking.code(p, texts[p], f)))

    def work(tests: _Collected) -> None:
        imported = marking.run()
        by_file = covering.by_file(list(tests.items)).items()
        jobs = ((file, partial(_run_file, tests, names, marking)) for file, names in by_file)
        for file, lines in _forked(jobs, workers):
            ended = lines and lines[-1].startswith("{")
            found = json.loads(lines[-1]) if ended else {"statements": [], "tests": {}}
            say({"file": file, "crc": covering.digest(root, file), "imported": imported, **found})
            imported = []

    _collect(root, new, work)


def _caches() -> list[Any]:
    """What our functions remember."""
    kind = type(lru_cache(len))
    found = (x for x in gc.get_objects() if type(x) is kind)
    return [x for x in found if str(x.__module__).startswith("ftrace")]


def _run_file(tests: _Collected, names: list[str], marking: Marking, report: Path) -> None:
    place: dict[str, int] = {}
    found: dict[str, tuple[float, list[int]]] = {}
    caches = _caches()
    started = time.process_time()
    with report.open("w", encoding="utf-8") as file:
        for name in tests.run(names, {}, file):
            run = [place.setdefault(s, len(place)) for s in marking.run()]
            for cache in caches:  # the next test would run more if it came first
                cache.cache_clear()
            seconds, started = time.process_time() - started, time.process_time()
            if name not in tests.failed:
                found[name] = round(seconds, 4), run
        print(json.dumps({"statements": list(place), "tests": found}), file=file)


# ---------------------------------------------------------------------------------- planting


def _codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """The functions and methods of a module, those in functions too, by name and first line."""
    found: dict[tuple[str, int], CodeType] = {}
    for part in code.co_consts:
        if isinstance(part, CodeType):
            found[part.co_qualname, part.co_firstlineno] = part
            found |= _codes(part)
    return found


class _Functions:
    """The functions of some sources in this process, whose code can be exchanged."""

    def __init__(self, root: Path, texts: dict[str, str]) -> None:
        self.root, self.texts = root, texts
        for path in texts:  # what a test imports when it runs has no functions yet
            with suppress(ImportError):
                importlib.import_module(path.removesuffix(".py").replace("/", "."))
        self.live: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        files = {str(root / path) for path in texts}
        for f in gc.get_objects():
            if type(f) is FunctionType and f.__code__.co_filename in files:
                code = f.__code__
                self.live[code.co_filename, code.co_qualname, code.co_firstlineno].append(f)

    def plant(self, path: str, text: str, unit: str | None = None, line: int = 0) -> bool:
        """Exchange the code of the function of a name before a line, or all; whether there is one.

        The text has the functions of the source at the same places, as far as that line.
        """
        file = str(self.root / path)
        codes = _codes(compiled(text, file))
        wanted = [p for p in codes if unit is None or (p[0] == unit and p[1] <= line)]
        if unit is not None and wanted:  # the last one; what it made while importing has its code
            first, inner = wanted[-1][1], f"{unit}.<locals>."
            wanted = wanted[-1:] + [
                p for p in codes if p[0].startswith(inner) and first <= p[1] <= line
            ]
        found = False
        for place in wanted:
            for f in self.live[file, *place]:
                if f.__code__.co_freevars != codes[place].co_freevars:
                    return False
                f.__code__ = codes[place]
                found = True
        return found


class _Server:
    """In the process that has collected the tests: tries mutants, and says what came out."""

    def __init__(
        self, tests: _Collected, root: Path, texts: dict[str, str], record: Record
    ) -> None:
        self.tests, self.texts, self.record = tests, texts, record
        self.functions = _Functions(root, texts)
        self.sound: dict[tuple[str, str], bool] = {}  # of a source and a test
        gc.collect()
        gc.freeze()  # children would copy what their collector visits

    def try_on(self, mutant: Mutant, names: list[str], *, same: bool, report: Path) -> None:
        """Plant a mutant, or its source's own functions again, and run tests."""
        path, text = mutant.path, self.texts[mutant.path]
        with report.open("w", encoding="utf-8") as file:
            if same:
                self.functions.plant(path, text)
            elif not self.functions.plant(path, mutant.applied(text), mutant.unit, mutant.line):
                print("no function", file=file)
                return
            for _ in self.tests.run(names, self.record.seconds, file):
                if self.tests.failed:
                    break
            print("failed" if self.tests.failed else "passed", file=file)

    def outcomes(self, mutants: Sequence[Mutant], workers: int, until: float) -> Iterator[Line]:
        """What came out of each mutant: first on few tests, the survivors then on many."""
        index = {m: i for i, m in enumerate(mutants)}
        left = list(mutants)
        for turn in range(len(covering.GRANTED)):
            trying, left = left, []
            while trying:
                again: list[Mutant] = []
                for (mutant, names, started), lines in _forked(
                    self._jobs(trying, turn, until), workers
                ):
                    line = self._outcome(mutant, names, started, lines)
                    if line is None:
                        again.append(mutant)
                    elif not line["failed"] and turn == 0:
                        left.append(mutant)
                        yield {**line, "mutant": index[mutant], "open": True}
                    else:
                        yield {**line, "mutant": index[mutant], "open": line["open"]}
                trying = again

    def _jobs(self, mutants: Sequence[Mutant], turn: int, until: float) -> Iterator[Any]:
        for mutant in mutants:
            if time.monotonic() < until:
                names = self._names(mutant, turn)
                key = mutant, names, time.monotonic()
                yield key, lambda r, m=mutant, n=names: self.try_on(m, n, same=False, report=r)

    def _names(self, mutant: Mutant, turn: int) -> list[str]:
        statement = self.record.of(mutant, self.texts[mutant.path])
        found = self.record.likely(statement, mutant.unit, turn) if statement else []
        wrong = {test for (_, test), sound in self.sound.items() if not sound}
        return [name for name in found if name in self.tests.items and name not in wrong]

    def _outcome(
        self, mutant: Mutant, names: list[str], started: float, lines: list[str]
    ) -> Line | None:
        """What a child's lines say of a mutant; None where a test failed that proves nothing."""
        said = lines[-1] if lines else ""
        killed = said not in ("passed", "no function")
        by = next((x[6:] for x in reversed(lines) if x.startswith("begun ")), "")
        if killed and by and not self._is_sound(mutant, by):
            return None
        if killed:
            self.record.killed(by, mutant.unit)
        statement = self.record.of(mutant, self.texts[mutant.path])
        loaded = statement is None or statement in self.record.imported
        return {
            "failed": [by if said == "failed" else f"no end, or a crash: {by}"] * killed,
            "tried": len(names),
            "open": not killed and (loaded or said == "no function"),
            "seconds": time.monotonic() - started,
        }

    def _is_sound(self, mutant: Mutant, test: str) -> bool:
        """Whether a test passes where the functions have been exchanged for the same."""
        key = mutant.path, test
        if key not in self.sound:
            work = partial(self._same, mutant, test)
            ((_, lines),) = _forked([(None, work)], 1)
            self.sound[key] = bool(lines) and lines[-1] == "passed"
        return self.sound[key]

    def _same(self, mutant: Mutant, test: str, report: Path) -> None:
        self.try_on(mutant, [test], same=True, report=report)


def outcomes(
    mutants: Sequence[Mutant],
    texts: dict[str, str],
    root: Path,
    known: Record,
    workers: int,
    until: float,
) -> Iterator[tuple[Outcome, int, bool]]:
    """Each mutant's outcome, how many tests it was tried on, and whether that settles it."""

    def serve(say: Callable[[Line], None]) -> None:
        def work(tests: _Collected) -> None:
            server = _Server(tests, root, texts, known)
            for line in server.outcomes(mutants, workers, until):
                say(line)

        _collect(root, known.chosen, work)

    for line in _in_a_process(serve):
        outcome = Outcome(mutants[line["mutant"]], line["failed"], 0, line["seconds"])
        yield outcome, line["tried"], not line["open"]

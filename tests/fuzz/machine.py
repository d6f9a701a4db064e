"""Runs programs in worker processes, counts what comes of them, and shrinks what must not be.

A worker that dies or does not answer in time is a finding as well, and is replaced. Numbers of
programs are handed out in order, so that a seed always gives the same programs; how many of them
a run reaches depends on the machine.
"""

import multiprocessing
import os
import queue
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.checking import Outcome, check
from tests.fuzz.limits import LARGE, make_small
from tests.fuzz.modules import program
from tests.fuzz.shrinking import kind_of, shrink

SECONDS = 60  # of processor time: a program that needs longer hangs
IDLE = 10  # times as long by the clock, on a machine that does other work meanwhile
PROGRAMS = 300  # of one process, before it is renewed


def processor_seconds(pid: int) -> float:
    """The processor time of another process, or the clock where the system does not tell."""
    try:
        after = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(after[11]) + int(after[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.monotonic()


def serve(pipe: Connection) -> None:
    """Answer programs with outcomes, in a process of its own."""
    if os.environ.get(LARGE):
        make_small()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        sys.path.insert(0, name)
        while (asked := pipe.recv()) is not None:
            text, only = asked
            try:
                pipe.send(check(Path(name), text, only))
            except Exception as error:  # the program is wrong, or the machine
                pipe.send([Outcome("plain Python", "unfit", repr(error))])


class Worker:
    """A process that checks programs; its death is an answer too."""

    def __init__(self) -> None:
        self.asked = PROGRAMS

    def ask(self, text: str, only: str = "", seconds: float = SECONDS) -> list[Outcome]:
        """The outcomes of a program."""
        if self.asked >= PROGRAMS:
            self._renew()
        self.asked += 1
        try:
            self.pipe.send((text, only))
            if self._answers(seconds):
                return self.pipe.recv()
            found = Outcome("process", "crash", f"no end after {seconds:.0f} s")
        except (EOFError, OSError):
            self.process.join(5)
            found = Outcome("process", "crash", f"ended with code {self.process.exitcode}")
        self.asked = PROGRAMS
        return [found]

    def _answers(self, seconds: float) -> bool:
        """Whether an answer comes before the process has worked, or idled, for too long."""
        pid = self.process.pid or 0
        end = time.monotonic() + IDLE * seconds
        worked = processor_seconds(pid)
        while time.monotonic() < end and processor_seconds(pid) - worked < seconds:
            if self.pipe.poll(min(1.0, seconds)):
                return True
        return False

    def _renew(self) -> None:
        self.end()
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.asked = 0

    def end(self) -> None:
        """End the process."""
        if hasattr(self, "process"):
            self.process.kill()
            self.process.join()
            self.pipe.close()


@dataclass
class Finding:
    """What must not be: the program, the comparison, and later the small program."""

    number: int
    outcome: Outcome
    text: str
    small: str = ""


@dataclass
class Tally:
    """What a run has seen."""

    programs: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    unfit: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str], list[Finding]] = field(default_factory=dict)

    def add(self, number: int, text: str, outcomes: list[Outcome]) -> list[Outcome]:
        """Count the outcomes of a program; which are findings of a new kind."""
        new = []
        self.programs += 1
        for o in outcomes:
            self.verdicts[o.verdict] += 1
            self.checks[o.check] += o.verdict != "skipped"
            if o.verdict == "refused":
                self.refusals[kind_of(o)[1]] += 1
            if o.verdict == "unfit":
                self.unfit[o.reason[:100]] += 1
            if o.finding:
                if kind_of(o) not in self.findings:
                    new.append(o)
                self.findings.setdefault(kind_of(o), []).append(Finding(number, o, text))
        return new

    @property
    def comparisons(self) -> int:
        """Comparisons that said something."""
        return sum(self.verdicts[v] for v in ("right", "refused", "mismatch", "crash"))

    @property
    def refused(self) -> float:
        """The part of the comparisons that ftrace refused."""
        return self.verdicts["refused"] / max(1, self.comparisons)

    def line(self, seconds: float) -> str:
        """One line of numbers."""
        count = sum(map(len, self.findings.values()))
        return (
            f"{seconds:6.0f} s  {self.programs} programs  {self.comparisons} comparisons  "
            f"{self.refused:.1%} refused  {count} findings of {len(self.findings)} kinds"
        )


class Machine:
    """A run over programs of a seed, for some seconds or of some count."""

    def __init__(self, seed: int, workers: int, start: int = 0, count: int | None = None) -> None:
        self.seed, self.tally = seed, Tally()
        self.lock = threading.Lock()
        self.workers = [Worker() for _ in range(workers)]
        self.next = start
        self.stop = float("inf") if count is None else start + count
        self.end = float("inf")

    def run(self, seconds: float, *, every: float = 60, first_only: bool = False) -> Tally:
        """Check programs; print a line now and then."""
        started = time.monotonic()
        self.end = started + seconds
        threads = [threading.Thread(target=self._work, args=(w, first_only)) for w in self.workers]
        for t in threads:
            t.start()
        for t in threads:
            while t.is_alive():
                t.join(every)
                print(self.tally.line(time.monotonic() - started), flush=True)
        return self.tally

    def _work(self, worker: Worker, first_only: bool) -> None:
        while time.monotonic() < self.end:
            with self.lock:
                number = self.next
                self.next += 1
            if number >= self.stop:
                return
            text = program(self.seed, number)
            outcomes = worker.ask(text)
            with self.lock:
                for o in self.tally.add(number, text, outcomes):
                    print(f"program {self.seed}:{number}  {', '.join(kind_of(o))}", flush=True)
                if first_only and self.tally.findings:
                    self.end = 0.0

    def shrink(self, seconds: float, each: float = 60) -> None:
        """Make the first finding of each kind small."""
        waiting: queue.SimpleQueue[Finding] = queue.SimpleQueue()
        for found in self.tally.findings.values():
            waiting.put(min(found, key=lambda f: len(f.text)))
        end = time.monotonic() + seconds

        def work(worker: Worker) -> None:
            while not waiting.empty() and time.monotonic() < end:
                try:
                    finding = waiting.get_nowait()
                except queue.Empty:
                    return
                finding.small = self._small(worker, finding, each)

        threads = [threading.Thread(target=work, args=(w,)) for w in self.workers]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def _small(self, worker: Worker, finding: Finding, seconds: float) -> str:
        kind, name = kind_of(finding.outcome), finding.outcome.check
        only = "" if name == "process" else name
        limit = 10.0 if "no end" in finding.outcome.reason else SECONDS

        def persists(text: str) -> bool:
            return any(kind_of(o) == kind for o in worker.ask(text, only, limit))

        return shrink(finding.text, persists, seconds)

    def close(self) -> None:
        """End all processes."""
        for w in self.workers:
            w.end()

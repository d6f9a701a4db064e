"""The parent's side: starts one worker per system, asks them in turn, and survives them.

A worker that does not answer in time is ended and started again for the next case. Every worker
gets the same thread count through the environment and the same CPUs. Read next:
`benchmarks/worker.py`, which answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NPROC",
)


def cpus() -> list[int]:
    """The CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


KEPT = str(1 << 31)
"""Bytes below which freed memory stays with its process. By default it is given back, or not, by
the luck of a heap's layout, and five results of 4 MB cost up to four times their kernel."""
PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}


def device() -> str:
    """Where arrays live: `cpu` or `gpu`, by `FTRACE_BENCH_DEVICE`."""
    return os.environ.get("FTRACE_BENCH_DEVICE", "cpu")


def environment(threads: int) -> dict[str, str]:
    """The environment that gives every library the same threads, heap and device."""
    env = dict(os.environ) | dict.fromkeys(THREAD_VARIABLES, str(threads))
    eigen = "true" if threads > 1 else "false"
    env["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={eigen}"
    env["JAX_PLATFORMS"] = PLATFORMS[device()]
    env["MALLOC_TRIM_THRESHOLD_"] = env["MALLOC_MMAP_THRESHOLD_"] = KEPT
    return env


def python_for(system: str) -> str:
    """The interpreter of a system: `FTRACE_BENCH_PYTHON_<SYSTEM>`, `FTRACE_BENCH_PYTHON`, ours."""
    general = os.environ.get("FTRACE_BENCH_PYTHON", sys.executable)
    return os.environ.get(f"FTRACE_BENCH_PYTHON_{system.upper()}", general)


class Worker:
    """One system's process."""

    def __init__(self, system: str, threads: int, log: Path, cases: str = "benchmarks.cases"):
        self.system, self.threads, self.log, self.cases = system, threads, log, cases
        self.process: subprocess.Popen[str] | None = None
        self.hello: dict[str, Any] = {}

    def launch(self) -> None:
        """Start the process; its first answer is `greeting`."""
        pinned = set(cpus()[-self.threads :])
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [python_for(self.system), "-m", "benchmarks.worker", self.system, self.cases],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                cwd=ROOT,
                env=environment(self.threads),
            )
        if hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(self.process.pid, pinned)

    def greeting(self, limit: float = 120.0) -> dict[str, Any]:
        """What the system says of itself: its version, or why it is not there."""
        self.hello = self.answer(limit)
        if self.hello["status"] != "ok":
            self.stop()
        return self.hello

    def ask(self, limit: float, **message: Any) -> dict[str, Any]:
        """Send one message and wait for its answer."""
        self.tell(**message)
        return self.answer(limit)

    def tell(self, **message: Any) -> None:
        """Send one message; a process that is gone is started again."""
        if self.process is None:
            self.launch()
            self.greeting()
        if self.process is not None:
            with contextlib.suppress(BrokenPipeError):
                print(json.dumps(message), file=self.process.stdin, flush=True)

    def answer(self, limit: float) -> dict[str, Any]:
        """The next answer; a worker that is late or dead is ended."""
        if self.process is None:
            return self.hello
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.stop()
        self.hello = {"status": "unsupported", "reason": f"no answer in {limit:.0f} s"}
        if ready:
            self.hello = {"status": "failed", "reason": f"the process died; see {self.log.name}"}
        return self.hello

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
        self.process = None

"""The tests and first figures on a GPU, in four minutes at most: what `make gpu-check` runs.

    python -m tools.gpu_check [FOLDER]

Each step has its seconds; one that needs more is ended, with what it started, and the next begins.
Lines are shown as they come and kept in FOLDER/check.txt (default: $OUT, else build/gpu), so that a
run that is cut off leaves what it found.
"""

import importlib.util
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

ROOT: Final = Path(__file__).resolve().parent.parent
GRACE: Final = 5.0  # seconds in which a step that is over time may say what it knows
WORKERS: Final = ["-n", "auto", "--maxprocesses=16"]


@dataclass(frozen=True)
class Step:
    """Arguments of Python, and how long they may take."""

    name: str
    arguments: Sequence[str]
    seconds: float


def steps() -> tuple[Step, ...]:
    """The most important ones first; laws in several processes where pytest-xdist is installed."""
    many = WORKERS if importlib.util.find_spec("xdist") else []
    tests = ["-m", "pytest", "-q", "-W", "default", "--tb=short"]
    return (
        Step("device", [*tests, "tests/gpu/test_device.py"], 40),
        Step("first figures", ["-m", "tools.gpu_first"], 60),
        Step("programs", [*tests, *many, "tests/gpu/test_programs.py"], 35),
        Step("laws", [*tests, *many, "tests/gpu/test_laws.py"], 105),
    )


def run(step: Step, log: TextIO) -> bool:
    """One step; whether it came to a good end in its time."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *step.arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1"}
        | {"FTRACE_GPU_LAWS": "all"},
        start_new_session=True,
    )
    say(log, f"==== {step.name}\n")
    try:
        in_time = _told(process, began + step.seconds, log)
        if not in_time:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)  # pytest then sums up
            _told(process, time.monotonic() + GRACE, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
    how = f"ended with {code}" if in_time else f"was ended after {step.seconds:g} s"
    say(log, f"==== {step.name} {how}, {time.monotonic() - began:.0f} s\n")
    return in_time and code == 0


def _told(process: subprocess.Popen[bytes], end: float, log: TextIO) -> bool:
    """Hand on what a process says until it has nothing more to say; False if the time is over."""
    assert process.stdout is not None
    while (left := end - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        text = os.read(process.stdout.fileno(), 1 << 16)
        if not text:
            return True
        say(log, text.decode(errors="replace"))
    return False


def say(log: TextIO, text: str) -> None:
    """Show and keep a text at once."""
    for stream in (sys.stdout, log):
        stream.write(text)
        stream.flush()


def main(folder: str = "") -> int:
    """Every step; 1 if one did not come to a good end."""
    place = Path(folder or os.environ.get("OUT") or ROOT / "build" / "gpu")
    place.mkdir(parents=True, exist_ok=True)
    with (place / "check.txt").open("w") as log:
        ended = [run(step, log) for step in steps()]
    return int(not all(ended))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

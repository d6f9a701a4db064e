"""What generators of small programs share: modules from sources, errors that may be, a command."""

import argparse
import importlib.util
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ftrace.errors import ConcretizationTypeError, LiftError, MutationError

LOUD: Final = (LiftError, MutationError, ConcretizationTypeError)
FITS: Final = ("right", "refused", "raises")


def indented(lines: list[str]) -> list[str]:
    """Statements as a block."""
    return ["    " + line for line in lines]


def loaded(source: str, folder: str, name: str) -> ModuleType:
    """A module of its own file."""
    path = Path(folder) / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _TooLong(BaseException):
    """No handler of a program takes it."""


def _stop(*_: Any) -> None:
    raise _TooLong


def command(
    about: str | None, program: Callable[[int], str], check: Callable[[int, str], str]
) -> int:
    """Check programs, and print those that find something.

    Args:
        about: what the command is.
        program: seed -> source.
        check: (seed, folder) -> what came out: one of `FITS`, or a finding.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _stop)
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="programs-") as folder:
        for seed in range(options.seed, options.seed + options.count):
            signal.alarm(60)
            try:
                found = check(seed, folder)
            except _TooLong:
                found = "no end within a minute"
            except Exception as error:
                found = f"crash: {error!r}"
            signal.alarm(0)
            kinds[found if found in FITS else "FOUND"] += 1
            if found not in FITS:
                print(f"---- program {seed}: {found}\n{program(seed)}", flush=True)
    print(*(f"{kind} {n}" for kind, n in kinds.most_common()), sep=", ")
    return bool(kinds["FOUND"])

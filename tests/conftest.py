"""What holds for every test: settings, hypothesis profiles, golden files, the check for leaks.

Every jaxpr that a test makes is type-checked and every captured array is compared with what it
was. After each test no trace may be running and no array may still be marked read-only. Which
warnings are errors is said in pyproject.toml.
"""

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ftrace.core.config import set_default, update
from ftrace.core.trace import EVAL, ctx
from ftrace.interpreters import captures
from tests.deferring import defer_everything
from tests.golden.files import Golden
from tests.renaming import rename_everything
from tests.sampling import takes_all, waiting
from tests.sharing import share_everything

set_default(check_jaxprs=True, check_captures=True)

FAST = os.environ.get("FTRACE_LAWS") == "fast"

# Code that one process has compiled is there for the others, and in the next run; not the user's.
CACHE = str(Path(__file__).parent.parent / "build" / "cache")
os.environ["FTRACE_CACHE_DIRECTORY"] = CACHE
set_default(cache_directory=CACHE)

settings.register_profile(
    "default",
    derandomize=True,
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fast", settings.get_profile("default"), max_examples=5)
# `pytest --hypothesis-profile=fuzz` selects that one
settings.load_profile("fast" if FAST else "default")


# What is about machine code compiles always; in a fast run the other tests interpret what they jit.
COMPILED = ("tests/cpu/", "tests/gpu/", "tests/lowering/", "test_jit_is_the_function", "compiled")


@pytest.fixture(autouse=FAST)
def compiled_or_not(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fast runs compile only where that is the point."""
    name = request.node.nodeid
    with update(compile=any(part in name for part in COMPILED)):
        yield


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """No trace is still running and no array is still held when a test ends."""
    yield
    running, ctx.trace = ctx.trace, EVAL
    assert running is EVAL, f"{running.name} is still the current trace"
    held = {key: entry[0].shape for key, entry in captures._marks.items()}
    assert not held, f"arrays of these shapes are still read-only: {held}"


OPTIONS = {"--renamed": "by_name", "--shared": "by_size", "--deferred": "at_once"}
"""Options under which programs are made in another way, and what marks tests of the usual one."""


def pytest_configure(config: pytest.Config) -> None:
    """All processes of a run take the same samples (tests/laws/cases.py, tests/sampling.py)."""
    os.environ.setdefault("FTRACE_LAWS_SEED", str(random.randrange(10**6)))
    if config.getoption("--renamed"):
        rename_everything()
    if config.getoption("--shared"):
        share_everything()
    if config.getoption("--deferred"):
        defer_everything()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that name primitives make no sense where these have other names, and so on.

    And of some tests a run takes a part (tests/sampling.py).
    """
    absent = {
        item
        for option, mark in OPTIONS.items()
        if config.getoption(option)
        for item in items
        if item.get_closest_marker(mark)
    }
    if not takes_all(config):
        absent |= waiting([item for item in items if item not in absent])
    if absent:
        config.hook.pytest_deselected(items=[item for item in items if item in absent])
        items[:] = [item for item in items if item not in absent]


def pytest_collection_finish() -> None:
    """Tests are never garbage: without them a collection takes a tenth of the time."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how to take the same samples again."""
    if not FAST and os.environ.get("FTRACE_LAWS") != "all":
        seed = os.environ["FTRACE_LAWS_SEED"]
        terminalreporter.write_line(f"samples of laws: FTRACE_LAWS_SEED={seed}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")
    parser.addoption("--renamed", action="store_true", help="tests/renaming.py says what that is")
    parser.addoption("--shared", action="store_true", help="tests/sharing.py says what that is")
    parser.addoption("--deferred", action="store_true", help="tests/deferring.py says what that is")
    parser.addoption("--runs", type=int, default=1, help="how often tests/stress runs a program")


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Iterator[Golden]:
    """The golden files of this run."""
    files = Golden(request.config.getoption("--update-golden"))
    yield files
    files.finish()

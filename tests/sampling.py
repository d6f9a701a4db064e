"""Tests of which a run takes a part: `FTRACE_LAWS_SEED` chooses it, `FTRACE_LAWS=all` takes all.

Some tests go over a grid (programs times transformations) or over numbered random programs, where
a mistake shows in many cases. `@pytest.mark.sampled(3)` lets a run take a third of the cases of
such a test, and `@pytest.mark.sampled(3, each="f")` a third of those of each `f`, one at least
(`each="case.row"`: of each row of a `case`). A run that names tests (`pytest file::test`, `-k`)
takes all their cases. Where each case is there for a bug of its own, every run takes it.
"""

import functools
import os
import random
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import given, seed, settings
from hypothesis.strategies import SearchStrategy

LAWS = os.environ.get("FTRACE_LAWS", "")
PARTS = 3


def waiting(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The tests that other seeds take."""
    groups: dict[str, dict[int | None, list[pytest.Item]]] = {}
    shares: dict[str, int] = {}
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None:
            name = item.nodeid.partition("[")[0]
            groups.setdefault(name, {}).setdefault(_value(item, mark), []).append(item)
            (shares[name],) = mark.args
    # a fast run is always the same
    chosen_by = "fast" if LAWS == "fast" else os.environ["FTRACE_LAWS_SEED"]
    found: set[pytest.Item] = set()
    for name, parts in groups.items():
        choice = random.Random(f"{chosen_by} {name}")
        for cases in parts.values():
            kept = -(-len(cases) // shares[name])
            found |= {*choice.sample(cases, len(cases) - kept)}
    return found


def _value(item: pytest.Item, mark: pytest.Mark) -> int | None:
    """Which value of what `each` names a case has."""
    each = mark.kwargs.get("each")
    if each is None:
        return None
    parameter, *attributes = each.split(".")
    value = cast(pytest.Function, item).callspec.params[parameter]
    return id(functools.reduce(getattr, attributes, value))


def takes_all(config: pytest.Config) -> bool:
    """Whether a run takes every case: it says so, names its tests, or has the profile `fuzz`."""
    named = bool(config.option.keyword) or any("::" in a for a in config.args)
    every = "all" in (LAWS, os.environ.get("FTRACE_GPU_LAWS"))
    return every or named or not settings.default.derandomize


def examples(
    *strategies: SearchStrategy[Any], count: int | None = None
) -> Callable[[Callable[..., None]], Any]:
    """A test of `count` random examples, or as many as the profile says, in three parts.

    A run takes one of them. They are always the same three, so what fails in one run fails in the
    next of that seed, and `FTRACE_LAWS=all` shows that none fails; the profile `fuzz` makes others.
    """

    def made(check: Callable[..., None]) -> Any:
        @pytest.mark.sampled(PARTS)
        @pytest.mark.parametrize("part", range(PARTS))
        def test(part: int) -> None:
            some = -(-(count or settings.default.max_examples) // PARTS)
            run = settings(max_examples=some)(given(*strategies)(check))
            (seed(part)(run) if settings.default.derandomize else run)()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return made

"""A run takes a part of some tests' cases: the same of a seed, and each of some seed."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests import sampling

ROWS = [SimpleNamespace(row=object()) for _ in range(4)]


class Item:
    """As much of a test as is looked at."""

    def __init__(self, name: str, params: dict[str, Any], mark: pytest.Mark | None) -> None:
        self.nodeid, self.callspec, self.mark = name, SimpleNamespace(params=params), mark

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.mark if name == "sampled" else None


def grid(*share: int, **each: str) -> list[Any]:
    """Seven cases of each of four rows."""
    mark = pytest.mark.sampled(*share, **each).mark if share else None
    return [
        Item(f"t.py::test[{i}-{k}]", {"case": c}, mark)
        for i, c in enumerate(ROWS)
        for k in range(7)
    ]


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a seed leaves to others, by the places of cases."""
    monkeypatch.setattr(sampling, "LAWS", "")

    def waiting(seed: int, items: list[Any]) -> set[int]:
        monkeypatch.setenv("FTRACE_LAWS_SEED", str(seed))
        found = sampling.waiting(items)
        return {k for k, item in enumerate(items) if item in found}

    return waiting


def test_a_share_of_all_cases_is_taken_and_tests_without_the_mark_are(seeded):
    assert len(seeded(1, grid(3))) == 28 - 10
    assert seeded(1, grid()) == set()


def test_each_row_has_its_share_and_one_at_least(seeded):
    left = seeded(1, grid(3, each="case.row"))
    assert [sum(7 * i <= k < 7 * i + 7 for k in left) for i in range(4)] == [4, 4, 4, 4]
    assert len(seeded(1, grid(100, each="case"))) == 28 - 4


def test_a_seed_takes_the_same_whatever_else_is_collected(seeded):
    alone = seeded(5, grid(2))
    others = [Item(f"u.py::test[{k}]", {}, pytest.mark.sampled(2).mark) for k in range(9)]
    assert {k for k in seeded(5, [*grid(2), *others]) if k < 28} == alone != seeded(6, grid(2))


def test_each_case_is_taken_by_some_seed(seeded):
    assert set.intersection(*(seeded(seed, grid(3)) for seed in range(40))) == set()


@pytest.mark.parametrize(
    ("laws", "keyword", "args", "every"),
    [
        ("", "", ["tests"], False),
        ("fast", "", ["tests"], False),
        ("all", "", ["tests"], True),
        ("", "name", ["tests"], True),
        ("", "", ["tests/t.py::test"], True),
    ],
)
def test_a_run_that_names_tests_takes_all_their_cases(laws, keyword, args, every, monkeypatch):
    monkeypatch.setattr(sampling, "LAWS", laws)
    monkeypatch.delenv("FTRACE_GPU_LAWS", raising=False)
    config: Any = SimpleNamespace(option=SimpleNamespace(keyword=keyword), args=args)
    assert sampling.takes_all(config) is every

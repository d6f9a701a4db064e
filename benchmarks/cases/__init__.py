"""The cases, one module per group of a table.

`functions.py` has the programs that several groups share, with their float64 references. A group's
module has one list, `CASES`. Read next: `fd2.py`, the plainest group.
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.case import Case

NAMES = (
    "dispatch",
    "compile",
    "fd2",
    "fd1",
    "hmlstm",
    "arity",
    "divergence",
    "newton",
    "projectile",
    "pqr",
    "fused",
    "train",
    "higher",
    "linalg",
    "indexing",
    "loops",
    "unseen",
    "random_programs",
    "memory",
    "eager",
)
GROUPS: dict[str, list[Case]] = {
    name: import_module(f"benchmarks.cases.{name}").CASES for name in NAMES
}


def all_cases() -> dict[str, Case]:
    """Every case by `group: name`."""
    return {f"{group}: {c.name}": c for group, cases in GROUPS.items() for c in cases}

"""The cases, by step of the plan; each module gives those of a scale.

Step 0 measures floors, 1 checks bits and every other case at tiny sizes, 2 to 4 are the paper's
figures, 5 reductions, 6 loops in a thread, 7 launches. The scale `paper` has the figures alone,
with the paper's sizes. Read next: `cell.py`.
"""

from __future__ import annotations

from benchmarks.gpu.case import Case
from benchmarks.gpu.cases import arity, cell, floors, launches, loops, reductions

FIGURES = (cell, arity)
MODULES = (floors, cell, arity, reductions, loops, launches)


def all_cases(scale: str) -> dict[str, Case]:
    """Every case of a scale by its name, in the order of the steps."""
    modules = FIGURES if scale == "paper" else MODULES
    found = [case for module in modules for case in module.cases(scale)]
    found.sort(key=lambda case: case.step)
    assert len({case.name for case in found}) == len(found)
    return {case.name: case for case in found}

"""Random programs: values and gradients. FTRACE_BENCH_RANDOM=SEED:COUNT says which, 1:200 if not.

`make bench-random` runs them and shows the slowest. The programs: `programs/random_programs.py`.
"""

from __future__ import annotations

import os
from functools import partial

from benchmarks.case import Case
from benchmarks.cases.unseen import reference, wanted
from benchmarks.programs.program import Program
from benchmarks.programs.random_programs import program

VARIABLE = "FTRACE_BENCH_RANDOM"
SEED, COUNT = map(int, os.environ.get(VARIABLE, "1:200").split(":"))


def _case(name: str, one: Program) -> Case:
    return Case(
        name=name,
        inputs=one.inputs,
        reference=partial(reference, one),
        body=lambda s: s.jit(wanted(s, one)),
        skip=("torch", "torchc", "autograd"),
        tolerance=1e-7,
        noise=1e-9,  # derivatives of what is constant are rounding errors
        parallel=True,
    )


CASES = [_case(f"{SEED}-{k}", program(SEED, k)) for k in range(COUNT)]

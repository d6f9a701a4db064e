"""The programs of `benchmarks/programs`: values and gradients, and how long the first ones take.

The reference is ftrace's derivative without compilation, in the process of the system measured: so
a peer's interpreter needs ftrace's dependencies, and the peer's gradient must agree with ours.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Case, leaves
from benchmarks.programs import PROGRAMS
from benchmarks.programs.program import Program


def wanted(system: Any, program: Program) -> Any:
    """The value of a program, or its value and gradient."""
    f = partial(program.function, system)
    return system.value_and_grad(f, program.wrt) if program.wrt else f


def reference(program: Program, *inputs: Any) -> list[np.ndarray]:
    from benchmarks.systems import Ftrace

    return [np.asarray(a) for a in leaves(wanted(Ftrace(), program)(*inputs))]


def _cases(name: str, program: Program) -> list[Case]:
    shared: dict[str, Any] = {
        "inputs": program.inputs,
        "reference": partial(reference, program),
        "skip": ("torch", "torchc", "autograd"),
        "tolerance": 1e-7,
    }
    return [
        Case(
            name=name,
            body=lambda s: s.jit(wanted(s, program)),
            parallel=True,
            quick=name in ("mixture 2000x8x3", "Kalman filter 200"),
            **shared,
        ),
        Case(name=f"first {name}", body=lambda s: wanted(s, program), kind="first", **shared),
    ]


CASES = [case for name, program in PROGRAMS.items() for case in _cases(name, program)]

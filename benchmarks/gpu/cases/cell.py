"""Steps 2 and 3: the HM-LSTM cell of Revels et al. (2018), its gradient and its pullback.

Units of the paper's counts are arrays of n by n floats: 8 for the gradient of the sum, 10 where
value and pullback are one call, 14 or more where they are two. ftrace runs the scalar function with
its native `if`, the others `where`. Read next: `arity.py`, the paper's third figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases.functions import hmlstm, hmlstm_partials, hmlstm_switches, over
from benchmarks.cases.hmlstm import CONTROLS, update
from benchmarks.gpu import cuda
from benchmarks.gpu.case import Case, ends, numbers
from benchmarks.systems import Torch

PAPER = (512, 1024, 2048)
SIDES = {"tiny": (64,), "quick": (2048, 8192), "full": (*PAPER, 4096, 8192), "paper": PAPER}
PULLED = {"tiny": (64,), "quick": (8192,), "full": (2048, 4096, 8192), "paper": ()}
COMPILED = {"tiny": (64,), "quick": (8192,), "full": (2048, 4096, 8192), "paper": PAPER}
DIVERGENT = {"tiny": (64,), "quick": (4096,), "full": (4096,), "paper": PAPER}
WANTED = (0, 1, 2, 3)
COMPARED = ("random", "rows")  # controls under which ways to write the kernel are compared
SOME = ("branch_x1", "branch_x4", "select_x4", "lazy_x1")  # of the ways, with the paper's sizes


def cell_inputs(n: int, control: str = "random") -> tuple[Any, ...]:
    """Four uniform matrices and the two switches, float32."""
    cell = [numbers((n, n), k, -2.0, 2.0) for k in range(4)]
    return (*cell, *hmlstm_switches(n, control, np.random.default_rng(7)))


def with_cotangent(n: int) -> tuple[Any, ...]:
    """The same after a cotangent."""
    return (numbers((n, n), 9), *cell_inputs(n))


def pulled(ct: Any, *cell: Any) -> list[Any]:
    """Value and cotangents."""
    value, *partials = hmlstm_partials(*cell)
    return [value, *(ct * p for p in partials)]


def _native(s: Any) -> Any:
    return s.vectorize(update)


def _by_where(s: Any) -> Any:
    return over(s.np, hmlstm)


def _gradient(cell: Any, s: Any) -> Any:
    f = cell(s)
    return s.jit(s.grad(lambda *args: s.np.sum(f(*args)), argnums=WANTED))


def _op_by_op(s: Any) -> Any:
    """The paper's rival: reverse mode, an operation after the other, the branches by `where`."""
    f = _by_where(s)
    gradient = s.grad(lambda *args: s.np.sum(f(*args)), argnums=WANTED)

    def run(*cell: Any) -> Any:
        return gradient(*cell)

    run.graphs = False  # type: ignore[attr-defined]
    return run


def _one_call(cell: Any, s: Any) -> Any:
    f = cell(s)

    def run(ct: Any, *args: Any) -> Any:
        return s.value_and_pull(lambda *cfig: f(*cfig, *args[4:]))(ct, *args[:4])

    return s.jit(run)


def _two_calls(s: Any, residuals: str = "auto") -> Any:
    f = s.vectorize(update, residuals=residuals)

    def run(ct: Any, *cell: Any) -> Any:
        value, pull = s.mod.vjp(lambda *cfig: f(*cfig, *cell[4:]), *cell[:4])
        return value, pull(ct)

    return run


def _two_calls_of_jax(s: Any) -> Any:
    f = over(s.np, hmlstm)
    forward = s.jit(lambda c, f_, i, g, z1, z2: s.mod.vjp(lambda *a: f(*a, z1, z2), c, f_, i, g))
    backward = s.jit(lambda pull, ct: pull(ct))

    def run(ct: Any, *cell: Any) -> Any:
        value, pull = forward(*cell)
        return value, backward(pull, ct)

    return run


def _two_calls_of_torch(s: Any) -> Any:
    """The forward pass compiled with its backward pass, as torch users train."""
    f = s.jit(over(s.np, hmlstm))

    def run(ct: Any, *cell: Any) -> Any:
        both = Torch.value_and_pull(s, lambda *cfig: f(*cfig, *cell[4:]))
        return both(ct, *cell[:4])

    return run


def _gradient_case(n: int, scale: str) -> Case:
    torch = {"torchc": partial(_gradient, _by_where)} if n in COMPILED[scale] else {}
    return Case(
        step=2,
        name=f"cell: gradient n={n}",
        inputs=lambda: cell_inputs(n),
        reference=lambda *cell: hmlstm_partials(*cell)[1:],
        builds={
            "cuda: paper": cuda.paper,
            "cuda: seven launches": cuda.split,
            "ftrace": partial(_gradient, _native),
            "ftrace: where": partial(_gradient, _by_where),
            "ftrace: where, op by op": _op_by_op,
            "triton": lambda s: s.kernels.cell_grad,
            "jax": partial(_gradient, _by_where),
            **torch,
        },
        moved=32 * n * n,
        unit=4 * n * n,
        part=ends(4),
    )


def _pulled_cases(n: int, scale: str) -> Iterator[Case]:
    common: Any = {
        "step": 2,
        "inputs": lambda: with_cotangent(n),
        "reference": pulled,
        "unit": 4 * n * n,
        "part": ends(4),
    }
    yield Case(
        name=f"cell: value and pullback, one call, n={n}",
        builds={"ftrace": partial(_one_call, _native), "jax": partial(_one_call, _by_where)},
        moved=40 * n * n,
        **common,
    )
    torch = {"torchc": _two_calls_of_torch} if n == max(COMPILED[scale]) else {}
    yield Case(
        name=f"cell: value, then pullback, two calls, n={n}",
        builds={
            "ftrace": _two_calls,
            "ftrace: residuals kept": partial(_two_calls, residuals="cache"),
            "jax": _two_calls_of_jax,
            **torch,
        },
        moved=56 * n * n,
        **common,
    )


def _divergent(n: int, control: str, scale: str) -> Case:
    compared = cuda.VARIANTS if control in COMPARED else ()
    ways = [v for v in compared if scale != "paper" or v.name in SOME]
    hand = {f"cuda: {v.name}": cuda.ways(v) for v in ways}
    return Case(
        step=3,
        name=f"control {control} n={n}",
        inputs=lambda: cell_inputs(n, control),
        reference=lambda *cell: hmlstm_partials(*cell)[1:],
        builds={"ftrace": partial(_gradient, _native), "cuda: paper": cuda.paper, **hand},
        moved=32 * n * n,
        unit=4 * n * n,
        part=ends(4),
    )


def cases(scale: str) -> Iterator[Case]:
    """Gradients by size, pullbacks, and the same gradient under other controls."""
    for n in SIDES[scale]:
        yield _gradient_case(n, scale)
    for n in PULLED[scale]:
        yield from _pulled_cases(n, scale)
    for n in DIVERGENT[scale]:
        for control in CONTROLS:
            yield _divergent(n, control, scale)

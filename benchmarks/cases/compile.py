"""How long until the first result, and how long staging alone takes."""

from __future__ import annotations

from benchmarks.case import Case, random
from benchmarks.cases.functions import (
    ackley,
    ackley_grad,
    chain_with_slope,
    hmlstm,
    hmlstm_inputs,
    hmlstm_partials,
    mlp_inputs,
    mlp_loss,
    mlp_value_and_grad,
    over,
    rosenbrock,
    rosenbrock_grad,
    summed_chain,
)

PROGRAMS = {
    "rosenbrock": (lambda: random((1000,)), rosenbrock, 0, lambda x: [rosenbrock_grad(x)]),
    "ackley": (lambda: random((1000,)), ackley, 0, lambda x: [ackley_grad(x)]),
    "hmlstm": (
        lambda: hmlstm_inputs(64),
        lambda xp, *args: xp.sum(hmlstm(xp, *args)),
        (0, 1, 2, 3),
        lambda *args: hmlstm_partials(*args)[1:],
    ),
    "mlp": (
        lambda: mlp_inputs(16),
        mlp_loss,
        (0, 1, 2, 3, 4, 5),
        lambda *args: mlp_value_and_grad(*args)[1:],
    ),
    "chain200": (
        lambda: random((1000,)),
        summed_chain(200),
        0,
        lambda x: [chain_with_slope(x, 200)[1]],
    ),
}


def _case(kind, label, name):
    inputs, program, argnums, reference = PROGRAMS[name]
    return Case(
        name=f"{label}(grad({name}))",
        inputs=inputs,
        reference=reference,
        body=lambda s: s.grad(over(s.np, program), argnums),
        skip=("torch", "autograd") if kind == "first" else ("torch", "torchc", "autograd"),
        tolerance=1e-4,
        kind=kind,
        quick=kind == "stage",
    )


CASES = [
    *(_case("first", "first jit", name) for name in PROGRAMS),
    *(_case("stage", "make_jaxpr", name) for name in PROGRAMS if name != "ackley"),
]

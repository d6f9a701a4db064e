"""Gradients by forward mode in chunks of N tangents: ceil(k/N) passes over 12000 inputs."""

from __future__ import annotations

from benchmarks.case import Case, kernel, random
from benchmarks.cases.fd2 import FUNCTIONS
from benchmarks.cases.functions import over

K = 12_000
CHUNKS = (1, 2, 3, 4, 5, 10, 32, 100)


def _case(name, chunk):
    program, reference, _ = FUNCTIONS[name]
    return Case(
        name=f"jacfwd {name} k={K} chunk={chunk}",
        inputs=lambda: random((K,), low=0.1),
        reference=lambda x: [reference(x)],
        body=lambda s: s.chunked_grad(over(s.np, program), chunk),
        own={"c": kernel(f"{name}_chunk", lambda x: [(x.shape, x.dtype)], K, chunk)},
        skip=("torch", "torchc", "autograd"),
        parallel=True,
    )


CASES = [_case(name, chunk) for name in ("rosenbrock", "ackley") for chunk in CHUNKS]

"""Step 5: sums over rows, columns and everything; softmax and layer norm; a broadcast's cotangent.

What is asked: whether a reduction and what feeds it are one pass over memory, and its pullback
another. `gated` is the HM-LSTM cell with a gate that is a number: the cotangent of the row vector
is a sum over columns of what the same kernel computes. Read next: `loops.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases.functions import over, sigmoid
from benchmarks.cases.fused import layernorm, layernorm_vjp, softmax, softmax_vjp
from benchmarks.gpu.case import Case, ends, everything, numbers

GATED = {"tiny": (40,), "quick": (8192,), "full": (2048, 8192)}
SHAPES = {
    "tiny": ((24, 40), (3, 500), (500, 3)),
    "quick": ((8192, 8192), (64, 1 << 22), (1 << 22, 64)),
    "full": ((8192, 8192), (64, 1 << 22), (1 << 22, 64)),
}
ROWS = {"tiny": 12, "quick": 8192, "full": 8192}
WIDTHS = {"tiny": (50,), "quick": (4096,), "full": (512, 4096, 32768)}
COMPILED = {"tiny": 50, "quick": 4096, "full": 4096}
EXACTLY = 1 << 24  # elements up to which every output is checked


def gated(xp: Any, c: Any, f: Any, i: Any, g: Any, z: Any) -> Any:
    """z times the new cell, 1 - z times the old one; z has one number per column."""
    new = sigmoid(xp, f) * c + sigmoid(xp, i) * xp.tanh(g)
    return z * new + (1.0 - z) * c


def gated_partials(c: Any, f: Any, i: Any, g: Any, z: Any) -> list[Any]:
    """The gradient of its sum."""
    sf, si, tg = sigmoid(np, f), sigmoid(np, i), np.tanh(g)
    new = sf * c + si * tg
    return [
        z * sf + (1.0 - z),
        z * sf * (1.0 - sf) * c,
        z * si * (1.0 - si) * tg,
        z * si * (1.0 - tg * tg),
        np.sum(new - c, axis=0, keepdims=True),
    ]


def _gated_case(n: int, torch: bool) -> Case:
    def build(s: Any) -> Any:
        f = over(s.np, gated)
        return s.jit(s.grad(lambda *args: s.np.sum(f(*args)), argnums=(0, 1, 2, 3, 4)))

    checked = n * n <= EXACTLY

    def inputs() -> Any:
        return (*(numbers((n, n), k, -2.0, 2.0) for k in range(4)), numbers((1, n), 5))

    return Case(
        step=5,
        name=f"broadcast: gradient n={n}",
        inputs=inputs,
        reference=gated_partials if checked else lambda *a: gated_partials(*a)[:4],
        builds=dict.fromkeys(("ftrace", "jax", *(("torchc",) * torch)), build),
        moved=32 * n * n,
        unit=4 * n * n,
        part=everything if checked else ends(4),
        tolerance=1e-4,
    )


def _sum_case(shape: tuple[int, int], axis: int | None, name: str, torch: bool) -> Case:
    along = {} if axis is None else {"axis": axis}

    def f(s: Any) -> Any:
        return s.jit(lambda x: s.np.sum(x * x, **along))

    size = shape[0] * shape[1]
    return Case(
        step=5,
        name=f"sum: {name} of {shape[0]} x {shape[1]}",
        inputs=lambda: (numbers(shape, 0, -1.0, 1.0),),
        reference=lambda x: [np.einsum(_SUMS[axis], x, x)],
        builds={"ftrace": f, "jax": f, **({"torchc": f} if torch else {})},
        moved=4 * size,
        unit=4 * size,
    )


_SUMS = {None: "ij,ij->", 0: "ij,ij->j", 1: "ij,ij->i"}


def _row_cases(width: int, scale: str) -> Iterator[Case]:
    count, torch = ROWS[scale], width == COMPILED[scale]
    size, shape = count * width, (count, width)
    common: Any = {"step": 5, "unit": 4 * size}
    part = everything if size <= EXACTLY else ends(4)

    def case(name: str, program: Any, units: int, inputs: Any, **more: Any) -> Case:
        builds = dict.fromkeys(("ftrace", "jax", *(("torchc",) * torch)), program)
        builds.update(more.pop("own", {}))
        return Case(
            name=f"{name} {count} x {width}",
            inputs=inputs,
            builds=builds,
            moved=4 * size * units,
            part=part,
            **common,
            **more,
        )

    x = partial(numbers, shape, 0, -3.0, 3.0)
    ct = partial(numbers, shape, 3)
    scales = (partial(numbers, (width,), 1), partial(numbers, (width,), 2))
    yield case(
        "softmax",
        lambda s: s.jit(over(s.np, softmax)),
        2,
        lambda: (x(),),
        reference=lambda x: [softmax(np, x)],
        own={"triton": lambda s: s.kernels.softmax},
    )
    yield case(
        "softmax and pullback",
        lambda s: s.jit(s.value_and_pull(over(s.np, softmax))),
        4,
        lambda: (ct(), x()),
        reference=softmax_vjp,
        tolerance=1e-4,
    )
    yield case(
        "layernorm",
        lambda s: s.jit(over(s.np, layernorm)),
        2,
        lambda: (x(), *(v() for v in scales)),
        reference=lambda *args: [layernorm(np, *args)],
    )
    kept = 4 if part is everything else 2
    yield case(
        "layernorm and pullback",
        lambda s: s.jit(s.value_and_pull(over(s.np, layernorm))),
        4,
        lambda: (ct(), x(), *(v() for v in scales)),
        reference=lambda *args: layernorm_vjp(*args)[:kept],
        tolerance=1e-3,
    )


def cases(scale: str) -> Iterator[Case]:
    """Of each kind."""
    for n in GATED[scale]:
        yield _gated_case(n, torch=n == max(GATED[scale]))
    for k, shape in enumerate(SHAPES[scale]):
        for axis, name in ((1, "rows"), (0, "columns"), (None, "all")):
            yield _sum_case(shape, axis, name, torch=k == 0 and axis == 0)
    for width in WIDTHS[scale]:
        yield from _row_cases(width, scale)

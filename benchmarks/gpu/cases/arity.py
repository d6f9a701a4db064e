"""Step 4: the gradient of a product of N activations, which moves 2 N arrays.

Read next: `reductions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.cases.arity import product, product_of_arrays, value_and_partials
from benchmarks.cases.functions import over
from benchmarks.gpu.case import Case, ends, numbers

SIDES = {"tiny": (32,), "quick": (4096,), "full": (1024, 4096), "paper": (1024,)}
ARITIES: dict[str, tuple[int, ...]] = {
    **{"tiny": (2, 5), "quick": (2, 8, 20)},
    **{"full": (*range(1, 11), 14, 18, 20, 32), "paper": tuple(range(1, 21))},
}
COMPILED = {"tiny": (2,), "quick": (8,), "full": (8,), "paper": (8,)}
SMALL = (2, 8, 20)  # arities that jax does also at the smaller size


def _native(s: Any) -> Any:
    return s.vectorize(product)


def _by_where(s: Any) -> Any:
    return over(s.np, product_of_arrays)


def _gradient(f: Any, count: int, s: Any) -> Any:
    f = f(s)
    return s.jit(s.grad(lambda *xs: s.np.sum(f(*xs)), argnums=tuple(range(count))))


def _case(n: int, count: int, scale: str) -> Case:
    where = partial(_gradient, _by_where, count)
    compiled = count in COMPILED[scale] and n == max(SIDES[scale])
    jax = count in SMALL or (n == max(SIDES[scale]) and scale != "paper")
    return Case(
        step=4,
        name=f"arity: N={count}, n={n}",
        inputs=lambda: tuple(numbers((n, n), k, 0.05, 1.0) for k in range(count)),
        reference=lambda *xs: value_and_partials(*xs)[1:],
        builds={
            "ftrace": partial(_gradient, _native, count),
            **({"jax": where} if jax else {}),
            **({"torchc": where} if compiled else {}),
        },
        moved=8 * n * n * count,
        unit=4 * n * n,
        part=ends(4),
    )


def cases(scale: str) -> Iterator[Case]:
    """By arity and size."""
    for n in SIDES[scale]:
        for count in ARITIES[scale]:
            yield _case(n, count, scale)

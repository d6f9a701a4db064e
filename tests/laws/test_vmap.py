"""Laws of batching: a row under vmap is the stacked loop, for every choice of mapped axes."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.interpreters.batching import Axis, batch_flat
from tests.laws.cases import CASES, Case, assert_close, assert_type, over_operands

SIZE = 2
INNER = 3

Dims = tuple[int | None, ...]


def subsets(case: Case) -> Iterator[tuple[bool, ...]]:
    """Every choice of mapped operands."""
    return (
        chosen for chosen in itertools.product((True, False), repeat=len(case.args)) if any(chosen)
    )


def dims_of(case: Case, chosen: tuple[bool, ...]) -> list[Dims]:
    """Mapped axes of the chosen operands: all first, all last, and both mixtures."""
    found = [
        tuple(
            None if not c else 0 if (i + shift) % 2 < firsts else a.ndim
            for i, (c, a) in enumerate(zip(chosen, case.avals, strict=True))
        )
        for firsts, shift in ((2, 0), (0, 0), (1, 0), (1, 1))
    ]
    return list(dict.fromkeys(found))


def member(x: Any, k: int) -> Any:
    """A value of the same type in the same domain, different for each `k`."""
    if np.ndim(x):
        return np.roll(np.ravel(x), k).reshape(np.shape(x))
    found = np.asarray(x)
    return (found * (1 - k / 16)).astype(found.dtype)[()] if found.dtype.kind in "fc" else found[()]


def stacked(x: Any, dim: int | None, size: int) -> Any:
    """Members of an operand along a new axis."""
    if dim is None:
        return x
    return np.stack([np.asarray(member(x, k)) for k in range(size)], axis=dim)


def in_front(y: Any, dim: int | None, size: int) -> Any:
    """A result with the mapped axis in front."""
    y = np.asarray(y)
    return np.broadcast_to(y, (size, *y.shape)) if dim is None else np.moveaxis(y, dim, 0)


def loop(case: Case, args: Sequence[Any], dims: Dims, size: int) -> list[Any]:
    """The row applied to each member, results stacked."""
    rows = []
    for k in range(size):
        taken = [x if d is None else np.take(x, k, axis=d) for x, d in zip(args, dims, strict=True)]
        rows.append(case.flat(*taken))
    return [np.stack([np.asarray(y) for y in column]) for column in zip(*rows, strict=True)]


VMAPPED = [c for c in CASES if c.args]


@over_operands(VMAPPED, subsets)
def test_vmap_is_the_stacked_loop(case: Case, operands: tuple[bool, ...]) -> None:
    for in_dims in dims_of(case, operands):
        args = [stacked(x, d, SIZE) for x, d in zip(case.args, in_dims, strict=True)]
        with np.errstate(all="ignore"):
            expected = loop(case, args, in_dims, SIZE)
            ys, dims = batch_flat(case.flat, Axis(SIZE), args, in_dims)
        for y, d, e in zip(ys, dims, expected, strict=True):
            assert_type(in_front(y, d, SIZE), typeof(e), f"operands mapped by {in_dims}:")
            assert_close(in_front(y, d, SIZE), e, None, f"operands mapped by {in_dims}")


def nested_dims(case: Case) -> Iterator[Dims]:
    """For the nested test: all operands mapped, or one."""
    n = len(case.args)
    yield tuple(0 for _ in range(n))
    if n > 1:
        for i in range(n):
            yield tuple(a.ndim if j == i else None for j, a in enumerate(case.avals))


# Rows whose operands belong together: eigenvalues of different members would be equal, which they
# refuse. tests/primitives/test_ties.py maps them as they are used.
TOGETHER = {"split_ties", "join_ties"}


@over_operands([c for c in VMAPPED if c.row.name not in TOGETHER], nested_dims)
def test_vmap_of_vmap_is_the_loop_of_loops(case: Case, operands: Dims) -> None:
    args = [stacked(x, d, INNER) for x, d in zip(case.args, operands, strict=True)]
    outer = tuple(None if d is None else np.ndim(x) for x, d in zip(args, operands, strict=True))
    args = [stacked(x, d, SIZE) for x, d in zip(args, outer, strict=True)]

    def inner(*xs: Any) -> list[Any]:
        ys, dims = batch_flat(case.flat, Axis(INNER), xs, operands)
        found.append(dims)
        return ys

    found: list[Any] = []
    with np.errstate(all="ignore"):
        ys, dims = batch_flat(inner, Axis(SIZE), args, outer)
        rows = []
        for k in range(SIZE):
            taken = [
                x if d is None else np.take(x, k, axis=d) for x, d in zip(args, outer, strict=True)
            ]
            rows.append(loop(case, taken, operands, INNER))
    for i, (y, d) in enumerate(zip(ys, dims, strict=True)):
        member_first = in_front(y, d, SIZE)
        actual = np.stack([in_front(m, found[0][i], INNER) for m in member_first])
        assert_close(actual, np.stack([r[i] for r in rows]))

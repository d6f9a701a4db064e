"""Commuting squares: transformations applied in either order give the same numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.linearize import linearize_flat
from ftrace.primitives.linear import PYTHON_SCALARS
from tests.laws.cases import (
    DIFFERENTIABLE,
    Case,
    assert_all_close,
    directions,
    materialised,
    over_cases,
    random_like,
)
from tests.laws.test_vmap import stacked

SIZE = 3
Flat = Callable[..., list[Any]]


def vmapped(f: Flat, dims: Sequence[int | None]) -> Flat:
    """`f` over mapped operands; results with the mapped axis in front."""

    axis = Axis(SIZE)

    def mapped(*args: Any) -> list[Any]:
        ys, found = batch_flat(f, axis, args, dims)
        return [place_axis(y, d, axis, 0) for y, d in zip(ys, found, strict=True)]

    return mapped


def batched_args(case: Case) -> tuple[list[Any], list[int | None]]:
    """Operands with a mapped axis in front; Python scalars and integers are not mapped."""
    dims = [
        0 if i in case.differentiable and type(x) not in PYTHON_SCALARS else None
        for i, x in enumerate(case.args)
    ]
    return [stacked(x, d, SIZE) for x, d in zip(case.args, dims, strict=True)], dims


def jvp_of(case: Case, f: Flat) -> Flat:
    """(operands, tangents) -> (results, tangents), zeros made real."""
    n = len(case.args)

    def pushed(*flat: Any) -> list[Any]:
        tangents = [t if i in case.differentiable else ZERO for i, t in enumerate(flat[n:])]
        ys, ts = jvp_flat(f, flat[:n], tangents)
        inexact = [is_inexact(typeof(y).dtype) for y in ys]
        real = materialised(ts, ys)
        return [*ys, *(t for t, keep in zip(real, inexact, strict=True) if keep)]

    return pushed


def pullback_of(case: Case, f: Flat, cts: Sequence[Any]) -> Flat:
    """Operands -> cotangents of the differentiable operands, for fixed output cotangents."""

    def pulled(*args: Any) -> list[Any]:
        _, tape = linearize_flat(f, args, outlives=False)
        live = [None if a is None else ct for a, ct in zip(tape.outs, cts, strict=True)]
        found = tape.pull(live)
        chosen = [(ZERO if found[i] is None else found[i], args[i]) for i in case.differentiable]
        return materialised(*zip(*chosen, strict=True))

    return pulled


MAPPABLE = [c for c in DIFFERENTIABLE if any(d is not None for d in batched_args(c)[1])]


@over_cases(MAPPABLE)
def test_jvp_of_vmap_is_vmap_of_jvp(case: Case) -> None:
    args, dims = batched_args(case)
    tangents = [
        0.0 if t is ZERO else stacked(t, d, SIZE)
        for t, d in zip(directions(case, case.differentiable, case.rng()), dims, strict=True)
    ]
    first = jvp_of(case, vmapped(case.flat, dims))(*args, *tangents)
    second = vmapped(jvp_of(case, case.flat), [*dims, *dims])(*args, *tangents)
    assert_all_close(first, second)


@over_cases(MAPPABLE)
def test_grad_of_vmap_is_vmap_of_grad(case: Case) -> None:
    args, dims = batched_args(case)
    rng = case.rng()
    cts = [random_like(rng, a) for a in case.types(*case.avals)]
    repeated = [np.stack([np.asarray(ct)] * SIZE) for ct in cts]
    together = pullback_of(case, vmapped(case.flat, dims), repeated)(*args)
    each = vmapped(pullback_of(case, case.flat, cts), dims)(*args)
    summed = [
        e if dims[i] is not None else np.sum(e, axis=0, dtype=np.asarray(e).dtype)
        for i, e in zip(case.differentiable, each, strict=True)
    ]
    assert_all_close(*zip(*map(_as_unread, together, summed), strict=True))


def _as_unread(a: Any, b: Any) -> tuple[Any, Any]:
    """Two cotangents, with zero in both where one is NaN and the other exactly zero.

    What nobody read has no cotangent even beside a slope that is NaN (a matrix that is not
    definite), where that is found out: eagerly, not inside `vmap` (docs/decisions/049).
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind not in "fc":
        return a, b
    unread = (np.isnan(a) & (b == 0)) | (np.isnan(b) & (a == 0))
    return np.where(unread, 0, a), np.where(unread, 0, b)

"""The partial derivatives of a scalar function, all at once: what a mixed-mode kernel computes.

`partials` gives the jaxpr of (inputs) -> (results, partials). Forward mode pushes a one from each
input; where no loop is in the way, reverse mode pulls a one from each result, which takes fewer
operations where inputs are many. The shorter jaxpr is taken.

Source: J. Revels et al., Dynamic Automatic Differentiation of GPU Broadcast Kernels (2018).
"""

from typing import Any

import numpy as np

from ftrace.control.rows.directions import push_directions
from ftrace.core.avals import typeof
from ftrace.core.jaxpr import Jaxpr, cached_on_jaxpr, eval_jaxpr, subjaxprs
from ftrace.core.kinds import has_loops
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import instantiate, materialise
from ftrace.interpreters.transpose import pull_jaxpr
from ftrace.lowering.fusion.inline import inline
from ftrace.primitives import arithmetic

Pattern = tuple[tuple[int, int], ...]  # (result, input) of each partial that is not zero


@cached_on_jaxpr
def partials(jaxpr: Jaxpr, active: tuple[bool, ...]) -> tuple[Jaxpr, Pattern]:
    """The jaxpr of results and partials, and which partials these are.

    Args:
        jaxpr: of rank-0 values.
        active: the inputs by which to differentiate.
    """
    if not any(active):
        return jaxpr, ()
    forward = _forward(jaxpr, active)
    if has_loops(jaxpr):
        return forward
    return min(forward, _reverse(jaxpr, active), key=lambda found: _size(found[0]))


def _size(jaxpr: Jaxpr) -> int:
    """How many different operations there are, those of branches too."""
    eqns, _, _ = inline(jaxpr, jaxpr.invars)
    return len(eqns) + sum(_size(j) for e in eqns for _, j in subjaxprs(e.params))


def _forward(jaxpr: Jaxpr, active: tuple[bool, ...]) -> tuple[Jaxpr, Pattern]:
    pattern: list[tuple[int, int]] = []
    inputs = [i for i, a in enumerate(active) if a]

    def pushed(*xs: Any) -> list[Any]:
        columns = [tuple(_one(x) if i == k else ZERO for i, x in enumerate(xs)) for k in inputs]
        ys, found = push_directions(lambda *zs: eval_jaxpr(jaxpr, zs), xs, columns)
        each = [
            (j, k, t)
            for k, ts in zip(inputs, found, strict=True)
            for j, t in enumerate(ts)
            if t is not ZERO
        ]
        pattern[:] = [(j, k) for j, k, _ in each]
        return [*ys, *(t for _, _, t in each)]

    return trace_closed(pushed, jaxpr.in_avals), tuple(pattern)


def _reverse(jaxpr: Jaxpr, active: tuple[bool, ...]) -> tuple[Jaxpr, Pattern]:
    pattern: list[tuple[int, int]] = []
    inputs = [i for i, a in enumerate(active) if a]
    pushed, nonzero = jvp_jaxpr(jaxpr, active)
    n = len(jaxpr.invars)
    linear = (False,) * n + (True,) * len(inputs)
    results = [j for j, z in enumerate(nonzero) if z]

    def pulled(*xs: Any) -> list[Any]:
        found: list[Any] = []
        pattern.clear()
        for place, j in enumerate(results):
            ones = [
                _one_of(jaxpr.out_avals[j]) if k == place else None for k in range(len(results))
            ]
            cts = [*(None for _ in jaxpr.outvars), *ones]
            given = [*xs, *(None for _ in inputs)]
            for i, ct in zip(inputs, pull_jaxpr(pushed, given, linear, cts), strict=True):
                if ct is not None:
                    pattern.append((j, i))
                    found.append(materialise(ct))
        return [*eval_jaxpr(jaxpr, xs), *found]

    return trace_closed(pulled, jaxpr.in_avals), tuple(pattern)


@cached_on_jaxpr
def complex_partials(jaxpr: Jaxpr, active: tuple[bool, ...], results: int) -> tuple[Jaxpr, Pattern]:
    """As `partials`, of values that may be complex, by the first `results` of the results.

    The partial of a real result by z = x + iy is d/dx - i d/dy, as the gradient is. That of a
    complex one is d/dx, which is the derivative where it is complex-analytic.
    """
    pattern: list[tuple[int, int]] = []
    inputs = [i for i, a in enumerate(active) if a]
    real = [j for j, a in enumerate(jaxpr.out_avals[:results]) if a.dtype.kind != "c"]
    turned = [i for i in inputs if jaxpr.in_avals[i].dtype.kind == "c" and real]

    def pushed(*xs: Any) -> list[Any]:
        ones = [tuple(_one(x) if i == k else ZERO for i, x in enumerate(xs)) for k in inputs]
        steps = [tuple(_one(x) * 1j if i == k else ZERO for i, x in enumerate(xs)) for k in turned]
        ys, found = push_directions(lambda *zs: eval_jaxpr(jaxpr, zs), xs, [*ones, *steps])
        by_x, by_y = found[: len(inputs)], dict(zip(turned, found[len(inputs) :], strict=True))
        partial = {
            (j, k): t
            for k, ts in zip(inputs, by_x, strict=True)
            for j, t in enumerate(ts[:results])
        }
        for k, ts in by_y.items():
            for j in real:
                partial[j, k] = _turned(partial[j, k], ts[j])
        known = {at: t for at, t in partial.items() if t is not ZERO}
        pattern[:] = known
        return [*ys, *known.values()]

    return trace_closed(pushed, jaxpr.in_avals), tuple(pattern)


def _turned(by_x: Any, by_y: Any) -> Any:
    """d/dx - i d/dy of a real result."""
    if by_x is ZERO and by_y is ZERO:
        return ZERO
    like = by_y if by_x is ZERO else by_x
    return arithmetic.complex(instantiate(by_x, like), arithmetic.neg(instantiate(by_y, like)))


def _one(x: Any) -> Any:
    return _one_of(typeof(x))


def _one_of(a: Any) -> Any:
    return np.dtype(a.dtype).type(1)

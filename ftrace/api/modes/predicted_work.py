"""How much work the passes of forward and of reverse mode take, counted on their programs.

The rule: an operation costs its largest operand or result in elements, a product its
multiplications, a loop its iterations (`UNKNOWN_TURNS` where their number is not known), a decision
its dearer side; and each operation `CALL` elements more for being called.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ftrace.api.derivatives.jacobians import backward_pass, forward_pass
from ftrace.control.functions import FlatFunction
from ftrace.core.avals import ShapedArray, aval
from ftrace.core.dtypes import is_inexact
from ftrace.core.jaxpr import Eqn, Jaxpr, subjaxprs
from ftrace.core.kinds import branches, element, layout, way
from ftrace.core.lower import Product
from ftrace.core.records import record
from ftrace.interpreters.linearize import linearize_flat
from ftrace.interpreters.staging import trace_to_jaxpr

CALL: Final = 5000
UNKNOWN_TURNS: Final = 10


@record
class ModeChoice:
    """Which mode a derivative is taken in, and why.

    Attributes:
        mode: "forward", "reverse" or "mixed".
        why: a sentence.
        inputs, results: elements of what is differentiated, and of the result; None: not counted.
        forward, reverse: the work of each mode, in elements; None: not counted.
        mixed: the work of the best product of parts; None: no better than one mode.
    """

    mode: str
    why: str
    inputs: int | None = None
    results: int | None = None
    forward: int | None = None
    reverse: int | None = None
    mixed: int | None = None

    def __str__(self) -> str:
        text = f"{self.mode} mode: {self.why}"
        if self.forward is None:
            return text
        return (
            f"{text} ({self.results} results by {self.inputs} inputs; predicted work in elements: "
            f"forward {self.forward:,}, reverse {self.reverse:,}"
            f"{'' if self.mixed is None else f', mixed {self.mixed:,}'})"
        )


class Work(NamedTuple):
    """The work of a program: how often an operation is called, and elements."""

    calls: int
    elements: int

    def times(self, turns: int) -> Work:
        """Of so many iterations."""
        return Work(turns * self.calls, turns * self.elements)

    def and_then(self, other: Work) -> Work:
        """Of both."""
        return Work(self.calls + other.calls, self.elements + other.elements)

    @property
    def total(self) -> int:
        """In elements."""
        return CALL * self.calls + self.elements


def work(jaxpr: Jaxpr) -> int:
    """The work of a program, in elements."""
    return _work_of(jaxpr).total


def _work_of(jaxpr: Jaxpr) -> Work:
    return functools.reduce(Work.and_then, map(worked, jaxpr.eqns), Work(0, 0))


def worked(eqn: Eqn) -> Work:
    """The work of an equation."""
    call = Work(1, 0)
    loop = layout(eqn)
    if loop is not None:
        turns = UNKNOWN_TURNS if loop.length is None else loop.length
        turn = _work_of(loop.body)
        if loop.cond:
            turn = turn.and_then(_work_of(loop.cond))
        return call.and_then(turn.times(turns))
    arms = branches(eqn)
    if arms:
        return call.and_then(max(map(_work_of, arms), key=lambda w: w.total))
    sizes = [v.aval.size for v in (*eqn.invars, *eqn.outvars)]
    each = element(eqn)
    if each is not None:
        return Work(1, max(sizes) * max(1, len(each.eqns)))
    inner = [_work_of(j) for _, j in subjaxprs(eqn.params)]
    if any(w.total for w in inner):
        return functools.reduce(Work.and_then, inner)
    if way(eqn.primitive, Product) is not None and 0 not in sizes:
        a, b, c = sizes[:3]  # of shapes (m, k), (k, n) and (m, n)
        return Work(1, round((a * b * c) ** 0.5))
    return Work(1, max(sizes, default=0))


def programs(
    flat: FlatFunction, avals: Sequence[ShapedArray], count: int, wanted: Any
) -> tuple[Jaxpr, Jaxpr, int]:
    """The passes of both modes for all directions, traced, and the size of the result.

    Args:
        flat: the function.
        avals: of its arguments.
        count: directions of a forward pass.
        wanted: how many of the results are differentiated, asked when the function has run.
    """
    n = len(avals)
    live = [aval((count, *a.shape), a.dtype) for a in avals]

    def pushed(*values: Any) -> list[Any]:
        return forward_pass(flat, list(values[:n]), list(values[n:]), count)[1][: wanted()]

    forward, _ = trace_to_jaxpr(pushed, [*avals, *live])
    results = [aval(a.shape[:-1], a.dtype) for a in forward.out_avals]
    size = sum(a.size for a in results if is_inexact(a.dtype))

    def pulled(*values: Any) -> list[Any]:
        leaves, supply = list(values[:n]), iter(values[n:])
        outs, tape = linearize_flat(flat, leaves, outlives=False)
        basis = [next(supply) if is_inexact(a.dtype) else None for a in results]
        return backward_pass(tape, basis, leaves, (size, len(outs) - len(results)))

    cts = [aval((size, *a.shape), a.dtype) for a in results if is_inexact(a.dtype)]
    reverse, _ = trace_to_jaxpr(pulled, [*avals, *cts])
    return forward, reverse, size

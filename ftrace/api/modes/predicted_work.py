"""How much work the passes of forward and of reverse mode take, counted on their programs.

The rule: an operation costs its largest operand or result in elements, a product its
multiplications, a loop its iterations (`UNKNOWN_TURNS` where their number is not known), a decision
its dearer side; and each operation `CALL` elements more for being called.
"""

from collections.abc import Sequence
from typing import Any, Final

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
        mode: "forward" or "reverse".
        why: a sentence.
        inputs, results: elements of what is differentiated, and of the result; None: not counted.
        forward, reverse: the work of each mode, in elements; None: not counted.
    """

    mode: str
    why: str
    inputs: int | None = None
    results: int | None = None
    forward: int | None = None
    reverse: int | None = None

    def __str__(self) -> str:
        text = f"{self.mode} mode: {self.why}"
        if self.forward is None:
            return text
        return (
            f"{text} ({self.results} results by {self.inputs} inputs; predicted work in elements: "
            f"forward {self.forward:,}, reverse {self.reverse:,})"
        )


def work(jaxpr: Jaxpr) -> int:
    """The work of a program, in elements."""
    return sum(map(_work_of, jaxpr.eqns))


def _work_of(eqn: Eqn) -> int:
    loop = layout(eqn)
    if loop is not None:
        turns = UNKNOWN_TURNS if loop.length is None else loop.length
        return CALL + turns * (work(loop.body) + (work(loop.cond) if loop.cond else 0))
    arms = branches(eqn)
    if arms:
        return CALL + max(map(work, arms))
    sizes = [v.aval.size for v in (*eqn.invars, *eqn.outvars)]
    each = element(eqn)
    if each is not None:
        return CALL + max(sizes) * max(1, len(each.eqns))
    inner = sum(work(j) for _, j in subjaxprs(eqn.params))
    if inner:
        return inner
    if way(eqn.primitive, Product) is not None and 0 not in sizes:
        a, b, c = sizes[:3]  # of shapes (m, k), (k, n) and (m, n)
        return CALL + round((a * b * c) ** 0.5)
    return CALL + max(sizes, default=0)


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

"""The `host_call` row: a Python function of plain arrays in the middle of a traced program.

The function runs when the program runs, on values, so it may use SciPy, Python loops and tests;
nothing looks inside it. It therefore has no derivative of its own: a rule around it says what the
derivative is (`root.py`, `linear_solve.py`). A mapped call runs once per member; one that finds
no solution is NaN, since it may lie on a side of a mapped `cond` that is not taken.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.errors import CallbackError, SolverError
from ftrace.core.primitive import Primitive, Unsupported
from ftrace.interpreters.batching import Axis

OutAvals = tuple[ShapedArray, ...]


def _host_impl(*operands: Any, fun: Callable[..., Sequence[Any]], out_avals: OutAvals) -> list[Any]:
    found = fun(*(np.array(x) if isinstance(x, np.ndarray) else x for x in operands))
    results = [np.array(y, a.dtype) for y, a in zip(found, out_avals, strict=True)]
    for y, a in zip(results, out_avals, strict=True):
        if y.shape != a.shape:
            raise CallbackError(
                f"A function that runs on the host returned shape {y.shape} where {a} was due.",
                "Return arrays of the shapes that it was announced with.",
            )
    return [y[()] if not y.ndim else y for y in results]


def _host_batch(
    axis: Axis,
    values: Sequence[Any],
    dims: Sequence[int | None],
    *,
    fun: Callable[..., Sequence[Any]],
    out_avals: OutAvals,
) -> Any:
    fixed = tuple(dims)

    def member(i: int, operands: Sequence[Any]) -> Sequence[Any]:
        pairs = zip(operands, fixed, strict=True)
        try:
            return fun(*(x if d is None else np.take(x, i, d) for x, d in pairs))
        except SolverError:
            return [np.full(a.shape, np.nan) for a in out_avals]

    def members(*operands: Any) -> list[Any]:
        found = [member(i, operands) for i in range(axis.size)]
        return [
            np.array([ys[k] for ys in found], a.dtype).reshape(axis.size, *a.shape)
            for k, a in enumerate(out_avals)
        ]

    stacked = tuple(aval((axis.size, *a.shape), a.dtype) for a in out_avals)
    return host_call(*values, fun=members, out_avals=stacked), [0] * len(out_avals)


host_call = Primitive(
    name="host_call",
    impl=_host_impl,
    type=lambda *avals, fun, out_avals: out_avals,
    jvp=Unsupported(
        "A function that runs on the host, on plain values, has no derivative of its own.",
        "Differentiate through ftrace.lax.custom_root or custom_linear_solve, or give it a "
        "custom rule.",
    ),
    transpose=Unsupported("A function that runs on the host cannot be transposed."),
    batch=_host_batch,
    multiple=True,
    doc="Call a Python function of plain arrays.",
)

"""Programs that contain the rows that hold programs or functions: for the table of support.

A row of `primitives/table.py` has samples; `jit`, `scan`, `pure_callback` have none, so here is at
least one program for each. The first argument of a program is what it is differentiated by.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import ftrace
import ftrace.numpy as fnp
from ftrace import lax

X: Final = np.linspace(0.5, 2.0, 12).reshape(3, 4)
V: Final = np.linspace(0.5, 2.0, 4)
Function = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A function of one array, and what can be done with it."""

    function: Function
    x: Any
    differentiable: bool = True

    def transformed(self) -> Iterator[tuple[str, Function, tuple[Any, ...]]]:
        """(transformation, function, arguments)."""
        f, x = self.function, self.x
        yield "value", f, (x,)
        if self.differentiable:
            yield "jvp", lambda x, t: ftrace.jvp(f, (x,), (t,)), (x, x)
            yield "transpose", _pulled(f), (x,)
        yield "batch", ftrace.vmap(f), (np.stack([x, x + 0.25]),)


def _pulled(f: Function) -> Function:
    def run(x: Any) -> Any:
        y, pull = ftrace.vjp(f, x)
        return pull(y)

    return run


def _like(x: Any) -> Any:
    return ftrace.ShapeDtypeStruct(x.shape, x.dtype)


# ---------------------------------------------------------------------------------- programs


def root(a: Any) -> Any:
    """A loop over a number: it fits one kernel."""
    return lax.while_loop(lambda s: fnp.abs(s * s - a) > 1e-9, lambda s: 0.5 * (s + a / s), 1.0 * a)


def grown(x: Any) -> Any:
    """A loop over an array."""
    return lax.while_loop(lambda s: s.sum() < 100.0, lambda s: s * 1.5 + 1.0, x)


def recurrent(x: Any) -> Any:
    return lax.scan(lambda c, row: (fnp.tanh(c + row), c.sum()), x[0], x)


def accumulated(x: Any) -> Any:
    return lax.scan(lambda c, t: (c * 0.5 + t, c), 0.0, x)


def chosen(x: Any) -> Any:
    return lax.cond(x.sum() > 0.0, fnp.sin, fnp.cos, x)


def with_jvp(x: Any) -> Any:
    g = ftrace.custom_jvp(lambda x: fnp.sin(x))
    g.defjvp(lambda p, t: (fnp.sin(p[0]), t[0] * fnp.cos(p[0])))
    return g(x)


def with_vjp(x: Any) -> Any:
    g = ftrace.custom_vjp(lambda x: fnp.sin(x))
    g.defvjp(lambda x: (fnp.sin(x), x), lambda x, ct: (ct * fnp.cos(x),))
    return g(x)


def with_vmap(x: Any) -> Any:
    g = ftrace.custom_vmap(lambda x: fnp.sin(x))
    g.def_vmap(lambda size, mapped, x: (fnp.sin(x), True))
    return g(x)


def scalar(x: Any) -> Any:
    return ftrace.vectorize(lambda a, b: a * b if a > b else fnp.sin(a))(x, 1.0)


def solved(b: Any) -> Any:
    a = fnp.array(np.eye(4) * 2.0)
    return lax.custom_linear_solve(
        lambda x: a @ x, b, lambda _, b: b / 2.0, transpose_solve=lambda _, b: b / 2.0
    )


def outside(x: Any) -> Any:
    return ftrace.external(np.sin, _like, jvp=lambda args, y, t: t[0] * np.cos(args[0]))(x)


def shown(x: Any) -> Any:
    ftrace.debug.callback(_nothing, x)
    return fnp.sin(x)


def _nothing(x: Any) -> Any:
    """A host function that looks at nothing."""


def _sine(x: Any) -> Any:
    return np.sin(x)


PROGRAMS: Final[dict[str, tuple[Program, ...]]] = {
    "jit": (Program(lambda x: ftrace.jit(fnp.sin)(x), X),),
    "checkpoint": (Program(ftrace.checkpoint(lambda x: fnp.sin(fnp.exp(x))), X),),
    "custom_jvp": (Program(with_jvp, X),),
    "custom_vjp": (Program(with_vjp, X),),
    "custom_vmap": (Program(with_vmap, X),),
    "vectorize": (Program(scalar, X),),
    "cond": (Program(chosen, X), Program(chosen, V)),
    "while": (Program(root, 2.0), Program(grown, V)),
    "scan": (Program(recurrent, X), Program(accumulated, V)),
    "linear_solve": (Program(solved, V),),
    "pure_callback": (
        Program(lambda x: ftrace.pure_callback(_sine, _like(x), x), X, differentiable=False),
    ),
    "io_callback": (
        Program(lambda x: ftrace.io_callback(_sine, _like(x), x), X, differentiable=False),
    ),
    "debug_callback": (Program(shown, X),),
    "linear_call": (Program(outside, X),),
}
"""By row, programs that contain it."""

WITHIN: Final = {
    "custom_lin": "derivatives of `custom_vjp` and `custom_rule` make it",
    "sum_partials": "derivatives of `vectorize` make it",
    "revolve": "derivatives of a `scan` that keeps few states make it",
    "scan_again": "derivatives of a `scan` that keeps no residuals make it",
    "psum": "where `vmap` names the axis it has become a sum, or a product",
    "pmax": "where `vmap` names the axis it has become a maximum",
    "pmin": "where `vmap` names the axis it has become a minimum",
    "raise_where": "`raise`, `assert` and errors under traced decisions make it, and programs "
    "hand its flag out as a result",
    "raise_now": "what a program calls where such a flag is set",
    "axis_index": "where `vmap` names the axis it has become `iota`",
    "meet": "types with an addition of their own (`register_vector_space`) make it",
    "is_singular": "derivatives of solutions of singular systems ask it",
    "index_error": "lowering makes it of `gather` and the scatters",
    "gather_clipped": "lowering makes it of `gather`",
    "scatter_at": "lowering makes it of the scatters",
    "lu_factors": "lowering makes it of `solve`, where several have one matrix",
    "solve_factored": "lowering makes it of `solve`, where several have one matrix",
    "small_system": "lowering makes it of `solve` and kin for small matrices",
    "sum_of_products": "lowering makes it of small `dot_general`",
    "rolled": "lowering makes it of equations that repeat themselves",
    "weakened": "lowering makes it of numbers in such equations",
    "joined": "lowering makes it of concatenations whose operands are made in their places",
}
"""Rows that are in no user's program when it is planned, and why."""

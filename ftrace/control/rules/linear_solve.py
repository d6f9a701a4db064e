"""`custom_linear_solve`: the solution of A x = b by the user's solver, differentiated as such.

The row `linear_solve` holds A as a jaxpr. The tangent of x solves A x' = b' - A' x, the cotangent
of b solves the transposed system, and both are the same row again, so that derivatives of any
order need no rule of the solver. All its jaxprs take the same leading operands, what the user's
functions captured, and then the right-hand side. `lanes` counts the leading axes that `vmap`
made: along them systems are independent, so that one on an untaken side contributes nothing.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

from ftrace.control.functions import Staged, stage_function
from ftrace.control.rules.flat_rules import FUN
from ftrace.control.rules.solvers import Space, share_captures, stage_solver
from ftrace.control.user_loops import check_functions
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError
from ftrace.core.jaxpr import Jaxpr, JaxprFun, cached_on_jaxpr, eval_jaxpr
from ftrace.core.primitive import Effects, Primitive
from ftrace.core.trace import EVAL, ctx, lifted
from ftrace.core.zero import ZERO, Masked
from ftrace.interpreters.batching import Axis, batch_jaxpr, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import instantiate
from ftrace.interpreters.transpose import (
    flatten_masked,
    instantiate_cotangent,
    transpose_jaxpr,
    unflatten_masked,
)
from ftrace.primitives.arithmetic import neg, sub
from ftrace.primitives.compare import bitwise_or
from ftrace.primitives.linear import broadcast_in_dim
from ftrace.primitives.reduce import reduce_or

T = TypeVar("T")


@cached_on_jaxpr
def _transposed(matvec: Jaxpr, n: int) -> Jaxpr:
    """The transposed map, of the same captured operands; `n` is the size of the unknown."""
    avals = matvec.in_avals
    first = len(avals) - n
    linear = (False,) * first + (True,) * n
    backward, kinds = transpose_jaxpr(matvec, linear, (1,) * n)

    def filled(*args: Any) -> list[Any]:
        cts = unflatten_masked(eval_jaxpr(backward, args), kinds)
        return [instantiate_cotangent(c, a) for c, a in zip(cts, avals[first:], strict=True)]

    return backward if kinds == (1,) * n else trace_closed(filled, backward.in_avals)


def _impl(*operands: Any, fun: JaxprFun, **params: Any) -> list[Any]:
    return owned(fun(*operands), operands)


def _type(*avals: Any, fun: JaxprFun, **params: Any) -> Any:
    return fun.jaxpr.out_avals


def _effects(*, fun: JaxprFun, **params: Any) -> Effects:
    return fun.jaxpr.effects


def _jvp(primals: Any, tangents: Any, *, matvec: Jaxpr, **params: Any) -> Any:
    outs = linear_solve(*primals, matvec=matvec, **params)
    n = len(matvec.outvars)
    x, captured = outs[:n], primals[:-n]
    _, moved = jvp_flat(lambda *xs: eval_jaxpr(matvec, [*xs, *x]), captured, tangents[:-n])
    rhs = [_minus(t, m) for t, m in zip(tangents[-n:], moved, strict=True)]
    ts = [ZERO] * len(outs)
    if any(t is not ZERO for t in rhs):
        full = map(instantiate, rhs, x)
        ts[:n] = linear_solve(*captured, *full, matvec=matvec, **params)[:n]
    return outs, ts


def _minus(a: Any, b: Any) -> Any:
    if b is ZERO:
        return a
    return neg(b) if a is ZERO else sub(a, b)


def _transpose(
    cts: Any,
    *operands: Any,
    matvec: Jaxpr,
    fun: JaxprFun,
    transpose_solve: Jaxpr | None,
    symmetric: bool,
    lanes: int,
) -> Any:
    if transpose_solve is None:
        raise RuleError(
            "Reverse mode through custom_linear_solve solves the transposed system, and no "
            "transpose_solve was given.",
            "Give transpose_solve=, or symmetric=True if the matrix is symmetric.",
        )
    n = len(matvec.outvars)
    captured = operands[:-n]
    pairs = zip(cts[:n], matvec.out_avals, strict=True)  # what follows is aux: no derivative
    found = linear_solve(
        *captured,
        *(instantiate_cotangent(c, a) for c, a in pairs),
        matvec=matvec if symmetric else _transposed(matvec, n),
        fun=JaxprFun(transpose_solve),
        transpose_solve=fun.jaxpr,
        symmetric=symmetric,
        lanes=lanes,
    )
    alive = _alive(cts[:n], lanes)
    return [*(None for _ in captured), *(_where_alive(x, alive) for x in found[:n])]


def _alive(cts: Any, lanes: int) -> Masked | None:
    """Which members take part, if all cotangents are masked; the rest of a system is coupled."""
    live = [c for c in cts if c is not None]
    if any(type(c) is not Masked for c in live):
        return None
    masks = [flatten_masked([c])[1] for c in live]
    axes = [tuple(range(lanes, len(typeof(m).shape))) for m in masks]
    pairs = zip(masks, axes, strict=True)
    mask = reduce(bitwise_or, (reduce_or(m, axes=a) if a else m for m, a in pairs))
    found = Masked(None, mask)
    found.branch = any(c.branch for c in live)
    return found


def _where_alive(ct: Any, alive: Masked | None) -> Any:
    if alive is None:
        return ct
    mask = alive.mask
    shape, kept = typeof(ct).shape, tuple(range(len(typeof(mask).shape)))
    if kept and len(kept) < len(shape):
        mask = broadcast_in_dim(mask, shape=shape, broadcast_dimensions=kept)
    return alive.with_value(ct, mask)


def _batch(  # noqa: PLR0913 - a row's params
    axis: Axis,
    values: Any,
    dims: Any,
    *,
    matvec: Jaxpr,
    fun: JaxprFun,
    transpose_solve: Jaxpr | None,
    symmetric: bool,
    lanes: int,
) -> Any:
    n = len(matvec.outvars)
    pairs = zip(values[-n:], dims[-n:], strict=True)
    rhs = [place_axis(v, d, axis, 0) for v, d in pairs]
    ds = (*dims[:-n], *(0,) * n)

    def batched(jaxpr: Jaxpr) -> Jaxpr:
        return batch_jaxpr(jaxpr, axis, ds, True)[0]

    outs = linear_solve(
        *values[:-n],
        *rhs,
        matvec=batched(matvec),
        fun=JaxprFun(batched(fun.jaxpr)),
        transpose_solve=None if transpose_solve is None else batched(transpose_solve),
        symmetric=symmetric,
        lanes=lanes + 1,
    )
    return outs, [0] * len(outs)


linear_solve = Primitive(
    name="linear_solve",
    impl=_impl,
    type=_type,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    mask="call",
    zeros=True,
    effects=_effects,
    lower=FUN,
    multiple=True,
    doc="Solve A x = b, where A is a jaxpr, by a solver that is a jaxpr too.",
)


def custom_linear_solve(
    matvec: Callable[[T], T],
    b: T,
    solve: Callable[[Callable[[T], T], T], Any],
    transpose_solve: Callable[[Callable[[T], T], T], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve `matvec(x) = b` with a solver of one's own, and differentiate the equation.

    Args:
        matvec: a linear function of `b`'s structure to the same structure. It may close over
            traced values: they get derivatives.
        b: float arrays, or containers of them.
        solve: `solve(matvec, b)` returns x. It is never differentiated; where it asks for plain
            values (SciPy, a Python loop) it runs on the host when the program runs.
        transpose_solve: `transpose_solve(vecmat, ct)` solves the transposed system, for reverse
            mode.
        symmetric: the map is its own transpose; `solve` is then the default `transpose_solve`.
        has_aux: both solvers return `(x, aux)`; aux has no derivative.

    Returns:
        x, or `(x, aux)`, with derivatives of any order in both modes.

    Raises:
        TreeError, ShapeError, DtypeError: a function returns another type than `b`'s.
        RuleError: reverse mode without `transpose_solve`.

    Example:
        >>> import numpy as np, ftrace
        >>> def f(d):  # the matrix diag(d)
        ...     solve = lambda matvec, b: b / d
        ...     b = np.ones(2)
        ...     return ftrace.lax.custom_linear_solve(lambda x: d * x, b, solve, solve).sum()
        >>> ftrace.grad(f)(np.array([1.0, 2.0]))
        array([-1.  , -0.25])
    """
    what = "custom_linear_solve"
    check_functions(what, matvec=matvec, solve=solve)
    space = Space(what, "b", b)
    if ctx.trace is EVAL:
        return space.own(space.checked("solve", solve(matvec, space.frozen()), has_aux))
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    functions = [None if f is None else lifted(f) for f in (matvec, solve, transpose_solve)]
    with quietly():
        parts = _staged(space, functions, symmetric, has_aux)
        jaxprs, captured = share_captures(parts)
        outs = linear_solve(
            *captured,
            *space.leaves,
            matvec=jaxprs[0],
            fun=JaxprFun(jaxprs[1]),
            transpose_solve=jaxprs[2] if len(jaxprs) > 2 else None,
            symmetric=symmetric,
            lanes=0,
        )
    return parts[1].out_tree.unflatten(outs)


def _staged(
    space: Space,
    functions: Sequence[Any],
    symmetric: bool,
    has_aux: bool,
) -> list[Staged]:
    """The map, its solver and, if there is one, the solver of its transpose."""
    matvec, solve, transpose_solve = functions

    def checked(x: Any) -> Any:
        return space.checked("matvec", matvec(x), False)

    operator = stage_function(checked, space.call, space.avals)
    forward = (JaxprFun(operator.jaxpr), operator.captured)
    parts = [operator, stage_solver(solve, "solve", forward, space, has_aux)]
    if transpose_solve is not None:
        transposed = operator.jaxpr if symmetric else _transposed(operator.jaxpr, len(space.avals))
        backward = (JaxprFun(transposed), operator.captured)
        parts.append(stage_solver(transpose_solve, "transpose_solve", backward, space, has_aux))
    return parts

"""`custom_root`: a root of f by the user's solver, differentiated by the implicit function theorem.

Where f(x, p) = 0, the tangent is the solution x' of (df/dx) x' = -(df/dp) p': f is differentiated
at the root and nothing looks at how the root was found. The call is a `custom_jvp` row whose rule
says just this, so that derivatives of any order, reverse mode, `vmap` and `jit` follow from it.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ftrace.control.functions import FlatFunction, stage_function
from ftrace.control.rules.custom_derivatives import custom_jvp_call
from ftrace.control.rules.solvers import Flat, Space, stage_solver
from ftrace.control.user_loops import check_functions
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import ConcretizationTypeError
from ftrace.core.jaxpr import JaxprFun
from ftrace.core.trace import EVAL, attempting, ctx, lifted
from ftrace.core.tree import PyTreeDef
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.linearize import linearize_flat, push
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.tangents import instantiate, zeros
from ftrace.primitives.arithmetic import neg

T = TypeVar("T")


def root_flat(
    functions: tuple[Flat, Flat, Flat],
    params: Sequence[Any],
    guess: Sequence[Any],
    n: int,
) -> list[Any]:
    """A root and its derivative with respect to `params`, all values flat.

    Args:
        functions: `fun(*params, *x)`, zero at the root; `solve(*params, *guess)`, which returns x
            and perhaps more; `tangent_solve(linear, *rhs)`, for a linear function of x.
        params: what the root depends on.
        guess: where the solver starts; the root does not depend on it.
        n: how many arrays x is.
    """
    fun, solve, tangent_solve = functions
    size = len(params)

    def rule(*flat: Any, active: tuple[bool, ...]) -> list[Any]:
        half = len(active)
        primals, given = flat[:half], iter(flat[half:])
        tangents = [next(given) if on else ZERO for on in active][:size]
        outs = root_flat(functions, primals[:size], primals[size:], n)
        x = outs[:n]
        live = [
            t if is_inexact(typeof(p).dtype) else ZERO
            for t, p in zip(tangents, primals, strict=False)
        ]
        if all(t is ZERO for t in live):
            return [*outs, *(zeros(typeof(y)) for y in outs)]
        values, rhs = jvp_flat(lambda *ps: fun(*ps, *x), primals[:size], live)
        _, tape = linearize_flat(lambda *xs: fun(*primals[:size], *xs), x, outlives=True)
        full = map(instantiate, rhs, values)
        ts = tangent_solve(lambda *v: push(tape, v, values), *full)
        return [*outs, *map(neg, ts), *(zeros(typeof(y)) for y in outs[n:])]

    return custom_jvp_call(*params, *guess, fun=solve, rule=rule, symbolic=True)


def custom_root(
    f: Callable[[T], T],
    initial_guess: T,
    solve: Callable[[Callable[[T], T], T], Any],
    tangent_solve: Callable[[Callable[[T], T], T], T],
    has_aux: bool = False,
) -> Any:
    """Find a root of `f` with a solver of one's own, and differentiate the equation `f(x) = 0`.

    Args:
        f: a function of x's structure to the same structure. It may close over traced values:
            the root's derivatives are with respect to these.
        initial_guess: float arrays, or containers of them; no derivative.
        solve: `solve(f, initial_guess)` returns a root. It is never differentiated; where it asks
            for plain values (SciPy, a Python loop) it runs on the host when the program runs.
        tangent_solve: `tangent_solve(g, y)` solves `g(x) = y` for a linear function g, by traceable
            operations linear in y: for scalars `lambda g, y: y / g(1.0)`, in general
            `custom_linear_solve`.
        has_aux: `solve` returns `(x, aux)`; aux has no derivative.

    Returns:
        x, or `(x, aux)`, with derivatives of any order in both modes.

    Raises:
        TreeError, ShapeError, DtypeError: a function returns another type than the guess's.

    Example:
        >>> import ftrace
        >>> def newton(f, x):
        ...     while abs(f(x)) > 1e-12:
        ...         x = x - f(x) / ftrace.grad(f)(x)
        ...     return x
        >>> def cube_root(a):
        ...     f = lambda x: x**3 - a
        ...     return ftrace.lax.custom_root(f, 1.0, newton, lambda g, y: y / g(1.0))
        >>> f"{ftrace.grad(cube_root)(8.0):.12f}"  # 1 / (3 x²) at x = 2
        '0.083333333333'
    """
    what = "custom_root"
    check_functions(what, f=f, solve=solve, tangent_solve=tangent_solve)
    space = Space(what, "initial_guess", initial_guess)
    if ctx.trace is EVAL:
        return space.own(space.checked("solve", solve(f, space.frozen()), has_aux))
    with quietly():
        return _staged_root(space, lifted(f), lifted(solve), lifted(tangent_solve), has_aux)


def _staged_root(space: Space, f: Any, solve: Any, tangent_solve: Any, has_aux: bool) -> Any:
    """A root where something is traced: what the functions close over become operands."""

    def checked(x: Any) -> Any:
        return space.checked("f", f(x), False)

    def tangents(linear: Flat, *rhs: Any) -> list[Any]:
        found = tangent_solve(
            space.function(linear, "the argument of g"), space.tree.unflatten(rhs)
        )
        return space.flat("tangent_solve", found)

    fun, captured = closed(checked, space.call, space.avals)
    solver = stage_solver(solve, "solve", (fun, captured), space, has_aux)
    k, n = len(captured), len(space.avals)
    params = [*captured, *solver.captured]
    size = len(params)
    solution = JaxprFun(solver.jaxpr)
    outs = root_flat(
        (
            lambda *flat: fun(*flat[:k], *flat[size:]),
            lambda *flat: solution(*flat[k:]),
            tangents,
        ),
        params,
        space.leaves,
        n,
    )
    return solver.out_tree.unflatten(outs)


def closed(
    fun: Callable[..., Any], tree: PyTreeDef, avals: Sequence[ShapedArray]
) -> tuple[Flat, list[Any]]:
    """A function of (what it captured, flat arguments), and what it captured.

    One that needs plain values (a Python loop) stays as it is, and can then not capture tracers.
    """
    if ctx.trace is not EVAL:
        try:
            with attempting():
                staged = stage_function(fun, tree, avals)
        except ConcretizationTypeError:
            pass
        else:
            return JaxprFun(staged.jaxpr), staged.captured
    return FlatFunction(fun, tree), []

"""`solve_ivp`, `odeint` and `quad`, with SciPy's signatures: SciPy solves, systems differentiate.

On plain values each is SciPy's own function. Where something is traced, the user's function is
traced once and becomes a `System` (`sweeps.py`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.api.calls import check_callable, name_of
from ftrace.control.functions import flatten_call
from ftrace.control.traces import Traces
from ftrace.core import trace as core
from ftrace.core.arguments import shown
from ftrace.core.avals import aval, typeof
from ftrace.core.dtypes import float64
from ftrace.core.errors import DtypeError, RuleError, ShapeError
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.lazy import lazy
from ftrace.core.trace import EVAL, UNKNOWN, Tracer, ctx, lifted
from ftrace.implicit.answer import Answer
from ftrace.implicit.solving import floats
from ftrace.implicit.sweeping import Odepack, Quadrature, Stepper, run
from ftrace.implicit.sweeps import Sweep, System, solve_flat

_solve_ivp = lazy("scipy.integrate", "solve_ivp")
_odeint = lazy("scipy.integrate", "odeint")
_quad = lazy("scipy.integrate", "quad")
_STEPPED: Final = ("max_step", "first_step", "min_step")
_DONE: Final = "The solver successfully reached the end of the integration interval."


def solve_ivp(  # noqa: PLR0913 - SciPy's signature
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    **options: Any,
) -> Any:
    """Solve dy/dt = fun(t, y, *args) from y0, as `scipy.integrate.solve_ivp`.

    Derivatives with respect to y0, args and traced values that `fun` closes over are those of the
    exact solution, to the tolerances given: forward mode solves the sensitivity equation, reverse
    mode the adjoint equation, backwards along the dense solution, whatever the number of
    parameters. Both use the steps' own error control; their atol is made to fit their size. Times
    have no derivative. Where `fun` jumps (a branch), the derivative is that between jumps: what
    moving the moment of a jump adds is not in it, as for any function with jumps.

    Args:
        fun: a function of t and y, of shape (n,), to n values.
        t_span: two times, from and to.
        y0: shape (n,), float64: the values at the first time.
        method: SciPy's; the exact Jacobian goes to implicit ones.
        t_eval: the times of the result. Without it the result has the times of the solver's steps,
            which are known only outside of `jit` and `vmap`.
        dense_output, events: on plain values only.
        vectorized: has no effect where something is traced.
        args: a tuple of further arguments, containers allowed.
        **options: SciPy's: `rtol`, `atol`, `max_step`, `first_step`, `min_step`; `jac`, `lband` and
            `uband` on plain values.

    Returns:
        SciPy's result, on plain values. Else an object with `t`, `y` of shape (n, len(t)),
        `success`, `status` and `message`.

    Raises:
        SolverError: SciPy could not solve it (its message is quoted).
        ShapeError: y0 is no vector, or `fun` does not return n values.
        RuleError: events, a dense output, or the derivative by times, of traced values.

    Example:
        >>> import numpy as np, ftrace
        >>> def end(k):
        ...     sol = ftrace.implicit.solve_ivp(
        ...         lambda t, y: -k * y, (0.0, 2.0), [3.0], t_eval=[2.0], rtol=1e-8, atol=1e-8
        ...     )
        ...     return sol.y[0, 0]
        >>> round(float(ftrace.grad(end)(0.5)), 6), round(-6.0 * float(np.exp(-1.0)), 6)
        (-2.207277, -2.207277)
    """
    what = "solve_ivp"
    check_callable(fun, what)

    def plainly() -> Any:
        return _solve_ivp(
            fun, t_span, y0, method=method, t_eval=t_eval, dense_output=dense_output,
            events=events, vectorized=vectorized, args=args, **options,
        )  # fmt: skip

    if ctx.trace is EVAL:
        return plainly()
    given = () if args is None else args
    if not isinstance(given, tuple | list):
        raise DtypeError(
            f"solve_ivp: args is a {type(args).__name__}.", "Pass a tuple: args=(value,)."
        )
    start = _state(what, y0)
    problem = _Problem(fun, what, (0.0, start), tuple(given), lambda t, y: (t, y))
    start_stop = list(t_span)
    if not problem.is_traced([*start_stop, y0, t_eval]):
        return run_plainly(plainly)
    _refuse(what, events=events, dense_output=dense_output)
    stepping = {k: options[k] for k in _STEPPED if k in options}
    stepper = Stepper(what, method, options.get("rtol", 1e-3), options.get("atol", 1e-6), stepping)
    if t_eval is None:
        t_eval = problem.steps(stepper, start_stop, start)
    times = _times(what, t_eval)
    ends = [_times(what, t).reshape(1) for t in start_stop]
    nodes = fnp.concatenate([ends[0], times, ends[1]])
    (values,) = solve_flat(problem.system(stepper), [nodes], [start], problem.params)
    return Answer(
        what, t=times, y=values[1:-1].T, sol=None, t_events=None, y_events=None, status=0,
        message=_DONE, success=True,
    )  # fmt: skip


def _check_real(what: str, **options: Any) -> None:
    """Raise `DtypeError` for options that are neither real numbers, nor arrays of them, nor None.

    SciPy's compiled solvers find that out in the middle, or not at all.
    """
    for name, given in options.items():
        if given is not None and typeof(given).dtype.kind not in "biuf":
            raise DtypeError(f"{what} was given {name}={shown(given)}.", "Pass real numbers.")


def odeint(  # noqa: PLR0913 - SciPy's signature
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    Dfun: Any = None,
    col_deriv: bool = False,
    full_output: bool = False,
    ml: int | None = None,
    mu: int | None = None,
    rtol: float | None = None,
    atol: Any = None,
    tcrit: Any = None,
    h0: float = 0.0,
    hmax: float = 0.0,
    hmin: float = 0.0,
    tfirst: bool = False,
    **options: Any,
) -> Any:
    """Solve dy/dt = func(y, t, *args) from y0 at t[0], as `scipy.integrate.odeint`.

    Derivatives are those of `solve_ivp`, by its method "LSODA".

    Args:
        func: a function of y, of shape (n,), and t, to n values; of t and y where `tfirst`.
        y0: shape (n,), the values at t[0].
        t: the times of the result, in order.
        args: a tuple of further arguments, containers allowed.
        rtol, atol, h0, hmax, hmin: SciPy's, for derivatives too.
        Dfun, col_deriv, ml, mu, tcrit: SciPy's, for the solution only.
        full_output: on plain values only.
        tfirst: whether `func` takes the time first.
        **options: SciPy's others, for the solution only.

    Returns:
        y, of shape (len(t), n).

    Raises:
        SolverError, ShapeError, RuleError: as `solve_ivp`.

    Example:
        >>> import numpy as np, ftrace
        >>> def end(k):
        ...     y = ftrace.implicit.odeint(lambda y, t: -k * y, 3.0, np.array([0.0, 2.0]))
        ...     return y[-1, 0]
        >>> round(float(ftrace.grad(end)(0.5)), 5), round(-6.0 * float(np.exp(-1.0)), 5)
        (-2.20728, -2.20728)
    """
    what = "odeint"
    check_callable(func, what)
    if Dfun is not None and not callable(Dfun):
        raise DtypeError(f"odeint was given Dfun={shown(Dfun)}.", "Pass a function, or None.")
    _check_real(what, rtol=rtol, atol=atol, h0=h0, hmax=hmax, hmin=hmin)
    shared = {"rtol": rtol, "atol": atol, "tcrit": tcrit, "h0": h0, "hmax": hmax, "hmin": hmin}

    def plainly() -> Any:
        more = {"Dfun": Dfun, "col_deriv": col_deriv, "ml": ml, "mu": mu, "tfirst": tfirst}
        return _odeint(func, y0, t, args, full_output=full_output, **more, **shared, **options)

    if ctx.trace is EVAL:
        return plainly()
    start = _state(what, fnp.atleast_1d(fnp.asarray(y0)))
    order: Any = (lambda t, y: (t, y)) if tfirst else (lambda t, y: (y, t))
    given = args if isinstance(args, tuple) else (args,)
    problem = _Problem(func, what, (0.0, start), given, order)
    if not problem.is_traced([y0, t]):
        return run_plainly(plainly)
    _refuse(what, full_output=full_output)
    stepping = {"max_step": hmax or np.inf, "first_step": h0 or None, "min_step": hmin}
    tolerance = 1.49012e-8
    stepper = Odepack(
        what,
        "LSODA",
        tolerance if rtol is None else rtol,
        tolerance if atol is None else atol,
        stepping,
        {**shared, **options},
    )
    nodes = _times(what, t)
    return solve_flat(problem.system(stepper), [nodes], [start], problem.params)[0]


def quad(  # noqa: PLR0913 - SciPy's signature
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Any = None,
    **options: Any,
) -> Any:
    """Integrate func(x, *args) from a to b, as `scipy.integrate.quad`.

    Derivatives with respect to args and traced values that `func` closes over are integrals of its
    derivatives, by `quad` where there is one and by `quad_vec` where there are several; those with
    respect to finite limits are its values there. Moving a jump of `func` adds nothing to them.

    Args:
        func: a function of a scalar to a scalar.
        a, b: the limits; they may be infinite.
        args: a tuple of further arguments, containers allowed.
        full_output: on plain values only.
        epsabs, epsrel, limit, points: SciPy's, for derivatives too.
        **options: SciPy's weights and others, on plain values only.

    Returns:
        The integral and an estimate of its error, which has no derivative.

    Raises:
        ShapeError: `func` does not return a scalar.
        RuleError: full output or weights, of traced values.

    Example:
        >>> import numpy as np, ftrace
        >>> area = lambda s: ftrace.implicit.quad(lambda x: np.exp(-s * x * x), 0.0, np.inf)[0]
        >>> round(float(ftrace.grad(area)(1.0)), 9), round(-(np.pi**0.5) / 4, 9)
        (-0.443113463, -0.443113463)
    """
    what = "quad"
    check_callable(func, what)
    accuracy: dict[str, Any] = {
        "epsabs": epsabs,
        "epsrel": epsrel,
        "limit": limit,
        "points": points,
    }

    def plainly() -> Any:
        return _quad(func, a, b, args, full_output=full_output, **accuracy, **options)

    if ctx.trace is EVAL:
        return plainly()
    given = args if isinstance(args, tuple) else (args,)
    problem = _Problem(func, what, (0.0,), given, lambda x: (x,))
    if not problem.is_traced([a, b]):
        return run_plainly(plainly)
    _refuse(what, full_output=full_output, **options)
    limits = [floats(what, name, x) for name, x in (("a", a), ("b", b))]
    return tuple(solve_flat(problem.system(Quadrature(**accuracy)), limits, [], problem.params))


# ---------------------------------------------------------------------------------- pieces


def run_plainly(fn: Callable[[], Any]) -> Any:
    """What a function gives where nothing is traced, inside a trace of something else."""
    return core.run(EVAL, fn)


class _Problem:
    """A user's function, traced, and what it depends on.

    Args:
        fun: the function.
        what: whose argument it is.
        leading: values like those of its leading arguments: the time, perhaps a state.
        args: its further arguments.
        order: puts the leading arguments in the function's own order.
    """

    __slots__ = ("_rate", "params")

    def __init__(
        self,
        fun: Callable[..., Any],
        what: str,
        leading: tuple[Any, ...],
        args: tuple[Any, ...],
        order: Callable[..., tuple[Any, ...]],
    ) -> None:
        n = len(leading)
        wanted: tuple[int, ...] = typeof(leading[1]).shape if n == 2 else ()

        def rate(*xs: Any) -> Any:
            value = fnp.asarray(lifted(fun)(*order(*xs[:n]), *xs[n:]))
            if value.shape != wanted and not (wanted == (1,) and value.size == 1):
                raise ShapeError(
                    f"{what}: {name_of(fun)} returns shape {value.shape}, and shape {wanted} is "
                    "wanted.",
                    "Return as many values as y has." if n == 2 else "Return a scalar.",
                )
            if value.dtype.kind not in "biuf":
                raise DtypeError(
                    f"{what}: {name_of(fun)} returns {value.dtype}, where something is traced.",
                    "Write complex values as their real and imaginary parts.",
                )
            return value.reshape(wanted).astype(np.float64)

        traces = Traces(fun, ("implicit", what, n, wanted))
        leaves, trace = traces.find(rate, (np.float64(0.0), *leading[1:], *args), {})
        self._rate = _rate_of(trace.jaxpr, len(trace.captured), n)
        self.params = [*trace.captured, *leaves[n:]]

    def is_traced(self, others: Sequence[Any]) -> bool:
        """Whether what it depends on, or something else, is traced."""
        return any(isinstance(x, Tracer) for x in (*self.params, *flatten_call((others,))[0]))

    def system(self, solver: Any) -> System:
        """The function as a system of one sweep, or as an integral."""
        key = "system", solver.key
        kept = self._rate.cache
        if key not in kept:
            params = tuple(typeof(x) for x in self.params)
            if isinstance(solver, Quadrature):
                error = (aval((), float64),)
                kept[key] = System((), params, self._rate, solver, True, error)
            else:
                kept[key] = System((Sweep(self._rate),), params, None, solver)
        return kept[key]

    def steps(self, stepper: Stepper, span: list[Any], start: Any) -> Any:
        """The times of a solver's steps, where it can be asked."""
        values = [
            x.known(exact=False) if isinstance(x, Tracer) else x
            for x in (*span, start, *self.params)
        ]
        if any(x is UNKNOWN for x in values):
            raise RuleError(
                f"{stepper.name} chooses its times by values, which have none while the function "
                "is traced.",
                "Say at which times the solution is wanted: t_eval=.",
            )
        t0, t1, y0, *params = values

        def plainly() -> Any:
            def rate(t: float, y: Any) -> Any:
                return run(self._rate, [np.float64(t), y, *params])[0]

            return stepper.plainly(rate, (float(t0), float(t1)), np.asarray(y0))

        return run_plainly(plainly)


def _rate_of(jaxpr: Jaxpr, captured: int, leading: int) -> Jaxpr:
    """A traced function whose leading arguments come first, then what it captured, then others."""
    found = jaxpr.cache.get("rate")
    if found is None:
        own = jaxpr.invars
        cut = captured + leading
        order = [*own[captured:cut], *own[:captured], *own[cut:]]
        found = jaxpr.cache["rate"] = Jaxpr(order, jaxpr.eqns, jaxpr.outvars)
    return found


def _state(what: str, y0: Any) -> Any:
    y0 = floats(what, "y0", y0)
    if y0.ndim != 1:
        raise ShapeError(
            f"{what}: y0 has shape {y0.shape}, and the state is a vector.",
            "Flatten it; ftrace.flatten_util.ravel_pytree does so for containers, and back.",
        )
    return y0


def _times(what: str, t: Any) -> Any:
    return floats(what, "a time", t)


def _refuse(what: str, **options: Any) -> None:
    """Raise `RuleError` for an option that traced values cannot have."""
    for name, value in options.items():
        if value:
            raise RuleError(
                f"{what} takes no {name}= where something is traced.",
                "Ask for values at given times (t_eval=), or call it with plain values."
                if what == "solve_ivp"
                else "Leave it out, or call it with plain values.",
            )

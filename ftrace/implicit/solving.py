"""The implicit function theorem, once: x with F(x, *args) = 0, found on the host.

SciPy's optimisers share this shape: a user's function of x and `args`, which may capture traced
values; a solver of plain arrays; a condition that holds at the solution. Everything about
derivatives is `control/rules/root.py`; here the tangent systems are solved densely.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.api.vmap import vmap
from ftrace.control.functions import argument_avals, flatten_call
from ftrace.control.rules.host_calls import solver_call
from ftrace.control.rules.root import closed, root_flat
from ftrace.control.traces import Traces
from ftrace.core.avals import typeof
from ftrace.core.device import free
from ftrace.core.errors import ConcretizationTypeError, DtypeError
from ftrace.core.jaxpr import JaxprFun
from ftrace.core.trace import attempting
from ftrace.implicit.linear_systems import solve
from ftrace.implicit.sweeping import run
from ftrace.interpreters.quiet import quietly


class Equation:
    """A user's function of `(x, *args)` as one of `(params, x)`.

    Args:
        fun: the function, as the solver wants it.
        user: the same as the user wrote it: what is traced of it is kept as long as it lives.
        x, args: its arguments.

    Attributes:
        params: what it depends on: the traced values it captured, then the leaves of args.
    """

    __slots__ = ("_fun", "_key", "_n_captured", "_user", "params")

    def __init__(
        self, fun: Callable[..., Any], user: Callable[..., Any], x: Any, args: Any
    ) -> None:
        given = args if isinstance(args, tuple) else (args,)
        leaves, tree = flatten_call((x, *given))
        avals = argument_avals(fun, leaves, tree)
        self._fun, captured = closed(fun, tree, avals)
        self._user = None if isinstance(self._fun, JaxprFun) else user
        self._key = tree
        self._n_captured = len(captured)
        self.params = [*captured, *leaves[1:]]

    def __call__(self, params: Sequence[Any], x: Any) -> Any:
        """The function's value, given what it depends on."""
        k = self._n_captured
        return self._fun(*params[:k], x, *params[k:])[0]

    def derivative(self, of: Callable[..., Callable[[Any], Any]]) -> Callable[..., Any]:
        """`of(function of x)(x)` as a function of `(params, x)`, traced once and not at each x.

        A function that needs plain values (a Python loop) is differentiated at each x.
        """

        def plain(*values: Any) -> Any:
            return of(lambda x: self(values[:-1], x))(values[-1])

        traces = Traces(self._user or plain, ("implicit", of.__name__, self._key))
        eager = False

        def derivative(params: Sequence[Any], x: Any) -> Any:
            nonlocal eager
            if not eager:
                try:
                    with attempting():
                        leaves, trace = traces.find(plain, (*params, x), {})
                    return trace.out_tree.unflatten(run(trace.jaxpr, [*trace.captured, *leaves]))
                except ConcretizationTypeError:
                    eager = True
            return plain(*params, x)

        return derivative


def floats(what: str, name: str, x: Any) -> Any:
    """A starting value as float64, the dtype in which SciPy solves."""
    x = fnp.asarray(x)
    if x.dtype.kind not in "biuf":
        raise DtypeError(
            f"{what}: {name} is {typeof(x)}, and the unknown is real.",
            "Write a complex unknown as its real and imaginary parts.",
        )
    return x.astype(np.float64)


def solution(
    condition: Callable[[Sequence[Any], Any], Any],
    solver: Callable[..., Any],
    params: Sequence[Any],
    *guess: Any,
) -> Any:
    """x, of the type of the first guess, with `condition(params, x) == 0`.

    Args:
        condition: traceable wherever a derivative is asked for.
        solver: `solver(params, *guess)`, on plain arrays.
        params: what the solution depends on.
        *guess: where the solver starts; no derivative.
    """
    k = len(params)
    wanted = (typeof(guess[0]),)

    def plain(*flat: Any) -> list[Any]:
        return [solver(flat[:k], *flat[k:])]

    functions = (
        lambda *flat: [condition(flat[:k], flat[k])],
        lambda *flat: solver_call(*flat, fun=plain, out_avals=wanted),
        _dense_solve,
    )
    with quietly():
        return root_flat(functions, params, guess, 1)[0]


def _dense_solve(linear: Callable[..., Sequence[Any]], rhs: Any) -> list[Any]:
    """The solution of `linear(x) = rhs`, by the matrix of the map."""
    shape = typeof(rhs).shape
    n = typeof(rhs).size
    rows = vmap(lambda v: linear(v.reshape(shape))[0].reshape(n))(free(np.eye(n)))
    return [solve(rows.T, rhs.reshape(n)).reshape(shape)]

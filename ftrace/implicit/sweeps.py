"""Differential equations and integrals whose derivatives are equations of the same kind.

A `System` is a list of *sweeps*: unknown functions of time, each solved along the nodes or against
them, its rate a jaxpr of the time, of the sweeps before it and itself, and of parameters. A sweep
takes increments in, at its first node or at every node, and gives values out, at every node or at
its last; what is integrated over time may depend on all sweeps. The tangent of a system has the
tangents of its sweeps behind them; the transpose of that map has their adjoints, in reverse order
and direction, with what was out as increments: rates are the partial derivatives of the Hamiltonian
`sum_k <adjoint_k, rate_k> + <cotangent, integrand>`, and those by parameters are integrated. So
derivatives of any order in both modes are systems again, and a solver of systems is all there is to
write (`sweeping.py`, `integrate.py`). Sweeps before keep their steps: an adjoint reads the dense
solution of its equation, which is never integrated backwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ftrace.numpy as fnp
from ftrace.api.derivatives.autodiff import grad, jvp
from ftrace.control.rules.custom_derivatives import custom_jvp_call
from ftrace.control.rules.host_calls import solver_call
from ftrace.control.rules.linear_call import linear_call
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import float64, is_inexact
from ftrace.core.errors import RuleError
from ftrace.core.jaxpr import Jaxpr, JaxprFun
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import zeros

TIME: Final = aval((), float64)
Solver = Callable[["System", Sequence[Any], Sequence[Any], Sequence[Any]], list[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """An unknown function of time.

    Attributes:
        rate: its change per time passed, of (time, sweeps before, itself, parameters).
        along: whether it is solved from the first node to the last.
        at_every: whether increments come in at every node, or at its first one only.
        to_every: whether values go out at every node, or at its last one only.
        linear: whether it is a derivative of another one.
    """

    rate: Jaxpr
    along: bool = True
    at_every: bool = False
    to_every: bool = True
    linear: bool = False

    @property
    def state(self) -> ShapedArray:
        """The type of one value."""
        return self.rate.out_avals[0]

    def flow(self, n: int, every: bool) -> ShapedArray:
        """The type of what goes in or out at one or at `n` nodes."""
        a = self.state
        return aval((n, *a.shape), a.dtype) if every else a


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """Sweeps, and what is integrated from the first node to the last.

    Attributes:
        sweeps: in the order in which they are solved.
        params: types of the parameters.
        integrand: of (time, all sweeps, parameters); None: nothing.
        solver: gives `[*outs, *integrals, *extra]` of `(system, nodes, increments, params)`, all
            plain arrays.
        limits: whether the nodes are two scalars, the limits of an integral without sweeps.
        extra: types of further results, without derivatives.
    """

    sweeps: tuple[Sweep, ...]
    params: tuple[ShapedArray, ...]
    integrand: Jaxpr | None
    solver: Solver
    limits: bool = False
    extra: tuple[ShapedArray, ...] = ()
    derived: dict[Any, "System"] = field(default_factory=dict)

    @property
    def states(self) -> list[ShapedArray]:
        """The types of the sweeps' values."""
        return [s.state for s in self.sweeps]

    @property
    def integrals(self) -> list[ShapedArray]:
        """The types of what is integrated."""
        return [] if self.integrand is None else list(self.integrand.out_avals)

    def outs(self, n: int) -> tuple[ShapedArray, ...]:
        """The types of results that have derivatives, for n nodes."""
        return (*(s.flow(n, s.to_every) for s in self.sweeps), *self.integrals)

    def tangent(self, live: tuple[bool, ...]) -> "System":
        """The system whose last results are the tangents of this one's."""
        key = "tangent", live
        if key not in self.derived:
            self.derived[key] = _tangent(self, live)
        return self.derived[key]

    def adjoint(self, live: tuple[bool, ...]) -> "System":
        """The system whose last results are cotangents of increments, last first, and of params."""
        key = "adjoint", live
        if key not in self.derived:
            self.derived[key] = _adjoint(self, live)
        return self.derived[key]


def _tangent(system: System, live: tuple[bool, ...]) -> System:
    k, sweeps = len(system.sweeps), system.sweeps
    moved = [a for a, on in zip(system.params, live, strict=True) if on]
    params = (*system.params, *moved)

    def pushed(jaxpr: Jaxpr, n: int, t: Any, zs: Any, given: Any) -> Any:
        """The tangent of a function of the first n sweeps; `zs`: sweeps, then their tangents."""
        p, dots = given[: len(live)], iter(given[len(live) :])
        on = [i for i, there in enumerate(live) if there]

        def fun(zs: Any, some: Any) -> list[Any]:
            known = dict(zip(on, some, strict=True))
            return JaxprFun(jaxpr)(t, *zs, *(known.get(i, x) for i, x in enumerate(p)))

        return jvp(fun, (zs[:n], [p[i] for i in on]), (zs[k : k + n], list(dots)))[1]

    def staged(jaxpr: Jaxpr, n: int) -> Jaxpr:
        states = [*system.states, *system.states[:n]]

        def fun(t: Any, *xs: Any) -> list[Any]:
            return pushed(jaxpr, n, t, list(xs[: k + n]), xs[k + n :])

        return trace_closed(fun, [TIME, *states, *params])

    return System(
        (
            *(_with_params(s, system.states[: i + 1], moved) for i, s in enumerate(sweeps)),
            *(
                Sweep(staged(s.rate, i + 1), s.along, s.at_every, s.to_every, True)
                for i, s in enumerate(sweeps)
            ),
        ),
        params,
        None if system.integrand is None else staged(system.integrand, k),
        system.solver,
        system.limits,
    )


def _adjoint(system: System, live: tuple[bool, ...]) -> System:
    k, sweeps = len(system.sweeps), system.sweeps
    n = len(live)
    params = (*system.params, *system.integrals)

    def hamiltonian(first: int, t: Any, zs: Any, adjoints: Any, given: Any) -> Any:
        """Of the sweeps from number `first` on; `adjoints` start with the last sweep's."""
        total: Any = 0.0
        for j in range(first, k):
            (rate,) = JaxprFun(sweeps[j].rate)(t, *zs[: j + 1], *given[:n])
            total = total + fnp.sum(adjoints[k - 1 - j] * rate)
        if system.integrand is not None:
            values = JaxprFun(system.integrand)(t, *zs, *given[:n])
            for ct, y in zip(given[n:], values, strict=True):
                total = total + fnp.sum(ct * y)
        return total

    def rate(i: int) -> Jaxpr:
        def fun(t: Any, *xs: Any) -> list[Any]:
            zs, adjoints, given = list(xs[:k]), xs[k : 2 * k - i], xs[2 * k - i :]

            def of(z: Any) -> Any:
                return hamiltonian(i, t, [*zs[:i], z, *zs[i + 1 :]], adjoints, given)

            return [grad(of)(zs[i])]

        return trace_closed(fun, [TIME, *system.states, *system.states[i:][::-1], *params])

    def by_params(t: Any, *xs: Any) -> list[Any]:
        zs, adjoints, given = xs[:k], xs[k : 2 * k], list(xs[2 * k :])
        on = [i for i, there in enumerate(live) if there]

        def of(some: Any) -> Any:
            known = dict(zip(on, some, strict=True))
            all_given = [known.get(i, x) for i, x in enumerate(given)]
            return hamiltonian(0, t, zs, adjoints, all_given)

        return grad(of)([given[i] for i in on])

    adjoints = [
        Sweep(rate(i), not s.along, s.to_every, s.at_every, True) for i, s in enumerate(sweeps)
    ]
    avals = [TIME, *system.states, *system.states[::-1], *params]
    return System(
        (
            *(
                _with_params(s, system.states[: i + 1], system.integrals)
                for i, s in enumerate(sweeps)
            ),
            *adjoints[::-1],
        ),
        params,
        trace_closed(by_params, avals) if any(live) else None,
        system.solver,
        system.limits,
    )


def _with_params(sweep: Sweep, states: Sequence[Any], more: Sequence[ShapedArray]) -> Sweep:
    """The same sweep where there are more parameters, which it does not read."""
    if not more:
        return sweep
    own = sweep.rate.in_avals
    last = len(own)

    def fun(*xs: Any) -> list[Any]:
        return JaxprFun(sweep.rate)(*xs[:last])

    rate = trace_closed(fun, [*own, *more])
    return Sweep(rate, sweep.along, sweep.at_every, sweep.to_every, sweep.linear)


# ---------------------------------------------------------------------------------- derivatives


def solve_flat(
    system: System, nodes: Sequence[Any], increments: Sequence[Any], params: Sequence[Any]
) -> list[Any]:
    """What goes out of the sweeps, the integrals, and extra results.

    Args:
        system: what to solve.
        nodes: one vector of times in order, or two limits.
        increments: what goes into each sweep.
        params: the parameters.
    """
    many = 0 if system.limits else typeof(nodes[0]).shape[0]
    wanted = (*system.outs(many), *system.extra)
    m, k = len(nodes), len(increments)

    def plain(*flat: Any) -> list[Any]:
        return system.solver(system, flat[:m], flat[m : m + k], flat[m + k :])

    def rule(*flat: Any, active: tuple[bool, ...]) -> list[Any]:
        primals, given = flat[: len(active)], iter(flat[len(active) :])
        tangents = [next(given) if on else None for on in active]
        outs = solve_flat(system, primals[:m], primals[m : m + k], primals[m + k :])
        live = tuple(
            on and is_inexact(a.dtype) for on, a in zip(active[m + k :], system.params, strict=True)
        )
        response = Response(system, live, m, system.outs(many))
        moved = [
            zeros(typeof(x)) if t is None else t
            for t, x in zip(tangents[m : m + k], primals[m : m + k], strict=True)
        ]
        moved += [t for t, on in zip(tangents[m + k :], live, strict=True) if on]
        found: list[Any] = (
            list(linear_call(*primals, *moved, n=len(primals), linear=response))
            if moved
            else [zeros(a) for a in response.outs]
        )
        if any(active[:m]):
            found = _at_limits(system, primals[:m], tangents[:m], primals[m + k :], found)
        return [*outs, *found, *map(zeros, system.extra)]

    with quietly():
        return custom_jvp_call(
            *nodes,
            *increments,
            *params,
            fun=lambda *flat: solver_call(*flat, fun=plain, out_avals=wanted),
            rule=rule,
            symbolic=True,
        )


def _at_limits(system: System, limits: Any, tangents: Any, params: Any, found: Any) -> list[Any]:
    """Tangents of integrals with what moving the limits adds."""
    if not system.limits or system.integrand is None:
        raise RuleError(
            "solve_ivp and odeint have no derivative with respect to times.",
            "Solve for a scaled time: with u = t / T, dy/du = T * f(u * T, y), T among the args, "
            "and t_eval / T is constant.",
        )
    for x, t, sign in zip(limits, tangents, (-1.0, 1.0), strict=True):
        if t is not None:
            values = JaxprFun(system.integrand)(x, *params)
            found = [y + sign * (v * t) for y, v in zip(found, values, strict=True)]
    return found


class Response:
    """The derivative of a system's results by increments and live parameters: a linear map.

    Residuals are the system's operands.
    """

    __slots__ = ("_k", "_live", "_m", "_system", "outs")

    def __init__(
        self, system: System, live: tuple[bool, ...], m: int, outs: tuple[ShapedArray, ...]
    ) -> None:
        self._system, self._live, self._m = system, live, m
        self._k = len(system.sweeps)
        self.outs = outs

    def _operands(self, residuals: Sequence[Any]) -> tuple[Any, Any, Any]:
        m, k = self._m, self._k
        return residuals[:m], residuals[m : m + k], residuals[m + k :]

    def push(self, residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Tangents of results."""
        nodes, increments, params = self._operands(residuals)
        k = self._k
        outs = solve_flat(
            self._system.tangent(self._live),
            nodes,
            [*increments, *tangents[:k]],
            [*params, *tangents[k:]],
        )
        return outs[k:]

    def pull(
        self, residuals: Sequence[Any], cts: Sequence[Any], wanted: Sequence[bool]
    ) -> list[Any]:
        """Cotangents of increments and parameters."""
        nodes, increments, params = self._operands(residuals)
        k = self._k
        outs = solve_flat(
            self._system.adjoint(self._live),
            nodes,
            [*increments, *cts[:k][::-1]],
            [*params, *cts[k:]],
        )
        found = [*outs[k : 2 * k][::-1], *outs[2 * k :]]
        return [y if w else None for y, w in zip(found, wanted, strict=True)]

"""Solving a `System` on the host by `scipy.integrate.solve_ivp`, sweep by sweep.

Each sweep keeps SciPy's dense solution, which later ones read. It restarts where something jumps:
at nodes with increments of its own, and where a sweep before it restarted. What is integrated over
time is a Gauss rule between the steps of all sweeps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ftrace.api.derivatives.jacobians import jacfwd
from ftrace.control.rows.jit import Turns
from ftrace.core.errors import DomainError, SolverError
from ftrace.core.jaxpr import Jaxpr, JaxprFun
from ftrace.core.lazy import lazy
from ftrace.implicit.sweeps import Sweep, System
from ftrace.interpreters.staging import trace_closed

_solve_ivp = lazy("scipy.integrate", "solve_ivp")
_odeint = lazy("scipy.integrate", "odeint")
_quad = lazy("scipy.integrate", "quad")
_quad_vec = lazy("scipy.integrate", "quad_vec")
_IMPLICIT: Final = frozenset({"Radau", "BDF", "LSODA"})
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_AGAIN: Final = 4  # times that a linear sweep is solved, to find how large it becomes
_ADVICE: Final = (
    "Loosen rtol and atol, try another method ('LSODA' or 'Radau' for stiff equations), or solve "
    "for a shorter time."
)
Interpolant = Callable[[Any], Any]


def run(jaxpr: Jaxpr, values: list[Any]) -> list[Any]:
    """A jaxpr that may well run often: compiled, if it does."""
    found = jaxpr.cache.get("turns")
    if found is None:
        found = jaxpr.cache["turns"] = Turns(jaxpr)
    return found(values)


@dataclass(slots=True)
class _Solved:
    """A sweep's solution.

    Attributes:
        outs: values at all nodes.
        between: by the number of the earlier node: the solution from there to the next.
        breaks: the nodes where it restarted.
        steps: times between which it is smooth.
        size: its largest value.
    """

    outs: Any
    between: list[Interpolant]
    breaks: set[int]
    steps: list[Any] = field(default_factory=list)
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class Stepper:
    """A solver of systems by `solve_ivp`.

    Attributes:
        name: of the public function, for messages.
        method, rtol, atol: SciPy's.
        options: SciPy's others: `max_step`, `first_step`, ...
    """

    name: str
    method: Any
    rtol: float
    atol: Any
    options: dict[str, Any]

    @property
    def key(self) -> Any:
        """What tells it from others."""
        atol = np.asarray(self.atol)
        return type(self), self.name, self.method, self.rtol, atol.tobytes(), repr(self.options)

    def plainly(self, rate: Callable[..., Any], span: tuple[float, float], y0: Any) -> Any:
        """The times of the steps from y0."""
        sol = _solve_ivp(
            rate, span, y0, method=self.method, rtol=self.rtol, atol=self.atol, **self.options
        )
        if not sol.success:
            raise failed(self.name, sol.message, False)
        return sol.t

    def __call__(
        self, system: System, nodes: Sequence[Any], increments: Sequence[Any], params: Sequence[Any]
    ) -> list[Any]:
        """What goes out of the sweeps, then the integrals."""
        (times,) = nodes
        self._check(times)
        solved: list[_Solved] = []
        for sweep, increment in zip(system.sweeps, increments, strict=True):
            jumps = _jumps(sweep, increment, len(times))
            solved.append(self._sized(sweep, times, jumps, solved, params))
        outs = [
            s.outs if sweep.to_every else s.outs[-1 if sweep.along else 0]
            for s, sweep in zip(solved, system.sweeps, strict=True)
        ]
        if system.integrand is None:
            return outs
        return [*outs, *_integrals(system.integrand, times, solved, params)]

    def _check(self, times: Any) -> None:
        along = np.diff(times)
        if not (np.all(along >= 0) or np.all(along <= 0)):
            raise DomainError(
                f"{self.name}: the times are not in order, or not within the time span.",
                "Sort t_eval in the direction of t_span, and stay inside it.",
            )

    def _sized(
        self, sweep: Sweep, times: Any, jumps: Any, before: list[_Solved], params: Any
    ) -> _Solved:
        """One sweep; a linear one with an `atol` that suits its size, which nobody chose."""
        if not sweep.linear:
            return self._swept(sweep, times, jumps, before, params, self.atol)
        atol = float(np.min(self.atol))
        found = self._swept(sweep, times, jumps, before, params, atol)
        for _ in range(_AGAIN):
            fitting = self.rtol * found.size
            if not 0.0 < fitting < atol:
                break
            atol = fitting
            found = self._swept(sweep, times, jumps, before, params, atol)
        return found

    def _swept(
        self, sweep: Sweep, times: Any, jumps: Any, before: list[_Solved], params: Any, atol: Any
    ) -> _Solved:
        n = len(times)
        order = list(range(n)) if sweep.along else list(range(n - 1, -1, -1))
        breaks = {i for i in order[1:-1] if np.any(jumps[i])}.union(*(s.breaks for s in before))
        z = np.array(jumps[order[0]])
        found = _Solved(np.zeros_like(jumps), [_nowhere] * (n - 1), breaks)
        found.outs[order[0]] = z
        at, pace = 0, None
        while at < n - 1:
            end = at + 1
            while end < n - 1 and order[end] not in breaks:
                end += 1
            span = order[at : end + 1]
            earlier = [s.between[min(span[0], span[1])] for s in before]
            solution, z, steps, size = self._stretch(
                sweep, (times[span[0]], times[span[-1]], pace), z, earlier, params, atol
            )
            pace = np.max(np.abs(np.diff(steps)), initial=0.0) or pace
            for a, b in pairwise(span):
                found.between[min(a, b)] = solution
                found.outs[b] = solution(times[b])
            z = z + jumps[span[-1]]
            found.outs[span[-1]] = z
            found.steps.append(steps)
            found.size = max(found.size, size)
            at = end
        return found

    def _stretch(
        self, sweep: Sweep, span: Any, z: Any, earlier: list[Interpolant], params: Any, atol: Any
    ) -> tuple[Interpolant, Any, Any, float]:
        """The solution between two times without jumps: itself, its last value, steps, size.

        `span` holds these, and the step to try first, if any was taken before.
        """
        start, stop, pace = float(span[0]), float(span[1]), span[2]
        if start == stop or not z.size:
            return _constant(z), z, np.array([start, stop]), _largest(z)
        sign = 1.0 if sweep.along else -1.0

        def values(t: float, z: Any) -> list[Any]:
            return [np.float64(t), *(f(t) for f in earlier), z, *params]

        def rate(t: float, z: Any) -> Any:
            return sign * run(sweep.rate, values(t, z))[0]

        given = dict(self.options)
        if pace is not None:
            given["first_step"] = min(float(pace), abs(stop - start))
        if self.method in _IMPLICIT:
            slope = jacobian(sweep.rate, len(earlier))
            given["jac"] = lambda t, z: sign * run(slope, values(t, z))[0]
        sol = _solve_ivp(
            rate, (start, stop), z, method=self.method, dense_output=True, rtol=self.rtol,
            atol=atol, **given,
        )  # fmt: skip
        if not sol.success:
            raise failed(self.name, sol.message, sweep.linear)
        return sol.sol, sol.y[:, -1], sol.t, _largest(sol.y)


@dataclass(frozen=True, slots=True)
class Odepack(Stepper):
    """The same, but for a solution by `odeint`; its derivatives are by `solve_ivp`.

    Attributes:
        more: further options of `odeint`.
    """

    more: dict[str, Any]

    def __call__(
        self, system: System, nodes: Sequence[Any], increments: Sequence[Any], params: Sequence[Any]
    ) -> list[Any]:
        """What goes out of the sweeps, then the integrals."""
        if system.sweeps[-1].linear:
            return Stepper.__call__(self, system, nodes, increments, params)
        (times,) = nodes
        sweep = system.sweeps[0]

        def rate(t: float, y: Any) -> Any:
            return run(sweep.rate, [np.float64(t), y, *params])[0]

        y, told = _odeint(rate, increments[0], times, tfirst=True, full_output=True, **self.more)
        if told["message"] != "Integration successful.":
            raise failed(self.name, told["message"], False)
        return [y]


@dataclass(frozen=True, slots=True)
class Quadrature:
    """A solver of integrals between limits.

    Attributes:
        epsabs, epsrel, limit, points: SciPy's.
    """

    epsabs: float
    epsrel: float
    limit: int
    points: Any

    @property
    def key(self) -> Any:
        """What tells it from others."""
        return type(self), self.epsabs, self.epsrel, self.limit, repr(self.points)

    def __call__(
        self, system: System, nodes: Sequence[Any], increments: Sequence[Any], params: Sequence[Any]
    ) -> list[Any]:
        """The integrals, then the estimate of an error if it is wanted."""
        integrand = system.integrand
        assert integrand is not None
        a, b = map(float, nodes)
        avals = integrand.out_avals

        def values(x: float) -> list[Any]:
            return run(integrand, [np.float64(x), *params])

        if len(avals) == 1 and not avals[0].shape:
            value, error = self._sized(
                bool(system.extra),
                lambda epsabs: _quad(
                    lambda x: values(x)[0], a, b, epsabs=epsabs, epsrel=self.epsrel,
                    limit=self.limit, points=self.points,
                ),
            )  # fmt: skip
            return [value, error] if system.extra else [value]
        flat, _ = self._sized(
            False,
            lambda epsabs: _quad_vec(
                lambda x: np.concatenate([np.ravel(y) for y in values(x)]), a, b, epsabs=epsabs,
                epsrel=self.epsrel, limit=max(self.limit, 200), points=self.points,
            ),
        )  # fmt: skip
        cuts = np.cumsum([y.size for y in avals])[:-1]
        return [y.reshape(s.shape) for y, s in zip(np.split(flat, cuts), avals, strict=True)]

    def _sized(self, chosen: bool, integrate: Callable[[float], Any]) -> tuple[Any, Any]:
        """An integral; of a derivative with an `epsabs` that suits its size, which nobody chose."""
        epsabs = self.epsabs
        found = integrate(epsabs)[:2]
        for _ in range(0 if chosen else _AGAIN):
            fitting = self.epsrel * _largest(np.asarray(found[0]))
            if not 0.0 < fitting < epsabs:
                break
            epsabs = fitting
            found = integrate(epsabs)[:2]
        return found


def failed(name: str, message: str, linear: bool) -> SolverError:
    """The error where SciPy found no solution."""
    what = " of a derivative" if linear else ""
    return SolverError(f"{name}{what}: {message.rstrip('.')}.", _ADVICE)


def _constant(z: Any) -> Interpolant:
    return lambda t: z if not np.ndim(t) else np.repeat(z[:, None], np.size(t), 1)


def _nowhere(t: Any) -> Any:
    raise AssertionError(t)


def _largest(z: Any) -> float:
    return float(np.max(np.abs(z), initial=0.0))


def _jumps(sweep: Sweep, increment: Any, n: int) -> Any:
    """What a sweep jumps by, at each node."""
    if sweep.at_every:
        return increment
    jumps = np.zeros((n, *increment.shape), increment.dtype)
    jumps[0 if sweep.along else -1] = increment
    return jumps


def jacobian(rate: Jaxpr, earlier: int) -> Jaxpr:
    """The derivative of a rate by its own sweep, behind `earlier` others."""
    found = rate.cache.get("slope")
    if found is None:
        at = 1 + earlier

        def fun(*xs: Any) -> list[Any]:
            def of(z: Any) -> Any:
                return JaxprFun(rate)(*xs[:at], z, *xs[at + 1 :])[0]

            return [jacfwd(of)(xs[at])]

        found = rate.cache["slope"] = trace_closed(fun, rate.in_avals)
    return found


def _integrals(integrand: Jaxpr, times: Any, solved: list[_Solved], params: Any) -> list[Any]:
    """Gauss's rule between all steps."""
    totals = [np.zeros(a.shape, a.dtype) for a in integrand.out_avals]
    steps = np.concatenate([s for one in solved for s in one.steps])
    for i, (start, stop) in enumerate(pairwise(times)):
        if start == stop:
            continue
        inside = (steps > min(start, stop)) & (steps < max(start, stop))
        cuts = np.unique(np.concatenate([steps[inside], [start, stop]]))
        cuts = cuts if start <= stop else cuts[::-1]
        half, middle = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
        ts = (middle[:, None] + half[:, None] * _POINTS).ravel()
        weights = (half[:, None] * _WEIGHTS).ravel()
        columns = [np.asarray(s.between[i](ts)).T for s in solved]
        for t, w, *zs in zip(ts, weights, *columns, strict=True):
            values = run(integrand, [t, *map(np.ascontiguousarray, zs), *params])
            for total, y in zip(totals, values, strict=True):
                total += w * y
    return totals

"""Reverse mode is composed, not written: jvp over partial, then one backward walk.

`linearize_flat` runs a function once under `JVPTrace` over `PartialTrace`: the primal is computed
on the way and the tangent computation is recorded as a `Tape`, a linear program whose residuals
are its literals. `pull` walks it backwards, `push` evaluates it forwards.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.core import trace as core
from ftrace.core.avals import aval, typeof
from ftrace.core.device import is_array
from ftrace.core.dtypes import is_inexact
from ftrace.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, eval_jaxpr
from ftrace.core.trace import ctx
from ftrace.core.zero import ZERO
from ftrace.interpreters.captures import Captures
from ftrace.interpreters.jvp import JVPTrace, JVPTracer, jvp_trace
from ftrace.interpreters.partial import PartialTrace, PartialTracer, close
from ftrace.interpreters.tangents import materialise, zeros_like
from ftrace.interpreters.transpose import backward_pass


class Tape:
    """A recorded linear map: equations over variables, residuals as literals.

    `invars[i]` is None for an input without tangent, `outs[i]` for an output whose tangent is
    zero.
    """

    __slots__ = ("eqns", "invars", "outs")

    def __init__(self, eqns: list[Eqn], invars: list[Var | None], outs: list[Atom | None]) -> None:
        self.eqns = eqns
        self.invars = invars
        self.outs = outs

    def pull(self, cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the inputs (None: none reaches it) from those of the outputs."""
        live = [(a, ct) for a, ct in zip(self.outs, cts, strict=True) if a is not None]
        invars = [v for v in self.invars if v is not None]
        found = iter(backward_pass(self.eqns, invars, *zip(*live, strict=True)) if live else ())
        return [
            core.renew(materialise(next(found, None))) if v is not None else None
            for v in self.invars
        ]

    def residuals(self) -> list[Any]:
        """The plain arrays among the literals."""
        return [
            a.value for e in self.eqns for a in e.invars if type(a) is Literal and is_array(a.value)
        ]

    def jaxpr(self) -> tuple[Jaxpr, list[Any]]:
        """The same map as a jaxpr of (residuals, tangents), outputs without tangent as zeros."""
        outs = [a for a in self.outs if a is not None]
        return close(self.eqns, [v for v in self.invars if v is not None], outs, arrays=True)


class Linearization:
    """A derivative that is being recorded: the trace of its function, and its inputs there.

    Args:
        primals: inputs; those that are not float or complex get no tangent.
        whole: whether the derivative is asked for once, when the function has returned.
    """

    __slots__ = ("_captures", "_invars", "_partial", "inputs", "jvp", "leaves")

    def __init__(self, primals: Sequence[Any], *, whole: bool = False) -> None:
        captures = self._captures = Captures(staged=core.is_staged(ctx.trace))
        partial = self._partial = PartialTrace(ctx.trace, captures)
        partial.on_device = any(map(core.is_on_device, primals))
        self.jvp = jvp_trace(partial, captures) if whole else JVPTrace(partial, captures)
        self.leaves = primals
        self.inputs: list[JVPTracer] = []
        self._invars: list[Var | None] = []
        for p in primals:
            a = typeof(p)
            if is_array(p):
                p = captures.argument(p)
            tangent = partial.unknown(aval(a.shape, a.dtype)) if is_inexact(a.dtype) else ZERO
            x = JVPTracer(self.jvp, core.renew(p), tangent)
            core.freeze(x, p)
            self.inputs.append(x)
            self._invars.append(tangent.binder if isinstance(tangent, PartialTracer) else None)

    def tape(self, ys: Sequence[Any]) -> tuple[list[Any], Tape]:
        """The values of results, and the derivative as far as it is recorded."""
        results = self.jvp.unpacked(ys)
        outs: list[Atom | None] = []
        for _, t in results:
            owned = self._partial.owns(t)
            outs.append(t.binder if owned else None if t is ZERO else Literal(t))
        return [y for y, _ in results], Tape(self._partial.eqns, self._invars, outs)

    def end(self, *, finished: bool, outlives: bool, error: BaseException | None = None) -> None:
        """No more is recorded; users' arrays may be written again."""
        self.jvp.alive = self._partial.alive = False
        try:
            if isinstance(error, ValueError):
                self._captures.explain(error)
        finally:
            if outlives and finished:
                self._captures.detach(self._partial.eqns)
            self._captures.release(check=finished)


def linearize_flat(
    fn: Callable[..., Sequence[Any]], primals: Sequence[Any], *, outlives: bool
) -> tuple[list[Any], Tape]:
    """Run a function of flat values, recording its derivative.

    Args:
        fn: flat values to flat values.
        primals: inputs; those that are not float or complex get no tangent.
        outlives: whether the tape is used after the caller returns (vjp, linearize).

    Returns:
        The outputs and the tape.
    """
    program = Linearization(primals, whole=True)
    try:
        found = program.tape(core.run(program.jvp, fn, *program.inputs))
    except BaseException as error:
        program.end(finished=False, outlives=outlives, error=error)
        raise
    program.end(finished=True, outlives=outlives)
    return found


def push(tape: Tape, tangents: Sequence[Any], out_primals: Sequence[Any]) -> list[Any]:
    """Evaluate the recorded map on tangents of all inputs that have one."""
    jaxpr, residuals = tape.jaxpr()
    found = iter(eval_jaxpr(jaxpr, [*residuals, *tangents]))
    return [
        zeros_like(y) if a is None else core.renew(next(found))
        for a, y in zip(tape.outs, out_primals, strict=True)
    ]

"""A backward function made at a point: what it captured becomes residuals.

`custom_gradient` and `custom_vjp.defadjoint` are given closures over the values of one call.
Tracing the closure says which of them it reads; only these are kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ftrace.control.functions import FlatFunction, result_avals
from ftrace.core.avals import strengthen
from ftrace.core.jaxpr import Jaxpr, eval_jaxpr
from ftrace.core.registration import register_dataclass
from ftrace.core.tree import PyTreeDef, tree_flatten
from ftrace.interpreters.dce import dce_jaxpr
from ftrace.interpreters.staging import hoist_consts, trace_to_jaxpr


@dataclass(frozen=True)
class Pullback:
    """A traced backward function and its residuals: a container of arrays."""

    residuals: list[Any]
    jaxpr: Jaxpr
    out_tree: PyTreeDef

    @staticmethod
    def of(pull: Callable[[Any], Any], result: Any, n_args: int) -> "Pullback":
        """Trace `pull`, which takes a cotangent of `result`, for a function of `n_args` arguments.

        With one argument its cotangent need not be in a tuple.
        """
        ys, tree = tree_flatten(result)
        avals = [strengthen(a) for a in result_avals(pull, ys, tree)]

        def cotangents(ct: Any) -> Any:
            found = pull(ct)
            return (found,) if n_args == 1 and not isinstance(found, tuple | list) else found

        flat = FlatFunction(cotangents, tree_flatten(((result,), {}))[1])
        jaxpr, tracers = trace_to_jaxpr(flat, avals)
        jaxpr, arrays = hoist_consts(jaxpr)
        captured = [*arrays, *tracers]
        _, read = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outvars))
        n = len(captured)
        kept = [v for v, r in zip(jaxpr.invars, read[:n], strict=False) if r]
        closed = Jaxpr([*kept, *jaxpr.invars[n:]], jaxpr.eqns, jaxpr.outvars)
        residuals = [x for x, r in zip(captured, read, strict=False) if r]
        return Pullback(residuals, closed, flat.out_tree)

    def __call__(self, ct: Any) -> Any:
        """The cotangents of the arguments."""
        found = eval_jaxpr(self.jaxpr, [*self.residuals, *tree_flatten(ct)[0]])
        return self.out_tree.unflatten(found)


register_dataclass(Pullback, data_fields=("residuals",), meta_fields=("jaxpr", "out_tree"))


def pulled(*args: Any) -> Any:
    """The backward rule of a `custom_vjp` whose residual is a `Pullback`."""
    pull, ct = args[-2:]
    return pull(ct)

"""A backward function made at a point: what it captured becomes residuals.

`custom_gradient` and `custom_vjp.defadjoint` are given closures over the values of one call.
Tracing the closure says which of them it reads; only these are kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ftrace.control.functions import FlatFunction, argument_avals, flatten_call
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
    def of(
        pull: Callable[..., Any], result: Any, inputs: tuple[Any, ...], n_args: int
    ) -> "Pullback":
        """Trace `pull(ct, *inputs)`, `ct` a cotangent of `result`.

        `n_args` is how many cotangents it returns; a single one need not be in a tuple.
        """

        def cotangents(ct: Any, *values: Any) -> Any:
            found = pull(ct, *values)
            return (found,) if n_args == 1 and not isinstance(found, tuple | list) else found

        leaves, tree = flatten_call((result, *inputs))
        avals = argument_avals(pull, leaves, tree)
        n = tree_flatten(result)[1].num_leaves
        flat = FlatFunction(cotangents, tree)
        jaxpr, tracers = trace_to_jaxpr(flat, [*map(strengthen, avals[:n]), *avals[n:]])
        jaxpr, arrays = hoist_consts(jaxpr)
        captured, m = [*arrays, *tracers], len(arrays) + len(tracers)
        _, read = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outvars))
        residuals = list(zip([*captured, *leaves[n:]], read[:m] + read[m + n :], strict=True))
        invars = [*jaxpr.invars[:m], *jaxpr.invars[m + n :]]
        kept = [v for v, (_, r) in zip(invars, residuals, strict=True) if r]
        closed = Jaxpr([*kept, *jaxpr.invars[m : m + n]], jaxpr.eqns, jaxpr.outvars)
        return Pullback([x for x, r in residuals if r], closed, flat.out_tree)

    def __call__(self, ct: Any) -> Any:
        """The cotangents of the arguments."""
        found = eval_jaxpr(self.jaxpr, [*self.residuals, *tree_flatten(ct)[0]])
        return self.out_tree.unflatten(found)


register_dataclass(Pullback, data_fields=("residuals",), meta_fields=("jaxpr", "out_tree"))


def pulled(*args: Any) -> Any:
    """The backward rule of a `custom_vjp` whose residual is a `Pullback`."""
    pull, ct = args[-2:]
    return pull(ct)

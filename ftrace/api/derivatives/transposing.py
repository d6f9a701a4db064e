"""`linear_transpose`: the transpose of a linear function, for its own sake."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.api.calls import check_callable, name_of
from ftrace.api.derivatives.autodiff import real_cotangents
from ftrace.api.derivatives.matching import match_cotangents
from ftrace.control.functions import flatten_call, stage_function
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import is_array, place_of
from ftrace.core.errors import RuleError
from ftrace.core.trace import Tracer
from ftrace.core.tree import tree_flatten
from ftrace.interpreters.captures import owned
from ftrace.interpreters.tangents import materialise
from ftrace.interpreters.transpose import pull_jaxpr
from ftrace.lifting.restart import Restart


def linear_transpose(
    fun: Callable[..., Any], *primals: Any, lift: bool = True
) -> Callable[..., Any]:
    """Transpose a linear function.

    Args:
        fun: linear in all its arguments.
        *primals: arrays, or `ShapeDtypeStruct`s, that say the arguments' shapes and dtypes.
        lift: as in `value_and_grad`.

    Returns:
        A function of one cotangent of the result's structure that returns a tuple with one
        entry per primal.

    Raises:
        RuleError: `fun` is not linear.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.linear_transpose(lambda x: 3 * x, 1.0)(2.0)
        (np.float64(6.0),)
    """
    check_callable(fun, "linear_transpose")
    leaves, tree = flatten_call(primals)
    avals, places = [_struct_aval(x) for x in leaves], [place_of(x) for x in leaves]
    staged = Restart(fun, lift)(lambda: stage_function(fun, tree, avals), primals)
    out_avals = staged.jaxpr.out_avals
    linear = (False,) * len(staged.captured) + (True,) * len(avals)
    _, in_tree = tree_flatten(primals)

    def transposed(ct: Any) -> Any:
        cts = match_cotangents(fun, staged.out_tree, out_avals, ct)
        try:
            found = pull_jaxpr(
                staged.jaxpr, [*staged.captured, *(None for _ in avals)], linear, cts
            )
        except RuleError as error:
            raise RuleError(
                f"{name_of(fun)} cannot be transposed. {error.what}",
                "Transpose linear functions only; vjp linearizes first.",
            ) from None
        found = [None if c is None else materialise(c) for c in found]
        return in_tree.unflatten(owned(real_cotangents(found, avals, places), cts))

    return transposed


def _struct_aval(x: Any) -> ShapedArray:
    if hasattr(x, "shape") and hasattr(x, "dtype") and not (isinstance(x, Tracer) or is_array(x)):
        return aval(tuple(x.shape), np.dtype(x.dtype))
    return typeof(x)

"""`prefer`: the mode in which a part of a function is differentiated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import ftrace.numpy as fnp
from ftrace.api.calls import brief, check_callable
from ftrace.api.derivatives.jacobians import jacfwd, jacrev
from ftrace.api.rules.custom import custom_jvp
from ftrace.api.rules.custom_gradient import closure_convert
from ftrace.control.functions import flatten_call, is_no_value
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError
from ftrace.core.trace import lifted
from ftrace.core.tree import tree_flatten

P = ParamSpec("P")
R = TypeVar("R")
_WAYS: Final[dict[Any, Callable[..., Any]]] = {"forward": jacfwd, "reverse": jacrev}


def prefer(fun: Callable[P, R], mode: str) -> Callable[P, R]:
    """Make a function whose own Jacobian is taken in one mode, inside of derivatives of any mode.

    The Jacobian is computed once, at the point, and what is differentiated around the function
    is multiplied by it. Reverse mode inside of forward mode pays where few numbers come out that
    depend on few, and many directions are carried along; forward mode inside of reverse mode where
    few numbers go in, and nothing of the inside is to be kept.

    Args:
        fun: function of arrays, or containers of arrays. It is traced, as by `jit`, and may close
            over values that are differentiated.
        mode: "forward" or "reverse".

    Returns:
        A function like `fun`, for which any derivative can be asked.

    Raises:
        DtypeError: another mode; or numbers are complex, which have no such Jacobian.

    Example:
        >>> import numpy as np, ftrace
        >>> tail = ftrace.prefer(lambda p: p**2 + p**3 + p**4, "reverse")
        >>> ftrace.jacfwd(lambda x: tail(np.sum(x)))(np.array([0.5, 0.5]))
        array([9., 9.])

    Source: `back gradient` of pqR (R. Neal, 2019); partial derivatives in a forward pass that a
    reverse pass multiplies: Revels et al., Dynamic Automatic Differentiation of GPU Broadcast
    Kernels, 2018.
    """
    check_callable(fun, "prefer")
    if type(mode) is not str or mode not in _WAYS:
        raise DtypeError(
            f"prefer takes the mode {' or '.join(map(repr, _WAYS))}, not {brief(mode)}.",
            'Write prefer(f, "reverse").',
        )
    way = _WAYS[mode]

    @functools.wraps(fun)
    def preferred(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, tree = flatten_call(args, kwargs)
        moving = [i for i, x in enumerate(leaves) if _moves(x)]

        def of_floats(*values: Any) -> Any:
            full = list(leaves)
            for i, v in zip(moving, values, strict=True):
                full[i] = v
            inner_args, inner_kwargs = tree.unflatten(full)
            return lifted(fun)(*inner_args, **inner_kwargs)

        values = [leaves[i] for i in moving]
        converted, hoisted = closure_convert(functools.wraps(fun)(of_floats), *values)
        made = custom_jvp(lambda *xs: converted(*xs))
        functools.update_wrapper(made, fun, updated=())
        made.defjvp(lambda primals, tangents: _multiplied(converted, way, primals, tangents))
        return made(*values, *hoisted)

    return preferred


def _moves(x: Any) -> bool:
    return not is_no_value(x) and is_inexact(typeof(x).dtype)


def _multiplied(
    converted: Callable[..., Any], way: Callable[..., Any], primals: Any, tangents: Any
) -> tuple[Any, Any]:
    """The result, and the product of its Jacobian and tangents."""

    def paired(values: list[Any]) -> Any:
        result = converted(*values)
        return [y for y in tree_flatten(result)[0] if is_inexact(typeof(y).dtype)], result

    blocks, result = way(paired, has_aux=True)(list(primals))
    leaves, tree = tree_flatten(result)
    supply = iter(blocks)
    moved = [
        _product(next(supply), tangents) if is_inexact(typeof(y).dtype) else fnp.zeros_like(y)
        for y in leaves
    ]
    return result, tree.unflatten(moved)


def _product(row: list[Any], tangents: Any) -> Any:
    parts = [fnp.tensordot(j, t, axes=fnp.ndim(t)) for j, t in zip(row, tangents, strict=True)]
    return functools.reduce(fnp.add, parts)

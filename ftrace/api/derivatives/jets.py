"""`jet` and `derivative`: derivatives of high order, by Taylor mode (series.py)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.api.calls import brief, check_callable, name_of, to_transform
from ftrace.api.derivatives.series import jet_flat
from ftrace.control.functions import Apart, FlatFunction, flatten_call, is_no_value
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError, ShapeError, TreeError
from ftrace.core.trace import Tracer
from ftrace.core.tree import tree_flatten
from ftrace.core.zero import ZERO
from ftrace.interpreters.tangents import instantiate
from ftrace.primitives.arithmetic import mul


def jet(
    fun: Callable[..., Any], primals: Any, series: Any, *, lift: bool = True
) -> tuple[Any, Any]:
    """Push derivatives of all orders along a curve through a function (Taylor mode).

    For a curve x(t) with x(0) = `primals` and derivatives x'(0), x''(0) ... = `series`, the value
    and the derivatives of fun(x(t)) at 0: what nested `jvp` compute, in one pass.

    Args:
        fun: function of arrays, or containers of arrays.
        primals: a tuple of arguments.
        series: for each argument a sequence with its derivatives of order 1 to n, of its shape and
            dtype, all of one length; for an argument that is a container, a sequence of containers.
        lift: whether loops and decisions by traced values are rewritten (`ftrace.lift`).

    Returns:
        `(value, derivatives)`: the latter a list with the derivative of each order, each in the
        structure of the value.

    Raises:
        TreeError, ShapeError, DtypeError: primals and series do not match.

    Example:
        >>> import numpy as np, ftrace
        >>> y, (first, second) = ftrace.jet(np.sin, (1.0,), ([1.0, 0.0],))
        >>> bool(first == np.cos(1.0)), bool(second == -np.sin(1.0))
        (True, True)

    Source: derivatives, not coefficients, go in and come out, as in `jax.experimental.jet`.
    """
    fun = to_transform(fun, "jet", lift)
    primals, series = _tuple("primals", primals), _tuple("series", series)
    if len(primals) != len(series):
        raise TreeError(
            f"jet of {name_of(fun)} was given {len(primals)} primals and {len(series)} series.",
            "Give one sequence of derivatives for each argument.",
        )
    try:
        orders = {len(s) for s in series}
    except TypeError:
        raise DtypeError(
            f"jet of {name_of(fun)} was given a series that is no sequence of derivatives.",
            "Give a list for each argument, also of one derivative: jet(f, (x,), ([1.0],)).",
        ) from None
    if len(orders) != 1:
        raise ShapeError(
            f"jet of {name_of(fun)} was given series of {sorted(orders)} derivatives.",
            "Give as many for each argument, zeros where it does not move further.",
        )
    (order,) = orders
    apart = Apart(*flatten_call(primals), is_no_value)
    leaves = apart.leaves
    columns: list[list[Any]] = []
    for k in range(order):
        given = tuple(s[k] for s in series)
        columns.append(
            [
                _coefficient(t, x, k + 1)
                for t, x in zip(apart.select(_like(given, primals)), leaves, strict=True)
            ]
        )
    flat = FlatFunction(fun, apart.tree)
    found = jet_flat(flat, leaves, [[c[i] for c in columns] for i in range(len(leaves))], order)
    unflatten = flat.out_tree.unflatten
    derivatives = [
        unflatten([_derivative(y, terms[k], k + 1) for y, terms in found]) for k in range(order)
    ]
    return unflatten([y for y, _ in found]), derivatives


def _tuple(what: str, given: Any) -> tuple[Any, ...]:
    if not issubclass(type(given), tuple | list):
        raise TreeError(
            f"jet takes a tuple of {what}, not {brief(given)}.", f"Write `({what[:-1]},)`."
        )
    return tuple(given)


def _like(given: tuple[Any, ...], primals: tuple[Any, ...]) -> list[Any]:
    """The leaves of derivatives, in the structure of the primals."""
    leaves, tree = tree_flatten(given)
    expected = tree_flatten(primals)[1]
    if tree != expected:
        raise TreeError(
            f"The derivatives have the structure {tree}, and the primals {expected}.",
            "Give each derivative the structure of its argument.",
        )
    return leaves


def _coefficient(t: Any, x: Any, k: int) -> Any:
    """The Taylor coefficient that belongs to a derivative."""
    a = typeof(x)
    if not is_inexact(a.dtype):
        return ZERO
    if np.shape(t) != a.shape:
        raise ShapeError(
            f"The derivative of order {k} has shape {np.shape(t)}, and its argument {a.shape}.",
            "Give them one shape.",
        )
    t = t if isinstance(t, Tracer) else np.asarray(t)
    if not np.can_cast(t.dtype, a.dtype, "same_kind"):
        raise DtypeError(
            f"The derivative of order {k} has dtype {t.dtype}, and its argument {a.dtype}.",
            f"Convert it: `t.astype(np.{a.dtype})`.",
        )
    return (t * (1.0 / math.factorial(k))).astype(a.dtype)


def _derivative(y: Any, term: Any, k: int) -> Any:
    dtype = typeof(y).dtype
    if not is_inexact(dtype):
        return np.zeros(typeof(y).shape, np.float64)[()]
    return mul(instantiate(term, y), dtype.type(math.factorial(k)))


def derivative(fun: Callable[..., Any], n: int = 1, *, lift: bool = True) -> Callable[..., Any]:
    """Make the n-th derivative of a function of one number, by Taylor mode.

    Args:
        fun: of a float (rank 0), and others that stay.
        n: which derivative; 0 is the function itself.
        lift: as in `jet`.

    Returns:
        A function of the same arguments, with results of the same structure.

    Raises:
        DtypeError, ShapeError: n is no natural number; the first argument is no float of rank 0.

    Example:
        >>> import numpy as np, ftrace
        >>> bool(abs(ftrace.derivative(np.exp, 5)(0.0) - 1.0) < 1e-15)
        True
    """
    check_callable(fun, "derivative")
    if not issubclass(type(n), int | np.integer) or issubclass(type(n), bool) or n < 0:
        raise DtypeError(
            f"n of derivative must be 0, 1, 2, ..., not {brief(n)}.", "n=1 is the first derivative."
        )
    if n == 0:
        return fun
    order = int(n)
    lifted = to_transform(fun, "derivative", lift)

    def nth(x: Any, *args: Any, **kwargs: Any) -> Any:
        a = typeof(x)
        if a.shape or not (is_inexact(a.dtype) or a.weak):
            raise ShapeError(
                f"derivative of {name_of(fun)} takes a number first, and was given {a}.",
                "Map over arrays, ftrace.vmap(ftrace.derivative(f, n)), or use ftrace.jet.",
            )
        x = x if is_inexact(a.dtype) else float(x)
        one = typeof(x).dtype.type(1)
        series = [one, *[one - one] * (order - 1)]
        return jet(lambda x: lifted(x, *args, **kwargs), (x,), (series,), lift=False)[1][-1]

    return functools.wraps(fun, updated=())(nth)

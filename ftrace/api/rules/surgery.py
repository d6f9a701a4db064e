"""Derivative surgery: functions that are the identity and change what flows backwards.

In forward mode a tangent passes through the transpose of the change where that is linear
(`scale_gradient`, `reverse_gradient`), and there is none otherwise: `clip_gradient` raises.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import ftrace.numpy as fnp
from ftrace.api.calls import check_callable
from ftrace.api.rules.custom import custom_vjp
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError
from ftrace.core.tree import tree_leaves, tree_map

T = TypeVar("T")


def replace_gradient(x: T, fn: Callable[[T], T]) -> T:
    """The same value, whose cotangent is replaced by a function of it.

    Args:
        x: an array, or a container of arrays.
        fn: cotangent -> cotangent, of `x`'s structure, shapes and dtypes. It may close over
            traced values.

    Returns:
        `x`. In forward mode the tangent is multiplied by the transpose of `fn`.

    Raises:
        CustomRuleError: forward mode where `fn` is not linear, or the wrong structure or type.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda x: ftrace.replace_gradient(x, np.sign) * 7.0
        >>> float(f(2.0)), float(ftrace.grad(f)(2.0))
        (14.0, 1.0)
    """
    check_callable(fn, "replace_gradient")

    def replace_gradient(x: Any) -> Any:
        return x

    same = custom_vjp(replace_gradient)
    same.defvjp(lambda x: (x, None), lambda _, ct: (fn(ct),))
    return same(x)


def _each(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of each inexact array of a cotangent."""
    return lambda ct: tree_map(lambda c: fn(c) if is_inexact(typeof(c).dtype) else c, ct)


def scale_gradient(x: T, factor: Any) -> T:
    """The same value, whose cotangent (and tangent) is multiplied by a factor.

    Args:
        x: an array, or a container of arrays.
        factor: a number, or an array that broadcasts to the arrays of `x`.

    Example:
        >>> import ftrace
        >>> float(ftrace.grad(lambda x: ftrace.scale_gradient(x, 0.5) ** 2)(3.0))
        3.0
    """
    _check_numbers(factor=factor)
    return replace_gradient(x, _each(lambda ct: fnp.multiply(ct, factor)))


def reverse_gradient(x: T) -> T:
    """The same value, whose cotangent (and tangent) has the opposite sign.

    Args:
        x: an array, or a container of arrays.

    Example:
        >>> import ftrace
        >>> float(ftrace.grad(lambda x: ftrace.reverse_gradient(x) ** 2)(3.0))
        -6.0
    """
    return replace_gradient(x, _each(fnp.negative))


def clip_gradient(x: T, low: Any = None, high: Any = None, *, max_norm: Any = None) -> T:
    """The same value, whose cotangent is held between bounds, or below a norm.

    Args:
        x: an array, or a container of arrays; real.
        low, high: bounds of each element.
        max_norm: the largest Euclidean norm of the whole container; a larger cotangent is scaled
            down to it. Complex arrays are allowed.

    Returns:
        `x`. Clipping is not linear: there is no forward mode.

    Raises:
        CustomRuleError: forward mode.
        DtypeError: neither bounds nor `max_norm`, or both; bounds for complex numbers.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda x: np.sum(ftrace.clip_gradient(x, -1.0, 1.0) * np.array([0.5, -7.0]))
        >>> ftrace.grad(f)(np.ones(2))
        array([ 0.5, -1. ])
    """
    if (low is None and high is None) == (max_norm is None):
        raise DtypeError(
            "clip_gradient was given neither bounds nor max_norm."
            if max_norm is None
            else "clip_gradient was given bounds and max_norm.",
            "Give low and high, one of them, or max_norm alone.",
        )
    _check_numbers(low=low, high=high, max_norm=max_norm)
    if max_norm is not None:
        return replace_gradient(x, lambda ct: _within_norm(ct, max_norm))
    for leaf in tree_leaves(x):
        if typeof(leaf).dtype.kind == "c":
            raise DtypeError(
                f"clip_gradient(low, high) was given {typeof(leaf)}: it has no order.",
                "Use max_norm, or replace_gradient with a function that clips both parts.",
            )
    return replace_gradient(x, _each(lambda ct: fnp.clip(ct, low, high)))


def _check_numbers(**given: Any) -> None:
    """Refuse what the rule could not use: it runs later, if at all."""
    for key, v in given.items():
        if v is not None and fnp.asarray(v).dtype.kind not in "biufc":
            raise DtypeError(f"{key}={v!r} is no number.", "Give a number or an array.")


def _within_norm(ct: Any, max_norm: Any) -> Any:
    parts = [c for c in tree_leaves(ct) if is_inexact(typeof(c).dtype)]
    if not parts:
        return ct
    square = sum(fnp.sum(fnp.square(fnp.abs(c))) for c in parts)
    scale = fnp.where(square > fnp.square(max_norm), max_norm / fnp.sqrt(square), 1.0)
    return _each(lambda c: fnp.multiply(c, scale.astype(typeof(fnp.abs(c)).dtype)))(ct)

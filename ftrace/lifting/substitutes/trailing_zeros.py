"""Coefficients in `numpy.polynomial`, whose zeros at the end are left out.

How many there are is a shape that depends on values. Where these are not known the last coefficient
is taken to be none, which is checked when the function runs: of what a function is given, and of
what it returns. What it adds on its way may end with zeros, which change no value.
"""

import functools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.polynomial import polyutils

import ftrace.numpy as fnp
from ftrace.control.rows.raising import fail_where, some
from ftrace.core.errors import ShapeError
from ftrace.core.trace import UNKNOWN, Tracer, lifted
from ftrace.lifting.state.leaves import flatten


class _Here(threading.local):
    def __init__(self) -> None:
        self.left = 0  # sums whose last coefficient nobody has checked


_here: Final = _Here()


def _values(seq: Any) -> Any:
    """The coefficients, if leaving some of them out loses no derivative; else UNKNOWN."""
    return seq.known(exact=True) if isinstance(seq, Tracer) else seq


def _check(small: Any) -> None:
    fail_where(some(small), (), _ends_with_zero)


def _ends_with_zero() -> None:
    raise ShapeError(
        "numpy.polynomial leaves out zeros at the end of coefficients, and the last one of a "
        "traced polynomial is zero: the shape of the result would depend on values.",
        "Pass fewer coefficients, or compute with numpy.polyval and numpy.convolve.",
    )


def trimmed(seq: Any) -> Any:
    """`polyutils.trimseq`: coefficients without zeros at the end."""
    if not np.shape(seq) or np.shape(seq)[0] < 2:
        return seq
    values = _values(seq)
    if values is UNKNOWN:
        _check(fnp.equal(seq[-1], 0))
        return seq
    return seq[: len(polyutils.trimseq(np.asarray(values)))]


def trimmed_by(c: Any, tol: Any = 0) -> Any:
    """`polyutils.trimcoef`: coefficients without small ones at the end; of one none is left out."""
    if isinstance(tol, Tracer):
        fail_where(fnp.less(tol, 0), (), _negative_tolerance, ValueError)
    elif tol < 0:
        _negative_tolerance()
    (c,) = lifted(polyutils.as_series)([c])
    values, bound = _values(c), _values(tol)
    if values is not UNKNOWN and bound is not UNKNOWN:
        large = np.flatnonzero(np.abs(values) > bound)
        return c[: large[-1] + 1] if len(large) else c[:1] * 0
    is_large = fnp.greater(fnp.abs(c[-1]), tol)
    if len(c) > 1:
        _check(fnp.logical_not(is_large))
        return c
    if bound is not UNKNOWN and not np.any(bound):
        return c  # nothing is smaller than that, and zero is itself
    return fnp.where(is_large, c, c * 0)


def _negative_tolerance() -> None:
    raise ValueError("tol must be non-negative")


def _sum(second: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """`polyutils._add` or `_sub`, by what becomes of the second: they may end with zeros."""

    def add(c1: Any, c2: Any) -> Any:
        series = lifted(polyutils.as_series)([c1, c2], trim=False)
        a, b = (c if _values(c) is UNKNOWN else trimmed(c) for c in series)
        b, n = second(b), min(len(a), len(b))
        found = fnp.concatenate([fnp.add(a[:n], b[:n]), (a if len(a) > n else b)[n:]])
        if len(found) < 2 or _values(found) is not UNKNOWN:
            return trimmed(found)
        _here.left += 1
        return found

    return add


def checking(fn: types.FunctionType, made: types.FunctionType) -> Callable[..., Any]:
    """A function over arrays that checks what it returns where it has added coefficients.

    Other functions of its module, which may go on adding, get it unchecked.

    Args:
        fn: the function as it is.
        made: the function, rewritten.
    """

    @functools.wraps(fn)
    def call(*args: Any, **options: Any) -> Any:
        before = _here.left
        result = made(*args, **options)
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if _here.left != before and caller.f_globals is not fn.__globals__:
            _here.left = before
            for x in flatten(result)[0]:
                if isinstance(x, Tracer):
                    trimmed(x)
        return result

    return call


private: Any = polyutils
ANSWERED: Final[dict[Any, Callable[..., Any]]] = {
    polyutils.trimseq: trimmed,
    polyutils.trimcoef: trimmed_by,
    private._add: _sum(fnp.positive),
    private._sub: _sum(fnp.negative),
}

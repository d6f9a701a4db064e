"""SciPy's distributions that have no counterpart here: their own formulas, without selections.

SciPy's methods gather the elements inside of a support and store the results back, for which their
number must be known. A formula of SciPy's sees all elements here, those outside as a value inside.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.scipy.stats.distribution import Continuous, Discrete, Distribution

_SHARED = ("cdf", "sf", "logcdf", "logsf")


def adopted(
    distribution: Any, lifted: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Distribution | None:
    """A distribution of SciPy's as one whose arguments may be traced; None of another kind.

    Args:
        distribution: an object such as `scipy.stats.rice`.
        lifted: what makes of a function of SciPy's one whose control flow traced values may decide.
    """
    theirs = importlib.import_module("scipy.stats")
    name = getattr(distribution, "name", None)
    if type(name) is not str or type(getattr(theirs, name, None)) is not type(distribution):
        return None  # a frozen one is a copy
    is_continuous = issubclass(type(distribution), theirs.rv_continuous)
    names = ("pdf", "logpdf", "ppf", "isf") if is_continuous else ("pmf", "logpmf")
    support = lifted(distribution._get_support)

    def inside(*parameters: Any) -> Any:
        low, high = support(*parameters)
        bounded = fnp.isfinite(low), fnp.isfinite(high)
        low, high = (fnp.where(b, v, 0.0) for b, v in zip(bounded, (low, high), strict=True))
        middle = (low + high) / 2 if is_continuous else low
        beyond = fnp.where(bounded[0], low + 1.0, fnp.where(bounded[1], high - 1.0, 0.5))
        return fnp.where(bounded[0] & bounded[1], middle, beyond)

    kind = _Adopted if is_continuous else Discrete
    found = kind(
        name,
        "",
        (distribution.shapes or "").replace(",", " "),
        support=lambda *parameters: support(*parameters),
        inside=inside,
        valid=lifted(distribution._argcheck),
        **{n: _on_vectors(lifted(getattr(distribution, f"_{n}"))) for n in (*names, *_SHARED)},
    )
    if isinstance(found, _Adopted):
        usual = type(distribution)._support_mask is theirs.rv_continuous._support_mask
        found.mask = None if usual else lifted(distribution._support_mask)
    return found


class _Adopted(Continuous):
    """A distribution of SciPy's with a density.

    Attributes:
        mask: where the density is told by its formula, if that is not the whole support: many have
            none at the ends.
    """

    mask: Callable[..., Any] | None = None

    def _outside(self, z: Any, parameters: Sequence[Any], closed: bool) -> tuple[Any, Any]:
        below, above = super()._outside(z, parameters, closed)
        if closed and self.mask is not None:
            told = fnp.logical_or(self.mask(z, *parameters), fnp.isnan(z))
            below = fnp.logical_or(below, fnp.logical_not(told))
        return below, above


def _on_vectors(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of vectors of one length, as SciPy calls its own, which are not asked about NaN."""

    def call(*given: Any) -> Any:
        x, *rest = fnp.broadcast_arrays(*given)
        flat = fnp.reshape(x, (-1,))
        found = formula(flat, *(fnp.reshape(v, (-1,)) for v in rest))
        return fnp.reshape(fnp.where(fnp.isnan(flat), flat, found), typeof(x).shape)

    return call

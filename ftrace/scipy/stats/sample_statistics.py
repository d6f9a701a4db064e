"""Statistics of samples that SciPy hands to compiled code or plain arrays: kernels, ranks, sem."""

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.errors import DomainError, DtypeError, RuleError, ShapeError
from ftrace.core.registration import register_pytree_node
from ftrace.numpy.promote import inexact, one_axis, promote_inexact, value
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.linalg import solve_triangular
from ftrace.scipy.special import logsumexp


# asked=False: scipy.stats takes most of a second to load
@scipys("scipy.stats", asked=False)
def sem(
    a: Any, axis: Any = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """The standard error of the mean.

    Args:
        a: samples.
        axis: an integer; None takes all elements.
        ddof: what is subtracted from the number of samples.
        nan_policy: only "propagate".
        keepdims: keep the axis, with size 1.

    Raises:
        RuleError: another policy.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.stats import sem
        >>> float(sem(np.array([0.0, 2.0])))
        1.0
    """
    if nan_policy != "propagate":
        raise RuleError(f"sem was given nan_policy={nan_policy!r}.", "Only 'propagate' is traced.")
    a = inexact(value(a))
    a, axis = (fnp.ravel(a), 0) if axis is None else (a, axis)
    spread = fnp.std(a, axis=axis, ddof=ddof, keepdims=keepdims)
    return spread / fnp.sqrt(fnp.astype(fnp.asarray(a.shape[axis]), spread.dtype))


@scipys("scipy.stats", asked=False)
def rankdata(
    a: Any, method: str = "average", *, axis: Any = None, nan_policy: str = "propagate"
) -> Any:
    """The ranks of values, from 1; they have no derivative.

    Args:
        a: values.
        method: of equal values: "average", "min", "max" or "ordinal".
        axis: only None, all elements, or that of a vector.
        nan_policy: only "propagate".

    Raises:
        RuleError: another method or policy, or an axis of several.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.stats import rankdata
        >>> rankdata(np.array([3.0, 1.0, 3.0]))
        array([2.5, 1. , 2.5])
    """
    a = value(a)
    if method not in ("average", "min", "max", "ordinal"):
        raise RuleError(f"rankdata was given method={method!r}.", "Use another, or plain values.")
    if nan_policy != "propagate" or (axis is not None and a.ndim > 1):
        raise RuleError(
            f"rankdata was given axis={axis!r} and nan_policy={nan_policy!r}.",
            "Traced arrays are ranked as a whole, with nan_policy 'propagate'.",
        )
    if axis is not None:
        if type(axis) is bool:
            raise DtypeError("rankdata was given a bool as its axis.", "Pass None or an integer.")
        one_axis(axis, a.ndim)
    a = fnp.ravel(a)
    if method == "ordinal":
        return fnp.argsort(fnp.argsort(a, kind="stable"), kind="stable") + 1
    ordered = fnp.sort(a)
    low = fnp.searchsorted(ordered, a, side="left") + 1
    high = fnp.searchsorted(ordered, a, side="right")
    if method != "average":
        return low if method == "min" else high
    found = (low + high) / 2
    return fnp.where(fnp.any(fnp.isnan(a)), fnp.nan, found) if a.dtype.kind == "f" else found


@explained_methods
class gaussian_kde:  # noqa: N801 - SciPy's name
    """The density of samples, smoothed by a normal distribution around each.

    Args:
        dataset: samples of a number, or one column for each sample of a vector.
        bw_method: None or "scott", "silverman", or the factor of the width.
        weights: of the samples.

    Attributes:
        dataset, weights: samples as columns, and weights whose sum is 1.
        d, n, neff: sizes, and the effective number of samples.
        factor, covariance: how wide the normal distributions are.

    Raises:
        ShapeError: weights that are not as many as samples.
        DomainError: fewer than two samples, or plain ones that are not finite.
        RuleError: an unknown method.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.stats import gaussian_kde
        >>> gaussian_kde(np.array([0.0, 1.0, 3.0]))(1.0).round(4)
        array([0.2149])
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        self.dataset = fnp.atleast_2d(inexact(value(dataset)))
        _check_real("samples", self.dataset)
        if self.dataset.size < 2:
            raise DomainError("`dataset` input should have multiple elements.", "Pass samples.")
        if not _is_finite(dataset):
            raise DomainError("gaussian_kde was given samples that are not finite.", "Drop them.")
        self.d, self.n = self.dataset.shape
        equal = fnp.ones(self.n, self.dataset.dtype)
        w = equal if weights is None else fnp.astype(value(weights), self.dataset.dtype)
        if w.shape != (self.n,):
            raise ShapeError(f"{self.n} samples have weights {w.shape}.", "Give one to each.")
        self.weights = w / fnp.sum(w)
        self.neff = 1 / fnp.sum(self.weights**2)
        if bw_method is None or type(bw_method) is str:
            if bw_method not in (None, "scott", "silverman"):
                raise RuleError(
                    f"gaussian_kde was given bw_method={bw_method!r}.",
                    "`bw_method` should be 'scott', 'silverman', a scalar, a function or None.",
                )
            base = self.neff * (self.d + 2) / 4 if bw_method == "silverman" else self.neff
            self.factor: Any = fnp.power(base, -1 / (self.d + 4))
        else:
            given: Any = bw_method
            self.factor = given(self) if callable(given) else given
        spread = fnp.cov(self.dataset, rowvar=True, bias=False, aweights=self.weights)
        self.covariance = fnp.atleast_2d(spread) * self.factor**2

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at points, one a column."""
        points, data = promote_inexact(fnp.atleast_2d(x), self.dataset)
        _check_real("points", points)
        if points.shape[0] != self.d:
            if points.shape != (1, self.d):
                raise ShapeError(
                    f"points have dimension {points.shape[0]}, dataset has dimension {self.d}",
                    "Pass one column for each point.",
                )
            points = points.T
        root = fnp.linalg.cholesky(self.covariance)
        data, points = (solve_triangular(root, v, lower=True) for v in (data, points))
        away = fnp.sum((points[:, :, None] - data[:, None, :]) ** 2, axis=0)
        scale = fnp.sum(fnp.log(fnp.diagonal(root))) + self.d / 2 * math.log(2 * math.pi)
        return logsumexp(-away / 2, axis=1, b=self.weights) - scale

    def evaluate(self, points: Any) -> Any:
        """The density at points, one a column."""
        return fnp.exp(self.logpdf(points))

    __call__ = pdf = evaluate

    @classmethod
    def from_scipy(cls, other: Any) -> "gaussian_kde":
        """The same as SciPy's."""
        return cls(other.dataset, other.factor, other.weights)


def _is_finite(x: Any) -> bool:
    """Whether plain values are; of traced ones nothing is known."""
    return not issubclass(type(x), float | np.ndarray) or bool(np.isfinite(x).all())


def _check_real(what: str, x: Any) -> None:
    if x.dtype.kind == "c":
        raise DtypeError(f"gaussian_kde was given {what} of dtype {x.dtype}.", "Pass real numbers.")


_LEAVES = ("dataset", "weights", "neff", "factor", "covariance")


def _take_apart(k: gaussian_kde) -> tuple[Any, Any]:
    return tuple(getattr(k, name) for name in _LEAVES), (k.d, k.n)


def _put_together(sizes: Any, leaves: Any) -> gaussian_kde:
    made = object.__new__(gaussian_kde)
    for name, leaf in zip((*_LEAVES, "d", "n"), (*leaves, *sizes), strict=True):
        setattr(made, name, leaf)
    return made


register_pytree_node(gaussian_kde, _take_apart, _put_together)

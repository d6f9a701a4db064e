"""Distributions of vectors: multinomial, dirichlet, multivariate_normal, by SciPy's names."""

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import check_int
from ftrace.core.errors import DomainError, RuleError, ShapeError
from ftrace.numpy.promote import promote_inexact, value
from ftrace.scipy import special as sp
from ftrace.scipy.linalg import solve_triangular


def _is_finite(x: Any) -> bool:
    """Whether plain values are; of traced ones nothing is known."""
    return not issubclass(type(x), np.ndarray | np.number) or bool(np.all(np.isfinite(x)))


class Joint:
    """A distribution of vectors.

    Attributes:
        name: SciPy's.
    """

    name = ""

    def __repr__(self) -> str:
        return f"ftrace.scipy.stats.{self.name}"


@explained_methods
class Multinomial(Joint):
    """How often each of several outcomes comes in n trials.

    Example:
        >>> from ftrace.scipy.stats import multinomial
        >>> round(float(multinomial.pmf([1, 1], 2, [0.5, 0.5])), 6)
        0.5
    """

    name = "multinomial"

    def logpmf(self, x: Any, n: Any, p: Any) -> Any:
        """The logarithm of the probability of counts x along the last axis; their sum is n."""
        if type(n) is int:
            check_int(n, (1 << 63) - 1, "n")
        if type(n) is float and math.isnan(n):
            raise DomainError("multinomial was given n = NaN.", "It is a number of trials.")
        x, n, p = promote_inexact(*map(value, (x, n, p)))
        if not p.ndim or not x.ndim:
            raise ShapeError("multinomial was given one number of a vector.", "Give all of them.")
        terms = sp.xlogy(x, p) - sp.gammaln(x + 1)
        found = sp.gammaln(n + 1) + fnp.sum(terms, axis=-1)
        whole = fnp.all(fnp.equal(x, fnp.floor(x)) & fnp.greater_equal(x, 0), axis=-1)
        return fnp.where(whole & fnp.equal(fnp.sum(x, axis=-1), n), found, -math.inf)

    def pmf(self, x: Any, n: Any, p: Any) -> Any:
        """The probability of counts x along the last axis."""
        return fnp.exp(self.logpmf(x, n, p))


@explained_methods
class Dirichlet(Joint):
    """Probabilities of several outcomes.

    Example:
        >>> from ftrace.scipy.stats import dirichlet
        >>> round(float(dirichlet.pdf([0.5, 0.5], [1.0, 1.0])), 6)
        1.0
    """

    name = "dirichlet"

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """The logarithm of the density at x.

        The first axis of x has as many elements as alpha, or one fewer; what is no point of the
        simplex has density 0.

        Raises:
            ShapeError: axes of other sizes.
        """
        x, alpha = promote_inexact(*map(value, (x, alpha)))
        k = alpha.shape[0] if alpha.ndim == 1 else -1
        if k < 1 or not x.ndim or x.shape[0] not in (k, k - 1):
            raise ShapeError(
                f"stats.dirichlet was given x of shape {x.shape} and alpha of shape {alpha.shape}.",
                "alpha is a vector, and the first axis of x as long, or shorter by one.",
            )
        if x.shape[0] == k - 1:
            x = fnp.concatenate([x, 1 - fnp.sum(x, axis=0, keepdims=True)])
        inside = fnp.all(fnp.greater_equal(x, 0), axis=0)
        inside = inside & fnp.less(fnp.abs(fnp.sum(x, axis=0) - 1), 1e-6)
        column = fnp.reshape(alpha, (k, *(1 for _ in x.shape[1:])))
        found = fnp.sum(sp.xlogy(column - 1, x), axis=0)
        found = found - fnp.sum(sp.gammaln(alpha)) + sp.gammaln(fnp.sum(alpha))
        return fnp.where(inside, found, -math.inf)

    def pdf(self, x: Any, alpha: Any) -> Any:
        """The density at x."""
        return fnp.exp(self.logpdf(x, alpha))


@explained_methods
class MultivariateNormal(Joint):
    """Normally distributed vectors.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.stats import multivariate_normal
        >>> x, mean, cov = np.array([1.0, 2.0]), np.zeros(2), 2 * np.eye(2)
        >>> ftrace.grad(multivariate_normal.logpdf)(x, mean, cov)
        array([-0.5, -1. ])
    """

    name = "multivariate_normal"

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """The logarithm of the density at the vectors along the last axis of x.

        `mean` is a vector (None: zeros); `cov` a matrix, the vector of its diagonal, or a number.

        Raises:
            ShapeError: sizes that do not fit.
            DomainError: complex numbers, or a plain covariance that is not finite.
            RuleError: a covariance that may be singular.
            LinAlgError: one that is not positive definite, where the program runs.
        """
        if allow_singular:
            raise RuleError(
                "multivariate_normal of traced arguments takes no singular covariance.",
                "Leave allow_singular out, and add a small multiple of the unit matrix.",
            )
        given = (x, 0.0 if mean is None else mean, cov)
        x, centre, cov = promote_inexact(*map(value, given))
        if x.dtype.kind == "c":
            raise DomainError("multivariate_normal was given complex numbers.", "Pass real ones.")
        if not _is_finite(cov):
            raise DomainError("The covariance is not finite.", "Pass a positive definite matrix.")
        d = max(centre.shape[-1] if centre.ndim else 1, cov.shape[-1] if cov.ndim else 1)
        x = x[..., None] if x.ndim == 0 or (d == 1 and x.ndim == 1) else x
        zero = mean is None or d == 1
        mean = fnp.broadcast_to(centre, (d,)) if zero and not centre.ndim else centre
        cov = cov if cov.ndim == 2 else fnp.eye(d, dtype=cov.dtype) * cov
        if cov.shape != (d, d) or x.shape[-1] != d or mean.shape != (d,):
            raise ShapeError(
                f"multivariate_normal was given x {x.shape}, mean {mean.shape}, cov {cov.shape}.",
                "The last axis of x, the mean and both axes of the covariance have one size.",
            )
        root = fnp.linalg.cholesky(cov)
        away = fnp.reshape(x - mean, (-1, d))
        white = solve_triangular(root, away.T, lower=True)
        half = fnp.sum(fnp.log(fnp.diagonal(root)))
        found = -0.5 * (fnp.sum(white * white, axis=0) + d * math.log(2 * math.pi)) - half
        return fnp.reshape(found, x.shape[:-1])

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
        """The density at the vectors along the last axis of x."""
        return fnp.exp(self.logpdf(x, mean, cov, allow_singular))


multinomial = Multinomial()
dirichlet = Dirichlet()
multivariate_normal = MultivariateNormal()

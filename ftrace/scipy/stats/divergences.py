"""How far observed frequencies are from expected ones."""

from typing import Any, Final, NamedTuple

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import DomainError
from ftrace.core.registration import register_record
from ftrace.numpy.promote import one_axis, promote_inexact, static_int, value
from ftrace.numpy.refusing import refuse
from ftrace.scipy.borrowing import scipys
from ftrace.scipy.special import chdtrc, xlogy

_POWERS: Final = {
    **{"pearson": 1.0, "log-likelihood": 0.0, "freeman-tukey": -0.5, "mod-log-likelihood": -1.0},
    **{"neyman": -2.0, "cressie-read": 2 / 3},
}


class Divergence(NamedTuple):
    """What a test of frequencies finds.

    Attributes:
        statistic: the divergence.
        pvalue: the probability of one that is greater, by the chi-square distribution.
    """

    statistic: Any
    pvalue: Any


register_record(Divergence)


def _summands(power: float, observed: Any, expected: Any) -> Any:
    if power == 1:
        return fnp.square(observed - expected) / expected
    if power == 0:
        return 2 * xlogy(observed, observed / expected)
    if power == -1:
        return 2 * xlogy(expected, expected / observed)
    ratio = observed * ((observed / expected) ** power - 1)
    return ratio / (0.5 * power * (power + 1))


def _together(f_obs: Any, f_exp: Any, axis: Any) -> tuple[Any, Any, int]:
    """Frequencies of one shape, and the axis along which they are summed."""
    (observed,) = promote_inexact(value(f_obs))
    observed = fnp.astype(observed, float)
    if axis is None:
        observed, axis = fnp.ravel(observed), 0
        f_exp = None if f_exp is None else fnp.ravel(value(f_exp))
    axis = one_axis(axis, typeof(observed).ndim)
    if f_exp is None:
        return observed, fnp.mean(observed, axis=axis, keepdims=True), axis
    observed, expected = fnp.broadcast_arrays(observed, fnp.astype(value(f_exp), float))
    return observed, expected, axis


@scipys("scipy.stats", asked=False)
def power_divergence(
    f_obs: Any, f_exp: Any = None, ddof: int = 0, axis: Any = 0, lambda_: Any = None
) -> Divergence:
    """A divergence of observed from expected frequencies, of the family of Cressie and Read.

    Args:
        f_obs: observed frequencies.
        f_exp: expected ones; None for their mean.
        ddof: what is subtracted from the degrees of freedom.
        axis: along which frequencies are; None for all elements.
        lambda_: the power, or "pearson" (1, the default), "log-likelihood" (0), "freeman-tukey",
            "mod-log-likelihood", "neyman" or "cressie-read".

    Returns:
        The statistic and its p-value.

    Raises:
        DomainError: another name.
        ValueError: sums that are not those of the expected frequencies; when it runs.

    Source:
        N. Cressie and T. R. C. Read, "Multinomial goodness-of-fit tests", 1984.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.stats import power_divergence
        >>> f = lambda x: power_divergence(x, lambda_="log-likelihood").statistic
        >>> ftrace.grad(f)(np.array([1.0, 2.0, 3.0])).round(4)
        array([-1.3863,  0.    ,  0.8109])
    """
    power = _POWERS.get(lambda_, lambda_) if type(lambda_) is str else lambda_
    if type(power) is str:
        raise DomainError(
            f"power_divergence has no lambda_={power!r}.", f"Use one of {', '.join(_POWERS)}."
        )
    return _compared(f_obs, f_exp, ddof, axis, 1.0 if power is None else float(power), True)


@scipys("scipy.stats", asked=False)
def chisquare(
    f_obs: Any, f_exp: Any = None, ddof: int = 0, axis: Any = 0, *, sum_check: bool = True
) -> Divergence:
    """Pearson's test whether frequencies are those that are expected.

    Args:
        f_obs, f_exp, ddof, axis: as in `power_divergence`.
        sum_check: whether sums must be those of the expected frequencies.

    Returns:
        The statistic and its p-value.

    Raises:
        ValueError: other sums; when it runs.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.stats import chisquare
        >>> ftrace.jit(lambda x: chisquare(x).statistic)(np.array([1.0, 2.0, 3.0]))
        np.float64(1.0)
    """
    return _compared(f_obs, f_exp, ddof, axis, 1.0, sum_check)


def _compared(
    f_obs: Any, f_exp: Any, ddof: int, axis: Any, power: float, sum_check: bool
) -> Divergence:
    observed, expected, along = _together(f_obs, f_exp, axis)
    if f_exp is not None and sum_check:
        sums = [fnp.sum(v, axis=along) for v in (observed, expected)]
        away = fnp.abs(sums[0] - sums[1]) / fnp.minimum(*sums)
        words = "The sums of the observed and of the expected frequencies differ."
        refuse(away > np.sqrt(np.finfo(float).eps), ValueError, words)
    statistic = fnp.sum(_summands(power, observed, expected), axis=along)
    freedom = float(typeof(observed).shape[along] - 1 - static_int(ddof, "ddof"))
    return Divergence(statistic, chdtrc(freedom, statistic))

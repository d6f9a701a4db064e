"""scipy.special's ufuncs on tracers: which row each one is, by the ufunc's name.

SciPy is not imported: a user who calls `scipy.special.erf(t)` brings the ufunc along.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.numpy import ufuncs
from ftrace.primitives import special as s

ROWS: Final[dict[str, Callable[..., Any]]] = {
    "erf": s.erf,
    "erfc": s.erfc,
    "erfinv": s.erf_inv,
    "ndtri": s.ndtri,
    "log_ndtr": s.log_ndtr,
    "expit": s.logistic,
    "gamma": s.gamma,
    "gammaln": s.lgamma,
    "psi": s.digamma,
    "digamma": s.digamma,
    "xlogy": s.xlogy,
    "gammainc": s.igamma,
    "gammaincc": s.igammac,
    "i0": s.i0,
    "i1": s.i1,
    "i0e": s.i0e,
    "i1e": s.i1e,
    "iv": s.bessel_iv,
    "ive": s.bessel_ive,
    "jv": s.bessel_jv,
}


def find(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """The traced implementation of a ufunc of SciPy, if there is one."""
    row = ROWS.get(ufunc.__name__.lstrip("_"))
    if row is None:
        return None

    def traced(*xs: Any, **options: Any) -> Any:
        return ufuncs.general(ufunc, xs[: ufunc.nin], xs[ufunc.nin :], options, row)

    return traced

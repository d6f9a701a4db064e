"""Rosenbrock's function with its derivatives, as SciPy has them for tests of minimisers."""

from typing import Any

import ftrace.numpy as fnp
from ftrace.numpy.promote import value
from ftrace.scipy.borrowing import scipys


@scipys("scipy.optimize")
def rosen(x: Any) -> Any:
    """Rosenbrock's function: the sum of 100 (x[i+1] - x[i]**2)**2 + (1 - x[i])**2.

    Args:
        x: a vector of numbers; further axes are kept.

    Returns:
        A number; an array where x has further axes.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.optimize import rosen
        >>> ftrace.grad(rosen)(np.array([1.0, 2.0, 4.0]))
        array([-400.,  202.,    0.])
    """
    x = value(x)
    steep, near = x[1:] - x[:-1] ** 2.0, 1 - x[:-1]
    return fnp.sum(100.0 * steep**2.0 + near**2.0, axis=0)


@scipys("scipy.optimize")
def rosen_der(x: Any) -> Any:
    """The gradient of Rosenbrock's function.

    Args:
        x: a vector of numbers.

    Returns:
        A vector like x.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.optimize import rosen_der
        >>> rosen_der(np.array([1.0, 2.0]))
        array([-400.,  200.])
    """
    x = value(x)
    steep = x[1:] - x[:-1] ** 2
    left = -400 * x[:-1] * steep - 2 * (1 - x[:-1])
    none = 0 * x[:1]
    return fnp.concatenate([left, none]) + fnp.concatenate([none, 200 * steep])


@scipys("scipy.optimize")
def rosen_hess(x: Any) -> Any:
    """The Hessian of Rosenbrock's function.

    Args:
        x: a vector of numbers.

    Returns:
        A matrix.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.optimize import rosen_hess
        >>> rosen_hess(np.array([1.0, 1.0]))
        array([[ 802., -400.],
               [-400.,  200.]])
    """
    x = fnp.atleast_1d(x)
    none = 0 * x[:1]
    left = 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
    middle = fnp.concatenate([left, none]) + fnp.concatenate([none, 200 + 0 * x[1:]])
    beside = fnp.diag(-400 * x[:-1], 1)
    return beside + beside.T + fnp.diag(middle)


@scipys("scipy.optimize")
def rosen_hess_prod(x: Any, p: Any) -> Any:
    """The Hessian of Rosenbrock's function times a vector.

    Args:
        x, p: vectors of numbers.

    Returns:
        A vector.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.optimize import rosen_hess_prod
        >>> rosen_hess_prod(np.array([1.0, 1.0]), np.array([1.0, 0.0]))
        array([ 802., -400.])
    """
    return fnp.matmul(rosen_hess(x), fnp.atleast_1d(p))

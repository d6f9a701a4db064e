"""`ravel_pytree`: a tree of arrays as one vector, and back.

For optimisers that want a vector: `scipy.optimize.minimize` over a dataclass of parameters. Works
on tracers like any other function, since it is written with `ftrace.numpy`.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace import numpy as fnp
from ftrace.core.avals import check_int, typeof
from ftrace.core.errors import ShapeError
from ftrace.core.tree import tree_flatten


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Put all leaves of a tree into one vector.

    Args:
        pytree: a tree of arrays and numbers.

    Returns:
        The vector, of the dtype to which NumPy promotes the leaves (float64 for a tree without
        leaves), and a function that takes a vector of this length back to a tree with the shapes
        and dtypes of the leaves.

    Raises:
        DtypeError: a Python int of more than 64 bits.
        ShapeError: by the returned function, for a vector of another shape.

    Example:
        >>> import numpy as np
        >>> vector, unravel = ravel_pytree({"w": np.ones((2, 2)), "b": np.zeros(1)})
        >>> vector
        array([0., 1., 1., 1., 1.])
        >>> unravel(2 * vector)["w"]
        array([[2., 2.],
               [2., 2.]])
    """
    leaves, treedef = tree_flatten(pytree)
    for leaf in leaves:
        if type(leaf) is int:
            check_int(leaf, np.iinfo(np.int64).max, "A leaf")
    avals = [typeof(leaf) for leaf in leaves]
    dtypes = [aval.dtype for aval in avals]
    sizes = [int(np.prod(aval.shape)) for aval in avals]
    ends = list(itertools.accumulate(sizes, initial=0))
    total, common = ends[-1], np.result_type(*dtypes) if dtypes else np.dtype(np.float64)

    def unravel(vector: Any) -> Any:
        if fnp.shape(vector) != (total,):
            raise ShapeError(
                f"unravel takes a vector of shape ({total},), got {fnp.shape(vector)}.",
                "Pass a vector of the length that ravel_pytree returned.",
            )
        parts = [
            fnp.reshape(vector[start : start + size], aval.shape).astype(aval.dtype)
            for aval, start, size in zip(avals, ends[:-1], sizes, strict=True)
        ]
        return treedef.unflatten(parts)

    if not leaves:
        return fnp.zeros(0, common), unravel
    parts = [fnp.ravel(fnp.asarray(leaf)).astype(common) for leaf in leaves]
    return fnp.concatenate(parts), unravel

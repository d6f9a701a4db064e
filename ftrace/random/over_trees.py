"""Normal samples with the structure of a tree: proposals of MCMC, momenta, initial parameters."""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError
from ftrace.core.nodes import kind_of
from ftrace.core.tree import broadcast_prefix, tree_flatten
from ftrace.random import normals
from ftrace.random.keys import split


def normal(
    key: Any, shape: Any = (), dtype: Any = np.float64, *, loc: Any = 0.0, scale: Any = 1.0
) -> Any:
    """Normal samples.

    Args:
        key: the key, uint32[2].
        shape: the shape of the result, or a tree of shapes (`ftrace.tree.shape`), each an int or a
            tuple of ints.
        dtype: a float or complex dtype; both parts of a complex sample have variance 1/2.
        loc: the mean, which may be an array; for a tree of shapes, a tree or the upper levels of
            one.
        scale: the standard deviation, likewise.

    Returns:
        An array of the shape and dtype, or the tree of them, whose arrays have keys of their own
        (`split`). It is differentiable by `loc` and `scale`.

    Raises:
        DtypeError, ShapeError: an argument of a wrong type or shape.
        TreeError: `loc` or `scale` is no prefix of the tree.

    Example:
        >>> import ftrace
        >>> ftrace.random.normal(ftrace.random.PRNGKey(0), (2,))
        array([-0.20584214, -0.78476578])
        >>> tree = ftrace.random.normal(ftrace.random.PRNGKey(0), {"x": (2, 2), "y": 4}, loc=100.0)
        >>> ftrace.tree.shape(tree)
        {'x': (2, 2), 'y': (4,)}
    """
    shape = getattr(shape, "tree", shape)
    if _is_shape(shape):
        return _moved(normals.standard_normal(key, shape, dtype), loc, scale)
    shapes, tree = tree_flatten(shape, is_leaf=_is_shape)
    keys = split(key, max(len(shapes), 1))[: len(shapes)]
    whole = tree.unflatten(range(len(shapes)))
    means, sizes = (broadcast_prefix(getattr(x, "tree", x), whole) for x in (loc, scale))
    parts = zip(keys, shapes, means, sizes, strict=True)
    return tree.unflatten(
        [_moved(normals.standard_normal(k, s, dtype), m, d) for k, s, m, d in parts]
    )


def normal_like(key: Any, tree: Any) -> Any:
    """Standard normal samples with the structure, shapes and dtypes of a tree.

    Args:
        key: the key, uint32[2].
        tree: containers of float or complex arrays and numbers.

    Returns:
        The same containers of samples, whose arrays have keys of their own (`split`).

    Raises:
        DtypeError: an array of integers.

    Example:
        >>> import numpy as np, ftrace
        >>> params = ftrace.tree.Vector({"w": np.ones(2), "b": 0.0})
        >>> momentum = ftrace.random.normal_like(ftrace.random.PRNGKey(0), params)
        >>> ftrace.tree.shape(params + 0.1 * momentum)
        {'w': (2,), 'b': ()}
    """
    leaves, structure = tree_flatten(tree)
    avals = [typeof(x) for x in leaves]
    for a in avals:
        if not is_inexact(a.dtype):
            raise DtypeError(
                f"normal_like: an array of the tree is {a}, and normal samples are floats.",
                "Convert it: `x.astype(float)`.",
            )
    keys = split(key, len(avals))
    return structure.unflatten(
        [normals.standard_normal(k, a.shape, a.dtype) for k, a in zip(keys, avals, strict=True)]
    )


def _is_shape(x: Any) -> bool:
    """Whether it is one shape, right or wrong, and no container of shapes."""
    if type(x) in (tuple, list):
        return not any(_is_node(n) for n in x)
    return not _is_node(x)


def _is_node(x: Any) -> bool:
    """Whether it is a container."""
    return kind_of(type(x)) is not None


def _moved(x: Any, loc: Any, scale: Any) -> Any:
    """Samples with another mean and deviation; the numbers 0 and 1 change nothing."""
    if _differs(scale, 1):
        x = x * fnp.asarray(scale, dtype=x.dtype)
    return x + fnp.asarray(loc, dtype=x.dtype) if _differs(loc, 0) else x


def _differs(x: Any, number: int) -> bool:
    return type(x) not in (int, float) or x != number

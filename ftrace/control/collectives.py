"""Collectives over a named axis of `vmap`: `psum`, `pmean`, `pmax`, `pmin`, `axis_index`.

Each is a row whose batching rule acts when it meets the axis of its name, and passes the row on
otherwise. Outside a `vmap` with that name there is nothing to collect: a named error.
"""

from typing import Any

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import int64
from ftrace.core.errors import AxisError
from ftrace.core.primitive import LINEAR, NONDIFFERENTIABLE, Primitive
from ftrace.core.tree import tree_map
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.elementwise import div, eq, mul
from ftrace.primitives.linear import NO_TRANSPOSE, reduce_sum
from ftrace.primitives.reduce import reduce_max, reduce_min


def _unbound(*args: Any, axis_name: Any) -> Any:
    raise AxisError(
        f"A collective over the axis {axis_name!r} ran outside any vmap with that name.",
        f"Call the function under ftrace.vmap(..., axis_name={axis_name!r}).",
    )


def _psum_batch(axis: Any, values: Any, dims: Any, *, axis_name: Any) -> Any:
    (x,), (d,) = values, dims
    if axis.name != axis_name:
        return psum_call(x, axis_name=axis_name), d
    if d is None:
        return mul(x, typeof(x).dtype.type(axis.size)), None
    return reduce_sum(x, axes=(d,)), None


def _same_type(x: ShapedArray, *, axis_name: Any) -> ShapedArray:
    return aval(x.shape, x.dtype)


psum_call = Primitive(
    name="psum",
    impl=_unbound,
    type=_same_type,
    jvp=LINEAR,
    transpose=lambda ct, x, axis_name: (psum_call(ct, axis_name=axis_name),),
    batch=_psum_batch,
    linear_in=(0,),
    doc="Sum over a named axis.",
)


def _index_batch(axis: Any, values: Any, dims: Any, *, axis_name: Any) -> Any:
    if axis.name != axis_name:
        return axis_index_call(axis_name=axis_name), None
    return iota(dtype=int64, shape=(axis.size,), dimension=0), 0


axis_index_call = Primitive(
    name="axis_index",
    impl=_unbound,
    type=lambda *, axis_name: aval((), int64),
    jvp=NONDIFFERENTIABLE,
    transpose=NO_TRANSPOSE,
    batch=_index_batch,
    doc="The index of this member along a named axis.",
)


def psum(x: Any, axis_name: Any) -> Any:
    """Sum over the members of the `vmap` axis of this name.

    Args:
        x: an array, or a container of arrays.
        axis_name: the name given to `vmap`.

    Raises:
        AxisError: no enclosing `vmap` has that name.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.vmap(lambda x: x / ftrace.lax.psum(x, "i"), axis_name="i")(np.array([1., 3.]))
        array([0.25, 0.75])
    """
    return tree_map(lambda leaf: psum_call(leaf, axis_name=axis_name), x)


def pmean(x: Any, axis_name: Any) -> Any:
    """Mean over the members of the `vmap` axis of this name.

    Args:
        x: an array, or a container of arrays, of floats or complex numbers.
        axis_name: the name given to `vmap`.
    """

    def mean(leaf: Any) -> Any:
        one = typeof(leaf).dtype.type(1)
        return div(psum_call(leaf, axis_name=axis_name), psum_call(one, axis_name=axis_name))

    return tree_map(mean, x)


def axis_index(axis_name: Any) -> Any:
    """The index of this member along the `vmap` axis of this name.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.vmap(lambda x: x + ftrace.lax.axis_index("i"), axis_name="i")(np.zeros(3))
        array([0., 1., 2.])
    """
    return axis_index_call(axis_name=axis_name)


def _extreme_batch(row: Any, fold: Any) -> Any:
    def batch(axis: Any, values: Any, dims: Any, *, axis_name: Any) -> Any:
        (x,), (d,) = values, dims
        if axis.name != axis_name:
            return row()(x, axis_name=axis_name), d
        return (x, None) if d is None else (fold(x, axes=(d,)), None)

    return batch


def _extreme_jvp(row: Any) -> Any:
    """The tangent of the extreme member; the mean of those of several."""

    def jvp(primals: Any, tangents: Any, *, axis_name: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = row()(x, axis_name=axis_name)
        kind = typeof(y).dtype
        same = convert_element_type(eq(x, y), new_dtype=kind)
        share = div(same, psum_call(same, axis_name=axis_name))
        return y, psum_call(mul(t, share), axis_name=axis_name)

    return jvp


pmax_call = Primitive(
    name="pmax",
    impl=_unbound,
    type=_same_type,
    jvp=_extreme_jvp(lambda: pmax_call),
    transpose=NO_TRANSPOSE,
    batch=_extreme_batch(lambda: pmax_call, reduce_max),
    doc="Maximum over a named axis.",
)
pmin_call = Primitive(
    name="pmin",
    impl=_unbound,
    type=_same_type,
    jvp=_extreme_jvp(lambda: pmin_call),
    transpose=NO_TRANSPOSE,
    batch=_extreme_batch(lambda: pmin_call, reduce_min),
    doc="Minimum over a named axis.",
)


def pmax(x: Any, axis_name: Any) -> Any:
    """Maximum over the members of the `vmap` axis of this name.

    Args:
        x: an array, or a container of arrays.
        axis_name: the name given to `vmap`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.vmap(lambda x: x - ftrace.lax.pmax(x, "i"), axis_name="i")(np.array([1., 3.]))
        array([-2.,  0.])
    """
    return tree_map(lambda leaf: pmax_call(leaf, axis_name=axis_name), x)


def pmin(x: Any, axis_name: Any) -> Any:
    """Minimum over the members of the `vmap` axis of this name.

    Args:
        x: an array, or a container of arrays.
        axis_name: the name given to `vmap`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.vmap(lambda x: x - ftrace.lax.pmin(x, "i"), axis_name="i")(np.array([1., 3.]))
        array([0., 2.])
    """
    return tree_map(lambda leaf: pmin_call(leaf, axis_name=axis_name), x)

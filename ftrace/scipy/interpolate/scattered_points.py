"""Interpolation between scattered points: over triangles, and by the nearest one.

Which triangle or point is meant is looked up by SciPy when the program runs; the value then follows
from plain points and the values at them, which may be traced, as the places may.
"""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.errors import RuleError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.trace import Tracer
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import inexact, value
from ftrace.scipy.borrowing import at_run_time
from ftrace.scipy.interpolate.grids import check_fill, interp1d
from ftrace.scipy.interpolate.piecewise import column, floats, registered

_triangulation = lazy("scipy.spatial", "Delaunay")
_tree = lazy("scipy.spatial", "KDTree")


def _columns(points: Any, d: int) -> Any:
    """Points (..., d), of an array or of a tuple of coordinates."""
    if type(points) is tuple:
        return fnp.stack(fnp.broadcast_arrays(*map(value, points)), -1)
    found, size = value(points), typeof(value(points)).size
    return fnp.reshape(found, (-1, d)) if typeof(found).ndim == 1 and not size % d else found


def _plain_points(points: Any, name: str) -> Any:
    """Points as a plain array (n, d).

    Raises:
        RuleError: traced ones.
    """
    if any(isinstance(p, Tracer) for p in (points if type(points) is tuple else (points,))):
        raise RuleError(
            f"{name} was given traced points.",
            "Pass plain points; values and places may be traced. RBFInterpolator takes both.",
        )
    found = np.stack(np.broadcast_arrays(*points), -1) if type(points) is tuple else points
    found = np.asarray(found, float)
    return found[:, None] if found.ndim == 1 else found


class _Scattered:
    """What interpolators between scattered points share.

    Attributes:
        found: SciPy's triangulation or tree of the points.
        offset, scale: what places are told from before it is asked.
        values: at the points.
    """

    found: Any
    offset: Any
    scale: Any
    values: Any

    def take(self, points: Any, values: Any, rescale: bool) -> Any:
        """Keep values; give plain points, about their mean in units of their extent if rescaled.

        Raises:
            ShapeError: another number of values.
        """
        self.offset, self.scale, self.values = 0.0, 1.0, value(values)
        if len(points) != (typeof(self.values).shape or (0,))[0]:
            raise ShapeError(
                f"{type(self).__name__} was given {len(points)} points, and values of shape "
                f"{typeof(self.values).shape}.",
                "Give one for each, along the first axis.",
            )
        if rescale:
            self.offset, extent = points.mean(axis=0), np.ptp(points, axis=0)
            self.scale = np.where(extent > 0, extent, 1.0)
        return (points - self.offset) / self.scale

    def adopt(self, other: Any, found: Any, values: Any) -> None:
        """Be what SciPy's interpolator is."""
        self.found, self.values, self.offset, self.scale = found, values, 0.0, 1.0
        if other.scale is not None:
            self.offset, self.scale = other.offset, other.scale

    def places(self, args: Any, d: int) -> Any:
        """Places (..., d) in the units of the points.

        Raises:
            ShapeError: places of another number of coordinates.
        """
        at = _columns(args[0] if len(args) == 1 else args, d)
        if typeof(at).shape[-1:] != (d,):
            raise ShapeError(
                f"Places of shape {typeof(at).shape} were asked for between points of {d} "
                "coordinates.",
                "The last axis has their coordinates.",
            )
        return (floats(at) - self.offset) / self.scale


@registered(("values", "fill_value", "offset", "scale"), ("found",))
@explained_methods
class LinearNDInterpolator(_Scattered):
    """A function that is linear on each triangle (or simplex) of scattered points.

    Args:
        points: plain ones, (n, d), a tuple of coordinates, or SciPy's Delaunay triangulation.
        values: at them, (n, ...).
        fill_value: what is given outside of all triangles.
        rescale: whether triangles are those of points in units of their extent.

    Raises:
        RuleError: traced points.
        ShapeError: another number of values.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import LinearNDInterpolator
        >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> f = LinearNDInterpolator(points, np.array([1.0, 2.0, 4.0]))
        >>> ftrace.grad(lambda p: f(p)[0])(np.array([0.2, 0.3])).round(6)
        array([1., 3.])
    """

    def __init__(
        self, points: Any, values: Any, fill_value: Any = np.nan, rescale: bool = False
    ) -> None:
        values, self.fill_value = inexact(value(values)), fill_value
        check_fill(fill_value, values)
        if hasattr(points, "simplices"):
            self.found = points
            self.take(points.points, values, False)
        else:
            plain = _plain_points(points, type(self).__name__)
            self.found = _triangulation(self.take(plain, values, rescale))

    @classmethod
    def from_scipy(cls, other: Any) -> "LinearNDInterpolator":
        """The same as an interpolator of SciPy's."""
        made = object.__new__(cls)
        made.adopt(other, other.tri, other.values.reshape((-1, *other.values_shape)))
        made.fill_value = other.fill_value
        return made

    def __call__(self, *args: Any) -> Any:
        """The values at places: an array with coordinates last, or coordinates one by one."""
        simplices, maps = fnp.asarray(self.found.simplices), fnp.asarray(self.found.transform)
        d = maps.shape[-1]
        at = self.places(args, d)
        flat = fnp.reshape(at, (-1, d))
        which = at_run_time(self.found.find_simplex, flat)
        maps = getitem(maps, which)
        shares = fnp.einsum("nij,nj->ni", maps[:, :-1], flat - maps[:, -1])
        shares = fnp.concatenate([shares, 1 - fnp.sum(shares, -1, keepdims=True)], -1)
        corners = getitem(self.values, getitem(simplices, which))
        ones = (1,) * (typeof(corners).ndim - 2)
        found = fnp.sum(fnp.reshape(shares, (*typeof(shares).shape, *ones)) * corners, axis=1)
        found = fnp.where(column(fnp.less(which, 0), found), self.fill_value, found)
        return fnp.reshape(found, (*typeof(at).shape[:-1], *typeof(self.values).shape[1:]))


@registered(("values", "offset", "scale"), ("found",))
@explained_methods
class NearestNDInterpolator(_Scattered):
    """A function that has the value of the nearest of scattered points.

    Args:
        x: plain points, (n, d), or a tuple of coordinates.
        y: values at them, (n, ...).
        rescale: whether the nearest is meant in units of the points' extent.
        tree_options: of SciPy's tree of points.

    Raises:
        RuleError: traced points.
        ShapeError: another number of values.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import NearestNDInterpolator
        >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> f = lambda y: NearestNDInterpolator(points, y)(0.8, 0.3)
        >>> ftrace.grad(f)(np.array([1.0, 2.0, 4.0]))
        array([0., 1., 0.])
    """

    def __init__(
        self, x: Any, y: Any, rescale: bool = False, tree_options: dict[str, Any] | None = None
    ) -> None:
        plain = self.take(_plain_points(x, type(self).__name__), y, rescale)
        self.found = _tree(plain, **(tree_options or {}))

    @classmethod
    def from_scipy(cls, other: Any) -> "NearestNDInterpolator":
        """The same as an interpolator of SciPy's."""
        made = object.__new__(cls)
        made.adopt(other, other.tree, other.values.reshape((-1, *other.values_shape)))
        return made

    def __call__(self, *args: Any) -> Any:
        """The values at places: an array with coordinates last, or coordinates one by one."""
        at = self.places(args, self.found.m)
        return getitem(self.values, at_run_time(self._nearest, at))

    def _nearest(self, at: Any) -> Any:
        return self.found.query(at)[1]


def griddata(
    points: Any,
    values: Any,
    xi: Any,
    method: str = "linear",
    fill_value: Any = np.nan,
    rescale: bool = False,
) -> Any:
    """Values at places between scattered points.

    Args:
        points: plain ones, (n, d), a tuple of coordinates, or a vector of places on a line.
        values: at them, (n, ...).
        xi: places, an array with coordinates last or a tuple of coordinates.
        method: "linear" or "nearest"; on a line also "cubic".
        fill_value: what is given outside of all points; not looked at by "nearest".
        rescale: whether distances are in units of the points' extent.

    Returns:
        An array of the shape of the places, and of a value.

    Raises:
        RuleError: traced points, or another method.
        ShapeError: another number of values or of coordinates.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import griddata
        >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> f = lambda v: griddata(points, v, (0.25, 0.5))
        >>> ftrace.grad(f)(np.array([1.0, 2.0, 4.0]))
        array([0.25, 0.25, 0.5 ])
    """
    plain = _plain_points(points, "griddata")
    if plain.shape[1] == 1:
        at = value(xi[0]) if type(xi) is tuple else value(xi)
        order = np.argsort(plain[:, 0])
        outside = "extrapolate" if method == "nearest" else fill_value
        ordered = getitem(value(values), order)
        return interp1d(plain[order, 0], ordered, method, 0, True, False, outside)(at)
    if method == "nearest":
        return NearestNDInterpolator(plain, values, rescale)(xi)
    if method != "linear":
        raise RuleError(
            f"griddata has no method {method!r} of several coordinates.",
            'Use "linear" or "nearest", or RBFInterpolator, which is smooth.',
        )
    return LinearNDInterpolator(plain, values, fill_value, rescale)(xi)

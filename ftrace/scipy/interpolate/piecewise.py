"""Polynomials in pieces: `PPoly`, which cubic interpolators are, and what all of them share.

Coefficients and breakpoints are leaves of a pytree, so they may be traced; how values outside are
found, and which axis is interpolated, is static.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.avals import typeof
from ftrace.core.device import on_device
from ftrace.core.errors import DomainError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.registration import register_pytree_node
from ftrace.core.trace import Tracer
from ftrace.core.tree import tree_leaves
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import inexact, one_axis, promote_inexact, static_int, value
from ftrace.numpy.refusing import refuse
from ftrace.numpy.stand_ins import ask

T = TypeVar("T")


def registered(traced: Sequence[str], static: Sequence[str]) -> Any:
    """A decorator: the class is a pytree of some attributes, with others that are static."""

    def decorate(cls: type[T]) -> type[T]:
        def take_apart(x: Any) -> tuple[Any, Any]:
            return tuple(getattr(x, n) for n in traced), tuple(getattr(x, n) for n in static)

        def put_together(data: Any, children: Any) -> Any:
            made: Any = object.__new__(cls)
            for name, given in zip((*traced, *static), (*children, *data), strict=True):
                setattr(made, name, given)
            return made

        register_pytree_node(cls, take_apart, put_together)
        return cls

    return decorate


def asked(name: str, *args: Any, **options: Any) -> None:
    """Raise what SciPy's own class or function raises on such data, whatever traced values are."""
    ask(lazy("scipy.interpolate", name), args, options, f"scipy.interpolate.{name}")


def scipys_own(name: str, *args: Any, **options: Any) -> Any:
    """What SciPy makes of plain data; None of traced data, about which it has been asked."""
    if not any(isinstance(x, Tracer) or on_device(x) for x in tree_leaves((args, options))):
        return lazy("scipy.interpolate", name)(*args, **options)
    return asked(name, *args, **options)


def floats(x: Any) -> Any:
    """Numbers as an array in double precision."""
    return fnp.asarray(value(x), dtype=float)


def interval(x: Any, at: Any) -> Any:
    """The index of the breakpoint at or before each place, of an interval with an end."""
    found = fnp.searchsorted(x, at, side="right") - 1
    return fnp.clip(found, 0, typeof(x).shape[0] - 2)


def placed(found: Any, rank: int, axis: int) -> Any:
    """The first axes, those of the places that were asked for, in the place of the data's axis."""
    return fnp.moveaxis(found, tuple(range(rank)), tuple(range(axis, axis + rank)))


def samples(x: Any, y: Any, axis: int) -> tuple[Any, Any, int]:
    """Places and samples of one dtype, the axis of the samples first, and which one it is.

    Raises:
        ShapeError: places that are no vector, or not as many as samples, or fewer than two.
    """
    x, y = promote_inexact(value(x), value(y))
    axis = one_axis(axis, typeof(y).ndim)
    y = fnp.moveaxis(y, axis, 0)
    if typeof(x).ndim != 1 or typeof(x).shape[0] != typeof(y).shape[0] or typeof(x).shape[0] < 2:
        raise ShapeError(
            f"An interpolator was given places {typeof(x).shape} for samples along an axis of "
            f"{typeof(y).shape[0]}.",
            "Places are a vector of at least two numbers, as long as that axis.",
        )
    return x, y, axis


def column(v: Any, like: Any) -> Any:
    """A vector along the first axis of an array."""
    return fnp.reshape(v, (-1, *(1,) * (typeof(like).ndim - 1)))


@registered(("c", "x"), ("extrapolate", "axis"))
@explained_methods
class PPoly:
    """A polynomial in each interval: the sum of c[m, i] (x - x[i])**(k - m).

    Args:
        c: coefficients, of shape (k + 1, intervals, ...), the highest power first.
        x: breakpoints, a vector that increases.
        extrapolate: whether the outer polynomials serve outside, else NaN; or "periodic".
        axis: where the axis of the places is put in the results.

    Attributes:
        c, x, extrapolate, axis: as above.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.scipy.interpolate import PPoly
        >>> p = PPoly(np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([0.0, 1.0, 2.0]))
        >>> float(p(1.5)), float(ftrace.grad(p)(1.5))
        (2.0, 2.0)
    """

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        self.c, self.x = inexact(value(c)), inexact(value(x))
        sizes, places = typeof(self.c).shape, typeof(self.x).shape
        if len(places) != 1 or places[0] < 2 or sizes[1:2] != (places[0] - 1,) or not sizes[0]:
            raise ShapeError(
                f"A polynomial in pieces was given coefficients {sizes} and breakpoints {places}.",
                "Breakpoints are a vector of two numbers or more; c has an interval less.",
            )
        self.extrapolate = True if extrapolate is None else extrapolate
        self.axis = axis

    @classmethod
    def from_scipy(cls, other: Any) -> "PPoly":
        """The same as an interpolator of SciPy's."""
        return PPoly(other.c, other.x, other.extrapolate, getattr(other, "axis", 0))

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """The value at places, or the derivative of order nu."""
        nu = static_int(nu, "nu")
        if nu < 0:
            raise DomainError(f"A derivative of order {nu} was asked for.", "antiderivative() is.")
        if nu:
            return self.derivative(nu)(x, 0, extrapolate)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        at, c, ends = promote_inexact(value(x), self.c, self.x)
        if extrapolate == "periodic":
            at = ends[0] + (at - ends[0]) % (ends[-1] - ends[0])
        flat = fnp.ravel(at)
        i = interval(ends, flat)
        pieces = getitem(c, (slice(None), i))
        away = column(flat - getitem(ends, i), pieces[0])
        found = pieces[0]
        for piece in pieces[1:]:
            found = found * away + piece
        if not extrapolate:
            inside = fnp.greater_equal(flat, ends[0]) & fnp.less_equal(flat, ends[-1])
            found = fnp.where(column(inside, found), found, fnp.nan)
        found = fnp.reshape(found, (*typeof(at).shape, *typeof(c).shape[2:]))
        return placed(found, typeof(at).ndim, self.axis)

    def derivative(self, nu: int = 1) -> "PPoly":
        """The derivative of order nu, a polynomial in pieces; a negative order integrates."""
        nu = static_int(nu, "nu")
        if nu < 0:
            return self.antiderivative(-nu)
        c = self.c
        for _ in range(nu):
            k = typeof(c).shape[0] - 1
            powers = column(fnp.arange(k, 0, -1), c)
            c = c[:-1] * fnp.astype(powers, typeof(c).dtype) if k else 0 * c
        return PPoly(c, self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> "PPoly":
        """The integral from the first breakpoint, of order nu."""
        c, x, nu = self.c, self.x, static_int(nu, "nu")
        for _ in range(nu):
            k = typeof(c).shape[0]
            powers = fnp.astype(column(fnp.arange(k, 0, -1), c), typeof(c).dtype)
            c = c / powers
            width = column(fnp.diff(x), c[0])
            whole = 0 * c[0]
            for piece in c:
                whole = (whole + piece) * width
            before = fnp.cumsum(whole, axis=0) - whole
            c = fnp.concatenate([c, before[None]])
        periodic = self.extrapolate == "periodic"
        return PPoly(c, x, False if periodic else self.extrapolate, self.axis)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b."""
        if fnp.ndim(a) or fnp.ndim(b):
            raise ShapeError("An integral was asked for between arrays.", "Pass two numbers.")
        refuse(fnp.isnan(a) | fnp.isnan(b), ValueError, "Integral bounds not in order")
        whole = self.antiderivative()
        return whole(b, 0, extrapolate) - whole(a, 0, extrapolate)

"""Polynomials by their coefficients, highest power first: polyval, polymul, polyder and kin.

How many zeros lead a polynomial decides about shapes, so where values are not known the first
coefficient that `roots` is given, and of the remainder of `polydiv`, is taken to be none, which is
checked when the function runs.
"""

from typing import Any, Final

import numpy as np

from ftrace.control.rows.raising import fail_where, some
from ftrace.core.avals import typeof
from ftrace.core.device import free, to_host
from ftrace.core.dtypes import complex_dtype
from ftrace.core.errors import ShapeError
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.numpy import linalg, reductions, ufuncs
from ftrace.numpy.elementary import multiply
from ftrace.numpy.joining import joined
from ftrace.numpy.lowerings import constant_like
from ftrace.numpy.matrices import vander
from ftrace.numpy.matrix_products import contract
from ftrace.numpy.numerics import convolve, divide, subtract
from ftrace.numpy.promote import (
    cast,
    common_dtype,
    floating,
    known,
    numpy_function,
    promote,
    static_int,
    strong,
    unsupported,
    value,
)
from ftrace.numpy.shaping import atleast, index_axis, slice_axis
from ftrace.primitives import elementwise as e
from ftrace.primitives.shape import expand_dims, reshape
from ftrace.primitives.slicing import pad as pad_row


def _coefficients(p: Any) -> Any:
    return atleast(strong(value(p)), 1)


@numpy_function
def polyval(p: Any, x: Any) -> Any:
    """The value of a polynomial, by Horner's rule."""
    p, x = strong(value(p)), strong(value(x))
    dtype = common_dtype(p, x)
    found = constant_like(x, dtype, 0)
    for i in range(typeof(p).shape[0]):
        found = ufuncs.apply(np.add, multiply(found, x), index_axis(p, i, 0))
    return found


def _aligned(a: Any, b: Any) -> tuple[Any, Any]:
    """Coefficients of one length, zeros in front of the shorter."""
    x, y = promote(_coefficients(a), _coefficients(b))
    n = max(typeof(x).shape[0], typeof(y).shape[0])
    zero = typeof(x).dtype.type(0)
    x, y = (pad_row(v, zero, padding_config=((n - typeof(v).shape[0], 0, 0),)) for v in (x, y))
    return x, y


@numpy_function
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials."""
    return ufuncs.apply(np.add, *_aligned(a1, a2))


@numpy_function
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials."""
    return subtract(*_aligned(a1, a2))


@numpy_function
def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials."""
    factors = map(_coefficients, (a1, a2))
    return convolve(*(x if typeof(x).size else np.zeros(1, typeof(x).dtype) for x in factors))


@numpy_function
def polyder(p: Any, m: int = 1) -> Any:
    """The m-th derivative of a polynomial."""
    p = _coefficients(p)
    m = static_int(m, "m")
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    for _ in range(m):
        n = typeof(p).shape[0] - 1
        powers = free(np.arange(n, 0, -1))
        p = multiply(slice_axis(p, 0, n, 0), powers)
    return ufuncs.apply(np.positive, p)


@numpy_function
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The m-th antiderivative of a polynomial, with constants k."""
    p = _coefficients(p)
    m = static_int(m, "m")
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = [0.0] * m if k is None else [k] * m if np.ndim(k) == 0 else list(k)
    if any(np.ndim(each) for each in constants):
        raise ValueError("the constants of an integral are numbers")
    for i in range(m):
        powers = free(np.arange(typeof(p).shape[0], 0, -1))
        last = atleast(strong(value(constants[i])), 1)
        p = joined([divide(p, powers), last], 0)
    return ufuncs.apply(np.positive, p)


@numpy_function
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """Quotient and remainder of two polynomials; the divisor's degree must be known."""
    u, v = (ufuncs.add(_coefficients(x), 0.0) for x in (u, v))
    dtype = common_dtype(u, v)
    u, v = cast(u, dtype), cast(v, dtype)
    m, n = typeof(u).shape[0] - 1, typeof(v).shape[0] - 1
    if m < 0:
        raise IndexError("index 0 is out of bounds for axis 0 with size 0")
    if m < n:
        return slice_axis(u, 0, 1, 0) * 0, _trimmed(ufuncs.apply(np.positive, u), 0)
    scale = divide(1.0, index_axis(v, 0, 0))
    quotient, gone = [], []
    rest = u
    for k in range(m - n + 1):
        digit = multiply(index_axis(rest, 0, 0), scale)
        quotient.append(atleast(digit, 1))
        head = subtract(slice_axis(rest, 0, n + 1, 0), multiply(digit, v))
        gone.append(slice_axis(head, 0, 1, 0))
        tail = slice_axis(rest, n + 1, m + 1 - k, 0)
        rest = joined([slice_axis(head, 1, n + 1, 0), tail], 0)
    return joined(quotient, 0), _trimmed(joined([*gone, rest], 0), len(gone))


def _trimmed(rest: Any, start: int) -> Any:
    """The remainder without zeros in front; where values are not known it begins at `start`.

    What is left of the coefficients before is zero but for rounding, of which NumPy asks, too.
    """
    last = typeof(rest).shape[0] - 1
    values = rest.known(exact=True) if isinstance(rest, Tracer) else rest
    if values is UNKNOWN:
        start = min(start, last)
        n = min(start + 1, last)  # a last coefficient stays, zero or not
        is_zero = e.le(*promote(ufuncs.apply(np.absolute, slice_axis(rest, 0, n, 0)), _CLOSE))
        fail_where(some(e.ne(is_zero, free(np.arange(n) < start))), (), _other_length)
    else:
        large = np.flatnonzero(~(np.abs(to_host(values)) <= _CLOSE))
        start = int(large[0]) if len(large) else last
    return slice_axis(rest, start, last + 1, 0)


_CLOSE: Final = 1e-8  # to zero: the tolerance of numpy.allclose, by which polydiv asks


def _other_length() -> None:
    raise ShapeError(
        "numpy.polydiv leaves out the coefficients in front of the remainder that are close to "
        "zero, and those of traced polynomials are not just the ones that division makes zero: "
        "how many are left would depend on values.",
        "Divide outside of the traced function; coefficients in float32 may need float64.",
    )


@numpy_function
def poly(seq_of_zeros: Any) -> Any:
    """The polynomial with these roots; complex where they are, also if they come in pairs."""
    roots = _coefficients(seq_of_zeros)
    if typeof(roots).ndim != 1:
        raise ShapeError(
            f"numpy.poly was given an array of shape {typeof(roots).shape}.",
            "Pass a vector of roots: of a matrix, numpy.linalg.eigvals(a).",
        )
    roots = cast(roots, np.dtype(np.mintypecode(typeof(roots).dtype.char)))
    found = one = free(np.ones(1, typeof(roots).dtype))
    for i in range(typeof(roots).shape[0]):
        minus = ufuncs.apply(np.negative, slice_axis(roots, i, i + 1, 0))
        found = convolve(found, joined([one, minus], 0))
    return found


@numpy_function
def roots(p: Any) -> Any:
    """The roots of a polynomial, complex, as the eigenvalues of its companion matrix."""
    p = _coefficients(p)
    if typeof(p).ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    values = p.known(exact=True) if isinstance(p, Tracer) else p
    if values is UNKNOWN:
        fail_where(some(e.eq(index_axis(p, 0, 0), 0)), (), _leading_zero)
    else:
        first = np.flatnonzero(np.asarray(to_host(values)))[:1].sum()
        p = slice_axis(p, int(first), typeof(p).shape[0], 0)
    n = typeof(p).shape[0] - 1
    p = floating(p)
    if n < 1:
        return free(np.zeros(0, complex_dtype(typeof(p).dtype)))
    row = ufuncs.apply(np.negative, divide(slice_axis(p, 1, n + 1, 0), index_axis(p, 0, 0)))
    below = free(np.eye(n - 1, n, dtype=typeof(p).dtype))
    return linalg.eigvals(joined([reshape(row, new_sizes=(1, n)), below], 0))


def _leading_zero() -> None:
    raise ShapeError(
        "numpy.roots leaves out zeros in front of the coefficients, and the first one of a traced "
        "polynomial is zero: how many roots there are would depend on values.",
        "Pass the coefficients from the first one that is not zero.",
    )


@numpy_function
def polyfit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The coefficients of the polynomial of a degree that is closest to points."""
    order = static_int(deg, "deg") + 1
    x, y = floating(x), floating(y)
    rank, count = typeof(y).ndim, typeof(x).shape[:1]
    if order < 1:
        raise ValueError("expected deg >= 0")
    if typeof(x).ndim != 1 or not typeof(x).size:
        raise TypeError("expected 1D vector for x")
    if rank not in (1, 2) or typeof(y).shape[:1] != count:
        raise TypeError("expected x and y to have same length")
    powers = vander(x, order)
    if w is not None:
        w = floating(w)
        if typeof(w).shape != count:
            raise TypeError("expected a 1-d array for weights, as long as y")
        column = expand_dims(w, dimensions=(1,))
        powers, y = multiply(powers, column), multiply(y, w if rank == 1 else column)
    scale = ufuncs.apply(np.sqrt, reductions.sum(ufuncs.apply(np.square, powers), axis=0))
    powers = divide(powers, scale)
    if rcond is None:
        rcond = count[0] * float(np.finfo(typeof(x).dtype).eps)
    found, residuals, rank_found, singular = linalg.lstsq(powers, y, rcond)
    found = divide(found, scale if rank == 1 else expand_dims(scale, dimensions=(1,)))
    if full:
        return found, residuals, rank_found, singular, rcond
    return (found, _covariance(powers, scale, residuals, cov, rank)) if cov else found


def _covariance(powers: Any, scale: Any, residuals: Any, cov: Any, rank: int) -> Any:
    """The covariance matrix of fitted coefficients."""
    n, order = typeof(powers).shape
    base = linalg.inv(contract(powers, powers, (0,), (0,)))
    base = divide(base, multiply(expand_dims(scale, dimensions=(1,)), scale))
    if cov != "unscaled":
        if n <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance")
        base = base if rank == 1 else expand_dims(base, dimensions=(2,))
        return multiply(base, divide(residuals, n - order))
    return base if rank == 1 else expand_dims(base, dimensions=(2,))


@numpy_function
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """A vector without its known zeros at the ends."""
    x = strong(value(filt))
    if typeof(x).ndim != 1:
        raise unsupported("numpy.trim_zeros", f"an array of {typeof(x).ndim} axes")
    if not {*trim.lower()} <= {"f", "b"}:
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    places = np.flatnonzero(known(x, "numpy.trim_zeros"))
    n = typeof(x).shape[0]
    first = int(places[0]) if len(places) else n
    last = int(places[-1]) + 1 if len(places) else n
    start = first if "f" in trim.lower() else 0
    stop = last if "b" in trim.lower() else n
    return slice_axis(x, start, max(start, stop), 0)

"""NumPy's function for each row that has one, with the row's parameters."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import special

# fmt: off
_SAME_NAME = (
    "add", "cbrt", "ceil", "copysign", "cos", "cosh", "exp", "exp2", "expm1", "floor",
    "floor_divide", "fmax", "fmin", "frexp", "gcd", "heaviside", "hypot", "isfinite", "isinf",
    "isnan", "lcm", "ldexp", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "modf",
    "nextafter", "sign", "signbit", "sin", "sinh", "spacing", "sqrt", "square", "tan", "tanh",
    "trunc",
)
# fmt: on
_UFUNCS = {
    **{name: name for name in _SAME_NAME},
    **{
        "neg": "negative",
        "sub": "subtract",
        "mul": "multiply",
        "div": "true_divide",
        "mod": "remainder",
        "rem": "fmod",
        "pow": "power",
        "abs": "absolute",
        "asin": "arcsin",
        "acos": "arccos",
        "atan": "arctan",
        "asinh": "arcsinh",
        "acosh": "arccosh",
        "atanh": "arctanh",
        "atan2": "arctan2",
        "max": "maximum",
        "min": "minimum",
        "conj": "conjugate",
        "eq": "equal",
        "ne": "not_equal",
        "lt": "less",
        "le": "less_equal",
        "gt": "greater",
        "ge": "greater_equal",
        "and": "bitwise_and",
        "or": "bitwise_or",
        "xor": "bitwise_xor",
        "not": "bitwise_not",
        "shift_left": "left_shift",
        "shift_right": "right_shift",
        "population_count": "bitwise_count",
        "round": "rint",
    },
}


# Where SciPy has the function, else a formula.
_SPECIAL = {
    **{
        name: name for name in ("erf", "erfc", "ndtri", "log_ndtr", "gamma", "digamma", "polygamma")
    },
    **{name: name for name in ("zeta", "xlogy", "i0", "i1", "i0e", "i1e")},
    **{"erf_inv": "erfinv", "lgamma": "gammaln", "igamma": "gammainc"},
    **{"igammac": "gammaincc", "bessel_iv": "iv", "bessel_ive": "ive", "bessel_jv": "jv"},
}


def _reduce(ufunc: Any) -> Callable[..., Any]:
    return lambda x, axes: ufunc.reduce(x, axis=axes, dtype=np.asarray(x).dtype)


def _accumulate(function: Any) -> Callable[..., Any]:
    def reference(x: Any, axis: int, reverse: bool) -> Any:
        turned = np.flip(x, axis) if reverse else x
        found = function(turned, axis=axis, dtype=x.dtype)
        return np.flip(found, axis) if reverse else found

    return reference


def _convert(x: Any, new_dtype: Any, **_: Any) -> Any:
    """The real part where a complex number becomes something else; NumPy only warns."""
    to_real = np.iscomplexobj(x) and new_dtype.kind not in "cb"
    return np.asarray(np.real(x) if to_real else x).astype(new_dtype)


def _bitcast(x: Any, new_dtype: Any) -> Any:
    """The bytes of each element read anew; a new or consumed axis is the last one."""
    old, new = np.asarray(x).dtype.itemsize, new_dtype.itemsize
    added = (old // new,) if old > new else ()
    kept = np.shape(x)[:-1] if old < new else np.shape(x)
    return np.frombuffer(np.asarray(x).tobytes(), new_dtype).reshape(kept + added)


def _dot_general(lhs: Any, rhs: Any, dimension_numbers: Any) -> Any:
    """Every contraction as one einsum."""
    (lc, rc), (lb, rb) = dimension_numbers
    left = list(range(np.ndim(lhs)))
    right = list(range(20, 20 + np.ndim(rhs)))
    for i, j in (*zip(lc, rc, strict=True), *zip(lb, rb, strict=True)):
        right[j] = left[i]
    free = [left[i] for i in range(np.ndim(lhs)) if i not in (*lc, *lb)]
    free += [right[j] for j in range(np.ndim(rhs)) if j not in (*rc, *rb)]
    return np.einsum(lhs, left, rhs, right, [*(left[i] for i in lb), *free])


def _pad(x: Any, value: Any, padding_config: Any) -> Any:
    """Interior, then outer padding, one axis at a time; negative amounts cut."""
    out = np.asarray(x)
    for axis, (low, high, interior) in enumerate(padding_config):
        n = out.shape[axis]
        shape = list(out.shape)
        shape[axis] = n + max(0, n - 1) * interior
        spaced = np.full(shape, value, out.dtype)
        spaced[(slice(None),) * axis + (slice(None, None, interior + 1),)] = out
        outer = [(0, 0)] * out.ndim
        outer[axis] = (max(low, 0), max(high, 0))
        out = np.pad(spaced, outer, constant_values=value)
        cut = slice(max(-low, 0), out.shape[axis] - max(-high, 0))
        out = out[(slice(None),) * axis + (cut,)]
    return out


def _window(start: Any, limit: Any, strides: Any = None) -> tuple[slice, ...]:
    strides = (1,) * len(start) if strides is None else strides
    return tuple(slice(*window) for window in zip(start, limit, strides, strict=True))


def _update_slice(x: Any, v: Any, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    out = np.array(x)
    out[_window(start_indices, limit_indices, strides)] = v
    return out


def _broadcast_in_dim(x: Any, shape: Any, broadcast_dimensions: Any) -> Any:
    expanded = [1] * len(shape)
    for i, n in zip(broadcast_dimensions, np.shape(x), strict=True):
        expanded[i] = n
    return np.broadcast_to(np.reshape(x, expanded), shape)


def _places(x: Any, indices: Any, axes: Any, mode: str) -> Iterator[tuple[Any, Any]]:
    """(position among the indices, place in x or None) one by one, by the rules of `mode`."""
    shape = np.broadcast_shapes(*(np.shape(i) for i in indices))
    columns = [np.broadcast_to(i, shape) for i in indices]
    for position in np.ndindex(shape):
        place: Any = [slice(None)] * x.ndim
        for column, axis in zip(columns, axes, strict=True):
            i, n = int(column[position]), x.shape[axis]
            if mode == "wrap":
                i %= n
            elif mode == "clip":
                i = min(max(i, 0), n - 1)
            elif not -n <= i < n:
                place = None
                break
            place[axis] = i
        yield position, place if place is None else tuple(place)


def _gather(x: Any, *indices: Any, axes: Any, mode: str) -> Any:
    shape = np.broadcast_shapes(*(np.shape(i) for i in indices))
    rest = tuple(n for a, n in enumerate(x.shape) if a not in axes)
    empty = np.nan if mode == "fill" and x.dtype.kind in "fc" else 0
    out = np.full(shape + rest, empty, x.dtype)
    for position, place in _places(x, indices, axes, mode):
        if place is not None:
            out[position] = x[place]
    return out


def _scatter(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def reference(x: Any, v: Any, *indices: Any, axes: Any, mode: str) -> Any:
        out = np.array(x)
        for position, place in _places(x, indices, axes, mode):
            if place is not None:
                out[place] = combine(out[place], v[position] if np.ndim(v) else v)
        return out

    return reference


def _clamped(shape: Any, sizes: Any, starts: Any) -> tuple[slice, ...]:
    first = [np.clip(int(i), 0, n - m) for i, n, m in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(i, i + m) for i, m in zip(first, sizes, strict=True))


def _dynamic_update_slice(x: Any, v: Any, *starts: Any) -> Any:
    out = np.array(x)
    out[_clamped(np.shape(x), np.shape(v), starts)] = v
    return out


def _sort(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    """One line after the other, as Python sorts tuples of keys."""
    out = [np.array(x) for x in operands]
    moved = [np.moveaxis(x, dimension, -1) for x in out]
    for line in np.ndindex(moved[0].shape[:-1]):
        keys = [np.unique(m[line], return_inverse=True)[1] for m in moved[:num_keys]]
        order = sorted(range(moved[0].shape[-1]), key=lambda i: tuple(k[i] for k in keys))
        for m in moved:
            m[line] = m[line][order]
    return out


def _split(x: Any, sizes: Any, axis: int) -> list[Any]:
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def _iota(dtype: Any, shape: Any, dimension: int) -> Any:
    return np.indices(shape, dtype)[dimension]


def _counts(shape: Any, window: Any, strides: Any, dilation: Any) -> list[int]:
    """How many windows fit along each axis."""
    sizes = zip(shape, window, strides, dilation, strict=True)
    return [len(range(0, n - (w - 1) * d, s)) for n, w, s, d in sizes]


def _insides(shape: Any, window: Any, strides: Any, dilation: Any) -> Iterator[tuple[Any, Any]]:
    """(which window, the slices of what is inside) one by one, as long as they lie in the array."""
    spans = [(w - 1) * d for w, d in zip(window, dilation, strict=True)]
    for place in np.ndindex(*_counts(shape, window, strides, dilation)):
        starts = [p * s for p, s in zip(place, strides, strict=True)]
        pieces = zip(starts, spans, dilation, strict=True)
        yield place, tuple(slice(i, i + span + 1, d) for i, span, d in pieces)


def _windows(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def reference(x: Any, window: Any, strides: Any, dilation: Any) -> Any:
        x = np.asarray(x)
        found = [function(x[i]) for _, i in _insides(x.shape, window, strides, dilation)]
        shape = _counts(x.shape, window, strides, dilation)
        return np.array(found, x.dtype).reshape(shape)

    return reference


def _conv(lhs: Any, rhs: Any, strides: Any, dilation: Any) -> Any:
    """One sum of products for each window."""
    kernel = rhs.shape[3:]
    space = _counts(lhs.shape[3:], kernel, strides, dilation)
    out = np.zeros((*lhs.shape[:2], rhs.shape[1], *space), lhs.dtype)
    for place, inside in _insides(lhs.shape[3:], kernel, strides, dilation):
        read = lhs[(..., *inside)]
        terms = read[:, :, None] * rhs[:, None]
        out[(..., *place)] = terms.sum(axis=tuple(range(3, terms.ndim)), dtype=lhs.dtype)
    return out


def _cofactor(a: Any) -> Any:
    """Signed determinants of what is left without a row and a column."""
    out = np.empty_like(a)
    for *i, j, k in np.ndindex(a.shape):
        rest = np.delete(np.delete(a[tuple(i)], j, 0), k, 1)
        out[(*i, j, k)] = (-1) ** (j + k) * np.linalg.det(rest)
    return out


def _read(a: Any, lower: bool, **how: bool) -> Any:
    """A matrix of the triangle that is read."""
    a = np.tril(a) if lower else np.triu(a)
    if how["unit_diagonal"]:
        a = a + np.eye(a.shape[-1], dtype=a.dtype) * (1 - a)
    a = a.conj() if how["conjugate_a"] else a
    return a.swapaxes(-1, -2) if how["transpose_a"] else a


def _triangular_product(a: Any, b: Any, left_side: bool, **how: bool) -> Any:
    a = _read(a, **how)
    return a @ b if left_side else b @ a


def _triangular_solve(a: Any, b: Any, left_side: bool, **how: bool) -> Any:
    """A general system with the triangle that is read."""
    a = _read(a, **how)
    if left_side:
        return np.linalg.solve(a, b)
    return np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)


def _lu(a: Any) -> Any:
    """Elimination with the largest of each column."""
    out, m = np.array(a), a.shape[-2]
    pivots = np.zeros((*a.shape[:-2], min(a.shape[-2:])), np.int32)
    orders = np.broadcast_to(np.arange(m, dtype=np.int32), (*a.shape[:-2], m)).copy()
    for i in np.ndindex(a.shape[:-2]):
        x, order = out[i], orders[i]
        for k in range(pivots.shape[-1]):
            parts = np.abs(x[k:, k].real) + np.abs(x[k:, k].imag)
            j = pivots[i][k] = k + np.argmax(parts)
            x[[k, j]], order[[k, j]] = x[[j, k]], order[[j, k]]
            x[k + 1 :, k] /= x[k, k]
            x[k + 1 :, k + 1 :] -= np.outer(x[k + 1 :, k], x[k, k + 1 :])
    return [out, pivots, orders]


REFERENCES: dict[str, Callable[..., Any]] = {
    **{row: getattr(np, name) for row, name in _UFUNCS.items()},
    **{row: getattr(special, name) for row, name in _SPECIAL.items()},
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "real": np.real,
    "imag": np.imag,
    "complex": lambda re, im: re + 1j * im,
    "integer_pow": lambda x, y: x**y if y >= 0 else 1 / x**-y,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "select": np.where,
    "select_branch": np.where,
    "clamp": lambda low, x, high: np.clip(x, low, high),
    "convert_element_type": _convert,
    "bitcast_convert_type": _bitcast,
    "copy": np.array,
    "stop_gradient": np.array,
    "optimization_barrier": lambda *xs: list(map(np.array, xs)),
    "name": lambda x, name: np.array(x),
    "transpose": lambda x, permutation: np.transpose(x, permutation),
    "reshape": lambda x, new_sizes: np.reshape(x, new_sizes),
    "squeeze": lambda x, dimensions: np.squeeze(x, dimensions),
    "expand_dims": lambda x, dimensions: np.expand_dims(x, dimensions),
    "rev": lambda x, dimensions: np.flip(x, dimensions),
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "pad": _pad,
    "slice": lambda x, start_indices, limit_indices, strides: x[
        _window(start_indices, limit_indices, strides)
    ],
    "update_slice": _update_slice,
    "broadcast_in_dim": _broadcast_in_dim,
    "gather": _gather,
    "scatter": _scatter(lambda old, new: new),
    "scatter_add": _scatter(np.add),
    "scatter_mul": _scatter(np.multiply),
    "scatter_min": _scatter(np.minimum),
    "scatter_max": _scatter(np.maximum),
    "dynamic_slice": lambda x, *starts, slice_sizes: np.asarray(x)[
        _clamped(np.shape(x), slice_sizes, starts)
    ],
    "dynamic_update_slice": _dynamic_update_slice,
    "sort": _sort,
    "split": _split,
    "iota": _iota,
    "reduce_sum": _reduce(np.add),
    "reduce_prod": _reduce(np.multiply),
    "reduce_max": _reduce(np.maximum),
    "reduce_min": _reduce(np.minimum),
    "reduce_and": _reduce(np.bitwise_and),
    "reduce_or": _reduce(np.bitwise_or),
    "reduce_xor": _reduce(np.bitwise_xor),
    "argmax": lambda x, axis, index_dtype: np.argmax(x, axis),
    "argmin": lambda x, axis, index_dtype: np.argmin(x, axis),
    "cumsum": _accumulate(np.cumsum),
    "cumprod": _accumulate(np.cumprod),
    "cummax": _accumulate(np.maximum.accumulate),
    "cummin": _accumulate(np.minimum.accumulate),
    "cumlogsumexp": _accumulate(np.logaddexp.accumulate),
    "dot_general": _dot_general,
    "reduce_window_sum": _windows(lambda x: x.sum(dtype=x.dtype)),
    "reduce_window_max": _windows(np.max),
    "reduce_window_min": _windows(np.min),
    "window_argmax": _windows(np.argmax),
    "window_argmin": _windows(np.argmin),
    "conv": _conv,
    "cofactor": _cofactor,
    "cofactor_slope": lambda a, t: (_cofactor(a + t) - _cofactor(a - t)) / 2,  # of degree 2
    "triangular_solve": _triangular_solve,
    "triangular_product": _triangular_product,
    "triangular_inv": lambda a, lower: np.linalg.inv(np.tril(a) if lower else np.triu(a)),
    "lu": _lu,
}

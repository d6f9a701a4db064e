"""Rows that shape, choose and convert, on CuPy arrays: those that NumPy's dispatch does not reach.

Each function is a row's `impl` over an array namespace `xp`, which is CuPy, or NumPy in tests. What
all of them avoid is what an `impl` may do on the host: filling NumPy memory, `np.asarray`, Python
numbers out of arrays.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.primitives.scipy_functions import FUNCTIONS, scipy_name

Ints = tuple[int, ...]
Rule = Callable[..., Any]


def copied(xp: Any, x: Any, **_: Any) -> Any:
    return xp.array(x, order="C")


def same(xp: Any, x: Any) -> Any:
    return x[...]


def barrier(xp: Any, *xs: Any) -> list[Any]:
    return [x[...] if issubclass(type(x), xp.ndarray) else xp.asarray(x) for x in xs]


def broadcast(xp: Any, x: Any, shape: Ints, broadcast_dimensions: Ints) -> Any:
    expanded = [1] * len(shape)
    for i, n in zip(broadcast_dimensions, x.shape, strict=True):
        expanded[i] = n
    return xp.broadcast_to(xp.reshape(x, tuple(expanded)), shape)


def reshaped(xp: Any, x: Any, new_sizes: Ints) -> Any:
    return xp.reshape(x, new_sizes)


def squeezed(xp: Any, x: Any, dimensions: Ints) -> Any:
    return xp.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in dimensions))


def padded(xp: Any, x: Any, padding_value: Any, padding_config: Sequence[Ints]) -> Any:
    shape: list[int] = []
    sources: list[slice] = []
    targets: list[slice] = []
    for n, (low, high, interior) in zip(np.shape(x), padding_config, strict=True):
        step = interior + 1
        size = low + high + n + max(n - 1, 0) * interior
        first = -(low // step) if low < 0 else 0  # ceil(-low / step)
        last = max(first, min(n, -((low - size) // step)))  # ceil((size - low) / step)
        start = low + first * step
        shape.append(size)
        sources.append(slice(first, last))
        targets.append(slice(start, start + (last - first) * step, step))
    out = xp.empty(tuple(shape), typeof(x).dtype)
    out[...] = padding_value
    out[tuple(targets)] = x[tuple(sources)] if shape else x
    return out


def sliced(xp: Any, x: Any, start_indices: Ints, limit_indices: Ints, strides: Ints) -> Any:
    return x[tuple(map(slice, start_indices, limit_indices, strides))]


def updated(
    xp: Any, x: Any, v: Any, start_indices: Ints, limit_indices: Ints, strides: Ints
) -> Any:
    out = xp.array(x, order="C")
    out[tuple(map(slice, start_indices, limit_indices, strides))] = v
    return out


# ---------------------------------------------------------------------------------- choice


def select(xp: Any, which: Any, x: Any, y: Any) -> Any:
    return xp.where(xp.asarray(which), x, y)


def clamp(xp: Any, low: Any, x: Any, high: Any) -> Any:
    return xp.minimum(xp.maximum(x, low), high)


# ---------------------------------------------------------------------------------- dtypes


def converted(xp: Any, x: Any, new_dtype: np.dtype[Any], weak_type: bool = False) -> Any:
    if x.dtype.kind == "c" and new_dtype.kind not in "cb":
        x = x.real
    return x.astype(new_dtype)


def real(xp: Any, x: Any) -> Any:
    return x.real if x.dtype.kind == "c" else x[...]


def imag(xp: Any, x: Any) -> Any:
    return x.imag if x.dtype.kind == "c" else xp.zeros_like(x)


def complex_of(xp: Any, re: Any, im: Any) -> Any:
    """Written part by part: `re + 1j * im` would lose zeros' signs, and infinities."""
    dtype = dtypes.complex_dtype(typeof(re).dtype if not typeof(re).weak else typeof(im).dtype)
    out = xp.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), dtype)
    out.real[...] = re
    out.imag[...] = im
    return out


def bits_as(xp: Any, x: Any, new_dtype: np.dtype[Any]) -> Any:
    old, new = x.dtype.itemsize, new_dtype.itemsize
    shape = x.shape if old == new else (*x.shape, old // new) if old > new else x.shape[:-1]
    return xp.reshape(xp.reshape(xp.array(x, order="C"), (-1,)).view(new_dtype), shape)


def spacing(xp: Any, x: Any) -> Any:
    size = xp.abs(x)
    found = xp.nextafter(size, xp.full_like(size, np.inf)) - size
    found = xp.where(xp.isinf(x), xp.full_like(size, np.nan), found)
    return xp.where(x < 0, -found, found)  # that of -0.0 is positive


def integer_pow(xp: Any, x: Any, y: int) -> Any:
    if y == 0:
        return xp.ones_like(x)
    if 2 <= y <= 4:
        return reduce(xp.multiply, [x] * y)
    return xp.power(x, x.dtype.type(y))


def ones_in(xp: Any, x: Any) -> Any:
    """How many bits of |x| are set: pairs are added, then fours, bytes, and so on."""
    word = np.dtype(f"u{x.dtype.itemsize}")
    bits = xp.abs(x).view(word) if x.dtype.kind == "i" else x.astype(word)
    width = 8 * x.dtype.itemsize
    size = 1
    while size < width:
        mask = word.type(sum(((1 << size) - 1) << k for k in range(0, width, 2 * size)))
        bits = (bits & mask) + ((bits >> word.type(size)) & mask)
        size *= 2
    return bits


def ufunc(name: str) -> Rule:
    """CuPy's function of this name, whichever operand is on the device."""
    return lambda xp, *args: getattr(xp, name)(*args)


# ---------------------------------------------------------------------------------- special


def special(name: str, functions: Callable[[], Any]) -> Rule:
    """A function of `cupyx.scipy.special` by its SciPy name."""

    def evaluate(xp: Any, *args: Any) -> Any:
        dtype = typeof(args[-1]).dtype
        wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
        if dtype.kind == "c":
            wide = dtype
        fn = getattr(functions(), name)
        return fn(*(xp.asarray(a).astype(wide) for a in args))

    return evaluate


def named_special(functions: Callable[[], Any]) -> Rule:
    """The row `special`: a function by its name, where CuPy has it."""

    def evaluate(xp: Any, *args: Any, function: str) -> Any:
        inexact = [typeof(a).dtype for a in args if typeof(a).dtype.kind in "fc"]
        wide = np.result_type(np.float32, *inexact)
        fn = getattr(functions(), scipy_name(function))
        found = fn(*(_widened(xp.asarray(a), wide) for a in args))
        position = FUNCTIONS[function].position
        return found if position is None else found[position]

    return evaluate


def _widened(x: Any, dtype: Any) -> Any:
    """An operand in a dtype; integers stay."""
    return x.astype(dtype) if x.dtype.kind in "fc" else x


def of_order(kind: str, run: Callable[..., Any]) -> Rule:
    """A function of an order and an argument, in float64: `run(kind, order, argument)`."""

    def evaluate(xp: Any, *args: Any) -> Any:
        wide = [xp.asarray(a).astype(np.float64) for a in args]
        shape = np.broadcast_shapes(*(a.shape for a in wide))
        return run(kind, *(xp.array(xp.broadcast_to(a, shape), order="C") for a in wide))

    return evaluate


def logistic(functions: Callable[[], Any]) -> Rule:
    def evaluate(xp: Any, x: Any) -> Any:
        if x.dtype.kind == "c":
            return xp.reciprocal(xp.exp(-x) + 1)
        return special("expit", functions)(xp, x)

    return evaluate


def polygamma(functions: Callable[[], Any]) -> Rule:
    """(-1)**(m + 1) * m! * zeta(m + 1, x), in double precision; digamma where m is 0."""

    def evaluate(xp: Any, m: Any, x: Any) -> Any:
        sc = functions()
        x, n = xp.asarray(x).astype(np.float64), xp.asarray(m).astype(np.float64) + 1
        y = sc.zeta(n, x) * sc.gamma(n)
        y = xp.where(n == 1, sc.digamma(x), xp.where(n % 2 != 0, -y, y))
        return xp.where(n % 1 != 0, np.nan, y)

    return evaluate

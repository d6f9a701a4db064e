"""Rows that reduce, slide windows or transform along axes, on CuPy arrays.

CuPy reduces by few functions. Other reductions are made of elementwise steps: the second half is
folded onto the first, in log2(n) steps, with the same result at every run.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace.gpu.eager.library_arrays import Rule
from ftrace.primitives.fourier import made, norm_of
from ftrace.primitives.windows import count, window_element

Ints = tuple[int, ...]


# ---------------------------------------------------------------------------------- reductions


def reduction(name: str, boolean: str, *, typed: bool = False) -> Rule:
    """A reduction by CuPy's function of this name.

    Args:
        name: the function of numbers.
        boolean: the function of booleans.
        typed: whether it must be told not to widen the dtype.
    """

    def evaluate(xp: Any, x: Any, axes: Ints) -> Any:
        if not axes:
            return xp.array(x, order="C")
        if x.dtype.kind == "b":
            return getattr(xp, boolean)(x, axis=axes)
        options = {"dtype": x.dtype} if typed else {}
        return getattr(xp, name)(x, axis=axes, **options)

    return evaluate


def folded(ufunc: str, empty: int) -> Rule:
    """A reduction by a function of two arrays.

    Args:
        ufunc: its name.
        empty: what the reduction of nothing is.
    """

    def evaluate(xp: Any, x: Any, axes: Ints) -> Any:
        if not axes:
            return xp.array(x, order="C")
        kept = tuple(a for a in range(x.ndim) if a not in axes)
        shape = tuple(x.shape[a] for a in kept)
        n = prod(x.shape[a] for a in axes)
        x = xp.reshape(xp.transpose(x, axes + kept), (n, *shape))
        if not n:
            return xp.full(shape, np.array(empty).astype(x.dtype)[()], x.dtype)
        while n > 1:
            half = n // 2
            low = getattr(xp, ufunc)(x[:half], x[half : 2 * half])
            x = xp.concatenate([low, x[2 * half :]], axis=0) if n % 2 else low
            n = half + n % 2
        return x[0]

    return evaluate


# ---------------------------------------------------------------------------------- windows


def window(ufunc: str) -> Rule:
    """A reduction over windows, one axis after the other, the last one first."""

    def evaluate(xp: Any, x: Any, window: Ints, strides: Ints, dilation: Ints) -> Any:
        combine = getattr(xp, ufunc)
        out = xp.array(x, order="C")
        for axis in reversed(range(len(window))):
            step = (strides[axis], dilation[axis])
            m = count(out.shape[axis], window[axis], *step)
            source, out = out, window_element(out, axis, 0, m, step)
            for k in range(1, window[axis]):
                out = combine(out, window_element(source, axis, k, m, step))
        return out

    return evaluate


def chosen(better: str) -> Rule:
    """Positions in windows of the first element that is better than all others."""

    def evaluate(xp: Any, x: Any, window: Ints, strides: Ints, dilation: Ints) -> Any:
        value, place = x, xp.zeros(x.shape, np.int64)
        for axis in reversed(range(len(window))):
            step, inner = (strides[axis], dilation[axis]), prod(window[axis + 1 :])
            m = count(value.shape[axis], window[axis], *step)
            values, places = value, place
            value, place = (window_element(a, axis, 0, m, step) for a in (values, places))
            for k in range(1, window[axis]):
                new = window_element(values, axis, k, m, step)
                wins = getattr(xp, better)(new, value)
                if x.dtype.kind in "fc":
                    wins = wins | (xp.isnan(new) & ~xp.isnan(value))
                value = xp.where(wins, new, value)
                place = xp.where(wins, window_element(places, axis, k, m, step) + k * inner, place)
        return place

    return evaluate


def convolved(xp: Any, lhs: Any, rhs: Any, strides: Ints, dilation: Ints) -> Any:
    """The windows as the columns of a matrix, one product for each group."""
    kernel = rhs.shape[3:]
    groups, batch, channels = lhs.shape[:3]
    space = tuple(map(count, lhs.shape[3:], kernel, strides, dilation))
    taps = [_taps(lhs, place, space, (strides, dilation)) for place in np.ndindex(*kernel)]
    inside = xp.stack(taps, axis=3)  # group, batch, channel, inside, space
    inside = xp.reshape(inside, (groups, batch, channels * prod(kernel), prod(space)))
    matrix = xp.reshape(rhs, (groups, 1, rhs.shape[1], channels * prod(kernel)))
    return xp.reshape(xp.matmul(matrix, inside), (groups, batch, rhs.shape[1], *space))


def _taps(x: Any, place: Sequence[int], space: Ints, steps: tuple[Ints, Ints]) -> Any:
    """What all windows have at one of their places."""
    for axis, (k, m, stride, dilation) in enumerate(zip(place, space, *steps, strict=True)):
        x = window_element(x, 3 + axis, k, m, (stride, dilation))
    return x


def transformed(xp: Any, x: Any, kind: str, length: int, axis: int, scale: str) -> Any:
    """A Fourier transform by cuFFT, which takes no empty arrays.

    Of half a spectrum, what stands for one coefficient is real: cuFFT promises nothing else.
    """
    if not x.size:
        shape = (*x.shape[:axis], made(kind, length), *x.shape[axis + 1 :])
        dtype = np.result_type(x.dtype, 1j) if kind != "irfft" else x.real.dtype
        return xp.zeros(shape, dtype)
    if kind == "irfft":
        x = xp.array(x, order="C")
        edges = [0] if length % 2 or length // 2 >= x.shape[axis] else [0, length // 2]
        for k in edges:
            x.imag[(slice(None),) * axis + (k,)] = 0
    return getattr(xp.fft, kind)(x, length, axis, norm_of(kind, scale))

"""Reductions over sliding windows: sum, maximum and minimum, and which element was chosen.

Windows lie wholly inside the operand: padding is the row `pad` before them. A window has `window`
elements along each axis, `dilation` apart, and starts at every `strides`-th element. A window of
several axes is reduced one axis at a time, the last axis first, so that its cost is the sum of
its sizes and not their product. The derivative of a maximum is that of its first largest element,
found by `window_argmax` and read by `gather`. `conv.py` uses the same windows.
"""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import int64
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.primitive import (
    LINEAR,
    NONDIFFERENTIABLE,
    ErrorSample,
    Linear,
    Primitive,
    Rule,
    Sample,
)
from ftrace.core.zero import Masked
from ftrace.primitives.arithmetic import floor_divide, mod
from ftrace.primitives.create import iota
from ftrace.primitives.elementwise import mul
from ftrace.primitives.index import gather
from ftrace.primitives.linear import NO_TRANSPOSE, add, check_kinds
from ftrace.primitives.movement import Ints, inserted, plain, whole_mask
from ftrace.primitives.shape import reshape
from ftrace.primitives.slicing import pad

# ---------------------------------------------------------------------------------- windows


def count(n: int, window: int, stride: int, dilation: int) -> int:
    """How many windows fit into n elements."""
    return max(0, (n - (window - 1) * dilation - 1) // stride + 1)


def check_windows(name: str, x: ShapedArray, axes: int, **sizes: Ints) -> None:
    """Raise unless there is one positive size of each sort for each of the axes."""
    for what, values in sizes.items():
        if len(values) != axes:
            raise AxisError(
                f"{name}: {what} {values} has {len(values)} entries for {axes} axes of {x}.",
                "Give one entry per axis.",
            )
        if any(v < 1 for v in values):
            raise ShapeError(f"{name}: {what} {values} must be positive.", "Use at least 1.")


def spread_back(
    ct: Any, sizes: Ints, window: Ints, strides: Ints, dilation: Ints, first: int
) -> Any:
    """Cotangents of windows at their places, so that windows over them sum what an element got.

    Args:
        ct: cotangents; the axes from `first` on count windows.
        sizes: of the operand along these axes.
        window, strides, dilation: of the windows.
        first: the axes before it are left alone.
    """
    config = [(0, 0, 0)] * first
    for m, n, w, s, d in zip(
        typeof(ct).shape[first:], sizes, window, strides, dilation, strict=True
    ):
        low = (w - 1) * d
        config.append((low, n - ((m - 1) * s + 1 if m else 0), s - 1))
    return pad(ct, typeof(ct).dtype.type(0), padding_config=tuple(config))


def strided_windows(x: Any, first: int, window: Ints, strides: Ints, dilation: Ints) -> Any:
    """A read-only view with, after all axes of x, the axes inside a window."""
    sizes, steps = x.shape[first:], x.strides[first:]
    counts = tuple(map(count, sizes, window, strides, dilation))
    return as_strided(
        x,
        shape=(*x.shape[:first], *counts, *window),
        strides=(
            *x.strides[:first],
            *(a * b for a, b in zip(steps, strides, strict=True)),
            *(a * b for a, b in zip(steps, dilation, strict=True)),
        ),
        writeable=False,
    )


def _last_windows(x: Any, axis: int, window: int, step: tuple[int, int]) -> Any:
    """Windows along one axis as the last two axes of a view: which, and inside."""
    stride, dilation = step
    moved = np.moveaxis(x, axis, -1)
    return strided_windows(moved, x.ndim - 1, (window,), (stride,), (dilation,))


def window_element(x: Any, axis: int, k: int, m: int, step: tuple[int, int]) -> Any:
    """Element k of all m windows along one axis."""
    stride, dilation = step
    start = k * dilation
    stop = start + (m - 1) * stride + 1 if m else start
    return x[(slice(None),) * axis + (slice(start, stop, stride),)]


# ---------------------------------------------------------------------------------- evaluation


def _window_impl(ufunc: Any) -> Rule:
    def impl(x: Any, window: Ints, strides: Ints, dilation: Ints) -> Any:
        dtype = typeof(x).dtype
        out = x
        for axis in reversed(range(len(window))):
            w, step = window[axis], (strides[axis], dilation[axis])
            m = count(out.shape[axis], w, *step)
            if w > m:  # few windows of many elements
                view = _last_windows(out, axis, w, step)
                out = np.moveaxis(ufunc.reduce(view, axis=-1, dtype=dtype), -1, axis)
                continue
            source, out = out, np.array(window_element(out, axis, 0, m, step))
            for k in range(1, w):
                ufunc(out, window_element(source, axis, k, m, step), out=out)
        return np.array(out)[()] if out is x else out

    return impl


def _chosen_impl(better: Any, first: Any) -> Rule:
    """Positions in windows by `better(new, old)`, which is false for equal ones."""

    def wins(new: Any, old: Any) -> Any:
        found = better(new, old)
        return found | (np.isnan(new) & ~np.isnan(old)) if new.dtype.kind in "fc" else found

    def longest(value: Any, place: Any, axis: int, w: int, step: tuple[int, int]) -> Any:
        """The case of few windows of many elements: values and places of the chosen ones."""
        views = [_last_windows(a, axis, w, step) for a in (value, place)]
        k = first(views[0], axis=-1)[..., None]
        found = [np.take_along_axis(v, k, axis=-1)[..., 0] for v in views]
        return [np.moveaxis(a, -1, axis) for a in (*found, k[..., 0])]

    def impl(x: Any, window: Ints, strides: Ints, dilation: Ints) -> Any:
        value, place = x, np.zeros(np.shape(x), np.int64)
        for axis in reversed(range(len(window))):
            w, step = window[axis], (strides[axis], dilation[axis])
            m, inner = count(value.shape[axis], w, *step), prod(window[axis + 1 :])
            if w > m:
                value, place, k = longest(value, place, axis, w, step)
                place = place + inner * k
                continue
            values, places = value, place
            value, place = (np.array(window_element(a, axis, 0, m, step)) for a in (values, places))
            for k in range(1, w):
                new = window_element(values, axis, k, m, step)
                chosen = wins(new, value)
                np.copyto(value, new, where=chosen)
                np.copyto(place, window_element(places, axis, k, m, step) + k * inner, where=chosen)
        return place[()]

    return impl


# ---------------------------------------------------------------------------------- the rows


def _window_row(
    name: str,
    impl: Rule,
    kinds: str,
    *,
    jvp: Rule | str,
    doc: str,
    transpose: Rule = NO_TRANSPOSE,
    out: Callable[[ShapedArray], Any] = lambda x: x.dtype,
) -> Primitive:
    """A row of one operand with windows along all of its axes."""
    row: Primitive

    def type_rule(x: ShapedArray, *, window: Ints, strides: Ints, dilation: Ints) -> ShapedArray:
        check_kinds(name, kinds, x)
        check_windows(name, x, x.ndim, window=window, strides=strides, dilation=dilation)
        return aval(tuple(map(count, x.shape, window, strides, dilation)), out(x))

    def batch(axis: Any, values: Any, dims: Any, **windows: Ints) -> Any:
        (d,) = dims
        return row(*values, **{k: inserted(v, d, 1) for k, v in windows.items()}), d

    row = Primitive(
        name=name,
        impl=impl,
        type=type_rule,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        mask="call" if jvp == LINEAR else "",
        linear_in=(0,) if jvp == LINEAR else (),
        samples=lambda: _samples(kinds),
        errors=lambda: _errors(kinds),
        doc=doc,
    )
    return row


def _samples(kinds: str) -> Iterable[Sample]:
    rng = np.random.default_rng(51)
    for x, window, strides, dilation in (
        (rng.normal(size=6), (3,), (1,), (1,)),
        (rng.normal(size=7), (2,), (2,), (3,)),
        (rng.normal(size=(4, 5)), (2, 3), (1, 2), (1, 1)),
        (rng.normal(size=(5, 4)), (4, 1), (1, 3), (1, 1)),
        (rng.normal(size=(5, 5)), (2, 2), (1, 2), (3, 1)),
        (rng.normal(size=(2, 3, 4)), (2, 2, 3), (1, 1, 1), (1, 2, 1)),
        (rng.normal(size=(6, 4))[::2, ::-1], (2, 3), (1, 1), (1, 1)),
        (rng.normal(size=5), (4,), (3,), (1,)),
        (rng.normal(size=3), (5,), (1,), (1,)),
        (rng.normal(size=(0, 2)), (1, 2), (1, 1), (1, 1)),
        (np.float64(1.5), (), (), ()),
    ):
        yield Sample((x,), {"window": window, "strides": strides, "dilation": dilation})
    for name in ("f4", "i8", "u1", "c16", "?"):
        if np.dtype(name).kind in kinds:
            x = rng.normal(size=(3, 4)) * 3
            x = x + 1j * rng.normal(size=(3, 4)) if name == "c16" else x
            params = {"window": (2, 2), "strides": (1, 2), "dilation": (1, 1)}
            yield Sample(((np.abs(x) if name == "u1" else x).astype(name),), params)


def _errors(kinds: str) -> Iterable[ErrorSample]:
    good = {"window": (2,), "strides": (1,), "dilation": (1,)}
    for change, error, phrase in (
        ({"window": (1, 1)}, AxisError, "2 entries for 1 axes"),
        ({"strides": ()}, AxisError, "Give one entry per axis"),
        ({"window": (0,)}, ShapeError, "must be positive"),
        ({"strides": (0,)}, ShapeError, "must be positive"),
        ({"dilation": (-1,)}, ShapeError, "must be positive"),
    ):
        yield ErrorSample((np.ones(3),), good | change, error, phrase)
    if "c" not in kinds:
        yield ErrorSample((np.ones(3, complex),), good, DtypeError, "not defined for complex128")


def _sum_transpose(ct: Any, x: Linear, *, window: Ints, strides: Ints, dilation: Ints) -> Any:
    """Windows over the windows' cotangents; an element is taken where any of its windows is."""
    ones = (1,) * len(window)

    def back(c: Any) -> Any:
        places = spread_back(c, x.aval.shape, window, strides, dilation, 0)
        return reduce_window_sum(places, window=window, strides=ones, dilation=dilation)

    if type(ct) is not Masked:
        return (back(ct),)
    found = ct.with_value(back(plain(ct)), lambda: back(whole_mask(ct)))
    found.zeroed = ct.read
    return (found,)


reduce_window_sum = _window_row(
    "reduce_window_sum",
    _window_impl(np.add),
    "biufc",
    jvp=LINEAR,
    transpose=_sum_transpose,
    doc="The sum of every window, in the operand's dtype.",
)


def _places(position: Any, shape: Ints, window: Ints, strides: Ints, dilation: Ints) -> Any:
    """Where in the flat operand an element is, given its position in each window."""
    out = typeof(position).shape
    found = None
    for axis, w in enumerate(window):
        width, inner = prod(shape[axis + 1 :]), prod(window[axis + 1 :])
        start = iota(dtype=int64, shape=out, dimension=axis)
        term = mul(start, np.int64(strides[axis] * width))
        if w > 1:
            inside = mod(floor_divide(position, np.int64(inner)), np.int64(w))
            term = add(term, mul(inside, np.int64(dilation[axis] * width)))
        found = term if found is None else add(found, term)
    return position if found is None else found


def _chooser_jvp(row: Rule, position: Rule) -> Rule:
    def jvp(primals: Any, tangents: Any, **windows: Ints) -> Any:
        (x,), (t,) = primals, tangents
        shape = typeof(x).shape
        places = _places(position(x, **windows), shape, **windows)
        flat = reshape(t, new_sizes=(prod(shape),))
        return row(x, **windows), gather(flat, places, axes=(0,), mode="clip")

    return jvp


window_argmax = _window_row(
    "window_argmax",
    _chosen_impl(np.greater, np.argmax),
    "biuf",
    jvp=NONDIFFERENTIABLE,
    out=lambda x: int64,
    doc="The position of the first maximum inside every window, counted through its axes in C "
    "order; of the first NaN where there is one.",
)
window_argmin = _window_row(
    "window_argmin",
    _chosen_impl(np.less, np.argmin),
    "biuf",
    jvp=NONDIFFERENTIABLE,
    out=lambda x: int64,
    doc="The position of the first minimum inside every window, counted through its axes in C "
    "order; of the first NaN where there is one.",
)
reduce_window_max = _window_row(
    "reduce_window_max",
    _window_impl(np.maximum),
    "biuf",
    jvp=_chooser_jvp(lambda x, **windows: reduce_window_max(x, **windows), window_argmax),
    doc="The maximum of every window; NaN where there is one. The first of equal elements has the "
    "derivative.",
)
reduce_window_min = _window_row(
    "reduce_window_min",
    _window_impl(np.minimum),
    "biuf",
    jvp=_chooser_jvp(lambda x, **windows: reduce_window_min(x, **windows), window_argmin),
    doc="The minimum of every window; NaN where there is one. The first of equal elements has the "
    "derivative.",
)

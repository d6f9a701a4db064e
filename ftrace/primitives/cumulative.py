"""Running reductions along one axis: sum, product, maximum, minimum, log of a sum of exponentials.

`reverse=True` runs from the end. The sum is linear. The tangents of the others are found by a
scan of pairs (value, tangent) in log2(n) steps, without division, so that they are exact where
elements are zero, tied or infinite. Reductions to one value are in `reduce.py`.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import AxisError, DtypeError
from ftrace.core.lower import Cumulative
from ftrace.core.primitive import LINEAR, ErrorSample, Primitive, Rule, Sample
from ftrace.primitives import elements
from ftrace.primitives.elementwise import (
    bitwise_and,
    div,
    eq,
    exp,
    gt,
    isinf,
    logaddexp,
    mul,
    select,
    sub,
)
from ftrace.primitives.linear import NO_TRANSPOSE, add, check_kinds
from ftrace.primitives.reduce import part, times
from ftrace.primitives.shape import concatenate

Values = tuple[Any, ...]


def _impl(ufunc: Any) -> Rule:
    def impl(x: Any, axis: int, reverse: bool) -> Any:
        if not reverse:
            return ufunc.accumulate(x, axis=axis, dtype=x.dtype)
        out = np.empty(x.shape, x.dtype)
        ufunc.accumulate(np.flip(x, axis), axis=axis, dtype=x.dtype, out=np.flip(out, axis))
        return out

    return impl


def _cumulative(
    name: str,
    ufunc: Any,
    kinds: str,
    *,
    jvp: Rule | str,
    lower: Cumulative,
    doc: str,
    transpose: Rule = NO_TRANSPOSE,
    mask: str | Rule = "",
    decides: Rule | None = None,
    samples: Rule | None = None,
) -> Primitive:
    """A row that accumulates along `axis`, keeping shape and dtype."""
    row: Primitive

    def type_rule(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        check_kinds(name, kinds, x)
        if not 0 <= axis < x.ndim:
            raise AxisError(f"{name}: {x} has no axis {axis}.", "Use 0 .. ndim - 1.")
        return aval(x.shape, x.dtype)

    def batch(mapped: Any, values: Any, dims: Any, *, axis: int, reverse: bool) -> Any:
        (d,) = dims
        return row(values[0], axis=axis if axis < d else axis + 1, reverse=reverse), d

    def errors() -> Iterable[ErrorSample]:
        params = {"axis": 1, "reverse": False}
        yield ErrorSample((np.ones(3),), params, AxisError, "has no axis 1")
        yield ErrorSample((np.float64(1),), params, AxisError, "has no axis 1")
        if "c" not in kinds:
            x = np.ones((2, 2), complex)
            yield ErrorSample((x,), params, DtypeError, "not defined for complex128")

    row = Primitive(
        name=name,
        impl=_impl(ufunc),
        lower=lower,
        type=type_rule,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        mask=mask,
        linear_in=(0,) if jvp == LINEAR else (),
        decides=decides,
        samples=samples or (lambda: _samples(kinds)),
        errors=errors,
        doc=doc,
    )
    return row


def _samples(kinds: str) -> Iterable[Sample]:
    rng = np.random.default_rng(14)
    for x, axis, reverse in (
        (rng.normal(size=5), 0, False),
        (rng.normal(size=(2, 4)), 1, True),
        (rng.normal(size=(3, 2)), 0, False),
        (rng.normal(size=(2, 3, 2)), 1, True),
        (rng.normal(size=(3, 4)).T[::2], 0, False),
        (rng.normal(size=(2, 1)), 1, False),
        (np.zeros((0, 2)), 0, True),
        (np.zeros((2, 0)), 0, False),
    ):
        yield Sample((x,), {"axis": axis, "reverse": reverse})
    for name in ("f4", "i8", "u1", "c16", "?"):
        if np.dtype(name).kind in kinds:
            x = np.abs(rng.normal(size=(3, 2)) * 3)
            x = x + 1j * rng.normal(size=(3, 2)) if name == "c16" else x
            yield Sample((x.astype(name),), {"axis": 0, "reverse": name == "i8"})


def scan(
    combine: Callable[[Values, Values], Values], values: Values, axis: int, reverse: bool
) -> Values:
    """All prefixes combined by an associative operation, in log2(n) steps along an axis.

    Args:
        combine: (earlier, later) -> combined, on tuples of equally shaped values.
        values: one tuple of arrays.
        axis: along which.
        reverse: combine from the end.
    """
    n = typeof(values[0]).shape[axis]
    step = 1
    while step < n:
        head, tail = ((0, n - step), (step, n)) if not reverse else ((step, n), (0, n - step))
        kept = (0, step) if not reverse else (n - step, n)
        earlier = tuple(part(v, axis, *head) for v in values)
        later = tuple(part(v, axis, *tail) for v in values)
        joined = combine(earlier, later)
        first = tuple(part(v, axis, *kept) for v in values)
        pairs = zip(first, joined, strict=True) if not reverse else zip(joined, first, strict=True)
        values = tuple(concatenate(a, b, dimension=axis) for a, b in pairs)
        step *= 2
    return values


def _extreme(dtype: np.dtype[Any], largest: bool) -> Any:
    """The greatest or least value of a dtype."""
    if dtype.kind == "f":
        return np.inf if largest else -np.inf
    if dtype.kind == "b":
        return largest
    return np.iinfo(dtype).max if largest else np.iinfo(dtype).min


# ---------------------------------------------------------------------------------- sum, product

cumsum = _cumulative(
    "cumsum",
    np.add,
    "biufc",
    jvp=LINEAR,
    transpose=lambda ct, x, axis, reverse: (cumsum(ct, axis=axis, reverse=not reverse),),
    mask=lambda mask, x, axis, reverse: (cumsum(mask, axis=axis, reverse=not reverse),),
    lower=Cumulative("add", lambda dtype: (-0.0,), "biufc", "add"),  # x + -0.0 is x, for zeros too
    doc="Running sum along `axis`, in the operand's dtype.",
)


def _cumprod_jvp(primals: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
    (x,), (t,) = primals, tangents
    y = cumprod(x, axis=axis, reverse=reverse)
    return y, scan(times, (x, t), axis, reverse)[1]


def _cumprod_samples() -> Iterable[Sample]:
    yield from _samples("biufc")
    x = np.random.default_rng(15).normal(size=(3, 6))
    x[0, 1] = x[1, 2] = x[1, 4] = 0
    for reverse in (False, True):
        yield Sample((x,), {"axis": 1, "reverse": reverse})


cumprod = _cumulative(
    "cumprod",
    np.multiply,
    "biufc",
    jvp=_cumprod_jvp,
    lower=Cumulative("mul", lambda dtype: (1,), prefixes="mul"),
    samples=_cumprod_samples,
    doc="Running product along `axis`, in the operand's dtype. Its derivatives of every order "
    "are exact where elements are zero.",
)


# ---------------------------------------------------------------------------------- max, min


def _chooser_jvp(row: Rule, later_wins: Rule) -> Rule:
    """Tangents of all elements that equal the prefix's extreme are averaged."""

    def combine(earlier: Values, later: Values) -> Values:
        (a, ta, na), (b, tb, nb) = earlier, later
        wins, tied = later_wins(a, b), eq(a, b)
        zero = typeof(a).dtype.type(0)

        def merged(p: Any, q: Any) -> Any:
            return add(select(wins, q, p), select(tied, q, zero))

        return select(wins, b, a), merged(ta, tb), merged(na, nb)

    def jvp(primals: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
        (x,), (t,) = primals, tangents
        one = typeof(x).dtype.type(1)
        count = select(eq(x, x), one, one)
        _, total, count = scan(combine, (x, t, count), axis, reverse)
        return row(x, axis=axis, reverse=reverse), div(total, count)

    return jvp


cummax = _cumulative(
    "cummax",
    np.maximum,
    "biufc",
    jvp=_chooser_jvp(lambda x, **params: cummax(x, **params), lambda a, b: gt(b, a)),
    lower=Cumulative("max", lambda dtype: (_extreme(dtype, largest=False),), prefixes="max"),
    decides=lambda v, y, p: v[0] == y[0],
    doc="Running maximum along `axis`. Ties share the derivative equally.",
)
cummin = _cumulative(
    "cummin",
    np.minimum,
    "biufc",
    jvp=_chooser_jvp(lambda x, **params: cummin(x, **params), lambda a, b: gt(a, b)),
    lower=Cumulative("min", lambda dtype: (_extreme(dtype, largest=True),), prefixes="min"),
    decides=lambda v, y, p: v[0] == y[0],
    doc="Running minimum along `axis`. Ties share the derivative equally.",
)


# ---------------------------------------------------------------------------------- logsumexp


def _logaddexp_pairs(earlier: Values, later: Values) -> Values:
    """log(exp(a) + exp(b)) with its tangent; two equal infinities share it."""
    (a, ta), (b, tb) = earlier, later
    zero = typeof(a).dtype.type(0)
    same = bitwise_and(eq(a, b), isinf(a))
    a0, b0 = select(same, zero, a), select(same, zero, b)
    y0 = logaddexp(a0, b0)
    t = add(mul(ta, exp(sub(a0, y0))), mul(tb, exp(sub(b0, y0))))
    return select(same, a, y0), t


def _cumlogsumexp_jvp(primals: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
    (x,), (t,) = primals, tangents
    y = cumlogsumexp(x, axis=axis, reverse=reverse)
    return y, scan(_logaddexp_pairs, (x, t), axis, reverse)[1]


cumlogsumexp = _cumulative(
    "cumlogsumexp",
    np.logaddexp,
    "f",
    jvp=_cumlogsumexp_jvp,
    lower=Cumulative(elements.cumlogsumexp, lambda dtype: (-np.inf, -1), "f", "logaddexp"),
    doc="Running log(sum(exp(x))) along `axis`, without overflow.",
)

"""The `vectorize` row: a function of scalars at every place of arrays, and its derivatives.

The operands are arrays of one shape, the param is a jaxpr of rank-0 values; compiled, the row is
part of a kernel. Forward mode pushes the scalar jaxpr. Reverse mode is mixed: the known half is a
kernel that gives results and partial derivatives, pushed forward element by element, and the
linear half multiplies by them (`sum_partials`); or the known half gives the results only, and the
linear one computes the partials again from the operands, when that moves fewer bytes.

Source: J. Revels et al., Dynamic Automatic Differentiation of GPU Broadcast Kernels (2018).
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ftrace.control.rows.gating import gated, is_gated
from ftrace.control.rows.jit import jit_call
from ftrace.control.rows.partials import Pattern, partials
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.config import config
from ftrace.core.dtypes import bool_
from ftrace.core.errors import RuleError, ShapeError
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.core.kinds import has_loops
from ftrace.core.lazy import lazy
from ftrace.core.lower import Elementwise
from ftrace.core.primitive import Linear, Primitive
from ftrace.core.zero import ZERO, Masked
from ftrace.interpreters.batching import Axis, Dim, batch_jaxpr, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.dce import dce_jaxpr
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.partial import RES, Half, Split
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import instantiate, materialise
from ftrace.interpreters.transpose import full_mask
from ftrace.primitives.arithmetic import mul
from ftrace.primitives.compare import bitwise_or, select
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import add, broadcast_in_dim
from ftrace.primitives.shape import reshape

_is_scalar_program = lazy("ftrace.lowering.fusion.fusible", "is_scalar_program")
_is_cheaper_again = lazy("ftrace.control.remat.mincut", "is_cheaper_again")

Flags = tuple[bool, ...]
Avals = tuple[ShapedArray, ...]
Scalar = Callable[..., Jaxpr]  # a row's params -> what it computes for one element


def _type_of(scalar: Scalar) -> Callable[..., Avals]:
    """The type column of a row that computes a scalar jaxpr everywhere."""

    def rule(*operands: ShapedArray, **params: Any) -> Avals:
        shape = operands[0].shape if operands else ()
        for a in operands:
            if a.shape != shape:
                raise ShapeError(
                    f"vectorize: operands of shapes {shape} and {a.shape}.",
                    "Broadcast them first, as ftrace.vectorize does.",
                )
        return tuple(aval(shape, a.dtype) for a in scalar(**params).out_avals)

    return rule


def _impl_of(scalar: Scalar) -> Callable[..., list[Any]]:
    """The impl column: compiled on its own, or the scalar jaxpr mapped over all elements."""

    def impl(*operands: Any, **params: Any) -> list[Any]:
        jaxpr = scalar(**params)
        shape = typeof(operands[0]).shape if operands else ()
        if shape and config.settings.compile and _is_scalar_program(jaxpr):
            alone = _alone(jaxpr, tuple(aval(shape, a.dtype) for a in jaxpr.in_avals))
            return jit_call(*operands, jaxpr=alone, name="vectorize")
        return owned(mapped(jaxpr, operands), operands)

    return impl


def mapped(jaxpr: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    """A scalar jaxpr at every place of arrays, row by row."""
    shape = typeof(operands[0]).shape if operands else ()
    if not shape:
        return eval_jaxpr(jaxpr, operands)
    flat = [reshape(x, new_sizes=(typeof(x).size,)) for x in operands]
    axis = Axis(typeof(flat[0]).size, None)
    whole, _ = batch_jaxpr(jaxpr, axis, (0,) * len(flat), True)
    return [reshape(y, new_sizes=shape) for y in eval_jaxpr(whole, flat)]


@cached_on_jaxpr
def _alone(jaxpr: Jaxpr, avals: Avals) -> Jaxpr:
    """A scalar jaxpr everywhere, as a program."""
    return trace_closed(lambda *xs: vectorize_call(*xs, jaxpr=jaxpr, active=(), keep="auto"), avals)


def _everywhere(axis: Axis, values: Any, dims: Sequence[Dim]) -> list[Any]:
    """Operands with the mapped axis in front."""
    return [place_axis(v, d, axis, 0) for v, d in zip(values, dims, strict=True)]


@cached_on_jaxpr
def _only(jaxpr: Jaxpr, first: int) -> tuple[Jaxpr, tuple[int, ...]]:
    """The results of a jaxpr from `first` on, of the inputs that they need, and which these are."""
    used = tuple(i >= first for i in range(len(jaxpr.outvars)))
    slim, needed = dce_jaxpr(jaxpr, used)
    return slim, tuple(i for i, n in enumerate(needed) if n)


# ---------------------------------------------------------------------------------- vectorize


def _pushed(*, jaxpr: Jaxpr, active: Flags, keep: str) -> Jaxpr:
    """The scalar jaxpr itself, or pushed forward from the operands marked."""
    return jvp_jaxpr(jaxpr, active)[0] if active else jaxpr


def _jvp(primals: Any, tangents: Any, *, keep: str, **params: Any) -> Any:
    whole = _pushed(keep=keep, **params)
    flags = tuple(t is not ZERO for t in tangents)
    _, nonzero = jvp_jaxpr(whole, flags)
    live = [t for t in tangents if t is not ZERO]
    outs = vectorize_call(*primals, *live, jaxpr=whole, active=flags, keep=keep)
    n = len(nonzero)
    rest = iter(outs[n:])
    return outs[:n], [next(rest) if z else ZERO for z in nonzero]


def _batch(axis: Axis, values: Any, dims: Sequence[Dim], **params: Any) -> Any:
    active: Flags = params["active"]
    n = len(active)
    if not active or any(d is not None for d in dims[:n]):
        outs = vectorize_call(*_everywhere(axis, values, dims), **params)
        return outs, [0] * len(outs)
    # tangents of many members at one place: its results are computed once
    ys = vectorize_call(*values[:n], **{**params, "active": ()})
    slim, read = _only(_pushed(**params), len(ys))
    operands = _everywhere(axis, [values[i] for i in read], [dims[i] for i in read])
    ts = vectorize_call(*operands, jaxpr=slim, active=(), keep=params["keep"])
    return [*ys, *ts], [*(None for _ in ys), *(0 for _ in ts)]


def _partial(known: Flags, *, jaxpr: Jaxpr, active: Flags, keep: str) -> Split:
    """Results and partials are known; the tangents of `active` operands are not."""
    n = len(active)
    if not active or not all(known[:n]):
        whole = _pushed(jaxpr=jaxpr, active=active, keep=keep)
        return _staged(whole, known)
    computed, pattern = partials(jaxpr, active)
    inputs = [i for i, a in enumerate(active) if a]
    rows = [j for j, z in enumerate(jvp_jaxpr(jaxpr, active)[1]) if z]
    linear = {
        "places": tuple((rows.index(j), inputs.index(i)) for j, i in pattern),
        "ins": tuple(_strong(jaxpr.in_avals[i]) for i in inputs),
        "outs": tuple(_strong(jaxpr.out_avals[j]) for j in rows),
    }
    n_out = len(jaxpr.outvars)
    slim, read = _only(computed, n_out)
    tangents = tuple(range(n, len(known)))
    if _again(computed, len(pattern), keep):
        first, weights, given = jaxpr, slim, read
    else:
        first, weights, given = computed, _identity(slim.out_avals), (RES,)
    return Split(
        Half(vectorize_call, {"jaxpr": first, "active": (), "keep": keep}, tuple(range(n))),
        Half(sum_partials, {**linear, "jaxpr": weights}, (*given, *tangents)),
        (True,) * n_out + (False,) * len(rows),
    )


def _again(computed: Jaxpr, partial_count: int, keep: str) -> bool:
    """Whether partials are computed again on the way back rather than stored.

    Storing writes and reads each of them; computing reads the operands, and takes the time in which
    that many bytes could be moved. What a loop costs is not known, so that it is paid once.
    """
    if keep != "auto":
        return keep == "recompute"
    if has_loops(computed):
        return False
    operands = sum(a.dtype.itemsize for a in computed.in_avals)
    stored = sum(a.dtype.itemsize for a in computed.out_avals[-partial_count:])
    return bool(_is_cheaper_again(computed, operands, stored))


def _staged(whole: Jaxpr, known: Flags) -> Split:
    """The row is linear in its unknown operands: all of it waits."""
    params = {"active": (), "keep": "auto"}
    return Split(
        Half(vectorize_call, {"jaxpr": _identity(()), **params}, ()),
        Half(vectorize_call, {"jaxpr": whole, **params}, tuple(range(len(known)))),
        (False,) * len(whole.outvars),
    )


def _identity(avals: Sequence[ShapedArray]) -> Jaxpr:
    return trace_closed(lambda *xs: list(xs), avals)


def _strong(a: ShapedArray) -> ShapedArray:
    return aval((), a.dtype)


def _transpose(cts: Any, *operands: Any, **params: Any) -> Any:
    """Of a function that is linear in some operands: its partials are known."""
    whole = _pushed(**params)
    flags = tuple(type(x) is Linear for x in operands)
    computed, pattern = partials(whole, flags)
    slim, read = _only(computed, len(whole.outvars))
    inputs = [i for i, f in enumerate(flags) if f]
    if any(flags[i] for i in read):
        raise RuleError(
            "The transpose of a vectorized function was asked for that is not linear.",
            "Use vjp or grad, which linearize first.",
        )
    places = tuple((j, inputs.index(i)) for j, i in pattern)
    ins = tuple(_strong(whole.in_avals[i]) for i in inputs)
    outs = tuple(map(_strong, whole.out_avals))
    found = iter(_pull(cts, [operands[i] for i in read], slim, places, ins, outs))
    return [next(found) if f else None for f in flags]


def _gate(e: Eqn, active: Var) -> list[Eqn] | None:
    inner, flags = e.params["jaxpr"], e.params["active"]
    if not is_gated(inner):
        return None
    shape = e.outvars[0].aval.shape
    everywhere = Var(aval(shape, bool_))
    spread = {"shape": shape, "broadcast_dimensions": ()}
    params = {**e.params, "jaxpr": gated(inner), "active": (False, *flags) if flags else ()}
    return [
        Eqn(broadcast_in_dim, [active], spread, [everywhere], e.source),
        Eqn(e.primitive, [everywhere, *e.invars], params, e.outvars, e.source),
    ]


vectorize_call = Primitive(
    name="vectorize",
    impl=_impl_of(_pushed),
    type=_type_of(_pushed),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    partial=_partial,
    gate=_gate,
    mask="call",
    zeros=True,
    lower=Elementwise(lambda avals, **params: _pushed(**params)),
    multiple=True,
    doc="A function of scalars at every place of arrays.",
)


# ---------------------------------------------------------------------------------- sum_partials


@cached_on_jaxpr
def _weighted(jaxpr: Jaxpr, places: Pattern, ins: Avals, outs: Avals) -> Jaxpr:
    """(what partials are computed from, tangents) -> tangents of the results."""
    n = len(jaxpr.invars)

    def weighted(*args: Any) -> list[Any]:
        weights = eval_jaxpr(jaxpr, args[:n])
        sums: list[Any] = [None] * len(outs)
        for (j, i), p in zip(places, weights, strict=True):
            term = mul(*_alike(p, args[n + i]))
            sums[j] = term if sums[j] is None else add(*_alike(sums[j], term))
        return [
            a.dtype.type(0) if s is None else convert_element_type(s, new_dtype=a.dtype)
            for s, a in zip(sums, outs, strict=True)
        ]

    return trace_closed(weighted, (*jaxpr.in_avals, *ins))


def _alike(*xs: Any) -> list[Any]:
    """Numbers of their common dtype."""
    dtypes = {typeof(x).dtype for x in xs}
    if len(dtypes) == 1:
        return list(xs)
    wide = np.result_type(*dtypes)
    return [convert_element_type(x, new_dtype=wide) for x in xs]


def _sum_of(*, jaxpr: Jaxpr, places: Pattern, ins: Avals, outs: Avals) -> Jaxpr:
    return _weighted(jaxpr, places, ins, outs)


def _sum_jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
    n = len(jaxpr.invars)
    if any(t is not ZERO for t in tangents[:n]):
        whole = _sum_of(jaxpr=jaxpr, **params)
        return _jvp(primals, tangents, jaxpr=whole, active=(), keep="auto")
    moved = [instantiate(t, p) for t, p in zip(tangents[n:], primals[n:], strict=True)]
    ys, ts = (sum_partials(*primals[:n], *xs, jaxpr=jaxpr, **params) for xs in (primals[n:], moved))
    return ys, ts


def _sum_batch(axis: Axis, values: Any, dims: Sequence[Dim], **params: Any) -> Any:
    outs = sum_partials(*_everywhere(axis, values, dims), **params)
    return outs, [0] * len(outs)


def _sum_transpose(
    cts: Any, *operands: Any, jaxpr: Jaxpr, places: Pattern, ins: Avals, outs: Avals
) -> Any:
    n = len(jaxpr.invars)
    found = _pull(cts, operands[:n], jaxpr, places, ins, outs)
    return [
        *(None for _ in range(n)),
        *(c if type(x) is Linear else None for c, x in zip(found, operands[n:], strict=True)),
    ]


def _pull(
    cts: Sequence[Any],
    known: Sequence[Any],
    jaxpr: Jaxpr,
    places: Pattern,
    ins: Avals,
    outs: Avals,
) -> list[Any]:
    """Cotangents of the tangents: the same sums with results and tangents exchanged.

    Where a cotangent is masked, the partials of that result are zero outside of the mask, too.
    """
    live = [j for j, c in enumerate(cts) if c is not None]
    hidden = tuple(type(cts[j]) is Masked for j in live)
    chosen = tuple((live.index(j), i) if j in live else None for j, i in places)
    reached = sorted({i for c in chosen if c is not None for i in (c[1],)})
    swapped = tuple((reached.index(c[1]), c[0]) for c in chosen if c is not None)
    found = sum_partials(
        *known,
        *(_mask(cts[j]) for j, h in zip(live, hidden, strict=True) if h),
        *(materialise(cts[j]) for j in live),
        jaxpr=_masked(jaxpr, chosen, hidden),
        places=swapped,
        ins=tuple(outs[j] for j in live),
        outs=tuple(ins[i] for i in reached),
    )
    result: list[Any] = [None] * len(ins)
    for k, (i, ct) in enumerate(zip(reached, found, strict=True)):
        parents = [cts[live[j]] for r, j in swapped if r == k]
        result[i] = ct
        if all(type(c) is Masked for c in parents):
            masks = [_mask(c) for c in parents]
            result[i] = Masked(ct, reduce(bitwise_or, masks))
            result[i].branch = any(c.branch for c in parents)
    return result


def _mask(ct: Masked) -> Any:
    return full_mask(ct.mask, typeof(ct.value).shape)


@cached_on_jaxpr
def _masked(jaxpr: Jaxpr, chosen: tuple[Any, ...], hidden: Flags) -> Jaxpr:
    """The partials chosen, as (result, input) or None, zero where the mask of a result is not."""
    n = len(jaxpr.invars)

    def masked(*args: Any) -> list[Any]:
        weights, masks = eval_jaxpr(jaxpr, args[:n]), iter(args[n:])
        of = [next(masks) if h else None for h in hidden]
        return [
            p if of[c[0]] is None else select(of[c[0]], p, typeof(p).dtype.type(0))
            for c, p in zip(chosen, weights, strict=True)
            if c is not None
        ]

    more = [aval((), bool_) for h in hidden if h]
    return trace_closed(masked, (*jaxpr.in_avals, *more))


sum_partials = Primitive(
    name="sum_partials",
    impl=_impl_of(_sum_of),
    type=_type_of(_sum_of),
    jvp=_sum_jvp,
    transpose=_sum_transpose,
    batch=_sum_batch,
    mask="call",
    steep=(0,),  # a partial
    zeros=True,
    lower=Elementwise(lambda avals, **params: _sum_of(**params)),
    multiple=True,
    doc="Sums of tangents times partial derivatives, at every place of arrays.",
)

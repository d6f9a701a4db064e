"""Indexing by integer arrays: `gather` reads, `scatter` writes, `scatter_add` adds.

The three transpose into each other: gather to scatter_add, scatter_add to gather, scatter to a
scatter of zeros and a gather by the winners. Of equal places the last in C order wins a
`scatter`, and so do its tangent and cotangent. What indices mean is in `places.py`; `scatter.py`
has the scatters that multiply or choose.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import int64
from ftrace.core.jaxpr import Atom, Eqn, Literal, Var
from ftrace.core.lower import Expansion
from ftrace.core.primitive import ErrorSample, Linear, Primitive, Rule, Sample
from ftrace.core.trace import Tracer
from ftrace.core.zero import ZERO, Masked
from ftrace.primitives.compare import eq, select
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.index_bounds import gathered, scattered
from ftrace.primitives.linear import add, align, broadcast_in_dim
from ftrace.primitives.movement import Ints, carry, place, plain, whole_mask, zeros
from ftrace.primitives.overwriting import spread, without
from ftrace.primitives.places import (
    BAD_INDICES,
    gather_impl,
    gathered_shape,
    index_cases,
    index_shape,
    scatter_errors,
    scatter_impl,
    scatter_samples,
    scatter_type,
)
from ftrace.primitives.shape import reshape

# ---------------------------------------------------------------------------------- gather


def _gather_jvp(primals: Any, tangents: Any, *, axes: Ints, mode: str) -> Any:
    x, *indices = primals
    y = gather(x, *indices, axes=axes, mode=mode)
    return y, gather(tangents[0], *indices, axes=axes, mode=_back(mode))


def _back(mode: str) -> str:
    """The mode of tangents and cotangents: what was filled in is constant."""
    return "drop" if mode == "fill" else mode


def _gather_transpose(ct: Any, x: Any, *indices: Any, axes: Ints, mode: str) -> Any:
    """What was read twice adds up, so that masked terms must be zero before they are added."""

    def back(c: Any) -> Any:
        empty = zeros(aval(x.aval.shape, typeof(c).dtype))
        return scatter_add(empty, c, *indices, axes=axes, mode=_back(mode))

    if type(ct) is Masked:
        masked = ct.with_value(plain(ct), lambda c=ct: whole_mask(c))
        masked.zeroed, masked.computed = True, False
        ct = masked
    known = not any(isinstance(i, Tracer) for i in indices)
    return (spread(ct, back, fixed=known), *(None for _ in indices))


def batched_indices(axis: Any, indices: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """Index arrays of all members (mapped axis in front), and first the members' numbers."""
    aligned = align(axis, indices, dims)
    shape = index_shape([typeof(i) for i in aligned])
    return [iota(dtype=int64, shape=shape, dimension=0), *aligned]


def _gather_batch(axis: Any, values: Any, dims: Any, *, axes: Ints, mode: str) -> Any:
    (x, *indices), (d, *index_dims) = values, dims
    if all(i is None for i in index_dims):
        shifted = tuple(a if a < d else a + 1 for a in axes)
        y = gather(x, *indices, axes=shifted, mode=mode)
        before = len(index_shape([typeof(i) for i in indices]))
        return y, before + d - sum(a < d for a in shifted)
    if d is None:
        return gather(x, *align(axis, indices, index_dims), axes=axes, mode=mode), 0
    indices = batched_indices(axis, indices, index_dims)
    axes = (0, *(a + 1 for a in axes))
    return gather(place(axis, x, d, 0), *indices, axes=axes, mode=mode), 0


def _gather_samples() -> Iterable[Sample]:
    for x, indices, params in index_cases():
        yield Sample((x, *indices), params)
    integers = np.arange(3)
    yield Sample((integers, np.array([2, 5, -4])), {"axes": (0,), "mode": "fill"})
    yield Sample((np.ones(3), np.array([2, -1])), {"axes": (0,), "mode": "fill"})


def _gather_errors() -> Iterable[ErrorSample]:
    for indices, axes, mode, error, phrase in BAD_INDICES:
        yield ErrorSample((np.ones((2, 3)), *indices), {"axes": axes, "mode": mode}, error, phrase)


def gate_indices(first: int) -> Rule:
    """The `gate` of a row whose operands from `first` on are indices: 0 where it is not active."""

    def gate(e: Eqn, active: Var) -> list[Eqn] | None:
        if e.params["mode"] != "raise" or all(type(i) is not Var for i in e.invars[first:]):
            return None
        eqns: list[Eqn] = []
        indices: list[Any] = []
        for i in e.invars[first:]:
            found = i
            if type(i) is Var:
                found = Var(aval(i.aval.shape, i.aval.dtype))
                zero = Literal(i.aval.dtype.type(0))
                eqns.append(Eqn(select, [active, i, zero], {}, [found], e.source))
            indices.append(found)
        invars = [*e.invars[:first], *indices]
        return [*eqns, Eqn(e.primitive, invars, e.params, e.outvars, e.source)]

    return gate


gather = Primitive(
    name="gather",
    impl=gather_impl,
    type=lambda x, *indices, axes, mode: aval(
        gathered_shape("gather", x, indices, axes, mode), x.dtype
    ),
    jvp=_gather_jvp,
    transpose=_gather_transpose,
    batch=_gather_batch,
    mask="call",
    zeros=True,
    lower=Expansion(gathered),
    calm=True,
    gate=gate_indices(1),
    linear_in=(0,),
    samples=_gather_samples,
    errors=_gather_errors,
    doc="x at the places that `indices` give along `axes`: the index shape, then the other axes.",
)


def index_of_first_axis(eqn: Eqn) -> tuple[Atom, bool] | None:
    """The index of an equation that reads an array along its first axis alone.

    With whether it counts from the end where it is negative; None for all other equations.
    """
    if eqn.primitive is not gather or eqn.params["axes"] != (0,):
        return None
    return eqn.invars[1], eqn.params["mode"] == "raise"


# ---------------------------------------------------------------------------------- scatter


def scatter_batch(row: Rule) -> Rule:
    """Batching of any scatter: the mapped axis leads x, and is indexed where indices are mapped."""

    def batch(axis: Any, values: Any, dims: Any, *, axes: Ints, mode: str) -> Any:
        (x, v, *indices), (d, v_d, *index_dims) = values, dims
        shifted = tuple(a + 1 for a in axes)
        x = place(axis, x, d, 0)
        if all(i is None for i in index_dims):
            v = place(axis, v, v_d, len(index_shape([typeof(i) for i in indices])))
            return row()(x, v, *indices, axes=shifted, mode=mode), 0
        indices = batched_indices(axis, indices, index_dims)
        v = place(axis, v, v_d, 0)
        return row()(x, v, *indices, axes=(0, *shifted), mode=mode), 0

    return batch


def tangents_of(x: Any, v: Any, tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The tangents of x and v as arrays of x's dtype."""
    dtype = typeof(x).dtype
    tx, tv = tangents[:2]
    tx = zeros(typeof(x)) if tx is ZERO else tx
    if tv is ZERO:
        tv = zeros(aval(typeof(v).shape, dtype))
    elif typeof(tv).dtype != dtype:  # v was a Python scalar
        tv = convert_element_type(tv, new_dtype=dtype)
    return tx, tv


def _scatter_jvp(primals: Any, tangents: Any, **where: Any) -> Any:
    """The same places win for tangents: the winner depends on the indices alone."""
    x, v, *indices = primals
    tx, tv = tangents_of(x, v, tangents)
    return scatter(x, v, *indices, **where), scatter(tx, tv, *indices, **where)


def places_of(x: ShapedArray, indices: Sequence[Any], axes: Ints, mode: str) -> tuple[Any, Any]:
    """Each update's number, from 1, and the number of the last update of the same place.

    An update outside of x (mode drop) has the number 0 as its last.
    """
    shape = index_shape([typeof(i) for i in indices])
    order = add(iota(dtype=int64, shape=(prod(shape),), dimension=0), 1)
    order = reshape(order, new_sizes=shape)
    board = zeros(aval(tuple(x.shape[a] for a in axes), int64))
    where = {"axes": tuple(range(len(axes))), "mode": mode}
    board = scatter(board, order, *indices, **where)
    return order, gather(board, *indices, **where)


def _scatter_transpose(ct: Any, x: Any, v: Any, *indices: Any, axes: Ints, mode: str) -> Any:
    shape = v.aval.shape if type(v) is Linear else typeof(v).shape
    to_x = to_v = None
    if type(x) is Linear:

        def clear(c: Any) -> Any:
            return scatter(c, zeros(aval(shape, typeof(c).dtype)), *indices, axes=axes, mode=mode)

        to_x = without(ct, clear)
    if type(v) is Linear:
        to_v = carry(ct, lambda c: gather(c, *indices, axes=axes, mode=mode))
        within = index_shape([typeof(i) for i in indices])
        if prod(within) > 1:
            a = x.aval if type(x) is Linear else typeof(x)
            won = eq(*places_of(a, indices, axes, mode))
            kept = tuple(range(len(within)))
            won = broadcast_in_dim(won, shape=shape, broadcast_dimensions=kept)
            to_v = without(to_v, lambda c: select(won, c, typeof(c).dtype.type(0)))
    return (to_x, to_v, *(None for _ in indices))


scatter = Primitive(
    name="scatter",
    impl=scatter_impl(None),
    type=lambda x, v, *indices, **where: scatter_type("scatter", x, v, indices, **where),
    jvp=_scatter_jvp,
    transpose=_scatter_transpose,
    batch=scatter_batch(lambda: scatter),
    mask="call",
    zeros=True,
    lower=Expansion(scattered("set")),
    calm=True,
    gate=gate_indices(2),
    linear_in=(0, 1),
    samples=scatter_samples("biufc"),
    errors=scatter_errors,
    doc="A copy of x with v written at the places that `indices` give along `axes`; of equal "
    "places the last one wins.",
)


# ---------------------------------------------------------------------------------- scatter_add


def _scatter_add_jvp(primals: Any, tangents: Any, **where: Any) -> Any:
    x, v, *indices = primals
    y = scatter_add(x, v, *indices, **where)
    if tangents[1] is ZERO:
        return y, tangents[0]
    tx, tv = tangents_of(x, v, tangents)
    return y, scatter_add(tx, tv, *indices, **where)


def _scatter_add_transpose(ct: Any, x: Any, v: Any, *indices: Any, **where: Any) -> Any:
    to_v = gather(ct, *indices, **where) if type(v) is Linear else None
    return (ct if type(x) is Linear else None, to_v, *(None for _ in indices))


scatter_add = Primitive(
    name="scatter_add",
    impl=scatter_impl(np.add),
    type=lambda x, v, *indices, **where: scatter_type("scatter_add", x, v, indices, **where),
    jvp=_scatter_add_jvp,
    transpose=_scatter_add_transpose,
    batch=scatter_batch(lambda: scatter_add),
    mask="move",
    zeros=True,
    lower=Expansion(scattered("add")),
    gate=gate_indices(2),
    linear_in=(0, 1),
    samples=scatter_samples("biufc"),
    errors=scatter_errors,
    doc="x with v added at the places that `indices` give along `axes`, as often as they occur; "
    "booleans are or-ed.",
)

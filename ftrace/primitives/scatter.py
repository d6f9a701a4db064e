"""Scatters that combine: `scatter_mul`, `scatter_min`, `scatter_max`.

Indices mean what they mean in `index.py`. Places that occur several times are legal, and so are
their derivatives: a product's derivative multiplies all other factors of its place together
(segmented scans of the updates, no division, so zeros are exact at every order); a minimum or
maximum shares its tangent equally among all that attain it, x included, as JAX does.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.dtypes import int64
from ftrace.core.lower import Expansion
from ftrace.core.primitive import Linear, Primitive, Unsupported
from ftrace.core.zero import ZERO
from ftrace.primitives.arithmetic import div, mul
from ftrace.primitives.compare import bitwise_or, eq, isnan, select
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.index import (
    gate_indices,
    gather,
    places_of,
    scatter,
    scatter_add,
    scatter_batch,
    tangents_of,
)
from ftrace.primitives.index_bounds import scattered
from ftrace.primitives.linear import NO_TRANSPOSE, broadcast_in_dim, check_kinds
from ftrace.primitives.movement import Ints, zeros
from ftrace.primitives.places import (
    index_shape,
    scatter_errors,
    scatter_impl,
    scatter_samples,
    scatter_type,
)
from ftrace.primitives.shape import reshape, rev
from ftrace.primitives.slicing import pad
from ftrace.primitives.sort import sort

# ---------------------------------------------------------------------------------- products


def _other_factors(x: Any, v: Any, indices: Sequence[Any], axes: Ints, mode: str) -> Any:
    """For each update the product of all other updates of its place (None: there are none)."""
    within = index_shape([typeof(i) for i in indices])
    n = prod(within)
    if n < 2:
        return None
    shape = typeof(v).shape
    _, place = places_of(typeof(x), indices, axes, mode)
    place = reshape(place, new_sizes=(n,))
    number = iota(dtype=int64, shape=(n,), dimension=0)
    place, order = sort(place, number, dimension=0, is_stable=True, num_keys=1)
    factors = reshape(v, new_sizes=(n, *shape[len(within) :]))
    factors = gather(factors, order, axes=(0,), mode="clip")
    before = _product_before(factors, place)
    after = rev(_product_before(_backwards(factors), _backwards(place)), dimensions=(0,))
    back = scatter(zeros(typeof(order)), number, order, axes=(0,), mode="clip")
    others = gather(mul(before, after), back, axes=(0,), mode="clip")
    return reshape(others, new_sizes=shape)


def _backwards(x: Any) -> Any:
    return rev(x, dimensions=(0,))


def _shifted(x: Any, by: int, fill: int) -> Any:
    """Each row is the one `by` rows before it, the first ones are `fill`."""
    a = typeof(x)
    config = ((by, -by, 0), *((0, 0, 0),) * (a.ndim - 1))
    return pad(x, a.dtype.type(fill), padding_config=config)


def _product_before(factors: Any, place: Any) -> Any:
    """For each row the product of the rows before it that have the same place (sorted)."""
    shape = typeof(factors).shape
    one = typeof(factors).dtype.type(1)

    def earlier(x: Any, by: int) -> Any:
        together = eq(_shifted(place, by, -1), place)
        together = broadcast_in_dim(together, shape=shape, broadcast_dimensions=(0,))
        return select(together, _shifted(x, by, 1), one)

    product = earlier(factors, 1)
    by = 1
    while by < shape[0]:
        product = mul(product, earlier(product, by))
        by *= 2
    return product


def _mul_jvp(primals: Any, tangents: Any, **where: Any) -> Any:
    x, v, *indices = primals
    y = scatter_mul(x, v, *indices, **where)
    tx, tv = tangents_of(x, v, tangents)
    t = tx if tangents[0] is ZERO else scatter_mul(tx, v, *indices, **where)
    if tangents[1] is ZERO:
        return y, t
    others = _other_factors(x, v, indices, **where)
    part = mul(tv, gather(x, *indices, **where))
    return y, scatter_add(t, part if others is None else mul(part, others), *indices, **where)


def _mul_transpose(ct: Any, x: Any, v: Any, *indices: Any, **where: Any) -> Any:
    if type(v) is Linear:
        return Unsupported("scatter_mul is linear in the array only, not in the updates.")()
    return (scatter_mul(ct, v, *indices, **where), None, *(None for _ in indices))


scatter_mul = Primitive(
    name="scatter_mul",
    impl=scatter_impl(np.multiply),
    type=lambda x, v, *indices, **where: scatter_type("scatter_mul", x, v, indices, **where),
    jvp=_mul_jvp,
    transpose=_mul_transpose,
    batch=scatter_batch(lambda: scatter_mul),
    mask="same",
    zeros=True,
    lower=Expansion(scattered("mul")),
    linear_in=(0,),
    gate=gate_indices(2),
    samples=scatter_samples("biufc"),
    errors=scatter_errors,
    doc="x multiplied by v at the places that `indices` give along `axes`, as often as they occur.",
)


# ---------------------------------------------------------------------------------- extremes


def _extreme(name: str, ufunc: Any, doc: str) -> Primitive:
    row: Primitive

    def type_rule(
        x: ShapedArray, v: ShapedArray, *indices: ShapedArray, **where: Any
    ) -> ShapedArray:
        check_kinds(name, "biuf", x)
        return scatter_type(name, x, v, indices, **where)

    def jvp(primals: Any, tangents: Any, **where: Any) -> Any:
        x, v, *indices = primals
        y = row(x, v, *indices, **where)
        tx, tv = tangents_of(x, v, tangents)
        dtype = typeof(x).dtype
        zero = dtype.type(0)
        kept = bitwise_or(eq(x, y), isnan(x))
        won = bitwise_or(eq(v, gather(y, *indices, **where)), isnan(v))
        total = scatter_add(select(kept, tx, zero), select(won, tv, zero), *indices, **where)
        kept = convert_element_type(kept, new_dtype=dtype)
        won = convert_element_type(won, new_dtype=dtype)
        return y, div(total, scatter_add(kept, won, *indices, **where))

    row = Primitive(
        name=name,
        impl=scatter_impl(ufunc),
        type=type_rule,
        jvp=jvp,
        transpose=NO_TRANSPOSE,
        batch=scatter_batch(lambda: row),
        zeros=True,
        lower=Expansion(scattered(name.removeprefix("scatter_"))),
        gate=gate_indices(2),
        samples=scatter_samples("biuf"),
        errors=scatter_errors,
        doc=doc,
    )
    return row


scatter_min = _extreme(
    "scatter_min",
    np.minimum,
    "The smaller of x and v at the places that `indices` give along `axes`; NaN wins.",
)
scatter_max = _extreme(
    "scatter_max",
    np.maximum,
    "The larger of x and v at the places that `indices` give along `axes`; NaN wins.",
)

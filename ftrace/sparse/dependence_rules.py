"""What the elements of an equation's results depend on: the rules, by ways to compute a primitive.

The places of a value are a boolean matrix, a `scipy.sparse.csr_array` with a row for each element
and a column for each element of the input. Too many places are no mistake, too few are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import HostMemoryError
from ftrace.core.lazy import lazy
from ftrace.core.lower import (
    Cumulative,
    Elementwise,
    Gufunc,
    Moving,
    Pointwise,
    Product,
    Reduction,
    Scattering,
)
from ftrace.core.primitive import Primitive
from ftrace.core.records import record
from ftrace.core.trace import Trace, Tracer

MOST: Final = 50_000_000  # places of a value

_csr = lazy("scipy.sparse", "csr_array")
_vstack = lazy("scipy.sparse", "vstack")
Places = Any


class Dependent(Tracer):
    """A value that is not known, and what its elements depend on."""

    __slots__ = ("kind", "places")
    slots = ("owner", "kind", "places")

    def __init__(self, trace: Trace, kind: ShapedArray, places: Places) -> None:
        self.owner = trace
        self.kind = kind
        self.places = places

    @property
    def aval(self) -> ShapedArray:
        """The type."""
        return self.kind


core.register(Dependent)


@record
class Operation:
    """An equation of which some operand depends on the input.

    Attributes:
        row: the primitive.
        args: operands: `Dependent`, or known.
        params: the equation's.
        types: of the results.
        way: how the primitive is computed, of which the rule makes use.
        count: elements of the input.
    """

    row: Primitive
    args: Sequence[Any]
    params: dict[str, Any]
    types: Sequence[ShapedArray]
    way: Any
    count: int

    def live(self) -> list[tuple[int, Dependent]]:
        """The operands that depend on the input, with their positions."""
        return [(k, x) for k, x in enumerate(self.args) if depends(x)]

    def nothing(self, a: ShapedArray) -> Places:
        """The places of a value that depends on nothing."""
        return none(a.size, self.count)


def depends(x: Any) -> bool:
    """Whether some element of a value depends on the input."""
    return isinstance(x, Dependent) and bool(x.places.nnz)


def none(size: int, count: int) -> Places:
    """No places, for so many elements of a value and of the input."""
    return _csr((size, count), dtype=bool)


def stacked(parts: Sequence[Places]) -> Places:
    """Places of values that are put one behind the other."""
    return _vstack(parts, format="csr")


def checked(places: Places) -> Places:
    """Places, if they are not too many.

    Raises:
        HostMemoryError: they are.
    """
    return _room(places.nnz) and places


def _room(count: int) -> bool:
    if count > MOST:
        raise HostMemoryError(
            f"The sparsity pattern has {count:,} elements or more, at some value of the program.",
            "The function mixes its elements: use a dense jacobian, jacobian_operator or hvp.",
        )
    return True


def applied(into: Any, source: Any, x: Dependent, size: int) -> Places:
    """The places of `size` elements, where element `into[i]` depends on what `source[i]` does."""
    ones = np.ones(into.size, bool)
    matrix = _csr((ones, (into, source)), shape=(size, x.aval.size), dtype=bool)
    return checked(matrix @ x.places)


def everything(op: Operation) -> list[Places]:
    """Each element of a result depends on all that any operand does."""
    columns = np.unique(np.concatenate([x.places.indices for _, x in op.live()]))
    ends = np.array([0, columns.size])
    one = _csr((np.ones(columns.size, bool), columns, ends), shape=(1, op.count))
    return [one[np.zeros(a.size, np.int64)] for a in op.types if _room(columns.size * a.size)]


def _moved(op: Operation) -> list[Places] | None:
    """A row that moves elements moves their numbers; where from must be known."""
    labels, rows, count = list[Any](), [none(1, op.count)], 1
    for x in op.args:
        a = typeof(x)
        if not is_inexact(a.dtype):
            if isinstance(x, Dependent):
                return None
            labels.append(x)
        elif isinstance(x, Dependent):
            labels.append(np.arange(count, count + a.size).reshape(a.shape)[()])
            rows.append(x.places)
            count += a.size
        else:
            labels.append(np.zeros(a.shape, np.int64)[()])
    found = op.row.impl(*labels, **op.params)
    stack = stacked(rows)
    numbers = found if op.row.multiple else (found,)
    return [stack[np.asarray(n, np.int64).reshape(-1)] for n in numbers]


def _united(op: Operation) -> list[Places]:
    """An element depends on what the operands' elements at its place do."""
    return [_at_each_place(op, a) for a in op.types]


def _at_each_place(op: Operation, a: ShapedArray) -> Places:
    found = op.nothing(a)
    for k, x in op.live():
        places = x.places if x.aval.size == a.size else x.places[np.zeros(a.size, np.int64)]
        found = found + _kept(places, _weights(op, k, a))
    return checked(found)


def _weights(op: Operation, k: int, a: ShapedArray) -> Any:
    """Where operand k matters, of a row that is linear in it and of which all else is known.

    What is multiplied by zero does not, nor what a known condition does not select.
    """
    live = {i for i, _ in op.live()}
    linear = op.row.linear_in if not op.row.bilinear else (k,)
    unknown = any(isinstance(x, Dependent) and i not in live for i, x in enumerate(op.args))
    if unknown or op.row.multiple or not live <= set(linear):
        return np.ones(a.shape, bool)
    ones = [
        _everywhere((1 + 1j) * (i == k), typeof(x)) if i in linear else x
        for i, x in enumerate(op.args)
    ]
    return np.broadcast_to(np.not_equal(op.row.impl(*ones, **op.params), 0), a.shape)


def _everywhere(number: complex, a: ShapedArray) -> Any:
    """An array of one number, or its real part."""
    return np.full(a.shape, number if a.dtype.kind == "c" else number.real, a.dtype)[()]


def _kept(places: Places, wanted: Any) -> Places:
    """Places without the rows that are not wanted."""
    wanted = wanted.reshape(-1)
    if wanted.all():
        return places
    at = np.flatnonzero(wanted)
    only = _csr((np.ones(at.size, bool), (at, at)), shape=(wanted.size, wanted.size), dtype=bool)
    return only @ places


def _folded(op: Operation) -> list[Places]:
    """What elements along some axes depend on together."""
    x, (a,) = op.args[0], op.types
    axes, shape = op.params["axes"], x.aval.shape
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    into = np.broadcast_to(np.arange(a.size).reshape(kept), shape).reshape(-1)
    return [applied(into, np.arange(x.aval.size), x, a.size)]


def _accumulated(op: Operation) -> list[Places]:
    """What the elements along an axis up to each one depend on."""
    x, axis = op.args[0], op.params["axis"]
    number = np.moveaxis(np.arange(x.aval.size).reshape(x.aval.shape), axis, 0)
    number = number[::-1] if op.params["reverse"] else number
    later, earlier = np.tril_indices(len(number))
    return [applied(number[later].reshape(-1), number[earlier].reshape(-1), x, x.aval.size)]


def _multiplied(op: Operation) -> list[Places]:
    """Sums of products: with what each element of an operand is multiplied by."""
    (a,), (contracted, batch) = op.types, op.way.dims(**op.params)
    found = op.nothing(a)
    for k, x in op.live():
        other = op.args[1 - k]
        shape = typeof(other).shape
        weight = np.ones(shape, bool) if isinstance(other, Dependent) else np.not_equal(other, 0)
        axes = [(contracted[i], batch[i]) for i in (k, 1 - k)]
        found = found + _of_factor(x, weight, axes, a, first=k == 0)
    return [checked(found)]


def _of_factor(x: Dependent, weight: Any, axes: Any, a: ShapedArray, first: bool) -> Places:
    """What one operand brings to the places of a product.

    Args:
        x: the operand.
        weight: where the other one is not zero.
        axes: for this operand and the other (contracted, batch).
        a: type of the result, whose axes are those of the batch, the first operand's, the second's.
        first: whether this is the first operand.
    """
    (own_c, own_b), (other_c, other_b) = axes
    own = [i for i in range(x.aval.ndim) if i not in (*own_c, *own_b)]
    other = [i for i in range(weight.ndim) if i not in (*other_c, *other_b)]
    n = len(own_b)
    cut = n + (len(own) if first else len(other))
    left, right = range(n, cut), range(cut, a.ndim)
    mine, theirs = (left, right) if first else (right, left)
    out = np.arange(a.size).reshape(a.shape).transpose((*range(n), *mine, *theirs))
    number = np.arange(x.aval.size).reshape(x.aval.shape).transpose((*own_b, *own, *own_c))
    b, f, c = (_product(x.aval.shape[i] for i in part) for part in (own_b, own, own_c))
    weight = weight.transpose((*other_b, *other_c, *other)).reshape(b, c, -1)
    out, number = out.reshape(b, f, -1), number.reshape(b, f, c)
    at_b, at_c, at_o = np.nonzero(weight)
    _room(f * at_b.size)
    into, source = out[at_b, :, at_o], number[at_b, :, at_c]
    return applied(into.reshape(-1), source.reshape(-1), x, a.size)


def _product(sizes: Any) -> int:
    return int(np.prod(list(sizes), dtype=np.int64))


def _scattered(op: Operation) -> list[Places] | None:
    """Updates at known places, beside what was there."""
    target, updates, at = op.args
    if isinstance(at, Dependent):
        return None
    (a,) = op.types
    found = target.places if isinstance(target, Dependent) else op.nothing(a)
    if depends(updates):
        into, source = written(np.asarray(at).reshape(-1), a.size, updates.aval.size)
        found = found + applied(into, source, updates, a.size)
    return [checked(found)]


def written(at: Any, size: int, updates: int) -> tuple[Any, Any]:
    """Where elements of a scatter's updates lie in its result of that size, and which these are."""
    block = updates // at.size if at.size else 0
    many = size // block if block else 0
    at = np.where(at < 0, at + many, at)
    inside = (at >= 0) & (at < many)
    into = at[inside, None] * block + np.arange(block)
    source = np.arange(updates).reshape(at.size, block)[inside]
    return into.reshape(-1), source.reshape(-1)


def _within_cores(op: Operation) -> list[Places] | None:
    """All of a core depends on all of the operands' cores at the same batch indices."""
    call = op.way.call([typeof(x) for x in op.args], **op.params)
    if call is None:
        return None
    given = {c.at: c.axes for c in call.inputs if hasattr(c, "at")}
    made = {c.at: c.axes for c in call.outputs if hasattr(c, "at")}
    live = op.live()
    if any(k not in given for k, _ in live) or any(k not in made for k in range(len(op.types))):
        return None
    results: list[Places] = []
    for k, a in enumerate(op.types):
        batch, places = _by_batch(a, made[k])
        found = op.nothing(a)
        for i, x in live:
            same, each = _by_batch(x.aval, given[i])
            if same != batch:
                return None
            into = np.repeat(np.arange(len(each)), each.shape[1])
            core_places = applied(into, each.reshape(-1), x, len(each))
            where = np.empty(a.size, np.int64)
            where[places.reshape(-1)] = np.repeat(np.arange(len(places)), places.shape[1])
            found = found + core_places[where]
        results.append(checked(found))
    return results


def _by_batch(a: ShapedArray, axes: Sequence[int | None]) -> tuple[tuple[int, ...], Any]:
    """The sizes of the batch, and for each of its elements the numbers of a core's elements."""
    core_axes = {i % a.ndim for i in axes if i is not None}
    batch = [i for i in range(a.ndim) if i not in core_axes]
    numbers = np.arange(a.size).reshape(a.shape).transpose((*batch, *sorted(core_axes)))
    sizes = tuple(a.shape[i] for i in batch)
    return sizes, numbers.reshape(_product(sizes), _product(a.shape[i] for i in core_axes))


RULES: Final[dict[type, Callable[[Operation], list[Places] | None]]] = {
    Moving: _moved,
    Pointwise: _united,
    Elementwise: _united,
    Reduction: _folded,
    Cumulative: _accumulated,
    Product: _multiplied,
    Scattering: _scattered,
    Gufunc: _within_cores,
}
"""By a way to compute a primitive: the places of the results; None where the rule cannot tell."""

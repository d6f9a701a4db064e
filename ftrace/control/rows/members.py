"""Control flow with effects under `vmap`: one member after the other.

A mapped predicate usually becomes a select over everything; what has an effect must happen for
those members only that come by, so such rows are repeated for each member instead.
"""

from collections.abc import Sequence
from typing import Any

from ftrace.core.avals import typeof
from ftrace.core.primitive import Primitive
from ftrace.interpreters.batching import Axis, Dim
from ftrace.primitives.shape import concatenate, expand_dims, squeeze
from ftrace.primitives.slicing import along


def member_by_member(
    row: Primitive, axis: Axis, values: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], list[Dim]]:
    """The batch column of a row with several results that is applied to each member in turn."""
    found = [
        row(*(member(v, d, i) for v, d in zip(values, dims, strict=True)), **params)
        for i in range(axis.size)
    ]
    outs = stacked(found)
    return outs, [0] * len(outs)


def stacked(found: Sequence[Sequence[Any]]) -> list[Any]:
    """The results of several runs, each stacked along a new first axis."""
    return [
        concatenate(*(expand_dims(x, dimensions=(0,)) for x in column), dimension=0)
        for column in zip(*found, strict=True)
    ]


def member(value: Any, dim: Dim, i: int) -> Any:
    """Member i of a value with a mapped axis."""
    if dim is None:
        return value
    dim %= len(typeof(value).shape)
    return squeeze(along(value, dim, i, i + 1), dimensions=(dim,))

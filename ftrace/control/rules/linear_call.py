"""The `linear_call` row: a linear map given by two functions, itself and its transpose.

The derivative of a function that ftrace cannot trace is such a map: `push` takes residuals and
tangents to tangents, `pull` residuals and cotangents to cotangents. Both are functions of flat
values, made of rows themselves: second derivatives and batches go through their operations.

`custom_lin.py` stays a row of its own: it has a transpose only, which a user wrote and which is
checked for linearity, often no push, it is told which cotangents are zero, and it stages its rules
when it is staged itself. As one row each of these would be a special case of this one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.primitive import Linear, Primitive
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, Dim, batch_flat, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.tangents import instantiate
from ftrace.interpreters.transpose import instantiate_cotangent
from ftrace.primitives.linear import move_axis, reduce_sum


class LinearMap(Protocol):
    """What the row applies."""

    outs: tuple[ShapedArray, ...]
    """Types of its results."""

    def push(self, residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The map applied to tangents."""
        ...

    def pull(
        self, residuals: Sequence[Any], cts: Sequence[Any], wanted: Sequence[bool]
    ) -> list[Any]:
        """Its transpose applied to cotangents; one for each wanted tangent, None for others."""
        ...


def _apply(n: int, linear: LinearMap) -> Callable[..., list[Any]]:
    return lambda *operands: linear.push(operands[:n], operands[n:])


def _impl(*operands: Any, n: int, linear: LinearMap) -> list[Any]:
    return owned(linear.push(operands[:n], operands[n:]), operands)


def _jvp(primals: Any, tangents: Any, *, n: int, linear: LinearMap) -> Any:
    if all(t is ZERO for t in tangents[:n]):
        moved = map(instantiate, tangents[n:], primals[n:])
        return tuple(
            linear_call(*primals[:n], *ts, n=n, linear=linear) for ts in (primals[n:], moved)
        )
    return jvp_flat(_apply(n, linear), primals, tangents)


class _Batched:
    """A linear map over mapped operands; every result is mapped at axis 0."""

    __slots__ = ("axis", "dims", "linear", "n", "outs")

    def __init__(self, linear: LinearMap, axis: Axis, n: int, dims: tuple[Dim, ...]) -> None:
        self.linear, self.axis, self.n, self.dims = linear, axis, n, dims
        self.outs = tuple(aval((axis.size, *a.shape), a.dtype) for a in linear.outs)

    def _run(self, fn: Callable[..., Any], values: Any, dims: Any) -> list[tuple[Any, Dim]]:
        return list(zip(*batch_flat(fn, self.axis, values, dims), strict=True))

    def push(self, residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The map of every member."""
        found = self._run(_apply(self.n, self.linear), [*residuals, *tangents], self.dims)
        return [place_axis(y, d, self.axis, 0) for y, d in found]

    def pull(
        self, residuals: Sequence[Any], cts: Sequence[Any], wanted: Sequence[bool]
    ) -> list[Any]:
        """The transpose of every member; what all members share gets the sum."""

        def pull(*operands: Any) -> list[Any]:
            cts = self.linear.pull(operands[: self.n], operands[self.n :], wanted)
            return [c for c in cts if c is not None]

        dims = (*self.dims[: self.n], *(0 for _ in cts))
        found = iter(self._run(pull, [*residuals, *cts], dims))
        return [
            self._at(next(found), d) if w else None
            for w, d in zip(wanted, self.dims[self.n :], strict=True)
        ]

    def _at(self, found: tuple[Any, Dim], wanted: Dim) -> Any:
        ct, dim = found
        whole = place_axis(ct, dim, self.axis, 0)
        if wanted is None:
            return reduce_sum(whole, axes=(0,))
        return move_axis(whole, 0, wanted)


def _batch(axis: Axis, values: Any, dims: Any, *, n: int, linear: LinearMap) -> Any:
    batched = _Batched(linear, axis, n, tuple(dims))
    return linear_call(*values, n=n, linear=batched), [0] * len(linear.outs)


def _transpose(cts: Any, *operands: Any, n: int, linear: LinearMap) -> Any:
    wanted = [type(x) is Linear for x in operands[n:]]
    full = [instantiate_cotangent(c, a) for c, a in zip(cts, linear.outs, strict=True)]
    return [None] * n + linear.pull(operands[:n], full, wanted)


linear_call: Final = Primitive(
    name="linear_call",
    impl=_impl,
    type=lambda *avals, n, linear: linear.outs,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    zeros=True,
    multiple=True,
    doc="A linear map given with its transpose; the first n operands are residuals.",
)

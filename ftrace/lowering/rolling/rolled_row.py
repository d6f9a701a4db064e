"""The row `rolled`: a counted loop that lowering makes of equations that repeat each other.

`body` takes `(*consts, *carry, *elements)` and gives `(*carry, *ys)`; the row takes `(*consts,
*carry, *arrays)` and gives `(*carry, *ys)`. It differs from a `scan` in where elements lie: each
array that it reads has its own first element and step. It is made after derivatives and batching,
and has no rules for them. `weakened` makes an element of what Python numbers left a Python number
again.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.jaxpr import Jaxpr, eval_jaxpr
from ftrace.core.lower import Iteration, Layout, Pointwise
from ftrace.core.primitive import Effects, Primitive, Unsupported
from ftrace.primitives import elements


class RolledLoop(NamedTuple):
    """How the operands of a `rolled` are to be read.

    Attributes:
        length: the number of iterations.
        n_consts, n_carry: how many operands there are of these kinds.
        along: for each array the element of number 0, and how many further that of the next one is.
        reverse: whether the iterations count down, from the last number to 0.
    """

    length: int
    n_consts: int
    n_carry: int
    along: tuple[tuple[int, int], ...]
    reverse: bool = False

    def turned(self) -> "RolledLoop":
        """The same iterations, counted the other way; what they leave lies the other way, too."""
        last = self.length - 1
        along = tuple((first + last * step, -step) for first, step in self.along)
        return self._replace(along=along, reverse=not self.reverse)


def _impl(*operands: Any, body: Jaxpr, loop: RolledLoop) -> list[Any]:
    n, m = loop.n_consts, loop.n_consts + loop.n_carry
    consts, carry, arrays = operands[:n], list(operands[n:m]), operands[m:]
    left: list[list[Any]] = []
    for i in reversed(range(loop.length)) if loop.reverse else range(loop.length):
        xs = [x[first + i * step] for x, (first, step) in zip(arrays, loop.along, strict=True)]
        outs = eval_jaxpr(body, (*consts, *carry, *xs))
        carry = outs[: loop.n_carry]
        left.append(outs[loop.n_carry :])
    left = left[::-1] if loop.reverse else left
    avals = body.out_avals[loop.n_carry :]
    ys = [np.stack(y).astype(a.dtype) for y, a in zip(zip(*left, strict=True), avals, strict=True)]
    return [*carry, *ys]


def _type(*operands: ShapedArray, body: Jaxpr, loop: RolledLoop) -> Any:
    outs = body.out_avals
    ys = (aval((loop.length, *a.shape), a.dtype) for a in outs[loop.n_carry :])
    return (*outs[: loop.n_carry], *ys)


def _effects(*, body: Jaxpr, **params: Any) -> Effects:
    return body.effects


def _layout(operands: int, *, body: Jaxpr, loop: RolledLoop) -> Layout:
    n, m, length = loop.n_consts, loop.n_carry, loop.length
    return Layout(body, None, n, m, length, reverse=loop.reverse, along=loop.along)


_LATE: Final = Unsupported(
    "rolled loops are made when a program is compiled, after derivatives and batching.",
    "Differentiate or map the function that is compiled.",
)


rolled = Primitive(
    name="rolled",
    impl=_impl,
    type=_type,
    jvp=_LATE,
    transpose=_LATE,
    batch=_LATE,
    effects=_effects,
    lower=Iteration(_layout),
    multiple=True,
    doc="Repeated equations as a loop.",
)


weakened = Primitive(
    name="weakened",
    impl=lambda x: x.item() if issubclass(type(x), np.generic) else x,
    type=lambda x: aval((), x.dtype, weak=True),
    jvp=_LATE,
    transpose=_LATE,
    batch=_LATE,
    lower=Pointwise(elements.same),
    doc="A number that adapts to the dtype it meets, as Python's do.",
)

"""Functions of NumPy that make plain arrays of their arguments, and so never ask traced ones.

Lifted code calls what is here in their place, where an argument is traced: the function of
`ftrace.numpy`, or an error that names the function and says what to use.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.lib import stride_tricks

import ftrace.numpy as fnp
from ftrace.core.errors import RuleError
from ftrace.lifting.substitutes import trailing_zeros

# ---------------------------------------------------------------------------------- refused


def _refused(name: str, what: str, instead: str) -> Callable[..., Any]:
    def refuse_call(*args: Any, **options: Any) -> Any:
        raise RuleError(f"{name} was given a traced array: {what}.", instead)

    return refuse_call


_ITERATES = "it goes through memory, which a traced value has not"
_MATRIX = "it makes a numpy.matrix, which cannot be traced"
REFUSED: Final[dict[Any, Callable[..., Any]]] = {
    np.nditer: _refused(
        "numpy.nditer",
        _ITERATES,
        "Use functions of whole arrays, `for v in x.flat`, numpy.ndenumerate, or "
        "ftrace.vectorize for a function of elements.",
    ),
    np.nested_iters: _refused(
        "numpy.nested_iters", _ITERATES, "Use functions of whole arrays, or loops over indices."
    ),
    stride_tricks.as_strided: _refused(
        "numpy.lib.stride_tricks.as_strided",
        "it reads memory by strides, which a traced value has not",
        "Use numpy.lib.stride_tricks.sliding_window_view, numpy.broadcast_to, or an index array.",
    ),
    np.asmatrix: _refused("numpy.asmatrix", _MATRIX, "Use a two-dimensional array and `@`."),
    np.matrix: _refused("numpy.matrix", _MATRIX, "Use a two-dimensional array and `@`."),
    np.bmat: _refused("numpy.bmat", _MATRIX, "Use numpy.block."),
}


# ---------------------------------------------------------------------------------- answered


class Broadcast:
    """What `numpy.broadcast` gives: the shape of operands together, and their elements in turn."""

    def __init__(self, *operands: Any) -> None:
        self._operands = operands
        self.shape = np.broadcast_shapes(*map(fnp.shape, operands))
        self.ndim = self.nd = len(self.shape)
        self.size: int = int(np.prod(self.shape))
        self.numiter = len(operands)

    @property
    def iters(self) -> tuple[Iterator[Any], ...]:
        """An iterator over the elements of each operand."""
        return tuple(iter(fnp.broadcast_to(x, self.shape).ravel()) for x in self._operands)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.iters, strict=True)


ANSWERED: Final[dict[Any, Callable[..., Any]]] = {
    np.kaiser: fnp.kaiser,
    np.broadcast: Broadcast,
    **trailing_zeros.ANSWERED,
}

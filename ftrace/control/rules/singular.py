"""The row `is_singular`: which matrices of a stack LAPACK refused in a system with them.

NumPy's functions tell it by a flag of the processor, for all of a stack. Here a solution whose
first number is finite says that its matrix was not refused: NumPy makes all of it NaN, and so does
a division by a pivot of zero, by way of all unknowns before it. Otherwise the numbers may have been
infinite, or NaN, before: then a factorisation decides, which has that zero on its diagonal.
"""

from functools import lru_cache
from typing import Any, Final

import numpy as np

from ftrace.control.rows.cond import cond_call
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import on_device
from ftrace.core.dtypes import bool_, int64
from ftrace.core.jaxpr import Jaxpr, eval_jaxpr
from ftrace.core.lower import Call
from ftrace.core.primitive import NONDIFFERENTIABLE, Primitive, smooth
from ftrace.interpreters.staging import trace_closed
from ftrace.primitives.compare import bitwise_and, bitwise_not, eq, isfinite
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.determinants import slogdet
from ftrace.primitives.linear import NO_TRANSPOSE, broadcast_rank0
from ftrace.primitives.reduce import reduce_or
from ftrace.primitives.stacks import first_element, in_front


def _impl(a: Any, x: Any) -> Any:
    if on_device(x):
        return eval_jaxpr(_staged(typeof(a), typeof(x)), (a, x))[0]
    if not x.size:
        return np.zeros(a.shape[:-2], bool)[()]
    doubtful = ~np.isfinite(x[..., 0, 0])
    if not doubtful.any():
        return doubtful
    with np.errstate(invalid="ignore"):
        return doubtful & (np.linalg.slogdet(a)[0] == 0)


def _program(a: Any, x: Any) -> list[Any]:
    n = len(x.shape) - 2
    if not x.size:
        return [broadcast_rank0(np.False_, x.shape[:n]) if n else np.False_]
    doubtful = bitwise_not(isfinite(first_element(x)))
    some = reduce_or(doubtful, axes=tuple(range(n))) if n else doubtful
    index = convert_element_type(some, new_dtype=int64)
    none, decided = _arms(a.aval, n)
    return cond_call(index, a, doubtful, branches=(none, decided))


@lru_cache(256)
def _arms(a: ShapedArray, n: int) -> tuple[Jaxpr, Jaxpr]:
    batch = a.shape[:n]

    def none(a: Any, doubtful: Any) -> list[Any]:
        return [broadcast_rank0(np.False_, batch) if n else np.False_]

    def decided(a: Any, doubtful: Any) -> list[Any]:
        sign, _ = slogdet(a)
        return [bitwise_and(doubtful, eq(sign, a.dtype.type(0)))]

    avals = a, aval(batch, bool_)
    return trace_closed(none, avals), trace_closed(decided, avals)


@lru_cache(256)
def _staged(a: ShapedArray, x: ShapedArray) -> Jaxpr:
    return trace_closed(_program, (a, x))


is_singular: Final = Primitive(
    name="is_singular",
    impl=_impl,
    type=lambda a, x: aval(a.shape[:-2], bool_),
    jvp=NONDIFFERENTIABLE,
    decides=smooth,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: in_front(is_singular)(axis, values, dims),
    lower=Call(lambda avals: _staged(*avals)),
    doc="Whether a matrix is singular to LAPACK, where x is the solution of a system with it.",
)

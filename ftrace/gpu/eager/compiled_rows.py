"""Rows that CuPy computes differently from NumPy, by the kernel that a compiled function has.

CuPy's `x // y` is floor(x / y), which rounds a quotient up to the next whole number, and gives NaN
beside infinities; integers go through doubles.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.jaxpr import Eqn, Jaxpr, Var
from ftrace.core.lazy import lazy
from ftrace.core.primitive import Primitive

_backend = lazy("ftrace.gpu.gpu_backend", "gpu_backend")


def evaluate(row: Primitive, *operands: Any) -> Any:
    """A row without parameters, of one result, on operands of which one is on a device."""
    return _program(row, tuple(map(typeof, operands)))(operands)[0]


@lru_cache(maxsize=1024)
def _program(
    row: Primitive, types: tuple[ShapedArray, ...]
) -> Callable[[Sequence[Any]], list[Any]]:
    """The row as a program."""
    given, made = [Var(a) for a in types], Var(row.type(*types))
    backend = _backend()
    return backend.compile(backend.plan(Jaxpr(given, [Eqn(row, given, {}, [made], None)], [made])))

"""`sum_of_products`: a sum of few products of numbers, written out, for each element.

Lowering makes it of matrix products with few terms: a loop over so few costs more than they do.
"""

from functools import lru_cache
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from ftrace.core.lower import Elementwise
from ftrace.core.primitive import Primitive, Unsupported
from ftrace.primitives.arithmetic import mul
from ftrace.primitives.linear import add


@lru_cache(64)
def program(terms: int, dtype: np.dtype[Any]) -> Jaxpr:
    """The program over factors: the two of the first product, of the second, ..."""
    number = aval((), dtype)
    factors = [Var(number) for _ in range(2 * terms)]
    eqns: list[Eqn] = []
    total: Any = None
    for k in range(terms):
        term = Var(number)
        eqns.append(Eqn(mul, factors[2 * k : 2 * k + 2], {}, [term], None))
        if total is not None:
            more = Var(number)
            eqns.append(Eqn(add, [total, term], {}, [more], None))
            term = more
        total = term
    return Jaxpr(factors, eqns, [total])


def _program(avals: Any) -> Jaxpr:
    return program(len(avals) // 2, avals[0].dtype)


def _type(*factors: ShapedArray) -> ShapedArray:
    return aval(factors[0].shape, factors[0].dtype)


_LATE: Final = Unsupported("Lowering makes this row, when no derivative is asked for any more.")

sum_of_products: Final = Primitive(
    name="sum_of_products",
    impl=lambda *xs: eval_jaxpr(program(len(xs) // 2, np.asarray(xs[0]).dtype), xs)[0],
    type=_type,
    jvp=_LATE,
    transpose=_LATE,
    batch=_LATE,
    lower=Elementwise(_program, stored=True),
    doc="The sum of the products of neighbouring operands.",
)

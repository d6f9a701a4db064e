"""Complex arithmetic from the parts: what a kernel does for complex operands.

Products and quotients are NumPy's own formulas (the quotient scales by the larger part of the
divisor), so that results agree. Operations that are not listed here run on the library.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ftrace.lowering.kernel.ir import Atom

Operation = Callable[..., Any]


class ComplexParts(NamedTuple):
    """A complex scalar."""

    re: Atom
    im: Atom


def _mul(b: Any, x: ComplexParts, y: ComplexParts) -> ComplexParts:
    re = b.op("sub", b.op("mul", x.re, y.re), b.op("mul", x.im, y.im))
    return ComplexParts(re, b.op("add", b.op("mul", x.re, y.im), b.op("mul", x.im, y.re)))


def _eq(b: Any, x: ComplexParts, y: ComplexParts) -> Atom:
    return b.op("and", b.op("eq", x.re, y.re), b.op("eq", x.im, y.im))


OPERATIONS: Final[dict[str, Operation]] = {
    "add": lambda b, x, y: ComplexParts(b.op("add", x.re, y.re), b.op("add", x.im, y.im)),
    "sub": lambda b, x, y: ComplexParts(b.op("sub", x.re, y.re), b.op("sub", x.im, y.im)),
    "neg": lambda b, x: ComplexParts(b.op("neg", x.re), b.op("neg", x.im)),
    "mul": _mul,
    "eq": _eq,
    "ne": lambda b, x, y: b.op("not", _eq(b, x, y)),
    "select": lambda b, c, x, y: ComplexParts(
        b.op("select", c, x.re, y.re), b.op("select", c, x.im, y.im)
    ),
}

"""The gufuncs of numpy.linalg as ways to compute a row, in double precision.

NumPy computes single precision in double, too, and rounds: there a row's `impl` does it.
"""

from collections.abc import Sequence

from ftrace.core.avals import ShapedArray
from ftrace.core.lower import Cores, GufuncCall

MATRIX, VECTOR = (-2, -1), (-1,)


def linalg_loop(name: str, signature: str, avals: Sequence[ShapedArray]) -> GufuncCall | None:
    """How a gufunc of `numpy.linalg._umath_linalg` computes a row of the same operands and results.

    Args:
        name: the gufunc's.
        signature: its signature, of matrices and vectors.
        avals: the row's operands; None where they are of single precision.
    """
    if any(a.dtype.char not in "dD" for a in avals):
        return None
    inputs, outputs = (
        tuple(Cores(i, MATRIX if "," in core else VECTOR) for i, core in enumerate(cores))
        for cores in (side.split("),(") for side in signature.split("->"))
    )
    return GufuncCall("numpy.linalg._umath_linalg", name, signature, inputs, outputs, fails=True)

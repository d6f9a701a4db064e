"""Scalar operations: the closed vocabulary of elementwise rows, kernel IR and backends.

A `ScalarOp` has a name (the row's, where a row of that name exists), the kinds of operands it
takes, and its meaning on NumPy arrays, which is total: integer division by zero, shifts by the
width and conversions of NaN give NumPy's value and never trap. Backends spell each op in their
own language; `cpu/mathematics/llvm_spelling.py` and its neighbours do so for LLVM. Complex numbers
and float16 do not occur here: kernels are built from their parts (lowering/kernel/complexes.py,
lowering/planning/build.py).
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.lazy import lazy
from ftrace.core.records import record

FLOAT: Final = "f"
INTEGER: Final = "iu"
NUMBER: Final = "iuf"
ANY: Final = "biuf"


@record
class ScalarOp:
    """One operation on scalars of one type.

    Attributes:
        name: as in printed kernels.
        arity: number of operands.
        kinds: dtype kinds of the operands (all of one type, except `select`'s condition, `cast`).
        numpy: the meaning, on arrays of that type.
        result: "same" as the operands, "b1", or "to": the type of the variable it is bound to.
        costly: expensive enough that an untaken arm of an `If` that holds it is worth a branch.
        chooses: whether operand 0 is a boolean that says which of the others is the result.
    """

    name: str
    arity: int
    kinds: str
    numpy: Callable[..., Any]
    result: str = "same"
    costly: bool = False
    chooses: bool = False


OPS: Final[dict[str, ScalarOp]] = {}


def _op(name: str, arity: int, kinds: str, fn: Callable[..., Any], **more: Any) -> None:
    OPS[name] = ScalarOp(name, arity, kinds, fn, **more)


def _logistic(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def _cast(x: Any, dtype: Any = None) -> Any:
    return x.astype(dtype)


def _bitcast(x: Any, dtype: Any = None) -> Any:
    return x.view(dtype)


# exact
_op("add", 2, NUMBER, np.add)
_op("sub", 2, NUMBER, np.subtract)
_op("mul", 2, NUMBER, np.multiply)
_op("div", 2, FLOAT, np.true_divide, costly=True)
_op("neg", 1, NUMBER, np.negative)
_op("abs", 1, NUMBER, np.absolute)
_op("sqrt", 1, FLOAT, np.sqrt, costly=True)
_op("max", 2, ANY, np.maximum)  # NaN propagates
_op("min", 2, ANY, np.minimum)
_op("floor", 1, FLOAT, np.floor)
_op("ceil", 1, FLOAT, np.ceil)
_op("trunc", 1, FLOAT, np.trunc)
_op("round", 1, FLOAT, np.rint)
_op("copysign", 2, FLOAT, np.copysign)
_op("signbit", 1, FLOAT, np.signbit, result="b1")
_op("floor_divide", 2, NUMBER, np.floor_divide, costly=True)
_op("mod", 2, NUMBER, np.remainder, costly=True)  # sign of the divisor
_op("rem", 2, NUMBER, np.fmod, costly=True)  # sign of the dividend
_op("and", 2, "biu", np.bitwise_and)
_op("or", 2, "biu", np.bitwise_or)
_op("xor", 2, "biu", np.bitwise_xor)
_op("not", 1, "biu", np.invert)
_op("shift_left", 2, INTEGER, np.left_shift)
_op("shift_right", 2, INTEGER, np.right_shift)
_op("eq", 2, ANY, np.equal, result="b1")
_op("ne", 2, ANY, np.not_equal, result="b1")
_op("lt", 2, ANY, np.less, result="b1")
_op("le", 2, ANY, np.less_equal, result="b1")
_op("gt", 2, ANY, np.greater, result="b1")
_op("ge", 2, ANY, np.greater_equal, result="b1")
_op("select", 3, ANY, np.where, chooses=True)  # (b1, T, T) -> T
_op("cast", 1, ANY, _cast, result="to")
_op("bitcast", 1, NUMBER, _bitcast, result="to")
# within 2 ULP
_op("exp", 1, FLOAT, np.exp, costly=True)
_op("exp2", 1, FLOAT, np.exp2, costly=True)
_op("expm1", 1, FLOAT, np.expm1, costly=True)
_op("log", 1, FLOAT, np.log, costly=True)
_op("log2", 1, FLOAT, np.log2, costly=True)
_op("log10", 1, FLOAT, np.log10, costly=True)
_op("log1p", 1, FLOAT, np.log1p, costly=True)
_op("sin", 1, FLOAT, np.sin, costly=True)
_op("cos", 1, FLOAT, np.cos, costly=True)
_op("tan", 1, FLOAT, np.tan, costly=True)
_op("asin", 1, FLOAT, np.arcsin, costly=True)
_op("acos", 1, FLOAT, np.arccos, costly=True)
_op("atan", 1, FLOAT, np.arctan, costly=True)
_op("sinh", 1, FLOAT, np.sinh, costly=True)
_op("cosh", 1, FLOAT, np.cosh, costly=True)
_op("tanh", 1, FLOAT, np.tanh, costly=True)
_op("asinh", 1, FLOAT, np.arcsinh, costly=True)
_op("acosh", 1, FLOAT, np.arccosh, costly=True)
_op("atanh", 1, FLOAT, np.arctanh, costly=True)
_op("cbrt", 1, FLOAT, np.cbrt, costly=True)
_op("pow", 2, FLOAT, np.power, costly=True)
_op("atan2", 2, FLOAT, np.arctan2, costly=True)
_op("hypot", 2, FLOAT, np.hypot, costly=True)
_op("logistic", 1, FLOAT, _logistic, costly=True)
_op("erf", 1, FLOAT, lazy("scipy.special", "erf"), costly=True)
_op("erfc", 1, FLOAT, lazy("scipy.special", "erfc"), costly=True)
# from scipy's pointers, one lane at a time
_op("lgamma", 1, FLOAT, lazy("scipy.special", "gammaln"), costly=True)
_op("gamma", 1, FLOAT, lazy("scipy.special", "gamma"), costly=True)
_op("digamma", 1, FLOAT, lazy("scipy.special", "psi"), costly=True)
_op("erf_inv", 1, FLOAT, lazy("scipy.special", "erfinv"), costly=True)
_op("ndtri", 1, FLOAT, lazy("scipy.special", "ndtri"), costly=True)
_op("log_ndtr", 1, FLOAT, lazy("scipy.special", "log_ndtr"), costly=True)
_op("i0", 1, FLOAT, lazy("scipy.special", "i0"), costly=True)
_op("i1", 1, FLOAT, lazy("scipy.special", "i1"), costly=True)
_op("i0e", 1, FLOAT, lazy("scipy.special", "i0e"), costly=True)
_op("i1e", 1, FLOAT, lazy("scipy.special", "i1e"), costly=True)


def apply(op: str, args: tuple[Any, ...], dtype: Any) -> Any:
    """The meaning of an op on NumPy arrays; `dtype` is that of the result."""
    row = OPS[op]
    with np.errstate(all="ignore"):
        return row.numpy(*args, dtype=dtype) if row.result == "to" else row.numpy(*args)

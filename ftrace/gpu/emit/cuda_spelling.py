"""How each scalar operation of `core/scalar.py` is written in CUDA C, one element at a time.

Every spelling is total: no operand makes it trap or gives an undefined value. Integers are
computed in unsigned types, where C++ defines what wraps. What needs more than an expression is a
device function `ft_...`, whose text the neighbours `prelude*.py` hold. A spelling is a call or
stands in parentheses, so that it may be an operand of the next one. A float16 is its bits in
registers as in memory: kernels load, store, select and convert them, and nothing else.
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np

from ftrace.core.errors import BackendError
from ftrace.core.scalar import OPS

REGISTER: Final = {
    "b1": "bool",
    "i1": "signed char",
    "i2": "short",
    "i4": "int",
    "i8": "long long",
    "u1": "unsigned char",
    "u2": "unsigned short",
    "u4": "unsigned",
    "u8": "unsigned long long",
    "f2": "unsigned short",
    "f4": "float",
    "f8": "double",
}
MEMORY: Final = {**REGISTER, "b1": "unsigned char"}  # C++ converts in loads and stores


def spell(op: str, args: Sequence[str], dtypes: Sequence[str], out: str) -> str:
    """Write one operation as a C expression, which is itself an atom.

    Args:
        op: a name of `core/scalar.py`.
        args: the operands: names, literals, calls or expressions in parentheses. They have no
            effects and may be repeated.
        dtypes: the operands' dtypes, codes of kernel IR.
        out: dtype of the result.

    Raises:
        BackendError: the operation has no spelling on operands of this dtype.
    """
    dtype = dtypes[-1]
    kinds = OPS[op].kinds if op in OPS else ""
    if dtype[0] not in kinds or (dtype == "f2" and op not in ("cast", "select")):
        raise BackendError(f"The GPU backend has no spelling of the operation {op} on {dtype}.")
    if op == "cast":
        return cast(args[0], dtype, out)
    if op == "bitcast":
        return _bitcast(args[0], dtype, out)
    return _EXPRESSIONS.get(op, _call)(op, args, dtype)


def literal(value: Any, dtype: str) -> str:
    """A constant, exact: decimal where a short decimal is the value, else a hexadecimal float."""
    if dtype == "b1":
        return "true" if value else "false"
    with np.errstate(over="ignore"):
        number = np.asarray(value, dtype)[()]
    if dtype == "f2":
        return f"((unsigned short)0x{int(number.view('u2')):04x})"
    if dtype[0] == "f":
        return _float_literal(float(number), dtype)
    whole = int(number)
    if dtype in ("i8", "u8"):
        if whole == -(2**63):
            return "(-9223372036854775807LL - 1)"
        return _signed(f"{whole}{'ULL' if dtype == 'u8' else 'LL'}")
    if dtype == "i4":
        return "(-2147483647 - 1)" if whole == -(2**31) else _signed(str(whole))
    return f"{whole}u" if dtype == "u4" else f"(({REGISTER[dtype]}){whole})"


def _float_literal(value: float, dtype: str) -> str:
    """Infinities and NaN by their bits, which CUDA's compiler folds."""
    if not math.isfinite(value):
        value = math.nan if value != value else value
        if dtype == "f4":
            return f"__int_as_float(0x{np.float32(value).view('u4'):08x})"
        return f"__longlong_as_double(0x{np.float64(value).view('u8'):016x}LL)"
    text = repr(value)
    if len(text) > 8 or Decimal(text) != Decimal(value):
        mantissa, exponent = value.hex().split("p")
        text = f"{mantissa.rstrip('0').rstrip('.')}p{exponent}"
    return _signed(text + ("f" if dtype == "f4" else ""))


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _call(op: str, args: Sequence[str], dtype: str) -> str:
    """A call of CUDA's function, whose name ends in f for float32, or of ours."""
    name = _NAMES.get(op, op)
    if name.startswith("ft_"):
        return f"{name}_{dtype}({', '.join(args)})"
    return f"{name}{'f' if dtype == 'f4' else ''}({', '.join(args)})"


# --- conversions


def cast(a: str, source: str, to: str) -> str:
    """`a.astype(to)`; floats out of range as on x86-64 (cpu/llvm/casts.py says which)."""
    if source == to:
        return a
    if source == "f2":
        return cast(f"ft_cast_f2_f4({a})", "f4", to)
    if to == "f2":
        if source not in ("f4", "f8"):
            a, source = f"((float){a})", "f4"
        return f"ft_cast_{source}_f2({a})"
    if to == "b1":
        return f"({a} != 0)"
    if source[0] == "f" and to[0] != "f":
        wide = to if to in ("i4", "i8", "u8") else "i8" if to == "u4" else "i4"
        return cast(f"ft_cast_{source}_{wide}({a})", wide, to)
    return f"(({REGISTER[to]}){a})"


_BITS: Final = {
    ("f4", "i4"): "__float_as_int",
    ("i4", "f4"): "__int_as_float",
    ("f8", "i8"): "__double_as_longlong",
    ("i8", "f8"): "__longlong_as_double",
}


def _bitcast(a: str, source: str, to: str) -> str:
    """Between floats and integers through the signed integers, whose names CUDA has."""
    if source == to:
        return a
    if source in ("f4", "f8"):
        signed = "i" + source[1:]
        return cast(f"{_BITS[source, signed]}({a})", signed, to)
    if to in ("f4", "f8"):
        signed = "i" + to[1:]
        return f"{_BITS[signed, to]}({cast(a, source, signed)})"
    return f"(({REGISTER[to]}){a})"


# --- exact operations


def _carrier(dtype: str) -> str:
    """The unsigned type in which an integer is computed."""
    return "unsigned long long" if dtype in ("i8", "u8") else "unsigned"


def _arithmetic(op: str, args: Sequence[str], dtype: str) -> str:
    sign, (a, b) = _SIGNS[op], args
    if dtype[0] == "f":
        return f"({a} {sign} {b})"
    wide = _carrier(dtype)
    return f"(({REGISTER[dtype]})(({wide}){a} {sign} ({wide}){b}))"


def _neg(op: str, args: Sequence[str], dtype: str) -> str:
    (a,) = args
    return f"(-{a})" if dtype[0] == "f" else _arithmetic("sub", ("0", a), dtype)


def _abs(op: str, args: Sequence[str], dtype: str) -> str:
    (a,) = args
    if dtype[0] == "f":
        return _call(op, args, dtype)
    return a if dtype[0] == "u" else f"({a} < 0 ? {_neg(op, args, dtype)} : {a})"


def _extreme(op: str, args: Sequence[str], dtype: str) -> str:
    """NaN propagates, the first one if both are; of equal operands the second, as NumPy."""
    a, b = args
    if dtype == "b1":
        return f"({a} {'||' if op == 'max' else '&&'} {b})"
    first = f"{a} {'>' if op == 'max' else '<'} {b}"
    return f"({a} != {a} || {first} ? {a} : {b})" if dtype[0] == "f" else f"({first} ? {a} : {b})"


def _signbit(op: str, args: Sequence[str], dtype: str) -> str:
    return f"({_bitcast(args[0], dtype, 'i' + dtype[1:])} < 0)"


def _divide(op: str, args: Sequence[str], dtype: str) -> str:
    a, b = args
    if dtype[0] == "u":
        sign = "/" if op == "floor_divide" else "%"
        return f"(({REGISTER[dtype]})({b} == 0 ? 0 : {a} {sign} {b}))"
    if dtype[0] == "f":
        return _call(op, args, dtype)
    wide = "i8" if dtype == "i8" else "i4"
    return cast(f"ft_{op}_{wide}({a}, {b})", wide, dtype)


def _bitwise(op: str, args: Sequence[str], dtype: str) -> str:
    return f"(({REGISTER[dtype]})({args[0]} {_SIGNS[op]} {args[1]}))"


def _not(op: str, args: Sequence[str], dtype: str) -> str:
    return f"(!{args[0]})" if dtype == "b1" else f"(({REGISTER[dtype]})~{args[0]})"


def _shift(op: str, args: Sequence[str], dtype: str) -> str:
    """Counts of the width and more, or negative ones, shift everything out."""
    a, count = args
    kind, wide, width = REGISTER[dtype], _carrier(dtype), 8 * int(dtype[1])
    inside = f"({wide}){count} < {width}"
    if op == "shift_left":
        return f"(({kind})({inside} ? ({wide}){a} << {count} : 0))"
    if dtype[0] == "u":
        return f"(({kind})({inside} ? {a} >> {count} : 0))"
    return f"(({kind})({a} >> ({inside} ? {count} : {width - 1})))"


def _compare(op: str, args: Sequence[str], dtype: str) -> str:
    return f"({args[0]} {_SIGNS[op]} {args[1]})"


def _select(op: str, args: Sequence[str], dtype: str) -> str:
    return f"({args[0]} ? {args[1]} : {args[2]})"


def _inverse(op: str, args: Sequence[str], dtype: str) -> str:
    """scipy's zeros are positive, also of -0.0."""
    return f"({_call(op, args, dtype)} + {literal(0.0, dtype)})"


_SIGNS: Final = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"},
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
}

# Functions whose name in CUDA C is not that of the op; ours are in prelude*.py.
_NAMES: Final = {
    **{"abs": "fabs", "round": "rint", "rem": "fmod", "gamma": "tgamma"},
    **{"erf_inv": "erfinv", "ndtri": "normcdfinv"},
    **{op: f"ft_{op}" for op in ("mod", "floor_divide", "logistic", "lgamma", "digamma")},
    **{op: f"ft_{op}" for op in ("log_ndtr", "i0", "i1", "i0e", "i1e")},
}

_EXPRESSIONS: Final[dict[str, Callable[[str, Sequence[str], str], str]]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), _arithmetic),
    **dict.fromkeys(("and", "or", "xor"), _bitwise),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _compare),
    **dict.fromkeys(("max", "min"), _extreme),
    **dict.fromkeys(("floor_divide", "mod", "rem"), _divide),
    **dict.fromkeys(("shift_left", "shift_right"), _shift),
    "neg": _neg,
    "abs": _abs,
    "signbit": _signbit,
    "not": _not,
    "select": _select,
    "erf_inv": _inverse,
    "ndtri": _inverse,
}

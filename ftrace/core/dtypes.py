"""Kinds, promotion and names of dtypes: NumPy 2's rules, asked of NumPy once and remembered.

Weak avals (Python scalars) promote as NumPy promotes Python scalars: they never change the kind's
width, only the kind. What has a tangent: floats and complex numbers, nothing else.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from ftrace.core.errors import DtypeError

bool_ = np.dtype(np.bool_)
int64 = np.dtype(np.int64)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
complex128 = np.dtype(np.complex128)

# The order of kinds in promotion; a weak operand of a lower or equal kind adapts to the other.
KIND = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}

_NAMES = {
    "bool": "bool",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
    **{f"float{n}": f"f{n}" for n in (16, 32, 64)},
    **{f"complex{n}": f"c{n}" for n in (64, 128)},
}
SUPPORTED = tuple(np.dtype(name) for name in _NAMES)
_SHORT = {np.dtype(name): short for name, short in _NAMES.items()}
_CANONICAL = {d: d for d in SUPPORTED}
_PYTHON = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


def canonical(dtype: Any) -> np.dtype[Any]:
    """A native-order dtype that ftrace traces, from anything NumPy accepts.

    Raises:
        DtypeError: object, string, datetime, structured and long double dtypes.
    """
    try:
        if not isinstance(dtype, np.dtype) and hasattr(type(dtype), "ndim"):
            raise TypeError  # an array; NumPy would take a traced one for what holds a dtype
        result = np.dtype(dtype).newbyteorder("=")
    except TypeError as error:
        raise DtypeError(f"{dtype!r} is not a dtype.", "Use a NumPy dtype.") from error
    if result not in _CANONICAL:
        raise DtypeError(
            f"dtype {result} cannot be traced.",
            "Use bool, an integer, float16/32/64 or complex64/128 array (`x.astype(float)`).",
        )
    return _CANONICAL[result]


def short_name(dtype: np.dtype[Any]) -> str:
    """`f64`, `i32`, `bool`: the name in printed jaxprs."""
    return _SHORT[dtype]


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Whether values of this dtype have tangents (float or complex)."""
    return dtype.kind in "fc"


@lru_cache(maxsize=4096)
def promote(*kinds: tuple[np.dtype[Any], bool]) -> tuple[np.dtype[Any], bool]:
    """The NumPy-2 result of (dtype, weak) operands, and whether it is weak."""
    weak = all(w for _, w in kinds)
    operands = [_PYTHON[d.kind] if w else d for d, w in kinds]
    return np.result_type(*operands), weak


@lru_cache(maxsize=256)
def to_inexact(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of `np.sin` and its like on this dtype: small integers give small floats."""
    return dtype if dtype.kind in "fc" else np.sin(np.ones((), dtype)).dtype


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a complex dtype; others unchanged."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype with parts of this dtype (float16 has none: complex64)."""
    if dtype.kind == "c":
        return dtype
    return np.dtype(np.complex64) if dtype.itemsize <= 4 and dtype.kind == "f" else complex128

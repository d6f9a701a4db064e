"""Abstract values: shape, dtype and weakness, interned, and `typeof` that gives a value's.

Avals are compared by identity on hot paths (they are interned) and by fields elsewhere. A *weak*
aval is that of a Python scalar: it adapts to the dtype it meets, as in NumPy 2.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core import device, dtypes
from ftrace.core.errors import DtypeError

Shape = tuple[int, ...]
LIMIT: Final = (1 << 63) - (1 << 48)  # of Python's ints as arguments; a counter goes on from there


class ShapedArray:
    """The type of an array: `shape`, `dtype`, and whether it is a weak scalar."""

    __slots__ = ("__weakref__", "_hash", "dtype", "shape", "weak")

    def __init__(self, shape: Shape, dtype: np.dtype[Any], weak: bool = False) -> None:
        self.shape = shape
        self.dtype = dtype
        self.weak = weak
        self._hash = hash((shape, dtype, weak))

    def __reduce__(self) -> Any:
        return ShapedArray, (self.shape, self.dtype, self.weak)  # hashes differ between processes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ShapedArray)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak == other.weak
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        star = "*" if self.weak else ""
        return f"{dtypes.short_name(self.dtype)}{star}[{','.join(map(str, self.shape))}]"


_strong: dict[tuple[Shape, np.dtype[Any]], ShapedArray] = {}
_weak: dict[np.dtype[Any], ShapedArray] = {}


def aval(shape: Shape, dtype: np.dtype[Any], weak: bool = False) -> ShapedArray:
    """The interned abstract value with these fields; `dtype` must be canonical."""
    if weak:
        found = _weak.get(dtype)
        if found is None:
            found = _weak[dtype] = ShapedArray((), dtype, weak=True)
        return found
    found = _strong.get((shape, dtype))
    if found is None:
        if len(_strong) > 1 << 16:
            _strong.clear()
        found = _strong[shape, dtype] = ShapedArray(shape, dtype)
    return found


def check_int(x: int, limit: int, what: str) -> None:
    """Refuse a Python int that is too large to be traced.

    Raises:
        DtypeError: its magnitude is above the limit.
    """
    if not -limit <= x <= limit:
        text = str(x) if x.bit_length() < 200 else f"of {x.bit_length()} bits"
        raise DtypeError(
            f"{what} is the int {text}; a traced Python int has 64 bits.",
            "Make it a float or a NumPy integer (numpy.uint64(n)), or give it as a static "
            "argument (static_argnums), which keeps Python's integers.",
        )


def strengthen(a: ShapedArray) -> ShapedArray:
    """The same aval, not weak."""
    return aval(a.shape, a.dtype) if a.weak else a


SCALAR_AVALS: dict[type, ShapedArray] = {
    bool: aval((), dtypes.bool_, weak=True),
    int: aval((), dtypes.int64, weak=True),
    float: aval((), dtypes.float64, weak=True),
    complex: aval((), dtypes.complex128, weak=True),
    **{d.type: aval((), d) for d in dtypes.SUPPORTED},
}


def _typeof_ndarray(x: Any) -> ShapedArray:
    found = _strong.get((x.shape, x.dtype))
    return found if found is not None else aval(x.shape, dtypes.canonical(x.dtype))


# type -> how to get its aval; tracers and device arrays add theirs when they come into being
TYPEOF: dict[type, Callable[[Any], ShapedArray]] = {np.ndarray: _typeof_ndarray}


# class -> the error for its values, where they are no arrays in a way that a message should tell
REFUSED: Final[dict[type, Callable[[Any], Exception]]] = {}


def typeof(x: Any) -> ShapedArray:
    """The abstract value of an array, scalar or tracer.

    Raises:
        DtypeError: for anything else (lists, strings, object arrays, array subclasses).
    """
    cls = type(x)
    found = SCALAR_AVALS.get(cls)
    if found is not None:
        return found
    rule = TYPEOF.get(cls)
    if rule is not None:
        return rule(x)
    return _typeof_unusual(x)


def typeof_traced(x: Any) -> ShapedArray:
    """The abstract value of what a traced value is to stand for.

    A number of a class of its own is an operand like any other. But a traced value stands for a
    plain number, and could not say what the class adds, nor which member of an enumeration it is.

    Raises:
        DtypeError: for what `typeof` refuses, and for such numbers.
    """
    cls = type(x)
    if cls in TYPEOF or cls in SCALAR_AVALS or not issubclass(cls, int | float | complex):
        return typeof(x)
    raise DtypeError(
        f"A value of type {cls.__name__} is a number of a class of its own, which is lost where "
        f"it is traced.",
        f"Mark the argument static (jit: static_argnums), let the function take it from outside, "
        f"or give the plain number ({_plain_number(cls).__name__}(x)).",
    )


def _plain_number(cls: type) -> type:
    return next(base for base in (bool, int, float, complex) if issubclass(cls, base))


def _typeof_unusual(x: Any) -> ShapedArray:
    refusal = REFUSED.get(type(x))
    if refusal is not None:
        raise refusal(x)
    if device.recognise(type(x)):  # from now on it is in TYPEOF
        return _typeof_ndarray(x)
    if isinstance(x, np.memmap):  # plain memory, only the mapping differs
        return _typeof_ndarray(x)
    if issubclass(type(x), np.generic):  # np.longlong and its like: another name of a known dtype
        return aval((), dtypes.canonical(x.dtype))
    if issubclass(type(x), int | float | complex):
        return SCALAR_AVALS[_plain_number(type(x))]
    raise DtypeError(
        f"A value of type {type(x).__name__} is not an array or a number.",
        "Pass numpy arrays, numbers, or containers of them; mark other arguments static. Inside "
        "containers (a dict, a dataclass) grad, jit and vmap leave strings and functions alone.",
    )

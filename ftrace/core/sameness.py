"""Whether two immutable values mean the same to a program that was made for one of them.

Python's `==` takes 1, 1.0 and True for one value, 0.0 and -0.0 for another, and no NaN for itself.
Here values are compared by type and value, through tuples, frozen sets and frozen dataclasses.
What a class of the user's says of its objects (`__eq__`) is not all that a program may have read of
one: they must also hold the same, as they did when the program was made.
"""

import dataclasses
import math
import types
from typing import Any, Final

import numpy as np

from ftrace.core.closure_cells import content

SCALARS: Final = (bool, int, float, complex, str, bytes, type(None), type(...))
"""Types of values that nothing is part of."""


def is_same(a: Any, b: Any) -> bool:  # noqa: PLR0911 - kinds of values
    """Whether two values have one type and one value; False where they cannot be compared."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if issubclass(type(a), float | np.floating):
        same = a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
        return bool(same or (a != a and b != b))  # NaN
    if issubclass(type(a), complex | np.complexfloating):
        return is_same(a.real, b.real) and is_same(a.imag, b.imag)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, frozenset):
        return {Static(x) for x in a} == {Static(x) for x in b}
    parts = _fields(a)
    if parts is not None:
        return is_same(parts, _fields(b))
    try:
        return bool(a == b)
    except Exception:  # what a user's class does, and arrays
        return False


def hash_of(a: Any) -> int:
    """A hash that is the same for values that are.

    Raises:
        TypeError: a part that has no hash.
    """
    if issubclass(type(a), float | complex | np.inexact):
        return hash(a) if a == a else 0
    if isinstance(a, tuple):
        return hash(tuple(map(hash_of, a)))
    if isinstance(a, frozenset):
        return hash(frozenset(map(hash_of, a)))
    parts = _fields(a)
    return hash(a) if parts is None else hash_of(parts)


def _fields(a: Any) -> tuple[Any, ...] | None:
    """The values of a frozen dataclass that is compared by them, or None."""
    params = getattr(type(a), "__dataclass_params__", None)
    if params is None or not (params.frozen and params.eq):
        return None
    code = getattr(type(a).__eq__, "__code__", None)
    if code is None or code.co_filename != "<string>":  # the user wrote it
        return None
    return tuple(getattr(a, f.name) for f in dataclasses.fields(a) if f.compare)


_LARGE: Final = 1 << 16  # bytes: larger arrays are compared by identity


def held(a: Any, around: tuple[int, ...] = ()) -> Any:  # noqa: PLR0911 - kinds of values
    """A picture of what a value holds now, to be compared by `is_same`.

    It goes through containers, functions that a function makes, and objects with an `__eq__` of
    their own; all others are themselves.
    """
    kind = type(a)
    if kind in SCALARS or (kind is tuple and all(type(v) in SCALARS for v in a)):
        return a
    if id(a) in around or len(around) > _DEEP:
        return kind
    inner = (*around, id(a))
    if kind in (list, tuple):
        return (kind, *(held(v, inner) for v in a))
    if kind is dict:
        return (kind, *((held(k, inner), held(v, inner)) for k, v in a.items()))
    if kind in (set, frozenset):
        return kind, frozenset(a)
    if kind is np.ndarray:
        return a if a.nbytes > _LARGE or a.dtype.hasobject else (a.shape, a.dtype, a.tobytes())
    if kind is types.FunctionType:
        cells = tuple(map(content, a.__closure__ or ()))
        return a.__code__, held(cells, inner), held(a.__defaults__, inner)
    if not _has_own_equality(kind):
        return a
    slots = (name for c in kind.__mro__ for name in _slots(c) if hasattr(a, name))
    fields = {**getattr(a, "__dict__", {}), **{name: getattr(a, name) for name in slots}}
    return kind, held(fields, inner)


_DEEP: Final = 20


def _has_own_equality(kind: type) -> bool:
    """Whether objects of a class may be equal that hold different things."""
    own = isinstance(kind.__eq__, types.FunctionType) or issubclass(kind, (*_PARTLESS, tuple))
    return own and kind.__module__ != "builtins"


_PARTLESS: Final = (int, float, complex, str, bytes)


def _slots(kind: type) -> list[str]:
    return [n for n, member in vars(kind).items() if type(member) is types.MemberDescriptorType]


class Static:
    """A static argument as a key of a cache: compared by type and value, and what it holds."""

    __slots__ = ("_hash", "_held", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._hash = hash_of(value)
        self._held = None if type(value) in SCALARS else held(value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Static or not is_same(self.value, other.value):
            return False
        return self._held is other._held or is_same(self._held, other._held)

    def __hash__(self) -> int:
        return self._hash

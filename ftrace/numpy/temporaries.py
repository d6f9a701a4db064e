"""Arrays that the user's expression has just made, in front of a CuPy array: they are free.

`np.eye(3) @ t` makes an array that nothing but this expression holds. It is no array of the user's
from outside, so it goes where `t` is, as one of ftrace's own making does (core/device.py). Who
holds an array is read from its reference count. What the count of a temporary is depends on the
door it comes in by, and is measured once, when the first device is met; without one nothing here
runs. An array that has a name is not free: `ftrace.numpy.eye(3)` makes one that is.
"""

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from ftrace.core.device import free


class _Probe:
    """Counts references at the doors by which NumPy and Python reach a tracer."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _counts(inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = args[0] if func is np.concatenate else args
        return _counts(found)

    def __mul__(self, other: Any) -> Any:
        return _asked(other)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for a in values:
        if type(a) is list or type(a) is tuple:
            yield from _flat(a)
        elif type(a) is np.ndarray:
            yield a


def _counts(values: Iterable[Any]) -> list[int]:
    return [sys.getrefcount(a) for a in values if type(a) is np.ndarray]


def _asked(x: Any) -> int:
    return _count(x)


def _count(x: Any) -> int:
    return sys.getrefcount(x)


def _passed(x: Any) -> int:
    return _count(x)


def _gathered(*args: Any) -> list[int]:
    return _counts(args)


@cache
def _most() -> dict[str, int]:
    """References to a temporary, by the door."""
    probe: Any = _Probe()
    return {
        "ufunc": (np.empty(1) * probe)[0],
        # NumPy holds the first array of a class that it meets once more: count on that where
        # there is one array only
        "function": np.where(probe, np.empty(1), 1)[0],
        "functions": min(np.where(probe, np.empty(1), np.empty(1))),
        "function of a list": np.concatenate([probe, np.empty(1)])[0],
        "operator": probe * np.empty(1),
        "argument": _passed(np.empty(1)),
        "arguments": _gathered(np.empty(1))[0],
        "list": _counts([np.empty(1)])[0],
    }


def release(x: Any, door: str) -> None:
    """Mark one operand, if it is a temporary."""
    if type(x) is np.ndarray and sys.getrefcount(x) <= _most()[door] and _owns(x):
        free(x)


def release_all(values: Iterable[Any], door: str, lists: str = "list") -> None:
    """Mark those operands, and those in lists among them, that are temporaries."""
    most = _most()[door]
    for a in values:
        if type(a) is np.ndarray:
            if sys.getrefcount(a) <= most and _owns(a):
                free(a)
        elif type(a) is list or type(a) is tuple:
            release_all(a, lists)


def release_arguments(args: Iterable[Any]) -> None:
    """Mark the temporaries among the arguments of a function of NumPy's."""
    alone = sum(1 for _ in _flat(args)) == 1
    release_all(args, *(("function", "function of a list") if alone else ("functions",)))


def _owns(array: Any) -> bool:
    """Whether nobody else holds the memory: none, or an array that only this view holds."""
    base = array.base
    # the view's, the variable's, the argument's
    return base is None or (
        type(base) is np.ndarray and base.base is None and sys.getrefcount(base) <= 3
    )

"""Calls of NumPy functions on which ftrace.numpy is tried, one table for all tests.

`Case(name, *args, **kwargs)`: arrays among the positional arguments (also in nested lists) are
traced, everything else is static. `smooth=False` marks results whose derivative does not exist at
the sample or is not wanted (indices, comparisons, rounding).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

RNG = np.random.default_rng(20)


class Case:
    """A call of the function `name` of numpy (or of numpy.linalg, as `linalg.norm`)."""

    def __init__(self, name: str, *args: Any, smooth: bool = True, **kwargs: Any) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.smooth = smooth

    def __repr__(self) -> str:
        shapes = ",".join(describe(a) for a in self.args)
        options = "".join(f",{k}={v}" for k, v in self.kwargs.items())
        return f"{self.name}({shapes}{options})"


def describe(a: Any) -> str:
    """A short text for an argument in a test's name."""
    if isinstance(a, np.ndarray):
        return f"{a.dtype.char}{list(a.shape)}".replace(" ", "")
    if isinstance(a, list | tuple):
        return "[" + ",".join(map(describe, a)) + "]"
    return getattr(a, "__name__", None) or str(a).replace(" ", "")


def leaves(args: Any) -> Iterator[np.ndarray]:
    """The arrays among arguments, in order."""
    for a in args:
        if isinstance(a, np.ndarray):
            yield a
        elif type(a) in (list, tuple):
            yield from leaves(a)


def rebuild(args: Any, new: Iterator[Any]) -> Any:
    """The arguments with their arrays replaced."""
    return type(args)(
        next(new)
        if isinstance(a, np.ndarray)
        else rebuild(a, new)
        if type(a) in (list, tuple)
        else a
        for a in args
    )


def lookup(module: Any, name: str) -> Callable[..., Any]:
    """The function of a dotted name."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def normal(*shape: int) -> np.ndarray:
    """Random values without ties."""
    return RNG.normal(size=shape)


A, B, C = normal(3, 4), normal(3, 4), normal(2, 3, 4)
V, W, U = normal(4), normal(4), normal(3)
S = normal(3, 3)
Z = normal(3) + 1j * normal(3)
ZM = normal(2, 3) + 1j * normal(2, 3)
COUNTS = np.array([3, 1, 2, 1])
IM = np.array([[3, -1, 2], [0, 5, -2]])
SMALL = np.array([3, 1, 2], np.int8)
F4 = normal(3, 2).astype(np.float32)
F2 = normal(4).astype(np.float16)
BOOLS = np.array([[True, False, True], [False, False, True]])
HOLES = np.array([[1.0, np.nan, 3.0, -2.0], [np.nan, np.nan, 0.5, 4.0], [2.5, 1.5, -1.0, 0.25]])
SORTED = np.array([-1.0, 0.0, 0.5, 2.0, 3.5])
ROUGH = {"smooth": False}

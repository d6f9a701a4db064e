"""What a program of this folder is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Program:
    """A function of a system and arrays.

    Attributes:
        function: of the system, then the arrays.
        inputs: makes the arrays.
        wrt: positions of the arguments with respect to which it is differentiated; none where only
            its value is wanted.
    """

    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    wrt: tuple[int, ...] = (0,)


def generator() -> np.random.Generator:
    """Random numbers from a fixed seed."""
    return np.random.default_rng(23)


def logsumexp(xp: Any, x: Any, axis: int) -> Any:
    """The logarithm of a sum of exponentials along an axis, as people write it."""
    top = xp.max(x, axis, keepdims=True)
    return xp.squeeze(top, axis) + xp.log(xp.sum(xp.exp(x - top), axis))

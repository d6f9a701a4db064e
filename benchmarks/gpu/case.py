"""What is measured on a GPU: inputs, a float64 reference, one builder per column.

A column is a framework, or `framework: variant`; its builder takes the framework's face
(`systems.py`) and returns a function of the inputs. Large arrays are checked where a reference is
cheap: in some of their rows. Numbers repeat a pool whose length no shape divides, since making
them is not what the minutes are for. Read next: `cases/cell.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.case import Outputs, in_float64, mismatch

SCALES = ("tiny", "quick", "full", "paper")
POOL = 4_000_037  # a prime

Build = Callable[[Any], Callable[..., Any]]
Arrays = Sequence[np.ndarray]


def everything(n: int) -> list[slice]:
    """All of n rows are compared."""
    return [slice(None)]


def ends(width: int) -> Callable[[int], list[slice]]:
    """Of n rows the first ones, some in the middle, the last ones."""

    def rows(n: int) -> list[slice]:
        if n <= 3 * width:
            return [slice(None)]
        return [slice(at, at + width) for at in (0, n // 2, n - width)]

    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A line of the table.

    `reference` takes inputs in float64 and gives float64, as many outputs as are compared; with
    `exact` it takes them as they are and every bit has to agree. `moved` is the bytes that any
    implementation must read and write, `unit` the bytes that one "unit" of the paper's counts is.
    `part` picks the rows that are compared, of arrays with as many rows as the first input.
    `spread` says that the case is timed over several sets of inputs, so that no cache holds them.
    `work` counts what a call is divided by where that is told (kernels of a chain).
    """

    step: int
    name: str
    inputs: Callable[[], tuple[Any, ...]]
    builds: Mapping[str, Build]
    reference: Callable[..., Outputs]
    moved: int = 0
    unit: int = 0
    tolerance: float = 1e-5
    exact: bool = False
    part: Callable[[int], list[slice]] = everything
    spread: bool = True
    work: int = 1

    def compared(
        self, arrays: Sequence[Any], n: int, get: Callable[[Any], np.ndarray] = np.asarray
    ) -> Arrays:
        """Of arrays with n rows those that are compared, brought to the host; others whole."""
        slices = self.part(n)

        def some(array: Any) -> np.ndarray:
            shape = tuple(array.shape)
            if n < 2 or not shape or shape[0] != n:
                return np.asarray(get(array))
            return np.concatenate([np.asarray(get(array[piece])) for piece in slices])

        return [some(array) for array in arrays]

    def wrong(self, inputs: Arrays, outputs: Arrays) -> str:
        """What is wrong with the outputs, or the empty string; of both, what is compared."""
        if self.exact:
            expected = self.reference(*inputs)
            pairs = zip(outputs, expected, strict=True)
            same = all(a.dtype == e.dtype and np.array_equal(a, e) for a, e in pairs)
            return "" if same else "not the same bits"
        expected = self.reference(*in_float64(inputs))
        return mismatch(outputs[: len(expected)], expected, self.tolerance)


def framework(column: str) -> str:
    """The framework of a column."""
    return column.split(":")[0]


@cache
def _pool() -> np.ndarray:
    return np.random.default_rng(7).random(POOL, dtype=np.float32)


def numbers(shape: tuple[int, ...], turn: int = 0, low: float = 0.0, high: float = 1.0) -> Any:
    """Uniform float32 numbers; other ones for every `turn`."""
    start = 99_991 * turn % (POOL // 2)
    pool = _pool()[start:] if (low, high) == (0.0, 1.0) else low + (high - low) * _pool()[start:]
    return np.resize(pool.astype(np.float32), shape)

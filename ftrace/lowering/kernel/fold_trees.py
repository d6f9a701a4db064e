"""The fold trees of `ir.Fold`, along the last axis of NumPy arrays.

A backend that follows the same tree gets the same bits. Nothing here knows kernels; `reference.py`
collects the values that a loop's iterations leave and hands them over.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.lowering.kernel.ir import PAIRS, Fold

Array = np.ndarray[Any, Any]

UFUNCS: Final[dict[str, np.ufunc]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def identity(op: str, dtype: str) -> Any:
    """The value of a fold over nothing (of a pair: its value), as a Python scalar."""
    kind = dtype[0]
    if op in ("sum", "prod", "or", "xor"):
        value: Any = op == "prod"
    elif op == "and":
        value = -1 if kind == "i" else True if kind == "b" else np.iinfo(dtype).max
    elif kind == "f":
        value = -np.inf if op in ("max", "argmax") else np.inf
    elif kind == "b":
        value = op in ("min", "argmin")
    else:
        bounds = np.iinfo(dtype)
        value = bounds.min if op in ("max", "argmax") else bounds.max
    return np.dtype(dtype).type(value).item()


def has_tree(fold: Fold) -> bool:
    """Whether the result depends on the tree: sums and products of floats."""
    return fold.acc[0] == "f" and fold.op in ("sum", "prod")


def fold_all(folds: Sequence[Fold], columns: Sequence[Array]) -> list[Array]:
    """Fold the columns that a loop's iterations left: one per fold, two per pair."""
    rest, results = list(columns), []
    for fold in folds:
        values = rest.pop(0).astype(fold.acc)
        if fold.op in PAIRS:
            results += _extreme(fold, values, rest.pop(0))
        elif fold.block:
            results.append(_blocks(fold, values))
        else:
            ways = _ways(fold, _groups(fold, values), fold.ways)
            while ways.shape[-1] > 1:
                ways = UFUNCS[fold.op](*_pairs(fold, ways))
            results.append(ways[..., 0])
    return results


def _groups(fold: Fold, values: Array) -> Array:
    """One value for each group of neighbours."""
    if fold.near <= 1:
        return values
    groups = _cut(values, fold.near, np.asarray(identity(fold.op, fold.acc), fold.acc))
    while groups.shape[-1] > 1:
        groups = UFUNCS[fold.op](*_pairs(fold, groups))
    return groups[..., 0]


def _pairs(fold: Fold, values: Array) -> tuple[Array, Array]:
    """The two sides of the next step of a tree."""
    if fold.near:
        return values[..., ::2], values[..., 1::2]
    half = values.shape[-1] // 2
    return values[..., :half], values[..., half:]


def _ways(fold: Fold, values: Array, length: int) -> Array:
    """Running results of a whole number of rounds of `length` >= 1: (..., length)."""
    ufunc, start = UFUNCS[fold.op], np.asarray(identity(fold.op, fold.acc), fold.acc)
    first = np.broadcast_to(start, (*values.shape[:-1], length))
    rounds = _cut(values, length, start)
    rows = np.concatenate([first[..., None, :], rounds], -2)
    return ufunc.accumulate(rows, axis=-2, dtype=fold.acc)[..., -1, :]


def _cut(values: Array, length: int, filler: Array) -> Array:
    """(..., n) as (..., rows, length), the last row filled up."""
    rows = -(-values.shape[-1] // length)
    missing = rows * length - values.shape[-1]
    filled = np.broadcast_to(filler, (*values.shape[:-1], missing))
    padded = np.concatenate([values, filled], -1)
    return padded.reshape(*values.shape[:-1], rows, length)


def _blocks(fold: Fold, values: Array) -> Array:
    """Sums of blocks, added with their rounding errors kept."""
    groups = _groups(fold, values)
    blocks = _cut(groups, fold.block // (fold.near or 1), np.zeros((), fold.acc))
    high = np.zeros((*values.shape[:-1], fold.ways), fold.acc)
    low = high
    for b in range(blocks.shape[-2]):
        high, error = two_sum(high, _ways(fold, blocks[..., b, :], fold.ways))
        low = low + error
    while high.shape[-1] > 1:
        high, error = two_sum(*_pairs(fold, high))
        a, b = _pairs(fold, low)
        low = (a + b) + error
    high, low = high[..., 0], low[..., 0]
    return np.where(np.isfinite(low), high + low, high)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _extreme(fold: Fold, values: Array, index: Array) -> list[Array]:
    """The first NaN, or the first extreme, and its index."""
    start = identity(fold.op, fold.acc)
    ufunc = np.maximum if fold.op == "argmax" else np.minimum
    best = ufunc.reduce(values, axis=-1, initial=start)
    if not values.shape[-1]:
        return [best, np.zeros(best.shape, index.dtype)]
    found = (values == best[..., None]) | (values != values)
    least = np.where(found, index, np.iinfo(index.dtype).max).min(-1)
    return [best, least]

"""Random programs over arrays of every dtype: moves, reductions, choices and loops.

A program is a list of steps; each takes one or two entries of a pool and adds one. Steps whose
operands do not fit (an axis that is missing, shapes that do not broadcast) give their operand.
Values stay small, and what is summed is summed in the order of the kernels up to rounding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ftrace import lax
from ftrace.numpy import array

DTYPES = ("f8", "f4", "i4", "f2", "c16", "?", "u1", "i8")
SHAPES = ((3, 4), (4,), (1, 4), (3, 1), (2, 3, 4), (), (0, 4))


def real(x: Any) -> Any:
    return np.real(x) if np.iscomplexobj(x) else x


def updated(x: Any) -> Any:
    if not np.ndim(x) or not np.size(x):
        return x
    out = array(x, copy=True)
    out[:1] = x[-1:]
    out[..., -1] += np.ones((), x.dtype)[()]
    return out


def chosen(x: Any) -> Any:
    return lax.cond(np.sum(real(x)) > 1, lambda y: y + y, lambda y: y * y, x)


def repeated(x: Any) -> Any:
    return lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, np.roll(c[1], 1) * c[2], c[2]), (0, x, x)
    )[1]


UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": lambda x: -(x * 1),
    "square": lambda x: x * x,
    "exact": lambda x: np.sqrt(np.abs(real(x)) + 1),
    "sin": np.sin,
    "exp": lambda x: np.exp(-1.0 * np.abs(x)),
    "half": lambda x: real(x).astype(np.float16),
    "single": lambda x: real(x).astype(np.float32),
    "whole": lambda x: np.clip(np.nan_to_num(real(x)), -9, 9).astype(np.int8),
    "complex": lambda x: x + 1j * real(x)[..., ::-1] if np.ndim(x) else x + 1j,
    "transpose": np.transpose,
    "reversed": np.flip,
    "inner": lambda x: x[1:, ...] if np.ndim(x) and np.shape(x)[0] > 1 else x,
    "strided": lambda x: x[..., ::-2] if np.ndim(x) else x,
    "new axis": lambda x: x[..., None],
    "broadcast": lambda x: np.broadcast_to(x, (2, *np.shape(x))),
    "padded": lambda x: np.pad(x, 1) if np.ndim(x) else x,
    "rolled": lambda x: np.roll(x, 1, axis=-1) if np.ndim(x) else x,
    "joined": lambda x: np.concatenate([x, x[..., ::-1]], axis=-1) if np.ndim(x) else x,
    "ravelled": np.ravel,
    "sum": lambda x: np.sum(x, axis=-1, keepdims=True) if np.ndim(x) else x,
    "columns": lambda x: np.sum(x, axis=0) if np.ndim(x) else x,
    "total": np.sum,
    "largest": lambda x: np.max(real(x), axis=0, initial=0) if np.ndim(x) else x,
    "place": lambda x: np.argmin(real(x), axis=-1) if np.shape(x) and np.shape(x)[-1] else x,
    "any": lambda x: np.any(real(x) > 0, axis=-1) if np.ndim(x) else x,
    "running": lambda x: np.cumsum(x, axis=0) if np.ndim(x) else x,
    "updated": updated,
    "chosen": chosen,
    "repeated": repeated,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "minimum": lambda x, y: np.minimum(real(x), real(y)),
    "less": lambda x, y: real(x) < real(y),
    "where": lambda x, y: np.where(real(x) > real(y), x, y),
    "quotient": lambda x, y: real(x) / (np.abs(real(y)) + 1),
    "stack": lambda x, y: np.stack(np.broadcast_arrays(x, y)),
    "outer": lambda x, y: np.multiply.outer(np.sum(x, axis=0), y) if np.ndim(x) else x,
}
STEPS = st.lists(
    st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 8), st.integers(0, 8)),
    min_size=2,
    max_size=7,
)
OPERANDS = st.lists(
    st.tuples(st.sampled_from(DTYPES), st.sampled_from(SHAPES)), min_size=1, max_size=3
)
LARGEST = 2000  # elements; a step that would give more is left out


def drawn(operands: list[tuple[str, tuple[int, ...]]], seed: int) -> list[Any]:
    """Arrays (scalars for rank 0) of small numbers."""
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for dtype, shape in operands:
        values = np.round(rng.uniform(-2, 2, shape), 2)
        values = np.abs(values) if np.dtype(dtype).kind in "ub" else values
        values = values + 1j * rng.integers(-2, 3, shape) if dtype == "c16" else values
        found.append(np.asarray(values).astype(dtype)[()])
    return found


def evaluate(steps: list[tuple[str, int, int]], *operands: Any) -> list[Any]:
    """The last three entries of the pool."""
    pool = list(operands)
    for name, first, second in steps:
        x, y = pool[first % len(pool)], pool[second % len(pool)]
        if name in UNARY:
            pool.append(UNARY[name](x) if np.size(x) < LARGEST else x)
            continue
        try:
            size = np.prod(np.broadcast_shapes(np.shape(x), np.shape(y)))
        except ValueError:
            continue
        if size < LARGEST:
            pool.append(BINARY[name](x, y))
    return pool[-3:]

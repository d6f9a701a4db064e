"""Random expressions over arrays of every dtype and of shapes that broadcast.

An expression is a list of applications of NumPy functions to a pool of arrays and Python scalars.
Unlike the programs of `programs.py` these need not be smooth: what is compared is the value, its
dtype, its shape and its Python type. Read next: `test_random_expressions.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

DTYPES = ("?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
SHAPES = ((), (3,), (1,), (2, 3), (2, 1), (1, 3), (1, 1), (0, 3), (4, 2, 3), (4, 1, 1))


def real(x: Any) -> Any:
    """Something that can be ordered."""
    return np.real(x) if np.iscomplexobj(x) else x


def row(x: Any) -> Any:
    """Something with axes: NumPy sometimes lets rank 0 pass as one axis, ftrace never."""
    return np.atleast_1d(x)


UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": np.negative,
    "positive": np.positive,
    "absolute": np.abs,
    "square": np.square,
    "sign": np.sign,
    "conjugate": np.conj,
    "real": np.real,
    "imag": np.imag,
    "invert": np.invert,
    "logical_not": np.logical_not,
    "isfinite": np.isfinite,
    "sin": np.sin,
    "exp": lambda x: np.exp(-np.abs(x)),
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "cube": lambda x: x**3,
    "half power": lambda x: np.abs(x) ** 0.5,
    "scaled": lambda x: 2 * x,
    "shifted": lambda x: x + 1.5,
    "reciprocal": lambda x: 1 / (1 + np.abs(x)),
    "sum": np.sum,
    "sum of the last axis": lambda x: np.sum(row(x), axis=-1),
    "sum kept": lambda x: np.sum(row(x), axis=0, keepdims=True),
    "narrow sum": lambda x: np.sum(real(x), dtype=np.float32),
    "mean": lambda x: np.mean(row(x), axis=-1),
    "variance": np.var,
    "prod": lambda x: np.prod(np.sign(x)),
    "max": lambda x: np.max(real(row(x)), axis=-1, initial=1),
    "min": lambda x: np.min(real(x), initial=0),
    "any": lambda x: np.any(row(x), axis=0),
    "all": np.all,
    "argmax": lambda x: np.argmax(real(row(x)), axis=-1),
    "count": lambda x: np.count_nonzero(row(x), axis=-1),
    "cumsum": lambda x: np.cumsum(row(x), axis=-1),
    "sort": lambda x: np.sort(real(row(x)), axis=-1),
    "argsort": lambda x: np.argsort(real(row(x)), axis=-1, stable=True),
    "transpose": np.transpose,
    "ravel": np.ravel,
    "reshape": lambda x: np.reshape(x, (1, -1)),
    "expand": lambda x: np.expand_dims(x, -1),
    "squeeze": np.squeeze,
    "flip": np.flip,
    "roll": lambda x: np.roll(x, 1),
    "first": lambda x: x[..., :1],
    "reversed": lambda x: x[..., ::-1],
    "element": lambda x: x[0],
    "new axis": lambda x: x[None],
    "mask": lambda x: np.where(x, x, 0),
    "repeat": lambda x: np.repeat(row(x), 2, axis=-1),
    "tile": lambda x: np.tile(x, 2),
    "to float32": lambda x: real(row(x)).astype(np.float32),
    "to int8": lambda x: np.sign(real(row(x))).astype(np.int8),
    "clip": lambda x: np.clip(real(x), -1, 2),
    "round": lambda x: np.round(x, 1),
    "trace": lambda x: np.trace(np.atleast_2d(x)),
    "diff": lambda x: np.diff(row(x), axis=-1),
    "broadcast": lambda x: np.broadcast_to(x, (2, *np.shape(x))),
    "ones": np.ones_like,
    "full": lambda x: np.full_like(x, 1),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": lambda x, y: x / (1 + np.abs(y)),
    "operators": lambda x, y: x * 2 - y,
    "floor_divide": lambda x, y: real(x) // (1 + np.abs(real(y))),
    "mod": lambda x, y: real(x) % (1 + np.abs(real(y))),
    "maximum": np.maximum,
    "minimum": lambda x, y: np.minimum(real(x), real(y)),
    "less": lambda x, y: real(x) < real(y),
    "equal": np.equal,
    "logical_and": np.logical_and,
    "bitwise_or": np.bitwise_or,
    "where": lambda x, y: np.where(np.abs(x) > np.abs(y), x, y),
    "select": lambda x, y: np.select([np.equal(x, y), x != 0], [x, y], 1),
    "hypot": lambda x, y: np.hypot(real(x), real(y)),
    "arctan2": lambda x, y: np.arctan2(real(x), real(y)),
    "power": lambda x, y: np.abs(x) ** np.clip(real(y), 0, 2),
    "concatenate": lambda x, y: np.concatenate([np.ravel(x), np.ravel(y)]),
    "stack": lambda x, y: np.stack(np.broadcast_arrays(x, y), axis=-1),
    "outer": np.multiply.outer,
    "matmul": lambda x, y: np.atleast_2d(x) @ np.atleast_2d(y).swapaxes(-1, -2),
    "inner": lambda x, y: np.sum(row(x * y), axis=-1),
    "einsum": lambda x, y: np.einsum("...i,...i->...", np.atleast_1d(x), np.atleast_1d(y)),
    "take": lambda x, y: np.take(
        row(x), np.clip(real(y), 0, 1).astype(np.int32), axis=-1, mode="clip"
    ),
    "isin": lambda x, y: np.isin(real(x), real(y)),
    "copysign": lambda x, y: np.copysign(real(x), real(y)),
    "allclose": np.isclose,
}


@dataclass(frozen=True)
class Application:
    """A function's name and the pool entries it takes."""

    name: str
    first: int
    second: int


APPLICATIONS = st.builds(
    Application, st.sampled_from([*UNARY, *BINARY]), st.integers(0, 6), st.integers(0, 6)
)
EXPRESSIONS = st.lists(APPLICATIONS, min_size=1, max_size=4)


@dataclass(frozen=True)
class Operand:
    """How to make one argument: an array of a shape and dtype, or a Python scalar."""

    dtype: str
    shape: tuple[int, ...]
    scalar: bool

    def draw(self, rng: np.random.Generator, lead: tuple[int, ...] = ()) -> Any:
        """A value; `lead` are axes of members in front."""
        kind = np.dtype(self.dtype).kind
        shape = () if self.scalar else (*lead, *self.shape)
        if kind == "b":
            value: Any = rng.random(shape) < 0.5
        elif kind in "iu":
            value = rng.integers(0 if kind == "u" else -3, 4, shape)
        else:
            value = np.round(rng.uniform(-2, 2, shape), 2)
            value = value + 1j * np.round(rng.uniform(-2, 2, shape), 2) if kind == "c" else value
        if self.scalar:  # negative integers do not fit unsigned arrays
            return np.asarray(np.abs(value) if kind in "iu" else value).item()
        return np.asarray(value).astype(self.dtype)[()]


OPERANDS = st.lists(
    st.builds(
        Operand,
        st.sampled_from(DTYPES),
        st.sampled_from(SHAPES),
        st.sampled_from([False, False, False, True]),
    ).filter(lambda o: not o.scalar or o.dtype in ("i8", "f8")),  # `True.real` is an int
    min_size=1,
    max_size=3,
)


def evaluate(expression: list[Application], *operands: Any) -> Any:
    """The value of an expression."""
    pool = list(operands)
    for step in expression:
        a, b = pool[step.first % len(pool)], pool[step.second % len(pool)]
        pool.append(UNARY[step.name](a) if step.name in UNARY else BINARY[step.name](a, b))
    return pool[-1]

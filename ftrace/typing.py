"""Names for annotations: `Array`, and jaxtyping's shaped types, resolved at first use."""

import importlib
from typing import Any

import numpy as np

from ftrace.core.device import recognise
from ftrace.core.trace import Tracer


class _ArrayMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), np.ndarray | np.generic | Tracer) or recognise(
            type(instance)
        )


class Array(metaclass=_ArrayMeta):
    """Anything ftrace computes with: numpy and cupy arrays, NumPy scalars, and tracers.

    For annotations and `isinstance`; there is no array class of ftrace's own.

    Example:
        >>> import numpy as np, ftrace
        >>> isinstance(np.ones(3), ftrace.Array)
        True
    """

    shape: tuple[int, ...]
    dtype: Any


def __getattr__(name: str) -> Any:
    """`Float`, `Int`, `Complex`, ... of jaxtyping, imported when first asked for."""
    if name.startswith("_") or not hasattr(jaxtyping := importlib.import_module("jaxtyping"), name):
        raise AttributeError(f"module 'ftrace.typing' has no attribute {name!r}")
    return getattr(jaxtyping, name)

"""`ftrace.tree`: the functions of `ftrace.tree_util` under their short names, as `jax.tree`.

Beside them `Vector`, a tree with arithmetic, and `shape`.

Example:
    >>> from ftrace import tree
    >>> tree.map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
    {'a': 11, 'b': (22, 33)}
"""

import dataclasses
from typing import Any

from ftrace.numpy.tree_vectors import Vector as Vector
from ftrace.numpy.tree_vectors import shape as shape
from ftrace.tree_util import tree_all as all
from ftrace.tree_util import tree_broadcast as broadcast
from ftrace.tree_util import tree_flatten as flatten
from ftrace.tree_util import tree_flatten_with_path as flatten_with_path
from ftrace.tree_util import tree_leaves as leaves
from ftrace.tree_util import tree_leaves_with_path as leaves_with_path
from ftrace.tree_util import tree_map as map
from ftrace.tree_util import tree_map_with_path as map_with_path
from ftrace.tree_util import tree_reduce as reduce
from ftrace.tree_util import tree_reduce_associative as reduce_associative
from ftrace.tree_util import tree_structure as structure
from ftrace.tree_util import tree_transpose as transpose
from ftrace.tree_util import tree_unflatten as unflatten

__all__ = [
    "Vector",
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "shape",
    "static",
    "structure",
    "transpose",
    "unflatten",
]


def static(**kwargs: Any) -> Any:
    """A dataclass field that belongs to the structure of the tree, not to its leaves.

    Args:
        **kwargs: the arguments of `dataclasses.field`.

    Returns:
        `dataclasses.field` with `metadata={"static": True}` added.

    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Layer:
        ...     w: float
        ...     activation: str = static(default="tanh")
        >>> leaves(Layer(1.0))
        [1.0]
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)

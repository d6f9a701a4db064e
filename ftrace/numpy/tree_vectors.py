"""`Vector`: a tree of arrays with arithmetic, element by element and level by level.

The idea: what is no tree of its own (a number, an array) meets every leaf; a container must be a
prefix of the tree and meets what stands in its place, so that `v * {"a": 2, "b": 10}` scales
subtrees. Either side may be the prefix.
"""

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from ftrace.core.errors import DtypeError, RuleError, TreeError
from ftrace.core.nodes import GetAttrKey, NodeKind, register
from ftrace.core.tree import (
    PyTreeDef,
    broadcast_prefix,
    tree_leaves,
    tree_map,
    tree_structure,
)


class Vector:
    """A tree of arrays as an element of a vector space.

    `+ - * / // % **`, comparisons, `abs` and NumPy's ufuncs act on all leaves; the other operand
    is a number or an array for every leaf, a `Vector`, or a container with the upper levels of the
    tree, or with more. `v @ w` is the inner product of all elements. `v["w"]`, `v[0]` and `v.field`
    are the parts of the tree, containers again as vectors. It is a container for transformations:
    the gradient of a function of a `Vector` is one.

    Args:
        tree: containers of arrays and numbers.

    Example:
        >>> import numpy as np
        >>> from ftrace.tree import Vector
        >>> v, w = Vector({"x": 3, "y": [-4, 5]}), Vector({"x": 2, "y": [1, 2]})
        >>> v + w
        Vector({'x': 5, 'y': [-3, 7]})
        >>> v * {"x": 2, "y": 10}
        Vector({'x': 6, 'y': [-40, 50]})
        >>> abs(v), np.square(v).sum()
        (Vector({'x': 3, 'y': [4, 5]}), np.int64(50))
    """

    __slots__ = ("tree",)
    __array_priority__ = 30.0
    __hash__ = None  # type: ignore[assignment] - equality is by element

    def __init__(self, tree: Any) -> None:
        self.tree = tree.tree if type(tree) is Vector else tree

    # ------------------------------------------------------------------------ parts

    def __getitem__(self, key: Any) -> Any:
        return _part(self.tree[key])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "tree":
            raise AttributeError(name)
        return _part(getattr(self.tree, name))

    def __len__(self) -> int:
        return len(self.tree)

    def __iter__(self) -> Iterator[Any]:
        if issubclass(type(self.tree), dict):
            return iter(self.tree)
        return map(_part, self.tree)

    def __repr__(self) -> str:
        return f"Vector({self.tree!r})"

    # ------------------------------------------------------------------------ arithmetic

    def map(self, fun: Callable[..., Any], *others: Any) -> "Vector":
        """`fun` of each leaf, and of what the others have in its place."""
        return _mapped(fun, (self, *others))

    def __matmul__(self, other: Any) -> Any:
        return sum(tree_leaves(_mapped(_dot, (self, _vector(other)))))

    def __rmatmul__(self, other: Any) -> Any:
        return _vector(other) @ self

    def __bool__(self) -> bool:
        raise TreeError(
            "The truth of a Vector is ambiguous: comparisons are by element.",
            "Compare the trees' leaves: ftrace.tree.all(ftrace.tree.map(np.all, v == w)).",
        )

    def sum(self, axis: None = None, dtype: Any = None, out: None = None) -> Any:
        """The sum of all elements."""
        if axis is not None or dtype is not None or out is not None:
            raise RuleError("A Vector is summed as a whole.", "Use v.map(np.sum) with options.")
        return sum(np.sum(x) for x in tree_leaves(self.tree))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options.get("out") is not None:
            raise RuleError(
                f"numpy.{ufunc.__name__} of a Vector, with "
                f"{'out=' if method == '__call__' else f'.{method}'}.",
                "Apply it to the arrays: v.map(fun), or ftrace.tree.map(fun, v).",
            )
        structure, operands = _aligned(inputs)
        found = [ufunc(*xs, **options) for xs in operands]
        if ufunc.nout == 1:
            return Vector(structure.unflatten(found))
        return tuple(Vector(structure.unflatten(part)) for part in zip(*found, strict=True))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise DtypeError(
            "A plain array was asked of a Vector, which holds several.",
            "ftrace.flatten_util.ravel_pytree gives all elements as one array, and the way back.",
        )


def _part(x: Any) -> Any:
    return x if tree_structure(x).num_nodes == 1 else Vector(x)


def _vector(x: Any) -> "Vector":
    return x if type(x) is Vector else Vector(x)


def _dot(x: Any, y: Any) -> Any:
    return np.sum(np.multiply(x, y))


def _tree(x: Any) -> Any:
    return x.tree if type(x) is Vector else x


def _mapped(fun: Callable[..., Any], operands: tuple[Any, ...]) -> Vector:
    """A function of what operands have in each place."""
    structure, places = _aligned(operands)
    return Vector(structure.unflatten([fun(*xs) for xs in places]))


def _aligned(operands: tuple[Any, ...]) -> tuple[PyTreeDef, Iterable[tuple[Any, ...]]]:
    """The structure of the largest operand, and what all have at each of its leaves."""
    trees = [_tree(x) for x in operands]
    largest = max(trees, key=lambda t: tree_structure(t).num_nodes)
    return tree_structure(largest), zip(*(_repeated(t, largest) for t in trees), strict=True)


def _repeated(prefix: Any, full: Any) -> list[Any]:
    try:
        return broadcast_prefix(prefix, full)
    except TreeError as error:
        raise TreeError(
            f"Vectors that are not built alike: {error.what}",
            "Both have the same containers, or one of them only the upper levels.",
        ) from None


def _binary(fun: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forward(self: Vector, other: Any) -> Vector:
        return _mapped(fun, (self, other))

    def reflected(self: Vector, other: Any) -> Vector:
        return _mapped(fun, (other, self))

    return forward, reflected


def _unary(fun: Callable[[Any], Any]) -> Any:
    return lambda self: _mapped(fun, (self,))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _forward, _reflected = _binary(getattr(operator, _name))
    setattr(Vector, f"__{_name}__", _forward)
    setattr(Vector, f"__r{_name}__", _reflected)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Vector, f"__{_name}__", _binary(getattr(operator, _name))[0])
for _name in ("neg", "pos", "abs"):
    setattr(Vector, f"__{_name}__", _unary(getattr(operator, _name)))

_KEYS: Final = (GetAttrKey("tree"),)
register(
    NodeKind(Vector, lambda v: ((v.tree,), None), lambda _, xs: Vector(xs[0]), lambda _, n: _KEYS),
    Vector,
)


def shape(tree: Any) -> Any:
    """The tree with each array's shape in its place.

    Args:
        tree: containers of arrays and numbers.

    Returns:
        The same containers, a `Vector` as its tree; `ftrace.random.normal` takes it.

    Example:
        >>> import numpy as np
        >>> from ftrace import tree
        >>> tree.shape({"w": np.ones((2, 3)), "b": 1.0})
        {'w': (2, 3), 'b': ()}
    """
    return tree_map(np.shape, _tree(tree))

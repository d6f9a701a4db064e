"""Functions on pytrees, with JAX's names: registration, paths, reductions, prefixes.

A pytree is a nest of dicts, lists, tuples, namedtuples, `None`, dataclasses and registered classes.
Dataclasses need no registration: fields declared with `field(metadata={"static": True})`, or with
`ftrace.tree.static`, belong to the structure. The walks themselves are in `ftrace/core/tree.py`,
registration in `ftrace/core/registration.py`; this file holds what is built from them.

Example:
    >>> from ftrace import tree_util
    >>> leaves, treedef = tree_util.tree_flatten({"w": [1.0, 2.0], "b": 3.0})
    >>> leaves
    [3.0, 1.0, 2.0]
    >>> treedef
    PyTreeDef({'b': *, 'w': [*, *]})
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ftrace.core.arguments import explain as _explain
from ftrace.core.errors import TreeError
from ftrace.core.jax_names import refusing as _refusing
from ftrace.core.keypaths import KeyPath, keystr, tree_flatten_with_path
from ftrace.core.nodes import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    NodeKind,
    SequenceKey,
    flatten_keyed,
    kind_of,
)
from ftrace.core.registration import (
    Partial,
    register_dataclass,
    register_leaf,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)
from ftrace.core.tree import (
    LEAF,
    IsLeaf,
    PyTreeDef,
    broadcast_prefix,
    check_tree,
    make_node,
    mismatch_error,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_mismatch,
    tree_structure,
    tree_unflatten,
)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_leaf",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

_MISSING: Final[Any] = object()


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with its key path.

    Args:
        tree: any pytree.
        is_leaf: called on every node; where it returns true, the node is taken as a leaf.
        is_leaf_takes_path: `is_leaf` is called with (path, node) instead of (node).

    Returns:
        Pairs (path, leaf); `keystr(path)` is the path as text.

    Example:
        >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"w": (1, 2)})]
        [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like `tree_map`, but `f` also receives the key path of the leaf, first.

    Args:
        f: a function of (path, leaf, *leaves of the other trees).
        tree: the tree that decides the structure of the result.
        *rest: trees of which `tree` is a prefix.
        is_leaf: called on every node; where it returns true, the node is taken as a leaf.
        is_leaf_takes_path: `is_leaf` is called with (path, node) instead of (node).

    Returns:
        A tree of the structure of `tree`.

    Raises:
        TreeError: if a tree of `rest` does not have the structure of `tree`.

    Example:
        >>> tree_map_with_path(lambda path, x: keystr(path) + "=" + str(x), {"w": (1, 2)})
        {'w': ("['w'][0]=1", "['w'][1]=2")}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [treedef.flatten_up_to(other) for other in rest]
    rows = zip(pairs, *columns, strict=True)
    return treedef.unflatten([f(path, leaf, *others) for (path, leaf), *others in rows])


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true.

    Example:
        >>> tree_all({"a": True, "b": (1, 0)})
        False
    """
    return all(tree_leaves(tree, is_leaf))


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf = None,
) -> Any:
    """`functools.reduce` over the leaves, from left to right.

    Raises:
        TypeError: if there are no leaves and no `initializer`, as `functools.reduce` does.

    Example:
        >>> import operator
        >>> tree_reduce(operator.add, [1, (2, 3), [4, 5, 6]])
        21
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _MISSING:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _MISSING,
    is_leaf: IsLeaf = None,
) -> Any:
    """Reduce the leaves pairwise, in logarithmic depth; `operation` must be associative.

    Args:
        operation: an associative function of two leaves.
        tree: any pytree.
        identity: the result for a tree without leaves.
        is_leaf: called on every node; where it returns true, the node is taken as a leaf.

    Returns:
        The reduced value.

    Raises:
        TreeError: if there are no leaves and no `identity`.

    Example:
        >>> tree_reduce_associative(lambda a, b: "(" + a + b + ")", ["a", "b", "c", "d"])
        '((ab)(cd))'
    """
    values = tree_leaves(tree, is_leaf)
    if not values and identity is _MISSING:
        raise TreeError("A tree without leaves was to be reduced.", "Pass `identity=`.")
    while len(values) > 1:
        last = values[len(values) // 2 * 2 :]
        pairs = zip(values[0::2], values[1::2], strict=False)
        values = [operation(first, second) for first, second in pairs] + last
    return values[0] if values else identity


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Repeat the leaves of a prefix so that the result has the structure of `full_tree`.

    Args:
        prefix_tree: a tree of which every leaf stands for a subtree of `full_tree`.
        full_tree: the tree that decides the structure of the result.
        is_leaf: called on the nodes of both; where it returns true, the node is taken as a leaf.

    Returns:
        A tree of the structure of `full_tree` with leaves of `prefix_tree`.

    Raises:
        TreeError: if `prefix_tree` is no prefix of `full_tree`.

    Example:
        >>> tree_broadcast((1, 2), (0, {"a": 0, "b": 0}))
        (1, {'a': 2, 'b': 2})
    """
    repeated = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(repeated)


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn a tree of trees inside out: outer structure of inner ones to inner of outer.

    Args:
        outer_treedef: the structure whose leaves are the inner trees.
        inner_treedef: the structure of the inner trees; None reads it from the first of them.
        pytree_to_transpose: a tree of structure `outer_treedef` composed with `inner_treedef`.

    Returns:
        The tree of structure `inner_treedef` composed with `outer_treedef`.

    Raises:
        TreeError: if the tree does not have that structure.

    Example:
        >>> tree_transpose(tree_structure([0, 0]), None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
        {'a': [1, 3], 'b': [2, 4]}
    """
    check_tree(outer_treedef, "tree_transpose")
    if inner_treedef is not None:
        check_tree(inner_treedef, "tree_transpose")
    parts = outer_treedef.flatten_up_to(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(parts[0]) if parts else LEAF
    expected = outer_treedef.compose(inner_treedef)
    words = tree_mismatch(expected, tree_structure(pytree_to_transpose))
    if words:
        raise mismatch_error(*words.removeprefix("at ").split(": ", 1))
    rows = [tree_leaves(part) for part in parts]
    columns = zip(*rows, strict=True) if rows else [()] * inner_treedef.num_leaves
    return inner_treedef.unflatten([outer_treedef.unflatten(column) for column in columns])


# --- structures and single levels -------------------------------------------------------------


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether every item is a leaf.

    Example:
        >>> all_leaves([1, 2.0]), all_leaves([1, (2, 3)])
        (True, False)
    """
    return all(tree_structure(item, is_leaf) is LEAF for item in iterable)


def is_tree_node(typ: type) -> bool:
    """Whether objects of this class are nodes (containers) rather than leaves.

    Example:
        >>> is_tree_node(dict), is_tree_node(float)
        (True, False)
    """
    return kind_of(typ) is not None


def flatten_one_level(tree: Any) -> tuple[Sequence[Any], Any]:
    """The children of the root of a tree, and the static data of the root.

    Raises:
        TreeError: if the tree is a leaf.

    Example:
        >>> flatten_one_level({"b": 1, "a": (2, 3)})
        (((2, 3), 1), ('a', 'b'))
    """
    children, data = _root(tree).flatten(tree)
    return children, data


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Like `flatten_one_level`, with pairs (key, child).

    Raises:
        TreeError: if the tree is a leaf.

    Example:
        >>> flatten_one_level_with_keys([5])
        ([(SequenceKey(idx=0), 5)], None)
    """
    keys, children, data = flatten_keyed(_root(tree), tree)
    return list(zip(keys, children, strict=True)), data


def _root(tree: Any) -> NodeKind:
    kind = kind_of(type(tree))
    if kind is None:
        raise TreeError(
            f"A leaf of type {type(tree).__name__} has no children.",
            "Check with is_tree_node(type(x)) first.",
        )
    return kind


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a single leaf.

    Example:
        >>> treedef_is_leaf(tree_structure(1.0)), treedef_is_leaf(tree_structure(()))
        (True, False)
    """
    return treedef.kind is None


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of the root.

    Example:
        >>> treedef_children(tree_structure((1, [2])))
        [PyTreeDef(*), PyTreeDef([*])]
    """
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees of these structures.

    Example:
        >>> treedef_tuple([tree_structure(1), tree_structure([2])])
        PyTreeDef((*, [*]))
    """
    subs = tuple(treedefs)
    return make_node(_root(()), None, subs)


_explain(globals())
__getattr__ = _refusing("tree_util")

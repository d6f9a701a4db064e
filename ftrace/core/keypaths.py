"""Key paths: flatten with the way to each leaf, and the way as text (`[0]['w'].b`).

The steps of a path (`SequenceKey`, `DictKey`, `GetAttrKey`) are made by the kinds of nodes in
`core/nodes.py`. Paths of a structure without its tree are `core/tree.py: paths`, for messages.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any

from ftrace.core.nodes import flatten_keyed, kind_of
from ftrace.core.tree import LEAF, PyTreeDef, make_node
from ftrace.core.unrolled import unrolled

KeyPath = tuple[Any, ...]


def keystr(keys: Iterable[Any], *, simple: bool = False, separator: str = "") -> str:
    """A key path as text; with `simple`, only the bare keys, for instance with a separator.

    Example:
        >>> path, _ = tree_flatten_with_path([{"w": (1.0,)}])[0][0]
        >>> keystr(path), keystr(path, simple=True, separator="/")
        ("[0]['w'][0]", '0/w/0')
    """
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(map(_bare_key, keys))


def _bare_key(key: Any) -> str:
    for name in ("idx", "key", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Like `tree_flatten`, with pairs (key path, leaf) instead of leaves.

    Args:
        tree: any pytree.
        is_leaf: called on every node; where it returns true, the node is taken as a leaf.
        is_leaf_takes_path: `is_leaf` is called with (path, node) instead of (node).

    Returns:
        The list of pairs, and the structure.

    Example:
        >>> tree_flatten_with_path({"w": 1.0})
        ([((DictKey(key='w'),), 1.0)], PyTreeDef({'w': *}))
    """
    pairs: list[tuple[KeyPath, Any]] = []

    def stops(path: KeyPath, node: Any) -> bool:
        if is_leaf is None:
            return False
        return is_leaf(path, node) if is_leaf_takes_path else is_leaf(node)

    @unrolled
    def walk(node: Any, path: KeyPath) -> Generator[Any, Any, PyTreeDef]:
        kind = None if stops(path, node) else kind_of(type(node))
        if kind is None:
            pairs.append((path, node))
            return LEAF
        keys, children, data = flatten_keyed(kind, node)
        subs: list[PyTreeDef] = []
        for key, child in zip(keys, children, strict=True):
            subs.append((yield walk.deep(child, (*path, key))))
        return make_node(kind, data, tuple(subs))

    treedef = walk(tree, ())
    return pairs, treedef

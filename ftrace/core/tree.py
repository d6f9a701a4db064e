"""Pytrees: nested containers taken apart into leaves and a hashable structure, and put together.

Which classes are containers is decided in `core/nodes.py`. Here: the structure `PyTreeDef`, flatten
and map, trees that are prefixes of others, and the words for the first difference of two trees.
Key paths are in `core/keypaths.py`, registration and the derived functions in `ftrace.tree_util`.

The idea: structures whose data are strings are shared through a table, so that equal ones are
nearly always the same object: comparing costs an identity test and hashing happens once.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ftrace.core.errors import TreeError
from ftrace.core.nodes import (
    KINDS,
    LEAF_TYPES,
    NodeKind,
    describe,
    difference,
    kind_of,
    same_data,
)

IsLeaf = Callable[[Any], bool] | None


class PyTreeDef:
    """The structure of a pytree: what is left when the leaves are taken out.

    Immutable and hashable; `treedef.unflatten(leaves)` puts a tree together. Made by
    `tree_structure` and `tree_flatten`.
    """

    __slots__ = ("__weakref__", "_flat", "_hash", "data", "kind", "num_leaves", "num_nodes", "subs")

    def __init__(self, kind: NodeKind | None, data: Any, subs: tuple["PyTreeDef", ...]) -> None:
        self.kind, self.data, self.subs = kind, data, subs
        self.num_leaves: int = 1 if kind is None else sum(sub.num_leaves for sub in subs)
        self.num_nodes: int = 1 + sum(sub.num_nodes for sub in subs)
        self._flat = all(sub.kind is None for sub in subs)
        self._hash: int | None = None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves."""
        if type(leaves) is not list and type(leaves) is not tuple:
            leaves = tuple(leaves)
        if len(leaves) != self.num_leaves:
            raise TreeError(
                f"A tree with {self.num_leaves} leaves was to be made from {len(leaves)}: {self}.",
                "Pass one value for each leaf, in the order of tree_leaves.",
            )
        if self.kind is None:
            return leaves[0]
        if self._flat:
            return self.kind.unflatten(self.data, leaves)
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        return self.kind.unflatten(self.data, [sub._build(leaves) for sub in self.subs])

    def flatten_up_to(self, tree: Any, name: str = "") -> list[Any]:
        """The subtrees of `tree` at the places where this structure has leaves.

        `name` is what the tree is called in the path of an error.
        """
        leaves, treedef = tree_flatten(tree)
        if treedef == self:
            return leaves
        parts: list[Any] = []
        _split(self, tree, name, parts)
        return parts

    def compose(self, inner: "PyTreeDef") -> "PyTreeDef":
        """This structure with every leaf replaced by `inner`."""
        if self.kind is None:
            return inner
        return make_node(self.kind, self.data, tuple(sub.compose(inner) for sub in self.subs))

    def children(self) -> list["PyTreeDef"]:
        """The structures of the children."""
        return list(self.subs)

    def node_data(self) -> tuple[type, Any] | None:
        """(class, data) of the root, or None for a leaf."""
        return None if self.kind is None else (self.kind.type, self.data)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not PyTreeDef:
            return NotImplemented
        return (
            self.kind is other.kind
            and self.num_nodes == other.num_nodes
            and same_data(self.data, other.data)
            and self.subs == other.subs
        )

    def __hash__(self) -> int:
        if self._hash is None:
            try:
                self._hash = hash((self.kind, self.data, self.subs))
            except TypeError as error:
                raise _unhashable(self, error) from None
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.kind and self.kind.type, self.data, self.subs)

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self)})"


_SHARED: dict[Any, PyTreeDef] = {}
_SHARED_LIMIT = 4096


def _is_shareable(data: Any) -> bool:
    # Only strings: 1, 1.0 and True are equal keys of a dict, but not the same static field.
    if data is None:
        return True
    if type(data) is not tuple:
        return False
    return all(type(item) is str for item in data)


def _share(key: Any, treedef: PyTreeDef) -> PyTreeDef:
    if len(_SHARED) >= _SHARED_LIMIT:
        _SHARED.clear()
    return _SHARED.setdefault(key, treedef)


def make_node(kind: NodeKind, data: Any, subs: tuple[PyTreeDef, ...]) -> PyTreeDef:
    """The structure of one node over the structures of its children."""
    if not _is_shareable(data):
        return PyTreeDef(kind, data, subs)
    key = (kind, data, subs)
    try:
        return _SHARED.get(key) or _share(key, PyTreeDef(kind, data, subs))
    except TreeError:  # a child holds static data without a hash: only hashing it is an error
        return PyTreeDef(kind, data, subs)


def _flat_node(kind: NodeKind, data: Any, size: int) -> PyTreeDef:
    if data is not None and not _is_shareable(data):
        return PyTreeDef(kind, data, (LEAF,) * size)
    key = (kind, data, size)
    return _SHARED.get(key) or _share(key, make_node(kind, data, (LEAF,) * size))


def _restore(cls: type | None, data: Any, subs: tuple[PyTreeDef, ...]) -> PyTreeDef:
    kind = None if cls is None else kind_of(cls)
    return LEAF if kind is None else make_node(kind, data, subs)


LEAF = PyTreeDef(None, None, ())
_TUPLES = [make_node(KINDS[tuple], None, (LEAF,) * size) for size in range(16)]


def _unhashable(treedef: PyTreeDef, error: TypeError) -> TreeError:
    name = "tree" if treedef.kind is None else treedef.kind.type.__name__
    return TreeError(
        f"The static data {treedef.data!r} of a {name} cannot be hashed: {error}.",
        "Static fields must be hashable: use a tuple for a list, an ordinary field for an array.",
    )


def _text(treedef: PyTreeDef) -> str:
    kind, data = treedef.kind, treedef.data
    if kind is None:
        return "*"
    if kind.type is type(None):
        return "None"
    parts = [_text(sub) for sub in treedef.subs]
    if kind.type is tuple:
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if kind.type is dict:
        items = zip(data, parts, strict=True)
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in items) + "}"
    joined = f"[{', '.join(parts)}]"
    if kind.type is list:
        return joined
    return f"CustomNode({kind.label or f'{kind.type.__name__}[{data}]'}, {joined})"


# --- flatten and map --------------------------------------------------------------------------


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """Take a tree apart into its leaves, from left to right, and its structure.

    Args:
        tree: any pytree.
        is_leaf: called on every node; where it returns true, the node is taken as a leaf.

    Returns:
        The list of leaves, and the hashable `PyTreeDef`.

    Raises:
        TreeError: if the keys of a dict cannot be sorted, or a field of a dataclass is not set.

    Example:
        >>> tree_flatten({"b": (1, None), "a": 2})
        ([2, 1], PyTreeDef({'a': *, 'b': (*, None)}))
    """
    leaves: list[Any] = []
    if is_leaf is not None:
        return leaves, _flatten_until(tree, is_leaf, leaves)
    if type(tree) is tuple and len(tree) < len(_TUPLES):  # what most calls pass
        known = LEAF_TYPES
        for child in tree:
            if type(child) not in known:
                break
        else:
            return [*tree], _TUPLES[len(tree)]
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> PyTreeDef:
    cls = type(tree)
    kind = KINDS.get(cls) or kind_of(cls)
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, data = kind.flatten(tree)
    known = LEAF_TYPES
    for child in children:
        if type(child) not in known:
            break
    else:
        leaves.extend(children)
        return _flat_node(kind, data, len(children))
    subs: list[PyTreeDef] = []
    for child in children:
        if type(child) in known:
            leaves.append(child)
            subs.append(LEAF)
        else:
            subs.append(_flatten(child, leaves))
    return make_node(kind, data, tuple(subs))


def _flatten_until(tree: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]) -> PyTreeDef:
    kind = None if is_leaf(tree) else kind_of(type(tree))
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, data = kind.flatten(tree)
    subs = tuple([_flatten_until(child, is_leaf, leaves) for child in children])
    return make_node(kind, data, subs)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Put a tree together: the inverse of `tree_flatten`.

    Raises:
        TreeError: if the number of leaves is not that of the structure.

    Example:
        >>> tree_unflatten(tree_structure({"a": 0, "b": [0]}), ["x", "y"])
        {'a': 'x', 'b': ['y']}
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree from left to right.

    Example:
        >>> tree_leaves([1, (2, {"k": 3}), None])
        [1, 2, 3]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure of a tree, hashable and comparable.

    Example:
        >>> tree_structure([1, (2, None)])
        PyTreeDef([*, (*, None)])
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to every leaf.

    Args:
        f: a function of as many arguments as there are trees.
        tree: the tree that decides the structure of the result.
        *rest: trees of which `tree` is a prefix: they may have subtrees where it has leaves.
        is_leaf: called on the nodes of `tree`; where it returns true, the node is taken as a leaf.

    Returns:
        A tree of the structure of `tree`.

    Raises:
        TreeError: if `tree` is no prefix of a tree of `rest`; the message names the place.

    Example:
        >>> tree_map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
        {'a': 11, 'b': (22, 33)}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in leaves])
    columns = [treedef.flatten_up_to(other) for other in rest]
    return treedef.unflatten([f(*row) for row in zip(leaves, *columns, strict=True)])


# --- paths ------------------------------------------------------------------------------------


def paths(treedef: PyTreeDef, name: str = "") -> list[str]:
    """The path of every leaf as text, after `name`: `params['w'].b`."""
    if treedef.kind is None:
        return [name]
    keys = treedef.kind.keys(treedef.data, len(treedef.subs))
    steps = zip(keys, treedef.subs, strict=True)
    return [path for key, sub in steps for path in paths(sub, f"{name}{key}")]


def tree_words(treedef: PyTreeDef) -> str:
    """The outermost node of a structure in words: `a tuple of 2`, `a single value`, `None`."""
    if treedef.kind is None:
        return "a single value"
    return describe(treedef.kind, treedef.data, len(treedef.subs))


# --- prefixes and differences -----------------------------------------------------------------


def _split(treedef: PyTreeDef, tree: Any, path: str, parts: list[Any]) -> None:
    """Append the subtrees of `tree` at the leaves of `treedef`; raise where they part ways."""
    if treedef.kind is None:
        parts.append(tree)
        return
    expected = treedef.kind, treedef.data, len(treedef.subs)
    kind = kind_of(type(tree))
    if kind is None:
        raise mismatch_error(path, difference(expected, (None, None, 0), tree))
    children, data = kind.flatten(tree)
    size = len(children)
    if kind is not expected[0] or size != expected[2] or not same_data(expected[1], data):
        raise mismatch_error(path, difference(expected, (kind, data, size)))
    for key, sub, child in zip(kind.keys(data, size), treedef.subs, children, strict=True):
        _split(sub, child, f"{path}{key}", parts)


def mismatch_error(path: str, words: str) -> TreeError:
    """The error for two trees that differ at `path`."""
    return TreeError(
        f"Trees do not match at {path or 'the root'}: {words}.",
        "Give both the same structure; a leaf of the first may stand for a whole subtree.",
    )


def tree_mismatch(expected: Any, actual: Any, name: str = "") -> str:
    """The first difference of two trees (or structures) in words, or "" if there is none.

    For messages: `at params['w']: expected a tuple of 2, got a list of 3; the trees are
    {'w': (*, *)} and {'w': [*, *, *]}`.
    """
    trees = (expected, actual)
    first, second = (t if type(t) is PyTreeDef else tree_structure(t) for t in trees)
    words = _first_difference(first, second, name)
    return words and f"{words}; the trees are {_brief(first)} and {_brief(second)}"


def _brief(tree: PyTreeDef, most: int = 200) -> str:
    text = _text(tree)
    return text if len(text) <= most else f"{text[:most]}..."


def _first_difference(expected: PyTreeDef, actual: PyTreeDef, path: str) -> str:
    if expected == actual:
        return ""
    kind, size, data = expected.kind, len(expected.subs), expected.data
    others = len(actual.subs)
    if (
        kind is None
        or kind is not actual.kind
        or size != others
        or not same_data(data, actual.data)
    ):
        words = difference((kind, data, size), (actual.kind, actual.data, others))
        return f"at {path or 'the root'}: {words}"
    steps = zip(kind.keys(data, size), expected.subs, actual.subs, strict=True)
    found = (_first_difference(sub, other, f"{path}{key}") for key, sub, other in steps)
    return next(filter(None, found), "")


def broadcast_prefix(prefix: Any, full: Any, is_leaf: IsLeaf = None, name: str = "") -> list[Any]:
    """One leaf of `prefix` for every leaf of `full`: a leaf above a subtree is repeated."""
    leaves, treedef = tree_flatten(prefix, is_leaf)
    parts = treedef.flatten_up_to(full, name)
    counts = [tree_structure(part).num_leaves for part in parts]
    pairs = zip(leaves, counts, strict=True)
    return [leaf for leaf, count in pairs for _ in range(count)]

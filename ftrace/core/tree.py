"""Pytrees: nested containers taken apart into leaves and a hashable structure, and put together.

Which classes are containers is decided in `core/nodes.py`. Here: the structure `PyTreeDef`, flatten
and map, trees that are prefixes of others, and the words for the first difference of two trees.
Key paths are in `core/keypaths.py`, registration and the derived functions in `ftrace.tree_util`.

The idea: structures whose data are strings are shared through a table, so that equal ones are
nearly always the same object: comparing costs an identity test and hashing happens once. How deep a
tree may be is not Python's stack to decide: what every call needs keeps a list of its own, the
rest is recursive to read and `unrolled` to run.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from ftrace.core.beside import leave_behind
from ftrace.core.errors import DtypeError, TreeError, brief
from ftrace.core.nodes import (
    BY_NAME,
    KINDS,
    LEAF_TYPES,
    Constant,
    NodeKind,
    WithNote,
    describe,
    difference,
    kind_of,
    same_data,
)
from ftrace.core.unrolled import unrolled

IsLeaf = Callable[[Any], bool] | None


class PyTreeDef:
    """The structure of a pytree: what is left when the leaves are taken out.

    Immutable and hashable; `treedef.unflatten(leaves)` puts a tree together. Made by
    `tree_structure` and `tree_flatten`.
    """

    __slots__ = (
        *("__weakref__", "_flat", "_hash", "data", "is_mixed", "kind", "num_leaves", "num_nodes"),
        *("order", "subs"),
    )

    def __init__(self, kind: NodeKind | None, data: Any, subs: tuple["PyTreeDef", ...]) -> None:
        self.kind, self.data, self.subs = kind, data, subs
        try:
            self.num_leaves: int = 1 if kind is None else sum(sub.num_leaves for sub in subs)
        except (TypeError, AttributeError):
            check_tree(subs, "PyTreeDef")
        self.num_nodes: int = 1 + sum(sub.num_nodes for sub in subs)
        # whether values are part of it (`constant`)
        self.is_mixed: bool = kind is KINDS[Constant] or True in [sub.is_mixed for sub in subs]
        # None where no data is `WithNote`; with it, structures that are equal unflatten alike
        self.order: object = _order(data, subs)
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
        return self._build(leaves)

    def _build(self, leaves: Any) -> Any:
        """The tree, node by node in the order of their ends."""
        taken = 0
        open_: list[tuple[PyTreeDef, Iterator[PyTreeDef], list[Any]]]
        open_ = [(self, iter(self.subs), [])]
        while True:
            node, rest, children = open_[-1]
            for sub in rest:
                if sub.kind is not None and not sub._flat:
                    open_.append((sub, iter(sub.subs), []))
                    break
                some = leaves[taken : taken + sub.num_leaves]
                taken += sub.num_leaves
                children.append(sub.kind.unflatten(sub.data, some) if sub.kind else some[0])
            else:
                open_.pop()
                assert node.kind is not None
                made = node.kind.unflatten(node.data, children)
                if not open_:
                    return made
                open_[-1][2].append(made)

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
        return _composed(self, inner)

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
        pairs: list[tuple[PyTreeDef, PyTreeDef]] = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            alike = a.kind is b.kind and a.num_nodes == b.num_nodes and len(a.subs) == len(b.subs)
            if not (alike and same_data(a.data, b.data)):
                return False
            pairs.extend(zip(a.subs, b.subs, strict=True))
        return True

    def __hash__(self) -> int:
        if self._hash is None:
            for below in reversed(self._new_below()):  # their hashes first, so that none is deep
                hash(below)
            try:
                self._hash = hash((self.kind, self.data, self.subs))
            except TypeError as error:
                raise _unhashable(self, error) from None
        return self._hash

    def _new_below(self) -> list["PyTreeDef"]:
        """The nodes inside that were never hashed, outer ones first."""
        found: list[PyTreeDef] = [self]
        for node in found:
            found.extend(s for s in node.subs if s._hash is None and s.kind is not None)
        return found[1:]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.kind and self.kind.type, self.data, self.subs)

    def __repr__(self) -> str:
        return f"PyTreeDef({brief(_text(self), 4000)})"


@unrolled
def _composed(treedef: PyTreeDef, inner: PyTreeDef) -> Generator[Any, Any, PyTreeDef]:
    if treedef.kind is None:
        return inner
    subs: list[PyTreeDef] = []
    for sub in treedef.subs:
        subs.append((yield _composed.deep(sub, inner)))  # noqa: PERF401
    return make_node(treedef.kind, treedef.data, tuple(subs))


_ORDERS: dict[Any, object] = {}


def _order(data: Any, subs: tuple[PyTreeDef, ...]) -> object:
    """What stands for all notes in a structure: one object for the same ones."""
    keys = data[-1] if type(data) is tuple and data else data  # of a defaultdict
    own = keys.note if type(keys) is WithNote else None
    for sub in subs:
        if sub.order is not None:
            break
    else:
        if own is None:
            return None
    if len(_ORDERS) >= _SHARED_LIMIT:
        _ORDERS.clear()
    return _ORDERS.setdefault((own, *[sub.order for sub in subs]), object())


_SHARED: dict[Any, PyTreeDef] = {}
_SHARED_LIMIT = 4096


def _is_shareable(data: Any) -> bool:
    # Only strings: 1, 1.0 and True are equal keys of a dict, but not the same static field.
    if data is None:
        return True
    if type(data) is not tuple and type(data) is not WithNote:
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
    key = (kind, data, subs, _order(data, subs))
    try:
        return _SHARED.get(key) or _share(key, PyTreeDef(kind, data, subs))
    except TreeError:  # a child holds static data without a hash: only hashing it is an error
        return PyTreeDef(kind, data, subs)


def _flat_node(kind: NodeKind, data: Any, size: int) -> PyTreeDef:
    if data is not None and not _is_shareable(data):
        return PyTreeDef(kind, data, (LEAF,) * size)
    if type(data) is WithNote:
        return make_node(kind, data, (LEAF,) * size)
    key = (kind, data, size)
    return _SHARED.get(key) or _share(key, make_node(kind, data, (LEAF,) * size))


def _restore(cls: type | None, data: Any, subs: tuple[PyTreeDef, ...]) -> PyTreeDef:
    kind = None if cls is None else kind_of(cls)
    return LEAF if kind is None else make_node(kind, data, subs)


def with_leaves(treedef: PyTreeDef, parts: Iterator["PyTreeDef"]) -> PyTreeDef:
    """The structure with each leaf replaced by one of these structures."""
    if treedef.kind is None:
        return next(parts)
    subs = tuple([with_leaves(sub, parts) for sub in treedef.subs])
    return make_node(treedef.kind, treedef.data, subs) if subs else treedef


def constant(value: Any) -> PyTreeDef:
    """The structure of one value that is part of it."""
    return PyTreeDef(KINDS[Constant], value, ())


def constants_of(treedef: PyTreeDef) -> Iterator[Any]:
    """The values that are part of a structure."""
    if treedef.kind is KINDS[Constant]:
        yield treedef.data
    for sub in treedef.subs:
        yield from constants_of(sub)


LEAF = PyTreeDef(None, None, ())
NOTHING = PyTreeDef(KINDS[type(None)], None, ())
_TUPLES = [make_node(KINDS[tuple], None, (LEAF,) * size) for size in range(16)]


def _unhashable(treedef: PyTreeDef, error: TypeError) -> TreeError:
    name = "tree" if treedef.kind is None else treedef.kind.type.__name__
    name = "container" if name == "Constant" else name
    return TreeError(
        f"The static data {treedef.data!r} of a {name} cannot be hashed: {error}.",
        "Static fields must be hashable: use a tuple for a list, an ordinary field for an array.",
    )


@unrolled
def _text(treedef: PyTreeDef) -> Generator[Any, Any, str]:
    kind, data = treedef.kind, treedef.data
    if kind is None:
        return "*"
    if kind.type is type(None):
        return "None"
    parts: list[str] = []
    for sub in treedef.subs:
        parts.append("*" if sub.kind is None else (yield _text.deep(sub)))  # noqa: PERF401
    if kind.type is tuple:
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if kind.type is dict:
        items = zip(data, parts, strict=True)
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in items) + "}"
    joined = f"[{', '.join(parts)}]"
    if kind.type is list:
        return joined
    if kind.type is SimpleNamespace:
        items = zip(data, parts, strict=True)
        return f"namespace({', '.join(f'{key}={part}' for key, part in items)})"
    return f"CustomNode({kind.label or f'{kind.type.__name__}[{data}]'}, {joined})"


def argument(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of these leaves for a traced function: objects tell who asks what they lack."""
    tree = treedef.unflatten(leaves)
    left = [(treedef, tree)] if treedef.order is not None else []
    while left:
        node, x = left.pop()
        assert node.kind is not None
        if type(node.data) is WithNote and not issubclass(node.kind.type, BY_NAME):
            leave_behind(x, node.data.note)
        if any(sub.order is not None for sub in node.subs):
            children, _ = node.kind.flatten(x)
            pairs = zip(node.subs, children, strict=True)
            left += [(sub, child) for sub, child in pairs if sub.order is not None]
    return tree


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
        if not callable(is_leaf):
            raise DtypeError(
                f"is_leaf must be a function, not a {type(is_leaf).__name__}.",
                "Pass a function of a node that says whether it is a leaf.",
            )
        return leaves, _flatten_until(tree, is_leaf, leaves)
    if type(tree) is tuple and len(tree) < len(_TUPLES):  # what most calls pass
        known = LEAF_TYPES
        for child in tree:
            if type(child) not in known:
                break
        else:
            return [*tree], _TUPLES[len(tree)]
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> PyTreeDef:  # noqa: PLR0912 - in every call
    known = LEAF_TYPES
    node = tree
    open_: list[tuple[NodeKind, Any, Iterator[Any], list[PyTreeDef]]] = []
    while True:
        cls = type(node)
        kind = KINDS.get(cls) or kind_of(cls)
        if kind is None:
            leaves.append(node)
            made = LEAF
        else:
            children, data = kind.flatten(node)
            for child in children:
                if type(child) not in known:
                    open_.append((kind, data, iter(children), []))
                    made = None
                    break
            else:
                leaves.extend(children)
                made = _flat_node(kind, data, len(children))
        while open_:
            kind, data, rest, subs = open_[-1]
            if made is not None:
                subs.append(made)
            for child in rest:
                if type(child) not in known:
                    node = child
                    break
                leaves.append(child)
                subs.append(LEAF)
            else:
                open_.pop()
                made = make_node(kind, data, tuple(subs))
                continue
            break
        else:
            assert made is not None
            return made


@unrolled
def _flatten_until(
    tree: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]
) -> Generator[Any, Any, PyTreeDef]:
    kind = None if is_leaf(tree) else kind_of(type(tree))
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, data = kind.flatten(tree)
    subs: list[PyTreeDef] = []
    for child in children:
        subs.append((yield _flatten_until.deep(child, is_leaf, leaves)))  # noqa: PERF401
    return make_node(kind, data, tuple(subs))


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Put a tree together: the inverse of `tree_flatten`.

    Raises:
        TreeError: if the number of leaves is not that of the structure.

    Example:
        >>> tree_unflatten(tree_structure({"a": 0, "b": [0]}), ["x", "y"])
        {'a': 'x', 'b': ['y']}
    """
    check_tree(treedef, "tree_unflatten")
    return treedef.unflatten(leaves)


def check_tree(treedef: Any, what: str) -> None:
    """Raise `DtypeError` unless this is a structure."""
    if type(treedef) is not PyTreeDef:
        raise DtypeError(
            f"{what} takes a PyTreeDef, and was given a {type(treedef).__name__}.",
            "Make one with tree_structure(tree).",
        )


def check_function(fun: Any, what: str) -> None:
    """Raise `DtypeError` unless this is a function."""
    if not callable(fun):
        raise DtypeError(
            f"{what} takes a function first, and was given a {type(fun).__name__}.",
            "Pass the function itself, not the result of calling it.",
        )


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
    check_function(f, "tree_map")
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
    found: list[str] = []
    left = [(treedef, name)]
    while left:
        node, path = left.pop()
        if node.kind is None:
            found.append(path)
            continue
        keys = node.kind.keys(node.data, len(node.subs))
        left += [(sub, f"{path}{key}") for key, sub in zip(keys, node.subs, strict=True)][::-1]
    return found


def tree_words(treedef: PyTreeDef) -> str:
    """The outermost node of a structure in words: `a tuple of 2`, `a single value`, `None`."""
    if treedef.kind is None:
        return "a single value"
    return describe(treedef.kind, treedef.data, len(treedef.subs))


# --- prefixes and differences -----------------------------------------------------------------


def _split(treedef: PyTreeDef, tree: Any, path: str, parts: list[Any]) -> None:
    """Append the subtrees of `tree` at the leaves of `treedef`; raise where they part ways."""
    left = [(treedef, tree, path)]
    while left:
        treedef, tree, path = left.pop()
        if treedef.kind is None:
            parts.append(tree)
            continue
        expected = treedef.kind, treedef.data, len(treedef.subs)
        kind = kind_of(type(tree))
        if kind is None:
            raise mismatch_error(path, difference(expected, (None, None, 0), tree))
        children, data = kind.flatten(tree)
        size = len(children)
        if kind is not expected[0] or size != expected[2] or not same_data(expected[1], data):
            raise mismatch_error(path, difference(expected, (kind, data, size)))
        steps = zip(kind.keys(data, size), treedef.subs, children, strict=True)
        left += [(sub, child, f"{path}{key}") for key, sub, child in steps][::-1]


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
    texts = [brief(_text(tree), 200) for tree in (first, second)]
    return words and f"{words}; the trees are {' and '.join(texts)}"


def _first_difference(expected: PyTreeDef, actual: PyTreeDef, path: str) -> str:
    left = [(expected, actual, path)] if expected != actual else []
    while left:
        expected, actual, path = left.pop()
        kind, size, data = expected.kind, len(expected.subs), expected.data
        other = actual.kind, actual.data, len(actual.subs)
        if (
            kind is None
            or kind is not other[0]
            or size != other[2]
            or not same_data(data, actual.data)
        ):
            words = difference((kind, data, size), other)
            return f"at {path or 'the root'}: {words}"
        steps = zip(kind.keys(data, size), expected.subs, actual.subs, strict=True)
        left += [(a, b, f"{path}{key}") for key, a, b in steps if a != b][::-1]
    return ""


def broadcast_prefix(prefix: Any, full: Any, is_leaf: IsLeaf = None, name: str = "") -> list[Any]:
    """One leaf of `prefix` for every leaf of `full`: a leaf above a subtree is repeated."""
    leaves, treedef = tree_flatten(prefix, is_leaf)
    parts = treedef.flatten_up_to(full, name)
    counts = [tree_structure(part).num_leaves for part in parts]
    pairs = zip(leaves, counts, strict=True)
    return [leaf for leaf, count in pairs for _ in range(count)]

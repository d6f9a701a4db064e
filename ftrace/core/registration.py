"""Registration of pytree classes, with JAX's names, and `Partial`.

Only classes that the library cannot read by itself need it: dataclasses, attrs classes and
namedtuples do not. What a registration says becomes a `NodeKind` (`core/nodes.py`); a class is
registered once and for all threads. Public as `ftrace.tree_util`.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

from ftrace.core.errors import DtypeError, TreeError
from ftrace.core.nodes import (
    GetAttrKey,
    NodeKind,
    check_class,
    check_functions,
    dataclass_fields,
    fields_kind,
    index_keys,
    register,
)
from ftrace.core.tree import check_function

C = TypeVar("C", bound=type)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a container that transformations look into.

    Args:
        nodetype: the class; subclasses are not registered with it.
        flatten_func: takes an object to (children, static data); the data must be hashable.
        unflatten_func: takes (static data, children) to an object. It must accept any children:
            tracers, None and other objects take the place of arrays.
        flatten_with_keys_func: takes an object to ((key, child) pairs, static data).

    Raises:
        TreeError: if the class is registered already.

    Example:
        >>> from ftrace.tree_util import tree_map
        >>> class Interval:
        ...     def __init__(self, low, high):
        ...         self.low, self.high = low, high
        >>> register_pytree_node(
        ...     Interval, lambda i: ((i.low, i.high), None), lambda _, ends: Interval(*ends)
        ... )
        >>> tree_map(lambda x: 2 * x, Interval(1, 2)).high
        4
    """
    check_class(nodetype)
    check_functions(nodetype, flatten_func=flatten_func, unflatten_func=unflatten_func)
    if flatten_with_keys_func is not None:
        check_functions(nodetype, flatten_with_keys_func=flatten_with_keys_func)

    def flatten(x: Any) -> tuple[Sequence[Any], Any]:
        children, data = _pair(nodetype, flatten_func(x))
        return tuple(children), data

    def unflatten(data: Any, children: Sequence[Any]) -> Any:
        return unflatten_func(data, tuple(children))

    def keyed(x: Any) -> tuple[Sequence[Any], Sequence[Any], Any]:
        assert flatten_with_keys_func is not None
        pairs, data = _pair(nodetype, flatten_with_keys_func(x))
        split = [tuple(pair) for pair in pairs]
        return [key for key, _ in split], [child for _, child in split], data

    optional = None if flatten_with_keys_func is None else keyed
    register(NodeKind(nodetype, flatten, unflatten, index_keys, optional), nodetype)


def _pair(nodetype: type, result: Any) -> tuple[Iterable[Any], Any]:
    if type(result) is tuple and len(result) == 2 and isinstance(result[0], Iterable):
        return result
    raise TreeError(
        f"The flatten function of {nodetype.__name__} returned {result!r}.",
        "It must return a pair (children, static data) where children is a sequence.",
    )


def register_record(cls: Any) -> Any:
    """A decorator: a namedtuple of ftrace's that is a result is a container, as a user's is."""
    register_pytree_node(cls, lambda r: (tuple(r), None), lambda _, parts: cls(*parts))
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Like `register_pytree_node`, for a class whose flatten function also names the children.

    Args:
        nodetype: the class.
        flatten_with_keys: takes an object to ((key, child) pairs, static data).
        unflatten_func: takes (static data, children) to an object.
        flatten_func: a faster way to (children, static data), optional.

    Raises:
        TreeError: if the class is registered already.

    Example:
        >>> from ftrace.tree_util import keystr, tree_leaves_with_path
        >>> class Point:
        ...     def __init__(self, x):
        ...         self.x = x
        >>> register_pytree_with_keys(
        ...     Point, lambda p: (((GetAttrKey("x"), p.x),), None), lambda _, xs: Point(*xs)
        ... )
        >>> keystr(tree_leaves_with_path(Point(1.0))[0][0])
        '.x'
    """
    check_class(nodetype)
    check_functions(nodetype, flatten_with_keys=flatten_with_keys)

    def without_keys(x: Any) -> tuple[Iterable[Any], Any]:
        pairs, data = _pair(nodetype, flatten_with_keys(x))
        return [child for _, child in pairs], data

    flatten = without_keys if flatten_func is None else flatten_func
    register_pytree_node(nodetype, flatten, unflatten_func, flatten_with_keys)


def _methods(cls: Any, *names: str) -> Any:
    """A class that has these methods.

    Raises:
        DtypeError: it has not, or is no class.
    """
    check_class(cls)
    check_functions(cls, **{name: getattr(cls, name, None) for name in names})
    return cls


def register_pytree_node_class(cls: C) -> C:
    """Register a class that has the methods `tree_flatten` and `tree_unflatten`.

    `tree_flatten(self)` returns (children, static data); the classmethod
    `tree_unflatten(cls, data, children)` returns an object.

    Raises:
        TreeError: if the class is registered already.

    Example:
        >>> from ftrace.tree_util import tree_leaves
        >>> @register_pytree_node_class
        ... class Box:
        ...     def __init__(self, content):
        ...         self.content = content
        ...     def tree_flatten(self):
        ...         return (self.content,), None
        ...     @classmethod
        ...     def tree_unflatten(cls, data, children):
        ...         return cls(*children)
        >>> tree_leaves(Box((1, 2)))
        [1, 2]
    """
    methods = _methods(cls, "tree_flatten", "tree_unflatten")
    register_pytree_node(cls, lambda x: x.tree_flatten(), methods.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: C) -> C:
    """Register a class by its methods `tree_flatten_with_keys` and `tree_unflatten`.

    A method `tree_flatten` is used where no keys are needed, if the class has one.

    Raises:
        TreeError: if the class is registered already.

    Example:
        >>> from ftrace.tree_util import keystr, tree_leaves_with_path
        >>> @register_pytree_with_keys_class
        ... class Cell:
        ...     def __init__(self, content):
        ...         self.content = content
        ...     def tree_flatten_with_keys(self):
        ...         return ((GetAttrKey("content"), self.content),), None
        ...     @classmethod
        ...     def tree_unflatten(cls, data, children):
        ...         return cls(*children)
        >>> keystr(tree_leaves_with_path(Cell(1.0))[0][0])
        '.content'
    """
    methods = _methods(cls, "tree_flatten_with_keys", "tree_unflatten")
    flatten: Any = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls, lambda x: x.tree_flatten_with_keys(), methods.tree_unflatten, flatten
    )
    return cls


def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C:
    """State which attributes of a class are children and which are static.

    Dataclasses are containers without it; use this for other classes whose state is in attributes,
    or to choose the fields apart from the declaration. Differs from JAX: objects are made without
    calling the constructor.

    Args:
        nodetype: the class.
        data_fields: names of the children; None reads them from the dataclass.
        meta_fields: names of the static attributes, hashable; None reads them likewise.
        drop_fields: fields of the dataclass to leave out of the tree and of objects made from it.

    Returns:
        The class, so that it can be used as a decorator.

    Raises:
        TreeError: if the class is registered already, or a field is missing or named twice.

    Example:
        >>> from ftrace.tree_util import tree_structure
        >>> class Layer:
        ...     def __init__(self, w, activation):
        ...         self.w, self.activation = w, activation
        >>> Layer = register_dataclass(Layer, ["w"], ["activation"])
        >>> tree_structure(Layer(1.0, "tanh"))
        PyTreeDef(CustomNode(Layer[('tanh',)], [*]))
    """
    check_class(nodetype)
    found = dataclass_fields(nodetype)
    if data_fields is None or meta_fields is None:
        if found is None or (data_fields is None) != (meta_fields is None):
            raise TreeError(
                f"The fields of {nodetype.__name__} are not known.",
                "Pass both data_fields and meta_fields, or make the class a dataclass.",
            )
        data_fields, meta_fields = found
    for names in (data_fields, meta_fields, drop_fields):
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise DtypeError(
                f"The fields of {nodetype.__name__} are named by sequences of strings, not by "
                f"{names!r}.",
                "Give names of attributes.",
            )
    dropped = set(drop_fields)
    data = [name for name in data_fields if name not in dropped]
    static = [name for name in meta_fields if name not in dropped]
    named = {*data, *static, *dropped}
    declared = named if found is None else {*found[0], *found[1]}
    if len(data) + len(static) + len(dropped) != len(named) or named != declared:
        raise TreeError(
            f"data_fields {data}, meta_fields {static} and drop_fields {sorted(dropped)} do not "
            f"name each field of {nodetype.__name__} once: it has {sorted(declared)}.",
            "Put every field into exactly one of the three.",
        )
    register(fields_kind(nodetype, data, static), nodetype)
    return nodetype


def register_static(cls: C) -> C:
    """Make objects of a class containers without children: all of it belongs to the structure.

    The class must have `__hash__` and `__eq__`; `jit` traces again for an unequal object.

    Raises:
        TreeError: if the class is registered already.

    Example:
        >>> from ftrace.tree_util import tree_leaves
        >>> @register_static
        ... class Mode(str):
        ...     pass
        >>> tree_leaves({"mode": Mode("train"), "x": 1.0})
        [1.0]
    """
    register(NodeKind(cls, lambda x: ((), x), lambda data, _: data, index_keys), cls)
    return cls


def register_leaf(cls: C) -> C:
    """Make objects of a dataclass (or namedtuple) leaves: trees do not look into them.

    Raises:
        TreeError: if the class is registered already.

    Example:
        >>> import dataclasses
        >>> from ftrace.tree_util import tree_leaves
        >>> @register_leaf
        ... @dataclasses.dataclass
        ... class Config:
        ...     rate: float
        >>> tree_leaves((Config(0.1), 2.0))
        [Config(rate=0.1), 2.0]
    """
    register(None, cls)
    return cls


class Partial(functools.partial[Any]):
    """`functools.partial` as a container: the function is static, the bound arguments children.

    Example:
        >>> import operator
        >>> from ftrace.tree_util import tree_map
        >>> add_two = Partial(operator.add, 2)
        >>> tree_map(lambda x: 10 * x, add_two)(1)
        21
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **keywords: Any) -> Self:
        """Bind arguments; a `partial` given as `func` stays one opaque, static function."""
        if isinstance(func, functools.partial):
            func = func.__call__  # functools would merge the arguments of the inner partial
        check_function(func, "Partial")
        return super().__new__(cls, func, *args, **keywords)


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)

"""Containers among the arguments of a traced function: what is changed in them is not lost.

A traced function gets lists, dicts and objects of its own, put together from leaves. Whatever it
binds anew in them (`p.w = p.w * 2`, `d["n"] += 1`, `xs.append(x)`) would stay unknown to the
caller, whose containers plain Python would have changed. So they are compared with what they held
before the run, and a change is refused, unless the changed container is returned: that gives the
new state to the caller. Arrays in them are no affair of this file: they are frozen.
"""

import dis
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from ftrace.core.errors import MutationError
from ftrace.core.nodes import Constant, dataclass_fields, kind_of
from ftrace.core.sameness import SCALARS, is_same
from ftrace.core.trace import Tracer
from ftrace.core.tree import PyTreeDef, tree_flatten

_NOTHING: Final = object()
_IMMUTABLE: Final = (tuple, type(None), Constant)
_WITH_ITEMS: Final = (dict, list, deque)
_GROWING: Final = (*_WITH_ITEMS, types.SimpleNamespace)
"""What is changed by a new item or name; objects of classes keep results of their methods so."""


class _Container(NamedTuple):
    """A container, what it held, and where it is: its place among the parts of another one."""

    node: Any
    before: dict[Any, Any]
    tree: PyTreeDef
    parent: "_Container | None"
    position: int


class Containers:
    """The containers of one run's arguments, as they are before it.

    Args:
        tree: the structure of `(args, kwargs)`.
        args: what the function gets by position.
        kwargs: what it gets by name.
    """

    __slots__ = ("_found",)

    def __init__(self, tree: PyTreeDef, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        by_position, by_name = tree.subs
        trees = (*by_position.subs, *by_name.subs)
        values = (*args, *(kwargs[name] for name in by_name.data or ()))
        self._found = list(_containers(trees, values))

    def check(self, fun: Any, out: Any, names: Callable[[], Sequence[str]]) -> None:
        """Compare them after the run.

        Args:
            fun: the user's function.
            out: what it returned.
            names: gives what the user calls the arguments.

        Raises:
            MutationError: one was changed that is not returned.
        """
        changes = [(c, key) for c in self._found if (key := _changed(c)) is not _NOTHING]
        if not changes:
            return
        returned = set(map(id, _nodes(out)))
        for container, key in changes:
            if id(container.node) not in returned:
                raise _refusal(fun, container, key, names())


def _containers(trees: Sequence[PyTreeDef], values: Sequence[Any]) -> Iterator[_Container]:
    left: list[tuple[PyTreeDef, Any, _Container | None, int]]
    left = [(t, x, None, i) for i, (t, x) in enumerate(zip(trees, values, strict=True))]
    while left:
        node, x, parent, position = left.pop()
        kind = node.kind
        if kind is None or kind.type is Constant:
            continue
        found = _Container(x, _held(x), node, parent, position)
        if not issubclass(kind.type, _IMMUTABLE):
            yield found
        parts = x if issubclass(kind.type, tuple | list) else kind.flatten(x)[0]
        pairs = enumerate(zip(node.subs, parts, strict=True))
        left += [(sub, part, found, i) for i, (sub, part) in pairs if sub.kind is not None]


def _held(x: Any) -> dict[Any, Any]:
    """What a container holds, by what it is found by."""
    if isinstance(x, dict):
        return dict(x)
    if isinstance(x, list | deque):
        return dict(enumerate(x))
    if isinstance(x, tuple) or x is None:
        return {}
    fields = [name for names in dataclass_fields(type(x)) or () for name in names]
    held = {name: getattr(x, name, _NOTHING) for name in fields}
    more = vars(x) if hasattr(x, "__dict__") else {}
    return {**held, **{k: v for k, v in more.items() if v is not None and k not in held}}


def _changed(container: _Container) -> Any:
    """Under what a container holds something else now, or `_NOTHING`."""
    before, now = container.before, _held(container.node)
    for key, value in before.items():
        if key not in now or not _is_kept(value, now[key]):
            return key
    if not isinstance(container.node, _GROWING):
        return _NOTHING
    new = (key for key in now if key not in before and not _is_default(container.node, now[key]))
    return next(new, _NOTHING)


def _is_default(node: Any, value: Any) -> bool:
    """Whether reading has put a value into a container."""
    make = getattr(node, "default_factory", None)
    return make is not None and _is_kept(make(), value)


def _is_kept(before: Any, now: Any) -> bool:
    """Whether a value is the one that it was, whatever holds it."""
    if before is now:
        return True
    if isinstance(before, Tracer):
        same = type(now) is type(before)
        return same and all(getattr(now, s) is getattr(before, s) for s in before.slots)
    if type(before) in SCALARS:
        return is_same(before, now)
    if kind_of(type(before)) is None or type(now) is not type(before):
        return False
    (xs, tree), (ys, other) = tree_flatten(before), tree_flatten(now)
    return tree == other and all(map(_is_kept, xs, ys))


def _nodes(x: Any) -> Iterator[Any]:
    """All containers of a tree."""
    left = [x]
    while left:
        node = left.pop()
        kind = kind_of(type(node))
        if kind is not None:
            yield node
            left += kind.flatten(node)[0]


# ---------------------------------------------------------------------------------- words


def _refusal(fun: Any, container: _Container, key: Any, names: Sequence[str]) -> MutationError:
    where, attribute = _path(container, names), not isinstance(container.node, _WITH_ITEMS)
    what = f"{where}.{key}" if attribute else f"{where}[{key!r}]"
    whole = where.partition(".")[0].partition("[")[0]
    return MutationError(
        f"`{what}` is changed by {getattr(fun, '__name__', type(fun).__name__)}, which gets "
        f"containers of its own for its arguments: the caller's `{whole}` would not change.",
        "Return the new value, or the changed container, and let the caller go on with it; what "
        f"nobody needs afterwards write to a copy (`{where} = copy.copy({where})`).",
        place=_place(fun, key if attribute else None),
    )


def _path(container: _Container, names: Sequence[str]) -> str:
    steps: list[str] = []
    node = container
    while (parent := node.parent) is not None:
        assert parent.tree.kind is not None
        keys = parent.tree.kind.keys(parent.tree.data, len(parent.tree.subs))
        steps.append(str(keys[node.position]))
        node = parent
    return names[node.position] + "".join(reversed(steps))


def _place(fun: Any, attribute: str | None) -> tuple[types.CodeType, int] | None:
    """Where a function binds an attribute, or an item."""
    code = getattr(fun, "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    for i in dis.get_instructions(code):
        attributes = i.opname == "STORE_ATTR" and i.argval == attribute
        if attributes or (attribute is None and i.opname == "STORE_SUBSCR"):
            return code, i.offset
    return None

"""Containers of every kind, for the tests of pytrees."""

import collections
import dataclasses
from typing import Any, NamedTuple

from ftrace import tree, tree_util
from ftrace.tree_util import GetAttrKey


class Pair(NamedTuple):
    first: Any
    second: Any


class SubPair(Pair):
    __slots__ = ()


@dataclasses.dataclass
class Params:
    w: Any
    b: Any
    activation: Any = dataclasses.field(default="tanh", metadata={"static": True})


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: Any
    doubled: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.x)


@dataclasses.dataclass
class Fussy:
    x: Any

    def __post_init__(self) -> None:
        if not isinstance(self.x, int):
            raise TypeError("x must be an int")


@dataclasses.dataclass
class Empty:
    pass


@dataclasses.dataclass
class OnlyStatic:
    name: str = tree.static(default="a", metadata={"unit": "m"})


@tree_util.register_pytree_node_class
class Special:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def tree_flatten(self) -> Any:
        return (self.x, self.y), None

    @classmethod
    def tree_unflatten(cls, data: Any, children: Any) -> Any:
        assert type(children) is tuple
        return cls(*children)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (self.x, self.y) == (other.x, other.y)

    __hash__ = None


@tree_util.register_pytree_with_keys_class
class Keyed(Special):
    def tree_flatten_with_keys(self) -> Any:
        return ((GetAttrKey("x"), self.x), (GetAttrKey("y"), self.y)), None


@tree_util.register_static
class StaticTuple(tuple):
    __slots__ = ()


TREES = [
    1.5,
    None,
    (),
    [],
    {},
    (None,),
    (1,),
    [1, 2],
    (1, [2, (3, None)], {"a": 4}),
    tuple(range(40)),
    {"b": 1, "a": [2, 3]},
    {2: "x", 1: "y"},
    collections.OrderedDict([("z", 1), ("a", (2,))]),
    collections.defaultdict(list, {"b": 1, "a": 2}),
    Pair(1, SubPair(2, [3])),
    Params(1, {"k": 2}),
    Frozen(3),
    Empty(),
    OnlyStatic(),
    Special(1, (2, 3)),
    Keyed([1], 2),
    StaticTuple((1, 2)),
    [Params(Pair(1, 2), Frozen(3)), Special(Keyed(4, 5), None)],
]


def describe(tree: Any) -> str:
    return type(tree).__name__ + repr(tree)[:24]

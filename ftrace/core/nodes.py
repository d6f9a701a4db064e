"""Kinds of pytree nodes: which classes are containers, and how each is taken apart.

Nodes are dict, OrderedDict, defaultdict, list, tuple, deque, namedtuples, SimpleNamespace, None (no
children), dataclasses and attrs classes (found by themselves; fields marked static are data) and
registered classes; everything else is a leaf. Class hierarchy is ignored: a subclass of list is a
leaf.

The idea: a class is looked at once; two tables then answer by one lookup of `type(x)`. Next:
`core/tree.py`, which walks trees with these kinds.
"""

import dataclasses
import enum
import functools
import math
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from ftrace.core.beside import LACKS, names_beside, no_field
from ftrace.core.errors import DtypeError, TracerAttributeError, TreeError
from ftrace.core.lazy import lazy
from ftrace.core.records import record


@record
class SequenceKey:
    """The step `[idx]` of a path: an item of a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


@record
class DictKey:
    """The step `['key']` of a path: a value of a dict."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@record
class GetAttrKey:
    """The step `.name` of a path: a field of a dataclass or namedtuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@record
class FlattenedIndexKey:
    """The step of a path into a class that was registered without keys: the child's number."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


@record(eq=False)
class NodeKind:
    """How one class is taken apart and put together; compared by identity.

    `flatten(x)` gives (children, data), `unflatten(data, children)` the object, `keys(data, n)`
    one key for each child. `keyed(x)`, where a class has it, gives (keys, children, data). `label`
    replaces the class name in the printed structure.
    """

    type: type
    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    keys: Callable[[Any, int], Sequence[Any]]
    keyed: Callable[[Any], tuple[Sequence[Any], Sequence[Any], Any]] | None = None
    label: str = ""


def flatten_keyed(kind: NodeKind, x: Any) -> tuple[Sequence[Any], Sequence[Any], Any]:
    """(keys, children, data) of one node."""
    if kind.keyed is not None:
        return kind.keyed(x)
    children, data = kind.flatten(x)
    return kind.keys(data, len(children)), children, data


def index_keys(_: Any, n: int) -> Sequence[Any]:
    """Numbers, for classes that were registered without keys."""
    return [FlattenedIndexKey(i) for i in range(n)]


def _sequence_keys(_: Any, n: int) -> Sequence[Any]:
    return [SequenceKey(i) for i in range(n)]


def _dict_keys(data: Any, _: int) -> Sequence[Any]:
    return [DictKey(key) for key in data]


BY_NAME = (dict, types.SimpleNamespace)
"""Containers of whatever names somebody gives them: notes on them are about an order."""


class WithNote(tuple[Any, ...]):
    """Data that is equal to any tuple of the same items; `note` is what it says besides.

    Of BY_NAME whose keys were not sorted their own order, as places of the sorted keys; of an
    object the names of what it holds beside its fields (`beside.py`).
    """

    note: tuple[Any, ...]


def _with_note(items: Iterable[Any], note: tuple[Any, ...]) -> WithNote:
    made = WithNote(items)
    made.note = note
    return made


def _flatten_dict(x: dict[Any, Any]) -> tuple[Sequence[Any], Any]:
    try:
        keys = tuple(sorted(x))
    except TypeError:
        raise TreeError(
            f"The keys of a dict in a pytree must be sortable, got {list(x)!r}.",
            "Use keys of one type, or an OrderedDict, which keeps the order of insertion.",
        ) from None
    if keys != tuple(x):
        place = {key: i for i, key in enumerate(keys)}
        keys = _with_note(keys, tuple(map(place.__getitem__, x)))
    return tuple(map(x.__getitem__, keys)), keys


def _items(keys: tuple[Any, ...], xs: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    """Keys and values in the order of the dict that was taken apart."""
    if type(keys) is WithNote:
        return [(keys[i], xs[i]) for i in keys.note]
    return zip(keys, xs, strict=True)


def _flatten_defaultdict(x: Any) -> tuple[Sequence[Any], Any]:
    children, keys = _flatten_dict(x)
    return children, (x.default_factory, keys)


def _flatten_namespace(x: types.SimpleNamespace) -> tuple[Sequence[Any], Any]:
    return _flatten_dict(vars(x))


def _name_keys(data: Any, _: int) -> Sequence[Any]:
    return [GetAttrKey(name) for name in data]


class Constant:
    """In structures alone: the place of a leaf that is part of the structure."""


_BUILTIN = (
    NodeKind(Constant, lambda x: ((), x), lambda x, _: x, _sequence_keys, label="constant"),
    NodeKind(tuple, lambda x: (x, None), lambda _, xs: tuple(xs), _sequence_keys),
    NodeKind(list, lambda x: (x, None), lambda _, xs: list(xs), _sequence_keys),
    NodeKind(type(None), lambda _: ((), None), lambda _, xs: None, _sequence_keys),
    NodeKind(dict, _flatten_dict, lambda keys, xs: dict(_items(keys, xs)), _dict_keys),
    NodeKind(
        OrderedDict,
        lambda x: (tuple(x.values()), tuple(x)),
        lambda keys, xs: OrderedDict(zip(keys, xs, strict=True)),
        _dict_keys,
    ),
    NodeKind(
        defaultdict,
        _flatten_defaultdict,
        lambda data, xs: defaultdict(data[0], _items(data[1], xs)),
        lambda data, n: _dict_keys(data[1], n),
    ),
    NodeKind(
        deque, lambda x: (tuple(x), x.maxlen), lambda most, xs: deque(xs, most), _sequence_keys
    ),
    NodeKind(
        types.SimpleNamespace,
        _flatten_namespace,
        lambda names, xs: types.SimpleNamespace(**dict(_items(names, xs))),
        _name_keys,
    ),
)


def fields_kind(cls: type, names: Sequence[str], static: Sequence[str]) -> NodeKind:
    """The kind of a class whose state is in attributes: `names` are children, `static` is data.

    Objects are made without calling `__init__`: under a transformation the fields hold tracers,
    or nothing at all, and a constructor that validates or computes would refuse them.
    """
    get_children, get_static = _getter(cls, names), _getter(cls, static)
    keys = tuple(GetAttrKey(name) for name in names)
    everything, new, assign = (*names, *static), object.__new__, object.__setattr__
    count, declared = len(everything), dataclass_fields(cls) or ([], [])
    expected = {*everything, *declared[0], *declared[1]}  # somebody may have dropped fields

    def unflatten(data: Any, children: Sequence[Any]) -> Any:
        made = new(cls)
        for name, value in zip(everything, (*children, *data)):  # noqa: B905 (speed; equal lengths)
            assign(made, name, value)
        return made

    def flatten(x: Any) -> tuple[Sequence[Any], Any]:
        held: Any = getattr(x, "__dict__", ())
        beside = names_beside(x, held.keys() - expected) if len(held) > count else ()
        data = get_static(x)
        return get_children(x), _with_note(data, beside) if beside else data

    return NodeKind(cls, flatten, unflatten, lambda data, n: keys)


def lost(error: AttributeError) -> TracerAttributeError | None:
    """The error for an attribute that an object lacks because only fields are put together."""
    cls, name = type(error.obj), error.name
    kind = KINDS.get(cls)
    if kind is None or name is None or error.args != (LACKS.format(cls.__name__, name),):
        return None
    if dataclass_fields(cls) is None and not hasattr(cls, "_fields"):
        return None
    return no_field(cls, name)


def _getter(cls: type, names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda x: ()
    read: Callable[[Any], Any] = attrgetter(*names)
    single = len(names) == 1

    def get(x: Any) -> tuple[Any, ...]:
        try:
            return (read(x),) if single else read(x)
        except AttributeError as error:
            raise TreeError(
                f"A {cls.__name__} cannot be taken apart: {error}.",
                f"Set the fields {', '.join(names)} before the object is used as an argument.",
            ) from None

    return get


def dataclass_fields(cls: type) -> tuple[list[str], list[str]] | None:
    """Names of the children and of the static fields of a dataclass or attrs class."""
    if dataclasses.is_dataclass(cls):
        fields: Any = dataclasses.fields(cls)
    else:
        fields = getattr(cls, "__attrs_attrs__", None)
        if fields is None:
            return None
    split: tuple[list[str], list[str]] = ([], [])
    for field in fields:
        split[bool(field.metadata.get("static", False))].append(field.name)
    return split


KINDS: dict[type, NodeKind] = {kind.type: kind for kind in _BUILTIN}
LEAF_TYPES: set[type] = {int, float, complex, bool, str}
_REGISTERED: set[type] = {kind.type for kind in _BUILTIN}


_VALUES = (
    *(object, type, bytes, np.ndarray, types.FunctionType, types.BuiltinFunctionType),
    *(types.MethodType, functools.partial),
    *LEAF_TYPES,
)


def check_class(cls: Any) -> None:
    """Raise unless this is a class that may be registered.

    Raises:
        DtypeError: it is no class.
        TreeError: its objects are single values, which every tree has as leaves, or it is
            registered already.
    """
    if not isinstance(cls, type):
        raise DtypeError(
            f"Only classes can be registered as pytree nodes, and this is {cls!r}, an object of "
            f"{type(cls).__name__}.",
            "Pass the class itself.",
        )
    if cls in _VALUES or issubclass(cls, np.generic):
        raise TreeError(
            f"{cls.__name__} cannot be registered as a pytree node: its objects are leaves of "
            "every tree.",
            "Register a class of your own that holds such values.",
        )
    if cls in _REGISTERED:
        raise TreeError(
            f"{cls.__name__} is already registered as a pytree node.",
            "Register a class once, where it is defined.",
        )


def check_functions(cls: type, **functions: Any) -> None:
    """Raise unless what a registration was given are functions.

    Raises:
        DtypeError: as above.
    """
    for name, fun in functions.items():
        if not callable(fun):
            raise DtypeError(
                f"{name} of {cls.__name__} must be a function, not {fun!r}.",
                "Pass the function itself, not the result of calling it.",
            )


def register(kind: NodeKind | None, cls: type) -> None:
    """Make `cls` a node of this kind, or a leaf for good if `kind` is None."""
    check_class(cls)
    _REGISTERED.add(cls)
    KINDS.pop(cls, None)
    LEAF_TYPES.discard(cls)
    if kind is None:
        LEAF_TYPES.add(cls)
    else:
        KINDS[cls] = kind


def kind_of(cls: type) -> NodeKind | None:
    """The kind of a class, or None for a class of leaves; decided once for each class."""
    if cls in LEAF_TYPES:
        return None
    kind = KINDS.get(cls) or _find_kind(cls)
    if kind is None:
        LEAF_TYPES.add(cls)
    else:
        KINDS[cls] = kind
    return kind


def _find_kind(cls: type) -> NodeKind | None:
    if _is_own_record(cls) or issubclass(cls, enum.Enum):
        return None
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _namedtuple_kind(cls) if hasattr(cls, "_make") else _bunch_kind(cls)
    for package, find in _FOREIGN.items():
        if str(cls.__module__).startswith(package):
            return find(cls)
    split = dataclass_fields(cls)
    return None if split is None else fields_kind(cls, *split)


_FOREIGN = {"scipy.sparse.": lazy("ftrace.sparse.traced_data", "kind_of")}
"""Classes that nobody registers: by package, who knows them."""


def _is_own_record(cls: type) -> bool:
    """Whether it is ftrace's (avals, jaxprs): values that travel in trees, not containers."""
    if not str(cls.__module__).startswith("ftrace."):
        return False
    return getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls


def _namedtuple_kind(cls: Any) -> NodeKind:
    keys = tuple(GetAttrKey(name) for name in cls._fields)

    def flatten(x: Any) -> tuple[Sequence[Any], Any]:
        held: Any = getattr(x, "__dict__", ())
        beside = names_beside(x, held.keys()) if held else ()
        return x, _with_note((), beside) if beside else ()

    return NodeKind(
        cls,
        flatten if cls.__dictoffset__ else lambda x: (x, None),
        lambda _, xs: cls._make(xs),
        lambda data, n: keys,
        label=f"namedtuple[{cls.__name__}]",
    )


def _bunch_kind(cls: Any) -> NodeKind:
    """A tuple with names that also has attributes (`scipy.stats`' results): arrays are parts, too.

    Other attributes (a dtype, a module) say how the result is read.
    """

    def flatten(x: Any) -> tuple[Sequence[Any], Any]:
        held = vars(x)
        names = tuple(n for n, v in held.items() if hasattr(type(v), "dtype") or type(v) is float)
        said = tuple((n, v) for n, v in held.items() if n not in names)
        return (*x, *(held[n] for n in names)), (len(x), names, said)

    def unflatten(data: Any, parts: Sequence[Any]) -> Any:
        count, names, said = data
        x = tuple.__new__(cls, parts[:count])
        vars(x).update(zip(names, parts[count:], strict=True), **dict(said))
        return x

    def keys(data: Any, n: int) -> Sequence[Any]:
        return tuple(GetAttrKey(name) for name in (*cls._fields, *data[1]))

    return NodeKind(cls, flatten, unflatten, keys, label=f"namedtuple[{cls.__name__}]")


def same_data(a: Any, b: Any) -> bool:
    """Equality that keeps 1, 1.0 and True apart, and 0.0 and -0.0: functions are cached by it."""
    if a is b:
        return True
    if type(a) is WithNote or type(b) is WithNote:
        a, b = tuple(a), tuple(b)
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all(map(same_data, a, b))
    if issubclass(type(a), float):
        same = a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
        return same or (math.isnan(a) and math.isnan(b))
    try:
        return bool(a == b)
    except ValueError as error:
        raise TreeError(
            f"Static data of class {type(a).__name__} cannot be compared: {error}.",
            "Make arrays ordinary fields, not static ones.",
        ) from None


# --- words for messages -----------------------------------------------------------------------

Node = tuple[NodeKind | None, Any, int]  # kind (None for a leaf), data, number of children


def difference(expected: Node, actual: Node, leaf: Any = None) -> str:
    """What differs between two nodes: `expected a tuple of 2, got a list of 3`."""
    kind, data, size = expected
    other, other_data, other_size = actual
    if kind is not None and kind is other and kind.keys is not index_keys:
        keys, got = _key_words(kind, data, size), _key_words(kind, other_data, other_size)
        missing = [key for key in keys if key not in got]
        unexpected = [key for key in got if key not in keys]
        if issubclass(kind.type, BY_NAME) and (missing or unexpected):
            parts = [
                f"{word} {', '.join(some)}"
                for word, some in (("missing", missing), ("unexpected", unexpected))
                if some
            ]
            words = f"{_with_article(kind.type.__name__)} with other {_keys_are(kind)}"
            return f"{words}: {'; '.join(parts)}"
    return f"expected {describe(*expected)}, got {describe(*actual, leaf)}"


def describe(kind: NodeKind | None, data: Any, size: int, leaf: Any = None) -> str:
    """A node in words: `a tuple of 2`, `a dict with keys 'a', 'b'`, `a leaf of type float`."""
    if kind is None:
        return "a leaf" if leaf is None else f"a leaf of type {type(leaf).__name__}"
    if kind.type is type(None):
        return "None"
    name = _with_article(kind.type.__name__)
    if kind.type in (tuple, list, deque):
        most = "" if data is None else f" and at most {data}"
        return f"{name} of {size}{most}"
    if kind.type in (dict, OrderedDict, defaultdict, types.SimpleNamespace):
        keys, what = ", ".join(_key_words(kind, data, size)), _keys_are(kind)
        return f"{name} with {what} {keys}" if keys else f"{name} without {what}"
    return name if data is None or data == () else f"{name} with static data {data!r}"


def _keys_are(kind: NodeKind) -> str:
    return "keys" if issubclass(kind.type, dict) else "names"


def _key_words(kind: NodeKind, data: Any, size: int) -> list[str]:
    """The keys of a node without what surrounds them: `'a'` for `['a']`, `a` for `.a`."""
    words = (str(key) for key in kind.keys(data, size))
    return [word.removeprefix(".") if word[0] == "." else word[1:-1] for word in words]


def _with_article(name: str) -> str:
    return f"an {name}" if name[:1] in "aeiouAEIOU" else f"a {name}"

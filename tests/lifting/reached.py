"""Functions that ask for types where no call names the code that asks, or only from afar."""

import contextlib
import dataclasses
import functools
import operator
from typing import Any

from tests.lifting import asked


def kind(x):
    return 2.0 if type(x) is float else 3.0


class Box:
    def __init__(self, x):
        self.x = x

    @property
    def kind(self):
        return kind(self.x)

    @functools.cached_property
    def kept(self):
        return 2.0 if type(self.x) is float else 3.0

    @property
    def written(self):
        return self._written

    @written.setter
    def written(self, value):
        self._written = kind(value)

    def method(self):
        return kind(self.x)

    @staticmethod
    def static(x):
        return kind(x)

    @classmethod
    def of_class(cls, x):
        return kind(x)

    def __getattr__(self, name):
        if name == "made_up":
            return kind(self.x)
        raise AttributeError(name)

    def __mul__(self, other):
        return self.x * kind(other)

    __rmul__ = __mul__

    def __iadd__(self, other):
        return self.x * kind(other)

    def __getitem__(self, i):
        return self.x * kind(self.x)

    def __setitem__(self, i, value):
        self.stored = kind(value)

    def __call__(self, x):
        return x * kind(x)

    def __enter__(self):
        return kind(self.x)

    def __exit__(self, *error):
        pass

    def __len__(self):
        return 2 if type(self.x) is float else 3

    def __bool__(self):
        return type(self.x) is float

    def __neg__(self):
        return self.x * kind(self.x)

    def __abs__(self):
        return kind(self.x)

    def __iter__(self):
        yield kind(self.x)

    def __contains__(self, x):
        return type(x) is float

    def __eq__(self, other):
        return type(other) is float

    def __lt__(self, other):
        return type(other) is float

    def __format__(self, spec):
        return "2" if type(self.x) is float else "33"

    __hash__ = None


class Derived(Box):
    @property
    def kind(self):
        return super().kind

    def method(self):
        return super().method()


class Made:
    def __new__(cls, x):
        self = object.__new__(cls)
        self.kind = kind(x)
        return self


class Guarded:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, kind(value))


class Answering:
    def __init__(self, x):
        self.x = x

    def __getattribute__(self, name):
        if name == "kind":
            return kind(object.__getattribute__(self, "x"))
        return object.__getattribute__(self, name)


class Descriptor:
    def __get__(self, instance, owner=None):
        return kind(instance.x)


class Described:
    kind = Descriptor()

    def __init__(self, x):
        self.x = x


class Far:
    def __init__(self, x):
        self.x = x

    @property
    def far(self):
        return first(self.x)

    def of_items(self, items):
        return 2.0 if type(items[0]) is float else 3.0


@dataclasses.dataclass
class Record:
    x: Any
    kind: Any = None

    def __post_init__(self):
        self.kind = 2.0 if type(self.x) is float else 3.0


@dataclasses.dataclass(slots=True)
class Slotted:
    act: Any

    def method(self, x):
        return self.act(x) * x


class Holder:
    pass


HOLDER = Holder()
HOLDER.act, HOLDER.others = kind, [Holder()]
HOLDER.others[0].inner = kind
TABLE = {"a": kind, "b": [kind, (kind,)]}
PARTIAL = functools.partial(kind)
BOX = Box(1.0)


def named(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)

    return wrapper


def unnamed(f):
    def wrapper(*args):
        return f(*args)

    return wrapper


@named
def decorated(x):
    return 2.0 if type(x) is float else 3.0


@unnamed
def hidden(x):
    return 2.0 if type(x) is float else 3.0


@functools.singledispatch
def dispatched(x):
    return 3.0


@dispatched.register
def _(x: float):
    return kind(x)


def deep(x, n=6):
    return kind(x) if n == 0 else deep(x, n - 1)


def first(x):
    return second(x)


def second(x):
    return third(x)


def third(x):
    return fourth(x)


def fourth(x):
    return fifth(x)


def fifth(x):
    return kind(x)


def yielding(x):
    yield 2.0 if type(x) is float else 3.0


def with_block(x):
    with Box(x) as factor:
        return factor * x


def looped(x):
    for factor in Box(x):
        return factor * x
    return None


def unpacked(x):
    (factor,) = Box(x)
    return factor * x


def in_place(x):
    box = Box(x)
    box += x
    return box


def class_in_a_function(x):
    class Local:
        whole = 2.0 if type(x) is float else 3.0
        flag = type(x) is float

        @property
        def kind(self):
            return kind(x)

    return Local().kind * x * Local.whole * (1.0 if Local.flag else 2.0)


def managed(x):
    @contextlib.contextmanager
    def manager():
        yield kind(x)

    with manager() as factor:
        return factor * x


def imported(x):
    from tests.lifting.asked import kind as other

    return other(x) * x


def stored(x):
    box = Box(x)
    box[0] = x
    return box.stored * x


def property_written(x):
    box = Box(x)
    box.written = x
    return box.written * x


def attribute_written(x):
    guarded = Guarded()
    guarded.kind = x
    return guarded.kind * x


PROGRAMS = {
    f.__name__: f
    for f in (
        *(with_block, looped, unpacked, in_place, class_in_a_function, managed, imported),
        *(stored, property_written, attribute_written),
    )
} | {
    "descriptor": lambda x: Described(x).kind * x,
    "property": lambda x: Box(x).kind * x,
    "cached property": lambda x: Box(x).kept * x,
    "method": lambda x: Box(x).method() * x,
    "static method": lambda x: Box.static(x) * x,
    "class method": lambda x: Box.of_class(x) * x,
    "made up attribute": lambda x: Box(x).made_up * x,
    "product": lambda x: Box(x) * x,
    "reflected product": lambda x: x * Box(x),
    "item": lambda x: Box(x)[0],
    "object that is called": lambda x: Box(x)(x),
    "global object": lambda x: BOX(x),
    "len": lambda x: len(Box(x)) * x,
    "truth": lambda x: 2 * x if Box(x) else 3 * x,
    "neg": lambda x: -Box(x),
    "abs": lambda x: abs(Box(x)) * x,
    "contains": lambda x: 2 * x if x in Box(x) else 3 * x,
    "eq": lambda x: 2 * x if Box(1.0) == x else 3 * x,
    "lt": lambda x: 2 * x if Box(1.0) < x else 3 * x,
    "operator.mul": lambda x: operator.mul(Box(x), x),
    "getattr": lambda x: getattr(Box(x), "kind") * x,  # noqa: B009
    "inherited property": lambda x: Derived(x).kind * x,
    "inherited method": lambda x: Derived(x).method() * x,
    "property that leads there": lambda x: Far(x).far + x,
    "new": lambda x: Made(x).kind * x,
    "post_init": lambda x: Record(x).kind * x,
    "slots": lambda x: Slotted(kind).method(x),
    "table": lambda x: TABLE["a"](x) * x,
    "nested table": lambda x: TABLE["b"][1][0](x) * x,
    "partial": lambda x: PARTIAL(x) * x,
    "decorated": lambda x: decorated(x) * x,
    "decorated without a name": lambda x: hidden(x) * x,
    "singledispatch": lambda x: dispatched(x) * x,
    "recursion": lambda x: deep(x) * x,
    "deep": lambda x: first(x) * x,
    "attribute": lambda x: HOLDER.act(x) * x,
    "attribute of an item": lambda x: HOLDER.others[0].inner(x) * x,
    "generator": lambda x: next(yielding(x)) * x,
    "sum of a generator": lambda x: sum(yielding(x)) * x,
    "map": lambda x: next(map(kind, [x])) * x,
    "reduce": lambda x: functools.reduce(lambda a, b: a * kind(b), (1.0, x)) * x,
    "comprehension": lambda x: sum([kind(v) for v in (x,)]) * x,
    "default": lambda x, act=kind: act(x) * x,
    "max": lambda x: max([Box(x)], key=lambda b: b.kind).kind * x,
    "module": lambda x: asked.kind(x) * x,
    "property elsewhere": lambda x: asked.Box(x).kind * x,
    "object made elsewhere": lambda x: asked.boxed(x).kind * x,
    "product elsewhere": lambda x: asked.boxed(x) * x,
    "table elsewhere": lambda x: asked.TABLE["kind"](x) * x,
}


REFUSED = {
    "format": lambda x: len(f"{Box(x)}") * x,
    "getattribute": lambda x: Answering(x).kind * x,
    "attrgetter": lambda x: operator.attrgetter("kind")(Box(x)) * x,
    "methodcaller": lambda x: operator.methodcaller("method")(Box(x)) * x,
    "given a list": lambda x: operator.methodcaller("of_items", [x])(Far(1.0)) * x,
    "unpacked in a list": lambda x: sum([*Box(x)]) * x,
}

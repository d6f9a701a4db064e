"""Values of the state taken apart: which leaf means something outside, and of what type it is.

A leaf that a region computed can only become a result; one that is an object from outside may
stay that object if the other side agrees (`same`). Types are joined as NumPy 2 promotes.
What a leaf shares its memory with leaves the region, too (`LeafSharing`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ftrace.core.avals import REFUSED, SCALAR_AVALS, ShapedArray, aval, typeof, typeof_traced
from ftrace.core.device import on_device
from ftrace.core.dtypes import bool_, promote
from ftrace.core.errors import ConcretizationTypeError, DtypeError, LiftError, TreeError
from ftrace.core.trace import UNKNOWN, Tracer, ctx, moved, now
from ftrace.core.tree import LEAF, PyTreeDef, tree_flatten, tree_words
from ftrace.interpreters.tangents import zeros
from ftrace.numpy.layouts import layout_of
from ftrace.numpy.promote import weak
from ftrace.numpy.scalar_classes import NOTHING, Classes, asked, classes_of, marked, one_of_classes
from ftrace.numpy.views import Root, Way, alias_of, chosen, content, may_be_cell, ways_of
from ftrace.primitives.compare import bitwise_and, eq, ne
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.shape import reshape


@dataclass(slots=True)
class Leaf:
    """A leaf of a value: the object, if it means something outside; which output it is."""

    value: Any
    index: int | None
    aval: ShapedArray | None
    ways: tuple[Way, ...] = ()  # what the array may be a view of, in the region's trace
    classes: Classes = NOTHING  # that a scalar may be of
    is_python: int | None = None  # which output says whether it is a Python number

    @property
    def dtype(self) -> Any:
        """The dtype of one that can be a result."""
        return None if self.aval is None else self.aval.dtype

    def leave(self, outs: list[Any]) -> None:
        """Append what a region alone knows of its class."""
        if self.value is INSIDE and callable(self.classes.is_python):
            self.is_python = len(outs)
            outs.append(asked(self.classes.is_python))


class _Inside:
    """The value of a leaf that was computed in a region."""

    def __repr__(self) -> str:
        return "a traced value"


INSIDE: Final = _Inside()


@dataclass(slots=True)
class Part:
    """What a name is bound to at the end of a region."""

    leaves: list[Leaf]
    tree: PyTreeDef
    whole: Any
    is_older: bool = False  # than the region: what that changed in it are variables of their own

    @property
    def is_outer(self) -> bool:
        """Whether it is a container that holds nothing that the region made, or is older."""
        if self.tree == LEAF:
            return False
        return self.is_older or all(leaf.value is not INSIDE for leaf in self.leaves)

    def words(self) -> str:
        """What it is, for messages."""
        return words_of(self.leaves[0]) if self.tree == LEAF else tree_words(self.tree)


def scalar_classes(x: Any, a: ShapedArray | None) -> Classes:
    """The classes that a value of this type may be of, if it has rank 0."""
    return NOTHING if a is None or a.shape else classes_of(x)


def array_type(x: Any) -> ShapedArray | None:
    """The type of a value that can be a result, or None."""
    if type(x) in REFUSED:
        return None
    try:
        return typeof_traced(x)
    except (DtypeError, ConcretizationTypeError):
        return None


def flatten(value: Any) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a value; what cannot be taken apart is one leaf."""
    try:
        return tree_flatten(value)
    except TreeError:
        return [value], LEAF


def built_alike(a: PyTreeDef, b: PyTreeDef) -> bool:
    """Whether structures are equal, and their dicts go over their keys in the same order."""
    return a == b and a.order is b.order


def difference(a: PyTreeDef, b: PyTreeDef) -> tuple[str, str]:
    """Two structures that are not built alike, in words."""
    left = [(a, b)] if a == b else []
    while left:
        one, other = left.pop()
        if one.kind is not None and other.kind is not None and issubclass(one.kind.type, dict):
            nothing = [None] * len(one.subs)
            mine = list(one.kind.unflatten(one.data, nothing))
            theirs = list(other.kind.unflatten(other.data, nothing))
            if mine != theirs:
                return f"a dict with the keys {mine}", f"one with the keys {theirs}"
        left += zip(one.subs, other.subs, strict=True)
    return tree_words(a), tree_words(b)


def words_of(leaf: Leaf) -> str:
    """What a leaf is, for messages."""
    if leaf.aval is not None:
        return repr(leaf.aval)
    text = repr(leaf.value)
    return text if len(text) < 60 else f"a {type(leaf.value).__name__}"


def take_apart(value: Any, outs: list[Any], *, every: bool = False) -> Part:
    """The leaves of a value; what the region computed is appended to `outs`.

    Args:
        value: what a name is bound to, in the trace of the region.
        outs: the results of the region so far.
        every: append also arrays and numbers from outside.
    """
    leaves, tree = flatten(value)
    found: list[Leaf] = []
    for x in leaves:
        a = array_type(x)
        if a is None:
            found.append(Leaf(x, None, None))
            continue
        inside = isinstance(x, Tracer) and x.owner is ctx.trace
        leaf = Leaf(
            INSIDE if inside else x,
            None,
            a,
            ways_of(x) if may_be_cell(x) else (),
            scalar_classes(x, a),
        )
        if inside or every or id(x) in moved:
            leaf.index = len(outs)
            outs.append(x)
        found.append(leaf)
    return Part(found, tree, value)


class LeafSharing:
    """How the arrays that leave a region share memory: cells, conditions and indices as outputs.

    A cell that was born in the region and that one leaf alone shows is that leaf's own.

    Args:
        leaves: all that leave the region.
        outs: the results of the region; what is needed is appended.
    """

    __slots__ = ("_counts", "_outs", "index", "kin", "layouts")

    def __init__(self, leaves: Iterable[Leaf], outs: list[Any]) -> None:
        self.index: dict[int, int] = {}  # id of a tracer of the region -> which output it is
        self.kin: list[tuple[int, Any, str]] = []  # (id of a cell, its partner, why)
        self.layouts: dict[int, Any] = {}  # id of a cell -> its layout, if that is known
        self._counts: dict[int, int] = {}
        self._outs = outs
        leaves = list(leaves)
        cells: dict[int, Tracer] = {}
        shown: dict[int, Sequence[Way]] = {}
        for leaf in leaves:
            for key, way in {id(way.base): way for way in leaf.ways}.items():
                if self.is_inside(way.base):
                    cells[key] = way.base
                    shown[key] = leaf.ways
                    self._counts[key] = self._counts.get(key, 0) + 1
        for leaf in leaves:
            for way in leaf.ways:
                self._export(way)
        for key, cell in cells.items():
            alias = alias_of(cell)
            self.layouts[key] = alias.layout if type(alias) is Root else alias
            if self._counts[key] == 1 and cell.aval.shape:
                self.layouts[key] = layout_of(w for w in shown[key] if w.base is cell)
            for other, why in alias.living_partners() if type(alias) is Root else ():
                self.kin.append((key, other, why))

    @staticmethod
    def is_inside(x: Any) -> bool:
        """Whether it was born in the region."""
        return isinstance(x, Tracer) and x.owner is ctx.trace

    def is_own(self, base: Any) -> bool:
        """Whether one leaf alone shows a cell."""
        return self._counts.get(id(base)) == 1

    def _export(self, way: Way) -> None:
        operands = (i for step in way.steps for i in step.operands)
        # of rank 0 the other side may be a number, which is never the same memory
        shared = () if self.is_own(way.base) and way.base.aval.shape else (way.base,)
        for x in (*shared, way.when, *operands):
            if self.is_inside(x) and id(x) not in self.index:
                self.index[id(x)] = len(self._outs)
                self._outs.append(x)


def same(a: Any, b: Any) -> bool:
    """Whether two objects may stand for each other."""
    if a is INSIDE or b is INSIDE or isinstance(a, Tracer) or isinstance(b, Tracer):
        return a is b and a is not INSIDE
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in SCALAR_AVALS:
        return repr(a) == repr(b)  # tells -0.0 from 0.0, and one nan is as good as another
    if array_type(a) is not None:
        return False
    try:
        return bool(a == b)
    except Exception:  # a class may compare as it likes
        return False


def joined(a: ShapedArray, b: ShapedArray) -> ShapedArray | None:
    """The type that two types promote to, as NumPy 2 does; None if their shapes differ."""
    if a == b:
        return a
    if a.shape != b.shape:
        return None
    dtype, weak = promote((a.dtype, a.weak), (b.dtype, b.weak))
    return aval(a.shape, dtype, weak)


def converted(x: Any, wanted: ShapedArray) -> Any:
    """A value in a type that its own promotes to."""
    if typeof(x) == wanted:
        return x
    if not (isinstance(x, Tracer) or on_device(x)) and not wanted.shape:
        number = wanted.dtype.type(x)
        return number.item() if wanted.weak else number
    params = {"weak_type": True} if wanted.weak else {}
    return convert_element_type(x, new_dtype=wanted.dtype, **params)


def one_of(arrays: Sequence[Any], i: Any, y: Any) -> Any:
    """`y`, which is `arrays[i]` for a traced i from 0 on, as it is in Python.

    It shares its memory with that array; a number is one of Python, or of NumPy, as they are.
    """
    a = typeof(y)
    if not (a.shape or any(map(may_be_cell, arrays))):
        y = weak(y) if all(typeof(x).weak for x in arrays) else y
        return marked(y, one_of_classes(list(map(classes_of, arrays)), i))
    ways: list[Way] = []
    for k, x in enumerate(arrays):
        here = None
        if any(isinstance(x, Tracer) for x in arrays):
            here = eq(i, k)
        for way in ways_of(x):
            when = here if way.when is None else bitwise_and(here, way.when)
            ways.append(way.converted(typeof(x).dtype, a.dtype)._replace(when=when))
    y = chosen(y.fresh(), ways, "a traced index")
    if any(id(way.base) in moved for way in ways):
        y.adopt(now(content(y)))
    return marked(y, one_of_classes(list(map(classes_of, arrays)), i))


def filler(a: ShapedArray) -> Any:
    """A value of a type that nobody reads."""
    return a.dtype.type(0).item() if a.weak else zeros(a)


def undecided(x: Any) -> bool:
    """Whether `x` is a traced value that is not known to be true or false."""
    return isinstance(x, Tracer) and now(x).known(exact=False) is UNKNOWN


def truth(x: Any) -> Any:
    """A traced value as a boolean scalar.

    Raises:
        LiftError: an array of several elements.
    """
    a = typeof(x)
    if a.size != 1:
        raise LiftError(
            f"A decision needs one truth value, and {a} has {a.size}.",
            "Combine the elements with any() or all(), or choose elementwise with numpy.where.",
        )
    if a.shape:
        x = reshape(x, new_sizes=())
    if a.dtype == bool_:
        return x
    return ne(x, a.dtype.type(0))


def words_or_nothing(part: Part | None) -> str:
    """What a name is bound to, for messages."""
    return "not bound" if part is None else part.words()

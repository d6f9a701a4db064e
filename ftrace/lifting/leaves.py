"""Values of the state taken apart: which leaf means something outside, and of what type it is.

A leaf that a region computed can only become a result; one that is an object from outside may
stay that object if the other side agrees (`same`). Types are joined as NumPy 2 promotes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ftrace.core.avals import SCALAR_AVALS, ShapedArray, aval, typeof
from ftrace.core.device import on_device
from ftrace.core.dtypes import bool_, promote
from ftrace.core.errors import DtypeError, LiftError, TreeError
from ftrace.core.trace import UNKNOWN, Tracer, ctx
from ftrace.core.tree import LEAF, PyTreeDef, tree_flatten, tree_words
from ftrace.interpreters.tangents import zeros
from ftrace.primitives.compare import ne
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.shape import reshape


@dataclass(slots=True)
class Leaf:
    """A leaf of a value: the object, if it means something outside; which output it is."""

    value: Any
    index: int | None
    aval: ShapedArray | None


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

    def words(self) -> str:
        """What it is, for messages."""
        return words_of(self.leaves[0]) if self.tree == LEAF else tree_words(self.tree)


def array_type(x: Any) -> ShapedArray | None:
    """The type of a value that can be a result, or None."""
    try:
        return typeof(x)
    except DtypeError:
        return None


def flatten(value: Any) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a value; what cannot be taken apart is one leaf."""
    try:
        return tree_flatten(value)
    except TreeError:
        return [value], LEAF


def words_of(leaf: Leaf) -> str:
    """What a leaf is, for messages."""
    if leaf.aval is not None:
        return repr(leaf.aval)
    text = repr(leaf.value)
    return text if len(text) < 60 else f"a {type(leaf.value).__name__}"


def take_apart(
    value: Any, outs: list[Any], outer: Mapping[int, Any], *, every: bool = False
) -> Part:
    """The leaves of a value; what the region computed is appended to `outs`.

    Args:
        value: what a name is bound to, in the trace of the region.
        outs: the results of the region so far.
        outer: id of a region's own array -> the array outside that it stands for.
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
        meaning = outer.get(id(x), INSIDE) if inside else x
        if inside or every:
            found.append(Leaf(meaning, len(outs), a))
            outs.append(x)
        else:
            found.append(Leaf(meaning, None, a))
    return Part(found, tree)


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


def filler(a: ShapedArray) -> Any:
    """A value of a type that nobody reads."""
    return a.dtype.type(0).item() if a.weak else zeros(a)


def undecided(x: Any) -> bool:
    """Whether `x` is a traced value that is not known to be true or false."""
    return isinstance(x, Tracer) and x.known(exact=False) is UNKNOWN


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

"""Users' types that are vector spaces of their own: how their cotangents meet, begin, and are zero.

Objects of a registered class come to a traced function through the row `meet`, an identity of their
leaves. Where several equations read them, what each gives back is an object (zero in leaves that it
did not read), and the backward walk joins these by the type's own addition (the `meets` column).
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.dtypes import float64, is_inexact
from ftrace.core.errors import DtypeError, TreeError
from ftrace.core.lower import Call
from ftrace.core.nodes import KINDS, NodeKind, kind_of
from ftrace.core.primitive import Primitive
from ftrace.core.records import record
from ftrace.core.trace import Tracer
from ftrace.core.tree import tree_flatten
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import instantiate, zeros

C = TypeVar("C", bound=type)
Flat = Callable[..., list[Any]]


@record(eq=False)
class VectorSpace:
    """What is known of a class.

    Attributes:
        kind: how its objects are taken apart.
        add, zeros_like, seed: the user's functions, or None.
        scalar: the dtype of what `seed` is given.
    """

    kind: NodeKind
    add: Callable[[Any, Any], Any] | None
    zeros_like: Callable[[Any], Any] | None
    seed: Callable[[Any], Any] | None
    scalar: Any

    def zero(self, data: Any, avals: Sequence[ShapedArray]) -> list[Any]:
        """The leaves of a zero."""
        plain = [zeros(a) for a in avals]
        if self.zeros_like is None:
            return plain
        return self.leaves(self.zeros_like(self.kind.unflatten(data, plain)), avals, "zeros_like")

    def sum(self, data: Any, avals: Sequence[ShapedArray], a: Any, b: Any) -> list[Any]:
        """The leaves of the sum of two objects."""
        assert self.add is not None
        x, y = (self.kind.unflatten(data, list(part)) for part in (a, b))
        return self.leaves(self.add(x, y), avals, "add")

    def leaves(self, x: Any, avals: Sequence[ShapedArray], whose: str) -> list[Any]:
        """The leaves of what a function of the user's returned."""
        found = tree_flatten(x)[0] if type(x) is self.kind.type else []
        if [typeof(y).shape for y in found] != [a.shape for a in avals]:
            raise TreeError(
                f"{whose} of the vector space {self.kind.type.__name__} returned {x!r}.",
                "Return an object of the class, whose arrays have the shapes of the argument's.",
            )
        return [np.asarray(y, a.dtype)[()] if not isinstance(y, Tracer) else y
                for y, a in zip(found, avals, strict=True)]  # fmt: skip


SPACES: Final[dict[type, VectorSpace]] = {}


def register_vector_space(
    cls: C,
    zeros_like: Callable[[Any], Any] | None = None,
    seed: Callable[[Any], Any] | None = None,
    add: Callable[[Any, Any], Any] | None = None,
    scalar_dtype: Any = float64,
) -> C:
    """Say how derivatives by objects of a class behave: their zero, their sum, their first value.

    The arrays of a registered class are differentiated one by one, as those of any container; this
    says what an object of derivatives means as a whole.

    Args:
        cls: a dataclass, or a class that is registered as a pytree node, of float arrays.
        zeros_like: takes an object to the zero of its shape: what a use of an object contributes
            that reads none of an array's elements. By default zeros.
        seed: takes a number to an object: where `grad` and `value_and_grad` begin if the function's
            result is one, with 1 of the scalar type.
        add: the sum of two objects, where what two uses contribute meets in reverse mode. By
            default the arrays are added.
        scalar_dtype: the scalar type.

    Returns:
        The class, so that it can be used as a decorator with `functools.partial`.

    Raises:
        DtypeError: the class is no container, or an argument no function.

    Example:
        >>> import dataclasses, numpy as np, ftrace
        >>> @dataclasses.dataclass
        ... class Slope:  # the steepest of all slopes
        ...     value: float
        >>> Slope = ftrace.register_vector_space(
        ...     Slope, add=lambda a, b: Slope(np.maximum(a.value, b.value))
        ... )
        >>> ftrace.grad(lambda s: 3 * s.value + 5 * np.sin(s.value))(Slope(0.0))
        Slope(value=np.float64(5.0))
    """
    kind = kind_of(cls) if isinstance(cls, type) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if kind is None:
        raise DtypeError(
            f"A vector space is a class of containers, and {cls!r} is none.",
            "Make it a dataclass, or register it with ftrace.tree_util.register_pytree_node.",
        )
    for name, fun in (("zeros_like", zeros_like), ("seed", seed), ("add", add)):
        if fun is not None and not callable(fun):
            raise DtypeError(
                f"{name} of the vector space {cls.__name__} is {fun!r}.", "Pass a function."
            )
    space = VectorSpace(kind, add, zeros_like, seed, np.dtype(scalar_dtype))
    SPACES[cls] = space
    if add is not None:
        KINDS[cls] = dataclasses.replace(kind, unflatten=_entering(space))
    return cls


def _entering(space: VectorSpace) -> Callable[[Any, Sequence[Any]], Any]:
    """How an object is put together where it comes to a traced function."""

    def unflatten(data: Any, children: Sequence[Any]) -> Any:
        traced = [isinstance(x, Tracer) and is_inexact(x.aval.dtype) for x in children]
        if all(traced) and children:
            children = meet(*children, join=_Join(space, data))
        return space.kind.unflatten(data, children)

    return unflatten


def first_cotangents(kind: NodeKind | None, ys: Sequence[Any]) -> list[Any] | None:
    """Where the backward pass of a result begins; None: the result is no object with a seed."""
    space = None if kind is None else SPACES.get(kind.type)
    if space is None or space.seed is None:
        return None
    return space.leaves(space.seed(space.scalar.type(1)), [typeof(y) for y in ys], "seed")


# ---------------------------------------------------------------------------------- the row


class _Join:
    """The sum of cotangents of one object; `axes`: of members of these."""

    __slots__ = ("_axes", "_data", "_space")

    def __init__(self, space: VectorSpace, data: Any, axes: tuple[Axis, ...] = ()) -> None:
        self._space, self._data, self._axes = space, data, axes

    def mapped(self, axis: Axis) -> "_Join":
        """The same of members, at axis 0."""
        return _Join(self._space, self._data, (*self._axes, axis))

    def __call__(self, avals: Sequence[ShapedArray], a: Sequence[Any], b: Sequence[Any]) -> Any:
        """The sum; None in a or b: what has not been read."""
        return self._joined(list(self._axes), avals, a, b)

    def _joined(self, axes: list[Axis], avals: Any, a: Any, b: Any) -> list[Any]:
        if not axes:
            zero = self._space.zero(self._data, avals)
            full = [
                [z if x is None else x for x, z in zip(part, zero, strict=True)] for part in (a, b)
            ]
            return self._space.sum(self._data, avals, *full)
        axis = axes.pop()
        there = [x is not None for x in (*a, *b)]
        given = [x for x in (*a, *b) if x is not None]
        inner = [ShapedArray(v.shape[1:], v.dtype) for v in avals]

        def one(*some: Any) -> list[Any]:
            supply = iter(some)
            both = [next(supply) if on else None for on in there]
            return self._joined(axes, inner, both[: len(avals)], both[len(avals) :])

        found, dims = batch_flat(one, axis, given, [0] * len(given))
        return [place_axis(y, d, axis, 0) for y, d in zip(found, dims, strict=True)]


def _meet_jvp(primals: Any, tangents: Any, *, join: _Join) -> Any:
    moved = map(instantiate, tangents, primals)
    return meet(*primals, join=join), meet(*moved, join=join)


def _meet_batch(axis: Axis, values: Any, dims: Any, *, join: _Join) -> Any:
    placed = [place_axis(x, d, axis, 0) for x, d in zip(values, dims, strict=True)]
    return meet(*placed, join=join.mapped(axis)), [0] * len(placed)


def _meet_transpose(cts: Any, *operands: Any, join: _Join) -> list[Any]:
    return list(cts)


def _identity(avals: Sequence[ShapedArray], join: _Join) -> Any:
    return trace_closed(lambda *xs: list(xs), avals)


meet: Final = Primitive(
    name="meet",
    impl=lambda *xs, join: list(xs),
    type=lambda *avals, join: avals,
    jvp=_meet_jvp,
    transpose=_meet_transpose,
    batch=_meet_batch,
    lower=Call(_identity, "rule"),
    meets=lambda avals, a, b, join: join(avals, a, b),
    zeros=True,
    multiple=True,
    doc="An object of a vector space, whose cotangents meet by its own addition.",
)

"""What `reduce` and `reduce_window` combine elements with, and `reduce` itself.

A user's computation takes two scalars (or two containers of them). It is traced once; one that is
a single commutative row becomes that row, so that `lax.add`, `numpy.maximum` and
`lambda a, b: a * b` all lead to reductions that compile to one loop. Any other is mapped over the
elements of whole arrays.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.control.drawing import ELEMENTS
from ftrace.control.once import Staging, checked
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import to_host
from ftrace.core.errors import DtypeError, ShapeError, TreeError
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.kinds import way
from ftrace.core.lower import Pointwise
from ftrace.core.primitive import Primitive
from ftrace.core.trace import Tracer, lifted
from ftrace.core.tree import (
    PyTreeDef,
    paths,
    tree_flatten,
    tree_mismatch,
    tree_unflatten,
)
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.lax.binding import Ints, as_dtype, axes_of, own, shape_of
from ftrace.primitives import linear, shape
from ftrace.primitives import reduce as reductions
from ftrace.primitives.slicing import along

Values = tuple[Any, ...]

# --- the rows that are recognised, how arrays are reduced by them, and their identities


def _extreme(dtype: np.dtype[Any], largest: bool) -> Any:
    """The largest or the smallest value of a dtype."""
    if dtype.kind == "b":
        return largest
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if largest else np.iinfo(dtype).min
    return np.inf if largest else -np.inf


class _Monoid(NamedTuple):
    """What combines many values as a scalar operation combines two.

    Attributes:
        reduction: the row that reduces axes.
        identity: of a dtype.
    """

    reduction: Primitive
    identity: Callable[[np.dtype[Any]], Any]


_MONOIDS: Final[dict[Any, _Monoid]] = {
    "add": _Monoid(linear.reduce_sum, lambda dtype: 0),
    "mul": _Monoid(reductions.reduce_prod, lambda dtype: 1),
    "max": _Monoid(reductions.reduce_max, lambda dtype: _extreme(dtype, False)),
    "min": _Monoid(reductions.reduce_min, lambda dtype: _extreme(dtype, True)),
    "and": _Monoid(
        reductions.reduce_and, lambda dtype: True if dtype.kind == "b" else ~dtype.type(0)
    ),
    "or": _Monoid(reductions.reduce_or, lambda dtype: 0),
    "xor": _Monoid(reductions.reduce_xor, lambda dtype: 0),
}


def _monoid(row: Primitive) -> _Monoid | None:
    """The monoid of a row of two operands, by its scalar operation."""
    pointwise = way(row, Pointwise)
    return None if pointwise is None else _MONOIDS.get(pointwise.rule)


class Computation:
    """A user's function of two scalars as an operation on tuples of equally shaped arrays.

    Attributes:
        row: the commutative row that it is, or None.
    """

    def __init__(self, name: str, fn: Callable[..., Any], dtypes: list[Any], tree: PyTreeDef):
        n = len(dtypes)

        def flat(*args: Any) -> list[Any]:
            pair = (tree_unflatten(tree, side) for side in (args[:n], args[n:]))
            return _checked(name, lifted(fn)(*pair), dtypes, tree)

        if not callable(fn):
            raise DtypeError(
                f"lax.{name} was given {fn!r} as its computation.",
                "Give a function of two scalars, such as lax.add.",
            )
        avals = [aval((), dtype) for dtype in dtypes]
        attempt = partial(trace_to_jaxpr, flat, [*avals, *avals])
        self.jaxpr, self.captured = checked(Staging(attempt), fn, ELEMENTS)
        self.row = self._recognised()

    def _recognised(self) -> Primitive | None:
        eqns, outs = self.jaxpr.eqns, self.jaxpr.outvars
        if len(eqns) != 1 or _monoid(eqns[0].primitive) is None:
            return None
        whole = set(eqns[0].invars) == set(self.jaxpr.invars) and len(self.jaxpr.invars) == 2
        return eqns[0].primitive if whole and outs == tuple(eqns[0].outvars) else None

    def __call__(self, earlier: Sequence[Any], later: Sequence[Any]) -> Values:
        """Combine arrays, element by element."""
        sizes = shape_of(earlier[0])
        if self.row is not None:
            return (self.row(*earlier, *later),)
        if not sizes:
            return tuple(eval_jaxpr(self.jaxpr, [*self.captured, *earlier, *later]))
        axis = Axis(prod(sizes))
        flat = [shape.reshape(x, new_sizes=(axis.size,)) for x in (*earlier, *later)]
        dims = [None] * len(self.captured) + [0] * len(flat)
        outs, found = batch_flat(
            lambda *xs: eval_jaxpr(self.jaxpr, xs), axis, [*self.captured, *flat], dims
        )
        placed = (place_axis(y, d, axis, 0) for y, d in zip(outs, found, strict=True))
        return tuple(shape.reshape(y, new_sizes=sizes) for y in placed)

    def starts_at(self, init: Any) -> bool:
        """Whether combining with this initial value is known to change nothing."""
        monoid = None if self.row is None else _monoid(self.row)
        if monoid is None or isinstance(init, Tracer):
            return False
        return bool(to_host(init) == monoid.identity(typeof(init).dtype))


def _checked(name: str, result: Any, dtypes: list[Any], tree: PyTreeDef) -> list[Any]:
    """The leaves of what a computation returned for two scalars."""
    leaves, found = tree_flatten(result)
    if found != tree:
        raise TreeError(
            f"The computation of lax.{name} returned other containers than it was given "
            f"{tree_mismatch(tree, found, 'result')}.",
            "Return the structure of one of its arguments.",
        )
    for leaf, dtype, path in zip(leaves, dtypes, paths(tree, "result"), strict=True):
        a = typeof(leaf)
        if a.shape or linear.join(name, aval((), dtype), a)[0] != dtype:
            raise ShapeError(
                f"The computation of lax.{name} returned {a} for {path}.",
                f"It combines two scalars of dtype {dtype} into one.",
            )
    return [as_dtype(leaf, dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]


def operands_of(
    name: str, operands: Any, init_values: Any, computation: Callable[..., Any]
) -> tuple[Values, Values, PyTreeDef, Computation]:
    """The leaves of operands and of initial values, their structure, and the computation.

    Raises:
        TreeError: initial values in other containers.
        ShapeError: operands of different shapes, or initial values that are no scalars.
        DtypeError: initial values of another dtype.
    """
    leaves, tree = tree_flatten(operands)
    inits, found = tree_flatten(init_values)
    if found != tree:
        raise TreeError(
            f"lax.{name} was given initial values in other containers than the operands "
            f"{tree_mismatch(tree, found, 'init_values')}.",
            "Give one scalar for each operand.",
        )
    if not leaves:
        raise TreeError(f"lax.{name} was given no operands.", "Give at least one array.")
    avals = [typeof(x) for x in leaves]
    for a, path in zip(avals, paths(tree, "operands"), strict=True):
        if a.shape != avals[0].shape:
            raise ShapeError(
                f"lax.{name} was given {avals[0]} and, for {path}, {a}.",
                "Operands that are reduced together have one shape.",
            )
    inits = [_initial(name, x, a) for x, a in zip(inits, avals, strict=True)]
    strong = [as_dtype(x, a.dtype) for x, a in zip(leaves, avals, strict=True)]
    combine = Computation(name, computation, [a.dtype for a in avals], tree)
    return tuple(strong), tuple(inits), tree, combine


def _initial(name: str, init: Any, operand: ShapedArray) -> Any:
    a = typeof(init)
    if a.shape:
        raise ShapeError(
            f"lax.{name} was given an initial value of shape {a.shape}.", "It is a scalar."
        )
    dtype, _ = linear.join(f"lax.{name}", aval((), operand.dtype), a)
    return as_dtype(init, dtype)


# ---------------------------------------------------------------------------------- reduce


def reduce(
    operands: Any, init_values: Any, computation: Callable[..., Any], dimensions: Sequence[int]
) -> Any:
    """Combine all elements along some axes with an associative function of two scalars.

    Sums, products, extremes and bitwise operations, also as Python functions, become the
    reductions of their name. Any other computation is applied to neighbours, then to neighbours
    of these, and so on: the order of the elements (C order of `dimensions`) is kept, so that it
    need not be commutative. The initial value comes first.

    Args:
        operands: an array, or a container of arrays of one shape.
        init_values: a scalar for each of them.
        computation: (earlier, later) -> combined, on scalars, or on containers like `operands`.
        dimensions: the axes that are reduced away.

    Returns:
        A container like `operands`, without these axes.

    Raises:
        TreeError: containers that differ.
        ShapeError: operands of different shapes, or a computation that does not return scalars.
        AxisError: an axis that is not there.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> lax.reduce(np.array([[1.0, 2.0], [3.0, 4.0]]), 0.0, lax.add, (0,))
        array([4., 6.])
        >>> float(lax.reduce(np.array([1.0, 2.0, 3.0]), 0.0, lambda a, b: a + b + a * b, (0,)))
        23.0
    """
    values, inits, tree, combine = operands_of("reduce", operands, init_values, computation)
    sizes = shape_of(values[0])
    axes = tuple(sorted(axes_of("reduce", dimensions, len(sizes))))
    kept = tuple(n for i, n in enumerate(sizes) if i not in axes)
    starts = tuple(filled(init, kept) for init in inits)
    if any(sizes[a] == 0 for a in axes):
        results = starts
    else:
        results = _total(combine, values, axes)
        if not combine.starts_at(inits[0]):
            results = combine(starts, results)
    return tree_unflatten(tree, [own(y, *values, *inits) for y in results])


def filled(x: Any, sizes: Ints) -> Any:
    """A scalar at a shape."""
    return linear.broadcast_rank0(x, sizes) if sizes else x


def _total(combine: Computation, values: Values, axes: Ints) -> Values:
    """All elements along the axes, of which none is empty, combined."""
    if combine.row is not None:
        monoid: Any = _monoid(combine.row)
        return (monoid.reduction(values[0], axes=axes),)
    sizes = shape_of(values[0])
    rest = tuple(i for i in range(len(sizes)) if i not in axes)
    n, kept = prod(sizes[a] for a in axes), tuple(sizes[i] for i in rest)
    lines = (linear.transpose(x, permutation=(*axes, *rest)) for x in values)
    values = tuple(shape.reshape(x, new_sizes=(n, *kept)) for x in lines)
    last: list[Values] = []
    while n > 1:
        if n % 2:
            last.append(tuple(along(x, 0, n - 1, n) for x in values))
        even, odd = (tuple(along(x, 0, i, n - n % 2, 2) for x in values) for i in (0, 1))
        values, n = combine(even, odd), n // 2
    for later in reversed(last):
        values = combine(values, later)
    return tuple(shape.reshape(x, new_sizes=kept) for x in values)

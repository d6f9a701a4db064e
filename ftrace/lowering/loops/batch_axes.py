"""Programs over fewer batch elements: where these lie in each array, and whether they ever meet.

A batch of n elements lies along one axis of every array that depends on them. Forwards through a
program each equation says where the axis is in its results, if each batch element of them comes
from the same one of the operands. Then the same equations compute fewer batch elements, or other
ones; their parameters that are shapes say how many.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import element, gufunc_call, layout, way
from ftrace.core.lower import (
    Cores,
    Cumulative,
    Expansion,
    Moving,
    Pointwise,
    Product,
    Reduction,
)
from ftrace.core.tapes import TURNS
from ftrace.interpreters.staging import trace_closed
from ftrace.lowering.fusion.inline import without_calls
from ftrace.primitives import elements
from ftrace.primitives.index_bounds import gathered

Axis = int | None  # None: a value is the same for all batch elements
MEET: Final = -1  # in the place of an axis: batch elements meet


def axis_of_input(a: ShapedArray, n: int) -> Axis:
    """The axis of a value from outside that has the length of the batch, the first if several do.

    A program in which it has another meaning has batch elements meet.
    """
    sizes = [m for m in a.shape if m is not TURNS]
    return sizes.index(n) if n in sizes else None


def over_all(eqn: Eqn, fold: str, axis: Axis = 0) -> bool:
    """Whether an equation folds all batch elements into one."""
    reduction = way(eqn.primitive, Reduction)
    return reduction is not None and reduction.fold == fold and axis in eqn.params.get("axes", ())


class BatchAxes:
    """Follows the axis of batch elements forwards through equations.

    Args:
        n: the number of batch elements.
        inputs: what the equations read.
    """

    def __init__(self, n: int, inputs: Iterable[Var]) -> None:
        self.n = n
        self.axes: dict[Any, Axis] = {v: axis_of_input(v.aval, n) for v in inputs}

    def of(self, a: Any) -> Axis:
        """Where batch elements lie in a value."""
        return None if type(a) is Literal else self.axes.get(a)

    def takes(self, e: Eqn) -> bool:
        """Follow an equation; whether batch elements stay apart."""
        axis = MEET if e.effects or layout(e) is not None else self._follow(e)
        if axis == MEET:
            return False
        if axis is not None and any(v.aval.shape[axis : axis + 1] != (self.n,) for v in e.outvars):
            return False
        self.axes.update(dict.fromkeys(e.outvars, axis))
        return True

    def is_sum(self, e: Eqn) -> bool:
        """Whether an equation adds up something of all batch elements."""
        axes = [self.of(a) for a in e.invars]
        product = way(e.primitive, Product)
        if product is None:
            return axes[0] is not None and over_all(e, "sum", axes[0])
        contracted, _ = product.dims(**e.params)
        return None not in axes and tuple(axes) in zip(*contracted, strict=True)

    def is_any(self, e: Eqn) -> bool:
        """Whether an equation asks whether something holds for any batch element."""
        axis = self.of(e.invars[0]) if e.invars else None
        return axis is not None and over_all(e, "or", axis)

    def _follow(self, e: Eqn) -> Axis:
        axes = [self.of(a) for a in e.invars]
        if all(x is None for x in axes):
            return self._repeated(e) if _is_broadcast(e) else None
        if way(e.primitive, Pointwise) is not None or element(e) is not None:
            return _same([x for x, a in zip(axes, e.invars, strict=True) if a.aval.shape])
        for kind, rule in _RULES.items():
            found = way(e.primitive, kind)
            if found is not None:
                return rule(e, found, axes)
        return _behind_gufunc(e, axes)

    def _repeated(self, e: Eqn) -> Axis:
        """The new axis along which each batch element has the same."""
        new = enumerate(e.params["shape"])
        return next(
            (d for d, m in new if m == self.n and d not in e.params["broadcast_dimensions"]), None
        )


def _same(axes: Sequence[Axis]) -> Axis:
    return axes[0] if len(set(axes)) == 1 else MEET


def _moved(e: Eqn, moving: Moving, axes: Sequence[Axis]) -> Axis:
    if moving.rule is elements.pad:
        axes = axes[:1] if axes[1] is None else (MEET,)
    axis, rule = _same(axes), _MOVES.get(moving.rule)
    if rule is None or axis is None or axis == MEET:
        return MEET
    return rule(axis, e.invars[0].aval.shape, **e.params)


def _gathered(e: Eqn, expansion: Expansion, axes: Sequence[Axis]) -> Axis:
    """From an array that all batch elements share."""
    if expansion.rule is not gathered or axes[0] is not None:
        return MEET
    return _same([x for x, a in zip(axes[1:], e.invars[1:], strict=True) if a.aval.shape])


def _folded(e: Eqn, _: Reduction, axes: Sequence[Axis]) -> Axis:
    (axis,) = axes
    return MEET if axis is None else _without(axis, (), e.params.get("axes", (axis,)))


def _accumulated(e: Eqn, _: Cumulative, axes: Sequence[Axis]) -> Axis:
    (axis,) = axes
    return MEET if e.params["axis"] == axis else axis


def _multiplied(e: Eqn, product: Product, axes: Sequence[Axis]) -> Axis:
    contracted, batch = product.dims(**e.params)
    where: list[int] = []
    before = len(batch[0])
    for a, axis, gone, along in zip(e.invars, axes, contracted, batch, strict=True):
        free = [d for d in range(a.aval.ndim) if d not in gone and d not in along]
        if axis in along:
            where.append(along.index(axis))
        elif axis in free:
            where.append(before + free.index(axis))
        elif axis is not None:
            return MEET
        before += len(free)
    return where[0] if len(set(where)) == 1 else MEET


def _behind_gufunc(e: Eqn, axes: Sequence[Axis]) -> Axis:
    """Leading axes of all operands are those of the batch of a gufunc."""
    call = gufunc_call(e)
    if call is None or any(x != 0 for x in axes):
        return MEET
    pairs = [
        (c, atoms[c.at])
        for found, atoms in ((call.inputs, e.invars), (call.outputs, e.outvars))
        for c in found
        if isinstance(c, Cores)
    ]
    return MEET if any(0 in c.of_rank(a.aval.ndim) for c, a in pairs) else 0


_RULES: Final[dict[Any, Callable[..., Axis]]] = {
    Moving: _moved,
    Reduction: _folded,
    Cumulative: _accumulated,
    Product: _multiplied,
    Expansion: _gathered,
}


def _kept(axis: int, shape: Sequence[int], dimensions: Sequence[int]) -> Axis:
    return MEET if axis in dimensions else axis


def _without(axis: int, shape: Sequence[int], dimensions: Sequence[int]) -> Axis:
    return MEET if axis in dimensions else axis - sum(d < axis for d in dimensions)


def _expanded(axis: int, shape: Sequence[int], dimensions: Sequence[int]) -> Axis:
    rank = len(shape) + len(dimensions)
    new = {d % rank for d in dimensions}
    return [d for d in range(rank) if d not in new][axis]


def _reshaped(axis: int, shape: Sequence[int], new_sizes: Sequence[int]) -> Axis:
    before = prod(shape[:axis])
    found = (
        d for d, m in enumerate(new_sizes) if m == shape[axis] and prod(new_sizes[:d]) == before
    )
    return next(found, MEET)


def _sliced(axis: int, shape: Sequence[int], strides: Sequence[int], **_: Any) -> Axis:
    return axis if strides[axis] == 1 else MEET  # and as long as before: `takes` asks


_MOVES: Final[dict[Any, Callable[..., Axis]]] = {
    elements.broadcast: lambda axis, _, broadcast_dimensions, **__: broadcast_dimensions[axis],
    elements.transpose: lambda axis, _, permutation: permutation.index(axis),
    elements.squeeze: _without,
    elements.expand_dims: _expanded,
    elements.reshape: _reshaped,
    elements.rev: _kept,
    elements.slice_: _sliced,
    elements.update_slice: _sliced,
    elements.concatenate: lambda axis, shape, dimension: _kept(axis, shape, (dimension,)),
    elements.split: lambda at, shape, axis, **_: _kept(at, shape, (axis,)),
    elements.pad: lambda axis, _, padding_config: (
        axis if padding_config[axis] == (0, 0, 0) else MEET
    ),
}
"""(axis, the first operand's shape, **params) -> the axis in the results of a row that moves."""


# ---------------------------------------------------------------------------------- fewer


def narrow(a: ShapedArray, axis: Axis, size: int | None) -> ShapedArray:
    """The type of a value for another number of batch elements; None: without their axis."""
    if axis is None:
        return a
    own = () if size is None else (size,)
    return aval((*a.shape[:axis], *own, *a.shape[axis + 1 :]), a.dtype)


def narrowed(jaxpr: Jaxpr, n: int, size: int | None) -> Jaxpr:
    """A jaxpr of n batch elements for another number of them, or for one without their axis."""
    plain = without_calls(jaxpr)
    axes = BatchAxes(n, plain.invars)

    def run(*args: Any) -> list[Any]:
        env: dict[Any, Any] = dict(zip(plain.constvars, plain.consts, strict=True))
        env.update(zip(plain.invars, args, strict=True))
        evaluate(plain.eqns, env, axes, size)
        return [value(env, a) for a in plain.outvars]

    return trace_closed(run, [narrow(v.aval, axes.of(v), size) for v in plain.invars])


def evaluate(eqns: Iterable[Eqn], env: dict[Any, Any], axes: BatchAxes, size: int | None) -> None:
    """Run equations of batch elements for another number of them."""
    for e in eqns:
        operands = [value(env, a) for a in e.invars]
        if size is None and axes.is_any(e):
            found = operands[0]
        else:
            axes.takes(e)
            found = e.primitive(*operands, **_params(e, axes, size))
        env.update(zip(e.outvars, found if e.primitive.multiple else (found,), strict=True))


def value(env: Mapping[Any, Any], a: Any) -> Any:
    """The value of an atom."""
    return a.value if type(a) is Literal else env[a]


def is_of_numbers(jaxpr: Jaxpr, n: int) -> bool:
    """Whether one batch element of a program takes numbers alone, and can do without their axis."""
    return all(
        (way(e.primitive, Pointwise) or element(e) or _is_broadcast(e) or over_all(e, "or"))
        and all(v.aval.shape in ((), (n,)) for v in (*e.invars, *e.outvars))
        for e in without_calls(jaxpr).eqns
    )


def _is_broadcast(e: Eqn) -> bool:
    moving = way(e.primitive, Moving)
    return moving is not None and moving.rule is elements.broadcast


def _params(e: Eqn, axes: BatchAxes, size: int | None) -> dict[str, Any]:
    """The parameters of an equation for another number of batch elements."""
    if layout(e) is not None:
        inner = {k: narrowed(v, axes.n, size) for k, v in e.params.items() if type(v) is Jaxpr}
        return {**e.params, **inner}
    moving = way(e.primitive, Moving)
    key, axis = None if moving is None else _LENGTHS.get(moving.rule), axes.of(e.outvars[0])
    if key is None or axis is None:
        return e.params
    if size is None:  # a number for each batch element
        return {"shape": (), "broadcast_dimensions": ()}
    lengths = list(e.params[key])
    lengths[axis] = size
    return {**e.params, key: tuple(lengths)}


_LENGTHS: Final[dict[Any, str]] = {
    elements.broadcast: "shape",
    elements.reshape: "new_sizes",
    elements.slice_: "limit_indices",
    elements.update_slice: "limit_indices",
}
"""The parameter that holds the lengths of a result's axes, or the ends of what is taken."""

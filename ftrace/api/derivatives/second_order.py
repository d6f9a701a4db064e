"""`hessian_diagonal` and `laplacian`: second derivatives without the Hessian.

The diagonal is a series of order 2 (Taylor mode) for each element. The Laplacian is carried through
the function: `LaplacianTrace` has, beside a value and its tangents in all directions, the sum of
its second derivatives. For y = g(x) that sum is g'(x) L + the sum over the directions t of
g''(x)[t, t], of which only the last is an operation on all directions, and zero where g is linear.
Where g acts on elements one by one it is g''(x) times the sum of squares of t. The directions are
unit vectors until the first operation; a product of them and a matrix is that matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from ftrace.api.calls import ArgNums, check_argnums, check_callable, name_of, transformed
from ftrace.api.derivatives.autodiff import aux_trees
from ftrace.api.derivatives.jacobians import check_real, forward_call, inputs_of
from ftrace.api.derivatives.series import jet_flat
from ftrace.api.derivatives.unit_vectors import (
    Basis,
    Chunk,
    check_chunk,
    chunks,
    looped,
    loops,
    resolved,
    total,
)
from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.kinds import way
from ftrace.core.lower import Pointwise, Product
from ftrace.core.primitive import NONDIFFERENTIABLE, Primitive
from ftrace.core.trace import Trace, Tracer, ctx
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.tangents import instantiate
from ftrace.lifting.restart import Eager
from ftrace.primitives.arithmetic import mul
from ftrace.primitives.linear import add, broadcast_in_dim, reduce_sum, transpose
from ftrace.primitives.shape import reshape
from ftrace.primitives.slicing import pad

P = ParamSpec("P")


def hessian_diagonal(
    fun: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    chunk_size: Chunk = None,
    *,
    lift: bool = True,
) -> Callable[P, Any]:
    """Make the diagonal of the Hessian: the second derivative by each element, without the others.

    Args:
        fun: function of real arrays, or containers of them.
        argnums, has_aux, chunk_size, lift: as in `jacfwd`.

    Returns:
        A function with `fun`'s signature: for a scalar function what has the shape of the argument;
        for others blocks of shape `result.shape + input.shape`, as `jacfwd` gives them.

    Raises:
        DtypeError: an argument that is complex, or has no derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.hessian_diagonal(lambda x: np.sum(x**3) * x[0])(np.array([1.0, 2.0]))
        array([12., 12.])
    """
    check_callable(fun, "hessian_diagonal")
    call = forward_call(
        fun, "hessian_diagonal", argnums, has_aux, False, chunk_size, lift, push=_second
    )
    argnums = check_argnums("hessian_diagonal", argnums)
    key = ("hessian_diagonal", argnums, has_aux, check_chunk(chunk_size), lift)
    return transformed(fun, call, key, f"Diagonal of the Hessian of {name_of(fun)}.")


def _second(
    fn: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Results, and their second derivatives along tangents."""
    found = jet_flat(fn, primals, [[t, ZERO] for t in tangents], 2)
    return [y for y, _ in found], [_twice(terms[1]) for _, terms in found]


def _twice(term: Any) -> Any:
    return term if term is ZERO else mul(term, typeof(term).dtype.type(2))


def _plus(a: Any, b: Any) -> Any:
    if a is ZERO or b is ZERO:
        return b if a is ZERO else a
    return add(a, b)


def laplacian(
    fun: Callable[P, Any],
    argnums: ArgNums = 0,
    has_aux: bool = False,
    chunk_size: Chunk = None,
    *,
    lift: bool = True,
) -> Callable[P, Any]:
    """Make the Laplacian: the sum of the second derivatives by each element of the arguments.

    Args:
        fun: function of real arrays, or containers of them.
        argnums, has_aux, lift: as in `jacfwd`.
        chunk_size: how many directions are carried through the function together (default: all).

    Returns:
        A function with `fun`'s signature that returns what `fun` does: the Laplacian of each
        element of the result, and aux if asked for.

    Raises:
        DtypeError: an argument that is complex, or has no derivative.

    Example:
        >>> import numpy as np, ftrace
        >>> float(ftrace.laplacian(lambda x: np.sum(x**3))(np.array([1.0, 2.0])))
        18.0

    Source: the forward Laplacian of Li et al., A computational framework for neural network-based
    variational Monte Carlo with Forward Laplacian, 2024.
    """
    check_callable(fun, "laplacian")
    restart = Eager(fun, lift)
    argnums = check_argnums("laplacian", argnums)
    wanted = check_chunk(chunk_size)

    def call(*args: Any, **kwargs: Any) -> Any:
        _, leaves, flat = inputs_of(fun, argnums, args, kwargs, False, "laplacian")
        avals = [typeof(x) for x in leaves]
        check_real("laplacian", fun, "a complex argument", avals)
        given = (*args, *kwargs.values())
        chunk = resolved(wanted, avals)
        outs: list[Any] = []

        def one_pass(basis: Basis, count: int) -> list[Any]:
            ys, sums = restart(lambda: laplacian_flat(flat, leaves, basis, count), given)
            outs[:] = ys
            tree = aux_trees(flat.out_tree)[0] if has_aux else flat.out_tree
            n = tree.num_leaves
            return list(map(instantiate, sums[:n], ys[:n]))

        with quietly():
            if chunk is not None and loops(avals, chunk):
                sums = [reduce_sum(s, axes=(0,)) for s in looped(one_pass, avals, chunk, wanted)]
                if has_aux:
                    outs[:] = restart(lambda: flat(*leaves), given)
            else:
                passes = [one_pass(basis, count) for basis, count in chunks(avals, chunk)]
                sums = passes[0]
                for more in passes[1:]:
                    sums = list(map(_plus, sums, more))
        if not has_aux:
            return flat.out_tree.unflatten(owned(sums, leaves))
        n = len(sums)
        return flat.out_tree.unflatten(owned([*sums, *outs[n:]], leaves))

    key = ("laplacian", argnums, has_aux, wanted, lift)
    return transformed(fun, call, key, f"Laplacian of {name_of(fun)}.")


class Units:
    """Unit vectors by all elements of an input, which are no array yet.

    Args:
        array: them as an array, [directions, *shape].
        aval: of the input.
        start: the direction of its first element.
    """

    __slots__ = ("array", "aval", "start")

    def __init__(self, array: Any, aval: ShapedArray, start: int) -> None:
        self.array, self.aval, self.start = array, aval, start

    def placed(self, rows: Any) -> Any:
        """Tangents that are `rows` in the directions of this input, and zero in others."""
        count, shape = typeof(self.array).shape[0], typeof(rows).shape
        after = count - self.start - shape[0]
        if not self.start and not after:
            return rows
        config = ((self.start, after, 0), *(((0, 0, 0),) * (len(shape) - 1)))
        return pad(rows, typeof(rows).dtype.type(0), padding_config=config)


def _array(tangents: Any) -> Any:
    return tangents.array if type(tangents) is Units else tangents


class WithLaplacian(Tracer):
    """A value, its tangents along axis 0, and the sum of its second derivatives along them."""

    __slots__ = ("primal", "sums", "tangents")
    slots = ("owner", "primal", "tangents", "sums")

    def __init__(self, trace: Trace, primal: Any, tangents: Any, sums: Any) -> None:
        self.owner = trace
        self.primal, self.tangents, self.sums = primal, tangents, sums

    @property
    def aval(self) -> ShapedArray:
        """The type."""
        return typeof(self.primal)

    def known(self, exact: bool) -> Any:
        """The value, or UNKNOWN."""
        if exact and not (self.tangents is ZERO and self.sums is ZERO):
            return core.UNKNOWN
        primal = self.primal
        return primal.known(exact) if isinstance(primal, Tracer) else primal


core.register(WithLaplacian)


class LaplacianTrace(Trace):
    """Carries tangents in `count` directions and sums of second derivatives through each row."""

    __slots__ = ("count",)
    name = "the Laplacian"

    def __init__(self, parent: Trace, count: int) -> None:
        super().__init__(parent)
        self.count = count

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """One operation on values with their derivatives."""
        ctx.trace = self.parent
        operands = list(map(self.lift, args))
        primals = [x.primal for x in operands]

        def row(*xs: Any) -> list[Any]:
            found = primitive(*xs, **params)
            return list(found) if primitive.multiple else [found]

        if primitive.jvp is NONDIFFERENTIABLE or all(
            x.tangents is ZERO and x.sums is ZERO for x in operands
        ):
            outs = [WithLaplacian(self, y, ZERO, ZERO) for y in row(*primals)]
        else:
            live = [k for k, x in enumerate(operands) if x.tangents is not ZERO]
            found = None
            if len(live) == 1:
                found = self._by_elements(primitive, operands, live[0], params)
                if found is None:
                    found = self._of_units(primitive, operands, live[0], params)
            outs = self._by_rule(row, operands) if found is None else [found]
        return outs if primitive.multiple else outs[0]

    def _by_elements(
        self, row: Primitive, operands: Sequence[WithLaplacian], live: int, params: dict[str, Any]
    ) -> WithLaplacian | None:
        """A smooth function of one array's elements: two derivatives serve all directions."""
        moving = operands[live]
        if live in row.linear_in or row.decides or row.multiple or way(row, Pointwise) is None:
            return None
        if any(x.sums is not ZERO for k, x in enumerate(operands) if k != live):
            return None
        primals = [x.primal for x in operands]
        one = broadcast_in_dim(
            moving.aval.dtype.type(1), shape=moving.aval.shape, broadcast_dimensions=()
        )
        series = [[one if k == live else ZERO, ZERO] for k in range(len(operands))]
        ((y, (slope, half)),) = jet_flat(lambda *xs: [row(*xs, **params)], primals, series, 2)
        if typeof(y) != strengthen(moving.aval):
            return None
        if slope is ZERO:
            return WithLaplacian(self, y, ZERO, ZERO)
        t = _array(moving.tangents)
        shape = typeof(t).shape
        spread = broadcast_in_dim(
            slope, shape=shape, broadcast_dimensions=tuple(range(1, len(shape)))
        )
        bent = half if half is ZERO else mul(_twice(half), reduce_sum(mul(t, t), axes=(0,)))
        sums = moving.sums if moving.sums is ZERO else mul(slope, moving.sums)
        return WithLaplacian(self, y, mul(spread, t), _plus(sums, bent))

    def _of_units(
        self, row: Primitive, operands: Sequence[WithLaplacian], live: int, params: dict[str, Any]
    ) -> WithLaplacian | None:
        """A product of all of an input and a matrix: its tangents are the matrix."""
        product, units = way(row, Product), operands[live].tangents
        if product is None or type(units) is not Units or operands[live].sums is not ZERO:
            return None
        contracted, _ = product.dims(**params)
        mine, others = contracted if live == 0 else contracted[::-1]
        if len(mine) != len(units.aval.shape):
            return None
        other = operands[1 - live].primal
        order = [b for _, b in sorted(zip(mine, others, strict=True))]
        rest = [k for k in range(len(typeof(other).shape)) if k not in order]
        free = tuple(typeof(other).shape[k] for k in rest)
        moved = transpose(other, permutation=(*order, *rest))
        y = row(*(x.primal for x in operands), **params)
        return WithLaplacian(
            self, y, units.placed(reshape(moved, new_sizes=(units.aval.size, *free))), ZERO
        )

    def _by_rule(
        self, row: Callable[..., list[Any]], operands: Sequence[WithLaplacian]
    ) -> list[WithLaplacian]:
        """Any operation, by its derivative rules."""
        primals = [x.primal for x in operands]
        ys, tangents, sums = self._along(row, primals, [_array(x.tangents) for x in operands])
        if any(x.sums is not ZERO for x in operands):
            pushed = jvp_flat(row, primals, [x.sums for x in operands])[1]
            sums = list(map(_plus, pushed, sums))
        return [WithLaplacian(self, *parts) for parts in zip(ys, tangents, sums, strict=True)]

    def _along(
        self, row: Callable[..., list[Any]], primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Results, their tangents in all directions, and the sum of second derivatives there."""
        there: list[tuple[bool, bool]] = []

        def member(*live: Any) -> list[Any]:
            supply = iter(live)
            series = [[t if t is ZERO else next(supply), ZERO] for t in tangents]
            found = jet_flat(row, primals, series, 2)
            there[:] = [(a is not ZERO, b is not ZERO) for _, (a, b) in found]
            terms = [t for _, terms in found for t in terms if t is not ZERO]
            return [*(y for y, _ in found), *terms]

        axis = Axis(self.count)
        live = [t for t in tangents if t is not ZERO]
        values, dims = batch_flat(member, axis, live, [0] * len(live))
        n = len(there)
        placed = [place_axis(v, d, axis, 0) for v, d in zip(values[n:], dims[n:], strict=True)]
        supply = iter(placed)
        moved, curved = [], []
        for first, second in there:
            moved.append(next(supply) if first else ZERO)
            curved.append(_twice(reduce_sum(next(supply), axes=(0,))) if second else ZERO)
        return values[:n], moved, curved

    def lift(self, value: Any) -> WithLaplacian:
        """A constant."""
        if type(value) is WithLaplacian and value.owner is self:
            return value.fresh()
        return WithLaplacian(self, core.renew(value), ZERO, ZERO)


def laplacian_flat(
    fn: Callable[..., Sequence[Any]], primals: Sequence[Any], basis: Basis, count: int
) -> tuple[list[Any], list[Any]]:
    """Results, and the sums of their second derivatives along the directions of a basis."""
    trace = LaplacianTrace(ctx.trace, count)
    avals = [typeof(p) for p in primals]
    whole = count == total(avals)
    inputs, start = [], 0
    for p, a, t in zip(primals, avals, basis, strict=True):
        if not is_inexact(a.dtype):
            inputs.append(WithLaplacian(trace, p, ZERO, ZERO))
            continue
        inputs.append(WithLaplacian(trace, p, Units(t, a, start) if whole else t, ZERO))
        start += a.size
    for x, p in zip(inputs, primals, strict=True):
        core.freeze(x, p)
    try:
        outs = [trace.lift(y) for y in core.run(trace, fn, *inputs)]
    finally:
        trace.alive = False
    return [core.renew(y.primal) for y in outs], [core.renew(y.sums) for y in outs]

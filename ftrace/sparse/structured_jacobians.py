"""The Jacobian of a function by its structure: an interpreter of its linearized program.

Each equation of the program is linear in tangents. By the ways in which its primitive is computed
it is a diagonal (what acts on each element), at most one element in each row (what moves elements),
a Kronecker product with a known factor (matrix products), sums over axes, or the operation itself;
its matrix times that of the operand is the matrix of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.api.calls import name_of, to_transform
from ftrace.api.derivatives.autodiff import vjp
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import ConcretizationTypeError, DeviceError, DtypeError
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal
from ftrace.core.kinds import called, way
from ftrace.core.lower import (
    Elementwise,
    Expansion,
    Moving,
    Pointwise,
    Product,
    Reduction,
    Scattering,
)
from ftrace.core.trace import Tracer, is_on_device
from ftrace.interpreters.abstract import AbstractInterpreter
from ftrace.interpreters.linearize import Tape, linearize_flat, push
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.sparse.dependence_rules import written
from ftrace.sparse.linear_maps import (
    AppliedMap,
    DenseMap,
    DiagonalMap,
    FewMap,
    IdentityMap,
    KroneckerMap,
    OneInRowMap,
    StructuredMap,
    ZeroMap,
    after,
    ones_at,
    plus,
)


def structured_jacobian(fun: Callable[..., Any], lift: bool = True) -> Callable[..., StructuredMap]:
    """A function of an array, and of others that stay, that returns the Jacobian's structure."""
    fun = to_transform(fun, "jacobian", lift)

    def structured(x: Any, *args: Any, **kwargs: Any) -> StructuredMap:
        if isinstance(x, Tracer):
            raise ConcretizationTypeError(
                f"The structured Jacobian of {name_of(fun)} was asked for at a traced value.",
                "Its structure is found from numbers: call it outside of transformations.",
            )
        if is_on_device(x):
            raise DeviceError(
                f"The structured Jacobian of {name_of(fun)} was asked for at an array of a GPU.",
                "Its matrices are NumPy's and SciPy's: give cupy.asnumpy(x).",
            )
        x = np.asarray(x, float) if type(x) is int else np.asarray(x)
        _check_real(fun, "an argument", typeof(x))
        with quietly():
            outs, tape = linearize_flat(lambda p: [fun(p, *args, **kwargs)], [x[()]], outlives=True)
            _check_real(fun, "the result", _type_of(fun, outs[0]))
            y = typeof(outs[0])
            (invar,), (out,) = tape.invars, tape.outs
            if out is None or isinstance(out, Literal) or invar is None:
                return ZeroMap((y.size, x.size), y.dtype)
            linear = Jaxpr([invar], tape.eqns, [out])
            try:
                (found,) = _Structure().jaxpr(linear, [IdentityMap(1, x.size, x.dtype)])
            except _ComplexError:
                return _whole(tape, typeof(x), outs[0])
            return found

    return structured


class _ComplexError(Exception):
    """A complex value moves: its parts are linear in real numbers, not it in complex ones."""


def _whole(tape: Tape, a: ShapedArray, y: Any) -> StructuredMap:
    """The whole program as one operation."""
    out = typeof(y)

    def forward(t: Any) -> Any:
        with quietly():
            (found,) = push(tape, [np.asarray(t, a.dtype).reshape(a.shape)[()]], [y])
        return np.asarray(found).reshape(-1)

    def backward(ct: Any) -> Any:
        with quietly():
            (found,) = tape.pull([np.asarray(ct, out.dtype).reshape(out.shape)[()]])
        return np.zeros(a.size, a.dtype) if found is None else np.asarray(found).reshape(-1)

    return AppliedMap((out.size, a.size), out.dtype, forward, backward)


def _type_of(fun: Any, y: Any) -> ShapedArray:
    try:
        return typeof(y)
    except DtypeError:
        raise DtypeError(
            f"A structured Jacobian needs a function that returns one array, and {name_of(fun)} "
            f"returned a {type(y).__name__}.",
            "ftrace.flatten_util.ravel_pytree makes one vector of a container.",
        ) from None


def _check_real(fun: Any, what: str, a: ShapedArray) -> None:
    if a.dtype.kind != "f":
        raise DtypeError(
            f"A structured Jacobian is one of real floats, and {what} of {name_of(fun)} is {a!r}.",
            "Convert integers; of complex numbers take the real and the imaginary part.",
        )


class _Structure(AbstractInterpreter[Any]):
    """Says of each value its map; a value that does not move is known itself."""

    def constant(self, value: Any) -> Any:
        return value

    def through(self, eqn: Eqn, operands: list[Any], place: Any) -> list[Any]:
        if any(v.aval.dtype.kind == "c" for v in (*eqn.invars, *eqn.outvars)):
            raise _ComplexError
        inner, expansion = called(eqn), way(eqn.primitive, Expansion)
        if inner is not None:
            return self.jaxpr(inner, operands)
        moving = [i for i, a in enumerate(operands) if isinstance(a, StructuredMap)]
        made = _expanded(eqn, expansion.rule, operands, moving) if expansion and moving else None
        if made is None:
            return _applied(eqn, operands)
        return self.jaxpr(made, [operands[i] for i in moving])


def _expanded(
    eqn: Eqn, rule: Callable[..., Any], args: Sequence[Any], moving: Sequence[int]
) -> Jaxpr | None:
    """What other rows make of the operands that move, where a row is computed by these."""
    closed = [False]

    def made(*xs: Any) -> list[Any]:
        given = list(args)
        for i, x in zip(moving, xs, strict=True):
            given[i] = x
        found = rule(*given, **eqn.params)
        closed[0] = found is None
        if closed[0]:
            return []
        return list(found) if eqn.primitive.multiple else [found]

    jaxpr, _ = trace_to_jaxpr(made, [eqn.invars[i].aval for i in moving])
    return None if closed[0] else jaxpr


def _applied(eqn: Eqn, args: Sequence[Any]) -> list[Any]:
    """The results of an equation: maps, or values if no operand moves."""
    live = [i for i, a in enumerate(args) if isinstance(a, StructuredMap)]
    if not live:
        found = eqn.primitive(*args, **eqn.params)
        return list(found) if eqn.primitive.multiple else [found]
    step = _Step(eqn, args, live)
    results: list[Any] = []
    for k, v in enumerate(eqn.outvars):
        if not is_inexact(v.aval.dtype):
            results.append(step.values()[k])
            continue
        terms = [after(step.map_by(i, k), args[i]) for i in live]
        total = terms[0]
        for term in terms[1:]:
            total = plus(total, term)
        results.append(total)
    return results


class _Step:
    """One equation, of which some operands move."""

    def __init__(self, eqn: Eqn, args: Sequence[Any], live: Sequence[int]) -> None:
        self.eqn, self.live = eqn, live
        self.types = [v.aval for v in eqn.invars]
        self.still = [
            np.zeros(a.shape, a.dtype)[()] if i in live else x
            for i, (a, x) in enumerate(zip(self.types, args, strict=True))
        ]

    def values(self, at: int | None = None, x: Any = None) -> list[Any]:
        """The results, with zeros for what moves, but for one operand."""
        given = [x if i == at else y for i, y in enumerate(self.still)]
        found = self.eqn.primitive(*given, **self.eqn.params)
        return list(found) if self.eqn.primitive.multiple else [found]

    def map_by(self, i: int, k: int) -> StructuredMap:
        """The matrix of result k by operand i."""
        for kind in self.eqn.primitive.ways:
            rule = _RULES.get(type(kind))
            found = None if rule is None else rule(self, kind, i, k)
            if found is not None:
                return found
        return self.as_it_is(i, k)

    def as_it_is(self, i: int, k: int) -> StructuredMap:
        """The operation itself."""
        a, out = self.types[i], self.eqn.outvars[k].aval

        def push(t: Any) -> Any:
            with quietly():
                found = self.values(i, np.asarray(t, a.dtype).reshape(a.shape)[()])[k]
            return np.asarray(found).reshape(-1)

        def pull(ct: Any) -> Any:
            zero = np.zeros(a.shape, a.dtype)[()]
            back = vjp(lambda t: self.values(i, t)[k], zero, lift=False)[1]
            (found,) = back(np.asarray(ct, out.dtype).reshape(out.shape)[()])
            return np.asarray(found).reshape(-1)

        return AppliedMap((out.size, a.size), out.dtype, push, pull)


def _pointwise(step: _Step, kind: Any, i: int, k: int) -> StructuredMap | None:
    """A diagonal; a multiple of the identity where all else is one number."""
    a, out = step.types[i], step.eqn.outvars[k].aval
    if a.size not in (1, out.size):
        return None
    ones = np.broadcast_to(a.dtype.type(1), a.shape)[()]
    found = step.values(i, ones)[k]
    slopes = np.array(found, out.dtype).reshape(-1)
    if a.size != out.size:
        return DenseMap(slopes[:, None])
    others = [x for j, x in enumerate(step.types) if j not in step.live]
    if all(x.size == 1 for x in others) and out.size:
        return IdentityMap(slopes[0], out.size, out.dtype)
    return DiagonalMap(slopes)


def _moving(step: _Step, kind: Any, i: int, k: int) -> StructuredMap | None:
    """Numbers of elements, moved: at most one in each row."""
    a, out, row = step.types[i], step.eqn.outvars[k].aval, step.eqn.primitive
    if row.multiple:
        return None
    given = [
        np.zeros(b.shape, np.int64)[()] if j in step.live or is_inexact(b.dtype) else x
        for j, (b, x) in enumerate(zip(step.types, step.still, strict=True))
    ]
    given[i] = np.arange(1, a.size + 1).reshape(a.shape)[()]
    places = np.asarray(row.impl(*given, **step.eqn.params)).reshape(-1)
    if places.size == a.size and np.array_equal(places, np.arange(1, a.size + 1)):
        return IdentityMap(1, a.size, out.dtype)
    return OneInRowMap(places - 1, None, a.size, out.dtype)


def _reduction(step: _Step, kind: Any, i: int, k: int) -> StructuredMap | None:
    """Sums along axes."""
    a, out = step.types[i], step.eqn.outvars[k].aval
    if len(step.types) != 1 or out.dtype != a.dtype or kind.fold != "sum":
        return None
    axes = step.eqn.params["axes"]
    if out.size == 1:
        return DenseMap(np.broadcast_to(out.dtype.type(1), (1, a.size)))
    kept = tuple(1 if d in axes else n for d, n in enumerate(a.shape))
    into = np.broadcast_to(np.arange(out.size).reshape(kept), a.shape).reshape(-1)
    return FewMap(ones_at(into, np.arange(a.size), (out.size, a.size), out.dtype))


def _product(step: _Step, kind: Any, i: int, k: int) -> StructuredMap | None:
    """A known matrix from one side: a Kronecker product with an identity."""
    contracted, batch = kind.dims(**step.eqn.params)
    if len(step.live) != 1 or any(batch):
        return None
    a, out = step.types[i], step.eqn.outvars[k].aval
    other = np.asarray(step.still[1 - i])
    mine, theirs = contracted[i], contracted[1 - i]
    free = [d for d in range(a.ndim) if d not in mine]
    rest = [d for d in range(other.ndim) if d not in theirs]
    known = other.transpose((*rest, *theirs)).reshape(
        int(np.prod([other.shape[d] for d in rest])), -1
    )
    count = int(np.prod([a.shape[d] for d in free]))
    matrix, same = DenseMap(known.astype(out.dtype)), IdentityMap(1, count, out.dtype)
    if i == 0:  # the result has the axes of the first operand, then those of the second
        order, made = (*free, *mine), KroneckerMap(same, matrix)
    else:
        order, made = (*mine, *free), KroneckerMap(matrix, same)
    found: StructuredMap = matrix if count == 1 else made
    if order == tuple(range(a.ndim)) or not a.size:
        return found
    places = np.arange(a.size).reshape(a.shape).transpose(order).reshape(-1)
    return after(found, OneInRowMap(places, None, a.size, out.dtype))


def _scattering(step: _Step, kind: Any, i: int, k: int) -> StructuredMap | None:
    """What was there, without what is overwritten; and updates at known places."""
    out, combine = step.eqn.outvars[k].aval, kind.combine(**step.eqn.params)
    if i == 0:
        ones = np.ones(out.shape, out.dtype)[()]
        return DiagonalMap(np.array(step.values(0, ones)[k], out.dtype).reshape(-1))
    at, a = np.asarray(step.still[2]).reshape(-1), step.types[1]
    many = out.size // (a.size // at.size) if at.size and a.size else 0
    if combine != "add" and np.unique(np.where(at < 0, at + many, at)).size < at.size:
        return None
    into, source = written(at, out.size, a.size)
    return FewMap(ones_at(into, source, (out.size, a.size), out.dtype))


_RULES: Final[dict[type, Callable[..., StructuredMap | None]]] = {
    Pointwise: _pointwise,
    Elementwise: _pointwise,
    Moving: _moving,
    Reduction: _reduction,
    Product: _product,
    Scattering: _scattering,
}

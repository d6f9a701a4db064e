"""The rows every linear program is made of: add, sum, broadcast and transpose.

The families of `families.py` are built on these four, so they are written out in full here,
together with what types elementwise operands (`join`) and aligns mapped axes (`align`).
Primitives never broadcast arrays against each other: operands have one shape, or rank 0. Weak
operands (Python scalars) adapt to the dtype they meet.
"""

import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import SCALAR_AVALS, ShapedArray, aval, typeof
from ftrace.core.dtypes import KIND
from ftrace.core.errors import AxisError, DtypeError, ShapeError
from ftrace.core.lower import Moving, Pointwise, Reduction
from ftrace.core.primitive import LINEAR, Linear, Primitive, Rule, Sample, Unsupported
from ftrace.core.zero import ZERO
from ftrace.primitives import elements

PYTHON_SCALARS: Final = frozenset({bool, int, float, complex})
NO_TRANSPOSE: Final = Unsupported("An operation in it is not linear and has no transpose.")
MATERIALISE = 4096  # elements up to which a broadcast is cheaper written than viewed


def check_kinds(name: str, kinds: str, *avals: ShapedArray) -> None:
    """Raise `DtypeError` unless every dtype is of one of these kinds."""
    for a in avals:
        if a.dtype.kind not in kinds:
            raise DtypeError(
                f"{name} is not defined for {a.dtype} operands (got {a}).",
                "Convert first: `x.astype(float)`.",
            )


def join(name: str, *avals: ShapedArray) -> tuple[np.dtype[Any], bool]:
    """The common dtype of operands, and whether all are weak.

    Raises:
        DtypeError: strong operands of different dtypes, or a weak one of a higher kind.
    """
    strong = [a.dtype for a in avals if not a.weak]
    if not strong:
        return dtypes.promote(*((a.dtype, True) for a in avals))
    first = strong[0]
    kind = dtypes.KIND[first.kind]
    if any(d != first for d in strong) or any(dtypes.KIND[a.dtype.kind] > kind for a in avals):
        raise DtypeError(
            f"{name} was given operands of types {', '.join(map(repr, avals))}.",
            "Primitives do not promote: use ftrace.numpy, or convert one operand.",
        )
    return first, False


def join_shapes(name: str, *avals: ShapedArray) -> tuple[int, ...]:
    """The one shape of all operands that are not rank 0."""
    shape: tuple[int, ...] = ()
    for a in avals:
        if a.shape:
            if shape and a.shape != shape:
                raise ShapeError(
                    f"{name} was given operands of shapes {avals[0].shape} and {a.shape}.",
                    "Primitives do not broadcast: use ftrace.numpy.",
                )
            shape = a.shape
    return shape


# ---------------------------------------------------------------------------------- transpose


def _transpose_type(x: ShapedArray, *, permutation: tuple[int, ...]) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise AxisError(
            f"transpose: {permutation} is not a permutation of the axes of {x}.",
            "Name every axis once.",
        )
    return aval(tuple(x.shape[i] for i in permutation), x.dtype)


def _transpose_batch(axis: Any, values: Any, dims: Any, *, permutation: tuple[int, ...]) -> Any:
    (d,) = dims
    moved = tuple(i if i < d else i + 1 for i in permutation)
    return transpose(values[0], permutation=(d, *moved)), 0


def _transpose_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(1)
    yield Sample((rng.normal(size=(2, 3)),), {"permutation": (1, 0)})
    yield Sample((rng.normal(size=(2, 3, 4)),), {"permutation": (2, 0, 1)})
    yield Sample((rng.normal(size=(4, 3, 2))[::2, ::-1],), {"permutation": (1, 2, 0)})
    yield Sample((np.float64(2.0),), {"permutation": ()})
    yield Sample((np.zeros((0, 3)),), {"permutation": (1, 0)})
    yield Sample((rng.normal(size=3),), {"permutation": (0,)})
    for name in ("i8", "?", "f4", "c16"):
        yield Sample((np.arange(6).reshape(2, 3).astype(name),), {"permutation": (1, 0)})


transpose = Primitive(
    name="transpose",
    lower=Moving(elements.transpose, "axes"),
    impl=lambda x, permutation: np.transpose(x, permutation),
    type=_transpose_type,
    jvp=LINEAR,
    transpose=lambda ct, x, permutation: (
        transpose(ct, permutation=tuple(int(i) for i in np.argsort(permutation))),
    ),
    batch=_transpose_batch,
    mask="move",
    linear_in=(0,),
    samples=_transpose_samples,
    doc="Permute the axes of an array.",
)


# ---------------------------------------------------------------------------------- broadcast


def _broadcast_type(
    x: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> ShapedArray:
    fits = len(broadcast_dimensions) == x.ndim and all(
        0 <= i < len(shape) and n in (1, shape[i])
        for i, n in zip(broadcast_dimensions, x.shape, strict=True)
    )
    if not fits or list(broadcast_dimensions) != sorted(set(broadcast_dimensions)):
        raise ShapeError(
            f"broadcast_in_dim: {x} does not fit axes {broadcast_dimensions} of {shape}.",
            "Each axis of the operand must have size 1 or that of its target, in order.",
        )
    return aval(shape, x.dtype)


def _broadcast_impl(x: Any, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    if not shape:
        return np.array(x)[()]
    if broadcast_dimensions:
        expanded = [1] * len(shape)
        for i, n in zip(broadcast_dimensions, x.shape, strict=True):
            expanded[i] = n
        x = np.reshape(x, expanded)
    size = 1
    for n in shape:
        size *= n
    if size > MATERIALISE:
        return np.broadcast_to(x, shape)
    out = np.empty(shape, typeof(x).dtype)
    out[...] = x
    return out


def _broadcast_transpose(
    ct: Any, x: Linear, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> Any:
    added = tuple(i for i in range(len(shape)) if i not in broadcast_dimensions)
    ct = reduce_sum(ct, axes=added) if added else ct
    source = x.aval.shape
    stretched = tuple(
        j for j, i in enumerate(broadcast_dimensions) if source[j] == 1 and shape[i] != 1
    )
    if stretched:
        kept = tuple(j for j in range(len(source)) if j not in stretched)
        ct = reduce_sum(ct, axes=stretched)
        ct = broadcast_in_dim(ct, shape=source, broadcast_dimensions=kept)
    return (ct,)


def _broadcast_batch(
    axis: Any,
    values: Any,
    dims: Any,
    *,
    shape: tuple[int, ...],
    broadcast_dimensions: tuple[int, ...],
) -> Any:
    x = move_axis(values[0], dims[0], 0)
    kept = (0, *(i + 1 for i in broadcast_dimensions))
    return broadcast_in_dim(x, shape=(axis.size, *shape), broadcast_dimensions=kept), 0


def _broadcast_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(2)
    for x, shape, kept in (
        (rng.normal(size=3), (2, 3), (1,)),
        (rng.normal(size=3), (3, 2), (0,)),
        (np.float64(1.5), (2, 3), ()),
        (np.float64(1.5), (), ()),
        (rng.normal(size=(1, 3)), (4, 3), (0, 1)),
        (rng.normal(size=(2, 1)), (2, 5, 3), (0, 2)),
        (rng.normal(size=3), (0, 3), (1,)),
        (rng.normal(size=(4, 3))[::2, 0], (2, 2), (0,)),
        (np.zeros((0, 1)), (0, 2), (0, 1)),
        *((np.arange(3).astype(name), (2, 3), (1,)) for name in ("i8", "?", "f4", "c16")),
        (rng.normal(size=(70,)), (70, 70), (0,)),
    ):
        yield Sample((x,), {"shape": shape, "broadcast_dimensions": kept})


broadcast_in_dim = Primitive(
    name="broadcast_in_dim",
    lower=Moving(elements.broadcast, "axes"),
    impl=_broadcast_impl,
    type=_broadcast_type,
    jvp=LINEAR,
    transpose=_broadcast_transpose,
    batch=_broadcast_batch,
    mask="sum",
    linear_in=(0,),
    samples=_broadcast_samples,
    doc="Repeat an array along new axes or axes of size 1; axis `i` of the operand becomes axis "
    "`broadcast_dimensions[i]` of the result.",
)


# ---------------------------------------------------------------------------------- sum


def reduced_type(name: str, x: ShapedArray, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape left after reducing `axes`, which must be distinct and in range."""
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise AxisError(f"{name}: {axes} are not distinct axes of {x}.", "Use 0 .. ndim - 1.")
    return tuple(n for i, n in enumerate(x.shape) if i not in axes)


def batch_reduction(row: Rule, values: Any, dims: Any, axes: tuple[int, ...]) -> Any:
    """Batching of a row of one operand that reduces `axes`."""
    (d,) = dims
    shifted = tuple(a if a < d else a + 1 for a in axes)
    return row(values[0], axes=shifted), d - sum(a < d for a in shifted)


def reduction_samples(dtypes_: Sequence[str] = ("f8", "i8", "c16", "f4")) -> Iterable[Sample]:
    """Operands and axes on which reductions are tried."""
    rng = np.random.default_rng(3)
    yield Sample((rng.normal(size=(2, 3)),), {"axes": (1,)})
    yield Sample((rng.normal(size=(2, 3)),), {"axes": (0, 1)})
    yield Sample((rng.normal(size=(2, 3, 2)),), {"axes": (0, 2)})
    yield Sample((rng.normal(size=(4, 3))[::2],), {"axes": (0,)})
    yield Sample((np.float64(2.5),), {"axes": ()})
    yield Sample((rng.normal(size=(3,)),), {"axes": ()})
    for name in dtypes_:
        yield Sample((np.asarray(rng.normal(size=(3, 2)) * 3).astype(name),), {"axes": (0,)})


def _sum_samples() -> Iterable[Sample]:
    yield from reduction_samples(("f8", "f4", "i8", "c16", "?"))
    yield Sample((np.zeros((0, 2)),), {"axes": (0,)})


def _sum_type(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    return aval(reduced_type("reduce_sum", x, axes), x.dtype)


def _sum_transpose(ct: Any, x: Linear, axes: tuple[int, ...]) -> Any:
    kept = tuple(i for i in range(x.aval.ndim) if i not in axes)
    return (broadcast_in_dim(ct, shape=x.aval.shape, broadcast_dimensions=kept),)


reduce_sum = Primitive(
    name="reduce_sum",
    lower=Reduction("sum", "biufc"),
    impl=lambda x, axes: np.add.reduce(x, axis=axes, dtype=typeof(x).dtype),
    type=_sum_type,
    jvp=LINEAR,
    transpose=_sum_transpose,
    batch=lambda axis, values, dims, axes: batch_reduction(reduce_sum, values, dims, axes),
    mask="move",
    linear_in=(0,),
    samples=_sum_samples,
    doc="Sum over `axes`, in the operand's dtype.",
)


# ---------------------------------------------------------------------------------- aligning


def move_axis(x: Any, source: int, target: int) -> Any:
    """One axis moved; the array itself if it is already there."""
    if source == target:
        return x
    order = [i for i in range(len(typeof(x).shape)) if i != source]
    order.insert(target, source)
    return transpose(x, permutation=tuple(order))


def permuted(x: Any, order: tuple[int, ...]) -> Any:
    """The axes in this order; the array itself if they are."""
    return x if order == tuple(range(len(order))) else transpose(x, permutation=order)


def align(axis: Any, values: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """Operands with the mapped axis in front and one rank, or rank 0 and not mapped."""
    shapes = [typeof(v).shape for v in values]
    ranks = [len(s) - (d is not None) for s, d in zip(shapes, dims, strict=True)]
    rank = max(ranks)
    aligned: list[Any] = []
    member: tuple[int, ...] = ()
    for s, d, r in zip(shapes, dims, ranks, strict=True):
        if r:
            member = s if d is None else s[:d] + s[d + 1 :]
    full = (axis.size, *member)
    for v, d, r in zip(values, dims, ranks, strict=True):
        if d is not None:
            v = move_axis(v, d, 0)
            kept = (0,) if r == 0 else tuple(range(rank + 1))
        elif r == 0:
            aligned.append(v)
            continue
        else:
            kept = tuple(range(1, rank + 1))
        if len(kept) != rank + 1:
            v = broadcast_in_dim(v, shape=full, broadcast_dimensions=kept)
        aligned.append(v)
    return aligned


def batch_elementwise(row: Rule, axis: Any, values: Sequence[Any], dims: Sequence[Any]) -> Any:
    """Batching of any elementwise row."""
    first = next(d for d in dims if d is not None)
    shape = None
    for v, d in zip(values, dims, strict=True):
        s = typeof(v).shape
        if d is None:
            if s:
                break
        elif d != first or shape not in (None, s):
            break
        else:
            shape = s
    else:
        return row(*values), first
    return row(*align(axis, values, dims)), 0


# ---------------------------------------------------------------------------------- add


def broadcast_rank0(x: Any, shape: tuple[int, ...]) -> Any:
    """A rank-0 value at a shape."""
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=())


def spread(t: Any, z: Any) -> Any:
    """A rank-0 tangent at the shape of the result (the other operand had no tangent)."""
    if type(z) in SCALAR_AVALS:
        return t
    shape = typeof(z).shape
    if typeof(t).shape == shape:
        return t
    return broadcast_rank0(t, shape)


def collapse(ct: Any, target: ShapedArray) -> Any:
    """A cotangent summed to rank 0 where its operand had rank 0 and the result had not."""
    if target.shape or type(ct) in SCALAR_AVALS:
        return ct
    shape = typeof(ct).shape
    return reduce_sum(ct, axes=tuple(range(len(shape)))) if shape else ct


def number(x: Any) -> Any:
    """A Python scalar as the NumPy scalar that it is computed with.

    Raises:
        OverflowError: an int that 64 bits do not hold.
    """
    return SCALAR_AVALS[type(x)].dtype.type(x)


def weakly(impl: Rule) -> Rule:
    """An implementation that gives a Python scalar for Python scalars, by NumPy's arithmetic."""
    python = PYTHON_SCALARS

    def evaluate(x: Any, y: Any) -> Any:
        if type(x) in python and type(y) in python:
            return impl(number(x), number(y)).item()
        return impl(x, y)

    return evaluate


def weakly_unary(impl: Rule) -> Rule:
    """`weakly` for one operand."""
    python = PYTHON_SCALARS

    def evaluate(x: Any) -> Any:
        return impl(number(x)).item() if type(x) in python else impl(x)

    def evaluate_with(x: Any, **params: Any) -> Any:
        if type(x) in python:
            return impl(number(x), **params).item()
        return impl(x, **params)

    return evaluate_with if has_params(impl) else evaluate


def has_params(impl: Rule) -> bool:
    """Whether an implementation has arguments behind its operand; those of a ufunc are not ours."""
    code = getattr(impl, "__code__", None)
    return code is not None and code.co_argcount + code.co_kwonlyargcount > 1


def binary_type(name: str, kinds: str, weak: bool) -> Rule:
    """The type rule of an elementwise row of two operands that keeps their dtype."""

    @lru_cache(maxsize=4096)
    def joined(x: ShapedArray, y: ShapedArray) -> ShapedArray:
        dtype, all_weak = join(name, x, y)
        check_kinds(name, kinds, aval((), dtype))
        return aval(join_shapes(name, x, y), dtype, all_weak and weak)

    def type_rule(x: ShapedArray, y: ShapedArray) -> ShapedArray:
        if not x.weak and x.dtype.kind in kinds:
            if x is y or (y.weak and KIND[y.dtype.kind] <= KIND[x.dtype.kind]):
                return x
        elif not y.weak and y.dtype.kind in kinds and KIND[x.dtype.kind] <= KIND[y.dtype.kind]:
            return y
        return joined(x, y)

    return type_rule


def _add_jvp(primals: Any, tangents: Any) -> Any:
    x, y = primals
    tx, ty = tangents
    z = add(x, y)
    if ty is ZERO:
        return z, spread(tx, z)
    if tx is ZERO:
        return z, spread(ty, z)
    return z, add(tx, ty)


def _add_transpose(ct: Any, x: Any, y: Any) -> Any:
    return (
        collapse(ct, x.aval) if type(x) is Linear else None,
        collapse(ct, y.aval) if type(y) is Linear else None,
    )


def _add_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(4)
    a = rng.normal(size=(2, 3))
    for x, y in ((a, a + 1), (a[0], a[1]), (a, np.float64(2)), (np.float64(2), a)):
        yield Sample((x, y), {})
    yield Sample((np.float64(1.5), np.float64(2)), {})
    yield Sample((a.T[::2], a.T[::2] * 2), {})
    yield Sample((np.zeros((0, 2)), np.zeros((0, 2))), {})
    for name in ("i8", "u1", "f4", "c16", "?"):
        yield Sample((a.astype(name), (a * 2).astype(name)), {})


add = Primitive(
    name="add",
    lower=Pointwise("add"),
    impl=weakly(operator.add),
    type=binary_type("add", "biufc", True),
    jvp=_add_jvp,
    transpose=_add_transpose,
    batch=lambda axis, values, dims: batch_elementwise(add, axis, values, dims),
    mask="same",
    zeros=True,
    linear_in=(0, 1),
    samples=_add_samples,
    doc="x + y, elementwise.",
)

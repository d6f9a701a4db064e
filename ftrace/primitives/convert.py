"""Rows that keep the values and change their type: dtypes, bits, precision, copies.

`convert_element_type` is how everything above promotes. A result without tangent (an integer)
ends differentiation there; complex to real takes the real part, as its transpose demands.
`stop_gradient` is the identity whose result has no tangent, `name` the identity that policies of
`checkpoint` know a value by, `optimization_barrier` one that compiled programs do not look
through. None of them changes a shape, except `bitcast_convert_type` between dtypes of different
size. Creating arrays: create.py.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lower import Pointwise
from ftrace.core.primitive import (
    LINEAR,
    NONDIFFERENTIABLE,
    ErrorSample,
    Linear,
    Primitive,
    Sample,
    smooth,
)
from ftrace.core.zero import ZERO, Masked
from ftrace.primitives import elements
from ftrace.primitives.linear import NO_TRANSPOSE, PYTHON_SCALARS, move_axis

Dtype = np.dtype[Any]


def _draws(*names: str) -> Iterable[Any]:
    """Arrays of rank 0, 1, 2, empty, non-contiguous, then one of each dtype."""
    rng = np.random.default_rng(11)
    a = rng.uniform(-3, 3, size=(2, 3))
    yield from (a, a[0], np.float64(1.5), np.zeros((0, 2)), a.T[::2])
    for name in names:
        yield np.asarray(a[0] * 2).astype(name)


# ---------------------------------------------------------------------------------- dtypes


def _convert_type(x: ShapedArray, *, new_dtype: Dtype, weak_type: bool = False) -> ShapedArray:
    if weak_type and x.shape:
        raise ShapeError(
            f"convert_element_type: only a scalar can be weak, not {x}.", "Leave weak_type=False."
        )
    return aval(x.shape, new_dtype, weak_type)


def _convert_impl(x: Any, new_dtype: Dtype, weak_type: bool = False) -> Any:
    if typeof(x).weak:  # of integers without a limit
        x = np.asarray(float(x) if issubclass(type(x), int) and new_dtype.kind in "fc" else x)[()]
    if x.dtype.kind == "c" and new_dtype.kind not in "cb":
        x = x.real
    y = x.astype(new_dtype)
    if weak_type:
        return y.item()
    return y if y.ndim else y[()]


def _convert_jvp(primals: Any, tangents: Any, *, new_dtype: Dtype, weak_type: bool = False) -> Any:
    params = {"weak_type": True} if weak_type else {}
    y = convert_element_type(primals[0], new_dtype=new_dtype, **params)
    if tangents[0] is ZERO or not is_inexact(new_dtype):
        return y, ZERO
    return y, convert_element_type(tangents[0], new_dtype=new_dtype)


def _convert_transpose(ct: Any, x: Any, *, new_dtype: Dtype, weak_type: bool = False) -> Any:
    return (convert_element_type(ct, new_dtype=x.aval.dtype),)


def _convert_samples() -> Iterable[Sample]:
    for x in _draws("f8", "f4", "c16"):
        for name in ("f8", "f4", "c16", "c8"):
            yield Sample((x,), {"new_dtype": np.dtype(name)})
    for x in _draws("i8", "?", "c16"):
        for name in ("i4", "?"):
            yield Sample((x,), {"new_dtype": np.dtype(name)})
    for x in _draws("i8", "?"):
        yield Sample((x,), {"new_dtype": np.dtype("f4")})
    yield Sample((np.float32(1.5),), {"new_dtype": np.dtype("f8"), "weak_type": True})


def _convert_errors() -> Iterable[ErrorSample]:
    params = {"new_dtype": np.dtype("f4"), "weak_type": True}
    yield ErrorSample((np.zeros(3),), params, ShapeError, "only a scalar can be weak")


convert_element_type = Primitive(
    name="convert_element_type",
    lower=Pointwise(elements.convert, "biufc"),
    impl=_convert_impl,
    type=_convert_type,
    jvp=_convert_jvp,
    transpose=_convert_transpose,
    batch=lambda axis, values, dims, new_dtype, weak_type=False: (
        convert_element_type(*values, new_dtype=new_dtype),
        dims[0],
    ),
    mask="same",
    zeros=True,
    linear_in=(0,),
    samples=_convert_samples,
    errors=_convert_errors,
    doc="The values in another dtype. Complex to real takes the real part; `weak_type` makes a "
    "scalar adapt to what it meets, as a Python scalar does.",
)


# ---------------------------------------------------------------------------------- bits


def _bitcast_type(x: ShapedArray, *, new_dtype: Dtype) -> ShapedArray:
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if "b" in (x.dtype.kind, new_dtype.kind):
        raise DtypeError(
            f"bitcast_convert_type from {x.dtype} to {new_dtype}: booleans have no bits of "
            "their own.",
            "Convert to uint8 first.",
        )
    if old == new:
        return aval(x.shape, new_dtype)
    if old > new:
        return aval((*x.shape, old // new), new_dtype)
    if not x.shape or x.shape[-1] != new // old:
        raise ShapeError(
            f"bitcast_convert_type of {x} to {new_dtype} needs a last axis of size {new // old}.",
            "Reshape so that the last axis holds the bytes of one new element.",
        )
    return aval(x.shape[:-1], new_dtype)


def _same_size(operands: Sequence[ShapedArray], result: ShapedArray) -> bool:
    """Whether bits stay in their element; kernels hold a float16 as a float32."""
    sizes = {operands[0].dtype.itemsize, result.dtype.itemsize}
    return len(sizes) == 1 and np.dtype(np.float16) not in (operands[0].dtype, result.dtype)


def _bitcast_impl(x: Any, new_dtype: Dtype) -> Any:
    shape = _bitcast_type(typeof(x), new_dtype=new_dtype).shape
    return np.asarray(x).flatten().view(new_dtype).reshape(shape)[()]


def _bitcast_samples() -> Iterable[Sample]:
    for x in _draws():
        yield Sample((x,), {"new_dtype": np.dtype("i8")})
        yield Sample((x,), {"new_dtype": np.dtype("u2")})
    for x in _draws("f4", "i4"):
        if x.dtype.itemsize == 4:
            yield Sample((x,), {"new_dtype": np.dtype("u4")})
    yield Sample((np.array([1 + 2j, 3j]),), {"new_dtype": np.dtype("f8")})
    pairs = np.arange(12, dtype="i4").reshape(3, 2, 2)
    yield Sample((pairs,), {"new_dtype": np.dtype("f8")})
    yield Sample((pairs[0, 0],), {"new_dtype": np.dtype("i8")})


def _bitcast_errors() -> Iterable[ErrorSample]:
    bad = {"new_dtype": np.dtype("?")}
    yield ErrorSample((np.zeros(3),), bad, DtypeError, "booleans have no bits")
    wide = {"new_dtype": np.dtype("f8")}
    yield ErrorSample((np.zeros(3, "f4"),), wide, ShapeError, "needs a last axis of size 2")


bitcast_convert_type = Primitive(
    name="bitcast_convert_type",
    lower=Pointwise(elements.bits_as, "iuf", when=_same_size),
    impl=_bitcast_impl,
    type=_bitcast_type,
    jvp=NONDIFFERENTIABLE,
    decides=smooth,
    calm=True,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims, new_dtype: (
        bitcast_convert_type(move_axis(values[0], dims[0], 0), new_dtype=new_dtype),
        0,
    ),
    samples=_bitcast_samples,
    errors=_bitcast_errors,
    doc="The same bits read as another dtype. A smaller dtype adds a last axis, a larger one "
    "consumes it.",
)


# ---------------------------------------------------------------------------------- precision


def _precision_type(x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
    if x.dtype.kind != "f":
        raise DtypeError(f"reduce_precision is for floats, not {x}.", "Convert with astype.")
    if exponent_bits < 1 or mantissa_bits < 0:
        raise DtypeError(
            f"reduce_precision: no format has {exponent_bits} exponent and {mantissa_bits} "
            "mantissa bits.",
            "Use at least 1 exponent bit and 0 mantissa bits.",
        )
    return aval(x.shape, x.dtype)


def rounded(xp: Any, x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """`reduce_precision` over an array namespace: round the bits, then mind the range."""
    info = np.finfo(x.dtype)
    word = np.dtype(f"u{x.dtype.itemsize}").type
    bits = xp.reshape(xp.array(x, order="C"), (-1,)).view(word)
    sign = bits & word(1 << (8 * x.dtype.itemsize - 1))
    if mantissa_bits < info.nmant:  # round to nearest, ties to even
        dropped = info.nmant - mantissa_bits
        odd = (bits >> word(dropped)) & word(1)
        bits = (bits + odd + word((1 << (dropped - 1)) - 1)) >> word(dropped) << word(dropped)
    if exponent_bits < info.iexp:
        field = word(((1 << info.iexp) - 1) << info.nmant)
        bias, reach = (1 << (info.iexp - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = bits & field
        bits = xp.where(exponent > word((bias + reach) << info.nmant), sign | field, bits)
        bits = xp.where(exponent <= word((bias - reach) << info.nmant), sign, bits)
    y = xp.reshape(bits.astype(word).view(x.dtype), x.shape)
    return xp.where(xp.isnan(x), x, y)


def _precision_impl(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    return rounded(np, np.asarray(x), exponent_bits, mantissa_bits)[()]


def _precision_samples() -> Iterable[Sample]:
    for x in _draws():
        yield Sample((x,), {"exponent_bits": 11, "mantissa_bits": 52})
    for x in _draws("f4", "f2"):
        if x.dtype != np.float64:
            yield Sample((x,), {"exponent_bits": 8, "mantissa_bits": 23})


def _precision_errors() -> Iterable[ErrorSample]:
    good = {"exponent_bits": 5, "mantissa_bits": 10}
    yield ErrorSample((np.arange(3),), good, DtypeError, "is for floats")
    bad = {"exponent_bits": 0, "mantissa_bits": 10}
    yield ErrorSample((np.zeros(3),), bad, DtypeError, "no format has 0 exponent")


reduce_precision = Primitive(
    name="reduce_precision",
    impl=_precision_impl,
    type=_precision_type,
    jvp=LINEAR,
    transpose=lambda ct, x, **params: (reduce_precision(ct, **params),),
    batch=lambda axis, values, dims, **params: (reduce_precision(*values, **params), dims[0]),
    mask="same",
    linear_in=(0,),
    samples=_precision_samples,
    errors=_precision_errors,
    doc="Round floats to a format of fewer bits, kept in their own dtype. Tangents are rounded "
    "alike.",
)


# ---------------------------------------------------------------------------------- copies


def _same_samples() -> Iterable[Sample]:
    for x in _draws("f4", "c16", "i8", "?"):
        yield Sample((x,), {})


copy = Primitive(
    name="copy",
    lower=Pointwise(elements.same, "biufc"),
    impl=lambda x: np.array(x)[()] if np.ndim(x) == 0 else np.array(x),
    type=lambda x: aval(x.shape, x.dtype),
    jvp=LINEAR,
    transpose=lambda ct, x: (ct,),
    batch=lambda axis, values, dims: (copy(*values), dims[0]),
    mask="same",
    linear_in=(0,),
    samples=_same_samples,
    doc="A new array with the same values; a Python scalar becomes a NumPy scalar.",
)


def _stop_impl(x: Any) -> Any:
    return x if type(x) in PYTHON_SCALARS else x[...] if x.ndim else x[()]


stop_gradient = Primitive(
    name="stop_gradient",
    lower=Pointwise(elements.same, "biufc"),
    impl=_stop_impl,
    type=lambda x: x,
    jvp=NONDIFFERENTIABLE,
    decides=smooth,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: (stop_gradient(*values), dims[0]),
    samples=_same_samples,
    doc="The same values, constant to differentiation: the tangent is zero.",
)


# ---------------------------------------------------------------------------------- barrier


def _barrier_jvp(primals: Any, tangents: Any) -> Any:
    """The tangents pass a barrier of their own; absent ones stay absent."""
    live = [t for t in tangents if t is not ZERO]
    rest = iter(optimization_barrier(*live))
    return optimization_barrier(*primals), [t if t is ZERO else next(rest) for t in tangents]


def _barrier_transpose(cts: Any, *operands: Any) -> Any:
    """Masks go around the barrier, since they say what is not there."""
    found = [ct if type(x) is Linear else None for ct, x in zip(cts, operands, strict=True)]
    live = [ct.value if type(ct) is Masked else ct for ct in found if ct is not None]
    rest = iter(optimization_barrier(*live))
    for i, ct in enumerate(found):
        if type(ct) is Masked:
            masked = found[i] = Masked(next(rest), ct.mask)
            masked.branch = ct.branch
        elif ct is not None:
            found[i] = next(rest)
    return found


def _barrier_samples() -> Iterable[Sample]:
    x = np.arange(3.0)
    yield Sample((x, np.float64(2.5), x[:, None] * x), {})
    yield Sample((x, np.arange(2), x.astype("f4")), {})
    yield from _same_samples()


optimization_barrier = Primitive(
    name="optimization_barrier",
    impl=lambda *xs: [x[...] if np.ndim(x) else np.array(x)[()] for x in xs],
    type=lambda *xs: tuple(aval(x.shape, x.dtype) for x in xs),
    jvp=_barrier_jvp,
    transpose=_barrier_transpose,
    batch=lambda axis, values, dims: (optimization_barrier(*values), list(dims)),
    mask="call",
    zeros=True,
    linear_in=(0, 1, 2),
    samples=_barrier_samples,
    multiple=True,
    doc="The same values, computed together: compiled programs do not fuse across it.",
)


# ---------------------------------------------------------------------------------- names


def _name_jvp(primals: Any, tangents: Any, *, name: str) -> Any:
    (x,), (t,) = primals, tangents
    return named(x, name=name), t  # the value is named, not its tangent


def _name_samples() -> Iterable[Sample]:
    for x in _draws("f4", "c16", "i8", "?"):
        yield Sample((x,), {"name": "kept"})


named = Primitive(
    name="name",
    lower=Pointwise(elements.same, "biufc"),
    impl=lambda x, name: x if type(x) in PYTHON_SCALARS else x.copy(),
    type=lambda x, *, name: x,
    jvp=_name_jvp,
    transpose=lambda ct, x, name: (ct,),
    batch=lambda axis, values, dims, name: (named(*values, name=name), dims[0]),
    mask="same",
    zeros=True,
    linear_in=(0,),
    label=lambda name: name,
    samples=_name_samples,
    doc="The same values, under a name that policies of `checkpoint` know them by.",
)

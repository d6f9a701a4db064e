"""Elementwise rows without a tangent, and those that choose: comparisons, bits, select, clamp.

The lowest of the three elementwise files: what is here needs no arithmetic. `select` masks the
cotangents of the side it did not take. Arithmetic is in arithmetic.py, functions are in
elementwise.py, which also offers everything of the other two under one name.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lower import Pointwise
from ftrace.core.primitive import NONDIFFERENTIABLE, ErrorSample, Linear, Primitive, Rule, Sample
from ftrace.core.zero import ZERO, Masked
from ftrace.primitives import elements
from ftrace.primitives.families import (
    ANY,
    BITS,
    FLOATING,
    INTEGER,
    ORDERED,
    REAL,
    Reals,
    adapted,
    binary,
    compare,
    constant,
    unary,
)
from ftrace.primitives.linear import (
    NO_TRANSPOSE,
    add,
    batch_elementwise,
    check_kinds,
    collapse,
    join,
    join_shapes,
    spread,
)

# ---------------------------------------------------------------------------------- comparisons


eq = compare("eq", operator.eq, ANY, doc="x == y, elementwise.")
ne = compare("ne", operator.ne, ANY, doc="x != y, elementwise.")
lt = compare("lt", operator.lt, ANY, doc="x < y, elementwise.")
le = compare("le", operator.le, ANY, doc="x <= y, elementwise.")
gt = compare("gt", operator.gt, ANY, doc="x > y, elementwise.")
ge = compare("ge", operator.ge, ANY, doc="x >= y, elementwise.")


def _boolean(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtypes.bool_


isnan = unary(
    "isnan",
    np.isnan,
    ANY,
    jvp=NONDIFFERENTIABLE,
    out=_boolean,
    lower=Pointwise(elements.isnan),
    doc="Whether x is NaN (in either part), elementwise.",
)
isinf = unary(
    "isinf",
    np.isinf,
    ANY,
    jvp=NONDIFFERENTIABLE,
    out=_boolean,
    lower=Pointwise(elements.isinf),
    doc="Whether x is infinite (in either part), elementwise.",
)
isfinite = unary(
    "isfinite",
    np.isfinite,
    ANY,
    jvp=NONDIFFERENTIABLE,
    out=_boolean,
    lower=Pointwise(elements.isfinite),
    doc="Whether x is neither infinite nor NaN, elementwise.",
)
signbit = unary(
    "signbit",
    np.signbit,
    REAL,
    jvp=NONDIFFERENTIABLE,
    out=_boolean,
    doc="Whether the sign bit of x is set: true for -0.0 too.",
)

# ---------------------------------------------------------------------------------- rounding

floor = unary(
    "floor",
    np.floor,
    REAL,
    jvp=NONDIFFERENTIABLE,
    doc="The largest integer not above x, as a float.",
)
ceil = unary(
    "ceil",
    np.ceil,
    REAL,
    jvp=NONDIFFERENTIABLE,
    doc="The smallest integer not below x, as a float.",
)
trunc = unary(
    "trunc",
    np.trunc,
    REAL,
    jvp=NONDIFFERENTIABLE,
    doc="The integer next to x towards zero, as a float.",
)
round = unary(
    "round",
    np.rint,
    FLOATING,
    jvp=NONDIFFERENTIABLE,
    doc="The integer nearest to x as a float, ties to even; complex numbers by parts.",
)

# ---------------------------------------------------------------------------------- bits

bitwise_and = binary(
    "and",
    operator.and_,
    BITS,
    jvp=NONDIFFERENTIABLE,
    weak=True,
    doc="Bits set in x and y; for booleans, both.",
)
bitwise_or = binary(
    "or",
    operator.or_,
    BITS,
    jvp=NONDIFFERENTIABLE,
    weak=True,
    doc="Bits set in x or in y; for booleans, either.",
)
bitwise_xor = binary(
    "xor",
    operator.xor,
    BITS,
    jvp=NONDIFFERENTIABLE,
    weak=True,
    doc="Bits set in one of x and y; for booleans, exactly one.",
)
bitwise_not = unary(
    "not",
    np.bitwise_not,
    BITS,
    jvp=NONDIFFERENTIABLE,
    weak=True,
    doc="All bits flipped; for booleans, the opposite.",
)
and_, or_, xor, not_ = bitwise_and, bitwise_or, bitwise_xor, bitwise_not
shift_left = binary(
    "shift_left",
    operator.lshift,
    INTEGER,
    jvp=NONDIFFERENTIABLE,
    weak=True,
    domains=(Reals(-9, 9), Reals(0, 5)),
    doc="x * 2**y by shifting bits; 0 where y is at least the width.",
)
shift_right = binary(
    "shift_right",
    operator.rshift,
    INTEGER,
    jvp=NONDIFFERENTIABLE,
    weak=True,
    domains=(Reals(-99, 99), Reals(0, 5)),
    doc="x // 2**y by shifting bits; signed integers keep their sign.",
)
gcd = binary(
    "gcd",
    np.gcd,
    INTEGER,
    jvp=NONDIFFERENTIABLE,
    domains=(Reals(-60, 60), Reals(-60, 60)),
    doc="Greatest common divisor, elementwise.",
)
lcm = binary(
    "lcm",
    np.lcm,
    INTEGER,
    jvp=NONDIFFERENTIABLE,
    domains=(Reals(-15, 15), Reals(-15, 15)),
    doc="Least common multiple, elementwise.",
)
population_count = unary(
    "population_count",
    np.bitwise_count,
    INTEGER,
    jvp=NONDIFFERENTIABLE,
    domain=Reals(-99, 99),
    out=lambda dtype: np.dtype(np.uint8),
    doc="The number of bits set in the absolute value of x, as uint8.",
)

# ---------------------------------------------------------------------------------- select


def _select_type(name: str, which: ShapedArray, x: ShapedArray, y: ShapedArray) -> ShapedArray:
    if which.dtype != dtypes.bool_:
        raise DtypeError(f"{name} chooses by a boolean array, not {which}.", "Compare: x != 0.")
    return aval(join_shapes(name, which, x, y), join(name, x, y)[0])


def _select_impl(which: Any, x: Any, y: Any) -> Any:
    cls = type(which)
    if (cls is np.bool_ or cls is bool) and type(x) is type(y) and issubclass(type(x), np.generic):
        chosen: Any = x if which else y
        return chosen[()]
    z = np.where(which, x, y)
    return z if z.ndim else z[()]


def _select_jvp(row: Callable[[], Primitive]) -> Rule:
    def jvp(primals: Any, tangents: Any) -> Any:
        which, x, y = primals
        _, tx, ty = tangents
        z = row()(which, x, y)
        zero = constant(0, z)
        tx = zero if tx is ZERO else adapted(x, tx, z)[1]
        ty = zero if ty is ZERO else adapted(y, ty, z)[1]
        return z, spread(row()(which, tx, ty), z)

    return jvp


def _select_transpose(row: Callable[[], Primitive], branches: bool) -> Rule:
    def transpose(ct: Any, which: Any, x: Any, y: Any) -> Any:
        plain = typeof(ct)
        out: list[Any] = [None]
        for operand, mask in ((x, which), (y, None)):
            if type(operand) is not Linear:
                out.append(None)
                continue
            taken = which if mask is not None else bitwise_not(which)
            if operand.aval.shape == plain.shape:
                masked = Masked(ct, taken)
                masked.branch = branches
                out.append(masked)
            else:
                out.append(collapse(row()(taken, ct, plain.dtype.type(0)), operand.aval))
        return out

    return transpose


def _select_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(5)
    a = rng.normal(size=(2, 3))
    yield Sample((a > 0, a, a * 2), {})
    yield Sample((a[0] > 0, a[0], a[1]), {})
    yield Sample((np.bool_(True), a, a * 2), {})
    yield Sample((a > 0, a, np.float64(2)), {})
    yield Sample((a > 0, np.float64(2), a), {})
    yield Sample((a > 0, np.float64(2), np.float64(3)), {})
    yield Sample((np.bool_(False), np.float64(1), np.float64(2)), {})
    yield Sample((a.T > 0, a.T, a.T * 2), {})
    yield Sample((np.zeros((0, 2), bool), np.zeros((0, 2)), np.zeros((0, 2))), {})
    for name in ("i8", "c16", "f4", "?"):
        yield Sample((a[0] > 0, a[0].astype(name), a[1].astype(name)), {})


def _select_errors() -> Iterable[ErrorSample]:
    x = np.ones(3)
    yield ErrorSample((x, x, x), {}, DtypeError, "chooses by a boolean array")
    yield ErrorSample((x > 0, x, x.astype("f4")), {}, DtypeError, "Primitives do not promote")
    yield ErrorSample((x > 0, x, x[:2]), {}, ShapeError, "Primitives do not broadcast")


def _select_row(name: str, row: Callable[[], Primitive], *, branches: bool, doc: str) -> Primitive:
    return Primitive(
        name=name,
        lower=Pointwise("select"),
        impl=_select_impl,
        type=lambda which, x, y: _select_type(name, which, x, y),
        jvp=_select_jvp(row),
        transpose=_select_transpose(row, branches),
        batch=lambda axis, values, dims: batch_elementwise(row(), axis, values, dims),
        mask="same",
        zeros=True,
        linear_in=(1, 2),
        calm=True,
        samples=_select_samples,
        errors=_select_errors,
        doc=doc,
    )


select = _select_row(
    "select",
    lambda: select,
    branches=False,
    doc="x where `which` is true, y elsewhere. The side not taken contributes exactly zero to "
    "any derivative, even where its own derivative is infinite or NaN.",
)
select_branch = _select_row(
    "select_branch",
    lambda: select_branch,
    branches=True,
    doc="`select` between the results of branches, of which each batch element takes one. What it "
    "computed in another branch may be infinite, and reaches no derivative that batch elements "
    "share.",
)

# ---------------------------------------------------------------------------------- clamp


def _clamp_type(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
    dtype, _ = join("clamp", low, x, high)
    check_kinds("clamp", ORDERED, aval((), dtype))
    return aval(join_shapes("clamp", x, low, high), dtype)


def _clamp_jvp(primals: Any, tangents: Any) -> Any:
    """As JAX: the operand inside the bounds, a bound beyond it; nothing at a bound itself."""
    low, x, high = primals
    z = clamp(low, x, high)
    zero = constant(0, z)
    tests = (
        lambda: bitwise_and(gt(low, x), lt(low, high)),
        lambda: bitwise_and(gt(x, low), lt(x, high)),
        lambda: lt(high, x),
    )
    terms = [
        spread(select(test(), adapted(p, t, z)[1], zero), z)
        for test, p, t in zip(tests, primals, tangents, strict=True)
        if t is not ZERO
    ]
    total = terms[0]
    for term in terms[1:]:
        total = add(total, term)
    return z, total


def _clamp_impl(low: Any, x: Any, high: Any) -> Any:
    dtype = np.result_type(low, x, high)
    return np.minimum(np.maximum(x, low, dtype=dtype), high, dtype=dtype)


def _clamp_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(6)
    x = rng.uniform(-3, 3, size=(2, 3))
    low, high = np.float64(-1), np.float64(1.5)
    for a in (x, x[0], x.T[::2], np.float64(0.5), np.float64(2), np.zeros((0, 2))):
        yield Sample((low, a, high), {})
    yield Sample((x * 0.1 - 1, x, x * 0.1 + 1), {})
    yield Sample((low, x, x * 0.1 + 1), {})
    yield Sample((x * 0.1 - 1, np.float64(2), high), {})
    for name in ("i8", "f4", "i1", "?"):
        yield Sample(tuple(np.asarray(a).astype(name)[()] for a in (low, x, high)), {})


def _clamp_errors() -> Iterable[ErrorSample]:
    x = np.ones(3)
    c = np.ones(3, complex)
    yield ErrorSample((c, c, c), {}, DtypeError, "clamp is not defined for complex128")
    yield ErrorSample((x, x.astype("f4"), x), {}, DtypeError, "Primitives do not promote")
    yield ErrorSample((x[:2], x, x), {}, ShapeError, "Primitives do not broadcast")


clamp = Primitive(
    name="clamp",
    lower=Pointwise(elements.clamp),
    impl=_clamp_impl,
    type=_clamp_type,
    jvp=_clamp_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims: batch_elementwise(clamp, axis, values, dims),
    zeros=True,
    decides=lambda v, y, p: [np.sign(v[1] - v[0]), np.sign(v[1] - v[2])],
    samples=_clamp_samples,
    errors=_clamp_errors,
    doc="x held between two bounds: clamp(low, x, high) = min(max(x, low), high).",
)

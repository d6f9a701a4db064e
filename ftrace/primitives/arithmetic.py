"""Elementwise rows of arithmetic: sums and products, remainders, signs, larger and smaller, parts.

Complex numbers follow JAX's convention: cotangents are not conjugated, so the transpose of `real`
puts a cotangent in the real part, that of `imag` its negative in the imaginary part. Comparisons
and select are in compare.py, powers and functions in elementwise.py.
"""

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import SCALAR_AVALS, ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lower import Pointwise
from ftrace.core.primitive import (
    LINEAR,
    NONDIFFERENTIABLE,
    ErrorSample,
    Primitive,
    Rule,
    Sample,
    smooth,
)
from ftrace.core.zero import ZERO
from ftrace.primitives import elements
from ftrace.primitives.compare import (
    bitwise_or,
    eq,
    ge,
    gt,
    isnan,
    le,
    lt,
    round,
    select,
    signbit,
)
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.families import (
    ANY,
    FLOATING,
    NUMBER,
    REAL,
    Reals,
    binary,
    constant,
    elementwise_errors,
    elementwise_samples,
    unary,
)
from ftrace.primitives.linear import (
    NO_TRANSPOSE,
    batch_elementwise,
    check_kinds,
    collapse,
    join_shapes,
)

COMPLEX = "c"
DIVISOR = Reals(0.5, 2)

# ---------------------------------------------------------------------------------- arithmetic

neg = unary(
    "neg",
    operator.neg,
    NUMBER,
    jvp=LINEAR,
    transpose=lambda ct, x: neg(ct),
    weak=True,
    doc="-x, elementwise.",
)
sub = binary(
    "sub",
    operator.sub,
    NUMBER,
    jvp=(lambda t, z, x, y: t, lambda t, z, x, y: neg(t)),
    transpose=(lambda ct, y: ct, lambda ct, x: neg(ct)),
    weak=True,
    doc="x - y, elementwise.",
)


def _alone(ct: Any, factor: Any) -> Any:
    """The factor as a cotangent, where it is multiplied by the one that a gradient begins with."""
    cls = type(ct)
    if cls not in SCALAR_AVALS or ct != 1:
        return None
    if type(factor) is float:
        return cls(factor)
    given, wanted = typeof(factor), SCALAR_AVALS[cls]
    if given == wanted:
        return factor
    if given.weak and given.dtype == wanted.dtype:
        return convert_element_type(factor, new_dtype=wanted.dtype)
    return None


def _cotangents(product: Rule) -> tuple[Rule, Rule]:
    """The transpose of a product by each of its factors."""

    def by_first(ct: Any, y: Any) -> Any:
        found = _alone(ct, y)
        return product(ct, y) if found is None else found

    def by_second(ct: Any, x: Any) -> Any:
        found = _alone(ct, x)
        return product(x, ct) if found is None else found

    return by_first, by_second


mul = binary(
    "mul",
    operator.mul,
    ANY,
    jvp=(lambda t, z, x, y: mul(t, y), lambda t, z, x, y: mul(x, t)),
    transpose=_cotangents(lambda x, y: mul(x, y)),
    bilinear=True,
    weak=True,
    doc="x * y, elementwise.",
)
steep_mul = binary(
    "steep_mul",
    operator.mul,
    ANY,
    jvp=(lambda t, z, x, y: mul(t, y), lambda t, z, x, y: mul(x, t)),
    transpose=_cotangents(lambda x, y: steep_mul(x, y)),
    bilinear=True,
    steep=(0, 1),
    weak=True,
    lower=Pointwise("mul"),
    doc="x * y for a tangent and a slope that may be infinite where the function is finite.",
)
div = binary(
    "div",
    operator.truediv,
    FLOATING,
    jvp=(
        lambda t, z, x, y: div(t, y),
        lambda t, z, x, y: neg(steep_mul(t, div(z, y))),
        lambda tx, ty, z, x, y: div(sub(tx, steep_mul(z, ty)), y),  # one division, not two
    ),
    transpose=(lambda ct, y: div(ct, y), None),
    steep=(1,),
    weak=True,
    domains=(Reals(), DIVISOR),
    doc="x / y, elementwise, for floats and complex numbers.",
)
floor_divide = binary(
    "floor_divide",
    operator.floordiv,
    "iuf",
    jvp=NONDIFFERENTIABLE,
    weak=True,
    domains=(Reals(-9, 9), Reals(1, 3)),
    doc="floor(x / y), elementwise.",
)
mod = binary(
    "mod",
    operator.mod,
    "iuf",
    jvp=(lambda t, z, x, y: t, lambda t, z, x, y: neg(mul(t, floor_divide(x, y)))),
    weak=True,
    domains=(Reals(-9, 9), Reals(1, 3)),
    decides=lambda v, z, p: np.floor(v[0] / v[1]),
    doc="x - floor(x / y) * y, elementwise: the remainder with the sign of y.",
)
rem = binary(
    "rem",
    np.fmod,
    "iuf",
    jvp=(
        lambda t, z, x, y: t,
        lambda t, z, x, y: neg(mul(t, round(div(sub(x, z), y)))),
    ),
    domains=(Reals(-9, 9), Reals(1, 3)),
    decides=lambda v, z, p: np.floor(v[0] / v[1]),
    doc="x - trunc(x / y) * y, elementwise: the remainder with the sign of x.",
)

# ---------------------------------------------------------------------------------- larger


def _chosen(better: Rule, better_or_equal: Rule) -> Rule:
    """The tangent of the operand that is chosen; half of it at a tie."""

    def rule(t: Any, x: Any, y: Any) -> Any:
        share = select(better(x, y), constant(1, t), constant(0.5, t))
        return select(better_or_equal(x, y), mul(t, share), constant(0, t))

    return rule


def _chosen_number(better: Rule, better_or_equal: Rule) -> Rule:
    """The same where a NaN beside a number is not chosen."""

    def rule(t: Any, x: Any, y: Any) -> Any:
        other_nan = isnan(y)
        taken = bitwise_or(better_or_equal(x, y), other_nan)
        alone = bitwise_or(better(x, y), other_nan)
        share = select(alone, constant(1, t), constant(0.5, t))
        return select(taken, mul(t, share), constant(0, t))

    return rule


def _symmetric(rule: Rule) -> tuple[Rule, Rule]:
    """One rule for both operands of a commutative row."""
    return (lambda t, z, x, y: rule(t, x, y), lambda t, z, x, y: rule(t, y, x))


def _which(operands: Any, results: Any, params: Any) -> Any:
    """Which operand is the larger one."""
    return np.sign(operands[0] - operands[1])


max = binary(
    "max",
    np.maximum,
    ANY,
    jvp=_symmetric(_chosen(gt, ge)),
    decides=_which,
    doc="The larger of x and y, NaN if either is. At a tie each has half of the derivative.",
)
min = binary(
    "min",
    np.minimum,
    ANY,
    jvp=_symmetric(_chosen(lt, le)),
    decides=_which,
    doc="The smaller of x and y, NaN if either is. At a tie each has half of the derivative.",
)
fmax = binary(
    "fmax",
    np.fmax,
    ANY,
    jvp=_symmetric(_chosen_number(gt, ge)),
    decides=_which,
    doc="The larger of x and y, ignoring a NaN beside a number.",
)
fmin = binary(
    "fmin",
    np.fmin,
    ANY,
    jvp=_symmetric(_chosen_number(lt, le)),
    decides=_which,
    doc="The smaller of x and y, ignoring a NaN beside a number.",
)

# ---------------------------------------------------------------------------------- signs


def _nonzero(r: Any) -> Any:
    """r with 1 in place of 0: a safe divisor."""
    return select(eq(r, constant(0, r)), constant(1, r), r)


def _abs_jvp(t: Any, y: Any, x: Any) -> Any:
    if typeof(x).dtype.kind == "c":
        return div(real(mul(t, conj(x))), _nonzero(y))
    return select(ge(x, constant(0, x)), t, neg(t))


def _sign_jvp(t: Any, y: Any, x: Any) -> Any:
    """None for reals; a complex x / |x| turns with the part of t across it."""
    if typeof(x).dtype.kind != "c":
        return ZERO
    turn = div(imag(mul(conj(y), t)), _nonzero(abs(x)))
    return mul(y, complex(constant(0, turn), turn))


abs = unary(
    "abs",
    np.abs,
    ANY,
    jvp=_abs_jvp,
    out=dtypes.real_dtype,
    weak=True,
    decides=lambda v, y, p: np.sign(v[0]),
    doc="Absolute value, of complex numbers the modulus. The derivative at 0 is 1 (complex: 0).",
)
sign = unary(
    "sign",
    np.sign,
    NUMBER,
    jvp=_sign_jvp,
    lower=Pointwise(elements.sign, "iuf"),
    decides=lambda v, y, p: y[0],
    doc="-1, 0 or 1 by the sign of x; x / |x| for complex numbers.",
)
copysign = binary(
    "copysign",
    np.copysign,
    REAL,
    jvp=(lambda t, z, x, y: select(eq(signbit(x), signbit(y)), t, neg(t)), None),
    decides=lambda v, z, p: np.sign(v[1]),
    doc="The magnitude of x with the sign of y.",
)
nextafter = binary(
    "nextafter",
    np.nextafter,
    REAL,
    jvp=(lambda t, z, x, y: t, None),
    doc="The next float after x towards y.",
)
heaviside = binary(
    "heaviside",
    np.heaviside,
    REAL,
    jvp=(None, lambda t, z, x, y: select(eq(x, constant(0, x)), t, constant(0, t))),
    points=(),
    decides=lambda v, z, p: np.sign(v[0]),
    doc="0 where x < 0, y where x == 0, 1 where x > 0.",
)
spacing = unary(
    "spacing",
    np.spacing,
    REAL,
    jvp=NONDIFFERENTIABLE,
    decides=smooth,
    doc="The distance from x to the next float away from zero.",
)

# ---------------------------------------------------------------------------------- complex parts


def _join_parts(re: Any, im: Any) -> Any:
    dtype = dtypes.complex_dtype(np.result_type(re, im))
    out = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), dtype)
    out.real, out.imag = re, im
    return out if out.ndim else out[()]


real = unary(
    "real",
    lambda x: np.real(np.asarray(x))[()],
    COMPLEX,
    jvp=LINEAR,
    transpose=lambda ct, x: complex(ct, constant(0, ct)),
    out=dtypes.real_dtype,
    lower=Pointwise(elements.real, "fc"),
    doc="The real part of a complex array.",
)
imag = unary(
    "imag",
    lambda x: np.imag(np.asarray(x))[()],
    COMPLEX,
    jvp=LINEAR,
    transpose=lambda ct, x: complex(constant(0, ct), neg(ct)),
    out=dtypes.real_dtype,
    lower=Pointwise(elements.imag, "c"),
    doc="The imaginary part of a complex array.",
)
conj = unary(
    "conj",
    np.conjugate,
    NUMBER,
    jvp=LINEAR,
    transpose=lambda ct, x: conj(ct),
    lower=Pointwise(elements.conj, "fc"),
    doc="The complex conjugate; a copy for real dtypes.",
)
complex = binary(
    "complex",
    _join_parts,
    REAL,
    jvp=LINEAR,
    transpose=(lambda ct, im: real(ct), lambda ct, re: neg(imag(ct))),
    out=dtypes.complex_dtype,
    lower=Pointwise(elements.make_complex, "f"),
    doc="A complex array from its real and imaginary parts.",
)

# ---------------------------------------------------------------------------------- exponents


def _ldexp_type(x: ShapedArray, n: ShapedArray) -> ShapedArray:
    check_kinds("ldexp", REAL, x)
    check_kinds("ldexp", "i", n)
    return aval(join_shapes("ldexp", x, n), x.dtype)


def _ldexp_jvp(primals: Any, tangents: Any) -> Any:
    x, n = primals
    return ldexp(x, n), ldexp(tangents[0], n)


def _ldexp_transpose(ct: Any, x: Any, n: Any) -> Any:
    return collapse(ldexp(ct, n), x.aval), None


def _ldexp_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(2, 3))
    n = rng.integers(-3, 4, size=(2, 3))
    for a, b in ((x, n), (x[0], n[1]), (x, n[0, 0]), (x[0, 0], n), (x.T[::2], n.T[::2])):
        yield Sample((a, b), {})
    yield Sample((np.float64(1.5), np.int64(2)), {})
    yield Sample((np.zeros((0, 2)), np.zeros((0, 2), int)), {})
    for name, integer in (("f4", "i4"), ("f2", "i8"), ("f8", "i1")):
        yield Sample((x.astype(name), n.astype(integer)), {})


def _ldexp_errors() -> Iterable[ErrorSample]:
    x, n = np.ones(3), np.ones(3, int)
    yield ErrorSample((n, n), {}, DtypeError, "ldexp is not defined for int64")
    yield ErrorSample((x, x), {}, DtypeError, "ldexp is not defined for float64")
    yield ErrorSample((x, n[:2]), {}, ShapeError, "Primitives do not broadcast")


ldexp = Primitive(
    name="ldexp",
    impl=np.ldexp,
    type=_ldexp_type,
    jvp=_ldexp_jvp,
    transpose=_ldexp_transpose,
    batch=lambda axis, values, dims: batch_elementwise(ldexp, axis, values, dims),
    mask="same",
    linear_in=(0,),
    samples=_ldexp_samples,
    errors=_ldexp_errors,
    doc="x * 2**n for integers n, exactly.",
)


def _pair(
    name: str, impl: Rule, second: Any, jvp: Rule, doc: str, decides: Rule | None = None
) -> Primitive:
    """A row that takes floats apart into two arrays; only the first has a tangent."""

    def type_rule(x: ShapedArray) -> tuple[ShapedArray, ShapedArray]:
        check_kinds(name, REAL, x)
        return aval(x.shape, x.dtype), aval(x.shape, second or x.dtype)

    def jvp_rule(primals: Any, tangents: Any) -> Any:
        first, other = row(*primals)
        return [first, other], [jvp(tangents[0], other), ZERO]

    row = Primitive(
        name=name,
        impl=impl,
        type=type_rule,
        jvp=jvp_rule,
        transpose=NO_TRANSPOSE,
        batch=lambda axis, values, dims: (row(*values), [dims[0], dims[0]]),
        samples=elementwise_samples(REAL, (Reals(-9, 9),)),
        errors=elementwise_errors(REAL, 1),
        decides=decides,
        doc=doc,
        multiple=True,
    )
    return row


frexp = _pair(
    "frexp",
    np.frexp,
    np.dtype(np.int32),
    lambda t, n: ldexp(t, neg(n)),
    doc="(m, n) with x = m * 2**n and 0.5 <= |m| < 1.",
)
modf = _pair(
    "modf",
    np.modf,
    None,
    lambda t, n: t,
    doc="The fractional and the integral part of x, both with its sign.",
    decides=lambda v, y, p: np.trunc(v[0]),
)

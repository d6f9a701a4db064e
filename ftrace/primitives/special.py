"""Special functions: the error function, gamma and Bessel families, through SciPy.

SciPy is imported at the first call, not before. Derivative rules stay within the rows of this
file, so they can be differentiated again: digamma leads to polygamma, Bessel functions to those
of neighbouring orders. Elementary functions are in elementwise.py.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, RuleError, ShapeError
from ftrace.core.lazy import Lazy, lazy
from ftrace.core.lower import Gufunc, Pointwise, elementwise_call
from ftrace.core.primitive import ErrorSample, Primitive, Rule, Sample
from ftrace.core.zero import ZERO
from ftrace.primitives import elements
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.elementwise import div, exp, log, mul, neg, sign, square, steep_mul, sub
from ftrace.primitives.families import FLOATING, REAL, Reals, binary, constant, unary
from ftrace.primitives.linear import (
    NO_TRANSPOSE,
    add,
    batch_elementwise,
    check_kinds,
    join,
    join_shapes,
    spread,
)

POSITIVE = Reals(0.3, 4)


def of_scipy(name: str) -> Rule:
    """A function of scipy.special whose result has the dtype of its operands."""
    fn = lazy("scipy.special", name)

    def evaluate(*args: Any) -> Any:
        y = fn(*args)
        dtype = np.result_type(*args)
        return y if y.dtype == dtype else y.astype(dtype)

    return evaluate


# ---------------------------------------------------------------------------------- erf

TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
HALF_ROOT_PI = math.sqrt(math.pi) / 2
ROOT_TWO_PI = math.sqrt(2 * math.pi)

erf = unary(
    "erf",
    of_scipy("erf"),
    FLOATING,
    jvp=lambda t, y, x: mul(t, mul(exp(neg(square(x))), TWO_OVER_ROOT_PI)),
    points=(0.0,),
    doc="The error function, elementwise.",
)
erfc = unary(
    "erfc",
    of_scipy("erfc"),
    FLOATING,
    jvp=lambda t, y, x: mul(t, mul(exp(neg(square(x))), -TWO_OVER_ROOT_PI)),
    doc="1 - erf(x), precise for large x.",
)
erf_inv = unary(
    "erf_inv",
    of_scipy("erfinv"),
    REAL,
    jvp=lambda t, y, x: steep_mul(t, mul(exp(square(y)), HALF_ROOT_PI)),
    domain=Reals(-0.9, 0.9),
    points=(0.0,),
    doc="The inverse of the error function, elementwise.",
)
ndtri = unary(
    "ndtri",
    of_scipy("ndtri"),
    REAL,
    jvp=lambda t, y, x: steep_mul(t, mul(exp(mul(square(y), 0.5)), ROOT_TWO_PI)),
    domain=Reals(0.1, 0.9),
    points=(0.5,),
    doc="The inverse of the normal distribution function, elementwise.",
)
log_ndtr = unary(
    "log_ndtr",
    of_scipy("log_ndtr"),
    REAL,
    jvp=lambda t, y, x: mul(t, div(exp(sub(mul(square(x), -0.5), y)), ROOT_TWO_PI)),
    domain=Reals(-5, 5),
    doc="The logarithm of the normal distribution function, elementwise.",
)


def _logistic_impl(x: Any) -> Any:
    if np.iscomplexobj(x):
        return 1 / (1 + np.exp(-x))
    return _expit(x)


_expit = of_scipy("expit")
logistic = unary(
    "logistic",
    _logistic_impl,
    FLOATING,
    jvp=lambda t, y, x: mul(t, mul(y, sub(1.0, y))),
    points=(0.0,),
    doc="1 / (1 + exp(-x)), elementwise.",
)

# ---------------------------------------------------------------------------------- gamma

gamma = unary(
    "gamma",
    of_scipy("gamma"),
    REAL,
    jvp=lambda t, y, x: steep_mul(t, mul(y, digamma(x))),
    domain=POSITIVE,
    doc="The gamma function, elementwise.",
)
lgamma = unary(
    "lgamma",
    of_scipy("gammaln"),
    REAL,
    jvp=lambda t, y, x: steep_mul(t, digamma(x)),
    domain=POSITIVE,
    doc="The logarithm of the absolute value of the gamma function.",
)
digamma = unary(
    "digamma",
    of_scipy("psi"),
    REAL,
    jvp=lambda t, y, x: steep_mul(t, polygamma(np.int64(1), x)),
    domain=POSITIVE,
    doc="The derivative of lgamma, elementwise.",
)


def with_parameter(
    name: str,
    impl: Rule,
    rule: Rule,
    doc: str,
    ufunc: Lazy | None = None,
    by_parameter: Rule | None = None,
) -> Primitive:
    """A row of a parameter and an operand, differentiable by the operand, and perhaps by both.

    The parameter is of any signed integer dtype, or of the operand's. The derivative is
    `rule: (t, z, p, x) -> tangent`. In compiled programs `ufunc` computes it, or `impl`.
    """

    def type_rule(p: ShapedArray, x: ShapedArray) -> ShapedArray:
        check_kinds(name, REAL, x)
        check_kinds(name, "if", p)
        dtype = x.dtype if p.dtype.kind == "i" else join(name, p, x)[0]
        return aval(join_shapes(name, p, x), dtype)

    def evaluate(p: Any, x: Any) -> Any:
        dtype = typeof(x).dtype
        y = impl(np.asarray(p, dtype)[()], x)
        return y if y.dtype == dtype else y.astype(dtype)

    def jvp(primals: Any, tangents: Any) -> Any:
        p, x = primals
        to_p, to_x = tangents
        if to_p is not ZERO and by_parameter is None:
            raise RuleError(
                f"{name} has no derivative by its first operand in closed form.",
                "Apply stop_gradient to that operand, or differentiate by the second only.",
            )
        z = row(p, x)
        if to_p is ZERO:
            return z, rule(to_x, z, p, x)
        moved = by_parameter(to_p, z, p, x)  # type: ignore[misc]
        return z, spread(moved if to_x is ZERO else add(moved, rule(to_x, z, p, x)), z)

    row = Primitive(
        name=name,
        impl=evaluate,
        type=type_rule,
        jvp=jvp,
        transpose=NO_TRANSPOSE,
        batch=lambda axis, values, dims: batch_elementwise(row, axis, values, dims),
        zeros=True,
        lower=_loop(ufunc or impl),
        samples=_parameter_samples,
        errors=_parameter_errors,
        doc=doc,
    )
    return row


def _loop(ufunc: Rule) -> Gufunc | None:
    """SciPy's compiled loop, given the parameter in the dtype of the operand."""
    if not isinstance(ufunc, Lazy):
        return None
    module, name = ufunc.module, ufunc.name
    return Gufunc(lambda avals: elementwise_call(module, name, (avals[1].dtype,) * 2, (0,)))


def _parameter_samples() -> Iterable[Sample]:
    """Whole parameters: no derivative is asked by those."""
    rng = np.random.default_rng(14)
    whole = np.arange(2, 5)
    x = POSITIVE.draw(rng, (3,), "f8")
    yield Sample((whole, x), {})
    for p in (2, 3, 4):
        yield Sample((np.int64(p), POSITIVE.draw(rng, (2, 3), "f8")), {})
    yield Sample((whole, np.float64(1.5)), {})
    yield Sample((np.int32(2), np.float64(1.5)), {})
    yield Sample((np.int8(2), POSITIVE.draw(rng, (3, 4), "f8").T[::2]), {})
    yield Sample((np.zeros((0, 2), int), np.zeros((0, 2))), {})
    yield Sample((whole, x.astype("f4")), {})


def _parameter_errors() -> Iterable[ErrorSample]:
    x, p = np.ones(3), np.ones(3, int)
    yield ErrorSample((x.astype(complex), x), {}, DtypeError, "is not defined for complex128")
    yield ErrorSample((p, p), {}, DtypeError, "is not defined for int64")
    yield ErrorSample((x.astype("f4"), x), {}, DtypeError, "Primitives do not promote")
    yield ErrorSample((p[:2], x), {}, ShapeError, "Primitives do not broadcast")


def _shifted(p: Any, by: int) -> Any:
    """The parameter plus a whole number."""
    return add(p, constant(by, p)) if by > 0 else sub(p, constant(-by, p))


def _polygamma_impl(m: Any, x: Any) -> Any:
    """(-1)**(m + 1) * m! * zeta(m + 1, x), in double precision; digamma where m is 0."""
    n = np.asarray(m, np.float64) + 1
    y = _zeta(n, np.asarray(x, np.float64)) * _gamma(n)
    y = np.where(n == 1, _psi(x), np.where(n % 2, -y, y))
    return np.where(n % 1, np.nan, y)[()]


_zeta, _gamma, _psi = (lazy("scipy.special", name) for name in ("zeta", "gamma", "psi"))
polygamma = with_parameter(
    "polygamma",
    _polygamma_impl,
    lambda t, z, m, x: steep_mul(t, polygamma(_shifted(m, 1), x)),
    doc="The m-th derivative of digamma at x, for whole m >= 0: polygamma(m, x).",
)
zeta = with_parameter(
    "zeta",
    _zeta,
    lambda t, z, s, q: neg(steep_mul(t, mul(zeta(_shifted(s, 1), q), _as_operand(s, q)))),
    doc="Hurwitz' zeta function zeta(s, q): the sum of (q + k)**-s over k = 0, 1, 2, ...",
    ufunc=lazy("scipy.special._ufuncs", "_zeta"),
)


def _as_operand(p: Any, x: Any) -> Any:
    """The parameter in the dtype of the operand."""
    return convert_element_type(p, new_dtype=typeof(x).dtype)


def gamma_density(a: Any, x: Any) -> Any:
    """x**(a - 1) * exp(-x) / gamma(a), the derivative of `igamma` by x."""
    a = _as_operand(a, x)
    return exp(sub(sub(xlogy(sub(a, constant(1, a)), x), x), lgamma(a)))


xlogy = binary(
    "xlogy",
    of_scipy("xlogy"),
    REAL,
    jvp=(
        lambda t, z, x, y: steep_mul(t, log(y)),
        lambda t, z, x, y: steep_mul(t, div(x, y)),
    ),
    domains=(Reals(), POSITIVE),
    lower=Pointwise(elements.xlogy, "f"),
    doc="x * log(y), which is 0 where x is 0.",
)

# ---------------------------------------------------------------------------------- Bessel


def _scaled(t: Any, y: Any, x: Any, below: Any, above: Any) -> Any:
    """The derivative of exp(-|x|) * I(x): that of I by the neighbours, minus sign(x) * y."""
    return mul(t, sub(mul(add(below, above), 0.5), mul(sign(x), y)))


i0 = unary(
    "i0",
    of_scipy("i0"),
    REAL,
    jvp=lambda t, y, x: mul(t, i1(x)),
    points=(0.0,),
    doc="Modified Bessel function of the first kind, order 0.",
)
i1 = unary(
    "i1",
    of_scipy("i1"),
    REAL,
    jvp=lambda t, y, x: mul(t, mul(add(i0(x), bessel_iv(np.int64(2), x)), 0.5)),
    points=(0.0,),
    doc="Modified Bessel function of the first kind, order 1.",
)
i0e = unary(
    "i0e",
    of_scipy("i0e"),
    REAL,
    jvp=lambda t, y, x: mul(t, sub(i1e(x), mul(sign(x), y))),
    domain=Reals(0.2, 3),
    doc="exp(-|x|) * i0(x). The derivative at 0 is 0.",
)
i1e = unary(
    "i1e",
    of_scipy("i1e"),
    REAL,
    jvp=lambda t, y, x: _scaled(t, y, x, i0e(x), bessel_ive(np.int64(2), x)),
    domain=Reals(0.2, 3),
    doc="exp(-|x|) * i1(x).",
)
bessel_iv = with_parameter(
    "bessel_iv",
    lazy("scipy.special", "iv"),
    lambda t, z, v, x: mul(
        t, mul(add(bessel_iv(_shifted(v, -1), x), bessel_iv(_shifted(v, 1), x)), 0.5)
    ),
    doc="Modified Bessel function of the first kind of order v: bessel_iv(v, x).",
)
bessel_ive = with_parameter(
    "bessel_ive",
    lazy("scipy.special", "ive"),
    lambda t, z, v, x: _scaled(
        t, z, x, bessel_ive(_shifted(v, -1), x), bessel_ive(_shifted(v, 1), x)
    ),
    doc="exp(-|x|) * bessel_iv(v, x).",
)
bessel_jv = with_parameter(
    "bessel_jv",
    lazy("scipy.special", "jv"),
    lambda t, z, v, x: mul(
        t, mul(sub(bessel_jv(_shifted(v, -1), x), bessel_jv(_shifted(v, 1), x)), 0.5)
    ),
    doc="Bessel function of the first kind of order v: bessel_jv(v, x).",
)

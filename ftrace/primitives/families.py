"""Row constructors: what all unary, binary, comparing and moving primitives share.

A family fills in the type rule, batching, symbolic zeros, rank-0 broadcasting of tangents and
cotangents, the mask column and the samples, so that a row says only what is particular to it.
Primitives never broadcast arrays against each other: operands have one shape, or rank 0.
Weak operands (Python scalars) adapt to the dtype they meet; `weak=True` rows of two weak
operands give a Python scalar, as Python's operators do.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lazy import Lazy
from ftrace.core.lower import Gufunc, Pointwise, elementwise_call
from ftrace.core.primitive import (
    NONDIFFERENTIABLE,
    ErrorSample,
    Linear,
    Primitive,
    Rule,
    Sample,
    Unsupported,
    bound,
)
from ftrace.core.records import record
from ftrace.core.scalar import OPS
from ftrace.core.zero import ZERO
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import (
    NO_TRANSPOSE,
    PYTHON_SCALARS,
    add,
    batch_elementwise,
    binary_type,
    check_kinds,
    collapse,
    has_params,
    spread,
    weakly,
    weakly_unary,
)

FLOATING = "fc"
REAL = "f"
NUMBER = "iufc"
ORDERED = "biuf"
INTEGER = "iu"
BITS = "biu"
ANY = "biufc"


@record
class Reals:
    """Where samples of an operand lie: an interval, and integers for integer dtypes."""

    low: float = -2.0
    high: float = 2.0

    def draw(self, rng: "np.random.Generator", shape: tuple[int, ...], dtype: Any) -> Any:
        """Random values of a shape and dtype in the domain."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return rng.random(shape) < 0.5
        if dtype.kind in "iu":
            low = max(0.0, self.low) if dtype.kind == "u" else self.low
            return rng.integers(int(np.ceil(low)), int(self.high) + 1, shape).astype(dtype)
        values = rng.uniform(self.low, self.high, shape)
        if dtype.kind == "c":
            values = values + 1j * rng.uniform(-0.9, 0.9, shape)
        return np.asarray(values).astype(dtype)


ANYWHERE = Reals()
_DTYPE_OF_KIND = {"b": "?", "i": "i8", "u": "u1", "f": "f8", "c": "c16"}


def elementwise_samples(
    kinds: str, domains: Sequence[Reals], points: Sequence[Any] = ()
) -> Callable[[], Iterable[Sample]]:
    """Rank 0, 1, 2, an empty axis, a non-contiguous view, rank-0 partners, each dtype kind.

    Args:
        kinds: dtype kinds to draw.
        domains: where each operand lies.
        points: special values at which the derivative exists; a tuple each for two operands.
    """

    def samples() -> Iterable[Sample]:
        rng = np.random.default_rng(7)
        main = "f8" if "f" in kinds else _DTYPE_OF_KIND[kinds[-1]]
        for shape in ((3,), (), (2, 3), (0, 2)):
            yield Sample(tuple(d.draw(rng, shape, main) for d in domains), {})
        yield Sample(tuple(d.draw(rng, (3, 4), main).T[::2] for d in domains), {})
        if len(domains) == 2:
            x, y = (d.draw(rng, (2, 3), main) for d in domains)
            yield Sample((x, y[0, 0]), {})
            yield Sample((x[0, 0], y), {})
        for kind in kinds:
            if kind != np.dtype(main).kind:
                yield Sample(tuple(d.draw(rng, (4,), _DTYPE_OF_KIND[kind]) for d in domains), {})
        single = "f4" if "f" in kinds else "c8"
        if single[0] in kinds:
            yield Sample(tuple(d.draw(rng, (4,), single) for d in domains), {})
        if points:
            columns = np.array(points, main).reshape(len(points), len(domains)).T
            yield Sample(tuple(columns), {})

    return samples


def elementwise_errors(kinds: str, operands: int) -> Callable[[], Iterable[ErrorSample]]:
    """A dtype the row is not defined for; for several operands, unequal dtypes and shapes."""

    def errors() -> Iterable[ErrorSample]:
        for kind, name in _DTYPE_OF_KIND.items():
            if kind not in kinds:
                x = np.ones(3, name)
                yield ErrorSample((x,) * operands, {}, DtypeError, f"for {x.dtype} operands")
        x = np.ones(3, _DTYPE_OF_KIND[kinds[0]])
        if operands == 2:
            other = np.ones(3, "i4" if kinds[0] != "f" else "f4")
            yield ErrorSample((x, other), {}, DtypeError, "Primitives do not promote")
            yield ErrorSample((x, x[:2]), {}, ShapeError, "Primitives do not broadcast")

    return errors


def constant(value: Any, like: Any) -> Any:
    """A scalar of the dtype of `like`."""
    return typeof(like).dtype.type(value)


def pointwise(name: str) -> Pointwise | None:
    """The scalar operation of a row's name, if there is one."""
    return Pointwise(name) if name in OPS else None


def with_loop(lower: Pointwise | None, impl: Rule, operands: int) -> Pointwise | Gufunc | None:
    """How kernels compute a row; for what they cannot, the compiled loop of the ufunc it is."""
    if isinstance(impl, Lazy):
        call = elementwise_call(impl.module, impl.name, (None,) * operands, (0,))
    elif type(impl) is np.ufunc and getattr(np, impl.__name__, None) is impl:
        call = elementwise_call("numpy", impl.__name__, (None,) * operands, (0,))
    else:
        return lower
    loop = Gufunc(lambda avals, **params: call)
    return loop if lower is None else replace(lower, loop=loop)


# ---------------------------------------------------------------------------------- unary


def unary(
    name: str,
    impl: Rule,
    kinds: str,
    *,
    jvp: Rule | str,
    doc: str,
    domain: Reals = ANYWHERE,
    points: Sequence[float] = (),
    out: Callable[[np.dtype[Any]], np.dtype[Any]] | None = None,
    transpose: Rule | None = None,
    weak: bool = False,
    lower: Pointwise | None = None,
    decides: Rule | None = None,
    samples: Callable[[], Iterable[Any]] | None = None,
) -> Primitive:
    """A row of one operand whose result has its shape. Params go to every rule.

    Args:
        name, impl, decides, doc: as in `Primitive`.
        kinds: dtype kinds it is defined for.
        jvp: `(t, y, x) -> tangent`, LINEAR (then `transpose: (ct, x) -> ct`) or NONDIFFERENTIABLE.
        domain, points: where samples lie.
        out: result dtype from operand dtype (default: the same).
        weak: a Python scalar gives a Python scalar.
    """
    apply: Rule  # the row: see `bound`

    def type_rule(x: ShapedArray) -> ShapedArray:
        if x.dtype.kind not in kinds:
            check_kinds(name, kinds, x)
        if out is None and not x.weak:
            return x
        dtype = x.dtype if out is None else out(x.dtype)
        return aval(x.shape, dtype, x.weak and weak)

    def jvp_rule(primals: Any, tangents: Any, **params: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = apply(x, **params)
        return y, jvp(t, y, x, **params)  # type: ignore[operator]

    def transpose_rule(ct: Any, x: Any, **params: Any) -> Any:
        return (transpose(ct, x, **params),)  # type: ignore[misc]

    row = Primitive(
        name=name,
        impl=weakly_unary(impl) if weak else impl,
        type=(lambda x, **params: type_rule(x)) if has_params(impl) else type_rule,
        jvp=jvp if isinstance(jvp, str) else jvp_rule,
        transpose=transpose_rule if transpose else NO_TRANSPOSE,
        batch=lambda axis, values, dims, **params: (apply(*values, **params), dims[0]),
        mask="same" if transpose else "",
        doc=doc,
        linear_in=(0,) if transpose else (),
        lower=with_loop(lower or pointwise(name), impl, 1),
        decides=decides,
        samples=samples or elementwise_samples(kinds, (domain,), points),
        errors=elementwise_errors(kinds, 1),
    )
    apply = bound(row)
    return row


# ---------------------------------------------------------------------------------- binary


def binary(
    name: str,
    impl: Rule,
    kinds: str,
    *,
    jvp: tuple[Rule | None, ...] | str,
    doc: str,
    domains: tuple[Reals, Reals] = (ANYWHERE, ANYWHERE),
    points: Sequence[tuple[float, float]] = (),
    out: Callable[[np.dtype[Any]], np.dtype[Any]] | None = None,
    transpose: tuple[Rule | None, Rule | None] | None = None,
    bilinear: bool = False,
    steep: tuple[int, ...] = (),
    weak: bool = False,
    lower: Pointwise | None = None,
    decides: Rule | None = None,
) -> Primitive:
    """A row of two operands of one shape and dtype, either of which may have rank 0.

    Args:
        name, impl, steep, decides, doc: as in `Primitive`.
        kinds: dtype kinds it is defined for.
        jvp: per operand `(t, z, x, y) -> tangent` (None: zero), and perhaps `(tx, ty, z, x, y)`
            for both; or LINEAR or NONDIFFERENTIABLE.
        domains, points: where samples of each operand lie.
        out: result dtype from operand dtype (default: the same).
        transpose: per operand `(ct, other) -> ct` where the row is linear in that operand alone,
            the other being known (None: not linear in it).
        bilinear: linear in each operand, and not in both together.
        weak: two Python scalars give a Python scalar.
    """
    apply: Rule  # the row: see `bound`
    rule_x, rule_y, both, *_ = (None, None, None) if isinstance(jvp, str) else (*jvp, None)

    def jvp_rule(primals: Any, tangents: Any) -> Any:
        (x, y), (tx, ty) = primals, tangents
        z = apply(x, y)
        if type(x) not in STRONG_TYPES:
            x, tx = adapted(x, tx, z)
        if type(y) not in STRONG_TYPES:
            y, ty = adapted(y, ty, z)
        if both is not None and tx is not ZERO and ty is not ZERO:
            return z, spread(both(tx, ty, z, x, y), z)
        to_x = ZERO if tx is ZERO or rule_x is None else rule_x(tx, z, x, y)
        to_y = ZERO if ty is ZERO or rule_y is None else rule_y(ty, z, x, y)
        return z, _together(to_x, to_y, z)

    row = Primitive(
        name=name,
        impl=weakly(impl) if weak and out is None else impl,
        type=_binary_type(binary_type(name, kinds, weak), out),
        jvp=jvp if isinstance(jvp, str) else jvp_rule,
        transpose=_binary_transpose(name, *transpose, bilinear) if transpose else NO_TRANSPOSE,
        batch=lambda axis, values, dims: batch_elementwise(apply, axis, values, dims),
        mask="same" if transpose else "",
        steep=steep,
        zeros=True,
        doc=doc,
        linear_in=tuple(i for i in (0, 1) if transpose and transpose[i]),
        bilinear=bilinear,
        lower=with_loop(lower or pointwise(name), impl, 2),
        decides=decides,
        samples=elementwise_samples(kinds, domains, points),
        errors=elementwise_errors(kinds, 2),
    )
    apply = bound(row)
    return row


def _together(to_x: Any, to_y: Any, z: Any) -> Any:
    """The sum of what two operands add to the tangent of z."""
    if to_x is ZERO or to_y is ZERO:
        only = to_y if to_x is ZERO else to_x
        return only if only is ZERO else spread(only, z)
    return add(to_x, to_y)


def _binary_type(same: Rule, out: Callable[[np.dtype[Any]], np.dtype[Any]] | None) -> Rule:
    """The type rule of two operands, with another dtype for the result where there is one."""
    if out is None:
        return same

    def type_rule(x: ShapedArray, y: ShapedArray) -> ShapedArray:
        found = same(x, y)
        return aval(found.shape, out(found.dtype), found.weak)

    return type_rule


# values of these types are never weak, so no operand of them has to adapt
STRONG_TYPES = frozenset({np.ndarray, *(d.type for d in dtypes.SUPPORTED)})


def adapted(x: Any, t: Any, z: Any) -> tuple[Any, Any]:
    """A weak operand and its tangent in the dtype of the strong result they led to.

    A Python scalar stays one: it adapts by itself in every further operator.
    """
    if not typeof(x).weak or typeof(z).weak:
        return x, t
    dtype = typeof(z).dtype
    if type(x) not in PYTHON_SCALARS:
        x = convert_element_type(x, new_dtype=dtype)
    return x, t if t is ZERO else convert_element_type(t, new_dtype=dtype)


def _binary_transpose(name: str, rule_x: Rule | None, rule_y: Rule | None, bilinear: bool) -> Rule:
    def transpose(ct: Any, x: Any, y: Any) -> Any:
        linear_x, linear_y = type(x) is Linear, type(y) is Linear
        if (linear_x and not rule_x) or (linear_y and not rule_y):
            return Unsupported(f"{name} is not linear in an operand it is transposed for.")()
        if bilinear and linear_x and linear_y:
            return Unsupported(f"{name} is not linear in both of its operands together.")()
        return (
            collapse(rule_x(ct, y), x.aval) if rule_x and linear_x else None,
            collapse(rule_y(ct, x), y.aval) if rule_y and linear_y else None,
        )

    return transpose


def compare(name: str, impl: Rule, kinds: str, doc: str) -> Primitive:
    """A comparison: two operands of one dtype, a boolean result, no tangent.

    Args:
        name, kinds, doc: as in `binary`.
        impl: Python's operator: on scalars many times faster than the ufunc, and a bool of two
            Python scalars.
    """
    return binary(
        name,
        impl,
        kinds,
        jvp=NONDIFFERENTIABLE,
        doc=doc,
        out=lambda dtype: dtypes.bool_,
        weak=True,
    )

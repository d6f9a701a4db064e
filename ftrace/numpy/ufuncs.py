"""Every NumPy ufunc as a function of ftrace.numpy, from one table.

NumPy itself says which dtypes a ufunc computes in (`ufunc.resolve_dtypes`), operands are brought
there and broadcast, and the row of `LOWERINGS` does the rest. `UFUNCS` maps each NumPy ufunc to
its traced implementation, which `__array_ufunc__` calls too: `np.sin(t)` and `fnp.sin(t)` give
the same jaxpr. With no trace running the functions are NumPy's. Reductions and the other methods
of ufuncs are in `ufunc_methods.py`; matrix products in `matrix_products.py`.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ftrace.core import dtypes, hooks
from ftrace.core.arguments import BARE
from ftrace.core.avals import SCALAR_AVALS, typeof
from ftrace.core.device import LIBRARIES
from ftrace.core.errors import DtypeError, RuleError
from ftrace.core.primitive import Primitive, bound
from ftrace.core.trace import EVAL, Tracer, ctx, running
from ftrace.numpy.lowerings import LOWERINGS, constant_like, static_power
from ftrace.numpy.promote import (
    DEFERRED,
    adapt,
    broadcast,
    cast,
    document,
    strong,
    unsupported,
    untraced,
    value,
)
from ftrace.numpy.refusing import check_options, refusal
from ftrace.numpy.stand_ins import ask
from ftrace.numpy.temporaries import release

PYTHON_TYPE: Final = {"i": int, "f": float, "c": complex}
TAKEN: Final = (
    "out",
    "where",
    "dtype",
    "casting",
    "order",
    "subok",
)  # the last two change no values

COMPARISONS: Final = frozenset(
    {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}
)

UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}


@lru_cache(maxsize=4096)
def loop_dtypes(
    ufunc: np.ufunc,
    operands: tuple[tuple[np.dtype[Any], bool], ...],
    dtype: Any,
    casting: str = "same_kind",
) -> tuple[np.dtype[Any], ...]:
    """The dtypes in which NumPy computes a ufunc on (dtype, weak) operands.

    Raises:
        DtypeError: where NumPy has no loop.
    """
    # Two Python integers would be compared as objects: weakness only matters beside an array.
    strong = all(weak for _, weak in operands)
    kinds = [PYTHON_TYPE.get(d.kind, d) if weak and not strong else d for d, weak in operands]
    options: dict[str, Any] = {"casting": casting}
    if dtype is not None:
        options["signature"] = (None,) * ufunc.nin + (dtypes.canonical(dtype),) * ufunc.nout
    try:
        found = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout), **options)
    except TypeError as error:
        names = ", ".join(str(d) for d, _ in operands)
        raise DtypeError(
            f"{ufunc.__name__} is not defined for operands of dtype {names}.",
            "Convert an operand: `x.astype(float)`.",
        ) from error
    return tuple(dtypes.canonical(d) for d in found)


def apply(
    ufunc: np.ufunc, *xs: Any, dtype: Any = None, row: Any = None, casting: str = "same_kind"
) -> Any:
    """A ufunc on any operands: convert, broadcast, then its row (by default its lowering)."""
    operands = [value(x) for x in xs]
    plain = dtype is None and casting == "same_kind"
    if len(xs) == 2 and plain and row is None:
        x, y = operands
        a, b = typeof(x), typeof(y)
        ready = a.dtype is b.dtype and not a.weak and not b.weak
        if ready and a.dtype.kind in direct_kinds(ufunc):
            return LOWERINGS[ufunc.__name__](*broadcast(x, y))
    if ufunc is np.power and plain:
        found = static_power(*operands)
        if found is not None:
            return found
    if ufunc in COMPARISONS and all(typeof(x).dtype.kind in "iu" for x in operands):
        # a traced Python integer need not fit into the other's dtype to be compared with it
        operands = [strong(x) if isinstance(x, Tracer) else x for x in operands]
    avals = [typeof(x) for x in operands]
    loop = loop_dtypes(ufunc, tuple((a.dtype, a.weak) for a in avals), dtype, casting)
    if ufunc in COMPARISONS:
        found = beyond(ufunc, operands)
        if found is not None:
            return found
    if all(a.weak for a in avals) or loop[0] is not loop[ufunc.nin - 1]:
        operands = [cast(x, d) for x, d in zip(operands, loop, strict=False)]
    else:
        operands = [adapt(x, d) for x, d in zip(operands, loop, strict=False)]
    return (row or LOWERINGS[ufunc.__name__])(*broadcast(*operands))


def beyond(ufunc: np.ufunc, operands: list[Any]) -> Any:
    """A comparison with a Python integer that the other operand's dtype cannot hold."""
    for i in (0, 1):
        number, other = operands[i], operands[1 - i]
        dtype = typeof(other).dtype
        if type(number) is not int or dtype.kind not in "iu":
            continue
        limits = np.iinfo(dtype)
        if not limits.min <= number <= limits.max:
            side = 1 if number > 0 else -1
            answer = bool(ufunc(side, 0) if i == 0 else ufunc(0, side))
            return constant_like(other, dtypes.bool_, answer)
    return None


def finish(ufunc: np.ufunc, result: Any, out: Any, where: Any = True) -> Any:
    """Deliver a result to `out=`, if it was given.

    Raises:
        RuleError: a mask without the array that has the elements where the mask is false.
    """
    if out is None and where is True:
        return result
    targets = out if isinstance(out, tuple) else (out,)
    if out is not None and len(targets) != ufunc.nout:
        raise TypeError("return arrays must be of ArrayType")
    if where is not True and any(o is None for o in targets):
        raise RuleError(
            f"{ufunc.__name__} was called with where= and without out=: where the mask is false, "
            "its result would be what happens to be in memory.",
            "Give the array that has those elements as out=, or use numpy.where.",
        )
    if all(o is None for o in targets):
        return result
    if ufunc.nout == 1:
        return hooks.write_out(targets[0], result, where)
    return tuple(
        r if o is None else hooks.write_out(o, r, where)
        for o, r in zip(targets, result, strict=True)
    )


def _deferred(ufunc: np.ufunc, xs: tuple[Any, ...], outs: tuple[Any, ...], options: Any) -> Any:
    """What an operand answers; NumPy would ask the first one."""
    first = next(x for x in xs if type(x) in DEFERRED)
    options = {**options, "out": outs} if outs else options
    return first.__array_ufunc__(ufunc, "__call__", *xs, **options)


def general(
    ufunc: np.ufunc, xs: tuple[Any, ...], outs: tuple[Any, ...], options: Any, row: Any = None
) -> Any:
    """A ufunc call with all of NumPy's arguments: `outs` are given by position."""
    if not DEFERRED.isdisjoint(map(type, xs)):
        return _deferred(ufunc, xs, outs, options)
    try:
        for name in options:
            if name not in TAKEN:
                raise unsupported(ufunc.__name__, f"{name}=")
        check_options(options)
        out = options.get("out")
        if outs:
            if out is not None or tuple in map(type, outs) or len(outs) > ufunc.nout:
                raise TypeError("return arrays must be of ArrayType")
            out = (*outs, *[None] * (ufunc.nout - len(outs)))
        where = options.get("where", True)
        if int in map(type, xs):
            _check_large(ufunc, xs)
        how = {key: options[key] for key in ("dtype", "casting") if key in options}
        if where is True:
            return finish(ufunc, apply(ufunc, *xs, row=row, **how), out)
        with np.errstate(all="ignore"):  # what is not taken is computed, and then left
            found = apply(ufunc, *xs, row=row, **how)
        return finish(ufunc, found, out, where)
    except BARE as error:
        found = refusal(error, ufunc, general, (*xs, *outs), options)
        if found is error:
            raise
        raise found from None


def _check_large(ufunc: np.ufunc, xs: tuple[Any, ...]) -> None:
    """Raise NumPy's error for a Python integer of more than 64 bits, which some ufuncs take."""
    if any(type(x) is int and x.bit_length() > 63 for x in xs):
        ask(ufunc, xs, {}, ufunc.__name__)


@lru_cache(maxsize=256)
def direct_kinds(ufunc: np.ufunc) -> str:
    """Kinds of dtypes on which NumPy computes this ufunc without converting operands."""
    loops = {t.split("->")[0] for t in ufunc.types}
    chars = (("f", "efd"), ("c", "FD"))
    return "".join(kind for kind, cs in chars if all(c * ufunc.nin in loops for c in cs))


def keeps_weak(row: Callable[..., Any], nin: int) -> bool:
    """Whether a row of Python scalars gives a Python scalar, which ufuncs never do."""
    weak = SCALAR_AVALS[float]
    return not isinstance(row, Primitive) or row.type(*[weak] * nin).weak


def unary(ufunc: np.ufunc) -> Callable[..., Any]:
    """The function of ftrace.numpy for a ufunc of one operand."""
    lowering, kinds = LOWERINGS[ufunc.__name__], direct_kinds(ufunc)
    row, weak = bound(lowering), "f" in kinds and keeps_weak(lowering, 1)

    def traced(x: Any, /, *outs: Any, **options: Any) -> Any:
        if not outs and not options and isinstance(x, Tracer):
            a = x.aval
            if a.dtype.kind in kinds and not (weak and a.weak):
                return row(x)
        return general(ufunc, (x,), outs, options)

    def function(x: Any, /, *outs: Any, **options: Any) -> Any:
        plain = not outs and not options
        if not running or ctx.trace is EVAL:
            if LIBRARIES:
                return untraced(ufunc, traced, (x, *outs), options)
            return ufunc(x) if plain else ufunc(x, *outs, **options)
        if plain and isinstance(x, Tracer):  # as in `traced`, a frame less
            a = x.aval
            if a.dtype.kind in kinds and not (weak and a.weak):
                return row(x)
        return general(ufunc, (x,), outs, options)

    return _register(ufunc, function, traced)


def binary(ufunc: np.ufunc) -> Callable[..., Any]:
    """The function of ftrace.numpy for a ufunc of two operands."""
    row, kinds = bound(LOWERINGS[ufunc.__name__]), direct_kinds(ufunc)

    def traced(x: Any, y: Any, /, *outs: Any, **options: Any) -> Any:
        if not outs and not options and type(x) is type(y) and isinstance(x, Tracer):
            a = x.aval
            if a is y.aval and a.dtype.kind in kinds and not a.weak:
                return row(x, y)
        return general(ufunc, (x, y), outs, options)

    def function(x: Any, y: Any, /, *outs: Any, **options: Any) -> Any:
        if not running or ctx.trace is EVAL:
            if LIBRARIES:
                return untraced(ufunc, traced, (x, y, *outs), options)
            plain = not outs and not options
            return ufunc(x, y) if plain else ufunc(x, y, *outs, **options)
        if LIBRARIES:
            release(x, "argument")
            release(y, "argument")
        return traced(x, y, *outs, **options)

    return _register(ufunc, function, traced)


def _register(
    ufunc: np.ufunc, function: Callable[..., Any], traced: Callable[..., Any]
) -> Callable[..., Any]:
    UFUNCS[ufunc] = traced
    name = ufunc.__name__
    row = LOWERINGS[name]
    summary = row.doc if isinstance(row, Primitive) else f"NumPy's `{name}`, elementwise."
    function.__name__ = function.__qualname__ = name
    function.__doc__ = document(summary, f"numpy.{name}")
    function.ufunc, function.identity = ufunc, ufunc.identity  # type: ignore[attr-defined]
    function.nin, function.nout = ufunc.nin, ufunc.nout  # type: ignore[attr-defined]
    return function


# arithmetic
add = binary(np.add)
subtract = binary(np.subtract)
multiply = binary(np.multiply)
divide = true_divide = binary(np.divide)
floor_divide = binary(np.floor_divide)
remainder = mod = binary(np.remainder)
fmod = binary(np.fmod)
divmod = binary(np.divmod)
power = pow = binary(np.power)
float_power = binary(np.float_power)
negative = unary(np.negative)
positive = unary(np.positive)
absolute = abs = unary(np.absolute)
fabs = unary(np.fabs)
sign = unary(np.sign)
square = unary(np.square)
sqrt = unary(np.sqrt)
cbrt = unary(np.cbrt)
reciprocal = unary(np.reciprocal)
conjugate = conj = unary(np.conjugate)
spacing = unary(np.spacing)
frexp = unary(np.frexp)
modf = unary(np.modf)
maximum = binary(np.maximum)
minimum = binary(np.minimum)
fmax = binary(np.fmax)
fmin = binary(np.fmin)
copysign = binary(np.copysign)
nextafter = binary(np.nextafter)
heaviside = binary(np.heaviside)
ldexp = binary(np.ldexp)
hypot = binary(np.hypot)
gcd = binary(np.gcd)
lcm = binary(np.lcm)
# elementary functions
sin = unary(np.sin)
cos = unary(np.cos)
tan = unary(np.tan)
arcsin = asin = unary(np.arcsin)
arccos = acos = unary(np.arccos)
arctan = atan = unary(np.arctan)
sinh = unary(np.sinh)
cosh = unary(np.cosh)
tanh = unary(np.tanh)
arcsinh = asinh = unary(np.arcsinh)
arccosh = acosh = unary(np.arccosh)
arctanh = atanh = unary(np.arctanh)
exp = unary(np.exp)
exp2 = unary(np.exp2)
expm1 = unary(np.expm1)
log = unary(np.log)
log2 = unary(np.log2)
log10 = unary(np.log10)
log1p = unary(np.log1p)
degrees = unary(np.degrees)
rad2deg = unary(np.rad2deg)
radians = unary(np.radians)
deg2rad = unary(np.deg2rad)
arctan2 = atan2 = binary(np.arctan2)
logaddexp = binary(np.logaddexp)
logaddexp2 = binary(np.logaddexp2)
# rounding, tests, comparisons, bits
floor = unary(np.floor)
ceil = unary(np.ceil)
trunc = unary(np.trunc)
rint = unary(np.rint)
isnan = unary(np.isnan)
isinf = unary(np.isinf)
isfinite = unary(np.isfinite)
signbit = unary(np.signbit)
logical_not = unary(np.logical_not)
invert = bitwise_not = bitwise_invert = unary(np.invert)
bitwise_count = unary(np.bitwise_count)
equal = binary(np.equal)
not_equal = binary(np.not_equal)
less = binary(np.less)
less_equal = binary(np.less_equal)
greater = binary(np.greater)
greater_equal = binary(np.greater_equal)
logical_and = binary(np.logical_and)
logical_or = binary(np.logical_or)
logical_xor = binary(np.logical_xor)
bitwise_and = binary(np.bitwise_and)
bitwise_or = binary(np.bitwise_or)
bitwise_xor = binary(np.bitwise_xor)
left_shift = bitwise_left_shift = binary(np.left_shift)
right_shift = bitwise_right_shift = binary(np.right_shift)

_OURS = {name for name, f in globals().items() if type(f) is type(unary) and hasattr(f, "ufunc")}
__all__ = [*_OURS]  # pyright: ignore[reportUnsupportedDunderAll]

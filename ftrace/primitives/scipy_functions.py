"""One row for the functions of scipy.special that have no kernel: `special`, of a `Function`.

A `Function` says what is particular to one of them: its partial derivatives, and where its samples
lie. Calling it binds the row, which evaluates SciPy's function. An operand without a derivative in
closed form has the partial None: it may be an integer, and a tangent of it is refused by name. The
functions themselves are in scipy_errors.py, scipy_gammas.py, scipy_bessel.py and
scipy_integrals.py, each with derivatives made of one another and of other rows, so that they can be
differentiated again.
"""

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from itertools import cycle
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import float64, int64
from ftrace.core.errors import DtypeError, RuleError, ShapeError
from ftrace.core.lazy import Lazy, lazy
from ftrace.core.lower import Gufunc, GufuncCall, elementwise_call
from ftrace.core.primitive import ErrorSample, Primitive, Rule, Sample
from ftrace.core.records import record
from ftrace.core.zero import ZERO
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.elementwise import mul, select
from ftrace.primitives.families import REAL, Reals
from ftrace.primitives.linear import (
    NO_TRANSPOSE,
    PYTHON_SCALARS,
    add,
    batch_elementwise,
    check_kinds,
    join,
    join_shapes,
    spread,
)

FUNCTIONS: Final[dict[str, "Function"]] = {}
ORDINALS: Final = ("first", "second", "third", "fourth")


@record(eq=False)
class Function:
    """A function of scipy.special, as a callable that binds the row.

    Attributes:
        name: SciPy's, with `_` and the number of the result, if it has several.
        doc: what it computes, a sentence.
        partials: for each operand, `(z, *operands) -> derivative by that operand`, or None.
        samples: for each operand, where its samples lie, or an integer; empty for none.
        kinds: dtype kinds it is defined for.
        impl: evaluates it, if that is not SciPy's function of this name.
        position: which of SciPy's results it is.
        own: whether it is none of SciPy's, but a part of derivatives.
    """

    name: str
    doc: str
    partials: tuple[Rule | None, ...]
    samples: tuple[Reals | int, ...]
    kinds: str = REAL
    impl: Rule | None = None
    position: int | None = None
    own: bool = False

    def __post_init__(self) -> None:
        FUNCTIONS[self.name] = self

    def __call__(self, *operands: Any) -> Any:
        """Bind the row."""
        return special(*operands, function=self.name)


def several(
    name: str,
    doc: str,
    samples: tuple[Reals | int, ...],
    *partials: tuple[Rule | None, ...],
    kinds: str = REAL,
    impl: Rule | None = None,
    own: bool = False,
) -> list[Function]:
    """The results of a function that has several, each with its partial derivatives."""
    return [
        Function(f"{name}_{k}", f"{doc} Result {k}.", rules, samples, kinds, impl, k, own)
        for k, rules in enumerate(partials)
    ]


# ---------------------------------------------------------------------------------- columns


def _type(*operands: ShapedArray, function: str) -> ShapedArray:
    f = FUNCTIONS[function]
    if len(operands) != len(f.partials):
        raise TypeError(f"{f.name} takes {len(f.partials)} operands, not {len(operands)}.")
    pairs = list(zip(operands, f.partials, strict=True))
    wide = any(a.dtype.kind == "c" for a in operands)
    orders = "iuf" if wide else "iu"
    inexact = [a for a, p in pairs if p is not None or a.dtype.kind not in orders]
    if not inexact:  # of orders alone
        return aval(join_shapes(f"special[{f.name}]", *operands), float64)
    check_kinds(f"special[{f.name}]", f.kinds, *inexact)
    dtype, _ = join(f"special[{f.name}]", *inexact)
    return aval(join_shapes(f"special[{f.name}]", *operands), dtype)


def _impl(*operands: Any, function: str) -> Any:
    f = FUNCTIONS[function]
    dtype = _type(*map(typeof, operands), function=function).dtype
    args = [x if typeof(x).dtype.kind in "fc" else np.asarray(x, real(dtype))[()] for x in operands]
    found = (f.impl or _scipy(f.name))(*args)
    y = found if f.position is None else found[f.position]
    return np.asarray(y, dtype)[()]


_found: Final[dict[str, Any]] = {}


def scipy_name(function: str) -> str:
    """SciPy's name of a function."""
    several = FUNCTIONS[function].position is not None
    return function.rpartition("_")[0] if several else function


def _scipy(function: str) -> Any:
    fn = _found.get(function)
    if fn is None:
        fn = _found[function] = lazy("scipy.special", scipy_name(function))
    return fn


def _call(avals: Sequence[ShapedArray], function: str) -> GufuncCall | None:
    """SciPy's compiled loop; its other results are left where nobody looks."""
    f, result = FUNCTIONS[function], _type(*avals, function=function)
    given: list[Any] = [
        result.dtype if p is not None or a.dtype.kind == "c" else real(result.dtype)
        for a, p in zip(avals, f.partials, strict=True)
    ]
    if isinstance(f.impl, OfInteger):
        given[f.impl.position] = int64
        return elementwise_call("scipy.special", f.impl.function.name, given, (0,))
    if f.impl is not None:
        return None
    outputs: list[Any] = [0]
    if f.position is not None:
        others = [g for g in FUNCTIONS.values() if g.position is not None]
        alike = [g for g in others if scipy_name(g.name) == scipy_name(function)]
        outputs = [0 if k == f.position else result for k in range(len(alike))]
    return elementwise_call("scipy.special", scipy_name(function), given, outputs)


def _jvp(primals: Any, tangents: Any, *, function: str) -> Any:
    f = FUNCTIONS[function]
    z = f(*primals)
    dtype = typeof(z).dtype
    xs = [
        _as(x, dtype if p is not None or typeof(x).dtype.kind == "c" else real(dtype))
        for x, p in zip(primals, f.partials, strict=True)
    ]
    total: Any = ZERO
    for i, (t, rule) in enumerate(zip(tangents, f.partials, strict=True)):
        if t is ZERO:
            continue
        if rule is None:
            raise RuleError(
                f"{f.name} has no derivative by its {ORDINALS[i]} operand in closed form.",
                "Apply stop_gradient to that operand, or differentiate by the others only.",
            )
        part = mul(_as(t, dtype), rule(z, *xs))
        total = part if total is ZERO else add(total, part)
    return z, total if total is ZERO else spread(total, z)


def real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of real parts: orders of complex functions are real."""
    return np.finfo(dtype).dtype


def _as(x: Any, dtype: np.dtype[Any]) -> Any:
    """An operand or tangent, strong and of a dtype."""
    if type(x) in PYTHON_SCALARS:
        return dtype.type(x)
    a = typeof(x)
    if a.dtype == dtype and not a.weak:
        return x
    return convert_element_type(x, new_dtype=dtype)


def _batch(axis: Any, values: Any, dims: Any, *, function: str) -> Any:
    return batch_elementwise(partial(special, function=function), axis, values, dims)


def _drawn(f: Function, rng: "np.random.Generator", shape: Any, dtype: str, whole: str) -> Sample:
    """A sample of a function, integers of rank 0."""
    kind = dtype if dtype[0] in f.kinds else "c16"
    args = [
        s.draw(rng, shape, kind)[()] if type(s) is Reals else np.dtype(whole).type(s)
        for s in f.samples
    ]
    return Sample(tuple(args), {"function": f.name})


def _samples() -> Iterable[Sample]:
    """One for each function; of a few functions every kind."""
    rng = np.random.default_rng(17)
    shapes = cycle(((3,), (), (2, 3)))
    for f in FUNCTIONS.values():
        if f.samples:
            yield _drawn(f, rng, next(shapes), "f8", "i8")
    for name in ("j0", "betaln", "betainc"):
        f = FUNCTIONS[name]
        yield _drawn(f, rng, (0, 2), "f8", "i4")
        yield _drawn(f, rng, (4,), "f4", "i8")
        args = _drawn(f, rng, (3, 4), "f8", "i8").args
        yield Sample(tuple(a.T[::2] if a.ndim else a for a in args), {"function": name})
    x, y = rng.uniform(1, 2, (2, 3)), np.float64(1.5)
    for args in ((x, y), (y, x), (x, 1.5)):
        yield Sample(args, {"function": "betaln"})
    order = np.arange(1, 4)
    yield Sample((order, x[0]), {"function": "yv"})


def _errors() -> Iterable[ErrorSample]:
    x, n = np.ones(3), np.ones(3, int)
    of = {"function": "betaln"}
    yield ErrorSample((x.astype(complex), x), of, DtypeError, "is not defined for complex128")
    yield ErrorSample((n, x), of, DtypeError, "is not defined for int64")
    yield ErrorSample((x.astype("f4"), x), of, DtypeError, "Primitives do not promote")
    yield ErrorSample((x[:2], x), of, ShapeError, "Primitives do not broadcast")


special: Final = Primitive(
    name="special",
    impl=_impl,
    type=_type,
    jvp=_jvp,
    transpose=NO_TRANSPOSE,
    batch=_batch,
    zeros=True,
    lower=Gufunc(_call),
    samples=_samples,
    errors=_errors,
    doc="A function of scipy.special, elementwise: which one, says `function`.",
)


# ---------------------------------------------------------------------------------- derivatives

ANY: Final = Reals()
UNIT: Final = Reals(0.2, 0.8)
POSITIVE: Final = Reals(0.5, 3)
ABOVE: Final = Reals(2, 4)
TWO: Final = np.int64(2)


def times(*xs: Any) -> Any:
    return reduce(mul, xs)


def plus(x: Any, by: float) -> Any:
    return add(x, by)


def half(x: Any) -> Any:
    return mul(x, 0.5)


def total(*xs: Any) -> Any:
    return reduce(add, xs)


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """The sum of c[k] x**k, of two terms or more."""
    *rest, last = coefficients
    return reduce(lambda y, c: plus(mul(x, y), c), reversed(rest), last)


def either(which: Any, x: Any, inner: Any, outer: Any) -> Any:
    """One of two formulas, each a pair: a function, and a harmless operand where it is not taken.

    So derivatives of the other formula are finite, and the choice drops them.
    """
    f, safe = inner
    g, harmless = outer
    return select(which, f(select(which, x, safe)), g(select(which, harmless, x)))


@record
class OfInteger:
    """SciPy's function with an integer at a position, which comes as a float."""

    function: Lazy
    position: int

    def __call__(self, *xs: Any) -> Any:
        """Evaluate it."""
        whole = np.asarray(xs[self.position]).astype(np.int64)
        return self.function(*xs[: self.position], whole, *xs[self.position + 1 :])


def of_integer(name: str, position: int = 0) -> Rule:
    """SciPy's function with an integer at a position."""
    return OfInteger(lazy("scipy.special", name), position)

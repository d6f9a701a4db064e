"""Every ufunc on every dtype NumPy has a loop for, in every way a tracer meets it."""

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.errors import DtypeError, RuleError, ShapeError
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.interpreters.tangents import instantiate
from ftrace.numpy.lowerings import LOWERINGS

UFUNCS = [getattr(np, name) for name in LOWERINGS]
DTYPES = ("?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
POSITIVE = {"log", "log2", "log10", "sqrt", "power", "float_power", "log1p", "arccosh"}
BOUNDED = {"arcsin", "arccos", "arctanh"}
PAIRS = [
    *[("f8", "f8"), ("f4", "f8"), ("i8", "f4"), ("i1", "i8"), ("?", "f8"), ("u8", "i8")],
    *[("i1", "u1"), ("c8", "f8"), ("i8", "i8"), ("?", "?"), ("f2", "f2"), ("c16", "c16")],
]


def draw(ufunc: np.ufunc, dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    """Values in the domain of a ufunc."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        return rng.integers(
            1 if kind == "u" or ufunc.nin == 2 or ufunc is np.reciprocal else -4, 5, shape
        ).astype(dtype)
    low, high = (0.6, 3.0) if ufunc.__name__ in POSITIVE else (-2.5, 2.5)
    if ufunc.__name__ in BOUNDED:
        low, high = -0.9, 0.9
    low = 1.2 if ufunc.__name__ == "arccosh" else low
    x = rng.uniform(low, high, shape)
    if kind == "c":
        x = x + 1j * rng.uniform(0.3, 1.3, shape)
    return np.asarray(x).astype(dtype)


def cases() -> Iterable[Any]:
    for ufunc in UFUNCS:
        kinds = [(d,) for d in DTYPES] if ufunc.nin == 1 else PAIRS
        if ufunc.__name__ == "ldexp":
            kinds = [("f8", "i8"), ("f4", "i1"), ("f2", "i4")]
        for each in kinds:
            xs = [draw(ufunc, d, (2, 3) if i == 0 else (3,), i) for i, d in enumerate(each)]
            try:
                with np.errstate(all="ignore"):
                    expected = ufunc(*xs)
            except TypeError:
                yield pytest.param(ufunc, xs, None, id=f"{ufunc.__name__}-{'-'.join(each)}")
            else:
                yield pytest.param(ufunc, xs, expected, id=f"{ufunc.__name__}-{'-'.join(each)}")


CASES = list(cases())


def outputs(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple) else [y]


def staged(f: Callable[..., Any], *xs: Any) -> Any:
    return trace_to_jaxpr(lambda *ts: outputs(f(*ts)), [typeof(x) for x in xs])[0]


def assert_same(x: Any, y: Any, ulps: float = 0) -> None:
    x, y = np.asarray(x), np.asarray(y)
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    limit = ulps * float(np.finfo(x.dtype).eps) if x.dtype.kind in "fc" else 0
    np.testing.assert_allclose(x, y, rtol=limit, atol=0)


def units(ufunc: np.ufunc) -> float:
    """By how much a result may differ: not at all, but where the formula is another."""
    return 8 if ufunc.__name__ in ("degrees", "rad2deg", "radians", "deg2rad", "float_power") else 0


@pytest.mark.parametrize(("ufunc", "xs", "expected"), CASES)
def test_staged_ufunc_gives_numpys_values_and_dtypes_or_a_dtype_error(
    ufunc: np.ufunc, xs: list[Any], expected: Any
) -> None:
    function = getattr(fnp, ufunc.__name__)
    if expected is None:
        with pytest.raises((DtypeError, TypeError), match=r"not defined|not supported"):
            staged(function, *xs)
        return
    with np.errstate(all="ignore"):
        found = eval_jaxpr(staged(function, *xs), xs)
    for x, y in zip(found, outputs(expected), strict=True):
        assert_same(x, y, units(ufunc))


@pytest.mark.parametrize(("ufunc", "xs", "expected"), [c for c in CASES if c.values[2] is not None])
def test_numpys_ufunc_on_a_tracer_gives_the_same_jaxpr(
    ufunc: np.ufunc, xs: list[Any], expected: Any
) -> None:
    assert repr(staged(ufunc, *xs)) == repr(staged(getattr(fnp, ufunc.__name__), *xs))


STEPS = {"floor", "ceil", "trunc", "rint", "sign", "nextafter", "spacing", "frexp", "heaviside"}
SMOOTH = [
    case
    for case in CASES
    if case.values[0].__name__ not in STEPS
    and case.values[2] is not None
    and all(x.dtype == np.float64 or x.dtype.kind in "iu" for x in case.values[1])
    and outputs(case.values[2])[0].dtype == np.float64
    and any(x.dtype == np.float64 for x in case.values[1])
]


@pytest.mark.parametrize(("ufunc", "xs", "expected"), SMOOTH)
def test_derivative_of_a_ufunc_agrees_with_central_differences(
    ufunc: np.ufunc, xs: list[Any], expected: Any
) -> None:
    rng = np.random.default_rng(3)
    ts = [rng.normal(size=x.shape) if x.dtype.kind == "f" else ZERO for x in xs]
    h = 1e-6

    def moved(sign: float) -> list[Any]:
        return outputs(
            ufunc(*[x if t is ZERO else x + sign * h * t for x, t in zip(xs, ts, strict=True)])
        )

    ys, found = jvp_flat(lambda *a: outputs(getattr(fnp, ufunc.__name__)(*a)), xs, ts)
    for y, t, plus, minus in zip(ys, found, moved(1), moved(-1), strict=True):
        np.testing.assert_allclose(
            instantiate(t, y), (plus - minus) / (2 * h), rtol=2e-6, atol=2e-6
        )


@pytest.mark.parametrize(("ufunc", "xs", "expected"), [c for c in CASES if c.values[2] is not None])
def test_batched_ufunc_is_the_ufunc_of_each_member(
    ufunc: np.ufunc, xs: list[Any], expected: Any
) -> None:
    function = getattr(fnp, ufunc.__name__)
    axis = Axis(2)
    batched = [np.stack([x, x[..., ::-1]], axis=-1) for x in xs]
    with np.errstate(all="ignore"):
        ys, dims = batch_flat(
            lambda *a: outputs(function(*a)), axis, batched, [x.ndim - 1 for x in batched]
        )
        for i in range(2):
            wanted = outputs(ufunc(*[x[..., i] for x in batched]))
            for y, d, w in zip(ys, dims, wanted, strict=True):
                assert_same(np.asarray(place_axis(y, d, axis, 0))[i], w, units(ufunc))


# ---------------------------------------------------------------------------------- operators

BINARY = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
)  # fmt: skip
BITS = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
OTHERS = (2, 2.5, True, np.float32(1.5), np.float64(1.5), np.int8(2), np.array([1.5, 2.0, 0.5]))


@pytest.mark.parametrize(
    "x", [np.array([1.5, 2.5, 3.0]), np.float32([1.5, 2, 3]), np.array([1, 2, 3])]
)
@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("operate", BINARY)
def test_operators_follow_numpys_promotion(operate: Any, other: Any, x: Any) -> None:
    for f in (lambda t: operate(t, other), lambda t: operate(other, t)):
        with np.errstate(all="ignore"):
            (found,) = eval_jaxpr(staged(f, x), [x])
            assert_same(found, f(x))


@pytest.mark.parametrize("operate", BITS)
@pytest.mark.parametrize("other", [2, np.int8(3), np.array([1, 2, 0])], ids=repr)
def test_bit_operators_follow_numpys_promotion(operate: Any, other: Any) -> None:
    x = np.array([1, 2, 3], np.int8)
    for f in (lambda t: operate(t, other), lambda t: operate(other, t)):
        (found,) = eval_jaxpr(staged(f, x), [x])
        assert_same(found, f(x))


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    "x", [np.array([1.5, -0.5]), np.array([1 + 2j, 0.5j])], ids=("real", "complex")
)
def test_static_integer_powers_equal_numpys(x: Any, n: int) -> None:
    (found,) = eval_jaxpr(staged(lambda t: t**n, x), [x])
    assert_same(found, x**n, ulps=64)


def test_a_negative_integer_power_of_integers_raises_as_in_numpy() -> None:
    with pytest.raises(ValueError, match="negative integer powers"):
        staged(lambda t: t**-1, np.array([1, 2]))


def test_operators_of_two_weak_values_stay_weak_and_functions_do_not() -> None:
    x = 2.0
    for f in (lambda t: t * t + 1, lambda t: -t / 3, lambda t: t**2, lambda t: 1 - t, lambda t: +t):
        assert staged(f, x).out_avals[0].weak
    for f in (np.sin, np.negative, fnp.multiply, np.add, fnp.sum, fnp.abs):
        args = (x, x) if getattr(f, "nin", 1) == 2 else (x,)
        assert not staged(f, *args).out_avals[0].weak
    single = np.ones(3, np.float32)
    assert staged(lambda t, s: t * s, x, single).out_avals[0].dtype == np.float32


def test_a_python_integer_that_does_not_fit_the_dtype_raises() -> None:
    x = np.array([1, 2], np.int8)
    with pytest.raises(OverflowError):
        staged(lambda t: t + 300, x)


def test_comparison_with_a_python_integer_out_of_range_is_exact() -> None:
    x = np.array([1, 100], np.int8)
    for f in (lambda t: t < 300, lambda t: t > 300, lambda t: t == 300, lambda t: t > -300):
        (found,) = eval_jaxpr(staged(f, x), [x])
        assert_same(found, f(x))


def test_comparison_of_signed_and_unsigned_64_bit_integers_is_exact() -> None:
    signed = np.array([-1, 2, 2**62])
    unsigned = np.array([2**64 - 1, 2, 2**62 + 1], np.uint64)
    for f in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        for x, y in ((signed, unsigned), (unsigned, signed)):
            (found,) = eval_jaxpr(staged(f, x, y), [x, y])
            assert_same(found, f(x, y))


def test_an_operator_with_an_object_it_does_not_know_asks_that_object() -> None:
    class Other:
        def __radd__(self, x: Any) -> str:
            return "mine"

    assert staged(lambda t: 1.0 if (t + Other()) == "mine" else t, 1.0).eqns == ()
    with pytest.raises(TypeError, match="unsupported operand"):
        staged(lambda t: t + "text", 1.0)


def test_shapes_that_do_not_broadcast_raise_a_named_error() -> None:
    with pytest.raises(ShapeError, match=r"\(3,\).*\(2,\)|\(2,\).*\(3,\)"):
        staged(operator.add, np.ones(3), np.ones(2))


# ---------------------------------------------------------------------------- methods of ufuncs

X = np.array([[0.5, 1.5, -2.0], [3.0, 0.25, 1.0]])
M = np.array([[5, 2, 3], [1, 4, 7]])


@pytest.mark.parametrize(
    ("ufunc", "x"),
    [
        *[(u, X) for u in (np.add, np.multiply, np.maximum, np.minimum, np.subtract, np.divide,
                           np.logaddexp, np.hypot, np.fmax, np.logical_and, np.logical_or)],
        *[(u, M) for u in (np.add, np.gcd, np.lcm, np.bitwise_and, np.bitwise_or, np.bitwise_xor,
                           np.subtract, np.multiply)],
        (np.add, np.array([[True, False, True]])),
    ],
)  # fmt: skip
def test_reduce_and_accumulate_equal_numpys(ufunc: np.ufunc, x: Any) -> None:
    for f in (
        ufunc.reduce,
        lambda t: ufunc.reduce(t, axis=1, keepdims=True),
        ufunc.accumulate,
        lambda t: ufunc.accumulate(t, axis=1),
    ):
        (found,) = eval_jaxpr(staged(f, x), [x])
        assert_same(found, f(x), ulps=64)


def test_reduce_takes_initial_and_several_axes() -> None:
    for f in (
        lambda t: np.add.reduce(t, axis=(0, 1), initial=2.0),
        lambda t: np.maximum.reduce(t, axis=None, initial=10.0),
        lambda t: np.hypot.reduce(t, axis=(0, 1)),
        lambda t: np.add.reduce(t, where=np.array([True, False, True])),
    ):
        (found,) = eval_jaxpr(staged(f, X), [X])
        assert_same(found, f(X))


def test_reductions_of_nothing_are_the_identity_or_numpys_error() -> None:
    empty = np.zeros((2, 0))
    for ufunc in (np.logaddexp, np.hypot):
        (found,) = eval_jaxpr(staged(lambda t, u=ufunc: u.reduce(t, axis=1), empty), [empty])
        assert_same(found, ufunc.reduce(empty, axis=1))
    for f in (np.max, np.min):
        (found,) = eval_jaxpr(staged(lambda t, f=f: f(t, axis=1, initial=3.0), empty), [empty])
        assert_same(found, f(empty, axis=1, initial=3.0))
    for name, f in (("subtract", np.subtract.reduce), ("maximum", np.max), ("minimum", np.min)):
        with pytest.raises(ValueError, match=f"{name} which has no identity"):
            staged(lambda t, f=f: f(t, axis=1), empty)


def test_outer_equals_numpys_for_arrays_of_any_rank() -> None:
    for f in (
        lambda t: np.multiply.outer(t, t),
        lambda t: np.subtract.outer(np.arange(2.0), t),
        lambda t: np.power.outer(2.0, np.abs(t)),
    ):
        (found,) = eval_jaxpr(staged(f, X), [X])
        assert_same(found, f(X))


def test_reduceat_equals_numpys() -> None:
    for f in (np.add, np.minimum, np.divide):
        (found,) = eval_jaxpr(staged(lambda t, f=f: f.reduceat(t, [0, 1, 0]), X), [X])
        assert_same(found, f.reduceat(X, [0, 1, 0]))


def test_a_mask_without_out_raises_a_named_error() -> None:
    with pytest.raises(RuleError, match="without out="):
        staged(lambda t: np.sin(t, where=np.array([True, False, True])), X)
    with pytest.raises(RuleError, match="without out="):
        staged(lambda t: np.modf(t, out=(t.copy(), None), where=t > 0), X)


def test_a_mask_of_another_dtype_or_shape_raises_a_named_error() -> None:
    with pytest.raises(DtypeError, match="not of bool"):
        staged(lambda t: np.sin(t, where=t, out=t.copy()), X)
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        staged(lambda t: np.sin(t, where=np.ones((2, *X.shape), bool), out=t.copy()), X)
    with pytest.raises(DtypeError, match="cannot be stored"):
        staged(lambda t: np.sin(t, where=t > 0, out=(t > 0) * 1), X)


def test_dtype_option_computes_in_that_dtype() -> None:
    for f in (
        lambda t: np.add(t, t, dtype=np.float32),
        lambda t: np.sin(t, dtype=np.complex128),
        lambda t: np.multiply(t, 2, dtype=np.float32),
    ):
        (found,) = eval_jaxpr(staged(f, X), [X])
        assert_same(found, f(X))


def test_lists_and_plain_arrays_beside_tracers_are_operands() -> None:
    for f in (
        lambda t: np.add([1.0, 2.0, 3.0], t),
        lambda t: np.array([1.0, 2.0, 3.0]) * t,
        lambda t: np.float32(2) * t,
        lambda t: operator.add([1.0, 2.0, 3.0], t),
        lambda t: divmod(t, 2),
        lambda t: divmod(7.0, abs(t)),
    ):
        for found, wanted in zip(eval_jaxpr(staged(f, X), [X]), outputs(f(X)), strict=True):
            assert_same(found, wanted)


SCIPY = ("erf", "erfc", "erfinv", "ndtri", "expit", "gammaln", "psi", "i0", "i1", "i0e", "i1e")


def test_scipys_ufuncs_reach_the_rows_of_special_functions() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.array([0.3, 0.7])
    for name in SCIPY:
        f = getattr(special, name)
        (found,) = eval_jaxpr(staged(f, x), [x])
        assert_same(found, f(x))


def test_a_ufunc_without_a_rule_raises_and_never_gives_objects() -> None:
    private = pytest.importorskip("scipy.special._ufuncs")
    with pytest.raises(RuleError, match="_cospi has no rule"):
        staged(private._cospi, np.ones(2))

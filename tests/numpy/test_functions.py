"""Every function of ftrace.numpy on traced values against NumPy on plain ones."""

from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.core.avals import typeof
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.interpreters.tangents import instantiate
from tests.numpy.cases import CASES
from tests.numpy.function_table import Case, leaves, lookup, rebuild

SAMPLES = [pytest.param(case, id=repr(case)) for case in CASES]


def outputs(result: Any) -> list[Any]:
    """The arrays of a result."""
    return list(result) if isinstance(result, tuple | list) else [result]


def flat(case: Case, module: Any) -> Any:
    """The case as a function of flat arrays."""
    function = lookup(module, case.name)
    return lambda *xs: outputs(function(*rebuild(case.args, iter(xs)), **case.kwargs))


def arrays(case: Case) -> list[Any]:
    return list(leaves(case.args))


def close(x: Any, y: Any, tolerance: float = 1e-13) -> None:
    x, y = np.asarray(x), np.asarray(y)
    assert x.shape == y.shape
    assert x.dtype == y.dtype
    single = x.dtype.kind in "fc" and np.finfo(x.dtype).eps > 1e-10
    limit = 4 * float(np.finfo(x.dtype).eps) if single else tolerance
    np.testing.assert_allclose(x, y, rtol=limit, atol=limit)


@pytest.mark.parametrize("case", SAMPLES)
def test_staged_function_gives_numpys_values_shapes_and_dtypes(case: Case) -> None:
    xs = arrays(case)
    expected = flat(case, np)(*xs)
    jaxpr, captured = trace_to_jaxpr(flat(case, fnp), [typeof(x) for x in xs])
    assert not captured
    found = eval_jaxpr(jaxpr, xs)
    assert len(found) == len(expected)
    for x, y, v in zip(found, expected, jaxpr.outvars, strict=True):
        close(x, y)
        assert (v.aval.shape, v.aval.dtype) == (np.shape(x), np.asarray(x).dtype)
        assert v.aval.weak == (type(lookup(np, case.name)(*case.args, **case.kwargs)) is bool)


@pytest.mark.parametrize("case", SAMPLES)
def test_plain_numpy_on_a_tracer_gives_the_same_jaxpr(case: Case) -> None:
    avals = [typeof(x) for x in arrays(case)]
    ours, _ = trace_to_jaxpr(flat(case, fnp), avals)
    numpys, _ = trace_to_jaxpr(flat(case, np), avals)
    assert repr(ours) == repr(numpys)


def numerical(case: Case, xs: list[Any], ts: list[Any]) -> list[Any]:
    """Directional derivatives by central differences."""
    h = 1e-6
    run = flat(case, np)
    plus = run(*[x + h * t if t is not None else x for x, t in zip(xs, ts, strict=True)])
    minus = run(*[x - h * t if t is not None else x for x, t in zip(xs, ts, strict=True)])
    return [(p - m) / (2 * h) for p, m in zip(plus, minus, strict=True)]


def is_double(x: Any) -> bool:
    return np.asarray(x).dtype in (np.float64, np.complex128)


def is_real_double(x: Any) -> bool:
    return np.asarray(x).dtype == np.float64


def has_derivative(case: Case) -> bool:
    """Whether finite differences can say something about a case."""
    xs = arrays(case)
    results = flat(case, np)(*xs)
    return case.smooth and any(map(is_double, xs)) and any(map(is_double, results))


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=repr(case)) for case in CASES if has_derivative(case)]
)
def test_derivative_agrees_with_central_differences(case: Case) -> None:
    xs = arrays(case)
    rng = np.random.default_rng(5)
    ts = [rng.normal(size=x.shape) if is_double(x) else None for x in xs]
    tangents = [ZERO if t is None else np.asarray(t, x.dtype) for x, t in zip(xs, ts, strict=True)]
    expected = numerical(case, xs, ts)
    ys, found = jvp_flat(
        flat(case, fnp), [x[()] for x in xs], [t if t is ZERO else t[()] for t in tangents]
    )
    for y, t, wanted in zip(ys, found, expected, strict=True):
        if is_double(y):
            close(instantiate(t, y), wanted, 2e-6)


def another(x: Any) -> Any:
    """A second member for a batch: in reverse, but sorted points stay sorted."""
    if x.ndim == 1 and x.dtype.kind == "f" and np.all(np.diff(x) > 0):
        return x + 0.25
    return x[..., ::-1] if x.ndim else x


@pytest.mark.parametrize("case", SAMPLES)
def test_batched_function_is_the_function_of_each_member(case: Case) -> None:
    xs = arrays(case)
    stacked = [np.stack([x, another(x)]) for x in xs]
    ys, dims = batch_flat(flat(case, fnp), Axis(2), stacked, [0] * len(xs))
    for i in range(2):
        expected = flat(case, np)(*[s[i] for s in stacked])
        for y, d, wanted in zip(ys, dims, expected, strict=True):
            close(np.asarray(place_axis(y, d, Axis(2), 0))[i], wanted)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=repr(case))
        for case in CASES
        if has_derivative(case) and all(map(is_real_double, arrays(case)))
    ],
)
def test_reverse_mode_is_the_transpose_of_forward_mode(case: Case) -> None:
    xs = [x[()] for x in arrays(case)]
    rng = np.random.default_rng(6)
    ts = [np.asarray(rng.normal(size=np.shape(x)))[()] for x in xs]
    run = flat(case, fnp)
    chosen = [i for i, y in enumerate(run(*xs)) if is_double(y)]

    def smooth(*args: Any) -> list[Any]:
        found = run(*args)
        return [found[i] for i in chosen]

    ys, dys = ftrace.jvp(smooth, tuple(xs), tuple(ts))
    cts = [np.asarray(rng.normal(size=np.shape(y))).astype(np.result_type(y))[()] for y in ys]
    _, pull = ftrace.vjp(smooth, *xs)
    found = pull(cts)
    left = sum(np.sum(ct * dy).real for ct, dy in zip(cts, dys, strict=True))
    right = sum(np.sum(t * g) for t, g in zip(ts, found, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shift", [0, 2, -1, 7, -9])
def test_roll_by_a_traced_number_of_places(shift):
    x, m = np.arange(5.0), np.arange(6.0).reshape(2, 3)
    programs = [
        lambda s: np.roll(x * (s * 0 + 1), s),
        lambda s: np.roll(m, s, 1),
        lambda s: np.roll(m, (s, 1), (0, 1)),
        lambda s: np.roll(m, s),
        lambda s: np.roll(m, np.stack([s, s]), (0, 1)),
        lambda s: np.roll(np.zeros((0, 2)), s, 0),
    ]
    for f in programs:
        right = f(np.int64(shift))
        np.testing.assert_array_equal(ftrace.jit(f)(np.int64(shift)), right)
        np.testing.assert_array_equal(ftrace.vmap(f)(np.array([shift, 1]))[0], right)
    weights = np.arange(5.0) ** 2
    slope = ftrace.jit(ftrace.grad(lambda x, s: np.roll(x, s) @ weights))(x, shift)
    np.testing.assert_array_equal(slope, np.roll(weights, -shift))
    with pytest.raises(TypeError):
        ftrace.jit(np.roll)(x, 1.5)

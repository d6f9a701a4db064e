"""`checkpoint(budget=)`: what is held is measured, what runs again is counted."""

import time
import tracemalloc

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import checkpoint, grad, jit, lax, vjp, vmap
from ftrace import checkpoint_policies as policies
from ftrace.control import saving
from ftrace.control.saving import late_jaxpr
from ftrace.core.jaxpr import eval_jaxpr
from tests.counting import CountedSin

X = np.array([0.3, -0.7, 1.1])


@pytest.fixture(autouse=True)
def interpreted(request):
    """Only tests about compiled code compile."""
    with ftrace.config.update(compile="compiled" in request.node.name):
        yield


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12)


rng = np.random.default_rng(3)
BIG = rng.normal(size=(120, 120)) / 12.0
DATA = rng.normal(size=(120, 100))
ONE = DATA.nbytes  # 96 kB


def mlp(x):
    for _ in range(6):
        x = np.tanh(BIG @ x)
    return np.sum(x)


def softmaxes(x):
    for _ in range(4):
        e = np.exp(x - np.max(x, axis=0))
        x = BIG @ (e / np.sum(e, axis=0)) * 5.0
    return np.sum(x * x)


def residual_blocks(x):
    for _ in range(5):
        h = np.sin(BIG @ x)
        x = x + np.exp(-h * h) * h
    return np.sum(x)


def sums_of_powers(x):
    total = 0.0
    for k in range(8):
        total = total + np.sum(np.log1p(np.exp(x * (k + 1.0))) ** 2)
    return total


def with_calls(x):
    layer = jit(lambda v: np.tanh(BIG @ v) * np.cos(v))
    for _ in range(4):
        x = layer(x)
    return np.sum(x)


def with_branches(x):
    for k in range(4):
        x = lax.cond(np.sum(x) > 1e9, np.cos, lambda v: np.sin(BIG @ v), x) * (k + 1.0)
    return np.sum(np.exp(x))


def slices_and_joins(x):
    for _ in range(5):
        a, b = np.tanh(x[:60]), np.exp(-(x[60:] ** 2))
        x = BIG @ fnp.concatenate([b * a, a])
    return np.sum(x)


def recurrence(x):
    y, v = x, x
    for _ in range(12):
        y, v = y + 0.1 * v, v - 0.1 * np.sin(y) * np.exp(-v * v)
    return np.sum(y * v)


BUDGETED = (
    mlp,
    softmaxes,
    residual_blocks,
    sums_of_powers,
    with_calls,
    with_branches,
    slices_and_joins,
    recurrence,
)


def held(fun, *args):
    """The bytes that are alive between the passes, and the gradient."""
    vjp(fun, *args)  # traced and derived once, so that only arrays are new
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        y, pull = vjp(fun, *args)
        del y
        return tracemalloc.get_traced_memory()[0] - before, pull(1.0)[0]
    finally:
        tracemalloc.stop()


SLACK = 20_000  # Python's own objects, and arrays of rank 0


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0, ONE, 3 * ONE + 10, 7 * ONE, 10**9])
@pytest.mark.parametrize("program", BUDGETED, ids=lambda p: p.__name__)
def test_what_is_held_stays_within_the_budget(program, budget):
    x = DATA.copy()
    nothing, _ = held(checkpoint(program), x)  # the argument and captured arrays
    found, gradient = held(checkpoint(program, budget=budget), x)
    assert found - nothing <= budget + SLACK
    np.testing.assert_allclose(gradient, grad(program)(x), rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("program", [mlp, with_calls], ids=lambda p: p.__name__)
def test_what_compiled_code_holds_stays_within_the_budget(program):
    x = DATA.copy()
    nothing, _ = held(checkpoint(program), x)
    found, gradient = held(checkpoint(program, budget=3 * ONE), x)
    assert 2 * ONE - SLACK <= found - nothing <= 3 * ONE + SLACK
    np.testing.assert_allclose(gradient, grad(program)(x), rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("program", BUDGETED, ids=lambda p: p.__name__)
def test_a_budget_is_used(program):
    """A large one keeps all that the derivative needs, and a smaller one at least its half."""
    x = DATA.copy()
    nothing, _ = held(checkpoint(program), x)
    for budget in (4 * ONE, 6 * ONE):
        assert held(checkpoint(program, budget=budget), x)[0] - nothing >= budget / 2
    large = checkpoint(program, budget=10**9)
    everything = checkpoint(program, policy=policies.everything_saveable)
    assert held(large, x)[0] <= held(everything, x)[0] + SLACK


def peak(fun, x):
    """The most that is alive during the backward pass, in arrays of the size of `DATA`."""
    vjp(fun, x)[1](1.0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _, pull = vjp(fun, x)
        tracemalloc.reset_peak()
        pull(1.0)
        return (tracemalloc.get_traced_memory()[1] - before) / ONE
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["interpreted", "compiled"])
def test_the_backward_pass_computes_again_one_stretch_at_a_time(kind):
    def deep(x):
        for _ in range(16):
            x = np.tanh(BIG @ x)
        return np.sum(x)

    with_budget = checkpoint(lambda x: deep(x), budget=4 * ONE)
    without = checkpoint(lambda x: deep(x), policy=policies.nothing_saveable)
    assert peak(with_budget, DATA) < 14 < 18 < peak(without, DATA)
    close(grad(with_budget)(DATA), grad(deep)(DATA))


def test_late_recomputation_keeps_the_order_of_what_depends_on_each_other():
    def program(a, b, ct):
        early = np.sin(a)
        late = np.cos(early) * b
        first = ct * 2.0
        second = first * early
        return second * late + a, late

    jaxpr = ftrace.make_jaxpr(program)(X, X, X)
    ordered = late_jaxpr(jaxpr, 2)
    names = [e.primitive.name for e in ordered.eqns]
    assert [e.primitive.name for e in jaxpr.eqns] == [
        "sin",
        "cos",
        "mul",
        "mul",
        "mul",
        "mul",
        "add",
    ]
    assert names == ["mul", "sin", "mul", "cos", "mul", "mul", "add"]
    for j in (jaxpr, ordered):
        for a, e in zip(eval_jaxpr(j, (X, X, X)), program(X, X, X), strict=True):
            np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize("program", BUDGETED, ids=lambda p: p.__name__)
def test_the_work_that_keeping_saves_is_counted_exactly(program):
    known = ftrace.make_jaxpr(lambda x: ftrace.linearize(program, x)[1](x))(DATA)
    graph = saving.Graph(known, known.outvars)
    keep = set()
    for _ in range(3):
        again, _ = graph.cut(keep)
        parents, sizes = graph.dominators(again)
        gains = graph.gains(again, parents)
        whole = sum(graph.works[i] for i in again)
        for i in again:
            less, kept = graph.cut(keep | {i})
            assert gains[i] == pytest.approx(whole - sum(graph.works[j] for j in less))
            own = [v for v in kept if v in known.eqns[i].outvars]
            assert sizes[i] == sum(saving.nbytes(v.aval) for v in own)
        keep.add(sorted(again)[len(again) // 3])


def test_a_budget_is_chosen_quickly_for_long_programs():
    def long(x):
        for k in range(400):
            x = np.tanh(x * (1.0 + k)) + np.sin(x)
        return np.sum(x)

    started = time.perf_counter()
    grad(checkpoint(long, budget=60 * 80))(np.ones(10))
    assert time.perf_counter() - started < 30.0


def test_a_larger_budget_computes_less_again():
    runs = []
    for budget in (0, ONE, 2 * ONE, 4 * ONE, 8 * ONE, 16 * ONE):
        counted = CountedSin()

        def f(x, sin=counted.row):
            for _ in range(8):
                x = sin(BIG @ x)
            return np.sum(x * x)

        gradient = grad(checkpoint(f, budget=budget))(DATA)
        np.testing.assert_allclose(gradient, grad(lambda x, f=f: f(x, np.sin))(DATA))
        runs.append(counted.runs)
    assert runs == sorted(runs, reverse=True)
    assert runs[0] == 16
    assert runs[-1] == 8
    assert len(set(runs)) >= 4


def test_a_budget_goes_to_what_is_dear_to_compute():
    def f(x):
        cheap = x * 2.0 + 1.0  # both are needed, one is dear
        dear = BIG @ (BIG @ x)
        return np.sum(cheap * cheap * dear)

    found = ftrace.saved_residuals(checkpoint(f, budget=ONE), DATA)
    assert [r.name for r in found if r.kind == "intermediate"] == ["dot_general"]


def test_a_budget_is_chosen_the_same_way_every_time():
    def chosen():
        fun = checkpoint(lambda x: residual_blocks(x), budget=5 * ONE)
        return [(r.name, r.bytes, r.why) for r in ftrace.saved_residuals(fun, DATA)]

    assert chosen() == chosen()


def test_members_of_a_vmap_share_a_budget():
    members = np.stack([DATA] * 5)

    def kept(budget):
        """How many values the known half gives besides its result."""
        f = checkpoint(mlp, budget=budget)

        def member(x):
            y, push = ftrace.linearize(f, x)
            return y, push(x)

        jaxpr = ftrace.make_jaxpr(vmap(member))(members)
        (known,) = [e for e in jaxpr.eqns if e.params.get("name") == "checkpoint"]
        return len(known.outvars) - 1

    assert [kept(n * ONE) for n in (4, 5, 11, 24)] == [0, 1, 2, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (0, 0),
        (7, 7),
        ("7", 7),
        ("9B", 9),
        ("2kB", 2000),
        ("2KB", 2000),
        ("3MB", 3 * 10**6),
        ("1TB", 10**12),
        ("1KiB", 1024),
        ("64MiB", 64 * 2**20),
        ("1.5 GiB", 3 * 2**29),
    ],
)
def test_sizes_are_numbers_or_text_with_a_unit(text, expected):
    f = checkpoint(np.sin, budget=text)
    (eqn,) = ftrace.make_jaxpr(f)(X).eqns
    assert eqn.params["policy"].nbytes == expected

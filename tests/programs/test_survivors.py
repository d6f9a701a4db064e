"""Programs that a planted bug taught: each fails for a change that no other test noticed."""

import types

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import (
    checkpoint,
    grad,
    jit,
    jvp,
    lax,
    value_and_grad,
    vectorize,
    vjp,
    vmap,
)
from ftrace import checkpoint_policies as policies
from ftrace.control import traces
from ftrace.control.remat.budgets import _numbers_of_points, _spread
from ftrace.control.remat.mincut import _scalar_work, least_moved
from ftrace.control.remat.peak_memory import peak
from ftrace.control.remat.saving import work
from ftrace.control.rows.jit import BACKENDS, executable
from ftrace.control.rows.partials import _size, partials
from ftrace.control.rows.vectorized import _again, vectorize_call
from ftrace.control.scanning import LISTED
from ftrace.control.traces import counter
from ftrace.core import errors
from ftrace.core.avals import aval
from ftrace.core.dtypes import float64
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.interpreters.partial import partial_jaxpr
from ftrace.interpreters.staging import trace_closed

X = np.array([1.0, 2.0, 3.0])
NUMBER = aval((), float64)
F8 = ftrace.ShapeDtypeStruct((), np.float64)
MODES = pytest.mark.parametrize("compiled", [True, False])


# ---------------------------------------------------------------------------------- branches


@pytest.mark.parametrize("index", [-3, -1, 0, 1, 2, 9])
def test_an_index_outside_has_the_derivative_of_the_nearest_branch(index):
    def f(x, i):
        y = np.sqrt(x)
        return lax.switch(i, [lambda: y * 3.0, lambda: x * 5.0, lambda: y * 7.0])

    expected = [1.5, 5.0, 3.5][min(max(index, 0), 2)]
    assert grad(f)(1.0, index) == expected
    assert jit(grad(f))(1.0, index) == expected


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("arms", [(0, 1), (1, 0)])
def test_mapped_branches_whose_results_are_mapped_along_different_axes(flag, arms):
    functions = [lambda x: x, lambda x: np.cumsum(x, axis=0)]
    one, other = (functions[i] for i in arms)
    b = np.arange(9.0).reshape(3, 3)
    found = vmap(lambda x, p: lax.cond(p, one, other, x), (1, None))(b, flag)
    chosen = one if flag else other
    np.testing.assert_array_equal(found, [chosen(b[:, i]) for i in range(3)])


def test_a_branch_that_is_not_taken_reads_no_place_in_a_call_either():
    table = np.array([2.0, 3.0, 5.0])
    read = jit(lambda i: fnp.take(table, i, mode="raise"))
    f = vmap(lambda i: lax.cond(i < 3, read, lambda i: -1.0, i))
    np.testing.assert_array_equal(f(np.array([1, 7, 2])), [3.0, -1.0, 5.0])


def test_only_weak_results_of_branches_are_converted():
    f = lambda x, p: lax.cond(p, lambda x: (x, x), lambda x: (x * 2.0, 1.0), x)  # noqa: E731
    (eqn,) = (e for e in ftrace.make_jaxpr(f)(np.float64(1.5), True).eqns if "branches" in e.params)
    rows = [[e.primitive.name for e in b.eqns] for b in eqn.params["branches"]]
    assert sorted(rows) == [[], ["mul", "convert_element_type"]]


def test_a_result_of_branches_that_all_members_share_is_one():
    f = lambda x, p: lax.cond(p, lambda x: (x, 1.0), lambda x: (x * 2.0, 2.0), x)  # noqa: E731
    found, shared = vmap(f, (0, None), (0, None))(X, False)
    np.testing.assert_array_equal(found, 2.0 * X)
    assert shared == 2.0


def test_branches_over_members_have_the_same_types_with_tapes_too():
    def f(x, p):
        def looped(x):
            return lax.while_loop(lambda c: c.sum() < 20.0, lambda c: c * c, x).sum()

        return lax.cond(p, looped, lambda x: x.sum() * 3.0, x)

    jaxpr = ftrace.make_jaxpr(vmap(grad(f), (0, None)))(np.ones((3, 2)), True)
    found = [e.params["branches"] for e in jaxpr.eqns if e.primitive.name == "cond"]
    assert len(found) == 2
    for branches in found:
        assert len({tuple(a.shape[1:] for a in b.out_avals) for b in branches}) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: lax.cond(True, 3.0, np.sin, 1.0),
        lambda: lax.switch(0, [np.sin, 3.0], 1.0),
        lambda: lax.while_loop(3.0, np.sin, 1.0),
        lambda: lax.scan(3.0, 1.0, X),
        lambda: lax.map(3.0, X),
        lambda: lax.fori_loop(0, 3, 3.0, 1.0),
    ],
)
def test_what_is_no_function_is_refused_as_one(call):
    with pytest.raises(errors.DtypeError, match="must be a function, not a value of type float"):
        call()


def test_loops_in_a_branch_of_all_members_keep_their_states():
    """The states of a loop that was not run are as many, and as wide, as those of one that was."""

    def f(x, p):
        def looped(x):
            return lax.while_loop(lambda c: c.sum() < 20.0, lambda c: c * c, x).sum()

        return lax.cond(p, looped, lambda x: x.sum() * 3.0, x)

    x = np.array([[1.5, 2.0], [3.0, 1.0], [2.0, 4.0]])
    for axes in (0, 1):
        mapped = jit(vmap(grad(f), (axes, None)))
        for p in (True, False):
            rows = x if axes == 0 else x.T
            np.testing.assert_allclose(mapped(x, p), [grad(f)(r, p) for r in rows], rtol=1e-14)


# ---------------------------------------------------------------------------------- loops


def test_a_long_counted_loop_counts():
    n = LISTED + 2
    assert jit(lambda x: lax.fori_loop(0, n, lambda i, s: s + i, x))(0) == n * (n - 1) // 2


@MODES
def test_a_loop_of_numbers_whose_body_has_effects_has_them(compiled):
    seen = []

    def body(x):
        ftrace.io_callback(lambda v: seen.append(float(v)), None, x)
        return x + 1.0

    with ftrace.config.update(compile=compiled):
        f = vmap(lambda x: lax.while_loop(lambda x: x < 2.0, body, x))
        np.testing.assert_array_equal(jit(f)(np.array([0.0, 1.0])), [2.0, 2.0])
    assert sorted(seen) == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("way", [lambda f: f, jit], ids=["plain", "jit"])
def test_a_scan_that_keeps_few_states_has_one_without_a_derivative(way):
    def f(x):
        def turn(c, _):
            return (c[0] * x, c[1] + 1), None

        (y, n), _ = lax.scan(turn, (x, 0), length=4, checkpoint="binomial", slots=2)
        return y * n

    assert way(lambda x: ftrace.linearize(f, x)[1](1.0))(2.0) == 320.0
    assert way(lambda x: jvp(f, (x,), (1.0,))[1])(2.0) == 320.0
    assert way(grad(f))(2.0) == 320.0
    assert way(lambda x: jvp(grad(f), (x,), (1.0,))[1])(2.0) == 640.0
    assert way(grad(grad(f)))(2.0) == 640.0


@pytest.mark.parametrize("way", [lambda f: f, jit], ids=["plain", "jit"])
def test_a_scan_that_keeps_few_states_takes_elements_of_another_shape(way):
    def f(w, checkpoint):
        def turn(c, v):
            return np.sin(c * v.sum()), (c * v[0]).sum()

        xs = np.arange(12.0).reshape(4, 3) / 10
        c, ys = lax.scan(turn, w, xs, **checkpoint)
        return c.sum() + ys.sum()

    few = {"checkpoint": "binomial", "slots": 2}
    w, t = np.array([0.5, 0.7]), np.array([1.0, 2.0])
    for g in (
        lambda f: jvp(f, (w,), (t,))[1],
        lambda f: ftrace.linearize(f, w)[1](t),
        lambda f: jvp(grad(f), (w,), (t,))[1],
        lambda f: grad(lambda w: (grad(f)(w) * t).sum())(w),
    ):
        found, expected = (way(lambda g=g, c=c: g(lambda w: f(w, c)))() for c in (few, {}))
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_elements_of_a_scan_that_its_derivative_reads_are_not_copied():
    f = lambda x: lax.scan(lambda c, v: (c * v, None), x, X)[0]  # noqa: E731
    names = [e.primitive.name for e in ftrace.make_jaxpr(grad(f))(2.0).eqns]
    assert names.count("scan") == 1


def test_what_a_scan_with_few_states_would_be_takes_what_it_takes():
    def f(w):
        xs = np.arange(12.0).reshape(4, 3)
        turn = lambda c, v: (np.sin(c * v.sum()), None)  # noqa: E731
        return lax.scan(turn, w, xs * w.sum(), checkpoint="binomial", slots=2)[0]

    w = np.array([0.5, 0.7])
    jaxpr = ftrace.make_jaxpr(lambda w, t: ftrace.linearize(f, w)[1](t))(w, w)
    (again,) = (e for e in jaxpr.eqns if "halves" in e.params)
    assert again.params["jaxpr"].in_avals == tuple(x.aval for x in again.invars)


# ---------------------------------------------------------------------------------- calls


def test_what_a_call_does_not_map_stays_so():
    f = vmap(jit(lambda x, y: (x + y, y * 2.0)), (0, None), (0, None))
    total, twice = f(X, 1.5)
    np.testing.assert_array_equal(total, X + 1.5)
    assert twice == 3.0


def test_what_a_program_in_pieces_returns_is_the_callers_own():
    table = np.array([5.0, 7.0])

    def looped(x):
        return x, table, lax.while_loop(lambda c: c.sum() < 20.0, lambda c: c * c, x)

    def both(x):
        return vjp(looped, x)[0]

    x = X.copy()
    for y in (*jit(both)(x)[:2], *vjp(jit(looped), x)[0][:2]):
        assert not np.shares_memory(y, x)
        assert not np.shares_memory(y, table)


def test_functions_without_captures_are_traced_once_in_a_program():
    def step(carry, x):
        return carry + x, carry

    def program(x):
        return lax.scan(step, 0.0, x)[0] + lax.scan(step, 1.0, x)[0]

    before = counter.count
    jit(program)(X)
    assert counter.count == before + 2


def test_a_program_asked_for_while_its_backend_loads_is_interpreted_once(monkeypatch):
    whole = trace_closed(lambda x: [x, x * 2.0], [aval((3,), float64)])
    x = X.copy()
    with monkeypatch.context() as loading:
        loading.setattr(BACKENDS["cpu"], "loading", True)
        run = executable(whole, "cpu")
        same, twice = run([x])
        assert not any(key[0] == "code" for key in whole.cache)
    assert not np.shares_memory(same, x)
    np.testing.assert_array_equal(twice, 2.0 * X)
    np.testing.assert_array_equal(run([x])[1], 2.0 * X)
    assert any(key[0] == "code" for key in whole.cache)


def test_a_trace_made_while_guards_load_holds_once(monkeypatch):
    @jit
    def f(x):
        return x * 2.0

    before = counter.count
    with monkeypatch.context() as loading:
        loading.setattr(traces._watch, "loading", True)
        assert [f(1.0), f(1.0)] == [2.0, 2.0]
    assert counter.count == before + 2
    assert [f(1.0), f(1.0)] == [2.0, 2.0]
    assert counter.count == before + 3


ROWS = {
    "jit": jit(lambda x: np.sin(x) * x),
    "checkpoint": checkpoint(lambda x: np.sin(x) * x),
    "vectorize": vectorize(lambda x: np.sin(x) * x),
    "cond": lambda x: lax.cond(x > 1.0, lambda: np.sin(x) * x, lambda: x),
    "while": lambda x: np.sin(lax.while_loop(lambda c: c < 1.0, lambda c: c * 2.0, x)) * x,
    "scan": lambda x: np.sin(x) * lax.scan(lambda c, _: (c * x, None), 1.0, length=1)[0],
}


@pytest.mark.parametrize("row", ROWS)
def test_a_value_beside_a_gradient_is_a_number(row):
    value, slope = value_and_grad(ROWS[row])(1.5)
    np.testing.assert_allclose(value, np.sin(1.5) * 1.5, rtol=1e-15)
    np.testing.assert_allclose(slope, np.sin(1.5) + np.cos(1.5) * 1.5, rtol=1e-15)


# ---------------------------------------------------------------------------------- host functions


@MODES
def test_an_error_of_a_callback_of_its_own_is_no_nan(compiled):
    def fails(x):
        raise errors.SolverError("It does not converge.", "Start elsewhere.")

    with ftrace.config.update(compile=compiled), pytest.raises(errors.SolverError):
        vmap(lambda x: ftrace.pure_callback(fails, F8, x))(X)


def test_the_effect_that_a_checkpoint_would_repeat_is_named():
    def f(x):
        y = np.sin(x)
        ftrace.debug.print("{}", y)
        return y * y

    with pytest.raises(errors.RuleError, match=r"that of debug_\w+\."):
        grad(checkpoint(f))(0.5)


def test_errors_of_members_leave_the_settings_of_numpy():
    def f(x):
        if x < 0:
            raise ValueError("negative")
        return x * 2.0

    before = np.geterr()
    with pytest.raises(ValueError, match="negative") as caught:
        vmap(f)(np.array([1.0, -1.0]))
    assert np.geterr() == before
    assert caught.value.__traceback__ is not None


# ---------------------------------------------------------------------------------- users' rules


def linear_by_rule():
    """The identity, whose tangent is made by a function that has a rule of its own."""
    double = ftrace.custom_jvp(lambda t: t * 2.0)
    double.defjvp(lambda p, t: (double(*p), double(*t)))
    f = ftrace.custom_jvp(lambda x: x * 2.0)
    f.defjvp(lambda p, t: (f(*p), double(*t)))
    return f


def solved(x):
    return lax.custom_linear_solve(lambda v: v * 0.5, x, lambda matvec, b: b * 2.0, symmetric=True)


@pytest.mark.parametrize("row", [linear_by_rule(), solved], ids=["custom_jvp", "linear_solve"])
@pytest.mark.parametrize("way", [lambda f: f, jit], ids=["plain", "jit"])
def test_a_side_that_is_not_taken_contributes_nothing_through_a_rule(row, way):
    def f(x):
        return np.where(x > 0.0, row(np.sqrt(x)), 0.0)

    x, expected = np.array([0.0, 4.0]), [0.0, 0.5]
    np.testing.assert_array_equal(way(grad(lambda x: vmap(f)(x).sum()))(x), expected)
    np.testing.assert_array_equal(way(vmap(grad(f)))(x), expected)


KEPT = {}


def test_what_a_function_with_a_rule_captured_and_does_not_read_may_be_from_elsewhere():
    def f(x):
        inner = ftrace.custom_jvp(lambda y, read: y * x if read else y * 2.0, nondiff_argnums=(1,))
        inner.defjvp(lambda read, p, t: (inner(p[0], read), t[0] * 2.0))
        KEPT["inner"] = inner
        outer = ftrace.custom_jvp(lambda y: y * 1.0)
        outer.defjvp(lambda p, t: (outer(*p), t[0] * KEPT["inner"](3.0, False)))
        return outer(x)

    np.testing.assert_array_equal(vmap(grad(f))(X), [6.0, 6.0, 6.0])


@MODES
def test_effects_of_a_function_with_a_batching_rule_happen(compiled):
    seen = []

    @ftrace.custom_batching.custom_vmap
    def f(x):
        ftrace.io_callback(lambda v: seen.append(float(v)), None, x)
        return x * 2.0

    f.def_vmap(lambda size, mapped, x: (x * 2.0, True))
    with ftrace.config.update(compile=compiled):
        jit(lambda x: (f(x), x)[1])(3.0)
    assert seen == [3.0]


def test_a_function_with_a_batching_rule_may_ask_for_a_value_under_a_derivative():
    f = ftrace.custom_batching.custom_vmap(lambda x: x * {3.5: 3.0}[lax.stop_gradient(x)])
    f.def_vmap(lambda size, mapped, x: (x * np.floor(x), True))
    assert grad(f)(3.5) == 3.0


# ---------------------------------------------------------------------------------- vectorize


def test_the_size_of_a_program_has_its_branches():
    f = lambda x, p: lax.cond(p, np.sin, lambda x: np.cos(x) * x, x)  # noqa: E731
    jaxpr = ftrace.make_jaxpr(f)(1.5, True)
    assert _size(jaxpr) >= len(jaxpr.eqns) + 3


def test_the_work_of_a_program_has_that_of_its_branches():
    def program(cheap):
        other = (lambda x: x + 1.0) if cheap else np.sin
        f = lambda x, p: lax.cond(p, lambda x: x * 2.0, other, x)  # noqa: E731
        return ftrace.make_jaxpr(f)(1.5, True)

    assert _scalar_work(program(True)) < _scalar_work(program(False))


def test_the_smaller_program_of_partial_derivatives_is_taken():
    def product(*xs):
        y = xs[0]
        for x in xs[1:]:
            y = np.sin(y * x)
        return [y]

    many = trace_closed(product, [NUMBER] * 6)
    found, pattern = partials(many, (True,) * 6)
    assert sorted(pattern) == [(0, i) for i in range(6)]
    assert len(found.eqns) < 60  # forwards they are 70, backwards 39


@pytest.mark.parametrize("loop", ["while", "scan"])
def test_all_partial_derivatives_of_a_loop_come_from_one_loop_if_it_may_be_long(loop):
    def f(x, y):
        if loop == "while":
            return [lax.while_loop(lambda c: c < 50.0, lambda c: c * x + y, x)]
        return [lax.scan(lambda c, _: (c * x + y, None), x, length=3)[0]]

    found, pattern = partials(trace_closed(f, [NUMBER] * 2), (True, True))
    assert pattern == ((0, 0), (0, 1))
    count = [e.primitive.name for e in found.eqns].count(loop)
    assert count == (1 if loop == "while" else 2)
    _, *slopes = eval_jaxpr(found, [1.5, 2.0])
    np.testing.assert_allclose(slopes, grad(lambda x, y: f(x, y)[0], (0, 1))(1.5, 2.0))


def test_results_of_unknown_operands_wait_all_of_them():
    both = vectorize(lambda x, y: (x * y, x + y))
    whole = trace_closed(lambda x, y: list(both(x, y)), [aval((3,), float64)] * 2)
    assert partial_jaxpr(whole, (True, False)).out_known == (False, False)


def test_partials_of_unknown_values_wait():
    f = vectorize(lambda x: np.sin(x) * x)
    whole = trace_closed(lambda x, t: list(jvp(f, (x,), (t,))), [aval((3,), float64)] * 2)
    assert partial_jaxpr(whole, (False, True)).out_known == (False, False)


def test_a_loop_over_members_is_not_run_again_for_its_derivative():
    f = vectorize(lambda x, y: lax.while_loop(lambda c: c < 50.0, lambda c: c * x + y, x))
    both = value_and_grad(lambda x, y: f(x, y).sum(), (0, 1))
    assert str(ftrace.make_jaxpr(both)(X + 1.0, X)).count("while[") == 1


def test_partial_derivatives_of_a_loop_are_those_of_numbers():
    def f(*xs):
        def body(c):
            y = c
            for x in xs:
                y = np.sin(y * x)
            return c + 1.0 + y

        return [lax.while_loop(lambda c: c < 50.0, body, xs[0])]

    found, _ = partials(trace_closed(f, [NUMBER] * 8), (True,) * 8)
    assert {v.aval.shape for e in found.eqns for v in e.outvars} == {()}


def test_partial_derivatives_are_computed_again_where_that_is_cheaper_than_reading_them():
    """Three of them are computed sooner than they are read; one of them is not."""

    def fun(x):
        y = x
        for _ in range(20):
            y = y * x + 1.0
        return [y, y * 2.0, y * 3.0, y * 5.0]

    work = trace_closed(fun, [NUMBER])
    assert _again(work, 3, "auto")
    assert not _again(work, 1, "auto")


@MODES
def test_a_vectorized_function_that_is_linear_in_a_tangent(compiled):
    scale = vectorize(lambda a, t: a * t)
    f = ftrace.custom_jvp(np.sin)
    f.defjvp(lambda p, t: (f(*p), scale(np.cos(p[0]), t[0])))
    with ftrace.config.update(compile=compiled):
        for way in (grad, lambda f: jit(grad(f)), lambda f: grad(jit(f))):
            found = way(lambda x: f(x).sum())(X)
            np.testing.assert_allclose(found, np.cos(X), rtol=1e-15)


@MODES
def test_a_pullback_of_a_vectorized_function_maps_over_cotangents(compiled):
    with ftrace.config.update(compile=compiled):
        _, pull = vjp(vectorize(lambda x, y: np.sin(x) * y), X, X + 1.0)
        found = vmap(pull)(np.eye(3))
        np.testing.assert_allclose(found[0], np.diag(np.cos(X) * (X + 1.0)), rtol=1e-15)
        np.testing.assert_allclose(found[1], np.diag(np.sin(X)), rtol=1e-15)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_vectorized_identity_gives_an_array_of_its_own(compiled):
    identity = trace_closed(lambda x: [x], [NUMBER])
    with ftrace.config.update(compile=compiled):
        (y,) = vectorize_call(X, jaxpr=identity, active=(), keep="auto")
        assert not np.shares_memory(y, X)
        nothing = trace_closed(lambda: [], [])
        assert vectorize_call(jaxpr=nothing, active=(), keep="auto") == []


# ---------------------------------------------------------------------------------- what is kept


def test_points_are_no_closer_than_what_they_keep_is_worth():
    program = types.SimpleNamespace(cut=lambda keep: (range(100), []))
    assert list(_numbers_of_points(program)) == [0, 1, 3, 7, 15]


def test_equals_are_spread_by_their_places_in_the_program():
    assert _spread({3: 1.0, 1: 1.0, 0: 1.0, 2: 1.0, 4: 2.0}) == [4, 0, 2, 1, 3]


def test_what_is_small_is_kept_and_made_large_again():
    avals = [aval((3, 1), float64), aval((3, 1000), float64)]
    whole = trace_closed(lambda x, t: [fnp.cumsum(x, axis=0) * t], avals)
    known = True, False
    halves = least_moved(partial_jaxpr(whole, known), known)
    assert [v.aval.size for v in halves.known.outvars] == [3]


def test_constants_of_a_call_within_are_kept_beside_what_is_computed_again():
    inner = jit(lambda x: (np.exp(x), 3.0))

    def f(x, y):
        a, b = inner(x)
        return a * y, b * y

    _, pull = vjp(jit(f), X, X)
    gx, gy = pull((np.ones(3), np.ones(3)))
    np.testing.assert_allclose(gx, np.exp(X) * X, rtol=1e-14)
    np.testing.assert_allclose(gy, np.exp(X) + 3.0, rtol=1e-14)


def test_a_value_that_has_a_name_nobody_refused_is_kept_without_it_too():
    def f(x):
        u = np.sin(x)
        return np.sum(ftrace.checkpoint_name(u, "s") * u * x)

    def kept(policy):
        found = ftrace.saved_residuals(checkpoint(f, policy=policy), X)
        return sorted((r.kind, r.name) for r in found)

    every = kept(policies.everything_saveable)
    assert kept(policies.save_anything_except_these_names("t")) == every
    assert kept(policies.save_anything_except_these_names("s")) != every


@pytest.mark.parametrize("n", [10, 1 << 20, 1 << 28])
def test_what_is_kept_does_not_depend_on_how_large_all_is(n):
    """Of a chain of cheap operations the input alone is kept."""
    whole = trace_closed(lambda x, t: [-((x * x + x) * x) * t], [aval((n,), float64)] * 2)
    known = True, False
    halves = least_moved(partial_jaxpr(whole, known), known)
    assert len(halves.known.outvars) == 0
    assert halves.forwarded == (0,)


def test_a_vectorized_function_takes_the_work_and_the_memory_of_all_its_members():
    def one(x):
        return [np.sin(x) * x + np.exp(x)]

    scalar = trace_closed(one, [NUMBER])
    whole = trace_closed(
        lambda x: vectorize_call(x, jaxpr=scalar, active=(), keep="auto"), [aval((100,), float64)]
    )
    (eqn,) = whole.eqns
    assert work(eqn) == 100 * sum(map(work, scalar.eqns))
    assert peak(whole, False) > 2 * 8 * 100


def test_a_host_function_takes_the_memory_of_its_operands_and_results():
    wide = ftrace.ShapeDtypeStruct((1000,), np.float64)
    whole = trace_closed(
        lambda x: [ftrace.pure_callback(lambda x: x, wide, x * 2.0)], [aval((1000,), float64)]
    )
    assert peak(whole, True) >= 3 * 8 * 1000

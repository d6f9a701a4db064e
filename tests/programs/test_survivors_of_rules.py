"""Programs with users' rules that a planted bug taught: no other test noticed it."""

import types

import numpy as np
import pytest

import ftrace
from ftrace import checkpoint_name, grad, jit, jvp, lax, vectorize, vmap
from ftrace import checkpoint_policies as policies
from ftrace.control.remat.checkpoint import _choices, _needed
from ftrace.control.remat.mincut import least_moved
from ftrace.control.remat.peak_memory import _called
from ftrace.control.remat.saving import allowed
from ftrace.control.rows.raising import without_errors
from ftrace.control.rows.scan import is_long
from ftrace.control.rules.custom_lin import custom_lin
from ftrace.control.rules.linear_call import linear_call
from ftrace.control.rules.singular import _staged
from ftrace.core import errors
from ftrace.core.avals import aval
from ftrace.core.dtypes import float64
from ftrace.core.trace import Tracer
from ftrace.interpreters.partial import partial_jaxpr
from ftrace.interpreters.staging import trace_closed
from ftrace.primitives.elementwise import mul
from tests.programs import matrix

X = np.array([1.0, 2.0, 3.0])
NUMBER = aval((), float64)


def test_a_masked_system_couples_what_is_taken_with_what_is_not():
    a = np.array([[2.0, 1.0], [1.0, 2.0]])

    def f(x):
        y = lax.custom_linear_solve(
            lambda v: a @ v, x * x, lambda matvec, b: np.linalg.solve(a, b), symmetric=True
        )
        return np.where(np.array([False, True]), y, 0.0).sum()

    x = np.array([1.0, 2.0])
    for way in (grad(f), jit(grad(f))):
        np.testing.assert_allclose(way(x), 2 * x * np.linalg.inv(a)[1], rtol=1e-14)


def test_a_rule_shapes_and_fills_what_it_makes():
    square = ftrace.custom_jvp(lambda x: x * x)

    @square.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        y, d = x * x, 2 * t * x
        for a in (y, d):
            a.shape = (3, 1)
        y[0, 0] = x[0] * x[0]
        d[0, 0] = 2 * t[0] * x[0]
        tail = d[1:]
        tail *= 1.0
        return y.ravel(), d.ravel()

    f = grad(lambda x: square(x).sum())
    for way in (f, jit(f), lambda x: vmap(f)(x[None])[0]):
        np.testing.assert_array_equal(way(X), 2 * X)


def test_a_program_traces_a_backward_rule_once():
    seen = []

    def back(x, ct):
        seen.append(x)
        return (2 * x * ct,)

    square = ftrace.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (x * x, x), back)
    pushed = vectorize(lambda x: jvp(square, (x,), (1.0,))[1])
    np.testing.assert_array_equal(pushed(X), 2 * X)
    assert len(seen) == 1


def test_a_solver_on_the_host_has_no_auxiliary_results():
    def f(x):
        def solve(matvec, b):
            return np.unique(b) / 2.0, 1.0

        return lax.custom_linear_solve(lambda v: 2.0 * v, x, solve, has_aux=True)

    with pytest.raises(errors.ConcretizationTypeError, match=r"numpy\.unique"):
        jit(f)(X)


def test_a_linear_call_over_members_along_the_last_axis():
    linear = types.SimpleNamespace(outs=(aval((2,), float64),), push=lambda _, ts: [ts[0] * 2.0])
    x = np.arange(6.0).reshape(2, 3)
    found = vmap(lambda x: linear_call(x, n=0, linear=linear)[0], in_axes=1)(x)
    np.testing.assert_array_equal(found, 2.0 * x.T)


def test_a_solver_of_a_root_gets_numbers_where_nothing_is_traced():
    seen = []

    def solve(f, x):
        seen.append(x)
        return x * 2.0

    assert lax.custom_root(lambda x: x - 2.0, 1.0, solve, lambda g, y: y / g(1.0)) == 2.0
    assert len(seen) == 1
    assert not isinstance(seen[0], Tracer)


def test_linear_maps_with_all_results_of_members_and_what_they_share():
    number = aval((), float64)
    copy = lambda *xs, active: list(xs)  # noqa: E731 - a rule of flat values
    rule = {"bwd": lambda *cts: list(cts), "active": (True, True), "push": copy}
    pair = vmap(lambda x, y: custom_lin(x, y, out_avals=(number, number), **rule))(X, 2.0 * X)
    np.testing.assert_array_equal(pair, [X, 2.0 * X])
    same = types.SimpleNamespace(
        outs=(number,), push=lambda _, ts: ts, pull=lambda _, cts, wanted: [np.float64(3.0)]
    )
    total = lambda x: vmap(lambda t: linear_call(t, n=0, linear=same)[0])(x).sum()  # noqa: E731
    assert grad(total)(X).tolist() == [3.0, 3.0, 3.0]


def test_the_guess_of_a_root_has_no_derivative_and_nothing_is_solved_for_it():
    def fails(g, y):
        raise AssertionError

    f = lambda guess: lax.custom_root(lambda x: x - 2.0, guess, lambda f, x: x * 2.0, fails)  # noqa: E731
    assert jvp(f, (1.0,), (1.0,)) == (2.0, 0.0)


def test_the_member_that_raises_is_named_along_any_axis():
    def f(x):
        if x < 0:
            raise ValueError("negative")
        return x

    x = np.ones((2, 3))
    x[0, 2] = -1.0
    with pytest.raises(ValueError, match="negative") as caught:
        vmap(vmap(f), 1)(x)
    assert any("batch element (2, 0)" in note for note in caught.value.__notes__)


def test_a_policy_for_names_keeps_nothing_nameless():
    assert not policies.save_only_these_names("a")(mul, NUMBER, NUMBER)
    assert not policies.save_any_names_but_these("a")(mul, NUMBER, NUMBER)


def test_a_value_with_a_name_that_is_kept_may_have_another_one():
    named = lambda x: checkpoint_name(checkpoint_name(np.sin(x), "a"), "b")  # noqa: E731
    jaxpr = ftrace.make_jaxpr(named)(1.5)
    assert allowed(jaxpr, policies.save_only_these_names("a")) == {1}
    assert allowed(jaxpr, policies.save_any_names_but_these("a")) == {2}


def test_what_either_of_two_policies_keeps_is_kept():
    nothing, everything = policies.nothing_saveable, policies.everything_saveable
    for pair in ((nothing, everything), (everything, nothing)):
        assert policies.save_from_both_policies(*pair)(mul, NUMBER, NUMBER)


def test_what_members_share_is_broadcast_for_the_host_where_that_is_asked():
    seen = []

    def host(x, y):
        seen.append((x.shape, y.shape))
        return x + y

    f8 = ftrace.ShapeDtypeStruct((), np.float64)
    call = lambda x, y: ftrace.pure_callback(host, f8, x, y, vmap_method="broadcast_all")  # noqa: E731
    np.testing.assert_array_equal(vmap(call, (0, None))(X, 1.0), X + 1.0)
    assert seen == [((3,), (3,))]


def test_empty_matrices_of_members_are_not_singular_one_by_one():
    empty = aval((3, 0, 0), float64)
    assert [a.shape for a in _staged(empty, empty).out_avals] == [(3,)]


@pytest.mark.parametrize("length", [1, 2])
def test_a_scan_of_one_turn_has_no_states_to_save(length):
    f = lambda x: lax.scan(lambda c, _: (c * x, None), x, length=length)[0]  # noqa: E731
    (eqn,) = (e for e in ftrace.make_jaxpr(f)(2.0).eqns if "loop" in e.params)
    assert is_long(eqn) == (length > 1)


def test_what_a_function_of_the_users_may_keep_counts_as_held():
    f8 = ftrace.ShapeDtypeStruct((3,), np.float64)
    given = ftrace.make_jaxpr(lambda x: (np.sin(x), ftrace.pure_callback(np.cos, f8, x)))(X)
    ours, host = given.eqns
    assert (_called(ours), _called(host)) == (X.nbytes, 2 * X.nbytes)


def test_all_results_count_in_what_a_derivative_needs():
    light, heavy = np.negative, lambda x: np.sin(np.exp(np.cos(x) * x) * x)

    def needed(*functions):
        both = lambda x: tuple(f(x) for f in functions)  # noqa: E731
        pushed = lambda x, t: [y for pair in jvp(both, (x,), (t,)) for y in pair]  # noqa: E731
        jaxpr = trace_closed(pushed, [aval((1000,), float64)] * 2)
        return [_needed(h, (True, False), False) for h in _choices(jaxpr, (True, False), 10**9)]

    assert needed(light, heavy)[:3] == needed(heavy, light)[:3]


def test_calls_that_raise_nothing_stay_calls_where_errors_become_results():
    called = jit(lambda x: np.sin(x) * 2.0)

    def f(x):
        if x < 0:
            raise ValueError("negative")
        return called(x)

    clean, errors = without_errors(ftrace.make_jaxpr(f)(1.5))
    assert len(errors) == 1
    assert "jit" in [e.primitive.name for e in clean.eqns]


def test_a_function_over_members_is_not_run_again_for_what_is_cheap_to_store():
    lines = vectorize(lambda x: x * 2.0 + 1.0)
    f = lambda x: lines(x) * lines(x) * x  # noqa: E731
    whole = trace_closed(lambda x, t: list(jvp(f, (x,), (t,))), [aval((1000,), float64)] * 2)
    known = (True, False)
    halves = least_moved(partial_jaxpr(whole, known), known)
    assert "vectorize" in [e.primitive.name for e in halves.known.eqns]
    assert "vectorize" not in [e.primitive.name for e in halves.linear.eqns]


def test_what_a_mapped_loop_has_recorded_may_be_mapped_in_front():
    ways = matrix.TRANSFORMATIONS
    f = ways["vmap"][0](ways["custom_gradient"][0](matrix.FUNCTIONS["while"]))
    t = np.array([0.3, -1.0, 0.5])
    slope = ftrace.jvp(f, (matrix.X,), (t,))[1]
    near = (f(matrix.X + 1e-6 * t) - f(matrix.X - 1e-6 * t)) / 2e-6
    assert slope == pytest.approx(near, rel=1e-7)

"""The public list of passes: what runs, what users insert, what is refused, what is kept apart."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import ftrace
from ftrace import errors, grad, jit, lax, passes, vectorize, vmap
from ftrace.control.traces import counter
from ftrace.core.config import _from_environment
from ftrace.lowering.kernel.ir import Block, KernelVar, Let, Lit, Loop, Store
from ftrace.lowering.kernel.schedule import LANE, SERIAL
from ftrace.lowering.kernel.traversal import mapped

X = np.linspace(-2.0, 2.0, 9)


def rational(x):
    return x * (27.0 + x * x) / (27.0 + 9.0 * x * x)


swap = passes.replacing("tanh", rational)


def same(form):
    return form


def sines(kernel):
    """A pass on kernels: each tanh becomes a sine."""

    def statement(s):
        if isinstance(s, Let) and s.op == "tanh":
            return replace(s, op="sin")
        return mapped(s, block)

    def block(b):
        return Block(tuple(map(statement, b.stmts)), b.results)

    return replace(kernel, body=block(kernel.body))


def text(f, *args):
    return "\n".join(f.lower(*args).kernels)


# ---------------------------------------------------------------------------------- the list


def test_the_default_list_is_what_runs():
    names = [p.name for p in passes.default()]
    on_jaxprs = ["accumulate", "dce", "block", "factor", "roll", "elide"]
    assert names == ["inline", *on_jaxprs, "fuse", "build"]
    assert [(p.takes, p.gives) for p in passes.default()] == [
        ("call", "jaxpr"),
        *[("jaxpr", "jaxpr")] * 6,
        ("jaxpr", "groups"),
        ("groups", "kernel"),
    ]
    assert passes.current() == passes.default()


def test_inserted_passes_stand_after_the_one_they_name_in_the_order_of_insertion():
    with (
        passes.inserted(same, name="a") as a,
        passes.inserted(same, name="k", after="build") as k,
        passes.inserted(same, name="b"),
        passes.inserted(same, name="first", after="inline"),
        passes.inserted(same, name="c", after="a"),
    ):
        names = [p.name for p in passes.current()]
        assert names == [
            "inline",
            "first",
            "accumulate",
            "dce",
            "a",
            "c",
            "b",
            "block",
            "factor",
            "roll",
            "elide",
            "fuse",
            "build",
            "k",
        ]
        assert (a.takes, a.gives, a.after) == ("jaxpr", "jaxpr", "dce")
        assert (k.takes, k.gives, k.after) == ("kernel", "kernel", "build")
        assert repr(k) == "<pass k: kernel>"
    assert passes.current() == passes.default()


def test_a_block_that_fails_takes_its_pass_with_it():
    with pytest.raises(ZeroDivisionError), passes.inserted(same):
        raise ZeroDivisionError
    assert passes.current() == passes.default()


@pytest.mark.by_name
def test_the_lowering_names_the_passes_that_changed_something():
    f = jit(lambda x: np.tanh(x) + 0.0 * jit(np.exp)(x))
    with passes.inserted(same), passes.inserted(swap):
        lowered = f.lower(X)
        assert jit(np.sin).lower(X).passes == ("inline", "fuse", "build")
    assert f.lower(X).passes == ("inline", "fuse", "build")
    assert lowered.passes == ("inline", "replace tanh", "fuse", "build")
    assert "; passes: inline, replace tanh, fuse, build>" in repr(lowered)


def test_dce_after_a_pass_drops_what_it_left_over():
    def with_more(jaxpr):
        sin = jaxpr.eqns[0]
        more = type(sin)(
            sin.primitive, list(sin.outvars), {}, [type(sin.outvars[0])(sin.outvars[0].aval)], None
        )
        return passes.Jaxpr(jaxpr.invars, [*jaxpr.eqns, more], jaxpr.outvars)

    f = jit(lambda x: np.sin(x))
    plain = text(f, X)
    with passes.inserted(with_more, after="inline"):
        assert f.lower(X).passes == ("inline", "with_more", "dce", "fuse", "build")
        assert text(f, X) == plain


# ---------------------------------------------------------------------------------- running


@pytest.mark.by_name
def test_a_pass_that_swaps_tanh_for_a_rational_runs_and_shows_in_the_ir():
    f = jit(lambda x: np.tanh(x) * 2.0)
    before = f(X)
    with passes.inserted(swap, after="dce"):
        assert text(f, X) == (
            "kernel k1(in x0:f8[1], out o1:f8[1]; n0:i8, n1:f8, n2:f8):\n"
            "  for v1 < n0:\n"
            "    v2:f8 = x0[v1]\n"
            "    v3:f8 = mul v2 v2\n"
            "    v4:f8 = add n1 v3\n"
            "    v5:f8 = mul v2 v4\n"
            "    v6:f8 = mul n2 v2\n"
            "    v7:f8 = mul v6 v2\n"
            "    v8:f8 = add n1 v7\n"
            "    v9:f8 = div v5 v8\n"
            "    v10:f8 = mul v9 2.0\n"
            "    o1[v1] = v10"
        )
        assert np.array_equal(f(X), rational(X) * 2.0)
    assert "tanh" in text(f, X)
    assert np.array_equal(f(X), before)
    assert np.allclose(before, np.tanh(X) * 2.0, rtol=1e-15)


@pytest.mark.by_name
def test_one_function_keeps_the_code_of_each_list_and_is_traced_once():
    f = jit(lambda x: np.tanh(x))
    counted = counter.count
    for _ in range(2):
        assert np.allclose(f(X), np.tanh(X), rtol=1e-15)
        with passes.inserted(swap):
            assert np.array_equal(f(X), rational(X))
            assert np.array_equal(f(X), rational(X))
            with passes.inserted(passes.replacing("mul", lambda x, y: x)):
                assert not np.allclose(f(X), rational(X))
            assert np.array_equal(f(X), rational(X))
    assert counter.count == counted + 1


def nested(t, x):
    return jit(lambda v: jit(lambda w: t(w))(v))(x)


def branch(t, x):
    return lax.cond(x[0] < 0, t, lambda v: v, x)


def loop(t, x):
    return lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, t(c[1])), (0, x))[1]


def turns(t, x):
    return lax.scan(lambda c, v: (t(c + v), c), x, X[:3])[0]


def mapped_loop(t, x):
    return vmap(lambda v: lax.while_loop(lambda c: np.abs(c) > 0.4, t, v))(x)


@pytest.mark.by_name
@pytest.mark.parametrize("fun", [nested, branch, loop, turns, mapped_loop])
def test_a_pass_sees_calls_branches_and_loops(fun):
    f = jit(lambda x: fun(np.tanh, x))
    by_hand = jit(lambda x: fun(rational, x))
    assert not np.allclose(f(X), by_hand(X), rtol=1e-6)
    with passes.inserted(swap):
        assert np.array_equal(f(X), by_hand(X))
        assert "tanh" not in text(f, X)
        assert "replace tanh" in f.lower(X).passes


@pytest.mark.by_name
def test_a_pass_sees_what_derivatives_are_made_of():
    f = jit(grad(lambda x: np.sum(np.tanh(x))))
    with passes.inserted(swap):
        assert "tanh" not in text(f, X)
        assert np.allclose(f(X), 1 - rational(X) ** 2, rtol=1e-14)


@pytest.mark.by_name
def test_a_pass_may_bring_an_array_which_is_read_at_every_call():
    table = np.arange(9.0)
    f = jit(lambda x: np.tanh(x) + 1.0)
    with passes.inserted(passes.replacing("tanh", lambda x: x * table)):
        assert np.array_equal(f(X), X * table + 1.0)
        table[:] = 2.0
        assert np.array_equal(f(X), X * 2.0 + 1.0)


@pytest.mark.by_name
def test_a_pass_may_bring_calls_and_change_the_result_into_an_input_or_a_number():
    f = jit(lambda x: np.tanh(x))
    with passes.inserted(passes.replacing("tanh", jit(rational))):
        assert np.array_equal(f(X), rational(X))
    with passes.inserted(passes.replacing("tanh", lambda x: x), name="identity"):
        assert np.array_equal(f(X), X)
    with passes.inserted(passes.replacing("tanh", lambda x: 3.0), name="number"):
        assert f(0.5) == 3.0


@pytest.mark.by_name
def test_params_reach_the_replacement():
    swapped = passes.replacing("integer_pow", lambda x, y: x * y)
    f = jit(lambda x: lax.integer_pow(x, 5))
    with passes.inserted(swapped):
        assert np.array_equal(f(X), 5 * X)


# ---------------------------------------------------------------------------------- kernels


def test_a_pass_on_kernels_runs_and_shows():
    f = jit(lambda x: np.tanh(x) * 2.0)
    with passes.inserted(sines, after="build"):
        lowered = f.lower(X)
        assert lowered.passes == ("inline", "fuse", "build", "sines")
        assert " = sin v2" in text(f, X)
        assert "tanh" not in text(f, X)
        assert np.array_equal(f(X), 2.0 * jit(np.sin)(X))
    assert "tanh" in text(f, X)


def test_a_pass_on_kernels_sees_those_of_branches_and_mapped_loops():
    for fun in (branch, mapped_loop):
        f = jit(partial(fun, np.tanh))
        with passes.inserted(sines, after="build"):
            assert "tanh" not in text(f, X)
            assert "sin" in text(f, X)


def test_a_kernel_with_other_loops_is_scheduled_anew():
    def halves(kernel):
        """Store twice, in two loops."""
        (stmt,) = kernel.body.stmts
        axis = KernelVar(1000, "i8")

        def renamed(atom):
            return axis if atom == stmt.axis else atom

        stmts = tuple(
            replace(s, at=tuple(map(renamed, s.at))) if hasattr(s, "at") else s
            for s in stmt.body.stmts
        )
        return replace(kernel, body=Block((replace(stmt, axis=axis, body=Block(stmts)),)))

    f = jit(lambda x: np.tanh(x))
    expected = f(X)
    with passes.inserted(halves, after="build"):
        (launch,) = f.lower(X).program.launches
        assert launch.schedule.roles == ((1000, LANE),)
        assert np.array_equal(f(X), expected)


def test_a_schedule_stays_where_the_loops_do():
    f = jit(lambda x: np.tanh(np.concatenate([x[:10], x])))
    long = np.ones(600)
    (plain,) = (launch.schedule for launch in f.lower(long).program.launches)
    assert [role for _, role in plain.roles] == [SERIAL, LANE]  # the first ten, and the others
    with passes.inserted(sines, after="build"):
        assert [launch.schedule for launch in f.lower(long).program.launches] == [plain]


# ---------------------------------------------------------------------------------- refusals


def test_what_is_no_function_is_refused():
    with pytest.raises(errors.DtypeError, match=r"inserted takes a function.*given a int"):
        passes.inserted(3).__enter__()


@pytest.mark.parametrize("after", ["fuse", "schedule", "swap"])
def test_a_place_that_is_none_is_refused(after):
    with pytest.raises(errors.TreeError, match=f"'same' cannot be inserted after '{after}'") as e:
        passes.inserted(same, after=after).__enter__()
    names = "'inline', 'accumulate', 'dce', 'block', 'factor', 'roll', 'elide', 'build'"
    assert f"Name one of {names}." in str(e.value)


def test_a_name_that_is_taken_is_refused():
    with passes.inserted(same), pytest.raises(errors.TreeError, match="name 'same' already"):
        passes.inserted(same, after="build").__enter__()
    with pytest.raises(errors.TreeError, match="name 'dce' already"):
        passes.inserted(same, name="dce").__enter__()


def without_equations(jaxpr):
    return passes.Jaxpr(jaxpr.invars, [], jaxpr.outvars, jaxpr.constvars, jaxpr.consts)


def without_results(jaxpr):
    return passes.Jaxpr(jaxpr.invars, jaxpr.eqns, (), jaxpr.constvars, jaxpr.consts)


def of_other_shape(jaxpr):
    return ftrace.make_jaxpr(lambda x: x[:2])(X)


def wrongly_typed(jaxpr):
    (eqn,) = jaxpr.eqns
    out = type(eqn.outvars[0])(ftrace.make_jaxpr(same)(X.astype("f4")).in_avals[0])
    other = type(eqn)(eqn.primitive, eqn.invars, eqn.params, (out,), None)
    cast = ftrace.make_jaxpr(lambda x: x.astype(float))(X.astype("f4")).eqns[0]
    back = type(eqn)(cast.primitive, [out], cast.params, eqn.outvars, None)
    return passes.Jaxpr(jaxpr.invars, [other, back], jaxpr.outvars)


def no_kernel(kernel):
    return None


def no_store(kernel):
    return replace(kernel, body=Block(()))


def other_buffers(kernel):
    return replace(kernel, buffers=kernel.buffers[::-1])


def unbound(kernel):
    (loop,) = kernel.body.stmts
    assert isinstance(loop, Loop)
    stmts = tuple(
        replace(s, value=KernelVar(999, "f8")) if isinstance(s, Store) else s
        for s in loop.body.stmts
    )
    return replace(kernel, body=Block((replace(loop, body=Block(stmts)),)))


def of_other_dtype(kernel):
    (loop,) = kernel.body.stmts
    stmts = tuple(
        replace(s, value=Lit(1, "i8")) if isinstance(s, Store) else s for s in loop.body.stmts
    )
    return replace(kernel, body=Block((replace(loop, body=Block(stmts)),)))


REFUSED = [
    (no_kernel, "dce", "gave NoneType, no jaxpr"),
    (without_equations, "dce", "left a malformed jaxpr: the result reads a variable of type"),
    (without_results, "inline", r"turned \[f64\[9\]\] -> \[f64\[9\]\] into \[f64\[9\]\] -> \[\]"),
    (of_other_shape, "dce", r"turned .* into \[f64\[9\]\] -> \[f64\[2\]\]"),
    (wrongly_typed, "dce", "left a malformed jaxpr: tanh: its type rule gives"),
    (no_kernel, "build", "gave NoneType, no kernel"),
    (other_buffers, "build", "changed the buffers or scalars of kernel k1"),
    (unbound, "build", "left a malformed kernel: kernel k1"),
    (of_other_dtype, "build", "left a malformed kernel: kernel k1"),
]


@pytest.mark.by_name
@pytest.mark.parametrize(("run", "after", "what"), REFUSED)
def test_a_pass_that_breaks_the_ir_is_named(run, after, what):
    with passes.inserted(run, after=after):
        with pytest.raises(errors.JaxprError, match=f"The pass '{run.__name__}' {what}") as e:
            jit(lambda x: np.tanh(x))(X)
        assert "A pass keeps inputs and results as they are" in str(e.value)
    assert np.allclose(jit(np.tanh)(X), np.tanh(X))


def test_the_checks_do_not_depend_on_the_settings_of_the_tests():
    with (
        ftrace.config.update(check_jaxprs=False),
        passes.inserted(unbound, after="build"),
        pytest.raises(errors.JaxprError, match="'unbound' left a malformed kernel"),
    ):
        jit(lambda x: np.tanh(x))(X)


def test_passes_are_no_environment_variable(monkeypatch):
    monkeypatch.setenv("FTRACE_PASSES", "1")
    monkeypatch.setenv("FTRACE_COMPILE", "0")
    found = _from_environment()
    assert (found.passes, found.compile) == ((), False)


def _turned(x):
    n = 0
    while n < 2 + (x > 50):
        x = np.tanh(x)
        n = n + 1
    return x if x > 2 else np.tanh(-x)


def _branched(x):
    return ftrace.lax.cond(x > 0.5, lambda: np.tanh(x), lambda: -np.tanh(x) * x)


def _carried(x):
    return ftrace.lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, np.tanh(s[1])), (0, x))[1]


def _turned_times_7(x):
    n = 0
    while n < 2 + (x > 50):
        x = 7.0 * x
        n = n + 1
    return x if x > 2 else 7.0 * -x


@pytest.mark.by_name
@pytest.mark.parametrize("f", [np.tanh, ftrace.jit(np.tanh), _turned, _carried, _branched])
@pytest.mark.parametrize("way", [lambda f: f, ftrace.jit, ftrace.vmap])
def test_a_pass_is_done_in_the_scalar_programs_of_vectorize(f, way):
    """In their arms and loops too: as if the function had been written with the other one."""
    x = np.array([0.3, 0.7, 1.1])

    mapped = way(vectorize(lambda x: f(x) * x))
    plain = mapped(x)
    with passes.inserted(passes.replacing("tanh", lambda x: 7.0 * x)):
        changed = mapped(x)
    expected = {
        _turned: _turned_times_7,
        _carried: lambda x: 49 * x,
        _branched: lambda x: 7 * x if x > 0.5 else -7 * x * x,
    }.get(f, lambda x: 7 * x)
    np.testing.assert_allclose(changed, [expected(a) * a for a in x], rtol=1e-13)
    np.testing.assert_array_equal(mapped(x), plain)


@pytest.mark.by_name
def test_derivatives_of_vectorize_are_taken_before_passes():
    def f(x):
        return vectorize(np.tanh)(x).sum()

    x = np.array([0.3, 0.7])
    with passes.inserted(passes.replacing("tanh", lambda x: x * 0.0 + 7.0)):
        np.testing.assert_allclose(ftrace.grad(f)(x), -48.0)  # 1 - tanh(x)**2
        np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(x), -48.0)
        _, (dx,) = ftrace.elementwise_partials(np.tanh)(x)
        np.testing.assert_allclose(dx, -48.0)


@pytest.mark.by_name
def test_what_a_pass_leaves_of_a_scalar_program_is_checked():
    def nothing(jaxpr):
        return (
            passes.Jaxpr(jaxpr.invars, (), ()) if jaxpr.eqns[0].primitive.name == "tanh" else jaxpr
        )

    with (
        passes.inserted(nothing),
        pytest.raises(errors.JaxprError, match=r"turned .* into .* -> \[\]"),
    ):
        vectorize(np.tanh)(np.ones(2))

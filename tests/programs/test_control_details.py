"""What rows of jaxprs keep to the letter: effects, types, order of captured values, frozen cells.

Each test was written for a change of the sources that no other test noticed (`make mutate`).
"""

from types import SimpleNamespace

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import checkpoint, eval_shape, grad, jit, jvp, lax, make_jaxpr, vjp, vmap
from ftrace.control.rows.cond import cond_call
from ftrace.control.rows.while_loop import while_call
from ftrace.control.rules.custom_derivatives import custom_jvp_call, custom_lin, custom_vjp_call
from ftrace.control.rules.linear_call import linear_call
from ftrace.control.traces import counter
from ftrace.core.avals import aval, typeof
from ftrace.core.dtypes import float32, float64
from ftrace.core.errors import CustomRuleError, DtypeError
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.zero import ZERO, Masked
from ftrace.interpreters.dce import dce_jaxpr
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.transpose import flatten_masked

X = np.array([0.5, -1.5, 2.0])

# ---------------------------------------------------------------------------------- effects

noted = ftrace.Primitive(
    name="noted",
    impl=lambda x: x + 0,
    type=lambda x: x,
    jvp="linear",
    transpose=lambda ct, x: (ct,),
    batch=lambda axis, values, dims: (noted(*values), dims[0]),
    effects=lambda: frozenset({"note"}),
    doc="The operand; its evaluation is an effect.",
)


def careless(x):
    """Its effect is all there is to it."""
    noted(x)
    return x * 2.0


def with_jvp():
    f = ftrace.custom_jvp(careless)
    f.defjvp(lambda p, t: (f(*p), 2.0 * t[0]))
    return f


def with_vjp():
    f = ftrace.custom_vjp(careless)
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (2.0 * ct,))
    return f


def with_rule():
    f = ftrace.custom_vmap(careless)
    f.def_vmap(lambda axis_size, in_batched, x: (2.0 * x, True))
    return f


WITH_EFFECTS = {
    "plain": careless,
    "jit": jit(careless),
    "checkpoint": checkpoint(careless),
    "cond, first": lambda x: lax.cond(x > 0, careless, lambda y: y, x),
    "cond, second": lambda x: lax.cond(x > 0, lambda y: y, careless, x),
    "while_loop, body": lambda x: lax.while_loop(lambda y: y < 9.0, careless, x),
    "while_loop, condition": lambda x: lax.while_loop(
        lambda y: careless(y) < 9.0, lambda y: y + 1.0, x
    ),
    "custom_jvp": with_jvp(),
    "custom_vjp": with_vjp(),
    "custom_vmap": with_rule(),
}


@pytest.mark.parametrize("name", WITH_EFFECTS)
def test_the_effects_of_a_jaxpr_are_those_of_the_rows_that_hold_it(name):
    f = WITH_EFFECTS[name]
    assert make_jaxpr(f)(1.0).effects == {"note"}


@pytest.mark.parametrize("name", WITH_EFFECTS)
def test_a_call_whose_results_nobody_reads_is_kept_for_its_effects(name):
    def unread(x):
        WITH_EFFECTS[name](x)
        return x + 1.0

    def pure(x):
        jit(lambda y: np.sin(y))(x)
        return x + 1.0

    assert "note" in str(make_jaxpr(unread)(1.0))
    assert "sin" not in str(make_jaxpr(pure)(1.0))


# ---------------------------------------------------------------------------------- types


def test_the_index_of_cond_must_be_an_integer_scalar():
    branch = make_jaxpr(lambda x: x)(X)
    with pytest.raises(DtypeError, match="index"):
        cond_call.type(aval((), float64), typeof(X), branches=(branch, branch))
    with pytest.raises(DtypeError, match="index"):
        cond_call.type(aval((2,), np.dtype("i8")), typeof(X), branches=(branch, branch))


def test_the_condition_of_while_must_be_a_boolean_scalar():
    body = make_jaxpr(lambda x: x)(X)
    for condition in (lambda x: x[0], lambda x: x > 0):
        with pytest.raises(DtypeError, match="boolean"):
            while_call.type(
                typeof(X),
                cond=make_jaxpr(condition)(X),
                body=body,
                n_consts=0,
                record=False,
                each=None,
            )


@pytest.mark.parametrize("p", [True, False])
def test_a_weak_branch_gives_the_strong_dtype_of_the_other(p):
    for found in (
        lax.cond(p, lambda x: 1, lambda x: x * 2, np.float32(3.0)),
        lax.cond(p, lambda x: x * 2, lambda x: 1, np.float32(3.0)),
    ):
        assert type(found) is np.float32
    assert type(lax.cond(p, lambda: 1.0, lambda: 2.0)) is np.float64


def test_a_traced_fraction_is_true():
    f = jit(lambda p: lax.cond(p, lambda: 1.0, lambda: 2.0))
    assert [f(p) for p in (0.5, 0.0, 2, 0, True, False)] == [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]


def test_a_loop_over_python_numbers_gives_strong_results():
    n, x = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, 1.5))
    assert (type(n), type(x)) == (np.int64, np.float64)
    found = eval_shape(
        lambda y: lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0) * y, np.float32(1)
    )
    assert found.dtype == float64


@pytest.mark.parametrize("start", [np.float32(7), 7.0, np.complex64(7)])
def test_a_loop_stores_a_python_number_in_the_dtype_of_its_carry(start):
    _, x = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, 0.5), (0, start))
    assert (x, x.dtype) == (0.5, np.asarray(start).dtype)


@pytest.mark.parametrize(
    ("start", "number"),
    [(7, 0.5), (7.0, 0.5j), (True, 2), (np.int32(7), 0.5), (7.0, np.float32(0.5))],
)
def test_a_loop_refuses_a_number_that_would_change_the_dtype_of_its_carry(start, number):
    with pytest.raises(DtypeError, match=r"body_fun changes carry\[1\]"):
        lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, number), (0, start))


def test_a_rule_sees_python_numbers_as_weak_when_it_is_staged():
    f = ftrace.custom_jvp(lambda p, x: p * x)
    f.defjvp(lambda primals, tangents: (f(*primals), primals[0] * tangents[1]))
    x = np.ones(3, np.float32)
    for g in (lambda x: f(2.0, x), jit(lambda x: f(2.0, x))):
        y, t = jvp(g, (x,), (x,))
        assert (y.dtype, t.dtype) == (float32, float32)


def test_tangents_of_python_numbers_are_strong():
    f = ftrace.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (2.0 * ct,))
    jaxpr = make_jaxpr(lambda x: jvp(f, (x,), (1.0,)))(1.0)
    assert "custom_lin" in str(jaxpr)
    assert not jaxpr.out_avals[1].weak
    _, t = jvp(f, (3.0,), (1.0,))
    assert type(t) is np.float64


def test_an_integer_result_of_a_custom_rule_has_no_tangent():
    f = ftrace.custom_jvp(lambda x: (x * 2.0, fnp.floor(x).astype(int)))
    f.defjvp(lambda p, t: (f(*p), (t[0] * 7.0, np.int64(0))))

    def product(x):
        y, n = f(x)
        return y * n

    for g in (product, jit(product)):
        assert jvp(g, (3.5,), (1.0,))[1] == 21.0
        assert grad(g)(3.5) == 21.0


def test_the_tangent_of_an_integer_result_is_the_symbolic_zero():
    (_, _), (t, zero) = jvp_flat(
        lambda x: custom_jvp_call(
            x, fun=lambda x: [x * 2.0, 3], rule=lambda x, t: [x * 2.0, 3, 2.0 * t, 5]
        ),
        [1.0],
        [1.0],
    )
    assert t == 2.0
    assert zero is ZERO


def test_residuals_of_a_custom_rule_may_have_any_shape_and_dtype():
    def forward(x):
        return np.sum(x), (np.outer(x, x), 3, x > 0)

    def backward(residuals, ct):
        square, n, positive = residuals
        return (ct * n * np.sum(square, axis=1) * positive,)

    f = ftrace.custom_vjp(lambda x: np.sum(x))
    f.defvjp(forward, backward)
    expected = 3 * X * X.sum() * (X > 0)
    for g in (grad(f), jit(grad(f)), grad(jit(f)), jit(grad(jit(f)))):
        np.testing.assert_allclose(g(X), expected)
    xs = np.stack([X, X + 1.0])
    found = vmap(grad(jit(f)))(xs)
    np.testing.assert_allclose(found, [3 * x * x.sum() * (x > 0) for x in xs])


# ---------------------------------------------------------------------------------- captured values


def test_captured_arrays_and_captured_tracers_keep_their_places():
    c = np.array([3.0, 5.0, 7.0])

    def f(x):
        inner = jit(lambda y: c * y + np.sin(x) * y * y)
        return np.sum(inner(2.0 * x) * np.array([1.0, 2.0, 3.0]))

    w = np.array([1.0, 2.0, 3.0])
    expected = w * (2.0 * c + 4.0 * (np.cos(X) * X**2 + 2.0 * X * np.sin(X)))
    np.testing.assert_allclose(grad(f)(X), expected)
    np.testing.assert_allclose(jit(grad(f))(X), expected)


def test_a_cell_given_to_a_rule_can_be_written_afterwards():
    f = ftrace.custom_jvp(lambda x: x * 2.0)
    f.defjvp(lambda p, t: (f(*p), 2.0 * t[0]))

    def g(x):
        y = fnp.zeros(2)
        y[0] = x
        z = f(y)
        y[1] = 3.0 * x
        return np.sum(y * 10.0) + np.sum(z)

    assert grad(g)(1.0) == 42.0
    assert jit(grad(g))(1.0) == 42.0
    assert grad(lambda x: g(jit(lambda v: v)(x)))(1.0) == 42.0


@pytest.mark.parametrize("kind", [ftrace.custom_jvp, ftrace.custom_vjp])
def test_a_function_with_a_rule_is_opened_on_tangents(kind):
    inner = kind(lambda y: y * 3.0)
    if kind is ftrace.custom_jvp:
        inner.defjvp(lambda p, t: (inner(*p), t[0] * 3.0))
    else:
        inner.defvjp(lambda y: (inner(y), None), lambda _, ct: (ct * 3.0,))
    f = ftrace.custom_jvp(lambda x: x * 3.0)
    f.defjvp(lambda p, t: (f(*p), inner(t[0])))
    assert jvp(f, (2.0,), (1.0,)) == (6.0, 3.0)
    assert grad(f)(2.0) == jit(grad(f))(2.0) == 3.0


def test_a_function_with_a_rule_that_tangents_enter_must_be_linear():
    @ftrace.custom_jvp
    def affine(x):
        return x * 3.0 + 1.0

    affine.defjvp(lambda p, t: (affine(*p), affine(*t)))
    with pytest.raises(CustomRuleError, match=r"applied to tangents, must be linear in the tang"):
        grad(affine)(2.0)


def test_a_result_of_a_custom_row_is_never_an_operand():
    same = [lambda x: [x], lambda *xs: list(xs)]
    (y,) = custom_jvp_call(X, fun=same[0], rule=same[1])
    assert not np.shares_memory(y, X)
    (y,) = custom_vjp_call(X, fun=same[0], fwd=same[0], bwd=same[1], n_out=1)
    assert not np.shares_memory(y, X)
    (y,) = custom_lin(X, bwd=same[1], active=(True,), out_avals=(typeof(X),))
    assert not np.shares_memory(y, X)
    push = lambda *xs, active: list(xs)  # noqa: E731 - a rule of flat values
    (y,) = custom_lin(X, bwd=same[1], active=(True,), out_avals=(typeof(X),), push=push)
    np.testing.assert_array_equal(y, X)
    assert not np.shares_memory(y, X)
    identity = SimpleNamespace(outs=(typeof(X),), push=lambda _, tangents: list(tangents))
    (y,) = linear_call(X, n=0, linear=identity)
    np.testing.assert_array_equal(y, X)
    assert not np.shares_memory(y, X)


def test_a_mapped_linear_map_has_all_its_results():
    number = aval((), float64)
    two = SimpleNamespace(outs=(number, number), push=lambda _, ts: [ts[0] * 2.0, ts[0] * 3.0])
    twice, thrice = vmap(lambda t: linear_call(t, n=0, linear=two))(X)
    np.testing.assert_array_equal(twice, 2.0 * X)
    np.testing.assert_array_equal(thrice, 3.0 * X)


def test_residuals_without_tangents_are_not_differentiated_in_a_backward_rule():
    f = ftrace.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (f(x), x), lambda r, ct: (ct * np.sqrt(r),))
    along = lambda v: jvp(f, (0.0,), (v,))[1]  # noqa: E731 - the derivative of sqrt is infinite
    assert jvp(along, (3.0,), (1.0,)) == (0.0, 0.0)
    assert grad(along)(3.0) == 0.0


def test_clearing_the_cache_forgets_the_traces():
    def f(x):
        return x + 1.0

    g = jit(f)
    g(1.0)
    before = counter.count
    g(2.0)
    assert counter.count == before
    g.clear_cache()
    g(3.0)
    assert counter.count == before + 1


def test_reading_a_pullback_twice_gives_the_same_numbers():
    _, pull = vjp(jit(lambda x: (np.sin(x), x * x)), X)
    first = pull((X, 2 * X))
    np.testing.assert_array_equal(first, pull((X, 2 * X)))
    np.testing.assert_allclose(first[0], np.cos(X) * X + 4 * X * X)


OFFSET = 3.0
TABLE = {"scale": 2.0, "rows": [1.0, 5.0]}
RATES = (2.0, 3.0, 5.0)


def test_a_global_beside_a_constant_is_guarded(monkeypatch):
    f = jit(lambda x: x * (OFFSET + 2) - (OFFSET - 1))
    assert f(2.0) == 8.0
    monkeypatch.setitem(globals(), "OFFSET", 20.0)
    assert f(2.0) == 25.0


class Settings:
    """An object with an attribute that a function reads."""

    def __init__(self):
        self.scale = 2.0
        self.inner = {"shift": 1.0}


def test_an_attribute_beside_a_constant_is_guarded():
    settings = Settings()
    f = jit(lambda x: x * (settings.scale + 2) + settings.inner["shift"])
    assert f(1.0) == 5.0
    settings.scale = 5.0
    assert f(1.0) == 8.0
    settings.inner["shift"] = 4.0
    assert f(1.0) == 11.0


def test_keyword_arguments_reach_a_staged_function():
    f = jit(lambda x, *, scale, shift=1.0: x * scale + shift)
    assert f(3.0, scale=2.0) == 7.0
    assert f(3.0, shift=0.5, scale=2.0) == 6.5
    assert grad(f)(3.0, scale=4.0) == 4.0


def test_an_argument_without_a_name_is_named_by_its_position():
    with pytest.raises(DtypeError, match=r"args\[0\]"):
        jit(lambda *values: values[0])("text")
    with pytest.raises(DtypeError, match=r"args\[1\]"):
        jit(lambda x, *rest: x)(1.0, "text")


def test_an_item_beside_a_constant_is_guarded(monkeypatch):
    f = jit(lambda x: x * (TABLE["scale"] + 2) + TABLE["rows"][1])
    assert f(1.0) == 9.0
    monkeypatch.setitem(TABLE, "scale", 5.0)
    assert f(1.0) == 12.0
    TABLE["rows"][1] = 6.0
    try:
        assert f(1.0) == 13.0
    finally:
        TABLE["rows"][1] = 5.0


def test_a_tuple_that_is_repeated_is_guarded_as_a_whole(monkeypatch):
    f = jit(lambda x: x * sum(RATES * 2))
    assert f(1.0) == 20.0
    monkeypatch.setitem(globals(), "RATES", (7.0, *RATES[1:]))
    assert f(1.0) == 30.0


def test_dead_code_keeps_the_captured_arrays_that_are_read():
    c, d = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    jaxpr = make_jaxpr(lambda x, y: (x * c, y * d))(X, X)
    for used, kept in (((True, False), c), ((False, True), d)):
        found, needed = dce_jaxpr(jaxpr, used)
        assert needed == used
        assert [k is kept for k in found.consts] == [True]
        np.testing.assert_array_equal(eval_jaxpr(found, [X])[0], X * kept)


# ---------------------------------------------------------------------------------- cotangents


@pytest.mark.parametrize("wrap", [lambda f: f, jit, checkpoint])
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (2.0, 5.0)])
def test_one_value_returned_twice_has_the_sum_of_both_cotangents(wrap, weights):
    def pair(v):
        w = np.sin(v)
        return w, w

    def f(x):
        first, second = wrap(pair)(x)
        return sum(w * y for w, y in zip(weights, (first, second), strict=True) if w)

    np.testing.assert_allclose(grad(f)(0.5), sum(weights) * np.cos(0.5))


def test_a_mapped_choice_takes_one_select_less_than_there_are_branches():
    branches = [np.sin, np.cos, np.tanh]
    f = vmap(lambda i, x: lax.switch(i, branches, x))
    index = np.array([2, 0, 1])
    rows = [e.primitive.name for e in make_jaxpr(f)(index, X).eqns]
    assert rows.count("select_branch") == 2
    assert rows.count("jit") == 3
    expected = [branches[i](x) for i, x in zip(index, X, strict=True)]
    np.testing.assert_allclose(f(index, X), expected, rtol=1e-15)


@pytest.mark.parametrize("p", [True, False])
def test_a_branch_that_is_constant_has_a_zero_derivative(p):
    def f(x, p):
        return lax.cond(p, lambda v: (v * v, 3.0), lambda v: (7.0, v * 5.0), x)

    def total(x, p):
        a, b = f(x, p)
        return a + 10.0 * b

    expected = 6.0 if p else 50.0
    assert grad(total)(3.0, p) == expected
    assert jit(grad(total))(3.0, p) == expected
    assert grad(jit(total))(3.0, p) == expected
    assert jvp(lambda x: f(x, p), (3.0,), (1.0,))[1] == ((6.0, 0.0) if p else (0.0, 5.0))
    a, b = vjp(lambda x: f(x, p), 3.0)[0]
    assert (a, b) == ((9.0, 3.0) if p else (7.0, 15.0))


A = np.array([[1.0, 2.0, 0.5], [3.0, -1.0, 4.0], [0.0, 1.0, 1.0]])
TAKEN = np.array([True, False, True])
ROWS = {
    "a product": lambda x: A @ x,
    "a cumulative sum": np.cumsum,
    "a sort": np.sort,
    "a call": jit(lambda x: A @ (x * x)),
    "a prefix product": np.cumprod,
}


@pytest.mark.parametrize("name", ROWS)
def test_a_masked_cotangent_crosses_rows_of_every_kind(name):
    f = ROWS[name]
    w = np.array([1.0, 10.0, 100.0])
    expected = grad(lambda x: np.sum(f(x) * w * TAKEN))(X)
    for g in (f, jit(f)):
        chosen = lambda x, g=g: np.sum(np.where(TAKEN, g(x), 5.0) * w)  # noqa: E731
        np.testing.assert_allclose(grad(chosen)(X), expected)
        np.testing.assert_allclose(jit(grad(chosen))(X), expected)


def test_a_choice_in_a_backward_rule_is_transposed_in_forward_mode():
    f = ftrace.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, x), lambda x, ct: (np.where(x > 0, 2.0 * x * ct, 7.0 * ct),))
    expected = np.where(X > 0, 2.0 * X, 7.0)
    for g in (f, jit(f)):
        np.testing.assert_allclose(grad(lambda x, g=g: np.sum(g(x)))(X), expected)
        np.testing.assert_allclose(jvp(g, (X,), (np.ones(3),))[1], expected)


def test_a_mask_is_an_operand_of_the_shape_of_its_cotangent():
    value, mask = flatten_masked([None, Masked(X, np.bool_(True))])
    assert value is X
    assert mask.shape == X.shape
    assert mask.all()

"""Programs of several operands through cond, while_loop, checkpoint, jit, rules and collectives.

Each is compared with the same program in plain Python, or with a formula; no two operands,
branches or axes are alike, so that an exchanged pair shows.
"""

import numpy as np
import pytest

import ftrace
from ftrace import checkpoint, grad, jit, jvp, lax, linearize, make_jaxpr, value_and_grad, vjp, vmap
from ftrace.control.remat.checkpoint import checkpoint_call
from ftrace.control.rows.cond import cond_call
from ftrace.control.rows.jit import jit_call
from ftrace.control.rows.while_loop import while_call
from ftrace.core.errors import AxisError, CustomRuleError, DtypeError

A = np.array([0.5, -1.5, 2.0])
B = np.array([[1.0, 2.0, 0.5], [3.0, -1.0, 4.0]])


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------------------------- own memory


def identity_with_jvp():
    f = ftrace.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (p[0], t[0]))
    return f


def identity_with_vjp():
    f = ftrace.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    return f


IDENTITIES = {
    "jit": jit(lambda x: x),
    "jit twice": jit(lambda x: (x, x)),
    "checkpoint": checkpoint(lambda x: x),
    "cond": lambda x: lax.cond(True, lambda y: y, lambda y: y, x),
    "while_loop": lambda x: lax.while_loop(lambda y: y[0] > 100.0, lambda y: y + 1.0, x),
    "vmap": vmap(lambda x: x),
    "a custom rule": identity_with_jvp(),
    "a custom backward rule": identity_with_vjp(),
}


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("name", IDENTITIES)
def test_a_result_shares_no_memory_with_an_argument(name, compiled):
    x = np.arange(3.0)
    with ftrace.config.update(compile=compiled):
        y = IDENTITIES[name](x)
    for part in y if isinstance(y, tuple) else (y,):
        assert not np.shares_memory(part, x)
        part[0] = 7.0
    assert x[0] == 0.0


@pytest.mark.parametrize("name", ["jit", "cond", "while_loop"])
def test_a_result_shares_no_memory_with_a_captured_array(name):
    captured = np.array([1.0, 2.0])
    programs = {
        "jit": jit(lambda x: captured),
        "cond": lambda x: lax.cond(x > 0, lambda y: captured, lambda y: captured, x),
        "while_loop": lambda x: lax.while_loop(
            lambda y: y[0] < 1.0, lambda y: captured, x * captured
        ),
    }
    y = programs[name](0.5)
    y[0] = 9.0
    assert captured[0] == 1.0


def test_evaluating_a_row_of_a_jaxpr_never_returns_an_operand():
    jaxpr = make_jaxpr(lambda x: x)(A)
    never = make_jaxpr(lambda x: x[0] > 100.0)(A)
    results = {
        "jit": jit_call(A, jaxpr=jaxpr, name="f"),
        "checkpoint": checkpoint_call(A, jaxpr=jaxpr),
        "cond": cond_call(np.int64(0), A, branches=(jaxpr, jaxpr)),
        "while": while_call(A, cond=never, body=jaxpr, n_consts=0, record=False, each=None),
    }
    for name, (y,) in results.items():
        assert not np.shares_memory(y, A), name


def test_two_results_share_no_memory():
    first, second = jit(lambda x: (lambda y: (y, y))(x + 1.0))(A)
    assert not np.shares_memory(first, second)


# ---------------------------------------------------------------------------------- collectives


def share(x):
    return x * x / lax.psum(x, "i")


def test_psum_adds_the_members():
    x = np.array([1.0, 2.0, 5.0])
    close(vmap(share, axis_name="i")(x), x * x / 8.0)
    close(jit(vmap(share, axis_name="i"))(x), x * x / 8.0)


def test_psum_of_a_value_that_is_not_mapped_multiplies_it():
    close(vmap(lambda x: x + lax.psum(3.0, "i"), axis_name="i")(A), A + 9.0)


def test_psum_along_an_axis_that_is_not_the_first_one():
    found = vmap(lambda x: x - lax.psum(x, "i"), in_axes=1, axis_name="i")(B)
    close(found, (B - B.sum(axis=1, keepdims=True)).T)


def test_psum_is_differentiated_in_both_modes():
    x, t = np.array([1.0, 2.0, 5.0]), np.array([0.5, -1.0, 2.0])
    f = vmap(share, axis_name="i")
    expected = 2 * x * t / 8.0 - x * x * t.sum() / 64.0
    close(jvp(f, (x,), (t,))[1], expected)
    ct = np.array([1.0, 3.0, -2.0])
    pulled = 2 * x * ct / 8.0 - (x * x * ct).sum() / 64.0
    close(vjp(f, x)[1](ct)[0], pulled)


def test_the_derivative_inside_the_mapped_function_sees_the_collective():
    f = vmap(lambda x: jvp(share, (x,), (1.0,))[1], axis_name="i")
    x = np.array([1.0, 2.0, 5.0])
    close(f(x), 2 * x / 8.0 - x * x * 3.0 / 64.0)


def test_the_gradient_of_psum_inside_the_mapped_function_is_a_psum():
    x = np.array([1.0, 2.0, 5.0])
    found = vmap(grad(lambda v: lax.psum(v * v, "i")), axis_name="i")(x)
    close(found, 3.0 * 2 * x)


def test_collectives_of_nested_axes_go_to_the_axis_of_their_name():
    def inner(x):
        return lax.psum(x, "rows") * 10.0 + lax.psum(x, "columns") + lax.pmean(x, "rows") * 0.1

    f = vmap(vmap(inner, axis_name="columns"), axis_name="rows")
    rows, columns = B.sum(axis=0, keepdims=True), B.sum(axis=1, keepdims=True)
    close(f(B), rows * 10.0 + columns + rows / 2 * 0.1)


def test_axis_index_counts_along_the_axis_of_its_name():
    def inner(x):
        return x * 0.0 + 10 * lax.axis_index("rows") + lax.axis_index("columns")

    f = vmap(vmap(inner, axis_name="columns"), axis_name="rows")
    close(f(B), [[0, 1, 2], [10, 11, 12]])


def test_a_collective_works_on_containers():
    f = vmap(lambda x: lax.psum({"a": x, "b": 2 * x}, "i"), axis_name="i", out_axes=None)
    found = f(A)
    close([found["a"], found["b"]], [1.0, 2.0])


def test_a_collective_without_its_axis_is_refused():
    with pytest.raises(AxisError, match="'j'"):
        vmap(lambda x: lax.psum(x, "j"), axis_name="i")(A)
    with pytest.raises(AxisError, match="'j'"):
        lax.axis_index("j")


# ---------------------------------------------------------------------------------- cond


def chosen(p, x, w, n):
    """Branches that use different operands, keep different residuals, and close over one."""
    scale = np.sum(w)
    return lax.cond(
        p,
        lambda x, w, n: (np.sin(x) * w[:, None].sum() * scale, x * n),
        lambda x, w, n: (np.exp(x) / (1.0 + w[0] ** 2), np.cos(w[0]) * np.ones(3)),
        x,
        w,
        n,
    )


def plainly(p, x, w, n):
    scale = np.sum(w)
    if p:
        return np.sin(x) * w[:, None].sum() * scale, x * n
    return np.exp(x) / (1.0 + w[0] ** 2), np.cos(w[0]) * np.ones(3)


W = np.array([0.7, -0.3])


def loss(f, p):
    def value(x, w):
        y, z = f(p, x, w, 3)
        return np.sum(y * np.array([1.0, 2.0, 3.0])) + np.sum(z * np.array([0.5, -1.0, 2.0]))

    return value


@pytest.mark.parametrize("p", [True, False])
def test_cond_has_the_value_and_the_derivatives_of_the_chosen_branch(p):
    for actual, expected in zip(chosen(p, A, W, 3), plainly(p, A, W, 3), strict=True):
        close(actual, expected)
    f, g = loss(chosen, p), loss(plainly, p)
    for argnums in (0, 1):
        close(grad(f, argnums)(A, W), grad(g, argnums)(A, W))
        close(jit(grad(f, argnums))(A, W), grad(g, argnums)(A, W))
    tangents = (np.array([1.0, -2.0, 0.5]), np.array([0.3, 2.0]))
    for t in (tangents, (tangents[0], np.zeros(2)), (np.zeros(3), tangents[1])):
        close(jvp(f, (A, W), t)[1], jvp(g, (A, W), t)[1])
        close(jvp(jit(f), (A, W), t)[1], jvp(g, (A, W), t)[1])
    close(ftrace.hessian(f)(A, W), ftrace.hessian(g)(A, W))
    close(ftrace.hessian(f, 1)(A, W), ftrace.hessian(g, 1)(A, W))


@pytest.mark.parametrize("p", [True, False])
def test_cond_with_a_traced_predicate_has_the_same_derivatives(p):
    f, g = loss(chosen, p), loss(plainly, p)

    def traced(q, x, w):
        return loss(chosen, q)(x, w)

    for argnums in (1, 2):
        close(jit(grad(traced, argnums))(p, A, W), grad(g, argnums - 1)(A, W))
    close(linearize(f, A, W)[1](A, W), linearize(g, A, W)[1](A, W))


def test_a_mapped_predicate_takes_each_members_own_branch():
    p = np.array([True, False, True])
    xs = np.stack([A, A + 1.0, A * 2.0])
    found = vmap(lambda q, x: chosen(q, x, W, 3))(p, xs)
    expected = [plainly(q, x, W, 3) for q, x in zip(p, xs, strict=True)]
    for actual, column in zip(found, zip(*expected, strict=True), strict=True):
        close(actual, np.stack(column))


def test_a_predicate_that_is_not_mapped_keeps_one_branch():
    xs = np.stack([A, A + 1.0])
    for p in (True, False):
        y, z = vmap(lambda x, p=p: chosen(p, x, W, 3))(xs)
        expected = [plainly(p, x, W, 3) for x in xs]
        close(y, np.stack([e[0] for e in expected]))
        close(z, np.stack([e[1] for e in expected]))


def test_a_mapped_predicate_with_operands_that_are_not_mapped():
    p = np.array([True, False])
    y, _ = vmap(lambda q: chosen(q, A, W, 3))(p)
    close(y, np.stack([plainly(True, A, W, 3)[0], plainly(False, A, W, 3)[0]]))


def test_gradients_through_a_mapped_cond():
    p = np.array([True, False, True])
    xs = np.stack([A, A + 1.0, A * 2.0])

    def total(w):
        return np.sum(vmap(lambda q, x: loss(chosen, q)(x, w))(p, xs))

    expected = sum(grad(loss(plainly, q), 1)(x, W) for q, x in zip(p, xs, strict=True))
    close(grad(total)(W), expected)
    close(grad(jit(total))(W), expected)


def test_an_operand_that_one_branch_ignores_has_a_zero_gradient_there():
    def f(x, y, p):
        return lax.cond(p, lambda x, y: x * x, lambda x, y: y * 5.0, x, y)

    assert grad(f, (0, 1))(3.0, 4.0, True) == (6.0, 0.0)
    assert grad(f, (0, 1))(3.0, 4.0, False) == (0.0, 5.0)


def test_a_masked_cotangent_in_one_branch_only():
    def f(x, p):
        return lax.cond(
            p, lambda v: np.where(v > 0, np.sqrt(v), 2.0 * v), lambda v: np.sum(v) * v, x
        )

    x = np.array([4.0, 0.0])
    total = lambda p: grad(lambda v: np.sum(f(v, p)))(x)  # noqa: E731
    close(total(True), [0.25, 2.0])
    close(total(False), [8.0, 8.0])
    close(jit(grad(lambda v, p: np.sum(f(v, p))))(x, True), [0.25, 2.0])
    close(jit(grad(lambda v, p: np.sum(f(v, p))))(x, False), [8.0, 8.0])


def test_branches_that_return_a_weak_and_a_strong_number_agree_on_the_strong_one():
    found = lax.cond(False, lambda x: 1, lambda x: x * 2, np.float32(3.0))
    assert (found, found.dtype) == (6.0, np.float32)


def test_a_predicate_is_true_unless_zero():
    for p in (2.5, -1, 0.1, np.int8(3)):
        assert lax.cond(p, lambda: 1.0, lambda: 2.0) == 1.0
    for p in (0.0, 0, False, np.float32(0)):
        assert lax.cond(p, lambda: 1.0, lambda: 2.0) == 2.0


# ---------------------------------------------------------------------------------- while_loop


def powers(x, c, limit):
    """Doubles by c until above the limit; counts; carries three values of different types."""

    def going(carry):
        return carry[0] < limit

    def step(carry):
        y, n, trail = carry
        return y * c, n + 1, trail + np.sin(y) * A

    return lax.while_loop(going, step, (x, 0, np.zeros(3)))


def powers_plainly(x, c, limit):
    n, trail = 0, np.zeros(3)
    while x < limit:
        x, n, trail = x * c, n + 1, trail + np.sin(x) * A
    return x, n, trail


@pytest.mark.parametrize("limit", [10.0, 0.1])
def test_a_loop_ends_where_the_plain_one_does(limit):
    for actual, expected in zip(
        powers(1.5, 2.0, limit), powers_plainly(1.5, 2.0, limit), strict=True
    ):
        close(actual, expected)
    for actual, expected in zip(
        jit(powers)(1.5, 2.0, limit), powers_plainly(1.5, 2.0, limit), strict=True
    ):
        close(actual, expected)


@pytest.mark.parametrize("tangents", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.5, -2.0, 0.0)])
def test_forward_mode_through_a_loop_is_that_of_the_plain_one(tangents):
    inputs = (1.5, 2.0, 10.0)
    for f in (powers, jit(powers)):
        ys, ts = jvp(f, inputs, tangents)
        expected, expected_ts = jvp(powers_plainly, inputs, tangents)
        close(ys[0], expected[0])
        close(ts[0], expected_ts[0])
        close(ts[2], expected_ts[2])


def test_a_tangent_that_only_the_second_step_gives_to_a_carry():
    def f(x):
        step = lambda c: (c[0] + 1, c[1] + x, c[2] + c[1], c[3] * 2.0)  # noqa: E731
        return lax.while_loop(lambda c: c[0] < 4, step, (0, 0.0, 0.0, 1.0))

    ys, ts = jvp(f, (3.0,), (1.0,))
    close(ys, [4, 12.0, 18.0, 16.0])
    close(ts[1:], [4.0, 6.0, 0.0])


def test_members_of_a_mapped_loop_stop_by_themselves():
    xs, cs = np.array([1.5, 20.0, 0.2]), np.array([2.0, 3.0, 1.5])
    for axes, args in (
        ((0, 0), (xs, cs)),
        ((0, None), (xs, 2.0)),
        ((None, 0), (1.5, cs)),
    ):
        found = vmap(lambda x, c: powers(x, c, 10.0), in_axes=axes)(*args)
        members = np.broadcast_arrays(*args)
        expected = [powers_plainly(x, c, 10.0) for x, c in zip(*members, strict=True)]
        for actual, column in zip(found, zip(*expected, strict=True), strict=True):
            close(actual, np.stack(column))


def test_a_loop_whose_condition_is_not_mapped_runs_once_for_all_members():
    def f(x):
        return lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x, c[2] * 2), (0, 1.0, 5)
        )

    xs = np.array([2.0, 3.0])
    n, y, z = vmap(f, out_axes=(None, 0, None))(xs)
    assert (n, z) == (3, 40)
    close(y, xs**3)


def test_a_mapped_limit_alone_maps_the_whole_carry():
    limits = np.array([1.0, 5.0, 40.0])
    found = vmap(lambda limit: powers(1.5, 2.0, limit)[0])(limits)
    close(found, [powers_plainly(1.5, 2.0, limit)[0] for limit in limits])


def test_derivatives_of_a_mapped_loop():
    xs = np.array([1.5, 20.0, 0.2])
    f = vmap(lambda x: powers(x, 2.0, 10.0)[0])
    close(jvp(f, (xs,), (np.ones(3),))[1], [8.0, 1.0, 64.0])
    close(
        vmap(lambda x: jvp(lambda y: powers(y, 2.0, 10.0)[0], (x,), (1.0,))[1])(xs),
        [8.0, 1.0, 64.0],
    )


def test_a_condition_must_be_a_boolean_scalar():
    with pytest.raises(DtypeError, match="boolean scalar"):
        lax.while_loop(lambda x: x, lambda x: x, 1.0)


# ---------------------------------------------------------------------------------- checkpoint, jit


def mixed(x, w, n):
    y = np.tanh(x * w[0]) + n
    return np.sum(np.exp(y) * x), y * w[1], n * 2


def mixed_loss(f):
    def value(x, w, n):
        a, b, c = f(x, w, n)
        return a + np.sum(b * np.array([1.0, -2.0, 3.0])) * c

    return value


@pytest.mark.parametrize(
    "wrap", [jit, checkpoint, lambda f: jit(checkpoint(f)), lambda f: checkpoint(jit(f))]
)
def test_calls_of_several_operands_have_the_derivatives_of_the_function(wrap):
    f, g = mixed_loss(wrap(mixed)), mixed_loss(mixed)
    close(f(A, W, 2), g(A, W, 2))
    for argnums in (0, 1):
        close(grad(f, argnums)(A, W, 2), grad(g, argnums)(A, W, 2))
    both, expected = value_and_grad(f, (0, 1))(A, W, 2), value_and_grad(g, (0, 1))(A, W, 2)
    close(both[0], expected[0])
    close(both[1][0], expected[1][0])
    close(both[1][1], expected[1][1])
    close(ftrace.hessian(f, 1)(A, W, 2), ftrace.hessian(g, 1)(A, W, 2))
    t = (np.array([1.0, -2.0, 0.5]), np.array([0.3, 2.0]))
    for pair in (t, (t[0], np.zeros(2)), (np.zeros(3), t[1])):
        partly = lambda x, w, f=f: f(x, w, 2)  # noqa: E731
        plain = lambda x, w: g(x, w, 2)  # noqa: E731
        close(jvp(partly, (A, W), pair)[1], jvp(plain, (A, W), pair)[1])
        close(linearize(partly, A, W)[1](*pair), jvp(plain, (A, W), pair)[1])
    xs = np.stack([A, 2 * A])
    mapped = vmap(lambda x: wrap(mixed)(x, W, 2), out_axes=(0, 0, None))(xs)
    rows = [mixed(x, W, 2) for x in xs]
    close(mapped[0], [r[0] for r in rows])
    close(mapped[1], [r[1] for r in rows])
    assert mapped[2] == 4


# ---------------------------------------------------------------------------------- custom rules


@ftrace.custom_jvp
def blend(x, w, n):
    return x * w**n, w + 1.0


@blend.defjvp
def _(primals, tangents):
    x, w, n = primals
    tx, tw, _ = tangents
    return blend(x, w, n), (tx * w**n * 7.0 + tw * n * x * 5.0, tw * 3.0)


@ftrace.custom_vjp
def twisted(x, w):
    return x * w, w * w


twisted.defvjp(
    lambda x, w: (twisted(x, w), (x, w)),
    lambda residuals, cts: (
        cts[0] * residuals[1] * 7.0,
        cts[0] * residuals[0] * 5.0 + cts[1] * 3.0,
    ),
)


def test_a_custom_jvp_of_several_operands_is_used_in_every_mode():
    x, w = 2.0, 3.0
    tangents = (0.5, -1.0)
    expected = (0.5 * 9.0 * 7.0 - 1.0 * 2 * 2.0 * 5.0, -3.0)
    for f in (lambda x, w: blend(x, w, 2), jit(lambda x, w: blend(x, w, 2))):
        close(jvp(f, (x, w), tangents)[1], expected)
        close(jvp(f, (x, w), (0.5, 0.0))[1], (0.5 * 63.0, 0.0))
        close(grad(lambda x, w, f=f: f(x, w)[0], (0, 1))(x, w), (63.0, 20.0))
        close(grad(lambda x, w, f=f: f(x, w)[1], (0, 1))(x, w), (0.0, 3.0))


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (1, 0), (0, 1)])
def test_custom_rules_under_vmap(axes):
    x, w = np.arange(1.0, 7.0).reshape(2, 3), np.arange(2.0, 8.0).reshape(3, 2).T
    shapes = [x if a != 1 else x.T for a in axes[:1]] + [w if a != 1 else w.T for a in axes[1:]]
    args = [m if a is not None else m[0] for m, a in zip(shapes, axes, strict=True)]
    members = [
        [np.take(m, k, axis=a) if a is not None else m for m, a in zip(args, axes, strict=True)]
        for k in range(2)
    ]
    for f in (lambda x, w: blend(x, w, 2)[0], lambda x, w: twisted(x, w)[0] + twisted(x, w)[1]):
        for g in (f, jit(f)):
            close(vmap(g, in_axes=axes)(*args), [f(*m) for m in members])

        def total(*args, f=f):
            return np.sum(vmap(f, in_axes=axes)(*args) * np.array([[1.0], [2.0]]))

        for i in (0, 1):
            each = [
                grad(lambda *v, f=f, k=k: np.sum(f(*v)) * (k + 1.0), i)(*m)
                for k, m in enumerate(members)
            ]
            expected = sum(each) if axes[i] is None else np.stack(each, axis=axes[i])
            close(grad(total, i)(*args), expected)
            close(grad(jit(total), i)(*args), expected)


def test_a_custom_vjp_of_several_operands_is_used_in_every_mode():
    x, w, ct = 2.0, 3.0, (1.5, -2.0)
    expected = (1.5 * 3.0 * 7.0, 1.5 * 2.0 * 5.0 - 6.0)
    for f in (twisted, jit(twisted), checkpoint(twisted)):
        close(vjp(f, x, w)[1](ct), expected)
        close(grad(lambda x, w, f=f: f(x, w)[1], (0, 1))(x, w), (0.0, 3.0))
        close(jvp(f, (x, w), (0.5, -1.0))[1], (0.5 * 21.0 - 10.0, -3.0))
        close(jvp(f, (x, w), (0.5, 0.0))[1], (0.5 * 21.0, 0.0))
        close(jvp(f, (x, w), (0.0, -1.0))[1], (-10.0, -3.0))
    second = grad(grad(lambda x: twisted(x, 3.0)[0] * x))
    close(second(2.0), 21.0 + 21.0)


def test_forward_mode_of_forward_mode_through_a_custom_vjp():
    f = lambda w: jvp(lambda v: twisted(v, w)[0], (2.0,), (1.0,))[1]  # noqa: E731
    close(f(3.0), 21.0)
    close(jvp(f, (3.0,), (1.0,))[1], 7.0)
    close(vmap(f)(np.array([1.0, 2.0])), [7.0, 14.0])
    close(jit(f)(3.0), 21.0)


def test_integer_operands_of_a_custom_vjp_have_no_cotangent():
    @ftrace.custom_vjp
    def times(x, n):
        return x * n

    times.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * n * 2.0, None))
    close(grad(times)(3.0, 4), 8.0)
    close(jit(grad(times))(3.0, 4), 8.0)
    close(jvp(lambda x: times(x, 4), (3.0,), (1.0,))[1], 8.0)


def test_a_function_with_a_rule_may_close_over_what_is_not_differentiated():
    def outer(x):
        inner = ftrace.custom_jvp(lambda y: x * y)
        inner.defjvp(lambda p, t: (inner(*p), t[0]))
        return inner(2.0)

    assert jit(outer)(3.0) == 6.0
    with pytest.raises(CustomRuleError, match="closes over"):
        grad(outer)(3.0)
    with pytest.raises(CustomRuleError, match="closes over"):
        grad(jit(outer))(3.0)

"""vectorize equals the scalar function at every place, in every mode, at orders one to three.

Weights are asymmetric everywhere, and arguments broadcast along different axes, so that a
derivative that goes to the wrong place cannot be right by accident.
"""

import math

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import elementwise_partials, grad, hessian, jit, jvp, lax, vectorize, vjp, vmap
from ftrace.core.errors import DtypeError, LiftError, RuleError, ShapeError
from tests.api.ways import GRADIENTS, HESSIANS, differences

X = np.array([0.7, 1.9, 3.1])
COLUMN = np.array([[0.4], [1.7]])
WEIGHTS = np.array([[1.0, -2.0, 0.5], [0.3, 4.0, -1.5]])


def smooth(x, y):
    return fnp.sin(x) * y + x * x


def smooth_plain(x, y):
    return math.sin(x) * y + x * x


def newton(x, y):
    z = lax.while_loop(lambda z: abs(z * z - x) > 1e-13 * x, lambda z: (z + x / z) / 2, x)
    return z * y


def newton_plain(x, y):
    return math.sqrt(x) * y


def branches(x, y):
    return lax.cond(
        x > 2.0,
        lambda: fnp.exp(x * 0.3) * y,
        lambda: lax.cond(y > 1.0, lambda: fnp.log(x) + y * y, lambda: x**3 * y),
    )


def branches_plain(x, y):
    if x > 2.0:
        return math.exp(x * 0.3) * y
    return math.log(x) + y * y if y > 1.0 else x**3 * y


def loop_in_branch(x, y):
    """An arm that never ends where it is not taken."""

    def halve():
        return lax.while_loop(lambda s: s > 1.0, lambda s: s * 0.5 * (1.0 + 0.01 * y), x)

    return lax.cond(x > 1.0, halve, lambda: x * y)


def loop_in_branch_plain(x, y):
    if x > 1.0:
        while x > 1.0:
            x = x * 0.5 * (1.0 + 0.01 * y)
        return x
    return x * y


def branch_in_loop(x, y):
    def turn(s):
        i, a = s
        return i + 1, lax.cond(a > 1.5, lambda: fnp.sqrt(a) * y, lambda: a + fnp.sin(x))

    return lax.while_loop(lambda s: s[0] < 4, turn, (0, x))[1]


def branch_in_loop_plain(x, y):
    a = x
    for _ in range(4):
        a = math.sqrt(a) * y if a > 1.5 else a + math.sin(x)
    return a


def grown(x, y):
    """Carries that depend on the arguments only after the first turn; sides that forget one."""
    z = 1.0
    while z < 20.0:
        z = z * (1.5 + 0.1 * x * y)
    return z * x if x > y else y * y


def chosen(x, y):
    n = 2 if x > 3.0 else 1 if x > 1.0 else -1
    sides = [lambda: x * y, lambda: fnp.sin(x) + y, lambda: fnp.exp(-x) * y]
    return lax.switch(n, sides)


def chosen_plain(x, y):
    return math.exp(-x) * y if x > 3.0 else math.sin(x) + y if x > 1.0 else x * y


PROGRAMS = {
    "grown": (grown, grown),
    "switch": (chosen, chosen_plain),
    "smooth": (smooth, smooth_plain),
    "newton": (newton, newton_plain),
    "branches": (branches, branches_plain),
    "loop in a branch": (loop_in_branch, loop_in_branch_plain),
    "branch in a loop": (branch_in_loop, branch_in_loop_plain),
}


def weighted(f):
    """The sum over a grid, as a function of the argument along the last axis."""
    g = vectorize(f)
    return lambda x: fnp.sum(g(x, COLUMN) * WEIGHTS[:, : len(x)])


def weighted_plain(f):
    def total(x):
        rows = [[f(float(a), float(b)) for a in x] for b in COLUMN[:, 0]]
        return np.sum(np.array(rows) * WEIGHTS[:, : len(x)])

    return total


@pytest.fixture(params=PROGRAMS.values(), ids=PROGRAMS)
def program(request):
    return request.param


def test_values_are_those_of_the_scalar_function_everywhere(program):
    f, plain = program
    got = vectorize(f)(X, COLUMN)
    want = [[plain(a, b) for a in X] for b in COLUMN[:, 0]]
    np.testing.assert_allclose(got, want, rtol=1e-13)
    assert got.shape == (2, 3)
    assert got.flags.owndata
    assert got.flags.writeable


@pytest.mark.sampled(2, each="way")
@pytest.mark.parametrize("way", GRADIENTS)
def test_gradients_in_every_mode(program, way):
    f, plain = program
    want = differences(weighted_plain(plain), X)
    np.testing.assert_allclose(GRADIENTS[way](weighted(f))(X), want, rtol=1e-7, atol=1e-8)


def test_gradients_by_both_arguments(program):
    f, plain = program
    x, y = X, np.array([0.4, 1.7, 0.9])
    got = grad(lambda x, y: fnp.sum(vectorize(f)(x, y) * WEIGHTS[0]), argnums=(0, 1))(x, y)

    def total(v):
        return sum(w * plain(*p) for w, *p in zip(WEIGHTS[0], v[:3], v[3:], strict=True))

    want = differences(total, np.concatenate([x, y]))
    np.testing.assert_allclose(np.concatenate(got), want, rtol=1e-6, atol=1e-7)


@pytest.mark.sampled(2, each="way")
@pytest.mark.parametrize("way", HESSIANS)
def test_hessians_in_every_mode(program, way):
    f, _ = program
    want = differences(grad(weighted(f)), X)
    np.testing.assert_allclose(HESSIANS[way](weighted(f))(X), want, rtol=1e-6, atol=1e-7)


def test_compiled_gradients_and_hessians(program):
    f, plain = program
    total = weighted(f)
    want = differences(weighted_plain(plain), X)
    np.testing.assert_allclose(jit(grad(total))(X), want, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(grad(jit(total))(X), want, rtol=1e-7, atol=1e-8)
    second = differences(grad(total), X)
    np.testing.assert_allclose(jit(hessian(total))(X), second, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("policy", ["auto", "cache", "recompute"])
def test_policies_give_the_same_derivatives(program, policy):  # B9
    f, plain = program
    g = vectorize(f, residuals=policy)
    got = grad(lambda x: fnp.sum(g(x, COLUMN) * WEIGHTS))(X)
    np.testing.assert_allclose(got, differences(weighted_plain(plain), X), rtol=1e-7, atol=1e-8)


def test_third_order():
    f = weighted(lambda x, y: x**4 * y + fnp.sin(x))
    got = ftrace.jacfwd(ftrace.jacrev(grad(f)))(X)
    want = np.zeros((3, 3, 3))
    for i, x in enumerate(X):
        third = [24 * x * y - math.cos(x) for y in COLUMN[:, 0]]
        want[i, i, i] = np.sum(np.array(third) * WEIGHTS[:, i])
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_the_broadcast_argument_gets_the_sum():
    g = grad(lambda y: fnp.sum(vectorize(smooth)(X, y) * WEIGHTS))
    np.testing.assert_allclose(g(COLUMN), np.sum(np.sin(X) * WEIGHTS, 1, keepdims=True))
    scalar = grad(lambda y: fnp.sum(vectorize(smooth)(X, y) * WEIGHTS[0]))
    np.testing.assert_allclose(scalar(1.5), np.sum(np.sin(X) * WEIGHTS[0]))


def test_containers_of_arguments_and_results():
    @vectorize
    def f(p, *, scale):
        return {"sum": (p["a"] + p["b"]) * scale, "parts": (p["a"] > 1.0, p["b"])}

    out = f({"a": X, "b": COLUMN}, scale=2.0)
    np.testing.assert_allclose(out["sum"], (X + COLUMN) * 2)
    np.testing.assert_array_equal(out["parts"][0], np.broadcast_to(X > 1.0, (2, 3)))
    assert out["parts"][0].dtype == bool


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_dtypes_are_numpys(dtype):
    x = X.astype(dtype)
    got = vectorize(lambda x: lax.while_loop(lambda z: z > 1.0, lambda z: z * 0.5, x) + 1)(x)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, [1.7, 1.95, 1.775], rtol=2e-3)


def test_integers_have_no_derivative():
    f = vectorize(lambda n, x: lax.cond(n > 1, lambda: x * n, lambda: x))
    n = np.array([1, 2, 3])
    np.testing.assert_array_equal(f(n, X), X * n)
    np.testing.assert_array_equal(grad(lambda x: fnp.sum(f(n, x)))(X), n)


def test_empty_and_scalar_arguments():
    assert vectorize(smooth)(np.zeros((0, 3)), COLUMN[:0]).shape == (0, 3)
    value = vectorize(smooth)(0.5, 2.0)
    assert type(value) is np.float64
    assert float(value) == pytest.approx(smooth_plain(0.5, 2.0))


def test_one_kernel_without_copies_of_what_is_broadcast():
    cost = vectorize(branches).lower(np.ones((40, 50)), np.ones((40, 1))).cost()
    assert cost.kernels == 1
    assert cost.bytes == 8 * (2 * 40 * 50 + 40)


def test_what_a_row_decides_is_computed_once_a_row():
    f = vectorize(lambda z, x: newton(z, 1.0) * x)
    kernel = f.lower(np.ones((4, 1)), np.ones((4, 50))).kernels[0]
    (loop,) = (line for line in kernel.splitlines() if "= while" in line)
    assert loop.startswith("    v")
    np.testing.assert_allclose(f(COLUMN, X), np.sqrt(COLUMN) * X)


def test_a_sum_of_elements_that_take_many_turns_has_a_kernel_of_its_own():
    total = jit(lambda x: fnp.sum(vectorize(newton)(x, 1.0)))
    assert total.lower(np.ones(100)).cost().kernels == 2


def test_partials_are_the_diagonals_of_jacobians():
    f = elementwise_partials(lambda x, y: (x * x * y, fnp.sin(y)))
    (a, b), (da, db) = f(X, COLUMN)
    np.testing.assert_allclose(a, X * X * COLUMN)
    np.testing.assert_allclose(b, np.broadcast_to(np.sin(COLUMN), (2, 3)))
    np.testing.assert_allclose(da[0], 2 * X * COLUMN)
    np.testing.assert_allclose(da[1], np.broadcast_to(X * X, (2, 3)))
    np.testing.assert_array_equal(db[0], np.zeros((2, 3)))
    np.testing.assert_allclose(db[1], np.broadcast_to(np.cos(COLUMN), (2, 3)))
    _, (only,) = elementwise_partials(lambda x, y: x * x * y, argnums=1)(X, COLUMN)
    _, (same,) = elementwise_partials(lambda x, y: x * x * y, argnums="y")(X, COLUMN)
    np.testing.assert_array_equal(only, same)
    np.testing.assert_allclose(only, np.broadcast_to(X * X, (2, 3)))


Z = np.array([0.5 + 1.5j, -1.0 + 0.25j, 2.0 - 0.5j])


def scaled_up(z, w):
    while fnp.abs(z) < 30.0:
        z = z * w
    return z


def test_partials_by_complex_numbers_are_those_of_grad():  # B5
    def real(z):
        return fnp.abs(z) ** 2 + fnp.imag(z) * fnp.real(z)

    for compiled in (lambda f: f, jit):
        y, (dz,) = compiled(elementwise_partials(real))(Z)
        np.testing.assert_allclose(y, np.abs(Z) ** 2 + Z.imag * Z.real)
        np.testing.assert_allclose(dz, vmap(grad(real))(Z), rtol=1e-14)
        partials = compiled(elementwise_partials(scaled_up, holomorphic=True))(Z, 3.0 + Z)[1]
        wanted = vmap(grad(scaled_up, (0, 1), holomorphic=True))(Z, 3.0 + Z)
        np.testing.assert_allclose(partials, wanted, rtol=1e-13)
    single = elementwise_partials(real)(Z.astype(np.complex64))[1][0]
    assert single.dtype == np.complex64


def test_complex_results_of_real_numbers_and_real_ones_of_complex_numbers():  # B5
    f = elementwise_partials(lambda x, z: (fnp.exp(1j * x), fnp.imag(z) * x))
    (turned, scaled), (of_turned, of_scaled) = f(X[0], Z)
    np.testing.assert_allclose(turned, np.exp(1j * X[0]))
    np.testing.assert_allclose(of_turned[0], 1j * turned)
    np.testing.assert_array_equal(of_turned[1], np.zeros(3, complex))
    np.testing.assert_allclose(scaled, Z.imag * X[0])
    np.testing.assert_allclose(of_scaled[0], Z.imag)
    np.testing.assert_allclose(of_scaled[1], -1j * X[0])
    with pytest.raises(DtypeError, match="complex result that depends on a complex argument"):
        elementwise_partials(fnp.exp)(Z)


def test_partials_of_functions_that_work_with_arrays():  # B5
    weights = np.arange(3.0)
    y, (dx,) = elementwise_partials(lambda x: fnp.sum(fnp.sin(weights * x)))(X)
    np.testing.assert_allclose(y, np.sin(X[..., None] * weights).sum(-1))
    np.testing.assert_allclose(dx, (weights * np.cos(X[..., None] * weights)).sum(-1))


def test_an_error_of_an_element_is_raised_beside_complex_partials():
    def f(z):
        if fnp.abs(z) > 2.0:
            raise ValueError("too large")
        return fnp.abs(z)

    with pytest.raises(ValueError, match="too large"):
        elementwise_partials(f)(Z)
    np.testing.assert_allclose(elementwise_partials(f)(Z / 2)[1][0], np.conj(Z) / np.abs(Z))


def test_partials_of_loops_share_one_loop():
    jaxpr = jit(elementwise_partials(newton)).trace(X, COLUMN)
    assert str(jaxpr).count("while") == 1


# --- what a function closes over (MISSION 0.10: five failures of other systems)


def test_elements_of_a_captured_array_get_derivatives():
    x = np.array([1.0, 1.0, 1.0])

    def f(y):
        return fnp.sum(vectorize(lambda z: z**2 + y[1])(x))

    np.testing.assert_array_equal(grad(f)(np.array([5.0, 7.0])), [0.0, 3.0])
    np.testing.assert_array_equal(jit(grad(f))(np.array([5.0, 7.0])), [0.0, 3.0])
    np.testing.assert_array_equal(hessian(f)(np.array([5.0, 7.0])), np.zeros((2, 2)))


def test_captured_values_under_second_derivatives():
    def f(y):
        return fnp.sum(vectorize(lambda z: z * fnp.sin(y[0] * z) * y[1])(X))

    y = np.array([0.3, 1.2])
    np.testing.assert_allclose(grad(f)(y), differences(f, y), rtol=1e-7)
    np.testing.assert_allclose(hessian(f)(y), differences(grad(f), y), rtol=1e-6)


def test_derivatives_inside_the_function():
    inner = vectorize(lambda x, y: grad(lambda t: t**3 * y)(x) * x)
    np.testing.assert_allclose(inner(X, COLUMN), 3 * X**3 * COLUMN)
    got = grad(lambda x: fnp.sum(inner(x, COLUMN) * WEIGHTS))(X)
    np.testing.assert_allclose(got, 9 * X**2 * np.sum(COLUMN * WEIGHTS, 0))


def test_perturbations_are_not_confused():
    def f(x):
        return fnp.sum(vectorize(lambda y: x * jvp(lambda z: z * x, (y,), (1.0,))[1])(X))

    assert float(grad(f)(2.0)) == 12.0


def test_functions_within_functions_under_vmap_of_grad():
    def f(y, x):
        return fnp.sum(vectorize(lambda z: z * z * y)(x) * np.arange(1.0, 4.0))

    got = vmap(grad(f), (0, None))(np.array([1.0, 2.0]), X)
    np.testing.assert_allclose(got, np.full(2, np.sum(X**2 * np.arange(1.0, 4.0))))


def test_elements_chosen_at_run_time():
    table = np.array([10.0, 20.0, 30.0])

    def f(t):
        return vectorize(lambda i, x: fnp.take(t, i) * x)(np.array([2, 0, 2]), X)

    np.testing.assert_array_equal(f(table), [30 * 0.7, 10 * 1.9, 30 * 3.1])
    got = grad(lambda t: fnp.sum(f(t) * WEIGHTS[0]))(table)
    np.testing.assert_allclose(got, [-2.0 * 1.9, 0.0, 0.7 + 0.5 * 3.1])


# --- strong zeros


def test_untaken_sides_contribute_nothing():
    f = vectorize(lambda x: lax.cond(x > 0, lambda: fnp.log(x), lambda: 3 * x))
    x = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(f(x), [-3.0, 0.0, math.log(2)])
    for g in (grad(lambda x: fnp.sum(f(x))), jit(grad(lambda x: fnp.sum(f(x))))):
        np.testing.assert_array_equal(g(x), [3.0, 3.0, 0.5])


@pytest.mark.parametrize("policy", ["cache", "recompute"])
def test_a_mask_crosses_the_kernel(policy):
    root = vectorize(fnp.sqrt, residuals=policy)
    x = np.array([0.0, 4.0])
    g = grad(lambda x: fnp.sum(fnp.where(x > 0, root(x), 3 * x)))
    np.testing.assert_array_equal(g(x), [3.0, 0.25])
    s = grad(lambda x: fnp.sum(fnp.where(x > 0, root(x) * root(x), 0.0)))
    np.testing.assert_array_equal(s(x), [0.0, 1.0])
    np.testing.assert_array_equal(hessian(lambda x: fnp.sum(fnp.where(x > 0, root(x), 0.0)))(x),
                                  np.diag([0.0, -0.25 * 4.0**-1.5]))  # fmt: skip


@pytest.mark.parametrize("policy", ["cache", "recompute"])
def test_an_infinite_cotangent_under_a_mask_is_nothing(policy):
    root = vectorize(fnp.sqrt, residuals=policy)
    g = grad(lambda x: fnp.sum(fnp.where(x > 0, root(x) / x, 0.0)))
    np.testing.assert_array_equal(g(np.array([0.0, 4.0])), [0.0, -0.5 * 4.0**-1.5])


def test_a_taken_nan_stays():
    g = grad(lambda x: fnp.sum(vectorize(fnp.sqrt)(x - 1.0)))
    assert np.isnan(g(np.array([0.5, 2.0]))).tolist() == [True, False]


def test_two_results_of_which_one_is_masked():
    f = vectorize(lambda x: (fnp.sqrt(x), x * x))

    def total(x):
        a, b = f(x)
        return fnp.sum(fnp.where(x > 0, a, 0.0) + b * 2)

    np.testing.assert_array_equal(grad(total)(np.array([0.0, 4.0])), [0.0, 16.25])


def test_an_infinite_cotangent_of_one_result_does_not_reach_the_other():
    f = vectorize(lambda x: (fnp.sqrt(x), x * x))

    def total(x):
        a, b = f(x)
        return fnp.sum(fnp.where(x > 0, a / x, 0.0) + b * 2)

    np.testing.assert_array_equal(grad(total)(np.array([0.0, 4.0])), [0.0, 16.0 - 0.5 / 8.0])


def test_the_transpose_of_a_linear_function():
    f = vectorize(lambda x: 3.0 * x)
    got = ftrace.linear_transpose(f, X)(WEIGHTS[0])
    np.testing.assert_array_equal(got[0], 3 * WEIGHTS[0])
    pull = vjp(vectorize(smooth), X, X)[1]
    back = ftrace.linear_transpose(lambda ct: pull(ct)[0], X)(WEIGHTS[0])
    np.testing.assert_allclose(back[0], (np.cos(X) * X + 2 * X) * WEIGHTS[0])


# --- bad input


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ShapeError, match=r"y of smooth has shape \(2,\).*with \(3,\)"):
        vectorize(smooth)(X, X[:2])


def test_results_that_are_no_numbers():
    def f(x):
        return x, fnp.stack([x, x])

    with pytest.raises(LiftError, match=r"the result\[1\] of f is f64\[2\], not a number"):
        vectorize(f)(X)


def test_effects():
    def f(x):
        ftrace.debug.print("{}", x)
        return x

    with pytest.raises(LiftError, match="f has an effect"):
        vectorize(f)(X)


def test_an_unknown_policy():
    with pytest.raises(ShapeError, match="residuals='store' of vectorize is none of 'auto'"):
        vectorize(smooth, residuals="store")


def test_arguments_of_partials_that_there_are_not():
    with pytest.raises(ShapeError, match="argnums of elementwise_partials is 2"):
        elementwise_partials(smooth, argnums=2)(X, X)


# --- what control flow leaves in kernels


def test_compiled_code_asks_the_condition_and_not_how_a_loop_was_left():
    def f(x):
        while True:
            x = x * 0.5 + 0.1
            if x < 1.0:
                return x * 3.0

    kernel = vectorize(f).lower(X).kernels[0]
    assert " ne " not in kernel
    assert " eq " not in kernel
    np.testing.assert_array_equal(vectorize(f)(X), [f(float(x)) for x in X])


@pytest.mark.parametrize("test", [lambda n: n == 3, lambda n: n != 3, lambda n: n == 5])
@pytest.mark.parametrize("flip", [False, True])
def test_comparing_what_branches_chose(test, flip):
    def f(x):
        code = np.int64(3) if (x > 1.0) != flip else np.int64(0)
        return x * 2.0 if test(code) else -x

    np.testing.assert_array_equal(vectorize(f)(X), [f(float(x)) for x in X])


def test_static_arguments_are_python_values():
    def repeated(x, n, how, *, strict=False):
        for _ in range(n):
            x = how(x) if strict is True else x + len("ab")
        return x

    f = ftrace.vectorize(repeated, static_argnums=(1, -1), static_argnames="strict")
    x = np.array([0.5, 2.0])
    for args, options in (
        ((2, math.sin), {"strict": True}),
        ((2, math.sin), {"strict": 1}),
        ((3, np.sqrt), {"strict": True}),
        ((0, None), {}),
    ):
        expected = [repeated(v, *args, **options) for v in x]
        np.testing.assert_allclose(f(x, *args, **options), expected, rtol=1e-15)
    gradient = ftrace.grad(lambda x: f(x, 1, lambda v: v * v, strict=True).sum())
    np.testing.assert_allclose(gradient(x), 2 * x)
    by_name = ftrace.vectorize(repeated, static_argnames=("n", "how"))
    np.testing.assert_array_equal(by_name(x, n=2, how="s"), x + 4)
    named = ftrace.vectorize(lambda n, x, y: x + y, static_argnums=0)
    with pytest.raises(ShapeError, match="y of <lambda> has shape"):
        named("s", np.ones(3), np.ones(4))


def test_the_transpose_of_a_vectorized_function_that_is_not_linear_is_refused():
    squares = ftrace.linear_transpose(vectorize(lambda x: x * x), np.ones(3))
    with pytest.raises(RuleError, match="a vectorized function was asked for that is not linear"):
        squares(np.ones(3))


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("first", "second"), [("f4", "f8"), ("f8", "f4"), ("f2", "f4")])
def test_operands_of_different_dtypes_have_gradients_of_their_own(first, second, jit):
    a, b = np.array([1.5, 2.0], first), np.array([3.0, 0.5], second)

    def f(a, b):
        return np.sin(a) * b + a * a * b

    def mapped(a, b):
        return ftrace.vectorize(f)(a, b).sum()

    wrap = ftrace.jit if jit else lambda g: g
    found = wrap(ftrace.grad(mapped, argnums=(0, 1)))(a, b)
    expected = ftrace.grad(lambda a, b: f(a, b).sum(), argnums=(0, 1))(a, b)
    close = {"rtol": 1e-2 if "f2" in (first, second) else 1e-6}
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, **close)
    mixed = wrap(ftrace.jacfwd(ftrace.grad(mapped), argnums=1))(a, b)
    np.testing.assert_allclose(mixed, np.diag(np.cos(a) + 2 * a), **close)

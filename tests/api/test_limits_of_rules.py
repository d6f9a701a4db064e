"""Custom rules inside vectorize and on tangents, loops with carries that are only read, memory."""

import numpy as np
import pytest

import ftrace
from ftrace import grad, hessian, jit, jvp, lax, vectorize, vmap
from ftrace.errors import CustomRuleError, HostMemoryError

X = np.array([1.0, 2.0, 3.0])


@ftrace.custom_vjp
def by_vjp(x):
    return x * x


by_vjp.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * x * 2.0,))


@ftrace.custom_gradient
def by_gradient(x):
    return x * x, lambda ct: ct * x * 2.0


@ftrace.custom_vjp
def of_two(x, y):
    return x * y, x + y


of_two.defvjp(
    lambda x, y: (of_two(x, y), (x, y)), lambda r, c: (c[0] * r[1] + c[1], c[0] * r[0] + c[1])
)


def scaled(x):
    return ftrace.scale_gradient(x * x, 1.0)


def branching(x):
    return lax.cond(x > 1.5, by_vjp, lambda y: by_gradient(y) + 0.0, x)


def looping(x):
    return lax.fori_loop(0, 2, lambda _, y: by_vjp(y) / y, x) * x


def of_pairs(x):
    product, total = of_two(x, x)
    return product + 0.0 * total


@pytest.mark.parametrize("f", [by_vjp, by_gradient, scaled, branching, looping, of_pairs])
def test_vectorize_differentiates_functions_with_backward_rules(f):
    everywhere, slopes = vectorize(f), 2.0 * X

    def total(x):
        return everywhere(x).sum()

    np.testing.assert_allclose(everywhere(X), X * X)
    np.testing.assert_allclose(grad(total)(X), slopes)
    np.testing.assert_allclose(jit(grad(total))(X), slopes)
    np.testing.assert_allclose(jvp(everywhere, (X,), (X,))[1], 2 * X * X)
    np.testing.assert_allclose(vmap(grad(everywhere))(X), slopes)
    if f is not looping:
        np.testing.assert_allclose(ftrace.elementwise_partials(f)(X)[1][0], slopes)
        np.testing.assert_allclose(hessian(total)(X), 2.0 * np.eye(3), atol=1e-12)


def test_a_backward_rule_that_is_not_linear_is_refused_by_vectorize_with_advice():
    clipped = vectorize(lambda x: ftrace.clip_gradient(x * x, -1.0, 1.0))
    for call in (grad(lambda x: clipped(x).sum()), jit(grad(lambda x: clipped(x).sum()))):
        with pytest.raises(CustomRuleError, match=r"outside of ftrace\.vectorize"):
            call(X)


def test_a_linear_function_with_its_own_rule_is_transposed_on_tangents():
    @ftrace.custom_jvp
    def triple(x):
        return x * 3.0

    triple.defjvp(lambda p, t: (triple(*p), triple(*t)))

    def total(x):
        return triple(x).sum()

    def scanned(x):
        return lax.scan(lambda c, _: (triple(c), None), x, None, length=2)[0].sum()

    def masked(x):
        return np.where(x > 1.5, triple(x), np.log(x - 1.5)).sum()

    for wrap in (lambda f: f, jit):
        np.testing.assert_array_equal(wrap(grad(total))(X), [3.0, 3.0, 3.0])
        np.testing.assert_array_equal(wrap(grad(scanned))(X), [9.0, 9.0, 9.0])
        np.testing.assert_array_equal(wrap(grad(ftrace.checkpoint(total)))(X), [3.0, 3.0, 3.0])
        np.testing.assert_array_equal(wrap(vmap(grad(triple)))(X), [3.0, 3.0, 3.0])
        np.testing.assert_array_equal(wrap(vmap(grad(triple), in_axes=0))(X), [3.0, 3.0, 3.0])
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(wrap(grad(masked))(X)[1:], [3.0, 3.0])


@pytest.mark.parametrize("jitted", [False, True])
def test_what_a_loop_only_reads_is_not_mapped_though_members_end_at_different_turns(jitted):
    def f(x, k):
        def body(c):
            return c[0] + c[2], c[1] * 2.0, c[2], c[3]

        n, y, step, still = lax.while_loop(lambda c: c[0] < x, body, (0.0, x, k, 5.0))
        return n + y, step, still

    mapped = vmap(f, in_axes=(0, None), out_axes=(0, None, None))
    for got, wanted in zip((jit(mapped) if jitted else mapped)(X, 1.0), f(X[2], 1.0), strict=True):
        np.testing.assert_array_equal(np.ravel(got)[-1], wanted)
    ys, _, _ = mapped(X, 1.0)
    np.testing.assert_array_equal(ys, [f(x, 1.0)[0] for x in X])
    slopes = vmap(grad(lambda x, k: f(x, k)[0]), in_axes=(0, None))(X, 1.0)
    np.testing.assert_allclose(slopes, [grad(lambda x: f(x, 1.0)[0])(x) for x in X])


@pytest.mark.parametrize(
    "whole", [ftrace.jacfwd, ftrace.jacrev, lambda f: hessian(lambda x: f(x).sum())]
)
def test_a_jacobian_that_fits_no_memory_says_what_to_ask_for_instead(whole):
    with pytest.raises(HostMemoryError, match=r"1000000 directions at once.*GiB(.|\n)*chunk_size"):
        whole(np.sin)(np.ones(10**6))

"""An element that nobody reads has a derivative of zero, whatever the slope at it.

The slope at the first element is infinite in each program, and the result does not depend on it.
"""

import numpy as np
import pytest

import ftrace
from ftrace import grad, jit, jvp, lax, vmap

X = np.array([0.0, 0.25, 0.5, 0.75])


def square(x):
    """Four rows, the first of which is zero."""
    return np.outer(x, np.array([1.0, 2.0, 0.5, 1.5]))


PROGRAMS = {
    "a slice": lambda x: np.sqrt(x)[1:].sum(),
    "a logarithm": lambda x: np.log(x)[1:].sum(),
    "a power": lambda x: (x**0.5)[1:].sum(),
    "a traced power": lambda x: (x ** (x[1] + 0.25))[1:].sum(),
    "an arc": lambda x: np.arcsin(1 - x)[1:].sum(),
    "a quotient": lambda x: (x[1] / x)[1:].sum(),
    "a reciprocal": lambda x: (1 / x)[1:].sum(),
    "a reciprocal root": lambda x: (x**-0.5)[1:].sum(),
    "entropy": lambda x: (ftrace.scipy.special.entr(x))[1:].sum(),
    "xlogy": lambda x: (ftrace.scipy.special.xlogy(x[1], x))[1:].sum(),
    "what follows": lambda x: np.sin(3 * np.sqrt(x) + x)[1:].sum(),
    "two roots": lambda x: np.sqrt(np.sqrt(x))[1:].sum(),
    "two slices": lambda x: (lambda s: s[1] * s[2] + s[3])(np.sqrt(x)),
    "many slices": lambda x: sum(np.sqrt(x)[i] * (i + 1) for i in range(1, 4)),
    "strides": lambda x: np.sqrt(x)[1::2].sum(),
    "backwards": lambda x: (np.sqrt(x)[:0:-1] * np.arange(3.0)).sum(),
    "a slice of a slice": lambda x: np.sqrt(x)[:3][1:].sum(),
    "indices": lambda x: np.sqrt(x)[np.array([1, 3, 1])].sum(),
    "a mask": lambda x: np.sqrt(x)[np.array([False, True, True, False])].sum(),
    "indices along an axis": lambda x: np.take_along_axis(
        np.sqrt(square(x)), np.array([[1, 2, 1, 3]]), axis=0
    ).sum(),
    "a computed place": lambda x: np.sqrt(x)[np.argmax(x)] * x[1],
    "a slice at a computed place": lambda x: lax.dynamic_slice_in_dim(
        np.sqrt(x), np.argmax(x) - 1, 2
    ).sum(),
    "rows": lambda x: np.sqrt(square(x))[1:].sum(),
    "a row of a row": lambda x: np.sqrt(square(x))[2][1],
    "broadcast before": lambda x: (np.sqrt(x)[:, None] * np.arange(1.0, 4.0))[1:].sum(),
    "transposed": lambda x: (np.sqrt(square(x)).T[:, 1:]).sum(),
    "summed": lambda x: np.sqrt(square(x)).sum(1)[1:].sum(),
    "a mean": lambda x: np.sqrt(square(x)).mean(axis=1)[1:].sum(),
    "a norm": lambda x: np.linalg.norm(square(x), axis=1)[1:].sum(),
    "a norm by hand": lambda x: np.sqrt((square(x) ** 2).sum(1))[1:].sum(),
    "a product": lambda x: (np.sqrt(square(x)) @ np.ones((4, 2)))[1:].sum(),
    "a product with a vector": lambda x: (np.sqrt(square(x)) @ np.arange(4.0))[1:].sum(),
    "einsum": lambda x: np.einsum("ij,kj->ik", np.sqrt(square(x)), np.ones((2, 4)))[1:].sum(),
    "reshaped": lambda x: np.sqrt(square(x)).reshape(2, 8)[1].sum(),
    "joined": lambda x: np.concatenate([np.sqrt(x), np.log(x)])[5:].sum(),
    "stacked": lambda x: np.stack([np.sqrt(x), np.log(x)], axis=1)[1:].sum(),
    "split": lambda x: sum(p.sum() for p in np.split(np.sqrt(x), 4)[1:]),
    "split by lax": lambda x: sum(p.sum() for p in lax.split(np.sqrt(x), (1, 3))[1:]),
    "padded": lambda x: lax.pad(np.sqrt(x), 0.0, [(-1, 2, 0)]).sum(),
    "diff": lambda x: np.diff(np.sqrt(x)[1:]).sum(),
    "the largest": lambda x: np.max(np.sqrt(x)),
    "the largest along an axis": lambda x: np.sqrt(square(x)).max(axis=0).sum(),
    "the last of the sorted": lambda x: np.sort(np.sqrt(x))[1:].sum(),
    "the top": lambda x: lax.top_k(np.sqrt(x), 2)[0].sum(),
    "the median": lambda x: np.median(np.sqrt(x)),
    "a diagonal": lambda x: np.diagonal(np.sqrt(square(x)), offset=-1).sum(),
    "a trace": lambda x: np.trace(np.sqrt(square(x)), offset=-1),
    "a triangle": lambda x: np.tril(np.sqrt(square(x)), -1).sum(),
    "a cumulative sum from the end": lambda x: np.cumsum(np.sqrt(x)[::-1])[:3].sum(),
    "rolled": lambda x: np.roll(np.sqrt(x), 1)[[0, 2, 3]].sum(),
    "a window": lambda x: np.convolve(np.sqrt(x), np.ones(2), "valid")[1:].sum(),
    "overwritten": lambda x: ftrace.numpy.at(np.sqrt(x))[0].set(1.0)[:3].sum(),
    "in jit": lambda x: jit(np.sqrt)(x)[1:].sum(),
    "in a jit of more": lambda x: jit(lambda y: (np.sqrt(y), y))(x)[0][1:].sum(),
    "in cond": lambda x: lax.cond(x[1] > 0, np.sqrt, lambda y: y, x)[1:].sum(),
    "in vmap": lambda x: vmap(np.sqrt)(x)[1:].sum(),
    "in vectorize": lambda x: ftrace.vectorize(lambda v: np.sqrt(v))(x)[1:].sum(),
    "in checkpoint": lambda x: ftrace.checkpoint(np.sqrt)(x)[1:].sum(),
    "in scan": lambda x: lax.scan(lambda c, v: (c, np.sqrt(v)), 0.0, x)[1][1:].sum(),
    "in map": lambda x: lax.map(np.sqrt, x)[1:].sum(),
    "read in a loop": lambda x: lax.fori_loop(1, 4, lambda i, t: t + np.sqrt(x)[i], 0.0),
}


def exact(f):
    """The derivative where it is finite: the program of x + 0 at its first element."""
    step = 1e-6
    return np.array(
        [0.0, *((f(X + step * e) - f(X - step * e)) / (2 * step) for e in np.eye(4)[1:])]
    )


WRAPPERS = {
    "grad": grad,
    "jit of grad": lambda f: jit(grad(f)),
    "grad of jit": lambda f: grad(jit(f)),
    "vmap of grad": lambda f: lambda x: vmap(grad(f))(np.stack([x, x]))[1],
    "jit of vmap of grad": lambda f: lambda x: jit(vmap(grad(f)))(np.stack([x, x]))[1],
    "vjp": lambda f: lambda x: ftrace.vjp(f, x)[1](1.0)[0],
    "linearize": lambda f: lambda x: ftrace.linear_transpose(ftrace.linearize(f, x)[1], x)(1.0)[0],
    "jacrev": lambda f: ftrace.jacrev(f),
    "primal of jvp of grad": lambda f: lambda x: ftrace.jvp(grad(f), (x,), (np.eye(4)[1],))[0],
}


FEW = ("a slice", "a power", "many slices", "indices", "a product", "in jit", "in scan")
EVERY = ("grad", "jit of grad", "vmap of grad")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "wrapper"),
    [(p, w) for p in PROGRAMS for w in WRAPPERS if p in FEW or w in EVERY],
)
def test_unread_elements_have_no_derivative(name, wrapper):
    f = PROGRAMS[name]
    with np.errstate(all="ignore"):
        right = exact(f)
        found = WRAPPERS[wrapper](f)(X)
    np.testing.assert_allclose(found, right, atol=1e-6)


def test_what_is_read_at_an_infinite_slope_stays_infinite_or_nan():
    with np.errstate(all="ignore"):
        for wrap in (grad, lambda f: jit(grad(f))):
            read = wrap(lambda x: np.sqrt(x)[:2].sum())(X)
            assert read[0] == np.inf
            assert read[3] == 0
            times_zero = wrap(lambda x: (np.sqrt(x)[:2] * 0.0).sum())(X)
            assert np.isnan(times_zero[0])
            assert times_zero[3] == 0


def test_second_derivatives_of_what_was_not_read_are_zero():
    def f(x):
        return (x**1.5)[1:].sum()

    for wrap in (lambda g: g, jit):
        found = wrap(grad(lambda x: grad(f)(x).sum()))(X)
        np.testing.assert_allclose(found, [0, *(0.75 / np.sqrt(X[1:]))])


def test_an_element_divided_by_a_zero_that_is_known_is_not_read_either():
    with np.errstate(all="ignore"):
        for wrap in (grad, lambda f: jit(grad(f))):
            found = wrap(lambda x: (x / 0.0)[1:].sum())(X)
            np.testing.assert_array_equal(found, [0, np.inf, np.inf, np.inf])


def tried_again(x):
    n = 0
    found = x
    while True:
        found = np.sqrt(x + n)
        if x + n > 0:
            break
        n = n + 1
    return found


def last_of_a_scan(x):
    def body(carry, t):
        return np.sqrt(x + t), np.float64(1.0)

    return lax.scan(body, 0.0, np.arange(4.0))[0]


def last_of_a_while(x):
    def body(carry):
        return np.sqrt(x + carry[1]), carry[1] + 1

    return lax.while_loop(lambda carry: carry[1] < 3, body, (x, 0))[0]


def matrix_tried_again(x):
    a, shift = np.array([[1.0, 2.0], [2.0, 1.0]]) * (x + 1), 0.0
    while True:
        try:
            found = np.linalg.cholesky(a + shift * np.eye(2))
            break
        except np.linalg.LinAlgError:
            shift = shift + 0.8
    return found.sum()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("wrapper", [grad, lambda f: jit(grad(f)), lambda f: grad(jit(f))])
@pytest.mark.parametrize(
    ("f", "at"),
    [
        *((tried_again, x) for x in (-1.3, 0.5)),
        *((f, 0.0) for f in (last_of_a_scan, last_of_a_while, matrix_tried_again)),
    ],
)
def test_what_a_loop_overwrites_unread_has_no_derivative(f, at, wrapper):
    expected = jvp(f, (np.float64(at),), (1.0,))[1]
    np.testing.assert_allclose(wrapper(f)(np.float64(at)), expected, rtol=1e-12)
    assert np.isfinite(expected)


def test_what_shapes_decide_is_not_taken_from_a_trace_that_runs():
    """The mask of a large array was traced, and then asked for as a plain one for a small one."""

    def f(x):
        shifted = np.exp(x - x.max(axis=-1, keepdims=True))
        return np.log((shifted / shifted.sum(axis=-1, keepdims=True))[:, 3]).sum()

    x = np.random.default_rng(0).normal(size=(41, 257))
    shares = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    want = np.eye(257)[3] - shares
    for g in (grad(f), jit(grad(f)), jit(lambda x: grad(f)(x))):
        np.testing.assert_allclose(g(x), want, atol=1e-12)


def test_constants_of_a_while_that_nobody_reads_are_dropped():
    def f(x, y, z):
        def body(s):
            return s[0] + x, s[1] * y + z

        return ftrace.lax.while_loop(lambda s: s[0] < 3.0, body, (0.0, 1.0))[0]

    (loop,) = [
        e for e in ftrace.jit(f).lower(1.0, 2.0, 3.0).jaxpr.eqns if e.primitive.name == "while"
    ]
    assert (loop.params["n_consts"], len(loop.invars)) == (1, 2)
    assert ftrace.jit(f)(1.0, 2.0, 3.0) == 3.0

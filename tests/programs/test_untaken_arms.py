"""Batch elements that do not take an arm: it neither raises for them nor reaches their derivatives.

Each operation is undefined, or has no derivative, where the arm is not taken.
"""

import numpy as np
import pytest
import scipy.linalg

import ftrace
from ftrace import lax, tree_util

X = np.array([2.0, 0.0, -1.0])
B = np.array([1.0, 2.0, 3.0])
S = np.array([[2.0, 0.5], [0.5, 3.0]])
OPERATIONS = {
    "dot": lambda z: np.ones(3) @ (B / z),
    "matvec": lambda z: (np.outer(B, B) @ (B * np.log(z))).sum(),
    "einsum": lambda z: np.einsum("i,i", B / z, B),
    "tensordot": lambda z: np.tensordot(S / z, S, 2),
    "convolve": lambda z: np.convolve(B / z, B).sum(),
    "cumsum": lambda z: np.cumsum(B / z).sum(),
    "fft": lambda z: np.abs(np.fft.fft(B / z)).sum(),
    "inv": lambda z: np.linalg.inv(S * z).sum(),
    "solve": lambda z: np.linalg.solve(S * z, B[:2]).sum(),
    "cholesky": lambda z: np.linalg.cholesky(S * z).sum(),
    "eigvalsh": lambda z: np.linalg.eigvalsh(S * np.sqrt(z) + np.diag([0, 1.0])).sum(),
    "eigh": lambda z: np.linalg.eigh(S * z)[0][0],
    "eigvals": lambda z: np.real(np.linalg.eigvals(S * z)).sum(),
    "svd": lambda z: np.linalg.svd(S * np.log(z))[1].sum(),
    "svdvals": lambda z: np.linalg.svd(S * z, compute_uv=False)[0],
    "qr": lambda z: np.abs(np.linalg.qr(S * z)[1]).sum(),
    "lstsq": lambda z: np.linalg.lstsq(S / z, B[:2], rcond=None)[0].sum(),
    "matrix_power": lambda z: np.linalg.matrix_power(S / z, 2).sum(),
    "expm": lambda z: scipy.linalg.expm(S / z * 0.1).sum(),
    "pinv": lambda z: np.linalg.pinv(S / z).sum(),
    "sqrtm": lambda z: scipy.linalg.sqrtm(S / z).real.sum(),
    "logm": lambda z: scipy.linalg.logm(S / z).real.sum(),
    "solve_sylvester": lambda z: scipy.linalg.solve_sylvester(S / z, S, S).sum(),
    "complex dot": lambda z: np.real(np.ones(3) @ (B / (z * 1j))),
    "cov": lambda z: np.cov(B / z),
}


def by_arm(operation):
    def f(x):
        if x > 0:
            return operation(x)
        return 2.0 * x

    return f


def by_break(operation):
    def f(x):
        s = x * 1.0
        for _ in range(3):
            if s <= 0:
                break
            s = abs(operation(s)) * 0.1 + 0.5
        return s + 2 * x

    return f


@pytest.mark.parametrize("form", [by_arm, by_break], ids=["arm", "break"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_derivatives_of_a_batch_are_those_of_its_elements(name, form):
    f = form(OPERATIONS[name])
    expected = [ftrace.grad(f)(x) for x in X]
    for x, slope in zip(X, expected, strict=True):
        if x:
            np.testing.assert_allclose(slope, (f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rtol=1e-4)
    total = ftrace.grad(lambda x: ftrace.vmap(f)(x).sum())
    tangents = (X,), (np.ones(3),)
    found = [
        total(X),
        ftrace.jit(total)(X),
        ftrace.grad(lambda x: ftrace.vectorize(f)(x).sum())(X),
        ftrace.jvp(ftrace.vmap(f), *tangents)[1],
        ftrace.vmap(ftrace.grad(f))(X),
    ]
    for one in found:
        np.testing.assert_allclose(one, expected, rtol=1e-9)


def test_forms_without_derivatives_are_not_asked_for_where_the_arm_is_not_taken():
    def f(x):
        if x > 0:
            return scipy.linalg.schur(S / x)[0][0, 0] + scipy.linalg.hessenberg(S / x)[1, 1]
        return 2.0 * x

    np.testing.assert_allclose(ftrace.vmap(f)(X), [f(x) for x in X])


@pytest.mark.parametrize("solve", [np.linalg.solve, scipy.linalg.solve_triangular])
def test_right_hand_sides_of_one_matrix_lie_beside_each_other(solve):
    """They are columns of one system under `vmap`, and stay apart."""

    def f(m, x):
        if x > 0:
            return solve(S, np.log(m) / np.sqrt(m)).sum()
        return x * m.sum()

    m = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.5]])

    def total(m):
        return ftrace.vmap(f)(m, X).sum()

    expected = [ftrace.grad(f)(row, x) for row, x in zip(m, X, strict=True)]
    for one in (ftrace.grad(total), ftrace.jit(ftrace.grad(total))):
        np.testing.assert_allclose(one(m), expected, rtol=1e-12)


BANDS = np.array([[0.0, 0.1, 0.2], [3.0, 4.0, 5.0], [0.3, 0.4, 0.0]])
M = np.array([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.3, 0.1, 4.0]])
SHARED = {
    "vector of a matrix": (lambda z, w: (B / z) @ w, M),
    "matrix of a vector": (lambda z, w: w @ (B / z), M),
    "matrices": (lambda z, w: (M / z) @ w @ (M * np.log(z)), M),
    "inner": (lambda z, w: np.inner(M / z, w), B),
    "einsum": (lambda z, w: np.einsum("ij,jk,kl->il", M / z, w, M / z), M),
    "einsum row": (lambda z, w: np.einsum("ij,i,j->j", w, B / z, B), M),
    "convolve": (lambda z, w: np.convolve(B / z, w), B),
    "correlate": (lambda z, w: np.correlate(w, B / z, "full"), B),
    "solve": (lambda z, w: np.linalg.solve(w, B / z), M),
    "solve, read twice": (lambda z, w: np.linalg.solve(M * z, w)[np.array([0, 0, 2])], B),
    "solve_triangular": (lambda z, w: scipy.linalg.solve_triangular(w, B / z), M),
    "solve_banded": (lambda z, w: scipy.linalg.solve_banded((1, 1), w, B / z), BANDS),
    "solve_banded, b": (lambda z, w: scipy.linalg.solve_banded((1, 1), BANDS / z, w), B),
    "solveh_banded": (lambda z, w: scipy.linalg.solveh_banded(w, B / z), BANDS[:2]),
    "cho_solve": (lambda z, w: scipy.linalg.cho_solve(scipy.linalg.cho_factor(w @ w.T), B / z), M),
    "layers": (lambda z, w: np.maximum(np.tanh(np.log(z) * B @ w) @ w, 0), M),
    "scan": (lambda z, w: lax.scan(lambda c, b: (np.tanh(c @ w) * b / z, c), B / z, B), M / 4),
}


def by_early_end(operation):
    def f(z, w):
        v, n = B * z, 0
        while n < 3 and v[0] > 0:
            v = np.sin(operation(v[0], w)) + 0.1 * n
            n = n + 1
        return v.sum()

    return f


@pytest.mark.parametrize("name", SHARED)
def test_derivatives_by_what_batch_elements_share_are_sums_of_their_own(name):
    """What an element computed in an arm that it does not take is infinite, or NaN."""
    operation, w = SHARED[name]

    def f(z, w):
        if z > 0:
            return sum((part**2).sum() for part in tree_util.tree_leaves(operation(z, w)))
        return 2.0 * z

    def total(x, w):
        return ftrace.vmap(f, (0, None))(x, w).sum()

    def nested(x, w):
        rows = ftrace.vmap(ftrace.vmap(f, (0, None)), (0, None))
        return rows(x[None], w).sum()

    def slope(f, x):
        return lambda w: (
            ftrace.grad(f, 1)(x, w) * np.cos(np.arange(w.size).reshape(w.shape))
        ).sum()

    expected = sum(ftrace.grad(f, 1)(x, w) for x in X)
    bent = sum(ftrace.grad(slope(f, x))(w) for x in X)
    assert np.isfinite(expected).all()
    assert np.isfinite(bent).all()
    for g in (total, nested):
        np.testing.assert_allclose(ftrace.grad(g, 1)(X, w), expected, rtol=1e-9)
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(total, 1))(X, w), expected, rtol=1e-9)
    np.testing.assert_allclose(ftrace.grad(slope(total, X))(w), bent, rtol=1e-9, atol=1e-12)
    by_x = [ftrace.grad(f)(x, w) for x in X]
    np.testing.assert_allclose(ftrace.grad(total)(X, w), by_x, rtol=1e-9)


@pytest.mark.parametrize("name", ["vector of a matrix", "einsum row", "solve"])
def test_batch_elements_that_left_a_loop_add_nothing_to_what_they_share(name):
    operation, w = SHARED[name]
    f = by_early_end(operation)

    def total(w):
        return ftrace.vmap(f, (0, None))(X, w).sum()

    expected = sum(ftrace.grad(f, 1)(x, w) for x in X)
    for g in (ftrace.grad(total), ftrace.jit(ftrace.grad(total))):
        np.testing.assert_allclose(g(w), expected, rtol=1e-9)


def test_arms_that_only_choose_are_arms():
    def f(x, w):
        y = ((B / x) @ w).sum()
        return y if x > 0 else x

    def total(w):
        return ftrace.vmap(f, (0, None))(X, w).sum()

    with np.errstate(all="ignore"):
        for g in (ftrace.grad(total), ftrace.jit(ftrace.grad(total))):
            np.testing.assert_allclose(g(M), np.outer(B / X[0], np.ones(3)))


def test_what_where_leaves_out_adds_nothing_to_what_batch_elements_share():
    def total(w):
        return np.where(X > 0, ((B / X[:, None]) @ w).sum(1), X).sum()

    with np.errstate(all="ignore"):
        found = ftrace.grad(total)(M)
    np.testing.assert_allclose(found, np.outer(B / X[0], np.ones(3)))


def test_masks_of_layers_leave_what_is_known_as_it_is():
    """Only branches have infinities beside them: no pass over the activations is added."""

    def loss(w):
        h = np.maximum(np.maximum(M @ w, 0) @ w, 0)
        return np.where(h > 1, h @ w, h).sum()

    text = str(ftrace.make_jaxpr(ftrace.grad(loss))(M))
    assert "select_branch" not in text

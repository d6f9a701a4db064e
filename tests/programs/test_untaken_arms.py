"""Batch elements that do not take an arm: it neither raises for them nor reaches their derivatives.

Each operation is undefined, or has no derivative, where the arm is not taken.
"""

import numpy as np
import pytest
import scipy.linalg

import ftrace

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

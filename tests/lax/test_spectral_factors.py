"""lax.linalg's decompositions: JAX's order of results and options, NumPy's values."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import ftrace
from ftrace.errors import DomainError, DtypeError, MatrixError, RuleError
from ftrace.lax import linalg

RNG = np.random.default_rng(43)
S, TALL = RNG.normal(size=(2, 4, 4)), RNG.normal(size=(4, 3))
C = S[0] + 1j * S[1]


def adjoint(x: Any) -> Any:
    return np.swapaxes(x, -1, -2).conj()


def test_compiled_eigh_gives_vectors_first_of_the_symmetrized_matrix() -> None:
    v, w = ftrace.jit(linalg.eigh)(C)
    expected = np.linalg.eigh((C + adjoint(C)) / 2)
    np.testing.assert_array_equal(w, expected.eigenvalues)
    np.testing.assert_array_equal(v, expected.eigenvectors)
    v, w = linalg.eigh(C, lower=False, symmetrize_input=False, subset_by_index=(1, 3))
    expected = np.linalg.eigh(C, "U")
    np.testing.assert_array_equal(w, expected.eigenvalues[1:3])
    np.testing.assert_array_equal(v, expected.eigenvectors[:, 1:3])
    g = ftrace.grad(lambda x: linalg.eigh(x)[1][0, 2])(S)
    np.testing.assert_allclose(g, np.swapaxes(g, 1, 2), atol=1e-15)
    u = linalg.eigh(S)[0][0, :, 2]
    np.testing.assert_allclose(g[0], np.outer(u, u), atol=1e-14)


def test_compiled_eig_has_left_vectors_before_right_ones() -> None:
    w, left, right = ftrace.jit(linalg.eig)(S)
    np.testing.assert_allclose(S @ right, right * w[:, None], atol=1e-13)
    np.testing.assert_allclose(adjoint(S) @ left, left * w.conj()[:, None], atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(left, axis=-2), 1)
    how = {"implementation": linalg.EigImplementation.LAPACK}
    assert len(linalg.eig(S, compute_left_eigenvectors=False, **how)) == 2


def test_compiled_svd_and_qr_are_numpys() -> None:
    for full in (True, False):
        f = ftrace.jit(lambda x, full=full: linalg.svd(x, full_matrices=full))
        for y, e in zip(f(TALL), np.linalg.svd(TALL, full_matrices=full), strict=True):
            np.testing.assert_array_equal(y, e)
        q, r = ftrace.jit(lambda x, full=full: linalg.qr(x, full_matrices=full))(TALL)
        expected = np.linalg.qr(TALL, "complete" if full else "reduced")
        np.testing.assert_array_equal(q, expected.Q)
        np.testing.assert_array_equal(r, expected.R)
    how = {"algorithm": linalg.SvdAlgorithm.QR, "full_matrices": False}
    u, s, vh = linalg.svd(TALL, subset_by_index=(0, 2), **how)
    np.testing.assert_array_equal(s, np.linalg.svdvals(TALL)[:2])
    assert (u.shape, vh.shape) == ((4, 2), (2, 3))


def test_compiled_schur_hessenberg_and_tridiagonal_forms_give_their_matrices_back() -> None:
    u, q = ftrace.jit(linalg.schur)(S)
    np.testing.assert_allclose(q @ u @ adjoint(q), S, atol=1e-13)
    assert len(linalg.schur(S, compute_schur_vectors=False)) == 1
    h, tau = ftrace.jit(linalg.hessenberg)(S[0])
    np.testing.assert_allclose(np.triu(h, -1), scipy.linalg.hessenberg(S[0]), atol=1e-14)
    assert tau.shape == (3,)
    for x in (S[0], C):
        for lower in (True, False):
            _, d, e, _ = ftrace.jit(lambda x, low=lower: linalg.tridiagonal(x, lower=low))(x)
            band = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
            expected = np.linalg.eigvalsh(x, "L" if lower else "U")
            np.testing.assert_allclose(np.linalg.eigvalsh(band), expected, atol=1e-13)


def test_what_is_not_supported_is_named() -> None:
    for f, error, words in (
        (lambda x: linalg.qr(x, pivoting=True), RuleError, "pivoting=True"),
        (lambda x: linalg.svd(x, subset_by_index=(0, 1)), DomainError, "square factors"),
        (lambda x: linalg.eigh(x, subset_by_index=(3, 9)), DomainError, r"\(3, 9\), of 4"),
        (lambda x: linalg.eigh(x[:, :3]), MatrixError, "must be square"),
        (lambda x: linalg.svd(x.astype(int)), DtypeError, "int64"),
        (ftrace.grad(lambda x: linalg.hessenberg(x)[0][0, 0]), RuleError, "no derivative rule"),
    ):
        with pytest.raises(error, match=words):
            ftrace.jit(f)(S[0])

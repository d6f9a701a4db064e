"""lax.linalg: values against NumPy's and SciPy's, derivatives against differences."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import ftrace
from ftrace.errors import MatrixError, ShapeError
from ftrace.lax import linalg

rng = np.random.default_rng(7)


def normal(*shape: int, dtype: str = "f8") -> Any:
    x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return (x if dtype[0] == "c" else x.real).astype(dtype)


def close(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)


def in_every_way(f: Any, *args: Any) -> Any:
    """The result, which is the same staged and mapped."""
    found = f(*args)
    for other in (ftrace.jit(f)(*args), ftrace.vmap(f)(*[np.stack([x, x]) for x in args])):
        many = found if isinstance(found, tuple) else (found,)
        others = other if isinstance(other, tuple) else (other,)
        for y, z in zip(many, others, strict=True):
            close(z if np.shape(z) == np.shape(y) else z[1], y)
    return found


def check_derivatives(f: Any, *args: Any) -> None:
    """Reverse and forward mode against differences, along one direction."""
    ts = [normal(*x.shape, dtype=x.dtype.str[1:]) for x in args]

    def total(*xs: Any) -> Any:
        y = f(*xs)
        return np.sum(np.real(y) * np.cos(np.arange(y.size)).reshape(y.shape)) + np.sum(np.imag(y))

    h = 1e-5
    plus, minus = ([x + s * h * t for x, t in zip(args, ts, strict=True)] for s in (1, -1))
    expected = (total(*plus) - total(*minus)) / (2 * h)
    grads = ftrace.grad(total, tuple(range(len(args))))(*args)
    found = sum(np.sum(np.real(g * t)) for g, t in zip(grads, ts, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    _, pushed = ftrace.jvp(total, args, tuple(ts))
    np.testing.assert_allclose(pushed, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_cholesky_is_of_the_hermitian_part(dtype: str) -> None:
    a = normal(3, 3, dtype=dtype) + 9 * np.eye(3)
    found = in_every_way(linalg.cholesky, a)
    close(found @ found.conj().T, (a + a.conj().T) / 2)
    check_derivatives(linalg.cholesky, a)
    slope = ftrace.grad(lambda a: np.sum(np.abs(linalg.cholesky(a)) ** 2))(a)
    close(slope, np.swapaxes(slope.conj(), -1, -2))
    read = in_every_way(lambda a: linalg.cholesky(a, symmetrize_input=False), a)
    close(read, np.linalg.cholesky(a))


def test_what_has_no_factor_is_nan_compiled_too() -> None:
    for f in (linalg.cholesky, ftrace.jit(linalg.cholesky)):
        assert np.isnan(f(-np.eye(2))).all()


def test_an_updated_factor_is_that_of_the_sum() -> None:
    r, w = np.triu(normal(4, 4)) + 4 * np.eye(4), normal(4)
    found = in_every_way(linalg.cholesky_update, r, w)
    close(found.T @ found, r.T @ r + np.outer(w, w))
    close(found, np.triu(found))
    check_derivatives(linalg.cholesky_update, r, w)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (3, 1)])
def test_reflections_give_the_orthogonal_factor(shape: tuple[int, int], dtype: str) -> None:
    a = normal(*shape, dtype=dtype)
    (packed, taus), _ = scipy.linalg.qr(a, mode="raw")
    q, _ = scipy.linalg.qr(a, mode="economic")
    close(in_every_way(linalg.householder_product, packed, taus), q)
    check_derivatives(linalg.householder_product, packed, taus)
    fewer = linalg.householder_product(packed, taus[:1])
    one = np.append(1.0, packed[1:, 0])
    whole = np.eye(shape[0]) - taus[0] * np.outer(one, one.conj())
    close(fewer, whole[:, : shape[1]])


def test_lu_and_its_order_of_rows() -> None:
    for shape in ((3, 3), (2, 4), (4, 2)):
        a = normal(*shape)
        both, pivots, order = in_every_way(linalg.lu, a)
        k = min(shape)
        low = np.tril(both[:, :k], -1) + np.eye(shape[0], k)
        close(low @ np.triu(both[:k]), a[order])
        assert (linalg.lu_pivots_to_permutation(pivots, shape[0]) == order).all()
        check_derivatives(lambda a: linalg.lu(a)[0], a)


@pytest.mark.parametrize("left", [True, False])
def test_triangular_systems_of_columns_and_vectors(left: bool) -> None:
    a, b, v = normal(3, 3, dtype="c16") + 4 * np.eye(3), normal(3, 3, dtype="c16"), normal(3)
    v = v.astype("c16")

    def f(a: Any, b: Any) -> Any:
        return linalg.triangular_solve(a, b, left_side=left, lower=True, transpose_a=True)

    matrix = np.tril(a).T
    x, y = in_every_way(f, a, b), in_every_way(f, a, v)
    close(matrix @ x if left else x @ matrix, b)
    close(matrix @ y if left else y @ matrix, v)
    check_derivatives(f, a, b)


def test_tridiagonal_systems() -> None:
    dl, d, du, b = normal(4), normal(4) + 5, normal(4), normal(4, 2)
    x = in_every_way(linalg.tridiagonal_solve, dl, d, du, b)
    close((np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)) @ x, b)
    check_derivatives(linalg.tridiagonal_solve, dl, d, du, b)
    slopes = ftrace.grad(lambda *xs: linalg.tridiagonal_solve(*xs).sum(), (0, 2))(dl, d, du, b)
    assert slopes[0][0] == 0
    assert slopes[1][-1] == 0


def test_symmetric_products() -> None:
    a, c = normal(2, 3), normal(2, 2)
    found = linalg.symmetric_product(a, c, alpha=2.0, beta=-1.0)
    close(found, 2 * a @ a.T - c)


def test_shapes_that_do_not_fit_are_refused() -> None:
    a = np.eye(3)
    for f, error in (
        (lambda: linalg.cholesky(a[:2]), MatrixError),
        (lambda: linalg.cholesky_update(a, a[0, :2]), ShapeError),
        (lambda: linalg.householder_product(a[:2], a[0, :2]), ShapeError),
        (lambda: linalg.householder_product(a, np.float64(1)), ShapeError),
        (lambda: linalg.lu(a[0]), MatrixError),
        (lambda: linalg.lu_pivots_to_permutation(np.arange(3), 2), ShapeError),
        (lambda: linalg.triangular_solve(a, a[:2], left_side=True), ShapeError),
        (lambda: linalg.tridiagonal_solve(a[0], a[0], a[0, :2], a), ShapeError),
        (lambda: linalg.symmetric_product(a[:2], a), MatrixError),
    ):
        with pytest.raises(error):
            f()

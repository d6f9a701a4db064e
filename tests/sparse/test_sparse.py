"""SciPy's sparse matrices in transformed functions, against the same with dense arrays."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import ftrace
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.primitives.index import scatter, scatter_add
from tests.api.ways import differences

rng = np.random.default_rng(0)
DENSE = rng.normal(size=(5, 4)) * (rng.random((5, 4)) < 0.5)
X, Y = rng.normal(size=4), rng.normal(size=5)
A = sp.csr_array(DENSE)
M = sp.csc_matrix(DENSE)
C = sp.coo_array(
    (np.append(A.data, 0.5), (np.append(A.tocoo().row, 0), np.append(A.tocoo().col, 1)))
)
SQUARE = sp.csr_array(np.diag([3.0, 4, 5, 6]) + np.diag([1.0, 1, 1], 1) + np.diag([1.0, 2, 1], -1))
POSITIVE = sp.csr_array(
    np.diag([3.0, 4, 5, 6]) + np.diag([1.0, 1, 1], 1) + np.diag([1.0, 1, 1], -1)
)
PLACES = np.array([0, 0, 1, 2, 2]), np.array([1, 1, 0, 3, 2])


def squared(v):
    return np.sum(v**2)


def built(v):
    B = sp.csr_matrix((v, PLACES), shape=(4, 4))
    columns = sp.csc_array(B.tocsc()).sum(axis=0)
    return squared(B @ X) + columns[1] ** 3 + (sp.csr_array(np.eye(4)) * v[0] @ X).sum()


def whole(A, x):
    return squared(A @ x) + A.sum() + A.diagonal().sum() ** 2 + np.sum(A.toarray() ** 3)


def elementwise(A, y):
    B = -A.multiply(y[:, None]) / 2.0 + A.power(2) - abs(A)
    return (
        squared(B.sum(axis=0))
        + squared(B.mean(axis=1))
        + (np.ones(A.shape) - A.tocoo()).trace()
        + (0 + A).sum()
        + np.sum(A)
    )


PROGRAMS = {
    "A @ x": (lambda x: squared(A @ x), X),
    "A @ X": (lambda x: squared(A @ np.stack([x, x**2], 1)), X),
    "M * x": (lambda x: squared(M * x), X),
    "C @ x": (lambda x: squared(C @ x), X),
    "A.T @ y": (lambda y: squared(A.T @ y), Y),
    "y @ A": (lambda y: squared(y @ A), Y),
    "A.dot": (lambda x: squared(A.dot(x)), X),
    "A * s": (lambda s: squared((A * s).toarray()) + ((2.0 * A - s * A) @ X).sum(), 1.3),
    "built": (built, rng.normal(size=5)),
    "csr argument": (whole, A, X),
    "csc argument": (whole, M, X),
    "coo argument": (whole, C, X),
    "elements": (elementwise, A, Y),
    "sums": (lambda A, x: squared((A + 2.0 * M - C.tocsr()).power(2) @ x), A, X),
    "products": (lambda A, x: squared((A.T @ A @ SQUARE - SQUARE @ M.T @ A) @ x), A, X),
    "diffusion": (
        lambda k: squared(sla.spsolve(sp.eye(4, format="csc") + k * SQUARE.tocsc(), X)),
        0.3,
    ),
    "spsolve": (lambda S, b: squared(sla.spsolve(S.tocsc(), b)), SQUARE, X),
    "spsolve closed over": (lambda b: squared(sla.spsolve(SQUARE, b)), X),
    "cg": (lambda S, b: squared(sla.cg(S, b, rtol=1e-12)[0]), POSITIVE, X),
    "gmres closed over": (lambda b: squared(sla.gmres(SQUARE, b, rtol=1e-12)[0]), X),
}


def slope(f, args, i):
    """The derivative by an argument, of a matrix by its data."""
    if not sp.issparse(args[i]):
        return differences(lambda v: f(*args[:i], v, *args[i + 1 :]), args[i])

    def of(data):
        B = args[i].copy()
        B.data = data
        return f(*args[:i], B, *args[i + 1 :])

    return differences(of, args[i].data)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_as_they_stand(name):
    f, *args = PROGRAMS[name]
    np.testing.assert_allclose(ftrace.jit(f)(*args), f(*args), rtol=1e-12)
    for i, x in enumerate(args):
        expected = slope(f, args, i)
        for way in (ftrace.grad(f, i), ftrace.jacfwd(f, i), ftrace.jit(ftrace.grad(f, i))):
            found = way(*args)
            if sp.issparse(x):
                assert type(found) is type(x)
                found = found.data
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_second_derivatives_and_batches():
    hessian = ftrace.hessian(lambda x: squared(A @ x))(X)
    np.testing.assert_allclose(hessian, 2 * DENSE.T @ DENSE, atol=1e-12)
    xs = rng.normal(size=(3, 4))
    np.testing.assert_allclose(ftrace.vmap(lambda x: A @ x)(xs), xs @ DENSE.T, atol=1e-12)
    scaled = ftrace.vmap(lambda s, x: (A * s) @ x)(np.arange(3.0), xs)
    np.testing.assert_allclose(scaled, np.arange(3.0)[:, None] * (xs @ DENSE.T), atol=1e-12)
    many = ftrace.vmap(lambda s: A * s)(np.arange(3.0))
    assert many.data.shape == (3, A.nnz)
    one = ftrace.vmap(lambda B, x: B @ x)(many, xs)
    np.testing.assert_allclose(one, scaled, atol=1e-12)


def test_matrices_are_results_and_containers():
    twice = ftrace.jit(lambda A: {"A": 2.0 * A, "T": A.T})(M)
    assert type(twice["A"]) is sp.csc_matrix
    assert type(twice["T"]) is sp.csr_matrix
    np.testing.assert_array_equal(twice["T"].toarray(), DENSE.T)
    ftrace.tree_util.tree_map(lambda x, g: x - 0.1 * g, A, A)
    assert ftrace.tree_util.tree_structure(A) == ftrace.tree_util.tree_structure(A.copy())
    assert ftrace.tree_util.tree_structure(A) != ftrace.tree_util.tree_structure(A.T)
    ((path, leaf),) = ftrace.tree_util.tree_leaves_with_path(A)
    assert ftrace.tree_util.keystr(path) == ".data"
    assert leaf is A.data
    places = ftrace.sparse.as_sparse(A).places
    assert pickle.loads(pickle.dumps(places)) is places


def test_formats():
    def through(A):
        return A.tocsc().tocoo().tocsr() @ X + A.tocoo().tocsc() @ X

    for matrix in (A, M, C):
        expected = 2 * (matrix.toarray() @ X)
        np.testing.assert_allclose(ftrace.jit(through)(matrix), expected, atol=1e-12)
    back = ftrace.jit(lambda A: A.tocsr())(C)
    np.testing.assert_array_equal(back.indices, C.tocsr().indices)
    np.testing.assert_array_equal(back.indptr, C.tocsr().indptr)
    for k in (-2, 0, 3):
        np.testing.assert_array_equal(ftrace.jit(lambda A, k=k: A.diagonal(k))(A), A.diagonal(k))
    other = ftrace.jit(lambda x: sp.dia_array(SQUARE) @ x)(X)
    np.testing.assert_allclose(other, SQUARE @ X)


@pytest.mark.filterwarnings("ignore:Changing the sparsity")
def test_a_changed_matrix_is_seen():
    B = sp.csr_array(np.diag([1.0, 2.0]))
    f = ftrace.jit(lambda x: B @ x)
    x = np.array([10.0, 1.0])
    for change in ("B.data[0] = 5.0", "B.data = np.array([8.0, 9.0])", "B[0, 1] = 3.0",
                   "B.indices[-1] = 0", "B.sum_duplicates()"):  # fmt: skip
        exec(change, {"B": B, "np": np})
        np.testing.assert_array_equal(f(x), B.toarray() @ x)
    g = ftrace.jit(lambda B, x: B @ x)
    np.testing.assert_array_equal(g(B, x), B @ x)
    B.indices[:] = 1
    np.testing.assert_array_equal(g(B, x), B.toarray() @ x)


def test_diagonals():
    def f(d):
        T = ftrace.sparse.diags_array([d, 1.0, d[1:] ** 2], offsets=[0, 1, -1], shape=(4, 4))
        return squared(ftrace.implicit.spsolve(T, X)) + ftrace.sparse.diags(d).trace()

    def dense(d):
        T = np.diag(d) + np.diag(np.ones(3), 1) + np.diag(d[1:] ** 2, -1)
        return squared(np.linalg.solve(T, X)) + d.sum()

    d = np.array([3.0, 4.0, 5.0, 6.0])
    np.testing.assert_allclose(f(d), dense(d))
    np.testing.assert_allclose(ftrace.grad(f)(d), differences(dense, d), rtol=1e-6)


def test_the_jacobian_as_an_operator():
    def f(x):
        return np.stack([x[0] * x[1], np.sin(x[1]), x[2] ** 2 + x[0]])

    x = np.array([0.3, -0.4, 1.1])
    J = ftrace.sparse.jacobian_operator(f, x)
    dense = ftrace.jacobian(f)(x)
    np.testing.assert_allclose(J @ np.eye(3), dense)
    np.testing.assert_allclose(J.T @ np.eye(3), dense.T)
    np.testing.assert_allclose(sla.lsqr(J, Y[:3])[0], np.linalg.solve(dense, Y[:3]), rtol=1e-5)


def fails(error, words, f, *args):
    for way in (ftrace.jit(f), lambda *args: ftrace.jvp(f, args, args)):
        with pytest.raises(error, match=words) as caught:
            way(*args)
        assert __file__ in str(caught.value) or "site-packages" in str(caught.value)
    return str(caught.value)


def test_python_refuses_zero():
    def divided(x):
        return (A / x).data

    for divide in (ftrace.jit(divided), lambda x: ftrace.jvp(divided, (x,), (1.0,))[0]):
        with pytest.raises(ZeroDivisionError):
            divide(0.0)
        assert np.isinf(divide(np.float64(0.0))).all()
        np.testing.assert_allclose(divide(2.0), A.data / 2)
    with pytest.raises(ZeroDivisionError):
        ftrace.jit(divided)(0)


def test_mistakes():
    fails(errors.ShapeError, "times one of shape", lambda A: A @ A, A)
    fails(errors.RuleError, "no items", lambda A: A[0, 1], A)
    different = lambda A: A.multiply(SQUARE)  # noqa: E731
    assert "toarray()" in fails(errors.RuleError, "at different places", different, SQUARE + A[:4])
    fails(errors.ShapeError, "of shapes", lambda A: A + SQUARE, A)
    fails(errors.ShapeError, r"shape \(5, 4\) times an array of shape \(3,\)",
          lambda A: A @ np.ones(3), A)  # fmt: skip
    fails(AttributeError, "no 'nonzero'", lambda A: A.nonzero(), A)
    assert "spsolve" in fails(errors.TracerArrayConversionError, "plain array",
                              lambda A: sla.splu(A), SQUARE)  # fmt: skip
    fails(errors.ShapeError, "one place|data at places",
          lambda v: sp.csr_array((v, ([0, 5], [0, 1])), shape=(2, 2)), Y[:2])  # fmt: skip
    fails(errors.DtypeError, "cannot depend on values",
          lambda v: ftrace.sparse.coo_array((v, v, v)), Y[:2])  # fmt: skip
    with pytest.raises(errors.ShapeError, match="diagonal 1"):
        ftrace.sparse.diags([np.ones(3)], [1], shape=(3, 3))


@pytest.mark.parametrize("write", [scatter, scatter_add])
def test_updates_at_negative_and_at_far_indices_are_found(write):
    i = np.array([2**62, 1, -1, -5, 0, np.iinfo(np.int64).max])
    x = np.arange(1.0, 13.0)

    def f(x):
        updates = x.reshape(6, 2) * 2.5
        return write(fnp.ones((4, 2)), updates, i, axes=(0,), mode="drop").ravel()

    expected = ftrace.jacfwd(f)(x)
    np.testing.assert_array_equal(ftrace.sparse.jacobian(f)(x).toarray(), expected)
    structured = ftrace.jacobian(f, structured=True)(x)
    np.testing.assert_array_equal(np.asarray(structured @ np.eye(12)), expected)

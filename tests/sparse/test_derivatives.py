"""`ftrace.sparse.jacobian`, `hessian`, `pattern`: exact values, tight patterns, few passes."""

import pickle

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import ftrace
import ftrace.numpy as fnp
from ftrace.errors import DerivativeError, DtypeError, HostMemoryError, ShapeError
from ftrace.sparse.colouring import coloured

X = np.random.default_rng(3).standard_normal(12)
A = sp.random_array((12, 12), density=0.2, rng=np.random.default_rng(0)).toarray()
N = 12


def assigned(x):
    y = np.zeros(6)
    y[1:4] = x[:3] * x[3:6]
    y[0] += x[11]
    return y


def stencil(x):
    y = np.zeros(N)
    for i in range(1, N - 1):
        y[i] = x[i - 1] - 2 * x[i] + x[i + 1] ** 2
    return y


def doubled(x):
    while np.sum(np.abs(x)) < 100.0:
        x = x * 1.5 + 0.1
    return x


def shifted(x):
    total = np.zeros(N)
    while np.sum(np.abs(total)) < 50.0:
        total = total + np.roll(total, 1) + np.abs(x)
    return total


def counted(x):
    y = x
    for i in range(400):
        y = y * 0.5 + x[i % 2]
    return y


def straight_through():
    made = ftrace.custom_jvp(np.floor)
    made.defjvps(lambda t, y, x: t)
    return made


# name -> (function, elements of the pattern, passes at most); of 12 numbers
JACOBIANS = {
    "differences": (np.diff, 22, 2),
    "each by itself": (lambda x: np.sin(x) * x, 12, 1),
    "sum": (lambda x: np.sum(x) * x[:3], 36, 3),
    "running sum": (np.cumsum, 78, 12),
    "reversed running product": (lambda x: np.cumprod(x[::-1])[:3], 6, 3),
    "roll": (lambda x: np.roll(x, 1) * x, 24, 2),
    "indices": (lambda x: x[[0, 3, 3, 5]] ** 2, 4, 1),
    "assigned": (assigned, 7, 1),
    "constant matrix": (lambda x: A @ np.tanh(x), np.count_nonzero(A), None),
    "matrix from the left": (lambda x: np.tanh(x) @ A, np.count_nonzero(A), None),
    "product of both": (lambda x: x.reshape(3, 4) @ x.reshape(4, 3), 60, 9),
    "batched products": (lambda x: x.reshape(3, 2, 2) @ x.reshape(3, 2, 2), 36, 4),
    "where": (lambda x: np.where(x > 0, x**2, np.roll(x, 2)), 24, 2),
    "arrow": (lambda x: np.concatenate([[np.sum(x**2)], x[1:] * x[0]]), 34, 3),
    "loop of Python's": (stencil, 30, 3),
    "scan": (lambda x: ftrace.lax.scan(lambda c, v: (c * v, c + v), 1.0, x)[1], 78, 12),
    "while": (doubled, 12, 1),
    "while that mixes": (shifted, 144, 12),
    "many iterations": (counted, 34, 4),
    "cut off": (lambda x: np.floor(x) + x[0], 12, 1),
    "stopped": (lambda x: ftrace.lax.stop_gradient(x[::-1]) * x, 12, 1),
    "rule of the user's": (straight_through(), 12, 1),
    "solve": (lambda x: np.linalg.solve(A + 5 * np.eye(N), x), 144, 12),
    "solve of a batch": (
        lambda x: np.linalg.solve(np.eye(2) + np.ones((3, 2, 2)), x.reshape(3, 2, 2)), 48, 4,
    ),
    "transform of rows": (lambda x: np.abs(np.fft.fft(x.reshape(3, 4))) ** 2, 48, 4),
    "convolution": (lambda x: np.convolve(x, [1.0, 2.0, 1.0], "same"), 34, 3),
    "products of rows": (lambda x: np.prod(x.reshape(4, 3), axis=1), 12, 1),
    "einsum": (lambda x: np.einsum("ij,kj->ik", x.reshape(3, 4), np.eye(4)[:2]), 6, 1),
    "element by element": (ftrace.vectorize(lambda a: a if a > 0 else a * a), 12, 1),
    "decision": (
        lambda x: ftrace.lax.cond(x[0] > 0, lambda x: x * 2, lambda x: x[::-1] * 3, x), 24, 2,
    ),
    "padded": (lambda x: np.pad(x, 2)[:-4] * 2.0, 10, 1),
    "two axes": (lambda x: np.diff(x.reshape(3, 4), axis=0), 16, 2),
    "nothing": (lambda x: np.zeros(3) + 0.0 * np.floor(x[:3]), 0, 0),
}  # fmt: skip
HESSIANS = {
    "Rosenbrock": (
        lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), 34, 3,
    ),
    "arrow": (lambda x: np.sum(x**4) + x[0] * np.sum(np.sin(x)), 34, 2),
    "separable": (lambda x: np.sum(x**4), 12, 1),
    "linear": (lambda x: np.sum(x) * 2.0, 0, 0),
    "quadratic": (lambda x: x @ (A + A.T) @ x, np.count_nonzero(A + A.T), None),
    "grid": (lambda x: np.sum(np.diff(x.reshape(3, 4), axis=0) ** 4) + np.sum(x**2), 28, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians_are_exact_and_take_few_passes(name):
    f, count, passes = JACOBIANS[name]
    jacobian = ftrace.sparse.jacobian(f)
    found = jacobian(X)
    dense = ftrace.jacobian(f)(X).reshape(-1, N)
    assert isinstance(found, sp.csr_array)
    assert found.shape == dense.shape
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-12)
    plan = jacobian.plan(X)
    assert plan.pattern.nnz == count
    assert passes is None or plan.passes <= passes
    again = jacobian(-X)
    np.testing.assert_allclose(again.toarray(), ftrace.jacobian(f)(-X).reshape(-1, N), atol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", ["arrow", "constant matrix", "solve of a batch", "two axes"])
def test_modes_that_are_asked_for(name, mode):
    f = JACOBIANS[name][0]
    jacobian = ftrace.sparse.jacobian(f, mode=mode)
    dense = ftrace.jacobian(f)(X).reshape(-1, N)
    np.testing.assert_allclose(jacobian(X).toarray(), dense, atol=1e-12)
    colouring = jacobian.plan(X).colouring
    assert (colouring.forward, colouring.reverse)[mode == "forward"] == 0


@pytest.mark.parametrize("name", HESSIANS)
def test_hessians_are_exact_symmetric_and_take_few_passes(name):
    f, count, passes = HESSIANS[name]
    hessian = ftrace.sparse.hessian(f)
    found = hessian(X)
    np.testing.assert_allclose(found.toarray(), ftrace.hessian(f)(X), rtol=1e-12, atol=1e-10)
    assert abs(found - found.T).max() < 1e-10 if found.nnz else True
    plan = hessian.plan(X)
    assert plan.pattern.nnz == count
    assert passes is None or plan.passes <= passes


def grid(n):
    """Energy of the Bratu problem on n x n points."""

    def energy(u):
        v = np.pad(u.reshape(n, n), 1)
        bent = np.sum((v[1:] - v[:-1]) ** 2) + np.sum((v[:, 1:] - v[:, :-1]) ** 2)
        return 0.5 * bent - 1e-2 * np.sum(np.exp(v))

    return energy


def test_a_large_grid():
    n = 60
    u = 0.1 * np.random.default_rng(1).standard_normal(n * n)
    v = np.random.default_rng(2).standard_normal(n * n)
    energy = grid(n)
    hessian = ftrace.sparse.hessian(energy)
    assert hessian.plan(u).passes <= 6
    assert hessian.plan(u).pattern.nnz == 5 * n * n - 4 * n
    wanted = ftrace.jvp(ftrace.grad(energy), (u,), (v,))[1]
    np.testing.assert_allclose(hessian(u) @ v, wanted, rtol=1e-11, atol=1e-11)
    jacobian = ftrace.sparse.jacobian(ftrace.grad(energy))
    assert jacobian.plan(u).passes <= 7
    np.testing.assert_allclose(jacobian(u) @ v, wanted, rtol=1e-11, atol=1e-11)


# ---------------------------------------------------------------------------------- patterns


def test_a_pattern_at_a_point_leaves_out_what_is_zero_there():
    f = lambda x: np.where(x > 0, x**2, np.roll(x, 2))  # noqa: E731
    assert ftrace.sparse.pattern(f, X).nnz == 24
    assert ftrace.sparse.pattern(f, X, at_point=True).nnz == 12
    decided = lambda x: ftrace.lax.cond(x[0] > 0, np.diff, lambda x: x[1:], x)  # noqa: E731
    at = np.abs(X)
    assert ftrace.sparse.pattern(decided, at, at_point=True).nnz == 22
    assert ftrace.sparse.pattern(decided, -at, at_point=True).nnz == 11
    assert ftrace.sparse.pattern(lambda x: x[0] * x, np.zeros(3), at_point=True).nnz == 0


def test_other_arguments_stay_and_their_zeros_do_not_count():
    f = lambda x, m, n: (m @ x) ** n  # noqa: E731
    jacobian = ftrace.sparse.jacobian(f)
    for m in (np.eye(N), A, np.ones((N, N))):
        wanted = ftrace.jacobian(f)(X, m, 2)
        np.testing.assert_allclose(jacobian(X, m, 2).toarray(), wanted, atol=1e-12)
    assert ftrace.sparse.pattern(f, X, np.eye(N), 2).nnz == N * N


def test_captured_arrays_that_change_give_another_pattern():
    m, places = np.eye(N), np.arange(N)
    jacobian = ftrace.sparse.jacobian(lambda x: m @ x[places])
    assert jacobian(X).nnz == N
    m[0, 5] = 2.0
    assert jacobian(X).toarray()[0, 5] == 2.0
    places[3] = 7
    np.testing.assert_array_equal(jacobian(X).toarray(), m @ np.eye(N)[places])


def test_plans_are_reused_and_pickled():
    f = JACOBIANS["arrow"][0]
    plan = pickle.loads(pickle.dumps(ftrace.sparse.jacobian(f).plan(X)))
    dense = ftrace.jacobian(f)(X)
    np.testing.assert_allclose(ftrace.sparse.jacobian(f, pattern=plan)(X).toarray(), dense)
    for given in (plan.pattern, sp.coo_array(plan.pattern), plan.pattern.toarray()):
        np.testing.assert_allclose(ftrace.sparse.jacobian(f, pattern=given)(X).toarray(), dense)
    hessian = ftrace.sparse.hessian(HESSIANS["grid"][0])
    same = ftrace.sparse.hessian(HESSIANS["grid"][0], pattern=hessian.plan(X))
    np.testing.assert_array_equal(hessian(X).toarray(), same(X).toarray())


def test_a_wrong_pattern_is_refused():
    f = JACOBIANS["differences"][0]
    lacking = ftrace.sparse.pattern(f, X).toarray()
    lacking[3, 4] = False
    with pytest.raises(DerivativeError, match="lacks elements: row 3"):
        ftrace.sparse.jacobian(f, pattern=lacking)(X)
    with pytest.raises(ShapeError, match=r"\(3, 12\)"):
        ftrace.sparse.jacobian(f, pattern=np.ones((3, 12)))(X)
    with pytest.raises(DtypeError, match="sparse matrix"):
        ftrace.sparse.jacobian(f, pattern="banded")(X)
    wider = ftrace.sparse.pattern(f, X).toarray()
    wider[0, 9] = True
    np.testing.assert_allclose(
        ftrace.sparse.jacobian(f, pattern=wider)(X).toarray(), ftrace.jacobian(f)(X)
    )


# ---------------------------------------------------------------------------------- colouring


@pytest.mark.parametrize("wrap", [ftrace.jit, ftrace.vmap, lambda f: ftrace.jit(ftrace.vmap(f))])
def test_a_pattern_that_lacks_elements_is_found_in_transformed_functions(wrap):
    def f(x, w):
        return w * x * np.roll(x, 1)

    found = ftrace.sparse.pattern(f, X, X)
    lacking = found.toarray()
    lacking[5, 4] = False
    xs = X[None] if wrap is not ftrace.jit else X

    def dense(pattern):
        return wrap(lambda x, w: ftrace.sparse.jacobian(f, pattern=pattern)(x, w).toarray())

    with pytest.raises(DerivativeError, match="row 5 of the Jacobian"):
        dense(lacking)(xs, xs)
    with pytest.raises(ShapeError, match="has shape"):
        dense(lacking[:3])(xs, xs)
    wider = found.toarray() | np.eye(N, k=3, dtype=bool)
    for given in (found, wider):
        wanted = wrap(ftrace.jacrev(f))(xs, xs)
        np.testing.assert_allclose(dense(given)(xs, xs), wanted, rtol=1e-14)


@pytest.mark.parametrize("shape", [(12, 11), (11, 12), (12,), (12, 12, 12), (11, 11)])
@pytest.mark.parametrize("wrap", [lambda f: f, ftrace.jit])
def test_patterns_of_hessians_are_square_matrices(shape, wrap):
    given = np.ones(shape, bool)
    second = wrap(lambda x: ftrace.sparse.hessian(np.sum, pattern=given)(x) @ x)
    with pytest.raises(ShapeError, match="pattern"):
        second(X)
    if given.ndim != 2:
        with pytest.raises(ShapeError, match="must be a matrix"):
            ftrace.sparse.jacobian(np.sin, pattern=given)(X)


def test_a_hessian_is_of_a_scalar():
    for second in (ftrace.sparse.hessian(np.sin), lambda x: ftrace.hvp(np.sin, (x,), (x,))):
        with pytest.raises(ShapeError, match="needs a scalar result"):
            second(X)


def test_a_pattern_that_is_tighter_than_what_is_known_is_tried():
    def f(x):
        return x + np.sum(x) * 0.0 + np.take(x, np.argsort(x))[::-1] * 0.0

    found = ftrace.jit(lambda x: ftrace.sparse.jacobian(f, pattern=np.eye(N))(x).toarray())(X)
    np.testing.assert_allclose(found, np.eye(N))

    def inner(w, pattern):
        return ftrace.sparse.jacobian(lambda x: x * w[::-1] + x[::-1] * w, pattern=pattern)(
            w
        ).toarray()

    cross = np.eye(N, dtype=bool) | np.eye(N, dtype=bool)[::-1]
    np.testing.assert_allclose(
        ftrace.jit(lambda w: inner(w, cross))(X), np.diag(X[::-1]) + np.diag(X)[:, ::-1]
    )
    with pytest.raises(DerivativeError, match="reads traced values from outside"):
        ftrace.jit(lambda w: inner(w, np.eye(N)))(X)


def is_direct(pattern, colouring):
    """Whether each element is the only one of its colour where it is read."""
    dense, coo = pattern.toarray().astype(bool), pattern.tocoo()
    for k, (i, j) in enumerate(zip(coo.row, coo.col, strict=True)):
        if colouring.mirrored[k]:
            i, j = j, i
        if colouring.by_rows[k]:
            # the rows of this colour that are read by rows
            others = [r for r in range(dense.shape[0]) if colouring.rows[r] == colouring.rows[i]]
            assert colouring.rows[i] >= 0
            if sum(dense[r, j] for r in others) != 1:
                return False
        else:
            assert colouring.columns[j] >= 0
            same = colouring.columns == colouring.columns[j]
            if dense[i][same].sum() != 1:
                return False
    return True


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("mode", ["forward", "reverse", "auto", "symmetric"])
def test_colourings_of_random_patterns_read_each_element_by_itself(mode, seed):
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 25, 2)
    n = m if mode == "symmetric" else n
    dense = rng.random((m, n)) < rng.choice([0.05, 0.2, 0.5])
    if seed % 3 == 0:
        dense[rng.integers(m)] = True
    dense = dense | dense.T if mode == "symmetric" else dense
    pattern = sp.csr_array(dense)
    colouring = coloured(pattern, mode)
    assert is_direct(pattern, colouring)
    widest = max(dense.sum(0).max(), dense.sum(1).max(), 1)
    assert colouring.forward + colouring.reverse <= max(m, n) + widest
    if mode == "auto":
        for other in ("forward", "reverse"):
            found = coloured(pattern, other)
            assert colouring.forward + colouring.reverse <= found.forward + found.reverse


def test_an_arrow_of_a_thousand_takes_three_passes():
    n = 1000
    rows = [*range(n), *[0] * n, *range(n)]
    cols = [*range(n), *range(n), *[0] * n]
    pattern = sp.csr_array((np.ones(3 * n, bool), (rows, cols)), shape=(n, n))
    pattern.sum_duplicates()
    colouring = coloured(pattern, "auto")
    assert (colouring.forward, colouring.reverse) == (2, 1)
    assert coloured(pattern, "symmetric").forward == 2


# ---------------------------------------------------------------------------------- in programs


def test_in_transformed_functions():
    f = lambda x: np.diff(x) ** 3  # noqa: E731
    jacobian = ftrace.sparse.jacobian(f)
    product = lambda x: jacobian(x) @ x  # noqa: E731
    wanted = lambda x: ftrace.jacobian(f)(x) @ x  # noqa: E731
    np.testing.assert_allclose(ftrace.jit(product)(X), wanted(X))
    total = lambda x: fnp.sum(product(x))  # noqa: E731
    np.testing.assert_allclose(
        ftrace.grad(total)(X), ftrace.grad(lambda x: fnp.sum(wanted(x)))(X), atol=1e-12
    )
    xs = np.stack([X, 2 * X])
    np.testing.assert_allclose(ftrace.vmap(product)(xs), np.stack([wanted(x) for x in xs]))
    assert isinstance(ftrace.jit(jacobian)(X), sp.csr_array)


def test_shapes_and_dtypes():
    f = lambda x: x[1:] * x[:-1]  # noqa: E731
    x = X.reshape(4, 3)
    jacobian = ftrace.sparse.jacobian(f)
    np.testing.assert_allclose(jacobian(x).toarray(), ftrace.jacobian(f)(x).reshape(9, 12))
    single = jacobian(x.astype(np.float32))
    assert single.dtype == np.float32
    z = X[:6] + 1j * X[6:]
    square = ftrace.sparse.jacobian(lambda z: z[1:] * z[:-1])
    wanted = ftrace.jacfwd(lambda z: z[1:] * z[:-1], holomorphic=True)(z)
    np.testing.assert_allclose(square(z).toarray(), wanted)


def test_scipys_solvers_take_them():
    f = HESSIANS["Rosenbrock"][0]
    solution = scipy.optimize.minimize(
        f,
        0.5 * np.ones(N),
        method="trust-constr",
        jac=ftrace.grad(f),
        hess=ftrace.sparse.hessian(f),
    )
    np.testing.assert_allclose(solution.x, 1.0, atol=1e-4)
    residuals = lambda x: np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x])  # noqa: E731
    found = scipy.optimize.least_squares(
        residuals, 0.5 * np.ones(N), jac=ftrace.sparse.jacobian(residuals), method="trf"
    )
    np.testing.assert_allclose(found.x, 1.0, atol=1e-6)


# ---------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: ftrace.sparse.jacobian(3), DtypeError, "takes a function"),
        (lambda: ftrace.sparse.jacobian(np.sin, mode="both"), DtypeError, "mode"),
        (lambda: ftrace.sparse.jacobian(np.sin)(np.arange(3)), DtypeError, "floats"),
        (lambda: ftrace.sparse.jacobian(np.sign)(np.array("x")), DtypeError, "floats"),
        (lambda: ftrace.sparse.jacobian(lambda x: (x, x))(X), DtypeError, "one array"),
        (lambda: ftrace.sparse.jacobian(lambda x: x > 0)(X), DtypeError, "one array"),
        (lambda: ftrace.sparse.pattern(lambda x: np.cumsum(x), np.zeros(10_200)),
         HostMemoryError, "mixes"),
        (lambda: ftrace.sparse.hessian(np.sin)(X), ShapeError, "scalar"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()

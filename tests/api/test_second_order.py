"""`hessian_diagonal` and `laplacian` against dense Hessians (ask 24)."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.errors import DtypeError, ShapeError

X = np.linspace(0.2, 1.4, 6)
A = np.arange(36.0).reshape(6, 6) / 30 - 0.5
C = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def network(x):
    for _ in range(3):
        x = np.tanh(A @ x + 0.1)
    return np.sum(x * C)


def assigned(x):
    y = np.zeros(6)
    y[0] = np.sin(x[1])
    y[1:] = x[:-1] * y[0]
    y[2] += x[2] ** 3
    return np.sum(y * y)


def looped(x):
    y = x
    while np.sum(y) < 20.0:
        y = y * 1.5 + x * x
    return np.sum(np.sin(y))


def scanned(x):
    def step(c, a):
        return np.sin(c) * a + c, c * a

    c, ys = lax.scan(step, 0.3, x)
    return c * np.sum(ys)


def ruled(x):
    made = ftrace.custom_jvp(np.sin)
    made.defjvps(lambda t, y, x: t * np.cos(x))
    return np.sum(made(x) * x)


FUNCTIONS = {
    "network": network,
    "assigned": assigned,
    "looped": looped,
    "scanned": scanned,
    "ruled": ruled,
    "linear": lambda x: C @ x,
    "constant": lambda x: np.sum(np.floor(x)) + 1.0,
    "quadratic": lambda x: x @ A @ x,
    "product": np.prod,
    "quotient": lambda x: np.sum(x / (1 + x[0] ** 2)),
    "norm": lambda x: np.linalg.norm(x) ** 3,
    "solve": lambda x: np.sum(np.linalg.solve(np.eye(6) + np.outer(x, x), C * x)),
    "largest": lambda x: np.max(x) ** 2 * x[0],
    "where": lambda x: np.sum(np.where(x > 0.5, np.exp(x), x**3) * x[1]),
    "vectorized": lambda x: np.sum(ftrace.vectorize(lambda a: np.sin(a) * a)(x)),
    "compiled": lambda x: ftrace.jit(network)(x),
    "gradient": lambda x: np.sum(ftrace.grad(lambda y: np.sum(y**3 * x))(x)),
}
EVERY = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


@pytest.mark.sampled(3, each="f")
@EVERY
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("chunk", [None, 1, 4, np.int64(6)])
def test_second_derivatives_are_those_of_the_hessian(f, compiled, chunk):
    wrap = ftrace.jit if compiled else lambda g: g
    wanted = ftrace.hessian(f)(X)
    diagonal = wrap(ftrace.hessian_diagonal(f, chunk_size=chunk))(X)
    np.testing.assert_allclose(diagonal, np.diag(wanted), rtol=1e-10, atol=1e-11)
    found = wrap(ftrace.laplacian(f, chunk_size=chunk))(X)
    np.testing.assert_allclose(found, np.trace(wanted), rtol=1e-10, atol=1e-10)


def test_of_results_that_are_arrays_each_element_has_its_own():
    def f(p):
        return {"y": np.sin(p["x"] * p["s"]), "s": p["s"] ** 3}, p["x"]

    p = {"x": X, "s": 2.0, "n": 3}
    diagonal, aux = ftrace.hessian_diagonal(f, has_aux=True)(p)
    np.testing.assert_array_equal(aux, X)
    np.testing.assert_allclose(diagonal["y"]["x"], np.diag(-4 * np.sin(2 * X)), rtol=1e-14)
    np.testing.assert_allclose(diagonal["y"]["s"], -(X**2) * np.sin(2 * X), rtol=1e-14)
    np.testing.assert_allclose(diagonal["s"]["s"], 12.0)
    assert diagonal["s"]["n"] is None
    found, aux = ftrace.jit(ftrace.laplacian(f, has_aux=True, chunk_size=2))(p)
    np.testing.assert_array_equal(aux, X)
    np.testing.assert_allclose(found["y"], -(4 + X**2) * np.sin(2 * X), rtol=1e-14)
    np.testing.assert_allclose(found["s"], 12.0)


def test_the_laplacian_by_several_arguments_is_their_sum():
    def f(a, b, c):
        return np.sum(a**3) * b**2 * c

    found = ftrace.laplacian(f, argnums=(0, "b"))(X, 2.0, 3.0)
    np.testing.assert_allclose(found, 6 * np.sum(X) * 12 + np.sum(X**3) * 6, rtol=1e-14)
    by_a, by_b = ftrace.hessian_diagonal(f, argnums=(0, 1))(X, 2.0, 3.0)
    np.testing.assert_allclose(by_a, 6 * X * 12, rtol=1e-14)
    np.testing.assert_allclose(by_b, np.sum(X**3) * 6, rtol=1e-14)


def test_they_are_differentiated_and_mapped():
    def loss(x):
        return ftrace.laplacian(network)(x) + np.sum(ftrace.hessian_diagonal(network)(x) ** 2)

    def dense(x):
        h = ftrace.hessian(network)(x)
        return np.trace(h) + np.sum(np.diag(h) ** 2)

    np.testing.assert_allclose(ftrace.grad(loss)(X), ftrace.grad(dense)(X), rtol=1e-9)
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(loss))(X), ftrace.grad(dense)(X), rtol=1e-9)
    xs = np.stack([X, X[::-1] / 2])
    found = ftrace.vmap(ftrace.laplacian(network))(xs)
    np.testing.assert_allclose(found, [np.trace(ftrace.hessian(network)(x)) for x in xs])
    twice = ftrace.laplacian(ftrace.laplacian(lambda x: np.sum(x**4) * x[0] ** 2))(X)
    t = ftrace.hessian(lambda x: np.trace(ftrace.hessian(lambda x: np.sum(x**4) * x[0] ** 2)(x)))
    np.testing.assert_allclose(twice, np.trace(t(X)), rtol=1e-11)


def test_dtypes_stay():
    x = X.astype(np.float32)
    assert ftrace.laplacian(lambda x: np.sum(x**3))(x).dtype == np.float32
    assert ftrace.hessian_diagonal(lambda x: np.sum(x**3))(x).dtype == np.float32
    assert float(ftrace.laplacian(lambda x: x**3)(2)) == 12.0


def test_nothing_has_no_second_derivatives():
    x = np.zeros((0, 3))
    assert ftrace.hessian_diagonal(lambda x: np.sum(x**2))(x).shape == (0, 3)
    assert ftrace.laplacian(lambda x: np.sum(x**2))(x) == 0.0


@pytest.mark.parametrize("made", [ftrace.hessian_diagonal, ftrace.laplacian])
def test_bad_input_is_named(made):
    with pytest.raises(DtypeError, match="complex argument"):
        made(np.sum)(X + 1j)
    with pytest.raises(DtypeError, match="no derivative") as error:
        made(np.sum)(np.arange(3))
    assert "allow_int" not in str(error.value)
    with pytest.raises(ShapeError, match="chunk_size"):
        made(np.sum, chunk_size=0)
    with pytest.raises(DtypeError, match="function first"):
        made(1.0)


# ---------------------------------------------------------------------------------- its work


def test_unit_vectors_are_not_multiplied_by_the_first_matrix():
    w = [np.random.default_rng(k).standard_normal((6, 6)) for k in range(3)]

    def mlp(x):
        for each in w:
            x = np.tanh(x @ each)
        return np.sum(x)

    jaxpr = ftrace.make_jaxpr(ftrace.laplacian(mlp))(X)
    batched = [
        e for e in jaxpr.eqns if e.primitive.name == "dot_general" and e.outvars[0].aval.ndim == 2
    ]
    assert len(batched) == 2
    assert sum(e.primitive.name == "tanh" for e in jaxpr.eqns) == 3
    np.testing.assert_allclose(
        ftrace.laplacian(mlp)(X), np.trace(ftrace.hessian(mlp)(X)), rtol=1e-10
    )


@pytest.mark.parametrize(
    "product",
    [
        lambda x, m: m @ x.reshape(-1),
        lambda x, m: x.reshape(-1) @ m,
        lambda x, m: np.tensordot(x, m.reshape(2, 3, 6), 2),
        lambda x, m: np.tensordot(m.reshape(6, 3, 2), x, ((2, 1), (0, 1))),
        lambda x, m: np.tensordot(m.reshape(2, 3, 2, 3), x, ((2, 1), (0, 1))),
        lambda x, m: x @ m.reshape(12, 3).T,
        lambda x, m: np.outer(x, m[0]),
        lambda x, m: np.vdot(x, x) * m,
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, ftrace.jit])
def test_products_of_inputs_of_any_rank_and_matrices(product, wrap):
    def f(p):
        return np.sum(np.sin(product(p["x"], A)) * p["s"] ** 2) + np.sum(np.cos(A[0] @ p["y"]))

    p = {"s": 0.7, "x": X.reshape(2, 3), "y": C / 6}

    def flat(v):
        return f({"s": v[0], "x": v[1:7].reshape(2, 3), "y": v[7:]})

    v = np.concatenate([[0.7], X, C / 6])
    wanted = np.trace(ftrace.hessian(flat)(v))
    np.testing.assert_allclose(wrap(ftrace.laplacian(f))(p), wanted, rtol=1e-11)


def test_functions_of_elements_keep_what_is_not_taken_exactly_zero():
    x = np.array([0.0, 1.0, 4.0])

    def f(x):
        return np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0) ** 3)

    assert np.isfinite(ftrace.laplacian(f)(x))
    np.testing.assert_allclose(ftrace.laplacian(f)(x), np.sum(0.75 * x[1:] ** -0.5), rtol=1e-14)
    relu = ftrace.laplacian(lambda x: np.sum(np.maximum(np.sqrt(x) - 1.5, 0.0) ** 2))
    np.testing.assert_allclose(
        relu(x[1:]),
        np.trace(ftrace.hessian(lambda x: np.sum(np.maximum(np.sqrt(x) - 1.5, 0.0) ** 2))(x[1:])),
    )

"""Chunks of Jacobians in recorded programs: one loop over them (A3, A9, A10, A13)."""

import numpy as np
import pytest

import ftrace
from ftrace.api.derivatives import measured_chunks
from ftrace.errors import ShapeError

X = np.linspace(0.2, 1.4, 7)
A = np.arange(21.0).reshape(3, 7) / 7 - 1.5
BOTH = pytest.mark.parametrize("jacobian", [ftrace.jacfwd, ftrace.jacrev], ids=lambda j: j.__name__)


def f(x):
    return np.sin(A @ x) * x[0]


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@BOTH
@pytest.mark.parametrize("chunk", [1, 2, 3, 6, 7, 50, np.int64(2), "auto"])
def test_a_compiled_jacobian_is_the_same_for_every_chunk_size(jacobian, chunk):
    found = ftrace.jit(jacobian(f, chunk_size=chunk))(X)
    np.testing.assert_allclose(found, jacobian(f)(X), rtol=1e-13, atol=1e-15)


@BOTH
def test_chunks_are_traced_once_however_many_there_are(jacobian):
    runs = []

    def counted(x):
        runs.append(None)
        return np.sin(x) * x[0]

    for k in (10, 1000):
        runs.clear()
        jaxpr = ftrace.make_jaxpr(jacobian(counted, chunk_size=2))(np.ones(k))
        assert len(runs) == 1
        assert len(jaxpr.eqns) < 20
        assert all(np.size(c) <= k for c in jaxpr.consts)  # no unit vectors


def test_what_all_directions_share_is_computed_before_the_loop():
    def names(f, x):
        jaxpr = ftrace.make_jaxpr(ftrace.jacfwd(f, chunk_size=2))(x)
        (loop,) = (e for e in jaxpr.eqns if e.primitive.name == "scan")
        inner = {e.primitive.name for e in loop.params["body"].eqns}
        return {e.primitive.name for e in jaxpr.eqns}, inner

    before, inside = names(lambda x: np.sin(A @ np.exp(x)) * x[0], X)
    assert {"exp", "cos"} <= before
    assert not {"exp", "cos", "sin"} & inside

    before, inside = names(lambda x: np.exp(x)[np.argsort(x)], X)
    assert "exp" in before
    assert "exp" not in inside

    def looped(x):  # which would keep all its iterations
        return ftrace.lax.fori_loop(0, 3, lambda i, c: np.sin(c) * x, x)

    before, inside = names(looped, X)
    assert "scan" in inside
    wanted = ftrace.jacfwd(looped)(X)
    found = ftrace.jit(ftrace.jacfwd(looped, chunk_size=2))(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-15)


def test_shared_values_of_inputs_of_several_kinds_and_constant_results():
    def g(p, n):
        return {"y": np.sin(p["w"] @ p["v"]) * n, "c": np.ones(2), "k": np.arange(3)}

    p = {"w": A, "v": X, "n": 3}
    wanted = ftrace.jacfwd(g)(p, 2.0)
    found = ftrace.jit(ftrace.jacfwd(g, chunk_size=4))(p, 2.0)
    for block in ("y", "c"):
        for name in ("w", "v"):
            np.testing.assert_allclose(found[block][name], wanted[block][name], rtol=1e-13)


@BOTH
def test_blocks_of_containers_and_aux_come_out_of_a_loop(jacobian):
    def g(p, n):
        y = {"y": p["w"] @ p["v"] * n, "s": np.sum(p["v"]) ** 2}
        return y, p["v"] * 2

    p = {"w": A, "v": X}
    wanted, aux = jacobian(g, has_aux=True)(p, 3.0)
    found, other = ftrace.jit(jacobian(g, has_aux=True, chunk_size=4))(p, 3.0)
    np.testing.assert_array_equal(other, aux)
    for block in ("y", "s"):
        for name in p:
            np.testing.assert_allclose(found[block][name], wanted[block][name], rtol=1e-14)


def test_integers_among_the_arguments_have_no_block():
    g = ftrace.jacrev(lambda x, n: x * n, (0, 1), allow_int=True, chunk_size=2)
    found = ftrace.jit(g)(X, np.arange(7))
    np.testing.assert_array_equal(found[0], np.diag(np.arange(7.0)))
    assert found[1] is None


@BOTH
def test_complex_analytic_functions_in_chunks(jacobian):
    z = X + 1j * X[::-1]
    g = jacobian(lambda z: np.exp(z) * z[0], holomorphic=True, chunk_size=3)
    whole = jacobian(lambda z: np.exp(z) * z[0], holomorphic=True)(z)
    np.testing.assert_allclose(ftrace.jit(g)(z), whole, rtol=1e-14)


@BOTH
def test_nothing_has_an_empty_jacobian(jacobian):
    assert ftrace.jit(jacobian(np.sin, chunk_size=2))(np.zeros(0)).shape == (0, 0)


@BOTH
def test_loops_over_chunks_are_differentiated_and_mapped(jacobian):
    def loss(x, chunk):
        return np.sum(jacobian(f, chunk_size=chunk)(x) ** 3)

    wanted = ftrace.grad(loss)(X, None)
    found = ftrace.jit(ftrace.grad(lambda x: loss(x, 2)))(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    xs = np.stack([X, X[::-1]])
    mapped = ftrace.jit(ftrace.vmap(jacobian(f, chunk_size=2)))(xs)
    np.testing.assert_allclose(mapped, np.stack([jacobian(f)(x) for x in xs]), rtol=1e-13)


@BOTH
def test_decisions_by_traced_values_are_lifted_in_a_loop_over_chunks(jacobian):
    def decided(x):
        if x[0] > 0:
            return np.sin(x)
        return x

    found = ftrace.jit(jacobian(decided, chunk_size=2))(X)
    np.testing.assert_allclose(found, np.diag(np.cos(X)), rtol=1e-15)


@pytest.mark.parametrize("chunks", [(2, 3), (1, 1), (7, None), (9, 2)])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_hessian_in_hyper_dual_chunks(chunks, compiled):
    g = ftrace.hessian(rosenbrock, chunk_size=chunks)
    found = (ftrace.jit(g) if compiled else g)(X)
    np.testing.assert_allclose(found, ftrace.hessian(rosenbrock)(X), rtol=1e-12, atol=1e-10)


def test_third_derivatives_in_three_chunks():
    x = X[:6]
    third = ftrace.jacfwd(ftrace.hessian(rosenbrock, chunk_size=(2, 3)), chunk_size=4)
    wanted = np.zeros((6, 6, 6))
    for i in range(5):
        wanted[i, i, i] = 2400 * x[i]
        for a, b, c in ((i, i, i + 1), (i, i + 1, i), (i + 1, i, i)):
            wanted[a, b, c] = -400
    np.testing.assert_allclose(ftrace.jit(third)(x), wanted, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("chunk", [(1,), (1, 2, 3), (0, 1), (True, 1)])
def test_a_pair_of_chunk_sizes_is_two_positive_integers(chunk):
    with pytest.raises(ShapeError, match="chunk_size"):
        ftrace.hessian(rosenbrock, chunk_size=chunk)


def test_compiled_a_gradient_of_many_chunks_takes_no_longer_to_compile_than_of_few():
    x = np.linspace(0.1, 1.0, 1200)
    found = ftrace.jit(ftrace.jacfwd(rosenbrock, chunk_size=1))(x)
    np.testing.assert_allclose(found, ftrace.grad(rosenbrock)(x), rtol=1e-10)


@BOTH
def test_automatic_chunks_fit_in_memory(jacobian, monkeypatch):
    sizes = []

    def seen(x):
        return np.sin(x) * x[0]

    monkeypatch.setattr("ftrace.api.derivatives.unit_vectors.MOST", 3 * X.nbytes)
    real = ftrace.api.derivatives.jacobians.batch_flat
    monkeypatch.setattr(
        "ftrace.api.derivatives.jacobians.batch_flat",
        lambda fn, axis, *rest: (sizes.append(axis.size), real(fn, axis, *rest))[1],
    )
    found = jacobian(seen, chunk_size="auto")(X)
    np.testing.assert_allclose(found, ftrace.jacfwd(seen)(X), rtol=1e-14)
    assert sizes[:3] == [3, 3, 1]
    sizes.clear()
    with ftrace.config.update(compile=True):
        ftrace.make_jaxpr(jacobian(seen, chunk_size="auto"))(np.ones(1000))
    assert sizes[-1] in measured_chunks.SIZES


@pytest.mark.by_size
def test_threads_share_the_directions_of_a_pass():  # A15
    x = np.linspace(0.2, 1.2, 2000)
    compiled = ftrace.jit(ftrace.gradient(rosenbrock, mode="forward", chunk_size=256))
    found = []
    for threads in (1, 2):
        with ftrace.config.update(threads=threads):
            shared = [line for line in compiled.lower(x).launches if "2 threads" in line]
            assert len(shared) == threads - 1
            found.append(compiled(x))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("chunk", ["auto", ("auto", "auto"), (2, "auto")])
def test_automatic_chunks_of_hessians(chunk):
    found = ftrace.jit(ftrace.hessian(rosenbrock, chunk_size=chunk))(X)
    np.testing.assert_allclose(found, ftrace.hessian(rosenbrock)(X), rtol=1e-12, atol=1e-10)


# ---------------------------------------------------------------------------------- bad sizes

CHUNKED = {
    "jacfwd": lambda c: ftrace.jacfwd(f, chunk_size=c),
    "jacrev": lambda c: ftrace.jacrev(f, chunk_size=c),
    "hessian": lambda c: ftrace.hessian(rosenbrock, chunk_size=c),
    "pair": lambda c: ftrace.hessian(rosenbrock, chunk_size=(2, c)),
    "laplacian": lambda c: ftrace.laplacian(rosenbrock, chunk_size=c),
    "hessian_diagonal": lambda c: ftrace.hessian_diagonal(rosenbrock, chunk_size=c),
    "jacobian": lambda c: ftrace.jacobian(f, mode="forward", chunk_size=c),
    "gradient": lambda c: ftrace.gradient(rosenbrock, mode="forward", chunk_size=c),
}


@pytest.mark.parametrize("name", CHUNKED)
@pytest.mark.parametrize(
    "chunk", [0, -3, True, np.True_, 2.0, "all", np.array(2), np.int64(0), [2]]
)
def test_a_chunk_size_is_a_positive_integer(name, chunk):
    with pytest.raises(ShapeError, match="chunk_size must be a positive integer"):
        CHUNKED[name](chunk)(X)


@pytest.mark.parametrize("name", CHUNKED)
def test_a_chunk_may_be_larger_than_all_and_a_number_of_numpy(name):
    wanted = CHUNKED[name](2)(X)
    for chunk in (np.int64(2), np.uint8(3), X.size, X.size + 1, 10**9):
        np.testing.assert_allclose(CHUNKED[name](chunk)(X), wanted, rtol=1e-12)

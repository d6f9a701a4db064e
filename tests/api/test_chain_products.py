"""Jacobians in parts: each in its own mode, multiplied in the order of least work (B18, E14)."""

import numpy as np
import pytest

import ftrace
from ftrace.api.modes import chain_products
from ftrace.interpreters.staging import trace_to_jaxpr

RNG = np.random.default_rng(0)
N, P, M = 60, 2, 50
IN, OUT = RNG.standard_normal((P, N)), RNG.standard_normal((M, P))
WIDE, TALL = RNG.standard_normal((N, N)) / N, RNG.standard_normal((M, M)) / M
X = RNG.standard_normal(N)


def waist(x):
    """Sixty numbers, then two, then fifty."""
    for _ in range(3):
        x = np.tanh(WIDE @ x) + x
    y = OUT @ np.sin(IN @ x)
    for _ in range(3):
        y = np.tanh(TALL @ y) + y
    return y


def test_where_few_numbers_are_live_a_compiled_jacobian_is_a_product():
    mixed = ftrace.jacobian(waist, mode="auto")
    wanted = ftrace.jacrev(waist)(X)
    eqns = ftrace.make_jaxpr(mixed)(X).eqns
    assert max(v.aval.size for e in eqns for v in e.outvars) == M * N
    assert sum(v.aval.size == M * N for e in eqns for v in e.outvars) <= 2
    np.testing.assert_allclose(ftrace.jit(mixed)(X), wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(mixed(X), wanted, rtol=1e-12, atol=1e-14)
    assert mixed.choice(X).mode == "reverse"  # which is not traced again at every call


def in_parts(f, *args, **options):
    """The Jacobian in parts, wherever there is a cut that is worth it."""
    return ftrace.jacobian(f, **options).ways["mixed"](*args)


def test_a_jacobian_in_parts_is_transformed():
    made = ftrace.jacobian(waist, mode="auto").ways["mixed"]
    xs = np.stack([X, -X, 2 * X])
    wanted = np.stack([ftrace.jacrev(waist)(x) for x in xs])
    np.testing.assert_allclose(ftrace.vmap(made)(xs), wanted, rtol=1e-11, atol=1e-13)

    def loss(jacobian):
        return lambda x: np.sum(jacobian(x) ** 2)

    slope = ftrace.grad(loss(ftrace.jacrev(waist)))(X)
    np.testing.assert_allclose(ftrace.grad(loss(made))(X), slope, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(loss(made)))(X), slope, rtol=1e-9, atol=1e-9)


def test_containers_integers_and_constants_among_results():
    def f(p, k):
        z = np.sin(IN @ p["x"] * p["s"])
        y = waist_end(z) * k
        return {"y": y, "z": z, "where": np.argmax(y), "three": 3.0, "same": p["s"]}

    p = {"x": X, "s": 1.5}
    found, wanted = in_parts(f, p, 2, argnums=0), ftrace.jacrev(f)(p, 2)
    assert found.keys() == wanted.keys()
    for name in found:
        for by in p:
            np.testing.assert_allclose(found[name][by], wanted[name][by], rtol=1e-12, atol=1e-12)
            assert found[name][by].shape == np.shape(wanted[name][by])
    flat = ftrace.jacobian(lambda x: waist(x), flat=True)
    np.testing.assert_allclose(flat.ways["mixed"](X), ftrace.jacrev(waist)(X), rtol=1e-12)


def waist_end(z):
    y = OUT @ z
    for _ in range(4):
        y = np.tanh(TALL @ y) + y
    return y


def test_what_is_decided_by_values_crosses_cuts():
    def f(x):
        z = IN @ np.tanh(WIDE @ x)
        big = z > 0
        y = np.where(big[0], OUT @ np.sin(z), OUT @ np.cos(z))
        return np.tanh(TALL @ np.tanh(TALL @ y)) * np.where(big[1], 2.0, 3.0)

    for x in (X, -X):
        np.testing.assert_allclose(in_parts(f, x), ftrace.jacrev(f)(x), rtol=1e-12, atol=1e-14)


def test_values_captured_from_an_outer_transformation():
    def scaled(a):
        return np.sum(in_parts(lambda x: waist(a * x), X))

    def plain(a):
        return np.sum(ftrace.jacrev(lambda x: waist(a * x))(X))

    np.testing.assert_allclose(ftrace.grad(scaled)(0.7), ftrace.grad(plain)(0.7), rtol=1e-9)


def test_each_part_is_evaluated_once():
    calls = []

    @ftrace.custom_jvp
    def counted(z):
        calls.append(None)
        return np.sin(z)

    counted.defjvps(lambda t, y, z: t * np.cos(z))
    in_parts(lambda x: waist_end(counted(IN @ np.tanh(WIDE @ x))), X)
    assert len(calls) <= 2  # traced, and run


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_take_no_more_work_than_one_mode(seed):
    """Directed acyclic graphs of matrices: the plan is no worse than forward and reverse mode."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, 9)
    edges = [
        (i, j, rng.standard_normal((sizes[j], sizes[i])) / sizes[i])
        for j in range(1, 9)
        for i in {j - 1, int(rng.integers(max(0, j - 2), j))}
    ]

    def f(x):
        nodes = [x, *([0.0] * 8)]
        for i, j, matrix in edges:
            nodes[j] = nodes[j] + matrix @ np.sin(nodes[i])
        return nodes[-1]

    x = rng.standard_normal(sizes[0])
    jaxpr, _ = trace_to_jaxpr(lambda x: [f(x)], [ftrace.typeof(x)])
    chain = chain_products.JacobianChain(jaxpr, jaxpr.invars)
    work, part = chain.best()
    last = len(chain.cuts) - 1
    assert work <= min(chain.through(int(n), 0, last) for n in (sizes[0], sizes[-1]))
    (found,) = chain_products.blocks(chain, part, [x])[0]
    np.testing.assert_allclose(found, ftrace.jacrev(f)(x), rtol=1e-10, atol=1e-12)


def test_one_mode_is_kept_where_parts_gain_nothing():
    assert ftrace.jacobian(np.sin, mode="auto").choice(X).mode == "reverse"
    square = ftrace.jacobian(lambda x: WIDE @ np.sin(WIDE @ x), mode="auto")
    assert square.choice(X).mixed is None
    for fun, options in ((lambda x: (waist(x), x), {"has_aux": True}), (waist, {"chunk_size": 2})):
        assert ftrace.jacobian(fun, mode="auto", **options).choice(X).mixed is None


def test_the_choice_says_what_it_saves():
    wide = RNG.standard_normal((200, 200)) / 200
    down, up = RNG.standard_normal((2, 200)), RNG.standard_normal((200, 2))

    def f(x):
        return np.tanh(wide @ (up @ np.sin(down @ np.tanh(wide @ x))))

    made = ftrace.jacobian(f, mode="auto")
    explained = ftrace.explain(made, np.ones(200), measure=True)
    assert explained.choice.mode == "mixed"
    assert "mixed" in explained["mode"]
    assert set(explained.measured) == {"forward", "reverse", "mixed"}
    np.testing.assert_allclose(
        made(np.ones(200)), ftrace.jacrev(f)(np.ones(200)), rtol=1e-9, atol=1e-14
    )

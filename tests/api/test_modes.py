"""`gradient`, `jacobian(mode=)` and `explain` (A2, A14, A16, C10)."""

import numpy as np
import pytest

import ftrace
from ftrace.errors import DtypeError, ShapeError, TreeError

X = np.linspace(0.2, 1.4, 5)
A = np.arange(15.0).reshape(3, 5) / 7 - 1.5
MODES = pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])


def loss(x):
    return np.sum(np.sin(A @ x) ** 2)


def slope(x):
    return A.T @ (2 * np.sin(A @ x) * np.cos(A @ x))


def f(x):
    return np.sin(A @ x) * x[0]


@MODES
def test_a_gradient_is_the_same_in_every_mode(mode):
    found = ftrace.gradient(loss, mode=mode)
    np.testing.assert_allclose(found(X), slope(X), rtol=1e-13)
    np.testing.assert_allclose(ftrace.jit(found)(X), slope(X), rtol=1e-13)
    xs = np.stack([X, -X])
    np.testing.assert_allclose(ftrace.vmap(found)(xs), np.stack([slope(X), slope(-X)]), rtol=1e-13)
    hessian = ftrace.jacfwd(found)(X)
    np.testing.assert_allclose(hessian, ftrace.hessian(loss)(X), rtol=1e-12, atol=1e-13)
    again = ftrace.gradient(lambda x: np.sum(found(x) ** 2), mode=mode)(X)
    np.testing.assert_allclose(again, 2 * hessian @ slope(X), rtol=1e-12)


@MODES
def test_a_gradient_keeps_containers_and_what_has_no_derivative(mode):
    def g(p, k):
        return p["a"] * np.sum(p["v"]) * k * p["n"], p["v"] + 1

    p = {"a": np.float32(2.0), "v": X, "n": 3}
    by_p, by_k = ftrace.gradient(lambda p, k: g(p, k)[0], (0, "k"), mode=mode)(p, 2)
    assert by_p["n"] is None
    assert by_p["a"].dtype == np.float32
    np.testing.assert_allclose(by_p["v"], np.full(5, 12.0), rtol=1e-14)
    np.testing.assert_allclose(by_k, 6 * np.sum(X), rtol=1e-14)
    both, aux = ftrace.gradient(g, has_aux=True, mode=mode)(p, 2.0)
    np.testing.assert_array_equal(aux, X + 1)
    np.testing.assert_allclose(both["a"], 6 * np.sum(X), rtol=1e-6)


@pytest.mark.parametrize("chunk", [1, 2, 5, 9, np.int64(3)])
def test_a_forward_gradient_in_chunks(chunk):
    g = ftrace.gradient(loss, mode="forward", chunk_size=chunk)
    np.testing.assert_allclose(g(X), slope(X), rtol=1e-13)
    np.testing.assert_allclose(ftrace.jit(g)(X), slope(X), rtol=1e-13)


@MODES
def test_a_holomorphic_gradient(mode):
    z = X + 1j * X[::-1]
    g = ftrace.gradient(lambda z: np.sum(z**3), holomorphic=True, mode=mode)
    np.testing.assert_allclose(g(z), 3 * z**2, rtol=1e-14)


def test_a_gradient_by_complex_numbers_is_taken_in_reverse_mode():
    z = X + 1j
    g = ftrace.gradient(lambda z: np.sum(np.abs(z) ** 2))
    np.testing.assert_allclose(g(z), ftrace.grad(lambda z: np.sum(np.abs(z) ** 2))(z))
    assert g.choice(z).mode == "reverse"
    with pytest.raises(DtypeError, match="complex argument"):
        ftrace.gradient(lambda z: np.sum(np.abs(z) ** 2), mode="forward")(z)


@MODES
def test_nothing_has_an_empty_gradient(mode):
    assert ftrace.gradient(np.sum, mode=mode)(np.zeros((0, 3))).shape == (0, 3)


@MODES
def test_what_has_no_gradient_is_named_in_every_mode(mode):
    with pytest.raises(ShapeError, match="scalar result"):
        ftrace.gradient(np.sin, mode=mode)(X)
    with pytest.raises(TreeError, match="one scalar result"):
        ftrace.gradient(lambda x: (x, x), mode=mode)(1.0)
    with pytest.raises(DtypeError, match="real floating-point"):
        ftrace.gradient(lambda x: x * 1j, mode=mode)(1.0)
    with pytest.raises(DtypeError, match="no derivative"):
        ftrace.gradient(np.sum, mode=mode)(np.arange(3))
    with pytest.raises(DtypeError, match="function first"):
        ftrace.gradient(3.0, mode=mode)


@pytest.mark.parametrize("mode", ["backward", None, 1, ""])
@pytest.mark.parametrize("made", [ftrace.gradient, ftrace.jacobian], ids=lambda m: m.__name__)
def test_other_modes_are_refused(made, mode):
    with pytest.raises(DtypeError, match="mode"):
        made(f, mode=mode)


@MODES
@pytest.mark.parametrize("chunk", [None, 2])
def test_a_jacobian_is_the_same_in_every_mode(mode, chunk):
    g = ftrace.jacobian(f, mode=mode, chunk_size=chunk)
    np.testing.assert_allclose(g(X), ftrace.jacfwd(f)(X), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ftrace.jit(g)(X), ftrace.jacfwd(f)(X), rtol=1e-12, atol=1e-14)
    many = ftrace.vmap(g)(np.stack([X, -X]))
    np.testing.assert_allclose(many[1], ftrace.jacfwd(f)(-X), rtol=1e-12, atol=1e-14)


# ---------------------------------------------------------------------------------- the choice


@pytest.mark.parametrize(("m", "n"), [(1, 1000), (3, 1000), (1000, 3), (1000, 1), (30, 300)])
def test_the_mode_of_fewer_directions_is_chosen(m, n):
    matrix = np.ones((m, n)) / n
    g = ftrace.jacobian(lambda x: np.sin(matrix @ x), mode="auto")
    choice = g.choice(np.ones(n))
    assert choice.mode == ("forward" if n < m else "reverse")
    assert (choice.inputs, choice.results) == (n, m)


def test_a_choice_is_made_once_for_each_signature():
    made = ftrace.gradient(loss)
    choice = made.choice(X)
    assert made.choice(X + 1) is choice
    assert made.choice(np.stack([X] * 5).T) is not choice
    assert made.choice(X.astype(np.float32)) is not choice


def test_a_function_with_a_state_is_not_traced():
    generator = np.random.default_rng(0)

    def g(x):
        return x * generator.random()

    expected = np.random.default_rng(0).random()
    assert ftrace.gradient(g)(2.0) == expected


def test_what_cannot_be_traced_is_done_in_reverse_mode():
    def g(x):
        return np.sum(x * {0.5: 1.0}.get(float(ftrace.lax.stop_gradient(x)[0]), 2.0))

    made = ftrace.gradient(g, lift=False)
    assert "cannot be traced" in made.choice(X).why
    np.testing.assert_array_equal(made(X), np.full(5, 2.0))


def test_loops_and_decisions_count_their_turns_and_their_dearer_side():
    def turns(n):
        return lambda x: ftrace.lax.fori_loop(0, n, lambda i, c: np.sin(c) * x, x)[0]

    few, many = (ftrace.gradient(turns(n)).choice(X).reverse for n in (10, 1000))
    assert many > 50 * few

    def arm(x):
        return ftrace.lax.cond(x[0] > 0, lambda x: np.sum(np.sin(np.sin(x))), lambda x: x[0], x)

    plain = ftrace.gradient(lambda x: np.sum(np.sin(np.sin(x)))).choice(X)
    assert ftrace.gradient(arm).choice(X).forward > plain.forward


# ---------------------------------------------------------------------------------- explain


def test_compiled_stages_are_shown():
    e = ftrace.explain(ftrace.jit(ftrace.gradient(loss)), X)
    assert e["function"] == "jit of gradient of loss"
    assert e["mode"].startswith("reverse mode: ")
    assert "dot_general" in e["jaxpr"]
    assert "kernel k1" in e["kernels"]
    assert "define" in e["code"]
    assert "flops" in e["costs"]
    text = str(e)
    places = [text.index(f"{s.name}\n") for s in e.stages]
    assert places == sorted(places)


def test_both_modes_are_measured():
    e = ftrace.explain(ftrace.jacobian(f, mode="auto"), X, measure=True)
    assert set(e.measured) == {"forward", "reverse"}
    assert all(s > 0 for s in e.measured.values())
    assert "measured: forward" in str(e)
    assert ftrace.explain(f, X).choice is None


def test_explain_of_no_function_is_refused():
    with pytest.raises(DtypeError, match="function first"):
        ftrace.explain(3.0)

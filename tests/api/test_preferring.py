"""`prefer`, `differentiable`, `tangent_type`, `jacobian(flat=True)` (C3, D8, D18, E9, E14)."""

import numpy as np
import pytest

import ftrace
from ftrace.errors import DtypeError, RuleError

X = np.array([0.5, -1.0, 2.0])
A = np.arange(6.0).reshape(2, 3) / 5 - 0.5
MODES = pytest.mark.parametrize("mode", ["forward", "reverse"])


# ---------------------------------------------------------------------------------- prefer


def inner(p, q):
    return {"y": np.sin(p * q[0]) + np.sum(q[1]), "s": np.sum(p**3), "n": 3}


def outer(part):
    def f(x):
        found = part(x * 2, (x[0], A @ x))
        return np.sum(found["y"]) * found["s"] * found["n"]

    return f


@MODES
def test_derivatives_of_any_kind_are_the_same(mode):
    plain, f = outer(inner), outer(ftrace.prefer(inner, mode))
    assert f(X) == plain(X)
    wanted = ftrace.grad(plain)(X)
    for way in (ftrace.grad, ftrace.jacfwd, ftrace.jacrev):
        np.testing.assert_allclose(way(f)(X), wanted, rtol=1e-13)
        np.testing.assert_allclose(ftrace.jit(way(f))(X), wanted, rtol=1e-13)
    np.testing.assert_allclose(ftrace.vmap(ftrace.grad(f))(np.stack([X, X]))[1], wanted, rtol=1e-13)
    second = ftrace.hessian(plain)(X)
    for outside in (ftrace.jacfwd, ftrace.jacrev):
        for inside in (ftrace.jacfwd, ftrace.jacrev):
            np.testing.assert_allclose(outside(inside(f))(X), second, rtol=1e-11, atol=1e-11)


@MODES
def test_values_that_are_closed_over_are_differentiated(mode):
    def f(x, part):
        return part(lambda p: np.sin(p) * x[1])(x[0] ** 2)

    def preferred(fn):
        return ftrace.prefer(fn, mode)

    wanted = ftrace.grad(lambda x: f(x, lambda fn: fn))(X)
    np.testing.assert_allclose(ftrace.grad(lambda x: f(x, preferred))(X), wanted, rtol=1e-14)
    np.testing.assert_allclose(ftrace.jacfwd(lambda x: f(x, preferred))(X), wanted, rtol=1e-14)


def test_work_behind_a_number_does_not_grow_with_the_directions():
    def tail(p):
        return p**2 + p**3 + p**4 + np.sin(p)

    def sizes(f, k):
        jaxpr = ftrace.make_jaxpr(ftrace.jacfwd(f))(np.ones(k))
        return sum(max(v.aval.size for v in e.outvars) > 1 for e in jaxpr.eqns)

    def plain(x):
        return tail(np.sum(x))

    preferred = ftrace.prefer(tail, "reverse")
    assert sizes(lambda x: preferred(np.sum(x)), 11) < sizes(plain, 11)
    found = ftrace.jacfwd(lambda x: preferred(np.sum(x)))(np.ones(11) / 7)
    np.testing.assert_allclose(found, ftrace.grad(plain)(np.ones(11) / 7), rtol=1e-14)


@MODES
def test_what_is_not_differentiated_stays(mode):
    @ftrace.lift
    def f(x, n, how="double"):
        return x * n if how == "double" else x

    g = ftrace.prefer(f, mode)
    np.testing.assert_array_equal(g(X, 2), 2 * X)
    np.testing.assert_array_equal(ftrace.jacrev(lambda x: g(x, 3, how="double"))(X), 3 * np.eye(3))
    assert g(np.zeros(0), 2).shape == (0,)
    assert ftrace.grad(lambda x: np.sum(g(x, 2)))(np.zeros(0)).shape == (0,)


def test_bad_preferences_are_named():
    for mode in ("back", None, ["forward"]):
        with pytest.raises(DtypeError, match="mode"):
            ftrace.prefer(np.sin, mode)
    with pytest.raises(DtypeError, match="function first"):
        ftrace.prefer(1.0, "forward")
    with pytest.raises(DtypeError, match="complex"):
        ftrace.jvp(ftrace.prefer(np.sin, "forward"), (X + 1j,), (X + 1j,))


# ---------------------------------------------------------------------------------- differentiable


def test_a_function_without_a_derivative_fails_where_it_is_defined():
    with pytest.raises(RuleError, match="piecewise constant"):

        @ftrace.differentiable(X)
        def f(x):
            return np.sum(np.floor(x))

    def g(x, k):
        return np.sum(x) * np.round(k)

    assert ftrace.differentiable(X, 2.0, wrt="x")(g) is g
    with pytest.raises(RuleError):
        ftrace.differentiable(X, 2.0, wrt="k")(g)
    assert ftrace.differentiable(ftrace.ShapeDtypeStruct((3,), np.float64), k=1.0, wrt=0)(g) is g


def test_a_function_is_checked_once_for_each_kind_of_arguments():
    runs = []

    @ftrace.differentiable
    def f(x):
        runs.append(None)
        return np.sum(x**2) if x.ndim == 1 else np.sum(np.floor(x))

    assert f(X) == np.sum(X**2)
    assert f(X + 1) == np.sum((X + 1) ** 2)
    assert len(runs) == 3
    with pytest.raises(RuleError):
        f(A)
    np.testing.assert_array_equal(ftrace.grad(f)(X), 2 * X)
    np.testing.assert_array_equal(ftrace.jit(ftrace.grad(f))(X), 2 * X)

    @ftrace.differentiable(wrt="k")
    def g(x, k):
        return np.floor(x) * k

    assert g(1.5, 2.0) == 2.0


def test_a_decision_by_a_value_is_looked_into():
    def f(x):
        if x > 0:
            return np.floor(x)
        return np.ceil(x)

    report = ftrace.check_differentiable(f, 1.0)
    assert not report
    assert ftrace.check_differentiable(lambda x: x if x > 0 else -x, 1.0)


# ---------------------------------------------------------------------------------- types, matrices


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (1.0, "float64"),
        (np.float32(1), "float32"),
        (1j, "complex128"),
        (np.ones(2, np.float16), "float16"),
        (1, None),
        (True, None),
        (np.arange(2), None),
        ("a", None),
        (np.sin, None),
    ],
)
def test_there_is_one_tangent_type_for_each_type(x, kind):
    found = ftrace.tangent_type([x, {"b": x}])
    for t in (found[0], found[1]["b"]):
        assert (t if t is None else str(t.dtype)) == kind
        assert t is None or t.shape == np.shape(x)


def test_a_gradient_is_of_the_tangent_type():
    p = {"a": np.float32(2), "v": X, "n": 2}
    g = ftrace.grad(lambda p: p["a"] * np.sum(p["v"]) * p["n"])(p)
    assert ftrace.tangent_type(g) == ftrace.tangent_type(p)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_a_flat_jacobian_is_a_matrix(mode):
    def f(p, q):
        return {"a": p["w"] @ p["v"] * q, "s": np.sum(p["v"]), "t": np.outer(p["v"], p["v"])}

    p = {"v": X, "w": A}
    g = ftrace.jacobian(f, (0, 1), mode=mode, flat=True)
    found = g(p, 2.0)
    assert found.shape == (2 + 1 + 9, 3 + 6 + 1)
    vector, back = ftrace.flatten_util.ravel_pytree((p, 2.0))
    wanted = ftrace.jacfwd(lambda v: ftrace.flatten_util.ravel_pytree(f(*back(v)))[0])(vector)
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    np.testing.assert_allclose(ftrace.jit(g)(p, 2.0), wanted, rtol=1e-14)
    one = ftrace.jacobian(np.sin, mode=mode, flat=True)(0.0)
    np.testing.assert_array_equal(one, [[1.0]])
    row, aux = ftrace.jacobian(lambda x: (np.sum(x), x), mode=mode, flat=True, has_aux=True)(X)
    np.testing.assert_array_equal(row, np.ones((1, 3)))
    np.testing.assert_array_equal(aux, X)
    assert ftrace.jacobian(np.sin, mode=mode, flat=True)(np.zeros((0, 2))).shape == (0, 0)
    assert ftrace.jacobian(np.sum, mode=mode, flat=True)(np.zeros((0, 2))).shape == (1, 0)

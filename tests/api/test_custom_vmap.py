"""`custom_vmap`: the user's batching rule under every transformation."""

from dataclasses import dataclass

import numpy as np
import pytest

import ftrace
from ftrace import checkpoint, errors, grad, hessian, jacfwd, jacrev, jit, jvp, lax, vjp, vmap

X = np.array([0.5, -1.0, 2.0])
W = np.array([1.0, 10.0, 100.0])
XX = np.stack([X, X + 0.25])
WW = np.stack([W, W - 1.5])


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


def plain(x, y):
    return {"s": np.sum(np.sin(x) * y), "y": y * 2.0}


def tripled():
    """A function whose batching rule says three times what the function says."""

    @ftrace.custom_vmap
    def f(x, y):
        return plain(x, y)

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        assert all(isinstance(b, bool) for b in in_batched)
        for b, a in zip(in_batched, (x, y), strict=True):
            assert a.shape == ((axis_size, 3) if b else (3,))
        s = 3.0 * np.sum(np.sin(x) * y, axis=-1)
        return {"s": s, "y": y * 6.0}, {"s": True, "y": in_batched[1]}

    return f


def right():
    f = ftrace.custom_vmap(plain)

    def rule(n, b, x, y):
        return {"s": np.sum(np.sin(x) * y, axis=-1), "y": y * 2.0}, {"s": True, "y": b[1]}

    f.def_vmap(rule)
    return f


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_the_rule_gets_every_mapped_axis_in_front(wrap):
    f = wrap(tripled())  # its rule checks the shapes
    close(vmap(f, (1, 0))(XX.T, WW)["s"], 3.0 * np.sum(np.sin(XX) * WW, axis=1))
    close(vmap(f, (-1, None))(XX.T, W)["s"], 3.0 * np.sin(XX) @ W)
    close(vmap(f, (None, 1), {"s": 0, "y": 1})(X, WW.T)["y"], 6.0 * WW.T)


def scalar(f, c=1.0):
    return lambda x, y: (f(x, y)["s"] + np.sum(f(x, y)["y"] * X)) * c


AXES = [(0, 0), (0, None), (None, 0)]
ARGS = {(0, 0): (XX, WW), (0, None): (XX, W), (None, 0): (X, WW)}
BATCHED = {
    "vmap": lambda f, axes: vmap(scalar(f), axes),
    "jit of vmap": lambda f, axes: jit(vmap(scalar(f), axes)),
    "vmap of jit": lambda f, axes: vmap(jit(scalar(f)), axes),
    "vmap of checkpoint": lambda f, axes: vmap(checkpoint(scalar(f)), axes),
    "vmap of grad": lambda f, axes: vmap(grad(scalar(f)), axes),
    "vmap of grad y": lambda f, axes: vmap(grad(scalar(f), 1), axes),
    "vmap of grad of both": lambda f, axes: vmap(grad(scalar(f), (0, 1)), axes),
    "jit of vmap of grad": lambda f, axes: jit(vmap(grad(scalar(f), (0, 1)), axes)),
    "vmap of grad of jit": lambda f, axes: vmap(grad(jit(scalar(f)), (0, 1)), axes),
    "vmap of jvp": lambda f, axes: vmap(lambda x, y: jvp(scalar(f), (x, y), (y, x))[1], axes),
    "grad of vmap": lambda f, axes: grad(lambda x, y: np.sum(vmap(scalar(f), axes)(x, y)), (0, 1)),
    "grad of vmap of jit": lambda f, axes: grad(
        lambda x, y: np.sum(vmap(jit(scalar(f)), axes)(x, y)), (0, 1)
    ),
    "jvp of vmap": lambda f, axes: (
        lambda x, y: jvp(vmap(scalar(f), axes), (x, y), (x * 2.0, y * 3.0))[1]
    ),
    "vmap of hessian": lambda f, axes: vmap(hessian(scalar(f), (0, 1)), axes),
    "vmap of grad of grad": lambda f, axes: vmap(
        grad(lambda x, y: np.sum(grad(scalar(f), 1)(x, y) * X)), axes
    ),
    "vmap of jacfwd": lambda f, axes: vmap(jacfwd(lambda x, y: f(x, y)["y"], 1), axes),
    "vmap of jacrev": lambda f, axes: vmap(jacrev(lambda x, y: f(x, y)["y"], 1), axes),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", BATCHED)
@pytest.mark.parametrize("axes", AXES)
def test_the_rule_is_used_whatever_is_mapped(axes, way):
    args = ARGS[axes]
    transformed = BATCHED[way]
    expected = transformed(plain, axes)(*args)
    actual = transformed(right(), axes)(*args)
    for a, e in zip(flat(actual), flat(expected), strict=True):
        close(a, e)
    for a, e in zip(flat(transformed(tripled(), axes)(*args)), flat(expected), strict=True):
        close(a, 3.0 * e)


def flat(tree):
    return ftrace.tree.leaves(tree)


UNBATCHED = {
    "value": lambda f: f(X, W),
    "jit": lambda f: jit(f)(X, W),
    "grad": lambda f: grad(f, (0, 1))(X, W),
    "jit of grad": lambda f: jit(grad(f, (0, 1)))(X, W),
    "grad of jit": lambda f: grad(jit(f), (0, 1))(X, W),
    "grad of grad": lambda f: grad(lambda x: np.sum(grad(f)(x, W) * X))(X),
    "jvp": lambda f: jvp(f, (X, W), (W, X)),
    "jvp of one": lambda f: jvp(lambda x: f(x, W), (X,), (W,)),
    "vjp": lambda f: vjp(f, X, W)[1](2.0),
    "grad of checkpoint": lambda f: grad(checkpoint(f), (0, 1))(X, W),
    "grad of cond": lambda f: grad(lambda x: lax.cond(x[0] > 0, f, lambda x, y: 0.0, x, W))(X),
    "vmap of something else": lambda f: vmap(lambda c: f(X, W) * c)(X),
}


@pytest.mark.parametrize("way", UNBATCHED)
def test_without_a_mapped_operand_the_function_is_used(way):
    expected = UNBATCHED[way](scalar(plain))
    for a, e in zip(flat(UNBATCHED[way](scalar(tripled()))), flat(expected), strict=True):
        close(a, e)


def test_hessians_map_the_rule():
    assert np.any(hessian(scalar(plain))(X, W))
    close(hessian(scalar(right()))(X, W), hessian(scalar(plain))(X, W))
    close(hessian(scalar(tripled()))(X, W), 3.0 * hessian(scalar(plain))(X, W))


def test_nested_maps_map_the_rule():
    f = scalar(right())
    close(vmap(vmap(f, (0, None)), (None, 0))(XX, WW), [[f(x, w) for x in XX] for w in WW])
    inner = vmap(grad(f), (0, None))
    expected = [[grad(scalar(plain))(x, w) for x in XX] for w in WW]
    close(vmap(inner, (None, 0))(XX, WW), expected)


def test_compiled_programs_use_the_rule():
    f = scalar(tripled())
    close(jit(vmap(f))(XX, WW), 3.0 * vmap(scalar(plain))(XX, WW))
    close(jit(vmap(grad(f)))(XX, WW), 3.0 * vmap(grad(scalar(plain)))(XX, WW))
    close(jit(f)(X, W), scalar(plain)(X, W))


def test_a_function_that_cannot_be_mapped_operation_by_operation():
    def solve(a, b):
        if type(a) is not np.ndarray:
            raise TypeError("plain arrays only")
        return np.linalg.solve(a, b)

    f = ftrace.custom_vmap(solve)
    f.def_vmap(lambda n, b, a, y: (np.stack([solve(a, v) for v in y]), True))
    A = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0]])
    close(vmap(f, (None, 0))(A, XX), np.linalg.solve(A, XX.T).T)


def test_captured_values():
    def f(x, c):
        g = ftrace.custom_vmap(lambda y: y * c)
        g.def_vmap(lambda n, b, y: (3.0 * y * c, True))
        return np.sum(vmap(g)(x)) + g(2.0)

    close(f(X, 5.0), 15.0 * np.sum(X) + 10.0)
    close(grad(f, (0, 1))(X, 5.0)[0], 15.0 * np.ones(3))
    close(grad(f, 1)(X, 5.0), 3.0 * np.sum(X) + 2.0)
    close(jit(grad(f, 1))(X, 5.0), 3.0 * np.sum(X) + 2.0)
    close(grad(jit(f), 1)(X, 5.0), 3.0 * np.sum(X) + 2.0)
    for g in (f, jit(f), grad(f, 1)):
        with pytest.raises(errors.CustomRuleError, match="closes over a traced value that vmap"):
            vmap(g, (None, 0))(X, W)


def test_integers_and_several_results():
    f = ftrace.custom_vmap(lambda x, n: (x * n, n + 1))
    f.def_vmap(lambda size, b, x, n: ((x * n, n + 1), (b[0] or b[1], b[1])))
    y, n = vmap(f)(X, np.array([2, 3, 4]))
    close(y, X * [2, 3, 4])
    assert n.tolist() == [3, 4, 5]
    close(vmap(grad(lambda x, n: f(x, n)[0]))(X, np.array([2, 3, 4])), [2, 3, 4])
    close(vmap(grad(lambda x: f(x, 2)[0]))(X), [2, 2, 2])
    assert vmap(f, (0, None))(X, 5)[1].tolist() == [6, 6, 6]


def test_python_control_flow_under_grad():
    f = ftrace.custom_vmap(lambda x: x * x if x > 0 else -x)
    f.def_vmap(lambda n, b, x: (np.where(x > 0, x * x, -x), True))
    assert grad(f)(3.0) == 6.0
    assert grad(f)(-3.0) == -1.0
    assert grad(grad(f))(3.0) == 2.0
    assert jvp(f, (3.0,), (1.0,))[1] == 6.0
    close(vmap(f)(X), np.where(X > 0, X * X, -X))


def test_names():
    assert ftrace.custom_vmap is ftrace.custom_batching.custom_vmap
    f = ftrace.custom_vmap(plain)
    assert f.__name__ == "plain"

    @dataclass
    class Model:
        scale: float

        @ftrace.custom_vmap
        def apply(self, x):
            return self.scale * x

    Model.apply.def_vmap(lambda axis_size, in_batched, self, x: (10.0 * x, True))
    assert Model(3.0).apply(2.0) == 6.0
    np.testing.assert_array_equal(vmap(Model(3.0).apply)(np.ones(2)), [10.0, 10.0])

"""Forward mode through a `custom_vjp`: which backward rules are linear, and which only affine."""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import checkpoint, errors, grad, jit, jvp, lax, vmap

X = np.array([0.5, -1.5, 2.0])
V = np.array([1.0, -2.0, 0.5])
NOISE = np.array([0.1, 0.2, 0.3])


def with_backward(backward):
    """The function x * x, of that backward rule."""
    f = ftrace.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (f(x), x), lambda r, ct: (backward(r, ct),))
    return f


def with_rule(fun, kind=ftrace.custom_jvp):
    g = kind(fun)
    if kind is ftrace.custom_jvp:
        g.defjvp(lambda p, t: jvp(fun, p, t))
    else:
        g.def_vmap(
            lambda size, mapped, *xs: (vmap(fun, [0 if m else None for m in mapped])(*xs), True)
        )
    return g


def stored(r, ct, first):
    out = fnp.zeros(3) + first
    out[1:] = (2.0 * r * ct)[1:]
    out[0] = 2.0 * r[0] * ct[0]
    return out


LINEAR = {
    "a product": lambda r, ct: 2.0 * r * ct,
    "a sum of products": lambda r, ct: r * ct + ct * r,
    "a difference": lambda r, ct: 3.0 * r * ct - ct * r,
    "a quotient": lambda r, ct: ct / (0.5 / r),
    "plus zero": lambda r, ct: 2.0 * r * ct + 0.0,
    "plus zeros of the residual": lambda r, ct: 2.0 * r * ct + np.zeros(3) * r,
    "plus zeros made inside": lambda r, ct: 2.0 * r * ct + fnp.zeros(3),
    "where": lambda r, ct: np.where(r > 0, 2.0 * r * ct, 2.0 * ct * r),
    "where, or zero": lambda r, ct: (
        np.where(r > 0, 2.0 * r * ct, 0.0) + np.where(r > 0, 0.0, 2.0 * r * ct)
    ),
    "a branch": lambda r, ct: lax.cond(r[0] > 0, lambda c: 2.0 * r * c, lambda c: r * c, ct),
    "a branch of zeros": lambda r, ct: lax.cond(
        r[0] < 0, lambda c: np.zeros(3), lambda c: 2.0 * r * c, ct
    ),
    "parts": lambda r, ct: fnp.concatenate([(2.0 * r * ct)[:1], (2.0 * r * ct)[1:]]),
    "parts and zeros": lambda r, ct: fnp.concatenate([2.0 * r * ct, np.zeros(2)])[:3],
    "stored in zeros": lambda r, ct: stored(r, ct, 0.0),
    "jit": lambda r, ct: jit(lambda c: 2.0 * r * c)(ct),
    "checkpoint": lambda r, ct: checkpoint(lambda r, c: 2.0 * r * c)(r, ct),
    "a contraction": lambda r, ct: (2.0 * np.diag(X)) @ ct,
    "a call that takes nothing from it": lambda r, ct: jit(lambda r: 2.0 * r)(r) * ct,
}

AFFINE = {
    "plus the residual": (lambda r, ct: ct + r, "add adds to a cotangent what does not depend"),
    "minus the residual": (lambda r, ct: ct - r, "adds to a cotangent what does not depend"),
    "the residual minus it": (lambda r, ct: r - ct, "adds to a cotangent what does not depend"),
    "plus a captured array": (lambda r, ct: ct + NOISE, "adds to a cotangent"),
    "plus a number": (lambda r, ct: ct + 1e-3, "adds to a cotangent"),
    "where, or the residual": (lambda r, ct: np.where(r > 0, ct, r), "select adds to a cotangent"),
    "where, or a number": (lambda r, ct: np.where(r > 0, 1.0, ct), "select adds to a cotangent"),
    "a branch": (
        lambda r, ct: lax.cond(r[0] > 0, lambda c: 2.0 * c, lambda c: r, ct),
        "a branch of cond returns what does not depend on the cotangent",
    ),
    "inside a branch": (
        lambda r, ct: lax.cond(r[0] > 0, lambda c: 2.0 * c, lambda c: c + r, ct),
        "add adds to a cotangent",
    ),
    "parts": (lambda r, ct: fnp.concatenate([ct[:1], r[1:]]), "concatenate adds to a cotangent"),
    "stored in numbers": (lambda r, ct: stored(r, ct, 7.0), "adds to a cotangent"),
    "jit": (lambda r, ct: jit(lambda c: c + r)(ct), "add adds to a cotangent"),
    "checkpoint": (lambda r, ct: checkpoint(lambda c: c + r)(ct), "add adds to a cotangent"),
    "a custom_jvp": (lambda r, ct: with_rule(lambda c, r: c + r)(ct, r), "add adds to a cotangent"),
    "a custom_vmap": (
        lambda r, ct: with_rule(lambda c, r: c + r, ftrace.custom_vmap)(ct, r),
        "add adds to a cotangent",
    ),
    "only the residual": (lambda r, ct: r, r"it returns f64\[3\] that does not depend on"),
    "only a constant": (lambda r, ct: NOISE, r"it returns f64\[3\] that does not depend on"),
    "jit of the residual": (lambda r, ct: jit(np.sin)(r), "that does not depend on the cotangent"),
}
WAYS = {
    "jvp": lambda f: jvp(f, (X,), (V,))[1],
    "jacfwd": lambda f: ftrace.jacfwd(f)(X) @ V,
    "jit of jvp": lambda f: jit(lambda x: jvp(f, (x,), (V,))[1])(X),
    "vmap of jvp": lambda f: vmap(lambda v: jvp(f, (X,), (v,))[1])(np.stack([X, V]))[1],
    "jvp of jit": lambda f: jvp(jit(f), (X,), (V,))[1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backward", LINEAR)
def test_a_linear_backward_rule_is_transposed(backward, way):
    f = with_backward(LINEAR[backward])
    np.testing.assert_allclose(WAYS[way](f), 2.0 * X * V, rtol=1e-14)
    np.testing.assert_allclose(grad(lambda x: f(x) @ V)(X), 2.0 * X * V, rtol=1e-14)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backward", AFFINE)
def test_an_affine_backward_rule_is_refused(backward, way):
    rule, words = AFFINE[backward]
    with pytest.raises(errors.CustomRuleError, match=words) as caught:
        WAYS[way](with_backward(rule))
    assert "Give the function a custom_jvp rule, or" in caught.value.fix


def test_a_zero_cotangent_is_linear():
    f = with_backward(lambda r, ct: np.zeros(3))
    np.testing.assert_array_equal(jvp(f, (X,), (V,))[1], np.zeros(3))

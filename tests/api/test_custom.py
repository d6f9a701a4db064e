"""Users' own rules and rows: `custom_jvp`, `custom_vjp`, `checkpoint`, `Primitive`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import errors, lax
from ftrace.core.primitive import Unsupported

X = np.array([0.5, -1.0, 2.0])

# ---------------------------------------------------------------------------------- custom_jvp


def tripled():
    """sin, whose derivative is said to be three times what it is."""

    @ftrace.custom_jvp
    def f(x):
        return np.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), 3 * np.cos(x) * t

    return f


EVERY_WAY = {
    "grad": lambda f: ftrace.grad(f),
    "value_and_grad": lambda f: lambda x: ftrace.value_and_grad(f)(x)[1],
    "jvp": lambda f: lambda x: ftrace.jvp(f, (x,), (1.0,))[1],
    "linearize": lambda f: lambda x: ftrace.linearize(f, x)[1](1.0),
    "vjp": lambda f: lambda x: ftrace.vjp(f, x)[1](1.0)[0],
    "jacfwd": lambda f: ftrace.jacfwd(f),
    "jacrev": lambda f: ftrace.jacrev(f),
    "jit of grad": lambda f: ftrace.jit(ftrace.grad(f)),
    "grad of jit": lambda f: ftrace.grad(ftrace.jit(f)),
    "grad of checkpoint": lambda f: ftrace.grad(ftrace.checkpoint(f)),
    "vmap of grad": lambda f: lambda x: ftrace.vmap(ftrace.grad(f))(np.array([x, 0.0]))[0],
    "grad of vmap": lambda f: (
        lambda x: ftrace.grad(lambda v: ftrace.vmap(f)(v)[0])(np.array([x, 0.0]))[0]
    ),
    "grad of cond": lambda f: ftrace.grad(lambda x: lax.cond(x > 0, f, lambda y: y, x)),
}


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_jvp_rule_is_used_however_the_function_is_differentiated(way):
    f = tripled()
    np.testing.assert_allclose(EVERY_WAY[way](f)(0.5), 3 * np.cos(0.5), rtol=1e-15)
    assert f(0.5) == np.sin(0.5)


def test_rules_are_differentiated_again():
    f = tripled()
    np.testing.assert_allclose(ftrace.grad(ftrace.grad(f))(0.5), -3 * np.sin(0.5))
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(ftrace.grad(f)))(0.5), -3 * np.sin(0.5))


def test_defjvps_takes_one_rule_per_argument():
    @ftrace.custom_jvp
    def f(x, y, z):
        return {"p": x * y, "s": x + z}

    f.defjvps(
        lambda t, out, x, y, z: {"p": 10 * t * y, "s": t},
        lambda t, out, x, y, z: {"p": t * out["p"] / y, "s": 0 * t},
        None,
    )
    y, t = ftrace.jvp(f, (2.0, 4.0, 1.0), (1.0, 1.0, 100.0))
    assert y == {"p": 8.0, "s": 3.0}
    assert t == {"p": 42.0, "s": 1.0}


def test_nondiff_argnums_reach_the_rule_first():
    from functools import partial

    @partial(ftrace.custom_jvp, nondiff_argnums=(0, 2))
    def apply(fun, x, power):
        return fun(x) ** power

    @apply.defjvp
    def rule(fun, power, primals, tangents):
        (x,), (t,) = primals, tangents
        return apply(fun, x, power), power * t * 1000.0

    assert ftrace.grad(lambda x: apply(np.sin, x, 2))(0.5) == 2000.0
    np.testing.assert_allclose(apply(np.sin, 0.5, 2), np.sin(0.5) ** 2)


def test_defaults_and_keywords_become_positions():
    @ftrace.custom_jvp
    def f(x, scale=2.0):
        return x * scale

    f.defjvp(lambda p, t: (f(*p), 7 * t[0] + t[1]))
    assert ftrace.grad(f)(1.0) == 7.0
    assert ftrace.grad(lambda x: f(scale=x, x=1.0))(3.0) == 1.0


def test_symbolic_zeros_mark_integer_arguments():
    seen = []

    @ftrace.custom_jvp
    def f(x, n):
        return x * n

    def rule(primals, tangents):
        seen.append(type(tangents[1]))
        return f(*primals), tangents[0] * primals[1]

    f.defjvp(rule, symbolic_zeros=True)
    assert ftrace.grad(f)(2.0, np.int64(3)) == 3.0
    assert seen == [ftrace.SymbolicZero]


def test_a_tangent_of_none_is_zero():
    @ftrace.custom_jvp
    def f(x):
        return {"a": x * 2, "b": x}

    f.defjvp(lambda p, t: (f(*p), {"a": t[0], "b": None}))
    assert ftrace.jvp(f, (1.0,), (1.0,))[1] == {"a": 1.0, "b": 0.0}


def test_methods_may_have_rules():
    @dataclass
    class Model:
        scale: Any

        @ftrace.custom_jvp
        def apply(self, x):
            return self.scale * x

    Model.apply.defjvp(lambda p, t: (Model.apply(*p), t[0].scale * 100.0 + p[0].scale * t[1]))
    assert Model(2.0).apply(3.0) == 6.0
    assert ftrace.grad(lambda x: Model(2.0).apply(x))(3.0) == 2.0
    assert ftrace.grad(lambda m: m.apply(3.0))(Model(2.0)).scale == 100.0


# ---------------------------------------------------------------------------------- custom_vjp


def clipped():
    """The identity whose cotangent is held between -1 and 1, then tripled."""

    @ftrace.custom_vjp
    def f(x):
        return x * 1.0

    f.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (3 * ct,))
    return f


@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_vjp_rule_is_used_however_the_function_is_differentiated(way):
    np.testing.assert_allclose(EVERY_WAY[way](clipped())(0.5), 3.0)


def test_bwd_may_be_nonlinear_in_reverse_mode():
    @ftrace.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (x, None), lambda _, ct: (np.clip(ct, -1, 1),))
    np.testing.assert_array_equal(
        ftrace.grad(lambda x: np.sum(f(x) * np.array([0.5, -7, 2])))(X), [0.5, -1, 1]
    )


def test_containers_residuals_and_missing_contributions():
    @ftrace.custom_vjp
    def f(params, x, n):
        return {"y": params["w"] * x, "n": n}

    def fwd(params, x, n):
        return f(params, x, n), {"w": params["w"], "x": x}

    def bwd(residuals, ct):
        return {"w": ct["y"] * residuals["x"]}, None, None

    f.defvjp(fwd, bwd)
    dp, dx = ftrace.grad(lambda p, x: f(p, x, 3)["y"], (0, 1))({"w": 2.0}, 5.0)
    assert dp == {"w": 5.0}
    assert dx == 0.0


def test_nondiff_argnums_reach_bwd_first():
    from functools import partial

    @partial(ftrace.custom_vjp, nondiff_argnums=(1,))
    def scaled(x, factor):
        return x * factor

    scaled.defvjp(lambda x, factor: (x * factor, None), lambda factor, res, ct: (ct * factor * 10,))
    assert ftrace.grad(lambda x: scaled(x, 2.0))(1.0) == 20.0
    assert ftrace.jit(ftrace.grad(lambda x: scaled(x, 2.0)))(1.0) == 20.0


def test_a_rule_that_disagrees_with_its_staged_function_is_refused():
    f = ftrace.custom_vjp(lambda x: np.sin(x))
    f.defvjp(lambda x: (np.sum(x), None), lambda _, ct: (ct,))
    with pytest.raises(errors.CustomRuleError, match=r"fwd rule.*expected f64\[3\], got f64"):
        ftrace.grad(ftrace.jit(lambda x: np.sum(f(x))))(X)


# ---------------------------------------------------------------------------------- checkpoint


def test_checkpoint_keeps_values_gradients_and_static_arguments():
    @ftrace.checkpoint(static_argnums=1)
    def f(x, n):
        return np.sum(np.sin(x) ** n)

    np.testing.assert_allclose(f(X, 2), np.sum(np.sin(X) ** 2))
    np.testing.assert_allclose(ftrace.grad(f)(X, 2), np.sin(2 * X))
    np.testing.assert_allclose(
        ftrace.jit(ftrace.grad(lambda x: f(x, 3)))(X), 3 * np.sin(X) ** 2 * np.cos(X)
    )
    assert ftrace.remat is ftrace.checkpoint


def test_checkpoint_of_containers_and_keywords():
    f = ftrace.checkpoint(lambda p, *, s: {"y": np.sin(p["x"]) * s})
    gradient = ftrace.grad(lambda p: f(p, s=3.0)["y"])({"x": 0.5})
    np.testing.assert_allclose(gradient["x"], 3 * np.cos(0.5))


# ---------------------------------------------------------------------------------- own rows


def cube_row():
    row = ftrace.Primitive(
        name="cube",
        impl=lambda x: np.asarray(x * x * x)[()],
        type=lambda x: x,
        jvp=lambda primals, tangents: (row(*primals), lax.mul(tangents[0], slope(*primals))),
        transpose=Unsupported("cube is not linear."),
        batch=lambda axis, values, dims: (row(*values), dims[0]),
        doc="x * x * x.",
    )

    def slope(x):
        return lax.mul(lax.mul(x, x), 3.0)

    return row


def test_a_row_in_ten_lines_goes_through_every_transformation():
    cube = cube_row()
    np.testing.assert_array_equal(cube(X), X**3)
    assert ftrace.grad(cube)(2.0) == 12.0
    assert ftrace.grad(ftrace.grad(cube))(2.0) == 12.0
    assert ftrace.grad(ftrace.grad(ftrace.grad(cube)))(2.0) == 6.0
    np.testing.assert_array_equal(ftrace.vmap(cube)(X), X**3)
    np.testing.assert_array_equal(ftrace.jit(cube)(X), X**3)
    np.testing.assert_array_equal(ftrace.vmap(ftrace.grad(ftrace.jit(cube)))(X), 3 * X * X)
    np.testing.assert_allclose(ftrace.hessian(lambda x: np.sum(cube(x)))(X), np.diag(6 * X))
    assert str(ftrace.make_jaxpr(cube)(X)).count("cube") == 1


def test_a_linear_row_with_params_is_transposed():
    shift = ftrace.Primitive(
        name="shift",
        impl=lambda x, by: np.roll(x, by),
        type=lambda x, by: x,
        jvp="linear",
        transpose=lambda ct, x, by: (shift(ct, by=-by),),
        batch=lambda axis, values, dims, by: (
            ftrace.vmap(lambda v: np.roll(v, by), dims[0])(values[0]),
            0,
        ),
        doc="Elements moved along the axis, around the end.",
    )
    weights = np.array([1.0, 10.0, 100.0])
    gradient = ftrace.grad(lambda x: np.sum(shift(x, by=1) * weights))(X)
    np.testing.assert_array_equal(gradient, np.roll(weights, -1))
    assert "shift[by=1]" in str(ftrace.make_jaxpr(lambda x: shift(x, by=1))(X))


def test_a_row_of_several_results():
    both = ftrace.Primitive(
        name="sincos",
        impl=lambda x: [np.sin(x), np.cos(x)],
        type=lambda x: (x, x),
        jvp=lambda p, t: (
            both(*p),
            [lax.mul(t[0], lax.cos(p[0])), lax.neg(lax.mul(t[0], lax.sin(p[0])))],
        ),
        transpose=Unsupported("not linear"),
        batch=lambda axis, values, dims: (both(*values), [dims[0]] * 2),
        multiple=True,
        doc="Sine and cosine.",
    )
    np.testing.assert_allclose(
        ftrace.grad(lambda x: np.prod(np.stack(both(x))))(0.3), np.cos(0.6), rtol=1e-14
    )
    s, c = ftrace.vmap(ftrace.jit(lambda x: both(x)))(X)
    np.testing.assert_allclose(s * s + c * c, np.ones(3))

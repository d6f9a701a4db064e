"""Rules over values of outer transformations: in closures right, elsewhere right or refused.

The function is 1.5 sin(x) or w sin(x), and its rule says w cos(x), where w is traced by a
transformation around. What the rule says is the derivative, so d/dw of the slope is cos(x) also
where the function does not know w.
"""

import types

import numpy as np
import pytest

from ftrace import (
    custom_gradient,
    custom_jvp,
    custom_rule,
    custom_vjp,
    errors,
    grad,
    jit,
    jvp,
    vmap,
)

X, WS = 0.7, np.array([1.5, 2.5])
SLOPE, VALUE, CURVE = np.cos(X), np.sin(X), -np.sin(X)


def with_jvp(f, get):
    f = custom_jvp(f)
    f.defjvp(lambda p, t: (f(p[0]), np.cos(p[0]) * get() * t[0]))
    return f


def with_vjp(f, get):
    f = custom_vjp(f)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (np.cos(x) * get() * ct,))
    return f


def with_gradient(f, get):
    return custom_gradient(lambda x: (f(x), lambda ct: np.cos(x) * get() * ct))


def with_jvp_rule(f, get):
    return custom_rule(f, jvp=lambda p, t: (f(p[0]), np.cos(p[0]) * get() * t[0]))


def with_vjp_rule(f, get):
    return custom_rule(f, vjp=(lambda x: (f(x), x), lambda x, ct: (np.cos(x) * get() * ct,)))


MAKERS = (with_jvp, with_vjp, with_gradient, with_jvp_rule, with_vjp_rule)


def in_the_rule(make, w):
    return make(lambda x: np.sin(x) * 1.5, lambda: w)


def in_both(make, w):
    return make(lambda x: np.sin(x) * w, lambda: w)


USES = {  # of a function w -> function of x
    "jit": (lambda F: jit(lambda w: grad(F(w))(X))(2.0), 2.0 * SLOPE),
    "vmap": (lambda F: vmap(lambda w: grad(F(w))(X))(WS), WS * SLOPE),
    "jit of vmap": (lambda F: jit(vmap(lambda w: grad(F(w))(X)))(WS), WS * SLOPE),
    "vmap of jit": (lambda F: vmap(lambda w: jit(grad(F(w)))(X))(WS), WS * SLOPE),
    "grad of grad inside vmap": (lambda F: vmap(lambda w: grad(grad(F(w)))(X))(WS), WS * CURVE),
    "jit of jit of grad of grad": (
        lambda F: jit(lambda w: jit(grad(grad(F(w))))(X))(2.0),
        2.0 * CURVE,
    ),
    "vmap of vmap": (
        lambda F: vmap(lambda w: vmap(grad(F(w)))(np.array([X, X])))(WS),
        np.outer(WS, [SLOPE, SLOPE]),
    ),
}
DIFFERENTIATED = {
    "grad": (lambda F: grad(lambda w: grad(F(w))(X))(2.0), SLOPE),
    "jvp": (lambda F: jvp(lambda w: grad(F(w))(X), (2.0,), (3.0,))[1], 3.0 * SLOPE),
    "jit of grad": (lambda F: jit(grad(lambda w: grad(F(w))(X)))(2.0), SLOPE),
    "grad of jit": (lambda F: grad(lambda w: jit(grad(F(w)))(X))(2.0), SLOPE),
    "vmap of grad": (lambda F: vmap(grad(lambda w: grad(F(w))(X)))(WS), [SLOPE, SLOPE]),
    "grad of grad": (lambda F: grad(lambda w: grad(grad(F(w)))(X))(2.0), CURVE),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("where", [in_the_rule, in_both])
@pytest.mark.parametrize("make", MAKERS)
def test_staged_and_mapped_values_in_closures(make, where, use):
    run, expected = USES[use]
    np.testing.assert_allclose(run(lambda w: where(make, w)), expected, rtol=1e-12)


@pytest.mark.parametrize("use", DIFFERENTIATED)
@pytest.mark.parametrize("make", MAKERS)
def test_differentiated_values_in_the_closure_of_a_rule(make, use):
    run, expected = DIFFERENTIATED[use]
    np.testing.assert_allclose(run(lambda w: in_the_rule(make, w)), expected, rtol=1e-12)


@pytest.mark.parametrize("make", MAKERS)
def test_a_function_over_a_differentiated_value_is_refused_with_the_fix(make):
    for run in (grad, lambda f: jit(grad(f)), lambda f: vmap(grad(f))):
        with pytest.raises(errors.CustomRuleError, match="closes over a traced value") as caught:
            run(lambda w: in_both(make, w)(X))(WS if run is not grad else 2.0)
        assert caught.value.fix.startswith("Pass it as an argument, so that the rule can say")
        assert "test_custom_captures.py" in caught.value.where


held = types.SimpleNamespace(w=None)
everywhere = None


def in_an_attribute(w):
    held.w = w
    return lambda: held.w


def in_a_global(w):
    global everywhere
    everywhere = w
    return lambda: everywhere


@pytest.mark.sampled(2, each="use")
@pytest.mark.parametrize("use", USES | DIFFERENTIATED)
@pytest.mark.parametrize("put", [in_an_attribute, in_a_global])
@pytest.mark.parametrize("make", MAKERS)
def test_what_closures_do_not_show_is_right_or_refused_with_the_fix(make, put, use):
    run, expected = (USES | DIFFERENTIATED)[use]
    get = put(None)
    f = make(lambda x: np.sin(x) * 1.5, get)  # one function, whose rule reads what is there

    def of(w):
        put(w)
        return f

    found, fix = None, ""
    try:
        found = run(of)
    except (errors.CustomRuleError, errors.UnexpectedTracerError) as error:
        fix = error.fix
    if found is None:
        assert fix.startswith(("Pass it as an argument", "Pass the value as an argument"))
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)

"""Opaque functions with derivatives: rules of every kind, finite differences, every direction."""

import ctypes
import ctypes.util
import math

import numpy as np
import pytest

import ftrace
from ftrace import errors, external, grad, hessian, jit, jvp, lax, vjp, vmap

F8 = ftrace.ShapeDtypeStruct((), np.float64)
X = np.array([0.3, 0.7, -0.4])
W = np.array([1.0, 2.0, 3.0])


def opaque(x):
    """3 sin(x), where no tracer can follow."""
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = 3 * math.sin(float(x[i]))
    x[:] = np.nan  # it may write its argument
    return out


def opaque_jvp(args, result, tangents):
    (x,), (t,) = args, tangents
    return np.array([3 * math.cos(float(a)) * float(b) for a, b in zip(x, t, strict=True)])


def opaque_vjp(args, result, ct):
    return (opaque_jvp(args, result, (ct,)),)


def traceable_jvp(args, result, tangents):
    return 3 * np.cos(args[0]) * tangents[0]


def traceable_vjp(args, result, ct):
    return (3 * np.cos(args[0]) * ct,)


RULES = {
    "central": {"fd": "central"},
    "opaque jvp": {"jvp": opaque_jvp},
    "opaque vjp": {"vjp": opaque_vjp},
    "opaque rules": {"jvp": opaque_jvp, "vjp": opaque_vjp},
    "opaque vjp and differences": {"vjp": opaque_vjp, "fd": "central"},
    "jvp": {"jvp": traceable_jvp},
    "vjp": {"vjp": traceable_vjp},
    "both": {"jvp": traceable_jvp, "vjp": traceable_vjp},
}
TRACED = ("jvp", "vjp", "both")


def pair(x):
    return np.stack([x, 2 * x])


EVERY_WAY = {
    "grad": lambda f: grad(f),
    "value_and_grad": lambda f: lambda x: ftrace.value_and_grad(f)(x)[1],
    "jit of grad": lambda f: jit(grad(f)),
    "grad of jit": lambda f: grad(jit(f)),
    "grad of checkpoint": lambda f: grad(ftrace.checkpoint(f)),
    "jacfwd": lambda f: ftrace.jacfwd(f),
    "jit of jacfwd": lambda f: jit(ftrace.jacfwd(f)),
    "jvp": lambda f: lambda x: np.array([jvp(f, (x,), (e,))[1] for e in np.eye(3)]),
    "vjp": lambda f: lambda x: vjp(f, x)[1](1.0)[0],
    "linearize": lambda f: lambda x: np.array([ftrace.linearize(f, x)[1](e) for e in np.eye(3)]),
    "vmap of grad": lambda f: lambda x: vmap(grad(f))(pair(x))[0],
    "jit of vmap of grad of jit": lambda f: lambda x: jit(vmap(grad(jit(f))))(pair(x))[0],
    "grad of vmap": lambda f: lambda x: grad(lambda v: vmap(f)(v)[0])(pair(x))[0],
    "grad of vmap of what is shared": lambda f: (
        lambda x: grad(lambda v: vmap(lambda s: f(v) * s)(np.array([0.25, 0.75])).sum())(x)
    ),
    "grad of cond": lambda f: grad(lambda x: lax.cond(x[0] > 0, f, lambda y: y[0], x)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("rules", RULES)
def test_the_first_derivative_is_right_however_it_is_given_and_taken(rules, way, compiled):
    e = external(opaque, lambda x: x, **RULES[rules])
    with ftrace.config.update(compile=compiled):
        found = EVERY_WAY[way](lambda x: (e(x) * W).sum())(X)
    exact = 0 if "central" not in str(RULES[rules]) else 1e-9
    np.testing.assert_allclose(found, 3 * np.cos(X) * W, rtol=1e-14 + exact)


def test_the_value_is_the_functions():
    e = external(opaque, lambda x: x)
    np.testing.assert_array_equal(e(X), 3 * np.sin(X))
    np.testing.assert_array_equal(jit(e)(X), 3 * np.sin(X))
    np.testing.assert_array_equal(vmap(e)(pair(X)), 3 * np.sin(pair(X)))
    assert X[0] == 0.3  # though the function overwrites what it is given
    kinds = []
    number = external(lambda x: kinds.append(type(x)) or x, lambda x: x)
    assert number(np.float64(2.0)) == jit(number)(np.float64(2.0)) == 2.0
    assert kinds == [np.float64] * 2
    assert repr(e) == "<external opaque>"


SECOND = {
    "hessian": lambda f: hessian(f),
    "jit of hessian": lambda f: jit(hessian(f)),
    "jacrev of grad of jit": lambda f: ftrace.jacrev(grad(jit(f))),
    "jacfwd of jacfwd": lambda f: ftrace.jacfwd(ftrace.jacfwd(f)),
    "jacrev of jacfwd": lambda f: ftrace.jacrev(ftrace.jacfwd(f)),
    "vmap of hessian": lambda f: lambda x: vmap(hessian(f))(pair(x))[0],
}


@pytest.mark.parametrize("way", SECOND)
@pytest.mark.parametrize("rules", TRACED)
def test_traceable_rules_are_differentiated_again(rules, way):
    e = external(opaque, lambda x: x, **RULES[rules])
    found = SECOND[way](lambda x: (e(x) * W).sum() ** 2)(X)
    s, d = (3 * np.sin(X) * W).sum(), 3 * np.cos(X) * W
    exact = 2 * np.outer(d, d) + np.diag(-2 * s * 3 * np.sin(X) * W)
    np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-13)


def test_a_rule_that_uses_the_result_is_differentiated_through_it():
    """exp, whose rules are written with the result; the argument goes unused."""
    e = external(
        lambda x: math.exp(x),
        F8,
        jvp=lambda args, y, ts: y * ts[0],
        vjp=lambda args, y, ct: (y * ct,),
    )
    for n, f in enumerate((e, grad(e), grad(grad(e)), jit(grad(grad(grad(e)))), hessian(e))):
        np.testing.assert_allclose(f(0.5), np.exp(0.5), rtol=1e-14, err_msg=str(n))
    np.testing.assert_allclose(ftrace.jacfwd(ftrace.jacfwd(e))(0.5), np.exp(0.5), rtol=1e-14)


@pytest.mark.parametrize("rules", [r for r in RULES if r not in TRACED])
def test_an_opaque_derivative_has_none_of_its_own(rules):
    e = external(opaque, lambda x: x, **RULES[rules])
    phrase = r"(opaque [jv][jv]p rule|finite differences) of opaque.* it is opaque, and has no"
    with pytest.raises(errors.RuleError, match=phrase) as caught:
        hessian(lambda x: (e(x) * W).sum())(X)
    assert "rules that ftrace can trace" in caught.value.fix or "ftrace traces" in caught.value.fix
    assert "test_external.py" in caught.value.where


def test_the_reason_why_a_rule_was_taken_for_opaque_is_told():
    e = external(opaque, lambda x: x, vjp=opaque_vjp)
    with pytest.raises(errors.RuleError, match="tracing it failed: TracerArrayConversionError"):
        hessian(lambda x: e(x).sum())(X)


def test_without_a_rule_the_error_says_where_the_function_is_and_what_to_give():
    e = external(opaque, lambda x: x)
    for way in (grad, lambda f: jit(grad(f)), lambda f: grad(jit(f)), ftrace.jacfwd):
        with pytest.raises(errors.RuleError, match="external of opaque: it is opaque") as caught:
            way(lambda x: e(x).sum())(X)
        line = opaque.__code__.co_firstlineno
        assert f"note: opaque is defined at {__file__}:{line}" in caught.value.what
        assert "way(lambda x: e(x).sum())" in caught.value.where
        assert "jvp=, vjp=, or fd=" in caught.value.fix


def test_a_compiled_function_without_source_is_described():
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    library.cbrt.restype, library.cbrt.argtypes = ctypes.c_double, [ctypes.c_double]
    with pytest.raises(
        errors.RuleError, match=r"note: cbrt is a compiled .* without Python source"
    ):
        grad(external(library.cbrt, F8))(8.0)


# ---------------------------------------------------------------------------------- arguments


def test_a_ctypes_function_of_pointers_works_under_every_transformation():
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    library.cbrt.restype, library.cbrt.argtypes = ctypes.c_double, [ctypes.c_double]
    cbrt = external(library.cbrt, F8, vjp=lambda args, y, ct: (ct / (3 * y * y),))
    assert math.isclose(jit(cbrt)(27.0), 3.0, rel_tol=1e-15)
    assert math.isclose(jit(grad(cbrt))(27.0), 1 / 27, rel_tol=1e-14)
    assert math.isclose(grad(grad(cbrt))(27.0), -2 / 9 * 27 ** (-5 / 3), rel_tol=1e-14)
    found = vmap(grad(jit(cbrt)))(np.array([1.0, 8.0]))
    np.testing.assert_allclose(found, [1 / 3, 1 / 12], rtol=1e-14)


def structured(p, n, scale):
    return {"y": p["w"] * scale**n, "i": np.int64(n + 1)}


STRUCT = {
    "y": ftrace.ShapeDtypeStruct((2,), np.float64),
    "i": ftrace.ShapeDtypeStruct((), np.int64),
}
P = {"w": np.array([2.0, 3.0])}


@pytest.mark.parametrize(
    "rules",
    [
        {"fd": "central"},
        {
            "jvp": lambda a, y, t: {
                "y": t[0]["w"] * a[2] ** a[1] + a[0]["w"] * a[1] * a[2] ** (a[1] - 1.0) * t[2],
                "i": 0,
            }
        },
        {
            "vjp": lambda a, y, ct: (
                {"w": ct["y"] * a[2] ** a[1]},
                None,
                (ct["y"] * a[0]["w"]).sum() * a[1] * a[2] ** (a[1] - 1.0),
            )
        },
    ],
    ids=["fd", "jvp", "vjp"],
)
@pytest.mark.parametrize("outer", [lambda f: f, jit], ids=["eager", "jit"])
def test_containers_and_integers_among_arguments_and_results(rules, outer):
    e = external(structured, STRUCT, **rules)

    def f(p, scale):
        out = e(p, 3, scale=scale)
        return (out["y"] * np.array([1.0, 10.0])).sum() * out["i"]

    dp, ds = outer(grad(f, (0, 1)))(P, 0.5)
    np.testing.assert_allclose(dp["w"], 4 * np.array([1.0, 10.0]) / 8, rtol=1e-8)
    np.testing.assert_allclose(ds, 4 * 32.0 * 3 * 0.25, rtol=1e-8)
    _, t = outer(lambda p, s: jvp(f, (p, s), ({"w": np.array([1.0, 1.0])}, 2.0)))(P, 0.5)
    np.testing.assert_allclose(t, 4 * (11.0 / 8 + 2 * 32.0 * 0.75), rtol=1e-8)


def test_only_what_is_asked_for_is_differenced():
    """Reverse mode takes two calls for each element, of the wanted argument alone."""
    calls = []

    def fn(a, b):
        calls.append(1)
        return float((a * a).sum() * b.sum())

    e = external(fn, F8, fd="central")
    a, b = np.arange(3.0), np.arange(5.0)
    np.testing.assert_allclose(grad(e)(a, b), 2 * a * b.sum(), rtol=1e-9, atol=1e-9)
    assert len(calls) == 1 + 2 * 3
    calls.clear()
    jvp(lambda b: e(a, b), (b,), (np.ones(5),))
    assert len(calls) == 1 + 2


def test_the_function_itself_runs_once_in_value_and_grad():
    calls = []

    def fn(x):
        calls.append(1)
        return x * x

    e = external(fn, F8, vjp=lambda args, y, ct: (2 * args[0] * ct,))
    for f in (
        ftrace.value_and_grad(e),
        ftrace.value_and_grad(jit(e)),
        jit(ftrace.value_and_grad(e)),
    ):
        calls.clear()
        assert [float(v) for v in f(3.0)] == [9.0, 6.0]
        assert len(calls) == 1


@pytest.mark.parametrize("method", ["expand_dims", "broadcast_all", "legacy_vectorized"])
def test_vmap_methods_reach_the_function_and_the_derivative_is_right(method):
    seen = []

    def fn(x, y):
        seen.append(np.shape(x))
        return x * y

    e = external(
        fn, lambda x, y: x, vjp=lambda a, y, ct: (ct * a[1], ct * a[0]), vmap_method=method
    )
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(vmap(grad(e, (0, 1)), (0, None))(x, 5.0)[1], x)
    assert seen == [(3,)]


@pytest.mark.parametrize("more", [{}, {"jvp": traceable_jvp}], ids=["vjp", "both"])
@pytest.mark.parametrize("outer", [lambda f: f, jit], ids=["eager", "jit"])
def test_a_rule_cannot_write_the_users_arrays(more, outer):
    def rule(args, y, ct):
        args[0][0] = 7.0
        return (ct * 2,)

    x = X.copy()
    e = external(opaque, lambda x: x, vjp=rule, **more)
    np.testing.assert_array_equal(outer(grad(lambda x: e(x).sum()))(x), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("zero", [0, 0.0, np.int64(0), np.zeros((), int)], ids=repr)
@pytest.mark.parametrize("outer", [lambda f: f, jit], ids=["eager", "jit"])
def test_numbers_and_integers_that_a_rule_returns_become_floats(zero, outer):
    both = {"vjp": lambda a, y, ct: (ct, zero), "jvp": lambda a, y, t: zero}
    e = external(lambda x, y: x + 0 * y, F8, **both)
    da, db = outer(grad(e, (0, 1)))(2.0, 1.0)
    assert (da.dtype, db.dtype, db) == (np.float64, np.float64, 0.0)
    t = outer(lambda x: jvp(e, (x, x), (x, x))[1])(2.0)
    assert (np.asarray(t).dtype, t) == (np.float64, 0.0)


def test_a_rule_that_writes_only_arrays_is_refused():
    def rule(args, y, ct):
        if type(args[0]) is np.ndarray:
            args[0][0] = 7.0
        return (ct * 2,)

    x = X.copy()
    with pytest.raises(errors.MutationError, match="wrote one of its arguments"):
        grad(lambda x: external(opaque, lambda x: x, vjp=rule)(x).sum())(x)
    np.testing.assert_array_equal(x, X)


# ---------------------------------------------------------------------------------- vmap


def product(a, b):
    return np.array([float(x) * float(y) for x, y in zip(a, b, strict=True)])


PRODUCT_RULES = {
    "central": {"fd": "central"},
    "opaque": {
        "jvp": lambda args, y, t: product(args[0], t[1]) + product(t[0], args[1]),
        "vjp": lambda args, y, ct: (product(ct, args[1]), product(ct, args[0])),
    },
    "vjp": {"vjp": lambda args, y, ct: (ct * args[1], ct * args[0])},
}


@pytest.mark.parametrize("rules", PRODUCT_RULES)
@pytest.mark.parametrize("outer", [lambda f: f, jit], ids=["eager", "jit"])
def test_what_members_share_gets_the_sum_of_their_cotangents(rules, outer):
    e = external(product, lambda a, b: a, **PRODUCT_RULES[rules])
    a, b = np.array([1.0, 2.0]), np.array([[3.0, 4.0], [5.0, 6.0], [7.0, 9.0]])
    w = np.arange(1.0, 7.0).reshape(3, 2)

    def f(a, b, axis):
        return (vmap(e, (None, axis))(a, b) * w).sum()

    for axis, given in ((0, b), (1, b.T)):
        da, db = outer(grad(lambda a, b, axis=axis: f(a, b, axis), (0, 1)))(a, given)
        np.testing.assert_allclose(da, (b * w).sum(0), rtol=1e-9)
        np.testing.assert_allclose(db if axis == 0 else db.T, a * w, rtol=1e-9)


@pytest.mark.parametrize("rules", PRODUCT_RULES)
def test_the_derivative_is_linear_in_tangents_mapped_along_any_axis(rules):
    """Differentiated by its tangents alone, an opaque derivative is its own."""
    e = external(product, lambda a, b: a, **PRODUCT_RULES[rules])
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    w = np.arange(1.0, 7.0).reshape(3, 2)

    def f(t):
        pushed = vmap(lambda t: jvp(lambda a: e(a, b), (a,), (t,))[1], 1)(t)
        return (pushed * w).sum()

    t = np.arange(6.0).reshape(2, 3) + 1
    np.testing.assert_allclose(f(t), (t.T * b * w).sum(), rtol=1e-9)
    for g in (grad(f), jit(grad(f)), grad(jit(f))):
        np.testing.assert_allclose(g(t), (b * w).T, rtol=1e-9)
    tangent = jvp(f, (t,), (t,))[1]
    np.testing.assert_allclose(tangent, (t.T * b * w).sum(), rtol=1e-9)


# ---------------------------------------------------------------------------------- differences


def analytic(x):
    return np.exp(x) * np.sin(x) / (1 + x**2)


def analytic_derivative(x):
    y = 1 + x**2
    return np.exp(x) * ((np.sin(x) + np.cos(x)) / y - 2 * x * np.sin(x) / y**2)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_the_complex_step_is_exact(way):
    e = external(analytic, lambda x: x, fd="complex-step")
    found = EVERY_WAY[way](lambda x: (e(x) * W).sum())(X)
    np.testing.assert_allclose(found, analytic_derivative(X) * W, rtol=4e-16 * 4)


def test_central_differences_have_ten_digits():
    x = np.linspace(0.2, 2.9, 23)
    e = external(analytic, lambda x: x, fd="central")
    found = grad(lambda x: e(x).sum())(x)
    np.testing.assert_allclose(found, analytic_derivative(x), rtol=0, atol=2e-10)


@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 1e-9), (np.float32, 1e-4)])
def test_central_differences_step_by_the_precision_and_the_magnitude(dtype, digits):
    e = external(lambda x: np.log(x), lambda x: x, fd="central")
    x = np.array([0.5, 1e3], dtype)
    found = grad(lambda x: e(x).sum())(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, 1 / x, rtol=digits)
    parabola = external(lambda x: x * x, lambda x: x, fd="central")
    large = np.array([1e8], dtype)
    np.testing.assert_allclose(grad(lambda x: parabola(x).sum())(large), 2e8, rtol=digits)


def test_a_direction_of_zeros_has_derivative_zero():
    for fd in ("central", "complex-step"):
        e = external(analytic, lambda x: x, fd=fd)
        np.testing.assert_array_equal(jvp(e, (X,), (np.zeros(3),))[1], np.zeros(3))


def test_a_complex_step_of_a_function_that_drops_the_imaginary_part_is_refused():
    e = external(lambda x: np.real(x) * 2, lambda x: x, fd="complex-step")
    with pytest.raises(errors.CallbackError, match="was called with complex arguments for fd"):
        grad(lambda x: e(x).sum())(X)


def test_complex_arguments_have_no_differences_in_reverse_but_forward():
    e = external(lambda z: z * z, lambda z: z, fd="central")
    z = np.array([1.0 + 2j])
    np.testing.assert_allclose(jvp(e, (z,), (z,))[1], 2 * z * z, rtol=1e-8)
    with pytest.raises(errors.CustomRuleError, match="Reverse mode without a vjp rule of <lambda>"):
        grad(lambda z: abs(e(z)).sum())(z)
    with pytest.raises(errors.CustomRuleError, match="A complex step of <lambda>"):
        jvp(external(lambda z: z, lambda z: z, fd="complex-step"), (z,), (z,))


def test_a_complex_result_of_real_arguments_is_pulled_back():
    e = external(lambda x: x * (2 + 3j), ftrace.ShapeDtypeStruct((), complex), fd="central")
    np.testing.assert_allclose(grad(lambda x: abs(e(x)) ** 2)(1.5), 2 * 13 * 1.5, rtol=1e-8)


def test_a_function_whose_result_changes_shape_nearby_is_refused():
    e = external(
        lambda x: np.ones(2) if x == 0.5 else np.ones(3),
        ftrace.ShapeDtypeStruct((2,), float),
        fd="central",
    )
    with pytest.raises(errors.CallbackError, match="returned another result at arguments nearby"):
        jvp(e, (0.5,), (1.0,))


# ---------------------------------------------------------------------------------- bad rules

BAD = {
    "no tuple": ({"vjp": lambda a, y, ct: ct}, "not a tuple with one cotangent for each of its 1"),
    "shape": ({"vjp": lambda a, y, ct: (ct.sum(),)}, r"returned f64\[\] as cotangent\[0\]"),
    "dtype": ({"vjp": lambda a, y, ct: (ct.astype("f4"),)}, r"returned f32\[3\] as cotangent\[0\]"),
    "tree": ({"vjp": lambda a, y, ct: ((ct, ct),)}, "containers that differ"),
    "tangent": ({"jvp": lambda a, y, t: t[0].sum()}, r"returned f64\[\] as tangent, which must be"),
    "not linear": ({"jvp": lambda a, y, t: t[0] * t[0]}, "cannot be transposed"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_rule_that_returns_the_wrong_thing_is_named(case):
    rules, phrase = BAD[case]
    e = external(opaque, lambda x: x, **rules)
    with pytest.raises(errors.CustomRuleError, match=phrase) as caught:
        grad(lambda x: e(x).sum())(X)
    assert "rule of opaque" in caught.value.what
    assert "test_external.py" in caught.value.where


def test_an_opaque_rule_that_returns_the_wrong_shape_is_named():
    def rule(args, y, ct):
        return (np.zeros(int(float(ct[0])) + 7),)

    with pytest.raises(errors.CustomRuleError, match=r"returned f64\[8\] as cotangent\[0\]"):
        grad(lambda x: external(opaque, lambda x: x, vjp=rule)(x).sum())(X)


def test_options_are_checked():
    with pytest.raises(errors.CustomRuleError, match="fd of external must be one of 'central'"):
        external(opaque, F8, fd="forward")
    with pytest.raises(errors.CustomRuleError, match="jvp of external must be a function"):
        external(opaque, F8, jvp=3)
    with pytest.raises(errors.DtypeError, match="external takes a function first"):
        external(3.0, F8)
    with pytest.raises(errors.CallbackError, match="vmap_method of external"):
        external(opaque, F8, vmap_method="fast")
    with pytest.raises(errors.CallbackError, match=r"external of <lambda> promised f64\[\]"):
        external(lambda x: np.float32(x), F8)(1.0)

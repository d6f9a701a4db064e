"""Rules of every kind: closures, symbolic zeros, adjoints, `custom_gradient`, `custom_rule`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import checkpoint, errors, grad, hessian, jacfwd, jacrev, jit, jvp, lax, vjp, vmap
from ftrace.interpreters.linearize import linearize_flat

X = np.array([0.5, -1.0, 2.0])
W = np.array([1.0, 10.0, 100.0])
T = np.array([0.3, -0.2, 0.7])
XX = np.stack([X, X + 0.25])


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


def total(f):
    return lambda x: np.sum(f(x) * W)


WAYS = {
    "value": lambda f: f(X),
    "jit": lambda f: jit(f)(X),
    "vmap": lambda f: vmap(f)(XX),
    "jvp": lambda f: jvp(f, (X,), (T,))[1],
    "jvp of jit": lambda f: jvp(jit(f), (X,), (T,))[1],
    "jit of jvp": lambda f: jit(lambda x: jvp(f, (x,), (T,))[1])(X),
    "vmap of jvp": lambda f: vmap(lambda x: jvp(f, (x,), (T,))[1])(XX),
    "jvp of vmap": lambda f: jvp(vmap(f), (XX,), (XX * 2,))[1],
    "linearize": lambda f: ftrace.linearize(f, X)[1](T),
    "vjp": lambda f: vjp(f, X)[1](W)[0],
    "grad": lambda f: grad(total(f))(X),
    "grad of jit": lambda f: grad(jit(total(f)))(X),
    "jit of grad": lambda f: jit(grad(total(f)))(X),
    "grad of checkpoint": lambda f: grad(checkpoint(total(f)))(X),
    "grad of cond": lambda f: grad(lambda x: lax.cond(x[0] > 0, total(f), np.sum, x))(X),
    "vmap of grad": lambda f: vmap(grad(total(f)))(XX),
    "jit of vmap of grad": lambda f: jit(vmap(grad(total(f))))(XX),
    "grad of vmap": lambda f: grad(lambda v: np.sum(vmap(f)(v) * W))(XX),
    "grad of vmap of jit": lambda f: grad(lambda v: np.sum(vmap(jit(f))(v) * W))(XX),
    "jacfwd": lambda f: jacfwd(f)(X),
    "jacrev": lambda f: jacrev(f)(X),
    "hessian": lambda f: hessian(total(f))(X),
    "hessian of jit": lambda f: hessian(jit(total(f)))(X),
    "vmap of hessian": lambda f: vmap(hessian(total(f)))(XX),
    "grad of grad": lambda f: grad(lambda x: np.sum(grad(total(f))(x) * T))(X),
    "grad of jvp": lambda f: grad(lambda x: np.sum(jvp(f, (x,), (T,))[1] * W))(X),
    "jvp of jvp": lambda f: jvp(lambda x: jvp(f, (x,), (T,))[1], (X,), (W,))[1],
    "jvp of grad of vmap": lambda f: jvp(
        grad(lambda v: np.sum(vmap(f)(v) * W)), (XX,), (np.ones_like(XX),)
    )[1],
}


def plain(x):
    return np.sin(x) * x * 2.0


def slope(x):
    return 2.0 * (np.sin(x) + x * np.cos(x))


def by_custom_gradient():
    return ftrace.custom_gradient(lambda x: (plain(x), lambda ct: ct * slope(x)))


def by_adjoint():
    f = ftrace.custom_vjp(plain)
    f.defadjoint(lambda ct, y, x: (ct * (y / x + 2.0 * x * np.cos(x)),))
    return f


def by_symbolic_vjp():
    f = ftrace.custom_vjp(plain)
    f.defvjp(
        lambda x: (plain(x.value), x.value), lambda x, ct: (ct * slope(x),), symbolic_zeros=True
    )
    return f


def by_symbolic_jvp():
    f = ftrace.custom_jvp(plain)
    f.defjvp(lambda p, t: (f(*p), t[0] * slope(p[0])), symbolic_zeros=True)
    return f


def rule(**rules):
    return ftrace.custom_rule(plain, **rules)


def batched(size, in_batched, x):
    return plain(x), in_batched[0]


RULES = {
    "custom_gradient": by_custom_gradient(),
    "adjoint": by_adjoint(),
    "vjp with symbolic zeros": by_symbolic_vjp(),
    "jvp with symbolic zeros": by_symbolic_jvp(),
    "jvp": rule(jvp=lambda p, t: (plain(*p), t[0] * slope(*p))),
    "vjp": rule(vjp=lambda ct, y, x: ct * slope(x)),
    "vjp pair": rule(vjp=(lambda x: (plain(x), x), lambda x, ct: (ct * slope(x),))),
    "jvp and vjp": rule(
        jvp=lambda p, t: (plain(*p), t[0] * slope(*p)), vjp=lambda ct, y, x: ct * slope(x)
    ),
    "batch": rule(batch=batched),
    "batch and jvp": rule(batch=batched, jvp=lambda p, t: (plain(*p), t[0] * slope(*p))),
    "batch and vjp": rule(batch=batched, vjp=lambda ct, y, x: ct * slope(x)),
    "lower": rule(lower=lambda x: x * np.sin(x) * 2.0),
    "everything": rule(
        batch=batched,
        jvp=lambda p, t: (plain(*p), t[0] * slope(*p)),
        vjp=lambda ct, y, x: ct * slope(x),
        lower=lambda x: x * np.sin(x) * 2.0,
    ),
    "diagonal": rule(jacobian=lambda y, x: ftrace.Diagonal(slope(x))),
    "dense": rule(jacobian=lambda y, x: np.eye(3) * slope(x)),
    "products": rule(
        jacobian=lambda y, x: ftrace.Products(lambda ct: ct * slope(x), lambda t: t * slope(x))
    ),
    "left product": rule(jacobian=lambda y, x: ftrace.Products(left=lambda ct: ct * slope(x))),
    "right product": rule(jacobian=lambda y, x: ftrace.Products(right=lambda t: t * slope(x))),
}


@pytest.mark.sampled(3, each="name")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RULES)
def test_a_right_rule_of_any_kind_changes_nothing(name, way):
    close(WAYS[way](RULES[name]), WAYS[way](plain))


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_compiled_programs_agree(name):
    f = RULES[name]
    for way in ("jit", "jit of jvp", "jit of grad", "jit of vmap of grad"):
        close(WAYS[way](f), WAYS[way](plain))


FIRST_ORDER = [w for w in WAYS if w not in ("value", "jit", "vmap")]
TRIPLED = {
    "custom_gradient": ftrace.custom_gradient(lambda x: (plain(x), lambda ct: 3.0 * ct * slope(x))),
    "vjp": rule(vjp=lambda ct, y, x: 3.0 * ct * slope(x)),
    "jvp": rule(jvp=lambda p, t: (plain(*p), 3.0 * t[0] * slope(*p))),
    "both": rule(
        jvp=lambda p, t: (plain(*p), 3.0 * t[0] * slope(*p)),
        vjp=lambda ct, y, x: 3.0 * ct * slope(x),
        batch=batched,
    ),
    "diagonal": rule(jacobian=lambda y, x: ftrace.Diagonal(3.0 * slope(x))),
    "products": rule(
        jacobian=lambda y, x: ftrace.Products(
            lambda ct: 3.0 * ct * slope(x), lambda t: 3.0 * t * slope(x)
        )
    ),
}


@pytest.mark.sampled(3, each="name")
@pytest.mark.parametrize("way", FIRST_ORDER)
@pytest.mark.parametrize("name", TRIPLED)
def test_a_rule_is_what_is_used(name, way):
    close(WAYS[way](TRIPLED[name]), 3.0 * np.asarray(WAYS[way](plain)))


# ---------------------------------------------------------------------------------- closures


def jvp_rule_that_reads(c):
    """The identity, whose derivative is said to be c."""
    f = ftrace.custom_jvp(lambda y: y * 1.0)
    f.defjvp(lambda p, t: (f(*p), t[0] * c))
    return f


def bwd_rule_that_reads(c):
    f = ftrace.custom_vjp(lambda y: y * 1.0)
    f.defvjp(lambda y: (f(y), None), lambda _, ct: (ct * c,))
    return f


def fwd_rule_that_reads(c):
    f = ftrace.custom_vjp(lambda y: y * 1.0)
    f.defvjp(lambda y: (f(y), c), lambda c, ct: (ct * c,))
    return f


def adjoint_that_reads(c):
    return ftrace.custom_rule(lambda y: y * 1.0, vjp=lambda ct, y, x: ct * c)


def jacobian_that_reads(c):
    return ftrace.custom_rule(lambda y: y * 1.0, jacobian=lambda y, x: ftrace.Diagonal(c))


def products_that_read(c):
    return ftrace.custom_rule(
        lambda y: y * 1.0,
        jacobian=lambda y, x: ftrace.Products(lambda ct: ct * c, lambda t: t * c),
    )


def both_that_read(c):
    return ftrace.custom_rule(
        lambda y: y * 1.0,
        jvp=lambda p, t: (p[0] * 1.0, t[0] * c),
        vjp=lambda ct, y, x: ct * c,
    )


READERS = [
    jvp_rule_that_reads,
    bwd_rule_that_reads,
    fwd_rule_that_reads,
    adjoint_that_reads,
    jacobian_that_reads,
    products_that_read,
    both_that_read,
]


@pytest.mark.parametrize("make", READERS)
def test_a_rule_closes_over_what_is_being_differentiated(make):
    """F(x) = identity(x * x) whose derivative is said to be sin(x): F' = 2 x sin(x)."""

    def f(x):
        return make(np.sin(x))(x * x)

    def first(x):
        return 2.0 * x * np.sin(x)

    def second(x):
        return 2.0 * (np.sin(x) + x * np.cos(x))

    for g in (f, jit(f), checkpoint(f)):
        close(g(X), X * X)
        close(vmap(g)(XX), XX * XX)
        close(grad(total(g))(X), W * first(X))
        close(jit(grad(total(g)))(X), W * first(X))
        close(vmap(grad(total(g)))(XX), W * first(XX))
        close(jit(vmap(grad(total(g))))(XX), W * first(XX))
        close(grad(lambda v, g=g: np.sum(vmap(g)(v) * W))(XX), W * first(XX))
        close(jvp(g, (X,), (T,))[1], T * first(X))
        close(vmap(lambda x, g=g: jvp(g, (x,), (T,))[1])(XX), T * first(XX))
        close(np.diag(hessian(total(g))(X)), W * second(X))
        close(np.diag(jacrev(jacrev(total(g)))(X)), W * second(X))
        close(np.diag(jacfwd(jacfwd(total(g)))(X)), W * second(X))


@pytest.mark.parametrize("make", READERS)
def test_a_rule_closes_over_a_value_of_an_outer_transformation(make):
    """D/dc of the gradient at 2 of (identity whose derivative is c * c)."""

    def slope_at_two(c):
        return grad(lambda y: make(c * c)(y))(2.0)

    for g in (slope_at_two, jit(slope_at_two)):
        close(g(3.0), 9.0)
        close(grad(g)(3.0), 6.0)
        close(jvp(g, (3.0,), (0.5,))[1], 3.0)
        close(vmap(g)(X), X * X)
        close(vmap(grad(g))(X), 2.0 * X)


@pytest.mark.parametrize("through", [jit, checkpoint, vmap, lambda f: f])
def test_a_function_closes_over_staged_and_mapped_values(through):
    def f(x, n):
        @ftrace.custom_jvp
        def scaled(y):
            return y * lax.stop_gradient(x) * n

        scaled.defjvp(lambda p, t: (scaled(*p), t[0] * 7.0))
        return scaled(x + 1.0)

    ns = np.array([2, 3, 4])
    g = through(f) if through is not vmap else vmap(f)
    close(g(X, ns), (X + 1.0) * X * ns)
    close(jit(g)(X, ns), (X + 1.0) * X * ns)
    close(grad(lambda x: np.sum(g(x, ns) * W))(X), 7.0 * W)


@pytest.mark.parametrize("staging", [lambda f: f, jit])
def test_a_function_may_not_close_over_what_is_being_differentiated(staging):
    def with_jvp(x):
        f = ftrace.custom_jvp(lambda y: y * x)
        f.defjvp(lambda p, t: (f(*p), t[0]))
        return f(2.0)

    def with_vjp(x):
        f = ftrace.custom_vjp(lambda y: y * x)
        f.defvjp(lambda y: (f(y), None), lambda _, ct: (ct,))
        return f(2.0)

    for f in (with_jvp, with_vjp):
        assert staging(f)(3.0) == 6.0
        close(vmap(staging(f))(X), 2.0 * X)
        for way in (grad(staging(f)), lambda x, f=f: jvp(staging(f), (x,), (1.0,))):
            with pytest.raises(errors.CustomRuleError, match=r"closes over a traced value that is"):
                way(3.0)


def test_a_captured_value_may_be_anywhere_in_a_closure():
    import functools

    def f(x):
        table = {"scales": [x, 2.0]}

        def helper(t, scale=x * x):
            return t * table["scales"][0] * scale

        def power(a, t):
            return t * a

        g = ftrace.custom_jvp(lambda y: y * 1.0)
        bound = functools.partial(power, x)
        g.defjvp(lambda p, t: (g(*p), helper(t[0]) + bound(t[0])))
        return g(x)

    close(grad(f)(3.0), 27.0 + 3.0)
    close(grad(grad(f))(3.0), 27.0 + 1.0)
    close(vmap(grad(f))(X), X**3 + X)
    close(jit(grad(f))(3.0), 30.0)


def test_a_captured_value_may_be_inside_a_transformed_function():
    def f(x):
        inner = grad(lambda y: y * y * x)
        g = ftrace.custom_jvp(lambda y: y * 1.0)
        g.defjvp(lambda p, t: (g(*p), t[0] * inner(p[0])))
        return g(x)

    close(grad(f)(3.0), 18.0)
    close(grad(grad(f))(3.0), 12.0)


def test_a_captured_value_inside_a_jitted_function_is_refused_and_not_stale():
    def f(x):
        inner = jit(lambda y: y * x)
        g = ftrace.custom_jvp(lambda y: y * 1.0)
        g.defjvp(lambda p, t: (g(*p), inner(t[0])))
        return g(x)

    for _ in range(2):
        with pytest.raises(errors.UnexpectedTracerError, match="Pass the value as an argument"):
            grad(f)(3.0)


def test_a_captured_value_inside_a_checkpointed_function_is_refused_and_not_stale():
    def f(x):
        inner = checkpoint(lambda y: y * x)
        g = ftrace.custom_jvp(lambda y: y * 1.0)
        g.defjvp(lambda p, t: (g(*p), jit(inner)(t[0])))
        return g(x)

    with pytest.raises(errors.UnexpectedTracerError, match="Pass the value as an argument"):
        grad(f)(3.0)


def test_a_name_that_is_rebound_between_calls_is_not_stale():
    def f(x):
        scale = x
        inner = grad(lambda y: y * scale)
        g = ftrace.custom_jvp(lambda y: y * 1.0)
        g.defjvp(lambda p, t: (g(*p), t[0] * jit(inner)(1.0)))
        y = g(x)
        scale = x * x
        return g(y)

    close(grad(f)(3.0), 3.0 * 9.0)
    close(jvp(f, (3.0,), (1.0,))[1], 27.0)


def test_a_captured_value_inside_a_function_that_calls_itself():
    def f(x):
        def power(n):
            return x * power(n - 1) if n else 1.0

        g = ftrace.custom_jvp(lambda y: y * 1.0)
        g.defjvp(lambda p, t: (g(*p), t[0] * power(3)))
        return g(x)

    close(grad(f)(3.0), 27.0)
    close(grad(grad(f))(3.0), 27.0)


@pytest.mark.parametrize("make", READERS)
def test_what_is_captured_and_what_is_an_operand_may_be_mapped_differently(make):
    def f(c, y):
        return make(np.sin(c))(y * y)

    def expected(c, y):
        return 2.0 * y * np.sin(c)

    for g in (f, jit(f)):
        each = vmap(grad(g, 1), (None, 0))
        close(each(2.0, X), expected(2.0, X))
        close(vmap(grad(g, 1), (0, None))(X, 2.0), expected(X, 2.0))
        close(grad(lambda y, g=g: np.sum(vmap(g, (None, 0))(2.0, y) * W))(X), W * expected(2.0, X))
        summed = grad(lambda y, g=g: np.sum(vmap(g, (0, None))(X, y) * W))
        close(summed(2.0), np.sum(W * expected(X, 2.0)))
        close(grad(lambda c, g=g: np.sum(vmap(g, (None, 0))(c, X)))(2.0), 0.0)


def test_a_rule_of_a_function_that_cannot_be_traced_may_close_over_anything():
    def f(x):
        return ftrace.custom_rule(opaque, vjp=lambda ct, y, v: ct * x)(x * 2.0)

    close(grad(f)(3.0), 6.0)


def test_the_rest_of_a_closure_is_shared_with_the_original():
    calls = 0
    seen: list[Any] = []

    def f(x):
        g = ftrace.custom_jvp(lambda y: y * 1.0)

        def rule(p, t):
            nonlocal calls
            calls += 1
            seen.append(calls)
            return g(*p), t[0] * x

        g.defjvp(rule)
        return g(x)

    grad(f)(3.0)
    grad(f)(3.0)
    assert calls == 2
    assert seen == [1, 2]


def test_python_control_flow_in_a_rule_that_closes_over_a_value():
    def f(x):
        g = ftrace.custom_jvp(lambda y: y * 1.0 if y > 0 else -y)
        g.defjvp(lambda p, t: (g(*p), t[0] * (x if x > 1.0 else 100.0)))
        return g(x)

    assert grad(f)(3.0) == 3.0
    assert grad(f)(0.5) == 100.0


def test_nondiff_functions_may_close_over_values():
    from functools import partial

    @partial(ftrace.custom_vjp, nondiff_argnums=(0,))
    def apply(fun, x):
        return fun(x)

    apply.defvjp(lambda fun, x: (fun(x), x), lambda fun, x, ct: (ct * fun(x) * 10.0,))

    def f(c, x):
        return apply(lambda y: y * lax.stop_gradient(c), x)

    close(grad(f, 1)(3.0, 2.0), 60.0)
    close(vmap(grad(f, 1))(X, X), X * X * 10.0)
    close(jit(grad(f, 1))(3.0, 2.0), 60.0)
    with pytest.raises(errors.CustomRuleError, match="closes over"):
        grad(lambda c: apply(lambda y: y * c, 2.0))(3.0)


def test_closure_convert_hoists_what_is_differentiated():
    from functools import partial

    @partial(ftrace.custom_vjp, nondiff_argnums=(0,))
    def apply(fun, x, *consts):
        return fun(x, *consts)

    def bwd(fun, residuals, ct):
        x, consts = residuals
        _, pull = vjp(fun, x, *consts)
        return tuple(7.0 * g for g in pull(ct))

    apply.defvjp(lambda fun, x, *consts: (fun(x, *consts), (x, consts)), bwd)

    def f(c, n):
        scale = np.array([1.0, 2.0, 3.0])
        converted, hoisted = ftrace.closure_convert(lambda y: np.sum(y * c * scale) * n, X)
        assert all(h.dtype.kind == "f" for h in hoisted)
        return apply(converted, X, *hoisted)

    expected = 7.0 * 2 * np.sum(X * np.array([1.0, 2.0, 3.0]))
    close(f(5.0, 2), expected * 5.0 / 7.0)
    close(grad(f)(5.0, 2), expected)
    close(jit(grad(f))(5.0, 2), expected)
    close(vmap(grad(f), (0, None))(X, 2), expected)


def test_closure_convert_of_containers():
    def f(p):
        converted, hoisted = ftrace.closure_convert(lambda q: {"y": q["a"] * p["b"]}, {"a": 1.0})
        assert len(hoisted) == 1
        return converted({"a": 4.0}, *hoisted)["y"]

    assert grad(f)({"b": 2.0}) == {"b": 4.0}
    converted, hoisted = ftrace.closure_convert(lambda x, y: x + y, 1.0, X)
    assert hoisted == []
    close(converted(1.0, X), X + 1.0)


# ---------------------------------------------------------------------------------- symbolic zeros


def noting(seen):
    @ftrace.custom_vjp
    def f(x, y, n):
        return {"product": x * y, "sum": x + y, "n": n}

    def fwd(x, y, n):
        seen.append([a.perturbed for a in (x, y, n)])
        residuals = (x.value, y.value) if x.perturbed else (x.value + 0.0,)
        return f(x.value, y.value, n.value), residuals

    def bwd(residuals, ct):
        seen.append([type(c) is ftrace.SymbolicZero for c in (ct["product"], ct["sum"], ct["n"])])
        dx = residuals[1] * ct["product"] if len(residuals) == 2 else None
        return dx, residuals[0] * ct["product"], None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f


@pytest.mark.parametrize("staging", [lambda f: f, jit])
def test_symbolic_zeros_say_what_is_differentiated(staging):
    seen: list[Any] = []
    f = noting(seen)
    both = staging(grad(lambda x, y: f(x, y, 3)["product"], (0, 1)))
    close(both(2.0, 5.0), (5.0, 2.0))
    assert seen == [[True, True, False], [False, True, True]]
    seen.clear()
    close(staging(grad(lambda y: f(2.0, y, 3)["product"]))(5.0), 2.0)
    assert seen == [[False, True, False], [False, True, True]]


@pytest.mark.parametrize("staging", [lambda f: f, jit])
def test_symbolic_zeros_of_one_staged_call_differentiated_in_two_ways(staging):
    f = noting([])
    g = staging(lambda x, y: f(x, y, 3)["product"] * 1.0)
    for _ in range(2):
        close(grad(g, (0, 1))(2.0, 5.0), (5.0, 2.0))
        close(grad(g, 1)(2.0, 5.0), 2.0)
    close(vmap(grad(g, (0, 1)))(X, W), (W, X))
    close(vmap(grad(g, 1), (None, 0))(2.0, W), [2.0, 2.0, 2.0])
    close(grad(lambda x: np.sum(vmap(g, (None, 0))(x, W)))(2.0), np.sum(W))
    close(grad(lambda y: np.sum(vmap(g, (0, None))(X, y) * W))(5.0), np.sum(X * W))
    close(jvp(g, (2.0, 5.0), (1.0, 0.5))[1], 5.0 + 1.0)
    close(grad(lambda x: grad(g, 1)(x, 5.0))(2.0), 1.0)


def test_a_symbolic_zero_has_a_shape_and_a_dtype():
    shapes = []
    f = ftrace.custom_vjp(lambda x: (x, np.sum(x)))

    def bwd(_, ct):
        shapes.append((ct[0].shape, ct[0].dtype, type(ct[0])))
        return (np.full(3, 2.0) * ct[1],)

    f.defvjp(lambda x: ((x.value, np.sum(x.value)), None), bwd, symbolic_zeros=True)
    close(grad(lambda x: f(x)[1])(X), [2.0, 2.0, 2.0])
    assert shapes == [((3,), np.dtype(float), ftrace.SymbolicZero)]


@pytest.mark.parametrize("staging", [lambda f: f, jit])
def test_a_jvp_rule_is_shown_symbolic_zeros(staging):
    seen = []

    @ftrace.custom_jvp
    def f(x, y):
        return x * y

    def rule(primals, tangents):
        zero = [type(t) is ftrace.SymbolicZero for t in tangents]
        seen.append(zero)
        x, y = primals
        parts = [t * o for t, o, z in zip(tangents, (y, x), zero, strict=True) if not z]
        return f(x, y), 10.0 * sum(parts)

    f.defjvp(rule, symbolic_zeros=True)
    g = staging(f)
    close(grad(g)(2.0, 5.0), 50.0)
    close(grad(g, 1)(2.0, 5.0), 20.0)
    close(grad(g, (0, 1))(2.0, 5.0), (50.0, 20.0))
    assert seen[:3] == [[False, True], [True, False], [False, False]]
    close(vmap(grad(g, 1), (0, None))(X, 5.0), 10.0 * X)
    close(grad(lambda y: np.sum(vmap(g, (0, None))(X, y)))(5.0), 10.0 * np.sum(X))


# ---------------------------------------------------------------------------------- residuals


def residuals_of(f, *args):
    _, tape = linearize_flat(lambda *xs: [f(*xs)], args, outlives=True)
    found = {id(r): r for r in tape.residuals()}
    return list(found.values())


def test_an_adjoint_that_reads_the_result_keeps_the_result_only():
    tanh = ftrace.custom_vjp(lambda x: np.tanh(x))
    tanh.defadjoint(lambda ct, y, x: (1 - y * y) * ct)
    (kept,) = residuals_of(tanh, X)
    np.testing.assert_array_equal(kept, np.tanh(X))
    assert kept.nbytes == X.nbytes
    close(grad(total(tanh))(X), W * (1 - np.tanh(X) ** 2))


@pytest.mark.parametrize(
    ("adjoint", "kept"),
    [
        (lambda ct, y, a, b: (ct * b, ct * a), [0, 1]),
        (lambda ct, y, a, b: (ct * b, None), [1]),
        (lambda ct, y, a, b: (ct, -ct), []),
        (lambda ct, y, a, b: (ct * np.sin(b) * 0 + ct, ct * b), [1]),
    ],
)
def test_only_the_arguments_that_an_adjoint_reads_are_kept(adjoint, kept):
    f = ftrace.custom_vjp(lambda a, b: a * b)
    f.defadjoint(adjoint)
    found = residuals_of(f, X, W)
    for i, x in enumerate((X, W)):
        assert any(np.array_equal(r, x) for r in found) == (i in kept)
    assert not any(np.array_equal(r, X * W) for r in found)


def test_what_the_backward_function_captured_is_a_residual():
    @ftrace.custom_gradient
    def f(x, y):
        large = np.exp(x)
        return large * y, lambda ct: (ct * large * y, ct * large)

    found = residuals_of(f, X, W)
    assert any(np.array_equal(r, np.exp(X)) for r in found)
    assert not any(np.array_equal(r, X) for r in found)


def test_a_diagonal_is_the_only_residual():
    f = ftrace.custom_rule(
        lambda x: np.exp(x), jacobian=lambda y, x: ftrace.Diagonal(np.sqrt(y * y))
    )
    (kept,) = residuals_of(f, X)
    np.testing.assert_array_equal(kept, np.sqrt(np.exp(X) ** 2))


def test_a_large_array_that_products_close_over_is_protected():
    n = 20_000
    x = np.linspace(1.0, 2.0, n)
    square = ftrace.custom_rule(
        lambda x: x * x, jacobian=lambda y, x: ftrace.Products(left=lambda ct: 2.0 * x * ct)
    )
    _, pull = vjp(square, x)
    x[:] = 0.0
    close(pull(np.ones(n))[0], 2.0 * np.linspace(1.0, 2.0, n))


# ---------------------------------------------------------------------------------- custom_gradient


def test_custom_gradient_of_several_arguments_and_containers():
    @ftrace.custom_gradient
    def f(params, x, scale=2.0):
        y = params["w"] * x * scale

        def pull(ct):
            return {"w": ct["y"] * x * 10.0}, ct["y"] * params["w"] * 100.0, None

        return {"y": y}, pull

    def loss(p, x):
        return f(p, x, scale=3.0)["y"]

    assert loss({"w": 2.0}, 5.0) == 30.0
    assert grad(loss, (0, 1))({"w": 2.0}, 5.0) == ({"w": 50.0}, 200.0)
    assert jit(grad(loss, (0, 1)))({"w": 2.0}, 5.0) == ({"w": 50.0}, 200.0)


def test_a_backward_function_that_is_not_linear_works_in_reverse_mode():
    @ftrace.custom_gradient
    def f(x):
        return x * 1.0, lambda ct: np.clip(ct, -1.0, 1.0)

    g = total(f)
    for h in (g, jit(g)):
        close(grad(h)(X), [1.0, 1.0, 1.0])
        with pytest.raises(errors.CustomRuleError, match="linear in the cotangents"):
            jvp(h, (X,), (T,))


# ---------------------------------------------------------------------------------- linearity

AFFINE = {
    "a sum": lambda ct: ct + 1.0,
    "a difference": lambda ct: W - ct,
    "a constant": lambda ct: W * 1.0,
    "a choice": lambda ct: np.where(W > 5.0, ct, 2.0),
    "a row of a matrix": lambda ct: np.stack([ct, W])[0],
    "a padded array": lambda ct: np.pad(ct, 1, constant_values=3.0)[:3],
    "inside jit": lambda ct: jit(lambda c: c + W)(ct),
    "inside cond": lambda ct: lax.cond(W[0] > 0, lambda c: c + W, lambda c: c, ct),
    "a branch": lambda ct: lax.cond(ct.size > 0, lambda c: c, lambda c: W * 1.0, ct),
}
LINEAR = {
    "a product": lambda ct: W * ct,
    "a choice of zero": lambda ct: np.where(W > 5.0, ct, 0.0),
    "a sum with zeros": lambda ct: ct + np.zeros(3),
    "a padded array": lambda ct: np.pad(ct, 1)[:3],
    "inside jit": lambda ct: jit(lambda c: c * W + c)(ct),
    "inside cond": lambda ct: lax.cond(W[0] > 0, lambda c: c * W, lambda c: 0.0 * W, ct),
    "a sum with zeros of another dtype": lambda ct: ct + np.zeros(3, np.float32),
    "a write into zeros": lambda ct: fnp.at(fnp.zeros(3))[1:].set(ct[1:]),
}


def replaced(change):
    return lambda x: ftrace.replace_gradient(x, change)


@pytest.mark.parametrize("name", AFFINE)
def test_forward_mode_refuses_what_is_not_linear(name):
    f = replaced(AFFINE[name])
    grad(total(f))(X)
    for g in (f, jit(f)):
        with pytest.raises(errors.CustomRuleError, match="linear in the cotangents"):
            jvp(g, (X,), (T,))
    with pytest.raises(errors.CustomRuleError, match="linear in the cotangents"):
        vmap(lambda x: jvp(f, (x,), (T,)))(XX)
    with pytest.raises(errors.CustomRuleError, match="linear in the cotangents"):
        jit(lambda x: jvp(f, (x,), (T,)))(X)
    with pytest.raises(errors.CustomRuleError, match="linear in the cotangents"):
        jvp(lambda x: jvp(f, (x,), (T,))[1], (X,), (T,))


@pytest.mark.parametrize("name", LINEAR)
def test_forward_mode_is_the_transpose_of_what_is_linear(name):
    f = replaced(LINEAR[name])
    J = jacrev(f)(X)
    close(jvp(f, (X,), (T,))[1], J @ T)
    close(jit(lambda x: jvp(f, (x,), (T,))[1])(X), J @ T)
    close(vmap(lambda x: jvp(f, (x,), (T,))[1])(XX), [J @ T] * 2)
    close(jacfwd(f)(X), J)


# ---------------------------------------------------------------------------------- custom_rule


def counted(counts, name, fn):
    def counting(*args):
        counts[name] = counts.get(name, 0) + 1
        return fn(*args)

    return counting


def test_each_product_is_used_in_its_mode_and_the_jacobian_only_in_derivatives():
    counts: dict[str, int] = {}
    A = np.arange(6.0).reshape(2, 3)
    left = counted(counts, "left", lambda ct: A.T @ ct)
    right = counted(counts, "right", lambda t: A @ t)
    jacobian = counted(counts, "jacobian", lambda y, x: ftrace.Products(left, right))
    f = ftrace.custom_rule(lambda x: A @ x, jacobian=jacobian)
    close(f(X), A @ X)
    close(vmap(f)(XX), XX @ A.T)
    close(jit(f)(X), A @ X)
    assert counts == {}
    close(vjp(f, X)[1](np.array([1.0, 2.0]))[0], A.T @ [1.0, 2.0])
    assert counts == {"jacobian": 1, "left": 1}
    counts.clear()
    close(jvp(f, (X,), (T,))[1], A @ T)
    assert counts == {"jacobian": 1, "right": 1}
    counts.clear()
    close(grad(lambda v: np.sum(vmap(f)(v)))(XX), [A.sum(0)] * 2)
    assert counts == {"jacobian": 1, "left": 1}
    counts.clear()
    close(jacrev(f)(X), A)
    close(jacfwd(f)(X), A)


def test_gradients_of_several_variables():
    """pqR: s = a^2 + b^2, compute gradient of s^2 with 4 s a and 4 s b."""
    f = ftrace.custom_rule(
        lambda a, b: (a**2 + b**2) ** 2,
        jacobian=lambda y, a, b: (4 * (a**2 + b**2) * a, ftrace.Diagonal(4 * (a**2 + b**2) * b)),
    )
    close(grad(f, (0, 1))(1.0, 2.0), (20.0, 40.0))
    close(jit(grad(f, (0, 1)))(1.0, 2.0), (20.0, 40.0))
    close(vmap(grad(f, 1))(X, W), 4 * (X**2 + W**2) * W)
    close(hessian(f)(1.0, 2.0), 4 * (1 + 4) + 8)
    constant = ftrace.custom_rule(lambda a, b: a * b, jacobian=lambda y, a, b: (None, a))
    close(grad(constant, (0, 1))(3.0, 5.0), (0.0, 3.0))


def test_a_dense_jacobian_of_any_ranks():
    A = np.arange(24.0).reshape(2, 4, 3)
    f = ftrace.custom_rule(lambda x: A @ x, jacobian=lambda y, x: A)
    close(jacrev(f)(X), A)
    close(jacfwd(f)(X), A)
    g = ftrace.custom_rule(lambda s: s * X, jacobian=lambda y, s: X)
    close(jacfwd(g)(2.0), X)
    close(jacrev(g)(2.0), X)
    h = ftrace.custom_rule(lambda x: np.sum(x**2), jacobian=lambda y, x: 2 * x)
    close(grad(h)(X), 2 * X)
    close(hessian(h)(X), 2 * np.eye(3))
    m = ftrace.custom_rule(lambda M: np.sum(M, axis=0), jacobian=lambda y, M: np.eye(3)[:, None, :])
    with pytest.raises(errors.CustomRuleError, match="dense"):
        jacfwd(m)(XX)


def opaque(x):
    """A function that only plain arrays can go through."""
    if isinstance(x, ftrace.Tracer):
        raise TypeError(f"opaque was given {type(x)}")
    return np.vectorize(lambda v: float(v) ** 3)(x)[()]


OPAQUE = {
    "vjp": {"vjp": lambda ct, y, x: ct * 3 * x * x},
    "jvp": {"jvp": lambda p, t: (OWN["f"](*p), 3 * p[0] ** 2 * t[0])},
    "jacobian": {"jacobian": lambda y, x: ftrace.Diagonal(3 * x * x)},
}
OWN: dict[str, Any] = {}


@pytest.mark.parametrize("name", OPAQUE)
def test_a_function_that_cannot_be_traced_has_derivatives_by_its_rules(name):
    f = OWN["f"] = ftrace.custom_rule(opaque, **OPAQUE[name])
    close(f(X), X**3)
    close(grad(total(f))(X), 3 * X * X * W)
    close(jvp(f, (X,), (T,))[1], 3 * X * X * T)
    close(np.diag(hessian(total(f))(X)), 6 * X * W)
    close(grad(grad(grad(f)))(2.0), 6.0)
    with pytest.raises(TypeError, match="opaque was given"):
        jit(f)(X)
    compiled = OWN["f"] = ftrace.custom_rule(opaque, lower=lambda x: x * x * x, **OPAQUE[name])
    close(compiled(X), X**3)
    close(jit(compiled)(X), X**3)
    close(jit(grad(total(compiled)))(X), 3 * X * X * W)
    close(grad(jit(total(compiled)))(X), 3 * X * X * W)
    close(np.diag(jit(hessian(total(compiled)))(X)), 6 * X * W)
    mapped = OWN["f"] = ftrace.custom_rule(
        opaque, batch=lambda n, b, x: (opaque(x), True), **OPAQUE[name]
    )
    close(vmap(mapped)(XX), XX**3)
    close(vmap(grad(total(mapped)))(XX), 3 * XX**2 * W)
    close(grad(lambda v: np.sum(vmap(mapped)(v) * W))(XX), 3 * XX**2 * W)


def test_lower_is_used_in_traced_programs_only():
    f = ftrace.custom_rule(lambda x: x, lower=lambda x: x + 100.0)
    assert f(1.0) == 1.0
    assert jit(f)(1.0) == 101.0
    assert vmap(f)(X)[0] == 0.5
    assert lax.cond(True, f, f, 1.0) == 101.0


def test_both_rules_are_used_each_in_its_mode():
    f = ftrace.custom_rule(
        lambda x: x * x, jvp=lambda p, t: (p[0] * p[0], 7.0 * t[0]), vjp=lambda ct, y, x: 11.0 * ct
    )
    for g in (f, jit(f), checkpoint(f)):
        close(jvp(g, (X,), (T,))[1], 7.0 * T)
        close(vmap(lambda x, g=g: jvp(g, (x,), (T,))[1])(XX), [7.0 * T] * 2)
        close(jvp(vmap(g), (XX,), (XX,))[1], 7.0 * XX)
        close(grad(total(g))(X), 11.0 * W)
        close(vmap(grad(total(g)))(XX), [11.0 * W] * 2)
        close(grad(lambda v, g=g: np.sum(vmap(g)(v) * W))(XX), [11.0 * W] * 2)
        close(jit(grad(total(g)))(X), 11.0 * W)


@pytest.mark.parametrize("axes", [(None, 0), (0, None), (0, 0)])
def test_both_rules_under_vmap_of_some_operands(axes):
    f = ftrace.custom_rule(
        lambda a, b: a * b,
        jvp=lambda p, t: (p[0] * p[1], 7.0 * (t[0] * p[1] + p[0] * t[1])),
        vjp=lambda ct, y, a, b: (11.0 * ct * b, 11.0 * ct * a),
    )
    args = [X if a == 0 else c for a, c in zip(axes, (2.0, 5.0), strict=True)]
    for staging in (lambda g: g, jit):
        g = vmap(staging(f), axes)
        for i in (0, 1):
            one = lambda x, g=g, i=i: g(*[x if k == i else a for k, a in enumerate(args)])  # noqa: E731
            t = np.cos(args[i])
            close(jvp(one, (args[i],), (t,))[1], 7.0 * t * args[1 - i] * np.ones(3))
            expected = 11.0 * W * args[1 - i]
            close(grad(total(one))(args[i]), expected if axes[i] == 0 else np.sum(expected))


def test_both_rules_where_a_vector_is_the_same_for_every_member():
    f = ftrace.custom_rule(
        lambda a, b: a * b,
        jvp=lambda p, t: (p[0] * p[1], 7.0 * (t[0] * p[1] + p[0] * t[1])),
        vjp=lambda ct, y, a, b: (11.0 * ct * b, 11.0 * ct * a),
    )
    g = vmap(f, (None, 0))
    close(jvp(lambda a: g(a, XX), (W,), (T,))[1], 7.0 * T * XX)
    close(grad(lambda a: np.sum(g(a, XX)))(W), 11.0 * XX.sum(axis=0))


def test_rules_of_containers():
    f = ftrace.custom_rule(
        lambda p, x: {"y": p["w"] * x},
        jvp=lambda p, t: (
            {"y": p[0]["w"] * p[1]},
            {"y": 5.0 * (t[0]["w"] * p[1] + p[0]["w"] * t[1])},
        ),
        vjp=lambda ct, y, p, x: ({"w": 5.0 * ct["y"] * x}, 5.0 * ct["y"] * p["w"]),
        batch=lambda n, b, p, x: ({"y": p["w"] * x}, {"y": True}),
    )
    assert grad(lambda p, x: f(p, x)["y"], (0, 1))({"w": 2.0}, 3.0) == ({"w": 15.0}, 10.0)
    assert jvp(f, ({"w": 2.0}, 3.0), ({"w": 1.0}, 0.0))[1] == {"y": 15.0}
    got = vmap(grad(lambda p, x: f(p, x)["y"], 1), (None, 0))({"w": 2.0}, X)
    close(got, [10.0] * 3)


def test_methods_may_have_rules_of_every_kind():
    @dataclass
    class Power:
        scale: Any

        apply = ftrace.custom_rule(
            lambda self, x: self.scale * x**3,
            vjp=lambda ct, y, p, x: (Power(ct * x**3), 30.0 * ct * p.scale * x**2),
        )

    assert Power(2.0).apply(3.0) == 54.0
    assert grad(lambda x: Power(2.0).apply(x))(3.0) == 540.0
    assert grad(lambda p: p.apply(3.0))(Power(2.0)).scale == 27.0

    class Plain:
        apply = Power.apply

    with pytest.raises(errors.DtypeError, match="self"):
        Plain().apply(2.0)


def test_rules_inside_loops():
    step = ftrace.custom_rule(lambda x: x * x, jacobian=lambda y, x: ftrace.Diagonal(2 * x))

    def power(x):
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, step(c[1])), (0, x))[1]

    close(power(1.1), 1.1**8)
    close(jvp(power, (1.1,), (1.0,))[1], 8 * 1.1**7)
    close(jvp(lambda x: jvp(power, (x,), (1.0,))[1], (1.1,), (1.0,))[1], 56 * 1.1**6)
    close(vmap(lambda x: jvp(power, (x,), (1.0,))[1])(X), 8 * X**7)


def test_a_choice_of_a_rule_contributes_nothing_where_it_is_not_taken():
    root = ftrace.custom_rule(np.sqrt, vjp=lambda ct, y, x: 0.5 * ct / y)

    def f(x):
        return np.where(x > 0, root(x), 0.0)

    assert grad(f)(0.0) == 0.0
    assert grad(f)(4.0) == 0.25
    close(vmap(grad(f))(np.array([0.0, 4.0])), [0.0, 0.25])

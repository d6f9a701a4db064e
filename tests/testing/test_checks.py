"""`ftrace.testing` and `verify=`: planted wrong rules are found, right ones are left alone."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import ftrace
from ftrace.errors import ConcretizationTypeError, CustomRuleError, DerivativeError, DtypeError
from ftrace.testing import check_derivatives, check_grads, check_jvp, check_vjp, test_rule

A = np.array([[2.0, -1.0, 0.5], [0.3, 1.5, -0.7], [1.1, 0.2, 3.0]])
X, Y = np.array([0.5, 1.2, 2.0]), np.array([1.4, 0.8, -0.6])


class Ruled(NamedTuple):
    """A function and its rules; a wrong one is made of what `wrong` names."""

    fun: Callable[..., Any]
    push: Callable[..., Any]  # (primals, tangents) -> tangent
    pull: Callable[..., Any]  # (primals, ct) -> cotangents
    args: tuple[Any, ...]
    dropped: Callable[..., Any]  # as `push`, without a term
    transposed: Callable[..., Any]  # as `push`, with something the wrong way round


RULED = {
    "matrix and vector": Ruled(
        lambda a, x: a @ x,
        lambda p, t: t[0] @ p[1] + p[0] @ t[1],
        lambda p, ct: (np.outer(ct, p[1]), p[0].T @ ct),
        (A, X),
        lambda p, t: t[0] @ p[1],
        lambda p, t: t[0].T @ p[1] + p[0] @ t[1],
    ),
    "product": Ruled(
        lambda x, y: x * np.sin(y),
        lambda p, t: t[0] * np.sin(p[1]) + p[0] * np.cos(p[1]) * t[1],
        lambda p, ct: (ct * np.sin(p[1]), ct * p[0] * np.cos(p[1])),
        (X, Y),
        lambda p, t: p[0] * np.cos(p[1]) * t[1],
        lambda p, t: t[1] * np.sin(p[1]) + p[0] * np.cos(p[1]) * t[0],
    ),
    "quadratic form": Ruled(
        lambda a, x: x @ a @ x,
        lambda p, t: p[1] @ t[0] @ p[1] + p[1] @ (p[0] + p[0].T) @ t[1],
        lambda p, ct: (ct * np.outer(p[1], p[1]), ct * (p[0] + p[0].T) @ p[1]),
        (A, X),
        lambda p, t: p[1] @ t[0] @ p[1] + p[1] @ p[0] @ t[1],
        lambda p, t: p[1] @ t[0] @ p[1] + 2.0 * p[1] @ p[0].T @ t[1],
    ),
    "inverse": Ruled(
        np.linalg.inv,
        lambda p, t: -np.linalg.inv(p[0]) @ t[0] @ np.linalg.inv(p[0]),
        lambda p, ct: (-np.linalg.inv(p[0]).T @ ct @ np.linalg.inv(p[0]).T,),
        (A,),
        lambda p, t: -np.linalg.inv(p[0]) @ t[0],
        lambda p, t: -np.linalg.inv(p[0]) @ t[0].T @ np.linalg.inv(p[0]),
    ),
    "softmax": Ruled(
        lambda x: np.exp(x) / np.sum(np.exp(x)),
        lambda p, t: _softmax(p[0]) * (t[0] - np.sum(_softmax(p[0]) * t[0])),
        lambda p, ct: (_softmax(p[0]) * (ct - np.sum(_softmax(p[0]) * ct)),),
        (X,),
        lambda p, t: _softmax(p[0]) * t[0],
        lambda p, t: _softmax(p[0]) * (t[0] - np.sum(_softmax(p[0])[::-1] * t[0])),
    ),
    "power": Ruled(
        lambda x, y: x**y,
        lambda p, t: p[1] * p[0] ** (p[1] - 1) * t[0] + p[0] ** p[1] * np.log(p[0]) * t[1],
        lambda p, ct: (ct * p[1] * p[0] ** (p[1] - 1), ct * p[0] ** p[1] * np.log(p[0])),
        (X, Y),
        lambda p, t: p[1] * p[0] ** (p[1] - 1) * t[0],
        lambda p, t: p[1] * p[0] ** (p[1] - 1) * t[1] + p[0] ** p[1] * np.log(p[0]) * t[0],
    ),
    "outer": Ruled(
        lambda x, y: np.outer(x, y),
        lambda p, t: np.outer(t[0], p[1]) + np.outer(p[0], t[1]),
        lambda p, ct: (ct @ p[1], ct.T @ p[0]),
        (X, Y),
        lambda p, t: np.outer(p[0], t[1]),
        lambda p, t: np.outer(p[1], t[0]) + np.outer(p[0], t[1]),
    ),
    "running sum": Ruled(
        lambda x: np.cumsum(x * x),
        lambda p, t: np.cumsum(2.0 * p[0] * t[0]),
        lambda p, ct: (2.0 * p[0] * np.cumsum(ct[::-1])[::-1],),
        (X,),
        lambda p, t: 2.0 * p[0] * t[0],
        lambda p, t: np.cumsum(2.0 * p[0] * t[0])[::-1],
    ),
}
WRONG = {
    "sign": lambda r: r._replace(push=lambda p, t: -r.push(p, t)),
    "factor": lambda r: r._replace(push=lambda p, t: 1.01 * r.push(p, t)),
    "dropped": lambda r: r._replace(push=r.dropped),
    "transposed": lambda r: r._replace(push=r.transposed),
    "primal": lambda r: r,  # the rule returns another value than the function
}
PLANTED = [(name, wrong) for name in RULED for wrong in WRONG]
first_call = {"verify": "first_call"}


def _softmax(x):
    return np.exp(x) / np.sum(np.exp(x))


def forward(ruled, wrong=None, **options):
    """A function with a jvp rule."""
    made = ftrace.custom_jvp(ruled.fun, **options)
    made.defjvp(
        lambda p, t: (ruled.fun(*p) * (1.001 if wrong == "primal" else 1), ruled.push(p, t))
    )
    return made


def reverse(ruled, wrong=None, **options):
    """A function with a vjp rule: the transpose of its `push`, where that was planted."""
    made = ftrace.custom_vjp(ruled.fun, **options)

    def pull(p, ct):
        if wrong in (None, "primal"):
            return ruled.pull(p, ct)
        return ftrace.linear_transpose(lambda *t: ruled.push(p, t), *p)(ct)

    made.defvjp(lambda *p: (ruled.fun(*p) * (1.001 if wrong == "primal" else 1), p), pull)
    return made


MAKERS = {"jvp": forward, "vjp": reverse}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(("name", "wrong"), PLANTED)
def test_planted_wrong_rules_are_found(name, wrong, kind):
    ruled = WRONG[wrong](RULED[name])
    modes = ("fwd", "rev") if kind == "jvp" else "rev"
    with pytest.raises(DerivativeError):
        check_grads(MAKERS[kind](ruled, wrong), ruled.args, modes=modes)
    checked = MAKERS[kind](ruled, wrong, **first_call)
    total = lambda *p: np.sum(checked(*p))  # noqa: E731
    with pytest.raises(DerivativeError):
        ftrace.grad(total)(*ruled.args)
    with pytest.raises(DerivativeError):
        ftrace.jit(total)(*ruled.args)
    assert not checked.verified.certificates


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", RULED)
def test_right_rules_get_a_certificate(name, kind):
    ruled = RULED[name]
    checked = MAKERS[kind](ruled, **first_call)
    plain = MAKERS[kind](ruled)
    order = 2 if kind == "jvp" else 1
    modes = ("fwd", "rev") if kind == "jvp" else "rev"
    test_rule(plain, *ruled.args, order=order, modes=modes)
    total = lambda f: lambda *p: np.sum(f(*p))  # noqa: E731
    for _ in range(2):
        found = ftrace.grad(total(checked))(*ruled.args)
        np.testing.assert_array_equal(found, ftrace.grad(total(plain))(*ruled.args))
    (certificate, *_) = checked.verified.certificates.values()
    assert certificate.modes == (("fwd", "rev") if kind == "jvp" else ("rev",))
    assert not certificate.drawn


def test_a_rule_is_verified_once_for_each_combination_of_types():
    calls = []

    def fun(x):
        calls.append(x)
        return x * x

    made = ftrace.custom_jvp(fun, **first_call)
    made.defjvps(lambda t, y, x: 2.0 * x * t)
    made(2.0)
    first = len(calls)
    assert first > 3
    made(3.0)
    assert len(calls) == first + 1
    made(np.arange(3.0))
    assert len(calls) > first + 3
    assert [c.types[0].shape for c in made.verified.certificates.values()] == [(), (3,)]


def test_where_values_are_not_known_a_rule_is_verified_on_random_numbers():
    log = ftrace.custom_jvp(np.log, **first_call)
    log.defjvps(lambda t, y, x: t / x)
    compiled = ftrace.jit(ftrace.grad(log))
    assert compiled(4.0) == 0.25
    assert [c.drawn for c in log.verified.certificates.values()] == [True]


def test_what_differences_cannot_tell_is_said():
    step = ftrace.custom_jvp(np.floor, **first_call)
    step.defjvps(lambda t, y, x: 0.0 * t)
    with pytest.warns(UserWarning, match="could not be verified"):
        assert step(1.0) == 1.0
    assert not step.verified.certificates
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert step(1.5) == 1.0
    for f, x in (
        (np.abs, 0.0),
        (np.floor, 1.0),
        (np.sqrt, 0.0),
        (lambda x: np.maximum(x, 1.0), 1.0),
    ):
        with pytest.raises(DerivativeError, match="cannot be checked"):
            check_derivatives(f, x)


def test_arguments_that_are_not_differentiated():
    power = ftrace.custom_vjp(lambda n, x: x**n, nondiff_argnums=(0,), **first_call)
    power.defvjp(lambda n, x: (x**n, x), lambda n, x, ct: (n * x ** (n - 1) * ct,))
    assert ftrace.grad(power, 1)(3, 2.0) == 12.0
    assert len(power.verified.certificates) == 1


def test_both_rules_of_a_custom_rule_are_verified():
    right = {
        "jvp": lambda p, t: (p[0] ** 2, 2.0 * p[0] * t[0]),
        "vjp": lambda ct, y, x: 2.0 * x * ct,
    }
    wrong = {
        "jvp": lambda p, t: (p[0] ** 2, 3.0 * p[0] * t[0]),
        "vjp": lambda ct, y, x: 3.0 * x * ct,
    }
    square = lambda x: x**2  # noqa: E731
    assert ftrace.grad(ftrace.custom_rule(square, **right, **first_call))(3.0) == 6.0
    for name in right:
        with pytest.raises(DerivativeError):
            ftrace.custom_rule(square, **{**right, name: wrong[name]}, **first_call)(3.0)
    with pytest.raises(DerivativeError):
        ftrace.custom_rule(square, jacobian=lambda y, x: ftrace.Diagonal(3.0 * x), **first_call)(
            np.arange(3.0)
        )
    with pytest.raises(CustomRuleError, match="no rule of one"):
        ftrace.custom_rule(square, batch=lambda n, b, x: (x**2, True), **first_call)


def test_a_gradient_verifies_itself():
    assert ftrace.grad(lambda x: x**3, verify=True)(2.0) == 12.0
    value, gradient = ftrace.value_and_grad(lambda d: np.sum(d["a"] ** d["n"]), verify=True)(
        {"a": X, "n": 3, "name": "x"}
    )
    assert value == np.sum(X**3)
    assert gradient["n"] is None
    wrong = forward(WRONG["factor"](RULED["product"]))
    with pytest.raises(DerivativeError, match="by differences"):
        ftrace.grad(lambda x, y: np.sum(wrong(x, y)), 1, verify=True)(X, Y)
    complex_gradient = ftrace.grad(lambda z: np.real(z * z * np.conj(z)), verify=True)
    complex_gradient(1.0 + 2.0j)
    with pytest.raises(DerivativeError, match="cannot be checked"):
        ftrace.grad(np.abs, verify=True)(0.0)
    with pytest.raises(ConcretizationTypeError, match="verify itself"):
        ftrace.jit(ftrace.grad(np.sin, verify=True))(1.0)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (np.arctan2, (1.0, 2.0)),
        (np.log, (1e-3,)),
        (lambda x: np.sort(x)[::-1] ** 2, (X,)),
        (lambda z: z * np.conj(z) * z, (np.array([1 + 2j, 0.5j]),)),
        (lambda x: x.astype(np.float32) ** 2, (X,)),
        (lambda x: np.sin(x), (np.float32([0.3, 2.0]),)),
        (lambda x, n: {"power": x**n, "n": n}, (X, 3)),
        (lambda d: d["f"](d["x"]), ({"f": np.tanh, "x": X},)),
        (np.linalg.inv, (A,)),
    ],
)
def test_right_derivatives_pass(f, args):
    check_grads(f, args, order=2)
    check_derivatives(f, *args, order=2, modes="fwd")


def test_single_rules_are_checked():
    check_jvp(np.sin, lambda x, t: (np.sin(*x), np.cos(*x) * t[0]), (0.5,))
    check_vjp(np.sin, lambda x: (np.sin(x), lambda ct: (np.cos(x) * ct,)), (0.5,))
    with pytest.raises(DerivativeError, match="jvp"):
        check_jvp(np.sin, lambda x, t: (np.sin(*x), np.sin(*x) * t[0]), (0.5,))
    with pytest.raises(DerivativeError, match="vjp"):
        check_vjp(np.sin, lambda x: (np.sin(x), lambda ct: (np.sin(x) * ct,)), (0.5,))
    with pytest.raises(DerivativeError, match="alone it returns"):
        check_jvp(np.sin, lambda x, t: (np.cos(*x), np.cos(*x) * t[0]), (0.5,))
    with pytest.raises(DerivativeError, match="structure"):
        check_jvp(np.sin, lambda x, t: ((np.sin(*x),), np.cos(*x) * t[0]), (0.5,))


def test_a_wrong_second_derivative_is_found():
    @ftrace.custom_jvp
    def slope(x):
        return np.cos(x)

    slope.defjvps(lambda t, y, x: np.sin(x) * t)  # wrong sign

    sine = ftrace.custom_jvp(np.sin)
    sine.defjvps(lambda t, y, x: slope(x) * t)
    check_derivatives(sine, 0.7)
    with pytest.raises(DerivativeError):
        check_derivatives(sine, 0.7, order=2)


def test_a_batch_rule_that_is_wrong_is_found():
    double = ftrace.custom_vmap(lambda x: 2.0 * x)
    double.def_vmap(lambda n, batched, x: (3.0 * x, True))
    with pytest.raises(DerivativeError, match="mapped"):
        test_rule(double, X)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"order": 0}, "order"),
        ({"order": 1.5}, "order"),
        ({"modes": "forward"}, "modes"),
        ({"modes": ()}, "modes"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says):
    with pytest.raises(DtypeError, match=says):
        check_grads(np.sin, (1.0,), **options)


def test_other_bad_input():
    with pytest.raises(DtypeError, match="tuple of arguments"):
        check_grads(np.sin, 1.0)
    with pytest.raises(DtypeError, match="hold no float"):
        check_grads(np.sin, (1,))
    with pytest.raises(DtypeError, match="takes a function"):
        check_grads(3, (1.0,))
    for make in (ftrace.custom_jvp, ftrace.custom_vjp):
        with pytest.raises(DtypeError, match="first_call"):
            make(np.sin, verify="always")


def test_tolerances_and_steps_are_the_callers():
    near = ftrace.custom_jvp(np.sin)
    near.defjvps(lambda t, y, x: 1.001 * np.cos(x) * t)
    with pytest.raises(DerivativeError):
        check_derivatives(near, 0.7)
    check_derivatives(near, 0.7, rtol=1e-2, atol=1e-2)
    rough = lambda x: np.sin(x) + 1e-9 * np.sin(1e6 * x)  # noqa: E731
    check_derivatives(rough, 0.7, eps=1e-8, atol=1e-4)
    assert functools.partial(check_grads, np.sin, (0.5,), eps=1e-3)() is None

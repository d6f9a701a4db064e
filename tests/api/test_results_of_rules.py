"""What a user's rule returns is compared with what the function returns, and must be linear."""

from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.errors import CustomRuleError

_x = np.arange(1.0, 4.0)


def _by_vjp(fwd: Any, fun: Any = lambda x: x**3) -> Any:
    f = ftrace.custom_vjp(fun)
    f.defvjp(fwd, lambda x, ct: (3 * x**2 * ct,))
    return f


def _by_jvp(rule: Any, fun: Any = lambda x: x**3) -> Any:
    f = ftrace.custom_jvp(fun)
    f.defjvp(rule)
    return f


RESULTS: dict[str, Any] = {
    "shape": np.sum,
    "rank": lambda y: y * np.ones((2, 1)),
    "float32": lambda y: y.astype(np.float32),
    "integers": lambda y: y.astype(int),
    "complex": lambda y: y + 0j,
    "tuple": lambda y: (y, y),
    "list": lambda y: [y],
    "None": lambda y: None,
}
WAYS: dict[str, Any] = {
    "vjp": lambda f: ftrace.vjp(f, _x)[0],
    "grad": lambda f: ftrace.grad(lambda x: np.sum(f(x)))(_x),
    "jit of grad": lambda f: ftrace.jit(ftrace.grad(lambda x: np.sum(f(x))))(_x),
    "grad of jit": lambda f: ftrace.grad(ftrace.jit(lambda x: np.sum(f(x))))(_x),
    "jacrev": lambda f: ftrace.jacrev(f)(_x),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", RESULTS)
def test_a_rule_that_returns_another_type_is_named(change: str, way: str) -> None:
    f = _by_vjp(lambda x: (RESULTS[change](x**3), x))
    with pytest.raises(CustomRuleError, match=r"(?s)fwd rule.*differs from the function's own"):
        WAYS[way](f)
    with pytest.raises(CustomRuleError, match=r"(?s)fwd rule.*differs from the function's own"):
        WAYS[way](f)  # known by now


@pytest.mark.parametrize("change", ["shape", "float32", "integers", "tuple"])
def test_so_is_a_jvp_rule(change: str) -> None:
    def rule(primals: Any, tangents: Any) -> Any:
        out = RESULTS[change](primals[0] ** 3)
        slope = RESULTS[change](3 * primals[0] ** 2 * tangents[0])
        return out, slope

    ways: list[Any] = [lambda f: ftrace.jvp(f, (_x,), (_x,)), lambda f: ftrace.jacfwd(f)(_x)]
    for way in ways:
        with pytest.raises(CustomRuleError, match="differs from the function's own"):
            way(_by_jvp(rule))


def test_a_function_that_cannot_be_traced_may_have_rules() -> None:
    import math

    f = _by_vjp(lambda x: (x**3, x), lambda x: math.exp(float(np.asarray(x).max())))
    np.testing.assert_allclose(ftrace.grad(lambda x: np.sum(f(x)))(_x), 3 * _x**2)


def test_a_function_whose_result_changes_is_looked_at_again() -> None:
    rows = 1

    def fun(x: Any) -> Any:
        return np.ones((rows, 1)) * x**3

    f = _by_vjp(lambda x: (fun(x), x), fun)
    f.defvjp(lambda x: (fun(x), x), lambda x, ct: (3 * x**2 * np.sum(ct, 0),))
    for rows in (1, 2, 1, 3):
        np.testing.assert_allclose(ftrace.grad(lambda x: np.sum(f(x)))(_x), rows * 3 * _x**2)


def test_the_function_draws_nothing_for_the_comparison() -> None:
    rng, plain = np.random.default_rng(0), np.random.default_rng(0)
    f = _by_vjp(lambda x: (x**3, x), lambda x: x**3 + 0 * rng.normal())
    ftrace.grad(lambda x: np.sum(f(x)))(_x)
    assert rng.normal() == plain.normal()


CONSTANTS: dict[str, Any] = {
    "integer": 1,
    "float": 2.5,
    "truth value": True,
    "NumPy integer": np.int64(3),
    "array": np.ones(()),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_tangent_that_is_a_number_has_no_transpose(name: str) -> None:
    f = _by_jvp(lambda primals, tangents: (primals[0] ** 3, CONSTANTS[name]))
    for way in (ftrace.grad, lambda f: ftrace.jit(ftrace.grad(f)), ftrace.jacrev, ftrace.jacfwd):
        with pytest.raises(CustomRuleError, match=r"(?s)does not depend on.*times the tangent"):
            way(f)(2.0)
    assert ftrace.jvp(f, (2.0,), (1.0,)) == (8.0, float(CONSTANTS[name]))


def test_a_tangent_of_zeros_is_linear() -> None:
    for zero in (0, 0.0, None, np.zeros(())):
        f = _by_jvp(lambda primals, tangents, z=zero: (primals[0] ** 3, z))
        assert ftrace.grad(f)(2.0) == 0.0
        assert ftrace.jit(ftrace.grad(f))(2.0) == 0.0


def test_a_complex_number_is_no_tangent_of_a_real_result() -> None:
    f = _by_jvp(lambda primals, tangents: (primals[0] ** 3, 1j))
    with pytest.raises(CustomRuleError, match=r"c128.*which is f64"):
        ftrace.jvp(f, (2.0,), (1.0,))

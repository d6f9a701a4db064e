"""`jet` and `derivative`: derivatives of high order, in one pass."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.errors import DtypeError, RuleError, ShapeError, TreeError

M = np.array([[2.0, 1.0], [0.5, 3.0]])


def nested(f, n):
    """The n-th derivative by forward mode of forward mode."""
    for _ in range(n):
        f = (lambda g: lambda x: ftrace.jvp(g, (x,), (1.0,))[1])(f)
    return f


def assigned(x):
    y = np.zeros(3)
    y[0] = np.sin(x)
    y[1] = y[0] * x
    y[0] = y[1] ** 2
    y[2] += y[0]
    return y[0] * y[2]


def changed(x):
    c = np.array([1.0, 2.0])
    first = x * c
    c[0] = 5.0
    second = x * c
    return first[0] * second[0] * np.sum(second)


def looped(x):
    y = x
    while np.abs(y) < 10.0:
        y = y * y + x
    return y


def ruled():
    made = ftrace.custom_jvp(np.sin)
    made.defjvps(lambda t, y, x: t * np.cos(x))
    return made


FUNCTIONS = {
    "sin": np.sin,
    "exp": np.exp,
    "log": np.log,
    "tan": np.tan,
    "tanh": np.tanh,
    "square root": np.sqrt,
    "quotient": lambda x: np.sin(x) / (1 + x * x),
    "power": lambda x: x**2.5,
    "power of itself": lambda x: x**x,
    "polynomial": lambda x: 3 * x**3 - 2 * x + 1,
    "arc tangent": np.arctan,
    "mixed": lambda x: np.exp(np.sin(x) * x) / np.sqrt(1 + x),
    "where": lambda x: np.where(x > 0, x * x, x),
    "error function": ftrace.scipy.special.erf,
    "log gamma": ftrace.scipy.special.gammaln,
    "system": lambda x: np.linalg.solve(fnp.array([[2.0 + x, 1], [1, 3 * x]]), fnp.array([x, 1.0]))[
        0
    ],
    "determinant": lambda x: np.linalg.det(M * x + np.eye(2)),
    "matrices": lambda x: np.sum((M * x) @ (M + x)),
    "decision": lambda x: ftrace.lax.cond(x > 0, lambda x: x * x * x, np.sin, x),
    "counted": lambda x: ftrace.lax.fori_loop(0, 3, lambda i, y: y * x + i, x),
    "scan": lambda x: np.sum(ftrace.lax.scan(lambda c, v: (c * x, c + v), x, np.arange(4.0))[1]),
    "while": lambda x: ftrace.lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] ** 2 + x), (0, x)
    )[1],
    "jit": ftrace.jit(lambda x: np.sin(x * x)),
    "rule": ruled(),
    "sorted": lambda x: np.sort(fnp.array([x, 1 - x, x * x]))[1],
    "complex": lambda x: np.abs(np.exp(1j * x) + x),
    "assigned": assigned,
    "array that changes": changed,
    "loop of Python's": looped,
    "twice the same": lambda x: np.cos(x) * np.sin(x) * np.cos(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_series_are_nested_derivatives(name):
    f, x = FUNCTIONS[name], 0.7
    value, found = ftrace.jet(f, (x,), ([1.0, 0.0, 0.0, 0.0],))
    np.testing.assert_allclose(value, f(x), rtol=1e-15)
    expected = [nested(f, k)(x) for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    compiled = ftrace.jit(lambda x: ftrace.jet(f, (x,), ([1.0, 0.0, 0.0, 0.0],))[1])(x)
    np.testing.assert_allclose(compiled, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(ftrace.derivative(f, 3)(x), expected[2], rtol=1e-10, atol=1e-10)


def tangents(n):
    """The Taylor coefficients of tan at 0, exactly: y' = 1 + y^2."""
    terms = [Fraction(0)]
    for k in range(1, n + 1):
        square = sum(terms[i] * terms[k - 1 - i] for i in range(k))
        terms.append((square + (k == 1)) / k)
    return terms


def test_ten_orders_against_exact_ones():
    at = 0.4
    exact = {
        np.sin: lambda k: math.sin(at + k * math.pi / 2),
        np.exp: lambda k: math.exp(at),
        np.log: lambda k: (-1) ** (k - 1) * math.factorial(k - 1) / at**k,
        (lambda x: 1 / x): lambda k: (-1) ** k * math.factorial(k) / at ** (k + 1),
        np.sqrt: lambda k: math.prod(0.5 - i for i in range(k)) * at ** (0.5 - k),
        (lambda x: x**7): lambda k: (
            math.prod(7 - i for i in range(k)) * at ** (7 - k) if k <= 7 else 0.0
        ),
    }
    for f, nth in exact.items():
        _, found = ftrace.jet(f, (at,), ([1.0] + [0.0] * 9,))
        np.testing.assert_allclose(found, [nth(k) for k in range(1, 11)], rtol=1e-12, atol=1e-9)
    _, found = ftrace.jet(np.tan, (0.0,), ([1.0] + [0.0] * 9,))
    expected = [float(t * math.factorial(k)) for k, t in enumerate(tangents(10))][1:]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_the_second_derivative_of_sine_is_that_of_the_paper():
    assert ftrace.derivative(np.sin, 2)(1.0) == -0.8414709848078965  # seeds A6
    assert ftrace.derivative(np.sin, 0)(1.0) == np.sin(1.0)
    assert ftrace.derivative(np.sin)(1.0) == np.cos(1.0)


def test_the_work_of_an_operation_grows_with_the_square_of_the_order():
    def equations(order):
        f = lambda x: np.exp(np.sin(x) * x) / np.sqrt(1 + np.tanh(x))  # noqa: E731
        series = [1.0] + [0.0] * (order - 1)
        return len(ftrace.make_jaxpr(lambda x: ftrace.jet(f, (x,), (series,))[1])(0.5).eqns)

    small, large = equations(4), equations(16)
    assert large < 20 * small  # nested forward mode: 2**12 times as many


def test_a_curve_through_containers_and_arrays():
    def f(p, n):
        return {"y": p["a"] ** n @ p["b"], "n": n}

    rng = np.random.default_rng(0)
    p = {"a": rng.standard_normal(3), "b": rng.standard_normal(3), "name": "p"}
    d1, d2 = (
        {"a": rng.standard_normal(3), "b": rng.standard_normal(3), "name": "p"} for _ in range(2)
    )
    value, (first, second) = ftrace.jet(f, (p, 3), ([d1, d2], [0, 0]))
    assert value["n"] == 3

    def along(t):
        a = p["a"] + t * d1["a"] + t * t / 2 * d2["a"]
        b = p["b"] + t * d1["b"] + t * t / 2 * d2["b"]
        return a**3 @ b

    np.testing.assert_allclose(value["y"], along(0.0))
    np.testing.assert_allclose(first["y"], nested(along, 1)(0.0))
    np.testing.assert_allclose(second["y"], nested(along, 2)(0.0))


def test_in_other_transformations():
    f = FUNCTIONS["mixed"]
    second = ftrace.derivative(f, 2)
    xs = np.array([0.2, 0.7, 1.5])
    np.testing.assert_allclose(ftrace.vmap(second)(xs), [nested(f, 2)(x) for x in xs])
    np.testing.assert_allclose(ftrace.grad(second)(0.7), nested(f, 3)(0.7), rtol=1e-10)
    np.testing.assert_allclose(ftrace.jvp(second, (0.7,), (2.0,))[1], 2 * nested(f, 3)(0.7))
    np.testing.assert_allclose(ftrace.derivative(second, 2)(0.7), nested(f, 4)(0.7), rtol=1e-10)
    np.testing.assert_allclose(ftrace.jit(second)(0.7), second(0.7))
    inner = ftrace.derivative(ftrace.grad(f), 2)
    np.testing.assert_allclose(inner(0.7), nested(f, 3)(0.7), rtol=1e-10)


def test_no_confusion_of_nested_curves():
    # d/dx (x * d/dy (x + y)) = 1
    inner = lambda x: x * ftrace.derivative(lambda y: x + y)(2.0)  # noqa: E731
    assert ftrace.derivative(inner)(3.0) == 1.0
    assert (
        ftrace.derivative(lambda x: x * ftrace.derivative(lambda y: x * y * y, 2)(2.0))(3.0) == 12.0
    )


def test_single_precision_and_complex_numbers():
    value = ftrace.derivative(np.sin, 3)(np.float32(0.5))
    assert value.dtype == np.float32
    z = 0.3 + 0.4j
    np.testing.assert_allclose(ftrace.derivative(np.exp, 4)(z), np.exp(z))
    assert ftrace.derivative(np.sin, np.int64(2))(1) == -np.sin(1.0)


def test_a_long_program_needs_no_deep_recursion():
    def f(x):
        for _ in range(3000):
            x = np.sin(x)
        return x

    start = time.perf_counter()
    assert np.isfinite(ftrace.derivative(f, 2, lift=False)(0.5))
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: ftrace.derivative(np.sin, -1), DtypeError, "0, 1, 2"),
        (lambda: ftrace.derivative(np.sin, 1.5), DtypeError, "0, 1, 2"),
        (lambda: ftrace.derivative(np.sin, True), DtypeError, "0, 1, 2"),
        (lambda: ftrace.derivative(3), DtypeError, "takes a function"),
        (lambda: ftrace.derivative(np.sin, 2)(np.ones(3)), ShapeError, "vmap"),
        (lambda: ftrace.derivative(np.sin, 2)("x"), DtypeError, "not an array or a number"),
        (lambda: ftrace.jet(3, (1.0,), ([1.0],)), DtypeError, "takes a function"),
        (lambda: ftrace.jet(np.sin, 1.0, ([1.0],)), TreeError, "tuple of primals"),
        (lambda: ftrace.jet(np.sin, (1.0,), 1.0), TreeError, "tuple of series"),
        (lambda: ftrace.jet(np.sin, (1.0,), ([1.0], [1.0])), TreeError, "1 primals and 2 series"),
        (lambda: ftrace.jet(np.arctan2, (1.0, 1.0), ([1.0], [1.0, 0.0])), ShapeError, "as many"),
        (lambda: ftrace.jet(np.sin, (np.ones(3),), ([1.0],)), ShapeError, "order 1 has shape"),
        (lambda: ftrace.jet(np.sin, (1.0,), ([1j],)), DtypeError, "complex128"),
        (lambda: ftrace.jet(lambda p: p["a"], ({"a": 1.0},), ([{}],)), TreeError, "structure"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_what_keeps_its_iterations_is_refused():
    gradient = ftrace.grad(
        lambda x: ftrace.lax.while_loop(lambda y: y < 10, lambda y: y * y + x, x)
    )
    with pytest.raises((RuleError, DtypeError)):
        ftrace.derivative(gradient, 2)(1.5)


@pytest.mark.parametrize("n", [-1, -5, True, 2.0, "2", None, np.int64(-1), 1j])
def test_orders_are_integers_from_zero(n):
    with pytest.raises(DtypeError, match="n of derivative must be"):
        ftrace.derivative(np.sin, n)(1.0)


def test_an_order_may_be_an_integer_of_numpy():
    assert ftrace.derivative(np.sin, np.int64(2))(1.0) == ftrace.derivative(np.sin, 2)(1.0)


@pytest.mark.parametrize("series", [(1.0,), (np.array(1.0),), (None,), ([1.0], 2.0)])
def test_a_series_is_a_sequence_for_each_argument(series):
    primals = (1.0, 2.0)[: len(series)]
    with pytest.raises(DtypeError, match="no sequence of derivatives"):
        ftrace.jet(lambda *xs: sum(xs), primals, series)


# made by mpmath 1.4.1 with 50 digits: the derivatives of order 1 to 10 at 0.75
TO_ORDER_TEN = {
    "exp(sin x cos x)": [
        0.1164799457037172,
        -3.2768257941742662,
        -1.1624659173647861,
        32.570861677374783,
        22.725147008496761,
        -633.38728663122337,
        -725.98289185655346,
        20112.834985669471,
        33405.308302202385,
        -919133.90551204441,
    ],
    "x ** 2.5": [
        1.6237976320958225,
        3.2475952641916449,
        2.1650635094610966,
        -1.4433756729740644,
        2.8867513459481288,
        -9.6225044864937627,
        44.905020936970893,
        -269.43012562182536,
        1975.8209212267193,
        -17123.781317298234,
    ],
    "arctan": [
        0.64,
        -0.6144,
        0.360448,
        1.32120576,
        -7.8416707584,
        20.72858591232,
        31.1634237063168,
        -766.6025966296105,
        4770.6108364810145,
        -5893.0299745035136,
    ],
    "arcsin": [
        1.5118578920369089,
        2.5917563863489867,
        16.784708025879152,
        167.56498432558347,
        2356.0652341536584,
        42478.811610849211,
        935661.31804193704,
        24347280.157484475,
        730866985.95601201,
        24861211430.89865,
    ],
    "tanh": [
        0.59658580828133143,
        -0.75784170227802139,
        0.25085547326918849,
        2.3940444449219167,
        -7.6843484388481735,
        -0.7189429031635126,
        109.09638251229247,
        -419.20711839540332,
        -724.66244714886099,
        16041.272452068083,
    ],
    "log(1 + x * x)": [
        0.96,
        0.3584,
        -1.916928,
        4.14449664,
        -1.1928600576,
        -47.32382871552,
        295.4881665073152,
        -713.61596305598054,
        -5109.7252913522462,
        77031.450094902991,
    ],
    "erf": [
        0.64293106919520733,
        -0.96439660379281099,
        0.16073276729880183,
        3.6164872642230412,
        -6.3891275001273728,
        -19.348206863593271,
        92.913585296663634,
        92.808104418123795,
        -1440.0023507804766,
        675.07385548073413,
    ],
    "gammaln": [
        -1.0858608797864722,
        2.5418796476716065,
        -5.3026332163376396,
        19.7633125348506,
        -102.80060581541747,
        678.75334287457971,
        -5408.9265030953745,
        50402.146499656855,
        -537260.37722620092,
        6445286.2910835721,
    ],
}
PROGRAMS = {
    "exp(sin x cos x)": lambda x: np.exp(np.sin(x) * np.cos(x)),
    "x ** 2.5": lambda x: x**2.5,
    "arctan": np.arctan,
    "arcsin": np.arcsin,
    "tanh": np.tanh,
    "log(1 + x * x)": lambda x: np.log(1 + x * x),
    "erf": ftrace.scipy.special.erf,
    "gammaln": ftrace.scipy.special.gammaln,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ten_orders_are_those_of_arithmetic_with_fifty_digits(name):  # A6, E13
    _, found = ftrace.jet(PROGRAMS[name], (0.75,), ([1.0] + [0.0] * 9,))
    np.testing.assert_allclose(found, TO_ORDER_TEN[name], rtol=1e-12)
    single = ftrace.derivative(PROGRAMS[name], 10)(0.75)
    np.testing.assert_allclose(single, TO_ORDER_TEN[name][-1], rtol=1e-12)

"""What calls of builtins, `math`, NumPy and users' functions mean on traced values."""

import bisect
import contextlib
import math
import sys
import types

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.core.errors import DtypeError, LiftError, TracerArrayConversionError
from ftrace.lifting.lifted_calls import Territory
from ftrace.lifting.substitutes.mathematics import MATH
from tests.lifting import called

X = 0.7
PROGRAMS = {
    name: f
    for name, f in vars(called).items()
    if type(f) is types.FunctionType
    and f.__module__ == called.__name__
    and name[0] != "_"
    and name not in ("traced_by_name", "doubled", "dispatched")
}


def slope(f, x, h=1e-6):
    return (f(x + h) - f(x - h)) / (2 * h)


def curvature(f, x, h=1e-4):
    return (f(x + h) - 2 * f(x) + f(x - h)) / h**2


# ---------------------------------------------------------------------------------- programs


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_itself_under_jit(name):
    f = PROGRAMS[name]
    np.testing.assert_allclose(ftrace.jit(f)(X), f(X), rtol=1e-13)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_itself_under_vmap(name):
    f = PROGRAMS[name]
    points = np.array([0.3, X])
    np.testing.assert_allclose(ftrace.vmap(f)(points), [f(x) for x in points], rtol=1e-13)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_lifted_program_is_itself_on_plain_values(name):
    f = PROGRAMS[name]
    assert ftrace.lift(f)(X) == f(X)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_of_a_lifted_program(name):
    f = PROGRAMS[name]
    np.testing.assert_allclose(ftrace.grad(f, lift=True)(X), slope(f, X), rtol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_of_a_program_inside_vmap_and_jit(name):
    f = PROGRAMS[name]
    points = np.array([0.3, X])
    found = ftrace.jit(ftrace.vmap(ftrace.grad(f)))(points)
    np.testing.assert_allclose(found, [slope(f, x) for x in points], rtol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_second_derivative_of_a_program(name):
    f = PROGRAMS[name]
    np.testing.assert_allclose(
        ftrace.hessian(f, lift=True)(X), curvature(f, X), rtol=1e-4, atol=1e-5
    )


# ---------------------------------------------------------------------------------- math


@pytest.mark.parametrize("name", called.UNARY)
def test_a_function_of_math_is_differentiated(name):
    f = called.UNARY[name]
    np.testing.assert_allclose(ftrace.jit(f)(X), f(X), rtol=1e-14)
    np.testing.assert_allclose(ftrace.grad(f, lift=True)(X), slope(f, X), rtol=1e-5)
    points = np.array([0.3, X])
    np.testing.assert_allclose(ftrace.vmap(f)(points), [f(x) for x in points], rtol=1e-14)


@pytest.mark.parametrize("name", called.WHOLE)
@pytest.mark.parametrize("x", [0.7, -2.5, 3.0])
def test_a_function_of_math_without_a_derivative(name, x):
    f = called.WHOLE[name]
    found = ftrace.jit(f)(x)
    assert found == f(x)
    assert isinstance(found, type(f(x)) | np.bool_)


def test_every_function_of_math_has_a_meaning():
    public = {f for name, f in vars(math).items() if callable(f) and name[0] != "_"}
    assert public - set(MATH) == {math.prod}  # which multiplies by operators


@pytest.mark.parametrize(
    ("f", "xs"),
    [
        (lambda x: math.gcd(x, 12) + math.lcm(x, 4), [18, -7, 0]),
        (lambda x: math.isqrt(x), [0, 15, 16, 17, 2**52 + 1, 94906267**2 - 1]),
        (lambda x: math.factorial(x), [0, 1, 5, 20]),
        (lambda x: math.floor(x) + math.trunc(x) + math.gcd(), [3, -3]),
    ],
)
def test_functions_of_integers(f, xs):
    for x in xs:
        found = ftrace.jit(f)(x)
        assert found == f(x)
        assert type(found) is int


@pytest.mark.parametrize(
    ("a", "b"),
    [(1.0, 1.0 + 1e-10), (1.0, 1.1), (0.0, 1e-12), (math.inf, math.inf), (1.0, math.inf)],
)
def test_isclose(a, b):
    f = lambda x, y: math.isclose(x, y)  # noqa: E731
    assert ftrace.jit(f)(a, b) == math.isclose(a, b)
    g = lambda x, y: math.isclose(x, y, rel_tol=0.2, abs_tol=1e-9)  # noqa: E731
    assert ftrace.jit(g)(a, b) == math.isclose(a, b, rel_tol=0.2, abs_tol=1e-9)


@pytest.mark.parametrize("x", [5.0, -5.0, 2.5, 7.5, 0.3, 1e300])
@pytest.mark.parametrize("y", [1.0, -2.0, 5.0, 0.7, math.inf])
def test_the_remainder_is_that_of_ieee_754(x, y):
    assert ftrace.jit(lambda x, y: math.remainder(x, y))(x, y) == math.remainder(x, y)


def test_what_math_raises_is_raised_of_traced_values():
    with pytest.raises(ValueError, match="math domain"):
        ftrace.jit(lambda x: math.sqrt(x) + math.log(x))(-1.0)
    with pytest.raises(ValueError, match="math domain"):
        ftrace.jit(ftrace.lift(lambda x: x * math.sqrt(-1.0)))(1.0)


def test_math_is_weak_but_stays_in_single_precision():
    f = ftrace.lift(lambda x: math.sin(x))
    assert type(ftrace.jit(f)(0.5)) is float
    assert ftrace.make_jaxpr(f)(np.float32(0.5)).out_avals[0].dtype == np.float32
    assert ftrace.make_jaxpr(f)(np.float64(0.5)).out_avals[0].weak
    g = ftrace.lift(lambda x, a: math.sin(x) * a)
    single = np.ones(2, np.float32)
    assert ftrace.jit(g)(np.float64(0.5), single).dtype == g(np.float64(0.5), single).dtype


def test_math_refuses_arrays_and_complex_numbers_as_python_does():
    with pytest.raises(TypeError, match="shape \\(2,\\)"):
        ftrace.jit(lambda x: math.sin(x))(np.ones(2))
    with pytest.raises(TypeError, match="complex"):
        ftrace.jit(lambda x: math.sin(x))(1j)
    with pytest.raises(TypeError, match="integers"):
        ftrace.jit(lambda x: math.gcd(x, 2))(1.5)


@pytest.mark.parametrize("f", [lambda n: math.comb(n, 2), lambda n: math.perm(n, 2)])
def test_combinations_are_refused_by_name(f):
    with pytest.raises(LiftError, match=r"math.(comb|perm) of a traced value") as caught:
        ftrace.jit(f)(5)
    assert "lgamma" in str(caught.value)
    assert isinstance(caught.value.__cause__, ftrace.errors.ConcretizationTypeError)


def test_a_factorial_outside_of_int64_raises():
    with pytest.raises(DtypeError, match=r"math.factorial\(21\) is an int of more than 64 bits"):
        ftrace.jit(lambda n: math.factorial(n))(21)
    with pytest.raises(ValueError, match="not defined for negative values"):
        ftrace.jit(lambda n: math.factorial(n))(-1)


# ---------------------------------------------------------------------------------- builtins


@pytest.mark.parametrize("values", [[1.0, 2.0], [2.0, 1.0], [math.nan, 1.0], [1.0, math.nan]])
def test_min_and_max_choose_as_python_does_with_nan(values):
    f = lambda x, y: (min(x, y), max(x, y))  # noqa: E731
    np.testing.assert_array_equal(ftrace.jit(f)(*values), f(*values))
    many = np.array([*values, *np.linspace(-1.0, 1.0, 30)])
    g = lambda x: (min(x), max(x))  # noqa: E731
    np.testing.assert_array_equal(ftrace.jit(ftrace.lift(g))(many), g(many))


def test_the_first_of_equal_minima_has_the_derivative():
    gradient = ftrace.grad(lambda x, y: min(x, y) + 10 * max(x, y), (0, 1))
    assert ftrace.jit(gradient)(1.0, 1.0) == gradient(1.0, 1.0) == (11.0, 0.0)


@pytest.mark.parametrize("start", [0, 2.5, np.float32(1.0), np.int64(0)])
@pytest.mark.parametrize(
    "values",
    [np.arange(40) % 3 == 0, np.arange(40, dtype=np.int8), np.arange(80.0).reshape(40, 2)],
    ids=["bool", "int8", "rows"],
)
def test_the_sum_of_a_long_array_is_that_of_its_items(values, start):
    f = ftrace.lift(lambda a: sum(a, start))
    with np.errstate(over="ignore"):
        expected = sum(values, start)
    np.testing.assert_array_equal(ftrace.jit(f)(values), expected, strict=True)
    assert len(ftrace.make_jaxpr(f)(values).eqns) < 10


def test_any_and_all():
    f = ftrace.lift(lambda x: (any(x > i for i in (1, 2)), all([x > 0, x < 3]), any([]), all([])))
    for x in (0.5, 1.5, 5.0):
        assert ftrace.jit(f)(x) == f(x) == (x > 1, 0 < x < 3, False, True)


def test_any_stops_where_python_stops():
    def values(x):
        yield from (x > 0, True)
        raise ValueError("nobody asks for more")

    assert ftrace.jit(ftrace.lift(lambda x: any(values(x))))(1.0)
    assert ftrace.jit(ftrace.lift(lambda x: any(values(x))))(-1.0)


def test_conversions_give_python_numbers():
    f = ftrace.lift(lambda x: (float(x), int(x), round(x), round(x, 1), complex(x, x)))
    for x in (2.5, -3.7, 0.49):
        found = ftrace.jit(f)(x)
        assert found == f(x)
        assert [type(v) for v in found] == [type(v) for v in f(x)]
    assert ftrace.jit(ftrace.lift(lambda x: bool(x)))(2.0)
    assert not ftrace.jit(ftrace.lift(lambda x: bool(x)))(0)


def test_float_keeps_the_derivative():
    assert ftrace.grad(lambda x: float(x) ** 2, lift=True)(3.0) == 6.0


def test_conversions_of_arrays_and_complex_numbers_raise_as_in_python():
    for f in (lambda x: float(x), lambda x: int(x), lambda x: bool(x)):
        with pytest.raises((TypeError, TracerArrayConversionError), match=r"shape|array"):
            ftrace.jit(ftrace.lift(f))(np.ones(3))
    with pytest.raises(TypeError, match="complex"):
        ftrace.jit(ftrace.lift(lambda x: float(x)))(1j)


def test_isinstance_tells_what_a_value_stands_for():
    kinds = (np.ndarray, float, int, bool, complex, np.floating, np.float32, np.generic)

    def f(*xs):
        return [[isinstance(x, kind) for kind in kinds] for x in xs]

    values = (np.ones(2), 1.0, 2, 1j, np.float32(1), np.float64(1), np.int32(3))
    assert ftrace.jit(ftrace.lift(f))(*values) == f(*values)


def test_isinstance_of_arrays_needs_no_lifting():
    def f(x):
        if isinstance(x, np.ndarray):
            return x * 2
        return x * 3

    assert ftrace.jit(f)(np.ones(2)).tolist() == [2.0, 2.0]
    assert ftrace.jit(f)(1.0) == 3.0


def test_sorted_is_stable_and_takes_containers():
    def f(x, y):
        pairs = [(x, 1.0), (y, 2.0), (x, 3.0)]
        up = sorted(pairs, key=lambda p: p[0])
        return up, sorted(pairs, key=lambda p: p[0], reverse=True)

    for x, y in ((1.0, 2.0), (2.0, 1.0), (1.0, 1.0)):
        assert ftrace.jit(ftrace.lift(f))(x, y) == f(x, y)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: print(x), "ftrace.debug.print"),
        (lambda x: list(filter(lambda v: v > 0, [x, -x])), "numpy.where"),
        (lambda x: pow(x, 2, 5), "pow\\(x, y\\) % z"),
        (lambda x: sorted([(x, 1), (x, (2, 3))], key=lambda p: p[0]), "one structure"),
        (lambda x: min((x, 1), (-x, [2]), key=lambda p: p[0]), "one structure"),
        (lambda x: [1.0, "two"][int(x)], "one shape"),
        (lambda x: np.r_["-1", x, x], "numpy.concatenate"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(f, words):
    with pytest.raises(LiftError, match=words) as caught:
        ftrace.jit(ftrace.lift(f))(1)
    assert "test_calls.py" in str(caught.value)


def test_known_values_print_and_filter_as_ever(capsys):
    def f(x):
        print("here", 3, sep="-")
        return x * sum(filter(None, [0, 1, 2]))

    assert ftrace.jit(ftrace.lift(f))(2.0) == 6.0
    assert capsys.readouterr().out == "here-3\n"


# ---------------------------------------------------------------------------------- NumPy


def test_an_array_that_is_filled_is_written_by_callees():
    def fill(out, x):
        for i in range(3):
            out[i] = x * i

    def f(x):
        out = np.zeros(3)
        fill(out, x)
        out += x
        return out

    np.testing.assert_array_equal(ftrace.jit(f)(2.0), f(2.0))
    np.testing.assert_array_equal(ftrace.jacfwd(f, lift=True)(2.0), [1.0, 2.0, 3.0])


def test_an_array_of_constants_is_written():
    def f(x):
        a = np.array([1.0, 2.0, 3.0])
        a[1] = x
        b = BASE.copy()
        b[0] += x
        c = np.arange(4.0).reshape(2, 2)
        c[0] = x
        return a, b, c

    for found, expected in zip(ftrace.jit(f)(5.0), f(5.0), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(BASE, [1.0, 2.0])


BASE = np.array([1.0, 2.0])


KEPT = []


def kept():
    KEPT[:] = [np.array([1.0, 2.0])]
    return KEPT[0]


@pytest.mark.parametrize("get", [lambda: BASE, lambda: BASE[:1], kept, lambda: kept()[1:]])
def test_an_array_that_others_hold_is_not_replaced(get):
    def f(x):
        a = get()
        a[0] = x
        return a

    with pytest.raises(TracerArrayConversionError, match="zeros"):
        ftrace.jit(f)(5.0)
    np.testing.assert_array_equal(BASE, [1.0, 2.0])


def test_a_store_into_a_captured_array_raises():
    seen = np.zeros(3)

    def f(x):
        seen[0] = x
        return x

    with pytest.raises(TracerArrayConversionError, match=r"ftrace.numpy.zeros"):
        ftrace.jit(f)(5.0)
    np.testing.assert_array_equal(seen, 0.0)


def test_with_no_trace_arrays_are_plain():
    def f(n):
        return np.zeros(n), np.array([1.0])

    assert [type(a) for a in ftrace.lift(f)(2)] == [np.ndarray, np.ndarray]


def test_arrays_of_other_dtypes_stay_plain():
    def f(x):
        names = np.empty(2, object)
        names[0] = "a"
        return x * len(names[0]) * np.array([x])

    assert ftrace.jit(f)(3.0) == 9.0


def test_a_traced_index_out_of_range_raises():
    with pytest.raises(IndexError):
        ftrace.jit(lambda i: [1.0, 2.0][i])(2)
    with pytest.raises(IndexError):
        ftrace.jit(lambda i: np.arange(3)[i])(3)
    assert ftrace.jit(lambda i: [1.0, 2.0][i])(-1) == 2.0


# ---------------------------------------------------------------------------------- whose functions


LIBRARY = """
import ftrace

def relu(x):
    return x if x > 0 else 0.0 * x

def mapped(f, xs):
    return ftrace.vmap(f)(xs).sum()

def apply(f, x):
    return f(x)

def decorated(f):
    import functools
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args) + 1.0
    return wrapper
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "library_of_others"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder.parent))
    yield __import__("library_of_others")
    del sys.modules["library_of_others"]


def test_a_function_of_another_package_that_asks_is_lifted(library):
    def f(x):
        return library.relu(x) + math.sin(x)

    xs = np.array([1.0, -2.0])
    for _ in range(2):
        np.testing.assert_array_equal([ftrace.jit(f)(x) for x in xs], [f(x) for x in xs])
        np.testing.assert_array_equal(ftrace.vmap(f)(xs), [f(x) for x in xs])
    assert ftrace.grad(lambda x: library.apply(lambda v: math.sin(v), x))(1.0) == math.cos(1.0)
    assert ftrace.jit(ftrace.lift(lambda x: library.apply(library.relu, x) * 2))(-2.0) == 0.0


def by_a_key(x):
    return sorted([1.0, 2.0], key=lambda k: -k if x > 0 else k)[0] * x


def by_keyword(x):
    return max([1.0, 2.0], key=lambda k: -k if x > 0 else k) * x


def by_a_filter(x):
    return sum(filter(lambda v: v > 1.0, [1.0, 2.0])) * (x if x > 0 else 1.0)


def by_numpy(x):
    return np.apply_along_axis(lambda r: 2 * r if x > 0 else r, 0, np.ones(3)).sum() * x


def by_a_context(x):
    @contextlib.contextmanager
    def given():
        yield x if x > 0 else -x

    with given() as v:
        return v


def by_bisection(x):
    return bisect.bisect([1.0, 2.0], 1.5, key=lambda v: v) * x if x > 0 else x


@pytest.mark.parametrize(
    "f", [by_a_key, by_keyword, by_a_filter, by_numpy, by_a_context, by_bisection]
)
def test_functions_that_libraries_call_are_lifted(f):
    xs = np.array([1.5, -2.0])
    want = [f(x) for x in xs]
    np.testing.assert_allclose([ftrace.jit(f)(x) for x in xs], want)
    np.testing.assert_allclose(ftrace.vmap(f)(xs), want)


def test_a_function_of_another_package_that_is_lifted_itself(library):
    assert ftrace.jit(library.relu)(-2.0) == 0.0
    relu = ftrace.lift(library.relu)
    assert ftrace.jit(lambda x: relu(x) + math.sin(x))(1.0) == 1.0 + math.sin(1.0)


def test_a_users_function_under_vmap_in_another_package(library):
    def f(x):
        return math.sin(x)

    xs = np.array([1.0, 2.0])
    total = ftrace.jit(lambda xs: library.mapped(f, xs))(xs)
    np.testing.assert_allclose(total, np.sin(xs).sum())
    jitted = ftrace.jit(library.mapped, static_argnums=0)
    np.testing.assert_allclose(jitted(lambda x: math.cos(x), xs), np.cos(xs).sum())


def test_a_decorator_of_another_package_keeps_its_work(library):
    @library.decorated
    def f(x):
        return math.sin(x)

    np.testing.assert_allclose(ftrace.jit(f)(1.0), math.sin(1.0) + 1.0)
    np.testing.assert_allclose(ftrace.jit(lambda x: f(x) * 2)(1.0), 2 * math.sin(1.0) + 2.0)


def test_a_cache_is_used_for_plain_values_only():
    called.remembered.cache_clear()
    f = ftrace.lift(lambda x: called.remembered(x) + called.remembered(2.0))
    for _ in range(3):
        ftrace.vmap(f)(np.ones(2))
    assert called.remembered.cache_info()[:2] == (2, 1)


def test_ftrace_is_nobodys_own():
    scope = {"__name__": "ftrace.demo", "__package__": "ftrace"}
    exec("def f(x): return x", scope)
    territory = Territory(scope["f"])
    assert territory.owns(scope["f"])
    assert not territory.owns(ftrace.lax.cond)
    assert not Territory(ftrace.lax.cond).owns(scope["f"])


def test_the_standard_library_and_ftrace_are_left_alone():
    import statistics

    def f(x):
        return statistics.fmean([x, 2.0])

    with pytest.raises(ftrace.errors.ConcretizationTypeError):
        ftrace.jit(f)(1.0)
    assert ftrace.jit(lambda x: ftrace.lax.cond(x > 0, math.sin, math.cos, x))(1.0) == math.sin(1.0)


def test_functions_that_ftrace_calls_are_lifted():
    def step(carry, x):
        return math.sin(carry) + x, math.exp(x)

    def f(x):
        carry, ys = ftrace.lax.scan(step, x, np.arange(3.0))
        slope = ftrace.grad(lambda v: math.sin(v) * v)(x)
        return carry + ys.sum() + slope

    def plain(x):
        carry = x
        for v in range(3):
            carry = math.sin(carry) + v
        return carry + sum(map(math.exp, range(3))) + math.cos(x) * x + math.sin(x)

    np.testing.assert_allclose(ftrace.jit(f)(0.7), plain(0.7))


def test_a_custom_rule_is_lifted_and_kept():
    @ftrace.custom_jvp
    def g(x):
        return math.sin(x)

    g.defjvp(lambda primals, tangents: (g(*primals), 10.0 * tangents[0]))
    f = lambda x: g(x) + math.cos(x)  # noqa: E731
    np.testing.assert_allclose(ftrace.jit(f)(0.5), f(0.5))
    np.testing.assert_allclose(ftrace.jit(ftrace.grad(f))(0.5), 10 - math.sin(0.5))


def test_a_rule_that_runs_later_is_lifted_as_the_call_was():
    @ftrace.custom_vjp
    def g(x):
        return math.sin(x) if x > 0 else x

    def scale(x):
        return 7.0 if x > 0 else 8.0

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * scale(x),))
    for gradient in (ftrace.jit(ftrace.grad(g)), ftrace.grad(ftrace.jit(g))):
        assert [gradient(x) for x in (1.0, -1.0)] == [7.0, 8.0]


def test_a_function_over_a_traced_value_is_lifted():
    def outer(x):
        def inner(y):
            return y * x if y > 0 else y * x * 2

        return ftrace.grad(inner)(x) + ftrace.vmap(inner)(np.array([1.0, -1.0])).sum()

    assert ftrace.jit(outer)(3.0) == 0.0
    assert ftrace.jit(outer)(-3.0) == -3.0
    assert ftrace.grad(ftrace.jit(outer))(3.0) == ftrace.grad(outer, lift=True)(3.0) == 0.0


def smaller(v):
    if v > 2.0:
        return v
    return -v


def over_rows(a, axis):
    if a.sum() > 0.0:
        return a.sum(axis)
    return -a.sum(axis)


def doubled(x):
    if x.sum() > 0.0:
        return 2.0 * x
    return x + x


def each(x):
    return np.array([smaller(v) for v in x])


TAKES_FUNCTIONS = {
    "lax.map": (lambda x: lax.map(smaller, x), each),
    "lax.map in batches": (lambda x: lax.map(smaller, x, batch_size=2), each),
    "lax.scan": (lambda x: lax.scan(lambda c, v: (c, smaller(v)), 0.0, x)[1], each),
    "lax.fori_loop": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + smaller(x[i]), 0.0),
        lambda x: sum(each(x)),
    ),
    "np.apply_over_axes": (
        lambda x: np.apply_over_axes(over_rows, x, [0]),
        lambda x: np.apply_over_axes(over_rows, x, [0]),
    ),
    "np.apply_along_axis": (lambda x: np.apply_along_axis(doubled, 0, x), lambda x: 2.0 * x),
    "vmap": (lambda x: ftrace.vmap(smaller)(x), each),
    "grad": (lambda x: ftrace.grad(smaller)(x[0]), lambda x: 1.0 if x[0] > 2.0 else -1.0),
    "checkpoint": (lambda x: ftrace.checkpoint(doubled)(x), lambda x: 2.0 * x),
}


@pytest.mark.parametrize("name", TAKES_FUNCTIONS)
def test_what_takes_a_function_calls_it_lifted_in_a_trace(name):
    f, expected = TAKES_FUNCTIONS[name]
    for x in (np.array([1.0, 3.0, 2.0]), np.array([-1.0, -3.0, 2.5])):
        np.testing.assert_allclose(ftrace.jit(f)(x), expected(x))


PLAIN = np.array([1.0, 2.0, 3.0])
SECOND_ARGUMENTS = {
    "take": (lambda i: np.take(PLAIN, i), 2),
    "take of an axis": (lambda i: np.take(PLAIN[None], indices=i, axis=1), np.array([2, 0])),
    "compress": (lambda i: np.compress([True, False, True], PLAIN * i), 2.0),
    "clip": (lambda i: PLAIN.clip(i, 2.5), 1.5),
    "a bound of clip": (lambda i: PLAIN.clip(min=i), 1.5),
    "insert": (lambda i: np.insert(PLAIN, 1, i), 1.5),
}


@pytest.mark.parametrize("name", SECOND_ARGUMENTS)
def test_numpys_functions_and_methods_of_plain_arrays_see_all_that_is_traced(name):
    f, x = SECOND_ARGUMENTS[name]
    np.testing.assert_array_equal(ftrace.jit(f)(x), f(x))

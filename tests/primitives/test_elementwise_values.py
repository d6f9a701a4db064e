"""Values and derivatives of elementwise rows where they are delicate.

Ties, zeros, infinities, branch cuts, Python scalars and small dtypes. Expected numbers are closed
forms or were computed with mpmath; the generated laws cover the ordinary points.
"""

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ftrace.core.avals import aval, typeof
from ftrace.core.errors import RuleError
from ftrace.core.primitive import Primitive
from ftrace.core.zero import ZERO
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.linearize import linearize_flat
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.interpreters.tangents import instantiate
from ftrace.primitives import elementwise as e
from ftrace.primitives import incomplete
from ftrace.primitives import special as s
from ftrace.primitives.convert import (
    bitcast_convert_type,
    convert_element_type,
    reduce_precision,
    stop_gradient,
)
from ftrace.primitives.create import iota
from ftrace.primitives.families import FLOATING

INF, NAN = np.inf, np.nan


def tangent(fn: Any, primals: Any, tangents: Any) -> Any:
    """The tangent of one result; zeros made real."""
    with quietly():
        (y,), (t,) = jvp_flat(lambda *xs: [fn(*xs)], primals, tangents)
    return instantiate(t, y)


def derivatives(fn: Any, *xs: float) -> list[float]:
    """The derivative of a scalar function by each operand, forwards."""
    primals = [np.float64(x) for x in xs]
    only = [[np.float64(1) if i == j else ZERO for j in range(len(xs))] for i in range(len(xs))]
    return [float(tangent(fn, primals, unit)) for unit in only]


def gradient(fn: Any, *xs: Any, ct: Any = None) -> Any:
    """The pullback of a cotangent to each operand."""
    with quietly():
        (y,), tape = linearize_flat(lambda *vs: [fn(*vs)], xs, outlives=True)
        pulled = tape.pull([np.ones_like(y) if ct is None else ct])
    found = [np.zeros_like(x) if c is None else c for c, x in zip(pulled, xs, strict=True)]
    return found[0] if len(xs) == 1 else found


def second(fn: Any, i: int, j: int, *xs: float) -> float:
    """The derivative by operand i, then by operand j."""
    units = np.eye(len(xs))

    def first(*vs: Any) -> Any:
        (y,), (t,) = jvp_flat(lambda *us: [fn(*us)], vs, list(units[i]))
        return instantiate(t, y)

    return float(tangent(first, [np.float64(x) for x in xs], list(units[j])))


# ---------------------------------------------------------------------------------- choosing


@pytest.mark.parametrize("row", [e.max, e.min, e.fmax, e.fmin])
def test_a_tie_gives_each_operand_half_of_the_derivative(row: Primitive) -> None:
    assert derivatives(row, 2.0, 2.0) == [0.5, 0.5]
    assert gradient(row, np.float64(2), np.float64(2)) == [0.5, 0.5]


@pytest.mark.parametrize(
    ("row", "expected"),
    [(e.max, [1, 0]), (e.min, [0, 1]), (e.fmax, [1, 0]), (e.fmin, [0, 1])],
)
def test_the_chosen_operand_has_the_whole_derivative(row: Primitive, expected: Any) -> None:
    assert derivatives(row, 3.0, 2.0) == expected
    assert derivatives(row, 2.0, 3.0) == expected[::-1]


@pytest.mark.parametrize("row", [e.fmax, e.fmin])
def test_a_nan_beside_a_number_is_not_chosen(row: Primitive) -> None:
    assert derivatives(row, NAN, 2.0) == [0, 1]
    assert derivatives(row, 2.0, NAN) == [1, 0]


def test_the_operand_that_is_not_chosen_contributes_zero_though_its_slope_is_infinite() -> None:
    def f(x: Any) -> Any:
        return e.max(e.sqrt(x), e.sub(e.mul(x, x), -1.0))

    assert gradient(f, np.float64(0)) == 0.0
    assert derivatives(f, 0.0) == [0.0]


def test_select_contributes_zero_from_the_side_not_taken() -> None:
    def f(x: Any) -> Any:
        return e.select(e.gt(x, 0.0), e.sqrt(x), e.mul(x, 3.0))

    assert gradient(f, np.float64(0)) == 3.0
    assert derivatives(f, 0.0) == [3.0]


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.5, [0, 1, 0]),
        (-2.0, [1, 0, 0]),
        (2.0, [0, 0, 1]),
        (1.0, [0, 0, 0]),
        (-1.0, [0, 0, 0]),
    ],
)
def test_clamp_follows_the_operand_inside_and_the_bound_outside(x: float, expected: Any) -> None:
    assert derivatives(e.clamp, -1.0, x, 1.0) == expected


# ---------------------------------------------------------------------------------- signs


@pytest.mark.parametrize(("x", "expected"), [(2.0, 1), (-2.0, -1), (0.0, 1), (-0.0, 1)])
def test_abs_has_the_slope_of_the_right_side_at_zero(x: float, expected: float) -> None:
    assert derivatives(e.abs, x) == [expected]


@pytest.mark.parametrize(
    ("z", "expected"), [(3 + 4j, 0.6 - 0.8j), (-2j, 1j), (0j, 0j), (1e200 + 0j, 1)]
)
def test_the_gradient_of_a_modulus_is_the_conjugate_direction(z: complex, expected: Any) -> None:
    assert gradient(e.abs, np.complex128(z)) == pytest.approx(expected)


def test_the_sign_of_a_complex_number_turns() -> None:
    z, t = np.complex128(3 + 4j), np.complex128(0.3 - 0.2j)
    step = 1e-6
    expected = (np.sign(z + step * t) - np.sign(z - step * t)) / (2 * step)
    assert tangent(e.sign, [z], [t]) == pytest.approx(expected, rel=1e-8)
    assert tangent(e.sign, [np.complex128(0)], [t]) == 0


def test_the_sign_of_a_real_number_is_constant() -> None:
    assert derivatives(e.sign, 2.0) == [0.0]
    assert derivatives(e.sign, 0.0) == [0.0]


@pytest.mark.parametrize(
    ("x", "y", "expected"), [(2.0, -1.0, -1), (-2.0, -1.0, 1), (-2.0, 0.0, -1), (2.0, -0.0, -1)]
)
def test_copysign_turns_the_tangent_as_the_value(x: float, y: float, expected: float) -> None:
    assert derivatives(e.copysign, x, y) == [expected, 0]


def test_heaviside_depends_on_its_second_operand_at_zero_only() -> None:
    assert derivatives(e.heaviside, 0.0, 0.3) == [0, 1]
    assert derivatives(e.heaviside, 1.0, 0.3) == [0, 0]


# ---------------------------------------------------------------------------------- powers

POWERS = [  # x, y, by x, by y
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 1.0, 1.0, 0.0),
    (0.0, 2.0, 0.0, 0.0),
    (0.0, 3.0, 0.0, 0.0),
    (0.0, 0.5, INF, 0.0),
    (2.0, 0.0, 0.0, math.log(2)),
    (2.0, 3.0, 12.0, 8 * math.log(2)),
    (-2.0, 3.0, 12.0, NAN),
    (INF, 0.0, 0.0, INF),
]


@pytest.mark.parametrize(("x", "y", "by_x", "by_y"), POWERS)
def test_pow_has_exact_derivatives_at_its_corners(
    x: float, y: float, by_x: float, by_y: float
) -> None:
    np.testing.assert_allclose(derivatives(e.pow, x, y), [by_x, by_y], rtol=1e-15)
    found = gradient(e.pow, np.float64(x), np.float64(y))
    np.testing.assert_allclose(found, [by_x, by_y], rtol=1e-15)


@pytest.mark.parametrize(("x", "y", "by_x"), [p[:3] for p in POWERS])
def test_pow_with_a_literal_exponent_has_the_same_derivative(
    x: float, y: float, by_x: float
) -> None:
    assert derivatives(lambda v: e.pow(v, y), x) == [by_x]


@pytest.mark.parametrize(("y", "expected"), [(0.0, 0), (1.0, 0), (2.0, 2), (3.0, 0)])
def test_the_second_derivative_of_pow_at_zero_is_exact(y: float, expected: float) -> None:
    assert second(e.pow, 0, 0, 0.0, y) == expected
    assert second(lambda v: e.pow(v, y), 0, 0, 0.0) == expected


def test_the_mixed_derivative_of_pow_does_not_depend_on_the_order() -> None:
    assert second(e.pow, 0, 1, 2.0, 0.0) == pytest.approx(0.5)
    assert second(e.pow, 1, 0, 2.0, 0.0) == pytest.approx(0.5)


def test_pow_differentiates_complex_numbers() -> None:
    x, y = np.complex128(1 + 2j), np.complex128(0.5 - 1j)
    by_x, by_y = gradient(e.pow, x, y)
    assert by_x == pytest.approx(y * x ** (y - 1))
    assert by_y == pytest.approx(np.log(x) * x**y)


@pytest.mark.parametrize("y", [0, 1, 2, 3, 4, 5, -1, -2])
def test_integer_pow_agrees_with_power(y: int) -> None:
    x = np.array([-1.7, 0.3, 2.5])
    np.testing.assert_allclose(e.integer_pow(x, y=y), x ** float(y), rtol=1e-15)
    np.testing.assert_allclose(
        gradient(lambda v: e.integer_pow(v, y=y), x), y * x ** float(y - 1), rtol=1e-15
    )


@pytest.mark.parametrize(("y", "expected"), [(0, 0), (1, 1), (2, 0), (3, 0)])
def test_integer_pow_has_a_finite_derivative_at_zero(y: int, expected: float) -> None:
    assert derivatives(lambda v: e.integer_pow(v, y=y), 0.0) == [expected]


def test_integer_powers_of_integers_wrap_around_as_in_numpy() -> None:
    x = np.array([3, 100], np.int8)
    for y in (2, 3, 4, 5):
        np.testing.assert_array_equal(e.integer_pow(x, y=y), x**y)


@pytest.mark.parametrize(("row", "expected"), [(e.sqrt, INF), (e.cbrt, INF), (e.log, INF)])
def test_an_infinite_slope_is_infinite_not_nan(row: Primitive, expected: float) -> None:
    assert derivatives(row, 0.0) == [expected]


def test_the_cube_root_of_a_negative_number_has_a_positive_slope() -> None:
    assert derivatives(e.cbrt, -8.0) == [pytest.approx(1 / 12)]


def test_hypot_has_derivative_zero_at_the_origin_and_does_not_overflow() -> None:
    assert derivatives(e.hypot, 0.0, 0.0) == [0, 0]
    assert derivatives(e.hypot, 3e300, 4e300) == pytest.approx([0.6, 0.8])


# ---------------------------------------------------------------------------------- functions


@pytest.mark.parametrize("row", [e.logaddexp, e.logaddexp2])
@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (0.0, 0.0, [0.5, 0.5]),
        (1e3, -1e3, [1.0, 0.0]),
        (-INF, 2.0, [0.0, 1.0]),
        (INF, 2.0, [1.0, 0.0]),
    ],
)
def test_logaddexp_weighs_without_subtracting_infinities(
    row: Primitive, x: float, y: float, expected: Any
) -> None:
    assert derivatives(row, x, y) == pytest.approx(expected)
    assert not np.isnan(derivatives(row, -INF, -INF)).any()


@pytest.mark.parametrize(
    ("row", "x", "expected"),
    [
        (e.asinh, 1e200, 1e-200),
        (e.asin, 1 - 2.0**-52, 2.0**25.5),
        (e.acosh, 1 + 2.0**-52, 2.0**25.5),
        (e.atanh, 1 - 2.0**-52, 2.0**51),
        (e.tanh, 15.0, 3.7430492e-13),
        (e.log1p, 1e-300, 1.0),
        (e.expm1, -50.0, 0.0),
    ],
)
def test_derivatives_are_precise_far_out_and_next_to_singularities(
    row: Primitive, x: float, expected: float
) -> None:
    assert derivatives(row, x) == [pytest.approx(expected, rel=1e-3, abs=1e-15)]


def test_atan2_has_derivatives_where_squares_would_overflow() -> None:
    assert derivatives(e.atan2, 3e200, 4e200) == pytest.approx(
        [1.6e-201, -1.2e-201], rel=1e-14, abs=0
    )


ANALYTIC = [e.sqrt, e.log, e.asin, e.acos, e.atan, e.asinh, e.acosh, e.atanh, e.tan, e.tanh]


@pytest.mark.parametrize("row", ANALYTIC, ids=repr)
@pytest.mark.parametrize("z", [2 + 1j, -2 + 1j, -2 - 1j, 2 - 1j, 0.3 + 2j, -0.3 - 2j])
def test_complex_derivatives_are_right_in_every_quadrant(row: Primitive, z: complex) -> None:
    x, step = np.complex128(z), 1e-5
    expected = (row(x + step) - row(x - step)) / (2 * step)
    assert gradient(row, x) == pytest.approx(expected, rel=1e-8)


def test_on_a_branch_cut_the_derivative_is_that_along_the_cut() -> None:
    above = np.complex128(complex(2.0, 0.0))
    assert gradient(e.asin, above) == pytest.approx(1j / math.sqrt(3))
    assert gradient(e.acos, above) == pytest.approx(-1j / math.sqrt(3))


@pytest.mark.parametrize(("x", "y"), [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (-7.5, -2.0)])
def test_remainders_have_the_slope_of_minus_the_quotient(x: float, y: float) -> None:
    assert derivatives(e.mod, x, y) == [1.0, -math.floor(x / y)]
    assert derivatives(e.rem, x, y) == [1.0, -math.trunc(x / y)]


def test_integer_division_by_zero_warns_as_numpy_does() -> None:
    x, zero = np.array([5]), np.array([0])
    for row in (e.floor_divide, e.mod, e.rem):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            np.testing.assert_array_equal(row(x, zero), [0])


def test_frexp_and_ldexp_are_inverse_with_their_tangents() -> None:
    x, t = np.array([0.3, -5.0, 0.0]), np.array([1.0, 2.0, 3.0])
    (m, n), (tm, tn) = jvp_flat(lambda v: list(e.frexp(v)), [x], [t])
    assert tn is ZERO
    np.testing.assert_array_equal(e.ldexp(m, n), x)
    np.testing.assert_array_equal(e.ldexp(tm, n), t)


def test_only_the_fraction_of_modf_has_a_tangent() -> None:
    (f, i), (tf, ti) = jvp_flat(lambda v: list(e.modf(v)), [np.float64(-2.75)], [np.float64(3)])
    assert (f, i, tf) == (-0.75, -2.0, 3.0)
    assert ti is ZERO


# ---------------------------------------------------------------------------------- complex parts


def test_cotangents_of_complex_parts_are_not_conjugated() -> None:
    z = np.complex128(1 + 2j)
    assert gradient(e.real, z, ct=np.float64(3)) == 3
    assert gradient(e.imag, z, ct=np.float64(3)) == -3j
    assert gradient(e.conj, z, ct=np.complex128(3 + 4j)) == 3 - 4j
    found = gradient(e.complex, np.float64(1), np.float64(2), ct=np.complex128(3 + 4j))
    assert found == [3, -4]


def test_a_holomorphic_function_through_its_parts_has_the_complex_derivative() -> None:
    def square(z: Any) -> Any:
        x, y = e.real(z), e.imag(z)
        return e.complex(e.sub(e.mul(x, x), e.mul(y, y)), e.mul(e.mul(x, y), 2.0))

    z, t = np.complex128(1 + 2j), np.complex128(0.5 - 3j)
    assert tangent(square, [z], [t]) == pytest.approx(2 * z * t)
    assert gradient(square, z, ct=t) == pytest.approx(2 * z * t)


def test_infinite_parts_do_not_become_nan() -> None:
    z = e.complex(np.array([INF, 1.0]), np.array([0.0, -INF]))
    np.testing.assert_array_equal(z.real, [INF, 1.0])
    np.testing.assert_array_equal(z.imag, [0.0, -INF])


# ---------------------------------------------------------------------------------- dtypes


def _dtypes_of(row: Primitive) -> set[str]:
    """The dtypes of each kind that occurs among the samples."""
    names = {"f": ("f2", "f4", "f8"), "c": ("c8", "c16"), "i": ("i1", "i8"), "u": ("u2",)}
    kinds = {typeof(sample.args[0]).dtype.kind for sample in row.samples()}
    return {name for kind in kinds for name in names.get(kind, ("?",))}


def _is_unary(value: Any) -> bool:
    if not isinstance(value, Primitive) or value.multiple:
        return False
    sample = next(iter(value.samples()))
    return len(sample.args) == 1 and not sample.params


UNARY = dict.fromkeys(filter(_is_unary, vars(e).values()))


@pytest.mark.parametrize(
    ("row", "name"), [(row, name) for row in UNARY for name in sorted(_dtypes_of(row))]
)
@pytest.mark.parametrize("shape", [(), (2,)])
def test_results_and_tangents_have_the_dtype_that_the_type_rule_says(
    row: Primitive, name: str, shape: tuple[int, ...]
) -> None:
    x = np.ones(shape, name)[()]
    with quietly():
        y = row(x)
    expected = row.type(typeof(x))
    assert typeof(y) == expected
    if typeof(x).dtype.kind in FLOATING and expected.dtype.kind in FLOATING:
        assert typeof(tangent(row, [x], [x])) == expected


BINARY = [e.sub, e.mul, e.div, e.pow, e.mod, e.rem, e.max, e.hypot, e.atan2, e.logaddexp]


@pytest.mark.parametrize("row", BINARY, ids=repr)
@pytest.mark.parametrize("literal", [2, 2.0])
def test_a_python_scalar_adapts_to_the_array_beside_it(row: Primitive, literal: Any) -> None:
    x = np.array([1.5, 2.5], np.float32)
    for fn in (lambda v: row(v, literal), lambda v: row(literal, v)):
        assert typeof(fn(x)).dtype == np.float32
        assert typeof(tangent(fn, [x], [x])).dtype == np.float32


@pytest.mark.parametrize("row", BINARY, ids=repr)
def test_the_tangent_of_a_python_scalar_takes_the_dtype_of_the_result(row: Primitive) -> None:
    x = np.array([1.5, 2.5], np.float32)
    t = tangent(lambda v: row(v, x), [2.0], [np.float64(1)])
    assert typeof(t) == aval((2,), np.dtype("f4"))
    assert typeof(gradient(lambda v: row(v, x), 2.0)) == aval((), np.dtype("f8"))


OPERATORS = [e.sub, e.mul, e.floor_divide, e.mod, e.pow]


@pytest.mark.parametrize("row", OPERATORS, ids=repr)
@pytest.mark.parametrize(("x", "y"), [(7, 2), (7.0, 2), (7, 2.5)])
def test_operators_of_two_python_scalars_give_a_python_scalar(
    row: Primitive, x: Any, y: Any
) -> None:
    z = row(x, y)
    assert type(z) in (int, float)
    assert typeof(z) is row.type(typeof(x), typeof(y))


def test_unary_operators_of_a_python_scalar_give_a_python_scalar() -> None:
    assert type(e.neg(2.0)) is float
    assert type(e.abs(-2)) is int
    assert type(e.abs(3 + 4j)) is float
    assert type(e.integer_pow(1.5, y=5)) is float
    assert type(e.bitwise_not(True)) is bool
    assert type(e.eq(1, 1)) is bool


def test_functions_of_a_python_scalar_give_a_numpy_scalar() -> None:
    for y in (e.sin(2.0), e.max(1.0, 2.0), e.select(True, 1, 2), e.real(1j)):
        assert isinstance(y, np.generic)


def test_select_of_two_literals_by_an_array_has_the_shape_of_the_array() -> None:
    which = np.array([True, False])
    assert typeof(e.select(which, 1.0, 2.0)) == aval((2,), np.dtype("f8"))
    jaxpr, _ = trace_to_jaxpr(lambda w: [e.select(w, 1.0, 2.0)], [typeof(which)])
    assert jaxpr.out_avals == (aval((2,), np.dtype("f8")),)


def test_population_count_is_numpys() -> None:
    x = np.array([-1, 7, 0], np.int16)
    np.testing.assert_array_equal(e.population_count(x), np.bitwise_count(x))
    assert e.population_count(x).dtype == np.uint8


# ---------------------------------------------------------------------------------- special


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: s.erf(0.5), 0.5204998778130465),
        (lambda: s.erfc(5.0), 1.5374597944280349e-12),
        (lambda: s.erf_inv(0.5), 0.4769362762044699),
        (lambda: s.ndtri(0.975), 1.959963984540054),
        (lambda: s.log_ndtr(-10.0), -53.23128515051247),
        (lambda: s.gamma(0.5), math.sqrt(math.pi)),
        (lambda: s.lgamma(0.5), math.log(math.pi) / 2),
        (lambda: s.digamma(1.0), -0.5772156649015329),
        (lambda: s.polygamma(1, 1.0), math.pi**2 / 6),
        (lambda: s.polygamma(np.int64(0), np.float64(1)), -0.5772156649015329),
        (lambda: s.polygamma(2.0, 1.0), -2.404113806319188),
        (lambda: s.zeta(2.0, 1.0), math.pi**2 / 6),
        (lambda: incomplete.igamma(1.0, 0.7), -math.expm1(-0.7)),
        (lambda: incomplete.igammac(1.0, 0.7), math.exp(-0.7)),
        (lambda: s.logistic(-40.0), 4.248354255291589e-18),
        (lambda: s.i0(1.0), 1.2660658777520084),
        (lambda: s.i1(1.0), 0.5651591039924851),
        (lambda: s.i0e(1.0), 0.46575960759364043),
        (lambda: s.bessel_iv(2, 1.0), 0.13574766976703828),
        (lambda: s.bessel_jv(2, 1.0), 0.11490348493190047),
    ],
)
def test_special_functions_have_their_known_values(found: Any, expected: float) -> None:
    assert found() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("row", "x", "expected"),
    [
        (s.erf, 0.0, 2 / math.sqrt(math.pi)),
        (s.erf_inv, 0.0, math.sqrt(math.pi) / 2),
        (s.ndtri, 0.5, math.sqrt(2 * math.pi)),
        (s.lgamma, 1.0, -0.5772156649015329),
        (s.digamma, 1.0, math.pi**2 / 6),
        (s.logistic, 0.0, 0.25),
        (s.logistic, -800.0, 0.0),
        (s.i0, 0.0, 0.0),
        (s.i1, 0.0, 0.5),
        (s.i0e, 0.0, 0.0),
        (s.i1e, 0.0, 0.5),
        (s.log_ndtr, -10.0, 10.098093233962512),
    ],
)
def test_special_functions_have_their_known_slopes(
    row: Primitive, x: float, expected: float
) -> None:
    assert derivatives(row, x) == [pytest.approx(expected, rel=1e-14)]


def test_bessel_functions_keep_their_series_at_zero_to_third_order() -> None:
    def nested(fn: Any, order: int) -> Any:
        def derived(x: Any) -> Any:
            (y,), (t,) = jvp_flat(lambda v: [fn(v)], [x], [np.float64(1)])
            return instantiate(t, y)

        return fn if order == 0 else nested(derived, order - 1)

    found = [float(nested(s.i1, k)(np.float64(0))) for k in range(4)]
    assert found == [0.0, 0.5, 0.0, 0.375]


@pytest.mark.parametrize("row", [s.polygamma, s.zeta, s.bessel_jv])
def test_a_derivative_by_a_parameter_is_refused(row: Primitive) -> None:
    with pytest.raises(RuleError, match="no derivative by its first operand"):
        derivatives(row, 2.0, 1.5)


def test_half_precision_special_functions_stay_half_precision() -> None:
    x = np.array([0.25, 0.5], np.float16)
    for row in (s.erf, s.lgamma, s.digamma, s.logistic, s.i1):
        assert row(x).dtype == np.float16
    assert s.polygamma(np.array([1, 2]), x).dtype == np.float16


def test_importing_the_rows_does_not_import_scipy() -> None:
    code = "import ftrace.primitives.special, sys; assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------------------------- conversions


def test_conversions_to_integers_end_differentiation() -> None:
    x = np.array([1.5, -2.5])
    params = {"new_dtype": np.dtype(np.int32)}
    (y,), (t,) = jvp_flat(lambda v: [convert_element_type(v, **params)], [x], [x])
    np.testing.assert_array_equal(y, np.array([1, -2], np.int32))
    assert t is ZERO


def test_conversions_between_real_and_complex_are_transposes_of_each_other() -> None:
    real, full = np.dtype(np.float64), np.dtype(np.complex128)
    z, x = np.array([1 + 2j]), np.array([3.0])
    np.testing.assert_array_equal(convert_element_type(z, new_dtype=real), [1.0])
    found = gradient(lambda v: convert_element_type(v, new_dtype=real), z, ct=x)
    np.testing.assert_array_equal(found, [3 + 0j])
    found = gradient(lambda v: convert_element_type(v, new_dtype=full), x, ct=z)
    np.testing.assert_array_equal(found, [1.0])


def test_a_weak_conversion_gives_a_python_scalar() -> None:
    y = convert_element_type(np.float32(1.5), new_dtype=np.dtype("f8"), weak_type=True)
    assert type(y) is float
    assert convert_element_type(3, new_dtype=np.dtype("f4")).dtype == np.float32


def test_stop_gradient_has_no_tangent_and_makes_a_new_object() -> None:
    x = np.array([1.0, 2.0])
    (y,), (t,) = jvp_flat(lambda v: [stop_gradient(v)], [x], [x])
    assert y is not x
    assert t is ZERO
    np.testing.assert_array_equal(y, x)
    found = gradient(lambda v: e.mul(stop_gradient(v), v), x)
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(("name", "bits"), [("f4", (8, 23)), ("f2", (5, 10))])
def test_reduced_precision_is_the_rounding_of_the_smaller_format(name: str, bits: Any) -> None:
    small = np.finfo(name)
    x = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-4, 4).repeat(125)
    limits = [1 + small.eps / 2, 1 + 3 * small.eps / 2, float(small.max), float(small.max) * 1.01]
    x = np.concatenate([x, limits, [0.0, -0.0, INF, -INF, NAN, float(small.tiny)]])
    x = x[~(np.abs(x) < small.tiny) | (x == 0)]
    with np.errstate(over="ignore"):
        expected = x.astype(name).astype(np.float64)
    found = reduce_precision(x, exponent_bits=bits[0], mantissa_bits=bits[1])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_reduced_precision_flushes_what_is_too_small_to_a_signed_zero() -> None:
    x = np.array([1e-6, -1e-6])
    found = reduce_precision(x, exponent_bits=5, mantissa_bits=10)
    np.testing.assert_array_equal(found, [0.0, -0.0])
    np.testing.assert_array_equal(np.signbit(found), [False, True])


def test_bitcasts_read_the_same_bits() -> None:
    x = np.array([1.0, -0.0], np.float32)
    bits = bitcast_convert_type(x, new_dtype=np.dtype("u4"))
    np.testing.assert_array_equal(bits, [0x3F800000, 0x80000000])
    parts = bitcast_convert_type(x, new_dtype=np.dtype("u2"))
    assert parts.shape == (2, 2)
    np.testing.assert_array_equal(bitcast_convert_type(parts, new_dtype=np.dtype("f4")), x)


def test_iota_counts_along_its_dimension() -> None:
    found = iota(dtype=np.dtype("i4"), shape=(2, 3), dimension=1)
    np.testing.assert_array_equal(found, [[0, 1, 2], [0, 1, 2]])
    found[0, 0] = 7
    assert found.dtype == np.int32

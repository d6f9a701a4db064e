"""The mathematics of compiled code: errors in units of the last place, special values, widths."""

import functools

import numpy as np
import pytest

from ftrace.core.errors import BackendError
from ftrace.core.scalar import OPS, apply
from ftrace.cpu.mathematics import libraries
from ftrace.cpu.mathematics.functions_table import SPELLINGS
from ftrace.cpu.mathematics.libraries import PREFIX, SCIPY
from tests.cpu.ulp import (
    BINARY,
    LANES,
    TRUTH,
    Compiled,
    error,
    host,
    pairs,
    samples,
    true_values,
)

WIDE_ENOUGH = np.finfo(np.longdouble).nmant >= 63
DTYPES = [
    "f4",
    pytest.param(
        "f8",
        marks=pytest.mark.skipif(not WIDE_ENOUGH, reason="long double is no wider than float64"),
    ),
]


@functools.cache
def compiled(fma: bool) -> Compiled:
    return Compiled([(op, d, LANES[d]) for op in SPELLINGS for d in LANES], host(fma))


@functools.cache
def case(op, dtype, count, seed):
    args = pairs(op, dtype, count, seed) if op in BINARY else (samples(dtype, count, seed),)
    return args, true_values(op, dtype, *args)


def worst(op, dtype, fma, count, seed):
    args, true = case(op, dtype, count, seed)
    got = compiled(fma)(op, dtype, LANES[dtype], *args)
    errors = error(got, true)
    at = int(np.argmax(errors))
    return errors[at], [a[at] for a in args], got[at], true[at]


def test_every_costly_operation_on_floats_alone_is_spelled_or_exact():
    exact = {"div", "sqrt"}
    assert set(SPELLINGS) == {
        name for name, op in OPS.items() if op.costly and op.kinds == "f" and name not in exact
    }


@pytest.mark.parametrize("fma", [True, False], ids=["fma", "no_fma"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", TRUTH)
def test_errors_stay_within_two_units_of_the_last_place(op, dtype, fma):
    worst_error, *where = worst(op, dtype, fma, 10_000, 1)
    assert worst_error < 2, where


@pytest.mark.sampled(2, each="op")
@pytest.mark.slow
@pytest.mark.parametrize("fma", [True, False], ids=["fma", "no_fma"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", TRUTH)
def test_errors_stay_within_two_units_on_many_points(op, dtype, fma):
    worst_error, *where = worst(op, dtype, fma, 400_000, 2)
    assert worst_error < 2, where


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_arguments_beyond_every_table_are_reduced_exactly(op):
    # 6381956970095103 * 2**797 is the double closest to a multiple of pi/2
    hard = np.array([6381956970095103 * 2.0**797, 1e22, -1e300, 2.0**1023], "f8")
    single = hard[1:3] / np.array([1, 1e270])
    for dtype, x in (("f8", hard), ("f4", single.astype("f4"))):
        if dtype == "f4" or WIDE_ENOUGH:
            got = compiled(True)(op, dtype, LANES[dtype], x)
            assert error(got, true_values(op, dtype, x)).max() < 2


def test_a_known_hard_case_of_sine_has_its_published_value():
    x = np.array([6381956970095103 * 2.0**797])
    got = compiled(True)("cos", "f8", 8, x)
    np.testing.assert_allclose(np.abs(got), [4.687165924254624e-19], rtol=1e-15)


@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_every_width_gives_the_same_bits(lanes):
    ops = ("exp", "log", "sin", "tanh", "cbrt", "erf", "lgamma")
    module = Compiled([(op, d, lanes) for op in ops for d in LANES], host(True))
    for op in ops:
        for dtype in LANES:
            x = samples(dtype, 600, 3)
            got = module(op, dtype, lanes, x)
            np.testing.assert_array_equal(got, compiled(True)(op, dtype, LANES[dtype], x))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("op", SCIPY)
def test_functions_called_through_pointers_equal_scipys_ufuncs(op, dtype):
    x = samples(dtype, 800, 4)
    x = np.concatenate([x, np.linspace(-4, 4, 200, dtype=dtype)])
    got = compiled(True)(op, dtype, LANES[dtype], x)
    np.testing.assert_array_equal(got, apply(op, (x,), x.dtype))


def test_the_symbols_of_a_module_are_those_that_pointers_knows():
    used = {name for name in compiled(True).declarations if name.startswith(PREFIX)}
    assert used == set(libraries.pointers())


def test_a_scipy_without_a_function_is_named():
    with pytest.raises(BackendError, match="exports no gammaln of double"):
        libraries._address({}, "gammaln", "double")

"""Quotients whose denominator cannot be less than one: exact, and without a call."""

import ctypes
import subprocess

import numpy as np
import pytest

from ftrace import grad, jit
from ftrace.gpu.prelude.prelude_exact import EXACT
from tests.gpu import plans
from tests.gpu.emulation import driver
from tests.gpu.plans import array, planned

FAST = "ft_reciprocal"


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def text(f, *args):
    return "".join(k.text for k in plans.kernels(planned(f, *args)))


X = array(1000)


@pytest.mark.parametrize(
    "f",
    [
        sigmoid,
        lambda x: 1.0 / (np.exp(x) + 1.0),
        lambda x: 1.0 / (1.0 + x * x),
        lambda x: 1.0 / (x * x + (np.exp(x) + 1.0)),
        lambda x: 1.0 / (1.0 + np.abs(x)),
        lambda x: 1.0 / (2.0 + np.exp(x) * np.abs(x)),
        lambda x: 1.0 / np.cosh(x),
        lambda x: 1.0 / (1.0 + 0.5 * np.exp(x)),
    ],
)
def test_a_denominator_of_at_least_one_is_seen(f):
    written = text(f, X)
    assert f"{FAST}_f4(" in written
    assert " / " not in written


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 1.0 / x,
        lambda x: 1.0 / (1.0 - np.exp(x)),
        lambda x: 1.0 / (0.5 + np.exp(x)),
        lambda x: 1.0 / (1.0 + x),
        lambda x: 1.0 / (1.0 + x * x * x),
        lambda x: 1.0 / np.exp(x),
        lambda x: x / (1.0 + np.exp(x)),  # the quotient may be subnormal where x is
        lambda x: 2.0 / (1.0 + np.exp(x)),
        lambda x: 1.0 / (-1.0 + np.exp(x)),
        lambda x: 1.0 / (1.0 + -0.5 * np.exp(x)),
        lambda x: 1.0 / (1.0 + (np.exp(x) - np.abs(x))),
    ],
)
def test_other_denominators_are_not(f):
    written = text(f, X)
    assert FAST not in written
    assert " / " in written


def test_only_float32_has_one():
    assert FAST not in text(sigmoid, array(1000, dtype="f8"))


def test_a_reciprocal_over_another_denominator_is_divided():
    written = text(lambda x: sigmoid(x) / (1.0 + x * x), X)
    assert "_square" not in written
    assert " / " in written


def test_the_derivative_divides_by_the_same_denominator_again():
    written = text(grad(lambda x: sigmoid(x).sum()), X)
    assert f"{FAST}_square_f4(" in written
    assert " / " not in written


# --- values


@pytest.fixture(scope="module")
def functions(tmp_path_factory, emulation):
    """The device functions on the host, with an estimate of the reciprocal that is off by `by`."""
    both = EXACT["ft_reciprocal_f4"] + EXACT["ft_reciprocal_square_f4"]
    exact = "near = 1 / (0.25f * d);"
    assert exact in both
    both = both.replace(exact, f"{exact} near = __int_as_float(__float_as_int(near) + by);")
    source = f"""
#include <math.h>
#include <string.h>
static int by;
static int __float_as_int(float x) {{ int y; memcpy(&y, &x, 4); return y; }}
static float __int_as_float(int x) {{ float y; memcpy(&y, &x, 4); return y; }}
{both}
extern "C" void run(const float* d, float* one, float* two, long n, int off) {{
  by = off;
  for (long i = 0; i < n; ++i) {{
    one[i] = ft_reciprocal_f4(d[i]);
    two[i] = ft_reciprocal_square_f4(d[i]);
  }}
}}
"""
    folder = tmp_path_factory.mktemp("quotients")
    (folder / "q.cpp").write_text(source, encoding="utf-8")
    command = [*driver.compilers()[0].command, "-O1", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", "q.so", "q.cpp"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "q.so"))

    def run(d, off=0):
        d = np.ascontiguousarray(d, np.float32)
        one, two = np.empty_like(d), np.empty_like(d)
        places = [ctypes.c_void_p(a.ctypes.data) for a in (d, one, two)]
        library.run(*places, ctypes.c_long(d.size), ctypes.c_int(off))
        return one, two

    return run


def denominators(count, ends=()):
    """Of every size from one on, with the ends of each size."""
    rng = np.random.default_rng(3)
    exponents = np.arange(127, 255, dtype=np.uint32)[:, None] << 23
    digits = rng.integers(0, 1 << 23, count, dtype=np.uint32)
    digits[: len(ends)] = ends
    return (exponents | digits).view(np.float32).ravel()


def test_quotients_are_the_nearest_numbers(functions):
    """Where the estimate is what the device's is at best."""
    d = denominators(4000, [0, 1, 2, (1 << 23) - 1, (1 << 23) - 2])
    one, two = functions(d)
    exact = np.float32(1) / d
    normal = exact >= np.finfo("f4").tiny
    np.testing.assert_array_equal(one[normal], exact[normal])
    np.testing.assert_array_equal(two, exact / d)
    assert np.mean(one[~normal] != exact[~normal]) < 1e-3
    np.testing.assert_allclose(one[~normal], exact[~normal], rtol=0, atol=1.5e-45)


@pytest.mark.parametrize("off", [-1, 1])
def test_an_estimate_that_is_off_by_one_is_corrected(functions, off):
    """The device's own division corrects its estimate by the same step."""
    d = denominators(4000)
    one, two = functions(d, off)
    exact = np.float32(1) / d
    assert np.mean(one != exact) < 1e-5
    assert np.abs(one.view("i4") - exact.view("i4")).max() <= 1
    assert np.mean(two != exact / d) < 1e-5


def test_the_ends_of_the_range(functions):
    d = np.array([1, np.inf, np.nan, 3.4e38, 1.7e38, 2**126, 2**127], np.float32)
    one, two = functions(d)
    np.testing.assert_array_equal(one, np.float32(1) / d)
    np.testing.assert_array_equal(two, (np.float32(1) / d) / d)


def test_kernels_give_numpys_quotients_compiled(host_device):
    x = np.concatenate(
        [np.linspace(-3, 3, 999), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, 1e19, -1e19, 3e38]]
    ).astype(np.float32)

    def f(x):
        return 1.0 / (1.0 + np.abs(x)), 1.0 / (1.0 + x * x)

    with np.errstate(over="ignore"):
        expected = f(x)
    for a, b in zip(jit(f)(host_device.from_host(x)), expected, strict=True):
        np.testing.assert_array_equal(host_device.to_host(a), b)

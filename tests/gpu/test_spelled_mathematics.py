"""The mathematics of device code, compiled by the host: errors, and what scipy gives at the ends.

CUDA's own functions are the C library's here, so what is tested of those is that the right one is
called in the right way; functions of the prelude run as on a device.
"""

import numpy as np
import pytest

from ftrace.core.scalar import OPS, apply
from tests.cpu.ulp import BINARY, TRUTH, error, pairs, samples, special_values, true_values
from tests.gpu.special_truth import SCIPY, WIDE, inputs, truth
from tests.gpu.spelled import Spelled, complete, kernel, spelled

WIDE_ENOUGH = np.finfo(np.longdouble).nmant >= 63
DTYPES = ["f4"] + ["f8"] * WIDE_ENOUGH
# Of the C library and scipy, or of the emulation's normcdfinv and erfcx in float64; others 4
LIMIT = {("gamma", "f4"): 6, ("gamma", "f8"): 16, ("log_ndtr", "f8"): 6, ("ndtri", "f8"): 6}
# Where terms of a size cancel: between digamma's roots; scipy's lgamma at 1 and 2 too
CANCELS = {"digamma": lambda size: np.log(3 + size), "lgamma": lambda size: 2 + size}
CANCELS_BELOW = {"digamma": 0, "lgamma": 3}


@pytest.fixture(params=DTYPES)
def host(request, emulation):
    return spelled(request.param)


def test_every_function_is_compared_with_a_truth():
    rounded = {op for op, row in OPS.items() if row.costly and row.kinds == "f"}
    assert rounded - {"div", "sqrt"} == {*TRUTH, *WIDE, *SCIPY}


@pytest.mark.parametrize("op", TRUTH)
def test_errors_stay_within_four_units_of_the_last_place(host, op):
    draw = pairs(op, host.dtype, 6000, 1) if op in BINARY else (samples(host.dtype, 6000, 1),)
    errors = error(host(op, host.dtype, *draw), true_values(op, host.dtype, *draw))
    worst = int(np.argmax(errors))
    assert errors[worst] < 4, [x[worst] for x in draw]


@pytest.mark.parametrize("op", [*WIDE, *SCIPY])
def test_errors_of_special_functions_stay_within_four_units(host, op):
    x = inputs(op, host.dtype, 800, 2)
    got, true = host(op, host.dtype, x), truth(op, x)
    errors = error(got, true)
    if op in CANCELS:
        terms = np.abs(true) + CANCELS[op](np.abs(x))
        unit = np.spacing(terms.astype(host.dtype)).astype(true.dtype)
        with np.errstate(invalid="ignore"):
            absolute = np.abs(got - true) / unit
        cancels = (x < CANCELS_BELOW[op]) & np.isfinite(true)
        errors = np.where(cancels, absolute, errors)
    worst = int(np.argmax(errors))
    assert errors[worst] < LIMIT.get((op, host.dtype), 4), (x[worst], got[worst], true[worst])


def test_digamma_has_all_its_digits_next_to_its_positive_root(host):
    values = [  # with 40 digits
        *((1.4616321325302124, -1.2036052549106669e-8), (1.461632251739502, 1.0331946336967871e-7)),
        *((1.4500000476837158, -0.011316375948015867), (1.4700000286102295, 0.0080665164862316629)),
    ]
    if host.dtype == "f8":
        values += [(1.4616321449683622, -9.2412655217294275e-17), (1.462, 3.5590320380104276e-4)]
    x, want = np.array(values).T
    got = host("digamma", host.dtype, x)
    np.testing.assert_allclose(got, want, rtol=2 * np.finfo(host.dtype).eps)


def trusted(op, x):
    """Where scipy is right: not near roots, poles and the ends of the format."""
    whole = (x == np.rint(x)) | np.isnan(x)
    normal = (np.abs(x) >= np.finfo(x.dtype).tiny) | (x == 0) | np.isnan(x)
    if op in ("lgamma", "gamma"):
        return normal & whole
    if op == "ndtri":  # the emulation's gives NaN
        return normal
    return (x > -0.1) | whole if op == "digamma" else np.full(x.shape, True)


@pytest.mark.parametrize("op", [*WIDE, *SCIPY])
def test_special_values_are_those_of_scipy(host, op):
    x = special_values(host.dtype)
    x = np.concatenate([x[trusted(op, x)], np.arange(-12, 13, dtype=x.dtype)])
    got, want = host(op, host.dtype, x), apply(op, (x,), x.dtype)
    # what is not zero, infinite or NaN: scipy's log_ndtr and lgamma lose a few hundred units
    close = np.isfinite(want) & (want != 0) & np.isclose(got, want, rtol=1e-13, atol=0)
    wrong = (error(got, want) > 4) & ~close
    assert not wrong.any(), (x[wrong], got[wrong], want[wrong])


def test_modified_bessel_functions_reach_as_far_as_scipys(host):
    top = [91.0, 91.8, 91.95] if host.dtype == "f4" else [709.0, 709.7, 709.9]
    for op in ("i0", "i1"):
        got = host(op, host.dtype, np.array([*top, *(-t for t in top)]))
        want = apply(op, (np.array([*top, *(-t for t in top)], host.dtype),), host.dtype)
        np.testing.assert_allclose(got, want, rtol=16 * np.finfo(host.dtype).eps)
        assert np.isfinite(got[:2]).all()
        assert np.isinf(got[2])


def test_logistic_corrects_a_reciprocal_that_is_two_units_off(emulation):
    x, plain = samples("f4", 6000, 3), complete(kernel("logistic", "f4", "f4"))
    for to in ("0", "2"):
        off = f"nextafterf(nextafterf(1 / below, {to}), {to})"
        text = plain.replace("1 / below", off)
        assert text != plain
        got = Spelled("f4", text)("logistic", "f4", x)
        assert error(got, true_values("logistic", "f4", x)).max() < 2

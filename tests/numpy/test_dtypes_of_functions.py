"""Dtypes that NumPy's functions give, over all dtypes: numbers among arrays, and small integers.

A function that NumPy writes in Python makes arrays of the numbers it is given, which are then no
longer weak (`np.dot(x, 2)`), or leaves them (`np.where(c, x, 2)`); it may take integers in float64
where a ufunc would take the smallest float (`np.nanmean`), or the other way about (`np.angle`).
"""

import numpy as np
import pytest

from ftrace import jit, vmap

DTYPES = [np.dtype(c) for c in "?bBhHiIlLefdFD"]
CALLS = {
    "dot": lambda x: np.dot(x, 2),
    "inner": lambda x: np.inner(x, 2.5),
    "outer": lambda x: np.outer(x, 2),
    "kron": lambda x: np.kron(x, 2.5),
    "tensordot": lambda x: np.tensordot(x, 2, 0),
    "einsum": lambda x: np.einsum("i,->i", x, 2.0),
    "polyval at a number": lambda x: np.polyval(x, 2),
    "polyval at an array": lambda x: np.polyval([1, 2.5], x),
    "poly": lambda x: np.poly(x),
    "vander": lambda x: np.vander(x, 3),
    "vander without columns": lambda x: np.vander(x, 0),
    "average": lambda x: np.average(x, weights=np.ones(4, np.float32)),
    "average by a list": lambda x: np.average(x, weights=[1, 2, 3, 4]),
    "cov": lambda x: np.cov(x, x * 2),
    "corrcoef": lambda x: np.corrcoef(x[:3], [1.0, 2.0, 4.0]),
    "select": lambda x: np.select([x == 1, x == 2], [x, 1], True),
    "select of arrays": lambda x: np.select([x == 1], [x], 2.5),
    "linspace": lambda x: np.linspace(x, 2, 3),
    "linspace with its step": lambda x: np.linspace(0, x, 3, endpoint=False, retstep=True),
    "linspace of two": lambda x: np.linspace(np.ones(4, np.float32), x, 3),
    "linspace of one": lambda x: np.linspace(x, 1.0, 1),
    "logspace": lambda x: np.logspace(0, x * True, 3),
    "geomspace": lambda x: np.geomspace(1, x + x, 3),
    "quantile": lambda x: np.quantile(x, np.float32(0.5)),
    "quantiles": lambda x: np.quantile(x, [0.25, 0.5]),
    "percentile": lambda x: np.percentile(x, np.float16(50)),
    "median": lambda x: np.median(x),
    "sinc": lambda x: np.sinc(x),
    "i0": lambda x: np.i0(x),
    "angle": lambda x: np.angle(x),
    "angle in degrees": lambda x: np.angle(x, deg=True),
    "nanmean": lambda x: np.nanmean(x),
    "nanvar": lambda x: np.nanvar(x),
    "nanstd": lambda x: np.nanstd(x, ddof=1),
    "unwrap": lambda x: np.unwrap(x * 3),
    "unwrap by 3": lambda x: np.unwrap(x + x, period=3),
    "unwrap by 4": lambda x: np.unwrap(x + x, period=4),
    "unwrap with a limit": lambda x: np.unwrap(x * 3, discont=4),
    "gradient": lambda x: np.gradient(x, 2),
    "polyfit": lambda x: np.polyfit([0, 1, 2, 3], x, 1),
    "ldexp": lambda x: np.ldexp(2, x),
    "ldexp by a number": lambda x: np.ldexp(x, 2),
    "square": lambda x: x**2,
    "square of one": lambda x: x[0] ** 2,
    "power": lambda x: np.power(x, 2),
    "bincount": lambda x: np.bincount(x, minlength=4),
    "where": lambda x: np.where(x == 1, x, 2),
    "where of large": lambda x: np.where(x == 1, x, 2**63),
    "maximum of large": lambda x: np.maximum(x, 2**63 + 5),
    "less than large": lambda x: x < 2**63,
    "not large": lambda x: x >= 2**64 - 1,
    "equal to large": lambda x: (x + x.dtype.type(1)) == 2**63 + 1,
    "inverse power": lambda x: x**-1,
    "median of taken": lambda x: np.median(x[x == x]),
    "sum casting": lambda x: np.add(x, 1, casting="no"),
    "sum casting unsafe": lambda x: np.add(x, 1, dtype=np.int8, casting="unsafe"),
}


LEFT = {  # refused by name, or decided by values
    "median": "c",
    "median of taken": "c",
    "where of large": "biu",
    "poly": "c",
}


def outcome(call):
    try:
        return call()
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        return error


def agree(want, got):
    if isinstance(want, Exception):
        assert isinstance(got, Exception), (want, got)
        return
    assert not isinstance(got, Exception), got
    for one, other in zip(*((x if type(x) is tuple else (x,)) for x in (want, got)), strict=True):
        assert other.dtype == one.dtype
        assert np.shape(other) == np.shape(one)
        digits = 2e-3 if one.dtype == np.float16 else 1e-5 if one.dtype.char in "fF" else 1e-12
        np.testing.assert_allclose(other, one, rtol=digits, atol=digits)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_dtypes_are_numpys(name):
    function = CALLS[name]
    for dtype in DTYPES:
        if name == "polyfit" and dtype == np.float16:
            continue  # NumPy computes in float64 and asks LAPACK for float16
        x = np.array([1, 2, 3, 2]).astype(dtype)
        want = outcome(lambda x=x: function(x))
        if dtype.kind in LEFT.get(name, ""):
            continue
        agree(want, outcome(lambda x=x: jit(function)(x)))
        if dtype.char in "bef" and type(want) is np.ndarray and name != "bincount":
            got = outcome(lambda x=x: vmap(function)(np.stack([x, x])))
            agree(want, got if isinstance(got, Exception) else got[1])


def test_integers_beyond_64_bits_are_refused_by_name():
    with pytest.raises(TypeError, match="is the int 9223372036854775808"):
        jit(lambda x: 2**63)(1.0)


def test_products_refuse_a_dtype_that_drops_the_imaginary_part():
    x = np.ones((2, 2), complex)
    with pytest.raises(TypeError, match="complex128 as float64"):
        jit(lambda x: np.matmul(x, x, dtype=float))(x)
    assert jit(lambda x: np.matmul(x, x, dtype=complex))(x.real).dtype == complex

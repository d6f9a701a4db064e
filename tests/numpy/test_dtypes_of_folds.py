"""Folds of ufuncs have the dtype of NumPy's loop, also where there is one element to fold."""

import numpy as np
import pytest

from ftrace import jit

UFUNCS = [
    *(np.logical_xor, np.logical_and, np.arctan2, np.hypot, np.divide, np.subtract),
    *(np.left_shift, np.greater, np.equal, np.maximum, np.gcd, np.floor_divide, np.copysign),
    *(np.bitwise_and, np.logaddexp, np.add, np.multiply),
]
METHODS = {
    "reduce": lambda u, x: u.reduce(x),
    "accumulate": lambda u, x: u.accumulate(x),
    "reduceat": lambda u, x: u.reduceat(x, [0]),
}


def outcome(function, x):
    try:
        return function(x)
    except (TypeError, ValueError) as error:
        return error


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
@pytest.mark.filterwarnings("ignore")
def test_folds_have_numpys_dtypes(ufunc, method):
    def fold(x):
        return METHODS[method](ufunc, x)

    for dtype in "?bled":
        for items in [3], [3, 1, 2]:
            if ufunc is np.arctan2 and len(items) > 1:
                continue  # NumPy 2.4 leaves out elements where it folds in vectors
            x = np.array(items).astype(dtype)
            want, got = outcome(fold, x), outcome(jit(fold), x)
            assert isinstance(got, Exception) == isinstance(want, Exception), (dtype, want, got)
            if not isinstance(want, Exception):
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=1e-2)

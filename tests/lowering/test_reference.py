"""The interpreter against plain NumPy."""

import numpy as np
import pytest

from ftrace.lowering import reference
from tests.lowering.kernels import SAMPLES


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
def test_samples_do_what_plain_numpy_does(name: str, reverse: bool) -> None:
    sample = SAMPLES[name]()
    operands = sample.operands()
    reference.run(sample.kernel, operands, sample.scalars, reverse=reverse)
    results = sample.results(operands)
    assert results.keys() == sample.expected.keys()
    for out, expected in sample.expected.items():
        tolerance = 1e-5 if results[out].dtype == np.float32 else 1e-13
        np.testing.assert_allclose(results[out], expected, rtol=tolerance, atol=1e-14)

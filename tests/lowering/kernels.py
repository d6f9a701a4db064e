"""Kernels to test backends with: written by hand, and random ones.

`SAMPLES` maps a name to a function that makes a `Sample`: a kernel, its operands, and what plain
NumPy makes of them. `kernels()` is a Hypothesis strategy of random samples. A test of a backend
runs `sample.kernel` on `sample.operands()` and `sample.scalars`, and compares
`sample.results(operands)` with those after `reference.run` on operands of its own: bit for bit
where `sample.exact` (NaN equals NaN, and 0.0 equals -0.0 after `max` and `min`), else within a few
ULP. Write more with `Nest` (nests.py) in array_kernels.py and control_kernels.py.
"""

from tests.lowering import array_kernels, control_kernels
from tests.lowering.nests import SAMPLES, Nest, Sample
from tests.lowering.randoms import kernels

__all__ = ["SAMPLES", "Nest", "Sample", "array_kernels", "control_kernels", "kernels"]

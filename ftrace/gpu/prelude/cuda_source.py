"""What the compiler is given: the functions of kernels, and the device functions that they call."""

from collections.abc import Sequence

from ftrace.gpu.emit.kernel_source import HEADER
from ftrace.gpu.prelude.prelude import definitions


def source(texts: Sequence[str]) -> str:
    """The complete CUDA C text of some kernels."""
    kernels = "\n".join(texts)
    return f"{HEADER}{definitions(kernels)}\n{kernels}"

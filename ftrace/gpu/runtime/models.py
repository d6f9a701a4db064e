"""What is known of a GPU that is not there, so that programs for it can be looked at.

Plans and machine code depend on a device by three numbers only; here they are for one GPU of each
architecture. Nothing runs on a `Model`: `device_interface.py` has what does.
"""

from typing import Final

from ftrace.core.errors import BackendError
from ftrace.core.records import record


@record
class Model:
    """The numbers of a kind of GPU.

    Attributes:
        arch: what kernels are compiled for, as NVRTC names it.
        named: a GPU that has these numbers.
        processors: its streaming multiprocessors.
        shared: bytes of shared memory that a block may have without asking for more.
    """

    arch: str
    named: str
    processors: int
    shared: int = 48 * 1024


MODELS: Final = {
    model.arch: model
    for model in (
        Model("sm_75", "T4", 40),
        Model("sm_80", "A100", 108),
        Model("sm_86", "A10", 72),
        Model("sm_89", "L4", 58),
        Model("sm_90", "H100 and H200", 132),
        Model("sm_100", "B200", 148),
        Model("sm_120", "RTX 5090", 170),
    )
}


def model(arch: str) -> Model:
    """The GPU that stands for an architecture.

    Raises:
        BackendError: there is none.
    """
    found = MODELS.get(arch)
    if found is None:
        raise BackendError(
            f"Nothing can be lowered for {arch!r}.",
            f'Say "cpu", "gpu" for the GPU at hand, or an architecture: {", ".join(MODELS)}.',
        )
    return found

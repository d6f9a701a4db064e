"""The GPU backend: CUDA C kernels for CuPy arrays.

What the other layers see of compiling in `ftrace.gpu` is the one object here. Programs are planned
once, whatever the device; machine code is made for the device that the arguments are on.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from ftrace.core.device import on_device
from ftrace.core.jaxpr import Jaxpr
from ftrace.gpu.grid.layout import described
from ftrace.gpu.handwritten.running import OPERATIONS
from ftrace.gpu.handwritten.scatter_sums import can_add
from ftrace.gpu.machine_code.cubin import cubin
from ftrace.gpu.machine_code.disassembly import disassembled
from ftrace.gpu.runtime.current_device import current
from ftrace.gpu.runtime.device_interface import Device
from ftrace.gpu.runtime.device_launch import DeviceProgram, is_number
from ftrace.gpu.runtime.kernels import Planned, module, plan_kernels
from ftrace.gpu.runtime.models import Model, model
from ftrace.lowering.kernel.ir import Kernel
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import ARGUMENT, Program


def _none() -> int:
    return 0


def _can_scatter(combine: str, dtype: np.dtype[Any]) -> bool:
    return combine == "add" and can_add(dtype)


# threads do one element each: no vectors; products are cuBLAS's, by CuPy; double is slow on many
# devices, and a condition that all threads of a warp agree on costs next to nothing; one that they
# do not agree on loads for all of them, and then in vectors; what runs in order is one thread's,
# but one launch is less than one for each iteration of a scan; rows that are added up on the way
# keep the largest devices busy: four blocks for each of some 130 processors
MACHINE: Final = Machine(
    16,
    longest=_none,
    scatters=_can_scatter,
    accumulates=OPERATIONS.__contains__,
    wide=False,
    bounds=False,
    lanes=False,
    in_order=False,
    lazy=False,
    blocks=512,
    waits=True,
    pages=None,
)


class GpuBackend:
    """Compiles programs for the device that CuPy works on.

    Args:
        made_for: the GPU for which programs are shown; CuPy's current one if not given.
    """

    name: Final = "gpu"
    language: Final = "CUDA C"

    def __init__(self, made_for: Model | None = None) -> None:
        self.made_for = made_for

    def plan(self, jaxpr: Jaxpr) -> Program:
        """The program of a jaxpr."""
        return plan(jaxpr, MACHINE)

    def compile(self, program: Program) -> Callable[[Sequence[Any]], list[Any]]:
        """A function of the program's arguments that gives its results."""
        return _OnDevices(program)

    def kernels(self, program: Program) -> list[Kernel]:
        """The kernels with their folds as the device's threads do them."""
        return [k.kernel for k in self._planned(program)]

    def launches(self, program: Program) -> list[str]:
        """How the loops of each kernel fall on the grid."""
        return [described(k.kernel, k.layout, k.stages) for k in self._planned(program)]

    def code(self, program: Program) -> str:
        """CUDA C."""
        return module(self._planned(program))

    def assembly(self, program: Program) -> str:
        """Registers and machine code as text."""
        return disassembled(cubin(self.code(program), self._machine().arch))

    def _machine(self) -> Device | Model:
        return self.made_for or current()

    def _planned(self, program: Program) -> list[Planned]:
        return plan_kernels(program, self._machine())


class _OnDevices:
    """A program, bound to each device that it is called on, and to which arguments are numbers."""

    __slots__ = ("_bound", "_program", "_single")

    def __init__(self, program: Program) -> None:
        self._program = program
        slots = program.of_place(ARGUMENT)
        self._single = [i for i, k in enumerate(slots) if program.slots[k].aval.shape == ()]
        self._bound: dict[tuple[Device, tuple[int, ...]], DeviceProgram] = {}

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Run on the device of the first array."""
        device = current(next(filter(on_device, args), None))
        numbers: tuple[int, ...] = ()
        if self._single and len(args) > self._single[-1]:
            numbers = tuple([i for i in self._single if is_number(args[i])])
        found = self._bound.get((device, numbers))
        if found is None:
            found = DeviceProgram(self._program, device, numbers)
            self._bound[device, numbers] = found
        return found(args)


@cache
def gpu_backend(arch: str | None = None) -> GpuBackend:
    """The backend, or one that shows programs for an architecture."""
    return GpuBackend(None if arch is None else model(arch))

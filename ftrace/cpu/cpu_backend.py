"""The CPU backend: LLVM code for NumPy arrays, through llvmlite.

What the other layers see of `ftrace.cpu` is the one object here.
"""

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from ftrace.core.errors import BackendError
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.lazy import once
from ftrace.cpu import blas_loops, window_loops
from ftrace.cpu.foreign.gufuncs import OTHERS, has_loop
from ftrace.cpu.llvm.machine_code import assembly, host
from ftrace.cpu.llvm.text import Processor
from ftrace.cpu.runtime.blas import longest
from ftrace.cpu.runtime.main import module_text
from ftrace.cpu.runtime.native_launch import compile_program
from ftrace.cpu.threads import thread_pool
from ftrace.lowering.kernel.ir import Kernel
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.kernel.schedule import LANE
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import Program

OTHERS[blas_loops.MODULE] = blas_loops.address
OTHERS[window_loops.MODULE] = window_loops.address


class CpuBackend:
    """Compiles programs for this machine, or for the features of another."""

    name: Final = "cpu"
    language: Final = "LLVM"

    def __init__(self, made_for: Processor) -> None:
        self.host = made_for

    def plan(self, jaxpr: Jaxpr) -> Program:
        """The program of a jaxpr."""
        count = thread_pool.threads()
        return plan(jaxpr, Machine(self.host.vector_bytes, longest, has_loop, threads=count))

    def compile(self, program: Program) -> Callable[[Sequence[Any]], list[Any]]:
        """A function of the program's arguments that gives its results."""
        return compile_program(program)

    def kernels(self, program: Program) -> list[Kernel]:
        """The kernels."""
        return [launch.kernel for launch in program.launches]

    def launches(self, program: Program) -> list[str]:
        """How many elements of each kernel are computed at once."""
        return [_described(launch, program.table) for launch in program.launches]

    def code(self, program: Program) -> str:
        """LLVM's text."""
        return module_text(program, self.host)

    def assembly(self, program: Program) -> str:
        """Machine code as text."""
        return assembly(module_text(program, self.host), self.host)


def _described(launch: Launch, table: Sequence[int]) -> str:
    schedule = launch.schedule
    lanes = any(role == LANE for _, role in schedule.roles)
    how = f"vectors of {schedule.lanes} elements" if lanes else "one element at a time"
    past = f"; {', '.join(schedule.streams)} written past the caches" if schedule.streams else ""
    shared = f"; shared by {table[launch.threads]} threads" if schedule.shared else ""
    return f"{launch.kernel.name}: {how}{past}{shared}"


@once
def cpu_backend() -> CpuBackend:
    """The backend for this machine.

    Raises:
        BackendError: this is a subinterpreter: what compiled code calls back belongs to the main
            one, and it would wait for ever.
    """
    for name in ("_interpreters", "_xxsubinterpreters"):  # from 3.13 on, and before
        with suppress(ImportError):
            module = importlib.import_module(name)
            if module.get_current() != module.get_main():
                raise BackendError(
                    "Functions are not compiled in a subinterpreter.",
                    "Call them in the main interpreter, in a thread or another process; or "
                    "interpret them: ftrace.config.set_default(compile=False).",
                )
    return CpuBackend(host())

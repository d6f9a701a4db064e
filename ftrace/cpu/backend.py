"""The CPU backend: LLVM code for NumPy arrays, through llvmlite.

What the other layers see of `ftrace.cpu` is the one object here.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from ftrace.core.jaxpr import Jaxpr
from ftrace.cpu.blas import longest
from ftrace.cpu.compile import host
from ftrace.cpu.launch import compile_program, module_of
from ftrace.cpu.main import module_text
from ftrace.cpu.text import Host
from ftrace.lowering.machine import Machine
from ftrace.lowering.plan import plan
from ftrace.lowering.program import Program


class CpuBackend:
    """Compiles programs for this machine, or for the features of another."""

    name: Final = "cpu"

    def __init__(self, made_for: Host) -> None:
        self.host = made_for

    def plan(self, jaxpr: Jaxpr) -> Program:
        """The program of a jaxpr."""
        return plan(jaxpr, Machine(self.host.vector_bytes, longest))

    def compile(self, program: Program) -> Callable[[Sequence[Any]], list[Any]]:
        """A function of the program's arguments that gives its results."""
        return compile_program(program)

    def code(self, program: Program) -> str:
        """LLVM's text."""
        return module_text(program, self.host)

    def assembly(self, program: Program) -> str:
        """Machine code as text."""
        return module_of(program, self.host).assembly()


@cache
def cpu_backend() -> CpuBackend:
    """The backend for this machine."""
    return CpuBackend(host())

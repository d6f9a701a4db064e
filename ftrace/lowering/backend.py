"""Backends: who turns programs into code, and what `jit(f).lower(*args)` shows of them.

A backend is one object with the attributes of `Backend`; `control/jit.py` has the table. The
next levels down are for looking only: `Lowered` keeps a jaxpr, its program and its kernels, and
asks the backend for text.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

from ftrace.core import config
from ftrace.core.errors import BackendError
from ftrace.core.jaxpr import Jaxpr
from ftrace.lowering.cost import Cost, cost
from ftrace.lowering.inline import is_one_program
from ftrace.lowering.program import Program
from ftrace.lowering.show import text


class Backend(Protocol):
    """Compiles programs for the arrays of one kind of device."""

    name: str

    def plan(self, jaxpr: Jaxpr) -> Program:
        """The program of a jaxpr."""
        ...

    def compile(self, program: Program) -> Callable[[Sequence[Any]], list[Any]]:
        """A function of the program's arguments that gives its results."""
        ...

    def code(self, program: Program) -> str:
        """What the backend's compiler is given."""
        ...

    def assembly(self, program: Program) -> str:
        """What comes out of it."""
        ...


class Lowered:
    """A jitted function for one signature, at every level: `jit(f).lower(*args)`.

    Attributes:
        jaxpr: the traced program.
        program: steps, slots and table.
        passes: the passes of lowering that changed something, in order.
        kernels: the kernels' text, in the order in which they run.
        llvm: what LLVM is given (on the CPU).
        asm: machine code as text.
    """

    def __init__(self, jaxpr: Jaxpr, backend: Backend) -> None:
        self.jaxpr = jaxpr
        self.backend = backend
        self._inserted = config.config.settings.passes

    @cached_property
    def program(self) -> Program:
        """Steps, slots and table."""
        if not is_one_program(self.jaxpr):
            raise BackendError(
                "This function is no single program: what its loops record for the derivative is "
                "changed in between (its axes are moved, for instance), so that it runs in pieces.",
                "Look at its `jaxpr`; to see kernels, lower the function without that derivative.",
            )
        with config.update(passes=self._inserted):
            return self.backend.plan(self.jaxpr)

    @property
    def passes(self) -> tuple[str, ...]:
        """The passes that changed something."""
        return self.program.passes

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels' text."""
        return tuple(text(launch.kernel) for launch in self.program.launches)

    @property
    def llvm(self) -> str:
        """LLVM's text of the whole program."""
        return self.backend.code(self.program)

    @property
    def asm(self) -> str:
        """Machine code as text."""
        return self.backend.assembly(self.program)

    def cost(self) -> Cost:
        """Kernels, bytes and operations."""
        return cost(self.program)

    def __repr__(self) -> str:
        c = self.cost()
        work = f"{c.kernels} kernels, {c.library_rows} library rows, {c.bytes} bytes"
        return f"<lowered: {work}; passes: {', '.join(self.passes)}>"

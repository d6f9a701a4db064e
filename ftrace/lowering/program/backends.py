"""Backends: who turns programs into code, and what `jit(f).lower(*args)` shows of them.

A backend is one object with the attributes of `Backend`; `control/rows/jit.py` has the table. The
next levels down are for looking only: `Lowered` keeps a jaxpr, its program and its kernels, and
asks the backend for text. A jaxpr is for every device, so what was lowered for one can be looked at
for another, which need not be there (`Lowered.on`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from ftrace.core import config
from ftrace.core.errors import BackendError
from ftrace.core.jaxpr import Jaxpr
from ftrace.lowering.fusion.inline import is_one_program
from ftrace.lowering.kernel.ir import Kernel
from ftrace.lowering.kernel.show import text
from ftrace.lowering.program.cost import Cost, cost
from ftrace.lowering.program.program import Program
from ftrace.lowering.rolling.rolling_notes import listening


class Backend(Protocol):
    """Compiles programs for the arrays of one kind of device.

    Attributes:
        name: the platform.
        language: what its compiler reads: "LLVM" or "CUDA C".
    """

    @property
    def name(self) -> str: ...
    @property
    def language(self) -> str: ...

    def plan(self, jaxpr: Jaxpr) -> Program:
        """The program of a jaxpr."""
        ...

    def compile(self, program: Program) -> Callable[[Sequence[Any]], list[Any]]:
        """A function of the program's arguments that gives its results."""
        ...

    def kernels(self, program: Program) -> Sequence[Kernel]:
        """The kernels as they run there."""
        ...

    def launches(self, program: Program) -> Sequence[str]:
        """For each kernel a line on how it runs."""
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
        rolled: which repeated equations became loops, and which did not and why, line by line.
        kernels: the kernels' text, in the order in which they run.
        launches: for each kernel a line on how it runs: vectors, or threads and blocks.
        llvm: what LLVM is given (on the CPU).
        cuda: what CUDA's compiler is given (on a GPU).
        asm: machine code as text; on a GPU registers and stack, too.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        place: str,
        backends: Mapping[str, Callable[..., Backend]],
        finish: Callable[["Lowered"], Any] | None = None,
    ) -> None:
        self.jaxpr = jaxpr
        self._place = place
        self._finish = finish
        self.backend = backends[place]() if place in backends else backends["gpu"](place)
        self._backends = backends
        self._inserted = config.config.settings.passes

    def on(self, place: str) -> "Lowered":
        """The same function, lowered for another device, to look at. It need not be there.

        Args:
            place: "cpu", "gpu" (the GPU at hand), or a GPU's architecture, such as "sm_90": then
                one GPU of this architecture is assumed.

        Raises:
            BackendError: no such place is known; or there is no GPU at hand.

        Example:
            >>> import numpy as np, ftrace
            >>> lowered = ftrace.jit(np.exp).lower(np.ones((1000, 1000), np.float32))
            >>> print(*lowered.on("sm_90").launches)
            k1: one thread for each piece of work; 4 elements at once (x0, o1 as vectors);
            unsigned indices; 977 blocks of 256
        """
        with config.update(passes=self._inserted):
            finish = self._finish if place == self._place else None
            return Lowered(self.jaxpr, place, self._backends, finish)

    def compile(self) -> Any:
        """The function compiled for this signature: an object to call, which never traces.

        Returns:
            A `Compiled`: `c(*args)` (without static arguments), `c.as_text()`,
            `c.cost_analysis()`, `c.in_avals`, `c.out_avals`, `c.in_tree`, `c.out_tree`.

        Raises:
            BackendError: it was lowered to be looked at, for a device of other arrays; or its
                kernels cannot be compiled.

        Example:
            >>> import numpy as np, ftrace
            >>> f = ftrace.jit(np.exp).lower(ftrace.ShapeDtypeStruct((2,), np.float64)).compile()
            >>> f(np.zeros(2))
            array([1., 1.])
        """
        if self._finish is None:
            raise BackendError(
                f"This function was lowered for {self.backend.name} to be looked at, not for "
                "arrays that are there.",
                "Call `lower` with arrays of that device, and compile what it returns.",
            )
        with config.update(passes=self._inserted):
            return self._finish(self)

    def as_text(self) -> str:
        """What the compiler is given: LLVM's text, or CUDA C."""
        return self.backend.code(self.program)

    def cost_analysis(self) -> dict[str, int]:
        """The counts of `cost()`, with JAX's names where it has one.

        Returns:
            "flops" (scalar operations) and "bytes accessed" of the kernels, "kernels",
            "library rows" and "arena bytes".
        """
        c = self.cost()
        return {
            "flops": c.operations,
            "bytes accessed": c.bytes,
            "kernels": c.kernels,
            "library rows": c.library_rows,
            "arena bytes": c.arena,
        }

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

    @cached_property
    def rolled(self) -> tuple[str, ...]:
        """What became of equations that repeat each other."""
        with config.update(passes=self._inserted), listening() as notes:
            self.backend.plan(self.jaxpr)
        return tuple(notes)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels' text."""
        return tuple(map(text, self.backend.kernels(self.program)))

    @property
    def launches(self) -> tuple[str, ...]:
        """How each kernel runs."""
        return tuple(self.backend.launches(self.program))

    @property
    def llvm(self) -> str:
        """LLVM's text of the whole program."""
        return self._code("LLVM", 'Look at `cuda`, or at `on("cpu").llvm`.')

    @property
    def cuda(self) -> str:
        """CUDA C of all kernels."""
        return self._code("CUDA C", 'Look at `llvm`, or at `on("sm_90").cuda`.')

    def _code(self, language: str, instead: str) -> str:
        backend = self.backend
        if backend.language != language:
            raise BackendError(
                f"This program was lowered for the {backend.name.upper()}, whose compiler is "
                f"given {backend.language}, not {language}.",
                instead,
            )
        return backend.code(self.program)

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

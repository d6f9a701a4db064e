"""The state of one walk over a kernel: lines of C, names of values, and where the walk is.

A variable `v5` of the kernel is a C variable of that name, or an array `v5[width]` where it is
kept between two loops over the elements that a thread takes at once. An axis is an index `i7` of
the layout's type: it is widened where it is used as a number.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from ftrace.core.errors import BackendError
from ftrace.gpu.emit import cuda_spelling
from ftrace.gpu.grid.holding import HeldRow
from ftrace.gpu.grid.layout import LARGE, GridLayout
from ftrace.lowering.kernel.ir import Atom, Buffer, Kernel, KernelVar, Let, Lit, Load, Stmt, Store


class Writer:
    """Lines and names of one function.

    Attributes:
        kernel, layout, stage: what is written.
        partial: whether the team's loop is shared with other blocks.
        threads: threads of a team.
        valid: what must hold for a team to be no copy of the last one; empty for anything.
        team, teams: the number of the team's owners, and how many there are.
        buffers: by name, with the words that hold their steps of class `any`.
        axes: ids of axes in scope.
        made: the operations that were written, by the id of their result.
        arrays: ids of variables that are arrays of one value per element of a thread.
        guards: by `id` of a store, what must hold beside `only`.
        only: what must hold for a thread to store; empty for anything.
        common: whether all threads of a team do the same here.
        written, read: buffers that the team wrote, and read, since its last barrier.
        shared: bytes of shared memory.
        tiled: by `id` of a load, its place in a tile.
        held: what stays in registers between the passes over a row.
        statements: writes statements (kernel_source.py), for the blocks inside others.
    """

    def __init__(
        self,
        kernel: Kernel,
        layout: GridLayout,
        stage: int,
        statements: Callable[["Writer", Sequence[Stmt]], None],
    ) -> None:
        self.kernel, self.layout, self.stage, self.statements = kernel, layout, stage, statements
        self.partial = layout.split > 1 and stage == 0
        self.threads = layout.joint if stage else layout.threads
        self.team, self.teams = "0", "1"
        self.valid = ""
        self.lines: list[str] = []
        self.depth = 1
        self.buffers: dict[str, tuple[Buffer, list[str]]] = {}
        self.axes: set[int] = set()
        self.scalars = {v.id for v in kernel.scalars}
        self.made: dict[int, Let] = {}
        self.arrays: set[int] = set()
        self.guards: dict[int, str] = {}
        self.only = ""
        self.common = False
        self.written: dict[str, tuple[Atom | None, ...]] = {}
        self.read: set[str] = set()
        self.shared = 0
        self.tiled: dict[int, str] = {}
        self.held = HeldRow()

    def fail(self, what: str) -> BackendError:
        """An error that names the kernel."""
        return BackendError(f"Kernel {self.kernel.name} cannot be compiled for a GPU: {what}.")

    # --- lines

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def braces(self, head: str = "") -> Generator[None]:
        """Lines inside `head { ... }`."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def unrolled(self, count: int) -> Generator[str]:
        """A loop over the elements of a thread; gives the index, `[e]`, or nothing for one."""
        if count == 1:
            yield ""
            return
        self.line("#pragma unroll")
        with self.braces(f"for (int e = 0; e < {count}; ++e)"):
            yield "[e]"

    @contextmanager
    def inside(self, axis: KernelVar, only: str | None = None) -> Generator[None]:
        """The body of a loop that a thread of a team runs alone; stores as `only` says."""
        before = self.only, self.common
        self.only, self.common = self.only if only is None else only, False
        self.axes.add(axis.id)
        yield
        self.only, self.common = before
        self.axes.discard(axis.id)

    @contextmanager
    def apart(self) -> Generator[None]:
        """Statements that the threads of a team need not all come to."""
        before, self.common = self.common, False
        yield
        self.common = before

    def guarded(self, stmt: Store) -> str:
        """`if (...)` in front of a store, where it needs one."""
        holds = " && ".join(g for g in (self.only, self.guards.get(id(stmt), "")) if g)
        return f"if ({holds}) " if holds else ""

    # --- values

    def type(self, dtype: str) -> str:
        return cuda_spelling.REGISTER[dtype]

    def name(self, var: KernelVar) -> str:
        return f"v{var.id}[e]" if var.id in self.arrays else f"v{var.id}"

    def value(self, atom: Atom) -> str:
        """A C expression that needs no parentheses around it."""
        if isinstance(atom, Lit):
            return cuda_spelling.literal(atom.value, atom.dtype)
        if atom.id in self.axes:
            return f"((long long)i{atom.id})"
        return self.name(atom)

    def declare(self, var: KernelVar, value: str) -> None:
        """Bind a variable."""
        if var.id in self.arrays:
            self.line(f"{self.name(var)} = {value};")
        else:
            self.line(f"const {self.type(var.dtype)} {self.name(var)} = {value};")

    def count(self, atom: Atom) -> str:
        """A size, in the type of indices."""
        if isinstance(atom, Lit):
            return f"({self.layout.index}){atom.value}"
        return f"({self.layout.index})v{atom.id}"

    def kept(self, number: int) -> str:
        """What is held, of the element at hand."""
        return f"h{number}[c].v[{'e' if self.layout.width > 1 else 0}]"

    # --- places

    def place(self, access: Load | Store, base: int | None = None) -> str:
        """The element of an access; with `base` the first of those along that axis."""
        if id(access) in self.tiled:
            return self.tiled[id(access)]
        buffer, words = self.buffers[access.buffer]
        far = any(
            isinstance(a, KernelVar) and a.id not in (*self.axes, *self.scalars, base)
            for a in access.at
        )
        index = LARGE if far else self.layout.index
        steps = iter(words)
        parts: list[str] = []
        for atom, step in zip(access.at, buffer.steps, strict=True):
            times = next(steps) if step == "any" else ""
            at = self._coordinate(atom, index, base)
            if step == "minus":
                at = f"-{at}" if index != "unsigned" else f"(0u - {at})"
            parts.append(f"{at} * ({index}){times}" if times else at)
        where = " + ".join(p for p in parts if p != "0") or "0"
        return f"g_{buffer.name}[{where}]"

    def _coordinate(self, atom: Atom, index: str, base: int | None) -> str:
        if isinstance(atom, Lit):
            return f"({index}){atom.value}" if atom.value else "0"
        if atom.id == base or atom.id in self.axes:
            name = f"b{atom.id}" if atom.id == base else f"i{atom.id}"
            return f"({index}){name}" if index != self.layout.index else name
        return f"({index}){self.name(atom)}"

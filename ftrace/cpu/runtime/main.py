"""A program's module: its kernels, and a `main` that runs its steps.

`main(slots, table, callback)` gets the base addresses of arguments, constants and results; the
arena's base follows the last slot, a word of main's own (interrupts.py) precedes the first. Main
computes the addresses inside the arena. Sizes are read from the table, so the text depends on the
program's structure alone: it is the key under which compiled code is kept. Only what has one
element is written with its size, so that a loop over scalars calls nothing but its kernels.
native_launch.py calls it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.core.tapes import is_tape
from ftrace.cpu.emit.emitter import Carried
from ftrace.cpu.emit.interrupts import AVAILABLE, POLL, STATE, cell, declare, polls
from ftrace.cpu.emit.kernel_text import emit
from ftrace.cpu.emit.thread_regions import SHARE
from ftrace.cpu.foreign import gufuncs, sort_loops
from ftrace.cpu.foreign.gufunc_text import (
    FLAGS,
    apply_name,
    apply_text,
    share_name,
    share_text,
)
from ftrace.cpu.llvm.scatter_text import scatter_name, scatter_text
from ftrace.cpu.llvm.text import Processor, Text, Typed, memory_type
from ftrace.cpu.runtime import blas
from ftrace.cpu.runtime.blas_text import product_name
from ftrace.cpu.runtime.native_tapes import EXHAUSTED, OTHER, Tapes
from ftrace.lowering.kernel.launching import Launch, SharedLaunch, repeated
from ftrace.lowering.program.program import (
    ARENA,
    Apply,
    BranchStep,
    Callback,
    Copy,
    Look,
    Multiply,
    PartOf,
    Program,
    Repeat,
    Scan,
    ScatterStep,
    Step,
    Window,
)

FINISHED = 0
FAILED = 1  # a callback raised a Python exception, which is set


def module_text(program: Program, host: Processor) -> str:
    """The LLVM text of a whole program.

    Args:
        program: what to compile.
        host: what to compile it for.

    Returns:
        A module with `i32 @main(ptr slots, ptr table, ptr callback)`, which gives FINISHED or
        FAILED. `callback` is `i32 (i64 number)` and gives 0 if it succeeded.
    """
    declarations: dict[str, str] = {}
    own = repeated(program.launches)
    kernels = [
        emit(launch if one is None else one.launch, symbol(number), host, declarations)
        for number, (launch, (same, one)) in enumerate(zip(program.launches, own, strict=True))
        if number == same
    ]
    main = _Main(program, Text(host, declarations), own).write()
    return "\n\n".join((*declarations.values(), *kernels, main))


def kernel_text(launch: Launch, host: Processor) -> str:
    """The module of one kernel alone: to find out which one LLVM refuses."""
    declarations: dict[str, str] = {}
    kernel = emit(launch, symbol(0), host, declarations)
    call = f"call void @{symbol(0)}(ptr %slots, ptr %table)"
    main = f"define void @main(ptr %slots, ptr %table) {{\n  {call}\n  ret void\n}}"
    return "\n\n".join((*declarations.values(), kernel, main))


def symbol(number: int) -> str:
    """The name of a kernel's function."""
    return f"kernel{number}"


def _watches(steps: Sequence[Step]) -> bool:
    """Whether something in a program looks for signals."""
    return any(
        polls(step.kernel.body)
        if isinstance(step, Launch)
        else isinstance(step, Repeat | Scan)
        or (isinstance(step, BranchStep) and any(map(_watches, step.arms)))
        for step in steps
    )


class _Main:
    """Writes the steps, in the order in which `Program.launches` counts the kernels."""

    def __init__(
        self, program: Program, text: Text, launches: Sequence[tuple[int, SharedLaunch | None]]
    ) -> None:
        self.program = program
        self.text = text
        self._launches = iter(launches)
        self._most = max([len(one.slots) for _, one in launches if one is not None], default=0)
        self._loops = 0
        self._watches = AVAILABLE and _watches(program.steps)
        self._tapes = Tapes(program, text)
        self._how: dict[type, Callable[[Any], None]] = {
            Launch: self._launch,
            Copy: self._copy,
            Callback: self._callback,
            Multiply: self._product,
            ScatterStep: self._scatter,
            Apply: self._apply,
            BranchStep: self._branch,
            Repeat: self._repeat,
            Scan: self._scan,
            Look: self._looks,
            PartOf: self._part,
        }

    def write(self) -> str:
        """The function."""
        text = self.text
        tapes = self._tapes
        entry = len(text.lines)
        text.lines.append("")
        if self._most:
            text.line(f"%own = alloca ptr, i64 {self._most + 1}, align 8")
            text.line("%view = getelementptr ptr, ptr %own, i64 1")
        self._arena()
        self._steps(self.program.steps)
        tapes.free(failed=False)
        text.line(f"ret i32 {FINISHED}")
        if tapes:
            for label, number in (("exhausted", EXHAUSTED), ("other", OTHER)):
                text.label(label)
                text.line(f"call i32 %callback(i64 {number})")
                text.jump("failed")
        text.label("failed")
        tapes.free(failed=True)
        text.line(f"ret i32 {FAILED}")
        if self._watches:
            declare(text)
            cells = [line for k in range(self._loops) for line in cell(f"%cell{k}", 1)]
            text.lines[entry] = "\n".join([STATE, *cells])
        body = "\n".join(line for line in text.lines if line)
        return f"define i32 @main(ptr %slots, ptr %table, ptr %callback) {{\nentry:\n{body}\n}}"

    def _arena(self) -> None:
        """Addresses of the slots in the arena."""
        text = self.text
        slots = self.program.slots
        places = self.program.of_place(ARENA)
        if not places:
            return
        base = self._slot(len(slots))
        for k in places:
            distance = self._entry(slots[k].entry)
            address, place = text.fresh(), text.fresh()
            text.line(f"%{address} = getelementptr i8, ptr {base}, i64 {distance}")
            text.line(f"%{place} = getelementptr ptr, ptr %slots, i64 {k}")
            text.line(f"store ptr %{address}, ptr %{place}, align 8")

    def _slot(self, number: int) -> str:
        """The base address of a slot."""
        place, base = self.text.fresh(), self.text.fresh()
        self.text.line(f"%{place} = getelementptr ptr, ptr %slots, i64 {number}")
        self.text.line(f"%{base} = load ptr, ptr %{place}, align 8")
        return f"%{base}"

    def _elements(self, number: int) -> str:
        """The address of the first element of what a window looks at."""
        if not is_tape(self.program.slots[number].aval):
            return self._slot(number)
        base = self.text.fresh()
        self.text.line(f"%{base} = load ptr, ptr {self._tapes.place(number)}, align 8")
        return f"%{base}"

    def _entry(self, position: int) -> str:
        """A number of the table."""
        place, number = self.text.fresh(), self.text.fresh()
        self.text.line(f"%{place} = getelementptr i64, ptr %table, i64 {position}")
        self.text.line(f"%{number} = load i64, ptr %{place}, align 8")
        return f"%{number}"

    # --- steps

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._how[type(step)](step)

    def _launch(self, step: Launch) -> None:
        number, own = next(self._launches)
        slots, table = "%slots", "%table"
        if own is not None:
            slots, table = "%view", self._view(own, polls(step.kernel.body))
        self.text.line(f"call void @{symbol(number)}(ptr {slots}, ptr {table})")
        self._stop_if_raised(step)

    def _view(self, own: SharedLaunch, watches: bool) -> str:
        """Put the addresses of a shared kernel's slots into its view; its part of the table."""
        text = self.text
        for k, slot in enumerate((*((-1,) if watches else ()), *own.slots), -watches):
            place = text.fresh()
            base = self._slot(slot)
            text.line(f"%{place} = getelementptr ptr, ptr %view, i64 {k}")
            text.line(f"store ptr {base}, ptr %{place}, align 8")
        table = text.fresh()
        text.line(f"%{table} = getelementptr i64, ptr %table, i64 {own.first}")
        return f"%{table}"

    def _looks(self, step: Look) -> None:
        for window in step.windows:
            self._look(window, self._load(step.number, "i8"))

    def _part(self, step: PartOf) -> None:
        self._shows(step.slot, self._slot(step.base), self._entry(step.start))

    def _stop_if_raised(self, step: Launch) -> None:
        """Behind a kernel: its loops may have looked for signals."""
        if not polls(step.kernel.body):
            return
        text, go = self.text, self.text.fresh("go")
        raised = text.let("load i64, ptr %raised, align 8", "i8", 1)
        text.branch(text.compare("eq", raised, text.like(raised, 0)), go, "failed")
        text.label(go)

    def _watch(self) -> None:
        """At the end of an iteration: look for signals, if it is time."""
        if not self._watches:
            return
        text, place = self.text, f"%cell{self._loops}"
        self._loops += 1
        look, go = text.fresh("look"), text.fresh("watched")
        one, zero = text.const(1, "i8"), text.const(0, "i8")
        left = text.sub(text.let(f"load i64, ptr {place}, align 8", "i8", 1), one)
        text.line(f"store i64 {left.name}, ptr {place}, align 8")
        text.branch(text.compare("sle", left, zero), look, go)
        text.label(look)
        more = text.let(f"call i64 @{POLL}(ptr %state, ptr {place})", "i8", 1)
        text.branch(text.compare("ne", more, zero), go, "failed")
        text.label(go)

    def _copy(self, step: Copy) -> None:
        aval = self.program.slots[step.source].aval
        source, target = self._slot(step.source), self._slot(step.target)
        size = aval.dtype.itemsize if aval.size == 1 else self._entry(step.size)
        name = "llvm.memcpy.p0.p0.i64"
        self.text.declare(name, f"declare void @{name}(ptr, ptr, i64, i1 immarg)")
        self.text.line(f"call void @{name}(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def _callback(self, step: Callback) -> None:
        text = self.text
        code, good, after = text.fresh(), text.fresh(), text.fresh("after")
        text.line(f"%{code} = call i32 %callback(i64 {step.number})")
        text.line(f"%{good} = icmp eq i32 %{code}, 0")
        text.line(f"br i1 %{good}, label %{after}, label %failed")
        text.label(after)

    def _product(self, step: Multiply) -> None:
        name = product_name(step.dtype, vector=step.vector)
        self.text.declare(name, blas.text(step.dtype, vector=step.vector))
        bases = ", ".join(f"ptr {self._slot(k)}" for k in (step.lhs, step.rhs, step.out))
        numbers = self.text.fresh()
        self.text.line(f"%{numbers} = getelementptr i64, ptr %table, i64 {step.numbers}")
        flags = ", ".join(f"i1 {str(t).lower()}" for t in step.transposed)
        self.text.line(f"call void @{name}({bases}, ptr %{numbers}, {flags})")

    def _scatter(self, step: ScatterStep) -> None:
        name = scatter_name(step.combine, step.dtype)
        self.text.declare(name, scatter_text(step.combine, step.dtype))
        arrays = ", ".join(f"ptr {self._slot(k)}" for k in (step.out, step.updates, step.places))
        numbers = self.text.fresh()
        self.text.line(f"%{numbers} = getelementptr i64, ptr %table, i64 {step.numbers}")
        self.text.line(f"call void @{name}({arrays}, ptr %{numbers})")

    def _apply(self, step: Apply) -> None:
        text = self.text
        arrays = [*step.inputs, *step.outputs]
        form, flags = (len(arrays), step.depth, step.cores), bool(step.fails)
        whole = step.threads >= 0 and not step.operations  # the loop does not share it by itself
        if whole:
            text.declare(SHARE, f"declare void @{SHARE}(ptr)")
            text.declare(share_name(len(arrays), step.cores), share_text(len(arrays), step.cores))
        else:
            text.declare(apply_name(*form, flags=flags), apply_text(*form, flags=flags))
        if flags:
            text.declare("flags", FLAGS)
        loop, data = self._foreign(step)
        if step.operations and step.threads >= 0:
            data = f"%{text.fresh()}"
            text.line(f"{data} = inttoptr i64 {self._entry(step.threads)} to ptr")
        numbers = self.text.fresh()
        text.line(f"%{numbers} = getelementptr i64, ptr %table, i64 {step.numbers}")
        bases = [self._slot(k) for k in arrays]
        operands = ", ".join(f"ptr {x}" for x in (loop, data, f"%{numbers}", *bases))
        if whole:
            threads = self._entry(step.threads)
            name = share_name(len(arrays), step.cores)
            text.line(f"call void @{name}(i64 {threads}, {operands})")
            return
        name = apply_name(*form, flags=flags)
        failed = text.let(f"call i1 @{name}({operands})", "b1", 1)
        if flags:
            bad, good = text.fresh("bad"), text.fresh("good")
            text.branch(failed, bad, good)
            text.label(bad)
            self._steps(step.fails)
            text.jump(good)
            text.label(good)

    def _foreign(self, step: Apply) -> tuple[str, str]:
        """What a loop and what it is given last are called, declared."""
        text = self.text
        loop, found = f'@"{gufuncs.symbol(step.loop)}"', gufuncs.known(step.loop)
        if found.loop:
            text.declare(loop, f"declare void {loop}(ptr, ptr, ptr, ptr)")
        else:
            for helper, declaration in sort_loops.DECLARATIONS.items():
                text.declare(helper, declaration)
            text.declare(loop, sort_loops.text(loop, step.loop.types))
        data = "null"
        if found.data:
            data = f'@"{gufuncs.symbol(step.loop)}{gufuncs.DATA}"'
            text.declare(data, f"declare void {data}()")
        return loop, data

    def _branch(self, step: BranchStep) -> None:
        text = self.text
        arms = [text.fresh("arm") for _ in step.arms]
        end = text.fresh("end")
        index = self._index(step)
        cases = " ".join(f"i64 {i}, label %{arm}" for i, arm in enumerate(arms[:-1]))
        text.line(f"switch i64 {index}, label %{arms[-1]} [ {cases} ]")
        for arm, steps in zip(arms, step.arms, strict=True):
            text.label(arm)
            self._steps(steps)
            text.jump(end)
        text.label(end)

    def _index(self, step: BranchStep) -> str:
        """The number of the arm; too large ones fall to the last by the switch."""
        text = self.text
        kind = step.dtype[0]
        got = self._load(step.index, step.dtype).name
        if step.dtype == "b1":
            wide = text.fresh()
            text.line(f"%{wide} = zext i1 {got} to i64")
            return f"%{wide}"
        if memory_type(step.dtype) != "i64":
            wide = text.fresh()
            how = "sext" if kind == "i" else "zext"
            text.line(f"%{wide} = {how} {memory_type(step.dtype)} {got} to i64")
            got = f"%{wide}"
        if kind == "u":
            return got
        value = Typed(got, "i8", 1)
        zero = text.like(value, 0)
        return text.select(text.compare("slt", value, zero), zero, value).name

    def _load(self, slot: int, dtype: str) -> Typed:
        """The scalar in a slot."""
        kind = memory_type(dtype)
        got = self.text.let(f"load {kind}, ptr {self._slot(slot)}, align {dtype[1:]}", dtype, 1)
        if dtype != "b1":
            return got
        return self.text.let(f"icmp ne i8 {got.name}, 0", "b1", 1)

    def _repeat(self, step: Repeat) -> None:
        text = self.text
        head, body, end = text.fresh("head"), text.fresh("body"), text.fresh("end")
        zero = text.const(0, "i8")
        before = text.block
        text.jump(head)
        text.label(head)
        around = Carried(text, [zero, zero] if step.record else [zero], before)
        iteration, *room = around.values
        self._steps(step.cond)
        text.branch(self._load(step.predicate, "b1"), body, end)
        text.label(body)
        if step.record:
            sizes = [(window, self._entry(window.size)) for window in step.record]
            room = [self._tapes.reserve(sizes, iteration, *room)]
        for window in step.record:
            self._look(window, iteration)
        self._steps(step.body)
        self._watch()
        around.close([text.add(iteration, text.const(1, "i8")), *room])
        text.jump(head)
        text.label(end)
        for window in step.record:
            self._tapes.end(window.base, iteration)
        if step.count is not None:
            text.line(f"store i64 {iteration.name}, ptr {self._slot(step.count)}, align 8")

    def _scan(self, step: Scan) -> None:
        text = self.text
        head, body, end = text.fresh("head"), text.fresh("body"), text.fresh("end")
        length = self._length(step)
        one, zero = text.like(length, 1), text.like(length, 0)
        self._prepare(step, length)
        before = text.block
        text.jump(head)
        text.label(head)
        around = Carried(text, [zero], before)
        (iteration,) = around.values
        text.branch(text.compare("slt", iteration, length), body, end)
        text.label(body)
        at = text.sub(text.sub(length, one), iteration) if step.reverse else iteration
        for window in step.windows:
            self._look(window, at)
        self._steps(step.body)
        self._watch()
        around.close([text.add(iteration, one)])
        text.jump(head)
        text.label(end)

    def _length(self, step: Scan) -> Typed:
        """The number of iterations."""
        if step.length is not None:
            return Typed(self._entry(step.length), "i8", 1)
        assert step.count is not None
        if is_tape(self.program.slots[step.count].aval):
            return self._tapes.length(step.count)
        return self._load(step.count, "i8")

    def _prepare(self, step: Scan, length: Typed) -> None:
        """Look at the tapes that a loop reads, and make room in those that it writes."""
        slots = self.program.slots
        exact = step.count is not None and is_tape(slots[step.count].aval)
        for window in step.windows:
            if not is_tape(slots[window.base].aval):
                continue
            if not window.written:
                self._tapes.check(window.base, length, exact=exact)
                continue
            room = self.text.add(length, self.text.like(length, 1))  # none may have no address
            self._tapes.allocate(window, room, self._entry(window.size))
            self._tapes.end(window.base, length)

    def _look(self, window: Window, at: Typed) -> None:
        """Let a window show an element."""
        text = self.text
        if window.along is not None:
            first, step = (Typed(self._entry(window.along + k), "i8", 1) for k in (0, 1))
            at = text.add(first, text.mul(at, step))
        distance = text.mul(at, Typed(self._entry(window.size), "i8", 1))
        self._shows(window.slot, self._elements(window.base), distance.name)

    def _shows(self, window: int, base: str, distance: str) -> None:
        """Let a window show what lies so many bytes behind an address."""
        text = self.text
        address, place = text.fresh(), text.fresh()
        text.line(f"%{address} = getelementptr i8, ptr {base}, i64 {distance}")
        text.line(f"%{place} = getelementptr ptr, ptr %slots, i64 {window}")
        text.line(f"store ptr %{address}, ptr %{place}, align 8")

"""Compiling and calling a program.

`compile_program` finds or makes the machine code (one module per structure, whatever the sizes)
and binds it to the program's own numbers. A call allocates the results and hands the arrays to
the native entry (entry.py), which looks at them; only what it refuses, a strided or swapped or
foreign array, is looked at here and copied. The memory of a call belongs to that call, so that
calls may nest, in callbacks (python_rows.py), and run in threads. Programs without a kernel are run
by Python itself.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from ftrace.core.avals import LIMIT, SCALAR_AVALS, ShapedArray, check_int, typeof
from ftrace.core.dtypes import canonical
from ftrace.core.errors import BackendError, DtypeError, ShapeError
from ftrace.core.lazy import MAKING
from ftrace.core.tapes import is_tape
from ftrace.cpu.foreign import gufuncs
from ftrace.cpu.llvm.machine_code import Module, compile_module, host
from ftrace.cpu.llvm.text import Processor
from ftrace.cpu.mathematics.libraries import PREFIX, pointers
from ftrace.cpu.runtime import blas, blocks, native_tapes
from ftrace.cpu.runtime.entry import STACK_ARENA, Item, Needs, bind
from ftrace.cpu.runtime.entry_text import REJECTED
from ftrace.cpu.runtime.main import FAILED, kernel_text, module_text
from ftrace.cpu.runtime.python_rows import (
    NativeFrame,
    Row,
    as_planned,
    interpret,
    is_calm,
    is_interpreted,
    within,
)
from ftrace.cpu.runtime.recycling import maker, together
from ftrace.cpu.threads import thread_pool
from ftrace.interpreters.quiet import quietly
from ftrace.lowering.kernel.ir import Lit, Loop, While
from ftrace.lowering.kernel.launching import Launch
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.program.program import (
    ARGUMENT,
    CONSTANT,
    RESULT,
    BranchStep,
    Program,
    Repeat,
    Scan,
    Step,
)

Array = np.ndarray[Any, Any]
KEPT: Final = 64  # modules that live on when nothing uses them, for the next of their structure
SMALL: Final = 1 << 14  # bytes, or iterations, that kernels do in microseconds
KEPT_ARENA: Final = 1 << 16  # bytes of an arena that waits for the next call
KEPT_FRAMES: Final = 4
BYTES: Final = np.dtype(np.uint8)

Key = tuple[bytes, Processor]
_modules: Final[WeakValueDictionary[Key, Module]] = WeakValueDictionary()
_recent: Final[OrderedDict[Key, Module]] = OrderedDict()
_count: Final = [0]


def compilations() -> int:
    """How many modules this process has compiled."""
    return _count[0]


def compile_program(program: Program) -> Callable[[Sequence[Any]], list[Any]]:
    """Machine code for a program.

    Args:
        program: what to run; its constants are read at every call.

    Returns:
        A function of a sequence of arrays and scalars (the program's arguments) that gives the
        list of its results: new arrays, NumPy scalars for rank 0, Python scalars where weak.

    Raises:
        BackendError: LLVM or this backend refuses a kernel; the message names it.
    """
    if is_interpreted(program.steps) and not any(is_tape(s.aval) for s in program.slots):
        return Interpreted(program)
    return NativeProgram(program, module_of(program, host()))


def module_of(program: Program, made_for: Processor) -> Module:
    """The code of a program: that of an earlier one of the same structure, if there was one."""
    text = module_text(program, made_for)
    key = hashlib.sha256(text.encode()).digest(), made_for
    with MAKING:
        found = _modules.get(key)
        if found is None:
            found = _modules[key] = _compile(text, program, made_for)
            _count[0] += 1
        _recent[key] = found
        _recent.move_to_end(key)
        if len(_recent) > KEPT:
            _recent.popitem(last=False)
    return found


def _compile(text: str, program: Program, made_for: Processor) -> Module:
    symbols = dict(pointers()) if f"@{PREFIX}" in text else {}
    if f"@{blas.PREFIX}" in text:
        symbols.update(blas.symbols())
    if native_tapes.PREFIX in text:
        symbols.update(native_tapes.symbols())
    if program.sharing:
        symbols.update(thread_pool.symbols())
    symbols.update(gufuncs.symbols(step.loop for step in program.loops))
    try:
        return compile_module(text, symbols, made_for)
    except BackendError as error:
        for launch in program.launches:  # which kernel is it?
            try:
                compile_module(kernel_text(launch, made_for), symbols, made_for)
            except BackendError as why:
                name = launch.kernel.name
                raise BackendError(f"Kernel {name} cannot be compiled. {why.what}") from error
        raise


# --- calls


class NativeProgram:
    """A program bound to its machine code. Call it with a sequence of arguments.

    Attributes:
        direct: where one array is all that comes out, and arrays are all that goes in: what makes
            that array, the native entry, which takes the arguments, and what it takes between
            them and that array. It gives 0 where the array is the result; else call the program.
    """

    __slots__ = (
        "_arena",
        "_avals",
        "_boxed",
        "_constants",
        "_enter",
        "_failing",
        "_frames",
        "_kept",
        "_large",
        "_left",
        "_makers",
        "_one",
        "_order",
        "_program",
        "_rows",
        "_scratch",
        "_spare",
        "_tapes",
        "_unboxed",
        "direct",
    )

    def __init__(self, program: Program, module: Module, failing: bool = False) -> None:
        """Bind it; `failing`: to an end where loops that fail are asked why, in Python."""
        calls = program.callbacks if failing or not program.fails_only else ()
        self._program = program if program.callbacks else None
        self._failing: NativeProgram | None = None
        slots = program.slots
        places = {p: program.of_place(p) for p in (ARGUMENT, CONSTANT, RESULT)}
        given = [*places[ARGUMENT], *places[CONSTANT]]
        self._avals = [slots[k].aval for k in given]
        results = [slots[k].aval for k in places[RESULT]]
        self._makers = [_maker(a) for a in results]
        sizes = [0 if is_tape(a) else a.size * a.dtype.itemsize for a in results]
        self._large = together(self._makers, sizes)
        self._left = [(i, a) for i, a in enumerate(results) if is_tape(a)]
        self._tapes = [(i, a) for i, a in enumerate(self._avals) if is_tape(a)]
        small = len(results) == 1 and self._large is None
        self._one = self._makers[0] if small else None
        self._boxed = [i for i in range(len(places[ARGUMENT])) if not self._avals[i].shape]
        self._unboxed = [(i, weak) for i, weak in enumerate(program.weak) if not results[i].shape]
        behind = self._avals[len(places[ARGUMENT]) :]
        self._constants = tuple(
            c if type(c) is np.ndarray else _plain(c, a, "A captured value")
            for c, a in zip(program.constants, behind, strict=True)
        )
        self._order = [*given, *places[RESULT]]
        self._rows = [Row(call, program) for call in calls]
        self._frames: list[NativeFrame] = []  # that no call uses now
        items = [_item(k, slots[k].aval) for k in given]
        items += [Item(k, None, ()) for k in places[RESULT]]
        on_stack = program.arena <= STACK_ARENA and not calls
        self._arena = 0 if on_stack else program.arena + 64
        self._scratch = maker((self._arena,), BYTES)
        self._spare: list[Array] = []  # arenas of calls that ended, for `into`
        table = np.array([n & (1 << 64) - 1 for n in program.table], np.uint64)
        addresses = (module.address("main"), table.ctypes.data)
        stack = program.arena if on_stack else None
        needs = Needs(len(slots), stack, _is_long(program), bool(calls))
        self._enter = bind(addresses, items, needs)
        if program.sharing:
            thread_pool.start(max(program.sharing))
        self._kept = (module, table)
        special = self._boxed or self._unboxed or self._tapes or self._rows or self._arena
        self.direct = None if special or not small else (self._one, self._enter, self._constants)

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Run the program."""
        given = args
        if self._boxed:
            args = self._box(args)
        if self._tapes:
            args, _alive = self._as_blocks(args)
        one = self._one
        if one is not None:
            results = [one()]
        else:
            results = [make() for make in self._makers] if self._large is None else self._large()
        if self._rows:
            self._with_frame(args, results)
        else:
            behind = (self._scratch(),) if self._arena else ()
            code = self._enter(*args, *self._constants, *results, *behind)
            if code and self._again(code, args, *results, *behind):
                return self._with_reasons(given)
        for i, weak in self._unboxed:
            results[i] = results[i].item() if weak else results[i][()]
        for i, a in self._left:
            results[i] = blocks.taken(int(results[i][0]), a)
        return results

    def into(self, args: Sequence[Any], results: Sequence[Array]) -> None:
        """Run the program on memory that is there.

        Args:
            args: its arguments.
            results: for each result a plain array of its type, which shares memory with nothing
                else; after an error some may have been written. No result may be a tape.
        """
        given = args
        if self._boxed:
            args = self._box(args)
        if self._tapes:
            args, _alive = self._as_blocks(args)
        if self._rows:
            self._with_frame(args, list(results))
            return
        if not self._arena:
            behind = ()
        else:
            try:
                behind = (self._spare.pop(),)
            except IndexError:
                behind = (self._scratch(),)
        code = self._enter(*args, *self._constants, *results, *behind)
        if code and self._again(code, args, *results, *behind):
            for array, value in zip(results, self._with_reasons(given), strict=True):
                array[...] = value
        if len(self._spare) < KEPT_FRAMES:
            self._spare.extend(behind)

    def _as_blocks(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Tapes as native code reads them, and what must live on."""
        args, kept = list(args), []
        for i, a in self._tapes:
            args[i], more = blocks.given(args[i], a)
            kept.append(more)
        return args, kept

    def _box(self, args: Sequence[Any]) -> list[Any]:
        """Scalars as arrays."""
        args = list(args)
        for i in self._boxed:
            x = args[i]
            cls = type(x)
            if cls is not np.ndarray:
                found = SCALAR_AVALS.get(cls)
                a = self._avals[i]
                if cls is int and not -LIMIT <= x <= LIMIT:
                    check_int(x, LIMIT, _argument(i))
                if found is not None and found.dtype is a.dtype:
                    args[i] = np.array(x, a.dtype)
                else:
                    args[i] = _plain(x, a, _argument(i))
        return args

    def _copied(self, args: Sequence[Any]) -> list[Any]:
        """Arguments and constants after the entry refused one, each plain."""
        expected = len(self._avals) - len(self._constants)
        if len(args) != expected:
            raise _wrong_number(expected, len(args))
        return [
            x if is_tape(a) else _plain(x, a, _argument(i) if i < expected else "A captured array")
            for i, (x, a) in enumerate(zip((*args, *self._constants), self._avals, strict=True))
        ]

    def _with_frame(self, args: Sequence[Any], results: list[Any]) -> None:
        """Run a program that calls back."""
        try:
            frame = self._frames.pop()
        except IndexError:
            assert self._program is not None
            frame = NativeFrame(self._program, self._rows, self._arena)
        arrays = [*args, *self._constants, *results]
        known = frame.arrays
        for k, array in zip(self._order, arrays, strict=False):
            known[k] = array
        if within(frame, self._enter, [*arrays, frame.arena]):
            arrays = [*self._copied(args), *results]
            for k, array in zip(self._order, arrays, strict=True):
                known[k] = array
            within(frame, self._run, [*arrays, frame.arena])
        for k in self._order:  # these belong to others
            known[k] = None
        if self._arena <= KEPT_ARENA and len(self._frames) < KEPT_FRAMES:
            self._frames.append(frame)

    def _again(self, code: int, args: Sequence[Any], *arrays: Array) -> bool:
        """Run on plain arrays what was refused; whether a loop failed."""
        return code == FAILED or self._run(*self._copied(args), *arrays)

    def _run(self, *arrays: Array) -> bool:
        """Run on arrays that were looked at; whether a loop failed."""
        code = self._enter(*arrays)
        if code == REJECTED:
            raise BackendError(
                "The entry of a compiled program refused arrays that are plain.",
                "This is a bug of ftrace: please report this message.",
            )
        return code == FAILED

    def _with_reasons(self, args: Sequence[Any]) -> list[Any]:
        """Run the program once more after a loop failed: Python evaluates its row, and raises.

        Nothing else in it calls Python, so that nobody sees the first time.
        """
        if self._failing is None:
            assert self._program is not None
            self._failing = NativeProgram(self._program, self._kept[0], failing=True)
        return self._failing(args)


def _item(slot: int, a: ShapedArray) -> Item:
    """What the entry looks at; tapes have become blocks."""
    return Item(slot, None, ()) if is_tape(a) else Item(slot, a.dtype, a.shape)


def _maker(a: ShapedArray) -> Callable[[], Array]:
    """Makes memory for a result; for a tape, the word with its address."""
    return (
        partial(np.zeros, 1, blocks.ADDRESS) if is_tape(a) else partial(np.empty, a.shape, a.dtype)
    )


def _is_long(program: Program) -> bool:
    """Whether a program may run for more than some microseconds."""
    avals = [s.aval for s in program.slots if not is_tape(s.aval)]
    size = sum(a.size * a.dtype.itemsize for a in avals)
    return size > SMALL or _repeats(program.steps, program.table)


def _repeats(steps: Sequence[Step], table: Sequence[int]) -> bool:
    """Whether something runs more than once."""
    for step in steps:
        if isinstance(step, Repeat | Scan):
            return True
        if isinstance(step, BranchStep) and any(_repeats(arm, table) for arm in step.arms):
            return True
        if isinstance(step, Launch) and _is_long_launch(step, table):
            return True
    return False


def _is_long_launch(launch: Launch, table: Sequence[int]) -> bool:
    """Whether a kernel holds a `While`, or a loop in order of many iterations."""
    entries = dict(zip(launch.kernel.scalars, launch.scalars, strict=True))
    for stmt in inside(launch.kernel.body):
        if isinstance(stmt, While):
            return True
        if isinstance(stmt, Loop) and stmt.params:
            extent = stmt.extent
            if isinstance(extent, Lit):
                many = extent.value > SMALL
            else:
                many = extent not in entries or table[entries[extent]] > SMALL
            if many:
                return True
    return False


class Interpreted:
    """A program that holds nothing but rows of Python."""

    __slots__ = ("_arguments", "_avals", "_calm", "_constants", "_program", "_results")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._arguments = program.of_place(ARGUMENT)
        self._avals = [program.slots[k].aval for k in self._arguments]
        self._constants = list(zip(program.of_place(CONSTANT), program.constants, strict=True))
        self._calm = all(map(is_calm, program.callbacks))
        self._results = [(k, program.slots[k].aval) for k in program.of_place(RESULT)]

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Run the program."""
        program = self._program
        if len(args) != len(self._avals):
            raise _wrong_number(len(self._avals), len(args))
        given = [
            x
            if type(x) is np.ndarray and x.dtype is a.dtype and x.shape == a.shape
            else as_planned(_plain(x, a, _argument(i)), a)
            for i, (x, a) in enumerate(zip(args, self._avals, strict=True))
        ]
        values: dict[int, Any] = dict(zip(self._arguments, given, strict=True))
        values.update(self._constants)
        shared = {id(x) for x in values.values()}
        if self._calm:
            interpret(program.steps, program, values)
        else:
            with quietly():
                interpret(program.steps, program, values)
        results: list[Any] = []
        for (k, a), weak in zip(self._results, program.weak, strict=True):
            results.append(_owned(values[k], a, weak, shared))
        return results


def _owned(value: Any, planned: ShapedArray, weak: bool, shared: set[int]) -> Any:
    """A result that shares memory with nothing; `shared` are ids of what may not be given away."""
    if weak or not planned.shape:
        scalar = as_planned(value, planned)
        return scalar.item() if weak and issubclass(type(scalar), np.generic) else scalar
    flags = value.flags
    own = flags.owndata and flags.writeable and value.shape == planned.shape
    if own and id(value) not in shared:
        shared.add(id(value))
        return value
    copy = maker(planned.shape, planned.dtype)()
    copy[...] = value.reshape(planned.shape)
    return copy


# --- arguments that need a look


def _argument(number: int) -> str:
    return f"Argument {number} of a compiled function"


def _wrong_number(expected: int, given: int) -> BackendError:
    return BackendError(
        f"Code that was compiled for {expected} arguments was called with {given}.",
        "Compile for these arguments: call the function that jit returned.",
    )


def _plain(x: Any, planned: ShapedArray, name: str) -> Array:
    """An array as planned: contiguous, aligned, in native byte order, of no subclass.

    Raises:
        DtypeError, ShapeError: it is of another type than planned.
    """
    if issubclass(type(x), np.ndarray):
        dtype, shape = canonical(x.dtype), x.shape
    else:
        a = typeof(x)
        dtype, shape = a.dtype, a.shape
    if dtype != planned.dtype:
        raise DtypeError(
            f"{name} is of {dtype}, but the code was compiled for {planned.dtype}.",
            "Compile for this argument: call the function that jit returned.",
        )
    if shape != planned.shape:
        raise ShapeError(
            f"{name} has shape {shape}, but the code was compiled for {planned.shape}.",
            "Compile for this argument: call the function that jit returned.",
        )
    plain = np.require(x, planned.dtype, ["C", "ALIGNED", "ENSUREARRAY"])
    return plain.view(planned.dtype)  # NumPy's copy may keep an equal type's own object

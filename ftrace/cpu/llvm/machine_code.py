"""LLVM text to machine code in memory.

Everything that knows llvmlite's binding is here. No optimisation passes run and nothing is fused:
code generation translates what was written. The text becomes an object file, made by a
target machine that is kept, and only that file is loaded: what LLVM knows of a module while
compiling is twelve times as large as its code. Object files are kept on disk, so that the next
process compiles nothing (core/disk_cache.py). All of it happens under the lock that keeps the
process from forking (core/lazy.py). A `Module` owns its code, which is freed with it.
"""

import functools
import mmap
import os
import re
from collections.abc import Mapping
from typing import Any, Final
from weakref import finalize

import llvmlite.binding as llvm

from ftrace.core import disk_cache
from ftrace.core.errors import BackendError
from ftrace.core.lazy import MAKING, once
from ftrace.cpu.llvm.text import Processor

VERSION: Final = ".".join(str(n) for n in llvm.llvm_version_info)
_count: Final = [0]
ROOM: Final = 32 << 20  # bytes that LLVM may want beside what it makes of a text
PER_CHARACTER: Final = 200  # bytes that it wants per character of the text, at most

# For tests, and for code that must run on older machines: LLVM's name and what we ask about it.
LEVELS: Final[dict[str, tuple[str, str]]] = {
    "avx512": ("x86-64-v4", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx2,+fma,+f16c,+sse4.1"),
    "avx2": ("x86-64-v3", "+avx2,+fma,+f16c,+sse4.1"),
    "sse2": ("x86-64", "+sse2"),
}


def host(level: str = "") -> Processor:
    """What the generated code is made for.

    Args:
        level: `native`, which is what this machine runs best, or one of `avx512`, `avx2`, `sse2`;
            by default what the environment variable FTRACE_CPU says, or `native`.

    Raises:
        BackendError: FTRACE_CPU is none of them, or this machine has not those instructions.
    """
    return _chosen(os.environ.get("FTRACE_CPU", "") or "native") if not level else _host(level)


def _host(level: str) -> Processor:
    if level != "native":
        cpu, features = LEVELS[level]
    else:
        cpu, features = _native()
    have = set(features.split(","))
    wide = {"+avx512f", "+avx512bw", "+avx512dq", "+avx512vl"} <= have
    fma = "+fma" in have or "+neon" in have
    vector_bytes = 64 if wide else 32 if "+avx2" in have else 16
    return Processor(vector_bytes=vector_bytes, fma=fma, masked=wide, cpu=cpu, features=features)


@once
def _native() -> tuple[str, str]:
    """The name of this machine's processor, and its features."""
    _start()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@functools.cache
def _chosen(level: str) -> Processor:
    """The host that FTRACE_CPU chooses, if this machine can run it."""
    if level not in ("native", *LEVELS):
        raise BackendError(
            f"The environment variable FTRACE_CPU is {level!r}.",
            f"It must be one of {', '.join(('native', *LEVELS))}, or not be set.",
        )
    found, native = _host(level), _host("native")
    missing = set(found.features.split(",")) - set(native.features.split(","))
    if level != "native" and missing:
        raise BackendError(
            f"FTRACE_CPU is {level!r}, but this processor ({native.cpu}) lacks "
            f"{', '.join(sorted(missing))}.",
            "Choose a smaller set of instructions, or leave FTRACE_CPU out.",
        )
    return found


def translations() -> int:
    """How many texts LLVM has translated in this process; others came from disk."""
    return _count[0]


class Module:
    """Compiled code; it may be called as long as this object lives."""

    def __init__(
        self, text: str, symbols: Mapping[str, int], made_for: Processor, level: int
    ) -> None:
        _check_memory(len(text))
        with MAKING:
            _free_dead()
            code, external = _translated(text, made_for, level)
            context = llvm.create_context()
            declared = llvm.parse_assembly(
                "\n".join(f'declare void @"{name}"()' for name in external), context
            )
            self._engine = llvm.create_mcjit_compiler(declared, _machine(made_for, 0))
            # the collector may end them in any order, and a context takes its modules along
            finalize(self, _free, self._engine, context).atexit = False
            for name in external:
                if name in symbols:
                    self._engine.add_global_mapping(declared.get_function(name), symbols[name])
                elif not llvm.address_of_symbol(name):  # LLVM would end the process
                    raise BackendError(
                        f"The generated code needs {name!r}, which this process has not."
                    )
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function begins."""
        with MAKING:
            found = self._engine.get_function_address(name)
        if not found:
            raise BackendError(f"The compiled module has no function {name!r}.")
        return found


_dead: Final[list[tuple[Any, Any]]] = []


def _free(engine: Any, context: Any) -> None:
    """Free code, at once or, where another thread is compiling, by the next compilation.

    Whoever waited here could do so with any lock, since the collector runs anywhere.
    """
    _dead.append((engine, context))
    if MAKING.acquire(blocking=False):
        try:
            _free_dead()
        finally:
            MAKING.release()


def _free_dead() -> None:
    while _dead:
        engine, context = _dead.pop()
        engine.close()
        context.close()


def _check_memory(size: int) -> None:
    """Raise if there is no memory to compile so long a text: LLVM would end the process.

    Raises:
        BackendError: as above.
    """
    wanted = ROOM + PER_CHARACTER * size
    try:
        mmap.mmap(-1, wanted).close()
    except (OSError, MemoryError, ValueError, OverflowError) as error:
        raise BackendError(
            f"There is no memory to compile a program of {size:,} characters: LLVM may need "
            f"{wanted:,} bytes ({error}).",
            "Free memory, or interpret the program: ftrace.config.update(compile=False).",
        ) from error


def compile_module(
    text: str, symbols: Mapping[str, int], host: Processor, level: int = 2
) -> Module:
    """Compile a module.

    Args:
        text: LLVM text: definitions and declarations.
        symbols: addresses of what it declares and the process does not export (those of others
            are ignored).
        host: what the code is made for; the machine that runs it must have those instructions.
        level: of code generation; 0 takes a third of the time, and cannot do with vectors.

    Raises:
        BackendError: LLVM refused the text, nothing has a name that it declares, or there is no
            memory for it.
    """
    return Module(text, symbols, host, level)


def assembly(text: str, host: Processor, level: int = 2) -> str:
    """The machine code of a module as text.

    Raises:
        BackendError: LLVM refused the text.
    """
    _start()
    with MAKING, llvm.create_context() as context, _parse(text, context) as parsed:
        return _generator(host, level).emit_assembly(parsed)


@once
def _start() -> bool:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return True


def _translated(text: str, made_for: Processor, level: int) -> tuple[bytes, list[str]]:
    """The object file of a text, and the names of what it takes from elsewhere."""
    name = disk_cache.name_of("o", VERSION, made_for, level, text)
    kept = disk_cache.read(name)
    if kept is None:
        code, external = _generated(text, made_for, level)
        disk_cache.write(name, b" ".join([*map(str.encode, external), b"\0"]) + code)
        return code, external
    names, _, code = kept.partition(b"\0")
    return code, names.decode().split()


def _generated(text: str, made_for: Processor, level: int) -> tuple[bytes, list[str]]:
    """As `_translated`, by LLVM."""
    _start()
    _count[0] += 1
    with llvm.create_context() as context, _parse(text, context) as parsed:
        names = [v.name for v in (*parsed.functions, *parsed.global_variables) if v.is_declaration]
        external = [name for name in names if not name.startswith("llvm.")]
        try:
            return _generator(made_for, level).emit_object(parsed), external
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # not LLVM's: of a signal handler, say
                raise
            raise BackendError(f"LLVM {VERSION} cannot translate the text: {error}") from error


def _parse(text: str, context: Any) -> Any:
    try:
        parsed = llvm.parse_assembly(text, context)
        try:
            parsed.verify()  # a hundredth of the time; what is wrong here ends the process later
        except BaseException:
            parsed.close()  # before its context
            raise
        return parsed
    except RuntimeError as error:
        if type(error) is not RuntimeError:
            raise
        lines = text.splitlines()
        numbers = [int(n) for n in re.findall(r":(\d+):\d+:", str(error))]
        first = max(0, numbers[0] - 4) if numbers else 0
        shown = "\n".join(lines[first : first + 12])
        raise BackendError(
            f"LLVM {VERSION} refuses the generated text: {error}\n{shown}"
        ) from error


_generators: Final[dict[tuple[Processor, int], Any]] = {}


def _generator(made_for: Processor, level: int) -> Any:
    """The target machine that translates for a host, one at a time."""
    key = made_for, level
    found = _generators.get(key)
    if found is None:
        found = _generators[key] = _machine(made_for, level)
    return found


def _machine(made_for: Processor, level: int) -> Any:
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=made_for.cpu, features=made_for.features, opt=level, jit=True
    )

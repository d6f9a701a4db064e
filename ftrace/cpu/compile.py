"""LLVM text to machine code in memory.

Everything that knows llvmlite's binding is here. The binding starts at first use; modules are
parsed, checked and compiled under one lock, since LLVM's global context is not thread-safe. No
optimisation passes run and nothing is fused: code generation translates what was
written. A `Module` keeps its engine, and so its code, alive.
"""

import re
import threading
from collections.abc import Mapping
from typing import Any, Final
from weakref import finalize

import llvmlite.binding as llvm

from ftrace.core.errors import BackendError
from ftrace.cpu.text import Host

_LOCK: Final = threading.RLock()
_STARTED: Final[list[bool]] = []
VERSION: Final = ".".join(str(n) for n in llvm.llvm_version_info)

# For tests, and for code that must run on older machines: LLVM's name and what we ask about it.
LEVELS: Final[dict[str, tuple[str, str]]] = {
    "avx512": ("x86-64-v4", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx2,+fma,+f16c,+sse4.1"),
    "avx2": ("x86-64-v3", "+avx2,+fma,+f16c,+sse4.1"),
    "sse2": ("x86-64", "+sse2"),
}


def host(level: str = "native") -> Host:
    """What this machine runs best, or one of the levels `avx512`, `avx2`, `sse2`."""
    if level != "native":
        cpu, features = LEVELS[level]
    else:
        _start()
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    have = set(features.split(","))
    wide = {"+avx512f", "+avx512bw", "+avx512dq", "+avx512vl"} <= have
    fma = "+fma" in have or "+neon" in have
    vector_bytes = 64 if wide else 32 if "+avx2" in have else 16
    return Host(vector_bytes=vector_bytes, fma=fma, masked=wide, cpu=cpu, features=features)


class Module:
    """Compiled code; it may be called as long as this object lives."""

    def __init__(self, text: str, symbols: Mapping[str, int], made_for: Host, level: int) -> None:
        self._text, self._host, self._level = text, made_for, level
        with _LOCK:
            self._context = llvm.create_context()
            parsed = _parse(text, self._context)
            self._engine = llvm.create_mcjit_compiler(parsed, _machine(made_for, level))
            # the collector may end them in any order, and a context takes its modules along
            finalize(self, _close, self._engine, self._context).atexit = False
            _bind(self._engine, parsed, symbols)
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function begins."""
        with _LOCK:
            found = self._engine.get_function_address(name)
        if not found:
            raise BackendError(f"The compiled module has no function {name!r}.")
        return found

    def assembly(self) -> str:
        """The machine code as text, made again: the engine keeps only bytes."""
        with _LOCK:
            parsed = _parse(self._text, self._context)
            return _machine(self._host, self._level).emit_assembly(parsed)


def _close(engine: Any, context: Any) -> None:
    """Free code, then the context in which it was made."""
    engine.close()
    context.close()


def compile_module(text: str, symbols: Mapping[str, int], host: Host, level: int = 2) -> Module:
    """Compile a module.

    Args:
        text: LLVM text: definitions and declarations.
        symbols: addresses of what it declares and the process does not export (those of others
            are ignored).
        host: what the code is made for; the machine that runs it must have those instructions.
        level: of code generation; 0 takes a third of the time, and cannot do with vectors.

    Raises:
        BackendError: LLVM refused the text, or nothing has a name that it declares.
    """
    _start()
    return Module(text, symbols, host, level)


def _start() -> None:
    with _LOCK:
        if not _STARTED:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            _STARTED.append(True)


def _parse(text: str, context: Any) -> Any:
    try:
        return llvm.parse_assembly(text, context)
    except RuntimeError as error:
        lines = text.splitlines()
        numbers = [int(n) for n in re.findall(r":(\d+):\d+:", str(error))]
        first = max(0, numbers[0] - 4) if numbers else 0
        shown = "\n".join(lines[first : first + 12])
        raise BackendError(
            f"LLVM {VERSION} refuses the generated text: {error}\n{shown}"
        ) from error


def _bind(engine: Any, parsed: Any, symbols: Mapping[str, int]) -> None:
    """Give external names their addresses; LLVM would end the process over a missing one."""
    for value in (*parsed.functions, *parsed.global_variables):
        name = value.name
        if not value.is_declaration or name.startswith("llvm."):
            continue
        if name in symbols:
            engine.add_global_mapping(value, symbols[name])
        elif not llvm.address_of_symbol(name):
            raise BackendError(f"The generated code needs {name!r}, which this process has not.")


def _machine(made_for: Host, level: int) -> Any:
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=made_for.cpu, features=made_for.features, opt=level, jit=True
    )

"""Compile, load and launch CUDA C on the CPU.

A text is compiled once: the shared library is kept under `build/emulation`, named by a hash of the
text, the compiler and its options. The compiler is `c++` where there is one, else the one in the
wheel `ziglang`. Undefined behaviour of C++ is checked always (it costs 3 of 55 ms): the handlers
are in runtime.cpp, so no library of the compiler is needed.
"""

import ctypes
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ftrace.core.errors import BackendError

HERE: Final = Path(__file__).parent
CACHE: Final = HERE.parents[2] / "build" / "emulation"
RUNTIME: Final = ("runtime.cpp", "mathematics.cpp")
UNDEFINED: Final = (
    "alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero,float-cast-overflow"
)
COMMON: Final = (
    "-std=c++17", "-shared", "-fPIC", "-w", "-fvisibility=hidden", "-fno-exceptions",
    "-fno-rtti", "-fno-strict-aliasing", "-ffp-contract=off", "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=0",
)  # fmt: skip
KERNELS: Final = (
    "-O1", f"-fsanitize={UNDEFINED}", "-ftrivial-auto-var-init=pattern", "-fstack-clash-protection",
)  # fmt: skip


@dataclass(frozen=True)
class Compiler:
    """A host compiler: the command, and what it calls itself."""

    command: tuple[str, ...]
    version: str


@functools.cache
def compilers() -> tuple[Compiler, ...]:
    """The host compilers of this machine, best first."""
    found: list[Compiler] = []
    path = shutil.which("c++")
    if path:
        found.append(_compiler((path,), "--version"))
    if importlib.util.find_spec("ziglang") is not None:
        # `cc -x c++` rather than `c++`: no C++ library is built or linked, none is needed.
        found.append(_compiler((sys.executable, "-m", "ziglang", "cc"), "--version"))
    return tuple(found)


def _compiler(command: tuple[str, ...], option: str) -> Compiler:
    said = subprocess.run([*command, option], capture_output=True, text=True, check=True)
    return Compiler(command, said.stdout.splitlines()[0])


def compile_text(compiler: Compiler, text: str, options: Sequence[str]) -> Path:
    """The shared library of a C++ text, from the cache if it is there."""
    key = "\0".join([text, compiler.version, *compiler.command, *options])
    target = CACHE / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.so"
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        source, made = Path(folder, "unit.cpp"), Path(folder, "unit.so")
        source.write_text(text)
        command = [*compiler.command, str(source), "-o", str(made), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BackendError(
                "The host compiler refuses the CUDA C text:\n"
                + done.stderr.replace(str(source), "unit.cpp")[:4000]
            )
        os.replace(made, target)
    return target


@dataclass(frozen=True)
class Order:
    """How the threads of a launch follow each other, and how long (CPU time) they may take."""

    reversed: bool = False
    seconds: int = 60


@dataclass(frozen=True)
class Function:
    """A kernel that can be launched.

    Attributes:
        name: its symbol.
        run: address of what runs it for every thread (`ftrace_run` of cuda.h).
        size: bytes of its parameters.
        shared: address of the two ends of the unit's shared variables.
    """

    name: str
    run: int
    size: int
    shared: int


class Driver:
    """One compiler, and the runtime compiled with it."""

    def __init__(self, compiler: Compiler, fibres: str = "") -> None:
        """With `fibres="ucontext"`, threads are switched by the C library."""
        self.compiler = compiler
        self._header = (HERE / "cuda.h").read_text()
        runtime = "\n".join((HERE / name).read_text() for name in RUNTIME)
        options = (*COMMON, "-O2", *(["-DFTRACE_UCONTEXT"] if fibres == "ucontext" else []))
        self._path = compile_text(compiler, runtime, (*options, "-lm"))
        # PyDLL keeps the interpreter's lock: there is one set of fibres.
        self._runtime = ctypes.PyDLL(str(self._path))
        self._launch: Any = self._runtime.ftrace_launch
        self._copy: Any = self._runtime.ftrace_copy
        self._launch.restype = self._copy.restype = ctypes.c_char_p
        self._launch.argtypes = [
            ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
            ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
        ]  # fmt: skip
        self._copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._loaded: dict[Path, ctypes.CDLL] = {}

    def load(self, source: str, entries: Sequence[str]) -> dict[str, Function]:
        """The kernels `entries` of a text."""
        runs = "".join(f"FTRACE_KERNEL({name})\n" for name in entries)
        text = f'#line 1 "cuda.h"\n{self._header}#line 1 "kernels.cu"\n{source}\n{runs}'
        # Linked with the runtime by its path: two drivers in one process keep their own.
        options = (*COMMON, *KERNELS, "-nostdlib", str(self._path), "-lm")
        path = compile_text(self.compiler, text, options)
        library = self._loaded.get(path)
        if library is None:
            library = self._loaded[path] = ctypes.CDLL(str(path))
        shared = ctypes.addressof(ctypes.c_void_p.in_dll(library, "ftrace_shared_ends"))
        return {name: _function(library, name, shared) for name in entries}

    def launch(self, function: Function, dims: Any, shared: int, words: Any, order: Order) -> None:
        """Run all threads; `dims` and `words` are ctypes arrays."""
        said = self._launch(
            function.name.encode(), function.run, words, dims, function.shared, shared,
            order.reversed, order.seconds,
        )  # fmt: skip
        _check(said)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes; an address outside of an array is an error, as in a kernel."""
        _check(self._copy(target, source, size, Order().seconds))


def _check(said: bytes | None) -> None:
    if said is not None:
        raise BackendError(said.decode())


def _function(library: ctypes.CDLL, name: str, shared: int) -> Function:
    run = ctypes.cast(getattr(library, f"ftrace_run_{name}"), ctypes.c_void_p).value
    assert run is not None
    return Function(name, run, ctypes.c_int.in_dll(library, f"ftrace_size_{name}").value, shared)

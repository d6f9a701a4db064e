"""NVRTC, NVIDIA's compiler as a library, through ctypes.

Here: where the library is found, and one function that compiles. Not here: options, caching,
messages for users (cubin.py). CuPy has a binding too, but it needs CuPy, hands out CUBINs that
lack their last byte, and its compiler module cannot be used without a driver. Several versions may
be installed; the newest whose major version the driver understands is taken, wheels before
toolkits before what the system's loader finds.
"""

import ctypes
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ftrace.core.errors import BackendError
from ftrace.core.lazy import forkable_lock
from ftrace.core.records import record

MAJORS = (13, 12)
_LOADING = forkable_lock()


@record
class Compilation:
    """What came of one compilation.

    Attributes:
        cubin: machine code; empty if the text was refused.
        log: what the compiler said, also about registers where `-Xptxas -v` was asked for.
        error: NVRTC's name for what went wrong, or "".
    """

    cubin: bytes
    log: str
    error: str


class Nvrtc:
    """One loaded library; `compile` may be called from several threads at once.

    Attributes:
        path: where it was found.
        version: (major, minor).
        build: tells what it does not say of itself, such as its patch version.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._beside = [ctypes.CDLL(str(part)) for part in _parts(Path(path))]
        self._library = library = ctypes.CDLL(path)
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        self.version: tuple[int, int] = (major.value, minor.value)
        self.build = _build(Path(path))

    def __repr__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]} ({self.path})"

    def archs(self) -> tuple[int, ...]:
        """The compute capabilities that it compiles for, as numbers: 75, 80, 90, 100..."""
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        found = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(found))
        return tuple(found)

    def compile(self, source: str, options: Sequence[str]) -> Compilation:
        """Compile a complete CUDA C text to machine code; a refused text is no exception."""
        library, program = self._library, ctypes.c_void_p()
        text = source.encode()
        status = library.nvrtcCreateProgram(
            ctypes.byref(program), text, b"kernels.cu", 0, None, None
        )
        self._check(status)
        try:
            given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
            status = library.nvrtcCompileProgram(program, len(options), given)
            log = self._bytes("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
            if status:
                return Compilation(b"", log, self._name(status))
            return Compilation(self._bytes("CUBIN", program), log, "")
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _bytes(self, what: str, program: Any) -> bytes:
        """What `nvrtcGet<what>` gives, all of `nvrtcGet<what>Size` bytes."""
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        found = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, found))
        return found.raw

    def _name(self, status: int) -> str:
        return self._library.nvrtcGetErrorString(status).decode()

    def _check(self, status: int) -> None:
        if status:
            raise BackendError(f"{self.path} reports {self._name(status)}.")


@cache
def load(newest: int = MAJORS[0]) -> Nvrtc:
    """The compiler to use.

    Args:
        newest: the highest major version of CUDA that the driver understands: machine code of a
            newer compiler may be refused by it.

    Raises:
        BackendError: none of the versions 12 to `newest` is installed, or none can be loaded.
    """
    tried: list[str] = []
    with _LOADING:
        for path in _candidates([major for major in MAJORS if major <= newest]):
            try:
                return Nvrtc(path)
            except OSError as error:
                tried.append(f"{path}: {error}")
    extra = f"cuda{min(max(newest, MAJORS[-1]), MAJORS[0])}"
    seen = "".join(f"\n  {line}" for line in tried)
    raise BackendError(
        f"Kernels for a GPU are compiled by NVRTC, which was not found (version 12 or 13 at most"
        f" {newest}).{seen}",
        f"Install it with `pip install 'ftrace[{extra}]'`, or set CUDA_PATH to the toolkit.",
    )


def _candidates(majors: Sequence[int]) -> Iterator[str]:
    """Paths of libraries that exist, then names for the system's loader, best first."""
    folders = [*_wheels(), *_toolkits()]
    for major in majors:
        for folder in folders:
            yield from sorted(str(path) for path in folder.glob(_pattern(major)))
        yield _name(major)


def _parts(path: Path) -> Iterator[Path]:
    """What NVRTC opens by name when it compiles.

    Version 13.0 does not look beside itself, but takes what is loaded already.
    """
    if path.is_absolute():
        for pattern in ("libnvrtc-builtins.so.*", "nvrtc-builtins64_*.dll"):
            yield from sorted(path.parent.glob(pattern))


def _build(path: Path) -> tuple[int, ...]:
    """Size and time of a library's file; nothing of one that the system's loader found."""
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_size, about.st_mtime_ns


def _wheels() -> Iterator[Path]:
    """Folders of NVIDIA's wheels, which all live in the namespace package `nvidia`."""
    spec = importlib.util.find_spec("nvidia")
    for home in (spec.submodule_search_locations or ()) if spec else ():
        for inner in ("cu13", "cuda_nvrtc"):
            yield Path(home, inner, "lib")
            yield Path(home, inner, "bin")
            yield Path(home, inner, "bin", "x86_64")


def _toolkits() -> Iterator[Path]:
    """Folders of installed toolkits: named by the environment, conda's, the usual one."""
    named = [os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME")]
    for home in (*filter(None, named), sys.prefix, "/usr/local/cuda"):
        for inner in ("lib64", "lib", "targets/x86_64-linux/lib", "bin", "bin/x64"):
            yield Path(home, inner)


def _pattern(major: int) -> str:
    return f"nvrtc64_{major}*_0.dll" if sys.platform == "win32" else _name(major)


def _name(major: int) -> str:
    return f"nvrtc64_{major}0_0.dll" if sys.platform == "win32" else f"libnvrtc.so.{major}"

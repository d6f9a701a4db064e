"""Hand-written C kernels: compiled with the machine's own compiler, loaded by ctypes.

The sources are `benchmarks/c/*.c`; the flags are `-O3 -march=native` without `-ffast-math`. Every
kernel has one signature, `void f(const int64_t *sizes, double **in, double **out)` up to element
types, so that binding is one function. Outputs are allocated at every call, as everybody's are; a
call costs about a microsecond of Python. Read next: `benchmarks/c/`.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import UnsupportedError

SOURCES = Path(__file__).parent / "c"
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


def threads() -> int:
    """The thread count everybody was given."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))


def compiler() -> str | None:
    """The path of a C compiler, if there is one."""
    return shutil.which("gcc") or shutil.which("cc")


def missing() -> str:
    """Why C kernels cannot be built here, or the empty string."""
    return "" if compiler() else "not installed: no gcc or cc on the path"


def version() -> str:
    """Compiler and flags."""
    out = subprocess.run([str(compiler()), "--version"], capture_output=True, text=True, check=True)
    return f"{out.stdout.splitlines()[0]}; {' '.join(FLAGS)}"


@cache
def library() -> ctypes.CDLL:
    """The compiled kernels; built again only when a source or a flag changed."""
    sources = sorted(SOURCES.glob("*.c"))
    text = b"".join(s.read_bytes() for s in sorted(SOURCES.iterdir())) + version().encode()
    folder = Path(tempfile.gettempdir()) / f"ftrace-bench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"kernels-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if not target.exists():
        fresh = target.with_suffix(f".{os.getpid()}")
        command = [str(compiler()), *FLAGS, *map(str, sources), "-o", str(fresh), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnsupportedError(f"the C kernels do not compile: {done.stderr.strip()[-300:]}")
        fresh.replace(target)
    return ctypes.CDLL(str(target))


def _address(array: np.ndarray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(array))


def bind(name: str, inputs: Any, outputs: Any, sizes: Any) -> Callable[[], list[np.ndarray]]:
    """A call of kernel `name` on these inputs; `outputs` lists (shape, dtype), () for a scalar."""
    function = getattr(library(), name)
    function.restype, function.argtypes = None, (ctypes.c_void_p,) * 3
    held = [np.array(a, order="C", ndmin=1) for a in inputs]
    args = (ctypes.c_void_p * max(len(held), 1))(*map(_address, held))
    dims = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
    slots = (ctypes.c_void_p * len(outputs))()
    fixed = [ctypes.addressof(block) for block in (dims, args, slots)]
    plans = [(shape or (1,), np.dtype(dtype)) for shape, dtype in outputs]
    scalars = [i for i, (shape, _) in enumerate(outputs) if not shape]
    empty, address, buffer = np.empty, ctypes.addressof, ctypes.c_char.from_buffer

    def call() -> list[np.ndarray]:
        made = [empty(shape, dtype) for shape, dtype in plans]
        slots[:] = [address(buffer(out)) for out in made]
        function(*fixed)
        for i in scalars:
            made[i] = made[i][0]
        return made

    call.held = (held, args, dims)
    return call

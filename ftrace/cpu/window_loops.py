"""Products of windows (window_text.py) in the form of a gufunc's loops, compiled when asked for."""

import functools
from typing import Final

import numpy as np

from ftrace.core.lazy import MAKING
from ftrace.cpu.llvm.machine_code import Module, compile_module, host
from ftrace.cpu.llvm.text import LLVM_TYPE
from ftrace.cpu.threads import thread_pool
from ftrace.cpu.window_text import windows_text

MODULE: Final = "windows"  # what stands for a module of NumPy's in the name of a loop


@functools.cache
def address(name: str, types: str) -> int:
    """Where a loop is; 0 where there is none.

    Args:
        name: strides and dilation, `1,2:1,1`.
        types: as of a ufunc's loop.
    """
    found = _loop(name, types)
    return 0 if found is None else found.address("loop")


@functools.cache
def _loop(name: str, types: str) -> Module | None:
    dtype = np.dtype(types[0])
    code = f"{dtype.kind}{dtype.itemsize}"
    if code not in LLVM_TYPE or code in ("b1", "f2"):
        return None
    strides, dilation = ([int(n) for n in part.split(",") if n] for part in name.split(":"))
    pool = thread_pool.symbols()
    text = windows_text(strides, dilation, code, host(), shared=bool(pool))
    with MAKING:
        return compile_module(text, pool, host())

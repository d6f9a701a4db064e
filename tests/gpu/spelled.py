"""Spellings as functions of arrays, run by the emulation: a kernel per operation and dtype."""

import ctypes
import re
from functools import cache

import numpy as np

from ftrace.core.scalar import OPS
from ftrace.gpu.emit.cuda_spelling import MEMORY, REGISTER, spell
from ftrace.gpu.prelude.prelude import definitions
from ftrace.lowering.kernel.ir import DTYPES
from tests.gpu.emulation import driver

Row = tuple[str, str]  # an operation and the dtype of its result


def rows(dtype: str) -> list[Row]:
    """Every operation on a dtype, and every conversion."""
    found: list[Row] = []
    for op, row in OPS.items():
        if op == "cast":
            found += [(op, to) for to in DTYPES]
        elif dtype == "f2" or dtype[0] not in row.kinds:
            continue
        elif op == "bitcast":
            found += [(op, to) for to in DTYPES if to[1] == dtype[1] and to not in ("b1", "f2")]
        else:
            found.append((op, "b1" if row.result == "b1" else dtype))
    return found


def expression(op: str, dtype: str, to: str) -> str:
    """An operation on x, y; `select` takes the smaller."""
    dtypes = ["b1", dtype, dtype] if op == "select" else [dtype] * OPS[op].arity
    args = ["(x < y)", "x", "y"] if op == "select" else ["x", "y"][: OPS[op].arity]
    return spell(op, args, dtypes, to)


def kernel(op: str, dtype: str, to: str) -> str:
    """`out[i] = op(a[i], b[i])`, a thread each."""
    return (
        f'extern "C" __global__ void {op}_{dtype}_{to}(const {MEMORY[dtype]}* a, '
        f"const {MEMORY[dtype]}* b, {MEMORY[to]}* out, long long n) {{\n"
        "  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i >= n) return;\n"
        f"  const {REGISTER[dtype]} x = a[i], y = b[i];\n"
        f"  const {REGISTER[to]} r = {expression(op, dtype, to)};\n"
        "  out[i] = r;\n}\n"
    )


def text_of(*dtypes: str) -> str:
    """One source with every operation on some dtypes."""
    return complete("".join(kernel(op, d, to) for d in dtypes for op, to in rows(d)))


def complete(kernels: str) -> str:
    return definitions(kernels) + kernels


class Spelled:
    """The operations on one dtype, compiled by the host's compiler, with checks for overflow."""

    def __init__(self, dtype: str, source: str = "") -> None:
        """`source` in place of the text of all operations."""
        source = source or text_of(dtype)
        self.dtype = dtype
        self.driver = driver.Driver(driver.compilers()[0])
        self.functions = self.driver.load(source, re.findall(r"__global__ void (\w+)", source))

    def __call__(self, op: str, to: str, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        a = np.ascontiguousarray(a, self.dtype)
        b = a if b is None else np.ascontiguousarray(b, self.dtype)
        out = np.empty(len(a), to)
        words = (ctypes.c_longlong * 4)(a.ctypes.data, b.ctypes.data, out.ctypes.data, len(a))
        dims = (ctypes.c_uint * 6)(-(-len(a) // 256), 1, 1, 256, 1, 1)
        function = self.functions[f"{op}_{self.dtype}_{to}"]
        self.driver.launch(function, dims, 0, words, driver.Order())
        return out


@cache
def spelled(dtype: str) -> Spelled:
    return Spelled(dtype)

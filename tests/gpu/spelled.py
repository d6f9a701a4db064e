"""Spellings as functions of arrays on the host, and as kernels for NVRTC."""

import ctypes
import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ftrace.core.scalar import OPS
from ftrace.gpu.prelude import definitions
from ftrace.gpu.spelling import MEMORY, REGISTER, spell
from ftrace.lowering.ir import DTYPES
from tests.gpu.host_math import HOST_MATH

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
    """`out[i] = op(a[i], b[i])`, for one i of a grid."""
    return (
        f'extern "C" __global__ void {op}_{dtype}_{to}(const {MEMORY[dtype]}* a, '
        f"const {MEMORY[dtype]}* b, {MEMORY[to]}* out) {{\n"
        "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  const {REGISTER[dtype]} x = a[i], y = b[i];\n"
        f"  const {REGISTER[to]} r = {expression(op, dtype, to)};\n"
        "  out[i] = r;\n}\n"
    )


def device_text(dtypes: Sequence[str]) -> str:
    """One module with every operation on some dtypes."""
    kernels = "".join(kernel(op, d, to) for d in dtypes for op, to in rows(d))
    return definitions(kernels) + kernels


def host_text(dtype: str) -> str:
    """The same expressions in loops."""
    parts: list[str] = []
    for op, to in rows(dtype):
        parts.append(
            f'extern "C" void {op}_{dtype}_{to}(const {MEMORY[dtype]}* a, '
            f"const {MEMORY[dtype]}* b, {MEMORY[to]}* out, long n) {{\n"
            "  for (long i = 0; i < n; ++i) {\n"
            f"    const {REGISTER[dtype]} x = a[i], y = b[i]; (void)y;\n"
            f"    const {REGISTER[to]} r = {expression(op, dtype, to)};\n"
            "    out[i] = r;\n  }\n}\n"
        )
    body = "".join(parts)
    return HOST_MATH + definitions(body) + body


class Host:
    """The operations on one dtype, compiled by the host's compiler."""

    def __init__(self, dtype: str, folder: Path) -> None:
        source, library = folder / f"{dtype}.cpp", folder / f"{dtype}.so"
        source.write_text(host_text(dtype))
        options = ["-O1", "-std=c++17", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Werror"]
        options += ["-Wno-unused-function", "-Wno-bool-compare", "-Wno-bool-operation"]
        subprocess.run(["c++", *options, "-o", library, source], check=True)
        self.library = ctypes.CDLL(str(library))
        self.dtype = dtype

    def __call__(self, op: str, to: str, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        a = np.ascontiguousarray(a, self.dtype)
        b = a if b is None else np.ascontiguousarray(b, self.dtype)
        out = np.empty(len(a), to)
        call = self.library[f"{op}_{self.dtype}_{to}"]
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)]
        call(*pointers, ctypes.c_long(len(a)))
        return out


# --- NVRTC


@functools.cache
def nvrtc() -> ctypes.CDLL | None:
    """The compiler, if the wheel is installed."""
    import importlib.util

    spec = importlib.util.find_spec("nvidia")
    places = [Path(p) for p in spec.submodule_search_locations or []] if spec else []
    found = [path for place in places for path in place.glob("cu*/lib/libnvrtc.so.*")]
    return ctypes.CDLL(str(found[0])) if found else None


def compiled(text: str, arch: str, what: str = "CUBIN") -> bytes:
    """What NVRTC makes of a text for an architecture: CUBIN or PTX."""
    lib, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    options = ["-std=c++17", f"-arch={arch}", "-default-device", "-fmad=false"]
    words = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    assert lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None) == 0
    failed = lib.nvrtcCompileProgram(program, len(options), words)
    kind = "ProgramLog" if failed else what
    getattr(lib, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    made = ctypes.create_string_buffer(size.value)
    getattr(lib, f"nvrtcGet{kind}")(program, made)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    assert not failed, made.value.decode()
    return made.raw

"""Compile the mathematics alone, and measure it in units of the last place."""

import ctypes
from collections.abc import Callable, Iterable

import numpy as np

from ftrace.cpu.mathematics.table import SPELLINGS
from ftrace.cpu.text import LLVM_TYPE, Host, Text, type_of

WIDER = {"f4": np.float64, "f8": np.longdouble}


def host(fma: bool = True) -> Host:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    wide = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    has = bool(features.get("fma")) or not llvm.get_process_triple().startswith("x86")
    return Host(wide, fma and has, wide == 64, llvm.get_host_cpu_name(), features.flatten())


def function(name: str, op: str, dtype: str, lanes: int, text: Text) -> str:
    """`void name(ptr a, ptr b, ptr out, i64 n)` over full vectors."""
    arity = 2 if op in ("pow", "atan2", "hypot") else 1
    kind, size = type_of(dtype, lanes), np.dtype(dtype).itemsize
    text.jump("head")
    text.label("head")
    text.line("%i = phi i64 [ 0, %entry ], [ %next, %last ]")
    args = []
    for pointer in "ab"[:arity]:
        text.line(f"%p{pointer} = getelementptr {LLVM_TYPE[dtype]}, ptr %{pointer}, i64 %i")
        args.append(text.let(f"load {kind}, ptr %p{pointer}, align {size}", dtype, lanes))
    value = SPELLINGS[op](text, *args)
    text.line(f"%po = getelementptr {LLVM_TYPE[dtype]}, ptr %out, i64 %i")
    text.line(f"store {kind} {value.name}, ptr %po, align {size}")
    text.jump("last")
    text.label("last")
    text.line(f"%next = add i64 %i, {lanes}")
    text.line("%more = icmp slt i64 %next, %n")
    text.line("br i1 %more, label %head, label %exit")
    text.label("exit")
    text.line("ret void")
    body = "\n".join(text.lines)
    return f"define void @{name}(ptr %a, ptr %b, ptr %out, i64 %n) {{\nentry:\n{body}\n}}\n"


class Compiled:
    """Functions of arrays by (op, dtype, lanes), all of one module."""

    def __init__(self, wanted: Iterable[tuple[str, str, int]], machine: Host) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        declarations: dict[str, str] = {}
        self.lines: dict[tuple[str, str, int], int] = {}
        parts = []
        for op, dtype, lanes in wanted:
            text = Text(machine, declarations)
            parts.append(function(f"{op}_{dtype}_{lanes}", op, dtype, lanes, text))
            self.lines[op, dtype, lanes] = len(text.lines) - 12
        self.source = "\n".join([*declarations.values(), *parts])
        module = llvm.parse_assembly(self.source)
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=machine.cpu, features=machine.features, opt=2, jit=True
        )
        self.engine = llvm.create_mcjit_compiler(module, target)
        self.engine.finalize_object()

    def __call__(self, op: str, dtype: str, lanes: int, *args: np.ndarray) -> np.ndarray:
        n = len(args[0])
        padded = [np.resize(a.astype(dtype), -(-n // lanes) * lanes) for a in args]
        out = np.empty_like(padded[0])
        self.raw(op, dtype, lanes)(*(a.ctypes.data for a in (padded[0], padded[-1], out)), len(out))
        return out[:n]

    def raw(self, op: str, dtype: str, lanes: int) -> Callable[..., None]:
        address = self.engine.get_function_address(f"{op}_{dtype}_{lanes}")
        kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64]
        return ctypes.CFUNCTYPE(None, *kinds)(address)


def error(got: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Distance from the true value, in units of the last place of the rounded true value."""
    dtype = got.dtype
    with np.errstate(all="ignore"):
        rounded = true.astype(dtype)
        unit = np.spacing(np.abs(rounded))
        largest = np.finfo(dtype).max
        unit = np.where(np.isfinite(unit), unit, np.spacing(largest)).astype(true.dtype)
        distance = np.abs(got.astype(true.dtype) - true) / unit
    exact = (got == rounded) & ~np.isfinite(got)
    exact |= np.isnan(got) & np.isnan(rounded)
    distance = np.where(exact, 0, distance)
    return np.where(np.isnan(distance), np.inf, distance).astype(np.float64)

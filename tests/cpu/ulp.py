"""Compile the mathematics alone, and measure it in units of the last place.

The truth is NumPy's function in the next wider type: float64 for float32, long double for float64
(where it is wider). `Compiled` holds functions of arrays, all of one module.
"""

import ctypes
from collections.abc import Callable, Iterable

import llvmlite.binding as llvm
import numpy as np
from scipy import special

from ftrace.cpu.llvm.text import LLVM_TYPE, Processor, Text, type_of
from ftrace.cpu.mathematics.functions_table import SPELLINGS
from ftrace.cpu.mathematics.libraries import pointers

WIDER = {"f4": np.float64, "f8": np.longdouble}
LANES = {"f4": 16, "f8": 8}
BINARY = ("pow", "atan2", "hypot")


def host(fma: bool) -> Processor:
    features = llvm.get_host_cpu_features()
    wide = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    has = features.get("fma") or not llvm.get_process_triple().startswith("x86")
    return Processor(
        wide, fma and bool(has), wide == 64, llvm.get_host_cpu_name(), features.flatten()
    )


def written(name: str, op: str, dtype: str, lanes: int, text: Text) -> str:
    """`void name(ptr a, ptr b, ptr out, i64 n)` over full vectors."""
    kind, size = type_of(dtype, lanes), np.dtype(dtype).itemsize
    text.jump("head")
    text.label("head")
    text.line("%i = phi i64 [ 0, %entry ], [ %next, %last ]")
    args = []
    for pointer in "ab" if op in BINARY else "a":
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
    """Functions of arrays by (op, dtype, lanes)."""

    def __init__(self, wanted: Iterable[tuple[str, str, int]], machine: Processor) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        for name, address in pointers().items():
            llvm.add_symbol(name, address)
        self.declarations: dict[str, str] = {}
        self.lines: dict[tuple[str, str, int], int] = {}
        parts: list[str] = []
        for op, dtype, lanes in wanted:
            text = Text(machine, self.declarations)
            parts.append(written(f"{op}_{dtype}_{lanes}", op, dtype, lanes, text))
            self.lines[op, dtype, lanes] = len(text.lines) - (14 if op in BINARY else 12)
        module = llvm.parse_assembly("\n".join([*self.declarations.values(), *parts]))
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
    """Distance from the true value, in units of the last place of the true value rounded.

    Infinite where one is NaN and the other is not, or where an infinity or a zero's sign is wrong.
    """
    dtype = got.dtype
    with np.errstate(all="ignore"):
        rounded = true.astype(dtype)
        unit = np.spacing(np.abs(rounded))
        unit = np.where(np.isfinite(unit), unit, np.spacing(np.finfo(dtype).max))
        distance = np.abs(got.astype(true.dtype) - true) / unit.astype(true.dtype)
    alike = (got == rounded) & ~np.isfinite(got) | np.isnan(got) & np.isnan(rounded)
    distance = np.where(alike, 0, distance)
    signs = (got == 0) & (true == 0) & (np.signbit(got) != np.signbit(true))
    return np.where(np.isnan(distance) | signs, np.inf, distance).astype(np.float64)


# --- the truth


def _logistic(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def _erf_series(x):
    """2/sqrt(pi) e**(-x**2) sum of 2**n x**(2n+1) / (2n+1)!!, for |x| <= 3."""
    term = total = x
    for n in range(1, 90):
        term = term * (2 * x * x / (2 * n + 1))
        total = total + term
    return total * np.exp(-x * x) * (2 / np.sqrt(np.arctan(x.dtype.type(1)) * 4))


def _erfc_fraction(x):
    """e**(-x**2) / sqrt(pi) / (x + (1/2) / (x + 1 / (x + ...))), for x >= 2."""
    below = x
    for k in range(120, 0, -1):
        below = x + x.dtype.type(k) / 2 / below
    short = x.astype(np.float32).astype(x.dtype)  # its square is exact
    power = np.exp(-short * short) * np.exp(-(x - short) * (x + short))
    return power / (np.sqrt(np.arctan(x.dtype.type(1)) * 4) * below)


def _erf(x):
    if x.dtype == np.float64:
        return special.erf(x)
    inner = _erf_series(np.clip(x, -3, 3))
    outer = np.copysign(1 - _erfc_fraction(np.clip(np.abs(x), 2, 30)), x)
    return np.where(np.isnan(x), x, np.where(np.abs(x) < 2, inner, outer))


def _erfc(x):
    if x.dtype == np.float64:
        return special.erfc(x)
    size = np.abs(x)
    outer = _erfc_fraction(np.clip(size, 2, 120))
    outer = np.where(x < 0, 2 - outer, outer)
    return np.where(np.isnan(x), x, np.where(size < 2, 1 - _erf_series(np.clip(x, -3, 3)), outer))


TRUTH = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logistic": _logistic,
    "erf": _erf,
    "erfc": _erfc,
}


def true_values(op: str, dtype: str, *args: np.ndarray) -> np.ndarray:
    """The function in the wider type."""
    with np.errstate(all="ignore"):
        return np.asarray(TRUTH[op](*(a.astype(WIDER[dtype]) for a in args)))


# --- inputs


def special_values(dtype: str) -> np.ndarray:
    """Zeros, ones, the ends of the format and their neighbours, both signs, NaN."""
    info = np.finfo(dtype)
    some = [0, 0.5, 1, 2, 3, 10, 1e5, 2.0**25, 2.0**54, np.inf]
    some += [info.max, info.tiny, info.smallest_subnormal, np.nan]
    values = np.array(some, dtype)
    values = np.concatenate([values, -values])
    with np.errstate(all="ignore"):
        up, down = (np.nextafter(values, np.array(to, dtype)) for to in (np.inf, -np.inf))
    return np.concatenate([values, up, down])


def samples(dtype: str, count: int, seed: int) -> np.ndarray:
    """Bit patterns of every kind, ranges where functions change, multiples of pi/2, specials."""
    rng = np.random.default_rng(seed)
    share = count // 16
    word = np.uint32 if dtype == "f4" else np.uint64
    patterns = rng.integers(0, np.iinfo(word).max, 2 * share, word, endpoint=True).view(dtype)
    ranges = (0.1, 0.5, 1, 2, 6, 30, 110, 750, 1e5, 1e8)
    uniform = [rng.uniform(-top, top, share).astype(dtype) for top in ranges]
    near_one = (1 + rng.uniform(-0.05, 0.05, share)).astype(dtype)
    steep = np.exp(rng.uniform(-40, 40, share)) * rng.choice([-1, 1], share)
    turns = rng.integers(-(2**18), 2**18, share) * (np.pi / 2)
    parts = [patterns, *uniform, near_one, steep.astype(dtype), turns.astype(dtype)]
    return np.concatenate([*parts, special_values(dtype)])


def pairs(op: str, dtype: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands of pow, atan2 and hypot: all pairs of specials, patterns, and ranges of interest."""
    rng = np.random.default_rng(seed)
    share = count // 6
    fixed = special_values(dtype)[:28]
    x = [np.repeat(fixed, len(fixed)), rng.permutation(samples(dtype, share, seed))]
    y = [np.tile(fixed, len(fixed)), rng.permutation(samples(dtype, share, seed))]
    whole = rng.integers(-60, 60, share)
    x += [rng.uniform(-5, 5, share).astype(dtype)]
    y += [whole.astype(dtype) if op == "pow" else rng.uniform(-5, 5, share).astype(dtype)]
    for spread in (60.0, 1e-3):
        base = np.exp(rng.uniform(-spread, spread, share)).astype(dtype)
        limit = 88 if dtype == "f4" else 709
        with np.errstate(divide="ignore"):
            power = limit * rng.uniform(-1.06, 1.06, share) / np.log(base.astype("f8"))
        x += [base]
        y += [(power if op == "pow" else base * rng.uniform(0.1, 10, share)).astype(dtype)]
    return np.concatenate(x), np.concatenate(y)

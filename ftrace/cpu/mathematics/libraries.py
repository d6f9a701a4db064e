"""Functions applied one lane at a time: SciPy's, through their pointers, and rare slow paths.

`per_lane` writes a call of a helper function of the module, which takes and returns a vector and
calls a scalar function for every lane. The scalar function is either written in text too (far.py)
or an external symbol `scipy_<op>_<dtype>`, whose address `pointers()` knows: SciPy exports its
special functions to C through `scipy.special.cython_special`. Whoever compiles the module binds
the symbols that begin with PREFIX. SciPy is imported when an address is first asked for.
"""

import ctypes
import importlib
from collections.abc import Callable, Mapping
from typing import Final

from ftrace.core.errors import BackendError
from ftrace.core.lazy import once
from ftrace.cpu.llvm.text import LLVM_TYPE, Text, Typed, type_of

PREFIX: Final = "scipy_"
# op -> name in cython_special; its functions take a second argument that they ignore
SCIPY: Final = {
    "lgamma": "gammaln",
    "gamma": "gamma",
    "digamma": "psi",
    "erf_inv": "erfinv",
    "ndtri": "ndtri",
    "log_ndtr": "log_ndtr",
    "i0": "i0",
    "i1": "i1",
    "i0e": "i0e",
    "i1e": "i1e",
}
SINGLE: Final = frozenset({"erf_inv"})  # those with a float version; the others round a double
UNROLLED: Final = 4


def per_lane(text: Text, name: str, x: Typed, *, rest: str = "", cold: bool = False) -> Typed:
    """`name(x)` lane by lane; `name` is a function of the module, declared or defined already.

    Args:
        text: what the call is appended to.
        name: of a scalar function of the type of x.
        x: operand.
        rest: further constant arguments of the scalar function, as text.
        cold: whether calls are rare, so that registers are not saved for their sake elsewhere.
    """
    scalar = LLVM_TYPE[x.dtype]
    mark = " cold" if cold else ""
    if x.lanes == 1:
        return text.let(f"call {scalar} @{name}({scalar} {x.name}{rest}){mark}", x.dtype, 1)
    helper = f"lanes_{name}_{x.lanes}"
    body = _unrolled if x.lanes <= UNROLLED else _looped
    kind = type_of(x.dtype, x.lanes)
    head = f"define internal {kind} @{helper}({kind} %x) noinline{mark} {{\nentry:\n"
    if helper not in text.declarations:
        text.declare(helper, head + body(x, f"@{name}", rest) + "}\n")
    return text.let(f"call {kind} @{helper}({kind} {x.name}){mark}", x.dtype, x.lanes)


def _unrolled(x: Typed, name: str, rest: str) -> str:
    scalar, kind = LLVM_TYPE[x.dtype], type_of(x.dtype, x.lanes)
    lines, so_far = [], "poison"
    for i in range(x.lanes):
        lines.append(f"  %x{i} = extractelement {kind} %x, i64 {i}")
        lines.append(f"  %y{i} = call {scalar} {name}({scalar} %x{i}{rest})")
        lines.append(f"  %v{i} = insertelement {kind} {so_far}, {scalar} %y{i}, i64 {i}")
        so_far = f"%v{i}"
    return "\n".join([*lines, f"  ret {kind} {so_far}", ""])


def _looped(x: Typed, name: str, rest: str) -> str:
    scalar, kind = LLVM_TYPE[x.dtype], type_of(x.dtype, x.lanes)
    return f"""  %at = alloca {kind}
  store {kind} %x, ptr %at
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr {scalar}, ptr %at, i64 %i
  %a = load {scalar}, ptr %p
  %b = call {scalar} {name}({scalar} %a{rest})
  store {scalar} %b, ptr %p
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {x.lanes}
  br i1 %more, label %loop, label %done
done:
  %y = load {kind}, ptr %at
  ret {kind} %y
"""


def where_any(text: Text, mask: Typed, usual: Typed, rare: Callable[[], Typed]) -> Typed:
    """`rare()` where mask, else usual; what `rare` writes is skipped where no lane needs it."""
    before, then, after = text.block, text.fresh("rare"), text.fresh("join")
    text.branch(text.any(mask), then, after)
    text.label(then)
    value = text.select(mask, rare(), usual)
    end = text.block
    text.jump(after)
    text.label(after)
    return text.phi(usual.dtype, usual.lanes, [(usual, before), (value, end)])


def library_call(op: str) -> Callable[[Text, Typed], Typed]:
    """The spelling of an op that SciPy computes."""

    def spelling(text: Text, x: Typed) -> Typed:
        dtype = x.dtype if x.dtype == "f8" or op in SINGLE else "f8"
        name, scalar = f"{PREFIX}{op}_{dtype}", LLVM_TYPE[dtype]
        text.declare(name, f"declare {scalar} @{name}({scalar}, i32)")
        wide = x if x.dtype == dtype else text.convert("fpext", x, dtype)
        value = per_lane(text, name, wide, rest=", i32 0")
        return value if x.dtype == dtype else text.convert("fptrunc", value, x.dtype)

    return spelling


@once
def pointers() -> dict[str, int]:
    """Addresses by symbol, of every function of SCIPY.

    Raises:
        BackendError: this SciPy does not export one of them.
    """
    exported = importlib.import_module("scipy.special.cython_special").__pyx_capi__
    found: dict[str, int] = {}
    for op, name in SCIPY.items():
        found[f"{PREFIX}{op}_f8"] = _address(exported, name, "double")
        if op in SINGLE:
            found[f"{PREFIX}{op}_f4"] = _address(exported, name, "float")
    return found


def _address(exported: Mapping[str, object], name: str, scalar: str) -> int:
    for candidate in (name, *(f"__pyx_fuse_{i}{name}" for i in range(4))):
        signature, address = capsule(exported, candidate)
        if signature.startswith(f"{scalar} ({scalar}, int "):
            return address
    raise BackendError(
        f"scipy.special.cython_special exports no {name} of {scalar}, which compiled code calls. "
        "ftrace supports SciPy 1.13 and newer. Update SciPy, or call the function outside jit."
    )


def capsule(exported: Mapping[str, object], name: str) -> tuple[str, int]:
    """The signature and the address of a C function that a Cython module exports; "" for none."""
    found = exported.get(name)
    if found is None:
        return "", 0
    names = ctypes.pythonapi.PyCapsule_GetName
    names.restype, names.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature: bytes = names(found)
    return signature.decode(), int(pointer(found, signature))

"""NumPy's sorting, called by pointer as if it were a loop of a gufunc.

Each dtype has functions in a table of NumPy's public C interface: `int sort(void *, npy_intp n,
void *)`, which sorts in place, and `int argsort(void *, npy_intp *, npy_intp n, void *)`. A loop of
several operands sorts them by the first. Functions want contiguous memory: the text here goes over
the batch, copies a line, has it sorted, and puts it where it belongs.
"""

import ctypes
import importlib
from typing import Any, Final

import numpy as np

from ftrace.core.lazy import once
from ftrace.lowering.machine import InnerLoop

SORTS: Final = {"sort": 0, "stable_sort": 2}  # by name of the loop: NPY_QUICKSORT, NPY_STABLESORT
VERSION: Final = 0x02000000  # of the binary interface that this was written for
_GET_FUNCTIONS: Final = 365  # PyDataType_GetArrFuncs, in the table of the interface
_SORT: Final = 33  # the first of three functions in PyArray_ArrFuncs; then those of argsort
_API: Final = ("PyGILState_Ensure", "PyErr_NoMemory", "PyGILState_Release")


def address(loop: InnerLoop) -> int:
    """Where the function is that a loop calls; 0 for none."""
    given = loop.types.split("->")[0]
    if loop.name not in SORTS or not _works():
        return 0
    found = _functions(np.dtype(given[0]))
    return found[_SORT + SORTS[loop.name] + (3 if len(given) > 1 else 0)] or 0


def symbols() -> dict[str, int]:
    """What the text takes from Python."""
    api = ctypes.pythonapi
    return {n: ctypes.cast(getattr(api, n), ctypes.c_void_p).value or 0 for n in _API}


def _functions(dtype: np.dtype[Any]) -> Any:
    """The table of a dtype."""
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(_interface()[_GET_FUNCTIONS])
    return ctypes.cast(get(dtype), ctypes.POINTER(ctypes.c_void_p))


@once
def _interface() -> Any:
    """NumPy's C interface: a table of addresses."""
    capsule = importlib.import_module("numpy._core._multiarray_umath")._ARRAY_API
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, None)
    return ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))


@once
def _works() -> bool:
    """Whether the interface is the one that we know, and sorts."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if ctypes.PYFUNCTYPE(ctypes.c_uint)(_interface()[0])() != VERSION:
        return False
    functions, pointer = _functions(np.dtype(np.float64)), ctypes.c_void_p
    line, order = np.array([2.0, np.nan, 1.0]), np.arange(3)
    argsort = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, ctypes.c_int64, pointer)
    argsort(functions[_SORT + 5])(line.ctypes.data, order.ctypes.data, 3, None)
    sort = ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_int64, pointer)
    sort(functions[_SORT + 2])(line.ctypes.data, 3, None)
    return order.tolist() == [2, 0, 1] and line[:2].tolist() == [1.0, 2.0]


def text(name: str, types: str) -> str:
    """The loop as LLVM text: `void (ptr args, ptr dims, ptr steps, ptr function)`."""
    sizes = [np.dtype(c).itemsize for c in types.split("->")[0]]
    m = len(sizes)
    lines = [
        f"define internal void {name}(ptr %args, ptr %dims, ptr %steps, ptr %sort) noinline {{"
    ]
    lines += ["entry:", *_word("count", "dims", 0), *_word("n", "dims", 1)]
    for k in range(2 * m):
        lines += [*_word(f"far{k}", "steps", k), *_word(f"step{k}", "steps", 2 * m + k)]
        lines += _word(f"base{k}", "args", k, "ptr")
    lines += [
        f"  %bytes = mul i64 %n, {sizes[0]}",
        "  %all = add i64 %bytes, 16",
        "  %line = call ptr @malloc(i64 %all)",
        "  %words = mul i64 %n, 8",
        "  %more = add i64 %words, 16",
        f"  %order = call ptr @malloc(i64 {'%more' if m > 1 else '16'})",
        "  %none = icmp eq ptr %line, null",
        "  %nothing = icmp eq ptr %order, null",
        "  %lost = or i1 %none, %nothing",
        "  br i1 %lost, label %failed, label %next",
        "next:",
        "  %turn = phi i64 [ 0, %entry ], [ %after, %end ]",
        "  %goes = icmp slt i64 %turn, %count",
        "  br i1 %goes, label %run, label %done",
        "run:",
    ]
    for k in range(2 * m):
        lines.append(f"  %away{k} = mul i64 %turn, %far{k}")
        lines.append(f"  %at{k} = getelementptr i8, ptr %base{k}, i64 %away{k}")
    lines += _copies(
        "fill",
        "run",
        sizes[0],
        ("%at0", "%step0"),
        ("%line", str(sizes[0])),
        "written" if m > 1 else "",
    )
    lines += ["filled:"]
    if m == 1:
        lines.append("  %code = call i32 %sort(ptr %line, i64 %n, ptr null)")
    else:
        lines.append("  %code = call i32 %sort(ptr %line, ptr %order, i64 %n, ptr null)")
    lines += ["  %bad = icmp slt i32 %code, 0", "  br i1 %bad, label %failed, label %put0", "put0:"]
    for k in range(m):
        source = ("%line", str(sizes[0])) if m == 1 else (f"%at{k}", f"%step{k}")
        target = (f"%at{m + k}", f"%step{m + k}")
        lines += _copies(f"out{k}", f"put{k}", sizes[k], source, target, "read" if m > 1 else "")
        lines.append(f"out{k}ed:")
        if k + 1 < m:
            lines += [f"  br label %put{k + 1}", f"put{k + 1}:"]
    return "\n".join([*lines, _ENDING])


def _word(name: str, table: str, at: int, kind: str = "i64") -> list[str]:
    return [
        f"  %{name}_p = getelementptr i64, ptr %{table}, i64 {at}",
        f"  %{name} = load {kind}, ptr %{name}_p, align 8",
    ]


def _copies(
    name: str,
    before: str,
    size: int,
    source: tuple[str, str],
    target: tuple[str, str],
    order: str = "",
) -> list[str]:
    """A loop over a line that copies elements, from (address, step) to another.

    Args:
        name, before: of the loop and the block in front of it; it goes on at `<name>ed`.
        size: bytes of an element.
        source, target: addresses and steps.
        order: whether it also counts in %order ("written"), or takes elements from where that
            says ("read").
    """
    kind, align = f"i{8 * size}", min(size, 8)
    i, p = f"%{name}_i", name
    lines = [
        f"  br label %{p}",
        f"{p}:",
        f"  {i} = phi i64 [ 0, %{before} ], [ %{p}_next, %{p}_body ]",
        f"  %{p}_more = icmp slt i64 {i}, %n",
        f"  br i1 %{p}_more, label %{p}_body, label %{p}ed",
        f"{p}_body:",
    ]
    place = i
    if order:
        lines.append(f"  %{p}_o = getelementptr i64, ptr %order, i64 {i}")
    if order == "written":
        lines.append(f"  store i64 {i}, ptr %{p}_o, align 8")
    if order == "read":
        lines.append(f"  %{p}_from = load i64, ptr %{p}_o, align 8")
        place = f"%{p}_from"
    return [
        *lines,
        f"  %{p}_s = mul i64 {place}, {source[1]}",
        f"  %{p}_sp = getelementptr i8, ptr {source[0]}, i64 %{p}_s",
        f"  %{p}_t = mul i64 {i}, {target[1]}",
        f"  %{p}_tp = getelementptr i8, ptr {target[0]}, i64 %{p}_t",
        f"  %{p}_v = load {kind}, ptr %{p}_sp, align {align}",
        f"  store {kind} %{p}_v, ptr %{p}_tp, align {align}",
        f"  %{p}_next = add i64 {i}, 1",
        f"  br label %{p}",
    ]


_ENDING: Final = """  br label %end
end:
  %after = add i64 %turn, 1
  br label %next
failed:
  %state = call i32 @PyGILState_Ensure()
  %error = call ptr @PyErr_NoMemory()
  call void @PyGILState_Release(i32 %state)
  br label %done
done:
  call void @free(ptr %line)
  call void @free(ptr %order)
  ret void
}"""

DECLARATIONS: Final = {
    "malloc": "declare ptr @malloc(i64)",
    "free": "declare void @free(ptr)",
    "PyGILState_Ensure": "declare i32 @PyGILState_Ensure()",
    "PyErr_NoMemory": "declare ptr @PyErr_NoMemory()",
    "PyGILState_Release": "declare void @PyGILState_Release(i32)",
}

"""Loops of BLAS and LAPACK routines over stacks of matrices, in the form of a gufunc's loops.

NumPy has no loops for triangular systems and inverses; its libraries have the routines. A loop here
is compiled once for a routine, a dtype and a way to call it, and is called as NumPy's are. It takes
matrices that lie densely by rows, which is how programs keep them. Where NumPy's library is hidden
there are no loops, and the rows are evaluated by Python.
"""

import functools
from typing import Final

from ftrace.core.lazy import MAKING
from ftrace.cpu.llvm.machine_code import Module, compile_module, host
from ftrace.cpu.runtime import blas

MODULE: Final = "blas"  # what stands for a module of NumPy's in the name of a loop
_LETTERS: Final = {"f": "s", "d": "d", "F": "c", "D": "z"}
_BYTES: Final = {"f": 4, "d": 8, "F": 8, "D": 16}
_ONE: Final = {"f": "float 1.0", "d": "double 1.0"}
_CBLAS: Final = {
    **{"L": 141, "R": 142},  # sides
    **{"lower": 122, "upper": 121},
    **{"N": 111, "T": 112, "C": 113},
    **{"any": 131, "unit": 132},
}


@functools.cache
def address(name: str, types: str) -> int:
    """Where a loop is; 0 where this process has none.

    Args:
        name: `trsm:` or `trmm:` and side (L, R), triangle (L, U), operation (N, T, C), unit
            diagonal (U, N); or `trtri:` and triangle.
        types: as of a ufunc's loop.
    """
    found = _loop(name, types[0])
    return 0 if found is None else found.address("loop")


@functools.cache
def _loop(name: str, char: str) -> Module | None:
    routine, _, code = name.partition(":")
    library = blas.library()
    called = 0 if library is None else library.routine(_LETTERS[char] + routine, routine != "trtri")
    if not called:
        return None
    text = _inverse_text(code, char) if routine == "trtri" else _system_text(code, char)
    with MAKING:
        return compile_module(text, {"routine": called}, host())


def _entry(arguments: int) -> str:
    """Loads what a loop is told, and begins it: base addresses, steps of the stack, sizes."""
    lines = ["define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {", "entry:"]
    for k in range(3):
        lines += [
            f"  %d{k}_at = getelementptr i64, ptr %dims, i64 {k}",
            f"  %d{k} = load i64, ptr %d{k}_at" if k < arguments else "",
        ]
    for k in range(arguments):
        lines += [
            f"  %p{k}_at = getelementptr ptr, ptr %args, i64 {k}",
            f"  %p{k} = load ptr, ptr %p{k}_at",
            f"  %s{k}_at = getelementptr i64, ptr %steps, i64 {k}",
            f"  %s{k} = load i64, ptr %s{k}_at",
        ]
    return "\n".join(lines)


def _turn(arguments: int) -> str:
    """The head of the loop: the addresses in this turn."""
    lines = [
        "  br label %next",
        "next:",
        "  %t = phi i64 [ 0, %start ], [ %after, %turned ]",
        "  %more = icmp slt i64 %t, %d0",
        "  br i1 %more, label %run, label %done",
        "run:",
    ]
    for k in range(arguments):
        lines += [
            f"  %far{k} = mul i64 %t, %s{k}",
            f"  %a{k} = getelementptr i8, ptr %p{k}, i64 %far{k}",
        ]
    return "\n".join(lines)


_END: Final = """  br label %turned
turned:
  %after = add i64 %t, 1
  br label %next
done:
  ret void
}"""


def _system_text(code: str, char: str) -> str:
    """The right-hand side is copied to the result, where the routine works on it."""
    side, triangle, operation, unit = code
    rows, columns = ("%d1", "%d2") if side == "L" else ("%d2", "%d1")
    codes = (
        101,
        _CBLAS[side],
        _CBLAS["lower" if triangle == "L" else "upper"],
        _CBLAS[operation],
        _CBLAS["unit" if unit == "U" else "any"],
    )
    one = _ONE.get(char, "ptr @one")
    scalar = "float" if char in "fF" else "double"
    kind = scalar if char in _ONE else "ptr"
    given = ", ".join(f"i32 {c}" for c in codes)
    return f"""
@one = private constant [2 x {scalar}] [{scalar} 1.0, {scalar} 0.0]
declare void @routine(i32, i32, i32, i32, i32, i64, i64, {kind}, ptr, i64, ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)
{_entry(3)}
  %elements = mul i64 %d1, %d2
  %bytes = mul i64 %elements, {_BYTES[char]}
  %some = icmp ne i64 %elements, 0
  br i1 %some, label %start, label %done
start:
{_turn(3)}
  %copied = call ptr @memcpy(ptr %a2, ptr %a1, i64 %bytes)
  call void @routine({given}, i64 {rows}, i64 {columns}, {one}, ptr %a0, i64 %d1, ptr %a2,
    i64 {columns})
{_END}"""


def _inverse_text(code: str, char: str) -> str:
    """One triangle is copied, to which LAPACK, that counts by columns, gives the other name."""
    lower = code == "L"
    name = "U" if lower else "L"
    kept, zeros = ("%upto", "%rest") if lower else ("%rest", "%before")
    first, blank = ("0", "%upto") if lower else ("%before", "0")
    return f"""
declare void @routine(ptr, ptr, ptr, ptr, ptr, ptr)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
{_entry(2)}
  %uplo = alloca i8
  %diag = alloca i8
  %n = alloca i64
  %info = alloca i64
  store i8 {ord(name)}, ptr %uplo
  store i8 {ord("N")}, ptr %diag
  store i64 %d1, ptr %n
  %width = mul i64 %d1, {_BYTES[char]}
  %bytes = mul i64 %width, %d1
  %some = icmp ne i64 %d1, 0
  br i1 %some, label %start, label %done
start:
{_turn(2)}
  br label %row
row:
  %i = phi i64 [ 0, %run ], [ %below, %row ]
  %below = add i64 %i, 1
  %above = mul i64 %i, %width
  %from = getelementptr i8, ptr %a0, i64 %above
  %to = getelementptr i8, ptr %a1, i64 %above
  %before = mul i64 %i, {_BYTES[char]}
  %upto = mul i64 %below, {_BYTES[char]}
  %rest = sub i64 %width, {"%upto" if lower else "%before"}
  %first_from = getelementptr i8, ptr %from, i64 {first}
  %first_to = getelementptr i8, ptr %to, i64 {first}
  %blank_to = getelementptr i8, ptr %to, i64 {blank}
  %copied = call ptr @memcpy(ptr %first_to, ptr %first_from, i64 {kept})
  %blank = call ptr @memset(ptr %blank_to, i32 0, i64 {zeros})
  %last = icmp eq i64 %below, %d1
  br i1 %last, label %whole, label %row
whole:
  store i64 0, ptr %info
  call void @routine(ptr %uplo, ptr %diag, ptr %n, ptr %a1, ptr %n, ptr %info)
  %told = load i32, ptr %info
  %bad = icmp ne i32 %told, 0
  br i1 %bad, label %refused, label %turned_now
refused:
  %nan = call ptr @memset(ptr %a1, i32 255, i64 %bytes)
  br label %turned_now
turned_now:
{_END}"""

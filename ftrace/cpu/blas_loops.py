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
_CALLED: Final = {"getrs": "trsm"}
_OF_CBLAS: Final = frozenset({"trsm", "trmm"})
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
            diagonal (U, N); `trtri:` and triangle; `getrf:`; or `getrs:` and operation (N, T).
        types: as of a ufunc's loop.
    """
    found = _loop(name, types[0])
    return 0 if found is None else found.address("loop")


@functools.cache
def _loop(name: str, char: str) -> Module | None:
    routine, _, code = name.partition(":")
    library = blas.library()
    called = _CALLED.get(routine, routine)  # a solution by factors is two triangular systems
    found = 0 if library is None else library.routine(_LETTERS[char] + called, called in _OF_CBLAS)
    if library is None or not found:
        return None
    match routine:
        case "trtri":
            text = _inverse_text(code, char)
        case "getrf":
            text = _factors_text(char, narrow=library.longest == blas.SHORT)
        case "getrs":
            text = _solution_text(code == "T", char)
        case _:
            text = _system_text(code, char)
    with MAKING:
        return compile_module(text, {"routine": found}, host())


def _entry(sizes: int, arguments: int) -> str:
    """Loads what a loop is told, and begins it: sizes, base addresses, steps of the stack."""
    lines = ["define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) {", "entry:"]
    for k in range(sizes):
        lines += [
            f"  %d{k}_at = getelementptr i64, ptr %dims, i64 {k}",
            f"  %d{k} = load i64, ptr %d{k}_at",
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
_TOLD: Final = """  %told = load i32, ptr %info
  %bad = icmp ne i32 %told, 0
  br i1 %bad, label %refused, label %turned_now
refused:
  %nan = call ptr @memset(ptr %a1, i32 255, i64 %bytes)
  br label %turned_now
turned_now:"""  # what LAPACK refused is NaN


def _triangular_call(char: str, codes: tuple[int, ...], shape: str, arrays: str) -> str:
    """A call of CBLAS for a triangular matrix, of rows that lie one after the other."""
    one = _ONE.get(char, "ptr @one")
    given = ", ".join(f"i32 {c}" for c in codes)
    return f"  call void @routine({given}, {shape}, {one}, {arrays})"


def _declared(char: str) -> str:
    """What such a call needs."""
    scalar = "float" if char in "fF" else "double"
    kind = scalar if char in _ONE else "ptr"
    return f"""
@one = private constant [2 x {scalar}] [{scalar} 1.0, {scalar} 0.0]
declare void @routine(i32, i32, i32, i32, i32, i64, i64, {kind}, ptr, i64, ptr, i64)
declare ptr @memcpy(ptr, ptr, i64)"""


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
    arrays = "ptr %a0, i64 %d1, ptr %a2, i64 " + columns
    return f"""{_declared(char)}
{_entry(3, 3)}
  %elements = mul i64 %d1, %d2
  %bytes = mul i64 %elements, {_BYTES[char]}
  %some = icmp ne i64 %elements, 0
  br i1 %some, label %start, label %done
start:
{_turn(3)}
  %copied = call ptr @memcpy(ptr %a2, ptr %a1, i64 %bytes)
{_triangular_call(char, codes, f"i64 {rows}, i64 {columns}", arrays)}
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
{_entry(2, 2)}
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
{_TOLD}
{_END}"""


def _factors_text(char: str, *, narrow: bool) -> str:
    """LAPACK counts by columns, and gets the matrix turned, as from NumPy; pivots are widened."""
    word = f"i{8 * _BYTES[char]}"
    return f"""
declare void @routine(ptr, ptr, ptr, ptr, ptr, ptr)
declare ptr @memset(ptr, i32, i64)
{_entry(2, 3)}
  %n = alloca i64
  %info = alloca i64
  store i64 %d1, ptr %n
  %count = mul i64 %d1, %d1
  %bytes = mul i64 %count, {_BYTES[char]}
  %some = icmp ne i64 %d1, 0
  br i1 %some, label %start, label %done
start:
{_turn(3)}
  br label %row
row:
  %i = phi i64 [ 0, %run ], [ %below, %rowed ]
  %below = add i64 %i, 1
  %first = mul i64 %i, %d1
  br label %element
element:
  %j = phi i64 [ 0, %row ], [ %right, %element ]
  %right = add i64 %j, 1
  %from = add i64 %first, %j
  %down = mul i64 %j, %d1
  %to = add i64 %down, %i
  %from_at = getelementptr {word}, ptr %a0, i64 %from
  %to_at = getelementptr {word}, ptr %a1, i64 %to
  %value = load {word}, ptr %from_at, align 4
  store {word} %value, ptr %to_at, align 4
  %end = icmp eq i64 %right, %d1
  br i1 %end, label %rowed, label %element
rowed:
  %last = icmp eq i64 %below, %d1
  br i1 %last, label %whole, label %row
whole:
  store i64 0, ptr %info
  call void @routine(ptr %n, ptr %n, ptr %a1, ptr %n, ptr %a2, ptr %info)
  br i1 {"true" if narrow else "false"}, label %widen, label %checked
widen:
  %k = phi i64 [ %d1, %whole ], [ %k_next, %widen ]
  %k_next = sub i64 %k, 1
  %short_at = getelementptr i32, ptr %a2, i64 %k_next
  %long_at = getelementptr i64, ptr %a2, i64 %k_next
  %short = load i32, ptr %short_at, align 4
  %long = sext i32 %short to i64
  store i64 %long, ptr %long_at
  %widened = icmp eq i64 %k_next, 0
  br i1 %widened, label %checked, label %widen
checked:
{_TOLD}
{_END}"""


def _solution_text(transposed: bool, char: str) -> str:
    """Rows are exchanged before two triangular systems, or after them in reverse.

    By rows, the factors are transposed: the lower factor with its unit diagonal lies above.
    """
    lower, upper, unit, any_ = (_CBLAS[x] for x in ("lower", "upper", "unit", "any"))
    plain, turned, left = (_CBLAS[x] for x in ("N", "T", "L"))
    arrays, shape = "ptr %a0, i64 %d1, ptr %a3, i64 %d2", "i64 %d1, i64 %d2"
    order = [(101, left, upper, turned, unit), (101, left, lower, turned, any_)]
    if transposed:
        order = [(101, left, lower, plain, any_), (101, left, upper, plain, unit)]
    systems = "\n".join(_triangular_call(char, codes, shape, arrays) for codes in order)
    behind = (
        {"exchange": "turned_now", "systems": "exchange_first"}
        if transposed
        else {"exchange": "systems", "systems": "turned_now"}
    )
    return f"""{_declared(char)}
{_entry(3, 4)}
  %elements = mul i64 %d1, %d2
  %bytes = mul i64 %elements, {_BYTES[char]}
  %words = mul i64 %d2, {_BYTES[char] // 4}
  %some = icmp ne i64 %elements, 0
  br i1 %some, label %start, label %done
start:
{_turn(4)}
  %copied = call ptr @memcpy(ptr %a3, ptr %a2, i64 %bytes)
  br label %{"systems" if transposed else "exchange_first"}
systems:
{systems}
  br label %{behind["systems"]}
{_exchange_text(transposed, behind["exchange"])}
turned_now:
{_END}"""


def _exchange_text(backwards: bool, behind: str) -> str:
    """Each row of the result changes places with its pivot, one after the other."""
    return f"""exchange_first:
  br label %exchange
exchange:
  %i = phi i64 [ 0, %exchange_first ], [ %i_next, %exchanged ]
  %i_next = add i64 %i, 1
  %back = sub i64 %d1, %i_next
  %row = select i1 {"true" if backwards else "false"}, i64 %back, i64 %i
  %pivot_at = getelementptr i64, ptr %a1, i64 %row
  %pivot_one = load i64, ptr %pivot_at
  %pivot = sub i64 %pivot_one, 1
  %one_offset = mul i64 %row, %words
  %other_offset = mul i64 %pivot, %words
  %one_row = getelementptr i32, ptr %a3, i64 %one_offset
  %other_row = getelementptr i32, ptr %a3, i64 %other_offset
  %same = icmp eq i64 %pivot, %row
  br i1 %same, label %exchanged, label %word
word:
  %w = phi i64 [ 0, %exchange ], [ %w_next, %word ]
  %w_next = add i64 %w, 1
  %one_at = getelementptr i32, ptr %one_row, i64 %w
  %other_at = getelementptr i32, ptr %other_row, i64 %w
  %one_word = load i32, ptr %one_at
  %other_word = load i32, ptr %other_at
  store i32 %other_word, ptr %one_at
  store i32 %one_word, ptr %other_at
  %all = icmp eq i64 %w_next, %words
  br i1 %all, label %exchanged, label %word
exchanged:
  %over = icmp eq i64 %i_next, %d1
  br i1 %over, label %{behind}, label %exchange"""

"""The text of a matrix product: a function that calls a library once for each member of a batch.

`product_<routine>_<dtype>(a, b, c, numbers, transposed a, transposed b)` reads sizes and steps from
`numbers`, in the order of `Contraction.numbers`. The libraries have one of two interfaces: CBLAS,
told that matrices are stored by rows, or Fortran's, which stores them by columns and takes
pointers: it computes the transposed product of the exchanged operands. Sizes are passed to CBLAS
in 64 bits in any case; functions that take 32 look at the lower half.
"""

from typing import Final

from ftrace.cpu.llvm.text import LLVM_TYPE

CBLAS: Final = "cblas"
FORTRAN: Final = "fortran"
PREFIX: Final = "blas_"
NUMBERS: Final = (
    "outer", "inner", "m", "n", "k", "lda", "ldb", "a_outer", "a_inner", "b_outer", "b_inner",
)  # fmt: skip


def product_name(dtype: str, *, vector: bool) -> str:
    """The name of the function."""
    return f"product_{'gemv' if vector else 'gemm'}_{dtype}"


def product_text(interface: str, dtype: str, *, vector: bool) -> str:
    """A declaration of the library's function, and ours."""
    scalar = LLVM_TYPE[dtype]
    routine = "gemv" if vector else "gemm"
    external = f"{PREFIX}{routine}_{dtype}"
    if interface == FORTRAN:
        types = ", ".join(["ptr"] * (11 if vector else 13))
        first = _FORTRAN_ENTRY.format(scalar=scalar)
        call = (_FORTRAN_VECTOR if vector else _FORTRAN_MATRIX).format(external=external)
    else:
        operand, result = f"ptr, i64, ptr, i64, {scalar}", "ptr, i64"
        codes = "i32, i32, i64, i64" if vector else "i32, i32, i32, i64, i64, i64"
        types = f"{codes}, {scalar}, {operand}, {result}"
        first = _C_ENTRY
        call = (_C_VECTOR if vector else _C_MATRIX).format(external=external, scalar=scalar)
    name = product_name(dtype, vector=vector)
    loads = "\n".join(
        f"  %{n}_at = getelementptr i64, ptr %numbers, i64 {i}\n  %{n} = load i64, ptr %{n}_at"
        for i, n in enumerate(NUMBERS)
    )
    body = _LOOP.format(name=name, scalar=scalar, loads=loads, first=first, call=call)
    return f"declare void @{external}({types})\n\n{body}"


_LOOP: Final = """
define internal void @{name}(ptr %a, ptr %b, ptr %c, ptr %numbers, i1 %ta, i1 %tb) noinline {{
entry:
{loads}
{first}
  %count = mul i64 %outer, %inner
  %area = mul i64 %m, %n
  br label %loop
loop:
  %t = phi i64 [ 0, %entry ], [ %next, %run ]
  %more = icmp ult i64 %t, %count
  br i1 %more, label %run, label %done
run:
  %i = udiv i64 %t, %inner
  %j = urem i64 %t, %inner
  %xi = mul i64 %i, %a_outer
  %xj = mul i64 %j, %a_inner
  %xd = add i64 %xi, %xj
  %yi = mul i64 %i, %b_outer
  %yj = mul i64 %j, %b_inner
  %yd = add i64 %yi, %yj
  %zd = mul i64 %t, %area
  %x = getelementptr {scalar}, ptr %a, i64 %xd
  %y = getelementptr {scalar}, ptr %b, i64 %yd
  %z = getelementptr {scalar}, ptr %c, i64 %zd
{call}
  %next = add i64 %t, 1
  br label %loop
done:
  ret void
}}
"""

# By rows is 101; as it is 111, transposed 112.
_C_ENTRY: Final = """  %rows = select i1 %ta, i64 %k, i64 %m
  %columns = select i1 %ta, i64 %m, i64 %k
  %how_a = select i1 %ta, i32 112, i32 111
  %how_b = select i1 %tb, i32 112, i32 111"""

_C_MATRIX: Final = """  call void @{external}(i32 101, i32 %how_a, i32 %how_b,
    i64 %m, i64 %n, i64 %k, {scalar} 1.0, ptr %x, i64 %lda, ptr %y, i64 %ldb,
    {scalar} 0.0, ptr %z, i64 %n)"""

_C_VECTOR: Final = """  call void @{external}(i32 101, i32 %how_a, i64 %rows, i64 %columns,
    {scalar} 1.0, ptr %x, i64 %lda, ptr %y, i64 %ldb, {scalar} 0.0, ptr %z, i64 1)"""

# What is stored by rows is the transposed matrix by columns: its columns are our rows.
_FORTRAN_ENTRY: Final = """  %rows = select i1 %ta, i64 %m, i64 %k
  %columns = select i1 %ta, i64 %k, i64 %m
  %how_a = select i1 %ta, i8 84, i8 78
  %how_b = select i1 %tb, i8 84, i8 78
  %how_v = select i1 %ta, i8 78, i8 84
  %p_how_a = alloca i8
  %p_how_b = alloca i8
  %p_how_v = alloca i8
  %p_m = alloca i64
  %p_n = alloca i64
  %p_k = alloca i64
  %p_rows = alloca i64
  %p_columns = alloca i64
  %p_lda = alloca i64
  %p_ldb = alloca i64
  %p_step = alloca i64
  %p_one = alloca {scalar}
  %p_zero = alloca {scalar}
  store i8 %how_a, ptr %p_how_a
  store i8 %how_b, ptr %p_how_b
  store i8 %how_v, ptr %p_how_v
  store i64 %m, ptr %p_m
  store i64 %n, ptr %p_n
  store i64 %k, ptr %p_k
  store i64 %rows, ptr %p_rows
  store i64 %columns, ptr %p_columns
  store i64 %lda, ptr %p_lda
  store i64 %ldb, ptr %p_ldb
  store i64 1, ptr %p_step
  store {scalar} 1.0, ptr %p_one
  store {scalar} 0.0, ptr %p_zero"""

_FORTRAN_MATRIX: Final = """  call void @{external}(ptr %p_how_b, ptr %p_how_a, ptr %p_n, ptr %p_m,
    ptr %p_k, ptr %p_one, ptr %y, ptr %p_ldb, ptr %x, ptr %p_lda, ptr %p_zero, ptr %z, ptr %p_n)"""

_FORTRAN_VECTOR: Final = """  call void @{external}(ptr %p_how_v, ptr %p_rows, ptr %p_columns,
    ptr %p_one, ptr %x, ptr %p_lda, ptr %y, ptr %p_ldb, ptr %p_zero, ptr %z, ptr %p_step)"""

"""`dot_general` on CuPy arrays: matrix products of cuBLAS on the operands as they lie.

cuBLAS multiplies matrices with unit steps along one axis, either of them transposed, and a batch
of such products at equal distances. What is no such product (integers, axes that do not lie as
one, negative steps) is left to CuPy, which copies operands.

Sums of float16 are float32, on tensor cores; products of float32 are those of float32, never of
the shorter TensorFloat-32. An inner product is no matrix product worth the name: CuPy has better.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.avals import aval
from ftrace.lowering.planning.contraction import Contraction, Dims, StridedArray, arranged
from ftrace.primitives.dot import dot_general

LONGEST: Final = 2**31 - 1
MOST: Final = 16  # calls for one product
KINDS: Final = "efdFD"


class Gemm(NamedTuple):
    """Products `C = op(A) op(B)` of matrices in column-major order, in elements.

    Attributes:
        transposed: whether A and B are to be transposed.
        sizes: m, n, k.
        leading: distances of columns in A, B and C.
        steps: distances of members of the batch in A, B and C.
        members: how many there are.
        calls: offsets in A, B and C where batches start.
    """

    transposed: tuple[bool, bool]
    sizes: tuple[int, int, int]
    leading: tuple[int, int, int]
    steps: tuple[int, int, int]
    members: int
    calls: tuple[tuple[int, int, int], ...]


def gemm_of(found: Contraction) -> Gemm | None:
    """A row-major product as cuBLAS takes it: its transpose, with the operands exchanged.

    None where a matrix overlaps itself, or too many calls would be needed.
    """
    outer, inner, m, n, k, lda, ldb, *steps = found.numbers
    across, along, b_across, b_along = steps
    widths = m if found.transposed[0] else k, k if found.transposed[1] else n
    if any(not w <= ld <= LONGEST for w, ld in zip(widths, (lda, ldb), strict=True)):
        return None
    if max(m, n, k, inner, outer) > LONGEST or m == n == 1:
        return None
    # where a loop runs over each of two axes, the longer one is cuBLAS's
    axes = [(inner, along, b_along, m * n), (outer, across, b_across, inner * m * n)]
    (members, *near), (calls, *far) = sorted(axes, key=lambda axis: axis[0], reverse=True)
    if calls > MOST:
        return None
    starts = tuple((i * far[1], i * far[0], i * far[2]) for i in range(calls))
    return Gemm(
        (found.transposed[1], found.transposed[0]),
        (n, m, k),
        (ldb, lda, n),
        (near[1], near[0], near[2]),
        members,
        starts,
    )


def dot(xp: Any, lhs: Any, rhs: Any, dimension_numbers: Any) -> Any:
    """The row."""
    lhs, rhs = (x if issubclass(type(x), xp.ndarray) else xp.asarray(x) for x in (lhs, rhs))
    left, right = ((x.dtype, x.shape, x.strides) for x in (lhs, rhs))
    found = _gemm(left, right, dimension_numbers)
    if found is None:
        return dot_general.impl(lhs, rhs, dimension_numbers)
    product, swapped, shape = found
    out = xp.empty(shape, lhs.dtype)
    _multiply(product, *((lhs, rhs) if swapped else (rhs, lhs)), out)
    return out


Lying = tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...]]  # dtype, sizes, steps in bytes


@lru_cache(maxsize=4096)
def _gemm(lhs: Lying, rhs: Lying, dims: Dims) -> tuple[Gemm, bool, tuple[int, ...]] | None:
    """The product of two arrays, whether the right one comes first, and the result's sizes."""
    if lhs[0] != rhs[0] or lhs[0].char not in KINDS:
        return None
    size = lhs[0].itemsize
    if any(step % size for _, _, steps in (lhs, rhs) for step in steps):
        return None
    arrays = (StridedArray(n, tuple(step // size for step in steps)) for _, n, steps in (lhs, rhs))
    found = arranged(dims, *arrays)
    if found is None:
        return None
    product = gemm_of(found)
    types = (aval(n, dtype) for dtype, n, _ in (lhs, rhs))
    shape = dot_general.type(*types, dimension_numbers=dims).shape
    return None if product is None else (product, found.swapped, shape)


@cache
def _scalars(char: str) -> tuple[Any, Any]:
    """One and zero for cuBLAS, in host memory."""
    dtype = np.float32 if char == "e" else np.dtype(char)
    return np.ones(1, dtype), np.zeros(1, dtype)


_TYPES: Final = {  # cudaDataType, cublasComputeType_t
    "e": (2, 68),
    "f": (0, 68),
    "d": (1, 70),
    "F": (4, 68),
    "D": (5, 70),
}
_DEFAULT: Final = -1  # cublasGemmAlgo_t


@cache
def cublas() -> tuple[Any, Callable[[], int]]:
    """CuPy's binding, and what gives the handle of the current device."""
    binding = import_module("cupy_backends.cuda.libs.cublas")
    return binding, import_module("cupy.cuda.device").get_cublas_handle


def _multiply(product: Gemm, a: Any, b: Any, out: Any) -> None:
    """Multiply by cuBLAS, on CuPy's current stream."""
    binding, handle_of = cublas()
    handle = handle_of()
    kind, compute = _TYPES[out.dtype.char]
    one, zero = (x.ctypes.data for x in _scalars(out.dtype.char))
    turn_a, turn_b = product.transposed
    lda, ldb, ldc = product.leading
    step_a, step_b, step_c = product.steps
    size = out.dtype.itemsize
    for starts in product.calls:
        at_a, at_b, at_c = (
            x.data.ptr + size * start for x, start in zip((a, b, out), starts, strict=True)
        )
        head = (handle, int(turn_a), int(turn_b), *product.sizes, one)
        if product.members == 1:
            binding.gemmEx(
                *(*head, at_a, kind, lda, at_b, kind, ldb, zero, at_c, kind, ldc),
                *(compute, _DEFAULT),
            )
        else:
            binding.gemmStridedBatchedEx(
                *(*head, at_a, kind, lda, step_a, at_b, kind, ldb, step_b),
                *(zero, at_c, kind, ldc, step_c, product.members, compute, _DEFAULT),
            )

"""Products for a library: `dot_general` as matrix products in memory as it lies.

BLAS multiplies matrices whose rows are contiguous, either of them transposed. So the axes of an
operand must form two blocks, one free and one contracted, of which one has step 1; axes that lie
behind each other in all arrays count as one, and axes of size 1 as none. Batch axes are loops
around the product. What does not fit is left to NumPy, which copies operands. small_products.py
takes what is better done by kernels.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, NamedTuple

from ftrace.core.avals import ShapedArray
from ftrace.core.jaxpr import Eqn

LOOPS: Final = 2  # batch axes at most, after merging
Axes = tuple[tuple[int, ...], tuple[int, ...]]
Dims = tuple[Axes, Axes]
DTYPES: Final = {"f": "f4", "d": "f8"}


class StridedArray(NamedTuple):
    """An array as it lies in memory: its sizes, and the steps of its axes in elements."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]


class MatrixBlock(NamedTuple):
    """Merged axes: their size, and the distance of neighbours in each array, in elements."""

    size: int
    steps: tuple[int, ...]


class Contraction(NamedTuple):
    """A product `out[m, n] = lhs[m, k] @ rhs[k, n]`, for each member of a batch.

    Attributes:
        swapped: whether the operands are exchanged: `rhs` of the equation comes first.
        vector: whether the second operand is a vector; `n` is 1 then.
        transposed: whether each operand is stored as its transpose.
        numbers: outer, inner (sizes of the batch), m, n, k, the leading dimensions of both
            operands (of a vector the step), then the outer and inner steps of each operand.
    """

    swapped: bool
    vector: bool
    transposed: tuple[bool, bool]
    numbers: tuple[int, ...]


def contraction(eqn: Eqn, dims: Dims, longest: int) -> Contraction | None:
    """A product as the library takes it; None where it does not.

    Args:
        eqn: a product.
        dims: its axes, as `Product.dims` gives them.
        longest: the largest size that the library knows; 0 where there is none.
    """
    lhs, rhs = (a.aval for a in eqn.invars)
    out = eqn.outvars[0].aval
    same = lhs.dtype == rhs.dtype == out.dtype
    if not same or out.dtype.char not in DTYPES:
        return None
    found = arranged(dims, _row_major(lhs), _row_major(rhs))
    return found if found is not None and max(found.numbers) <= longest else None


def _row_major(a: ShapedArray) -> StridedArray:
    return StridedArray(a.shape, tuple(prod(a.shape[p + 1 :]) for p in range(a.ndim)))


def arranged(dims: Dims, lhs: StridedArray, rhs: StridedArray) -> Contraction | None:
    """The product of two arrays as they lie; None where it is none of matrices with unit steps.

    Args:
        dims: the axes, as `Product.dims` gives them.
        lhs, rhs: the operands.
    """
    if not all((*lhs.shape, *rhs.shape)):
        return None
    (lc, rc), (lb, rb) = dims
    batch = _merged((lhs, rhs), zip(lb, rb, strict=True))
    inner = _merged((lhs, rhs), sorted(zip(lc, rc, strict=True)))
    rows = _merged((lhs,), ((i,) for i in range(len(lhs.shape)) if i not in (*lc, *lb)))
    columns = _merged((rhs,), ((i,) for i in range(len(rhs.shape)) if i not in (*rc, *rb)))
    if len(batch) > LOOPS or max(map(len, (inner, rows, columns))) > 1:
        return None
    return _of_blocks(batch, _only(inner, 2), _only(rows, 1), _only(columns, 1))


def _merged(arrays: Sequence[StridedArray], axes: Iterable[tuple[int, ...]]) -> list[MatrixBlock]:
    """Axes (their positions in each array) as few blocks, outermost first."""
    found: list[MatrixBlock] = []
    for places in axes:
        size = arrays[0].shape[places[0]]
        steps = tuple(a.steps[p] for a, p in zip(arrays, places, strict=True))
        if size == 1:
            continue
        if found and found[-1].steps == tuple(size * s for s in steps):
            found[-1] = MatrixBlock(found[-1].size * size, steps)
        else:
            found.append(MatrixBlock(size, steps))
    return found


def _only(blocks: list[MatrixBlock], arrays: int) -> MatrixBlock:
    return blocks[0] if blocks else MatrixBlock(1, (1,) * arrays)


def _of_blocks(
    batch: list[MatrixBlock], inner: MatrixBlock, rows: MatrixBlock, columns: MatrixBlock
) -> Contraction | None:
    """The product of two matrices, or of a matrix and a vector."""
    k = inner.size
    members = prod(b.size for b in batch)
    vector = rows.size == 1 or columns.size == 1
    swapped = vector and columns.size != 1
    if vector and rows.size == columns.size and members > 1:
        return None  # many inner products: not a loop over calls
    first, second = (1, 0) if swapped else (0, 1)
    m, n = (columns, rows) if swapped else (rows, columns)
    left = _stored((m.size, m.steps[0]), (k, inner.steps[first]))
    right = (False, inner.steps[second])
    if not vector:
        right = _stored((k, inner.steps[1]), (n.size, n.steps[0]))
    if left is None or right is None:
        return None
    loops = [MatrixBlock(1, (0, 0))] * (LOOPS - len(batch)) + batch
    sizes = (*(b.size for b in loops), m.size, n.size, k, left[1], right[1])
    steps = (b.steps[i] for i in (first, second) for b in loops)
    return Contraction(swapped, vector, (left[0], right[0]), (*sizes, *steps))


def _stored(rows: tuple[int, int], columns: tuple[int, int]) -> tuple[bool, int] | None:
    """Whether a matrix, (size, step) of both axes, is stored transposed, and its long step.

    An axis of size 1 has step 1.
    """
    if columns[1] == 1:
        return False, rows[1] if rows[0] > 1 else columns[0]
    if rows[1] == 1:
        return True, columns[1]
    return None

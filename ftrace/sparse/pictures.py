"""Pictures of matrices by their structure: where they have elements, as text.

A dot stands for a block of rows and columns, and is set where the block has an element. What is
small is looked at by its values, what is large by its structure alone: a factor's blocks are
multiplied as the factors are, so that a dot may be set where the elements of a product cancel.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ftrace.api.calls import brief
from ftrace.core.errors import DtypeError
from ftrace.sparse.linear_maps import (
    DenseMap,
    KroneckerMap,
    ProductMap,
    StructuredMap,
    SumMap,
    ZeroMap,
    as_csr,
)

_SMALL: Final = 1 << 20  # elements of a matrix whose values are looked at
_FINE: Final = 256  # blocks of what lies between two factors
_BRAILLE: Final = 0x2800
_DOTS: Final = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def drawn(a: StructuredMap, width: int) -> str:
    """A matrix as text: two columns of dots, and four rows, to a character.

    Raises:
        DtypeError: width is no positive integer.
    """
    if not issubclass(type(width), int | np.integer) or issubclass(type(width), bool) or width < 1:
        raise DtypeError(
            f"width of draw must be a positive integer, not {brief(width)}.",
            "It is the most characters of a line: draw(40).",
        )
    m, n = a.shape
    columns = min(n, 2 * int(width))
    rows = min(m, max(1, round(columns * m / n))) if n else m
    rows = min(rows, 4 * int(width))
    dots = _by_values(a, rows, columns) if m * n <= _SMALL else occupied(a, rows, columns)
    padded = np.zeros((-(-rows // 4) * 4, -(-columns // 2) * 2), bool)
    padded[:rows, :columns] = dots
    cells = padded.reshape(padded.shape[0] // 4, 4, padded.shape[1] // 2, 2)
    codes = _BRAILLE + np.einsum("arbs,rs->ab", cells.astype(int), _DOTS)
    lines = ["".join(map(chr, line)) for line in codes]
    edge = "─" * codes.shape[1]
    return "\n".join([repr(a), f"┌{edge}┐", *(f"│{line}│" for line in lines), f"└{edge}┘"])


def _by_values(a: StructuredMap, rows: int, columns: int) -> Any:
    i, j = np.nonzero(a.toarray())
    return _set(i, j, a.shape, rows, columns)


def _set(i: Any, j: Any, shape: tuple[int, int], rows: int, columns: int) -> Any:
    """The blocks with elements at these places."""
    found = np.zeros((rows, columns), bool)
    found[i * rows // max(shape[0], 1), j * columns // max(shape[1], 1)] = True
    return found


def occupied(a: StructuredMap, rows: int, columns: int) -> Any:
    """Which of rows x columns blocks may have elements, by the structure of a matrix."""
    if isinstance(a, ZeroMap):
        return np.zeros((rows, columns), bool)
    if isinstance(a, SumMap):
        return np.any([occupied(t, rows, columns) for t in a.terms], axis=0)
    if isinstance(a, ProductMap):
        found, left = None, rows
        for k, factor in enumerate(a.factors):
            last = k == len(a.factors) - 1
            right = columns if last else min(factor.shape[1], _FINE)
            part = occupied(factor, left, right)
            found = part if found is None else found @ part
            left = right
        return found
    if isinstance(a, KroneckerMap):
        p, q = a.left.shape
        outer = occupied(a.left, min(p, max(rows, _FINE)), min(q, max(columns, _FINE)))
        over = _meeting(rows, a.shape[0], outer.shape[0], p)
        under = _meeting(columns, a.shape[1], outer.shape[1], q)
        return over @ outer @ under.T
    if isinstance(a, DenseMap):
        i, j = np.nonzero(a.matrix)
        return _set(i, j, a.shape, rows, columns)
    few = as_csr(a)
    if few is None:
        return np.ones((rows, columns), bool)
    coo = few.tocoo()
    return _set(coo.row.astype(int), coo.col.astype(int), a.shape, rows, columns)


def _meeting(rows: int, m: int, blocks: int, p: int) -> Any:
    """Which blocks of m rows meet which blocks of p left ones, each of which is m / p rows.

    Block k has the rows r with `r * blocks // p == k`, so that a left row may lie in several of the
    blocks of m.
    """
    if not m:
        return np.zeros((rows, blocks), bool)
    first = -(-np.arange(blocks + 1) * p // blocks) * (m // p)  # row where each block begins
    low, high = first[:-1] * rows // m, (first[1:] - 1) * rows // m
    i = np.arange(rows)[:, None]
    return (low <= i) & (i <= high)

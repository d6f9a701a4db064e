"""Colouring of patterns: which columns, or rows, of a Jacobian can be computed in one pass.

Columns that share no row get one colour: one directional derivative for all of them shows each
element by itself. Of a symmetric matrix an element may also be read at its mirror place, which
needs fewer colours (star colouring); of a matrix with a few full rows these are computed by reverse
mode. (Gebremedhin, Manne and Pothen, What Color Is Your Jacobian?, SIAM Review 47, 2005;
star colouring: algorithm 4.1 of Gebremedhin, Tarafdar, Manne and Pothen, SIAM J. Sci. Comput. 29,
2007.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

NONE: Final = -1
DENSE_ROWS: Final = (0, 1, 2, 4, 8, 16, 32)  # rows that are tried apart


@dataclass(frozen=True, slots=True)
class Colouring:
    """Colours of columns and rows, and where each element is read.

    Attributes:
        columns: colour of each column; -1: no element is read from it.
        rows: colour of each row, likewise.
        by_rows: for each element of the pattern, in its CSR order, whether its row's pass has it.
        mirrored: whether it is read at the mirror place, of a symmetric matrix.
    """

    columns: Any
    rows: Any
    by_rows: Any
    mirrored: Any

    @property
    def forward(self) -> int:
        """Passes of forward mode."""
        return int(self.columns.max(initial=NONE)) + 1

    @property
    def reverse(self) -> int:
        """Passes of reverse mode."""
        return int(self.rows.max(initial=NONE)) + 1


def coloured(pattern: Any, mode: str) -> Colouring:
    """A colouring of a pattern.

    Args:
        pattern: a boolean `scipy.sparse.csr_array` of shape (m, n), without duplicates.
        mode: "forward": of columns; "reverse": of rows; "auto": the one with fewer passes, or some
            rows and the columns of the rest; "symmetric": a star colouring.
    """
    if mode == "symmetric":
        return _symmetric(pattern)
    if mode == "forward":
        return _apart(pattern, 0)
    if mode == "reverse":
        return _rows(pattern)
    found = [_rows(pattern), *(_apart(pattern, n) for n in DENSE_ROWS if n <= pattern.shape[0])]
    return min(found, key=lambda c: (c.forward + c.reverse, c.reverse))


def _apart(pattern: Any, count: int) -> Colouring:
    """Columns coloured where the fullest rows are left out; these rows coloured by themselves."""
    sizes = np.diff(pattern.indptr)
    full = np.zeros(pattern.shape[0], bool)
    full[np.argsort(-sizes, kind="stable")[:count]] = True
    by_rows = np.repeat(full, sizes)
    rest, fullest = _part(pattern, ~by_rows), _part(pattern, by_rows)
    return Colouring(
        _greedy(rest), _greedy(fullest.T.tocsr()), by_rows, np.zeros(pattern.nnz, bool)
    )


def _rows(pattern: Any) -> Colouring:
    nowhere = np.full(pattern.shape[1], NONE)
    by_rows = np.ones(pattern.nnz, bool)
    return Colouring(nowhere, _greedy(pattern.T.tocsr()), by_rows, np.zeros(pattern.nnz, bool))


def _part(pattern: Any, chosen: Any) -> Any:
    """The elements of a pattern that are chosen."""
    coo = pattern.tocoo()
    made = type(pattern)(
        (np.ones(int(chosen.sum()), bool), (coo.row[chosen], coo.col[chosen])), shape=pattern.shape
    )
    made.sum_duplicates()
    return made


def _greedy(pattern: Any) -> Any:
    """Colours of columns so that no two of a colour share a row: the better of two orders.

    From the first column to the last, as grids and bands like it, and the one with the most
    conflicts first.
    """
    by_column = pattern.tocsc()
    rows, starts = by_column.indices, by_column.indptr
    cells, begins = pattern.indices, pattern.indptr
    used = np.flatnonzero(np.diff(starts))
    near = [
        np.concatenate([cells[begins[i] : begins[i + 1]] for i in rows[starts[j] : starts[j + 1]]])
        for j in used
    ]
    best: Any = None
    for order in (range(used.size), np.argsort([-n.size for n in near], kind="stable")):
        colours = np.full(pattern.shape[1], NONE)
        for k in order:
            colours[used[k]] = _least(colours[near[k]])
        if best is None or colours.max(initial=NONE) < best.max(initial=NONE):
            best = colours
    return best


def _least(taken: Any) -> int:
    """The least colour that is not taken."""
    free = np.ones(taken.size + 1, bool)
    free[taken[(taken >= 0) & (taken <= taken.size)]] = False
    return int(np.argmax(free))


def _symmetric(pattern: Any) -> Colouring:
    """A star colouring: the best of two orders and two ways to look ahead."""
    n = pattern.shape[0]
    near = [
        pattern.indices[a:b].tolist()
        for a, b in zip(pattern.indptr, pattern.indptr[1:], strict=False)
    ]
    used = [v for v, each in enumerate(near) if each]
    near = [[w for w in each if w != v] for v, each in enumerate(near)]
    orders = used, sorted(used, key=lambda v: -len(near[v]))
    ways = [(order, ahead) for ahead in (True, False) for order in orders]
    colours = min((_star(near, *way) for way in ways), key=lambda c: c.max(initial=NONE))
    return Colouring(
        colours, np.full(n, NONE), np.zeros(pattern.nnz, bool), _mirrored(pattern, colours)
    )


def _star(near: Sequence[Sequence[int]], order: Iterable[int], ahead: bool) -> Any:
    """Neighbours differ, and every path of four vertices has three colours.

    Args:
        near: the neighbours of each vertex.
        order: in which vertices are coloured.
        ahead: whether two neighbours of a vertex without a colour differ, so that it is free to
            take any; else it forbids what their colours demand when its turn comes.
    """
    colours = [NONE] * len(near)
    for v in order:
        around = [colours[w] for w in near[v]]
        taken = set(around) - {NONE}
        for w in near[v]:
            own = colours[w]
            all_of_it = ahead if own == NONE else around.count(own) > 1
            for x in near[w]:
                if x == v or colours[x] == NONE:
                    continue
                inner = own != NONE and any(y != w and colours[y] == own for y in near[x])
                if all_of_it or inner:
                    taken.add(colours[x])
        colours[v] = next(c for c in range(len(taken) + 1) if c not in taken)
    return np.array(colours, np.int64).reshape(len(near))


def _mirrored(pattern: Any, colours: Any) -> Any:
    """Which elements share their row with another column of their colour."""
    coo = pattern.tocoo()
    key = coo.row.astype(np.int64) * (int(colours.max(initial=0)) + 1) + colours[coo.col]
    _, numbers, counts = np.unique(key, return_inverse=True, return_counts=True)
    return counts[numbers] > 1

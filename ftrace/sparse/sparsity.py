"""Where the elements of a sparse matrix are: its static part, shared by all matrices alike.

A pattern is known by the content of its index arrays, of which it keeps copies: writing into a
SciPy matrix makes another pattern, and never changes what was traced.
"""

import hashlib
from functools import cached_property
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np


class Pattern:
    """Rows and columns of elements, in the order of a format.

    Args:
        form: "csr", "csc" or "coo".
        family: "array" or "matrix": which of SciPy's classes it belongs to.
        shape: of the matrix.
        indices: column (CSR) or row (CSC) of each element, rows of COO.
        pointers: SciPy's `indptr`, columns of COO.
    """

    def __init__(
        self, form: str, family: str, shape: tuple[int, int], indices: Any, pointers: Any
    ) -> None:
        self.form, self.family, self.shape = form, family, shape
        self.indices, self.pointers = indices, pointers

    @property
    def nnz(self) -> int:
        """The number of elements."""
        return len(self.indices)

    @cached_property
    def rows(self) -> Any:
        """The row of each element."""
        return self.indices if self.form != "csr" else self._expanded()

    @cached_property
    def cols(self) -> Any:
        """The column of each element."""
        if self.form == "csr":
            return self.indices
        return self.pointers if self.form == "coo" else self._expanded()

    def _expanded(self) -> Any:
        return np.repeat(np.arange(len(self.pointers) - 1), np.diff(self.pointers))

    @cached_property
    def transposed(self) -> "Pattern":
        """Of the transposed matrix; elements stay in order."""
        shape = (self.shape[1], self.shape[0])
        if self.form == "coo":
            return pattern("coo", self.family, shape, self.pointers, self.indices)
        form = "csc" if self.form == "csr" else "csr"
        return pattern(form, self.family, shape, self.indices, self.pointers)

    def to(self, form: str, joined: bool = True) -> "tuple[Pattern, Any, int]":
        """The pattern in another format, and the number of each element in it.

        Args:
            form: "csr", "csc" or "coo".
            joined: whether elements of one place become one.
        """
        m, n = self.shape
        rows, cols = self.rows, self.cols
        if form == "coo":
            return pattern("coo", self.family, self.shape, rows, cols), np.arange(self.nnz), -1
        major, minor, size, width = (rows, cols, m, n) if form == "csr" else (cols, rows, n, m)
        key = major.astype(np.int64) * width + minor
        if joined:
            places, numbers = np.unique(key, return_inverse=True)
        else:
            order = np.argsort(key, kind="stable")
            places, numbers = key[order], np.empty_like(order)
            numbers[order] = np.arange(len(order))
        counts = np.bincount(places // width if width else places, minlength=size)
        pointers = np.concatenate([[0], np.cumsum(counts)])
        indices = places % width if width else places
        return pattern(form, self.family, self.shape, indices, pointers), numbers, len(places)

    def __reduce__(self) -> Any:
        return pattern, (self.form, self.family, self.shape, self.indices, self.pointers)

    def __repr__(self) -> str:
        return f"{self.form}_{self.family} of shape {self.shape} with {self.nnz} elements"


_known: Final["WeakValueDictionary[Any, Pattern]"] = WeakValueDictionary()


def pattern(form: str, family: str, shape: tuple[int, int], indices: Any, pointers: Any) -> Pattern:
    """The one pattern of this content."""
    arrays = [np.ascontiguousarray(a, np.int64) for a in (indices, pointers)]
    digest = hashlib.blake2b(digest_size=16)
    for a in arrays:
        digest.update(a.tobytes() + b"|")
    key = form, family, shape, digest.digest()
    found = _known.get(key)
    if found is None:
        copies = [a.copy() for a in arrays]
        for a in copies:
            a.flags.writeable = False
        found = _known.setdefault(key, Pattern(form, family, shape, *copies))
    return found


def pairs(a: Pattern, b: Pattern) -> tuple[Any, Any]:
    """Which elements of two CSR matrices meet in their product: numbers in `a`, numbers in `b`."""
    counts = np.diff(b.pointers)[a.cols]
    left = np.repeat(np.arange(a.nnz), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    return left, b.pointers[a.cols][left] + np.arange(len(left)) - first

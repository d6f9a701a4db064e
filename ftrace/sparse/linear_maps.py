"""Matrices by their structure: what a Jacobian is made of, and products in their best order.

A map has a shape, products with vectors and matrices from both sides, and the numbers that its
structure needs: none for a zero map, one for a multiple of the identity, a diagonal, one element of
each row, few elements (SciPy's CSR), two factors of a Kronecker product, a dense matrix, or an
operation of a program. `after` composes maps and keeps structure where it can; what it cannot join
stays a product, whose factors are multiplied in the cheapest order when someone asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from html import escape
from typing import Any, Final

import numpy as np

from ftrace.core.errors import HostMemoryError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.sparse.matrix_chains import multiplied, order_text

_csr = lazy("scipy.sparse", "csr_array")
_drawn = lazy("ftrace.sparse.pictures", "drawn")
_linear_operator = lazy("scipy.sparse.linalg", "LinearOperator")
FILL: Final = 16  # elements a row, on average, up to which products of sparse matrices are formed


class StructuredMap:
    """A matrix by its structure: `J @ v`, `J.T @ w`, `J.toarray()`, `J.kind`.

    Attributes:
        shape: (m, n).
        dtype: of its elements.
    """

    kind = "Operator"

    def __init__(self, shape: tuple[int, int], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)

    # --- what each structure says

    def matmat(self, x: Any) -> Any:
        """The product with a matrix of shape (n, k)."""
        raise NotImplementedError

    def transposed(self) -> StructuredMap:
        """The transpose."""
        raise NotImplementedError

    def scaled(self, c: Any) -> StructuredMap | None:
        """This times a number; None where that has no structure of its own."""
        return None

    def of(self, other: StructuredMap) -> StructuredMap | None:
        """This after another map; None where that has no structure of its own."""
        return None

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays that it holds."""
        return ()

    @property
    def work(self) -> int:
        """Multiplications of a product with one vector."""
        return sum(a.size for a in self.arrays)

    # --- what all have

    @property
    def factors(self) -> list[StructuredMap]:
        """What it is the product of."""
        return [self]

    @property
    def nbytes(self) -> int:
        """The memory that it holds."""
        return sum(a.nbytes for a in self.arrays)

    @property
    def T(self) -> StructuredMap:  # noqa: N802 - NumPy's name
        """The transpose."""
        return self.transposed()

    def toarray(self) -> Any:
        """The dense matrix.

        Raises:
            HostMemoryError: it does not fit.
        """
        m, n = self.shape
        try:
            return np.asarray(self.matmat(np.eye(n, dtype=self.dtype)), self.dtype)
        except MemoryError:
            raise HostMemoryError(
                f"The matrix of {self!r} has {m * n * self.dtype.itemsize / 2**30:.3g} GiB: more "
                "than there is.",
                "Use its products (`J @ v`, `J.T @ w`, J.as_linear_operator()).",
            ) from None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.toarray(), dtype)

    __array_ufunc__ = None  # NumPy's arrays leave products to us

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, StructuredMap):
            return after(self, other)
        x = np.asarray(other)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ShapeError(
                f"{self!r} cannot be multiplied with an array of shape {x.shape}.",
                f"Give shape ({self.shape[1]},) or ({self.shape[1]}, k).",
            )
        return self.matmat(x[:, None])[:, 0] if x.ndim == 1 else self.matmat(x)

    def __rmatmul__(self, other: Any) -> Any:
        return (self.T @ np.asarray(other).T).T

    def as_linear_operator(self) -> Any:
        """The same as a `scipy.sparse.linalg.LinearOperator`."""
        turned = self.T
        return _linear_operator(
            self.shape,
            matvec=lambda v: self @ np.reshape(v, -1),
            rmatvec=lambda v: turned @ np.reshape(v, -1),
            matmat=self.matmat,
            rmatmat=turned.matmat,
            dtype=self.dtype,
        )

    def draw(self, width: int = 40) -> str:
        """A picture as text: dots where there are elements, in lines of at most so many characters.

        What is large is drawn by its structure, without its values.

        Raises:
            DtypeError: width is no positive integer.

        Example:
            >>> import numpy as np, ftrace
            >>> print(ftrace.jacobian(np.sin, structured=True)(np.ones(8)).draw())
            <Diagonal 8 x 8, float64, 64 bytes>
            ┌────┐
            │⠑⢄⠀⠀│
            │⠀⠀⠑⢄│
            └────┘
        """
        return _drawn(self, width)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.1">{escape(self.draw())}</pre>'

    def __repr__(self) -> str:
        m, n = self.shape
        return f"<{self.kind} {m} x {n}, {self.dtype}, {self.nbytes:,} bytes>"


class ZeroMap(StructuredMap):
    """Nothing but zeros."""

    kind = "Zero"

    def matmat(self, x: Any) -> Any:
        """Zeros."""
        return np.zeros((self.shape[0], x.shape[1]), self.dtype)

    def transposed(self) -> StructuredMap:
        """Of the other shape."""
        return ZeroMap((self.shape[1], self.shape[0]), self.dtype)

    def scaled(self, c: Any) -> StructuredMap:
        """Zero as well."""
        return self


class IdentityMap(StructuredMap):
    """A number times the identity."""

    kind = "ScaledIdentity"

    def __init__(self, scale: Any, n: int, dtype: Any) -> None:
        super().__init__((n, n), dtype)
        self.scale = self.dtype.type(scale)

    def matmat(self, x: Any) -> Any:
        """A multiple."""
        return self.scale * x

    def transposed(self) -> StructuredMap:
        """Itself."""
        return self

    def scaled(self, c: Any) -> StructuredMap:
        """Another number times the identity."""
        return IdentityMap(self.scale * c, self.shape[0], self.dtype)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The number."""
        return (self.scale,)


class DiagonalMap(StructuredMap):
    """A diagonal."""

    kind = "Diagonal"

    def __init__(self, diagonal: Any) -> None:
        super().__init__((diagonal.size, diagonal.size), diagonal.dtype)
        self.diagonal = diagonal

    def matmat(self, x: Any) -> Any:
        """Each row times its number."""
        return self.diagonal[:, None] * x

    def transposed(self) -> StructuredMap:
        """Itself."""
        return self

    def of(self, other: StructuredMap) -> StructuredMap | None:
        """Another diagonal, or other elements."""
        if isinstance(other, DiagonalMap):
            return DiagonalMap(self.diagonal * other.diagonal)
        return other.times(self.diagonal) if isinstance(other, OneInRowMap) else None

    def scaled(self, c: Any) -> StructuredMap:
        """Another diagonal."""
        return DiagonalMap(self.diagonal * self.dtype.type(c))

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The diagonal."""
        return (self.diagonal,)


class OneInRowMap(StructuredMap):
    """At most one element in each row: what moves elements, and scales them.

    Attributes:
        columns: of the element of each row; -1 for none.
        values: the elements, or None where all are 1.
    """

    kind = "OneInRow"

    def __init__(self, columns: Any, values: Any, n: int, dtype: Any) -> None:
        super().__init__((columns.size, n), dtype)
        self.columns, self.values = np.maximum(columns, -1), values

    def matmat(self, x: Any) -> Any:
        """Rows of a matrix, moved."""
        if not x.shape[0]:
            return np.zeros((self.shape[0], x.shape[1]), self.dtype)
        found = np.where((self.columns < 0)[:, None], 0, x[self.columns])
        return found if self.values is None else self.values[:, None] * found

    def transposed(self) -> StructuredMap:
        """At most one in each column."""
        return FewMap(as_csr(self).T.tocsr())

    def of(self, other: StructuredMap) -> StructuredMap | None:
        """Rows of the other map, if that has one element in each, too."""
        if isinstance(other, DiagonalMap):
            columns, values = np.arange(other.shape[0]), other.diagonal
        elif isinstance(other, OneInRowMap) and other.shape[0]:
            columns, values = other.columns, other.values
        else:
            return None
        found = np.where(self.columns < 0, -1, columns[self.columns])
        dtype = np.result_type(self.dtype, other.dtype)
        made = OneInRowMap(found, None, other.shape[1], dtype)
        if values is not None:
            made = made.times(np.where(self.columns < 0, 0, values[self.columns]))
        if self.values is not None:
            made = made.times(self.values)
        return made

    def scaled(self, c: Any) -> StructuredMap:
        """With other elements."""
        return self.times(np.broadcast_to(self.dtype.type(c), self.columns.shape))

    def times(self, d: Any) -> OneInRowMap:
        """A diagonal matrix times this one."""
        values = np.array(d) if self.values is None else d * self.values
        return OneInRowMap(self.columns, values, self.shape[1], values.dtype)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Columns and elements."""
        return (self.columns,) if self.values is None else (self.columns, self.values)


class FewMap(StructuredMap):
    """Few elements, as `scipy.sparse.csr_array`: "Banded" where they are near the diagonal."""

    def __init__(self, matrix: Any) -> None:
        super().__init__(matrix.shape, matrix.dtype)
        self.matrix = matrix

    @property
    def kind(self) -> str:  # type: ignore[override]
        """What it is called."""
        low, high = self.band
        wide = (high - low + 1) * min(self.shape)
        return "Banded" if self.matrix.nnz and wide <= 2 * self.matrix.nnz else "Sparse"

    @property
    def band(self) -> tuple[int, int]:
        """The lowest and the highest diagonal with an element."""
        if not self.matrix.nnz:
            return 0, -1
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.matrix.indptr))
        offsets = self.matrix.indices.astype(np.int64) - rows
        return int(offsets.min()), int(offsets.max())

    def matmat(self, x: Any) -> Any:
        """SciPy's product."""
        return self.matrix @ x

    def transposed(self) -> StructuredMap:
        """The transpose in CSR."""
        return FewMap(self.matrix.T.tocsr())

    def scaled(self, c: Any) -> StructuredMap:
        """With other elements."""
        return FewMap(self.matrix * self.dtype.type(c))

    @property
    def arrays(self) -> tuple[Any, ...]:
        """SciPy's."""
        return (self.matrix.data, self.matrix.indices, self.matrix.indptr)


class DenseMap(StructuredMap):
    """A matrix as it is."""

    kind = "Dense"

    def __init__(self, matrix: Any) -> None:
        super().__init__(matrix.shape, matrix.dtype)
        self.matrix = matrix

    def matmat(self, x: Any) -> Any:
        """The product."""
        return self.matrix @ x

    def transposed(self) -> StructuredMap:
        """A view."""
        return DenseMap(self.matrix.T)

    def of(self, other: StructuredMap) -> StructuredMap | None:
        """One row is no larger for being multiplied."""
        if self.shape[0] == 1 and isinstance(other, DiagonalMap):
            return DenseMap(self.matrix * other.diagonal)
        return None

    def toarray(self) -> Any:
        """A copy of the matrix."""
        return np.array(self.matrix)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The matrix."""
        return (self.matrix,)


class KroneckerMap(StructuredMap):
    """The Kronecker product of two maps: the left one acts on rows, the right one on columns."""

    kind = "Kronecker"

    def __init__(self, left: StructuredMap, right: StructuredMap) -> None:
        shape = (left.shape[0] * right.shape[0], left.shape[1] * right.shape[1])
        super().__init__(shape, np.result_type(left.dtype, right.dtype))
        self.left, self.right = left, right

    def matmat(self, x: Any) -> Any:
        """Both products, one after the other."""
        (a, p), (b, q), k = self.left.shape, self.right.shape, x.shape[1]
        found = self.left.matmat(x.reshape(p, q * k)).reshape(a, q, k).transpose(1, 0, 2)
        found = self.right.matmat(found.reshape(q, a * k)).reshape(b, a, k)
        return found.transpose(1, 0, 2).reshape(a * b, k)

    def transposed(self) -> StructuredMap:
        """Of the transposes."""
        return KroneckerMap(self.left.T, self.right.T)

    def of(self, other: StructuredMap) -> StructuredMap | None:
        """Each side after the other's."""
        if isinstance(other, KroneckerMap) and self.left.shape[1] == other.left.shape[0]:
            return KroneckerMap(after(self.left, other.left), after(self.right, other.right))
        return None

    def scaled(self, c: Any) -> StructuredMap:
        """The left one scaled."""
        return KroneckerMap(
            after(IdentityMap(c, self.left.shape[0], self.dtype), self.left), self.right
        )

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Those of both."""
        return (*self.left.arrays, *self.right.arrays)

    @property
    def work(self) -> int:
        """Of one side for each row or column of the other."""
        return self.left.work * self.right.shape[1] + self.right.work * self.left.shape[0]


class AppliedMap(StructuredMap):
    """An operation of the program, applied and transposed as it is."""

    def __init__(
        self,
        shape: tuple[int, int],
        dtype: Any,
        push: Callable[[Any], Any],
        pull: Callable[[Any], Any],
    ) -> None:
        super().__init__(shape, dtype)
        self._push, self._pull = push, pull

    def matmat(self, x: Any) -> Any:
        """Column by column."""
        columns = [self._push(x[:, j]) for j in range(x.shape[1])]
        return np.stack(columns, 1) if columns else np.zeros((self.shape[0], 0), self.dtype)

    def transposed(self) -> StructuredMap:
        """The operation backwards."""
        return AppliedMap((self.shape[1], self.shape[0]), self.dtype, self._pull, self._push)

    @property
    def work(self) -> int:
        """Taken for dense."""
        return self.shape[0] * self.shape[1]


class ProductMap(StructuredMap):
    """A product that is not formed: "LowRank" where it goes through fewer numbers."""

    def __init__(self, factors: Sequence[StructuredMap]) -> None:
        shape = (factors[0].shape[0], factors[-1].shape[1])
        super().__init__(shape, np.result_type(*(f.dtype for f in factors)))
        self._factors = list(factors)

    @property
    def factors(self) -> list[StructuredMap]:
        """Its factors, from the left."""
        return self._factors

    @property
    def rank(self) -> int:
        """A bound of its rank: the narrowest place."""
        return min(*self.shape, *(f.shape[1] for f in self._factors))

    @property
    def kind(self) -> str:  # type: ignore[override]
        """What it is called."""
        return "LowRank" if self.rank < min(self.shape) else "Product"

    @property
    def order(self) -> str:
        """The order in which its factors are multiplied: `(A0 (A1 A2))`."""
        return order_text(self._factors)

    def matmat(self, x: Any) -> Any:
        """One factor after the other, or those first that make few numbers."""
        return multiplied([*self._factors, DenseMap(x)])

    def toarray(self) -> Any:
        """The dense matrix, in the best order."""
        return np.asarray(multiplied(self._factors), self.dtype)

    def transposed(self) -> StructuredMap:
        """The transposes in reverse order."""
        return ProductMap([f.T for f in reversed(self._factors)])

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Those of all factors."""
        return tuple(a for f in self._factors for a in f.arrays)


class SumMap(StructuredMap):
    """A sum that is not formed."""

    kind = "Sum"

    def __init__(self, terms: Sequence[StructuredMap]) -> None:
        super().__init__(terms[0].shape, np.result_type(*(t.dtype for t in terms)))
        self.terms = list(terms)

    def matmat(self, x: Any) -> Any:
        """The sum of products."""
        return reduce(np.add, [t.matmat(x) for t in self.terms])

    def transposed(self) -> StructuredMap:
        """Of the transposes."""
        return SumMap([t.T for t in self.terms])

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Those of all terms."""
        return tuple(a for t in self.terms for a in t.arrays)


def as_csr(a: StructuredMap) -> Any:
    """Few elements as SciPy's matrix; None for other maps."""
    if isinstance(a, FewMap):
        return a.matrix
    if isinstance(a, OneInRowMap):
        there = a.columns >= 0
        columns, values = a.columns[there], a.values
        values = np.ones(columns.size, a.dtype) if values is None else values[there]
        return _csr((values, columns, np.concatenate([[0], np.cumsum(there)])), shape=a.shape)
    if isinstance(a, DiagonalMap | IdentityMap):
        n = a.shape[0]
        d = a.diagonal if isinstance(a, DiagonalMap) else np.full(n, a.scale)
        return _csr((d, np.arange(n), np.arange(n + 1)), shape=a.shape)
    return None


def after(a: StructuredMap, b: StructuredMap) -> StructuredMap:
    """The product a b: first b, then a."""
    stack = list(a.factors)
    for factor in b.factors:
        made: StructuredMap = factor
        while stack:
            joined = _joined(stack[-1], made)
            if joined is None:
                break
            stack.pop()
            made = joined
        stack.append(made)
    return stack[0] if len(stack) == 1 else ProductMap(stack)


def _joined(a: StructuredMap, b: StructuredMap) -> StructuredMap | None:
    """The product of two maps, where it has a structure of its own."""
    if isinstance(a, ZeroMap) or isinstance(b, ZeroMap):
        return ZeroMap((a.shape[0], b.shape[1]), np.result_type(a.dtype, b.dtype))
    if isinstance(a, IdentityMap):
        return b if a.scale == 1 else b.scaled(a.scale)
    if isinstance(b, IdentityMap):
        return a if b.scale == 1 else a.scaled(b.scale)
    found = a.of(b)
    return _few(a, b) if found is None else found


def _few(a: StructuredMap, b: StructuredMap) -> StructuredMap | None:
    """The product of matrices with few elements, if it has few."""
    x, y = as_csr(a), as_csr(b)
    if x is None or y is None:
        return None
    found = x @ y
    return FewMap(found) if found.nnz <= FILL * max(found.shape) else None


def plus(a: StructuredMap, b: StructuredMap) -> StructuredMap:
    """The sum of two maps."""
    if isinstance(a, ZeroMap) or isinstance(b, ZeroMap):
        return b if isinstance(a, ZeroMap) else a
    if isinstance(a, IdentityMap) and isinstance(b, IdentityMap):
        return IdentityMap(a.scale + b.scale, a.shape[0], np.result_type(a.dtype, b.dtype))
    if isinstance(a, DenseMap) and isinstance(b, DenseMap):
        return DenseMap(a.matrix + b.matrix)
    if isinstance(a, DiagonalMap | IdentityMap) and isinstance(b, DiagonalMap | IdentityMap):
        one, other = (x.diagonal if isinstance(x, DiagonalMap) else x.scale for x in (a, b))
        return DiagonalMap(one + other)
    x, y = as_csr(a), as_csr(b)
    if x is None or y is None:
        return SumMap([*_terms(a), *_terms(b)])
    return FewMap((x + y).tocsr())


def _terms(a: StructuredMap) -> list[StructuredMap]:
    return a.terms if isinstance(a, SumMap) else [a]


def ones_at(rows: Any, columns: Any, shape: tuple[int, int], dtype: Any) -> Any:
    """The matrix with ones at these places, added where they are equal, in CSR."""
    return _csr((np.ones(rows.size, dtype), (rows, columns)), shape=shape)

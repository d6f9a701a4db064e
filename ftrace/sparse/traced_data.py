"""`Sparse`: a sparse matrix whose data may be traced; SciPy's matrices as containers of data."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.arguments import explained_methods
from ftrace.core.dtypes import canonical
from ftrace.core.errors import (
    DtypeError,
    RuleError,
    ShapeError,
    TracerArrayConversionError,
    TracerAttributeError,
)
from ftrace.core.lazy import lazy
from ftrace.core.nodes import GetAttrKey, NodeKind, register
from ftrace.core.trace import Tracer
from ftrace.numpy.promote import one_axis, static_int
from ftrace.numpy.refusing import refuse
from ftrace.numpy.scalar_classes import all_python
from ftrace.sparse.sparsity import Pattern, pairs, pattern

FORMS: Final = ("csr", "csc", "coo")
_scipys: Final = {
    f"{form}_{family}": lazy("scipy.sparse", f"{form}_{family}")
    for form in FORMS
    for family in ("array", "matrix")
}
_FIX: Final = "toarray() makes a dense array of it."


@explained_methods
class Sparse:
    """A sparse matrix whose data may be traced.

    What `scipy.sparse` matrices are inside of transformed functions. `A @ x`, `x @ A`, `A * s`,
    `A / s`, `-A`, sums and differences with matrices of the same pattern and with dense arrays,
    `multiply`, `power`, `sum`, `mean`, `trace`, `diagonal`, `toarray`, `T`, `astype` and
    conversions between CSR, CSC and COO are differentiable by data and operands.

    Args:
        data: shape (nnz,).
        places: where the elements are.

    Example:
        >>> import numpy as np, scipy.sparse, ftrace
        >>> A = scipy.sparse.csr_array(np.array([[2.0, 0.0], [1.0, 4.0]]))
        >>> x = np.array([1.0, 3.0])
        >>> ftrace.grad(lambda x: np.sum((A @ x) ** 2))(x)
        array([ 34., 104.])
        >>> ftrace.grad(lambda A: np.sum((A @ x) ** 2))(A).toarray()
        array([[ 4.,  0.],
               [26., 78.]])
    """

    __slots__ = ("data", "places")
    __array_ufunc__ = None  # operators of arrays ask this class
    __array_priority__ = 20.0
    __traced__ = True
    ndim = 2

    def __init__(self, data: Any, places: Pattern) -> None:
        self.data, self.places = data, places

    # ------------------------------------------------------------------------ what it is

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.places.shape

    @property
    def nnz(self) -> int:
        """The number of elements that are there."""
        return self.places.nnz

    @property
    def dtype(self) -> Any:
        """Of the data."""
        return self.data.dtype

    @property
    def format(self) -> str:
        """Its format: "csr", "csc" or "coo"."""
        return self.places.form

    @property
    def indices(self) -> Any:
        """Columns of CSR, rows of CSC."""
        return self._compressed("indices").indices

    @property
    def indptr(self) -> Any:
        """Where rows of CSR, columns of CSC begin."""
        return self._compressed("indptr").pointers

    @property
    def row(self) -> Any:
        """The row of each element."""
        return self.places.rows

    @property
    def col(self) -> Any:
        """The column of each element."""
        return self.places.cols

    def _compressed(self, name: str) -> Pattern:
        if self.places.form == "coo":
            raise AttributeError(f"a matrix in COO format has no {name!r}")
        return self.places

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise TracerAttributeError(f"A sparse matrix with traced data has no {name!r}.", _FIX)

    def __repr__(self) -> str:
        return f"Sparse<{self.places!r}, data={self.data!r}>"

    def __len__(self) -> int:
        raise TypeError("sparse array length is ambiguous; use A.nnz or A.shape[0]")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TracerArrayConversionError(
            f"A plain array was asked of {self!r}: SciPy's and NumPy's functions know sparse "
            "matrices of plain data.",
            "Use its operators and methods, ftrace.implicit.spsolve, cg, gmres or bicgstab, or "
            "toarray().",
        )

    def __getitem__(self, index: Any) -> Any:
        raise RuleError("A sparse matrix with traced data has no items.", _FIX)

    # ------------------------------------------------------------------------ products

    def __matmul__(self, x: Any) -> Any:
        return self._times_sparse(x) if is_sparse(x) else self._times(fnp.asarray(x))

    def __rmatmul__(self, x: Any) -> Any:
        if is_sparse(x):
            return as_sparse(x) @ self
        x = fnp.asarray(x)
        found = self.T._times(x.T)
        return found if found.ndim == 1 else found.T

    dot = matvec = __matmul__

    def rmatvec(self, x: Any) -> Any:
        """The adjoint matrix times a vector."""
        return self.conjugate().T @ x

    def _times(self, x: Any) -> Any:
        m, n = self.shape
        if x.ndim not in (1, 2) or x.shape[0] != n:
            raise ShapeError(
                f"A sparse matrix of shape {self.shape} times an array of shape {x.shape}.",
                f"It multiplies vectors of length {n} and matrices with {n} rows.",
            )
        wide = self.data if x.ndim == 1 else self.data[:, None]
        return _gathered(wide * x[self.places.cols], self.places.rows, m)

    def _times_sparse(self, x: Any) -> "Sparse":
        a, b = self.tocsr(), as_sparse(x).tocsr()
        if a.shape[1] != b.shape[0]:
            raise ShapeError(
                f"A sparse matrix of shape {a.shape} times one of shape {b.shape}.",
                "The first has as many columns as the second has rows.",
            )
        left, right = pairs(a.places, b.places)
        rows, cols = a.places.rows[left], b.places.cols[right]
        shape = (a.shape[0], b.shape[1])
        places = pattern("coo", a.places.family, shape, rows, cols)
        return Sparse(a.data[left] * b.data[right], places).tocsr()._to(self.places.form)

    # ------------------------------------------------------------------------ elements

    def _with(self, data: Any) -> "Sparse":
        return Sparse(data, self.places)

    def multiply(self, x: Any) -> "Sparse":
        """Its elements times those of an array that can be broadcast to its shape."""
        if is_sparse(x):
            return self._with(self.data * self._alike(x).data)
        x = fnp.asarray(x)
        if not x.ndim:
            return self._with(self.data * x)
        wide = fnp.broadcast_to(x, self.shape)
        return self._with(self.data * wide[self.places.rows, self.places.cols])

    def __mul__(self, x: Any) -> Any:
        if self.places.family == "matrix" and fnp.ndim(x):
            return self @ x
        return self.multiply(x)

    def __rmul__(self, x: Any) -> Any:
        if self.places.family == "matrix" and fnp.ndim(x):
            return x @ self
        return self.multiply(x)

    def __truediv__(self, x: Any) -> "Sparse":
        if all_python(x) is True:  # SciPy multiplies by 1 / x, of which Python refuses zero
            refuse(fnp.equal(x, 0), ZeroDivisionError, "division by zero")
        return self.multiply(1.0 / fnp.asarray(x))

    def __neg__(self) -> "Sparse":
        return self._with(-self.data)

    def power(self, n: Any, dtype: Any = None) -> "Sparse":
        """Its elements to the n-th power."""
        if fnp.ndim(n):
            raise ShapeError("A sparse matrix was raised to an array.", "Pass a number.")
        if not isinstance(n, Tracer) and n == 0:
            raise RuleError("The power 0 of a sparse matrix is 1 everywhere.", _FIX)
        data = self.data if dtype is None else self.data.astype(canonical(dtype))
        return self._with(data**n)

    __pow__ = power

    def __abs__(self) -> "Sparse":
        return self._with(fnp.abs(self.data))

    def conjugate(self) -> "Sparse":
        """Its elements' conjugates."""
        return self._with(fnp.conj(self.data))

    conj = conjugate

    def astype(self, dtype: Any) -> "Sparse":
        """The same elements in another dtype."""
        return self._with(self.data.astype(canonical(dtype)))

    def copy(self) -> "Sparse":
        """The same matrix."""
        return self._with(self.data.copy())

    def _plus(self, x: Any, sign: float) -> Any:
        if is_sparse(x):
            other = as_sparse(x)
            if other.places is self.places:
                return self._with(self.data + sign * other.data)
            return self._joined(other, sign)
        if fnp.ndim(x):
            return self.toarray() + sign * fnp.asarray(x)
        if type(x) is int and x == 0:
            return self
        raise RuleError("A number that is added to every element of a sparse matrix.", _FIX)

    def _joined(self, other: "Sparse", sign: float) -> "Sparse":
        """The sum with a matrix whose elements are at other places."""
        one, two = self.places, other.places
        if one.shape != two.shape:
            raise ShapeError(
                f"Sparse matrices of shapes {one.shape} and {two.shape}.", "Add equal shapes."
            )
        rows, cols = (np.concatenate(p) for p in ((one.rows, two.rows), (one.cols, two.cols)))
        data = fnp.concatenate([self.data, sign * other.data])
        found = Sparse(data, pattern("coo", one.family, one.shape, rows, cols))
        return found.tocsr()._to(one.form)

    def __add__(self, x: Any) -> Any:
        return self._plus(x, 1.0)

    __radd__ = __add__

    def __sub__(self, x: Any) -> Any:
        return self._plus(x, -1.0)

    def __rsub__(self, x: Any) -> Any:
        return (-self)._plus(x, 1.0)

    def _alike(self, x: Any) -> "Sparse":
        other = as_sparse(x)
        if other.places is not self.places:
            raise RuleError(
                f"Sparse matrices with elements at different places: {self.places!r} and "
                f"{other.places!r}.",
                "Traced matrices combine element by element where their patterns are one; " + _FIX,
            )
        return other

    # ------------------------------------------------------------------------ other forms

    @property
    def T(self) -> "Sparse":  # noqa: N802 - NumPy's name
        """Transposed."""
        return Sparse(self.data, self.places.transposed)

    def transpose(self) -> "Sparse":
        """Transposed."""
        return self.T

    def toarray(self) -> Any:
        """As a dense array; elements at one place are added."""
        m, n = self.shape
        flat = self.places.rows * n + self.places.cols
        return _gathered(self.data, flat, m * n).reshape(m, n)

    todense = toarray

    def diagonal(self, k: int = 0) -> Any:
        """The elements of a diagonal."""
        k = static_int(k, "k")
        rows, cols = self.places.rows, self.places.cols
        (on,) = np.nonzero(cols - rows == k)
        m, n = self.shape
        size = max(0, min(m + min(k, 0), n - max(k, 0)))
        return _gathered(self.data[on], rows[on] + min(k, 0), size)

    def trace(self) -> Any:
        """The sum of the diagonal."""
        return fnp.sum(self.diagonal())

    def sum(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        """The sum of all elements, of columns (axis 0) or of rows (axis 1)."""
        if out is not None:
            raise RuleError("A sparse matrix was summed with out=.", "Use what sum() returns.")
        data = self.data if dtype is None else self.data.astype(canonical(dtype))
        if axis is None:
            return fnp.sum(data)
        at = (self.places.cols, self.places.rows)[one_axis(axis, 2)]
        found = _gathered(data, at, self.shape[1 - axis % 2])
        if self.places.family == "array":
            return found
        return found[:, None] if axis % 2 else found[None]

    def mean(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        """The mean of all elements, of columns (axis 0) or of rows (axis 1)."""
        if axis is not None:
            axis = one_axis(axis, 2)
        count = self.shape[0] * self.shape[1] if axis is None else self.shape[axis]
        return self.sum(axis, dtype, out) / count

    def _to(self, form: str) -> "Sparse":
        if form == self.places.form:
            return self
        found, numbers, size = self.places.to(form)
        return Sparse(self.data if size < 0 else _gathered(self.data, numbers, size), found)

    def tocsr(self) -> "Sparse":
        """In CSR format; elements at one place are added."""
        return self._to("csr")

    def tocsc(self) -> "Sparse":
        """In CSC format; elements at one place are added."""
        return self._to("csc")

    def tocoo(self) -> "Sparse":
        """In COO format."""
        return self._to("coo")


def _gathered(values: Any, places: Any, size: int) -> Any:
    """Sums of the values at each place."""
    zeros = fnp.zeros((size, *values.shape[1:]), values.dtype)
    return fnp.at(zeros)[places].add(values)


# ---------------------------------------------------------------------------------- SciPy's


def is_sparse(x: Any) -> bool:
    """Whether it is a sparse matrix, SciPy's or traced."""
    kind: Any = type(x)
    return str(kind.__module__).startswith(("scipy.sparse.", __name__)) and hasattr(kind, "tocsr")


def as_sparse(A: Any) -> Sparse:
    """A matrix of SciPy's as one whose data may be traced.

    Args:
        A: in any format; others than CSR, CSC and COO become CSR.

    Returns:
        A `Sparse`; it has the data itself.

    Example:
        >>> import numpy as np, scipy.sparse, ftrace
        >>> ftrace.sparse.as_sparse(scipy.sparse.eye_array(2)).format
        'csr'
    """
    if type(A) is Sparse:
        return A
    if not is_sparse(A) or not hasattr(A, "tocsr") or len(A.shape) != 2:
        raise DtypeError(
            f"A {type(A).__name__} is no sparse matrix.", "Pass one of scipy.sparse's, of rank 2."
        )
    found = A if A.format in FORMS else A.tocsr()
    return Sparse(found.data, _pattern_of(found))


def _pattern_of(A: Any) -> Pattern:
    family = "matrix" if type(A).__name__.endswith("_matrix") else "array"
    first, second = (A.row, A.col) if A.format == "coo" else (A.indices, A.indptr)
    return pattern(A.format, family, A.shape, first, second)


def _restored(places: Pattern, children: Sequence[Any]) -> Any:
    """SciPy's matrix of plain data; a `Sparse` of any other."""
    (data,) = children
    if type(data) is not np.ndarray or data.shape != (places.nnz,):
        return Sparse(data, places)
    first, second = places.indices.copy(), places.pointers.copy()
    parts = (data, (first, second)) if places.form == "coo" else (data, first, second)
    return _scipys[f"{places.form}_{places.family}"](parts, shape=places.shape)


def _flattened(x: Any) -> tuple[Sequence[Any], Any]:
    return (x.data,), x.places if type(x) is Sparse else _pattern_of(x)


_KEYS: Final = (GetAttrKey("data"),)


def kind_of(cls: type) -> NodeKind | None:
    """How a class of SciPy's is a container; None of one that is not."""
    return _kind(cls) if cls.__name__ in _scipys else None


def _kind(cls: type) -> NodeKind:
    return NodeKind(cls, _flattened, _restored, lambda data, n: _KEYS)


register(_kind(Sparse), Sparse)

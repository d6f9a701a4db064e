"""Sparse matrices of traced data, by SciPy's names: constructors and `diags`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.sparse.sparsity import pattern
from ftrace.sparse.traced_data import Sparse, as_sparse, is_sparse


def _constructor(form: str, family: str) -> Callable[..., Sparse]:
    name = f"{form}_{family}"

    def make(
        arg: Any, shape: Sequence[int] | None = None, dtype: Any = None, copy: bool = False
    ) -> Sparse:
        found = getattr(_made(name, form, family, arg, shape), f"to{form}")()
        return found if dtype is None else found.astype(dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""`scipy.sparse.{name}` of traced data.

    Args:
        arg: `(data, indices, indptr)`, `(data, (rows, cols))`, or a sparse matrix. Only data may
            be traced.
        shape: of the matrix; by default what indices need.
        dtype: of the data.
        copy: has no effect.

    Returns:
        A `Sparse` in {form.upper()} format; elements at one place are added.

    Raises:
        DtypeError: `arg` is something else.

    Example:
        >>> import numpy as np, ftrace
        >>> places = (np.array([0, 1, 1]), np.array([0, 0, 1]))
        >>> f = lambda data: ftrace.sparse.{name}((data, places)) @ np.array([1.0, 3.0])
        >>> ftrace.jacobian(f)(np.ones(3))
        array([[1., 0., 0.],
               [0., 1., 3.]])
    """
    return make


def _made(name: str, form: str, family: str, arg: Any, shape: Any) -> Sparse:
    if is_sparse(arg):
        given = as_sparse(arg)
        old = given.places
        new = pattern(old.form, family, old.shape, old.indices, old.pointers)
        return Sparse(given.data, new)
    if not isinstance(arg, tuple) or len(arg) not in ((2,) if form == "coo" else (2, 3)):
        raise DtypeError(
            f"{name} of traced data takes (data, indices, indptr) or (data, (rows, cols)).",
            "The places of elements cannot depend on values: give them beside the data.",
        )
    data = fnp.asarray(arg[0])
    places = (arg[1], arg[2]) if len(arg) == 3 else arg[1]
    first, second = (np.asarray(x) for x in places)
    if len(arg) == 3:
        major, minor = len(second) - 1, int(first.max(initial=-1)) + 1
        form = "csr" if form == "csr" else "csc"
        own = (major, minor) if form == "csr" else (minor, major)
    else:
        form = "coo"
        own = int(first.max(initial=-1)) + 1, int(second.max(initial=-1)) + 1
    found = own if shape is None else tuple(shape)
    if len(found) != 2:
        raise ShapeError(f"{name} was given the shape {shape}.", "A matrix has two sizes.")
    _check(name, form, data, first, second, found)
    m, n = map(int, found)
    return Sparse(data, pattern(form, family, (m, n), first, second))


def _check(name: str, form: str, data: Any, first: Any, second: Any, shape: Any) -> None:
    sizes = (shape[1], shape[0]) if form == "csr" else (shape[0], shape[1])
    inside = first.size == 0 or (first.min() >= 0 and first.max() < sizes[0])
    if form == "coo":
        inside = inside and (second.size == 0 or (second.min() >= 0 and second.max() < sizes[1]))
        fits = first.shape == second.shape
    else:
        fits = len(second) == sizes[1] + 1 and second[-1] == len(first)
    if data.shape != first.shape or not fits or not inside:
        raise ShapeError(
            f"{name}: {data.shape} data at places of shapes {first.shape} and {second.shape} in a "
            f"matrix of shape {shape}.",
            "There is one place inside the matrix for each element.",
        )


csr_array = _constructor("csr", "array")
csr_matrix = _constructor("csr", "matrix")
csc_array = _constructor("csc", "array")
csc_matrix = _constructor("csc", "matrix")
coo_array = _constructor("coo", "array")
coo_matrix = _constructor("coo", "matrix")


def _diags(family: str, diagonals: Any, offsets: Any, shape: Any) -> Sparse:
    many = np.ndim(offsets) > 0
    if not many and fnp.ndim(diagonals[0]):
        raise ShapeError("diags: one offset was given for several diagonals.", "Give one to each.")
    offsets = [int(k) for k in np.atleast_1d(offsets)]
    parts = [fnp.asarray(d) for d in diagonals] if many else [fnp.asarray(diagonals)]
    if shape is None:
        n = parts[0].shape[0] + abs(offsets[0])
        shape = (n, n)
    m, n = shape
    rows, data = [], []
    for k, part in zip(offsets, parts, strict=True):
        size = min(m + min(k, 0), n - max(k, 0))
        if part.shape not in ((size,), (1,), ()):
            raise ShapeError(
                f"diags: diagonal {k} of a matrix of shape {(m, n)} has {size} elements, and "
                f"{part.shape} are given.",
                "Give as many elements, or one for all.",
            )
        rows.append(np.arange(size) - min(k, 0))
        data.append(fnp.broadcast_to(part, (size,)))
    cols = [r + k for r, k in zip(rows, offsets, strict=True)]
    places = pattern("coo", family, (m, n), np.concatenate(rows), np.concatenate(cols))
    return Sparse(fnp.concatenate(data), places).tocsr()


def diags_array(
    diagonals: Any, /, *, offsets: Any = 0, shape: Any = None, format: Any = None, dtype: Any = None
) -> Sparse:
    """A matrix of diagonals, as `scipy.sparse.diags_array`, of traced elements.

    Args:
        diagonals: one sequence for each offset; or the elements of one.
        offsets: which diagonals: 0 the main one, positive above it.
        shape: of the matrix; by default square, as the first diagonal needs.
        format: "csr", the default, "csc" or "coo".
        dtype: of the data.

    Returns:
        A `Sparse`.

    Raises:
        ShapeError: a diagonal has another length.

    Example:
        >>> import numpy as np, ftrace
        >>> f = lambda d: ftrace.sparse.diags_array([d, -1.0], offsets=[0, 1], shape=(3, 3))
        >>> ftrace.grad(lambda d: (f(d) @ np.arange(3.0))[1])(np.ones(3))
        array([0., 1., 0.])
    """
    found = getattr(_diags("array", diagonals, offsets, shape), f"to{format or 'csr'}")()
    return found if dtype is None else found.astype(dtype)


def diags(
    diagonals: Any, offsets: Any = 0, shape: Any = None, format: Any = None, dtype: Any = None
) -> Sparse:
    """As `diags_array`, with the operators of SciPy's matrices: `scipy.sparse.diags`.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.sparse.diags([np.ones(2)], [0]) @ np.array([3.0, 4.0])
        array([3., 4.])
    """
    found = getattr(_diags("matrix", diagonals, offsets, shape), f"to{format or 'csr'}")()
    return found if dtype is None else found.astype(dtype)

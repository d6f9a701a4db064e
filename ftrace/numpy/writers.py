"""NumPy's functions and methods that write into an argument, on cells.

`copyto`, `put`, `place`, `putmask`, `fill_diagonal`, `put_along_axis`, and the methods `fill`,
`sort`, `partition`, `put`. Each computes the new content by rows and stores it in the cell
(`cells.py`, which also has `np.add.at`); a plain array cannot receive a traced value.
"""

from typing import Any, Final

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import following
from ftrace.core.errors import ShapeError
from ftrace.core.trace import Tracer, holds_array
from ftrace.numpy import sorting
from ftrace.numpy.assigning import assignable, setitem_value
from ftrace.numpy.cells import cell, check_writable, replace, setitem, store
from ftrace.numpy.indexing import basic
from ftrace.numpy.layouts import flat, kept, reading
from ftrace.numpy.masking import Selection, is_unknown_mask, rank
from ftrace.numpy.promote import cast, known, numpy_function, one_axis, value
from ftrace.numpy.views import c_order
from ftrace.primitives.convert import copy
from ftrace.primitives.elementwise import clamp, mod, ne, select
from ftrace.primitives.index import gather
from ftrace.primitives.shape import reshape

# ---------------------------------------------------------------------------------- functions


def _flat(x: Any) -> Any:
    x = value(x)
    return reshape(x, new_sizes=(typeof(x).size,))


def _repeated(x: Any, n: int) -> Any:
    """The first n elements of a flat array repeated endlessly."""
    m = typeof(x).size
    if m == n:
        return x
    if not m:
        raise ShapeError(f"{n} elements were to be written, and no values were given.", "Give one.")
    return gather(x, following(np.arange(n) % m), axes=(0,), mode="raise")


def _write_flat(a: Tracer, indices: Any, v: Any) -> None:
    """`a.flat[indices] = v`, the values repeated as often as needed."""
    flat = _flat(a)
    count = basic(flat.aval.shape, indices)
    n = typeof(indices).size if count is None else count.shape[0]
    changed = setitem_value(flat, indices, _repeated(_flat(assignable(v, a.aval.dtype)), n))
    store(a, reshape(changed, new_sizes=a.aval.shape))


@numpy_function
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """`src` written into `dst`, where `where` is true."""
    dst, v = cell(dst, "np.copyto"), value(src)
    v = cast(v, dst.aval.dtype) if casting == "unsafe" else v
    replace(dst, v, "np.copyto", where)


@numpy_function
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """`a.flat[ind] = v`, the values repeated as often as needed."""
    a = cell(a, "np.put")
    indices = _flat(ind)
    if mode == "clip":
        indices = clamp(0, indices, a.aval.size - 1)
    elif mode == "wrap":
        indices = mod(indices, a.aval.size)
    _write_flat(a, indices, v)


def truths(mask: Any) -> Any:
    """A mask of any dtype as a boolean one: what is not 0 is true."""
    mask = value(mask)
    return mask if typeof(mask).dtype.kind == "b" else ne(mask, 0)


def _check_cast(values: Any, dtype: np.dtype[Any]) -> None:
    """Raise NumPy's error for an array that C code does not convert: numbers and lists it does."""
    a = typeof(values) if holds_array(values) else None
    if a is not None and not np.can_cast(a.dtype, dtype, "safe"):
        what = "array data" if a.shape else "scalar"
        raise TypeError(
            f"Cannot cast {what} from {a.dtype!r} to {dtype!r} according to the rule 'safe'"
        )


@numpy_function
def putmask(a: Any, mask: Any, values: Any) -> None:
    """`values` written where `mask` is true, each at its own place."""
    a = cell(a, "np.putmask")
    _check_cast(values, a.aval.dtype)
    shape, dtype = a.aval.shape, a.aval.dtype
    v = reshape(_repeated(_flat(assignable(values, dtype)), a.aval.size), new_sizes=shape)
    store(a, select(truths(mask), v, a))


@numpy_function
def place(arr: Any, mask: Any, vals: Any) -> None:
    """The first values written, one after the other, where `mask` is true."""
    arr = cell(arr, "np.place")
    _check_cast(vals, arr.aval.dtype)
    mask = truths(mask)
    if is_unknown_mask(mask) and mask.shape == arr.aval.shape:
        each = _repeated(_flat(vals), arr.aval.size)  # where all places are taken
        v = gather(each, rank(_flat(mask)), axes=(0,), mode="clip")
        setitem(arr, mask, Selection(v, {0: _flat(mask)}))
        return
    _write_flat(arr, np.flatnonzero(known(mask, "np.place")), vals)


@numpy_function
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """The main diagonal written."""
    a = cell(a, "np.fill_diagonal")
    shape = a.aval.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) != 1):
        raise ShapeError(
            f"np.fill_diagonal was given an array of shape {shape}.",
            "It must be a matrix, or have more axes that are all equally long.",
        )
    step = shape[1] + 1 if len(shape) == 2 else sum(shape[0] ** i for i in range(len(shape)))
    end = shape[1] ** 2 if len(shape) == 2 and not wrap else None
    _write_flat(a, slice(None, end, step), val)


@numpy_function
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """`values` written at the places along one axis that `indices` give."""
    arr = cell(arr, "np.put_along_axis")
    if axis is None:
        _write_flat(arr, _flat(indices), values)
        return
    shape, axis = arr.aval.shape, one_axis(axis, arr.aval.ndim)
    key = [
        np.arange(n).reshape([-1 if i == j else 1 for j in range(len(shape))])
        for i, n in enumerate(shape)
    ]
    setitem(arr, (*key[:axis], indices, *key[axis + 1 :]), values)


# ---------------------------------------------------------------------------------- methods


def _fill(x: Tracer, v: Any) -> None:
    """Every element set to one value."""
    if typeof(value(v)).shape:
        raise ValueError("setting an array element with a sequence.")
    setitem(x, ..., v)


def _set_flat(x: Tracer, v: Any) -> None:
    """`x.flat = v`: all elements in C order, the values repeated as often as needed."""
    check_writable(x)
    _write_flat(x, slice(None), v)


def _sort(x: Tracer, axis: int = -1, *args: Any, **options: Any) -> None:
    """Sorted in place along one axis."""
    check_writable(x)
    store(x, sorting.sort(x, one_axis(axis, x.aval.ndim), *args, **options))


def _partition(x: Tracer, kth: Any, axis: int = -1, *args: Any, **options: Any) -> None:
    """Sorted in place, which is one of the orders that `partition` allows."""
    check_writable(x)
    store(x, sorting.partition(x, kth, one_axis(axis, x.aval.ndim), *args, **options))


def _copy(x: Tracer, order: str = "C") -> Any:
    """A new array, laid out in an order."""
    return kept(x, copy(x), order)


def _copied(x: Tracer) -> Any:
    """What `copy.copy` makes of an array; numbers and NumPy's scalars are their own copies."""
    return _copy(x) if holds_array(x) else x


def _flatten(x: Tracer, order: str = "C") -> Any:
    """A new array with all elements in one axis."""
    return c_order(reshape(reading(x, order, "flatten"), new_sizes=(x.aval.size,)))


METHODS: Final[dict[str, Any]] = {
    "copy": _copy,
    "__copy__": _copied,
    "__deepcopy__": lambda x, memo: _copied(x),
    "flatten": _flatten,
    "flat": property(flat, _set_flat, doc="All elements in C order; writes go through."),
    "fill": _fill,
    "sort": _sort,
    "partition": _partition,
    "put": lambda x, indices, values, mode="raise": put(x, indices, values, mode),
}

"""Operands for rows: values from array-likes, NumPy-2 promotion, broadcasting, axes.

Primitives neither promote nor broadcast (equal dtypes or weak, equal shapes or rank 0), so every
function of `ftrace.numpy` prepares its operands here. A Python scalar stays a literal of the kind
it meets, so that jaxprs read `mul x 2.0`. `numpy_function` makes a public function of an
implementation: with no trace running it *is* NumPy's. Ufuncs have their own door, `ufuncs.py`.
"""

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core import dtypes
from ftrace.core.arguments import shown
from ftrace.core.avals import SCALAR_AVALS, TYPEOF, typeof
from ftrace.core.device import LIBRARIES, follow, free, on_device, to_host, watch
from ftrace.core.errors import (
    AxisError,
    ConcretizationTypeError,
    DtypeError,
    RangeError,
    RuleError,
    ShapeError,
)
from ftrace.core.lazy import lazy
from ftrace.core.trace import EVAL, UNKNOWN, Tracer, ctx, running
from ftrace.numpy.integers import refuse_unfit
from ftrace.numpy.refusing import attempt
from ftrace.numpy.temporaries import release_all
from ftrace.numpy.views import zero_d
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import PYTHON_SCALARS, broadcast_in_dim
from ftrace.primitives.shape import concatenate, reshape

Shape = tuple[int, ...]
current_library = lazy("ftrace.gpu.eager.cupy_arrays", "current_library")
find_special = lazy("ftrace.numpy.scipy_special", "find")  # of ufuncs of SciPy
INT64_MAX: Final = (1 << 63) - 1
TRACED: dict[Any, Callable[..., Any]] = {}  # NumPy function -> implementation for tracers
LATE: list[Callable[[], Any]] = []  # what loads the modules whose functions are not there yet
DEFERRED: set[type] = set()  # what answers NumPy's functions itself, and is no array: selections


# ---------------------------------------------------------------------------------- functions


def find_traced(function: Any) -> Callable[..., Any] | None:
    """The implementation of a NumPy function for tracers, if there is one."""
    found = TRACED.get(function)
    if found is None and LATE:
        for load in tuple(LATE):
            load()
        LATE.clear()  # only now: another thread may wait for the same
        found = TRACED.get(function)
    return found


def numpy_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The public function for an implementation on traced values.

    With no trace running it calls NumPy's function of the same name, or the implementation for
    CuPy's arrays; plain NumPy's function reaches it through `__array_function__`.
    """
    plain = getattr(np, fn.__name__, fn)
    if fn.__name__ in _GIVE_ARRAYS:
        fn = _giving_arrays(fn)
    call = door(plain, fn)
    functools.update_wrapper(call, fn)
    call.__doc__ = document(fn.__doc__, f"numpy.{fn.__name__}")
    if plain is not fn:
        TRACED[plain] = fn
    return call


BEYOND: Final = frozenset({"size", "length", "total_repeat_length"})
"""Keywords of JAX's that NumPy's functions have not: ours are called, whatever runs."""


def member_of(module: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`numpy_function` for the functions of a submodule, `numpy.fft` or `numpy.linalg`."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        plain = getattr(module, fn.__name__)
        call = door(plain, fn)
        call.__name__ = call.__qualname__ = fn.__name__
        call.__doc__ = document(fn.__doc__, f"{module.__name__}.{fn.__name__}")
        TRACED[plain] = fn
        return call

    return decorate


# What NumPy gives an array for also where that has rank 0; of all others it gives a scalar.
_GIVE_ARRAYS: Final = {
    *("array", "asarray", "copy", "zeros", "ones", "empty", "full", "zeros_like", "ones_like"),
    *("empty_like", "full_like", "block", "broadcast_to", "broadcast_arrays", "where", "select"),
    *("piecewise", "real_if_close", "i0", "isin", "tensordot", "cross", "cov", "apply_along_axis"),
}


def _giving_arrays(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def giving(*args: Any, **kwargs: Any) -> Any:
        return zero_d(fn(*args, **kwargs))

    return giving


def door(plain: Callable[..., Any], fn: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function with no trace running, else the implementation."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not BEYOND.isdisjoint(kwargs):
            return attempt(plain, fn, args, kwargs)
        if not running or ctx.trace is EVAL:
            if LIBRARIES:
                return untraced(plain, fn, args, kwargs)
            try:
                return plain(*args, **kwargs)
            except TypeError:  # from CuPy, perhaps, which was imported a moment ago
                if not (watch() or any(map(offers, args))):
                    raise
                return untraced(plain, fn, args, kwargs)
        if LIBRARIES:
            release_all(args, "arguments")
        if not DEFERRED.isdisjoint(map(type, args)):
            return plain(*args, **kwargs)
        return attempt(plain, fn, args, kwargs)

    return call


def untraced(
    plain: Callable[..., Any], fn: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> Any:
    """A call with no trace running: NumPy's function, or ours where an operand is on a device."""
    like = next(_on_device((*args, *kwargs.values())), None)
    return plain(*args, **kwargs) if like is None else _beside(fn(*args, **kwargs), like)


def _on_device(values: Iterable[Any]) -> Iterator[Any]:
    """The arrays of devices among operands and their lists."""
    for x in values:
        if on_device(x) or offers(x):
            yield x
        elif type(x) in (list, tuple):
            yield from _on_device(x)


def offers(x: Any) -> bool:
    """Whether something that is no array of CuPy's gives access to memory on a GPU."""
    return not issubclass(type(x), np.ndarray) and hasattr(x, "__cuda_array_interface__")


def _beside(result: Any, like: Any) -> Any:
    """A result on the device of an operand: what was made of nothing, or known, is on the host."""
    if issubclass(type(result), list | tuple):
        parts = [_beside(x, like) for x in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return follow(free(result), like) if np.ndim(result) else result


def document(summary: str | None, counterpart: str) -> str:
    """A docstring: what it does, and whose semantics it follows."""
    return f"{summary}\n\nArguments, dtypes and shapes are those of `{counterpart}`."


def unsupported(function: str, option: str) -> RuleError:
    """The error for an option of a NumPy function that tracing does not know."""
    return RuleError(
        f"{function} was called with {option}, which is not supported on traced arrays.",
        "Leave the option out, or write it with numpy.where and the plain function.",
    )


# ---------------------------------------------------------------------------------- values


def value(x: Any, dtype: Any = None) -> Any:
    """An array, scalar or tracer from anything array-like; its numbers are to fit into a dtype."""
    cls = type(x)
    if cls in TYPEOF or cls in SCALAR_AVALS or issubclass(type(x), np.ndarray | np.generic):
        return x
    if cls is list or cls is tuple:
        return nested(x, dtype)
    if issubclass(type(x), int | float | complex):
        return x
    if offers(x):
        return current_library().adopt(x)
    return free(np.asarray(x))


def nested(x: Any, dtype: Any = None) -> Any:
    """The array of a nested list or tuple that may hold tracers."""
    if not _holds_tracer(x):
        return free(np.asarray(x))
    found = [value(item, dtype) for item in x]
    if dtype is not None:
        dtype = dtypes.canonical(dtype)
        found = [item if typeof(item).dtype.kind == "c" else cast(item, dtype) for item in found]
    items = [strong(item) for item in found]  # no number in a list adapts to the others
    dtype = dtypes.canonical(np.result_type(*[typeof(item).dtype for item in items]))
    shape = typeof(items[0]).shape
    for item in items:
        if typeof(item).shape != shape:
            raise ShapeError(
                f"The parts of a nested list have shapes {shape} and {typeof(item).shape}.",
                "All parts must have one shape: use concatenate for unequal lengths.",
            )
    rows = [reshape(cast(item, dtype), new_sizes=(1, *shape)) for item in items]
    return concatenate(*rows, dimension=0)


def _holds_tracer(x: Any) -> bool:
    if type(x) is list or type(x) is tuple:
        return any(_holds_tracer(item) for item in x)
    return isinstance(x, Tracer) or on_device(x)


def known(x: Any, wanted: str) -> Any:
    """The concrete value of an operand (the primal decides), for data-dependent shapes."""
    if not isinstance(x, Tracer):
        return to_host(x)
    found = x.known(exact=False)
    if found is UNKNOWN:
        raise ConcretizationTypeError(
            f"{wanted} depends on the values of {x!r}, which has none while {x.owner.name} traces.",
            "Use a form with a fixed shape (numpy.where, a mask times the array, size= of "
            "ftrace.numpy's nonzero, unique and kin), or make the argument static.",
        )
    return np.asarray(to_host(found))


def static_int(x: Any, what: str) -> int:
    """A Python int for a shape, an axis or a count."""
    try:
        found = operator.index(x)
    except TypeError as error:
        if isinstance(error, ConcretizationTypeError):
            raise
        raise DtypeError(
            f"{what} must be an integer, not {type(x).__name__} {shown(x)}.", "Pass a Python int."
        ) from None
    if found.bit_length() > 63:
        raise RangeError(f"{what} is {found}, which is too large.", "Pass an integer of 64 bits.")
    return found


def static_shape(shape: Any) -> Shape:
    """A tuple of ints from an int, a sequence or a vector of ints."""
    array = issubclass(type(shape), np.ndarray) or isinstance(shape, Tracer)
    if isinstance(shape, Sequence) or (array and shape.ndim == 1):
        return tuple(map(_size, shape))  # pyright: ignore - tracers are iterable
    return (_size(shape),)


def _size(n: Any) -> int:
    if type(n) is bool or type(n) is np.bool_:
        raise DtypeError("A size must be an integer, not a bool.", "Pass a Python int.")
    return static_int(n, "a size")


def new_shape(shape: Any) -> Shape:
    """The shape of an array that is made, of which no size is to be found.

    Raises:
        ShapeError: a negative size.
    """
    sizes = static_shape(shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(
            f"negative dimensions are not allowed: the shape is {sizes}.", "Sizes count from 0."
        )
    return sizes


# ---------------------------------------------------------------------------------- dtypes


def cast(x: Any, dtype: np.dtype[Any]) -> Any:
    """The operand strongly in this dtype; the same object if it is already."""
    if type(x) in PYTHON_SCALARS:
        return dtype.type(x)
    a = typeof(x)
    if a.dtype == dtype and not a.weak:
        return x
    if a.weak and a.dtype.kind == "i" and dtype.kind in "iu" and a.dtype is not dtype:
        refuse_unfit(x, dtype)
    return convert_element_type(x, new_dtype=dtype)


def adapt(x: Any, dtype: np.dtype[Any]) -> Any:
    """The operand in this dtype, where a Python scalar stays a literal of the dtype's kind."""
    cls = type(x)
    if cls in PYTHON_SCALARS:
        kind = dtype.kind
        if kind == "f":
            return float(x)
        if kind in "iu":
            fitting = dtype.type(x)  # refuses what does not fit
            return int(x) if x <= INT64_MAX else fitting
        if kind == "c" and cls is int and not -INT64_MAX <= x <= INT64_MAX:
            return float(x)
        return dtype.type(x) if kind == "b" else x
    return x if typeof(x).dtype == dtype else cast(x, dtype)


def strong(x: Any) -> Any:
    """The operand, made strong if it is weak."""
    a = typeof(x)
    return cast(x, a.dtype) if a.weak else x


def weak(x: Any) -> Any:
    """A scalar as the Python number of its dtype."""
    a = typeof(x)
    return x if a.weak else convert_element_type(x, new_dtype=a.dtype, weak_type=True)


def inexact(x: Any) -> Any:
    """The operand as float or complex, and strong."""
    x = value(x)
    return cast(x, dtypes.to_inexact(typeof(x).dtype))


def floating(x: Any) -> Any:
    """The operand as float or complex, as NumPy's `x * 1.0` makes it: integers in float64."""
    x = strong(value(x))
    return x if typeof(x).dtype.kind in "fc" else cast(x, dtypes.float64)


def common_dtype(*xs: Any) -> np.dtype[Any]:
    """The NumPy-2 result dtype of operands."""
    avals = [typeof(x) for x in xs]
    return dtypes.canonical(dtypes.promote(*((a.dtype, a.weak) for a in avals))[0])


def promote(*xs: Any) -> list[Any]:
    """Operands in their common dtype, Python numbers as literals."""
    dtype = common_dtype(*xs)
    return [adapt(x, dtype) for x in xs]


def promote_inexact(*xs: Any) -> list[Any]:
    """Operands in their common float or complex dtype, all strong."""
    dtype = dtypes.to_inexact(common_dtype(*xs))
    return [cast(x, dtype) for x in xs]


# ---------------------------------------------------------------------------------- shapes


@functools.lru_cache(maxsize=4096)
def broadcast_shape(*shapes: Shape) -> Shape:
    """NumPy's broadcast of shapes.

    Raises:
        ShapeError: where they do not fit.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(
            f"Operands of shapes {', '.join(map(str, shapes))} do not broadcast together.",
            "Sizes of aligned axes must be equal or 1; add axes with x[:, None].",
        ) from None


@functools.lru_cache(maxsize=4096)
def _kept_axes(own: Shape, shape: Shape) -> tuple[int, ...]:
    """Where the axes of an operand lie in the shape it is broadcast to."""
    first = len(shape) - len(own)
    if first < 0 or any(n not in (1, m) for n, m in zip(own, shape[first:], strict=True)):
        raise ShapeError(
            f"An array of shape {own} cannot be broadcast to {shape}.",
            "Its axes, aligned at the end, must have the target's size or 1.",
        )
    return tuple(range(first, len(shape)))


def stretch(x: Any, shape: Shape) -> Any:
    """The operand broadcast to a shape; the same object if it has it."""
    own = typeof(x).shape
    if own == shape:
        return x
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=_kept_axes(own, shape))


def broadcast(*xs: Any) -> list[Any]:
    """Operands as elementwise rows take them: one shape, or rank 0."""
    shapes = {s for x in xs if (s := typeof(x).shape)}
    if len(shapes) < 2:
        return list(xs)
    shape = broadcast_shape(*shapes)
    return [stretch(x, shape) if typeof(x).shape else x for x in xs]


# ---------------------------------------------------------------------------------- axes


def one_axis(axis: Any, ndim: int) -> int:
    """An axis from 0 to ndim - 1.

    Raises:
        AxisError: an axis that is not there.
    """
    if type(axis) is bool:
        raise DtypeError("An axis must be an integer, not a bool.", "Pass a Python int.")
    i = static_int(axis, "an axis")
    if not -ndim <= i < ndim:
        raise AxisError(
            f"axis {i} is out of bounds for an array of dimension {ndim}.",
            f"Axes of this array go from {-ndim} to {ndim - 1}.",
        )
    return i % ndim


def many_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Distinct axes in range from None (all), an int or a tuple, in the order given."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    found = tuple(one_axis(a, ndim) for a in axes)
    if len(set(found)) != len(found):
        raise AxisError(f"axes {axis} name one axis twice.", "Name every axis once.")
    return found


def check_range(index: Any, axis: int, n: int) -> None:
    """Known indices are checked while tracing; others when they are evaluated."""
    if issubclass(type(index), np.ndarray | np.integer | int) and np.size(index):
        index = np.asarray(index)
        low, high = int(index.min()), int(index.max())
        if low < -n or high >= n:
            worst = low if low < -n else high
            raise IndexError(f"index {worst} is out of bounds for axis {axis} with size {n}")

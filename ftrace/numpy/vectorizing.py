"""Functions that apply a Python function along axes: vectorize, apply_along_axis.

On traced values the function is batched (as by `ftrace.vmap`), not called once per element; with
no transformation running NumPy's own loop runs it.
"""

import functools
import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.control.drawing import ELEMENTS
from ftrace.control.once import Batching, checked
from ftrace.core.avals import typeof
from ftrace.core.dtypes import bool_, canonical, complex128, float64, int64
from ftrace.core.errors import DtypeError, ShapeError, brief
from ftrace.core.trace import EVAL, Tracer, ctx, holds_array, lifted
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.numpy.promote import (
    broadcast_shape,
    cast,
    numpy_function,
    one_axis,
    stretch,
    strong,
    value,
)
from ftrace.numpy.views import zero_d
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import move_axis
from ftrace.primitives.shape import reshape

Shape = tuple[int, ...]


def over_leading(
    function: Callable[..., Any], xs: list[Any], loop: Shape, cores: list[Shape]
) -> tuple[list[Any], bool]:
    """A function of core arrays mapped over leading axes of shape `loop`.

    Returns:
        The results with the leading axes in front, and whether the function returned a tuple.
    """
    count = math.prod(loop)
    flat = [
        reshape(stretch(x, (*loop, *core)), new_sizes=(count, *core))
        for x, core in zip(xs, cores, strict=True)
    ]
    several: list[bool] = []

    def run(*args: Any) -> list[Any]:
        found = function(*args)
        several.append(isinstance(found, tuple))
        return [strong(value(y)) for y in found] if several[-1] else [strong(value(found))]

    axis, mapped = Axis(count), [0] * len(flat)

    def batched(values: list[Any]) -> tuple[list[Any], list[Any]]:
        return batch_flat(run, axis, values, mapped)

    ys, dims = checked(Batching(batched, flat, mapped), function, ELEMENTS)
    placed = [place_axis(y, d, axis, 0) for y, d in zip(ys, dims, strict=True)]
    return [reshape(y, new_sizes=(*loop, *typeof(y).shape[1:])) for y in placed], several[-1]


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Any = (),
    signature: str | None = None,
    otypes: Any = None,
    doc: str | None = None,
) -> Callable[..., Any]:
    """A function of arrays from a function of scalars, or of the cores a signature names.

    Args:
        pyfunc: the function to be mapped over all leading axes, which are broadcast.
        excluded: positions (and names) of arguments that are passed as they are.
        signature: as in NumPy, for example `"(n),(n)->()"`.
        otypes: the dtypes of the results. NumPy takes those of the first element otherwise, and
            lifted code refuses a function whose results are of several.
        doc: the docstring of the result.

    Returns:
        The mapped function.

    Example:
        >>> import numpy as np, ftrace.numpy as fnp
        >>> scaled = fnp.vectorize(lambda v, s: v / v.sum() * s, signature="(n),()->(n)")
        >>> scaled(np.array([1.0, 3.0]), np.array([4.0, 8.0]))
        array([[1., 3.],
               [2., 6.]])
    """
    if not callable(pyfunc):
        raise DtypeError(
            f"vectorize was given {brief(repr(pyfunc), 200)}, not a function.",
            "Options go by name: vectorize(f, signature=...).",
        )
    inputs = None if signature is None else _core_ranks(signature)
    plain = np.vectorize(
        pyfunc, otypes=otypes, doc=doc, excluded=set(excluded) or None, signature=signature
    )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        if ctx.trace is EVAL:
            return plain(*args, **kwargs)
        chosen = [i for i in range(len(args)) if i not in excluded]
        xs = [strong(value(args[i])) for i in chosen]
        ranks = [0] * len(xs) if inputs is None else inputs
        if len(ranks) != len(xs):
            raise TypeError(f"wrong number of positional arguments: expected {len(ranks)}")
        cores, loop = _split_shapes(xs, ranks)

        as_they_are = [inputs is not None or _is_scalar(args[i]) for i in chosen]

        def function(*parts: Any, plain: bool = False) -> Any:
            full = list(args)
            for i, part, kept in zip(chosen, parts, as_they_are, strict=True):
                full[i] = part if kept or plain else _number(part)
            return lifted(pyfunc)(*full, **kwargs)

        found, several = over_leading(function, xs, loop, cores)
        kinds: Any = otypes
        if otypes is None and any(typeof(x).dtype not in _PYTHON.values() for x in (*xs, *found)):
            first, _ = over_leading(functools.partial(function, plain=True), xs, loop, cores)
            kinds = [typeof(y).dtype for y in first]  # which NumPy finds by a call of its own
        if kinds is not None:
            kinds = [kinds] if isinstance(kinds, str) and len(found) == 1 else kinds
            found = [cast(y, canonical(k)) for y, k in zip(found, kinds, strict=True)]
        if inputs is None:
            found = [zero_d(y) for y in found]
        return tuple(found) if several else found[0]

    mapped.__name__ = getattr(pyfunc, "__name__", "vectorized")
    mapped.__doc__ = doc or pyfunc.__doc__
    mapped.__wrapped__ = pyfunc  # type: ignore[attr-defined]
    return mapped


def _is_scalar(x: Any) -> bool:
    """Whether it is a scalar of NumPy's, which the function gets as it is."""
    if isinstance(x, Tracer):
        return not (typeof(x).shape or typeof(x).weak or holds_array(x))
    return issubclass(type(x), np.generic)


def _number(x: Any) -> Any:
    """An element as NumPy gives it to the function: a Python number."""
    dtype = _PYTHON.get(typeof(x).dtype.kind)
    return x if dtype is None else convert_element_type(x, new_dtype=dtype, weak_type=True)


_PYTHON: Final = {"b": bool_, "i": int64, "f": float64, "c": complex128}


def _core_ranks(signature: str) -> list[int]:
    """How many core axes each input of a signature has."""
    left, arrow, _ = signature.replace(" ", "").partition("->")
    if not arrow or not re.fullmatch(r"(\([\w,]*\),?)*", left):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    return [len(core.split(",")) if core else 0 for core in re.findall(r"\(([\w,]*)\)", left)]


def _split_shapes(xs: list[Any], ranks: list[int]) -> tuple[list[Shape], Shape]:
    """The core shape of each operand, and the broadcast shape of all leading axes."""
    cores: list[Shape] = []
    loops: list[Shape] = []
    for x, rank in zip(xs, ranks, strict=True):
        shape = typeof(x).shape
        if len(shape) < rank:
            raise ShapeError(
                f"vectorize: an argument of shape {shape} has fewer than {rank} core axes.",
                "Its last axes must be those of the signature.",
            )
        cores.append(shape[len(shape) - rank :])
        loops.append(shape[: len(shape) - rank])
    return cores, broadcast_shape(*loops)


@numpy_function
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """A function of vectors applied along an axis."""
    x = strong(value(arr))
    i = one_axis(axis, typeof(x).ndim)
    shape = typeof(x).shape
    x = move_axis(x, i, len(shape) - 1)
    loop = (*shape[:i], *shape[i + 1 :])
    function = lifted(func1d)
    (found,), _ = over_leading(lambda v: function(v, *args, **kwargs), [x], loop, [(shape[i],)])
    new = list(range(len(loop), typeof(found).ndim))
    for k, j in enumerate(new):
        found = move_axis(found, j, i + k)
    return found


@numpy_function
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    """A function of (array, axis) applied for one axis after the other."""
    x = strong(value(a))
    for axis in axes if isinstance(axes, tuple | list) else (axes,):
        found = value(lifted(func)(x, one_axis(axis, typeof(x).ndim)))
        if typeof(found).ndim < typeof(x).ndim:
            shape = list(typeof(x).shape)
            shape[one_axis(axis, len(shape))] = 1
            found = reshape(found, new_sizes=tuple(shape))
        x = found
    return x

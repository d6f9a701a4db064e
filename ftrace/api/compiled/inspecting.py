"""Looking at programs without running them: `make_jaxpr`, `eval_shape`, `ShapeDtypeStruct`."""

from __future__ import annotations  # inner functions are made at every call

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace.api.calls import check_callable, name_of, positions, transformed
from ftrace.control.functions import FlatFunction, flatten_call, is_no_value
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.dtypes import canonical, is_inexact
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.trace import lifted
from ftrace.core.tree import tree_map
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.lifting.restart import Restart


@dataclass(frozen=True, slots=True)
class ShapeDtypeStruct:
    """A stand-in for an array: its shape and dtype.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.eval_shape(lambda x: x @ x.T, ftrace.ShapeDtypeStruct((2, 3), np.float32))
        ShapeDtypeStruct(shape=(2, 2), dtype=dtype('float32'))
    """

    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        sizes: Any = self.shape if issubclass(type(self.shape), tuple | list) else (self.shape,)
        if any(not issubclass(type(n), int | np.integer) or n < 0 for n in sizes):
            raise ShapeError(
                f"ShapeDtypeStruct was given the shape {self.shape!r}.",
                "Give a tuple of sizes, ints that count from 0.",
            )
        object.__setattr__(self, "shape", tuple(map(int, sizes)))
        object.__setattr__(self, "dtype", canonical(self.dtype))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


def abstract(x: Any) -> ShapedArray:
    """The aval of an array, a scalar, a tracer or a `ShapeDtypeStruct`."""
    return aval(x.shape, x.dtype) if isinstance(x, ShapeDtypeStruct) else typeof(x)


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    return_shape: bool = False,
    *,
    lift: bool = True,
) -> Callable[..., Any]:
    """Make a function that returns the jaxpr of `fun` for its arguments.

    Args:
        fun: function of arrays, or containers of arrays.
        static_argnums: arguments that are passed as they are.
        return_shape: also return the result's containers with `ShapeDtypeStruct` leaves.
        lift: where a traced value decides Python's control flow, or is stored into a plain
            array, the function runs again, lifted (`ftrace.lift`). False leaves it as it is.

    Returns:
        A function with `fun`'s signature; arguments may be `ShapeDtypeStruct`s.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.make_jaxpr(lambda x: np.sin(x) * x)(np.ones(3))
        { lambda a:f64[3] . let
            b:f64[3] = sin a
            c:f64[3] = mul b a
          in (c,) }
    """
    check_callable(fun, "make_jaxpr")
    static = static_argnums
    if type(static) is not tuple:
        static = tuple(static) if isinstance(static, Iterable) else (static,)
    if static and not all(issubclass(type(n), int) for n in static):
        raise DtypeError(
            f"static_argnums of make_jaxpr is {static_argnums!r}.", "Give positions, as integers."
        )
    restart = Restart(fun, lift)

    def call(*args: Any, **kwargs: Any) -> Any:
        jaxpr, out_tree = restart(
            lambda: _staged(fun, static, args, kwargs),
            (*args, *kwargs.values()) if kwargs else args,
        )
        if not return_shape:
            return jaxpr
        structs = [ShapeDtypeStruct(a.shape, a.dtype) for a in jaxpr.out_avals]
        return jaxpr, out_tree.unflatten(structs)

    return transformed(fun, call, ("make_jaxpr", static, lift), f"The jaxpr of {name_of(fun)}.")


def _staged(fun: Any, static: tuple[int, ...], args: Any, kwargs: Any) -> tuple[Jaxpr, Any]:
    if static:
        fun, args = _without(fun, args, positions("static_argnums", fun, static, len(args)))
    leaves, tree = flatten_call(args, kwargs)
    flat = FlatFunction(fun, tree)
    jaxpr, _ = trace_to_jaxpr(flat, [abstract(x) for x in leaves], values=leaves)
    return jaxpr, flat.out_tree


def _without(fun: Any, args: Any, static: tuple[int, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The function of the other arguments alone, and these."""

    def partial(*values: Any, **keywords: Any) -> Any:
        supply = iter(values)
        full = [a if i in static else next(supply) for i, a in enumerate(args)]
        return lifted(fun)(*full, **keywords)

    return functools.wraps(fun, updated=())(partial), tuple(
        a for i, a in enumerate(args) if i not in static
    )


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of a function's result, without computing it.

    Args:
        fun: function of arrays, or containers of arrays.
        *args, **kwargs: arrays or `ShapeDtypeStruct`s.

    Returns:
        The result's containers with `ShapeDtypeStruct` leaves.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.eval_shape(np.sin, np.float32(1))
        ShapeDtypeStruct(shape=(), dtype=dtype('float32'))
    """
    check_callable(fun, "eval_shape")
    given = (*args, *kwargs.values())
    jaxpr, out_tree = Restart(fun, True)(lambda: _staged(fun, (), args, kwargs), given)
    return out_tree.unflatten([ShapeDtypeStruct(a.shape, a.dtype) for a in jaxpr.out_avals])


def tangent_type(x: Any) -> Any:
    """The type of the tangents of a value: what `jvp` takes and `grad` gives for it.

    Args:
        x: an array, a number, a `ShapeDtypeStruct`, or a container of these.

    Returns:
        The same containers with a `ShapeDtypeStruct` for each float and complex array, and None for
        what has no derivative: integers, booleans, texts, functions. There is one for each type.

    Example:
        >>> import numpy as np, ftrace
        >>> ftrace.tangent_type({"w": np.ones((2, 3), np.float32), "n": 3})
        {'w': ShapeDtypeStruct(shape=(2, 3), dtype=dtype('float32')), 'n': None}
    """

    def of(leaf: Any) -> Any:
        if is_no_value(leaf):
            return None
        a = abstract(leaf)
        return ShapeDtypeStruct(a.shape, a.dtype) if is_inexact(a.dtype) else None

    return tree_map(of, x)

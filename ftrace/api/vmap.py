"""`vmap`: a function of one member made a function of a whole axis of them."""

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from ftrace.api.calls import brief, check_callable, name_of, transformed
from ftrace.control.drawing import ELEMENTS
from ftrace.control.functions import (
    Apart,
    FlatFunction,
    argument_avals,
    argument_paths,
    flatten_call,
    is_no_value,
    result_avals,
)
from ftrace.control.once import Batching, checked
from ftrace.control.rows.raising import errors_last
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.errors import AxisError, DtypeError, ShapeError, TreeError
from ftrace.core.tree import PyTreeDef, broadcast_prefix, paths, tree_flatten
from ftrace.interpreters.batching import Axis, batch_flat, place_axis
from ftrace.interpreters.captures import owned
from ftrace.lifting.restart import Restart

P = ParamSpec("P")


def _is_none(x: Any) -> bool:
    return x is None


def vmap(
    fun: Callable[P, Any],
    in_axes: int | Sequence[Any] | None = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    *,
    lift: bool = True,
) -> Callable[P, Any]:
    """Map a function over array axes, as one batched computation.

    Args:
        fun: function of one member.
        in_axes: for each positional argument the axis to map, or None for "the same for all";
            an integer for all arguments, or a tuple whose entries may be containers matching
            the arguments. Keyword arguments are mapped over axis 0.
        out_axes: where the axis appears in the results; None for a result that is not mapped.
        axis_name: a name that collectives such as `ftrace.lax.psum` refer to.
        axis_size: the size, needed only where no argument is mapped.
        lift: where a mapped value decides Python's control flow, or is stored into a plain
            array, the function runs again, lifted (`ftrace.lift`), and from then on at once.
            False leaves it and all that it calls as they are: questions such as
            `type(x) is float` are then answered for a tracer.

    Returns:
        A function with `fun`'s signature over batched arguments.

    Raises:
        ShapeError: mapped axes of different sizes, or none at all.
        AxisError: an argument does not have the axis.
        TreeError: `in_axes` or `out_axes` does not match.

    Example:
        >>> import numpy as np, ftrace
        >>> dot = ftrace.vmap(lambda x, w: np.sum(x * w), in_axes=(0, None))
        >>> dot(np.eye(2), np.array([3.0, 4.0]))
        array([3., 4.])
    """
    check_callable(fun, "vmap")
    in_axes = _known_axes(in_axes)
    _check_axis(axis_name, axis_size)
    restart = Restart(fun, lift)

    def call(*args: Any, **kwargs: Any) -> Any:
        apart = Apart(*flatten_call(args, kwargs), is_no_value)
        leaves, tree = apart.leaves, apart.tree
        avals = argument_avals(fun, leaves, tree)
        dims = apart.select(_in_dims(fun, in_axes, args, kwargs))
        dims = [
            _checked(d, a, i, (fun, tree)) for i, (d, a) in enumerate(zip(dims, avals, strict=True))
        ]
        axis = Axis(_size(fun, tree, dims, avals, axis_size), axis_name)
        flat = FlatFunction(fun, tree)
        given = (*args, *kwargs.values())

        def members(values: list[Any] = leaves) -> tuple[list[Any], list[Any]]:
            return batch_flat(errors_last(flat), axis, values, dims)

        if restart.repeats(given):
            runs = Batching(members, leaves, dims, lambda attempt: restart(attempt, given))
            ys, found = checked(runs, fun, ELEMENTS, apart.fixed)
        else:
            ys, found = restart(members, given)
        result_avals(fun, ys, flat.out_tree)
        wanted = _out_dims(fun, out_axes, flat.out_tree, ys)
        rows = zip(ys, found, wanted, paths(flat.out_tree, "result"), strict=True)
        placed = [_place(y, d, w, axis, path) for y, d, w, path in rows]
        return flat.out_tree.unflatten(owned(placed, leaves))

    key = ("vmap", _hashable(in_axes), _hashable(out_axes), axis_name, axis_size, lift)
    return transformed(fun, call, key, f"{name_of(fun)} mapped over axes {in_axes!r}.")


def _known_axes(in_axes: Any) -> Any:
    """`in_axes` as an int, None or a tuple."""
    if isinstance(in_axes, list):
        return tuple(in_axes)
    if in_axes is None or (issubclass(type(in_axes), int | tuple) and type(in_axes) is not bool):
        return in_axes
    raise DtypeError(
        f"in_axes of vmap must be an int, None or a tuple, not {brief(in_axes)}.",
        "Give one axis for all arguments, or a tuple with one entry for each.",
    )


def _check_axis(name: Any, size: Any) -> None:
    if not (size is None or (issubclass(type(size), int | np.integer) and size >= 0)):
        raise DtypeError(
            f"axis_size of vmap is {brief(size)}.", "Give how many members there are, an int."
        )
    if not (name is None or type(name) is tuple or issubclass(type(name), str)):
        raise DtypeError(
            f"axis_name of vmap is {brief(name)}.", "Give a string, by which collectives find it."
        )


def _hashable(axes: Any) -> Any:
    leaves, tree = tree_flatten(axes, _is_none)
    return tree, tuple(leaves)


def _in_dims(fun: Any, in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise TreeError(
            f"vmap of {name_of(fun)}: in_axes has {len(in_axes)} entries for {len(args)} "
            "positional arguments.",
            "Give one entry for each argument.",
        )
    count = len(tree_flatten(kwargs)[0])
    if in_axes is None or issubclass(type(in_axes), int):
        return [in_axes] * len(tree_flatten(args)[0]) + [0] * count
    return _prefix(fun, "in_axes", in_axes, args) + [0] * count


def _prefix(fun: Any, what: str, axes: Any, full: Any) -> list[Any]:
    """One axis for every leaf of arguments or results."""
    try:
        return broadcast_prefix(axes, full, _is_none, what)
    except TreeError as error:
        owner = "arguments" if what == "in_axes" else "result"
        raise TreeError(
            f"vmap of {name_of(fun)}: {what} does not fit the {owner}. {error.what}",
            f"Give {what} the containers of the {owner}; an integer or None may stand for a whole "
            "container.",
        ) from None


def _checked(dim: Any, a: ShapedArray, index: int, where: tuple[Any, PyTreeDef]) -> Any:
    if dim is None:
        return None
    fun, tree = where
    if not issubclass(type(dim), int) or type(dim) is bool:
        path = argument_paths(fun, tree)[index]
        raise TreeError(
            f"vmap of {name_of(fun)}: in_axes has {dim!r} for {path}.", "Use integers and None."
        )
    if not -a.ndim <= dim < a.ndim:
        path = argument_paths(fun, tree)[index]
        raise AxisError(
            f"vmap of {name_of(fun)} was to map axis {dim} of {path}, which is {a}.",
            "Use in_axes=None for an argument that is the same for every member."
            if not a.ndim
            else f"Its axes go from {-a.ndim} to {a.ndim - 1}; None is for an argument that is the "
            "same for every member.",
        )
    return dim % a.ndim


def _size(
    fun: Any, tree: PyTreeDef, dims: list[Any], avals: list[ShapedArray], given: int | None
) -> int:
    sizes = {a.shape[d] for d, a in zip(dims, avals, strict=True) if d is not None}
    if given is not None:
        sizes.add(given)
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        raise ShapeError(
            f"vmap of {name_of(fun)}: no argument is mapped, so the size is not known.",
            "Map an argument (in_axes=0) or give axis_size.",
        )
    described = [
        f"{path} is {a} and maps axis {d} of size {a.shape[d]}"
        for path, a, d in zip(argument_paths(fun, tree), avals, dims, strict=True)
        if d is not None
    ]
    described += [] if given is None else [f"axis_size is {given}"]
    raise ShapeError(
        f"vmap of {name_of(fun)}: mapped axes differ in size: {'; '.join(described)}.",
        "All mapped axes must have one size; give in_axes=None for what is not mapped.",
    )


def _out_dims(fun: Any, out_axes: Any, tree: PyTreeDef, ys: list[Any]) -> list[Any]:
    if out_axes is None or issubclass(type(out_axes), int):
        return [out_axes] * len(ys)
    return _prefix(fun, "out_axes", out_axes, tree.unflatten(ys))


def _place(y: Any, dim: Any, wanted: Any, axis: Axis, path: str) -> Any:
    if wanted is None:
        if dim is not None:
            raise TreeError(
                f"out_axes of vmap is None for {path}, which differs between members.",
                "Give the axis where the members are to be stacked.",
            )
        return y
    if not issubclass(type(wanted), int) or type(wanted) is bool:
        raise DtypeError(
            f"out_axes of vmap is {brief(wanted)} for {path}.", "Use integers and None."
        )
    rank = len(typeof(y).shape) + (dim is None)
    if not -rank <= wanted < rank:
        raise AxisError(
            f"out_axes of vmap is {wanted} for {path}, which has {rank} axes with the mapped one.",
            f"Use an axis from {-rank} to {rank - 1}.",
        )
    return place_axis(y, dim, axis, wanted)

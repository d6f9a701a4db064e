"""Tangents and cotangents that users pass, compared with what they belong to.

Containers, shapes and dtypes must fit; the error names the first place where they do not, in the
caller's words (`tangents[0]['w']`, `ct['y']`). Python numbers and integers are converted.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.api.calls import brief, name_of
from ftrace.control.functions import Apart
from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.device import to_host
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError, FtraceError, ShapeError, TreeError
from ftrace.core.trace import UNKNOWN, Tracer
from ftrace.core.tree import PyTreeDef, paths, tree_flatten, tree_mismatch
from ftrace.core.zero import ZERO
from ftrace.primitives.convert import convert_element_type

# ---------------------------------------------------------------------------------- tangents


def check_tuple(what: str, name: str, values: Any) -> None:
    """Raise `DtypeError`, which is a TypeError, unless arguments came as a tuple or a list."""
    if type(values) is not tuple and not isinstance(values, tuple | list):
        raise DtypeError(
            f"{what} takes a tuple of {name}, one for each argument, and was given "
            f"{brief(values)}.",
            f"Write `({name[:-1]},)` for a single one.",
        )


def _is_none(x: Any) -> bool:
    return x is None


def match_tangents(
    what: tuple[str, Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    apart: Apart | None = None,
    name: str = "tangents",
) -> list[Any]:
    """The leaves of tangents, which have the containers of the primals.

    Raises:
        TreeError: they do not.
    """
    leaves, tree = tree_flatten(tangents)
    own, expected = tree_flatten(primals)
    if tree != expected:  # because of None in the tangents?
        leaves, tree = tree_flatten(tangents, _is_none)
        if tree != expected:  # in the primals, too?
            own, expected = tree_flatten(primals, _is_none)
        if tree != expected:
            words = tree_mismatch(expected, tree, name)
            raise TreeError(
                f"{what[0]} {name_of(what[1])}: primals and {name} differ {words}.",
                f"Give {name} in the containers of the primals, one for each.",
            )
        leaves = [t for t, x in zip(leaves, own, strict=True) if x is not None]
    return leaves if apart is None else apart.select(leaves)


def checked_tangents(given: list[Any], avals: Sequence[ShapedArray], tree: PyTreeDef) -> list[Any]:
    """Tangents, checked against their primals' types; the error names the first that fails."""
    try:
        return [checked_tangent(t, a, "") for t, a in zip(given, avals, strict=True)]
    except FtraceError:
        for t, a, path in zip(given, avals, paths(tree), strict=True):
            checked_tangent(t, a, path)
        raise


def checked_tangent(t: Any, a: ShapedArray, path: str) -> Any:
    """One tangent, checked against its primal's type."""
    if not is_inexact(a.dtype):
        t = to_host(t)
        traced = issubclass(type(t), Tracer) and t.known(exact=False) is UNKNOWN
        plain = issubclass(type(t), np.ndarray | np.generic)
        if t is None or not (traced or np.any(t if plain else t != 0)):
            return ZERO
        raise DtypeError(
            f"tangents{path} is {brief(t)}, and primals{path} is {a}, which has no tangent.",
            "Pass 0 or None for integers and booleans.",
        )
    if t is None:
        return ZERO
    given = typeof(t)
    if given.shape != a.shape:
        raise ShapeError(
            f"tangents{path} has shape {given.shape}, and primals{path} is {a}.",
            "A tangent has the shape of its primal; a batch of tangents has one leading axis more, "
            "all of them.",
        )
    if given.dtype == a.dtype and not given.weak:
        return t
    adapts = given.weak or a.dtype.kind == "c"
    if not adapts or dtypes.KIND[given.dtype.kind] > dtypes.KIND[a.dtype.kind]:
        raise DtypeError(
            f"tangents{path} has dtype {given.dtype}, and primals{path} is {a}.",
            f"Convert it: `t.astype(np.{a.dtype})`.",
        )
    return convert_element_type(t, new_dtype=a.dtype)


# ---------------------------------------------------------------------------------- cotangents


def match_cotangents(fun: Any, tree: PyTreeDef, avals: Sequence[ShapedArray], ct: Any) -> list[Any]:
    """The leaves of a cotangent of the result's structure; None for "no contribution".

    Raises:
        TreeError, ShapeError, DtypeError: a part that does not fit, named by its path.
    """
    leaves, given = tree_flatten(ct, _is_none)
    if given != tree:
        if ct is None:
            return [None] * len(avals)
        leaves = _up_to(tree, ct)
    if leaves is None:
        words = tree_mismatch(tree, given, "ct")
        raise TreeError(
            f"The pullback of {name_of(fun)} was given a cotangent that differs {words}.",
            "A cotangent has the structure of the function's result.",
        )
    return [
        None if t is None else _cotangent(t, a, path)
        for t, a, path in zip(leaves, avals, paths(tree, "ct"), strict=True)
    ]


def _up_to(tree: PyTreeDef, ct: Any) -> list[Any] | None:
    """A part for each leaf, where None in both is no part; None where the structures differ."""
    try:
        parts = tree.flatten_up_to(ct)
    except TreeError:
        return None
    fits = all(t is None or tree_flatten(t)[1].kind is None for t in parts)
    return parts if fits else None


def _cotangent(ct: Any, a: ShapedArray, path: str) -> Any:
    if not is_inexact(a.dtype):
        return None
    given = typeof(ct)
    if given.shape != a.shape:
        raise ShapeError(
            f"{path} has shape {given.shape}, and the result it belongs to is {a}.",
            "A cotangent has the shape of its result.",
        )
    if given.dtype != a.dtype or given.weak:
        if given.dtype.kind == "c" and a.dtype.kind != "c":
            raise DtypeError(
                f"{path} is complex, and the result it belongs to is {a}.",
                "Pass its real part.",
            )
        return convert_element_type(ct, new_dtype=a.dtype)
    return ct

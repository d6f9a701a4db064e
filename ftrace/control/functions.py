"""User functions as functions of flat values, and staged to jaxprs without consts.

`FlatFunction` hides the containers of arguments and results. `stage_function` traces one and
makes everything it captured, arrays and tracers, leading operands: this is how each row that
holds a jaxpr gets it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.errors import DtypeError
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.trace import FROZEN, Tracer
from ftrace.core.tree import PyTreeDef, paths, tree_flatten
from ftrace.interpreters.staging import hoist_consts, trace_to_jaxpr


def name_of(fun: Any) -> str:
    """How a function is called in messages."""
    return getattr(fun, "__name__", type(fun).__name__)


def frozen(x: Any) -> Any:
    """A value as a user's rule or branch gets it: it cannot be written."""
    if isinstance(x, Tracer):
        x = x.fresh()
        x.alias = FROZEN
    elif isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return x


class FlatFunction:
    """`fn(*args, **kwargs)` as a function of the leaves of `(args, kwargs)`.

    `out_tree` is the structure of the last result.
    """

    __slots__ = ("__name__", "fn", "in_tree", "out_tree")

    def __init__(self, fn: Callable[..., Any], in_tree: PyTreeDef) -> None:
        self.fn = fn
        self.in_tree = in_tree
        self.out_tree: Any = None
        self.__name__ = name_of(fn)

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = self.in_tree.unflatten(leaves)
        out, self.out_tree = tree_flatten(self.fn(*args, **kwargs))
        return out


@dataclass(frozen=True, slots=True)
class Staged:
    """A function's jaxpr, the values it captured (its leading operands), its result's tree."""

    jaxpr: Jaxpr
    captured: list[Any]
    out_tree: PyTreeDef


def stage_function(
    fn: Callable[..., Any],
    in_tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    names: tuple[str, ...] = (),
) -> Staged:
    """Trace a user function on abstract leaves."""
    flat = FlatFunction(fn, in_tree)
    jaxpr, tracers = trace_to_jaxpr(flat, avals, names)
    jaxpr, arrays = hoist_consts(jaxpr)
    return Staged(jaxpr, [*arrays, *tracers], flat.out_tree)


def leaf_avals(leaves: Sequence[Any], tree: PyTreeDef, name: str) -> list[ShapedArray]:
    """The avals of leaves; a leaf that is no array is named by its path."""
    try:
        return [typeof(x) for x in leaves]
    except DtypeError:
        for x, path in zip(leaves, paths(tree, name), strict=True):
            _check_leaf(x, path)
        raise


def _check_leaf(x: Any, path: str) -> None:
    try:
        typeof(x)
    except DtypeError as error:
        raise DtypeError(f"{path}: {error.what}", error.fix) from None

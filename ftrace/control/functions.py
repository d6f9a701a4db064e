"""User functions as functions of flat values, and staged to jaxprs without consts.

`FlatFunction` hides the containers of arguments and results. `stage_function` traces one and
makes everything it captured, arrays and tracers, leading operands: this is how each row that
holds a jaxpr gets it. `argument_avals` and `result_avals` check leaves and name a wrong one by the
user's own words for it (`params['w'].b`).
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.device import copied, on_device
from ftrace.core.errors import DtypeError
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.trace import FROZEN, Tracer, lifted
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
    elif on_device(x):  # no such flag there
        x = copied(x)
    return x


_call_trees: dict[PyTreeDef, PyTreeDef] = {}  # structure of args -> structure of (args, {})


def flatten_call(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> tuple[list[Any], PyTreeDef]:
    """The leaves and the structure of `(args, kwargs)`."""
    if kwargs:
        return tree_flatten((args, kwargs))
    leaves, tree = tree_flatten(args)
    call = _call_trees.get(tree)
    if call is None:
        if len(_call_trees) > 1000:
            _call_trees.clear()
        call = _call_trees[tree] = tree_flatten((args, {}))[1]
    return leaves, call


class FlatFunction:
    """`fn(*args, **kwargs)` as a function of the leaves of `(args, kwargs)`.

    `out_tree` is the structure of the last result.
    """

    __slots__ = ("__name__", "_args_tree", "fn", "in_tree", "out_tree")

    def __init__(self, fn: Callable[..., Any], in_tree: PyTreeDef) -> None:
        self.fn = fn
        self.in_tree = in_tree
        self.out_tree: Any = None
        self.__name__ = name_of(fn)
        args_tree, kwargs_tree = in_tree.subs
        self._args_tree = None if kwargs_tree.subs else args_tree  # usually no keywords

    def __call__(self, *leaves: Any) -> list[Any]:
        fn = lifted(self.fn)
        if self._args_tree is not None:
            out = fn(*self._args_tree.unflatten(leaves))
        else:
            args, kwargs = self.in_tree.unflatten(leaves)
            out = fn(*args, **kwargs)
        flat, self.out_tree = tree_flatten(out)
        return flat


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

    def checked(*leaves: Any) -> list[Any]:
        out = flat(*leaves)
        result_avals(fn, out, flat.out_tree)
        return out

    jaxpr, tracers = trace_to_jaxpr(checked, avals, names)
    jaxpr, arrays = hoist_consts(jaxpr)
    return Staged(jaxpr, [*arrays, *tracers], flat.out_tree)


# ---------------------------------------------------------------------------------- leaves


def parameters(fun: Any) -> tuple[str, ...]:
    """The positional parameter names of a function; empty where they cannot be known."""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(n for n, p in signature.parameters.items() if p.kind in kinds)


def argument_name(fun: Any, position: int) -> str:
    """The user's name of a positional argument."""
    known = parameters(fun)
    return known[position] if position < len(known) else f"args[{position}]"


def argument_paths(fun: Any, tree: PyTreeDef, skipped: Sequence[int] = ()) -> list[str]:
    """The user's names of all leaves of `(args, kwargs)`; `skipped` positions are not in it."""
    args, kwargs = tree.children()
    parts = args.children()
    positions = [i for i in range(len(parts) + len(skipped)) if i not in skipped]
    found = [
        path
        for i, part in zip(positions, parts, strict=False)
        for path in paths(part, argument_name(fun, i))
    ]
    for key, part in zip((kwargs.node_data() or ((), ()))[1], kwargs.children(), strict=True):
        found.extend(paths(part, key))
    return found


def argument_avals(
    fun: Any, leaves: Sequence[Any], tree: PyTreeDef, skipped: Sequence[int] = ()
) -> list[ShapedArray]:
    """The avals of the leaves of `(args, kwargs)`.

    Raises:
        DtypeError: one that is no array, named by the argument and the path in it.
    """
    try:
        return [typeof(x) for x in leaves]
    except DtypeError:
        raise untraceable(fun, leaves, argument_paths(fun, tree, skipped)) from None


def result_avals(
    fun: Any, leaves: Sequence[Any], tree: PyTreeDef, what: str = "result"
) -> list[ShapedArray]:
    """The avals of what a function returned.

    Raises:
        DtypeError: a part that is no array, named by its path.
    """
    try:
        return [typeof(x) for x in leaves]
    except DtypeError:
        raise untraceable(fun, leaves, paths(tree, what), _RESULTS) from None


_RESULTS = "Return arrays, numbers, and containers of them; has_aux=True lets grad return more."


def untraceable(fun: Any, leaves: Sequence[Any], names: Sequence[str], fix: str = "") -> DtypeError:
    """The error for the first leaf that is no array."""
    errors = map(_refusal, leaves)
    path, error = next((p, e) for p, e in zip(names, errors, strict=True) if e is not None)
    why = error.what[0].lower() + error.what[1:]
    return DtypeError(f"{path} of {name_of(fun)}: {why}", fix or error.fix)


def _refusal(x: Any) -> DtypeError | None:
    try:
        typeof(x)
    except DtypeError as error:
        return error
    return None

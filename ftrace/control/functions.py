"""User functions as functions of flat values, and staged to jaxprs without consts.

`FlatFunction` hides the containers of arguments and results. `stage_function` traces one and
makes everything it captured, arrays and tracers, leading operands: this is how each row that
holds a jaxpr gets it. `argument_avals` and `result_avals` check leaves and name a wrong one by the
user's own words for it (`params['w'].b`).
"""

import enum
import inspect
import types
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from ftrace.core.avals import SCALAR_AVALS, TYPEOF, ShapedArray, typeof, typeof_traced
from ftrace.core.changed_arguments import Containers
from ftrace.core.device import copied, on_device
from ftrace.core.errors import DtypeError
from ftrace.core.foreign import refused_elsewhere
from ftrace.core.foreign_arrays import adopt
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.nodes import lost
from ftrace.core.records import record
from ftrace.core.trace import FROZEN, Tracer, lifted
from ftrace.core.tree import (
    LEAF,
    NOTHING,
    PyTreeDef,
    argument,
    constant,
    constants_of,
    paths,
    tree_flatten,
    with_leaves,
)
from ftrace.interpreters.staging import hoist_consts, trace_to_jaxpr


def name_of(fun: Any) -> str:
    """How a function is called in messages."""
    return getattr(fun, "__name__", type(fun).__name__)


def frozen(x: Any) -> Any:
    """A value as a user's rule or branch gets it: it cannot be written."""
    if isinstance(x, Tracer):
        x = x.fresh()
        x.alias = FROZEN
    elif issubclass(type(x), np.ndarray):
        x = x.view()
        x.flags.writeable = False
    elif on_device(x):  # no such flag there
        x = copied(x)
    return x


_call_trees: dict[Any, PyTreeDef] = {}  # structure of args -> structure of (args, {})


def flatten_call(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> tuple[list[Any], PyTreeDef]:
    """The leaves and the structure of `(args, kwargs)`."""
    if kwargs:
        return tree_flatten((args, kwargs))
    leaves, tree = tree_flatten(args)
    key = tree if tree.order is None else (tree, tree.order)
    call = _call_trees.get(key)
    if call is None:
        if len(_call_trees) > 1000:
            _call_trees.clear()
        call = _call_trees[key] = tree_flatten((args, {}))[1]
    return leaves, call


class Apart:
    """The leaves of `(args, kwargs)`, without those that stay as they are.

    Inside a container a string, a function and the like are no arguments of what is traced: they
    are part of the structure.

    Attributes:
        leaves, tree: what is left, and the structure that holds the others.
        kept: which leaves these are; None: all.
        fixed: the others.
    """

    __slots__ = ("fixed", "kept", "leaves", "tree")

    def __init__(self, leaves: list[Any], tree: PyTreeDef, stays: Callable[[Any], bool]) -> None:
        self.leaves, self.tree = leaves, tree
        self.kept: list[bool] | None = None
        self.fixed: list[Any] = []
        if tree.num_nodes == len(leaves) + 3 or not any(map(stays, leaves)):  # 3: no containers
            return
        tops = [top for part in tree.subs for top in part.subs]
        inner = [top.kind is not None for top in tops for _ in range(top.num_leaves)]
        self.kept = kept = [not (i and stays(x)) for i, x in zip(inner, leaves, strict=True)]
        parts = [LEAF if k else constant(x) for k, x in zip(kept, leaves, strict=True)]
        self.tree = with_leaves(tree, iter(parts))
        self.leaves = self.select(leaves)
        self.fixed = [x for k, x in zip(kept, leaves, strict=True) if not k]

    def select(self, values: list[Any]) -> list[Any]:
        """Those of values for all leaves that belong to the leaves that are left."""
        return values if self.kept is None else list(compress(values, self.kept))

    def without(self, tree: PyTreeDef) -> PyTreeDef:
        """The structure of the arguments with None for what stays: that of a gradient."""
        if self.kept is None:
            return tree
        return with_leaves(tree, iter([LEAF if k else NOTHING for k in self.kept]))


# Not objects of any class: one that nobody registered may hold arrays.
_SETTINGS = (
    *(str, bytes, enum.Enum, type, np.dtype, np.ufunc),
    *(types.FunctionType, types.BuiltinFunctionType),
)


def is_no_value(x: Any) -> bool:
    """Whether a leaf is a text, a function or the like, and not traced."""
    if type(x) in TYPEOF or type(x) in SCALAR_AVALS:
        return False
    return issubclass(type(x), _SETTINGS) or hasattr(x, "__ftrace__")


def is_setting(x: Any) -> bool:
    """Whether a leaf is one of these, or a Python integer or boolean."""
    return type(x) is int or type(x) is bool or is_no_value(x)


@record
class User:
    """A user's function that is traced.

    Attributes:
        fun: the function.
        slots: positions and names of the arguments that are given; None: all from the first one.
        skipped: the positions that are not among them.
        may_change: whether it may change the containers among its arguments.
    """

    fun: Any
    slots: Sequence[int | str] | None = None
    skipped: Sequence[int] = ()
    may_change: bool = False

    def names(self, count: int) -> list[str]:
        """What it calls the first arguments of these."""
        every = range(count + len(self.skipped)) if self.slots is None else self.slots
        slots = [s for s in every if s not in self.skipped][:count]
        return [s if isinstance(s, str) else argument_name(self.fun, s) for s in slots]


class FlatFunction:
    """`fn(*args, **kwargs)` as a function of the leaves of `(args, kwargs)`.

    `out_tree` is the structure of the last result.

    Args:
        fn: the function.
        in_tree: the structure of `(args, kwargs)`.
        user: the user's function, where `fn` is another one.
    """

    __slots__ = ("__name__", "_args_tree", "_may_change", "_user", "fn", "in_tree", "out_tree")

    def __init__(
        self, fn: Callable[..., Any], in_tree: PyTreeDef, user: User | None = None
    ) -> None:
        self.fn = fn
        self._user = user or User(fn)
        no_containers = in_tree.num_nodes == in_tree.num_leaves + 3
        self._may_change = no_containers or self._user.may_change
        self.in_tree = in_tree
        self.out_tree: Any = None
        self.__name__ = name_of(fn)
        args_tree, kwargs_tree = in_tree.subs
        self._args_tree = None if kwargs_tree.subs else args_tree  # usually no keywords

    def __call__(self, *leaves: Any) -> list[Any]:
        fn = lifted(self.fn)
        try:
            if self._args_tree is not None:
                args, kwargs = argument(self._args_tree, leaves), {}
            else:
                args, kwargs = argument(self.in_tree, leaves)
            before = None if self._may_change else Containers(self.in_tree, args, kwargs)
            out = fn(*args, **kwargs)
        except (AttributeError, TypeError) as error:
            named = lost(error) if isinstance(error, AttributeError) else refused_elsewhere(error)
            if named is None:
                raise
            raise named from error
        if before is not None:
            before.check(self._user.fun, out, self._names)
        flat, self.out_tree = tree_flatten(out)
        if self.in_tree.is_mixed:  # what is returned of its constants is no traced result
            known = {id(x) for x in constants_of(self.in_tree)}
            stays = [id(x) in known for x in flat]
            parts = [constant(x) if s else LEAF for s, x in zip(stays, flat, strict=True)]
            self.out_tree = with_leaves(self.out_tree, iter(parts))
            return [x for s, x in zip(stays, flat, strict=True) if not s]
        return flat

    def _names(self) -> list[str]:
        args, kwargs = self.in_tree.subs
        return self._user.names(len(args.subs)) + list(kwargs.data)


@record
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
    values: Sequence[Any] = (),
    user: User | None = None,
) -> Staged:
    """Trace a user function on abstract leaves; `values` are these, where they are known."""
    flat = FlatFunction(fn, in_tree, user)

    def checked(*leaves: Any) -> list[Any]:
        out = flat(*leaves)
        result_avals(fn, out, flat.out_tree)
        return out

    jaxpr, tracers = trace_to_jaxpr(checked, avals, names, values)
    jaxpr, arrays = hoist_consts(jaxpr)
    return Staged(jaxpr, [*arrays, *tracers], flat.out_tree)


# ---------------------------------------------------------------------------------- leaves


def is_zero_d(x: Any) -> bool:
    """Whether a value of rank 0 is an array, and no scalar."""
    return x.__class__ is np.ndarray


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
    """The avals of the leaves of `(args, kwargs)`; other libraries' arrays are replaced by NumPy's.

    Raises:
        DtypeError: one that is no array, named by the argument and the path in it.
    """
    try:
        return [typeof_traced(x) for x in leaves]
    except DtypeError:
        if type(leaves) is list and adopt(leaves):
            return argument_avals(fun, leaves, tree, skipped)
        raise untraceable(fun, leaves, argument_paths(fun, tree, skipped)) from None


def result_avals(
    fun: Any, leaves: Sequence[Any], tree: PyTreeDef, what: str = "result"
) -> list[ShapedArray]:
    """The avals of what a function returned, or of what a loop starts with (`what`).

    Raises:
        DtypeError: a part that is no array, named by its path.
    """
    ask, fix = (typeof, _RESULTS) if what == "result" else (typeof_traced, "")
    try:
        return [ask(x) for x in leaves]
    except DtypeError:
        raise untraceable(fun, leaves, paths(tree, what), fix, ask) from None


_RESULTS = "Return arrays, numbers, and containers of them; has_aux=True lets grad return more."


def untraceable(
    fun: Any,
    leaves: Sequence[Any],
    names: Sequence[str],
    fix: str = "",
    ask: Callable[[Any], ShapedArray] = typeof_traced,
) -> DtypeError:
    """The error for the first leaf that is no array."""
    errors = [_refusal(ask, x) for x in leaves]
    path, error = next((p, e) for p, e in zip(names, errors, strict=True) if e is not None)
    why = error.what[0].lower() + error.what[1:]
    return DtypeError(f"{path} of {name_of(fun)}: {why}", fix or error.fix)


def _refusal(ask: Callable[[Any], ShapedArray], x: Any) -> DtypeError | None:
    try:
        ask(x)
    except DtypeError as error:
        return error
    return None

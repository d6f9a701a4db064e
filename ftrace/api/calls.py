"""What all transformations do around a call: choose arguments, keep signatures, hide frames.

Nothing here is public. `ArgumentSelection` turns `argnums` (integers, tuples, parameter names) into
the arguments to transform, `differentiable` checks them; `transformed` makes the wrapper that users
get.
"""

from __future__ import annotations  # inner functions are made at every call

import functools
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from types import FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.api.argument_paths import NO_STEPS, parsed, replaced, value_at
from ftrace.control.functions import (
    Apart,
    FlatFunction,
    User,
    argument_name,
    flatten_call,
    is_setting,
    name_of,
    parameters,
    untraceable,
)
from ftrace.core import source
from ftrace.core.avals import typeof, typeof_traced
from ftrace.core.config import config
from ftrace.core.errors import DtypeError, FtraceError, TreeError
from ftrace.core.foreign_arrays import adopted
from ftrace.core.lazy import lazy
from ftrace.core.trace import EVAL, ctx, lifted
from ftrace.core.tree import PyTreeDef, paths, tree_structure

P = ParamSpec("P")
R = TypeVar("R")

_TAKE_INTEGERS = ("The gradient", "jacrev", "jacobian")  # that have the option allow_int
ArgNums = int | str | Sequence[int | str]

_FIRST = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")
_FURTHER = [name for name in functools.WRAPPER_ASSIGNMENTS if name not in _FIRST]
_lift = lazy("ftrace.lifting.lifted", "lift")


def check_callable(fun: Any, what: str) -> None:
    """Raise `DtypeError`, which is a TypeError, unless `fun` can be called."""
    if not callable(fun):
        raise DtypeError(
            f"{what} takes a function first, and was given {brief(fun)}.",
            f"Pass the function itself, `{what}(f)`, not the result of calling it, `{what}(f(x))`.",
        )


def to_transform(fun: Any, what: str, lift: bool) -> Any:
    """The function that a transformation is given, lifted if that is asked for."""
    check_callable(fun, what)
    return _lift(fun) if lift else fun


def brief(x: Any) -> str:
    """A wrong argument in a message: its type, and its value where that is short."""
    text = repr(x)
    kind = f"of type {type(x).__name__}"
    return f"{text} ({kind})" if len(text) <= 40 and "\n" not in text else f"a value {kind}"


def positions(option: str, fun: Any, nums: Sequence[int], count: int) -> tuple[int, ...]:
    """Positions of arguments, counted from the front.

    Raises:
        TreeError: one that a call with `count` positional arguments does not have.
    """
    for n in nums:
        if not -count <= n < count:
            raise TreeError(
                f"{option}={n} names an argument that this call of {name_of(fun)} does not have: "
                f"it has {count} positional arguments.",
                "Count positional arguments from 0.",
            )
    return tuple(n % count for n in nums)


def check_hashable(fun: Any, label: int | str, value: Any) -> None:
    """Raise `DtypeError`, which is a TypeError, unless a static argument can be hashed."""
    try:
        hash(value)
    except TypeError:
        name = label if isinstance(label, str) else argument_name(fun, label)
        raise DtypeError(
            f"The static argument {name} of {name_of(fun)} is a {type(value).__name__}, which "
            "cannot be hashed.",
            "Static arguments are part of the cache key: pass a tuple instead of a list, or make "
            "the argument an ordinary one.",
        ) from None


class ArgumentSelection:
    """The arguments of one call that a transformation acts on.

    Attributes:
        values: the selected arguments, in the order of `argnums`.
        single: whether `argnums` was one argument rather than a tuple.
        tree: the structure of the gradient; `differentiable` finds it.
    """

    __slots__ = ("_args", "_fun", "_kwargs", "_slots", "_steps", "single", "tree", "values")

    def __init__(
        self, fun: Any, argnums: ArgNums, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.tree: Any = None
        wanted = (argnums,) if isinstance(argnums, str) else argnums
        wanted = wanted if isinstance(wanted, Sequence) else (wanted,)
        self.single = wanted is not argnums
        named = {n: parsed(n) for n in wanted if isinstance(n, str)}
        if named and type(fun) is MethodType and any(n == "self" for n, _ in named.values()):
            fun, args = fun.__func__, (fun.__self__, *args)
            wanted = [n if isinstance(n, str) or n < 0 else n + 1 for n in wanted]
            own = next(iter(parameters(fun)), "self")  # what the method calls its object
            named = {n: (own if s == "self" else s, steps) for n, (s, steps) in named.items()}
        self._fun, self._args, self._kwargs = fun, args, kwargs
        if named:
            self._kwargs = _with_defaults(fun, {name for name, _ in named.values()}, args, kwargs)
        self._slots = [
            _slot(fun, named[n][0] if isinstance(n, str) else n, args, self._kwargs) for n in wanted
        ]
        self._steps = [named[n][1] if isinstance(n, str) else NO_STEPS for n in wanted]
        if len(self._slots) > 1:
            self._check_apart(argnums)
        given = [self._kwargs[s] if isinstance(s, str) else args[s] for s in self._slots]
        if named:
            parts = zip(given, self._steps, wanted, strict=True)
            given = [value_at(x, steps, str(n)) if steps else x for x, steps, n in parts]
        self.values = tuple(given)

    def _check_apart(self, argnums: ArgNums) -> None:
        places = list(zip(self._slots, self._steps, strict=True))
        for i, (slot, steps) in enumerate(places):
            for other, more in places[:i]:
                n = min(len(steps), len(more))
                if slot == other and steps[:n] == more[:n]:
                    raise TreeError(
                        f"argnums={argnums!r} names an argument of {name_of(self._fun)} twice.",
                        "Name each argument once.",
                    )

    def paths(self, fun: Any, tree: PyTreeDef) -> list[str]:
        """The user's names of the leaves of the selected arguments; `tree` is that of `values`."""
        names = User(self._fun, self._slots).names(len(self._slots))
        full = ["".join([n, *map(str, s)]) for n, s in zip(names, self._steps, strict=True)]
        parts = zip(full, tree.children(), strict=True)
        return [path for name, part in parts for path in paths(part, name)]

    def function(self, fun: Any, tree: PyTreeDef) -> FlatFunction:
        """`fun` as a function of the leaves of the selected arguments."""
        user = User(self._fun, self._slots)
        return FlatFunction(lambda *values: self.call(fun, values), tree, user)

    def call(self, fun: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Call `fun` with the selected arguments replaced."""
        args, kwargs = list(self._args), dict(self._kwargs)
        for s, steps, v in zip(self._slots, self._steps, values, strict=True):
            into: Any = kwargs if isinstance(s, str) else args
            into[s] = replaced(into[s], steps, v) if steps else v
        return lifted(self._fun)(*args, **kwargs)


def _with_defaults(
    fun: Any, names: set[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The keyword arguments, with those of these names that were left at their defaults."""
    missing = names - kwargs.keys()
    if not missing:
        return kwargs
    try:
        known = signature(fun).parameters
    except (TypeError, ValueError):
        return kwargs
    left = [n for i, n in enumerate(known) if n in missing and i >= len(args)]
    defaults = {n: known[n].default for n in left if known[n].default is not Parameter.empty}
    return {**kwargs, **defaults} if defaults else kwargs


def _slot(fun: Any, argnum: int | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | str:
    if isinstance(argnum, str):
        if argnum in kwargs:
            return argnum
        known = parameters(fun)
        if argnum in known and known.index(argnum) < len(args):
            return known.index(argnum)
    elif issubclass(type(argnum), int) and -len(args) <= argnum < len(args):
        return argnum % len(args)
    given = [*(argument_name(fun, i) for i in range(len(args))), *(f"{k}=" for k in sorted(kwargs))]
    raise TreeError(
        f"argnums={argnum!r} names an argument that this call of {name_of(fun)} does not have. It "
        f"was given ({', '.join(given)}).",
        "Give a position, counted from 0, or the name of a parameter that is passed.",
    )


def check_argnums(what: str, argnums: Any) -> ArgNums:
    """The `argnums` option in a form that can be hashed.

    Raises:
        DtypeError: neither integers nor names; a DtypeError is a TypeError.
    """
    if issubclass(type(argnums), int | str) and not issubclass(type(argnums), bool):
        return argnums
    wanted = tuple(argnums) if isinstance(argnums, Sequence) else (argnums,)
    if not all(issubclass(type(n), int | str) and not issubclass(type(n), bool) for n in wanted):
        raise DtypeError(
            f"argnums of {what} must be positions or parameter names, not {brief(argnums)}.",
            "Give an int, a str, or a tuple of them.",
        )
    return wanted


def differentiable(
    what: str, fun: Any, chosen: ArgumentSelection, holomorphic: bool, allow_int: bool
) -> tuple[list[Any], PyTreeDef]:
    """The leaves to differentiate with respect to, and the structure of `(values, {})`.

    A Python integer that is an argument becomes a float. Inside containers integers, booleans, and
    what is no number, stay as they are: the gradient has None there.

    Raises:
        DtypeError: a leaf that has no derivative, named by its path.
    """
    apart = Apart(*flatten_call(chosen.values), _stays)
    leaves, tree = apart.leaves, apart.tree
    chosen.tree = apart.without(tree_structure(chosen.values))
    if not leaves and apart.kept:
        raise DtypeError(
            f"{what} of {name_of(fun)} was asked with respect to arguments that hold no float.",
            "Integers, booleans, strings and functions inside containers have no derivative: make "
            "them floats, or choose other argnums.",
        )
    for i, x in enumerate(leaves):
        if type(x) is int:
            leaves[i] = float(x)
            continue
        try:
            kind = typeof_traced(x).dtype.kind
        except DtypeError:
            made = adopted(x)
            if made is x:
                raise untraceable(fun, leaves, chosen.paths(fun, chosen.tree)) from None
            leaves[i] = x = made
            kind = typeof(x).dtype.kind
        if (kind == "c" if holomorphic else kind in "fc") or (allow_int and kind in "biu"):
            continue
        raise _no_derivative(what, fun, chosen.paths(fun, chosen.tree)[i], x, holomorphic)
    return leaves, tree


def _stays(x: Any) -> bool:
    """Whether a leaf inside a container is not differentiated."""
    return is_setting(x) or getattr(getattr(x, "dtype", None), "kind", "") in tuple("biu")


def _no_derivative(what: str, fun: Any, path: str, x: Any, holomorphic: bool) -> DtypeError:
    if holomorphic:
        return DtypeError(
            f"{what} of {name_of(fun)}: with holomorphic=True {path} must be complex, not "
            f"{typeof(x)}.",
            "Pass complex numbers (`1.0 + 0j`), or leave holomorphic out.",
        )
    others = "or choose other argnums."
    if what in _TAKE_INTEGERS:
        others = "choose other argnums, or allow_int=True to get None for it."
    return DtypeError(
        f"{what} of {name_of(fun)} was asked with respect to {path}, which is {typeof(x)}.",
        f"Integers and booleans have no derivative: pass floats (`x.astype(float)`), {others}",
    )


def transformed(
    fun: Callable[P, Any], call: Callable[..., R], key: tuple[Any, ...], doc: str
) -> Callable[P, R]:
    """The wrapper a transformation returns: `call` with `fun`'s name and signature.

    Args:
        fun: the user's function.
        call: what the transformed function does.
        key: hashable identity of the transformation and its options, for caches.
        doc: first line of the wrapper's docstring.
    """

    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except FtraceError as error:
            raise shortened(error)  # noqa: B904 - the same error, with fewer frames

    if type(fun) is FunctionType:  # as `functools.wraps` does, which takes its time
        wrapper.__module__, wrapper.__annotations__ = fun.__module__, fun.__annotations__
        wrapper.__name__, wrapper.__qualname__ = fun.__name__, fun.__qualname__
        for name in _FURTHER:
            setattr(wrapper, name, getattr(fun, name))
        wrapper.__wrapped__ = fun  # type: ignore[attr-defined]
    else:
        functools.update_wrapper(wrapper, fun, updated=())
    wrapper.__doc__ = doc + (f"\n\n{fun.__doc__}" if fun.__doc__ else "")
    wrapper.__ftrace__ = (fun, key)  # type: ignore[attr-defined]
    return wrapper


def shortened(error: FtraceError) -> FtraceError:
    """The error (and its cause) without ftrace's own frames, at the outermost call."""
    if config.traceback == "user" and ctx.trace is EVAL:
        for e in (error, error.__cause__):
            if isinstance(e, FtraceError):
                e.__traceback__ = source.strip_traceback(e.__traceback__)
    return error

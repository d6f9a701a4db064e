"""What all transformations do around a call: choose arguments, keep signatures, hide frames.

Nothing here is public. `selection` turns `argnums` (integers, tuples, parameter names) into the
arguments to transform; `transformed` makes the wrapper that users get.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.control.functions import name_of
from ftrace.core import source
from ftrace.core.config import config
from ftrace.core.errors import FtraceError, TreeError
from ftrace.core.trace import EVAL, ctx

P = ParamSpec("P")
R = TypeVar("R")

ArgNums = int | str | Sequence[int | str]


def check_callable(fun: Any, what: str) -> None:
    """Raise TypeError unless `fun` can be called."""
    if not callable(fun):
        raise TypeError(f"{what} expects a function as its first argument, got {fun!r}.")


def parameters(fun: Any) -> tuple[str, ...]:
    """The positional parameter names of a function; empty where they cannot be known."""
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(n for n, p in signature.parameters.items() if p.kind in kinds)


def argument_names(fun: Any, count: int) -> list[str]:
    """Names for messages of the positional arguments of a call."""
    known = parameters(fun)
    return [known[i] if i < len(known) else f"args[{i}]" for i in range(count)]


class Selection:
    """The arguments of one call that a transformation acts on.

    Attributes:
        values: the selected arguments, in the order of `argnums`.
        single: whether `argnums` was one argument rather than a tuple.
        names: their names, for messages.
    """

    __slots__ = ("_args", "_kwargs", "_slots", "names", "single", "values")

    def __init__(
        self, fun: Any, argnums: ArgNums, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._args, self._kwargs = args, kwargs
        self.single = isinstance(argnums, int | str)
        wanted = (argnums,) if isinstance(argnums, int | str) else tuple(argnums)
        self._slots = [_slot(fun, n, args, kwargs) for n in wanted]
        self.values = tuple(kwargs[s] if isinstance(s, str) else args[s] for s in self._slots)
        self.names: list[str] = []

    def describe(self, fun: Any) -> list[str]:
        """The names of the selected arguments."""
        names = argument_names(fun, len(self._args))
        return [s if isinstance(s, str) else names[s] for s in self._slots]

    def call(self, fun: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Call `fun` with the selected arguments replaced."""
        args, kwargs = list(self._args), dict(self._kwargs)
        for s, v in zip(self._slots, values, strict=True):
            if isinstance(s, str):
                kwargs[s] = v
            else:
                args[s] = v
        return fun(*args, **kwargs)


def _slot(fun: Any, argnum: int | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | str:
    if isinstance(argnum, str):
        if argnum in kwargs:
            return argnum
        known = parameters(fun)
        if argnum in known and known.index(argnum) < len(args):
            return known.index(argnum)
    elif isinstance(argnum, int) and -len(args) <= argnum < len(args):
        return argnum % len(args)
    raise TreeError(
        f"argnums={argnum!r} names an argument that this call of {name_of(fun)} does not have: "
        f"it has {len(args)} positional arguments and the keywords {sorted(kwargs)}.",
        "Give a position from 0 on, or the name of a parameter that is passed.",
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

    @functools.wraps(fun, updated=())
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except FtraceError as error:
            raise shortened(error)  # noqa: B904 - the same error, with fewer frames

    wrapper.__doc__ = doc + (f"\n\n{fun.__doc__}" if fun.__doc__ else "")
    wrapper.__ftrace__ = (fun, key)  # type: ignore[attr-defined]
    return wrapper


def shortened(error: FtraceError) -> FtraceError:
    """The error with ftrace's own frames taken out of its traceback, at the outermost call."""
    if config.traceback == "user" and ctx.trace is EVAL:
        return error.with_traceback(source.strip_traceback(error.__traceback__))
    return error

"""ftrace without cells' bookkeeping and without protected captures, to measure what they cost.

`unprotected()` replaces the functions named in `WITHOUT` for a while, in the module that owns them
and wherever they were imported. A name that is gone fails loudly: the list has to follow the code.
Only for measuring programs that never mutate. Read next: `benchmarks/overhead.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from typing import Any

Patch = tuple[Any, str, Any, Any]


def nothing(*args: Any, **kwargs: Any) -> None:
    """Instead of bookkeeping."""


def given(self: Any, value: Any) -> Any:
    """Instead of a method that copies or marks its argument."""
    return value


def first(value: Any, *rest: Any) -> Any:
    """Instead of a function that renews or marks its first argument."""
    return value


def second(base: Any, result: Any, *rest: Any) -> Any:
    """Instead of recording that a result is a view of its operand."""
    return result


def listed(values: Any, borrowed: Any = ()) -> list[Any]:
    """Instead of making results own their memory."""
    return list(values)


WITHOUT: dict[str, Callable[..., Any]] = {
    "ftrace.interpreters.captures:Captures.enter": nothing,
    "ftrace.interpreters.captures:Captures.argument": given,
    "ftrace.interpreters.captures:Captures.protect": given,
    "ftrace.interpreters.captures:Captures.release": nothing,
    "ftrace.interpreters.captures:Captures.detach": nothing,
    "ftrace.interpreters.captures:owned": listed,
    "ftrace.interpreters.jvp:JVPTrace._enter": given,
    "ftrace.core.trace:renew": first,
    "ftrace.control.functions:frozen": first,
    "ftrace.numpy.views:link": second,
    "ftrace.numpy.views:stepped": second,
    "ftrace.numpy.views:laid": first,
    "ftrace.numpy.views:c_order": first,
    "ftrace.numpy.layouts:kept": second,
}


def _patches() -> Iterator[Patch]:
    for target, replacement in WITHOUT.items():
        module, path = target.split(":")
        *outer, name = path.split(".")
        holder = reduce(getattr, outer, import_module(module))
        original = getattr(holder, name)
        holders = [holder] if outer else _users(original)
        for h in holders:
            for alias in [k for k, v in vars(h).items() if v is original]:
                yield h, alias, original, replacement


def _users(function: Any) -> list[Any]:
    """The ftrace modules that hold a function as a global."""
    ours = [m for name, m in list(sys.modules.items()) if name.split(".")[0] == "ftrace"]
    return [m for m in ours if any(v is function for v in vars(m).values())]


@contextmanager
def unprotected() -> Iterator[None]:
    """Run without the functions of `WITHOUT`."""
    patches = list(_patches())
    for holder, name, _, replacement in patches:
        setattr(holder, name, replacement)
    try:
        yield
    finally:
        for holder, name, original, _ in patches:
            setattr(holder, name, original)

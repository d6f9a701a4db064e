"""Recursive functions that do not use Python's stack.

What users nest may be deeper than Python's recursion limit. A recursive function is written as a
generator that yields its calls of itself, `result = yield f.deep(...)`; called, it runs them from a
list. Here is only that; where a hundred nanoseconds count, loops keep such a list by hand.
"""

from collections.abc import Callable, Generator
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class unrolled(Generic[P, R]):  # noqa: N801 - a decorator
    """A recursive function; `deep` are its own calls."""

    def __init__(self, fn: Callable[P, Generator[Any, Any, R]]) -> None:
        self.deep = fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        calls = [self.deep(*args, **kwargs)]
        value: Any = None
        while calls:
            try:
                calls.append(calls[-1].send(value))
                value = None
            except StopIteration as end:
                calls.pop()
                value = end.value
        return value

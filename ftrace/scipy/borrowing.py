"""Functions that are SciPy's while nothing is traced, and ours while something is."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ftrace.core.device import LIBRARIES
from ftrace.core.lazy import lazy
from ftrace.core.trace import EVAL, ctx, running
from ftrace.numpy.promote import broadcast, promote_inexact, untraced, value

F = TypeVar("F", bound=Callable[..., Any])


def scipys(module: str) -> Callable[[F], F]:
    """A decorator: with no trace running, the function of this name of a module of SciPy."""

    def decorate(fn: F) -> F:
        plain = lazy(module, fn.__name__)

        @functools.wraps(fn)
        def call(*args: Any, **options: Any) -> Any:
            if running and ctx.trace is not EVAL:
                return fn(*args, **options)
            if LIBRARIES:
                return untraced(plain, fn, args, options)
            return plain(*args, **options)

        return call  # type: ignore[return-value]

    return decorate


def prepared(*xs: Any) -> list[Any]:
    """Operands for a row: of one floating or complex dtype, and of one shape or rank 0."""
    return broadcast(*promote_inexact(*map(value, xs)))

"""`lift`: a function whose native control flow traced values may decide."""

import functools
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from ftrace.control.functions import name_of
from ftrace.core.errors import DtypeError
from ftrace.core.naming import Named
from ftrace.lifting.lifted_calls import territory_of
from ftrace.lifting.state.roots import innermost, lifting
from ftrace.lifting.syntax.rewriting import rewritten_source

P = ParamSpec("P")
R = TypeVar("R")


class Lifted(Named, Generic[P, R]):
    """What `lift` returns: the function, with `source`."""

    __closes_over__ = ("_fun",)

    def __init__(self, fun: Callable[P, R]) -> None:
        self._fun = fun
        self._territory = territory_of(innermost(fun))
        functools.update_wrapper(self, fun, updated=())
        self.__ftrace__ = (fun, ("lift",))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        with lifting(self._territory):
            return self._territory(self._fun)(*args, **kwargs)

    @property
    def source(self) -> str:
        """The rewritten function, as text."""
        fn = innermost(self._fun)
        return "" if fn is None else rewritten_source(fn)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<lift of {name_of(self._fun)}>"


def lift(fun: Callable[P, R]) -> Lifted[P, R]:
    """Let traced values decide the native control flow of a function.

    `if`, conditional expressions, `and`, `or`, `not`, chained comparisons, `while`, `for` over
    `range` and arrays, `break`, `continue`, early `return`, `assert` and `raise` work on traced
    values, in the function and in the user's own functions that it calls: they are staged as
    `cond` and `while`. On values that are known they are Python's own. A loop is unrolled unless a
    traced value says how often it iterates.

    An arm or body that is staged may change local variables and write into arrays. What it binds
    must have one type on all paths (numbers are promoted).

    Python cannot ask a traced value for its type or identity. `type(x) is float`, `x is True`,
    `hasattr(x, "ndim")` are answered in rewritten functions as by the value that `x` stands for,
    and transformations rewrite functions that lead to such a question; code that asks and cannot
    be rewritten raises. Not looked at are functions of other installed packages, what is reached
    through names that are computed, and everything under `lift=False`: there a traced value has a
    type of its own, and is neither True nor False. `isinstance(x, ...)` is answered everywhere.
    Two arguments are two objects, also where one array was passed twice.

    In rewritten functions `1 / x` of Python numbers and `math.log(x)` raise for the values for
    which they raise in Python. In functions that are not rewritten, since no traced value decides
    in them, `1 / x` follows IEEE 754 and gives infinity.

    Args:
        fun: a function whose source can be read.

    Returns:
        The same function, lifted; `source` is what it was rewritten to.

    Raises:
        LiftError: when it runs, where something cannot be staged: the message names the line, and
            what to write instead.

    Example:
        >>> import ftrace
        >>> def collatz(n):
        ...     steps = 0
        ...     while n > 1:
        ...         n = n // 2 if n % 2 == 0 else 3 * n + 1
        ...         steps += 1
        ...     return steps
        >>> int(ftrace.jit(ftrace.lift(collatz))(27))
        111
    """
    if not callable(fun):
        raise DtypeError(
            f"lift needs a function, not a value of type {type(fun).__name__}.",
            "Pass the function itself, not the result of calling it.",
        )
    return Lifted(fun)

"""Users' functions that `ftrace.lax` stages are lifted also where nothing around them lifts."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ftrace.core.lazy import lazy
from ftrace.core.trace import ctx

_Eager = lazy("ftrace.lifting.restart", "Eager")

_STAGING: Final = (
    *("associative_scan", "cond", "custom_linear_solve", "custom_root", "fori_loop", "map"),
    *("reduce", "reduce_window", "scan", "switch", "while_loop"),
)
_FEW: Final = 3


def restart(namespace: dict[str, Any]) -> None:
    """Make functions of a package that stage others start again as `grad` does, with these lifted.

    Modules of ftrace call the functions as they are.
    """
    for name in _STAGING:
        namespace[name] = _restarting(namespace[name])


def _restarting(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if ctx.restarts is not None or ctx.lift is not None:
            return fn(*args, **kwargs)
        users = list(_functions((*args, *kwargs.values())))
        attempt = functools.partial(fn, *args, **kwargs)
        if len(users) > _FEW:
            return _Eager(users[0], True)(attempt, users[1:])
        for user in users:  # each is known by its code, also where it is made anew for each call
            attempt = functools.partial(_Eager(user, True), attempt)
        return attempt()

    return call


def _functions(given: Iterable[Any]) -> Iterator[Any]:
    for x in given:
        if callable(x):
            yield x
        elif type(x) in (list, tuple) and x and callable(x[0]):
            yield from x

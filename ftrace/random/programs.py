"""Samplers as programs: each is traced once per signature and called as one compiled function.

Samplers lie below `ftrace.jit`, and bind its row themselves: called with arrays they run machine
code, inside a transformation they are one equation, which is differentiated, batched and fused as
the user's own jitted functions are.
"""

import functools
from collections.abc import Callable
from typing import Any

import ftrace.numpy  # noqa: F401 # pyright: ignore[reportUnusedImport] - makes tracers arrays
from ftrace.control.rows.jit import jit_call
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.device import free
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.trace import EVAL, run
from ftrace.interpreters.quiet import quietly
from ftrace.interpreters.staging import hoist_consts, trace_to_jaxpr

_MOST = 1024  # programs that are kept


def program(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays, with static keywords, as a program.

    Static values are hashable. The function captures no traced values.
    """

    @functools.lru_cache(maxsize=_MOST)
    def staged(
        avals: tuple[ShapedArray, ...], static: tuple[tuple[str, Any], ...]
    ) -> tuple[Jaxpr, tuple[Any, ...]]:
        fixed = dict(static)
        jaxpr, _ = run(EVAL, trace_to_jaxpr, lambda *xs: [fun(*xs, **fixed)], avals)
        return hoist_consts(jaxpr)

    @functools.wraps(fun)
    def call(*operands: Any, **static: Any) -> Any:
        jaxpr, arrays = staged(tuple(map(typeof, operands)), tuple(static.items()))
        made = map(free, arrays)  # constants of ours: they go where the operands are
        with quietly():  # words wrap around
            (found,) = jit_call(*made, *operands, jaxpr=jaxpr, name=fun.__name__)
        return found

    return call

"""Functions that are SciPy's while nothing is traced, and ours while something is."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ftrace.control.rules.host_calls import host_of, pure_callback_call
from ftrace.core.arguments import BARE, options_check
from ftrace.core.avals import check_int, typeof
from ftrace.core.device import LIBRARIES, on_device
from ftrace.core.lazy import lazy
from ftrace.core.trace import EVAL, Tracer, ctx, running
from ftrace.core.tree import tree_flatten, tree_structure
from ftrace.lax import stop_gradient
from ftrace.numpy.promote import broadcast, promote_inexact, untraced, value
from ftrace.numpy.refusing import refusal
from ftrace.numpy.stand_ins import ask


class RefusedError(ValueError):
    """What SciPy refuses, too: its own error is raised, with its words."""


F = TypeVar("F", bound=Callable[..., Any])


def scipys(module: str, asked: bool = True) -> Callable[[F], F]:
    """A decorator: with no trace running, the function of this name of a module of SciPy.

    Traced, its options are of the types that it says; where it fails, its error is SciPy's, and
    where SciPy's fails on any data of these shapes it fails, too.

    Args:
        module: the module's name.
        asked: False where SciPy's function is not asked: the module is slow to load, or it refuses
            what stands in for traced arrays.
    """

    def decorate(fn: F) -> F:
        plain = lazy(module, fn.__name__)
        checked: list[Callable[..., None]] = []

        @functools.wraps(fn)
        def call(*args: Any, **options: Any) -> Any:
            if running and ctx.trace is not EVAL:
                check = checked or [options_check(fn, f"{module}.{fn.__name__}")]
                checked[:] = check
                check[0](args, options)
                found = borrowing(plain, fn, args, options, f"{module}.{fn.__name__}")
                if asked:
                    ask(plain, args, options, f"{module}.{fn.__name__}")
                return found
            if LIBRARIES:
                return untraced(plain, fn, args, options)
            return plain(*args, **options)

        return call  # type: ignore[return-value]

    return decorate


def borrowing(
    plain: Callable[..., Any], fn: Callable[..., Any], args: Any, options: Any, name: str
) -> Any:
    """Call ours; where it fails, with the error of SciPy's own function on such arguments."""
    try:
        return fn(*args, **options)
    except BARE as error:
        if (found := refusal(error, plain, fn, args, options, name)) is error:
            raise
        raise found from None


def at_run_time(plain: Callable[..., Any], *args: Any, like: Any = None, **options: Any) -> Any:
    """What SciPy finds on the host when the program runs: integers, or values without a slope.

    Args:
        plain: a function of SciPy's whose results have the same shapes for all values.
        args, options: its arguments, or containers of them, some traced.
        like: results of those shapes and dtypes; None asks the function, of zeros.
    """
    given, tree = tree_flatten((args, options))
    open_ = [i for i, x in enumerate(given) if isinstance(x, Tracer) or on_device(x)]

    def found(*values: Any) -> Any:
        filled = dict(enumerate(given)) | dict(zip(open_, values, strict=True))
        all_args, all_options = tree.unflatten(filled.values())
        return plain(*all_args, **all_options)

    found.__name__ = getattr(plain, "__name__", "found")
    operands = [stop_gradient(given[i]) for i in open_]
    if like is None:
        like = found(*(np.zeros(typeof(x).shape, typeof(x).dtype) for x in operands))
    call = tree_structure((tuple(operands), {}))
    host = host_of(f"scipy.{found.__name__}", found, call, like)
    assert host.tree is not None
    return host.tree.unflatten(pure_callback_call(*operands, host=host))


def prepared(*xs: Any) -> list[Any]:
    """Operands for a row: of one floating or complex dtype, and of one shape or rank 0."""
    for x in xs:
        if type(x) is int:
            check_int(x, np.iinfo(np.int64).max, "An operand")
    return broadcast(*promote_inexact(*map(value, xs)))

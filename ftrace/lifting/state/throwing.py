"""Errors that were made while tracing, raised when the function runs."""

import copy
import types
from collections.abc import Callable
from typing import Any

from ftrace.control.rows.raising import fail_where
from ftrace.core import source
from ftrace.core.errors import LiftError
from ftrace.core.foreign import refused_elsewhere
from ftrace.core.trace import Tracer
from ftrace.lifting.state.leaves import flatten
from ftrace.lifting.state.local_state import MISSING


def fail_with(error: Exception) -> None:
    """Raise an error that was made while tracing, when the function runs.

    Raises:
        LiftError: its text shows a traced value.
        DtypeError: code that is not ours raised it for a traced value.
    """
    refused = refused_elsewhere(error) if isinstance(error, TypeError) else None
    if refused is not None:
        raise refused from error
    place = source.raised_at(error)
    error = error.with_traceback(None)  # it holds the frames of the trace
    leaves, made = parts(error)
    traced = [x for x in leaves if isinstance(x, Tracer)]
    if "Tracer<" in str(error) and not traced:
        raise LiftError(
            f"{type(error).__name__} is raised where a traced value decides, with a text of it.",
            "Put the function in a file, so that it can be rewritten, or give the value as an "
            "argument of the error.",
            place=place,
        ) from error

    def throw(*values: Any) -> None:
        supply = iter(values)
        raise made([next(supply) if isinstance(x, Tracer) else x for x in leaves])

    fail_where(True, traced, throw, type(error))


def parts(x: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """What containers hold, an error is made of, a function closes over; and how to put it back."""
    if isinstance(x, BaseException):
        leaves, tree = flatten(x.args)

        def error(new: list[Any]) -> Any:
            other = copy.copy(x)
            other.args = tree.unflatten(new)
            return other

        return leaves, error
    if isinstance(x, types.FunctionType) and x.__closure__:
        held = [c.cell_contents if _is_filled(c) else None for c in x.__closure__]
        leaves, tree = flatten(held)

        def function(new: list[Any]) -> Any:
            cells = tuple(map(types.CellType, tree.unflatten(new)))
            return types.FunctionType(x.__code__, x.__globals__, x.__name__, x.__defaults__, cells)

        return leaves, function
    leaves, tree = flatten(x)
    return leaves, tree.unflatten


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not MISSING
    except ValueError:
        return False

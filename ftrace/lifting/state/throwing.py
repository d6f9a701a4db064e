"""Errors that were made while tracing, raised when the function runs, with where they come from."""

import copy
import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from ftrace.control.rows.raising import Noted, Thrower, fail_where
from ftrace.core import source
from ftrace.core.errors import FtraceError, LiftError
from ftrace.core.foreign import refused_elsewhere
from ftrace.core.trace import Tracer
from ftrace.lifting.state.leaves import flatten
from ftrace.lifting.state.local_state import MISSING

T = TypeVar("T")


class _Here(threading.local):
    def __init__(self) -> None:
        self.handled: list[Sequence[Noted]] = []  # the errors of the handlers that are staged


_here: Final = _Here()


def handled_by(errors: Sequence[Noted], error: Exception | None, handler: Callable[[], T]) -> T:
    """What the handler of some errors gives; it handles the error itself where that is known."""
    _here.handled.append(errors)
    try:
        if error is None:
            return handler()
        try:
            raise error
        except type(error):
            return handler()
    finally:
        _here.handled.pop()
        if error is not None:
            error.__traceback__ = None  # it holds the frames of the trace


def refuse_unknown(what: str) -> None:
    """Raise `LiftError` if what Python is asked about is an error that is not known here."""
    if handled() and known(handled()) is None:
        raise LiftError(
            f"{what} was asked for an error that a traced value decides about: what it says is not "
            "known while the function is traced.",
            "Read the values that it is made of instead, or give each class a handler of its own.",
        )


def known(errors: Sequence[Noted]) -> Exception | None:
    """The error that all members have who have one of these, if no traced value is in it."""
    (first, *others) = errors
    if others or any(isinstance(x, Tracer) for x in first.values):
        return None
    return thrown(first.thrower, first.values)


def handled() -> Sequence[Noted]:
    """The errors whose handler is being staged."""
    return _here.handled[-1] if _here.handled else ()


class RaisedFrom:
    """What an error that is raised here comes from: the error that is being handled.

    Attributes:
        values: of which the handled error is made.
        is_known: whether that is known: a member may have one of several errors.
    """

    def __init__(self) -> None:
        errors = handled()
        self.values: Sequence[Any] = errors[0].values if len(errors) == 1 else ()
        self.is_known = not errors or bool(self.values) or known(errors) is not None
        self._thrower = errors[0].thrower if len(errors) == 1 else None
        own = sys.exception()  # of a handler that runs natively
        is_users = isinstance(own, Exception) and not isinstance(own, FtraceError)
        self._own = own if is_users and not errors else None

    def error(self, values: Sequence[Any]) -> BaseException | None:
        """The handled error of a member."""
        return self._own if self._thrower is None else thrown(self._thrower, values)

    def throw(self, error: BaseException, values: Sequence[Any], *cause: Any) -> None:
        """Raise an error in its handler; `cause`: what it is raised from."""
        context = self.error(values)
        if cause:
            error.__cause__ = cause[0]() if isinstance(cause[0], type) else cause[0]
        try:
            raise error
        finally:
            error.__context__ = context


def thrown(thrower: Any, values: Sequence[Any]) -> Exception | None:
    """The error that a thrower raises, without the note of its place."""
    try:
        if isinstance(thrower, Thrower):
            thrower.throw(*values)
        else:
            thrower(values, ())
    except Exception as error:
        return error
    return None


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

    throw.tells_origin = not handled() or known(handled()) is not None  # type: ignore[attr-defined]
    fail_where(True, traced, throw, type(error))


def parts(x: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """What containers hold, an error is made of, a function closes over; and how to put it back."""
    if isinstance(x, BaseException):
        leaves, tree = flatten(x.args)

        def error(new: list[Any]) -> Any:
            other = copy.copy(x)
            other.args = tree.unflatten(new)
            other.__cause__, other.__context__ = x.__cause__, x.__context__
            other.__suppress_context__ = x.__suppress_context__
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

"""How `jit`, `vmap` and `vectorize` lift by themselves: one recorded restart.

A function is traced as it is, unless it asks `isinstance(x, np.ndarray)`. Where a traced value
decides a Python branch, or is stored into a plain array, tracing fails; then the outermost of these
transformations traces the whole once more, with the functions of all those that the error passed
through lifted. That is recorded for the function's code, so that later calls start lifted. Nothing
is done where nothing fails.

The second run repeats what tracing does besides computing. An array that it writes would be
written twice: then a `LiftError` says so, and the array is as the first run left it.
"""

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from ftrace.control.guards import captured_arrays
from ftrace.core.config import config
from ftrace.core.errors import ConcretizationTypeError, LiftError
from ftrace.core.lazy import lazy
from ftrace.core.trace import ctx
from ftrace.lifting.roots import innermost, lifting

R = TypeVar("R")

_territory = lazy("ftrace.lifting.calls", "Territory")


_lifted: dict[int, "weakref.ref[Any]"] = {}
"""The code of functions that are traced lifted from the start, by its id."""


def _as_it_is(fn: Any) -> Any:
    return fn


class Restart:
    """Runs attempts to trace one function. Call it with a function of nothing that traces.

    Args:
        fun: the function that is traced, wrapped or not.
        lift: False: it and what it calls is never lifted.
    """

    __slots__ = ("__weakref__", "_code", "_fun", "_lift", "_territory")

    def __init__(self, fun: Callable[..., Any], lift: bool) -> None:
        self._fun = fun
        self._lift = lift
        self._code: Any = None
        self._territory: Any = None

    def __call__(self, attempt: Callable[[], R]) -> R:
        """The result of an attempt, lifted if need be.

        Raises:
            LiftError: lifting failed; the error that asked for it is the cause.
        """
        if not self._lift or not config.settings.lift or ctx.lift is _as_it_is:
            with lifting(ctx.lift if self._lift else _as_it_is):
                return attempt()
        if ctx.restarts is None:
            return self._outermost(attempt)
        try:
            return self._attempt(attempt)
        except ConcretizationTypeError:
            self._mark(ctx.restarts)
            raise

    def _outermost(self, attempt: Callable[[], R]) -> R:
        marked: list[int] = []
        first = None
        try:
            return self._watched(attempt, marked)
        except ConcretizationTypeError as error:
            if not marked:
                raise
            first = error
        found = captured_arrays(self._fun)
        arrays = [(name, a, a.copy()) for name, a in found.items() if a.flags.writeable]
        try:
            result = self._again(attempt, marked)
            _check_unwritten(arrays)
            return result
        except (LiftError, ConcretizationTypeError) as error:
            for number in marked:  # it did not help: the next call says the same again
                _lifted.pop(number, None)
            if isinstance(error, LiftError) and error.__cause__ is None:
                raise error from first
            raise
        finally:
            first = None  # it holds this frame

    def _again(self, attempt: Callable[[], R], marked: list[int]) -> R:
        """The result of lifted attempts: another one, where more turns out to need lifting."""
        while True:
            before = len(marked)
            try:
                return self._watched(attempt, marked)
            except ConcretizationTypeError:
                if len(marked) == before:
                    raise

    def _watched(self, attempt: Callable[[], R], marked: list[int]) -> R:
        """The result of an attempt, or the error and whom it passed through."""
        ctx.restarts = marked
        try:
            return self._attempt(attempt)
        except ConcretizationTypeError:
            self._mark(marked)
            raise
        finally:
            ctx.restarts = None

    def _attempt(self, attempt: Callable[[], R]) -> R:
        if id(self._key()) not in _lifted:
            return attempt()
        if self._territory is None:
            self._territory = _territory(innermost(self._fun))
        with lifting(self._territory):
            return attempt()

    def _key(self) -> Any:
        """What is recorded: the code of the user's function, or this object if there is none."""
        if self._code is None:
            root = innermost(self._fun)
            self._code = False if root is None else root.__code__
            if root is not None and _asks_for_arrays(self._code):
                _record(self._code)
        return self._code or self

    def _mark(self, marked: list[int]) -> None:
        if id(self._key()) not in _lifted:
            marked.append(_record(self._key()))


def _record(key: Any) -> int:
    number = id(key)
    _lifted[number] = weakref.ref(key, lambda _: _lifted.pop(number, None))
    return number


def _asks_for_arrays(code: Any) -> bool:
    """Whether a function asks for the class of arrays: there a traced value raises nothing.

    Without lifting `isinstance(x, np.ndarray)` would take the other path in silence.
    """
    return "isinstance" in code.co_names and "ndarray" in code.co_names


def _check_unwritten(arrays: list[tuple[str, Any, Any]]) -> None:
    """Raise `LiftError` if the second run wrote an array, as the first then did."""
    written = [name for name, a, before in arrays if a.tobytes() != before.tobytes()]
    if not written:
        return
    for _, array, before in arrays:
        array[...] = before
    raise LiftError(
        f"`{written[0]}`, a captured array, is written by a function that must be traced twice: "
        "once to find that it needs lifting, and once lifted.",
        "Lift it from the start, `ftrace.jit(ftrace.lift(f))`, or write to a copy "
        "(`x = x.copy()`).",
    )

"""`with`: a context manager that may swallow an error that traced values decide about.

Whether a manager swallows it is its `__exit__`'s affair, which Python asks with an error in hand;
one that comes when the function runs is none. Managers that are known to swallow nothing, as most,
are passed by.
"""

import dis
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, Final

from ftrace.control.rows.raising import Collection, Noted, again, begin, end
from ftrace.core.errors import LiftError
from ftrace.core.trace import EVAL, UNKNOWN, Tracer, ctx


class LiftedManager:
    """A context manager, the `original`, with its methods lifted."""

    def __init__(self, original: Any, enter: Any, leave: Any) -> None:
        self.original = original
        self._enter, self._leave = enter, leave

    def __enter__(self) -> Any:
        return self._enter()

    def __exit__(self, *error: object) -> Any:
        return self._leave(*error)


class Managed(Collection):
    """The body of a `with`; an error in it that is not known while it is traced is refused.

    Args:
        *managers: what looks after it.
    """

    def __init__(self, *managers: Any) -> None:
        super().__init__(ctx.trace)
        self._may = ctx.trace is not EVAL and any(map(_may_swallow, managers))

    def note(self, noted: Noted) -> None:
        """Take an error.

        Raises:
            LiftError: a traced value decides about it.
        """
        bad = noted.bad
        if isinstance(bad, Tracer) and bad.known(exact=False) is UNKNOWN and noted.thrower.kinds:
            raise LiftError(
                "A traced value decides about an error inside of a `with` whose context manager "
                "may swallow it.",
                "Write `try: ... except ...` instead, or decide with numpy.where.",
                place=getattr(noted.thrower, "place", None),
            )
        end(self)
        try:
            again(noted)
        finally:
            begin(self)

    def __enter__(self) -> None:
        if self._may:
            begin(self)

    def __exit__(self, *error: object) -> None:
        if self._may:
            end(self)


_OF_GENERATORS: Final = type(contextmanager(lambda: iter(()))())  # type: ignore[arg-type]


def _may_swallow(manager: Any) -> bool:
    """Whether a context manager may end an error."""
    if type(manager) is LiftedManager:
        manager = manager.original
    if isinstance(manager, _OF_GENERATORS):
        code: Any = getattr(manager.gen, "gi_code", None)  # type: ignore[attr-defined]
        return code is None or _handles(code)
    leave = getattr(type(manager), "__exit__", None)
    return isinstance(leave, FunctionType) and not _is_false(leave.__code__)


def _handles(code: CodeType) -> bool:
    """Whether a generator names errors that it catches, or has a `with` of its own."""
    of_errors = ("CHECK_EXC_MATCH", "WITH_EXCEPT_START")
    return any(i.opname in of_errors for i in dis.get_instructions(code))


def _is_false(code: CodeType) -> bool:
    """Whether a function returns nothing but constants that are false."""
    before: Any = None
    for i in dis.get_instructions(code):
        if i.opname == "RETURN_VALUE" and not (before.opname == "LOAD_CONST" and not before.argval):
            return False
        if i.opname == "RETURN_CONST" and i.argval:
            return False
        before = i
    return True

"""Questions of type in code that is run and was not lifted: refused where they are asked.

A `__format__`, a function without source or one that native code calls may ask
`type(x) is float` of a traced value, and no error would come of it. So while a function is traced
that leads to such code, Python tells of each call, and a call of that code with traced values
raises. This costs time while tracing, for these functions alone.
"""

import sys
import types
from collections.abc import Iterable
from typing import Any, Final

from ftrace.core import source
from ftrace.core.errors import LiftError
from ftrace.core.foreign import refused_by_a_call
from ftrace.core.lazy import lazy
from ftrace.core.records import record
from ftrace.core.trace import EVAL, Tracer, ctx, remember
from ftrace.lifting.sources.asking import asked_parameters

_holds_tracer = lazy("ftrace.lifting.substitutes.python", "holds_tracer")


@record
class Watched:
    """Code that asks: by where it is defined, its parameters it asks about (None: whatever)."""

    places: dict[tuple[str, int, str], frozenset[str] | None]
    lines: frozenset[int]

    def union(self, codes: Iterable[types.CodeType]) -> "Watched":
        """With more code."""
        more = {(c.co_filename, c.co_firstlineno, c.co_name): asked_parameters(c) for c in codes}
        places = self.places | more
        return Watched(places, frozenset(line for _, line, _ in places))

    def told(self, frame: types.FrameType, event: str, _: Any) -> None:
        """Python's report of a call.

        Raises:
            LiftError: the code asks, was not lifted, and is given traced values.
        """
        code = frame.f_code
        if event != "call" or code.co_firstlineno not in self.lines or ctx.trace is EVAL:
            return
        place = code.co_filename, code.co_firstlineno, code.co_name
        if place not in self.places or "_ft" in code.co_freevars:
            return
        names, local = self.places[place], frame.f_locals
        if ".0" in local and frame.f_back is not None:  # a comprehension has not begun yet
            local = frame.f_back.f_locals
        if any(map(_shows, local.values() if names is None else map(local.get, names))):
            raise LiftError(
                f"{code.co_qualname} asks for the type or the identity of values (`type(x)`, "
                "`x is True`, hasattr), which are traced here, and it cannot be rewritten: its "
                "source is not known, or it is called by native code or by a special method.",
                "Ask isinstance(x, ...) instead, or call it from a function of your own, by name.",
                place=(code, 0),
            )


NOTHING_WATCHED: Final = Watched({}, frozenset())


class refusing:  # noqa: N801 - used like a function
    """Context manager: code that asks, and was not lifted, raises if it is given traced values."""

    __slots__ = ("_set", "_watched")

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def __enter__(self) -> None:
        # one of the user's, such as a profiler's, stays
        self._set = bool(self._watched.places) and sys.getprofile() is None
        if self._set:
            sys.setprofile(self._watched.told)

    def __exit__(self, *error: object) -> None:
        if self._set:
            sys.setprofile(None)


class noticing:  # noqa: N801 - used like a function
    """Context manager: an error of code that refuses traced values counts if it is caught.

    Lifted code asks in its handlers; here Python tells of each error in the user's code.
    """

    __slots__ = ("_set",)

    def __enter__(self) -> None:
        self._set = sys.gettrace() is None  # a debugger stays
        if self._set:
            sys.settrace(self._called)

    def __exit__(self, *error: object) -> None:
        if self._set:
            sys.settrace(None)

    def _called(self, frame: types.FrameType, event: str, _: Any) -> Any:
        """Python's report of a call: what is the user's is followed."""
        if source.is_internal(frame.f_code.co_filename):
            return None
        frame.f_trace_lines = False
        return self._raised

    def _raised(self, frame: types.FrameType, event: str, found: Any) -> Any:
        """Python's report of what happens in a function of the user's."""
        if event == "exception" and found[0] is TypeError:
            remember(refused_by_a_call(found[1].with_traceback(found[2])))
        return self._raised


def _shows(x: Any) -> bool:
    """Whether a value is traced, or holds traced values where code finds them by one step."""
    if isinstance(x, Tracer) or _holds_tracer(x):
        return True
    return any(map(_holds_tracer, getattr(x, "__dict__", {}).values()))

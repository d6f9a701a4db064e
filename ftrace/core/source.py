"""The user's line: which frame outside ftrace an equation or an error belongs to.

Frames of this package, of NumPy and of the standard library, which sit between it and the user, are
skipped. A location is a `(code, instruction)` pair, a fraction of a microsecond to take;
it is turned into text only when somebody reads it.
"""

import linecache
import opcode
import os
import sys
import threading
import warnings
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import TypeVar

import numpy as np

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SKIPPED = (PACKAGE, os.path.dirname(np.__file__) + os.sep, "<frozen", "<ftrace")
STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)

Location = tuple[CodeType, int]  # code and the offset of the instruction in it
F = TypeVar("F", bound=FunctionType)

# by file name: looking up a code object hashes its constants
_is_internal: dict[str, bool] = {}


def is_internal(name: str) -> bool:
    answer = _is_internal.get(name)
    if answer is None:
        if len(_is_internal) > 20_000:
            _is_internal.clear()
        answer = _is_internal[name] = name.startswith(_SKIPPED) or (
            name.startswith(STANDARD) and not any(part in name for part in _INSTALLED)
        )
    return answer


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning that shows the user's line."""
    frame, level = sys._getframe(), 1  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


_FOR_OTHERS = ("CALL", "PRECALL", "COMPARE_OP", "CONTAINS_OP")


def asks_for_others(depth: int) -> bool:
    """Whether a frame runs what asks its operands' elements: `max` of pairs, `<` of tuples."""
    frame = sys._getframe(depth + 1)  # pyright: ignore[reportPrivateUsage]
    return opcode.opname[frame.f_code.co_code[frame.f_lasti]].startswith(_FOR_OTHERS)


# the same for `location`, but None of files where some function replays equations
_passed: dict[str, bool | None] = {}


class _Here(threading.local):
    """The recorded place of an equation that compiled code has a row evaluate, while it does."""

    place: Location | None = None


here = _Here()


# By name what runs recorded equations, its variable `eqn` the current one: what it makes of an
# equation belongs to the line of that equation.
replays: dict[str, CodeType] = {}


def replaying(fn: F) -> F:
    """Say that a function runs recorded equations, in a variable `eqn`."""
    replays[fn.__name__] = fn.__code__
    _passed[fn.__code__.co_filename] = None
    return fn


def location(depth: int = 1) -> Location | None:
    """The innermost frame that is not ftrace's, or the place of the equation that it replays.

    The first `depth` frames surely are ftrace's.
    """
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    passed = _passed
    while frame is not None:
        code = frame.f_code
        try:
            inside = passed[code.co_filename]
        except KeyError:
            inside = _is_passed(code.co_filename)
        if inside:
            frame = frame.f_back
            continue
        if inside is False:
            return code, frame.f_lasti
        if replays.get(code.co_name) is code:
            recorded = getattr(frame.f_locals.get("eqn"), "source", None)
            if recorded is not None:
                return recorded
        frame = frame.f_back
    return None


def _is_passed(name: str) -> bool:
    if len(_passed) > 20_000:
        for other in [n for n, known in _passed.items() if known is not None]:
            del _passed[other]
    inside = _passed[name] = is_internal(name)
    return inside


def line_of(place: Location) -> int:
    """The line of a location."""
    code, instruction = place
    for start, stop, line in code.co_lines():
        if start <= instruction < stop and line is not None:
            return line
    return code.co_firstlineno


def raised_at(error: BaseException) -> Location | None:
    """The innermost line of an error's traceback that is not ftrace's."""
    found: Location | None = None
    traceback = error.__traceback__
    while traceback is not None:
        if not is_internal(traceback.tb_frame.f_code.co_filename):
            found = traceback.tb_frame.f_code, traceback.tb_lasti
        traceback = traceback.tb_next
    return found


def describe(place: Location | None) -> str:
    """`file:line: code` of a location, or an empty string."""
    if place is None:
        return ""
    code, line = place[0], line_of(place)
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}" + (f": {text}" if text else "")


def short(place: Location | None) -> str:
    """`file:line (function)` with the bare file name, for printed jaxprs."""
    if place is None:
        return ""
    code, line = place[0], line_of(place)
    return f"{os.path.basename(code.co_filename)}:{line} ({code.co_name})"


def strip_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without ftrace's own frames."""
    kept: list[TracebackType] = []
    while traceback is not None:
        if not is_internal(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    result: TracebackType | None = None
    for frame in reversed(kept):
        result = TracebackType(result, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return result

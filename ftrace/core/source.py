"""The user's line: which frame outside ftrace an equation or an error belongs to.

Frames of this package, and of the few standard modules that sit between it and the user, are
skipped. A location is a `(code, line)` pair, which costs a fraction of a microsecond to take;
it is turned into text only when somebody reads it.
"""

import linecache
import os
import sys
from types import CodeType, FrameType, TracebackType

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SKIPPED = ("<frozen", "<ftrace", os.sep + "functools.py", os.sep + "contextlib.py")

Location = tuple[CodeType, int]

_is_internal: dict[CodeType, bool] = {}


def _internal(code: CodeType) -> bool:
    name = code.co_filename
    answer = name.startswith(PACKAGE) or any(part in name for part in _SKIPPED)
    if len(_is_internal) > 20_000:
        _is_internal.clear()
    _is_internal[code] = answer
    return answer


def location(depth: int = 1) -> Location | None:
    """The innermost frame that is not ftrace's, as `(code, line)`; `depth` frames are ftrace's."""
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage] - 20 times cheaper than inspect
    known = _is_internal.get
    while frame is not None:
        code = frame.f_code
        inside = known(code)
        if inside is None:
            inside = _internal(code)
        if not inside:
            return code, frame.f_lineno
        frame = frame.f_back
    return None


def describe(place: Location | None) -> str:
    """`file:line: code` of a location, or an empty string."""
    if place is None:
        return ""
    code, line = place
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}" + (f": {text}" if text else "")


def short(place: Location | None) -> str:
    """`file:line (function)` with the bare file name, for printed jaxprs."""
    if place is None:
        return ""
    code, line = place
    return f"{os.path.basename(code.co_filename)}:{line} ({code.co_name})"


def strip_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without ftrace's own frames."""
    kept: list[TracebackType] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not _is_internal.get(code, _internal(code)):
            kept.append(traceback)
        traceback = traceback.tb_next
    result: TracebackType | None = None
    for frame in reversed(kept):
        result = TracebackType(result, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return result

"""Whether a function that is being traced stands in a `try`, which may catch what it raises."""

import dis
import sys
from functools import lru_cache
from types import CodeType
from typing import Any

from ftrace.core import source
from ftrace.core import trace as core
from ftrace.core.primitive import Primitive
from ftrace.core.trace import EVAL


def is_in_try() -> bool:
    """Whether a function that is being traced, and is not rewritten, stands in a `try`."""
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    traced = core.ctx.trace is not EVAL
    while frame is not None:
        code = frame.f_code
        if code is core.run.__code__ and frame.f_locals["before"] is EVAL:
            traced = False
        elif code is Primitive.__call__.__code__ and frame.f_locals.get("trace", EVAL) is not EVAL:
            traced = True  # whoever called the primitive, whatever its rule does
        elif traced and _may_catch(code, frame.f_lasti):
            return True
        frame = frame.f_back
    return False


def _may_catch(code: CodeType, at: int) -> bool:
    """Whether an instruction of a user's function, not rewritten, stands in a `try`."""
    if "_ft" in code.co_freevars or source.is_internal(code.co_filename):
        return False
    return any(start <= at < end for start, end in _tried(code))


@lru_cache(1024)
def _tried(code: CodeType) -> list[tuple[int, int]]:
    """The instructions of a code that a handler looks after; that of a `with` is none."""
    if not code.co_exceptiontable:
        return []
    following: dict[int, str] = {}
    before: Any = None
    for instruction in dis.get_instructions(code):
        if before is not None and before.opname == "PUSH_EXC_INFO":
            following[before.offset] = instruction.opname
        before = instruction
    return [
        (entry.start, entry.end)
        for entry in dis._parse_exception_table(code)  # type: ignore[attr-defined]
        if following.get(entry.target, "WITH_EXCEPT_START") != "WITH_EXCEPT_START"
    ]

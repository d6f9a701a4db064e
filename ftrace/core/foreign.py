"""Errors of code that is not ours and was given a traced value: they are named.

`Decimal(x)`, `timedelta(seconds=x)`, `json.dumps(x)` look at the type of an object, find that of
a tracer, and raise a TypeError that speaks of a class nobody has heard of.
"""

import dis
import re
from types import ModuleType, TracebackType
from typing import Any, Final

from ftrace.core import source
from ftrace.core.errors import DtypeError
from ftrace.core.trace import Tracer, refused

_TRACER = re.compile(r"\w+Tracer\b")
STRICT: Final = frozenset(("decimal", "datetime", "json"))
"""The modules whose classes and functions take plain Python numbers alone."""


def is_strict(value: Any) -> bool:
    """Whether a value is such a module, or of one."""
    name = value.__name__ if type(value) is ModuleType else getattr(value, "__module__", None)
    return type(name) is str and name.partition(".")[0].lstrip("_") in STRICT


def refused_elsewhere(error: TypeError) -> DtypeError | None:
    """The named error for a bare one that code which is not ours has raised for a traced value."""
    if type(error) is not TypeError or refused:  # NumPy says it anew where a question was refused
        return None
    text = str(error)
    if not (_names_one(text) or _is_given_one(error.__traceback__)):
        return None
    return DtypeError(
        f"A traced value was given to code that refuses it: {text.rstrip('.')}.",
        "What takes plain Python numbers alone (decimal, datetime, json) is called before the "
        "function is traced, with its result as an argument, or by ftrace.pure_callback; or make "
        "the argument static (static_argnums).",
        place=source.raised_at(error),
    )


def refused_by_a_call(error: TypeError) -> DtypeError | None:
    """The named error for one that a call of code which is not ours has raised; else None.

    `x + None` and the `raise` of a user's own function are errors of plain Python numbers as well.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return None
    code = traceback.tb_frame.f_code
    if not source.is_internal(code.co_filename):
        at = next(i for i in dis.get_instructions(code) if i.offset == traceback.tb_lasti)
        if not at.opname.startswith("CALL"):
            return None
    return refused_elsewhere(error)


def _names_one(text: str) -> bool:
    kinds, names = [Tracer], set[str]()
    for kind in kinds:
        kinds += kind.__subclasses__()
        names.add(kind.__name__)
    return not names.isdisjoint(_TRACER.findall(text))


def _is_given_one(traceback: TracebackType | None) -> bool:
    """Whether a function of the standard library failed that has a traced value."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    frame = traceback.tb_frame
    file = frame.f_code.co_filename
    if not source.is_internal(file) or file.startswith((source.PACKAGE, "<")):
        return False
    return any(issubclass(type(x), Tracer) for x in frame.f_locals.values())

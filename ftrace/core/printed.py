"""Errors that C code prints and then raises: those of a trace that is repeated are not printed.

SciPy's wrapper of MINPACK prints why what a function gave is no array, through `sys.excepthook`,
before it raises that. A tracer's answer is no news to anybody: the trace begins anew, lifted.
"""

import sys
from types import TracebackType
from typing import Final
from weakref import ref

_PRINTS: Final = "_minpack_py.py"  # calls MINPACK


def keep_from_printing(error: BaseException) -> None:
    """Let `sys.excepthook` pass over an error, if MINPACK asked a tracer for its array.

    It does so once, and for the next error that comes to the hook: it is called at once, if at all.
    """
    if not sys._getframe(2).f_code.co_filename.endswith(_PRINTS):  # pyright: ignore[reportPrivateUsage]
        return
    before, own = sys.excepthook, ref(error)

    def hook(kind: type[BaseException], found: BaseException, at: TracebackType | None) -> None:
        sys.excepthook = before
        if found is not own():
            before(kind, found, at)

    sys.excepthook = hook

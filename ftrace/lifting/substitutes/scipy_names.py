"""SciPy's functions in lifted code: those of its special functions that are no ufuncs.

They make plain arrays of their arguments, which fails where one is traced; lifted, they are those
of `ftrace.scipy`. SciPy is not imported: a user who calls its functions brings them along.
"""

import importlib
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

_PACKAGES: Final = ("scipy.special",)


def counterpart(fn: Any) -> Callable[..., Any] | None:
    """The function of ftrace.scipy for one of SciPy, if there is one."""
    if type(fn) is not FunctionType:
        return None
    home = str(fn.__module__)
    for package in _PACKAGES:
        if home.startswith(f"{package}."):
            name = fn.__name__
            if getattr(sys.modules.get(package), name, None) is fn:
                return getattr(importlib.import_module(f"ftrace.{package}"), name, None)
    return None

"""`ftrace.scipy`: SciPy's functions, traced too: `fft`, `linalg`, `special`, `stats`.

Each subpackage is loaded when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ftrace.core.lazy import MAKING

if TYPE_CHECKING:
    from ftrace.scipy import fft as fft
    from ftrace.scipy import linalg as linalg
    from ftrace.scipy import special as special
    from ftrace.scipy import stats as stats

_MODULES = ("fft", "linalg", "special", "stats")


def __getattr__(name: str) -> Any:
    """Load a subpackage at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'ftrace.scipy' has no attribute {name!r}")
    with MAKING:
        value = importlib.import_module(f"ftrace.scipy.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})

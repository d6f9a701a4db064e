"""`ftrace.scipy`: SciPy's functions, traced too, in modules of SciPy's names.

Each subpackage is loaded when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ftrace.core.jax_names import refusing as _refusing
from ftrace.core.lazy import MAKING

if TYPE_CHECKING:
    from ftrace.scipy import cluster as cluster
    from ftrace.scipy import fft as fft
    from ftrace.scipy import integrate as integrate
    from ftrace.scipy import interpolate as interpolate
    from ftrace.scipy import linalg as linalg
    from ftrace.scipy import ndimage as ndimage
    from ftrace.scipy import optimize as optimize
    from ftrace.scipy import signal as signal
    from ftrace.scipy import spatial as spatial
    from ftrace.scipy import special as special
    from ftrace.scipy import stats as stats

_MODULES = (
    *("cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal"),
    *("spatial", "special", "stats"),
)


def __getattr__(name: str) -> Any:
    """Load a subpackage at its first use."""
    if name not in _MODULES:
        return _refusing("scipy")(name)
    with MAKING:
        value = importlib.import_module(f"ftrace.scipy.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})

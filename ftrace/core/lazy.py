"""Functions of packages that `import ftrace` does not import: resolved at their first call.

`lazy("scipy.special", "erf")` is a callable; SciPy is imported when it is called. Nothing else
here: which function an operation uses is said in its row. See primitives/special.py.
"""

import importlib
from collections.abc import Callable
from typing import Any


class Lazy:
    """A function that is looked up, once, when it is first called."""

    __slots__ = ("_found", "module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self._found: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self._found
        if found is None:
            found = self._found = getattr(importlib.import_module(self.module), self.name)
        return found(*args, **kwargs)

    def __repr__(self) -> str:
        return f"lazy({self.module!r}, {self.name!r})"


def lazy(module: str, name: str) -> Lazy:
    """`module.name`, imported at its first call."""
    return Lazy(module, name)

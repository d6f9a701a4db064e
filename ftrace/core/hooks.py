"""What modules below ask of modules above: all such functions, by name.

Imports point down. Where a module needs a function of one above it, the hook stands here, the
module below calls it, and the one above gives the function when it is imported, once.
"""

from collections.abc import Callable
from typing import Any, Final


class Hook:
    """A function that another module gives; before that, `otherwise`."""

    __slots__ = ("_function",)

    def __init__(self, otherwise: Callable[..., Any] | None = None) -> None:
        self._function: Any = otherwise

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def give(self, function: Callable[..., Any]) -> None:
        """The function to call from now on."""
        self._function = function


print_jaxpr: Final = Hook()
"""(jaxpr) -> its text: core/pretty.py, for `Jaxpr.__repr__`."""

decide: Final = Hook(lambda test: None)
"""(tracer) -> the truth that a run over several paths takes for it, or None:
lifting/syntax/paths.py, for `bool` of a traced value."""

shorten: Final = Hook(lambda jaxpr: jaxpr)
"""(jaxpr) -> one that computes the same, shorter if it was long:
control/rows/repeats_as_scans.py, for derivatives."""

write_out: Final = Hook()
"""(out, value, where) -> out: numpy/cells.py, for `out=` of ufuncs."""

write_at: Final = Hook()
"""(ufunc, target, indices, *values): numpy/cells.py, for `ufunc.at`."""

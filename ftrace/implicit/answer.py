"""What a solver of SciPy's returns where something is traced: the same names, as far as they exist.

What counts a solver's steps is known only while it runs on plain values.
"""

from typing import Any

from ftrace.core.errors import TracerAttributeError


class Answer(dict[str, Any]):
    """A result with SciPy's names, as attributes and as items.

    Args:
        what: the function that it is a result of.
        **found: its parts.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str, **found: Any) -> None:
        super().__init__(found)
        self._what = what

    def __getattr__(self, name: str) -> Any:
        if name[:1] == "_":
            raise AttributeError(name)
        return self[name]

    def __missing__(self, name: str) -> Any:
        raise TracerAttributeError(
            f"The result of {self._what} has no {name!r} where a traced value is among its "
            f"arguments: it has {', '.join(self)}.",
            f"Call {self._what} with plain values to read it.",
        )

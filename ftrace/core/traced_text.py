"""Texts of traced values: read back as a number, one would have lost its derivative."""

from typing import Any, NoReturn

from ftrace.core.errors import ConcretizationTypeError


class TracedText(str):
    """What `str(x)` and `f"{x}"` give for a value that is differentiated: `float` of it raises."""

    __slots__ = ()

    def _refused(self) -> NoReturn:
        raise ConcretizationTypeError(
            f"A number was read out of {str.__repr__(self)}, the text of a value that is being "
            "differentiated: its derivative would be lost.",
            "Compute with the value itself, and round it with numpy.round.",
        )

    __float__ = __int__ = _refused

    def __reduce__(self) -> Any:
        return str, (str.__str__(self),)

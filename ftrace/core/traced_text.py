"""Texts of traced values: read back as a number, one would have lost its derivative."""

import functools
from collections.abc import Callable
from typing import Any, Final, NoReturn

from ftrace.core.errors import ConcretizationTypeError

READERS: Final = frozenset(
    {
        ("builtins", "complex"),
        ("decimal", "Decimal"),
        ("fractions", "Fraction"),
        ("ast", "literal_eval"),
        ("json", "loads"),
    }
)
"""By module and name, what reads a number out of a text without asking it."""


class TracedText(str):
    """What `str(x)` and `f"{x}"` give for a value that is differentiated: `float` of it raises."""

    __slots__ = ()

    def refuse(self) -> NoReturn:
        """Refuse to be read as a number.

        Raises:
            ConcretizationTypeError: always.
        """
        raise ConcretizationTypeError(
            f"A number was read out of {str.__repr__(self)}, the text of a value that is being "
            "differentiated: its derivative would be lost.",
            "Compute with the value itself, and round it with numpy.round.",
        )

    __float__ = __int__ = refuse

    def __reduce__(self) -> Any:
        return str, (str.__str__(self),)

    def __radd__(self, other: Any) -> Any:
        return TracedText(other + str.__str__(self)) if isinstance(other, str) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return TracedText(other % str.__str__(self)) if isinstance(other, str) else NotImplemented


def _kept(name: str) -> Callable[..., Any]:
    """A method of texts, whose results are texts of traced values, too."""
    plain = getattr(str, name)

    @functools.wraps(plain)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return _traced(plain(self, *args, **options))

    return method


def _traced(x: Any) -> Any:
    if type(x) is list or type(x) is tuple:
        return type(x)(map(_traced, x))
    return TracedText(x) if type(x) is str else x


for _name in (
    *("__add__", "__mod__", "__mul__", "__rmul__", "__getitem__", "format", "join"),
    *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace", "translate"),
    *("split", "rsplit", "partition", "rpartition", "splitlines"),
    *("lower", "upper", "casefold", "zfill", "ljust", "rjust", "center", "expandtabs"),
):
    setattr(TracedText, _name, _kept(_name))


def is_reader(x: Any) -> bool:
    """Whether a callable reads numbers out of texts."""
    place = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    return all(type(part) is str for part in place) and place in READERS


def asking(reader: Any, instead: Any = None) -> Any:
    """What asks, in place of a reader of numbers, whether a text is that of a traced value.

    Args:
        reader: any callable; for one that reads no numbers there is nothing, None.
        instead: what takes its place already.
    """
    if not is_reader(reader):
        return None

    @functools.wraps(reader, ("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def ask(*args: Any, **options: Any) -> Any:
        for x in (*args, *options.values()):
            if type(x) is TracedText:
                x.refuse()
        return (instead or reader)(*args, **options)

    return ask

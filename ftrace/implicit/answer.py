"""What a solver of SciPy's returns where something is traced: the same names, as far as they exist.

What counts a solver's steps is known only while it runs on plain values.
"""

from typing import Any

from ftrace.core.errors import TracerAttributeError
from ftrace.core.registration import register_pytree_node


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


def _take_apart(answer: Answer) -> tuple[Any, Any]:
    texts = tuple((key, v) for key, v in answer.items() if type(v) is str)  # no values of a program
    names = tuple(key for key, v in answer.items() if type(v) is not str)
    data = answer._what, tuple(answer), names, texts  # pyright: ignore[reportPrivateUsage]
    return [answer[key] for key in names], data


def _put_together(data: Any, parts: Any) -> Answer:
    what, order, names, texts = data
    found = {**dict(texts), **dict(zip(names, parts, strict=True))}
    return Answer(what, **{key: found[key] for key in order})


register_pytree_node(Answer, _take_apart, _put_together)

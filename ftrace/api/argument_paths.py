"""Parts of arguments by their paths in Python: `params['w']`, `model.layers[0].bias`."""

from __future__ import annotations

import ast
import copy
from typing import Any, Final, NamedTuple

from ftrace.core.errors import TreeError


class PathStep(NamedTuple):
    """One step into a container."""

    is_item: bool
    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]" if self.is_item else f".{self.key}"


Steps = tuple[PathStep, ...]
NO_STEPS: Final[Steps] = ()


def parsed(path: str) -> tuple[str, Steps]:
    """The name that a path starts with, and its steps.

    Raises:
        TreeError: it is no path of names, attributes and constant items.
    """
    if path.isidentifier():
        return path, NO_STEPS
    try:
        node: Any = ast.parse(path.strip(), mode="eval").body
        steps: list[PathStep] = []
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                steps.append(PathStep(False, node.attr))
            else:
                steps.append(PathStep(True, ast.literal_eval(node.slice)))
            node = node.value
    except (SyntaxError, ValueError, AttributeError):
        raise TreeError(
            f"argnums={path!r} is no path to a part of an argument.",
            "Write it as in Python, with constants in brackets: params['w'], model.layers[0].bias.",
        ) from None
    return node.id, tuple(reversed(steps))


def value_at(x: Any, steps: Steps, path: str) -> Any:
    """The part of an argument at a path.

    Raises:
        TreeError: it has none.
    """
    for step in steps:
        try:
            x = x[step.key] if step.is_item else getattr(x, step.key)
        except (AttributeError, LookupError, TypeError) as error:
            raise TreeError(
                f"argnums={path!r}: there is no {step} in a {type(x).__name__} "
                f"({type(error).__name__}: {error}).",
                "Give a path that the argument has.",
            ) from None
    return x


def replaced(x: Any, steps: Steps, value: Any) -> Any:
    """A copy of an argument with another value at a path; what lies beside it is shared."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    inner = replaced(x[step.key] if step.is_item else getattr(x, step.key), rest, value)
    if isinstance(x, tuple):
        fields = list(x)
        fields[step.key if step.is_item else x._fields.index(step.key)] = inner  # type: ignore[attr-defined]
        return type(x)(*fields) if hasattr(x, "_fields") else tuple(fields)
    made = copy.copy(x)
    if step.is_item:
        made[step.key] = inner
    else:
        object.__setattr__(made, step.key, inner)  # a frozen dataclass, too
    return made

"""Of which classes a traced scalar may be, where traced values decide.

`y = t if t > 1 else 1.0` is a NumPy scalar or a Python number. Both are computed with alike, so
that the value is one tracer; a question whose answer differs between the classes is refused.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from ftrace.core.errors import LiftError
from ftrace.core.trace import Tracer, stands_for
from ftrace.core.weak import dropping

T = TypeVar("T")
Kinds = tuple[type, ...]

ONE: Final = "Give it one class on all paths: `float(x)`, or `np.float64(x)` of both."

_several: dict[int, tuple[Any, Kinds]] = {}  # by the id of a tracer


def kinds_of(x: Any) -> Kinds:
    """The classes that a value may be of where it is not traced."""
    if not isinstance(x, Tracer):
        return (type(x),)
    entry = _several.get(id(x)) if _several else None
    return (stands_for(x),) if entry is None else entry[1]


def either(*groups: Iterable[type]) -> Kinds:
    """The classes of which one of several values may be, each once."""
    return tuple(dict.fromkeys(kind for group in groups for kind in group))


def marked(x: T, kinds: Kinds) -> T:
    """The value, of which these are noted if they are several."""
    if len(kinds) > 1 and isinstance(x, Tracer):
        key = id(x)
        _several[key] = dropping(x, _several, key), kinds
    return x


def agreed(what: str, x: Any, question: Callable[[type], T], fix: str = ONE) -> T:
    """The answer to a question about the class of a value.

    Raises:
        LiftError: traced values decide the answer.
    """
    kinds = kinds_of(x)
    answer, *others = map(question, kinds)
    if any(other != answer for other in others):
        words = " or ".join(f"{kind.__module__}.{kind.__name__}" for kind in kinds)
        raise LiftError(
            f"{what} is asked of a value whose class a traced value decides: {words}.",
            fix,
        )
    return answer

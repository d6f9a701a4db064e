"""Of which classes a traced scalar may be, where traced values decide.

`y = t if t > 1 else 1.0` is a NumPy scalar or a Python number. Both are computed with alike, so
that the value is one tracer. A question whose answer differs between the classes is refused;
whether a division by zero is an error is asked of each (`dividing.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from ftrace.core.errors import LiftError
from ftrace.core.trace import UNKNOWN, Tracer, stands_for
from ftrace.core.weak import dropping
from ftrace.primitives.compare import bitwise_and, bitwise_not, eq, select

T = TypeVar("T")
# Whether a value is a Python number: known; a traced boolean, made where it is asked for; UNKNOWN
# in a loop and behind it, which does not carry the class of what it carries.
IsPython = Any

ONE: Final = "Give it one class on all paths: `float(x)`, or `np.float64(x)` of both."
NUMBERS: Final = (bool, int, float, complex)


class Classes(NamedTuple):
    """What a value may be where it is not traced.

    Attributes:
        types: its classes.
        is_python: whether it is a Python number.
        may_be_zero: whether such a number may be zero.
    """

    types: tuple[type, ...] = ()
    is_python: IsPython = False
    may_be_zero: bool = False

    def within(self) -> "Classes":
        """The same in a loop, which has no traced answers."""
        return self._replace(is_python=UNKNOWN) if callable(self.is_python) else self


NOTHING: Final = Classes()  # of what is no scalar
SEVERAL: Final[dict[int, tuple[Any, Classes]]] = {}  # by the id of a tracer


def is_chosen(*operands: Any) -> bool:
    """Whether one of some operands may be of several classes."""
    return any(id(x) in SEVERAL for x in operands)


def classes_of(x: Any) -> Classes:
    """What a value may be where it is not traced."""
    if not isinstance(x, Tracer):
        is_python = type(x) in NUMBERS
        return Classes((type(x),), is_python, is_python and x == 0)
    entry = SEVERAL.get(id(x)) if SEVERAL else None
    if entry is not None:
        return entry[1]
    return Classes((stands_for(x),), x.aval.weak, x.aval.weak)


def either(*several: Classes, is_python: IsPython = UNKNOWN) -> Classes:
    """What one of several values may be.

    Args:
        several: what they may be.
        is_python: whether it is a Python number, if they differ in that.
    """
    types = dict.fromkeys(kind for each in several for kind in each.types)
    first = several[0].is_python if several else False
    if all(each.is_python is first for each in several):
        is_python = first
    return Classes(tuple(types), is_python, any(each.may_be_zero for each in several))


def chosen_classes(predicate: Any, x: Classes, y: Classes) -> Classes:
    """What `x if predicate else y` may be."""
    a, b = x.is_python, y.is_python
    if a is b:
        return either(x, y)
    if a is UNKNOWN or b is UNKNOWN:
        return either(x, y, is_python=UNKNOWN)
    if not (callable(a) or callable(b)):
        return either(x, y, is_python=lambda: predicate if a else bitwise_not(predicate))
    now = select(predicate, asked(a), asked(b))  # at once: functions of functions would grow
    return either(x, y, is_python=lambda: now)


def told(is_python: Any, *several: Classes) -> Classes:
    """What one of several values may be, where a traced boolean tells the Python numbers."""
    return either(*several)._replace(is_python=lambda: is_python)


def one_of_classes(several: Sequence[Classes], i: Any) -> Classes:
    """What a value may be that a traced index chooses."""
    found, *rest = several
    for k, other in enumerate(rest, 1):
        if other.is_python is found.is_python:
            found = either(found, other)
        else:
            found = chosen_classes(eq(i, k), other, found)
    return found


def asked(is_python: IsPython) -> Any:
    """Whether a value is a Python number, in the current trace."""
    return is_python() if callable(is_python) else is_python


def as_python(classes: Classes, x: Any) -> Any:
    """A plain value as the Python number that it may be."""
    kinds = [t for t in classes.types if t in NUMBERS]
    return kinds[0](x) if len(kinds) == 1 else getattr(x, "item", lambda: x)()


def marked(x: T, classes: Classes) -> T:
    """The value, of which these are noted if they are several."""
    if len(classes.types) > 1 and isinstance(x, Tracer):
        key = id(x)
        SEVERAL[key] = dropping(x, SEVERAL, key), classes
    return x


def all_python(*operands: Any) -> IsPython:
    """Whether all operands are Python numbers."""
    sides = [each for x in operands if (each := classes_of(x).is_python) is not True]
    if not sides or any(each is False for each in sides):
        return not sides
    if any(each is UNKNOWN for each in sides):
        return UNKNOWN
    if len(sides) == 1:
        return sides[0]
    return lambda: bitwise_and(*map(asked, sides))


def computed(operate: Callable[..., Any], found: T, *operands: Any) -> T:
    """The result of an operator, a Python number where its operands are.

    Args:
        operate: the operator of Python numbers.
        found: the result.
        operands: one or two, of several classes.
    """
    is_python = all_python(*operands)
    if type(is_python) is bool or not isinstance(found, Tracer):
        return found
    types: list[tuple[type, ...]] = [()]
    for x in operands:
        mine = [t for t in classes_of(x).types if t in NUMBERS]
        types = [(*before, t) for before in types for t in mine]
    kinds = {_result(operate, *one) for one in types} - {None}
    if callable(is_python):  # at once, as in `chosen_classes`
        is_python = partial(_same, asked(is_python))
    return marked(found, Classes((stands_for(found), *kinds), is_python, True))


def _same(known: Any) -> Any:
    return known


def _result(operate: Callable[..., Any], *types: type) -> Any:
    try:
        return type(operate(*(t(1) for t in types)))
    except TypeError:  # of complex numbers
        return None


def agreed(what: str, x: Any, question: Callable[[type], T], fix: str = ONE) -> T:
    """The answer to a question about the class of a value.

    Raises:
        LiftError: traced values decide the answer.
    """
    kinds = classes_of(x).types
    answer, *others = map(question, kinds)
    if any(other != answer for other in others):
        raise LiftError(
            f"{what} is asked of a value whose class a traced value decides: {words_of(kinds)}.",
            fix,
        )
    return answer


def words_of(kinds: Iterable[type]) -> str:
    """Classes, for messages."""
    return " or ".join(f"{kind.__module__}.{kind.__name__}" for kind in kinds)

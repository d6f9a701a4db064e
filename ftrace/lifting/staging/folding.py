"""Folds of comprehensions whose conditions traced values decide: `sum(v for v in x if v > 0)`.

A list has as many items as it has whatever values are, but what `sum`, `len`, `any`, `all`, `min`,
`max` and `math.prod` make of one has not: they go on from item to item, as a `for` loop with an
`if` does. So a comprehension that is their argument comes as a `Level`, whose conditions and
elements are functions, and an undecided condition chooses between two states of the fold.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

from ftrace.control.rows.raising import fail_where
from ftrace.core.trace import EVAL, ctx
from ftrace.lifting.staging.conditional_values import both, chosen, decided, either, taken
from ftrace.lifting.staging.items import items_of
from ftrace.lifting.state.leaves import truth, undecided
from ftrace.primitives.compare import bitwise_and, bitwise_not

Lifted = Callable[[Any], Any]  # what a callable means in lifted code
Part = tuple[Callable[[], Any], Callable[[], Any]]  # the condition, and what is there if it holds


class Level:
    """One `for` of a comprehension with its conditions.

    Args:
        items: what it runs over.
        parts: of these: for each item the condition and the element, or the level inside.
    """

    def __init__(self, items: Any, parts: Callable[[Any], Iterator[Part]]) -> None:
        self._items = items_of(items)
        if self._items.native is None:
            decided(self._items.length, "comprehension")
        self.parts = parts(iter(self._items))

    def alone(self) -> None:
        """Refuse an iterator that others may go on with."""
        self._items.alone()

    def elements(self) -> Iterator[Any]:
        """What the comprehension gives.

        Raises:
            LiftError: a traced value decides which that is.
        """
        for test, part in self.parts:
            if decided(test(), "comprehension"):
                found = part()
                if isinstance(found, Level):
                    yield from found.elements()
                else:
                    yield found


class _Fold:
    """A builtin that goes over items, with a state that begins as the list of those seen.

    Args:
        plain: the builtin.
        call: what gives what a callable means in lifted code.
        options: its other arguments, by name.
        listed: whether the comprehension is a list.
    """

    known_options: tuple[str, ...] = ()
    stop: Any = None  # the state after which no item is asked for

    def __init__(self, plain: Any, call: Lifted, options: dict[str, Any], listed: bool) -> None:
        self.plain, self.call, self.options, self.listed = plain, call, options, listed

    def of(self, level: Level) -> Any:
        """The value."""
        state = self.over(level, self.start())
        if type(state) is _Seen:
            return self.call(self.plain)(state.items, **self.options)
        return self.end(state)

    def start(self) -> Any:
        return _Seen()

    def over(self, level: Level, state: Any) -> Any:
        """The state after the items of a level."""
        for part in level.parts:
            state = self.after(part, state)
            if self.stop is not None:
                if undecided(state):
                    level.alone()
                elif bool(state) is self.stop:
                    break
        return state

    def after(self, part: Part, state: Any) -> Any:
        """The state after an item."""
        test, element = part
        holds = self.run(test)
        if not undecided(holds):
            return self.within(element, state) if holds else state
        return self.unless(holds, element, self.begun(state))

    def begun(self, state: Any) -> Any:
        return self.known(state.items) if type(state) is _Seen else state

    def unless(self, holds: Any, element: Callable[[], Any], state: Any) -> Any:
        inside = functools.partial(self.within, element, state, staged=True)
        return chosen(holds, inside, lambda: state, parts=(element,))

    def within(self, element: Callable[[], Any], state: Any, staged: bool = False) -> Any:
        """The state after an item that is there."""
        found = self.run(element)
        if not isinstance(found, Level):
            return state.more(found) if type(state) is _Seen else self.joined(state, found)
        if staged:
            found.alone()
        return self.over(found, state)

    def run(self, part: Callable[[], Any]) -> Any:
        """What a part of the comprehension gives: out of a generator comes no StopIteration."""
        try:
            return part()
        except StopIteration as error:
            if self.listed:
                raise
            raise RuntimeError("generator raised StopIteration") from error

    def known(self, items: list[Any]) -> Any:
        """The state after items that are there."""
        return self.call(self.plain)(items, **self.options)

    def joined(self, state: Any, element: Any) -> Any:
        raise NotImplementedError

    def end(self, state: Any) -> Any:
        return state


class _Seen:
    """The items seen while none was undecided: Python's own builtin folds them."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def more(self, item: Any) -> "_Seen":
        self.items.append(item)
        return self


class _Sum(_Fold):
    known_options = ("start",)

    def joined(self, state: Any, element: Any) -> Any:
        return state + element


class _Product(_Fold):
    known_options = ("start",)

    def joined(self, state: Any, element: Any) -> Any:
        return state * element


class _Count(_Fold):
    def joined(self, state: Any, element: Any) -> Any:
        return state + 1


class _Quantifier(_Fold):
    """`any` and `all`, which of a list only the truth of items is not asked for."""

    ends = True
    unless_stopped = staticmethod(either)

    def __init__(self, plain: Any, call: Lifted, options: dict[str, Any], listed: bool) -> None:
        super().__init__(plain, call, options, listed)
        self.stop = None if listed else self.ends

    def start(self) -> Any:
        return not self.ends

    def after(self, part: Part, state: Any) -> Any:
        if self.stop is None or not undecided(state):
            return super().after(part, state)
        return self.unless_stopped(state, lambda: self.after(part, not self.ends), part)

    def joined(self, state: Any, element: Any) -> Any:
        return self.unless_stopped(state, lambda: self.call(bool)(element))


class _Any(_Quantifier):
    pass


class _All(_Quantifier):
    ends = False
    unless_stopped = staticmethod(both)


class _Extreme(_Fold):
    """`min` and `max`; the state is whether there is an item, and the best."""

    known_options = ("default",)
    better: Callable[[Any, Any], Any]

    def known(self, items: list[Any]) -> Any:
        return (True, self.call(self.plain)(items)) if items else (False, None)

    def unless(self, holds: Any, element: Callable[[], Any], state: Any) -> Any:
        if state[0] is not False:
            return super().unless(holds, element, state)
        found, best = taken(holds, lambda: self.within(element, state, True), (element,)) or state
        return (False if found is False else bitwise_and(truth(holds), found)), best

    def joined(self, state: Any, element: Any) -> Any:
        found, best = state
        if found is False:
            return True, element
        first = bitwise_not(found) if undecided(found) else not found
        wins = either(first, lambda: self.better(element, best))
        return True, chosen(wins, lambda: element, lambda: best)

    def end(self, state: Any) -> Any:
        found, best = state
        if "default" in self.options:
            return chosen(found, lambda: best, lambda: self.options["default"])
        if found is False:
            return self.plain(())
        if found is not True:
            fail_where(bitwise_not(found), (), lambda: self.plain(()), ValueError)
        return best


class _Least(_Extreme):
    better = operator.lt


class _Greatest(_Extreme):
    better = operator.gt


_FOLDS: Final[dict[int, type[_Fold]]] = {
    id(sum): _Sum,
    id(math.prod): _Product,
    id(len): _Count,
    id(any): _Any,
    id(all): _All,
    id(min): _Least,
    id(max): _Greatest,
}


def folded(fn: Any, call: Lifted, listed: bool, level: Level) -> Callable[..., Any]:
    """What takes the other arguments of a call whose first is a comprehension.

    Args:
        fn: what is called.
        call: what gives what a callable means in lifted code.
        listed: whether the comprehension is a list.
        level: the comprehension.
    """
    kind = None if ctx.trace is EVAL else _FOLDS.get(id(fn))

    def fold(*more: Any, **options: Any) -> Any:
        if kind is _Sum and len(more) == 1 and not options:
            more, options = (), {"start": more[0]}
        if kind is None or more or not {*kind.known_options}.issuperset(options):
            items = level.elements()
            return call(fn)(list(items) if listed else items, *more, **options)
        return kind(fn, call, options, listed).of(level)

    return fold

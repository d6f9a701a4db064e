"""The binomial schedule of reverse mode: which states of a loop to keep, and what to run again.

A loop of n iterations is run backwards with at most s of its states in memory. They are placed so
that the fewest iterations are run again (Griewank and Walther 2000, Algorithm 799: r n - C(s + r, s
+ 1) iterations for the least r with C(s + r, s) >= n). The schedule depends on n and s alone, so
that it is
a table: Python and compiled programs follow the same one.
"""

import functools
from collections.abc import Iterator
from math import comb
from typing import Final

ADVANCE: Final = 0  # run iteration i from the state before it
BACK: Final = 1  # iteration i backwards, from the state before it
KEEP: Final = 2  # put the state into place i
RESTORE: Final = 3  # take the state from place i

Action = tuple[int, int]


def repeated(n: int, slots: int) -> int:
    """The fewest iterations to run again when n are reversed with so many states in memory."""
    r = 0
    while comb(slots + r, slots) < n:
        r += 1
    return r * n - comb(slots + r, slots + 1)


@functools.lru_cache(maxsize=1 << 16)
def middle(n: int, slots: int) -> int:
    """After how many of n > 1 iterations to keep the next state; slots > 1 counts the first."""

    def cost(m: int) -> int:
        return m + repeated(n - m, slots - 1) + repeated(m, slots)

    low, high = 1, n - 1  # the cost is convex in m
    while low < high:
        m = (low + high) // 2
        if cost(m) <= cost(m + 1):
            high = m
        else:
            low = m + 1
    return low


def schedule(n: int, slots: int) -> Iterator[Action]:
    """What to do with the first state at hand, so that each iteration is run backwards once.

    Args:
        n: iterations.
        slots: how many states there is memory for.

    Returns:
        Pairs of what to do and the number of the iteration or of the place, in order.
    """
    if n > 1:
        yield KEEP, 0
    if n:
        yield from _reversed(0, n, slots, 0)


def _reversed(first: int, last: int, slots: int, place: int) -> Iterator[Action]:
    """The iterations `first` to `last` - 1; the state before the first is at hand and kept."""
    while last - first > 1:
        step = middle(last - first, slots) if slots > 1 else last - first - 1
        yield from ((ADVANCE, i) for i in range(first, first + step))
        if slots > 1 and last - first - step > 1:
            yield KEEP, place + 1
            yield from _reversed(first + step, last, slots - 1, place + 1)
        else:
            yield BACK, first + step
        last = first + step
        yield RESTORE, place
    yield BACK, first

"""Where a list of equations seems to repeat itself: stretches with a period.

A period is a distance at which names recur (or a small multiple: two halves of an iteration may
look alike), one by one or many in a row (an iteration may hold repeats that are no loops of their
own); for each, the list is compared with itself that much further, all at once. Operands
must agree as well: made as far back, or by the same equation, or in an earlier iteration. What is
found here is a guess; unify.py says whether it holds.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ftrace.core.records import record
from ftrace.lowering.rolling.listing import Numbered, Numbers

PERIODS: Final = 64  # distances that are tried, the most frequent first
LONG: Final = 8  # of them for each length of what recurs beyond three names
MULTIPLES: Final = (1, 2, 3, 4, 5, 6, 8)
MEMORY: Final = 3  # iterations back from which one may read
INNER: Final = 8  # iterations of what is taken for a loop in a loop, and done first

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@record
class Run:
    """A stretch of a list: iterations of as many equations each."""

    start: int
    period: int
    iterations: int

    @property
    def end(self) -> int:
        """The first equation behind it."""
        return self.start + self.equations

    @property
    def equations(self) -> int:
        """How many there are in all iterations."""
        return self.period * self.iterations

    @property
    def saved(self) -> int:
        """How many equations less there are if it is rolled."""
        return self.period * (self.iterations - 1)

    @property
    def rank(self) -> tuple[int, int]:
        """What is done first has the least: inner loops, then what saves most."""
        return (0, self.period) if self.iterations >= INNER else (1, -self.saved)

    def within(self, start: int, end: int) -> "Run":
        """Its whole iterations in a stretch."""
        skipped = max(0, -((self.start - start) // self.period))
        iterations = (min(end, self.end) - self.start) // self.period - skipped
        return Run(self.start + skipped * self.period, self.period, max(iterations, 0))


@record
class Stretch:
    """Equations of which each looks like the one a period further; where to cut them is open."""

    first: int
    period: int
    length: int

    @property
    def run(self) -> Run:
        """The run that begins with its first equation: none has more iterations."""
        return Run(self.first, self.period, self.length // self.period)

    def cut(self, listing: Numbered) -> Run:
        """The run over whose iterations fewest bytes are handed on."""
        start = _cut(listing, self.first, self.length, self.period)
        return Run(start, self.period, (self.first + self.length - start) // self.period)


def stretches(listing: Numbered, least: int, saved: int) -> Iterator[Stretch]:
    """Where runs may hold, of at least so many iterations, and that save so many equations."""
    names, makers, before = listing.names, listing.makers(), listing.before
    n = len(names)
    for d in _periods(names, n // least):
        shortest = (least - 1) * d
        firsts, ends = _where(names[:-d] == names[d:])  # what looks like what is further by d
        long = (ends - firsts >= shortest) & (before[ends] - before[firsts] >= saved)
        for first, end in zip(firsts[long].tolist(), ends[long].tolist(), strict=True):
            starts, stops = _alike(makers, first, end, d)
            starts = np.maximum(starts - MEMORY * d, first)
            enough = (stops - starts >= shortest) & (before[stops] - before[starts] >= saved)
            for k in np.flatnonzero(enough).tolist():
                yield Stretch(int(starts[k]), d, int(stops[k] - starts[k]) + d)


def _alike(makers: list[Numbers], first: int, end: int, d: int) -> tuple[Numbers, Numbers]:
    """Among equations that look like those further by d, the stretches that read alike, too."""
    same = np.ones(end - first, bool)
    place = np.arange(first, end)
    for column in makers:
        now, then = column[first:end], column[first + d : end + d]
        earlier = (now <= place - d) & (then <= place)
        same &= (now == then) | (then == now + d) | earlier
    firsts, ends = _where(same)
    return firsts + first, ends + first


def _periods(names: Numbers, longest: int) -> list[int]:
    """Distances at which three names in a row recur, and their multiples; and twice as many names.

    Words of names are numbered by doubling (Karp, Miller and Rosenberg 1972).
    """
    if len(names) < 3:
        return []
    _, words = np.unique(names[:-2] * (1 << 40) + names[1:-1] * (1 << 20) + names[2:], False, True)
    length = 3
    every = {d * k for d in _gaps(words, longest)[:PERIODS] for k in MULTIPLES}
    while 2 * length <= longest:
        pairs = words[:-length] * len(words) + words[length:]
        _, words = np.unique(pairs, False, True)
        length *= 2
        every.update(_gaps(words, longest)[:LONG])
    return sorted(d for d in every if d <= longest)


def _gaps(words: Numbers, longest: int) -> list[int]:
    """Distances between a word and the same one again, the most frequent first."""
    order = np.argsort(words, kind="stable")
    gaps = np.diff(order)[words[order][1:] == words[order][:-1]]
    found, counts = np.unique(gaps[gaps <= longest], return_counts=True)
    often = counts >= 2
    found, counts = found[often], counts[often]
    best: list[int] = found[np.argsort(-counts, kind="stable")].tolist()
    return best


def _where(flags: Flags) -> tuple[Numbers, Numbers]:
    """Where flags are set without a gap: the first of each stretch, and one behind the last."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return edges[::2], edges[1::2]


def _cut(listing: Numbered, first: int, length: int, d: int) -> int:
    """The start among those of the first iteration over which fewest bytes are handed on.

    Counted in the middle, where every iteration reads what the one before has left.
    """
    middle = first + max(0, length // d // 2 - 1) * d
    handed = np.zeros(d, np.int64)
    furthest: dict[int, tuple[int, Any]] = {}
    low = int(listing.first_made[first])
    for i in range(middle, min(middle + 2 * d, first + length)):
        begin, end = int(listing.first_read[i]), int(listing.first_read[i + 1])
        for number in listing.reads[begin:end].tolist():
            if number >= low:
                furthest[number] = i, listing.atom(number).aval
    for number, (reader, a) in furthest.items():
        maker = int(np.searchsorted(listing.first_made, number, "right")) - 1
        if middle <= maker < middle + d and reader - maker <= MEMORY * d:
            cuts = np.arange(maker + 1, min(reader, maker + d) + 1) - first
            np.add.at(handed, cuts % d, a.size * a.dtype.itemsize)
    return first + int(np.argmin(handed))

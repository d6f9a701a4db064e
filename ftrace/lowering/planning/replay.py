"""What a plan needs to run a loop backwards with few of its states: the schedule as a table.

The schedule of core/binomial.py is known when a program is planned. It becomes two columns of
numbers, what to do and where, which are constants of the program; plan.py makes a scan over them.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.core.binomial import KEEP, repeated, schedule
from ftrace.core.jaxpr import Jaxpr
from ftrace.core.scan_layout import ScanHalves
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import zeros

LONGEST: Final = 1 << 21  # iterations to run again beyond which the table would be too large


class Table(NamedTuple):
    """A schedule.

    Attributes:
        actions: what to do, i8.
        numbers: the element of xs and ys, or the place of a state, i8.
        places: how many states are kept.
    """

    actions: Any
    numbers: Any
    places: int


def table(halves: ScanHalves) -> Table | None:
    """The schedule of a loop; None if it is too long for a table."""
    n = halves.length
    if n and repeated(n, halves.slots) > LONGEST:
        return None
    pairs = np.array(list(schedule(n, halves.slots)), np.int64).reshape(-1, 2)
    actions, numbers = pairs.T.copy()
    places = int(numbers[actions == KEEP].max(initial=0)) + 1
    if halves.reverse:
        numbers = np.where(actions < KEEP, n - 1 - numbers, numbers)
    return Table(actions, numbers, places)


def zero_sums(back: Jaxpr, n: int) -> Jaxpr:
    """Gives what the first n results of an iteration back start from."""
    return trace_closed(lambda: [zeros(a) for a in back.out_avals[:n]], ())

"""Fewer collections of garbage while many objects are made that stay.

A trace of a long loop makes a hundred thousand equations and variables, all of which live on.
Python's collector looks at all of them each time their number has grown by a few hundred, which is
a third of the time; in the block it waits for more. What the user has set holds again behind it.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

# Objects, and collections of the younger generations: a look at the middle one, at millions that
# stay, would be a tenth of the time.
PATIENT: Final = (100_000, 200, 100)


@contextmanager
def rare_collections() -> Generator[None]:
    """A block in which collections are rare; the outermost one of them says when it ends.

    Where several threads are in such blocks, the rest of some may be as before, and no harm done.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < PATIENT[0]:
        yield
        return
    gc.set_threshold(*PATIENT)
    try:
        yield
    finally:
        if gc.get_threshold() == PATIENT:
            gc.set_threshold(*before)

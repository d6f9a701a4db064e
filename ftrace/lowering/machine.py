"""What lowering knows of the machine that a program is planned for."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ftrace.core.records import record


class InnerLoop(NamedTuple):
    """A compiled loop of a gufunc of NumPy's.

    Attributes:
        module, name, signature: of the gufunc.
        types: of its operands and results, as NumPy writes them: `Dd->D`.
    """

    module: str
    name: str
    signature: str
    types: str


def _common() -> int:
    return 2**31 - 1


def _none(loop: InnerLoop, fails: bool) -> bool:
    return False


def _can_scatter(combine: str, dtype: np.dtype[Any]) -> bool:
    """Whether a loop of the processor combines such elements as NumPy does."""
    if combine == "set":
        return True
    return combine == "add" if dtype.kind == "c" else dtype.kind != "f" or dtype.itemsize > 2


def _never(name: str) -> bool:
    return False


@record
class Machine:
    """Facts that decide what kernels are made.

    Attributes:
        vector_bytes: of a vector of a processor.
        longest: gives the largest size that native code can pass to a library of matrix products,
            0 for none; asked when there is a product.
        loops: whether native code can call a loop of a gufunc, and (`fails`) tell whether it
            failed; asked when there is one.
        scatters: whether native code can change elements of a type at computed places, combining
            them as `scatter_at` says: (combine, dtype).
        accumulates: whether a cumulative row that no kernel takes is a step of its own, not one of
            Python; asked for the operation that joins elements.
        wide: whether sums of float32 are folded in float64; else in float32 with the rounding
            errors kept beside.
        bounds: whether loops are cut where a condition on their index changes; else the condition
            is asked at every index.
        lanes: whether iterations run in the lanes of vectors; then lanes lie across short rows, and
            what is costly and computed from folds is done apart, in lanes of its own.
        in_order: whether a loop that runs in order is as fast as a row of the library; else
            cumulative rows are left to the library.
        lazy: whether an element is loaded only where a condition on elements asks for it; else
            only conditions that a whole loop shares keep loads from happening.
        waits: whether a look at a value waits for all that was started; then errors that values
            decide are looked for last.
        blocks: of rows there should be where a kernel adds up rows on the way, if they are cut.
        threads: that may share the iterations of a loop.
        pages: of 4096 bytes that a member of a scan may touch in its iterations, if it iterates by
            itself where members are many; more are passed iteration by iteration. None where calls
            cost
            more.
    """

    vector_bytes: int
    longest: Callable[[], int] = _common
    loops: Callable[[InnerLoop, bool], bool] = _none
    scatters: Callable[[str, np.dtype[Any]], bool] = _can_scatter
    accumulates: Callable[[str], bool] = _never
    wide: bool = True
    bounds: bool = True
    lanes: bool = True
    in_order: bool = True
    lazy: bool = True
    blocks: int = 1
    waits: bool = False
    threads: int = 1
    pages: int | None = 512

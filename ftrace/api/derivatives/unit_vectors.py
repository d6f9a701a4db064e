"""Unit vectors over all elements of several arrays, as many at a time as a pass takes.

Where the program runs, chunks are passed one after another; where it is recorded, they are the
iterations of one loop, whose body is traced once and makes its unit vectors by itself.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ftrace.api.calls import brief
from ftrace.api.derivatives.measured_chunks import fastest
from ftrace.control.rows.scan import scan_call
from ftrace.core.avals import ShapedArray
from ftrace.core.device import free
from ftrace.core.dtypes import int64, is_inexact
from ftrace.core.errors import HostMemoryError, ShapeError
from ftrace.core.scan_layout import ScanLoop
from ftrace.core.trace import ctx, is_staged
from ftrace.interpreters.staging import hoist_consts, trace_to_jaxpr
from ftrace.primitives.arithmetic import sub
from ftrace.primitives.compare import eq
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.linear import add, broadcast_in_dim
from ftrace.primitives.shape import reshape

TOGETHER: Final = 100  # directions of a compiled pass
MOST: Final = 1 << 26  # bytes of the directions of another one
Chunk = int | str | None
Basis = list[Any]  # for each array [count, *shape], None for integers


def check_chunk(chunk_size: Any) -> Chunk:
    """How many directions a pass takes, as far as that is known without arguments.

    Raises:
        ShapeError: it is no positive integer, nor "auto".
    """
    cls = type(chunk_size)
    if chunk_size is None or (cls is str and chunk_size == "auto"):
        return chunk_size
    if cls is bool or not issubclass(cls, int | np.integer) or chunk_size < 1:
        raise ShapeError(
            f'chunk_size must be a positive integer, "auto" or None, not {brief(chunk_size)}.',
            "It says how many directions go through one pass; None takes all at once.",
        )
    return int(chunk_size)


def resolved(chunk: Chunk, avals: Sequence[ShapedArray]) -> int | None:
    """The number of directions of a pass; "auto" depends on where it runs, and on sizes."""
    if not isinstance(chunk, str):
        return chunk
    if is_staged(ctx.trace):
        return TOGETHER
    return max(1, MOST // max(1, sum(a.size * a.dtype.itemsize for a in avals)))


def total(avals: Sequence[ShapedArray]) -> int:
    """How many directions there are."""
    return sum(a.size for a in avals if is_inexact(a.dtype))


def loops(avals: Sequence[ShapedArray], chunk: int | None) -> bool:
    """Whether the chunks are to be iterations of a loop."""
    return chunk is not None and chunk < total(avals) and is_staged(ctx.trace)


def chunks(avals: Sequence[ShapedArray], chunk: int | None) -> Iterator[tuple[Basis, int]]:
    """Unit vectors over all elements of arrays, a chunk at a time, and how many there are."""
    every = total(avals)
    step = max(every, 1) if chunk is None else chunk
    for start in range(0, max(every, 1), step):
        count = min(step, every - start)
        basis: Basis = []
        offset = 0
        for a in avals:
            if not is_inexact(a.dtype):
                basis.append(None)
                continue
            unit = _nothing(count, a)
            k = np.arange(max(offset, start), min(offset + a.size, start + count))
            unit[k - start, k - offset] = 1
            basis.append(free(unit.reshape((count, *a.shape))))
            offset += a.size
        yield basis, count


def _nothing(count: int, a: ShapedArray) -> Any:
    try:
        return np.zeros((count, a.size), a.dtype)
    except MemoryError:
        size = count * a.size * a.dtype.itemsize
        raise HostMemoryError(
            f"A Jacobian by {a!r} takes {count} directions at once, and one array of them has "
            f"{size / 2**30:.3g} GiB: more than there is.",
            "Ask for products instead of the matrix (jvp, vjp, linearize, hvp), for its structure "
            "(jacobian(f, structured=True), ftrace.sparse.jacobian), or for fewer rows at a time "
            "(chunk_size), if the matrix itself fits.",
        ) from None


def looped(
    one_pass: Callable[[Basis, int], Sequence[Any]],
    avals: Sequence[ShapedArray],
    chunk: int,
    wanted: Chunk = None,
) -> list[Any]:
    """The results of all passes, stacked: those of the last one beyond the last element are zero.

    Args:
        one_pass: a basis and the number of its directions -> arrays.
        avals: what the directions are of.
        chunk: directions of a pass.
        wanted: what was asked for: "auto" measures which number is fastest.
    """
    if wanted == "auto":

        def some(size: int, passes: int) -> tuple[Any, Any]:
            jaxpr, captured = trace_to_jaxpr(lambda: _passes(one_pass, avals, size, passes), [])
            return jaxpr, captured

        chunk = fastest(some, total(avals), chunk)
    return _passes(one_pass, avals, chunk, -(-total(avals) // chunk))


def _passes(
    one_pass: Callable[[Basis, int], Sequence[Any]],
    avals: Sequence[ShapedArray],
    chunk: int,
    count: int,
) -> list[Any]:
    """The results of the first `count` passes, stacked, as a loop."""

    def body(start: Any) -> Sequence[Any]:
        return one_pass(_units(avals, start, chunk), chunk)

    starts = free(np.arange(count, dtype=np.int64) * chunk)
    jaxpr, tracers = trace_to_jaxpr(body, [ShapedArray((), starts.dtype)])
    jaxpr, arrays = hoist_consts(jaxpr)
    captured = [*arrays, *tracers]
    return list(
        scan_call(
            *captured, starts, body=jaxpr, loop=ScanLoop(count, False, len(captured), 0, None)
        )
    )


def _units(avals: Sequence[ShapedArray], start: Any, count: int) -> Basis:
    """The unit vectors from a traced number on."""
    basis: Basis = []
    offset = 0
    for a in avals:
        if not is_inexact(a.dtype):
            basis.append(None)
            continue
        shape = (count, a.size)
        first = broadcast_in_dim(sub(start, np.int64(offset)), shape=shape, broadcast_dimensions=())
        place = add(first, iota(dtype=int64, shape=shape, dimension=0))
        here = eq(place, iota(dtype=int64, shape=shape, dimension=1))
        unit = convert_element_type(here, new_dtype=a.dtype)
        basis.append(reshape(unit, new_sizes=(count, *a.shape)))
        offset += a.size
    return basis

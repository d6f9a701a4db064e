"""A loop that records for reverse mode takes batch elements in blocks that end together.

Mapped over batch elements, a `while` iterates until the last of them is done, and leaves on its
tapes what every iteration computes for all of them; the `scan` backwards reads that again. Where
few elements iterate long, most of it is about elements that are done, and with many elements each
iteration is a pass over memory. Batch elements do not depend on each other. So the loop is first
run for the number of iterations of each (a kernel, in which every element ends by itself), and
then forwards and backwards for blocks of elements in the order of these numbers: iterations are
hardly wasted, tapes stay in the cache, and a block's tapes take the memory of those before.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core.avals import aval, typeof
from ftrace.core.dtypes import float64, int64
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from ftrace.core.kinds import layout
from ftrace.core.tapes import is_tape
from ftrace.interpreters.batching import Axis, batch_jaxpr
from ftrace.interpreters.dce import dce_jaxpr
from ftrace.interpreters.partial import with_results
from ftrace.interpreters.staging import trace_closed
from ftrace.lowering.fusion.fuse import is_costly
from ftrace.lowering.fusion.inline import inline
from ftrace.lowering.loops.batch_axes import (
    axis_of_input,
    evaluate,
    is_of_numbers,
    narrow,
    narrowed,
    over_all,
    value,
)
from ftrace.lowering.loops.loop_regions import RecordedLoop, region_of
from ftrace.lowering.rolling.rolled_row import RolledLoop, rolled
from ftrace.primitives.arithmetic import min as minimum
from ftrace.primitives.arithmetic import mul
from ftrace.primitives.compare import gt, select
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.create import iota
from ftrace.primitives.index import gather, scatter
from ftrace.primitives.linear import add, broadcast_in_dim, move_axis, reduce_sum
from ftrace.primitives.reduce import reduce_max
from ftrace.primitives.shape import concatenate, reshape
from ftrace.primitives.slicing import slice as slice_of
from ftrace.primitives.sort import sort

SIZE: Final = 128  # batch elements of a block, of one number each
FEWEST: Final = 4  # blocks that are worth to be sorted
CHEAP: Final = 16  # equations of a body that is short, its masks and counts included
WASTE: Final = 1.25  # iterations of all batch elements until the last one is done, for one of use
LONGEST: Final = 2**15 - 1  # NumPy sorts keys of 16 bits in linear time
_FOLDS: Final = (reduce_max, reduce_sum)


def in_blocks(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr whose recording loops take their batch elements in blocks; itself if it has none."""
    for eqn in jaxpr.eqns:
        n = _batch_elements(eqn)
        found = region_of(jaxpr, eqn, n) if n and n >= FEWEST * _size(eqn, n) else None
        if found is not None:
            return in_blocks(_replaced(jaxpr, found))
    return jaxpr


def _batch_elements(eqn: Eqn) -> int:
    """How many batch elements a recording loop has, of which each has its own end; or 0."""
    loop = layout(eqn)
    if loop is None or not loop.records or eqn.effects or _is_cheap(loop.body):
        return 0
    last = next((e for e in reversed(loop.cond.eqns) if loop.cond.outvars[0] in e.outvars), None)
    return 0 if last is None or not over_all(last, "or") else last.invars[0].aval.shape[0]


def _is_cheap(body: Jaxpr) -> bool:
    """Whether an iteration takes less time than to look at how many there are."""
    return len(body.eqns) < CHEAP and not any(map(is_costly, body.eqns))


def _size(eqn: Eqn, n: int) -> int:
    """About how many batch elements of a loop are a block: fewer if they are arrays."""
    widest = max((v.aval.size for v in eqn.outvars if not is_tape(v.aval)), default=n)
    return max(SIZE * n // max(widest, n), 8)


# ---------------------------------------------------------------------------------- the program


def _replaced(jaxpr: Jaxpr, region: RecordedLoop) -> Jaxpr:
    """The jaxpr with blocks in the place of a region."""
    starts = (x.start for x in region.sums if type(x.start) is Var)
    given = tuple(dict.fromkeys((*region.inputs, *starts)))
    program = trace_closed(_program(region, given), [v.aval for v in given])
    eqns, found, consts = inline(program, given)
    outs = [*(x.out for x in region.sums), *region.outs]
    names = dict(zip(found, outs, strict=True))
    renamed = [
        Eqn(e.primitive, e.invars, e.params, [names.get(v, v) for v in e.outvars], e.source)
        for e in eqns
    ]
    return Jaxpr(
        jaxpr.invars,
        [*region.before, *renamed, *region.after],
        jaxpr.outvars,
        [*jaxpr.constvars, *(v for v, _ in consts)],
        [*jaxpr.consts, *(c for _, c in consts)],
        jaxpr.names,
    )


def _program(region: RecordedLoop, given: Sequence[Var]) -> Callable[..., list[Any]]:
    """What a region computes of what it is given, in blocks: its sums, then other results.

    The last block is what is left, so that no batch element is added twice.
    """
    axes, n = region.axes, region.axes.n
    size = _even(n, _size(region.loop, n))
    blocks, left = divmod(n, size)
    consts = [v for v in region.inputs if axes.of(v) is None]
    arrays = [v for v in region.inputs if axes.of(v) is not None]
    bodies = [_block(region, consts, arrays, m) for m in (size, left) if m]
    bodies[0].cache["rolled"] = True  # passes have seen these equations
    loop = RolledLoop(blocks, len(consts), len(region.sums), ((0, 1),) * len(arrays))
    counting = _counting(region)

    def program(*values: Any) -> list[Any]:
        env = dict(zip(given, values, strict=True))
        (counts,) = eval_jaxpr(counting, [value(env, a) for a in region.loop.invars])
        order = _order(counts, n)
        rows = [_in_order(env[v], region.along(v), order) for v in arrays]
        xs = [
            reshape(_part(x, 0, n - left), new_sizes=(blocks, size, *typeof(x).shape[1:]))
            for x in rows
        ]
        common = [env[v] for v in consts]
        sums = [value(env, x.start) for x in region.sums]
        outs = rolled(*common, *sums, *xs, body=bodies[0], loop=loop)
        sums, many = outs[: len(sums)], outs[len(sums) :]
        parts = [[reshape(x, new_sizes=(n - left, *typeof(x).shape[2:]))] for x in many]
        if left:
            last = [_part(x, n - left, n) for x in rows]
            outs = eval_jaxpr(bodies[1], [*common, *sums, *last])
            sums = outs[: len(sums)]
            for part, x in zip(parts, outs[len(sums) :], strict=True):
                part.append(x)
        rest = zip(region.outs, parts, strict=True)
        return [*sums, *(_put_back(p, region.along(v), order) for v, p in rest)]

    return program


def _even(n: int, size: int) -> int:
    """A similar size, of which n is a multiple if there is one."""
    sizes = [m for m in range(size // 2, 2 * size + 1) if n % m == 0]
    return min(sizes, key=lambda m: abs(m - size), default=size)


def _part(x: Any, start: int, end: int) -> Any:
    """Some batch elements."""
    shape = typeof(x).shape
    if (start, end) == (0, shape[0]):
        return x
    starts, limits = (start, *(0 for _ in shape[1:])), (end, *shape[1:])
    return slice_of(x, start_indices=starts, limit_indices=limits, strides=(1,) * len(shape))


def _in_order(x: Any, axis: int, order: Any) -> Any:
    """Batch elements in another order, along the leading axis."""
    return gather(move_axis(x, axis, 0), order, axes=(0,), mode="clip")


def _put_back(parts: Sequence[Any], axis: int, order: Any) -> Any:
    """What blocks have left, with each batch element in its own place."""
    x = parts[0] if len(parts) == 1 else concatenate(*parts, dimension=0)
    a = typeof(x)
    empty = broadcast_in_dim(a.dtype.type(0), shape=a.shape, broadcast_dimensions=())
    return move_axis(scatter(empty, x, order, axes=(0,), mode="clip"), 0, axis)


def _order(counts: Any, n: int) -> Any:
    """The batch elements in the order of their numbers of iterations, if these differ much.

    Equal keys are found sorted, which is cheap.
    """
    most, total = (convert_element_type(f(counts, axes=(0,)), new_dtype=float64) for f in _FOLDS)
    differ = gt(mul(most, np.float64(n)), mul(total, np.float64(WASTE)))
    keys = select(differ, minimum(counts, np.int64(LONGEST)), np.int64(0))
    keys = convert_element_type(keys, new_dtype=np.dtype(np.int16))
    numbers = iota(dtype=int64, shape=(n,), dimension=0)
    return sort(keys, numbers, dimension=0, is_stable=True, num_keys=1)[1]


def _block(region: RecordedLoop, consts: Sequence[Var], arrays: Sequence[Var], size: int) -> Jaxpr:
    """What a region computes for a block: (consts, sums, arrays) -> (sums, other results).

    Batch elements lie along the leading axis of arrays and results.
    """
    axes = region.axes
    whole = [*consts, *(x.var for x in region.sums)]

    def block(*values: Any) -> list[Any]:
        env = dict(zip(whole, values, strict=False))
        for v, x in zip(arrays, values[len(whole) :], strict=True):
            env[v] = move_axis(x, 0, region.along(v))
        evaluate(region.eqns, env, axes, size)
        rest = (move_axis(env[v], region.along(v), 0) for v in region.outs)
        return [*(env[x.out] for x in region.sums), *rest]

    shapes = [(size, *np.delete(v.aval.shape, region.along(v)).tolist()) for v in arrays]
    avals = [aval(shape, v.aval.dtype) for v, shape in zip(arrays, shapes, strict=True)]
    return trace_closed(block, [*(v.aval for v in whole), *avals])


def _counting(region: RecordedLoop) -> Jaxpr:
    """The number of iterations of every batch element, from the operands of the loop.

    Numbers are counted by each batch element for itself, arrays by all of them together.
    """
    eqn, n = region.loop, region.axes.n
    loop = layout(eqn)
    assert loop is not None
    alone = is_of_numbers(loop.body, n) and is_of_numbers(loop.cond, n)
    size = None if alone else n
    where = [axis_of_input(a.aval, n) for a in eqn.invars]
    avals = [narrow(a.aval, d, size) for a, d in zip(eqn.invars, where, strict=True)]
    start = aval(() if alone else (n,), int64)
    body, cond = (narrowed(j, n, size) for j in (loop.body, loop.cond))
    goes_on = with_results(cond, _going(cond, alone))

    def turn(*args: Any) -> list[Any]:
        outs = eval_jaxpr(body, args[:-1])
        (more,) = eval_jaxpr(goes_on, args[:-1])
        return [*outs[: loop.n_carry], add(args[-1], convert_element_type(more, new_dtype=int64))]

    params = {
        **eqn.params,
        "body": trace_closed(turn, [*avals, start]),
        "cond": trace_closed(lambda *args: eval_jaxpr(cond, args[:-1]), [*avals, start]),
        "record": False,
    }

    def count(*operands: Any) -> list[Any]:
        zero = broadcast_in_dim(np.int64(0), shape=start.shape, broadcast_dimensions=())
        return eqn.primitive(*operands, zero, **params)[-1:]

    found = trace_closed(count, avals)
    slim, _ = dce_jaxpr(found, (True,))
    found = Jaxpr(found.invars, slim.eqns, slim.outvars, slim.constvars, slim.consts)
    if not alone:
        return found
    return batch_jaxpr(found, Axis(n), tuple(where), True)[0]


def _going(cond: Jaxpr, alone: bool) -> list[Any]:
    """Which batch elements iterate again."""
    (any_of_them,) = cond.outvars
    if alone:
        return [any_of_them]
    return [next(e.invars[0] for e in cond.eqns if any_of_them in e.outvars)]

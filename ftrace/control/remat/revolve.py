"""Scans that keep a few states: the binomial schedule of reverse mode.

A scan with `Again` in its `ScanLoop` keeps no residuals. Its linear half is the row `scan_again`,
which takes what is known once more; the transpose of that is the row `revolve`, which goes back
iteration by iteration, and restores the state before each iteration from the nearest of at most
`slots` states, as the schedule of core/binomial.py says; in compiled programs too
(lowering/planning/plan.py).

For every other rule both rows are what a plain scan would have given: right, without the saving.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.control.rows.jit import Turns
from ftrace.control.rows.scan import scan_call
from ftrace.core.avals import ShapedArray, aval
from ftrace.core.binomial import ADVANCE, KEEP, RESTORE, schedule
from ftrace.core.device import free, on_device, together
from ftrace.core.jaxpr import Jaxpr, cached_on_jaxpr, eval_jaxpr
from ftrace.core.lower import Call, Replay
from ftrace.core.primitive import Linear, Primitive
from ftrace.core.scan_layout import ScanHalves, ScanLoop, cut
from ftrace.core.tapes import rows, stack
from ftrace.interpreters.batching import batch_flat
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.transpose import (
    instantiate_cotangent,
    pull_jaxpr,
    transpose_jaxpr,
    unflatten_masked,
)
from ftrace.primitives.linear import add

# ---------------------------------------------------------------------------------- scan_again


def _plain(*operands: Any, halves: ScanHalves) -> list[Any]:
    """The linear half with residuals: the known scan, then the linear one."""
    known_consts, state, known_xs, consts, carry, xs = cut(operands, halves.sizes)
    loop = ScanLoop(halves.length, halves.reverse, len(known_consts), len(state))
    outs = scan_call(*known_consts, *state, *known_xs, body=halves.known, loop=loop)
    passed = [known_consts[i] for i in halves.consts]
    n_consts = len(passed) + len(consts)
    return scan_call(
        *passed,
        *consts,
        *carry,
        *outs[halves.n_known :],
        *(known_xs[i] for i in halves.xs),
        *xs,
        body=halves.linear,
        loop=ScanLoop(halves.length, halves.reverse, n_consts, len(carry)),
    )


@cached_on_jaxpr
def _whole(known: Jaxpr, halves: ScanHalves) -> Jaxpr:
    """The linear half with residuals as a jaxpr: what it is where it is run forwards."""
    n_consts, n_carry, _ = halves.sizes[:3]
    fixed, elements = cut(known.in_avals, (n_consts + n_carry, len(known.in_avals)))
    xs = [aval((halves.length, *a.shape), a.dtype) for a in elements]
    unknown = _revolve_type(halves=halves)
    return trace_closed(lambda *args: _plain(*args, halves=halves), [*fixed, *xs, *unknown])


def run_again(halves: ScanHalves) -> tuple[Primitive, dict[str, Any]]:
    """The row of the linear half, and its params."""
    return scan_again, {"halves": halves, "jaxpr": _whole(halves.known, halves)}


def _again_type(
    *operands: ShapedArray, halves: ScanHalves, **params: Jaxpr
) -> tuple[ShapedArray, ...]:
    n = halves.sizes[4]
    outs = halves.linear.out_avals
    return (*outs[:n], *(aval((halves.length, *a.shape), a.dtype) for a in outs[n:]))


def _again_transpose(cts: Any, *operands: Any, halves: ScanHalves, jaxpr: Jaxpr) -> list[Any]:
    avals = _again_type(halves=halves)
    n_known = sum(halves.sizes[:3])
    full = [instantiate_cotangent(c, a) for c, a in zip(cts, avals, strict=True)]
    found = revolve(*operands[:n_known], *full, halves=halves, **turns_of(halves))
    wanted = [type(x) is Linear for x in operands[n_known:]]
    return [None] * n_known + [c if w else None for c, w in zip(found, wanted, strict=True)]


def _jvp(primals: Any, tangents: Any, plain: Any, halves: ScanHalves) -> Any:
    return jvp_flat(lambda *xs: plain(*xs, halves=halves), primals, tangents)


def _batch(axis: Any, values: Any, dims: Any, plain: Any, halves: ScanHalves) -> Any:
    return batch_flat(lambda *xs: plain(*xs, halves=halves), axis, values, dims)


scan_again = Primitive(
    name="scan_again",
    impl=lambda *operands, halves, jaxpr: _plain(*operands, halves=halves),
    type=_again_type,
    jvp=lambda primals, tangents, halves, jaxpr: _jvp(primals, tangents, _plain, halves),
    transpose=_again_transpose,
    batch=lambda axis, values, dims, halves, jaxpr: _batch(axis, values, dims, _plain, halves),
    zeros=True,
    lower=Call(lambda avals, jaxpr, **_: jaxpr, "memory"),
    multiple=True,
    doc="The linear half of a scan that keeps no residuals.",
)


# ---------------------------------------------------------------------------------- revolve


def _unknown(halves: ScanHalves) -> tuple[bool, ...]:
    """Which inputs of the linear half are unknown."""
    consts, carry, xs = halves.sizes[3:]
    passed = len(halves.consts)
    known = len(halves.linear.invars) - passed - consts - carry - xs
    return (False,) * passed + (True,) * (consts + carry) + (False,) * known + (True,) * xs


@cached_on_jaxpr
def _advance(known: Jaxpr, n_carry: int) -> Jaxpr:
    """One iteration of the known half, for its carry alone."""
    return trace_closed(lambda *args: eval_jaxpr(known, args)[:n_carry], known.in_avals)


@cached_on_jaxpr
def _back(known: Jaxpr, halves: ScanHalves) -> Jaxpr:
    """One iteration back.

    Takes (known consts, carry, x; sums; cotangents of carry and y) and gives (sums; cotangents of
    the carry and of the unknown x).
    """
    n_consts, n_carry, n_xs, m_consts = halves.sizes[:4]
    linear, unknown = halves.linear, _unknown(halves)
    avals = [a for a, u in zip(linear.in_avals, unknown, strict=True) if u]
    backward, kinds = transpose_jaxpr(linear, unknown, (1,) * len(linear.outvars))

    def step(*args: Any) -> list[Any]:
        consts, carry, xs, sums, cts = cut(args, (n_consts, n_carry, n_xs, m_consts, len(args)))
        residuals = eval_jaxpr(known, (*consts, *carry, *xs))[halves.n_known :]
        passed = [*(consts[i] for i in halves.consts), *residuals, *(xs[i] for i in halves.xs)]
        outs = unflatten_masked(eval_jaxpr(backward, (*passed, *cts)), kinds)
        found = [instantiate_cotangent(c, a) for c, a in zip(outs, avals, strict=True)]
        more = [add(a, b) for a, b in zip(sums, found, strict=False)]
        return [*more, *found[m_consts:]]

    cts = [aval(a.shape, a.dtype) for a in linear.out_avals]
    return trace_closed(step, [*known.in_avals, *avals[:m_consts], *cts])


def turns_of(halves: ScanHalves) -> dict[str, Jaxpr]:
    """One iteration on, and one iteration back: params of `revolve`."""
    known = halves.known
    return {"advance": _advance(known, halves.sizes[1]), "back": _back(known, halves)}


def states(halves: ScanHalves) -> int:
    """Bytes of the states in memory: those kept and the one that an iteration starts from."""
    carry = halves.known.out_avals[: halves.sizes[1]]
    return sum(a.size * a.dtype.itemsize for a in carry) * min(halves.slots, halves.length)


def _revolve_impl(*operands: Any, halves: ScanHalves, advance: Jaxpr, back: Jaxpr) -> list[Any]:
    n_consts, n_carry, n_xs, m_consts, m_carry, m_xs = halves.sizes
    operands = tuple(together(operands))
    consts, state, xs, cts, ct_ys = cut(operands, (n_consts, n_carry, n_xs, m_carry, len(operands)))
    n = halves.length
    forwards, backwards = Turns(advance, n), Turns(back, n)
    outs = _revolve_type(halves=halves)
    sums: Sequence[Any] = [free(np.zeros(a.shape, a.dtype)) for a in outs[:m_consts]]
    listed = any(map(on_device, operands))
    avals = [aval(a.shape[1:], a.dtype) for a in outs[m_consts + m_carry :]]
    to_xs = [rows(n, a, listed) for a in avals]
    kept: dict[int, Sequence[Any]] = {}
    for action, i in schedule(n, halves.slots):
        if action == KEEP:
            kept[i] = state
        elif action == RESTORE:
            state = kept[i]
        else:
            k = n - 1 - i if halves.reverse else i
            given = (*consts, *state, *(x[k] for x in xs))
            if action == ADVANCE:
                state = forwards(given)
                continue
            outs = backwards((*given, *sums, *cts, *(y[k] for y in ct_ys)))
            sums, cts, found = cut(outs, (m_consts, m_carry, m_xs))
            del given, outs  # this turn's state is not needed beside the next one's
            for memory, value in zip(to_xs, found, strict=True):
                memory[k] = value
    found = [stack(x, a) if listed else x for x, a in zip(to_xs, avals, strict=True)]
    return owned([*sums, *cts, *found], operands)


def _revolve_type(
    *operands: ShapedArray, halves: ScanHalves, **turns: Jaxpr
) -> tuple[ShapedArray, ...]:
    consts, carry, _ = halves.sizes[3:]
    pairs = zip(halves.linear.in_avals, _unknown(halves), strict=True)
    avals = [aval(a.shape, a.dtype) for a, u in pairs if u]
    n = consts + carry
    return (*avals[:n], *(aval((halves.length, *a.shape), a.dtype) for a in avals[n:]))


def _plain_back(*operands: Any, halves: ScanHalves, **turns: Jaxpr) -> list[Any]:
    """The transpose of the linear half as scans that keep residuals."""
    n_known = sum(halves.sizes[:3])
    known, cts = operands[:n_known], operands[n_known:]
    avals = _revolve_type(halves=halves)
    jaxpr = _whole(halves.known, halves)
    linear = (False,) * n_known + (True,) * len(avals)
    found = pull_jaxpr(jaxpr, [*known, *(None for _ in avals)], linear, cts)
    return [instantiate_cotangent(c, a) for c, a in zip(found, avals, strict=True)]


def _revolve_transpose(cts: Any, *operands: Any, halves: ScanHalves, **turns: Jaxpr) -> list[Any]:
    """The transpose of a transpose: the linear half itself."""
    n_known = sum(halves.sizes[:3])
    avals = _revolve_type(halves=halves)
    full = [instantiate_cotangent(c, a) for c, a in zip(cts, avals, strict=True)]
    row, params = run_again(halves)
    return [None] * n_known + list(row(*operands[:n_known], *full, **params))


revolve = Primitive(
    name="revolve",
    impl=_revolve_impl,
    type=_revolve_type,
    jvp=lambda primals, tangents, halves, **turns: _jvp(primals, tangents, _plain_back, halves),
    transpose=_revolve_transpose,
    batch=lambda axis, values, dims, halves, **turns: _batch(
        axis, values, dims, _plain_back, halves
    ),
    zeros=True,
    lower=Replay(lambda halves, advance, back: (halves, advance, back)),
    multiple=True,
    doc="The cotangents of a scan, with few of its states in memory at a time.",
)

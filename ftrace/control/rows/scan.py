"""The `scan` row: a loop over the first axis of arrays, whose iterations leave arrays.

`body` takes `(*consts, *carry, *x)` and gives `(*carry, *y)`; the row takes `(*consts, *carry,
*xs)` and gives `(*carry, *ys)`, with `xs` and `ys` stacked along a leading axis. With a `length`
of None the number of iterations is the first operand, and xs and ys are tapes: that is how the
linear half of a `while` runs, and its transpose. All rules give another `scan`; which carries have
tangents, a mapped axis, a known value or a (masked) cotangent is a fixpoint over the body.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ftrace.control.rows.gating import gated, is_gated
from ftrace.control.rows.jit import Turns
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import on_device, to_host, together
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from ftrace.core.lower import Iteration, Layout
from ftrace.core.primitive import Effects, Linear, Primitive
from ftrace.core.scan_layout import ScanHalves, ScanLoop, ScanParts, cut, parts, select_by
from ftrace.core.tapes import is_tape, levels, rows, stack, tape
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import batch_jaxpr, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.dce import dce_equations
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.partial import (
    RES,
    Half,
    Split,
    partial_jaxpr,
    split_as,
    with_results,
)
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import add_cotangents, instantiate
from ftrace.interpreters.transpose import (
    at_kind,
    flatten_masked,
    kinds_of,
    transpose_jaxpr,
    unflatten_masked,
)
from ftrace.primitives.compare import lt, select_branch
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import add, broadcast_in_dim
from ftrace.primitives.reduce import reduce_max

# ---------------------------------------------------------------------------------- running


def _scan_impl(*operands: Any, body: Jaxpr, loop: ScanLoop) -> list[Any]:
    turns, consts, carry, xs = parts(together(operands), loop)
    n = int(to_host(turns[0])) if loop.length is None else loop.length
    turn = Turns(body, n)
    avals = body.out_avals[loop.n_carry :]
    left = [rows(n, a, any(map(on_device, operands))) for a in avals]
    for i in reversed(range(n)) if loop.reverse else range(n):
        carry = turn((*consts, *carry, *(x[i] for x in xs)))
        for values in reversed(left):  # nothing of an iteration stays but what it carries on
            values[i] = carry.pop()
    ys = [
        stack(values, a) if type(values) is list else values
        for values, a in zip(left, avals, strict=True)
    ]
    return [*owned(carry, (*operands, *body.consts)), *ys]


def _scan_type(*operands: ShapedArray, body: Jaxpr, loop: ScanLoop) -> Any:
    outs = body.out_avals
    ys = [
        tape(a) if loop.length is None else aval((loop.length, *a.shape), a.dtype)
        for a in outs[loop.n_carry :]
    ]
    return (*outs[: loop.n_carry], *ys)


def _scan_effects(*, body: Jaxpr, **params: Any) -> Effects:
    return body.effects


# ---------------------------------------------------------------------------------- fixpoints


def fixpoint(
    start: Sequence[Any], step: Callable[[tuple[Any, ...]], Sequence[Any]]
) -> tuple[Any, ...]:
    """The least flags of a carry, from `start` up, that one more iteration does not raise."""
    now = tuple(start)
    while True:
        new = tuple(map(max, now, step(now)))
        if new == now:
            return now
        now = new


# ---------------------------------------------------------------------------------- jvp


def _scan_jvp(primals: Any, tangents: Any, *, body: Jaxpr, loop: ScanLoop) -> Any:
    turns, consts, carry, xs = parts(primals, loop)
    _, t_consts, t_carry, t_xs = parts(tangents, loop)
    fixed, along = (tuple(t is not ZERO for t in ts) for ts in (t_consts, t_xs))
    moving = fixpoint(
        [t is not ZERO for t in t_carry],
        lambda m: jvp_jaxpr(body, fixed + m + along)[1][: loop.n_carry],
    )
    force = moving + (False,) * (len(body.outvars) - loop.n_carry)
    pushed, nonzero = jvp_jaxpr(body, fixed + moving + along, force)
    cuts = (loop.n_consts, sum(fixed), loop.n_carry, sum(moving), len(xs), sum(along))

    def new_body(*args: Any) -> list[Any]:
        c, tc, s, ts, x, tx = cut(args, cuts)
        outs = eval_jaxpr(pushed, (*c, *s, *x, *tc, *ts, *tx))
        n = len(nonzero)
        ys, dots = outs[:n], outs[n:]
        m = sum(moving)
        return [*ys[: loop.n_carry], *dots[:m], *ys[loop.n_carry :], *dots[m:]]

    operands = (
        *consts,
        *(t for t in t_consts if t is not ZERO),
        *carry,
        *(instantiate(t, p) for t, p, m in zip(t_carry, carry, moving, strict=True) if m),
        *xs,
        *(t for t in t_xs if t is not ZERO),
    )
    avals = [v.aval for v in _grouped(body.invars, cuts, fixed, moving, along)]
    outs = scan_call(
        *turns,
        *operands,
        body=trace_closed(new_body, avals),
        loop=loop.with_more(sum(fixed), sum(moving)),
    )
    n_ys = len(nonzero) - loop.n_carry
    new, t_new, ys, t_ys = cut(outs, (loop.n_carry, sum(moving), n_ys, len(outs)))
    rest = iter((*t_new, *t_ys))
    return [*new, *ys], [next(rest) if z else ZERO for z in nonzero]


def _grouped(
    binders: Sequence[Any],
    cuts: Sequence[int],
    fixed: Sequence[bool],
    moving: Sequence[bool],
    along: Sequence[bool],
) -> list[Any]:
    """The binders of a pushed body: each group of primals, then those with a tangent again."""
    groups = cut(binders, (cuts[0], cuts[2], cuts[4]))
    found: list[Any] = []
    for group, flags in zip(groups, (fixed, moving, along), strict=True):
        found += [*group, *(v for v, f in zip(group, flags, strict=True) if f)]
    return found


# ---------------------------------------------------------------------------------- batch


def _scan_batch(axis: Any, values: Any, dims: Any, *, body: Jaxpr, loop: ScanLoop) -> Any:
    turns, consts, carry, xs = parts(values, loop)
    d_turns, fixed, d_carry, d_xs = parts(dims, loop)
    each = bool(turns) and d_turns[0] is not None  # every member has its own number of iterations
    elements = body.in_avals[loop.n_consts + loop.n_carry :]
    tapes = [loop.length is None or is_tape(a) for a in elements]
    along = tuple(
        None if d is None else d - 1 if t and d else levels(a)  # tapes are as they are
        for d, a, t in zip(d_xs, elements, tapes, strict=True)
    )
    place = {False: None, True: 0}

    def once(m: tuple[bool, ...]) -> Sequence[bool]:
        flags = (*fixed, *(place[x] for x in m), *along)
        return [
            each or d is not None for d in batch_jaxpr(body, axis, flags, False)[1][: loop.n_carry]
        ]

    moving = fixpoint([d is not None for d in d_carry], once)
    force = moving + (False,) * (len(body.outvars) - loop.n_carry)
    asks = each and is_gated(body)  # what members leave on tapes after their end may be anything
    flags = (*(0,) * asks, *fixed, *(place[m] for m in moving), *along)
    batched, out_dims = batch_jaxpr(gated(body) if asks else body, axis, flags, force)
    carry = tuple(
        place_axis(v, d, axis, 0) if m else v
        for v, d, m in zip(carry, d_carry, moving, strict=True)
    )
    xs = tuple(
        v if n is None else place_axis(v, d, axis, 1 + n)
        for v, d, n in zip(xs, d_xs, along, strict=True)
    )
    if each:
        own = convert_element_type(turns[0], new_dtype=np.dtype(np.int64))
        turns = (reduce_max(own, axes=(0,)),)
        first = add(turns[0], np.int64(-1)) if loop.reverse else np.int64(0)
        batched = _while_live(batched, axis.size, loop, asks)
        consts, carry = (*consts, own), (*carry, first)
    outs = scan_call(
        *turns,
        *consts,
        *carry,
        *xs,
        body=batched,
        loop=loop.with_more(each, each),
    )
    if each:
        outs = [*outs[: loop.n_carry], *outs[loop.n_carry + 1 :]]
    ys_dims = [None if d is None else d + 1 for d in out_dims[loop.n_carry :]]
    return outs, [*(place[m] for m in moving), *ys_dims]


def _while_live(body: Jaxpr, members: int, loop: ScanLoop, asks: bool) -> Jaxpr:
    """A batched body that leaves the carry of members alone whose iterations are over.

    It also takes the members' numbers of iterations, after the consts, and the iteration, after the
    carry. A body that `asks` is told first which members go on.
    """
    n_consts, n_carry = loop.n_consts, loop.n_carry
    step = np.int64(-1 if loop.reverse else 1)

    def masked(*args: Any) -> list[Any]:
        consts, (turns,), carry, (turn,), xs = cut(args, (n_consts, 1, n_carry, 1, len(args)))
        live = lt(turn, turns)
        outs = eval_jaxpr(body, (*(live,) * asks, *consts, *carry, *xs))
        kept = [
            select_branch(
                broadcast_in_dim(live, shape=typeof(x).shape, broadcast_dimensions=(0,)), x, y
            )
            for x, y in zip(outs[:n_carry], carry, strict=True)
        ]
        return [*kept, add(turn, step), *outs[n_carry:]]

    integer = np.dtype(np.int64)
    consts, carry, xs = cut(body.in_avals[asks:], (n_consts, n_carry, len(body.invars)))
    avals = [*consts, aval((members,), integer), *carry, aval((), integer), *xs]
    return trace_closed(masked, avals)


# ---------------------------------------------------------------------------------- partial


class LoopSplit(NamedTuple):
    """The halves of a loop's body, and which of its inputs the linear one also reads.

    `linear` takes (forwarded consts, unknown consts, unknown carries, residuals, forwarded xs,
    unknown xs); the residuals are what `known` leaves after its known results.
    """

    known: Jaxpr
    linear: Jaxpr
    out_known: tuple[bool, ...]
    forwarded_consts: tuple[int, ...]
    forwarded_xs: tuple[int, ...]


def split_loop(body: Jaxpr, known: ScanParts) -> LoopSplit:
    """Split the body of a loop; a carry is known only while its update is."""
    n_consts, n_carry = len(known.consts), len(known.carry)
    unknown = fixpoint(
        [not k for k in known.carry],
        lambda u: [
            not k
            for k in partial_jaxpr(
                body, known.consts + tuple(not x for x in u) + known.xs
            ).out_known[:n_carry]
        ],
    )
    carry = tuple(not u for u in unknown)
    flags = known.consts + carry + known.xs
    able = partial_jaxpr(body, flags).out_known
    split = split_as(body, flags, carry + able[n_carry:])
    inputs = [i for i, k in enumerate(flags) if k]
    n_new = len(split.known.outvars) - sum(split.out_known)
    cuts = (n_new, len(split.forwarded), len(split.linear.invars))
    new, passed, rest = cut(split.linear.invars, cuts)
    n_unknown = [sum(not k for k in group) for group in (known.consts, carry)]
    u_consts, u_carry, u_xs = cut(rest, (*n_unknown, len(rest)))
    by_kind: list[list[Any]] = [[], [], []]
    for i, binder in zip(split.forwarded, passed, strict=True):
        by_kind[0 if i < n_consts else 1 if i < n_consts + n_carry else 2].append((i, binder))
    consts, carries, xs = by_kind
    again = [split.known.invars[inputs.index(i)] for i, _ in carries]
    order = [
        *(b for _, b in consts),
        *u_consts,
        *u_carry,
        *new,
        *(b for _, b in carries),
        *(b for _, b in xs),
        *u_xs,
    ]
    return LoopSplit(
        with_results(split.known, [*split.known.outvars, *again]),
        with_results(split.linear, split.linear.outvars, order),
        split.out_known,
        tuple(i for i, _ in consts),
        tuple(i - n_consts - n_carry for i, _ in xs),
    )


def _scan_partial(known: tuple[bool, ...], *, body: Jaxpr, loop: ScanLoop) -> Split:
    flags = parts(known, loop)
    split = split_loop(body, flags)
    places = parts(range(len(known)), loop)
    carry = split.out_known[: loop.n_carry]
    given = ScanParts(
        places.turns,
        select_by(places.consts, flags.consts, True),
        select_by(places.carry, carry, True),
        select_by(places.xs, flags.xs, True),
    )
    unknown = ScanParts(
        (),
        select_by(places.consts, flags.consts, False),
        select_by(places.carry, carry, False),
        select_by(places.xs, flags.xs, False),
    )
    forward = ScanLoop(loop.length, loop.reverse, len(given.consts), len(given.carry))
    if loop.again is not None:
        return _split_again(split, loop, forward, given, unknown)
    linear_consts = (*(places.consts[i] for i in split.forwarded_consts), *unknown.consts)
    linear = ScanLoop(loop.length, loop.reverse, len(linear_consts), len(unknown.carry))
    forwarded_xs = (places.xs[i] for i in split.forwarded_xs)
    return Split(
        Half(scan_call, {"body": split.known, "loop": forward}, _joined(given)),
        Half(
            scan_call,
            {"body": split.linear, "loop": linear},
            (*places.turns, *linear_consts, *unknown.carry, RES, *forwarded_xs, *unknown.xs),
        ),
        split.out_known,
    )


def _joined(groups: ScanParts) -> tuple[int, ...]:
    return tuple(i for group in groups for i in group)


def _split_again(
    split: LoopSplit, loop: ScanLoop, forward: ScanLoop, given: ScanParts, unknown: ScanParts
) -> Split:
    """The halves of a scan that keeps nothing: the linear one takes what is known as well."""
    assert loop.again is not None
    assert loop.length is not None
    again, slots = loop.again
    n_known = sum(split.out_known)
    outs = split.known.outvars[:n_known]
    first = len(given.turns)
    consts = [given.consts.index(first + i) for i in split.forwarded_consts]
    first += loop.n_consts + loop.n_carry
    xs = [given.xs.index(first + i) for i in split.forwarded_xs]
    sizes = (*map(len, given[1:]), *map(len, unknown[1:]))
    halves = ScanHalves(
        split.known,
        n_known,
        split.linear,
        sizes,
        tuple(consts),
        tuple(xs),
        loop.length,
        loop.reverse,
        slots,
    )
    row, params = again(halves)
    primal = Jaxpr(
        split.known.invars,
        dce_equations(split.known.eqns, outs),
        outs,
        split.known.constvars,
        split.known.consts,
    )
    return Split(
        Half(scan_call, {"body": primal, "loop": forward}, _joined(given)),
        Half(row, params, (*_joined(given), *_joined(unknown))),
        split.out_known,
    )


# ---------------------------------------------------------------------------------- transpose


def _scan_transpose(cts: Any, *operands: Any, body: Jaxpr, loop: ScanLoop) -> Any:
    turns, consts, carry, xs = parts(operands, loop)
    n = loop.n_carry
    linear = ScanParts(turns, _is_linear(consts), (True,) * n, _is_linear(xs))
    flags = linear.consts + linear.carry + linear.xs
    ct_carry, ct_ys = cts[:n], cts[n:]
    ys_kinds = kinds_of(ct_ys)
    m = sum(linear.consts)

    def before(kinds: tuple[int, ...]) -> tuple[int, ...]:
        return transpose_jaxpr(body, flags, kinds + ys_kinds)[1][m : m + n]

    carry_kinds = fixpoint(kinds_of(ct_carry), before)
    # what no iteration reads has a cotangent in the last one alone
    read = zip(carry_kinds, before(carry_kinds), strict=True)
    carry_kinds = fixpoint([2 if k == 1 and not r else k for k, r in read], before)
    backward, found = transpose_jaxpr(body, flags, carry_kinds + ys_kinds)
    sum_kinds, xs_kinds = found[:m], found[m + n :]
    step = _Backward(body, linear, backward, found, ScanParts((), sum_kinds, carry_kinds, ys_kinds))
    starts = [
        *(at_kind(None, k, a) for k, a in zip(sum_kinds, step.consts, strict=True)),
        *(at_kind(c, k, a) for c, k, a in zip(ct_carry, carry_kinds, step.carry, strict=True)),
    ]
    known_consts, round_trip = select_by(consts, linear.consts, False), flatten_masked(starts)
    outs = scan_call(
        *turns,
        *known_consts,
        *round_trip,
        *select_by(xs, linear.xs, False),
        *flatten_masked(ct_ys),
        body=step.jaxpr(),
        loop=ScanLoop(loop.length, not loop.reverse, len(known_consts), len(round_trip)),
    )
    results = iter(unflatten_masked(outs, (*sum_kinds, *carry_kinds, *xs_kinds)))
    to_consts = [next(results) if f else None for f in linear.consts]
    to_carry = [next(results) for _ in carry]
    to_xs = [next(results) if f else None for f in linear.xs]
    return [*(None for _ in turns), *to_consts, *to_carry, *to_xs]


def _is_linear(operands: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(type(x) is Linear for x in operands)


class _Backward:
    """The body of a transposed scan: cotangents of consts add up, those of the carry go round.

    Takes (known consts, sums, cotangents of the carry, known xs, cotangents of ys) and gives
    (sums, cotangents of the carry, cotangents of linear xs); masked ones are two values each.
    """

    def __init__(
        self,
        body: Jaxpr,
        linear: ScanParts,
        backward: Jaxpr,
        found: tuple[int, ...],
        kinds: ScanParts,
    ) -> None:
        self.backward = backward
        self.found = found  # kinds of the cotangents that `backward` gives
        self.kinds = kinds  # of the sums, of the carry, and of ys
        n_consts, n_carry = len(linear.consts), len(linear.carry)
        consts, self.carry, xs = cut(body.in_avals, (n_consts, n_carry, len(linear.xs)))
        self.consts = select_by(consts, linear.consts, True)
        self.known_consts = select_by(consts, linear.consts, False)
        self.known_xs = select_by(xs, linear.xs, False)
        self.ys = body.out_avals[n_carry:]

    def jaxpr(self) -> Jaxpr:
        """The body, staged."""
        sums, carry, ys = (
            [x for a, k in zip(avals, kinds, strict=True) for x in _doubled(a, k)]
            for avals, kinds in (
                (self.consts, self.kinds.consts),
                (self.carry, self.kinds.carry),
                (self.ys, self.kinds.xs),
            )
        )
        groups = (self.known_consts, sums, carry, self.known_xs, ys)
        sizes = tuple(map(len, groups))

        def step(*args: Any) -> list[Any]:
            consts, sums, carry, xs, ys = cut(args, sizes)
            outs = eval_jaxpr(self.backward, (*consts, *xs, *carry, *ys))
            cts = unflatten_masked(outs, self.found)
            m, n = len(self.consts), len(self.carry)
            before = unflatten_masked(sums, self.kinds.consts)
            after = [
                b if c is None else add_cotangents(b, c)
                for b, c in zip(before, cts[:m], strict=True)
            ]
            again = [
                at_kind(*one)
                for one in zip(cts[m : m + n], self.kinds.carry, self.carry, strict=True)
            ]
            return flatten_masked([*after, *again, *cts[m + n :]])

        return trace_closed(step, [a for group in groups for a in group])


def _doubled(a: ShapedArray, kind: int) -> list[ShapedArray]:
    """The types of a cotangent of some kind: none, itself, or itself and its mask."""
    return [aval(a.shape, a.dtype), aval(a.shape, np.dtype(np.bool_))][:kind]


def _layout(operands: int, *, body: Jaxpr, loop: ScanLoop) -> Layout:
    first = int(loop.length is None)
    n = loop.n_carry
    return Layout(body, None, loop.n_consts, n, loop.length, first, loop.reverse)


def _scan_gate(e: Eqn, active: Var) -> list[Eqn] | None:
    loop, body = e.params["loop"], e.params["body"]
    if loop.again is not None or not is_gated(body):
        return None
    first = int(loop.length is None)
    operands = [*e.invars[:first], active, *e.invars[first:]]
    params = {**e.params, "body": gated(body), "loop": loop.with_more(1, 0)}
    return [Eqn(e.primitive, operands, params, e.outvars, e.source)]


scan_call = Primitive(
    name="scan",
    impl=_scan_impl,
    type=_scan_type,
    jvp=_scan_jvp,
    transpose=_scan_transpose,
    batch=_scan_batch,
    partial=_scan_partial,
    mask="call",
    zeros=True,
    effects=_scan_effects,
    lower=Iteration(_layout),
    gate=_scan_gate,
    multiple=True,
    doc="Carry values over the first axis of arrays.",
)


# ---------------------------------------------------------------------------------- states kept


def is_long(eqn: Eqn) -> bool:
    """Whether an equation is a loop that could keep fewer states."""
    if eqn.primitive is not scan_call:
        return False
    loop = eqn.params["loop"]
    return loop.again is None and loop.length is not None and loop.length > 1


def keeping(eqn: Eqn, again: Any) -> Eqn:
    """The same loop, which restores the states that it does not keep: `ScanLoop.again`."""
    loop = eqn.params["loop"]._replace(again=again)
    return Eqn(eqn.primitive, eqn.invars, {**eqn.params, "loop": loop}, eqn.outvars, eqn.source)

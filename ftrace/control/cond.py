"""The `cond` row: one of several jaxprs, chosen by an integer index.

Branches take the same operands and give the same types. A mapped index becomes a select between
all branches, whose masks keep an untaken branch from contributing anything to a derivative; with
effects, each member runs its own branch in turn.
"""

from collections.abc import Sequence
from typing import Any

from ftrace.control.jit import jit_call
from ftrace.control.members import member_by_member
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError
from ftrace.core.jaxpr import Jaxpr, Var, eval_jaxpr
from ftrace.core.primitive import NO_EFFECTS, Effects, Linear, Primitive
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import batch_jaxpr, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.partial import RES, Half, Split, partial_jaxpr, split_as, with_results
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import zeros
from ftrace.interpreters.transpose import (
    at_kind,
    flatten_masked,
    kinds_of,
    transpose_jaxpr,
    unflatten_masked,
)
from ftrace.primitives.compare import eq, select
from ftrace.primitives.linear import broadcast_in_dim

Branches = tuple[Jaxpr, ...]


def _cond_impl(index: Any, *operands: Any, branches: Branches) -> list[Any]:
    chosen = branches[min(max(int(index), 0), len(branches) - 1)]
    return owned(eval_jaxpr(chosen, operands), (*operands, *chosen.consts))


def _cond_type(index: ShapedArray, *operands: ShapedArray, branches: Branches) -> Any:
    if index.shape or index.dtype.kind not in "iu":
        raise DtypeError(
            f"cond: the index of a branch must be an integer scalar, and it is {index}.",
            "Convert it: `index.astype(int)`.",
        )
    return branches[0].out_avals


def _cond_effects(*, branches: Branches) -> Effects:
    return NO_EFFECTS.union(*(b.effects for b in branches))


def _union(masks: Sequence[tuple[bool, ...]]) -> tuple[bool, ...]:
    return tuple(any(m) for m in zip(*masks, strict=True))


def _cond_jvp(primals: Any, tangents: Any, *, branches: Branches) -> Any:
    index, *operands = primals
    active = tuple(t is not ZERO for t in tangents[1:])
    nonzero = _union([jvp_jaxpr(b, active)[1] for b in branches])
    pushed = tuple(jvp_jaxpr(b, active, nonzero)[0] for b in branches)
    live = [t for t in tangents[1:] if t is not ZERO]
    outs = cond_call(index, *operands, *live, branches=pushed)
    n = len(nonzero)
    rest = iter(outs[n:])
    return outs[:n], [next(rest) if z else ZERO for z in nonzero]


def _cond_batch(axis: Any, values: Any, dims: Any, *, branches: Branches) -> Any:
    (index, *operands), (d, *ds) = values, dims
    if d is None:
        mapped = _union([tuple(o is not None for o in _out_dims(b, axis, ds)) for b in branches])
        batched = tuple(batch_jaxpr(b, axis, tuple(ds), mapped)[0] for b in branches)
        outs = cond_call(index, *operands, branches=batched)
        return outs, [0 if m else None for m in mapped]
    if axis.size and _cond_effects(branches=branches):
        return member_by_member(cond_call, axis, values, dims, branches=branches)
    index = place_axis(index, d, axis, 0)
    results = [
        jit_call(*operands, jaxpr=batch_jaxpr(b, axis, tuple(ds), True)[0], name=f"branch{i}")
        for i, b in enumerate(branches)
    ]
    outs = results[-1]
    for i in reversed(range(len(branches) - 1)):
        taken = eq(index, i)
        outs = [
            select(_at_rank(taken, typeof(x).shape), x, y)
            for x, y in zip(results[i], outs, strict=True)
        ]
    return outs, [0] * len(outs)


def _out_dims(branch: Jaxpr, axis: Any, dims: Sequence[Any]) -> tuple[Any, ...]:
    return batch_jaxpr(branch, axis, tuple(dims), False)[1]


def _at_rank(mask: Any, shape: tuple[int, ...]) -> Any:
    """A mask over axis 0 at the shape of what it selects."""
    return broadcast_in_dim(mask, shape=shape, broadcast_dimensions=(0,))


def _cond_partial(known: tuple[bool, ...], *, branches: Branches) -> Split:
    mask = known[1:]
    splits = [partial_jaxpr(b, mask) for b in branches]
    out_known = tuple(all(k) for k in zip(*(s.out_known for s in splits), strict=True))
    pieces = [_settle(b, mask, out_known) for b in branches]
    avals = [
        tuple(r.aval for r in known_part.outvars[sum(out_known) :]) for known_part, _ in pieces
    ]
    knowns = tuple(_pad_results(k, i, avals, sum(out_known)) for i, (k, _) in enumerate(pieces))
    linears = tuple(_pad_operands(p, i, avals) for i, (_, p) in enumerate(pieces))
    positions = tuple(i for i, k in enumerate(known) if k)
    unknown = tuple(i for i, k in enumerate(known) if not k)
    return Split(
        Half(cond_call, {"branches": knowns}, positions),
        Half(cond_call, {"branches": linears}, (0, RES, *unknown)),
        out_known,
    )


def _settle(
    branch: Jaxpr, known: tuple[bool, ...], out_known: tuple[bool, ...]
) -> tuple[Jaxpr, Jaxpr]:
    """Known and linear halves of one branch, with exactly these outputs known.

    The known half gives the known outputs, then all residuals, forwarded inputs too.
    """
    split = split_as(branch, known, out_known)
    inputs = [i for i, k in enumerate(known) if k]
    forwarded = [split.known.invars[inputs.index(i)] for i in split.forwarded]
    return with_results(split.known, [*split.known.outvars, *forwarded]), split.linear


def _pad_results(half: Jaxpr, mine: int, avals: list[tuple[Any, ...]], n_known: int) -> Jaxpr:
    """A known half that also returns zeros for the residuals of the other branches."""

    def padded(*args: Any) -> list[Any]:
        outs = eval_jaxpr(half, args)
        residuals = [
            outs[n_known:] if i == mine else [zeros(a) for a in group]
            for i, group in enumerate(avals)
        ]
        return [*outs[:n_known], *(r for group in residuals for r in group)]

    return trace_closed(padded, half.in_avals)


def _pad_operands(half: Jaxpr, mine: int, avals: list[tuple[Any, ...]]) -> Jaxpr:
    """A linear half that also accepts, and ignores, the residuals of the other branches."""
    n_mine = len(avals[mine])
    unknown = half.invars[n_mine:]
    binders = [
        list(half.invars[:n_mine]) if i == mine else [Var(aval(a.shape, a.dtype)) for a in group]
        for i, group in enumerate(avals)
    ]
    return Jaxpr(
        [*(v for group in binders for v in group), *unknown],
        half.eqns,
        half.outvars,
        half.constvars,
        half.consts,
    )


def _cond_transpose(cts: Any, index: Any, *operands: Any, branches: Branches) -> Any:
    linear = tuple(type(x) is Linear for x in operands)
    live = kinds_of(cts)
    found = [transpose_jaxpr(b, linear, live) for b in branches]
    kinds = tuple(max(k) for k in zip(*(k for _, k in found), strict=True))
    avals = [x.aval for x in operands if type(x) is Linear]
    backward = tuple(_agree(b, own, kinds, avals) for b, own in found)
    known = [x for x, f in zip(operands, linear, strict=True) if not f]
    outs = cond_call(index, *known, *flatten_masked(cts), branches=backward)
    supply = iter(unflatten_masked(outs, kinds))
    return [None, *(next(supply) if f else None for f in linear)]


def _agree(
    backward: Jaxpr, own: tuple[int, ...], kinds: tuple[int, ...], avals: Sequence[ShapedArray]
) -> Jaxpr:
    """A backward branch that returns a cotangent, and a mask, wherever another branch does."""
    if own == kinds:
        return backward

    def agreed(*args: Any) -> list[Any]:
        cts = unflatten_masked(eval_jaxpr(backward, args), own)
        return flatten_masked([at_kind(*one) for one in zip(cts, kinds, avals, strict=True)])

    return trace_closed(agreed, backward.in_avals)


cond_call = Primitive(
    name="cond",
    impl=_cond_impl,
    type=_cond_type,
    jvp=_cond_jvp,
    transpose=_cond_transpose,
    batch=_cond_batch,
    partial=_cond_partial,
    mask="call",
    zeros=True,
    effects=_cond_effects,
    multiple=True,
    doc="Evaluate one of several jaxprs, chosen by an index.",
)

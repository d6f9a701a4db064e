"""The `cond` row: one of several jaxprs, chosen by an integer index.

Branches take the same operands and give the same types. A mapped index becomes a select between
all branches, whose masks keep an untaken branch from contributing anything to a derivative; with
effects, each member runs its own branch in turn.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ftrace.control.rows.gating import gated, is_gated
from ftrace.control.rows.jit import jit_call
from ftrace.control.rows.members import member_by_member
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.device import to_host
from ftrace.core.errors import DtypeError
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, cached_on_jaxpr, eval_jaxpr
from ftrace.core.lower import Branch
from ftrace.core.primitive import NO_EFFECTS, Effects, Linear, Primitive
from ftrace.core.scan_layout import cut
from ftrace.core.tapes import is_tape
from ftrace.core.zero import ZERO, Masked
from ftrace.interpreters.batching import batch_jaxpr, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_jaxpr
from ftrace.interpreters.partial import RES, Half, Split, SplitJaxpr, partial_jaxpr, split_as
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import zeros
from ftrace.interpreters.transpose import (
    at_kind,
    flatten_masked,
    kinds_of,
    transpose_jaxpr,
    unflatten_masked,
)
from ftrace.primitives.compare import bitwise_not, bitwise_or, eq, select_branch
from ftrace.primitives.linear import broadcast_in_dim

Branches = tuple[Jaxpr, ...]


def _cond_impl(index: Any, *operands: Any, branches: Branches) -> list[Any]:
    chosen = branches[min(max(int(to_host(index)), 0), len(branches) - 1)]
    return owned(eval_jaxpr(chosen, operands), (*operands, *chosen.consts))


def _cond_type(index: ShapedArray, *operands: ShapedArray, branches: Branches) -> Any:
    if index.shape or index.dtype.kind not in "iu":
        raise DtypeError(
            f"cond: the index of a branch must be an integer scalar, and it is {index}.",
            "Convert it: `index.astype(int)`.",
        )
    return tuple(branches[m or 0].out_avals[j] for j, m in enumerate(_makers(branches)))


def _makers(branches: Branches) -> list[int | None]:
    """Per result the branch whose loop leaves it, if it is a tape.

    It is a residual of that branch alone, and has no elements where another one is taken.
    """
    columns = zip(*(b.out_avals for b in branches), strict=True)
    return [next((i for i, a in enumerate(c) if is_tape(a)), None) for c in columns]


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
    makers = _makers(branches)
    if d is None:
        mapped = _union([tuple(o is not None for o in _out_dims(b, axis, ds)) for b in branches])
        batched, out_dims = _batched(branches, axis, ds, mapped)
        return cond_call(index, *operands, branches=batched), out_dims
    if axis.size and _cond_effects(branches=branches):
        return member_by_member(cond_call, axis, values, dims, branches=branches)
    taken = [eq(index, i) for i in range(len(branches) - 1)]
    active: list[list[Any]] = [[] for _ in branches]
    if any(map(is_gated, branches)):
        active = [*([t] for t in taken), [bitwise_not(reduce(bitwise_or, taken))]]
        branches, ds = tuple(map(gated, branches)), [0, *ds]
    batched, out_dims = _batched(branches, axis, ds, (True,) * len(makers))
    results = [
        jit_call(*mine, *operands, jaxpr=b, name=f"branch{i}")
        for i, (mine, b) in enumerate(zip(active, batched, strict=True))
    ]
    outs = [
        _chosen(taken, found) if m is None else found[m]  # other branches do not read it
        for found, m in zip(zip(*results, strict=True), makers, strict=True)
    ]
    return outs, out_dims


def _batched(
    branches: Branches, axis: Any, dims: Sequence[Any], mapped: tuple[bool, ...]
) -> tuple[Branches, list[int | None]]:
    """Branches over members with these results mapped, and where: a tape where its loop does."""
    makers = _makers(branches)
    force = tuple(f and m is None for f, m in zip(mapped, makers, strict=True))
    pairs = [batch_jaxpr(b, axis, tuple(dims), force) for b in branches]
    out_dims = [pairs[m or 0][1][j] for j, m in enumerate(makers)]
    return tuple(_placed(jaxpr, axis, own, tuple(out_dims)) for jaxpr, own in pairs), out_dims


@cached_on_jaxpr
def _placed(
    jaxpr: Jaxpr, axis: Any, dims: tuple[int | None, ...], wanted: tuple[int | None, ...]
) -> Jaxpr:
    """A batched branch with the mapped axes of its results where they are wanted."""
    if dims == wanted:
        return jaxpr

    def placed(*args: Any) -> list[Any]:
        rows = zip(eval_jaxpr(jaxpr, args), dims, wanted, strict=True)
        return [y if w in (None, d) else place_axis(y, d, axis, w) for y, d, w in rows]

    return trace_closed(placed, jaxpr.in_avals)


def _chosen(taken: Sequence[Any], found: Sequence[Any]) -> Any:
    """What each member's branch gives."""
    out = found[-1]
    for mask, x in reversed(list(zip(taken, found, strict=False))):
        out = select_branch(_at_rank(mask, typeof(x).shape), x, out)
    return out


def _out_dims(branch: Jaxpr, axis: Any, dims: Sequence[Any]) -> tuple[Any, ...]:
    return batch_jaxpr(branch, axis, tuple(dims), False)[1]


def _at_rank(mask: Any, shape: tuple[int, ...]) -> Any:
    """A mask over axis 0 at the shape of what it selects."""
    return broadcast_in_dim(mask, shape=shape, broadcast_dimensions=(0,))


def _cond_partial(known: tuple[bool, ...], *, branches: Branches) -> Split:
    mask = known[1:]
    splits = [partial_jaxpr(b, mask) for b in branches]
    out_known = tuple(all(k) for k in zip(*(s.out_known for s in splits), strict=True))
    splits = [split_as(b, mask, out_known) for b in branches]
    n_known = sum(out_known)
    avals = [tuple(r.aval for r in s.known.outvars[n_known:]) for s in splits]
    forwarded = sorted({i for s in splits for i in s.forwarded})
    knowns = tuple(_pad_results(s.known, i, avals, n_known) for i, s in enumerate(splits))
    read = [(i, branches[0].in_avals[i]) for i in forwarded]
    linears = tuple(_pad_operands(s, i, avals, read) for i, s in enumerate(splits))
    positions = tuple(i for i, k in enumerate(known) if k)
    unknown = tuple(i for i, k in enumerate(known) if not k)
    again = (1 + i for i in forwarded)
    return Split(
        Half(cond_call, {"branches": knowns}, positions),
        Half(cond_call, {"branches": linears}, (0, RES, *again, *unknown)),
        out_known,
    )


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


def _pad_operands(
    split: SplitJaxpr,
    mine: int,
    avals: list[tuple[Any, ...]],
    forwarded: Sequence[tuple[int, ShapedArray]],
) -> Jaxpr:
    """A linear half that also accepts, and ignores, what the other branches leave and read."""
    half = split.linear
    own, passed, unknown = cut(
        half.invars, (len(avals[mine]), len(split.forwarded), len(half.invars))
    )
    again = dict(zip(split.forwarded, passed, strict=True))
    left = [
        own if i == mine else [Var(aval(a.shape, a.dtype)) for a in group]
        for i, group in enumerate(avals)
    ]
    read = [again.get(i) or Var(a) for i, a in forwarded]
    return Jaxpr(
        [*(v for group in left for v in group), *read, *unknown],
        half.eqns,
        half.outvars,
        half.constvars,
        half.consts,
    )


def _cond_transpose(cts: Any, index: Any, *operands: Any, branches: Branches) -> Any:
    linear = tuple(type(x) is Linear for x in operands)
    live = kinds_of(cts)
    found = [transpose_jaxpr(b, linear, live) for b in branches]
    columns = list(zip(*(k for _, k in found), strict=True))
    kinds = tuple(max(column) for column in columns)
    avals = [x.aval for x in operands if type(x) is Linear]
    backward = tuple(_agree(b, own, kinds, avals) for b, own in found)
    known = [x for x, f in zip(operands, linear, strict=True) if not f]
    outs = cond_call(index, *known, *flatten_masked(cts), branches=backward)
    found = zip(unflatten_masked(outs, kinds), columns, strict=True)
    supply = iter([_used(ct, index, column) for ct, column in found])
    return [None, *(next(supply) if f else None for f in linear)]


def _used(ct: Any, index: Any, kinds: Sequence[int]) -> Any:
    """The cotangent of an operand, which lives only where a branch was taken that uses it.

    The operand may have been computed from what the other branches are there to avoid.
    """
    if max(kinds) != 1 or min(kinds) != 0:
        return ct
    taken = [eq(index, i) for i, kind in enumerate(kinds) if kind]
    return Masked(ct, reduce(bitwise_or, taken), zeroed=True)


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


def _cond_gate(e: Eqn, active: Var) -> list[Eqn] | None:
    branches = e.params["branches"]
    if not any(map(is_gated, branches)):
        return None
    operands = [e.invars[0], active, *e.invars[1:]]
    params = {**e.params, "branches": tuple(map(gated, branches))}
    return [Eqn(e.primitive, operands, params, e.outvars, e.source)]


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
    lower=Branch(lambda branches, **_: branches),
    gate=_cond_gate,
    multiple=True,
    doc="Evaluate one of several jaxprs, chosen by an index.",
)

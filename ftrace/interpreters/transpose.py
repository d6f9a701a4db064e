"""The backward walk: cotangents from outputs to inputs through linear equations.

Each row's `transpose` column gives the cotangents of the operands it is linear in; those are the
variables, known operands are literals. A masked cotangent (from `select`) crosses a row as the
row's `mask` column says, so that an untaken side contributes exactly nothing.
"""

from collections.abc import Callable, Sequence
from functools import cache, reduce
from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core import source
from ftrace.core import trace as core
from ftrace.core.avals import SCALAR_AVALS, ShapedArray, aval, typeof
from ftrace.core.dtypes import bool_, is_inexact
from ftrace.core.errors import RuleError
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, cached_on_jaxpr, eval_jaxpr, subjaxprs
from ftrace.core.kinds import gufunc_call
from ftrace.core.lower import Cores
from ftrace.core.primitive import Linear, Primitive
from ftrace.core.trace import ctx
from ftrace.core.zero import Masked
from ftrace.interpreters.partial import PartialTrace
from ftrace.interpreters.staging import trace_closed
from ftrace.interpreters.tangents import add_cotangents, materialise, zeros
from ftrace.primitives.assembling import is_whole
from ftrace.primitives.compare import bitwise_and, bitwise_or, select
from ftrace.primitives.linear import broadcast_in_dim, reduce_sum
from ftrace.primitives.overwriting import lives
from ftrace.primitives.reduce import reduce_or


def backward_pass(
    eqns: Sequence[Eqn], invars: Sequence[Var], outs: Sequence[Any], cts: Sequence[Any]
) -> list[Any]:
    """Cotangents of `invars` (None where none arrives) from cotangents of `outs`.

    What nobody read of an array has no cotangent, even where the slope is infinite. Masks that say
    so cost something, and hardly any program needs them. Where numbers are known, the walk does
    without and is repeated with them if it found a NaN; elsewhere it makes them where a slope may
    be infinite (the `steep` column).
    """
    if ctx.trace is not core.EVAL or any(type(ct) is Masked for ct in cts):
        return _walk(eqns, invars, outs, cts, is_steep if any(map(is_steep, eqns)) else None)[0]
    found, dropped = _walk(eqns, invars, outs, cts, None)
    if dropped and any(map(_may_be_nan, found)):
        found, _ = _walk(eqns, invars, outs, cts, _is_any)
    return found


def _may_be_nan(ct: Any) -> bool:
    """Whether a cotangent has a NaN; on a device nobody waits for the answer."""
    if ct is None:
        return False
    value = materialise(ct)
    return not issubclass(type(value), (np.ndarray, np.generic)) or bool(np.isnan(value).any())


SMALL: Final = 1 << 12  # elements of a mask that is found out while tracing


@source.replaying
def _walk(  # noqa: C901, PLR0912 - the one backward loop
    eqns: Sequence[Eqn],
    invars: Sequence[Var],
    outs: Sequence[Any],
    cts: Sequence[Any],
    steep: Callable[[Eqn], bool] | None,
) -> tuple[list[Any], bool]:
    """The cotangents, and whether something was left out that masks are for.

    That is a mask of what was read, or the zeros that known operands have outside of a mask.

    Args:
        eqns, invars, outs, cts: as in `backward_pass`.
        steep: which equations may multiply by something infinite; None: drop such masks. Where
            every equation may, known operands are zero outside of any mask, not only of those that
            branches leave.
    """
    env: dict[Any, Any] = {}
    dropped = False
    homes = {v: eqn for eqn in eqns if eqn.primitive.meets for v in eqn.outvars}
    for v, ct in zip(outs, cts, strict=True):
        if type(v) is Var and ct is not None:
            env[v] = ct if v not in env else add_cotangents(env[v], ct)
    for eqn in reversed(eqns):
        outvars = eqn.outvars
        primitive = eqn.primitive
        if primitive.multiple:
            ct: Any = [env.pop(v, None) for v in outvars]
            if all(c is None for c in ct):
                continue
            hidden = [c for c in ct if type(c) is Masked]
        else:
            ct = env.pop(outvars[0], None)
            if ct is None:
                continue
            hidden = [ct] if type(ct) is Masked else []
        operands = [Linear(a.aval) if type(a) is Var else a.value for a in eqn.invars]
        try:
            if hidden:
                if steep is _is_any:
                    _clear_known(hidden)
                used = _without_reads(eqn, ct, steep)
                dropped = dropped or used is not ct or _leaves_known(primitive, hidden)
                found = _crossed(eqn, used, operands, steep)
            else:
                found = primitive.transpose(ct, *operands, **eqn.params)
        except (TypeError, AttributeError):
            _check_decisions(eqn)
            raise
        if homes:
            found = _met(env, eqn, found, homes)
        for v, c in zip(eqn.invars, found, strict=True):
            if c is not None and type(v) is Var:
                env[v] = c if v not in env else add_cotangents(env[v], c)
    return [_used(env.get(v)) for v in invars], dropped


Steep = Callable[[Eqn], bool] | None


def _clear_known(cts: list[Masked]) -> None:
    """Take what is known for infinite outside of masks, as it may be in a branch."""
    for ct in cts:
        ct.branch = ct.branch or not ct.read


def _leaves_known(primitive: Primitive, cts: list[Masked]) -> bool:
    """Whether a sum of products has terms outside of a mask: zeros, times what is known."""
    sums = primitive.clear is not None or primitive.mask == "call"
    return sums and any(not ct.branch and not ct.read for ct in cts)


def _without_reads(eqn: Eqn, ct: Any, steep: Steep) -> Any:
    """A cotangent without masks of what was read, where the row has no use for them."""
    mask = eqn.primitive.mask
    if type(ct) is Masked:
        if not ct.read:
            return ct
        drops = mask != "move" if steep is None else mask == "" or is_whole(ct)
        return ct.value if drops else ct
    if steep is not None and mask == "call" and steep(eqn):
        return ct
    return list(map(_used, ct)) if any(type(c) is Masked and c.read for c in ct) else ct


def _crossed(eqn: Eqn, ct: Any, operands: list[Any], steep: Steep) -> Sequence[Any]:
    """Cotangents of operands from one that may be masked, or a list of such."""
    mask = eqn.primitive.mask
    if type(ct) is Masked:
        if steep is None or not ct.read or not steep(eqn):
            return _CROSSINGS.get(mask, _reaching)(eqn, ct, operands)
        if ct.fixed and (_size(ct) <= SMALL or not core.is_staged(ctx.trace)):
            taken = core.run(core.EVAL, _evaluated, ct)
            if not taken.any():
                return [None] * len(operands)
            if taken.all():
                return eqn.primitive.transpose(ct.value, *operands, **eqn.params)
        if mask == "same":
            return _same(eqn, ct, operands, True)
        return _CROSSINGS.get(mask, _reaching)(eqn, ct, operands)
    if isinstance(ct, list) and any(type(c) is Masked for c in ct):
        return _CROSSINGS.get(mask, _reaching)(eqn, ct, operands)
    return eqn.primitive.transpose(ct, *operands, **eqn.params)


def _size(ct: Masked) -> int:
    return prod(typeof(ct.value).shape)


def _cleared(value: Any, ct: Masked) -> Any:
    """Zeros again where nothing was read, after they met a slope that may be infinite."""
    return select(full_mask(ct.mask, typeof(value).shape), value, typeof(value).dtype.type(0))


def _evaluated(ct: Masked) -> Any:
    """A mask that shapes decide."""
    return np.asarray(ct.mask)


def _is_any(eqn: Eqn) -> bool:
    """Every equation is steep: there was a NaN."""
    return True


def is_steep(eqn: Eqn) -> bool:
    """Whether an equation may multiply by something infinite."""
    if eqn.primitive.steep:
        return all(
            type(a) is Var or not _is_tame(a.value)
            for i, a in enumerate(eqn.invars)
            if i in eqn.primitive.steep
        )
    return any(_has_steep(jaxpr) for _, jaxpr in subjaxprs(eqn.params))


def _is_tame(value: Any) -> bool:
    """Whether a factor is a finite number that is known, and so is its reciprocal."""
    return type(value) in SCALAR_AVALS and bool(np.isfinite(value)) and value != 0


@cached_on_jaxpr
def _has_steep(jaxpr: Jaxpr) -> bool:
    return any(map(is_steep, jaxpr.eqns))


def _met(
    env: dict[Any, Any], eqn: Eqn, found: Sequence[Any], homes: dict[Var, Eqn]
) -> Sequence[Any]:
    """The cotangents that an equation found, without those that meet others in a way of their own.

    Args:
        env: what has been found so far.
        eqn, found: the equation, and cotangents of its operands.
        homes: which equation says how cotangents of a variable meet (the `meets` column).
    """
    own: dict[Eqn, dict[Any, Any]] = {}
    rest = list(found)
    for i, (v, c) in enumerate(zip(eqn.invars, found, strict=True)):
        if c is not None and type(v) is Var and v in homes:
            new = own.setdefault(homes[v], {})
            new[v] = c if v not in new else add_cotangents(new[v], c)
            rest[i] = None
    for home, new in own.items():
        outs, meets = home.outvars, home.primitive.meets
        if meets is not None and any(v in env for v in outs):
            pair = [
                [materialise(part[v]) if v in part else None for v in outs] for part in (env, new)
            ]
            joined = meets([v.aval for v in outs], *pair, **home.params)
            env.update(zip(outs, joined, strict=True))
        else:
            env.update(new)
    return rest


def _used(ct: Any) -> Any:
    """A cotangent without a mask that says only where something was read."""
    return ct.value if type(ct) is Masked and ct.read else ct


def _check_decisions(eqn: Eqn) -> None:
    """Raise `RuleError` if a row takes a truth, or a place, that the linear operands decide."""
    for a in eqn.invars:
        if type(a) is Var and not is_inexact(a.aval.dtype):
            raise RuleError(
                f"{eqn.primitive.name} takes {a.aval} that depends on the linear operands: what "
                "they decide is not linear in them.",
                "Decide by values that the operands do not change.",
            )


def _materialised(eqn: Eqn, ct: Any, operands: list[Any]) -> Sequence[Any]:
    plain = [materialise(c) for c in ct] if isinstance(ct, list) else materialise(ct)
    return eqn.primitive.transpose(plain, *operands, **eqn.params)


def _same(eqn: Eqn, ct: Masked, operands: list[Any], harsh: bool = False) -> Sequence[Any]:
    """Elementwise rows: the mask stays; a rank-0 operand's is whether any element lives.

    Its cotangent is masked before it is summed, since a factor may be NaN where nothing lives. So
    is one of which only parts were read, if the row is `harsh`: may multiply by something infinite.
    """
    shape = typeof(ct.value).shape
    axes = tuple(range(len(shape)))
    wide = [Linear(aval(shape, x.aval.dtype)) if type(x) is Linear else x for x in operands]
    found = eqn.primitive.transpose(ct.value, *wide, **eqn.params)
    if harsh:
        found = [c if c is None or type(c) is Masked else _cleared(c, ct) for c in found]
    masked = [None if c is None else _narrow(c, ct) for c in found]
    return [
        c
        if c is None or type(x) is not Linear or x.aval.shape == shape
        else _summed(c, axes, ct.read)
        for c, x in zip(masked, operands, strict=True)
    ]


def _summed(ct: Masked, axes: tuple[int, ...], read: bool) -> Any:
    """The cotangent of a number that was repeated: `read`, if any element was."""
    value = reduce_sum(materialise(ct), axes=axes)
    if read:
        return value
    found = Masked(value, lambda: _any(ct.mask, axes), zeroed=True)
    found.branch = ct.branch
    return found


def _narrow(ct: Any, other: Masked) -> Masked:
    """A cotangent that lives only where another one does too."""
    if type(ct) is Masked:
        found = Masked(ct.value, lambda: bitwise_and(ct.mask, other.mask))
        found.branch = ct.branch or other.branch
        return found
    found = other.with_value(ct, lambda: other.mask)
    found.zeroed, found.holes = other.read, other.holes
    return found


def _any(mask: Any, axes: tuple[int, ...]) -> Any:
    return reduce_or(mask, axes=axes) if axes and typeof(mask).shape else mask


def full_mask(mask: Any, shape: tuple[int, ...]) -> Any:
    """A rank-0 mask at the shape of its cotangent."""
    if typeof(mask).shape == shape:
        return mask
    return broadcast_in_dim(mask, shape=shape, broadcast_dimensions=())


def _move(eqn: Eqn, ct: Masked, operands: list[Any]) -> Sequence[Any]:
    """Movement rows: the row's own transpose moves the mask; what it fills in is untaken."""
    as_mask = [Linear(aval(x.aval.shape, bool_)) if type(x) is Linear else x for x in operands]
    transpose, params = eqn.primitive.transpose, eqn.params
    found = transpose(ct.value, *operands, **params)

    @cache
    def masks(_plain: bool) -> Sequence[Any]:
        return transpose(full_mask(ct.mask, typeof(ct.value).shape), *as_mask, **params)

    moved = [
        c if c is None else ct.with_value(c, lambda i=i: masks(ctx.trace is core.EVAL)[i])
        for i, c in enumerate(found)
    ]
    if ct.fixed and any(isinstance(x, core.Tracer) for x in operands):  # indices, perhaps
        for c in moved:
            if c is not None:
                c.fixed = False
    return moved


def _sum(eqn: Eqn, ct: Masked, operands: list[Any]) -> Sequence[Any]:
    """Broadcasts: cotangents are summed, a sum is taken where any of its terms is."""
    shape = typeof(ct.value).shape
    kept = eqn.params["broadcast_dimensions"]
    source = operands[0].aval.shape
    axes = tuple(i for i in range(len(shape)) if i not in kept)
    stretched = tuple(j for j, i in enumerate(kept) if source[j] == 1 and shape[i] != 1)

    def mask() -> Any:
        taken = _any(full_mask(ct.mask, shape), axes)
        if not stretched:
            return taken
        return broadcast_in_dim(
            _any(taken, stretched),
            shape=source,
            broadcast_dimensions=tuple(j for j in range(len(source)) if j not in stretched),
        )

    found = _materialised(eqn, ct, operands)
    if ct.read:  # some of it was read: one number was, or all that was repeated
        rank0 = len(stretched) == len(source)
        return found if rank0 else [ct.with_value(c, mask) for c in found]
    summed = [Masked(c, mask, zeroed=True) for c in found]  # sums of zeros
    for c in summed:
        c.branch = ct.branch
    return summed


def _call(eqn: Eqn, cts: list[Any], operands: list[Any]) -> Sequence[Any]:
    """Rows that hold jaxprs take masked cotangents as they are and return masked ones."""
    return eqn.primitive.transpose(cts, *operands, **eqn.params)


def _whole(eqn: Eqn, ct: Any, operands: list[Any]) -> Sequence[Any]:
    """Any other row: all that is known is whether anything at all is taken."""
    cts = [c for c in ct if c is not None] if isinstance(ct, list) else [ct]
    found = _materialised(eqn, ct, operands)
    if any(type(c) is not Masked or lives(c) for c in cts):
        return found
    masks = _of_batch(eqn, ct if isinstance(ct, list) else [ct])
    if masks is None:
        alive = [_any(c.mask, tuple(range(len(typeof(c.mask).shape)))) for c in cts]
        masks = dict.fromkeys(range(len(found)), reduce(bitwise_or, alive))
    others = {i: Masked(None, mask) for i, mask in masks.items()}
    for other in others.values():
        other.branch = any(c.branch for c in cts)
    return [None if c is None else _narrow(c, others[i]) for i, c in enumerate(found)]


def _of_batch(eqn: Eqn, cts: Sequence[Any]) -> dict[int, Any] | None:
    """Which batch elements of operands meet a taken one of a result, where a row has a batch.

    That is said by the gufunc that computes it: what are not its core axes are those of the batch.
    None where they are not the same for all.
    """
    call = gufunc_call(eqn)
    if call is None:
        return None
    alive: list[Any] = []
    for out in call.outputs:
        if isinstance(out, Cores) and cts[out.at] is not None:
            shape = eqn.outvars[out.at].aval.shape
            alive.append(_any(full_mask(cts[out.at].mask, shape), out.of_rank(len(shape))))
    batch = typeof(alive[0]).shape
    found: dict[int, Any] = {}
    for given in call.inputs:
        if not isinstance(given, Cores) or type(eqn.invars[given.at]) is not Var:
            continue
        shape = eqn.invars[given.at].aval.shape
        along = tuple(d for d in range(len(shape)) if d not in given.of_rank(len(shape)))
        if any(tuple(shape[d] for d in along) != typeof(m).shape for m in alive) or not batch:
            return None
        mask = reduce(bitwise_or, alive)
        found[given.at] = broadcast_in_dim(mask, shape=shape, broadcast_dimensions=along)
    return found


def _reaching(eqn: Eqn, ct: Any, operands: list[Any]) -> Sequence[Any]:
    """Rows that say which elements of an operand meet a result that was read."""
    reach = eqn.primitive.mask
    several = isinstance(ct, list)
    cts = [c for c in ct if c is not None] if several else [ct]
    if isinstance(reach, str) or any(type(c) is not Masked for c in cts):
        return _whole(eqn, ct, operands)

    @cache
    def masks(_plain: bool) -> Sequence[Any]:
        full = [
            None if c is None else full_mask(c.mask, typeof(c.value).shape)
            for c in (ct if several else cts)
        ]
        return reach(full if several else full[0], *operands, **eqn.params)

    clear, branch, factors = eqn.primitive.clear, any(c.branch for c in cts), operands
    if clear is not None and branch:
        factors = clear(full_mask(ct.mask, typeof(ct.value).shape), *operands, **eqn.params)
    found = _materialised(eqn, ct, factors)
    like = min(cts, key=lambda c: c.read)
    met = [
        None if c is None else like.with_value(c, lambda i=i: masks(ctx.trace is core.EVAL)[i])
        for i, c in enumerate(found)
    ]
    zeros_stay = like.read or all(type(x) is Linear for x in operands)  # no factor is known
    for c in met:
        if c is not None:
            c.branch, c.zeroed = branch, c.zeroed and zeros_stay
    return met


_CROSSINGS: dict[Any, Callable[..., Sequence[Any]]] = {
    "": _whole,
    "same": _same,
    "move": _move,
    "sum": _sum,
    "call": _call,
}


@cached_on_jaxpr
def transpose_jaxpr(
    jaxpr: Jaxpr, linear: tuple[bool, ...], live: tuple[int, ...]
) -> tuple[Jaxpr, tuple[int, ...]]:
    """The backward program of a jaxpr that is linear in some inputs.

    Args:
        jaxpr: outputs linear in the inputs marked by `linear`.
        linear: one flag per input.
        live: per output 0 (no cotangent), 1 (a cotangent), 2 (a cotangent and its mask) or 3 (the
            same, with a mask of branches).

    Returns:
        The jaxpr of (known inputs, cotangents and masks) -> cotangents and masks of the linear
        inputs, and per linear input a number as above.
    """
    kinds: list[int] = []
    avals = _operand_avals(jaxpr, linear, live)

    def backward(*args: Any) -> list[Any]:
        n = len(linear) - sum(linear)
        known, supply = iter(args[:n]), iter(args[n:])
        cts = [None if k == 0 else _take(supply, k) for k in live]
        found = pull_jaxpr(jaxpr, [None if f else next(known) for f in linear], linear, cts)
        kinds[:] = kinds_of(found)
        return flatten_masked(found)

    return trace_closed(backward, avals), tuple(kinds)


def _operand_avals(
    jaxpr: Jaxpr, linear: tuple[bool, ...], live: tuple[int, ...]
) -> list[ShapedArray]:
    avals = [a for a, f in zip(jaxpr.in_avals, linear, strict=True) if not f]
    for a, k in zip(jaxpr.out_avals, live, strict=True):
        avals.extend([aval(a.shape, a.dtype), aval(a.shape, bool_)][:k])
    return avals


def _take(supply: Any, kind: int) -> Any:
    value = next(supply)
    if kind == 1:
        return value
    found = Masked(value, next(supply))
    found.branch = kind == 3
    return found


def flatten_masked(cts: Sequence[Any]) -> list[Any]:
    """Cotangents as operands: each masked one as two values, absent ones left out."""
    flat: list[Any] = []
    for c in cts:
        if type(c) is Masked:
            flat.extend((c.value, full_mask(c.mask, typeof(c.value).shape)))
        elif c is not None:
            flat.append(c)
    return flat


def unflatten_masked(values: Sequence[Any], kinds: Sequence[int]) -> list[Any]:
    """The inverse of `flatten_masked`, given what each cotangent is."""
    supply = iter(values)
    return [None if k == 0 else _take(supply, k) for k in kinds]


def kinds_of(cts: Sequence[Any]) -> tuple[int, ...]:
    """Per cotangent 0 (absent), 1 (plain), 2 (masked) or 3 (masked by branches)."""
    return tuple(
        0 if c is None else 1 if type(c) is not Masked else 3 if c.branch else 2 for c in cts
    )


def pull_jaxpr(
    jaxpr: Jaxpr, known: Sequence[Any], linear: Sequence[bool], cts: Sequence[Any]
) -> list[Any]:
    """Evaluate a jaxpr on its known inputs and walk it back for the linear ones."""
    trace = PartialTrace(ctx.trace)
    inputs = [
        trace.unknown(a) if f else k for a, k, f in zip(jaxpr.in_avals, known, linear, strict=True)
    ]
    outs = core.run(trace, eval_jaxpr, jaxpr, inputs)
    trace.alive = False
    invars = [x.binder for x, f in zip(inputs, linear, strict=True) if f]
    atoms = [y.binder if trace.owns(y) else None for y in outs]
    return backward_pass(trace.eqns, invars, atoms, cts)


def instantiate_cotangent(ct: Any, aval: ShapedArray) -> Any:
    """A plain cotangent: zeros where none arrived."""
    return zeros(aval) if ct is None else materialise(ct)


def at_kind(ct: Any, kind: int, aval: ShapedArray) -> Any:
    """A cotangent made plain (kind 1) or masked (2 and 3), where another path needs it so."""
    if ct is None and kind:
        zero = zeros(aval)
        return Masked(zero, _truth(False, typeof(zero).shape)) if kind > 1 else zero
    if kind > 1 and type(ct) is not Masked:
        return Masked(ct, _truth(True, aval.shape))
    return ct


def _truth(value: bool, shape: tuple[int, ...]) -> Any:
    mask = np.bool_(value)
    return broadcast_in_dim(mask, shape=shape, broadcast_dimensions=()) if shape else mask

"""Arms take and leave the elements that they read and write, not the arrays around them.

`if x > 0: table[i, j] = table[i - 1, j]` is an arm that takes a table and leaves another one. Here
it becomes an arm from a number to a number: slices of static places are taken before the branch,
and written behind it. Derivatives then carry numbers through the branch, kernels hold both arms,
and the branches of a loop differ in nothing, so that they are found to be repeats.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

from ftrace.control.rows.cond import Branches, cond_call
from ftrace.core import source
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import way
from ftrace.core.lower import Moving
from ftrace.interpreters.staging import trace_closed
from ftrace.primitives import elements
from ftrace.primitives.shape import reshape
from ftrace.primitives.slicing import slice as slice_of
from ftrace.primitives.slicing import update_slice

MANY: Final = 32  # slices of an array that are told apart
SMALL: Final = 1 << 10  # elements that are copied for an arm which may not be taken
Slice = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # starts, limits, strides


class _Narrowed(NamedTuple):
    """An operand of which arms touch slices alone.

    Attributes:
        result: the result that is the operand with slices written; None where none is.
        reads: for each arm the slices that it reads as they were, one by one: the arms of another
            iteration differ in nothing, even where some of these are the same.
        written: those that are written in some arm.
    """

    result: int | None
    reads: tuple[tuple[Slice, ...], ...]
    written: tuple[Slice, ...]

    @property
    def slices(self) -> tuple[Slice, ...]:
        """What arms are given."""
        return (*(s for arm in self.reads for s in arm), *self.written)


def branch(index: Any, operands: Sequence[Any], branches: Branches) -> list[Any]:
    """A `cond` whose arms are about slices, where they touch nothing else of an operand."""
    found = _narrowed(branches)
    if not found:
        return cond_call(index, *operands, branches=branches)
    others = [x for k, x in enumerate(operands) if k not in found]
    taken = [_take(operands[k], s) for k, one in found.items() for s in one.slices]
    avals = [typeof(x) for x in (*others, *taken)]
    arms = tuple(_arm(b, i, found, avals) for i, b in enumerate(branches))
    outs = iter(cond_call(index, *others, *taken, branches=arms))
    bases = {one.result: k for k, one in found.items() if one.result is not None}
    results: list[Any] = []
    for r in range(len(branches[0].outvars)):
        if r not in bases:
            results.append(next(outs))
            continue
        array = operands[bases[r]]
        for s in found[bases[r]].written:
            array = update_slice(array, _shaped(next(outs), _shape(s)), **_params(s))
        results.append(array)
    return results


def _take(array: Any, s: Slice) -> Any:
    """A slice; its only element as a number."""
    found = slice_of(array, **_params(s))
    return _shaped(found, () if _size(s) == 1 else _shape(s))


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if typeof(x).shape == shape else reshape(x, new_sizes=shape)


def _shape(s: Slice) -> tuple[int, ...]:
    return tuple(len(range(*axis)) for axis in zip(*s, strict=True))


def _params(s: Slice) -> dict[str, Any]:
    return dict(zip(("start_indices", "limit_indices", "strides"), s, strict=True))


# ---------------------------------------------------------------------------------- analysis


def _narrowed(branches: Branches) -> dict[int, _Narrowed]:
    """The operands, by number, of which arms touch slices alone."""
    found: dict[int, _Narrowed] = {}
    uses = [_Uses(b) for b in branches]
    for k, v in enumerate(branches[0].invars):
        touched = [u.slices(k) for u in uses]
        if v.aval.size < 2 or any(t is None for t in touched):
            continue
        ends = {u.results.get(k, ()) for u in uses}
        reads = tuple(tuple(read) for read, _ in filter(None, touched))
        written = tuple(dict.fromkeys(s for _, write in filter(None, touched) for s in write))
        one = _Narrowed(None, reads, written)
        if len(ends) > 1 or not _few(one.slices, v.aval):
            continue
        (end,) = ends
        if len(end) > 1 or (written and not end):
            continue
        if one.slices and (written or not end):
            found[k] = one._replace(result=end[0] if end else None)
    return found


def _few(slices: Sequence[Slice], a: ShapedArray) -> bool:
    """Whether slices are a small part of an array, and no two of them share some elements."""
    different = sorted(set(slices))
    if len(slices) > MANY or sum(map(_size, different)) > min(SMALL, a.size // 2):
        return False
    return all(_apart(s, t) for i, s in enumerate(different) for t in different[:i])


def _size(s: Slice) -> int:
    return prod(_shape(s))


def _apart(a: Slice, b: Slice) -> bool:
    return any(
        set(range(*one)).isdisjoint(range(*other))
        for one, other in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True)
    )


class _Uses:
    """What an arm does with its operands.

    Attributes:
        results: operand -> the results that it is, slices written to it aside.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self._read: dict[int, list[Slice]] = {k: [] for k in range(len(jaxpr.invars))}
        self._written: dict[int, list[Slice]] = {k: [] for k in range(len(jaxpr.invars))}
        self._whole: set[int] = set()
        self.results: dict[int, tuple[int, ...]] = {}
        versions = {v: k for k, v in enumerate(jaxpr.invars)}
        new: dict[Any, frozenset[Slice]] = {v: frozenset() for v in versions}  # what was written
        for e in jaxpr.eqns:
            kind, rest = _kind(e), e.invars
            base = versions.get(e.invars[0]) if e.invars and type(e.invars[0]) is Var else None
            if base is not None and kind is elements.slice_:
                if _slice(e) not in new[e.invars[0]]:
                    self._read[base].append(_slice(e))
                rest = e.invars[1:]
            elif base is not None and kind is elements.update_slice and _fits(e):
                self._written[base].append(_slice(e))
                versions[e.outvars[0]] = base
                new[e.outvars[0]] = new[e.invars[0]] | {_slice(e)}
                rest = e.invars[1:]
            self._whole.update(versions[a] for a in rest if type(a) is Var and a in versions)
        for r, v in enumerate(jaxpr.outvars):
            if type(v) is Var and v in versions:
                base = versions[v]
                self.results[base] = (*self.results.get(base, ()), r)

    def slices(self, k: int) -> tuple[list[Slice], list[Slice]] | None:
        """The slices that are read as they were, and written; None where it is used as a whole."""
        return None if k in self._whole else (self._read[k], self._written[k])


def _kind(e: Eqn) -> Any:
    moving = way(e.primitive, Moving)
    return None if moving is None else moving.rule


def _slice(e: Eqn) -> Slice:
    p = e.params
    return tuple(p["start_indices"]), tuple(p["limit_indices"]), tuple(p["strides"])


def _fits(e: Eqn) -> bool:
    """Whether what is written has the type of the slice."""
    array, value = e.invars[0].aval, e.invars[1].aval
    return value.shape == _shape(_slice(e)) and value.dtype == array.dtype


# ---------------------------------------------------------------------------------- arms


_RESHAPES: Final = (elements.squeeze, elements.expand_dims, elements.reshape)


def _arm(
    jaxpr: Jaxpr, number: int, found: dict[int, _Narrowed], avals: Sequence[ShapedArray]
) -> Jaxpr:
    """An arm of (other operands, slices) to (results, written slices).

    What has one element is a number until something else than another shape is asked of it.
    """
    results = {one.result: one for one in found.values() if one.result is not None}

    @source.replaying
    def narrowed(*args: Any) -> list[Any]:
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, jaxpr.consts, strict=True))
        supply = iter(args)
        env.update((v, next(supply)) for k, v in enumerate(jaxpr.invars) if k not in found)
        parts: dict[Any, dict[Slice, Any]] = {jaxpr.invars[k]: {} for k in found}
        homes: dict[Any, int] = {jaxpr.invars[k]: k for k in found}
        given: dict[int, Any] = {}
        before: dict[int, dict[Slice, Any]] = {}
        for k, one in found.items():
            every = [[next(supply) for _ in arm] for arm in one.reads]
            given[k] = iter(every[number])
            before[k] = {s: next(supply) for s in one.written}

        def read(a: Any) -> Any:
            return a.value if type(a) is Literal else _shaped(env[a], a.aval.shape)

        for eqn in jaxpr.eqns:
            first = eqn.invars[0] if eqn.invars and type(eqn.invars[0]) is Var else None
            base, kind = None if first is None else parts.get(first), _kind(eqn)
            if base is not None and kind is elements.slice_:
                known = _slice(eqn) in base
                env[eqn.outvars[0]] = base[_slice(eqn)] if known else next(given[homes[first]])
            elif base is not None:
                new = eqn.invars[1]
                is_number = type(new) is Var and new.aval.size == 1
                written = _shaped(env[new], ()) if is_number else read(new)
                parts[eqn.outvars[0]] = {**base, _slice(eqn): written}
                homes[eqn.outvars[0]] = homes[first]
            elif kind in _RESHAPES and first is not None and first.aval.size == 1:
                env[eqn.outvars[0]] = _shaped(env[first], ())
            else:
                outs = eqn.primitive(*map(read, eqn.invars), **eqn.params)
                env.update(
                    zip(eqn.outvars, outs if eqn.primitive.multiple else (outs,), strict=True)
                )
        left: list[Any] = []
        for r, v in enumerate(jaxpr.outvars):
            if r not in results:
                left.append(read(v))
                continue
            now = {**before[homes[v]], **parts[v]}
            left += (now[s] for s in results[r].written)
        return left

    return trace_closed(narrowed, avals)

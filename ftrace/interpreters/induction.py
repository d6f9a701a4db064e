"""Scalar evolution: elements that a loop reads by its counter become elements of its arrays.

`x[i + 1]` in a loop over i reads a constant of the loop at a place that grows by the same number in
every iteration. Such elements lie in a slice of it, which the loop goes along instead: it computes
no index and checks no bound, and the derivative of what it reads is one array that iterations
leave, not a sum of scatters. It is done where loops are bound, before they are differentiated, for
places that lie inside in all iterations. Source: Bachmann, Wang and Zima, Chains of Recurrences
(ISSAC 1994).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ftrace.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, cached_on_jaxpr
from ftrace.core.lower import Pointwise
from ftrace.interpreters.dce import dce_equations
from ftrace.primitives.index import index_of_first_axis
from ftrace.primitives.shape import rev
from ftrace.primitives.slicing import slice as cut


class Evolution(NamedTuple):
    """A number that is `first + step * k` in iteration k."""

    first: int
    step: int


class _Read(NamedTuple):
    """Elements of a loop's constant, one for each iteration."""

    const: int
    places: Evolution


class _Streamed(NamedTuple):
    """A body that takes elements: which constants it still reads, and what is read along them."""

    body: Jaxpr
    kept: tuple[bool, ...]
    reads: tuple[_Read, ...]


@cached_on_jaxpr
def _streamed(
    body: Jaxpr, n_consts: int, counter: tuple[int, Evolution], length: int
) -> _Streamed | None:
    number, evolution = counter
    known: dict[Any, Evolution] = {body.invars[number]: evolution}
    consts = {v: i for i, v in enumerate(body.invars[:n_consts])}
    elements: dict[_Read, Var] = {}
    same: dict[Any, Var] = {}  # results that are elements
    eqns: list[Eqn] = []
    for eqn in body.eqns:
        read = _read(eqn, consts, known, length)
        if read is None:
            found = _evolution(eqn, known)
            if found is not None:
                known[eqn.outvars[0]] = found
            eqns.append(eqn)
        else:
            same[eqn.outvars[0]] = elements.setdefault(read, eqn.outvars[0])
    if not elements:
        return None

    def now(a: Atom) -> Atom:
        return same.get(a, a) if type(a) is Var else a

    moved = [Eqn(e.primitive, [*map(now, e.invars)], e.params, e.outvars, e.source) for e in eqns]
    outs = [now(a) for a in body.outvars]
    left = dce_equations(moved, outs)
    used = {a for e in left for a in e.invars if type(a) is Var} | set(outs)
    kept = tuple(v in used for v in consts)
    names = [v for v, k in zip(consts, kept, strict=True) if k]
    invars = [*names, *body.invars[n_consts:], *elements.values()]
    return _Streamed(Jaxpr(invars, left, outs, body.constvars, body.consts), kept, tuple(elements))


def elements_along(
    consts: Sequence[Any], body: Jaxpr, counter: tuple[int, Evolution], length: int
) -> tuple[list[Any], Jaxpr, list[Any]]:
    """A loop that reads elements along arrays where its counter says which.

    Args:
        consts: its constants, which are the first inputs of the body.
        body: one iteration.
        counter: which input counts the iterations, and how.
        length: the number of iterations.

    Returns:
        The constants that are still read, the body, whose last inputs are elements, and the arrays
        along which they lie.
    """
    found = _streamed(body, len(consts), counter, length)
    if found is None:
        return list(consts), body, []
    left = [x for x, k in zip(consts, found.kept, strict=True) if k]
    return left, found.body, [along(consts[r.const], r.places, length) for r in found.reads]


def _read(
    eqn: Eqn, consts: dict[Any, int], known: dict[Any, Evolution], length: int
) -> _Read | None:
    """What an equation reads, if that is an element inside of a constant in every iteration."""
    found = index_of_first_axis(eqn)
    if found is None or eqn.invars[0] not in consts or found[0] not in known:
        return None
    (first, step), size = known[found[0]], eqn.invars[0].aval.shape[0]
    last = first + step * (length - 1)
    if found[1] and max(first, last) < 0:
        first, last = first + size, last + size
    if not step or min(first, last) < 0 or max(first, last) >= size:
        return None
    return _Read(consts[eqn.invars[0]], Evolution(first, step))


def _evolution(eqn: Eqn, known: dict[Any, Evolution]) -> Evolution | None:
    """How a sum, difference or product of numbers evolves, if one of its factors stays the same."""
    way = eqn.primitive.lower
    if not isinstance(way, Pointwise):
        return None
    terms = [_term(a, known) for a in eqn.invars]
    if len(terms) != 2 or terms[0] is None or terms[1] is None:
        return None
    (a, da), (b, db) = terms[0], terms[1]
    if way.rule == "add":
        return Evolution(a + b, da + db)
    if way.rule == "sub":
        return Evolution(a - b, da - db)
    if way.rule == "mul" and not (da and db):
        return Evolution(a * b, a * db + b * da)
    return None


def _term(a: Atom, known: dict[Any, Evolution]) -> Evolution | None:
    if type(a) is Literal and a.aval.dtype.kind == "i":
        return Evolution(int(a.value), 0)
    return known.get(a)


def along(array: Any, places: Evolution, length: int) -> Any:
    """Elements of an array's first axis in the order in which a loop reads them."""
    first, step = places
    last = first + (length - 1) * step
    low, high = min(first, last), max(first, last) + 1
    shape = array.shape
    if (low, high, abs(step)) != (0, shape[0], 1):
        array = cut(
            array,
            start_indices=(low, *(0 for _ in shape[1:])),
            limit_indices=(high, *shape[1:]),
            strides=(abs(step), *(1 for _ in shape[1:])),
        )
    return rev(array, dimensions=(0,)) if step < 0 else array

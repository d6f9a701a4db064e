"""Literals inside of arms and bodies become operands where equations differ in nothing else.

`if a[j] < a[best]: best = j` in a Python loop leaves branches with another number in each. Names of
equations (listing.py) leave out the values of literal operands; so these are taken out of arms, and
of the bodies of loops made here, and handed in.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var
from ftrace.core.kinds import branches, layout
from ftrace.lowering.rolling.listing import Naming, value_key


def handed_in(eqns: Sequence[Eqn], naming: Naming) -> list[Eqn]:
    """Equations that take what their arms or bodies differ in; the others as they are."""
    groups: dict[Any, list[tuple[int, list[Literal]]]] = {}
    for at, e in enumerate(eqns):
        if _takes(e):
            values: list[Literal] = []
            groups.setdefault(_shape(e, values, naming), []).append((at, values))
    found = list(eqns)
    for group in groups.values():
        columns = zip(*(values for _, values in group), strict=True)
        differ = {k for k, c in enumerate(columns) if len({value_key(x.value) for x in c}) > 1}
        if differ:
            for at, _ in group:
                found[at] = _Handing(differ).through(eqns[at], lambda literal: literal)
    return found


def _takes(e: Eqn) -> bool:
    """Whether operands can be added to an equation."""
    if branches(e):
        return True
    loop = layout(e)
    return loop is not None and loop.along is not None


def _holds(param: Any) -> bool:
    return isinstance(param, Jaxpr) or (isinstance(param, tuple) and any(map(_holds, param)))


# ---------------------------------------------------------------------------------- comparing


def _shape(e: Eqn, values: list[Literal], naming: Naming) -> Any:
    """What an equation that takes operands does, but for the values of inner literals."""
    others = naming.meaning({k: v for k, v in e.params.items() if not _holds(v)})
    inner = tuple(_form(j, values, naming) for j in _jaxprs(e.params))
    return id(e.primitive), others, inner, tuple(v.aval for v in e.outvars)


def _jaxprs(params: dict[str, Any]) -> Iterator[Jaxpr]:
    def within(param: Any) -> Iterator[Jaxpr]:
        if isinstance(param, Jaxpr):
            yield param
        elif isinstance(param, tuple):
            for one in param:
                yield from within(one)

    for key in sorted(params):
        yield from within(params[key])


def _form(jaxpr: Jaxpr, values: list[Literal], naming: Naming) -> Any:
    number: dict[Any, int] = {v: k for k, v in enumerate((*jaxpr.constvars, *jaxpr.invars))}

    def atom(a: Any) -> Any:
        if type(a) is not Literal:
            return number[a]
        values.append(a)
        return a.aval

    rows: list[Any] = [tuple(map(id, jaxpr.consts)), jaxpr.in_avals]
    for e in jaxpr.eqns:
        operands = tuple(map(atom, e.invars))
        if _takes(e):
            meaning = _shape(e, values, naming)
        else:
            made = tuple(v.aval for v in e.outvars)
            meaning = id(e.primitive), naming.meaning(e.params), made
        for v in e.outvars:
            number[v] = len(number)
        rows.append((operands, meaning))
    rows.append(tuple(map(atom, jaxpr.outvars)))
    return tuple(rows)


# ---------------------------------------------------------------------------------- rewriting


class _Handing:
    """Rewrites one equation; its literals are counted in the order in which `_shape` sees them."""

    def __init__(self, differ: set[int]) -> None:
        """As above; `differ` are the numbers of the literals that are handed in."""
        self._differ = differ
        self._numbers = count()

    def through(self, e: Eqn, variable: Callable[[Literal], Any]) -> Eqn:
        """An equation that takes operands, with `variable(literal)` for what is handed in."""
        opened = [self._opened(j) for j in _jaxprs(e.params)]
        taken = [pair for _, own in opened for pair in own]
        if not taken:
            return e
        loop = layout(e)
        at = len(e.invars) - 1 if loop is None else loop.n_consts
        changed = iter([_with_inputs(j, at, own, taken) for j, own in opened])
        params = {k: _replaced(e.params[k], changed) for k in sorted(e.params)}
        first = len(e.invars) if loop is None else at
        operands = [*e.invars[:first], *(variable(x) for _, x in taken), *e.invars[first:]]
        if loop is not None:
            params["loop"] = params["loop"]._replace(n_consts=at + len(taken))
        return Eqn(e.primitive, operands, params, e.outvars, e.source)

    def _opened(self, jaxpr: Jaxpr) -> tuple[Jaxpr, list[tuple[Var, Literal]]]:
        """A jaxpr with variables in the place of literals; and which."""
        taken: list[tuple[Var, Literal]] = []

        def variable(a: Literal) -> Var:
            taken.append((Var(a.aval), a))
            return taken[-1][0]

        def atom(a: Any) -> Any:
            return variable(a) if type(a) is Literal and next(self._numbers) in self._differ else a

        eqns: list[Eqn] = []
        for e in jaxpr.eqns:
            new = Eqn(e.primitive, list(map(atom, e.invars)), e.params, e.outvars, e.source)
            eqns.append(self.through(new, variable) if _takes(e) else new)
        outs = list(map(atom, jaxpr.outvars))
        found = Jaxpr(jaxpr.invars, eqns, outs, jaxpr.constvars, jaxpr.consts, jaxpr.names)
        if "rolled" in jaxpr.cache:
            found.cache["rolled"] = True
        return found, taken


def _with_inputs(
    jaxpr: Jaxpr, at: int, own: Sequence[tuple[Var, Literal]], every: Sequence[tuple[Var, Literal]]
) -> Jaxpr:
    """A jaxpr that is given all that is handed in, of which it reads its own."""
    names = {v for v, _ in own}
    given = [v if v in names else Var(x.aval) for v, x in every]
    inputs = [*jaxpr.invars[:at], *given, *jaxpr.invars[at:]]
    found = Jaxpr(inputs, jaxpr.eqns, jaxpr.outvars, jaxpr.constvars, jaxpr.consts)
    if "rolled" in jaxpr.cache:
        found.cache["rolled"] = True
    return found


def _replaced(param: Any, changed: Iterator[Jaxpr]) -> Any:
    if isinstance(param, Jaxpr):
        return next(changed)
    if isinstance(param, tuple) and _holds(param):
        kind = type(param)
        parts = [_replaced(p, changed) for p in param]
        return kind(*parts) if hasattr(param, "_fields") else tuple(parts)
    return param

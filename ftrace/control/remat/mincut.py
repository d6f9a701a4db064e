"""What passes from a compiled forward program to its backward one: the values that move least.

A residual is written by one program and read by the other. What is cheap to compute again from
other values, or from the inputs, which are there anyway, need not be stored. Which values to
store is a minimum cut between the inputs and what the derivative reads: cutting a value costs the
bytes that it moves, leaving it uncut costs the work of computing it again.

Source: A. Griewank and A. Walther, Evaluating Derivatives (2008), chapter 12, for the question;
the cut is a maximum flow (`scipy.sparse.csgraph`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var, subjaxprs
from ftrace.core.lazy import lazy
from ftrace.core.lower import Moving, Pointwise
from ftrace.core.scalar import OPS
from ftrace.core.tapes import TURNS
from ftrace.interpreters.dce import dce_equations
from ftrace.interpreters.partial import SplitJaxpr
from ftrace.lowering.fusion.fusible import is_pulled
from ftrace.lowering.fusion.inline import plain

STORED: Final = 2  # a residual is written once and read once
EXPENSIVE, PLAIN = 0.75, 0.03  # work on an element, in elements that could be moved meanwhile
RANGE: Final = 1 << 20  # capacities are whole numbers up to about this
SOURCE, SINK = 0, 1
MANY: Final = 1000  # iterations of a loop whose number nobody knows yet

_maximum_flow = lazy("scipy.sparse.csgraph", "maximum_flow")
_csr_array = lazy("scipy.sparse", "csr_array")


def least_moved(split: SplitJaxpr, known: Sequence[bool]) -> SplitJaxpr:
    """The halves of a jaxpr with the residuals chosen by what they move.

    Args:
        split: known and linear half, every value that the linear half reads a residual.
        known: which inputs of the whole are known.
    """
    n_out = sum(split.out_known)
    made = [v for v in split.known.outvars[n_out:] if type(v) is Var]
    eqns, outs, consts = plain(split.known)
    wanted = [v for v in outs[n_out:] if type(v) is Var]
    makers = {v: e for e in eqns for v in e.outvars}
    if len(wanted) < len(outs) - n_out or not any(
        v in makers and _can_run_again(makers[v]) for v in wanted
    ):
        return split
    inputs = dict(zip(split.known.invars, _positions(known), strict=True))
    graph = _Graph(makers, {v for v, _ in consts}, inputs)
    for i in split.forwarded:
        graph.free.update(v for v, k in inputs.items() if k == i)
    kept = graph.cut(wanted)
    if set(kept) == set(wanted):
        return split
    return _with_kept(split, kept, (eqns, outs, consts), inputs, len(made))


def _positions(known: Sequence[bool]) -> list[int]:
    return [i for i, k in enumerate(known) if k]


def _can_run_again(eqn: Eqn) -> bool:
    """Whether a kernel of the backward program can compute it on the way."""
    return isinstance(eqn.primitive.lower, Pointwise | Moving) and is_pulled(eqn)


def _work(eqn: Eqn) -> float:
    """What one element costs, in bytes."""
    rule = eqn.primitive.lower
    if isinstance(rule, Moving):
        return 0.0
    expensive = isinstance(rule, Pointwise) and isinstance(rule.rule, str) and OPS[rule.rule].costly
    return (EXPENSIVE if expensive else PLAIN) * eqn.outvars[0].aval.dtype.itemsize


def is_cheaper_again(jaxpr: Jaxpr, operands: float, stored: float) -> bool:
    """Whether to compute values over numbers again costs less than to store them.

    Args:
        jaxpr: what computes them; of its branches all count.
        operands: bytes that it reads.
        stored: bytes of the values.
    """
    return operands + _scalar_work(jaxpr) < STORED * stored


def _scalar_work(jaxpr: Jaxpr) -> float:
    eqns, _, _ = plain(jaxpr)
    return sum(_work(e) + sum(_scalar_work(j) for _, j in subjaxprs(e.params)) for e in eqns)


@dataclass
class _Graph:
    """The flow network: two nodes for each value, the edge between them is to store it.

    Attributes:
        makers: who computes what.
        consts: captured arrays: both programs have them.
        inputs: the inputs of the forward program.
        free: those that the backward program reads anyway.
    """

    makers: Mapping[Any, Eqn]
    consts: set[Any]
    inputs: Mapping[Any, int]
    free: set[Any] = field(default_factory=set)

    def cut(self, wanted: Sequence[Any]) -> list[Any]:
        """The values to store, of those from which `wanted` can be computed."""
        order = self._reached(wanted)
        node = {v: 2 + 2 * k for k, v in enumerate(order)}
        edges: list[tuple[int, int, float]] = []
        for v in order:
            edges.append((node[v], node[v] + 1, self._moved(v)))
            eqn = self.makers.get(v)
            if eqn is None or not _can_run_again(eqn):
                edges.append((SOURCE, node[v], np.inf))
                continue
            edges.append((SOURCE, node[v], _work(eqn) * _elements(v)))
            read = {a for a in eqn.invars if type(a) is Var}
            edges.extend((node[a] + 1, node[v], np.inf) for a in read)
        edges.extend((node[v] + 1, SINK, np.inf) for v in set(wanted))
        late = _sink_side(edges, 2 + 2 * len(order))
        return [v for v in order if node[v] not in late and node[v] + 1 in late]

    def _reached(self, wanted: Sequence[Any]) -> list[Any]:
        found: dict[Any, None] = {}
        queue = list(wanted)
        while queue:
            v = queue.pop()
            if v in found:
                continue
            found[v] = None
            eqn = self.makers.get(v)
            if eqn is not None and _can_run_again(eqn):
                queue.extend(a for a in eqn.invars if type(a) is Var)
        return list(found)

    def _moved(self, v: Any) -> float:
        if v in self.consts or v in self.free:
            return 0.0
        size = _elements(v) * v.aval.dtype.itemsize
        return size if v in self.inputs else STORED * size


def _elements(v: Any) -> int:
    return prod(MANY if n is TURNS else n for n in v.aval.shape)


def _sink_side(edges: Sequence[tuple[int, int, float]], count: int) -> set[int]:
    """The nodes from which the sink can be reached when the flow is greatest.

    Of all least cuts that is the one nearest to the sink, which computes least again.
    """
    finite = sum(c for _, _, c in edges if np.isfinite(c))
    scale = RANGE / max(finite, 1.0)
    rows, columns, capacities = zip(*edges, strict=True)
    whole = [2 * RANGE if not np.isfinite(c) else int(np.ceil(c * scale)) for c in capacities]
    given = (np.array(whole, np.int32), (np.array(rows), np.array(columns)))
    network = _csr_array(given, shape=(count, count))
    flow = _maximum_flow(network, SOURCE, SINK).flow
    left = (network - flow).tocoo()
    before: dict[int, list[int]] = {}
    for a, b, room in zip(left.row.tolist(), left.col.tolist(), left.data.tolist(), strict=True):
        if room > 0:
            before.setdefault(b, []).append(a)
    found, queue = {SINK}, [SINK]
    while queue:
        for a in before.get(queue.pop(), ()):
            if a not in found:
                found.add(a)
                queue.append(a)
    return found


def _with_kept(
    split: SplitJaxpr,
    kept: Sequence[Any],
    opened: tuple[list[Eqn], list[Any], list[tuple[Any, Any]]],
    inputs: Mapping[Any, int],
    n_made: int,
) -> SplitJaxpr:
    """The halves with these values as residuals, the others computed again in the linear half."""
    eqns, outs, consts = opened
    n_out = sum(split.out_known)
    const_vars, arrays = [v for v, _ in consts], [c for _, c in consts]
    stored = [v for v in kept if v not in inputs and v not in const_vars]
    fresh = [v for v in kept if v in inputs and inputs[v] not in split.forwarded]
    results = [*outs[:n_out], *stored]
    first = dce_equations(eqns, results)
    forward = Jaxpr(split.known.invars, first, results, const_vars, arrays)

    linear = split.linear
    rest = linear.invars[n_made:]
    n_forwarded = len(split.forwarded)
    given = {v: Var(v.aval) for v in (*stored, *fresh)}
    for v, i in inputs.items():
        if i in split.forwarded:
            given[v] = rest[split.forwarded.index(i)]
    given.update((v, v) for v in const_vars)
    again = _again(eqns, outs[n_out:], given)
    renamed = dict(zip(linear.invars[:n_made], (given[v] for v in outs[n_out:]), strict=True))

    def of(a: Any) -> Any:
        return a if type(a) is Literal else renamed.get(a, a)

    after = [
        Eqn(e.primitive, [of(a) for a in e.invars], e.params, e.outvars, e.source)
        for e in linear.eqns
    ]
    backward = Jaxpr(
        [
            *(given[v] for v in stored),
            *rest[:n_forwarded],
            *(given[v] for v in fresh),
            *rest[n_forwarded:],
        ],
        [*again, *after],
        [of(a) for a in linear.outvars],
        [*const_vars, *linear.constvars],
        [*arrays, *linear.consts],
    )
    more = tuple(inputs[v] for v in fresh)
    return SplitJaxpr(forward, backward, split.out_known, (*split.forwarded, *more))


def _again(eqns: Sequence[Eqn], wanted: Sequence[Any], given: dict[Any, Any]) -> list[Eqn]:
    """Equations that compute `wanted` from what is given; their results are added to it."""
    needed = {v for v in wanted if v not in given}
    chosen: list[Eqn] = []
    for eqn in reversed(eqns):
        if needed.isdisjoint(eqn.outvars):
            continue
        chosen.append(eqn)
        needed.update(a for a in eqn.invars if type(a) is Var and a not in given)
    copies: list[Eqn] = []
    for eqn in reversed(chosen):
        operands = [a if type(a) is Literal else given[a] for a in eqn.invars]
        results = [Var(v.aval) for v in eqn.outvars]
        copies.append(Eqn(eqn.primitive, operands, eqn.params, results, eqn.source))
        given.update((v, w) for v, w in zip(eqn.outvars, results, strict=True) if v not in given)
    return copies

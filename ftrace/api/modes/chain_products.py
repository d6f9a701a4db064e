"""Jacobians as products of smaller ones: a program is cut where few numbers are live.

Between cuts a Jacobian is taken in forward or in reverse mode; what is known of one side is
multiplied by it as a matrix, or goes through the other side as tangents or as cotangents. Which of
them, and in which order, takes least work is found by dynamic programming over the cuts.
(U. Naumann, Optimization of Generalized Jacobian Chain Products without Memory Constraints, 2020.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np

import ftrace.numpy as fnp
from ftrace.api.derivatives.jacobians import backward_pass, forward_pass
from ftrace.api.derivatives.unit_vectors import chunks
from ftrace.api.modes.predicted_work import CALL, Work, worked
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.jaxpr import Eqn, Jaxpr, Var, eval_jaxpr
from ftrace.core.primitive import NONDIFFERENTIABLE
from ftrace.core.records import record
from ftrace.interpreters.linearize import linearize_flat

CUTS: Final = 12  # that are looked at
WORTH: Final = 0.7  # of the work of the better mode


@record
class ChainPart:
    """How the Jacobian of a stretch of a chain is made.

    Attributes:
        kind: "forward", "reverse": of one part, by unit vectors; "push", "pull": the Jacobian of
            the rest goes through one part, as tangents or as cotangents; "product": of two.
        start, stop: cuts, by number.
        inner: the parts that it is made of.
    """

    kind: str
    start: int
    stop: int
    inner: tuple[ChainPart, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.inner))})"


class JacobianChain:
    """A program in parts.

    Args:
        jaxpr: the program.
        moving: which of its inputs it is differentiated by.
    """

    def __init__(self, jaxpr: Jaxpr, moving: Sequence[Var]) -> None:
        self.jaxpr, self.moving = jaxpr, list(moving)
        self.active = _active(jaxpr, moving)
        self.ends = {v: k for k, e in enumerate(jaxpr.eqns) for v in _variables(e)}
        self.ends |= dict.fromkeys((v for v in jaxpr.outvars if type(v) is Var), len(jaxpr.eqns))
        self.starts = dict.fromkeys((*jaxpr.constvars, *jaxpr.invars), 0)
        self.starts |= {v: k + 1 for k, e in enumerate(jaxpr.eqns) for v in e.outvars}
        self.cuts = self._cuts()
        self.sizes = [sum(v.aval.size for v in self.live(c)) for c in self.cuts]
        moved = [worked(e) if self._moves(e) else Work(0, 0) for e in jaxpr.eqns]
        self._calls = [0, *accumulate(w.calls for w in moved)]
        self._elements = [0, *accumulate(w.elements for w in moved)]

    def live(self, cut: int) -> list[Var]:
        """What moves and is read behind a cut; at the ends the inputs, and the results."""
        if cut == 0:
            return self.moving
        if cut == len(self.jaxpr.eqns):
            return [v for v in dict.fromkeys(self.jaxpr.outvars) if v in self.active]
        return [v for v in self.active if self.starts[v] <= cut < self._end(v) + 1]

    def _end(self, v: Var) -> int:
        return self.ends.get(v, -1)

    def _moves(self, eqn: Eqn) -> bool:
        return any(v in self.active for v in eqn.outvars)

    def _cuts(self) -> list[int]:
        """The two ends, and the places between where the fewest numbers are live."""
        count = len(self.jaxpr.eqns)
        change = np.zeros(count + 2, np.int64)
        for v in self.active:
            if self._end(v) >= self.starts[v]:
                change[self.starts[v]] += v.aval.size
                change[self._end(v) + 1] -= v.aval.size
        size = np.cumsum(change)[: count + 1]
        narrow = [k for k in range(1, count) if 0 < size[k] < size[k - 1] or size[k] < size[k + 1]]
        narrow = [k for k in narrow if 0 < size[k] <= min(size[k - 1], size[k + 1])]
        return sorted({0, count, *sorted(narrow, key=lambda k: int(size[k]))[:CUTS]})

    def through(self, count: int, start: int, stop: int) -> int:
        """The work of `count` directions in the part between two cuts."""
        a, b = self.cuts[start], self.cuts[stop]
        calls = self._calls[b] - self._calls[a]
        return CALL * calls + count * (self._elements[b] - self._elements[a])

    def best(self) -> tuple[float, ChainPart]:
        """The least work, and the way that takes it."""
        last = len(self.cuts) - 1
        found: dict[tuple[int, int], tuple[float, ChainPart]] = {}
        for width in range(1, last + 1):
            for i in range(last - width + 1):
                ways = self._ways(i, i + width, found)
                found[i, i + width] = min(ways, key=lambda way: way[0])
        return found[0, last]

    def _ways(self, i: int, j: int, found: dict[Any, Any]) -> Iterator[tuple[float, ChainPart]]:
        n, m = self.sizes[i], self.sizes[j]
        if j == i + 1:
            yield self.through(n, i, j), ChainPart("forward", i, j)
            yield self.through(m, i, j), ChainPart("reverse", i, j)
            return
        work, rest = found[i, j - 1]
        yield work + self.through(n, j - 1, j), ChainPart("push", i, j, (rest,))
        work, rest = found[i + 1, j]
        yield work + self.through(m, i, i + 1), ChainPart("pull", i, j, (rest,))
        for k in range(i + 1, j):
            (left, a), (right, b) = found[i, k], found[k, j]
            product = CALL + n * self.sizes[k] * m
            yield left + right + product, ChainPart("product", i, j, (a, b))


def _variables(eqn: Eqn) -> Iterator[Var]:
    return (a for a in eqn.invars if type(a) is Var)


def _active(jaxpr: Jaxpr, moving: Sequence[Var]) -> dict[Var, None]:
    """The variables that are floats and depend on those that move, in order."""
    found = dict.fromkeys(moving)
    for eqn in jaxpr.eqns:
        if eqn.primitive.jvp is not NONDIFFERENTIABLE and any(v in found for v in _variables(eqn)):
            found |= dict.fromkeys(v for v in eqn.outvars if is_inexact(v.aval.dtype))
    return found


def plan(jaxpr: Jaxpr, moving: Sequence[Var]) -> tuple[JacobianChain, ChainPart] | None:
    """How the Jacobian of a program is made of parts; None where one mode does as well.

    Args:
        jaxpr: the program.
        moving: which of its inputs it is differentiated by.
    """
    chain = JacobianChain(jaxpr, moving)
    last = len(chain.cuts) - 1
    at_cuts = {v.aval.dtype for c in chain.cuts for v in chain.live(c)}
    if last < 2 or len(at_cuts) != 1:
        return None
    whole = min(chain.through(n, 0, last) for n in (chain.sizes[0], chain.sizes[last]))
    work, part = chain.best()
    return (chain, part) if work < WORTH * whole else None


class Evaluation:
    """The values and Jacobians of a chain's parts, from the first to the last.

    Args:
        chain: the program.
        values: of its inputs.
    """

    def __init__(self, chain: JacobianChain, values: Sequence[Any]) -> None:
        jaxpr = chain.jaxpr
        self.chain = chain
        self.env: dict[Any, Any] = dict(zip(jaxpr.constvars, jaxpr.consts, strict=True))
        self.env.update(zip(jaxpr.invars, values, strict=True))

    def jacobian(self, part: ChainPart) -> Any:
        """The matrix of a stretch; the values at its end are known then."""
        i, j = part.start, part.stop
        if part.kind == "product":
            first, second = map(self.jacobian, part.inner)
            return fnp.matmul(second, first)
        if part.kind == "push":
            return self._pushed(j - 1, self.jacobian(part.inner[0]))
        if part.kind == "forward":
            return self._pushed(i, None)
        pull = self._linearized(i)
        return pull(self.jacobian(part.inner[0]) if part.kind == "pull" else None)

    def _piece(self, i: int) -> tuple[Callable[..., list[Any]], list[Any], list[Var], list[Var]]:
        """The part behind a cut: a function of what moves, its values, and what it computes."""
        chain = self.chain
        a, b = chain.cuts[i], chain.cuts[i + 1]
        eqns = chain.jaxpr.eqns[a:b]
        given, wanted = chain.live(a), chain.live(b)
        made = {v for e in eqns for v in e.outvars}
        later = [v for v in made if chain.ends.get(v, -1) >= b and v not in wanted]
        inner = {v for e in eqns for v in _variables(e)} - made
        constant = [v for v in inner if v not in given]
        jaxpr = Jaxpr([*given, *constant], eqns, [*wanted, *later])
        known = [self.env[v] for v in constant]
        return (
            lambda *xs: eval_jaxpr(jaxpr, [*xs, *known]),
            [self.env[v] for v in given],
            wanted,
            later,
        )

    def _pushed(self, i: int, tangents: Any) -> Any:
        """The part behind a cut, in forward mode: by unit vectors, or columns of a matrix."""
        run, values, wanted, later = self._piece(i)
        avals = list(map(typeof, values))
        if tangents is None:
            basis, count = next(chunks(avals, None))
        else:
            count = tangents.shape[1]
            rows = _split(tangents, avals, 0)
            basis = [
                fnp.reshape(fnp.transpose(r), (count, *a.shape))
                for r, a in zip(rows, avals, strict=True)
            ]
        ys, moved = forward_pass(run, values, basis, count)
        self.env.update(zip((*wanted, *later), ys, strict=True))
        parts = [fnp.reshape(t, (v.aval.size, count)) for t, v in zip(moved, wanted, strict=False)]
        return _joined(parts, 0)

    def _linearized(self, i: int) -> Callable[[Any], Any]:
        """The part behind a cut, to go back through by unit vectors, or rows of a matrix."""
        run, values, wanted, later = self._piece(i)
        ys, tape = linearize_flat(run, values, outlives=False)
        self.env.update(zip((*wanted, *later), ys, strict=True))
        avals = [v.aval for v in wanted]

        def pull(cotangents: Any) -> Any:
            if cotangents is None:
                basis, count = next(chunks(avals, None))
            else:
                count = cotangents.shape[0]
                columns = _split(cotangents, avals, 1)
                basis = [
                    fnp.reshape(c, (count, *a.shape)) for c, a in zip(columns, avals, strict=True)
                ]
            found = backward_pass(tape, basis, values, (count, len(later)))
            parts = [
                fnp.reshape(c, (count, typeof(x).size)) for c, x in zip(found, values, strict=True)
            ]
            return _joined(parts, 1)

        return pull


def _split(matrix: Any, avals: Sequence[ShapedArray], axis: int) -> list[Any]:
    ends = list(accumulate(a.size for a in avals))
    pairs = zip([0, *ends], ends, strict=False)
    return [matrix[a:b] if axis == 0 else matrix[:, a:b] for a, b in pairs]


def _joined(parts: Sequence[Any], axis: int) -> Any:
    return parts[0] if len(parts) == 1 else fnp.concatenate(parts, axis=axis)


def blocks(chain: JacobianChain, part: ChainPart, values: Sequence[Any]) -> list[list[Any]]:
    """The Jacobian of each result by each of the inputs that move.

    Args:
        chain, part: of `plan`.
        values: of all inputs.
    """
    evaluation = Evaluation(chain, values)
    matrix = evaluation.jacobian(part)
    inputs = [v.aval for v in chain.moving]
    results = chain.live(len(chain.jaxpr.eqns))
    rows = dict(zip(results, _split(matrix, [v.aval for v in results], 0), strict=True))
    found: list[list[Any]] = []
    for out in chain.jaxpr.outvars:
        row = rows.get(out) if type(out) is Var else None
        if row is None:
            shape, dtype = out.aval.shape, out.aval.dtype
            found.append([fnp.zeros((*shape, *a.shape), dtype) for a in inputs])
            continue
        columns = zip(_split(row, inputs, 1), inputs, strict=True)
        found.append([fnp.reshape(c, (*out.aval.shape, *a.shape)) for c, a in columns])
    return found

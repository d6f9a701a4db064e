"""Walking: a function on values, row by row, with its calls, branches and loops opened.

`WalkTrace` stands above whatever evaluates. A `WalkObserver` sees each row with its operands and
results, gives every result a note, and hears of each value that Python, a branch or a loop decides
by. The walk knows where it is: in which iteration of which loop, in which branch. Rows with a
user's rule stay closed, so that derivatives are those of the rules.
"""

import itertools
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from ftrace.control.rows.members import member, stacked
from ftrace.control.rows.vectorized import mapped
from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.errors import ConcretizationTypeError
from ftrace.core.jaxpr import eval_jaxpr
from ftrace.core.kinds import way
from ftrace.core.lower import Branch, Call, Elementwise, Iteration, Layout
from ftrace.core.primitive import Primitive
from ftrace.core.tapes import is_tape
from ftrace.core.trace import Trace, Tracer, ctx

Params = dict[str, Any]


class WalkObserver(Protocol):
    """Who looks at a walk."""

    def step(
        self, row: Primitive, params: Params, operands: Sequence[Any], results: Sequence[Any]
    ) -> Sequence[Any]:
        """See one row; a note for each result. Operands are `Walked` or plain."""
        ...

    def decided(self, note: Any) -> None:
        """Hear that what runs next depends on a value with this note."""
        ...


class Walked(Tracer):
    """A value of the trace below, with a note."""

    __slots__ = ("note", "value")
    slots = ("owner", "value", "note")

    def __init__(self, trace: Trace, value: Any, note: Any) -> None:
        self.owner = trace
        self.value = value
        self.note = note

    @property
    def aval(self) -> ShapedArray:
        return typeof(self.value)

    def known(self, exact: bool) -> Any:
        self.owner.watch.decided(self.note)
        return self.value.known(exact) if isinstance(self.value, Tracer) else self.value


core.register(Walked)


class WalkTrace(Trace):
    """Shows every row to a watch, and has the parent do it."""

    __slots__ = ("path", "watch")
    name = "blame"

    def __init__(self, parent: Trace, watch: WalkObserver, path: list[str]) -> None:
        super().__init__(parent)
        self.watch = watch
        self.path = path

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: Params) -> Any:
        for a in args:
            self._check(a)
        outs = _opened(self, primitive, args, params)
        if outs is not None:
            return [self.lift(y) for y in outs]
        ctx.trace = self.parent
        found = primitive(*map(self._below, args), **params)
        results = found if primitive.multiple else (found,)
        notes = self.watch.step(primitive, params, args, results)
        walked = [Walked(self, y, n) for y, n in zip(results, notes, strict=True)]
        return walked if primitive.multiple else walked[0]

    def lift(self, value: Any) -> Walked:
        self._check(value)
        return value.fresh() if isinstance(value, Walked) else Walked(self, value, None)

    def _check(self, value: Any) -> None:
        """Refuse what a transformation around the walk traces: it has no numbers to look at."""
        if isinstance(value, Tracer) and value.owner is not self:
            raise ConcretizationTypeError(
                f"A walk through a function met {value!r}, which the function captured: a traced "
                f"value of {value.owner.name}.",
                "Call debug.blame outside transformations, on arrays: blame(grad(f), x), not grad "
                "of blame.",
            )

    @staticmethod
    def _below(a: Any) -> Any:
        return a.value if isinstance(a, Walked) else a

    @contextmanager
    def inside(self, what: str) -> Generator[None]:
        """Be in an iteration or a branch."""
        self.path.append(what)
        try:
            yield
        finally:
            self.path.pop()


def walk(
    fn: Callable[..., Sequence[Any]], inputs: Sequence[Any], notes: Sequence[Any], trace: WalkTrace
) -> tuple[list[Any], list[Any]]:
    """Run a function of flat values; its results and their notes (None where they are no rows')."""
    given = [Walked(trace, x, n) for x, n in zip(inputs, notes, strict=True)]
    for x in given:
        x.alias = core.FROZEN
    try:
        found = [trace.lift(y) for y in core.run(trace, fn, *given)]
    finally:
        trace.alive = False
    return [y.value for y in found], [y.note for y in found]


# ---------------------------------------------------------------------------------- opened rows


def _concrete(x: Any) -> Any:
    """A value that decides what runs."""
    return x.known(False) if isinstance(x, Tracer) else x


def _opened(
    trace: WalkTrace, row: Primitive, args: Sequence[Any], params: Params
) -> list[Any] | None:
    """The results of a row that holds jaxprs, row by row; None where it stays closed."""
    call, branch, loop = way(row, Call), way(row, Branch), way(row, Iteration)
    if loop is not None:
        return _loop(trace, row, loop.layout(len(args), **params), args)
    if branch is not None:
        return _branch(trace, branch.jaxprs(**params), args)
    if call is not None and call.loses != "rule":
        return eval_jaxpr(call.jaxpr([typeof(a) for a in args], **params), args)
    each = way(row, Elementwise)
    inner = None if each is None else each.jaxpr([typeof(a) for a in args], **params)
    return None if inner is None else mapped(inner, args)


def _branch(trace: WalkTrace, branches: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    chosen = min(max(int(_concrete(args[0])), 0), len(branches) - 1)
    with trace.inside(f"branch {chosen} of cond"):
        return eval_jaxpr(branches[chosen], args[1:])


def _loop(trace: WalkTrace, row: Primitive, loop: Layout, args: Sequence[Any]) -> list[Any] | None:
    """A loop whose iterations leave tapes, or read them, stays closed: these are no arrays."""
    body, consts, xs = loop.body, loop.consts(args), loop.xs(args)
    carry, left = list(loop.carry(args)), list[list[Any]]()
    if any(map(is_tape, body.in_avals + body.out_avals)):
        return None
    length = int(_concrete(args[0])) if loop.first else loop.length
    forward = itertools.count() if length is None else range(length)
    for i in reversed(range(length or 0)) if loop.reverse else forward:
        with trace.inside(f"turn {i} of {row.name}"):
            if loop.cond is not None and not _concrete(*eval_jaxpr(loop.cond, [*consts, *carry])):
                break
            outs = eval_jaxpr(body, [*consts, *carry, *(member(x, 0, i) for x in xs)])
        carry = outs[: loop.n_carry]
        left.append(outs[loop.n_carry :])
    leaves = _stack(left[::-1] if loop.reverse else left, body.out_avals[loop.n_carry :])
    return [*carry, *[np.int64(len(left))] * loop.records, *leaves]


def _stack(left: list[list[Any]], avals: Sequence[ShapedArray]) -> list[Any]:
    """What iterations left: arrays, also where a compiled loop would leave tapes."""
    return stacked(left) if left else [np.zeros((0, *a.shape), a.dtype) for a in avals]

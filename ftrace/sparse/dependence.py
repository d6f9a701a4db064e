"""Which elements of an input each element of a result depends on: sparsity by interpretation.

`DependenceTrace` evaluates a linear function, the derivative of a program, on places instead of
numbers (dependence_rules.py). What does not depend on the input is computed, so that indices are
known. Calls, branches and loops are opened; a loop of few iterations is followed one by one, any
other until what is carried depends on nothing more. (Griewank and Walther, Evaluating Derivatives,
2nd edition, 2008, section 7.1: propagation of index domains.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import numpy as np

from ftrace.control.rows.members import member
from ftrace.core import trace as core
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.jaxpr import Jaxpr, eval_jaxpr
from ftrace.core.kinds import way
from ftrace.core.lazy import lazy
from ftrace.core.lower import Branch, Call, Expansion, Iteration, Layout
from ftrace.core.primitive import Primitive
from ftrace.core.trace import EVAL, Trace, ctx
from ftrace.sparse.dependence_rules import (
    RULES,
    Dependent,
    Operation,
    Places,
    applied,
    checked,
    depends,
    everything,
    none,
    stacked,
)

UNROLLED: Final = 300  # iterations that are followed one by one

_csr = lazy("scipy.sparse", "csr_array")
Params = dict[str, Any]


class DependenceTrace(Trace):
    """Evaluates what is known, and follows what the rest depends on.

    Args:
        parent: evaluates.
        count: elements of the input.
    """

    __slots__ = ("count",)
    name = "sparsity"

    def __init__(self, parent: Trace, count: int) -> None:
        super().__init__(parent)
        self.count = count

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: Params) -> Any:
        """Evaluate, open or follow one equation; what only has an effect is left out."""
        promised = primitive.type(*map(typeof, args), **params)
        types = promised if primitive.multiple else (promised,)
        if not types:
            return []
        if not any(isinstance(a, Dependent) for a in args):
            ctx.trace = self.parent
            return primitive(*args, **params)
        opened = self._opened(primitive, args, params)
        if opened is not None:
            return opened
        made = self._places_of(primitive, args, params, types)
        outs = [
            Dependent(self, a, p if is_inexact(a.dtype) else self.nothing(a))
            for a, p in zip(types, made, strict=True)
        ]
        return outs if primitive.multiple else outs[0]

    def _opened(self, row: Primitive, args: Sequence[Any], params: Params) -> Any:
        """The results of a row that other rows compute; None where there are none."""
        loop, branch = way(row, Iteration), way(row, Branch)
        if loop is not None:
            return self._loop(loop.layout(len(args), **params), args)
        if branch is not None:
            return self._branch(branch.jaxprs(**params), args)
        call, expansion = way(row, Call), way(row, Expansion)
        if call is not None:
            inner = call.jaxpr([typeof(a) for a in args], **params)
            if inner is None:
                return None
            found = eval_jaxpr(inner, args)
            return found if row.multiple else found[0]
        return None if expansion is None else expansion.rule(*args, **params)

    def lift(self, value: Any) -> Dependent:
        """A value of this trace."""
        return value if isinstance(value, Dependent) else self.known(value)

    def known(self, value: Any) -> Dependent:
        """A value that depends on nothing; which it is, is forgotten."""
        return Dependent(self, typeof(value), self.nothing(typeof(value)))

    def nothing(self, a: ShapedArray) -> Places:
        """The places of a value that depends on nothing."""
        return none(a.size, self.count)

    def _places_of(
        self, row: Primitive, args: Sequence[Any], params: Params, types: Sequence[ShapedArray]
    ) -> list[Places]:
        """What the results of a row depend on."""
        if not any(map(depends, args)):
            return [self.nothing(a) for a in types]
        ctx.trace = self.parent
        for kind, rule in RULES.items():
            found = way(row, kind)
            if found is not None:
                op = Operation(row, args, params, types, found, self.count)
                made = rule(op)
                if made is not None:
                    return made
        return everything(Operation(row, args, params, types, None, self.count))

    def _of(self, x: Any) -> Places:
        return x.places if isinstance(x, Dependent) else self.nothing(typeof(x))

    # --- branches and loops

    def _branch(self, branches: Sequence[Jaxpr], args: Sequence[Any]) -> list[Any]:
        if not isinstance(args[0], Dependent):
            return eval_jaxpr(branches[min(max(int(args[0]), 0), len(branches) - 1)], args[1:])
        outs = [eval_jaxpr(each, args[1:]) for each in branches]
        return [reduce(self._either, each) for each in zip(*outs, strict=True)]

    def _either(self, x: Any, y: Any) -> Dependent:
        """One of two values, nobody knows which."""
        return Dependent(self, typeof(x), checked(self._of(x) + self._of(y)))

    def _loop(self, loop: Layout, args: Sequence[Any]) -> list[Any]:
        length = loop.length
        if loop.first:
            length = None if isinstance(args[0], Dependent) else int(args[0])
        if length is not None and length <= UNROLLED and loop.cond is None:
            return self._counted(loop, args, length)
        if loop.cond is not None:
            found = self._followed(loop, args)
            if found is not None:
                return found
        return self._until_stable(loop, args, length)

    def _counted(self, loop: Layout, args: Sequence[Any], length: int) -> list[Any]:
        consts, xs = loop.consts(args), loop.xs(args)
        carry, left = list(loop.carry(args)), list[list[Any]]()
        for i in reversed(range(length)) if loop.reverse else range(length):
            outs = eval_jaxpr(loop.body, [*consts, *carry, *(member(x, 0, i) for x in xs)])
            carry = outs[: loop.n_carry]
            left.append(outs[loop.n_carry :])
        left = left[::-1] if loop.reverse else left
        types = loop.body.out_avals[loop.n_carry :]
        return [*carry, *(self._stacked([e[k] for e in left], a) for k, a in enumerate(types))]

    def _stacked(self, values: Sequence[Any], each: ShapedArray) -> Dependent:
        type_ = ShapedArray((len(values), *each.shape), each.dtype)
        rows = [self._of(v) for v in values]
        return Dependent(self, type_, stacked(rows) if rows else self.nothing(type_))

    def _followed(self, loop: Layout, args: Sequence[Any]) -> list[Any] | None:
        """A loop whose condition is known at each iteration; None where it is not."""
        if loop.records:
            return None
        consts, carry = loop.consts(args), list(loop.carry(args))
        for _ in range(UNROLLED):
            (going,) = eval_jaxpr(loop.cond, [*consts, *carry])
            if isinstance(going, Dependent):
                return None
            if not going:
                return carry
            carry = eval_jaxpr(loop.body, [*consts, *carry])
        return None

    def _until_stable(self, loop: Layout, args: Sequence[Any], length: int | None) -> list[Any]:
        """A loop of any number of iterations: what is carried depends on more until it does not."""
        consts = loop.consts(args)
        carry = [self.lift(x) for x in loop.carry(args)]
        each = [self._any_member(x) for x in loop.xs(args)]
        while True:
            outs = eval_jaxpr(loop.body, [*consts, *carry, *each])
            new = [self._either(c, y) for c, y in zip(carry, outs[: loop.n_carry], strict=True)]
            if all(a.places.nnz == b.places.nnz for a, b in zip(carry, new, strict=True)):
                break
            carry = new
        left: list[Any] = []
        for y, a in zip(outs[loop.n_carry :], loop.body.out_avals[loop.n_carry :], strict=True):
            n = length or 0
            type_ = ShapedArray((n, *a.shape), a.dtype)
            left.append(Dependent(self, type_, self._of(y)[np.tile(np.arange(a.size), n)]))
        count = [self.known(np.int64(0))] * loop.records
        return [*carry, *count, *left]

    def _any_member(self, x: Any) -> Dependent:
        """Some element along axis 0."""
        a = typeof(x)
        member_type = ShapedArray(a.shape[1:], a.dtype)
        if not (depends(x)):
            return Dependent(self, member_type, self.nothing(member_type))
        into = np.tile(np.arange(member_type.size), a.shape[0])
        return Dependent(self, member_type, applied(into, np.arange(a.size), x, member_type.size))


def dependence(jaxpr: Jaxpr, values: Sequence[Any], known: Sequence[bool], position: int) -> Places:
    """The pattern of a derivative: a row for each element of the result, a column for the input's.

    Args:
        jaxpr: computes the tangent of a result.
        values: its operands.
        known: which of them the pattern may depend on.
        position: of the operand that is the tangent of the input.
    """
    n = jaxpr.invars[position].aval.size
    trace = DependenceTrace(EVAL, n)
    eye = _csr((np.ones(n, bool), np.arange(n), np.arange(n + 1)), shape=(n, n))
    given = [
        x if k else Dependent(trace, v.aval, trace.nothing(v.aval))
        for x, k, v in zip(values, known, jaxpr.invars, strict=True)
    ]
    given[position] = Dependent(trace, jaxpr.invars[position].aval, eye)
    try:
        with np.errstate(all="ignore"):
            (out,) = core.run(trace, lambda: eval_jaxpr(jaxpr, given))
    finally:
        trace.alive = False
    if not isinstance(out, Dependent):
        return trace.nothing(typeof(out))
    places = out.places
    places.sum_duplicates()
    return places

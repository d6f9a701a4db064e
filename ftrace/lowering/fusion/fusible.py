"""Which equations kernels can do, and what the simple ones make of scalars.

The `lower` column of a row says how elements of its results come from elements of its operands;
here that is asked for an equation with its dtypes. What an element of an array needs is in
backward_slice.py, what a jaxpr over scalars computes in scalar_jaxprs.py.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray
from ftrace.core.jaxpr import Eqn, Jaxpr, cached_on_jaxpr
from ftrace.core.kinds import branches, element, has_loops, layout, way
from ftrace.core.lower import Cumulative, Elementwise, Moving, Pointwise, Reduction
from ftrace.core.scalar import OPS
from ftrace.core.tapes import is_tape
from ftrace.lowering.fusion.inline import inline
from ftrace.lowering.kernel.builder import BOOLEAN, Builder
from ftrace.lowering.kernel.complexes import OPERATIONS
from ftrace.lowering.kernel.index_maps import Index, constant
from ftrace.lowering.kernel.ir import PAIRS
from ftrace.primitives.linear import join


def is_pulled(eqn: Eqn) -> bool:
    """Whether elements of the results can be asked for one at a time."""
    each = element(eqn)
    if each is not None:
        return is_scalar_program(each)
    rule = eqn.primitive.lower
    if not isinstance(rule, Moving | Pointwise):
        return False
    if not rule.when([a.aval for a in eqn.invars], eqn.outvars[0].aval):
        return False
    if isinstance(rule, Moving):
        return True
    if any(is_tape(a.aval) for a in (*eqn.invars, *eqn.outvars)):
        return False
    if not isinstance(rule.rule, str):
        return rule.accepts([a.aval.dtype for a in eqn.invars])
    dtype = common(eqn)
    known = {"c": OPERATIONS, "b": BOOLEAN}.get(dtype.kind, ())
    return rule.rule in known or (dtype.kind != "c" and rule.accepts([dtype]))


def is_fold(eqn: Eqn) -> bool:
    """Whether the equation is a reduction that kernels can do."""
    rule = eqn.primitive.lower
    if not isinstance(rule, Reduction):
        return False
    dtype = eqn.invars[0].aval.dtype
    return dtype.kind in rule.kinds and (dtype.kind != "f" or dtype.itemsize > 1)


def is_cumulative(eqn: Eqn) -> bool:
    """Whether the equation is a cumulative row that kernels can do."""
    rule = eqn.primitive.lower
    if not isinstance(rule, Cumulative):
        return False
    a = eqn.invars[0].aval
    return a.dtype.kind in rule.kinds and not is_tape(a)


def common(eqn: Eqn) -> np.dtype[Any]:
    """The dtype in which a pointwise operation computes."""
    rule = eqn.primitive.lower
    assert isinstance(rule, Pointwise)
    chooses = isinstance(rule.rule, str) and OPS[rule.rule].chooses
    avals = [a.aval for a in (eqn.invars[1:] if chooses else eqn.invars)]
    if all(a.dtype is avals[0].dtype for a in avals):
        return avals[0].dtype
    return join(eqn.primitive.name, *avals)[0]


def reduced_axes(eqn: Eqn) -> tuple[int, ...]:
    """The axes that a reduction folds, or along which a cumulative row runs."""
    params = eqn.params
    return tuple(params["axes"]) if "axes" in params else (params["axis"],)


def unreduced(eqn: Eqn, index: Index) -> list[Index]:
    """The operand's indices of what a reduction of few elements joins."""
    axes, shape = reduced_axes(eqn), eqn.invars[0].aval.shape
    found: list[Index] = []
    for at in product(*(range(shape[i]) for i in axes)):
        rest, joined = iter(index), dict(zip(axes, at, strict=True))
        found.append(
            tuple(constant(joined[i]) if i in joined else next(rest) for i in range(len(shape)))
        )
    return found


def pointwise(builder: Builder, eqn: Eqn, values: Sequence[Any]) -> Any:
    """What a `Pointwise` row makes of scalars."""
    rule, out = eqn.primitive.lower, eqn.outvars[0].aval
    assert isinstance(rule, Pointwise)
    if not isinstance(rule.rule, str):
        return rule.rule(builder, out, *values, **eqn.params)
    dtype, op = common(eqn), OPS[rule.rule]
    conditions, rest = values[: op.chooses], values[op.chooses :]
    found = builder.op(op.name, *conditions, *(builder.convert(v, dtype) for v in rest))
    return found if op.result == "b1" else builder.convert(found, out.dtype)


def iterates(eqn: Eqn) -> bool:
    """Whether an element of an equation's results takes as many iterations as its values say."""
    each = element(eqn)
    return each is not None and has_loops(each)


def is_stored(eqn: Eqn) -> bool:
    """Whether an equation's results are stored, whatever reads them."""
    each = way(eqn.primitive, Elementwise)
    return each is not None and each.stored


@cached_on_jaxpr
def is_scalar_program(jaxpr: Jaxpr) -> bool:
    """Whether a kernel can compute a jaxpr for each element."""
    if any(a.shape for a in (*jaxpr.in_avals, *jaxpr.out_avals)):
        return False
    eqns, _, consts = inline(jaxpr, jaxpr.invars)
    return not any(v.aval.shape for v, _ in consts) and all(map(is_scalar, eqns))


def is_scalar(eqn: Eqn) -> bool:
    """Whether an equation becomes operations on scalars."""
    if any(a.aval.shape for a in (*eqn.invars, *eqn.outvars)):
        return False
    arms, loop, rule = branches(eqn), layout(eqn), eqn.primitive.lower
    if arms:
        return all(map(is_scalar_program, arms))
    if loop is not None:
        if loop.cond is None or loop.records or eqn.effects:
            return False
        return is_scalar_program(loop.cond) and is_scalar_program(loop.body)
    if isinstance(rule, Reduction):
        return rule.fold not in PAIRS
    return is_pulled(eqn)


class Element:
    """An operand of a `Moving` rule: `x.at(index)`."""

    __slots__ = ("_ask", "_atom", "aval")

    def __init__(self, atom: Any, ask: Callable[[Any, Index], Any]) -> None:
        self._atom = atom
        self._ask = ask
        self.aval: ShapedArray = atom.aval

    def at(self, index: Index) -> Any:
        """The element at an index."""
        return self._ask(self._atom, index)

"""Which equations kernels can do, and what the simple ones make of scalars.

The `lower` column of a row says how elements of its results come from elements of its operands;
here that is asked for an equation with its dtypes. What an element of an array needs is in
reading.py, what a jaxpr over scalars computes in elementwise.py.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray
from ftrace.core.jaxpr import Eqn, Jaxpr, cached_on_jaxpr, subjaxprs
from ftrace.core.scalar import OPS, Cumulative, Elementwise, Moving, Pointwise, Reduction
from ftrace.core.tapes import has_turns
from ftrace.lowering.builder import Builder
from ftrace.lowering.complexes import ROWS
from ftrace.lowering.indexing import ORIGIN, Index
from ftrace.lowering.inline import inline
from ftrace.lowering.ir import PAIRS
from ftrace.primitives.linear import join

LOOPS: Final = frozenset({"while", "scan"})


def is_pulled(eqn: Eqn) -> bool:
    """Whether elements of the results can be asked for one at a time."""
    rule = eqn.primitive.lower
    if isinstance(rule, Elementwise):
        return is_scalar_program(rule.jaxpr(**eqn.params))
    if not isinstance(rule, Moving | Pointwise):
        return False
    if not rule.when([a.aval for a in eqn.invars], eqn.outvars[0].aval):
        return False
    if isinstance(rule, Moving):
        return True
    for a in (*eqn.invars, *eqn.outvars):
        if has_turns(a.aval):
            return False
        if a.aval.dtype.kind == "c":
            return eqn.primitive.op in ROWS
    if isinstance(rule.rule, str):
        return rule.accepts((common(eqn),))
    return rule.accepts(tuple(a.aval.dtype for a in eqn.invars))


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
    return a.dtype.kind in rule.kinds and not has_turns(a)


def common(eqn: Eqn) -> np.dtype[Any]:
    """The dtype in which a pointwise operation computes."""
    first = eqn.invars[0].aval.dtype
    for a in eqn.invars:
        if a.aval.dtype is not first:
            return join(eqn.primitive.name, *(a.aval for a in eqn.invars))[0]
    return first


def reduced_axes(eqn: Eqn) -> tuple[int, ...]:
    """The axes that a reduction folds, or along which a cumulative row runs."""
    params = eqn.params
    return tuple(params["axes"]) if "axes" in params else (params["axis"],)


def unreduced(eqn: Eqn, index: Index) -> Index:
    """The operand's index of a reduction of axes of size 1."""
    axes, rest = reduced_axes(eqn), iter(index)
    return tuple(ORIGIN if i in axes else next(rest) for i in range(eqn.invars[0].aval.ndim))


def pointwise(builder: Builder, eqn: Eqn, values: Sequence[Any]) -> Any:
    """What a `Pointwise` row makes of scalars."""
    rule, out = eqn.primitive.lower, eqn.outvars[0].aval
    assert isinstance(rule, Pointwise)
    if not isinstance(rule.rule, str):
        return rule.rule(builder, out, *values, **eqn.params)
    dtype = common(eqn)
    found = builder.op(rule.rule, *(builder.convert(v, dtype) for v in values))
    return found if OPS[rule.rule].result == "b1" else builder.convert(found, out.dtype)


@cached_on_jaxpr
def has_loops(jaxpr: Jaxpr) -> bool:
    """Whether a loop is in a jaxpr, or in one that it holds."""
    return any(
        e.primitive.op in LOOPS or any(has_loops(j) for _, j in subjaxprs(e.params))
        for e in jaxpr.eqns
    )


def turns(eqn: Eqn) -> bool:
    """Whether an element of an equation's results takes as many turns as its values say."""
    rule = eqn.primitive.lower
    return isinstance(rule, Elementwise) and has_loops(rule.jaxpr(**eqn.params))


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
    if eqn.primitive.op == "cond":
        return all(map(is_scalar_program, eqn.params["branches"]))
    if eqn.primitive.op == "while":
        plain = not eqn.params["record"] and not eqn.effects
        return plain and all(is_scalar_program(eqn.params[k]) for k in ("cond", "body"))
    rule = eqn.primitive.lower
    if isinstance(rule, Elementwise):
        return is_scalar_program(rule.jaxpr(**eqn.params))
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

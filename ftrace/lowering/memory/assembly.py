"""The pass `elide`: what would only be copied into its place is made there.

Loops, products and rows of libraries write whole arrays. Where these are put one behind the other
in memory, or seen in another shape, the row `joined` takes the place of the concatenation or the
reshape: its operands are made in parts of its result's memory, and nothing is left to do (copy
elision). An operand that cannot be made there, such as an argument, is copied.
"""

from math import prod
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray
from ftrace.core.jaxpr import Eqn, Jaxpr, Var
from ftrace.core.kinds import is_reshape, way
from ftrace.core.lower import Moving
from ftrace.core.primitive import Primitive, Unsupported
from ftrace.core.tapes import is_tape
from ftrace.lowering.fusion.fusible import is_cumulative, is_fold, is_pulled
from ftrace.primitives import elements

LEAST: Final = 1 << 12  # bytes of a result from which a copy of it costs more than its kernel
OTHERS: Final = 4  # operands that kernels make or that are copied: each takes a step of its own
SHARE: Final = 0.75  # of the result's bytes that steps make

_LATE: Final = Unsupported(
    "what a program joins in memory is known when it is compiled, after derivatives and batching.",
    "Differentiate or map the function that is compiled.",
)

joined = Primitive(
    name="joined",
    impl=lambda *xs, shape: np.concatenate([np.ravel(x) for x in xs]).reshape(shape),
    type=lambda *xs, shape: ShapedArray(shape, xs[0].dtype),
    jvp=_LATE,
    transpose=_LATE,
    batch=_LATE,
    lower=Moving(elements.concatenate, "choice", when=lambda operands, out: False, memory=True),
    doc="The operands' elements one behind the other, in another shape.",
)


def elided(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr with `joined` where operands can be made in their places; or itself."""
    sources: dict[Any, Any] = {}  # a reshape of a variable -> the variable
    whole: set[Any] = set()  # what steps make, each in one piece
    outs = {a for a in jaxpr.outvars if type(a) is Var}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        if not (is_pulled(eqn) or is_fold(eqn) or is_cumulative(eqn) or is_reshape(eqn)):
            whole.update(v for v in eqn.outvars if v not in outs and not is_tape(v.aval))
        elif is_reshape(eqn):
            (x,) = eqn.invars
            sources[eqn.outvars[0]] = sources.get(x, x)
        operands = _operands(eqn, outs, sources, whole)
        if operands is not None:
            out = eqn.outvars[0]
            eqn = Eqn(joined, operands, {"shape": out.aval.shape}, [out], eqn.source)
            whole.update({out} - outs)
            sources.pop(out, None)
        eqns.append(eqn)
    if all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)):
        return jaxpr
    return Jaxpr(jaxpr.invars, eqns, jaxpr.outvars, jaxpr.constvars, jaxpr.consts, jaxpr.names)


def _operands(eqn: Eqn, outs: set[Any], sources: dict[Any, Any], whole: set[Any]) -> Any:
    """What `joined` takes in the place of an equation; None where that does not pay."""
    moving = way(eqn.primitive, Moving)
    if moving is None or not eqn.outvars:
        return None
    out = eqn.outvars[0]
    if _bytes(out) < LEAST:
        return None
    if is_reshape(eqn):
        source = sources[out]
        return [source] if out in outs and source in whole else None
    if moving.joins is None:
        return None
    before = out.aval.shape[: moving.joins(**eqn.params)]
    if prod(before) != 1 or any(a.aval.dtype != out.aval.dtype for a in eqn.invars):
        return None
    found: list[Any] = []
    for a in eqn.invars:
        source = sources.get(a, a)
        found.append(source if source in whole and source not in found else a)
    parts = [a for a in found if type(a) is Var and a in whole]
    pays = sum(map(_bytes, parts)) >= SHARE * _bytes(out) and len(found) - len(parts) <= OTHERS
    return found if pays else None


def _bytes(v: Any) -> int:
    return int(v.aval.size * v.aval.dtype.itemsize)

"""What an equation does: the questions that compilers and interpreters ask of its primitive's ways.

The answers depend on the equation's types and params, never on the primitive's name.
"""

from typing import Any, TypeVar

from ftrace.core.jaxpr import Eqn, Jaxpr, cached_on_jaxpr, subjaxprs
from ftrace.core.lower import (
    Branch,
    Call,
    Elementwise,
    Gufunc,
    GufuncCall,
    Iteration,
    Layout,
    Moving,
    Pointwise,
    Product,
)
from ftrace.core.primitive import Primitive

K = TypeVar("K")


def way(row: Primitive, kind: type[K]) -> K | None:
    """The way of a kind that a primitive has."""
    for found in row.ways:
        if type(found) is kind:
            return found
    return None


def called(eqn: Eqn) -> Jaxpr | None:
    """The jaxpr that an equation is a name for; it has the same types."""
    call = eqn.primitive.lower
    if not isinstance(call, Call):
        return None
    found: Jaxpr | None = call.jaxpr([a.aval for a in eqn.invars], **eqn.params)
    same = found is not None and found.out_avals == tuple(v.aval for v in eqn.outvars)
    return found if same else None


def loses(eqn: Eqn) -> str:
    """What is lost where a call is opened; "" where the equation is none."""
    call = eqn.primitive.lower
    return call.loses if isinstance(call, Call) else ""


def is_view(eqn: Eqn) -> bool:
    """Whether NumPy shows an operand's memory in another way, in place of a copy."""
    moving = way(eqn.primitive, Moving)
    return moving is not None and len(eqn.invars) == 1 and moving.reads in ("axes", "shifted")


def is_reshape(eqn: Eqn) -> bool:
    """Whether the result is the operand's memory in another shape."""
    moving = way(eqn.primitive, Moving)
    return moving is not None and moving.memory and moving.reads == "axes"


def is_joined(eqn: Eqn) -> bool:
    """Whether the result is the operands' memory, one behind the other."""
    moving = way(eqn.primitive, Moving)
    return moving is not None and moving.memory and moving.reads == "choice"


def keeps(eqn: Eqn) -> bool:
    """Whether evaluation may hand operands to a function of the user's, which may keep them."""
    row = eqn.primitive
    return not row.own or row.host is not None or any(True for _ in subjaxprs(eqn.params))


def element(eqn: Eqn) -> Jaxpr | None:
    """The jaxpr over numbers that computes an element of each result."""
    each = way(eqn.primitive, Elementwise)
    if each is None:
        return None
    found: Jaxpr | None = each.jaxpr([a.aval for a in eqn.invars], **eqn.params)
    return found


def branches(eqn: Eqn) -> tuple[Jaxpr, ...]:
    """The jaxprs of which operand 0 chooses one; none where the equation is no branch."""
    branch = way(eqn.primitive, Branch)
    found: tuple[Jaxpr, ...] = () if branch is None else tuple(branch.jaxprs(**eqn.params))
    return found


def gufunc_call(eqn: Eqn) -> GufuncCall | None:
    """How a compiled loop of NumPy's computes the results; None where it does not."""
    other = way(eqn.primitive, Pointwise) or way(eqn.primitive, Product)
    loop = way(eqn.primitive, Gufunc) if other is None else other.loop
    found: Any = None if loop is None else loop.call([a.aval for a in eqn.invars], **eqn.params)
    return found


def layout(eqn: Eqn) -> Layout | None:
    """What a loop does and what its operands are; None where the equation is no loop."""
    loop = way(eqn.primitive, Iteration)
    found: Any = None if loop is None else loop.layout(len(eqn.invars), **eqn.params)
    return found


@cached_on_jaxpr
def has_loops(jaxpr: Jaxpr) -> bool:
    """Whether a loop is in a jaxpr, or in one that it holds."""
    return any(
        layout(e) is not None or any(has_loops(j) for _, j in subjaxprs(e.params))
        for e in jaxpr.eqns
    )

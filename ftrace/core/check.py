"""The type checker of jaxprs: the executable specification of the IR.

A jaxpr is well formed when every operand is bound before it is read, nothing is bound twice, each
equation's type rule gives exactly the avals of its binders, literals are scalars, and every
sub-jaxpr is well formed. `check_jaxpr` raises `JaxprError`, which is always a bug of ftrace or
of a user's own primitive. The tests run with it switched on everywhere.
"""

from typing import Any

import numpy as np

from ftrace.core import avals
from ftrace.core.device import is_array
from ftrace.core.errors import JaxprError
from ftrace.core.jaxpr import Eqn, Jaxpr, Literal, Var, subjaxprs


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise `JaxprError` unless the jaxpr is well formed."""
    bound: set[Var] = set()
    for v in (*jaxpr.constvars, *jaxpr.invars):
        _bind(bound, v, "an input")
    for v, value in zip(jaxpr.constvars, jaxpr.consts, strict=True):
        if avals.typeof(value) != v.aval:
            raise JaxprError(f"constant of type {avals.typeof(value)} is bound as {v.aval}.")
    for eqn in jaxpr.eqns:
        _check_equation(eqn, bound)
    for a in jaxpr.outvars:
        _check_atom(a, bound, "the result")


def _bind(bound: set[Var], v: Var, where: str) -> None:
    if v in bound:
        raise JaxprError(f"{where} binds a variable of type {v.aval} twice.")
    bound.add(v)


def _check_atom(a: Any, bound: set[Var], where: str) -> None:
    if isinstance(a, Literal):
        if is_array(a.value) or np.ndim(a.value):
            raise JaxprError(f"{where} has a literal that is not a scalar: {a.aval}.")
    elif a not in bound:
        raise JaxprError(f"{where} reads a variable of type {a.aval} before it is bound.")


def _check_equation(eqn: Eqn, bound: set[Var]) -> None:
    name = eqn.primitive.name
    for a in eqn.invars:
        _check_atom(a, bound, name)
    for key, inner in subjaxprs(eqn.params):
        try:
            check_jaxpr(inner)
        except JaxprError as error:
            raise JaxprError(f"in {name}[{key}]: {error.what}") from error
    result = eqn.primitive.type(*(a.aval for a in eqn.invars), **eqn.params)
    expected = tuple(result) if eqn.primitive.multiple else (result,)
    actual = tuple(v.aval for v in eqn.outvars)
    if expected != actual:
        raise JaxprError(f"{name}: its type rule gives {expected}, its binders are {actual}.")
    for v in eqn.outvars:
        _bind(bound, v, name)

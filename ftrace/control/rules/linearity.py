"""Whether a backward rule is linear, and not merely affine.

Transposing finds out that a rule multiplies two cotangents, not that it adds something to one: the
transpose of `ct + noise` would silently be that of `ct`. So each value of the rule's jaxpr is
known, zero or linear here, and a linear one may not meet a known one where a row is linear in
both together. Loops are not looked into.
"""

from typing import Any, Final

import numpy as np

from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import CustomRuleError
from ftrace.core.jaxpr import Eqn, Jaxpr, cached_on_jaxpr
from ftrace.core.primitive import LINEAR
from ftrace.core.trace import Tracer
from ftrace.interpreters.abstract import AbstractInterpreter

KNOWN: Final = "known"
ZERO_VALUE: Final = "zero"
DEPENDENT: Final = "linear"


@cached_on_jaxpr
def check_linear(
    jaxpr: Jaxpr,
    linear: tuple[bool, ...],
    demand: str = "Forward mode through a custom_vjp needs a backward rule that is traceable and",
) -> None:
    """Raise `CustomRuleError` unless what depends on the `linear` inputs does so linearly.

    `demand` is the beginning of the message, up to "linear in".
    """
    what = "cotangents" if "backward" in demand else "tangents"
    try:
        _check(jaxpr, linear)
    except _NotLinearError as error:
        raise CustomRuleError(
            f"{demand} linear in the {what}, and this one is not: {error}.",
            "Give the function a custom_jvp rule, or differentiate it in reverse mode only, and "
            "outside of ftrace.vectorize, which multiplies by partial derivatives.",
        ) from None


def _check(jaxpr: Jaxpr, linear: tuple[bool, ...]) -> None:
    found = _Linearity().jaxpr(jaxpr, [DEPENDENT if f else KNOWN for f in linear])
    for kind, aval in zip(found, jaxpr.out_avals, strict=True):
        if kind == KNOWN and is_inexact(aval.dtype):
            raise _not_linear(f"it returns {aval} that does not depend on the cotangent")


class _NotLinearError(Exception):
    """Why a jaxpr is not linear."""


def _not_linear(why: str) -> _NotLinearError:
    return _NotLinearError(why)


class _Linearity(AbstractInterpreter[str]):
    """Says of each value whether it is known, zero or linear."""

    def constant(self, value: Any) -> str:
        return KNOWN if isinstance(value, Tracer) or np.any(value) else ZERO_VALUE

    def equation(self, eqn: Eqn, operands: list[str], place: Any) -> list[str]:
        row = eqn.primitive
        together = _summands(eqn, operands)
        if DEPENDENT in together and KNOWN in together:
            raise _not_linear(f"{row.name} adds to a cotangent what does not depend on it")
        if DEPENDENT in operands:
            return [DEPENDENT] * len(eqn.outvars)
        alone = row.linear_in if row.bilinear or len(row.linear_in) == 1 else ()
        zero = any(operands[i] == ZERO_VALUE for i in alone)
        zero = zero or (ZERO_VALUE in together and KNOWN not in together)
        return [ZERO_VALUE if zero else KNOWN] * len(eqn.outvars)

    def chosen(self, index: str, results: tuple[str, ...]) -> str:
        if DEPENDENT in results and KNOWN in results:
            raise _not_linear("a branch of cond returns what does not depend on the cotangent")
        return next((k for k in (DEPENDENT, KNOWN) if k in results), ZERO_VALUE)


def _summands(eqn: Eqn, kinds: list[str]) -> list[str]:
    """What the operands are in which the row is linear together."""
    row = eqn.primitive
    if row.jvp == LINEAR:
        pairs = zip(eqn.invars, kinds, strict=True)
        return [k for a, k in pairs if is_inexact(a.aval.dtype)]
    return [] if row.bilinear else [kinds[i] for i in row.linear_in]

"""Users' rules as functions of flat values: staged when needed, batched, with static flags.

A rule is a Python function while a program runs eagerly and a jaxpr once it is staged. Keywords
are static: which tangents or cotangents are there (`active`, `live`), one jaxpr for each choice.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ftrace.control.rows.gating import gated, is_gated
from ftrace.control.rows.raising import refuse_caught
from ftrace.control.rules.linearity import check_linear
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.errors import CustomRuleError
from ftrace.core.jaxpr import Eqn, Jaxpr, JaxprFun, Var, eval_jaxpr
from ftrace.core.lower import Call
from ftrace.core.primitive import NO_EFFECTS, RAISES, Effects, Linear
from ftrace.core.trace import EVAL, run
from ftrace.core.zero import ZERO
from ftrace.interpreters.batching import Axis, Dim, batch_flat, place_axis
from ftrace.interpreters.captures import owned
from ftrace.interpreters.jvp import jvp_flat
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.interpreters.transpose import pull_jaxpr

Flat = Callable[..., Any]
Avals = Callable[..., Sequence[ShapedArray]]


def staged(fn: Flat, avals: Sequence[ShapedArray], **static: Any) -> JaxprFun:
    """A function of flat values as a jaxpr; one that captured tracers is refused."""
    if isinstance(fn, JaxprFun):
        return fn
    if isinstance(fn, LazyFun):
        return fn.traced(**static)
    jaxpr, captured = trace_to_jaxpr(partial(fn, **static), avals)
    if captured:
        raise CustomRuleError(
            f"A function with a custom rule closes over {captured[0]!r}, a traced value, through "
            "a global or an attribute.",
            "Pass it as an argument, so that the rule can say what its derivative is.",
        )
    if RAISES in jaxpr.effects:
        refuse_caught("An error that traced values decide about")
    return JaxprFun(jaxpr)


class LazyFun:
    """A rule of a staged call: traced when it is first needed.

    A rule may well call the very function it belongs to, so tracing it on sight would not end.
    """

    __slots__ = ("_avals", "_fn", "_traced")

    def __init__(self, fn: Flat, avals: Avals) -> None:
        self._fn = fn
        self._avals = avals
        self._traced: dict[Any, JaxprFun] = {}

    def traced(self, **static: Any) -> JaxprFun:
        """The rule as a jaxpr."""
        key = tuple(static.items())
        found = self._traced.get(key)
        if found is None:
            fn = partial(staged, self._fn, self._avals(**static), **static)
            found = self._traced[key] = run(EVAL, fn)
        return found

    def __call__(self, *args: Any, **static: Any) -> list[Any]:
        return self.traced(**static)(*args)


def lazy(fn: Flat, avals: Avals) -> Flat:
    """A rule of a staged call."""
    return fn if isinstance(fn, LazyFun | JaxprFun) else LazyFun(fn, avals)


def batched(fn: Flat, axis: Axis, dims: Callable[..., Sequence[Dim]]) -> Flat:
    """`fn` over mapped operands, every result mapped at axis 0."""

    def over_axis(*args: Any, **static: Any) -> list[Any]:
        ys, ds = batch_flat(partial(fn, **static), axis, args, dims(**static))
        return [place_axis(y, d, axis, 0) for y, d in zip(ys, ds, strict=True)]

    return over_axis


def at_front(axis: Axis, values: Sequence[Any], dims: Sequence[Dim]) -> tuple[list[Any], list[Dim]]:
    """Operands whose mapped axis is axis 0."""
    placed = [
        v if d is None else place_axis(v, d, axis, 0) for v, d in zip(values, dims, strict=True)
    ]
    return placed, [None if d is None else 0 for d in dims]


class Closed(NamedTuple):
    """What a function with rules closes over: leading operands of its call.

    Attributes:
        name: the function's.
        strict: how many of them the function itself reaches; no rule knows their derivative.
        total: how many there are, those that only rules read included.
    """

    name: str
    strict: int
    total: int

    def check(self, fun: Flat, primals: Sequence[Any], tangents: Sequence[Any]) -> None:
        """Raise `CustomRuleError` where the value depends on a captured value's tangent."""
        captured = tangents[: self.strict]
        if all(t is ZERO for t in captured):
            return
        others = [ZERO] * (len(tangents) - self.strict)
        if any(t is not ZERO for t in jvp_flat(fun, primals, [*captured, *others])[1]):
            raise CustomRuleError(
                f"{self.name}, a function with a custom rule, closes over a traced value that is "
                "being differentiated.",
                "Pass it as an argument, so that the rule can say what its derivative is, or stop "
                "its derivative with ftrace.stop_gradient.",
            )


NOTHING = Closed("", 0, 0)


# -------------------------------------------------------------------- columns of rows that hold fun


def fun_type(*avals: ShapedArray, fun: Any, **params: Any) -> Any:
    """The result types of a call."""
    return staged(fun, avals).jaxpr.out_avals


def fun_effects(*, fun: Any, **params: Any) -> Effects:
    """The effects of a call."""
    return fun.jaxpr.effects if isinstance(fun, JaxprFun) else NO_EFFECTS


def fun_transpose(cts: Any, *operands: Any, fun: Any, **params: Any) -> list[Any]:
    """Applied to tangents the function is linear, and so is its jaxpr."""
    linear = tuple(type(x) is Linear for x in operands)
    jaxpr = staged(fun, [x.aval if type(x) is Linear else typeof(x) for x in operands]).jaxpr
    check_linear(jaxpr, linear, "A function with a custom rule, applied to tangents, must be")
    known = [None if f else x for x, f in zip(operands, linear, strict=True)]
    found = iter(pull_jaxpr(jaxpr, known, linear, cts))
    return [next(found) if f else None for f in linear]


def _fun_jaxpr(avals: Sequence[ShapedArray], *, fun: Flat, **params: Any) -> Jaxpr | None:
    return fun.jaxpr if isinstance(fun, JaxprFun) else None


FUN: Final = Call(_fun_jaxpr, "rule")  # the `lower` of calls of a function with a user's rule


def fun_impl(*args: Any, fun: Flat, **params: Any) -> list[Any]:
    """The function itself."""
    return owned(fun(*args), args)


# ---------------------------------------------------------------- in arms that members do not take


def gated_call(e: Eqn, active: Var, **rules: Any) -> list[Eqn] | None:
    """The `gate` of a row that holds fun: it has `active` among what the function closes over.

    Args:
        e, active: these.
        rules: the params of such a call: its rules get the boolean in front of their operands.
    """
    fun = e.params["fun"]
    if not (isinstance(fun, JaxprFun) and is_gated(fun.jaxpr)):
        return None
    params = {**e.params, "fun": JaxprFun(gated(fun.jaxpr)), **rules}
    return [Eqn(e.primitive, [active, *e.invars], params, e.outvars, e.source)]


def with_flag(e: Eqn) -> Closed:
    """What a call closes over, and the boolean."""
    name, strict, total = e.params.get("closed", NOTHING)
    return Closed(name, strict + 1, total + 1)


def evaluated(rule: Flat, on: Any, /, *args: Any, **static: Any) -> list[Any]:
    """What a rule gives for a member, of which `on` says whether it is active."""
    jaxpr = staged(rule, list(map(typeof, args)), **static).jaxpr
    return eval_jaxpr(gated(jaxpr), (on, *args))

"""Derivatives against numerical ones: forward and reverse mode, of any order, and of batches.

A derivative is tried along random directions, so that a check costs a few calls of the function
however many arguments it has; reverse mode by the dot-product test, <c, J t> = <J^T c, t>.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ftrace.api.calls import brief
from ftrace.api.derivatives.autodiff import jvp, vjp
from ftrace.api.derivatives.numerical import (
    Comparison,
    Estimate,
    Function,
    Point,
    UnstableError,
    cotangent_like,
    dtype_of,
    floats,
    largest,
    leaves_of,
    like,
    product,
    random_like,
)
from ftrace.api.vmap import vmap
from ftrace.control.functions import flatten_call, name_of
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import DtypeError
from ftrace.core.records import record
from ftrace.core.source import warn
from ftrace.core.trace import EVAL, UNKNOWN, Tracer, ctx
from ftrace.core.tree import tree_flatten

MODES: Final = ("fwd", "rev")


class Check(Comparison):
    """Comparisons of derivatives of functions, and of rules."""

    def orders(
        self, f: Function, args: tuple[Any, ...], modes: Sequence[str], order: int, what: str
    ) -> None:
        """Compare up to an order: the derivative along a direction is a function, too."""
        point = Point.of(args)
        ts = point.direction(self.rng)
        if "fwd" in modes:
            self.forward(f, lambda p, t: jvp(f, p, t), args, what)
            if order > 1:

                def push(*a: Any) -> Any:
                    return jvp(f, a, point.args(like(ts, leaves_of(a))))[1]

                self.orders(push, args, modes, order - 1, f"the jvp of {what}")
        if "rev" in modes:
            self.reverse(f, lambda *a: vjp(f, *a), args, what)
            if order > 1:
                leaves, tree = tree_flatten(f(*args))
                cts = [cotangent_like(self.rng, y) for y in leaves]

                def pull(*a: Any) -> list[Any]:
                    result, pullback = vjp(f, *a)
                    return floats(pullback(tree.unflatten(like(cts, tree_flatten(result)[0]))))

                self.orders(pull, args, modes, order - 1, f"the vjp of {what}")

    def forward(self, f: Function, f_jvp: Function, args: tuple[Any, ...], what: str) -> None:
        """Compare a forward rule with differences."""
        point = Point.of(args)
        ts = point.direction(self.rng)
        primals, tangents = point.args(point.leaves), point.args(ts)
        result, pushed = f_jvp(primals, tangents)
        self.primals(f, primals, result, f"forward mode of {what}")
        found, _ = tree_flatten(pushed)
        expected = self.difference(f, point, ts)
        self.compare(found, expected, f"The jvp of {what}", result)

    def reverse(self, f: Function, f_vjp: Function, args: tuple[Any, ...], what: str) -> None:
        """Compare a reverse rule with differences, by the dot-product test."""
        point = Point.of(args)
        ts = point.direction(self.rng)
        primals = point.args(point.leaves)
        result, pull = f_vjp(*primals)
        self.primals(f, primals, result, f"reverse mode of {what}")
        leaves, tree = tree_flatten(result)
        cts = [cotangent_like(self.rng, y) for y in leaves]
        pulled = leaves_of(tuple(pull(tree.unflatten(cts))))
        numerical = self.difference(f, point, ts)
        live = [c for c in cts if c is not None]
        expected = product(live, numerical.leaves)
        moving = [t for t in ts if t is not None]
        found = product([g for g in pulled if is_inexact(dtype_of(g))], moving)
        size = sum(
            float(np.sum(np.abs(c)) * largest([d]))
            for c, d in zip(live, numerical.leaves, strict=True)
        )
        estimate = Estimate([np.asarray(expected)], numerical.error * max(1.0, size))
        self.compare([np.asarray(found)], estimate, f"The vjp of {what}", result)

    def batch(self, f: Function, args: tuple[Any, ...], what: str) -> None:
        """Compare a derivative of a batch with that of its elements."""
        point = Point.of(args)
        ts = point.direction(self.rng)
        tangents = [None if t is None else np.stack([t, np.multiply(t, -0.5)]) for t in ts]
        moving = [t for t in tangents if t is not None]

        def push(*live: Any) -> Any:
            supply = iter(live)
            full = [None if t is None else next(supply) for t in ts]
            return tree_flatten(jvp(f, point.args(point.leaves), point.args(full))[1])[0]

        found = vmap(push)(*moving)
        for i in range(2):
            each = push(*(t[i] for t in moving))
            self.compare(
                [y[i] for y in found], Estimate(each, 0.0), f"The mapped jvp of {what}", each
            )


# --- rules that verify themselves


@record
class Certificate:
    """That a rule was compared with numerical derivatives, and agreed.

    Attributes:
        types: of the arguments.
        modes: of differentiation.
        drawn: whether the arguments were random numbers, as in a trace whose values are unknown.
    """

    types: tuple[ShapedArray, ...]
    modes: tuple[str, ...]
    drawn: bool


class Verified:
    """What compares a function's rule with numerical derivatives at its first call.

    Args:
        verify: "first_call": at the first call with arguments of each combination of types.

    Raises:
        DtypeError: another `verify`.
    """

    def __init__(self, verify: str) -> None:
        if verify != "first_call":
            raise DtypeError(
                f"verify must be None or 'first_call', not {brief(verify)}.",
                "With 'first_call' the rule is compared with numerical derivatives once for each"
                " combination of types.",
            )
        self.certificates: dict[tuple[ShapedArray, ...], Certificate] = {}
        self._at_work = False  # then the rule itself is called

    def __call__(self, rule: Any, args: tuple[Any, ...]) -> None:
        """Verify a rule where that has not been done for arguments of these types.

        Args:
            rule: the function with its rule; `modes` are those of differentiation that it has,
                `nondiff` the positions of arguments that stay.
            args: of this call.

        Raises:
            DerivativeError: the rule is wrong.
        """
        fixed = {i % len(args) for i in rule.nondiff}
        what = name_of(rule.fun)
        leaves, tree = flatten_call(tuple(a for i, a in enumerate(args) if i not in fixed))
        types = tuple(strengthen(typeof(x)) for x in leaves)
        if self._at_work or types in self.certificates:
            return
        values = [x.known(exact=False) if isinstance(x, Tracer) else x for x in leaves]
        drawn = any(v is UNKNOWN for v in values)

        def called(*moving: Any) -> Any:
            supply = iter(moving)
            return rule(*(a if i in fixed else next(supply) for i, a in enumerate(args)))

        before, ctx.trace, self._at_work = ctx.trace, EVAL, True
        told = False
        try:
            for draw in DRAWS if drawn else DRAWS[:1]:
                rng = np.random.default_rng(0)
                pairs = zip(values, types, strict=True)
                point = [draw(rng, a) if v is UNKNOWN else v for v, a in pairs]
                told = told or _tells(what, rule.modes, called, tree.unflatten(point)[0])
        finally:
            ctx.trace, self._at_work = before, False
        if told:
            self.certificates[types] = Certificate(types, rule.modes, drawn)
        else:
            warn(
                f"The rule of {what} could not be verified: numerical derivatives are unstable"
                " there. The next call tries again."
            )


def _tells(what: str, modes: Sequence[str], rule: Function, args: tuple[Any, ...]) -> bool:
    """Whether differences can tell at a point; then the rule agrees with them."""
    check = Check()
    try:
        with np.errstate(all="ignore"):
            if "fwd" in modes:
                check.forward(rule, lambda p, t: jvp(rule, p, t), args, what)
            if "rev" in modes:
                check.reverse(rule, lambda *a: vjp(rule, *a), args, what)
    except UnstableError:
        return False
    return True


def _normal(rng: np.random.Generator, a: ShapedArray) -> Any:
    return random_like(rng, np.empty(a.shape, a.dtype))


def _positive(rng: np.random.Generator, a: ShapedArray) -> Any:
    return np.abs(_normal(rng, a)) + np.ones((), a.dtype)


DRAWS: Final = (
    _normal,
    _positive,
)  # where values are not known; a function may want positive ones

"""What a call of a function with a user's rule is made of: its flat functions, and their checks.

Rules are written by hand, so what they return is compared with what it must be, and the error
points at the rule: its structure, shapes and dtypes. `custom.py` has the public classes.
"""

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ftrace.api.calls import name_of, positions
from ftrace.control.closures import Closure
from ftrace.control.drawing import Draws
from ftrace.control.functions import (
    argument_avals,
    argument_name,
    flatten_call,
    frozen,
    result_avals,
)
from ftrace.control.rules.flat_rules import Closed
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.device import on_device
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import CustomRuleError, FtraceError, MutationError
from ftrace.core.source import PACKAGE, Location
from ftrace.core.trace import Tracer, attempting, ctx, lifted, numbers
from ftrace.core.tree import PyTreeDef, paths, tree_flatten, tree_mismatch, tree_words
from ftrace.core.zero import SymbolicZero
from ftrace.interpreters.staging import trace_to_jaxpr
from ftrace.interpreters.tangents import zeros
from ftrace.primitives.convert import convert_element_type


def positional_arguments(
    fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """All arguments of a call by position, defaults included."""
    if isinstance(fun, np.ufunc | types.BuiltinFunctionType):  # their defaults are not arrays
        return args
    bound = inspect.signature(fun).bind(*args, **kwargs)
    bound.apply_defaults()
    named = sorted(kwargs.keys() & bound.kwargs.keys())
    if named:
        raise CustomRuleError(
            f"{name_of(fun)}, a function with a custom rule, was given the keyword-only arguments "
            f"{named}.",
            "Rules know arguments by position: make them ordinary parameters.",
        )
    return bound.args


def called(fn: Callable[..., Any], *args: Any) -> Any:
    """A user's function on values it cannot write; NumPy's complaint becomes ours."""
    try:
        return lifted(fn)(*args)
    except ValueError as error:
        if isinstance(error, FtraceError) or "read-only" not in str(error):
            raise
        raise MutationError(
            f"{name_of(fn)}, which belongs to a function with a custom rule, wrote one of its "
            "arguments.",
            "Write to a copy (`x = x.copy()`), or say that the function writes it: "
            "custom_jvp(f, mutates=...).",
        ) from error


def _under(lift: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function as lifted code calls it, for later."""

    @functools.wraps(fn, updated=())
    def under(*args: Any) -> Any:
        before, ctx.lift = ctx.lift, lift
        try:
            return lift(fn)(*args)
        finally:
            ctx.lift = before

    return under


class Opened(NamedTuple):
    """A call's functions over the values they close over, and its arguments' leaves."""

    fun: Any
    nondiff: tuple[Any, ...]
    rules: tuple[Any, ...]
    leaves: list[Any]


class RuleCall:
    """One call of a function with rules, as functions of flat values.

    Its operands are what the function and its rules close over, then the differentiable leaves.
    """

    __slots__ = (
        *("_closure", "_lift", "_slots", "closed", "fun", "leaves", "out_tree", "result", "tree"),
    )

    def __init__(
        self, fun: Any, args: tuple[Any, ...], nondiff: tuple[int, ...], rules: Sequence[Any] = ()
    ) -> None:
        self._slots = positions("nondiff_argnums", fun, nondiff, len(args)) if nondiff else ()
        fixed = [args[i] for i in self._slots]
        dynamic = tuple(a for i, a in enumerate(args) if i not in self._slots)
        self.leaves, self.tree = flatten_call(dynamic)
        argument_avals(fun, self.leaves, self.tree, self._slots)
        self.fun = fun
        self._lift = ctx.lift  # rules run when somebody differentiates, perhaps after lifted code
        self._closure = Closure((fun, *fixed, *rules))
        total = len(self._closure.values)
        strict = len(Closure((fun, *fixed)).values) if total else 0
        self.closed = Closed(name_of(fun), strict, total)
        self.out_tree: Any = None
        self.result: Any = None  # structure and types of what the function itself returned

    @property
    def operands(self) -> list[Any]:
        """What the row is bound to."""
        return [*self._closure.values, *self.leaves]

    def params(self, **params: Any) -> dict[str, Any]:
        """A row's params, with what is closed over where there is something."""
        return {**params, "closed": self.closed} if self.closed.total else params

    def open(self, values: Sequence[Any]) -> Opened:
        """The functions and leaves for these operands, which they cannot write."""
        n, m = self.closed.total, len(self._slots)
        values = [frozen(x) for x in values]
        fun, *others = self._closure.bind(values[:n])
        rules = others[m:]
        if self._lift is not None:
            fun, *rules = (f and _under(self._lift, f) for f in (fun, *rules))
        return Opened(fun, tuple(others[:m]), tuple(rules), values[n:])

    def positions(self) -> list[int]:
        """The positions of the dynamic arguments."""
        total = len(self._slots) + len(self.tree.children()[0].children())
        return [i for i in range(total) if i not in self._slots]

    def merge(self, nondiff: Sequence[Any], dynamic: Sequence[Any]) -> list[Any]:
        """All positional arguments from those that are not differentiated and the dynamic ones."""
        fixed, supply = dict(zip(self._slots, nondiff, strict=True)), iter(dynamic)
        total = len(fixed) + len(dynamic)
        return [fixed[i] if i in fixed else next(supply) for i in range(total)]

    def run(self, *operands: Any) -> list[Any]:
        """The function on flat values that it cannot write."""
        opened = self.open(operands)
        arguments = self.merge(opened.nondiff, self.arguments(opened.leaves))
        outs, self.out_tree = tree_flatten(called(opened.fun, *arguments))
        avals = result_avals(self.fun, outs, self.out_tree)
        self.result = self.out_tree, [strengthen(a) for a in avals]
        return outs

    def check_result(self, what: str, rule: Any, ys: Sequence[Any], tree: PyTreeDef) -> None:
        """Raise `CustomRuleError` if a rule's result is known to differ from the function's."""
        words = self._difference(ys, tree)
        if words:
            raise CustomRuleError(
                f"{what} returned a result that differs from the function's own {words}.",
                "A rule returns the function's value beside the derivative.",
                place=home(rule),
            )

    def _difference(self, ys: Sequence[Any], tree: PyTreeDef) -> str:
        """What differs between a result and the function's, as far as that is known."""
        if self.result is None:
            return ""
        expected, avals = self.result
        words = tree_mismatch(expected, tree, "result")
        for y, a, path in zip(ys, avals, paths(expected, "result"), strict=not words):
            got = strengthen(typeof(y))
            words = words or ("" if got == a else f"at {path}: expected {a}, got {got}")
        return words

    def expect(self, table: dict[Any, Any], answer: Any) -> None:
        """Find out what the function returns, where it does not run, unless it is known.

        Args:
            table: what is known from other calls of the function.
            answer: what a rule returned: if it fits what is known, nothing is done.
        """
        if self.result is not None or not isinstance(answer, tuple | list) or not answer:
            return
        operands = self.operands
        avals = [typeof(x) for x in operands]
        key = self.tree, self.closed.total, *avals
        if key in table:
            self.result = table[key]
            if not self._difference(*tree_flatten(answer[0])):
                return
        draws = Draws([self.fun])
        try:
            with attempting():
                trace_to_jaxpr(self.run, avals, values=operands)
        except Exception:  # whatever an opaque function says to a tracer
            self.result = None
        draws.restore()
        if len(table) >= _MOST:
            table.clear()
        table[key] = self.result

    def arguments(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The dynamic arguments with these leaves."""
        return self.tree.unflatten(leaves)[0]


def home(rule: Any) -> Location | None:
    """Where a rule is written, unless ftrace wrote it."""
    code = getattr(rule, "__code__", None)
    if code is None or code.co_filename.startswith(PACKAGE):
        return None
    return (code, 0)


def _pair(what: str, rule: Any, answer: Any, second: str) -> tuple[Any, Any]:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        words = tree_words(tree_flatten(answer)[1])
        raise CustomRuleError(
            f"{what} returned {words}, not a pair.",
            f"Return (result, {second}).",
            place=home(rule),
        )
    return answer[0], answer[1]


_MOST: Final = 100  # types of arguments for which results are known


class CustomVJPPrimal(NamedTuple):
    """An argument as a `fwd` rule sees it that asked for symbolic zeros.

    Attributes:
        value: the argument.
        perturbed: whether it is being differentiated.
    """

    value: Any
    perturbed: bool


def _nothing(x: Any) -> bool:
    """What a rule may return for "no contribution"."""
    return x is None or isinstance(x, SymbolicZero)


def checked_pair(
    what: str, rule: Any, call: RuleCall, answer: Any, given_tangents: Sequence[Any]
) -> list[Any]:
    """The flat result and tangent that a jvp rule returned for these tangents."""
    result, tangent = _pair(what, rule, answer, "tangent")
    ys, tree = tree_flatten(result)
    ts, given = tree_flatten(tangent)
    if given != tree:  # None is "no contribution", unless the result is None there, too
        ts, given = tree_flatten(tangent, _nothing)
    if given != tree:
        raise CustomRuleError(
            f"{what} returned a tangent that differs from its result "
            f"{tree_mismatch(tree, given, 'tangent')}.",
            "The tangent has the structure of the result.",
            place=home(rule),
        )
    call.check_result(what, rule, ys, tree)
    if any(isinstance(t, Tracer) for t in given_tangents):
        _check_linear(what, rule, ts)
    call.out_tree = tree
    names = [f"the tangent of {path}" for path in paths(tree, "result")]
    triples = zip(ts, ys, names, strict=True)
    return [*ys, *(_fit((what, rule), t, typeof(y), name) for t, y, name in triples)]


def _check_linear(what: str, rule: Any, tangents: Sequence[Any]) -> None:
    """Raise if one is a number, whatever the tangents of the arguments are: it has no transpose."""
    for t in tangents:
        if not (_nothing(t) or isinstance(t, Tracer) or on_device(t)) and np.any(t):
            raise CustomRuleError(
                f"{what} returned a tangent that does not depend on those that it got: "
                f"{numbers(t)}.",
                "Return the derivative times the tangent (`return y, 2 * x * x_dot`).",
                place=home(rule),
            )


def _fit(origin: tuple[str, Any], value: Any, a: ShapedArray, name: str) -> Any:
    """A tangent or cotangent that a rule returned, at the type it must have."""
    if _nothing(value):
        return zeros(a)
    given = typeof(value)
    if given.shape == a.shape and given.dtype == a.dtype and not given.weak:
        return value
    weak = given.weak and (given.dtype.kind != "c" or a.dtype.kind == "c")
    convertible = weak or (given.dtype.kind in "biu" and is_inexact(a.dtype))
    if given.shape != a.shape or not (convertible or given.dtype == a.dtype):
        raise CustomRuleError(
            f"{origin[0]} returned {given} as {name}, which is {a}.",
            "Tangents and cotangents have the shape and dtype of their primals.",
            place=home(origin[1]),
        )
    return convert_element_type(value, new_dtype=a.dtype)


class JvpRule:
    """The rule of one call of a `custom_jvp` as a function of flat values.

    `active` says which operands have a tangent, where the rule is shown symbolic zeros.
    """

    __slots__ = ("_results", "call", "fun")

    def __init__(self, fun: Any, call: RuleCall, results: dict[Any, Any]) -> None:
        self.fun, self.call, self._results = fun, call, results

    def __call__(self, *flat: Any, active: tuple[bool, ...] | None = None) -> list[Any]:
        """Results and their tangents, from operands and the tangents that are there."""
        call = self.call
        n = len(call.operands)
        opened = call.open(flat[:n])
        supply = iter([frozen(t) for t in flat[n:]])
        there = active or (True,) * n
        tangents = [
            next(supply) if on else SymbolicZero(strengthen(typeof(x)))
            for on, x in zip(there, flat, strict=False)
        ][call.closed.total :]
        (rule,) = opened.rules
        shown = call.arguments(opened.leaves), call.arguments(tangents)
        answer = called(rule, *opened.nondiff, *shown)
        what = f"The jvp rule of {name_of(self.fun)}"
        call.expect(self._results, answer)
        return checked_pair(what, rule, call, answer, tangents)


class VjpRules:
    """The rules of one call of a `custom_vjp` as functions of flat values.

    `active` says which leaves have a tangent, `live` which results have a cotangent, where the
    rules are shown symbolic zeros.
    """

    __slots__ = ("avals", "call", "out_avals", "owner", "residual_trees")

    def __init__(self, owner: Any, call: RuleCall) -> None:
        self.owner, self.call = owner, call
        self.residual_trees: dict[Any, PyTreeDef] = {}
        self.avals = [typeof(x) for x in call.leaves]
        self.out_avals: list[ShapedArray] = []

    def count(self) -> int:
        """How many results there are."""
        return self.call.out_tree.num_leaves

    def forward(self, *operands: Any, active: tuple[bool, ...] | None = None) -> list[Any]:
        """`fwd`: results, then what the rules close over, the leaves if needed, residuals."""
        call, name = self.call, name_of(self.owner.fun)
        opened = call.open(operands)
        shown = opened.leaves
        if active is not None:
            shown = [CustomVJPPrimal(x, a) for x, a in zip(shown, active, strict=True)]
        fwd = opened.rules[0]
        answer = called(fwd, *call.merge(opened.nondiff, call.arguments(shown)))
        what = f"The fwd rule of {name}"
        result, kept = _pair(what, fwd, answer, "residuals")
        ys, tree = tree_flatten(result)
        call.expect(self.owner.results, answer)
        call.check_result(what, fwd, ys, tree)
        call.out_tree, self.out_avals = tree, [strengthen(typeof(y)) for y in ys]
        residuals, self.residual_trees[active] = tree_flatten(kept)
        result_avals(self.owner.fun, residuals, self.residual_trees[active], "residuals")
        return [*ys, *operands[: call.closed.total + self._n_kept], *residuals]

    @property
    def _n_kept(self) -> int:
        """How many leaves are residuals for the forward rule."""
        return 0 if self.owner.push is None else len(self.call.leaves)

    def forward_tangents(self, *flat: Any, active: tuple[bool, ...]) -> list[Any]:
        """The forward rule beside `bwd`: tangents of the results, from residuals and tangents."""
        call = self.call
        n = call.closed.total + self._n_kept
        opened = call.open(flat[:n])
        live = iter(flat[len(flat) - sum(active) :])
        ts = [
            frozen(next(live)) if on else zeros(a) for on, a in zip(active, self.avals, strict=True)
        ]
        rule = opened.rules[2]
        primals, tangents = call.arguments(opened.leaves), call.arguments(ts)
        answer = called(rule, *opened.nondiff, primals, tangents)
        what = f"The jvp rule of {name_of(self.owner.fun)}"
        found = checked_pair(what, rule, call, answer, ts)
        return found[len(found) // 2 :]

    def backward(
        self,
        *flat: Any,
        active: tuple[bool, ...] | None = None,
        live: tuple[bool, ...] | None = None,
    ) -> list[Any]:
        """`bwd`: cotangents of all differentiable leaves, from residuals and cotangents."""
        call, tree = self.call, self.residual_trees[active]
        n = call.closed.total
        start = n + self._n_kept
        opened = call.open([*flat[:n], *flat[start:]])
        residuals, cts = opened.leaves[: tree.num_leaves], opened.leaves[tree.num_leaves :]
        if live is not None:
            supply = iter(cts)
            pairs = zip(live, self.out_avals, strict=True)
            cts = [next(supply) if on else SymbolicZero(a) for on, a in pairs]
        bwd = opened.rules[1]
        shown = tree.unflatten(residuals), call.out_tree.unflatten(cts)
        answer = called(bwd, *opened.nondiff, *shown)
        return self._checked(bwd, answer)

    def _checked(self, bwd: Any, answer: Any) -> list[Any]:
        """The flat cotangents that a bwd rule returned."""
        call, fun = self.call, self.owner.fun
        expected = call.tree.children()[0]
        names = [argument_name(fun, i) for i in call.positions()]
        if not isinstance(answer, tuple | list) or len(answer) != len(names):
            raise CustomRuleError(
                f"The bwd rule of {name_of(fun)} returned {tree_words(tree_flatten(answer)[1])}, "
                f"not a tuple with one cotangent for each of ({', '.join(names)}).",
                "Return a tuple, also for one argument, with None for an argument that gets no "
                "contribution.",
                place=home(bwd),
            )
        found: list[Any] = []
        for part, tree, name in zip(answer, expected.children(), names, strict=True):
            found.extend(self._argument(bwd, part, tree, name, len(found)))
        return found

    def _argument(self, bwd: Any, part: Any, tree: PyTreeDef, name: str, start: int) -> list[Any]:
        what = f"The bwd rule of {name_of(self.owner.fun)}"
        avals = self.avals[start : start + tree.num_leaves]
        if part is None:
            return [zeros(a) for a in avals]
        leaves, given = tree_flatten(part, _nothing)
        if given != tree:
            raise CustomRuleError(
                f"{what} returned a cotangent that differs {tree_mismatch(tree, given, name)}.",
                "A cotangent has the structure of its argument.",
                place=home(bwd),
            )
        names = [f"the cotangent of {path}" for path in paths(tree, name)]
        triples = zip(leaves, avals, names, strict=True)
        return [_fit((what, bwd), c, a, n) for c, a, n in triples]

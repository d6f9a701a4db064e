"""What a call of a function with a user's rule is made of: its flat functions, and their checks.

Rules are written by hand, so what they return is compared with what it must be, and the error
points at the rule: its structure, shapes and dtypes. `custom.py` has the public classes.
"""

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.api.calls import name_of, positions
from ftrace.control.functions import (
    FlatFunction,
    argument_avals,
    argument_name,
    flatten_call,
    frozen,
    result_avals,
)
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import CustomRuleError, FtraceError, MutationError
from ftrace.core.source import Location
from ftrace.core.tree import PyTreeDef, paths, tree_flatten, tree_mismatch, tree_words
from ftrace.core.zero import SymbolicZero
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
        return fn(*args)
    except ValueError as error:
        if isinstance(error, FtraceError) or "read-only" not in str(error):
            raise
        raise MutationError(
            f"{name_of(fn)}, which belongs to a function with a custom rule, wrote one of its "
            "arguments.",
            "Write to a copy (`x = x.copy()`).",
        ) from error


class Call:
    """One call of a function with rules: its flat function of the differentiable leaves."""

    __slots__ = ("fixed", "flat", "leaves", "nondiff", "result", "tree")

    def __init__(self, fun: Any, args: tuple[Any, ...], nondiff: tuple[int, ...]) -> None:
        nondiff = positions("nondiff_argnums", fun, nondiff, len(args)) if nondiff else ()
        self.nondiff = [args[i] for i in nondiff]
        self.fixed = {i: args[i] for i in nondiff}
        dynamic = tuple(a for i, a in enumerate(args) if i not in self.fixed)
        self.leaves, self.tree = flatten_call(dynamic)
        argument_avals(fun, self.leaves, self.tree, nondiff)
        self.flat = FlatFunction(lambda *dyn: fun(*self.merge(dyn)), self.tree)
        self.result: Any = None  # structure and types of what the function itself returned

    def positions(self) -> list[int]:
        """The positions of the dynamic arguments."""
        total = len(self.fixed) + len(self.tree.children()[0].children())
        return [i for i in range(total) if i not in self.fixed]

    def merge(self, dynamic: Sequence[Any]) -> list[Any]:
        """All positional arguments from the dynamic ones."""
        supply = iter(dynamic)
        total = len(self.fixed) + len(dynamic)
        return [self.fixed[i] if i in self.fixed else next(supply) for i in range(total)]

    def run(self, *leaves: Any) -> list[Any]:
        """The function on flat values that it cannot write."""
        outs = called(self.flat, *map(frozen, leaves))
        self.result = self.flat.out_tree, [strengthen(typeof(y)) for y in outs]
        return outs

    def check_result(self, what: str, rule: Any, ys: Sequence[Any], tree: PyTreeDef) -> None:
        """Raise `CustomRuleError` if a rule's result is known to differ from the function's."""
        if self.result is None:
            return
        expected, avals = self.result
        words = tree_mismatch(expected, tree, "result")
        for y, a, path in zip(ys, avals, paths(expected, "result"), strict=not words):
            got = strengthen(typeof(y))
            words = words or ("" if got == a else f"at {path}: expected {a}, got {got}")
        if words:
            raise CustomRuleError(
                f"{what} returned a result that differs from the function's own {words}.",
                "A rule returns the function's value beside the derivative.",
                place=home(rule),
            )

    def arguments(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The dynamic arguments with these leaves."""
        return self.tree.unflatten(leaves)[0]


def home(rule: Any) -> Location | None:
    """Where a rule is written."""
    code = getattr(rule, "__code__", None)
    return None if code is None else (code, 0)


def _pair(what: str, rule: Any, answer: Any, second: str) -> tuple[Any, Any]:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        words = tree_words(tree_flatten(answer)[1])
        raise CustomRuleError(
            f"{what} returned {words}, not a pair.",
            f"Return (result, {second}).",
            place=home(rule),
        )
    return answer[0], answer[1]


def _nothing(x: Any) -> bool:
    """What a rule may return for "no contribution"."""
    return x is None or isinstance(x, SymbolicZero)


def checked_pair(what: str, rule: Any, call: Call, answer: Any) -> list[Any]:
    """The flat result and tangent that a jvp rule returned."""
    result, tangent = _pair(what, rule, answer, "tangent")
    ys, tree = tree_flatten(result)
    ts, given = tree_flatten(tangent, _nothing)
    if given != tree:
        raise CustomRuleError(
            f"{what} returned a tangent that differs from its result "
            f"{tree_mismatch(tree, given, 'tangent')}.",
            "The tangent has the structure of the result.",
            place=home(rule),
        )
    call.check_result(what, rule, ys, tree)
    call.flat.out_tree = tree
    names = [f"the tangent of {path}" for path in paths(tree, "result")]
    triples = zip(ts, ys, names, strict=True)
    return [*ys, *(_fit((what, rule), t, typeof(y), name) for t, y, name in triples)]


def _fit(origin: tuple[str, Any], value: Any, a: ShapedArray, name: str) -> Any:
    """A tangent or cotangent that a rule returned, at the type it must have."""
    if _nothing(value):
        return zeros(a)
    given = typeof(value)
    if given.shape == a.shape and given.dtype == a.dtype and not given.weak:
        return value
    convertible = given.weak or (given.dtype.kind in "biu" and is_inexact(a.dtype))
    if given.shape != a.shape or not (convertible or given.dtype == a.dtype):
        raise CustomRuleError(
            f"{origin[0]} returned {given} as {name}, which is {a}.",
            "Tangents and cotangents have the shape and dtype of their primals.",
            place=home(origin[1]),
        )
    return convert_element_type(value, new_dtype=a.dtype)


class VjpRules:
    """The rules of one call as functions of flat values."""

    __slots__ = ("avals", "call", "owner", "residual_tree")

    def __init__(self, owner: Any, call: Call) -> None:
        self.owner, self.call = owner, call
        self.residual_tree: Any = None
        self.avals = [typeof(x) for x in call.leaves]

    def count(self) -> int:
        """How many results there are."""
        return self.call.flat.out_tree.num_leaves

    def forward(self, *leaves: Any) -> list[Any]:
        """`fwd`: results, then residuals."""
        call, fun = self.call, self.owner.fun
        arguments = call.merge(call.arguments([frozen(x) for x in leaves]))
        answer = called(self.owner.fwd, *arguments)
        what = f"The fwd rule of {name_of(fun)}"
        result, kept = _pair(what, self.owner.fwd, answer, "residuals")
        ys, tree = tree_flatten(result)
        call.check_result(what, self.owner.fwd, ys, tree)
        call.flat.out_tree = tree
        residuals, self.residual_tree = tree_flatten(kept)
        result_avals(fun, residuals, self.residual_tree, "residuals")
        return [*ys, *residuals]

    def backward(self, *flat: Any) -> list[Any]:
        """`bwd`: cotangents of all differentiable leaves, from residuals and cotangents."""
        call, fun = self.call, self.owner.fun
        n = self.residual_tree.num_leaves
        values = [frozen(x) for x in flat]
        residuals = self.residual_tree.unflatten(values[:n])
        ct = call.flat.out_tree.unflatten(values[n:])
        answer = called(self.owner.bwd, *call.nondiff, residuals, ct)
        expected = call.tree.children()[0]
        names = [argument_name(fun, i) for i in call.positions()]
        if not isinstance(answer, tuple | list) or len(answer) != len(names):
            raise CustomRuleError(
                f"The bwd rule of {name_of(fun)} returned {tree_words(tree_flatten(answer)[1])}, "
                f"not a tuple with one cotangent for each of ({', '.join(names)}).",
                "Return a tuple, also for one argument, with None for an argument that gets no "
                "contribution.",
                place=home(self.owner.bwd),
            )
        found: list[Any] = []
        for part, tree, name in zip(answer, expected.children(), names, strict=True):
            found.extend(self._argument(part, tree, name, len(found)))
        return found

    def _argument(self, part: Any, tree: PyTreeDef, name: str, start: int) -> list[Any]:
        what = f"The bwd rule of {name_of(self.owner.fun)}"
        avals = self.avals[start : start + tree.num_leaves]
        if part is None:
            return [zeros(a) for a in avals]
        leaves, given = tree_flatten(part, _nothing)
        if given != tree:
            raise CustomRuleError(
                f"{what} returned a cotangent that differs {tree_mismatch(tree, given, name)}.",
                "A cotangent has the structure of its argument.",
                place=home(self.owner.bwd),
            )
        names = [f"the cotangent of {path}" for path in paths(tree, name)]
        triples = zip(leaves, avals, names, strict=True)
        return [_fit((what, self.owner.bwd), c, a, n) for c, a, n in triples]

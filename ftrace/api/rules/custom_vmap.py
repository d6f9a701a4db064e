"""`custom_vmap`: a function with a user's own batching rule."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from ftrace.api.calls import check_callable, name_of
from ftrace.api.rules.rules import RuleCall, called, home, positional_arguments
from ftrace.control.functions import result_avals
from ftrace.control.rules.batching_rule import custom_vmap_call
from ftrace.core.avals import typeof
from ftrace.core.errors import CustomRuleError, TreeError
from ftrace.core.naming import Named
from ftrace.core.tree import PyTreeDef, broadcast_prefix, paths, tree_flatten, tree_mismatch

P = ParamSpec("P")
R = TypeVar("R")


class custom_vmap(Named, Generic[P, R]):  # noqa: N801 - JAX's name
    """Give a function its own batching rule.

    Args:
        fun: function of arrays, or containers of arrays.

    The rule, set by `def_vmap`, takes `(axis_size, in_batched, *args)`: `in_batched` is a list
    with one entry per argument, a container of booleans that says which arrays are mapped; these
    have a new axis 0. It returns `(result, out_batched)` likewise; one boolean may stand for a
    whole container. Derivatives of the batched function are derivatives of the rule, forward and
    reverse; in a derivative the function runs twice.

    Raises:
        CustomRuleError: no rule, or one that returns the wrong structure or shapes; a value that
            the function closes over is mapped.

    Example:
        >>> import numpy as np, ftrace
        >>> @ftrace.custom_vmap
        ... def f(x):
        ...     return np.sum(x * x)
        >>> @f.def_vmap
        ... def rule(axis_size, in_batched, x):
        ...     return np.einsum("ij,ij->i", x, x), True
        >>> ftrace.vmap(ftrace.grad(f))(np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[2., 4.],
               [6., 8.]])
    """

    __closes_over__ = ("fun", "rule")

    def __init__(self, fun: Callable[P, R]) -> None:
        check_callable(fun, "custom_vmap")
        self.fun = fun
        self.rule: Any = None
        functools.update_wrapper(self, fun, updated=())

    def def_vmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule `(axis_size, in_batched, *args) -> (result, out_batched)`."""
        self.rule = rule
        return rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function, with its rule for whoever maps it."""
        if self.rule is None:
            raise CustomRuleError(
                f"{name_of(self.fun)} was decorated with custom_vmap and has no rule.",
                f"Set one with {name_of(self.fun)}.def_vmap(rule) before calling it.",
            )
        arguments = positional_arguments(self.fun, args, kwargs)
        call = RuleCall(self.fun, arguments, (), (self.rule,))
        outs = custom_vmap_call(*call.operands, fun=call.run, rule=_Rule(self.fun, call))
        return call.out_tree.unflatten(outs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


class _Rule:
    """The batching rule of one call as a function of flat values."""

    __slots__ = ("call", "fun")

    def __init__(self, fun: Any, call: RuleCall) -> None:
        self.fun, self.call = fun, call

    def __call__(
        self, size: int, mapped: Sequence[bool], *flat: Any
    ) -> tuple[list[Any], list[bool]]:
        call = self.call
        n = call.closed.total
        if any(mapped[:n]):
            raise CustomRuleError(
                f"{name_of(self.fun)}, a function with a batching rule, closes over a traced value "
                "that vmap maps.",
                "Pass it as an argument, so that the rule can say what its axis means.",
            )
        opened = call.open(flat)
        (rule,) = opened.rules
        flags, args = list(call.arguments(mapped[n:])), call.arguments(opened.leaves)
        return self._checked(rule, called(rule, size, flags, *args), size)

    def _checked(self, rule: Any, answer: Any, size: int) -> tuple[list[Any], list[bool]]:
        what = f"The batching rule of {name_of(self.fun)}"
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise CustomRuleError(
                f"{what} did not return a pair.",
                "Return (result, out_batched); out_batched says which results have the new axis 0.",
                place=home(rule),
            )
        ys, tree = tree_flatten(answer[0])
        result_avals(self.fun, ys, tree)
        self._check_structure(what, rule, tree)
        try:
            flags = [bool(f) for f in broadcast_prefix(answer[1], answer[0], name="out_batched")]
        except TreeError as error:
            raise CustomRuleError(
                f"{what} returned an out_batched that does not fit its result. {error.what}",
                "Give it the containers of the result, or one boolean for all of it.",
                place=home(rule),
            ) from None
        self._check_shapes(what, rule, ys, flags, size)
        return ys, flags

    def _check_structure(self, what: str, rule: Any, tree: PyTreeDef) -> None:
        if self.call.out_tree is None:
            self.call.out_tree = tree
        elif tree != self.call.out_tree:
            raise CustomRuleError(
                f"{what} returned a result that differs from the function's own "
                f"{tree_mismatch(self.call.out_tree, tree, 'result')}.",
                "A rule returns what the function returns, with a new axis 0.",
                place=home(rule),
            )

    def _check_shapes(
        self, what: str, rule: Any, ys: list[Any], flags: list[bool], size: int
    ) -> None:
        members = self.call.result[1] if self.call.result else [None] * len(ys)
        for i, (y, mapped, member) in enumerate(zip(ys, flags, members, strict=True)):
            a = typeof(y)
            front = (size,) if mapped else ()
            if a.shape[: len(front)] == front and (
                member is None or (a.shape, a.dtype) == (front + member.shape, member.dtype)
            ):
                continue
            wanted = f"axis 0 of size {size}" if mapped else "no new axis"
            raise CustomRuleError(
                f"{what} returned {a} as {paths(self.call.out_tree, 'result')[i]}, which by its "
                f"out_batched has {wanted}{'' if member is None else f' before {member}'}.",
                "Put the new axis first where out_batched is True, and only there.",
                place=home(rule),
            )

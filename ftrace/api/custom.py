"""Users' own derivative rules: `custom_jvp`, `custom_vjp`."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from ftrace.api.calls import check_callable, name_of
from ftrace.api.rules import Call, VjpRules, called, checked_pair, positional_arguments
from ftrace.control.custom import custom_jvp_call, custom_vjp_call
from ftrace.control.functions import frozen
from ftrace.core.avals import typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import CustomRuleError
from ftrace.core.tree import tree_flatten
from ftrace.core.zero import SymbolicZero
from ftrace.interpreters.tangents import zeros
from ftrace.primitives.linear import add

P = ParamSpec("P")
R = TypeVar("R")


class custom_jvp(Generic[P, R]):  # noqa: N801 - JAX's name
    """Give a function its own forward derivative rule; reverse mode follows from it.

    Args:
        fun: function of arrays, or containers of arrays.
        nondiff_argnums: positions of arguments that are not arrays; the rule gets them first.

    The rule, set by `defjvp`, takes `(primals, tangents)` and returns `(result, tangent)`;
    `defjvps` takes one `(t, result, *primals) -> tangent` per argument (None: no contribution).

    Raises:
        CustomRuleError: no rule, or one that returns the wrong structure, shapes or dtypes.

    Example:
        >>> import numpy as np, ftrace
        >>> @ftrace.custom_jvp
        ... def safe_log(x):
        ...     return np.log(x)
        >>> safe_log.defjvps(lambda t, y, x: t / np.maximum(x, 1e-3))
        >>> float(ftrace.grad(safe_log)(0.5))
        2.0
    """

    def __init__(self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        check_callable(fun, "custom_jvp")
        self.fun = fun
        self.nondiff = tuple(nondiff_argnums)
        self.rule: Any = None
        self.symbolic = False
        functools.update_wrapper(self, fun, updated=())

    def defjvp(self, rule: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule `(*nondiff, primals, tangents) -> (result, tangent)`.

        With `symbolic_zeros` the tangents of integer arguments arrive as `SymbolicZero`.
        """
        self.rule, self.symbolic = rule, symbolic_zeros
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set one rule per argument: `(t, result, *primals) -> tangent`, or None."""

        def rule(*args: Any) -> Any:
            *nondiff, primals, tangents = args
            if len(rules) != len(primals):
                raise CustomRuleError(
                    f"defjvps of {name_of(self.fun)} was given {len(rules)} rules, and it has "
                    f"{len(primals)} arguments with derivatives.",
                    "Give one rule for each argument, None for one that does not contribute.",
                )
            again: Any = self
            result = again(*nondiff, *primals)
            parts = [
                r(t, result, *primals)
                for r, t in zip(rules, tangents, strict=True)
                if r is not None
            ]
            return result, functools.reduce(_add_trees, parts) if parts else _zeros_of(result)

        self.rule = rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function, with its rule for whoever differentiates it."""
        if self.rule is None:
            raise CustomRuleError(
                f"{name_of(self.fun)} was decorated with custom_jvp and has no rule.",
                f"Set one with {name_of(self.fun)}.defjvp(rule) before calling it.",
            )
        call = Call(self.fun, positional_arguments(self.fun, args, kwargs), self.nondiff)

        def rule(*flat: Any) -> list[Any]:
            n = len(flat) // 2
            primals = call.arguments([frozen(x) for x in flat[:n]])
            tangents = call.arguments(
                [self._shown(frozen(t), x) for t, x in zip(flat[n:], flat, strict=False)]
            )
            answer = called(self.rule, *call.nondiff, primals, tangents)
            return checked_pair(f"The jvp rule of {name_of(self.fun)}", self.rule, call, answer)

        outs = custom_jvp_call(*call.leaves, fun=call.run, rule=rule)
        return call.flat.out_tree.unflatten(outs)

    def _shown(self, t: Any, x: Any) -> Any:
        a = typeof(x)
        return SymbolicZero(a) if self.symbolic and not is_inexact(a.dtype) else t

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _add_trees(a: Any, b: Any) -> Any:
    xs, tree = tree_flatten(a)
    ys, _ = tree_flatten(b)
    return tree.unflatten([add(x, y) for x, y in zip(xs, ys, strict=True)])


def _zeros_of(tree: Any) -> Any:
    leaves, treedef = tree_flatten(tree)
    return treedef.unflatten([zeros(typeof(x)) for x in leaves])


class custom_vjp(Generic[P, R]):  # noqa: N801 - JAX's name
    """Give a function its own backward rule.

    Args:
        fun: function of arrays, or containers of arrays.
        nondiff_argnums: positions of arguments that are not arrays; `bwd` gets them first.

    `defvjp(fwd, bwd)`: `fwd(*args)` returns `(result, residuals)`, `bwd(*nondiff, residuals, ct)`
    returns a tuple with one cotangent (or None) per differentiable argument. Forward mode works
    too where `bwd` is linear in `ct` and traceable.

    Raises:
        CustomRuleError: no rule, or one that returns the wrong structure, shapes or dtypes.

    Example:
        >>> import numpy as np, ftrace
        >>> @ftrace.custom_vjp
        ... def tanh(x):
        ...     return np.tanh(x)
        >>> def fwd(x):
        ...     y = np.tanh(x)
        ...     return y, y
        >>> tanh.defvjp(fwd, lambda y, ct: ((1 - y * y) * ct,))
        >>> float(ftrace.grad(tanh)(0.0))
        1.0
    """

    def __init__(self, fun: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        check_callable(fun, "custom_vjp")
        self.fun = fun
        self.nondiff = tuple(nondiff_argnums)
        self.fwd: Any = None
        self.bwd: Any = None
        functools.update_wrapper(self, fun, updated=())

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the forward function and the backward rule."""
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function, with its rule for whoever differentiates it."""
        if self.fwd is None:
            raise CustomRuleError(
                f"{name_of(self.fun)} was decorated with custom_vjp and has no rules.",
                f"Set them with {name_of(self.fun)}.defvjp(fwd, bwd) before calling it.",
            )
        call = Call(self.fun, positional_arguments(self.fun, args, kwargs), self.nondiff)
        rules = VjpRules(self, call)
        outs = custom_vjp_call(
            *call.leaves, fun=call.run, fwd=rules.forward, bwd=rules.backward, n_out=rules.count
        )
        return call.flat.out_tree.unflatten(outs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

"""Users' own derivative rules: `custom_jvp`, `custom_vjp`; and `checkpoint`."""

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from ftrace.api.calls import check_callable, name_of
from ftrace.control.checkpoint import checkpoint_call
from ftrace.control.custom import custom_jvp_call, custom_vjp_call
from ftrace.control.functions import FlatFunction, frozen, leaf_avals
from ftrace.control.traces import Traces
from ftrace.core.avals import ShapedArray, typeof
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import CustomRuleError, FtraceError, MutationError
from ftrace.core.trace import EVAL, ctx
from ftrace.core.tree import PyTreeDef, paths, tree_flatten, tree_mismatch
from ftrace.core.zero import SymbolicZero
from ftrace.interpreters.tangents import zeros
from ftrace.primitives.convert import convert_element_type
from ftrace.primitives.linear import add

P = ParamSpec("P")
R = TypeVar("R")


def _positional(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments of a call by position, defaults included."""
    if isinstance(fun, np.ufunc | types.BuiltinFunctionType):  # their defaults are not arrays
        return args
    bound = inspect.signature(fun).bind(*args, **kwargs)
    bound.apply_defaults()
    named = sorted(kwargs.keys() & bound.kwargs.keys())
    if named:
        raise CustomRuleError(
            f"{name_of(fun)} was given the keyword-only arguments {named}.",
            "Functions with custom rules take positional arguments.",
        )
    return bound.args


def _called(fn: Callable[..., Any], *args: Any) -> Any:
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


class _Call:
    """One call of a function with rules: its flat function of the differentiable leaves."""

    __slots__ = ("fixed", "flat", "leaves", "nondiff", "tree")

    def __init__(self, fun: Any, args: tuple[Any, ...], nondiff: tuple[int, ...]) -> None:
        self.nondiff = [args[i] for i in nondiff]
        self.fixed = {i: args[i] for i in nondiff}
        dynamic = tuple(a for i, a in enumerate(args) if i not in self.fixed)
        self.leaves, self.tree = tree_flatten((dynamic, {}))
        leaf_avals(self.leaves, self.tree, name_of(fun))
        self.flat = FlatFunction(lambda *dyn: fun(*self.merge(dyn)), self.tree)

    def merge(self, dynamic: Sequence[Any]) -> list[Any]:
        """All positional arguments from the dynamic ones."""
        supply = iter(dynamic)
        total = len(self.fixed) + len(dynamic)
        return [self.fixed[i] if i in self.fixed else next(supply) for i in range(total)]

    def run(self, *leaves: Any) -> list[Any]:
        """The function on flat values that it cannot write."""
        return _called(self.flat, *map(frozen, leaves))

    def arguments(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The dynamic arguments with these leaves."""
        return self.tree.unflatten(leaves)[0]


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
                f"{name_of(self.fun)} is a custom_jvp function without a rule.",
                "Set one with defjvp.",
            )
        call = _Call(self.fun, _positional(self.fun, args, kwargs), self.nondiff)

        def rule(*flat: Any) -> list[Any]:
            n = len(flat) // 2
            primals = call.arguments([frozen(x) for x in flat[:n]])
            tangents = call.arguments(
                [self._shown(frozen(t), x) for t, x in zip(flat[n:], flat, strict=False)]
            )
            answer = _called(self.rule, *call.nondiff, primals, tangents)
            return _checked_pair(self.fun, call, answer)

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


def _checked_pair(fun: Any, call: _Call, answer: Any) -> list[Any]:
    """The flat result and tangent that a jvp rule returned."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise CustomRuleError(
            f"The jvp rule of {name_of(fun)} returned {type(answer).__name__}, not a pair.",
            "Return (result, tangent).",
        )
    result, tangent = answer
    ys, tree = tree_flatten(result)
    ts, given = tree_flatten(tangent)
    if given != tree:
        raise CustomRuleError(
            f"The jvp rule of {name_of(fun)} returned a tangent that differs from its result "
            f"{tree_mismatch(tree, given, 'tangent')}.",
            "The tangent has the structure of the result.",
        )
    call.flat.out_tree = tree
    names = paths(tree, "tangent")
    return [*ys, *(_fit(fun, t, typeof(y), p) for t, y, p in zip(ts, ys, names, strict=True))]


def _fit(fun: Any, value: Any, a: ShapedArray, path: str) -> Any:
    """A tangent or cotangent that a rule returned, at the type it must have."""
    if isinstance(value, SymbolicZero) or (value is None):
        return zeros(a)
    given = typeof(value)
    if given.shape == a.shape and given.dtype == a.dtype and not given.weak:
        return value
    convertible = given.weak or (given.dtype.kind in "biu" and is_inexact(a.dtype))
    if given.shape != a.shape or not (convertible or given.dtype == a.dtype):
        raise CustomRuleError(
            f"A rule of {name_of(fun)} returned {given} for {path}, which has type {a}.",
            "Tangents and cotangents have the shape and dtype of their primals.",
        )
    return convert_element_type(value, new_dtype=a.dtype)


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
                f"{name_of(self.fun)} is a custom_vjp function without rules.",
                "Set them with defvjp.",
            )
        call = _Call(self.fun, _positional(self.fun, args, kwargs), self.nondiff)
        rules = _VjpRules(self, call)
        outs = custom_vjp_call(
            *call.leaves, fun=call.run, fwd=rules.forward, bwd=rules.backward, n_out=rules.count
        )
        return call.flat.out_tree.unflatten(outs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


class _VjpRules:
    """The rules of one call as functions of flat values."""

    __slots__ = ("avals", "call", "owner", "residual_tree")

    def __init__(self, owner: Any, call: _Call) -> None:
        self.owner, self.call = owner, call
        self.residual_tree: Any = None
        self.avals = [typeof(x) for x in call.leaves]

    def count(self) -> int:
        return self.call.flat.out_tree.num_leaves

    def forward(self, *leaves: Any) -> list[Any]:
        call, fun = self.call, self.owner.fun
        arguments = call.merge(call.arguments([frozen(x) for x in leaves]))
        answer = _called(self.owner.fwd, *arguments)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise CustomRuleError(
                f"The fwd rule of {name_of(fun)} returned {type(answer).__name__}, not a pair.",
                "Return (result, residuals).",
            )
        ys, call.flat.out_tree = tree_flatten(answer[0])
        residuals, self.residual_tree = tree_flatten(answer[1])
        leaf_avals(residuals, self.residual_tree, "residuals")
        return [*ys, *residuals]

    def backward(self, *flat: Any) -> list[Any]:
        call, fun = self.call, self.owner.fun
        n = self.residual_tree.num_leaves
        values = [frozen(x) for x in flat]
        residuals = self.residual_tree.unflatten(values[:n])
        ct = call.flat.out_tree.unflatten(values[n:])
        answer = _called(self.owner.bwd, *call.nondiff, residuals, ct)
        expected = call.tree.children()[0]
        if not isinstance(answer, tuple | list) or len(answer) != len(expected.children()):
            raise CustomRuleError(
                f"The bwd rule of {name_of(fun)} must return a tuple of "
                f"{len(expected.children())} cotangents, one per argument, not {answer!r}.",
                "Use None for an argument that gets no contribution.",
            )
        found: list[Any] = []
        for part, tree, i in zip(answer, expected.children(), range(len(answer)), strict=True):
            found.extend(self._argument(part, tree, f"args[{i}]", len(found)))
        return found

    def _argument(self, part: Any, tree: PyTreeDef, name: str, start: int) -> list[Any]:
        avals = self.avals[start : start + tree.num_leaves]
        if part is None:
            return [zeros(a) for a in avals]
        leaves, given = tree_flatten(part, lambda x: x is None or isinstance(x, SymbolicZero))
        if given != tree:
            raise CustomRuleError(
                f"The bwd rule of {name_of(self.owner.fun)} returned a cotangent that differs "
                f"{tree_mismatch(tree, given, name)}.",
                "A cotangent has the structure of its argument.",
            )
        names = paths(tree, name)
        return [_fit(self.owner.fun, c, a, p) for c, a, p in zip(leaves, avals, names, strict=True)]


def checkpoint(
    fun: Callable[P, R] | None = None, *, static_argnums: int | Sequence[int] = ()
) -> Any:
    """Recompute a function's intermediates in the backward pass instead of keeping them.

    Args:
        fun: function of arrays, or containers of arrays; without effects.
        static_argnums: arguments that are Python values.

    Returns:
        A function with `fun`'s signature and values; in reverse mode it runs twice and keeps
        only its inputs.

    Example:
        >>> import numpy as np, ftrace
        >>> float(ftrace.grad(ftrace.checkpoint(lambda x: np.exp(np.sin(x))))(0.0))
        1.0
    """
    if fun is None:
        return functools.partial(checkpoint, static_argnums=static_argnums)
    check_callable(fun, "checkpoint")
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    traces = Traces(fun, ("checkpoint", static))

    @functools.wraps(fun, updated=())
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if ctx.trace is EVAL:
            return fun(*args, **kwargs)
        fixed = {i: args[i] for i in static}
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)

        def partial(*values: Any, **keywords: Any) -> Any:
            supply = iter(values)
            full: Any = [fixed[i] if i in fixed else next(supply) for i in range(len(args))]
            return fun(*full, **keywords)

        leaves, trace = traces.find(partial, dynamic, kwargs, tuple(fixed.items()))
        outs = checkpoint_call(*trace.captured, *leaves, jaxpr=trace.jaxpr)
        return trace.out_tree.unflatten(outs)

    return wrapper


remat = checkpoint

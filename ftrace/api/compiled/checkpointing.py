"""`checkpoint`: what the backward pass keeps, and what it computes again; `checkpoint_name`."""

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from ftrace.api.calls import brief, check_callable, check_hashable, name_of, positions
from ftrace.control.remat.budgets import Budget
from ftrace.control.remat.checkpoint import checkpoint_call
from ftrace.control.remat.policies import Policy
from ftrace.control.rows.raising import called
from ftrace.control.traces import Traces
from ftrace.core.errors import DtypeError
from ftrace.core.sameness import Static
from ftrace.core.trace import EVAL, ctx, lifted
from ftrace.core.tree import tree_flatten
from ftrace.interpreters.captures import owned
from ftrace.primitives.convert import named

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(
    fun: Callable[P, R] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    budget: int | str | None = None,
) -> Any:
    """Recompute a function's intermediates in the backward pass instead of keeping them.

    Args:
        fun: function of arrays, or containers of arrays; without effects.
        prevent_cse: accepted as in JAX, and not needed: no two equations are merged into one
            whose result would have to be kept.
        policy: which intermediates to keep instead: one of `ftrace.checkpoint_policies`, or a
            function `(prim, *avals, **params) -> bool` of an equation. It sees into `jit`; a
            `cond` or a loop is one equation.
        static_argnums: arguments that are Python values.
        budget: bytes, or a string like "64MiB", that a call and its derivative together hold at
            most: results, what is kept between the passes, and what either pass needs while it
            runs; arguments and captured arrays are not counted. Of the choices of what to keep
            and how many states of a `scan` to keep, the one that repeats the least is taken.
            Members of a `vmap` share the budget. NumPy's own scratch memory is not foreseen.

    Returns:
        A function with `fun`'s signature and values; in reverse mode what it does not keep runs
        twice.

    Raises:
        RuleError: `fun` has effects (when it is differentiated).
        BudgetError: no choice holds the budget, or a `while_loop` makes that unknowable (when it is
            differentiated); the message has the least that would do.
        DtypeError: a policy that is no function, a budget that is no size, or both.

    Example:
        >>> import numpy as np, ftrace
        >>> float(ftrace.grad(ftrace.checkpoint(lambda x: np.exp(np.sin(x))))(0.0))
        1.0
    """
    keep = _policy(policy, budget)
    if fun is None:
        return functools.partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            budget=budget,
        )
    check_callable(fun, "checkpoint")
    static = tuple(static_argnums) if isinstance(static_argnums, Iterable) else (static_argnums,)
    return _checkpointed(fun, static, keep)


def _checkpointed(
    fun: Callable[P, R], static: tuple[int, ...], keep: Policy | Budget | None
) -> Callable[P, R]:
    traces = Traces(fun, ("checkpoint", static), static)

    @functools.wraps(fun, updated=())
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if ctx.trace is EVAL:
            outs, tree = tree_flatten(lifted(fun)(*args, **kwargs))
            return tree.unflatten(owned(outs, tree_flatten((args, kwargs))[0]))
        fixed = {i: args[i] for i in positions("static_argnums", fun, static, len(args))}
        for i, value in fixed.items():
            check_hashable(fun, i, value)
        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)

        def partial(*values: Any, **keywords: Any) -> Any:
            supply = iter(values)
            full: Any = [fixed[i] if i in fixed else next(supply) for i in range(len(args))]
            return lifted(fun)(*full, **keywords)

        partial.__name__ = name_of(fun)
        key = tuple((i, Static(v)) for i, v in fixed.items())
        leaves, trace = traces.find(partial, dynamic, kwargs, key)
        operands = [*trace.captured, *leaves]
        outs = called(checkpoint_call, operands, trace.jaxpr, policy=keep)
        return trace.out_tree.unflatten(outs)

    return wrapper


remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """Give a value a name that policies of `checkpoint` know it by.

    Args:
        x: an array, or a container of arrays.
        name: the name.

    Returns:
        The same values; the derivative is that of the identity.

    Raises:
        DtypeError: a name that is not a string.

    Example:
        >>> import numpy as np, ftrace
        >>> policy = ftrace.checkpoint_policies.save_only_these_names("s")
        >>> @ftrace.checkpoint(policy=policy)
        ... def f(x):
        ...     return np.exp(ftrace.checkpoint_name(np.sin(x), "s"))
        >>> float(ftrace.grad(f)(0.0))
        1.0
    """
    if not isinstance(name, str):
        raise DtypeError(
            f"checkpoint_name was given {brief(name)} for a name.",
            'Pass the value first, then a string: checkpoint_name(x, "hidden").',
        )
    leaves, tree = tree_flatten(x)
    return tree.unflatten([named(leaf, name=name) for leaf in leaves])


# ---------------------------------------------------------------------------------- budgets

_UNITS: Final = {
    "": 1,
    **{f"{p}B": 1000**i for i, p in enumerate(("", "k", "M", "G", "T"))},
    **{f"{p}iB": 1024**i for i, p in enumerate(("K", "M", "G", "T"), start=1)},
    "KB": 1000,
}


def _policy(policy: Policy | None, budget: Any) -> Policy | Budget | None:
    if policy is not None and not callable(policy):
        raise DtypeError(
            f"The policy of checkpoint must be a function, not {brief(policy)}.",
            "Use one of ftrace.checkpoint_policies, or a function (prim, *avals, **params) -> bool "
            "that says which results may be kept.",
        )
    try:
        hash(policy)
    except TypeError:
        raise DtypeError(
            "The policy of checkpoint cannot be hashed, and is part of a cache key.",
            "Use a function, or a frozen dataclass with __call__.",
        ) from None
    if budget is None:
        return policy
    if policy is not None:
        raise DtypeError(
            "checkpoint was given both a policy and a budget, which both choose what is kept.",
            "Pass one of them.",
        )
    return Budget(_bytes(budget))


def _bytes(budget: Any) -> int:
    if issubclass(type(budget), int) and not issubclass(type(budget), bool) and budget >= 0:
        return budget
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", budget)
        if found is not None and found[2] in _UNITS:
            return int(float(found[1]) * _UNITS[found[2]])
    raise DtypeError(
        f"The budget of checkpoint must be a number of bytes, at least 0, not {brief(budget)}.",
        'Write an int, or a string with a unit: "500kB", "64MiB", "1.5GiB".',
    )

"""Users' own derivative rules: `custom_jvp`, `custom_vjp`."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from ftrace.api.calls import check_callable, name_of
from ftrace.api.derivatives.verifying import MODES, Verified
from ftrace.api.rules.pullbacks import Pullback, pulled
from ftrace.api.rules.rules import JvpRule, RuleCall, VjpRules, positional_arguments
from ftrace.api.rules.writing import check_written, deliver, returning, returning_rule
from ftrace.control.rules.custom_derivatives import custom_jvp_call, custom_vjp_call
from ftrace.core.avals import typeof
from ftrace.core.errors import CustomRuleError, DtypeError
from ftrace.core.naming import Named
from ftrace.core.tree import tree_flatten
from ftrace.interpreters.tangents import zeros
from ftrace.primitives.linear import add

P = ParamSpec("P")
R = TypeVar("R")


def _positions(
    fun: Any, nondiff_argnums: Any, nondiff_argnames: Any, option: str = "nondiff_argnames"
) -> tuple[int, ...]:
    """The positions of the arguments that are given by number or by name."""
    found = _numbers(nondiff_argnums)
    single = type(nondiff_argnames) is str
    is_many = issubclass(type(nondiff_argnames), Iterable) and not single
    names = tuple(nondiff_argnames) if is_many else (nondiff_argnames,)
    if any(type(n) is not str for n in names):
        raise DtypeError(
            f"nondiff_argnames is {nondiff_argnames!r:.200}.",
            "Give the names of the arguments that are not differentiated, a str or a tuple.",
        )
    known = list(inspect.signature(fun).parameters) if names else []
    for name in names:
        if name not in known:
            raise DtypeError(
                f"{option} is {nondiff_argnames!r}, and {name_of(fun)} has no argument "
                f"called {name!r}.",
                f"Its arguments are {', '.join(known)}.",
            )
    return tuple(dict.fromkeys((*found, *map(known.index, names))))


def _numbers(nondiff_argnums: Any) -> tuple[int, ...]:
    single = type(nondiff_argnums) is int
    given = (nondiff_argnums,) if single else nondiff_argnums
    if not issubclass(type(given), Sequence) or any(type(n) is not int or n < 0 for n in given):
        raise DtypeError(
            f"nondiff_argnums is {nondiff_argnums!r}.",
            "Give the positions of the arguments that are not differentiated, counted from 0: an "
            "int, or a tuple of them.",
        )
    return tuple(given)


class custom_jvp(Named, Generic[P, R]):  # noqa: N801 - JAX's name
    """Give a function its own forward derivative rule; reverse mode follows from it.

    Args:
        fun: function of arrays, or containers of arrays.
        nondiff_argnums: positions of arguments that are not arrays; the rule gets them first.
        nondiff_argnames: names of such arguments.
        verify: "first_call" compares the rule with numerical derivatives at the first call with
            arguments of each combination of types, and keeps a certificate of each in
            `.verified.certificates`; None never does.
        mutates: positions or names of arrays among the arguments that the function writes. The rule
            gets copies of them and of their tangents, and writes into both what belongs there.
            The function may return them, and copies of their parts, but no views of these.

    The rule, set by `defjvp`, takes `(primals, tangents)` and returns `(result, tangent)`;
    `defjvps` takes one `(t, result, *primals) -> tangent` per argument (None: no contribution).

    Raises:
        CustomRuleError: no rule, or one that returns the wrong structure, shapes or dtypes.
        DerivativeError: with `verify`, the rule is wrong.
        MutationError: an argument is written that is not among `mutates`, or one that is shares
            memory with another, or with a part of another, or a view of it is returned.

    Example:
        >>> import numpy as np, ftrace
        >>> @ftrace.custom_jvp
        ... def safe_log(x):
        ...     return np.log(x)
        >>> safe_log.defjvps(lambda t, y, x: t / np.maximum(x, 1e-3))
        >>> float(ftrace.grad(safe_log)(0.5))
        2.0

        A function that writes its first argument:

        >>> import functools
        >>> @functools.partial(ftrace.custom_jvp, mutates="total")
        ... def accumulate(total, x):
        ...     total += x * x
        >>> @accumulate.defjvp
        ... def rule(primals, tangents):
        ...     (total, x), (total_dot, x_dot) = primals, tangents
        ...     total += x * x
        ...     total_dot += 2 * x * x_dot
        ...     return None, None
        >>> def f(x):
        ...     total = ftrace.numpy.zeros(2)
        ...     accumulate(total, x)
        ...     return total[0]
        >>> ftrace.grad(f)(np.array([3.0, 4.0]))
        array([6., 0.])
    """

    __closes_over__ = ("fun", "rule")
    modes = MODES

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
        *,
        verify: str | None = None,
        mutates: int | str | Sequence[int | str] = (),
    ) -> None:
        check_callable(fun, "custom_jvp")
        self.fun = fun
        self.nondiff = _positions(fun, nondiff_argnums, nondiff_argnames)
        self.mutates = _written(fun, mutates, self.nondiff)
        self._pure: Any = None  # the same function, which returns what it would have written
        self._verify = verify
        self.rule: Any = None
        self.symbolic = False
        self.results: dict[Any, Any] = {}  # by types of arguments: what the function returns
        self.verified = None if verify is None else Verified(verify)
        functools.update_wrapper(self, fun, updated=())

    def defjvp(self, rule: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule `(*nondiff, primals, tangents) -> (result, tangent)`.

        With `symbolic_zeros` the tangents of arguments that are not being differentiated (all
        integers among them) arrive as `SymbolicZero`.
        """
        check_callable(rule, "defjvp")
        if self.mutates and symbolic_zeros:
            raise DtypeError(
                f"The rule of {name_of(self.fun)} writes into tangents (mutates=), and asks for "
                "symbolic_zeros, which cannot be written.",
                "Leave symbolic_zeros out.",
            )
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
        arguments = positional_arguments(self.fun, args, kwargs)
        if self.mutates:
            check_written(self.fun, arguments, self.mutates)
            return deliver(arguments, self.mutates, self.pure(*arguments))
        if self.verified is not None:
            self.verified(self, arguments)
        call = RuleCall(self.fun, arguments, self.nondiff, (self.rule,))
        rule = JvpRule(self.fun, call, self.results)
        extra = {"symbolic": True} if self.symbolic else {}
        outs = custom_jvp_call(*call.operands, **call.params(fun=call.run, rule=rule, **extra))
        return call.out_tree.unflatten(outs)

    @property
    def pure(self) -> Any:
        """With `mutates`: the function that returns (result, what it would have written)."""
        if self._pure is None or self._pure.origin is not self.rule:
            made: Any = custom_jvp(
                returning(self.fun, self.mutates), self.nondiff, verify=self._verify
            )
            made.defjvp(returning_rule(self.fun, self.rule, self.mutates, self.nondiff))
            functools.update_wrapper(made, self.fun, updated=())
            made.origin = self.rule
            self._pure = made
        return self._pure

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _written(fun: Any, mutates: Any, nondiff: tuple[int, ...]) -> tuple[int, ...]:
    """The positions of the arguments that a function writes."""
    given = (mutates,) if type(mutates) in (int, str) else mutates
    if not issubclass(type(given), Sequence):
        raise DtypeError(
            f"mutates is {mutates!r:.200}.",
            "Give the positions or names of the arguments that the function writes.",
        )
    numbers = [n for n in given if type(n) is not str]
    known = _count(fun)
    for n in numbers:
        if type(n) is not int or n < 0 or (known is not None and n >= known):
            has = "" if known is None else f", which has {known}"
            raise DtypeError(
                f"mutates is {mutates!r:.200}, and {n!r:.50} is no argument of "
                f"{name_of(fun)}{has}.",
                "Give the positions of the arguments that the function writes, counted from 0, or "
                "their names.",
            )
    named = [n for n in given if type(n) is str]
    found = _positions(fun, numbers, named, "mutates")
    both = set(found) & set(nondiff)
    if both:
        raise DtypeError(
            f"mutates and nondiff_argnums of {name_of(fun)} both name argument {min(both)}.",
            "What is written has a tangent: leave it out of nondiff_argnums.",
        )
    return found


def _count(fun: Any) -> int | None:
    """How many positional arguments a function has; None where that is not known."""
    if isinstance(fun, np.ufunc):
        return fun.nin
    try:
        kinds = [p.kind for p in inspect.signature(fun).parameters.values()]
    except (TypeError, ValueError):
        return None
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    return sum(kind is not inspect.Parameter.KEYWORD_ONLY for kind in kinds) - kinds.count(
        inspect.Parameter.VAR_KEYWORD
    )


def _add_trees(a: Any, b: Any) -> Any:
    xs, tree = tree_flatten(a)
    ys, _ = tree_flatten(b)
    return tree.unflatten([add(x, y) for x, y in zip(xs, ys, strict=True)])


def _zeros_of(tree: Any) -> Any:
    leaves, treedef = tree_flatten(tree)
    return treedef.unflatten([zeros(typeof(x)) for x in leaves])


class custom_vjp(Named, Generic[P, R]):  # noqa: N801 - JAX's name
    """Give a function its own backward rule.

    Args:
        fun: function of arrays, or containers of arrays.
        nondiff_argnums: positions of arguments that are not arrays; `bwd` gets them first.
        nondiff_argnames: names of such arguments.
        verify: "first_call" compares the rule with numerical derivatives at the first call with
            arguments of each combination of types, and keeps a certificate of each in
            `.verified.certificates`; None never does.

    `defvjp(fwd, bwd)`: `fwd(*args)` returns `(result, residuals)`, `bwd(*nondiff, residuals, ct)`
    returns a tuple with one cotangent (or None) per differentiable argument. `defadjoint` takes
    one function instead. Forward mode works too where `bwd` is linear in `ct` and traceable.

    Raises:
        CustomRuleError: no rule, or one that returns the wrong structure, shapes or dtypes.
        DerivativeError: with `verify`, the rule is wrong.

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

    __closes_over__ = ("bwd", "fun", "fwd", "push")

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
        *,
        verify: str | None = None,
    ) -> None:
        check_callable(fun, "custom_vjp")
        self.fun = fun
        self.nondiff = _positions(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Any = None
        self.bwd: Any = None
        self.push: Any = None  # a jvp rule beside them (custom_rule)
        self.symbolic = False
        self.results: dict[Any, Any] = {}  # by types of arguments: what the function returns
        self.verified = None if verify is None else Verified(verify)
        functools.update_wrapper(self, fun, updated=())

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of differentiation that the rules give."""
        return ("rev",) if self.push is None else MODES

    def defvjp(
        self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False
    ) -> None:
        """Set the forward function and the backward rule.

        With `symbolic_zeros` each array among `fwd`'s arguments arrives as an object with `.value`
        and `.perturbed` (whether it is being differentiated), and `bwd` gets a `SymbolicZero` for
        the cotangent of a result that nothing depends on.
        """
        check_callable(fwd, "defvjp")
        if not callable(bwd):
            raise DtypeError(
                f"defvjp takes two functions, and its second is a {type(bwd).__name__}.",
                "Give the forward function and the backward rule.",
            )
        self.fwd, self.bwd, self.symbolic = fwd, bwd, symbolic_zeros

    def defadjoint(self, adjoint: Callable[..., Any]) -> Callable[..., Any]:
        """Set one backward rule `(*nondiff, ct, result, *args) -> cotangents`.

        It may read the result and the arguments; only what it reads is kept for the backward
        pass, so that a rule of `ct` and the result keeps no argument.

        Example:
            >>> import numpy as np, ftrace
            >>> tanh = ftrace.custom_vjp(np.tanh)
            >>> _ = tanh.defadjoint(lambda ct, y, x: (1 - y * y) * ct)
            >>> float(ftrace.grad(tanh)(0.0))
            1.0
        """

        def fwd(*args: Any) -> Any:
            again: Any = self
            result = again(*args)
            fixed = {i % len(args) for i in self.nondiff}
            nondiff = [args[i] for i in sorted(fixed)]
            rest = [a for i, a in enumerate(args) if i not in fixed]
            pull = functools.partial(adjoint, *nondiff)
            return result, Pullback.of(pull, result, (result, *rest), len(rest))

        self.defvjp(fwd, pulled)
        return adjoint

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function, with its rule for whoever differentiates it."""
        if self.fwd is None:
            raise CustomRuleError(
                f"{name_of(self.fun)} was decorated with custom_vjp and has no rules.",
                f"Set them with {name_of(self.fun)}.defvjp(fwd, bwd) before calling it.",
            )
        arguments = positional_arguments(self.fun, args, kwargs)
        if self.verified is not None:
            self.verified(self, arguments)
        call = RuleCall(self.fun, arguments, self.nondiff, (self.fwd, self.bwd, self.push))
        rules = VjpRules(self, call)
        params = call.params(fun=call.run, fwd=rules.forward, bwd=rules.backward, n_out=rules.count)
        if self.symbolic:
            params["symbolic"] = True
        if self.push is not None:
            params["push"] = rules.forward_tangents
        outs = custom_vjp_call(*call.operands, **params)
        return call.out_tree.unflatten(outs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

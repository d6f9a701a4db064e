"""`custom_rule`: a function and any subset of rules; `Diagonal` and `Products` for Jacobians."""

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import ftrace.numpy as fnp
from ftrace.api.calls import check_callable, name_of
from ftrace.api.rules.custom import custom_jvp, custom_vjp
from ftrace.api.rules.custom_vmap import custom_vmap
from ftrace.api.rules.rules import home
from ftrace.control.closures import Closure, is_captured
from ftrace.control.functions import argument_name, frozen
from ftrace.control.rules.custom_lin import custom_lin
from ftrace.core.avals import ShapedArray, strengthen, typeof
from ftrace.core.device import is_array
from ftrace.core.errors import CustomRuleError, DtypeError
from ftrace.core.naming import Named
from ftrace.core.trace import ctx, is_staged
from ftrace.core.tree import tree_flatten
from ftrace.core.zero import SymbolicZero
from ftrace.primitives.linear import add

P = ParamSpec("P")
R = TypeVar("R")


class Diagonal:
    """A Jacobian that is zero off its diagonal: the tangent is `d * t`, the cotangent `d * ct`.

    Args:
        d: an array of the shape of the result and the argument, or a scalar.
    """

    __slots__ = ("d",)

    def __init__(self, d: Any) -> None:
        self.d = d

    def __repr__(self) -> str:
        return f"Diagonal({self.d!r})"


class Products:
    """A Jacobian J that is never formed.

    Args:
        left: ct -> the product of J transposed and ct; used in reverse mode.
        right: t -> the product of J and t; used in forward mode.

    One may be left out: it is the transpose of the other, which then has to be linear.
    """

    __slots__ = ("left", "right")

    def __init__(
        self,
        left: Callable[[Any], Any] | None = None,
        right: Callable[[Any], Any] | None = None,
    ) -> None:
        if left is None and right is None:
            raise CustomRuleError(
                "Products was given neither left nor right.",
                "Give left (for reverse mode), right (for forward mode), or both.",
            )
        self.left, self.right = left, right


class custom_rule(Named, Generic[P, R]):  # noqa: N801 - named like custom_jvp
    """Give a function any subset of rules; a missing one is derived from the others.

    Args:
        fun: function of arrays, or containers of arrays. It need not be traceable as long as
            rules (or `lower`) stand in where it would have to be traced.
        jvp: `(primals, tangents) -> (result, tangent)`.
        vjp: `(ct, result, *args) -> cotangents`, or a pair `(fwd, bwd)` as `custom_vjp` takes it.
        jacobian: `(result, *args)` -> one `Diagonal`, `Products` or dense array (result axes,
            then argument axes) per argument, None for no contribution; not called unless a
            derivative is taken. The function is of arrays then. Excludes `jvp` and `vjp`.
        batch: `(axis_size, in_batched, *args) -> (result, out_batched)`, as in `custom_vmap`.
        lower: a traceable function of the same values that takes `fun`'s place where the call is
            part of a traced program (`jit` and control flow): what is compiled.
        verify: as in `custom_jvp`: "first_call" compares the derivatives with numerical ones.

    Forward mode without `jvp` transposes `vjp`, which has to be linear in `ct` then; reverse mode
    without `vjp` transposes `jvp`; without `batch`, `fun` and the rules are mapped.

    Raises:
        CustomRuleError: no rule at all, or one that returns the wrong structure, shapes or dtypes.

    Example:
        >>> import numpy as np, ftrace
        >>> sigmoid = ftrace.custom_rule(
        ...     lambda x: 1 / (1 + np.exp(-x)), jacobian=lambda y, x: ftrace.Diagonal(y * (1 - y))
        ... )
        >>> ftrace.grad(lambda x: np.sum(sigmoid(x)))(np.zeros(2))
        array([0.25, 0.25])
    """

    __closes_over__ = ("_made",)

    def __init__(
        self,
        fun: Callable[P, R],
        *,
        jvp: Callable[..., Any] | None = None,
        vjp: Callable[..., Any] | tuple[Callable[..., Any], Callable[..., Any]] | None = None,
        jacobian: Callable[..., Any] | None = None,
        batch: Callable[..., Any] | None = None,
        lower: Callable[..., Any] | None = None,
        verify: str | None = None,
    ) -> None:
        check_callable(fun, "custom_rule")
        _check_rules(
            fun, {"jvp": jvp, "vjp": vjp, "jacobian": jacobian, "batch": batch, "lower": lower}
        )
        if verify is not None and vjp is None and jvp is None and jacobian is None:
            raise CustomRuleError(
                f"custom_rule of {name_of(fun)} was asked to verify derivatives; it has no rule of"
                " one.",
                "Give jvp, vjp or jacobian, or leave verify out.",
            )
        made: Any = fun if lower is None else _lowered(fun, lower)
        if batch is not None:
            made = custom_vmap(made)
            made.def_vmap(batch)
        if vjp is not None:
            made = custom_vjp(made, verify=verify)
            made.push = jvp
            if callable(vjp):
                made.defadjoint(vjp)
            else:
                made.defvjp(*vjp)
        elif jvp is not None or jacobian is not None:
            made = custom_jvp(made, verify=verify)
            rule = jvp if jacobian is None else _from_jacobian(fun, made, jacobian)
            made.defjvp(rule, symbolic_zeros=jacobian is not None)
        self._made = made
        functools.update_wrapper(self, fun, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function, with its rules for whoever transforms it."""
        return self._made(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _check_rules(fun: Any, rules: dict[str, Any]) -> None:
    given = [name for name, rule in rules.items() if rule is not None]
    if not given:
        raise CustomRuleError(
            f"custom_rule of {name_of(fun)} was given no rule.",
            f"Give at least one of {', '.join(rules)}.",
        )
    if "jacobian" in given and ("jvp" in given or "vjp" in given):
        raise CustomRuleError(
            f"custom_rule of {name_of(fun)} was given a jacobian and {given[0]}.",
            "A jacobian is both derivatives: give it alone, or jvp and vjp.",
        )
    for name in given:
        rule = rules[name]
        pair = name == "vjp" and isinstance(rule, tuple | list)
        if not all(map(callable, rule)) or len(rule) != 2 if pair else not callable(rule):
            raise DtypeError(
                f"{name} of custom_rule({name_of(fun)}) is no function.",
                "Pass a function, or for vjp a pair (fwd, bwd).",
            )


def _lowered(fun: Any, lower: Any) -> Any:
    """`lower` in traced programs, `fun` elsewhere."""

    @functools.wraps(fun)
    def chosen(*args: Any) -> Any:
        return lower(*args) if is_staged(ctx.trace) else fun(*args)

    return chosen


# ---------------------------------------------------------------------------------- jacobians


def _from_jacobian(fun: Any, made: Any, jacobian: Callable[..., Any]) -> Callable[..., Any]:
    """The jvp rule that multiplies tangents by what `jacobian` returns."""
    what = f"The jacobian of {name_of(fun)}"

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        result = made(*primals)
        parts = jacobian(result, *primals)
        if len(primals) == 1 and not isinstance(parts, tuple | list):
            parts = (parts,)
        if not isinstance(parts, tuple | list) or len(parts) != len(primals):
            raise CustomRuleError(
                f"{what} returned {_count(parts)} for {len(primals)} argument(s).",
                "Return a tuple with one Jacobian for each argument, None for no contribution.",
                place=home(jacobian),
            )
        y = _array_aval(what, jacobian, "its result", result)
        terms: list[Any] = []
        for i, (J, x, t) in enumerate(zip(parts, primals, tangents, strict=True)):
            a = _array_aval(what, jacobian, argument_name(fun, i), x)
            if J is not None and not isinstance(t, SymbolicZero):
                terms.append(_product(_Place(what, jacobian, argument_name(fun, i)), J, t, a, y))
        return result, functools.reduce(add, terms) if terms else SymbolicZero(y)

    return rule


def _count(parts: Any) -> str:
    return f"{len(parts)} Jacobians" if isinstance(parts, tuple | list) else "one Jacobian"


class _Place:
    """Which Jacobian of which function: what messages say."""

    __slots__ = ("argument", "rule", "what")

    def __init__(self, what: str, rule: Any, argument: str) -> None:
        self.what, self.rule, self.argument = what, rule, argument

    def error(self, words: str, fix: str) -> CustomRuleError:
        return CustomRuleError(
            f"{self.what} {words} for {self.argument}.", fix, place=home(self.rule)
        )


def _array_aval(what: str, rule: Any, name: str, x: Any) -> ShapedArray:
    _, tree = tree_flatten(x)
    if tree.children() or tree.num_leaves != 1:
        raise CustomRuleError(
            f"{what} is given a function of which {name} is a container, not an array.",
            "Use jvp or vjp rules for containers.",
            place=home(rule),
        )
    return strengthen(typeof(x))


def _product(place: _Place, J: Any, t: Any, x: ShapedArray, y: ShapedArray) -> Any:
    """A Jacobian times a tangent."""
    if isinstance(J, Products):
        return _products(place, J, t, x, y)
    if isinstance(J, Diagonal):
        d = typeof(J.d)
        if x.shape != y.shape or d.shape not in ((), y.shape):
            raise place.error(
                f"returned Diagonal({d}), where the result is {y} and the argument {x},",
                "A diagonal, the result and the argument have one shape.",
            )
        return fnp.multiply(J.d, t)
    dense = typeof(J)
    if dense.shape != y.shape + x.shape:
        raise place.error(
            f"returned {dense}, not {y.shape + x.shape},",
            "A dense Jacobian has the axes of the result, then those of the argument; return "
            "Diagonal(d) for one that is zero off the diagonal.",
        )
    return fnp.tensordot(J, t, axes=len(x.shape)) if x.shape else fnp.multiply(J, t)


def _is_value(x: Any) -> bool:
    return is_array(x) or is_captured(x)


def _products(place: _Place, J: Products, t: Any, x: ShapedArray, y: ShapedArray) -> Any:
    """The user's products as one linear operation; what they close over are its residuals."""
    closure = Closure((J.left, J.right), _is_value)
    n = len(closure.values)

    def use(index: int, wanted: ShapedArray) -> Callable[..., list[Any]]:
        def product(*flat: Any, **static: Any) -> list[Any]:
            fn = closure.bind([frozen(v) for v in flat[:n]])[index]
            out = fn(frozen(flat[n]))
            if strengthen(typeof(out)) != wanted:
                side = ("left", "right")[index]
                raise place.error(
                    f"has a {side} product that returned {typeof(out)}, not {wanted},",
                    "left returns the type of the argument, right that of the result.",
                )
            return [out]

        return product

    if J.left is None:
        return use(1, y)(*closure.values, t)[0]
    push = {} if J.right is None else {"push": use(1, y)}
    bwd = use(0, x)
    return custom_lin(*closure.values, t, bwd=bwd, active=(True,), out_avals=(y,), **push)[0]

"""`ftrace.custom_derivatives`: users' derivative rules in the module where JAX has them."""

from collections.abc import Callable
from typing import Any

from ftrace.api.rules.custom import custom_jvp as custom_jvp
from ftrace.api.rules.custom import custom_vjp as custom_vjp
from ftrace.api.rules.custom_gradient import closure_convert as closure_convert
from ftrace.api.rules.custom_gradient import custom_gradient as custom_gradient
from ftrace.api.rules.custom_rule import Products, custom_rule
from ftrace.core.arguments import explain as _explain
from ftrace.core.avals import typeof
from ftrace.core.jax_names import refusing as _refusing
from ftrace.core.zero import SymbolicZero as SymbolicZero


def linear_call(
    fun: Callable[[Any, Any], Any],
    fun_transpose: Callable[[Any, Any], Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """Call a function that is linear in its second argument, with its transpose.

    Args:
        fun: `(residuals, x) -> y`, linear in x.
        fun_transpose: `(residuals, ct) -> cotangent of x`.
        residual_args: what it is not linear in, an array or a container of arrays; it is constant
            under differentiation.
        linear_args: the array x.

    Returns:
        The array `fun(residual_args, linear_args)`, whose tangent is `fun` of the tangent and whose
        cotangent is `fun_transpose` of the cotangent.

    Raises:
        CustomRuleError: x or y is a container, or a function returns another shape or dtype.
        UnexpectedTracerError: a residual is differentiated, too.

    Example:
        >>> import ftrace
        >>> from ftrace.custom_derivatives import linear_call
        >>> def divided(x, by):
        ...     return linear_call(lambda r, x: x / r, lambda r, ct: ct / r, by, x)
        >>> float(ftrace.grad(divided)(3.0, 4.0))
        0.25
    """
    rule = custom_rule(
        lambda x: fun(residual_args, x),
        jacobian=lambda y, x: Products(
            left=lambda ct: fun_transpose(residual_args, ct),
            right=lambda t: fun(residual_args, t),
        ),
    )
    return rule(linear_args)


def zero_from_primal(primal: Any, symbolic_zeros: bool = False) -> Any:
    """A zero tangent for a value.

    Args:
        primal: an array or a number.
        symbolic_zeros: as `SymbolicZero`, not as an array of zeros.

    Example:
        >>> from ftrace.custom_derivatives import zero_from_primal
        >>> zero_from_primal(2.0)
        np.float64(0.0)
    """
    from ftrace.interpreters.tangents import zeros

    return SymbolicZero(typeof(primal)) if symbolic_zeros else zeros(typeof(primal))


_explain(globals())
__getattr__ = _refusing("custom_derivatives")

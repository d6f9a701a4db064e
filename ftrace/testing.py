"""Checking derivatives against numerical ones: of functions, and of the rules that users write.

A derivative is tried along random directions, so that a check costs a few calls of the function
however many arguments it has. Central differences are extrapolated (Ridders 1982, "Accurate
computation of F'(x) and F'(x)F''(x)", after Richardson) and say how far they can be trusted;
reverse mode is compared with them by the dot-product test, <c, J t> = <J^T c, t>.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ftrace.api.calls import brief, check_callable, name_of
from ftrace.api.derivatives.verifying import MODES, Check
from ftrace.core.errors import DtypeError

Function = Callable[..., Any]


def check_grads(  # noqa: PLR0913 - JAX's signature
    f: Function,
    args: Sequence[Any],
    order: int = 1,
    modes: str | Iterable[str] = MODES,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare the derivatives of a function with numerical ones.

    Args:
        f: function of floats and arrays `Inexact[Array, "..."]`, or containers of them. Integers
            and what is no number stay as they are.
        args: a tuple of arguments.
        order: of the highest derivative; each order is that of a derivative in a random direction.
        modes: "fwd", "rev" or both.
        atol, rtol: how far apart values may be; by the least precise dtype if not given (1e-6 for
            float64, 5e-3 for float32).
        eps: the largest step of differences, relative to the size of each number.

    Raises:
        DerivativeError: a derivative is wrong, an AssertionError; or differences are too unstable
            to tell, as at a kink.
        DtypeError: an option is none of these.

    Example:
        >>> import numpy as np
        >>> from ftrace.testing import check_grads
        >>> check_grads(lambda x: np.sin(x) * x, (np.linspace(0.0, 1.0, 3),), order=2)

    Source: the names and arguments are those of `jax.test_util.check_grads`.
    """
    check_callable(f, "check_grads")
    if not issubclass(type(args), tuple | list):
        raise DtypeError(
            f"check_grads takes a tuple of arguments, and was given {brief(args)}.",
            "Write `check_grads(f, (x,))` for a function of one argument.",
        )
    wanted = _modes(modes)
    if type(order) is not int or order < 1:
        raise DtypeError(
            f"order must be a positive integer, not {brief(order)}.", "First derivatives: order=1."
        )
    check = Check(atol, rtol, eps)
    check.orders(f, tuple(args), wanted, order, name_of(f))


def check_derivatives(
    f: Function, *args: Any, order: int = 1, modes: str | Iterable[str] = MODES, **options: Any
) -> None:
    """`check_grads(f, args, order, modes, ...)`, with the arguments as the function takes them.

    Args:
        f: as in `check_grads`.
        *args: where the derivatives are compared.
        order, modes: as in `check_grads`.
        **options: `atol`, `rtol`, `eps` of `check_grads`.

    Raises:
        DerivativeError: a derivative is wrong, or differences are too unstable to tell.

    Example:
        >>> import numpy as np
        >>> from ftrace.testing import check_derivatives
        >>> check_derivatives(np.arctan2, 1.0, 2.0, order=3)
    """
    check_grads(f, args, order, modes, **options)


def check_jvp(
    f: Function,
    f_jvp: Function,
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare a forward rule with numerical derivatives.

    Args:
        f: as in `check_grads`.
        f_jvp: `(primals, tangents) -> (result, tangent)`, as `partial(ftrace.jvp, f)`.
        args, atol, rtol, eps: as in `check_grads`.

    Raises:
        DerivativeError: the result or its tangent is wrong.

    Example:
        >>> import numpy as np
        >>> from ftrace.testing import check_jvp
        >>> check_jvp(np.sin, lambda x, t: (np.sin(*x), np.cos(*x) * t[0]), (0.5,))
    """
    check = Check(atol, rtol, eps)
    check.forward(f, f_jvp, tuple(args), name_of(f))


def check_vjp(
    f: Function,
    f_vjp: Function,
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare a reverse rule with numerical derivatives.

    Args:
        f: as in `check_grads`.
        f_vjp: `(*primals) -> (result, pullback)`, as `partial(ftrace.vjp, f)`.
        args, atol, rtol, eps: as in `check_grads`.

    Raises:
        DerivativeError: the result or its cotangents are wrong.

    Example:
        >>> import numpy as np
        >>> from ftrace.testing import check_vjp
        >>> check_vjp(np.sin, lambda x: (np.sin(x), lambda ct: (np.cos(x) * ct,)), (0.5,))
    """
    check = Check(atol, rtol, eps)
    check.reverse(f, f_vjp, tuple(args), name_of(f))


def test_rule(
    rule: Function,
    *args: Any,
    order: int = 2,  # noqa: PT028 - no test of pytest's
    **options: Any,
) -> None:
    """Check a function with a rule of the user's: `custom_jvp`, `custom_vjp`, `custom_rule` ...

    Its result under a derivative is compared with its result alone, its derivatives in all modes
    that it has with numerical ones, and both with those of a batch (`vmap`).

    Args:
        rule: the decorated function. What it writes (`custom_jvp(mutates=)`) is a result, too.
        *args: where to check it: typical arguments, away from kinks.
        order: of the highest derivative.
        **options: `modes`, `atol`, `rtol`, `eps` of `check_grads`.

    Raises:
        DerivativeError: the rule is wrong.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.testing import test_rule
        >>> @ftrace.custom_jvp
        ... def cube(x):
        ...     return x**3
        >>> cube.defjvps(lambda t, y, x: 2.0 * x**2 * t)
        >>> test_rule(cube, 2.0)
        Traceback (most recent call last):
        ftrace.core.errors.DerivativeError: ...
    """
    if getattr(rule, "mutates", ()):
        rule = rule.pure  # type: ignore[attr-defined] # the state that it leaves is a result
    check_grads(rule, args, order, **options)
    atol, rtol, eps = (options.get(name) for name in ("atol", "rtol", "eps"))
    check = Check(atol, rtol, eps)
    check.batch(rule, args, name_of(rule))


test_rule.__test__ = False  # type: ignore[attr-defined] # no test of pytest's


def _modes(modes: Any) -> tuple[str, ...]:
    found = (modes,) if type(modes) is str else tuple(modes)
    if not found or any(mode not in MODES for mode in found):
        raise DtypeError(
            f"modes must be among {MODES}, not {brief(modes)}.", 'Give "fwd", "rev", or both.'
        )
    return found

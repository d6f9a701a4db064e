"""`pure_callback` and `io_callback`: host functions of arrays inside transformed programs."""

from collections.abc import Callable
from typing import Any, Literal

from ftrace.api.calls import brief, check_callable
from ftrace.control.functions import argument_avals, flatten_call
from ftrace.control.rules.host_calls import (
    VMAP_METHODS,
    host_of,
    io_callback_call,
    pure_callback_call,
)
from ftrace.core.errors import CallbackError

VmapMethod = Literal["sequential", "expand_dims", "broadcast_all", "legacy_vectorized"]


def check_vmap_method(what: str, method: Any) -> None:
    """Raise `CallbackError` unless `method` names a way of mapping a host function."""
    if method not in VMAP_METHODS:
        raise CallbackError(
            f"vmap_method of {what} must be one of {', '.join(map(repr, VMAP_METHODS))}, not "
            f"{brief(method)}.",
            'Leave it out for "sequential", which is always right: one call per member.',
        )


def pure_callback(
    fn: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: VmapMethod = "sequential",
    **kwargs: Any,
) -> Any:
    """Call a host function without effects from anywhere in a program.

    Args:
        fn: function of NumPy arrays (scalars for rank 0), which it must not write. It may be
            called any number of times, or not at all where nobody reads its result.
        result_shape_dtypes: container of `ShapeDtypeStruct`s, or arrays, like `fn`'s result.
        *args, **kwargs: arrays, or containers of arrays.
        vmap_method: what `vmap` does: "sequential" calls `fn` once per member; "expand_dims" and
            "broadcast_all" call it once with a leading axis on every argument, of size 1 on those
            that are not mapped or of full size; "legacy_vectorized" once with a leading axis on
            the mapped ones only. `fn` then returns results with a leading axis.

    Returns:
        A copy of `fn`'s result.

    Raises:
        CallbackError: the result differs from what was promised.
        RuleError: a derivative through the call was asked for; `ftrace.external` takes rules.

    Example:
        >>> import numpy as np, ftrace
        >>> sinc = lambda x: ftrace.pure_callback(np.sinc, ftrace.ShapeDtypeStruct((), float), x)
        >>> ftrace.jit(ftrace.vmap(sinc))(np.array([0.0, 0.5]))
        array([1.        , 0.63661977])
    """
    check_callable(fn, "pure_callback")
    check_vmap_method("pure_callback", vmap_method)
    leaves, tree = flatten_call(args, kwargs)
    argument_avals(fn, leaves, tree)
    host = host_of("pure_callback", fn, tree, result_shape_dtypes, vmap_method=vmap_method)
    assert host.tree is not None
    return host.tree.unflatten(pure_callback_call(*leaves, host=host))


def io_callback(
    fn: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a host function for its effects: it runs once each time the program comes by.

    Args:
        fn: function of NumPy arrays (scalars for rank 0), which it must not write.
        result_shape_dtypes: container of `ShapeDtypeStruct`s, or arrays, like `fn`'s result; None
            for none.
        *args, **kwargs: arrays, or containers of arrays.
        ordered: whether the order among ordered calls matters. All calls run in program order
            now; it is what a backend that runs things side by side will keep to.

    Returns:
        A copy of `fn`'s result. Under `vmap`, with a mapped argument, `fn` runs once per member.

    Raises:
        CallbackError: the result differs from what was promised.
        RuleError: a derivative through the call was asked for.

    Example:
        >>> import numpy as np, ftrace
        >>> seen = []
        >>> @ftrace.jit
        ... def f(x):
        ...     ftrace.io_callback(lambda y: seen.append(float(y)), None, x * 2)
        ...     return x
        >>> float(f(3.0)), seen
        (3.0, [6.0])
    """
    check_callable(fn, "io_callback")
    leaves, tree = flatten_call(args, kwargs)
    argument_avals(fn, leaves, tree)
    host = host_of("io_callback", fn, tree, result_shape_dtypes)
    assert host.tree is not None
    return host.tree.unflatten(io_callback_call(*leaves, host=host, ordered=ordered))

"""`ftrace.custom_batching`: JAX's home of `custom_vmap` and `sequential_vmap`."""

from collections.abc import Callable
from typing import Any

from ftrace.api.rules.custom_vmap import custom_vmap as custom_vmap
from ftrace.control.scanning import map as _map
from ftrace.core.arguments import explain as _explain
from ftrace.core.jax_names import refusing as _refusing
from ftrace.core.tree import tree_flatten, tree_map


def _is_batched(on: Any) -> bool:
    """Whether a leaf of an argument is mapped."""
    return any(tree_flatten(on)[0])


def sequential_vmap(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose `vmap` calls it once for each member, one after the other.

    Args:
        f: function of arrays, or containers of arrays.

    Returns:
        The function; under `vmap` it is `ftrace.lax.map`.

    Example:
        >>> import numpy as np, ftrace
        >>> from ftrace.custom_batching import sequential_vmap
        >>> ftrace.vmap(sequential_vmap(lambda x: x * 2))(np.arange(3.0))
        array([0., 2., 4.])
    """
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: Any, *args: Any) -> Any:
        batched = [a for a, on in zip(args, in_batched, strict=True) if _is_batched(on)]

        def one(members: Any) -> Any:
            given = iter(members)
            pairs = zip(args, in_batched, strict=True)
            return f(*(next(given) if _is_batched(on) else a for a, on in pairs))

        found = _map(one, batched)
        return found, tree_map(lambda _: True, found)

    return mapped


_explain(globals())
__getattr__ = _refusing("custom_batching")

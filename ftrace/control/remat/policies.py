"""Policies of `checkpoint`: which intermediate values are kept for the backward pass.

A policy is asked about each equation whose value is known, `policy(prim, *avals, **params)`, and
answers whether the value may be kept; `prim.name` is the primitive's name. Only what the
derivative needs is kept, so a policy says what may, never what must. Names are JAX's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ftrace.core.avals import ShapedArray
from ftrace.core.errors import DtypeError
from ftrace.core.kinds import way
from ftrace.core.lower import Product
from ftrace.core.primitive import Primitive

Policy = Callable[..., bool]


def everything_saveable(prim: Primitive, *avals: ShapedArray, **params: Any) -> bool:
    """Keep all that the derivative needs, as without `checkpoint`.

    Example:
        >>> import ftrace
        >>> policies = ftrace.checkpoint_policies
        >>> f = ftrace.checkpoint(lambda x: x * x, policy=policies.everything_saveable)
        >>> float(ftrace.grad(f)(3.0))
        6.0
    """
    return True


def nothing_saveable(prim: Primitive, *avals: ShapedArray, **params: Any) -> bool:
    """Keep the inputs only: what `checkpoint` does without a policy.

    Example:
        >>> import ftrace
        >>> policies = ftrace.checkpoint_policies
        >>> f = ftrace.checkpoint(lambda x: x * x, policy=policies.nothing_saveable)
        >>> float(ftrace.grad(f)(3.0))
        6.0
    """
    return False


def dots_saveable(prim: Primitive, *avals: ShapedArray, **params: Any) -> bool:
    """Keep the results of matrix products and contractions.

    Example:
        >>> import numpy as np, ftrace
        >>> policies = ftrace.checkpoint_policies
        >>> f = ftrace.checkpoint(lambda x: np.sin(x @ x), policy=policies.dots_saveable)
        >>> float(ftrace.grad(f)(np.zeros(2))[0])
        0.0
    """
    return way(prim, Product) is not None


def dots_with_no_batch_dims_saveable(prim: Primitive, *avals: ShapedArray, **params: Any) -> bool:
    """Keep the results of contractions that have no batch axes: products with weights.

    Example:
        >>> import numpy as np, ftrace
        >>> policy = ftrace.checkpoint_policies.dots_with_no_batch_dims_saveable
        >>> f = ftrace.checkpoint(lambda x: np.sin(x @ x), policy=policy)
        >>> float(ftrace.grad(f)(np.zeros(2))[0])
        0.0
    """
    product = way(prim, Product)
    return product is not None and not any(product.dims(**params)[1])


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


@dataclass(frozen=True)
class ByName:
    """A policy that looks at the names of values.

    Attributes:
        name: its own.
        names: those it was given.
        among: whether a name has to be one of these, or none of these.
        nameless: whether values without a name may be kept. One that gets a name which may not be
            kept is refused before it gets it, too: else the same numbers would be kept nameless.
    """

    name: str
    names: frozenset[str]
    among: bool
    nameless: bool

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, prim: Primitive, *avals: ShapedArray, **params: Any) -> bool:
        """Whether a value may be kept."""
        if prim.label is None:
            return self.nameless
        return (prim.label(**params) in self.names) is self.among


def save_only_these_names(*names: str) -> Policy:
    """Keep values that `checkpoint_name` gave one of these names, and nothing else.

    Args:
        *names: names.

    Returns:
        A policy.

    Raises:
        DtypeError: a name that is not a string.

    Example:
        >>> import numpy as np, ftrace
        >>> policy = ftrace.checkpoint_policies.save_only_these_names("s")
        >>> f = lambda x: np.exp(ftrace.checkpoint_name(np.sin(x), "s"))
        >>> float(ftrace.grad(ftrace.checkpoint(f, policy=policy))(0.0))
        1.0
    """
    return ByName("save_only_these_names", _checked(names), among=True, nameless=False)


def save_any_names_but_these(*names: str) -> Policy:
    """Keep values that have a name, unless it is one of these; nothing without a name.

    Args:
        *names: names.

    Returns:
        A policy.

    Raises:
        DtypeError: a name that is not a string.

    Example:
        >>> import numpy as np, ftrace
        >>> policy = ftrace.checkpoint_policies.save_any_names_but_these("t")
        >>> f = lambda x: np.exp(ftrace.checkpoint_name(np.sin(x), "s"))
        >>> float(ftrace.grad(ftrace.checkpoint(f, policy=policy))(0.0))
        1.0
    """
    return ByName("save_any_names_but_these", _checked(names), among=False, nameless=False)


def save_anything_except_these_names(*names: str) -> Policy:
    """Keep all that the derivative needs but values with one of these names.

    Unlike JAX's policy, it also refuses the same value as it was before it got the name.

    Args:
        *names: names.

    Returns:
        A policy.

    Raises:
        DtypeError: a name that is not a string.

    Example:
        >>> import numpy as np, ftrace
        >>> policy = ftrace.checkpoint_policies.save_anything_except_these_names("s")
        >>> f = lambda x: np.exp(ftrace.checkpoint_name(np.sin(x), "s"))
        >>> float(ftrace.grad(ftrace.checkpoint(f, policy=policy))(0.0))
        1.0
    """
    return ByName("save_anything_except_these_names", _checked(names), among=False, nameless=True)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either of two policies would keep.

    Args:
        policy_1, policy_2: policies.

    Returns:
        A policy.

    Example:
        >>> import numpy as np, ftrace
        >>> p = ftrace.checkpoint_policies
        >>> policy = p.save_from_both_policies(p.dots_saveable, p.save_only_these_names("s"))
        >>> float(ftrace.grad(ftrace.checkpoint(np.sin, policy=policy))(0.0))
        1.0
    """

    def save_from_both_policies(prim: Primitive, *avals: ShapedArray, **params: Any) -> bool:
        return policy_1(prim, *avals, **params) or policy_2(prim, *avals, **params)

    return save_from_both_policies


def _checked(names: tuple[Any, ...]) -> frozenset[str]:
    for name in names:
        if not isinstance(name, str):
            raise DtypeError(
                f"A policy by names was given {name!r}, which is no name.",
                'Give strings, one by one: save_only_these_names("a", "b").',
            )
    return frozenset(names)

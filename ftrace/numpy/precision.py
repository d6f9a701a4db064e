"""`Precision`: accepted wherever JAX takes `precision=`, and checked, without any effect.

Products are always computed in the full precision of their operands' dtype, which is what
`Precision.HIGHEST` asks for. NumPy's products take `precision=` and `preferred_element_type=`, too.
"""

import enum
import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ftrace.core.dtypes import canonical
from ftrace.core.errors import DtypeError
from ftrace.core.trace import Tracer
from ftrace.numpy.promote import cast, value


class Precision(enum.Enum):
    """How precisely a product may be computed; every member means full precision here.

    Example:
        >>> import numpy as np, ftrace.lax as lax
        >>> x = np.array([1.0, 2.0])
        >>> float(lax.dot(x, x, precision=lax.Precision.DEFAULT))
        5.0
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


NAMES: Final = (
    *("default", "high", "highest", "fastest"),
    *("bfloat16", "bfloat16_3x", "tensorfloat32", "float32"),
)


def check_precision(name: str, precision: Any) -> None:
    """Raise unless this is a `Precision`, a name of one, a pair of these, or None.

    Raises:
        DtypeError: it is something else.
    """
    pair = precision if isinstance(precision, tuple | list) else (precision,) * 2
    known = [p is None or isinstance(p, Precision) or p in NAMES for p in pair]
    if len(pair) != 2 or not all(known):
        raise DtypeError(
            f"{name} was given the precision {precision!r}.",
            f"Use None, a lax.Precision, one of {', '.join(NAMES)}, or a pair of these for lhs "
            "and rhs.",
        )


def product(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A product of NumPy's that takes JAX's keywords, too.

    `precision` is checked and has no effect; with `preferred_element_type` the operands are
    converted to that dtype first, so that it is what is added up in and what comes out.
    """

    @functools.wraps(fn)
    def call(*args: Any, **options: Any) -> Any:
        if options:
            check_precision(fn.__name__, options.pop("precision", None))
            dtype = options.pop("preferred_element_type", None)
            if dtype is not None:
                args = tuple(_converted(a, canonical(dtype)) for a in args)
        return fn(*args, **options)

    call.__doc__ = (
        f"{fn.__doc__}\n\nAs in JAX, `precision` is accepted, without effect: products have full "
        "precision;\noperands are converted to `preferred_element_type` first."
    )
    return call


def _converted(x: Any, dtype: np.dtype[Any]) -> Any:
    """An operand in a dtype; subscripts, axes and numbers as they are."""
    if isinstance(x, Tracer) or issubclass(type(x), np.ndarray | np.generic):
        return cast(x, dtype)
    if type(x) in (list, tuple):
        return type(x)(_converted(v, dtype) for v in x)
    return cast(value(x), dtype) if hasattr(x, "__cuda_array_interface__") else x

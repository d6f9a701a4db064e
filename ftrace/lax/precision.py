"""`Precision`: accepted wherever JAX takes `precision=`, and checked, without any effect.

Products are always computed in the full precision of their operands' dtype, which is what
`Precision.HIGHEST` asks for.
"""

import enum
from typing import Any, Final

from ftrace.core.errors import DtypeError


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
            f"lax.{name} was given the precision {precision!r}.",
            f"Use None, a lax.Precision, one of {', '.join(NAMES)}, or a pair of these for lhs "
            "and rhs.",
        )

"""Python's `round(x, n)` of its own floats: to the decimal nearest to the exact value of `x`.

NumPy's rounds `x * 10**n`, which is itself rounded: 1.115 * 100 comes out as a little more than
111.5, though 1.115 is a little less than that. The two differ only where the product ends in .5,
and there the sign of what its rounding lost decides (T. J. Dekker, A floating-point technique for
extending the available precision, 1971).
"""

from typing import Any, Final

from ftrace.primitives.arithmetic import abs as absolute
from ftrace.primitives.arithmetic import div, mul, sub
from ftrace.primitives.compare import ceil, eq, floor, gt, lt, select
from ftrace.primitives.compare import round as nearest
from ftrace.primitives.convert import stop_gradient

MOST: Final = 300
"""Decimals; from 23 on, where no float holds the power of ten, the last digit may differ."""
_WHOLE: Final = 2.0**52  # from here on floats are whole numbers: `x` has no more decimals
_SPLIT: Final = 2.0**27 + 1


def nearest_decimal(x: Any, n: int) -> Any:
    """A float64 rounded to `n` decimals, half to even; `0 < abs(n) <= MOST`."""
    scale = 10.0 ** abs(n)
    if n < 0:
        y = div(x, scale)
        whole = mul(y, scale)
        found = mul(_chosen(y, sub(sub(x, whole), _lost(y, scale, whole))), scale)
    else:
        y = mul(x, scale)
        found = div(_chosen(y, _lost(x, scale, y)), scale)
    return select(lt(absolute(y), _WHOLE), found, stop_gradient(x))


def _chosen(y: Any, lost: Any) -> Any:
    """The whole number nearest to `y + lost`, where what is lost is less than `y` shows."""
    low = floor(y)
    decided = select(gt(lost, 0.0), ceil(y), select(lt(lost, 0.0), low, nearest(y)))
    return select(eq(sub(y, low), 0.5), decided, nearest(y))


def _lost(x: Any, scale: float, product: Any) -> Any:
    """`x * scale` less the product as it was rounded."""
    c = mul(x, _SPLIT)
    upper = sub(c, sub(c, x))
    lower = sub(x, upper)
    high = _SPLIT * scale - (_SPLIT * scale - scale)
    low = scale - high
    rest = sub(sub(sub(product, mul(upper, high)), mul(lower, high)), mul(upper, low))
    return sub(mul(lower, low), rest)

"""Assignment by rows: the array that `x` is after `x[key] = v`, and what NumPy converts on the way.

The value is converted to the array's dtype and broadcast to what the key names; a mask with one
value is a choice and needs no known mask. Keys are understood by `indexing.py`; `cells.py` makes
writes of it.
"""

from typing import Any

import numpy as np

from ftrace.core.avals import typeof
from ftrace.core.device import is_array
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.trace import Tracer
from ftrace.numpy.indexing import Basic, Plan, Shape, plan
from ftrace.numpy.masking import MaskedPlan, Selection, refused
from ftrace.numpy.promote import cast, stretch, value
from ftrace.primitives.elementwise import select
from ftrace.primitives.linear import broadcast_in_dim
from ftrace.primitives.shape import reshape


def assignable(v: Any, dtype: np.dtype[Any]) -> Any:
    """A value in the dtype of the array it is stored in, as NumPy's assignment converts."""
    if type(v) is Selection:
        return v.with_whole(assignable(v.whole, dtype))
    v = value(v, dtype)
    a = typeof(v)
    if a.dtype.kind == "c" and dtype.kind not in "cb":
        raise DtypeError(
            f"A complex value ({a}) cannot be stored in an array of {dtype}.",
            "Store its `.real`, or make the array complex.",
        )
    return cast(v, dtype)


def fit(v: Any, shape: Shape) -> Any:
    """A value as assignment broadcasts it: leading axes of size 1 fall away; rank 0 is left.

    Raises:
        ShapeError: where it does not fit.
    """
    own = typeof(v).shape
    if not own:
        return v
    extra = max(len(own) - len(shape), 0)
    fits = all(n == 1 for n in own[:extra]) and all(
        n in (1, m) for n, m in zip(own[extra:][::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(
            f"could not broadcast input array from shape {own} into shape {shape}",
            "The stored value must have the shape of what is indexed, or broadcast to it.",
        )
    return stretch(reshape(v, new_sizes=own[extra:]) if extra else v, shape)


def setitem_value(x: Any, key: Any, v: Any) -> Any:
    """The array that `x` is after `x[key] = v`; `x` is left alone."""
    a = typeof(x)
    v = assignable(v, a.dtype)
    if type(key) is tuple and len(key) == 1:
        (key,) = key
    if is_mask(key) and type(v) is not Selection:
        chosen = _masked(x, key, v)
        if chosen is not None:
            return chosen
    found = plan(a.shape, key)
    if isinstance(found, Basic) and found.element and type(v) is not Selection and typeof(v).shape:
        raise ShapeError(
            f"setting an array element with a sequence: a value of shape {typeof(v).shape}.",
            "One element takes a value of rank 0: `v[0]`, or index with a slice.",
        )
    return found.put(x, fitted(v, found))


def fitted(v: Any, found: Plan) -> Any:
    """A value as a plan takes it: broadcast, where it is known what the key names."""
    if isinstance(found, MaskedPlan):
        return v
    if type(v) is Selection:
        raise refused(v.mask, "it was stored with a key that is no traced mask")
    return fit(v, found.shape)


def is_mask(key: Any) -> bool:
    """Whether a key is one boolean array."""
    array = isinstance(key, Tracer) or is_array(key)
    return array and key.dtype == np.bool_


def _masked(x: Any, mask: Any, v: Any) -> Any:
    """`x[mask] = v` as a choice, which needs no values of the mask.

    None where `v` may have a row for each chosen element.
    """
    a, shape = typeof(x), mask.shape
    rest = a.shape[len(shape) :]
    if a.shape[: len(shape)] != shape or typeof(v).ndim > len(rest):
        return None
    v = fit(v, rest)
    mask = broadcast_in_dim(mask, shape=a.shape, broadcast_dimensions=tuple(range(len(shape))))
    return select(mask, stretch(v, a.shape) if typeof(v).shape else v, x)

"""What samplers are given: keys, shapes, dtypes, parameters. A mistake is named before tracing."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace.core import dtypes
from ftrace.core.avals import typeof
from ftrace.core.device import to_host
from ftrace.core.dtypes import float32
from ftrace.core.errors import ConcretizationTypeError, DomainError, DtypeError, ShapeError
from ftrace.core.trace import Tracer, numbers
from ftrace.numpy.promote import cast, value
from ftrace.random.threefry import WORD

Shape = tuple[int, ...]

_MAKE = "Make one with ftrace.random.PRNGKey(seed), and new ones from it with split."


def checked_key(name: str, key: Any) -> Any:
    """A key: two words.

    Raises:
        DtypeError: something that is no uint32 array.
        ShapeError: several keys, or none.
    """
    try:
        a = typeof(key)
    except DtypeError:
        what = type(key).__name__
        raise DtypeError(f"random.{name} was given a {what} as its key.", _MAKE) from None
    if a.dtype != WORD:
        raise DtypeError(f"random.{name} was given {a} as its key, not uint32[2].", _MAKE)
    if a.shape != (2,):
        several = a.ndim > 1 and a.shape[-1] == 2
        raise ShapeError(
            f"random.{name} takes one key, uint32[2], and was given {a}.",
            "Map it over several keys with ftrace.vmap." if several else _MAKE,
        )
    return key


def checked_shape(name: str, shape: Any, *parameters: Shape) -> Shape:
    """The shape of the samples; None is what the parameters broadcast to.

    Raises:
        DtypeError: no sequence of integers.
        ShapeError: parameters that do not broadcast to it, or a negative size.
    """
    try:
        wanted = np.broadcast_shapes(*parameters)
    except ValueError:
        shapes = " and ".join(map(str, parameters))
        raise ShapeError(
            f"random.{name} was given parameters of shapes {shapes}, which do not broadcast.",
            "Axes are aligned at the last one; each pair must be equal or have a 1.",
        ) from None
    if shape is None:
        return wanted
    found = _sizes(name, shape)
    try:
        fits = np.broadcast_shapes(found, wanted) == found
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"random.{name} was given shape={found} and parameters of shape {wanted}, which do "
            "not broadcast to it.",
            f"`shape` is that of the whole result: end it with {wanted}, or leave it out.",
        )
    return found


def _sizes(name: str, shape: Any) -> Shape:
    parts = (
        shape
        if issubclass(type(shape), Sequence | np.ndarray) and type(shape) is not bytes
        else (shape,)
    )
    try:
        found = tuple(int(n.__index__()) for n in parts)  # pyright: ignore - not of bytes
    except ConcretizationTypeError:
        raise  # a traced size
    except (AttributeError, TypeError):
        raise DtypeError(
            f"random.{name} was given shape={shape!r}, which is no tuple of integers.",
            "Give the sizes as Python ints: shape=(2, 3).",
        ) from None
    if any(n < 0 for n in found):
        raise ShapeError(
            f"random.{name} was given shape={found} with a negative size.", "Sizes count from 0."
        )
    return found


_KINDS = {
    "f": "a float",
    "fc": "a float or complex",
    "ifc": "a signed, float or complex",
    "iu": "an integer",
    "u": "an unsigned",
}


def checked_dtype(name: str, dtype: Any, kinds: str = "f") -> np.dtype[Any]:
    """The dtype of the samples.

    Raises:
        DtypeError: it is of no kind that the sampler has.
    """
    found = dtypes.canonical(dtype)
    if found.kind not in kinds:
        raise DtypeError(
            f"random.{name} was given dtype={found}, which is not {_KINDS[kinds]} dtype.",
            "Convert the samples with astype, or leave dtype out.",
        )
    return found


def parameter(name: str, x: Any, dtype: np.dtype[Any], what: str) -> Any:
    """A parameter in the dtype of the samples.

    Raises:
        DtypeError: it is complex, or no number.
    """
    found = value(x)
    a = typeof(found)
    if a.dtype.kind not in "biuf":
        raise DtypeError(
            f"random.{name} was given {what}={a}, which is not real.", "Give a real number."
        )
    return cast(found, dtype)


def refuse(name: str, what: str, x: Any, wrong: Callable[[Any], Any], how: str) -> None:
    """Raise `DomainError` for a parameter whose values are known and make no distribution."""
    if not isinstance(x, Tracer) and np.any(wrong(to_host(x))):
        raise DomainError(
            f"random.{name} was given {what}={numbers(x)}, and a value there is {how}.",
            f"Give values that are not {how}.",
        )


def drawn(
    name: str, body: Callable[..., Any], key: Any, shape: Any, dtype: Any, **parameters: Any
) -> Any:
    """Samples of a program of a key and parameters, whose arguments are checked.

    Samples of float16 are float32's, rounded.
    """
    found = checked_dtype(name, dtype)
    wide = max(found, float32, key=lambda d: d.itemsize)
    given = [parameter(name, x, wide, what) for what, x in parameters.items()]
    sizes = checked_shape(name, shape, *(typeof(x).shape for x in given))
    samples = body(checked_key(name, key), *given, shape=sizes, dtype=wide)
    return cast(samples, found)

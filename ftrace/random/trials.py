"""Samples by rejection: every element tries until it accepts, by itself, inside one kernel.

An element has a key of its own (as `split` gives it), and its trial t reads the bits of the
counter (stream, t) under that key. So it is independent of how many trials its neighbours need.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ftrace.control.rows.vectorized import vectorize_call
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.jaxpr import Jaxpr
from ftrace.interpreters.staging import trace_closed
from ftrace.numpy.promote import cast, stretch
from ftrace.primitives.convert import bitcast_convert_type
from ftrace.random.quantiles import normal_quantile
from ftrace.random.threefry import WORD, Pair, joined, threefry
from ftrace.random.uniforms import between

_LONG = np.dtype(np.uint64)
_ONE = np.float64(1)


def everywhere(fun: Callable[..., Any], *operands: Any) -> Any:
    """A function of numbers at every place of arrays of one shape."""
    shape = np.broadcast_shapes(*(typeof(x).shape for x in operands))
    jaxpr = _scalar(fun, tuple(aval((), typeof(x).dtype) for x in operands))
    given = [stretch(x, shape) for x in operands]
    return vectorize_call(*given, jaxpr=jaxpr, active=(), keep="auto")[0]


@functools.cache
def _scalar(fun: Callable[..., Any], avals: tuple[ShapedArray, ...]) -> Jaxpr:
    return trace_closed(lambda *xs: [fun(*xs)], avals)


def unit(key: Pair, trial: Any, stream: int = 0) -> Any:
    """The float64 in [0, 1) of a trial."""
    word = joined(threefry(key, (np.uint32(stream), cast(trial, WORD))), _LONG)
    bits = word >> np.uint64(12) | _ONE.view(_LONG)
    return bitcast_convert_type(bits, new_dtype=np.dtype(np.float64)) - _ONE


def open_unit(key: Pair, trial: Any, stream: int = 0) -> Any:
    """The float64 in (0, 1] of a trial."""
    return _ONE - unit(key, trial, stream)


def deviate(key: Pair, trial: Any, stream: int = 0) -> Any:
    """The standard normal float64 of a trial."""
    low = -np.nextafter(_ONE, np.float64(0))
    return normal_quantile(between(unit(key, trial, stream), low, _ONE))

"""Rows that make arrays from nothing: `iota`.

They have no operands, so they have no tangents and are never mapped. Constants are no rows: an
array of one number is a broadcast scalar (linear.py), other arrays are constants of the jaxpr.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval
from ftrace.core.device import free
from ftrace.core.errors import AxisError, DtypeError
from ftrace.core.lower import Moving
from ftrace.core.primitive import NONDIFFERENTIABLE, ErrorSample, Primitive, Sample, smooth
from ftrace.primitives import elements
from ftrace.primitives.linear import NO_TRANSPOSE


def _iota_type(*, dtype: np.dtype[Any], shape: tuple[int, ...], dimension: int) -> ShapedArray:
    if not 0 <= dimension < len(shape):
        raise AxisError(f"iota: {dimension} is not an axis of shape {shape}.", "Use 0 .. ndim - 1.")
    if dtype.kind == "b":
        raise DtypeError("iota counts: it has no boolean form.", "Compare an integer iota.")
    return aval(shape, dtype)


def _iota_impl(dtype: np.dtype[Any], shape: tuple[int, ...], dimension: int) -> Any:
    counted = np.arange(shape[dimension]).astype(dtype)
    if len(shape) == 1:
        return free(counted)
    out = np.empty(shape, dtype)
    out[...] = counted.reshape(-1, *(1,) * (len(shape) - dimension - 1))
    return free(out)


def _iota_samples() -> Iterable[Sample]:
    for name, shape, dimension in (
        ("f8", (3,), 0),
        ("i8", (2, 3), 1),
        ("u1", (2, 3), 0),
        ("f4", (2, 3, 2), 1),
        ("c16", (4,), 0),
        ("i4", (0, 2), 1),
    ):
        yield Sample((), {"dtype": np.dtype(name), "shape": shape, "dimension": dimension})


def _iota_errors() -> Iterable[ErrorSample]:
    beyond = {"dtype": np.dtype("f8"), "shape": (3,), "dimension": 1}
    yield ErrorSample((), beyond, AxisError, "is not an axis of shape")
    boolean = {"dtype": np.dtype("?"), "shape": (3,), "dimension": 0}
    yield ErrorSample((), boolean, DtypeError, "no boolean form")


iota = Primitive(
    name="iota",
    lower=Moving(elements.iota, "axes"),
    impl=_iota_impl,
    type=_iota_type,
    jvp=NONDIFFERENTIABLE,
    decides=smooth,
    transpose=NO_TRANSPOSE,
    batch=lambda axis, values, dims, **params: (iota(**params), None),
    samples=_iota_samples,
    errors=_iota_errors,
    doc="An array that counts 0, 1, 2, ... along one axis.",
)

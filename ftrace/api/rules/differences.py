"""Derivatives of opaque functions by calling them: finite differences, columns and rows.

Everything here runs on the host, on NumPy arrays. The functions made here take flat residuals
(arguments, then results) and tangents or cotangents, like the rules that they stand for.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np

from ftrace.control.rules.host_calls import Host
from ftrace.core.avals import ShapedArray
from ftrace.core.dtypes import is_inexact
from ftrace.core.errors import CallbackError, CustomRuleError
from ftrace.core.tree import tree_flatten, tree_mismatch

FD_METHODS: Final = ("central", "complex-step")
COMPLEX_STEP: Final = 1e-20

Flat = Callable[..., list[Any]]


class OpaqueCall(Protocol):
    """What is known of a call of an opaque function."""

    external: Any
    host: Host
    avals: list[ShapedArray]
    ins: tuple[ShapedArray, ...]
    outs: tuple[ShapedArray, ...]

    def flat_vjp(self, *values: Any) -> list[Any]:
        """The user's vjp rule."""
        ...


def difference(call: OpaqueCall) -> Flat:
    """The derivative in one direction: two calls of the function, or one with a complex step."""
    if call.external.fd == "complex-step":
        _check_real(call, "A complex step", call.ins + call.outs)
        return lambda *values: _complex_step(call, values)
    return lambda *values: _central(call, values)


def _step(x: Any, t: Any) -> float:
    """How far a direction may be followed until an element has moved by its magnitude, or by 1."""
    x, t = np.abs(np.asarray(x, np.complex128)), np.abs(np.asarray(t, np.complex128))
    moving = t > 0
    if not moving.any():
        return np.inf
    return float(np.min(np.maximum(1.0, x[moving]) / t[moving]))


def _central(call: OpaqueCall, values: Sequence[Any]) -> list[Any]:
    primals, tangents = _split(call, values)
    eps = max(float(np.finfo(a.dtype).eps) for a in (*call.ins, *call.outs))
    reach = min(map(_step, _floats(call, primals), tangents))
    if not np.isfinite(reach):
        return [np.zeros(a.shape, a.dtype) for a in call.outs]
    step = 2.0 ** np.floor(np.log2(eps ** (1 / 3) * reach))  # a power of two: x + step is exact
    ahead = _results(call, _moved(call, primals, tangents, step))
    behind = _results(call, _moved(call, primals, tangents, -step))
    return [
        np.asarray((np.asarray(a) - np.asarray(b)) / (2 * step), out.dtype)
        for a, b, out in zip(ahead, behind, call.outs, strict=True)
    ]


def _complex_step(call: OpaqueCall, values: Sequence[Any]) -> list[Any]:
    primals, tangents = _split(call, values)
    reach = min(map(_step, _floats(call, primals), tangents))
    if not np.isfinite(reach):
        return [np.zeros(a.shape, a.dtype) for a in call.outs]
    step = COMPLEX_STEP * reach
    found = _results(call, _moved(call, primals, tangents, step * 1j))
    for y in found:
        if not np.iscomplexobj(y):
            raise CallbackError(
                f'{call.host.what} was called with complex arguments for fd="complex-step" and '
                f"returned {np.asarray(y).dtype}.",
                'It must compute with complex numbers throughout; use fd="central" if it does not.',
                place=call.host.place,
            )
    return [
        np.asarray(np.imag(y) / step, out.dtype) for y, out in zip(found, call.outs, strict=True)
    ]


def _split(call: OpaqueCall, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    n = len(call.avals)
    return values[:n], values[n + len(call.host.results) :]


def _floats(call: OpaqueCall, primals: Sequence[Any]) -> list[Any]:
    return [x for x, a in zip(primals, call.avals, strict=True) if is_inexact(a.dtype)]


def _moved(
    call: OpaqueCall, primals: Sequence[Any], tangents: Sequence[Any], step: complex
) -> list[Any]:
    """The arguments, moved by `step` times the direction; complex where the step is."""
    supply: Iterator[Any] = iter(tangents)
    moved: list[Any] = []
    for x, a in zip(primals, call.avals, strict=True):
        if is_inexact(a.dtype):
            dtype = np.result_type(a.dtype, np.complex64) if np.iscomplexobj(step) else a.dtype
            x = (np.asarray(x) + step * np.asarray(next(supply))).astype(dtype)[()]
        elif issubclass(type(x), np.ndarray):
            x = x.copy()
        moved.append(x)
    return moved


def _results(call: OpaqueCall, primals: Sequence[Any]) -> list[Any]:
    """The results that have tangents, at other arguments."""
    leaves, tree = tree_flatten(call.host.flat(*primals))
    promised = call.host.results
    words = tree_mismatch(call.host.tree, tree, "result")
    shapes = [np.shape(x) for x in leaves]
    if words or shapes != [a.shape for a in promised]:
        raise CallbackError(
            f"{call.host.what} returned another result at arguments nearby: "
            f"{words or f'shapes {shapes}'}.",
            "Finite differences need the same containers and shapes everywhere.",
            place=call.host.place,
        )
    return [np.array(x) for x, a in zip(leaves, promised, strict=True) if is_inexact(a.dtype)]


# ---------------------------------------------------------------------------------- Jacobians


def columns(call: OpaqueCall, push: Flat, wanted: Sequence[bool]) -> Flat:
    """The transpose of `push`, from one call of it for each element of the wanted arguments."""
    _check_real(call, "Reverse mode without a vjp rule", call.ins)

    def pull(*values: Any) -> list[Any]:
        n = len(values) - len(call.outs)
        residuals, cts = values[:n], values[n:]
        found: list[Any] = []
        for k, (a, w) in enumerate(zip(call.ins, wanted, strict=True)):
            if w:
                parts = [_dot(cts, push(*residuals, *e)).real for e in _units(call.ins, k)]
                found.append(np.array(parts, a.dtype).reshape(a.shape))
        return found

    return pull


def rows(call: OpaqueCall) -> Flat:
    """The user's vjp rule transposed: one call of it for each element of the results."""
    _check_real(call, "Forward mode without a jvp rule", call.ins + call.outs)

    def push(*values: Any) -> list[Any]:
        n = len(values) - len(call.ins)
        residuals, tangents = values[:n], values[n:]
        found: list[Any] = []
        for k, a in enumerate(call.outs):
            parts = [_dot(tangents, call.flat_vjp(*residuals, *e)) for e in _units(call.outs, k)]
            found.append(np.array(parts, a.dtype).reshape(a.shape))
        return found

    return push


def _units(avals: Sequence[ShapedArray], k: int) -> Iterator[list[Any]]:
    """Zeros of these types, with a one at each element of number `k` in turn."""
    for i in range(avals[k].size):
        unit = [np.zeros(a.shape, a.dtype) for a in avals]
        unit[k].reshape(-1)[i] = 1
        yield [u if u.ndim else u[()] for u in unit]


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return sum((np.sum(np.multiply(x, y)) for x, y in zip(a, b, strict=True)), np.float64(0))


def _check_real(call: OpaqueCall, what: str, avals: Sequence[ShapedArray]) -> None:
    bad = next((a for a in avals if a.dtype.kind == "c"), None)
    if bad is not None:
        raise CustomRuleError(
            f"{what} of {call.external.__name__}, an external function, was asked for with {bad} "
            "among its arguments and results; it works for real ones.",
            "Give the rule for this direction (jvp= or vjp=).",
            place=call.host.place,
        )

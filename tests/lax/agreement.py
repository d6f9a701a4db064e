"""Every transformation of a function of one array against plain evaluation and differences.

`COMPOSITIONS` holds, by name, functions of (f, x) that give a pair (actual, expected). Expected
values use `f` on plain arrays only, or a gradient that another entry checks.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace

Function = Callable[[Any], Any]
STEP = 1e-4


def weights(shape: tuple[int, ...]) -> Any:
    """Fixed weights without any symmetry."""
    return np.cos(np.arange(1.0, 1.0 + np.prod(shape, dtype=int)) ** 1.3).reshape(shape)


def direction(x: Any) -> Any:
    return np.sin(np.arange(1.0, 1.0 + x.size) ** 1.7).reshape(x.shape)


def scalar(f: Function) -> Function:
    """A scalar function that bends, so that derivatives of order two are not zero."""

    def total(x: Any) -> Any:
        y = f(x)
        return np.sum(np.sin(y) * weights(np.shape(y)))

    return total


def difference(f: Function, x: Any, v: Any) -> Any:
    """The derivative along v by central differences, extrapolated once."""

    def central(h: float) -> Any:
        return (f(x + h * v) - f(x - h * v)) / (2 * h)

    return (4 * central(STEP / 2) - central(STEP)) / 3


def gradient(f: Function, x: Any) -> Any:
    """All partial derivatives of a scalar function by differences."""
    units = np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([difference(f, x, unit) for unit in units]).reshape(x.shape)


def several(x: Any) -> Any:
    """Three points near x, stacked along the last axis."""
    return np.stack([x, x * 0.9 + 0.03 * direction(x), x - 0.02 * direction(x)], axis=-1)


def stacked(f: Function, xs: Any) -> Any:
    return np.stack([f(xs[..., i]) for i in range(xs.shape[-1])], axis=-1)


def mapped(f: Function) -> Function:
    return ftrace.vmap(f, in_axes=-1, out_axes=-1)


def _transposed(f: Function, x: Any) -> Any:
    y, pull = ftrace.vjp(f, x)
    w = weights(np.shape(y))
    (ct,) = pull(w[()] if np.ndim(y) == 0 else w)
    return ct, gradient(lambda z: np.sum(f(z) * w), x)


def _second_forward(f: Function, x: Any) -> Any:
    v, w = direction(x), direction(x)[::-1]

    def first(z: Any) -> Any:
        return ftrace.jvp(f, (z,), (v,))[1]

    return ftrace.jvp(first, (x,), (w,))[1], difference(first, x, w)


def _hessian(f: Function, x: Any) -> Any:
    g = ftrace.grad(scalar(f))
    units = np.eye(x.size).reshape(x.size, *x.shape)
    expected = np.stack([difference(g, x, unit) for unit in units], axis=-1)
    return ftrace.hessian(scalar(f))(x), expected.reshape(x.shape + x.shape)


def _order_two(f: Function, x: Any) -> Any:
    v = direction(x)
    g = ftrace.grad(scalar(f))
    twice = ftrace.grad(lambda z: np.sum(ftrace.grad(scalar(f))(z) * v))
    return twice(x), difference(g, x, v)


def _of_gradient(wrap: Callable[[Function], Function]) -> Callable[[Function, Any], Any]:
    return lambda f, x: (wrap(f)(x), gradient(scalar(f), x))


def _of_gradients(wrap: Callable[[Function], Function]) -> Callable[[Function, Any], Any]:
    def pair(f: Function, x: Any) -> Any:
        return wrap(f)(several(x)), stacked(lambda z: gradient(scalar(f), z), several(x))

    return pair


COMPOSITIONS: dict[str, Callable[[Function, Any], tuple[Any, Any]]] = {
    "jit": lambda f, x: (ftrace.jit(f)(x), f(x)),
    "vmap": lambda f, x: (mapped(f)(several(x)), stacked(f, several(x))),
    "jit of vmap": lambda f, x: (ftrace.jit(mapped(f))(several(x)), stacked(f, several(x))),
    "vmap of jit": lambda f, x: (mapped(ftrace.jit(f))(several(x)), stacked(f, several(x))),
    "jvp": lambda f, x: (
        ftrace.jvp(f, (x,), (direction(x),))[1],
        difference(f, x, direction(x)),
    ),
    "vjp": _transposed,
    "grad": _of_gradient(lambda f: ftrace.grad(scalar(f))),
    "jit of grad": _of_gradient(lambda f: ftrace.jit(ftrace.grad(scalar(f)))),
    "grad of jit": _of_gradient(lambda f: ftrace.grad(scalar(ftrace.jit(f)))),
    "grad of checkpoint": _of_gradient(lambda f: ftrace.grad(scalar(ftrace.checkpoint(f)))),
    "vmap of grad": _of_gradients(lambda f: mapped(ftrace.grad(scalar(f)))),
    "jit of vmap of grad": _of_gradients(lambda f: ftrace.jit(mapped(ftrace.grad(scalar(f))))),
    "jvp of jvp": _second_forward,
    "hessian": _hessian,
    "grad of grad": _order_two,
}


def assert_agrees(name: str, f: Function, x: Any) -> None:
    """A composition gives what plain evaluation gives, up to the error of differences."""
    actual, expected = COMPOSITIONS[name](f, x)
    np.testing.assert_allclose(actual, expected, rtol=2e-7, atol=2e-7)

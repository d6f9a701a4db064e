"""Programs as a large GPU would run them, planned on a machine that has none.

Shapes are those of real work: nothing is allocated, arguments are `ShapeDtypeStruct`s.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ftrace
from ftrace import numpy as fnp
from ftrace import vectorize, vjp
from ftrace.gpu.gpu_backend import gpu_backend
from ftrace.gpu.runtime.kernels import Planned, plan_kernels
from ftrace.lowering.program.cost import cost
from ftrace.lowering.program.program import Program


@dataclass(frozen=True)
class Chip:
    """What planning asks of a device; an H200's numbers."""

    arch: str = "sm_90"
    processors: int = 132
    shared: int = 48 << 10


H200 = Chip()


def array(*shape: int, dtype: Any = np.float32) -> Any:
    """An argument without elements."""
    return ftrace.ShapeDtypeStruct(shape, np.dtype(dtype))


def planned(f: Callable[..., Any], *args: Any) -> Program:
    """The program of a function on a GPU."""
    return gpu_backend().plan(ftrace.jit(f).trace(*args))


def kernels(program: Program, device: Any = H200) -> list[Planned]:
    """Its kernels on a device."""
    return plan_kernels(program, device)


def traffic(program: Program, device: Any = H200) -> int:
    """Bytes that kernels read and write, those between the stages of a kernel included."""
    return cost(program).bytes + sum(2 * k.scratch for k in kernels(program, device))


# --- the paper's cell: four operands, two kinds of control, three branches


def _sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def update(c, f, i, g, z, zb):
    """The cell, one element at a time."""
    if z == 0.0 and zb == 1.0:
        new = _sigmoid(f) * c + _sigmoid(i) * math.tanh(g)
    elif z == 0.0 and zb == 0.0:
        new = c
    else:
        new = _sigmoid(i) * math.tanh(g)
    return new


def soft(c, f, i, g, z, zb):
    """The same with a control that is differentiated, as a straight-through estimate needs it."""
    new = z * (_sigmoid(i) * math.tanh(g)) + (1.0 - z) * (1.0 - zb) * c
    return new + (1.0 - z) * zb * (_sigmoid(f) * c + _sigmoid(i) * math.tanh(g))


cell = vectorize(update)


def cell_and_partials(c, f, i, g, z, zb):
    """Value and four partials."""
    value, pull = vjp(lambda *x: cell(*x, z, zb), c, f, i, g)
    return value, *pull(fnp.zeros_like(c) + 1.0)


def cell_and_pullback(*args):
    """Value and the pullback of a cotangent, which comes last."""
    *cfig, z, zb, ct = args
    value, pull = vjp(lambda *x: cell(*x, z, zb), *cfig)
    return value, *pull(ct)


def cell_gradient(c, f, i, g, z, zb):
    """The gradient of the sum, which no value is needed for."""
    return ftrace.grad(lambda *x: cell(*x, z, zb).sum(), argnums=(0, 1, 2, 3))(c, f, i, g)


def cell_arguments(n: int, control: tuple[int, ...]) -> list[Any]:
    """Arguments of a cell of n x n whose control has another shape."""
    return [array(n, n)] * 4 + [array(*control)] * 2


# --- the paper's other program


def _product(*xs):
    y = 1.0
    for k, x in enumerate(xs):
        y = y * math.tanh(x if k % 2 else -x)
    return y


def product_and_partials(*xs):
    """A product of as many factors as arguments, and its partials."""
    value, pull = vjp(vectorize(_product), *xs)
    return value, *pull(fnp.zeros_like(xs[0]) + 1.0)

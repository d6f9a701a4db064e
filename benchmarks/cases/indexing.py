"""Indices and library calls inside programs: gathers, scatters, a warp, sorting, convolution."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from benchmarks.case import Case, built, hand, random
from benchmarks.cases.functions import over

LONG, MANY, SLOTS, SIDE = 10_000_000, 1_000_000, 100_000, 256


def _places(count, below):
    return np.random.default_rng(11).integers(0, below, count)


def _gather_inputs():
    return *random((LONG,)), _places(MANY, LONG)


def _scatter_inputs():
    return *random((MANY,)), _places(MANY, SLOTS)


def _added(values, places):
    out = np.zeros(SLOTS)
    np.add.at(out, places, values)
    return out


def _scatter_in_jax(system):
    return system.jit(lambda v, i: system.np.zeros(SLOTS).at[i].add(v))


def _scatter_in_torch(system):
    torch = system.mod
    return system.jit(
        lambda v, i: torch.zeros(SLOTS, dtype=torch.float64).index_add(0, i, v),
    )


def _warp(xp, shift, image, rows, columns):
    """The misfit of a picture read at shifted places, between its pixels."""
    y, x = rows + shift[0], columns + shift[1]
    top, left = xp.floor(y), xp.floor(x)
    v, u = y - top, x - left
    i, j = top.astype(int), left.astype(int)
    above = image[i, j] * (1.0 - u) + image[i, j + 1] * u
    below = image[i + 1, j] * (1.0 - u) + image[i + 1, j + 1] * u
    return xp.sum(((above * (1.0 - v) + below * v) - image[:-4, :-4]) ** 2)


def _warp_inputs():
    shift, image = random((2, SIDE - 4, SIDE - 4), (SIDE, SIDE))
    rows, columns = np.mgrid[: SIDE - 4, : SIDE - 4].astype(float)
    return 2.0 * shift, image, rows, columns


def _warp_by_hand(shift, image, rows, columns):
    y, x = rows + shift[0], columns + shift[1]
    i, j = np.floor(y).astype(int), np.floor(x).astype(int)
    v, u = y - i, x - j
    a, b, c, d = image[i, j], image[i, j + 1], image[i + 1, j], image[i + 1, j + 1]
    e = (a * (1 - u) + b * u) * (1 - v) + (c * (1 - u) + d * u) * v - image[:-4, :-4]
    dy = (c - a) * (1 - u) + (d - b) * u
    dx = (b - a) * (1 - v) + (d - c) * v
    return [np.sum(e * e), np.stack([2.0 * e * dy, 2.0 * e * dx])]


def _curve():
    at, values = random((SLOTS,), (1000,))
    return at, np.linspace(0.0, 1.0, 1000), values


def _image_inputs():
    return random((1, 64, 56, 56), (64, 64, 3, 3), low=-1.0)


def _convolved(image, weights):
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))
    return [np.einsum("ncyxij,ocij->noyx", windows, weights, optimize=True)]


def _convolution(system):
    return system.jit(lambda x, w: system.lax.conv(x, w, (1, 1), "VALID"))


def _convolution_in_torch(system):
    function = import_module("torch.nn.functional").conv2d
    return system.jit(lambda x, w: function(x, w))


def _turned(xp, x, y):
    z = xp.exp(x + 1j * y)
    return z.real, z.imag


CASES = [
    Case(
        name="gather 1e6 of 1e7",
        inputs=_gather_inputs,
        reference=lambda x, i: [x[i]],
        body=lambda s: s.jit(lambda x, i: x[i]),
        own={"numpy": hand(lambda x, i: x[i])},
        parallel=True,
    ),
    Case(
        name="scatter_add 1e6 into 1e5",
        inputs=_scatter_inputs,
        reference=lambda v, i: [_added(v, i)],
        own={
            "numpy": hand(_added),
            "ftrace": built(lambda s: s.jit(_added)),
            "jax": built(_scatter_in_jax),
            "torch": built(_scatter_in_torch),
            "torchc": built(_scatter_in_torch),
        },
        parallel=True,
    ),
    Case(
        name=f"bilinear warp value_and_grad {SIDE}x{SIDE}",
        inputs=_warp_inputs,
        reference=_warp_by_hand,
        body=lambda s: s.jit(s.value_and_grad(over(s.np, _warp))),
        own={"numpy": hand(_warp_by_hand)},
        skip=("torch", "torchc", "autograd"),
        parallel=True,
    ),
    Case(
        name="interp 1e5 in 1000",
        inputs=_curve,
        reference=lambda x, p, v: [np.interp(x, p, v)],
        body=lambda s: s.jit(over(s.np, lambda xp, x, p, v: xp.interp(x, p, v))),
        own={"numpy": hand(np.interp)},
        skip=("torch", "torchc", "autograd"),
        parallel=True,
    ),
    Case(
        name="argsort 1e6",
        inputs=lambda: random((MANY,)),
        reference=lambda x: [np.argsort(x)],
        body=lambda s: s.jit(over(s.np, lambda xp, x: xp.argsort(x))),
        own={"numpy": hand(np.argsort)},
        skip=("autograd",),
        parallel=True,
    ),
    Case(
        name="conv 3x3 of 64 channels",
        inputs=_image_inputs,
        reference=_convolved,
        own={
            "ftrace": built(_convolution),
            "jax": built(_convolution),
            "torch": built(_convolution_in_torch),
            "torchc": built(_convolution_in_torch),
        },
        parallel=True,
    ),
    Case(
        name="complex exp 1e6",
        inputs=lambda: random((MANY,), (MANY,)),
        reference=lambda x, y: [np.exp(x) * np.cos(y), np.exp(x) * np.sin(y)],
        body=lambda s: s.jit(over(s.np, _turned)),
        own={"numpy": hand(lambda x, y: _turned(np, x, y))},
        skip=("autograd", "torchc"),
        parallel=True,
    ),
]

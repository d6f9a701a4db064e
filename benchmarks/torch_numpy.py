"""NumPy's names over torch, as a module of plain functions so that `torch.compile` sees through it.

Only what the cases use. The idea: torch already takes `axis` and `keepdims` in most functions, so
the shim is a list of names and the few that differ. Read next: `benchmarks/systems.py`.
"""

# ruff: noqa: A001, A004
from __future__ import annotations

import torch
from torch import (
    abs,
    arange,
    argmax,
    argsort,
    concatenate,
    cos,
    cumsum,
    diag,
    dot,
    erf,
    exp,
    eye,
    fft,
    linalg,
    log,
    matmul,
    maximum,
    mean,
    moveaxis,
    prod,
    sin,
    sqrt,
    stack,
    sum,
    tanh,
    where,
    zeros_like,
)

__all__ = [
    "abs",
    "any",
    "arange",
    "argmax",
    "argsort",
    "concatenate",
    "cos",
    "cumsum",
    "diag",
    "dot",
    "erf",
    "exp",
    "eye",
    "fft",
    "layernorm",
    "linalg",
    "log",
    "logsumexp",
    "matmul",
    "max",
    "maximum",
    "mean",
    "moveaxis",
    "prod",
    "reshape",
    "sin",
    "softmax",
    "sqrt",
    "stack",
    "sum",
    "tanh",
    "where",
    "zeros_like",
]


def max(x, axis=None, keepdims=False):
    """The maximum alone; torch returns the indices too."""
    return torch.amax(x, dim=() if axis is None else axis, keepdim=keepdims)


def any(x):
    """Whether any element is true, as a tensor."""
    return torch.any(x)


def reshape(x, shape):
    """Torch's reshape takes the shape as a tuple already."""
    return torch.reshape(x, shape)


def softmax(x):
    """Torch's own, over rows."""
    return torch.softmax(x, 1)


def logsumexp(x):
    """Torch's own, over rows."""
    return torch.logsumexp(x, 1)


def layernorm(x, scale, shift):
    """Torch's own, over rows."""
    return torch.nn.functional.layer_norm(x, x.shape[1:], scale, shift, 1e-5)

"""Small functions whose printed programs are kept in `ir/<name>.txt`, with their arguments."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import ftrace
import ftrace.numpy as fnp
from ftrace import lax


@dataclass
class Affine:
    w: Any
    b: Any


V = np.array([0.5, -1.0, 2.0])
M = np.array([[1.0, 2.0, -1.0], [0.5, -0.25, 3.0]])


def product(x):
    return np.sin(x) * x


def normalised(x):
    return x / np.sqrt(np.sum(x * x))


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def affine(params, x):
    return {"y": np.tanh(x @ params.w + params.b), "scale": 2.0}


def guarded(x):
    return np.where(x > 0, np.sqrt(x), 0.0)


def written(x):
    out = fnp.zeros(4)
    out[1:] = x
    out[0] += 2.0 * x[-1]
    return out


def indexed(x):
    return x[np.array([2, 0, 0])] * x[::-1]


def mixed(x):
    return np.float32(2.0) * x.astype(np.float32) + np.arange(3)


def complex_valued(z):
    return np.real(z * np.conj(z)) + np.abs(z)


def called(x):
    return ftrace.jit(product)(x) + ftrace.jit(product)(2.0 * x)


def chosen(x):
    return lax.cond(np.sum(x) > 0, lambda y: y * y, lambda y: -y, x)


def repeated(x):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.sin(c[1])), (0, x))[1]


def recomputed(x):
    return ftrace.checkpoint(lambda y: np.exp(np.sin(y)))(x)


@ftrace.custom_jvp
def rounded(x):
    return np.round(x)


rounded.defjvps(lambda t, y, x: t)


def with_jvp_rule(x):
    return rounded(x) * x


@ftrace.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, x), lambda x, ct: (np.clip(ct, -1.0, 1.0) * np.sign(x),))


def with_vjp_rule(x):
    return clipped(x) * x


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "product": (product, (1.5,)),
    "normalised": (normalised, (V,)),
    "softmax": (softmax, (M,)),
    "affine": (affine, (Affine(M.T, np.zeros(2)), V)),
    "guarded": (guarded, (V,)),
    "written": (written, (V,)),
    "indexed": (indexed, (V,)),
    "mixed dtypes": (mixed, (V,)),
    "complex": (complex_valued, (V + 1j,)),
    "jit": (called, (V,)),
    "cond": (chosen, (V,)),
    "while": (repeated, (V,)),
    "checkpoint": (recomputed, (V,)),
    "custom jvp": (with_jvp_rule, (V,)),
    "custom vjp": (with_vjp_rule, (V,)),
}

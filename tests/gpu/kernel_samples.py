"""Functions whose kernels cover what the GPU backend writes: for the sheet of test_sheet.py.

`TEMPLATES` are by dtype, each a way in which loops fall on the grid; `PROGRAMS` are what the
project is measured by.
"""

import math

import numpy as np

from ftrace import grad, jvp, lax, vectorize, vjp
from ftrace import numpy as fnp
from tests.gpu import plans
from tests.gpu.plans import array, cell_arguments
from tests.lowering import programs

DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16")
ALL_TEMPLATES = ("f4", "f8", "f2", "i4", "i8", "?")  # of the others those that move elements


def _joined(x, y):
    return x & y if x.dtype == bool else x * y + x


TEMPLATES = {
    "linear": (lambda x, y: _joined(x, y), [(1 << 20,)] * 2),
    "ragged": (lambda x, y: _joined(x, y), [((1 << 20) + 1,)] * 2),
    "window": (lambda x, y: _joined(x[1:], y), [((1 << 20) + 1,), (1 << 20,)]),
    "row and column": (
        lambda x, r, c: _joined(_joined(x, r), c),
        [(1000, 1024), (1024,), (1000, 1)],
    ),
    "transposed": (lambda x, y: _joined(x.T, y), [(1000, 1024), (1024, 1000)]),
    "backwards": (lambda x, y: _joined(x[::-1], y), [(1 << 20,)] * 2),
    "rank 3": (lambda x, y: _joined(x.transpose(1, 0, 2), y), [(30, 40, 50), (40, 30, 50)]),
    "short rows": (lambda x: x.sum(1), [(1 << 16, 5)]),
    "rows": (lambda x: x.sum(1), [(4096, 1000)]),
    "rows of any length": (lambda x: x.sum(1), [(4096, 1001)]),
    "long rows": (lambda x: x.sum(1), [(4096, 20000)]),
    "few long rows": (lambda x: x.sum(1), [(16, 1 << 20)]),
    "columns": (lambda x: x.sum(0), [(4096, 1000)]),
    "few columns": (lambda x: x.sum(0), [(1 << 20, 8)]),
    "all": (lambda x: x.sum(), [(4096, 1000)]),
    "all of a window": (lambda x: x[:, 1:].sum(), [(4096, 1000)]),
    "outer and inner axes": (lambda x: x.sum((0, 2)), [(64, 300, 500)]),
}
REAL = {
    "largest of rows": (lambda x: x.max(1), [(4096, 1000)]),
    "place of the largest of rows": (lambda x: x.argmax(1), [(4096, 1000)]),
    "place of the least of columns": (lambda x: x.argmin(0), [(4096, 1000)]),
    "place of the largest of all": (lambda x: x.argmax(), [(4096, 1000)]),
}
MOVING = ("linear", "ragged", "window", "row and column", "rows", "columns", "all")


def templates(dtype):
    """The samples of a dtype: name, function, arguments."""
    chosen = TEMPLATES if dtype in ALL_TEMPLATES else {k: TEMPLATES[k] for k in MOVING}
    if dtype in ("f4", "f8", "f2", "i4"):
        chosen = {**chosen, **REAL}
    return {k: (f, [array(*s, dtype=dtype) for s in shapes]) for k, (f, shapes) in chosen.items()}


# --- programs


def pulled(f):
    """The cotangents of all arguments."""
    return lambda *args: vjp(f, *args[:-1])[1](args[-1])


def root(a):
    r = a
    while abs(r * r - a) > 1e-12 * a:
        r = 0.5 * (r + a / r)
    return r


def distance(angle):
    vx, vy, x, y = math.cos(angle), math.sin(angle), 0.0, 0.0
    last_x = last_y = 0.0
    while y >= 0.0:
        last_x, last_y = x, y
        x = x + vx * 1e-4
        y = y + vy * 1e-4
        vy = vy - 9.8 * 1e-4
    return (x * last_y - last_x * y) / (last_y - y)


def dual(f):
    """Value and derivative."""
    f = vectorize(f)
    return lambda x: jvp(f, (x,), (fnp.ones_like(x),))


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


N = 4096
M, ROW, TALL = array(N, N), array(N), array(1 << 20, dtype="f8")
BY_COLUMN, BY_ROW = cell_arguments(N, (1, N)), cell_arguments(N, (N, 1))

PROGRAMS = {
    "HM-LSTM value": (plans.cell, BY_COLUMN),
    "HM-LSTM value, control by rows": (plans.cell, BY_ROW),
    "HM-LSTM value and 4 partials": (plans.cell_and_partials, BY_COLUMN),
    "HM-LSTM value and 4 partials, control by rows": (plans.cell_and_partials, BY_ROW),
    "HM-LSTM value and 4 partials, control by elements": (
        plans.cell_and_partials,
        cell_arguments(N, (N, N)),
    ),
    "HM-LSTM gradient of sum": (plans.cell_gradient, BY_COLUMN),
    "HM-LSTM value and pullback": (plans.cell_and_pullback, [*BY_COLUMN, M]),
    "HM-LSTM pullback, recomputed": (
        lambda *a: plans.cell_and_pullback(*a)[1:],
        [*BY_COLUMN, M],
    ),
    "HM-LSTM with a soft control, pullback": (
        pulled(vectorize(plans.soft)),
        [*BY_COLUMN, M],
    ),
    "softmax of 512": (programs.softmax, [array(N, 512)]),
    "softmax of 4096": (programs.softmax, [M]),
    "softmax of 32768": (programs.softmax, [array(512, 32768)]),
    "pullback of softmax of 512": (pulled(programs.softmax), [array(N, 512)] * 2),
    "pullback of softmax of 4096": (pulled(programs.softmax), [M, M]),
    "layernorm of 512": (programs.layernorm, [array(N, 512), array(512), array(512)]),
    "pullback of layernorm of 4096": (pulled(programs.layernorm), [M, ROW, ROW, M]),
    "logsumexp of 512": (programs.logsumexp, [array(N, 512)]),
    "pullback of a bias": (pulled(lambda x, b: np.tanh(x + b)), [M, ROW, M]),
    "gradient of a mean square": (grad(lambda x: (x * x).mean()), [M]),
    "Newton's root and its derivative": (dual(root), [TALL]),
    "projectile and its derivative": (dual(distance), [TALL]),
    "while": (vectorize(root), [TALL]),
    "branches in float64": (plans.cell_and_partials, [array(N, N, dtype="f8")] * 6),
    "sigmoid": (sigmoid, [M]),
    "gradient of sigmoid": (grad(lambda x: sigmoid(x).sum()), [M]),
    "sines": (lambda x: np.sin(x) * np.cos(x), [M]),
    "concatenated": (lambda x, y: np.concatenate([x, y], axis=1) * 2.0, [M, M]),
    "gathered": (lambda x, i: x[i] * 2.0, [M, array(N, dtype="i8")]),
    "one of two arrays": (lambda x, c: lax.cond(c > 0, np.sin, np.cos, x), [M, array()]),
    "2^31 elements": (lambda x: x * x, [array(1 << 31, dtype="i1")]),
    "sums of 2^32 elements": (lambda x: x.sum(1), [array(1 << 12, 1 << 20)]),
}

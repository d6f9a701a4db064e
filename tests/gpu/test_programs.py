"""Whole programs on a device: what jit gives for CuPy arrays is what it gives for NumPy's.

Without a GPU the device is emulated: the same kernels, compiled for this machine's processor
(emulation/).
"""

import numpy as np
import pytest

import ftrace
from ftrace import grad, hessian, jit, jvp, lax, vmap
from ftrace import numpy as fnp
from ftrace.gpu.runtime.device_interface import Device

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 7))
Y = RNG.standard_normal((7, 3))
V = RNG.standard_normal(12)
S = X.astype(np.float32)


def logistic(x):
    return 1.0 / (1.0 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layernorm(x):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def in_place(x):
    y = x * 2.0
    y[1:, ::2] += 1.0
    y[0] = y[1] * y[2]
    return y


def newton(x):
    return lax.while_loop(lambda s: np.abs(s * s - x) > 1e-12 * x, lambda s: 0.5 * (s + x / s), x)


def spin(x):
    """A loop over an array: Python asks the device after every turn whether to go on."""
    return lax.while_loop(lambda s: s.sum() < 100.0, lambda s: s * 1.5 + 1.0, np.abs(x))


def scanned(x):
    return lax.scan(lambda c, row: (np.tanh(c + row), c * row), x[0], x)


def counted(x, a):
    """A number and a row are carried backwards, and the row is halved in some turns."""

    def turn(c, row):
        i, y = c
        y = np.where(y > 0.0, y * 0.5, y * a) + row * i
        return (i + 1, y), (y, i)

    return lax.scan(turn, (0, x[0]), x, reverse=True)


def logistic_map(v):
    return lax.scan(lambda c, s: (3.7 * c * (1.0 - c) + 0.01 * np.tanh(s), c), 0.3, v)


def chosen(x):
    return lax.cond(x.sum() > 0.0, lambda x: np.sin(x), lambda x: np.cos(x) * 2.0, x)


def recurrent(x, w):
    return lax.scan(lambda c, row: (np.tanh(row @ w + c), c.sum()), fnp.zeros(3) + x[0, 0], x)


def unrolled(x):
    """A loop that becomes one again: of rows from both ends, and a list of what it leaves."""
    y, out = x[0], []
    for i in range(2 * len(x)):
        row = i % len(x) if i < len(x) else 0
        y = np.tanh(y + x[row]) * 0.5 + y * y.sum() * 0.1 + (np.sin(y) + 0.25) * 0.125
        out.append(y)
    return fnp.stack(out)


PROGRAMS = {
    "unrolled": (unrolled, (X,)),
    "gradient of unrolled": (grad(lambda x: (unrolled(x) ** 2).sum()), (X,)),
    "elementwise": (lambda x: np.sin(x) * x + np.exp(-x * x), (X,)),
    "float32": (lambda x: np.tanh(x) * x + logistic(x), (S,)),
    "broadcast": (lambda x, r, c: x * r + c, (X, X[0], X[:, :1])),
    "views": (lambda x: x.T[::-1, 1:] * 2.0 + x[1:, :].T, (X,)),
    "sum": (lambda x: (x * x).sum(), (X,)),
    "sums": (lambda x: (x.sum(0), x.sum(1), x.max(), x.argmin(1)), (X,)),
    "sums of both ends": (lambda x: x.sum((0, 2)), (RNG.standard_normal((6, 5, 8)),)),
    "softmax": (softmax, (X,)),
    "softmax float32": (softmax, (S,)),
    "layernorm": (layernorm, (X,)),
    "gradient of layernorm": (grad(lambda x: (layernorm(x) ** 3 * x[0]).sum()), (X,)),
    "product": (lambda x, y: np.tanh(x @ y) + 1.0, (X, Y)),
    "gradient of a product": (grad(lambda x, y: np.tanh(x @ y).sum(), argnums=(0, 1)), (X, Y)),
    "sort": (lambda x: np.sort(x, axis=1) * 2.0, (X,)),
    "cumsum": (lambda x: np.cumsum(x, axis=0) + x, (X,)),
    "in place": (in_place, (X,)),
    "gradient in place": (grad(lambda x: (in_place(x) ** 2).sum()), (X,)),
    "gather": (lambda x: x[[3, 1, 1]] + x[0], (X,)),
    "gradient of gather": (grad(lambda x: (x[[3, 1, 1]] ** 2).sum()), (X,)),
    "while": (newton, (np.array(2.0),)),
    "mapped while": (vmap(newton), (np.abs(V),)),
    "derivative of a mapped while": (vmap(lambda x: jvp(newton, (x,), (1.0,))[1]), (np.abs(V),)),
    "while over an array": (spin, (V,)),
    "gradient of a while over an array": (grad(lambda x: spin(x).sum()), (V,)),
    "scan": (scanned, (X,)),
    "gradient of scan": (grad(lambda x: scanned(x)[1].sum() + scanned(x)[0].sum()), (X,)),
    "scan backwards with a number": (counted, (X, X[1])),
    "gradient of it": (grad(lambda x, a: counted(x, a)[1][0].sum(), argnums=(0, 1)), (X, X[1])),
    "scan of numbers": (logistic_map, (V,)),
    "gradient of a scan of numbers": (grad(lambda v: (logistic_map(v)[1] ** 2).sum()), (V,)),
    "scan of parts": (
        lambda x: lax.scan(lambda c, z: (c * 0.5j + z, c), x[0] + 0j, x * (1 + 1j)),
        (X,),
    ),
    "scan of halves": (
        lambda x: lax.scan(lambda c, z: (c * z + z, c), x[0], x),
        (X.astype(np.float16),),
    ),
    "recurrent": (recurrent, (X, Y)),
    "gradient of recurrent": (grad(lambda x, w: recurrent(x, w)[1].sum(), argnums=1), (X, Y)),
    "counted loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i * x, x), (X,)),
    "cond": (chosen, (X,)),
    "gradient of cond": (grad(lambda x: chosen(x).sum()), (X,)),
    "mapped cond": (vmap(chosen), (X,)),
    "hessian": (hessian(lambda v: (np.sin(v) * v[::-1]).sum()), (V,)),
    "vectorize": (ftrace.vectorize(lambda a, b: a * b if a > b else a - b), (X, X[:1] * 0.5)),
    "complex": (lambda x: np.abs(np.exp(1j * x)) + (x * (1 + 2j)).imag, (X,)),
    "integers": (lambda x: (x * 3) // 2 % 5, ((X * 10).astype(np.int32),)),
    "halves": (lambda x: x * x + x, (X.astype(np.float16),)),
    "booleans": (lambda x: (x > 0) & (x < 1), (X,)),
    "beside a loop that never turns": (lambda v, e: (v * 1.5, e * 2.0), (V, np.zeros((12, 0, 2)))),
    "an argument": (lambda x: (x, x), (X,)),
    "constant": (lambda x: fnp.zeros(3) + 2.0, (X,)),
    "numbers": (lambda x, a, b: x * a + b, (X, 2.0, np.float64(3.0))),
    "empty": (lambda x: (x * 2.0, x.sum(0), x.sum()), (np.zeros((0, 4)),)),
}


def given(device: Device, args):
    """Arguments on the device; numbers stay numbers."""
    return [device.from_host(x) if isinstance(x, np.ndarray) else x for x in args]


def fetched(device: Device, tree):
    """Results as NumPy arrays."""
    return ftrace.tree.map(lambda x: device.to_host(x), tree)


def assert_same(found, expected):
    pairs = zip(ftrace.tree.leaves(found), ftrace.tree.leaves(expected), strict=True)
    for a, b in pairs:
        b = np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        tolerance = {2: 2e-3, 4: 2e-6, 8: 1e-12, 16: 1e-12}.get(b.dtype.itemsize, 0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_on_a_device(name, some_device):
    f, args = PROGRAMS[name]
    compiled = jit(f)
    expected = jit(f)(*args)
    for _ in range(3):  # the second call may be recorded, the third replayed
        assert_same(fetched(some_device, compiled(*given(some_device, args))), expected)


def grown(x, bound=200.0):
    return lax.while_loop(lambda s: (s * s).sum() < bound, lambda s: s + 0.3 * np.sin(s) + 0.35, x)


def grown_in_turns(x, bound=100.0):
    """A loop of loops: each leaves a tape of its own length."""
    return lax.while_loop(
        lambda s: s.sum() < bound, lambda s: grown(np.cos(s), s.sum() + 30.0) + s * 0.9, x
    )


def grown_in_turns_of_turns(x):
    return lax.while_loop(
        lambda s: s.sum() < 300.0, lambda s: grown_in_turns(np.sin(s)) + s * 0.9, x
    )


def grown_in_rows(x):
    def turn(c, row):
        return np.sin(grown_in_turns(np.abs(row) + np.abs(c), 40.0)), c.sum()

    return lax.scan(turn, x[0], x)[0]


@pytest.mark.parametrize("f", [grown_in_turns_of_turns, grown_in_rows])
@pytest.mark.parametrize("ways", [lambda f: jit(grad(f)), lambda f: grad(jit(f))])
def test_tapes_of_loops_within_and_between_programs_compiled(f, ways, some_device):
    gradient = ways(lambda x: f(x).sum())
    x = X if f is grown_in_rows else V
    expected = gradient(x)
    assert np.abs(expected).max() > 1e-3
    assert_same(fetched(some_device, gradient(*given(some_device, [x]))), expected)


def test_work_beside_loops_that_never_iterate(some_device):
    def f(a, b):
        return a * 2.0, b.transpose(0, 2, 1) + 1.0, np.sum(b, axis=2)

    host = np.array([2.0, 1.875, 1.75]), np.zeros((3, 0, 4))
    found = jit(f)(*map(some_device.from_host, host))
    for y, e in zip(found, f(*host), strict=True):
        np.testing.assert_array_equal(some_device.to_host(y), e)

"""In-place programs: what plain NumPy computes, and its derivative, under every transformation.

Each program is written once, for NumPy or `ftrace.numpy` (`xp`), changes arrays in place and
gives a number. NumPy itself gives the value, central differences of NumPy the gradient. Nine
compositions must agree with them. What must be refused, and what captures and views see, is in
`test_cells.py`; random chains of views are in `test_views.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace.numpy as fnp
from ftrace import grad, jit, jvp, vmap

X = np.array([0.9, 1.3, -0.7, 0.4])
V = np.array([0.3, -1.1, 0.8, 0.6])
BATCH = np.stack([X, X[::-1] * 1.1, X + 0.2])
for array in (X, V, BATCH):
    array.flags.writeable = False  # a write that is not refused shows at once

Program = Callable[[Any, Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(f: Program) -> Program:
    PROGRAMS[f.__name__] = f
    return f


# ---------------------------------------------------------------------------------- programs


@program
def cholesky_in_place(xp: Any, x: Any) -> Any:
    a = xp.zeros((3, 3))
    a[0, 0], a[1, 1], a[2, 2] = 4.0 + x[0], 5.0, 6.0 + x[2]
    a[1, 0] = a[0, 1] = x[1]
    a[2, 0] = a[0, 2] = 0.5
    a[2, 1] = a[1, 2] = x[3] + 0.3
    for k in range(3):
        a[k, k] = np.sqrt(a[k, k])
        a[k + 1 :, k] /= a[k, k]
        for j in range(k + 1, 3):
            a[j:, j] -= a[j:, k] * a[j, k]
    return a[0, 0] + 2 * a[1, 0] + 3 * a[1, 1] + 4 * a[2, 0] + 5 * a[2, 1] + 6 * a[2, 2]


@program
def product_prefix_scan(xp: Any, x: Any) -> Any:
    y = x.copy()
    for i in range(1, 4):
        y[i] *= y[i - 1]
    return (y * np.array([1.0, 2.0, 3.0, 4.0])).sum()


@program
def number_read_by_an_empty_key(xp: Any, x: Any) -> Any:
    a = xp.array(x[0] * 2.0)
    before, whole = a[()], a[...]
    a[()] = x[1]
    return 3.0 * before + 5.0 * a * whole


@program
def stencil_over_two_views(xp: Any, x: Any) -> Any:
    u = x.copy()
    a, b = u[:-1], u[1:]
    b[:] = b * a
    a *= 2
    b += np.sin(a)
    return (u * np.array([1.0, -2.0, 3.0, 0.5])).sum() + (a * b).sum()


@program
def chained_views(xp: Any, x: Any) -> Any:
    u = x * 1.0
    y = u[1:]
    z = y[1:]
    u[1] = u[0] * u[2]
    y[1] = np.sin(u[1])
    z[1] = y[0] * z[0]
    return (u * u).sum() + (y * np.array([1.0, 2.0, 3.0])).sum() + z[0] * z[1]


@program
def filling_zeros(xp: Any, x: Any) -> Any:
    out = xp.zeros(4)
    for i in range(4):
        out[i] = np.sin(x[i]) * (i + 1)
    out[1:3] += out[0]
    return (out * x).sum()


@program
def writes_through_a_transpose(xp: Any, x: Any) -> Any:
    b = xp.zeros((2, 3))
    b[0] = x[:3]
    b[1] = x[1:] ** 2
    c = b.T
    c[0] = x[2] * x[3]
    r = c[2]
    r *= b[0, 0]
    return (b * np.arange(6.0).reshape(2, 3)).sum() + c[2, 1]


@program
def reads_before_writes_keep_their_value(xp: Any, x: Any) -> Any:
    u = x * 1.0
    y = u * u
    u[0] = u[3]
    u *= 3
    return (y * u).sum()


@program
def steps_and_negative_steps(xp: Any, x: Any) -> Any:
    u = xp.zeros(6)
    u[::2] = x[:3]
    u[5::-2] += x[1:] * u[0]
    u[::-1][1] = x[3] * u[2]
    u[-2] -= 2 * x[0]
    return (u * np.arange(1.0, 7.0)).sum() + u[3:0:-1].prod()


@program
def overlapping_source_and_target(xp: Any, x: Any) -> Any:
    u = x * 1.0
    u[1:] = u[:-1]
    u[:-1] = u[1:] * u[::-1][1:]
    return (u * np.array([1.0, 2.0, 4.0, 8.0])).sum()


@program
def index_arrays(xp: Any, x: Any) -> Any:
    u = xp.zeros((3, 4))
    u[[0, 2]] = x
    u[[0, 1, 2], [3, 2, 1]] = x[1:] * 2
    u[1:, [0, 3]] += x[0]
    u[np.array([[0], [2]]), np.array([0, 0])] = x[:2]
    return (u * np.arange(12.0).reshape(3, 4)).sum() + (u[[2, 0, 2]] ** 2).sum()


@program
def equal_indices_add_up_with_at_and_not_with_assignment(xp: Any, x: Any) -> Any:
    u = xp.zeros(3)
    np.add.at(u, np.array([0, 2, 0, 0]), x)
    np.subtract.at(u, [1, 1], x[:2])
    np.multiply.at(u, np.array([2, 2]), x[2:])
    v = xp.zeros(3)
    v[np.array([0, 2, 0, 0])] = x
    v[[1, 1]] += x[:2]
    return (u * np.array([1.0, 2.0, 3.0])).sum() + (v * np.array([5.0, 7.0, 11.0])).sum()


@program
def masks(xp: Any, x: Any) -> Any:
    u = x * 1.0
    u[np.array([True, False, True, False])] *= 3.0
    u[u < 0] = 0.5
    u[np.array([False, True, True, False])] = x[2:]
    return (u * np.array([1.0, 2.0, 3.0, 4.0])).sum()


@program
def reshape_views(xp: Any, x: Any) -> Any:
    u = x * 1.0
    m = u.reshape(2, 2)
    m[0] = m[1] * x[0]
    u[3] = m[0, 1] * 2
    flat = m.ravel()
    flat[1:3] += x[:2]
    w = xp.zeros((2, 3))
    w.reshape(-1)[1:5] = x
    w.reshape(3, 2)[1] *= 2
    return (u * np.array([1.0, 2.0, 3.0, 4.0])).sum() + m[1, 0] + (w * w).sum()


@program
def reshape_of_a_transpose_is_a_copy(xp: Any, x: Any) -> Any:
    w = xp.zeros((2, 2))
    w[0] = x[:2]
    w[1] = x[2:]
    t = w.T.reshape(-1)
    t[1] = 10 * x[0]
    w[0, 1] *= 3
    return (w * np.array([[1.0, 2.0], [3.0, 4.0]])).sum() + (t * np.arange(1.0, 5.0)).sum()


@program
def axes_added_removed_and_moved(xp: Any, x: Any) -> Any:
    w = xp.zeros((1, 4, 2))
    np.squeeze(w)[1:, 0] = x[1:]
    np.swapaxes(w, 1, 2)[0, 1] = x * x
    np.moveaxis(w, 1, 0)[3] += x[0]
    w[0][:, None, 1][0] = x[2] * x[3]
    np.expand_dims(w, 0)[..., 2, :] *= x[1]
    np.flip(w, 1)[0, 0, 0] -= x[2]
    first, second = np.split(w, 2, axis=1)
    second[:] = first * x[3]
    return (w * np.arange(1.0, 9.0).reshape(1, 4, 2)).sum()


@program
def out_arguments(xp: Any, x: Any) -> Any:
    u = xp.zeros(4)
    np.multiply(x, x, out=u)
    v = u[1:]
    np.sin(v, out=v)
    np.add(u, 1.0, out=u)
    w = xp.zeros(2)
    np.sum(u.reshape(2, 2), axis=0, out=w)
    return (u * np.array([1.0, 2.0, 3.0, 4.0])).sum() + w[0] * w[1]


@program
def diagonals_of_cubes(xp: Any, x: Any) -> Any:
    u = xp.zeros((2, 2, 2))
    np.fill_diagonal(u, x[:2] * x[2:])
    return (u * np.arange(8.0).reshape(2, 2, 2)).sum() + x[0]


@program
def writing_functions(xp: Any, x: Any) -> Any:
    u = xp.zeros((3, 3))
    np.fill_diagonal(u, x[:3])
    np.copyto(u[0], x[1:] * 2)
    np.copyto(u[2], x[0], where=np.array([True, False, True]))
    np.put(u, [1, -2], x[2:] * 3)
    np.putmask(u, np.eye(3) > 0, u * u)
    np.place(u, np.arange(9).reshape(3, 3) % 4 == 3, x[:2])
    np.put_along_axis(u, np.array([[1], [0], [2]]), x[:3].reshape(3, 1), axis=1)
    v = xp.zeros(3)
    v.fill(x[1])
    v.put([-1], x[3])
    v.partition(1)
    w = x * 1.0
    w.sort()
    return (u * np.arange(9.0).reshape(3, 3)).sum() + v.sum() + (w * np.array([1, 2, 3, 4])).sum()


@program
def rank_zero_is_a_value(xp: Any, x: Any) -> Any:
    loss = x[0]
    before = loss
    loss += x[1]
    loss *= x[2]
    return loss * 2 + before


@program
def rows_of_a_loop(xp: Any, x: Any) -> Any:
    w = xp.zeros((3, 4))
    for i, row in enumerate(w):
        row += x * (i + 1)
        row[i] = x[3]
    return (w * w).sum()


@program
def every_augmented_operator(xp: Any, x: Any) -> Any:
    u = x * 1.0
    u += x
    u -= 0.1
    u *= x
    u /= x + 2
    u **= 2
    u %= 1.7
    m = xp.zeros((2, 2))
    m[:] = x.reshape(2, 2)
    m @= m
    k = xp.zeros(4, dtype=int)
    k += 7
    k //= 2
    k <<= 2
    k >>= 1
    k |= 1
    k &= 6
    k ^= 3
    return (u * k).sum() + (m * m).sum()


@program
def conversions_on_the_way_in(xp: Any, x: Any) -> Any:
    u = xp.zeros(4, dtype=np.float32)
    u[:2] = x[:2].astype(np.float64)
    u[2] = 3
    u[3] = True
    n = xp.zeros(3, dtype=int)
    n[:] = 2.7
    n[0] = x[1] * 10
    return (u.astype(float) * x).sum() + n.sum()


@program
def broadcast_values(xp: Any, x: Any) -> Any:
    w = xp.zeros((2, 3, 4))
    w[:] = x
    w[0] *= x[:3].reshape(3, 1)
    w[..., 1] = x[:2].reshape(2, 1)
    w[1, :, 2:] = x.reshape(1, 1, 4)[..., :2]
    return (w * np.arange(24.0).reshape(2, 3, 4)).sum()


# ---------------------------------------------------------------------------------- modes


def numpy_value(f: Program, x: Any) -> Any:
    return np.float64(f(np, x.copy()))


def differences(f: Callable[[Any], Any], x: Any) -> Any:
    step = 1e-5
    unit = np.eye(x.size) * step
    return np.array([(f(x + d) - f(x - d)) / (2 * step) for d in unit])


def close(found: Any, wanted: Any, tolerance: float = 1e-7) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


# conversions to float32 and to integers have no useful differences
EXACT_ONLY = {"conversions_on_the_way_in"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_writes_computes_what_numpy_computes(name: str) -> None:
    f = PROGRAMS[name]

    def traced(x: Any) -> Any:
        return f(fnp, x)

    value = numpy_value(f, X)
    close(traced(X.copy()), value, 1e-12)
    close(jit(traced)(X), value, 1e-12)
    close(jvp(traced, (X,), (V,))[0], value, 1e-12)
    close(vmap(traced)(BATCH), [numpy_value(f, x) for x in BATCH], 1e-12)
    close(jit(vmap(traced))(BATCH), [numpy_value(f, x) for x in BATCH], 1e-12)


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - EXACT_ONLY))
def test_a_program_that_writes_has_the_derivative_of_what_numpy_computes(name: str) -> None:
    f = PROGRAMS[name]

    def traced(x: Any) -> Any:
        return f(fnp, x)

    slope = differences(lambda x: numpy_value(f, x), X)
    slopes = np.array([differences(lambda x: numpy_value(f, x), x) for x in BATCH])
    first = grad(traced)
    close(first(X), slope)
    close(jvp(traced, (X,), (V,))[1], slope @ V)
    close(jit(first)(X), slope)
    close(grad(jit(traced))(X), slope)
    close(vmap(first)(BATCH), slopes)
    close(jit(vmap(first))(BATCH), slopes)

    def weighted(x: Any) -> Any:
        return (first(x) * V).sum()

    close(grad(weighted)(X), differences(weighted, X))


def test_the_gradient_of_converted_writes_follows_the_float_parts() -> None:
    f = PROGRAMS["conversions_on_the_way_in"]
    x = X.astype(np.float32).astype(float)
    wanted = np.array([2 * x[0], 2 * x[1], 3.0, 1.0])
    close(grad(lambda x: f(fnp, x))(x), wanted, 1e-6)
    close(jit(grad(lambda x: f(fnp, x)))(x), wanted, 1e-6)

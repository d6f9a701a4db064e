"""Slices with traced bounds, against NumPy: views of known size, and selections.

Every program runs as plain NumPy, under `jit` and `vmap`, and is differentiated both ways; the
derivatives are compared with finite differences.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace import grad, jit, jvp, vmap
from ftrace.errors import (
    ConcretizationTypeError,
    MutationError,
    ShapeError,
    TracerIntegerConversionError,
)

X = np.array([1.1, -2.0, 2.9, -0.5, 1.9, 0.7])
W = np.array([3.0, -1.0, 2.0])
PROGRAMS: list[Callable[[Any, Any], Any]] = []
NUMBERS = np.array([1, 2, 3])


def program(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    PROGRAMS.append(fn)
    return fn


READS: dict[str, Any] = {
    "three": lambda x, n: x[n : n + 3] * W,
    "three, reversed": lambda x, n: x[n : n + 3][::-1],
    "from the end": lambda x, n: x[-n - 3 : -n] * W,
    "scaled": lambda x, n: x[(n - 1) * 2 : n * 2] * 2.0,
    "every other": lambda x, n: x[n : n + 3 : 2],
    "backwards": lambda x, n: x[n + 2 : n - 1 : -1] * W,
    "backwards, every other": lambda x, n: x[n + 2 : n - 1 : -2],
    "nothing": lambda x, n: x[n:n].sum() + x[n : n - 1].size,
    "from a difference": lambda x, n: x[5 - n - 2 : 5 - n],
    "of rows": lambda x, n: np.outer(x, x)[n : n + 2, 1:] * W[0],
    "of columns": lambda x, n: np.outer(x, x)[1, n : n + 2] + np.outer(x, x)[..., n : n + 2],
    "of rows and columns": lambda x, n: np.outer(x, x)[n : n + 2, n - 1 : n + 1],
    "beside an index": lambda x, n: np.outer(x, x)[n, n : n + 2],
    "beside an array": lambda x, n: np.outer(x, x)[n : n + 2, [0, 3]],
    "beside a mask": lambda x, n: np.outer(x, x)[n : n + 2, np.arange(6) < 2],
    "beside a new axis": lambda x, n: x[None, n : n + 2] + x[n : n + 2, None],
    "longer than the axis": lambda x, n: x[n : n + 9].sum() + x[n - 9 : n + 1].size,
    "head": lambda x, n: x[:n].sum() * x[n],
    "tail": lambda x, n: x[n:].max() - x[n + 1 :].mean(),
    "all but some": lambda x, n: x[:-n].sum() + x[-n:].prod(),
    "between": lambda x, n: x[n : 2 * n + 1].sum() / x[n : 2 * n + 1].size,
    "cut": lambda x, n: x[max(n - 2, 0) : n + 1].mean(),
    "cut at the end": lambda x, n: x[n : min(n + 4, len(x))].sum(),
    "beyond": lambda x, n: x[n * n :].sum() + x[: n * n].sum(),
    "strided head": lambda x, n: x[: n + 2 : 2].sum(),
    "strided tail": lambda x, n: x[n::2].sum() + x[n::3].size,
    "reversed head": lambda x, n: x[n::-1][0] + x[n::-1] @ x[: n + 1],
    "reversed tail": lambda x, n: x[:n:-1].sum() + x[:n:-2][0],
    "aligned": lambda x, n: x[:n] @ x[:n] + (x[:n] * np.sin(x[:n])).sum(),
    "aligned with what is computed": lambda x, n: (x[: n + 1] * (2 * x)[: n + 1]).sum(),
    "shifted": lambda x, n: (x[1:n] - x[: n - 1]).sum() + np.abs(x[n:] - x[:-n]).max(),
    "an element": lambda x, n: x[n:][0] + x[: n + 1][-1] + x[:n][n - 1],
    "of a row": lambda x, n: np.outer(x, x)[1, :n].sum(),
    "of a traced row": lambda x, n: np.outer(x, x)[n, :n] @ x[:n],
    "of each row": lambda x, n: np.outer(x, x)[:, :n].sum(axis=1) + np.outer(x, x)[:n].sum(axis=0),
    "matrix times vector": lambda x, n: np.outer(x, x)[:, :n] @ x[:n] + np.outer(x, x)[n, n:].sum(),
    "vector times matrix": lambda x, n: x[:n] @ np.outer(x, x)[:n],
    "rows of which there may be none": lambda x, n: (
        np.outer(x, x)[: n - 1, :n].max(axis=1).sum() + np.outer(x, x)[:n, n + 3 :].size
    ),
    "sorted": lambda x, n: np.sort(x[:n])[0] + np.sort(x[n:])[-1],
    "running": lambda x, n: np.cumsum(x[: n + 1])[-1] + np.cumprod(x[n:])[1],
    "median": lambda x, n: np.median(x[n:]) + np.std(x[: n + 2]),
    "argmin": lambda x, n: x[n:].argmin() + x[: n + 1].argmax() + x[0],
    "nothing taken": lambda x, n: x[n:n].sum() + x[6 + n :].sum() + x[:0].sum(),
    "with an ellipsis": lambda x, n: (
        np.outer(x, x)[..., n:].sum(axis=1) + np.outer(x, x)[:n, ...].sum(axis=0)
    ),
}


def _written(change: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any], Any]:
    def run(x: Any, n: Any) -> Any:
        y = x.copy()
        change(y, x, n)
        return y

    run.__name__ = change.__name__
    return program(run)


@_written
def three_set(y: Any, x: Any, n: Any) -> None:
    y[n : n + 3] = W * x[0]


@_written
def three_changed(y: Any, x: Any, n: Any) -> None:
    y[n : n + 3] += W * x[:3]
    y[n + 2 : n - 1 : -1] *= x[:3]


@_written
def head_set(y: Any, x: Any, n: Any) -> None:
    y[:n] = 0.0
    y[n + 1 :] *= x[0]


@_written
def head_from_head(y: Any, x: Any, n: Any) -> None:
    y[:n] = x[:n] ** 2
    y[-n:] += x[-n:] * x[0]


@_written
def moved(y: Any, x: Any, n: Any) -> None:
    y[1 : n + 1] = x[:n]
    y[n:] -= x[: len(x) - n]
    y[1 : n + 1] = y[:n]


@_written
def strided(y: Any, x: Any, n: Any) -> None:
    y[::2] = 0.0
    y[n::2] += x[1]
    y[: n + 1 : 2] *= 3.0


@_written
def through_views(y: Any, x: Any, n: Any) -> None:
    head, three = y[:n], y[n : n + 3]
    head *= 2.0
    three += head.sum()
    three[0] = head[0]
    head[-1] = three[1] * 2
    head[...] = head + 1.0
    y[0] = 5.0 * x[0]
    three[1:] = head[0]  # which the line before has changed


@_written
def through_a_chain(y: Any, x: Any, n: Any) -> None:
    inner = y[1:][n : n + 2]
    whole = y.reshape(2, 3)
    row = whole[:, n - 1 : n]
    inner *= 2.0
    row += inner[0]
    y[::-1][n:] -= 1.0


@_written
def some_of_a_head(y: Any, x: Any, n: Any) -> None:
    head = y[: n + 2]
    head[head > 0] = 0.0
    first = head[0]
    y[0] = 9.0 * x[1]
    y[5] = first * head[1]


@program
def rows_and_columns(x: Any, n: Any) -> Any:
    a = np.outer(x, x)
    a[n : n + 2, n - 1 : n + 1] = 1.0
    a[n, :n] *= 2.0
    a[:n, n] = x[:n]
    a[n:] -= np.outer(a[n:, 0], a[0])
    column = a[:, n:][:, None]
    return a + column.sum()


@program
def a_decision(x: Any, n: Any) -> Any:
    y = x.copy()
    head = y[:n]
    three = y[n : n + 3] if x[0] > 1 else y[n - 1 : n + 2]
    if x[1] > 0:
        head *= 2.0
    else:
        head[0] = 7.0 * x[2]
    three[1] = head.sum()
    return y * head[0]


@program
def a_loop(x: Any, n: Any) -> Any:
    y = np.zeros(6)
    y[:] = x
    total = 0.0
    for k in range(n):
        y[k : k + 2] += x[k + 1 : k + 3]
        total = total + y[: k + 1] @ x[: k + 1]
    return y * total


@program
def a_triangular_solution(x: Any, n: Any) -> Any:
    a = np.outer(x, x) * 0.1 + 3 * np.eye(6)
    z = np.zeros(6)
    for i in range(n + 3):
        z[i] = (x[i] - a[i, :i] @ z[:i]) / a[i, i]
    return z


@program
def a_factor_by_columns(x: Any, n: Any) -> Any:
    a = np.outer(x, x) + 2 * np.eye(6)
    c = np.zeros((6, 6))
    for j in range(n + 2):
        for i in range(j, 6):
            rest = a[i, j] - c[i, :j] @ c[j, :j]
            c[i, j] = np.sqrt(rest) if i == j else rest / c[j, j]
    return c


@program
def a_factor_by_updates(x: Any, n: Any) -> Any:
    a = np.outer(x, x) + 2 * np.eye(6)
    for k in range(n + 2):
        a[k, k] = np.sqrt(a[k, k])
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k + 1 :, k])
    return np.tril(a)


@program
def elimination(x: Any, n: Any) -> Any:
    a = np.outer(np.sin(x), x) + 3 * np.eye(6)
    b = x.copy()
    for k in range(n):
        factors = a[k + 1 :, k] / a[k, k]
        a[k + 1 :, k:] -= factors[:, None] * a[k, k:]
        b[k + 1 :] -= factors * b[k]
    return a * b


@program
def reflections(x: Any, n: Any) -> Any:
    a = np.outer(np.cos(x), x) + np.diag(x)
    for k in range(n):
        v = a[k:, k].copy()
        v[0] += np.where(v[0] > 0, 1.0, -1.0) * np.linalg.norm(v)
        v /= np.linalg.norm(v)
        a[k:, k:] -= 2.0 * np.outer(v, v @ a[k:, k:])
    return a


@program
def blocks(x: Any, n: Any) -> Any:
    a = np.outer(x, x)
    corner, rest = a[:n, :n], a[n:, n:]
    corner *= 2.0
    rest[0, -1] = corner.sum() * x[0]
    a[:n, n:] = x[0]
    a[n:, : n + 1] += a[:1, : n + 1] * x[n:, None]
    return a * np.trace(a) + corner[0].max() + rest.mean(axis=1).sum() + (corner @ x[:n]).sum()


@program
def loops_over_parts(x: Any, n: Any) -> Any:
    y, total = np.outer(x, x), 0.0
    for row in y[:n]:
        row *= 2.0
    for row in reversed(y[n:]):
        row += x[0]
    for i, row in enumerate(y[:, :n]):
        row -= i
    for row in y[:n, 1 : n + 1]:
        row -= row.sum()
    for a, b in zip(y[:n, 0], x, strict=False):
        total = total + a * b
    for v in x[n:]:
        if v > 1.5:
            break
        total = total + v * v
    else:
        total = -total
    return y * total


@program
def of_a_plain_array(x: Any, n: Any) -> Any:
    return W[:n].sum() * x + W[n - 1 : n] * x


for name, read in READS.items():

    def reading(x: Any, n: Any, read: Any = read) -> Any:
        return read(x, n)

    reading.__name__ = name
    program(reading)


def total(fn: Callable[[Any, Any], Any], n: Any) -> Callable[[Any], Any]:
    return lambda x: np.sum(fn(x, n) * 1.0)


def slope(fn: Callable[[Any], Any], x: Any) -> Any:
    """The gradient by finite differences."""
    steps = np.eye(x.size) * 1e-6
    return np.array([(fn(x + s) - fn(x - s)) / 2e-6 for s in steps])


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_a_slice_with_traced_bounds_is_as_in_numpy(fn: Any) -> None:
    wanted = [fn(X.copy(), int(n)) for n in NUMBERS]
    jitted = jit(fn)
    for n, w in zip(NUMBERS, wanted, strict=True):
        for given in (int(n), n, np.int32(n)):
            got = jitted(X, given)
            np.testing.assert_allclose(got, w, rtol=1e-12, atol=1e-14)
            assert np.asarray(got).dtype == np.asarray(w).dtype
    if np.shape(wanted[0]) == np.shape(wanted[1]):
        stacked = np.stack(wanted)
        for way in (vmap, lambda f, axes: jit(vmap(f, axes))):
            np.testing.assert_allclose(
                way(fn, (None, 0))(X, NUMBERS), stacked, rtol=1e-12, atol=1e-14
            )
    rows = np.stack([X, X[::-1]])
    np.testing.assert_allclose(
        jit(vmap(fn, (0, None)))(rows, 2), [fn(x.copy(), 2) for x in rows], rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_derivatives_of_what_is_sliced(fn: Any) -> None:
    t = np.arange(1.0, 7.0)
    wanted = [slope(total(fn, int(n)), X) for n in NUMBERS]
    of_x = jit(lambda x, n: (grad(total(fn, n))(x), jvp(total(fn, n), (x,), (t,))[1]))
    for n, w in zip(NUMBERS, wanted, strict=True):
        slopes, tangent = of_x(X, int(n))
        np.testing.assert_allclose(slopes, w, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(tangent, w @ t, rtol=1e-6, atol=1e-6)
    each = vmap(lambda n: grad(total(fn, n))(X))(NUMBERS)
    np.testing.assert_allclose(each, wanted, rtol=1e-6, atol=1e-6)


def test_a_slice_of_known_size_is_one_row() -> None:
    names = [e.primitive.name for e in ftrace.make_jaxpr(lambda x, n: x[n : n + 3])(X, 1).eqns]
    assert names.count("dynamic_slice") == 1
    assert "gather" not in names

    def changed(x: Any, n: Any) -> Any:
        y = x.copy()
        y[n : n + 3] *= 2.0
        return y

    names = [e.primitive.name for e in ftrace.make_jaxpr(changed)(X, 1).eqns]
    assert names.count("dynamic_update_slice") == 1


def test_equal_slices_are_no_gather() -> None:
    def f(x: Any, n: Any) -> Any:
        y = np.zeros(6)
        y[1 : n + 1] = x[1 : n + 1] * 2
        return y[: n + 2] @ x[: n + 2]

    names = {e.primitive.name for e in ftrace.make_jaxpr(f)(X, 1).eqns}
    assert names.isdisjoint({"gather", "scatter", "raise_where"})


@pytest.mark.parametrize("key", [2, 4, 5, -1, -2, -3, -6, -8, 99, -99])
def test_a_slice_that_numpy_cuts_is_an_error_or_the_same(key: int) -> None:
    def three(x: Any, n: Any) -> Any:
        return x[n : n + 3]

    def backwards(x: Any, n: Any) -> Any:
        return x[n : n - 3 : -1]

    for fn in (three, backwards):
        wanted = fn(X, key)
        for way in (jit(fn), lambda x, n, fn=fn: vmap(fn, (None, 0))(x, np.array([n]))[0]):
            if wanted.size == 3:
                np.testing.assert_array_equal(way(X, key), wanted)
            else:
                with pytest.raises(ShapeError, match="the function was traced for 3"):
                    way(X, key)


def test_a_size_that_only_seems_known_is_checked() -> None:
    def f(x: Any, n: Any) -> Any:
        return x[n * 0 + 1 : 3 + n * n // 10**9]

    def none(x: Any, n: Any) -> Any:
        return x[n * 0 + 1 : 1 + n * n // 10**9]

    assert jit(none)(X, 2).size == 0
    with pytest.raises(ShapeError, match="the function was traced for 0"):
        jit(none)(X, 32_000)
    np.testing.assert_array_equal(jit(f)(X, 2), X[1:3])
    assert f(X, 32_000).size == 3
    with pytest.raises(ShapeError, match="the function was traced for 2"):
        jit(f)(X, 32_000)


@pytest.mark.parametrize("start", [-9, -6, -3, 0, 3, 6, 9, None])
@pytest.mark.parametrize("step", [None, 2, -1, -2])
def test_every_bound_is_as_in_numpy(start: Any, step: Any) -> None:
    stops = np.array([-9, -6, -4, -1, 0, 1, 4, 6, 9])

    def f(x: Any, stop: Any) -> Any:
        y = x.copy()
        y[start:stop:step] = 0.0
        return x[start:stop:step].sum(), x[start:stop:step].size, y

    def g(x: Any, stop: Any) -> Any:
        y = x.copy()
        y[stop:start:step] = 0.0
        return x[stop:start:step].sum(), x[stop:start:step].size, y

    for fn in (f, g):
        jitted = jit(fn)
        for stop in stops:
            for got, wanted in zip(jitted(X, stop), fn(X, int(stop)), strict=True):
                np.testing.assert_allclose(got, wanted)


def test_unsigned_bounds_beyond_all_others() -> None:
    big = np.uint64(2**64 - 1)
    assert jit(lambda x, n: x[:n].sum())(X, big) == pytest.approx(X.sum(), rel=1e-15)
    assert jit(lambda x, n: x[n:].sum())(X, big) == 0
    assert jit(lambda x, n: x[n : 10**30].sum())(X, 0) == pytest.approx(X.sum(), rel=1e-15)


def test_numbers_of_values_are_checked() -> None:
    def f(x: Any, n: Any) -> Any:
        y = x.copy()
        y[:n] = W
        return y

    np.testing.assert_array_equal(jit(f)(X, 3), f(X, 3))
    with pytest.raises(ValueError, match="number of values"):
        jit(f)(X, 2)
    with pytest.raises(ValueError, match="mismatch"):
        jit(lambda x, n: x[:n] @ x[1:])(X, 2)
    with pytest.raises(ValueError, match="mismatch"):
        jit(lambda x, n: x[:n] @ x[n:])(X, 1)
    with pytest.raises(ValueError, match="mismatch"):
        jit(lambda x, n: x[n:] @ x[:n])(X, 1)
    with pytest.raises(ValueError, match="mismatch"):
        jit(lambda x, n: x[:n] @ x[:1])(X, 2)


def test_what_cannot_be_written_is_named() -> None:
    def argument(x: Any, n: Any) -> Any:
        head = x[:n]
        head *= 2.0
        return x

    def captured(x: Any, n: Any) -> Any:
        head = W[:n]
        head *= x[0]
        return x

    def three(x: Any, n: Any) -> Any:
        x[n : n + 3] = 0.0
        return x

    for fn in (argument, captured, three):
        with pytest.raises(MutationError):
            jit(fn)(X, 1)


REFUSED: dict[str, Any] = {
    "returned": lambda x, n: x[:n],
    "a stack": lambda x, n: np.stack([np.outer(x, x)] * 2)[:, :n] @ x,
    "beside an array": lambda x, n: np.outer(x, x)[:n, np.array([0, 1])].sum(),
    "joined": lambda x, n: np.concatenate([x[:n], x[n:]]),
    "a list": lambda x, n: sum([1.0, 2.0, 3.0][:n]) * x,
    "a step": lambda x, n: x[::n],
    "at": lambda x, n: x.at[:n].set(0.0),
    "a float": lambda x, n: x[: n * 1.0],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_named(name: Any) -> None:
    errors = (ConcretizationTypeError, TracerIntegerConversionError)
    with pytest.raises(errors):
        jit(REFUSED[name])(X, 2)


def test_too_many_indices() -> None:
    with pytest.raises(IndexError, match="too many indices"):
        jit(lambda x, n: x[:n, n : n + 2])(X, 2)
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        jit(lambda x, n: x[:n:0])(X, 2)

"""Masks that are traced: updates, folds and elementwise functions of `x[mask]`, against NumPy.

Every program runs as plain NumPy, under `jit` and `vmap`, and is differentiated both ways; the
derivatives are compared with finite differences.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace import grad, jit, jvp, vmap
from ftrace.errors import (
    ConcretizationTypeError,
    DtypeError,
    UnexpectedTracerError,
)

X = np.array([1.1, -2.0, 2.9, -0.5, 1.9])
OTHER = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
PROGRAMS: list[Callable[[Any], Any]] = []


def program(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(fn)
    return fn


def updated(change: Callable[[Any, Any, Any], None]) -> None:
    """A program that changes a copy `y` of `x`, where `m` is `x > 0`."""

    def run(x: Any) -> Any:
        y = x.copy()
        change(y, x, x > 0)
        return y

    run.__name__ = change.__name__
    PROGRAMS.append(run)


@updated
def times_a_number(y: Any, x: Any, m: Any) -> None:
    y[m] *= -1


@updated
def plus_a_number(y: Any, x: Any, m: Any) -> None:
    y[m] += 2.0


@updated
def plus_the_same_places(y: Any, x: Any, m: Any) -> None:
    y[m] += x[m] ** 2


@updated
def the_mask_written_twice(y: Any, x: Any, m: Any) -> None:
    y[x > 0] = np.sin(x[x > 0]) * 2 + x[x > 0]


@updated
def square_roots_of_some(y: Any, x: Any, m: Any) -> None:
    y[m] = np.log(x[m]) / np.sqrt(x[m])


@updated
def and_all_the_others(y: Any, x: Any, m: Any) -> None:
    y[m] = 1 / x[m]
    y[~m] -= x[~m] * 3


@updated
def all_or_nothing(y: Any, x: Any, m: Any) -> None:
    any_, all_ = m.any(), m.all()
    y[any_] = x[any_] * x[0]
    y[all_] -= 7.0
    y[..., ~all_] *= x[1]


@program
def parts_of_rank_0(x: Any) -> Any:
    some, big = x[0] > 0, x.sum() > 100
    square = np.outer(x, x)
    return square[some, 1:].sum() + square[:, some].mean() + x[big].sum()


@program
def a_choice_at_rank_0(x: Any) -> Any:
    y = np.array(x.sum())
    m = y > 1
    y[m] = x[0]
    y[~m] = y[~m] * 3
    return y


@updated
def a_value_for_each_place(y: Any, x: Any, m: Any) -> None:
    y[m] = OTHER[:3] * x[0]


@updated
def another_mask_of_as_many(y: Any, x: Any, m: Any) -> None:
    y[m] = x[OTHER > 2]


@updated
def another_traced_mask_of_as_many(y: Any, x: Any, m: Any) -> None:
    y[m] = x[x[::-1] > 0] * 2


@updated
def one_place_for_all(y: Any, x: Any, m: Any) -> None:
    y[m] = x[x > 2.5]


@updated
def indices_of_the_places(y: Any, x: Any, m: Any) -> None:
    y[np.where(m)] *= 2
    y[np.flatnonzero(x < 0)] = x[np.nonzero(m)].sum()


@updated
def what_is_clipped(y: Any, x: Any, m: Any) -> None:
    y[m] = np.where(x[m] > 2, x[m] - x[0], np.clip(x[m], 1.5, None))


@updated
def placed(y: Any, x: Any, m: Any) -> None:
    np.place(y, m, x[1:3])


@updated
def a_mask_changed_later(y: Any, x: Any, m: Any) -> None:
    v = y[m]
    y[m] = 0.0
    m[0] = False
    y[0] = v.sum() + y[m].size


@updated
def in_a_decision(y: Any, x: Any, m: Any) -> None:
    if x[0] > 0:
        y[m] *= 2
    else:
        y[~m] = 0.0


@updated
def in_a_loop(y: Any, x: Any, m: Any) -> None:
    t = x[0]
    while t < 4:
        v = y[m]
        y[m] = v * t
        t = t + v.mean()


def of_matrix(fn: Callable[[Any, Any], Any]) -> None:
    """A program of a matrix and a mask of its rows."""

    def run(x: Any) -> Any:
        return fn(np.stack([x, x * x, 3 * x], axis=1), x > 0)

    run.__name__ = fn.__name__
    PROGRAMS.append(run)


@of_matrix
def rows(p: Any, m: Any) -> Any:
    p[m, :] = 0.0
    return p


@of_matrix
def one_column_of_rows(p: Any, m: Any) -> Any:
    p[m, 1] = 7.0
    p[m, -1] *= p[m, 0]
    return p


@of_matrix
def columns(p: Any, m: Any) -> Any:
    q = p.T.copy()
    q[..., m] *= 2
    q[:, m] += p[0, 0]
    return q


@of_matrix
def a_row_for_each(p: Any, m: Any) -> Any:
    p[m] *= p[0]
    p[m] = p[m] - p[m].mean(axis=0)
    return p


@of_matrix
def all_elements(p: Any, m: Any) -> Any:
    p[p > 2.5] *= 0.5
    return p[p > 1].sum() + p[p > 1].size


@of_matrix
def mean_of_rows(p: Any, m: Any) -> Any:
    return p[m].mean(axis=0)


@of_matrix
def norms_of_rows(p: Any, m: Any) -> Any:
    return np.linalg.norm(p[m], axis=1).sum() + np.linalg.norm(p[m])


@of_matrix
def part_of_rows(p: Any, m: Any) -> Any:
    return p[m][:, 1].sum() + p[m, 2].max() + p[m][0].sum() + p[m][-1, 0]


@of_matrix
def indices_of_elements(p: Any, m: Any) -> Any:
    i, j = np.where(p > 2.5)
    p[i, j] = 0.0
    return p.sum() + (i * j).sum()


@of_matrix
def compressed(p: Any, m: Any) -> Any:
    return np.compress(m, p, axis=0).sum(axis=0) + np.extract(p > 1, p).sum()


@of_matrix
def sizes_of_columns(p: Any, m: Any) -> Any:
    part = p[:, p[0] > 1]
    return p * part.shape[0] + part.shape[1] + part.size


@of_matrix
def indices_and_a_column(p: Any, m: Any) -> Any:
    i = np.nonzero(m)[0]
    p[i, 1] = 0.0
    p[i, 2:] *= 2.0
    return p


@of_matrix
def columns_of_others(p: Any, m: Any) -> Any:
    cube = np.stack([p.T, p.T + 1])
    cube[:, :, m] = (cube * 2)[:, :, p[::-1, 0] > 0]
    return cube


@program
def indices_of_a_mask_that_is_written(x: Any) -> Any:
    y, m = x.copy(), x > 0
    i = np.nonzero(m)
    m[:2] = False
    y[i] = 0.0
    return y + m


@program
def parts_of_equal_masks_far_from_their_start(x: Any) -> Any:
    def doubled(y: Any) -> Any:
        for _ in range(40):
            y = y + y
        return y > 0

    y = np.zeros(5)
    y[doubled(x)] = x[doubled(x)]
    return y


@program
def masks_that_one_call_gives(x: Any) -> Any:
    low, high = jit(lambda v: (v > -1, v < 2))(x)
    y = np.zeros(5)
    y[low] = x[high]
    return y


FOLDS: dict[str, Any] = {
    "sum": lambda v: v.sum(),
    "sum of squares": lambda v: np.sum(v**2),
    "mean": lambda v: v.mean(),
    "product": lambda v: np.prod(v),
    "max and min": lambda v: v.max() - np.min(v),
    "ufunc.reduce": lambda v: np.add.reduce(v) + np.maximum.reduce(v),
    "std": lambda v: v.std() + np.var(v, ddof=1),
    "entropy": lambda v: -(v * np.log(v)).sum(),
    "dot": lambda v: v @ v + np.dot(v, OTHER[:3]),
    "average": lambda v: np.average(v, weights=v * v),
    "median": lambda v: np.median(v) + np.percentile(v, [10, 60]).sum(),
    "argmax": lambda v: np.argmax(v) + v.argmin() + v[0],
    "any and all": lambda v: np.any(v > 2.5) * v.sum() + np.all(v > 2),
    "size": lambda v: v.sum() / v.size + v.shape[0],
    "len": lambda v: v.sum() / len(v),
    "narrowed": lambda v: v[v < 2.5].sum(),
    "first": lambda v: v[0] * v[-1],
    "in place": lambda v: np.sum(v.__imul__(2)),
    "interp": lambda v: np.interp(v, [0.0, 1.5, 4.0], [0.0, 3.0, 4.0]).sum(),
    "other array": lambda v: (np.maximum(v, 1.5) * OTHER[:3]).sum(),
    "fnp": lambda v: fnp.sum(fnp.sqrt(v) + fnp.hypot(v, 2.0)),
    "guarded": lambda v: v.mean() if v.size > 2 else v.sum(),
    "positional arguments": lambda v: v.clip(1.5, 2.0).sum() + v.round(1).max(),
    "clipped from below": lambda v: v.clip(1.5).sum() + v.clip(max=2.0).sum(),
    "written to": lambda v: v.__setitem__(0, 7.0) or v.sum(),
    "all written": lambda v: v.__setitem__(..., OTHER[:3]) or v @ OTHER[:3],
    "some written": lambda v: v.__setitem__(v > 1.5, v[v > 1.5] * 2) or v.sum(),
    "running sums": lambda v: (np.cumsum(v) * np.cumprod(v) * OTHER[:3]).sum(),
    "sorted": lambda v: np.sort(v) @ OTHER[:3] + np.sort(v)[-1],
    "products": lambda v: (v[:, None] * OTHER).sum(axis=1) @ v + (np.outer(OTHER, v) @ v).sum(),
    "after a scalar": lambda v: (np.sum(OTHER) * v).sum() + (v.sum() * v).sum(),
    "clipped by sigma": lambda v: v[np.abs(v - v.mean()) < 1.2 * v.std()].mean(),
}

for name, fold in FOLDS.items():

    def selected(x: Any, fold: Any = fold) -> Any:
        return fold(x[x > 0])

    selected.__name__ = f"fold: {name}"
    program(selected)


@of_matrix
def folds_of_every_part(p: Any, m: Any) -> Any:
    return p[m].max(axis=1).sum() + np.sum(p.T[:, m], axis=0).max()


@of_matrix
def changed_through_views(p: Any, m: Any) -> Any:
    rows, others = p[m], p[m]
    column, part = rows[:, 0], rows[1]
    column *= 2.0
    part += 1.0
    rows[0, 1] = 7.0
    others[:, 2] = 0.0
    return p + rows.sum() * column.sum() + others[..., 1:].sum()


@program
def copies_and_views_of_selections(x: Any) -> Any:
    whole, part = np.arange(5)[x > 0], x[x > 0]
    copied, real = np.round(whole), np.real(part)
    copied *= 2
    real *= 2.0
    whole += 1
    part.real[0] = x[0]
    return x * (whole @ copied) + part.sum() * real[1]


@program
def of_an_array_from_around(x: Any) -> Any:
    def doubled(m: Any) -> Any:
        part = x[m]
        part *= 2.0
        return part.sum()

    return (
        vmap(doubled)(np.stack([x > 0, x < 1])).sum() * x
        if isinstance(x, ftrace.Tracer)
        else ((2 * x[x > 0]).sum() + (2 * x[x < 1]).sum()) * x
    )


@of_matrix
def two_masks(p: Any, m: Any) -> Any:
    v, w = p[m, 0], p[0][p[0] > 1]
    square = np.outer(v, v) * v + v[:, None] * p[m] @ p[m].T
    both = np.outer(v, w)
    both[0] += w
    both *= v[:, None]
    each = both.sum(axis=0) * w + both.max(axis=0) - np.cumsum(both, axis=1)[-1]
    turned = np.transpose(both)
    turned[0] *= 2.0
    return (
        square.sum(axis=1) @ v
        + each.sum()
        + (both.transpose(1, 0) @ v).sum()
        + both[:, 0] @ v
        + both[-1, 1]
        + both.size
    )


@of_matrix
def products_of_matrices(p: Any, m: Any) -> Any:
    left = p[m] @ p.T
    return p[:, p[0] > 1] @ p[0][p[0] > 1] + left.sum() + (p.T[:, m] @ p[m]).sum()


@program
def without_nan(x: Any) -> Any:
    y = np.where(x > 2.5, np.nan, x)
    y[np.isnan(y)] = np.mean(y[~np.isnan(y)])
    return y


@program
def of_a_plain_array(x: Any) -> Any:
    return (OTHER[x > 0] * x[x > 0]).sum()


@program
def guarded_by_any(x: Any) -> Any:
    m = x > 10
    return x[m].max() if m.any() else x[0] * 3


def total(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: np.sum(fn(x)) * 1.0


def slope(fn: Callable[[Any], Any], x: Any) -> Any:
    """The gradient by finite differences."""
    steps = np.eye(x.size) * 1e-6
    return np.array([(fn(x + s) - fn(x - s)) / 2e-6 for s in steps])


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_what_a_traced_mask_selects_is_as_in_numpy(fn: Any) -> None:
    rows = np.stack([X, X[::-1] * 0.9, np.roll(X, 1)])
    wanted = [fn(x.copy()) for x in rows]
    jitted = jit(fn)
    for x, w in zip(rows, wanted, strict=True):
        got = jitted(x)
        np.testing.assert_allclose(got, w, rtol=1e-12)
        assert np.asarray(got).dtype == np.asarray(w).dtype
    np.testing.assert_allclose(vmap(fn)(rows), np.stack(wanted), rtol=1e-12)
    np.testing.assert_allclose(jit(vmap(fn))(rows), np.stack(wanted), rtol=1e-12)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_derivatives_of_what_a_traced_mask_selects(fn: Any) -> None:
    f = total(fn)
    wanted = slope(f, X)
    np.testing.assert_allclose(jit(grad(f))(X), wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(vmap(grad(f))(X[None])[0], wanted, rtol=1e-6, atol=1e-6)
    t = np.arange(1.0, 6.0)
    tangent = jit(lambda x: jvp(f, (x,), (t,))[1])(X)
    np.testing.assert_allclose(tangent, wanted @ t, rtol=1e-6, atol=1e-6)


SINGULAR: dict[str, Any] = {
    "sqrt": lambda v: np.sqrt(v).sum(),
    "log": lambda v: np.log(v).mean(),
    "reciprocal": lambda v: (1 / v).prod(),
    "power": lambda v: (v**0.5).max(),
    "norm": lambda v: np.linalg.norm(v),
    "arctanh": lambda v: np.arctanh(v / 8).sum(),
    "median": lambda v: np.median(v**1.5),
}


@pytest.mark.parametrize("fold", SINGULAR.values(), ids=SINGULAR)
def test_places_not_taken_give_no_nan_to_derivatives_of_any_order(fold: Any) -> None:
    z = np.array([0.0, -1.0, np.nan, np.inf, 4.0])

    def f(x: Any) -> Any:
        return fold(x[(x > 0) & (x < 5)])

    def exact(v: Any) -> Any:
        return fold(np.array([v]) if isinstance(v, float) else v[None])

    first = np.array([0, 0, 0, 0, grad(exact)(4.0)])
    second = np.array([0, 0, 0, 0, grad(grad(exact))(4.0)])
    for way in (grad(f), jit(grad(f)), lambda x: vmap(grad(f))(x[None])[0]):
        np.testing.assert_allclose(way(z), first, rtol=1e-12)
    np.testing.assert_allclose(np.diag(jit(ftrace.hessian(f))(z)), second, rtol=1e-12)
    np.testing.assert_allclose(jit(jvp, static_argnums=0)(f, (z,), (np.ones(5),))[1], first[-1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, complex, np.int64, np.uint8, bool])
def test_dtypes_are_those_of_numpy(dtype: Any) -> None:
    x = np.array([1, 0, 3, 0, 2]).astype(dtype)

    def f(x: Any) -> Any:
        m = x != 0
        y = x.copy()
        y[m] = x[m]
        v = x[m]
        return y, v.sum(), v.prod(), v.mean(), np.any(v), v.std(), v.max(), v[1]

    for got, wanted in zip(jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype


def test_masks_of_two_mapped_axes_are_two() -> None:
    masks = np.array([[True, False, True], [False, True, True]])

    def f(m: Any, n: Any) -> Any:
        y = np.zeros(3)
        y[n] = np.arange(1.0, 4.0)[m]
        return y

    got = vmap(lambda m: vmap(lambda n: f(m, n))(masks))(masks)
    np.testing.assert_array_equal(got, [[f(m, n) for n in masks] for m in masks])


def test_functional_updates_with_a_traced_mask() -> None:
    found = jit(lambda x: (x.at[x > 0].add(1.0), x.at[x > 0].set(x[x > 0] * 2)))(X)
    np.testing.assert_array_equal(found[0], np.where(X > 0, X + 1, X))
    np.testing.assert_array_equal(found[1], np.where(X > 0, X * 2, X))


def test_masks_that_are_equal_are_no_gather() -> None:
    def f(x: Any) -> Any:
        y = np.zeros_like(x)
        y[x > 0] = x[x > 0]
        return y

    names = {e.primitive.name for e in ftrace.make_jaxpr(f)(X).eqns}
    assert names.isdisjoint({"gather", "scatter", "raise_where"})
    assert "select" in names


def test_the_number_of_parts_is_checked_when_it_runs() -> None:
    def given(x: Any) -> Any:
        y = np.zeros(5)
        y[x > 0] = np.array([1.0, 2.0])
        return y

    def combined(x: Any) -> Any:
        return (x[x > 0] * x[x < 0]).sum()

    for f in (given, combined):
        with pytest.raises(ValueError, match="number of values is not that"):
            jit(f)(X)
        jit(f)(np.array([1.0, 2.0, -1.0, -2.0, 0.0]))  # two of each


def test_nothing_selected_is_as_in_numpy() -> None:
    assert jit(lambda x: x[x > 9].sum())(X) == 0
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
        jit(lambda x: x[x > 9].max())(X)
    with pytest.raises(ValueError, match="attempt to get argmin of an empty sequence"):
        vmap(lambda x: np.argmin(x[x > 9]))(X[None])
    with pytest.raises(IndexError, match="out of bounds"):
        jit(lambda x: x[x > 9][0])(X)
    assert jit(lambda x: x[x > 9].max(initial=-1.0))(X) == -1


def test_order_statistics_see_a_nan_that_is_selected() -> None:
    x = np.where(X > 2.5, np.nan, X)
    f = jit(lambda x, m: np.median(x[m]))
    assert np.isnan(f(x, X > 0))
    assert f(x, X < 2.5) == np.median(x[X < 2.5])


def into_all(x: Any) -> Any:
    y = np.zeros(3)
    y[:] = x[x > 0]
    return y


REFUSED: dict[str, Any] = {
    "returned": lambda x: x[x > 0],
    "in a list": lambda x: [x.sum(), x[x > 0]],
    "np.unique": lambda x: np.unique(x[x > 0]),
    "np.concatenate": lambda x: np.concatenate([x[x > 0], x[x < 0]]),
    "a plain array": lambda x: np.array(x[x > 0]),
    "bool()": lambda x: 1.0 if x[x > 0] else 2.0,
    "a loop": lambda x: sum(v * v for v in x[x > 0]),
    "a reshape": lambda x: x[x > 0].reshape(-1, 1).sum(),
    "no traced mask": into_all,
    "an index": lambda x: x[x[x > 0].astype(int)],
    "another array": lambda x: np.outer(x, x)[x > 0, np.array([0, 1, 2])],
    "a sort of bytes": lambda x: np.sort(x[x > 0] > 1),
    "a stable sort": lambda x: np.sort(x[x > 0], kind="stable"),
    "rank 0": lambda x: x[x[0] > 0],  # one row or none
    "parts of parts": lambda x: x[x > 0][1:].sum(),
    "argument": lambda x: jit(np.sin)(x[x > 0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_number_of_parts_is_refused(name: Any) -> None:
    for f in (jit(REFUSED[name]), lambda x: vmap(REFUSED[name])(x[None])):
        with pytest.raises(ConcretizationTypeError, match=r"x\[mask\] or x\[:n\], has a size that"):
            f(X)


def test_changes_in_place_are_those_of_numpy() -> None:
    def halved(x: Any) -> Any:
        y = np.zeros(5, int)
        y[x > 0] *= 0.5
        return y

    def shared(x: Any) -> Any:
        v = x[x > 0]
        w = v
        w += 1
        return v.sum()

    def in_an_arm(x: Any) -> Any:
        v = x[x > 0]
        if x[0] > 0:
            v *= 2
        return v.sum()

    with pytest.raises(DtypeError, match="gives float64, which cannot be stored in an array of"):
        jit(halved)(X)
    np.testing.assert_allclose(jit(shared)(X), shared(X))
    for x in (X, -X):
        np.testing.assert_allclose(jit(in_an_arm)(x), in_an_arm(x))
        np.testing.assert_allclose(jit(grad(in_an_arm))(x), slope(in_an_arm, x), rtol=1e-6)


def test_a_selection_answers_as_an_array() -> None:
    def f(x: Any) -> Any:
        v = x[x > 0]
        return v.sum() if isinstance(v, np.ndarray) and v.ndim == 1 and v.dtype == float else 0.0

    assert jit(f)(X) == f(X)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        jit(lambda x: x[x > 0].nothing)(X)


def test_a_selection_answers_what_its_dtype_and_rank_are() -> None:
    def f(x: Any) -> Any:
        v = x[x > 0]
        kinds = np.result_type(v, 1j) == np.dtype("c16") and np.can_cast(v.dtype, "c16")
        real = np.isrealobj(v) and not np.iscomplexobj(v) and np.common_type(v) is np.float64
        return v.sum() * np.ndim(v) if kinds and real else np.nan

    assert jit(f)(X) == f(X)
    np.testing.assert_allclose(vmap(f)(np.stack([X, -X])), [f(X), f(-X)])


def test_a_selection_that_leaves_its_trace_is_named() -> None:
    kept: list[Any] = []

    @jit
    def f(x: Any) -> Any:
        kept.append(x[x > 0])
        return x

    f(X)
    with pytest.raises(UnexpectedTracerError):
        kept[0].sum()


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_moments_of_what_a_where_mask_leaves(axis: Any) -> None:
    p = np.outer(X, OTHER)

    def f(p: Any) -> Any:
        return np.var(p, axis=axis, where=p > 1) + np.std(p, axis=axis, where=p > 1, ddof=1).sum()

    np.testing.assert_allclose(jit(f)(p[::2]), f(p[::2]), rtol=1e-12)


def test_a_function_of_a_module_that_was_not_loaded_yet():
    program = (
        "import numpy as np; from ftrace import jit; "
        "print(jit(lambda x: np.linalg.norm(x[x > 0]))(np.array([3.0, -1.0, 4.0])))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "5.0\n", found.stderr


def test_sorting_puts_a_nan_that_is_selected_last() -> None:
    x = np.array([np.nan, 2.0, np.inf, -1.0, 1.0])
    f = jit(lambda x, m: (np.sort(x[m])[-1], np.sort(x[m])[-2], np.sort(x[m]) @ np.arange(4.0)))
    m = np.array([True, True, True, False, True])
    np.testing.assert_array_equal(f(x, m), f.__wrapped__(x, m))
    np.testing.assert_array_equal(f(x[[3, 1, 2, 0, 4]], m), f.__wrapped__(x[[3, 1, 2, 0, 4]], m))

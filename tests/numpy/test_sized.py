"""`size=`: results whose length is given, where it would depend on values."""

from typing import Any

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.core.errors import RuleError

RNG = np.random.default_rng(3)
X = RNG.integers(0, 5, (4, 3)).astype(float)
Y = np.array([3.0, 0.0, 7.0, 3.0])
HOLES = np.array([2.0, np.nan, 1.0, np.nan, 2.0])
SIZES = (0, 2, 5, 30)
FUNCTIONS = ("nonzero", "flatnonzero", "argwhere", "unique", "unique_values", "union1d",
             "intersect1d", "setdiff1d", "setxor1d", "extract", "compress", "where")  # fmt: skip


def padded(x: Any, size: int, fill: Any) -> Any:
    """The first rows of what NumPy gives, and a number in the others."""
    x = np.asarray(x)[:size]
    rest = np.full((size - len(x), *x.shape[1:]), fill, x.dtype)
    return np.concatenate([x, rest])


def ways(f: Any) -> list[Any]:
    return [f, ftrace.jit(f), lambda *xs: ftrace.vmap(f)(*[np.stack([x, x]) for x in xs])]


def agree(f: Any, args: tuple[Any, ...], wanted: Any) -> None:
    for i, way in enumerate(ways(f)):
        found = way(*args)
        found = found if isinstance(found, tuple) else (found,)
        for a, b in zip(found, wanted, strict=True):
            a = np.asarray(a)[1] if i == 2 else np.asarray(a)
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_numpy_gives_is_cut_off_or_filled_up(name: str, size: int) -> None:
    function, plain = getattr(fnp, name), getattr(np, name)
    args: tuple[Any, ...] = (X > 1,) if name in (*FUNCTIONS[:3], "where") else (X,)
    if name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
        args = (X, Y)
    if name in ("extract", "compress"):
        args = (X > 1, X) if name == "extract" else (X[0] > 1, X)
    options = {"axis": 1} if name == "compress" else {}
    wanted = plain(*args, **options)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    if name == "compress":
        wanted = tuple(padded(w.T, size, 9).T for w in wanted)
    else:
        wanted = tuple(padded(np.sort(w) if "values" in name else w, size, 9) for w in wanted)
    agree(lambda *xs: function(*xs, size=size, fill_value=9, **options), args, wanted)


@pytest.mark.parametrize("x", [X, HOLES, np.zeros(0), np.array([True, False, True])], ids=str)
def test_unique_has_index_inverse_and_counts(x: Any) -> None:
    for equal_nan in (True, False):
        plain = np.unique(x, True, True, True, equal_nan=equal_nan)
        n = len(plain[0])
        fills = (x.dtype.type(1), plain[1][0] if n else 0, None, 0)
        for size in (n, n + 2):
            wanted = [
                p if fill is None else padded(p, size, fill)
                for p, fill in zip(plain, fills, strict=True)
            ]
            agree(
                lambda v, size=size, equal_nan=equal_nan: fnp.unique(
                    v, True, True, True, equal_nan=equal_nan, size=size, fill_value=1
                ),
                (x,),
                wanted,
            )
    found = fnp.unique_all(X, size=4)
    assert type(found) is type(np.unique_all(X))
    assert fnp.unique(X, size=9)[-1] == X.min()  # JAX's filler


def test_elements_that_are_taken_have_derivatives() -> None:
    x = np.array([3.0, 1.0, 2.0, 5.0])
    for f, wanted in (
        (lambda v: fnp.unique(v, size=3), [3.0, 1.0, 2.0, 0.0]),
        (lambda v: fnp.extract(v > 1.5, v, size=3), [1.0, 0.0, 2.0, 3.0]),
        (lambda v: fnp.setdiff1d(v, x[:1], size=3), [0.0, 1.0, 2.0, 3.0]),
    ):
        slope = ftrace.jit(ftrace.grad(lambda v, f=f: np.sum(f(v) * np.array([1.0, 2.0, 3.0]))))
        np.testing.assert_array_equal(slope(x), wanted)


def test_jaxs_keywords_are_taken_with_no_trace_running() -> None:
    i = np.array([1, 1, 3])
    np.testing.assert_array_equal(fnp.bincount(i, length=2), [0, 2])
    np.testing.assert_array_equal(fnp.repeat(i, i, total_repeat_length=4), [1, 1, 3, 3])
    assert fnp.nonzero(X, size=2, fill_value=(-1, -2))[0].shape == (2,)
    assert fnp.nonzero(np.zeros((2, 2)), size=1, fill_value=(-1, -2))[1] == -2


def test_bincount_with_minlength_is_compiled_and_checked() -> None:
    i, w = np.array([0, 2, 2]), np.array([0.5, 1.0, 2.0])
    f = ftrace.jit(lambda i, w: np.bincount(i, weights=w, minlength=4))
    np.testing.assert_array_equal(f(i, w), np.bincount(i, w, 4))
    with pytest.raises(ValueError, match="no integer may be 4 or more"):
        f(i + 2, w)
    with pytest.raises(ValueError, match="no negative elements"):
        f(i - 1, w)


def test_what_has_no_sized_form_says_so() -> None:
    for f in (
        lambda x: fnp.unique(x, axis=0, size=2),
        lambda x: fnp.intersect1d(x, x, return_indices=True, size=2),
    ):
        with pytest.raises(RuleError, match="size="):
            ftrace.jit(f)(X)

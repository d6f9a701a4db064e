"""Random chains of views and writes: what shares memory in NumPy shares it in traces.

A chain starts from arrays of known layout, makes views of views with every function that gives
one (or a copy, where NumPy's layout says so), and writes through some of them. Afterwards every
array that is still named must hold what NumPy's holds, in value and in derivative. The one
allowed difference: a named error where the layout is not known.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ftrace.numpy as fnp
from ftrace import grad, jit, jvp
from ftrace.errors import MutationError

X = np.array([0.5, -1.5, 2.0])

MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "zeros": lambda xp, x: xp.zeros((2, 3)),
    "full": lambda xp, x: xp.full((3, 2, 2), 0.5),
    "ones": lambda xp, x: xp.ones((2, 1, 3)),
    "vector": lambda xp, x: x * 1.0,
    "computed": lambda xp, x: x.reshape(3, 1) * np.ones((3, 4)),
    "scaled transpose": lambda xp, x: (x.reshape(3, 1) * np.ones((3, 2))).T * 2.0,
    "list": lambda xp, x: xp.array([[x[0], 1.0], [x[1], 2.0]]),
}

VIEWS: dict[str, Callable[..., Any]] = {
    "T": lambda a: a.T,
    "first": lambda a: a[0] if a.ndim > 1 else a,
    "tail": lambda a: a[1:] if a.ndim else a,
    "every second": lambda a: a[..., ::2] if a.ndim else a,
    "backwards": lambda a: a[::-1] if a.ndim else a,
    "new axis": lambda a: a[None] if a.ndim < 4 else a,
    "all": lambda a: a[...],
    "ravel": lambda a: a.ravel(),
    "np.ravel": np.ravel,
    "flat": lambda a: a.reshape(-1),
    "two rows": lambda a: a.reshape(2, -1) if a.size % 2 == 0 else a,
    "two columns": lambda a: np.reshape(a, (-1, 2)) if a.size % 2 == 0 else a,
    "one column": lambda a: a.reshape(-1, 1),
    "fortran": lambda a: a.reshape((2, -1), order="F") if a.size % 2 == 0 else a,
    "squeeze": lambda a: a.squeeze() if a.size > 1 else a,
    "expand": lambda a: np.expand_dims(a, -1) if a.ndim < 4 else a,
    "swapaxes": lambda a: a.swapaxes(0, -1) if a.ndim else a,
    "moveaxis": lambda a: np.moveaxis(a, -1, 0) if a.ndim else a,
    "transpose": lambda a: np.transpose(a, np.roll(np.arange(a.ndim), 1)) if a.ndim else a,
    "flip": lambda a: np.flip(a, 0) if a.ndim else a,
    "rot90": lambda a: np.rot90(a) if a.ndim > 1 else a,
    "split": lambda a: np.array_split(a, 2)[0] if a.ndim else a,
    "atleast_2d": np.atleast_2d,
    "real": lambda a: a.real,
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)) if a.ndim < 3 else a,
    "diagonal": lambda a: np.diagonal(a) if a.ndim > 1 else a,
    "copy": lambda a: a.copy(),
    "np.copy": np.copy,
    "flatten": lambda a: a.flatten(),
    "F flatten": lambda a: a.flatten("F"),
    "computed": lambda a: a * 2.0,
}


def fill(a: Any, v: Any) -> None:
    a[...] = v


def add(a: Any, v: Any) -> None:
    a += v


def first_row(a: Any, v: Any) -> None:
    a[:1] = v


def by_list(a: Any, v: Any) -> None:
    if a.shape[0]:
        a[[0]] *= v


def by_flat(a: Any, v: Any) -> None:
    a.flat[1::2] = v


def by_out(a: Any, v: Any) -> None:
    np.multiply(a, v, out=a)


def by_mask(a: Any, v: Any) -> None:
    a[a < 0.1] = v


WRITES = {f.__name__: f for f in (fill, add, first_row, by_list, by_flat, by_out, by_mask)}

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["view", "view", "write", "write", "drop"]),
        st.integers(0, 30),
        st.sampled_from([*sorted(VIEWS), "asarray"]),
        st.sampled_from(sorted(WRITES)),
    ),
    min_size=2,
    max_size=9,
)


def run(xp: Any, x: Any, maker: str, steps: Any) -> Any:
    """The weighted sum of all arrays still named at the end."""
    arrays = [MAKERS[maker](xp, x)]
    for number, (what, which, view, write) in enumerate(steps):
        a = arrays[which % len(arrays)]
        if what == "view":
            made = xp.asarray(a) if view == "asarray" else VIEWS[view](a)
            if made.ndim:
                arrays.append(made)
            del made
        elif what == "drop" and len(arrays) > 1:
            arrays.pop(which % len(arrays))
        elif what == "write":
            WRITES[write](a, x[number % 3] * (number + 1.0))
        del a
    total = 0.0
    for i, a in enumerate(arrays):
        weights = np.cos(np.arange(a.size) + i).reshape(a.shape)
        total = total + (a * weights).sum()
    return total


CHAINS = st.tuples(st.sampled_from(sorted(MAKERS)), STEPS)


@given(CHAINS)
@example(("zeros", [("view", 0, "T", ""), ("view", 1, "flat", ""), ("write", 2, "", "fill")]))
@example(
    (
        "zeros",
        [
            ("view", 0, "T", ""),
            ("view", 1, "np.copy", ""),
            ("view", 2, "flat", ""),
            ("write", 3, "", "fill"),
        ],
    )
)
@example(("full", [("view", 0, "first", ""), ("view", 1, "flat", ""), ("write", 2, "", "add")]))
@example(
    (
        "vector",
        [("view", 0, "every second", ""), ("view", 1, "ravel", ""), ("write", 2, "", "fill")],
    )
)
def test_a_chain_of_views_holds_what_numpy_holds(chain: Any) -> None:
    maker, steps = chain

    def f(x: Any) -> Any:
        return run(fnp, x, maker, steps)

    try:
        wanted = run(np, X, maker, steps)
    except ValueError:  # a read-only view was written
        for transform in (jit, grad):
            with pytest.raises(MutationError):
                transform(f)(X)
        return
    try:
        found = jit(f)(X)
    except MutationError as error:
        if "memory layout" in str(error):
            return
        raise
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    value, tangent = jvp(f, (X,), (np.array([1.0, -2.0, 0.5]),))
    np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)
    direction = np.array([1.0, -2.0, 0.5]) * 1e-6
    ahead, behind = (run(np, X + d, maker, steps) for d in (direction, -direction))
    if abs(value) < 1e6:  # beyond, differences have no digits left
        np.testing.assert_allclose(tangent, (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-5)
        slope = grad(f)(X) @ direction * 1e6
        np.testing.assert_allclose(tangent, slope, rtol=1e-9, atol=1e-9)

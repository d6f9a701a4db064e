"""What a function is compared with: SciPy's values, differences, members one by one."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ftrace
from ftrace.tree import leaves


def same(found: Any, expected: Any, rtol: float, atol: float = 1e-11) -> None:
    """The same number of arrays with the same values."""
    ours, theirs = leaves(found), leaves(expected)
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def directions(xs: Sequence[Any]) -> list[Any]:
    """A tangent for each argument."""
    rng = np.random.default_rng(1)
    return [rng.normal(size=np.shape(x)) if np.ndim(x) else float(rng.normal()) for x in xs]


def check_jvp(f: Callable[..., Any], xs: Sequence[Any], rtol: float = 1e-6) -> None:
    """Values as without a transformation, tangents as differences say."""
    ts, h = directions(xs), 1e-6
    y, dy = ftrace.jvp(f, tuple(xs), tuple(ts))
    same(y, f(*xs), 1e-12)
    up, down = (leaves(f(*(x + s * h * t for x, t in zip(xs, ts, strict=True)))) for s in (1, -1))
    same(dy, [(a - b) / (2 * h) for a, b in zip(up, down, strict=True)], rtol, 1e-7)


def check_vjp(f: Callable[..., Any], xs: Sequence[Any]) -> None:
    """The pullback is the transpose of the tangents' map."""
    ts = directions(xs)
    _, dy = ftrace.jvp(f, tuple(xs), tuple(ts))
    ys, pull = ftrace.vjp(lambda *xs: leaves(f(*xs)), *xs)
    rng = np.random.default_rng(2)
    cts = [np.asarray(rng.normal(size=np.shape(v)), np.asarray(v).dtype)[()] for v in ys]
    left = sum(np.sum(c * d).real for c, d in zip(cts, leaves(dy), strict=True))
    right = sum(np.sum(c * t) for c, t in zip(pull(cts), ts, strict=True))
    np.testing.assert_allclose(right, left, rtol=1e-8, atol=1e-10)


def check_vmap(f: Callable[..., Any], xs: Sequence[Any]) -> None:
    """Mapped over two members as called for each."""
    both = [np.stack([x, np.asarray(x) * 1.01]) for x in xs]
    found = ftrace.vmap(f)(*both)
    expected = f(*(b[1] if np.ndim(b[1]) else float(b[1]) for b in both))
    same([v[1] for v in leaves(found)], expected, 1e-9)


def check_jit(f: Callable[..., Any], xs: Sequence[Any]) -> None:
    """Staged as called."""
    same(ftrace.jit(f)(*xs), f(*xs), 1e-9)


CHECKS = {"jvp": check_jvp, "vjp": check_vjp, "vmap": check_vmap, "jit": check_jit}

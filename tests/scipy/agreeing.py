"""What a function is compared with: SciPy's values, differences, members one by one."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ftrace


def leaves(y: Any) -> list[Any]:
    """The inexact arrays and numbers in what a function of a library returns."""
    if isinstance(y, (tuple, list)):
        return [leaf for part in y for leaf in leaves(part)]
    if isinstance(y, float):
        return [y]
    if hasattr(y, "dtype"):
        return [y] if y.dtype.kind in "fc" else []
    return [leaf for part in getattr(y, "__dict__", {}).values() for leaf in leaves(part)]


def flat(f: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The function with its results as a list of arrays."""
    return lambda *xs: leaves(f(*xs))


def same(found: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float = 1e-11) -> None:
    """The same number of arrays with the same values."""
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def directions(xs: Sequence[Any]) -> list[Any]:
    """A tangent for each argument."""
    rng = np.random.default_rng(1)
    return [rng.normal(size=np.shape(x)) if np.ndim(x) else float(rng.normal()) for x in xs]


def check_jvp(f: Callable[..., Any], xs: Sequence[Any], rtol: float = 1e-6) -> None:
    """Values as without a transformation, tangents as differences say."""
    g, ts, h = flat(f), directions(xs), 1e-6
    y, dy = ftrace.jvp(g, tuple(xs), tuple(ts))
    same(y, g(*xs), 1e-12)
    ends = [g(*(x + s * h * t for x, t in zip(xs, ts, strict=True))) for s in (1, -1)]
    same(dy, [(a - b) / (2 * h) for a, b in zip(*ends, strict=True)], rtol, 1e-7)


def check_vjp(f: Callable[..., Any], xs: Sequence[Any]) -> None:
    """The pullback is the transpose of the tangents' map."""
    g, ts = flat(f), directions(xs)
    _, dy = ftrace.jvp(g, tuple(xs), tuple(ts))
    y, pull = ftrace.vjp(g, *xs)
    rng = np.random.default_rng(2)
    cts = [np.asarray(rng.normal(size=np.shape(v)), np.asarray(v).dtype)[()] for v in y]
    left = sum(np.sum(c * d).real for c, d in zip(cts, dy, strict=True))
    right = sum(np.sum(c * t) for c, t in zip(pull(cts), ts, strict=True))
    np.testing.assert_allclose(right, left, rtol=1e-8, atol=1e-10)


def check_vmap(f: Callable[..., Any], xs: Sequence[Any]) -> None:
    """Mapped over two members as called for each."""
    g = flat(f)
    both = [np.stack([x, np.asarray(x) * 1.01]) for x in xs]
    found = ftrace.vmap(g)(*both)
    expected = g(*(b[1] if np.ndim(b[1]) else float(b[1]) for b in both))
    same([v[1] for v in found], expected, 1e-9)


def check_jit(f: Callable[..., Any], xs: Sequence[Any]) -> None:
    """Staged as called."""
    same(ftrace.jit(flat(f))(*xs), flat(f)(*xs), 1e-9)


CHECKS = {"jvp": check_jvp, "vjp": check_vjp, "vmap": check_vmap, "jit": check_jit}

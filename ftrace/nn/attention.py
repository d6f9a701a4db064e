"""Scaled dot product attention, of any number of heads of queries for each of keys."""

import math
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.dtypes import float32
from ftrace.core.errors import ShapeError
from ftrace.nn.normalising import softmax
from ftrace.numpy.promote import inexact, value


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: Any = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
) -> Any:
    """Weighted means of values: softmax(query key^T scale + bias) value, for each head.

    Args:
        query: (B, T, N, H), or without B.
        key, value: (B, S, K, H), where K divides N: neighbouring heads share keys and values.
        bias: added to the scores, broadcast to (B, N, T, S).
        mask: booleans, broadcast to (B, N, T, S): which keys a query sees.
        scale: 1 / sqrt(H) by default.
        is_causal: a query sees no key behind its own place.
        query_seq_lengths: integers (B,): beyond them the result is 0.
        key_value_seq_lengths: integers (B,): keys beyond them are not seen.
        local_window_size: how many keys before and behind its place a query sees.
        implementation: JAX's choice of a library, without meaning here.

    Raises:
        ShapeError: shapes that do not fit.

    Example:
        >>> import numpy as np, ftrace
        >>> q = np.zeros((1, 2, 1, 4))
        >>> v = np.arange(8.0).reshape(1, 2, 1, 4)
        >>> ftrace.nn.dot_product_attention(q, q, v, is_causal=True)[0, :, 0]
        array([[0., 1., 2., 3.],
               [2., 3., 4., 5.]])
    """
    q, k, v = (inexact(x) for x in (query, key, value))
    batched = q.ndim == 4
    if not batched:
        q, k, v = (fnp.expand_dims(x, 0) for x in (q, k, v))
    _check(q, k, v)
    b, t, n, h = q.shape
    s, heads = k.shape[1:3]
    grouped = fnp.reshape(q, (b, t, heads, n // heads, h))
    wide = np.result_type(q.dtype, float32)
    scores = fnp.einsum("btkgh,bskh->bkgts", grouped, k).astype(wide)
    scores = fnp.reshape(scores, (b, n, t, s)) * (1 / math.sqrt(h) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    seen = _seen(t, s, is_causal, local_window_size)
    for other in (mask, _within(key_value_seq_lengths, s, (1, 1, 1, s))):
        if other is not None:
            seen = other if seen is None else fnp.logical_and(seen, other)
    if seen is not None:
        scores = fnp.where(seen, scores, -0.7 * float(np.finfo(wide).max))
    weights = fnp.reshape(softmax(scores).astype(q.dtype), (b, heads, n // heads, t, s))
    found = fnp.reshape(fnp.einsum("bkgts,bskh->btkgh", weights, v), (b, t, n, v.shape[-1]))
    kept = _within(query_seq_lengths, t, (1, t, 1, 1))
    found = found if kept is None else fnp.where(kept, found, 0.0)
    return found if batched else found[0]


def _check(q: Any, k: Any, v: Any) -> None:
    shapes = [x.shape for x in (q, k, v)]
    fits = all(len(s) == 4 for s in shapes) and shapes[1][:3] == shapes[2][:3]
    if not fits or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or q.shape[2] % k.shape[2]:
        raise ShapeError(
            f"nn.dot_product_attention was given shapes {shapes[0]}, {shapes[1]} and {shapes[2]}.",
            "They are (B, T, N, H), (B, S, K, H) and (B, S, K, H), where K divides N.",
        )


def _seen(t: int, s: int, is_causal: bool, window: int | tuple[int, int] | None) -> Any:
    """Which keys the place of a query lets it see; None: all."""
    queries, keys = np.arange(t)[:, None], np.arange(s)[None, :]
    seen = queries >= keys if is_causal else None
    if window is not None:
        before, behind = window if type(window) is tuple else (window, window)
        near = (queries <= keys + before) & (queries >= keys - behind)
        seen = near if seen is None else seen & near
    return seen


def _within(lengths: Any, size: int, shape: tuple[int, ...]) -> Any:
    """Which places lie within the lengths of sequences; None where there are none."""
    if lengths is None:
        return None
    lengths = fnp.reshape(value(lengths), (-1, 1, 1, 1))
    return fnp.less(np.arange(size).reshape(shape), lengths)


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = float32
) -> Any:
    """Products of batches of matrices whose blocks of columns have scales of their own.

    Args:
        lhs: (B, M, K).
        rhs: (B, N, K): it is transposed.
        lhs_scales: (B, M, K / block).
        rhs_scales: (B, N, K / block).
        preferred_element_type: the dtype of the result.

    Example:
        >>> import numpy as np, ftrace
        >>> x, half = np.ones((1, 1, 4)), np.full((1, 1, 2), 0.5)
        >>> float(ftrace.nn.scaled_matmul(x, x, half, half)[0, 0, 0])
        1.0
    """
    dtype = np.dtype(preferred_element_type)
    left, right = (
        fnp.astype(x, dtype) * fnp.repeat(fnp.astype(c, dtype), x.shape[-1] // c.shape[-1], axis=-1)
        for x, c in ((lhs, lhs_scales), (rhs, rhs_scales))
    )
    return fnp.matmul(left, fnp.swapaxes(right, -1, -2))

"""`ftrace.scipy.cluster.vq`: which centroid is nearest, and how far it is."""

from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace.core.errors import ShapeError
from ftrace.numpy.indexing import getitem
from ftrace.numpy.promote import promote_inexact, value
from ftrace.scipy.borrowing import scipys


@scipys("scipy.cluster.vq")
def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The nearest of several centroids for each observation.

    Args:
        obs: observations, one a row; a vector of numbers is a column.
        code_book: centroids, one a row.
        check_finite: without effect on traced arrays.

    Returns:
        The index of the nearest centroid and its distance, for each observation. The distance has
        derivatives.

    Raises:
        ShapeError: rows of different lengths.

    Example:
        >>> import numpy as np
        >>> from ftrace.scipy.cluster.vq import vq
        >>> vq(np.array([[1.0, 1.0], [5.0, 4.0]]), np.array([[0.0, 1.0], [5.0, 5.0]]))[1]
        array([1., 1.])
    """
    obs, book = promote_inexact(value(obs), value(code_book))
    if obs.ndim == 1:
        obs, book = obs[:, None], book[:, None] if book.ndim == 1 else book
    if obs.ndim != 2 or book.ndim != 2 or obs.shape[1] != book.shape[1]:
        raise ShapeError(
            f"vq was given observations {obs.shape} and centroids {book.shape}.",
            "Both have one row for each, of as many numbers.",
        )
    away = obs[:, None, :] - book[None, :, :]
    code = fnp.argmin(fnp.sum(away * away, axis=-1), axis=-1).astype(np.int32)
    return code, fnp.linalg.norm(obs - getitem(book, code), axis=-1)

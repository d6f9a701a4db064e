"""Vectors that libraries give with any sign or phase, with one that is always the same.

Eigenvectors of Hermitian matrices and singular vectors are unique but for that, where values are
apart as they are in samples. Each library chooses otherwise, and sometimes between two versions.
"""

from collections.abc import Callable
from typing import Any

import ftrace.numpy as fnp
from ftrace import lax
from tests.laws.cases import Case

Flat = Callable[..., list[Any]]


def unique(case: Case) -> Flat:
    """The row of a case, with phases of its own choice if they mean nothing."""
    rules = {"eigh": _eigh, "svd": _svd}
    rule = rules.get(case.row.name)
    return case.flat if rule is None else lambda *args: rule(*case.flat(*args))


def phase(v: Any) -> Any:
    """What makes the product of each column with fixed numbers positive: it has no derivative."""
    number = fnp.cumsum(fnp.ones_like(fnp.real(v)), axis=-2)  # of each row, on the device of v
    along = fnp.sum(fnp.multiply(fnp.cos(fnp.multiply(number, 2.3)), v), axis=-2)
    found = fnp.divide(fnp.conj(along), fnp.abs(along))
    return fnp.expand_dims(lax.stop_gradient(found), -2)


def _eigh(w: Any, v: Any) -> list[Any]:
    return [w, fnp.multiply(v, phase(v))]


def _svd(u: Any, s: Any, vh: Any) -> list[Any]:
    """Of U and V those of one singular value turn together; one more completes a square factor."""
    by = phase(u)
    back = fnp.conj(fnp.swapaxes(by, -1, -2)[..., : s.shape[-1], :])
    return [fnp.multiply(u, by), s, fnp.multiply(vh, back)]

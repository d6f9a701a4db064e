"""Vectors that libraries give with any sign or phase, with one that is always the same.

Eigenvectors of Hermitian matrices and singular vectors are unique but for that, where values are
apart as they are in samples. Each library chooses otherwise, and sometimes between two versions.
"""

from typing import Any

import ftrace.numpy as fnp
from ftrace import lax
from tests.laws.cases import Case


def unique(case: Case) -> Case:
    """The case, with phases of its own choice if those of its row mean nothing."""
    return Unique(case.row, case.sample) if case.row.name in RULES else case


class Unique(Case):
    """A case of a row whose vectors have phases that mean nothing."""

    def flat(self, *args: Any) -> list[Any]:
        """The row with phases that do not depend on the library."""
        return RULES[self.row.name](*super().flat(*args))


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


RULES = {"eigh": _eigh, "svd": _svd}

"""Equal eigenvalues: which derivatives of a decomposition exist there, on plain arrays.

Arrays may be of a device: what NumPy does not hand over by its protocols is not used here.

With dA seen in the basis of eigenvectors as M, a tangent is dw = diag(M) and dV = V (F * M), where
F holds reciprocals of gaps between eigenvalues. Where two are equal to rounding, F is 0 and the
basis was chosen by rounding errors. What is lost then is looked at, and it is an error if a
derivative does not exist, or is not known from what is there:

- a cotangent is good if turning the basis of equal eigenvalues does not change the function to
  first order, and if it weighs equal eigenvalues alike. For that to be enough, the basis must be in
  general position: `turned` turns it before a derivative is taken.
- a tangent is good if it moves equal eigenvalues alike and does not mix their vectors.

Decision record 039 has the proof, and what follows for V f(w) V^H; `gaps.py` has the rows. Kinds:

    hermitian  eigh: gaps are differences, turning is unitary
    singular   svd, the Hermitian part of U^H dA V: as above, and singular values may be zero
    sums       svd, the rest of it: sums, which are small where two singular values are zero
    general    eig: differences, and the basis of equal eigenvalues may change in any way
"""

from typing import Any, Final, Literal, NamedTuple

import numpy as np

from ftrace.core.errors import DomainError
from ftrace.primitives.diagonals import epsilon

Kind = Literal["hermitian", "singular", "sums", "general"]
CLOSE: Final = 10  # so many units of rounding, times the size of a matrix, are no gap


class Gaps(NamedTuple):
    """What is known of the gaps between the eigenvalues of matrices.

    Attributes:
        w: the eigenvalues.
        inverse: the reciprocal of each gap, or 0.
        same: where there is no gap; None if that is the diagonal, or (of sums) nowhere.
        kind: see above.
        square: of singular values, whether the matrices are square.
    """

    w: Any
    inverse: Any
    same: Any
    kind: Kind
    square: bool


def gaps_of(w: Any, kind: Kind, square: bool = True) -> Gaps:
    """The gaps between eigenvalues, of which there are some; real ones are in order."""
    column, row = w[..., None, :], w[..., :, None]
    gap = column + row if kind == "sums" else column - row
    one, zero = w.dtype.type(1), w.dtype.type(0)
    if are_apart(w, kind):
        if kind == "sums":
            return Gaps(w, one / gap, None, kind, square)
        gap = gap.copy()  # row by row
        diagonal_view(gap)[...] = one  # not infinity: CuPy's complex 1 / inf is NaN
        inverse = one / gap
        diagonal_view(inverse)[...] = zero
        return Gaps(w, inverse, None, kind, square)
    same = np.abs(gap) <= _rounding(w)[..., None]
    return Gaps(w, np.where(same, zero, one / np.where(same, one, gap)), same, kind, square)


def diagonal_view(x: Any) -> Any:
    """The diagonals of matrices in contiguous memory, to be written."""
    return x.reshape(*x.shape[:-2], -1)[..., :: x.shape[-1] + 1]


def are_apart(w: Any, kind: Kind) -> bool:
    """Whether no gap is lost in any matrix; real eigenvalues are in order."""
    bound = _rounding(w)
    if kind in ("singular", "sums") and not bool((np.abs(w) > bound).all()):
        return False
    if kind == "sums":
        return True
    if w.dtype.kind == "f":
        return bool((np.abs(w[..., 1:] - w[..., :-1]) > bound).all())
    close = np.abs(w[..., None, :] - w[..., :, None]) <= bound[..., None]
    return bool(close.sum() == w.size)


def _rounding(w: Any) -> Any:
    return CLOSE * w.shape[-1] * epsilon(w.dtype) * _largest(w, 1)


def is_zero(s: Any) -> Any:
    """Which singular values are zero to rounding."""
    return np.abs(s) <= _rounding(s)


def _largest(x: Any, axes: int) -> Any:
    """The largest absolute value over trailing axes, kept with size 1."""
    return np.max(np.abs(x), axis=tuple(range(-axes, 0)), keepdims=True)


def _refuse(bad: Any, gaps: Gaps, why: str, instead: str = "") -> None:
    """Raise the error about the first pair of a mask, if there is one."""
    if not bad.any():
        return
    *member, i, j = (int(k) for k in np.argwhere(bad)[0])
    value = gaps.w[tuple(member)][i]
    noun = "singular value" if gaps.kind in ("singular", "sums") else "eigenvalue"
    which = f"{noun} {i}" if i == j else f"{noun}s {min(i, j)} and {max(i, j)}"
    of = f" of matrix {tuple(member)}" if member else ""
    raise DomainError(
        f"No derivative: {which}{of} {'is' if i == j else 'are both'} {value:.6g} to rounding, and "
        f"{why}.",
        instead
        or "Use what does not depend on the choice of vectors: the projector on all vectors of "
        "equal values, a symmetric function of the values (of eigvalsh, svdvals); V f(w) V^H is "
        "exact as ftrace.scipy.linalg.funm and its like.",
    )


def diagonal_like(square: Any) -> Any:
    """Where the diagonal of matrices is, by the library that they are of."""
    ones = np.ones_like(square, dtype=np.int8)
    return np.tril(ones) + np.triu(ones) == 2


def _off_diagonal(same: Any) -> Any:
    return same & ~diagonal_like(same)


def _on_diagonal(which: Any) -> Any:
    wide = np.repeat(which[..., None], which.shape[-1], axis=-1)
    return wide & diagonal_like(wide)


def _rough(gaps: Gaps, real: bool) -> Any:
    """Where singular values are zero, but for a single one that only changes its sign."""
    zero = is_zero(gaps.w)
    return zero & (zero.sum(axis=-1, keepdims=True) > 1) if gaps.square and real else zero


def check_tangent(m: Any, gaps: Gaps) -> None:
    """Raise if a tangent takes equal eigenvalues apart, or mixes their vectors.

    Raises:
        DomainError: it does.
    """
    if gaps.same is None:
        return
    kind = gaps.kind
    off = gaps.same if kind == "sums" else _off_diagonal(gaps.same)
    limit = epsilon(m.dtype) ** 0.5 * _largest(m, 2)
    why = "the tangent takes them apart: forward mode cannot tell what becomes of it"
    _refuse(off & (np.abs(m) > limit), gaps, why)
    if kind == "sums":
        return
    values = np.diagonal(m, axis1=-2, axis2=-1)
    apart = np.abs(values[..., None, :] - values[..., :, None])
    _refuse(off & (apart > limit), gaps, why)
    if kind == "singular":
        moved = _rough(gaps, m.dtype.kind == "f") & (np.abs(values) > limit[..., 0])
        _refuse(_on_diagonal(moved), gaps, "the tangent moves it")


def check_cotangent(ct: Any, k: Any, gaps: Gaps) -> None:
    """Raise if a function depends on the choice of vectors, or weighs equal values unequally.

    Args:
        ct: the cotangent of the eigenvalues.
        k: that of V^H dV.
        gaps: between the eigenvalues.

    Raises:
        DomainError: it does.
    """
    kind, has_phases = gaps.kind, gaps.kind != "general" and k.dtype.kind == "c"
    if gaps.same is None and (not has_phases or kind == "sums"):
        return
    same = diagonal_like(k) if gaps.same is None else gaps.same
    off = _off_diagonal(same)
    size = _largest(gaps.w, 1)
    weighed = ct * np.where(size == 0, size.dtype.type(1), size)
    limit = epsilon(k.dtype) ** 0.5 * (_largest(k, 2) + _largest(weighed, 1)[..., None])
    turning = k if kind == "general" else k - np.conj(np.swapaxes(k, -1, -2))
    pairs = off if kind == "general" else same
    _refuse(pairs & (np.abs(turning) > limit), gaps, "the function depends on which vectors it has")
    if kind == "sums":
        return
    apart = np.abs(weighed[..., None, :] - weighed[..., :, None])
    _refuse(off & (apart > limit), gaps, "the function does not treat them alike")
    if kind == "singular":
        moved = _rough(gaps, k.dtype.kind == "f") & (np.abs(weighed) > limit[..., 0])
        _refuse(
            _on_diagonal(moved), gaps, "the function has a kink there, or depends on its vectors"
        )


def check_alike(ct: Any, gaps: Gaps) -> None:
    """Raise if a function of values alone weighs equal ones unequally, or has a kink at zero.

    Vectors of the same matrix may come from another call, which this one cannot know.

    Raises:
        DomainError: it does.
    """
    if gaps.same is None:
        return
    limit = epsilon(ct.dtype) ** 0.5 * _largest(ct, 1)
    apart = np.abs(ct[..., None, :] - ct[..., :, None]) > limit[..., None]
    instead = (
        "Weigh equal values alike, as their sum, their mean or numpy.max does if they are equal to "
        "the last bit; norms and cond of numpy.linalg choose a generalised gradient. "
        "V f(w) V^H is exact as ftrace.scipy.linalg.funm and its like."
    )
    why = "the function does not treat them alike"
    _refuse(_off_diagonal(gaps.same) & apart, gaps, why, instead)
    if gaps.kind == "singular":
        bad = is_zero(gaps.w) & (np.abs(ct) > limit)
        _refuse(_on_diagonal(bad), gaps, "the function has a kink there", instead)


def check_outside(x: Any, part: Any, s: Any, reverse: bool) -> Any:
    """One over singular values, 0 where they are zero; raise if what lies outside is needed there.

    Args:
        x: tangents of singular vectors times their values, or (`reverse`) cotangents of vectors.
        part: what of that lies outside of the space of all singular vectors.
        s: the singular values.

    Raises:
        DomainError: it is not zero where the singular value is.
    """
    zero = is_zero(s)
    if zero.any():
        limit = epsilon(x.dtype) ** 0.5 * _largest(x, 2)
        bad = (zero[..., None, :] & (np.abs(part) > limit)).any(axis=-2)
        why = "the function depends on its vectors" if reverse else "the tangent moves it"
        _refuse(_on_diagonal(bad), Gaps(s, None, None, "sums", False), why)
    one, none = s.dtype.type(1), s.dtype.type(0)
    return np.where(zero, none, one / np.where(zero, one, s))


def check_free(ct: Any, u: Any) -> None:
    """Raise if a function depends on the basis U of a space, by the cotangent of dU.

    Raises:
        DomainError: it does.
    """
    k = np.matmul(np.swapaxes(u, -1, -2), ct)
    turning = k - np.conj(np.swapaxes(k, -1, -2))
    if (np.abs(turning) > epsilon(k.dtype) ** 0.5 * _largest(ct, 2)).any():
        raise DomainError(
            "No derivative: the function depends on the basis that was chosen for the vectors that "
            "complete a square orthogonal factor.",
            "Use full_matrices=False, or mode='reduced', or the projector on these vectors.",
        )


def check_regular(t: Any, d: Any) -> None:
    """Raise if anything moves, or is asked of, a matrix whose triangular factor is singular.

    Args:
        t: tangents or cotangents, one matrix each.
        d: the diagonals of the factors.

    Raises:
        DomainError: one of them has a zero, and a tangent or cotangent that is none.
    """
    zero = is_zero(d)
    bad = zero & (np.abs(t).max(axis=(-2, -1)) > 0)[..., None]
    if bad.any():
        *member, i = (int(k) for k in np.argwhere(bad)[0])
        of = f" of matrix {tuple(member)}" if member else ""
        raise DomainError(
            f"No derivative: element {i} on the diagonal of R{of} is 0 to rounding: column {i} "
            "depends on those before it, and Q is not a smooth function there.",
            "Factor matrices whose first columns are independent, or use numpy.linalg.svd.",
        )


def turned(v: Any, w: Any, salt: int = 0) -> Any:
    """Eigenvectors in columns, those of equal eigenvalues turned to a basis in general position.

    The turn is a reflection along a vector of fixed numbers that have nothing to do with anybody's
    matrix; of zero eigenvalues they depend on `salt`, too.
    """
    if not w.size or are_apart(w, "hermitian"):
        return v
    same = np.abs(w[..., None, :] - w[..., :, None]) <= _rounding(w)[..., None]
    many = same.sum(axis=-1) > 1
    numbers = np.cumsum(np.ones_like(many, dtype=np.float64), axis=-1)
    numbers = numbers + np.where(is_zero(w), salt * w.shape[-1], 0)
    along = np.where(many, 0.5 + numbers * 0.6180339887498949 % 1, 0)
    if v.dtype.kind == "c":
        along = along * np.exp(6j * (numbers * 0.7548776662466927 % 1))
    size = np.sqrt((same * np.abs(along[..., None, :]) ** 2).sum(axis=-1))
    along = along / np.where(size == 0, 1.0, size)
    twice = 2 * same * along[..., :, None] * np.conj(along[..., None, :])
    return np.matmul(v, (np.where(diagonal_like(same), 1.0, 0.0) - twice).astype(v.dtype))

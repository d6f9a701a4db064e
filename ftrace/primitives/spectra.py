"""Eigenvalues and eigenvectors of Hermitian matrices: `eigh`, `eigvalsh`.

As in NumPy they read one triangle, and the derivative is that of what they read: it is zero by the
other triangle and by imaginary parts of the diagonal. A matrix that is made symmetric before gets
the symmetric derivative. What happens at equal eigenvalues is in `ties.py`; complex eigenvectors
have no phase that means anything, and a function that depends on it is refused there, too.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.lower import Gufunc
from ftrace.core.primitive import Primitive, Sample
from ftrace.primitives.arithmetic import mul
from ftrace.primitives.diagonals import half, real_of, real_part
from ftrace.primitives.gaps import alike, split
from ftrace.primitives.linear import NO_TRANSPOSE, add, reduce_sum
from ftrace.primitives.numpy_loops import linalg_loop
from ftrace.primitives.stacks import (
    adjoint,
    check_square,
    conjugated,
    gate_stacks,
    in_front,
    product,
    square_errors,
)
from ftrace.primitives.ties import turned

# ---------------------------------------------------------------------------------- eigh


def _eigh_type(
    a: ShapedArray, *, low: bool, generic: bool = False
) -> tuple[ShapedArray, ShapedArray]:
    check_square("eigh", a)
    return real_of(a, a.shape[:-1]), aval(a.shape, a.dtype)


def _eigh_impl(a: Any, low: bool, generic: bool = False) -> tuple[Any, Any]:
    w, v = np.linalg.eigh(a, "L" if low else "U")
    return w, turned(v, w) if generic else v


def _eigh_jvp(primals: Any, tangents: Any, *, low: bool, generic: bool = False) -> Any:
    (a,), (t,) = primals, tangents
    w, v = eigh(a, low=low, generic=True)
    n = product(adjoint(v), product(half(t, low), v))
    values, turning = split(add(n, adjoint(n)), w, kind="hermitian")
    return (w, v), (values, product(v, turning))


def _eigh_loop(avals: Any, low: bool, generic: bool = False) -> Any:
    name = "eigh_lo" if low else "eigh_up"
    return None if generic else linalg_loop(name, "(m,m)->(m),(m,m)", avals)


# ---------------------------------------------------------------------------------- eigvalsh


def _eigvalsh_type(a: ShapedArray, *, low: bool) -> ShapedArray:
    check_square("eigvalsh", a)
    return real_of(a, a.shape[:-1])


def _eigvalsh_jvp(primals: Any, tangents: Any, *, low: bool) -> Any:
    (a,), (t,) = primals, tangents
    w, v = eigh(a, low=low, generic=True)
    moved = mul(conjugated(v), product(half(t, low), v))
    moved = reduce_sum(real_part(moved), axes=(typeof(a).ndim - 2,))
    return w, alike(add(moved, moved), w, kind="hermitian")


# ---------------------------------------------------------------------------------- the rows


def hermitian_samples() -> Iterable[tuple[Any, str]]:
    """Matrices with eigenvalues that lie apart, and which triangle is to be read."""
    rng = np.random.default_rng(81)

    def draw(*shape: int) -> Any:
        n = shape[-1]
        return rng.normal(size=(*shape, n)) * 0.5 + np.diag(np.arange(n) * 2.0)

    yield draw(3), "L"
    yield draw(2, 2), "U"
    yield draw(3).T[::-1, ::-1], "L"
    yield np.zeros((0, 0)), "L"
    yield draw(2).astype("f4"), "U"
    yield draw(3) + 1j * draw(3), "L"


def _samples() -> Iterable[Sample]:
    for a, triangle in hermitian_samples():
        yield Sample((a,), {"low": triangle == "L"})


eigh = Primitive(
    name="eigh",
    impl=_eigh_impl,
    type=_eigh_type,
    jvp=_eigh_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(eigh)(*args, **params),
    gate=gate_stacks(0),
    lower=Gufunc(_eigh_loop),
    multiple=True,
    samples=_samples,
    errors=square_errors(lambda x: (), low=True),
    doc="Eigenvalues of Hermitian matrices in ascending order, and eigenvectors in columns; `low` "
    "says which triangle is read, `generic` that vectors of equal values are turned to general "
    "position, as derivatives want it.",
)

eigvalsh = Primitive(
    name="eigvalsh",
    impl=lambda a, low: np.linalg.eigvalsh(a, "L" if low else "U"),
    type=_eigvalsh_type,
    jvp=_eigvalsh_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(eigvalsh)(*args, **params),
    gate=gate_stacks(0),
    lower=Gufunc(
        lambda avals, low: linalg_loop("eigvalsh_lo" if low else "eigvalsh_up", "(m,m)->(m)", avals)
    ),
    samples=_samples,
    errors=square_errors(lambda x: (), low=True),
    doc="Eigenvalues of Hermitian matrices in ascending order; `low` says which triangle is read.",
)

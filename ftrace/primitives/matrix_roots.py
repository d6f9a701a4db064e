"""`sqrtm` and `logm` of complex matrices, and factors that have no derivative here: `factored`.

The derivative of a square root X solves X dX + dX X = dA. That of a logarithm is a block of the
logarithm of ((A, dA), (0, A)), a row of its own, linear in dA. Neither divides by differences of
eigenvalues, so that both are exact where these are equal.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import DtypeError, ShapeError
from ftrace.core.lazy import lazy
from ftrace.core.primitive import ErrorSample, Primitive, Sample, Unsupported
from ftrace.core.zero import ZERO
from ftrace.primitives.linear import NO_TRANSPOSE, add
from ftrace.primitives.matrix_equations import blocks, sylvester
from ftrace.primitives.movement import zeros
from ftrace.primitives.slicing import along
from ftrace.primitives.stacks import (
    check_matrices,
    check_square,
    each_matrix,
    gate_stacks,
    in_front,
    mask_of_stacks,
    matrices,
    refuse_matrix,
    square_errors,
    swapped,
)

_sqrtm = lazy("scipy.linalg", "sqrtm")
_logm = lazy("scipy.linalg", "logm")


def _complex_square(name: str, *avals: ShapedArray) -> ShapedArray:
    check_square(name, avals[0])
    check_matrices(name, *avals)
    if avals[0].dtype.kind != "c":
        raise DtypeError(f"{name} takes complex matrices, and was given {avals[0]}.", "Convert.")
    if any(a.shape != avals[0].shape for a in avals):
        raise ShapeError(f"{name} was given {avals[0]} and {avals[1]}.", "They have one shape.")
    return aval(avals[0].shape, avals[0].dtype)


# ---------------------------------------------------------------------------------- sqrtm


def _sqrtm_jvp(primals: Any, tangents: Any) -> Any:
    x = sqrtm(*primals)
    return x, sylvester(x, x, *tangents)


# ---------------------------------------------------------------------------------- logm


def _corner(x: Any, n: int) -> Any:
    """The block above on the right of matrices of 2 n rows."""
    ndim = typeof(x).ndim
    return along(along(x, ndim - 2, 0, n), ndim - 1, n, 2 * n)


def _logarithm(a: Any) -> Any:
    """In double precision: in single one SciPy warns of what it loses."""
    return _logm(a.astype(np.complex128))


def _slope(a: Any, e: Any) -> Any:
    n = a.shape[-1]
    whole = np.concatenate([np.concatenate([a, e], -1), np.concatenate([0 * a, a], -1)], -2)
    return _logarithm(whole)[:n, n:]


def _slope_jvp(primals: Any, tangents: Any) -> Any:
    (a, e), (ta, te) = primals, tangents
    y = logm_slope(a, e)
    by_e = ZERO if te is ZERO else logm_slope(a, te)
    if ta is ZERO:
        return y, by_e
    whole = logm_slope(blocks(a, e), blocks(ta, zeros(typeof(ta))))
    by_a = _corner(whole, typeof(a).shape[-1])
    return y, by_a if by_e is ZERO else add(by_a, by_e)


def _slope_transpose(ct: Any, a: Any, e: Any) -> Any:
    refuse_matrix("logm_slope", a)
    return None, logm_slope(swapped(a), ct)


# ---------------------------------------------------------------------------------- factored


def _same(a: ShapedArray) -> ShapedArray:
    return aval(a.shape, a.dtype)


def _reflections(a: ShapedArray) -> ShapedArray:
    return aval((*a.shape[:-2], max(a.shape[-1] - 1, 0)), a.dtype)


def _real(a: ShapedArray, less: int) -> ShapedArray:
    real = np.dtype(a.dtype.char.lower())
    return aval((*a.shape[:-2], max(a.shape[-1] - less, 0)), real)


def _packed_hessenberg(a: Any) -> Any:
    (gehrd,) = lazy("scipy.linalg", "get_lapack_funcs")(("gehrd",), (a,))
    h, tau, _ = gehrd(a)
    return h, tau


def _packed_tridiagonal(lower: bool) -> Callable[[Any], Any]:
    def evaluate(a: Any) -> Any:
        name = "hetrd" if a.dtype.kind == "c" else "sytrd"
        (reduce_,) = lazy("scipy.linalg", "get_lapack_funcs")((name,), (a,))
        packed, d, e, tau, _ = reduce_(a, lower=lower)
        return packed, d, e, tau

    return evaluate


def _schur(output: str) -> Callable[[Any], Any]:
    return lambda a: lazy("scipy.linalg", "schur")(a, output=output)


_TRIDIAGONAL: Final = (_same, lambda a: _real(a, 0), lambda a: _real(a, 1), _reflections)
FACTORS: Final[dict[str, tuple[Callable[[Any], Any], tuple[Callable[..., Any], ...]]]] = {
    "schur": (_schur("real"), (_same, _same)),
    "complex schur": (_schur("complex"), (_same, _same)),
    "hessenberg": (lambda a: lazy("scipy.linalg", "hessenberg")(a, calc_q=True), (_same, _same)),
    "packed hessenberg": (_packed_hessenberg, (_same, _reflections)),
    "lower tridiagonal": (_packed_tridiagonal(True), _TRIDIAGONAL),
    "upper tridiagonal": (_packed_tridiagonal(False), _TRIDIAGONAL),
}
"""By name: SciPy's function of one matrix, and the types of its results."""


def _factored_type(a: ShapedArray, *, name: str) -> tuple[ShapedArray, ...]:
    check_square("factored", a)
    if name == "complex schur" and a.dtype.kind != "c":
        raise DtypeError(f"factored takes a complex matrix for the {name}, not {a}.", "Convert.")
    return tuple(rule(a) for rule in FACTORS[name][1])


def _factored_impl(a: Any, name: str) -> list[Any]:
    outs = [np.zeros(t.shape, t.dtype) for t in _factored_type(typeof(a), name=name)]
    for i in np.ndindex(a.shape[:-2]) if a.size else ():
        for out, found in zip(outs, FACTORS[name][0](a[i]), strict=True):
            out[i] = found
    return outs


# ---------------------------------------------------------------------------------- the rows


def _stacks(seed: int) -> Iterable[Any]:
    rng = np.random.default_rng(seed)
    for shape, dtype in (((2, 2), "c16"), ((1, 2, 2), "c16"), ((0, 0), "c16"), ((2, 2), "c8")):
        x = matrices(rng, *shape, dtype=dtype)
        yield x * 0.3 + 2 * np.eye(shape[-1], dtype=dtype)
    yield (matrices(rng, 3, 3, dtype="c16") * 0.2 + 2 * np.eye(3)).T


def _slope_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(92)
    for a in _stacks(92):
        yield Sample((a, matrices(rng, *a.shape, dtype=a.dtype.str[1:])), {})


def _slope_errors() -> Iterable[ErrorSample]:
    a = np.eye(2) + 0j
    yield ErrorSample((a, np.eye(3) + 0j), {}, ShapeError, "one shape")
    yield ErrorSample((a.real, a.real), {}, DtypeError, "takes complex matrices")


def _factored_samples() -> Iterable[Sample]:
    rng = np.random.default_rng(93)
    for name in FACTORS:
        yield Sample((matrices(rng, 3, 3, dtype="c16"),), {"name": name})
    yield Sample((matrices(rng, 2, 3, 3),), {"name": "schur"})
    yield Sample((matrices(rng, 3, 3).T.astype("f4"),), {"name": "lower tridiagonal"})
    yield Sample((np.zeros((0, 0)),), {"name": "packed hessenberg"})


sqrtm = Primitive(
    name="sqrtm",
    impl=lambda a: each_matrix(_sqrtm, a),
    type=lambda a: _complex_square("sqrtm", a),
    jvp=_sqrtm_jvp,
    transpose=NO_TRANSPOSE,
    batch=lambda *args: in_front(sqrtm)(*args),
    gate=gate_stacks(units=(0,)),
    samples=lambda: [Sample((a,), {}) for a in _stacks(90)],
    errors=square_errors(lambda x: ()),
    doc="The principal square roots of complex matrices.",
)

logm = Primitive(
    name="logm",
    impl=lambda a: each_matrix(_logarithm, a),
    type=lambda a: _complex_square("logm", a),
    jvp=lambda primals, tangents: (logm(*primals), logm_slope(*primals, *tangents)),
    transpose=NO_TRANSPOSE,
    batch=lambda *args: in_front(logm)(*args),
    gate=gate_stacks(units=(0,)),
    samples=lambda: [Sample((a,), {}) for a in _stacks(91)],
    errors=square_errors(lambda x: ()),
    doc="The principal logarithms of complex matrices.",
)

logm_slope = Primitive(
    name="logm_slope",
    impl=lambda a, e: each_matrix(_slope, a, e),
    type=lambda a, e: _complex_square("logm_slope", a, e),
    jvp=_slope_jvp,
    transpose=_slope_transpose,
    batch=lambda *args: in_front(logm_slope)(*args),
    mask=mask_of_stacks((2,), (2, 2)),
    gate=gate_stacks(1, units=(0,)),
    zeros=True,
    linear_in=(1,),
    samples=_slope_samples,
    errors=_slope_errors,
    doc="The derivative of the logarithm of complex matrices along others.",
)

factored = Primitive(
    name="factored",
    impl=_factored_impl,
    type=_factored_type,
    jvp=Unsupported(
        "Schur, Hessenberg and tridiagonal forms have no derivative rule.",
        "Differentiate what is computed with them instead: eig, eigh, sqrtm, logm, expm, "
        "solve_sylvester.",
    ),
    transpose=NO_TRANSPOSE,
    batch=lambda *args, **params: in_front(factored)(*args, **params),
    gate=gate_stacks(0),
    multiple=True,
    samples=_factored_samples,
    errors=square_errors(lambda x: (), name="schur"),
    doc="Factors of matrices by functions of SciPy's, without derivatives.",
)

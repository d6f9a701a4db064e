"""ftrace.scipy.spatial.distance: SciPy's values and errors, and derivatives."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.spatial.distance as theirs

import ftrace
import ftrace.numpy as fnp
from ftrace.core.config import update
from ftrace.core.errors import RuleError
from ftrace.scipy.spatial import distance
from tests.scipy.agreeing import CHECKS

RNG = np.random.default_rng(0)
A, B = RNG.uniform(0.2, 2.0, (4, 3)), RNG.uniform(0.2, 2.0, (5, 3))
W = np.array([0.5, 1.0, 2.0])
COVARIANCE = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.5]])
MORE: dict[str, tuple[Any, ...]] = {"seuclidean": (W,), "mahalanobis": (COVARIANCE,)}
METRICS = [
    *("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean"),
    *("hamming", "jensenshannon", "mahalanobis", "minkowski", "seuclidean", "sqeuclidean"),
]
WEIGHTED = [n for n in METRICS if n not in (*MORE, "jensenshannon")]
KINKED = ("braycurtis", "canberra", "chebyshev", "cityblock")  # the derivative of a size is 1
SMOOTH = [n for n in METRICS if n != "hamming"]


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    """Staged programs are interpreted: what is compiled has tests of its own."""
    with update(compile=False):
        yield


def agree(name: str, *args: Any, **options: Any) -> None:
    """The function staged, of its arrays, and SciPy's: values and dtype, or the kind of error."""
    f, moving = getattr(distance, name), [isinstance(a, np.ndarray) for a in args]

    def program(*xs: Any, **options: Any) -> Any:
        given = iter(xs)
        return f(*(next(given) if m else a for m, a in zip(moving, args, strict=True)), **options)

    static = {k: v for k, v in options.items() if not isinstance(v, np.ndarray)}
    arrays = {k: v for k, v in options.items() if k not in static}
    staged = ftrace.jit(lambda xs, arrays: program(*xs, **static, **arrays))
    given = [a for m, a in zip(moving, args, strict=True) if m], arrays
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = getattr(theirs, name)(*args, **options)
    except Exception as error:
        with pytest.raises(type(error)):
            staged(*given)
        return
    found = staged(*given)
    assert found.shape == np.shape(expected)
    assert type(expected) is float or found.dtype == expected.dtype
    single = found.dtype == np.float32
    tolerance = (1e-5, 1e-6) if single else (1e-12, 1e-14)
    np.testing.assert_allclose(found, expected, *tolerance)


@pytest.mark.parametrize("name", METRICS)
def test_vectors(name: str) -> None:
    more = MORE.get(name, ())
    whole = np.array([3, 1, 2])
    for u, v in (
        *((A[0], B[0]), (A[0].astype("f4"), B[0].astype("f4")), (A[0].astype("f4"), B[1])),
        *((whole, whole[::-1].copy()), (A[0], A[0].copy()), (np.zeros(3), np.zeros(3))),
        *((np.array([1.0, 0.0, 2.0]), np.array([2.0, 0.0, 0.0])), (A[0], B[0][:2])),
        *((A, B[0]), (A[0][:0], A[0][:0]), (whole.astype("u1"), whole)),
    ):
        agree(name, u, v, *more)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights(name: str) -> None:
    for w in (W, np.array([1.0, 0.0, 2.0]), np.array([1, 2, 3]), -W, W[:2], W[None]):
        agree(name, A[0], B[0], w=w)
        agree(name, A[0].astype("f4"), B[0].astype("f4"), w=w)
        agree("cdist", A, B, name, w=w)
        agree("pdist", A, name, w=w)


def test_options_of_vectors() -> None:
    for p in (0.5, 1, 2, 3.5, np.inf, 0, -1):
        agree("minkowski", A[0], B[0], p)
        agree("minkowski", A[0], B[0], p, W)
        agree("minkowski", A[0].astype("f4"), B[0].astype("f4"), p)
        if p > 0:
            agree("pdist", A, "minkowski", p=p, w=W)
            agree("cdist", A, B, "minkowski", p=p)
    with pytest.raises(ValueError, match="greater than 0"):
        ftrace.jit(lambda a: distance.cdist(a, B, "minkowski", p=0))(A)
    agree("correlation", A[0], B[0], W, centered=False)
    for options in ({"axis": 1}, {"axis": 1, "keepdims": True}, {"base": 2.0}, {"axis": 5}):
        agree("jensenshannon", A, B[:4], **options)
    agree("jensenshannon", A, B)
    for v in (np.array([np.nan, 1.0, 2.0]), np.array([1.0, np.nan, 2.0])):
        for name in ("canberra", "chebyshev", "cityblock"):
            agree(name, v, A[0])
            agree("cdist", v[None], A, name)


@pytest.mark.parametrize("name", METRICS)
def test_all_pairs(name: str) -> None:
    few = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 2.0]])
    for a, b in (
        *((A, B), (A.astype("f4"), B), (RNG.integers(0, 9, (4, 3)), np.ones((2, 3), int))),
        *((A, few), (A, A), (A[:0], B), (A[:, :2], B), (A[0], B), (A, B + 0j)),
    ):
        if a.shape[-1:] != b.shape[-1:] or b.dtype.kind != "c" or name == "euclidean":
            agree("cdist", a, b, name)
    for a in (A, A.astype("f4"), A[:1], A[:0], A[0]):
        agree("pdist", a, name)
    agree("cdist", A, B, name.upper())
    agree("cdist", A, B, name, wrong=3)
    for key, x in (("V", W), ("VI", COVARIANCE), ("V", W[:2])):
        agree("cdist", A, B, name, **{key: x})
        agree("pdist", A, name, **{key: x})


def test_metrics_are_named_or_functions() -> None:
    for alias in distance.metrics.ALIASES:
        agree("cdist", A, B, alias)
    for metric in ("some", 3, lambda u, v: (u * v).sum(), theirs.euclidean, theirs.seuclidean):
        agree("cdist", A, B, metric)
        agree("pdist", A, metric)
    agree("cdist", A, B, lambda u, v, scale: scale * (u * v).sum(), scale=3.0)
    agree("cdist", A[:0], B, lambda u, v: (u * v).sum())
    with pytest.raises(RuleError, match="jaccard compares booleans"):
        ftrace.jit(lambda x: distance.cdist(x, B, "jaccard"))(A)


def test_distances_are_written_to_an_output() -> None:
    def program(x: Any, columns: int) -> Any:
        out = fnp.zeros((4, columns))
        distance.cdist(x, B, out=out)
        return out

    staged = ftrace.jit(program, static_argnums=1)
    np.testing.assert_allclose(staged(A, 5), theirs.cdist(A, B))
    with pytest.raises(ValueError, match="incorrect shape"):
        staged(A, 1)


def test_squareform() -> None:
    vector = np.arange(1.0, 7.0)
    square = theirs.squareform(vector)
    for x in (vector, vector.astype("f4"), np.arange(3), vector[:0], vector[:1], vector[:5]):
        for force in ("no", "tomatrix", "toVector"):
            agree("squareform", x, force=force)
    tilted, lifted = square + np.triu(square), square + np.eye(4)
    for x in (square, square[:0, :0], square[:1, :1], square[:, :2], tilted, lifted, square[None]):
        agree("squareform", x)
        agree("squareform", x, checks=False)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str, check: str) -> None:
    more = MORE.get(name, ())
    run = CHECKS[check]
    run(lambda u, v: getattr(distance, name)(u, v, *more), (A[0], B[0]))
    run(lambda a, b: distance.cdist(a, b, name), (A, B))
    run(lambda a: distance.pdist(a, name), (np.vstack([A, B]),))
    if name in WEIGHTED:
        run(lambda u, w: getattr(distance, name)(u, B[0], w=w), (A[0], W))
        run(lambda a, w: distance.cdist(a, B, name, w=w), (A, W))


@pytest.mark.parametrize("check", CHECKS)
def test_derivatives_of_other_arguments(check: str) -> None:
    run = CHECKS[check]
    run(lambda w: distance.hamming(A[0], B[0], w), (W,))
    run(lambda u, v: distance.seuclidean(u, A[0], v), (B[0], W))
    run(lambda u, m: distance.mahalanobis(u, A[0], m), (B[0], COVARIANCE))
    run(distance.squareform, (np.arange(1.0, 7.0),))
    run(lambda x: distance.squareform(x, checks=False), (theirs.squareform(np.arange(1.0, 7.0)),))
    run(lambda a: distance.cdist(a, B, lambda u, v: (u * v).sum()), (A,))
    run(lambda a: distance.cdist(a, B, "minkowski", p=2.5, w=W), (A,))


@pytest.mark.parametrize("name", [n for n in METRICS if n not in ("correlation", "cosine")])
def test_the_derivative_at_equal_points_is_finite(name: str) -> None:
    more = MORE.get(name, ())
    slope = ftrace.grad(lambda u: getattr(distance, name)(u, A[0], *more))(A[0])
    if name in KINKED:
        np.testing.assert_array_less(abs(slope), 2)
    else:
        np.testing.assert_allclose(slope, 0, atol=1e-7)
    options = {"V": W} if name == "seuclidean" else {}
    slope = ftrace.grad(lambda a: distance.cdist(a, A, name, **options).sum())(A)
    assert np.isfinite(slope).all()
    weight = ftrace.grad(lambda w: distance.euclidean(A[0], B[0], w))(np.array([0.0, 1.0, 1.0]))
    assert np.isfinite(weight).all()


@pytest.mark.parametrize("name", SMOOTH)
def test_calls_of_scipys_own_functions_are_transformed(name: str) -> None:
    def program(a: Any) -> Any:
        return theirs.cdist(a, B, name), theirs.squareform(theirs.pdist(a, name), "tomatrix")

    for found, expected in zip(ftrace.jit(program)(A), program(A), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    slope = ftrace.grad(lambda u: getattr(theirs, name)(u, B[0], *MORE.get(name, ())))(A[0])
    ours = ftrace.grad(lambda u: getattr(distance, name)(u, B[0], *MORE.get(name, ())))(A[0])
    np.testing.assert_allclose(slope, ours)

"""ftrace.scipy.fft: SciPy's values, errors and names, and derivatives of cosine transforms."""

import itertools

import numpy as np
import pytest
import scipy.fft

import ftrace
import ftrace.scipy.fft as fft
from ftrace.core.errors import ConcretizationTypeError
from ftrace.core.trace import Tracer

rng = np.random.default_rng(8)
A = rng.normal(size=(5, 6))
C = A + 1j * rng.normal(size=A.shape)
B = rng.normal(size=(2, 3, 4))
COSINES = ("dct", "idct", "dst", "idst")


def traced(f, *xs):
    """The values of a function while a trace runs, without compiling."""
    with ftrace.config.update(compile=False):
        return ftrace.jit(f)(*xs)


def close(got, want, limit=1e-12):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit * max(1, abs(want).max()))


# --- values


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
@pytest.mark.parametrize("name", COSINES)
def test_cosine_transforms_are_scipys(name, kind):
    theirs, ours = getattr(scipy.fft, name), getattr(fft, name)
    norms = itertools.product((None, "ortho", "forward"), (None, True, False))
    sizes = ((None, 0), (None, -1), (2, 0), (3, -1), (8, 0))
    for (norm, orthogonal), (n, axis) in itertools.product(norms, sizes):
        options = {"norm": norm, "orthogonalize": orthogonal, "n": n, "axis": axis}
        close(traced(lambda x, o=options: ours(x, kind, **o), A), theirs(A, kind, **options))
    close(traced(lambda x: ours(x, kind), C), theirs(C, kind))
    if (name[-3:], kind) != ("dct", 1):
        close(traced(lambda x: ours(x, kind, n=1), A), theirs(A, kind, n=1))


def test_of_other_dtypes_and_shapes():
    for x in (A.astype("f4"), A.astype("f2"), (A * 9).astype("i4"), A > 0, A[:, ::-2], A[:0]):
        for name in ("dct", "idst", "fft", "irfft"):
            theirs = getattr(scipy.fft, name)(x)
            single = theirs.dtype in (np.float32, np.complex64)
            got = traced(lambda x, name=name: getattr(fft, name)(x), np.ascontiguousarray(x))
            if theirs.size:
                close(got, theirs, 1e-6 if single else 1e-12)
            assert (got.shape, got.dtype) == (theirs.shape, theirs.dtype)


SEVERAL = [
    *[(name, {}) for name in ("dctn", "idctn", "dstn", "idstn")],
    ("dctn", {"type": 3, "s": (5, -1), "axes": (0, 2), "norm": "ortho"}),
    ("dstn", {"type": 1, "s": (3,), "norm": "forward"}),
    *[(f"{name}n", {}) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")],
    *[(f"{name}2", {}) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")],
    *[(f"{n}n", {"s": (3, 5), "axes": (1, 0)}) for n in ("fft", "rfft", "irfft", "ihfft")],
    *[(f"{n}n", {"s": 3, "norm": "ortho"}) for n in ("ifft", "hfft", "ihfft")],
    *[(f"{n}fft", {"n": 5, "axis": 1, "norm": "forward"}) for n in ("", "i", "r", "ir", "h", "ih")],
    ("fftn", {"axes": ()}),
    ("dctn", {"axes": ()}),
]


@pytest.mark.parametrize(("name", "options"), SEVERAL)
def test_transforms_along_several_axes_are_scipys(name, options):
    want = getattr(scipy.fft, name)(B, **options)
    close(traced(lambda x: getattr(fft, name)(x, **options), B), want.astype(want.dtype))


def test_untraced_they_are_scipys_own():
    assert (fft.dct(A) == scipy.fft.dct(A)).all()
    assert fft.next_fast_len(97) == scipy.fft.next_fast_len(97)
    names = {n for n in dir(scipy.fft) if n[0] != "_" and not n.endswith(("backend", "workers"))}
    assert names - set(dir(fft)) == {"fht", "ifht", "fhtoffset", "test"}


# --- derivatives


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_derivatives_of_cosine_transforms_are_their_matrices(kind):
    for name, n in itertools.product(COSINES, (4, 5)):
        matrix = getattr(scipy.fft, name)(np.eye(5), kind, n, axis=0)

        def f(x, name=name, n=n):
            return getattr(fft, name)(x, kind, n)

        for jacobian in (ftrace.jacfwd, ftrace.jacrev):
            np.testing.assert_allclose(jacobian(f)(A[:, 0]), matrix, atol=1e-12)


def test_a_compressed_signal_compiled():
    """The second derivative of a loss through dct and idct, batched."""

    def loss(x):
        kept = fft.dctn(x, norm="ortho") * np.linspace(1, 0, 6)
        return np.sum(np.sin(fft.idctn(kept, norm="ortho")))

    run = ftrace.jit(ftrace.vmap(lambda x, t: ftrace.jvp(ftrace.grad(loss), (x,), (t,))[1]))
    x, t, h = A, rng.normal(size=A.shape), 1e-5
    assert run.lower(x[None], t[None]).cost().callbacks == 0
    slope = ftrace.grad(loss)
    wanted = (slope(x + h * t) - slope(x - h * t)) / (2 * h)
    np.testing.assert_allclose(run(x[None], t[None])[0], wanted, atol=1e-8)


# --- errors and names

WRONG = [
    ("fft", A, {"n": 0}),
    ("fft", A, {"axis": 2}),
    ("fft", A, {"norm": "unitary"}),
    ("fft", A, {"plan": 1}),
    ("fft", np.float64(1), {}),
    ("rfft", C, {}),
    ("ihfft2", C, {}),
    ("fftn", A, {"axes": (0, 0)}),
    ("fftn", A, {"s": (4, 4), "axes": (0,)}),
    ("fftn", A, {"s": (4, 4, 4)}),
    ("fftn", A, {"s": (None, 4)}),
    ("fftn", A, {"s": (0, 4)}),
    ("rfftn", A, {"axes": ()}),
    ("irfftn", A, {"axes": ()}),
    ("irfft", A[:, :1], {}),
    ("dct", A, {"type": 5}),
    ("dct", A, {"type": 1, "n": 1}),
    ("dct", A, {"norm": 2}),
    ("dst", A, {"n": 0}),
    ("dst", A, {"axis": -3}),
    ("dctn", A, {"s": (2, 2, 2)}),
    ("dct", A, {"n": 2.5}),
    ("dct", A, {"type": 3.0}),
]


@pytest.mark.parametrize(("name", "x", "options"), WRONG)
def test_what_scipy_refuses_is_refused_alike(name, x, options):
    with pytest.raises(Exception) as wanted:  # noqa: PT011 - whatever SciPy raises
        getattr(scipy.fft, name)(x, **options)
    with pytest.raises(wanted.type) as found:
        traced(lambda y: getattr(fft, name)(y, **options), x)
    if wanted.type is not TypeError and wanted.type is not IndexError:
        assert str(wanted.value).lower() in str(found.value).lower()


def test_scipys_own_names_work_where_they_are_lifted():
    def f(x):
        assert isinstance(x, Tracer)
        return scipy.fft.idct(scipy.fft.fft2(x).real) + scipy.fft.dctn(x, norm="ortho")

    close(traced(f, A), scipy.fft.idct(scipy.fft.fft2(A).real) + scipy.fft.dctn(A, norm="ortho"))
    slope = ftrace.grad(lambda x: np.sum(scipy.fft.dst(x) ** 2))(A[0])
    matrix = scipy.fft.dst(np.eye(6), axis=0)
    np.testing.assert_allclose(slope, 2 * matrix.T @ matrix @ A[0], rtol=1e-12)


def test_scipys_function_itself_is_ours_under_transformations():
    np.testing.assert_allclose(ftrace.jit(scipy.fft.dct)(A), scipy.fft.dct(A), rtol=1e-13)


def test_elsewhere_the_error_names_ours():
    calls = [
        lambda: ftrace.jit(lambda x: scipy.fft.dct(x), lift=False)(A),
        lambda: ftrace.grad(lambda x: scipy.fft.dct(x).sum(), lift=False)(A),
    ]
    for call in calls:
        with pytest.raises(ConcretizationTypeError) as found:
            call()
        assert any("ftrace.scipy.fft.dct takes traced" in n for n in found.value.__notes__)

"""Fourier transforms: NumPy's errors and options, derivatives in closed form, compiled code."""

import warnings

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from ftrace.core.errors import MutationError, TracerArrayConversionError
from ftrace.primitives.fourier import KINDS, factor
from tests.numpy.function_table import lookup

rng = np.random.default_rng(3)
A = rng.normal(size=(4, 6))
C = A + 1j * rng.normal(size=A.shape)
V = rng.normal(size=9)


def same(got, expected):
    np.testing.assert_array_equal(got, expected, strict=True)


# --- values


@pytest.mark.parametrize("n", [1, 2, 7, 128])
def test_compiled_transforms_have_numpys_bits(n):
    """Of double precision; single precision is NumPy's only where it computes in it."""
    x, z = rng.normal(size=(3, n, 2)), rng.normal(size=(3, n, 2)) + 1j

    def f(x, z):
        names = ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft")
        return [getattr(np.fft, k)(x if k in ("rfft", "ihfft") else z, n, 1) for k in names]

    run = ftrace.jit(f)
    for got, want in zip(run(x, z), f(x, z), strict=True):
        same(got, want)
    assert run.lower(x, z).cost().callbacks == 0


def test_transforms_of_single_precision_are_single():
    for dtype in (np.float16, np.float32):
        x = A.astype(dtype)
        for fn in (np.fft.fft, np.fft.irfft, np.fft.rfft, np.fft.hfft, np.fft.fft2):
            got, want = ftrace.jit(fn)(x), fn(x)
            assert got.dtype == want.dtype
            limit = 4e-3 if got.dtype == np.float16 else 2e-6
            np.testing.assert_allclose(got, want, atol=limit * abs(want).max())
    for x in (A > 0, (A * 9).astype(np.int8), (A * 9).astype(np.uint64)):
        same(ftrace.jit(np.fft.rfft)(x), np.fft.rfft(x))
        same(ftrace.jit(np.fft.hfft)(x), np.fft.hfft(x))


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_of_a_traced_step(name):
    ours, numpys = getattr(fnp.fft, name), getattr(np.fft, name)
    for n in (1, 2, 7, 8):
        same(ours(n, 0.3), numpys(n, 0.3))
        same(ftrace.jit(lambda d, n=n: ours(n, d))(0.3), numpys(n, 0.3))
        same(ftrace.jit(lambda d, n=n: numpys(n, d))(0.3), numpys(n, 0.3))
        slope = ftrace.jacfwd(lambda d, n=n: ours(n, d))(0.3)
        np.testing.assert_allclose(slope, -numpys(n, 0.3) / 0.3, rtol=1e-12)
    with pytest.raises(ValueError, match="n should be an integer"):
        ftrace.jit(lambda d: ours(2.5, d))(0.3)


def test_a_result_is_put_into_out():
    def f(x):
        out = fnp.zeros(x.shape, complex)
        kept = np.fft.fft(x, out=out)
        assert kept is out
        np.fft.fftn(out, out=out)
        return out

    same(ftrace.jit(f)(A), np.fft.fftn(np.fft.fft(A)))
    plain = np.zeros(A.shape, complex)
    with pytest.raises((TracerArrayConversionError, MutationError)):
        ftrace.jit(lambda x: np.fft.fft(x, out=plain))(A)
    for shape, dtype, error in (((4, 5), complex, ValueError), (A.shape, float, TypeError)):
        with pytest.raises(error):
            np.fft.fft(A, out=np.zeros(shape, dtype))
        with pytest.raises(error):
            ftrace.jit(lambda x, s=shape, d=dtype: np.fft.fft(x, out=fnp.zeros(s, d)))(A)


# --- errors


WRONG = [
    ("fft", V, {"n": 0}),
    ("fft", V, {"n": -3}),
    ("fft", V, {"n": 2.5}),
    ("fft", V, {"axis": 1}),
    ("fft", V, {"n": 4, "axis": -2}),
    ("fft", V, {"norm": "unitary"}),
    ("ifft", V, {"norm": 1}),
    ("fft", V[:0], {}),
    ("irfft", V[:1], {}),
    ("fft", np.float64(1.0), {}),
    ("rfft", C, {}),
    ("ihfft", C, {}),
    ("fft2", V, {}),
    ("fft2", A, {"s": (2,)}),
    ("fftn", A, {"s": (2, 2, 2), "axes": (0, 1)}),
    ("fftn", A, {"axes": (0, 2)}),
    ("fftn", A, {"s": (0, 3), "axes": (0, 1)}),
    ("rfftn", A, {"axes": ()}),
    ("irfftn", A, {"axes": ()}),
    ("fftshift", A, {"axes": 2}),
    ("ifftshift", A, {"axes": (0, -3)}),
]


@pytest.mark.parametrize(("name", "x", "options"), WRONG)
def test_what_numpy_refuses_is_refused_alike(name, x, options):
    plain = lookup(np.fft, name)
    with pytest.raises(Exception) as wanted:  # noqa: PT011 - whatever NumPy raises
        plain(x, **options)
    for fn in (plain, lookup(fnp.fft, name)):
        with pytest.raises(wanted.type) as found:
            ftrace.jit(lambda y, fn=fn: fn(y, **options))(x)
        if wanted.type is ValueError:
            words = [str(e.value).replace('",', '", ').split() for e in (wanted, found)]
            assert words[0] == words[1]


@pytest.mark.parametrize("options", [{"s": (3, 4)}, {"s": (3, None), "axes": (0, 1)}])
def test_what_numpy_deprecates_warns_alike(options):
    with warnings.catch_warnings(record=True) as numpys:
        warnings.simplefilter("always")
        want = np.fft.fft2(A, **{"axes": None, **options})
    with pytest.warns(DeprecationWarning, match="deprecated") as ours:
        got = ftrace.jit(lambda x: np.fft.fft2(x, **{"axes": None, **options}))(A)
    same(got, want)
    assert str(ours[0].message).split(" is ")[0] in str(numpys[0].message)


DEPRECATED = [
    lambda x: np.fft.fft2(x, s=(2, 2), axes=None),
    lambda x: fnp.fft.ifft2(x, s=(2, 2), axes=None),
    lambda x: np.fft.rfftn(x, s=(2, 2)),
    lambda x: fnp.fft.irfftn(x, s=(None, 2), axes=(0, 1)),
]


@pytest.mark.parametrize("transform", [ftrace.jit, lambda f: ftrace.vmap(f, -1)])
@pytest.mark.parametrize("f", DEPRECATED)
def test_a_warning_shows_the_users_line(f, transform):
    with pytest.warns(DeprecationWarning, match="deprecated") as found:
        transform(f)(np.ones((3, 4, 2)))
    here = f.__code__.co_filename, f.__code__.co_firstlineno
    assert {(w.filename, w.lineno) for w in found} == {here}


def test_a_scale_is_rounded_as_numpys():
    for dtype in (np.float32, np.float64):
        for n in (3, 7, 10):
            spike = np.zeros(n, dtype)
            spike[0] = 1.0
            for norm, scale in (("forward", "1/n"), ("ortho", "1/sqrt(n)"), (None, "1")):
                found = factor(np.dtype(dtype), n, scale)
                assert found.dtype == dtype
                assert found == np.fft.rfft(spike, norm=norm)[0].real


# --- derivatives


def test_derivatives_in_closed_form():
    """Parseval: sum |F x|^2 = n sum |x|^2; JAX's convention for complex arguments."""
    energy = ftrace.grad(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2))
    np.testing.assert_allclose(energy(V), 2 * V.size * V, rtol=1e-12)
    np.testing.assert_allclose(energy(C[0]), 2 * C.shape[1] * C[0].conj(), rtol=1e-12)
    hessian = ftrace.hessian(lambda x: np.sum(np.abs(np.fft.rfft(x, norm="ortho")) ** 2))(V[:5])
    assert np.allclose(hessian, hessian.T)
    whole = np.fft.fft(np.eye(5), norm="ortho")[:, :3]
    np.testing.assert_allclose(hessian, 2 * (whole @ whole.conj().T).real, atol=1e-12)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("n", [1, 4, 5, 9])
def test_pullbacks_are_transposes_of_the_matrix_compiled(name, n):
    """The matrix of a transform of 5 numbers cut or filled to n points, real and complex."""
    real = name == "rfft"
    fn = getattr(np.fft, name)
    x = V[:5] if real else C[1, :5]

    def f(x):
        return fn(x, n, norm="ortho")

    steps = [np.eye(5)] if real else [np.eye(5), 1j * np.eye(5)]
    y, pull = ftrace.vjp(f, x)
    ct = rng.normal(size=y.shape) + (0 if name == "irfft" else 1j * rng.normal(size=y.shape))
    (got,) = ftrace.jit(lambda ct: ftrace.vjp(f, x)[1](ct))(ct)
    np.testing.assert_allclose(got, pull(ct)[0], rtol=1e-13, atol=1e-13)
    sums = [(fn(e, n, norm="ortho") @ ct).real for e in steps]  # Re(ct . J v) for each direction v
    want = sums[0] if real else sums[0] - 1j * sums[1]
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_a_deconvolution_descends_compiled():
    """A gradient through two transforms, batched, against central differences."""
    kernel, seen = rng.normal(size=(8, 6)), rng.normal(size=(8, 6))
    spectrum = np.fft.rfft2(kernel)

    def loss(x):
        return np.sum((np.fft.irfft2(np.fft.rfft2(x) * spectrum, s=x.shape) - seen) ** 2)

    run = ftrace.jit(ftrace.vmap(ftrace.value_and_grad(loss)))
    xs, h = rng.normal(size=(2, 8, 6)), 1e-6
    assert run.lower(xs).cost().callbacks == 0
    values, slopes = run(xs)
    step = rng.normal(size=(8, 6))
    for x, value, slope in zip(xs, values, slopes, strict=True):
        np.testing.assert_allclose(value, loss(x), rtol=1e-12)
        wanted = (loss(x + h * step) - loss(x - h * step)) / (2 * h)
        np.testing.assert_allclose(np.sum(slope * step), wanted, rtol=1e-7)


def test_a_whole_program_of_transforms_is_interpreted_and_compiled_alike():
    def f(x):
        return np.fft.irfftn(np.fft.fftshift(np.fft.rfftn(x), axes=0) * 2.0)

    with ftrace.config.update(compile=False):
        interpreted = ftrace.jit(f)(A)
    same(interpreted, f(A))
    np.testing.assert_allclose(ftrace.jit(f)(A), f(A), rtol=1e-13)

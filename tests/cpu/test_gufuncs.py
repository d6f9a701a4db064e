"""Compiled loops of NumPy's that machine code calls, with NumPy's bits and errors."""

import ctypes

import numpy as np
import pytest
import scipy.special

import ftrace
import ftrace.scipy.special as fsp
from ftrace import lax
from ftrace.core.avals import aval
from ftrace.core.errors import BackendError
from ftrace.core.lower import Cores, Gufunc, GufuncCall
from ftrace.core.primitive import Primitive, Unsupported
from ftrace.cpu.cpu_backend import cpu_backend
from ftrace.cpu.foreign import gufuncs
from ftrace.cpu.llvm.machine_code import compile_module, host
from ftrace.cpu.runtime.main import module_text
from ftrace.cpu.runtime.native_launch import NativeProgram
from ftrace.lowering.machine import InnerLoop, Machine
from ftrace.lowering.planning.loop_numbers import core_names
from ftrace.lowering.planning.plan import plan
from ftrace.primitives.scipy_functions import special
from tests.cpu.programs import row as python
from tests.lowering.test_plan import assert_places_are_disjoint

FFT, LINALG = "numpy.fft._pocketfft_umath", "numpy.linalg._umath_linalg"
ADD = InnerLoop("numpy", "add", "(),()->()", "dd->d")
C16 = np.dtype(np.complex128)
rng = np.random.default_rng(0)


def row(impl, rule, call, *, multiple=False):
    """A row that a loop computes."""
    no = Unsupported("not needed")
    rules = {"jvp": no, "transpose": no, "batch": no, "multiple": multiple, "doc": "A loop."}
    return Primitive(name="loop", impl=impl, type=rule, lower=Gufunc(call), **rules)


def transform(axis):
    """NumPy's fft along an axis."""
    one = np.float64(1.0)
    call = GufuncCall(FFT, "fft", "(n),()->(m)", (Cores(0, (axis,)), one), (Cores(0, (axis,)),))
    return row(lambda x: np.fft.fft(x, axis=axis), lambda x: x, lambda avals: call)


def _solve_call(avals):
    matrices, one = [(-2, -1)] * 2, avals[1].ndim == 1
    sizes, name = ("(m)", "solve1") if one else ("(m,n)", "solve")
    axes = [matrices[0], (-1,) if one else matrices[1]]
    inputs = tuple(Cores(k, a) for k, a in enumerate(axes))
    return GufuncCall(
        LINALG, name, f"(m,m),{sizes}->{sizes}", inputs, (Cores(0, axes[1]),), fails=True
    )


def _solve_type(a, b):
    if b.ndim == 1:
        return b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return aval((*batch, *b.shape[-2:]), b.dtype)


SOLVE = row(np.linalg.solve, _solve_type, _solve_call)


def _raw(a):
    h, tau = np.linalg.qr(a, mode="raw")
    return [np.swapaxes(h, -1, -2).copy(), tau]


RAW = row(
    _raw,
    lambda a: (a, aval((*a.shape[:-2], min(a.shape[-2:])), a.dtype)),
    lambda avals: GufuncCall(
        LINALG, "qr_r_raw", "(m,n)->(p)", (Cores(0, (-2, -1), into=0),), (Cores(1, (-1,)),)
    ),
    multiple=True,
)
EXP = row(
    np.exp,
    lambda x: x,
    lambda avals: GufuncCall("numpy", "exp", "()->()", (Cores(0),), (Cores(0),)),
)


def complexes(*shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def compiled(f, *args):
    """A jitted function whose program has a loop and asks nothing of Python."""
    run = ftrace.jit(f)
    cost = run.lower(*args).cost()
    assert cost.loops
    assert not cost.callbacks
    return run(*args)


def same(got, expected):
    np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.parametrize("shape", [(9,), (3, 7, 5), (2, 3, 4, 5), (6, 1, 4), (0, 3), (2, 0)])
def test_loops_have_numpys_bits_along_each_axis(shape):
    x = complexes(*shape)
    for axis, n in enumerate(shape):
        if n:
            same(compiled(transform(axis), x), np.fft.fft(x, axis=axis))


def test_operands_are_broadcast_as_numpy_does():
    a, b = rng.normal(size=(3, 1, 4, 4)), rng.normal(size=(2, 4, 5))
    same(compiled(SOLVE, a, b), np.linalg.solve(a, b))
    same(compiled(SOLVE, a[0, 0], b), np.linalg.solve(a[0, 0], b))
    same(compiled(SOLVE, a[0, 0], b[0, :, 0]), np.linalg.solve(a[0, 0], b[0, :, 0]))


def test_an_operand_that_is_overwritten_is_copied_first():
    a = rng.normal(size=(2, 3, 5, 4))
    kept = a.copy()
    got = compiled(RAW, a)
    for g, e in zip(got, _raw(a), strict=True):
        same(g, e)
    same(a, kept)


def test_elementwise_loops_take_all_axes_at_once():
    x = complexes(3, 4, 5)
    same(compiled(lambda x: EXP(x) * 1.0, x), np.exp(x))
    program = cpu_backend().plan(ftrace.make_jaxpr(EXP)(x))
    assert [(s.depth, s.cores) for s in program.loops] == [(0, 0)]


def test_loops_run_between_kernels_and_in_loops():
    x, a, b = complexes(4, 8), rng.normal(size=(3, 4, 4)), rng.normal(size=4)

    def f(x, a, b):
        def turn(carry, m):
            y = SOLVE(m, carry + 1.0)
            return y, y * 2.0

        last, ys = lax.scan(turn, b, a)
        n = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, transform(1)(c[1])), (0, x))
        return last, ys, n[1], transform(0)(x * 2.0) - x

    got = compiled(f, x, a, b)
    carry, ys = b, []
    for m in a:
        carry = np.linalg.solve(m, carry + 1.0)
        ys.append(carry * 2.0)
    y = np.fft.fft(np.fft.fft(np.fft.fft(x)))
    for g, e in zip(got, (carry, np.array(ys), y, np.fft.fft(x * 2.0, axis=0) - x), strict=True):
        same(g, e)
    jaxpr = ftrace.make_jaxpr(f)(x, a, b)
    program = plan(jaxpr, Machine(64, loops=lambda *_: True))
    assert len(program.loops) == 3
    assert_places_are_disjoint(program)


def test_code_is_shared_by_all_sizes():
    texts = []
    for shape in ((3, 7, 5), (4, 8, 2)):
        program = cpu_backend().plan(ftrace.make_jaxpr(transform(1))(complexes(*shape)))
        texts.append(module_text(program, host()))
    assert texts[0] == texts[1]


# --- loops of ufuncs


def test_what_kernels_cannot_do_of_complex_numbers_is_numpys_loop():
    z, x = complexes(3, 4), rng.normal(size=(3, 4))
    names = ("expm1", "log", "sqrt", "sin", "tanh", "arccos", "log1p", "sign", "isnan")

    def f(z, x):
        found = [getattr(np, name)(z * 2.0) for name in names]
        more = np.heaviside(x, 0.5), np.fmax(x, 0.25), np.fmin(x, x.T[0, 0]), np.power(z, z)
        return *found, *more, np.gcd((x * 9).astype(int), 6)

    for got, want in zip(compiled(f, z, x), f(z, x), strict=True):
        same(got, want)
    small = z.astype(np.complex64)
    same(compiled(np.sqrt, small), np.sqrt(small))


def test_products_and_powers_of_complex_numbers_are_numpys_loops():
    m, n, v = complexes(30, 40), complexes(40, 50), complexes(40)
    b, i = complexes(2, 40, 30), rng.integers(-9, 9, size=(4, 4))

    def f(m, n, v, b, i):
        products = m @ n, m @ v, v @ n, v @ v, m.T @ m.conj(), b @ m, i @ i.T, (i > 0) @ (i > 2)
        return *products, np.einsum("bij,bkj->bik", b, b), np.dot(i, i[0]), m**3, m**-2, v**0

    for got, want in zip(compiled(f, m, n, v, b, i), f(m, n, v, b, i), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)
        assert got.dtype == want.dtype
    same(compiled(lambda m, n: m @ n, m, n), m @ n)
    same(ftrace.jit(lambda m, n: m @ n)(m[:, :0], n[:0]), m[:, :0] @ n[:0])
    slope = compiled(ftrace.grad(lambda m: np.sum(np.abs(m @ n) ** 2)), m)
    np.testing.assert_allclose(slope, (2 * (m @ n) @ n.conj().T).conj(), rtol=1e-13)


def test_special_functions_are_scipys_loops():
    x = rng.uniform(0.5, 2.0, size=(4, 5))

    def f(x):
        y = x[:, :1]
        return (
            fsp.jv(2, x), fsp.kve(1.5, x), fsp.betainc(x, 2.0, 0.25), fsp.gammainc(3, x),
            fsp.zeta(2, x + 1.0), fsp.ellipk(x * 0.25), fsp.eval_legendre(3, x - 1.0),
            fsp.airy(x)[2], fsp.sici(x)[0], fsp.dawsn(y), fsp.betaln(x, y), fsp.ndtri(x * 0.25),
        )  # fmt: skip

    single = x.astype(np.float32)
    for operand in (x, single):
        found = compiled(lambda x: f(x)[:10], operand)
        for got, want in zip(found, f(operand), strict=False):
            np.testing.assert_allclose(got, want, rtol=1e-6 if operand is single else 1e-15)
            assert got.dtype == want.dtype
    same(compiled(lambda x: fsp.jv(2, x), x), scipy.special.jv(2, x))
    same(compiled(lambda x: fsp.airy(x)[2], x), scipy.special.airy(x)[2])
    slope = compiled(ftrace.grad(lambda x: np.sum(fsp.kve(1.5, x) * fsp.sici(x)[1])), x)
    h = 1e-6
    up, down = (scipy.special.kve(1.5, x + s) * scipy.special.sici(x + s)[1] for s in (h, -h))
    np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-8)


def test_operands_that_a_loop_takes_otherwise_are_left_to_python():
    n, x = np.arange(3), np.linspace(0.5, 2, 3)
    run = ftrace.jit(lambda n, x: special(n, x, function="yv"))
    assert run.lower(n, x).cost().callbacks == 1
    same(run(n, x), scipy.special.yv(n, x))
    same(compiled(lambda x: special(np.int64(2), x, function="yv"), x), scipy.special.yv(2, x))


def test_errors_that_scipy_raises_on_request_are_raised():
    run = ftrace.jit(lambda x: fsp.spence(x) + 1.0)
    run(np.ones(2))
    with scipy.special.errstate(all="raise"), pytest.raises(scipy.special.SpecialFunctionError):
        run(np.array([1.0, -1.0]))
    assert np.isnan(run(np.array([1.0, -1.0]))[1])


# --- failing


def test_a_loop_that_fails_raises_numpys_error_with_the_users_line():
    run = ftrace.jit(lambda a, b: SOLVE(a, b) + 1.0)  # this line
    a, b = np.eye(3), np.ones(3)
    same(run(a, b), b + 1.0)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix") as caught:
            run(a * 0.0, b)
        assert "# this line" in caught.value.__notes__[0]
        same(run(a, b), b + 1.0)
    assert run.lower(a, b).cost().callbacks == 0


def test_one_failing_member_in_an_iteration_is_found():
    a = np.tile(np.eye(2), (5, 3, 1, 1))
    run = ftrace.jit(lambda a: lax.scan(lambda c, m: (c, SOLVE(m, m)), 0, a)[1])
    same(run(a), a)
    a[3, 1, 1] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        run(a)


def test_a_row_that_fails_beside_rows_of_python():
    run = ftrace.jit(lambda a, b: SOLVE(a, python(lambda b: b * 1)(b)))
    assert (c := run.lower(np.eye(3), np.ones(3)).cost()).callbacks == c.loops == 1
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        run(np.zeros((3, 3)), np.ones(3))
    same(run(np.eye(3), np.arange(3.0)), np.arange(3.0))


def test_nan_from_elsewhere_is_no_failure():
    """Kernels raise the flag, too; a loop is asked about its own."""
    run = ftrace.jit(lambda a, b, c: (np.sqrt(c), SOLVE(a, b)))
    nan, x = run(np.eye(2), np.ones(2), np.full(3, -1.0))
    assert np.isnan(nan).all()
    same(x, np.ones(2))
    system = ctypes.CDLL(None)
    system.feclearexcept(gufuncs.INVALID)
    system.feraiseexcept(gufuncs.INVALID)
    run(np.eye(2), np.ones(2), np.ones(3))
    assert system.fetestexcept(gufuncs.INVALID)
    system.feclearexcept(gufuncs.INVALID)


def test_an_error_that_a_loop_sets_is_raised():
    """NumPy's loops say so where they get no memory."""
    no_memory = ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p).value
    x = complexes(5)
    program = cpu_backend().plan(ftrace.make_jaxpr(transform(0))(x))
    symbols = dict.fromkeys(gufuncs.symbols(s.loop for s in program.loops), no_memory)
    run = NativeProgram(program, compile_module(module_text(program, host()), symbols, host()))
    with pytest.raises(MemoryError):
        run([x])


# --- what NumPy has


def test_what_is_not_as_expected_is_left_to_numpy():
    assert gufuncs.find(ADD)
    unknown = [
        ADD._replace(module="numpy.no_such_module"),
        ADD._replace(name="no_such_ufunc"),
        ADD._replace(name="asarray"),
        ADD._replace(signature="(n),()->(n)"),
        ADD._replace(signature="()->()"),
        ADD._replace(types="dd->f"),
    ]
    assert not any(map(gufuncs.find, unknown))


def test_where_a_loop_is_missing_the_public_function_is_called(monkeypatch):
    x, a, b = complexes(3, 7, 5), np.eye(3) * 2.0, np.ones(3)
    monkeypatch.setattr(gufuncs, "find", lambda loop: None)
    run = ftrace.jit(lambda x, a, b: (transform(1)(x), SOLVE(a, b), *RAW(a)))
    cost = run.lower(x, a, b).cost()
    assert (cost.loops, cost.callbacks) == (0, 3)
    expected = np.fft.fft(x, axis=1), np.linalg.solve(a, b), *_raw(a)
    for got, want in zip(run(x, a, b), expected, strict=True):
        same(got, want)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        run(x, a * 0.0, b)
    program = plan(ftrace.make_jaxpr(transform(1))(x), Machine(64, loops=lambda *_: True))
    with pytest.raises(BackendError, match=r"loop Dd->D of numpy\.fft\._pocketfft_umath\.fft"):
        module_text(program, host())


def test_where_flags_tell_nothing_loops_that_fail_are_left_to_numpy(monkeypatch):
    monkeypatch.setattr(gufuncs, "flags_tell", lambda: False)
    cost = ftrace.jit(lambda a, x: (SOLVE(a, a), transform(0)(x))).lower(np.eye(3), complexes(4))
    assert (cost.cost().loops, cost.cost().callbacks) == (1, 1)


def test_fields_of_ufuncs_are_compared_with_what_they_say():
    for ufunc in (np.add, np.exp, np.matmul, np.frexp):
        found = gufuncs._fields(ufunc)
        assert found.name == ufunc.__name__.encode()

    class Moved:
        """A ufunc of another layout."""

        nin, nout, nargs, ntypes = 2, 1, 3, 4

    assert gufuncs._fields(Moved()) is None


def test_signatures_are_read():
    assert core_names("(m, n),()->(m)") == [("m", "n"), (), ("m",)]
    assert core_names("(m,m)->(),()") == [("m", "m"), (), ()]
    assert core_names("()->()") == [(), ()]

"""What a result of rank 0 stands for: an array, a NumPy scalar or a Python number, as in NumPy.

`isinstance` of a traced result is compared with the type that NumPy's own result has, for every
case of the table whose result has rank 0 and for expressions of arguments of each of the three.
"""

import numpy as np
import pytest

import ftrace
import ftrace.numpy as fnp
from tests.numpy.cases import CASES
from tests.numpy.function_table import leaves, lookup, rebuild

EXPRESSIONS = """
np.where(True,x,1.) | np.copy(x) | np.squeeze(x) | np.reshape(x,()) | np.broadcast_to(x,()) |
np.zeros_like(x) | np.ones_like(x) | np.full_like(x,2.) | np.empty_like(x) | np.transpose(x) |
np.real(x) | np.imag(x) | np.conj(x) | np.abs(x) | np.clip(x,0,1) | np.round(x) | np.around(x,1) |
np.sum(x) | np.max(x) | np.mean(x) | np.std(x) | np.var(x) | np.median(x) | np.quantile(x,.5) |
np.percentile(x,50) | np.average(x) | np.nanmean(x) | np.nansum(x) | np.ptp(x) | x.copy() | x.T |
x.transpose() | x.reshape(()) | x.squeeze() | x.real | x.imag | x.conj() | x.conjugate() |
x.astype(np.float64) | x.astype(np.float32) | x[()] | x[...] | x.sum() | x.max() | x.mean() |
x.clip(0,1) | x.round() | x.ravel()[0] | x.flatten()[0] | np.atleast_1d(x)[0] |
np.expand_dims(x,0)[0] | np.nan_to_num(x) | np.interp(x,[0.,1.],[1.,2.]) | np.choose(0,[x,1.]) |
np.sinc(x) | np.i0(x) | np.angle(x) | np.fix(x) | np.real_if_close(x) |
np.broadcast_arrays(x,v)[0][0] | np.broadcast_arrays(x,1.)[0] | np.stack([x,x])[0] |
np.stack([x,x])[...,0] | -x | x+1 | x*1. | x**2 | abs(x) | x.dot(2.) | np.dot(x,2.) |
np.multiply(x,2) | np.inner(x,2.) | np.outer(x,2.)[0,0] | np.vdot(x,2.) | np.tensordot(v,v,1) |
np.einsum('i,i',v,v) | np.einsum('i,i->',v,v) | np.trace(M) | np.linalg.norm(v) |
np.linalg.norm(x) | v@v | np.matmul(v,v) | v.min() | v[0] | v[...,0] | v[0,...] | M[0,0] |
M[0,0,...] | M[...,0,0] | M[np.array(0),np.array(1)] | v[np.array(0)] | np.take(v,0) |
np.take(v,np.array(1)) | v.take(0) | np.argmax(v) | np.searchsorted(v,0.5) | np.digitize(0.5,v) |
np.count_nonzero(v) | np.polyval(v,x) | np.polyval([1.,2.],x) | np.cov(v) | np.corrcoef(v) |
np.trapezoid(v) | np.diff(v)[0] | np.prod(v) | np.logaddexp.reduce(v) | np.add.reduce(v) |
np.maximum(x,0.) | np.heaviside(x,0.) | np.hypot(x,1.) | np.isclose(x,1.) | np.allclose(x,1.) |
np.array_equal(v,v) | np.isfinite(x) | np.sign(x) | np.any(v) | np.all(v>0) | np.nanmax(v) |
np.vander(v)[0,0] | np.kron(x,2.) | np.bincount(np.array([0,1]))[0] |
np.unwrap(v)[0] | np.apply_along_axis(np.sum,0,v) | np.split(v,[1])[0][0] |
v.sum(keepdims=True)[0] | np.sum(v,axis=0) | np.mean(M,axis=(0,1)) | np.moveaxis(v,0,0)[0] |
np.swapaxes(M,0,1)[0,0] | np.flip(v)[0] | np.roll(v,1)[0] | v.reshape(3,1)[0,0] |
np.squeeze(v[:1]) | v[:1].squeeze() | v[:1].reshape(()) | np.reshape(v[:1],()) | np.linalg.norm(M)
| np.float32(1)*x | np.resize(x,1)[0] | np.nanmedian(v) | np.vecdot(v,v) | np.linalg.vecdot(v,v) |
np.linalg.trace(M) | np.linalg.multi_dot([v,M,v]) | np.linalg.vector_norm(v) |
np.linalg.matrix_norm(M) | np.ravel(x)[0] | np.positive(x) | +x | np.absolute(x) |
np.logical_not(x) | np.fmax(x,1) | np.mod(x,2) | np.divmod(x,2)[0] | np.modf(x)[0] |
np.frexp(x)[0] | np.ldexp(x,2) | np.nextafter(x,1) | np.spacing(x) | round(x,1) |
np.permute_dims(M,(1,0))[0,0] | np.block(x) | np.insert(v,0,1.)[0] | np.linspace(0,x,3)[0] |
np.geomspace(1,x,3)[0] | np.histogram(v)[1][0] | np.gradient(v)[0] | np.ediff1d(v)[0] |
np.convolve(v,v)[0] | np.cumsum(v)[-1] | np.sort(v)[0] | np.rot90(M)[0,0] | np.diagonal(M)[0] |
np.diag(M)[0] | np.tril(M)[0,0] | np.nansum(M) | np.isin(x,v) | np.mean(M) | np.min(M) |
np.repeat(x,2)[0] | np.tile(x,2)[0] | np.concatenate([v,v])[0] | np.hstack([x,x])[0]
"""


def parts(y):
    """The results of a function that returns one or several."""
    return [v for z in y for v in parts(z)] if isinstance(y, tuple | list) else [y]


def is_rank_0(y):
    return isinstance(y, np.ndarray | np.generic) and np.ndim(y) == 0


def test_rank_0_results_of_the_table_stand_for_what_numpy_gives():
    wrong, tried = [], 0
    for case in CASES:
        want = [type(y) for y in parts(lookup(np, case.name)(*case.args, **case.kwargs))]
        if not any(map(is_rank_0, parts(lookup(np, case.name)(*case.args, **case.kwargs)))):
            continue
        tried += 1
        found = []

        def f(*xs, case=case, found=found):
            y = lookup(np, case.name)(*rebuild(case.args, iter(xs)), **case.kwargs)
            found[:] = [v.__class__ for v in parts(y)]
            return 0.0

        ftrace.jit(f).trace(*leaves(case.args))
        if found != want:
            wrong.append(f"{case}: NumPy gives {want}, we say {found}")
    assert not wrong, "\n".join(wrong)
    assert tried > 130


@pytest.mark.parametrize("x", [np.float64(2.0), np.array(2.0), 2.0], ids=["scalar", "0-d", "float"])
def test_expressions_stand_for_what_numpy_gives(x):
    v = np.array([0.5, 1.5, 2.5])
    M = np.array([[2.0, 1, 0], [1, 3, 1], [0, 1, 4]])
    texts = [" ".join(t.split()) for t in EXPRESSIONS.split("|")]
    functions = {t: eval(f"lambda x, v, M: {t}") for t in texts}
    want = {}
    for text, f in functions.items():
        try:
            want[text] = type(f(x, v, M))
        except (AttributeError, TypeError):  # a float has no methods of arrays
            continue
    found = {}

    def traced(*args):
        found.update({text: functions[text](*args).__class__ for text in want})
        return 0.0

    for transformed in (ftrace.jit(traced), ftrace.grad(traced), ftrace.jit(ftrace.grad(traced))):
        found.clear()
        transformed(x, v, M)
        assert found == want
    assert len(want) > 100


def test_new_arrays_of_rank_0_are_arrays():
    def f(x):
        made = (fnp.zeros(()), fnp.full((), x), fnp.array(x), fnp.asarray(x), fnp.ones(()))
        return [isinstance(y, np.ndarray) for y in made]

    for x in (1.0, np.float64(1), np.array(1.0)):
        assert all(ftrace.jit(f)(x))


def test_mapped_members_of_rank_0_are_scalars_and_others_what_they_are():
    def f(x, y):
        return [isinstance(z, np.ndarray) for z in (x, y)]

    for y, is_array in ((np.array(1.0), True), (np.float64(1), False)):
        found = ftrace.vmap(f, in_axes=(0, None), out_axes=None)(np.ones(3), y)
        assert found == [False, is_array]


def test_an_array_of_rank_0_and_a_scalar_are_traced_apart():
    f = ftrace.jit(lambda x: x * 2 if isinstance(x, np.ndarray) else x * 3)
    assert [f(v) for v in (np.array(1.0), np.float64(1), 1.0, np.array(1.0))] == [2, 3, 3, 2]
    g = ftrace.jit(lambda t: t["x"] * 2 if isinstance(t["x"], np.ndarray) else t["x"] * 3)
    assert [g({"x": v}) for v in (np.array(1.0), np.float64(1), 1.0)] == [2, 3, 3]

"""What NumPy and SciPy refuse whatever the traced values are; what only some values bring about."""

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import ftrace
import ftrace.numpy as fnp
from ftrace import jit
from ftrace.numpy import stand_ins
from ftrace.scipy import linalg, optimize, special

X = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize("transform", [jit, ftrace.grad, ftrace.vmap])
def test_a_call_that_numpy_refuses_on_any_data_has_its_error(transform):
    with pytest.raises(ValueError, match="could not be broadcast"):
        transform(lambda x: fnp.polyder(x).sum())(np.ones((2, 2, 2)))


def test_a_call_that_scipy_refuses_on_any_data_has_its_words():
    with pytest.raises(ftrace.errors.FtraceError, match="cannot reshape array"):
        jit(optimize.rosen_hess)(np.ones((2, 2)))


def test_what_only_some_values_bring_about_is_no_error():
    """SciPy wants more than (d - 1) / 2; of traced values nothing is known."""
    found = jit(lambda a: special.multigammaln(a, 9))(np.array([5.0, 7.0]))
    assert np.allclose(found, scipy.special.multigammaln(np.array([5.0, 7.0]), 9))


def test_a_kind_of_arguments_is_asked_about_once(monkeypatch):
    asked = []

    def plain(x, axis):
        asked.append(x.copy())
        x[:] = 0.0

    options = {"axis": 0}
    for x in (X, X.copy(), X[::-1].copy(), X.astype(np.float32)):
        stand_ins.ask(plain, (x,), options, "once")
    assert len(asked) == 3
    assert X.all()  # what it writes is a copy


def test_functions_and_large_arrays_are_not_asked_about():
    def plain(*args):
        raise TypeError

    stand_ins.ask(plain, (np.sin,), {}, "a function")
    stand_ins.ask(plain, (np.zeros(1 << 15),), {}, "many")
    stand_ins.ask(plain, (10**6,), {}, "a size")
    with pytest.raises(TypeError):
        stand_ins.ask(plain, (X,), {}, "any")


def test_one_set_of_values_that_is_taken_is_enough():
    def positive(x):
        if x[0] < 100:
            raise ValueError("too small")

    jit(lambda x: stand_ins.ask(positive, (x,), {}, "high") or x)(X)


def test_shapes_of_stand_ins():
    for shape in ((), (0,), (3,), (2, 3), (0, 3), (2, 0), (2, 2, 2)):
        for dtype in (np.float64, np.complex64, np.int32, np.bool_):
            for made in (stand_ins._rising, stand_ins._even, stand_ins._high):
                found = made(shape, np.dtype(dtype))
                assert (found.shape, found.dtype) == (shape, dtype)
    assert abs(np.linalg.det(stand_ins._rising((3, 3), np.dtype(float)))) > 1


def test_lists_are_of_one_kind_if_their_items_are():
    def plain(xs):
        if any(type(x) is str for x in xs):
            raise TypeError("texts")

    stand_ins.ask(plain, ([1.0],), {}, "a list")
    with pytest.raises(TypeError, match="texts"):
        stand_ins.ask(plain, (["a"],), {}, "a list")


def test_a_matrix_that_stand_ins_make_singular_is_no_error():
    """None of them is a definite matrix in bands: only the user's values are."""
    bands, b = np.array([[0.0, 1.0, 1.0, 1.0], [9.0, 8.0, 9.0, 7.0]]), np.ones(4)
    found = jit(lambda bands: linalg.solveh_banded(bands, b))(bands)
    assert np.allclose(found, scipy.linalg.solveh_banded(bands, b))

"""Arrays of other libraries as arguments: by DLPack, `__array_interface__` and `__array__`."""

import numpy as np
import pytest

import ftrace
from ftrace import errors


class Interface:
    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


class Converting:
    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        if self.array is None:
            raise RuntimeError("it records gradients")
        return self.array


class Tensor:
    """What DLPack needs, and nothing else."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        if self.array is None:
            raise BufferError("it records gradients")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


X = np.array([0.3, -1.2, 2.0])


def f(x):
    return np.sum(np.sin(x) * x)


@pytest.mark.parametrize("kind", [Interface, Converting, Tensor])
def test_they_are_arguments_of_transformations(kind):
    x = kind(X)
    np.testing.assert_array_equal(ftrace.grad(f)(x), ftrace.grad(f)(X))
    np.testing.assert_array_equal(ftrace.hessian(f)(x), ftrace.hessian(f)(X))
    np.testing.assert_array_equal(ftrace.vmap(np.sin)(x), np.sin(X))
    np.testing.assert_array_equal(ftrace.vjp(f, x)[1](1.0)[0], ftrace.grad(f)(X))
    assert ftrace.jvp(f, (x,), (X,)) == ftrace.jvp(f, (X,), (X,))
    jitted = ftrace.jit(f)
    assert jitted(x) == jitted(x) == jitted(X)
    np.testing.assert_allclose(jitted(x), f(X))
    nested = ftrace.grad(lambda p: f(p["x"]))({"x": x})
    np.testing.assert_array_equal(nested["x"], ftrace.grad(f)(X))


@pytest.mark.parametrize("kind", [Interface, Converting, Tensor])
def test_their_memory_is_read_where_it_is(kind):
    seen = []

    def g(x):
        seen.append(x)
        return x

    x = X.copy()
    host = ftrace.jit(lambda x: ftrace.pure_callback(lambda v: g(v) * 1.0, x, x))
    host(kind(x))
    assert np.shares_memory(seen[0], x)
    x[0] = 7.0
    np.testing.assert_allclose(ftrace.jit(f)(kind(x)), f(x))


def test_what_is_not_given_away():
    for kind in (Converting, Tensor):
        for way in (ftrace.grad(f), ftrace.jit(f), ftrace.vmap(f)):
            with pytest.raises(errors.DtypeError, match="it records gradients") as caught:
                way(kind(None))
            assert "detach" in caught.value.fix
    for way in (ftrace.grad(f), ftrace.jit(f)):
        with pytest.raises(errors.DeviceError, match="lies on a device") as caught:
            way(Tensor(X, (2, 0)))
        assert "cupy.from_dlpack" in caught.value.fix
        with pytest.raises(errors.DtypeError, match="dtype object cannot be traced"):
            way(Converting(np.array([None])))
        with pytest.raises(errors.DtypeError, match="MaskedArray"):
            way(np.ma.masked_array(X))

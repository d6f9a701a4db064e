"""Arrays of nested lists have NumPy's dtype, which all items decide."""

import numpy as np

import ftrace
import ftrace.numpy as fnp

LISTS = (
    lambda t: [0, np.exp(1j * t)],
    lambda t: [np.exp(1j * t), 0],
    lambda t: [True, t],
    lambda t: [1, t > 0],
    lambda t: [t, 1.5],
    lambda t: [np.float32(1), t],
    lambda t: [np.int8(3), 2, t],
    lambda t: [[0, 1], [t, 2j]],
    lambda t: [np.zeros(2, np.float32), [t, 1]],
    lambda t: [[True, False], [False, t > 0]],
)


def test_all_items_of_a_nested_list_decide_the_dtype():
    values = (2.0, 3, True, np.float32(0.5), np.int8(3), np.float64(1.5), np.complex64(1j))
    for t in values:
        lists = LISTS if np.isrealobj(t) else LISTS[:3]
        want = [np.array(make(t)) for make in lists]

        def f(x, lists=lists):
            return [fnp.array(make(x)) for make in lists]

        found = ftrace.jit(f)(t)
        mapped = ftrace.vmap(f)(np.stack([t, t]))
        for x, y, z in zip(found, mapped, want, strict=True):
            assert x.dtype == y.dtype == z.dtype
            np.testing.assert_allclose(x, z, rtol=1e-6)
            np.testing.assert_allclose(y[1], z, rtol=1e-6)

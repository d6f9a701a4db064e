"""An array of a container that a compiled loop names again, in each iteration and by a view."""

import numpy as np
import pytest

import ftrace

K = np.array([[0.47, 1.72, 0.6], [-0.12, -0.78, -0.11]])
X = np.array([1.75, 1.03, -0.03])


def renamed(x, y, flag=True):
    box = {"p": K + K, "q": x[::-1]}
    n = 0
    while n < min(y, 3):
        n += 1
        if flag:
            box["p"] = box["p"][:]
        box["p"] = box["p"]
    return box["p"] * y + box["q"]


@pytest.mark.parametrize("flag", [True, False])
def test_a_loop_names_an_array_again(flag):
    compiled = ftrace.jit(renamed, static_argnames="flag")
    mapped = ftrace.vmap(renamed, in_axes=(0, 0, None))
    ys = np.array([1.79, -0.63])
    expected = np.stack([renamed(X, y, flag) for y in ys])
    np.testing.assert_allclose([compiled(X, y, flag=flag) for y in ys], expected, rtol=1e-14)
    np.testing.assert_allclose(mapped(np.stack([X, X]), ys, flag), expected, rtol=1e-14)

"""`switch` chooses by a clamped index, traced or not, mapped or not."""

import numpy as np
import pytest

from ftrace import grad, jit, lax, vmap

BRANCHES = [lambda x: x * 2.0, lambda x: np.sin(x), lambda x: x * x * x]
SLOPES = [lambda x: 2.0, np.cos, lambda x: 3.0 * x * x]
INDICES = [-3, 0, 1, 2, 7]


def chosen(i):
    return min(max(i, 0), 2)


def switched(i, x):
    return lax.switch(i, BRANCHES, x)


@pytest.mark.parametrize("i", INDICES)
def test_an_index_outside_takes_the_nearest_branch(i):
    value, slope = BRANCHES[chosen(i)](0.7), SLOPES[chosen(i)](0.7)
    for index in (i, np.int8(i), np.int64(i)):
        np.testing.assert_allclose(switched(index, 0.7), value)
        np.testing.assert_allclose(jit(switched)(index, 0.7), value)
        np.testing.assert_allclose(grad(switched, argnums=1)(index, 0.7), slope)
        np.testing.assert_allclose(jit(grad(switched, argnums=1))(index, 0.7), slope)


@pytest.mark.parametrize("dtype", ["i1", "i8", "u1"])
def test_each_member_takes_its_own_branch(dtype):
    indices = np.array([i for i in INDICES if i >= 0 or dtype != "u1"], dtype)
    xs = np.linspace(0.3, 1.5, len(indices))
    values = [BRANCHES[chosen(int(i))](x) for i, x in zip(indices, xs, strict=True)]
    slopes = [SLOPES[chosen(int(i))](x) for i, x in zip(indices, xs, strict=True)]
    for f in (vmap(switched), jit(vmap(switched)), vmap(jit(switched))):
        np.testing.assert_allclose(f(indices, xs), values)
    for f in (vmap(grad(switched, argnums=1)), jit(vmap(grad(switched, argnums=1)))):
        np.testing.assert_allclose(f(indices, xs), slopes)


def test_one_branch_is_always_taken():
    assert lax.switch(5, [lambda x: x + 1.0], 1.0) == 2.0
    assert jit(lambda i: lax.switch(i, [lambda x: x + 1.0], 1.0))(5) == 2.0

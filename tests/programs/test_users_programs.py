"""Programs of the kinds that scientists have run as they stand: eager gradients, jit, and both."""

import numpy as np
import pytest

import ftrace
from ftrace.tree_util import tree_flatten
from tests.programs.users_programs import PROGRAMS


def check(name, way):
    """A gradient against a difference in some direction."""
    f, (x, *rest) = PROGRAMS[name]
    leaves, tree = tree_flatten(x)
    rng = np.random.default_rng(0)
    direction = [rng.normal(size=np.shape(leaf)) for leaf in leaves]

    def along(step):
        moved = [leaf + step * d for leaf, d in zip(leaves, direction, strict=True)]
        return f(tree.unflatten(moved), *rest)

    expected = (along(1e-5) - along(-1e-5)) / 2e-5
    gradient = tree_flatten(way(f)(x, *rest))[0]
    found = sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_eager_gradients(name):
    check(name, ftrace.grad)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_jitted_programs(name):
    f, args = PROGRAMS[name]
    np.testing.assert_allclose(ftrace.jit(f)(*args), f(*args), rtol=1e-8)
    check(name, lambda f: ftrace.jit(ftrace.grad(f)))


COMPILED = [
    "heat equation in place",
    "RK4",
    "solve_ivp fit",
    "inverse kinematics",
    "quantum circuit",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_programs(name):
    f, args = PROGRAMS[name]
    np.testing.assert_allclose(ftrace.jit(f)(*args), f(*args), rtol=1e-8)
    check(name, lambda f: ftrace.jit(ftrace.grad(f)))

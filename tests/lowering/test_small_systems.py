"""Systems of few unknowns are kernels: no loop of NumPy's and no Python; pivots as LAPACK's."""

from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.primitives.small_systems import LARGEST, PROGRAMS, program, small_system

rng = np.random.default_rng(1)


def definite(a: Any) -> Any:
    return a @ np.swapaxes(a, -1, -2) + np.eye(a.shape[-1])


FUNCTIONS = {
    "solve": lambda a: np.linalg.solve(a, np.cos(a[..., :2])),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": np.linalg.slogdet,
    "cholesky": lambda a: np.linalg.cholesky(definite(a)),
    "cofactor": ftrace.grad(lambda a: np.sum(np.linalg.det(a))),
}


@pytest.mark.sampled(2, each="kind")
@pytest.mark.parametrize("n", range(1, LARGEST + 1))
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_small_system_is_computed_by_kernels_alone(kind: str, n: int) -> None:
    f = FUNCTIONS[kind]
    a = rng.normal(size=(5, n, n))
    a[1] = np.eye(n)[::-1]  # every pivot is elsewhere
    a[2, 0, 0] = 0
    a[2] += (n == 1) * 3
    a[3] *= 1e-200
    for x in (a[:3], a[0], a[[0, 4]] * 1e8) if kind == "cofactor" else (a, a[0]):
        found, expected = ftrace.jit(f)(x), f(x)
        for y, e in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-9, atol=1e-12 * np.abs(e).max())
    cost = ftrace.jit(f).lower(a).cost()
    assert (cost.loops, cost.products, cost.callbacks) == (0, 0, 0)


def test_larger_ones_and_other_dtypes_are_left_to_numpy_compiled() -> None:
    for a in (np.eye(LARGEST + 1), np.eye(2) + 0j):
        cost = ftrace.jit(np.linalg.inv).lower(a).cost()
        assert cost.loops > 0
    wide = ftrace.jit(np.linalg.solve).lower(np.eye(2), np.ones((2, LARGEST + 1))).cost()
    assert wide.loops > 0


@pytest.mark.parametrize("kind", ["solve", "inv", "slogdet", "det", "cholesky"])
def test_the_program_says_what_numpys_loop_says_of_singular_matrices(kind: str) -> None:
    a = np.array([[[0.0, 2], [0, 3]], [[1, 2], [2, 4]], [[2, 1], [1, 3]], [[np.nan, 1], [1, 1]]])
    sizes = ((2, 2), (2, 1)) if kind == "solve" else ((2, 2),)
    elements = [a[:, i, j] for i in range(2) for j in range(2)]
    elements += [np.ones(4)] * 2 if kind == "solve" else []
    with np.errstate(all="ignore"):
        found = np.array(small_system.impl(*elements, kind=kind, sizes=sizes))
    refused = np.isnan(found).all(axis=0)
    if kind in ("solve", "inv"):
        assert refused.tolist() == [True, True, False, True]
    elif kind == "cholesky":
        assert refused[:2].all()
        assert not refused[2]
    elif kind == "det":
        assert found[0, :3].tolist() == [0, 0, 5]
    else:
        assert found[:, 0].tolist() == found[:, 1].tolist() == [0, -np.inf]
        assert found[0, 2] == 1


def test_programs_are_short() -> None:
    """Kernels take a time to compile that grows with their length."""
    for kind in PROGRAMS:
        sizes = ((4, 4), (4, 4)) if kind == "solve" else ((4, 4),)
        assert len(program(kind, sizes).eqns) < 420


def test_derivatives_of_a_batch_are_kernels_compiled() -> None:
    a, b = rng.normal(size=(50, 3, 3)), rng.normal(size=(50, 3, 1))
    f = ftrace.value_and_grad(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), (0, 1))
    compiled = ftrace.jit(f)
    for x, y in zip(ftrace.tree.leaves(compiled(a, b)), ftrace.tree.leaves(f(a, b)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)
    cost = compiled.lower(a, b).cost()
    assert (cost.loops, cost.products, cost.callbacks) == (0, 0, 0)

"""Compiled programs against NumPy: random ones, whole ones, unusual arrays, and transformations."""

import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ftrace
from ftrace.core.errors import DtypeError
from ftrace.cpu.llvm.machine_code import host
from ftrace.cpu.runtime.native_launch import compilations
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from tests.lowering import programs
from tests.lowering.simulate import simulate
from tests.lowering.test_plan import assert_places_are_disjoint
from tests.programs.arrays import OPERANDS, STEPS, drawn, evaluate
from tests.sampling import examples

X, V = np.linspace(-2, 3, 48).reshape(6, 8), np.linspace(-2, 3, 40)
SEEDS = st.integers(0, 1000)
CASTS = ("half", "single")
UNITS = 16  # of rounding, relative to the largest number: sums have another order


def same(actual: Any, expected: Any, least: float = 0.0) -> None:
    """Equal in shape, dtype and, up to rounding (of `least` at least), in value."""
    a, e = np.asarray(actual), np.asarray(expected)
    assert (a.shape, a.dtype) == (e.shape, e.dtype)
    if e.dtype.kind not in "fc":
        np.testing.assert_array_equal(a, e)
        return
    eps = UNITS * max(least, float(np.finfo(e.dtype).eps))
    scale = float(np.max(np.abs(e), initial=1.0, where=np.isfinite(e)))
    np.testing.assert_allclose(a, e, rtol=eps, atol=eps * scale)


# ---------------------------------------------------------------------------------- random


def coarsest(steps: Any, args: Any) -> float:
    """The rounding of the least precise numbers in a program: its sums have another order."""
    dtypes = [a.dtype for a in args if a.dtype.kind in "fc"]
    dtypes += [{"half": "f2", "single": "f4"}[name] for name, *_ in steps if name in CASTS]
    return max((float(np.finfo(d).eps) for d in dtypes), default=0.0)


def check_planned(steps: Any, operands: Any, seed: int) -> None:
    args = drawn(operands, seed)
    f = partial(evaluate, steps)
    with np.errstate(all="ignore"):
        expected = f(*args)
        program = plan(ftrace.make_jaxpr(f)(*args), Machine(host().vector_bytes))
        assert_places_are_disjoint(program)
        for reverse in (False, True):
            for y, e in zip(simulate(program, args, reverse=reverse), expected, strict=True):
                same(y, e, coarsest(steps, args))


def check_compiled(steps: Any, operands: Any, seed: int) -> None:
    args = drawn(operands, seed)
    f = partial(evaluate, steps)
    with np.errstate(all="ignore"):
        expected = f(*args)
        for y, e in zip(ftrace.jit(f)(*args), expected, strict=True):
            same(y, e, coarsest(steps, args))
            assert np.ndim(y) or not isinstance(y, np.ndarray)


test_a_planned_program_gives_numpys_values = settings(max_examples=40)(
    given(STEPS, OPERANDS, SEEDS)(check_planned)
)
test_a_compiled_program_gives_numpys_values = given(STEPS, OPERANDS, SEEDS)(check_compiled)


RANDOM = STEPS, OPERANDS, SEEDS
test_many_planned_programs_give_numpys_values = pytest.mark.slow(
    examples(*RANDOM, count=150)(check_planned)
)
test_many_compiled_programs_give_numpys_values = pytest.mark.slow(
    examples(*RANDOM, count=150)(check_compiled)
)


# ---------------------------------------------------------------------------------- whole

HALF = V.astype(np.float16)
WHOLE = {
    "softmax": (programs.softmax, (X,)),
    "logsumexp": (programs.logsumexp, (X,)),
    "layernorm": (programs.layernorm, (X, V[:8], V[8:16])),
    "gradients of layernorm": (
        ftrace.grad(programs.layernorm_loss, argnums=(0, 1, 2)),
        (X, V[:8], V[8:16]),
    ),
    "rosenbrock": (ftrace.value_and_grad(programs.rosenbrock), (V,)),
    "hessian": (ftrace.hessian(programs.rosenbrock), (V[:9],)),
    "ackley": (ftrace.grad(programs.ackley), (V,)),
    "cell": (programs.cell_and_partials, tuple(np.roll(X, k) for k in range(7))),
    "product": (programs.product, (X + 1j * X[::-1], X - 2j)),
    "half": (programs.half, (HALF,)),
    "views": (programs.views, (X,)),
    "largest": (programs.largest, (X,)),
    "loop": (programs.halve_until_small, (V,)),
    "choice": (programs.chosen, (V,)),
    "other choice": (programs.chosen, (-V,)),
    "stencils": (programs.shifted(6, np.sin), (V,)),
    "updates": (programs.updated(8), (V,)),
    "rows": (programs.filled(7), (V[:5],)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_program_gives_numpys_values(name):
    f, args = WHOLE[name]
    expected = ftrace.tree_util.tree_leaves(f(*args))
    for y, e in zip(ftrace.tree_util.tree_leaves(ftrace.jit(f)(*args)), expected, strict=True):
        same(y, e)


@pytest.mark.by_size
def test_another_size_compiles_nothing():
    f = ftrace.jit(lambda x: programs.softmax(x * 1.25) - np.max(x, axis=0))
    same(f(X), programs.softmax(X * 1.25) - np.max(X, axis=0))
    before = compilations()
    for shape in ((3, 3), (17, 6), (5, 5), (0, 4)):
        x = np.linspace(-1, 1, np.prod(shape)).reshape(shape)
        if x.size:
            same(f(x), programs.softmax(x * 1.25) - np.max(x, axis=0))
    assert compilations() == before


# ---------------------------------------------------------------------------------- arrays


class Subclass(np.ndarray):
    """An array of another class."""


def misaligned(x):
    memory = np.zeros(x.nbytes + 1, np.uint8)
    found = memory[1:].view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


UNUSUAL = {
    "Fortran order": np.asfortranarray,
    "strides": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "negative strides": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "misaligned": misaligned,
    "swapped bytes": lambda x: x.astype(x.dtype.newbyteorder()),
    "read only": read_only,
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
}
UNUSUAL_FUNCTION = ftrace.jit(lambda x, k: (x.T * k + 1.0, np.sum(x, axis=0), x))


@pytest.mark.parametrize("kind", UNUSUAL)
def test_arrays_of_every_kind_are_understood(kind):
    x = UNUSUAL[kind](X)
    before = np.array(x, np.float64)
    results = UNUSUAL_FUNCTION(x, 2.5)
    for y, e in zip(results, (before.T * 2.5 + 1.0, before.sum(axis=0), before), strict=True):
        same(y, e)
        assert type(y) is np.ndarray
        assert y.flags.owndata
        assert y.flags.writeable
        assert not np.shares_memory(y, x)
    np.testing.assert_array_equal(x, before)


def test_arrays_without_elements_and_of_rank_zero():
    for x in (X[:0], X[:, :0], X[:0, :0]):
        transposed, total, itself = UNUSUAL_FUNCTION(x, 1.0)
        assert (transposed.shape, itself.shape) == (x.T.shape, x.shape)
        np.testing.assert_array_equal(total, np.zeros(x.shape[1]))
    f = ftrace.jit(lambda x: (x * 2.0, np.sin(x)))
    for x in (np.array(1.5), np.float64(1.5), 1.5):
        for y, e in zip(f(x), (3.0, np.sin(1.5)), strict=True):
            assert isinstance(y, float)
            assert y == e


@pytest.mark.parametrize("bad", [np.array([[1, None]]), X.view(Subclass), np.array([["a"]])])
def test_arrays_of_other_things_are_refused(bad):
    with pytest.raises(DtypeError, match=r"object|Subclass|<U1"):
        UNUSUAL_FUNCTION(bad, 1.0)


def test_a_result_that_is_an_argument_is_a_copy():
    f = ftrace.jit(lambda x: (x, x))
    a, b = f(V)
    a[0] = 100.0
    assert V[0] == b[0] == -2.0


# ---------------------------------------------------------------------------------- composition


def loss(x):
    return np.sum(np.tanh(programs.softmax(x)) * x[::-1])


COMPOSED = {
    "grad": (lambda f: ftrace.grad(f), (V,)),
    "jvp": (lambda f: lambda x: ftrace.jvp(f, (x,), (x,)), (V,)),
    "vmap": (lambda f: ftrace.vmap(f), (X,)),
    "grad in vmap": (lambda f: ftrace.vmap(ftrace.grad(f)), (X,)),
    "hvp": (lambda f: lambda x: ftrace.jvp(ftrace.grad(f), (x,), (x,))[1], (V,)),
    "vjp": (lambda f: lambda x: ftrace.vjp(f, x)[1](2.0), (V,)),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_compiling_before_or_after_a_transformation_changes_nothing(name):
    transform, args = COMPOSED[name]
    expected = ftrace.tree_util.tree_leaves(transform(loss)(*args))
    for f in (ftrace.jit(transform(loss)), transform(ftrace.jit(loss))):
        for y, e in zip(ftrace.tree_util.tree_leaves(f(*args)), expected, strict=True):
            np.testing.assert_allclose(y, e, rtol=1e-12, atol=1e-12)


def test_threads_call_one_function_at_once():
    f = ftrace.jit(lambda x: np.sort(np.sin(x) * 3.5, axis=0)[::-1] + np.max(x))
    xs = [X * k for k in range(1, 9)]
    found: list[Any] = [None] * len(xs)

    def work(k: int) -> None:
        for _ in range(20):
            found[k] = f(xs[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(xs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for y, x in zip(found, xs, strict=True):
        same(y, np.sort(np.sin(x) * 3.5, axis=0)[::-1] + np.max(x))

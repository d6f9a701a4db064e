"""Which products a library can do, and how it is told."""

import numpy as np
import pytest

import ftrace
from ftrace import lax
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.contraction import contraction
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.program import Callback, Copy, Multiply, Repeat, every
from tests.lowering.simulate import simulate

LARGE = 2**31 - 1


def numbers_of(left, right, contract, batch=((), ()), longest=LARGE, dtype="f8"):
    """The jaxpr of one product, its operands, and how the library is told of it."""
    size = np.prod(left, dtype=int) + np.prod(right, dtype=int)
    values = np.sin(np.arange(size)).astype(dtype)
    x = values[: np.prod(left, dtype=int)].reshape(left)
    y = values[x.size :].reshape(right)
    jaxpr = ftrace.make_jaxpr(lambda x, y: lax.dot_general(x, y, (contract, batch)))(x, y)
    (eqn,) = jaxpr.eqns
    return jaxpr, (x, y), contraction(eqn, eqn.params["dimension_numbers"], longest)


# name -> operands, contracted axes, batch axes, (vector, swapped, transposed)
TAKEN = {
    "matrices": ((20, 30), (30, 40), ((1,), (0,)), ((), ()), (False, False, (False, False))),
    "left transposed": ((30, 20), (30, 40), ((0,), (0,)), ((), ()), (False, False, (True, False))),
    "both transposed": ((30, 20), (40, 30), ((0,), (1,)), ((), ()), (False, False, (True, True))),
    "column": ((70, 80), (80, 1), ((1,), (0,)), ((), ()), (True, False, (False, False))),
    "transposed matrix, vector": ((70, 80), (70,), ((0,), (0,)), ((), ()), (True, False, None)),
    "vector, matrix": ((70,), (70, 80), ((0,), (0,)), ((), ()), (True, True, None)),
    "row of a transpose": ((1, 70), (80, 70), ((1,), (1,)), ((), ()), (True, True, None)),
    "two inner axes": ((20, 5, 6), (5, 6, 9), ((1, 2), (0, 1)), ((), ()), (False, False, None)),
    "in another order": ((20, 5, 6), (5, 6, 9), ((2, 1), (1, 0)), ((), ()), (False, False, None)),
    "two free axes": ((4, 5, 30), (30, 6, 7), ((2,), (0,)), ((), ()), (False, False, None)),
    "inner product": ((70, 80), (70, 80), ((0, 1), (0, 1)), ((), ()), (True, False, None)),
    "two members, left transposed": ((2, 20), (2, 30), ((0,), (0,)), ((), ()),
                                     (False, False, (True, False))),
    "one member": ((20, 1), (30, 1), ((1,), (1,)), ((), ()), (False, False, (False, False))),
    "axes of size 1": ((1, 20, 1, 30), (30, 1, 40), ((3,), (0,)), ((), ()), (False, False, None)),
    "batch": ((3, 20, 30), (3, 30, 9), ((2,), (1,)), ((0,), (0,)), (False, False, None)),
    "batch inside": ((20, 3, 30), (30, 3, 9), ((2,), (0,)), ((1,), (1,)), (False, False, None)),
    "attention": ((2, 9, 3, 8), (2, 7, 3, 8), ((3,), (3,)), ((0, 2), (0, 2)), (False, False, None)),
    "batch of vectors": ((3, 20, 40), (20, 3), ((1,), (0,)), ((0,), (1,)), (True, False, None)),
    "batches that merge": ((2, 3, 9, 8), (2, 3, 8, 7), ((3,), (2,)), ((0, 1), (0, 1)),
                           (False, False, (False, False))),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_the_library_is_told_of_products_in_memory_as_it_lies(name):
    left, right, contract, batch, (vector, swapped, transposed) = TAKEN[name]
    jaxpr, args, found = numbers_of(left, right, contract, batch)
    assert found is not None
    assert (found.vector, found.swapped) == (vector, swapped)
    assert transposed in (None, found.transposed)
    m, n, k, *long_steps = found.numbers[2:7]
    lengths = [m if found.transposed[0] else k, k if found.transposed[1] else n]
    assert all(s >= x for s, x in zip(long_steps, lengths, strict=True))  # rows do not overlap
    program = plan(jaxpr, Machine(64))
    if program.products:  # small ones are kernels
        assert not program.callbacks
        (got,) = simulate(program, args)
        np.testing.assert_allclose(got, lax.dot_general(*args, (contract, batch)), rtol=1e-12)


REFUSED = {
    "contracted axes apart": ((5, 20, 6), (5, 6, 9), ((0, 2), (0, 1))),
    "contracted axes in different orders": ((20, 5, 6), (6, 5, 9), ((1, 2), (1, 0))),
    "free axes around the contracted one": ((20, 30, 4), (30, 9), ((1,), (0,))),
    "batch innermost": ((20, 30, 3), (30, 9, 3), ((1,), (0,)), ((2,), (2,))),
    "three batch axes apart": ((2, 8, 3, 9, 4, 7), (2, 8, 3, 9, 4, 6), ((1,), (1,)),
                               ((0, 2, 4), (0, 2, 4))),
    "many inner products": ((90, 30), (90, 30), ((0,), (0,)), ((1,), (1,))),
    "nothing to add": ((20, 0), (0, 9), ((1,), (0,))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_library_is_not_told_of_others(name):
    assert numbers_of(*REFUSED[name])[2] is None


@pytest.mark.parametrize("dtype", ["c16", "i4", "f2", "c8"])
def test_only_real_floats_of_common_sizes_are_for_the_library(dtype):
    assert numbers_of((20, 30), (30, 40), ((1,), (0,)), dtype=dtype)[2] is None


def test_sizes_that_the_library_does_not_know_are_left_to_numpy():
    assert numbers_of((20, 30), (30, 40), ((1,), (0,)), longest=39)[2] is None
    assert numbers_of((20, 30), (30, 40), ((1,), (0,)), longest=40)[2] is not None
    jaxpr = numbers_of((20, 30), (30, 40), ((1,), (0,)))[0]
    assert [type(s) for s in plan(jaxpr, Machine(64, lambda: 0)).steps] == [Callback]


@pytest.mark.parametrize(("size", "step"), [(LARGE, Multiply), (LARGE + 1, Callback)])
def test_an_unknown_library_counts_in_32_bits(size, step):
    shapes = (ftrace.ShapeDtypeStruct(s, np.float64) for s in ((3, size), (size, 5)))
    jaxpr = ftrace.make_jaxpr(lambda x, y: x @ y)(*shapes)
    assert [type(s) for s in plan(jaxpr, Machine(64)).steps] == [step]


def test_products_are_found_in_loops_and_choices():
    def body(c):
        i, y = c
        return i + 1, lax.cond(i > 1, lambda y: y @ y, lambda y: y.T @ y + 1.0, y)

    def f(x):
        return lax.while_loop(lambda c: c[0] < 3, body, (0, x))[1]

    x = np.sin(np.arange(400.0)).reshape(20, 20) / 20
    program = plan(ftrace.make_jaxpr(f)(x), Machine(64))
    assert len(program.products) == 2
    assert not program.callbacks
    assert {type(s) for s in every(program.steps)} >= {Multiply, Repeat, Copy}
    np.testing.assert_allclose(simulate(program, [x])[0], f(x), rtol=1e-12)
    found = ftrace.jit(f).lower(x).cost()
    assert (found.products, found.callbacks, found.library_rows) == (2, 0, 2)

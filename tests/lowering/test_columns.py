"""Sums over rows that are done by the kernel that goes along the rows."""

import numpy as np
import pytest

import ftrace
from ftrace import numpy as fnp
from ftrace.lowering.kernel.ir import Store
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.lowering.program.cost import cost
from tests.lowering.simulate import simulate

RNG = np.random.default_rng(0)
MACHINES = {"wide": Machine(64), "narrow": Machine(16, wide=False, bounds=False)}


def layernorm(x, w, b):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * w + b


def pulled(x, w, b, ct):
    return ftrace.vjp(layernorm, x, w, b)[1](ct)


def sums_first(x, w, b, ct):
    """The sums come before the rows, and read what the rows read."""
    return (x * ct).sum(0), (ct * w / ct.sum(1, keepdims=True) + b)


def of_rows(x, w, b, ct):
    """A sum reads what is known of each row, and the number of the row."""
    e = 1.0 + (x - x.max(1, keepdims=True)) ** 2
    number = fnp.arange(x.shape[0])[:, None] * 1.0
    return (e / e.sum(1, keepdims=True)).sum(0) + w, (x * number * ct).sum(0), e.sum(1)


def transposed(x, w, b, ct):
    y = np.tanh(x.T.copy().T)
    return (y * ct).sum(0), y / y.sum(1, keepdims=True)


def used_at_once(x, w, b, ct):
    """The rows wait for the sums: two kernels, in this order."""
    total = (x * ct).sum(0)
    return (x * total).sum(1), total


def followed(x, w, b, ct):
    """What comes next reads the sums."""
    total, rows = (x * ct).sum(0), (x * ct).sum(1, keepdims=True)
    return np.sqrt(total) * w, x / rows


MATRICES = [(48, 20), (96, 130)]


def late(x, w, b, ct):
    """The sums read what is there only when the rows are done."""
    return x / x.sum(1, keepdims=True), (x * np.sort(ct, 0)).sum(0)


PROGRAMS = [late, pulled, sums_first, of_rows, transposed, used_at_once, followed]


def arguments(shape, dtype="f4"):
    shapes = (shape, shape[-1:], shape[-1:], shape)
    return [RNG.uniform(0.5, 2.0, s).astype(dtype) for s in shapes]


def combined(program):
    """The buffers onto which kernels add."""
    stmts = [s for k in program.launches for s in inside(k.kernel.body)]
    return {s.buffer for s in stmts if isinstance(s, Store) and s.combine}


def assert_close(found, expected):
    for a, e in zip(ftrace.tree.leaves(found), ftrace.tree.leaves(expected), strict=True):
        scale = np.abs(e).max()
        np.testing.assert_allclose(a, e, rtol=0, atol=(1e-5 if a.itemsize == 4 else 1e-13) * scale)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("shape", [(48, 20), (48, 1), (9, 33), (31, 12), (8, 5), (1, 7)])
def test_programs_with_sums_over_rows(f, shape, machine):
    args = arguments(shape, "f8")
    expected = f(*args)
    program = plan(ftrace.make_jaxpr(f)(*args), MACHINES[machine])
    assert_close(simulate(program, args), expected)
    assert_close(simulate(program, args, reverse=True), expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("f", "shape"),
    [*((f, s) for f in PROGRAMS for s in MATRICES), (pulled, (12, 16, 9)), (pulled, (4, 3, 8, 5))],
)
def test_compiled_programs_with_sums_over_rows(f, shape, dtype):
    args = arguments(shape, dtype)
    assert_close(ftrace.jit(f)(*args), f(*[a.astype("f8") for a in args]))


@pytest.mark.parametrize(
    ("f", "shape", "sums"),
    [
        (pulled, (48, 30), 2),
        (pulled, (12, 16, 30), 2),
        (sums_first, (48, 30), 1),
        (of_rows, (48, 30), 2),
        (followed, (48, 30), 1),
        (pulled, (31, 30), 0),  # cannot be cut
        (pulled, (9, 200, 30), 0),  # a block would be long
        (used_at_once, (48, 30), 0),
        (pulled, (48, 24), 0),  # lanes lie across so short rows
    ],
)
def test_what_is_added_up_on_the_way(f, shape, sums):
    args = arguments(shape)
    program = plan(ftrace.make_jaxpr(f)(*args), MACHINES["wide"])
    assert len(combined(program)) == sums


def test_rows_are_read_once():
    args = arguments((1024, 64))
    program = plan(ftrace.make_jaxpr(pulled)(*args), MACHINES["wide"])
    units = cost(program).bytes / (4 * 1024 * 64)
    assert len(program.launches) == 2
    assert 3.0 < units < 3.2  # x, the cotangent, the gradient; two sums of every 32 rows, twice


def test_sums_of_wide_rows_have_their_own_kernel():
    args = arguments((8, 20_000), "f8")
    assert not combined(plan(ftrace.make_jaxpr(pulled)(*args), MACHINES["wide"]))


@pytest.mark.parametrize("shape", [(40, 33, 8), (40, 33, 3), (64, 5, 30), (24, 2, 3, 40)])
def test_sums_over_rows_of_several_axes_beside_sums_of_the_rows(shape):
    """Loops that zero a block's sums were joined; those that add had other coordinates then."""

    def f(x):
        y = x + x
        return y.mean(axis=tuple(range(1, x.ndim))), y.sum(axis=0), y.max(axis=-1)

    x = np.random.default_rng(3).normal(size=shape)
    assert_close(ftrace.jit(f)(x), f(x))
    g = ftrace.grad(lambda x: sum((np.exp(y) ** 2).sum() for y in f(0.01 * x)))
    assert_close(ftrace.jit(g)(x), g(x))

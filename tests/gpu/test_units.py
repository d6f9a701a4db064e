"""How much memory traffic programs are on a GPU, in units of one float32 matrix of n x n.

Time on a GPU is bytes over bandwidth for all of these, so that the table is what can be said of
their speed without one. Nothing is allocated where programs are planned for shapes alone; what
passes between programs is counted in emulation.
"""

import numpy as np
import pytest

from ftrace import grad, jit, vectorize, vjp
from ftrace.gpu.gpu_backend import GpuBackend
from ftrace.lowering.program.cost import cost
from ftrace.lowering.program.program import Program
from tests.gpu import plans
from tests.gpu.plans import array, cell_arguments, planned, traffic
from tests.lowering import programs

N = 4096
M, ROW, COLUMN = array(N, N), array(N), array(N, 1)


def units(*found: Program, n: int = N) -> float:
    """What programs read and write."""
    return sum(map(traffic, found)) / (4 * n * n)


def run_units(*found: Program, n: int = N) -> tuple[int, float]:
    """Kernels and units."""
    return sum(cost(p).kernels for p in found), units(*found, n=n)


def pulled(f):
    """The cotangents of all arguments."""
    return lambda *args: vjp(f, *args[:-1])[1](args[-1])


# kernels, units; small operands (rows, columns, results of sums) come on top and are below 2 %
TABLE = {
    "HM-LSTM value": (plans.cell, cell_arguments(N, (1, N)), 1, 5),
    "HM-LSTM gradient of sum": (plans.cell_gradient, cell_arguments(N, (1, N)), 1, 8),
    "HM-LSTM gradient, control by rows": (plans.cell_gradient, cell_arguments(N, (N, 1)), 1, 8),
    "HM-LSTM value and partials": (plans.cell_and_partials, cell_arguments(N, (1, N)), 1, 9),
    "HM-LSTM value and pullback": (
        plans.cell_and_pullback,
        [*cell_arguments(N, (1, N)), M],
        1,
        10,
    ),
    "HM-LSTM pullback alone": (
        lambda *a: plans.cell_and_pullback(*a)[1:],
        [*cell_arguments(N, (1, N)), M],
        1,
        9,
    ),
    "softmax": (programs.softmax, [M], 1, 2),
    "pullback of softmax": (pulled(programs.softmax), [M, M], 1, 3),
    "logsumexp": (programs.logsumexp, [M], 1, 1),
    "pullback of logsumexp": (pulled(programs.logsumexp), [M, ROW], 1, 2),
    "layernorm": (programs.layernorm, [M, ROW, ROW], 1, 2),
    "gradient of layernorm": (grad(lambda x: programs.layernorm(x, 1.0, 0.0).sum()), [M], 1, 2),
    "sum of all": (lambda x: x.sum(), [M], 1, 1),
    "sums of rows": (lambda x: x.sum(1), [M], 1, 1),
    "sums of columns": (lambda x: x.sum(0), [M], 1, 1),
    "gradient of a mean square": (grad(lambda x: (x * x).mean()), [M], 1, 2),
    "argmax": (lambda x: x.argmax(1), [M], 1, 1),
    "affine": (lambda x, a, b: x * a + b, [M, ROW, COLUMN], 1, 2),
    "pullback of a bias": (pulled(lambda x, b: np.tanh(x + b)), [M, ROW, M], 1, 3),
    "two sums of one array": (lambda x: (x.sum(0), (x * x).sum(0)), [M], 1, 1),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_units(name):
    f, args, kernels, expected = TABLE[name]
    program = planned(f, *args)
    assert cost(program).library_rows == 0
    found = run_units(program)
    assert found[0] == kernels
    assert expected <= found[1] < 1.02 * expected


@pytest.mark.parametrize("n", range(1, 25))
def test_a_product_is_one_kernel_that_reads_and_writes_everything_once(n):
    program = planned(plans.product_and_partials, *[M] * n)
    assert run_units(program) == (1, 2 * n + 1)


def test_row_and_column_sums_come_with_the_pass_over_the_rows():
    """dx, and the sums for gain and bias by blocks of rows, are read from x and ct once."""
    program = planned(pulled(programs.layernorm), M, ROW, ROW, M)
    assert cost(program).kernels == 2
    assert 3 <= units(program) < 3.51  # eight rows a block, so that a device is full


# --- a control that is differentiated


@pytest.mark.parametrize("control", [(1, N), (N, 1)])
def test_the_cotangent_of_the_control_is_summed_where_it_is_computed(control):
    """z has n elements and a cotangent that is a sum of n^2: no array of that size is stored."""
    soft = vectorize(plans.soft)
    program = planned(pulled(soft), *cell_arguments(N, control), M)
    kernels, found = run_units(program)
    assert 9 <= found < 9.3  # 5 read, 4 written: nothing beyond what the four others need
    assert kernels <= 2
    assert program.arena + sum(k.scratch for k in plans.kernels(program)) < 0.3 * 4 * N * N


# --- what passes between programs


@pytest.fixture
def made(host_device, monkeypatch):
    """The programs that are compiled for a device; nothing else may run there.

    But for copies: an argument that the pullback will read is the user's, who may write to it.
    """
    found: list[Program] = []
    compiled, by_library = GpuBackend.compile, host_device.library

    def noted(self, program):
        found.append(program)
        return compiled(self, program)

    def library(row, *given):
        if row.name == "copy":
            return by_library(row, *given)
        raise AssertionError(f"{row.name} runs beside the programs that are counted")

    monkeypatch.setattr(GpuBackend, "compile", noted)
    monkeypatch.setattr(host_device, "library", library)
    return found


@pytest.mark.parametrize(("policy", "forward", "backward"), [("recompute", 5, 9), ("cache", 9, 9)])
def test_value_and_pullback_as_two_programs_compiled(policy, forward, backward, made, host_device):
    n = 64
    rng = np.random.default_rng(0)
    cell = vectorize(plans.update, residuals=policy)
    c, f, i, g, ct = rng.standard_normal((5, n, n), dtype=np.float32)
    z, zb = (rng.integers(0, 2, (2, 1, n))).astype(np.float32)
    on = [host_device.from_host(x) for x in (c, f, i, g, z, zb, ct)]
    value, pull = vjp(lambda *x: cell(*x, *on[4:6]), *on[:4])
    split = len(made)
    found = pull(on[6])
    counted = [run_units(*made[:split], n=n), run_units(*made[split:], n=n)]
    assert [kernels for kernels, _ in counted] == [1, 1]
    assert [int(u) for _, u in counted] == [forward, backward]
    assert all(u - int(u) < 0.1 for _, u in counted)  # the rows of the control
    expected, pull = vjp(lambda *x: vectorize(plans.update)(*x, z, zb), c, f, i, g)
    for a, b in zip((value, *found), (expected, *pull(ct)), strict=True):
        np.testing.assert_allclose(host_device.to_host(a), b, rtol=2e-6, atol=1e-6)


def gated(c, f, i, g):
    return 1.0 / (1.0 + np.exp(-f)) * c + 1.0 / (1.0 + np.exp(-i)) * np.tanh(g)


def test_a_compiled_function_keeps_its_operands_for_its_pullback_compiled(made, host_device):
    """`vjp(jit(f))` computes again what is cheaper than memory: 5 units and 9."""
    n = 64
    host = [*np.random.default_rng(1).standard_normal((5, n, n), dtype=np.float32)]
    on = [host_device.from_host(x) for x in host]
    value, pull = vjp(jit(gated), *on[:4])
    split = len(made)
    found = pull(on[4])
    assert run_units(*made[:split], n=n) == (1, 5)
    assert run_units(*made[split:], n=n) == (1, 9)
    expected, pull = vjp(jit(gated), *host[:4])
    for a, b in zip((value, *found), (expected, *pull(host[4])), strict=True):
        np.testing.assert_allclose(host_device.to_host(a), b, rtol=1e-5, atol=1e-6)


def test_what_stages_leave_to_each_other_is_counted():
    program = planned(lambda x: x.sum(), M)
    (kernel,) = plans.kernels(program)
    assert len(kernel.stages) == 2
    assert kernel.scratch > 0
    assert traffic(program) == cost(program).bytes + 2 * kernel.scratch

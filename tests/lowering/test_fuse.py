"""Which equations become which kernels: counted on plans, nothing is run.

Bytes are those that cross the borders of kernels: what a program must read and write, and no more
where the table says so.
"""

import numpy as np
import pytest

import ftrace
from ftrace.lowering.fusion.groups import OPERANDS
from ftrace.lowering.kernel.show import text
from tests.cpu.programs import row
from tests.lowering import programs
from tests.lowering.programs import counted, planned

ROWS, COLUMNS, N = 64, 32, 1000
X, G, V = np.ones((ROWS, COLUMNS)), np.ones(COLUMNS), np.ones(N)
A, R, C, L = X.nbytes, 8 * ROWS, 8 * COLUMNS, V.nbytes  # of an array, a column, a row, a vector

# program, arguments, kernels, library rows, bytes
COUNTS = {
    "30 operations": (programs.chain, (V,), 1, 0, 2 * L),
    "softmax": (programs.softmax, (X,), 1, 0, 2 * A),
    "logsumexp": (programs.logsumexp, (X,), 2, 0, A + 5 * R),
    "logsumexp of long rows": (programs.logsumexp, (np.ones((64, 300)),), 1, 0, None),
    "layernorm": (programs.layernorm, (X, G, G), 1, 0, 2 * A + 2 * C),
    "its gradient in x": (ftrace.grad(programs.layernorm_loss), (X, G, G), 1, 0, 2 * A + 2 * C),
    "rosenbrock": (programs.rosenbrock, (V,), 1, 0, 2 * (L - 8) + 8),
    "its gradient": (ftrace.grad(programs.rosenbrock), (V,), 1, 0, None),
    "ackley": (programs.ackley, (V,), 1, 0, L + 8),
    "cell": (programs.cell, (X,) * 6, 1, 0, 7 * A),
    "cell and partials": (programs.cell_and_partials, (X,) * 7, 1, 0, 14 * A),
    "a numerator and its sum": (
        lambda x: (lambda e: (e, np.sum(e, 1)))(np.exp(x - np.max(x, 1, keepdims=True))),
        (X,),
        1,
        0,
        2 * A + R,
    ),
    "siblings": (lambda x: (np.sin(x), np.cos(x), x * 2), (V,), 1, 0, 4 * L),
    "sibling sums": (lambda x: (np.sum(x), np.max(x), np.sum(x * x)), (V,), 1, 0, L + 24),
    "sum with its operand": (lambda x: (np.sin(x), np.sum(np.sin(x))), (V,), 1, 0, 2 * L + 8),
    "row sums with their operand": (lambda x: (x * 2, np.sum(x * 2, 1)), (X,), 1, 0, 2 * A + R),
    "column sums": (lambda x: np.sum(np.sin(x), axis=0), (X,), 1, 0, A + C),
    "argmax": (lambda x: np.argmax(x * 2, axis=1), (X,), 1, 0, A + R),
    "transpose": (lambda x: np.sin(x.T) * 2, (X,), 1, 0, 2 * A),
    "there and back": (lambda x: np.sin(np.cos(np.sin(x).T).T), (X,), 1, 0, 2 * A),
    "slice": (lambda x: np.sin(x[1:-1]) * 2, (V,), 1, 0, 2 * (L - 16)),
    "every third": (lambda x: x[::3] * 2, (V,), 1, 0, 2 * 8 * 334),
    "reverse": (lambda x: np.sin(x[::-1]) * 2, (V,), 1, 0, 2 * L),
    "broadcast": (lambda x, g: x + np.broadcast_to(g, (ROWS, COLUMNS)), (X, G), 1, 0, 2 * A + C),
    "outer product": (lambda x, g: x[:, None] * g, (V, G), 1, 0, L + C + 8 * N * COLUMNS),
    "a row of a matrix": (lambda x: x[3] * 2, (X,), 1, 0, 2 * C),
    "joined": (lambda x: np.concatenate([x, x * 2]), (V,), 1, 0, None),
    "a matrix product": (lambda x: np.sin(x) @ np.cos(x).T + 1, (X,), 3, 1, None),
    "a running sum": (lambda x: np.cumsum(x * 2, axis=1) + 1, (X,), 1, 0, 2 * X.nbytes),
    "a sorted matrix": (lambda x: np.sort(x * 2, axis=1) + 1, (X,), 2, 1, None),
    "the same product twice": (lambda x: (x @ x.T, np.tanh(x @ x.T)), (X,), 2, 2, None),
    "nothing": (lambda x: x, (X,), 0, 0, 0),
    "a literal": (lambda: 3.0, (), 0, 0, 0),
    "dead code": (lambda x: (np.sin(x), x * 2)[1], (V,), 1, 0, 2 * L),
}


@pytest.mark.parametrize("name", COUNTS)
def test_kernels_library_rows_and_bytes(name):
    f, args, kernels, callbacks, size = COUNTS[name]
    found = counted(f, *args)
    assert (found.kernels, found.library_rows) == (kernels, callbacks)
    assert size is None or found.bytes == size


def test_gradients_of_everything_take_few_kernels():
    found = counted(ftrace.grad(programs.layernorm_loss, argnums=(0, 1, 2)), X, G, G)
    assert found.kernels <= 2
    assert counted(ftrace.grad(programs.ackley), V).kernels <= 2
    assert counted(ftrace.value_and_grad(programs.rosenbrock), V).kernels <= 2


def test_a_kernel_touches_a_bounded_number_of_arrays():
    program = planned(lambda *xs: [np.sin(x) for x in xs], *(V,) * 100)
    assert 2 <= len(program.launches) <= 4
    assert max(len(launch.kernel.buffers) for launch in program.launches) <= 2 * OPERANDS


def test_what_is_costly_is_stored_before_it_is_read_in_several_places():
    assert counted(programs.shifted(8, np.sin), V).kernels == 8
    assert counted(programs.shifted(3, lambda y: y * 0.5), V).kernels == 1


def test_what_a_branch_needs_is_computed_in_it():
    program = planned(programs.chosen, V)
    assert len(program.launches) == 3
    assert program.arena <= 128  # the sum and the condition: an arm writes the result itself


# ---------------------------------------------------------------------------------- barriers


def test_a_library_row_ends_and_begins_kernels():
    program = planned(lambda x: np.sort(np.sin(x) + 1, axis=0) * 2, V)
    kinds = [type(s).__name__ for s in program.steps]
    assert kinds == ["Launch", "Callback", "Launch"]


def test_rows_with_effects_stay_and_keep_their_order():
    first, second = row(np.negative, effects=lambda: frozenset({"note"})), row(np.abs)

    def f(x):
        first(x + 1)
        return second(first(x * 2))

    rows = [call.eqn.primitive for call in planned(f, V).callbacks]
    assert rows == [first, first, second]


# ---------------------------------------------------------------------------------- growth

GROWING = {
    "stencils": (lambda n: programs.shifted(n, np.sin), V),
    "linear stencils": (lambda n: programs.shifted(n, lambda y: y * 0.5), V),
    "plane stencils": (programs.plane, X),
    "updates": (programs.updated, V),
    "rows": (programs.filled, np.ones(5)),
    "pads": (programs.padded, V),
    "reductions in a row": (programs.normalised, V),
}


def _size(f, x):
    with ftrace.config.update(roll=0):
        return sum(len(text(launch.kernel)) for launch in planned(f, x).launches)


@pytest.mark.parametrize("name", GROWING)
def test_code_grows_with_the_program_and_no_faster(name):
    make, x = GROWING[name]
    sizes = [_size(make(n), x) for n in (20, 40)]
    assert sizes[1] < 3 * sizes[0]


def test_work_grows_with_the_program_and_no_faster():
    for make, x in GROWING.values():
        with ftrace.config.update(roll=0):
            work = [counted(make(n), x).operations for n in (16, 24)]
        assert work[1] < 3 * work[0]

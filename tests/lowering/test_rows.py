"""Every row of the table as a program: planned, checked and simulated.

The reference runs independent loops forwards and backwards; a kernel whose iterations depend on
each other gives itself away. Compiled code is compared in tests/laws/test_jit.py.
"""

import numpy as np
import pytest

import ftrace
from ftrace.core.lower import Cumulative, Moving, Pointwise, Reduction
from ftrace.core.primitive import Primitive
from ftrace.core.scalar import OPS
from ftrace.lowering.kernel.verify import verify, verify_schedule
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from ftrace.primitives.table import ALL
from tests.laws.cases import CASES, Case, assert_all_close, assert_type, over_cases
from tests.lowering.simulate import simulate

LOWERED = (Pointwise, Moving, Reduction, Cumulative)


@over_cases()
def test_the_program_of_a_row_gives_its_value(case: Case) -> None:
    program = plan(ftrace.make_jaxpr(case.flat)(*case.args), Machine(64))
    for launch in program.launches:
        verify(launch.kernel)
        verify_schedule(launch.kernel, launch.schedule)
    with np.errstate(all="ignore"):
        expected = case.flat(*case.args)
    forwards = simulate(program, case.args)
    for y, a in zip(forwards, case.types(*case.avals), strict=True):
        assert_type(y, a)
    assert_all_close(forwards, expected)
    for y, z in zip(forwards, simulate(program, case.args, reverse=True), strict=True):
        np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize("row", [r for r in ALL if r.name in OPS], ids=lambda r: r.name)
def test_a_row_that_is_an_operation_of_kernels_is_lowered(row: Primitive) -> None:
    assert isinstance(row.lower, LOWERED)


def _is_whole(case: Case) -> bool:
    """Whether the program of a row calls no Python."""
    return not plan(ftrace.make_jaxpr(case.flat)(*case.args), Machine(64)).callbacks


def test_only_a_few_rows_with_a_rule_are_left_to_python() -> None:
    real = [c for c in CASES if all(a.dtype.kind in "fiu" for a in c.avals)]
    refused = {c.row.name for c in real if isinstance(c.row.lower, LOWERED) and not _is_whole(c)}
    # powers of integers may raise; they are their own conjugates; reshapes and bits of another
    # size move nothing
    assert refused <= {"pow", "conj", "reshape", "bitcast_convert_type"}


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5])


@pytest.mark.parametrize("name", ["isfinite", "isinf", "isnan", "sign"])
def test_rows_that_tell_special_values_apart_do_so_in_kernels(name: str) -> None:
    row = next(r for r in ALL if r.name == name)
    for x in (SPECIAL, SPECIAL.astype(np.float32)):
        (found,) = simulate(plan(ftrace.make_jaxpr(row)(x), Machine(64)), (x,))
        np.testing.assert_array_equal(found, row(x), strict=True)


@pytest.mark.parametrize("name", ["logaddexp", "xlogy"])
def test_rows_of_two_operands_meet_special_values_in_kernels(name: str) -> None:
    row = next(r for r in ALL if r.name == name)
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = row(x, y)
        (found,) = simulate(plan(ftrace.make_jaxpr(row)(x, y), Machine(64)), (x, y))
    np.testing.assert_allclose(found, expected, rtol=1e-15)

"""Laws that a planted bug taught: each fails for a change that no other law noticed."""

from ftrace.core import dtypes
from ftrace.core.primitive import NONDIFFERENTIABLE
from tests.laws.cases import CASES, Case, over_cases

# Rows from floats to floats whose result is constant between jumps.
CONSTANT = {"floor", "ceil", "round", "trunc", "floor_divide", "spacing"}
BY_DEFINITION = {"stop_gradient", "bitcast_convert_type"}


def has_inexact_result(case: Case) -> bool:
    return any(dtypes.is_inexact(a.dtype) for a in case.types(*case.avals))


@over_cases([c for c in CASES if c.differentiable and has_inexact_result(c)])
def test_exactly_the_rows_that_are_constant_between_jumps_have_no_derivative(case: Case) -> None:
    assert (case.row.jvp is NONDIFFERENTIABLE) == (case.row.name in CONSTANT | BY_DEFINITION)

"""Laws that a planted bug taught: each fails for a change that no other law noticed."""

import numpy as np
import pytest

from ftrace.core import dtypes
from ftrace.core.avals import aval, typeof
from ftrace.core.dtypes import bool_, float64
from ftrace.core.errors import ShapeError
from ftrace.core.primitive import NONDIFFERENTIABLE, Primitive
from ftrace.core.zero import Masked
from ftrace.interpreters.jvp import jvp_flat
from ftrace.primitives.compare import clamp, select
from ftrace.primitives.reduce import reduce_max, reduce_min
from tests.laws.cases import CASES, Case, over_cases, over_operands
from tests.laws.test_transpose import TRANSPOSABLE, choices, masked_cotangents, pull

# Rows from floats to floats whose result is constant between jumps.
CONSTANT = {"floor", "ceil", "round", "trunc", "floor_divide", "spacing"}
BY_DEFINITION = {"stop_gradient", "bitcast_convert_type"}


def has_inexact_result(case: Case) -> bool:
    return any(dtypes.is_inexact(a.dtype) for a in case.types(*case.avals))


@over_cases([c for c in CASES if c.differentiable and has_inexact_result(c)])
def test_exactly_the_rows_that_are_constant_between_jumps_have_no_derivative(case: Case) -> None:
    assert (case.row.jvp is NONDIFFERENTIABLE) == (case.row.name in CONSTANT | BY_DEFINITION)


@over_operands([c for c in TRANSPOSABLE if c.row.mask == "sum"], choices)
def test_a_sum_is_taken_exactly_where_one_of_its_terms_is(
    case: Case, operands: tuple[int, ...]
) -> None:
    (masked,), (plain,) = masked_cotangents(case, operands, 0.5)
    taken = np.asarray(masked.mask).astype(np.asarray(plain).dtype)[()]
    counts = pull(case, operands, [taken])
    for i, ct, n in zip(operands, pull(case, operands, [masked]), counts, strict=True):
        assert type(ct) is Masked
        assert typeof(ct.mask) == aval(case.avals[i].shape, bool_)
        np.testing.assert_array_equal(ct.mask, n != 0)


def test_the_tangent_of_a_chosen_scalar_has_the_shape_of_the_result() -> None:
    y = np.array([1.0, 2.0, 3.0])
    for which, t in ((np.bool_(True), 5.0), (np.bool_(False), 0.0)):
        (z,), (found,) = jvp_flat(lambda x, w=which: [select(w, x, y)], [2.0], [5.0])
        assert np.shape(z) == np.shape(found) == (3,)
        np.testing.assert_array_equal(found, np.full(3, t))


@pytest.mark.parametrize("weak", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8"])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_clamp_of_python_numbers_has_the_type_that_its_rule_says(
    weak: tuple[int, ...], dtype: str, shape: tuple[int, ...]
) -> None:
    strong = [np.full(shape, v, dtype)[()] for v in (1, 5, 3)]
    python = [np.dtype(dtype).type(v).item() for v in (1, 5, 3)]
    args = [python[i] if i in weak else strong[i] for i in range(3)]
    found, expected = clamp(*args), clamp.type(*map(typeof, args))
    assert (np.shape(found), found.dtype) == (expected.shape, expected.dtype)
    assert np.all(found == 3)


@pytest.mark.parametrize("row", [reduce_max, reduce_min], ids=repr)
def test_a_choice_among_no_elements_is_refused_before_anything_is_computed(row: Primitive) -> None:
    with pytest.raises(ShapeError, match="no elements to choose from"):
        row.type(aval((3, 0), float64), axes=(1,))
    assert row.type(aval((3, 0), float64), axes=(0,)) == aval((0,), float64)

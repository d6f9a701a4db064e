"""Laws of evaluation: types, NumPy's values, errors, documentation, and the samples themselves."""

import importlib
import pkgutil
import re
from typing import Any

import numpy as np
import pytest

from ftrace import primitives
from ftrace.core import dtypes
from ftrace.core.avals import ShapedArray, aval, typeof
from ftrace.core.errors import FtraceError
from ftrace.core.primitive import LINEAR, NONDIFFERENTIABLE, Primitive, Unsupported
from ftrace.primitives.linear import PYTHON_SCALARS
from ftrace.primitives.table import ALL, LATE, by_name
from tests.laws.cases import (
    CASES,
    ROWS,
    Case,
    assert_close,
    over_cases,
    parametrised,
    samples_of,
)
from tests.laws.references import REFERENCES

over_rows = parametrised("row", ROWS, lambda row: row.name)


# ---------------------------------------------------------------------------------- types


@over_cases()
def test_the_type_rule_predicts_what_evaluation_gives(case: Case) -> None:
    results = case.flat(*case.args)
    assert case.types(*case.avals) == [typeof(y) for y in results]
    for y in results:
        assert not any(y is a for a in case.args if isinstance(a, np.ndarray))
        assert np.ndim(y) or not isinstance(y, np.ndarray), "a rank-0 result is a scalar"


def _castings(case: Case) -> list[np.dtype[Any]]:
    if case.row.partial is not None:
        return []  # the jaxprs that it holds say for which types it is
    kinds = {a.dtype.kind for a in case.avals if not a.weak}
    return [d for d in dtypes.SUPPORTED if d.kind in kinds - {"b"}]


CASTINGS = [
    (case, dtype)
    for case in (Case(row, sample) for row in ROWS for sample in samples_of(row)[:1])
    for dtype in _castings(case)
]


@parametrised("case_and_dtype", CASTINGS, lambda p: f"{p[0].name}-as-{p[1]}")
def test_the_type_rule_holds_for_every_width(case_and_dtype: tuple[Case, Any]) -> None:
    case, dtype = case_and_dtype

    def cast(x: Any) -> Any:
        if type(x) in PYTHON_SCALARS or np.asarray(x).dtype.kind != dtype.kind:
            return x
        return np.asarray(x).astype(dtype)[()]

    args = [cast(x) for x in case.args]
    try:
        expected = case.types(*map(typeof, args))
    except FtraceError:  # the row refuses this dtype, and says so
        return
    with np.errstate(all="ignore"):
        results = case.flat(*args)
    assert expected == [typeof(y) for y in results]


# ---------------------------------------------------------------------------------- values


@over_cases([c for c in CASES if c.row.name in REFERENCES])
def test_values_agree_with_numpy(case: Case) -> None:
    expected = REFERENCES[case.row.name](*case.args, **case.sample.params)
    actual = case.row(*case.args, **case.sample.params)
    if not case.row.multiple:
        actual, expected = [actual], [expected]
    for a, e in zip(actual, expected, strict=True):
        assert_close(a, e)


@over_cases()
def test_operands_are_not_written(case: Case) -> None:
    before = [np.array(a, copy=True) for a in case.args]
    case.flat(*case.args)
    for a, b in zip(case.args, before, strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------------------------- errors


ERRORS = [(row, error) for row in ROWS for error in row.errors()]


@parametrised("row_and_error", ERRORS, lambda p: f"{p[0].name}-{p[1].phrase}")
def test_bad_operands_raise_the_stated_error(row_and_error: tuple[Primitive, Any]) -> None:
    row, bad = row_and_error

    def attempt() -> None:
        row.type(*(typeof(a) for a in bad.args), **bad.params)
        row(*bad.args, **bad.params)  # an error of values, not of types

    with pytest.raises(bad.error, match=re.escape(bad.phrase)) as caught:
        attempt()
    assert row.name in str(caught.value).partition("\n")[0]


# ---------------------------------------------------------------------------------- columns


def test_names_are_unique() -> None:
    assert len(by_name) == len(ALL)
    assert not {row.name for row in LATE} & by_name.keys()


FILES = sorted(m.name for m in pkgutil.iter_modules(primitives.__path__))


@parametrised("name", FILES, str)
def test_the_table_has_the_rows_of_every_file(name: str) -> None:
    module = importlib.import_module(f"ftrace.primitives.{name}")
    rows = {value for value in vars(module).values() if isinstance(value, Primitive)}
    assert rows <= {*ALL, *LATE}


@over_rows
def test_the_row_is_documented(row: Primitive) -> None:
    assert row.doc
    assert row.doc.endswith(".")
    assert row.doc == row.doc.strip()


@over_rows
def test_the_columns_are_consistent(row: Primitive) -> None:
    assert callable(row.jvp) or row.jvp in (LINEAR, NONDIFFERENTIABLE)
    assert callable(row.mask) or row.mask in ("", "same", "move", "sum", "call")
    if row.partial is None:  # else the jaxprs that it holds say in what it is linear
        assert bool(row.linear_in) != isinstance(row.transpose, Unsupported)
        assert row.linear_in or row.jvp != LINEAR
        assert row.linear_in or not row.mask


# ---------------------------------------------------------------------------------- samples

# What the samples of a row must contain, and the rows to which it does not apply.
TRAITS = {
    "rank 0": lambda a, x: a.shape == (),
    "rank 1": lambda a, x: a.ndim == 1,
    "rank 2": lambda a, x: a.ndim == 2,
    "an empty axis": lambda a, x: 0 in a.shape,
    "a view that is not contiguous": lambda a, x: (
        isinstance(x, np.ndarray) and x.size > 1 and not x.flags.c_contiguous
    ),
    "single precision": lambda a, x: a.dtype in (dtypes.float32, np.dtype(np.complex64)),
}
# fmt: off
NEEDS_AN_AXIS = {
    "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "concatenate",
    "split", "sort", "lu_pivots_to_permutation", "fft", "alike_ties",
}
# fmt: on
NEEDS_THREE_AXES = {"conv"}
NEEDS_MATRICES = {
    *(
        "solve",
        "solve_again",
        "inv",
        "det",
        "slogdet",
        "cofactor",
        "cofactor_slope",
        "cholesky",
        "lu",
        "expm",
        "expm_frechet",
    ),
    *("triangular_solve", "triangular_product", "triangular_inv", "sylvester", "banded_solve"),
    *("definite_banded_solve", "eigh", "eigvalsh", "svd", "svdvals", "split_ties", "join_ties"),
    *("outside_over", "free_basis", "regular_for", "qr", "eig", "eigvals"),
    *("moved_beside", "pinv", "least_squares", "sqrtm", "logm", "logm_slope", "factored"),
}
NOT_APPLICABLE: dict[str, set[str]] = {
    "rank 0": NEEDS_AN_AXIS | NEEDS_THREE_AXES | NEEDS_MATRICES,
    "rank 1": NEEDS_THREE_AXES | NEEDS_MATRICES,
    "rank 2": NEEDS_THREE_AXES,
}


def _is_defined_for_floats(row: Primitive) -> bool:
    return any(a.dtype.kind in "fc" for s in row.samples() for a in map(typeof, s.args))


def _needed(row: Primitive) -> list[str]:
    if not any(s.args for s in row.samples()):
        return []
    found = [t for t in TRAITS if row.name not in NOT_APPLICABLE.get(t, ())]
    return [t for t in found if t != "single precision" or _is_defined_for_floats(row)]


def _contains(row: Primitive, trait: str) -> bool:
    return any(TRAITS[trait](typeof(x), x) for s in row.samples() for x in s.args)


@over_rows
def test_the_samples_contain_what_is_hard(row: Primitive) -> None:
    missing = [trait for trait in _needed(row) if not _contains(row, trait)]
    assert missing == []


def _kinds(row: Primitive) -> set[str]:
    """The dtype kinds of first operands that the type rule accepts on the row's samples."""
    accepted = set()
    for kind, name in {"b": "?", "i": "i8", "f": "f8", "c": "c16"}.items():
        for sample in row.samples():
            try:
                row.type(*_as_kind(sample.args, np.dtype(name)), **sample.params)
            except (FtraceError, IndexError):
                continue
            accepted.add(kind)
            break
    return accepted


def _as_kind(args: tuple[Any, ...], dtype: np.dtype[Any]) -> list[ShapedArray]:
    """Avals of operands with the first one's dtype replaced, wherever it occurs."""
    first = typeof(args[0]).dtype
    return [aval(a.shape, dtype) if a.dtype == first else a for a in map(typeof, args)]


@over_rows
def test_the_row_has_at_least_five_samples(row: Primitive) -> None:
    assert len(list(row.samples())) >= 5


@over_rows
def test_the_samples_contain_every_kind_of_dtype_that_is_accepted(row: Primitive) -> None:
    samples = [s for s in row.samples() if s.args]
    present = {typeof(a).dtype.kind for s in samples for a in s.args}
    assert not samples or _kinds(row) <= present

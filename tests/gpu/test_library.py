"""Every row on CuPy arrays: which functions of CuPy it calls, and what comes out."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.special

from ftrace.core.avals import TYPEOF, strengthen, typeof
from ftrace.core.errors import BackendError, DtypeError, RuleError
from ftrace.gpu.eager import cupy_library, library_products
from ftrace.gpu.eager import library_arrays as arrays
from ftrace.primitives.factored import lu_factors, solve_factored
from ftrace.primitives.index_bounds import scatter_at
from ftrace.primitives.table import LATE, by_name
from tests.gpu.hosted import cupy
from tests.gpu.lacking import lacking
from tests.gpu.spies import (
    Cublas,
    LinearAlgebra,
    Namespace,
    Spy,
    accumulated,
    added,
    check_loop,
    compiled,
    own,
    plain,
    special,
)
from tests.laws.cases import CASES, ROWS, Case, assert_close

# Rows that raise where values decide: they look at a flag, which waits for the device.
DECIDE = {"moved_beside", "split_ties", "join_ties", "outside_over", "regular_for"}
READS = ("gather", "scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max")


@pytest.fixture(autouse=True)
def spied(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy's functions run NumPy's, on arrays that answer as CuPy's do."""
    monkeypatch.setattr(cupy_library, "namespace", lambda: Namespace(cupy, np))
    monkeypatch.setattr(cupy_library, "special", special)
    monkeypatch.setattr(cupy_library, "own", own)
    monkeypatch.setattr(cupy_library, "added", added)
    monkeypatch.setattr(cupy_library, "accumulated", accumulated)
    monkeypatch.setattr(cupy_library, "compiled", compiled)
    monkeypatch.setattr(library_products, "cublas", lambda: (Cublas(), lambda: 7))
    monkeypatch.setattr(cupy_library, "scipys_linear_algebra", LinearAlgebra)
    monkeypatch.setitem(TYPEOF, Spy, lambda x: typeof(x.memory))
    monkeypatch.setattr(Spy, "synchronised", 0)


def on_device(x: Any, least: int) -> Any:
    """An operand as a device has it, unless it is a number, or a rank-0 value to be left out."""
    if isinstance(x, np.ndarray | np.generic) and np.ndim(x) >= least:
        return Spy(np.array(x))
    return x


def given(case: Case, least: int) -> list[Any]:
    return [on_device(a, least) for a in case.args]


CASES_ON_DEVICE = [
    pytest.param(case, least, id=f"{case.name}-{least}")
    for case in CASES
    for least in (0, 1)
    if any(isinstance(x, Spy) for x in given(case, least))
    and (least == 0 or any(np.ndim(a) == 0 for a in case.args))
]


@pytest.mark.parametrize(("case", "least"), CASES_ON_DEVICE)
def test_a_row_calls_functions_that_cupy_has_and_gives_its_impls_values(
    case: Case, least: int
) -> None:
    args = given(case, least)
    before = [np.array(plain(a)) for a in args]
    if lacking(case.flat, case.args):
        cannot = rf"CuPy [\d.]+ (cannot evaluate|has no function for) {case.row.name} "
        with pytest.raises((DtypeError, RuleError), match=cannot):
            cupy_library.evaluate(case.row, args, case.sample.params)
        return
    found = cupy_library.evaluate(case.row, args, case.sample.params)
    assert all(type(y) is Spy for y in found)
    assert [typeof(y) for y in found] == [strengthen(a) for a in case.types(*map(typeof, args))]
    expected = case.row.impl(*case.args, **case.sample.params)
    for y, z in zip(found, expected if case.row.multiple else [expected], strict=True):
        assert_close(y.memory, z)
    for a, b in zip(args, before, strict=True):
        np.testing.assert_array_equal(plain(a), b)
    if case.sample.params.get("mode") != "raise" and case.row.name not in DECIDE:
        assert Spy.synchronised == 0


def test_every_row_of_the_table_is_tried_or_has_no_operands():
    tried = {p.values[0].row for p in CASES_ON_DEVICE}
    assert {row.name for row in set(ROWS) - tried} <= {"iota"}
    assert cupy_library.RULES.keys() <= by_name.keys() | {row.name for row in LATE}


@pytest.mark.parametrize("combine", ["set", "add", "mul", "min", "max"])
def test_a_scatter_at_counted_places_gives_its_impls_values(combine: str) -> None:
    rng = np.random.default_rng(3)
    x, v = rng.normal(size=(2, 3, 4)), rng.normal(size=(5, 4))
    args = (x, v, np.array([4, -7, 6, -2, 2**40]))  # two are the same, three are not there
    (found,) = cupy_library.evaluate(scatter_at, [Spy(a) for a in args], {"combine": combine})
    np.testing.assert_allclose(found.memory, scatter_at.impl(*args, combine=combine), rtol=1e-15)


@pytest.mark.filterwarnings("ignore:Diagonal number")  # SciPy's in the place of CuPy
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_systems_with_one_matrix_give_their_impls_values(dtype: str) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(3, 5, 5)).astype(dtype), rng.normal(size=(3, 5, 2)).astype(dtype)
    a[1, :, 3] = 0  # singular
    factors = cupy_library.evaluate(lu_factors, [Spy(a)], {})
    for x, y in zip(factors, lu_factors.impl(a), strict=True):
        np.testing.assert_allclose(x.memory, y, rtol=1e-12)
    for transposed in (True, False):
        how = {"transposed": transposed}
        (found,) = cupy_library.evaluate(solve_factored, [*factors, Spy(b)], how)
        expected = np.linalg.solve(np.swapaxes(a, 1, 2)[::2] if transposed else a[::2], b[::2])
        np.testing.assert_allclose(found.memory[::2], expected, rtol=1e-11)
        assert np.isnan(found.memory[1]).all()


def test_a_function_that_cupy_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cupy_library.RULES, "erf", arrays.special("jv", special))
    with pytest.raises(RuleError, match=r"CuPy [\d.]+ has no function for erf \(.*") as e:
        cupy_library.evaluate(by_name["erf"], (Spy(np.ones(3)),), {})
    assert "ftrace.device_put(f(ftrace.device_get(x)))" in str(e.value)


def test_a_result_of_another_shape_is_never_handed_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(cupy_library.RULES, "sin", lambda xp, x: x[:1])
    with pytest.raises(
        BackendError, match=r"an array of shape \(1,\) for sin, whose result is f64"
    ):
        cupy_library.evaluate(by_name["sin"], (Spy(np.ones(3)),), {})


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1", "?", "c16"])
@pytest.mark.parametrize("mode", ["raise", "drop", "wrap", "clip"])
@pytest.mark.parametrize("name", ["scatter", "scatter_add", "scatter_mul"])
def test_what_falls_on_one_place_is_combined_in_order(name: str, mode: str, dtype: str) -> None:
    """More updates than places, so that runs are long; the last one wins a `scatter`."""
    rng = np.random.default_rng(3)
    x, v = (rng.integers(1, 4, size).astype(dtype) for size in ((5, 2), (40, 2)))
    low, high = (-5, 5) if mode == "raise" else (-9, 9)
    indices = rng.integers(low, high, 40)
    row, params = by_name[name], {"axes": (0,), "mode": mode}
    (found,) = cupy_library.evaluate(row, (Spy(x), Spy(v), Spy(indices)), params)
    expected = row.impl(x, v, indices, **params)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.memory, expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
@pytest.mark.parametrize("count", [1, 2])
def test_nothing_is_sorted_where_there_is_nothing(shape: tuple[int, ...], count: int) -> None:
    xs = [Spy(np.ones(shape)) for _ in range(count)]
    for axis in range(len(shape)):
        params = {"dimension": axis, "is_stable": True, "num_keys": 1}
        found = cupy_library.evaluate(by_name["sort"], xs, params)
        assert [y.shape for y in found] == [shape] * count
        assert all(y is not x for y, x in zip(found, xs, strict=True))


@pytest.mark.parametrize("name", READS)
def test_an_index_out_of_range_raises_the_error_of_the_impl(name: str) -> None:
    x, v, i = np.ones((2, 3)), np.ones((3, 2)), np.array([0, -4, 3])
    args = (x, i) if name == "gather" else (x, v, i)
    params = {"axes": (1,), "mode": "raise"}
    with pytest.raises(IndexError) as expected:
        by_name[name].impl(*args, **params)
    with pytest.raises(IndexError) as found:
        cupy_library.evaluate(by_name[name], list(map(Spy, args)), params)
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_an_axis_without_elements_has_no_nearest_one(mode: str) -> None:
    row, params = by_name["gather"], {"axes": (0,), "mode": mode}
    with pytest.raises(IndexError) as expected:
        row.impl(np.ones(0), np.array([2]), **params)
    with pytest.raises(IndexError) as found:
        cupy_library.evaluate(row, [Spy(np.ones(0)), Spy(np.array([2]))], params)
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]
    (y,) = cupy_library.evaluate(row, [Spy(np.ones(0)), Spy(np.array([], int))], params)
    assert y.shape == (0,)


@pytest.mark.parametrize(
    ("name", "args", "params"),
    [
        ("spacing", (np.array([-1.0, -2.0, 1.0, 0.3, -0.0]),), {}),
        ("reduce_xor", (np.arange(21).reshape(7, 3) ** 2,), {"axes": (0,)}),
        ("reduce_xor", (np.array([1, 2, 4]),), {"axes": (0,)}),
        (
            "window_argmax",
            (np.array([1.0, np.nan, np.nan, 3.0, 2.0]),),
            {"window": (3,), "strides": (1,), "dilation": (1,)},
        ),
        ("dynamic_update_slice", (np.array(2.0), np.array(3.0)), {}),
        ("optimization_barrier", (np.ones(3), 2.0), {}),
        ("pad", (np.arange(3.0), 7.0), {"padding_config": ((1, 2, 2),)}),
        ("pad", (np.arange(4.0), 7.0), {"padding_config": ((-3, 1, 1),)}),
        ("bitcast_convert_type", (np.array([1.5, -2.0]),), {"new_dtype": np.dtype(np.int32)}),
        ("population_count", (np.array([0, 1, 255, -3]),), {}),
        (
            "window_argmax",
            (np.array([1.0, 3.0, 2.0, 5.0, 4.0]),),
            {"window": (2,), "strides": (1,), "dilation": (2,)},
        ),
        ("gather", (np.array([5.0]), np.array([0, 3])), {"axes": (0,), "mode": "fill"}),
        (
            "gather",
            (np.arange(3.0), np.array([4, 2**63 + 1], np.uint64)),
            {"axes": (0,), "mode": "wrap"},
        ),
        (
            "scatter",
            (np.ones((0, 3)), np.ones((1, 3)), np.array([2])),
            {"axes": (0,), "mode": "drop"},
        ),
        ("dynamic_update_slice", (np.zeros((3, 4)), np.ones((2, 2)), 1, 1), {}),
        ("cummax", (np.array([1.0, 3.0, 2.0, 5.0, 4.0]),), {"axis": 0, "reverse": False}),
        ("cumsum", (np.array([1.0, 2.0, 4.0]),), {"axis": 0, "reverse": True}),
        ("gather", (np.ones((0, 3)), np.array([[0], [1]])), {"axes": (0,), "mode": "fill"}),
    ],
)
def test_at_their_corners_rows_give_the_values_of_their_impl(
    name: str, args: tuple[Any, ...], params: dict[str, Any]
) -> None:
    row = by_name[name]
    given = [Spy(a.copy()) if isinstance(a, np.ndarray) else a for a in args]
    found = cupy_library.evaluate(row, given, params)
    expected = row.impl(*args, **params)
    assert all(type(y) is Spy for y in found)
    for y, z in zip(found, expected if row.multiple else [expected], strict=True):
        np.testing.assert_array_equal(y.memory, z, strict=True)


STACKED = {
    "cofactor": {},
    "cholesky": {"lower": False},
    "lu": {},
    "triangular_inv": {"lower": True},
    "triangular_solve": {
        "left_side": False,
        "lower": True,
        "unit_diagonal": False,
        "transpose_a": False,
        "conjugate_a": False,
    },
    "expm": {},
    "expm_frechet": {},
}


@pytest.mark.parametrize("name", STACKED)
def test_every_matrix_of_a_stack_of_stacks_is_one(name: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 2, 4, 3, 3))
    a = a @ np.swapaxes(a, -1, -2) + np.eye(3)
    row, params = by_name[name], STACKED[name]
    args = (a, b) if name in ("expm_frechet", "triangular_solve") else (a,)
    found = cupy_library.evaluate(row, list(map(Spy, args)), params)
    expected = row.impl(*args, **params)
    for y, z in zip(found, expected if row.multiple else [expected], strict=True):
        np.testing.assert_allclose(y.memory, z, rtol=1e-10, atol=1e-12)


def test_of_singular_values_that_are_nan_there_is_no_inverse(monkeypatch) -> None:
    """cuSOLVER gives finite vectors beside them, where NumPy raises."""
    one = Spy(np.stack([np.eye(2)] * 2))
    values = Spy(np.array([[np.nan, np.nan], [2.0, 0.0]]))
    monkeypatch.setattr(np.linalg, "svd", lambda a, **how: (one.memory, values.memory, one.memory))
    (found,) = cupy_library.evaluate(by_name["pinv"], [one, Spy(np.full(2, 1e-9))], {})
    assert np.isnan(found.memory[0]).any()
    np.testing.assert_array_equal(found.memory[1], [[0.5, 0], [0, 0]])


@pytest.mark.parametrize("name", ["cholesky", "definite_banded_solve"])
def test_what_is_not_definite_is_nan_and_its_neighbours_are_not(name: str) -> None:
    """CuPy says nothing of a matrix that has no factor, and gives what it got so far."""
    if name == "cholesky":
        args: tuple[Any, ...] = (np.stack([np.eye(3), np.diag([1.0, -1.0, 2.0])]),)
    else:
        bands = np.array([[[4.0, 4.0, 4.0], [1, 1, 0]], [[4.0, -4.0, 4.0], [1, 1, 0]]])
        args = (bands, np.ones((2, 3, 2)))
    row = by_name[name]
    (found,) = cupy_library.evaluate(row, list(map(Spy, args)), {"lower": True})
    assert_close(found.memory, row.impl(*args, lower=True))
    assert np.isnan(found.memory[1]).any()
    assert np.isfinite(found.memory[0]).all()


@pytest.mark.parametrize(
    ("name", "args", "params"),
    [
        ("logistic", (np.array([0.3 + 1j, -2.0]),), {}),
        ("pinv", (np.ones((2, 3, 3)), np.array([1e-9, 1e-9])), {}),
        (
            "fft",
            (np.ones((2, 3, 0), complex),),
            {"kind": "fft", "length": 3, "axis": 1, "scale": "1"},
        ),
    ],
)
def test_at_their_corners_rows_are_as_close_as_libraries_are(
    name: str, args: tuple[Any, ...], params: dict[str, Any]
) -> None:
    (found,) = cupy_library.evaluate(by_name[name], list(map(Spy, args)), params)
    np.testing.assert_allclose(found.memory, by_name[name].impl(*args, **params), atol=1e-12)


def test_a_function_by_its_name_computes_in_the_dtype_of_its_operands() -> None:
    for dtype in (np.float32, np.float64):
        x = np.array([0.3, 1.2], dtype)
        (found,) = cupy_library.evaluate(by_name["special"], [Spy(x)], {"function": "y0"})
        np.testing.assert_array_equal(found.memory, scipy.special.y0(x), strict=True)


def test_a_function_of_real_numbers_refuses_complex_ones() -> None:
    with pytest.raises(DtypeError, match="cannot evaluate erf of c128"):
        cupy_library.evaluate(by_name["erf"], [Spy(np.array([1j]))], {})


def test_loops_of_types_that_numpy_lacks_are_passed_over() -> None:
    """CuPy has loops of bfloat16 where the package ml_dtypes is installed."""
    many = SimpleNamespace(types=["EE->E", "dd->d"])
    check_loop(many, [Spy(np.ones(3)), 2.0])
    with pytest.raises(TypeError, match="has no loop"):
        check_loop(many, [Spy(np.ones(3)), 2j])


def test_the_spies_refuse_what_cupy_refuses():
    x = Spy(np.ones(3))
    for call in (
        lambda: np.asarray(x),
        lambda: np.add.reduce(x),
        lambda: np.add(x, np.ones(3)),
        lambda: np.sort(x, stable=True),
        lambda: scipy.special.iv(1, x),
        lambda: np.bitwise_and(x, x),
        lambda: list(x),
    ):
        with pytest.raises(TypeError):
            call()

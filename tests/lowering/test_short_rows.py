"""Folds over short rows: lanes lie across the rows, and what follows a fold has its own lanes."""

import math
from typing import Any

import numpy as np
import pytest

import ftrace
from ftrace.lowering.kernel.ir import Let, Loop, loops_of
from ftrace.lowering.kernel.schedule import LANE
from ftrace.lowering.kernel.traversal import inside
from ftrace.lowering.machine import Machine
from ftrace.lowering.planning.plan import plan
from tests.lowering.programs import planned, softmax
from tests.lowering.simulate import simulate

RNG = np.random.default_rng(3)
REDUCTIONS = (np.sum, np.max, np.min, np.prod, np.argmax, np.argmin, np.any, np.all, np.mean)


def squares(x: Any) -> Any:
    return np.sum(x * x, axis=-1)


def lane_loops(program: Any) -> list[Loop]:
    """The loops of a program that get lanes."""
    return [
        loop
        for launch in program.launches
        for loop in loops_of(launch.kernel.body)
        if launch.schedule.role(loop) == LANE
    ]


def text(f: Any, *args: Any) -> str:
    return "\n".join(ftrace.jit(f).lower(*args).kernels)


@pytest.mark.sampled(2, each="rows")
@pytest.mark.parametrize("columns", [2, 3, 7, 24, 25])
@pytest.mark.parametrize("rows", [1, 5, 31, 32, 33, 100])
def test_every_reduction_over_rows_of_any_length(rows: int, columns: int) -> None:
    values = RNG.integers(-3, 4, (rows, columns))
    for x in (values, values / 4.0, (values / 4.0).astype(np.float32), values + 1j * values):
        for reduce in REDUCTIONS:
            if x.dtype.kind == "c" and reduce not in (np.sum, np.prod, np.any, np.all):
                continue
            f = lambda x, reduce=reduce: reduce(x + x, axis=-1)  # noqa: E731
            found, wanted = ftrace.jit(f)(x), f(x)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["transposed", "reversed", "every third", "broadcast", "deep"])
def test_rows_that_lie_otherwise_in_memory(name: str) -> None:
    x = {
        "transposed": RNG.normal(size=(3, 100)).T,
        "reversed": RNG.normal(size=(100, 3))[::-1, ::-1],
        "every third": RNG.normal(size=(100, 9))[:, ::3],
        "broadcast": np.broadcast_to(RNG.normal(size=(100, 1)), (100, 3)),
        "deep": RNG.normal(size=(20, 5, 3)),
    }[name]
    f = lambda x: (squares(x), x / np.sqrt(squares(x))[..., None])  # noqa: E731
    for found, wanted in zip(ftrace.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


@pytest.mark.parametrize(
    ("shape", "across"),
    [((32, 24), True), ((32, 25), False), ((31, 16), False), ((4, 4), False), ((500, 3), True)],
)
def test_lanes_lie_across_many_short_rows(shape: tuple[int, int], across: bool) -> None:
    (loop,) = lane_loops(planned(squares, np.ones(shape)))
    assert bool(loops_of(loop.body)) == across
    assert not across or all(f.ways == 1 for inner in loops_of(loop.body) for f in inner.folds)


def test_rows_in_several_axes_and_passes() -> None:
    def f(x):
        return softmax(x) * 2.0

    x = RNG.normal(size=(7, 40, 10))
    program = planned(f, x)
    (loop,) = lane_loops(program)
    assert len(loops_of(loop.body)) == 3  # maximum, sum, quotient
    np.testing.assert_allclose(ftrace.jit(f)(x), f(x), rtol=1e-14)
    for reverse in (False, True):
        (found,) = simulate(program, [x], reverse=reverse)
        np.testing.assert_allclose(found, f(x), rtol=1e-14)


@pytest.mark.parametrize(("columns", "kept"), [(1024, False), (1025, True)])
def test_rounding_errors_are_kept_behind_the_first_block(columns: int, kept: bool) -> None:
    assert ("blocks of 1024" in text(squares, np.ones((3, columns)))) == kept


@pytest.mark.parametrize(("rows", "kept"), [(64, False), (65, True)])
def test_a_sum_down_columns_keeps_them_behind_its_first_block(rows: int, kept: bool) -> None:
    down = lambda x: np.sum(x * x, axis=0)  # noqa: E731
    assert ("blocks of 64" in text(down, np.ones((rows, 100)))) == kept


@pytest.mark.parametrize("columns", [3, 16, 50, 1000, 1024])
def test_sums_without_errors_are_as_good_as_numpys(columns: int) -> None:
    x = RNG.normal(size=(40, columns)) * 10.0 ** RNG.integers(-8, 8, (40, columns))
    found = ftrace.jit(lambda x: np.sum(x + 0.0, axis=1))(x)
    exact = np.array([math.fsum(row) for row in x])
    largest = np.sum(np.abs(x), axis=1) * np.finfo(float).eps
    assert np.all(np.abs(found - exact) <= 8 * largest)


def test_a_machine_without_lanes_has_kernels_for_all_sizes() -> None:
    def made(shape):
        jaxpr = ftrace.make_jaxpr(lambda x: np.tanh(squares(x)))(np.ones(shape))
        return [launch.kernel for launch in plan(jaxpr, Machine(64, lanes=False)).launches]

    assert made((100, 3)) == made((7, 5000))
    assert len(made((100, 50))) == 1


# --------------------------------------------------------------------- what follows a fold


def hyperbolic(x: Any) -> Any:
    return np.tanh(np.sum(x * x, axis=1))


@pytest.mark.parametrize(
    ("shape", "kernels"),
    [((16, 25), 2), ((15, 25), 1), ((64, 24), 1), ((64, 256), 2), ((64, 257), 1)],
)
def test_costly_operations_behind_long_rows_have_lanes_of_their_own(
    shape: tuple[int, int], kernels: int
) -> None:
    x = RNG.normal(size=shape) / shape[1]
    program = planned(hyperbolic, x)
    assert len(program.launches) == kernels
    np.testing.assert_allclose(ftrace.jit(hyperbolic)(x), hyperbolic(x), rtol=1e-14)
    (found,) = simulate(program, [x])
    np.testing.assert_allclose(found, hyperbolic(x), rtol=1e-14)


def test_what_a_row_needs_again_stays_with_it() -> None:
    def f(x):
        top = np.max(x, axis=1, keepdims=True)
        return x - top - np.log(np.sum(np.exp(x - top), axis=1, keepdims=True))

    x = RNG.normal(size=(64, 50))
    assert len(planned(f, x).launches) == 1
    np.testing.assert_allclose(ftrace.jit(f)(x), f(x), rtol=1e-13)


def test_costly_operations_behind_columns_have_the_lanes_of_the_columns() -> None:
    assert len(planned(lambda x: np.tanh(np.sum(x, axis=0)), np.ones((50, 64))).launches) == 1


def test_cheap_operations_stay_behind_their_rows() -> None:
    assert len(planned(lambda x: np.sum(x, axis=1) + 1.0, np.ones((64, 50))).launches) == 1


# --------------------------------------------------------------------- stored, not done again


def densities(x: Any, y: Any) -> Any:
    """Sums over rows and over columns of the same exponentials, which no kernel has both of."""
    e = np.exp(-((x[:, None] - y[None, :]) ** 2))
    return np.sum(e, axis=0), np.log(np.sum(e, axis=1))


@pytest.mark.parametrize(("rows", "kernels"), [(31, 2), (32, 1), (4097, 1), (32_769, 2)])
def test_what_two_kernels_would_compute_is_stored_where_a_cache_holds_it(
    rows: int, kernels: int
) -> None:
    x, y = np.linspace(0.0, 1.0, rows), np.linspace(0.0, 2.0, 64 if rows > 32 else 32)
    found = [
        sum(s.op == "exp" for s in inside(k.kernel.body) if isinstance(s, Let))
        for k in planned(densities, x, y).launches
    ]
    assert sum(found) == kernels
    for a, b in zip(ftrace.jit(densities)(x, y), densities(x, y), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_machine_without_lanes_computes_it_again() -> None:
    jaxpr = ftrace.make_jaxpr(densities)(np.ones(100), np.ones(64))
    text = [launch.kernel for launch in plan(jaxpr, Machine(64, lanes=False)).launches]
    ops = [s.op for k in text for s in inside(k.body) if isinstance(s, Let)]
    assert ops.count("exp") == 2


def test_weights_that_are_repeated_outside_the_loops_of_a_fold_are_stored() -> None:
    def pull(w, x):  # each weight once, not once for each of three coordinates
        return np.sum(np.tanh(w)[:, :, None] * x[None, :, :], axis=1)

    w, x = RNG.normal(size=(5, 40)), RNG.normal(size=(40, 3))
    first, second = (launch.kernel for launch in planned(pull, w, x).launches)
    names = [[s.op for s in inside(k.body) if isinstance(s, Let)] for k in (first, second)]
    assert names[0] == ["tanh"]
    assert "tanh" not in names[1]
    np.testing.assert_allclose(ftrace.jit(pull)(w, x), pull(w, x), rtol=1e-13)


def test_weights_that_are_repeated_inside_and_outside_of_a_fold_are_stored() -> None:
    f = lambda w, x: np.sum(np.tanh(w)[:, :, None, None] * x, axis=(1, 2))  # noqa: E731
    assert len(planned(f, np.ones((5, 40)), np.ones((4, 3))).launches) == 2
    down = lambda w, x: np.sum(np.tanh(w)[:, None] * x, axis=0)  # noqa: E731
    assert len(planned(down, np.ones(50), np.ones((50, 40))).launches) == 2


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda w, x: np.tanh(w)[:, None] * x, (50, 40)),
        (lambda w, x: np.sum(np.tanh(w)[:, None, None] * x, axis=1), (40, 3)),
    ],
)
def test_other_repeated_weights_are_not(f: Any, shape: tuple[int, ...]) -> None:
    assert len(planned(f, np.ones(50), np.ones(shape)).launches) == 1


# --------------------------------------------------------------------- products


@pytest.mark.parametrize(
    ("rows", "columns", "inside_kernel"),
    [(32, 32, True), (256, 256, True), (256, 257, False), (5000, 8, True), (5000, 7, False)],
)
def test_vectors_times_matrices_that_fit_a_cache_are_kernels(
    rows: int, columns: int, inside_kernel: bool
) -> None:
    w, y = RNG.normal(size=(rows, columns)), RNG.normal(size=rows)
    f = lambda w, y: np.tanh(y @ w)  # noqa: E731
    np.testing.assert_allclose(ftrace.jit(f)(w, y), f(w, y), rtol=1e-10, atol=1e-12)
    kernels = planned(f, w, y).launches
    folds = [g for k in kernels for loop in loops_of(k.kernel.body) for g in loop.folds]
    assert bool(folds) == inside_kernel


# --------------------------------------------------------------------- the same in another order


@pytest.mark.parametrize("op", ["add", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor"])
def test_operands_in_another_order_are_one_operation(op: str) -> None:
    operation = getattr(np, op)
    x = np.arange(20) if op.startswith("bit") else np.linspace(0.0, 1.0, 20)
    y = x[::-1] * 1

    def f(x, y):
        return operation(x, y) - 3 * operation(y, x)

    launches = planned(f, x, y).launches
    names = [s.op for k in launches for s in inside(k.kernel.body) if isinstance(s, Let)]
    name = op.removeprefix("bitwise_").replace("multiply", "mul")
    assert names.count(name) == 1 + (op == "multiply")  # three times the one
    np.testing.assert_array_equal(ftrace.jit(f)(x, y), f(x, y))


def test_operands_whose_order_matters_are_not() -> None:
    def f(x, y):
        return (x - y) * 3.0 + (y - x), np.maximum(x, y), np.maximum(y, x)

    x, y = np.array([0.0, -0.0, 2.0]), np.array([-0.0, 0.0, 1.0])
    for found, wanted in zip(ftrace.jit(f)(x, y), f(x, y), strict=True):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize(
    "shape", [(5000, 3), (5000, 7), (5000, 8), (5000, 1), (3, 5000), (1023, 3)]
)
def test_sums_of_thin_columns_have_costly_operands_in_full_vectors(shape: tuple[int, int]) -> None:
    def f(x):
        return np.sum(np.exp(x), axis=0)

    x = np.linspace(-1.0, 1.0, shape[0] * shape[1]).reshape(shape)
    thin = shape in ((5000, 3), (5000, 7))
    assert len(planned(f, x).launches) == (2 if thin else 1)
    np.testing.assert_allclose(ftrace.jit(f)(x), f(x), rtol=1e-13)


def test_a_reduction_over_no_axes_is_planned() -> None:
    def f(x):
        return np.sum(np.exp(x), axis=()) * 2.0

    x = np.linspace(-1.0, 1.0, 15_000).reshape(5000, 3)
    np.testing.assert_allclose(ftrace.jit(f)(x), f(x), rtol=1e-13)

"""Products on CuPy arrays: which ones cuBLAS is asked for, without a copy of any operand."""

from typing import Any

import numpy as np
import pytest

from ftrace import jit
from ftrace.core.avals import TYPEOF, typeof
from ftrace.gpu.eager import cupy_library, library_products
from ftrace.primitives.dot import dot_general
from tests.gpu.emulation.device import HostDevice, selected
from tests.gpu.emulation.memory import host_view
from tests.gpu.hosted import cupy
from tests.gpu.spies import Cublas, Namespace, Spy
from tests.lowering.test_contraction import TAKEN


@pytest.fixture(autouse=True)
def cublas(monkeypatch: pytest.MonkeyPatch) -> Cublas:
    found = Cublas()
    monkeypatch.setattr(cupy_library, "namespace", lambda: Namespace(cupy, np))
    monkeypatch.setattr(library_products, "cublas", lambda: (found, lambda: 7))
    monkeypatch.setitem(TYPEOF, Spy, lambda x: typeof(x.memory))
    return found


def product(x: Any, y: Any, contract: Any, batch: Any = ((), ())) -> Any:
    """The product, compared with that of NumPy in double precision."""
    numbers = (contract, batch)
    with np.errstate(all="raise"):
        (found,) = cupy_library.evaluate(
            dot_general, [Spy(x), Spy(y)], {"dimension_numbers": numbers}
        )
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    expected = dot_general.impl(x.astype(wide), y.astype(wide), dimension_numbers=numbers)
    error = {"e": 1e-3, "f": 1e-5, "F": 1e-5}.get(x.dtype.char, 1e-12)
    size = np.abs(expected).max()
    np.testing.assert_allclose(found.memory, expected, rtol=error, atol=error * size)
    assert found.memory.dtype == x.dtype
    return found.memory


def numbers(shape: Any, dtype: str) -> Any:
    rng = np.random.default_rng(len(shape) + sum(shape))
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype in "FD" else x).astype(dtype)


@pytest.mark.parametrize("dtype", list("efdFD"))
@pytest.mark.parametrize("name", TAKEN)
def test_what_lies_as_matrices_is_multiplied_by_cublas(name: str, dtype: str, cublas: Cublas):
    left, right, contract, batch, _ = TAKEN[name]
    found = product(numbers(left, dtype), numbers(right, dtype), contract, batch)
    assert found.base is None, "the result is memory of its own"
    inner = found.size == 1
    assert cublas.calls in ((0,) if inner else (1, 2, 3))


@pytest.mark.parametrize("turn_x", [False, True])
@pytest.mark.parametrize("turn_y", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_operands_that_lie_transposed_are_not_copied(
    turn_x: bool, turn_y: bool, batch: Any, cublas: Cublas
) -> None:
    """Views of larger arrays: leading dimensions are not those of the shape."""
    n = len(batch)
    x, y = numbers((*batch, 9, 14), "f"), numbers((*batch, 12, 11), "f")
    x, y = x[..., :5, 2:9], y[..., 1:8, :6]
    if turn_x:
        x = np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)
    if turn_y:
        y = np.swapaxes(np.ascontiguousarray(np.swapaxes(y, -1, -2)), -1, -2)
    axes = tuple(range(n))
    product(x, y, ((n + 1,), (n,)), (axes, axes))
    assert cublas.calls in (1, 2)


@pytest.mark.parametrize("size", [1, 5])
def test_a_matrix_that_is_repeated_is_one_member_of_the_batch(size: int, cublas: Cublas):
    x, y = numbers((4, size, 7), "f"), np.broadcast_to(numbers((7, 3), "f"), (4, 7, 3))
    product(x, y, ((2,), (1,)), ((0,), (0,)))
    assert cublas.calls == 1


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (numbers((6, 7), "f")[::-1], numbers((7, 3), "f")),
        (numbers((6, 14), "f")[:, ::2], numbers((7, 3), "f")),
        (np.broadcast_to(numbers((7,), "f"), (6, 7)), numbers((7, 3), "f")),
        (numbers((6, 7), "f"), np.broadcast_to(numbers((7, 1), "f"), (7, 3))),
        (np.broadcast_to(numbers((1, 7), "f"), (6, 7)).T.copy().T, numbers((14, 3), "f")[::2]),
        (np.arange(42).reshape(6, 7), np.arange(21).reshape(7, 3)),
        (np.ones((6, 0)), np.ones((0, 3))),
    ],
)
def test_what_cublas_cannot_take_as_it_lies_is_right_too(x: Any, y: Any, cublas: Cublas) -> None:
    """Negative steps, steps that are not one, rows that overlap, integers, nothing."""
    product(x, y, ((1,), (0,)))
    assert cublas.calls <= 1


def test_axes_in_bytes_that_are_no_elements_are_left_to_cupy(cublas: Cublas) -> None:
    memory = np.zeros((4, 5), np.dtype([("x", "f4"), ("y", "i1")]))
    memory["x"] = numbers((4, 5), "f")
    product(memory["x"], numbers((5, 3), "f"), ((1,), (0,)))
    assert cublas.calls == 0


def test_a_long_batch_that_is_no_single_step_is_cublass(cublas: Cublas) -> None:
    """Of two axes that lie apart, the longer one is the batch of a call."""
    for shape in ((2, 9, 12, 8), (12, 9, 2, 8)):
        cublas.calls = 0
        x, y = numbers(shape, "f"), numbers((shape[0], 7, shape[2], 8), "f")
        product(x, y, ((3,), (3,)), ((0, 2), (0, 2)))
        assert cublas.calls == 2
    x, y = numbers((20, 9, 20, 8), "f"), numbers((20, 7, 20, 8), "f")
    cublas.calls = 0
    product(x, y, ((3,), (3,)), ((0, 2), (0, 2)))
    assert cublas.calls == 0, "too many calls"


def test_sums_of_float16_are_float32(cublas: Cublas) -> None:
    x = np.full((2, 5000), 1.0, np.float16)
    found = product(x, x.T.copy(), ((1,), (0,)))
    assert cublas.calls == 1
    np.testing.assert_array_equal(found, np.float16(5000))


def test_the_result_has_no_elements_that_were_there_before(cublas: Cublas) -> None:
    x, y = numbers((3, 4), "f"), numbers((4, 5), "f")
    for _ in range(3):
        np.full((3, 5), np.nan, np.float32)
        assert np.isfinite(product(x, y, ((1,), (0,)))).all()
    assert cublas.calls == 3


class Viewing(HostDevice):
    """Gives results as views of larger memory, as a `reshape` at the end of a row does."""

    def library(self, row: Any, args: Any, params: Any) -> list[Any]:
        found = super().library(row, args, params)
        return [x.reshape(1, *x.shape)[0] for x in found]


class Sharing(HostDevice):
    """Gives back the memory of its first operand."""

    def library(self, row: Any, args: Any, params: Any) -> list[Any]:
        found = super().library(row, args, params)
        host_view(args[0])[...] = host_view(found[0])
        return [args[0].reshape(1, *args[0].shape)[0]]


def test_a_result_that_is_a_view_of_its_own_memory_is_not_copied(emulation: None) -> None:
    with selected(Viewing(schedules=["forwards"])) as device:
        x = device.from_host(numbers((40, 40), "d"))
        found = jit(lambda x: x @ x)(x)
        assert device.launches == 0
        assert found.base is not None
        np.testing.assert_allclose(host_view(found), host_view(x) @ host_view(x))


def test_a_result_in_the_memory_of_others_is_copied(emulation: None) -> None:
    with selected(Sharing(schedules=["forwards"])) as device:
        x = device.from_host(numbers((40, 40), "d"))
        found = jit(lambda x: x @ x)(x)
        assert device.launches == 1
        assert found.data.mem is not x.data.mem


class Twins(HostDevice):
    """Gives all results in one piece of memory."""

    def library(self, row: Any, args: Any, params: Any) -> list[Any]:
        found = super().library(row, args, params)
        return [found[0].reshape(1, *x.shape)[0] for x in found]


def test_results_in_one_memory_are_parted(emulation: None) -> None:
    with selected(Twins(schedules=["forwards"])) as device:
        x = device.from_host(numbers((40, 40), "d"))
        sign, size = jit(np.linalg.slogdet)(x)
        assert device.launches == 1
        assert sign.data.mem is not size.data.mem

"""`HostDevice`: the `Device` protocol over host memory, for tests.

Every launch runs at once, in each of the device's schedules; the memory that it leaves must be the
same to the last bit. Rows of libraries are evaluated by NumPy on the same memory.
"""

import ctypes
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ftrace.core.errors import BackendError
from ftrace.core.primitive import Primitive
from ftrace.gpu.runtime.current_device import using
from ftrace.gpu.runtime.device_interface import DeviceCall, Start
from tests.gpu.emulation import driver, memory

FORWARDS: Final = "forwards"
REVERSED: Final = "reversed"
SCHEDULES: Final = (FORWARDS, REVERSED)
MOST_THREADS: Final = 1024
MOST_BLOCKS: Final = (2**31 - 1, 65535, 65535)
MOST_IN_BLOCK: Final = (1024, 1024, 64)

Triple = tuple[int, int, int]


class HostDevice:
    """A GPU that is not one.

    Attributes:
        arch, processors, shared: what plans are made for; few processors, so that the loops of
            a grid run more than once.
        schedules: in which orders threads run; with both, results are compared.
        memory: all arrays; `memory.place` says where new ones lie.
        launches: the number of kernels that ran.
    """

    arch = "sm_90"
    processors = 4
    shared = 48 * 1024

    def __init__(
        self,
        compiler: driver.Compiler | None = None,
        *,
        schedules: Sequence[str] = SCHEDULES,
        place: str = "plain",
        fibres: str = "",
        seconds: int = 60,
    ) -> None:
        self.driver = driver.Driver(compiler or driver.compilers()[0], fibres)
        self.memory = memory.Memory(place)
        self.schedules = tuple(schedules)
        self.launches = 0
        self._orders = [driver.Order(name == REVERSED, seconds) for name in schedules]

    # --- memory

    @property
    def array(self) -> Any:
        import cupy

        return cupy.ndarray

    def allocate(self, size: int) -> Any:
        return self.memory.allocate(size)

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        shape, dtype = tuple(shape), np.dtype(dtype)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        return self.array(shape, dtype, self.allocate(size))

    def pointer(self, array: Any) -> int:
        return array.data.ptr

    def to_host(self, array: Any) -> Any:
        return memory.host_view(array).copy()

    def from_host(self, array: Any) -> Any:
        return self._held(np.asarray(array))

    def read(self, address: int, dtype: Any) -> Any:
        return memory.view(address, (), dtype)[()]

    def order(self) -> tuple[int, bool]:
        return 0, False

    def synchronize(self) -> None:
        self._intact("before synchronize()")

    def _held(self, value: Any) -> Any:
        found = self.empty(value.shape, value.dtype)
        memory.host_view(found)[...] = value
        return found

    def copy(self, target: int, source: int, size: int) -> None:
        try:
            self.driver.copy(target, source, size)
        except BackendError as error:
            raise self._explained(error) from None

    # --- kernels

    def compile(self, source: str, entries: tuple[str, ...]) -> Mapping[str, driver.Function]:
        return self.driver.load(source, entries)

    def launch(
        self,
        function: driver.Function,
        grid: Triple,
        block: Triple,
        shared: int,
        words: Sequence[int],
    ) -> None:
        self._fits(function, grid, block, shared, len(words))
        dims = (ctypes.c_uint * 6)(*grid, *block)
        block_of_words = (ctypes.c_longlong * len(words))(*words)
        if 0 not in grid:
            self._run(function, dims, shared, block_of_words)

    def sequence(self, starts: Sequence[Start]) -> Callable[[DeviceCall], None]:
        def run(call: DeviceCall) -> None:
            for s in starts:
                words = list(s.words)
                for at, base in s.moving:
                    words[at] += call.addresses[base]
                self.launch(s.function, s.grid, s.block, s.shared, words)

        return run

    def _fits(
        self, function: driver.Function, grid: Triple, block: Triple, shared: int, words: int
    ) -> None:
        name = f"Kernel {function.name}"
        if not 0 < block[0] * block[1] * block[2] <= MOST_THREADS or any(
            n > most for n, most in zip(block, MOST_IN_BLOCK, strict=True)
        ):
            raise BackendError(f"{name} cannot be launched: a block of {block} threads.")
        if any(not 0 <= n <= most for n, most in zip(grid, MOST_BLOCKS, strict=True)):
            raise BackendError(f"{name} cannot be launched: a grid of {grid} blocks.")
        if not 0 <= shared <= self.shared:
            raise BackendError(f"{name} cannot be launched: {shared} bytes of shared memory.")
        if 8 * words != function.size:
            raise BackendError(f"{name} takes {function.size} bytes of words, not {8 * words}.")

    def _run(self, function: driver.Function, dims: Any, shared: int, words: Any) -> None:
        self.launches += 1
        try:
            if len(self._orders) == 1:
                self.driver.launch(function, dims, shared, words, self._orders[0])
            else:
                self._compare(function, dims, shared, words)
        except BackendError as error:
            raise self._explained(error) from None
        self._intact(f"by kernel {function.name}")

    def _compare(self, function: driver.Function, dims: Any, shared: int, words: Any) -> None:
        blocks = list(self.memory.blocks)
        before = [block.contents() for block in blocks]
        self.driver.launch(function, dims, shared, words, self._orders[0])
        for other in self._orders[1:]:
            first = [block.contents() for block in blocks]
            for block, old in zip(blocks, before, strict=True):
                ctypes.memmove(block.address, old, block.size)
            self.driver.launch(function, dims, shared, words, other)
            for block, expected in zip(blocks, first, strict=True):
                found = block.contents()
                if found != expected:
                    at = next(k for k, byte in enumerate(found) if byte != expected[k])
                    raise BackendError(
                        f"Kernel {function.name} depends on the order of its threads or blocks: "
                        f"byte {at} of an array of {block} differs between two schedules."
                    )

    def _explained(self, error: BackendError) -> BackendError:
        """The error, with the array next to the address in it."""
        head, found, tail = error.what.rpartition("address 0x")
        if "out of bounds" not in head or not found:
            return error
        near = self.memory.around(int(tail.rstrip("."), 16))
        return BackendError(f"{error.what} {near}")

    def _intact(self, who: str) -> None:
        if self.memory.place != "plain":
            for block in list(self.memory.blocks):
                if not block.is_intact():
                    raise BackendError(f"Beside an array of {block}, bytes were written {who}.")

    # --- libraries

    def library(self, row: Primitive, args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        return [self._held(value) for value in self._evaluate(row, args, params)]

    def _evaluate(
        self, row: Primitive, args: Sequence[Any], params: Mapping[str, Any]
    ) -> list[Any]:
        found = row.impl(*(_plain(a) for a in args), **params)
        return [np.asarray(value) for value in (found if row.multiple else (found,))]


@contextmanager
def selected(device: HostDevice) -> Generator[HostDevice]:
    """Make it the device of this thread, and let CuPy make its arrays in its memory."""
    import cupy

    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(device.memory.allocate)
    try:
        with using(device):
            yield device
    finally:
        cupy.cuda.set_allocator(before)


def _plain(value: Any) -> Any:
    """An operand for NumPy: rank 0 is a scalar there."""
    if not _is_cupy(value):
        return value
    found = memory.host_view(value)
    return found if found.ndim else found[()]


def _is_cupy(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "cupy"

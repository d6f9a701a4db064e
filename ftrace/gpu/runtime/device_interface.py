"""What the GPU backend asks of a device.

`Device` is the whole interface: memory, machine code, launches, copies, and the rows that CuPy's
libraries do. The real one is `CupyDevice` (cupy_device.py); tests put an emulated one in its place
with `using` (current_device.py). The idea: both hold true `cupy.ndarray`s, so that everything above
the driver is the same code in tests and on a GPU. Arrays are `Any` here: nothing imports CuPy
before one appears.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ftrace.core.primitive import Primitive

Triple = tuple[int, int, int]


class Device(Protocol):
    """A GPU, or what stands for one.

    Attributes:
        arch: what kernels are compiled for, as NVRTC names it: `"sm_90"`.
        processors: the number of streaming multiprocessors.
        shared: bytes of shared memory that a block may have without asking for more.
    """

    @property
    def arch(self) -> str: ...
    @property
    def processors(self) -> int: ...
    @property
    def shared(self) -> int: ...

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        """A new `cupy.ndarray` in C order; its elements are arbitrary."""
        ...

    def pointer(self, array: Any) -> int:
        """The address of an array's first element."""
        ...

    def compile(self, source: str, entries: tuple[str, ...]) -> Mapping[str, Any]:
        """The functions `entries` of a complete CUDA C text, for `launch`."""
        ...

    def launch(
        self, function: Any, grid: Triple, block: Triple, shared: int, words: Sequence[int]
    ) -> None:
        """Start a kernel on CuPy's current stream.

        Args:
            function: from `compile`.
            grid: blocks along x, y, z; nothing runs if one of them is 0.
            block: threads of a block along x, y, z.
            shared: bytes of dynamic shared memory of a block.
            words: the kernel's one argument, a block of 64-bit words; each is an address, a
                signed number or a bit pattern.
        """
        ...

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes from address to address on the device, on the current stream."""
        ...

    def library(self, row: Primitive, args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        """A row on CuPy arrays and scalars, done by CuPy's libraries: one array per result."""
        ...

    def to_host(self, array: Any) -> Any:
        """A `numpy.ndarray` with the elements of a device array; waits for them."""
        ...

    def from_host(self, array: Any) -> Any:
        """A device array with the elements of a NumPy array."""
        ...

    def read(self, address: int, dtype: Any) -> Any:
        """One NumPy scalar from an address; waits for all that was started before."""
        ...

    def record(self, thunk: Callable[[], None]) -> Callable[[], None]:
        """What repeats the launches and copies that `thunk()` starts, without running Python.

        Nothing runs before the result is called. Addresses and words are those of the recording:
        whoever records keeps the arrays alive.
        """
        ...

    def capturing(self) -> bool:
        """Whether the user captures the current stream: what is started now runs later, again."""
        ...

    def synchronize(self) -> None:
        """Wait until all that was started is done."""
        ...

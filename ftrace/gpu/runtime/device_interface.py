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
from ftrace.core.records import record

Triple = tuple[int, int, int]


@record
class Start:
    """A launch whose words depend on where things lie.

    Attributes:
        function: from `Device.compile`.
        grid, block, shared: as for `Device.launch`.
        words: the argument block; what moves has its distance from a base there.
        moving: the positions of the words that move, and the numbers of their bases.
    """

    function: Any
    grid: Triple
    block: Triple
    shared: int
    words: tuple[int, ...]
    moving: tuple[tuple[int, int], ...]


@record
class AddressWord:
    """An address that is known at a call: that of a base, and a distance from it in bytes."""

    base: int
    distance: int

    def __add__(self, more: int) -> "AddressWord":
        return AddressWord(self.base, self.distance + more)


def start_of(
    function: Any, grid: Triple, block: Triple, words: Sequence[int | AddressWord]
) -> Start:
    """A launch of which some words are places."""
    moving = tuple((i, w.base) for i, w in enumerate(words) if isinstance(w, AddressWord))
    numbers = tuple(w.distance if isinstance(w, AddressWord) else w for w in words)
    return Start(function, grid, block, 0, numbers, moving)


class DeviceCall(Protocol):
    """What a sequence is told.

    Attributes:
        addresses: the bases.
        stream: the address of the stream.
        captured: whether it is captured by the user: what is started now runs later, again.
    """

    @property
    def addresses(self) -> Sequence[int]: ...
    @property
    def stream(self) -> int: ...
    @property
    def captured(self) -> bool: ...


class Device(Protocol):
    """A GPU, or what stands for one.

    Attributes:
        arch: what kernels are compiled for, as NVRTC names it: `"sm_90"`.
        processors: the number of streaming multiprocessors.
        shared: bytes of shared memory that a block may have without asking for more.
        array: the class `cupy.ndarray`, which takes a shape, a dtype and memory.
    """

    @property
    def arch(self) -> str: ...
    @property
    def processors(self) -> int: ...
    @property
    def shared(self) -> int: ...
    @property
    def array(self) -> Callable[[Sequence[int], Any, Any], Any]: ...

    def allocate(self, size: int) -> Any:
        """New memory of so many bytes, a `cupy.cuda.MemoryPointer`, for an array or in pieces."""
        ...

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

    def sequence(self, starts: Sequence[Start]) -> Callable[[DeviceCall], None]:
        """What starts kernels one after another, again and again."""
        ...

    def order(self) -> tuple[int, bool]:
        """The address of CuPy's current stream, and whether the user captures it."""
        ...

    def synchronize(self) -> None:
        """Wait until all that was started is done."""
        ...

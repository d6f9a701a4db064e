"""The real device: CuPy's memory and streams, our machine code.

CuPy is used for what it does well (memory pool, streams, loading a CUBIN, graphs, libraries) and
never to compile: its compiler flushes subnormals. A launch passes one block of words by value.
Nothing waits for the device but `read`, `to_host` and `synchronize`. CuPy is imported when the
first device is made.
"""

import importlib
import math
import os
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property
from typing import Any

import numpy as np

from ftrace.core.errors import BackendError, DeviceMemoryError
from ftrace.core.lazy import forkable_lock, lazy
from ftrace.core.primitive import Primitive
from ftrace.gpu.machine_code import nvrtc
from ftrace.gpu.machine_code.cubin import cubin
from ftrace.gpu.runtime.device_interface import DeviceCall, Start, Triple
from ftrace.gpu.runtime.sequences import Launches, driver

_OUT_OF_MEMORY, _NOT_INITIALISED = 2, 3  # of cudaError_t and of CUresult
_CODE = (200, 209, 222)  # CUresult: an image that is invalid, for no GPU here, or too new
_LEAST = 75  # compute capability: the oldest that every supported NVRTC compiles for
_PAGEABLE = 0  # cudaMemoryTypeUnregistered
_DEFAULT = (0, 1)  # the default stream, by two names: nobody can capture it
_PAGE = 16  # bytes: of the largest scalar
_evaluate = lazy("ftrace.gpu.eager.cupy_library", "evaluate")
_devices: dict[int, "CupyDevice"] = {}
_making = forkable_lock()
_forked: list[str] = []  # in a child of a process that used GPUs: which


def _after_fork() -> None:
    """In a child of a process that used GPUs: CUDA does not work here, whatever they say."""
    if _devices:
        _forked[:] = [", ".join(map(repr, _devices.values()))]
        _devices.clear()
        _working_cupy.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Here(threading.local):
    """What a thread has of its own: whether the driver knows it, and memory to read into."""

    entered = False
    page: Any = None


_here = _Here()


def device_of(array: Any = None) -> "CupyDevice":
    """The device that holds a `cupy.ndarray`, or CuPy's current one."""
    if array is None:
        cupy, errors = _working_cupy()
        try:
            number = cupy.cuda.runtime.getDevice()
        except errors as error:
            raise _failed("Asking for the current device", error) from error
    else:
        number = array.data.device_id
    found = _devices.get(number)
    if found is None:
        with _making:
            found = _devices.get(number) or CupyDevice(number)
            _devices[number] = found
    return found


class CupyDevice:
    """One GPU, by its number. `device_of` makes one for each.

    Raises:
        BackendError: there is no CuPy, no driver that fits it, or no such GPU.
    """

    def __init__(self, number: int = 0) -> None:
        self._cupy, self._errors = _working_cupy()
        self.array: Any = self._cupy.ndarray
        self._alloc = self._cupy.cuda.alloc
        self._stream = self._cupy.cuda.get_current_stream
        self._runtime = runtime = self._cupy.cuda.runtime
        self.number = number
        try:
            single = runtime.getDeviceCount() == 1
            self.arch: str = f"sm_{self._cupy.cuda.Device(number).compute_capability}"
            self.processors: int = runtime.deviceGetAttribute(
                runtime.cudaDevAttrMultiProcessorCount, number
            )
            self.shared: int = runtime.deviceGetAttribute(
                runtime.cudaDevAttrMaxSharedMemoryPerBlock, number
            )
        except self._errors as error:
            raise self._failed(f"Opening GPU {number}", error) from error
        if int(self.arch.removeprefix("sm_")) < _LEAST:
            raise BackendError(
                f"GPU {number} has compute capability {self.arch[3:-1]}.{self.arch[-1]}, and ftrace"
                " compiles for 7.5 (Turing) and newer.",
                "Choose another GPU (`cupy.cuda.Device`, CUDA_VISIBLE_DEVICES), or compute on the"
                " host: ftrace.device_get(x).",
            )
        self._only = nullcontext() if single else None

    def __repr__(self) -> str:
        return f"CupyDevice({self.number}, {self.arch})"

    @cached_property
    def compiler(self) -> nvrtc.Nvrtc:
        """The newest NVRTC whose machine code the driver takes."""
        return nvrtc.load(min(self._runtime.driverGetVersion() // 1000, nvrtc.MAJORS[0]))

    def allocate(self, size: int) -> Any:
        try:
            if self._only is None:
                with self._current():
                    return self._alloc(size)
            return self._alloc(size)
        except self._errors as error:
            if not _is_memory(error):
                raise self._failed("Allocating memory", error) from error
        with self._current():
            # With a limit CuPy's pool fails without giving back what it holds in reserve.
            self._cupy.get_default_memory_pool().free_all_blocks()
            try:
                return self._alloc(size)
            except self._errors as error:
                raise self._failed(f"Allocating {size:,} bytes", error) from error

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        dtype = np.dtype(dtype)
        return self.array(tuple(shape), dtype, self.allocate(math.prod(shape) * dtype.itemsize))

    def pointer(self, array: Any) -> int:
        return array.data.ptr

    def compile(self, source: str, entries: tuple[str, ...]) -> Mapping[str, Any]:
        """As the protocol says; equal texts are loaded again, so the caller keeps what it got."""
        code = cubin(source, self.arch, self.compiler)
        with self._current():
            try:
                module = self._cupy.cuda.function.Module()
                module.load(code)
                return {name: module.get_function(name) for name in entries}
            except self._errors as error:
                doing = f"Loading {', '.join(entries)}, compiled by {self.compiler},"
                advice = self._newer_driver() if getattr(error, "status", None) in _CODE else ""
                raise self._failed(doing, error, advice) from error

    def launch(
        self, function: Any, grid: Triple, block: Triple, shared: int, words: Sequence[int]
    ) -> None:
        if 0 in grid:  # CuPy would run one block
            return
        with self._current():
            try:
                function(grid, block, (block_of(words),), shared)
            except self._errors as error:
                doing = f"Starting a kernel on a grid {grid} of blocks {block}"
                raise self._failed(doing, error) from error

    def copy(self, target: int, source: int, size: int) -> None:
        if not size:
            return
        kind = self._runtime.memcpyDeviceToDevice
        with self._current():
            try:
                self._runtime.memcpyAsync(target, source, size, kind, self._stream().ptr)
            except self._errors as error:
                raise self._failed(f"Copying {size:,} bytes", error) from error

    def library(self, row: Primitive, args: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
        with self._current():
            try:
                return _evaluate(row, args, params)
            except Exception as error:
                if not _is_of_cupy(error):
                    raise
                raise self._failed(f"Running {row.name} by CuPy", error) from error

    def to_host(self, array: Any) -> Any:
        with self._current():
            try:
                return self._cupy.asnumpy(array)
            except self._errors as error:
                raise self._failed("Copying an array to the host", error) from error

    def from_host(self, array: Any) -> Any:
        """As the protocol says; the host's array may change as soon as this returns.

        Raises:
            BackendError: the current stream is captured. CuPy copies by way of memory that it uses
                again, so that each replay would read what lies there then.
        """
        if self.order()[1]:
            raise BackendError(
                "An array of the host was given to a program while its stream is captured: a"
                " replay would not find it.",
                "Bring it to the device before the capture begins: ftrace.device_put(x).",
            )
        mine = np.asarray(array, order="C")
        if self._runtime.pointerGetAttributes(mine.ctypes.data).type != _PAGEABLE:
            mine = mine.copy()  # CuPy reads page-locked memory later
        with self._current():
            try:
                if mine.ndim:
                    return self._cupy.array(mine, order="C")
                # CuPy fills arrays of rank 0 with their number, and -0.0 by zeroing the memory.
                return self._cupy.array(mine.reshape(1), order="C").reshape(())
            except self._errors as error:
                doing = f"Copying {mine.nbytes:,} bytes to the device"
                raise self._failed(doing, error) from error

    def read(self, address: int, dtype: Any) -> Any:
        dtype = np.dtype(dtype)
        kind = self._runtime.memcpyDeviceToHost
        with self._current():
            try:
                host = _here.page
                if host is None:  # page-locked: into other memory the driver copies by its own
                    host = _here.page = self._cupy.cuda.alloc_pinned_memory(_PAGE)
                stream = self._stream()
                self._runtime.memcpyAsync(host.ptr, address, dtype.itemsize, kind, stream.ptr)
                stream.synchronize()
            except self._errors as error:
                raise self._failed(f"Copying {dtype.itemsize} bytes", error) from error
        return np.frombuffer(host, dtype, 1)[0]

    def sequence(self, starts: Sequence[Start]) -> Callable[[DeviceCall], None]:
        """As the protocol says, by machine code or a CUDA graph (sequences.py)."""

        def refused(status: int, start: Start) -> BackendError:
            doing = f"Starting a kernel on a grid {start.grid} of blocks {start.block}"
            return self._failed(doing, self._cupy.cuda.driver.CUDADriverError(status))

        launches = Launches(starts, driver(), refused)

        def run_there(call: DeviceCall) -> None:
            with self._current():
                launches(call)

        return run_there if self._only is None else launches

    def order(self) -> tuple[int, bool]:
        if self._only is None:
            with self._current():
                return self._order()
        if not _here.entered:
            self._runtime.setDevice(self.number)  # the driver needs a context in each thread
            _here.entered = True
        return self._order()

    def _order(self) -> tuple[int, bool]:
        stream = self._stream()
        address: int = stream.ptr
        return address, address not in _DEFAULT and stream.is_capturing()

    def synchronize(self) -> None:
        with self._current():
            try:
                self._runtime.deviceSynchronize()
            except self._errors as error:
                raise self._failed("A kernel that was started before", error) from error

    def _current(self) -> AbstractContextManager[Any]:
        """Makes this GPU CuPy's current one, which costs something where there are several."""
        return self._only or self._cupy.cuda.Device(self.number)

    def _newer_driver(self) -> str:
        """What to do where the driver is older than the compiler; empty where it is not."""
        major, minor = self.compiler.version
        driver = self._runtime.driverGetVersion()
        if (driver // 1000, driver % 1000 // 10) >= (major, minor):
            return ""
        return (
            f"The driver is made for CUDA {_version(driver)}: install a newer one, or a compiler"
            f" that is not newer, `pip install 'nvidia-cuda-nvrtc=={_version(driver)}.*'`."
        )

    def _failed(self, doing: str, error: Exception, advice: str = "") -> BackendError:
        """An error of CUDA or CuPy in our words."""
        if not _is_memory(error):
            return _failed(f"{doing} on GPU {self.number}", error, advice)
        free, total = self._runtime.memGetInfo()
        pool = self._cupy.get_default_memory_pool()
        return DeviceMemoryError(
            f"{doing} on GPU {self.number} failed: {free:,} of its {total:,} bytes are free, and"
            f" CuPy's pool holds {pool.total_bytes():,}, of which {pool.used_bytes():,} are in"
            f" use ({error}).",
            "Free arrays that are not needed any more, or work on smaller parts.",
        )


def block_of(words: Sequence[int]) -> Any:
    """64-bit words as a kernel's argument: a NumPy array of one element that holds them all.

    Words from 2**63 on are bit patterns of unsigned numbers.
    """
    layout = f"{len(words)}q"
    try:
        packed = struct.pack(layout, *words)
    except struct.error:
        packed = struct.pack(layout.upper(), *(int(word) % (1 << 64) for word in words))
    return np.frombuffer(packed, _block_type(len(packed)))


@cache
def _block_type(size: int) -> Any:
    return np.dtype((np.void, size))


@cache
def _working_cupy() -> tuple[Any, tuple[type[Exception], ...]]:
    """CuPy with at least one GPU, and the kinds of errors that it raises for CUDA's."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise BackendError(
            f"Arrays on a GPU need CuPy, which cannot be imported: {error}",
            "Install it with `pip install 'ftrace[cuda13]'`, or 'ftrace[cuda12]' where"
            " `nvidia-smi` shows a CUDA version below 13.",
        ) from error
    if _forked:
        raise _after(f"{_forked[0]} was opened by the process that this one is a fork of.")
    cuda = cupy.cuda
    errors = (
        cuda.runtime.CUDARuntimeError,
        cuda.driver.CUDADriverError,
        cuda.memory.OutOfMemoryError,
    )
    try:
        count, reason = cuda.runtime.getDeviceCount(), ""
    except errors as error:
        if getattr(error, "status", None) == _NOT_INITIALISED:
            raise _after(f"CuPy sees no GPU in this process ({error}).") from error
        count, reason = 0, str(error)
    if not count:
        raise _without_device(cuda.runtime, reason)
    return cupy, errors


def _after(what: str) -> BackendError:
    return BackendError(
        f"{what} CUDA works in no process that was forked from one that had used it.",
        "Start processes by `multiprocessing.get_context('spawn')`, or fork before the first array"
        " of a GPU is made.",
    )


def _without_device(runtime: Any, reason: str) -> BackendError:
    """Why CuPy sees no GPU."""
    driver, built = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if not driver:
        return BackendError(
            f"This machine has no NVIDIA driver, so CuPy sees no GPU ({reason}).",
            "Install the driver (580 or newer for CUDA 13, 525 for CUDA 12); `nvidia-smi` must"
            " work.",
        )
    if driver // 1000 < built // 1000:
        return BackendError(
            f"The NVIDIA driver is made for CUDA {_version(driver)}, and CuPy for CUDA"
            f" {_version(built)} ({reason}).",
            f"Install the other CuPy (`pip uninstall cupy-cuda{built // 1000}x`, then `pip install"
            f" 'ftrace[cuda{driver // 1000}]'`), or a newer driver.",
        )
    return BackendError(
        f"There is a driver for CUDA {_version(driver)}, but CuPy sees no GPU ({reason}).",
        "Look at `nvidia-smi` and at the variable CUDA_VISIBLE_DEVICES.",
    )


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _is_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or getattr(error, "status", None) == _OUT_OF_MEMORY


def _is_of_cupy(error: Exception) -> bool:
    """Whether an error is of a library of CUDA's, or of CuPy's pool or compiler.

    The types are not asked for: their modules load the libraries.
    """
    return type(error).__module__.partition(".")[0] in ("cupy", "cupy_backends")


def _failed(doing: str, error: Exception, advice: str = "") -> BackendError:
    if _forked or getattr(error, "status", None) == _NOT_INITIALISED:
        return _after(f"{doing} failed: {error}.")
    return BackendError(
        f"{doing} failed: {error}.",
        advice
        or "CUDA reports errors of a kernel at a later call: with CUDA_LAUNCH_BLOCKING=1 in the"
        " environment it is at the right one. After an illegal address start a new process.",
    )

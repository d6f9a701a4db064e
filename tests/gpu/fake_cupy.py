"""What `CupyDevice` uses of CuPy, over the host's memory, and as strict as CuPy about arguments.

Addresses are the host's; a kernel is a Python function of its words. While a stream is captured
nothing runs: what would run is kept by the graph. `calls` is the list of what was asked, in order;
`trouble` maps a call's name to the error that it raises next.
"""

import ctypes
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from tests.gpu.fake_driver import FakeDriver


class CudaError(RuntimeError):
    __module__ = "cupy_backends.cuda"

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class CUDARuntimeError(CudaError):
    __module__ = "cupy_backends.cuda.api.runtime"


class CUBLASError(CudaError):
    __module__ = "cupy_backends.cuda.libs.cublas"


class OutOfMemoryError(MemoryError):
    __module__ = "cupy.cuda.memory"


STATUSES = {
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS",
}


class CUDADriverError(CudaError):
    __module__ = "cupy_backends.cuda.api.driver"

    def __init__(self, status, text=""):
        super().__init__(status, text or STATUSES[status])


class Pinned(bytearray):
    """Page-locked memory."""

    @property
    def ptr(self):
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


class Array(SimpleNamespace):
    """A device array: `data.ptr`, `data.device_id`, and the host's array behind it."""

    def reshape(self, shape):
        return device_array(self.host.reshape(shape), self.data.device_id)


def device_array(host, number=0):
    return Array(host=host, data=SimpleNamespace(ptr=host.ctypes.data, device_id=number))


def ndarray(shape, dtype, place):
    """An array over memory that was allocated."""
    assert type(shape) is tuple
    array = device_array(place.host.view(dtype).reshape(shape), place.device_id)
    assert array.data.ptr == place.ptr
    return array


class Pool:
    def __init__(self, fake):
        self.fake = fake

    def free_all_blocks(self):
        self.fake.note("free_all_blocks")

    def used_bytes(self):
        return 700

    def total_bytes(self):
        return 1000


class Stream:
    def __init__(self, fake, ptr, non_blocking=False):
        self.fake, self.ptr, self.non_blocking, self.captured = fake, ptr, non_blocking, None

    def __enter__(self):
        self.fake.entered.append(self)
        return self.use()

    def __exit__(self, *error):
        """As CuPy: what was current by `use` is forgotten."""
        self.fake.entered.pop()
        self.fake.stream = self.fake.entered[-1]

    def use(self):
        self.fake.stream = self
        return self

    def synchronize(self):
        self.fake.note("streamSynchronize", self.ptr)

    def is_capturing(self):
        return self.captured is not None

    def begin_capture(self):
        assert self.ptr not in (0, 1), "cannot capture on the default stream"
        self.fake.note("begin_capture", self.ptr)
        self.captured = []

    def end_capture(self):
        work, self.captured = self.captured, None
        self.fake.note("end_capture", self.ptr)
        return Graph(self.fake, work)


class Graph:
    def __init__(self, fake, work):
        self.fake, self.work = fake, work

    def launch(self, stream=None):
        stream = stream or self.fake.stream
        assert stream.captured is None, "a graph is launched into a stream that is captured"
        self.fake.note("graph.launch", stream.ptr)
        for step in self.work:
            step()


class Module:
    """As `cupy.cuda.function.Module`: kernels come from the fake's `kernels`."""

    def __init__(self, fake):
        self.fake, self.loaded = fake, False

    def load(self, cubin):
        assert type(cubin) is bytes
        self.fake.note("Module.load", cubin[:4])
        self.loaded = True

    def get_function(self, name):
        assert self.loaded
        if name not in self.fake.kernels:
            raise CUDADriverError(500, f"CUDA_ERROR_NOT_FOUND: {name}")
        return Function(self, self.fake.kernels[name])


class Function:
    def __init__(self, module, kernel):
        self.module, self.kernel = module, kernel
        fake = module.fake
        self.ptr = fake.driver.function(lambda words: kernel(words), fake.words).ptr

    def __call__(self, grid, block, args, shared_mem=0, stream=None):
        fake = self.module.fake
        assert type(grid) is tuple
        assert type(block) is tuple
        grid, block = (tuple(max(1, n) for n in (*three, 1, 1)[:3]) for three in (grid, block))
        (words,) = args
        assert isinstance(words, np.ndarray)
        assert words.size == 1
        # the driver copies the bytes before the call returns
        size = words.itemsize // 8
        given = (ctypes.c_int64 * size).from_address(words.__array_interface__["data"][0])
        copied = list(given)
        fake.note("launch", grid, block, shared_mem, fake.stream.ptr)
        fake.work(lambda: self.kernel(copied))


class FakeCupy:
    """The module `cupy` with some devices; `devices` is the stack of current ones."""

    def __init__(self, devices=1):
        self.calls, self.trouble, self.kernels = [], {}, {}
        self.devices, self.numbers = [0], devices
        self.pinned = set()  # addresses of page-locked memory
        self.pool, self.words = Pool(self), 1  # words of each kernel
        self.driver = FakeDriver(lambda stream, step: self.work(step))
        self.stream = Stream(self, 0)
        self.entered = [self.stream]
        made = iter(range(7, 1000))
        self.cuda = SimpleNamespace(
            runtime=self._runtime(),
            driver=SimpleNamespace(CUDADriverError=CUDADriverError),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            function=SimpleNamespace(Module=lambda: Module(self)),
            Device=self._device,
            Stream=lambda non_blocking=False: Stream(self, next(made), non_blocking),
            get_current_stream=lambda: self.stream,
            alloc=self._alloc,
            alloc_pinned_memory=self._pinned,
        )
        self.ndarray = ndarray

    def note(self, name, *rest):
        self.calls.append((name, *rest))
        if self.trouble.get(name):
            raise self.trouble[name].pop(0)

    def work(self, step):
        captured = self.stream.captured
        step() if captured is None else captured.append(step)

    # --- module level

    def array(self, host, order):
        assert (type(host), order) == (np.ndarray, "C")
        self.note("array")
        if host.ndim == 0 and host == 0:  # filled by zeroing the memory
            host = np.zeros_like(host)
        if host.ctypes.data not in self.pinned:  # that is read later
            host = host.copy()
        return device_array(host, self.devices[-1])

    def asnumpy(self, array):
        self.note("asnumpy")
        return np.array(array.host, order="C")

    def get_default_memory_pool(self):
        return self.pool

    # --- cuda

    def _runtime(self):
        return SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            memcpyDeviceToHost=2,
            memcpyDeviceToDevice=3,
            cudaDevAttrMultiProcessorCount=16,
            cudaDevAttrMaxSharedMemoryPerBlock=8,
            deviceGetAttribute=self._attribute,
            getDeviceCount=self._count,
            getDevice=lambda: self.devices[-1],
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13020,
            memGetInfo=lambda: (12345, 150000),
            memcpyAsync=self._memcpy,
            setDevice=lambda number: self.note("setDevice", number),
            pointerGetAttributes=self._attributes,
            deviceSynchronize=lambda: self.note("deviceSynchronize"),
        )

    def _count(self):
        self.note("getDeviceCount")
        return self.numbers

    def _attribute(self, attribute, number):
        self.note("deviceGetAttribute", attribute)
        return {16: 132, 8: 49152}[attribute]

    def _memcpy(self, target, source, size, kind, stream):
        assert all(type(word) is int for word in (target, source, size, kind, stream))
        self.note("memcpyAsync", size, kind, stream, self.devices[-1])
        self.work(lambda: ctypes.memmove(target, source, size))

    def _device(self, number):
        @contextmanager
        def current():
            self.devices.append(number)
            try:
                yield
            finally:
                self.devices.pop()

        device = current()
        device.compute_capability = "90"
        return device

    def _alloc(self, size):
        self.note("alloc", size)
        host = np.full(size, 7, np.uint8)
        return SimpleNamespace(host=host, ptr=host.ctypes.data, device_id=self.devices[-1])

    def _pinned(self, size):
        self.note("alloc_pinned_memory", size)
        return Pinned(size)

    def _attributes(self, address):
        return SimpleNamespace(type=1 if address in self.pinned else 0)

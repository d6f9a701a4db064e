"""The real device: what it asks of CuPy, in which order, and what it says when that fails.

Most of it runs over a stand-in for CuPy (fake_cupy.py), the argument of a launch also through
CuPy's own code; the last part needs a GPU.
"""

import gc
import importlib
import os
import subprocess
import sys
import threading
import types
import weakref
from pathlib import Path

import numpy as np
import pytest

from ftrace import errors, jit
from ftrace.core.lazy import Lazy
from ftrace.gpu.runtime import cubin as compiling
from ftrace.gpu.runtime import cupy_device, nvrtc
from ftrace.gpu.runtime.cupy_device import CupyDevice, block_of, device_of
from ftrace.gpu.runtime.current_device import current, using
from ftrace.primitives.elementwise import sin
from tests.gpu.fake_cupy import (
    CUBLASError,
    CUDADriverError,
    CUDARuntimeError,
    FakeCupy,
    OutOfMemoryError,
)

HERE = Path(__file__).resolve().parents[2]
ILLEGAL = (700, "cudaErrorIllegalAddress: an illegal memory access was encountered")


@pytest.fixture(autouse=True)
def _nothing_is_remembered():
    yield
    cupy_device._working_cupy.cache_clear()


def installed(monkeypatch, fake):
    """Let the fake be the module `cupy` of what is made from now on."""
    found = importlib.import_module

    def load(name, *rest):
        return fake if name == "cupy" else found(name, *rest)

    cupy_device._working_cupy.cache_clear()
    monkeypatch.setattr(importlib, "import_module", load)
    monkeypatch.setattr(cupy_device, "_devices", {})


@pytest.fixture
def fake(monkeypatch):
    made = FakeCupy()
    installed(monkeypatch, made)
    return made


@pytest.fixture
def device(fake):
    made = CupyDevice(0)
    fake.calls.clear()
    return made


def kernel(device, fake, monkeypatch, python):
    """A Python function of its words as a kernel of the device."""
    fake.kernels["k"] = python
    monkeypatch.setattr(cupy_device, "cubin", lambda source, arch, compiler: b"\x7fELF")
    return device.compile("text", ("k",))["k"]


# --- which device ------------------------------------------------------------------------------


def test_importing_ftrace_imports_no_cupy():
    program = (
        "import sys, ftrace, ftrace.gpu.runtime.cubin, ftrace.gpu.runtime.cupy_device\n"
        "print('cupy' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE)
    assert done.stdout.strip() == "False"


def test_the_device_is_the_one_that_holds_the_array(monkeypatch):
    fake = FakeCupy(devices=2)
    installed(monkeypatch, fake)
    first, second = device_of(), device_of(types.SimpleNamespace(data=fake.empty((2,), "f4").data))
    assert first is second
    array = types.SimpleNamespace(data=types.SimpleNamespace(ptr=64, device_id=1))
    assert current(array).number == 1
    assert current(array) is current(array)
    assert current() is first
    assert (first.arch, first.processors, first.shared) == ("sm_90", 132, 49152)
    assert repr(current(array)) == "CupyDevice(1, sm_90)"


def test_a_cupy_array_says_on_which_device_it_is():
    cupy = pytest.importorskip("cupy")
    host = np.arange(4.0)
    memory = cupy.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, 3)
    array = cupy.ndarray((4,), float, cupy.cuda.MemoryPointer(memory, 0))
    assert array.data.device_id == 3
    assert array[1:].data.ptr == host.ctypes.data + 8


def test_a_device_may_be_chosen_for_a_while_in_one_thread(fake):
    mine, other = object(), object()
    seen = []
    with pytest.raises(KeyError), using(other):
        raise KeyError
    with using(mine) as given:
        assert given is mine
        assert current() is mine
        with using(other):
            assert current() is other
        assert current() is mine
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert isinstance(seen[0], CupyDevice)
    assert current() is seen[0]


def test_work_is_done_on_the_device_that_was_asked(monkeypatch):
    fake = FakeCupy(devices=2)
    installed(monkeypatch, fake)
    array = CupyDevice(1).empty((2, 3), np.float32)
    assert array.data.device_id == 1
    other = np.zeros(6, np.float32)
    CupyDevice(1).copy(other.ctypes.data, array.data.ptr, 24)
    assert fake.calls[-1] == ("memcpyAsync", 24, 3, 0, 1)
    assert fake.devices == [0]
    assert (other == 7).all()


# --- the block of words -------------------------------------------------------------------------


def words_of(block):
    """What a kernel finds in its parameter: 64-bit words at the array's address."""
    address = block.__array_interface__["data"][0]
    count = block.itemsize // 8
    return list((np.ctypeslib.ctypes.c_int64 * count).from_address(address))


@pytest.mark.parametrize("count", [1, 2, 15, 500])
def test_words_lie_one_after_the_other_in_one_element(count):
    words = [(-1) ** n * n * 2**40 for n in range(count)]
    block = block_of(words)
    assert (block.size, block.nbytes) == (1, 8 * count)
    assert words_of(block) == words


def test_words_are_signed_numbers_or_bit_patterns():
    quiet = int(np.array(-np.inf).view(np.uint64))
    words = [-1, 2**63, quiet, 2**64 - 1, -(2**63), 2**63 - 1, np.int64(-5), np.uint64(2**63 + 1)]
    assert words_of(block_of(words)) == [
        -1,
        -(2**63),
        quiet - 2**64,
        -1,
        -(2**63),
        2**63 - 1,
        -5,
        -(2**63) + 1,
    ]
    assert words_of(block_of(np.arange(3) - 1)) == [-1, 0, 1]


def test_cupy_takes_the_block_as_a_kernels_argument():
    function = pytest.importorskip("cupy").cuda.function
    launched = function.Function.__new__(function.Function)
    stream = types.SimpleNamespace(ptr=0)

    def start(argument):
        launched((1, 1, 1), (1, 1, 1), (argument,), 0, stream)

    with pytest.raises(TypeError, match="size one"):  # arguments are looked at before the driver
        start(np.zeros(2))
    with pytest.raises(TypeError):
        start(object())
    if no_device():
        with pytest.raises(RuntimeError, match=r"libcuda|driver"):
            start(block_of([1, 2, 3]))
    function.CNumpyArray(block_of([1, 2, 3]))


# --- what is asked of CuPy ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (2, 0), (2, 3)])
def test_a_number_of_the_host_keeps_its_sign_and_shape(device, shape):
    there = device.from_host(np.full(shape, -0.0))
    found = device.to_host(there)
    assert found.shape == shape
    assert np.signbit(found).all()


def test_a_launch_is_one_call_on_the_current_stream(device, fake, monkeypatch):
    seen = []
    function = kernel(device, fake, monkeypatch, seen.append)
    assert fake.calls == [("Module.load", b"\x7fELF")]
    fake.calls.clear()
    with fake.cuda.Stream() as stream:
        device.launch(function, (3, 2, 1), (64, 1, 1), 128, [1, -2, 2**63])
    assert fake.calls == [("launch", (3, 2, 1), (64, 1, 1), 128, stream.ptr)]
    assert seen == [[1, -2, -(2**63)]]


@pytest.mark.parametrize("grid", [(0, 1, 1), (4, 0, 1), (4, 1, 0)])
def test_an_empty_grid_starts_nothing(device, fake, monkeypatch, grid):
    function = kernel(device, fake, monkeypatch, lambda words: None)
    fake.calls.clear()
    device.launch(function, grid, (64, 1, 1), 0, [1])
    assert fake.calls == []


def test_machine_code_is_made_for_the_device_by_a_compiler_that_fits_the_driver(
    device, fake, monkeypatch
):
    asked = []
    monkeypatch.setattr(nvrtc, "load", lambda newest: asked.append(newest) or "compiler")
    monkeypatch.setattr(
        cupy_device, "cubin", lambda *arguments: asked.append(arguments) or b"\x7fELF"
    )
    fake.kernels.update(a=None, b=None)
    for version, newest in ((12040, 12), (13000, 13), (14010, 13)):
        fake.cuda.runtime.driverGetVersion = lambda version=version: version
        made = CupyDevice(0)
        assert list(made.compile("text", ("a", "b"))) == ["a", "b"]
        assert asked == [newest, ("text", "sm_90", "compiler")]
        asked.clear()


def test_copies_are_started_and_not_waited_for(device, fake):
    source, target = np.arange(4.0), np.zeros(4)
    with fake.cuda.Stream() as stream:
        device.copy(target.ctypes.data + 8, source.ctypes.data, 16)
    assert fake.calls == [("memcpyAsync", 16, 3, stream.ptr, 0)]
    assert list(target) == [0, 0, 1, 0]
    device.copy(0, 0, 0)
    assert len(fake.calls) == 1


@pytest.mark.parametrize("value", [np.bool_(True), np.int32(-3), np.float32(0.1), np.float64(7)])
def test_read_waits_and_gives_a_scalar_of_the_dtype(device, fake, value):
    memory = np.array([0, value], value.dtype)
    with fake.cuda.Stream() as stream:
        found = device.read(memory.ctypes.data + value.itemsize, value.dtype)
    assert type(found) is type(value)
    assert found == value
    assert fake.calls == [
        ("memcpyAsync", value.itemsize, 2, stream.ptr, 0),
        ("streamSynchronize", stream.ptr),
    ]


def test_arrays_go_and_come_in_c_order(device):
    host = np.arange(6.0).reshape(2, 3)
    there, turned = device.from_host(host), device.from_host(host.T)
    assert device.pointer(there) == there.data.ptr
    host[0, 0] = 99  # what was sent is what was there
    assert device.to_host(there).tolist() == [[0, 1, 2], [3, 4, 5]]
    back = device.to_host(turned)
    assert back.flags.c_contiguous
    assert back.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_synchronize_waits_for_the_device(device, fake):
    device.synchronize()
    assert fake.calls == [("deviceSynchronize",)]


def test_rows_go_to_the_library(device, monkeypatch):
    seen = []
    evaluate = lambda row, args, params: seen.append((row, args, params)) or ["result"]  # noqa: E731
    monkeypatch.setattr(cupy_device, "_evaluate", evaluate)
    assert device.library(sin, ["x"], {"a": 1}) == ["result"]
    assert seen == [(sin, ["x"], {"a": 1})]
    assert isinstance(cupy_device.lazy("ftrace.gpu.eager.cupy_library", "evaluate"), Lazy)


# --- recording ----------------------------------------------------------------------------------


def test_a_recording_runs_nothing_until_it_is_called_and_then_each_time(device, fake, monkeypatch):
    x = np.array([1.0, 0.0])

    def double(words):
        x[0] *= words[0]

    function = kernel(device, fake, monkeypatch, double)
    fake.calls.clear()

    def program():
        device.launch(function, (1, 1, 1), (32, 1, 1), 0, [2])
        device.copy(x.ctypes.data + 8, x.ctypes.data, 8)

    replay = device.record(program)
    names = [call[0] for call in fake.calls]
    assert names == ["begin_capture", "launch", "memcpyAsync", "end_capture"]
    captured = {call[-1] for call in fake.calls[:2]} | {fake.calls[2][3]}
    assert captured == {7}  # all on the stream that is captured
    assert list(x) == [1, 0]
    fake.calls.clear()
    with fake.cuda.Stream() as stream:
        replay()
    assert fake.calls == [("graph.launch", stream.ptr)]
    assert list(x) == [2, 2]
    replay()
    assert list(x) == [4, 4]


def test_a_recording_leaves_the_current_stream_as_it_was(device, fake):
    mine = fake.cuda.Stream().use()
    device.record(lambda: None)
    assert fake.stream is mine
    with fake.cuda.Stream() as other:
        device.record(lambda: None)
        assert fake.stream is other


def test_a_recording_keeps_its_memory_and_its_functions(device, fake):
    pools, arrays = [], []

    class Kept:
        def __call__(self):
            pools.append(weakref.ref(fake.allocators[-1].__self__))
            arrays.append(device.empty((3,), np.float32))

    program = Kept()
    kept = weakref.ref(program)
    replay = device.record(program)
    assert fake.allocators == []
    del program
    gc.collect()
    assert pools[0]() is not None
    assert pools[0]() is not fake.pool
    assert kept() is not None
    del replay
    gc.collect()
    assert pools[0]() is None
    assert kept() is None


def test_in_a_stream_that_is_captured_a_recording_is_captured_again(device, fake, monkeypatch):
    """CUDA launches no graph there."""
    seen = []
    function = kernel(device, fake, monkeypatch, seen.append)
    replay = device.record(lambda: device.launch(function, (1, 1, 1), (32, 1, 1), 0, [5]))
    with fake.cuda.Stream() as stream:
        stream.begin_capture()
        replay()
        graph = stream.end_capture()
    assert seen == []
    graph.launch()
    replay()
    assert seen == [[5], [5]]


def test_nothing_of_the_host_goes_into_a_stream_that_is_captured(device, fake):
    with fake.cuda.Stream() as stream:
        stream.begin_capture()
        assert device.capturing()
        with pytest.raises(errors.BackendError, match=r"(?s)captured.*device_put"):
            device.from_host(np.ones(3))
        stream.end_capture()
        assert device.from_host(np.ones(3)).host.tolist() == [1, 1, 1]


def test_an_error_while_recording_ends_the_capture_and_is_the_one_that_is_told(device, fake):
    def program():
        raise KeyError("mine")

    ended = (901, "cudaErrorStreamCaptureInvalidated")
    fake.trouble["end_capture"] = [CUDARuntimeError(*ended)]
    with pytest.raises(KeyError, match="mine"):
        device.record(program)
    assert [call[0] for call in fake.calls] == ["begin_capture", "end_capture"]
    assert fake.stream.ptr == 0
    fake.trouble["end_capture"] = [CUDARuntimeError(*ended)]
    with pytest.raises(errors.BackendError, match=r"Recording a program on GPU 0 failed.*Inv"):
        device.record(lambda: None)


# --- errors -------------------------------------------------------------------------------------


def test_too_little_memory_gives_the_pool_back_and_tries_once_more(device, fake):
    fake.trouble["empty"] = [OutOfMemoryError("Out of memory allocating 4,800 bytes")]
    assert device.empty([30, 40], np.float32).host.shape == (30, 40)
    assert [call[0] for call in fake.calls] == ["empty", "free_all_blocks", "empty"]


def test_too_little_memory_names_the_sizes_and_the_next_call_works(device, fake):
    fake.trouble["empty"] = [OutOfMemoryError("limit set to: 9 bytes")] * 2
    with pytest.raises(errors.DeviceMemoryError) as caught:
        device.empty((30, 40), np.float32)
    said = str(caught.value)
    assert "Allocating 4,800 bytes for an array float32[30, 40] on GPU 0 failed" in said
    assert "12,345 of its 150,000 bytes are free" in said
    assert "pool holds 1,000, of which 700 are in use" in said
    assert "limit set to: 9 bytes" in said
    assert "Free arrays" in said
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value, errors.BackendError)
    assert device.empty((30, 40), np.float32).host.shape == (30, 40)


def test_a_size_beyond_64_bits_is_named_too(device, fake):
    fake.trouble["empty"] = [OutOfMemoryError("?"), OutOfMemoryError("?")]
    fake.empty = lambda shape, dtype: fake.note("empty", shape)
    with pytest.raises(errors.DeviceMemoryError, match="36,893,488,147,419,103,232 bytes"):
        device.empty((2**62,), np.float64)


def test_memory_that_is_missing_elsewhere_is_the_same_error(device, fake, monkeypatch):
    function = kernel(device, fake, monkeypatch, lambda words: None)
    fake.trouble["launch"] = [CUDADriverError(2, "CUDA_ERROR_OUT_OF_MEMORY")]
    with pytest.raises(errors.DeviceMemoryError, match="Starting a kernel"):
        device.launch(function, (1, 1, 1), (1, 1, 1), 0, [1])
    fake.trouble["array"] = [OutOfMemoryError("?")]
    with pytest.raises(errors.DeviceMemoryError, match="Copying 24 bytes to the device"):
        device.from_host(np.zeros(3))


def attempts(device, function):
    """Every call that reaches the driver: what is done, by which call of CuPy's, what is said."""

    def raising(row, args, params):
        raise CUDARuntimeError(*ILLEGAL)

    cupy_device._evaluate = raising
    return [
        ("empty", lambda: device.empty((2,), "f4"), "Allocating an array"),
        ("Module.load", lambda: device.compile("text", ("k",)), "Loading k, compiled by"),
        (
            "launch",
            lambda: device.launch(function, (4, 1, 1), (64, 1, 1), 0, [1]),
            r"Starting a kernel on a grid \(4, 1, 1\) of blocks \(64, 1, 1\)",
        ),
        ("memcpyAsync", lambda: device.copy(1, 2, 3000), "Copying 3,000 bytes"),
        ("memcpyAsync", lambda: device.read(1, "f4"), "Copying 4 bytes"),
        ("asnumpy", lambda: device.to_host(None), "Copying an array to the host"),
        ("array", lambda: device.from_host(np.zeros(3)), "Copying 24 bytes to the device"),
        ("deviceSynchronize", device.synchronize, "A kernel that was started before"),
        ("begin_capture", lambda: device.record(lambda: None), "Recording a program"),
        ("graph.launch", device.record(lambda: None), "Replaying a program"),
        ("library", lambda: device.library(sin, [], {}), "Running sin by CuPy"),
    ]


def test_errors_of_cuda_say_what_was_done_and_what_to_do(device, fake, monkeypatch):
    function = kernel(device, fake, monkeypatch, lambda words: None)
    monkeypatch.setattr(cupy_device, "_evaluate", None)
    for kind in (CUDARuntimeError, CUDADriverError):
        for name, call, doing in attempts(device, function):
            fake.trouble[name] = [kind(*ILLEGAL)]
            message = rf"(?s){doing} .*on GPU 0 failed: cudaErrorIllegalAddress.*CUDA_LAUNCH_BLO"
            with pytest.raises(errors.BackendError, match=message.replace(" .*on", ".*on")):
                call()
            assert fake.devices == [0]


def test_errors_of_libraries_say_what_was_done(device, fake, monkeypatch):
    def failing(row, args, params):
        raise CUBLASError(3, "CUBLAS_STATUS_ALLOC_FAILED")

    monkeypatch.setattr(cupy_device, "_evaluate", failing)
    with pytest.raises(
        errors.BackendError,
        match=r"Running sin by CuPy on GPU 0 failed: CUBLAS_STATUS_ALLOC_FAILED",
    ) as e:
        device.library(sin, [], {})
    assert isinstance(e.value.__cause__, CUBLASError)


def test_errors_of_rows_stay_what_they_are(device, monkeypatch):
    def failing(row, args, params):
        raise IndexError("mine")

    monkeypatch.setattr(cupy_device, "_evaluate", failing)
    with pytest.raises(IndexError, match="mine"):
        device.library(sin, [], {})


def test_other_errors_are_not_ours(device, fake):
    fake.trouble["empty"] = [ValueError("mine")]
    with pytest.raises(ValueError, match="mine"):
        device.empty((2,), "f4")


def test_a_function_that_a_module_lacks_is_an_error(device, fake, monkeypatch):
    kernel(device, fake, monkeypatch, lambda words: None)
    with pytest.raises(errors.BackendError, match=r"Loading k, absent.*NOT_FOUND: absent"):
        device.compile("text", ("k", "absent"))


def test_a_refused_kernel_is_told_before_the_driver_is_asked(device, fake):
    pytest.importorskip("nvidia")
    with pytest.raises(errors.KernelError, match="refuses a generated kernel for sm_90"):
        device.compile('extern "C" __global__ void k() { wrong }', ("k",))
    assert fake.calls == []


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    found = importlib.import_module

    def load(name, *rest):
        if name == "cupy":
            raise ImportError("No module named 'cupy'")
        return found(name, *rest)

    cupy_device._working_cupy.cache_clear()
    monkeypatch.setattr(importlib, "import_module", load)
    with pytest.raises(errors.BackendError, match=r"(?s)No module named 'cupy'.*ftrace\[cuda13\]"):
        current()


@pytest.mark.parametrize(
    ("driver", "built", "message"),
    [
        (0, 13020, r"(?s)no NVIDIA driver.*insufficient.*580 or newer"),
        (12040, 13020, r"(?s)made for CUDA 12\.4, and CuPy for CUDA 13\.2.*ftrace\[cuda12\]"),
        (13000, 13020, r"(?s)driver for CUDA 13\.0, but CuPy sees no GPU.*CUDA_VISIBLE_DEVICES"),
        (13000, 12090, r"(?s)driver for CUDA 13\.0, but CuPy sees no GPU.*nvidia-smi"),
    ],
)
def test_without_a_device_the_error_says_why(monkeypatch, driver, built, message):
    fake = FakeCupy()
    installed(monkeypatch, fake)
    fake.cuda.runtime.driverGetVersion = lambda: driver
    fake.cuda.runtime.runtimeGetVersion = lambda: built
    fake.trouble["getDeviceCount"] = [CUDARuntimeError(35, "cudaError: insufficient")] * 2
    with pytest.raises(errors.BackendError, match=message):
        current()
    with pytest.raises(errors.BackendError, match=message):
        CupyDevice(0)
    assert isinstance(current(), CupyDevice)  # the driver has come: nothing was remembered


def test_a_machine_whose_devices_are_hidden_says_so(monkeypatch):
    installed(monkeypatch, FakeCupy(devices=0))
    with pytest.raises(errors.BackendError, match="CuPy sees no GPU"):
        current()


def test_a_device_that_is_not_there_is_an_error(fake):
    fake.trouble["deviceGetAttribute"] = [CUDARuntimeError(101, "cudaErrorInvalidDevice")]
    with pytest.raises(errors.BackendError, match="Opening GPU 5 on GPU 5 failed: cudaErrorInv"):
        CupyDevice(5)


def test_a_gpu_that_is_too_old_is_named(monkeypatch):
    fake = FakeCupy()
    installed(monkeypatch, fake)
    make = fake.cuda.Device

    def old(number):
        made = make(number)
        made.compute_capability = "70"
        return made

    monkeypatch.setattr(fake.cuda, "Device", old)
    with pytest.raises(errors.BackendError, match=r"GPU 0 has compute capability 7\.0.*7\.5"):
        CupyDevice(0)


def test_a_driver_older_than_the_compiler_is_told_with_code_that_it_refuses(
    device, fake, monkeypatch
):
    monkeypatch.setattr(cupy_device, "cubin", lambda source, arch, compiler: b"\x7fELF")
    for version, found in (((13, 4), "The driver is made for CUDA 13.0"), ((13, 0), "CUDA_LAUNCH")):
        monkeypatch.setattr(device.compiler, "version", version)
        fake.trouble["Module.load"] = [CUDADriverError(209, "CUDA_ERROR_NO_BINARY_FOR_GPU")]
        with pytest.raises(errors.BackendError, match=f"(?s)NO_BINARY_FOR_GPU.*{found}"):
            device.compile("text", ("k",))


FORKED = """
import os, sys
from ftrace.errors import BackendError
from ftrace.gpu.runtime import cupy_device
from tests.gpu.fake_cupy import CUDARuntimeError, FakeCupy

fake = sys.modules["cupy"] = FakeCupy()
device = cupy_device.device_of()
reader, writer = os.pipe()
if not os.fork():
    said = []
    for use in (cupy_device.device_of, lambda: device.empty((3,), "f4")):
        fake.trouble["empty"] = [CUDARuntimeError(1, "cudaErrorInvalidValue")]
        try:
            use()
            said.append("nothing")
        except BackendError as error:
            said.append(error.what)
    os.write(writer, "\\n".join(said).encode())
    os._exit(0)
os.wait()
print(os.read(reader, 10000).decode())
assert cupy_device.device_of() is device
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_of_a_process_that_used_a_gpu_is_refused_by_name():
    told = subprocess.run(
        [sys.executable, "-c", FORKED], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert told == [
        "CupyDevice(0, sm_90) was opened by the process that this one is a fork of. CUDA works in"
        " no process that was forked from one that had used it.",
        "Allocating an array on GPU 0 failed: cudaErrorInvalidValue. CUDA works in no process that"
        " was forked from one that had used it.",
    ]


def test_a_driver_that_is_not_initialised_says_so_too(fake):
    fake.trouble["getDeviceCount"] = [CUDARuntimeError(3, "cudaErrorInitializationError")]
    with pytest.raises(errors.BackendError, match=r"(?s)sees no GPU in this process.*'spawn'"):
        device_of()


def test_real_cupy_without_a_driver_gives_the_same_words():
    pytest.importorskip("cupy")
    if not no_device():
        pytest.skip("there is a device")
    cupy_device._working_cupy.cache_clear()
    with pytest.raises(errors.BackendError, match="CuPy sees no GPU"):
        current()


# --- on a GPU -----------------------------------------------------------------------------------


def no_device():
    """Why there is no real device here, or ""."""
    cupy_device._working_cupy.cache_clear()
    try:
        device_of()
    except errors.BackendError as error:
        return str(error).splitlines()[0]
    return ""


@pytest.fixture
def gpu():
    reason = no_device()
    if reason:
        pytest.skip(reason)
    return device_of()


WORDS = "template <int N> struct Words { long long w[N]; };\n"
KERNELS = (
    WORDS
    + """
extern "C" __global__ void quotient(const Words<5> a) {
  const float* x = (const float*) a.w[0];
  const float* y = (const float*) a.w[1];
  float* z = (float*) a.w[2];
  const long long i = blockIdx.x * (long long) blockDim.x + threadIdx.x;
  if (i < a.w[3]) z[i] = x[i] / y[i] + __int_as_float((int) a.w[4]);
}
extern "C" __global__ void places(const Words<1> a) {
  const int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  ((int*) a.w[0])[b * blockDim.x * blockDim.y * blockDim.z + i] = 1000 * b + i;
}
extern "C" __global__ void copied(const Words<300> a) {
  for (int n = 0; n < 300; n++) ((long long*) a.w[299])[n] = a.w[n];
}
extern "C" __global__ void grown(const Words<1> a) { *(float*) a.w[0] *= 2.0f; }
"""
)


@pytest.fixture
def functions(gpu):
    return gpu.compile(KERNELS, ("quotient", "places", "copied", "grown"))


def bits(value):
    return int(np.float32(value).view(np.int32))


@pytest.mark.gpu
def test_a_gpu_says_what_it_is(gpu):
    assert gpu.arch.startswith("sm_")
    assert gpu.processors > 0
    assert gpu.shared >= 48 << 10
    assert gpu.compiler.version >= (12, 0)


@pytest.mark.gpu
def test_quotients_on_a_gpu_are_numpys_to_the_last_bit_subnormals_too(gpu, functions):
    random = np.random.default_rng(0)
    x = random.standard_normal(100_001).astype(np.float32)
    y = (10.0 ** random.uniform(-30, 38, x.size)).astype(np.float32)
    xs, ys = gpu.from_host(x), gpu.from_host(y)
    z = gpu.empty(x.shape, np.float32)
    words = [gpu.pointer(a) for a in (xs, ys, z)] + [x.size, bits(-0.0)]
    gpu.launch(functions["quotient"], (-(-x.size // 256), 1, 1), (256, 1, 1), 0, words)
    wanted = x / y + np.float32(-0.0)
    assert (np.abs(wanted[wanted != 0]) < 1.17e-38).any()
    assert gpu.to_host(z).tobytes() == wanted.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "c16"])
def test_numbers_go_to_a_gpu_and_back_bit_by_bit(gpu, dtype):
    for value in (-0.0, 1.0, 5e-324, 1e-45, np.inf, np.nan):
        for shape in ((), (1,), (2, 3)):
            with np.errstate(all="ignore"):
                given = np.full(shape, value).astype(dtype)
            assert gpu.to_host(gpu.from_host(given)).tobytes() == given.tobytes()


@pytest.mark.gpu
def test_grids_and_blocks_of_a_gpu_have_three_axes(gpu, functions):
    out = gpu.empty((24, 24), np.int32)
    gpu.launch(functions["places"], (2, 3, 4), (4, 3, 2), 0, [gpu.pointer(out)])
    assert (gpu.to_host(out) == np.arange(24)[:, None] * 1000 + np.arange(24)).all()


@pytest.mark.gpu
def test_many_words_reach_a_gpu(gpu, functions):
    out = gpu.empty((300,), np.int64)
    words = [(-1) ** n * n * 2**50 for n in range(299)]
    words[5] = 2**64 - 9
    gpu.launch(functions["copied"], (1, 1, 1), (1, 1, 1), 0, [*words, gpu.pointer(out)])
    words[5] = -9
    assert gpu.to_host(out).tolist() == [*words, gpu.pointer(out)]


@pytest.mark.gpu
def test_a_gpu_reads_and_copies_in_order_on_the_current_stream(gpu, functions):
    import cupy

    x = gpu.from_host(np.ones(2, np.float32))
    gpu.synchronize()
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(5):
            gpu.launch(functions["grown"], (1, 1, 1), (1, 1, 1), 0, [gpu.pointer(x)])
        gpu.copy(gpu.pointer(x) + 4, gpu.pointer(x), 4)
        assert gpu.read(gpu.pointer(x) + 4, np.float32) == np.float32(32)
        assert gpu.to_host(x).tolist() == [32, 32]


@pytest.mark.gpu
def test_a_gpu_replays_a_recording(gpu, functions):
    x = gpu.from_host(np.ones(2, np.float32))

    def program():
        held = gpu.empty((1 << 20,), np.float32)  # from the recording's own pool
        gpu.launch(functions["grown"], (1, 1, 1), (1, 1, 1), 0, [gpu.pointer(x)])
        gpu.copy(gpu.pointer(held), gpu.pointer(x), 4)
        gpu.copy(gpu.pointer(x) + 4, gpu.pointer(held), 4)

    replay = gpu.record(program)
    assert gpu.to_host(x).tolist() == [1, 1]
    for _ in range(3):
        replay()
    assert gpu.to_host(x).tolist() == [8, 8]
    with pytest.raises(errors.BackendError, match=r"Copying 4 bytes"):
        gpu.record(lambda: gpu.read(gpu.pointer(x), np.float32))
    replay()
    assert gpu.to_host(x).tolist() == [16, 16]


@pytest.mark.gpu
def test_a_recording_leaves_the_current_stream_of_a_gpu_as_it_was(gpu):
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    before = cupy.cuda.get_current_stream()
    try:
        stream.use()
        gpu.record(lambda: None)
        assert cupy.cuda.get_current_stream().ptr == stream.ptr
    finally:
        before.use()
    with stream:
        gpu.record(lambda: None)
        assert cupy.cuda.get_current_stream().ptr == stream.ptr
    assert cupy.cuda.get_current_stream().ptr == before.ptr


@pytest.mark.gpu
def test_programs_that_were_recorded_are_captured_by_the_user(gpu):
    import cupy

    def chain(x):
        for _ in range(5):
            x = x * x.sum()
        return x

    x = gpu.from_host(np.linspace(0.0, 0.1, 64))
    compiled = jit(chain)
    stream = cupy.cuda.Stream(non_blocking=True)
    before = cupy.cuda.get_current_stream()
    try:
        stream.use()
        for _ in range(9):  # results take turns between few places
            expected = gpu.to_host(compiled(x))
        stream.begin_capture()
        result = compiled(x)
        graph = stream.end_capture()
        result.fill(0.0)
        graph.launch(stream)
        np.testing.assert_array_equal(gpu.to_host(result), expected)
        for _ in range(9):
            result.fill(0.0)
            result = compiled(x)  # in order with what the stream does before and after
            np.testing.assert_array_equal(gpu.to_host(result + 0.0), expected)
    finally:
        before.use()


@pytest.mark.gpu
def test_a_gpu_whose_memory_is_used_up_goes_on_after_the_error(gpu, functions):
    import cupy

    _, total = cupy.cuda.runtime.memGetInfo()
    with pytest.raises(errors.DeviceMemoryError, match=rf"of its {total:,} bytes"):
        gpu.empty((2 * total,), np.int8)
    pool = cupy.get_default_memory_pool()
    before = pool.get_limit()
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + (64 << 20))
    try:
        gpu.empty((48 << 20,), np.int8)  # freed at once, kept by the pool
        assert gpu.empty((49 << 20,), np.int8).nbytes == 49 << 20
    finally:
        pool.set_limit(size=before)
    x = gpu.from_host(np.ones(1, np.float32))
    gpu.launch(functions["grown"], (1, 1, 1), (1, 1, 1), 0, [gpu.pointer(x)])
    assert gpu.to_host(x).tolist() == [2]


@pytest.mark.gpu
def test_a_launch_that_a_gpu_refuses_is_an_error_and_the_next_works(gpu, functions):
    x = gpu.from_host(np.ones(1, np.float32))
    with pytest.raises(errors.BackendError, match=r"blocks \(2048, 1, 1\).*CUDA_ERROR_INVALID"):
        gpu.launch(functions["grown"], (1, 1, 1), (2048, 1, 1), 0, [gpu.pointer(x)])
    with pytest.raises(errors.BackendError, match=r"Loading absent.*NOT_FOUND"):
        gpu.compile(KERNELS, ("absent",))
    gpu.launch(functions["grown"], (1, 1, 1), (1, 1, 1), 0, [gpu.pointer(x)])
    assert gpu.read(gpu.pointer(x), np.float32) == 2


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of threads
def test_a_fork_of_a_process_that_uses_a_gpu_is_refused_by_name(gpu):
    held = gpu.from_host(np.ones(3))
    reader, writer = os.pipe()
    if not os.fork():  # nothing but this may happen here
        said = "nothing"
        try:
            jit(lambda x: x * 2)(held)
        except errors.BackendError as error:
            said = error.what
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert "CUDA works in no process that was forked" in pipe.read()
    os.wait()
    np.testing.assert_array_equal(gpu.to_host(jit(lambda x: x * 2)(held)), 2)


def test_several_threads_use_a_gpu(gpu, functions):
    done = []

    def work(n):
        x = gpu.from_host(np.full(1, n, np.float32))
        for _ in range(10):
            gpu.launch(functions["grown"], (1, 1, 1), (1, 1, 1), 0, [gpu.pointer(x)])
        done.append(gpu.read(gpu.pointer(x), np.float32) == n * 1024)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 4


def test_the_kernels_of_these_tests_compile():
    pytest.importorskip("nvidia")
    for arch in ("sm_75", "sm_90", "sm_100"):
        assert b"quotient" in compiling.cubin(KERNELS, arch)

"""The real device: what it asks of CuPy, in which order, and what it says when that fails.

Most of it runs over a stand-in for CuPy (fake_cupy.py), the argument of a launch also through
CuPy's own code; the last part needs a GPU.
"""

import importlib
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

from ftrace import errors, jit
from ftrace.core.lazy import Lazy
from ftrace.gpu.machine_code import cubin as compiling
from ftrace.gpu.machine_code import nvrtc
from ftrace.gpu.runtime import cupy_device
from ftrace.gpu.runtime.cupy_device import CupyDevice, block_of, device_of
from ftrace.gpu.runtime.current_device import current, using
from ftrace.gpu.runtime.device_interface import Start
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
    cupy_device._here.__dict__.clear()
    yield
    cupy_device._here.__dict__.clear()
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
        "import sys, ftrace, ftrace.gpu.machine_code.cubin, ftrace.gpu.runtime.cupy_device\n"
        "print('cupy' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE)
    assert done.stdout.strip() == "False"


def test_the_device_is_the_one_that_holds_the_array(monkeypatch):
    fake = FakeCupy(devices=2)
    installed(monkeypatch, fake)
    first, second = device_of(), device_of(CupyDevice(0).empty((2,), "f4"))
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
    assert (other.view(np.uint8) == 7).all()


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
    asked = [
        ("memcpyAsync", value.itemsize, 2, stream.ptr, 0),
        ("streamSynchronize", stream.ptr),
    ]
    assert [call for call in fake.calls if call[0] != "alloc_pinned_memory"] == asked
    fake.calls.clear()
    with stream:
        assert device.read(memory.ctypes.data, value.dtype) == 0
    assert fake.calls == asked  # page-locked memory is there now


def test_threads_read_into_memory_of_their_own(device, fake):
    memory = np.arange(8.0)
    found = []

    def work(n):
        found.append([device.read(memory.ctypes.data + 8 * n, np.float64) for _ in range(50)])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[n] * 50 for n in range(8)]
    assert [call[0] for call in fake.calls].count("alloc_pinned_memory") == 8


def test_arrays_go_and_come_in_c_order(device):
    host = np.arange(6.0).reshape(2, 3)
    there, turned = device.from_host(host), device.from_host(host.T)
    assert device.pointer(there) == there.data.ptr
    host[0, 0] = 99  # what was sent is what was there
    assert device.to_host(there).tolist() == [[0, 1, 2], [3, 4, 5]]
    back = device.to_host(turned)
    assert back.flags.c_contiguous
    assert back.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_page_locked_memory_may_change_as_soon_as_it_was_sent(device, fake):
    """CuPy reads it later."""
    locked = np.arange(3.0)
    fake.pinned.add(locked.ctypes.data)
    there = device.from_host(locked)
    locked[:] = 9
    assert device.to_host(there).tolist() == [0, 1, 2]


def test_other_memory_is_copied_once(device, fake):
    sent = []
    array = fake.array
    fake.array = lambda host, order: sent.append(host.ctypes.data) or array(host, order)
    host = np.arange(3.0)
    device.from_host(host)
    assert sent == [host.ctypes.data]


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


# --- sequences ----------------------------------------------------------------------------------


def told(device, bases):
    stream, captured = device.order()
    return types.SimpleNamespace(addresses=bases, stream=stream, captured=captured)


def sequence(device, fake, monkeypatch, seen, count):
    """Launches that note their word, which the first base is."""
    monkeypatch.setattr(cupy_device, "driver", lambda: fake.driver.entries)
    function = kernel(device, fake, monkeypatch, lambda words: seen.extend(words))
    fake.calls.clear()
    starts = [Start(function, (4, 1, 1), (64, 1, 1), 0, (n,), ((0, 0),)) for n in range(count)]
    return device.sequence(starts)


def test_sequences_run_on_the_stream_that_is_current(device, fake, monkeypatch):
    seen = []
    run = sequence(device, fake, monkeypatch, seen, 4)
    for n in range(3):
        with fake.cuda.Stream() as stream:
            run(told(device, [10 * n]))
            assert fake.driver.calls[-1][:1] != ("replay",)
            run(told(device, [10 * n]))
            assert fake.driver.calls[-1] == ("replay", stream.ptr)
    assert seen == [10 * n + i for n in range(3) for _ in range(2) for i in range(4)]


def test_in_a_stream_that_is_captured_sequences_are_part_of_the_graph(device, fake, monkeypatch):
    """CUDA launches no graph there."""
    seen = []
    run = sequence(device, fake, monkeypatch, seen, 3)
    with fake.cuda.Stream() as stream:
        for _ in range(3):
            run(told(device, [5]))
        seen.clear()
        stream.begin_capture()
        assert device.order() == (stream.ptr, True)
        run(told(device, [7]))
        graph = stream.end_capture()
        assert device.order() == (stream.ptr, False)
    assert seen == []
    graph.launch()
    assert seen == [7, 8, 9]


def test_the_default_stream_is_not_asked_whether_it_is_captured(device, fake):
    fake.stream.is_capturing = None
    assert device.order() == (0, False)


def test_each_thread_makes_itself_known_to_the_driver_once(device, fake):
    threads = [threading.Thread(target=lambda: [device.order() for _ in range(3)]) for _ in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fake.calls == [("setDevice", 0)] * 3


def test_sequences_run_on_the_device_that_was_asked(monkeypatch):
    fake = FakeCupy(devices=2)
    installed(monkeypatch, fake)
    device, on = CupyDevice(1), []
    run = sequence(device, fake, monkeypatch, [], 1)
    work = fake.work
    fake.work = lambda step: on.append(fake.devices[-1]) or work(step)
    run(told(device, [5]))
    assert on == [1]
    assert fake.devices == [0]


def test_nothing_of_the_host_goes_into_a_stream_that_is_captured(device, fake):
    with fake.cuda.Stream() as stream:
        stream.begin_capture()
        with pytest.raises(errors.BackendError, match=r"(?s)captured.*device_put"):
            device.from_host(np.ones(3))
        stream.end_capture()
        assert device.from_host(np.ones(3)).host.tolist() == [1, 1, 1]


# --- errors -------------------------------------------------------------------------------------


def test_too_little_memory_gives_the_pool_back_and_tries_once_more(device, fake):
    fake.trouble["alloc"] = [OutOfMemoryError("Out of memory allocating 4,800 bytes")]
    assert device.empty([30, 40], np.float32).host.shape == (30, 40)
    assert [call[0] for call in fake.calls] == ["alloc", "free_all_blocks", "alloc"]


def test_too_little_memory_names_the_sizes_and_the_next_call_works(device, fake):
    fake.trouble["alloc"] = [OutOfMemoryError("limit set to: 9 bytes")] * 2
    with pytest.raises(errors.DeviceMemoryError) as caught:
        device.empty((30, 40), np.float32)
    said = str(caught.value)
    assert "Allocating 4,800 bytes on GPU 0 failed" in said
    assert "12,345 of its 150,000 bytes are free" in said
    assert "pool holds 1,000, of which 700 are in use" in said
    assert "limit set to: 9 bytes" in said
    assert "Free arrays" in said
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value, errors.BackendError)
    assert device.empty((30, 40), np.float32).host.shape == (30, 40)


def test_a_size_beyond_64_bits_is_named_too(device, fake):
    fake.trouble["alloc"] = [OutOfMemoryError("?"), OutOfMemoryError("?")]
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
        ("alloc", lambda: device.empty((2,), "f4"), "Allocating memory"),
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


def test_errors_of_sequences_have_the_same_words(device, fake, monkeypatch):
    run = sequence(device, fake, monkeypatch, [], 3)
    fake.driver.trouble["start"] = [0, 700]
    message = (
        r"(?s)Starting a kernel on a grid \(4, 1, 1\) of blocks \(64, 1, 1\) on GPU 0 failed:"
        r" CUDA_ERROR_ILLEGAL_ADDRESS.*CUDA_LAUNCH_BLO"
    )
    with pytest.raises(errors.BackendError, match=message):
        run(told(device, [6]))
    run(told(device, [6]))


def test_too_little_memory_for_a_sequence_is_the_same_error(device, fake, monkeypatch):
    run = sequence(device, fake, monkeypatch, [], 1)
    fake.driver.trouble["start"] = [2]
    with pytest.raises(errors.DeviceMemoryError, match="Starting a kernel"):
        run(told(device, [6]))


def test_other_errors_are_not_ours(device, fake):
    fake.trouble["alloc"] = [ValueError("mine")]
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
    for driver, version, found in (
        (13000, (13, 4), "The driver is made for CUDA 13.0"),
        (13000, (13, 0), "CUDA_LAUNCH"),
        (12080, (12, 9), "The driver is made for CUDA 12.8"),
        (12080, (12, 8), "CUDA_LAUNCH"),
    ):
        fake.cuda.runtime.driverGetVersion = lambda driver=driver: driver
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
        fake.trouble["alloc"] = [CUDARuntimeError(1, "cudaErrorInvalidValue")]
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
        "Allocating memory on GPU 0 failed: cudaErrorInvalidValue. CUDA works in no process that"
        " was forked from one that had used it.",
    ]


def test_a_driver_that_is_not_initialised_says_so_too(fake):
    fake.trouble["getDeviceCount"] = [CUDARuntimeError(3, "cudaErrorInitializationError")]
    with pytest.raises(errors.BackendError, match=r"(?s)sees no GPU in this process.*'spawn'"):
        device_of()


def test_a_device_whose_driver_is_no_more_initialised_says_so(device, fake):
    fake.trouble["alloc"] = [CUDARuntimeError(3, "cudaErrorInitializationError")]
    with pytest.raises(errors.BackendError, match=r"InitializationError.*no process .*forked"):
        device.empty((3,), "f4")


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
@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_a_gpu_starts_sequences_wherever_their_arrays_lie(gpu, functions, count):
    import cupy

    starts = [
        Start(functions["grown"], (1, 1, 1), (1, 1, 1), 0, (4 * (n % 2),), ((0, 0),))
        for n in range(count)
    ]
    run = gpu.sequence(starts)
    xs = [gpu.from_host(np.ones(2, np.float32)) for _ in range(3)]
    expected = np.ones((3, 2), np.float32)
    for n in range(20):
        with cupy.cuda.Stream(non_blocking=n % 3 > 0) as stream:
            run(told(gpu, [gpu.pointer(xs[n % 3])]))
            stream.synchronize()
        expected[n % 3] *= np.float32([2.0 ** ((count + 1) // 2), 2.0 ** (count // 2)])
        if n == 12:
            expected[:] = 1
            for x in xs:
                x.fill(1)
                gpu.synchronize()
    np.testing.assert_array_equal([gpu.to_host(x) for x in xs], expected)


@pytest.mark.gpu
def test_numbers_of_the_host_reach_a_gpu_at_each_call(gpu):
    chain = jit(lambda x, a: ((x * x.sum() + a) * x.sum() + a) * x.sum() * a)
    x = np.linspace(0.0, 0.1, 64)
    there = gpu.from_host(x)
    for a in (0.5, -0.0, 3, True, np.float32(2.5), gpu.from_host(np.array(1.5)), 0.25, 7.0):
        number = float(a)
        expected = ((x * x.sum() + number) * x.sum() + number) * x.sum() * number
        np.testing.assert_allclose(gpu.to_host(chain(there, a)), expected, rtol=1e-12)


@pytest.mark.gpu
def test_programs_that_were_graphs_are_captured_by_the_user(gpu):
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

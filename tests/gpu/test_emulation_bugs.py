"""Bugs planted in CUDA C: the emulation finds every one, says where, and goes on working."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ftrace.core.errors import BackendError
from tests.gpu import by_hand
from tests.gpu.emulation.device import FORWARDS, HostDevice, selected

RUNNERS = pytest.mark.parametrize("each_device", ["c++", "zig", "ucontext"], indirect=True)
GUARDED = pytest.mark.parametrize("each_device", ["start", "end", "vector_end"], indirect=True)


def kernel(body: str, words: int = 2) -> str:
    """A kernel `k` whose first lines name its arrays; `body` begins at line 6."""
    return (
        by_hand.WORDS
        + f'extern "C" __global__ void k(const Words<{words}> a) {{\n'
        + "  float *x = (float*)a.w[0], *y = (float*)a.w[1];\n"
        + "  const int t = (int)threadIdx.x, n = (int)blockDim.x;\n"
        + "  const int b = (int)blockIdx.x;\n"
        + body
        + "\n}\n"
    )


def launch(
    device: HostDevice, body: str, block: int = 64, grid: int = 1, size: int = 64
) -> tuple[Any, Any]:
    """Run a body on an array of ones and a new array; both as they are afterwards."""
    x = device.from_host(np.ones(size, np.float32))
    y = device.empty((size,), np.float32)
    by_hand.run(device, kernel(body), "k", (grid, 1, 1), (block, 1, 1), x, y)
    return device.to_host(x), device.to_host(y)


# --- barriers and masks

WAITING = {
    "some do not reach it": (
        "if (t < 16) __syncthreads();\ny[t] = x[t];",
        r"barrier divergence: 16 of 64 threads wait at __syncthreads \(line 6\); 48 have returned",
    ),
    "some return before it": (
        "if (t >= 60) return;\n__syncthreads();\ny[t] = x[t];",
        r"barrier divergence: 60 of 64 threads wait at __syncthreads \(line 7\); 4 have returned",
    ),
    "two in two arms": (
        "if (t < 32)\n__syncthreads();\nelse\n__syncthreads();\ny[t] = x[t];",
        r"divergence: 32 of 64 .* \(line 7\); 32 of 64 threads wait at __syncthreads \(line 9\)",
    ),
    "a loop of different lengths": (
        "for (int i = 0; i <= t / 32; ++i)\n__syncthreads();\ny[t] = x[t];",
        r"barrier divergence: 32 of 64 threads wait at __syncthreads \(line 7\); 32 have returned",
    ),
    "half a warp shuffles": (
        "float v = x[t];\nif (t % 32 < 16) v += __shfl_down_sync(0xffffffffu, v, 1);\ny[t] = v;",
        r"shuffle-mask mismatch: lanes 0x0000ffff of warp 0 wait at __shfl_down_sync \(line 7\) "
        r"with mask 0xffffffff;.* of warp 1 .* 32 have returned",
    ),
    "two masks": (
        "y[t] = __shfl_xor_sync(t % 32 < 16 ? 0xffffffffu : 0xffff0000u, x[t], 1);",
        r"shuffle-mask mismatch: lanes 0x0000ffff .* with mask 0xffffffff",
    ),
    "a lane outside of its mask": (
        "y[t] = __shfl_xor_sync(0xffu, x[t], 1);",
        "shuffle-mask mismatch: a lane is not in its own mask: .* with mask 0x000000ff",
    ),
    "a lane that the mask lacks is read": (
        "if (t < 16) y[t] = __shfl_down_sync(0xffffu, x[t], 1);",
        r"lane 15 reads lane 16 at __shfl_down_sync \(line 6\), which mask 0x0000ffff lacks",
    ),
    "two collectives": (
        "y[t] = t % 2 ? __any_sync(0xffffffffu, 1) : __all_sync(0xffffffffu, 1);",
        r"lanes 0x55555555 of warp 0 wait at __all_sync .* lanes 0xaaaaaaaa of warp 0 wait at",
    ),
    "a warp waits for another's barrier": (
        "if (t < 32) __syncthreads(); else __syncwarp();\ny[t] = x[t];",
        r"barrier divergence: 32 of 64 threads wait at __syncthreads",
    ),
}


@RUNNERS
@pytest.mark.parametrize("name", WAITING)
def test_threads_that_wait_for_ever_are_an_error(each_device: HostDevice, name: str):
    body, said = WAITING[name]
    with pytest.raises(BackendError, match=said) as error:
        launch(each_device, body)
    assert "Kernel k failed in block (0, 0, 0)" in str(error.value)
    assert launch(each_device, "y[t] = x[t];")[1].tolist() == [1.0] * 64


def test_a_mask_may_not_name_lanes_that_a_small_block_lacks(host_device: HostDevice):
    with pytest.raises(BackendError, match="the mask names lanes that the block has not"):
        launch(host_device, "y[t] = __shfl_xor_sync(0xffffffffu, x[t], 1);", block=48)
    assert launch(host_device, "y[t] = __shfl_xor_sync(0xffffu, x[t], 1);", block=16)[1][0] == 1.0


# --- races

RACES = {
    "no barrier before reading": (
        "__shared__ float s[64];\ns[t] = x[t] + t;\ny[t] = s[n - 1 - t];",
        "__shared__ float s[64];\ns[t] = x[t] + t;\n__syncthreads();\ny[t] = s[n - 1 - t];",
    ),
    "no barrier before writing again": (
        "__shared__ float s[64];\ns[t] = t;\n__syncthreads();\n"
        "const float v = s[(t + 1) % n];\ns[t] = v;\ny[t] = s[t];",
        "__shared__ float s[64];\ns[t] = t;\n__syncthreads();\n"
        "const float v = s[(t + 1) % n];\n__syncthreads();\ns[t] = v;\ny[t] = s[t];",
    ),
    "a block reads what another writes": (
        "y[b * n + t] = x[t];\nx[t] = y[(b ? 0 : n) + t];",
        "y[b * n + t] = x[b * n + t];",
    ),
    "two threads write one element": ("y[0] = x[t] + t;", "if (t == 0) y[0] = x[t] + t;"),
    "float atomics in any order": (
        "atomicAdd(x, t == 0 ? 1e8f : 1.0f);\ny[t] = 0.0f;",
        "atomicAdd((int*)x, t);\ny[t] = 0.0f;",
    ),
}


@RUNNERS
@pytest.mark.parametrize("name", RACES)
def test_what_depends_on_an_order_is_an_error(each_device: HostDevice, name: str):
    wrong, right = RACES[name]
    blocks = 2 if "block" in name else 1
    with pytest.raises(BackendError, match="depends on the order of its threads or blocks"):
        launch(each_device, wrong, block=32 if blocks == 2 else 64, grid=blocks)
    launch(each_device, right, block=32 if blocks == 2 else 64, grid=blocks)


def test_one_schedule_compares_nothing(emulation: None):
    with selected(HostDevice(schedules=(FORWARDS,))) as device:
        launch(device, RACES["two threads write one element"][0])


# --- memory

OUTSIDE = {
    "a read behind": ("y[t] = x[t + 1];", ("end", "vector_end"), "reads .* 1 bytes behind an arr"),
    "a read before": ("y[t] = x[t - 1];", ("start",), "reads .* 4 bytes before an array of 256"),
    "a write behind": ("y[t + 1] = x[t];", ("end", "vector_end"), "1 bytes behind an array of 256"),
    "a write before": ("y[t - 1] = x[t];", ("start",), "4 bytes before an array of 256"),
    "a write into the rest of the page": (
        "y[t + 1] = x[t];",
        ("start",),
        "Beside an array of 256 bytes at .*, bytes were written by kernel k",
    ),
}


@pytest.mark.parametrize(
    ("each_device", "name"),
    [(place, name) for name, (_, places, _) in OUTSIDE.items() for place in places],
    indirect=["each_device"],
)
def test_an_access_outside_of_an_array_is_an_error(each_device: HostDevice, name: str):
    body, _, said = OUTSIDE[name]
    with pytest.raises(BackendError, match=said):
        launch(each_device, body)
    assert launch(each_device, "y[t] = x[t];")[1].tolist() == [1.0] * 64


def test_a_write_into_what_a_vector_leaves_is_an_error(emulation: None):
    with selected(HostDevice(place="vector_end")) as device:
        launch(device, "y[t] = x[t];", block=61, size=61)
        with pytest.raises(BackendError, match=r"Beside an array of 244 bytes at .* by kernel k"):
            launch(device, "y[t] = x[t];", block=62, size=61)


@GUARDED
def test_an_array_that_is_gone_is_an_error(each_device: HostDevice):
    x, y = (each_device.from_host(np.ones(64, np.float32)) for _ in range(2))
    words = each_device.pointer(x), each_device.pointer(y)
    k = each_device.compile(kernel("y[t] = x[t];"), ("k",))["k"]
    del x
    with pytest.raises(BackendError, match="out of bounds: it reads address"):
        each_device.launch(k, (1, 1, 1), (64, 1, 1), 0, words)


@GUARDED
def test_a_copy_outside_of_an_array_is_an_error(each_device: HostDevice):
    x, y = (each_device.from_host(np.ones(64, np.float32)) for _ in range(2))
    step = -4 if each_device.memory.place == "start" else 4
    with pytest.raises(BackendError, match=r"Kernel copy .* out of bounds: it"):
        each_device.copy(y.data.ptr, x.data.ptr + step, 256)


def test_what_was_not_written_is_nan(each_device: HostDevice):
    y = launch(each_device, "if (t != 3) y[t] = x[t];")[1]
    assert np.flatnonzero(np.isnan(y)).tolist() == [3]


@RUNNERS
def test_shared_variables_are_poisoned_in_every_block(each_device: HostDevice):
    body = "__shared__ float s[32];\ny[b * n + t] = s[t];\ns[t] = 1.0f;"
    assert np.isnan(launch(each_device, body, block=32, grid=2)[1]).all()


@RUNNERS
def test_local_variables_are_poisoned(each_device: HostDevice):
    y = launch(each_device, "float v[8];\ny[t] = v[(int)x[t]];")[1]
    assert (np.isnan(y) | (np.abs(y) > 1e30)).all()


# --- undefined behaviour

UNDEFINED = {
    "a shared array's bounds": (
        "__shared__ float s[8];\ns[t] = 1.0f;",
        "line 7, column .*: an index is out of the bounds of its array",
    ),
    "alignment": (
        "((float4*)(y + 1))[0] = make_float4(x[0], x[1], x[2], x[3]);",
        r"(line 6, column .*: address 0x.* is|an address is) not a multiple of",
    ),
    "a shift": ("y[t] = (float)(1 << (n * (int)x[t]));", "line 6, .*: a shift by the width"),
    "a sum": ("y[t] = (float)(2147483647 + (int)x[t]);", "line 6, .*: a signed sum overflows"),
    "a quotient": ("y[t] = (float)(1 / ((int)x[t] - 1));", "line 6.*divided by zero"),
    "a cast": ("y[t] = (float)(int)(x[t] * 1e20f);", "does not fit into the integer"),
    "a trap": ("if (t == 5) __trap();", r"thread \(5, 0, 0\): __trap\(\) at line 6"),
    "the stack": (
        "volatile float v[40000];\nfor (int i = 0; i < 40000; ++i) v[i] = x[t];\ny[t] = v[t];",
        "its local variables take more than 61440 bytes",
    ),
}


@RUNNERS
@pytest.mark.parametrize("name", UNDEFINED)
def test_undefined_behaviour_is_an_error(each_device: HostDevice, name: str):
    body, said = UNDEFINED[name]
    with pytest.raises(BackendError, match=said):
        launch(each_device, body)
    assert launch(each_device, "y[t] = x[t];")[1].tolist() == [1.0] * 64


def test_a_loop_that_does_not_end_is_an_error(emulation: None):
    with (
        selected(HostDevice(seconds=1)) as device,
        pytest.raises(BackendError, match="it takes too long"),
    ):
        launch(device, "while (x[t] != 0.0f) y[t] = 1.0f;")


# --- launches and texts


def test_a_kernel_that_a_device_would_not_start_is_an_error(host_device: HostDevice):
    x = host_device.from_host(np.ones(64, np.float32))
    k = host_device.compile(kernel("y[t] = x[t];"), ("k",))["k"]
    words = [host_device.pointer(x)] * 2
    one = (1, 1, 1)
    calls: dict[str, Callable[[], None]] = {
        r"a block of \(1025, 1, 1\) threads": lambda: host_device.launch(
            k, one, (1025, 1, 1), 0, words
        ),
        r"a block of \(1, 1, 65\) threads": lambda: host_device.launch(
            k, one, (1, 1, 65), 0, words
        ),
        r"a block of \(0, 1, 1\) threads": lambda: host_device.launch(k, one, (0, 1, 1), 0, words),
        r"a grid of \(1, 65536, 1\) blocks": lambda: host_device.launch(
            k, (1, 65536, 1), one, 0, words
        ),
        "65536 bytes of shared memory": lambda: host_device.launch(k, one, one, 65536, words),
        "takes 16 bytes of words, not 8": lambda: host_device.launch(k, one, one, 0, words[:1]),
    }
    for said, call in calls.items():
        with pytest.raises(BackendError, match=said):
            call()
    before = host_device.launches
    host_device.launch(k, (0, 1, 1), one, 0, words)
    assert host_device.launches == before


def test_a_text_that_is_no_cuda_is_refused_with_its_line(host_device: HostDevice):
    with pytest.raises(BackendError, match=r"kernels.cu:6:\d+: error"):
        host_device.compile(kernel("y[t] = nonsense(x[t]);"), ("k",))

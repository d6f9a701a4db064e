"""Programs for GPUs that are not there, and what `jit(f).lower(x)` shows of them."""

import importlib.util
import re
from unittest.mock import patch

import numpy as np
import pytest

import ftrace
from ftrace import jit
from ftrace.core.avals import TYPEOF
from ftrace.core.device import LIBRARIES
from ftrace.core.errors import BackendError
from ftrace.gpu.gpu_backend import gpu_backend
from ftrace.gpu.grid.layout import BLOCK, COLUMN, THREAD, WARP, Geometry, GridLayout, described
from ftrace.gpu.runtime.kernels import plan_kernels
from ftrace.gpu.runtime.models import MODELS, model
from ftrace.lowering.kernel import reference
from ftrace.lowering.kernel.ir import Block, Kernel
from ftrace.lowering.kernel.show import text
from tests.gpu import kernel_samples, plans
from tests.gpu.test_programs import softmax
from tests.lowering import programs

X = np.ones((500, 80), np.float32)
TOOLS = pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None, reason="NVIDIA's compiler is not installed"
)


def rows(x):
    return x.sum(1)


def total(x):
    return (x * x).sum()


def test_a_program_is_shown_for_an_architecture_without_a_gpu():
    lowered = jit(softmax).lower(X).on("sm_90")
    assert lowered.cuda.count("__global__") == 1
    assert "__shfl_down_sync" in lowered.cuda
    assert lowered.cost().bytes == 2 * X.nbytes
    assert lowered.cost().kernels == 1


def test_what_was_lowered_for_the_cpu_stays_as_it_is():
    lowered = jit(softmax).lower(X)
    kernels, launches = lowered.kernels, lowered.launches
    lowered.on("sm_90").kernels  # noqa: B018
    assert (lowered.kernels, lowered.launches) == (kernels, launches)
    again = lowered.on("sm_90").on("cpu")
    assert (again.kernels, again.launches, again.llvm) == (kernels, launches, lowered.llvm)


def test_kernels_on_a_gpu_have_the_folds_of_its_threads():
    """Each of the threads of a team has an accumulator, for what it takes at once."""
    lowered = jit(rows).lower(X).on("sm_90")
    (planned,) = plan_kernels(lowered.program, model("sm_90"))
    ways = planned.layout.threads
    assert f"fold sum<f4, {ways} ways of {planned.layout.width} neighbours" in lowered.kernels[0]
    assert "neighbours" not in text(lowered.program.launches[0].kernel)
    assert "fold sum<f8, 32 ways>" in lowered.on("cpu").kernels[0]


@pytest.mark.parametrize(
    ("rows", "length", "blocks", "threads"),
    [(4096, 1024, 512, 256), (8192, 4096, 512, 1024), (2048, 1024, 256, 256), (16, 2048, 2, 512)],
)
def test_rows_that_are_added_up_on_the_way_fill_a_device(rows, length, blocks, threads):
    """Every row's own pass, and sums over all rows that stay in registers meanwhile."""
    x = plans.array(rows, length)
    pulled = kernel_samples.pulled(programs.layernorm)
    kernels = plans.kernels(plans.planned(pulled, x, *[plans.array(length)] * 2, x))
    assert kernels[0].stages[0].grid == (blocks, 1, 1)
    assert (kernels[0].layout.held, kernels[0].layout.threads) == (1, threads)
    text = kernels[0].text
    assert text.count("__syncthreads") == 4  # one for each fold of a row
    assert len(re.findall(r"\bg_o\d+\[", text)) == 3  # the gradient and two sums: stored once


def test_the_number_of_processors_decides_how_many_blocks_share_a_loop():
    x = np.ones((4096, 4096), np.float32)
    found = {a: jit(total).lower(x).on(a).launches[0] for a in ("sm_75", "sm_90")}
    assert "64 of them share it" in found["sm_75"]
    assert "256 of them share it" in found["sm_90"]


KERNEL = Kernel("k1", (), (), Block(()))
ONE, MANY = Geometry((9, 1, 1), (256, 1, 1)), Geometry((3, 2, 8), (32, 8, 1))


@pytest.mark.parametrize(
    ("layout", "stages", "line"),
    [
        (
            GridLayout(THREAD, width=4, vectors=("x0", "o1")),
            (ONE,),
            "one thread for each piece of work; 4 elements at once (x0, o1 as vectors); "
            "unsigned indices; 9 blocks of 256",
        ),
        (
            GridLayout(WARP, threads=16, held=2, index="int"),
            (ONE,),
            "16 threads of a warp for each row; rows stay in registers; int indices; "
            "9 blocks of 256",
        ),
        (
            GridLayout(BLOCK, threads=512, split=64),
            (ONE, ONE),
            "a block of 512 threads for each row; 64 of them share it, a second function adds up; "
            "unsigned indices; 9 blocks of 256, then 9 blocks of 256",
        ),
        (
            GridLayout(COLUMN, threads=8, across=32),
            (MANY,),
            "8 threads for each column, 32 columns side by side; unsigned indices; "
            "3x2x8 blocks of 32x8",
        ),
        (
            GridLayout(THREAD),
            (Geometry(None, (1, 1, 1)),),
            "one thread for each piece of work; unsigned indices; nothing to do",
        ),
    ],
)
def test_a_line_says_how_a_kernel_lies_on_the_grid(layout, stages, line):
    assert described(KERNEL, layout, stages) == f"k1: {line}"


def test_rows_in_registers_and_second_functions_are_told():
    wide = np.ones((4096, 1000), np.float32)
    assert "rows stay in registers" in jit(softmax).lower(wide).on("sm_90").launches[0]
    assert "a second function adds up" in jit(total).lower(wide).on("sm_90").launches[0]
    assert ", then " in jit(total).lower(wide).on("sm_90").launches[0]


def test_the_cpu_tells_vectors_and_what_goes_past_the_caches():
    lowered = jit(lambda x: np.sin(x) * 2.0).lower(X)
    assert lowered.launches[0].startswith("k1: vectors of ")
    assert jit(lambda x: x * 2.0).lower(1.0).launches == ("k1: one element at a time",)
    large = ftrace.ShapeDtypeStruct((1 << 26,), np.float64)
    (told,) = jit(lambda x: x + 1.0).lower(large).launches
    assert "; o1 written past the caches" in told


def test_cuda_of_a_program_for_the_cpu_says_where_it_is():
    with pytest.raises(
        BackendError, match=r"lowered for the CPU.*given LLVM, not CUDA C"
    ) as caught:
        jit(rows).lower(X).cuda  # noqa: B018
    assert '`on("sm_90").cuda`' in caught.value.fix


def test_llvm_of_a_program_for_a_gpu_says_where_it_is():
    with pytest.raises(
        BackendError, match=r"lowered for the GPU.*given CUDA C, not LLVM"
    ) as caught:
        jit(rows).lower(X).on("sm_90").llvm  # noqa: B018
    assert '`on("cpu").llvm`' in caught.value.fix


@pytest.mark.parametrize("place", ["tpu", "sm_20", ""])
def test_an_unknown_place_names_those_that_are_known(place):
    with pytest.raises(BackendError, match=f"Nothing can be lowered for '{place}'") as caught:
        jit(rows).lower(X).on(place)
    assert all(arch in caught.value.fix for arch in MODELS)


def test_the_gpu_at_hand_is_asked_for_its_numbers(host_device):
    """The emulated device has 4 processors: fewer blocks share a loop than on any real one."""
    x = host_device.from_host(np.ones((512, 512), np.float32))
    here = jit(total).lower(x)
    assert here.backend is gpu_backend()
    assert here.launches == jit(total).lower(np.ones((512, 512), np.float32)).on("gpu").launches
    assert here.launches != here.on("sm_90").launches


def test_a_cupy_array_is_lowered_for_its_device_by_a_program_that_shows_its_first(host_device):
    x = host_device.from_host(X)
    with patch.dict(LIBRARIES, clear=True), patch.dict(TYPEOF):
        TYPEOF.pop(type(x), None)
        assert jit(rows).lower(x).backend is gpu_backend()


def test_what_is_shown_for_an_architecture_adds_as_the_kernel_there():
    """The reference interpreter runs what `kernels` shows: mixing in 32 ways and blocks."""
    x = np.random.default_rng(0).standard_normal((3, 70)).astype(np.float32)
    lowered = jit(rows).lower(x).on("sm_90")
    (kernel,) = lowered.backend.kernels(lowered.program)
    out = np.zeros(3, np.float32)
    reference.run(kernel, {"x0": (x.reshape(-1), 0, (70, 1)), "o1": (out, 0, (1,))}, [3, 70])
    np.testing.assert_allclose(out, x.astype(np.float64).sum(1), rtol=1e-6)


@TOOLS
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_machine_code_for_an_architecture_has_registers_and_instructions(arch):
    code = jit(np.sin).lower(X).on(arch).asm
    assert f".target\t{arch}" in code
    assert "REG:" in code
    assert "LDG.E.128" in code


@pytest.mark.parametrize("arch", MODELS)
def test_models_are_what_plans_ask_of_a_device(arch):
    found = model(arch)
    assert found.arch == arch
    assert found.processors > 0
    assert found.shared == 48 * 1024

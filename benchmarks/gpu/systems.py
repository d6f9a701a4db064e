"""The frameworks on a GPU: the faces of `benchmarks.systems`, with arrays and clocks of a device.

Each is made in its own process, so that their allocators do not share the memory. On the platform
`cpu` (no device at all, for tests) the same classes work on the host. `poison` leaves NaN in freed
memory of the sizes of some results: a kernel that leaves an element out is found. Read next:
`child.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import systems
from benchmarks.gpu import clocks
from benchmarks.pool import device

ALONE = "FTRACE_BENCH_ALONE"
"""Set where every array of CuPy shall be an allocation of its own, without a pool around it: only
then the sanitizer sees an access behind its end."""


class OnDevice:
    """What a framework's face has here besides its transformations."""

    devices = ("cpu", "gpu")
    counted = range(8)
    """Steps in which `count` is asked."""

    @property
    def gpu(self) -> bool:
        """Whether there is a device to work on."""
        return device() == "gpu"

    def wait(self) -> None:
        """Wait until the device has done everything."""

    def copied(self, array: Any) -> Any:
        """The same numbers somewhere else."""
        return array.copy()

    def poison(self, leaves: Sequence[Any]) -> None:
        """Leave NaN in freed memory of the sizes of `leaves`."""

    def clock(self, calls: clocks.Calls, graphs: bool) -> clocks.Seconds:
        """Seconds per call."""
        return clocks.by_the_host(calls, self.wait, 20)

    def count(self, f: Any, inputs: Sequence[Any]) -> dict[str, int]:
        """Kernels (and bytes that they move) of a compiled function, if the framework tells."""
        return {}


class CupyArrays(OnDevice):
    """Arrays of CuPy on a stream that is not the default one, since that cannot be captured."""

    @cached_property
    def cupy(self) -> Any:
        """CuPy with a current stream, or NumPy where there is no device."""
        if not self.gpu:
            return np
        cupy = import_module("cupy")
        if os.environ.get(ALONE):
            cupy.cuda.set_allocator(None)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        return cupy

    def put(self, array: np.ndarray) -> Any:
        return self.cupy.asarray(array)

    def get(self, leaf: Any) -> np.ndarray:
        return self.cupy.asnumpy(leaf) if self.gpu else np.asarray(leaf)

    def wait(self) -> None:
        if self.gpu:
            self.cupy.cuda.runtime.deviceSynchronize()

    def poison(self, leaves: Sequence[Any]) -> None:
        shapes = [(np.shape(x), x.dtype) for x in leaves if x.dtype.kind == "f"]
        held = [self.cupy.full(shape, np.nan, dtype) for shape, dtype in shapes]
        del held

    def clock(self, calls: clocks.Calls, graphs: bool) -> clocks.Seconds:
        if not self.gpu:
            return super().clock(calls, graphs)
        return clocks.CupyClock(self.cupy, self.stream)(calls, graphs)


class Ftrace(CupyArrays, systems.Ftrace):
    """This library, on CuPy's arrays."""

    def count(self, f: Any, inputs: Sequence[Any]) -> dict[str, int]:
        if not hasattr(f, "lower"):
            return {}
        cost = f.lower(*inputs).cost()
        return {"kernels": cost.kernels + cost.library_rows, "bytes": cost.bytes}


class Cuda(CupyArrays, systems.System):
    """CUDA C written by hand, for floors and for what the paper measured."""

    name, packages = "cuda", ("cupy",)
    devices = ("gpu",)

    def version(self) -> str:
        """The device, its driver and NVRTC."""
        runtime = self.cupy.cuda.runtime
        name = runtime.getDeviceProperties(0)["name"].decode()
        return (
            f"{name}, driver for CUDA {runtime.driverGetVersion()}, CuPy {self.cupy.__version__}, "
            f"NVRTC {self.cupy.cuda.nvrtc.getVersion()}"
        )


class Jax(OnDevice, systems.Jax):
    """JAX, its memory not taken in advance."""

    counted = (2, 5)  # compiles again

    def copied(self, array: Any) -> Any:
        return self.np.array(array, copy=True)

    def poison(self, leaves: Sequence[Any]) -> None:
        held = [self.np.full(x.shape, np.nan, x.dtype) for x in leaves if x.dtype.kind == "f"]
        self.mod.block_until_ready(held)

    def clock(self, calls: clocks.Calls, graphs: bool) -> clocks.Seconds:
        """Fifty asynchronous calls and one wait for the last of them; no graphs."""
        last: list[Any] = [None]

        def noted(call: Callable[[], Any]) -> Callable[[], Any]:
            def run() -> Any:
                last[0] = call()
                return last[0]

            return run

        return clocks.by_the_host([*map(noted, calls)], lambda: self.sync(last[0]), 50)

    def count(self, f: Any, inputs: Sequence[Any]) -> dict[str, int]:
        """Fusions and library calls of the compiled program."""
        if not hasattr(f, "lower"):
            return {}
        return {"kernels": entry_kernels(f.lower(*inputs).compile().as_text())}


KERNEL = re.compile(r"= .*?\b(fusion|custom-call|reduce|sort|scatter|dot|copy|while)\(")


def entry_kernels(hlo: str) -> int:
    """How many instructions of an optimised program's entry start kernels."""
    entry = hlo[hlo.index("ENTRY") :]
    return sum(1 for line in entry.splitlines()[1:] if KERNEL.search(line))


class OfTorch(OnDevice):
    """Arrays of torch."""

    def put(self, array: np.ndarray) -> Any:
        tensor = self.mod.as_tensor(np.ascontiguousarray(array))
        return tensor.cuda() if self.gpu else tensor.clone()

    def get(self, leaf: Any) -> np.ndarray:
        return leaf.detach().cpu().numpy()

    def wait(self) -> None:
        if self.gpu:
            self.mod.cuda.synchronize()

    def copied(self, array: Any) -> Any:
        return array.clone()

    def poison(self, leaves: Sequence[Any]) -> None:
        nan = float("nan")
        held = [self.mod.full_like(x, nan) for x in leaves if x.is_floating_point()]
        del held

    def clock(self, calls: clocks.Calls, graphs: bool) -> clocks.Seconds:
        if not self.gpu:
            return super().clock(calls, graphs)
        return clocks.TorchClock(self.mod)(calls, graphs)


class Torch(OfTorch, systems.Torch):
    """Eager torch."""


class TorchCompiled(OfTorch, systems.TorchCompiled):
    """`torch.compile`."""


class Triton(OfTorch, systems.Torch):
    """Triton kernels written by hand."""

    name, packages = "triton", ("torch", "triton")
    devices = ("gpu",)

    @cached_property
    def kernels(self) -> Any:
        """The module of the kernels, which imports triton."""
        return import_module("benchmarks.gpu.triton_kernels")


SYSTEMS: dict[str, Any] = {
    cls.name: cls for cls in (Cuda, Ftrace, Triton, Jax, TorchCompiled, Torch)
}

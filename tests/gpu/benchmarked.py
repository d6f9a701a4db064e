"""The benchmark's systems of CuPy's arrays over an emulated device: no time, but every kernel.

Hand-written CUDA C is given to the emulation as it is, behind a wrapper that takes its operands
from words, which is how the emulation passes them.
"""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.gpu.systems import Cuda, Ftrace
from ftrace.core.device import on_device

WORDS = "template <int N> struct Words { long long w[N]; };\n"
ENTRY = r'extern "C" __global__ void {name}\(([^)]*)\)'


class Kernel:
    """A kernel of a text, called as CuPy's are."""

    def __init__(self, device: Any, text: str, name: str) -> None:
        self.kernel = self
        if rest := re.search("#define REST (.*)", text):
            text = text.replace(", REST)", f", {rest[1]})")
        found = re.search(ENTRY.format(name=name), text)
        assert found is not None, name
        kinds = [" ".join(p.split()[:-1]) for p in found[1].split(",") if p.strip()]
        operands, self.size = [], 0
        for kind in kinds:
            word = f"a.w[{self.size}]"
            operands.append(f"*({kind}*)&{word}" if "Three" in kind else f"({kind})({word})")
            self.size += 3 if "Three" in kind else 1
        self.size = max(self.size, 1)
        wrapper = (
            f'extern "C" __global__ void by_words(const Words<{self.size}> a)'
            f" {{ {name}({', '.join(operands)}); }}\n"
        )
        self._device = device
        self._function = device.compile(WORDS + text + wrapper, ("by_words",))["by_words"]

    def __call__(self, grid: Any, block: Any, args: Any) -> None:
        words: list[int] = []
        for x in args:
            if on_device(x):
                words.append(self._device.pointer(x))
            elif isinstance(x, np.ndarray):  # a struct
                words.extend(np.frombuffer(x.tobytes(), np.int64).tolist())
            else:
                words.append(int(x))
        words = words or [0]
        grid, block = ((*dims, 1, 1)[:3] for dims in (grid, block))
        self._device.launch(self._function, grid, block, 0, words)


def hosted(device: Any) -> SimpleNamespace:
    """As much of CuPy as the hand-written kernels use."""

    def module(code: str, options: Any) -> Any:
        return SimpleNamespace(get_function=lambda name: Kernel(device, code, name))

    attributes = {"MultiProcessorCount": device.processors}
    return SimpleNamespace(
        RawModule=module,
        empty_like=lambda x: device.empty(x.shape, x.dtype),
        cuda=SimpleNamespace(Device=lambda: SimpleNamespace(attributes=attributes)),
    )


class _Emulated:
    """What both systems take from the device."""

    def __init__(self, device: Any) -> None:
        self.device = device
        super().__init__()

    gpu = False  # nothing is timed and no memory is copied

    def put(self, array: Any) -> Any:
        return self.device.from_host(array)

    def get(self, leaf: Any) -> Any:
        return self.device.to_host(leaf) if on_device(leaf) else leaf

    def poison(self, leaves: Any) -> None:
        """The device's memory is poisoned always."""


class EmulatedFtrace(_Emulated, Ftrace):
    """ftrace on an emulated device."""


class EmulatedCuda(_Emulated, Cuda):
    """Hand-written kernels on an emulated device."""

    def __init__(self, device: Any) -> None:
        super().__init__(device)
        self.__dict__["cupy"] = hosted(device)

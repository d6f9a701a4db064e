"""The first minute on a GPU: what the memory gives, ten kernels, and what the host costs.

    python -m tools.gpu_first [PATTERN]

Each line is printed as soon as it is known, so that a run that is cut off leaves what it measured.
Kernels are compared with NumPy before they are timed; the share is that of the bytes which any
implementation must move, by the bandwidth of a copy in the same run.
"""

import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import ftrace
from benchmarks.cases.functions import hmlstm, hmlstm_inputs, hmlstm_partials, over
from benchmarks.cases.fused import greeks, greeks_reference, layernorm, layernorm_vjp, softmax
from benchmarks.gpu.cases.loops import anomaly, solution
from benchmarks.gpu.child import MOST, SPREAD
from benchmarks.gpu.clocks import CupyClock
from benchmarks.gpu.systems import Ftrace
from ftrace.gpu.runtime import sequences
from ftrace.gpu.runtime.current_device import current

RNG = np.random.default_rng(0)
CALLS = 1000


@dataclass(frozen=True)
class Kernel:
    """A program to time: `by_hand` is the share of the bandwidth that an expert reaches."""

    program: Callable[..., Any]
    inputs: Callable[[], tuple[np.ndarray, ...]]
    reference: Callable[..., Any]
    floats: int  # of four bytes, read and written
    by_hand: float
    close: float = 1e-4


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def partials(*cell: Any) -> Any:
    """The HM-LSTM cell's value and its four partial derivatives."""
    f = over(ftrace.numpy, hmlstm)
    value, pull = ftrace.vjp(lambda *cfig: f(*cfig, *cell[4:]), *cell[:4])
    return value, *pull(ftrace.numpy.ones_like(value))


def pulled(ct: Any, x: Any, scale: Any, shift: Any) -> Any:
    value, pull = ftrace.vjp(over(ftrace.numpy, layernorm), x, scale, shift)
    return value, *pull(ct)


def market() -> tuple[np.ndarray, ...]:
    n = 1 << 22
    ranges = ((50, 150), (50, 150), (0.1, 2.0), (0.1, 0.6), (0.0, 0.1))
    return tuple(RNG.uniform(a, b, n).astype(np.float32) for a, b in ranges)


def kernels() -> dict[str, Kernel]:
    """By name, in the order of their importance."""
    rows, side, many = 4096 * 1024, 4096 * 4096, 1 << 22
    columns = 8192 * 8192
    orbit = lambda: (normal(many) % 3.0, RNG.random(many, dtype=np.float32) * 0.8)  # noqa: E731
    chosen = RNG.integers(0, 200_000, 200_000)
    norm = lambda: (normal(4096, 1024), normal(4096, 1024), normal(1024), normal(1024))  # noqa: E731
    return {
        "softmax 4096 x 1024": Kernel(
            over(ftrace.numpy, softmax),
            lambda: (normal(4096, 1024),),
            partial(softmax, np),
            2 * rows,
            0.87,
        ),
        "layernorm and pullback 4096 x 1024": Kernel(
            pulled, norm, layernorm_vjp, 4 * rows, 0.77, 1e-2
        ),
        "cell and partials n=4096": Kernel(
            partials, lambda: hmlstm_inputs(4096), hmlstm_partials, 9 * side, 0.87
        ),
        "kepler by while 2^22": Kernel(
            ftrace.vectorize(anomaly), orbit, lambda m, e: solution(m, e)[0], 3 * many, 0.0
        ),
        "running sum of rows 4096 x 4096": Kernel(
            lambda x: ftrace.numpy.cumsum(x, axis=1),
            lambda: (normal(4096, 4096),),
            partial(np.cumsum, axis=1),
            2 * side,
            0.85,
            1e-3,
        ),
        "transpose 4096 x 4096": Kernel(
            lambda x: ftrace.numpy.transpose(x) + 1.0,
            lambda: (normal(4096, 4096),),
            lambda x: x.T + 1.0,
            2 * side,
            0.85,
        ),
        "sum of columns 8192 x 8192": Kernel(
            lambda x: ftrace.numpy.sum(x, axis=0),
            lambda: (normal(8192, 8192),),
            partial(np.sum, axis=0),
            columns,
            0.90,
            1e-2,
        ),
        "sum of all 8192 x 8192": Kernel(
            ftrace.numpy.sum, lambda: (normal(8192, 8192),), np.sum, columns, 0.92, 1e-1
        ),
        "black-scholes and greeks 2^22": Kernel(
            greeks(Ftrace()), market, greeks_reference, 11 << 22, 0.0, 1e-2
        ),
        "gather 200,000 x 64": Kernel(
            lambda x, k: x[k] * 2.0,
            lambda: (normal(200_000, 64), chosen),
            lambda x, k: x[k] * 2.0,
            200_000 * 130,
            0.80,
        ),
    }


def difference(found: Any, expected: Any) -> float:
    """The largest difference, relative to the largest number of each result."""
    pairs = zip(ftrace.tree.leaves(found), ftrace.tree.leaves(expected), strict=True)
    return max(
        float(np.abs(np.asarray(a) - b).max() / max(float(np.abs(b).max()), 1e-30))
        for a, b in pairs
    )


class First:
    """The measurements, one line each."""

    def __init__(self) -> None:
        import cupy

        device: Any = current()
        self.cupy, self.device = cupy, device
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.clock = CupyClock(cupy, self.stream)
        self.bandwidth = 0.0

    def floor(self) -> str:
        """A copy of 1 GiB by the driver."""
        x = self.cupy.ones(1 << 28, np.float32)
        y = self.cupy.empty_like(x)
        seconds = self.clock([lambda: self.cupy.copyto(y, x)], False)["stream"]
        self.bandwidth = 2 * x.nbytes / seconds
        return f"{self.bandwidth / 1e9:.0f} GB/s"

    def kernel(self, kernel: Kernel) -> str:
        """First call, difference, times, share of the bandwidth."""
        host = kernel.inputs()
        given = tuple(self.cupy.asarray(a) for a in host)
        f: Any = kernel.program if hasattr(kernel.program, "lower") else ftrace.jit(kernel.program)
        start = time.perf_counter()
        out = f(*given)
        self.stream.synchronize()
        first = time.perf_counter() - start
        found = ftrace.tree.map(self.cupy.asnumpy, out)
        wide = (a.astype(np.float64) if a.dtype.kind == "f" else a for a in host)
        apart = difference(found, kernel.reference(*wide))
        wrong = "" if apart <= kernel.close else "   WRONG"
        cost = f.lower(*given).cost()
        moved = 4 * kernel.floats
        sets = [given]
        more = range(min(MOST, int(SPREAD // moved) + 1) - 1)
        sets += [tuple(a.copy() for a in given) for _ in more]
        del out
        times = self.clock([partial(f, *each) for each in sets], True)
        best = times.get("graph", times["stream"])
        share = moved / best / self.bandwidth
        clocks = ", ".join(f"{name} {seconds * 1e6:8.1f} us" for name, seconds in times.items())
        return (
            f"{clocks}   {moved / best / 1e9:5.0f} GB/s = {share:4.0%} of a copy"
            f" (by hand {kernel.by_hand:.0%})   kernels {cost.kernels}, by library"
            f" {cost.library_rows}   first call {first:.2f} s   apart {apart:.0e}{wrong}"
        )

    def host(self) -> Iterator[tuple[str, str]]:
        """Microseconds of the host for calls of several kinds, and of single requests."""
        cupy, device = self.cupy, self.device
        x = cupy.ones(1024, np.float32)
        many = [cupy.ones(1024, np.float32) for _ in range(20)]

        def chain(x: Any) -> Any:
            for _ in range(50):
                x = x - 0.0005 * ftrace.numpy.sum(x)
            return x

        def doubled(*xs: Any) -> list[Any]:
            return [x * 2.0 for x in xs]

        programs: dict[str, tuple[Any, list[Any]]] = {
            "one kernel": (ftrace.jit(lambda x: x * 2.0 + 1.0), [x]),
            "one kernel and a number": (ftrace.jit(lambda x, a: x * a + 1.0), [x, 2.0]),
            "20 arguments and results": (ftrace.jit(doubled), many),
            "51 kernels": (ftrace.jit(chain), [x]),
        }
        made = [0]
        record = sequences.Graph.record

        def counted(self: Any, given: bytes) -> None:
            made[0] += 1
            record(self, given)

        sequences.Graph.record = counted  # type: ignore[method-assign]
        for name, (f, args) in programs.items():
            made[0] = 0
            seconds = self._each(partial(f, *args))
            yield f"host: {name}", f"{seconds * 1e6:7.1f} us, {made[0]} graphs"
        pair = cupy.ones(2, np.float32)
        small = np.ones(16, np.float32)
        yield (
            "host: read()",
            f"{self._each(lambda: device.read(pair.data.ptr, 'f4')) * 1e6:7.1f} us",
        )
        yield "host: from_host", f"{self._each(lambda: device.from_host(small)) * 1e6:7.1f} us"
        yield "host: empty", f"{self._each(lambda: device.empty((1024,), 'f4')) * 1e6:7.1f} us"
        yield "eager: x * 2", f"{self._each(lambda: x * 2.0) * 1e6:7.1f} us"
        gradient = ftrace.grad(lambda x: ftrace.numpy.sum(ftrace.numpy.sin(x) * x))
        yield "eager: gradient", f"{self._each(lambda: gradient(x), 100) * 1e6:7.1f} us"

    def _each(self, call: Callable[[], Any], calls: int = CALLS) -> float:
        """Median seconds of the host per call, over ten runs without a wait inside."""
        for _ in range(8):
            call()
        found = []
        for _ in range(10):
            self.stream.synchronize()
            start = time.perf_counter()
            for _ in range(calls // 10):
                call()
            found.append((time.perf_counter() - start) / (calls // 10))
        return statistics.median(found)


def main(pattern: str = "") -> int:
    """Print everything; 1 if a kernel was wrong or failed."""
    bad = 0
    first = First()
    print(f"{first.device!r}, {first.device.compiler}, CuPy {first.cupy.__version__}", flush=True)
    print(f"{'copy of 1 GiB':36} {first.floor()}", flush=True)
    for name, kernel in kernels().items():
        if not re.search(pattern, name):
            continue
        try:
            line = first.kernel(kernel)
        except Exception as error:
            line = f"FAILED: {type(error).__name__}: {str(error).splitlines()[0]}"
        bad += "WRONG" in line or "FAILED" in line
        print(f"{name:36} {line}", flush=True)
    if re.search(pattern, "host"):
        for name, line in first.host():
            print(f"{name:36} {line}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    os.environ.setdefault("FTRACE_BENCH_DEVICE", "gpu")
    sys.exit(main(*sys.argv[1:]))

"""CUDA C written by hand: floors of memory, the paper's kernels, ways to lie on the grid.

Texts are made here and compiled through CuPy; a builder allocates its results at every call, as
everybody's does. `variants` are the ways that step 3 compares: what a branch costs, how wide loads
are, whether threads take one element or walk. Read next: `cases/cell.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCK = 256
PAPERS_BLOCK = 64
Function = Callable[..., Any]


def module(s: Any, text: str) -> Any:
    """A compiled text."""
    return s.cupy.RawModule(code=text, options=("-std=c++17",))


def whole_blocks(n: int, block: int) -> int:
    """How many blocks cover n threads."""
    return -(-n // block)


# --- floors


def streams_text(reads: int, writes: int) -> str:
    """A kernel that reads and writes some arrays, 16 bytes at a time, and does nothing else."""
    ins = "".join(f"const float4* r{i}, " for i in range(reads))
    outs = "".join(f"float4* w{j}, " for j in range(writes))
    loads = "".join(
        f"    v = r{i}[i]; s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w;\n" for i in range(reads)
    )
    more = "s.x += 1.0f; s.y += 1.0f; s.z += 1.0f; s.w += 1.0f;"
    stores = "".join(f"    {more} w{j}[i] = s;\n" for j in range(writes))
    return f"""
extern "C" __global__ void streams({ins}{outs}long long n) {{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v, s = {{0.0f, 0.0f, 0.0f, 0.0f}};
{loads}{stores}}}
"""


def streams(reads: int, writes: int) -> Callable[[Any], Function]:
    """A builder of the floor: `reads` arrays in, `writes` arrays out."""

    def build(s: Any) -> Function:
        kernel = module(s, streams_text(reads, writes)).get_function("streams")

        def call(*arrays: Any) -> list[Any]:
            outs = [s.cupy.empty_like(arrays[0]) for _ in range(writes)]
            n = arrays[0].size // 4
            kernel((whole_blocks(n, BLOCK),), (BLOCK,), (*arrays, *outs, np.int64(n)))
            return outs

        return call

    return build


def copied(s: Any) -> Function:
    """The builder of a copy by the driver."""

    def call(x: Any) -> Any:
        out = s.cupy.empty_like(x)
        out.data.copy_from_device_async(x.data, x.nbytes, s.stream)
        return out

    return call


# --- the paper's kernels

FUNCTIONS = """
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
"""

# One element per thread; six operands, each with a full Cartesian index, as in the paper.
PAPER = """
extern "C" __global__ void paper(
    const float* c, const float* f, const float* i, const float* g, const float* z1,
    const float* z2, float* dc, float* df, float* di, float* dg, int n, int zr, int zc) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n * n) return;
    int row = k / n, col = k % n, at = row * n + col, zat = row * zr + col * zc;
    float a = z1[zat], b = z2[zat], x = c[at], y = f[at], v = i[at], w = g[at];
    float rc = 0.0f, rf = 0.0f, ri = 0.0f, rg = 0.0f;
    if (a == 0.0f && b == 1.0f) {
        float s = sigmoid(y), t = sigmoid(v), h = tanhf(w);
        rc = s; rf = s * (1.0f - s) * x; ri = t * (1.0f - t) * h; rg = t * (1.0f - h * h);
    } else if (a == 0.0f && b == 0.0f) {
        rc = 1.0f;
    } else {
        float t = sigmoid(v), h = tanhf(w);
        ri = t * (1.0f - t) * h; rg = t * (1.0f - h * h);
    }
    dc[at] = rc; df[at] = rf; di[at] = ri; dg[at] = rg;
}
"""

# The split into 2+2+2+3+3+3+2 arrays that the paper ascribes to frameworks of 2018.
SPLIT = """
#define EACH int k = blockIdx.x * blockDim.x + threadIdx.x; if (k >= n * n) return; \\
    int zat = (k / n) * zr + (k % n) * zc; \\
    bool flush = z1[zat] == 1.0f, update = !flush && z2[zat] == 1.0f, made = flush || update;
#define REST const float* z1, const float* z2, int n, int zr, int zc
extern "C" __global__ void gate(const float* x, float* y, REST) { EACH y[k] = sigmoid(x[k]); }
extern "C" __global__ void bend(const float* x, float* y, REST) { EACH y[k] = tanhf(x[k]); }
extern "C" __global__ void by_c(const float* s, float* y, REST) {
    EACH y[k] = flush ? 0.0f : update ? s[k] : 1.0f; }
extern "C" __global__ void by_f(const float* s, const float* c, float* y, REST) {
    EACH y[k] = update ? s[k] * (1.0f - s[k]) * c[k] : 0.0f; }
extern "C" __global__ void by_i(const float* t, const float* h, float* y, REST) {
    EACH y[k] = made ? t[k] * (1.0f - t[k]) * h[k] : 0.0f; }
extern "C" __global__ void by_g(const float* t, const float* h, float* y, REST) {
    EACH y[k] = made ? t[k] * (1.0f - h[k] * h[k]) : 0.0f; }
"""


def _control(z: Any, n: int) -> tuple[np.int32, np.int32, np.int32]:
    """The side and the steps of the switches along rows and columns."""
    by_row, by_column = (int(z.shape[0] > 1), 0), (0, int(z.shape[1] > 1))
    steps = by_row if z.shape[0] > 1 else by_column
    return np.int32(n), np.int32(steps[0]), np.int32(steps[1])


def paper(s: Any) -> Function:
    """The builder of the paper's fused kernel: 64 threads, one element each."""
    kernel = module(s, FUNCTIONS + PAPER).get_function("paper")

    def call(*cell: Any) -> list[Any]:
        n = len(cell[0])
        outs = [s.cupy.empty_like(cell[0]) for _ in range(4)]
        grid = (whole_blocks(n * n, PAPERS_BLOCK),)
        kernel(grid, (PAPERS_BLOCK,), (*cell, *outs, *_control(cell[4], n)))
        return outs

    return call


def split(s: Any) -> Function:
    """The builder of the seven launches."""
    made = module(s, FUNCTIONS + SPLIT)
    names = ("gate", "bend", "by_c", "by_f", "by_i", "by_g")
    gate, bend, by_c, by_f, by_i, by_g = (made.get_function(name) for name in names)

    def call(c: Any, f: Any, i: Any, g: Any, z1: Any, z2: Any) -> list[Any]:
        n = len(c)
        rest = (z1, z2, *_control(z1, n))

        def run(kernel: Any, *arrays: Any) -> Any:
            out = s.cupy.empty_like(c)
            kernel((whole_blocks(n * n, BLOCK),), (BLOCK,), (*arrays, out, *rest))
            return out

        sf, si, tg = run(gate, f), run(gate, i), run(bend, g)
        return [run(by_c, sf), run(by_f, sf, c), run(by_i, si, tg), run(by_g, si, tg)]

    return call


# --- ways of the fused kernel


@dataclass(frozen=True)
class Variant:
    """A way to write the fused kernel: how arms are chosen, elements per thread, walking or not."""

    arms: str
    width: int
    walks: bool

    @property
    def name(self) -> str:
        return f"{self.arms}_x{self.width}" + ("_walking" if self.walks else "")


VARIANTS = tuple(
    Variant(arms, width, walks)
    for arms, widths in (("branch", (1, 2, 4)), ("select", (1, 2, 4)), ("lazy", (1,)))
    for width in widths
    for walks in (False, True)
)
_TYPES = {1: "float", 2: "float2", 4: "float4"}
_LANES = "xyzw"

ELEMENT = """
__device__ __forceinline__ void branch(float a, float b, float x, float y, float v, float w,
                                       float& rc, float& rf, float& ri, float& rg) {
    rc = rf = ri = rg = 0.0f;
    if (a == 0.0f && b == 0.0f) { rc = 1.0f; return; }
    float t = sigmoid(v), h = tanhf(w);
    ri = t * (1.0f - t) * h; rg = t * (1.0f - h * h);
    if (a == 0.0f && b == 1.0f) { float s = sigmoid(y); rc = s; rf = s * (1.0f - s) * x; }
}
__device__ __forceinline__ void select(float a, float b, float x, float y, float v, float w,
                                       float& rc, float& rf, float& ri, float& rg) {
    bool update = a == 0.0f && b == 1.0f, copy = a == 0.0f && b == 0.0f;
    float s = sigmoid(y), t = sigmoid(v), h = tanhf(w);
    rc = copy ? 1.0f : update ? s : 0.0f; rf = update ? s * (1.0f - s) * x : 0.0f;
    ri = copy ? 0.0f : t * (1.0f - t) * h; rg = copy ? 0.0f : t * (1.0f - h * h);
}
"""
_LAZY = """
        float rc = 0.0f, rf = 0.0f, ri = 0.0f, rg = 0.0f, a = z1[zat], b = z2[zat];
        if (a == 0.0f && b == 0.0f) { rc = 1.0f; } else {
            float t = sigmoid(i[k]), h = tanhf(g[k]);
            ri = t * (1.0f - t) * h; rg = t * (1.0f - h * h);
            if (a == 0.0f && b == 1.0f) {
                float s = sigmoid(f[k]); rc = s; rf = s * (1.0f - s) * c[k];
            }
        }
        dc[k] = rc; df[k] = rf; di[k] = ri; dg[k] = rg;
"""


def _body(variant: Variant) -> str:
    if variant.arms == "lazy":
        return _LAZY
    kind, lanes = _TYPES[variant.width], _LANES[: variant.width]
    text = f"        {kind} x = c[k], y = f[k], v = i[k], w = g[k], rc, rf, ri, rg;\n"
    for j, lane in enumerate(lanes):
        dot = f".{lane}" if variant.width > 1 else ""
        switches = f"z1[zat + {j} * zc], z2[zat + {j} * zc]"
        operands = ", ".join(f"{v}{dot}" for v in ("x", "y", "v", "w", "rc", "rf", "ri", "rg"))
        text += f"        {variant.arms}({switches}, {operands});\n"
    return text + "        dc[k] = rc; df[k] = rf; di[k] = ri; dg[k] = rg;\n"


def variant_text(variant: Variant) -> str:
    """The kernel of one way."""
    kind = _TYPES[variant.width]
    ins = ", ".join(f"const {kind}* {name}" for name in "cfig")
    outs = ", ".join(f"{kind}* d{name}" for name in "cfig")
    step = "k += gridDim.x * blockDim.x" if variant.walks else "k = total"
    return f"""
extern "C" __global__ void {variant.name}({ins}, const float* z1, const float* z2, {outs},
                                          int n, int zr, int zc) {{
    unsigned total = (unsigned)n * n / {variant.width};
    for (unsigned k = blockIdx.x * blockDim.x + threadIdx.x; k < total; {step}) {{
        unsigned first = k * {variant.width}, row = first / n, col = first - row * n;
        unsigned zat = row * zr + col * zc;
{_body(variant)}    }}
}}
"""


def ways(variant: Variant) -> Callable[[Any], Function]:
    """A builder of one way."""

    def build(s: Any) -> Function:
        text = FUNCTIONS + ELEMENT + variant_text(variant)
        kernel = module(s, text).get_function(variant.name)
        processors = s.cupy.cuda.Device().attributes["MultiProcessorCount"]

        def call(*cell: Any) -> list[Any]:
            n = len(cell[0])
            outs = [s.cupy.empty_like(cell[0]) for _ in range(4)]
            blocks = whole_blocks(n * n // variant.width, BLOCK)
            grid = min(blocks, 8 * processors) if variant.walks else blocks
            kernel((grid,), (BLOCK,), (*cell, *outs, *_control(cell[4], n)))
            return outs

        return call

    return build


# --- launches

TINY = """
__device__ __forceinline__ void link(const float* x, float* y, int n, float* part) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += 256) y[i] = x[i] - 0.0005f * part[0];
}
struct Three { const float* x; float* y; long long n; };
extern "C" __global__ void tiny(const float* x, float* y, int n) {
    __shared__ float part[256];
    link(x, y, n, part);
}
extern "C" __global__ void tiny_words(const Three a) {
    __shared__ float part[256];
    link(a.x, a.y, (int)a.n, part);
}
extern "C" __global__ void nothing() {}
"""
WORDS = np.dtype([("x", np.int64), ("y", np.int64), ("n", np.int64)])


def _raw(kernel: Any, x: Any, y: Any) -> None:
    kernel((1, 1, 1), (BLOCK, 1, 1), (x, y, np.int32(x.size)))


def _words(kernel: Any, x: Any, y: Any) -> None:
    block = np.array([(x.data.ptr, y.data.ptr, x.size)], WORDS)
    kernel((1, 1, 1), (BLOCK, 1, 1), (block,))


def chain(way: str, length: int) -> Callable[[Any], Function]:
    """A builder of some tiny kernels: by `RawKernel`, a held `Function`, one struct for it."""

    def build(s: Any) -> Function:
        name = "tiny_words" if way == "struct" else "tiny"
        raw = module(s, TINY).get_function(name)
        kernel = raw if way == "RawKernel" else raw.kernel
        launch = _words if way == "struct" else _raw

        def call(x: Any) -> Any:
            for _ in range(length):
                y = s.cupy.empty_like(x)
                launch(kernel, x, y)
                x = y
            return x

        return call

    return build


def nothing(length: int) -> Callable[[Any], Function]:
    """A builder of empty kernels."""

    def build(s: Any) -> Function:
        kernel = module(s, TINY).get_function("nothing").kernel

        def call(x: Any) -> Any:
            for _ in range(length):
                kernel((1, 1, 1), (1, 1, 1), ())
            return x

        return call

    return build

"""One kernel of each class that the GPU backend emits, written by hand in CUDA C.

They have the calling convention of emitted kernels: one block of 64-bit words, by value.
"""

from typing import Any

from tests.gpu.emulation.device import HostDevice

WORDS = "template <int N> struct Words { long long w[N]; };\n"

ELEMENTWISE = (
    WORDS
    + r"""
static __device__ __forceinline__ float twenty(float x) {
  const float t = tanhf(x), e = expf(-x * x), l = log1pf(fabsf(x));
  return t * e + sinf(x) * cosf(l) - 0.5f * t * t + sqrtf(l + 1.0f) / (e + 2.0f) + fmaxf(x, t);
}
// Four elements at once, then the rest one by one.
extern "C" __global__ void __launch_bounds__(256) elementwise(const Words<3> a) {
  const float* __restrict__ x = (const float*)a.w[0];
  float* __restrict__ y = (float*)a.w[1];
  const unsigned n = (unsigned)a.w[2], quads = n / 4;
  const unsigned first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  for (unsigned i = first; i < quads; i += step) {
    const float4 v = __ldg((const float4*)x + i);
    ((float4*)y)[i] = make_float4(twenty(v.x), twenty(v.y), twenty(v.z), twenty(v.w));
  }
  for (unsigned i = 4 * quads + first; i < n; i += step) y[i] = twenty(x[i]);
}
"""
)

ROW_SUM = (
    WORDS
    + r"""
// A block per row: shuffles inside warps, shared memory between them.
extern "C" __global__ void __launch_bounds__(256) row_sum(const Words<3> a) {
  __shared__ float part[8];
  const float* x = (const float*)a.w[0];
  float* y = (float*)a.w[1];
  const unsigned n = (unsigned)a.w[2], t = threadIdx.x;
  float sum = 0.0f;
  for (unsigned i = t; i < n; i += blockDim.x) {
    const float v = x[blockIdx.x * n + i];
    sum += tanhf(v) * v;
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (t % 32 == 0) part[t / 32] = sum;
  __syncthreads();
  if (t < 32) {
    sum = t < blockDim.x / 32 ? part[t] : 0.0f;
    for (int d = 4; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (t == 0) y[blockIdx.x] = sum;
  }
}
"""
)

NEWTON = (
    WORDS
    + r"""
// The square root by Newton's iteration; every thread takes as many steps as it needs.
extern "C" __global__ void newton(const Words<4> a) {
  const double* x = (const double*)a.w[0];
  double* y = (double*)a.w[1];
  int* steps = (int*)a.w[2];
  const long long n = a.w[3], i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double v = 1.0;
  int count = 0;
  while (fabs(v * v - x[i]) > 1e-12 * x[i]) {
    v = 0.5 * (v + x[i] / v);
    ++count;
  }
  y[i] = v;
  atomicAdd(steps, count);
}
"""
)

CELL = (
    WORDS
    + r"""
// Control per column decides which arm an element takes; four partial derivatives are written.
extern "C" __global__ void cell(const Words<10> a) {
  const float *z = (const float*)a.w[0], *c = (const float*)a.w[1], *f = (const float*)a.w[2],
              *i = (const float*)a.w[3], *g = (const float*)a.w[4];
  float *dc = (float*)a.w[5], *df = (float*)a.w[6], *di = (float*)a.w[7], *dg = (float*)a.w[8];
  const unsigned n = (unsigned)a.w[9], column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= n) return;
  for (unsigned row = blockIdx.y; row < n; row += gridDim.y) {
    const unsigned at = row * n + column;
    float pc = 0.0f, pf = 0.0f, pi = 0.0f, pg = 0.0f;
    if (z[column] == 0.0f) {
      pc = 1.0f;
    } else {
      const float si = 1.0f / (1.0f + expf(-i[at])), tg = tanhf(g[at]);
      pi = si * (1.0f - si) * tg;
      pg = si * (1.0f - tg * tg);
      if (z[column] == 1.0f) {
        const float sf = 1.0f / (1.0f + expf(-f[at]));
        pc = sf;
        pf = sf * (1.0f - sf) * c[at];
      }
    }
    dc[at] = pc; df[at] = pf; di[at] = pi; dg[at] = pg;
  }
}
"""
)

COLUMNS = (
    WORDS
    + r"""
// The pullback of (x * w): full gradients, and w's summed over rows in two stages.
extern "C" __global__ void columns_0(const Words<7> a) {
  __shared__ float tile[8][33];
  const float *x = (const float*)a.w[0], *w = (const float*)a.w[1], *ct = (const float*)a.w[2];
  float *dx = (float*)a.w[3], *part = (float*)a.w[4];
  const unsigned rows = (unsigned)a.w[5], cols = (unsigned)a.w[6];
  const unsigned column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (column < cols)
    for (unsigned r = blockIdx.y * 8 + threadIdx.y; r < rows; r += gridDim.y * 8) {
      dx[r * cols + column] = ct[r * cols + column] * w[column];
      sum += ct[r * cols + column] * x[r * cols + column];
    }
  tile[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = 4; half > 0; half /= 2) {
    if (threadIdx.y < half) tile[threadIdx.y][threadIdx.x] += tile[threadIdx.y + half][threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.y == 0 && column < cols) part[blockIdx.y * cols + column] = tile[0][threadIdx.x];
}
extern "C" __global__ void columns_1(const Words<4> a) {
  const float* part = (const float*)a.w[0];
  float* dw = (float*)a.w[1];
  const unsigned parts = (unsigned)a.w[2], cols = (unsigned)a.w[3];
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= cols) return;
  float sum = 0.0f;
  for (unsigned p = 0; p < parts; ++p) sum += part[p * cols + column];
  dw[column] = sum;
}
"""
)

SOFTMAX = (
    WORDS
    + r"""
// A warp per row; every lane has the row's maximum and sum after the butterfly.
extern "C" __global__ void softmax(const Words<4> a) {
  const float* x = (const float*)a.w[0];
  float* y = (float*)a.w[1];
  const unsigned rows = (unsigned)a.w[2], n = (unsigned)a.w[3];
  const unsigned row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;  // whole warps
  float top = -__int_as_float(0x7f800000);
  for (unsigned i = lane; i < n; i += 32) top = fmaxf(top, x[row * n + i]);
  for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
  float sum = 0.0f;
  for (unsigned i = lane; i < n; i += 32) sum += expf(x[row * n + i] - top);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  for (unsigned i = lane; i < n; i += 32) y[row * n + i] = expf(x[row * n + i] - top) / sum;
}
"""
)

COLLECTIVES = (
    WORDS
    + r"""
// What each collective says to every lane, one column for each.
extern "C" __global__ void collectives(const Words<1> a) {
  long long* out = (long long*)a.w[0] + threadIdx.x * 11;
  const int t = (int)threadIdx.x, lane = t % 32;
  out[0] = __shfl_sync(0xffffffffu, t, 5);
  out[1] = __shfl_up_sync(0xffffffffu, (long long)t, 3, 16);
  out[2] = __shfl_down_sync(0xffffffffu, (unsigned)t, 3, 16);
  out[3] = (long long)__shfl_xor_sync(0xffffffffu, (double)t, 7);
  out[4] = __ballot_sync(0xffffffffu, t % 3 == 0);
  out[5] = __any_sync(0xffffffffu, t == 40);
  out[6] = __all_sync(0xffffffffu, t < 40);
  out[7] = lane < 16 ? __shfl_sync(0xffffu, t, lane / 2) : -1;
  __syncwarp();
  out[8] = __syncthreads_count(t % 5 == 0);
  out[9] = __syncthreads_or(t == 63) + 2 * __syncthreads_and(t != 63);
  out[10] = __shfl_xor_sync(0xffffffffu, t, 20, 16);
}
"""
)


def run(device: HostDevice, source: str, name: str, grid: Any, block: Any, *words: Any) -> None:
    """Launch a kernel; arrays among the words stand for their addresses."""
    kernel = device.compile(source, (name,))[name]
    numbers = [word if isinstance(word, int) else device.pointer(word) for word in words]
    device.launch(kernel, grid, block, 0, numbers)

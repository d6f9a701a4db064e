"""Bessel functions of real order, which neither CUDA nor CuPy has: a kernel of our own.

Near 0 the power series is added up, of `I` from its largest term where the first ones are too small
to be numbers; far out Hankel's expansion. Between the two `J` comes from the recurrence downwards,
which is made right by Neumann's sum of `J` of all even orders above.

Source: M. Abramowitz and I. Stegun, Handbook of Mathematical Functions (1964), 9.1.10, 9.1.87,
9.2.5, 9.6.10, 9.7.1, and J. C. P. Miller's algorithm, 9.12 example 1. All is float64, good to 2e-11
of the value (of the height of the wave near zeros of `J`), mostly to 1e-13.
"""

from typing import Any, Final

import numpy as np

from ftrace.gpu.emit.kernel_source import HEADER
from ftrace.gpu.runtime.current_device import current
from ftrace.gpu.runtime.device_interface import Device

KINDS: Final = ("iv", "ive", "jv")
THREADS: Final = 256
_functions: Final[dict[Device, Any]] = {}


def evaluate(kind: str, v: Any, x: Any) -> Any:
    """A Bessel function.

    Args:
        kind: "iv", "ive" or "jv", as in SciPy.
        v, x: order and argument, contiguous float64 arrays of one shape on a device.
    """
    device = current(x)
    out = device.empty(x.shape, np.float64)
    if x.size:
        function = _functions.get(device)
        if function is None:
            function = _functions[device] = device.compile(SOURCE, ("bessel",))["bessel"]
        words = (*map(device.pointer, (v, x, out)), x.size, KINDS.index(kind))
        blocks = min(-(-x.size // THREADS), 1 << 20)
        device.launch(function, (blocks, 1, 1), (THREADS, 1, 1), 0, words)
    return out


_FUNCTIONS: Final = """
static __device__ double ft_odd(double v) {
  return v - 2.0 * floor(0.5 * v) == 1.0 ? -1.0 : 1.0;
}

static __device__ double ft_bessel_series(double v, double x, double sign, double scale) {
  const double h = 0.5 * x;
  const bool small = fabs(v) < 20.0;
  double term = small ? pow(h, v) / tgamma(v + 1.0) * exp(-scale)
                      : exp(v * log(h) - lgamma(v + 1.0) - scale);
  if (!small && v < 0.0 && ft_odd(floor(v + 1.0)) < 0.0) term = -term;
  double sum = term;
  for (double k = 1.0; k < 4096.0; k += 1.0) {
    term *= sign * h / k * (h / (k + v));
    sum += term;
    if (k + v > 0.0 && fabs(term) <= 1e-17 * fabs(sum)) break;
  }
  return sum;
}

static __device__ double ft_bessel_peak(double v, double x) {
  const double h = 0.5 * x, k0 = floor(0.5 * (sqrt(v * v + x * x) - v));
  double sum = 1.0, up = 1.0, down = 1.0;
  for (double k = k0 + 1.0; up > 1e-18; k += 1.0) sum += up *= h / k * (h / (k + v));
  for (double k = k0; k > 0.0 && down > 1e-18; k -= 1.0) sum += down *= k / h * ((k + v) / h);
  return sum * exp((2.0 * k0 + v) * log(h) - lgamma(k0 + 1.0) - lgamma(k0 + v + 1.0) - x);
}

static __device__ double ft_ive_above(double v, double x) {
  if (x > 50.0 && x > v * v) {
    double term = 1.0, sum = 1.0;
    for (double k = 1.0; k < 200.0; k += 1.0) {
      const double next = -term * (4.0 * v * v - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (8.0 * k * x);
      if (fabs(next) >= fabs(term) && k > v) break;
      sum += term = next;
      if (fabs(term) <= 1e-17 * fabs(sum)) break;
    }
    return sum / sqrt(6.283185307179586 * x);
  }
  if (x > 600.0) return ft_bessel_peak(fabs(v), x);
  return ft_bessel_series(v, x, 1.0, x);
}

static __device__ double ft_iv_above(double v, double x) {
  if (x <= 600.0 && !(x > 50.0 && x > v * v)) return ft_bessel_series(v, x, 1.0, 0.0);
  const double half = exp(0.5 * x);
  return half * ft_ive_above(v, x) * half;
}

static __device__ double ft_bessel_waves(double v, double x) {
  double term = 1.0, p = 1.0, q = 0.0;
  for (int k = 1; k < 400; ++k) {
    const double odd = 2.0 * k - 1.0, next = term * (4.0 * v * v - odd * odd) / (8.0 * k * x);
    if (fabs(next) >= fabs(term) && k > fabs(v)) break;
    term = next;
    const double signed_term = (k & 2) ? -term : term;
    if (k & 1) q += signed_term;
    else p += signed_term;
    if (fabs(term) <= 1e-18) break;
  }
  const double turn = 0.5 * v + 0.25, c = cospi(turn), s = sinpi(turn);
  const double cx = cos(x), sx = sin(x);
  return sqrt(0.6366197723675814 / x) * (p * (cx * c + sx * s) - q * (sx * c - cx * s));
}

static __device__ double ft_bessel_down(double v, double x) {
  const double mu = v - floor(v), most = fmax(v, x);
  const int n = (int)floor(v);
  int m = (int)(most + 40.0 + 6.0 * cbrt(most));
  m += m & 1;
  double next = 0.0, here = 1e-290, sum = 0.0, wanted = 0.0;
  double g = exp(lgamma(mu + 0.5 * m) - lgamma(0.5 * m + 1.0));
  for (; m >= 0; --m) {
    if (!(m & 1)) {
      const double k = 0.5 * m;
      sum += (m ? (mu + m) * g : tgamma(mu + 1.0)) * here;
      if (m > 2) g *= k / (mu + k - 1.0);
    }
    if (m == n) wanted = here;
    const double before = 2.0 * (mu + m) / x * here - next;
    next = here;
    here = before;
    if (fabs(here) > 1e200) {
      here *= 1e-200;
      next *= 1e-200;
      sum *= 1e-200;
      wanted *= 1e-200;
    }
  }
  for (int k = -1; n < 0; --k) {
    if (k == n) {
      wanted = here;
      break;
    }
    const double before = 2.0 * (mu + k) / x * here - next;
    next = here;
    here = before;
  }
  return wanted * (pow(0.5 * x, mu) / sum);
}

static __device__ double ft_jv_above(double v, double x) {
  if (x < 4.0) return ft_bessel_series(v, x, -1.0, 0.0);
  if (x > 25.0 && x > 0.5 * v * v) return ft_bessel_waves(v, x);
  return ft_bessel_down(v, x);
}

static __device__ double ft_bessel(int kind, double v, double x) {
  if (!(v - v == 0.0) || !(x - x == 0.0)) return (v - v) + (x - x);  // NaN
  const bool whole = v == floor(v);
  if (x < 0.0 && !whole) return sqrt(x);  // NaN
  double sign = x < 0.0 ? ft_odd(v) : 1.0;
  x = fabs(x);
  if (v < 0.0 && whole) {
    if (kind == 2) sign *= ft_odd(v);
    v = -v;
  }
  if (x == 0.0) return v == 0.0 ? 1.0 : v > 0.0 ? 0.0 : exp(1e4) * tgamma(v + 1.0);
  if (kind == 2) return sign * ft_jv_above(v, x);
  return sign * (kind == 0 ? ft_iv_above(v, x) : ft_ive_above(v, x));
}
"""

SOURCE: Final = f"""{HEADER}{_FUNCTIONS}
extern "C" __global__ void __launch_bounds__({THREADS}) bessel(const Words<5> a) {{
  const double *v = (const double*)a.w[0], *x = (const double*)a.w[1];
  double* out = (double*)a.w[2];
  const long long step = (long long)gridDim.x * {THREADS};
  for (long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x; i < a.w[3]; i += step)
    out[i] = ft_bessel((int)a.w[4], v[i], x[i]);
}}
"""

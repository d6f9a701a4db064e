// CUDA's mathematical functions that C has not, in double precision, within a few units in the last
// place. Floats are the rounded doubles (cuda.h). Compiled together with runtime.cpp.

#include <math.h>

#define MATH extern "C" __attribute__((visibility("default"))) double

static const double SQRT_PI = 1.7724538509055160273, SQRT_2 = 1.4142135623730950488;

MATH ftrace_rsqrt(double x) { return 1.0 / sqrt(x); }
MATH ftrace_rcbrt(double x) { return 1.0 / cbrt(x); }
MATH ftrace_exp10(double x) { return pow(10.0, x); }

// Reduced to a quarter of a turn without rounding.
static double turned(double x, int quarter) {
  if (!isfinite(x)) return NAN;
  const double whole = nearbyint(2.0 * x), angle = M_PI * (x - 0.5 * whole);
  switch (((int)fmod(whole, 4.0) + 4 + quarter) % 4) {
    case 0: return sin(angle);
    case 1: return cos(angle);
    case 2: return -sin(angle);
    default: return -cos(angle);
  }
}
MATH ftrace_sinpi(double x) {
  return x == trunc(x) && isfinite(x) ? copysign(0.0, x) : turned(x, 0);
}
MATH ftrace_cospi(double x) { return fabs(fmod(x, 1.0)) == 0.5 ? 0.0 : turned(x, 1); }

// The rounding of x / sqrt(2) is corrected to first order: erfc falls steeply.
MATH ftrace_normcdf(double x) {
  const double high = 0.70710678118654757, low = -4.8336466567264567e-17;
  const double h = -x * high, rest = fma(-x, high, -h) - x * low;
  return isinf(x) ? x > 0.0 : 0.5 * (erfc(h) - 2.0 / SQRT_PI * exp(-h * h) * rest);
}

MATH ftrace_erfcx(double x) {
  if (x < 25.0) {
    const double square = x * x, rest = fma(x, x, -square);
    return exp(square) * (1.0 + rest) * erfc(x);
  }
  double sum = 1.0, term = 1.0;  // asymptotic: (-1)^k (2k-1)!! / (2 x^2)^k
  for (int k = 1; k < 10; ++k) sum += term *= -(2 * k - 1) / (2.0 * x * x);
  return sum / (x * SQRT_PI);
}

// y with erfc(y) = q, for 0 < q <= 1: Winitzki's estimate, then Halley's iteration. Near q = 1 the
// equation erf(y) = p is solved, whose p = 1 - q loses nothing.
static double inverse(double p, double q) {
  const double w = log(q) + log1p(p), a = 0.147, t = 2.0 / (M_PI * a) + 0.5 * w;
  double y = p < 1e-3 ? 0.5 * SQRT_PI * p : sqrt(sqrt(t * t - w / a) - t);
  for (int i = 0; i < 4; ++i) {
    const double error = p < 0.5 ? erf(y) - p : q - erfc(y);
    const double u = error * 0.5 * SQRT_PI * exp(y * y);
    y -= u / (1.0 + u * y);
  }
  return y;
}
MATH ftrace_erfinv(double x) {
  const double p = fabs(x);
  if (!(p < 1.0)) return p == 1.0 ? copysign(INFINITY, x) : NAN;
  return p == 0.0 ? x : copysign(inverse(p, 1.0 - p), x);
}
MATH ftrace_erfcinv(double q) {
  if (!(q > 0.0 && q < 2.0)) return q == 0.0 ? INFINITY : q == 2.0 ? -INFINITY : NAN;
  if (q == 1.0) return 0.0;
  return q < 1.0 ? inverse(1.0 - q, q) : -inverse(q - 1.0, 2.0 - q);
}
MATH ftrace_normcdfinv(double p) { return -SQRT_2 * ftrace_erfcinv(2.0 * p); }

// The power series has positive terms only; from 30 on, the asymptotic one.
static double bessel_i(int order, double x) {
  if (x <= 30.0) {
    double term = order ? 0.5 * x : 1.0, sum = 0.0;
    for (int k = 1; k < 200 && sum + term != sum; ++k) {
      sum += term;
      term *= 0.25 * x * x / k / (k + order);
    }
    return sum;
  }
  double term = 1.0, sum = 1.0;
  for (int k = 1; k < 40; ++k) {
    const double odd = 2 * k - 1;
    sum += term *= -(4.0 * order * order - odd * odd) / (8.0 * x * k);
  }
  const double half = exp(0.5 * x);
  return half * (half * (sum / sqrt(2.0 * M_PI * x)));
}
MATH ftrace_cyl_bessel_i0(double x) { return isnan(x) ? x : bessel_i(0, fabs(x)); }
MATH ftrace_cyl_bessel_i1(double x) {
  return isnan(x) ? x : copysign(bessel_i(1, fabs(x)), x);
}

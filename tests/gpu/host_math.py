"""C++ for a host compiler: the names of CUDA C that spellings use and the C library lacks.

The inverse functions are found by Newton's method in long double, erfcx from the library's erfc or
a continued fraction; all good to the last bits of a double where long double is wider.
"""

HOST_MATH = r"""
#include <math.h>
#include <string.h>

template <class To, class From> static inline To ft_same_bits(From x) {
  To y;
  static_assert(sizeof x == sizeof y, "sizes");
  memcpy(&y, &x, sizeof y);
  return y;
}
static inline int __float_as_int(float x) { return ft_same_bits<int>(x); }
static inline float __int_as_float(int x) { return ft_same_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return ft_same_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return ft_same_bits<double>(x); }

static long double host_erfcx(long double x) {
  if (x < 5) return expl(x * x) * erfcl(x);
  if (x > 1e9L) return 0.564189583547756286948L / x;
  long double below = x;
  for (int k = 100; k > 0; --k) below = x + k / 2.0L / below;
  return 0.564189583547756286948L / below;
}

// y > 0 with erfc(y) = q: log(erfc) is concave, so that Newton's method converges from the left
static long double host_erfc_inverse_tail(long double q) {
  long double y = 0;
  for (int i = 0; i < 200; ++i) {
    long double scaled = host_erfcx(y);
    long double step = (logl(scaled) - y * y - logl(q)) * scaled * 0.886226925452758013649L;
    y += step;
    if (fabsl(step) < 1e-21L * y) break;
  }
  return y;
}

static long double host_erfinv(long double x) {
  long double size = fabsl(x), y = size * 0.886226925452758013649L;
  if (!(size <= 1)) return NAN;
  if (size == 1) return x * INFINITY;
  if (size > 0.5L) return copysignl(host_erfc_inverse_tail(1 - size), x);
  for (int i = 0; i < 50; ++i) y += (size - erfl(y)) * expl(y * y) * 0.886226925452758013649L;
  return copysignl(y, x);
}

static long double host_normcdfinv(long double p) {
  if (!(p >= 0 && p <= 1)) return NAN;
  if (p == 0) return -INFINITY;
  if (p < 0.25L) return -1.41421356237309504880L * host_erfc_inverse_tail(2 * p);
  return 1.41421356237309504880L * host_erfinv(2 * p - 1);
}

static long double host_turn(long double x) {  // pi x, for |x| <= 1/2
  return 3.14159265358979323846264338328L * x;
}

static inline float sinpif(float x) { return (float)sinl(host_turn(x)); }
static inline double sinpi(double x) { return (double)sinl(host_turn(x)); }
static inline float cospif(float x) { return (float)cosl(host_turn(x)); }
static inline double cospi(double x) { return (double)cosl(host_turn(x)); }
static inline float erfcxf(float x) { return (float)host_erfcx(x); }
static inline double erfcx(double x) { return (double)host_erfcx(x); }
static inline float erfinvf(float x) { return (float)host_erfinv(x); }
static inline double erfinv(double x) { return (double)host_erfinv(x); }
static inline float normcdfinvf(float x) { return (float)host_normcdfinv(x); }
static inline double normcdfinv(double x) { return (double)host_normcdfinv(x); }
"""

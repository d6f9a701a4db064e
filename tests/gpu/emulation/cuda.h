// What CUDA C has beyond C++, for a host compiler. The text of a kernel follows it, unchanged; then
// FTRACE_KERNEL(name) for each kernel. Threads, barriers and collectives live in runtime.cpp.
// No header is included: what NVRTC does not know, is not known here, and compiling takes less time.
#define FTRACE_EMULATION 1

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// All shared variables of a unit lie together, so that every block finds them poisoned.
#define __shared__ static __attribute__((section("ftrace_shared"), used))

typedef decltype(sizeof(0)) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
#define FTRACE_INLINE static inline __attribute__((always_inline, unused))

// --- vectors, with CUDA's alignments

#define FTRACE_VECTORS(T, name, a1, a2, a4)                                            \
  struct alignas(a1) name##1 { T x; };                                                 \
  struct alignas(a2) name##2 { T x, y; };                                              \
  struct alignas(a1) name##3 { T x, y, z; };                                           \
  struct alignas(a4) name##4 { T x, y, z, w; };                                        \
  FTRACE_INLINE name##1 make_##name##1(T x) { return {x}; }                            \
  FTRACE_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; }                    \
  FTRACE_INLINE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }            \
  FTRACE_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
FTRACE_VECTORS(signed char, char, 1, 2, 4)
FTRACE_VECTORS(unsigned char, uchar, 1, 2, 4)
FTRACE_VECTORS(short, short, 2, 4, 8)
FTRACE_VECTORS(unsigned short, ushort, 2, 4, 8)
FTRACE_VECTORS(int, int, 4, 8, 16)
FTRACE_VECTORS(unsigned, uint, 4, 8, 16)
FTRACE_VECTORS(long long, longlong, 8, 16, 16)
FTRACE_VECTORS(unsigned long long, ulonglong, 8, 16, 16)
FTRACE_VECTORS(float, float, 4, 8, 16)
FTRACE_VECTORS(double, double, 8, 16, 16)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// --- threads: see runtime.cpp

extern "C" {
extern const uint3 ftrace_threadIdx, ftrace_blockIdx;
extern const uint3 ftrace_blockDim, ftrace_gridDim;
extern char* const ftrace_dynamic_shared;
void ftrace_next();
void ftrace_barrier(int line);
int ftrace_barrier_count(int predicate, int line);
unsigned long long ftrace_collective(
    const char* what, unsigned mask, unsigned long long value, int source, int line);
void ftrace_trap(int line);
extern const char __start_ftrace_shared[] __attribute__((visibility("hidden")));
extern const char __stop_ftrace_shared[] __attribute__((visibility("hidden")));
}
#define threadIdx ftrace_threadIdx
#define blockIdx ftrace_blockIdx
#define blockDim ftrace_blockDim
#define gridDim ftrace_gridDim
#define warpSize 32
#define FTRACE_LINE int line = __builtin_LINE()

FTRACE_INLINE unsigned ftrace_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
FTRACE_INLINE void __syncthreads(FTRACE_LINE) { ftrace_barrier(line); }
FTRACE_INLINE int __syncthreads_count(int p, FTRACE_LINE) { return ftrace_barrier_count(p, line); }
FTRACE_INLINE int __syncthreads_or(int p, FTRACE_LINE) { return ftrace_barrier_count(p, line) > 0; }
FTRACE_INLINE int __syncthreads_and(int p, FTRACE_LINE) {
  return ftrace_barrier_count(!p, line) == 0;
}
FTRACE_INLINE void __syncwarp(unsigned mask = 0xffffffffu, FTRACE_LINE) {
  ftrace_collective("__syncwarp", mask, 0, -1, line);
}
FTRACE_INLINE unsigned __ballot_sync(unsigned mask, int p, FTRACE_LINE) {
  return (unsigned)ftrace_collective("__ballot_sync", mask, p != 0, -1, line);
}
FTRACE_INLINE int __any_sync(unsigned mask, int p, FTRACE_LINE) {
  return ftrace_collective("__any_sync", mask, p != 0, -1, line) != 0;
}
FTRACE_INLINE int __all_sync(unsigned mask, int p, FTRACE_LINE) {
  return ftrace_collective("__all_sync", mask, p != 0, -1, line) == mask;
}
FTRACE_INLINE void __threadfence() {}
FTRACE_INLINE void __threadfence_block() {}
FTRACE_INLINE void __threadfence_system() {}
FTRACE_INLINE void __trap(FTRACE_LINE) { ftrace_trap(line); }

template <class T>
FTRACE_INLINE T ftrace_shuffle(const char* what, unsigned mask, T value, int source, int line) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = ftrace_collective(what, mask, bits, source, line);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
// The lane that is read; a lane that would read outside of its part of the warp reads itself.
#define FTRACE_SHUFFLE(T, name, by, ...)                                                        \
  FTRACE_INLINE T name(unsigned mask, T value, by, int width = 32, FTRACE_LINE) {               \
    const int lane = (int)(ftrace_thread() % 32), first = lane & ~(width - 1);                  \
    return ftrace_shuffle(#name, mask, value, __VA_ARGS__, line);                               \
  }
#define FTRACE_SHUFFLES(T)                                                                      \
  FTRACE_SHUFFLE(T, __shfl_sync, int source, first + (source & (width - 1)))                    \
  FTRACE_SHUFFLE(T, __shfl_up_sync, unsigned d, lane - (int)d >= first ? lane - (int)d : lane)  \
  FTRACE_SHUFFLE(T, __shfl_down_sync, unsigned d,                                               \
                 lane + (int)d < first + width ? lane + (int)d : lane)                          \
  FTRACE_SHUFFLE(T, __shfl_xor_sync, int bits,                                                  \
                 (lane ^ bits) < first + width ? lane ^ bits : lane)
FTRACE_SHUFFLES(int)
FTRACE_SHUFFLES(unsigned)
FTRACE_SHUFFLES(long)
FTRACE_SHUFFLES(unsigned long)
FTRACE_SHUFFLES(long long)
FTRACE_SHUFFLES(unsigned long long)
FTRACE_SHUFFLES(float)
FTRACE_SHUFFLES(double)

// --- memory

#define FTRACE_LOAD(name) template <class T> FTRACE_INLINE T name(const T* p) { return *p; }
FTRACE_LOAD(__ldg)
FTRACE_LOAD(__ldcg)
FTRACE_LOAD(__ldca)
FTRACE_LOAD(__ldcs)
FTRACE_LOAD(__ldlu)
FTRACE_LOAD(__ldcv)
#define FTRACE_STORE(name) template <class T> FTRACE_INLINE void name(T* p, T v) { *p = v; }
FTRACE_STORE(__stcg)
FTRACE_STORE(__stcs)
FTRACE_STORE(__stwb)
FTRACE_STORE(__stwt)

// One thread runs at a time: reading, then writing, is atomic.
#define FTRACE_ATOMIC(name, T, ...)                                                             \
  FTRACE_INLINE T name(T* p, T v) { const T old = *p; *p = __VA_ARGS__; return old; }
#define FTRACE_ATOMIC_INTEGER(T)                                                                \
  FTRACE_ATOMIC(atomicMax, T, old < v ? v : old)                                                \
  FTRACE_ATOMIC(atomicMin, T, v < old ? v : old)                                                \
  FTRACE_ATOMIC(atomicAnd, T, old & v)                                                          \
  FTRACE_ATOMIC(atomicOr, T, old | v)                                                           \
  FTRACE_ATOMIC(atomicXor, T, old ^ v)                                                          \
  FTRACE_ATOMIC(atomicExch, T, v)                                                               \
  FTRACE_INLINE T atomicCAS(T* p, T expected, T v) {                                            \
    const T old = *p;                                                                           \
    if (old == expected) *p = v;                                                                \
    return old;                                                                                 \
  }
FTRACE_ATOMIC_INTEGER(int)
FTRACE_ATOMIC_INTEGER(unsigned)
FTRACE_ATOMIC_INTEGER(unsigned long long)
FTRACE_ATOMIC(atomicMax, long long, old < v ? v : old)
FTRACE_ATOMIC(atomicMin, long long, v < old ? v : old)
FTRACE_ATOMIC(atomicAdd, int, (int)((unsigned)old + (unsigned)v))
FTRACE_ATOMIC(atomicAdd, unsigned, old + v)
FTRACE_ATOMIC(atomicAdd, unsigned long long, old + v)
FTRACE_ATOMIC(atomicAdd, float, old + v)
FTRACE_ATOMIC(atomicAdd, double, old + v)
FTRACE_ATOMIC(atomicSub, int, (int)((unsigned)old - (unsigned)v))
FTRACE_ATOMIC(atomicSub, unsigned, old - v)
FTRACE_ATOMIC(atomicExch, float, v)

// --- numbers

// C names functions of doubles, and those of floats with an f; CUDA also has overloads for floats.
#define FTRACE_MATH1(name)                                                                      \
  extern "C" double name(double) noexcept;                                                      \
  extern "C" float name##f(float) noexcept;                                                     \
  FTRACE_INLINE float name(float x) { return name##f(x); }
#define FTRACE_MATH2(name)                                                                      \
  extern "C" double name(double, double) noexcept;                                              \
  extern "C" float name##f(float, float) noexcept;                                              \
  FTRACE_INLINE float name(float x, float y) { return name##f(x, y); }
#define FTRACE_EACH1(m) m(acos) m(acosh) m(asin) m(asinh) m(atan) m(atanh) m(cbrt) m(ceil)      \
  m(cos) m(cosh) m(erf) m(erfc) m(exp) m(exp2) m(expm1) m(fabs) m(floor) m(lgamma) m(log)       \
  m(log10) m(log1p) m(log2) m(logb) m(nearbyint) m(rint) m(round) m(sin) m(sinh) m(sqrt)        \
  m(tan) m(tanh) m(tgamma) m(trunc) m(j0) m(j1) m(y0) m(y1)
#define FTRACE_EACH2(m) m(atan2) m(copysign) m(fdim) m(fmax) m(fmin) m(fmod) m(hypot)           \
  m(nextafter) m(pow) m(remainder)
FTRACE_EACH1(FTRACE_MATH1)
FTRACE_EACH2(FTRACE_MATH2)

// What CUDA has and C has not: in doubles in runtime.cpp, rounded for floats.
#define FTRACE_MORE1(name)                                                                      \
  extern "C" double ftrace_##name(double) noexcept;                                             \
  FTRACE_INLINE double name(double x) { return ftrace_##name(x); }                              \
  FTRACE_INLINE float name##f(float x) { return (float)ftrace_##name((double)x); }              \
  FTRACE_INLINE float name(float x) { return name##f(x); }
#define FTRACE_EACH_MORE(m) m(erfinv) m(erfcinv) m(normcdf) m(normcdfinv) m(erfcx)              \
  m(cyl_bessel_i0) m(cyl_bessel_i1) m(rsqrt) m(rcbrt) m(exp10) m(sinpi) m(cospi)
FTRACE_EACH_MORE(FTRACE_MORE1)

extern "C" {
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double scalbn(double, int) noexcept;
float scalbnf(float, int) noexcept;
double frexp(double, int*) noexcept;
float frexpf(float, int*) noexcept;
double modf(double, double*) noexcept;
float modff(float, float*) noexcept;
int ilogb(double) noexcept;
int ilogbf(float) noexcept;
long long llrint(double) noexcept;
long long llrintf(float) noexcept;
long long llround(double) noexcept;
long long llroundf(float) noexcept;
double jn(int, double) noexcept;
double yn(int, double) noexcept;
}
FTRACE_INLINE float fma(float x, float y, float z) { return fmaf(x, y, z); }
FTRACE_INLINE void sincos(double x, double* s, double* c) { *s = sin(x); *c = cos(x); }
FTRACE_INLINE void sincosf(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }
FTRACE_INLINE void sincospi(double x, double* s, double* c) { *s = sinpi(x); *c = cospi(x); }
FTRACE_INLINE void sincospif(float x, float* s, float* c) { *s = sinpif(x); *c = cospif(x); }
FTRACE_INLINE double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
FTRACE_INLINE float rhypotf(float x, float y) { return (float)rhypot((double)x, (double)y); }

#define FTRACE_OF_FLOATS(T)                                                                     \
  FTRACE_INLINE bool isnan(T x) { return __builtin_isnan(x); }                                  \
  FTRACE_INLINE bool isinf(T x) { return __builtin_isinf(x) != 0; }                             \
  FTRACE_INLINE bool isfinite(T x) { return __builtin_isfinite(x); }                            \
  FTRACE_INLINE bool signbit(T x) { return __builtin_signbit(x) != 0; }
FTRACE_OF_FLOATS(float)
FTRACE_OF_FLOATS(double)
#define FTRACE_ORDERED(T)                                                                       \
  FTRACE_INLINE T min(T x, T y) { return y < x ? y : x; }                                       \
  FTRACE_INLINE T max(T x, T y) { return x < y ? y : x; }
FTRACE_ORDERED(int)
FTRACE_ORDERED(unsigned)
FTRACE_ORDERED(long)
FTRACE_ORDERED(unsigned long)
FTRACE_ORDERED(long long)
FTRACE_ORDERED(unsigned long long)
FTRACE_INLINE float min(float x, float y) { return fminf(x, y); }
FTRACE_INLINE float max(float x, float y) { return fmaxf(x, y); }
FTRACE_INLINE double min(double x, double y) { return fmin(x, y); }
FTRACE_INLINE double max(double x, double y) { return fmax(x, y); }
FTRACE_INLINE int abs(int x) { return __builtin_abs(x); }
FTRACE_INLINE long long abs(long long x) { return __builtin_llabs(x); }
FTRACE_INLINE long long llabs(long long x) { return __builtin_llabs(x); }
FTRACE_INLINE float abs(float x) { return fabsf(x); }
FTRACE_INLINE double abs(double x) { return fabs(x); }

template <class To, class From>
FTRACE_INLINE To ftrace_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "bits of one size");
  To y;
  __builtin_memcpy(&y, &x, sizeof(y));
  return y;
}
FTRACE_INLINE int __float_as_int(float x) { return ftrace_bits<int>(x); }
FTRACE_INLINE unsigned __float_as_uint(float x) { return ftrace_bits<unsigned>(x); }
FTRACE_INLINE float __int_as_float(int x) { return ftrace_bits<float>(x); }
FTRACE_INLINE float __uint_as_float(unsigned x) { return ftrace_bits<float>(x); }
FTRACE_INLINE long long __double_as_longlong(double x) { return ftrace_bits<long long>(x); }
FTRACE_INLINE double __longlong_as_double(long long x) { return ftrace_bits<double>(x); }
FTRACE_INLINE int __double2hiint(double x) { return (int)(ftrace_bits<long long>(x) >> 32); }
FTRACE_INLINE int __double2loint(double x) { return (int)ftrace_bits<long long>(x); }
FTRACE_INLINE double __hiloint2double(int hi, int lo) {
  return ftrace_bits<double>(((unsigned long long)(unsigned)hi << 32) | (unsigned)lo);
}

FTRACE_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
FTRACE_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
FTRACE_INLINE int __ffs(int x) { return __builtin_ffs(x); }
FTRACE_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
FTRACE_INLINE int __popcll(unsigned long long x) {  // the builtin would call a library
  int count = 0;
  for (; x; x &= x - 1) ++count;
  return count;
}
FTRACE_INLINE int __popc(unsigned x) { return __popcll(x); }
FTRACE_INLINE int __mulhi(int x, int y) { return (int)(((long long)x * y) >> 32); }
FTRACE_INLINE unsigned __umulhi(unsigned x, unsigned y) {
  return (unsigned)(((unsigned long long)x * y) >> 32);
}
FTRACE_INLINE long long __mul64hi(long long x, long long y) {
  return (long long)(((__int128)x * y) >> 64);
}
FTRACE_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)(((unsigned __int128)x * y) >> 64);
}

// Arithmetic that is never contracted, and the fast functions: here both are the plain ones.
#define FTRACE_ROUNDED(T, f, p)                                                                 \
  FTRACE_INLINE T __##p##add_rn(T x, T y) { return x + y; }                                     \
  FTRACE_INLINE T __##p##sub_rn(T x, T y) { return x - y; }                                     \
  FTRACE_INLINE T __##p##mul_rn(T x, T y) { return x * y; }                                     \
  FTRACE_INLINE T __##p##div_rn(T x, T y) { return x / y; }                                     \
  FTRACE_INLINE T __##p##sqrt_rn(T x) { return sqrt##f(x); }                                    \
  FTRACE_INLINE T __##p##rcp_rn(T x) { return T(1) / x; }
FTRACE_ROUNDED(float, f, f)
FTRACE_ROUNDED(double, , d)
FTRACE_INLINE float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
FTRACE_INLINE double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
FTRACE_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }
FTRACE_INLINE float __fdividef(float x, float y) { return x / y; }
FTRACE_INLINE float fdividef(float x, float y) { return x / y; }
FTRACE_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
FTRACE_INLINE float __expf(float x) { return expf(x); }
FTRACE_INLINE float __exp10f(float x) { return exp10f(x); }
FTRACE_INLINE float __logf(float x) { return logf(x); }
FTRACE_INLINE float __log2f(float x) { return log2f(x); }
FTRACE_INLINE float __log10f(float x) { return log10f(x); }
FTRACE_INLINE float __powf(float x, float y) { return powf(x, y); }
FTRACE_INLINE float __sinf(float x) { return sinf(x); }
FTRACE_INLINE float __cosf(float x) { return cosf(x); }
FTRACE_INLINE float __tanf(float x) { return tanf(x); }

// --- how the runtime runs a kernel: parameters are read from words, 8 bytes at least for each

template <class T>
FTRACE_INLINE T ftrace_take(const char*& words) {
  struct Bytes { alignas(T) char at[sizeof(T)]; } bytes;
  __builtin_memcpy(&bytes, words, sizeof(T));
  words += (sizeof(T) + 7) / 8 * 8;
  return *(T*)&bytes;
}
template <class... A>
FTRACE_INLINE void ftrace_run(void (*kernel)(A...), const char* words) {
  struct Call {
    Call(void (*kernel)(A...), A... a) { kernel(a...); }
  };
  for (;;) {
    ftrace_next();
    const char* at = words;
    Call{kernel, ftrace_take<A>(at)...};  // braces: from left to right
  }
}
template <class... A>
constexpr int ftrace_size(void (*)(A...)) {
  return (0 + ... + (int)((sizeof(A) + 7) / 8 * 8));
}
#define FTRACE_EXPORT extern "C" __attribute__((visibility("default")))
#define FTRACE_KERNEL(name)                                                                     \
  FTRACE_EXPORT void ftrace_run_##name(const char* words) { ftrace_run(name, words); }          \
  FTRACE_EXPORT const int ftrace_size_##name = ftrace_size(name);
__shared__ char ftrace_kept;  // named below, so that no linker drops the section
FTRACE_EXPORT const char* const ftrace_shared_ends[3] = {
    __start_ftrace_shared, __stop_ftrace_shared, &ftrace_kept};

/* Every kernel: f(sizes, in, out); element types by the case. Parallel loops start above GRAIN. */
#ifndef BENCH_H
#define BENCH_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GRAIN 20000
#define PI 3.14159265358979323846
#define KERNEL(name) void name(const int64_t *size, void **in, void **out)
#endif

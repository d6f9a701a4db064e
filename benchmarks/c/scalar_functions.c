/* Rosenbrock and Ackley: gradients, forward mode in chunks, second derivatives. */
#include "bench.h"

static void rosenbrock_gradient(int64_t n, const double *x, double *g) {
    g[0] = -400.0 * x[0] * (x[1] - x[0] * x[0]) - 2.0 * (1.0 - x[0]);
#pragma omp parallel for simd if (n > GRAIN)
    for (int64_t i = 1; i < n - 1; i++) {
        double left = x[i] - x[i - 1] * x[i - 1], here = x[i + 1] - x[i] * x[i];
        g[i] = 200.0 * left - 400.0 * x[i] * here - 2.0 * (1.0 - x[i]);
    }
    g[n - 1] = 200.0 * (x[n - 1] - x[n - 2] * x[n - 2]);
}

KERNEL(rosenbrock_grad) { rosenbrock_gradient(size[0], in[0], out[0]); }

KERNEL(rosenbrock_vg) {
    const double *x = in[0];
    double value = 0.0;
    for (int64_t i = 0; i < size[0] - 1; i++) {
        double d = x[i + 1] - x[i] * x[i], e = 1.0 - x[i];
        value += 100.0 * d * d + e * e;
    }
    *(double *)out[0] = value;
    rosenbrock_gradient(size[0], x, out[1]);
}

KERNEL(ackley_grad) {
    int64_t n = size[0];
    const double *x = in[0];
    double *g = out[0], squares = 0.0, waves = 0.0;
#pragma omp parallel for reduction(+ : squares, waves) if (n > GRAIN / 10)
    for (int64_t i = 0; i < n; i++) {
        squares += x[i] * x[i];
        waves += cos(2.0 * PI * x[i]);
    }
    double root = sqrt(squares / n), bowl = 4.0 * exp(-0.2 * root) / (n * root);
    double wave = exp(waves / n) * 2.0 * PI / n;
#pragma omp parallel for if (n > GRAIN / 10)
    for (int64_t i = 0; i < n; i++) g[i] = bowl * x[i] + wave * sin(2.0 * PI * x[i]);
}

/* One pass of forward mode: N tangents are seeded at `start`, all of x is walked. */
static void rosenbrock_pass(int64_t n, int64_t chunk, int64_t start, const double *x, double *t) {
    double tangent[128] = {0.0};
    for (int64_t i = 0; i < n - 1; i++) {
        double a = x[i], d = x[i + 1] - a * a, e = 1.0 - a;
        double by_a = -400.0 * d * a - 2.0 * e, by_b = 200.0 * d;
        for (int64_t c = 0; c < chunk; c++) {
            double da = i == start + c, db = i + 1 == start + c;
            tangent[c] += by_a * da + by_b * db;
        }
    }
    memcpy(t, tangent, chunk * sizeof(double));
}

static void ackley_pass(int64_t n, int64_t chunk, int64_t start, const double *x, double *t) {
    double squares = 0.0, waves = 0.0, dsquares[128] = {0.0}, dwaves[128] = {0.0};
    for (int64_t i = 0; i < n; i++) {
        double v = x[i], slope = -2.0 * PI * sin(2.0 * PI * v);
        squares += v * v;
        waves += cos(2.0 * PI * v);
        for (int64_t c = 0; c < chunk; c++) {
            double dv = i == start + c;
            dsquares[c] += 2.0 * v * dv;
            dwaves[c] += slope * dv;
        }
    }
    double root = sqrt(squares / n), wave = exp(waves / n);
    double bowl = 2.0 * exp(-0.2 * root) / (n * root);
    for (int64_t c = 0; c < chunk; c++) t[c] = bowl * dsquares[c] - wave * dwaves[c] / n;
}

KERNEL(rosenbrock_chunk) {
#pragma omp parallel for
    for (int64_t start = 0; start < size[0]; start += size[1])
        rosenbrock_pass(size[0], size[1], start, in[0], (double *)out[0] + start);
}

KERNEL(ackley_chunk) {
#pragma omp parallel for
    for (int64_t start = 0; start < size[0]; start += size[1])
        ackley_pass(size[0], size[1], start, in[0], (double *)out[0] + start);
}

static double diagonal(int64_t n, const double *x, int64_t i) {
    double inner = i < n - 1 ? 1200.0 * x[i] * x[i] - 400.0 * x[i + 1] + 2.0 : 0.0;
    return inner + (i > 0 ? 200.0 : 0.0);
}

KERNEL(rosenbrock_hessian) {
    int64_t n = size[0];
    const double *x = in[0];
    double *h = out[0];
    memset(h, 0, n * n * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        h[i * n + i] = diagonal(n, x, i);
        if (i < n - 1) h[i * n + i + 1] = h[(i + 1) * n + i] = -400.0 * x[i];
    }
}

static void product(int64_t n, const double *x, const double *v, double *y) {
    y[0] = diagonal(n, x, 0) * v[0] - 400.0 * x[0] * v[1];
#pragma omp parallel for simd if (n > GRAIN)
    for (int64_t i = 1; i < n - 1; i++) {
        double d = 1200.0 * x[i] * x[i] - 400.0 * x[i + 1] + 202.0;
        y[i] = d * v[i] - 400.0 * (x[i] * v[i + 1] + x[i - 1] * v[i - 1]);
    }
    y[n - 1] = 200.0 * v[n - 1] - 400.0 * x[n - 2] * v[n - 2];
}

KERNEL(rosenbrock_hvp) { product(size[0], in[0], in[1], out[0]); }

KERNEL(rosenbrock_coloured) {
    for (int k = 0; k < 3; k++) product(size[0], in[0], in[k + 1], out[k]);
}

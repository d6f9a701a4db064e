/* Programs over the rows of a matrix: softmax, logsumexp, layer norm, forward and pulled back. */
#include "bench.h"

#define ROWS(array) ((float *)(array) + r * n)

/* out = exp(x - max x); returns the sum, and the maximum through `top`. Sums in eight lanes. */
static float exponentials(int64_t n, const float *x, float *e, float *top) {
    float lane[8], high = x[0], total = 0.0f;
    for (int k = 0; k < 8; k++) lane[k] = -INFINITY;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    for (; i < n; i++) high = x[i] > high ? x[i] : high;
    for (int k = 0; k < 8; k++) high = lane[k] > high ? lane[k] : high;
    for (i = 0; i < n; i++) e[i] = expf(x[i] - high);
    for (int k = 0; k < 8; k++) lane[k] = 0.0f;
    for (i = 0; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) lane[k] += e[i + k];
    for (; i < n; i++) total += e[i];
    for (int k = 0; k < 8; k++) total += lane[k];
    *top = high;
    return total;
}

static float sum_of_products(int64_t n, const float *a, const float *b) {
    float lane[16] = {0.0f}, total = 0.0f;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) lane[k] += a[i + k] * b[i + k];
    for (; i < n; i++) total += a[i] * b[i];
    for (int k = 0; k < 16; k++) total += lane[k];
    return total;
}

static float mean(int64_t n, const float *a) {
    float lane[16] = {0.0f}, total = 0.0f;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) lane[k] += a[i + k];
    for (; i < n; i++) total += a[i];
    for (int k = 0; k < 16; k++) total += lane[k];
    return total / n;
}

static void softmax_row(int64_t n, const float *x, float *y) {
    float top, scale = 1.0f / exponentials(n, x, y, &top);
    for (int64_t i = 0; i < n; i++) y[i] *= scale;
}

KERNEL(softmax_fwd) {
    int64_t n = size[1];
#pragma omp parallel for
    for (int64_t r = 0; r < size[0]; r++) softmax_row(n, ROWS(in[0]), ROWS(out[0]));
}

KERNEL(softmax_vjp) {
    int64_t n = size[1];
#pragma omp parallel for
    for (int64_t r = 0; r < size[0]; r++) {
        float *ct = ROWS(in[0]), *y = ROWS(out[0]), *dx = ROWS(out[1]);
        softmax_row(n, ROWS(in[1]), y);
        float inner = sum_of_products(n, ct, y);
        for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (ct[i] - inner);
    }
}

KERNEL(logsumexp_fwd) {
    int64_t n = size[1];
#pragma omp parallel
    {
        float *scratch = malloc(n * sizeof(float)), top;
#pragma omp for
        for (int64_t r = 0; r < size[0]; r++) {
            float total = exponentials(n, ROWS(in[0]), scratch, &top);
            ((float *)out[0])[r] = logf(total) + top;
        }
        free(scratch);
    }
}

KERNEL(logsumexp_vjp) {
    int64_t n = size[1];
#pragma omp parallel for
    for (int64_t r = 0; r < size[0]; r++) {
        float *dx = ROWS(out[1]), top, total = exponentials(n, ROWS(in[1]), dx, &top);
        float scale = ((float *)in[0])[r] / total;
        ((float *)out[0])[r] = logf(total) + top;
        for (int64_t i = 0; i < n; i++) dx[i] *= scale;
    }
}

/* y = (x - mean) / sqrt(var + 1e-5); returns the inverse deviation. */
static float normalise(int64_t n, const float *x, float *y) {
    float centre = mean(n, x);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] - centre;
    float inverse = 1.0f / sqrtf(sum_of_products(n, y, y) / n + 1e-5f);
    for (int64_t i = 0; i < n; i++) y[i] *= inverse;
    return inverse;
}

KERNEL(layernorm_fwd) {
    int64_t n = size[1];
    const float *scale = in[1], *shift = in[2];
#pragma omp parallel for
    for (int64_t r = 0; r < size[0]; r++) {
        float *y = ROWS(out[0]);
        normalise(n, ROWS(in[0]), y);
        for (int64_t i = 0; i < n; i++) y[i] = y[i] * scale[i] + shift[i];
    }
}

static void layernorm_row(int64_t n, const float *ct, const float *scale, const float *unit,
                          float inverse, float *dx, float *dscale, float *dshift) {
    for (int64_t i = 0; i < n; i++) {
        dx[i] = ct[i] * scale[i];
        dscale[i] += ct[i] * unit[i];
        dshift[i] += ct[i];
    }
    float centre = mean(n, dx), along = sum_of_products(n, dx, unit) / n;
    for (int64_t i = 0; i < n; i++) dx[i] = (dx[i] - centre - unit[i] * along) * inverse;
}

KERNEL(layernorm_vjp) {
    int64_t n = size[1];
    const float *scale = in[2], *shift = in[3];
    float *dscale = out[2], *dshift = out[3];
    memset(dscale, 0, n * sizeof(float));
    memset(dshift, 0, n * sizeof(float));
#pragma omp parallel for reduction(+ : dscale[:n], dshift[:n])
    for (int64_t r = 0; r < size[0]; r++) {
        float *y = ROWS(out[0]), inverse = normalise(n, ROWS(in[1]), y);
        layernorm_row(n, ROWS(in[0]), scale, y, inverse, ROWS(out[1]), dscale, dshift);
        for (int64_t i = 0; i < n; i++) y[i] = y[i] * scale[i] + shift[i];
    }
}

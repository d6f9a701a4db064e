/* Kernels of the paper on broadcast derivatives, twice: over libm one element at a time, and written to be vectorised.
 *
 * `*_simd` computes its own exponential and hyperbolic tangent, so that the compiler needs no
 * vector library and no -ffast-math; they are within a few units in the last place. */
#include "bench.h"

#ifdef __AVX512F__
#pragma GCC target("prefer-vector-width=512")
#endif
#define BLOCK 64
#define LINE(array, row) ((float *)(array) + (row)*n)

/* Round to nearest by adding and taking away 1.5 * 2^23, reduce, a polynomial, an exponent. */
static inline float exponential(float x) {
    union {
        int32_t i;
        float f;
    } scale;
    x = x > 87.0f ? 87.0f : x;
    x = x < -87.0f ? -87.0f : x;
    float k = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
    float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    scale.i = ((int32_t)k + 127) << 23;
    return (p * r * r + r + 1.0f) * scale.f;
}

static inline float hyperbolic_tangent(float x) {
    float size = fabsf(x), s = x * x, p = -5.70498872745e-3f;
    p = p * s + 2.06390887954e-2f;
    p = p * s - 5.37397155531e-2f;
    p = p * s + 1.33314422036e-1f;
    p = p * s - 3.33332819422e-1f;
    float near = x + x * s * p;
    float far = copysignf(1.0f - 2.0f / (exponential(2.0f * size) + 1.0f), x);
    return size < 0.625f ? near : far;
}

/* Steps of the control arrays: (1, 0) for a column that is broadcast, (0, 1) for a row. */
KERNEL(hmlstm) {
    int64_t n = size[0], down = size[1], along = size[2];
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = 0; r < n; r++) {
        const float *z1 = (float *)in[4] + r * down, *z2 = (float *)in[5] + r * down;
        float *y = LINE(out[0], r), *dc = LINE(out[1], r), *df = LINE(out[2], r);
        float *di = LINE(out[3], r), *dg = LINE(out[4], r);
        for (int64_t k = 0; k < n; k++) {
            float c = LINE(in[0], r)[k];
            if (z1[k * along] != 1.0f && z2[k * along] != 1.0f) {
                y[k] = c;
                dc[k] = 1.0f;
                df[k] = di[k] = dg[k] = 0.0f;
                continue;
            }
            float i = 1.0f / (1.0f + expf(-LINE(in[2], r)[k])), g = tanhf(LINE(in[3], r)[k]);
            y[k] = i * g;
            dc[k] = df[k] = 0.0f;
            di[k] = i * (1.0f - i) * g;
            dg[k] = i * (1.0f - g * g);
            if (z1[k * along] != 1.0f) {
                float f = 1.0f / (1.0f + expf(-LINE(in[1], r)[k]));
                y[k] += f * c;
                dc[k] = f;
                df[k] = f * (1.0f - f) * c;
            }
        }
    }
}

KERNEL(hmlstm_value) {
    int64_t n = size[0], down = size[1], along = size[2];
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = 0; r < n; r++) {
        const float *z1 = (float *)in[4] + r * down, *z2 = (float *)in[5] + r * down;
        float *y = LINE(out[0], r);
        for (int64_t k = 0; k < n; k++) {
            y[k] = LINE(in[0], r)[k];
            if (z1[k * along] != 1.0f && z2[k * along] != 1.0f) continue;
            if (z1[k * along] != 1.0f)
                y[k] *= 1.0f / (1.0f + expf(-LINE(in[1], r)[k]));
            else
                y[k] = 0.0f;
            y[k] += tanhf(LINE(in[3], r)[k]) / (1.0f + expf(-LINE(in[2], r)[k]));
        }
    }
}

/* What a block of lanes needs: the weights of c, of sigmoid(f) c and of sigmoid(i) tanh(g). */
typedef struct {
    float copy[BLOCK], update[BLOCK], fresh[BLOCK];
    int any_fresh, any_update;
} Control;

static Control control(const float *z1, const float *z2, int64_t along, int64_t lanes) {
    Control w = {.any_fresh = 0, .any_update = 0};
    for (int64_t k = 0; k < lanes; k++) {
        int flush = z1[k * along] == 1.0f, update = !flush && z2[k * along] == 1.0f;
        w.copy[k] = !flush && !update ? 1.0f : 0.0f;
        w.update[k] = update ? 1.0f : 0.0f;
        w.fresh[k] = flush || update ? 1.0f : 0.0f;
        w.any_fresh |= flush | update;
        w.any_update |= update;
    }
    return w;
}

static void copied(int64_t lanes, float **x, float **restrict y) {
    memcpy(y[0], x[0], lanes * sizeof(float));
    for (int64_t k = 0; k < lanes; k++) y[1][k] = 1.0f;
    for (int a = 2; a < 5; a++) memset(y[a], 0, lanes * sizeof(float));
}

static void mixed(int64_t lanes, const Control *w, float **x, float **y) {
    const float *restrict c = x[0], *restrict f = x[1], *restrict i = x[2], *restrict g = x[3];
    float *restrict v = y[0], *restrict dc = y[1], *restrict df = y[2];
    float *restrict di = y[3], *restrict dg = y[4];
#pragma omp simd
    for (int64_t k = 0; k < lanes; k++) {
        float si = 1.0f / (1.0f + exponential(-i[k])), tg = hyperbolic_tangent(g[k]);
        v[k] = w->copy[k] * c[k] + w->fresh[k] * (si * tg);
        dc[k] = w->copy[k];
        df[k] = 0.0f;
        di[k] = w->fresh[k] * (si * (1.0f - si) * tg);
        dg[k] = w->fresh[k] * (si * (1.0f - tg * tg));
    }
    if (!w->any_update) return;
#pragma omp simd
    for (int64_t k = 0; k < lanes; k++) {
        float sf = w->update[k] / (1.0f + exponential(-f[k]));
        v[k] += sf * c[k];
        dc[k] += sf;
        df[k] = sf * (1.0f - sf) * c[k];
    }
}

/* The controls of every block when they are a row shared by all rows, else one for a whole row. */
static Control *controls(int64_t n, int64_t down, const float *z1, const float *z2) {
    int64_t blocks = down ? n : (n + BLOCK - 1) / BLOCK;
    Control *plan = malloc(blocks * sizeof(Control));
    for (int64_t b = 0; b < blocks; b++) {
        int64_t at = down ? b : b * BLOCK, lanes = down || n - at > BLOCK ? BLOCK : n - at;
        plan[b] = control(z1 + at, z2 + at, !down, lanes);
    }
    return plan;
}

KERNEL(hmlstm_simd) {
    int64_t n = size[0], down = size[1];
    Control *plan = controls(n, down, in[4], in[5]);
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = 0; r < n; r++)
        for (int64_t at = 0; at < n; at += BLOCK) {
            const Control *w = plan + (down ? r : at / BLOCK);
            int64_t lanes = n - at < BLOCK ? n - at : BLOCK;
            float *x[4], *y[5];
            for (int a = 0; a < 4; a++) x[a] = LINE(in[a], r) + at;
            for (int a = 0; a < 5; a++) y[a] = LINE(out[a], r) + at;
            if (w->any_fresh)
                mixed(lanes, w, x, y);
            else
                copied(lanes, x, y);
        }
    free(plan);
}

static void valued(int64_t lanes, const Control *w, float **x, float *restrict v) {
    const float *restrict c = x[0], *restrict f = x[1], *restrict i = x[2], *restrict g = x[3];
#pragma omp simd
    for (int64_t k = 0; k < lanes; k++) {
        float si = w->fresh[k] / (1.0f + exponential(-i[k]));
        v[k] = w->copy[k] * c[k] + si * hyperbolic_tangent(g[k]);
    }
    if (!w->any_update) return;
#pragma omp simd
    for (int64_t k = 0; k < lanes; k++) v[k] += w->update[k] / (1.0f + exponential(-f[k])) * c[k];
}

KERNEL(hmlstm_value_simd) {
    int64_t n = size[0], down = size[1];
    Control *plan = controls(n, down, in[4], in[5]);
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t r = 0; r < n; r++)
        for (int64_t at = 0; at < n; at += BLOCK) {
            const Control *w = plan + (down ? r : at / BLOCK);
            int64_t lanes = n - at < BLOCK ? n - at : BLOCK;
            float *x[4], *y = LINE(out[0], r) + at;
            for (int a = 0; a < 4; a++) x[a] = LINE(in[a], r) + at;
            if (w->any_fresh)
                valued(lanes, w, x, y);
            else
                memcpy(y, x[0], lanes * sizeof(float));
        }
    free(plan);
}

KERNEL(arity) {
    int64_t n = size[0], arity = size[1];
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        float factor[32], slope[32], before[33], after = 1.0f;
        before[0] = 1.0f;
        for (int64_t k = 0; k < arity; k++) {
            float x = ((const float *)in[k])[i], sign = x > 0.5f ? 1.0f : -1.0f;
            factor[k] = tanhf(sign * x);
            slope[k] = sign * (1.0f - factor[k] * factor[k]);
            before[k + 1] = before[k] * factor[k];
        }
        ((float *)out[0])[i] = before[arity];
        for (int64_t k = arity - 1; k >= 0; k--) {
            ((float *)out[k + 1])[i] = before[k] * slope[k] * after;
            after *= factor[k];
        }
    }
}

/* Blocks that stay in the first cache; `before[k]` is the product of the factors below k. */
KERNEL(arity_simd) {
    int64_t n = size[0], arity = size[1];
#pragma omp parallel for
    for (int64_t at = 0; at < n; at += BLOCK) {
        float factor[32][BLOCK], slope[32][BLOCK], before[33][BLOCK], after[BLOCK];
        int64_t lanes = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = 0; i < BLOCK; i++) before[0][i] = after[i] = 1.0f;
        for (int64_t k = 0; k < arity; k++) {
            const float *x = (const float *)in[k] + at;
#pragma omp simd
            for (int64_t i = 0; i < lanes; i++) {
                float sign = x[i] > 0.5f ? 1.0f : -1.0f, t = hyperbolic_tangent(sign * x[i]);
                factor[k][i] = t;
                slope[k][i] = sign * (1.0f - t * t);
                before[k + 1][i] = before[k][i] * t;
            }
        }
        memcpy((float *)out[0] + at, before[arity], lanes * sizeof(float));
        for (int64_t k = arity - 1; k >= 0; k--) {
            float *y = (float *)out[k + 1] + at;
#pragma omp simd
            for (int64_t i = 0; i < lanes; i++) {
                y[i] = before[k][i] * slope[k][i] * after[i];
                after[i] *= factor[k][i];
            }
        }
    }
}

/* A dear and a cheap arm chosen by a mask (steps as above), with the derivative of the first. */
#define DIVERGE(name, taken, slope_taken)                                                        \
    KERNEL(name) {                                                                               \
        int64_t n = size[0], down = size[1], along = size[2];                                    \
        for (int64_t r = 0; r < n; r++) {                                                        \
            const float *m = (float *)in[1] + r * down;                                          \
            for (int64_t k = 0; k < n; k++) {                                                    \
                float x = LINE(in[0], r)[k], y = 0.5f * x, d = 0.5f;                             \
                if (m[k * along] > 0.5f) {                                                       \
                    y = taken;                                                                   \
                    d = slope_taken;                                                             \
                }                                                                                \
                LINE(out[0], r)[k] = y;                                                          \
                LINE(out[1], r)[k] = d;                                                          \
            }                                                                                    \
        }                                                                                        \
    }
DIVERGE(diverge_cheap, x *x + 1.0f, 2.0f * x)
DIVERGE(diverge_dear, expf(tanhf(x)), y *(1.0f - tanhf(x) * tanhf(x)))

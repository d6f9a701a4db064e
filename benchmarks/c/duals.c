/* Gradients by naive forward mode: numbers with N partials, ceil(k / N) passes over the function.

What `benchmarks/forwarddiff.py` compares chunk mode with: a translation of Dual{N, double} for each
N, as in the tables of Revels, Lubin and Papamarkou, Forward-Mode Automatic Differentiation in Julia
(2016). No tricks: unit vectors are partials like others.
*/
#include <math.h>
#include <stdint.h>

#define ROSENBROCK(N)                                                                              \
    void rosenbrock_duals_##N(const int64_t *sizes, double **in, double **out) {                   \
        const int64_t k = sizes[0];                                                                \
        const double *x = in[0];                                                                   \
        for (int64_t start = 0; start < k; start += N) {                                           \
            double p[N] = {0};                                                                     \
            for (int64_t i = 0; i + 1 < k; i++) {                                                  \
                const double u = x[i + 1] - x[i] * x[i], v = 1 - x[i];                             \
                for (int64_t j = 0; j < N; j++) {                                                  \
                    const double a = i == start + j, b = i + 1 == start + j;                       \
                    p[j] += 200 * u * (b - 2 * x[i] * a) - 2 * v * a;                              \
                }                                                                                  \
            }                                                                                      \
            for (int64_t j = 0; j < N && start + j < k; j++) out[0][start + j] = p[j];             \
        }                                                                                          \
    }

#define ACKLEY(N)                                                                                  \
    void ackley_duals_##N(const int64_t *sizes, double **in, double **out) {                       \
        const int64_t k = sizes[0];                                                                \
        const double *x = in[0], c = 2 * M_PI;                                                     \
        for (int64_t start = 0; start < k; start += N) {                                           \
            double squares = 0, waves = 0, p[N] = {0}, q[N] = {0};                                 \
            for (int64_t i = 0; i < k; i++) {                                                      \
                const double s = sin(c * x[i]);                                                    \
                squares += x[i] * x[i];                                                            \
                waves += cos(c * x[i]);                                                            \
                for (int64_t j = 0; j < N; j++) {                                                  \
                    const double a = i == start + j;                                               \
                    p[j] += 2 * x[i] * a;                                                          \
                    q[j] -= c * s * a;                                                             \
                }                                                                                  \
            }                                                                                      \
            const double r = sqrt(squares / k), e = exp(-0.2 * r), w = exp(waves / k);             \
            for (int64_t j = 0; j < N && start + j < k; j++)                                       \
                out[0][start + j] = 20 * 0.2 * e * p[j] / (2 * r * k) - w * q[j] / k;              \
        }                                                                                          \
    }

#define BOTH(N) ROSENBROCK(N) ACKLEY(N)
BOTH(1) BOTH(2) BOTH(3) BOTH(4) BOTH(5) BOTH(10) BOTH(100)

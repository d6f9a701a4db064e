/* Elementwise programs with derivatives: chains, Black-Scholes, Newton. */
#include "bench.h"

static inline double link(int k, double *x) {
    double slope = 0.99;
    *x = *x * 0.99 + 0.01 * (k % 5);
    if (k % 4 == 3) {
        slope *= 1.0 - 0.6 * *x;
        *x = *x - 0.3 * (*x * *x);
    } else {
        slope *= 0.5;
        *x *= 0.5;
    }
    return slope;
}

KERNEL(chain_fwd) {
    const double *x = in[0];
    double *y = out[0];
#pragma omp parallel for simd
    for (int64_t i = 0; i < size[0]; i++) {
        double v = x[i];
        for (int k = 0; k < 10; k++) link(k, &v);
        y[i] = v;
    }
}

KERNEL(chain_grad) {
    const double *x = in[0];
    double *y = out[0];
#pragma omp parallel for simd
    for (int64_t i = 0; i < size[0]; i++) {
        double v = x[i], slope = 1.0;
        for (int k = 0; k < 10; k++) slope *= link(k, &v);
        y[i] = slope;
    }
}

KERNEL(black_scholes) {
    const double *spot = in[0], *strike = in[1], *time = in[2], *vol = in[3], *rate = in[4];
    double **y = (double **)out;
#pragma omp parallel for
    for (int64_t i = 0; i < size[0]; i++) {
        double root = sqrt(time[i]), spread = vol[i] * root;
        double d1 = (log(spot[i] / strike[i]) + (rate[i] + 0.5 * vol[i] * vol[i]) * time[i]) / spread;
        double up = 0.5 * (1.0 + erf(d1 * M_SQRT1_2));
        double down = 0.5 * (1.0 + erf((d1 - spread) * M_SQRT1_2));
        double density = exp(-0.5 * d1 * d1) / sqrt(2.0 * PI);
        double owed = strike[i] * exp(-rate[i] * time[i]) * down;
        y[0][i] = spot[i] * up - owed;
        y[1][i] = up;
        y[2][i] = spot[i] * density * vol[i] / (2.0 * root) + rate[i] * owed;
        y[3][i] = spot[i] * density * root;
        y[4][i] = time[i] * owed;
        y[5][i] = density / (spot[i] * spread);
    }
}

KERNEL(newton) {
    const double *a = in[0];
    double *root = out[0], *slope = out[1];
#pragma omp parallel for
    for (int64_t i = 0; i < size[0]; i++) {
        double r = 0.5 * a[i] + 0.5, d = 0.5;
        while (fabs(r * r - a[i]) > 1e-9 * a[i]) {
            double q = a[i] / r;
            d = 0.5 * (d + (1.0 - q * d) / r);
            r = 0.5 * (r + q);
        }
        root[i] = r;
        slope[i] = d;
    }
}

/* Recurrences and small solves: pqR's function, a projectile, a tiny scan, 4 by 4 systems. */
#include "bench.h"

static void pqr_slopes(int64_t n, const double *x, double *s, double *d) {
#pragma omp parallel for simd if (n > 1000)
    for (int64_t i = 0; i < n; i++) {
        double value = 1.0, slope = 0.0;
        for (int k = 0; k < 100; k++) {
            double inverse = 1.0 / value, q = (x[i] * x[i] + 1.0) * inverse;
            slope += (2.0 * x[i] - q * slope) * inverse;
            value += q;
        }
        s[i] = value;
        d[i] = slope;
    }
}

KERNEL(pqr_jacobian) {
    int64_t n = size[0];
    double *y = out[0], *jac = out[1], *d = malloc(n * sizeof(double)), total = 0.0;
    pqr_slopes(n, in[0], y, d);
    for (int64_t i = 0; i < n; i++) {
        total += y[i];
        y[i] = 4.0 * total * total;
        for (int64_t k = 0; k < n; k++) jac[i * n + k] = k <= i ? 8.0 * total * d[k] : 0.0;
    }
    free(d);
}

KERNEL(pqr_sum) {
    int64_t n = size[0];
    double *g = out[1], *s = malloc(n * sizeof(double)), total = 0.0, value = 0.0, tail = 0.0;
    pqr_slopes(n, in[0], s, g);
    for (int64_t i = 0; i < n; i++) {
        total += s[i];
        s[i] = total;
        value += 4.0 * total * total;
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        tail += s[i];
        g[i] *= 8.0 * tail;
    }
    *(double *)out[0] = value;
    free(s);
}

static void flight(double angle, double *value, double *slope) {
    double vx = cos(angle), vy = sin(angle), dvx = -vy, dvy = vx;
    double x = 0.0, y = 0.0, dx = 0.0, dy = 0.0, dt = 1e-4;
    for (;;) {
        double lx = x, ly = y, dlx = dx, dly = dy;
        x += vx * dt;
        y += vy * dt;
        dx += dvx * dt;
        dy += dvy * dt;
        if (y < 0.0) {
            double below = ly - y;
            *value = (x * ly - lx * y) / below;
            *slope = (dx * ly + x * dly - dlx * y - lx * dy - *value * (dly - dy)) / below;
            return;
        }
        vy -= 9.8 * dt;
    }
}

KERNEL(projectile) {
#pragma omp parallel for
    for (int64_t i = 0; i < size[0]; i++)
        flight(((double *)in[0])[i], (double *)out[0] + i, (double *)out[1] + i);
}

KERNEL(newton_root) {
    const double *a = in[0];
#pragma omp parallel for schedule(dynamic, 4096)
    for (int64_t i = 0; i < size[0]; i++) {
        double r = a[i];
        while (fabs(r * r - a[i]) > 1e-12 * a[i]) r = 0.5 * (r + a[i] / r);
        ((double *)out[0])[i] = r;
    }
}

KERNEL(newton_dual) {
    const double *a = in[0];
#pragma omp parallel for schedule(dynamic, 4096)
    for (int64_t i = 0; i < size[0]; i++) {
        double r = a[i], d = 1.0;
        while (fabs(r * r - a[i]) > 1e-12 * a[i]) {
            double q = a[i] / r;
            d = 0.5 * (d + (1.0 - q * d) / r);
            r = 0.5 * (r + q);
        }
        ((double *)out[0])[i] = r;
        ((double *)out[1])[i] = d;
    }
}

KERNEL(tiny_scan) {
    int64_t steps = size[0], n = size[1];
    const double *w = in[0], *xs = in[2];
    double *dw = out[1], *dh = out[2], *h = malloc(n * sizeof(double)), value = 0.0;
    memcpy(h, in[1], n * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        dw[i] = 0.0;
        dh[i] = 1.0;
    }
    for (int64_t t = 0; t < steps; t++)
        for (int64_t i = 0; i < n; i++) {
            double next = tanh(w[i] * h[i] + xs[t * n + i]), slope = 1.0 - next * next;
            dw[i] = slope * (h[i] + w[i] * dw[i]);
            dh[i] *= slope * w[i];
            h[i] = next;
        }
    for (int64_t i = 0; i < n; i++) value += h[i];
    *(double *)out[0] = value;
    free(h);
}

/* Gaussian elimination with row pivoting of [A | columns], four by four. */
static void eliminate(const double *a, int transposed, const double *b, double *x) {
    double m[4][5];
    for (int r = 0; r < 4; r++) {
        for (int c = 0; c < 4; c++) m[r][c] = transposed ? a[c * 4 + r] : a[r * 4 + c];
        m[r][4] = b[r];
    }
    for (int k = 0; k < 4; k++) {
        int best = k;
        for (int r = k + 1; r < 4; r++)
            if (fabs(m[r][k]) > fabs(m[best][k])) best = r;
        for (int c = 0; c < 5 && best != k; c++) {
            double held = m[k][c];
            m[k][c] = m[best][c];
            m[best][c] = held;
        }
        for (int r = k + 1; r < 4; r++) {
            double f = m[r][k] / m[k][k];
            for (int c = k; c < 5; c++) m[r][c] -= f * m[k][c];
        }
    }
    for (int r = 3; r >= 0; r--) {
        x[r] = m[r][4];
        for (int c = r + 1; c < 4; c++) x[r] -= m[r][c] * x[c];
        x[r] /= m[r][r];
    }
}

KERNEL(solve4) {
    const double *a = in[0], *b = in[1];
    double *x = out[0];
#pragma omp parallel for
    for (int64_t i = 0; i < size[0]; i++) eliminate(a + 16 * i, 0, b + 4 * i, x + 4 * i);
}

KERNEL(solve4_vg) {
    const double *a = in[0], *b = in[1];
    double *da = out[1], *db = out[2], value = 0.0;
#pragma omp parallel for reduction(+ : value)
    for (int64_t i = 0; i < size[0]; i++) {
        double x[4], ct[4];
        eliminate(a + 16 * i, 0, b + 4 * i, x);
        for (int k = 0; k < 4; k++) {
            value += x[k] * x[k];
            ct[k] = 2.0 * x[k];
        }
        eliminate(a + 16 * i, 1, ct, db + 4 * i);
        for (int k = 0; k < 16; k++) da[16 * i + k] = -db[4 * i + k / 4] * x[k % 4];
    }
    *(double *)out[0] = value;
}

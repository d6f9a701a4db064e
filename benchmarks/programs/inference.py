"""Likelihoods, mixtures, distances: what statisticians differentiate."""

from __future__ import annotations

import numpy as np

from benchmarks.programs.program import Program, generator, logsumexp


def _mixture(s, means, scales, weights, x):
    """The log-likelihood of a mixture of normal distributions."""
    xp = s.np
    z = (x[:, None, :] - means[None]) * xp.exp(-scales)[None]
    each = -0.5 * xp.sum(z * z, -1) - xp.sum(scales, -1)
    return xp.mean(logsumexp(xp, each + weights - logsumexp(xp, weights, 0), 1))


def _mixture_inputs():
    rng = generator()
    return (
        rng.normal(size=(8, 3)),
        0.1 * rng.normal(size=(8, 3)),
        rng.normal(size=8),
        rng.normal(size=(2000, 3)),
    )


def _groups(s, effects, slope, x, y, group):
    """A regression with an effect for each group."""
    xp = s.np
    r = y - effects[group] - slope[0] - slope[1] * x
    return xp.sum(r * r) + xp.sum(effects * effects)


def _group_inputs():
    rng = generator()
    return (
        rng.normal(size=50),
        rng.normal(size=2),
        rng.normal(size=5000),
        rng.normal(size=5000),
        rng.integers(0, 50, 5000),
    )


def _classes(s, weights, x, labels):
    """Softmax regression with ten classes."""
    xp = s.np
    scores = x @ weights
    chosen = xp.sum(xp.where(labels[:, None] == xp.arange(10)[None], scores, 0.0), 1)
    return xp.mean(logsumexp(xp, scores, 1) - chosen)


def _class_inputs():
    rng = generator()
    return 0.1 * rng.normal(size=(20, 10)), rng.normal(size=(2000, 20)), rng.integers(0, 10, 2000)


def _soft_clusters(s, centres, x):
    """The energy of points that belong softly to centres."""
    xp = s.np
    d = xp.sum((x[:, None, :] - centres[None]) ** 2, -1)
    return -xp.mean(logsumexp(xp, -4.0 * d, 1)) / 4.0


def _cluster_inputs():
    rng = generator()
    return rng.normal(size=(6, 2)), rng.normal(size=(5000, 2))


def _nearest(s, a, b):
    """The mean distance of points to the nearest of others."""
    xp = s.np
    d = xp.sum((a[:, None, :] - b[None, :, :]) ** 2, -1)
    return xp.mean(xp.min(d, 1)) + xp.mean(xp.min(d, 0))


def _two_clouds():
    rng = generator()
    return rng.normal(size=(400, 3)), rng.normal(size=(300, 3))


def _mahalanobis(s, x, weights):
    """The mean of squared distances in the metric of the covariance."""
    xp = s.np
    centred = x - xp.mean(x, 0)
    covariance = centred.T @ centred / x.shape[0] + 0.1 * xp.eye(x.shape[1])
    return xp.sum(xp.sum(centred @ covariance * centred, -1) * weights)


def _metric_inputs():
    rng = generator()
    return rng.normal(size=(3000, 5)), rng.random(3000)


def _survival(s, beta, x, died):
    """Cox's partial likelihood; those at risk are the rest of a sorted list."""
    xp = s.np
    risk = x @ beta
    at_risk = xp.cumsum(xp.exp(risk)[::-1])[::-1]
    return -xp.sum(died * (risk - xp.log(at_risk)))


def _survival_inputs():
    rng = generator()
    return (
        0.1 * rng.normal(size=8),
        rng.normal(size=(3000, 8)),
        rng.integers(0, 2, 3000).astype(float),
    )


def _density(s, bandwidth, points, at):
    """The logarithm of a density by kernels, at many places."""
    xp = s.np
    z = (at[:, None] - points[None, :]) / bandwidth[0]
    return xp.sum(xp.log(xp.mean(xp.exp(-0.5 * z * z), 1) / bandwidth[0]))


def _density_inputs():
    rng = generator()
    return np.array([0.3]), rng.normal(size=1000), rng.normal(size=200)


def _transport(s, cost):
    """The cost of a transport plan by Sinkhorn's iterations on logarithms."""
    xp, n = s.np, cost.shape[0]

    def step(state, _):
        f, g = state
        f = -0.1 * logsumexp(xp, (g[None, :] - cost) / 0.1, 1)
        g = -0.1 * logsumexp(xp, (f[:, None] - cost) / 0.1, 0)
        return f, g

    f, g = s.scan(step, (xp.zeros(n), xp.zeros(n)), 30)
    return xp.sum(xp.exp((f[:, None] + g[None, :] - cost) / 0.1) * cost)


def _attention(s, queries, keys, values):
    """One head of attention over words that come before."""
    xp = s.np
    scores = queries @ keys.T / 6.0
    places = xp.arange(queries.shape[0])
    scores = xp.where(places[:, None] >= places[None, :], scores, -1e9)
    weights = xp.exp(scores - xp.max(scores, 1, keepdims=True))
    weights = weights / xp.sum(weights, 1, keepdims=True)
    return xp.mean((weights @ values) ** 2)


def _words():
    rng = generator()
    return rng.normal(size=(96, 32)), rng.normal(size=(96, 32)), rng.normal(size=(96, 32))


PROGRAMS: dict[str, Program] = {
    "mixture 2000x8x3": Program(_mixture, _mixture_inputs, (0, 1, 2)),
    "group effects 5000": Program(_groups, _group_inputs, (0, 1)),
    "softmax regression 2000x10": Program(_classes, _class_inputs),
    "soft clusters 5000x6": Program(_soft_clusters, _cluster_inputs),
    "nearest of points 400x300": Program(_nearest, _two_clouds, (0, 1)),
    "covariance 3000x5": Program(_mahalanobis, _metric_inputs),
    "partial likelihood 3000": Program(_survival, _survival_inputs),
    "kernel density 1000x200": Program(_density, _density_inputs, (0, 1)),
    "optimal transport 48": Program(_transport, lambda: (generator().random((48, 48)),)),
    "attention 96x32": Program(_attention, _words, (0, 1, 2)),
}

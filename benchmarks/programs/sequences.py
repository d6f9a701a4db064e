"""Recurrences, filters, layers: what is done step after step."""

from __future__ import annotations

import numpy as np

from benchmarks.programs.program import Program, generator, logsumexp


def _recurrent(s, w, u, x):
    """A layer that feeds its state back."""
    xp = s.np
    h = s.scan(lambda h, row: xp.tanh(w @ h + u @ row), xp.zeros(32) + 0.0 * x[0, 0], x)
    return xp.sum(h * h)


def _recurrent_inputs():
    rng = generator()
    return (
        0.2 * rng.normal(size=(32, 32)),
        0.2 * rng.normal(size=(32, 8)),
        rng.normal(size=(100, 8)),
    )


def _gated(s, w, x):
    """A gated recurrent layer over a batch."""
    xp, n = s.np, 16

    def step(h, row):
        both = xp.concatenate([row, h], 1) @ w[:, : 2 * n]
        gates = 1.0 / (1.0 + xp.exp(-both))
        z, r = gates[:, :n], gates[:, n:]
        new = xp.tanh(xp.concatenate([row, r * h], 1) @ w[:, 2 * n :])
        return (1.0 - z) * h + z * new

    h = s.scan(step, xp.zeros((8, n)) + 0.0 * x[0, 0, 0], x)
    return xp.sum(h * h)


def _gated_inputs():
    rng = generator()
    return 0.3 * rng.normal(size=(24, 48)), rng.normal(size=(50, 8, 8))


def _resonator(s, coefficients, signal):
    """A filter of second order, and the power of what it lets through."""

    def step(state, x):
        a, b, power = state
        y = coefficients[0] * x + coefficients[1] * a + coefficients[2] * b
        return y, a, power + y * y

    zero = 0.0 * signal[0]
    return s.scan(step, (zero, zero, zero), signal)[2]


def _signal():
    return np.array([0.1, 1.6, -0.7]), generator().normal(size=2000)


def _kalman(s, parameters, observed):
    """The likelihood of a level with a trend, by Kalman's filter of two states."""
    xp = s.np
    turn = xp.asarray(np.array([[1.0, 1.0], [0.0, 1.0]]))
    noise, error = xp.exp(parameters[:2]), xp.exp(parameters[2])

    def step(state, y):
        m, p, total = state
        m, p = turn @ m, turn @ p @ turn.T + xp.eye(2) * noise[None, :]
        v, f = y - m[0], p[0, 0] + error
        gain = p[:, 0] / f
        total = total + 0.5 * (xp.log(f) + v * v / f)
        return m + gain * v, p - gain[:, None] * p[0][None, :], total

    zero = 0.0 * parameters[0]
    return s.scan(step, (xp.zeros(2) + zero, xp.eye(2) + zero, zero), observed)[2]


def _levels():
    return np.array([-1.0, -2.0, 0.5]), np.cumsum(generator().normal(size=200))


def _hidden(s, moves, emissions):
    """The likelihood of a hidden chain of sixteen states, forwards, on logarithms."""
    xp = s.np
    logs = moves - logsumexp(xp, moves, 1)[:, None]

    def step(alpha, row):
        return logsumexp(xp, alpha[:, None] + logs, 0) + row

    return logsumexp(xp, s.scan(step, emissions[0] + 0.0 * moves[0], emissions[1:]), 0)


def _chain():
    rng = generator()
    return rng.normal(size=(16, 16)), rng.normal(size=(200, 16))


def _warped(s, x, y):
    """The soft distance of two series under warps of time, row by row."""
    xp = s.np
    d = (x[:, None] - y[None, :]) ** 2
    big = 1e3 + 0.0 * x[0]

    def row(above, costs):
        def cell(state, at):
            left, line, k = state
            corner, up, cost = at[0], at[1], at[2]
            three = xp.stack([left, corner, up])
            low = xp.min(three)
            best = low - 0.1 * xp.log(xp.sum(xp.exp((low - three) / 0.1)))
            value = cost + best
            line = xp.where(xp.arange(line.shape[0]) == k, value, line)
            return value, line, k + 1

        ats = xp.stack([above[:-1], above[1:], costs], 1)
        line = s.scan(cell, (big, 0.0 * costs, 0), ats)[1]
        return xp.concatenate([xp.reshape(big, (1,)), line])

    first = xp.concatenate([xp.zeros(1) + 0.0 * x[0], big + xp.zeros(y.shape[0])])
    return s.scan(row, first, d)[-1]


def _series():
    rng = generator()
    return rng.normal(size=24), rng.normal(size=24)


def _autoregression(s, coefficients, x):
    """The likelihood of an autoregression of order five."""
    xp, n, mean = s.np, x.shape[0], 0.0
    for k in range(5):
        mean = mean + coefficients[k] * x[4 - k : n - 1 - k]
    r = x[5:] - mean
    return 0.5 * xp.sum(r * r) / xp.exp(coefficients[5]) + 0.5 * (n - 5) * coefficients[5]


def _long_series():
    rng = generator()
    return 0.1 * rng.normal(size=6), rng.normal(size=5000)


def _option(s, market, noise):
    """The price of an option on a mean of prices, by simulated paths."""
    xp = s.np

    def step(state, row):
        log, total = state
        log = log + (market[1] - 0.5 * market[2] ** 2) * 0.02 + market[2] * 0.1414 * row
        return log, total + xp.exp(log)

    start = xp.log(market[0]) + xp.zeros(noise.shape[1])
    mean = s.scan(step, (start, 0.0 * start), noise)[1] / noise.shape[0]
    return xp.mean(xp.maximum(mean - 1.0, 0.0)) * xp.exp(-market[1])


def _paths():
    return np.array([1.0, 0.03, 0.2]), generator().normal(size=(50, 2000))


def _layer(s, w, b, scale, x, y):
    """Two layers with normalised batches between them."""
    xp = s.np
    h = x @ w
    h = (h - xp.mean(h, 0)) / xp.sqrt(xp.var(h, 0) + 1e-5) * scale + b
    return xp.mean((xp.sum(xp.maximum(h, 0.0), 1) - y) ** 2)


def _batch():
    rng = generator()
    return (
        0.1 * rng.normal(size=(32, 64)),
        rng.normal(size=64),
        rng.random(64),
        rng.normal(size=(256, 32)),
        rng.normal(size=256),
    )


def _distance(s, words, other):
    """The number of changes between a word and each of many, row by row."""
    xp, n = s.np, words.shape[1]

    def one(word):
        def row(above, letter):
            new = xp.minimum(above[1:] + 1, above[:-1] + (other != letter))
            new = xp.concatenate([above[:1] + 1, new])
            places = xp.arange(n + 1)
            gaps = places[:, None] - places[None, :]
            reach = xp.where(gaps >= 0, new[None, :] + gaps, 1000)
            return xp.min(reach, 1)

        return s.scan(row, xp.arange(n + 1), word)[-1]

    return s.vmap(one)(words)


def _vocabulary():
    rng = generator()
    return rng.integers(0, 4, (64, 16)), rng.integers(0, 4, 16)


PROGRAMS: dict[str, Program] = {
    "recurrent layer 100x32": Program(_recurrent, _recurrent_inputs, (0, 1)),
    "gated layer 50x8x16": Program(_gated, _gated_inputs),
    "resonator 2000": Program(_resonator, _signal),
    "Kalman filter 200": Program(_kalman, _levels),
    "hidden chain 200x16": Program(_hidden, _chain, (0, 1)),
    "time warps 24x24": Program(_warped, _series, (0, 1)),
    "autoregression 5000": Program(_autoregression, _long_series),
    "option 50x2000": Program(_option, _paths),
    "normalised layer 256x64": Program(_layer, _batch, (0, 1, 2)),
    "changes of words 64x16": Program(_distance, _vocabulary, ()),
}

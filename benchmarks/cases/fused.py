"""Programs that one kernel could do: Black-Scholes, softmax, logsumexp, layer norm, long chains."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from benchmarks.case import Case, compiled, kernel, random
from benchmarks.cases.functions import chain, chain_with_slope, over, summed_chain

OPTIONS, SHAPE, LONG = 1_000_000, (4096, 1024), 10_000_000


def _price(xp, erf, *terms):
    spot, strike, time, vol, rate = terms
    spread = vol * xp.sqrt(time)
    d1 = (xp.log(spot / strike) + (rate + 0.5 * vol * vol) * time) / spread
    up, down = (0.5 * (1.0 + erf(d * math.sqrt(0.5))) for d in (d1, d1 - spread))
    return spot * up - strike * xp.exp(-rate * time) * down


def greeks(s):
    """Price, delta, its negative theta, vega, rho, gamma."""

    def run(spot, strike, time, vol, rate):
        def price(spot, time, vol, rate):
            return _price(s.np, s.erf, spot, strike, time, vol, rate)

        ones = s.np.zeros_like(spot) + 1.0
        value, partials = s.value_and_pull(price)(ones, spot, time, vol, rate)
        gamma = s.hvp(lambda x: s.np.sum(price(x, time, vol, rate)))(spot, ones)
        return value, partials, gamma

    return s.jit(run)


def greeks_reference(spot, strike, time, vol, rate):
    root = np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + 0.5 * vol * vol) * time) / (vol * root)
    up, down = special.ndtr(d1), special.ndtr(d1 - vol * root)
    density = np.exp(-0.5 * d1 * d1) / math.sqrt(2.0 * math.pi)
    owed = strike * np.exp(-rate * time) * down
    theta = spot * density * vol / (2.0 * root) + rate * owed
    vega, rho = spot * density * root, time * owed
    return [spot * up - owed, up, theta, vega, rho, density / (spot * vol * root)]


def _greeks_loop(spot, strike, time, vol, rate):
    outs = [np.empty_like(spot) for _ in range(6)]
    for i in range(spot.size):
        root = math.sqrt(time[i])
        spread = vol[i] * root
        d1 = (math.log(spot[i] / strike[i]) + (rate[i] + 0.5 * vol[i] ** 2) * time[i]) / spread
        up = 0.5 * (1.0 + math.erf(d1 * math.sqrt(0.5)))
        down = 0.5 * (1.0 + math.erf((d1 - spread) * math.sqrt(0.5)))
        density = math.exp(-0.5 * d1 * d1) / math.sqrt(2.0 * math.pi)
        owed = strike[i] * math.exp(-rate[i] * time[i]) * down
        outs[0][i], outs[1][i] = spot[i] * up - owed, up
        outs[2][i] = spot[i] * density * vol[i] / (2.0 * root) + rate[i] * owed
        outs[3][i], outs[4][i] = spot[i] * density * root, time[i] * owed
        outs[5][i] = density / (spot[i] * spread)
    return outs


def _options():
    spot, strike, time, vol, rate = random(*[(OPTIONS,)] * 5)
    return 80 + 40 * spot, 80 + 40 * strike, 0.2 + time, 0.1 + 0.4 * vol, 0.01 + 0.05 * rate


def softmax(xp, x):
    if hasattr(xp, "softmax"):
        return xp.softmax(x)
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


def _logsumexp(xp, x):
    if hasattr(xp, "logsumexp"):
        return xp.logsumexp(x)
    top = xp.max(x, axis=1, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - top), axis=1)) + top[:, 0]


def layernorm(xp, x, scale, shift):
    if hasattr(xp, "layernorm"):
        return xp.layernorm(x, scale, shift)
    centred = x - xp.mean(x, axis=1, keepdims=True)
    variance = xp.mean(centred * centred, axis=1, keepdims=True)
    return centred / xp.sqrt(variance + 1e-5) * scale + shift


def softmax_vjp(ct, x):
    y = softmax(np, x)
    return [y, y * (ct - np.sum(ct * y, axis=1, keepdims=True))]


def _logsumexp_vjp(ct, x):
    return [_logsumexp(np, x), ct[:, None] * softmax(np, x)]


def layernorm_vjp(ct, x, scale, shift):
    centred = x - x.mean(axis=1, keepdims=True)
    inverse = 1.0 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)
    unit, dy = centred * inverse, ct * scale
    inner = dy - dy.mean(axis=1, keepdims=True) - unit * (dy * unit).mean(axis=1, keepdims=True)
    return [unit * scale + shift, inner * inverse, np.sum(ct * unit, axis=0), np.sum(ct, axis=0)]


def _softmax_numba(x):
    out = np.empty_like(x)
    for r in range(x.shape[0]):
        out[r] = np.exp(x[r] - np.max(x[r]))
        out[r] /= np.sum(out[r])
    return out


def _row_cases(name, program, pulled, extra, reduced):
    """Forward and vjp of one program over rows; `extra` are the shapes of further arguments."""
    size = SHAPE[0] * SHAPE[1]

    def inputs():
        return random(SHAPE, *extra, dtype=np.float32)

    def inputs_with_ct():
        return (*random(SHAPE[:1] if reduced else SHAPE, dtype=np.float32), *inputs())

    own = {"numba": compiled(_softmax_numba)} if name == "softmax" else {}
    out = [(SHAPE[:1] if reduced else SHAPE, np.float32)]
    pulled_out = out + [(shape, np.float32) for shape in (SHAPE, *extra)]
    yield Case(
        name=f"{name} fwd 4096x1024",
        inputs=inputs,
        reference=lambda *args: [program(np, *args)],
        body=lambda s: s.jit(over(s.np, program)),
        own=own | {"c": kernel(f"{name}_fwd", lambda *_: out, *SHAPE)},
        tolerance=1e-5,
        parallel=True,
        quick=name == "softmax",
        moved=4 * size * (1 if reduced else 2),
    )
    yield Case(
        name=f"{name} vjp 4096x1024",
        inputs=inputs_with_ct,
        reference=lambda *args: pulled(*(a.astype(np.float64) for a in args)),
        body=lambda s: s.jit(s.value_and_pull(over(s.np, program))),
        own={"c": kernel(f"{name}_vjp", lambda *_: pulled_out, *SHAPE)},
        tolerance=1e-3,
        parallel=True,
        quick=name == "softmax",
        moved=4 * size * (2 if reduced else 4),
    )


def _chain_case(mode):
    def forward(x):
        for k in range(10):
            x = x * 0.99 + 0.01 * (k % 5)
            x = x - 0.3 * (x * x) if k % 4 == 3 else x * 0.5
        return x

    fwd = mode == "fwd"
    return Case(
        name=f"chain of 30 cheap ops {mode} 1e7",
        inputs=lambda: random((LONG,)),
        reference=lambda x: [chain_with_slope(x, 30)[0 if fwd else 1]],
        body=lambda s: s.jit(
            over(s.np, lambda xp, x: chain(xp, x, 30))
            if fwd
            else s.grad(over(s.np, summed_chain(30)))
        ),
        own={"c": kernel(f"chain_{mode}", lambda x: [(x.shape, x.dtype)], LONG)}
        | ({"numba": compiled(forward, parallel=True)} if fwd else {}),
        parallel=True,
        moved=16 * LONG,
    )


CASES = [
    Case(
        name="Black-Scholes price+5 greeks 1e6",
        inputs=_options,
        reference=greeks_reference,
        body=greeks,
        own={
            "numba": compiled(_greeks_loop),
            "c": kernel("black_scholes", lambda x, *_: [(x.shape, x.dtype)] * 6, OPTIONS),
        },
        tolerance=1e-8,
        parallel=True,
        moved=88 * OPTIONS,
    ),
    *_row_cases("softmax", softmax, softmax_vjp, (), False),
    *_row_cases("logsumexp", _logsumexp, _logsumexp_vjp, (), True),
    *_row_cases("layernorm", layernorm, layernorm_vjp, ((1024,), (1024,)), False),
    _chain_case("fwd"),
    _chain_case("grad"),
]

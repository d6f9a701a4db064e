# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Statistics: standard errors, and Hamiltonian Monte Carlo
#
# A model is a log-likelihood. Its gradient finds the most likely parameters, its Hessian says how
# sure they are, and the gradient alone is enough to sample all parameters that fit the data.
#
# The data are real: before its last start the Challenger had flown with its sister ships 23 times,
# and each time it was noted at how many degrees Fahrenheit the ship started, and whether one of the
# six O-rings of its boosters showed damage (Dalal, Fowlkes and Hoadley, Risk Analysis of the Space
# Shuttle, 1989, table 1).

# %%
import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize

import ftrace

np.set_printoptions(precision=4, suppress=True)

degrees = np.array(
    [53, 57, 58, 63, 66, 67, 67, 67, 68, 69, 70, 70, 70, 70, 72, 73, 75, 75, 76, 76, 78, 79, 81.0]
)
damaged = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0.0])
print(len(degrees), "flights,", int(damaged.sum()), "with damage")

# %% [markdown]
# ## 1. Maximum likelihood
#
# A generalised linear model for yes and no: the logarithm of the odds of damage is a line in the
# temperature. `logaddexp` is `log(1 + exp(z))` without overflow.


# %%
def log_likelihood(w, degrees=degrees, damaged=damaged):
    z = w[0] + w[1] * degrees
    return np.sum(damaged * z - np.logaddexp(0.0, z))


def loss(w):
    return -log_likelihood(w)


# %% [markdown]
# SciPy's minimisers take functions of plain arrays, and ftrace's derivatives are such functions:

# %%
best = scipy.optimize.minimize(
    loss,
    x0=np.zeros(2),
    method="Newton-CG",
    jac=ftrace.jit(ftrace.grad(loss)),
    hess=ftrace.jit(ftrace.hessian(loss)),
    options={"xtol": 1e-12},
)
w = best.x
print(f"intercept {w[0]:.4f}, slope {w[1]:.4f} for each degree")

# %% [markdown]
# ## 2. Standard errors
#
# Near its maximum the log-likelihood is a parabola whose curvature is the observed information.
# The inverse of the Hessian of the loss is the covariance of the estimate. R's `glm` prints
# 15.0429 (7.3786) and -0.2322 (0.1082) for these data.

# %%
information = ftrace.hessian(loss)(w)
covariance = np.linalg.inv(information)
errors = np.sqrt(np.diag(covariance))
for name, value, error in zip(("intercept", "slope"), w, errors, strict=True):
    print(f"{name:9s} {value:9.4f}  standard error {error:.4f}  z {value / error:6.2f}")

# %% [markdown]
# For this model the information is also known in closed form, X^T diag(p (1 - p)) X:

# %%
X = np.stack([np.ones_like(degrees), degrees], axis=1)
p = 1 / (1 + np.exp(-X @ w))
print(np.abs(information - X.T @ (X * (p * (1 - p))[:, None])).max() < 1e-9)

# %% [markdown]
# A function of the estimate has an error, too: its gradient carries the covariance along (the
# delta method). It was 31 degrees on the morning of the last start.


# %%
def log_odds(w, at):
    return w[0] + w[1] * at


slope = ftrace.grad(log_odds)(w, 31.0)
centre, spread = log_odds(w, 31.0), np.sqrt(slope @ covariance @ slope)
low, mid, high = 1 / (1 + np.exp(-(centre + spread * np.array([-1.96, 0.0, 1.96]))))
print(f"damage at 31 degrees: {mid:.4f}, between {low:.3f} and {high:.6f}")

# %% [markdown]
# Is one flight the reason for it all? The estimate is a function of the data, given by an equation:
# the gradient is zero. `ftrace.implicit.root` is SciPy's solver with the derivative of that equation, so one Jacobian says how the slope would move with the temperature of each flight.


# %%
def estimate(degrees):
    def score(w):
        return ftrace.grad(log_likelihood)(w, degrees)

    return ftrace.implicit.root(score, w).x


influence = ftrace.jacrev(estimate)(degrees)[1]
most = np.argsort(-np.abs(influence))[:3]
print("most influence:", [(int(degrees[k]), int(damaged[k])) for k in most])
one = np.arange(23) == most[0]
again = (estimate(degrees + 0.01 * one)[1] - estimate(degrees - 0.01 * one)[1]) / 0.02
print(f"{influence[most[0]]:.5f}, and by moving that flight {again:.5f}")

# %% [markdown]
# ## 3. All parameters that fit: Hamiltonian Monte Carlo
#
# With a prior, the product of likelihood and prior is the density of the parameters. Hamiltonian
# Monte Carlo walks through it like a ball on a surface: leapfrog steps with the gradient, then one
# decision whether to keep the end. Parameters are centred, so that the surface is round.

# %%
centred = (degrees - degrees.mean()) / degrees.std()


def log_density(v):
    z = v[0] + v[1] * centred
    return np.sum(damaged * z - np.logaddexp(0.0, z)) - 0.5 * np.sum((v / 5.0) ** 2)


# %% [markdown]
# One step, written as one would on paper. `jit` compiles the loop with the gradient inside; `scan`
# makes a chain of it, and `vmap` sixteen chains. Random numbers come from keys, as in JAX.


# %%
def step(v, key, size=0.35, count=12):
    to_move, to_decide = ftrace.random.split(key)
    momentum = ftrace.random.normal(to_move, (2,))
    x, q = v, momentum + 0.5 * size * ftrace.grad(log_density)(v)
    for k in range(count):
        x = x + size * q
        q = q + (size if k < count - 1 else 0.5 * size) * ftrace.grad(log_density)(x)
    before = log_density(v) - 0.5 * np.sum(momentum**2)
    after = log_density(x) - 0.5 * np.sum(q**2)
    keep = np.log(ftrace.random.uniform(to_decide)) < after - before
    return np.where(keep, x, v), keep


def chain(key, length=1500):
    def one(v, key):
        v, kept = step(v, key)
        return v, (v, kept)

    return ftrace.lax.scan(one, np.zeros(2), ftrace.random.split(key, length))[1]


samples, kept = ftrace.jit(ftrace.vmap(chain))(ftrace.random.split(ftrace.random.key(0), 16))
samples = samples[:, 250:].reshape(-1, 2)
print(samples.shape, "accepted more than 80 %:", bool(kept.mean() > 0.8))

# %% [markdown]
# Two parameters are few enough to integrate on a grid, which tells whether the samples are right:

# %%
grid = np.stack(np.meshgrid(np.linspace(-6, 4, 400), np.linspace(-8, 4, 400), indexing="ij"), -1)
weight = np.exp(ftrace.jit(ftrace.vmap(log_density))(grid.reshape(-1, 2)))
weight = weight / weight.sum()
exact = weight @ grid.reshape(-1, 2)
deviation = np.sqrt(weight @ (grid.reshape(-1, 2) - exact) ** 2)
print("means     ", exact)
print("deviations", deviation)
print("sampled to 5 %:", bool(np.all(np.abs(samples.mean(0) - exact) < 0.05 * deviation)))
print("spread to 5 %: ", bool(np.all(np.abs(samples.std(0) / deviation - 1) < 0.05)))

# %% tags=["varies"]
lines = np.linspace(30, 82, 100)
at = (lines - degrees.mean()) / degrees.std()
curves = 1 / (1 + np.exp(-(samples[::40, :1] + samples[::40, 1:] * at)))
plt.figure(figsize=(6, 3))
plt.plot(lines, curves.T, color="C0", alpha=0.03)
plt.plot(lines, 1 / (1 + np.exp(-log_odds(w, lines))), color="C3")
plt.plot(degrees, damaged, "k.")
plt.xlabel("degrees Fahrenheit")
plt.ylabel("probability of damage")
plt.show()

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
# # Orbits, grids, and derivatives inside of derivatives
#
# Three places where derivatives are part of a larger computation: through the steps of an
# integrator, of ten thousand unknowns on a grid, and of functions that differentiate themselves.

# %%
from itertools import product as combinations

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse.linalg

import ftrace

np.set_printoptions(precision=6, suppress=True)

# %% [markdown]
# ## 1. Through an orbit
#
# Mercury, in astronomical units and years, at its perihelion: 0.3075 from the sun, with 12.44 units
# a year. The square of 2 pi is what attracts. Leapfrog steps in a plain Python loop:

# %%
ATTRACTION = (2 * np.pi) ** 2
START, SPEED = 0.307499, 12.441


def acceleration(r):
    return -ATTRACTION * r / np.sum(r * r) ** 1.5


def fly(speed, years, steps=1000):
    r, v = np.array([START, 0.0]), np.array([0.0, speed])
    dt = years / steps
    for _ in range(steps):
        v = v + 0.5 * dt * acceleration(r)
        r = r + dt * v
        v = v + 0.5 * dt * acceleration(r)
    return r


# %% [markdown]
# After one period the planet is back. The period is a root: the time at which its height is zero
# again. Newton's method takes the derivative by time through all steps.


# %%
def height(years, speed=SPEED):
    return fly(speed, years)[1]


slope = ftrace.jit(ftrace.grad(height))
value = ftrace.jit(height)
years = 0.24
for _ in range(6):
    years = years - value(years) / slope(years)
print(f"{years * 365.25:.2f} days")

# %% [markdown]
# How does the period change with the speed? `height(period(speed), speed) = 0`, so the derivative is
# a quotient of two gradients. Kepler has it in closed form: with E = v^2/2 - G/r and a = -G/(2E) the
# period is a^(3/2).


# %%
def kepler(speed):
    return (-ATTRACTION / (speed**2 - 2 * ATTRACTION / START)) ** 1.5


by_time, by_speed = ftrace.jit(ftrace.grad(height, argnums=(0, 1)))(years, SPEED)
print(f"through 1000 steps {-by_speed / by_time:.4f} years for one unit of speed")
print(f"Kepler             {ftrace.grad(kepler)(SPEED):.4f}")

# %% [markdown]
# ## 2. Ten thousand unknowns: sparse Newton
#
# Bratu's problem, heat that makes more heat: -u'' = 3 exp(u) on a square with cold edges. On a grid
# it is the minimum of an energy. Each point's energy knows its four neighbours only, so the Hessian
# has five elements in a row; ftrace finds where they are, and how few passes show them all.

# %%
n = 100
h = 1 / (n + 1)


def energy(u):
    p = np.pad(u.reshape(n, n), 1)
    steepness = np.sum(np.diff(p, axis=0) ** 2) + np.sum(np.diff(p, axis=1) ** 2)
    return 0.5 * steepness - 3.0 * h**2 * np.sum(np.exp(u))


gradient = ftrace.jit(ftrace.grad(energy))
hessian = ftrace.sparse.hessian(energy)
plan = hessian.plan(np.zeros(n * n))
print(f"{plan.pattern.nnz} elements of {n**4:,}, in {plan.passes} passes")

# %%
u = np.zeros(n * n)
for k in range(6):
    g = gradient(u)
    if np.abs(g).max() < 1e-12:
        break
    print(k, f"largest slope {np.abs(g).max():.1e}")
    u = u - scipy.sparse.linalg.spsolve(hessian(u).tocsc(), g)
print(f"highest {u.max():.5f}")

# %% [markdown]
# The answer is differentiable, too. By how much does the highest point rise with the heat? The
# gradient is zero at the answer for any heat, so one more solution with the same Hessian tells.


# %%
def slope_of_energy(heat):
    return ftrace.grad(lambda u: energy(u) - (heat - 3.0) * h**2 * np.sum(np.exp(u)))(u)


_, push = ftrace.jvp(slope_of_energy, (3.0,), (1.0,))
rise = -scipy.sparse.linalg.spsolve(hessian(u).tocsc(), push)
print(f"{rise[np.argmax(u)]:.5f} for one unit of heat")

# %% tags=["varies"]
plt.figure(figsize=(7, 3))
plt.subplot(1, 2, 1)
plt.imshow(u.reshape(n, n))
plt.title("u")
plt.subplot(1, 2, 2)
plt.imshow(plan.colouring.columns.reshape(n, n)[:12, :12], cmap="tab10")
plt.title("colours of the first points")
plt.show()

# %% [markdown]
# ## 3. Derivatives inside of derivatives
#
# In forward mode a derivative is a number with a second part: `value + slope*eps`. Where one derivative is taken
# inside of another there are two kinds of eps, and mixing them up is an old mistake. The inner
# derivative of `x + y` by y is 1 whatever x is, so that the whole is x, and its derivative is 1. Who
# has one eps for both adds the 1 of the outer x, and finds 2 (Siskind and Pearlmutter, Perturbation
# Confusion and Referential Transparency, 2005).


# %%
def product(x):
    return x * ftrace.grad(lambda y: x + y)(1.0)


print(ftrace.grad(product)(1.0))
print(ftrace.jvp(lambda x: x * ftrace.jvp(lambda y: x + y, (1.0,), (1.0,))[1], (1.0,), (1.0,))[1])

# %% [markdown]
# Each derivative has a tag of its own. Numbers print theirs: `eps[2,1]` is the first partial of the
# second level. The inner y knows both levels, because x entered it:


# %%
def shown(x):
    def inner(y):
        z = x * y * y
        print(repr(z))
        return z

    return ftrace.jvp(inner, (3.0,), (1.0,))[1]


print("d/dx of 2 x y at y = 3:", ftrace.jvp(shown, (2.0,), (1.0,))[1])

# %% [markdown]
# Functions that close over what an outer derivative moves are right at any depth, in every mix of
# modes; here all eight of three levels:

# %%
def forward(f):
    return lambda x: ftrace.jvp(f, (x,), (1.0,))[1]


def tower(modes):
    a, b, c = modes
    return a(lambda x: x**2 * b(lambda y: x * y**2 * c(lambda z: x * y * z**3)(y))(x))


print([f"{tower(m)(1.5):.4f}" for m in combinations((forward, ftrace.grad), repeat=3)])

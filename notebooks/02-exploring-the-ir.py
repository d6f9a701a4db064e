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
# # Exploring the IR
#
# ftrace records a function as a **jaxpr**: a short typed program of primitive operations. Every
# transformation takes such a program to another one, so all of them can be printed. This
# notebook follows *one* function through all stations:
#
# jaxpr → jvp → linearize → transpose → batch

# %%
from collections import Counter

import numpy as np

import ftrace

np.set_printoptions(precision=6)


def f(x):
    y = np.sin(x)
    return np.sum(y * x)


x = np.array([0.5, 1.0, 2.0])

# %% [markdown]
# ## 1. The jaxpr
#
# `make_jaxpr(f)(x)` runs `f` once with a tracer in place of `x` and returns what it saw. One
# equation a line: `name:type = primitive operands`. `f64[3]` is an array of three float64.

# %%
program = ftrace.make_jaxpr(f)(x)
program

# %% [markdown]
# A jaxpr is a small data structure: typed inputs, equations in order, outputs.

# %%
print("inputs ", program.in_avals)
print("outputs", program.out_avals)
for eqn in program.eqns:
    print(eqn.primitive.name, [v.aval for v in eqn.invars], "->", [v.aval for v in eqn.outvars])

# %% [markdown]
# The values are gone, only shapes and dtypes are left; so a Python `if` on a value would have
# nothing to look at here. Plain numbers that do not depend on the input are computed while tracing,
# and only their result appears:

# %%
ftrace.make_jaxpr(lambda x: x * np.sqrt(16.0))(x)

# %% [markdown]
# ## 2. jvp: carry a tangent along
#
# Forward mode runs the program once and applies one rule per equation: the rule of `sin` turns a
# tangent `t` into `t * cos(x)`. Value and derivative come out together.

# %%
ftrace.make_jaxpr(lambda x, t: ftrace.jvp(f, (x,), (t,)))(x, x)

# %% [markdown]
# ## 3. linearize: keep only what depends on the tangent
#
# At a fixed `x`, everything that does not depend on the tangent can be computed now. What is left
# is a *linear* program: it contains only multiplications by known arrays, sums, and other linear
# operations. The known arrays are its captured constants, before the `;`.

# %%
value, f_lin = ftrace.linearize(f, x)
print(f"value {value:.6f}")
ftrace.make_jaxpr(f_lin)(x)

# %% [markdown]
# The primal work was done once; the linear program can now be applied to many tangents:

# %%
for t in np.eye(3):
    print(t, "->", f"{f_lin(t):.6f}")

# %% [markdown]
# ## 4. transpose: run the linear program backwards
#
# A linear program can be transposed, equation by equation, from the last to the first: a sum becomes
# a broadcast, multiplication by `c` stays multiplication by `c`, and where a value was used twice,
# the two contributions are added. This is reverse mode; there is no other machinery behind `grad`.

# %%
f_transposed = ftrace.linear_transpose(f_lin, x)
print(f_transposed(1.0))
ftrace.make_jaxpr(f_transposed)(np.float64(1.0))

# %% [markdown]
# `grad` is the three steps in a row: linearize, transpose, apply to 1. As one program:

# %%
ftrace.make_jaxpr(ftrace.grad(f))(x)

# %%
print(ftrace.grad(f)(x))
print(np.cos(x) * x + np.sin(x), "on paper")

# %% [markdown]
# ## 5. batch: an extra axis for every value
#
# `vmap` rewrites each equation for operands with one more axis. The program has as many equations as
# before, only larger ones: no loop over the examples.

# %%
xs = np.stack([x, x + 1.0])
ftrace.make_jaxpr(ftrace.vmap(f))(xs)

# %% [markdown]
# Everything composes, since every station takes a program and gives a program. The gradient of every
# example in a batch:

# %%
batched_gradient = ftrace.make_jaxpr(ftrace.vmap(ftrace.grad(f)))(xs)
print(batched_gradient)

# %% [markdown]
# ## 6. Programs inside programs
#
# `jit`, `cond`, `while_loop`, `checkpoint` and custom rules are primitives as well: their bodies are
# jaxprs among the equation's parameters.


# %%
s = np.float64(0.5)


@ftrace.jit
def inner(y):
    return np.tanh(y) * 2.0


ftrace.make_jaxpr(lambda x: ftrace.lax.cond(x > 0.0, inner, np.negative, x) + 1.0)(s)

# %% [markdown]
# Differentiating such a program differentiates the bodies. In the gradient of `cond`, the forward
# `cond` hands over what the backward one needs (its residuals):

# %%
ftrace.make_jaxpr(ftrace.grad(lambda x: ftrace.lax.cond(x > 0.0, np.sin, np.exp, x)))(s)

# %% [markdown]
# ## 7. How programs grow
#
# The number of equations is the price of a derivative, before any compiler has seen it. Each line
# counts the primitives of one more derivative of `x sin(x)`:


# %%
def g(x):
    return x * np.sin(x)


for order in range(4):
    eqns = ftrace.make_jaxpr(g)(s).eqns
    names = Counter(eqn.primitive.name for eqn in eqns)
    counts = ", ".join(f"{n} {name}" for name, n in sorted(names.items()))
    print(f"order {order}: {len(eqns):2d} equations ({counts})")
    g = ftrace.grad(g)

# %% [markdown]
# ## What comes after the jaxpr
#
# This notebook ends where a compiler would begin: the jaxpr is all that a backend needs to know of
# your function.

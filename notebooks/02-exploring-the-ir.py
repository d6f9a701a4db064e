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
# jaxpr → jvp → linearize → transpose → batch → kernels → LLVM → machine code

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
# ## 8. Kernels: from arrays to loops
#
# The jaxpr is all that the compiler needs to know of your function. `jit(f).lower(x)` shows what it
# makes of it. A **kernel** is a nest of loops over scalars: buffers with a step per axis (`1` is
# neighbours in memory, `*` a number known at run time), sizes as run-time operands (`n0`), and what
# a loop folds. The whole of `f` is one kernel; the product is never stored.

# %%
lowered = ftrace.jit(f).lower(x)
print(*lowered.kernels)

# %% [markdown]
# `32 ways, blocks of 1024` is the order in which the sum is taken. It belongs to the kernel and not to
# the machine, so that every machine adds in the same order. The gradient, jaxpr and kernel:

# %%
lowered_gradient = ftrace.jit(ftrace.grad(f)).lower(x)
print(lowered_gradient.jaxpr)
print(*lowered_gradient.kernels)

# %% [markdown]
# Slices, transposes and broadcasts are not computed at all: they change where an element is read.
# Here `x0` is read backwards (`-1`), and `x1` across its rows:

# %%
lowered_views = ftrace.jit(lambda v, m: v[::-1] + m.T).lower(np.zeros(4), np.zeros((4, 3)))
print(*lowered_views.kernels)

# %% [markdown]
# A reduction that needs the result of another one over the same row is a further pass in the same
# kernel. Softmax is one kernel of three passes over each row: maximum, sum, quotient.


# %%
def softmax(m):
    exps = np.exp(m - np.max(m, axis=1, keepdims=True))
    return exps / np.sum(exps, axis=1, keepdims=True)


rows = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
lowered_softmax = ftrace.jit(softmax).lower(rows)
print(*lowered_softmax.kernels)

# %% [markdown]
# `cost()` counts kernels, what they read and write, and their operations:

# %%
lowered_softmax.cost()

# %% [markdown]
# ## 9. Programs: what happens in a call
#
# A **program** runs steps on slots: arguments, constants, results, and places in one block of memory
# per call, the arena. A matrix product, unless it is small, has no kernel: NumPy computes it, called
# from the middle of the program (`Callback`).


# %%
def layer(v, w, b):
    return softmax(np.tanh(v @ w) + b)


def show_program(lowered):
    print(lowered)
    for slot in lowered.program.slots:
        print("  slot", slot.place, slot.aval)
    for step in lowered.program.steps:
        print("  step", type(step).__name__)


lowered_layer = ftrace.jit(layer).lower(np.ones((32, 64)), np.ones((64, 16)), np.ones(16))
show_program(lowered_layer)

# %% [markdown]
# Loops over scalars stay in machine code from the first turn to the last; here is a square root by
# Newton's method with its derivative.


# %%
def square_root(a):
    def step(guess):
        return 0.5 * (guess + a / guess)

    return ftrace.lax.while_loop(lambda g: np.abs(g * g - a) > 1e-12 * a, step, 1.0 * a)


slope_of_root = ftrace.jit(lambda a: ftrace.jvp(square_root, (a,), (1.0,))[1])
print(f"{slope_of_root(2.0):.12f}, on paper {0.5 / np.sqrt(2.0):.12f}")
print("rows left to the library:", slope_of_root.lower(2.0).cost().callbacks)

# %% [markdown]
# In reverse mode the loop records: beside its number of turns it leaves a *tape*, an array with an
# element for each turn, and a `scan` goes back over it.

# %%
print(ftrace.make_jaxpr(ftrace.grad(square_root))(2.0))

# %% [markdown]
# ## 10. LLVM and machine code
#
# Each kernel becomes one function of LLVM's language, for the vectors of the machine at hand; on
# AVX-512 machines every vector runs under a mask, so that the ragged end of an array needs no code
# of its own. (This page was made on such a machine; the outputs below differ on others.)


# %% tags=["varies"]
def bump(x):
    return 1.0 / (1.0 + x * x)


lowered_bump = ftrace.jit(bump).lower(x)
print(*lowered_bump.kernels)
lines = lowered_bump.llvm.splitlines()
start = next(i for i, line in enumerate(lines) if "@kernel0(" in line)
print(*lines[start : start + 40], sep="\n")

# %% [markdown]
# LLVM only translates this; no optimisation passes run. The kernel's machine code:

# %% tags=["varies"]
assembly = lowered_bump.asm.splitlines()
start = next(i for i, line in enumerate(assembly) if "kernel0:" in line)
print(*assembly[start : start + 40], sep="\n")

# %% [markdown]
# Sizes and literals are operands: they lie in the program's table and not in the text. So another
# size, and another constant, have the same LLVM text, which is the key under which compiled code is
# kept. Only the table differs. (A kernel that threads share has a text of its own: that depends on
# whether it is large, not on how large it is.)

# %%
small = ftrace.jit(softmax).lower(np.ones((3, 4)))
large = ftrace.jit(softmax).lower(np.ones((100, 77)))
print("same text:", small.llvm == large.llvm)
print("tables:   ", small.program.table, large.program.table)
print(
    "constants:",
    ftrace.jit(lambda x: 3.7 * x).lower(x).llvm == ftrace.jit(lambda x: 4.2 * x).lower(x).llvm,
)

# %% [markdown]
# So the first call of a function traces, plans and compiles; a second size only traces and plans.

# %% tags=["varies"]
from time import perf_counter

g = ftrace.jit(ftrace.vmap(lambda x: np.exp(-x * x) / (1.0 + np.abs(x))))
for n in (1000, 1000, 70, 70):
    v = np.ones(n)
    start = perf_counter()
    g(v)
    print(f"n = {n:4d}: {1e3 * (perf_counter() - start):8.3f} ms")

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
# # On a GPU
#
# Give a jitted function a CuPy array, and it runs on the GPU that the array is on:
#
# ```python
# import cupy
# y = ftrace.jit(f)(cupy.asarray(x))      # y is a cupy.ndarray
# ```
#
# This page runs **without** a GPU: it shows what ftrace would start on one. `jit(f).lower(x)` keeps a
# program at every level, and `.on("sm_90")` is the same program for a GPU of that architecture
# (Hopper: H100, H200), which need not be there. Only machine code needs a compiler, NVIDIA's, which
# the extra `gpu-static` brings; it needs no driver.

# %%
import numpy as np

import ftrace
import ftrace.numpy as fnp
from ftrace import lax


def activation(x, y):
    return np.tanh(x * y) + x


x = np.ones((4096, 1000), np.float32)
lowered = ftrace.jit(activation).lower(x, x).on("sm_90")
lowered

# %% [markdown]
# ## 1. Threads and blocks
#
# The kernels are those of the CPU: loops over scalars, that say nothing of machines.

# %%
print(*lowered.kernels)

# %% [markdown]
# How the loops fall on the grid is a choice of its own. Here each thread takes four neighbours, which
# it reads and writes as one vector of 16 bytes:

# %% tags=["varies"]
print(*lowered.launches)

# %% [markdown]
# A view of the array changes where an element is read. Transposed, `y` is no vector any more:

# %% tags=["varies"]
square = np.ones((2048, 2048), np.float32)
across = ftrace.jit(lambda x, y: activation(x, y.T)).lower(square, square)
print(*across.on("sm_90").launches)

# %% [markdown]
# Reductions need teams of threads. What a team is depends on which way the sum goes, and on how many
# sums there are: a warp for each row; threads side by side for columns, so that neighbours read
# neighbours; all blocks for one sum, and a second function that adds what they leave.

# %% tags=["varies"]
wide = np.ones((16, 1_000_000), np.float32)
sums = {
    "rows": (lambda x: x.sum(1), x),
    "columns": (lambda x: x.sum(0), x),
    "long rows": (lambda x: x.sum(1), wide),
    "everything": (lambda x: x.sum(), x),
}
for name, (total, operand) in sums.items():
    print(f"{name:11}", *ftrace.jit(total).lower(operand).on("sm_90").launches)

# %% [markdown]
# The same sum on a GPU with fewer processors is spread over fewer blocks:

# %% tags=["varies"]
for arch in ("sm_75", "sm_80", "sm_90", "sm_100"):
    print(f"{arch:6}", *ftrace.jit(lambda x: x.sum()).lower(x).on(arch).launches)

# %% [markdown]
# ## 2. CUDA C
#
# Each kernel becomes a function (two, if blocks share a sum). Sizes and steps are operands, so
# another size of the same kind runs the same code.

# %% tags=["varies"]
print(lowered.cuda)

# %% [markdown]
# On the CPU the same attribute says where to look instead:

# %%
try:
    lowered.on("cpu").cuda
except ftrace.errors.BackendError as error:
    print(error.what, error.fix)

# %% [markdown]
# ## 3. Registers and machine code
#
# `asm` is what NVIDIA's compiler makes of it: registers and stack first, then instructions.
# `LDG.E.128` is a load of four float32, `STG.E.128` a store.


# %% tags=["varies"]
def machine_code(lowered):
    try:
        return lowered.asm
    except ftrace.errors.BackendError as error:  # no compiler, or no disassembler
        return f"not here: {error.what}"


text = machine_code(lowered)
for line in text.splitlines():
    if "REG:" in line or "LDG" in line or "STG" in line or "not here" in line:
        print(line.split("/* 0x")[0].strip())

# %% [markdown]
# ## 4. What crosses memory
#
# Elementwise work on a GPU is bound by memory, so bytes are what counts. `cost()` counts them on the
# plan: two operands and a result of 16 MB each.

# %%
cost = lowered.cost()
print(cost.kernels, "kernel,", cost.bytes / x.nbytes, "times the size of x")

# %% [markdown]
# The gradient of a sum by both operands reads two arrays and writes two. There is no array in
# between, and the sum itself, which nobody asked for, is not taken.

# %%
gradients = ftrace.grad(lambda x, y: activation(x, y).sum(), argnums=(0, 1))
lowered_gradients = ftrace.jit(gradients).lower(x, x).on("sm_90")
cost = lowered_gradients.cost()
print(cost.kernels, "kernel,", cost.bytes / x.nbytes, "times the size of x")

# %% [markdown]
# Softmax goes over each row three times, and yet reads and writes it once: a row that fits stays in
# registers between the passes.


# %% tags=["varies"]
def softmax(m):
    exps = np.exp(m - np.max(m, axis=1, keepdims=True))
    return exps / np.sum(exps, axis=1, keepdims=True)


lowered_softmax = ftrace.jit(softmax).lower(x).on("sm_90")
print(*lowered_softmax.launches)
print(lowered_softmax.cost().bytes / x.nbytes, "times the size of x")

# %% [markdown]
# ## 5. The order of a sum
#
# In floating point the order of a sum shows in its last digits. It is part of the kernel: `32 ways`
# are 32 accumulators, combined in pairs, and every run of it gives the same bits. On a GPU there are
# as many as the team has threads, and float32 is added with the rounding errors carried along, since
# double precision is slow on many GPUs; the CPU adds float32 in double precision.

# %% tags=["varies"]
rows = ftrace.jit(lambda x: x.sum(1)).lower(x)
print("CPU:", *rows.kernels)
print("GPU:", *rows.on("sm_90").kernels)

# %% [markdown]
# ## 6. What is no kernel
#
# A program is a list of steps. Matrix products are cuBLAS's, sorting is CuPy's (`Callback`);
# [the table of support](../docs/support.md) says so for every primitive.


# %%
def show_steps(f, *args):
    program = ftrace.jit(f).lower(*args).on("sm_90").program
    for step in program.steps:
        rows = [program.callbacks[step.number].eqn.primitive] if hasattr(step, "number") else []
        print(type(step).__name__, *rows)


def layer(v, w):
    return np.sort(softmax(v @ w), axis=1)


show_steps(layer, np.ones((128, 64), np.float32), np.ones((64, 32), np.float32))

# %% [markdown]
# A loop over numbers is a loop inside a thread. Here are the slopes of a square root by Newton's
# method at every place of an array, with as many turns as each place needs: one kernel.


# %%
def root(a):
    def step(guess):
        return 0.5 * (guess + a / guess)

    return lax.while_loop(lambda g: fnp.abs(g * g - a) > 1e-6 * a, step, 1.0 * a)


slopes = ftrace.vectorize(lambda a: ftrace.jvp(root, (a,), (1.0,))[1])
show_steps(slopes, np.ones(1_000_000))

# %% [markdown]
# A loop over arrays is a step that holds steps. Python starts its kernels, and after each turn reads
# one flag from the GPU to know whether to go on.

# %%
show_steps(lambda x: lax.while_loop(lambda s: s.sum() < 1e9, lambda s: s * 1.5, x), x)

# %% [markdown]
# ## 7. With a GPU
#
# - `ftrace.grad(f)(cupy_array)` works without `jit`, too: each operation by CuPy.
# - The device follows the data. A NumPy array and a CuPy array in one operation raise `DeviceError`,
#   which names both; plain numbers are fine.
# - Results stay on the GPU, numbers too; `float(y)` waits for one and fetches it.
# - A program of three launches or more is replayed as a CUDA graph when its arrays lie where they did
#   before.
# - `jit(f).lower(cupy_array)` shows the program for the GPU at hand.

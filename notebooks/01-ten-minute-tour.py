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
# # The ten-minute tour
#
# ftrace turns Python functions over NumPy arrays into new functions: their derivatives (`grad`,
# `jvp`, `vjp`, `hessian`), their batched form (`vmap`), their compiled form (`jit`). The names are
# JAX's; the arrays are plain `numpy.ndarray`; your functions stay as they are.
#
# This notebook shows each of them once, on functions small enough to check by eye.

# %%
from dataclasses import dataclass

import numpy as np

import ftrace

np.set_printoptions(precision=6, suppress=True)

# %% [markdown]
# ## 1. The derivative of a function you already have
#
# `f` below knows nothing of ftrace: plain `numpy`, plain operators. `ftrace.grad(f)` is a new
# function that returns the gradient, an ordinary array.


# %%
def f(x):
    return np.sum(np.sin(x) * x**2)


x = np.array([0.5, 1.0, 2.0])
slope = ftrace.grad(f)(x)
print(type(slope).__name__, slope)
print("on paper ", np.cos(x) * x**2 + 2 * x * np.sin(x))

# %% [markdown]
# `grad(f)` is a Python function like any other, so it can be differentiated again, as often as
# you like:


# %%
def wave(t):
    return np.exp(-t) * np.sin(3 * t)


third = ftrace.grad(ftrace.grad(ftrace.grad(wave)))
print(f"{third(0.4):.12f}")
print(f"{np.exp(-0.4) * (26 * np.sin(1.2) - 18 * np.cos(1.2)):.12f}  on paper")

# %% [markdown]
# Native control flow just runs. Here a `while` loop computes a square root by Newton's method; the
# derivative of sqrt(a) is 1 / (2 sqrt(a)).


# %%
def square_root(a):
    guess = a
    while abs(guess * guess - a) > 1e-12:
        guess = 0.5 * (guess + a / guess)
    return guess


value, slope = ftrace.value_and_grad(square_root)(2.0)
print(f"value {value:.12f}, slope {slope:.12f}, on paper {0.5 / np.sqrt(2.0):.12f}")

# %% [markdown]
# ## 2. Parameters in a dataclass
#
# Arguments may be nested containers: dicts, lists, tuples and dataclasses, without registration.
# The gradient has the same structure, and `ftrace.tree.map` walks several of them at once: one
# line is a step of gradient descent.


# %%
@dataclass
class Line:
    slope: float
    offset: float


def squared_error(line, x, y):
    return np.mean((line.slope * x + line.offset - y) ** 2)


x = np.linspace(-1.0, 1.0, 21)
y = 3.0 * x - 0.5

line = Line(slope=0.0, offset=0.0)
step = ftrace.grad(squared_error)
for _ in range(200):
    line = ftrace.tree.map(lambda p, g: p - 0.3 * g, line, step(line, x, y))
print(f"slope {line.slope:.6f}, offset {line.offset:.6f}")

# %% [markdown]
# `argnums` chooses what to differentiate, by position or by *name*; `has_aux=True` returns
# something beside the value.

# %%
with_respect_to_x = ftrace.grad(squared_error, argnums="x")
print(with_respect_to_x(Line(1.0, 0.0), np.array([1.0, 2.0]), np.array([0.0, 0.0])))

# %% [markdown]
# ## 3. In-place updates
#
# Code that fills an array, or changes one in place, is differentiated too. Create the array with
# `ftrace.numpy` (or from a traced one): plain `np.zeros` makes a buffer of numbers, which has no
# room for a derivative.

# %%
import ftrace.numpy as fnp


def running_product(x):
    out = fnp.zeros(x.shape)
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = out[i - 1] * x[i]
    out[1:] *= 2.0
    return out


x = np.array([1.0, 2.0, 3.0])
print(running_product(x))
print(ftrace.jacobian(running_product)(x))

# %% [markdown]
# ## 4. `vmap`: one example becomes a batch
#
# Write the function for one example; `vmap` runs it for all at once, without a Python loop over the
# examples. It composes: `vmap(grad(f))` gives the gradient for every example.


# %%
def energy(position):
    radius = np.sqrt(np.sum(position**2))
    return (radius - 1.0) ** 2


positions = np.array([[3.0, 4.0], [0.0, 2.0], [0.3, 0.4]])
print("energies", ftrace.vmap(energy)(positions))
print("gradients\n", ftrace.vmap(ftrace.grad(energy))(positions))

# %% [markdown]
# `in_axes` says which arguments have the extra axis, and where:

# %%
distance = ftrace.vmap(lambda p, q: np.sqrt(np.sum((p - q) ** 2)), in_axes=(0, None))
print(distance(positions, np.array([0.0, 0.0])))

# %% [markdown]
# ## 5. `jit`: trace once, compile
#
# `jit` runs your function once per kind of argument (shape and dtype), records the operations and
# compiles the record to machine code; from then on a call runs that code. The `print` below tells
# when the Python code runs.


# %%
@ftrace.jit
def normalise(v):
    print("  tracing for", v.shape, v.dtype)
    return v / np.sqrt(np.sum(v * v))


print(normalise(np.array([3.0, 4.0])))
print(normalise(np.array([5.0, 12.0])))
print(normalise(np.array([1.0, 2.0, 2.0])))

# %% [markdown]
# The transformations nest in any order: here the gradient of a jitted function, batched, jitted.

# %%
first_of_normalised = ftrace.grad(lambda v: normalise(v)[0])
print(ftrace.jit(ftrace.vmap(first_of_normalised))(np.array([[3.0, 4.0], [5.0, 12.0]])))

# %% [markdown]
# NumPy makes a pass over memory for every operation; compiled code makes one for as many as belong
# together. Here is the slope of `wave` at a million points, written out in NumPy and compiled from
# the derivative. The difference is rounding; the times are those of the machine that ran this page.

# %%
slopes = ftrace.jit(ftrace.vmap(ftrace.grad(wave)))


def slopes_on_paper(t):
    return np.exp(-t) * (3.0 * np.cos(3.0 * t) - np.sin(3.0 * t))


t = np.linspace(0.0, 2.0, 1_000_000)
print("largest difference below 1e-14:", np.max(np.abs(slopes(t) - slopes_on_paper(t))) < 1e-14)
print("kernels:", len(slopes.lower(t).kernels))

# %% tags=["varies"]
from statistics import median
from time import perf_counter


def milliseconds(function):
    start = perf_counter()
    function(t)
    return 1e3 * (perf_counter() - start)


rounds = [(milliseconds(slopes_on_paper), milliseconds(slopes)) for _ in range(9)]
for name, times in zip(("NumPy", "compiled"), zip(*rounds, strict=True), strict=True):
    print(f"{name:9}{median(times):7.2f} ms (median of {len(times)}, in turns)")

# %% [markdown]
# ## 6. Forward, backward, second order
#
# * `jvp(f, (x,), (t,))`: the value, and the derivative *along* `t` (forward mode).
# * `vjp(f, x)`: the value, and a function that pulls a cotangent back (reverse mode).
# * `jacfwd`, `jacrev`, `hessian`, `hvp`: made from these two.


# %%
def swirl(x):
    return np.stack([x[0] * x[1], np.sin(x[0]), x[1] ** 3])


x = np.array([0.5, 2.0])
value, along = ftrace.jvp(swirl, (x,), (np.array([1.0, 0.0]),))
print("value         ", value)
print("along (1, 0)  ", along)
value, pull = ftrace.vjp(swirl, x)
print("pulled back   ", pull(np.array([1.0, 0.0, 0.0]))[0])
print("Jacobian\n", ftrace.jacfwd(swirl)(x))
print("forward and reverse agree:", np.allclose(ftrace.jacfwd(swirl)(x), ftrace.jacrev(swirl)(x)))


# %%
def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


x = np.array([0.0, 0.0])
for _ in range(3):
    x = x - np.linalg.solve(ftrace.hessian(rosenbrock)(x), ftrace.grad(rosenbrock)(x))
    print("Newton step to", x)
print("Hessian times (1, 0):", ftrace.hvp(rosenbrock, (x,), (np.array([1.0, 0.0]),)))

# %% [markdown]
# ## 7. Errors that say what to do
#
# What cannot be right is refused, by an error with three parts: what happened, where in *your* code,
# and what to do instead. A few that everybody meets (the place, a line of this notebook, is left out
# here):


# %%
def show_error(function, *args):
    try:
        function(*args)
    except ftrace.errors.FtraceError as error:
        print(f"{type(error).__name__}: {error.what}\n -> {error.fix}\n")


show_error(ftrace.grad(lambda x: np.sin(x)), np.array([1.0, 2.0]))
show_error(ftrace.grad(np.sum), np.array([1, 2, 3]))
show_error(ftrace.jit(lambda x: x.item() + 1), 1.0)


# %%
def writes_to_its_argument(x):
    x[0] = 0.0
    return np.sum(x)


def fills_a_plain_array(x):
    out = np.zeros(3)
    out[0] = x
    return np.sum(out)


leaked = []


def leaks(x):
    leaked.append(x)
    return x * x


show_error(ftrace.grad(writes_to_its_argument), np.array([1.0, 2.0]))
show_error(ftrace.grad(fills_a_plain_array), 1.0)
ftrace.grad(leaks)(1.0)
show_error(lambda: leaked[0] + 1.0)

# %% [markdown]
# ## 8. Your own derivative rules
#
# `log(1 + exp(x))` overflows for large `x`, and so does its derivative if it is taken step by step.
# `custom_jvp` replaces the derivative by the formula you know.


# %%
@ftrace.custom_jvp
def softplus(x):
    return np.logaddexp(x, 0.0)


@softplus.defjvp
def softplus_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return softplus(x), t / (1.0 + np.exp(-x))


print(ftrace.vmap(ftrace.grad(softplus))(np.array([-1.0, 0.0, 50.0])))
print(f"second derivative at 0: {ftrace.grad(ftrace.grad(softplus))(0.0):.6f}")

# %% [markdown]
# `custom_vjp` replaces the *reverse* rule. This function returns its argument unchanged, but
# limits the gradient that flows back through it:


# %%
@ftrace.custom_vjp
def limit_gradient(x):
    return x


def limit_forward(x):
    return x, None


def limit_backward(_, ct):
    return (np.clip(ct, -1.0, 1.0),)


limit_gradient.defvjp(limit_forward, limit_backward)

print(ftrace.grad(lambda x: 100.0 * limit_gradient(x))(3.0))

# %% [markdown]
# ## 9. Control flow: write Python
#
# `if`, `while`, `for`, `break` and early `return` stay Python where values are known. Where a traced
# value decides, `jit` and `vmap` rewrite your function (`ftrace.lift` does it on demand): compiled
# code loops natively, under `vmap` each member stops by itself, and every derivative goes through.


# %%
def square_root(a):
    guess = a
    while abs(guess * guess - a) > 1e-12 * a:
        guess = 0.5 * (guess + a / guess)
    return guess


areas = np.array([2.0, 9.0, 100.0])
slopes = ftrace.jit(ftrace.vmap(ftrace.grad(square_root)))(areas)
print(slopes, np.allclose(slopes, 0.5 / np.sqrt(areas)))
print(f"second derivative at 2: {ftrace.hessian(square_root)(2.0):.7f}")


# %% [markdown]
# What cannot mean anything under a traced condition is refused, with the line:


# %%
def forgets_a_side(x):
    if x > 0:
        y = x * x
    return y


show_error(ftrace.jit(forgets_a_side), 1.0)


# %% [markdown]
# ### A scalar function at every place of arrays: one kernel
#
# `vectorize` takes a function of numbers, with any control flow, and runs it at every place of
# arrays that broadcast. It is one kernel, and its partial derivatives are computed inside another
# one, whatever mode the program around it uses.


# %%
@ftrace.vectorize
def throw(angle, speed):
    """How far a ball flies against the drag of air, in steps of a millisecond."""
    dt, x, y = 0.001, 0.0, 0.0
    vx, vy = speed * np.cos(angle), speed * np.sin(angle)
    while y >= 0.0:
        drag = 0.01 * np.sqrt(vx * vx + vy * vy)
        before, x, y = (x, y), x + dt * vx, y + dt * vy
        vx, vy = vx - dt * drag * vx, vy - dt * (9.81 + drag * vy)
    return before[0] + (x - before[0]) * before[1] / (before[1] - y)


angles, speeds = np.linspace(0.4, 1.0, 5), np.array([[20.0], [40.0]])
print(throw(angles, speeds).round(2))
print("by the angle:", ftrace.grad(lambda a: throw(a, 30.0).sum())(angles).round(2))
print("kernels:", throw.lower(angles, speeds).cost().kernels)

# %% [markdown]
# `debug.blame` says which line of yours made a NaN, a derivative that is exactly zero, or a jump
# that a derivative does not see:


# %%
def length(v):
    return np.sqrt(np.sum(v * v))


print(ftrace.debug.blame(length, np.zeros(3)).findings[0].text)

# %% [markdown]
# ### The same with JAX's loops
#
# `lax.scan` carries a value along an array and stacks what each turn leaves. With
# `checkpoint="binomial"` reverse mode keeps a handful of states instead of every turn's.


# %%
def pendulum(length, turns=400, dt=0.01):
    """The angle of a pendulum after some time, started at an angle of 1."""

    def step(state, _):
        angle, speed = state
        speed = speed - dt * 9.81 / length * np.sin(angle)
        angle = angle + dt * speed
        return (angle, speed), None

    start = (1.0, 0.0)
    keep = {"checkpoint": "binomial", "slots": 5}
    (angle, _), _ = ftrace.lax.scan(step, start, length=turns, **keep)
    return angle


print(f"angle {pendulum(1.0):.6f}, by its length {ftrace.grad(pendulum)(1.0):.6f}")

# %% [markdown]
# ## Where next
#
# * `02-exploring-the-ir.ipynb` looks inside: the jaxpr of a function, what each transformation
#   makes of it, and the kernels and machine code that `jit` makes.
# * `make demo` trains a network on handwritten digits beside a hand-written gradient, and compares
#   compiled functions with NumPy.
# * `help(ftrace.grad)`: every public function has a runnable example.
